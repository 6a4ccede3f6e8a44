/* SPDX-License-Identifier: BSD-2-Clause */
/* Races, each decided by the test: one thread acts while another one is at the worst point. */
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#include "../../udapl/event/evd.h"
#include "alloc.h"
#include "harness.h"
#include "race.h"

#define ABORTED	   DAT_ERROR(DAT_ABORT, 0)
#define QUEUE_FULL DAT_ERROR(DAT_QUEUE_FULL, 0)

static struct pair pair;
static struct side *const client = &pair.client, *const server = &pair.server;
static DAT_EVENT event;
static DAT_COUNT nmore;

static DAT_COUNT qlen_of(DAT_EVD_HANDLE evd)
{
	DAT_EVD_PARAM param;

	ck_dat(evd_query(evd, DAT_EVD_FIELD_EVD_QLEN, &param));
	return param.evd_qlen;
}

/* ---- a queue is made ---- */

static DAT_EVD_HANDLE made;

static void *make_queue(void *ret)
{
	*(DAT_RETURN *)ret = evd_create(client->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &made);
	return NULL;
}

static _Atomic pid_t closer_tid;

static void *close_abruptly(void *ia)
{
	closer_tid = gettid();
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	return NULL;
}

START_TEST(connection_events_are_handled_while_a_queue_is_made)
{
	DAT_RETURN ret;
	pthread_t thread;

	side_open(server, "fake1");
	side_open(client, "fake0");
	race_hold(RACE_CREATE, NULL);
	thread = consumer_thread_start(make_queue, &ret);
	race_wait_held();
	pair_connect(&pair);
	race_release(NULL);
	consumer_thread_join(thread);
	ck_dat(ret);
	ck_dat(evd_free(made));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(an_ia_is_in_use_while_a_queue_is_made)
{
	DAT_EVD_HANDLE async_evd;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;
	pthread_t thread;

	client->ia = ia = ia_open_on("fake0", false, &async_evd);
	race_hold(RACE_CREATE, NULL);
	thread = consumer_thread_start(make_queue, &ret);
	race_wait_held();
	ck_dat_is(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	race_release(NULL);
	consumer_thread_join(thread);
	ck_dat(ret);
	ck_dat(evd_free(made));
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

static void nothing(void *unused)
{
	(void)unused;
}

/* A thread that closes the client's IA, and waits for the call that makes something there. */
static pthread_t waiting_closer_start(void)
{
	pthread_t closer;

	race_call(RACE_CLOSE, client->ia, nothing, NULL);
	closer = consumer_thread_start(close_abruptly, client->ia);
	while (obj_valid(NULL, client->ia, DAT_HANDLE_TYPE_IA))
		sched_yield();
	while (!race_happened(RACE_CLOSE) && !race_is_asleep(closer_tid))
		sched_yield();
	ck_assert(!race_happened(RACE_CLOSE));
	return closer;
}

START_TEST(an_abrupt_close_waits_for_a_queue_that_is_made)
{
	DAT_RETURN ret;
	pthread_t maker, closer;

	side_open(client, "fake0");
	race_hold(RACE_CREATE, NULL);
	maker = consumer_thread_start(make_queue, &ret);
	race_wait_held();
	closer = waiting_closer_start();
	race_release(NULL);
	consumer_thread_join(maker);
	consumer_thread_join(closer);
	ck_dat_is(ret, BAD_HANDLE(IA));
}
END_TEST

static void free_cno(void *cno)
{
	ck_dat(cno_free(cno));
}

START_TEST(a_cno_that_is_freed_while_a_queue_is_made_is_refused)
{
	DAT_CNO_HANDLE cno;

	side_open(client, "fake0");
	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	race_call(RACE_CREATE, NULL, free_cno, cno);
	ck_dat_is(evd_create(client->ia, 8, cno, DAT_EVD_DTO_FLAG, &made), BAD_HANDLE(CNO));
	side_close(client);
}
END_TEST

/* ---- a queue pair is made ---- */

static DAT_EP_HANDLE made_ep;

/* Stays in the transport, which makes the queue pair: the EVDs have room for it already. */
static void *make_endpoint(void *ret)
{
	fake_stay(1);
	*(DAT_RETURN *)ret = ep_create(client->ia, client->pz, client->recv_evd,
				       client->request_evd, client->connect_evd, NULL, &made_ep);
	fake_stay(0);
	return NULL;
}

/* A thread of its own, which stays in the transport until fake_go_on. */
static pthread_t endpoint_maker_start(DAT_RETURN *ret)
{
	pthread_t thread;

	client->qlen = 4096;
	side_open(client, "fake0");
	thread = consumer_thread_start(make_endpoint, ret);
	ck_assert(fake_wait_stay());
	return thread;
}

START_TEST(connections_are_made_while_a_queue_pair_is_made)
{
	DAT_RETURN ret;
	pthread_t thread;

	side_open(server, "fake1");
	thread = endpoint_maker_start(&ret);
	pair_connect(&pair);
	fake_go_on();
	consumer_thread_join(thread);
	ck_dat(ret);
	ck_dat(ep_free(made_ep));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(what_a_queue_pair_uses_is_held_while_it_is_made)
{
	DAT_RETURN ret;
	pthread_t thread = endpoint_maker_start(&ret);

	ck_dat(ep_free(client->ep));
	ck_dat_is(pz_free(client->pz), BAD_STATE(PZ_IN_USE));
	ck_dat_is(evd_free(client->recv_evd), BAD_STATE(EVD_IN_USE));
	fake_go_on();
	consumer_thread_join(thread);
	ck_dat(ret);
	ck_dat(ep_free(made_ep));
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

START_TEST(an_abrupt_close_waits_for_a_queue_pair_that_is_made)
{
	DAT_RETURN ret;
	pthread_t maker = endpoint_maker_start(&ret), closer;

	closer = waiting_closer_start();
	fake_go_on();
	consumer_thread_join(maker);
	consumer_thread_join(closer);
	ck_dat_is(ret, BAD_HANDLE(IA));
}
END_TEST

/* ---- a completion queue is resized ---- */

/* A call that has the completion queue of an EVD resized, or of a shared receive queue. */
struct resizer {
	DAT_EVD_HANDLE evd;
	DAT_RETURN (*call)(DAT_SRQ_HANDLE, DAT_COUNT); /* of @srq, and @events; NULL: of @evd */
	DAT_SRQ_HANDLE srq;			       /* or that of the endpoint */
	DAT_COUNT events;			       /* qlen; of an endpoint, the receives */
	bool by_endpoint; /* dat_ep_create, of one that has the EVD for receives */
	unsigned stays;	  /* in which call of the transport, until fake_go_on; 0: in none */
	DAT_EP_HANDLE ep;
	DAT_RETURN ret;
	pthread_t thread;
	_Atomic pid_t tid;
	atomic_bool over;
};

static void *resize(void *arg)
{
	struct resizer *resizer = arg;
	DAT_EP_ATTR attr = ep_attr_default(client);

	atomic_store(&resizer->tid, gettid());
	attr.max_recv_dtos = resizer->events;
	if (resizer->stays)
		fake_stay(resizer->stays);
	if (resizer->call)
		resizer->ret = resizer->call(resizer->srq, resizer->events);
	else if (resizer->by_endpoint && resizer->srq)
		resizer->ret = ep_create_with_srq(client->ia, client->pz, resizer->evd,
						  client->request_evd, client->connect_evd,
						  resizer->srq, &attr, &resizer->ep);
	else if (resizer->by_endpoint)
		resizer->ret = ep_create(client->ia, client->pz, resizer->evd, client->request_evd,
					 client->connect_evd, &attr, &resizer->ep);
	else
		resizer->ret = evd_resize(resizer->evd, resizer->events);
	fake_stay(0);
	atomic_store(&resizer->over, true);
	return NULL;
}

static void resizer_start(struct resizer *resizer)
{
	resizer->thread = consumer_thread_start(resize, resizer);
	if (resizer->stays)
		ck_assert(fake_wait_stay());
}

/* Opens the client, and starts the thread with an EVD of its own, as short as can be. */
static void resizer_open(struct resizer *resizer)
{
	side_open(client, "fake0");
	resizer->evd = side_create_evd(client, 1, DAT_EVD_DTO_FLAG);
	resizer_start(resizer);
}

/* Starts a thread that waits for another one, which stays; or, if the code is wrong, does not. */
static void resizer_start_behind(struct resizer *resizer)
{
	resizer_start(resizer);
	while (!atomic_load(&resizer->over) && !race_is_asleep(atomic_load(&resizer->tid)))
		sched_yield();
}

static void resizer_end(struct resizer *resizer)
{
	consumer_thread_join(resizer->thread);
	ck_dat(resizer->ret);
	if (resizer->by_endpoint)
		ck_dat(ep_free(resizer->ep));
}

/* By dat_evd_resize, and by dat_ep_create. */
START_TEST(connections_are_made_while_a_queue_is_resized)
{
	struct resizer resizer = { .events = 200, .by_endpoint = _i, .stays = true };

	side_open(server, "fake1");
	resizer_open(&resizer);
	pair_connect(&pair);
	fake_go_on();
	resizer_end(&resizer);
	ck_assert_uint_ge(tp_cq_depth(cq_of_evd(resizer.evd)), 200);
	ck_dat(evd_free(resizer.evd));
	pair_close_abrupt(&pair);
}
END_TEST

/* Of all endpoints without an EVD for receives. The first one makes it. */
START_TEST(connections_are_made_while_the_queue_grows_that_nobody_sees)
{
	struct resizer first = { .events = 4, .by_endpoint = true };
	struct resizer resizer = { .events = 3000, .by_endpoint = true, .stays = 1 };

	side_open(server, "fake1");
	side_open(client, "fake0");
	resizer_start(&first);
	consumer_thread_join(first.thread);
	resizer_start(&resizer);
	pair_connect(&pair);
	fake_go_on();
	resizer_end(&resizer);
	ck_dat(ep_free(first.ep));
	pair_close_abrupt(&pair);
}
END_TEST

/* Two calls at once, of either kind: the one that needs less comes first, and is slow. */
START_TEST(a_queue_that_is_resized_twice_at_once_has_the_larger_size)
{
	struct resizer slow = { .events = 100, .by_endpoint = _i & 1, .stays = true };
	struct resizer other = { .events = 1000, .by_endpoint = _i & 2 };

	resizer_open(&slow);
	other.evd = slow.evd;
	resizer_start_behind(&other);
	fake_go_on();
	consumer_thread_join(slow.thread);
	consumer_thread_join(other.thread);
	ck_assert_uint_ge(tp_cq_depth(cq_of_evd(slow.evd)),
			  _i == 3 ? 1100 : 1000); /* two endpoints need room for both */
	ck_dat(slow.ret);
	ck_dat(other.ret);
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
}
END_TEST

static void go_on(void *unused)
{
	(void)unused;
	fake_go_on();
}

START_TEST(who_frees_an_evd_waits_for_its_resize)
{
	struct resizer resizer = { .events = 200, .stays = true };

	resizer_open(&resizer);
	race_call(RACE_EXPEL, resizer.evd, go_on, NULL);
	if (_i)
		ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	else
		ck_dat(evd_free(resizer.evd));
	ck_assert(race_happened(RACE_EXPEL));
	resizer_end(&resizer);
	if (!_i)
		side_close(client);
}
END_TEST

START_TEST(an_evd_is_in_use_while_it_grows_for_an_endpoint)
{
	struct resizer resizer = { .events = 200, .by_endpoint = true, .stays = true };

	resizer_open(&resizer);
	ck_dat_is(evd_free(resizer.evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(ia_close(client->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	fake_go_on();
	resizer_end(&resizer);
	ck_dat(evd_free(resizer.evd));
	side_close(client);
}
END_TEST

START_TEST(an_abrupt_close_waits_for_an_evd_that_grows_for_an_endpoint)
{
	struct resizer resizer = { .events = 200, .by_endpoint = true, .stays = true };
	pthread_t closer;

	resizer_open(&resizer);
	closer = waiting_closer_start();
	fake_go_on();
	consumer_thread_join(resizer.thread);
	consumer_thread_join(closer);
	ck_dat_is(resizer.ret, BAD_HANDLE(IA));
}
END_TEST

/* ---- a shared receive queue is resized ---- */

#define RECEIVES 8 /* of a shared receive queue before that */

static DAT_SRQ_HANDLE make_shared_queue(void)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = RECEIVES, .max_recv_iov = 1 };
	DAT_SRQ_HANDLE srq;

	ck_dat(srq_create(client->ia, client->pz, &attr, &srq));
	return srq;
}

/* Makes an endpoint that has its receives from a shared queue, and their events in @evd. */
static DAT_EP_HANDLE make_shared_endpoint(DAT_SRQ_HANDLE srq, DAT_EVD_HANDLE evd)
{
	const DAT_EP_ATTR attr = ep_attr_default(client);
	DAT_EP_HANDLE ep;

	ck_dat(ep_create_with_srq(client->ia, client->pz, evd, client->request_evd,
				  client->connect_evd, srq, &attr, &ep));
	return ep;
}

/* Opens the client, and starts the thread, which stays in the transport, with a new queue. */
static void shared_resizer_open(struct resizer *resizer)
{
	side_open(client, "fake0");
	resizer->call = srq_resize;
	resizer->srq = make_shared_queue();
	resizer->stays = true;
	resizer_start(resizer);
}

static DAT_SRQ_PARAM srq_param(DAT_SRQ_HANDLE srq)
{
	DAT_SRQ_PARAM param;

	ck_dat(srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
	return param;
}

static DAT_RETURN free_shared_queue(DAT_SRQ_HANDLE srq, DAT_COUNT unused)
{
	(void)unused;
	return srq_free(srq);
}

/* A thread that frees an object which another thread uses, and waits for that one. */
static void freer_start(struct resizer *freer, DAT_HANDLE_TYPE kind)
{
	resizer_start(freer);
	while (obj_valid(NULL, freer->srq, kind))
		sched_yield();
}

/* That frees the queue of @resizer, which is in the transport. */
static void waiting_freer_start(struct resizer *freer, const struct resizer *resizer)
{
	freer->call = free_shared_queue;
	freer->srq = resizer->srq;
	freer_start(freer, DAT_HANDLE_TYPE_SRQ);
}

static void post_shared(DAT_SRQ_HANDLE srq)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 1);

	ck_dat(srq_post_recv(srq, 1, &iov, cookie_of(1)));
}

/* Alone, and with a thread that waits to set the low watermark. */
START_TEST(connections_are_made_while_a_shared_queue_is_resized)
{
	struct resizer resizer = { .events = 500 };
	struct resizer watermark = { .events = 4, .call = srq_set_lw };
	DAT_SRQ_HANDLE srq;

	side_open(server, "fake1");
	shared_resizer_open(&resizer);
	srq = watermark.srq = resizer.srq;
	if (_i)
		resizer_start_behind(&watermark);
	pair_connect(&pair);
	post_shared(srq);
	ck_assert_int_eq(srq_param(srq).max_recv_dtos, RECEIVES);
	ck_assert_int_eq(srq_param(srq).low_watermark, 0);
	ck_dat_is(pz_free(client->pz), BAD_STATE(PZ_IN_USE));
	fake_go_on();
	resizer_end(&resizer);
	if (_i)
		resizer_end(&watermark);
	ck_assert_int_eq(srq_param(srq).max_recv_dtos, 500);
	ck_assert_int_eq(srq_param(srq).low_watermark, _i ? 4 : 0);
	for (int n = 1; n < 500; n++)
		post_shared(srq);
	ck_dat(srq_free(srq));
	pair_close_abrupt(&pair);
}
END_TEST

/* That of an endpoint that was there before, and that of one that is made meanwhile. */
START_TEST(evds_have_room_for_a_shared_queue_that_has_grown)
{
	struct resizer resizer = { .events = 500 };
	DAT_EVD_HANDLE evds[2];
	DAT_EP_HANDLE eps[2];

	side_open(client, "fake0");
	resizer.srq = make_shared_queue();
	for (int i = 0; i < 2; i++)
		evds[i] = side_create_evd(client, i ? 1 : 1000, DAT_EVD_DTO_FLAG);
	eps[0] = make_shared_endpoint(resizer.srq, evds[0]);
	resizer.call = srq_resize;
	resizer.stays = true;
	resizer_start(&resizer);
	eps[1] = make_shared_endpoint(resizer.srq, evds[1]);
	fake_go_on();
	resizer_end(&resizer);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_ge(((struct evd *)evds[i])->dto_depth, 500);
		ck_assert_uint_ge(tp_cq_depth(cq_of_evd(evds[i])), 500);
		ck_dat(ep_free(eps[i]));
		ck_assert_uint_eq(((struct evd *)evds[i])->dto_depth, 0);
		ck_dat(evd_free(evds[i]));
	}
	ck_dat(srq_free(resizer.srq));
	side_close(client);
}
END_TEST

/* The EVD has room for the endpoint itself. */
START_TEST(connections_are_made_while_an_evd_grows_for_a_shared_queue)
{
	struct resizer resizer = { .by_endpoint = true, .stays = true };

	side_open(server, "fake1");
	side_open(client, "fake0");
	resizer.evd = side_create_evd(client, RECEIVES, DAT_EVD_DTO_FLAG);
	resizer.srq = make_shared_queue();
	resizer_start(&resizer);
	pair_connect(&pair);
	fake_go_on();
	consumer_thread_join(resizer.thread);
	ck_dat(resizer.ret);
	resizer.stays = false;
	resizer_start(&resizer); /* another endpoint, of which only the transfers are new */
	resizer_end(&resizer);
	ck_assert_uint_eq(fake_calls("cq_resize"), 1);
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * The EVD becomes longer after the queue itself, in the second call of the transport. Meanwhile the
 * endpoint may go, and another one may come, with a short EVD, too.
 */
START_TEST(connections_are_made_while_an_evd_grows_with_a_shared_queue)
{
	struct resizer resizer = { .events = 500, .call = srq_resize, .stays = 2 };
	DAT_EVD_HANDLE evds[2];
	DAT_EP_HANDLE eps[2];

	side_open(server, "fake1");
	side_open(client, "fake0");
	resizer.srq = make_shared_queue();
	for (int i = 0; i < 2; i++)
		evds[i] = side_create_evd(client, RECEIVES, DAT_EVD_DTO_FLAG);
	eps[0] = make_shared_endpoint(resizer.srq, evds[0]);
	resizer_start(&resizer);
	pair_connect(&pair);
	if (_i & 1)
		ck_dat(ep_free(eps[0]));
	if (_i & 2)
		eps[1] = make_shared_endpoint(resizer.srq, evds[1]);
	fake_go_on();
	resizer_end(&resizer);
	for (int i = 0; i < 2; i++) {
		const bool attached = i ? _i & 2 : !(_i & 1);

		if (attached) {
			ck_assert_uint_ge(((struct evd *)evds[i])->dto_depth, 500);
			ck_assert_uint_ge(tp_cq_depth(cq_of_evd(evds[i])), 500);
			ck_dat(ep_free(eps[i]));
		}
		ck_assert_uint_eq(((struct evd *)evds[i])->dto_depth, 0);
		ck_dat(evd_free(evds[i]));
	}
	ck_dat(srq_free(resizer.srq));
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(who_frees_an_evd_waits_until_it_has_grown_with_a_shared_queue)
{
	struct resizer resizer = { .events = 500, .call = srq_resize, .stays = 2 };
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE ep;

	side_open(client, "fake0");
	resizer.srq = make_shared_queue();
	evd = side_create_evd(client, RECEIVES, DAT_EVD_DTO_FLAG);
	ep = make_shared_endpoint(resizer.srq, evd);
	resizer_start(&resizer);
	ck_dat(ep_free(ep));
	race_call(RACE_EXPEL, evd, go_on, NULL);
	ck_dat(evd_free(evd));
	ck_assert(race_happened(RACE_EXPEL));
	resizer_end(&resizer);
	ck_dat(srq_free(resizer.srq));
	side_close(client);
}
END_TEST

START_TEST(an_endpoint_may_go_while_its_queue_is_resized)
{
	struct resizer resizer = { .events = 500, .call = srq_resize, .stays = true };
	DAT_EVD_HANDLE evd;
	DAT_EP_HANDLE ep;

	side_open(client, "fake0");
	evd = side_create_evd(client, 1, DAT_EVD_DTO_FLAG);
	resizer.srq = make_shared_queue();
	ep = make_shared_endpoint(resizer.srq, evd);
	resizer_start(&resizer);
	ck_dat(ep_free(ep));
	ck_dat(evd_free(evd));
	fake_go_on();
	resizer_end(&resizer);
	ck_dat(srq_free(resizer.srq));
	side_close(client);
}
END_TEST

/* The longer one is the second, or the first. */
START_TEST(a_shared_queue_that_is_resized_twice_at_once_has_the_larger_size)
{
	struct resizer slow = { .events = _i ? 1000 : 100 };
	struct resizer other = { .events = _i ? 100 : 1000, .call = srq_resize };

	shared_resizer_open(&slow);
	other.srq = slow.srq;
	resizer_start_behind(&other);
	fake_go_on();
	resizer_end(&slow);
	resizer_end(&other);
	ck_assert_int_eq(srq_param(slow.srq).max_recv_dtos, 1000);
	ck_assert_uint_eq(fake_calls("srq_resize"), _i ? 1 : 2);
	ck_dat(srq_free(slow.srq));
	side_close(client);
}
END_TEST

START_TEST(who_frees_a_shared_queue_waits_for_its_resize)
{
	struct resizer resizer = { .events = 500 };

	shared_resizer_open(&resizer);
	race_call(RACE_EXPEL, resizer.srq, go_on, NULL);
	ck_dat(srq_free(resizer.srq));
	ck_assert(race_happened(RACE_EXPEL));
	resizer_end(&resizer);
	side_close(client);
}
END_TEST

/* By dat_srq_resize, and by dat_srq_set_lw. */
START_TEST(a_shared_queue_that_is_freed_while_a_call_waits_for_it_is_refused)
{
	struct resizer resizer = { .events = 500 }, freer = { .events = 0 };
	struct resizer other = { .events = 4, .call = _i ? srq_set_lw : srq_resize };

	shared_resizer_open(&resizer);
	other.srq = resizer.srq;
	resizer_start_behind(&other);
	waiting_freer_start(&freer, &resizer);
	fake_go_on();
	resizer_end(&resizer);
	resizer_end(&freer);
	consumer_thread_join(other.thread);
	ck_dat_is(other.ret, BAD_HANDLE(SRQ));
	side_close(client);
}
END_TEST

/* Alone, and with a thread that frees the queue. */
START_TEST(an_abrupt_close_waits_for_a_shared_queue_that_is_resized)
{
	struct resizer resizer = { .events = 500 }, freer = { .events = 0 };
	DAT_SRQ_HANDLE other;
	pthread_t closer;

	shared_resizer_open(&resizer);
	other = make_shared_queue();
	if (_i)
		waiting_freer_start(&freer, &resizer);
	closer = waiting_closer_start();
	ck_dat_is(srq_set_lw(other, 0), BAD_HANDLE(SRQ)); /* the close does not wait for that */
	fake_go_on();
	resizer_end(&resizer);
	if (_i)
		resizer_end(&freer);
	consumer_thread_join(closer);
}
END_TEST

/* ---- a call that frees or resets lets go of the lock ---- */

static void disconnect(void)
{
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_event(server->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

static void *free_endpoint(void *ret)
{
	*(DAT_RETURN *)ret = ep_free(client->ep);
	return NULL;
}

static void *reset_endpoint(void *ret)
{
	*(DAT_RETURN *)ret = ep_reset(client->ep);
	fake_stay(0);
	return NULL;
}

static void stay_in_next_call(void *unused)
{
	(void)unused;
	fake_stay(1);
}

START_TEST(connections_are_made_while_an_endpoint_is_reset)
{
	DAT_RETURN ret;
	DAT_EP_HANDLE ep;
	pthread_t thread;

	pair_connect(&pair);
	disconnect();
	ep = client->ep;
	race_call(RACE_GONE, ep, stay_in_next_call, NULL);
	thread = consumer_thread_start(reset_endpoint, &ret);
	ck_assert(fake_wait_stay());
	client->ep = side_create_ep(client, NULL);
	server->ep = side_create_ep(server, NULL);
	pair_connect(&pair);
	fake_go_on();
	consumer_thread_join(thread);
	ck_dat(ret);
	ck_assert_int_eq(ep_get_state(ep), DAT_EP_STATE_UNCONNECTED);
	pair_close_abrupt(&pair);
}
END_TEST

/* By dat_ep_free, and by dat_ep_reset. */
START_TEST(an_abrupt_close_waits_for_an_endpoint_that_is_freed_or_reset)
{
	pthread_t thread, closer;
	DAT_RETURN ret;

	pair_connect(&pair);
	disconnect();
	race_hold(_i ? RACE_GONE : RACE_FREE, client->ep);
	thread = consumer_thread_start(_i ? reset_endpoint : free_endpoint, &ret);
	race_wait_held();
	ck_dat_is(ia_close(client->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	closer = waiting_closer_start();
	race_release(NULL);
	consumer_thread_join(thread);
	consumer_thread_join(closer);
	ck_dat(ret);
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

static DAT_RETURN others[2];

static void free_and_reset(void *ep)
{
	others[0] = ep_free(ep);
	others[1] = ep_reset(ep);
	ck_dat(ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG)); /* it is already */
}

START_TEST(an_endpoint_that_is_reset_can_be_neither_freed_nor_reset)
{
	pair_connect(&pair);
	disconnect();
	race_call(RACE_GONE, client->ep, free_and_reset, client->ep);
	ck_dat(ep_reset(client->ep));
	ck_assert(race_happened(RACE_GONE));
	ck_dat_is(others[0], BAD_STATE(EP_DISCONNECTED));
	ck_dat_is(others[1], BAD_STATE(EP_DISCONNECTED));
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_UNCONNECTED);
	ck_dat(ep_free(client->ep));
	pair_close_abrupt(&pair);
}
END_TEST

static void reset(void *ep)
{
	others[0] = ep_reset(ep);
}

START_TEST(an_endpoint_can_not_be_reset_once_its_ia_is_closed)
{
	pair_connect(&pair);
	disconnect();
	race_call(RACE_CLOSE, client->ia, reset, client->ep);
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert(race_happened(RACE_CLOSE));
	ck_dat_is(others[0], BAD_HANDLE(EP));
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

static sem_t agent_runs;
static DAT_EVD_HANDLE awaited;
static DAT_RETURN agent_ret;

static void wait_in_agent(DAT_PVOID unused, DAT_EVD_HANDLE evd)
{
	DAT_EVENT none;
	DAT_COUNT more;

	(void)unused, (void)evd;
	sem_post(&agent_runs);
	agent_ret = evd_wait(awaited, DAT_TIMEOUT_INFINITE, 1, &none, &more);
}

static DAT_RETURN free_cno_of(DAT_CNO_HANDLE cno, DAT_COUNT unused)
{
	(void)unused;
	return cno_free(cno);
}

/* Which frees a CNO, and waits for its agent, which waits for an event. */
START_TEST(an_abrupt_close_ends_the_wait_of_a_thread_for_which_another_one_waits)
{
	const DAT_OS_WAIT_PROXY_AGENT agent = { NULL, wait_in_agent };
	struct resizer freer = { .call = free_cno_of };
	DAT_EVD_HANDLE evd;

	sem_init(&agent_runs, 0, 0);
	side_open(client, "fake0");
	awaited = side_create_evd(client, 8, DAT_EVD_SOFTWARE_FLAG);
	ck_dat(cno_create(client->ia, agent, &freer.srq));
	ck_dat(evd_create(client->ia, 8, freer.srq, DAT_EVD_SOFTWARE_FLAG, &evd));
	post_se(evd, 1);
	ck_assert_int_eq(sem_wait(&agent_runs), 0);
	ck_dat(evd_free(evd));
	freer_start(&freer, DAT_HANDLE_TYPE_CNO);
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	resizer_end(&freer);
	ck_dat_is(agent_ret, ABORTED);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

static DAT_RETURN free_evd(DAT_EVD_HANDLE evd, DAT_COUNT unused)
{
	(void)unused;
	return evd_free(evd);
}

/* The resize ends, and so do the free and the close that wait for it. */
static void resize_ends(struct resizer *resizer, struct resizer *freer, pthread_t closer)
{
	fake_go_on();
	resizer_end(resizer);
	resizer_end(freer);
	consumer_thread_join(closer);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

START_TEST(an_abrupt_close_waits_for_who_frees_an_evd_that_is_resized)
{
	struct resizer resizer = { .events = 200, .stays = true };
	struct resizer freer = { .call = free_evd };

	resizer_open(&resizer);
	freer.srq = resizer.evd;
	freer_start(&freer, DAT_HANDLE_TYPE_EVD);
	resize_ends(&resizer, &freer, waiting_closer_start());
}
END_TEST

static void start_freer(void *freer)
{
	freer_start(freer, DAT_HANDLE_TYPE_EVD);
}

/* The close has found that there is no such call before that. */
START_TEST(an_abrupt_close_waits_for_a_free_that_begins_after_it)
{
	struct resizer resizer = { .events = 200, .stays = true };
	struct resizer freer = { .call = free_evd };
	pthread_t closer;

	resizer_open(&resizer);
	freer.srq = resizer.evd;
	race_call(RACE_CLOSE, client->ia, start_freer, &freer);
	closer = consumer_thread_start(close_abruptly, client->ia);
	while (obj_valid(NULL, resizer.evd, DAT_HANDLE_TYPE_EVD) || !race_is_asleep(closer_tid))
		sched_yield();
	resize_ends(&resizer, &freer, closer);
}
END_TEST

static void *query_endpoint(void *ret)
{
	DAT_EP_PARAM param;

	*(DAT_RETURN *)ret = ep_query(client->ep, DAT_EP_FIELD_ALL, &param);
	return NULL;
}

/* It takes the lock of an IA that is gone, and so may the next one. */
START_TEST(a_call_whose_ia_is_closed_just_before_it_takes_the_lock_is_refused)
{
	struct mutex *lock;
	pthread_t thread;
	DAT_RETURN ret;

	side_open(client, "fake0");
	lock = &((struct ia *)client->ia)->lock;
	race_hold(RACE_LOCK, client->ep);
	thread = consumer_thread_start(query_endpoint, &ret);
	race_wait_held();
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	race_release(NULL);
	consumer_thread_join(thread);
	ck_dat_is(ret, BAD_HANDLE(EP));
	ck_assert_int_eq(pthread_mutex_trylock(&lock->os), 0);
	ck_assert_int_eq(pthread_mutex_unlock(&lock->os), 0);
}
END_TEST

/* ---- an object is freed by another thread, just before a call takes the lock ---- */

/* What the calls below are given: an object of each kind, all of the server. */
static DAT_HANDLE objects[OBJ_KINDS];
#define OBJECT(kind) objects[DAT_HANDLE_TYPE_##kind]

static void free_object(void *type)
{
	switch ((DAT_HANDLE_TYPE)(uintptr_t)type) {
	case DAT_HANDLE_TYPE_EP:
		ck_dat(ep_free(OBJECT(EP)));
		break;
	case DAT_HANDLE_TYPE_EVD:
		ck_dat(evd_free(OBJECT(EVD)));
		break;
	case DAT_HANDLE_TYPE_SRQ:
		ck_dat(srq_free(OBJECT(SRQ)));
		break;
	case DAT_HANDLE_TYPE_PSP:
		ck_dat(psp_free(OBJECT(PSP)));
		break;
	case DAT_HANDLE_TYPE_RSP:
		ck_dat(rsp_free(OBJECT(RSP)));
		break;
	default:
		ck_dat(cr_accept(OBJECT(CR), server->ep, 0, NULL));
	}
}

static DAT_RETURN connect_freed(void)
{
	return ep_connect(OBJECT(EP), (DAT_IA_ADDRESS_PTR)&client->address, 1000,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG);
}

static DAT_RETURN dup_connect_freed(void)
{
	return ep_dup_connect(OBJECT(EP), server->ep, DAT_TIMEOUT_INFINITE, 0, NULL,
			      DAT_QOS_BEST_EFFORT);
}

static DAT_RETURN reserve_freed(void)
{
	DAT_RSP_HANDLE rsp;

	return rsp_create(server->ia, 42002, OBJECT(EP), server->cr_evd, &rsp);
}

static DAT_RETURN disconnect_freed(void)
{
	return ep_disconnect(OBJECT(EP), DAT_CLOSE_ABRUPT_FLAG);
}

static DAT_RETURN reset_freed(void)
{
	return ep_reset(OBJECT(EP));
}

static DAT_RETURN modify_freed(void)
{
	DAT_EP_PARAM param = { .ep_attr.max_recv_dtos = 4 };

	return ep_modify(OBJECT(EP), DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param);
}

static DAT_RETURN query_freed_ep(void)
{
	DAT_EP_PARAM param;

	return ep_query(OBJECT(EP), DAT_EP_FIELD_ALL, &param);
}

static DAT_RETURN free_freed_ep(void)
{
	return ep_free(OBJECT(EP));
}

static DAT_RETURN resize_freed_evd(void)
{
	return evd_resize(OBJECT(EVD), 100);
}

static DAT_RETURN enable_freed(void)
{
	return evd_enable(OBJECT(EVD));
}

static DAT_RETURN give_cno_to_freed(void)
{
	return evd_modify_cno(OBJECT(EVD), DAT_HANDLE_NULL);
}

static DAT_RETURN free_freed_evd(void)
{
	return evd_free(OBJECT(EVD));
}

static DAT_RETURN resize_freed_srq(void)
{
	return srq_resize(OBJECT(SRQ), 100);
}

static DAT_RETURN watch_freed(void)
{
	return srq_set_lw(OBJECT(SRQ), 1);
}

static DAT_RETURN query_freed_srq(void)
{
	DAT_SRQ_PARAM param;

	return srq_query(OBJECT(SRQ), DAT_SRQ_FIELD_ALL, &param);
}

static DAT_RETURN free_freed_srq(void)
{
	return srq_free(OBJECT(SRQ));
}

static DAT_RETURN free_freed_psp(void)
{
	return psp_free(OBJECT(PSP));
}

static DAT_RETURN query_freed_rsp(void)
{
	DAT_RSP_PARAM param;

	return rsp_query(OBJECT(RSP), DAT_RSP_FIELD_ALL, &param);
}

static DAT_RETURN free_freed_rsp(void)
{
	return rsp_free(OBJECT(RSP));
}

static DAT_RETURN accept_accepted(void)
{
	return cr_accept(OBJECT(CR), server->ep, 0, NULL);
}

static struct {
	pthread_t thread;
	_Atomic pid_t tid;
	DAT_RETURN ret;
} rejecter;

static void *reject(void *unused)
{
	(void)unused;
	atomic_store(&rejecter.tid, gettid());
#if DAT_EDITION == 2
	rejecter.ret = cr_reject(OBJECT(CR), 0, NULL);
#else
	rejecter.ret = cr_reject(OBJECT(CR));
#endif
	return NULL;
}

static DAT_RETURN reject_accepted(void)
{
	(void)reject(NULL);
	return rejecter.ret;
}

static DAT_RETURN hand_accepted_off(void)
{
	return cr_handoff(OBJECT(CR), 42001);
}

static const struct {
	DAT_HANDLE_TYPE kind;
	DAT_RETURN (*call)(void);
	DAT_RETURN want;
} overtaken[] = {
	{ DAT_HANDLE_TYPE_EP, connect_freed, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EP, dup_connect_freed, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EP, reserve_freed, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EP, disconnect_freed, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EP, reset_freed, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EP, modify_freed, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EP, query_freed_ep, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EP, free_freed_ep, BAD_HANDLE(EP) },
	{ DAT_HANDLE_TYPE_EVD, resize_freed_evd, BAD_EVD },
	{ DAT_HANDLE_TYPE_EVD, enable_freed, BAD_EVD },
	{ DAT_HANDLE_TYPE_EVD, give_cno_to_freed, BAD_EVD },
	{ DAT_HANDLE_TYPE_EVD, free_freed_evd, BAD_EVD },
	{ DAT_HANDLE_TYPE_SRQ, resize_freed_srq, BAD_HANDLE(SRQ) },
	{ DAT_HANDLE_TYPE_SRQ, watch_freed, BAD_HANDLE(SRQ) },
	{ DAT_HANDLE_TYPE_SRQ, query_freed_srq, BAD_HANDLE(SRQ) },
	{ DAT_HANDLE_TYPE_SRQ, free_freed_srq, BAD_HANDLE(SRQ) },
	{ DAT_HANDLE_TYPE_PSP, free_freed_psp, BAD_HANDLE(PSP) },
	{ DAT_HANDLE_TYPE_RSP, query_freed_rsp, BAD_HANDLE(RSP) },
	{ DAT_HANDLE_TYPE_RSP, free_freed_rsp, BAD_HANDLE(RSP) },
	{ DAT_HANDLE_TYPE_CR, accept_accepted, BAD_HANDLE(CR) },
	{ DAT_HANDLE_TYPE_CR, hand_accepted_off, BAD_HANDLE(CR) },
	{ DAT_HANDLE_TYPE_CR, reject_accepted, BAD_HANDLE(CR) },
};

static void objects_make(void)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };

	side_open(client, "fake0");
	side_open(server, "fake1");
	OBJECT(EP) = side_create_ep(server, NULL);
	OBJECT(EVD) = side_create_evd(server, 8, DAT_EVD_DTO_FLAG);
	ck_dat(srq_create(server->ia, server->pz, &attr, &OBJECT(SRQ)));
	ck_dat(psp_create(server->ia, 42000, server->cr_evd, DAT_PSP_CONSUMER_FLAG, &OBJECT(PSP)));
	ck_dat(rsp_create(server->ia, 42001, DAT_HANDLE_NULL, server->cr_evd, &OBJECT(RSP)));
	ck_dat(ep_connect(client->ep, (DAT_IA_ADDRESS_PTR)&server->address, 42000,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	OBJECT(CR) = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			     .event_data.cr_arrival_event_data.cr_handle;
}

START_TEST(a_handle_that_is_freed_just_before_a_call_is_refused)
{
	const DAT_HANDLE_TYPE kind = overtaken[_i].kind;
	DAT_HANDLE freed;

	objects_make();
	freed = objects[kind];
	race_call(RACE_LOCK, freed, free_object, (void *)(uintptr_t)kind);
	ck_dat_is(overtaken[_i].call(), overtaken[_i].want);
	ck_assert(race_happened(RACE_LOCK));
	ck_assert(!obj_valid(NULL, freed, kind));
	pair_close_abrupt(&pair);
}
END_TEST

/* Has another thread reject the request; that waits for the lock, which this one has. */
static void rejecter_start(void *unused)
{
	(void)unused;
	rejecter.thread = consumer_thread_start(reject, NULL);
	while (!race_is_asleep(atomic_load(&rejecter.tid)))
		sched_yield();
}

START_TEST(a_request_that_is_being_accepted_can_not_be_rejected)
{
	objects_make();
	race_call(RACE_GATE, server->ep, rejecter_start, NULL);
	ck_dat(cr_accept(OBJECT(CR), server->ep, 0, NULL));
	ck_assert(race_happened(RACE_GATE));
	consumer_thread_join(rejecter.thread);
	ck_dat_is(rejecter.ret, BAD_HANDLE(CR));
	(void)expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_close_abrupt(&pair);
}
END_TEST

/* The endpoint is the other object of the call. */
START_TEST(an_endpoint_that_is_freed_just_before_it_accepts_is_refused)
{
	objects_make();
	race_call(RACE_LOCK, OBJECT(CR), free_object, (void *)DAT_HANDLE_TYPE_EP);
	ck_dat_is(cr_accept(OBJECT(CR), OBJECT(EP), 0, NULL), BAD_HANDLE(EP));
	ck_assert(race_happened(RACE_LOCK));
	ck_dat(cr_accept(OBJECT(CR), server->ep, 0, NULL)); /* the request is as it was */
	(void)expect_event(server->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(an_endpoint_whose_peer_is_asked_for_may_be_freed)
{
	objects_make();
	race_call(RACE_LOCK, server->ep, free_object, (void *)DAT_HANDLE_TYPE_EP);
	ck_dat_is(ep_dup_connect(server->ep, OBJECT(EP), DAT_TIMEOUT_INFINITE, 0, NULL,
				 DAT_QOS_BEST_EFFORT),
		  BAD_HANDLE(EP));
	ck_assert(race_happened(RACE_LOCK));
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- the lock of an EVD is let go of to allocate slots ---- */

#define BACKLOG 100 /* completions of the client, more than its event queue has slots for */

/* @count receives of @ep complete, with cookies from 0 on. */
static void receive_on(DAT_EP_HANDLE ep, DAT_EP_HANDLE peer, unsigned count)
{
	struct side from = *server, to = *client;

	from.ep = peer;
	to.ep = ep;
	for (unsigned n = 0; n < count; n++) {
		post_recv(&to, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		post_send(&from, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(server->request_evd, n, DAT_DTO_SUCCESS);
	}
}

/* The client's EVDs have the length @qlen. */
static void connect_with_backlog(DAT_COUNT qlen)
{
	static DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.max_recv_dtos = BACKLOG;
	client->ep_attr = &attr;
	client->qlen = qlen;
	side_open(client, "fake0");
	pair_connect(&pair);
	receive_on(client->ep, server->ep, BACKLOG);
}

static uint64_t cookie_in(const DAT_EVENT *got)
{
	ck_assert_int_eq(got->event_number, DAT_DTO_COMPLETION_EVENT);
	return got->event_data.dto_completion_event_data.user_cookie.as_64;
}

static void expect_refusals_of_a_waiter(void *arg)
{
	DAT_EVD_HANDLE evd = arg;
	DAT_EVENT other;
	DAT_COUNT more;

	ck_dat_is(evd_wait(evd, SECONDS(1), 1, &other, &more), BAD_STATE(EVD_WAITER));
	ck_dat_is(evd_dequeue(evd, &other), BAD_STATE(EVD_WAITER));
	ck_dat_is(evd_resize(evd, 10), BAD_STATE(EVD_WAITER));
}

static const struct {
	const char *why;
	DAT_COUNT threshold;
	DAT_TIMEOUT timeout;
	DAT_RETURN want;
} waits[] = {
	{ "has its event, counts the others", 1, 0, DAT_SUCCESS },
	{ "reaches its threshold", BACKLOG, 0, DAT_SUCCESS },
	{ "does not reach it", BACKLOG + 1, 0, DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0) },
	{ "sleeps", BACKLOG + 1, SECONDS(1), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0) },
};

START_TEST(one_thread_waits_even_while_slots_are_allocated)
{
	unsigned first = waits[_i].want == DAT_SUCCESS;

	connect_with_backlog(BACKLOG + 1);
	race_call(RACE_ROOM, client->recv_evd, expect_refusals_of_a_waiter, client->recv_evd);
	ck_dat_is(
		evd_wait(client->recv_evd, waits[_i].timeout, waits[_i].threshold, &event, &nmore),
		waits[_i].want);
	ck_assert(race_happened(RACE_ROOM));
	if (first)
		ck_assert_uint_eq(cookie_in(&event), 0);
	ck_assert_int_eq(nmore, BACKLOG - (DAT_COUNT)first);
	for (unsigned n = first; n < BACKLOG; n++)
		expect_dto(client->recv_evd, n, DAT_DTO_SUCCESS);
	pair_close(&pair);
}
END_TEST

static void *waiter_held(void *arg)
{
	struct waiter *waiter = arg;

	waiter->ret = evd_wait(waiter->evd, waiter->timeout, waiter->threshold, &waiter->event,
			       &waiter->nmore);
	return NULL;
}

START_TEST(an_abrupt_close_finds_a_waiter_that_allocates)
{
	const DAT_COUNT threshold = _i ? BACKLOG + 1 : 1;
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = threshold };

	connect_with_backlog(BACKLOG + 1);
	waiter.evd = client->recv_evd;
	race_hold(RACE_ROOM, client->recv_evd);
	race_call(RACE_EXPEL, client->recv_evd, race_release, NULL);
	waiter.thread = consumer_thread_start(waiter_held, &waiter);
	race_wait_held();
	ck_dat(ia_close(client->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert(race_happened(RACE_EXPEL));
	ck_dat_is(waiter_join(&waiter), threshold == 1 ? DAT_SUCCESS : ABORTED);
	ck_dat(ia_close(server->ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

static DAT_CNO_HANDLE cnos_meanwhile[3];

/* A call with each CNO takes all completions, in the end more than the wait has slots for. */
static void receive_more(void *evd)
{
	for (int i = 0; i < COUNT(cnos_meanwhile); i++) {
		if (i > 0)
			receive_on(client->ep, server->ep, BACKLOG);
		ck_dat(evd_modify_cno(evd, cnos_meanwhile[i]));
	}
}

START_TEST(a_queue_that_has_become_longer_meanwhile_stays_so)
{
	const int rounds = COUNT(cnos_meanwhile);

	connect_with_backlog(BACKLOG + 1);
	for (int i = 0; i < rounds; i++)
		ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cnos_meanwhile[i]));
	race_call(RACE_ROOM, client->recv_evd, receive_more, client->recv_evd);
	ck_dat(evd_wait(client->recv_evd, 0, BACKLOG, &event, &nmore));
	ck_assert(race_happened(RACE_ROOM));
	ck_assert_uint_eq(cookie_in(&event), 0);
	ck_assert_int_eq(nmore, rounds * BACKLOG - 1);
	for (unsigned n = 1; n < (unsigned)rounds * BACKLOG; n++)
		expect_dto(client->recv_evd, n % BACKLOG, DAT_DTO_SUCCESS);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- resize ---- */

static unsigned posted;

static void post_all_that_fit(void *arg)
{
	while (try_post_se(arg, posted) == DAT_SUCCESS)
		posted++;
}

START_TEST(a_resize_makes_room_before_events_may_use_it)
{
	DAT_EVD_HANDLE evd;

	side_open(client, "fake0");
	evd = side_create_evd(client, 4, DAT_EVD_SOFTWARE_FLAG);
	race_call(RACE_ROOM, evd, post_all_that_fit, evd);
	ck_dat(evd_resize(evd, BACKLOG));
	ck_assert(race_happened(RACE_ROOM));
	post_all_that_fit(evd);
	ck_assert_uint_eq(posted, BACKLOG);
	for (unsigned n = 0; n < BACKLOG; n++)
		expect_se(evd, n);
	expect_no_event(evd);
}
END_TEST

static struct ia *borrower;

/* Many more than the queue may hold; the borrower's service thread posts them. */
static void fail_the_borrowers_port(void *unused)
{
	(void)unused;
	for (unsigned n = 0; n < 2 * BACKLOG; n++)
		fake_port_down(borrower->dev);
	fake_wait_idle(0);
}

START_TEST(a_resize_makes_room_before_the_errors_of_a_borrower_may_use_it)
{
	DAT_EVD_HANDLE unused;
	DAT_IA_HANDLE ia;
	DAT_COUNT qlen;

	side_open(client, "fake0");
	qlen = qlen_of(client->async_evd);
	ck_dat(ia_close(ia_open_on("fake1", false, &unused), DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat(ia_open((DAT_NAME_PTR) "fake1", 8, &client->async_evd, &ia));
	borrower = ia;
	fake_wait_idle(0); /* from here on no service thread needs the lock that resize holds */
	race_call(RACE_ROOM, client->async_evd, fail_the_borrowers_port, NULL);
	ck_dat(evd_resize(client->async_evd, BACKLOG));
	ck_assert(race_happened(RACE_ROOM));
	for (DAT_COUNT n = 0; n < qlen; n++)
		expect_event(client->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	expect_event(client->async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW);
	expect_no_event(client->async_evd);
}
END_TEST

static void waiter_begins(void *arg)
{
	waiter_start(arg);
}

START_TEST(a_resize_is_refused_to_a_wait_that_begins_while_it_allocates)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	side_open(client, "fake0");
	waiter.evd = side_create_evd(client, 4, DAT_EVD_SOFTWARE_FLAG);
	fake_wait_idle(0); /* from here on the service thread does not need the lock of resize */
	race_call(RACE_ROOM, waiter.evd, waiter_begins, &waiter);
	ck_dat_is(evd_resize(waiter.evd, BACKLOG), BAD_STATE(EVD_WAITER));
	ck_assert_int_eq(qlen_of(waiter.evd), 4);
	post_se(waiter.evd, 1);
	ck_dat(waiter_join(&waiter));
}
END_TEST

/* ---- a completion queue is armed ---- */

static void connect_with_recv_flags(DAT_COMPLETION_FLAGS flags)
{
	static DAT_EP_ATTR attr;

	side_open(server, "fake1");
	attr = ep_attr_default(server);
	attr.recv_completion_flags = flags;
	client->ep_attr = &attr;
	side_open(client, "fake0");
	pair_connect(&pair);
	post_recv(client, 7, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	fake_wait_idle(0);
}

static void *enable_evd(void *arg)
{
	ck_dat(evd_enable(arg));
	return NULL;
}

struct sleeper {
	struct waiter waiter;
	_Atomic pid_t thread;
};

static void *sleeper_main(void *arg)
{
	struct sleeper *sleeper = arg;

	atomic_store(&sleeper->thread, gettid());
	return waiter_held(&sleeper->waiter);
}

/* Returns when the thread sleeps in its wait, or for a lock. */
static void sleeper_start(struct sleeper *sleeper, struct evd *evd)
{
	sleeper->waiter.thread = consumer_thread_start(sleeper_main, sleeper);
	for (bool waits = false; !waits; sched_yield()) {
		spin_lock(&evd->lock);
		waits = evd->slow_path & EVD_WAITER;
		spin_unlock(&evd->lock);
	}
	while (!race_is_asleep(atomic_load(&sleeper->thread)))
		sched_yield();
}

/*
 * A thread has chosen to arm for failures only, because nobody waits. Meanwhile one does, and arms
 * for everything.
 */
START_TEST(a_weaker_request_does_not_follow_a_stronger_one)
{
	struct sleeper sleeper = {
		.waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 },
	};
	pthread_t thread;

	fake_quirks(FAKE_LAST_ARM_WINS);
	connect_with_recv_flags(DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(evd_disable(client->recv_evd));
	race_hold(RACE_ARM, client->recv_evd);
	thread = consumer_thread_start(enable_evd, client->recv_evd);
	race_wait_held();
	sleeper.waiter.evd = client->recv_evd;
	sleeper_start(&sleeper, client->recv_evd);
	race_release(NULL);
	consumer_thread_join(thread);
	fake_wait_idle(1);
	ck_assert_int_eq(fake_armed(cq_of_evd(client->recv_evd)), FAKE_ARMED_ANY);
	post_send(server, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(waiter_join(&sleeper.waiter));
	ck_assert_uint_eq(cookie_in(&sleeper.waiter.event), 7);
}
END_TEST

/* A completion arrives that the queue is about to be armed for. It makes no event any more. */
static void send_to_client(void *unused)
{
	(void)unused;
	post_send(server, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
}

START_TEST(a_waiter_looks_again_when_the_queue_is_armed)
{
	uint64_t start;

	connect_with_recv_flags(DAT_COMPLETION_DEFAULT_FLAG);
	start = tp_now();
	race_call(RACE_ARM, client->recv_evd, send_to_client, NULL);
	ck_dat(evd_wait(client->recv_evd, SECONDS(1), 1, &event, &nmore));
	ck_assert(race_happened(RACE_ARM));
	ck_assert_uint_eq(cookie_in(&event), 7);
	ck_assert_uint_eq(tp_now(), start); /* it did not sleep */
}
END_TEST

static void send_when_armed_again(void *unused)
{
	race_call(RACE_ARM, client->recv_evd, send_to_client, unused);
}

static DAT_CNO_HANDLE attach_cno(DAT_EVD_HANDLE evd)
{
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(evd_modify_cno(evd, cno));
	return cno;
}

/* It arms the queue for the CNO. */
START_TEST(a_wait_that_times_out_looks_again_when_the_queue_is_armed)
{
	connect_with_recv_flags(DAT_COMPLETION_DEFAULT_FLAG);
	attach_cno(client->recv_evd);
	race_call(RACE_ARM, client->recv_evd, send_when_armed_again, NULL);
	ck_dat(evd_wait(client->recv_evd, SECONDS(1), 1, &event, &nmore));
	ck_assert(race_happened(RACE_ARM));
	ck_assert_uint_eq(cookie_in(&event), 7);
	ck_assert_int_eq(nmore, 0);
}
END_TEST

static void expect_notification(DAT_CNO_HANDLE cno, DAT_EVD_HANDLE evd)
{
	DAT_EVD_HANDLE hint = POISON;

	ck_assert(race_happened(RACE_ARM));
	ck_dat(cno_wait(cno, SECONDS(1), &hint));
	ck_assert_ptr_eq(hint, evd);
}

START_TEST(enabling_an_evd_looks_again_when_the_queue_is_armed)
{
	DAT_CNO_HANDLE cno;

	connect_with_recv_flags(DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(evd_disable(client->recv_evd));
	cno = attach_cno(client->recv_evd);
	race_call(RACE_ARM, client->recv_evd, send_to_client, NULL);
	ck_dat(evd_enable(client->recv_evd));
	expect_notification(cno, client->recv_evd);
}
END_TEST

/* The mode is that of all endpoints: a solicited one, until another one comes. */
START_TEST(a_change_of_mode_looks_again_when_the_queue_is_armed)
{
	DAT_EP_ATTR attr;
	DAT_CNO_HANDLE cno;

	connect_with_recv_flags(DAT_COMPLETION_SOLICITED_WAIT_FLAG);
	cno = attach_cno(client->recv_evd);
	attr = ep_attr_default(client);
	race_call(RACE_ARM, client->recv_evd, send_to_client, NULL);
	side_create_ep(client, &attr);
	expect_notification(cno, client->recv_evd);
}
END_TEST

static void fail_a_send(void *unused)
{
	(void)unused;
	fake_fail_transfer(DAT_DTO_ERR_TRANSPORT);
	post_send(client, 2, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
}

/* The latch is set, so the queue is armed for failures only, and not before it is at rest. */
START_TEST(the_service_thread_looks_again_when_the_queue_is_armed)
{
	pair_connect(&pair); /* without receives, whose flushes would be noticed */
	post_recv(server, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	attach_cno(client->request_evd);
	race_call(RACE_ARM, client->request_evd, fail_a_send, NULL);
	post_send(client, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert(race_happened(RACE_ARM));
}
END_TEST

/* ---- a completion is taken while a thread waits for it ---- */

static DAT_CNO_HANDLE next_cno;

static void complete_and_enable(void *evd)
{
	send_to_client(NULL);
	ck_dat(evd_enable(evd));
}

static void complete_and_change_cno(void *evd)
{
	send_to_client(NULL);
	ck_dat(evd_modify_cno(evd, next_cno));
}

/* These take what is there, because it may have to trigger the CNO. */
START_TEST(a_completion_that_a_change_of_notification_takes_ends_the_wait)
{
	void (*const act)(void *) = _i ? complete_and_change_cno : complete_and_enable;

	connect_with_recv_flags(DAT_COMPLETION_DEFAULT_FLAG);
	next_cno = attach_cno(client->recv_evd);
	if (_i)
		ck_dat(evd_modify_cno(client->recv_evd, DAT_HANDLE_NULL));
	else
		ck_dat(evd_disable(client->recv_evd));
	race_call(RACE_SLEEP, client->recv_evd, act, client->recv_evd);
	ck_dat(evd_wait(client->recv_evd, SECONDS(1), 1, &event, &nmore));
	ck_assert(race_happened(RACE_SLEEP));
	ck_assert_uint_eq(cookie_in(&event), 7);
	expect_no_event(client->recv_evd);
}
END_TEST

/* The service thread takes the event of another completion, and of this one. */
static void complete_and_let_service_thread_handle(void *unused)
{
	send_to_client(unused);
	race_release(unused);
	fake_wait_idle(0);
}

START_TEST(a_waiter_that_comes_after_the_kernel_named_its_queue_sleeps_armed)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 2 };

	fake_quirks(FAKE_ARM_ANY);
	connect_with_recv_flags(DAT_COMPLETION_DEFAULT_FLAG);
	post_recv(client, 8, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_recv(client, 9, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	race_hold(RACE_NAMED, client->ia);
	send_to_client(NULL);
	race_wait_held();
	ck_dat(evd_dequeue(client->recv_evd, &event));
	waiter.evd = client->recv_evd;
	race_call(RACE_SLEEP, waiter.evd, complete_and_let_service_thread_handle, NULL);
	waiter.thread = consumer_thread_start(waiter_held, &waiter);
	while (!race_happened(RACE_SLEEP))
		sched_yield();
	fake_wait_idle(1);
	ck_assert_int_eq(fake_armed(cq_of_evd(waiter.evd)), FAKE_ARMED_ANY);
	send_to_client(NULL);
	ck_dat(waiter_join(&waiter));
	ck_assert_uint_eq(cookie_in(&waiter.event), 8);
	ck_assert_int_eq(waiter.nmore, 1);
}
END_TEST

/* ---- a waiter that leaves ---- */

static void send_from_client(void *unused)
{
	(void)unused;
	post_send(client, 1, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
}

/* A wait for the completion of a send, which arrives when the thread is about to sleep. */
static void wait_for_a_send(void)
{
	post_recv(server, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	race_call(RACE_ARM, client->request_evd, send_from_client, NULL);
	expect_dto(client->request_evd, 1, DAT_DTO_SUCCESS);
	ck_assert(race_happened(RACE_ARM));
}

static void let_the_service_thread_look(void *unused)
{
	(void)unused;
	fake_clock_advance(10000000);
	fake_wait_idle(0);
}

START_TEST(the_service_thread_looks_on_when_a_waiter_has_left)
{
	pair_connect(&pair);
	wait_for_a_send();
	fake_wait_idle(0);
	race_call(RACE_LEFT, client->request_evd, let_the_service_thread_look, NULL);
	wait_for_a_send();
	ck_assert(race_happened(RACE_LEFT));
	fail_a_send(NULL);
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}
END_TEST

static void enable_and_go_on(void *arg)
{
	ck_dat(evd_enable(arg));
}

/* No time passes, so the channel alone can say that there is a completion. */
START_TEST(a_cno_takes_the_channel_from_a_waiter_that_has_left)
{
	DAT_EVD_HANDLE hint = POISON;
	DAT_CNO_HANDLE cno;

	pair_connect(&pair);
	cno = attach_cno(client->request_evd);
	ck_dat(evd_disable(client->request_evd));
	race_call(RACE_LEFT, client->request_evd, enable_and_go_on, client->request_evd);
	wait_for_a_send();
	ck_assert(race_happened(RACE_LEFT));
	post_recv(server, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	send_from_client(NULL);
	fake_wait_idle(0);
	ck_dat(cno_wait(cno, 0, &hint));
	ck_assert_ptr_eq(hint, client->request_evd);
}
END_TEST

/* ---- the gates of an endpoint ---- */

static void read_when_connected(void *unused)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET from = target(server, 0, 8);

	if (ep_get_state(client->ep) != DAT_EP_STATE_CONNECTED)
		race_call(RACE_GATE, client->ep, read_when_connected, unused);
	else
		ck_dat_is(ep_post_rdma_read(client->ep, 1, &iov, cookie_of(1), &from,
					    DAT_COMPLETION_DEFAULT_FLAG),
			  BAD_STATE(EP_NOTREADY));
}

/* The endpoint was created with reads, and its peer takes none. */
START_TEST(a_gate_opens_when_the_limit_of_reads_is_known)
{
	DAT_EP_ATTR attr;

	side_open(client, "fake0");
	attr = ep_attr_default(client);
	attr.max_rdma_read_in = 0;
	server->ep_attr = &attr;
	race_call(RACE_GATE, client->ep, read_when_connected, NULL);
	pair_connect(&pair);
	ck_assert(race_happened(RACE_GATE));
	pair_close(&pair);
}
END_TEST

static void break_qp(void *arg)
{
	fake_break_qp(((struct ep *)arg)->qp);
	fake_wait_idle(0);
}

START_TEST(no_event_names_an_endpoint_that_is_being_freed)
{
	pair_connect(&pair);
	race_call(RACE_FREE, client->ep, break_qp, client->ep);
	ck_dat(ep_free(client->ep));
	ck_assert(race_happened(RACE_FREE));
	expect_no_event(client->async_evd);
	expect_no_event(client->connect_evd);
}
END_TEST

static sem_t agent_runs, agent_may_end;

static void occupy_service_thread(DAT_PVOID unused, DAT_EVD_HANDLE evd)
{
	(void)unused;
	(void)evd;
	sem_post(&agent_runs);
	while (sem_wait(&agent_may_end) < 0)
		;
}

static void queue_work(void *arg)
{
	struct ep *ep = arg;

	service_queue_work(ep->obj.ia, &ep->work);
}

/* Completions that another thread takes meanwhile queue it in the same way. */
START_TEST(a_freed_endpoint_leaves_no_work)
{
	const DAT_OS_WAIT_PROXY_AGENT agent = { NULL, occupy_service_thread };
	DAT_EVD_HANDLE evd;
	DAT_CNO_HANDLE cno;
	struct ep *ep;

	side_open(client, "fake0");
	sem_init(&agent_runs, 0, 0);
	sem_init(&agent_may_end, 0, 0);
	ck_dat(cno_create(client->ia, agent, &cno));
	evd = side_create_evd(client, 4, DAT_EVD_SOFTWARE_FLAG);
	ck_dat(evd_modify_cno(evd, cno));
	post_se(evd, 1);
	while (sem_wait(&agent_runs) < 0)
		;
	ep = client->ep;
	race_call(RACE_FREE, ep, queue_work, ep);
	ck_dat(ep_free(ep));
	ck_assert(race_happened(RACE_FREE));
	ck_assert(!ep->work.queued); /* its memory stays readable */
	sem_post(&agent_may_end);
	fake_wait_idle(0);
}
END_TEST

/* ---- a waiter that is woken ---- */

static void mode_changes(void *arg)
{
	CANCEL_FORBIDDEN;
	struct evd *evd = arg;

	mutex_lock(&evd->obj.ia->lock);
	evd_mode_changed(evd);
	mutex_unlock(&evd->obj.ia->lock);
}

/* It is woken once more before it looks, and is asleep again when the event comes. */
START_TEST(a_waiter_that_is_woken_twice_can_be_woken_again)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	side_open(client, "fake0");
	waiter.evd = side_create_evd(client, 4, DAT_EVD_SOFTWARE_FLAG);
	waiter_start(&waiter);
	race_call(RACE_WOKEN, waiter.evd, mode_changes, waiter.evd);
	mode_changes(waiter.evd);
	while (!race_happened(RACE_WOKEN))
		sched_yield();
	fake_wait_idle(1);
	post_se(waiter.evd, 1);
	ck_dat(waiter_join(&waiter));
}
END_TEST

/* The waiter finds the EVD waitable again, and leaves all the same. */
START_TEST(a_waiter_leaves_an_evd_that_was_unwaitable_for_a_moment)
{
	struct waiter waiter = { .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };

	side_open(client, "fake0");
	waiter.evd = side_create_evd(client, 4, DAT_EVD_SOFTWARE_FLAG);
	for (int i = 0; i < 2; i++) {
		waiter_start(&waiter);
		race_hold(RACE_WOKEN, waiter.evd);
		ck_dat(evd_set_unwaitable(waiter.evd));
		race_wait_held();
		ck_dat(evd_clear_unwaitable(waiter.evd));
		race_release(NULL);
		ck_dat_is(waiter_join(&waiter), BAD_STATE(EVD_UNWAITABLE));
	}
	/* the next one stays */
	waiter_start(&waiter);
	fake_wait_idle(1);
	post_se(waiter.evd, 1);
	ck_dat(waiter_join(&waiter));
	ck_dat(evd_free(waiter.evd));
	side_close(client);
}
END_TEST

/* ---- posts, and the end of the connection ---- */

static DAT_RETURN race_send(uint64_t n)
{
	return try_send(client, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
}

static DAT_RETURN race_write(uint64_t n)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET to = target(server, 0, 8);

	return ep_post_rdma_write(client->ep, 1, &iov, cookie_of(n), &to,
				  DAT_COMPLETION_DEFAULT_FLAG);
}

static DAT_RETURN race_read(uint64_t n)
{
	DAT_LMR_TRIPLET iov = segment(client, 0, 8);
	DAT_RMR_TRIPLET from = target(server, 0, 8);

	return ep_post_rdma_read(client->ep, 1, &iov, cookie_of(n), &from,
				 DAT_COMPLETION_DEFAULT_FLAG);
}

static DAT_RETURN race_recv(uint64_t n)
{
	return try_recv(client, n, 0, 8, DAT_COMPLETION_DEFAULT_FLAG);
}

static const struct race_post {
	DAT_RETURN (*post)(uint64_t n);
	enum req_kind kind;
	unsigned lost; /* a quirk: the device never flushes what is posted in the error state */
} posts[] = {
	{ race_send, REQ_SEND, FAKE_SWALLOWS_SEND },
	{ race_write, REQ_WRITE, FAKE_SWALLOWS_SEND },
	{ race_read, REQ_READ, FAKE_SWALLOWS_SEND },
	{ race_recv, REQ_RECV, FAKE_FORGETS_RECV },
};

static struct ring *ring_of_post(const struct race_post *post)
{
	struct ep *ep = client->ep;

	return post->kind == REQ_RECV ? &ep->recvs : &ep->sends;
}

static DAT_EVD_HANDLE evd_of_post(const struct race_post *post)
{
	return post->kind == REQ_RECV ? client->recv_evd : client->request_evd;
}

static void end_connection(void *unused)
{
	(void)unused;
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	fake_clock_advance(100000000); /* the device flushes nothing of what is claimed */
	fake_wait_idle(0);
	ck_assert_int_eq(ep_get_state(client->ep), DAT_EP_STATE_DISCONNECTED);
}

/*
 * The connection ends after the gate was seen open, and before the claim (even _i) or after it. So
 * the end of the connection misses the claim, or flushes it.
 */
START_TEST(a_post_that_meets_the_end_of_the_connection_is_flushed_once)
{
	const struct race_post *post = &posts[_i / 2];
	const enum race_point point = _i % 2 ? RACE_CLAIMED : RACE_CLAIM;

	pair_connect(&pair);
	fake_quirks(post->lost);
	race_call(point, ring_of_post(post), end_connection, NULL);
	ck_dat(post->post(5));
	ck_assert(race_happened(point));
	expect_dto(evd_of_post(post), 5, DAT_DTO_ERR_FLUSHED);
	expect_no_event(evd_of_post(post));
	ck_assert_uint_eq(ring_used(ring_of_post(post)), 0);
}
END_TEST

static void *bind_main(void *arg)
{
	DAT_LMR_TRIPLET range = segment(client, 0, 64);
	DAT_RMR_CONTEXT context;

	ck_dat(rmr_bind_va(arg, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, client->ep, cookie_of(5), 0,
			   &context));
	return NULL;
}

/* In a thread of its own, because it holds the lock of the window before the claim. */
START_TEST(a_bind_that_meets_the_end_of_the_connection_is_flushed_once)
{
	DAT_RMR_HANDLE rmr;
	pthread_t thread;

	pair_connect(&pair);
	ck_dat(rmr_create(client->pz, &rmr));
	fake_quirks(FAKE_SWALLOWS_SEND);
	race_hold(RACE_CLAIM, &((struct ep *)client->ep)->sends);
	thread = consumer_thread_start(bind_main, rmr);
	race_wait_held();
	end_connection(NULL);
	race_release(NULL);
	consumer_thread_join(thread);
	event = expect_event(client->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	ck_assert_int_eq(event.event_data.rmr_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
	expect_no_event(client->request_evd);
}
END_TEST

static void expect_slot_filled(void *arg)
{
	const struct race_post *post = arg;
	const struct ring *ring = ring_of_post(post);
	unsigned tail = atomic_load(&ring->tail);
	const struct req *req = ring_slot(ring, tail - RING_STEP);

	ck_assert_uint_eq(req->cookie.as_64, 5);
	ck_assert_uint_eq(req->kind, post->kind);
	ck_assert_uint_eq(req->flags, 0);
	if (post->kind != REQ_RECV)
		ck_assert_uint_eq(req->size, 8);
}

/* Another thread may flush it at once. */
START_TEST(a_slot_is_filled_before_it_is_claimed)
{
	struct race_post post = posts[_i];
	struct ring *ring;

	pair_connect(&pair);
	ring = ring_of_post(&post);
	memset(&ring->slots[0].cookie, 0xff, sizeof(ring->slots[0].cookie));
	ring->slots[0].kind_and_flags = UINT32_MAX;
	race_call(RACE_CLAIMED, ring, expect_slot_filled, &post);
	ck_dat(post.post(5));
	ck_assert(race_happened(RACE_CLAIMED));
}
END_TEST

static void post_into_the_slot(void *unused)
{
	(void)unused;
	post_recv(client, 99, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
}

/* The poster needs no lock: it may use a slot as soon as it is free. */
START_TEST(a_completion_is_described_before_its_slot_is_free)
{
	DAT_EP_ATTR attr;

	side_open(client, "fake0");
	ck_dat(ep_free(client->ep));
	attr = ep_attr_default(client);
	attr.max_recv_dtos = 2; /* with as many slots, so that the next claim takes the first one */
	client->ep = side_create_ep(client, &attr);
	pair_connect(&pair);
	for (unsigned n = 1; n <= 2; n++) {
		post_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		send_to_client(NULL);
	}
	race_call(RACE_RETIRED, &((struct ep *)client->ep)->recvs, post_into_the_slot, NULL);
	if (_i == 0)
		ck_dat(evd_dequeue(client->recv_evd, &event));
	else
		ck_dat(evd_wait(client->recv_evd, 0, _i, &event, &nmore));
	ck_assert(race_happened(RACE_RETIRED));
	ck_assert_uint_eq(cookie_in(&event), 1);
}
END_TEST

/* ---- objects ---- */

struct contest {
	struct obj *obj;
	bool held, retired;
};

static void contest_hold(void *arg)
{
	struct contest *contest = arg;

	contest->held = obj_hold(NULL, contest->obj, DAT_HANDLE_TYPE_CNO);
}

static void contest_retire(void *arg)
{
	struct contest *contest = arg;

	contest->retired = obj_retire(contest->obj);
}

/* One thread does the one thing, and between two of its instructions another does the other. */
START_TEST(an_object_is_held_or_retired_but_not_both)
{
	void (*const first)(void *) = _i ? contest_hold : contest_retire;
	void (*const second)(void *) = _i ? contest_retire : contest_hold;
	bool both_ways[2] = { false, false };
	unsigned at = 0;

	side_open(client, "fake0");
	for (bool inside = true; inside; at++) {
		struct contest contest = { .held = false };

		contest.obj = obj_alloc(client->ia, ((struct obj *)client->ia)->table,
					DAT_HANDLE_TYPE_CNO);
		obj_publish(contest.obj);
		inside = race_step(first, &contest, at, second, &contest);
		ck_assert(!(contest.held && contest.retired));
		both_ways[contest.held] = true;
		if (contest.held)
			obj_put(contest.obj);
		ck_assert(contest.retired || obj_retire(contest.obj));
		obj_free(contest.obj);
	}
	ck_assert(both_ways[0] && both_ways[1]);
}
END_TEST

/* Which takes no lock. */
static void retire_cno(void *cno)
{
	ck_assert(obj_retire(cno));
}

START_TEST(an_evd_gets_no_cno_that_is_being_freed)
{
	CANCEL_FORBIDDEN;
	const DAT_EVD_FLAGS flags = DAT_EVD_SOFTWARE_FLAG;
	DAT_CNO_HANDLE cno;

	side_open(client, "fake0");
	made = side_create_evd(client, 1, flags);
	ck_dat(cno_create(client->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	race_call(RACE_ATTACH, cno, retire_cno, cno);
	if (_i)
		ck_dat_is(evd_create(client->ia, 1, cno, flags, &made), BAD_HANDLE(CNO));
	else
		ck_dat_is(evd_modify_cno(made, cno), BAD_HANDLE(CNO));
	ck_assert(race_happened(RACE_ATTACH));
	cno_destroy(cno);
	ck_dat(evd_free(made));
	side_close(client);
}
END_TEST

/* ---- promised slots ---- */

/* Posts that complete as flushed at once, each without memory, until one is refused. */
static unsigned flush_without_memory(void)
{
	DAT_RETURN ret;
	unsigned n;

	for (n = 0;; n++) {
		alloc_fail_nth(1);
		ret = try_recv(client, n, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		(void)alloc_failed();
		if (ret != DAT_SUCCESS)
			break;
	}
	ck_dat_is(ret, NO_RESOURCE(MEMORY));
	return n;
}

START_TEST(flushes_without_memory_leave_the_slots_of_others)
{
	DAT_COUNT room;
	unsigned flushed;

	client->one_evd = true;
	pair_connect(&pair);
	ck_dat(ep_disconnect(client->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_event(client->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	fake_wait_idle(0);
	room = qlen_of(client->recv_evd);
	flushed = flush_without_memory();
	ck_assert_uint_gt(flushed, 0);
	for (DAT_COUNT n = 0; n < room; n++)
		post_se(client->recv_evd, (uintptr_t)n);
	ck_dat_is(try_post_se(client->recv_evd, 0), QUEUE_FULL);
	for (unsigned n = 0; n < flushed; n++)
		expect_dto(client->recv_evd, n, DAT_DTO_ERR_FLUSHED);
	for (DAT_COUNT n = 0; n < room; n++)
		expect_se(client->recv_evd, (uintptr_t)n);
	expect_no_event(client->recv_evd);
}
END_TEST

/* ---- the completion queue is emptied for an endpoint that goes away ---- */

static uint64_t next_cookie;

static void dequeue_in_order(void *arg)
{
	while (evd_dequeue(arg, &event) == DAT_SUCCESS)
		ck_assert_uint_eq(cookie_in(&event), next_cookie++);
}

START_TEST(freeing_an_endpoint_keeps_the_order_of_the_others_events)
{
	DAT_EP_HANDLE ep, peer;

	connect_with_backlog(1);
	dequeue_in_order(client->recv_evd);
	ck_assert_uint_eq(next_cookie, BACKLOG);
	ep = side_create_ep(client, client->ep_attr);
	peer = side_create_ep(server, NULL);
	connect_eps(client, ep, server, peer);
	receive_on(ep, peer, BACKLOG);
	next_cookie = 0;
	post_recv(client, 0, 0, 64, DAT_COMPLETION_DEFAULT_FLAG); /* else no queue is read */
	race_call(RACE_ROOM, client->recv_evd, dequeue_in_order, client->recv_evd);
	ck_dat(ep_free(client->ep));
	ck_assert(race_happened(RACE_ROOM));
	dequeue_in_order(client->recv_evd);
	ck_assert_uint_eq(next_cookie, BACKLOG);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("race");

	tcase_add_test(cases, connection_events_are_handled_while_a_queue_is_made);
	tcase_add_test(cases, an_ia_is_in_use_while_a_queue_is_made);
	tcase_add_test(cases, an_abrupt_close_waits_for_a_queue_that_is_made);
	tcase_add_test(cases, a_cno_that_is_freed_while_a_queue_is_made_is_refused);
	tcase_add_test(cases, connections_are_made_while_a_queue_pair_is_made);
	tcase_add_test(cases, what_a_queue_pair_uses_is_held_while_it_is_made);
	tcase_add_test(cases, an_abrupt_close_waits_for_a_queue_pair_that_is_made);
	tcase_add_test(cases, connections_are_made_while_the_queue_grows_that_nobody_sees);
	tcase_add_loop_test(cases, connections_are_made_while_a_queue_is_resized, 0, 2);
	tcase_add_loop_test(cases, a_queue_that_is_resized_twice_at_once_has_the_larger_size, 0, 4);
	tcase_add_loop_test(cases, who_frees_an_evd_waits_for_its_resize, 0, 2);
	tcase_add_test(cases, an_evd_is_in_use_while_it_grows_for_an_endpoint);
	tcase_add_test(cases, an_abrupt_close_waits_for_an_evd_that_grows_for_an_endpoint);
	tcase_add_loop_test(cases, connections_are_made_while_a_shared_queue_is_resized, 0, 2);
	tcase_add_test(cases, evds_have_room_for_a_shared_queue_that_has_grown);
	tcase_add_test(cases, connections_are_made_while_an_evd_grows_for_a_shared_queue);
	tcase_add_loop_test(cases, connections_are_made_while_an_evd_grows_with_a_shared_queue, 0,
			    4);
	tcase_add_test(cases, who_frees_an_evd_waits_until_it_has_grown_with_a_shared_queue);
	tcase_add_test(cases, an_endpoint_may_go_while_its_queue_is_resized);
	tcase_add_loop_test(cases, a_shared_queue_that_is_resized_twice_at_once_has_the_larger_size,
			    0, 2);
	tcase_add_test(cases, who_frees_a_shared_queue_waits_for_its_resize);
	tcase_add_loop_test(
		cases, a_shared_queue_that_is_freed_while_a_call_waits_for_it_is_refused, 0, 2);
	tcase_add_loop_test(cases, an_abrupt_close_waits_for_a_shared_queue_that_is_resized, 0, 2);
	tcase_add_test(cases, connections_are_made_while_an_endpoint_is_reset);
	tcase_add_loop_test(cases, an_abrupt_close_waits_for_an_endpoint_that_is_freed_or_reset, 0,
			    2);
	tcase_add_test(cases, an_endpoint_that_is_reset_can_be_neither_freed_nor_reset);
	tcase_add_test(cases, an_endpoint_can_not_be_reset_once_its_ia_is_closed);
	tcase_add_test(cases,
		       an_abrupt_close_ends_the_wait_of_a_thread_for_which_another_one_waits);
	tcase_add_test(cases, an_abrupt_close_waits_for_who_frees_an_evd_that_is_resized);
	tcase_add_test(cases, an_abrupt_close_waits_for_a_free_that_begins_after_it);
	tcase_add_test(cases, a_call_whose_ia_is_closed_just_before_it_takes_the_lock_is_refused);
	tcase_add_loop_test(cases, a_handle_that_is_freed_just_before_a_call_is_refused, 0,
			    COUNT(overtaken));
	tcase_add_test(cases, a_request_that_is_being_accepted_can_not_be_rejected);
	tcase_add_test(cases, an_endpoint_that_is_freed_just_before_it_accepts_is_refused);
	tcase_add_test(cases, an_endpoint_whose_peer_is_asked_for_may_be_freed);
	tcase_add_loop_test(cases, one_thread_waits_even_while_slots_are_allocated, 0,
			    COUNT(waits));
	tcase_add_test(cases, a_queue_that_has_become_longer_meanwhile_stays_so);
	tcase_add_loop_test(cases, an_abrupt_close_finds_a_waiter_that_allocates, 0, 2);
	tcase_add_test(cases, a_resize_makes_room_before_events_may_use_it);
	tcase_add_test(cases, a_resize_makes_room_before_the_errors_of_a_borrower_may_use_it);
	tcase_add_test(cases, a_resize_is_refused_to_a_wait_that_begins_while_it_allocates);
	tcase_add_test(cases, a_weaker_request_does_not_follow_a_stronger_one);
	tcase_add_test(cases, a_waiter_looks_again_when_the_queue_is_armed);
	tcase_add_test(cases, a_wait_that_times_out_looks_again_when_the_queue_is_armed);
	tcase_add_test(cases, enabling_an_evd_looks_again_when_the_queue_is_armed);
	tcase_add_test(cases, a_change_of_mode_looks_again_when_the_queue_is_armed);
	tcase_add_test(cases, the_service_thread_looks_again_when_the_queue_is_armed);
	tcase_add_test(cases, a_waiter_that_comes_after_the_kernel_named_its_queue_sleeps_armed);
	tcase_add_loop_test(cases, a_completion_that_a_change_of_notification_takes_ends_the_wait,
			    0, 2);
	tcase_add_test(cases, the_service_thread_looks_on_when_a_waiter_has_left);
	tcase_add_test(cases, a_cno_takes_the_channel_from_a_waiter_that_has_left);
	tcase_add_test(cases, a_gate_opens_when_the_limit_of_reads_is_known);
	tcase_add_test(cases, no_event_names_an_endpoint_that_is_being_freed);
	tcase_add_test(cases, a_freed_endpoint_leaves_no_work);
	tcase_add_test(cases, a_waiter_that_is_woken_twice_can_be_woken_again);
	tcase_add_test(cases, a_waiter_leaves_an_evd_that_was_unwaitable_for_a_moment);
	tcase_add_test(cases, a_bind_that_meets_the_end_of_the_connection_is_flushed_once);
	tcase_add_loop_test(cases, a_post_that_meets_the_end_of_the_connection_is_flushed_once, 0,
			    2 * COUNT(posts));
	tcase_add_loop_test(cases, a_slot_is_filled_before_it_is_claimed, 0, COUNT(posts));
	tcase_add_loop_test(cases, a_completion_is_described_before_its_slot_is_free, 0, 3);
	if (RACE_CAN_STEP)
		tcase_add_loop_test(cases, an_object_is_held_or_retired_but_not_both, 0, 2);
	else
		case_skip(cases, an_object_is_held_or_retired_but_not_both,
			  "single steps need an x86 processor, and no thread sanitizer");
	tcase_add_loop_test(cases, an_evd_gets_no_cno_that_is_being_freed, 0, 2);
	tcase_add_test(cases, flushes_without_memory_leave_the_slots_of_others);
	tcase_add_test(cases, freeing_an_endpoint_keeps_the_order_of_the_others_events);
	return run_unit_cases(argc, argv);
}
