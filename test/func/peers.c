/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that are no uDAPL providers, or end in the middle of a handshake, over libfabric's tcp:
 * plain sockets, and programs of libfabric. Nobody hangs, nothing is left, the consumer gets the
 * event of the standard, and clients that are as they should be get in. And what the service thread
 * has to do with them.
 *
 * What a client of ours sends first is recorded, so that a socket can play it, or a part of it.
 */
#undef _FORTIFY_SOURCE /* its ppoll is inline, and there is one here */

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "../consumer/consumer.h"

/* Microseconds until an attempt times out whose request must have come, on a busy machine, too. */
#define GIVE_UP 500000

/*
 * ---- how often the provider's service threads sleep, and are woken by a descriptor; and how often
 * those that wait sleep ----
 */

static _Atomic unsigned sleeps, wakes, waits;

__attribute__((visibility("default"))) int epoll_pwait2(int epoll, struct epoll_event *events,
							int max, const struct timespec *timeout,
							const sigset_t *mask)
{
	int ready;

	sleeps++;
	ready = (int)syscall(SYS_epoll_pwait2, epoll, events, max, timeout, mask, 8);
	wakes += ready > 0;
	return ready;
}

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t count,
						 const struct timespec *timeout,
						 const sigset_t *mask)
{
	struct timespec left;

	waits++;
	if (timeout)
		left = *timeout; /* the system call writes what is left */
	return (int)syscall(SYS_ppoll, fds, count, timeout ? &left : NULL, mask, 8);
}

/* ---- and looks through all descriptors with this one ---- */

static _Atomic unsigned searches;

__attribute__((visibility("default"))) DIR *opendir(const char *path)
{
	DIR *(*real)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");

	searches++;
	return real(path);
}

/* ---- how it copies what arrives ---- */

static const char *_Atomic awaited; /* the last byte of what a peer writes */
static _Atomic size_t copied;	    /* the length of the copy that had it */

static void *copy(void *to, const void *from, size_t size)
{
	const char *last = awaited;

	if (last && (char *)to <= last && last < (char *)to + size)
		copied = size;
	return size ? memmove(to, from, size) : to; /* of nothing @from may be NULL */
}

__attribute__((visibility("default"))) void *memcpy(void *to, const void *from, size_t size)
{
	return copy(to, from, size);
}

/* That of programs with _FORTIFY_SOURCE; the room has been checked. */
void *__memcpy_chk(void *to, const void *from, size_t size, size_t room);
__attribute__((visibility("default"))) void *__memcpy_chk(void *to, const void *from, size_t size,
							  size_t room)
{
	(void)room;
	return copy(to, from, size);
}

/* ---- sockets ---- */

static unsigned open_sockets(void)
{
	struct dirent *entry;
	unsigned count = 0;
	DIR *folder = opendir("/proc/self/fd");

	ck_assert_ptr_nonnull(folder);
	while ((entry = readdir(folder))) {
		char target[64] = "";

		(void)!readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
		count += strncmp(target, "socket:", 7) == 0;
	}
	closedir(folder);
	return count;
}

/* The service thread closes some. */
static void expect_open_sockets(const struct side *side, unsigned want)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	for (unsigned i = 0; i < 1000 && open_sockets() != want; i++)
		ck_dat_is(dat_evd_wait(side->cr_evd, 10000, 1, &event, &nmore),
			  DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	ck_assert_uint_eq(open_sockets(), want);
}

