/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whom the service thread leaves alone, and whom it serves: consumers that poll, that poll now and
 * then, and that sleep.
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_endpoint.h>

#include "../../udapl/ofi/ofi.h"
#include "../unit/race.h"
#include "ofi_test.h"

#define VISIT_INTERVAL 1000000 /* ns; that of progress.c */
#define ROUNDS	       100

static struct ofi_rig rig;
static struct tp_cq *cq;

/* The service thread does nothing as long as the lock of the IA is held: a case does its visits. */
static void setup(void)
{
	ff_provider()->protocol = FI_PROTO_SOCK_TCP;
	ofi_rig_open(&rig);
	cq = ((struct evd *)rig.dto_evd)->cq;
	ofi_rig_lock(&rig);
}

static void teardown(void)
{
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}

static void visit_due(void)
{
	(void)progress_run(cq->dev, true, false);
}

/* Two completions wait from here on. */
static void message_arrives(void)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };

	ck_dat(ep_post_recv(rig.passive, 1, &rig.segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static bool is_waiting(void)
{
	struct pollfd fd = { .fd = cq->fi_fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

/* The last poll finds nothing. */
static void poll_all(void)
{
	DAT_EVENT event;

	while (evd_dequeue(rig.dto_evd, &event) == DAT_SUCCESS)
		;
}

/* Visits, as long as the next one is due at once. Returns how many there were. */
static unsigned visits_at_once(void)
{
	unsigned n = 0;

	do {
		visit_due();
		n++;
	} while (cq->due && cq->delay < VISIT_INTERVAL);
	return n;
}

/* ---- a consumer that polls now and then ---- */

/* It takes what it has requested, and looks for its peer's bytes in its memory. */
static void arrivals_beside_rare_polls(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		poll_all();
		message_arrives();
		(void)visits_at_once();
		ck_assert(!is_waiting());
	}
}

START_TEST(what_waits_beside_a_rare_poll_is_taken_at_once)
{
	visit_due();
	arrivals_beside_rare_polls(_i ? 1 : ROUNDS);
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	poll_all();
}
END_TEST

/* What arrives is late after a grace. */
START_TEST(a_consumer_that_polls_rarely_is_waited_for_rarely)
{
	unsigned waits = 0;

	arrivals_beside_rare_polls(2);
	for (unsigned i = 0; i < ROUNDS; i++) {
		poll_all();
		message_arrives();
		visit_due();
		waits += is_waiting();
		(void)visits_at_once();
		ck_assert(!is_waiting());
	}
	ck_assert_uint_ge(waits, 2);
	ck_assert_uint_le(waits, ROUNDS / 20);
	poll_all();
}
END_TEST

/* The service thread sleeps by the clock, whatever arrives, until nothing has for a while. */
START_TEST(visits_for_a_consumer_that_polls_rarely_have_naps_between_them)
{
	arrivals_beside_rare_polls(ROUNDS);
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	for (unsigned i = 0; i < ROUNDS; i++) {
		message_arrives();
		visit_due();
		ck_assert_uint_eq(cq->progress, PROGRESS_VISITED);
		ck_assert(cq->due && cq->delay < VISIT_INTERVAL);
	}
	ck_assert_uint_gt(visits_at_once(), ROUNDS / 10);
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	ck_assert(!cq->due);
	poll_all();
}
END_TEST

/* Its bytes arrive there from now on. A visit is due. */
static void use_descriptor(int fd)
{
	progress_remove(cq);
	cq->fi_fd = fd;
	cq->due = false;
	ck_assert_int_eq(progress_add(cq), 0);
	progress_due(cq);
}

/*
 * What nobody can take in, such as a message for which no receive is posted, keeps the descriptor
 * readable, and is no arrival.
 */
START_TEST(what_stays_there_causes_no_naps)
{
	const int fi_fd = cq->fi_fd, unread = eventfd(1, EFD_CLOEXEC);

	ck_assert_int_ge(unread, 0);
	arrivals_beside_rare_polls(ROUNDS);
	use_descriptor(unread);
	for (unsigned i = 0; i < ROUNDS && cq->due; i++)
		visit_due();
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	ck_assert(!cq->due);
	use_descriptor(fi_fd);
	close(unread);
	(void)visits_at_once();
	message_arrives();
	visit_due();
	ck_assert_uint_eq(cq->progress, PROGRESS_VISITED);
	ck_assert_uint_lt(visits_at_once(), ROUNDS);
	poll_all();
}
END_TEST

/* ---- busy polling in the place of naps ---- */

#define US UINT64_C(1000) /* ns */
#define MS UINT64_C(1000000)

static struct service *service(void)
{
	return &((struct ia *)rig.ia)->service;
}

/* This thread counts as the service thread for the visits of a case. */
static pthread_t become_service_thread(void)
{
	pthread_t real = service()->thread;

	service()->thread = pthread_self();
	return real;
}

static void visit_with_arrival(void)
{
	message_arrives();
	visit_due();
	ck_assert(!is_waiting());
	ck_assert(cq->due && cq->delay && cq->delay < VISIT_INTERVAL);
}

START_TEST(a_free_processor_polls_where_a_busy_one_naps)
{
	pthread_t real = become_service_thread();

	arrivals_beside_rare_polls(ROUNDS);
	ck_assert(!tp_dev_busy_polls(cq->dev));
	visit_with_arrival();
	ck_assert(tp_dev_busy_polls(cq->dev));
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	ck_assert(cq->in_dev_set);
	ck_assert_uint_le(tp_dev_deadline(cq->dev), tp_now() + VISIT_INTERVAL);
	atomic_store(&service()->busy.rests_until, TP_NEVER);
	visit_with_arrival();
	ck_assert(!tp_dev_busy_polls(cq->dev));
	ck_assert_uint_eq(cq->progress, PROGRESS_VISITED);
	service()->thread = real;
	poll_all();
}
END_TEST

START_TEST(polling_ends_when_nothing_arrives)
{
	pthread_t real = become_service_thread();

	arrivals_beside_rare_polls(ROUNDS);
	visit_with_arrival();
	ck_assert_uint_gt(visits_at_once(), ROUNDS / 10);
	ck_assert(!cq->due);
	ck_assert(!tp_dev_busy_polls(cq->dev));
	service()->thread = real;
	poll_all();
}
END_TEST

START_TEST(only_the_service_thread_polls)
{
	arrivals_beside_rare_polls(ROUNDS);
	visit_with_arrival();
	ck_assert(!tp_dev_busy_polls(cq->dev));
	ck_assert_uint_eq(cq->progress, PROGRESS_VISITED);
	poll_all();
}
END_TEST

/* Its latest arrival has a nap, which uses no processor. */
static void visit_naps(void)
{
	visit_with_arrival();
	ck_assert(!tp_dev_busy_polls(cq->dev));
	ck_assert_uint_eq(cq->progress, PROGRESS_VISITED);
}

/* It may sleep, and need nothing soon. */
START_TEST(for_a_consumer_that_has_not_polled_for_long_nobody_polls)
{
	pthread_t real = become_service_thread();

	arrivals_beside_rare_polls(ROUNDS);
	visit_with_arrival();
	ck_assert(tp_dev_busy_polls(cq->dev));
	cq->polled_at = tp_now() - 20 * MS;
	visit_naps();
	arrivals_beside_rare_polls(2);
	visit_with_arrival();
	ck_assert(tp_dev_busy_polls(cq->dev));
	service()->thread = real;
	poll_all();
}
END_TEST

/* A visit that looks at so many takes longer than a wake-up. */
START_TEST(for_an_arrival_among_many_endpoints_nobody_polls)
{
	const unsigned qps = cq->qps;
	pthread_t real = become_service_thread();

	arrivals_beside_rare_polls(ROUNDS);
	cq->qps = 1500;
	visit_naps();
	cq->qps = qps;
	service()->thread = real;
	poll_all();
}
END_TEST

static void *visit_as_idle_thread(void *unused)
{
	const struct sched_param param = { .sched_priority = 0 };
	pthread_t real = become_service_thread();

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	ck_assert_int_eq(pthread_setschedparam(pthread_self(), SCHED_IDLE, &param), 0);
	visit_naps();
	service()->thread = real;
	return unused;
}

/* One of real-time would give its processor to nobody; any user may have one of this kind. */
START_TEST(a_thread_of_another_scheduling_policy_does_not_poll)
{
	pthread_t thread;

	arrivals_beside_rare_polls(ROUNDS);
	ck_assert_int_eq(pthread_create(&thread, NULL, visit_as_idle_thread, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	poll_all();
}
END_TEST

static uint64_t now_fake;

static uint64_t rest_after_rounds(struct busy_poll *busy, unsigned n, uint64_t time)
{
	while (n--) {
		busy_poll_round(busy, now_fake, now_fake + time);
		now_fake += time;
	}
	return busy_poll_allowed(busy, now_fake) ? 0 : atomic_load(&busy->rests_until) - now_fake;
}

START_TEST(who_gets_its_processor_back_late_polls_no_more_for_a_while)
{
	struct busy_poll busy = { 0 };
	uint64_t rest = 0, next;

	now_fake = MS;
	ck_assert_uint_eq(rest_after_rounds(&busy, 10, 2 * US), 0);
	for (unsigned i = 0; i < 20; i++) {
		next = rest_after_rounds(&busy, 1, 4 * MS);
		ck_assert_uint_ge(next, rest);
		rest = next;
		now_fake += rest;
		ck_assert(busy_poll_allowed(&busy, now_fake));
		ck_assert(!busy_poll_allowed(&busy, now_fake - 1));
		(void)rest_after_rounds(&busy, 10, 2 * US);
	}
	ck_assert_uint_ge(rest, 100 * MS);
	ck_assert_uint_le(rest, 1000 * MS);
}
END_TEST

START_TEST(who_had_its_processor_for_long_polls_again_soon)
{
	struct busy_poll busy = { 0 };

	now_fake = MS;
	for (unsigned i = 0; i < 20; i++)
		now_fake += rest_after_rounds(&busy, 1, 4 * MS);
	ck_assert_uint_eq(rest_after_rounds(&busy, 10000, 2 * US), 0);
	ck_assert_uint_le(rest_after_rounds(&busy, 1, 4 * MS), 4 * MS);
}
END_TEST

/* As where the processes of a container may have one processor. */
START_TEST(who_gets_its_processor_back_very_late_polls_no_more_for_long)
{
	struct busy_poll busy = { 0 };

	now_fake = MS;
	ck_assert_uint_eq(rest_after_rounds(&busy, 10000, 2 * US), 0);
	ck_assert_uint_ge(rest_after_rounds(&busy, 1, 50 * MS), 100 * MS);
}
END_TEST

/* It stops the whole program each time, so it happens more and more rarely. */
START_TEST(each_stall_that_follows_another_doubles_the_rest)
{
	struct busy_poll busy = { 0 };
	uint64_t first, rest;

	now_fake = MS;
	first = rest = rest_after_rounds(&busy, 1, 50 * MS);
	for (unsigned i = 0; i < 7; i++) {
		now_fake += rest;
		ck_assert_uint_eq(rest_after_rounds(&busy, 10000, 2 * US), 0);
		ck_assert_uint_eq(rest_after_rounds(&busy, 1, 50 * MS), 2 * rest);
		rest *= 2;
	}
	now_fake += rest;
	ck_assert_uint_eq(rest_after_rounds(&busy, 1, 50 * MS), rest); /* minutes are enough */
	now_fake += 20 * rest;
	ck_assert_uint_eq(rest_after_rounds(&busy, 1, 50 * MS), first);
}
END_TEST

/* ---- a consumer that polls all the time ---- */

/* Between a visit that finds something waiting and the next one it takes that. */
static void arrival_beside_polls(void)
{
	poll_all();
	message_arrives();
	visit_due();
	poll_all();
	visit_due();
}

/* ---- writes of a consumer that polls its memory ---- */

static void write_post(void)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };

	ck_dat(ep_post_rdma_write(rig.active, 1, &rig.segment, cookie, &rig.target,
				  DAT_COMPLETION_DEFAULT_FLAG));
}

/* Posts a write while the service thread seems to serve. Returns whether it has waited for that. */
static bool write_waits(void)
{
	struct tp_qp *qp = ((struct ep *)rig.active)->qp;
	const uint64_t began = tp_now();
	bool noted;

	atomic_fetch_add(&cq->dev->serves, 1);
	write_post();
	noted = qp->waited_for == atomic_load(&cq->dev->serves); /* the next one does not wait */
	atomic_fetch_add(&cq->dev->serves, 1);
	return tp_now() - began >= 50 * US && noted;
}

/* But not for ever: that thread may have lost its processor. */
START_TEST(who_polls_its_memory_writes_when_it_has_been_served)
{
	struct tp_qp *qp = ((struct ep *)rig.active)->qp;

	ck_assert(qp->rma.writemsg == qp->fi->rma->writemsg);
	arrivals_beside_rare_polls(ROUNDS);
	ck_assert(qp->rma.writemsg != qp->fi->rma->writemsg);
	ck_assert(write_waits());
	for (unsigned i = 0; i < ROUNDS; i++)
		arrival_beside_polls();
	ck_assert(qp->rma.writemsg == qp->fi->rma->writemsg);
	write_post();
	poll_all();
}
END_TEST

/* Endpoints that are connected after that, beside those of the rig, which it gets back. */
START_TEST(who_polls_its_memory_and_connects_writes_so_there_too)
{
	const struct ofi_rig before = rig;
	struct tp_qp *qp;

	arrivals_beside_rare_polls(ROUNDS);
	ofi_rig_unlock(&rig);
	ck_dat(ep_create(rig.ia, rig.pz, rig.dto_evd, rig.dto_evd, rig.conn_evd, NULL,
			 &rig.active));
	ck_dat(ep_create(rig.ia, rig.pz, rig.dto_evd, rig.dto_evd, rig.conn_evd, NULL,
			 &rig.passive));
	ck_dat(ofi_connect(&rig));
	qp = ((struct ep *)rig.active)->qp;
	ck_assert(qp->rma.writemsg != qp->fi->rma->writemsg);
	ck_dat(ep_free(rig.active));
	ck_dat(ep_free(rig.passive));
	rig = before;
	ofi_rig_lock(&rig);
}
END_TEST

static bool served;

static void see_serving(void)
{
	served = atomic_load(&cq->dev->serves) % 2;
}

START_TEST(writes_are_told_when_their_consumer_is_served)
{
	ff_hook("fi_cq_read", see_serving);
	arrivals_beside_rare_polls(1);
	ck_assert(!served);
	arrivals_beside_rare_polls(ROUNDS);
	message_arrives();
	ff_hook("fi_cq_read", see_serving);
	visit_due();
	ck_assert(served);
	ck_assert_uint_eq(atomic_load(&cq->dev->serves) % 2, 0);
	(void)visits_at_once();
	poll_all();
}
END_TEST

START_TEST(a_consumer_that_polls_is_left_alone)
{
	unsigned reads;

	poll_all();
	visit_due();
	for (unsigned i = 0; i < ROUNDS; i++) {
		poll_all();
		message_arrives();
		reads = ff_calls_here("fi_cq_read");
		visit_due();
		ck_assert_uint_eq(ff_calls_here("fi_cq_read"), reads);
		poll_all();
		reads = ff_calls_here("fi_cq_read");
		visit_due();
		ck_assert_uint_eq(ff_calls_here("fi_cq_read"), reads);
		ck_assert(cq->due && cq->delay >= VISIT_INTERVAL);
	}
	ck_assert(!cq->in_dev_set);
}
END_TEST

START_TEST(a_consumer_that_polls_again_is_left_alone_again)
{
	arrivals_beside_rare_polls(ROUNDS);
	poll_all();
	for (unsigned i = 0; i < ROUNDS; i++)
		arrival_beside_polls();
	ck_assert_uint_eq(cq->progress, PROGRESS_VISITED);
	ck_assert(cq->due && cq->delay >= VISIT_INTERVAL);
}
END_TEST

/* Once or twice other threads have kept its processor. */
START_TEST(a_consumer_that_was_late_once_is_left_alone)
{
	arrivals_beside_rare_polls(1);
	poll_all();
	arrival_beside_polls();
	ck_assert(cq->due && cq->delay >= VISIT_INTERVAL);
}
END_TEST

/* Nobody looks whether one still does. */
START_TEST(visits_become_rare_though_a_request_has_waited_once)
{
	poll_all();
	visit_due();
	atomic_store(&cq->waited, true);
	for (unsigned i = 0; i < ROUNDS; i++) {
		poll_all();
		progress_due(cq);
		visit_due();
	}
	ck_assert_uint_gt(cq->delay, VISIT_INTERVAL);
}
END_TEST

/* ---- a consumer that sleeps ---- */

START_TEST(nothing_is_due_while_a_consumer_sleeps)
{
	poll_all();
	progress_due(cq);
	visit_due();
	ck_assert(cq->due);
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	visit_due(); /* it has polled, too */
	visit_due();
	ck_assert(!cq->due);
	ck_assert_uint_eq(cq->progress, PROGRESS_LEFT);
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
	ck_assert(cq->due);
}
END_TEST

/* ---- the queues of a pair ---- */

static DAT_EVD_HANDLE other_evd;
static struct tp_cq *other;
static DAT_EP_HANDLE pair_ep;

/* The service thread watches both. */
static void pair_setup(void)
{
	ff_provider()->protocol = FI_PROTO_SOCK_TCP;
	ofi_rig_open(&rig);
	ck_dat(ep_free(rig.active));
	ck_dat(ep_free(rig.passive));
	rig.active = rig.passive = DAT_HANDLE_NULL;
	ck_dat(evd_create(rig.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &other_evd));
	ck_dat(ep_create(rig.ia, rig.pz, rig.dto_evd, other_evd, rig.conn_evd, NULL, &pair_ep));
	cq = ((struct evd *)rig.dto_evd)->cq;
	other = ((struct evd *)other_evd)->cq;
	ofi_rig_lock(&rig);
	while (cq->due || other->due)
		visit_due();
}

static void pair_teardown(void)
{
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
	ck_assert_int_eq(tp_cq_arm(other, TP_ARM_NOTHING), 0);
	ofi_rig_unlock(&rig);
	ck_dat(ep_free(pair_ep));
	ck_dat(evd_free(other_evd));
	ofi_rig_close(&rig);
}

static struct tp_cq *slept_on;

static void consumer_wakes_up(void)
{
	atomic_store(&slept_on->sleeper, SLEEPER_NONE);
}

START_TEST(a_queue_is_visited_whose_consumer_wakes_up_as_it_is_left)
{
	slept_on = _i ? cq : other;
	ck_assert_int_eq(tp_cq_arm(slept_on, TP_ARM_ANY), 0);
	progress_due(cq);
	ff_hook("fi_cq_read", consumer_wakes_up); /* of the other one */
	visit_due();
	ck_assert_uint_eq(slept_on->sleeper, SLEEPER_NONE);
	ck_assert(cq->due || other->due);
}
END_TEST

static void consumer_posts_and_sleeps_elsewhere(void)
{
	consumer_wakes_up();
	atomic_store(&slept_on->waited, true);
	atomic_store(&(slept_on == cq ? other : cq)->sleeper, SLEEPER_READS);
}

START_TEST(a_queue_is_visited_whose_consumer_posts_what_waits_as_it_is_left)
{
	slept_on = _i ? cq : other;
	ck_assert_int_eq(tp_cq_arm(slept_on, TP_ARM_ANY), 0);
	progress_due(cq);
	ff_hook("fi_cq_read", consumer_posts_and_sleeps_elsewhere);
	visit_due();
	ck_assert(cq->due || other->due);
}
END_TEST

static void expect_both(enum progress_state state)
{
	ck_assert_uint_eq(cq->progress, state);
	ck_assert_uint_eq(other->progress, state);
}

/* Who sleeps on the one reads that, and nothing tells the other one of what completes there. */
static void expect_both_left(struct tp_cq *first, bool left)
{
	ck_assert_int_eq(tp_cq_arm(slept_on, TP_ARM_ANY), 0);
	progress_due(first);
	visit_due();
	expect_both(left ? PROGRESS_LEFT : PROGRESS_WATCHED);
}

START_TEST(queues_are_left_to_who_sleeps_on_one_of_them)
{
	slept_on = _i ? cq : other;
	ck_assert_int_eq(tp_cq_arm(_i ? other : cq, TP_ARM_ERRORS), 0);
	expect_both_left(cq, true);
}
END_TEST

START_TEST(a_queue_where_somebody_waits_for_solicited_receives_is_not_left)
{
	slept_on = _i ? cq : other;
	ck_assert_int_eq(tp_cq_arm(_i ? other : cq, TP_ARM_SOLICITED), 0);
	expect_both_left(cq, false);
	ck_assert_int_eq(tp_cq_arm(_i ? other : cq, TP_ARM_NOTHING), 0);
	expect_both_left(cq, true);
}
END_TEST

/* Its sleeper does not read it, because there was something that nobody could take in. */
START_TEST(a_queue_that_was_armed_for_signals_only_is_not_left)
{
	struct tp_cq *awaited = _i ? other : cq;

	slept_on = _i ? cq : other;
	ff_fail_times("fi_trywait", FI_EAGAIN, 2);
	ck_assert_int_eq(tp_cq_arm(awaited, TP_ARM_ANY), 0);
	ck_assert(!ff_fail_left("fi_trywait"));
	visit_due();
	expect_both_left(awaited, false);
	ck_assert_int_eq(tp_cq_arm(awaited, TP_ARM_ANY), 0);
	expect_both_left(awaited, true);
}
END_TEST

/*
 * Who sleeps reads what arrives for both, but not while the other one of the two is polled.
 * Iterations: who sleeps where, and which one is looked at first; each visit turns that round.
 */
START_TEST(queues_are_not_left_while_one_of_them_is_polled)
{
	DAT_EVD_HANDLE polled = _i % 2 ? rig.dto_evd : other_evd;
	DAT_EVENT event;

	slept_on = _i % 2 ? other : cq;
	ck_assert_int_eq(tp_cq_arm(slept_on, TP_ARM_ANY), 0);
	progress_due(_i / 2 ? cq : other);
	for (unsigned i = 0; i < ROUNDS; i++) {
		ck_assert_uint_eq(evd_dequeue(polled, &event), DAT_QUEUE_EMPTY);
		visit_due();
		expect_both(PROGRESS_VISITED);
	}
}
END_TEST

static DAT_EP_HANDLE ep_of(DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request)
{
	DAT_EP_HANDLE ep;

	ofi_rig_unlock(&rig);
	ck_dat(ep_create(rig.ia, rig.pz, recv, request, rig.conn_evd, NULL, &ep));
	ofi_rig_lock(&rig);
	while (cq->due || other->due)
		visit_due();
	return ep;
}

static void objects_free(DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd)
{
	ofi_rig_unlock(&rig);
	if (ep)
		ck_dat(ep_free(ep));
	if (evd)
		ck_dat(evd_free(evd));
	ofi_rig_lock(&rig);
}

static DAT_EVD_HANDLE evd_new(void)
{
	DAT_EVD_HANDLE evd;

	ofi_rig_unlock(&rig);
	ck_dat(evd_create(rig.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd));
	ofi_rig_lock(&rig);
	return evd;
}

/*
 * One of two queues has another endpoint, too, whose bytes nobody takes who sleeps on one of the
 * others. Iterations: on which one somebody sleeps, and how the queues are used.
 */
START_TEST(a_queue_that_others_use_is_not_left_to_who_sleeps_elsewhere)
{
	DAT_EVD_HANDLE third = evd_new();
	DAT_EP_HANDLE ep = _i / 2 ? ep_of(third, rig.dto_evd) : ep_of(rig.dto_evd, third);

	slept_on = _i % 2 ? ((struct evd *)third)->cq : other;
	ck_assert_int_eq(tp_cq_arm(slept_on, TP_ARM_ANY), 0);
	progress_due(slept_on);
	visit_due();
	ck_assert_uint_eq(slept_on->progress, PROGRESS_LEFT);
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	ck_assert_int_eq(tp_cq_arm(slept_on, TP_ARM_NOTHING), 0);
	objects_free(ep, third);
}
END_TEST

/* Who sleeps on the first one does not read for the second one alone any more. */
START_TEST(a_queue_is_visited_that_was_left_with_one_which_others_use_since)
{
	DAT_EVD_HANDLE third_evd = evd_new();
	DAT_EP_HANDLE ep;

	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_ANY), 0);
	progress_due(cq);
	visit_due();
	ck_assert_uint_eq(other->progress, PROGRESS_LEFT);
	ep = ep_of(rig.dto_evd, third_evd);
	ck_assert_int_eq(tp_cq_arm(cq, TP_ARM_NOTHING), 0);
	visit_due();
	expect_both(PROGRESS_WATCHED);
	objects_free(ep, third_evd);
}
END_TEST

/* It may be freed next. */
START_TEST(a_queue_without_endpoints_has_no_other_one)
{
	objects_free(pair_ep, DAT_HANDLE_NULL);
	ck_assert_ptr_null(cq->other);
	ck_assert_ptr_null(other->other);
	pair_ep = ep_of(rig.dto_evd, other_evd);
	ck_assert_ptr_eq(cq->other, other);
	ck_assert_ptr_eq(other->other, cq);
}
END_TEST

/* What the endpoint sends completes in the other queue, at which the consumer does not look. */
START_TEST(both_queues_of_a_pair_are_served_between_naps)
{
	DAT_EVD_HANDLE third = evd_new();
	struct pollfd waits = { .fd = other->fi_fd, .events = POLLIN };
	DAT_EVENT event;

	rig.active = pair_ep;
	rig.passive = ep_of(third, third);
	ofi_rig_unlock(&rig);
	while (evd_dequeue(rig.conn_evd, &event) == DAT_SUCCESS)
		; /* of the connection before */
	ck_dat(ofi_connect(&rig));
	ofi_rig_lock(&rig);
	arrivals_beside_rare_polls(10);
	for (unsigned i = 0; i < 10; i++) {
		message_arrives();
		ck_assert_int_eq(poll(&waits, 1, 0), 1);
		progress_due(cq);
		visit_due();
		expect_both(PROGRESS_VISITED);
		ck_assert_int_eq(poll(&waits, 1, 0), 0);
	}
	objects_free(rig.passive, third);
	rig.active = rig.passive = DAT_HANDLE_NULL;
}
END_TEST

/* ---- the ends of connections ---- */

/* A peer has closed a connection, of which the queue has many; the pair is visited. */
static void end_arrives(struct tp_cq *of)
{
	atomic_store(&of->polled, false);
	mutex_lock(&of->dev->cqs_lock);
	progress_due_for_end_locked(of);
	mutex_unlock(&of->dev->cqs_lock);
	visit_due();
}

/* It is settled when that is due, or at once if something has completed. */
static void settle_no_more(void)
{
	cq->settles = other->settles = TP_NEVER;
}

static unsigned reads, settlings;

static void count_from_here(void)
{
	reads = ff_calls_here("fi_cq_read");
	settlings = ff_calls_here("fi_trywait");
}

static void expect_counts(unsigned expected_reads, unsigned expected_settlings)
{
	ck_assert_uint_eq(ff_calls_here("fi_cq_read") - reads, expected_reads);
	ck_assert_uint_eq(ff_calls_here("fi_trywait") - settlings, expected_settlings);
}

/* libfabric's tcp looks at all endpoints of a queue for each read, and more than once to settle. */
START_TEST(an_end_is_one_read_of_a_pair_of_queues)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		settle_no_more();
		count_from_here();
		end_arrives(_i ? other : cq);
		expect_counts(1, 0);
		expect_both(PROGRESS_WATCHED);
	}
}
END_TEST

