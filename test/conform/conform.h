/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the cases of conform share: the transport they run over, both ends of a connection, events,
 * transfers.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <dat/udat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../unit/registry_test.h"

/*
 * Microseconds: only a failure takes that long, also where the clock may leap 21 s (see LONG of
 * test/func/peer.h).
 */
#define PATIENCE 45000000
#define MEMORY	 65536
#define QLEN	 64

#define LOCAL ((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG))
#define REMOTE                                                                                     \
	((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))

/* ---- what calls return ---- */

const char *status_text(DAT_RETURN ret);

#define ck_dat(call)                                                                               \
	do {                                                                                       \
		DAT_RETURN ret_ = (call);                                                          \
		ck_assert_msg(ret_ == DAT_SUCCESS, "%s: %s", #call, status_text(ret_));            \
	} while (0)

/* Type and subtype, as the standard tells consumers to look at them. */
#define ck_dat_fails(call, type, subtype)                                                          \
	do {                                                                                       \
		DAT_RETURN ret_ = (call);                                                          \
		ck_assert_msg(DAT_GET_TYPE(ret_) == (DAT_RETURN)(type) &&                          \
				      DAT_GET_SUBTYPE(ret_) == (DAT_RETURN)(subtype),              \
			      "%s: %s", #call, status_text(ret_));                                 \
	} while (0)

/* ---- the transport ---- */

/* Where the standard leaves a choice, or a device can't do what it asks for. */
struct transport {
	const char *kind; /* "fake", or as DAT_TEST_DEV has it */
	/* of a send from memory that the endpoint may not use */
	DAT_DTO_COMPLETION_STATUS bad_segment;
	DAT_DTO_COMPLETION_STATUS bad_receive; /* of a receive into such memory */
	/* registering takes the pages that are there, and no others */
	bool sees_pages;
	/* a request completes with what went wrong at the peer */
	bool tells_remote;
	bool guards_reads; /* memory without remote read can't be read */
	/* a window ends where it ends, not where its region does */
	bool bounds_windows;
};

const struct transport *transport(void);

/* Unless it @can be run here, which is said, and why. */
void add_case(TCase *cases, const TTest *test, bool can, const char *why_not);

/* ---- one end ---- */

struct side {
	char name[DAT_NAME_MAX_LENGTH];
	DAT_IA_HANDLE ia;
	DAT_IA_ATTR attr;
	DAT_PROVIDER_ATTR provider;
	DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connect_evd, cr_evd;
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	char *memory;
};

/* a connects, b listens. */
extern struct side a, b;

void choose_names(void);
void side_open_ia(struct side *side);
void side_open(struct side *side);
void side_close(struct side *side);

void open_both(void); /* chooses names, too */
void open_connected(void);
void close_both(void);

/* ---- events ---- */

DAT_EVENT expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
void expect_dto(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
		DAT_DTO_COMPLETION_STATUS status, DAT_VLEN length);
void expect_empty(DAT_EVD_HANDLE evd);
DAT_EVENT expect_connection(const struct side *side, DAT_EVENT_NUMBER number);
/* of its connection, by the peer's word or by its death */
void expect_end(const struct side *side);

/* ---- connections ---- */

DAT_PSP_HANDLE listen_at(const struct side *side, DAT_CONN_QUAL *qual);
void call(const struct side *from, const struct side *to, DAT_CONN_QUAL qual, DAT_COUNT size,
	  const char *data);
DAT_CR_HANDLE expect_request(const struct side *side, DAT_PSP_HANDLE psp, DAT_CONN_QUAL qual);
void connect_both(void);
void disconnect_both(DAT_CLOSE_FLAGS flags);
void connect_again(void); /* what has been disconnected */
DAT_EP_STATE state_of(DAT_EP_HANDLE ep);

/* ---- transfers, which must be taken ---- */

DAT_LMR_TRIPLET segment(const struct side *side, size_t offset, size_t length);
DAT_RMR_TRIPLET target(const struct side *side, size_t offset, size_t length);
DAT_DTO_COOKIE cookie_of(uint64_t n);
void post_send(const struct side *side, uint64_t n, size_t offset, size_t length,
	       DAT_COMPLETION_FLAGS flags);
void post_recv(const struct side *side, uint64_t n, size_t offset, size_t length);

/* Of a; @offset is the place in its memory. */
void post_write(uint64_t n, size_t offset, DAT_RMR_TRIPLET to);
void post_read(uint64_t n, size_t offset, DAT_RMR_TRIPLET from);

void fill(const struct side *side, unsigned seed);
void check_filled(const struct side *side, unsigned seed); /* and nothing has changed */

/* a reads or writes in b's memory, and the bytes arrive. */
void expect_read(DAT_RMR_TRIPLET from);
void expect_write(DAT_RMR_TRIPLET to);

/* a may not: no byte moves, and it costs the connection, which is made anew. */
void expect_read_refused(DAT_RMR_TRIPLET from);
void expect_write_refused(DAT_RMR_TRIPLET to);

/* ---- the cases of other files ---- */

void add_memory_cases(TCase *cases);
void add_window_cases(TCase *cases);

#endif
