/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sheet: function and condition on the left, what the function returns or which event follows
 * on the right, one row each. A file sheet_*.c has the rows of one chapter of the standard.
 *
 *	ROW(dat_evd_create, "the length is 0", BAD_ARG(2),
 *	    dat_evd_create(here->ia, 0, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &unwritten));
 *
 *	ROW_DO(dat_evd_resize, "the new length is below the number of events", BAD_STATE_PLAIN)
 *	{
 *		DAT_EVD_HANDLE evd = new_evd(8, DAT_EVD_SOFTWARE_FLAG);
 *
 *		post_events(evd, 2);
 *		return dat_evd_resize(evd, 1);
 *	}
 *
 * Rows share a process and in it the stage: two open IAs with a connection between them. A row
 * leaves it as it was. What it creates with new_...() or passes to keep() is freed after it, in the
 * reverse order; then a message over the connection shows that both ends are still usable. After a
 * row that failed all is opened anew.
 *
 * A row may be followed by options:
 *	.needs = NEEDS_RNR	skip it on a device that lacks this
 *	.on = {{ "siw", NO_RESOURCE(TEVD), "siw cannot resize a queue in use" }}
 *				this device has another answer, and why
 */
#ifndef SHEET_H
#define SHEET_H

#include <netinet/in.h>

#include "../consumer/consumer.h"

/* All rows of a file need this; a file may define it before it includes this one. */
#ifndef ROW_NEEDS
#define ROW_NEEDS NEEDS_NOTHING
#endif

/* What a row's function returns, and the sheet compares. */
enum row_kind {
	ROW_RETURN,	/* DAT_RETURN */
	ROW_EVENT,	/* DAT_EVENT_NUMBER */
	ROW_COMPLETION, /* DAT_DTO_COMPLETION_STATUS */
	ROW_STATE,	/* DAT_EP_STATE */
};

struct row {
	const char *call, *when, *file;
	int line;
	enum row_kind kind;
	uint32_t want;
	uint32_t (*run)(void);
	unsigned needs;		/* enum need */
	unsigned chapter_needs; /* ROW_NEEDS of its file */
	struct {
		const char *device; /* struct device, kind */
		uint32_t want;
		const char *why;
	} on[4];
	struct row *next;
};

void row_add(struct row *row);
const struct row *rows_first(void);
uint32_t row_want(const struct row *row); /* on the device */

#define ROW_NAME__(a, b) a##_##b
#define ROW_NAME_(a, b)	 ROW_NAME__(a, b)
#define ROW_NAME(a)	 ROW_NAME_(a, __LINE__)

/* sizeof makes sure that the function exists. */
#define ROW_HEAD(kind_, call_, when_, want_, ...)                                                  \
	static uint32_t ROW_NAME(row_run)(void);                                                   \
	static void __attribute__((constructor)) ROW_NAME(row_register)(void)                      \
	{                                                                                          \
		static struct row row = { .call = sizeof(&call_) ? #call_ : NULL,                  \
					  .when = when_,                                           \
					  .file = __FILE__,                                        \
					  .line = __LINE__,                                        \
					  .kind = kind_,                                           \
					  .want = want_,                                           \
					  .run = ROW_NAME(row_run),                                \
					  .chapter_needs = ROW_NEEDS,                              \
					  __VA_ARGS__ };                                           \
		row_add(&row);                                                                     \
	}                                                                                          \
	static uint32_t ROW_NAME(row_run)(void)

/* The value of the row is that of one expression. */
#define ROW(call, when, want, expression, ...)                                                     \
	ROW_HEAD(ROW_RETURN, call, when, want, __VA_ARGS__)                                        \
	{                                                                                          \
		return expression;                                                                 \
	}                                                                                          \
	struct row
/* The value of the row is what the function returns whose body follows. */
#define ROW_DO(call, when, want, ...)	  ROW_HEAD(ROW_RETURN, call, when, want, __VA_ARGS__)
#define EVENT_ROW(call, when, want, ...)  ROW_HEAD(ROW_EVENT, call, when, want, __VA_ARGS__)
#define STATUS_ROW(call, when, want, ...) ROW_HEAD(ROW_COMPLETION, call, when, want, __VA_ARGS__)
#define STATE_ROW(call, when, want, ...)  ROW_HEAD(ROW_STATE, call, when, want, __VA_ARGS__)

/*
 * Four rows: the handle h in @expression is null, it is a small number, it is freed, it is one of
 * each other kind. @kind is as in BAD_HANDLE, but EVD without a role.
 */
#define HANDLE_ROWS(call, param, kind, want, expression)                                           \
	HANDLE_OR_NULL_ROWS(call, param, kind, want, expression);                                  \
	ROW_OF(null, ROW_NAME(handle_run), call, param " is null", want, NULL)                     \
	struct row

