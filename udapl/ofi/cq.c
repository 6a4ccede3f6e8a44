/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. A consumer takes completions itself, and so does the service thread while no
 * consumer polls (progress.c). Whoever reads libfabric's queue appends what is complete to a list,
 * in the order of the posts; tp_cq_poll reports that list.
 *
 * libfabric's descriptor is readable when bytes have arrived, and everybody who reads the queue
 * makes it unreadable again. So tp_cq_fd is an epoll set of ours: it reports always_ready, once,
 * when somebody else has taken a completion, and libfabric's descriptor while the queue is armed
 * for others than a sleeping consumer. That one sleeps on libfabric's descriptor itself, which
 * costs no system call. Each set that a descriptor is in makes each byte dearer, be it
 * silent: so it is in none of ours that can do without it.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ofi.h"

/* ---- completions ---- */

/* Returns the status of a transfer that a device has failed, by the number of verbs for that. */
static DAT_DTO_COMPLETION_STATUS status_of_device(int prov_errno)
{
	/* enum ibv_wc_status */
	static const DAT_DTO_COMPLETION_STATUS statuses[] = {
		[1] = DAT_DTO_ERR_LOCAL_LENGTH,	     [2] = DAT_DTO_ERR_LOCAL_EP,
		[4] = DAT_DTO_ERR_LOCAL_PROTECTION,  [5] = DAT_DTO_ERR_FLUSHED,
		[7] = DAT_DTO_ERR_BAD_RESPONSE,	     [8] = DAT_DTO_ERR_LOCAL_PROTECTION,
		[9] = DAT_DTO_ERR_REMOTE_RESPONDER,  [10] = DAT_DTO_ERR_REMOTE_ACCESS,
		[11] = DAT_DTO_ERR_REMOTE_RESPONDER, [13] = DAT_DTO_ERR_RECEIVER_NOT_READY,
	};

	if (prov_errno > 0 && prov_errno < (int)ARRAY_SIZE(statuses) && statuses[prov_errno])
		return statuses[prov_errno];
	return DAT_DTO_ERR_TRANSPORT;
}

static DAT_DTO_COMPLETION_STATUS status_of_entry(const struct fi_cq_err_entry *entry)
{
	switch (entry->err) {
	case FI_ECANCELED:
	case FI_ENOTCONN:
	case FI_ECONNRESET:
	case FI_ECONNABORTED:
	case FI_ESHUTDOWN:
	case EPIPE:
		return DAT_DTO_ERR_FLUSHED;
	case FI_ETRUNC:
	case FI_EMSGSIZE:
		return DAT_DTO_ERR_LOCAL_LENGTH;
	case FI_EACCES:
	case FI_EPERM:
		return DAT_DTO_ERR_REMOTE_ACCESS;
	case FI_EIO:
		return status_of_device(entry->prov_errno);
	default:
		return DAT_DTO_ERR_TRANSPORT;
	}
}

COLD struct transfer *cq_read_failure(struct fid_cq *fi, DAT_DTO_COMPLETION_STATUS *status)
{
	CANCEL_FORBIDDEN;
	struct fi_cq_err_entry entry = { 0 };

	if (fi_cq_readerr(fi, &entry, 0) <= 0)
		return NULL;
	*status = status_of_entry(&entry);
	if (*status != DAT_DTO_ERR_FLUSHED)
		log_to(LOG_DTO, "completion: %s, provider error %d", libfabric.strerror(entry.err),
		       entry.prov_errno);
	return entry.op_context;
}

COLD bool cq_take_failure_locked(struct fid_cq *fi)
{
	DAT_DTO_COMPLETION_STATUS status;
	struct transfer *failed = cq_read_failure(fi, &status);

	if (failed)
		qp_complete_locked(failed, status, 0, false);
	return failed;
}

#if DAT_EDITION == 2
/*
 * They are those of a write, because only this transport can have sent them, and its messages bring
 * none but those that follow a write. What libfabric says is no help: its verbs reports each
 * receive of a shared receive queue as that of a message.
 */
