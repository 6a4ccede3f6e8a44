/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: the operations of extensions, and IAs that are opened for a query. Of DAT 2.0. */
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sheet.h"

#include <dat2/dat_ib_extensions.h>

#define NOT_IMPLEMENTED PLAIN(NOT_IMPLEMENTED)
#define NOT_REGISTERED	DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)

/* ---- operations ---- */

static DAT_RETURN unknown_op(DAT_HANDLE handle)
{
	return dat_extension_op(handle, (DAT_EXTENDED_OP)0x7ff);
}

ROW(dat_extension_op, "the handle is null", BAD_HANDLE1, unknown_op(NULL));
ROW(dat_extension_op, "the handle is a small number that no IA has", BAD_HANDLE1,
    unknown_op((DAT_HANDLE)4088));
ROW(dat_extension_op, "the handle was freed", BAD_HANDLE1, unknown_op(freed_handle(HANDLE_EP)));
ROW(dat_extension_op, "an unknown operation of an IA", NOT_IMPLEMENTED, unknown_op(here->ia));
ROW(dat_extension_op, "an unknown operation of an endpoint", NOT_IMPLEMENTED, unknown_op(here->ep));
ROW(dat_extension_op, "an unknown operation of an EVD", NOT_IMPLEMENTED,
    unknown_op(here->recv_evd));

/* The operations of collectives, which no provider for RDMA alone has. */
static DAT_RETURN collective_op(void)
{
	for (int op = DAT_IB_COLLECTIVE_CREATE_MEMBER_OP; op <= DAT_IB_COLLECTIVE_BARRIER_OP; op++)
		ck_dat_is(dat_extension_op(here->ia, (DAT_EXTENDED_OP)op), NOT_IMPLEMENTED);
	return NOT_IMPLEMENTED;
}

ROW(dat_extension_op, "the operations of collectives", NOT_IMPLEMENTED, collective_op());

/* ---- query open ---- */

static DAT_IA_ATTR ia_attr;
static DAT_PROVIDER_ATTR provider_attr;

/* Opens, and closes if that was successful. */
static DAT_RETURN query(const char *name, DAT_IA_ATTR *ia, DAT_PROVIDER_ATTR *provider)
{
	DAT_HANDLE handle = unwritten;
	DAT_RETURN ret = dat_ib_open_query((DAT_NAME_PTR)name, &handle, DAT_IA_FIELD_ALL, ia,
					   DAT_PROVIDER_FIELD_ALL, provider);

	if (ret != DAT_SUCCESS) {
		ck_assert(handle == (name ? DAT_HANDLE_NULL : unwritten));
		return ret;
	}
	ck_assert_uint_ge((uintptr_t)handle, 4096);
	ck_dat(dat_ib_close_query(handle));
	return ret;
}

ROW(dat_extension_op, "query open: both structures", DAT_SUCCESS,
    query(here->name, &ia_attr, &provider_attr));
ROW(dat_extension_op, "query open: the attributes of the IA alone", DAT_SUCCESS,
    query(here->name, &ia_attr, NULL));
ROW(dat_extension_op, "query open: the attributes of the provider alone", DAT_SUCCESS,
    query(here->name, NULL, &provider_attr));
ROW(dat_extension_op, "query open: neither of them", BAD_ARG(6), query(here->name, NULL, NULL));
ROW(dat_extension_op, "query open: the name is null", BAD_ARG(3), query(NULL, &ia_attr, NULL));
ROW(dat_extension_op, "query open: no such name", NOT_REGISTERED,
    query("no such name", &ia_attr, NULL));
ROW(dat_extension_op, "query open: the output is null", BAD_ARG(4),
    dat_ib_open_query(here->name, NULL, DAT_IA_FIELD_ALL, &ia_attr, 0, NULL));

static const char *named_value(const DAT_PROVIDER_ATTR *attr, const char *name)
{
	for (int i = 0; i < attr->num_provider_specific_attr; i++)
		if (!strcmp(attr->provider_specific_attr[i].name, name))
			return attr->provider_specific_attr[i].value;
	ck_abort_msg("no attribute %s", name);
}

