/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sheet: the calls that DAT 2.0 has in addition. A program reaches the functions by the table
 * of the provider, or in this project's libdat2.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include "sheet.h"

#define NOT_REGISTERED	 DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)
#define MALFORMED	 DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED)
#define NO_SUCH_ADDRESS	 DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED)
#define AS_ADDRESS(sock) ((DAT_IA_ADDRESS_PTR)(void *)(sock))

static char data[512]; /* private data */

/* ==== common service points ==== */

static DAT_COMM tcp4 = { .domain = AF_INET, .type = SOCK_STREAM, .protocol = IPPROTO_TCP };

/* An address of the server's, with a port on which nobody listens. */
static struct sockaddr_in free_address(void)
{
	struct sockaddr_in address = there->address;

	address.sin_port = htons((uint16_t)free_qual(there));
	return address;
}

static DAT_RETURN listen_at(DAT_IA_HANDLE ia, DAT_COMM *comm, struct sockaddr_in *address,
			    DAT_EVD_HANDLE evd, DAT_CSP_HANDLE *csp)
{
	DAT_RETURN ret = dat_csp_create(ia, comm, AS_ADDRESS(address), evd, csp);

	if (ret == DAT_SUCCESS)
		keep(*csp);
	return ret;
}

static DAT_RETURN listen_with(DAT_COMM *comm, struct sockaddr_in *address, DAT_EVD_HANDLE evd)
{
	DAT_CSP_HANDLE csp = unwritten;
	DAT_RETURN ret = listen_at(there->ia, comm, address, evd, &csp);

	if (ret != DAT_SUCCESS)
		ck_assert_ptr_eq(csp, unwritten);
	return ret;
}

static DAT_RETURN listen_as(int domain, int type, int protocol)
{
	DAT_COMM comm = { .domain = domain, .type = type, .protocol = protocol };
	struct sockaddr_in address = free_address();

	return listen_with(&comm, &address, there->cr_evd);
}

static DAT_RETURN listen_for(DAT_EVD_HANDLE evd)
{
	struct sockaddr_in address = free_address();

	return listen_with(&tcp4, &address, evd);
}

static DAT_RETURN listen_of(DAT_IA_HANDLE ia)
{
	struct sockaddr_in address = free_address();

	return listen_at(ia, &tcp4, &address, there->cr_evd, &unwritten);
}

HANDLE_ROWS(dat_csp_create, "the IA", IA, BAD_HANDLE(IA), listen_of(h));
HANDLE_ROWS(dat_csp_create, "the EVD", EVD, BAD_HANDLE(EVD_CR), listen_for(h));
ROW(dat_csp_create, "the EVD takes no requests", BAD_HANDLE(EVD_CR), listen_for(there->recv_evd));
ROW(dat_csp_create, "the EVD is another instance's", BAD_HANDLE(EVD_CR),
    listen_for(foreign_evd(DAT_EVD_CR_FLAG)));
ROW(dat_csp_create, "the communicator is null", BAD_ARG(2),
    listen_with(NULL, &(struct sockaddr_in){ 0 }, there->cr_evd));
ROW(dat_csp_create, "the address is null", BAD_ARG(3), listen_with(&tcp4, NULL, there->cr_evd));

ROW_DO(dat_csp_create, "the output is null", BAD_ARG(5))
{
	struct sockaddr_in address = free_address();

	return dat_csp_create(there->ia, &tcp4, AS_ADDRESS(&address), there->cr_evd, NULL);
}

ROW(dat_csp_create, "a stream of TCP", DAT_SUCCESS, listen_as(AF_INET, SOCK_STREAM, IPPROTO_TCP));
ROW(dat_csp_create, "a stream of no protocol", DAT_SUCCESS, listen_as(AF_INET, SOCK_STREAM, 0));
ROW(dat_csp_create, "an unknown domain", PLAIN(COMM_NOT_SUPPORTED), listen_as(99, SOCK_STREAM, 0));
ROW(dat_csp_create, "datagrams", PLAIN(COMM_NOT_SUPPORTED), listen_as(AF_INET, SOCK_DGRAM, 0));
ROW(dat_csp_create, "another protocol than TCP", PLAIN(COMM_NOT_SUPPORTED),
    listen_as(AF_INET, SOCK_STREAM, IPPROTO_UDP));
ROW(dat_csp_create, "an address of another family than the domain", MALFORMED,
    listen_as(AF_INET6, SOCK_STREAM, 0));

ROW_DO(dat_csp_create, "the port is 0", MALFORMED)
{
	struct sockaddr_in address = there->address;

	address.sin_port = 0;
	return listen_with(&tcp4, &address, there->cr_evd);
}

ROW_DO(dat_csp_create, "another common service point listens at the port", PLAIN(PORT_IN_USE))
{
	struct sockaddr_in address;

	new_csp(&address);
	return listen_with(&tcp4, &address, there->cr_evd);
}

ROW_DO(dat_csp_create, "a public service point has the port for its qualifier", PLAIN(PORT_IN_USE))
{
	struct sockaddr_in address = there->address;
	DAT_CONN_QUAL qual;

	new_psp(&qual);
	address.sin_port = htons((uint16_t)qual);
	return listen_with(&tcp4, &address, there->cr_evd);
}

