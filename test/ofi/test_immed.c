/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes with immediate data, of DAT 2.0: over providers where such a write completes a receive of
 * the peer, and over others, where a message follows it.
 */
#include <errno.h>
#include <string.h>

#include <dat2/dat_ib_extensions.h>
#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "ofi_test.h"

#define PARAMS	      "scripted 127.0.0.1"
#define LENGTH	      100 /* bytes of a write */
#define NUMBER	      0xfedc1234u
#define NOT_SUPPORTED DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
#define DEFAULT	      DAT_COMPLETION_DEFAULT_FLAG
#define FENCE	      DAT_COMPLETION_BARRIER_FENCE_FLAG

/* The iterations of a loop test: a message follows, or the write is all. */
enum { FOLLOWS, ALONE, WAYS };

static struct ofi_rig rig;

/* ---- the rig ---- */

static void choose(int way)
{
	ff_provider()->mode = way == ALONE ? FI_RX_CQ_DATA : 0;
}

static void open_rig(int way)
{
	choose(way);
	ofi_rig_open(&rig);
	ofi_rig_lock(&rig); /* the service thread does nothing */
	memset(rig.memory, 'x', LENGTH);
	rig.segment.segment_length = LENGTH;
}

static void close_rig(void)
{
	ofi_rig_unlock(&rig);
	ofi_rig_close(&rig);
}

static DAT_DTO_COOKIE cookie_of(uint64_t n)
{
	return (DAT_DTO_COOKIE){ .as_64 = n };
}

static void post_recv(uint64_t n)
{
	ck_dat(ep_post_recv(rig.passive, 0, NULL, cookie_of(n), DEFAULT));
}

static void post_immed(uint64_t n, DAT_UINT32 immed, DAT_COMPLETION_FLAGS flags)
{
	ck_dat(ep_post_write_immed(rig.active, 1, &rig.segment, cookie_of(n), &rig.target, immed,
				   flags));
}

/* ---- events ---- */

/* The next event that is there is a completion of this endpoint, of an extension. */
static DAT_EVENT next_extended(DAT_EP_HANDLE ep, uint64_t cookie, DAT_DTO_COMPLETION_STATUS status,
			       int operation)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	ck_dat(evd_dequeue(rig.dto_evd, &event));
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_int_eq((int)event.event_number, DAT_IB_DTO_EVENT);
	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, status);
	ck_assert_int_eq((int)dto->operation, operation);
	return event;
}

static void expect_written(uint64_t cookie)
{
	(void)next_extended(rig.active, cookie, DAT_DTO_SUCCESS, DAT_IB_DTO_RDMA_WRITE_IMMED);
}

static void expect_write_failed(uint64_t cookie, DAT_DTO_COMPLETION_STATUS status)
{
	(void)next_extended(rig.active, cookie, status, DAT_IB_DTO_RDMA_WRITE_IMMED);
}

static void expect_immed(uint64_t cookie, DAT_UINT32 immed, DAT_VLEN length)
{
	const DAT_EVENT event = next_extended(rig.passive, cookie, DAT_DTO_SUCCESS,
					      DAT_IB_DTO_RECV_IMMED);
	const DAT_IB_EXTENSION_EVENT_DATA *extension =
		(const DAT_IB_EXTENSION_EVENT_DATA *)&event.event_extension_data;

	ck_assert_int_eq((int)extension->type, DAT_IB_RDMA_WRITE_IMMED_DATA);
	ck_assert_uint_eq(extension->val.immed.data, immed);
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.transfered_length, length);
}

static void expect_no_event(void)
{
	DAT_EVENT event;

	ck_assert_uint_eq(DAT_GET_TYPE(evd_dequeue(rig.dto_evd, &event)), DAT_QUEUE_EMPTY);
}

/* As the service thread does when nobody polls. */
static void harvest(void)
{
	struct tp_cq *cq = ((struct evd *)rig.dto_evd)->cq;

	spin_lock(&cq->lock);
	(void)cq_harvest_locked(cq);
	spin_unlock(&cq->lock);
}

/* ---- what the provider offers ---- */

static const struct {
	uint64_t mode;
	size_t room;
	uint32_t protocol;
	bool works;
} providers[] = {
	{ 0, 8, FI_PROTO_SOCK_TCP, true },
	{ 0, 4, FI_PROTO_SOCK_TCP, false }, /* there is no room for the length */
	{ 0, 0, FI_PROTO_SOCK_TCP, false },
	{ 0, 8, FI_PROTO_RDMA_CM_IB_RC, false }, /* completions have to be counted */
	{ FI_RX_CQ_DATA, 4, FI_PROTO_RDMA_CM_IB_RC, true },
	{ FI_RX_CQ_DATA, 3, FI_PROTO_RDMA_CM_IB_RC, false },
};

