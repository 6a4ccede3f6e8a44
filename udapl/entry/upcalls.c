/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a transport tells of the whole device, or of a completion queue: who else must know. The
 * upcalls about a connection, a queue pair or a shared receive queue are in the files of those.
 */
#include "entry.h"

/*
 * Completions are lost, so every connection that uses the queue is broken. The sink is not
 * reported: the consumer does not know it.
 */
void up_cq_overrun(struct evd *evd)
{
	struct ia *ia = evd->obj.ia;
	struct obj *obj;

	if (!evd->is_sink)
		async_error_post_locked(ia, DAT_ASYNC_ERROR_EVD_OVERFLOW, evd,
					DAT_EVD_OVERFLOW_ERROR);
	for (obj = obj_next(ia, DAT_HANDLE_TYPE_EP, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EP, obj)) {
		struct ep *ep = container_of(obj, struct ep, obj);

		if (ep->recv_evd == evd || ep->request_evd == evd)
			ep_qp_broken_locked(ep);
	}
}

void up_port_down(struct ia *ia)
{
	async_error_post_locked(ia, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia, DAT_IA_OTHER_ERROR);
}

/*
 * The transport may tell this, and so may each descriptor of the device; the consumer is told once.
 */
void up_dev_fatal(struct ia *ia)
{
	struct obj *obj;

	if (!ia->failed) {
		ia->failed = true;
		log_error("%s: device %s has failed or was removed", ia->provider->info.ia_name,
			  ia->attr->device);
		async_error_post_locked(ia, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
					DAT_IA_CATASTROPHIC_ERROR);
	}
	for (obj = obj_next(ia, DAT_HANDLE_TYPE_EP, NULL); obj;
	     obj = obj_next(ia, DAT_HANDLE_TYPE_EP, obj))
		ep_break_locked(container_of(obj, struct ep, obj));
}
