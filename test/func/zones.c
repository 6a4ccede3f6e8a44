/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection zones on a device: endpoints of several zones share EVDs, whoever looks at these. What
 * peers of another zone can't reach is in memory.c, windows.c and faults.c.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../consumer/consumer.h"
#include "../harness/process.h"

#define PIECE ((size_t)64) /* bytes of a message */

/* Two connections of the same sides. Those of the server have a zone each, and share its EVDs. */
static struct pair pair, other;

static void open_both(void)
{
	pair_open(&pair, NULL);
	pair_copy_in_new_zone(&other, &pair);
}

static void close_both(void)
{
	pair_close_abrupt(&pair);
}

static void post_receive(const struct pair *to, uint64_t n)
{
	post_recv(to->server.ep, n, segment(&to->server, n * PIECE, PIECE));
}

static void send_to(const struct pair *to, uint64_t n)
{
	post_send(to->client.ep, n, segment(&to->client, 0, PIECE), DAT_COMPLETION_DEFAULT_FLAG);
}

/* ---- one EVD for two zones ---- */

START_TEST(transfers_of_two_zones_complete_on_one_evd)
{
	open_both();
	for (unsigned i = 0; i < 20; i++) {
		exchange_messages(i % 3 ? &pair : &other);
		expect_write(&pair, target(&pair.server, 0, 1000));
		expect_read(&other, target(&other.server, 0, 1000));
		expect_write(&other, target(&other.server, 2000, 1000));
		expect_read(&pair, target(&pair.server, 2000, 1000));
	}
	close_both();
}
END_TEST

/* Takes so many completions with dat_evd_dequeue; the cookies of each endpoint count up. */
static void take_in_order(DAT_EVD_HANDLE evd, unsigned n)
{
	uint64_t next[2] = { 0 };

	while (n) {
		DAT_EVENT event;
		const DAT_DTO_COMPLETION_EVENT_DATA *dto;

		if (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
			continue;
		dto = &event.event_data.dto_completion_event_data;
		ck_assert_int_eq(dto->status, DAT_DTO_SUCCESS);
		ck_assert_uint_eq(dto->user_cookie.as_64,
				  next[dto->ep_handle == other.server.ep]++);
		n--;
	}
}

START_TEST(polls_take_the_completions_of_each_zone_in_order)
{
	enum { MESSAGES = 50 }; /* more than libfabric is asked for at once */
	DAT_EP_ATTR attr = ep_attr_for(MESSAGES, MESSAGES);

	pair_open(&pair, &attr);
	memcpy(&other, &pair, sizeof(other));
	side_copy_in_new_zone(&other.server, &pair.server);
	other.client.ep = side_create_ep(&other.client, &attr);
	other.server.ep = side_create_ep(&other.server, &attr);
	pair_connect(&other);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < MESSAGES; i++) {
			post_receive(&pair, i);
			post_receive(&other, i);
		}
		for (unsigned i = 0; i < MESSAGES; i++) {
			send_to(&other, i);
			send_to(&pair, i);
		}
		take_in_order(pair.server.recv_evd, 2 * MESSAGES);
		for (unsigned i = 0; i < 2 * MESSAGES; i++)
			expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	}
	close_both();
}
END_TEST

/* Wakes the waiter by a message, of either zone in turn; the first is sent when both are there. */
static const struct pair *wake_by_message(struct waiter *waiter, unsigned i)
{
	const struct pair *to = i % 2 ? &pair : &other;

	waiter_start(waiter);
	if (!i)
		pair_copy_in_new_zone(&other, &pair);
	post_receive(to, i);
	send_to(to, i);
	ck_dat(waiter_join(waiter));
	return to;
}

/* The thread may sleep since before there was a second zone. */
START_TEST(a_message_of_either_zone_wakes_the_waiter)
{
	pair_open(&pair, NULL);
	for (unsigned i = 0; i < 6; i++) {
		struct waiter waiter = { .evd = pair.server.recv_evd };
		const struct pair *to = wake_by_message(&waiter, i);

		ck_assert_ptr_eq(waiter.event.event_data.dto_completion_event_data.ep_handle,
				 to->server.ep);
	}
	close_both();
}
END_TEST