START_TEST(the_attribute_says_if_the_provider_can)
{
	DAT_PROVIDER_ATTR attr;
	const char *value = NULL;

	ff_provider()->mode = providers[_i].mode;
	ff_provider()->cq_data_size = providers[_i].room;
	ff_provider()->protocol = providers[_i].protocol;
	ofi_rig_open(&rig);
	ck_dat(ia_query(rig.ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	for (int i = 0; i < attr.num_provider_specific_attr; i++)
		if (!strcmp(attr.provider_specific_attr[i].name, DAT_IB_ATTR_IMMED_DATA))
			value = attr.provider_specific_attr[i].value;
	ck_assert_str_eq(value, providers[_i].works ? "TRUE" : "FALSE");
	if (!providers[_i].works)
		ck_assert_uint_eq(
			ep_post_write_immed(rig.active, 0, NULL, cookie_of(1), NULL, 0, DEFAULT),
			NOT_SUPPORTED);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- what libfabric gets ---- */

/* The message has both the data and the flag that has it complete when a receive has taken it. */
START_TEST(a_message_follows_the_write_where_a_write_completes_no_receive)
{
	unsigned writes, sends;

	open_rig(FOLLOWS);
	writes = ff_calls("fi_write");
	sends = ff_calls("fi_send");
	post_recv(1);
	post_immed(2, NUMBER, DEFAULT);
	ck_assert_uint_eq(ff_calls("fi_write"), writes + 1);
	ck_assert_uint_eq(ff_calls("fi_send"), sends + 1);
	ck_assert_uint_eq(ff_seen().write_flags, 0);
	ck_assert_uint_eq(ff_seen().message_flags,
			  FI_COMPLETION | FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA);
	expect_immed(1, NUMBER, LENGTH);
	expect_written(2);
	expect_no_event();
	close_rig();
}
END_TEST

START_TEST(no_message_follows_a_write_that_completes_a_receive)
{
	const unsigned sends = ff_calls("fi_send");

	open_rig(ALONE);
	post_recv(1);
	post_immed(2, NUMBER, DEFAULT);
	ck_assert_uint_eq(ff_calls("fi_send"), sends);
	ck_assert_uint_eq(ff_seen().write_flags,
			  FI_COMPLETION | FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA);
	expect_immed(1, NUMBER, LENGTH);
	expect_written(2);
	close_rig();
}
END_TEST

START_TEST(without_bytes_the_number_goes_alone)
{
	unsigned writes;

	open_rig(_i);
	writes = ff_calls("fi_write");
	post_recv(1);
	ck_dat(ep_post_write_immed(rig.active, 0, NULL, cookie_of(2), NULL, 0xffffffff, DEFAULT));
	ck_assert_uint_eq(ff_calls("fi_write"), writes + (_i == ALONE));
	expect_immed(1, 0xffffffff, 0);
	expect_written(2);
	close_rig();
}
END_TEST

START_TEST(the_bytes_are_in_place)
{
	open_rig(_i);
	post_recv(1);
	post_immed(2, 0, DEFAULT);
	ck_assert_mem_eq(rig.memory, rig.memory + OFI_MEMORY / 2, LENGTH);
	ck_assert_int_eq(rig.memory[OFI_MEMORY / 2 + LENGTH], 0);
	expect_immed(1, 0, LENGTH);
	expect_written(2);
	close_rig();
}
END_TEST

START_TEST(the_length_is_that_of_all_segments)
{
	DAT_LMR_TRIPLET segments[2];

	open_rig(_i);
	segments[0] = segments[1] = rig.segment;
	segments[0].segment_length = LENGTH / 4;
	segments[1].segment_length = LENGTH - LENGTH / 4;
	post_recv(1);
	ck_dat(ep_post_write_immed(rig.active, 2, segments, cookie_of(2), &rig.target, NUMBER,
				   DEFAULT));
	expect_immed(1, NUMBER, LENGTH);
	expect_written(2);
	close_rig();
}
END_TEST

/* ---- completions ---- */

/* Whoever takes them in, and however many at once. */
START_TEST(the_number_is_kept_until_it_is_reported)
{
	open_rig(_i);
	for (uint64_t n = 0; n < 3; n++)
		post_recv(n);
	for (DAT_UINT32 n = 0; n < 3; n++)
		post_immed(10 + n, NUMBER + n, DEFAULT);
	harvest();
	for (DAT_UINT32 n = 0; n < 3; n++) {
		expect_immed(n, NUMBER + n, LENGTH);
		expect_written(10 + n);
	}
	expect_no_event();
	close_rig();
}
END_TEST

START_TEST(messages_and_numbers_stay_in_order)
{
	DAT_EVENT event;

	open_rig(_i);
	post_immed(10, 1, DEFAULT);
	ck_dat(ep_post_send(rig.active, 0, NULL, cookie_of(11), DEFAULT));
	post_immed(12, 2, DEFAULT);
	for (uint64_t n = 0; n < 3; n++)
		post_recv(n);
	harvest();
	expect_immed(0, 1, LENGTH);
	expect_written(10);
	for (unsigned i = 0; i < 2; i++) { /* the send, which completes at once, and its receive */
		ck_dat(evd_dequeue(rig.dto_evd, &event));
		ck_assert_int_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
	}
	expect_immed(2, 2, LENGTH);
	expect_written(12);
	close_rig();
}
END_TEST

/* The queue of the endpoint's own receives is not used. */
START_TEST(a_shared_receive_has_the_number_and_the_endpoint)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = 4, .max_recv_iov = 1 };
	DAT_SRQ_HANDLE srq;
	DAT_EP_PARAM param;

	choose(_i);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(ofi_objects_create(&rig));
	ck_dat(ep_query(rig.passive, DAT_EP_FIELD_EP_ATTR_ALL, &param));
	ck_dat(srq_create(rig.ia, rig.pz, &attr, &srq));
	ck_dat(ep_free(rig.passive));
	ck_dat(ep_create_with_srq(rig.ia, rig.pz, rig.dto_evd, rig.dto_evd, rig.conn_evd, srq,
				  &param.ep_attr, &rig.passive));
	ck_dat(ofi_connect(&rig));
	ofi_rig_lock(&rig);
	rig.segment.segment_length = LENGTH;
	ck_dat(srq_post_recv(srq, 1, &rig.segment, cookie_of(1)));
	post_immed(2, NUMBER, DEFAULT);
	harvest();
	expect_written(2);
	expect_immed(1, NUMBER, LENGTH);
	ofi_rig_unlock(&rig);
	ck_dat(ep_free(rig.passive));
	rig.passive = DAT_HANDLE_NULL;
	ck_dat(srq_free(srq));
	ofi_rig_close(&rig);
}
END_TEST

/* ---- a write that waits ---- */

START_TEST(a_fence_holds_up_the_write_and_its_number)
{
	unsigned writes;
	DAT_EVENT event;

	open_rig(_i);
	writes = ff_calls("fi_write");
	post_recv(1);
	ck_dat(ep_post_rdma_read(rig.active, 1, &rig.segment, cookie_of(2), &rig.target, DEFAULT));
	post_immed(3, NUMBER, FENCE);
	ck_assert_uint_eq(ff_calls("fi_write"), writes);
	ck_dat(evd_dequeue(rig.dto_evd, &event));
	ck_assert_uint_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, 2);
	ck_assert_uint_eq(ff_calls("fi_write"), writes + 1);
	expect_immed(1, NUMBER, LENGTH);
	expect_written(3);
	close_rig();
}
END_TEST

