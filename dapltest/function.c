/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The function tests: families of cases, each of which makes a few calls and checks their results.
 * They need no peer; the one case that needs a connection request sends it to itself.
 */
#include "dapltest.h"

#include <string.h>

enum {
	REQUEST_TIMEOUT = 10 * 1000 * 1000, /* microseconds */
	CASES_MAX = 18,
};

enum outcome { OUTCOME_PASS, OUTCOME_FAIL, OUTCOME_UNSUPPORTED };

/* What a case works with; it leaves the foundation as it was. */
struct function_case_rig {
	const struct options *options;
	struct origin origin;
	struct foundation base;
};

struct function_case {
	const char *description;
	enum outcome (*run)(struct function_case_rig *rig);
};

struct function_family {
	const char *name;
	const char *feature;
	struct function_case cases[CASES_MAX];
};

/* ---- checks ---- */

static bool returned(struct function_case_rig *rig, const char *call, DAT_RETURN ret,
		     DAT_RETURN_TYPE wanted)
{
	char got[TOOL_RETURN], text[TOOL_RETURN];

	if (DAT_GET_TYPE(ret) == (DAT_UINT32)wanted)
		return true;
	report_failure(&rig->origin, call, "%s in place of %s",
		       tool_return_text(ret, got, sizeof(got)),
		       tool_return_text((DAT_RETURN)wanted, text, sizeof(text)));
	return false;
}

#define SUCCEEDS(rig, call, ...)      returned(rig, #call, call(__VA_ARGS__), DAT_SUCCESS)
#define REFUSES(rig, type, call, ...) returned(rig, #call, call(__VA_ARGS__), type)

static enum outcome outcome_of(bool good)
{
	return good ? OUTCOME_PASS : OUTCOME_FAIL;
}

/* Checks what the query of a child says about its adapter. */
static bool is_adapter(struct function_case_rig *rig, DAT_IA_HANDLE ia)
{
	if (ia == rig->base.adapter.ia)
		return true;
	report_failure(&rig->origin, "query",
		       "another ia_handle than that of the object's adapter");
	return false;
}

/* ---- hwconn ---- */

static enum outcome adapter_opens_and_closes(struct function_case_rig *rig)
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	if (!SUCCEEDS(rig, dat_ia_open, rig->options->ia_name, 8, &async_evd, &ia))
		return OUTCOME_FAIL;
	return outcome_of(SUCCEEDS(rig, dat_ia_close, ia, DAT_CLOSE_ABRUPT_FLAG));
}

static enum outcome unknown_names_are_refused(struct function_case_rig *rig)
{
	static char names[][16] = { "nosuchname", "nosuchname-0", " ", "/dev/null", "localhost:1" };
	bool good = true;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
		DAT_IA_HANDLE ia;

		good &= REFUSES(rig, DAT_PROVIDER_NOT_FOUND, dat_ia_open, names[i], 8, &async_evd,
				&ia);
	}
	return outcome_of(good);
}

static enum outcome null_adapter_is_refused(struct function_case_rig *rig)
{
	return outcome_of(REFUSES(rig, DAT_INVALID_HANDLE, dat_ia_close, DAT_HANDLE_NULL,
				  DAT_CLOSE_ABRUPT_FLAG));
}

static enum outcome abrupt_close_destroys_all(struct function_case_rig *rig)
{
	struct foundation other;
	DAT_EP_HANDLE ep;
	bool good;

	if (foundation_create(&other, &rig->origin, rig->options->ia_name) < 0)
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, foundation_make_ep, &other, &ep);
	foundation_forget(&other);
	return outcome_of(SUCCEEDS(rig, dat_ia_close, other.adapter.ia, DAT_CLOSE_ABRUPT_FLAG) &&
			  good);
}

/* ---- endpoint ---- */

static enum outcome endpoint_is_created_and_freed(struct function_case_rig *rig)
{
	DAT_EP_HANDLE ep;

