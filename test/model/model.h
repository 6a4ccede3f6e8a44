/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of DAT, written from the manual pages: its objects, what holds them, their states, queues
 * and counts. Random calls are made to the library and to the model, which judges each result and
 * each event.
 *
 * One thread has one world, a model with IAs of its own, and judges it exactly. Where the standard
 * leaves the time open, such as when a peer notices the end of a connection, the model knows what
 * may be now and what must come: a result has to be one of the first, and a wait for the second
 * has to end. What all threads of a run share is judged in shared.c.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../consumer/consumer.h"

/* ---- calls (calls.c) ---- */

#define CALL_ARGS 8

/*
 * One call, before its arguments are looked up: they are slots of the model and choices, so that a
 * list of calls keeps its meaning when some are left out.
 */
struct call {
	uint8_t thread, op;
	uint16_t arg[CALL_ARGS];
};

#define MAX_THREADS 4

struct world;

/* Makes one call of the list: chooses the arguments, and judges what the library answers. */
typedef void (*call_run)(struct world *, const struct call *);

struct op {
	const char *name;
	unsigned weight; /* how often it is called, beside others */
	call_run run;
};
/* Each family has a table, which ends with a row without a name. */
extern const struct op ia_ops[], evd_ops[], cno_ops[], memory_ops[], ep_ops[];
extern const struct op listen_ops[], connect_ops[], srq_ops[], post_ops[], shared_ops[];

void calls_init(void);
void calls_generate(struct call *calls, size_t n, uint64_t seed, unsigned threads);
const struct op *op_of(const struct call *call);
void call_print(FILE *to, const struct call *call);
bool call_parse(const char *line, struct call *call);

/* A list of calls, run by as many threads as it names. */
struct script {
	struct call *calls;
	size_t n;
};

/* ---- shrinking (shrink.c) ---- */

/*
 * Runs the calls in a process of their own. Returns the index of the call that failed, or n if all
 * were as the model wants. The process prints what was wrong unless @quiet.
 */
size_t script_run(const struct script *script, bool quiet);
/* Leaves out calls as long as the rest still fails. */
void script_shrink(struct script *script);

/* Runs the calls in this process; mismatch() ends it (threads.c). */
void script_execute(const struct script *script);
/* Tells the parent which call failed, and why. Returns whether nobody wants to read it. */
bool script_failed(size_t index, const char *why);
/* How long a wait for what must come may last, in microseconds. It is short while lists shrink. */
DAT_TIMEOUT script_patience(void);
void script_at(size_t index); /* the call begins */

/* What the lists have met so far, to be printed: a model that nothing happens in judges nothing. */
enum sight {
	A_SUCCESS,
	A_REFUSAL,
	SOFTWARE,
	COMPLETED,
	FLUSHED,
	FAILED,
	REQUEST,
	UP,
	DOWN,
	SIGHTS
};
void script_saw(enum sight sight);
void sights_print(FILE *to);

/* ---- objects ---- */

#define KINDS (DAT_HANDLE_TYPE_SRQ + 1)
#define SLOTS 8 /* of objects of one kind */

struct object;
struct conn;

/* Something that was posted and whose completion was not seen. */
enum transfer_kind { SEND, RECV, WRITE, READ, BIND, TRANSFER_KINDS };

struct transfer {
	enum transfer_kind kind;
	struct object *ep;     /* NULL: freed, so that the event may come or not */
	struct object *evd;    /* NULL: the endpoint has none, so that no event comes */
	struct object *lmr[2]; /* the local region, and the peer's; or what a bind is to, and was */
	struct object *rmr;    /* of a bind */
	struct conn *conn;     /* of a request: what it travels on; NULL: nothing */
	uint64_t cookie;
	DAT_COMPLETION_FLAGS flags;
	unsigned number; /* of a SEND: which message of the connection */
	size_t length;
	int block, target; /* of memory.c; -1: none */
	bool before_end;   /* the connection had not ended when it was posted */
	bool bad;	   /* its local segment is none */
	bool of_srq;	   /* its event may come on any EVD */
	struct transfer *next;
};

