/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: the registry and interface adapters. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "sheet.h"

/* ---- dat_registry_list_providers ---- */

static DAT_PROVIDER_INFO infos[64];
static DAT_PROVIDER_INFO *listed[64];

static DAT_RETURN list(DAT_COUNT max, DAT_COUNT *count)
{
	for (size_t i = 0; i < COUNT(listed); i++)
		listed[i] = &infos[i];
	return dat_registry_list_providers(max, count, listed);
}

static DAT_COUNT total(void)
{
	DAT_COUNT count = -1;

	ck_dat_is(dat_registry_list_providers(0, &count, NULL), BAD_ARG(1));
	ck_assert_int_ge(count, 1);
	return count;
}

ROW_DO(dat_registry_list_providers, "there is room for all names", DAT_SUCCESS)
{
	DAT_COUNT count = -1;
	DAT_RETURN ret = list(COUNT(listed), &count);

	ck_assert_int_eq(count, total());
	return ret;
}

ROW_DO(dat_registry_list_providers, "the room is 0, which asks for the number of names", BAD_ARG(1))
{
	DAT_COUNT count = -1;
	DAT_RETURN ret = dat_registry_list_providers(0, &count, NULL);

	ck_assert_int_ge(count, 1);
	return ret;
}

ROW_DO(dat_registry_list_providers, "there is less room than names", DAT_SUCCESS)
{
	DAT_PROVIDER_INFO info, *one = &info;
	DAT_COUNT count = -1;
	DAT_RETURN ret = dat_registry_list_providers(1, &count, &one);

	ck_assert_int_eq(count, 1);
	return ret;
}

ROW(dat_registry_list_providers, "the room is negative", BAD_ARG(1), list(-1, &unwritten_count));
ROW(dat_registry_list_providers, "the output for the number is null", BAD_ARG(2), list(1, NULL));
ROW(dat_registry_list_providers, "the list is null", BAD_ARG(3),
    dat_registry_list_providers(1, &unwritten_count, NULL));

ROW_DO(dat_registry_list_providers, "an element of the list is null", BAD_ARG(3))
{
	DAT_PROVIDER_INFO *null = NULL;

	return dat_registry_list_providers(1, &unwritten_count, &null);
}

ROW_DO(dat_registry_list_providers, "elements beyond the last name are null", DAT_SUCCESS)
{
	DAT_PROVIDER_INFO *few[64] = { NULL };
	DAT_COUNT count = total(), n;

	for (n = 0; n < count; n++)
		few[n] = &infos[n];
	return dat_registry_list_providers(count + 1, &n, few);
}

/* ---- dat_registry_add_provider, dat_registry_remove_provider ---- */

static const DAT_PROVIDER our_provider = { .device_name = "conform" };

static DAT_PROVIDER_INFO our_info(const char *name)
{
	DAT_PROVIDER_INFO info = { .dapl_version_major = DAT_VERSION_MAJOR,
				   .dapl_version_minor = DAT_VERSION_MINOR };

	strcpy(info.ia_name, name);
	return info;
}

static DAT_RETURN add(const char *name)
{
	const DAT_PROVIDER_INFO info = our_info(name);

	return dat_registry_add_provider(&our_provider, &info);
}

static DAT_RETURN remove_added(const char *name)
{
	const DAT_PROVIDER_INFO info = our_info(name);

	return dat_registry_remove_provider(&our_provider, &info);
}

ROW_DO(dat_registry_add_provider, "the name is new", DAT_SUCCESS)
{
	DAT_RETURN ret = add("conform-new");

	ck_dat(remove_added("conform-new"));
	return ret;
}

ROW_DO(dat_registry_add_provider, "the same key is registered already",
       PLAIN(PROVIDER_ALREADY_REGISTERED))
{
	DAT_RETURN ret;

	ck_dat(add("conform-twice"));
	ret = add("conform-twice");
	ck_dat(remove_added("conform-twice"));
	return ret;
}

ROW_DO(dat_registry_add_provider, "the same name is registered with another version", DAT_SUCCESS)
{
	DAT_PROVIDER_INFO other = our_info("conform-versions");
	DAT_RETURN ret;

	other.dapl_version_minor = 3;
	ck_dat(add("conform-versions"));
	ret = dat_registry_add_provider(&our_provider, &other);
	ck_dat(remove_added("conform-versions"));
	ck_dat(dat_registry_remove_provider(&our_provider, &other));
	return ret;
}