START_TEST(a_message_of_either_zone_triggers_the_cno)
{
	DAT_CNO_HANDLE cno;

	pair_open(&pair, NULL);
	ck_dat(dat_cno_create(pair.server.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(dat_evd_modify_cno(pair.server.recv_evd, cno));
	for (unsigned i = 0; i < 6; i++) {
		struct waiter waiter = { .cno = cno };
		const struct pair *to = wake_by_message(&waiter, i);

		ck_assert_ptr_eq(waiter.triggered, pair.server.recv_evd);
		expect_dto(pair.server.recv_evd, to->server.ep, i, DAT_DTO_SUCCESS, PIECE);
	}
	close_both();
}
END_TEST

START_TEST(resize_keeps_the_completions_of_each_zone)
{
	open_both();
	for (unsigned i = 0; i < 4; i++) {
		post_receive(&pair, i);
		post_receive(&other, i);
		send_to(&pair, i);
		send_to(&other, i);
	}
	for (unsigned i = 0; i < 8; i++)
		expect_event(pair.client.request_evd, DAT_DTO_COMPLETION_EVENT);
	ck_dat(dat_evd_resize(pair.server.recv_evd, 4 * SIDE_QLEN));
	take_in_order(pair.server.recv_evd, 8);
	exchange_messages(&other);
	close_both();
}
END_TEST

/* ---- endpoints that come and go ---- */

START_TEST(an_endpoint_is_connected_in_the_zone_that_it_was_moved_to)
{
	DAT_EP_PARAM param = { .pz_handle = NULL };

	pair_open(&pair, NULL);
	memcpy(&other, &pair, sizeof(other));
	side_copy_in_new_zone(&other.server, &pair.server);
	other.client.ep = side_create_ep(&pair.client, NULL);
	other.server.ep = side_create_ep(&pair.server, NULL);
	param.pz_handle = other.server.pz;
	ck_dat(dat_ep_modify(other.server.ep, DAT_EP_FIELD_PZ_HANDLE, &param));
	pair_connect(&other);
	expect_write(&other, target(&other.server, 0, PIECE));
	expect_write_refused(&other, target(&pair.server, 0, PIECE));
	expect_read(&other, target(&other.server, 0, PIECE));
	exchange_messages(&pair);
	close_both();
}
END_TEST

/* The one that is freed leaves receives behind, and a message that found none. */
START_TEST(endpoints_of_the_other_zone_end_while_one_is_used)
{
	open_both();
	for (unsigned i = 0; i < 10; i++) {
		const struct pair *gone = i % 2 ? &other : &pair;

		post_receive(gone, 1);
		if (i % 4 >= 2) {
			send_to(gone, 2);
			send_to(gone, 3);
		}
		ck_dat(dat_ep_free(i % 2 ? other.server.ep : pair.server.ep));
		expect_connection_of(&pair.client, gone->client.ep,
				     DAT_CONNECTION_EVENT_DISCONNECTED);
		while (dat_evd_dequeue(pair.client.request_evd, &(DAT_EVENT){ 0 }) == DAT_SUCCESS)
			;
		while (dat_evd_dequeue(pair.server.recv_evd, &(DAT_EVENT){ 0 }) == DAT_SUCCESS)
			;
		exchange_messages(i % 2 ? &pair : &other);
		ck_dat(dat_ep_reset(gone->client.ep));
		if (i % 2) {
			other.server.ep = side_create_ep(&other.server, NULL);
			pair_connect(&other);
		} else {
			pair.server.ep = side_create_ep(&pair.server, NULL);
			pair_connect(&pair);
		}
		exchange_messages(gone);
	}
	close_both();
}
END_TEST

/* ---- shared receives ---- */

START_TEST(each_zone_has_shared_receives_of_its_own)
{
	DAT_SRQ_ATTR srq_attr = { .max_recv_dtos = 8, .max_recv_iov = 1 };
	DAT_EP_ATTR attr = ep_attr_for(1, 16);
	struct pair ends[2];
	DAT_SRQ_HANDLE srqs[2];

	pair_open(&pair, NULL);
	for (unsigned i = 0; i < 2; i++) {
		struct side *server = &ends[i].server;

		memcpy(&ends[i], &pair, sizeof(pair));
		if (i)
			side_copy_in_new_zone(server, &pair.server);
		ck_dat(dat_srq_create(server->ia, server->pz, &srq_attr, &srqs[i]));
		ck_dat(dat_ep_create_with_srq(server->ia, server->pz, server->recv_evd,
					      server->request_evd, server->connect_evd, srqs[i],
					      &attr, &server->ep));
		ends[i].client.ep = side_create_ep(&pair.client, NULL);
		pair_connect(&ends[i]);
	}
	for (unsigned n = 0; n < 40; n++) {
		const struct side *server = &ends[n % 2].server;
		DAT_LMR_TRIPLET iov = segment(server, n * PIECE, PIECE);

		ck_dat(dat_srq_post_recv(srqs[n % 2], 1, &iov, cookie_of(n)));
		send_to(&ends[n % 2], n);
		expect_dto(pair.server.recv_evd, server->ep, n, DAT_DTO_SUCCESS, PIECE);
		expect_request_done(&ends[n % 2].client, n, PIECE);
		expect_write(&ends[n % 2], target(server, 10000, PIECE));
		if (n % 8 == 7)
			exchange_messages(&pair);
	}
	for (unsigned i = 0; i < 2; i++)
		expect_write_refused(&ends[i], target(&ends[!i].server, 0, PIECE));
	close_both();
}
END_TEST

/* ---- many zones ---- */

#define MANY 64

static struct pair many[MANY];

/* Frees the zone of the server, after all that is in it, and the client's endpoint. */
static void zone_end(const struct pair *gone)
{
	ck_dat(dat_ep_free(gone->server.ep));
	ck_dat(dat_lmr_free(gone->server.lmr));
	ck_dat(dat_pz_free(gone->server.pz));
	expect_connection_of(&gone->client, gone->client.ep, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_dat(dat_ep_free(gone->client.ep));
}

START_TEST(many_zones_are_freed_in_any_order)
{
	const unsigned zones = device()->max_eps / 2 < MANY ? device()->max_eps / 2 : MANY;

	pair_open(&pair, NULL);
	for (unsigned i = 0; i < zones; i++)
		pair_copy_in_new_zone(&many[i], &pair);
	for (unsigned i = 0; i < zones; i++)
		exchange_messages(&many[i * 7 % zones]);
	for (unsigned i = 0; i < zones; i++)
		expect_write(&many[i], target(&many[i].server, 0, PIECE));
	expect_write_refused(&many[1], target(&many[2].server, 0, PIECE));
	/* those of even numbers first, from the last one on */
	for (unsigned i = zones; i > 0; i -= 2)
		zone_end(&many[i - 1]);
	zone_end(&pair);
	exchange_messages(&many[0]);
	pair_copy_in_new_zone(&pair, &many[0]);
	exchange_messages(&pair);
	for (unsigned i = 0; i < zones; i += 2)
		zone_end(&many[i]);
	exchange_messages(&pair);
	close_both();
}
END_TEST

/* An EVD gets one when a thread sleeps there for the first time. */
START_TEST(zones_that_are_freed_leave_no_descriptor)
{
	enum { ZONES = 20 };
	unsigned before;

	open_both();
	before = count_entries("/proc/self/fd");
	for (unsigned i = 0; i < ZONES; i++) {
		struct pair third;

		pair_copy_in_new_zone(&third, &other);
		exchange_messages(&third);
		zone_end(&third);
	}
	ck_assert_uint_lt(count_entries("/proc/self/fd"), before + ZONES);
	exchange_messages(&other);
	close_both();
}
END_TEST

/* ---- threads ---- */

static atomic_bool stop;

static void *use_zone(void *arg)
{
	struct pair *own = arg;

	while (!stop) {
		expect_write(own, target(&own->server, 0, PIECE));
		exchange_messages(own);
	}
	return NULL;
}

/* They share the EVDs of the server, which nobody looks at, but for those that a message is for. */
START_TEST(zones_come_and_go_beside_a_thread_that_uses_their_evds)
{
	struct side bare[2];
	pthread_t thread;

	for (unsigned i = 0; i < 2; i++) {
		side_open_bare_as(&bare[i], ia_name(i ? SERVER : CLIENT, BY_INTERFACE), true);
		side_equip(&bare[i], NULL, SIDE_MEMORY);
	}
	memcpy(&pair.client, &bare[0], sizeof(bare[0]));
	memcpy(&pair.server, &bare[1], sizeof(bare[1]));
	pair_connect(&pair);
	stop = false;
	thread = consumer_thread_start(use_zone, &pair);
	for (unsigned i = 0; i < 30; i++) {
		struct side zone;

		side_copy_in_new_zone(&zone, &pair.server);
		zone.ep = side_create_ep(&zone, NULL);
		ck_dat(dat_ep_free(zone.ep));
		ck_dat(dat_lmr_free(zone.lmr));
		ck_dat(dat_pz_free(zone.pz));
	}
	stop = true;
	consumer_thread_join(thread);
	close_both();
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ transfers_of_two_zones_complete_on_one_evd, NEEDS_NOTHING },
		{ polls_take_the_completions_of_each_zone_in_order, NEEDS_NOTHING },
		{ a_message_of_either_zone_wakes_the_waiter, NEEDS_NOTHING },
		{ a_message_of_either_zone_triggers_the_cno, NEEDS_NOTHING },
		{ resize_keeps_the_completions_of_each_zone, NEEDS_RESIZE },
		{ an_endpoint_is_connected_in_the_zone_that_it_was_moved_to, NEEDS_NOTHING },
		{ endpoints_of_the_other_zone_end_while_one_is_used, NEEDS_RNR },
		{ each_zone_has_shared_receives_of_its_own, NEEDS_SRQ },
		{ many_zones_are_freed_in_any_order, NEEDS_NOTHING },
		{ zones_that_are_freed_leave_no_descriptor, NEEDS_NOTHING },
		{ zones_come_and_go_beside_a_thread_that_uses_their_evds, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