DAT_DTO_COMPLETION_STATUS immed_read(const struct tp_dev *dev, const CQ_ENTRY *entry,
				     uint32_t *length, uint32_t *immed)
{
	*immed = (uint32_t)entry->data;
	*length = dev->immed_follows ? (uint32_t)(entry->data >> 32) : (uint32_t)entry->len;
	return (DAT_DTO_COMPLETION_STATUS)TP_WC_WRITE_IMMED;
}
#endif

/* All but messages without immediate data, and writes. */
static ALWAYS_INLINE bool entry_is_rare(const CQ_ENTRY *entry)
{
	return unlikely(entry->flags & (FI_READ | FI_REMOTE_CQ_DATA));
}

static NOINLINE void entry_take_in_rare_locked(const CQ_ENTRY *entry)
{
	struct transfer *transfer = entry->op_context;
	DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS;
	uint32_t length = (uint32_t)entry->len;

	if (!transfer)
		return; /* see entry_take_expected_rare */
	if (entry_has_immed(entry))
		status = immed_read(transfer->queue->cq->dev, entry, &length, &transfer->immed);
	qp_complete_locked(transfer, status, length, entry->flags & FI_READ);
}

/* Takes in what libfabric has completed, whether it is what was expected next or not. */
static ALWAYS_INLINE void entry_take_in_locked(const CQ_ENTRY *entry)
{
	if (entry_is_rare(entry))
		entry_take_in_rare_locked(entry);
	else
		qp_complete_locked(entry->op_context, DAT_DTO_SUCCESS, (uint32_t)entry->len, false);
}

void cq_take_entry_locked(const CQ_ENTRY *entry)
{
	entry_take_in_locked(entry);
}

static COLD void cq_unstall_locked(struct tp_cq *cq)
{
	cq->backlog &= ~(unsigned)CQ_STALLED;
	for (struct transfer_queue *queue = cq->queues; queue; queue = queue->next)
		queue_advance_locked(queue);
}

/* Takes in the entries that were read and not looked at. Returns how many there were. */
static unsigned cq_take_in_locked(struct tp_cq *cq)
{
	unsigned taken = (unsigned)(cq->read_end - cq->untaken);

	assert_locked(&cq->lock);
	while (cq->untaken != cq->read_end)
		entry_take_in_locked(cq->untaken++);
	cq->backlog &= ~(unsigned)CQ_UNTAKEN;
	return taken;
}

/*
 * Reads libfabric's queue, when nothing is untaken. Returns how many entries there are now.
 * libfabric moves data meanwhile: its system calls are cancellation points, and it has locks of its
 * own then.
 */
static ALWAYS_INLINE ssize_t cq_read_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	return UNCANCELLED(fi_cq_read(cq->fi, cq->entries, CQ_HARVEST));
}

/*
 * Does what cq_read_locked does, where endpoints with a shared receive queue may complete, too. The
 * caller has forbidden cancellation.
 */
static ssize_t cq_read_guarded_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	return fi_cq_read_guarded(cq->dev, cq->fi, cq->entries, CQ_HARVEST);
}

static ALWAYS_INLINE void cq_keep_locked(struct tp_cq *cq, unsigned got)
{
	assert_locked(&cq->lock);
	cq->untaken = cq->entries;
	cq->read_end = cq->entries + got;
	cq->backlog |= CQ_UNTAKEN;
}

/* Takes in what has completed in other queues of libfabric. Returns how many there were. */
static NOINLINE unsigned cq_harvest_elsewhere_locked(struct tp_cq *cq)
{
	unsigned taken = 0;

	assert_locked(&cq->lock);
	if (cq->backlog & CQ_DOMAINS)
		taken += domains_harvest_locked(cq);
	if (cq->backlog & CQ_MEMBERS)
		taken += members_harvest_locked(cq);
	return taken;
}