/* A thread that waits for connections, and looks at the device before it sleeps, is no consumer. */
START_TEST(a_look_at_what_is_ready_visits_nothing_else)
{
	progress_due(cq);
	count_from_here();
	ck_assert(!progress_run(cq->dev, true, true));
	expect_counts(0, 0);
	visit_due();
	ck_assert_uint_gt(ff_calls_here("fi_cq_read"), reads);
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	message_arrives();
	count_from_here();
	(void)progress_run(cq->dev, true, true);
	ck_assert_uint_gt(ff_calls_here("fi_cq_read"), reads);
	poll_all();
}
END_TEST

START_TEST(a_pair_is_settled_some_time_after_an_end)
{
	settle_no_more();
	end_arrives(_i ? other : cq);
	ck_assert(cq->due && other->due && cq->delay && other->delay);
	count_from_here();
	visit_due();
	expect_counts(1, 1);
	ck_assert(!cq->due && !other->due);
	ck_assert_uint_eq(cq->settles, 0);
	ck_assert_uint_eq(other->settles, 0);
}
END_TEST

/* Though one end comes after the other. */
START_TEST(a_pair_is_settled_in_the_middle_of_ends)
{
	end_arrives(_i ? other : cq);
	ck_assert_uint_lt(cq->settles, tp_now() + 2 * VISIT_INTERVAL);
	cq->settles = other->settles = 1;
	count_from_here();
	end_arrives(_i ? other : cq);
	expect_counts(1, 1);
	ck_assert(!cq->due && !other->due);
}
END_TEST

