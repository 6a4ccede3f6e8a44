/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections and transfers over libfabric that fail: what the consumer is told. */
#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "../unit/alloc.h"
#include "ofi_test.h"

#define PARAMS "scripted 127.0.0.1"

static void objects_open(struct ofi_rig *rig)
{
	ck_dat(ofi_ia_open(rig, PARAMS));
	ck_dat(ofi_objects_create(rig));
}

static void event_is(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	ck_assert_uint_eq(ofi_event(evd).event_number, number);
}

static void no_event(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	ck_assert_uint_eq(DAT_GET_TYPE(evd_dequeue(evd, &event)), DAT_QUEUE_EMPTY);
}

/* ---- listening ---- */

static const struct {
	int err;
	DAT_RETURN want;
} listens[] = {
	{ EADDRINUSE, DAT_ERROR(DAT_CONN_QUAL_IN_USE, DAT_NO_SUBTYPE) },
	{ EADDRNOTAVAIL, DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE) },
	{ EACCES, DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2) },
	{ EMFILE, DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE) },
	{ ENOMEM, DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE) },
};

/* Programs take the next qualifier if one is in use, and end otherwise. */
START_TEST(a_qualifier_is_in_use_only_if_its_port_is)
{
	static const char *const calls[] = { "fi_passive_ep", "fi_listen" };
	DAT_PSP_HANDLE psp;
	struct ofi_rig rig;

	objects_open(&rig);
	for (int i = 0; i < COUNT(calls); i++) {
		ff_fail(calls[i], listens[_i].err, 1);
		ck_assert_uint_eq(psp_create(rig.ia, 7000, rig.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
				  listens[_i].want);
	}
	ck_dat(psp_create(rig.ia, 7000, rig.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_dat(psp_free(psp));
	ofi_rig_close(&rig);
}
END_TEST

/* ---- attempts to connect ---- */

static const struct {
	int err;
	DAT_EVENT_NUMBER event;
} attempts[] = {
	{ FI_ECONNREFUSED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED },
	{ EINPROGRESS, DAT_CONNECTION_EVENT_NON_PEER_REJECTED },
	{ FI_ETIMEDOUT, DAT_CONNECTION_EVENT_UNREACHABLE },
	{ FI_EHOSTUNREACH, DAT_CONNECTION_EVENT_UNREACHABLE },
	{ FI_ENETUNREACH, DAT_CONNECTION_EVENT_UNREACHABLE },
	{ EHOSTDOWN, DAT_CONNECTION_EVENT_UNREACHABLE },
};

START_TEST(an_attempt_ends_with_the_event_of_its_cause)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ff_fail("fi_connected", attempts[_i].err, 1);
	ck_dat(ofi_connect_begin(&rig));
	event_is(rig.conn_evd, attempts[_i].event);
	no_event(rig.cr_evd);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_rejection_by_the_consumer_is_told_from_others)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect_begin(&rig));
	ck_dat(cr_reject_bare(ofi_event(rig.cr_evd).event_data.cr_arrival_event_data.cr_handle));
	event_is(rig.conn_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
	ofi_rig_close(&rig);
}
END_TEST

/* Makes an endpoint like @old, which it frees, but for the reads. */
static DAT_EP_HANDLE with_reads(const struct ofi_rig *rig, DAT_EP_HANDLE old, DAT_COUNT in,
				DAT_COUNT out)
{
	DAT_EP_PARAM param;
	DAT_EP_HANDLE ep;

	ck_dat(ep_query(old, DAT_EP_FIELD_ALL, &param));
	param.ep_attr.max_rdma_read_in = in;
	param.ep_attr.max_rdma_read_out = out;
	ck_dat(ep_free(old));
	ck_dat(ep_create(rig->ia, rig->pz, rig->dto_evd, rig->dto_evd, rig->conn_evd,
			 &param.ep_attr, &ep));
	return ep;
}

static void reads_are(DAT_EP_HANDLE ep, DAT_COUNT in, DAT_COUNT out)
{
	DAT_EP_PARAM param;

	ck_dat(ep_query(ep, DAT_EP_FIELD_ALL, &param));
	ck_assert_int_eq(param.ep_attr.max_rdma_read_in, in);
	ck_assert_int_eq(param.ep_attr.max_rdma_read_out, out);
}

/* One side asks for numbers; the other one takes no more than that issues, and issues no more. */
START_TEST(both_sides_agree_on_reads)
{
	struct ofi_rig rig;

	objects_open(&rig);
	if (_i)
		rig.active = with_reads(&rig, rig.active, 2, 3);
	else
		rig.passive = with_reads(&rig, rig.passive, 2, 3);
	ck_dat(ofi_connect(&rig));
	reads_are(_i ? rig.passive : rig.active, 3, 2);
	ofi_rig_close(&rig);
}
END_TEST

static const char sent[] = "private";

/* Both ways, and neither less nor more than that. */
START_TEST(private_data_arrive_with_their_size)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ofi_rig rig;
	DAT_CR_HANDLE cr;
	DAT_CR_PARAM param;

	objects_open(&rig);
	ck_dat(ep_connect(rig.active, (DAT_IA_ADDRESS_PTR)&to, rig.port, DAT_TIMEOUT_INFINITE, 3,
			  (DAT_PVOID)(uintptr_t)sent, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	cr = ofi_event(rig.cr_evd).event_data.cr_arrival_event_data.cr_handle;
	ck_dat(cr_query(cr, DAT_CR_FIELD_ALL, &param));
	ck_assert_int_eq(param.private_data_size, 3);
	ck_assert_mem_eq(param.private_data, sent, 3);
	ck_dat(cr_accept(cr, rig.passive, 5, (DAT_PVOID)(uintptr_t)sent));
	for (int i = 0; i < 2; i++) {
		const DAT_EVENT event = ofi_event(rig.conn_evd);
		const DAT_CONNECTION_EVENT_DATA *data = &event.event_data.connect_event_data;
		const int size = data->ep_handle == rig.active ? 5 : 0;

		ck_assert_uint_eq(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
		ck_assert_int_eq(data->private_data_size, size);
		if (size)
			ck_assert_mem_eq(data->private_data, sent, (size_t)size);
	}
	ofi_rig_close(&rig);
}
END_TEST

/* Nobody is asked about it. */
START_TEST(a_request_of_no_udapl_provider_is_refused)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ff_provider()->garbles_requests = true;
	ck_dat(ofi_connect_begin(&rig));
	event_is(rig.conn_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	no_event(rig.cr_evd);
	ofi_rig_close(&rig);
}
END_TEST

/* What there is of it is what a provider sends. */
START_TEST(a_request_that_ends_within_its_header_is_refused)
{
	static const char header[] = { (char)0xda, 0x11, 1 }; /* of a request */
	struct ofi_rig rig;

	objects_open(&rig);
	ofi_rig_lock(&rig);
	for (size_t size = 0; size <= sizeof(header); size++) {
		ff_request_arrives(header, size);
		ck_assert_uint_eq(ff_alive(FF_REQUEST), 1);
		(void)tp_dev_progress(((struct ia *)rig.ia)->dev, 1);
		ck_assert_uint_eq(ff_alive(FF_REQUEST), 0);
		no_event(rig.cr_evd);
	}
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}
END_TEST

/* So many requests of no provider arrive, and are handled in one go. */
static void requests_handle_locked(const struct ofi_rig *rig, unsigned n)
{
	while (n--)
		ff_request_arrives("", 0);
	(void)tp_dev_progress(((struct ia *)rig->ia)->dev, 1);
}

/* libfabric moves the connections then, and nothing need wake up anybody for what comes of it. */
START_TEST(what_arrives_as_the_event_queue_is_armed_is_handled_at_once)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ofi_rig_lock(&rig);
	ff_hook("fi_trywait", ff_stray_request);
	requests_handle_locked(&rig, 1);
	ck_assert_uint_eq(ff_calls("fi_reject"), 2);
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}
END_TEST

/* As that of libfabric's sockets, whose descriptor forgets the failures that were not read. */
START_TEST(all_events_are_read_where_the_arming_does_not_look)
{
	struct ofi_rig rig;

	ff_provider()->arms_blindly = true;
	objects_open(&rig);
	ofi_rig_lock(&rig);
	requests_handle_locked(&rig, 3);
	ck_assert_uint_eq(ff_calls("fi_reject"), 3);
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_event_queue_that_is_never_armed_holds_nobody_up)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ofi_rig_lock(&rig);
	ff_fail_times("fi_trywait", FI_EAGAIN, 5);
	requests_handle_locked(&rig, 1);
	ck_assert(ff_fail_left("fi_trywait"));
	ck_assert_uint_eq(ff_calls("fi_reject"), 1);
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_answer_of_no_udapl_provider_is_a_rejection)
{
	struct ofi_rig rig;
	DAT_EVENT events[2];

	objects_open(&rig);
	ff_provider()->garbles_answers = true;
	ck_dat(ofi_connect_begin(&rig));
	ck_dat(cr_accept(ofi_event(rig.cr_evd).event_data.cr_arrival_event_data.cr_handle,
			 rig.passive, 0, NULL));
	for (int i = 0; i < COUNT(events); i++)
		events[i] = ofi_event(rig.conn_evd);
	for (int i = 0; i < COUNT(events); i++)
		if (events[i].event_data.connect_event_data.ep_handle == rig.active)
			ck_assert_uint_eq(events[i].event_number,
					  DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
	ofi_rig_close(&rig);
}
END_TEST

/* It arrives while the service point is freed, which has to answer it. */
START_TEST(a_request_to_a_service_point_that_is_freed_is_refused)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ff_hook("fi_eq_read", ff_stray_request);
	ck_dat(psp_free(rig.psp));
	rig.psp = DAT_HANDLE_NULL;
	ck_assert_uint_eq(ff_calls("fi_reject"), 1);
	ck_assert_uint_eq(ff_alive(FF_REQUEST), 0);
	no_event(rig.cr_evd);
	ofi_rig_close(&rig);
}
END_TEST

/* What psp_free reads of other objects is for the service thread. */
START_TEST(an_end_that_is_read_by_another_call_is_told)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	ff_hook("fi_eq_read", ff_disconnect_all);
	ck_dat(psp_free(rig.psp));
	rig.psp = DAT_HANDLE_NULL;
	event_is(rig.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	event_is(rig.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	ofi_rig_close(&rig);
}
END_TEST

/* libfabric's tcp looks at all endpoints of a queue when it is read. */
START_TEST(ends_of_idle_connections_read_queues_rarely)
{
	unsigned reads = 0;
	struct ofi_rig rig;

	ofi_rig_open(&rig);
	for (unsigned i = 0; i < 20; i++) {
		reads -= ff_calls("fi_cq_read");
		ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
		event_is(rig.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		event_is(rig.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
		reads += ff_calls("fi_cq_read");
		ck_dat(ep_reset(rig.active));
		ck_dat(ep_reset(rig.passive));
		ck_dat(ofi_connect(&rig));
	}
	ck_assert_uint_le(reads, 20 * 2);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_end_that_nobody_could_keep_for_lack_of_memory_leaves_nothing)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ff_hook("fi_eq_read", ff_stray_request);
	alloc_fail_nth(1);
	ck_dat(psp_free(rig.psp));
	(void)alloc_failed();
	rig.psp = DAT_HANDLE_NULL;
	ck_assert_uint_eq(ff_calls("fi_reject"), 1);
	ck_assert_uint_eq(ff_alive(FF_REQUEST), 0);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(an_address_of_another_family_is_refused)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat_is(ep_connect(rig.active, (DAT_IA_ADDRESS_PTR)&to, rig.port, DAT_TIMEOUT_INFINITE, 0,
			     NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
		  DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
	ck_dat(ofi_connect(&rig));
	ofi_rig_close(&rig);
}
END_TEST

/* To nobody: what the call itself allocates, and what the events take that it handles. */
/* The loopback address calls another host. */
START_TEST(an_address_that_can_not_be_called_from_here_is_unreachable)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ff_fail("fi_connect", EINVAL, 1);
	ck_dat_is(ofi_connect_begin(&rig), DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE);
	ck_dat(ofi_connect(&rig));
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_connect_without_memory_can_be_repeated)
{
	struct ofi_rig rig;
	bool failed = true;

	objects_open(&rig);
	ck_dat(psp_free(rig.psp));
	rig.psp = DAT_HANDLE_NULL;
	for (unsigned n = 1; failed; n++) {
		DAT_RETURN ret;

		alloc_fail_nth(n);
		ret = ofi_connect_begin(&rig);
		failed = alloc_failed();
		ck_assert(failed || !ret);
		if (ret) {
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
			continue;
		}
		event_is(rig.conn_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
		ck_dat(ep_reset(rig.active));
	}
	ofi_rig_close(&rig);
}
END_TEST

/* ---- transfers ---- */

/* A completion's error of libfabric, and that of a device behind it. */
static const struct {
	int err, prov_errno;
	DAT_DTO_COMPLETION_STATUS status;
} completions[] = {
	{ FI_ECANCELED, 0, DAT_DTO_ERR_FLUSHED },
	{ FI_ENOTCONN, 0, DAT_DTO_ERR_FLUSHED },
	{ FI_ECONNRESET, 0, DAT_DTO_ERR_FLUSHED },
	{ EPIPE, 0, DAT_DTO_ERR_FLUSHED },
	{ FI_ETRUNC, 0, DAT_DTO_ERR_LOCAL_LENGTH },
	{ FI_EACCES, 0, DAT_DTO_ERR_REMOTE_ACCESS },
	{ FI_EOTHER, 0, DAT_DTO_ERR_TRANSPORT },
	{ FI_EIO, 1, DAT_DTO_ERR_LOCAL_LENGTH },
	{ FI_EIO, 4, DAT_DTO_ERR_LOCAL_PROTECTION },
	{ FI_EIO, 5, DAT_DTO_ERR_FLUSHED },
	{ FI_EIO, 10, DAT_DTO_ERR_REMOTE_ACCESS },
	{ FI_EIO, 11, DAT_DTO_ERR_REMOTE_RESPONDER },
	{ FI_EIO, 13, DAT_DTO_ERR_RECEIVER_NOT_READY },
	{ FI_EIO, 12, DAT_DTO_ERR_TRANSPORT },
	{ FI_EIO, 77, DAT_DTO_ERR_TRANSPORT },
};

START_TEST(a_completion_has_the_status_of_its_cause)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	ff_provider()->prov_errno = completions[_i].prov_errno;
	ff_fail("completion", completions[_i].err, 1);
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), completions[_i].status);
	ofi_rig_close(&rig);
}
END_TEST

/* As long as libfabric takes none, and whatever is posted meanwhile. */
START_TEST(transfers_that_libfabric_takes_later_complete_in_order)
{
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	ff_fail_times("fi_write", FI_EAGAIN, 5);
	for (uint64_t n = 0; n < 4; n++)
		ck_dat(ep_post_rdma_write(rig.active, 1, &rig.segment,
					  (DAT_DTO_COOKIE){ .as_64 = n }, &rig.target,
					  DAT_COMPLETION_DEFAULT_FLAG));
	for (uint64_t n = 0; n < 4; n++) {
		const DAT_EVENT event = ofi_event(rig.dto_evd);
		const DAT_DTO_COMPLETION_EVENT_DATA *data =
			&event.event_data.dto_completion_event_data;

		ck_assert_uint_eq(data->status, DAT_DTO_SUCCESS);
		ck_assert_uint_eq(data->user_cookie.as_64, n);
	}
	ck_assert(!ff_fail_left("fi_write"));
	ofi_rig_close(&rig);
}
END_TEST

/* A read that libfabric took later than it was posted is awaited, and then is no more. */
START_TEST(a_fence_waits_for_a_read_that_libfabric_takes_later)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	ck_dat(ep_post_rdma_read(rig.active, 1, &rig.segment, cookie, &rig.target,
				 DAT_COMPLETION_DEFAULT_FLAG));
	event_is(rig.dto_evd, DAT_DTO_COMPLETION_EVENT);
	ff_fail_times("fi_read", FI_EAGAIN, 2);
	for (unsigned i = 0; i < 2; i++)
		ck_dat(ep_post_rdma_read(rig.active, 1, &rig.segment, cookie, &rig.target,
					 DAT_COMPLETION_DEFAULT_FLAG));
	for (unsigned i = 0; i < 3; i++) {
		ck_dat(ep_post_rdma_write(rig.active, 1, &rig.segment, cookie, &rig.target,
					  DAT_COMPLETION_BARRIER_FENCE_FLAG));
		event_is(rig.dto_evd, DAT_DTO_COMPLETION_EVENT);
	}
	for (unsigned i = 0; i < 2; i++)
		event_is(rig.dto_evd, DAT_DTO_COMPLETION_EVENT);
	ck_assert(!ff_fail_left("fi_read"));
	ofi_rig_close(&rig);
}
END_TEST

/* The ways to post, and what libfabric is called for. */
enum way { SEND, WRITE, READ, RECV, WAYS };
static const char *const way_calls[WAYS] = { "fi_send", "fi_write", "fi_read", "fi_recv" };

#define PIECE 64 /* bytes of each segment */

static void pieces_of(const struct ofi_rig *rig, DAT_LMR_TRIPLET *pieces, int n)
{
	for (int i = 0; i < n; i++) {
		pieces[i] = rig->segment;
		pieces[i].virtual_address += (DAT_VADDR)i * PIECE;
		pieces[i].segment_length = PIECE;
	}
}

static DAT_RETURN way_post(const struct ofi_rig *rig, enum way way, DAT_LMR_TRIPLET *iov, int n)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };

	switch (way) {
	case SEND:
		return ep_post_send(rig->active, n, iov, cookie, DAT_COMPLETION_DEFAULT_FLAG);
	case WRITE:
		return ep_post_rdma_write(rig->active, n, iov, cookie, &rig->target,
					  DAT_COMPLETION_DEFAULT_FLAG);
	case READ:
		return ep_post_rdma_read(rig->active, n, iov, cookie, &rig->target,
					 DAT_COMPLETION_DEFAULT_FLAG);
	default:
		return ep_post_recv(rig->passive, n, iov, cookie, DAT_COMPLETION_DEFAULT_FLAG);
	}
}

