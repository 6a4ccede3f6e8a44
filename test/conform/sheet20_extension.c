/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: the operations of extensions, and IAs that are opened for a query. Of DAT 2.0. */
#include <netinet/in.h>
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