/* These are the last three of those rows, for a handle that may be null. */
#define HANDLE_OR_NULL_ROWS(call, param, kind, want_, expression)                                  \
	static DAT_RETURN ROW_NAME(handle_run)(DAT_HANDLE h)                                       \
	{                                                                                          \
		return expression;                                                                 \
	}                                                                                          \
	static DAT_RETURN ROW_NAME(each_small)(DAT_HANDLE ignored)                                 \
	{                                                                                          \
		(void)ignored;                                                                     \
		return each_small_handle(ROW_NAME(handle_run), HANDLE_##kind, want_);              \
	}                                                                                          \
	static DAT_RETURN ROW_NAME(each_other)(DAT_HANDLE ignored)                                 \
	{                                                                                          \
		(void)ignored;                                                                     \
		return each_other_handle(ROW_NAME(handle_run), HANDLE_##kind, want_);              \
	}                                                                                          \
	ROW_OF(small, ROW_NAME(each_small), call, param " is a small number", want_, NULL)         \
	ROW_OF(freed, ROW_NAME(handle_run), call, param " was freed", want_,                       \
	       freed_handle(HANDLE_##kind))                                                        \
	ROW_OF(other, ROW_NAME(each_other), call, param " is of another kind", want_, NULL)        \
	struct row

/* Makes one of several rows of a macro, whose value is run(handle). @name tells them apart. */
#define ROW_OF(name, run_, call_, when_, want_, handle, ...)                                       \
	static uint32_t ROW_NAME(name##_row)(void)                                                 \
	{                                                                                          \
		return run_(handle);                                                               \
	}                                                                                          \
	static void __attribute__((constructor)) ROW_NAME(name##_register)(void)                   \
	{                                                                                          \
		static struct row row = { .call = sizeof(&call_) ? #call_ : NULL,                  \
					  .when = when_,                                           \
					  .file = __FILE__,                                        \
					  .line = __LINE__,                                        \
					  .want = want_,                                           \
					  .run = ROW_NAME(name##_row),                             \
					  .chapter_needs = ROW_NEEDS,                              \
					  __VA_ARGS__ };                                           \
		row_add(&row);                                                                     \
	}

#define BAD_STATE_PLAIN DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE)
#define BAD_HANDLE1	DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)
#define NOT_SUPPORTED	DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
#define PLAIN(type)	DAT_ERROR(DAT_##type, DAT_NO_SUBTYPE)

/* ---- the stage ---- */

/* The client and the server, connected; attributes are the defaults. */
extern struct pair stage;
extern struct side *const here, *const there;
/* These are the outputs of calls that fail: a row fails if one of them has changed after it. */
extern DAT_HANDLE unwritten;
extern DAT_COUNT unwritten_count;
extern DAT_CONTEXT no_cookie;

enum handle_kind {
	HANDLE_IA,
	HANDLE_EP,
	HANDLE_LMR,
	HANDLE_RMR,
	HANDLE_PZ,
	HANDLE_PSP,
	HANDLE_RSP,
	HANDLE_CR,
	HANDLE_CNO,
	HANDLE_EVD,
#if DAT_EDITION == 2
	HANDLE_CSP,
#endif
	HANDLE_SRQ,
};

/* Returns a handle of an object that was freed. */
DAT_HANDLE freed_handle(enum handle_kind kind);
/*
 * Returns what the call returns for numbers in the first page, those of the open IAs among them,
 * and for a live handle of each kind but @kind: @want, or the first other result, with a line that
 * says of which.
 */
DAT_RETURN each_small_handle(DAT_RETURN (*call)(DAT_HANDLE), enum handle_kind kind,
			     DAT_RETURN want);
DAT_RETURN each_other_handle(DAT_RETURN (*call)(DAT_HANDLE), enum handle_kind kind,
			     DAT_RETURN want);
/* Returns a live object of that kind of another instance of the client's IA. */
DAT_HANDLE foreign_handle(enum handle_kind kind);
DAT_EVD_HANDLE foreign_evd(DAT_EVD_FLAGS flags);

/* Has the object freed after the row, if it still exists; the latest is freed first. Returns it. */
DAT_HANDLE keep(DAT_HANDLE handle);
DAT_HANDLE last_kept(void);

/* These are the client's. */
DAT_EVD_HANDLE new_evd(DAT_COUNT qlen, DAT_EVD_FLAGS flags);
DAT_CNO_HANDLE new_cno(void);
DAT_PZ_HANDLE new_pz(void);
DAT_EP_HANDLE new_ep(const DAT_EP_ATTR *attr); /* unconnected, with EVDs of its own */
DAT_LMR_HANDLE new_lmr(DAT_MEM_PRIV_FLAGS priv, DAT_LMR_CONTEXT *context); /* of all memory */
DAT_LMR_HANDLE new_lmr_in(DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv, DAT_LMR_CONTEXT *context);
DAT_RMR_HANDLE new_rmr(void);
DAT_SRQ_HANDLE new_srq(DAT_COUNT dtos);
/* These are the server's. */
DAT_PSP_HANDLE new_psp(DAT_CONN_QUAL *qual);
/* *pair (unless NULL) has the endpoint, RESERVED, at its server's end. */
DAT_RSP_HANDLE new_rsp(DAT_CONN_QUAL *qual, struct pair **pair);
DAT_CR_HANDLE new_cr(void); /* of an endpoint of the client */
#if DAT_EDITION == 2
/* *address has the port. */
DAT_CSP_HANDLE new_csp(struct sockaddr_in *address);
#endif

/*
 * Makes another pair, for rows that end the connection, or need attributes: endpoints and EVDs are
 * its own, the rest is the stage's.
 */
struct pair *new_pair(const DAT_EP_ATTR *attr); /* unconnected */
struct pair *new_connection(const DAT_EP_ATTR *attr);
/* Makes a pair whose client's end has asked, and whose server's has a request: *cr, if not NULL. */
struct pair *new_request(DAT_CR_HANDLE *cr);
/* Makes a pair that was connected, and is disconnected. */
struct pair *new_disconnected(void);
struct pair *new_disconnected_with(const DAT_EP_ATTR *attr);
/* Returns an endpoint of the server's that is in this state. */
DAT_EP_HANDLE new_ep_in(DAT_EP_STATE state);

void post_software_events(DAT_EVD_HANDLE evd, unsigned n);
/* Returns the status of the next completion on the EVD, which must have that cookie. */
DAT_DTO_COMPLETION_STATUS completion_of(DAT_EVD_HANDLE evd, uint64_t cookie);
/* Returns the number of the next event. */
DAT_EVENT_NUMBER event_of(DAT_EVD_HANDLE evd);

#endif