unsigned cq_harvest_locked(struct tp_cq *cq)
{
	unsigned taken = cq_take_in_locked(cq);
	ssize_t got = cq_read_guarded_locked(cq);

	cq->known = got == -FI_EAGAIN ? CQ_EMPTIED : 0;
	if (got == -FI_EAVAIL)
		taken += cq_take_failure_locked(cq->fi);
	if (got > 0) {
		cq_keep_locked(cq, (unsigned)got);
		taken += cq_take_in_locked(cq);
	}
	if (cq->backlog & CQ_STALLED)
		cq_unstall_locked(cq);
	if (cq->backlog & CQ_ELSEWHERE)
		taken += cq_harvest_elsewhere_locked(cq);
	return taken;
}

/*
 * Is libfabric's queue known to be empty? Its tcp looks at each endpoint of a queue that it reads,
 * so calls that end connections ask this first.
 */
static bool cq_is_empty_locked(const struct tp_cq *cq)
{
	struct pollfd fds[] = {
		{ .fd = cq->fi_fd, .events = POLLIN },
		{ .fd = atomic_load(&cq->muted) ? cq->fi_signal.fd : -1, .events = POLLIN },
	};

	assert_locked(&cq->lock);
	return cq->known & CQ_EMPTIED && cq->dev->soft_queues && poll(fds, ARRAY_SIZE(fds), 0) == 0;
}

bool cq_has_nothing_locked(const struct tp_cq *cq)
{
	const unsigned more = CQ_UNTAKEN | CQ_STALLED | CQ_MEMBERS;

	return !(cq->backlog & more) && cq_is_empty_locked(cq) && domains_are_empty_locked(cq);
}

void cq_collect_locked(struct tp_cq *cq)
{
	(void)cq_unmute_locked(cq); /* or what came once would be read again and again */
	while (!cq_has_nothing_locked(cq) && cq_harvest_locked(cq))
		;
}

void cq_push_locked(struct tp_cq *cq, struct transfer *transfer)
{
	assert_locked(&cq->lock);
	transfer->next = NULL;
	*cq->ready_end = transfer;
	cq->ready_end = &transfer->next;
	cq->backlog |= CQ_READY;
}

_Static_assert(offsetof(struct done, tag) == offsetof(struct tp_wc, tag) &&
		       offsetof(struct done, status) == offsetof(struct tp_wc, status) &&
		       offsetof(struct done, ep) == offsetof(struct tp_wc, transport_0) &&
		       offsetof(struct done, length) == offsetof(struct tp_wc, length),
	       "a completion is copied as a whole");

static ALWAYS_INLINE void wc_set_immed(struct tp_wc *wc, uint32_t immed)
{
	memcpy(wc->transport, &immed, sizeof(immed));
}

/* Describes a transfer of that list. */
static ALWAYS_INLINE void wc_describe(struct tp_wc *wc, const struct transfer *transfer)
{
	memcpy(wc, &transfer->done, sizeof(transfer->done));
	if (DAT_EDITION == 2 && unlikely((unsigned)wc->status >= TP_WC_SPECIAL))
		wc_set_immed(wc, transfer->immed);
}

/* Reports from the list, which is older than what is untaken. */
static unsigned cq_report_ready_locked(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	struct transfer *transfer;
	unsigned n = 0;

	assert_locked(&cq->lock);
	while (n < max && (transfer = cq->ready)) {
		cq->ready = transfer->next;
		wc_describe(&wc[n++], transfer);
		if (unlikely(transfer->kind == TRANSFER_SHARED))
			srq_recv_reported(transfer);
	}
	if (!cq->ready) {
		cq->ready_end = &cq->ready;
		cq->backlog &= ~(unsigned)CQ_READY;
	}
	return n;
}

/* Describes the completion in @wc, if it is that of the transfer that is expected next. */
static ALWAYS_INLINE bool transfer_take_expected(struct transfer *transfer, const CQ_ENTRY *entry,
						 struct tp_wc *wc)
{
	struct transfer_queue *queue = transfer->queue;

	if (unlikely(queue->expected != transfer))
		return false;
	queue->expected = transfer->following;
	wc->tag = transfer->done.tag;
	wc->status = DAT_DTO_SUCCESS;
	wc->length = (uint32_t)entry->len;
	return true;
}