/* A receive of the connection was flushed, or the message before the end has come. */
START_TEST(what_completes_with_an_end_settles_the_queue)
{
	poll_all();
	visit_due();
	visit_due();
	ck_assert_uint_eq(cq->progress, PROGRESS_WATCHED);
	message_arrives();
	count_from_here();
	end_arrives(cq);
	ck_assert_uint_gt(ff_calls_here("fi_trywait"), settlings);
	ck_assert(!is_waiting());
	poll_all();
}
END_TEST

/* Each has its own completions. */
START_TEST(both_queues_of_a_pair_are_read_if_they_have_completions)
{
	spin_lock(&other->lock);
	other->known = 0; /* something was there when it was read last */
	spin_unlock(&other->lock);
	progress_due(cq);
	count_from_here();
	visit_due();
	expect_counts(2, 2);
}
END_TEST

/* ---- queues that share their progress ---- */

/* A queue that no endpoint has in common with the others, without anybody there. */
static DAT_EVD_HANDLE third_evd;
static struct tp_cq *third;
static DAT_EP_HANDLE third_ep;

static void shared_setup(void)
{
	pair_setup();
	cq->dev->shares_progress = true;
	third_evd = evd_new();
	third = ((struct evd *)third_evd)->cq;
	third_ep = ep_of(third_evd, third_evd);
}

