/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers in a C11 provider: it includes dat_registry.h first and uses the dispatch macros. */
#define DAT_THREADSAFE	      DAT_TRUE
#define DAT_OPTIMAL_ALIGNMENT 64
#include <dat/dat_registry.h>

#include <dat/dat.h>
#include <dat/dat_error.h>
#include <dat/dat_platform_specific.h>
#include <dat/dat_redirection.h>
#include <dat/dat_vendor_specific.h>
#include <dat/udat.h>
#include <dat/udat_config.h>
#include <dat/udat_redirection.h>
#include <dat/udat_vendor_specific.h>

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A provider's object begins with the provider's table. */
static struct c11_object {
	DAT_PROVIDER *provider;
} ia, pz, evd, cno, ep, srq;

static DAT_BOOLEAN requested;

/* Replaces the function of the library and records the thread safety that dat_ia_open requests. */
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_evd_qlen,
			DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *handle, DAT_UINT32 major,
			DAT_UINT32 minor, DAT_BOOLEAN thread_safety)
{
	(void)name, (void)async_evd_qlen, (void)async_evd, (void)handle, (void)major, (void)minor;
	requested = thread_safety;
	return DAT_SUCCESS;
}

static DAT_RETURN c11_srq_create(DAT_IA_HANDLE handle, DAT_PZ_HANDLE zone, DAT_SRQ_ATTR *attr,
				 DAT_SRQ_HANDLE *out)
{
	*out = &srq;
	return handle == &ia && zone == &pz && attr->max_recv_dtos == 7 ? DAT_SUCCESS : DAT_ABORT;
}

static DAT_RETURN c11_cno_create(DAT_IA_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent,
				 DAT_CNO_HANDLE *out)
{
	*out = &cno;
	return handle == &ia && agent.instance_data == &evd ? DAT_SUCCESS : DAT_ABORT;
}

static DAT_RETURN c11_evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			       DAT_EVENT *event, DAT_COUNT *nmore)
{
	event->event_number = DAT_SOFTWARE_EVENT;
	*nmore = threshold - 1;
	return handle == &evd && timeout == DAT_TIMEOUT_INFINITE ? DAT_SUCCESS : DAT_ABORT;
}

static DAT_RETURN c11_ep_post_send(DAT_EP_HANDLE handle, DAT_COUNT num_segments,
				   DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
				   DAT_COMPLETION_FLAGS flags)
{
	return handle == &ep && num_segments == 0 && !iov && cookie.as_64 == 42 &&
			       flags == DAT_COMPLETION_SUPPRESS_FLAG
		       ? DAT_SUCCESS
		       : DAT_ABORT;
}

static DAT_PROVIDER table = {
	.device_name = "none",
	.cno_create_func = c11_cno_create,
	.evd_wait_func = c11_evd_wait,
	.ep_post_send_func = c11_ep_post_send,
	.srq_create_func = c11_srq_create,
};

static int settings_before_the_include_are_used(void)
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE handle;

	return dat_ia_open(NULL, 1, &async_evd, &handle) == DAT_SUCCESS && requested == DAT_TRUE &&
	       DAT_OPTIMAL_ALIGNMENT == 64;
}

static int an_object_leads_to_its_provider(void)
{
	return DAT_HANDLE_TO_PROVIDER(&ep) == &table &&
	       !strcmp(DAT_HANDLE_TO_PROVIDER(&ia)->device_name, "none");
}

/* Other macros dispatch through the handle of the object, which does not exist yet here. */
static int srq_create_dispatches_through_the_ia(void)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 7 };
	DAT_SRQ_HANDLE out = DAT_HANDLE_NULL;

	return DAT_SRQ_CREATE(&ia, &pz, &attr, &out) == DAT_SUCCESS && out == &srq;
}

static int structures_are_passed_by_value(void)
{
	DAT_OS_WAIT_PROXY_AGENT agent = { .instance_data = &evd };
	DAT_CNO_HANDLE out;

	return DAT_CNO_CREATE(&ia, agent, &out) == DAT_SUCCESS && out == &cno &&
	       DAT_CNO_CREATE(&ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &out) == DAT_ABORT;
}

static int arguments_are_passed_in_order(void)
{
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_DTO_COOKIE cookie = { .as_64 = 42 };

	return DAT_EVD_WAIT(&evd, DAT_TIMEOUT_INFINITE, 3, &event, &nmore) == DAT_SUCCESS &&
	       nmore == 2 && event.event_number == DAT_SOFTWARE_EVENT &&
	       DAT_EP_POST_SEND(&ep, 0, NULL, cookie, DAT_COMPLETION_SUPPRESS_FLAG) == DAT_SUCCESS;
}

static int entry_points_and_prefix_have_their_text(void)
{
	DAT_PROVIDER_INFO info = { "ia", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_THREADSAFE };

	return !strcmp(DAT_PROVIDER_INIT_FUNC_STR, "dat_provider_init") &&
	       !strcmp(DAT_PROVIDER_FINI_FUNC_STR, "dat_provider_fini") &&
	       info.is_thread_safe == DAT_TRUE && !strcmp(DAT_RO_AWARE_PREFIX, "RO_AWARE_");
}

static const struct {
	const char *what;
	int (*holds)(void);
} cases[] = {
	{ "DAT_THREADSAFE and DAT_OPTIMAL_ALIGNMENT may be set before the include",
	  settings_before_the_include_are_used },
	{ "the first word of an object leads to its provider", an_object_leads_to_its_provider },
	{ "DAT_SRQ_CREATE dispatches through the IA", srq_create_dispatches_through_the_ia },
	{ "structures are passed by value", structures_are_passed_by_value },
	{ "arguments are passed in their order", arguments_are_passed_in_order },
	{ "entry points and name prefix have their text", entry_points_and_prefix_have_their_text },
};

int main(void)
{
	int failures = 0;

	ia.provider = pz.provider = evd.provider = cno.provider = ep.provider = srq.provider =
		&table;
	printf("1..%zu\n", COUNT(cases));
	for (size_t i = 0; i < COUNT(cases); i++) {
		int holds = cases[i].holds();

		printf("%sok %zu - %s\n", holds ? "" : "not ", i + 1, cases[i].what);
		failures += !holds;
	}
	return failures != 0;
}