/*
 * If the completion is that of the transfer that is expected next, which is in order, describes it
 * in @wc and returns true. If it is that of another one, or a rare one, nothing happens.
 */
static ALWAYS_INLINE bool entry_take_expected(const CQ_ENTRY *entry, struct tp_wc *wc)
{
	return !entry_is_rare(entry) && transfer_take_expected(entry->op_context, entry, wc);
}

/*
 * So it is with rare ones. It may be the completion of no transfer: a write of the peer with
 * immediate data takes no receive of libfabric's tcp. No provider sends one.
 */
static bool entry_take_expected_rare(const CQ_ENTRY *entry, struct tp_wc *wc)
{
	struct transfer *transfer = entry->op_context;
	uint32_t immed;

	if (!entry_is_rare(entry) || !transfer || !transfer_take_expected(transfer, entry, wc))
		return false;
	if (entry->flags & FI_READ)
		qp_read_done_locked(transfer->queue->qp);
	if (entry_has_immed(entry)) {
		wc->status = immed_read(transfer->queue->cq->dev, entry, &wc->length, &immed);
		wc_set_immed(wc, immed);
	}
	return true;
}

static unsigned cq_report_untaken_locked(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	unsigned n = 0;

	assert_locked(&cq->lock);
	while (n < max && cq->untaken != cq->read_end) {
		const CQ_ENTRY *entry = cq->untaken++;

		if (likely(entry_take_expected(entry, &wc[n])) ||
		    entry_take_expected_rare(entry, &wc[n])) {
			n++;
			continue;
		}
		entry_take_in_locked(entry);
		n += cq_report_ready_locked(cq, wc + n, max - n);
	}
	if (cq->untaken == cq->read_end)
		cq->backlog &= ~(unsigned)CQ_UNTAKEN;
	return n;
}

/* Reports what is there already, and tries again what libfabric has refused. */
static unsigned cq_report_backlog_locked(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	unsigned n = 0;

	assert_locked(&cq->lock);
	if (cq->backlog & CQ_STALLED)
		cq_unstall_locked(cq);
	if (cq->backlog & CQ_READY)
		n = cq_report_ready_locked(cq, wc, max);
	if (cq->backlog & CQ_UNTAKEN)
		n += cq_report_untaken_locked(cq, wc + n, max - n);
	return n;
}

/*
 * One read, of all queues of libfabric that belong to this one. To look which of them have
 * something is a cancellation point like a read. Returns what was read of that of the device, or
 * -FI_EAVAIL.
 */
static ssize_t cq_round_locked(struct tp_cq *cq)
{
	CANCEL_FORBIDDEN;
	ssize_t got = cq_read_guarded_locked(cq);

	assert_locked(&cq->lock);
	if (got > 0)
		cq_keep_locked(cq, (unsigned)got);
	else if (got == -FI_EAVAIL && !cq_take_failure_locked(cq->fi))
		got = 0;
	if (cq->backlog & CQ_ELSEWHERE)
		(void)cq_harvest_elsewhere_locked(cq);
	return got;
}

/*
 * All but the cases that tp_cq_poll has inline. libfabric's empty read is a system call, so it is
 * not read again after less than a batch; but a failure ends a batch.
 */
static NOINLINE unsigned cq_poll_more_locked(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	unsigned n = cq_report_backlog_locked(cq, wc, max);
	ssize_t got = CQ_HARVEST;

	assert_locked(&cq->lock);
	cq->known = 0;
	while (n < max && (got == CQ_HARVEST || got == -FI_EAVAIL)) {
		got = cq_round_locked(cq);
		n += cq_report_backlog_locked(cq, wc + n, max - n);
	}
	return n;
}

static unsigned cq_poll_more_unlock(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	unsigned n = cq_poll_more_locked(cq, wc, max);

	spin_unlock(&cq->lock);
	return n;
}