/* From the first half of the memory to the second one, or back; messages with what they take. */
static void way_transfer(struct ofi_rig *rig, enum way way, DAT_LMR_TRIPLET *iov, int n, int bytes)
{
	const bool out = way == SEND || way == WRITE;
	DAT_LMR_TRIPLET other = { rig->segment.lmr_context, 0, rig->target.REMOTE_ADDRESS,
				  (DAT_VLEN)bytes };

	memset(rig->memory, 'a', OFI_MEMORY / 2);
	memset(rig->memory + OFI_MEMORY / 2, 'b', OFI_MEMORY / 2);
	if (way == SEND)
		ck_dat(way_post(rig, RECV, &other, 1));
	ck_dat(way_post(rig, way, iov, n));
	if (way == RECV)
		ck_dat(way_post(rig, SEND, &other, 1));
	for (int left = way == SEND || way == RECV ? 2 : 1; left; left--)
		ck_assert_int_eq(ofi_completion(rig), DAT_DTO_SUCCESS);
	for (int i = 0; i < OFI_MEMORY / 2; i++) {
		ck_assert_int_eq(rig->memory[i], !out && i < bytes ? 'b' : 'a');
		ck_assert_int_eq(rig->memory[OFI_MEMORY / 2 + i], out && i < bytes ? 'a' : 'b');
	}
}