	if (!SUCCEEDS(rig, foundation_make_ep, &rig->base, &ep))
		return OUTCOME_FAIL;
	return outcome_of(SUCCEEDS(rig, dat_ep_free, ep));
}

static enum outcome freed_zone_takes_no_endpoint(struct function_case_rig *rig)
{
	const DAT_PZ_HANDLE pz = rig->base.pz;
	DAT_EP_HANDLE ep;
	bool good;

	good = SUCCEEDS(rig, dat_pz_create, rig->base.adapter.ia, &rig->base.pz) &&
	       SUCCEEDS(rig, dat_pz_free, rig->base.pz) &&
	       REFUSES(rig, DAT_INVALID_HANDLE, foundation_make_ep, &rig->base, &ep);
	rig->base.pz = pz;
	return outcome_of(good);
}

static enum outcome endpoint_with_receive_is_freed(struct function_case_rig *rig)
{
	struct memory memory;
	DAT_LMR_TRIPLET iov;
	DAT_EP_HANDLE ep;
	DAT_EVENT event;
	bool good;

	if (memory_create(&memory, &rig->base.adapter, rig->base.pz, &rig->origin, 64) < 0)
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, foundation_make_ep, &rig->base, &ep);
	if (good) {
		iov = memory_segment(&memory, 0, memory.size);
		good = SUCCEEDS(rig, dat_ep_post_recv, ep, 1, &iov, (DAT_DTO_COOKIE){ .as_64 = 1 },
				DAT_COMPLETION_DEFAULT_FLAG);
		good &= SUCCEEDS(rig, dat_ep_free, ep);
		/* its flush may or may not be there */
		while (dat_evd_dequeue(rig->base.dto_evd, &event) == DAT_SUCCESS)
			;
	}
	return outcome_of(memory_free(&memory, &rig->origin) == 0 && good);
}

/* ---- pz ---- */

static enum outcome zone_is_created_and_freed(struct function_case_rig *rig)
{
	DAT_PZ_HANDLE pz;

	if (!SUCCEEDS(rig, dat_pz_create, rig->base.adapter.ia, &pz))
		return OUTCOME_FAIL;
	return outcome_of(SUCCEEDS(rig, dat_pz_free, pz));
}

static enum outcome zone_of_endpoint_stays(struct function_case_rig *rig)
{
	DAT_EP_HANDLE ep;
	bool good;

	if (!SUCCEEDS(rig, foundation_make_ep, &rig->base, &ep))
		return OUTCOME_FAIL;
	good = REFUSES(rig, DAT_INVALID_STATE, dat_pz_free, rig->base.pz);
	return outcome_of(SUCCEEDS(rig, dat_ep_free, ep) && good);
}

static enum outcome zone_of_region_stays(struct function_case_rig *rig)
{
	DAT_LMR_HANDLE lmr;
	bool good;

	if (!SUCCEEDS(rig, foundation_register, &rig->base, rig->base.buffer, FOUNDATION_BUFFER,
		      &lmr))
		return OUTCOME_FAIL;
	good = REFUSES(rig, DAT_INVALID_STATE, dat_pz_free, rig->base.pz);
	return outcome_of(SUCCEEDS(rig, dat_lmr_free, lmr) && good);
}

/* ---- mem ---- */

static enum outcome region_is_registered_and_freed(struct function_case_rig *rig)
{
	DAT_LMR_HANDLE lmr;

	if (!SUCCEEDS(rig, foundation_register, &rig->base, rig->base.buffer, FOUNDATION_BUFFER,
		      &lmr))
		return OUTCOME_FAIL;
	return outcome_of(SUCCEEDS(rig, dat_lmr_free, lmr));
}

static enum outcome range_is_registered_twice(struct function_case_rig *rig)
{
	DAT_LMR_HANDLE first, second;
	bool good;