/* What a query tells is what the open IA tells. */
ROW_DO(dat_extension_op, "query open: the attributes are those of an open IA", DAT_SUCCESS)
{
	DAT_HANDLE handle;
	DAT_RETURN ret = dat_ib_open_query(there->name, &handle, DAT_IA_FIELD_ALL, &ia_attr,
					   DAT_PROVIDER_FIELD_ALL, &provider_attr);
	const struct sockaddr_in *address = (const void *)ia_attr.ia_address_ptr;

	ck_dat(ret);
	ck_assert_mem_eq(&address->sin_addr, &there->address.sin_addr, sizeof(struct in_addr));
	ck_assert_str_eq(ia_attr.adapter_name, there->attr.adapter_name);
	ck_assert_int_eq(ia_attr.max_eps, there->attr.max_eps);
	ck_assert_str_eq(provider_attr.provider_name, there->name);
	ck_assert_str_eq(named_value(&provider_attr, "DAT_IB_DEVICE_NAME"),
			 named_value(&there->provider, "DAT_IB_DEVICE_NAME"));
	ck_dat(dat_ib_close_query(handle));
	return ret;
}

/* ---- counters ---- */

static DAT_RETURN query_counters(DAT_HANDLE handle, int counter)
{
	DAT_UINT64 values[DCNT_IA_ALL_COUNTERS];
	DAT_RETURN ret;

	memset(values, 0x5a, sizeof(values));
	ret = dat_ib_query_counters(handle, counter, values, 0);
	ck_assert_int_eq(values[0] == UINT64_C(0x5a5a5a5a5a5a5a5a), ret != DAT_SUCCESS);
	return ret;
}

ROW(dat_extension_op, "query counters: the handle is null", BAD_HANDLE1, query_counters(NULL, 0));
ROW(dat_extension_op, "query counters: the handle was freed", BAD_HANDLE1,
    query_counters(freed_handle(HANDLE_EVD), 0));
ROW(dat_extension_op, "query counters: of a zone", BAD_HANDLE1, query_counters(here->pz, 0));
ROW(dat_extension_op, "query counters: of a region", BAD_HANDLE1, query_counters(here->lmr, 0));
ROW(dat_extension_op, "query counters: of a CNO", BAD_HANDLE1, query_counters(new_cno(), 0));
ROW(dat_extension_op, "query counters: the first one of an IA", DAT_SUCCESS,
    query_counters(here->ia, 0));
ROW(dat_extension_op, "query counters: the last one of an IA", DAT_SUCCESS,
    query_counters(here->ia, DCNT_IA_ALL_COUNTERS - 1));
ROW(dat_extension_op, "query counters: all of an IA", DAT_SUCCESS,
    query_counters(here->ia, DCNT_IA_ALL_COUNTERS));
ROW(dat_extension_op, "query counters: more than all of an IA", BAD_ARG(2),
    query_counters(here->ia, DCNT_IA_ALL_COUNTERS + 1));
ROW(dat_extension_op, "query counters: a negative number of an IA", BAD_ARG(2),
    query_counters(here->ia, -1));
ROW(dat_extension_op, "query counters: the first one of an endpoint", DAT_SUCCESS,
    query_counters(here->ep, 0));
ROW(dat_extension_op, "query counters: the last one of an endpoint", DAT_SUCCESS,
    query_counters(here->ep, DCNT_EP_ALL_COUNTERS - 1));
ROW(dat_extension_op, "query counters: all of an endpoint", DAT_SUCCESS,
    query_counters(here->ep, DCNT_EP_ALL_COUNTERS));
ROW(dat_extension_op, "query counters: more than all of an endpoint", BAD_ARG(2),
    query_counters(here->ep, DCNT_EP_ALL_COUNTERS + 1));
ROW(dat_extension_op, "query counters: a negative number of an endpoint", BAD_ARG(2),
    query_counters(here->ep, -1));
ROW(dat_extension_op, "query counters: the first one of an EVD", DAT_SUCCESS,
    query_counters(here->recv_evd, 0));
ROW(dat_extension_op, "query counters: the last one of an EVD", DAT_SUCCESS,
    query_counters(here->recv_evd, DCNT_EVD_ALL_COUNTERS - 1));
ROW(dat_extension_op, "query counters: all of an EVD", DAT_SUCCESS,
    query_counters(here->recv_evd, DCNT_EVD_ALL_COUNTERS));
ROW(dat_extension_op, "query counters: more than all of an EVD", BAD_ARG(2),
    query_counters(here->recv_evd, DCNT_EVD_ALL_COUNTERS + 1));
