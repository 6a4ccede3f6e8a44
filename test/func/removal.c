/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device under a program changes: it is removed and comes back, its port goes down and up, its
 * address goes and comes back, or descriptors run out.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../consumer/consumer.h"

/* ---- the client's device and interface ---- */

#define DEVICE_REMOVE "rdma link delete $client"
#define DEVICE_ADD    "rdma link add $client type $kind netdev v1"
#define PORT_DOWN     "ip link set v1 down"
#define ADDRESS_ADD   "ip address add 10.77.0.2/24 dev v1"
#define ADDRESS_DEL   "ip address del 10.77.0.2/24 dev v1"
/* As the guest had it: the kernel forgets these with the address or when the port is down. */
#define PORT_UP                                                                                    \
	"ip link set v1 up && ip route replace 10.77.0.1 dev v1 src 10.77.0.2 table 102 && "       \
	"ip neighbour replace 10.77.0.1 lladdr 02:00:00:00:00:01 dev v1 nud permanent"

static void run(const char *command)
{
	ck_assert_msg(system(command) == 0, "%s failed", command);
}

/* In another process: its end may come only after this one has closed the device. */
static pid_t run_aside(const char *command)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(1);
	}
	return pid;
}

/* What a case that failed has left behind is put right. */
static void setup_network(void)
{
	const char *kind = device()->kind, *through = strchr(kind, '-');
	char client[16];

	if (through) /* "ofi-rxe": through libfabric */
		kind = through + 1;
	snprintf(client, sizeof(client), "%s1", kind);
	setenv("kind", kind, 1);
	setenv("client", client, 1);
	run(ADDRESS_ADD " 2>/dev/null || true");
	run(PORT_UP);
	run("rdma link show $client/1 >/dev/null 2>&1 || " DEVICE_ADD);
}

/* Returns when every other thread of this process sleeps, time after time. */
static void expect_threads_asleep(void)
{
	unsigned times = 0;

	while (times < 20) {
		DIR *tasks = opendir("/proc/self/task");
		const struct dirent *entry;
		bool asleep = true;

		ck_assert_ptr_nonnull(tasks);
		while ((entry = readdir(tasks))) {
			char path[64], state = 0;
			int tid = atoi(entry->d_name);
			FILE *stat;

			if (tid <= 0 || tid == gettid())
				continue;
			snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
			stat = fopen(path, "r");
			if (!stat)
				continue;
			ck_assert_int_eq(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
			fclose(stat);
			asleep = asleep && state == 'S';
		}
		closedir(tasks);
		times = asleep ? times + 1 : 0;
		sched_yield();
	}
}

static void expect_removal(const struct side *side)
{
	DAT_EVENT event = expect_event(side->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);

	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, side->ia);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason,
			 DAT_IA_CATASTROPHIC_ERROR);
	expect_no_event(side->async_evd);
}

/* ---- removal ---- */

/* The kernel may keep the device until nobody uses it. */
static void close_and_add_again(struct pair *pair, pid_t remover)
{
	side_close_abrupt(&pair->client);
	process_end(remover);
	side_close_abrupt(&pair->server);
	run(DEVICE_ADD);
}

START_TEST(removal_ends_an_idle_connection)
{
	struct waiter waiter = { 0 };
	struct pair pair;
	pid_t remover;

	pair_open(&pair, NULL);
	waiter.evd = pair.client.recv_evd;
	waiter_start(&waiter);
	remover = run_aside(DEVICE_REMOVE);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
	expect_removal(&pair.client);
	expect_threads_asleep();
	close_and_add_again(&pair, remover);
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, 0));
}
END_TEST

START_TEST(removal_ends_a_wait_for_a_receive)
{
	struct waiter waiter = { 0 };
	struct pair pair;
	pid_t remover;

	pair_open(&pair, NULL);
	post_recvs(&pair.client, 1, 3);
	waiter.evd = pair.client.recv_evd;
	waiter_start(&waiter);
	remover = run_aside(DEVICE_REMOVE);
	ck_dat(waiter_join(&waiter));
	ck_assert_int_eq(waiter.event.event_data.dto_completion_event_data.status,
			 DAT_DTO_ERR_FLUSHED);
	expect_flushed_recvs(&pair.client, 2, 2);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
	expect_removal(&pair.client);
	expect_threads_asleep();
	close_and_add_again(&pair, remover);
}
END_TEST

