/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: names of return codes, and what handles of any kind have. */
#include <string.h>

#include "sheet.h"

/* ---- dat_strerror ---- */

static const char *major, *minor;

static DAT_RETURN strerror_of(DAT_RETURN value)
{
	return dat_strerror(value, &major, &minor);
}

/* The names of @value are these. */
static DAT_RETURN named(DAT_RETURN value, const char *type, const char *subtype)
{
	DAT_RETURN ret = strerror_of(value);

	ck_assert_str_eq(major, type);
	ck_assert_str_eq(minor, subtype);
	return ret;
}

ROW(dat_strerror, "success", DAT_SUCCESS, named(DAT_SUCCESS, "DAT_SUCCESS", ""));
ROW(dat_strerror, "a type and a subtype", DAT_SUCCESS,
    named(BAD_STATE(EP_CONNECTED), "DAT_INVALID_STATE", "DAT_INVALID_STATE_EP_CONNECTED"));
ROW(dat_strerror, "a type without its class", DAT_SUCCESS,
    named(DAT_QUEUE_EMPTY, "DAT_QUEUE_EMPTY", ""));
ROW(dat_strerror, "the last subtype of the standard", DAT_SUCCESS,
    named(DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND), "DAT_PROVIDER_NOT_FOUND",
	  "DAT_THREAD_SAFETY_NOT_FOUND"));
/* Open MPI compares these. */
ROW(dat_strerror, "the subtype that Solaris added", DAT_SUCCESS,
    named(DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_RO_COOKIE), "DAT_INVALID_PARAMETER",
	  "DAT_INVALID_RO_COOKIE"));
ROW(dat_strerror, "a call that is not implemented", DAT_SUCCESS,
    named(DAT_NOT_IMPLEMENTED, "DAT_NOT_IMPLEMENTED", ""));
ROW(dat_strerror, "an unknown type", BAD_ARG(1), strerror_of(DAT_CLASS_ERROR | 0x00550000));
ROW(dat_strerror, "an unknown subtype", BAD_ARG(1),
    strerror_of(DAT_ERROR(DAT_INVALID_STATE, 9999)));
ROW(dat_strerror, "the output for the type is null", BAD_ARG(2),
    dat_strerror(DAT_SUCCESS, NULL, &minor));
ROW(dat_strerror, "the output for the subtype is null", DAT_SUCCESS,
    dat_strerror(DAT_SUCCESS, &major, NULL));

ROW_DO(dat_strerror, "every type", DAT_SUCCESS)
{
	for (DAT_RETURN type = DAT_SUCCESS; type <= DAT_CONN_QUAL_UNAVAILABLE; type += 0x10000) {
		ck_dat(strerror_of(type ? DAT_CLASS_ERROR | type : type));
		ck_assert_int_eq(strncmp(major, "DAT_", 4), 0);
	}
	return DAT_SUCCESS;
}

ROW_DO(dat_strerror, "every subtype", DAT_SUCCESS)
{
	for (DAT_RETURN subtype = DAT_SUB_INTERRUPTED; subtype <= DAT_INVALID_RO_COOKIE;
	     subtype++) {
		ck_dat(strerror_of(DAT_ERROR(DAT_INVALID_STATE, subtype)));
		ck_assert_int_eq(strncmp(minor, "DAT_", 4), 0);
	}
	return DAT_SUCCESS;
}

/* ---- one object of each kind ---- */

static DAT_HANDLE new_object(DAT_HANDLE_TYPE type)
{
	DAT_CONN_QUAL qual;

	switch (type) {
	case DAT_HANDLE_TYPE_CR:
		return new_cr();
	case DAT_HANDLE_TYPE_EP:
		return new_ep(NULL);
	case DAT_HANDLE_TYPE_EVD:
		return new_evd(8, DAT_EVD_SOFTWARE_FLAG);
	case DAT_HANDLE_TYPE_IA:
		return foreign_handle(HANDLE_IA);
	case DAT_HANDLE_TYPE_LMR:
		return new_lmr(LOCAL, &(DAT_LMR_CONTEXT){ 0 });
	case DAT_HANDLE_TYPE_PSP:
		return new_psp(&qual);
	case DAT_HANDLE_TYPE_PZ:
		return new_pz();
	case DAT_HANDLE_TYPE_RMR:
		return new_rmr();
	case DAT_HANDLE_TYPE_RSP:
		return new_rsp(&qual, NULL);
	case DAT_HANDLE_TYPE_CNO:
		return new_cno();
	case DAT_HANDLE_TYPE_SRQ:
		return new_srq(8);
#if DAT_EDITION == 2
	case DAT_HANDLE_TYPE_CSP:
		return new_csp(&(struct sockaddr_in){ 0 });
#endif
	default:
		ck_abort();
	}
}

/* ---- dat_get_handle_type ---- */

static DAT_HANDLE_TYPE type_out;

