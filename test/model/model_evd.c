/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of EVDs: their state, their software events, waits. model_event.c has other events. */
#include <stdlib.h>

#include "model.h"

#define SOFTWARE_MAX COUNT(((struct evd_model *)NULL)->software)

/* Room for the transfers of all endpoints, so that no queue overflows. */
#define DTO_QLEN 320

static bool has_transfers(DAT_EVD_FLAGS flags)
{
	return flags & (DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
}

static DAT_EVD_FLAGS flags_of(uint16_t arg)
{
	static const unsigned wrong[] = { 0, 0x2, 0x1000 };
	const unsigned all = DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG;

	if (rarely(arg, 32))
		return (DAT_EVD_FLAGS)wrong[arg / 32 % COUNT(wrong)];
	if (arg % 3 == 0)
		return DAT_EVD_SOFTWARE_FLAG;
	if (arg % 3 == 1)
		return (DAT_EVD_FLAGS)(all & ~DAT_EVD_ASYNC_FLAG);
	return (DAT_EVD_FLAGS)((arg / 3 << 4 | arg / 128) & all & ~0x0eu & ~DAT_EVD_ASYNC_FLAG);
}

static bool known_flags(DAT_EVD_FLAGS flags)
{
	return flags && !(flags & ~(DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG));
}

static void evd_create_op(struct world *w, const struct call *c)
{
	DAT_EVD_FLAGS flags = flags_of(c->arg[1]);
	DAT_COUNT qlen = has_transfers(flags) ? DTO_QLEN : (DAT_COUNT)(c->arg[2] % 40);
	struct object *evd = object_slot(w, DAT_HANDLE_TYPE_EVD), *ia, *cno = NULL;
	DAT_EVD_HANDLE handle;
	DAT_CNO_HANDLE cno_handle = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia_handle;
	DAT_EVD_PARAM param;
	bool no_out = rarely(c->arg[3], 32);
	DAT_RETURN want = DAT_SUCCESS;

	if (!evd)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	if (c->arg[4] % 2)
		cno = object_of(w, c->arg[5], DAT_HANDLE_TYPE_CNO, ia, &cno_handle);
	if (rarely(c->arg[2], 64))
		qlen = ia ? ia->ia_of.attr.max_evd_qlen + 1 : -1;
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, cno_handle && !of_ia(cno, ia), BAD_HANDLE(CNO));
	CHECK(want, no_out, BAD_ARG(5));
	CHECK(want, qlen <= 0, BAD_ARG(2));
	CHECK(want, !known_flags(flags), BAD_ARG(4));
	CHECK(want, qlen > ia->ia_of.attr.max_evd_qlen, NO_RESOURCE(TEVD));
	if (!returned(w,
		      dat_evd_create(ia_handle, qlen, cno_handle, flags, no_out ? NULL : &handle),
		      want))
		return;
	object_born(evd, handle, ia);
	returned(w, dat_evd_query(handle, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
	holds(w, param.evd_qlen >= qlen, "evd_qlen is %d, not %d", param.evd_qlen, qlen);
	evd->evd.flags = flags;
	evd->evd.qlen = param.evd_qlen;
	evd->evd.cno = cno;
	if (cno)
		cno->uses++;
}

/* A queued request ends the use of its RSP, at a time that nobody can know. */
static bool use_may_end(const struct world *w, const struct object *evd)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct object *rsp = &w->slot[DAT_HANDLE_TYPE_RSP][i];

		if (rsp->live && !rsp->sp.used && rsp->sp.evd == evd && cr_may(w, evd))
			return true;
	}
	return false;
}

static void evd_free_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);
	DAT_RETURN want = DAT_SUCCESS;

	if (evd && use_may_end(w, evd))
		return;
	CHECK(want, !evd, BAD_HANDLE1);
	CHECK(want, evd->uses, BAD_STATE(EVD_IN_USE));
	if (!returned(w, dat_evd_free(handle), want))
		return;
	evd_forget(w, evd);
	if (evd->evd.cno)
		evd->evd.cno->cno.triggered = true; /* the last one calls the agent */
	cno_left(evd);
	object_dies(evd);
}

