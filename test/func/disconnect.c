/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a connection: one event a side, every transfer completed once and in order, and then
 * as good as new.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

#define POSTED 5 /* receives on an endpoint when its connection ends */

static void receives_post(const struct side *side, const struct memory *memory)
{
	for (unsigned i = 0; i < POSTED; i++)
		recv_post(side->ep, 100 + i, seg(memory, i * 8, 8));
}

static void receives_flushed(const struct side *side)
{
	for (unsigned i = 0; i < POSTED; i++)
		dto_wait(side->recvs, side->ep, 100 + i, DAT_DTO_ERR_FLUSHED, 0);
}

/*
 * After the end: nothing more comes, not even from the service thread while the endpoint is
 * recycled.
 */
static void over(const struct side *side)
{
	ck_assert_int_eq(ep_state(side->ep), DAT_EP_STATE_DISCONNECTED);
	must(dat_ep_disconnect(side->ep, DAT_CLOSE_ABRUPT_FLAG));
	must(dat_ep_reset(side->ep));
	ck_assert_int_eq(ep_state(side->ep), DAT_EP_STATE_UNCONNECTED);
	no_event(side->connects);
	no_event(side->recvs);
	no_event(side->requests);
}

START_TEST(abrupt)
{
	struct memory near, far;
	DAT_BOOLEAN idle;
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 100, DAT_MEM_PRIV_ALL_FLAG);
	for (int round = 0; round < 5; round++) {
		const struct side *first = round % 2 ? &pair.near : &pair.far;

		receives_post(&pair.near, &near);
		receives_post(&pair.far, &far);
		must(dat_ep_get_status(pair.near.ep, NULL, &idle, NULL));
		ck_assert_int_eq(idle, DAT_FALSE);
		returns(BAD_STATE(EP_CONNECTED), dat_ep_reset(first->ep));
		must(dat_ep_disconnect(first->ep, DAT_CLOSE_ABRUPT_FLAG));
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
				      pair.near.ep);
		connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
				      pair.far.ep);
		receives_flushed(&pair.near);
		receives_flushed(&pair.far);
		over(&pair.near);
		over(&pair.far);
		pair_connect(&pair);
		say_hello(&pair);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(graceful_lets_sends_finish)
{
	const DAT_EP_ATTR attr = ep_attr(16, 16);
	const size_t size = 50000;
	struct memory near, far;
	struct pair pair;

	pair_open(&pair, &attr);
	near = memory_make(&pair.near, 16 * size, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 16 * size, DAT_MEM_PRIV_ALL_FLAG);
	pattern_fill(near.at, near.size, 1);
	for (unsigned i = 0; i < 16; i++)
		recv_post(pair.far.ep, i, seg(&far, i * size, size));
	recv_post(pair.near.ep, 99, seg(&near, 0, 1));
	for (unsigned i = 0; i < 16; i++)
		send_post(pair.near.ep, i, seg(&near, i * size, size), DAT_COMPLETION_DEFAULT_FLAG);
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_GRACEFUL_FLAG));
	for (unsigned i = 0; i < 16; i++)
		dto_wait(pair.far.recvs, pair.far.ep, i, DAT_DTO_SUCCESS, size);
	for (unsigned i = 0; i < 16; i++)
		dto_wait(pair.near.requests, pair.near.ep, i, DAT_DTO_SUCCESS, size);
	pattern_check(far.at, far.size, 1);
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.near.ep);
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.far.ep);
	dto_wait(pair.near.recvs, pair.near.ep, 99, DAT_DTO_ERR_FLUSHED, 0);
	over(&pair.near);
	over(&pair.far);
	pair_close(&pair);
}
END_TEST

/*
 * Graceful with a send that no receive waits for: new requests are refused, and an abrupt call cuts
 * it short.
 */