struct queue {
	struct transfer *first, **last;
	unsigned n;
};

struct evd_model {
	DAT_EVD_FLAGS flags;
	DAT_COUNT qlen;
	struct object *cno;
	bool disabled, unwaitable, of_ia;
	uintptr_t software[64]; /* a ring: queued software events */
	unsigned first, n_software;
};

struct cno_model {
	enum { CLEAR, UNKNOWN, SET } latch;
	struct object *triggered_by; /* while it is SET; NULL: unknown */
	bool has_agent;		     /* it was given one, */
	bool triggered; /* and may have called it since: a thread of the provider does */
};

struct ia_model {
	enum end end;
	struct object *async_evd;
	struct sockaddr_storage address;
	DAT_IA_ATTR attr;
	DAT_PROVIDER_ATTR provider;
	bool lost_requests; /* whose events were lost with their EVD */
};

struct lmr_model {
	struct object *pz;
	DAT_MEM_TYPE type;
	DAT_MEM_PRIV_FLAGS priv;
	DAT_LMR_CONTEXT context;
	DAT_RMR_CONTEXT rmr_context;
	char *at;
	size_t size;
	unsigned transfers; /* posted and not seen complete */
};

struct rmr_model {
	struct object *pz, *lmr; /* lmr: the last bind that was seen complete */
	unsigned binds;		 /* posted and not seen complete */
};

struct srq_model {
	struct object *pz;
	DAT_COUNT max, iov, low;
	struct queue recvs;
};

/* What may still be told about one connection, or attempt, of an endpoint. */
struct life {
	bool est_may, est_must; /* ESTABLISHED */
	unsigned ends;		/* the events of which one may end it, a bit each */
	bool end_must, over;
};

#define EVENT_BIT(number) (1u << ((number)&0xf))
#define ENDED                                                                                      \
	(EVENT_BIT(DAT_CONNECTION_EVENT_DISCONNECTED) | EVENT_BIT(DAT_CONNECTION_EVENT_BROKEN))

enum role { RECV_ROLE, REQUEST_ROLE, CONNECT_ROLE, ROLES };

struct ep_model {
	struct object *pz, *srq, *evd[ROLES];
	DAT_EP_ATTR attr;
	unsigned states;	/* those it was last seen in, a bit each; see ep_states */
	struct life life, past; /* past: events of the connection before a reset */
	struct queue recvs, requests;
	bool failed[2]; /* a receive, a request of this connection has failed */
	bool asked;	/* dat_ep_disconnect has ended this connection */
	struct conn *conn;
	bool client;
	struct object *rsp, *cr; /* what reserves it */
};

/* A connection, or the attempt to make one. */
enum progress { ON_WIRE, REQUESTED, ACCEPTED, REFUSED };

#define MESSAGES 64

struct conn {
	uint32_t id; /* its private data */
	enum progress progress;
	struct object *end[ENDS]; /* NULL: not there yet, or freed */
	struct object *sp, *evd;  /* where the request arrives; NULL: gone */
	DAT_CONN_QUAL qual;
	struct object *asked; /* the service point, before a handoff; NULL: gone */
	bool lost;	      /* the request may never arrive */
	bool broken;	      /* a transfer fails, and with it the connection */
	struct way {	      /* by the end that sends */
		unsigned sent, received, posted; /* posted: receives at the other end */
		bool shared;			 /* these are of an SRQ, and have room */
		bool held_up;			 /* a message was sent before its receive */
		bool unsure; /* a message may have counted as one for a freed endpoint */
		size_t length[MESSAGES], room[MESSAGES];
		uint64_t seed[MESSAGES];
	} way[ENDS];
	struct conn *next;
};

struct sp_model {
	DAT_CONN_QUAL qual;
	struct object *evd, *ep; /* ep: of an RSP */
	bool makes_eps;
	bool used;	   /* an RSP whose request has arrived */
	unsigned attempts; /* of which no request has arrived */
};