ROW_DO(dat_csp_create, "the one that had the port was freed", DAT_SUCCESS)
{
	struct sockaddr_in address;

	ck_dat(dat_csp_free(new_csp(&address)));
	return listen_with(&tcp4, &address, there->cr_evd);
}

/* Returns a pair whose client has asked there, with three bytes. */
static struct pair *asked_at(struct sockaddr_in *address)
{
	static char abc[] = "abc";
	struct pair *pair = new_pair(NULL);

	ck_dat(dat_ep_common_connect(pair->client.ep, AS_ADDRESS(address), TIME_LIMIT, 3, abc));
	return pair;
}

EVENT_ROW(dat_csp_create, "an endpoint asks there", DAT_CONNECTION_REQUEST_EVENT)
{
	struct sockaddr_in address;
	DAT_CSP_HANDLE csp = new_csp(&address);
	DAT_EVENT event;
	DAT_CR_PARAM param;

	asked_at(&address);
	event = expect_event(there->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	const DAT_CR_ARRIVAL_EVENT_DATA *cr = &event.event_data.cr_arrival_event_data;

	keep(cr->cr_handle);
	ck_assert_ptr_eq(cr->sp_handle.csp_handle, csp);
	ck_assert_uint_eq(cr->conn_qual, ntohs(address.sin_port));
	ck_assert_int_eq(cr->truncate_flag, DAT_FALSE);
	ck_dat(dat_cr_query(cr->cr_handle, DAT_CR_FIELD_ALL, &param));
	ck_assert_int_ge(param.private_data_size, 3);
	ck_assert_mem_eq(param.private_data, "abc", 3);
	return event.event_number;
}

/* ---- dat_csp_query ---- */

static DAT_CSP_PARAM csp_param;

HANDLE_ROWS(dat_csp_query, "the service point", CSP, BAD_HANDLE(CSP),
	    dat_csp_query(h, DAT_CSP_FIELD_ALL, &csp_param));
ROW(dat_csp_query, "the output is null", BAD_ARG(3),
    dat_csp_query(new_csp(&(struct sockaddr_in){ 0 }), DAT_CSP_FIELD_ALL, NULL));
ROW(dat_csp_query, "the mask is 0", DAT_SUCCESS,
    dat_csp_query(new_csp(&(struct sockaddr_in){ 0 }), (DAT_CSP_PARAM_MASK)0, &csp_param));
ROW(dat_csp_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_csp_query(new_csp(&(struct sockaddr_in){ 0 }), (DAT_CSP_PARAM_MASK)0x100, &csp_param));

ROW_DO(dat_csp_query, "all fields", DAT_SUCCESS)
{
	struct sockaddr_in address, *found;
	DAT_CSP_HANDLE csp = new_csp(&address);
	DAT_RETURN ret = dat_csp_query(csp, DAT_CSP_FIELD_ALL, &csp_param);

	found = (void *)csp_param.address_ptr;
	ck_assert_ptr_eq(csp_param.ia_handle, there->ia);
	ck_assert_ptr_eq(csp_param.evd_handle, there->cr_evd);
	ck_assert_int_eq(csp_param.comm->domain, AF_INET);
	ck_assert_int_eq(csp_param.comm->type, SOCK_STREAM);
	ck_assert_int_eq(found->sin_family, AF_INET);
	ck_assert_int_eq(found->sin_port, address.sin_port);
	ck_assert_uint_eq(found->sin_addr.s_addr, address.sin_addr.s_addr);
	return ret;
}

/* ---- dat_csp_free ---- */

HANDLE_ROWS(dat_csp_free, "the service point", CSP, BAD_HANDLE(CSP), dat_csp_free(h));
ROW(dat_csp_free, "it listens", DAT_SUCCESS, dat_csp_free(new_csp(&(struct sockaddr_in){ 0 })));

EVENT_ROW(dat_csp_free, "an endpoint asks there afterwards", DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct sockaddr_in address;

	ck_dat(dat_csp_free(new_csp(&address)));
	return event_of(asked_at(&address)->client.connect_evd);
}

/* ---- dat_ep_common_connect ---- */

/* -1 for what is no endpoint. */
static int state_of(DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	return dat_ep_get_status(ep, &state, NULL, NULL) == DAT_SUCCESS ? (int)state : -1;
}

/* A call that fails leaves the state. */
static DAT_RETURN common_connect(DAT_EP_HANDLE ep, const struct sockaddr_in *address,
				 DAT_TIMEOUT timeout, DAT_COUNT size, void *from)
{
	const int before = state_of(ep);
	DAT_RETURN ret = dat_ep_common_connect(ep, AS_ADDRESS((uintptr_t)address), timeout, size,
					       from);

	if (ret != DAT_SUCCESS)
		ck_assert_int_eq(state_of(ep), before);
	return ret;
}

static DAT_RETURN common_connect_to(int family, const char *text, DAT_CONN_QUAL port)
{
	struct sockaddr_in to = there->address;

	to.sin_family = (sa_family_t)family;
	to.sin_addr.s_addr = inet_addr(text);
	to.sin_port = htons((uint16_t)port);
	return common_connect(new_ep(NULL), &to, TIME_LIMIT, 0, NULL);
}

static DAT_RETURN common_connect_data(DAT_COUNT size, void *from)
{
	const struct sockaddr_in to = free_address();

	return common_connect(new_ep(NULL), &to, TIME_LIMIT, size, from);
}

static DAT_RETURN common_connect_ep(DAT_EP_HANDLE ep)
{
	const struct sockaddr_in to = free_address();

	return common_connect(ep, &to, TIME_LIMIT, 0, NULL);
}

static DAT_RETURN common_connect_incomplete(DAT_PZ_HANDLE pz, DAT_EVD_HANDLE connect_evd)
{
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(here->ia, pz, here->recv_evd, here->request_evd, connect_evd, NULL,
			     &ep));
	return common_connect_ep(keep(ep));
}