static const int piece_counts[] = { 1, 2, 3, 4 };

/* Fast posts are not described anywhere, so all that this one passed on is found again. */
START_TEST(a_transfer_that_libfabric_takes_later_is_the_same)
{
	DAT_LMR_TRIPLET pieces[4], others[4];
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	for (int c = 0; c < COUNT(piece_counts); c++) {
		const int n = piece_counts[c];

		pieces_of(&rig, pieces, n);
		for (int round = 0; round < 3; round++) /* the first one is not fast */
			way_transfer(&rig, (enum way)_i, pieces, n, n * PIECE);
		memcpy(others, pieces, sizeof(others));
		memset(pieces, 0, sizeof(pieces));
		ff_fail_times(way_calls[_i], FI_EAGAIN, 3);
		way_transfer(&rig, (enum way)_i, others, n, n * PIECE);
		ck_assert(!ff_fail_left(way_calls[_i]));
	}
	ofi_rig_close(&rig);
}
END_TEST

/* What libfabric says of a post, and the status of that. */
static const struct {
	int err;
	DAT_DTO_COMPLETION_STATUS status;
} refused_posts[] = {
	{ FI_ENOTCONN, DAT_DTO_ERR_FLUSHED },	{ EPIPE, DAT_DTO_ERR_FLUSHED },
	{ FI_ECONNRESET, DAT_DTO_ERR_FLUSHED }, { FI_ESHUTDOWN, DAT_DTO_ERR_FLUSHED },
	{ FI_EIO, DAT_DTO_ERR_LOCAL_EP },
};

