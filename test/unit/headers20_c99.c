/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of DAT 2.0 in a C99 consumer: it includes the header of the extensions, and no other
 * header of DAT or of the network.
 */
#include <dat2/dat_ib_extensions.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Programs may define this name: the library exports it without a declaration. */
enum { dats_get_ia_handle };

static struct {
	const char *name;
	DAT_COUNT qlen;
	DAT_EVD_HANDLE *async_evd;
	DAT_IA_HANDLE *ia;
	DAT_UINT32 major, minor;
	DAT_BOOLEAN thread_safety;
} opened20;

/* Replaces the function of the library and records the arguments that dat_ia_open passes. */
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_qlen,
			DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia, DAT_UINT32 major,
			DAT_UINT32 minor, DAT_BOOLEAN thread_safety)
{
	opened20.name = name;
	opened20.qlen = async_evd_qlen;
	opened20.async_evd = async_evd;
	opened20.ia = ia;
	opened20.major = major;
	opened20.minor = minor;
	opened20.thread_safety = thread_safety;
	return DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND | DAT_MINOR_NOT_FOUND;
}

static struct {
	DAT_HANDLE handle;
	DAT_EXTENDED_OP op;
	DAT_COUNT num_segments;
	DAT_LMR_TRIPLET *iov;
	DAT_DTO_COOKIE cookie;
	DAT_RMR_TRIPLET *remote;
	DAT_UINT32 immed;
	DAT_UINT64 add;
	DAT_COMPLETION_FLAGS flags;
} extended;

/* Replaces the function of the library and reads the arguments of two operations. */
DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...)
{
	va_list args;

	memset(&extended, 0, sizeof(extended));
	extended.handle = handle;
	extended.op = op;
	va_start(args, op);
	if (op == DAT_IB_RDMA_WRITE_IMMED_OP)
		extended.num_segments = va_arg(args, DAT_COUNT);
	else
		extended.add = va_arg(args, DAT_UINT64);
	extended.iov = va_arg(args, DAT_LMR_TRIPLET *);
	extended.cookie = va_arg(args, DAT_DTO_COOKIE);
	extended.remote = va_arg(args, DAT_RMR_TRIPLET *);
	if (op == DAT_IB_RDMA_WRITE_IMMED_OP)
		extended.immed = va_arg(args, DAT_UINT32);
	extended.flags = va_arg(args, DAT_COMPLETION_FLAGS);
	va_end(args);
	return DAT_SUCCESS;
}

/* Replaces the function of the library: it knows one name. */
DAT_RETURN dat_strerror(DAT_RETURN value, const char **major, const char **minor)
{
	*major = DAT_GET_TYPE(value) == DAT_ABORT ? "DAT_ABORT" : "unknown";
	return minor || DAT_GET_TYPE(value) != DAT_ABORT
		       ? DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG1
		       : DAT_SUCCESS;
}

static int open_requests_2_0_nonthreadsafe(void)
{
	char name[] = "ofa-v2-ib0";
	DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
	DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
	DAT_RETURN ret = dat_ia_open(name, 8, &evd, &ia);

	return opened20.name == name && opened20.qlen == 8 && opened20.async_evd == &evd &&
	       opened20.ia == &ia && opened20.major == 2 && opened20.minor == 0 &&
	       opened20.thread_safety == DAT_FALSE && DAT_GET_TYPE(ret) == DAT_NAME_NOT_FOUND &&
	       DAT_GET_SUBTYPE(ret) == DAT_MINOR_NOT_FOUND && !DAT_IS_WARNING(ret);
}

static int a_missing_call_is_an_error_and_no_warning(void)
{
	DAT_RETURN ret = DAT_CLASS_ERROR | DAT_NOT_IMPLEMENTED;

	return DAT_GET_TYPE(ret) == DAT_NOT_IMPLEMENTED && !DAT_IS_WARNING(ret) &&
	       DAT_GET_SUBTYPE(ret) == DAT_NO_SUBTYPE;
}

static int an_agent_or_a_descriptor_is_the_proxy_of_a_cno(void)
{
	DAT_CNO_PARAM param = { DAT_HANDLE_NULL, DAT_PROXY_TYPE_NONE, { { &param, NULL } } };
	DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;

	param.proxy.agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
	if (agent.instance_data || agent.proxy_agent_func || param.proxy.none)
		return 0;
	param.proxy_type = DAT_PROXY_TYPE_FD;
	param.proxy.fd = 7;
	return param.proxy.fd == 7;
}

