/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of a test, from their objects to the end of the last one. */
#include "dapltest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PORTS_SKIPPED = 10000,
};

static struct lane *crew_find_lane(struct crew *crew, const DAT_CR_ARRIVAL_EVENT_DATA *request)
{
	for (unsigned i = 0; i < crew->test->plan->lanes; i++)
		if (crew->lanes[i].rsp ? crew->lanes[i].rsp == request->sp_handle.rsp_handle
				       : crew->lanes[i].psp == request->sp_handle.psp_handle)
			return &crew->lanes[i];
	return NULL;
}

/* Returns 1 if the request was accepted, 0 if it was another's, -1 after a failure. */
static int crew_answer(struct crew *crew, const DAT_CR_ARRIVAL_EVENT_DATA *request)
{
	struct lane *lane = crew_find_lane(crew, request);
	DAT_CR_PARAM param;
	int result = 0;

	if (TRY(&crew->origin, dat_cr_query, request->cr_handle, DAT_CR_FIELD_ALL, &param) < 0)
		result = -1;
	else if (!lane || !lane_invited(lane, &param))
		report_failure(lane ? &lane->channel.origin : &crew->origin, "accept",
			       "a connection request with other private data than the client's");
	else if (lane_accept(lane, request->cr_handle) < 0)
		result = -1;
	else
		return 1;
	/* without a reject the client would wait until its time-out */
	(void)TRY_TOOL(&crew->origin, "dat_cr_reject", tool_cr_reject, request->cr_handle);
	return result;
}

static int crew_accept(struct crew *crew)
{
	const struct patience patience = { .way = WAIT_EVD, .stop = &crew->test->stop };
	unsigned accepted = 0;
	DAT_EVENT event;
	DAT_RETURN ret;
	int answer;

	while (accepted < crew->test->plan->lanes) {
		switch (event_wait(&patience, crew->cr_evd, PEER_TIMEOUT, &event, &ret)) {
		case WAIT_EVENT:
			answer = crew_answer(crew, &event.event_data.cr_arrival_event_data);
			if (answer < 0)
				return -1;
			accepted += (unsigned)answer;
			break;
		case WAIT_LATE:
			report_failure(&crew->origin, "accept", "%u of %u connections came",
				       accepted, crew->test->plan->lanes);
			return -1;
		case WAIT_STOPPED:
			return -1;
		default:
			return report_call(&crew->origin, "dat_evd_wait", ret);
		}
	}
	for (unsigned i = 0; i < accepted; i++)
		if (channel_expect_established(&crew->lanes[i].channel) < 0)
			return -1;
	return 0;
}

static int crew_set_up_server(struct crew *crew)
{
	const unsigned lanes = crew->test->plan->lanes;

	if (crew_accept(crew) < 0)
		return -1;
	for (unsigned i = 0; i < lanes; i++)
		if (lane_receive_setup(&crew->lanes[i], PEER_TIMEOUT) < 0 ||
		    lane_send_setup(&crew->lanes[i]) < 0)
			return -1;
	return 0;
}

/* The client sends first, as iWARP requires of the active side. */
static int crew_set_up_client(struct crew *crew)
{
	const unsigned lanes = crew->test->plan->lanes;

	for (unsigned i = 0; i < lanes; i++)
		if (lane_connect(&crew->lanes[i]) < 0)
			return -1;
	for (unsigned i = 0; i < lanes; i++)
		if (lane_send_setup(&crew->lanes[i]) < 0)
			return -1;
	for (unsigned i = 0; i < lanes; i++)
		if (lane_receive_setup(&crew->lanes[i], PEER_TIMEOUT) < 0) {
			report("FAIL: %u Server test connections did not report ready.", lanes - i);
			return -1;
		}
	return 0;
}

/* ---- a thread ---- */

static int crew_set_up(struct crew *crew)
{
	return crew->test->server ? crew_set_up_server(crew) : crew_set_up_client(crew);
}

/* All crews begin together, or none: the times of one would not be those of the test. */
static int crew_wait_others(struct crew *crew)
{
	struct test *test = crew->test;
	bool stopped;

	pthread_mutex_lock(&test->lock);
	if (++test->ready == test->plan->threads)
		pthread_cond_broadcast(&test->changed);
	while (test->ready < test->plan->threads && !atomic_load(&test->stop))
		pthread_cond_wait(&test->changed, &test->lock);
	stopped = atomic_load(&test->stop);
	pthread_mutex_unlock(&test->lock);
	return stopped ? -1 : 0;
}

static int crew_work(struct crew *crew)
{
	if (crew_set_up(crew) < 0 || crew_wait_others(crew) < 0)
		return -1;
	report_step(&crew->origin, "begins");
	return crew->test->plan->mode == MODE_TRANSACTION ? transaction_run(crew)
							  : performance_run(crew);
}