START_TEST(removal_triggers_a_cno)
{
	struct waiter waiter = { 0 };
	struct pair pair;
	pid_t remover;

	pair_open(&pair, NULL);
	ck_dat(dat_cno_create(pair.client.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &waiter.cno));
	ck_dat(dat_evd_modify_cno(pair.client.recv_evd, waiter.cno));
	post_recvs(&pair.client, 1, 1);
	waiter_start(&waiter);
	remover = run_aside(DEVICE_REMOVE);
	ck_dat(waiter_join(&waiter));
	ck_assert_ptr_eq(waiter.triggered, pair.client.recv_evd);
	expect_flushed_recvs(&pair.client, 1, 1);
	waiter_start(&waiter);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
	expect_removal(&pair.client);
	expect_threads_asleep();
	close_and_add_again(&pair, remover);
	ck_dat(waiter_join(&waiter));
	ck_assert_ptr_null(waiter.triggered);
}
END_TEST

/* Every request that was taken completes, in order; what comes too late is flushed. */
START_TEST(removal_while_posting_loses_no_completion)
{
	uint64_t posted = 0, done = 0, late = 0;
	DAT_EP_STATE state = DAT_EP_STATE_CONNECTED;
	struct pair pair;
	pid_t remover;

	pair_open(&pair, NULL);
	remover = run_aside(DEVICE_REMOVE);
	while (late < 5 || done < posted) {
		DAT_LMR_TRIPLET from = segment(&pair.client, 0, 64);
		DAT_RMR_TRIPLET to = target(&pair.server, 0, 64);
		DAT_EVENT event;

		if (state != DAT_EP_STATE_CONNECTED)
			late++;
		if (late < 5 &&
		    dat_ep_post_rdma_write(pair.client.ep, 1, &from, cookie_of(posted), &to,
					   DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS)
			posted++;
		state = ep_get_state(pair.client.ep);
		if (dat_evd_dequeue(pair.client.request_evd, &event) != DAT_SUCCESS)
			continue;
		ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64,
				  done);
		done++;
	}
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
	expect_no_event(pair.client.request_evd);
	expect_removal(&pair.client);
	expect_threads_asleep();
	close_and_add_again(&pair, remover);
}
END_TEST

/* The asynchronous EVD has room for 8 events: the removal is one. */
START_TEST(removal_ends_many_connections)
{
	size_t count = device()->max_eps > 100 ? 100 : device()->max_eps - 1;
	DAT_EP_HANDLE eps[100];
	struct pair pair;
	pid_t remover;

	pair_open(&pair, NULL);
	eps[0] = pair.client.ep;
	for (size_t i = 1; i < count; i++) {
		eps[i] = side_create_ep(&pair.client, NULL);
		connect_eps(&pair.client, eps[i], &pair.server, side_create_ep(&pair.server, NULL));
		post_recv(eps[i], i, segment(&pair.client, 0, 8));
	}
	remover = run_aside(DEVICE_REMOVE);
	for (size_t i = 0; i < count; i++)
		expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	for (size_t i = 1; i < count; i++)
		expect_event(pair.client.recv_evd, DAT_DTO_COMPLETION_EVENT);
	for (size_t i = 0; i < count; i++)
		ck_assert_int_eq(ep_get_state(eps[i]), DAT_EP_STATE_DISCONNECTED);
	expect_removal(&pair.client);
	expect_threads_asleep();
	close_and_add_again(&pair, remover);
}
END_TEST

/* The same process uses it again, and it goes again; each object can be freed. */
START_TEST(device_may_come_back_and_go_again)
{
	unsigned descriptors = 0;

	for (int i = 0; i < 3; i++) {
		struct pair pair;
		pid_t remover;

		pair_open(&pair, NULL);
		exchange_messages(&pair);
		remover = run_aside(DEVICE_REMOVE);
		expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
		expect_removal(&pair.client);
		side_close(&pair.client);
		process_end(remover);
		side_close_abrupt(&pair.server);
		if (!descriptors)
			descriptors = count_entries("/proc/self/fd");
		ck_assert_uint_eq(count_entries("/proc/self/fd"), descriptors);
		run(DEVICE_ADD);
	}
}
END_TEST

/* ---- the port and its address ---- */

static void expect_port_down(const struct side *side)
{
	DAT_EVENT event = expect_event(side->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);

	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, DAT_IA_OTHER_ERROR);
}