static void shared_teardown(void)
{
	objects_free(third_ep, third_evd);
	pair_teardown();
}

static void expect_all(enum progress_state state)
{
	expect_both(state);
	ck_assert_uint_eq(third->progress, state);
}

static void leave_all_to_who_sleeps_on(struct tp_cq *one)
{
	ck_assert_int_ge(tp_cq_sleep(one), 0);
	progress_due(one == cq ? other : cq);
	visit_due();
	expect_all(PROGRESS_LEFT);
}

/* Whatever arrives makes the descriptors of all readable, and who sleeps on one reads it. */
START_TEST(all_queues_are_left_to_who_sleeps_on_one)
{
	struct tp_cq *const cqs[] = { cq, other, third };

	leave_all_to_who_sleeps_on(cqs[_i]);
	ck_assert_int_eq(tp_cq_arm(cqs[_i], TP_ARM_NOTHING), 0);
	visit_due();
	expect_all(PROGRESS_WATCHED);
}
END_TEST

/* It stays armed for a CNO, on whose set nobody may sleep any more. */
START_TEST(no_queue_is_left_to_one_that_is_armed_for_a_cno)
{
	if (_i)
		leave_all_to_who_sleeps_on(third);
	ck_assert_int_eq(tp_cq_arm(third, TP_ARM_ANY), 0);
	if (!_i)
		progress_due(cq);
	visit_due();
	expect_all(PROGRESS_WATCHED);
	ck_assert_int_eq(tp_cq_arm(third, TP_ARM_NOTHING), 0);
}
END_TEST