struct cr_model {
	struct conn *conn;
	struct object *sp; /* NULL: freed */
	struct object *ep; /* that it brings */
	DAT_CONN_QUAL qual;
};

struct object {
	DAT_HANDLE_TYPE kind;
	bool live;
	DAT_HANDLE handle; /* kept when it was freed: then it is stale */
	struct object *ia;
	unsigned uses; /* of objects that keep it from being freed */
	DAT_UINT64 context;
	union {
		struct ia_model ia_of;
		struct evd_model evd;
		struct cno_model cno;
		struct lmr_model lmr;
		struct rmr_model rmr;
		struct srq_model srq;
		struct ep_model ep;
		struct sp_model sp;
		struct cr_model cr;
		struct object *unused;
	};
};

/* An endpoint that was freed while an event of it may have been queued. */
struct ghost {
	DAT_EP_HANDLE handle;
	struct object *evd;
};

struct world {
	unsigned thread, threads;
	struct object slot[KINDS][SLOTS];
	struct conn *conns;
	struct queue orphans; /* of freed endpoints */
	struct ghost ghosts[64];
	unsigned n_ghosts;
	uint64_t next_cookie;
	uint32_t next_conn;
	const struct call *call; /* the one that is made */
	size_t call_index;
	struct arena *arena;
};

/* ---- what the threads share (shared.c) ---- */

void shared_open(struct world *w);
/* No thread uses it any more: each event that was posted was taken once. */
void shared_close(struct world *w);

/* ---- the model's tools (model.c) ---- */

