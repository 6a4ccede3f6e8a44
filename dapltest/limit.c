/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit tests: each creates objects of one kind until the provider refuses one, or there are
 * enough, and frees them all. A refusal is what they look for; what fails is a free, or what an
 * object needs before it.
 */
#include "dapltest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	FIRST_QUALIFIER = 0xAFFAB1E, /* no port: providers must take qualifiers of more bits */
	QUALIFIERS_SKIPPED = 1000,
	EVD_QLEN = 8,
};

/* An object of a test, and the one that only it needs. */
struct sample_object {
	DAT_HANDLE handle;
	DAT_EP_HANDLE ep;
};

struct limit {
	const struct options *options;
	struct origin origin;
	struct foundation *foundations; /* options->width of them, which take turns */
	struct sample_object *objects;	/* options->max of them */
	DAT_CONN_QUAL qualifier;	/* the next one */
};

struct limit_test {
	const char *name;
	const char *result; /* the beginning of the line that has the number */
	const char *description;
	/* makes object, with the foundation whose turn it is */
	DAT_RETURN(*create)
	(struct limit *limit, struct foundation *base, struct sample_object *object);
	DAT_RETURN (*destroy)(struct sample_object *object);
	/* or all of it: the result is 0 or -1 */
	int (*run)(struct limit *limit);
};

/* ---- objects ---- */

static DAT_RETURN ia_make(struct limit *limit, struct foundation *base,
			  struct sample_object *object)
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;

	(void)base;
	return dat_ia_open(limit->options->ia_name, EVD_QLEN, &async_evd, &object->handle);
}

static DAT_RETURN ia_unmake(struct sample_object *object)
{
	return dat_ia_close(object->handle, DAT_CLOSE_GRACEFUL_FLAG);
}

static DAT_RETURN pz_make(struct limit *limit, struct foundation *base,
			  struct sample_object *object)
{
	(void)limit;
	return dat_pz_create(base->adapter.ia, &object->handle);
}

static DAT_RETURN pz_unmake(struct sample_object *object)
{
	return dat_pz_free(object->handle);
}

static DAT_RETURN cno_make(struct limit *limit, struct foundation *base,
			   struct sample_object *object)
{
	(void)limit;
	return dat_cno_create(base->adapter.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &object->handle);
}

static DAT_RETURN cno_unmake(struct sample_object *object)
{
	return dat_cno_free(object->handle);
}

static DAT_RETURN evd_make(struct limit *limit, struct foundation *base,
			   struct sample_object *object)
{
	(void)limit;
	return dat_evd_create(base->adapter.ia, EVD_QLEN, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
			      &object->handle);
}

static DAT_RETURN evd_unmake(struct sample_object *object)
{
	return dat_evd_free(object->handle);
}

/* Everything that an endpoint uses is of its own adapter. */
static DAT_RETURN ep_make(struct limit *limit, struct foundation *base,
			  struct sample_object *object)
{
	(void)limit;
	return foundation_make_ep(base, &object->handle);
}

static DAT_RETURN ep_unmake(struct sample_object *object)
{
	return dat_ep_free(object->handle);
}

/* A qualifier that is taken, possibly by another program, is no limit. */
static DAT_RETURN psp_make(struct limit *limit, struct foundation *base,
			   struct sample_object *object)
{
	unsigned skipped = 0;
	DAT_RETURN ret;

	do
		ret = dat_psp_create(base->adapter.ia, limit->qualifier++, base->cr_evd,
				     DAT_PSP_CONSUMER_FLAG, &object->handle);
	while (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE && skipped++ < QUALIFIERS_SKIPPED);
	return ret;
}

static DAT_RETURN psp_unmake(struct sample_object *object)
{
	return dat_psp_free(object->handle);
}

static DAT_RETURN rsp_make(struct limit *limit, struct foundation *base,
			   struct sample_object *object)
{
	struct sample_object ep;
	unsigned skipped = 0;
	DAT_RETURN ret = ep_make(limit, base, &ep);

	if (ret != DAT_SUCCESS)
		return ret;
	object->ep = ep.handle;
	do
		ret = dat_rsp_create(base->adapter.ia, limit->qualifier++, object->ep, base->cr_evd,
				     &object->handle);
	while (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE && skipped++ < QUALIFIERS_SKIPPED);
	if (ret != DAT_SUCCESS)
		(void)TRY(&limit->origin, dat_ep_free, object->ep);
	return ret;
}

static DAT_RETURN rsp_unmake(struct sample_object *object)
{
	DAT_RETURN ret = dat_rsp_free(object->handle), ep_ret = dat_ep_free(object->ep);

	return ret == DAT_SUCCESS ? ep_ret : ret;
}

static DAT_RETURN lmr_make(struct limit *limit, struct foundation *base,
			   struct sample_object *object)
{
	(void)limit;
	return foundation_register(base, base->buffer, FOUNDATION_BUFFER, &object->handle);
}

static DAT_RETURN lmr_unmake(struct sample_object *object)
{
	return dat_lmr_free(object->handle);
}

/* ---- receives ---- */