/* The service thread has not woken up before it is freed. */
START_TEST(queues_are_not_left_to_who_slept_on_one_that_is_freed)
{
	leave_all_to_who_sleeps_on(third);
	ck_assert_int_eq(tp_cq_arm(third, TP_ARM_NOTHING), 0);
	objects_free(third_ep, third_evd);
	visit_due();
	expect_both(PROGRESS_WATCHED);
	third_evd = evd_new();
	third_ep = DAT_HANDLE_NULL;
}
END_TEST

/* Who waits for solicited receives, say, is told by the visits. */
START_TEST(visits_stay_frequent_for_who_waits_beside_a_consumer_that_polls)
{
	DAT_EVENT event;

	ck_assert_int_eq(tp_cq_arm(third, TP_ARM_SOLICITED), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		ck_assert_uint_eq(evd_dequeue(other_evd, &event), DAT_QUEUE_EMPTY);
		progress_due(cq);
		visit_due();
		ck_assert(third->due && third->delay == VISIT_INTERVAL);
	}
	ck_assert_uint_gt(other->delay, VISIT_INTERVAL);
	ck_assert_int_eq(tp_cq_arm(third, TP_ARM_NOTHING), 0);
}
END_TEST

START_TEST(no_queue_is_watched_while_one_is_polled)
{
	DAT_EVENT event;

	for (unsigned i = 0; i < ROUNDS; i++) {
		ck_assert_uint_eq(evd_dequeue(_i ? third_evd : other_evd, &event), DAT_QUEUE_EMPTY);
		progress_due(cq);
		visit_due();
		expect_all(PROGRESS_VISITED);
	}
	ck_assert(!cq->in_dev_set && !other->in_dev_set && !third->in_dev_set);
	visit_due();
	expect_all(PROGRESS_WATCHED);
}
END_TEST