/* Reports what a read of libfabric's queue has returned as @got. */
static NOINLINE unsigned cq_poll_read_unlock(struct tp_cq *cq, ssize_t got, struct tp_wc *wc,
					     unsigned max)
{
	unsigned n;

	assert_locked(&cq->lock);
	cq->known = 0;
	if (got == -FI_EAVAIL && cq_take_failure_locked(cq->fi))
		return cq_poll_more_unlock(cq, wc, max);
	if (got > 0)
		cq_keep_locked(cq, (unsigned)got);
	if (likely(got > 1 && max == 1) && likely(entry_take_expected(cq->untaken, wc))) {
		cq->untaken++;
		atomic_store_explicit(&cq->batch, true, memory_order_relaxed);
		spin_unlock(&cq->lock);
		return 1;
	}
	n = cq_report_backlog_locked(cq, wc, max);
	spin_unlock(&cq->lock);
	return n;
}

HOT bool tp_cq_next(struct tp_cq *cq, struct tp_wc *wc)
{
	if (likely(!hot_load(bool, &cq->batch)) || unlikely(!spin_trylock(&cq->lock)))
		return false;
	LEAVE_IN_PLACE(cq);
	if (unlikely(cq->backlog != CQ_UNTAKEN) ||
	    unlikely(!entry_take_expected(cq->untaken, wc))) {
		atomic_store_explicit(&cq->batch, false, memory_order_relaxed);
		spin_unlock(&cq->lock);
		return false;
	}
	if (++cq->untaken == cq->read_end) {
		cq->backlog = 0; /* as it was nothing else */
		atomic_store_explicit(&cq->batch, false, memory_order_relaxed);
	}
	spin_unlock(&cq->lock);
	return true;
}

/*
 * A poll for many follows when dat_evd_wait has found nothing, and when the queue was armed. Then
 * libfabric's queue is not read again: that would be one more system call each time.
 */
static NOINLINE unsigned cq_poll_many(struct tp_cq *cq, struct tp_wc *wc)
{
	const bool consumer = !up_is_service_thread(cq->dev->ia);
	const unsigned more = CQ_STALLED | CQ_ELSEWHERE;
	uint8_t known;
	unsigned n;

	if (consumer)
		atomic_store_explicit(&cq->polled, true, memory_order_relaxed);
	spin_lock(&cq->lock);
	known = cq->known;
	cq->known &= CQ_EMPTIED;
	if (known & CQ_FRESH && !cq->backlog) {
		spin_unlock(&cq->lock);
		return 0;
	}
	if (cq->backlog & more || !cq_is_empty_locked(cq)) {
		n = cq_poll_more_locked(cq, wc, TP_POLL_MAX);
		if (n)
			cq->fruitless = 0;
		spin_unlock(&cq->lock);
		return n;
	}
	n = cq_report_backlog_locked(cq, wc, TP_POLL_MAX);
	spin_unlock(&cq->lock);
	return n;
}

/*
 * Reports what is there already. Mostly that is one transfer which moved no bytes, and was posted
 * to a queue that had nothing outstanding.
 */
static NOINLINE HOT unsigned cq_poll_backlog_unlock(struct tp_cq *cq, struct tp_wc *wc,
						    unsigned max)
{
	struct transfer *transfer = cq->ready;

	assert_locked(&cq->lock);
	if (unlikely(max != 1 || cq->backlog != CQ_READY || transfer->kind == TRANSFER_SHARED))
		return cq_poll_more_unlock(cq, wc, max);
	wc_describe(wc, transfer);
	cq->ready = transfer->next;
	if (!cq->ready) {
		cq->ready_end = &cq->ready;
		cq->backlog = 0; /* as it was nothing else */
	}
	spin_unlock(&cq->lock);
	return 1;
}

static COLD unsigned cq_poll_contended(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	spin_lock(&cq->lock);
	return cq_poll_more_unlock(cq, wc, max);
}

