/* SPDX-License-Identifier: BSD-2-Clause */
/* A lane: one connection of a test with its memory, its posts and completions. */
#include "dapltest.h"

enum {
	READS = 4, /* in flight, at most */
};

/* ---- posts and completions ---- */

const struct operation *lane_operation(const struct lane *lane, unsigned i)
{
	return &lane->crew->test->plan->ops[i];
}

/* The seeds of any two payloads that could be mistaken for each other differ. */
unsigned lane_seed(const struct lane *lane, unsigned i, unsigned iteration)
{
	unsigned number = (unsigned)lane->channel.origin.lane + 1000 * lane->crew->number;

	return (number * (OPS_MAX + BARRIERS) + i) * 31 + iteration;
}

static unsigned lane_iov(const struct lane *lane, size_t offset, unsigned segments, unsigned size,
			 DAT_LMR_TRIPLET iov[SEGMENTS_MAX])
{
	for (unsigned i = 0; i < segments; i++)
		iov[i] = memory_segment(&lane->memory, offset + (size_t)i * size, size);
	return segments;
}

int lane_post_receive(struct lane *lane, size_t offset, unsigned segments, unsigned size)
{
	DAT_LMR_TRIPLET iov[SEGMENTS_MAX];
	DAT_COUNT count = (DAT_COUNT)lane_iov(lane, offset, segments, size, iov);

	return TRY(&lane->channel.origin, dat_ep_post_recv, lane->channel.ep, count, iov,
		   (DAT_DTO_COOKIE){ .as_64 = lane->recv_posted++ }, DAT_COMPLETION_DEFAULT_FLAG);
}

int lane_receive(struct lane *lane, size_t length, DAT_TIMEOUT limit)
{
	DAT_VLEN got;

	if (channel_complete(&lane->channel, lane->channel.recv_evd, lane->received, limit, &got) <
	    0)
		return -1;
	if (got != length) {
		report_failure(&lane->channel.origin, "receive", "length %lu in place of %zu",
			       (unsigned long)got, length);
		return -1;
	}
	lane->received++;
	return 0;
}

