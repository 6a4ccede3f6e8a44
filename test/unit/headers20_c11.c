/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of DAT 2.0 in a C11 provider: it includes dat_registry.h first and uses the dispatch
 * macros.
 */
#define DAT_THREADSAFE	      DAT_TRUE
#define DAT_OPTIMAL_ALIGNMENT 64
#define DAT_EXTENSIONS	      0
#include <dat2/dat_registry.h>

#include <dat2/dat.h>
#include <dat2/dat_error.h>
#include <dat2/dat_ib_extensions.h>
#include <dat2/dat_platform_specific.h>
#include <dat2/dat_redirection.h>
#include <dat2/dat_vendor_specific.h>
#include <dat2/udat.h>
#include <dat2/udat_config.h>
#include <dat2/udat_redirection.h>
#include <dat2/udat_vendor_specific.h>

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A provider's object begins with the provider's table. */
static struct c11_object20 {
	DAT_PROVIDER *provider;
} ia, evd, cno, ep, lmr, rmr;

static DAT_BOOLEAN requested20;

/* Replaces the function of the library and records the thread safety that dat_ia_open requests. */
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_qlen,
			DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *handle, DAT_UINT32 major,
			DAT_UINT32 minor, DAT_BOOLEAN thread_safety)
{
	(void)name, (void)async_evd_qlen, (void)async_evd, (void)handle, (void)major, (void)minor;
	requested20 = thread_safety;
	return DAT_SUCCESS;
}

/* Replaces the function of the library, and passes its arguments on as a registry does. */
DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...)
{
	DAT_RETURN ret;
	va_list args;

	va_start(args, op);
	ret = DAT_HANDLE_EXTENDEDOP(handle, op, args);
	va_end(args);
	return ret;
}

static DAT_RETURN c11_extendedop(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
{
	int counter = va_arg(args, int);
	DAT_UINT64 *value = va_arg(args, DAT_UINT64 *);

	*value = (DAT_UINT64)counter + 100;
	return handle == &ep && op == DAT_IB_QUERY_COUNTERS_OP && va_arg(args, int) == 1
		       ? DAT_SUCCESS
		       : DAT_ABORT;
}

static DAT_RETURN c11_ia_ha_related(DAT_IA_HANDLE handle, const DAT_NAME_PTR name,
				    DAT_BOOLEAN *related)
{
	*related = DAT_FALSE;
	return handle == &ia && !strcmp(name, "ib0") ? DAT_SUCCESS : DAT_ABORT;
}

static DAT_RETURN c11_csp_create(DAT_IA_HANDLE handle, DAT_COMM *comm, DAT_IA_ADDRESS_PTR address,
				 DAT_EVD_HANDLE queue, DAT_CSP_HANDLE *out)
{
	*out = &cno;
	return handle == &ia && queue == &evd && comm->domain == address->sa_family &&
			       comm->type == SOCK_STREAM && comm->protocol == IPPROTO_TCP
		       ? DAT_SUCCESS
		       : DAT_ABORT;
}

static DAT_RETURN c11_cno_fd_create(DAT_IA_HANDLE handle, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
	*fd = 9;
	*out = &cno;
	return handle == &ia ? DAT_SUCCESS : DAT_ABORT;
}

static DAT_RETURN c11_rmr_bind(DAT_RMR_HANDLE handle, DAT_LMR_HANDLE region,
			       const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS priv,
			       DAT_VA_TYPE va_type, DAT_EP_HANDLE endpoint, DAT_RMR_COOKIE cookie,
			       DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
	*context = triplet->segment_length;
	return handle == &rmr && region == &lmr && priv == DAT_MEM_PRIV_REMOTE_READ_FLAG &&
			       va_type == DAT_VA_TYPE_ZB && endpoint == &ep && cookie.as_64 == 42 &&
			       flags == DAT_COMPLETION_SUPPRESS_FLAG
		       ? DAT_SUCCESS
		       : DAT_ABORT;
}

static DAT_RETURN c11_cno_create20(DAT_IA_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent,
				   DAT_CNO_HANDLE *out)
{
	*out = &cno;
	return handle == &ia && agent.instance_data == &evd ? DAT_SUCCESS : DAT_ABORT;
}

static DAT_PROVIDER table20 = {
	.device_name = "none",
	.cno_create_func = c11_cno_create20,
	.rmr_bind_func = c11_rmr_bind,
	.csp_create_func = c11_csp_create,
	.cno_fd_create_func = c11_cno_fd_create,
	.ia_ha_related_func = c11_ia_ha_related,
	.handle_extendedop_func = c11_extendedop,
};

static int settings_of_2_0_before_the_include_are_used(void)
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE handle;

	return dat_ia_open(NULL, 1, &async_evd, &handle) == DAT_SUCCESS &&
	       requested20 == DAT_TRUE && DAT_OPTIMAL_ALIGNMENT == 64 && DAT_EXTENSIONS == 0;
}