START_TEST(a_write_that_libfabric_has_no_room_for_is_tried_again)
{
	unsigned writes;

	open_rig(_i);
	writes = ff_calls("fi_write");
	post_recv(1);
	ff_fail("fi_write", FI_EAGAIN, 1);
	post_immed(2, NUMBER, DEFAULT);
	ck_assert_uint_eq(ff_calls("fi_write"), writes + 1);
	harvest();
	ck_assert_uint_eq(ff_calls("fi_write"), writes + 2);
	expect_immed(1, NUMBER, LENGTH);
	expect_written(2);
	close_rig();
}
END_TEST

/* Nothing is written twice, and what is posted behind it waits. */
START_TEST(a_message_that_libfabric_has_no_room_for_is_tried_again_alone)
{
	unsigned writes, sends;

	open_rig(FOLLOWS);
	writes = ff_calls("fi_write");
	sends = ff_calls("fi_send");
	post_recv(1);
	post_recv(2);
	ff_fail("fi_send", FI_EAGAIN, 1);
	post_immed(3, NUMBER, DEFAULT);
	ck_assert_uint_eq(ff_calls("fi_write"), writes + 1);
	ck_assert_uint_eq(ff_calls("fi_send"), sends + 1);
	post_immed(4, NUMBER + 1, DEFAULT);
	ck_assert_uint_eq(ff_calls("fi_write"), writes + 2);
	ck_assert_uint_eq(ff_calls("fi_send"), sends + 3);
	harvest();
	expect_immed(1, NUMBER, LENGTH);
	expect_written(3);
	expect_immed(2, NUMBER + 1, LENGTH);
	expect_written(4);
	close_rig();
}
END_TEST