/*
 * An endpoint with room for as many receives as the device or -m allows, and an EVD with room for
 * their completions.
 */
static int limit_ep_create(struct limit *limit, struct foundation *base, DAT_EVD_HANDLE *recv_evd,
			   DAT_EP_HANDLE *ep)
{
	const DAT_IA_ATTR *ia = &base->adapter.attr;
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = FOUNDATION_BUFFER,
		.max_rdma_size = FOUNDATION_BUFFER,
		.qos = DAT_QOS_BEST_EFFORT,
		.max_request_dtos = 1,
		.max_recv_dtos = (DAT_COUNT)limit->options->max,
		.max_recv_iov = 1,
		.max_request_iov = 1,
	};

	if (ia->max_dto_per_ep > 0 && attr.max_recv_dtos > ia->max_dto_per_ep)
		attr.max_recv_dtos = ia->max_dto_per_ep;
	if (ia->max_evd_qlen > 0 && attr.max_recv_dtos > ia->max_evd_qlen)
		attr.max_recv_dtos = ia->max_evd_qlen;
	if (TRY(&limit->origin, dat_evd_create, base->adapter.ia, attr.max_recv_dtos,
		DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, recv_evd) < 0)
		return -1;
	if (TRY(&limit->origin, dat_ep_create, base->adapter.ia, base->pz, *recv_evd, base->dto_evd,
		base->connect_evd, &attr, ep) < 0)
		goto free_recv_evd;
	return 0;
free_recv_evd:
	(void)TRY(&limit->origin, dat_evd_free, *recv_evd);
	return -1;
}