static int the_table_has_81_words_without_extensions(void)
{
	return sizeof(DAT_PROVIDER) == 81 * sizeof(void *) &&
	       DAT_HANDLE_TO_PROVIDER(&ep) == &table20 &&
	       !strcmp(DAT_HANDLE_TO_PROVIDER(&ia)->device_name, "none");
}

static int an_extension_op_becomes_a_list_of_arguments(void)
{
	DAT_UINT64 value = 0;

	return dat_ib_query_counters(&ep, DCNT_EP_POST_RECV, &value, 1) == DAT_SUCCESS &&
	       value == 106;
}

/* The reference's macro cannot be used. */
static int ia_ha_related_can_be_used(void)
{
	char name[] = "ib0";
	DAT_BOOLEAN related = DAT_TRUE;

	return DAT_IA_HA_RELATED(&ia, name, &related) == DAT_SUCCESS && related == DAT_FALSE;
}

static int calls_without_an_export_dispatch_through_the_ia(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	DAT_COMM comm = { AF_INET, SOCK_STREAM, IPPROTO_TCP };
	DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
	DAT_CNO_HANDLE out = DAT_HANDLE_NULL;
	DAT_FD fd = -1;

	return DAT_CSP_CREATE(&ia, &comm, (DAT_IA_ADDRESS_PTR)&address, &evd, &csp) ==
		       DAT_SUCCESS &&
	       csp == &cno && DAT_CNO_FD_CREATE(&ia, &fd, &out) == DAT_SUCCESS && fd == 9 &&
	       out == &cno;
}

static int structures_of_2_0_are_passed_by_value(void)
{
	DAT_OS_WAIT_PROXY_AGENT agent = { .instance_data = &evd };
	DAT_CNO_HANDLE out;

	return DAT_CNO_CREATE(&ia, agent, &out) == DAT_SUCCESS && out == &cno &&
	       DAT_CNO_CREATE(&ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &out) == DAT_ABORT;
}

static int arguments_of_2_0_are_passed_in_order(void)
{
	DAT_LMR_TRIPLET triplet = { .segment_length = 64 };
	DAT_RMR_COOKIE cookie = { .as_64 = 42 };
	DAT_RMR_CONTEXT context = 0;

	return DAT_RMR_BIND(&rmr, &lmr, &triplet, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_ZB,
			    &ep, cookie, DAT_COMPLETION_SUPPRESS_FLAG, &context) == DAT_SUCCESS &&
	       context == 64;
}

static int entry_points_and_prefix_of_2_0_have_their_text(void)
{
	DAT_PROVIDER_INFO info = { "ia", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_THREADSAFE };

	return !strcmp(DAT_PROVIDER_INIT_FUNC_STR, "dat_provider_init") &&
	       !strcmp(DAT_PROVIDER_FINI_FUNC_STR, "dat_provider_fini") &&
	       info.dapl_version_major == 2 && info.is_thread_safe == DAT_TRUE &&
	       !strcmp(DAT_RO_AWARE_PREFIX, "RO_AWARE_");
}

static const struct {
	const char *what;
	int (*holds)(void);
} cases[] = {
	{ "DAT_THREADSAFE and others may be set before the include",
	  settings_of_2_0_before_the_include_are_used },
	{ "the table has 81 words, whatever DAT_EXTENSIONS is",
	  the_table_has_81_words_without_extensions },
	{ "DAT_HANDLE_EXTENDEDOP takes the arguments as a list",
	  an_extension_op_becomes_a_list_of_arguments },
	{ "DAT_IA_HA_RELATED can be used", ia_ha_related_can_be_used },
	{ "calls without an export dispatch through the IA",
	  calls_without_an_export_dispatch_through_the_ia },
	{ "structures are passed by value", structures_of_2_0_are_passed_by_value },
	{ "arguments are passed in their order", arguments_of_2_0_are_passed_in_order },
	{ "entry points and name prefix have their text",
	  entry_points_and_prefix_of_2_0_have_their_text },
};

int main(void)
{
	int failures = 0;

	ia.provider = evd.provider = cno.provider = ep.provider = lmr.provider = rmr.provider =
		&table20;
	printf("1..%zu\n", COUNT(cases));
	for (size_t i = 0; i < COUNT(cases); i++) {
		int holds = cases[i].holds();

		printf("%sok %zu - %s\n", holds ? "" : "not ", i + 1, cases[i].what);
		failures += !holds;
	}
	return failures != 0;
}
