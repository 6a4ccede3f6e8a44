/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of CNOs: a latch that remembers which EVD has set it first. */
#include "model.h"

/* Whether events may have arrived that nobody has seen yet, and have triggered it. */
static bool may_have_arrivals(struct world *w, const struct object *cno)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct object *evd = &w->slot[DAT_HANDLE_TYPE_EVD][i];

		if (evd->live && evd->evd.cno == cno && !evd->evd.disabled && events_may(w, evd))
			return true;
	}
	return false;
}

static bool may_be_set(struct world *w, const struct object *cno)
{
	return cno->cno.latch != CLEAR || may_have_arrivals(w, cno);
}

void cno_triggered(struct object *evd, bool surely)
{
	struct object *cno = evd->evd.cno;

	if (!cno || evd->evd.disabled)
		return;
	cno->cno.triggered = true;
	if (!surely) {
		if (cno->cno.latch == CLEAR)
			cno->cno.latch = UNKNOWN;
		else
			cno->cno.triggered_by = NULL;
		return;
	}
	if (cno->cno.latch != SET)
		cno->cno.triggered_by = cno->cno.latch == CLEAR ? evd : NULL;
	cno->cno.latch = SET;
}

static void agent_run(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	(void)data;
	(void)evd;
}

/* A CNO that this EVD has triggered may be so no longer; or others that wait do it now. */
void cno_left(struct object *evd)
{
	struct object *cno = evd->evd.cno;

	if (!cno)
		return;
	evd->evd.cno = NULL;
	cno->uses--;
	if (cno->cno.latch != SET || (cno->cno.triggered_by && cno->cno.triggered_by != evd))
		return;
	cno->cno.latch = UNKNOWN;
	cno->cno.triggered_by = NULL;
}

static DAT_OS_WAIT_PROXY_AGENT agent_of(uint16_t arg)
{
	DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;

	if (arg % 2) {
		agent.instance_data = &agent;
		agent.proxy_agent_func = agent_run;
	}
	return agent;
}

static void cno_create_op(struct world *w, const struct call *c)
{
	struct object *cno = object_slot(w, DAT_HANDLE_TYPE_CNO), *ia;
	bool no_out = rarely(c->arg[1], 16);
	DAT_CNO_HANDLE handle;
	DAT_IA_HANDLE ia_handle;
	DAT_RETURN want = DAT_SUCCESS;

	if (!cno)
		return;
	ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &ia_handle);
	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_cno_create(ia_handle, agent_of(c->arg[2]), no_out ? NULL : &handle),
		      want))
		return;
	object_born(cno, handle, ia);
	cno->cno.has_agent = c->arg[2] % 2;
}

static void cno_free_op(struct world *w, const struct call *c)
{
	DAT_CNO_HANDLE handle;
	struct object *cno = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CNO, &handle);
	DAT_RETURN want = DAT_SUCCESS;

	CHECK(want, !cno, BAD_HANDLE(CNO));
	CHECK(want, cno->uses, BAD_STATE(CNO_IN_USE));
	if (returned(w, dat_cno_free(handle), want))
		object_dies(cno);
}

static void cno_modify_agent_op(struct world *w, const struct call *c)
{
	DAT_CNO_HANDLE handle;
	struct object *cno = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CNO, &handle);

	if (!returned(w, dat_cno_modify_agent(handle, agent_of(c->arg[1])),
		      cno ? DAT_SUCCESS : BAD_HANDLE(CNO)))
		return;
	cno->cno.has_agent = c->arg[1] % 2;
	cno->cno.triggered = may_have_arrivals(w, cno);
}

static DAT_AGENT_FUNC agent_in(const DAT_CNO_PARAM *param)
{
#if DAT_EDITION == 2
	return param->proxy_type == DAT_PROXY_TYPE_AGENT ? param->proxy.agent.proxy_agent_func
							 : NULL;
#else
	return param->agent.proxy_agent_func;
#endif
}

static void cno_query_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_CNO_HANDLE handle;
	struct object *cno = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CNO, &handle);
	DAT_RETURN want = DAT_SUCCESS;
	DAT_CNO_PARAM param;

	CHECK(want, !cno, BAD_HANDLE(CNO));
	CHECK(want, no_out, BAD_ARG(3));
	if (!returned(w, dat_cno_query(handle, DAT_CNO_FIELD_ALL, no_out ? NULL : &param), want))
		return;
	holds(w, param.ia_handle == cno->ia->handle, "the IA is %p", param.ia_handle);
	if (!cno->cno.has_agent)
		holds(w, !agent_in(&param), "it has an agent, which nobody has set");
	else if (!cno->cno.triggered && !may_have_arrivals(w, cno))
		holds(w, agent_in(&param) == agent_run, "it has no agent, and nothing happened");
}

static void cno_wait_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 32);
	DAT_CNO_HANDLE handle;
	struct object *cno = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_CNO, &handle), *by;
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	bool set = cno && cno->cno.latch == SET;
	DAT_RETURN want = DAT_SUCCESS, got;

	CHECK(want, !cno, BAD_HANDLE(CNO));
	CHECK(want, no_out, BAD_ARG(3));
	got = dat_cno_wait(handle, set ? script_patience() : 0, no_out ? NULL : &evd);
	if (want == DAT_SUCCESS && got == DAT_QUEUE_EMPTY) {
		holds(w, !set, "it was triggered, and the wait timed out");
		holds(w, evd == DAT_HANDLE_NULL, "a wait that timed out says %p", evd);
		if (cno->cno.latch == UNKNOWN)
			cno->cno.latch = CLEAR;
		return;
	}
	if (!returned(w, got, want))
		return;
	holds(w, may_be_set(w, cno), "nothing has triggered it, and it says %p", evd);
	by = cno->cno.triggered_by;
	holds(w, !set || !by || !by->live || evd == by->handle || may_have_arrivals(w, cno),
	      "it was triggered by another EVD than %p", evd);
	cno->cno.latch = CLEAR;
	cno->cno.triggered_by = NULL;
	cno->cno.triggered = true;
}

const struct op cno_ops[] = {
	{ "dat_cno_create", 4, cno_create_op },
	{ "dat_cno_free", 2, cno_free_op },
	{ "dat_cno_modify_agent", 2, cno_modify_agent_op },
	{ "dat_cno_query", 4, cno_query_op },
	{ "dat_cno_wait", 16, cno_wait_op },
	{ 0 },
};