START_TEST(abrupt_hastens_graceful)
{
	struct memory near;
	DAT_LMR_TRIPLET one;
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	one = seg(&near, 0, 1);
	send_post(pair.near.ep, 1, one, DAT_COMPLETION_DEFAULT_FLAG);
	send_post(pair.near.ep, 2, one, DAT_COMPLETION_SUPPRESS_FLAG);
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq(ep_state(pair.near.ep), DAT_EP_STATE_DISCONNECT_PENDING);
	returns(BAD_STATE(EP_DISCPENDING), dat_ep_post_send(pair.near.ep, 1, &one, cookie(3), 0));
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_GRACEFUL_FLAG));
	no_event(pair.near.connects);
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.near.ep);
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.far.ep);
	/* what failed reports, suppressed or not */
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	dto_wait(pair.near.requests, pair.near.ep, 2, DAT_DTO_ERR_FLUSHED, 0);
	over(&pair.near);
	over(&pair.far);
	pair_close(&pair);
}
END_TEST

/*
 * A peer that takes no message: the drain of a graceful end is cut off, and the requests are
 * flushed.
 */
START_TEST(graceful_does_not_wait_for_ever)
{
	struct memory near;
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	send_post(pair.near.ep, 1, seg(&near, 0, 1), DAT_COMPLETION_DEFAULT_FLAG);
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_GRACEFUL_FLAG));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.near.ep);
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.far.ep);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	over(&pair.near);
	over(&pair.far);
	pair_close(&pair);
}
END_TEST

static pthread_barrier_t start_together;

static void *disconnect_body(void *ep)
{
	pthread_barrier_wait(&start_together);
	must(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	return NULL;
}

START_TEST(both_at_once)
{
	struct memory near, far;
	pthread_t thread;
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 100, DAT_MEM_PRIV_ALL_FLAG);
	pthread_barrier_init(&start_together, NULL, 2);
	for (int round = 0; round < 20; round++) {
		receives_post(&pair.near, &near);
		receives_post(&pair.far, &far);
		ck_assert_int_eq(pthread_create(&thread, NULL, disconnect_body, pair.far.ep), 0);
		disconnect_body(pair.near.ep);
		pthread_join(thread, NULL);
		connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
				      pair.near.ep);
		connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
				      pair.far.ep);
		receives_flushed(&pair.near);
		receives_flushed(&pair.far);
		over(&pair.near);
		over(&pair.far);
		pair_connect(&pair);
	}
	pair_close(&pair);
}
END_TEST

/* Everything is under way when the end comes: reads, writes, and sends that find no receive. */
START_TEST(everything_completes_once_and_in_order)
{
	const DAT_EP_ATTR attr = ep_attr(16, 48);
	DAT_DTO_COMPLETION_EVENT_DATA *dto;
	bool flushed = false;
	struct memory near, far;
	struct pair pair;

	pair_open(&pair, &attr);
	near = memory_make(&pair.near, 1 << 20, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 1 << 20, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < 15; i++) {
		read_post(pair.near.ep, 3 * i, seg(&near, 0, 60000), target(&far, 0, 60000), 0);
		write_post(pair.near.ep, 3 * i + 1, seg(&near, 100000, 60000),
			   target(&far, 100000, 60000), 0);
		send_post(pair.near.ep, 3 * i + 2, seg(&near, 0, 10), 0);
	}
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.near.ep);
	for (unsigned i = 0; i < 45; i++) {
		DAT_EVENT event = event_wait(pair.near.requests, DAT_DTO_COMPLETION_EVENT);

		dto = &event.event_data.dto_completion_event_data;
		ck_assert_uint_eq(dto->user_cookie.as_64, i);
		ck_assert_ptr_eq(dto->ep_handle, pair.near.ep);
		/* once one was flushed, so are all behind it */
		if (flushed || dto->status != DAT_DTO_SUCCESS)
			ck_assert_int_eq(dto->status, DAT_DTO_ERR_FLUSHED);
		flushed = dto->status == DAT_DTO_ERR_FLUSHED;
	}
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.far.ep);
	over(&pair.near);
	over(&pair.far);
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