/* Whether it says so at once, or when a post that has waited is given to it. */
START_TEST(a_refused_post_has_the_status_of_its_cause)
{
	DAT_LMR_TRIPLET piece;
	struct ofi_rig rig;

	for (int late = 0; late < 2; late++) {
		objects_open(&rig);
		ck_dat(ofi_connect(&rig));
		pieces_of(&rig, &piece, 1);
		way_transfer(&rig, WRITE, &piece, 1, PIECE);
		if (late)
			ff_fail_times("fi_write", FI_EAGAIN, UINT_MAX);
		else
			ff_fail("fi_write", refused_posts[_i].err, 1);
		ck_dat(way_post(&rig, WRITE, &piece, 1));
		if (late)
			ff_fail("fi_write", refused_posts[_i].err, 1);
		ck_dat(way_post(&rig, SEND, &piece, 1));
		ck_assert_int_eq(ofi_completion(&rig), refused_posts[_i].status);
		ck_assert_int_eq(ofi_completion(&rig), DAT_DTO_ERR_FLUSHED);
		ofi_rig_close(&rig);
	}
}
END_TEST

START_TEST(a_write_of_no_bytes_completes_behind_a_post_that_waits)
{
	const DAT_DTO_COOKIE last = { .as_64 = 2 };
	DAT_LMR_TRIPLET piece;
	struct ofi_rig rig;
	DAT_EVENT event;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	pieces_of(&rig, &piece, 1);
	ff_fail_times("fi_write", FI_EAGAIN, UINT_MAX);
	ck_dat(way_post(&rig, WRITE, &piece, 1));
	ck_dat(ep_post_rdma_write(rig.active, 0, NULL, last, &rig.target,
				  DAT_COMPLETION_DEFAULT_FLAG));
	no_event(rig.dto_evd);
	ck_assert(ff_fail_left("fi_write"));
	ck_assert_int_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
	event = ofi_event(rig.dto_evd);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 2);
	ck_assert_int_eq(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
	ofi_rig_close(&rig);
}
END_TEST

