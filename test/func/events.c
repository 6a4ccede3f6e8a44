/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event dispatchers and notification objects while real completions arrive: waiting, waking,
 * counting, losing none.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "peer.h"

static uint64_t usec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A connected pair, memory, and receives 0, 1, 2… at the far end. */
struct field {
	struct pair pair;
	struct memory near, far;
};

static void field_open(struct field *f, unsigned receives)
{
	pair_open(&f->pair, NULL);
	f->near = memory_make(&f->pair.near, 4096, DAT_MEM_PRIV_ALL_FLAG);
	f->far = memory_make(&f->pair.far, 4096, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < receives; i++)
		recv_post(f->pair.far.ep, i, seg(&f->far, i * 8, 8));
}

/*
 * Sends a message for receive number, and returns when it is in the memory there. Nobody touches
 * the EVD there.
 */
static void deliver(struct field *f, unsigned number)
{
	memset(f->near.at, (int)number + 1, 8);
	send_post(f->pair.near.ep, number, seg(&f->near, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(f->pair.near.requests, f->pair.near.ep, number, DAT_DTO_SUCCESS, 8);
	while (__atomic_load_n(&f->far.at[number * 8 + 7], __ATOMIC_ACQUIRE) != number + 1)
		sched_yield();
}

START_TEST(threshold_counts)
{
	struct waiter waiter = { 0 };
	struct field f;
	DAT_EVENT event;
	DAT_COUNT nmore;

	field_open(&f, 5);
	waiter.evd = f.pair.far.recvs;
	waiter.threshold = 3;
	waiter_start(&waiter);
	deliver(&f, 0);
	deliver(&f, 1);
	/* still in there */
	returns(BAD_STATE(EVD_WAITER), dat_evd_dequeue(f.pair.far.recvs, &event));
	deliver(&f, 2);
	waiter_join(&waiter);
	must(waiter.ret);
	ck_assert_int_eq(waiter.nmore, 2);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	/* two of three are there: the time passes, and nothing is taken */
	do
		ck_assert_uint_eq(dat_evd_wait(f.pair.far.recvs, 10000, 3, &event, &nmore),
				  TIMED_OUT);
	while (nmore < 2);
	ck_assert_int_eq(nmore, 2);
	must(dat_evd_wait(f.pair.far.recvs, 0, 2, &event, &nmore));
	ck_assert_int_eq(nmore, 1);
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 2, DAT_DTO_SUCCESS, 8);
	returns(BAD_ARG(3), dat_evd_wait(f.pair.far.recvs, 0, 0, &event, &nmore));
	returns(BAD_ARG(3), dat_evd_wait(f.pair.far.recvs, 0, 100000, &event, &nmore));
	returns(BAD_ARG(4), dat_evd_wait(f.pair.far.recvs, 0, 1, NULL, &nmore));
	returns(BAD_ARG(5), dat_evd_wait(f.pair.far.recvs, 0, 1, &event, NULL));
	pair_close(&f.pair);
}
END_TEST

START_TEST(time_outs)
{
	DAT_COUNT nmore = 77;
	struct side side;
	DAT_EVENT event;
	uint64_t before;

	side_open(&side, 0);
	returns(TIMED_OUT, dat_evd_wait(side.recvs, 0, 1, &event, &nmore));
	ck_assert_int_eq(nmore, 0);
	before = usec();
	returns(TIMED_OUT, dat_evd_wait(side.recvs, 30000, 1, &event, &nmore));
	ck_assert_uint_ge(usec() - before, 30000);
	before = usec();
	returns(TIMED_OUT, dat_evd_wait(side.connects, 30000, 1, &event, &nmore));
	ck_assert_uint_ge(usec() - before, 30000);
	no_event(side.recvs);
	side_close(&side);
}
END_TEST

START_TEST(a_waiter_is_alone)
{
	struct waiter waiter = { 0 };
	struct field f;
	DAT_EVENT event;
	DAT_COUNT nmore;

	field_open(&f, 2);
	waiter.evd = f.pair.far.recvs;
	waiter_start(&waiter);
	returns(BAD_STATE(EVD_WAITER), dat_evd_wait(f.pair.far.recvs, 0, 1, &event, &nmore));
	returns(BAD_STATE(EVD_WAITER), dat_evd_dequeue(f.pair.far.recvs, &event));
	must(dat_evd_set_unwaitable(f.pair.far.recvs));
	waiter_join(&waiter);
	returns(BAD_STATE(EVD_UNWAITABLE), waiter.ret);
	returns(BAD_STATE(EVD_UNWAITABLE), dat_evd_wait(f.pair.far.recvs, 0, 1, &event, &nmore));
	/* nothing else has changed: events come and are dequeued */
	no_event(f.pair.far.recvs);
	deliver(&f, 0);
	while (dat_evd_dequeue(f.pair.far.recvs, &event) == DAT_QUEUE_EMPTY)
		sched_yield();
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	must(dat_evd_clear_unwaitable(f.pair.far.recvs));
	waiter_start(&waiter);
	deliver(&f, 1);
	waiter_join(&waiter);
	must(waiter.ret);
	ck_assert_uint_eq(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64, 1);
	pair_close(&f.pair);
}
END_TEST

START_TEST(an_evd_with_a_waiter_is_not_freed)
{
	struct waiter waiter = { 0 };
	struct side side;
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };

	side_open(&side, 0);
	must(dat_evd_create(side.ia, 4, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &waiter.evd));
	waiter_start(&waiter);
	returns(BAD_STATE(EVD_WAITER), dat_evd_free(waiter.evd));
	event.event_data.software_event_data.pointer = &side;
	must(dat_evd_post_se(waiter.evd, &event));
	waiter_join(&waiter);
	must(waiter.ret);
	ck_assert_ptr_eq(waiter.event.event_data.software_event_data.pointer, &side);
	must(dat_evd_free(waiter.evd));
	returns(BAD_HANDLE(1), dat_evd_free(waiter.evd));
	side_close(&side);
}
END_TEST

