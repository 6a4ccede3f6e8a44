/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual addresses and keys of our own, where a provider wants neither.
 *
 * Such a provider counts addresses from the beginning of a region. Asked for FI_MR_BASIC it takes
 * virtual addresses, but its keys are then 1, 2, 3 and so on, which any peer can guess. If the bit
 * FI_MR_VIRT_ADDR is set in the info that a domain is opened with, libfabric's tcp takes virtual
 * addresses and our keys. No manual promises that, so it is tried: by a write within the process,
 * to a region whose addresses would be out of bounds otherwise.
 *
 * Then regions that are to begin at 0 need the opposite: an offset, which libfabric's tcp adds to
 * the addresses of a peer. For the manual that is reserved, so it is tried by another write.
 */
#include <sched.h>

#include "ofi.h"

/*
 * The trial with a provider that never answers ends after so many ns, but not before so many
 * rounds. On an idle machine it takes 200 us and some hundred rounds. On a busy one the time is
 * over before the thread was given a processor; ended then, the keys would be the provider's.
 */
#define TRIAL_TIME   UINT64_C(200000000)
#define TRIAL_ROUNDS 2000

enum {
	CELL_SOURCE,
	CELL_TARGET = 2, /* those beside it must stay 0, as well as those beside the next one */
	CELL_ZERO_BASED = 4,
	CELLS = 6,
};

struct trial {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_pep *pep;
	struct fid_mr *mr;	   /* of cells */
	struct fid_mr *zero_based; /* of cells, too, but they begin at 0 */
	struct fid_ep *from, *to;
	struct fid *opened[9]; /* what is open of these, in the order in which it was opened */
	unsigned n_opened;
	uint32_t secret; /* the data of our request, lest another one is taken for it */
	uint32_t cells[CELLS];
};

/* ---- the objects ---- */

/* Returns the result of a call that opens @object, and notes the object, to be closed. */
#define OPENED(trial, call, object)                                                                \
	({                                                                                         \
		int opened_ret = (call);                                                           \
                                                                                                   \
		if (!opened_ret)                                                                   \
			(trial)->opened[(trial)->n_opened++] = &(object)->fid;                     \
		opened_ret;                                                                        \
	})

static int trial_ep(struct trial *trial, struct fi_info *info, struct fid_ep **ep)
{
	int ret = OPENED(trial, fi_endpoint(trial->domain, info, ep, NULL), *ep);

	if (!ret)
		ret = fi_ep_bind(*ep, &trial->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(*ep, &trial->cq->fid, FI_TRANSMIT | FI_RECV);
	return ret ? ret : fi_enable(*ep);
}

/* Registers the cells, as one region for both ends; a peer has to subtract @bias. */
static int trial_register(struct trial *trial, uint64_t bias, struct fid_mr **mr)
{
	const struct iovec iov = { trial->cells, sizeof(trial->cells) };
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = FI_WRITE | FI_REMOTE_WRITE,
		.offset = bias,
		.requested_key = mem_key_choose(trial->info),
	};

	return fi_mr_regattr(trial->domain, &attr, 0, mr);
}

static int trial_open(struct trial *trial)
{
	struct fi_info *info = trial->info;
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE };
	int ret = OPENED(trial, libfabric.fabric(info->fabric_attr, &trial->fabric, NULL),
			 trial->fabric);

	if (!ret)
		ret = OPENED(trial, fi_domain(trial->fabric, info, &trial->domain, NULL),
			     trial->domain);
	if (!ret)
		ret = OPENED(trial, fi_eq_open(trial->fabric, &eq_attr, &trial->eq, NULL),
			     trial->eq);
	if (!ret)
		ret = OPENED(trial, fi_cq_open(trial->domain, &cq_attr, &trial->cq, NULL),
			     trial->cq);
	if (!ret)
		ret = OPENED(trial, trial_register(trial, 0, &trial->mr), trial->mr);
	if (!ret)
		ret = OPENED(trial, fi_passive_ep(trial->fabric, info, &trial->pep, NULL),
			     trial->pep);
	if (!ret)
		ret = fi_pep_bind(trial->pep, &trial->eq->fid, 0);
	return ret ? ret : fi_listen(trial->pep);
}

/* ---- the connection, and the write ---- */

static int trial_connect(struct trial *trial)
{
	struct sockaddr_storage address;
	size_t size = sizeof(address);
	int ret = fi_getname(&trial->pep->fid, &address, &size);

	if (!ret)
		ret = trial_ep(trial, trial->info, &trial->from);
	if (ret)
		return ret;
	return fi_connect(trial->from, &address, &trial->secret, sizeof(trial->secret));
}

static void request_refuse(struct trial *trial, struct fi_info *request)
{
	(void)fi_reject(trial->pep, request->handle, &trial->secret, 1);
	libfabric.freeinfo(request);
}