/* libfabric has refused it for now. */
START_TEST(what_stalls_beside_a_consumer_that_polls_is_tried_again_soon)
{
	DAT_EVENT event;

	for (unsigned i = 0; i < ROUNDS; i++) {
		ck_assert_uint_eq(evd_dequeue(other_evd, &event), DAT_QUEUE_EMPTY);
		progress_due(other);
		visit_due();
	}
	spin_lock(&third->lock);
	third->backlog |= CQ_STALLED;
	spin_unlock(&third->lock);
	progress_poke(third);
	ck_assert_uint_eq(evd_dequeue(other_evd, &event), DAT_QUEUE_EMPTY);
	visit_due();
	ck_assert(!(third->backlog & CQ_STALLED));
}
END_TEST

/* Has the third queue serve another zone, too. */
static DAT_EP_HANDLE third_joins_zone(DAT_PZ_HANDLE *pz)
{
	DAT_EP_HANDLE ep;

	ofi_rig_unlock(&rig);
	ck_dat(pz_create(rig.ia, pz));
	ck_dat(ep_create(rig.ia, *pz, third_evd, third_evd, rig.conn_evd, NULL, &ep));
	ofi_rig_lock(&rig);
	ck_assert(third->domains);
	return ep;
}

static void zone_free(DAT_EP_HANDLE ep, DAT_PZ_HANDLE pz)
{
	ofi_rig_unlock(&rig);
	ck_dat(ep_free(ep));
	ck_dat(pz_free(pz));
	ofi_rig_lock(&rig);
}

/* Who polls another queue moves none of the data of another zone. */
START_TEST(a_queue_of_two_zones_is_watched_beside_one_that_is_polled)
{
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep = third_joins_zone(&pz);
	DAT_EVENT event;

	ck_assert_uint_eq(evd_dequeue(rig.dto_evd, &event), DAT_QUEUE_EMPTY);
	progress_due(cq);
	progress_due(third);
	visit_due();
	expect_both(PROGRESS_VISITED);
	ck_assert_uint_eq(third->progress, PROGRESS_WATCHED);
	zone_free(ep, pz);
}
END_TEST

START_TEST(queues_are_not_left_to_who_sleeps_on_one_of_two_zones)
{
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep;

	leave_all_to_who_sleeps_on(third);
	ep = third_joins_zone(&pz);
	visit_due();
	expect_both(PROGRESS_WATCHED);
	ck_assert_int_eq(tp_cq_arm(third, TP_ARM_NOTHING), 0);
	zone_free(ep, pz);
}
END_TEST

static int own_eq_fd;

/* From here on the descriptor of the event queue is readable, and the queue has no event. */
static void eq_make_readable(void)
{
	own_eq_fd = cq->dev->eq_fd;
	cq->dev->eq_fd = eventfd(1, EFD_CLOEXEC);
	ck_assert_int_ge(cq->dev->eq_fd, 0);
	ck_assert_int_eq(epoll_watch(cq->dev->epoll, cq->dev->eq_fd), 0);
}

