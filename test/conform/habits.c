/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs rely on that were written for other DAT providers, where any transport can show
 * it. test/habits.md has the whole list.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conform.h"

static struct pair pair; /* of the case that runs in this process */

/* ---- Open MPI ---- */

/*
 * It ends by freeing EVDs and zone and closing the IA gracefully while endpoints and regions live,
 * and frees the regions afterwards.
 */
START_TEST(frees_in_the_wrong_order_are_refused_and_harmless)
{
	pair_open(&pair, NULL);
	for (int round = 0; round < 2; round++) {
		ck_dat_is(dat_evd_free(pair.client.recv_evd), BAD_STATE(EVD_IN_USE));
		ck_dat_is(dat_evd_free(pair.client.request_evd), BAD_STATE(EVD_IN_USE));
		ck_dat_is(dat_evd_free(pair.client.connect_evd), BAD_STATE(EVD_IN_USE));
		ck_dat_is(dat_pz_free(pair.client.pz), BAD_STATE(PZ_IN_USE));
		ck_dat_is(dat_ia_close(pair.client.ia, DAT_CLOSE_GRACEFUL_FLAG),
			  BAD_STATE(IA_IN_USE));
		exchange_messages(&pair);
	}
	ck_dat(dat_lmr_free(pair.client.lmr));
	pair_close_abrupt(&pair);
}
END_TEST

/* It reads the endpoint of a connection event as that of a completion, and the other way round. */
START_TEST(an_event_names_its_endpoint_in_either_data)
{
	DAT_CONN_QUAL qual;
	DAT_EVENT event;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, 64));
	connect_and_accept(&pair, qual);
	event = expect_connection(&pair.client, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.dto_completion_event_data.ep_handle, pair.client.ep);
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_ESTABLISHED);
	post_send(pair.client.ep, 2, segment(&pair.client, 0, 64), DAT_COMPLETION_DEFAULT_FLAG);
	event = expect_event(pair.server.recv_evd, DAT_DTO_COMPLETION_EVENT);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, pair.server.ep);
	pair_close_abrupt(&pair);
}
END_TEST

#define CONNECTIONS 8U

/* Endpoint i of one side talks to endpoint i of the other. */
static void expect_partners(DAT_EP_HANDLE client_eps[], DAT_EP_HANDLE server_eps[])
{
	for (unsigned i = 0; i < CONNECTIONS; i++)
		post_recv(server_eps[i], i, segment(&pair.server, 64 * (size_t)i, 64));
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		post_send(client_eps[i], 100 + i, segment(&pair.client, 0, 64),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(pair.client.request_evd, client_eps[i], 100 + i, DAT_DTO_SUCCESS, 64);
		expect_dto(pair.server.recv_evd, server_eps[i], i, DAT_DTO_SUCCESS, 64);
	}
}

/* It gives the endpoints of a peer their roles by the order in which they were connected. */
START_TEST(connections_made_in_sequence_keep_it)
{
	DAT_EP_HANDLE client_eps[CONNECTIONS], server_eps[CONNECTIONS];
	DAT_CONN_QUAL qual;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		client_eps[i] = side_create_ep(&pair.client, NULL);
		server_eps[i] = side_create_ep(&pair.server, NULL);
		ck_dat(try_connect(client_eps[i], &pair.server, qual, TIME_LIMIT));
		ck_dat(dat_cr_accept(expect_cr(&pair.server), server_eps[i], 0, NULL));
		expect_connection_of(&pair.client, client_eps[i], DAT_CONNECTION_EVENT_ESTABLISHED);
	}
	for (unsigned i = 0; i < CONNECTIONS; i++)
		expect_connection_of(&pair.server, server_eps[i], DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_partners(client_eps, server_eps);
	pair_close_abrupt(&pair);
}
END_TEST