START_TEST(posts_after_the_end_are_flushed)
{
	struct memory near;
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.near.ep);
	for (unsigned i = 0; i < 40; i++) { /* more than the endpoint could hold */
		recv_post(pair.near.ep, 3 * i, seg(&near, 0, 1));
		send_post(pair.near.ep, 3 * i + 1, seg(&near, 0, 1), DAT_COMPLETION_SUPPRESS_FLAG);
		write_post(pair.near.ep, 3 * i + 2, seg(&near, 0, 1), target(&near, 0, 1), 0);
	}
	for (unsigned i = 0; i < 40; i++) {
		dto_wait(pair.near.recvs, pair.near.ep, 3 * i, DAT_DTO_ERR_FLUSHED, 0);
		dto_wait(pair.near.requests, pair.near.ep, 3 * i + 1, DAT_DTO_ERR_FLUSHED, 0);
		dto_wait(pair.near.requests, pair.near.ep, 3 * i + 2, DAT_DTO_ERR_FLUSHED, 0);
	}
	over(&pair.near);
	pair_close(&pair);
}
END_TEST

/* One EVD for it all: the messages that came, what was flushed, and only then the end. */
START_TEST(on_one_evd_the_end_comes_last)
{
	const DAT_EVD_FLAGS all = DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG |
				  DAT_EVD_RMR_BIND_FLAG;
	struct memory near, far;
	struct pair pair;

	side_open(&pair.near, 1);
	side_open(&pair.far, 0);
	must(dat_evd_create(pair.far.ia, QLEN, DAT_HANDLE_NULL, all, &pair.far.connects));
	pair.far.recvs = pair.far.connects;
	pair.far.requests = pair.far.connects;
	pair.near.ep = ep_make(&pair.near, NULL);
	pair.far.ep = ep_make(&pair.far, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 100, DAT_MEM_PRIV_ALL_FLAG);
	receives_post(&pair.far, &far);
	pair_connect(&pair);
	send_post(pair.near.ep, 1, seg(&near, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, 8);
	must(dat_ep_disconnect(pair.near.ep, DAT_CLOSE_GRACEFUL_FLAG));
	dto_wait(pair.far.recvs, pair.far.ep, 100, DAT_DTO_SUCCESS, 8);
	for (unsigned i = 1; i < POSTED; i++)
		dto_wait(pair.far.recvs, pair.far.ep, 100 + i, DAT_DTO_ERR_FLUSHED, 0);
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.far.ep);
	over(&pair.far);
	pair_close(&pair);
}
END_TEST

/* ---- attempts ---- */