/* Accepts our request. An endpoint takes it over; until then it can be refused. */
static int request_accept(struct trial *trial, struct fi_info *request)
{
	const unsigned before = trial->n_opened;
	int ret = trial_ep(trial, request, &trial->to);

	if (trial->n_opened == before) {
		request_refuse(trial, request);
		return ret;
	}
	libfabric.freeinfo(request);
	return ret ? ret : fi_accept(trial->to, &trial->secret, 1);
}

/* Writes the secret to @address of the region @mr. */
static int trial_write(struct trial *trial, struct fid_mr *mr, uint64_t address)
{
	void *desc = fi_mr_desc(trial->mr);
	const struct iovec iov = { &trial->cells[CELL_SOURCE], sizeof(trial->cells[0]) };
	const struct fi_rma_iov remote = {
		.addr = address,
		.len = sizeof(trial->cells[0]),
		.key = fi_mr_key(mr),
	};
	const struct fi_msg_rma message = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = trial,
	};
	const uint64_t placed = trial->info->tx_attr->op_flags & FI_DELIVERY_COMPLETE;

	return (int)fi_writemsg(trial->from, &message, FI_COMPLETION | placed);
}

/*
 * Handles one event. Returns 0; -FI_EAGAIN if there is none; or another negative number if the
 * trial has failed. @closing: whatever comes is refused.
 */
static int trial_event(struct trial *trial, bool closing)
{
	union {
		struct fi_eq_cm_entry entry;
		char bytes[sizeof(struct fi_eq_cm_entry) + sizeof(trial->secret)];
	} buffer;
	uint32_t type;
	ssize_t got = fi_eq_read(trial->eq, &type, &buffer, sizeof(buffer), 0);
	bool ours = got == sizeof(buffer.entry) + sizeof(trial->secret) &&
		    !memcmp(buffer.entry.data, &trial->secret, sizeof(trial->secret));

	if (got < 0)
		return (int)got;
	if (type == FI_CONNREQ && ours && !closing && !trial->to)
		return request_accept(trial, buffer.entry.info);
	if (type == FI_CONNREQ)
		request_refuse(trial, buffer.entry.info);
	if (type == FI_SHUTDOWN)
		return -FI_ESHUTDOWN;
	if (type != FI_CONNECTED || closing || buffer.entry.fid != &trial->from->fid)
		return 0;
	return trial_write(trial, trial->mr, (uintptr_t)&trial->cells[CELL_TARGET]);
}

/* Was the cell written to, and none of those that are beside one? */
static bool trial_has_written(const struct trial *trial, unsigned cell)
{
	return *(const volatile uint32_t *)&trial->cells[cell] == trial->secret &&
	       !trial->cells[CELL_TARGET - 1] && !trial->cells[CELL_TARGET + 1] &&
	       !trial->cells[CELL_ZERO_BASED + 1];
}

static void trial_close(struct trial *trial)
{
	while (trial->pep && trial_event(trial, true) == 0)
		;
	while (trial->n_opened)
		fi_close(trial->opened[--trial->n_opened]);
}

/* Waits until the cell was written to. Each read of a queue moves data. */
static int trial_await(struct trial *trial, unsigned cell)
{
	const uint64_t deadline = tp_now() + TRIAL_TIME;
	struct fi_cq_entry entry;
	unsigned rounds = 0;
	int ret = 0;

	while (!ret && !trial_has_written(trial, cell)) {
		ssize_t got = fi_cq_read(trial->cq, &entry, 1);

		ret = trial_event(trial, false);
		if (ret == -FI_EAGAIN)
			ret = 0;
		if (!ret && got < 0 && got != -FI_EAGAIN)
			ret = (int)got;
		if (!ret && ++rounds > TRIAL_ROUNDS && tp_now() > deadline)
			ret = -FI_ETIMEDOUT;
		if (!ret)
			sched_yield();
	}
	return ret;
}

/* Tries a region whose addresses begin at 0, where a write to virtual addresses has succeeded. */
static int trial_zero_based(struct trial *trial)
{
	int ret = OPENED(trial, trial_register(trial, (uintptr_t)trial->cells, &trial->zero_based),
			 trial->zero_based);

	if (!ret)
		ret = trial_write(trial, trial->zero_based,
				  CELL_ZERO_BASED * sizeof(trial->cells[0]));
	return ret ? ret : trial_await(trial, CELL_ZERO_BASED);
}

bool verify_virtual(struct fi_info *info, bool *zero_based)
{
	struct trial trial = { .info = info, .secret = mem_key_choose(info) };
	int ret;

	trial.cells[CELL_SOURCE] = trial.secret;
	ret = trial_open(&trial);

	if (!ret)
		ret = trial_connect(&trial);
	if (!ret)
		ret = trial_await(&trial, CELL_TARGET);
	if (!ret && DAT_EDITION == 2)
		*zero_based = !trial_zero_based(&trial);
	trial_close(&trial);
	if (ret)
		log_util("open: a write to a virtual address over libfabric's %s: %s",
			 info->fabric_attr->prov_name, libfabric.strerror(-ret));
	return !ret;
}