static void eq_restore(void)
{
	close(cq->dev->eq_fd);
	cq->dev->eq_fd = own_eq_fd;
	cq->dev->eq_muted = 0;
}

/*
 * In every other one of these rounds the event queue is readable, and has no event. @single: then
 * the one before is long ago. Returns how often it was muted.
 */
static unsigned rounds_among_data(unsigned rounds, bool single)
{
	struct tp_dev *dev = cq->dev;
	unsigned muted = 0;

	for (unsigned i = 0; i < rounds; i++) {
		if (single)
			dev->eq_readable = 0;
		(void)progress_run(dev, true, false);
		(void)progress_run(dev, false, false);
		muted += dev->eq_muted != 0;
	}
	return muted;
}

/* Data make its descriptor readable. Iterations: libfabric 1.17, a stream, single messages. */
START_TEST(the_event_queue_is_muted_in_a_stream_of_data_that_wakes_it)
{
	struct tp_dev *dev = cq->dev;
	const bool mutes = _i == 1;

	eq_make_readable();
	dev->shares_progress = _i > 0;
	ck_assert_int_eq(rounds_among_data(2 * ROUNDS, _i == 2) > 0, mutes);
	ck_assert_int_eq(dev->eq_muted != 0, mutes);
	ck_assert_int_eq(epoll_reports(dev->epoll, dev->eq_fd), !mutes);
	if (mutes)
		ck_assert_uint_le(tp_dev_deadline(dev), tp_now() + 2 * VISIT_INTERVAL);
	eq_restore();
}
END_TEST

static int accepted[8 * ROUNDS]; /* descriptors */
static unsigned naccepted;

/* Is it muted by the end of so many rounds, one after the other? @accepts: each opens a socket. */
static bool eq_is_muted_after(unsigned rounds, bool accepts)
{
	for (unsigned i = 0; i < rounds && !cq->dev->eq_muted; i++) {
		if (accepts) {
			accepted[naccepted] = dup(STDERR_FILENO);
			ck_assert_int_ge(accepted[naccepted++], 0);
		}
		(void)progress_run(cq->dev, true, false);
	}
	return cq->dev->eq_muted;
}

static void accepted_close(void)
{
	while (naccepted)
		close(accepted[--naccepted]);
}

/* The time is over. */
static void eq_unmute(void)
{
	cq->dev->eq_muted = 1;
	(void)progress_run(cq->dev, false, false);
	ck_assert(!cq->dev->eq_muted);
}

/* Each round accepts a connection that has sent nothing yet; in the end the kernel refuses that. */
START_TEST(the_event_queue_is_muted_when_nothing_is_accepted)
{
	eq_make_readable();
	ck_assert(!eq_is_muted_after(5 * ROUNDS, true));
	ck_assert(!eq_is_muted_after(ROUNDS - 1, false));
	ck_assert(!eq_is_muted_after(1, true));
	ck_assert(eq_is_muted_after(ROUNDS, false));
	eq_unmute();
	ck_assert(eq_is_muted_after(1, false));
	eq_unmute();
	ck_assert(!eq_is_muted_after(ROUNDS, true));
	eq_restore();
	accepted_close();
}
END_TEST

/* @before: rounds that accept something before there is none left. */
static void expect_muted_without_descriptors(unsigned before)
{
	ck_assert(!eq_is_muted_after(before, true));
	descriptors_allow(0);
	ck_assert(!eq_is_muted_after(ROUNDS - 1 - before % ROUNDS, false));
	ck_assert(eq_is_muted_after(1, false));
	for (unsigned i = 0; i < 2 * ROUNDS; i++) {
		eq_unmute();
		ck_assert(eq_is_muted_after(1, false));
	}
	descriptors_allow_all();
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (const char *at = ff_log(); (at = strstr(at, text)); at++)
		n++;
	return n;
}

/* That is told once. */
START_TEST(the_event_queue_is_muted_for_want_of_a_descriptor)
{
	eq_make_readable();
	ff_log_capture();
	expect_muted_without_descriptors(_i ? ROUNDS + 1 : 0);
	ck_assert_uint_eq(lines_of("no file descriptor left"), 1);
	eq_unmute();
	ck_assert(!eq_is_muted_after(ROUNDS, true));
	eq_restore();
	accepted_close();
}
END_TEST

/* A poll takes longer then. */
START_TEST(graces_are_longer_with_many_endpoints)
{
	const unsigned qps = cq->qps;

	poll_all();
	message_arrives();
	visit_due();
	ck_assert(is_waiting());
	ck_assert_uint_lt(cq->delay, VISIT_INTERVAL / 10);
	poll_all();
	visit_due();
	cq->qps = 1000;
	poll_all();
	message_arrives();
	visit_due();
	ck_assert(is_waiting());
	ck_assert_uint_ge(cq->delay, VISIT_INTERVAL / 2);
	cq->qps = qps;
	poll_all();
}
END_TEST

/* ---- a queue that is new ---- */

/* Does the set of the device report libfabric's descriptor? */
static bool is_reported(void)
{
	return epoll_reports(cq->dev->epoll, cq->fi_fd);
}

static void add_queue(void *err)
{
	*(int *)err = progress_add(cq);
}

/* Stands for the service thread. @arg: has the set reported the queue by now? */
static void visit_if_reported(void *arg)
{
	bool *reported = arg;

	*reported = is_reported();
	if (!*reported || pthread_mutex_trylock(&cq->dev->cqs_lock.os))
		return;
	pthread_mutex_unlock(&cq->dev->cqs_lock.os);
	visit_due();
}

/*
 * A visit comes after @n instructions of the adding of a queue at which something waits. Returns
 * whether there are so many.
 */
static bool add_and_visit(unsigned n, bool *reported)
{
	bool early;
	int err;

	poll_all();
	visit_due();
	message_arrives();
	progress_remove(cq);
	cq->due = false;
	early = race_step(add_queue, &err, n, visit_if_reported, reported);
	ck_assert_int_eq(err, 0);
	ck_assert((cq->progress == PROGRESS_WATCHED) == is_reported());
	return early;
}