/* ---- the state ---- */

/* The third axis of its state, or 0 if other streams leave it open. */
static unsigned evd_config(const struct world *w, const struct object *evd)
{
	unsigned roles = 0, unsignalled = 0, others = 0;

	for (unsigned i = 0; i < SLOTS; i++) {
		const struct object *ep = &w->slot[DAT_HANDLE_TYPE_EP][i];

		if (!ep->live)
			continue;
		if (ep->ep.evd[RECV_ROLE] == evd) {
			roles++;
			unsignalled += ep->ep.attr.recv_completion_flags ==
				       DAT_COMPLETION_UNSIGNALLED_FLAG;
		}
		if (ep->ep.evd[REQUEST_ROLE] == evd) {
			roles++;
			unsignalled += ep->ep.attr.request_completion_flags ==
				       DAT_COMPLETION_UNSIGNALLED_FLAG;
		}
		others += ep->ep.evd[CONNECT_ROLE] == evd;
	}
	others += evd->uses - roles;
	if (roles && unsignalled == roles)
		return others ? 0 : DAT_EVD_STATE_CONFIG_NOTIFY;
	return DAT_EVD_STATE_CONFIG_THRESHOLD;
}

static void evd_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);
	DAT_EVD_PARAM param;
	DAT_RETURN want = DAT_SUCCESS;
	unsigned state, config;

	CHECK(want, !evd, BAD_HANDLE1);
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_evd_query(handle, DAT_EVD_FIELD_ALL, no_out ? NULL : &param), want))
		return;
	state = evd->evd.disabled ? DAT_EVD_STATE_DISABLED : DAT_EVD_STATE_ENABLED;
	state |= evd->evd.unwaitable ? DAT_EVD_STATE_UNWAITABLE : DAT_EVD_STATE_WAITABLE;
	config = evd_config(w, evd);
	holds(w, param.ia_handle == evd->ia->handle, "the IA is %p", param.ia_handle);
	holds(w, param.evd_qlen == evd->evd.qlen, "evd_qlen is %d", param.evd_qlen);
	holds(w, param.cno_handle == (evd->evd.cno ? evd->evd.cno->handle : DAT_HANDLE_NULL),
	      "the CNO is %p", param.cno_handle);
	holds(w, param.evd_flags == evd->evd.flags, "the flags are 0x%x", param.evd_flags);
	holds(w, config ? param.evd_state == (state | config) : (param.evd_state & 0xfu) == state,
	      "the state is 0x%x, not 0x%x", param.evd_state, state | config);
}

/* Events that have arrived unseen may have triggered its CNO until now. */
static void arrivals_may_trigger(struct world *w, struct object *evd)
{
	if (events_may(w, evd))
		cno_triggered(evd, false);
}

static void evd_modify_cno_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle), *cno = NULL;
	DAT_CNO_HANDLE cno_handle = DAT_HANDLE_NULL;
	DAT_RETURN want = DAT_SUCCESS;

	if (c->arg[1] % 4)
		cno = object_of(w, c->arg[2], DAT_HANDLE_TYPE_CNO, evd ? evd->ia : NULL,
				&cno_handle);
	CHECK(want, !evd, BAD_HANDLE1);
	CHECK(want, cno_handle && !of_ia(cno, evd->ia), BAD_HANDLE(CNO));
	if (!returned(w, dat_evd_modify_cno(handle, cno_handle), want) || evd->evd.cno == cno)
		return;
	arrivals_may_trigger(w, evd);
	cno_left(evd);
	evd->evd.cno = cno;
	if (!cno)
		return;
	cno->uses++;
	if (evd->evd.n_software)
		cno_triggered(evd, true);
}

static void evd_enable_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);

	if (!returned(w, dat_evd_enable(handle), evd ? DAT_SUCCESS : BAD_HANDLE1) ||
	    !evd->evd.disabled)
		return;
	evd->evd.disabled = false;
	if (evd->evd.n_software)
		cno_triggered(evd, true);
}