/* ---- failures ---- */

/* The connection is over, and what was posted behind it is flushed. */
static void expect_over(void)
{
	post_immed(5, NUMBER, DEFAULT);
	harvest();
	expect_write_failed(2, DAT_DTO_ERR_LOCAL_EP);
	expect_write_failed(5, DAT_DTO_ERR_FLUSHED);
	expect_no_event();
}

START_TEST(a_write_that_libfabric_refuses_has_failed)
{
	open_rig(_i);
	ff_fail("fi_write", FI_EINVAL, 1);
	post_immed(2, NUMBER, DEFAULT);
	expect_over();
	close_rig();
}
END_TEST

START_TEST(a_message_that_libfabric_refuses_has_failed)
{
	open_rig(FOLLOWS);
	ff_fail("fi_send", FI_EINVAL, 1);
	post_immed(2, NUMBER, DEFAULT);
	expect_over();
	close_rig();
}
END_TEST

/* A write that fails alone can't be: what it has failed of ends the connection, and the message. */
START_TEST(what_comes_of_the_write_alone_is_not_told)
{
	open_rig(FOLLOWS);
	post_recv(1);
	ff_fail("completion", FI_ECANCELED, 1);
	post_immed(2, NUMBER, DEFAULT);
	harvest();
	expect_immed(1, NUMBER, LENGTH);
	expect_written(2);
	expect_no_event();
	close_rig();
}
END_TEST

/* The completion of the write, and that of the message, arrive after the peer has refused it. */
START_TEST(a_write_that_the_peer_refuses_is_flushed)
{
	open_rig(_i);
	rig.target.rmr_context ^= 0x5a5a;
	post_immed(2, NUMBER, DEFAULT);
	harvest();
	expect_write_failed(2, DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(rig.memory[OFI_MEMORY / 2], 0);
	close_rig();
}
END_TEST

/* Neither has a receive taken the message, nor has the write completed. */
START_TEST(what_waits_for_a_receive_is_flushed_with_its_endpoint)
{
	open_rig(_i);
	post_immed(2, NUMBER, DEFAULT);
	expect_no_event();
	ofi_rig_unlock(&rig);
	ck_dat(ep_disconnect(rig.active, DAT_CLOSE_ABRUPT_FLAG));
	(void)ofi_event(rig.conn_evd);
	(void)ofi_event(rig.conn_evd);
	ofi_rig_lock(&rig);
	expect_write_failed(2, DAT_DTO_ERR_FLUSHED);
	expect_no_event();
	close_rig();
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("immediate data");

	tcase_add_loop_test(cases, the_attribute_says_if_the_provider_can, 0, COUNT(providers));
	tcase_add_test(cases, a_message_follows_the_write_where_a_write_completes_no_receive);
	tcase_add_test(cases, no_message_follows_a_write_that_completes_a_receive);
	tcase_add_loop_test(cases, without_bytes_the_number_goes_alone, 0, WAYS);
	tcase_add_loop_test(cases, the_bytes_are_in_place, 0, WAYS);
	tcase_add_loop_test(cases, the_length_is_that_of_all_segments, 0, WAYS);
	tcase_add_loop_test(cases, the_number_is_kept_until_it_is_reported, 0, WAYS);
	tcase_add_loop_test(cases, messages_and_numbers_stay_in_order, 0, WAYS);
	tcase_add_loop_test(cases, a_shared_receive_has_the_number_and_the_endpoint, 0, WAYS);
	tcase_add_loop_test(cases, a_fence_holds_up_the_write_and_its_number, 0, WAYS);
	tcase_add_loop_test(cases, a_write_that_libfabric_has_no_room_for_is_tried_again, 0, WAYS);
	tcase_add_test(cases, a_message_that_libfabric_has_no_room_for_is_tried_again_alone);
	tcase_add_loop_test(cases, a_write_that_libfabric_refuses_has_failed, 0, WAYS);
	tcase_add_test(cases, a_message_that_libfabric_refuses_has_failed);
	tcase_add_test(cases, what_comes_of_the_write_alone_is_not_told);
	tcase_add_loop_test(cases, a_write_that_the_peer_refuses_is_flushed, 0, WAYS);
	tcase_add_loop_test(cases, what_waits_for_a_receive_is_flushed_with_its_endpoint, 0, WAYS);
	return run_cases(argc, argv);
}
