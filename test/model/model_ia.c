/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of IAs, and of the calls that take an object of any kind. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* ---- opening ---- */

static DAT_RETURN open_name(const char *name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
			    DAT_IA_HANDLE *ia)
{
	return dat_ia_openv((DAT_NAME_PTR)name, qlen, async_evd, ia, DAT_VERSION_MAJOR,
			    DAT_VERSION_MINOR, DAT_TRUE);
}

static void async_evd_born(struct world *w, struct object *ia, DAT_EVD_HANDLE handle)
{
	struct object *evd = object_slot(w, DAT_HANDLE_TYPE_EVD);
	DAT_EVD_PARAM param;

	if (!evd)
		abort(); /* the caller has looked */
	object_born(evd, handle, ia);
	evd->uses = 1;
	evd->evd.of_ia = true;
	returned(w, dat_evd_query(handle, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
	holds(w, param.evd_flags == DAT_EVD_ASYNC_FLAG, "the asynchronous EVD has flags 0x%x",
	      param.evd_flags);
	evd->evd.flags = param.evd_flags;
	evd->evd.qlen = param.evd_qlen;
	ia->ia_of.async_evd = evd;
}

static void ia_born(struct world *w, struct object *ia, DAT_IA_HANDLE handle, enum end end,
		    DAT_EVD_HANDLE async_evd)
{
	struct ia_model *of;

	object_born(ia, handle, ia);
	of = &ia->ia_of;
	of->end = end;
	if (async_evd)
		async_evd_born(w, ia, async_evd);
	returned(w,
		 dat_ia_query(handle, NULL, DAT_IA_FIELD_ALL, &of->attr, DAT_PROVIDER_FIELD_ALL,
			      &of->provider),
		 DAT_SUCCESS);
	memcpy(&of->address, of->attr.ia_address_ptr, sizeof(struct sockaddr_in));
}

static void ia_open_op(struct world *w, const struct call *c)
{
	enum end end = c->arg[0] % ENDS;
	struct object *ia = object_slot(w, DAT_HANDLE_TYPE_IA), *borrowed = NULL;
	const char *name = ia_name(end, BY_INTERFACE);
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
	DAT_RETURN want = DAT_SUCCESS, got;
	bool unknown = rarely(c->arg[4], 16);
	DAT_COUNT qlen = unknown ? 8 : (DAT_COUNT)(c->arg[1] % 16);
	unsigned open = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		open += w->slot[DAT_HANDLE_TYPE_IA][i].live;
	if (open >= 3 || !ia || !object_slot(w, DAT_HANDLE_TYPE_EVD))
		return;
	if (rarely(c->arg[2], 8) && !unknown)
		borrowed = object_arg(w, c->arg[3], DAT_HANDLE_TYPE_EVD, &async_evd);
	if (unknown)
		name = "nowhere";
	CHECK(want, rarely(c->arg[5], 16), BAD_ARG(4));
	CHECK(want, unknown, DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	CHECK(want, !async_evd && !qlen, BAD_ARG(2));
	CHECK(want, async_evd && !(borrowed && borrowed->evd.flags & DAT_EVD_ASYNC_FLAG),
	      BAD_HANDLE(EVD_ASYNC));
	if (want == DAT_SUCCESS && async_evd)
		return; /* an EVD that is lent is not modelled */
	got = open_name(name, qlen, &async_evd, rarely(c->arg[5], 16) ? NULL : &handle);
	if (returned(w, got, want))
		ia_born(w, ia, handle, end, async_evd);
	else
		holds(w, handle == DAT_HANDLE_NULL, "the handle of a failed open is %p", handle);
}

void ia_open_all(struct world *w)
{
	for (unsigned end = 0; end < ENDS; end++) {
		DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
		DAT_IA_HANDLE ia;

		returned(w, open_name(ia_name(end, BY_INTERFACE), 8, &async_evd, &ia), DAT_SUCCESS);
		ia_born(w, object_slot(w, DAT_HANDLE_TYPE_IA), ia, end, async_evd);
	}
}

/* ---- closing ---- */

static bool ia_in_use(const struct world *w, const struct object *ia)
{
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (unsigned i = 0; i < SLOTS; i++) {
			const struct object *object = &w->slot[kind][i];

			if (!object->live || object->ia != ia || object == ia ||
			    object == ia->ia_of.async_evd)
				continue;
			if (kind == DAT_HANDLE_TYPE_RSP && object->sp.used)
				continue; /* its request has arrived */
			return true;
		}
	return false;
}

/* Requests that have arrived and were not seen count as objects, too. */
static bool ia_may_have_requests(const struct world *w, const struct object *ia)
{
	if (ia->ia_of.lost_requests)
		return true;
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct object *evd = &w->slot[DAT_HANDLE_TYPE_EVD][i];

		if (evd->live && evd->ia == ia && cr_may(w, evd))
			return true;
	}
	return false;
}

void ia_closed(struct world *w, struct object *ia)
{
	static const DAT_HANDLE_TYPE order[] = {
		DAT_HANDLE_TYPE_RSP, DAT_HANDLE_TYPE_PSP, DAT_HANDLE_TYPE_CR,  DAT_HANDLE_TYPE_RMR,
		DAT_HANDLE_TYPE_EP,  DAT_HANDLE_TYPE_SRQ, DAT_HANDLE_TYPE_LMR, DAT_HANDLE_TYPE_PZ,
		DAT_HANDLE_TYPE_EVD, DAT_HANDLE_TYPE_CNO,
	};

	for (unsigned i = 0; i < COUNT(order) * SLOTS; i++) {
		struct object *object = &w->slot[order[i / SLOTS]][i % SLOTS];

		if (!object->live || object->ia != ia)
			continue;
		if (object->kind == DAT_HANDLE_TYPE_RSP || object->kind == DAT_HANDLE_TYPE_PSP)
			sp_release(w, object);
		else if (object->kind == DAT_HANDLE_TYPE_CR)
			cr_release(object);
		else if (object->kind == DAT_HANDLE_TYPE_EP)
			ep_release(w, object);
		else if (object->kind == DAT_HANDLE_TYPE_SRQ)
			transfers_drop(w, &object->srq.recvs);
		else if (object->kind == DAT_HANDLE_TYPE_EVD)
			evd_forget(w, object);
		object_dies(object);
	}
	object_dies(ia);
}

static void ia_close_op(struct world *w, const struct call *c)
{
	static const unsigned choices[] = { DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG,
					    DAT_CLOSE_GRACEFUL_FLAG, 2 };
	DAT_CLOSE_FLAGS flags = (DAT_CLOSE_FLAGS)choices[c->arg[1] % COUNT(choices)];
	DAT_IA_HANDLE handle;
	struct object *ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &handle);
	DAT_RETURN want = DAT_SUCCESS, got;

	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, flags > DAT_CLOSE_GRACEFUL_FLAG, BAD_ARG(2));
	CHECK(want, flags == DAT_CLOSE_GRACEFUL_FLAG && ia_in_use(w, ia), BAD_STATE(IA_IN_USE));
	if (want == DAT_SUCCESS && flags == DAT_CLOSE_ABRUPT_FLAG && !rarely(c->arg[2], 16))
		return; /* so that the others live long enough */
	got = dat_ia_close(handle, flags);
	if (want == DAT_SUCCESS && flags == DAT_CLOSE_GRACEFUL_FLAG &&
	    ia_may_have_requests(w, ia) && got == BAD_STATE(IA_IN_USE))
		return;
	if (returned(w, got, want))
		ia_closed(w, ia);
}