static void while_connecting(struct pair *pair, DAT_CLOSE_FLAGS how)
{
	struct memory near = memory_make(&pair->near, 100, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	psp = listen_any(&pair->far, &qual);
	receives_post(&pair->near, &near);
	must(connect_to(pair->near.ep, &pair->far, qual, DAT_TIMEOUT_INFINITE));
	ck_assert_int_eq(ep_state(pair->near.ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	cr = request_take(&pair->far);
	must(dat_ep_disconnect(pair->near.ep, how));
	connection_event_wait(pair->near.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
			      pair->near.ep);
	receives_flushed(&pair->near);
	request_accept_in_vain(&pair->far, cr);
	must(dat_psp_free(psp));
	over(&pair->near);
	over(&pair->far);
}

START_TEST(disconnect_while_connecting)
{
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	returns(BAD_STATE(EP_UNCONNECTED), dat_ep_disconnect(pair.near.ep, DAT_CLOSE_ABRUPT_FLAG));
	while_connecting(&pair, DAT_CLOSE_ABRUPT_FLAG);
	while_connecting(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_connect(&pair);
	returns(BAD_ARG(2), dat_ep_disconnect(pair.near.ep, (DAT_CLOSE_FLAGS)2));
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

/*
 * An accept may be complete before the disconnect; then ESTABLISHED comes first. In any case one
 * end comes, a side.
 */
static void one_end(const struct side *side)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	must(dat_evd_wait(side->connects, LONG, 1, &event, &nmore));
	if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
		must(dat_evd_wait(side->connects, LONG, 1, &event, &nmore));
	ck_assert_int_ne(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
}

START_TEST(disconnect_right_after_accept)
{
	DAT_CONN_QUAL qual;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.far, &qual);
	for (int round = 0; round < 10; round++) {
		must(connect_to(pair.near.ep, &pair.far, qual, LONG));
		request_accept(request_take(&pair.far), pair.far.ep);
		must(dat_ep_disconnect(pair.far.ep, DAT_CLOSE_ABRUPT_FLAG));
		one_end(&pair.far);
		one_end(&pair.near);
		over(&pair.far);
		over(&pair.near);
	}
	pair_connect(&pair);
	say_hello(&pair);
	pair_close(&pair);
}
END_TEST

/* ---- free ---- */

START_TEST(free_while_connected)
{
	struct memory near, far;
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, 100, DAT_MEM_PRIV_ALL_FLAG);
	receives_post(&pair.near, &near);
	receives_post(&pair.far, &far);
	must(dat_ep_free(pair.near.ep));
	connection_event_wait(pair.far.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.far.ep);
	receives_flushed(&pair.far);
	over(&pair.far);
	/* no event about what is gone */
	no_event(pair.near.connects);
	returns(BAD_HANDLE(_EP), dat_ep_free(pair.near.ep));
	returns(BAD_HANDLE(_EP), dat_ep_disconnect(pair.near.ep, DAT_CLOSE_ABRUPT_FLAG));
	must(dat_lmr_free(near.lmr));
	pair.near.ep = ep_make(&pair.near, NULL);
	pair_connect(&pair);
	must(dat_ep_free(pair.far.ep));
	connection_event_wait(pair.near.connects, DAT_CONNECTION_EVENT_DISCONNECTED, pair.near.ep);
	pair_close(&pair);
}
END_TEST

START_TEST(free_in_other_states)
{
	struct memory memory;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;
	struct pair pair;
	DAT_EVENT event;

	/* unconnected, with receives: they may be flushed or just vanish */
	pair_open_unconnected(&pair, NULL);
	memory = memory_make(&pair.near, 100, DAT_MEM_PRIV_ALL_FLAG);
	receives_post(&pair.near, &memory);
	must(dat_ep_free(pair.near.ep));
	must(dat_lmr_free(memory.lmr));
	while (dat_evd_dequeue(pair.near.recvs, &event) == DAT_SUCCESS)
		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
	/* connecting: the late acceptor learns of it */
	pair.near.ep = ep_make(&pair.near, NULL);
	listen_any(&pair.far, &qual);
	must(connect_to(pair.near.ep, &pair.far, qual, DAT_TIMEOUT_INFINITE));
	cr = request_take(&pair.far);
	must(dat_ep_free(pair.near.ep));
	request_accept_in_vain(&pair.far, cr);
	/* disconnected */
	must(dat_ep_free(pair.far.ep));
	/* accepting */
	pair.near.ep = ep_make(&pair.near, NULL);
	pair.far.ep = ep_make(&pair.far, NULL);
	must(connect_to(pair.near.ep, &pair.far, qual, LONG));
	request_accept(request_take(&pair.far), pair.far.ep);
	must(dat_ep_free(pair.far.ep));
	one_end(&pair.near);
	over(&pair.near);
	must(dat_ia_query(pair.near.ia, NULL, 0, NULL, 0, NULL));
	pair_close(&pair);
}
END_TEST

/* ---- a peer that never answers ---- */

#define THREADS	    entries("/proc/self/task")
#define DESCRIPTORS entries("/proc/self/fd")

/* A TCP listener that knows nothing of iWARP. */
struct mute {
	int listener, peer;
	DAT_CONN_QUAL qual;
};

static struct mute mute_open(const struct side *where)
{
	struct mute mute = { .listener = socket(AF_INET, SOCK_STREAM, 0), .peer = -1 };
	struct sockaddr_in address = where->address;
	socklen_t size = sizeof(address);

	address.sin_port = 0;
	ck_assert_int_eq(bind(mute.listener, (struct sockaddr *)&address, size), 0);
	ck_assert_int_eq(listen(mute.listener, 1), 0);
	ck_assert_int_eq(getsockname(mute.listener, (struct sockaddr *)&address, &size), 0);
	mute.qual = ntohs(address.sin_port);
	return mute;
}

/* Until it has received a request for a connection. */
static void mute_hear(struct mute *mute)
{
	char byte;

	mute->peer = accept(mute->listener, NULL, NULL);
	ck_assert_int_ge(mute->peer, 0);
	ck_assert_int_eq(recv(mute->peer, &byte, 1, 0), 1);
}

/* The other end has not given up, either. */
static void mute_still_asked(const struct mute *mute)
{
	char bytes[512];
	ssize_t got;

	do
		got = recv(mute->peer, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (got > 0);
	ck_assert_msg(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK),
		      "the call returned only after the device had given the attempt up");
}

static void mute_close(struct mute *mute)
{
	close(mute->peer);
	close(mute->listener);
}

static void by_free(struct side *side)
{
	must(dat_ep_free(side->ep));
	must(dat_evd_free(side->connects));
	must(dat_evd_free(side->recvs));
	must(dat_evd_free(side->requests));
	must(dat_pz_free(side->pz));
}

static void by_disconnect(struct side *side)
{
	must(dat_ep_disconnect(side->ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(side->connects, DAT_CONNECTION_EVENT_DISCONNECTED, side->ep);
	receives_flushed(side);
	over(side);
}

static void by_time_out(struct side *side)
{
	connection_event_wait(side->connects, DAT_CONNECTION_EVENT_TIMED_OUT, side->ep);
	receives_flushed(side);
	over(side);
}

static void by_close(struct side *side)
{
	(void)side;
}

static const struct {
	void (*give_up)(struct side *side);
	DAT_TIMEOUT timeout;
} endings[] = {
	{ by_free, DAT_TIMEOUT_INFINITE },
	{ by_disconnect, DAT_TIMEOUT_INFINITE },
	{ by_time_out, 100000 },
	{ by_close, DAT_TIMEOUT_INFINITE },
};

/*
 * The peer stays mute until the IA is closed. Once it goes, all that was left behind for its sake
 * goes, too.
 */
START_TEST(giving_up_waits_for_no_answer)
{
	struct side side, listener;
	unsigned threads, descriptors;
	struct memory memory;
	struct mute mute;

	side_open(&listener, 0); /* for its address */
	side_open(&side, 1);	 /* the libraries keep something for each device they have met */
	side_close(&side);
	threads = THREADS;
	descriptors = DESCRIPTORS;
	for (unsigned i = 0; i < COUNT(endings); i++) {
		mute = mute_open(&listener);
		side_open(&side, 1);
		side.ep = ep_make(&side, NULL);
		memory = memory_make(&side, 100, DAT_MEM_PRIV_ALL_FLAG);
		receives_post(&side, &memory);
		must(connect_to(side.ep, &listener, mute.qual, endings[i].timeout));
		mute_hear(&mute);
		must(dat_lmr_free(memory.lmr));
		endings[i].give_up(&side);
		mute_still_asked(&mute);
		side_close(&side);
		mute_still_asked(&mute);
		mute_close(&mute);
		while (THREADS != threads)
			sched_yield();
		ck_assert_uint_eq(DESCRIPTORS, descriptors);
	}
	side_close(&listener);
}
END_TEST

/* Connects to what the parent tells, and ends while the attempt has no answer. */
static void quitter(int fd)
{
	struct side side, listener;
	DAT_CONN_QUAL qual;
	char word;

	hear(fd, &qual, sizeof(qual));
	side_open(&listener, 0);
	side_open(&side, 1);
	side.ep = ep_make(&side, NULL);
	must(connect_to(side.ep, &listener, qual, DAT_TIMEOUT_INFINITE));
	hear(fd, &word, 1);
	side_close(&side);
	side_close(&listener);
	tell(fd, "q", 1);
	exit(0);
}

START_TEST(exit_after_giving_up)
{
	struct side listener;
	struct mute mute;
	pid_t pid;
	char word;
	int fd;

	pid = process_start(quitter, &fd);
	side_open(&listener, 0);
	mute = mute_open(&listener);
	tell(fd, &mute.qual, sizeof(mute.qual));
	mute_hear(&mute);
	tell(fd, "c", 1);
	hear(fd, &word, 1);
	mute_still_asked(&mute);
	mute_close(&mute);
	process_end(pid);
	side_close(&listener);
}
END_TEST

/* ---- other processes ---- */

struct offer {
	DAT_CONN_QUAL qual;
	DAT_RMR_TRIPLET memory;
};

/* Listens, is connected to, offers some memory, and then waits to be killed. */
static void victim(int fd)
{
	struct memory memory;
	struct offer offer;
	struct side side;
	char word;

	side_open(&side, 0);
	side.ep = ep_make(&side, NULL);
	memory = memory_make(&side, 4096, DAT_MEM_PRIV_ALL_FLAG);
	listen_any(&side, &offer.qual);
	offer.memory = target(&memory, 0, 4096);
	tell(fd, &offer, sizeof(offer));
	request_accept(request_take(&side), side.ep);
	connection_event_wait(side.connects, DAT_CONNECTION_EVENT_ESTABLISHED, side.ep);
	tell(fd, "c", 1);
	hear(fd, &word, 1);
	switch (word) {
	case 'x': /* with everything open */
		exit(0);
	default:
		pause();
	}
}

static pid_t victim_connect(struct side *side, int *fd)
{
	struct side listener = { 0 };
	struct offer offer;
	pid_t pid;
	char word;

	pid = process_start(victim, fd);
	hear(*fd, &offer, sizeof(offer));
	side_open(&listener, 0); /* for its address */
	side_open(side, 1);
	side->ep = ep_make(side, NULL);
	must(connect_to(side->ep, &listener, offer.qual, LONG));
	connection_event_wait(side->connects, DAT_CONNECTION_EVENT_ESTABLISHED, side->ep);
	side_close(&listener);
	hear(*fd, &word, 1);
	return pid;
}

START_TEST(peer_is_killed)
{
	struct memory memory;
	struct side side;
	pid_t pid;
	int fd;

	pid = victim_connect(&side, &fd);
	memory = memory_make(&side, 100, DAT_MEM_PRIV_ALL_FLAG);
	receives_post(&side, &memory);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ended_wait(side.connects, side.ep);
	receives_flushed(&side);
	over(&side);
	side_close(&side);
}
END_TEST

START_TEST(peer_exits_with_all_open)
{
	struct memory memory;
	struct side side;
	pid_t pid;
	int fd;

	pid = victim_connect(&side, &fd);
	memory = memory_make(&side, 100, DAT_MEM_PRIV_ALL_FLAG);
	receives_post(&side, &memory);
	tell(fd, "x", 1);
	process_end(pid);
	ended_wait(side.connects, side.ep);
	receives_flushed(&side);
	over(&side);
	side_close(&side);
}
END_TEST

/* A peer that answers nothing any more: the end here does not wait for it. */
START_TEST(peer_is_stopped)
{
	struct memory memory;
	struct side side;
	pid_t pid;
	int fd, status;

	pid = victim_connect(&side, &fd);
	memory = memory_make(&side, 100, DAT_MEM_PRIV_ALL_FLAG);
	receives_post(&side, &memory);
	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	must(dat_ep_disconnect(side.ep, DAT_CLOSE_ABRUPT_FLAG));
	connection_event_wait(side.connects, DAT_CONNECTION_EVENT_DISCONNECTED, side.ep);
	receives_flushed(&side);
	over(&side);
	side_close(&side);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

/* A child that goes its own way, by exec or _exit, takes nothing with it. */
START_TEST(child_of_a_fork_harms_nothing)
{
	struct pair pair;
	int status;
	pid_t pid;

	pair_open(&pair, NULL);
	for (int i = 0; i < 2; i++) {
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			if (i)
				execl("/bin/true", "true", (char *)NULL);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		say_hello(&pair);
	}
	no_event(pair.near.connects);
	pair_close(&pair);
}
END_TEST

/* ---- abrupt close of an IA ---- */

enum stage {
	STAGE_UNCONNECTED,
	STAGE_CONNECTING,
	STAGE_REQUESTED, /* this one is the listener, and has not answered */
	STAGE_ACCEPTED,
	STAGE_CONNECTED,
	STAGE_BUSY, /* connected, and transfers are under way */
	STAGE_GRACEFUL,
	STAGE_DISCONNECTED,
	STAGES
};

/* Brings the pair there and returns the side that is to be closed. */
static struct side *reach(enum stage stage, struct pair *pair)
{
	struct memory near = memory_make(&pair->near, 100000, DAT_MEM_PRIV_ALL_FLAG);
	struct memory far = memory_make(&pair->far, 100000, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	receives_post(&pair->near, &near);
	for (unsigned i = 0; i < 8; i++)
		recv_post(pair->far.ep, i, seg(&far, 0, 100000));
	if (stage == STAGE_UNCONNECTED)
		return &pair->near;
	listen_any(&pair->far, &qual);
	must(connect_to(pair->near.ep, &pair->far, qual, DAT_TIMEOUT_INFINITE));
	cr = request_take(&pair->far);
	if (stage == STAGE_CONNECTING)
		return &pair->near;
	if (stage == STAGE_REQUESTED)
		return &pair->far;
	request_accept(cr, pair->far.ep);
	if (stage == STAGE_ACCEPTED)
		return &pair->far;
	connection_event_wait(pair->near.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair->near.ep);
	connection_event_wait(pair->far.connects, DAT_CONNECTION_EVENT_ESTABLISHED, pair->far.ep);
	if (stage == STAGE_BUSY || stage == STAGE_GRACEFUL)
		for (unsigned i = 0; i < 8; i++)
			send_post(pair->near.ep, i, seg(&near, 0, 100000),
				  DAT_COMPLETION_DEFAULT_FLAG);
	if (stage == STAGE_GRACEFUL)
		must(dat_ep_disconnect(pair->near.ep, DAT_CLOSE_GRACEFUL_FLAG));
	if (stage == STAGE_DISCONNECTED) {
		must(dat_ep_disconnect(pair->near.ep, DAT_CLOSE_ABRUPT_FLAG));
		connection_event_wait(pair->near.connects, DAT_CONNECTION_EVENT_DISCONNECTED,
				      pair->near.ep);
	}
	return &pair->near;
}

/* What the other side hears of it. */
static void bereaved(enum stage stage, struct pair *pair)
{
	switch (stage) {
	case STAGE_REQUESTED:
		connection_event_wait(pair->near.connects, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
				      pair->near.ep);
		break;
	case STAGE_ACCEPTED:
		one_end(&pair->near);
		break;
	case STAGE_CONNECTED:
	case STAGE_BUSY:
	case STAGE_GRACEFUL:
	case STAGE_DISCONNECTED:
		ended_wait(pair->far.connects, pair->far.ep);
		break;
	default:
		break;
	}
}

static void close_under_waiters(enum stage stage)
{
	struct waiter on_evd = { 0 }, on_cno = { 0 };
	struct side *closed, *other;
	DAT_EVD_HANDLE quiet;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	closed = reach(stage, &pair);
	other = closed == &pair.near ? &pair.far : &pair.near;
	must(dat_cno_create(closed->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &on_cno.cno));
	must(dat_evd_create(closed->ia, 8, on_cno.cno, DAT_EVD_DTO_FLAG, &quiet));
	must(dat_evd_create(closed->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &on_evd.evd));
	waiter_start(&on_evd);
	waiter_start(&on_cno);
	returns(BAD_STATE(IA_IN_USE), dat_ia_close(closed->ia, DAT_CLOSE_GRACEFUL_FLAG));
	side_close(closed);
	waiter_join(&on_evd);
	waiter_join(&on_cno);
	returns(FAILS(ABORT, NO_SUBTYPE), on_evd.ret);
	must(on_cno.ret);
	ck_assert_ptr_null(on_cno.fired);
	bereaved(stage, &pair);
	/* what went down with the IA is known to be gone */
	returns(BAD_HANDLE(_EP), dat_ep_free(closed->ep));
	returns(BAD_HANDLE(1), dat_evd_free(closed->connects));
	returns(BAD_HANDLE(_PZ), dat_pz_free(closed->pz));
	returns(BAD_HANDLE(_CNO), dat_cno_free(on_cno.cno));
	returns(BAD_HANDLE(_IA), dat_ia_close(closed->ia, DAT_CLOSE_ABRUPT_FLAG));
	side_close(other);
}

START_TEST(abrupt_close_of_the_ia)
{
	for (int stage = 0; stage < STAGES; stage++)
		close_under_waiters((enum stage)stage);
}
END_TEST

START_TEST(graceful_close_of_the_ia)
{
	struct pair pair;

	pair_open(&pair, NULL);
	returns(BAD_STATE(IA_IN_USE), dat_ia_close(pair.near.ia, DAT_CLOSE_GRACEFUL_FLAG));
	returns(BAD_ARG(2), dat_ia_close(pair.near.ia, (DAT_CLOSE_FLAGS)2));
	say_hello(&pair);
	returns(BAD_STATE(PZ_IN_USE), dat_pz_free(pair.near.pz));
	returns(BAD_STATE(EVD_IN_USE), dat_evd_free(pair.near.requests));
	returns(BAD_STATE(EVD_IN_USE), dat_evd_free(pair.near.async));
	must(dat_ep_free(pair.near.ep));
	must(dat_pz_free(pair.near.pz));
	must(dat_evd_free(pair.near.arrivals));
	must(dat_evd_free(pair.near.connects));
	must(dat_evd_free(pair.near.recvs));
	must(dat_evd_free(pair.near.requests));
	must(dat_ia_close(pair.near.ia, DAT_CLOSE_GRACEFUL_FLAG));
	ended_wait(pair.far.connects, pair.far.ep);
	side_close(&pair.far);
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ abrupt, NEEDS_NOTHING },
		{ graceful_lets_sends_finish, NEEDS_NOTHING },
		{ abrupt_hastens_graceful, NEEDS_RNR },
		{ graceful_does_not_wait_for_ever, NEEDS_RNR },
		{ both_at_once, NEEDS_NOTHING },
		{ everything_completes_once_and_in_order, NEEDS_RNR },
		{ posts_after_the_end_are_flushed, NEEDS_NOTHING },
		{ on_one_evd_the_end_comes_last, NEEDS_NOTHING },
		{ disconnect_while_connecting, NEEDS_NOTHING },
		{ disconnect_right_after_accept, NEEDS_NOTHING },
		{ free_while_connected, NEEDS_NOTHING },
		{ free_in_other_states, NEEDS_NOTHING },
		{ giving_up_waits_for_no_answer, NEEDS_TCP },
		{ exit_after_giving_up, NEEDS_TCP },
		{ peer_is_killed, NEEDS_NOTHING },
		{ peer_exits_with_all_open, NEEDS_NOTHING },
		{ peer_is_stopped, NEEDS_NOTHING },
		{ child_of_a_fork_harms_nothing, NEEDS_NOTHING },
		{ abrupt_close_of_the_ia, NEEDS_NOTHING },
		{ graceful_close_of_the_ia, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