static void evd_disable_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);

	if (!returned(w, dat_evd_disable(handle), evd ? DAT_SUCCESS : BAD_HANDLE1))
		return;
	arrivals_may_trigger(w, evd);
	evd->evd.disabled = true;
}

static void evd_set_unwaitable_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);

	if (returned(w, dat_evd_set_unwaitable(handle), evd ? DAT_SUCCESS : BAD_HANDLE1))
		evd->evd.unwaitable = true;
}

static void evd_clear_unwaitable_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);

	if (returned(w, dat_evd_clear_unwaitable(handle), evd ? DAT_SUCCESS : BAD_HANDLE1))
		evd->evd.unwaitable = false;
}

/*
 * Only the length of a queue without transfers becomes small: what else is queued is not known
 * then, so that a refusal may have that reason, too.
 */
static void evd_resize_op(struct world *w, const struct call *c)
{
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);
	DAT_COUNT qlen = (DAT_COUNT)(c->arg[1] % 48);
	DAT_RETURN want = DAT_SUCCESS, got;
	DAT_EVD_PARAM param;

	if (evd && has_transfers(evd->evd.flags)) {
		if (!device_has(NEEDS_RESIZE))
			return;
		qlen += DTO_QLEN;
	}
	if (rarely(c->arg[2], 16))
		qlen = evd && c->arg[2] % 32 == 31 ? evd->ia->ia_of.attr.max_evd_qlen + 1 : -1;
	CHECK(want, !evd, BAD_HANDLE1);
	CHECK(want, qlen <= 0 || qlen > evd->ia->ia_of.attr.max_evd_qlen, BAD_ARG(2));
	CHECK(want, evd->evd.n_software > (unsigned)qlen, NO_SUBTYPE(DAT_INVALID_STATE));
	got = dat_evd_resize(handle, qlen);
	if (want == DAT_SUCCESS && got == NO_SUBTYPE(DAT_INVALID_STATE) && events_may(w, evd))
		return;
	if (!returned(w, got, want))
		return;
	returned(w, dat_evd_query(handle, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
	holds(w, param.evd_qlen >= qlen, "evd_qlen is %d, not %d", param.evd_qlen, qlen);
	evd->evd.qlen = param.evd_qlen;
}

/* ---- events ---- */

static void evd_post_se_op(struct world *w, const struct call *c)
{
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);
	struct evd_model *queue = evd ? &evd->evd : NULL;
	bool no_event = rarely(c->arg[1], 32);
	uintptr_t value = (uintptr_t)++w->next_cookie;
	DAT_RETURN want = DAT_SUCCESS, got;

	if (evd && queue->n_software == SOFTWARE_MAX)
		return;
	if (rarely(c->arg[2], 32))
		event.event_number = DAT_DTO_COMPLETION_EVENT;
	event.event_data.software_event_data.pointer = (DAT_PVOID)value;
	CHECK(want, !evd, BAD_HANDLE1);
	CHECK(want, !(queue->flags & DAT_EVD_SOFTWARE_FLAG), BAD_ARG(1));
	CHECK(want, no_event || event.event_number != DAT_SOFTWARE_EVENT, BAD_ARG(2));
	CHECK(want, queue->n_software >= (unsigned)queue->qlen, NO_SUBTYPE(DAT_QUEUE_FULL));
	got = dat_evd_post_se(handle, no_event ? NULL : &event);
	if (want == DAT_SUCCESS && got == NO_SUBTYPE(DAT_QUEUE_FULL) && events_may(w, evd))
		return; /* others have taken the room */
	if (!returned(w, got, want))
		return;
	queue->software[(queue->first + queue->n_software++) % SOFTWARE_MAX] = value;
	cno_triggered(evd, true);
}