static int attribute_masks_of_2_0_have_more_than_32_bits(void)
{
	DAT_IA_ATTR_MASK all = DAT_IA_FIELD_ALL;
	DAT_IA_ATTR_MASK some = DAT_IA_FIELD_IA_MAX_EPS | DAT_IA_FIELD_IA_VENDOR_ATTR;

	return (all & some) == some && some >> 37 == 1 && DAT_IA_ALL == all &&
	       (all & ~DAT_IA_ALL) == 0 &&
	       DAT_IA_FIELD_IA_MAX_DTO_PER_OP == DAT_IA_FIELD_IA_MAX_DTO_PER_EP;
}

static int old_names_are_the_members_of_2_0(void)
{
	DAT_IA_ATTR ia;
	DAT_EP_ATTR ep;

	memset(&ia, 0, sizeof(ia));
	memset(&ep, 0, sizeof(ep));
	ia.max_mtu_size = 4096;
	ia.max_rdma_read_per_ep = 3;
	ep.max_mtu_size = 2048;
	return ia.max_message_size == 4096 && ia.max_rdma_read_per_ep_in == 3 &&
	       ep.max_message_size == 2048;
}

static int watermarks_and_unknown_counts_of_2_0_are_negative(void)
{
	return DAT_WATERMARK_INFINITE < 0 && DAT_HW_DEFAULT == DAT_WATERMARK_INFINITE &&
	       DAT_VALUE_UNKNOWN == -2 && DAT_SRQ_LW_DEFAULT == 0;
}

static int shared_memory_of_2_0_has_a_cookie_of_40_bytes(void)
{
	char cookie[DAT_LMR_COOKIE_SIZE] = "not a string: ";
	DAT_REGION_DESCRIPTION region;

	region.for_shared_memory.virtual_address = cookie;
	region.for_shared_memory.shared_memory_id = &cookie;
	return sizeof(*region.for_shared_memory.shared_memory_id) == 40 &&
	       region.for_va == (DAT_PVOID)cookie;
}

static int an_ia_handle_is_a_number(void)
{
	DAT_IA_HANDLE ia = DAT_UL_TO_IA_HANDLE(3);

	return DAT_IA_HANDLE_TO_UL(ia) == 3;
}

/* The program passes plain numbers; the operation finds them with the types that it reads. */
static int an_operation_gets_arguments_of_its_types(void)
{
	DAT_LMR_TRIPLET iov = { 4096, 8, 17 };
	DAT_RMR_TRIPLET remote = { 8192, 8, 18 };
	DAT_DTO_COOKIE cookie;
	char ep;

	cookie.as_64 = UINT64_C(0x123456789abcdef0);
	if (dat_ib_post_fetch_and_add(&ep, 1, &iov, cookie, &remote, 8) != DAT_SUCCESS ||
	    extended.handle != &ep || extended.op != 0 || extended.add != 1 ||
	    extended.iov->lmr_context != 17 || extended.cookie.as_64 != cookie.as_64 ||
	    extended.remote->rmr_context != 18 ||
	    extended.flags != DAT_COMPLETION_BARRIER_FENCE_FLAG)
		return 0;
	return dat_ib_post_rdma_write_immed(&ep, 0L, 0, cookie, 0, -1, 0) == DAT_SUCCESS &&
	       extended.op == 2 && extended.num_segments == 0 && !extended.iov &&
	       extended.cookie.as_64 == cookie.as_64 && !extended.remote &&
	       extended.immed == 0xffffffffU && extended.flags == DAT_COMPLETION_DEFAULT_FLAG;
}

static int an_extended_event_has_the_data_of_the_extension(void)
{
	DAT_IB_EXTENSION_EVENT_DATA data;
	const DAT_IB_EXTENSION_EVENT_DATA *seen;
	DAT_EVENT event;

	memset(&event, 0, sizeof(event));
	memset(&data, 0, sizeof(data));
	data.type = DAT_IB_UD_REMOTE_AH;
	data.val.immed.data = 0x7777;
	data.remote_ah.qpn = 11;
	data.context.as_64 = 12;
	event.event_number = (DAT_EVENT_NUMBER)DAT_IB_DTO_EVENT;
	memcpy(event.event_extension_data, &data, sizeof(data));
	seen = (const DAT_IB_EXTENSION_EVENT_DATA *)event.event_extension_data;
	return event.event_number == DAT_IB_EXTENSION_RANGE_BASE &&
	       seen->type == DAT_IB_UD_REMOTE_AH && seen->val.immed.data == 0x7777 &&
	       seen->remote_ah.qpn == 11 && seen->context.as_64 == 12;
}