ROW_DO(dat_registry_add_provider,
       "the provider is of the other edition, whose registry is not loaded", BAD_ARG(2))
{
	DAT_PROVIDER_INFO info = our_info("conform-other");
	DAT_RETURN ret;

	info.dapl_version_major = OF_EDITION(2, 1);
	info.dapl_version_minor = OF_EDITION(0, 2);
	ret = dat_registry_add_provider(&our_provider, &info);
	if (ret == DAT_SUCCESS)
		ck_dat(dat_registry_remove_provider(&our_provider, &info));
	return ret;
}

ROW_DO(dat_registry_add_provider, "the provider is null", BAD_ARG(1))
{
	const DAT_PROVIDER_INFO info = our_info("conform");

	return dat_registry_add_provider(NULL, &info);
}

ROW(dat_registry_add_provider, "the description is null", BAD_ARG(2),
    dat_registry_add_provider(&our_provider, NULL));
ROW(dat_registry_add_provider, "the name is empty", BAD_ARG(2), add(""));

ROW_DO(dat_registry_add_provider, "the name has no end", BAD_ARG(2))
{
	DAT_PROVIDER_INFO info = our_info("");

	memset(info.ia_name, 'x', sizeof(info.ia_name));
	return dat_registry_add_provider(&our_provider, &info);
}

ROW_DO(dat_registry_remove_provider, "the name is registered", DAT_SUCCESS)
{
	ck_dat(add("conform-removed"));
	return remove_added("conform-removed");
}

ROW(dat_registry_remove_provider, "there is no such name",
    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED), remove_added("conform-none"));

ROW_DO(dat_registry_remove_provider, "the provider is null", BAD_ARG(1))
{
	const DAT_PROVIDER_INFO info = our_info("conform");

	return dat_registry_remove_provider(NULL, &info);
}

ROW(dat_registry_remove_provider, "the description is null", BAD_ARG(2),
    dat_registry_remove_provider(&our_provider, NULL));

ROW_DO(dat_registry_remove_provider, "an instance of the name is open", PLAIN(PROVIDER_IN_USE))
{
	DAT_PROVIDER_INFO info = our_info(here->name);

	info.is_thread_safe = here->provider.is_thread_safe;
	return dat_registry_remove_provider(&our_provider, &info);
}

/* ---- dat_ia_openv ---- */

/* Name, queue length and version of an open that otherwise is right; it changes nothing. */
static DAT_RETURN open_as(const char *name, DAT_COUNT qlen, DAT_UINT32 major, DAT_UINT32 minor,
			  DAT_BOOLEAN safe)
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = unwritten;
	DAT_RETURN ret = dat_ia_openv((DAT_NAME_PTR)name, qlen, &async_evd, &ia, major, minor,
				      safe);

	if (ret == DAT_SUCCESS) {
		keep(ia);
		return ret;
	}
	ck_assert_ptr_eq(async_evd, DAT_HANDLE_NULL);
	ck_assert_ptr_eq(ia, DAT_HANDLE_NULL);
	return ret;
}

#define SAFE	(here->provider.is_thread_safe)
#define EDITION DAT_VERSION_MAJOR, DAT_VERSION_MINOR

ROW(dat_ia_openv, "the name has another open instance", DAT_SUCCESS,
    open_as(here->name, 8, EDITION, SAFE));
#if DAT_EDITION == 1
ROW(dat_ia_openv, "a smaller minor version is asked for", DAT_SUCCESS,
    open_as(here->name, 8, 1, 1, SAFE));
#endif
ROW(dat_ia_openv, "no such name", DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
    open_as("no such name", 8, EDITION, SAFE));
ROW(dat_ia_openv, "the name is empty", DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
    open_as("", 8, EDITION, SAFE));
ROW(dat_ia_openv, "the name has another major version only",
    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND), open_as(here->name, 8, 9, 2, SAFE));
ROW(dat_ia_openv, "the name has a smaller minor version only",
    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND),
    open_as(here->name, 8, DAT_VERSION_MAJOR, 9, SAFE));
ROW(dat_ia_openv, "the name has the other thread safety only",
    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND),
    open_as(here->name, 8, EDITION, !SAFE));
ROW(dat_ia_openv, "the name is null", BAD_ARG(1), open_as(NULL, 8, EDITION, SAFE));

