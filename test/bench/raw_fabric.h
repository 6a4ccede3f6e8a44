/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfabric without DAT, for the programs that measure what DAT adds: the same provider, attributes
 * and wait objects as those of udapl/ofi, and two connected endpoints.
 */
#ifndef BENCH_RAW_FABRIC_H
#define BENCH_RAW_FABRIC_H

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>

#include "bench.h"

/* libfabric 2 warns of its own */
#undef FI_MR_BASIC
#define FI_MR_BASIC (1 << 0)

/* A region may be used for all of these. */
#define FABRIC_ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
/* A write completes when it is placed. */
#define FABRIC_WRITE (FI_COMPLETION | FI_DELIVERY_COMPLETE)

struct fabric_node {
	struct fabric_node *next; /* all that are open */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_pep *listener; /* on a port that the system chose; of a server */
};

/* Opens a node on an IPv4 address of this host, with @provider, such as "tcp"; a server listens. */
void fabric_open(struct fabric_node *node, const char *provider, const char *address, bool server);

struct fid_cq *fabric_cq(struct fabric_node *node, size_t size);
/* Registers memory. @key is of the program's choice, unless the provider makes the keys. */
struct fid_mr *fabric_register(struct fabric_node *node, void *memory, size_t size, uint64_t key);

/*
 * Makes an endpoint with its queues, which is not connected. @info is that of the node, or of a
 * request.
 */
struct fid_ep *fabric_endpoint(struct fabric_node *node, struct fi_info *info, struct fid_cq *tx,
			       struct fid_cq *rx, size_t depth);
void fabric_connect(struct fid_ep *ep, struct fabric_node *server);
/* Waits for an event, and returns the information that came with it, if it is a request. */
struct fi_info *fabric_expect(struct fabric_node *node, uint32_t event);

/* An RDMA write of @size bytes at @from to @to, the peer's address. @desc: of the local region */
static inline void fabric_write(struct fid_ep *ep, void *from, size_t size, void *desc, uint64_t to,
				uint64_t key)
{
	struct iovec iov = { from, size };
	struct fi_rma_iov remote = { .addr = to, .len = size, .key = key };
	const struct fi_msg_rma message = { .msg_iov = &iov,
					    .desc = &desc,
					    .iov_count = 1,
					    .rma_iov = &remote,
					    .rma_iov_count = 1 };

	MUST(!fi_writemsg(ep, &message, FABRIC_WRITE));
}

/* Takes a completion, if there is one, which must be a success. Returns whether there was one. */
static inline bool fabric_take(struct fid_cq *cq)
{
	struct fi_cq_msg_entry entry;
	ssize_t got = fi_cq_read(cq, &entry, 1);

	MUST(got == 1 || got == -FI_EAGAIN);
	return got == 1;
}

/* Takes a completion, as soon as there is one; @fd is that of the queue. */
static inline void fabric_poll(struct fabric_node *node, struct fid_cq *cq, int fd)
{
	(void)node;
	(void)fd;
	while (!fabric_take(cq))
		;
}

/* The same, and sleeps until then. */
static inline void fabric_wait(struct fabric_node *node, struct fid_cq *cq, int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	struct fid *fid = &cq->fid;

	while (!fabric_take(cq))
		if (fi_trywait(node->fabric, &fid, 1) == FI_SUCCESS)
			MUST(poll(&poll_fd, 1, -1) == 1);
}

#endif
