/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends, and the connections between them. */
#define CONSUMER_IMPLEMENTATION
#include <string.h>
#include <unistd.h>

#include "consumer.h"
#include "impl.h"

/* ---- requests ---- */

DAT_PSP_HANDLE listen_any(const struct side *side, DAT_CONN_QUAL *qual)
{
	DAT_PSP_HANDLE psp;

	ck_dat(dat_psp_create_any(side->ia, qual, side->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_assert_uint_ne(*qual, 0);
	return psp;
}

/*
 * The system's own qualifiers begin at 32768. Programs that run at the same time begin at different
 * ones.
 */
DAT_CONN_QUAL free_qual(const struct side *side)
{
	const unsigned first = 20000, count = 10000;
	static unsigned taken;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_RETURN ret;

	do {
		qual = first + ((unsigned)getpid() * 61 + taken++) % count;
		ret = dat_psp_create(side->ia, qual, side->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp);
	} while (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE);
	ck_dat_at_test(ret);
	ck_dat_at_test(dat_psp_free(psp));
	return qual;
}

DAT_RETURN try_connect(DAT_EP_HANDLE ep, const struct side *server, DAT_CONN_QUAL qual,
		       DAT_TIMEOUT timeout)
{
	struct sockaddr_in address = server->address;

	return dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&address, qual, timeout, 0, NULL,
			      DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

DAT_CR_HANDLE expect_cr(const struct side *side)
{
	return expect_event(side->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

/* On a busy machine an attempt may time out before its request has come: the next has more time. */
DAT_CR_HANDLE request_given_up(const struct pair *pair, DAT_CONN_QUAL qual)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	for (DAT_TIMEOUT limit = 100000;; limit *= 2) {
		ck_dat_at_test(try_connect(pair->client.ep, &pair->server, qual, limit));
		expect_connection(&pair->client, DAT_CONNECTION_EVENT_TIMED_OUT);
		if (dat_evd_wait(pair->server.cr_evd, limit, 1, &event, &nmore) == DAT_SUCCESS)
			return event.event_data.cr_arrival_event_data.cr_handle;
		ck_dat_at_test(dat_ep_reset(pair->client.ep));
	}
}

void accept_given_up(const struct side *side, DAT_CR_HANDLE cr)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat_at_test(dat_cr_accept(cr, side->ep, 0, NULL));
	ck_dat_at_test(dat_evd_wait(side->connect_evd, TIME_LIMIT, 1, &event, &nmore));
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
	if (device()->late_accept_error && event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
		expect_end(side);
	else
		ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
}

/* ---- connections ---- */

void expect_established(const struct pair *pair)
{
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_connection(&pair->server, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void expect_disconnected(const struct pair *pair)
{
	expect_connection(&pair->client, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_connection(&pair->server, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void expect_ends(const struct pair *pair)
{
	expect_end(&pair->client);
	expect_end(&pair->server);
}

void connect_and_accept(struct pair *pair, DAT_CONN_QUAL qual)
{
	ck_dat_at_test(try_connect(pair->client.ep, &pair->server, qual, TIME_LIMIT));
	ck_dat_at_test(dat_cr_accept(expect_cr(&pair->server), pair->server.ep, 0, NULL));
}

void connect_eps(const struct side *client, DAT_EP_HANDLE client_ep, const struct side *server,
		 DAT_EP_HANDLE server_ep)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = listen_any(server, &qual);
	DAT_CR_ARRIVAL_EVENT_DATA cr;

	ck_dat_at_test(try_connect(client_ep, server, qual, TIME_LIMIT));
	cr = expect_event(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data;
	ck_assert_ptr_eq(cr.sp_handle.psp_handle, psp);
	ck_assert_uint_eq(cr.conn_qual, qual);
	ck_dat_at_test(dat_cr_accept(cr.cr_handle, server_ep, 0, NULL));
	expect_connection_of(client, client_ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_connection_of(server, server_ep, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat_at_test(dat_psp_free(psp));
}

void pair_connect(struct pair *pair)
{
	connect_eps(&pair->client, pair->client.ep, &pair->server, pair->server.ep);
}

void pair_disconnect(struct pair *pair, DAT_CLOSE_FLAGS flags)
{
	ck_dat_at_test(dat_ep_disconnect(pair->client.ep, flags));
	expect_disconnected(pair);
	ck_assert_int_eq(ep_get_state(pair->client.ep), DAT_EP_STATE_DISCONNECTED);
	ck_assert_int_eq(ep_get_state(pair->server.ep), DAT_EP_STATE_DISCONNECTED);
}

void pair_reset(struct pair *pair)
{
	ck_dat_at_test(dat_ep_reset(pair->client.ep));
	ck_dat_at_test(dat_ep_reset(pair->server.ep));
}

void pair_reconnect(struct pair *pair)
{
	pair_reset(pair);
	pair_connect(pair);
}

/* ---- open and close ---- */

static void open_sized_unconnected(struct pair *pair, const DAT_EP_ATTR *attr, size_t size)
{
	side_open_bare(&pair->server, SERVER);
	side_open_bare(&pair->client, CLIENT);
	side_equip(&pair->server, attr, size);
	side_equip(&pair->client, attr, size);
}

void pair_open_unconnected(struct pair *pair, const DAT_EP_ATTR *attr)
{
	open_sized_unconnected(pair, attr, SIDE_MEMORY);
}

void pair_open_sized(struct pair *pair, const DAT_EP_ATTR *attr, size_t size)
{
	open_sized_unconnected(pair, attr, size);
	pair_connect(pair);
}

void pair_open(struct pair *pair, const DAT_EP_ATTR *attr)
{
	pair_open_sized(pair, attr, SIDE_MEMORY);
}

void pair_copy_in_new_zone(struct pair *other, const struct pair *pair)
{
	memcpy(other, pair, sizeof(*other));
	side_copy_in_new_zone(&other->server, &pair->server);
	other->client.ep = side_create_ep(&other->client, NULL);
	other->server.ep = side_create_ep(&other->server, NULL);
	pair_connect(other);
}

void pair_close(struct pair *pair)
{
	side_close(&pair->client);
	side_close(&pair->server);
}

void pair_close_abrupt(struct pair *pair)
{
	side_close_abrupt(&pair->client);
	side_close_abrupt(&pair->server);
}

/* ---- messages ---- */

static void exchange_one(const struct side *from, const struct side *to, unsigned seed)
{
	const struct region out = region_map(from, 100, DAT_MEM_PRIV_ALL_FLAG);
	const struct region in = region_map(to, 200, DAT_MEM_PRIV_ALL_FLAG);

	pattern_fill(out.at, out.size, seed);
	post_recv(to->ep, 0x1e, region_segment(&in, 0, in.size));
	post_send(from->ep, 0x5e, region_segment(&out, 0, out.size), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(to, 0x1e, out.size);
	expect_request_done(from, 0x5e, out.size);
	pattern_check(in.at, out.size, seed);
	bytes_check(in.at + out.size, in.size - out.size, UNTOUCHED);
	region_unmap(&out);
	region_unmap(&in);
}

void exchange_messages(const struct pair *pair)
{
	exchange_one(&pair->client, &pair->server, 1);
	exchange_one(&pair->server, &pair->client, 2);
}