/* soft-iWARP ends its connections. */
START_TEST(connections_outlive_a_port_that_is_down)
{
	struct pair pair;

	pair_open(&pair, NULL);
	exchange_messages(&pair);
	run(PORT_DOWN);
	expect_port_down(&pair.client);
	run(PORT_UP);
	if (strstr(device()->kind, "siw")) {
		expect_end(&pair.client);
		ck_dat(dat_ep_disconnect(pair.server.ep, DAT_CLOSE_ABRUPT_FLAG));
		expect_end(&pair.server);
		pair_reconnect(&pair);
	}
	exchange_messages(&pair);
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_reconnect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* An attempt while it is gone fails, at once or by an event, and later ones succeed. */
START_TEST(address_may_go_and_come_back)
{
	struct pair pair;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret;

	pair_open_unconnected(&pair, NULL);
	psp = listen_any(&pair.server, &qual);
	run(ADDRESS_DEL);
	ret = try_connect(pair.client.ep, &pair.server, qual, TIME_LIMIT);
	if (ret == DAT_SUCCESS) {
		ck_dat(dat_evd_wait(pair.client.connect_evd, TIME_LIMIT, 1, &event, &nmore));
		printf("# event %#x\n", event.event_number);
		ck_assert(event.event_number == DAT_CONNECTION_EVENT_UNREACHABLE ||
			  event.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_dat(dat_ep_reset(pair.client.ep));
	} else {
		printf("# %s\n", status_text(ret));
		ck_assert_int_eq(DAT_GET_TYPE(ret), DAT_INVALID_ADDRESS);
	}
	ck_dat(dat_psp_free(psp));
	run(ADDRESS_ADD);
	run(PORT_UP);
	pair_connect(&pair);
	exchange_messages(&pair);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- descriptors ---- */

/*
 * With its asynchronous EVD, after libraries below have opened what they keep. Of libfabric's there
 * are two more: its event queue is a set of descriptors and a pair of sockets.
 */
START_TEST(an_ia_has_few_descriptors)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	/* 8: libfabric's verbs has another descriptor in its event queue */
	unsigned most = !device_has(NEEDS_RDMA_DEVICE) ? 7 : device_has(NEEDS_ACCESS_FLAGS) ? 5 : 8;
	struct side side, first;
	unsigned before;

	side_open_ia(&first, ia_name(CLIENT, BY_INTERFACE), false);
	before = count_entries("/proc/self/fd");
	strcpy(side.name, first.name);
	ck_dat(dat_ia_open(side.name, 8, &async, &side.ia));
	ck_assert_uint_le(count_entries("/proc/self/fd"), before + most);
	ck_dat(dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before);
	ck_dat(dat_ia_close(first.ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

/* Wherever the open meets the limit. */
START_TEST(an_open_without_descriptors_names_their_limit)
{
	DAT_RETURN ret = DAT_CLASS_ERROR;
	struct side side;
	unsigned n;

	side_open_ia(&side, ia_name(CLIENT, BY_INTERFACE), false); /* loads the libraries */
	ck_dat(dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG));
	for (n = 0; n < 30 && ret != DAT_SUCCESS; n++) {
		DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
		const char *log;

		stderr_redirect();
		descriptors_allow(n);
		ret = dat_ia_open(side.name, 8, &async, &side.ia);
		descriptors_allow(100);
		log = stderr_restore();
		if (ret == DAT_SUCCESS)
			break;
		ck_assert_msg(DAT_GET_TYPE(ret) == DAT_INSUFFICIENT_RESOURCES &&
				      strstr(log, "ulimit -n"),
			      "with %u: %s, and: %s", n, status_text(ret), log);
	}
	ck_dat(ret);
	printf("# with %u descriptors it opens\n", n);
	ck_assert_uint_ge(n, 5);
	ck_dat(dat_ia_close(side.ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ removal_ends_an_idle_connection, NEEDS_OWN_DEVICES | NEEDS_RELEASE },
		{ removal_ends_a_wait_for_a_receive, NEEDS_OWN_DEVICES | NEEDS_RELEASE },
		{ removal_triggers_a_cno, NEEDS_OWN_DEVICES | NEEDS_RELEASE },
		{ removal_while_posting_loses_no_completion, NEEDS_OWN_DEVICES | NEEDS_RELEASE },
		{ removal_ends_many_connections, NEEDS_OWN_DEVICES | NEEDS_RELEASE },
		{ device_may_come_back_and_go_again, NEEDS_OWN_DEVICES | NEEDS_RELEASE },
		{ connections_outlive_a_port_that_is_down, NEEDS_OWN_DEVICES | NEEDS_PORT_EVENTS },
		{ address_may_go_and_come_back, NEEDS_OWN_DEVICES },
		{ an_ia_has_few_descriptors, NEEDS_NOTHING },
		{ an_open_without_descriptors_names_their_limit, NEEDS_NOTHING },
	};

	if (!device_choose())
		skip_all_cases("no RDMA device here: make check-vm runs this where there is one");
	if (device_has(NEEDS_OWN_DEVICES))
		case_fixture(NULL, setup_network, NULL);
	add_device_cases(tcase_create("device"), cases, COUNT(cases));
	return run_cases(argc, argv);
}