void ia_close_all(struct world *w)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct object *ia = &w->slot[DAT_HANDLE_TYPE_IA][i];

		if (!ia->live)
			continue;
		returned(w, dat_ia_close(ia->handle, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
		ia_closed(w, ia);
	}
}

/* ---- queries ---- */

static void ia_query_op(struct world *w, const struct call *c)
{
	static const DAT_IA_ATTR_MASK masks[] = { 0, DAT_IA_FIELD_ALL, 1, ~(DAT_IA_ATTR_MASK)0 };
	DAT_IA_ATTR_MASK mask = masks[c->arg[1] % COUNT(masks)];
	DAT_PROVIDER_ATTR_MASK provider_mask = c->arg[2] % 4;
	DAT_IA_ATTR attr = { .max_eps = -1 };
	DAT_PROVIDER_ATTR provider;
	bool no_attr = rarely(c->arg[3], 8), no_provider = rarely(c->arg[4], 8);
	DAT_EVD_HANDLE async_evd;
	DAT_IA_HANDLE handle;
	struct object *ia = object_arg(w, c->arg[0], DAT_HANDLE_TYPE_IA, &handle);
	DAT_RETURN want = DAT_SUCCESS;

	CHECK(want, !ia, BAD_HANDLE(IA));
	CHECK(want, mask && no_attr, BAD_ARG(4));
	CHECK(want, provider_mask && no_provider, BAD_ARG(6));
	CHECK(want, mask & ~DAT_IA_FIELD_ALL, BAD_ARG(3));
	if (!returned(w,
		      dat_ia_query(handle, &async_evd, mask, no_attr ? NULL : &attr, provider_mask,
				   no_provider ? NULL : &provider),
		      want))
		return;
	holds(w, async_evd == ia->ia_of.async_evd->handle, "the asynchronous EVD is %p", async_evd);
	holds(w, !mask || attr.max_eps == ia->ia_of.attr.max_eps, "max_eps is %d", attr.max_eps);
}