HANDLE_ROWS(dat_ep_common_connect, "the endpoint", EP, BAD_HANDLE(EP), common_connect_ep(h));
ROW(dat_ep_common_connect, "the endpoint has no connect EVD", BAD_HANDLE(EVD_CONN),
    common_connect_incomplete(here->pz, DAT_HANDLE_NULL));
ROW(dat_ep_common_connect, "the endpoint has no zone", BAD_STATE(EP_NOTREADY),
    common_connect_incomplete(DAT_HANDLE_NULL, here->connect_evd));
ROW(dat_ep_common_connect, "the address is null", BAD_ARG(2),
    common_connect(new_ep(NULL), NULL, TIME_LIMIT, 0, NULL));
ROW(dat_ep_common_connect, "the timeout is 0", BAD_ARG(3),
    common_connect(new_ep(NULL), &(struct sockaddr_in){ .sin_family = AF_INET, .sin_port = 1 }, 0,
		   0, NULL));
ROW(dat_ep_common_connect, "the size is negative", BAD_ARG(4), common_connect_data(-1, data));
ROW(dat_ep_common_connect, "the size is above max_private_data_size", BAD_ARG(4),
    common_connect_data(here->provider.max_private_data_size + 1, data));
ROW(dat_ep_common_connect, "the data is null, and its size is not", BAD_ARG(5),
    common_connect_data(1, NULL));
ROW(dat_ep_common_connect, "the port is 0", MALFORMED, common_connect_to(AF_INET, "127.0.0.1", 0));
ROW(dat_ep_common_connect, "an address of an unknown family", MALFORMED,
    common_connect_to(99, "127.0.0.1", 4000));
ROW(dat_ep_common_connect, "a multicast address", NO_SUCH_ADDRESS,
    common_connect_to(AF_INET, "224.0.0.1", 4000));
ROW(dat_ep_common_connect, "nobody listens there yet", DAT_SUCCESS,
    common_connect_data(here->provider.max_private_data_size, data));
ROW(dat_ep_common_connect, "the endpoint is connected", BAD_STATE(EP_CONNECTED),
    common_connect_ep(new_ep_in(DAT_EP_STATE_CONNECTED)));
ROW(dat_ep_common_connect, "the endpoint connects", BAD_STATE(EP_ACTCONNPENDING),
    common_connect_ep(new_ep_in(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)));
ROW(dat_ep_common_connect, "the endpoint is disconnected", BAD_STATE(EP_DISCONNECTED),
    common_connect_ep(new_ep_in(DAT_EP_STATE_DISCONNECTED)));
ROW(dat_ep_common_connect, "the endpoint disconnects", BAD_STATE(EP_DISCPENDING),
    common_connect_ep(new_ep_in(DAT_EP_STATE_DISCONNECT_PENDING)), .needs = NEEDS_RNR);
ROW(dat_ep_common_connect, "the endpoint is reserved", BAD_STATE(EP_RESERVED),
    common_connect_ep(new_ep_in(DAT_EP_STATE_RESERVED)));
ROW(dat_ep_common_connect, "the endpoint is reserved, and its request has come",
    BAD_STATE(EP_PASSCONNPENDING),
    common_connect_ep(new_ep_in(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING)));

EVENT_ROW(dat_ep_common_connect, "nobody listens at the port",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct sockaddr_in address = free_address();

	return event_of(asked_at(&address)->client.connect_evd);
}

EVENT_ROW(dat_ep_common_connect, "a common service point listens at the port",
	  DAT_CONNECTION_EVENT_ESTABLISHED)
{
	struct sockaddr_in address;
	DAT_CSP_HANDLE csp = new_csp(&address);
	struct pair *pair = asked_at(&address);

	ck_assert_ptr_nonnull(csp);
	ck_dat(dat_cr_accept(expect_cr(there), pair->server.ep, 0, NULL));
	expect_established(pair);
	exchange_messages(pair);
	return DAT_CONNECTION_EVENT_ESTABLISHED;
}

