/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that connect to each other over libfabric's tcp. */
#include <string.h>

#include "connects.h"
#include "raw_fabric.h"

static struct process {
	unsigned rank, processes;
	struct fabric_node node;
	struct fid_cq *recv, *request;	   /* of the transfers of all endpoints */
	struct fid_ep *eps[MAX_PROCESSES]; /* by the rank of the peer */
} self;

/* An event, and the rank that came with it. */
struct event {
	struct fi_eq_cm_entry entry;
	unsigned rank;
};

static void process_open(unsigned rank, unsigned processes)
{
	struct connects_listener *listener = &connects_listeners[rank];

	self.rank = rank;
	self.processes = processes;
	fabric_open(&self.node, "tcp", getenv(ADDR), true);
	self.recv = fabric_cq(&self.node, DEPTH * processes);
	self.request = fabric_cq(&self.node, DEPTH * processes);
	listener->size = sizeof(listener->address);
	MUST(!fi_getname(&self.node.listener->fid, listener->address, &listener->size));
}

static void ep_create(unsigned peer, struct fi_info *info)
{
	self.eps[peer] = fabric_endpoint(&self.node, info, self.request, self.recv, DEPTH);
}

static void ask(unsigned peer)
{
	ep_create(peer, self.node.info);
	MUST(!fi_connect(self.eps[peer], connects_listeners[peer].address, &self.rank,
			 sizeof(self.rank)));
}

static void answer(const struct event *request)
{
	MUST(request->rank < self.rank);
	if (self.eps[request->rank]) /* the peer has given up its last attempt */
		MUST(!fi_close(&self.eps[request->rank]->fid));
	ep_create(request->rank, request->entry.info);
	MUST(!fi_accept(self.eps[request->rank], &self.rank, sizeof(self.rank)));
	fi_freeinfo(request->entry.info);
}

static unsigned peer_of(fid_t ep)
{
	unsigned peer = 0;

	while (!self.eps[peer] || &self.eps[peer]->fid != ep)
		MUST(++peer < self.processes);
	return peer;
}

/* Asks again, or waits to be asked again. */
static void repeat(void)
{
	struct fi_eq_err_entry failure = { 0 };
	unsigned peer;

	MUST(fi_eq_readerr(self.node.eq, &failure, 0) > 0);
	peer = peer_of(failure.fid);
	MUST(!fi_close(&self.eps[peer]->fid));
	self.eps[peer] = NULL;
	if (peer > self.rank)
		ask(peer);
}

static void check_established(const struct event *event)
{
	unsigned peer = peer_of(event->entry.fid);

	if (peer > self.rank)
		MUST(event->rank == peer);
}

static unsigned process_connect(void)
{
	unsigned up = 0, repeated = 0;
	struct event event;
	uint32_t type;
	ssize_t got;

	for (unsigned peer = self.rank + 1; peer < self.processes; peer++)
		ask(peer);
	while (up < self.processes - 1) {
		got = fi_eq_sread(self.node.eq, &type, &event, sizeof(event), -1, 0);
		if (got == -FI_EAVAIL) {
			repeat();
			repeated++;
		} else if (got != -FI_EAGAIN && got != -FI_EINTR) {
			MUST(got >= (ssize_t)sizeof(event.entry));
			if (type == FI_CONNREQ) {
				answer(&event);
			} else {
				MUST(type == FI_CONNECTED);
				check_established(&event);
				up++;
			}
		}
	}
	return repeated;
}

const struct connects_side connects_raw = { .open = process_open, .connect = process_connect };
