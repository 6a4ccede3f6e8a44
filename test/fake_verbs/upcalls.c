/* SPDX-License-Identifier: BSD-2-Clause */
/* The upcalls of the transport, recorded. */
#include "upcalls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_verbs.h"

#define RECORDS 256

static struct up_record records[RECORDS];
static unsigned n_records, n_taken;
static char objects[5][16];

void (*up_hook)(const struct up_record *record);

struct ia *up_ia(void)
{
	return (struct ia *)objects[0];
}

struct ep *up_ep(unsigned n)
{
	return (struct ep *)&objects[1][n];
}

struct sp *up_sp(unsigned n)
{
	return (struct sp *)&objects[2][n];
}

struct evd *up_evd(unsigned n)
{
	return (struct evd *)&objects[3][n];
}

struct peer *up_peer(unsigned n)
{
	return (struct peer *)&objects[4][n];
}

void up_assert_locked_in(struct ia *ia, const char *function)
{
	(void)ia;
	if (fv_ia_locked())
		return;
	fprintf(stderr, "%s is called without ia->lock\n", function);
	abort();
}

struct up_record up_take(void)
{
	return n_taken < n_records ? records[n_taken++ % RECORDS]
				   : (struct up_record){ .kind = UP_NONE };
}

static void upcall_record(const struct up_record *record)
{
	up_assert_locked_in(NULL, "an upcall");
	if (n_records - n_taken == RECORDS)
		abort();
	records[n_records++ % RECORDS] = *record;
	if (up_hook)
		up_hook(record);
}

static void upcall_plain(enum up_kind kind, const void *about)
{
	const struct up_record record = { .kind = kind, .about = about };

	if (!about) {
		fprintf(stderr, "an upcall of kind %d is about nothing\n", (int)kind);
		abort();
	}
	upcall_record(&record);
}

static void pdata_keep(struct up_record *record, const void *pdata, unsigned size)
{
	record->has_pdata = pdata != NULL;
	record->pdata_size = size;
	if (size)
		memcpy(record->pdata, pdata, size);
}

void up_request(struct sp *sp, struct tp_conn *conn, const struct tp_request *request)
{
	struct up_record record = {
		.kind = UP_REQUEST,
		.about = sp,
		.conn = conn,
		.datagrams = request->datagrams,
		.max_read_in = request->max_read_in,
		.max_read_out = request->max_read_out,
	};

	memcpy(&record.local, request->local, sizeof(record.local));
	memcpy(&record.remote, request->remote, sizeof(record.remote));
	pdata_keep(&record, request->private_data, request->private_data_size);
	upcall_record(&record);
}

void up_established(struct ep *ep, const struct tp_established *established)
{
	struct up_record record = {
		.kind = UP_ESTABLISHED,
		.about = ep,
		.max_read_in = established->max_read_in,
		.max_read_out = established->max_read_out,
	};

	pdata_keep(&record, established->private_data, established->private_data_size);
	upcall_record(&record);
}

void up_reject_data(struct ep *ep, const void *private_data, unsigned size)
{
	struct up_record record = { .kind = UP_REJECT_DATA, .about = ep };

	pdata_keep(&record, private_data, size);
	upcall_record(&record);
}

void up_failed(struct ep *ep, enum tp_cause cause)
{
	const struct up_record record = { .kind = UP_FAILED, .about = ep, .cause = cause };

	upcall_record(&record);
}

void up_peer_found(struct peer *peer, struct tp_ah *ah, const void *private_data, unsigned size)
{
	struct up_record record = { .kind = UP_PEER_FOUND, .about = peer, .ah = ah };

	pdata_keep(&record, private_data, size);
	upcall_record(&record);
}

void up_peer_failed(struct peer *peer, enum tp_cause cause, const void *private_data, unsigned size)
{
	struct up_record record = { .kind = UP_PEER_FAILED, .about = peer, .cause = cause };

	pdata_keep(&record, private_data, size);
	upcall_record(&record);
}

void up_disconnected(struct ep *ep)
{
	upcall_plain(UP_DISCONNECTED, ep);
}

void up_qp_broken(struct ep *ep, const struct tp_qp *qp)
{
	(void)qp;
	upcall_plain(UP_QP_BROKEN, ep);
}

void up_qp_last_receive(struct ep *ep, const struct tp_qp *qp)
{
	(void)qp;
	upcall_plain(UP_LAST_RECEIVE, ep);
}

void up_srq_limit(struct srq *srq)
{
	upcall_plain(UP_SRQ_LIMIT, srq);
}

void up_srq_broken(struct srq *srq)
{
	upcall_plain(UP_SRQ_BROKEN, srq);
}

void up_cq_overrun(struct evd *evd)
{
	upcall_plain(UP_CQ_OVERRUN, evd);
}

void up_port_down(struct ia *ia)
{
	upcall_plain(UP_PORT_DOWN, ia);
}

void up_dev_fatal(struct ia *ia)
{
	upcall_plain(UP_DEV_FATAL, ia);
}

/* Any thread calls it. */
static atomic_bool wake;

void up_wake(struct ia *ia)
{
	(void)ia;
	atomic_store(&wake, true);
}

bool up_take_wake(void)
{
	return atomic_exchange(&wake, false);
}