static unsigned limit_post_receives(struct limit *limit, struct foundation *base, DAT_EP_HANDLE ep,
				    DAT_LMR_CONTEXT lmr_context)
{
	DAT_LMR_TRIPLET iov = { .lmr_context = lmr_context,
				.virtual_address = (DAT_VADDR)(uintptr_t)base->buffer,
				.segment_length = FOUNDATION_BUFFER };
	unsigned posted = 0;

	while (posted < limit->options->max &&
	       dat_ep_post_recv(ep, 1, &iov, (DAT_DTO_COOKIE){ .as_64 = posted },
				DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS)
		posted++;
	return posted;
}

/* Receives that a reset ends have no other status than FLUSHED. */
static int limit_check_flushes(struct limit *limit, DAT_EVD_HANDLE recv_evd)
{
	DAT_DTO_COMPLETION_STATUS status;
	DAT_EVENT event;

	while (dat_evd_dequeue(recv_evd, &event) == DAT_SUCCESS) {
		status = event.event_data.dto_completion_event_data.status;
		if (status != DAT_DTO_ERR_FLUSHED) {
			report_failure(&limit->origin, "dat_ep_reset",
				       "a receive completed with %s", tool_status_name(status));
			return -1;
		}
	}
	return 0;
}

/* The endpoint is not connected; a reset is legal then, and the memory can be freed after it. */
static int limit_rpost_once(struct limit *limit, struct foundation *base)
{
	const struct origin *origin = &limit->origin;
	struct memory memory;
	DAT_EVD_HANDLE recv_evd;
	DAT_EP_HANDLE ep;
	unsigned posted;
	int result;

	if (memory_create(&memory, &base->adapter, base->pz, origin, FOUNDATION_BUFFER) < 0)
		return -1;
	result = limit_ep_create(limit, base, &recv_evd, &ep);
	if (result < 0)
		goto free_memory;
	posted = limit_post_receives(limit, base, ep, memory.lmr_context);
	report("LimitTest: recv buffers posted per EP: %u", posted);
	if (posted == 0)
		result = -1;
	if (TRY(origin, dat_ep_reset, ep) < 0 || limit_check_flushes(limit, recv_evd) < 0)
		result = -1;
	if (TRY(origin, dat_ep_free, ep) < 0 || TRY(origin, dat_evd_free, recv_evd) < 0)
		result = -1;
free_memory:
	if (memory_free(&memory, origin) < 0)
		result = -1;
	return result;
}

static int limit_rpost(struct limit *limit)
{
	int result = 0;

	for (unsigned i = 0; i < limit->options->width && !interrupted; i++)
		if (limit_rpost_once(limit, &limit->foundations[i]) < 0)
			result = -1;
	return result;
}

/* ---- the largest region ---- */

/* Returns half of what is free: the kernel would end programs to pin more. */
static size_t memory_to_use(void)
{
	const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (size_t)pages / 2 * (size_t)size : FOUNDATION_BUFFER;
}

/*
 * Returns 1 if a region of that size was registered and freed, 0 if it was refused, -1 after a
 * failure.
 */
static int limit_try_size(struct limit *limit, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	DAT_LMR_HANDLE lmr;
	int result = 0;

	if (at == MAP_FAILED)
		return 0;
	if (foundation_register(&limit->foundations[0], at, size, &lmr) == DAT_SUCCESS)
		result = TRY(&limit->origin, dat_lmr_free, lmr) < 0 ? -1 : 1;
	(void)munmap(at, size);
	return result;
}

static int limit_size_lmr(struct limit *limit)
{
	const size_t most = memory_to_use();
	size_t size = FOUNDATION_BUFFER, largest = 0;
	int result = 1;

	for (; result > 0 && size <= most && !interrupted; size *= 2) {
		result = limit_try_size(limit, size);
		largest = result > 0 ? size : largest;
	}
	if (result > 0)
		report("NOTE: larger regions were not tried, because memory is short");
	report("LimitTest: Largest LMR was 0x%zx bytes", largest);
	return result < 0 || largest == 0 ? -1 : 0;
}

/* ---- the tests ---- */

static const struct limit_test limit_tests[] = {
	{ "limit_ia", "IAs opened", "how often the adapter can be opened", ia_make, ia_unmake,
	  NULL },
	{ "limit_pz", "PZs created", "protection zones", pz_make, pz_unmake, NULL },
	{ "limit_cno", "CNOs created", "consumer notification objects", cno_make, cno_unmake,
	  NULL },
	{ "limit_evd", "EVDs created", "event dispatchers", evd_make, evd_unmake, NULL },
	{ "limit_ep", "EPs created", "endpoints", ep_make, ep_unmake, NULL },
	{ "limit_rsp", "RSPs created", "reserved service points, each with an endpoint", rsp_make,
	  rsp_unmake, NULL },
	{ "limit_psp", "PSPs created", "public service points", psp_make, psp_unmake, NULL },
	{ "limit_lmr", "LMRs created", "memory regions of 4096 bytes", lmr_make, lmr_unmake, NULL },
	{ "limit_rpost", NULL, "receives posted to an endpoint, and its reset", NULL, NULL,
	  limit_rpost },
	{ "limit_size_lmr", NULL, "the size of a memory region", NULL, NULL, limit_size_lmr },
};

int limit_test_find(const char *name)
{
	for (size_t i = 0; i < sizeof(limit_tests) / sizeof(limit_tests[0]); i++)
		if (strcmp(name, limit_tests[i].name) == 0)
			return (int)i;
	return -1;
}

/* None at all is no limit, but an object that does not exist here. */
static int limit_count_objects(struct limit *limit, const struct limit_test *test)
{
	const unsigned width = limit->options->width;
	char text[TOOL_RETURN];
	DAT_RETURN ret = DAT_SUCCESS;
	unsigned count = 0;
	int result = 0;

	while (count < limit->options->max && !interrupted) {
		ret = test->create(limit, &limit->foundations[count % width],
				   &limit->objects[count]);
		if (ret != DAT_SUCCESS)
			break;
		count++;
	}
	report("LimitTest: %s: %u", test->result, count);
	if (ret != DAT_SUCCESS)
		report("LimitTest: the next one was refused: %s",
		       tool_return_text(ret, text, sizeof(text)));
	if (count == 0)
		result = -1;
	while (count-- > 0) {
		ret = test->destroy(&limit->objects[count]);
		if (report_call(&limit->origin, "free", ret) < 0)
			result = -1;
	}
	return result;
}

static int limit_run_on_foundations(struct limit *limit, const struct limit_test *test)
{
	unsigned made = 0;
	int result = -1;

	for (; made < limit->options->width; made++)
		if (foundation_create(&limit->foundations[made], &limit->origin,
				      limit->options->ia_name) < 0) {
			report("error occurs, can not continue with limit test");
			goto free_foundations;
		}
	result = test->run ? test->run(limit) : limit_count_objects(limit, test);
free_foundations:
	while (made-- > 0)
		if (foundation_free(&limit->foundations[made], &limit->origin) < 0)
			result = -1;
	return result;
}

static int limit_run_test(struct limit *limit, const struct limit_test *test)
{
	static const char stars[] =
		"***********************************************************************";
	int result;

	(void)snprintf(limit->origin.name, sizeof(limit->origin.name), "%s", test->name);
	report("%s", stars);
	report("Limitation Test                      %s", test->name);
	report("Description: %s", test->description);
	result = limit_run_on_foundations(limit, test);
	if (result < 0)
		report("FAIL: %s", test->name);
	report("%s", stars);
	return result;
}

int limit_run(const struct options *options)
{
	struct limit limit = {
		.options = options,
		.origin = { .lane = -1 },
		.foundations = calloc(options->width, sizeof(*limit.foundations)),
		.objects = calloc(options->max, sizeof(*limit.objects)),
		.qualifier = FIRST_QUALIFIER,
	};
	int result = 0;

	if (!limit.foundations || !limit.objects) {
		complain(DAPLTEST ": no memory for %u objects", options->max);
		result = -1;
		goto free_lists;
	}
	for (unsigned i = 0; i < sizeof(limit_tests) / sizeof(limit_tests[0]); i++) {
		if (interrupted || (options->limit_tests && !(options->limit_tests & 1U << i)))
			continue;
		if (limit_run_test(&limit, &limit_tests[i]) < 0)
			result = -1;
	}
	if (interrupted) {
		complain(DAPLTEST ": interrupted");
		result = -1;
	}
free_lists:
	free(limit.objects);
	free(limit.foundations);
	return result;
}
