/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: what providers offer, and failures as one is made. */
#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "../unit/alloc.h"
#include "ofi_test.h"

#define PARAMS "scripted 127.0.0.1"

static DAT_RETURN queue_create(struct ofi_rig *rig, DAT_COUNT receives, DAT_SRQ_HANDLE *srq)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = receives, .max_recv_iov = 1 };

	return srq_create(rig->ia, rig->pz, &attr, srq);
}

static DAT_RETURN endpoint_create(struct ofi_rig *rig, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr,
				  DAT_EP_HANDLE *ep)
{
	return ep_create_with_srq(rig->ia, rig->pz, rig->dto_evd, rig->dto_evd, rig->conn_evd, srq,
				  attr, ep);
}

START_TEST(without_shared_contexts_there_are_no_queues)
{
	DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
	DAT_PROVIDER_ATTR provider;
	DAT_IA_ATTR attr;
	struct ofi_rig rig;

	ff_fail("fi_srx_context", FI_ENOSYS, 1);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(ofi_objects_create(&rig));
	ck_dat(ia_query(rig.ia, NULL, DAT_IA_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider));
	ck_assert_int_eq(attr.max_srqs, 0);
	ck_assert_int_eq(attr.max_recv_per_srq, 0);
	ck_assert_int_eq(provider.srq_supported, DAT_FALSE);
	ck_dat_is(queue_create(&rig, 4, &srq), DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	ck_assert_ptr_eq(srq, DAT_HANDLE_NULL);
	ofi_rig_close(&rig);
}
END_TEST

/* The descriptors of libfabric 2 are epoll sets of epoll sets already. */
START_TEST(without_room_for_nested_sets_there_are_no_queues)
{
	bool refused = false;

	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned n = 1; n < 20 && !refused; n++) {
		DAT_IA_ATTR attr = { .max_srqs = 1 };
		struct ofi_rig rig;

		ff_fail("epoll_ctl", ELOOP, n);
		if (ofi_ia_open(&rig, PARAMS) == DAT_SUCCESS)
			ck_dat(ia_query(rig.ia, NULL, DAT_IA_ALL, &attr, 0, NULL));
		refused = !attr.max_srqs;
		ofi_rig_close(&rig);
	}
	ck_assert(refused);
}
END_TEST

/* A device's does not. */
START_TEST(a_queue_of_tcp_grows)
{
	DAT_SRQ_HANDLE srq;
	DAT_SRQ_PARAM param;
	struct ofi_rig rig;

	ff_provider()->protocol = _i ? FI_PROTO_RDMA_CM_IB_RC : FI_PROTO_SOCK_TCP;
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(ofi_objects_create(&rig));
	ck_dat(queue_create(&rig, 4, &srq));
	if (_i)
		ck_dat_is(srq_resize(srq, 8), DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
	else
		ck_dat(srq_resize(srq, 8));
	ck_dat(srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
	ck_assert_int_eq(param.max_recv_dtos, _i ? 4 : 8);
	for (int n = 0; n < param.max_recv_dtos; n++)
		ck_dat(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }));
	ck_dat_is(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }),
		  DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	ck_dat(srq_free(srq));
	ofi_rig_close(&rig);
}
END_TEST

static const struct {
	const char *call; /* NULL: an allocation */
	int err;
} steps[] = {
	{ NULL, 0 },
	{ "fi_srx_context", FI_ENOMEM },
	{ "fi_cq_open", FI_ENOMEM },
	{ "fi_getwait", FI_EINVAL },
	{ "epoll_create1", EMFILE },
	{ "epoll_ctl", ENOSPC },
};

static void step_fail(unsigned nth)
{
	if (steps[nth >> 16].call)
		ff_fail(steps[nth >> 16].call, steps[nth >> 16].err, nth & 0xffff);
	else
		alloc_fail_nth(nth & 0xffff);
}

/* The queue and its endpoint are made afterwards, and connect. */
START_TEST(a_step_that_fails_leaves_nothing_behind)
{
	bool failed = true;

	setenv("DAPL_DBG_TYPE", "0", 1);
	for (unsigned n = 1; failed; n++) {
		DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
		DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
		DAT_EP_PARAM like;
		struct ofi_rig rig;
		DAT_RETURN ret;

		ck_dat(ofi_ia_open(&rig, PARAMS));
		ck_dat(ofi_objects_create(&rig));
		ck_dat(ep_query(rig.passive, DAT_EP_FIELD_ALL, &like));
		step_fail((unsigned)_i << 16 | n);
		ret = queue_create(&rig, 4, &srq);
		if (!ret)
			ret = endpoint_create(&rig, srq, &like.ep_attr, &ep);
		failed = steps[_i].call ? !ff_fail_left(steps[_i].call) : alloc_failed();
		ck_assert_uint_eq(DAT_GET_TYPE(ret), failed ? DAT_INSUFFICIENT_RESOURCES : 0u);
		if (!srq)
			ck_dat(queue_create(&rig, 4, &srq));
		if (!ep)
			ck_dat(endpoint_create(&rig, srq, &like.ep_attr, &ep));
		ck_dat(ep_free(rig.passive));
		rig.passive = ep;
		ck_dat(ofi_connect(&rig));
		ck_dat(ep_free(ep));
		rig.passive = DAT_HANDLE_NULL;
		ck_dat(srq_free(srq));
		ofi_rig_close(&rig);
	}
}
END_TEST