/* It looks at the private data of an event when other events have been taken, too. */
START_TEST(private_data_stays_as_long_as_its_endpoint)
{
	static const char request[24] = "the connector's", reply[24] = "the acceptor's";
	DAT_CONNECTION_EVENT_DATA active;
	DAT_CR_PARAM param;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	ck_dat(dat_ep_connect(pair.client.ep, (DAT_IA_ADDRESS_PTR)&pair.server.address, qual,
			      TIME_LIMIT, sizeof(request), (DAT_PVOID)request, DAT_QOS_BEST_EFFORT,
			      DAT_CONNECT_DEFAULT_FLAG));
	cr = expect_cr(&pair.server);
	ck_dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_int_ge(param.private_data_size, (DAT_COUNT)sizeof(request));
	ck_assert_mem_eq(param.private_data, request, sizeof(request));
	ck_dat(dat_cr_accept(cr, pair.server.ep, sizeof(reply), (DAT_PVOID)reply));
	active = expect_connection(&pair.client, DAT_CONNECTION_EVENT_ESTABLISHED)
			 .event_data.connect_event_data;
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_ESTABLISHED);
	exchange_messages(&pair);
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	ck_assert_int_ge(active.private_data_size, (DAT_COUNT)sizeof(reply));
	ck_assert_mem_eq(active.private_data, reply, sizeof(reply));
	pair_close_abrupt(&pair);
}
END_TEST

/* It resizes to what the job needs, after a look at the limit. */
START_TEST(a_queue_can_be_resized_to_the_limit_but_not_beyond)
{
	DAT_EVD_PARAM param;
	DAT_COUNT limit;

	side_open_bare(&pair.client, CLIENT);
	limit = pair.client.attr.max_evd_qlen;
	if (limit > 100000)
		limit = 100000; /* memory */
	else
		ck_dat_is(dat_evd_resize(pair.client.recv_evd, limit + 1), BAD_ARG(2));
	ck_dat(dat_evd_resize(pair.client.recv_evd, limit));
	ck_dat(dat_evd_query(pair.client.recv_evd, DAT_EVD_FIELD_EVD_QLEN, &param));
	ck_assert_int_ge(param.evd_qlen, limit);
	side_close_abrupt(&pair.client);
}
END_TEST

/* Sanitizers make system calls of their own. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CAN_COUNT_CALLS false
#else
#define CAN_COUNT_CALLS true
#endif

static atomic_uint calls;

static void count_call(int signal)
{
	(void)signal;
	atomic_fetch_add(&calls, 1);
}

/*
 * From here on system calls of this thread are not made but counted, except those of a signal's
 * handler, of a mutex, which the fake transport has, and of the thread's exit.
 */
static bool divert_system_calls(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	const struct sock_fprog filter = { .len = COUNT(steps), .filter = steps };

	signal(SIGSYS, count_call);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void *dequeue_in_a_loop(void *evd)
{
	DAT_EVENT event;

	(void)dat_evd_dequeue(evd, &event); /* the queue is in use from here on */
	if (!divert_system_calls())
		return "no seccomp here";
	atomic_store(&calls, 0);
	for (int i = 0; i < 1000; i++)
		if (dat_evd_dequeue(evd, &event) != DAT_QUEUE_EMPTY)
			atomic_fetch_add(&calls, 1);
	syscall(SYS_exit, 0); /* a return would free the thread's stack */
	return NULL;
}

/*
 * It polls in its innermost loop. A thread that is not run for a second finds the queue at rest,
 * and tells the service thread that it is in use again: so one attempt of many must do without.
 */
START_TEST(an_empty_dequeue_makes_no_system_call)
{
	unsigned attempts = 0;

	pair_open(&pair, NULL);
	do
		if (!CAN_COUNT_CALLS || consumer_thread_join(consumer_thread_start(
						dequeue_in_a_loop, pair.client.recv_evd)))
			break;
	while (calls && ++attempts < 20);
	ck_assert_uint_eq(calls, 0);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- MVAPICH2 ---- */

static void *wait_for_ever(void *evd)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	for (;;) /* a failed wait is repeated */
		(void)dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore);
	return NULL;
}

static void exit_with_a_connection_thread(int fd)
{
	struct side side;

	(void)fd;
	side_open(&side, CLIENT);
	(void)consumer_thread_start(wait_for_ever, side.connect_evd);
	(void)consumer_thread_start(wait_for_ever, side.recv_evd);
	exit(0);
}