	if (!SUCCEEDS(rig, foundation_register, &rig->base, rig->base.buffer, FOUNDATION_BUFFER,
		      &first))
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, foundation_register, &rig->base, rig->base.buffer, FOUNDATION_BUFFER,
			&second);
	if (good)
		good = SUCCEEDS(rig, dat_lmr_free, second);
	return outcome_of(SUCCEEDS(rig, dat_lmr_free, first) && good);
}

/* DAT names no code for an empty region; some providers have one, some the other. */
static enum outcome empty_region_is_refused(struct function_case_rig *rig)
{
	DAT_LMR_HANDLE lmr;
	DAT_RETURN ret = foundation_register(&rig->base, rig->base.buffer, 0, &lmr);

	if (ret == DAT_SUCCESS)
		(void)dat_lmr_free(lmr);
	if (DAT_GET_TYPE(ret) == DAT_INVALID_PARAMETER)
		return OUTCOME_PASS;
	return outcome_of(returned(rig, "dat_lmr_create", ret, DAT_LENGTH_ERROR));
}

static enum outcome freed_zone_takes_no_region(struct function_case_rig *rig)
{
	const DAT_PZ_HANDLE pz = rig->base.pz;
	DAT_LMR_HANDLE lmr;
	bool good;

	good = SUCCEEDS(rig, dat_pz_create, rig->base.adapter.ia, &rig->base.pz) &&
	       SUCCEEDS(rig, dat_pz_free, rig->base.pz) &&
	       REFUSES(rig, DAT_INVALID_HANDLE, foundation_register, &rig->base, rig->base.buffer,
		       FOUNDATION_BUFFER, &lmr);
	rig->base.pz = pz;
	return outcome_of(good);
}

static enum outcome freed_region_is_refused(struct function_case_rig *rig)
{
	DAT_LMR_HANDLE lmr;

	if (!SUCCEEDS(rig, foundation_register, &rig->base, rig->base.buffer, FOUNDATION_BUFFER,
		      &lmr) ||
	    !SUCCEEDS(rig, dat_lmr_free, lmr))
		return OUTCOME_FAIL;
	return outcome_of(REFUSES(rig, DAT_INVALID_HANDLE, dat_lmr_free, lmr));
}

/* ---- connmgt ---- */

static enum outcome wait_expires(struct function_case_rig *rig, DAT_TIMEOUT timeout)
{
	DAT_EVENT event;
	DAT_COUNT more;

	return outcome_of(REFUSES(rig, DAT_TIMEOUT_EXPIRED, dat_evd_wait, rig->base.connect_evd,
				  timeout, 1, &event, &more));
}

static enum outcome short_wait_expires(struct function_case_rig *rig)
{
	return wait_expires(rig, 10 * 1000);
}

static enum outcome wait_of_no_time_expires(struct function_case_rig *rig)
{
	return wait_expires(rig, 0);
}

/* ---- queryinfo ---- */

static enum outcome adapter_is_queried(struct function_case_rig *rig)
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_ATTR attr;
	DAT_PROVIDER_ATTR provider;

	if (!SUCCEEDS(rig, dat_ia_query, rig->base.adapter.ia, &async_evd, DAT_IA_FIELD_ALL, &attr,
		      DAT_PROVIDER_FIELD_ALL, &provider))
		return OUTCOME_FAIL;
	if (async_evd == rig->base.adapter.async_evd)
		return OUTCOME_PASS;
	report_failure(&rig->origin, "dat_ia_query", "another async EVD than dat_ia_open");
	return OUTCOME_FAIL;
}

static enum outcome cno_is_queried(struct function_case_rig *rig)
{
	DAT_CNO_HANDLE cno;
	DAT_CNO_PARAM param;
	bool good;

	if (!SUCCEEDS(rig, dat_cno_create, rig->base.adapter.ia, DAT_OS_WAIT_PROXY_AGENT_NULL,
		      &cno))
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, dat_cno_query, cno, DAT_CNO_FIELD_ALL, &param) &&
	       is_adapter(rig, param.ia_handle);
	return outcome_of(SUCCEEDS(rig, dat_cno_free, cno) && good);
}