/* The call failed: prints it with that message, and ends the process. */
void mismatch(const struct world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* The call fails unless it returned @want. Returns whether that is DAT_SUCCESS. */
bool returned(const struct world *w, DAT_RETURN got, DAT_RETURN want);
/* The call fails unless @ok, which the text says in words. */
#define holds(w, ok, ...)                                                                          \
	do {                                                                                       \
		if (!(ok))                                                                         \
			mismatch(w, __VA_ARGS__);                                                  \
	} while (0)

/*
 * Returns the object of an argument, or NULL if its handle is none of that kind: null, stale, or of
 * another kind. *handle becomes the handle to call with.
 */
struct object *object_arg(struct world *w, uint16_t arg, DAT_HANDLE_TYPE kind, DAT_HANDLE *handle);
/* The same, but as a rule the object is one of @ia, so that most calls succeed. */
struct object *object_of(struct world *w, uint16_t arg, DAT_HANDLE_TYPE kind,
			 const struct object *ia, DAT_HANDLE *handle);
/* Any live object, or NULL; for calls that take each kind. */
struct object *any_object(struct world *w, uint16_t arg, DAT_HANDLE *handle);
struct object *object_with(struct world *w, DAT_HANDLE_TYPE kind, DAT_HANDLE handle);
/* Returns a slot for a new object, or NULL if all are in use: then the call is not made. */
struct object *object_slot(struct world *w, DAT_HANDLE_TYPE kind);
void object_born(struct object *object, DAT_HANDLE handle, struct object *ia);
/* Marks it freed; all that it held was released by the caller. */
void object_dies(struct object *object);

/* Handles of one call belong to one IA. */
static inline bool of_ia(const struct object *object, const struct object *ia)
{
	return object && object->ia == ia;
}

static inline bool foreign(const struct object *object, const struct object *ia)
{
	return object && object->ia != ia;
}

/* One in @n of all arguments. */
static inline bool rarely(uint16_t arg, unsigned n)
{
	return arg % n == n - 1;
}

/* The result of checks in their order: the first that is not DAT_SUCCESS. */
#define CHECK(want, condition, code)                                                               \
	do {                                                                                       \
		if ((want) == DAT_SUCCESS && (condition))                                          \
			(want) = (code);                                                           \
	} while (0)

#define NO_SUBTYPE(type) DAT_ERROR(type, DAT_NO_SUBTYPE)
#define BAD_HANDLE1	 DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

/* ---- families ---- */

/* Takes down all that an IA has, as an abrupt close does (model_ia.c). */
void ia_closed(struct world *w, struct object *ia);
void ia_open_all(struct world *w);
void ia_close_all(struct world *w);

/* An event arrived, or may have: its CNO (model_cno.c). */
void cno_triggered(struct object *evd, bool surely);
/* The EVD is detached from its CNO, if it has one. */
void cno_left(struct object *evd);

/* Judges an event that the EVD returned (model_event.c). */
void event_judge(struct world *w, struct object *evd, const DAT_EVENT *event);
bool handle_is_used_again(const struct world *w, DAT_EP_HANDLE handle);
/* How many events are on the EVD for certain when all that is under way has arrived. */
unsigned events_must(struct world *w, struct object *evd);
/* Says which they are, for the message of a wait that they have not ended. */
void events_print(struct world *w, const struct object *evd);
/* Whether events may be on the EVD that are not software events. */
bool events_may(struct world *w, struct object *evd);
void evd_forget(struct world *w, struct object *evd);

/* The states that an endpoint may be in now (model_ep.c). */
unsigned ep_states(const struct object *ep);
bool ep_surely(const struct object *ep, DAT_EP_STATE state);
/*
 * Judges a result that depends on the state: success in one of the @legal states, a bit each, or
 * the error of another. Returns whether it was a success. The model then knows the state better.
 */
bool ep_returned(struct world *w, struct object *ep, DAT_RETURN got, unsigned legal);
DAT_RETURN ep_state_error(DAT_EP_STATE state);
void ep_release(struct world *w, struct object *ep);
void ep_attach(struct object *ep, enum role role, struct object *evd);
/* The connection of the endpoint ends with one of these events. */
void ep_ends(struct object *ep, unsigned ends, bool must);
struct object *ep_peer(const struct object *ep);
/* What the other end will notice when this one's connection ends. */
void ep_peer_ends(struct object *ep);

void sp_release(struct world *w, struct object *sp);
void cr_release(struct object *cr);
bool has_events(const struct life *life);
void ep_born_tentative(struct world *w, struct object *ep, DAT_EP_HANDLE handle, struct object *ia);
/* A request has arrived (model_listen.c). */
void cr_arrived(struct world *w, struct object *evd, const DAT_CR_ARRIVAL_EVENT_DATA *data);
/* How many requests must arrive there, and whether one may. */
unsigned cr_must(const struct world *w, const struct object *evd);
bool cr_may(const struct world *w, const struct object *evd);

void queue_init(struct queue *queue);
void queue_push(struct queue *queue, struct transfer *transfer);
struct transfer *queue_pop(struct queue *queue);
void transfer_free(struct world *w, struct transfer *transfer);
/* Judges a completion against what was posted; the head of its queue, but for suppressed ones. */
void transfer_judge(struct world *w, struct object *evd, const DAT_EVENT *event);
bool transfer_must(struct world *w, const struct transfer *transfer);
/* Both ends are connected, stay so, and no message lacks a receive. */
bool ep_flows(const struct object *ep);
void transfers_orphan(struct world *w, struct queue *queue);
void transfers_drop(struct world *w, struct queue *queue);
/* The receives that were posted before the endpoint got a connection count for it. */
void conn_gets_recvs(struct object *ep);

/* ---- memory (model.c) ---- */

#define ARENA_BLOCKS 512
#define BLOCK_SIZE   256

void arena_open(struct world *w);
void arena_close(struct world *w);
char *arena_memory(struct world *w);
size_t arena_size(void);
/* A block that nothing uses, or -1. */
int block_take(struct world *w);
void block_put(struct world *w, int block);
int block_target(struct world *w); /* for a write of the peer */
int block_source(void);		   /* for a read of the peer; its seed is its number */
char *block_at(struct world *w, int block);
void block_fill(struct world *w, int block, uint64_t seed);
bool block_has(struct world *w, int block, size_t length, uint64_t seed);

#endif