/*
 * With libfabric 1.18 the queues of a domain share a descriptor, so that of a new one may be
 * readable at once.
 */
START_TEST(a_queue_may_be_visited_as_soon_as_it_is_added)
{
	unsigned least = 0, most = 1, n;
	bool reported = RACE_CAN_STEP;

	while (RACE_CAN_STEP && add_and_visit(most, &reported))
		most *= 2;
	while (most - least > 1) {
		n = (least + most) / 2;
		if (RACE_CAN_STEP && add_and_visit(n, &reported))
			least = n;
		else
			most = n;
	}
	for (n = least; RACE_CAN_STEP && n && reported; n--)
		(void)add_and_visit(n, &reported);
	poll_all();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *visits = tcase_create("visits"), *pairs = tcase_create("pairs");
	TCase *shared = tcase_create("shared");

	tcase_add_checked_fixture(visits, setup, teardown);
	tcase_add_test(visits, the_event_queue_is_muted_when_nothing_is_accepted);
	tcase_add_loop_test(visits, the_event_queue_is_muted_for_want_of_a_descriptor, 0, 2);
	tcase_add_loop_test(visits, what_waits_beside_a_rare_poll_is_taken_at_once, 0, 2);
	tcase_add_test(visits, a_consumer_that_polls_rarely_is_waited_for_rarely);
	tcase_add_test(visits, visits_for_a_consumer_that_polls_rarely_have_naps_between_them);
	tcase_add_test(visits, what_stays_there_causes_no_naps);
	tcase_add_test(visits, a_free_processor_polls_where_a_busy_one_naps);
	tcase_add_test(visits, polling_ends_when_nothing_arrives);
	tcase_add_test(visits, only_the_service_thread_polls);
	tcase_add_test(visits, who_gets_its_processor_back_late_polls_no_more_for_a_while);
	tcase_add_test(visits, who_had_its_processor_for_long_polls_again_soon);
	tcase_add_test(visits, who_gets_its_processor_back_very_late_polls_no_more_for_long);
	tcase_add_test(visits, each_stall_that_follows_another_doubles_the_rest);
	tcase_add_test(visits, for_a_consumer_that_has_not_polled_for_long_nobody_polls);
	tcase_add_test(visits, for_an_arrival_among_many_endpoints_nobody_polls);
	tcase_add_test(visits, a_thread_of_another_scheduling_policy_does_not_poll);
	tcase_add_test(visits, who_polls_its_memory_writes_when_it_has_been_served);
	tcase_add_test(visits, who_polls_its_memory_and_connects_writes_so_there_too);
	tcase_add_test(visits, writes_are_told_when_their_consumer_is_served);
	tcase_add_test(visits, a_consumer_that_polls_is_left_alone);
	tcase_add_test(visits, a_consumer_that_polls_again_is_left_alone_again);
	tcase_add_test(visits, a_consumer_that_was_late_once_is_left_alone);
	tcase_add_test(visits, visits_become_rare_though_a_request_has_waited_once);
	tcase_add_test(visits, nothing_is_due_while_a_consumer_sleeps);
	tcase_add_test(visits, a_queue_may_be_visited_as_soon_as_it_is_added);
	tcase_add_test(visits, what_completes_with_an_end_settles_the_queue);
	tcase_add_test(visits, graces_are_longer_with_many_endpoints);
	tcase_add_checked_fixture(pairs, pair_setup, pair_teardown);
	tcase_add_loop_test(pairs, a_queue_is_visited_whose_consumer_wakes_up_as_it_is_left, 0, 2);
	tcase_add_loop_test(pairs, a_queue_is_visited_whose_consumer_posts_what_waits_as_it_is_left,
			    0, 2);
	tcase_add_loop_test(pairs, queues_are_left_to_who_sleeps_on_one_of_them, 0, 2);
	tcase_add_loop_test(pairs, a_queue_where_somebody_waits_for_solicited_receives_is_not_left,
			    0, 2);
	tcase_add_loop_test(pairs, a_queue_that_was_armed_for_signals_only_is_not_left, 0, 2);
	tcase_add_loop_test(pairs, queues_are_not_left_while_one_of_them_is_polled, 0, 4);
	tcase_add_loop_test(pairs, a_queue_that_others_use_is_not_left_to_who_sleeps_elsewhere, 0,
			    4);
	tcase_add_test(pairs, a_queue_is_visited_that_was_left_with_one_which_others_use_since);
	tcase_add_test(pairs, a_queue_without_endpoints_has_no_other_one);
	tcase_add_test(pairs, both_queues_of_a_pair_are_served_between_naps);
	tcase_add_loop_test(pairs, an_end_is_one_read_of_a_pair_of_queues, 0, 2);
	tcase_add_test(visits, a_look_at_what_is_ready_visits_nothing_else);
	tcase_add_loop_test(pairs, a_pair_is_settled_some_time_after_an_end, 0, 2);
	tcase_add_loop_test(pairs, a_pair_is_settled_in_the_middle_of_ends, 0, 2);
	tcase_add_test(pairs, both_queues_of_a_pair_are_read_if_they_have_completions);
	tcase_add_checked_fixture(shared, shared_setup, shared_teardown);
	tcase_add_loop_test(shared, all_queues_are_left_to_who_sleeps_on_one, 0, 3);
	tcase_add_loop_test(shared, no_queue_is_watched_while_one_is_polled, 0, 2);
	tcase_add_test(shared, a_queue_of_two_zones_is_watched_beside_one_that_is_polled);
	tcase_add_loop_test(shared, no_queue_is_left_to_one_that_is_armed_for_a_cno, 0, 2);
	tcase_add_test(shared, queues_are_not_left_to_who_slept_on_one_that_is_freed);
	tcase_add_test(shared, visits_stay_frequent_for_who_waits_beside_a_consumer_that_polls);
	tcase_add_test(shared, what_stalls_beside_a_consumer_that_polls_is_tried_again_soon);
	tcase_add_test(shared, queues_are_not_left_to_who_sleeps_on_one_of_two_zones);
	tcase_add_loop_test(shared, the_event_queue_is_muted_in_a_stream_of_data_that_wakes_it, 0,
			    3);
	return run_cases(argc, argv);
}