static enum outcome evd_is_queried(struct function_case_rig *rig)
{
	DAT_EVD_PARAM param;

	return outcome_of(
		SUCCEEDS(rig, dat_evd_query, rig->base.dto_evd, DAT_EVD_FIELD_ALL, &param) &&
		is_adapter(rig, param.ia_handle));
}

static enum outcome psp_is_queried(struct function_case_rig *rig)
{
	DAT_CONN_QUAL qualifier;
	DAT_PSP_HANDLE psp;
	DAT_PSP_PARAM param;
	bool good;

	if (!SUCCEEDS(rig, dat_psp_create_any, rig->base.adapter.ia, &qualifier, rig->base.cr_evd,
		      DAT_PSP_CONSUMER_FLAG, &psp))
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, dat_psp_query, psp, DAT_PSP_FIELD_ALL, &param) &&
	       is_adapter(rig, param.ia_handle);
	if (good && param.conn_qual != qualifier) {
		report_failure(&rig->origin, "dat_psp_query", "another qualifier");
		good = false;
	}
	return outcome_of(SUCCEEDS(rig, dat_psp_free, psp) && good);
}

/* The qualifier is one that was free a moment ago. */
static enum outcome rsp_is_queried(struct function_case_rig *rig)
{
	const DAT_IA_HANDLE ia = rig->base.adapter.ia;
	DAT_CONN_QUAL qualifier;
	DAT_PSP_HANDLE psp;
	DAT_RSP_HANDLE rsp;
	DAT_RSP_PARAM param;
	DAT_EP_HANDLE ep;
	bool good;

	if (!SUCCEEDS(rig, dat_psp_create_any, ia, &qualifier, rig->base.cr_evd,
		      DAT_PSP_CONSUMER_FLAG, &psp) ||
	    !SUCCEEDS(rig, dat_psp_free, psp) ||
	    !SUCCEEDS(rig, foundation_make_ep, &rig->base, &ep))
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, dat_rsp_create, ia, qualifier, ep, rig->base.cr_evd, &rsp);
	if (good) {
		good = SUCCEEDS(rig, dat_rsp_query, rsp, DAT_RSP_FIELD_ALL, &param) &&
		       is_adapter(rig, param.ia_handle);
		good &= SUCCEEDS(rig, dat_rsp_free, rsp);
	}
	return outcome_of(SUCCEEDS(rig, dat_ep_free, ep) && good);
}

/* The request goes to this process, which not every transport can do. */
static enum outcome request_is_queried(struct function_case_rig *rig, DAT_EP_HANDLE ep,
				       DAT_CONN_QUAL qualifier)
{
	static char data[] = "queryinfo";
	struct foundation *base = &rig->base;
	DAT_CR_PARAM param;
	DAT_CR_HANDLE cr;
	DAT_EVENT event;
	DAT_COUNT more;
	bool good;

	if (dat_ep_connect(ep, base->adapter.attr.ia_address_ptr, qualifier, REQUEST_TIMEOUT,
			   sizeof(data), data, DAT_QOS_BEST_EFFORT,
			   DAT_CONNECT_DEFAULT_FLAG) != DAT_SUCCESS ||
	    dat_evd_wait(base->cr_evd, REQUEST_TIMEOUT, 1, &event, &more) != DAT_SUCCESS)
		return OUTCOME_UNSUPPORTED;
	cr = event.event_data.cr_arrival_event_data.cr_handle;
	good = SUCCEEDS(rig, dat_cr_query, cr, DAT_CR_FIELD_ALL, &param);
	if (good && (param.private_data_size < (DAT_COUNT)sizeof(data) ||
		     memcmp(param.private_data, data, sizeof(data)) != 0)) {
		report_failure(&rig->origin, "dat_cr_query", "other private data");
		good = false;
	}
	good &= SUCCEEDS(rig, tool_cr_reject, cr);
	good &= SUCCEEDS(rig, dat_evd_wait, base->connect_evd, REQUEST_TIMEOUT, 1, &event, &more);
	return outcome_of(good);
}