/* Sends @n messages, and takes the completions of both sides. */
static void messages_exchange(struct ofi_rig *rig, unsigned n)
{
	for (unsigned i = 0; i < 2 * n; i++) {
		if (i < n)
			ck_dat(ep_post_send(rig->active, 1, &rig->segment,
					    (DAT_DTO_COOKIE){ .as_64 = 1 },
					    DAT_COMPLETION_DEFAULT_FLAG));
		ck_assert_uint_eq(ofi_completion(rig), DAT_DTO_SUCCESS);
	}
}

/* What the service thread would do. */
static void limits_report(struct ofi_rig *rig)
{
	struct ia *ia = (struct ia *)rig->ia;

	ofi_rig_lock(rig);
	(void)tp_dev_progress(ia->dev, 0);
	ofi_rig_unlock(rig);
}

#define RECEIVES  4
#define WATERMARK 2

/* A connection whose passive endpoint receives through a queue of RECEIVES. */
static void shared_open(struct ofi_rig *rig, DAT_SRQ_HANDLE *srq)
{
	DAT_EP_PARAM like;

	ck_dat(ofi_ia_open(rig, PARAMS));
	ck_dat(ofi_objects_create(rig));
	ck_dat(ep_query(rig->passive, DAT_EP_FIELD_ALL, &like));
	ck_dat(ep_free(rig->passive));
	ck_dat(queue_create(rig, RECEIVES, srq));
	ck_dat(endpoint_create(rig, *srq, &like.ep_attr, &rig->passive));
	ck_dat(ofi_connect(rig));
}

static void shared_close(struct ofi_rig *rig, DAT_SRQ_HANDLE srq)
{
	ck_dat(ep_free(rig->passive));
	rig->passive = DAT_HANDLE_NULL;
	ck_dat(srq_free(srq));
	ofi_rig_close(rig);
}

static void expect_watermark(struct ofi_rig *rig)
{
	DAT_EVENT event;

	limits_report(rig);
	ck_dat(evd_dequeue(rig->async_evd, &event));
	ck_assert_uint_eq(event.event_number, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason,
			 DAT_SRQ_LOW_WATERMARK_EVENT);
}

START_TEST(the_watermark_is_reported_when_fewer_are_left)
{
	DAT_SRQ_HANDLE srq;
	struct ofi_rig rig;
	DAT_EVENT event;

	shared_open(&rig, &srq);
	for (unsigned i = 0; i < RECEIVES; i++)
		ck_dat(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }));
	ck_dat(srq_set_lw(srq, WATERMARK));
	messages_exchange(&rig, RECEIVES - WATERMARK);
	limits_report(&rig);
	ck_assert_uint_eq(evd_dequeue(rig.async_evd, &event), DAT_QUEUE_EMPTY);
	messages_exchange(&rig, 1);
	expect_watermark(&rig);
	shared_close(&rig, srq);
}
END_TEST

/* Fewer than one are left later than fewer than all. */
START_TEST(a_watermark_that_is_set_anew_is_not_the_one_that_was_reached)
{
	struct tp_dev *dev;
	struct ofi_rig rig;
	DAT_SRQ_HANDLE srq;
	DAT_EVENT event;

	shared_open(&rig, &srq);
	dev = ((struct ia *)rig.ia)->dev;
	for (unsigned i = 0; i < RECEIVES; i++)
		ck_dat(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }));
	ck_dat(srq_set_lw(srq, RECEIVES));
	ofi_rig_lock(&rig);
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 },
			    DAT_COMPLETION_DEFAULT_FLAG));
	for (unsigned i = 0; i < 2; i++)
		ck_dat(evd_dequeue(rig.dto_evd, &event));
	ck_assert_int_eq(tp_srq_arm(((struct srq *)srq)->tp, 1), 0); /* as dat_srq_set_lw does */
	(void)tp_dev_progress(dev, 0);
	ofi_rig_unlock(&rig);
	ck_assert_uint_eq(evd_dequeue(rig.async_evd, &event), DAT_QUEUE_EMPTY);
	messages_exchange(&rig, RECEIVES - 1);
	expect_watermark(&rig);
	shared_close(&rig, srq);
}
END_TEST

