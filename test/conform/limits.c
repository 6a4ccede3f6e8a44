/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits: what dat_ia_query says can be had, many endpoints have one EVD, and a queue grows while
 * completions are taken from it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "conform.h"

/* ---- maxima ---- */

static struct side side;

START_TEST(an_evd_can_have_the_length_that_is_told)
{
	DAT_EVD_HANDLE evd;

	side_open_bare(&side, SERVER);
	ck_dat(dat_evd_create(side.ia, side.attr.max_evd_qlen, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
			      &evd));
	ck_dat(dat_evd_free(evd));
	ck_dat_is(dat_evd_create(side.ia, side.attr.max_evd_qlen + 1, DAT_HANDLE_NULL,
				 DAT_EVD_DTO_FLAG, &evd),
		  NO_RESOURCE(TEVD));
	side_close_abrupt(&side);
}
END_TEST

/* Of one segment each: devices count larger ones as several. */
START_TEST(an_endpoint_can_have_the_transfers_that_are_told)
{
	DAT_EVD_HANDLE recv_evd, request_evd;
	DAT_EP_ATTR attr;
	DAT_EP_HANDLE ep;
	DAT_COUNT max;

	side_open(&side, SERVER);
	max = side.attr.max_dto_per_ep;
	printf("# %d transfers each way\n", max);
	attr = ep_attr_for(max, max);
	attr.max_recv_iov = attr.max_request_iov = 1;
	attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
	recv_evd = side_create_evd(&side, max, DAT_EVD_DTO_FLAG);
	request_evd = side_create_evd(&side, max, DAT_EVD_DTO_FLAG);
	ck_dat(dat_ep_create(side.ia, side.pz, recv_evd, request_evd, side.connect_evd, &attr,
			     &ep));
	for (DAT_COUNT n = 0; n < max; n++)
		post_recv(ep, (uint64_t)n, segment(&side, 0, 8));
	{
		DAT_LMR_TRIPLET one_more = segment(&side, 0, 8);

		ck_dat_is(dat_ep_post_recv(ep, 1, &one_more, cookie_of(0), 0), NO_RESOURCE(MEMORY));
	}
	ck_dat(dat_ep_free(ep));
	attr.max_recv_dtos++;
	ck_dat_is(dat_ep_create(side.ia, side.pz, recv_evd, request_evd, side.connect_evd, &attr,
				&ep),
		  BAD_ARG(6));
	side_close_abrupt(&side);
}
END_TEST

/* ---- many endpoints ---- */

#define ENDPOINTS     2000
#define DEFAULT_DEPTH 36   /* completions of an endpoint with the default attributes */
#define FIXED_DEPTH   4096 /* entries at least of a queue that can't be resized */

static DAT_EP_HANDLE eps[ENDPOINTS];

static DAT_RETURN try_ep(DAT_EVD_HANDLE evd, DAT_EP_HANDLE *ep)
{
	return dat_ep_create(side.ia, side.pz, evd, evd, side.connect_evd, NULL, ep);
}

/*
 * A long queue is made at once, or a short one grows, as far as the device goes. What cannot be had
 * is refused, and the rest works.
 */
START_TEST(one_evd_serves_many_endpoints)
{
	DAT_EVD_HANDLE evd;
	DAT_RETURN ret = DAT_SUCCESS;
	unsigned n, depth;

	side_open_bare(&side, SERVER);
	depth = (unsigned)side.attr.max_evd_qlen;
	evd = side_create_evd(&side, _i ? side.attr.max_evd_qlen : 1, DAT_EVD_DTO_FLAG);
	if (!_i && !device_has(NEEDS_RESIZE) && depth > FIXED_DEPTH)
		depth = FIXED_DEPTH;
	for (n = 0; n < ENDPOINTS; n++) {
		ret = try_ep(evd, &eps[n]);
		if (ret != DAT_SUCCESS)
			break;
	}
	printf("# %u endpoints on one EVD, then %s\n", n, status_text(ret));
	if (ret == NO_RESOURCE(TEVD))
		ck_assert_uint_ge((n + 2) * DEFAULT_DEPTH, depth);
	else if (ret != DAT_SUCCESS)
		ck_dat_is(ret, NO_RESOURCE(TEP));
	ck_assert_uint_ge(n, device()->max_eps < ENDPOINTS ? device()->max_eps : ENDPOINTS);
	if (!device_has(NEEDS_RDMA_DEVICE)) /* which has limits */
		ck_assert_uint_eq(n, ENDPOINTS);
	ck_dat(dat_ep_free(eps[0]));
	ck_dat(try_ep(evd, &eps[0]));
	side_close_abrupt(&side);
}
END_TEST