static enum outcome cr_is_queried(struct function_case_rig *rig)
{
	struct foundation *base = &rig->base;
	DAT_CONN_QUAL qualifier;
	DAT_PSP_HANDLE psp;
	DAT_EP_HANDLE ep;
	enum outcome outcome;

	if (!SUCCEEDS(rig, foundation_make_ep, base, &ep))
		return OUTCOME_FAIL;
	if (!SUCCEEDS(rig, dat_psp_create_any, base->adapter.ia, &qualifier, base->cr_evd,
		      DAT_PSP_CONSUMER_FLAG, &psp)) {
		(void)dat_ep_free(ep);
		return OUTCOME_FAIL;
	}
	outcome = request_is_queried(rig, ep, qualifier);
	if (!SUCCEEDS(rig, dat_psp_free, psp) || !SUCCEEDS(rig, dat_ep_free, ep))
		return OUTCOME_FAIL;
	return outcome;
}

static enum outcome ep_is_queried(struct function_case_rig *rig)
{
	DAT_EP_PARAM param;
	DAT_EP_HANDLE ep;
	bool good;

	if (!SUCCEEDS(rig, foundation_make_ep, &rig->base, &ep))
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, dat_ep_query, ep, DAT_EP_FIELD_ALL, &param) &&
	       is_adapter(rig, param.ia_handle);
	if (good && param.ep_state != DAT_EP_STATE_UNCONNECTED) {
		report_failure(&rig->origin, "dat_ep_query", "state %d", param.ep_state);
		good = false;
	}
	return outcome_of(SUCCEEDS(rig, dat_ep_free, ep) && good);
}

static enum outcome pz_is_queried(struct function_case_rig *rig)
{
	DAT_PZ_PARAM param;

	return outcome_of(SUCCEEDS(rig, dat_pz_query, rig->base.pz, DAT_PZ_FIELD_ALL, &param) &&
			  is_adapter(rig, param.ia_handle));
}

static enum outcome lmr_is_queried(struct function_case_rig *rig)
{
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;
	bool good;

	if (!SUCCEEDS(rig, foundation_register, &rig->base, rig->base.buffer, FOUNDATION_BUFFER,
		      &lmr))
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, dat_lmr_query, lmr, DAT_LMR_FIELD_ALL, &param) &&
	       is_adapter(rig, param.ia_handle);
	if (good && param.length != FOUNDATION_BUFFER) {
		report_failure(&rig->origin, "dat_lmr_query", "length %lu",
			       (unsigned long)param.length);
		good = false;
	}
	return outcome_of(SUCCEEDS(rig, dat_lmr_free, lmr) && good);
}

static enum outcome rmr_is_queried(struct function_case_rig *rig)
{
	DAT_RMR_HANDLE rmr;
	DAT_RMR_PARAM param;
	DAT_RETURN ret = dat_rmr_create(rig->base.pz, &rmr);
	bool good;

	if (DAT_GET_TYPE(ret) == DAT_MODEL_NOT_SUPPORTED ||
	    DAT_GET_TYPE(ret) == DAT_NOT_IMPLEMENTED)
		return OUTCOME_UNSUPPORTED;
	if (!returned(rig, "dat_rmr_create", ret, DAT_SUCCESS))
		return OUTCOME_FAIL;
	good = SUCCEEDS(rig, dat_rmr_query, rmr, DAT_RMR_FIELD_IA_HANDLE | DAT_RMR_FIELD_PZ_HANDLE,
			&param) &&
	       is_adapter(rig, param.ia_handle);
	return outcome_of(SUCCEEDS(rig, dat_rmr_free, rmr) && good);
}