/* Of a queue from which endpoints take receives, messages may wait for that. */
START_TEST(a_receive_wakes_the_service_thread_for_no_queue_without_endpoints)
{
	DAT_SRQ_HANDLE srq;
	struct ofi_rig rig;
	struct tp_cq *cq;

	shared_open(&rig, &srq);
	cq = ((struct evd *)rig.dto_evd)->cq;
	for (unsigned i = 0; i < 2; i++) {
		ofi_rig_lock(&rig);
		progress_due(cq);
		while (cq->due)
			(void)tp_dev_progress(cq->dev, 0);
		ck_dat(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }));
		ck_assert_int_eq(cq->due, !i);
		ofi_rig_unlock(&rig);
		if (!i)
			ck_dat(ep_free(rig.passive));
	}
	rig.passive = DAT_HANDLE_NULL;
	ck_dat(srq_free(srq));
	ofi_rig_close(&rig);
}
END_TEST

/* It takes no slot for longer, and does not count for the watermark. */
START_TEST(a_receive_that_libfabric_refuses_is_none)
{
	DAT_SRQ_HANDLE srq;
	struct ofi_rig rig;

	shared_open(&rig, &srq);
	for (unsigned i = 0; i < 1000; i++) {
		ff_fail("fi_recv", FI_EAGAIN, 1);
		ck_dat_is(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }),
			  DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	}
	for (unsigned i = 0; i < RECEIVES; i++)
		ck_dat(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }));
	ck_dat(srq_set_lw(srq, WATERMARK));
	messages_exchange(&rig, RECEIVES - WATERMARK + 1);
	expect_watermark(&rig);
	shared_close(&rig, srq);
}
END_TEST

/* As with a receive of an endpoint, that shows when a message comes. */
START_TEST(a_buffer_that_is_in_no_region_receives_nothing)
{
	DAT_LMR_TRIPLET buffer;
	DAT_SRQ_HANDLE srq;
	struct ofi_rig rig;

	shared_open(&rig, &srq);
	buffer = rig.segment;
	buffer.virtual_address = (uintptr_t)rig.memory + OFI_MEMORY / 2;
	buffer.segment_length = OFI_MEMORY / 2;
	buffer.lmr_context ^= 0xff00;
	rig.segment.segment_length = 8;
	rig.memory[0] = 'x';
	rig.memory[OFI_MEMORY / 2] = 'y';
	ck_dat(srq_post_recv(srq, 1, &buffer, (DAT_DTO_COOKIE){ .as_64 = 1 }));
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 },
			    DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_uint_eq(ofi_event(rig.conn_evd).event_number, DAT_CONNECTION_EVENT_BROKEN);
	ck_assert_int_eq(rig.memory[OFI_MEMORY / 2], 'y');
	shared_close(&rig, srq);
}
END_TEST

static const struct tp_dev *guarded;

static void expect_guard(void)
{
	assert_locked(&guarded->srx_lock);
}

/* Or libfabric's tcp 1.17 may corrupt its buffers, when the peer ends in mid-message. */
START_TEST(calls_that_take_or_give_shared_buffers_take_turns)
{
	static const char *const calls[] = { "fi_recv", "fi_cq_read", "fi_shutdown" };
	DAT_SRQ_HANDLE srq;
	struct ofi_rig rig;
	DAT_EVENT event;

	shared_open(&rig, &srq);
	guarded = ((struct ia *)rig.ia)->dev;
	ff_hook(calls[_i], expect_guard);
	ck_dat(srq_post_recv(srq, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 }));
	(void)evd_dequeue(rig.dto_evd, &event);
	ck_dat(ep_disconnect(rig.passive, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_ge(ff_calls(calls[_i]), 1);
	ff_hook(calls[_i], NULL);
	shared_close(&rig, srq);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("shared receive queues");

	tcase_add_test(tcase, without_shared_contexts_there_are_no_queues);
	tcase_add_test(tcase, without_room_for_nested_sets_there_are_no_queues);
	tcase_add_loop_test(tcase, a_queue_of_tcp_grows, 0, 2);
	tcase_add_loop_test(tcase, a_step_that_fails_leaves_nothing_behind, 0, COUNT(steps));
	tcase_add_test(tcase, the_watermark_is_reported_when_fewer_are_left);
	tcase_add_test(tcase, a_watermark_that_is_set_anew_is_not_the_one_that_was_reached);
	tcase_add_test(tcase, a_receive_wakes_the_service_thread_for_no_queue_without_endpoints);
	tcase_add_test(tcase, a_receive_that_libfabric_refuses_is_none);
	tcase_add_test(tcase, a_buffer_that_is_in_no_region_receives_nothing);
	tcase_add_loop_test(tcase, calls_that_take_or_give_shared_buffers_take_turns, 0, 3);
	return run_cases(argc, argv);
}