ROW(dat_extension_op, "query counters: a negative number of an EVD", BAD_ARG(2),
    query_counters(here->recv_evd, -1));
ROW(dat_extension_op, "query counters: of an IA that is a small number", BAD_HANDLE1,
    query_counters((DAT_HANDLE)4088, 0));
ROW(dat_extension_op, "query counters: there is no place for one", BAD_ARG(3),
    dat_ib_query_counters(here->ep, 0, NULL, 1));
ROW(dat_extension_op, "query counters: there is no place for all", BAD_ARG(3),
    dat_ib_query_counters(here->ep, DCNT_EP_ALL_COUNTERS, NULL, 1));

static DAT_UINT64 count_of(DAT_HANDLE handle, int counter, int reset)
{
	DAT_UINT64 value;

	ck_dat(dat_ib_query_counters(handle, counter, &value, reset));
	return value;
}

ROW_DO(dat_extension_op, "query counters: they count, and a reset sets them to 0", DAT_SUCCESS)
{
	DAT_PZ_HANDLE pz;

	(void)count_of(here->ia, DCNT_IA_PZ_CREATE, 1);
	ck_dat(dat_pz_create(here->ia, &pz));
	ck_dat(dat_pz_free(pz));
	ck_assert_uint_eq(count_of(here->ia, DCNT_IA_PZ_CREATE, 0), 1);
	ck_assert_uint_eq(count_of(here->ia, DCNT_IA_PZ_CREATE, 1), 1);
	ck_assert_uint_eq(count_of(here->ia, DCNT_IA_PZ_CREATE, 1), 0);
	return DAT_SUCCESS;
}

