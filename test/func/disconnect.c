/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a connection: each side has one end event, every transfer completes once and in order,
 * and the endpoints can be reset and connected again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../consumer/consumer.h"

#define POSTED 5 /* receives when a connection ends, with cookies from 100 on */

/* After the end no event follows, not even from the service thread while the endpoint is reset. */
static void reset_quietly(const struct side *side)
{
	ck_assert_int_eq(ep_get_state(side->ep), DAT_EP_STATE_DISCONNECTED);
	ck_dat(dat_ep_disconnect(side->ep, DAT_CLOSE_ABRUPT_FLAG));
	ck_dat(dat_ep_reset(side->ep));
	ck_assert_int_eq(ep_get_state(side->ep), DAT_EP_STATE_UNCONNECTED);
	expect_no_event(side->connect_evd);
	expect_no_event(side->recv_evd);
	expect_no_event(side->request_evd);
}

static void reset_both_quietly(const struct pair *pair)
{
	reset_quietly(&pair->client);
	reset_quietly(&pair->server);
}

START_TEST(abrupt_disconnect_flushes_receives)
{
	DAT_BOOLEAN idle;
	struct pair pair;

	pair_open(&pair, NULL);
	for (int round = 0; round < 5; round++) {
		const struct side *first = round % 2 ? &pair.client : &pair.server;

		post_recvs(&pair.client, 100, POSTED);
		post_recvs(&pair.server, 100, POSTED);
		ck_dat(dat_ep_get_status(pair.client.ep, NULL, &idle, NULL));
		ck_assert_int_eq(idle, DAT_FALSE);
		ck_dat_is(dat_ep_reset(first->ep), BAD_STATE(EP_CONNECTED));
		ck_dat(dat_ep_disconnect(first->ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_disconnected(&pair);
		expect_flushed_recvs(&pair.client, 100, POSTED);
		expect_flushed_recvs(&pair.server, 100, POSTED);
		reset_both_quietly(&pair);
		pair_connect(&pair);
		exchange_messages(&pair);
	}
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(a_message_without_receive_hides_no_disconnect)
{
	static const size_t lengths[] = { 0, 8, 40000 };
	struct pair pair;

	pair_open(&pair, NULL);
	for (size_t i = 0; i < COUNT(lengths); i++) {
		post_send(pair.client.ep, i, segment(&pair.client, 0, lengths[i]),
			  DAT_COMPLETION_DEFAULT_FLAG);
		ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_disconnected(&pair);
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
		reset_both_quietly(&pair);
		pair_connect(&pair);
	}
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(graceful_disconnect_completes_sends)
{
	const DAT_EP_ATTR attr = ep_attr_for(16, 16);
	const size_t size = 50000;
	struct pair pair;

	pair_open_sized(&pair, &attr, 16 * size);
	pattern_fill(pair.client.memory, pair.client.size, 1);
	for (unsigned i = 0; i < 16; i++)
		post_recv(pair.server.ep, i, segment(&pair.server, i * size, size));
	post_recv(pair.client.ep, 99, segment(&pair.client, 0, 1));
	for (unsigned i = 0; i < 16; i++)
		post_send(pair.client.ep, i, segment(&pair.client, i * size, size),
			  DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	for (unsigned i = 0; i < 16; i++)
		expect_recv_done(&pair.server, i, size);
	for (unsigned i = 0; i < 16; i++)
		expect_request_done(&pair.client, i, size);
	pattern_check(pair.server.memory, pair.server.size, 1);
	expect_disconnected(&pair);
	expect_dto(pair.client.recv_evd, pair.client.ep, 99, DAT_DTO_ERR_FLUSHED, 0);
	reset_both_quietly(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* A send that finds no receive, and behind it a read, which is not done before. */
static void post_what_waits(const struct pair *pair)
{
	post_send(pair->client.ep, 1, segment(&pair->client, 0, 1), DAT_COMPLETION_DEFAULT_FLAG);
	post_read(pair->client.ep, 2, segment(&pair->client, 0, 1), target(&pair->server, 0, 1),
		  DAT_COMPLETION_SUPPRESS_FLAG);
}

/* A failure has a completion, suppressed or not. */
static void expect_flush_of_what_waits(const struct pair *pair)
{
	if (device_has(NEEDS_SEND_PLACEMENT))
		expect_dto(pair->client.request_evd, pair->client.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	else
		expect_event(pair->client.request_evd, DAT_DTO_COMPLETION_EVENT);
	expect_dto(pair->client.request_evd, pair->client.ep, 2, DAT_DTO_ERR_FLUSHED, 0);
}

/*
 * A graceful disconnect lingers for a request that waits for a receive of the peer: new requests
 * are refused, and an abrupt disconnect ends the connection at once.
 */
START_TEST(abrupt_disconnect_ends_the_linger)
{
	DAT_LMR_TRIPLET one;
	struct pair pair;

	pair_open(&pair, NULL);
	one = segment(&pair.client, 0, 1);
	post_what_waits(&pair);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_int_eq(ep_get_state(pair.client.ep), DAT_EP_STATE_DISCONNECT_PENDING);
	ck_dat_is(dat_ep_post_send(pair.client.ep, 1, &one, cookie_of(3), 0),
		  BAD_STATE(EP_DISCPENDING));
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_no_event(pair.client.connect_evd);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_disconnected(&pair);
	expect_flush_of_what_waits(&pair);
	reset_both_quietly(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* The peer posts no receive: the time limit of the graceful disconnect ends it with a flush. */
START_TEST(graceful_disconnect_times_out)
{
	struct pair pair;

	pair_open(&pair, NULL);
	post_what_waits(&pair);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_disconnected(&pair);
	expect_flush_of_what_waits(&pair);
	reset_both_quietly(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* Nor does it post one later: what it has not received does not hide the end from it. */
START_TEST(end_behind_messages_without_a_receive_is_noticed)
{
	struct pair pair;

	pair_open(&pair, NULL);
	for (unsigned i = 0; i < 8; i++)
		post_send(pair.client.ep, i, segment(&pair.client, 0, 4096),
			  DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_disconnected(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

static pthread_barrier_t barrier;

static void *disconnect_together(void *ep)
{
	pthread_barrier_wait(&barrier);
	ck_dat(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
	return NULL;
}

START_TEST(both_sides_disconnect_at_once)
{
	pthread_t thread;
	struct pair pair;

	pair_open(&pair, NULL);
	pthread_barrier_init(&barrier, NULL, 2);
	for (int round = 0; round < 20; round++) {
		post_recvs(&pair.client, 100, POSTED);
		post_recvs(&pair.server, 100, POSTED);
		thread = consumer_thread_start(disconnect_together, pair.server.ep);
		disconnect_together(pair.client.ep);
		consumer_thread_join(thread);
		expect_disconnected(&pair);
		expect_flushed_recvs(&pair.client, 100, POSTED);
		expect_flushed_recvs(&pair.server, 100, POSTED);
		reset_both_quietly(&pair);
		pair_connect(&pair);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* Reads, writes and sends without a receive are outstanding when the connection ends. */
START_TEST(outstanding_requests_complete_once_in_order)
{
	const DAT_EP_ATTR attr = ep_attr_for(16, 48);
	/* over TCP no more than its window: the server does not see an end that is behind that */
	const size_t size = device()->holds_up ? 600 : 60000;
	DAT_DTO_COMPLETION_EVENT_DATA *dto;
	bool flushed = false;
	struct pair pair;

	pair_open_sized(&pair, &attr, 1 << 20);
	for (unsigned i = 0; i < 15; i++) {
		post_read(pair.client.ep, 3 * i, segment(&pair.client, 0, size),
			  target(&pair.server, 0, size), 0);
		post_write(pair.client.ep, 3 * i + 1, segment(&pair.client, 100000, size),
			   target(&pair.server, 100000, size), 0);
		post_send(pair.client.ep, 3 * i + 2, segment(&pair.client, 0, 10), 0);
	}
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (unsigned i = 0; i < 45; i++) {
		DAT_EVENT event = expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);

		dto = &event.event_data.dto_completion_event_data;
		ck_assert_uint_eq(dto->user_cookie.as_64, i);
		ck_assert_ptr_eq(dto->ep_handle, pair.client.ep);
		/* requests behind a flushed one are flushed, too */
		if (flushed || dto->status != DAT_DTO_SUCCESS)
			ck_assert_int_eq(dto->status, DAT_DTO_ERR_FLUSHED);
		flushed = dto->status == DAT_DTO_ERR_FLUSHED;
	}
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_DISCONNECTED);
	reset_both_quietly(&pair);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(posts_after_the_end_are_flushed)
{
	struct pair pair;

	pair_open(&pair, NULL);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_DISCONNECTED);
	for (unsigned i = 0; i < 40; i++) { /* more than the endpoint has slots */
		post_recv(pair.client.ep, 3 * i, segment(&pair.client, 0, 1));
		post_send(pair.client.ep, 3 * i + 1, segment(&pair.client, 0, 1),
			  DAT_COMPLETION_SUPPRESS_FLAG);
		post_write(pair.client.ep, 3 * i + 2, segment(&pair.client, 0, 1),
			   target(&pair.client, 0, 1), 0);
	}
	for (unsigned i = 0; i < 40; i++) {
		expect_dto(pair.client.recv_evd, pair.client.ep, 3 * i, DAT_DTO_ERR_FLUSHED, 0);
		expect_dto(pair.client.request_evd, pair.client.ep, 3 * i + 1, DAT_DTO_ERR_FLUSHED,
			   0);
		expect_dto(pair.client.request_evd, pair.client.ep, 3 * i + 2, DAT_DTO_ERR_FLUSHED,
			   0);
	}
	reset_quietly(&pair.client);
	pair_close_abrupt(&pair);
}
END_TEST

/* One EVD has the received message, the flushed receives, and behind them the end event. */
START_TEST(end_event_is_behind_the_flushed_receives)
{
	const DAT_EVD_FLAGS all = DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG |
				  DAT_EVD_RMR_BIND_FLAG;
	struct pair pair;

	side_open_bare(&pair.client, CLIENT);
	side_open_bare(&pair.server, SERVER);
	ck_dat(dat_evd_create(pair.server.ia, SIDE_QLEN, DAT_HANDLE_NULL, all,
			      &pair.server.connect_evd));
	pair.server.recv_evd = pair.server.connect_evd;
	pair.server.request_evd = pair.server.connect_evd;
	side_equip(&pair.client, NULL, SIDE_MEMORY);
	side_equip(&pair.server, NULL, SIDE_MEMORY);
	post_recvs(&pair.server, 100, POSTED);
	pair_connect(&pair);
	post_send(pair.client.ep, 1, segment(&pair.client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&pair.client, 1, 8);
	ck_dat(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	expect_recv_done(&pair.server, 100, 8);
	expect_flushed_recvs(&pair.server, 101, POSTED - 1);
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_DISCONNECTED);
	reset_quietly(&pair.server);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- while connecting ---- */

static void end_attempt(struct pair *pair, DAT_CLOSE_FLAGS flags)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE cr;

	psp = listen_any(&pair->server, &qual);
	post_recvs(&pair->client, 100, POSTED);
	ck_dat(try_connect(pair->client.ep, &pair->server, qual, DAT_TIMEOUT_INFINITE));
	ck_assert_int_eq(ep_get_state(pair->client.ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	cr = expect_cr(&pair->server);
	ck_dat(dat_ep_disconnect(pair->client.ep, flags));
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_flushed_recvs(&pair->client, 100, POSTED);
	accept_given_up(&pair->server, cr);
	ck_dat(dat_psp_free(psp));
	reset_both_quietly(pair);
}

START_TEST(disconnect_while_connecting)
{
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	ck_dat_is(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG),
		  BAD_STATE(EP_UNCONNECTED));
	end_attempt(&pair, DAT_CLOSE_ABRUPT_FLAG);
	end_attempt(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* One end event; ESTABLISHED is before it if the accept completed before the disconnect. */
static void expect_one_end(const struct side *side)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat(dat_evd_wait(side->connect_evd, TIME_LIMIT, 1, &event, &nmore));
	if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
		ck_dat(dat_evd_wait(side->connect_evd, TIME_LIMIT, 1, &event, &nmore));
	ck_assert_int_ne(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
}

START_TEST(disconnect_right_after_accept)
{
	DAT_CONN_QUAL qual;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	for (int round = 0; round < 10; round++) {
		connect_and_accept(&pair, qual);
		ck_dat(dat_ep_disconnect(pair.server.ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_one_end(&pair.client);
		expect_one_end(&pair.server);
		reset_both_quietly(&pair);
	}
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- free ---- */

START_TEST(free_ends_the_connection)
{
	struct pair pair;

	pair_open(&pair, NULL);
	post_recvs(&pair.client, 100, POSTED);
	post_recvs(&pair.server, 100, POSTED);
	ck_dat(dat_ep_free(pair.client.ep));
	expect_connection(&pair.server, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_flushed_recvs(&pair.server, 100, POSTED);
	reset_quietly(&pair.server);
	/* no event of an endpoint that is freed */
	expect_no_event(pair.client.connect_evd);
	ck_dat_is(dat_ep_free(pair.client.ep), BAD_HANDLE(EP));
	ck_dat_is(dat_ep_disconnect(pair.client.ep, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(EP));
	ck_dat(dat_lmr_free(pair.client.lmr));
	pair.client.ep = side_create_ep(&pair.client, NULL);
	pair_connect(&pair);
	ck_dat(dat_ep_free(pair.server.ep));
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_DISCONNECTED);
	pair_close_abrupt(&pair);
}
END_TEST

START_TEST(free_in_every_other_state)
{
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;
	struct pair pair;
	DAT_EVENT event;

	/* unconnected, with receives: they may be flushed or have no completion */
	pair_open_unconnected(&pair, NULL);
	post_recvs(&pair.client, 100, POSTED);
	ck_dat(dat_ep_free(pair.client.ep));
	ck_dat(dat_lmr_free(pair.client.lmr));
	while (dat_evd_dequeue(pair.client.recv_evd, &event) == DAT_SUCCESS)
		ck_assert_int_eq(event.event_data.dto_completion_event_data.status,
				 DAT_DTO_ERR_FLUSHED);
	/* connecting: the accept fails */
	pair.client.ep = side_create_ep(&pair.client, NULL);
	listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, DAT_TIMEOUT_INFINITE));
	cr = expect_cr(&pair.server);
	ck_dat(dat_ep_free(pair.client.ep));
	accept_given_up(&pair.server, cr);
	/* disconnected */
	ck_dat(dat_ep_free(pair.server.ep));
	/* accepting */
	pair.client.ep = side_create_ep(&pair.client, NULL);
	pair.server.ep = side_create_ep(&pair.server, NULL);
	connect_and_accept(&pair, qual);
	ck_dat(dat_ep_free(pair.server.ep));
	expect_one_end(&pair.client);
	reset_quietly(&pair.client);
	ck_dat(dat_ia_query(pair.client.ia, NULL, 0, NULL, 0, NULL));
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- peers that do not answer ---- */

/* A TCP listener that knows no protocol: a connect to it has no answer. */
struct mute {
	int listener, peer;
	DAT_CONN_QUAL qual;
};

static struct mute mute_open(const struct side *where)
{
	struct mute mute = { .peer = -1 };

	mute.listener = socket_listen(where, &mute.qual);
	return mute;
}

/* Waits until a connection request has begun to arrive. */
static void mute_expect_request(struct mute *mute)
{
	char byte;

	mute->peer = accept(mute->listener, NULL, NULL);
	ck_assert_int_ge(mute->peer, 0);
	ck_assert_int_eq(recv(mute->peer, &byte, 1, 0), 1);
}

/* The client has not closed the TCP connection, unless it can do so at once. */
static void mute_expect_open(const struct mute *mute)
{
	char bytes[512];
	ssize_t got;

	if (device()->ends_attempts)
		return;
	do
		got = recv(mute->peer, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (got > 0);
	ck_assert_msg(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK),
		      "the call returned only after the device had ended the attempt");
}

static void mute_close(struct mute *mute)
{
	close(mute->peer);
	close(mute->listener);
}

static void by_free(struct side *side)
{
	ck_dat(dat_ep_free(side->ep));
	ck_dat(dat_evd_free(side->connect_evd));
	ck_dat(dat_evd_free(side->recv_evd));
	ck_dat(dat_evd_free(side->request_evd));
	ck_dat(dat_pz_free(side->pz));
}

static void by_disconnect(struct side *side)
{
	ck_dat(dat_ep_disconnect(side->ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(side, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_flushed_recvs(side, 100, POSTED);
	reset_quietly(side);
}

static void by_time_out(struct side *side)
{
	expect_connection(side, DAT_CONNECTION_EVENT_TIMED_OUT);
	expect_flushed_recvs(side, 100, POSTED);
	reset_quietly(side);
}

static void by_close(struct side *side)
{
	(void)side;
}

static const struct {
	void (*give_up)(struct side *side);
	DAT_TIMEOUT timeout;
} attempt_ends[] = {
	{ by_free, DAT_TIMEOUT_INFINITE },
	{ by_disconnect, DAT_TIMEOUT_INFINITE },
	{ by_time_out, 2000000 }, /* long enough for the request, on a busy machine, too */
	{ by_close, DAT_TIMEOUT_INFINITE },
};

/*
 * The peer does not answer, and no call waits for it. On iWARP the attempt becomes an orphan, which
 * is destroyed when the peer closes the connection.
 */
START_TEST(ending_an_attempt_waits_for_no_answer)
{
	struct side side, listener;
	unsigned threads, descriptors;
	struct mute mute;

	side_open_bare(&listener, SERVER); /* for its address */
	threads = count_entries("/proc/self/task");
	/* the libraries allocate something at the first use of a device */
	side_open_bare(&side, CLIENT);
	side_close_abrupt(&side);
	descriptors = count_entries("/proc/self/fd");
	for (unsigned i = 0; i < COUNT(attempt_ends); i++) {
		mute = mute_open(&listener);
		side_open(&side, CLIENT);
		post_recvs(&side, 100, POSTED);
		ck_dat(try_connect(side.ep, &listener, mute.qual, attempt_ends[i].timeout));
		mute_expect_request(&mute);
		ck_dat(dat_lmr_free(side.lmr));
		attempt_ends[i].give_up(&side);
		mute_expect_open(&mute);
		side_close_abrupt(&side);
		mute_expect_open(&mute);
		mute_close(&mute);
		/* a list of threads may have one too many or too few while one ends */
		while (count_entries("/proc/self/task") != threads ||
		       count_entries("/proc/self/fd") != descriptors)
			sched_yield();
	}
	side_close_abrupt(&listener);
}
END_TEST

/* Connects to the qualifier that it receives, and exits while the attempt has no answer. */
static void exit_while_connecting(int fd)
{
	struct side side, listener;
	DAT_CONN_QUAL qual;
	char word;

	channel_recv(fd, &qual, sizeof(qual));
	side_open_bare(&listener, SERVER);
	side_open_bare(&side, CLIENT);
	side.ep = side_create_ep(&side, NULL);
	ck_dat(try_connect(side.ep, &listener, qual, DAT_TIMEOUT_INFINITE));
	channel_recv(fd, &word, 1);
	side_close_abrupt(&side);
	side_close_abrupt(&listener);
	channel_send(fd, "q", 1);
	exit(0);
}

START_TEST(exit_waits_for_no_answer)
{
	struct side listener;
	struct mute mute;
	pid_t pid;
	char word;
	int fd;

	pid = process_start(exit_while_connecting, &fd);
	side_open_bare(&listener, SERVER);
	mute = mute_open(&listener);
	channel_send(fd, &mute.qual, sizeof(mute.qual));
	mute_expect_request(&mute);
	channel_send(fd, "c", 1);
	channel_recv(fd, &word, 1);
	mute_expect_open(&mute);
	mute_close(&mute);
	process_end(pid);
	side_close_abrupt(&listener);
}
END_TEST

/* ---- other processes ---- */

/* They end with the other end of the channel. */
static void leave_child(int fd)
{
	char word;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return;
	while (read(fd, &word, 1) > 0)
		;
	_exit(0);
}

/* Handlers of pthread_atfork do not run for it. */
static void leave_program(int fd)
{
	posix_spawn_file_actions_t actions;
	char *const command[] = { (char *)"cat", NULL };
	pid_t pid;

	ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
	ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO), 0);
	ck_assert_int_eq(posix_spawnp(&pid, "cat", &actions, NULL, command, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
}

#define BUSY 6 /* requests of each kind, with cookies from 0 on */

/* Of these few complete before the peer's process is stopped, or has ended. */
static void requests_post(const struct side *side, const DAT_RMR_TRIPLET *peer)
{
	for (unsigned i = 0; i < BUSY; i++) {
		post_read(side->ep, 2 * i, segment(side, 0, peer->segment_length), *peer, 0);
		post_write(side->ep, 2 * i + 1, segment(side, 0, peer->segment_length), *peer, 0);
	}
}

/* Behind one that has failed all are flushed. */
static void expect_end_of_requests(const struct side *side)
{
	bool failed = false;

	for (unsigned i = 0; i < 2 * BUSY; i++) {
		DAT_EVENT event = expect_event(side->request_evd, DAT_DTO_COMPLETION_EVENT);
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		ck_assert_uint_eq(dto->user_cookie.as_64, i);
		ck_assert(!failed || dto->status == DAT_DTO_ERR_FLUSHED);
		failed = dto->status != DAT_DTO_SUCCESS;
	}
}

/* Each end learns where the other's memory is. */
static DAT_RMR_TRIPLET targets_exchange(const struct side *side, int fd)
{
	DAT_RMR_TRIPLET own = target(side, 0, side->size), peer;

	channel_send(fd, &own, sizeof(own));
	channel_recv(fd, &peer, sizeof(peer));
	return peer;
}

static void leave_requests(const struct side *side, int fd)
{
	const DAT_RMR_TRIPLET peer = targets_exchange(side, fd);

	requests_post(side, &peer);
	channel_send(fd, "p", 1);
}

/* A server that sends its qualifier, accepts, and waits for the end of its process. */
static void doomed_server(int fd)
{
	DAT_CONN_QUAL qual;
	struct side side;
	char word;

	side_open(&side, SERVER);
	listen_any(&side, &qual);
	channel_send(fd, &qual, sizeof(qual));
	ck_dat(dat_cr_accept(expect_cr(&side), side.ep, 0, NULL));
	expect_connection(&side, DAT_CONNECTION_EVENT_ESTABLISHED);
	channel_send(fd, "c", 1);
	channel_recv(fd, &word, 1);
	switch (word) {
	case 'f': /* nothing is closed, and a child lives on */
		leave_child(fd);
		exit(0);
	case 'e': /* and a program that was started */
		leave_program(fd);
		exit(0);
	case 'x':
		exit(0);
	case 'r':
		leave_requests(&side, fd);
		pause();
		break;
	default:
		pause();
	}
}

/* Connects to a doomed server, and posts receives. */
static pid_t connect_to_doomed(struct side *side, int *fd)
{
	struct side listener = { 0 };
	DAT_CONN_QUAL qual;
	pid_t pid;
	char word;

	pid = process_start(doomed_server, fd);
	channel_recv(*fd, &qual, sizeof(qual));
	side_open_bare(&listener, SERVER); /* for its address */
	side_open(side, CLIENT);
	ck_dat(try_connect(side->ep, &listener, qual, TIME_LIMIT));
	expect_connection(side, DAT_CONNECTION_EVENT_ESTABLISHED);
	side_close_abrupt(&listener);
	channel_recv(*fd, &word, 1);
	post_recvs(side, 100, POSTED);
	return pid;
}

static void expect_end_of_doomed(struct side *side)
{
	expect_end(side);
	expect_flushed_recvs(side, 100, POSTED);
	reset_quietly(side);
	side_close_abrupt(side);
}

START_TEST(peer_is_killed)
{
	struct side side;
	pid_t pid;
	int fd;

	pid = connect_to_doomed(&side, &fd);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	expect_end_of_doomed(&side);
}
END_TEST

START_TEST(peer_exits_with_all_open)
{
	struct side side;
	pid_t pid;
	int fd;

	pid = connect_to_doomed(&side, &fd);
	channel_send(fd, "x", 1);
	process_end(pid);
	expect_end_of_doomed(&side);
}
END_TEST

static void peer_exits_but_not_its_child(const char *how)
{
	struct side side;
	pid_t pid;
	int fd;

	pid = connect_to_doomed(&side, &fd);
	channel_send(fd, how, 1);
	process_end(pid);
	expect_end_of_doomed(&side);
	close(fd);
}

START_TEST(peer_exits_and_its_child_lives)
{
	peer_exits_but_not_its_child("f");
}
END_TEST

START_TEST(peer_exits_and_a_program_of_it_lives)
{
	peer_exits_but_not_its_child("e");
}
END_TEST

/* A disconnect does not wait for a peer that no longer answers. */
START_TEST(peer_is_stopped)
{
	struct side side;
	pid_t pid;
	int fd, status;

	pid = connect_to_doomed(&side, &fd);
	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_dat(dat_ep_disconnect(side.ep, DAT_CLOSE_ABRUPT_FLAG));
	expect_connection(&side, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_flushed_recvs(&side, 100, POSTED);
	reset_quietly(&side);
	side_close_abrupt(&side);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

static void peer_is_lost_with_requests(bool killed)
{
	DAT_RMR_TRIPLET peer;
	struct side side;
	int fd, status;
	pid_t pid;
	char word;

	pid = connect_to_doomed(&side, &fd);
	channel_send(fd, "r", 1);
	peer = targets_exchange(&side, fd);
	channel_recv(fd, &word, 1);
	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	requests_post(&side, &peer);
	if (killed) {
		kill(pid, SIGKILL);
		expect_end(&side);
	} else {
		ck_dat(dat_ep_disconnect(side.ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_connection(&side, DAT_CONNECTION_EVENT_DISCONNECTED);
		kill(pid, SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	expect_end_of_requests(&side);
	expect_flushed_recvs(&side, 100, POSTED);
	reset_quietly(&side);
	side_close_abrupt(&side);
}

START_TEST(peer_is_killed_with_requests_of_both_sides)
{
	peer_is_lost_with_requests(true);
}
END_TEST

START_TEST(peer_is_stopped_with_requests_of_both_sides)
{
	peer_is_lost_with_requests(false);
}
END_TEST

/* Neither exec nor _exit in a child affects the connection of its parent. */
START_TEST(exit_of_a_child_keeps_the_connection)
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
		exchange_messages(&pair);
	}
	expect_no_event(pair.client.connect_evd);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- abrupt close of an IA ---- */

enum conn_stage {
	STAGE_UNCONNECTED,
	STAGE_CONNECTING,
	STAGE_REQUESTED, /* of the server, which has not answered */
	STAGE_ACCEPTED,
	STAGE_CONNECTED,
	STAGE_BUSY, /* connected, with outstanding transfers */
	STAGE_GRACEFUL,
	STAGE_DISCONNECTED,
	STAGES
};

/* Returns the side that is to be closed at this stage. */
static struct side *reach_stage(enum conn_stage stage, struct pair *pair)
{
	const struct region out = region_map(&pair->client, 100000, DAT_MEM_PRIV_ALL_FLAG);
	const struct region in = region_map(&pair->server, 100000, DAT_MEM_PRIV_ALL_FLAG);
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;

	post_recvs(&pair->client, 100, POSTED);
	for (unsigned i = 0; i < 8; i++)
		post_recv(pair->server.ep, i, region_segment(&in, 0, 100000));
	if (stage == STAGE_UNCONNECTED)
		return &pair->client;
	listen_any(&pair->server, &qual);
	ck_dat(try_connect(pair->client.ep, &pair->server, qual, DAT_TIMEOUT_INFINITE));
	cr = expect_cr(&pair->server);
	if (stage == STAGE_CONNECTING)
		return &pair->client;
	if (stage == STAGE_REQUESTED)
		return &pair->server;
	ck_dat(dat_cr_accept(cr, pair->server.ep, 0, NULL));
	if (stage == STAGE_ACCEPTED)
		return &pair->server;
	expect_established(pair);
	if (stage == STAGE_BUSY || stage == STAGE_GRACEFUL)
		for (unsigned i = 0; i < 8; i++)
			post_send(pair->client.ep, i, region_segment(&out, 0, 100000),
				  DAT_COMPLETION_DEFAULT_FLAG);
	if (stage == STAGE_GRACEFUL)
		ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_GRACEFUL_FLAG));
	if (stage == STAGE_DISCONNECTED) {
		ck_dat(dat_ep_disconnect(pair->client.ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_connection(&pair->client, DAT_CONNECTION_EVENT_DISCONNECTED);
	}
	return &pair->client;
}

/* The event of the other side. */
static void expect_closed_peer(enum conn_stage stage, struct pair *pair)
{
	switch (stage) {
	case STAGE_REQUESTED:
		expect_connection(&pair->client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		break;
	case STAGE_ACCEPTED:
		expect_one_end(&pair->client);
		break;
	case STAGE_CONNECTED:
	case STAGE_BUSY:
	case STAGE_GRACEFUL:
	case STAGE_DISCONNECTED:
		expect_end(&pair->server);
		break;
	default:
		break;
	}
}

static void close_abruptly_at(enum conn_stage stage)
{
	struct waiter on_evd = { 0 }, on_cno = { 0 };
	struct side *closed, *other;
	DAT_EVD_HANDLE idle;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	closed = reach_stage(stage, &pair);
	other = closed == &pair.client ? &pair.server : &pair.client;
	ck_dat(dat_cno_create(closed->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &on_cno.cno));
	ck_dat(dat_evd_create(closed->ia, 8, on_cno.cno, DAT_EVD_DTO_FLAG, &idle));
	ck_dat(dat_evd_create(closed->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &on_evd.evd));
	waiter_start(&on_evd);
	waiter_start(&on_cno);
	ck_dat_is(dat_ia_close(closed->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	side_close_abrupt(closed);
	ck_dat_is(waiter_join(&on_evd), DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE));
	ck_dat(waiter_join(&on_cno));
	ck_assert_ptr_null(on_cno.triggered);
	expect_closed_peer(stage, &pair);
	/* the handles of its objects are invalid */
	ck_dat_is(dat_ep_free(closed->ep), BAD_HANDLE(EP));
	ck_dat_is(dat_evd_free(closed->connect_evd),
		  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	ck_dat_is(dat_pz_free(closed->pz), BAD_HANDLE(PZ));
	ck_dat_is(dat_cno_free(on_cno.cno), BAD_HANDLE(CNO));
	ck_dat_is(dat_ia_close(closed->ia, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	side_close_abrupt(other);
}

START_TEST(abrupt_close_expels_waiters_at_every_stage)
{
	for (int stage = 0; stage < STAGES; stage++)
		close_abruptly_at((enum conn_stage)stage);
}
END_TEST

START_TEST(graceful_close_needs_all_objects_freed)
{
	struct pair pair;

	pair_open(&pair, NULL);
	ck_dat_is(dat_ia_close(pair.client.ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat_is(dat_ia_close(pair.client.ia, (DAT_CLOSE_FLAGS)2), BAD_ARG(2));
	exchange_messages(&pair);
	ck_dat_is(dat_pz_free(pair.client.pz), BAD_STATE(PZ_IN_USE));
	ck_dat_is(dat_evd_free(pair.client.request_evd), BAD_STATE(EVD_IN_USE));
	ck_dat_is(dat_evd_free(pair.client.async_evd), BAD_STATE(EVD_IN_USE));
	ck_dat(dat_ep_free(pair.client.ep));
	ck_dat(dat_lmr_free(pair.client.lmr));
	side_free_zones(&pair.client);
	ck_dat(dat_evd_free(pair.client.cr_evd));
	ck_dat(dat_evd_free(pair.client.connect_evd));
	ck_dat(dat_evd_free(pair.client.recv_evd));
	ck_dat(dat_evd_free(pair.client.request_evd));
	ck_dat(dat_ia_close(pair.client.ia, DAT_CLOSE_GRACEFUL_FLAG));
	expect_end(&pair.server);
	side_close_abrupt(&pair.server);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ abrupt_disconnect_flushes_receives, NEEDS_NOTHING },
		{ a_message_without_receive_hides_no_disconnect, NEEDS_RNR },
		{ graceful_disconnect_completes_sends, NEEDS_NOTHING },
		{ abrupt_disconnect_ends_the_linger, NEEDS_RNR },
		{ graceful_disconnect_times_out, NEEDS_RNR },
		{ end_behind_messages_without_a_receive_is_noticed, NEEDS_RNR },
		{ both_sides_disconnect_at_once, NEEDS_NOTHING },
		{ outstanding_requests_complete_once_in_order, NEEDS_RNR },
		{ posts_after_the_end_are_flushed, NEEDS_NOTHING },
		{ end_event_is_behind_the_flushed_receives, NEEDS_NOTHING },
		{ disconnect_while_connecting, NEEDS_NOTHING },
		{ disconnect_right_after_accept, NEEDS_NOTHING },
		{ free_ends_the_connection, NEEDS_NOTHING },
		{ free_in_every_other_state, NEEDS_NOTHING },
		{ ending_an_attempt_waits_for_no_answer, NEEDS_TCP },
		{ exit_waits_for_no_answer, NEEDS_TCP },
		{ peer_is_killed, NEEDS_NOTHING },
		{ peer_exits_with_all_open, NEEDS_NOTHING },
		{ peer_exits_and_its_child_lives, NEEDS_NOTHING },
		{ peer_exits_and_a_program_of_it_lives, NEEDS_NOTHING },
		{ peer_is_stopped, NEEDS_NOTHING },
		{ peer_is_killed_with_requests_of_both_sides, NEEDS_NOTHING },
		{ peer_is_stopped_with_requests_of_both_sides, NEEDS_NOTHING },
		{ exit_of_a_child_keeps_the_connection, NEEDS_NOTHING },
		{ abrupt_close_expels_waiters_at_every_stage, NEEDS_NOTHING },
		{ graceful_close_needs_all_objects_freed, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