static void on_signal(int number)
{
	(void)number;
}

/* Until it is seen to have returned: the signal may come just before it sleeps. */
static void interrupt(struct waiter *waiter)
{
	while (pthread_tryjoin_np(waiter->thread, NULL)) {
		pthread_kill(waiter->thread, SIGUSR1);
		sched_yield();
	}
	returns(FAILS(INTERRUPTED_CALL, NO_SUBTYPE), waiter->ret);
}

START_TEST(signals_interrupt_waiters)
{
	struct waiter on_evd = { 0 }, on_cno = { 0 };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct side side;

	sigaction(SIGUSR1, &action, NULL);
	side_open(&side, 0);
	on_evd.evd = side.recvs;
	waiter_start(&on_evd);
	interrupt(&on_evd);
	ck_assert_int_eq(on_evd.nmore, 0);
	must(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &on_cno.cno));
	waiter_start(&on_cno);
	interrupt(&on_cno);
	no_event(side.recvs);
	side_close(&side);
}
END_TEST

/* ---- notification objects ---- */

static void cno_quiet(DAT_CNO_HANDLE cno)
{
	DAT_EVD_HANDLE evd = cno;

	returns(DAT_QUEUE_EMPTY, dat_cno_wait(cno, 0, &evd));
	ck_assert_ptr_null(evd);
}

