/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the two ends of a lane find each other: the receives that are posted before, service points,
 * and requests.
 */
#include "dapltest.h"

/*
 * Posts the receives for the setup messages, then those of the test, before the connection exists.
 */
static int lane_prepare(struct channel *channel)
{
	struct lane *lane = (struct lane *)channel;

	lane->recv_posted = lane->received = 0;
	if (lane_post_receive(lane, LANE_SLOT, 1, SETUP_BYTES) < 0)
		return -1;
	if (lane->crew->test->plan->mode == MODE_TRANSACTION)
		return transaction_prepare(lane);
	performance_prepare(lane);
	return lane_post_receive(lane, 2 * LANE_SLOT, 1, SETUP_BYTES);
}

static uint32_t lane_number_of_test(const struct lane *lane)
{
	return lane->crew->number * lane->crew->test->plan->lanes +
	       (uint32_t)lane->channel.origin.lane;
}

static struct invitation lane_invitation(const struct lane *lane)
{
	return (struct invitation){ .port = lane->crew->test->port,
				    .thread = lane->crew->number,
				    .lane = (uint32_t)lane->channel.origin.lane };
}

int lane_connect(struct lane *lane)
{
	const struct test *test = lane->crew->test;
	const struct invitation invitation = lane_invitation(lane);
	unsigned char data[INVITATION_BYTES];
	const struct target target = { .address = test->address,
				       .port = test->port + lane_number_of_test(lane),
				       .qos = test->plan->qos,
				       .private_data = data,
				       .private_data_size = sizeof(data) };

	invitation_encode(&invitation, data);
	return channel_connect(&lane->channel, &target, lane_prepare);
}

DAT_RETURN lane_listen(struct lane *lane, DAT_CONN_QUAL port)
{
	const struct crew *crew = lane->crew;

	if (crew->test->plan->rsp)
		return dat_rsp_create(crew->test->adapter->ia, port, lane->channel.ep, crew->cr_evd,
				      &lane->rsp);
	return dat_psp_create(crew->test->adapter->ia, port, crew->cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &lane->psp);
}

void lane_unlisten(struct lane *lane)
{
	if (lane->psp)
		(void)TRY(&lane->channel.origin, dat_psp_free, lane->psp);
	if (lane->rsp)
		(void)TRY(&lane->channel.origin, dat_rsp_free, lane->rsp);
	lane->psp = DAT_HANDLE_NULL;
	lane->rsp = DAT_HANDLE_NULL;
}

bool lane_invited(const struct lane *lane, const DAT_CR_PARAM *param)
{
	const struct invitation invitation = lane_invitation(lane);

	return invitation_equals(&invitation, param->private_data,
				 (size_t)param->private_data_size);
}

int lane_accept(struct lane *lane, DAT_CR_HANDLE cr)
{
	if (lane_prepare(&lane->channel) < 0)
		return -1;
	/* a reserved service point has the endpoint, and a second one would be refused */
	return TRY(&lane->channel.origin, dat_cr_accept, cr,
		   lane->rsp ? DAT_HANDLE_NULL : lane->channel.ep, 0, NULL);
}