int lane_post_operation(struct lane *lane, unsigned i)
{
	const struct operation *op = lane_operation(lane, i);
	const size_t offset = lane->crew->test->offsets[i];
	const DAT_DTO_COOKIE cookie = { .as_64 = lane->posted };
	DAT_RMR_TRIPLET remote = { .rmr_context = lane->peer.rmr_context,
				   .REMOTE_ADDRESS = lane->peer.address + offset,
				   .segment_length = operation_bytes(op) };
	DAT_LMR_TRIPLET iov[SEGMENTS_MAX];
	DAT_COUNT count = (DAT_COUNT)lane_iov(lane, offset, op->segments, op->segment_size, iov);
	const struct origin *origin = &lane->channel.origin;
	const DAT_EP_HANDLE ep = lane->channel.ep;
	int result;

	switch (op->transfer) {
	case TRANSFER_WRITE:
		result = TRY(origin, dat_ep_post_rdma_write, ep, count, iov, cookie, &remote,
			     DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case TRANSFER_READ:
		result = TRY(origin, dat_ep_post_rdma_read, ep, count, iov, cookie, &remote,
			     DAT_COMPLETION_DEFAULT_FLAG);
		break;
	default:
		result = TRY(origin, dat_ep_post_send, ep, count, iov, cookie,
			     DAT_COMPLETION_DEFAULT_FLAG);
	}
	if (result == 0)
		lane->posted++;
	return result;
}

int lane_reap_all(struct lane *lane, unsigned i)
{
	DAT_VLEN length = operation_bytes(lane_operation(lane, i));

	while (lane->reaped < lane->posted) {
		if (channel_complete(&lane->channel, lane->channel.request_evd, lane->reaped,
				     PEER_TIMEOUT, &length) < 0)
			return -1;
		lane->reaped++;
	}
	if (length == operation_bytes(lane_operation(lane, i)))
		return 0;
	report_failure(&lane->channel.origin, "completion", "length %lu in place of %zu",
		       (unsigned long)length, operation_bytes(lane_operation(lane, i)));
	return -1;
}

int lane_send_setup(struct lane *lane)
{
	const struct offer own = {
		.rmr_context = lane->memory.rmr_context,
		.address = (DAT_VADDR)(uintptr_t)lane->memory.at,
		.size = lane->memory.size,
	};
	DAT_LMR_TRIPLET iov = memory_segment(&lane->memory, 0, SETUP_BYTES);

	setup_encode(&own, lane->memory.at);
	if (TRY(&lane->channel.origin, dat_ep_post_send, lane->channel.ep, 1, &iov,
		(DAT_DTO_COOKIE){ .as_64 = lane->posted }, DAT_COMPLETION_DEFAULT_FLAG) < 0)
		return -1;
	lane->posted++;
	if (channel_complete(&lane->channel, lane->channel.request_evd, lane->reaped, PEER_TIMEOUT,
			     NULL) < 0)
		return -1;
	lane->reaped++;
	return 0;
}

int lane_receive_setup(struct lane *lane, DAT_TIMEOUT limit)
{
	unsigned slot = 1 + (lane->received > 0);

	if (lane_receive(lane, SETUP_BYTES, limit) < 0)
		return -1;
	setup_decode(&lane->peer, lane->memory.at + (size_t)slot * LANE_SLOT);
	if (lane->peer.size == lane->memory.size)
		return 0;
	report_failure(&lane->channel.origin, "setup", "the peer's memory has %lu bytes, not %zu",
		       (unsigned long)lane->peer.size, lane->memory.size);
	return -1;
}

/* ---- objects ---- */

static DAT_COUNT at_most(DAT_COUNT wanted, DAT_COUNT limit)
{
	return limit > 0 && wanted > limit ? limit : wanted;
}

static DAT_EP_ATTR lane_attr(const struct test *test)
{
	const DAT_IA_ATTR *ia = &test->adapter->attr;
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = SETUP_BYTES,
		.max_rdma_size = SETUP_BYTES,
		.qos = test->plan->qos,
		.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.max_recv_dtos = 2,
		.max_request_dtos = 2 + (test->server ? 0 : (DAT_COUNT)test->plan->pipeline),
		.max_recv_iov = 1,
		.max_request_iov = 1,
		.max_rdma_read_in = at_most(READS, ia->max_rdma_read_per_ep_in),
		.max_rdma_read_out = at_most(READS, ia->max_rdma_read_per_ep_out),
		.max_rdma_read_iov = 1,
		.max_rdma_write_iov = 1,
	};

	for (unsigned i = 0; i < test->plan->op_count; i++) {
		const struct operation *op = &test->plan->ops[i];
		const DAT_COUNT segments = (DAT_COUNT)op->segments;
		const bool ours = op->by_server == test->server;
		DAT_COUNT *iov = op->transfer == TRANSFER_WRITE	 ? &attr.max_rdma_write_iov
				 : op->transfer == TRANSFER_READ ? &attr.max_rdma_read_iov
				 : ours				 ? &attr.max_request_iov
								 : &attr.max_recv_iov;
		TRANSFER_LENGTH *size = op->transfer == TRANSFER_SEND ? &attr.max_message_size
								      : &attr.max_rdma_size;

		if (ours || op->transfer == TRANSFER_SEND)
			*iov = *iov < segments ? segments : *iov;
		if (*size < operation_bytes(op))
			*size = (TRANSFER_LENGTH)operation_bytes(op);
		attr.max_request_dtos += ours;
		attr.max_recv_dtos += !ours && op->transfer == TRANSFER_SEND;
	}
	/* a provider without limits of its own for RDMA takes that of sends */
	if (attr.max_request_iov < attr.max_rdma_write_iov)
		attr.max_request_iov = attr.max_rdma_write_iov;
	return attr;
}

int lane_open(struct lane *lane, struct crew *crew, unsigned number)
{
	const struct test *test = crew->test;
	const DAT_EP_ATTR attr = lane_attr(test);
	struct channel *channel = &lane->channel;

	*lane = (struct lane){ .channel = { .adapter = test->adapter,
					    .patience = &crew->patience,
					    .origin = crew->origin },
			       .crew = crew };
	channel->origin.lane = (int)number;
	if (memory_create(&lane->memory, test->adapter, crew->pz, &channel->origin,
			  test->offsets[test->plan->op_count]) < 0)
		return -1;
	if (channel_create(channel, crew->pz, &attr) < 0)
		goto free_memory;
	return 0;
free_memory:
	(void)memory_free(&lane->memory, &channel->origin);
	return -1;
}

int lane_close(struct lane *lane)
{
	const struct origin *origin = &lane->channel.origin;
	int result = 0;

	if (lane->psp)
		result = TRY(origin, dat_psp_free, lane->psp);
	if (lane->rsp && TRY(origin, dat_rsp_free, lane->rsp) < 0)
		result = -1;
	if (channel_free(&lane->channel) < 0 || memory_free(&lane->memory, origin) < 0)
		result = -1;
	return result;
}