HOT unsigned tp_cq_poll(struct tp_cq *cq, struct tp_wc *wc, unsigned max)
{
	ssize_t got;

	if (max >= TP_POLL_MAX)
		return cq_poll_many(cq, wc);
	atomic_store_explicit(&cq->polled, true, memory_order_relaxed);
	if (unlikely(!spin_trylock(&cq->lock)))
		return cq_poll_contended(cq, wc, max);
	LEAVE_IN_PLACE(cq);
	if (unlikely(cq->backlog))
		return cq_poll_backlog_unlock(cq, wc, max);
	got = cq_read_locked(cq);
	if (likely(got == 1) && likely(entry_take_expected(&cq->entries[0], wc))) {
		cq->known = 0;
		spin_unlock(&cq->lock);
		return 1;
	}
	if (unlikely(got != -FI_EAGAIN))
		return cq_poll_read_unlock(cq, got, wc, max);
	if (max > 1)
		cq->known = CQ_FRESH | CQ_EMPTIED;
	spin_unlock(&cq->lock);
	return 0;
}

/* ---- arming ---- */

#define FRUITLESS_SLEEPS 32 /* in a row, before the service thread takes in what arrives */

int epoll_once(int epoll, int op, int fd, void *what, bool on)
{
	struct epoll_event event = { .events = EPOLLONESHOT, .data.ptr = what };

	if (on)
		event.events |= EPOLLIN;
	return epoll_ctl(epoll, op, fd, &event) ? -errno : 0;
}

int epoll_watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void cq_signal_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (!cq->armed)
		return;
	cq->signalled |= !epoll_once(cq->epoll, EPOLL_CTL_MOD, cq->always_ready->fd, NULL, true);
	cq->armed = !cq->signalled; /* readable until its events are taken */
}

/* Does what cq_settle_locked does, for the domain of the device only or, if @all, for all. */
static ALWAYS_INLINE bool settle_locked(struct tp_cq *cq, bool all)
{
	assert_locked(&cq->lock);
	for (unsigned i = 0; i < 2; i++) {
		unsigned found = 0;

		if (fi_cq_is_quiet(cq->dev, cq->fi) && (!all || domains_are_quiet_locked(cq)))
			return true;
		while (cq_harvest_locked(cq))
			found++;
		if (found)
			cq_signal_locked(cq);
	}
	return false;
}

bool cq_settle_locked(struct tp_cq *cq)
{
	return settle_locked(cq, true);
}

/*
 * Has libfabric's descriptor make that of the queue readable. Returns false if the kernel has no
 * memory for that, or if the sets are nested too deep.
 */
static bool cq_watch_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (!cq->in_set)
		cq->in_set = !epoll_watch(cq->epoll, cq->fi_fd);
	return cq->in_set;
}

static void cq_unwatch_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (cq->in_set) {
		(void)epoll_ctl(cq->epoll, EPOLL_CTL_DEL, cq->fi_fd, NULL);
		domains_unwatch_locked(cq);
	}
	cq->in_set = false;
}

void cq_entrust_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (atomic_load(&cq->sleeper) != SLEEPER_READS)
		return;
	cq_unwatch_locked(cq);
	atomic_store(&cq->sleeper, SLEEPER_AWAITS);
}

/*
 * Has the other queues of libfabric wake who sleeps on this one, too. Returns false if that can't
 * be had now.
 */
static NOINLINE bool cq_watch_elsewhere_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	if (cq->backlog & CQ_DOMAINS &&
	    !(cq_settle_locked(cq) && cq_watch_locked(cq) && domains_watch_locked(cq)))
		return false;
	if (cq->members)
		(void)epoll_once(cq->epoll, EPOLL_CTL_MOD, cq->members_epoll, NULL, true);
	return true;
}

/*
 * Arms the queue so that whatever arrives wakes who sleeps, and returns true. Returns false if only
 * completions do, which others take in, because there is something that nobody can take in, because
 * so much has arrived that was no completion, or because the descriptor does not tell of
 * completions. @sleeper: who sleeps does so on libfabric's descriptor, too.
 */
