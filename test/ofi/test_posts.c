/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posts of both directions of one endpoint. The service thread does nothing here: the lock of the
 * IA is held.
 */
#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "../unit/race.h"
#include "ofi_test.h"

static struct ofi_rig rig;

static void setup(void)
{
	ofi_rig_open(&rig);
	mutex_lock(&((struct ia *)rig.ia)->lock);
}

static void teardown(void)
{
	mutex_unlock(&((struct ia *)rig.ia)->lock);
	ofi_rig_close(&rig);
}

static void post_recv(DAT_EP_HANDLE ep)
{
	ck_dat(ep_post_recv(ep, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 1 },
			    DAT_COMPLETION_DEFAULT_FLAG));
}

/* ---- who counts reads ---- */

static void post_read(void *unused)
{
	(void)unused;
	ck_dat(ep_post_rdma_read(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 2 },
				 &rig.target, DAT_COMPLETION_DEFAULT_FLAG));
}

static void have_read_posted_beside(void)
{
	race_call(RACE_READ, NULL, post_read, NULL);
}

static void post_recv_at_once(void)
{
	have_read_posted_beside();
	post_recv(rig.active);
}

/* Who reads the queue next gives it to libfabric. */
static void post_recv_later(void)
{
	struct tp_cq *cq = ((struct evd *)rig.dto_evd)->cq;

	ff_fail("fi_recv", FI_EAGAIN, 1);
	post_recv(rig.active);
	have_read_posted_beside();
	spin_lock(&cq->lock);
	(void)cq_harvest_locked(cq);
	spin_unlock(&cq->lock);
}

static void post_recv_in_vain(void)
{
	ff_fail("fi_recv", FI_EAGAIN, 1);
	ff_hook("fi_recv", have_read_posted_beside);
	post_recv(rig.active);
	ff_hook("fi_recv", NULL);
}

static void (*const receives[])(void) = { post_recv_at_once, post_recv_later, post_recv_in_vain };

/* What the consumer still waits for must have happened. */
static void expect_completions(unsigned n)
{
	DAT_EVENT event;

	while (n--) {
		ck_dat(evd_dequeue(rig.dto_evd, &event));
		ck_assert_uint_eq(event.event_data.dto_completion_event_data.status,
				  DAT_DTO_SUCCESS);
	}
}

/* A read that another thread posts at the same time would be lost, and a fence wait for ever. */
START_TEST(a_receive_leaves_the_count_of_reads_alone)
{
	post_recv(rig.passive);
	post_read(NULL);
	expect_completions(1); /* so reads of that region are fast from here on */
	receives[_i]();
	if (!race_happened(RACE_READ)) {
		race_call(RACE_READ, &rig, NULL, NULL); /* nothing has that address */
		post_read(NULL);
	}
	expect_completions(1);
	ck_dat(ep_post_send(rig.active, 1, &rig.segment, (DAT_DTO_COOKIE){ .as_64 = 3 },
			    DAT_COMPLETION_BARRIER_FENCE_FLAG));
	expect_completions(2);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *counts = tcase_create("counts");

	tcase_add_checked_fixture(counts, setup, teardown);
	tcase_add_loop_test(counts, a_receive_leaves_the_count_of_reads_alone, 0, COUNT(receives));
	return run_cases(argc, argv);
}