ROW_DO(dat_ia_openv, "the name has 256 bytes", BAD_ARG(1))
{
	char name[DAT_NAME_MAX_LENGTH + 1];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	return open_as(name, 8, EDITION, SAFE);
}

ROW_DO(dat_ia_openv, "the name has 255 bytes",
       DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED))
{
	char name[DAT_NAME_MAX_LENGTH];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	return open_as(name, 8, EDITION, SAFE);
}

ROW_DO(dat_ia_openv, "the name has the prefix RO_AWARE_", DAT_SUCCESS)
{
	char name[DAT_NAME_MAX_LENGTH + 16];

	snprintf(name, sizeof(name), "RO_AWARE_%s", here->name);
	return open_as(name, 8, EDITION, SAFE);
}

ROW(dat_ia_openv, "the queue of a new asynchronous EVD has length 0", BAD_ARG(2),
    open_as(here->name, 0, EDITION, SAFE));
ROW(dat_ia_openv, "the queue of a new asynchronous EVD has a negative length", BAD_ARG(2),
    open_as(here->name, -1, EDITION, SAFE));
ROW(dat_ia_openv, "the queue of a new asynchronous EVD is longer than max_evd_qlen",
    NO_RESOURCE(TEVD), open_as(here->name, here->attr.max_evd_qlen + 1, EDITION, SAFE));

ROW_DO(dat_ia_openv, "the asynchronous EVD's address is null", BAD_ARG(3))
{
	DAT_IA_HANDLE ia = unwritten;

	return dat_ia_openv(here->name, 8, NULL, &ia, EDITION, SAFE);
}

ROW_DO(dat_ia_openv, "the handle's address is null", BAD_ARG(4))
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_RETURN ret = dat_ia_openv(here->name, 8, &async_evd, NULL, EDITION, SAFE);

	ck_assert_ptr_eq(async_evd, DAT_HANDLE_NULL);
	return ret;
}

/* An open with an asynchronous EVD that exists; *evd is what the call left there. */
static DAT_RETURN open_with_evd(DAT_EVD_HANDLE *evd)
{
	DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
	DAT_RETURN ret = dat_ia_openv(here->name, 0, evd, &ia, EDITION, SAFE);

	if (ret == DAT_SUCCESS)
		keep(ia);
	else
		ck_assert_ptr_eq(ia, DAT_HANDLE_NULL);
	return ret;
}

ROW_DO(dat_ia_openv, "the asynchronous EVD of another instance is given", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = here->async_evd;
	DAT_RETURN ret = open_with_evd(&evd);

	ck_assert_ptr_eq(evd, here->async_evd);
	return ret;
}

ROW_DO(dat_ia_openv, "DAT_EVD_ASYNC_EXISTS is given", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
	DAT_RETURN ret = open_with_evd(&evd);

	ck_assert_ptr_eq(evd, DAT_EVD_OUT_OF_SCOPE);
	return ret;
}

ROW_DO(dat_ia_openv, "an EVD of another kind is given", BAD_HANDLE(EVD_ASYNC))
{
	DAT_EVD_HANDLE evd = here->recv_evd;
	DAT_RETURN ret = open_with_evd(&evd);

	ck_assert_ptr_eq(evd, here->recv_evd);
	return ret;
}

static DAT_RETURN open_with(DAT_HANDLE not_evd)
{
	return open_with_evd(&not_evd);
}

/* The numbers below 3 are DAT_EVD_ASYNC_EXISTS and DAT_EVD_OUT_OF_SCOPE. */
ROW(dat_ia_openv, "a small number is given as the EVD", BAD_HANDLE(EVD_ASYNC),
    open_with((DAT_HANDLE)3));
ROW(dat_ia_openv, "an EVD is given that was freed", BAD_HANDLE(EVD_ASYNC),
    open_with(freed_handle(HANDLE_EVD)));
ROW(dat_ia_openv, "an object is given that is no EVD", BAD_HANDLE(EVD_ASYNC),
    each_other_handle(open_with, HANDLE_EVD, BAD_HANDLE(EVD_ASYNC)));

/* ---- dat_ia_close ---- */

static struct side new_ia(void)
{
	struct side side;

	side_open_ia(&side, here->name, SAFE);
	keep(side.ia);
	return side;
}