EVENT_ROW(dat_ep_common_connect, "a public service point has the port for its qualifier",
	  DAT_CONNECTION_REQUEST_EVENT)
{
	struct sockaddr_in address = there->address;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = new_psp(&qual);
	DAT_EVENT event;

	address.sin_port = htons((uint16_t)qual);
	asked_at(&address);
	event = expect_event(there->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	keep(event.event_data.cr_arrival_event_data.cr_handle);
	ck_assert_ptr_eq(event.event_data.cr_arrival_event_data.sp_handle.psp_handle, psp);
	return event.event_number;
}

EVENT_ROW(dat_ep_connect, "the qualifier is the port of a common service point",
	  DAT_CONNECTION_REQUEST_EVENT)
{
	struct sockaddr_in address;

	new_csp(&address);
	ck_dat(try_connect(new_ep(NULL), there, ntohs(address.sin_port), TIME_LIMIT));
	keep(expect_cr(there));
	return DAT_CONNECTION_REQUEST_EVENT;
}

/* ==== rejects with private data ==== */

static DAT_COUNT max_reject(void)
{
	return device()->max_reject ? device()->max_reject : there->provider.max_private_data_size;
}

/* A reject that fails leaves the request as it was. */
static DAT_RETURN reject_refused(DAT_COUNT size, void *from)
{
	DAT_CR_HANDLE cr = new_cr();
	DAT_RETURN ret = dat_cr_reject(cr, size, from);

	ck_dat(dat_cr_reject(cr, 0, NULL));
	return ret;
}

ROW(dat_cr_reject, "the size is negative", BAD_ARG(2), reject_refused(-1, data));
ROW(dat_cr_reject, "the size is above the limit", BAD_ARG(2),
    reject_refused(max_reject() + 1, data));
ROW(dat_cr_reject, "the data is null, and its size is not", BAD_ARG(3), reject_refused(1, NULL));
ROW(dat_cr_reject, "the data is not null, and its size is 0", DAT_SUCCESS,
    dat_cr_reject(new_cr(), 0, data));

/* Rejects with so many bytes, and compares what arrives. */
static DAT_EVENT_NUMBER rejected_with(DAT_COUNT size)
{
	const DAT_CONNECTION_EVENT_DATA *connection;
	DAT_CR_HANDLE cr;
	struct pair *pair = new_request(&cr);
	DAT_EVENT event;
	DAT_COUNT n;

	pattern_fill(data, sizeof(data), 3);
	ck_dat(dat_cr_reject(cr, size, data));
	event = expect_event(pair->client.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
	connection = &event.event_data.connect_event_data;
	ck_assert_ptr_eq(connection->ep_handle, pair->client.ep);
	n = device()->reject_padded ? device()->reject_padded : size;
	ck_assert_int_eq(connection->private_data_size, n);
	if (n) {
		ck_assert_mem_eq(connection->private_data, data, (size_t)size);
		bytes_check((char *)connection->private_data + size, (size_t)(n - size), 0);
	}
	ck_assert_int_eq(ep_get_state(pair->client.ep), DAT_EP_STATE_DISCONNECTED);
	return event.event_number;
}

EVENT_ROW(dat_cr_reject, "no byte of private data, at the peer", DAT_CONNECTION_EVENT_PEER_REJECTED)
{
	return rejected_with(0);
}

EVENT_ROW(dat_cr_reject, "one byte of private data, at the peer",
	  DAT_CONNECTION_EVENT_PEER_REJECTED)
{
	return rejected_with(1);
}

EVENT_ROW(dat_cr_reject, "as many bytes as there may be, at the peer",
	  DAT_CONNECTION_EVENT_PEER_REJECTED)
{
	return rejected_with(max_reject());
}

/* The first bytes are none that a header of the wire could be taken for. */
EVENT_ROW(dat_cr_reject, "private data that look like a header, at the peer",
	  DAT_CONNECTION_EVENT_PEER_REJECTED)
{
	static const char headers[][4] = { { 'D', 'A', 'T', 0 }, { 1, 2, 1, 2 }, { 2, 0, 2, 0 } };

	for (size_t i = 0; i < COUNT(headers); i++) {
		DAT_CR_HANDLE cr;
		struct pair *pair = new_request(&cr);
		DAT_EVENT event;

		memcpy(data, headers[i], sizeof(headers[i]));
		ck_dat(dat_cr_reject(cr, sizeof(headers[i]), data));
		event = expect_event(pair->client.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
		ck_assert_mem_eq(event.event_data.connect_event_data.private_data, headers[i],
				 sizeof(headers[i]));
	}
	return DAT_CONNECTION_EVENT_PEER_REJECTED;
}

/* The first request takes the only slot, and stays there until the second one was refused. */
EVENT_ROW(dat_cr_reject, "the EVD for requests is full: the provider rejects, without data",
	  DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
{
	struct pair *first = new_pair(NULL), *second = new_pair(NULL);
	DAT_EVD_HANDLE evd = keep(side_create_evd(there, 1, DAT_EVD_CR_FLAG));
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE fired;
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL qual;
	DAT_EVENT event;

	ck_dat(dat_cno_create(there->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	keep(cno);
	ck_dat(dat_evd_modify_cno(evd, cno));
	ck_dat(dat_psp_create_any(there->ia, &qual, evd, DAT_PSP_CONSUMER_FLAG, &psp));
	keep(psp);
	ck_dat(try_connect(first->client.ep, there, qual, TIME_LIMIT));
	ck_dat(dat_cno_wait(cno, TIME_LIMIT, &fired));
	ck_dat(try_connect(second->client.ep, there, qual, TIME_LIMIT));
	event = expect_event(second->client.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ck_assert_int_eq(event.event_data.connect_event_data.private_data_size, 0);
	keep(expect_event(evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle);
	ck_dat(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
	return event.event_number;
}

/* ==== notification objects with a descriptor ==== */

static DAT_CNO_HANDLE fd_cno;

static DAT_FD new_cno_fd(void)
{
	DAT_FD fd = -1;

	ck_dat(dat_cno_fd_create(here->ia, &fd, &fd_cno));
	keep(fd_cno);
	return fd;
}

/* By poll and by select, which must agree. */
static bool fd_is_readable(DAT_FD fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	struct timeval none = { 0 };
	fd_set set;
	int ready;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	ready = select(fd + 1, &set, NULL, NULL, &none);
	ck_assert_int_eq(poll(&polled, 1, 0), ready);
	return ready == 1;
}

/* An EVD of the CNO. */
static DAT_EVD_HANDLE evd_of_cno(DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd = new_evd(8, flags);

	ck_dat(dat_evd_modify_cno(evd, fd_cno));
	return evd;
}

HANDLE_ROWS(dat_cno_fd_create, "the IA", IA, BAD_HANDLE(IA),
	    dat_cno_fd_create(h, &unwritten_count, &unwritten));
ROW(dat_cno_fd_create, "the output for the descriptor is null", BAD_ARG(2),
    dat_cno_fd_create(here->ia, NULL, &unwritten));
ROW(dat_cno_fd_create, "the output for the CNO is null", BAD_ARG(3),
    dat_cno_fd_create(here->ia, &unwritten_count, NULL));

ROW_DO(dat_cno_fd_create, "poll and select tell that it is triggered, until that is taken",
       DAT_SUCCESS)
{
	DAT_FD fd = new_cno_fd();
	DAT_EVD_HANDLE evd = evd_of_cno(DAT_EVD_SOFTWARE_FLAG), fired = DAT_HANDLE_NULL;

	for (unsigned round = 0; round < 3; round++) {
		ck_assert(!fd_is_readable(fd));
		post_software_events(evd, 2);
		ck_assert(fd_is_readable(fd));
		ck_dat(dat_cno_trigger(fd_cno, &fired));
		ck_assert_ptr_eq(fired, evd);
	}
	ck_assert(!fd_is_readable(fd));
	return DAT_SUCCESS;
}

ROW_DO(dat_cno_fd_create, "its descriptor wakes a thread when a receive completes", DAT_SUCCESS)
{
	struct pair *pair = new_connection(NULL);
	struct pollfd polled = { .fd = new_cno_fd(), .events = POLLIN };
	DAT_EVD_HANDLE fired = DAT_HANDLE_NULL;
	DAT_RETURN ret;

	ck_dat(dat_evd_modify_cno(pair->client.recv_evd, fd_cno));
	post_recv(pair->client.ep, 1, segment(&pair->client, 0, 8));
	post_send(pair->server.ep, 2, segment(&pair->server, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	ck_assert_int_eq(poll(&polled, 1, (int)(TIME_LIMIT / 1000)), 1);
	ret = dat_cno_trigger(fd_cno, &fired);
	ck_assert_ptr_eq(fired, pair->client.recv_evd);
	expect_recv_done(&pair->client, 1, 8);
	ck_dat(dat_evd_modify_cno(pair->client.recv_evd, DAT_HANDLE_NULL));
	return ret;
}

ROW_DO(dat_cno_wait, "the CNO has a descriptor", DAT_SUCCESS)
{
	DAT_FD fd = new_cno_fd();
	DAT_EVD_HANDLE evd = evd_of_cno(DAT_EVD_SOFTWARE_FLAG), fired = DAT_HANDLE_NULL;
	DAT_RETURN ret;

	post_software_events(evd, 1);
	ret = dat_cno_wait(fd_cno, TIME_LIMIT, &fired);
	ck_assert_ptr_eq(fired, evd);
	ck_assert(!fd_is_readable(fd));
	return ret;
}

ROW_DO(dat_cno_free, "its descriptor is closed", DAT_SUCCESS)
{
	struct pollfd polled = { .fd = new_cno_fd(), .events = POLLIN };
	DAT_RETURN ret = dat_cno_free(fd_cno);

	ck_assert_int_eq(poll(&polled, 1, 0), 1);
	ck_assert_int_eq(polled.revents, POLLNVAL);
	return ret;
}

ROW_DO(dat_cno_modify_agent, "the CNO has a descriptor", BAD_HANDLE(CNO))
{
	new_cno_fd();
	return dat_cno_modify_agent(fd_cno, DAT_OS_WAIT_PROXY_AGENT_NULL);
}

/* ---- dat_cno_trigger ---- */

HANDLE_ROWS(dat_cno_trigger, "the CNO", CNO, BAD_HANDLE(CNO), dat_cno_trigger(h, &unwritten));
ROW(dat_cno_trigger, "the CNO has no descriptor", BAD_HANDLE(CNO),
    dat_cno_trigger(new_cno(), &unwritten));

ROW_DO(dat_cno_trigger, "the output is null", BAD_ARG(2))
{
	new_cno_fd();
	return dat_cno_trigger(fd_cno, NULL);
}

ROW_DO(dat_cno_trigger, "it was not triggered", DAT_QUEUE_EMPTY)
{
	DAT_EVD_HANDLE evd = here->recv_evd;
	DAT_RETURN ret;

	new_cno_fd();
	ret = dat_cno_trigger(fd_cno, &evd);
	ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
	return ret;
}

ROW_DO(dat_cno_trigger, "it was triggered", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd, fired = DAT_HANDLE_NULL;
	DAT_RETURN ret;

	new_cno_fd();
	evd = evd_of_cno(DAT_EVD_SOFTWARE_FLAG);
	post_software_events(evd, 1);
	ret = dat_cno_trigger(fd_cno, &fired);
	ck_assert_ptr_eq(fired, evd);
	return ret;
}

/* ---- dat_cno_query ---- */

static DAT_CNO_PARAM cno_param;

ROW_DO(dat_cno_query, "it has neither an agent nor a descriptor", DAT_SUCCESS)
{
	DAT_RETURN ret;

	memset(&cno_param, 0xff, sizeof(cno_param));
	ret = dat_cno_query(new_cno(), DAT_CNO_FIELD_ALL, &cno_param);
	ck_assert_ptr_eq(cno_param.ia_handle, here->ia);
	ck_assert_int_eq(cno_param.proxy_type, DAT_PROXY_TYPE_NONE);
	return ret;
}

ROW_DO(dat_cno_query, "it has a descriptor", DAT_SUCCESS)
{
	DAT_FD fd = new_cno_fd();
	DAT_RETURN ret = dat_cno_query(fd_cno, DAT_CNO_FIELD_ALL, &cno_param);

	ck_assert_ptr_eq(cno_param.ia_handle, here->ia);
	ck_assert_int_eq(cno_param.proxy_type, DAT_PROXY_TYPE_FD);
	ck_assert_int_eq(cno_param.proxy.fd, fd);
	return ret;
}

static void never_called(DAT_PVOID instance, DAT_EVD_HANDLE evd)
{
	(void)instance;
	(void)evd;
	abort();
}

ROW_DO(dat_cno_query, "it has an agent", DAT_SUCCESS)
{
	const DAT_OS_WAIT_PROXY_AGENT agent = { data, never_called };
	DAT_CNO_HANDLE cno;
	DAT_RETURN ret;

	ck_dat(dat_cno_create(here->ia, agent, &cno));
	ret = dat_cno_query(keep(cno), DAT_CNO_FIELD_ALL, &cno_param);
	ck_assert_int_eq(cno_param.proxy_type, DAT_PROXY_TYPE_AGENT);
	ck_assert_ptr_eq(cno_param.proxy.agent.instance_data, data);
	return ret;
}

/* ==== fail-over ==== */

static DAT_RETURN related(const char *name, const char *other)
{
	DAT_HA_RELATIONSHIP relationship = (DAT_HA_RELATIONSHIP)99;
	DAT_RETURN ret = dat_registry_providers_related((DAT_NAME_PTR)name, (DAT_NAME_PTR)other,
							&relationship);

	ck_assert_int_eq(relationship, ret == DAT_SUCCESS ? (int)DAT_HA_FALSE : 99);
	return ret;
}

ROW(dat_registry_providers_related, "the first name is null", BAD_ARG(1), related(NULL, "a"));
ROW(dat_registry_providers_related, "the second name is null", BAD_ARG(2), related("a", NULL));
ROW(dat_registry_providers_related, "the output is null", BAD_ARG(3),
    dat_registry_providers_related(here->name, there->name, NULL));
ROW(dat_registry_providers_related, "the first name is unknown", NOT_REGISTERED,
    related("no such name", here->name));
ROW(dat_registry_providers_related, "the second name is unknown", NOT_REGISTERED,
    related(here->name, "no such name"));
ROW(dat_registry_providers_related, "both names are known, and are no partners", DAT_SUCCESS,
    related(here->name, there->name));

/* The slot of ia_ha_related has no function of the registry. */
static DAT_PROVIDER *table_of(DAT_IA_HANDLE ia, DAT_IA_HANDLE *object)
{
	DAT_RETURN dats_get_ia_handle(unsigned long handle, DAT_IA_HANDLE *other);

	ck_dat(dats_get_ia_handle((unsigned long)ia, object));
	return DAT_HANDLE_TO_PROVIDER(*object);
}

static DAT_RETURN ha_related(const char *name)
{
	DAT_BOOLEAN answer = (DAT_BOOLEAN)99;
	DAT_IA_HANDLE ia;
	DAT_PROVIDER *table = table_of(here->ia, &ia);
	DAT_RETURN ret = table->ia_ha_related_func(ia, (DAT_NAME_PTR)name, &answer);

	ck_assert_int_eq(answer, ret == DAT_SUCCESS ? (int)DAT_FALSE : 99);
	return ret;
}

ROW(dat_ia_query, "ia_ha_related: a known name, which is no partner", DAT_SUCCESS,
    ha_related(there->name));

ROW_DO(dat_ia_query, "ia_ha_related: what it refuses", DAT_SUCCESS)
{
	DAT_IA_HANDLE ia;
	DAT_PROVIDER *table = table_of(here->ia, &ia);
	DAT_BOOLEAN answer;

	ck_dat_is(ha_related("no such name"), NOT_REGISTERED);
	ck_dat_is(ha_related(NULL), BAD_ARG(2));
	ck_dat_is(table->ia_ha_related_func(ia, there->name, NULL), BAD_ARG(3));
	ck_dat_is(table->ia_ha_related_func(here->ep, there->name, &answer), BAD_HANDLE(IA));
	return DAT_SUCCESS;
}

/* ==== windows of an endpoint, and what invalidates them ==== */

HANDLE_ROWS(dat_rmr_create_for_ep, "the zone", PZ, BAD_HANDLE(PZ),
	    dat_rmr_create_for_ep(h, &unwritten));
ROW(dat_rmr_create_for_ep, "the output is null", BAD_ARG(2), dat_rmr_create_for_ep(here->pz, NULL));
#define NO_EP_WINDOWS                                                                              \
	{ "siw", NOT_SUPPORTED, "it has no windows" },                                             \
		{ "tcp", NOT_SUPPORTED, "it has no windows" },                                     \
	{                                                                                          \
		"ofi-rxe", NOT_SUPPORTED, "libfabric has no windows"                               \
	}

static DAT_RMR_HANDLE ep_window;

static DAT_RETURN create_ep_window(void)
{
	DAT_RMR_HANDLE created = DAT_HANDLE_NULL;
	DAT_RETURN ret = dat_rmr_create_for_ep(here->pz, &created);

	ep_window = ret == DAT_SUCCESS ? keep(created) : DAT_HANDLE_NULL;
	ck_assert((ret == DAT_SUCCESS) == (created != DAT_HANDLE_NULL));
	return ret;
}

ROW(dat_rmr_create_for_ep, "a zone, on a device that has windows of an endpoint", DAT_SUCCESS,
    create_ep_window(), .on = { NO_EP_WINDOWS });

ROW_DO(dat_rmr_query, "of a window of an endpoint: its scope is that", DAT_SUCCESS,
       .needs = NEEDS_EP_WINDOWS)
{
	DAT_RMR_PARAM param;
	DAT_RETURN ret;

	ck_dat(create_ep_window());
	ret = dat_rmr_query(ep_window, DAT_RMR_FIELD_RMR_SCOPE, &param);
	ck_assert_int_eq(param.rmr_scope, DAT_RMR_SCOPE_EP);
	return ret;
}

ROW_DO(dat_rmr_bind, "of a window of an endpoint", DAT_SUCCESS, .needs = NEEDS_EP_WINDOWS)
{
	DAT_LMR_TRIPLET range = segment(here, 0, 64);
	DAT_RMR_CONTEXT context = 0;
	DAT_RETURN ret;

	ck_dat(create_ep_window());
	ret = dat_rmr_bind(ep_window, here->lmr, &range, REMOTE, DAT_VA_TYPE_VA, here->ep,
			   cookie_of(6), DAT_COMPLETION_DEFAULT_FLAG, &context);
	expect_bind(here->request_evd, ep_window, 6, DAT_RMR_BIND_SUCCESS);
	ck_assert_uint_ne(context, 0);
	return ret;
}

/* ==== what begins at 0 ==== */

#define NO_ZERO_BASED                                                                              \
	{ "siw", NOT_SUPPORTED, "it has any region addressed as its memory is" },                  \
	{                                                                                          \
		"ofi-rxe", NOT_SUPPORTED, "libfabric's verbs registers regions in one way only"    \
	}

static DAT_RETURN create_typed(int va_type)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = here->memory };
	DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
	DAT_VADDR address = 1;
	DAT_RETURN ret = dat_lmr_create(here->ia, DAT_MEM_TYPE_VIRTUAL, region, 64, here->pz, LOCAL,
					(DAT_VA_TYPE)va_type, &lmr, NULL, NULL, NULL, &address);

	if (ret == DAT_SUCCESS)
		(void)keep(lmr);
	ck_assert_uint_eq(address, ret == DAT_SUCCESS ? 0 : 1);
	return ret;
}

ROW(dat_lmr_create, "the addresses begin at 0", DAT_SUCCESS, create_typed(DAT_VA_TYPE_ZB),
    .on = { NO_ZERO_BASED });
ROW(dat_lmr_create, "the type of the addresses is unknown", BAD_ARG(7), create_typed(2));
ROW(dat_lmr_create, "the type of the addresses is -1", BAD_ARG(7), create_typed(-1));

static DAT_RETURN bind_typed(DAT_RMR_HANDLE rmr, int va_type)
{
	DAT_LMR_TRIPLET range = segment(here, 0, 64); /* from the beginning of a page */
	DAT_RMR_CONTEXT context;
	DAT_RETURN ret = dat_rmr_bind(rmr, here->lmr, &range, REMOTE, (DAT_VA_TYPE)va_type,
				      here->ep, cookie_of(6), DAT_COMPLETION_DEFAULT_FLAG,
				      &context);

	if (ret == DAT_SUCCESS)
		expect_bind(here->request_evd, rmr, 6, DAT_RMR_BIND_SUCCESS);
	return ret;
}

ROW(dat_rmr_bind, "the window begins at 0", DAT_SUCCESS, bind_typed(new_rmr(), DAT_VA_TYPE_ZB),
    .on = { NO_ZERO_BASED });
ROW(dat_rmr_bind, "the type of the addresses is unknown", BAD_ARG(5), bind_typed(new_rmr(), 2));
ROW_DO(dat_rmr_query, "of a window that begins at 0", DAT_SUCCESS, .needs = NEEDS_ZERO_BASED)
{
	DAT_RMR_HANDLE rmr = new_rmr();
	DAT_RMR_PARAM param;
	DAT_RETURN ret;

	ck_dat(bind_typed(rmr, DAT_VA_TYPE_ZB));
	ret = dat_rmr_query(rmr, DAT_RMR_FIELD_VA_TYPE, &param);
	ck_assert_int_eq(param.va_type, DAT_VA_TYPE_ZB);
	ck_assert_int_eq(param.rmr_scope, DAT_RMR_SCOPE_PZ);
	return ret;
}

static DAT_RETURN read_to_rmr(DAT_EP_HANDLE ep, const DAT_RMR_TRIPLET *to,
			      const DAT_RMR_TRIPLET *from)
{
	return dat_ep_post_rdma_read_to_rmr(ep, to, no_cookie, from, DAT_COMPLETION_DEFAULT_FLAG);
}

static const DAT_RMR_TRIPLET any_rmr = { .segment_length = 8 };

HANDLE_ROWS(dat_ep_post_rdma_read_to_rmr, "the endpoint", EP, BAD_HANDLE(EP),
	    read_to_rmr(h, &any_rmr, &any_rmr));
ROW(dat_ep_post_rdma_read_to_rmr, "the local triplet is null", BAD_ARG(2),
    read_to_rmr(here->ep, NULL, &any_rmr));
ROW(dat_ep_post_rdma_read_to_rmr, "the remote triplet is null", BAD_ARG(4),
    read_to_rmr(here->ep, &any_rmr, NULL));
ROW(dat_ep_post_rdma_read_to_rmr, "no device can name a window as the sink", NOT_SUPPORTED,
    read_to_rmr(here->ep, &any_rmr, &any_rmr));

static DAT_RETURN send_segments(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov, int flag,
				DAT_RMR_CONTEXT context)
{
	return dat_ep_post_send_with_invalidate(ep, count, iov, cookie_of(3),
						DAT_COMPLETION_DEFAULT_FLAG, (DAT_BOOLEAN)flag,
						context);
}

static DAT_RETURN send_invalidating(DAT_EP_HANDLE ep, int flag)
{
	DAT_LMR_TRIPLET iov = segment(here, 0, 8);

	return send_segments(ep, 1, &iov, flag, 5);
}

HANDLE_ROWS(dat_ep_post_send_with_invalidate, "the endpoint", EP, BAD_HANDLE(EP),
	    send_invalidating(h, DAT_TRUE));
ROW(dat_ep_post_send_with_invalidate, "the number of segments is negative", BAD_ARG(2),
    send_segments(here->ep, -1, NULL, DAT_TRUE, 5), .on = { NO_EP_WINDOWS });
ROW(dat_ep_post_send_with_invalidate, "there are no segments where they should be", BAD_ARG(3),
    send_segments(here->ep, 1, NULL, DAT_TRUE, 5), .on = { NO_EP_WINDOWS });
ROW(dat_ep_post_send_with_invalidate, "the flag is neither true nor false", BAD_ARG(6),
    send_invalidating(here->ep, 2));
ROW(dat_ep_post_send_with_invalidate, "the endpoint is not connected", BAD_STATE(EP_UNCONNECTED),
    send_invalidating(new_ep(NULL), DAT_TRUE), .on = { NO_EP_WINDOWS });
ROW_DO(dat_ep_post_send_with_invalidate, "a window of the peer's endpoint", DAT_SUCCESS,
       .on = { NO_EP_WINDOWS })
{
	DAT_LMR_TRIPLET iov = segment(here, 0, 8), range = segment(there, 0, 64);
	DAT_RMR_CONTEXT context;
	DAT_RMR_HANDLE rmr;
	DAT_EVENT event;

	if (!device_has(NEEDS_EP_WINDOWS))
		return send_invalidating(here->ep, DAT_TRUE);
	ck_dat(dat_rmr_create_for_ep(there->pz, &rmr));
	keep(rmr);
	ck_dat(dat_rmr_bind(rmr, there->lmr, &range, REMOTE, DAT_VA_TYPE_VA, there->ep,
			    cookie_of(6), DAT_COMPLETION_DEFAULT_FLAG, &context));
	expect_bind(there->request_evd, rmr, 6, DAT_RMR_BIND_SUCCESS);
	post_recv(there->ep, 4, segment(there, 0, 8));
	ck_dat(send_segments(here->ep, 1, &iov, DAT_TRUE, context));
	expect_request_done(here, 3, 8);
	event = expect_event(there->recv_evd, DAT_DTO_COMPLETION_EVENT);
	ck_assert_int_eq(event.event_data.dto_completion_event_data.operation,
			 DAT_DTO_RECEIVE_WITH_INVALIDATE);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.rmr_context, context);
	return DAT_SUCCESS;
}
ROW_DO(dat_ep_post_send_with_invalidate, "the flag is false: it is a send", DAT_SUCCESS)
{
	DAT_RETURN ret;

	post_recv(there->ep, 4, segment(there, 0, 8));
	ret = send_invalidating(here->ep, DAT_FALSE);
	expect_request_done(here, 3, 8);
	expect_recv_done(there, 4, 8);
	return ret;
}
