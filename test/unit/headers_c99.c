/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers in a C99 consumer: it includes udat.h first, and no other header of DAT. */
#include <dat/udat.h>

#include <stdio.h>
#include <string.h>

/*
 * Programs may define these names: only Solaris declares the first, and the library exports the
 * second without a declaration.
 */
enum { DAT_PZ_SAME, dats_get_ia_handle };

static struct {
	const char *name;
	DAT_COUNT qlen;
	DAT_EVD_HANDLE *async_evd;
	DAT_IA_HANDLE *ia;
	DAT_UINT32 major, minor;
	DAT_BOOLEAN thread_safety;
} opened;

/* Replaces the function of the library and records the arguments that dat_ia_open passes. */
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_qlen,
			DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia, DAT_UINT32 major,
			DAT_UINT32 minor, DAT_BOOLEAN thread_safety)
{
	opened.name = name;
	opened.qlen = async_evd_qlen;
	opened.async_evd = async_evd;
	opened.ia = ia;
	opened.major = major;
	opened.minor = minor;
	opened.thread_safety = thread_safety;
	return DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND | DAT_MINOR_NOT_FOUND;
}

static int open_requests_1_2_nonthreadsafe(void)
{
	char name[] = "ib0";
	DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
	DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
	DAT_RETURN ret = dat_ia_open(name, 8, &evd, &ia);

	return opened.name == name && opened.qlen == 8 && opened.async_evd == &evd &&
	       opened.ia == &ia && opened.major == 1 && opened.minor == 2 &&
	       opened.thread_safety == DAT_FALSE && DAT_GET_TYPE(ret) == DAT_NAME_NOT_FOUND &&
	       DAT_GET_SUBTYPE(ret) == DAT_MINOR_NOT_FOUND && !DAT_IS_WARNING(ret);
}

static int the_null_agent_initialises_and_assigns(void)
{
	DAT_CNO_PARAM param = { DAT_HANDLE_NULL, { &param, NULL } };
	DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;

	param.agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
	return !agent.instance_data && !agent.proxy_agent_func && !param.agent.instance_data;
}

static int attribute_masks_have_more_than_32_bits(void)
{
	DAT_IA_ATTR_MASK all = DAT_IA_FIELD_ALL;
	DAT_IA_ATTR_MASK some = DAT_IA_FIELD_IA_MAX_EPS | DAT_IA_FIELD_IA_VENDOR_ATTR;

	return (all & some) == some && some >> 34 == 1 && DAT_IA_ALL == all &&
	       (all & ~DAT_IA_ALL) == 0;
}

static int old_names_are_the_members_of_1_2(void)
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

static int watermarks_and_unknown_counts_are_negative(void)
{
	return DAT_WATERMARK_INFINITE < 0 && DAT_HW_DEFAULT == DAT_WATERMARK_INFINITE &&
	       DAT_VALUE_UNKNOWN == -2 && DAT_SRQ_LW_DEFAULT == 0;
}

static int a_cookie_has_40_bytes(void)
{
	char cookie[DAT_LMR_COOKIE_SIZE] = "not a string: ";
	DAT_REGION_DESCRIPTION region;

	region.for_shared_memory.virtual_address = cookie;
	region.for_shared_memory.shared_memory_id = &cookie;
	return sizeof(*region.for_shared_memory.shared_memory_id) == 40 &&
	       region.for_va == (DAT_PVOID)cookie;
}

static const struct {
	const char *what;
	int (*holds)(void);
} cases[] = {
	{ "dat_ia_open requests version 1.2, nonthreadsafe", open_requests_1_2_nonthreadsafe },
	{ "DAT_OS_WAIT_PROXY_AGENT_NULL initialises and assigns",
	  the_null_agent_initialises_and_assigns },
	{ "attribute masks have more than 32 bits", attribute_masks_have_more_than_32_bits },
	{ "names of DAT 1.0 and 1.1 are the members of 1.2", old_names_are_the_members_of_1_2 },
	{ "watermarks and unknown counts are negative",
	  watermarks_and_unknown_counts_are_negative },
	{ "shared memory is described by address and cookie", a_cookie_has_40_bytes },
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