/* In builds that do not count them they stay 0, and the attribute says so. */
ROW_DO(dat_extension_op, "query counters: transfers, if the attribute is TRUE", DAT_SUCCESS)
{
	ck_dat(dat_ia_query(here->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &provider_attr));
	(void)count_of(here->ep, DCNT_EP_POST_WRITE, 1);
	(void)count_of(here->ep, DCNT_EP_POST_WRITE_DATA, 1);
	post_write(here->ep, 1, segment(here, 0, 16), target(there, 0, 16),
		   DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(here->request_evd, here->ep, 1, DAT_DTO_SUCCESS, 16);
	if (!strcmp(named_value(&provider_attr, DAT_IB_ATTR_COUNTERS), "TRUE")) {
		ck_assert_uint_eq(count_of(here->ep, DCNT_EP_POST_WRITE, 0), 1);
		ck_assert_uint_eq(count_of(here->ep, DCNT_EP_POST_WRITE_DATA, 0), 16);
	} else {
		ck_assert_str_eq(named_value(&provider_attr, DAT_IB_ATTR_COUNTERS), "FALSE");
		ck_assert_uint_eq(count_of(here->ep, DCNT_EP_POST_WRITE, 0), 0);
		ck_assert_uint_eq(count_of(here->ep, DCNT_EP_POST_WRITE_DATA, 0), 0);
	}
	return DAT_SUCCESS;
}

static DAT_RETURN print_counters(DAT_HANDLE handle, int counter)
{
	DAT_RETURN ret;

	stderr_redirect();
	ret = dat_ib_print_counters(handle, counter, 0);
	ck_assert_str_ne(stderr_restore(), "");
	return ret;
}

ROW(dat_extension_op, "print counters: the handle is null", BAD_HANDLE1,
    dat_ib_print_counters(NULL, 0, 0));
ROW(dat_extension_op, "print counters: the handle was freed", BAD_HANDLE1,
    dat_ib_print_counters(freed_handle(HANDLE_EP), 0, 0));
ROW(dat_extension_op, "print counters: of a zone", BAD_HANDLE1,
    dat_ib_print_counters(here->pz, 0, 0));
ROW(dat_extension_op, "print counters: one of an IA", DAT_SUCCESS, print_counters(here->ia, 0));
ROW(dat_extension_op, "print counters: all of an IA", DAT_SUCCESS,
    print_counters(here->ia, DCNT_IA_ALL_COUNTERS));
ROW(dat_extension_op, "print counters: more than all of an IA", BAD_ARG(2),
    dat_ib_print_counters(here->ia, DCNT_IA_ALL_COUNTERS + 1, 0));
ROW(dat_extension_op, "print counters: one of an endpoint", DAT_SUCCESS,
    print_counters(here->ep, 0));
ROW(dat_extension_op, "print counters: all of an endpoint", DAT_SUCCESS,
    print_counters(here->ep, DCNT_EP_ALL_COUNTERS));
ROW(dat_extension_op, "print counters: more than all of an endpoint", BAD_ARG(2),
    dat_ib_print_counters(here->ep, DCNT_EP_ALL_COUNTERS + 1, 0));
ROW(dat_extension_op, "print counters: one of an EVD", DAT_SUCCESS,
    print_counters(here->recv_evd, 0));
ROW(dat_extension_op, "print counters: all of an EVD", DAT_SUCCESS,
    print_counters(here->recv_evd, DCNT_EVD_ALL_COUNTERS));
ROW(dat_extension_op, "print counters: more than all of an EVD", BAD_ARG(2),
    dat_ib_print_counters(here->recv_evd, DCNT_EVD_ALL_COUNTERS + 1, 0));

ROW(dat_extension_op, "start counter: nothing is sampled", PLAIN(MODEL_NOT_SUPPORTED),
    dat_ib_start_counter(here->ia, DCNT_IA_LNK));
ROW(dat_extension_op, "start counter: an unknown group", BAD_ARG(2),
    dat_ib_start_counter(here->ia, 3));
ROW(dat_extension_op, "start counter: of an endpoint", BAD_HANDLE(IA),
    dat_ib_start_counter(here->ep, DCNT_IA_LNK));
ROW(dat_extension_op, "stop counter: nothing is sampled", PLAIN(MODEL_NOT_SUPPORTED),
    dat_ib_stop_counter(here->ia, DCNT_IA_DIAG));
ROW(dat_extension_op, "stop counter: an unknown group", BAD_ARG(2),
    dat_ib_stop_counter(here->ia, -1));
ROW(dat_extension_op, "stop counter: of an endpoint", BAD_HANDLE(IA),
    dat_ib_stop_counter(here->ep, DCNT_IA_LNK));

/* ---- leaks ---- */

static size_t heap_used(void)
{
	return mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* The first rounds take what is kept for the next. A sanitizer has a heap of its own. */
ROW_DO(dat_extension_op, "query open: many of them, closed again, leave nothing", DAT_SUCCESS)
{
	const unsigned rounds = in_guest() ? 40 : 400;
	unsigned descriptors = 0, threads = 0;
	size_t heap = 0;

	for (unsigned i = 0; i < rounds + 20; i++) {
		if (i == 20) {
			descriptors = count_entries("/proc/self/fd");
			threads = count_entries("/proc/self/task");
			heap = heap_used();
		}
		ck_dat(query(here->name, &ia_attr, &provider_attr));
	}
	ck_assert_uint_eq(count_entries("/proc/self/fd"), descriptors);
	ck_assert(threads_end(threads));
	ck_assert_uint_lt(heap_used(), heap + rounds * 16);
	return DAT_SUCCESS;
}

/* ---- attributes of DAT 2.0 ---- */

static const char *const attribute_names[] = {
	"DAT_IB_PROVIDER_NAME",
	"DAT_IB_DEVICE_NAME",
	"DAT_IB_CONNECTIVITY_MODE",
	"DAT_IB_RDMA_READ",
	"DAT_IB_NODE_GUID",
	"DAT_IB_GID",
	"DAT_IB_TRANSPORT_MTU",
	"DAT_IB_PORT_STATUS",
	"DAT_IB_PORT_NUMBER",
	"DAT_EXTENSION_INTERFACE",
	"DAT_IB_FETCH_AND_ADD",
	"DAT_IB_CMP_AND_SWAP",
	"DAT_IB_IMMED_DATA",
	"DAT_IB_UD",
	"DAT_COUNTERS",
	"DAT_LMR_ON_DEMAND",
};

ROW_DO(dat_ia_query, "the named attributes", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_ia_query(here->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL,
				      &provider_attr);

	for (size_t i = 0; i < COUNT(attribute_names); i++)
		ck_assert_uint_gt(strlen(named_value(&provider_attr, attribute_names[i])), 0);
	ck_assert_str_eq(named_value(&provider_attr, "DAT_IB_DEVICE_NAME"),
			 here->attr.adapter_name);
	ck_assert_str_eq(named_value(&provider_attr, "DAT_IB_RDMA_READ"), "TRUE");
	ck_assert_int_ge(atoi(named_value(&provider_attr, "DAT_IB_TRANSPORT_MTU")), 256);
	return ret;
}

/* dtest asks for nothing else, and reads them. */
ROW_DO(dat_ia_query, "the named attributes alone", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_ia_query(here->ia, NULL, DAT_IA_FIELD_ALL, &ia_attr,
				      DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR, &provider_attr);

	ck_assert_str_eq(named_value(&provider_attr, "DAT_IB_RDMA_READ"), "TRUE");
	return ret;
}

/* Each IA has its own: what one tells stays as it is when the other is asked. */
ROW_DO(dat_ia_query, "the named attributes of two IAs", DAT_SUCCESS)
{
	static DAT_PROVIDER_ATTR other;
	char before[COUNT(attribute_names)][80];

	ck_dat(dat_ia_query(here->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &provider_attr));
	for (size_t i = 0; i < COUNT(attribute_names); i++)
		snprintf(before[i], sizeof(before[i]), "%s",
			 named_value(&provider_attr, attribute_names[i]));
	ck_dat(dat_ia_query(there->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &other));
	ck_assert_ptr_ne(other.provider_specific_attr, provider_attr.provider_specific_attr);
	for (size_t i = 0; i < COUNT(attribute_names); i++)
		ck_assert_str_eq(named_value(&provider_attr, attribute_names[i]), before[i]);
	ck_assert_str_eq(named_value(&other, "DAT_IB_DEVICE_NAME"), there->attr.adapter_name);
	return DAT_SUCCESS;
}

/* Whatever the caller's bytes were, no member keeps them. */
ROW_DO(dat_ia_query, "every member of both structures is filled in", DAT_SUCCESS)
{
	static DAT_IA_ATTR ia_again;
	static DAT_PROVIDER_ATTR provider_again;

	memset(&ia_attr, 0x5a, sizeof(ia_attr));
	memset(&ia_again, 0xa5, sizeof(ia_again));
	memset((void *)&provider_attr, 0x5a, sizeof(provider_attr));
	memset((void *)&provider_again, 0xa5, sizeof(provider_again));
	ck_dat(dat_ia_query(here->ia, NULL, DAT_IA_FIELD_ALL, &ia_attr, DAT_PROVIDER_FIELD_ALL,
			    &provider_attr));
	ck_dat(dat_ia_query(here->ia, NULL, DAT_IA_FIELD_ALL, &ia_again, DAT_PROVIDER_FIELD_ALL,
			    &provider_again));
#define FILLED(one, two, member) ck_assert_mem_eq(&one.member, &two.member, sizeof(one.member))
	FILLED(ia_attr, ia_again, max_lmr_block_size);
	FILLED(ia_attr, ia_again, max_lmr_virtual_address);
	FILLED(ia_attr, ia_again, max_message_size);
	FILLED(ia_attr, ia_again, max_rdma_size);
	FILLED(ia_attr, ia_again, max_rmr_target_address);
	FILLED(ia_attr, ia_again, max_srqs);
	FILLED(ia_attr, ia_again, max_ep_per_srq);
	FILLED(ia_attr, ia_again, max_recv_per_srq);
	FILLED(ia_attr, ia_again, max_iov_segments_per_rdma_read);
	FILLED(ia_attr, ia_again, max_iov_segments_per_rdma_write);
	FILLED(ia_attr, ia_again, max_rdma_read_per_ep_in_guaranteed);
	FILLED(ia_attr, ia_again, max_rdma_read_per_ep_out_guaranteed);
	FILLED(ia_attr, ia_again, zb_supported);
	FILLED(ia_attr, ia_again, extension_supported);
	FILLED(ia_attr, ia_again, extension_version);
	FILLED(ia_attr, ia_again, num_transport_attr);
	FILLED(ia_attr, ia_again, num_vendor_attr);
	FILLED(provider_attr, provider_again, srq_supported);
	FILLED(provider_attr, provider_again, srq_watermarks_supported);
	FILLED(provider_attr, provider_again, srq_ep_pz_difference_supported);
	FILLED(provider_attr, provider_again, srq_info_supported);
	FILLED(provider_attr, provider_again, ep_recv_info_supported);
	FILLED(provider_attr, provider_again, lmr_sync_req);
	FILLED(provider_attr, provider_again, dto_async_return_guaranteed);
	FILLED(provider_attr, provider_again, rdma_write_for_rdma_read_req);
	FILLED(provider_attr, provider_again, rdma_read_lmr_rmr_context_exposure);
	FILLED(provider_attr, provider_again, rmr_scope_supported);
	FILLED(provider_attr, provider_again, is_signal_safe);
	FILLED(provider_attr, provider_again, ha_supported);
	FILLED(provider_attr, provider_again, ha_loadbalancing);
	FILLED(provider_attr, provider_again, num_provider_specific_attr);
	FILLED(provider_attr, provider_again, provider_specific_attr);
	ck_assert_str_eq(provider_attr.provider_name, here->name);
	ck_assert_int_eq(provider_attr.is_signal_safe, DAT_FALSE);
	ck_assert_int_eq(provider_attr.ha_supported, DAT_FALSE);
	ck_assert_uint_eq(provider_attr.ha_loadbalancing, DAT_HA_LB_NONE);
	return DAT_SUCCESS;
}

/* ---- members that DAT 2.0 added to what queries return ---- */

ROW_DO(dat_lmr_query, "the addresses of the region are those of the memory", DAT_SUCCESS)
{
	DAT_LMR_PARAM param = { .va_type = (DAT_VA_TYPE)99 };
	DAT_RETURN ret = dat_lmr_query(here->lmr, DAT_LMR_FIELD_VA_TYPE, &param);

	ck_assert_int_eq(param.va_type, DAT_VA_TYPE_VA);
	return ret;
}

ROW_DO(dat_rmr_query, "the scope of the window is its zone", DAT_SUCCESS)
{
	DAT_RMR_PARAM param = { .rmr_scope = (DAT_RMR_SCOPE)99, .va_type = (DAT_VA_TYPE)99 };
	DAT_RETURN ret = dat_rmr_query(
		new_rmr(), (DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL & ~DAT_RMR_FIELD_LMR_TRIPLET),
		&param);

	ck_assert_int_eq(param.rmr_scope, DAT_RMR_SCOPE_PZ);
	ck_assert_int_eq(param.va_type, DAT_VA_TYPE_VA);
	return ret;
}

ROW_DO(dat_ep_query, "the members of the connection", DAT_SUCCESS)
{
	DAT_EP_PARAM param;
	DAT_RETURN ret;

	memset(&param, 0xa5, sizeof(param));
	ret = dat_ep_query(here->ep, DAT_EP_FIELD_ALL, &param);
	ck_assert_ptr_eq(param.ia_handle, here->ia);
	ck_assert_ptr_eq(param.pz_handle, here->pz);
	ck_assert_ptr_eq(param.recv_evd_handle, here->recv_evd);
	ck_assert_ptr_eq(param.srq_handle, DAT_HANDLE_NULL);
	ck_assert_int_eq(param.comm.domain, AF_INET);
	ck_assert_int_eq(param.comm.type, SOCK_STREAM);
	return ret;
}

/* ---- query close ---- */

static DAT_RETURN close_query(DAT_HANDLE handle)
{
	return dat_ib_close_query(handle);
}

static DAT_RETURN close_query_of(DAT_IA_HANDLE ia)
{
	DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *other);
	DAT_IA_HANDLE object;

	ck_dat(dats_get_ia_handle((unsigned long)ia, &object));
	return close_query(object);
}

HANDLE_ROWS(dat_extension_op, "query close: the handle", IA, BAD_HANDLE(IA), close_query(h));
ROW(dat_extension_op, "query close: of an open IA", BAD_HANDLE(IA), close_query_of(here->ia));

ROW_DO(dat_extension_op, "query close: a second time", BAD_HANDLE(IA))
{
	DAT_HANDLE handle;

	ck_dat(dat_ib_open_query(here->name, &handle, DAT_IA_FIELD_ALL, &ia_attr, 0, NULL));
	ck_dat(close_query(handle));
	return close_query(handle);
}

/* The handle of a query is for its close alone. */
ROW_DO(dat_ia_close, "the handle is that of a query", BAD_HANDLE(IA))
{
	DAT_HANDLE handle;
	DAT_RETURN ret;

	ck_dat(dat_ib_open_query(here->name, &handle, DAT_IA_FIELD_ALL, &ia_attr, 0, NULL));
	ret = dat_ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
	ck_dat(close_query(handle));
	return ret;
}