/* Where reads may be answered in any order. A read in flight is one whose completion waits. */
START_TEST(a_fence_before_a_read_waits_for_reads)
{
	DAT_LMR_TRIPLET piece;
	struct ofi_rig rig;
	unsigned reads;

	if (_i)
		ff_provider()->orders &= ~(uint64_t)FI_ORDER_RAR;
	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	pieces_of(&rig, &piece, 1);
	way_transfer(&rig, READ, &piece, 1, PIECE);
	ff_fail_times("fi_cq_read", FI_EAGAIN, UINT_MAX);
	ck_dat(way_post(&rig, READ, &piece, 1));
	reads = ff_calls("fi_read");
	ck_dat(ep_post_rdma_read(rig.active, 1, &piece, (DAT_DTO_COOKIE){ .as_64 = 1 }, &rig.target,
				 DAT_COMPLETION_BARRIER_FENCE_FLAG));
	ck_assert_uint_eq(ff_calls("fi_read"), _i ? reads : reads + 1);
	ck_assert(ff_fail_left("fi_cq_read"));
	for (int n = 0; n < 2; n++)
		ck_assert_int_eq(ofi_completion(&rig), DAT_DTO_SUCCESS);
	ck_assert_uint_eq(ff_calls("fi_read"), reads + 1);
	ofi_rig_close(&rig);
}
END_TEST