/* The connections of a crew that has failed end at once, so that the peer does not wait. */
static void crew_give_up(struct crew *crew)
{
	DAT_EVENT event;

	test_stop(crew->test);
	for (unsigned i = 0; i < crew->test->plan->lanes; i++) {
		lane_unlisten(&crew->lanes[i]);
		channel_disconnect(&crew->lanes[i].channel);
	}
	while (crew->cr_evd && dat_evd_dequeue(crew->cr_evd, &event) == DAT_SUCCESS)
		(void)tool_cr_reject(event.event_data.cr_arrival_event_data.cr_handle);
}

static void *crew_main(void *argument)
{
	struct crew *crew = argument;
	struct test *test = crew->test;

	crew->failed = crew_work(crew) < 0;
	if (crew->failed)
		crew_give_up(crew);
	pthread_mutex_lock(&test->lock);
	test->ended++;
	pthread_cond_broadcast(&test->changed);
	pthread_mutex_unlock(&test->lock);
	return NULL;
}

static enum wait_way plan_wait_way(const struct plan *plan)
{
	return plan->cno ? WAIT_CNO : plan->poll ? WAIT_POLL : WAIT_EVD;
}

static int crew_open(struct crew *crew, struct test *test, unsigned number)
{
	const struct plan *plan = test->plan;
	const DAT_IA_HANDLE ia = test->adapter->ia;
	unsigned made = 0;

	*crew = (struct crew){ .test = test,
			       .number = number,
			       .origin = { .lane = -1 },
			       .patience = { .way = plan_wait_way(plan), .stop = &test->stop } };
	(void)snprintf(crew->origin.name, sizeof(crew->origin.name), "Test[%u]",
		       test->port + number * plan->lanes);
	crew->lanes = calloc(plan->lanes, sizeof(*crew->lanes));
	if (!crew->lanes) {
		report_failure(&crew->origin, "calloc", "%s", strerror(errno));
		return -1;
	}
	if (TRY(&crew->origin, dat_pz_create, ia, &crew->pz) < 0)
		goto free_lanes;
	if (plan->cno && TRY(&crew->origin, dat_cno_create, ia, DAT_OS_WAIT_PROXY_AGENT_NULL,
			     &crew->patience.cno) < 0)
		goto free_pz;
	if (test->server && TRY(&crew->origin, dat_evd_create, ia, (DAT_COUNT)plan->lanes + 1,
				DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &crew->cr_evd) < 0)
		goto free_cno;
	for (; made < plan->lanes; made++)
		if (lane_open(&crew->lanes[made], crew, made) < 0)
			goto close_lanes;
	return 0;
close_lanes:
	while (made-- > 0)
		(void)lane_close(&crew->lanes[made]);
	if (crew->cr_evd)
		(void)TRY(&crew->origin, dat_evd_free, crew->cr_evd);
free_cno:
	if (crew->patience.cno)
		(void)TRY(&crew->origin, dat_cno_free, crew->patience.cno);
free_pz:
	(void)TRY(&crew->origin, dat_pz_free, crew->pz);
free_lanes:
	free(crew->lanes);
	return -1;
}

static int crew_close(struct crew *crew)
{
	int result = 0;

	for (unsigned i = 0; i < crew->test->plan->lanes; i++)
		if (lane_close(&crew->lanes[i]) < 0)
			result = -1;
	if (crew->cr_evd && TRY(&crew->origin, dat_evd_free, crew->cr_evd) < 0)
		result = -1;
	if (crew->patience.cno && TRY(&crew->origin, dat_cno_free, crew->patience.cno) < 0)
		result = -1;
	if (TRY(&crew->origin, dat_pz_free, crew->pz) < 0)
		result = -1;
	free(crew->lanes);
	return result;
}

/* ---- the test ---- */

static struct lane *test_lane(const struct test *test, uint32_t number)
{
	return &test->crews[number / test->plan->lanes].lanes[number % test->plan->lanes];
}

/*
 * The qualifiers of a test follow each other, so that the client needs the first one only. One that
 * is taken moves all of them behind it, and to the first ones from the last.
 */
static int test_listen(struct test *test)
{
	const uint32_t total = test->plan->threads * test->plan->lanes;
	uint32_t skipped = 0, made = 0;
	DAT_RETURN ret;

	while (made < total) {
		ret = lane_listen(test_lane(test, made), test->port + made);
		if (ret == DAT_SUCCESS) {
			made++;
			continue;
		}
		if (DAT_GET_TYPE(ret) != DAT_CONN_QUAL_IN_USE || skipped++ == PORTS_SKIPPED)
			return report_call(&test_lane(test, made)->channel.origin,
					   test->plan->rsp ? "dat_rsp_create" : "dat_psp_create",
					   ret);
		test->port += made + 1;
		if (test->port + total > PORT_LAST + 1)
			test->port = LANE_PORT;
		while (made > 0)
			lane_unlisten(test_lane(test, --made));
	}
	return 0;
}