static int names_tell_what_an_extension_returned(void)
{
	const char *name = NULL;

	if (dat_strerror_extension(DAT_IB_COLLECTIVE_ERR, &name) != DAT_SUCCESS ||
	    strcmp(name, "DAT_IB_COLLECTIVE_ERR"))
		return 0;
	if (dat_strerror_extension((DAT_IB_RETURN)(DAT_CLASS_ERROR | DAT_IB_ERR), &name) !=
		    DAT_SUCCESS ||
	    strcmp(name, "DAT_IB_ERR"))
		return 0;
	if (dat_strerror_extension((DAT_IB_RETURN)DAT_ABORT, &name) != DAT_SUCCESS ||
	    strcmp(name, "DAT_ABORT"))
		return 0;
	if (dat_strerror_extension((DAT_IB_RETURN)0x10000002, &name) == DAT_SUCCESS)
		return 0;
	return DAT_GET_SUBTYPE(dat_strerror_extension(DAT_IB_ERR, NULL)) == DAT_INVALID_ARG2;
}

static int names_tell_the_status_of_an_extended_event(void)
{
	const char *name = NULL;

	if (dat_strerror_ext_status(DAT_OP_SUCCESS, &name) != DAT_SUCCESS ||
	    strcmp(name, "DAT_OP_SUCCESS"))
		return 0;
	if (dat_strerror_ext_status(DAT_IB_OP_ERR, &name) != DAT_SUCCESS ||
	    strcmp(name, "DAT_IB_OP_ERR"))
		return 0;
	if (dat_strerror_ext_status(DAT_IB_COLL_COMP_ERR, &name) != DAT_SUCCESS ||
	    strcmp(name, "DAT_IB_COLL_COMP_ERR"))
		return 0;
	return DAT_GET_SUBTYPE(dat_strerror_ext_status((DAT_IB_STATUS)3, &name)) ==
		       DAT_INVALID_ARG1 &&
	       !strncmp(name, "unknown", 7) &&
	       DAT_GET_SUBTYPE(dat_strerror_ext_status(DAT_OP_SUCCESS, NULL)) == DAT_INVALID_ARG2;
}

static const struct {
	const char *what;
	int (*holds)(void);
} cases[] = {
	{ "dat_ia_open requests version 2.0, nonthreadsafe", open_requests_2_0_nonthreadsafe },
	{ "DAT_NOT_IMPLEMENTED is a type and no warning",
	  a_missing_call_is_an_error_and_no_warning },
	{ "an agent or a descriptor is the proxy of a CNO",
	  an_agent_or_a_descriptor_is_the_proxy_of_a_cno },
	{ "attribute masks have more than 32 bits", attribute_masks_of_2_0_have_more_than_32_bits },
	{ "names of DAT 1.0 and 1.1 are the members of 2.0", old_names_are_the_members_of_2_0 },
	{ "watermarks and unknown counts are negative",
	  watermarks_and_unknown_counts_of_2_0_are_negative },
	{ "shared memory is described by address and cookie",
	  shared_memory_of_2_0_has_a_cookie_of_40_bytes },
	{ "an IA handle is a number", an_ia_handle_is_a_number },
	{ "an operation gets arguments of its types", an_operation_gets_arguments_of_its_types },
	{ "an extended event has the data of the extension",
	  an_extended_event_has_the_data_of_the_extension },
	{ "names tell what an extension returned", names_tell_what_an_extension_returned },
	{ "names tell the status of an extended event",
	  names_tell_the_status_of_an_extended_event },
};

int main(void)
{
	int number, failures = 0;

	printf("1..%d\n", (int)(sizeof(cases) / sizeof(cases[0])));
	for (number = 0; number < (int)(sizeof(cases) / sizeof(cases[0])); number++) {
		int holds = cases[number].holds();

		printf("%sok %d - %s\n", holds ? "" : "not ", number + 1, cases[number].what);
		failures += !holds;
	}
	return failures != 0;
}