HANDLE_ROWS(dat_ia_close, "the IA", IA, BAD_HANDLE(IA), dat_ia_close(h, DAT_CLOSE_ABRUPT_FLAG));
ROW(dat_ia_close, "gracefully, without objects", DAT_SUCCESS,
    dat_ia_close(new_ia().ia, DAT_CLOSE_GRACEFUL_FLAG));
ROW(dat_ia_close, "abruptly, without objects", DAT_SUCCESS,
    dat_ia_close(new_ia().ia, DAT_CLOSE_ABRUPT_FLAG));
ROW(dat_ia_close, "flags is 2", BAD_ARG(2), dat_ia_close(here->ia, (DAT_CLOSE_FLAGS)2));
ROW(dat_ia_close, "gracefully, with a connection", BAD_STATE(IA_IN_USE),
    dat_ia_close(here->ia, DAT_CLOSE_GRACEFUL_FLAG));

ROW_DO(dat_ia_close, "gracefully, with a zone", BAD_STATE(IA_IN_USE))
{
	struct side side = new_ia();

	ck_dat(dat_pz_create(side.ia, &side.pz));
	return dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG);
}

ROW_DO(dat_ia_close, "gracefully, with a CNO", BAD_STATE(IA_IN_USE))
{
	struct side side = new_ia();
	DAT_CNO_HANDLE cno;

	ck_dat(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	return dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG);
}

ROW_DO(dat_ia_close, "gracefully, with an EVD", BAD_STATE(IA_IN_USE))
{
	struct side side = new_ia();

	side_create_evd(&side, 8, DAT_EVD_SOFTWARE_FLAG);
	return dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG);
}

ROW_DO(dat_ia_close, "gracefully, and another instance uses its asynchronous EVD",
       BAD_STATE(IA_IN_USE))
{
	struct side side = new_ia();

	ck_dat(open_with_evd(&side.async_evd));
	return dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG);
}

ROW_DO(dat_ia_close, "abruptly, with all kinds of objects", DAT_SUCCESS)
{
	struct side side;
	DAT_RMR_HANDLE rmr;
	DAT_CNO_HANDLE cno;
	DAT_CONN_QUAL qual;
	DAT_RETURN ret;

	side_open(&side, CLIENT);
	ck_dat(dat_rmr_create(side.pz, &rmr));
	ck_dat(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	listen_any(&side, &qual);
	ret = dat_ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG);
	ck_dat_is(dat_ep_free(side.ep), BAD_HANDLE(EP));
	ck_dat_is(dat_lmr_free(side.lmr), BAD_HANDLE(LMR));
	ck_dat_is(dat_pz_free(side.pz), BAD_HANDLE(PZ));
	ck_dat_is(dat_rmr_free(rmr), BAD_HANDLE(RMR));
	ck_dat_is(dat_cno_free(cno), BAD_HANDLE(CNO));
	ck_dat_is(dat_evd_free(side.recv_evd), BAD_HANDLE1);
	return ret;
}