/*
 * What is wrong with a segment: where it begins, from the region's start, or from the largest
 * address on; its context.
 */
static const struct {
	int64_t start;
	bool at_the_top;
	DAT_LMR_CONTEXT change;
} bad_segments[] = {
	{ .start = -1 },
	{ .start = -PIECE },
	{ .start = OFI_MEMORY - PIECE + 1 },
	{ .start = OFI_MEMORY },
	{ .start = INT64_MIN },
	{ .start = -PIECE / 2, .at_the_top = true },
	{ .change = 0x00ffff00 },
};

/* What is not refused is flushed by the end of the connection, and so has another status. */
static void bad_segment_try(enum way way, int bad, int n, int at)
{
	DAT_LMR_TRIPLET pieces[4];
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	pieces_of(&rig, pieces, n);
	for (int round = 0; round < 2; round++)
		way_transfer(&rig, way, pieces, n, n * PIECE);
	pieces[at].virtual_address = (DAT_VADDR)bad_segments[bad].start;
	if (!bad_segments[bad].at_the_top)
		pieces[at].virtual_address += rig.segment.virtual_address;
	pieces[at].lmr_context ^= bad_segments[bad].change;
	ck_dat(way_post(&rig, way, pieces, n));
	ck_dat(ep_disconnect(way == RECV ? rig.passive : rig.active, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_int_eq(ofi_completion(&rig), DAT_DTO_ERR_LOCAL_PROTECTION);
	ofi_rig_close(&rig);
}

/* Although the posts before were into the region, as most are. */
START_TEST(a_bad_segment_is_found_wherever_it_is)
{
	for (int bad = 0; bad < COUNT(bad_segments); bad++)
		for (int c = 0; c < COUNT(piece_counts); c++)
			bad_segment_try((enum way)_i, bad, piece_counts[c], bad % piece_counts[c]);
}
END_TEST

/* Although the post before was from there, as it may be. */
START_TEST(a_read_to_where_nothing_may_be_written_is_refused_behind_a_send)
{
	DAT_LMR_TRIPLET pieces[4];
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_HANDLE lmr;
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	region.for_va = rig.memory;
	pieces_of(&rig, pieces, 4);
	ck_dat(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, OFI_MEMORY / 2, rig.pz,
			     DAT_MEM_PRIV_READ_FLAG, &lmr, &pieces[0].lmr_context, NULL, NULL,
			     NULL));
	for (int i = 1; i < 4; i++)
		pieces[i].lmr_context = pieces[0].lmr_context;
	for (int round = 0; round < 2; round++)
		way_transfer(&rig, SEND, pieces, _i, _i * PIECE);
	ck_dat(way_post(&rig, READ, pieces, _i));
	ck_assert_int_eq(ofi_completion(&rig), DAT_DTO_ERR_LOCAL_PROTECTION);
	ck_dat(lmr_free(lmr));
	ofi_rig_close(&rig);
}
END_TEST

/* It is of no region, and nobody looks at it. */
START_TEST(an_empty_segment_is_left_out_wherever_it_is)
{
	DAT_LMR_TRIPLET pieces[4];
	struct ofi_rig rig;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	for (int c = 1; c < COUNT(piece_counts); c++)
		for (int at = 0; at < piece_counts[c]; at++) {
			const int n = piece_counts[c];

			pieces_of(&rig, pieces, n - 1);
			memmove(&pieces[at + 1], &pieces[at],
				(size_t)(n - 1 - at) * sizeof(*pieces));
			pieces[at].segment_length = 0;
			way_transfer(&rig, (enum way)_i, pieces, n, (n - 1) * PIECE);
			pieces[at] = (DAT_LMR_TRIPLET){ .virtual_address = 1 };
			way_transfer(&rig, (enum way)_i, pieces, n, (n - 1) * PIECE);
			/* the sum is that of the others, if it wraps */
			pieces[at].segment_length = -(DAT_VLEN)PIECE;
			ck_dat_is(way_post(&rig, (enum way)_i, pieces, n), DAT_INVALID_PARAMETER,
				  DAT_INVALID_ARG3);
		}
	ofi_rig_close(&rig);
}
END_TEST

/* A peer could still use it. */
START_TEST(the_region_of_an_unbind_that_can_not_be_closed_keeps_its_lmr)
{
	const DAT_RMR_COOKIE cookie = { .as_64 = 1 };
	DAT_LMR_TRIPLET range;
	DAT_RMR_CONTEXT context;
	struct ofi_rig rig;
	DAT_RMR_HANDLE rmr;

	objects_open(&rig);
	ck_dat(ofi_connect(&rig));
	ck_dat(rmr_create(rig.pz, &rmr));
	range = rig.segment;
	ck_dat(rmr_bind_va(rmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, rig.active, cookie,
			   DAT_COMPLETION_DEFAULT_FLAG, &context));
	event_is(rig.dto_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	range.segment_length = 0;
	ff_fail_times("fi_close_mr", FI_EBUSY, 3);
	ck_dat(rmr_bind_va(rmr, &range, DAT_MEM_PRIV_NONE_FLAG, rig.active, cookie,
			   DAT_COMPLETION_DEFAULT_FLAG, &context));
	event_is(rig.dto_evd, DAT_RMR_BIND_COMPLETION_EVENT);
	ck_dat_is(lmr_free(rig.lmr), DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE);
	ck_assert_uint_eq(ff_alive(FF_MR), 2);
	while (ff_fail_left("fi_close_mr"))
		;
	ck_dat(lmr_free(rig.lmr));
	ck_assert_uint_eq(ff_alive(FF_MR), 0);
	rig.lmr = DAT_HANDLE_NULL;
	ck_dat(rmr_free(rmr));
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("connect");

	tcase_add_loop_test(tcase, a_qualifier_is_in_use_only_if_its_port_is, 0, COUNT(listens));
	tcase_add_loop_test(tcase, an_attempt_ends_with_the_event_of_its_cause, 0, COUNT(attempts));
	tcase_add_test(tcase, a_rejection_by_the_consumer_is_told_from_others);
	tcase_add_loop_test(tcase, both_sides_agree_on_reads, 0, 2);
	tcase_add_test(tcase, private_data_arrive_with_their_size);
	tcase_add_test(tcase, a_request_of_no_udapl_provider_is_refused);
	tcase_add_test(tcase, a_request_that_ends_within_its_header_is_refused);
	tcase_add_test(tcase, what_arrives_as_the_event_queue_is_armed_is_handled_at_once);
	tcase_add_test(tcase, all_events_are_read_where_the_arming_does_not_look);
	tcase_add_test(tcase, an_event_queue_that_is_never_armed_holds_nobody_up);
	tcase_add_test(tcase, an_answer_of_no_udapl_provider_is_a_rejection);
	tcase_add_test(tcase, a_request_to_a_service_point_that_is_freed_is_refused);
	tcase_add_test(tcase, an_end_that_is_read_by_another_call_is_told);
	tcase_add_test(tcase, ends_of_idle_connections_read_queues_rarely);
	tcase_add_test(tcase, an_end_that_nobody_could_keep_for_lack_of_memory_leaves_nothing);
	tcase_add_test(tcase, an_address_of_another_family_is_refused);
	tcase_add_test(tcase, an_address_that_can_not_be_called_from_here_is_unreachable);
	tcase_add_test(tcase, a_connect_without_memory_can_be_repeated);
	tcase_add_loop_test(tcase, a_completion_has_the_status_of_its_cause, 0, COUNT(completions));
	tcase_add_test(tcase, transfers_that_libfabric_takes_later_complete_in_order);
	tcase_add_test(tcase, a_fence_waits_for_a_read_that_libfabric_takes_later);
	tcase_add_loop_test(tcase, a_transfer_that_libfabric_takes_later_is_the_same, 0, WAYS);
	tcase_add_loop_test(tcase, a_refused_post_has_the_status_of_its_cause, 0,
			    COUNT(refused_posts));
	tcase_add_test(tcase, a_write_of_no_bytes_completes_behind_a_post_that_waits);
	tcase_add_loop_test(tcase, a_fence_before_a_read_waits_for_reads, 0, 2);
	tcase_add_loop_test(tcase, a_bad_segment_is_found_wherever_it_is, 0, WAYS);
	tcase_add_loop_test(tcase, a_read_to_where_nothing_may_be_written_is_refused_behind_a_send,
			    1, 5);
	tcase_add_loop_test(tcase, an_empty_segment_is_left_out_wherever_it_is, 0, WAYS);
	tcase_add_test(tcase, the_region_of_an_unbind_that_can_not_be_closed_keeps_its_lmr);
	return run_cases(argc, argv);
}