/* ---- growth under load ---- */

#define RECVS	32
#define RESIZES 40

static struct pair pair;
static atomic_uint sent, taken;
static atomic_bool enough, all_sent;

static void *send_until_enough(void *unused)
{
	const struct side *client = &pair.client;
	DAT_EVENT event;

	(void)unused;
	for (uint64_t n = 0; !enough; n++) {
		while (n - taken >= RECVS / 2)
			sched_yield();
		post_send(client->ep, n, segment(client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
		while (dat_evd_dequeue(client->request_evd, &event) != DAT_SUCCESS)
			sched_yield();
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
		sent++;
	}
	return NULL;
}

static void *take_all(void *unused)
{
	const struct side *server = &pair.server;
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	(void)unused;
	while (!all_sent || taken < sent) {
		if (dat_evd_dequeue(server->recv_evd, &event) != DAT_SUCCESS) {
			sched_yield();
			continue;
		}
		dto = &event.event_data.dto_completion_event_data;
		ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
		ck_assert_uint_eq(dto->user_cookie.as_64, taken);
		post_recv(server->ep, taken + RECVS, segment(server, 0, 8));
		taken++;
	}
	return NULL;
}

/* Between any two changes of the queues some completions are taken. */
START_TEST(a_queue_grows_while_completions_are_taken)
{
	const DAT_EP_ATTR attr = ep_attr_for(2 * RECVS, 2 * RECVS);
	DAT_COUNT qlen = SIDE_QLEN;
	pthread_t sender, taker;
	unsigned before;

	pair_open(&pair, &attr);
	post_recvs(&pair.server, 0, RECVS);
	sender = consumer_thread_start(send_until_enough, NULL);
	taker = consumer_thread_start(take_all, NULL);
	for (int n = 0; n < RESIZES; n++) {
		before = taken;
		while (taken < before + 3)
			sched_yield();
		qlen += 100;
		ck_dat(dat_evd_resize(pair.server.recv_evd, qlen));
		ck_dat(dat_evd_resize(pair.client.request_evd, qlen));
	}
	enough = true;
	consumer_thread_join(sender);
	all_sent = true;
	consumer_thread_join(taker);
	ck_assert_uint_eq(taken, sent);
	expect_no_event(pair.server.recv_evd);
	expect_no_event(pair.client.request_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * More than the kernel lets a descriptor wake by way of nested epoll sets: 500, and 100 where the
 * EVDs have a CNO.
 */
START_TEST(an_ia_can_have_many_evds)
{
	DAT_COUNT n = 600, with_cno = 150;
	struct rlimit limit;
	DAT_CNO_HANDLE cno;

	descriptors_allow_all();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	side_open_bare(&side, SERVER);
	ck_dat(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	if (n > side.attr.max_evds / 2)
		n = side.attr.max_evds / 2;
	if ((rlim_t)n > limit.rlim_max / 8)
		n = (DAT_COUNT)(limit.rlim_max / 8);
	if (with_cno > n)
		with_cno = n;
	printf("# %d EVDs, and %d with a CNO\n", n, with_cno);
	for (DAT_COUNT i = 0; i < n; i++)
		(void)side_create_evd(&side, 8, DAT_EVD_DTO_FLAG);
	for (DAT_COUNT i = 0; i < with_cno; i++) {
		DAT_EVD_HANDLE evd;

		ck_dat(dat_evd_create(side.ia, 8, cno, DAT_EVD_DTO_FLAG, &evd));
	}
	side_close_abrupt(&side);
}
END_TEST

void add_limit_cases(TCase *tcase)
{
	const struct device_case cases[] = {
		{ an_evd_can_have_the_length_that_is_told, NEEDS_NOTHING },
		{ an_endpoint_can_have_the_transfers_that_are_told, NEEDS_NOTHING },
		{ a_queue_grows_while_completions_are_taken, NEEDS_RESIZE },
		{ an_ia_can_have_many_evds, NEEDS_NOTHING },
	};

	add_device_cases(tcase, cases, COUNT(cases));
	tcase_add_loop_test(tcase, one_evd_serves_many_endpoints, 0, 2);
}