static int socket_connect(const struct side *server, DAT_CONN_QUAL qual)
{
	struct sockaddr_in address = server->address;
	int fd = socket_open();

	address.sin_port = htons((uint16_t)qual);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void socket_send(int fd, const void *bytes, size_t size)
{
	ck_assert_int_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

/* The provider closes it, whether or not it has answered. */
static void socket_expect_end(int fd)
{
	char bytes[512];
	ssize_t got;

	do
		got = recv(fd, bytes, sizeof(bytes), 0);
	while (got > 0);
	ck_assert_msg(got == 0 || errno == ECONNRESET, "recv: %s", strerror(errno));
	close(fd);
}

/* ---- what a client sends ---- */

#define OUR_HEADER 4u /* bytes of the private data that are the provider's, and come last here */

static struct {
	char bytes[512];
	size_t size;
} request;

/* Then the attempt fails, because the socket that took it is closed. */
static void request_record(const struct pair *pair)
{
	DAT_CONN_QUAL qual;
	int listener = socket_listen(&pair->server, &qual), fd;
	ssize_t got;

	ck_dat(try_connect(pair->client.ep, &pair->server, qual, TIME_LIMIT));
	fd = accept(listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	got = recv(fd, request.bytes, sizeof(request.bytes), 0);
	ck_assert_int_gt(got, OUR_HEADER);
	request.size = (size_t)got;
	close(fd);
	close(listener);
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(dat_ep_reset(pair->client.ep));
}

/* A client that is as it should be gets in. */
static void well_behaved_gets_in(struct pair *pair, DAT_CONN_QUAL qual)
{
	connect_and_accept(pair, qual);
	expect_established(pair);
	exchange_messages(pair);
	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(pair);
}

#define MANY 10

/* Where descriptors between others are free, as after many connections came and went. */
START_TEST(sockets_of_connections_are_found_without_a_search)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	int fds[60];
	unsigned before;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	well_behaved_gets_in(&pair, qual);
	for (unsigned i = 0; i < COUNT(fds); i++)
		fds[i] = socket_open();
	for (unsigned i = 0; i < COUNT(fds); i += 3)
		close(fds[i]);
	before = searches;
	for (unsigned i = 0; i < MANY; i++) {
		well_behaved_gets_in(&pair, qual);
		fds[3 * i] = socket_open();
	}
	ck_assert_uint_eq(searches, before);
	for (unsigned i = 0; i < COUNT(fds); i++)
		if (i % 3 || i < 3 * MANY)
			close(fds[i]);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- at the listening side ---- */

static const struct {
	const char *bytes;
	size_t size;
	size_t lacks; /* of the request, which is sent without its last bytes */
} garbage[] = {
	{ "", 0, 0 },
	{ "G", 1, 0 },
	{ "GET / HTTP/1.1\r\nHost: example.net\r\n\r\n", 37, 0 },
	{ "\x03\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 18, 0 },
	{ (const char[4096]){ 0 }, 4096, 0 },
	{ NULL, 0, OUR_HEADER + 8 },
	{ NULL, 0, OUR_HEADER },
	{ NULL, 0, 1 },
};

/* A server that listens, and has served a client. Returns how many sockets are open. */
static unsigned listener_open(struct pair *pair, DAT_CONN_QUAL *qual)
{
	pair_open_unconnected(pair, NULL);
	request_record(pair);
	listen_any(&pair->server, qual);
	well_behaved_gets_in(pair, *qual);
	return open_sockets();
}

START_TEST(garbage_on_the_listening_port_is_dropped)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	unsigned sockets;
	int fd;

	sockets = listener_open(&pair, &qual);
	fd = socket_connect(&pair.server, qual);
	if (garbage[_i].bytes)
		socket_send(fd, garbage[_i].bytes, garbage[_i].size);
	else
		socket_send(fd, request.bytes, request.size - garbage[_i].lacks);
	shutdown(fd, SHUT_WR);
	socket_expect_end(fd);
	expect_no_event(pair.server.cr_evd);
	well_behaved_gets_in(&pair, qual);
	expect_open_sockets(&pair.server, sockets);
	pair_close_abrupt(&pair);
}
END_TEST

/* libfabric would wait in recv(2) for what is missing, and with it the IA. */
START_TEST(a_request_without_its_end_holds_up_nobody)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	int fds[3];

	pair_open_unconnected(&pair, NULL);
	request_record(&pair);
	listen_any(&pair.server, &qual);
	for (unsigned i = 0; i < COUNT(fds); i++) {
		fds[i] = socket_connect(&pair.server, qual);
		socket_send(fds[i], request.bytes, request.size - OUR_HEADER);
	}
	well_behaved_gets_in(&pair, qual);
	for (unsigned i = 0; i < COUNT(fds); i++) {
		shutdown(fds[i], SHUT_WR);
		socket_expect_end(fds[i]);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* All of a request but its end, and then its end: nothing else waits meanwhile. */
START_TEST(a_request_that_is_cut_anywhere_is_dropped)
{
	int fds[sizeof(request.bytes)];
	struct pair pair;
	DAT_CONN_QUAL qual;
	unsigned sockets;

	sockets = listener_open(&pair, &qual);
	for (size_t size = 0; size < request.size; size++) {
		fds[size] = socket_connect(&pair.server, qual);
		socket_send(fds[size], request.bytes, size);
	}
	well_behaved_gets_in(&pair, qual);
	for (size_t size = 0; size < request.size; size++) {
		shutdown(fds[size], SHUT_WR);
		socket_expect_end(fds[size]);
	}
	expect_no_event(pair.server.cr_evd);
	expect_open_sockets(&pair.server, sockets);
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

/* A request is told, and rejected, or its connection ends. */
static void request_or_end(const struct side *server, int fd)
{
	char bytes[512];
	DAT_EVENT event;
	DAT_COUNT nmore;
	ssize_t got;

	while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0 ||
	       (got < 0 && errno == EAGAIN))
		if (dat_evd_wait(server->cr_evd, 1000, 1, &event, &nmore) == DAT_SUCCESS)
			ck_dat(CR_REJECT(event.event_data.cr_arrival_event_data.cr_handle));
	close(fd);
}

START_TEST(a_request_with_another_byte_is_rejected_at_most)
{
	static const char values[] = { 0, 1, 4, 0x7f, (char)0xff };
	struct pair pair;
	DAT_CONN_QUAL qual;
	unsigned sockets;

	sockets = listener_open(&pair, &qual);
	stderr_redirect();
	for (size_t at = 0; at < request.size; at++)
		for (size_t i = 0; i < COUNT(values); i++) {
			char bytes[sizeof(request.bytes)];
			int fd = socket_connect(&pair.server, qual);

			memcpy(bytes, request.bytes, request.size);
			bytes[at] = values[i];
			socket_send(fd, bytes, request.size);
			shutdown(fd, SHUT_WR);
			request_or_end(&pair.server, fd);
		}
	(void)stderr_restore();
	expect_open_sockets(&pair.server, sockets);
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

#define SILENT 200u

static void connect_silently(int fds[SILENT], unsigned n, const struct side *server,
			     DAT_CONN_QUAL qual)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = socket_connect(server, qual);
}

/* In a wait, in which nobody has anything to do. */
static unsigned sleeps_while_idle(DAT_EVD_HANDLE evd, DAT_TIMEOUT usec)
{
	unsigned before = sleeps + waits;
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat_is(dat_evd_wait(evd, usec, 1, &event, &nmore), DAT_ERROR(DAT_TIMEOUT_EXPIRED, 0));
	return sleeps + waits - before;
}

START_TEST(silent_connections_use_no_time_and_leave_nothing)
{
	int fds[SILENT];
	struct pair pair;
	DAT_CONN_QUAL qual;
	unsigned sockets;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	well_behaved_gets_in(&pair, qual);
	sockets = open_sockets();
	connect_silently(fds, SILENT, &pair.server, qual);
	well_behaved_gets_in(&pair, qual);
	ck_assert_uint_gt(sleeps, 0);
	ck_assert_uint_lt(sleeps_while_idle(pair.server.cr_evd, 200000), 150);
	for (unsigned i = 0; i < SILENT; i++)
		shutdown(fds[i], SHUT_WR);
	for (unsigned i = 0; i < SILENT; i++)
		socket_expect_end(fds[i]);
	ck_assert_uint_lt(sleeps_while_idle(pair.server.cr_evd, 200000), 150);
	expect_open_sockets(&pair.server, sockets);
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

/* libfabric would handle what they send later by the listener that is gone. */
START_TEST(silent_connections_end_with_their_listener)
{
	int fds[SILENT];
	struct pair pair;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	unsigned sockets;

	pair_open_unconnected(&pair, NULL);
	request_record(&pair);
	sockets = open_sockets();
	psp = listen_any(&pair.server, &qual);
	connect_silently(fds, SILENT, &pair.server, qual);
	socket_send(fds[0], request.bytes, request.size - OUR_HEADER);
	connect_and_accept(&pair, qual);
	expect_established(&pair);
	if (_i)
		ck_dat(dat_psp_free(psp));
	else
		side_close_abrupt(&pair.server);
	for (unsigned i = 0; i < SILENT; i++) {
		(void)!send(fds[i], request.bytes, request.size, MSG_NOSIGNAL);
		socket_expect_end(fds[i]);
	}
	if (!_i) {
		expect_end(&pair.client);
		side_close_abrupt(&pair.client);
		return;
	}
	exchange_messages(&pair); /* the connection that was made stands */
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(&pair);
	expect_open_sockets(&pair.server, sockets);
	listen_any(&pair.server, &qual);
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- who is woken up ---- */

#define MESSAGES 1000u
#define ROUND	 50u /* of them */

static sem_t received;

static void *sleep_for_messages(void *arg)
{
	const struct side *side = arg;

	for (unsigned i = 0; i < MESSAGES; i++) {
		DAT_EVENT event;
		DAT_COUNT nmore;

		ck_dat(dat_evd_wait(side->recv_evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore));
		post_recv(side->ep, i, segment(side, 0, 8));
		sem_post(&received);
	}
	return NULL;
}

/* Sends as many messages, each of which is received before the next. */
static void send_messages(const struct side *client, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		post_send(client->ep, i, segment(client, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(client, i, 8);
		while (sem_wait(&received))
			;
	}
}

/*
 * The server never looks at its requests, whose queue has the same bytes. A thread that a busy
 * machine keeps from its next call counts as away, so the best of some rounds counts.
 */
START_TEST(messages_wake_up_the_thread_that_waits_for_them_alone)
{
	unsigned before, fewest = MESSAGES;
	pthread_t thread;
	struct pair pair;

	ck_assert_int_eq(sem_init(&received, 0, 0), 0);
	pair_open(&pair, NULL);
	post_recv(pair.server.ep, 0, segment(&pair.server, 0, 8));
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_for_messages, &pair.server), 0);
	for (unsigned round = 0; round < MESSAGES / ROUND; round++) {
		before = wakes;
		send_messages(&pair.client, ROUND);
		if (wakes - before < fewest)
			fewest = wakes - before;
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_le(fewest, ROUND / 3);
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * Of a message without bytes libfabric's tcp has the header, and reads nothing of what is behind it
 * before there is a receive: its descriptor is readable for so long. The server sleeps first on its
 * requests, then on its receives.
 */
START_TEST(what_is_behind_a_message_without_bytes_wakes_up_nobody)
{
	struct pair pair;

	pair_open(&pair, NULL);
	for (unsigned round = 0; round < 2; round++) {
		DAT_EVD_HANDLE evd = round ? pair.server.recv_evd : pair.server.cr_evd;

		post_send(pair.client.ep, 0, segment(&pair.client, 0, 0), 0);
		(void)sleeps_while_idle(pair.server.cr_evd, 20000);
		post_send(pair.client.ep, 1, segment(&pair.client, 0, 8), 0);
		(void)sleeps_while_idle(evd, 20000);
		ck_assert_uint_lt(sleeps_while_idle(evd, 20000), 150);
		for (unsigned i = 0; i < 2; i++)
			post_recv(pair.server.ep, i, segment(&pair.server, 0, 8));
		for (unsigned i = 0; i < 2; i++) {
			expect_recv_done(&pair.server, i, 8 * i);
			expect_request_done(&pair.client, i, 8 * i);
		}
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* Those that find no descriptor wait, and nobody runs in circles meanwhile. */
START_TEST(connections_beyond_the_descriptors_use_no_time)
{
	struct rlimit limit, few;
	int fds[20];
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_COUNT nmore;
	DAT_EVENT event;
	unsigned idle;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	well_behaved_gets_in(&pair, qual);
	/* what a thread sleeps on is kept for the next one */
	ck_dat_is(dat_evd_wait(pair.server.cr_evd, 1000, 1, &event, &nmore),
		  DAT_ERROR(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE));
	for (unsigned i = 0; i < COUNT(fds); i++)
		fds[i] = socket_open();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = count_entries("/proc/self/fd") + 4;
	stderr_redirect();
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (unsigned i = 0; i < COUNT(fds); i++) {
		struct sockaddr_in address = pair.server.address;

		address.sin_port = htons((uint16_t)qual);
		ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
	}
	(void)sleeps_while_idle(pair.server.cr_evd, 200000);
	idle = sleeps_while_idle(pair.server.cr_evd, 200000);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_ptr_nonnull(strstr(stderr_restore(), "has no file descriptor left"));
	ck_assert_uint_lt(idle, 300);
	for (unsigned i = 0; i < COUNT(fds); i++) {
		shutdown(fds[i], SHUT_WR);
		socket_expect_end(fds[i]);
	}
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- no descriptor is left ---- */

#define FILL 400

static struct {
	int fds[FILL];
	unsigned used;
	struct rlimit limit;
} filled;

static void descriptors_fill(void)
{
	struct rlimit few;
	int fd;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &filled.limit), 0);
	few = filled.limit;
	few.rlim_cur = FILL;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	while ((fd = dup(STDERR_FILENO)) >= 0)
		filled.fds[filled.used++] = fd;
	ck_assert_int_eq(errno, EMFILE);
}

static void descriptors_free(void)
{
	while (filled.used)
		close(filled.fds[--filled.used]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &filled.limit), 0);
}

/* What a call without descriptors would make, and makes when there are some. */
static union {
	DAT_PSP_HANDLE psp;
	DAT_RSP_HANDLE rsp;
	DAT_EVD_HANDLE evd;
	DAT_CNO_HANDLE cno;
	DAT_IA_HANDLE ia;
} made;

/* Nobody listens there. */
static DAT_CONN_QUAL unused;

static DAT_RETURN make_psp(struct pair *pair)
{
	return dat_psp_create(pair->server.ia, unused, pair->server.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &made.psp);
}

static DAT_RETURN make_any_psp(struct pair *pair)
{
	DAT_CONN_QUAL qual;

	return dat_psp_create_any(pair->server.ia, &qual, pair->server.cr_evd,
				  DAT_PSP_CONSUMER_FLAG, &made.psp);
}

static DAT_RETURN make_rsp(struct pair *pair)
{
	return dat_rsp_create(pair->server.ia, unused, pair->server.ep, pair->server.cr_evd,
			      &made.rsp);
}

static DAT_RETURN free_psp(struct pair *pair)
{
	(void)pair;
	return dat_psp_free(made.psp);
}

static DAT_RETURN free_rsp(struct pair *pair)
{
	(void)pair;
	return dat_rsp_free(made.rsp);
}

static DAT_RETURN make_evd(struct pair *pair)
{
	return dat_evd_create(pair->server.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &made.evd);
}

static DAT_RETURN free_evd(struct pair *pair)
{
	(void)pair;
	return dat_evd_free(made.evd);
}

static DAT_RETURN make_ia(struct pair *pair)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;

	return dat_ia_open(pair->server.name, 8, &async, &made.ia);
}

static DAT_RETURN free_ia(struct pair *pair)
{
	(void)pair;
	return dat_ia_close(made.ia, DAT_CLOSE_ABRUPT_FLAG);
}

static DAT_RETURN make_connection(struct pair *pair)
{
	DAT_EP_STATE state;
	DAT_RETURN ret = try_connect(pair->client.ep, &pair->server, unused, TIME_LIMIT);

	ck_dat(dat_ep_get_status(pair->client.ep, &state, NULL, NULL));
	ck_assert(!ret || state == DAT_EP_STATE_UNCONNECTED);
	return ret;
}

static DAT_RETURN end_connection(struct pair *pair)
{
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	return dat_ep_reset(pair->client.ep);
}

static const struct {
	DAT_RETURN (*make)(struct pair *pair);
	DAT_RETURN (*free)(struct pair *pair);
	DAT_RETURN want;
} makers[] = {
	{ make_psp, free_psp, NO_RESOURCE(DEVICE) },
	{ make_any_psp, free_psp, NO_RESOURCE(DEVICE) },
	{ make_rsp, free_rsp, NO_RESOURCE(DEVICE) },
	{ make_connection, end_connection, NO_RESOURCE(TEP) },
	{ make_evd, free_evd, NO_RESOURCE(TEVD) },
	{ make_ia, free_ia, NO_RESOURCE(ERROR_HANDLER) },
};

START_TEST(a_call_without_descriptors_says_so_and_can_be_repeated)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	unsigned before;
	DAT_RETURN ret;

	pair_open_unconnected(&pair, NULL);
	unused = free_qual(&pair.server);
	before = count_entries("/proc/self/fd");
	stderr_redirect();
	descriptors_fill();
	memset(&made, 0x55, sizeof(made));
	ret = makers[_i].make(&pair);
	descriptors_free();
	ck_assert_ptr_nonnull(strstr(stderr_restore(), "ulimit -n"));
	ck_dat_is(ret, makers[_i].want);
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	ck_dat(makers[_i].make(&pair));
	ck_dat(makers[_i].free(&pair));
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	listen_any(&pair.server, &qual);
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

/* The connection has been accepted from the system when the request is told. */
START_TEST(an_accept_needs_no_descriptor)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;
	DAT_RETURN ret;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT));
	cr = expect_cr(&pair.server);
	descriptors_fill();
	ret = dat_cr_accept(cr, pair.server.ep, 0, NULL);
	descriptors_free();
	ck_dat(ret);
	expect_established(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- the end of a region ---- */

/* A connection whose bytes pass through here, so that they can be held up at any of them. */
struct relay {
	int from_client, to_server;
};

/* Passes on what is there, up to @size bytes, and returns how many there were. */
static size_t relay_some(int from, int to, size_t size)
{
	static char bytes[65536];
	ssize_t got = recv(from, bytes, size < sizeof(bytes) ? size : sizeof(bytes), MSG_DONTWAIT);

	if (got < 0 && errno == EAGAIN)
		return 0;
	ck_assert_int_gt(got, 0);
	socket_send(to, bytes, (size_t)got);
	return (size_t)got;
}

/* Passes on the first message of a side. */
static void relay_message(int from, int to)
{
	struct pollfd readable = { .fd = from, .events = POLLIN };

	ck_assert_int_eq(poll(&readable, 1, -1), 1);
	(void)relay_some(from, to, SIZE_MAX);
}

static void pair_connect_by_relay(struct pair *pair, struct relay *relay)
{
	DAT_CONN_QUAL qual, relayed;
	int listener = socket_listen(&pair->server, &relayed);

	listen_any(&pair->server, &qual);
	ck_dat(try_connect(pair->client.ep, &pair->server, relayed, TIME_LIMIT));
	relay->from_client = accept(listener, NULL, NULL);
	ck_assert_int_ge(relay->from_client, 0);
	relay->to_server = socket_connect(&pair->server, qual);
	relay_message(relay->from_client, relay->to_server);
	ck_dat(dat_cr_accept(expect_cr(&pair->server), pair->server.ep, 0, NULL));
	relay_message(relay->to_server, relay->from_client);
	expect_established(pair);
	close(listener);
}

/*
 * libfabric looks at a key when the header of a write has come, and at nothing afterwards; it tells
 * nobody of a write that has begun. libdaplofi(7) says so. What begins later is refused.
 */
START_TEST(a_write_that_has_begun_arrives_after_the_end_of_its_region)
{
	const volatile unsigned char *first, *last;
	struct region region;
	struct relay relay;
	struct pair pair;

	pair_open_unconnected(&pair, NULL);
	pair_connect_by_relay(&pair, &relay);
	region = region_map(&pair.server, SIDE_MEMORY, DAT_MEM_PRIV_ALL_FLAG);
	first = region.at;
	last = region.at + SIDE_MEMORY - 1;
	memset(pair.client.memory, 'x', SIDE_MEMORY);
	post_write(pair.client.ep, 1, segment(&pair.client, 0, SIDE_MEMORY),
		   region_target(&region, 0, SIDE_MEMORY), DAT_COMPLETION_DEFAULT_FLAG);
	for (size_t left = SIDE_MEMORY / 2; left;)
		left -= relay_some(relay.from_client, relay.to_server, left);
	while (*first != 'x')
		expect_no_event(pair.server.cr_evd);
	ck_dat(dat_lmr_free(region.lmr));
	while (*last != 'x') {
		(void)relay_some(relay.from_client, relay.to_server, SIZE_MAX);
		expect_no_event(pair.server.cr_evd);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * A program that polls memory may look between any two stores. The C library copies more than a
 * word with its end before its beginning.
 */
START_TEST(the_end_of_a_write_is_stored_at_once_and_last)
{
	static const size_t sizes[] = { 1,  2,	3,  4,	5,  6,	 7,   8,    9,	  10,	      12,
					15, 16, 17, 24, 31, 100, 401, 1000, 4175, SIDE_MEMORY };
	struct pair pair;

	pair_open(&pair, NULL);
	for (uint64_t i = 0; i < COUNT(sizes); i++) {
		const size_t size = sizes[i];

		pattern_fill(pair.client.memory, size, (unsigned)i);
		copied = 0;
		awaited = (const char *)pair.server.memory + size - 1;
		post_write(pair.client.ep, i, segment(&pair.client, 0, size),
			   target(&pair.server, 0, size), DAT_COMPLETION_DEFAULT_FLAG);
		expect_request_done(&pair.client, i, size);
		awaited = NULL;
		pattern_check(pair.server.memory, size, (unsigned)i);
		if (size < SIDE_MEMORY) /* the C library copies it, and the kernel larger ones */
			ck_assert_uint_gt(copied, 0);
		ck_assert_msg(copied <= 8 && !(copied & (copied - 1)),
			      "%zu bytes: the last %zu were copied together", size, copied);
	}
	pair_close_abrupt(&pair);
}
END_TEST

#define MORE_THAN_BUFFERS ((size_t)32 << 20) /* bytes; what no socket takes at once */

/* So it is with an answer that waits for room: what the memory has later leaves the process. */
START_TEST(a_read_that_has_begun_is_answered_after_the_end_of_its_region)
{
	static char bytes[65536];
	struct region region, sink;
	struct relay relay;
	struct pair pair;
	ssize_t got;

	pair_open_unconnected(&pair, NULL);
	pair_connect_by_relay(&pair, &relay);
	region = region_map(&pair.server, MORE_THAN_BUFFERS, DAT_MEM_PRIV_ALL_FLAG);
	sink = region_map(&pair.client, MORE_THAN_BUFFERS, DAT_MEM_PRIV_ALL_FLAG);
	post_read(pair.client.ep, 1, region_segment(&sink, 0, MORE_THAN_BUFFERS),
		  region_target(&region, 0, MORE_THAN_BUFFERS), DAT_COMPLETION_DEFAULT_FLAG);
	relay_message(relay.from_client, relay.to_server);
	ck_assert_int_eq(recv(relay.to_server, bytes, 1, MSG_PEEK), 1);
	ck_dat(dat_lmr_free(region.lmr));
	memset(region.at, 'z', MORE_THAN_BUFFERS);
	do {
		got = recv(relay.to_server, bytes, sizeof(bytes), 0);
		ck_assert_int_gt(got, 0);
	} while (bytes[got - 1] != 'z');
	pair_close_abrupt(&pair);
}
END_TEST

/*
 * ---- at an endpoint that is connected ----
 *
 * The messages of libfabric's tcp are recorded from a connection of ours, and played by a socket:
 * in part, or with other bytes. Each begins with a header of 16 bytes: version, op code, flags of
 * two bytes, kind of acknowledgement, number of segments of the peer's memory, size of all headers,
 * a number that nobody looks at, and the size of the message, which has eight bytes.
 */

struct frame {
	const char *what;
	char bytes[128];
	size_t size;
};

enum { FRAME_OP = 1, FRAME_FLAGS = 2, FRAME_ACK = 4, FRAME_HEADERS = 6, FRAME_SIZE = 8 };
#define FRAME_HEADER 16u
#define FRAME_DATA   8u /* bytes that are transferred */

enum { SEND, WRITE, READ, ACK, ANSWER, SEND_WITH_DATA, WRITE_WITH_DATA, FRAMES };

static struct frame frames[FRAMES] = {
	[SEND] = { .what = "a message" },
	[WRITE] = { .what = "a write" },
	[READ] = { .what = "a read" },
	[ACK] = { .what = "an acknowledgement" },
	[ANSWER] = { .what = "the answer of a read" },
	[SEND_WITH_DATA] = { .what = "a message with immediate data" },
	[WRITE_WITH_DATA] = { .what = "a write with immediate data" },
};

static void frame_record(struct frame *frame, int fd)
{
	uint64_t size = FRAME_HEADER;

	ck_assert_int_eq(recv(fd, frame->bytes, FRAME_HEADER, MSG_WAITALL), FRAME_HEADER);
	memcpy(&size, frame->bytes + FRAME_SIZE, sizeof(size));
	ck_assert_uint_ge(size, FRAME_HEADER);
	ck_assert_uint_le(size, sizeof(frame->bytes));
	frame->size = size;
	if (size > FRAME_HEADER)
		ck_assert_int_eq(
			recv(fd, frame->bytes + FRAME_HEADER, size - FRAME_HEADER, MSG_WAITALL),
			(ssize_t)size - FRAME_HEADER);
}

/* They stand behind the header, in eight bytes. No provider sends such as these. */
static void frame_add_data(struct frame *to, const struct frame *frame)
{
	memcpy(to->bytes, frame->bytes, FRAME_HEADER);
	memset(to->bytes + FRAME_HEADER, 0xfe, 8);
	memcpy(to->bytes + FRAME_HEADER + 8, frame->bytes + FRAME_HEADER,
	       frame->size - FRAME_HEADER);
	to->size = frame->size + 8;
	to->bytes[FRAME_FLAGS] |= 1;
	to->bytes[FRAME_HEADERS] += 8;
	to->bytes[FRAME_SIZE] += 8;
}

/* The contexts in them are those of this server's memory. */
static void frames_record(struct pair *pair)
{
	struct relay relay;

	pair_connect_by_relay(pair, &relay);
	post_send(pair->client.ep, 1, segment(&pair->client, 0, FRAME_DATA), 0);
	frame_record(&frames[SEND], relay.from_client);
	post_write(pair->client.ep, 2, segment(&pair->client, 0, FRAME_DATA),
		   target(&pair->server, 0, FRAME_DATA), 0);
	frame_record(&frames[WRITE], relay.from_client);
	post_read(pair->client.ep, 3, segment(&pair->client, 0, FRAME_DATA),
		  target(&pair->server, 0, FRAME_DATA), 0);
	frame_record(&frames[READ], relay.from_client);
	socket_send(relay.to_server, frames[WRITE].bytes, frames[WRITE].size);
	frame_record(&frames[ACK], relay.to_server);
	socket_send(relay.to_server, frames[READ].bytes, frames[READ].size);
	frame_record(&frames[ANSWER], relay.to_server);
	frame_add_data(&frames[SEND_WITH_DATA], &frames[SEND]);
	frame_add_data(&frames[WRITE_WITH_DATA], &frames[WRITE]);
	close(relay.from_client);
	close(relay.to_server);
	expect_ends(pair);
	expect_request_done(&pair->client, 1, FRAME_DATA);
	for (uint64_t cookie = 2; cookie <= 3; cookie++)
		expect_dto(pair->client.request_evd, pair->client.ep, cookie, DAT_DTO_ERR_FLUSHED,
			   0);
	pair_reset(pair);
}

/*
 * libfabric (1.17, and the newest at the time of writing) looks only in debug builds whether there
 * is a transfer that an acknowledgement is for, and whether the endpoint is one that takes tagged
 * messages: otherwise it follows a null pointer. Nothing above it can prevent that.
 */
static bool libfabric_fails(const char *bytes)
{
	uint64_t size;

	memcpy(&size, bytes + FRAME_SIZE, sizeof(size));
	return bytes[FRAME_OP] == 1 ||
	       (bytes[FRAME_OP] == 0 && bytes[FRAME_ACK] == 2 && size == FRAME_HEADER);
}

/* In DAT 2.0 a message with immediate data has an event of its own, and the rest is the same. */
static bool is_completion(DAT_EVENT_NUMBER number)
{
	return number == DAT_DTO_COMPLETION_EVENT ||
	       number == OF_EDITION(DAT_DTO_COMPLETION_EVENT, DAT_IB_EXTENSION_RANGE_BASE);
}

/* Each receive that was posted completes, in order, however. */
static void expect_recvs_completed(const struct side *side, uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		DAT_EVENT event;
		DAT_COUNT nmore;

		ck_dat(dat_evd_wait(side->recv_evd, TIME_LIMIT, 1, &event, &nmore));
		ck_assert_msg(is_completion(event.event_number), "event 0x%x", event.event_number);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64,
				  first + i);
	}
	expect_no_event(side->recv_evd);
	expect_no_event(side->request_evd);
	expect_no_event(side->connect_evd);
	expect_no_event(side->async_evd);
}

enum ending { CLOSE, RESET, SILENCE, ENDINGS };

#define RECVS 3u

/* A peer connects as a client of ours does, and then sends these bytes. */
static void peer_sends(struct pair *pair, DAT_CONN_QUAL qual, const void *bytes, size_t size,
		       enum ending ending)
{
	const struct linger reset = { .l_onoff = 1 };
	int fd = socket_connect(&pair->server, qual);
	char answer[512];

	socket_send(fd, request.bytes, request.size);
	post_recvs(&pair->server, 100, RECVS);
	ck_dat(dat_cr_accept(expect_cr(&pair->server), pair->server.ep, 0, NULL));
	expect_connection(&pair->server, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_assert_int_gt(recv(fd, answer, sizeof(answer), 0), 0);
	socket_send(fd, bytes, size);
	if (ending == CLOSE) {
		shutdown(fd, SHUT_WR);
	} else if (ending == RESET) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
	} else {
		(void)dat_ep_disconnect(pair->server.ep, DAT_CLOSE_ABRUPT_FLAG);
	}
	expect_end(&pair->server);
	expect_recvs_completed(&pair->server, 100, RECVS);
	ck_dat(dat_ep_reset(pair->server.ep));
	if (ending != RESET)
		socket_expect_end(fd);
}

/* Another connection of the IAs stands all the while. */
struct stage {
	struct pair pair, other;
	DAT_CONN_QUAL qual;
	unsigned sockets;
};

static void stage_open(struct stage *stage)
{
	pair_open_unconnected(&stage->pair, NULL);
	request_record(&stage->pair);
	frames_record(&stage->pair);
	pair_copy_in_new_zone(&stage->other, &stage->pair);
	listen_any(&stage->pair.server, &stage->qual);
	well_behaved_gets_in(&stage->pair, stage->qual);
	stage->sockets = open_sockets();
}

static void stage_close(struct stage *stage)
{
	exchange_messages(&stage->other);
	well_behaved_gets_in(&stage->pair, stage->qual);
	expect_open_sockets(&stage->pair.server, stage->sockets);
	pair_close_abrupt(&stage->pair);
}

START_TEST(a_message_without_its_end_ends_its_connection_alone)
{
	const struct frame *frame = &frames[_i];
	struct stage stage;

	stage_open(&stage);
	printf("# %s of %zu bytes\n", frame->what, frame->size);
	for (size_t size = 1; size < frame->size; size++) {
		for (enum ending ending = CLOSE; ending < ENDINGS; ending++)
			peer_sends(&stage.pair, stage.qual, frame->bytes, size, ending);
		exchange_messages(&stage.other);
	}
	stage_close(&stage);
}
END_TEST

/* What follows it is what the size or the number of segments then demand, or a message. */
START_TEST(a_message_with_another_byte_ends_its_connection_at_most)
{
	static const char values[] = { 0, 1, 3, 4, 0x7f, (char)0x80, (char)0xff };
	const struct frame *frame = &frames[_i];
	struct stage stage;

	stage_open(&stage);
	for (size_t at = 0; at < frame->size; at++) {
		printf("# %s, byte %zu of %zu\n", frame->what, at, frame->size);
		for (size_t i = 0; i < COUNT(values); i++) {
			char bytes[2 * sizeof(frame->bytes)];

			memcpy(bytes, frame->bytes, frame->size);
			bytes[at] = values[i];
			memcpy(bytes + frame->size, frames[SEND].bytes, frames[SEND].size);
			if (!libfabric_fails(bytes))
				peer_sends(&stage.pair, stage.qual, bytes,
					   frame->size + frames[SEND].size, CLOSE);
		}
		exchange_messages(&stage.other);
	}
	stage_close(&stage);
}
END_TEST

/* The size of a message that is larger than any receive, or than there is memory. */
START_TEST(bytes_that_are_no_messages_end_their_connection_alone)
{
	struct stage stage;
	char bytes[4096];
	unsigned seed = 1;

	stage_open(&stage);
	for (unsigned i = 0; i < 200; i++) {
		const size_t size = i % 2 ? sizeof(bytes) : FRAME_HEADER + i;

		for (size_t at = 0; at < size; at++)
			bytes[at] = (char)rand_r(&seed);
		if (i % 4 >= 2)
			bytes[FRAME_OP] = (char)(i / 4 % 5);
		if (!libfabric_fails(bytes))
			peer_sends(&stage.pair, stage.qual, bytes, size, CLOSE);
		if (i % 20 == 0)
			exchange_messages(&stage.other);
	}
	stage_close(&stage);
}
END_TEST

/* ---- at the connecting side ---- */

static const struct {
	const char *bytes;
	size_t size;
	bool silent; /* the socket stays open */
} answers[] = {
	{ "", 0, false },
	{ "", 0, true },
	{ "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47, false },
	{ "SSH-2.0-OpenSSH_9.2\r\n", 21, true },
	{ "\x03", 1, false },
	{ "\x03\x02\x00", 3, false },
	{ (const char[4096]){ 0 }, 4096, false },
};

START_TEST(an_answer_of_something_else_fails_the_attempt)
{
	const bool times_out = answers[_i].silent && !answers[_i].size;
	struct pair pair;
	DAT_CONN_QUAL qual;
	unsigned sockets;
	char bytes[512];
	int listener, fd;

	pair_open_unconnected(&pair, NULL);
	pair_connect(&pair);
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_reset(&pair);
	listener = socket_listen(&pair.server, &qual);
	sockets = open_sockets();
	stderr_redirect();
	ck_dat(try_connect(pair.client.ep, &pair.server, qual, times_out ? GIVE_UP : TIME_LIMIT));
	fd = accept(listener, NULL, NULL);
	ck_assert_int_gt(recv(fd, bytes, sizeof(bytes), 0), 0);
	socket_send(fd, answers[_i].bytes, answers[_i].size);
	if (!answers[_i].silent)
		close(fd);
	expect_connection(&pair.client, times_out ? DAT_CONNECTION_EVENT_TIMED_OUT
						  : DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_dat(dat_ep_reset(pair.client.ep));
	if (answers[_i].silent)
		socket_expect_end(fd);
	expect_open_sockets(&pair.server, sockets);
	ck_assert_int_eq(strstr(stderr_restore(), "what answers there is no uDAPL provider") !=
				 NULL,
			 !times_out);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* Records the answer of a server of ours, with which an accept begins. */
static size_t answer_record(struct pair *pair, char *bytes, size_t size)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = listen_any(&pair->server, &qual);
	int fd = socket_connect(&pair->server, qual);
	ssize_t got;

	socket_send(fd, request.bytes, request.size);
	ck_dat(dat_cr_accept(expect_cr(&pair->server), pair->server.ep, 0, NULL));
	expect_connection(&pair->server, DAT_CONNECTION_EVENT_ESTABLISHED);
	got = recv(fd, bytes, size, 0);
	ck_assert_int_gt(got, OUR_HEADER);
	close(fd);
	expect_end(&pair->server);
	ck_dat(dat_ep_reset(pair->server.ep));
	ck_dat(dat_psp_free(psp));
	return (size_t)got;
}

/* A client of ours gets these bytes for an answer. The socket stays open if @silent. */
static void answer_with(struct stage *stage, const char *bytes, size_t size, bool silent,
			DAT_EVENT_NUMBER event)
{
	struct pair *pair = &stage->pair;
	DAT_CONN_QUAL qual;
	int listener = socket_listen(&pair->server, &qual), fd;
	char ignored[512];

	ck_dat(try_connect(pair->client.ep, &pair->server, qual,
			   event == DAT_CONNECTION_EVENT_TIMED_OUT ? GIVE_UP : TIME_LIMIT));
	fd = accept(listener, NULL, NULL);
	ck_assert_int_gt(recv(fd, ignored, sizeof(ignored), 0), 0);
	socket_send(fd, bytes, size);
	if (!silent)
		shutdown(fd, SHUT_WR);
	exchange_messages(&stage->other);
	expect_connection(&pair->client, event);
	if (event == DAT_CONNECTION_EVENT_ESTABLISHED)
		expect_end(&pair->client);
	ck_dat(dat_ep_reset(pair->client.ep));
	socket_expect_end(fd);
	close(listener);
}

/* libfabric waits only for what follows its own header, and takes a part of that for all. */
START_TEST(an_answer_that_is_cut_anywhere_fails_the_attempt)
{
	static const struct {
		size_t lacks;
		DAT_EVENT_NUMBER event;
	} silent[] = {
		{ 1, DAT_CONNECTION_EVENT_NON_PEER_REJECTED },
		{ OUR_HEADER, DAT_CONNECTION_EVENT_TIMED_OUT },
		{ OUR_HEADER + 1, DAT_CONNECTION_EVENT_NON_PEER_REJECTED },
	};
	char answer[512];
	struct stage stage;
	size_t whole;

	stage_open(&stage);
	whole = answer_record(&stage.pair, answer, sizeof(answer));
	stderr_redirect();
	for (size_t size = 0; size < whole; size++)
		answer_with(&stage, answer, size, false, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	for (size_t i = 0; i < COUNT(silent); i++)
		answer_with(&stage, answer, whole - silent[i].lacks, true, silent[i].event);
	answer_with(&stage, answer, whole, false, DAT_CONNECTION_EVENT_ESTABLISHED);
	(void)stderr_restore();
	stage_close(&stage);
}
END_TEST

/* ---- programs of libfabric ---- */

struct stranger {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_pep *pep;
};

static struct {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
} libfabric;

static void libfabric_find(void)
{
	void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);

	ck_assert_ptr_nonnull(library);
	*(void **)&libfabric.getinfo = dlsym(library, "fi_getinfo");
	*(void **)&libfabric.dupinfo = dlsym(library, "fi_dupinfo");
	*(void **)&libfabric.freeinfo = dlsym(library, "fi_freeinfo");
	*(void **)&libfabric.fabric = dlsym(library, "fi_fabric");
}

static void stranger_open(struct stranger *stranger)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG };
	struct fi_info *hints;

	libfabric_find();
	memset(stranger, 0, sizeof(*stranger));
	hints = libfabric.dupinfo(NULL);
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->fabric_attr->prov_name = strdup("tcp");
	ck_assert_int_eq(libfabric.getinfo(FI_VERSION(1, 11), getenv("DAT_TEST_ADDR0"), "0",
					   FI_SOURCE, hints, &stranger->info),
			 0);
	libfabric.freeinfo(hints);
	ck_assert_int_eq(libfabric.fabric(stranger->info->fabric_attr, &stranger->fabric, NULL), 0);
	ck_assert_int_eq(fi_domain(stranger->fabric, stranger->info, &stranger->domain, NULL), 0);
	ck_assert_int_eq(fi_eq_open(stranger->fabric, &eq_attr, &stranger->eq, NULL), 0);
	ck_assert_int_eq(fi_cq_open(stranger->domain, &cq_attr, &stranger->cq, NULL), 0);
}

static void stranger_make_ep(struct stranger *stranger, struct fi_info *info)
{
	ck_assert_int_eq(fi_endpoint(stranger->domain, info, &stranger->ep, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(stranger->ep, &stranger->eq->fid, 0), 0);
	ck_assert_int_eq(fi_ep_bind(stranger->ep, &stranger->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ck_assert_int_eq(fi_enable(stranger->ep), 0);
}

static void stranger_close(struct stranger *stranger)
{
	if (stranger->ep)
		fi_close(&stranger->ep->fid);
	if (stranger->pep)
		fi_close(&stranger->pep->fid);
	fi_close(&stranger->cq->fid);
	fi_close(&stranger->domain->fid);
	fi_close(&stranger->eq->fid);
	fi_close(&stranger->fabric->fid);
	libfabric.freeinfo(stranger->info);
}

/* libfabric's tcp does nothing unless the queue is read. */
static ssize_t stranger_event(struct stranger *stranger, uint32_t *type,
			      struct fi_eq_cm_entry *entry)
{
	ssize_t got;

	do
		got = fi_eq_sread(stranger->eq, type, entry, sizeof(*entry), 10, 0);
	while (got == -FI_EAGAIN);
	return got;
}

static void stranger_connect(struct stranger *stranger, const struct side *server,
			     DAT_CONN_QUAL qual, const void *data, size_t size)
{
	struct sockaddr_in address = server->address;

	address.sin_port = htons((uint16_t)qual);
	stranger_make_ep(stranger, stranger->info);
	ck_assert_int_eq(fi_connect(stranger->ep, &address, data, size), 0);
}

/* The private data of a request: four bytes of ours come first. */
static const struct {
	const char *data;
	size_t size;
} strange[] = {
	{ "", 0 },
	{ "\xda", 1 },
	{ "\xda\x11\x04", 3 },
	{ "\xdb\x11\x04\x04", 4 },
	{ "\xda\x21\x04\x04", 4 },
	{ "\xda\x12\x04\x04", 4 },
	{ "hello, here is a program of libfabric", 38 },
};

START_TEST(a_client_that_is_no_provider_is_refused)
{
	struct fi_eq_cm_entry entry;
	struct stranger stranger;
	struct pair pair;
	DAT_CONN_QUAL qual;
	uint32_t type;
	unsigned sockets;

	pair_open_unconnected(&pair, NULL);
	listen_any(&pair.server, &qual);
	well_behaved_gets_in(&pair, qual);
	sockets = open_sockets();
	stderr_redirect();
	for (unsigned round = 0; round < 2; round++) {
		stranger_open(&stranger);
		stranger_connect(&stranger, &pair.server, qual, strange[_i].data, strange[_i].size);
		ck_assert_int_eq(stranger_event(&stranger, &type, &entry), -FI_EAVAIL);
		stranger_close(&stranger);
	}
	expect_open_sockets(&pair.server, sockets);
	const char *text = strstr(stderr_restore(), "its sender is no uDAPL provider");

	ck_assert_ptr_nonnull(text); /* once, however many there are */
	ck_assert_ptr_null(strstr(text + 1, "its sender is no uDAPL provider"));
	expect_no_event(pair.server.cr_evd);
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

/* It is as ours until then. */
START_TEST(a_client_that_ends_before_the_accept_is_given_up)
{
	struct stranger stranger;
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE cr;
	int fd;

	pair_open_unconnected(&pair, NULL);
	request_record(&pair);
	listen_any(&pair.server, &qual);
	well_behaved_gets_in(&pair, qual);
	if (_i == 0) { /* in good order */
		fd = socket_connect(&pair.server, qual);
		socket_send(fd, request.bytes, request.size);
		cr = expect_cr(&pair.server);
		close(fd);
	} else if (_i == 1) { /* by a reset */
		const struct linger linger = { .l_onoff = 1 };

		fd = socket_connect(&pair.server, qual);
		socket_send(fd, request.bytes, request.size);
		cr = expect_cr(&pair.server);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		close(fd);
	} else {
		struct fi_eq_cm_entry entry;
		uint32_t type;

		stranger_open(&stranger);
		stranger_connect(&stranger, &pair.server, qual, "\xda\x11\x04\x04", 4);
		(void)fi_eq_sread(stranger.eq, &type, &entry, sizeof(entry), 10, 0);
		cr = expect_cr(&pair.server);
		stranger_close(&stranger);
	}
	accept_given_up(&pair.server, cr);
	ck_dat(dat_ep_reset(pair.server.ep));
	well_behaved_gets_in(&pair, qual);
	pair_close_abrupt(&pair);
}
END_TEST

enum act { ACCEPT, REJECT, IGNORE };

static const struct {
	enum act act;
	const char *data;
	size_t size;
	DAT_EVENT_NUMBER event;
	bool told;
} servers[] = {
	{ ACCEPT, "", 0, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, true },
	{ ACCEPT, "\xda\x12\x04", 3, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, true },
	{ ACCEPT, "\xda\x11\x04\x04", 4, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, true },
	{ ACCEPT, "some greeting", 13, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, true },
	/* as ours; it ends before anything is sent */
	{ ACCEPT, "\xda\x12\x04\x04", 4, DAT_CONNECTION_EVENT_ESTABLISHED, false },
	{ REJECT, "", 0, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, false },
	{ REJECT, "some reason", 11, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, false },
	{ REJECT, "\xda\x13\x00\x00", 4, DAT_CONNECTION_EVENT_PEER_REJECTED, false },
	{ IGNORE, "", 0, DAT_CONNECTION_EVENT_TIMED_OUT, false },
};

START_TEST(a_server_that_is_no_provider_fails_the_attempt)
{
	struct fi_eq_cm_entry entry, after;
	struct sockaddr_in address;
	size_t size = sizeof(address);
	struct stranger stranger;
	struct pair pair;
	uint32_t type;

	pair_open_unconnected(&pair, NULL);
	stranger_open(&stranger);
	ck_assert_int_eq(fi_passive_ep(stranger.fabric, stranger.info, &stranger.pep, NULL), 0);
	ck_assert_int_eq(fi_pep_bind(stranger.pep, &stranger.eq->fid, 0), 0);
	ck_assert_int_eq(fi_listen(stranger.pep), 0);
	ck_assert_int_eq(fi_getname(&stranger.pep->fid, &address, &size), 0);
	stderr_redirect();
	ck_dat(try_connect(pair.client.ep, &pair.server, ntohs(address.sin_port),
			   servers[_i].act == IGNORE ? GIVE_UP : TIME_LIMIT));
	ck_assert_int_gt(stranger_event(&stranger, &type, &entry), 0);
	ck_assert_uint_eq(type, FI_CONNREQ);
	if (servers[_i].act == ACCEPT) {
		stranger_make_ep(&stranger, entry.info);
		ck_assert_int_eq(fi_accept(stranger.ep, servers[_i].data, servers[_i].size), 0);
		ck_assert_int_gt(stranger_event(&stranger, &type, &after), 0);
	} else if (servers[_i].act == REJECT) {
		ck_assert_int_eq(fi_reject(stranger.pep, entry.info->handle, servers[_i].data,
					   servers[_i].size),
				 0);
	}
	expect_connection(&pair.client, servers[_i].event);
	if (servers[_i].act == IGNORE) /* libfabric would keep it for ever */
		(void)fi_reject(stranger.pep, entry.info->handle, NULL, 0);
	libfabric.freeinfo(entry.info);
	ck_assert_int_eq(strstr(stderr_restore(), "is no uDAPL provider") != NULL,
			 servers[_i].told);
	if (servers[_i].event == DAT_CONNECTION_EVENT_ESTABLISHED) {
		post_recv(pair.client.ep, 1, segment(&pair.client, 0, 8));
		fi_shutdown(stranger.ep, 0);
		expect_connection(&pair.client, DAT_CONNECTION_EVENT_DISCONNECTED);
		expect_dto(pair.client.recv_evd, pair.client.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	}
	stranger_close(&stranger);
	ck_dat(dat_ep_reset(pair.client.ep));
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase;

	if (!device_choose() || strcmp(device()->kind, "tcp") != 0)
		skip_all_cases("the peers are played over libfabric's tcp");
	device_preload();
	tcase = tcase_create("peers");
	tcase_add_test(tcase, sockets_of_connections_are_found_without_a_search);
	tcase_add_loop_test(tcase, garbage_on_the_listening_port_is_dropped, 0,
			    (int)COUNT(garbage));
	tcase_add_test(tcase, a_request_without_its_end_holds_up_nobody);
	tcase_add_test(tcase, a_request_that_is_cut_anywhere_is_dropped);
	tcase_add_test(tcase, a_request_with_another_byte_is_rejected_at_most);
	tcase_add_test(tcase, an_answer_that_is_cut_anywhere_fails_the_attempt);
	tcase_add_test(tcase, silent_connections_use_no_time_and_leave_nothing);
	tcase_add_loop_test(tcase, silent_connections_end_with_their_listener, 0, 2);
	tcase_add_test(tcase, connections_beyond_the_descriptors_use_no_time);
	tcase_add_loop_test(tcase, a_call_without_descriptors_says_so_and_can_be_repeated, 0,
			    (int)COUNT(makers));
	tcase_add_test(tcase, an_accept_needs_no_descriptor);
	tcase_add_test(tcase, a_write_that_has_begun_arrives_after_the_end_of_its_region);
	tcase_add_test(tcase, a_read_that_has_begun_is_answered_after_the_end_of_its_region);
	tcase_add_test(tcase, the_end_of_a_write_is_stored_at_once_and_last);
	tcase_add_loop_test(tcase, a_message_without_its_end_ends_its_connection_alone, 0, FRAMES);
	tcase_add_loop_test(tcase, a_message_with_another_byte_ends_its_connection_at_most, 0,
			    FRAMES);
	tcase_add_test(tcase, bytes_that_are_no_messages_end_their_connection_alone);
	tcase_add_test(tcase, what_is_behind_a_message_without_bytes_wakes_up_nobody);
	tcase_add_test(tcase, messages_wake_up_the_thread_that_waits_for_them_alone);
	tcase_add_loop_test(tcase, an_answer_of_something_else_fails_the_attempt, 0,
			    (int)COUNT(answers));
	tcase_add_loop_test(tcase, a_client_that_is_no_provider_is_refused, 0, (int)COUNT(strange));
	tcase_add_loop_test(tcase, a_client_that_ends_before_the_accept_is_given_up, 0, 3);
	tcase_add_loop_test(tcase, a_server_that_is_no_provider_fails_the_attempt, 0,
			    (int)COUNT(servers));
	return run_cases(argc, argv);
}