/* ---- objects of any kind ---- */

static void set_context_op(struct world *w, const struct call *c)
{
	DAT_CONTEXT context = { .as_64 = (uint64_t)c->arg[1] << 33 | c->arg[2] };
	DAT_HANDLE handle;
	struct object *object = any_object(w, c->arg[0], &handle);

	if (returned(w, dat_set_consumer_context(handle, context),
		     object ? DAT_SUCCESS : BAD_HANDLE1))
		object->context = context.as_64;
}

static void get_context_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_CONTEXT context;
	DAT_HANDLE handle;
	struct object *object = any_object(w, c->arg[0], &handle);
	DAT_RETURN want = DAT_SUCCESS;

	CHECK(want, !object, BAD_HANDLE1);
	CHECK(want, no_out, BAD_ARG(2));
	if (returned(w, dat_get_consumer_context(handle, no_out ? NULL : &context), want))
		holds(w, context.as_64 == object->context, "the context is 0x%llx",
		      (unsigned long long)context.as_64);
}

static void get_type_op(struct world *w, const struct call *c)
{
	bool no_out = rarely(c->arg[1], 16);
	DAT_HANDLE_TYPE type;
	DAT_HANDLE handle;
	struct object *object = any_object(w, c->arg[0], &handle);
	DAT_RETURN want = DAT_SUCCESS;

	CHECK(want, !object, BAD_HANDLE1);
	CHECK(want, no_out, BAD_ARG(2));
	if (returned(w, dat_get_handle_type(handle, no_out ? NULL : &type), want))
		holds(w, type == object->kind, "the type is %d", type);
}

/* ---- the registry ---- */

static void list_providers_op(struct world *w, const struct call *c)
{
	DAT_COUNT max = (DAT_COUNT)(c->arg[0] % 10) - 1, n = -1, n_all = -1;
	DAT_PROVIDER_INFO infos[8], *list[8];
	bool no_n = rarely(c->arg[1], 8), no_list = rarely(c->arg[2], 8);
	DAT_RETURN want = DAT_SUCCESS;

	for (unsigned i = 0; i < COUNT(list); i++)
		list[i] = &infos[i];
	CHECK(want, no_n, BAD_ARG(2));
	CHECK(want, max <= 0, BAD_ARG(1));
	CHECK(want, no_list, BAD_ARG(3));
	returned(w, dat_registry_list_providers(0, &n_all, list), BAD_ARG(1));
	if (returned(w, dat_registry_list_providers(max, no_n ? NULL : &n, no_list ? NULL : list),
		     want))
		holds(w, n == (max < n_all ? max : n_all), "%d of %d entries", n, n_all);
	else if (!no_n && !max)
		holds(w, n == n_all, "there are %d entries, not %d", n_all, n);
}

static void strerror_op(struct world *w, const struct call *c)
{
	const char *major = "?", *minor = "?";
	DAT_RETURN known[] = { DAT_SUCCESS, BAD_ARG(3), BAD_STATE(EP_CONNECTED), DAT_QUEUE_EMPTY };
	bool unknown = rarely(c->arg[1], 8), no_major = rarely(c->arg[2], 8);
	DAT_RETURN value = unknown ? 0x3abc0000 : known[c->arg[0] % COUNT(known)];
	DAT_RETURN want = DAT_SUCCESS;

	CHECK(want, no_major, BAD_ARG(2));
	CHECK(want, unknown, BAD_ARG(1));
	if (returned(w, dat_strerror(value, no_major ? NULL : &major, &minor), want))
		holds(w, !strncmp(major, "DAT_", 4) && (!*minor || !strncmp(minor, "DAT_", 4)),
		      "the messages are %s and %s", major, minor);
}

const struct op ia_ops[] = {
	{ "dat_ia_openv", 2, ia_open_op },
	{ "dat_ia_close", 2, ia_close_op },
	{ "dat_ia_query", 4, ia_query_op },
	{ "dat_set_consumer_context", 8, set_context_op },
	{ "dat_get_consumer_context", 10, get_context_op },
	{ "dat_get_handle_type", 8, get_type_op },
	{ "dat_registry_list_providers", 2, list_providers_op },
	{ "dat_strerror", 2, strerror_op },
	{ 0 },
};
