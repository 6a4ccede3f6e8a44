/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting on iWARP devices, where two calls block that do not on others.
 *
 * rdma_connect first makes a TCP connection to the peer, which may take minutes. So a helper thread
 * makes the call, and its return value becomes a CM result that the service thread handles. To
 * release the connection meanwhile, the thread is cancelled, and the connection lingers until the
 * result is there.
 *
 * rdma_destroy_id and ibv_destroy_qp wait, in the kernel, while an attempt has no answer yet: until
 * the peer answers or goes away, or the device gives up (soft iWARP: after 10 s). Signals do not
 * interrupt them. So an attempt that is released without an answer is an orphan. A detached thread
 * destroys it, and touches only what is the orphan's own:
 *  - the struct tp_conn;
 *  - the rdma_cm_id, which moves to an event channel of its own;
 *  - a hold on the queue pair, which in turn holds its CQs, its PD and the device.
 * Without the resources for that, the orphan lingers until its answer, or until there are. The
 * thread may be running when the device is closed already. The provider library is linked with
 * -z nodelete, so its code stays mapped. If the process exits, the kernel delays the end of the
 * process until the attempt has its answer.
 */
#include <stdlib.h>

#include "cm.h"

/* ---- helper threads ---- */

static void helper_finish(void *arg)
{
	struct tp_conn *conn = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	cm_conn_result_post(conn, conn->result);
}

/*
 * The helper thread, which runs without ia->lock. rdma_connect sleeps in write(2), which is a
 * cancellation point.
 */
static void *helper_main(void *arg)
{
	struct tp_conn *conn = arg;

	conn->result = -ECANCELED;
	pthread_cleanup_push(helper_finish, conn);
	conn->result = rdma_connect(conn->id, &conn->param) ? -errno : 0;
	pthread_cleanup_pop(1);
	return NULL;
}

int iwarp_connect(struct tp_conn *conn)
{
	int err = thread_start_small(&conn->helper, helper_main, conn);

	if (err)
		return err;
	conn->result_pending = true;
	conn->has_helper = true;
	return 0;
}

void iwarp_helper_join(struct tp_conn *conn)
{
	if (conn->has_helper)
		pthread_join(conn->helper, NULL);
	conn->has_helper = false;
}

/* ---- orphans ---- */

/*
 * Makes an attempt without an answer an orphan. Its QP outlives its owner's tp_qp_destroy, so it is
 * put into the error state now: an answer that comes later must not start transfers.
 */
static void make_orphan(struct tp_conn *conn)
{
	struct tp_qp *qp = conn->qp;
	int err = qp->state == IBV_QPS_ERR ? 0 : tp_qp_error(qp);

	if (err)
		log_warn("%s: id %p is released, but ibv_modify_qp of QP %u to ERR failed: %s",
			 conn->dev->attr.device, (void *)conn->id, qp->ibv->qp_num, strerror(-err));
	qp->ep = NULL;
	qp->orphaned = true;
	qp->holders++;
	conn->orphaned_qp = qp;
}

void iwarp_release(struct tp_conn *conn)
{
	if (conn->state == CM_CONNECTING || conn->state == CM_ACCEPTING)
		make_orphan(conn);
	if (conn->has_helper)
		pthread_cancel(conn->helper);
}

/* The device may be closed when this runs. Most of the time it waits for the peer's answer. */
void iwarp_orphan_end(struct tp_conn *conn)
{
	rdma_destroy_id(conn->id);
	if (conn->own_channel)
		rdma_destroy_event_channel(conn->own_channel);
	qp_put(conn->orphaned_qp);
	free(conn);
}

static void *orphan_main(void *arg)
{
	iwarp_orphan_end(arg);
	return NULL;
}

/* Moves the identifier to an event channel that outlives the device's. */
static bool orphan_migrate(struct tp_conn *conn)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		return false;
	if (rdma_migrate_id(conn->id, channel)) {
		rdma_destroy_event_channel(channel);
		return false;
	}
	conn->own_channel = channel;
	cm_events_discard(conn->dev, conn->id);
	return true;
}

bool iwarp_orphan_destroy(struct tp_conn *conn)
{
	return (conn->own_channel || orphan_migrate(conn)) &&
	       !thread_start_small(NULL, orphan_main, conn);
}