/* The job ends by exit. The threads may be inside of the wait, or not there yet. */
START_TEST(exit_ends_a_connection_thread_that_waits)
{
	int fd;

	for (unsigned i = 0; i < 5; i++)
		process_end(process_start(exit_with_a_connection_thread, &fd));
}
END_TEST

/* ---- ParaStation pscom ---- */

#define CACHED 64U

/* It frees the regions of its cache after the IA has been closed abruptly. */
START_TEST(handles_of_a_closed_ia_are_refused)
{
	static struct region cache[CACHED];
	struct side *side = &pair.client;

	side_open(side, CLIENT);
	for (unsigned i = 0; i < CACHED; i++)
		cache[i] = region_map(side, 4096, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(dat_ia_close(side->ia, DAT_CLOSE_ABRUPT_FLAG));
	for (unsigned i = 0; i < CACHED; i++)
		ck_dat_is(dat_lmr_free(cache[i].lmr), BAD_HANDLE(LMR));
	ck_dat_is(dat_ep_free(side->ep), BAD_HANDLE(EP));
	ck_dat_is(dat_ep_disconnect(side->ep, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(EP));
	ck_dat_is(dat_pz_free(side->pz), BAD_HANDLE(PZ));
	ck_assert_uint_eq(DAT_GET_TYPE(dat_evd_free(side->recv_evd)), DAT_INVALID_HANDLE);
	ck_dat_is(dat_ia_close(side->ia, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
}
END_TEST

/* ---- NetPIPE ---- */

/* The two processes start at the same time: the client may be the first. */
START_TEST(a_client_tries_until_the_server_listens)
{
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;

	pair_open_unconnected(&pair, NULL);
	qual = free_qual(&pair.server);
	for (int i = 0; i < 3; i++) {
		ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
		expect_connection(&pair.client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_dat(dat_ep_reset(pair.client.ep));
	}
	ck_dat(dat_psp_create(pair.server.ia, qual, pair.server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	connect_and_accept(&pair, qual);
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- complaints about older dapl ---- */

/* Events of one kind never came by dat_evd_dequeue, only by dat_evd_wait. */
START_TEST(every_kind_of_event_can_be_polled)
{
	struct side *server = &pair.server, *client = &pair.client;
	DAT_EVD_HANDLE evd, cr;
	DAT_CONN_QUAL qual;
	DAT_EVENT event;

	side_open_bare(server, SERVER);
	side_open_bare(client, CLIENT);
	evd = side_create_evd(server, 64, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);
	ck_dat(dat_evd_free(server->cr_evd));
	ck_dat(dat_evd_free(server->connect_evd));
	server->cr_evd = server->connect_evd = evd;
	side_equip(server, NULL, SIDE_MEMORY);
	side_equip(client, NULL, SIDE_MEMORY);
	listen_any(server, &qual);
	ck_dat(try_connect(client->ep, server, qual, TIME_LIMIT));
	while (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
		sched_yield();
	ck_assert_int_eq(event.event_number, DAT_CONNECTION_REQUEST_EVENT);
	cr = event.event_data.cr_arrival_event_data.cr_handle;
	ck_dat(dat_cr_accept(cr, server->ep, 0, NULL));
	while (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
		sched_yield();
	ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
	while (dat_evd_dequeue(client->connect_evd, &event) != DAT_SUCCESS)
		sched_yield();
	ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
	pair_close_abrupt(&pair);
}
END_TEST

/* A second thread is refused, and neither it nor the CNO takes the event of the first. */
START_TEST(an_evd_with_a_cno_has_one_waiter)
{
	struct waiter waiter = { 0 };
	DAT_EVD_HANDLE triggered;
	DAT_CNO_HANDLE cno;
	DAT_EVENT event;
	DAT_COUNT nmore;

	side_open_bare(&pair.client, CLIENT);
	ck_dat(dat_cno_create(pair.client.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_create(pair.client.ia, 16, cno, DAT_EVD_SOFTWARE_FLAG, &waiter.evd));
	waiter_start(&waiter);
	for (int i = 0; i < 3; i++)
		ck_dat_is(dat_evd_wait(waiter.evd, 1000, 1, &event, &nmore),
			  DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER));
	memset(&event, 0, sizeof(event));
	event.event_number = DAT_SOFTWARE_EVENT;
	event.event_data.software_event_data.pointer = &waiter;
	ck_dat(dat_evd_post_se(waiter.evd, &event));
	ck_dat(waiter_join(&waiter));
	ck_assert_ptr_eq(waiter.event.event_data.software_event_data.pointer, &waiter);
	ck_assert_uint_ne(dat_cno_wait(cno, 0, &triggered), DAT_SUCCESS);
	ck_dat(dat_evd_free(waiter.evd));
	ck_dat(dat_cno_free(cno));
	side_close_abrupt(&pair.client);
}
END_TEST

/* Some may stay in the queue: they are whole, and their endpoint is refused. */
START_TEST(completions_that_outlive_their_endpoint_are_harmless)
{
	DAT_EP_HANDLE freed;
	uint64_t cookie = 1;
	DAT_EVENT event;

	pair_open(&pair, NULL);
	for (unsigned i = 0; i < 8; i++)
		post_recv(pair.server.ep, i, segment(&pair.server, 0, 64));
	for (unsigned i = 0; i < 8; i++)
		post_send(pair.client.ep, i, segment(&pair.client, 0, 64),
			  DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(&pair.server, 0, 64);
	freed = pair.server.ep;
	ck_dat(dat_ep_free(freed));
	ck_dat(dat_lmr_free(pair.server.lmr));
	while (dat_evd_dequeue(pair.server.recv_evd, &event) == DAT_SUCCESS) {
		ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64,
				  cookie++);
	}
	ck_dat_is(dat_ep_free(freed), BAD_HANDLE(EP));
	ck_dat_is(dat_ep_reset(freed), BAD_HANDLE(EP));
	ck_dat(dat_evd_free(pair.server.recv_evd));
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- Intel MPI ---- */

/* It opens an IA for each of up to three uses, and moves data over all of them. */
START_TEST(several_ias_of_a_process_move_data_at_once)
{
	static struct pair pairs[3];

	for (unsigned i = 0; i < COUNT(pairs); i++)
		pair_open(&pairs[i], NULL);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < COUNT(pairs); i++) {
			pattern_fill(pairs[i].client.memory, 4096, round + i);
			post_recv(pairs[i].server.ep, round, segment(&pairs[i].server, 0, 4096));
			post_send(pairs[i].client.ep, round, segment(&pairs[i].client, 0, 4096),
				  DAT_COMPLETION_DEFAULT_FLAG);
		}
		for (unsigned i = 0; i < COUNT(pairs); i++) {
			expect_recv_done(&pairs[i].server, round, 4096);
			expect_request_done(&pairs[i].client, round, 4096);
			pattern_check(pairs[i].server.memory, 4096, round + i);
		}
	}
	side_close_abrupt(&pairs[0].client);
	expect_connection(&pairs[0].server, DAT_CONNECTION_EVENT_DISCONNECTED);
	exchange_messages(&pairs[1]);
	exchange_messages(&pairs[2]);
	side_close_abrupt(&pairs[0].server);
	pair_close_abrupt(&pairs[1]);
	pair_close_abrupt(&pairs[2]);
}
END_TEST

/* ---- HTX ---- */

#define SLICES_MESSAGES 100

static void *send_all(void *arg)
{
	(void)arg;
	for (uint64_t n = 0; n < SLICES_MESSAGES; n++) {
		post_send(pair.client.ep, n, segment(&pair.client, 0, 8),
			  DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, n, 8);
	}
	return NULL;
}

/* It waits in slices; after one that was in vain it looks into the queue, too. */
START_TEST(a_wait_in_slices_loses_no_event)
{
	DAT_EP_ATTR attr = ep_attr_for(SLICES_MESSAGES, 16);
	pthread_t sender;
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret;

	pair_open(&pair, &attr);
	post_recvs(&pair.server, 0, SLICES_MESSAGES);
	sender = consumer_thread_start(send_all, NULL);
	for (uint64_t n = 0; n < SLICES_MESSAGES; n++) {
		do {
			ret = dat_evd_wait(pair.server.recv_evd, 1 + 50 * (n % 8), 1, &event,
					   &nmore);
			if (DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED)
				ret = dat_evd_dequeue(pair.server.recv_evd, &event);
		} while (DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY);
		ck_dat(ret);
		ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, n);
	}
	consumer_thread_join(sender);
	expect_no_event(pair.server.recv_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* Its qualifiers are ports in the order of the network's bytes. */
START_TEST(any_qualifier_of_16_bits_has_its_listener)
{
	static const DAT_CONN_QUAL quals[] = { 0x00ff, 0x0401, 0x3905, 0x7fff,
					       0x8000, 0xb0c0, 0xff00, 0xffff };
	unsigned served = 0;
	DAT_PSP_HANDLE psp;
	DAT_RETURN ret;

	pair_open_unconnected(&pair, NULL);
	for (size_t i = 0; i < COUNT(quals); i++) {
		ret = dat_psp_create(pair.server.ia, quals[i], pair.server.cr_evd,
				     DAT_PSP_CONSUMER_FLAG, &psp);
		if (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE)
			continue; /* the system has given the port to someone else */
		if (ret != DAT_SUCCESS && quals[i] < 1024 && geteuid() != 0)
			continue; /* a port of the network that only root may have */
		ck_dat(ret);
		connect_and_accept(&pair, quals[i]);
		expect_established(&pair);
		pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
		pair_reset(&pair);
		ck_dat(dat_psp_free(psp));
		served++;
	}
	ck_assert_uint_ge(served, COUNT(quals) / 2);
	pair_close(&pair);
}
END_TEST

/* ---- Photon ---- */

#define LINKS 6

/* One side has one EVD for requests and connections, and one for all transfers. */
struct peer {
	struct side side;
	DAT_EVD_HANDLE cm_evd;
	DAT_EP_HANDLE active[LINKS], passive[LINKS];
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
};

static DAT_EP_HANDLE peer_ep(const struct peer *peer)
{
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(peer->side.ia, peer->side.pz, peer->side.recv_evd, peer->side.recv_evd,
			     peer->cm_evd, NULL, &ep));
	return ep;
}

static void peer_open(struct peer *peer, enum end end)
{
	side_open_bare(&peer->side, end);
	peer->cm_evd = side_create_evd(&peer->side, 4 * LINKS,
				       DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);
	for (unsigned i = 0; i < LINKS; i++) {
		peer->active[i] = peer_ep(peer);
		peer->passive[i] = peer_ep(peer);
	}
	ck_dat(dat_psp_create_any(peer->side.ia, &peer->qual, peer->cm_evd, DAT_PSP_CONSUMER_FLAG,
				  &peer->psp));
}

static DAT_EVENT peer_event(const struct peer *peer)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat(dat_evd_wait(peer->cm_evd, TIME_LIMIT, 1, &event, &nmore));
	return event;
}

/* Accepts a request or notes an established connection, whichever comes, until all have come. */
static void peer_serve(const struct peer *peer)
{
	unsigned accepted = 0, established = 0;

	while (accepted < LINKS || established < 2 * LINKS) {
		const DAT_EVENT event = peer_event(peer);

		if (event.event_number == DAT_CONNECTION_REQUEST_EVENT) {
			ck_assert_uint_eq(event.event_data.cr_arrival_event_data.conn_qual,
					  peer->qual);
			ck_dat(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle,
					     peer->passive[accepted++], 0, NULL));
		} else {
			ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
			established++;
		}
	}
}

static void *peer_serve_main(void *arg)
{
	peer_serve(arg);
	return NULL;
}

static bool is_disconnected(DAT_EP_HANDLE ep)
{
	DAT_BOOLEAN recv_idle, request_idle;
	DAT_EP_STATE state;

	ck_dat(dat_ep_get_status(ep, &state, &recv_idle, &request_idle));
	return state == DAT_EP_STATE_DISCONNECTED;
}

/* Disconnects all, and waits for as many events: each of another endpoint. */
static void peer_leave(const struct peer *peer)
{
	DAT_EP_HANDLE seen[2 * LINKS];

	for (unsigned i = 0; i < LINKS; i++) {
		ck_dat(dat_ep_disconnect(peer->active[i], DAT_CLOSE_ABRUPT_FLAG));
		ck_dat(dat_ep_disconnect(peer->passive[i], DAT_CLOSE_ABRUPT_FLAG));
	}
	for (unsigned i = 0; i < COUNT(seen); i++) {
		const DAT_EVENT event = peer_event(peer);

		ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
		seen[i] = event.event_data.connect_event_data.ep_handle;
		for (unsigned k = 0; k < i; k++)
			ck_assert_ptr_ne(seen[k], seen[i]);
		ck_assert(is_disconnected(seen[i]));
	}
	expect_no_event(peer->cm_evd);
}

/* It leaves zone and regions: a graceful close is refused, which it only reports. */
static void peer_close(struct peer *peer)
{
	for (unsigned i = 0; i < LINKS; i++) {
		ck_dat(dat_ep_free(peer->active[i]));
		ck_dat(dat_ep_free(peer->passive[i]));
	}
	ck_dat(dat_psp_free(peer->psp));
	expect_no_event(peer->cm_evd);
	ck_dat(dat_evd_free(peer->cm_evd));
	ck_dat_is(dat_ia_close(peer->side.ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	side_close_abrupt(&peer->side);
}

START_TEST(an_abrupt_disconnect_of_all_is_told_once_for_each)
{
	static struct peer one, two;
	pthread_t server;

	peer_open(&one, CLIENT);
	peer_open(&two, SERVER);
	for (unsigned i = 0; i < LINKS; i++) {
		ck_dat(try_connect(one.active[i], &two.side, two.qual, TIME_LIMIT));
		ck_dat(try_connect(two.active[i], &one.side, one.qual, TIME_LIMIT));
	}
	server = consumer_thread_start(peer_serve_main, &two);
	peer_serve(&one);
	consumer_thread_join(server);
	peer_leave(&one);
	peer_leave(&two);
	peer_close(&one);
	peer_close(&two);
}
END_TEST

void add_habit_cases(TCase *cases)
{
	const struct device_case habits[] = {
		{ frees_in_the_wrong_order_are_refused_and_harmless, NEEDS_NOTHING },
		{ an_event_names_its_endpoint_in_either_data, NEEDS_NOTHING },
		{ connections_made_in_sequence_keep_it, NEEDS_NOTHING },
		{ private_data_stays_as_long_as_its_endpoint, NEEDS_NOTHING },
		{ a_queue_can_be_resized_to_the_limit_but_not_beyond, NEEDS_RESIZE },
		{ an_empty_dequeue_makes_no_system_call, NEEDS_QUIET_POLL },
		{ exit_ends_a_connection_thread_that_waits, NEEDS_NOTHING },
		{ handles_of_a_closed_ia_are_refused, NEEDS_NOTHING },
		{ a_client_tries_until_the_server_listens, NEEDS_NOTHING },
		{ every_kind_of_event_can_be_polled, NEEDS_NOTHING },
		{ an_evd_with_a_cno_has_one_waiter, NEEDS_NOTHING },
		{ completions_that_outlive_their_endpoint_are_harmless, NEEDS_NOTHING },
		{ several_ias_of_a_process_move_data_at_once, NEEDS_NOTHING },
		{ a_wait_in_slices_loses_no_event, NEEDS_NOTHING },
		{ any_qualifier_of_16_bits_has_its_listener, NEEDS_NOTHING },
		{ an_abrupt_disconnect_of_all_is_told_once_for_each, NEEDS_NOTHING },
	};

	add_device_cases(cases, habits, COUNT(habits));
}