static enum outcome adapter_query_needs_attributes(struct function_case_rig *rig)
{
	return outcome_of(REFUSES(rig, DAT_INVALID_PARAMETER, dat_ia_query, rig->base.adapter.ia,
				  NULL, DAT_IA_FIELD_ALL, NULL, 0, NULL));
}

static enum outcome adapter_query_needs_adapter(struct function_case_rig *rig)
{
	DAT_IA_ATTR attr;

	return outcome_of(REFUSES(rig, DAT_INVALID_HANDLE, dat_ia_query, rig->base.pz, NULL,
				  DAT_IA_FIELD_ALL, &attr, 0, NULL));
}

static enum outcome cno_query_needs_parameters(struct function_case_rig *rig)
{
	DAT_CNO_HANDLE cno;
	bool good;

	if (!SUCCEEDS(rig, dat_cno_create, rig->base.adapter.ia, DAT_OS_WAIT_PROXY_AGENT_NULL,
		      &cno))
		return OUTCOME_FAIL;
	good = REFUSES(rig, DAT_INVALID_PARAMETER, dat_cno_query, cno, DAT_CNO_FIELD_ALL, NULL);
	return outcome_of(SUCCEEDS(rig, dat_cno_free, cno) && good);
}

static enum outcome cno_query_needs_cno(struct function_case_rig *rig)
{
	DAT_CNO_PARAM param;

	return outcome_of(REFUSES(rig, DAT_INVALID_HANDLE, dat_cno_query, rig->base.pz,
				  DAT_CNO_FIELD_ALL, &param));
}

static enum outcome evd_query_needs_parameters(struct function_case_rig *rig)
{
	return outcome_of(REFUSES(rig, DAT_INVALID_PARAMETER, dat_evd_query, rig->base.dto_evd,
				  DAT_EVD_FIELD_ALL, NULL));
}

static enum outcome evd_query_needs_evd(struct function_case_rig *rig)
{
	DAT_EVD_PARAM param;

	return outcome_of(REFUSES(rig, DAT_INVALID_HANDLE, dat_evd_query, rig->base.pz,
				  DAT_EVD_FIELD_ALL, &param));
}

static enum outcome psp_query_needs_parameters(struct function_case_rig *rig)
{
	DAT_CONN_QUAL qualifier;
	DAT_PSP_HANDLE psp;
	bool good;

	if (!SUCCEEDS(rig, dat_psp_create_any, rig->base.adapter.ia, &qualifier, rig->base.cr_evd,
		      DAT_PSP_CONSUMER_FLAG, &psp))
		return OUTCOME_FAIL;
	good = REFUSES(rig, DAT_INVALID_PARAMETER, dat_psp_query, psp, DAT_PSP_FIELD_ALL, NULL);
	return outcome_of(SUCCEEDS(rig, dat_psp_free, psp) && good);
}

static enum outcome psp_query_needs_psp(struct function_case_rig *rig)
{
	DAT_PSP_PARAM param;

	return outcome_of(REFUSES(rig, DAT_INVALID_HANDLE, dat_psp_query, rig->base.pz,
				  DAT_PSP_FIELD_ALL, &param));
}

/* ---- families ---- */