START_TEST(cno_wakes_for_its_evds)
{
	DAT_EVD_HANDLE fired;
	DAT_CNO_HANDLE cno;
	struct field f;

	field_open(&f, 6);
	must(dat_cno_create(f.pair.far.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	must(dat_evd_modify_cno(f.pair.far.recvs, cno));
	returns(BAD_STATE(CNO_IN_USE), dat_cno_free(cno));
	cno_quiet(cno);
	send_post(f.pair.near.ep, 0, seg(&f.near, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	must(dat_cno_wait(cno, LONG, &fired));
	ck_assert_ptr_eq(fired, f.pair.far.recvs);
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 0, DAT_DTO_SUCCESS, 8);
	dto_wait(f.pair.near.requests, f.pair.near.ep, 0, DAT_DTO_SUCCESS, 8);
	/* three events and one notification */
	for (unsigned i = 1; i < 4; i++)
		deliver(&f, i);
	must(dat_cno_wait(cno, LONG, &fired));
	ck_assert_ptr_eq(fired, f.pair.far.recvs);
	for (unsigned i = 1; i < 4; i++)
		dto_wait(f.pair.far.recvs, f.pair.far.ep, i, DAT_DTO_SUCCESS, 8);
	/* disabled, it keeps still; enabled again, it makes up for it */
	while (dat_cno_wait(cno, 0, &fired) == DAT_SUCCESS)
		; /* a trigger for what was drained already may have been under way */
	must(dat_evd_disable(f.pair.far.recvs));
	deliver(&f, 4);
	cno_quiet(cno);
	must(dat_evd_enable(f.pair.far.recvs));
	must(dat_cno_wait(cno, LONG, &fired));
	ck_assert_ptr_eq(fired, f.pair.far.recvs);
	dto_wait(f.pair.far.recvs, f.pair.far.ep, 4, DAT_DTO_SUCCESS, 8);
	/* detached, it keeps still for good */
	must(dat_evd_modify_cno(f.pair.far.recvs, DAT_HANDLE_NULL));
	deliver(&f, 5);
	cno_quiet(cno);
	must(dat_cno_free(cno));
	pair_close(&f.pair);
}
END_TEST

START_TEST(cno_wakes_a_sleeper)
{
	struct waiter waiter = { 0 };
	struct field f;

	field_open(&f, 16);
	must(dat_cno_create(f.pair.far.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &waiter.cno));
	must(dat_evd_modify_cno(f.pair.far.recvs, waiter.cno));
	must(dat_evd_modify_cno(f.pair.far.connects, waiter.cno));
	for (unsigned i = 0; i < 16; i++) {
		waiter_start(&waiter);
		send_post(f.pair.near.ep, i, seg(&f.near, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
		waiter_join(&waiter);
		must(waiter.ret);
		ck_assert_ptr_eq(waiter.fired, f.pair.far.recvs);
		dto_wait(f.pair.far.recvs, f.pair.far.ep, i, DAT_DTO_SUCCESS, 8);
		dto_wait(f.pair.near.requests, f.pair.near.ep, i, DAT_DTO_SUCCESS, 8);
	}
	must(dat_evd_modify_cno(f.pair.far.recvs, DAT_HANDLE_NULL));
	waiter_start(&waiter);
	must(dat_ep_disconnect(f.pair.near.ep, DAT_CLOSE_ABRUPT_FLAG));
	waiter_join(&waiter);
	must(waiter.ret);
	ck_assert_ptr_eq(waiter.fired, f.pair.far.connects);
	connection_event_wait(f.pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
			      f.pair.far.ep);
	pair_close(&f.pair);
}
END_TEST

static _Atomic unsigned agent_calls;
static DAT_EVD_HANDLE _Atomic agent_evd;

static void agent_body(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	agent_evd = evd;
	agent_calls += *(unsigned *)data;
}

START_TEST(agents_are_called_once_each_time_they_are_set)
{
	unsigned one = 1;
	DAT_OS_WAIT_PROXY_AGENT agent = { &one, agent_body };
	DAT_EVD_HANDLE fired;
	DAT_CNO_HANDLE cno;
	struct field f;

	field_open(&f, 4);
	must(dat_cno_create(f.pair.far.ia, agent, &cno));
	must(dat_evd_modify_cno(f.pair.far.recvs, cno));
	deliver(&f, 0);
	while (agent_calls == 0)
		sched_yield();
	ck_assert_ptr_eq(agent_evd, f.pair.far.recvs);
	must(dat_cno_wait(cno, LONG, &fired)); /* and the latch is set all the same */
	deliver(&f, 1);
	must(dat_cno_wait(cno, LONG, &fired));
	ck_assert_uint_eq(agent_calls, 1);
	must(dat_cno_modify_agent(cno, agent));
	deliver(&f, 2);
	while (agent_calls == 1)
		sched_yield();
	ck_assert_uint_eq(agent_calls, 2);
	pair_close(&f.pair);
}
END_TEST

/* ---- many on one ---- */

#define PAIRS  48 /* at most */
#define ROUNDS 5

/* One EVD takes receives and requests of all endpoints of a side. */
static void share_an_evd(struct side *side)
{
	must(dat_evd_create(side->ia, 4 * PAIRS * ROUNDS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
			    &side->recvs));
	side->requests = side->recvs;
}

/* What endpoint i is due on the shared EVD: its receives in order, and its sends in order. */
static void all_arrive(const struct side *side, const DAT_EP_HANDLE *eps, unsigned n)
{
	unsigned received[PAIRS] = { 0 }, sent[PAIRS] = { 0 };

	for (unsigned left = 2 * n * ROUNDS; left; left--) {
		DAT_EVENT event = event_wait(side->recvs, DAT_DTO_COMPLETION_EVENT);
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;
		uint64_t value = dto->user_cookie.as_64;
		unsigned i = (unsigned)(value >> 32), *next = value & 1 ? &sent[i] : &received[i];

		ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
		ck_assert_uint_lt(i, n);
		ck_assert_ptr_eq(dto->ep_handle, eps[i]);
		ck_assert_uint_eq((value & 0xffffffff) >> 1, (*next)++);
		ck_assert_uint_eq(dto->transfered_length, i + 1);
	}
	no_event(side->recvs);
}

START_TEST(one_evd_for_everything)
{
	const DAT_EP_ATTR attr = ep_attr(ROUNDS, ROUNDS);
	unsigned n = device()->crowd < PAIRS ? (unsigned)device()->crowd : PAIRS;
	DAT_EP_HANDLE near_eps[PAIRS], far_eps[PAIRS];
	struct memory near, far;
	struct pair pair;

	side_open(&pair.near, 1);
	side_open(&pair.far, 0);
	share_an_evd(&pair.near);
	share_an_evd(&pair.far);
	near = memory_make(&pair.near, 4096, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 4096, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < n; i++) {
		near_eps[i] = ep_make(&pair.near, &attr);
		far_eps[i] = ep_make(&pair.far, &attr);
		eps_connect(&pair.near, near_eps[i], &pair.far, far_eps[i]);
		for (uint64_t r = 0; r < ROUNDS; r++) {
			recv_post(near_eps[i], (uint64_t)i << 32 | r << 1, seg(&near, 0, 64));
			recv_post(far_eps[i], (uint64_t)i << 32 | r << 1, seg(&far, 0, 64));
		}
	}
	for (uint64_t r = 0; r < ROUNDS; r++)
		for (unsigned i = 0; i < n; i++) {
			send_post(near_eps[i], (uint64_t)i << 32 | r << 1 | 1,
				  seg(&near, 100, i + 1), 0);
			send_post(far_eps[i], (uint64_t)i << 32 | r << 1 | 1, seg(&far, 100, i + 1),
				  0);
		}
	all_arrive(&pair.near, near_eps, n);
	all_arrive(&pair.far, far_eps, n);
	pair_close(&pair);
}
END_TEST

START_TEST(requests_and_connections_on_one_evd)
{
	const DAT_EVD_FLAGS all = DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG;
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	struct memory near, far;
	struct pair pair;

	side_open(&pair.near, 1);
	side_open(&pair.far, 0);
	must(dat_evd_create(pair.far.ia, QLEN, DAT_HANDLE_NULL, all, &pair.far.arrivals));
	pair.far.connects = pair.far.recvs = pair.far.requests = pair.far.arrivals;
	pair.near.ep = ep_make(&pair.near, NULL);
	pair.far.ep = ep_make(&pair.far, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 100, DAT_MEM_PRIV_ALL_FLAG);
	pair_connect(&pair);
	must(dat_evd_post_se(pair.far.arrivals, &event));
	event_wait(pair.far.arrivals, DAT_SOFTWARE_EVENT);
	recv_post(pair.far.ep, 1, seg(&far, 0, 100));
	send_post(pair.near.ep, 2, seg(&near, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.far.recvs, pair.far.ep, 1, DAT_DTO_SUCCESS, 100);
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.far.ep);
	no_event(pair.far.arrivals);
	pair_close(&pair);
}
END_TEST

START_TEST(resize_loses_nothing)
{
	DAT_EVD_PARAM param;
	struct field f;

	field_open(&f, 8);
	for (unsigned i = 0; i < 4; i++)
		deliver(&f, i);
	must(dat_evd_resize(f.pair.far.recvs, 2 * QLEN));
	must(dat_evd_query(f.pair.far.recvs, DAT_EVD_FIELD_ALL, &param));
	ck_assert_int_ge(param.evd_qlen, 2 * QLEN);
	for (unsigned i = 4; i < 8; i++)
		deliver(&f, i);
	for (unsigned i = 0; i < 8; i++)
		dto_wait(f.pair.far.recvs, f.pair.far.ep, i, DAT_DTO_SUCCESS, 8);
	returns(BAD_ARG(2), dat_evd_resize(f.pair.far.recvs, 0));
	pair_close(&f.pair);
}
END_TEST

/* A consumer that never looks at its asynchronous events; and one room for them, too. */
START_TEST(nobody_reads_the_asynchronous_evd)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	struct pair pair;

	must(dat_ia_openv((DAT_NAME_PTR)ia_name(0, BY_INTERFACE), 1, &async, &ia, 1, 2, DAT_FALSE));
	pair_open_unconnected(&pair, NULL);
	for (unsigned round = 0; round < 10; round++) {
		DAT_RMR_TRIPLET nowhere = { .rmr_context = 0xdead00,
					    .target_address = 4096,
					    .segment_length = 8 };
		struct memory memory;

		pair_connect(&pair);
		memory = memory_make(&pair.near, 64, DAT_MEM_PRIV_ALL_FLAG);
		write_post(pair.near.ep, round, seg(&memory, 0, 8), nowhere,
			   DAT_COMPLETION_DEFAULT_FLAG);
		ended_wait(pair.near.connects, pair.near.ep);
		ended_wait(pair.far.connects, pair.far.ep);
		must(dat_ep_reset(pair.near.ep));
		must(dat_ep_reset(pair.far.ep));
		event_wait(pair.near.requests, DAT_DTO_COMPLETION_EVENT);
		must(dat_lmr_free(memory.lmr));
	}
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
	must(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ threshold_counts, NEEDS_NOTHING },
		{ time_outs, NEEDS_NOTHING },
		{ a_waiter_is_alone, NEEDS_NOTHING },
		{ an_evd_with_a_waiter_is_not_freed, NEEDS_NOTHING },
		{ signals_interrupt_waiters, NEEDS_NOTHING },
		{ cno_wakes_for_its_evds, NEEDS_NOTHING },
		{ cno_wakes_a_sleeper, NEEDS_NOTHING },
		{ agents_are_called_once_each_time_they_are_set, NEEDS_NOTHING },
		{ one_evd_for_everything, NEEDS_NOTHING },
		{ requests_and_connections_on_one_evd, NEEDS_NOTHING },
		{ resize_loses_nothing, NEEDS_NOTHING },
		{ nobody_reads_the_asynchronous_evd, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