/* The origins of lines have the port, which is known only now. */
static void test_name_crews(struct test *test)
{
	for (unsigned i = 0; i < test->plan->threads; i++) {
		struct crew *crew = &test->crews[i];

		(void)snprintf(crew->origin.name, sizeof(crew->origin.name), "Test[%u]",
			       test->port + i * test->plan->lanes);
		for (unsigned j = 0; j < test->plan->lanes; j++)
			memcpy(crew->lanes[j].channel.origin.name, crew->origin.name,
			       sizeof(crew->origin.name));
	}
}

/* All tests of this process together have taken so many bytes. */
static _Atomic uint64_t memory_taken;

/* A client can ask for more than a server has, and several of them can. */
static int test_take_memory(struct test *test)
{
	const uint64_t lanes = (uint64_t)test->plan->threads * test->plan->lanes;
	const uint64_t most = tool_memory_most();

	test->memory = lanes * plan_lay_out(test->plan, test->offsets);
	if (test->memory <= most) {
		if (atomic_fetch_add(&memory_taken, test->memory) <= most - test->memory)
			return 0;
		atomic_fetch_sub(&memory_taken, test->memory);
	}
	complain(DAPLTEST
		 ": the test needs %llu bytes of memory; all tests together may take %llu, "
		 "half of what there is",
		 (unsigned long long)test->memory, (unsigned long long)most);
	return -1;
}

static void test_give_memory(struct test *test)
{
	atomic_fetch_sub(&memory_taken, test->memory);
}

/* The clock of test_wait is one that nobody sets. */
static void test_init_lock(struct test *test)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&test->lock, NULL);
	(void)pthread_cond_init(&test->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
}

int test_open(struct test *test)
{
	unsigned made = 0;

	if (test_take_memory(test) < 0)
		return -1;
	test->crews = calloc(test->plan->threads, sizeof(*test->crews));
	if (!test->crews) {
		complain(DAPLTEST ": no memory for %u threads", test->plan->threads);
		goto give_memory;
	}
	test_init_lock(test);
	for (; made < test->plan->threads; made++)
		if (crew_open(&test->crews[made], test, made) < 0)
			goto close_crews;
	if (test->server && test_listen(test) < 0)
		goto close_crews;
	test_name_crews(test);
	return 0;
close_crews:
	while (made-- > 0)
		(void)crew_close(&test->crews[made]);
	pthread_cond_destroy(&test->changed);
	pthread_mutex_destroy(&test->lock);
	free(test->crews);
give_memory:
	test_give_memory(test);
	return -1;
}

int test_close(struct test *test)
{
	int result = 0;

	for (unsigned i = 0; i < test->plan->threads; i++)
		if (crew_close(&test->crews[i]) < 0)
			result = -1;
	pthread_cond_destroy(&test->changed);
	pthread_mutex_destroy(&test->lock);
	free(test->crews);
	test_give_memory(test);
	return result;
}

void test_stop(struct test *test)
{
	pthread_mutex_lock(&test->lock);
	atomic_store(&test->stop, true);
	pthread_cond_broadcast(&test->changed);
	pthread_mutex_unlock(&test->lock);
}

int test_start(struct test *test)
{
	int error;

	for (; test->started < test->plan->threads; test->started++) {
		struct crew *crew = &test->crews[test->started];

		error = pthread_create(&crew->thread, NULL, crew_main, crew);
		if (error) {
			complain(DAPLTEST ": no more threads: %s", strerror(error));
			test_stop(test);
			return -1;
		}
	}
	return 0;
}

bool test_wait(struct test *test, unsigned usec)
{
	struct timespec until;
	bool all;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += usec % 1000000 * 1000;
	until.tv_sec += usec / 1000000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&test->lock);
	while (test->ended < test->started)
		if (pthread_cond_timedwait(&test->changed, &test->lock, &until))
			break;
	all = test->ended == test->started;
	pthread_mutex_unlock(&test->lock);
	return all;
}

int test_join(struct test *test)
{
	int result = test->started < test->plan->threads ? -1 : 0;

	for (unsigned i = 0; i < test->started; i++) {
		(void)pthread_join(test->crews[i].thread, NULL);
		if (test->crews[i].failed)
			result = -1;
	}
	return result;
}