static const struct function_family families[] = {
	{ "hwconn",
	  "Hardware Connectivity",
	  { { "opens the adapter and closes it abruptly", adapter_opens_and_closes },
	    { "opens names that nobody has", unknown_names_are_refused },
	    { "closes an adapter that is no handle", null_adapter_is_refused },
	    { "closes an adapter that has an endpoint, abruptly", abrupt_close_destroys_all } } },
	{ "endpoint",
	  "End Point Management",
	  { { "creates an endpoint and frees it", endpoint_is_created_and_freed },
	    { "creates an endpoint in a zone that was freed", freed_zone_takes_no_endpoint },
	    { "frees an endpoint that has a receive posted", endpoint_with_receive_is_freed } } },
	{ "pz",
	  "Protection Zone Management",
	  { { "creates a zone and frees it", zone_is_created_and_freed },
	    { "frees the zone of an endpoint", zone_of_endpoint_stays },
	    { "frees the zone of a region", zone_of_region_stays } } },
	{ "mem",
	  "Memory Management",
	  { { "registers memory and frees the region", region_is_registered_and_freed },
	    { "registers the same memory twice", range_is_registered_twice },
	    { "registers no byte", empty_region_is_refused },
	    { "registers memory in a zone that was freed", freed_zone_takes_no_region },
	    { "frees a region twice", freed_region_is_refused } } },
	{ "connmgt",
	  "Connection Management",
	  { { "waits 10 ms for an event that does not come", short_wait_expires },
	    { "waits no time for an event", wait_of_no_time_expires } } },
	{ "queryinfo",
	  "Query Information",
	  { { "queries an adapter and its provider", adapter_is_queried },
	    { "queries a CNO", cno_is_queried },
	    { "queries an EVD", evd_is_queried },
	    { "queries a public service point", psp_is_queried },
	    { "queries a reserved service point", rsp_is_queried },
	    { "queries a connection request", cr_is_queried },
	    { "queries an endpoint", ep_is_queried },
	    { "queries a zone", pz_is_queried },
	    { "queries a local region", lmr_is_queried },
	    { "queries a remote region", rmr_is_queried },
	    { "queries an adapter into no attributes", adapter_query_needs_attributes },
	    { "queries another object as an adapter", adapter_query_needs_adapter },
	    { "queries a CNO into no parameters", cno_query_needs_parameters },
	    { "queries another object as a CNO", cno_query_needs_cno },
	    { "queries an EVD into no parameters", evd_query_needs_parameters },
	    { "queries another object as an EVD", evd_query_needs_evd },
	    { "queries a public service point into no parameters", psp_query_needs_parameters },
	    { "queries another object as a public service point", psp_query_needs_psp } } },
};

static const struct function_family *family_find(const char *name)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (strcmp(families[i].name, name) == 0)
			return &families[i];
	return NULL;
}

bool function_family_known(const char *name)
{
	return family_find(name) != NULL;
}

unsigned function_case_count(const char *family)
{
	const struct function_case *cases = family_find(family)->cases;
	unsigned count = 0;

	while (count < CASES_MAX && cases[count].run)
		count++;
	return count;
}

/* A case leaves nothing behind, or the foundation could not be freed. */
static enum outcome case_run(struct function_case_rig *rig, const struct function_case *one)
{
	enum outcome outcome;

	if (foundation_create(&rig->base, &rig->origin, rig->options->ia_name) < 0)
		return OUTCOME_FAIL;
	outcome = one->run(rig);
	return foundation_free(&rig->base, &rig->origin) < 0 ? OUTCOME_FAIL : outcome;
}

int function_run(const struct options *options)
{
	static const char stars[] =
		"***********************************************************************";
	static const char *const results[] = {
		[OUTCOME_PASS] = "PASS", [OUTCOME_FAIL] = "FAIL", [OUTCOME_UNSUPPORTED] = "UNSUPP"
	};
	const struct function_family *family = family_find(options->family);
	struct function_case_rig rig = { .options = options, .origin = { .lane = -1 } };
	const unsigned count = function_case_count(options->family);
	int result = 0;

	for (unsigned i = 0; i < count && !interrupted; i++) {
		enum outcome outcome;

		if (options->cases && !(options->cases & UINT32_C(1) << i))
			continue;
		(void)snprintf(rig.origin.name, sizeof(rig.origin.name), "%s case%u", family->name,
			       i);
		report("%s", stars);
		report("Function feature: %s case: %u", family->feature, i);
		report("Description: %s", family->cases[i].description);
		outcome = case_run(&rig, &family->cases[i]);
		report("Result: %s", results[outcome]);
		report("%s", stars);
		if (outcome == OUTCOME_FAIL)
			result = -1;
	}
	if (interrupted) {
		complain(DAPLTEST ": interrupted");
		result = -1;
	}
	return result;
}