static DAT_RETURN type_is(DAT_HANDLE_TYPE want)
{
	DAT_RETURN ret;

	type_out = (DAT_HANDLE_TYPE)99;
	ret = dat_get_handle_type(new_object(want), &type_out);
	ck_assert_int_eq(type_out, want);
	return ret;
}

/* ---- dat_set_consumer_context, dat_get_consumer_context ---- */

static DAT_CONTEXT context;

/* A new object has 0, and then what is set, all 64 bits of it. */
static DAT_RETURN context_is_kept(DAT_HANDLE handle)
{
	DAT_RETURN ret;

	context.as_64 = 1;
	ck_dat(dat_get_consumer_context(handle, &context));
	ck_assert_uint_eq(context.as_64, 0);
	context.as_64 = UINT64_C(0xfedcba9876543210);
	ret = dat_set_consumer_context(handle, context);
	context.as_64 = 1;
	ck_dat(dat_get_consumer_context(handle, &context));
	ck_assert_uint_eq(context.as_64, UINT64_C(0xfedcba9876543210));
	context.as_64 = 0;
	ck_dat(dat_set_consumer_context(handle, context));
	return ret;
}

#define KIND_ROWS(kind, name, ...)                                                                 \
	static DAT_RETURN ROW_NAME(type_of)(DAT_HANDLE h)                                          \
	{                                                                                          \
		(void)h;                                                                           \
		return type_is(DAT_HANDLE_TYPE_##kind);                                            \
	}                                                                                          \
	ROW_OF(type, ROW_NAME(type_of), dat_get_handle_type, name, DAT_SUCCESS, NULL, __VA_ARGS__) \
	static DAT_RETURN ROW_NAME(set_of)(DAT_HANDLE h)                                           \
	{                                                                                          \
		(void)h;                                                                           \
		return context_is_kept(new_object(DAT_HANDLE_TYPE_##kind));                        \
	}                                                                                          \
	ROW_OF(set, ROW_NAME(set_of), dat_set_consumer_context, name, DAT_SUCCESS, NULL,           \
	       __VA_ARGS__)                                                                        \
	static DAT_RETURN ROW_NAME(dead_of)(DAT_HANDLE h)                                          \
	{                                                                                          \
		return dat_get_consumer_context(h, &context);                                      \
	}                                                                                          \
	ROW_OF(dead, ROW_NAME(dead_of), dat_get_consumer_context, name " that was freed",          \
	       BAD_HANDLE1, freed_handle(HANDLE_##kind), __VA_ARGS__)                              \
	struct row

KIND_ROWS(CR, "of a request");
KIND_ROWS(EP, "of an endpoint");
KIND_ROWS(EVD, "of an EVD");
KIND_ROWS(IA, "of an IA");
KIND_ROWS(LMR, "of a region");
KIND_ROWS(PSP, "of a service point");
KIND_ROWS(PZ, "of a zone");
KIND_ROWS(RMR, "of a window");
KIND_ROWS(RSP, "of a reserved service point");
KIND_ROWS(CNO, "of a CNO");

ROW(dat_get_handle_type, "the handle is null", BAD_HANDLE1, dat_get_handle_type(NULL, &type_out));
ROW(dat_get_handle_type, "the object was freed", BAD_HANDLE1,
    dat_get_handle_type(freed_handle(HANDLE_PZ), &type_out));
static DAT_RETURN type_of(DAT_HANDLE handle)
{
	return dat_get_handle_type(handle, &type_out);
}

static DAT_RETURN set_context_of(DAT_HANDLE handle)
{
	return dat_set_consumer_context(handle, context);
}

static DAT_RETURN get_context_of(DAT_HANDLE handle)
{
	return dat_get_consumer_context(handle, &context);
}

ROW(dat_get_handle_type, "the handle is a small number", BAD_HANDLE1,
    each_small_handle(type_of, HANDLE_IA, BAD_HANDLE1));
ROW(dat_set_consumer_context, "the handle is a small number", BAD_HANDLE1,
    each_small_handle(set_context_of, HANDLE_IA, BAD_HANDLE1));
ROW(dat_get_consumer_context, "the handle is a small number", BAD_HANDLE1,
    each_small_handle(get_context_of, HANDLE_IA, BAD_HANDLE1));
ROW(dat_get_handle_type, "the output is null", BAD_ARG(2), dat_get_handle_type(here->pz, NULL));
ROW(dat_set_consumer_context, "the handle is null", BAD_HANDLE1,
    dat_set_consumer_context(NULL, context));
ROW(dat_set_consumer_context, "the object was freed", BAD_HANDLE1,
    dat_set_consumer_context(freed_handle(HANDLE_PZ), context));
ROW(dat_get_consumer_context, "the handle is null", BAD_HANDLE1,
    dat_get_consumer_context(NULL, &context));
ROW(dat_get_consumer_context, "the output is null", BAD_ARG(2),
    dat_get_consumer_context(here->pz, NULL));
ROW(dat_get_consumer_context, "of an object that never had one", DAT_SUCCESS,
    dat_get_consumer_context(new_pz(), &context));
