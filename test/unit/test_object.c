/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects and their handles: life cycle, holds, stale handles, consumer contexts, handle types. */
#include "harness.h"

static struct side side;

static void setup(void)
{
	side_open(&side, "fake0");
}

/* ---- the memory of objects ---- */

static const DAT_PROVIDER table;

static struct obj *object_alloc(DAT_HANDLE_TYPE kind)
{
	struct obj *obj = obj_alloc(side.ia, &table, kind);

	ck_assert_ptr_nonnull(obj);
	return obj;
}

static void object_free(struct obj *obj)
{
	ck_assert(obj_retire(obj));
	obj_free(obj);
}

START_TEST(an_object_is_visible_only_while_it_is_published)
{
	struct obj *obj = object_alloc(DAT_HANDLE_TYPE_CNO);

	ck_assert(!obj_valid(NULL, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert_ptr_null(obj_any(obj));
	ck_assert_uint_eq(obj_count(side.ia, DAT_HANDLE_TYPE_CNO), 0);
	ck_assert_ptr_eq(obj_publish(obj), obj);
	ck_assert(obj_valid(NULL, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert(obj_valid(side.ia, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert_ptr_eq(obj_any(obj), obj);
	ck_assert_uint_eq(obj_count(side.ia, DAT_HANDLE_TYPE_CNO), 1);
	object_free(obj);
	ck_assert(!obj_valid(NULL, obj, DAT_HANDLE_TYPE_CNO));
}
END_TEST

START_TEST(an_object_is_valid_for_its_kind_and_ia_only)
{
	DAT_EVD_HANDLE async_evd;
	DAT_IA_HANDLE other = ia_open_on("fake1", false, &async_evd);
	struct obj *obj = object_alloc(DAT_HANDLE_TYPE_CNO);

	obj_publish(obj);
	for (unsigned kind = 0; kind < OBJ_KINDS; kind++)
		if (kind != DAT_HANDLE_TYPE_CNO)
			ck_assert(!obj_valid(NULL, obj, kind));
	ck_assert(!obj_valid(other, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_hold(other, obj, DAT_HANDLE_TYPE_CNO));
	object_free(obj);
	ck_dat(ia_close(other, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

START_TEST(a_handle_that_points_elsewhere_is_invalid)
{
	struct obj *obj = object_alloc(DAT_HANDLE_TYPE_CNO);
	char *inside = (char *)obj_publish(obj) + 8;

	ck_assert(!obj_valid(NULL, NULL, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_valid(NULL, inside, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_valid(NULL, POISON, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_valid(NULL, &side, DAT_HANDLE_TYPE_CNO));
	ck_assert_ptr_null(obj_any(inside));
	ck_assert_ptr_null(obj_any(POISON));
	/* the consumer's context may have the value of a tag */
	obj->context.as_64 = OBJ_TAG(DAT_HANDLE_TYPE_CNO);
	inside = (char *)&obj->context - offsetof(struct obj, tag);
	ck_assert(!obj_valid(NULL, inside, DAT_HANDLE_TYPE_CNO));
	ck_assert_ptr_null(obj_any(inside));
	object_free(obj);
}
END_TEST

START_TEST(an_object_that_is_held_is_not_retired)
{
	struct obj *obj = object_alloc(DAT_HANDLE_TYPE_CNO);

	obj_publish(obj);
	ck_assert(obj_hold(side.ia, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert(obj_hold(NULL, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_retire(obj));
	obj_put(obj);
	ck_assert(!obj_retire(obj));
	ck_assert(obj_valid(side.ia, obj, DAT_HANDLE_TYPE_CNO));
	obj_put(obj);
	object_free(obj);
	ck_assert(!obj_hold(NULL, obj, DAT_HANDLE_TYPE_CNO));
}
END_TEST

START_TEST(the_slot_freed_first_is_reused_first)
{
	struct obj *first = object_alloc(DAT_HANDLE_TYPE_CNO);

	obj_publish(first);
	object_free(first);
	/* the registry reads the table even through a stale handle */
	ck_assert_ptr_eq(first->table, &table);
	for (int n = 0; n < 15; n++) {
		struct obj *next = object_alloc(DAT_HANDLE_TYPE_CNO);

		ck_assert_ptr_ne(next, first);
		obj_publish(next);
		object_free(next);
	}
}
END_TEST

/* When all slots of a slab are in use, those that are freed are reused before a slab is added. */
START_TEST(freed_slots_of_a_full_slab_are_reused)
{
	struct obj *objs[16]; /* the first slab */

	for (int n = 0; n < COUNT(objs); n++)
		objs[n] = object_alloc(DAT_HANDLE_TYPE_CNO);
	for (int n = 0; n < COUNT(objs); n++) {
		obj_free(objs[n]);
		ck_assert_ptr_eq(object_alloc(DAT_HANDLE_TYPE_CNO), objs[n]);
	}
	obj_free(objs[7]);
	obj_free(objs[3]);
	ck_assert_ptr_eq(object_alloc(DAT_HANDLE_TYPE_CNO), objs[7]);
	ck_assert_ptr_eq(object_alloc(DAT_HANDLE_TYPE_CNO), objs[3]);
}
END_TEST

/* However many there are, up to a slab that is full. */
START_TEST(a_handle_that_was_just_freed_is_not_that_of_the_next_object)
{
	struct obj *objs[47];

	for (int n = 0; n < COUNT(objs); n++) {
		objs[n] = object_alloc(DAT_HANDLE_TYPE_CNO);
		if (n + 1 == 16) /* the first slab is full */
			continue;
		obj_free(objs[n]);
		ck_assert_ptr_ne(object_alloc(DAT_HANDLE_TYPE_CNO), objs[n]);
	}
}
END_TEST

/* Nothing is written to a slot before it is free. */
START_TEST(a_slot_that_was_never_used_takes_no_memory)
{
	const size_t batch = 16 * obj_kinds[DAT_HANDLE_TYPE_CNO].stride;
	const struct obj *obj = NULL;

	for (int n = 0; n < 16 + 32 + 1; n++) /* the last one is the first of its slab */
		obj = object_alloc(DAT_HANDLE_TYPE_CNO);
	obj = (const struct obj *)((const char *)obj + batch);
	ck_assert_uint_eq(atomic_load(&obj->uses), 0);
	ck_assert(!obj_valid(NULL, (DAT_HANDLE)obj, DAT_HANDLE_TYPE_CNO));
}
END_TEST

START_TEST(a_reused_slot_is_zeroed)
{
	struct obj *obj;

	for (int n = 0; n < 40; n++) {
		struct cno *cno = (struct cno *)object_alloc(DAT_HANDLE_TYPE_CNO);

		ck_assert_uint_eq(atomic_load(&cno->obj.uses), OBJ_RETIRED);
		ck_assert_ptr_null(cno->obj.context.as_ptr);
		ck_assert_ptr_null(cno->latched);
		ck_assert_uint_eq(cno->waiters, 0);
		cno->latched = POISON;
		cno->waiters = 7;
		cno->obj.context.as_ptr = POISON;
		obj = obj_publish(&cno->obj);
		object_free(obj);
	}
}
END_TEST

START_TEST(a_walk_sees_every_published_object)
{
	struct obj *objs[40];
	unsigned seen = 0;

	for (int n = 0; n < COUNT(objs); n++)
		obj_publish(objs[n] = object_alloc(DAT_HANDLE_TYPE_CNO));
	object_free(objs[0]);
	object_free(objs[20]);
	object_free(objs[39]);
	for (struct obj *obj = obj_next(side.ia, DAT_HANDLE_TYPE_CNO, NULL); obj;
	     obj = obj_next(side.ia, DAT_HANDLE_TYPE_CNO, obj))
		seen++;
	ck_assert_uint_eq(seen, 37);
	ck_assert_uint_eq(obj_count(side.ia, DAT_HANDLE_TYPE_CNO), 37);
	for (int n = 0; n < COUNT(objs); n++)
		if (n != 0 && n != 20 && n != 39)
			object_free(objs[n]);
}
END_TEST

/* A refused hold does not change the count: the next object in the slot could never be retired. */
START_TEST(a_retired_or_foreign_object_is_not_held)
{
	DAT_EVD_HANDLE async_evd;
	DAT_IA_HANDLE other = ia_open_on("fake1", false, &async_evd);
	struct obj *obj = object_alloc(DAT_HANDLE_TYPE_CNO);

	obj_publish(obj);
	ck_assert(!obj_hold(other, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert_uint_eq(atomic_load(&obj->uses), 0);
	ck_assert(obj_retire(obj));
	/* as seen by a thread that has read the tag before the object was retired */
	atomic_store(&obj->tag, OBJ_TAG(DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_hold(side.ia, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_hold(NULL, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_retire(obj));
	atomic_store(&obj->tag, OBJ_HIDDEN(DAT_HANDLE_TYPE_CNO));
	ck_assert_uint_eq(atomic_load(&obj->uses), OBJ_RETIRED);
	obj_free(obj);
}
END_TEST

/* As in an abrupt close: the thread that holds the object puts it later. */
START_TEST(an_object_can_be_retired_while_it_is_held)
{
	struct obj *obj = object_alloc(DAT_HANDLE_TYPE_CNO);

	obj_publish(obj);
	ck_assert(obj_hold(NULL, obj, DAT_HANDLE_TYPE_CNO));
	obj_retire_forced(obj);
	ck_assert(!obj_valid(NULL, obj, DAT_HANDLE_TYPE_CNO));
	ck_assert(!obj_hold(NULL, obj, DAT_HANDLE_TYPE_CNO));
	obj_put(obj);
	ck_assert_uint_eq(atomic_load(&obj->uses), OBJ_RETIRED);
	obj_free(obj);
}
END_TEST

/*
 * The walk covers several slabs, with objects of two IAs. It continues from an object that was
 * freed, and misses none.
 */
START_TEST(a_walk_may_free_what_it_sees)
{
	DAT_EVD_HANDLE async_evd;
	DAT_IA_HANDLE other = ia_open_on("fake1", false, &async_evd);
	struct obj *obj = NULL;
	unsigned seen = 0;

	for (int n = 0; n < 100; n++) {
		obj_publish(object_alloc(DAT_HANDLE_TYPE_CNO));
		obj_publish(obj_alloc(other, &table, DAT_HANDLE_TYPE_CNO));
	}
	while ((obj = obj_next(side.ia, DAT_HANDLE_TYPE_CNO, obj))) {
		ck_assert_ptr_eq(obj->ia, side.ia);
		object_free(obj);
		seen++;
	}
	ck_assert_uint_eq(seen, 100);
	ck_assert_uint_eq(obj_count(side.ia, DAT_HANDLE_TYPE_CNO), 0);
	ck_assert_uint_eq(obj_count(other, DAT_HANDLE_TYPE_CNO), 100);
	while ((obj = obj_next(other, DAT_HANDLE_TYPE_CNO, obj)))
		object_free(obj);
}
END_TEST

static void *alloc_hold_and_free(void *arg)
{
	struct obj *shared = arg;

	for (int n = 0; n < 2000; n++) {
		struct obj *obj = object_alloc(DAT_HANDLE_TYPE_CNO);

		obj_publish(obj);
		ck_assert(obj_hold(side.ia, obj, DAT_HANDLE_TYPE_CNO));
		if (obj_hold(side.ia, shared, DAT_HANDLE_TYPE_CNO))
			obj_put(shared);
		obj_put(obj);
		object_free(obj);
	}
	return NULL;
}

/* A hold and a retire race: the object is held and stays, or is retired and not held. */
START_TEST(threads_hold_and_retire)
{
	struct obj *shared = object_alloc(DAT_HANDLE_TYPE_CNO);
	pthread_t threads[2];

	obj_publish(shared);
	for (int n = 0; n < COUNT(threads); n++)
		threads[n] = consumer_thread_start(alloc_hold_and_free, shared);
	for (int n = 0; n < 2000; n++)
		if (obj_retire(shared))
			obj_publish(shared);
	for (int n = 0; n < COUNT(threads); n++)
		consumer_thread_join(threads[n]);
	object_free(shared);
	ck_assert_uint_eq(obj_count(side.ia, DAT_HANDLE_TYPE_CNO), 0);
}
END_TEST

/* ---- the calls: each refuses a bad handle, with the subtype of its kind ---- */

static DAT_EVENT event;
static DAT_COUNT count;
static DAT_HANDLE out;

#define HANDLE1 DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

#define CALL(name, call)                                                                           \
	static DAT_RETURN name(DAT_HANDLE h)                                                       \
	{                                                                                          \
		return call;                                                                       \
	}

CALL(call_evd_free, evd_free(h))
CALL(call_evd_query, evd_query(h, 0, NULL))
CALL(call_evd_cno, evd_modify_cno(h, DAT_HANDLE_NULL))
CALL(call_evd_enable, evd_enable(h))
CALL(call_evd_disable, evd_disable(h))
CALL(call_evd_set, evd_set_unwaitable(h))
CALL(call_evd_clear, evd_clear_unwaitable(h))
CALL(call_evd_wait, evd_wait(h, 0, 1, &event, &count))
CALL(call_evd_dequeue, evd_dequeue(h, &event))
CALL(call_evd_post, evd_post_se(h, NULL))
CALL(call_evd_resize, evd_resize(h, 0))
CALL(call_cno_free, cno_free(h))
CALL(call_cno_wait, cno_wait(h, 0, &out))
CALL(call_cno_query, cno_query(h, 0, NULL))
CALL(call_cno_agent, cno_modify_agent(h, DAT_OS_WAIT_PROXY_AGENT_NULL))
CALL(call_pz_create, pz_create(h, &out))
CALL(call_pz_free, pz_free(h))
CALL(call_pz_query, pz_query(h, 0, NULL))
CALL(call_lmr_create,
     lmr_create_va(h, DAT_MEM_TYPE_VIRTUAL, (DAT_REGION_DESCRIPTION){ .for_va = NULL }, 0, NULL, 0,
		   &out, NULL, NULL, NULL, NULL))
CALL(call_lmr_sync_read, lmr_sync_rdma_read(h, NULL, 0))
CALL(call_lmr_sync_write, lmr_sync_rdma_write(h, NULL, 0))
CALL(call_rmr_create, rmr_create(h, &out))
CALL(call_rmr_query, rmr_query(h, 0, NULL))
CALL(call_rmr_bind, rmr_bind_va(h, NULL, 0, NULL, cookie_of(0), 0, NULL))
CALL(call_rmr_free, rmr_free(h))
CALL(call_lmr_free, lmr_free(h))
CALL(call_lmr_query, lmr_query(h, 0, NULL))
CALL(call_ep_free, ep_free(h))
CALL(call_ep_query, ep_query(h, 0, NULL))
CALL(call_ep_status, ep_get_status(h, NULL, NULL, NULL))
CALL(call_ep_connect, ep_connect(h, NULL, 0, 0, 0, NULL, 0, 0))
CALL(call_ep_disconnect, ep_disconnect(h, 0))
CALL(call_ep_reset, ep_reset(h))
CALL(call_ep_send, ep_post_send(h, 0, NULL, cookie_of(0), 0))
CALL(call_ep_recv, ep_post_recv(h, 0, NULL, cookie_of(0), 0))
CALL(call_ep_read, ep_post_rdma_read(h, 0, NULL, cookie_of(0), NULL, 0))
CALL(call_ep_write, ep_post_rdma_write(h, 0, NULL, cookie_of(0), NULL, 0))
CALL(call_ep_recv_query, ep_recv_query(h, NULL, NULL))
CALL(call_ep_watermark, ep_set_watermark(h, -1, -1))
CALL(call_psp_free, psp_free(h))
CALL(call_psp_query, psp_query(h, 0, NULL))
CALL(call_cr_query, cr_query(h, 0, NULL))
CALL(call_cr_accept, cr_accept(h, NULL, 0, NULL))
CALL(call_cr_reject, cr_reject_bare(h))
CALL(call_ep_dup_connect, ep_dup_connect(h, NULL, 0, 0, NULL, DAT_QOS_BEST_EFFORT))
CALL(call_ep_modify, ep_modify(h, 0, NULL))
CALL(call_cr_handoff, cr_handoff(h, 1))
CALL(call_rsp_create, rsp_create(h, 1, NULL, NULL, NULL))
CALL(call_rsp_free, rsp_free(h))
CALL(call_rsp_query, rsp_query(h, 0, NULL))
CALL(call_ia_close, ia_close(h, DAT_CLOSE_ABRUPT_FLAG))
CALL(call_ia_query, ia_query(h, NULL, 0, NULL, 0, NULL))
CALL(call_set, context_set(h, cookie_of(0)))
CALL(call_get, context_get(h, NULL))
CALL(call_type, handle_type(h, NULL))

static const struct {
	const char *name;
	DAT_RETURN (*call)(DAT_HANDLE);
	DAT_HANDLE_TYPE kind; /* of the handle; OBJ_KINDS: any */
	DAT_RETURN refusal;
} calls[] = {
	{ "evd_free", call_evd_free, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_query", call_evd_query, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_modify_cno", call_evd_cno, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_enable", call_evd_enable, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_disable", call_evd_disable, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_set_unwaitable", call_evd_set, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_clear_unwaitable", call_evd_clear, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_wait", call_evd_wait, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_dequeue", call_evd_dequeue, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_post_se", call_evd_post, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "evd_resize", call_evd_resize, DAT_HANDLE_TYPE_EVD, HANDLE1 },
	{ "cno_free", call_cno_free, DAT_HANDLE_TYPE_CNO, BAD_HANDLE(CNO) },
	{ "cno_wait", call_cno_wait, DAT_HANDLE_TYPE_CNO, BAD_HANDLE(CNO) },
	{ "cno_query", call_cno_query, DAT_HANDLE_TYPE_CNO, BAD_HANDLE(CNO) },
	{ "cno_modify_agent", call_cno_agent, DAT_HANDLE_TYPE_CNO, BAD_HANDLE(CNO) },
	{ "pz_create", call_pz_create, DAT_HANDLE_TYPE_IA, BAD_HANDLE(IA) },
	{ "pz_free", call_pz_free, DAT_HANDLE_TYPE_PZ, BAD_HANDLE(PZ) },
	{ "pz_query", call_pz_query, DAT_HANDLE_TYPE_PZ, BAD_HANDLE(PZ) },
	{ "lmr_create", call_lmr_create, DAT_HANDLE_TYPE_IA, BAD_HANDLE(IA) },
	{ "lmr_sync_rdma_read", call_lmr_sync_read, DAT_HANDLE_TYPE_IA, BAD_HANDLE(IA) },
	{ "lmr_sync_rdma_write", call_lmr_sync_write, DAT_HANDLE_TYPE_IA, BAD_HANDLE(IA) },
	{ "rmr_create", call_rmr_create, DAT_HANDLE_TYPE_PZ, BAD_HANDLE(PZ) },
	{ "rmr_query", call_rmr_query, DAT_HANDLE_TYPE_RMR, BAD_HANDLE(RMR) },
	{ "rmr_bind", call_rmr_bind, DAT_HANDLE_TYPE_RMR, BAD_HANDLE(RMR) },
	{ "rmr_free", call_rmr_free, DAT_HANDLE_TYPE_RMR, BAD_HANDLE(RMR) },
	{ "lmr_free", call_lmr_free, DAT_HANDLE_TYPE_LMR, BAD_HANDLE(LMR) },
	{ "lmr_query", call_lmr_query, DAT_HANDLE_TYPE_LMR, BAD_HANDLE(LMR) },
	{ "ep_free", call_ep_free, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_query", call_ep_query, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_get_status", call_ep_status, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_connect", call_ep_connect, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_dup_connect", call_ep_dup_connect, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_modify", call_ep_modify, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_disconnect", call_ep_disconnect, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_reset", call_ep_reset, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_post_send", call_ep_send, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_post_recv", call_ep_recv, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_post_rdma_read", call_ep_read, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_post_rdma_write", call_ep_write, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_recv_query", call_ep_recv_query, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "ep_set_watermark", call_ep_watermark, DAT_HANDLE_TYPE_EP, BAD_HANDLE(EP) },
	{ "psp_free", call_psp_free, DAT_HANDLE_TYPE_PSP, BAD_HANDLE(PSP) },
	{ "psp_query", call_psp_query, DAT_HANDLE_TYPE_PSP, BAD_HANDLE(PSP) },
	{ "cr_query", call_cr_query, DAT_HANDLE_TYPE_CR, BAD_HANDLE(CR) },
	{ "cr_accept", call_cr_accept, DAT_HANDLE_TYPE_CR, BAD_HANDLE(CR) },
	{ "cr_reject", call_cr_reject, DAT_HANDLE_TYPE_CR, BAD_HANDLE(CR) },
	{ "cr_handoff", call_cr_handoff, DAT_HANDLE_TYPE_CR, BAD_HANDLE(CR) },
	{ "rsp_create", call_rsp_create, DAT_HANDLE_TYPE_IA, BAD_HANDLE(IA) },
	{ "rsp_free", call_rsp_free, DAT_HANDLE_TYPE_RSP, BAD_HANDLE(RSP) },
	{ "rsp_query", call_rsp_query, DAT_HANDLE_TYPE_RSP, BAD_HANDLE(RSP) },
	{ "ia_close", call_ia_close, DAT_HANDLE_TYPE_IA, BAD_HANDLE(IA) },
	{ "ia_query", call_ia_query, DAT_HANDLE_TYPE_IA, BAD_HANDLE(IA) },
	{ "set_consumer_context", call_set, OBJ_KINDS, HANDLE1 },
	{ "get_consumer_context", call_get, OBJ_KINDS, HANDLE1 },
	{ "get_handle_type", call_type, OBJ_KINDS, HANDLE1 },
};

/* One object of each kind, and the side whose connection request the CR is. */
struct objects {
	struct side peer;
	DAT_CNO_HANDLE cno;
	DAT_PSP_HANDLE psp;
	DAT_RSP_HANDLE rsp;
	DAT_CR_HANDLE cr;
	DAT_RMR_HANDLE rmr;
	DAT_HANDLE all[10];
};

static void objects_create(struct objects *objects)
{
	DAT_CONN_QUAL qual;

	side_open(&objects->peer, "fake1");
	ck_dat(cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &objects->cno));
	ck_dat(rmr_create(side.pz, &objects->rmr));
	ck_dat(rsp_create(side.ia, 9, DAT_HANDLE_NULL, side.cr_evd, &objects->rsp));
	ck_dat(psp_create_any(side.ia, &qual, side.cr_evd, DAT_PSP_CONSUMER_FLAG, &objects->psp));
	ck_dat(ep_connect(objects->peer.ep, (DAT_IA_ADDRESS_PTR)&side.address, qual,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	objects->cr = expect_event(side.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
			      .event_data.cr_arrival_event_data.cr_handle;
	memcpy(objects->all,
	       (DAT_HANDLE[]){ side.ia, side.ep, side.recv_evd, objects->cno, side.pz, side.lmr,
			       objects->psp, objects->cr, objects->rmr, objects->rsp },
	       sizeof(objects->all));
}

static const DAT_HANDLE_TYPE object_kinds[] = { DAT_HANDLE_TYPE_IA,  DAT_HANDLE_TYPE_EP,
						DAT_HANDLE_TYPE_EVD, DAT_HANDLE_TYPE_CNO,
						DAT_HANDLE_TYPE_PZ,  DAT_HANDLE_TYPE_LMR,
						DAT_HANDLE_TYPE_PSP, DAT_HANDLE_TYPE_CR,
						DAT_HANDLE_TYPE_RMR, DAT_HANDLE_TYPE_RSP };

/* All but null handles, which the registry refuses. */
START_TEST(a_handle_of_another_kind_is_refused)
{
	struct objects objects = { 0 };

	objects_create(&objects);
	for (int n = 0; calls[_i].kind != OBJ_KINDS && n < COUNT(object_kinds); n++)
		if (object_kinds[n] != calls[_i].kind)
			ck_dat_is(calls[_i].call(objects.all[n]), calls[_i].refusal);
}
END_TEST

/* An abrupt close frees every object. */
START_TEST(a_stale_handle_is_refused)
{
	struct objects objects = { 0 };

	objects_create(&objects);
	ck_dat(ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	for (int n = 0; n < COUNT(object_kinds); n++)
		ck_dat_is(calls[_i].call(objects.all[n]), calls[_i].refusal);
}
END_TEST

START_TEST(each_kind_has_its_handle_type)
{
	struct objects objects = { 0 };

	objects_create(&objects);
	for (int n = 0; n < COUNT(object_kinds); n++) {
		DAT_HANDLE_TYPE type;

		ck_dat(handle_type(objects.all[n], &type));
		ck_assert_int_eq(type, object_kinds[n]);
	}
	ck_dat_is(handle_type(side.ep, NULL), BAD_ARG(2));
}
END_TEST

START_TEST(each_kind_keeps_its_context)
{
	struct objects objects = { 0 };
	DAT_CONTEXT context;

	objects_create(&objects);
	for (int n = 0; n < COUNT(object_kinds); n++) {
		ck_dat(context_get(objects.all[n], &context));
		ck_assert_ptr_null(context.as_ptr);
		ck_dat(context_set(objects.all[n], cookie_of(0x1122334455667788 + n)));
	}
	for (int n = 0; n < COUNT(object_kinds); n++) {
		ck_dat(context_get(objects.all[n], &context));
		ck_assert_uint_eq(context.as_64, 0x1122334455667788 + n);
	}
	ck_dat_is(context_get(side.ep, NULL), BAD_ARG(2));
}
END_TEST

/*
 * The handle is of another kind, stale, of another IA, or points into an object: the tag of the
 * endpoint of a bind is checked in each case.
 */
START_TEST(a_bind_refuses_a_bad_endpoint)
{
	const DAT_LMR_TRIPLET range = segment(&side, 0, 8);
	DAT_RMR_CONTEXT context = 5;
	struct objects objects = { 0 };

	objects_create(&objects);
	for (int n = 0; n < COUNT(object_kinds); n++)
		if (object_kinds[n] != DAT_HANDLE_TYPE_EP)
			ck_dat_is(rmr_bind_va(objects.rmr, &range, 0, objects.all[n], cookie_of(0),
					      0, &context),
				  BAD_HANDLE(EP));
	ck_dat_is(rmr_bind_va(objects.rmr, &range, 0, (char *)side.ep + 64, cookie_of(0), 0,
			      &context),
		  BAD_HANDLE(EP));
	ck_dat_is(rmr_bind_va(objects.rmr, &range, 0, objects.peer.ep, cookie_of(0), 0, &context),
		  BAD_HANDLE(EP));
	ck_dat(ep_free(side.ep));
	ck_dat_is(rmr_bind_va(objects.rmr, &range, 0, side.ep, cookie_of(0), 0, &context),
		  BAD_HANDLE(EP));
	ck_assert_uint_eq(context, 5);
}
END_TEST

/* An object of another IA is refused like one that was freed. */
START_TEST(a_call_refuses_objects_of_another_ia)
{
	struct side other = { 0 };
	DAT_CNO_HANDLE cno;
	DAT_REGION_DESCRIPTION region = { .for_va = side.memory };
	DAT_EP_HANDLE ep = POISON;
	DAT_EVD_HANDLE evd = POISON;
	DAT_LMR_HANDLE lmr = POISON;
	DAT_RMR_CONTEXT context = 5;
	DAT_LMR_TRIPLET range;
	DAT_RMR_HANDLE rmr;

	side_open(&other, "fake1");
	ck_dat(cno_create(other.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat_is(evd_create(side.ia, 1, cno, DAT_EVD_SOFTWARE_FLAG, &evd), BAD_HANDLE(CNO));
	ck_dat_is(evd_modify_cno(side.recv_evd, cno), BAD_HANDLE(CNO));
	ck_dat_is(ep_create(side.ia, other.pz, NULL, NULL, NULL, NULL, &ep), BAD_HANDLE(PZ));
	ck_dat_is(ep_create(side.ia, side.pz, other.recv_evd, NULL, NULL, NULL, &ep),
		  BAD_HANDLE(EVD_RECV));
	ck_dat_is(ep_create(side.ia, side.pz, NULL, other.recv_evd, NULL, NULL, &ep),
		  BAD_HANDLE(EVD_REQUEST));
	ck_dat_is(lmr_create_va(side.ia, DAT_MEM_TYPE_VIRTUAL, region, 8, other.pz, 0, &lmr, NULL,
				NULL, NULL, NULL),
		  BAD_HANDLE(PZ));
	region.for_lmr_handle = other.lmr;
	ck_dat_is(lmr_create_va(side.ia, DAT_MEM_TYPE_LMR, region, 8, side.pz, 0, &lmr, NULL, NULL,
				NULL, NULL),
		  BAD_HANDLE(LMR));
	range = segment(&other, 0, 8);
	ck_dat_is(lmr_sync_rdma_read(side.ia, &range, 1), BAD_ARG(2));
	ck_dat_is(lmr_sync_rdma_write(side.ia, &range, 1), BAD_ARG(2));
	ck_dat(rmr_create(side.pz, &rmr));
	ck_dat_is(rmr_bind_va(rmr, &range, 0, other.ep, cookie_of(1), 0, &context), BAD_HANDLE(EP));
	ck_dat_is(rmr_bind_va(rmr, &range, 0, side.ep, cookie_of(1), 0, &context),
		  OF_EDITION(BAD_ARG(2), BAD_HANDLE(LMR)));
	ck_assert_uint_eq(context, 5);
	ck_assert_ptr_eq(ep, POISON);
	ck_assert_ptr_eq(evd, POISON);
	ck_assert_ptr_eq(lmr, POISON);
	/* no failed call holds an object: the zone is held by its endpoint and region only */
	ck_assert_uint_eq(atomic_load(&((struct pz *)other.pz)->obj.uses), 2);
	ck_assert_uint_eq(atomic_load(&((struct lmr *)other.lmr)->obj.uses), 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("object");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_test(cases, an_object_is_visible_only_while_it_is_published);
	tcase_add_test(cases, an_object_is_valid_for_its_kind_and_ia_only);
	tcase_add_test(cases, a_handle_that_points_elsewhere_is_invalid);
	tcase_add_test(cases, an_object_that_is_held_is_not_retired);
	tcase_add_test(cases, the_slot_freed_first_is_reused_first);
	tcase_add_test(cases, freed_slots_of_a_full_slab_are_reused);
	tcase_add_test(cases, a_handle_that_was_just_freed_is_not_that_of_the_next_object);
	tcase_add_test(cases, a_slot_that_was_never_used_takes_no_memory);
	tcase_add_test(cases, a_reused_slot_is_zeroed);
	tcase_add_test(cases, a_walk_sees_every_published_object);
	tcase_add_test(cases, a_retired_or_foreign_object_is_not_held);
	tcase_add_test(cases, an_object_can_be_retired_while_it_is_held);
	tcase_add_test(cases, a_walk_may_free_what_it_sees);
	tcase_add_test(cases, threads_hold_and_retire);
	tcase_add_loop_test(cases, a_handle_of_another_kind_is_refused, 0, COUNT(calls));
	tcase_add_loop_test(cases, a_stale_handle_is_refused, 0, COUNT(calls));
	tcase_add_test(cases, each_kind_has_its_handle_type);
	tcase_add_test(cases, each_kind_keeps_its_context);
	tcase_add_test(cases, a_bind_refuses_a_bad_endpoint);
	tcase_add_test(cases, a_call_refuses_objects_of_another_ia);
	return run_unit_cases(argc, argv);
}