static bool cq_arm_direct(struct tp_cq *cq, bool sleeper)
{
	bool quiet, direct = false;

	spin_lock(&cq->lock);
	cq->armed = true;
	quiet = cq_unmute_locked(cq);
	atomic_store(&cq->direct, sleeper);
	atomic_store(&cq->sleeper, SLEEPER_READS); /* before libfabric is asked */
	if (cq->fruitless++ < FRUITLESS_SLEEPS) {
		quiet = quiet && settle_locked(cq, false);
		direct = quiet && (sleeper || cq_watch_locked(cq));
	}
	if (direct && cq->backlog & CQ_ELSEWHERE)
		quiet = direct = cq_watch_elsewhere_locked(cq);
	/* what comes from here on makes the descriptor readable: then it is known to be */
	cq->known = direct ? (uint8_t)CQ_FRESH : cq->known & CQ_EMPTIED;
	if (!direct)
		cq_unwatch_locked(cq);
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
	if (!direct)
		atomic_store(&cq->sleeper, SLEEPER_AWAITS);
	/* it, or all with it, may have been left to who slept here */
	if (!direct || (!sleeper && cq->dev->shares_progress))
		progress_resume(cq);
	if (!quiet)
		progress_poke(cq);
	return direct;
}

/*
 * Arms the queue so that a completion which the service thread takes in wakes who sleeps; or
 * disarms it. It is armed so for failures and solicited receives, with which no consumer is in a
 * hurry. libfabric has no solicited events, so every completion counts as one.
 */
static void cq_arm_indirect(struct tp_cq *cq, enum tp_arm what)
{
	spin_lock(&cq->lock);
	atomic_store(&cq->sleeper, what == TP_ARM_SOLICITED ? SLEEPER_AWAITS : SLEEPER_NONE);
	if (what == TP_ARM_SOLICITED) /* the service thread learns of completions at once */
		(void)cq_unmute_locked(cq);
	cq->armed = what != TP_ARM_NOTHING;
	cq->known &= CQ_EMPTIED;
	cq->fruitless = 0;
	cq_unwatch_locked(cq);
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
	progress_resume(cq);
}

int tp_cq_arm(struct tp_cq *cq, enum tp_arm what)
{
	if (what == TP_ARM_ANY)
		(void)cq_arm_direct(cq, false);
	else
		cq_arm_indirect(cq, what);
	return 0;
}

/* Who sleeps after tp_cq_arm does not sleep on libfabric's descriptor itself; this one does. */
int tp_cq_sleep(struct tp_cq *cq)
{
	return cq_arm_direct(cq, true) ? cq->fi_fd : -1;
}

int tp_cq_fd(const struct tp_cq *cq)
{
	return cq->epoll;
}

/*
 * libfabric's descriptor is readable until the queue is read, so there is nothing to take if it is
 * that one. The thread that slept is awake now: it is for tp_cq_arm, which follows, to say so. If
 * there was no event, somebody may have armed the queue since the kernel has named it, and sleeps.
 */
bool tp_cq_events(struct tp_cq *cq)
{
	struct epoll_event events[3];
	bool arrived, taken;

	spin_lock(&cq->lock);
	taken = arrived = cq->armed && cq->in_set;
	if (!arrived || cq->signalled || cq->members)
		taken |= epoll_wait(cq->epoll, events, ARRAY_SIZE(events), 0) > 0;
	if (taken)
		cq->armed = cq->signalled = false;
	if (arrived)
		cq->known = 0;
	spin_unlock(&cq->lock);
	return taken;
}

/* ---- creating and destroying ---- */

int fi_cq_create(struct tp_dev *dev, struct fid_domain *domain, unsigned depth, struct fid_cq **fi,
		 int *fd)
{
	struct fi_cq_attr attr = {
		.size = depth,
		.format = CQ_ENTRY_FORMAT,
		.wait_obj = FI_WAIT_FD,
	};
	int ret = fi_cq_open(domain, &attr, fi, NULL);

	if (ret)
		return ofi_errno(ret);
	ret = fi_control(&(*fi)->fid, FI_GETWAIT, fd);
	if (ret)
		fi_cq_destroy(dev, *fi);
	return ofi_errno(ret);
}