ROW_DO(dat_ia_close, "abruptly, a second time", BAD_HANDLE(IA))
{
	DAT_IA_HANDLE ia = new_ia().ia;

	ck_dat(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

EVENT_ROW(dat_ia_close, "abruptly, with a connection, at the peer",
	  DAT_CONNECTION_EVENT_DISCONNECTED)
{
	struct pair pair;
	DAT_EVENT_NUMBER number;

	pair_open(&pair, NULL);
	side_close_abrupt(&pair.client);
	number = event_of(pair.server.connect_evd);
	side_close(&pair.server);
	return number;
}

EVENT_ROW(dat_ia_close, "abruptly, with a request that was not answered, at the peer",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_EVENT_NUMBER number;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	expect_cr(&pair.server);
	side_close_abrupt(&pair.server);
	number = event_of(pair.client.connect_evd);
	side_close(&pair.client);
	return number;
}

/* ---- dat_ia_query ---- */

static DAT_IA_ATTR ia_attr;
static DAT_PROVIDER_ATTR provider_attr;

HANDLE_ROWS(dat_ia_query, "the IA", IA, BAD_HANDLE(IA),
	    dat_ia_query(h, &unwritten, DAT_IA_FIELD_NONE, NULL, DAT_PROVIDER_FIELD_NONE, NULL));
ROW(dat_ia_query, "nothing is asked for", DAT_SUCCESS,
    dat_ia_query(here->ia, NULL, 0, NULL, 0, NULL));
ROW(dat_ia_query, "the mask of the IA has an unknown bit", BAD_ARG(3),
    dat_ia_query(here->ia, NULL, DAT_IA_FIELD_ALL + 1, &ia_attr, 0, NULL));
ROW(dat_ia_query, "fields of the IA are asked for, and their address is null", BAD_ARG(4),
    dat_ia_query(here->ia, NULL, DAT_IA_FIELD_ALL, NULL, 0, NULL));
ROW(dat_ia_query, "the mask of the provider has an unknown bit", BAD_ARG(5),
    dat_ia_query(here->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL + 1, &provider_attr));
ROW(dat_ia_query, "fields of the provider are asked for, and their address is null", BAD_ARG(6),
    dat_ia_query(here->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, NULL));

/* In DAT 1.2 an adapter is called like its IA, in DAT 2.0 like its device. */
static void check_adapter(const DAT_IA_ATTR *attr)
{
	if (DAT_EDITION == 1)
		ck_assert_str_eq(attr->adapter_name, here->name);
	else
		ck_assert_int_ne(attr->adapter_name[0], '\0');
}

ROW_DO(dat_ia_query, "its asynchronous EVD", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_RETURN ret = dat_ia_query(here->ia, &evd, 0, NULL, 0, NULL);

	ck_assert_ptr_eq(evd, here->async_evd);
	return ret;
}

ROW_DO(dat_ia_query, "its asynchronous EVD, if it was opened with DAT_EVD_ASYNC_EXISTS",
       DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	ck_dat(dat_ia_openv(here->name, 0, &evd, &ia, EDITION, SAFE));
	keep(ia);
	evd = DAT_HANDLE_NULL;
	ret = dat_ia_query(ia, &evd, 0, NULL, 0, NULL);
	ck_assert_ptr_eq(evd, DAT_EVD_OUT_OF_SCOPE);
	return ret;
}

ROW_DO(dat_ia_query, "all fields of the IA", DAT_SUCCESS)
{
	const struct sockaddr_in *address;
	DAT_RETURN ret = dat_ia_query(here->ia, NULL, DAT_IA_FIELD_ALL, &ia_attr, 0, NULL);

	address = (const void *)ia_attr.ia_address_ptr;
	check_adapter(&ia_attr);
	ck_assert_int_ne(ia_attr.vendor_name[0], '\0');
	ck_assert_int_eq(address->sin_family, AF_INET);
	ck_assert_int_eq(address->sin_port, 0);
	ck_assert_int_gt(ia_attr.max_eps, 0);
	ck_assert_int_gt(ia_attr.max_lmrs, 0);
	ck_assert_int_gt(ia_attr.max_pzs, 0);
	ck_assert_uint_gt(ia_attr.max_message_size, 0);
	return ret;
}

ROW_DO(dat_ia_query, "all fields of the provider", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_ia_query(here->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL,
				      &provider_attr);

	ck_assert_int_eq(provider_attr.dapl_version_major, DAT_VERSION_MAJOR);
	ck_assert_int_eq(provider_attr.dapl_version_minor, DAT_VERSION_MINOR);
	ck_assert_int_eq(provider_attr.completion_flags_supported, 0x1f);
	ck_assert_int_eq(provider_attr.iov_ownership_on_return, DAT_IOV_CONSUMER);
	ck_assert_int_eq(provider_attr.dto_async_return_guaranteed, DAT_TRUE);
	ck_assert_uint_ne(provider_attr.optimal_buffer_alignment, 0);
	ck_assert_uint_eq(DAT_OPTIMAL_ALIGNMENT % provider_attr.optimal_buffer_alignment, 0);
	return ret;
}

ROW_DO(dat_ia_query, "of an open with RO_AWARE_, the name without that prefix", DAT_SUCCESS)
{
	char name[DAT_NAME_MAX_LENGTH + 16];
	struct side side = { 0 };
	DAT_RETURN ret;

	snprintf(name, sizeof(name), "RO_AWARE_%s", here->name);
	ck_dat(dat_ia_openv(name, 8, &side.async_evd, &side.ia, EDITION, SAFE));
	keep(side.ia);
	ret = dat_ia_query(side.ia, NULL, DAT_IA_FIELD_ALL, &ia_attr, 0, NULL);
	check_adapter(&ia_attr);
	return ret;
}