static void evd_dequeue_op(struct world *w, const struct call *c)
{
	bool no_event = rarely(c->arg[1], 64);
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);
	DAT_RETURN want = DAT_SUCCESS, got;
	DAT_EVENT event;

	CHECK(want, !evd, BAD_HANDLE1);
	CHECK(want, no_event, BAD_ARG(2));
	got = dat_evd_dequeue(handle, no_event ? NULL : &event);
	if (want == DAT_SUCCESS && got == DAT_QUEUE_EMPTY) {
		holds(w, !evd->evd.n_software, "the queue of %u software events is empty",
		      evd->evd.n_software);
		return;
	}
	if (returned(w, got, want))
		event_judge(w, evd, &event);
}

/*
 * A wait is long only if so many events must come: then it has to end. Otherwise it looks once, and
 * it is open whether they are there.
 */
static void evd_wait_op(struct world *w, const struct call *c)
{
	DAT_COUNT threshold = rarely(c->arg[1], 4) ? (DAT_COUNT)(c->arg[2] % 6) : 1, nmore = -1;
	bool no_event = rarely(c->arg[3], 64), no_nmore = rarely(c->arg[4], 64);
	DAT_EVD_HANDLE handle;
	struct object *evd = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_EVD, &handle);
	unsigned must = evd ? events_must(w, evd) : 0, config = evd ? evd_config(w, evd) : 0;
	DAT_TIMEOUT timeout = must && must >= (unsigned)threshold ? script_patience() : 0;
	DAT_RETURN want = DAT_SUCCESS, got;
	DAT_EVENT event;

	if (evd && threshold > 1 && !config)
		return;
	if (config != DAT_EVD_STATE_CONFIG_THRESHOLD && evd && !evd->evd.n_software)
		timeout = 0; /* what is due may be an event that does not notify */
	if (rarely(c->arg[5], 64) && evd)
		threshold = evd->evd.qlen + 1;
	CHECK(want, !evd, BAD_HANDLE1);
	CHECK(want, no_event, BAD_ARG(4));
	CHECK(want, no_nmore, BAD_ARG(5));
	CHECK(want, threshold <= 0 || threshold > evd->evd.qlen, BAD_ARG(3));
	CHECK(want, evd->evd.unwaitable, BAD_STATE(EVD_UNWAITABLE));
	CHECK(want, threshold > 1 && config == DAT_EVD_STATE_CONFIG_NOTIFY,
	      BAD_STATE(EVD_CONFIG_NOTIFY));
	got = dat_evd_wait(handle, timeout, threshold, no_event ? NULL : &event,
			   no_nmore ? NULL : &nmore);
	if (want == DAT_SUCCESS && got == NO_SUBTYPE(DAT_TIMEOUT_EXPIRED)) {
		if (timeout)
			events_print(w, evd);
		holds(w, !timeout, "%u events must come, and %d are there", must, nmore);
		holds(w, nmore >= (DAT_COUNT)evd->evd.n_software && nmore < threshold,
		      "it timed out with %d events, %u of them software events", nmore,
		      evd->evd.n_software);
		return;
	}
	if (!returned(w, got, want))
		return;
	event_judge(w, evd, &event);
	holds(w, nmore >= threshold - 1 && nmore >= (DAT_COUNT)evd->evd.n_software,
	      "only %d more events of %d", nmore, threshold);
	holds(w, events_may(w, evd) || nmore == (DAT_COUNT)evd->evd.n_software,
	      "%d more events, not %u", nmore, evd->evd.n_software);
}

const struct op evd_ops[] = {
	{ "dat_evd_create", 14, evd_create_op },
	{ "dat_evd_free", 3, evd_free_op },
	{ "dat_evd_query", 6, evd_query_op },
	{ "dat_evd_modify_cno", 6, evd_modify_cno_op },
	{ "dat_evd_enable", 5, evd_enable_op },
	{ "dat_evd_disable", 4, evd_disable_op },
	{ "dat_evd_set_unwaitable", 3, evd_set_unwaitable_op },
	{ "dat_evd_clear_unwaitable", 6, evd_clear_unwaitable_op },
	{ "dat_evd_resize", 5, evd_resize_op },
	{ "dat_evd_post_se", 25, evd_post_se_op },
	{ "dat_evd_dequeue", 60, evd_dequeue_op },
	{ "dat_evd_wait", 120, evd_wait_op },
	{ 0 },
};