void fi_cq_destroy(struct tp_dev *dev, struct fid_cq *fi)
{
	int ret = fi_close(&fi->fid);

	if (ret)
		log_error("%s: fi_close of a completion queue: %s", dev->attr.device,
			  libfabric.strerror(-ret));
}

bool fi_cq_is_quiet(struct tp_dev *dev, struct fid_cq *fi)
{
	struct fid *fid = &fi->fid;
	bool guarded = srx_guard(dev);
	int ret = fi_trywait(dev->fabric, &fid, 1);

	srx_unguard(dev, guarded);
	return ret == FI_SUCCESS;
}

static struct ready_fd *ready_fd_new_locked(struct tp_dev *dev)
{
	struct ready_fd *ready = calloc(1, sizeof(*ready));

	assert_locked(&dev->cqs_lock);
	if (!ready)
		return NULL;
	ready->fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ready->fd < 0) {
		free(ready);
		return NULL;
	}
	ready->next = dev->ready_fds;
	dev->ready_fds = ready;
	return ready;
}

static int ready_fd_take(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	struct ready_fd *ready;
	int err;

	mutex_lock(&dev->cqs_lock);
	ready = dev->ready_fds;
	while (ready && ready->shares == READY_SHARES)
		ready = ready->next;
	if (!ready)
		ready = ready_fd_new_locked(dev);
	err = ready ? 0 : -errno;
	if (ready)
		ready->shares++;
	mutex_unlock(&dev->cqs_lock);
	cq->always_ready = ready;
	return err;
}

static void ready_fd_give(struct tp_cq *cq)
{
	struct ready_fd *ready = cq->always_ready, **link;
	struct tp_dev *dev = cq->dev;

	mutex_lock(&dev->cqs_lock);
	if (--ready->shares == 0) {
		for (link = &dev->ready_fds; *link != ready;)
			link = &(*link)->next;
		*link = ready->next;
		close(ready->fd);
		free(ready);
	}
	mutex_unlock(&dev->cqs_lock);
}

static int cq_open(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	int ret = fi_cq_create(dev, dev->domain, cq->depth, &cq->fi, &cq->fi_fd);

	if (ret)
		return ret;
	cq->fi_signal.fd = -1;
	if (dev->soft_queues && !dev->shares_progress)
		fi_signal_find(&cq->fi_signal, cq->fi_fd);
	cq->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (cq->epoll < 0) {
		ret = -errno;
		goto close_fi;
	}
	ret = ready_fd_take(cq);
	if (ret)
		goto close_epoll;
	ret = epoll_once(cq->epoll, EPOLL_CTL_ADD, cq->always_ready->fd, NULL, false);
	if (!ret)
		ret = progress_add(cq);
	if (!ret)
		return 0;
	ready_fd_give(cq);
close_epoll:
	close(cq->epoll);
close_fi:
	fi_cq_destroy(dev, cq->fi);
	return ret;
}

int tp_cq_create(struct tp_dev *dev, unsigned depth, struct evd *evd, struct tp_cq **out)
{
	struct tp_cq *cq = calloc(1, sizeof(*cq));
	int err;

	if (!cq)
		return -ENOMEM;
	cq->dev = dev;
	(void)evd; /* libfabric reports no overrun of a queue */
	cq->depth = depth;
	cq->ready_end = &cq->ready;
	cq->members_epoll = -1;
	cq->asleep = true; /* until there is something */
	spin_init(&cq->lock, RANK_CQ);
	err = cq_open(cq);
	if (err)
		free(cq);
	else
		*out = cq;
	return err;
}

void tp_cq_destroy(struct tp_cq *cq)
{
	progress_remove(cq);
	close(cq->epoll);
	ready_fd_give(cq);
	if (cq->members_epoll >= 0)
		close(cq->members_epoll);
	fi_cq_destroy(cq->dev, cq->fi);
	free(cq);
}

unsigned tp_cq_depth(const struct tp_cq *cq)
{
	return cq->depth;
}

/* Called only where libfabric's queue has no limit. */
int tp_cq_resize(struct tp_cq *cq, unsigned depth)
{
	cq->depth = depth;
	return 0;
}
