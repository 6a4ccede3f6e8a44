/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the verbs transport share. */
#include <poll.h>
#include <stdlib.h>

#include "host/nodes.h"
#include "verbs_test.h"

void verbs_begin(void)
{
	/* what a user has set must not change the tests */
	static const char *const settings[] = {
		"DAPL_ACK_RETRY",
		"DAPL_ACK_TIMER",
		"DAPL_CM_ARP_RETRY_COUNT",
		"DAPL_CM_ARP_TIMEOUT_MS",
		"DAPL_CM_ROUTE_RETRY_COUNT",
		"DAPL_CM_ROUTE_TIMEOUT_MS",
		"DAPL_DBG_DEST",
		"DAPL_CM_TOS",
		"DAPL_GLOBAL_ROUTING",
		"DAPL_HOP_LIMIT",
		"DAPL_IB_MTU",
		"DAPL_IB_PKEY",
		"DAPL_IB_SL",
		"DAPL_LMR_ODP",
		"DAPL_MAX_CM_RESPONSE_TIME",
		"DAPL_MAX_CM_RETRIES",
		"DAPL_MAX_INLINE",
		"DAPL_RNR_RETRY",
		"DAPL_RNR_TIMER",
		"DAPL_TCLASS",
		"DAPL_WR_MAX",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(settings); i++)
		unsetenv(settings[i]);
	nodes_places = (struct nodes_places){ "/nonexistent/devices", "/nonexistent/nodes",
					      "/nonexistent/modules" };
	fv_clock_stop();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); /* as the core calls a transport */
	setenv("DAPL_DBG_TYPE", "0xffff", 1);
	fv_ia_lock();
}

struct tp_dev *dev_open(void)
{
	struct tp_dev *dev;

	ck_assert_int_eq(tp_dev_open("fveth0 0", up_ia(), &dev), 0);
	return dev;
}

void dev_close(struct tp_dev *dev)
{
	fv_ia_unlock();
	tp_dev_close(dev);
	fv_await_nothing();
	fv_ia_lock();
}

struct tp_qp *rig_qp(struct rig *rig, unsigned n)
{
	const struct tp_qp_attr attr = {
		.pd = rig->pd,
		.send_cq = rig->send_cq,
		.recv_cq = rig->recv_cq,
		.max_send = 8,
		.max_recv = 8,
		.max_send_sge = 2,
		.max_recv_sge = 2,
	};
	struct tp_qp *qp;

	ck_assert_int_eq(tp_qp_create(rig->dev, &attr, up_ep(n), &qp), 0);
	return qp;
}

void rig_open(struct rig *rig)
{
	rig->dev = dev_open();
	ck_assert_int_eq(tp_pd_create(rig->dev, &rig->pd), 0);
	ck_assert_int_eq(tp_cq_create(rig->dev, 64, up_evd(0), &rig->send_cq), 0);
	ck_assert_int_eq(tp_cq_create(rig->dev, 64, up_evd(1), &rig->recv_cq), 0);
	rig->qp = rig_qp(rig, 0);
	fv_trace_clear();
}

void rig_qp_destroy(struct tp_qp *qp)
{
	fv_ia_unlock();
	tp_qp_destroy(qp, true);
	fv_ia_lock();
}

void rig_close(struct rig *rig)
{
	if (rig->qp)
		rig_qp_destroy(rig->qp);
	if (rig->send_cq)
		tp_cq_destroy(rig->send_cq);
	if (rig->recv_cq)
		tp_cq_destroy(rig->recv_cq);
	if (rig->pd)
		tp_pd_destroy(rig->pd);
	if (rig->dev)
		dev_close(rig->dev);
	no_upcall();
}

/* What the service thread calls, until there is nothing to do. */
void rig_progress(struct rig *rig)
{
	int fds[TP_DEV_FDS];
	unsigned n = tp_dev_fds(rig->dev, fds), ready;
	bool due;

	do {
		due = up_take_wake() || tp_dev_deadline(rig->dev) <= tp_now();
		ready = 0;
		for (unsigned i = 0; i < n; i++) {
			struct pollfd one = { .fd = fds[i], .events = POLLIN };

			ready |= poll(&one, 1, 0) == 1 ? 1u << i : 0;
		}
		if (due || ready)
			tp_dev_progress(rig->dev, ready);
	} while (due || ready);
}

struct up_record upcall_check(const char *file, int line, enum up_kind kind, const void *about)
{
	struct up_record record = up_take();

	if (record.kind != kind || record.about != about)
		ck_abort_msg("%s:%d: the next upcall is of kind %d about %p, not %d about %p", file,
			     line, (int)record.kind, record.about, (int)kind, about);
	return record;
}
