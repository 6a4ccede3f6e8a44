/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues, over the shared receive contexts of libfabric.
 *
 * A completion of libfabric doesn't say which endpoint took the receive. So a queue pair with a
 * shared receive queue has a completion queue of libfabric to itself, where nothing but its
 * receives complete, failed ones included. Such a queue pair is a member of the completion queue
 * that the core knows. The descriptors of the members are in an epoll set: a poll asks that, and
 * reads only those that have something.
 *
 * A message that finds no receive holds up its connection, and libfabric looks again only when a
 * completion queue of the endpoint is read after a receive was posted. Of most such messages
 * libfabric tells that something waits; the member is starved then, is taken out of the set, and is
 * read after each post. Of a message without bytes it tells nothing. So the service thread reads
 * all members after posts: once in a while as long as the consumer polls, and at each post while it
 * sleeps itself.
 */
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ofi.h"

#define HARVEST 8 /* entries that are read at once, and members */

/* Slots of receives that were allocated together. */
struct recv_block {
	struct recv_block *next;
	struct transfer slots[];
};

/* The queue pairs of one shared receive queue that are members of one completion queue. */
struct srq_feed {
	struct tp_srq *srq;
	struct tp_cq *cq;
	unsigned members;	      /* cq->lock */
	struct srq_feed *next_of_cq;  /* cq->lock */
	struct srq_feed *next_of_srq; /* srq->lock */
};

/* ---- receives ---- */

static int recvs_add(struct tp_srq *srq, unsigned count)
{
	struct recv_block *block = calloc(1, sizeof(*block) + count * sizeof(block->slots[0]));
	struct transfer *last = NULL;

	if (!block)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		struct transfer *slot = &block->slots[i];

		slot->kind = TRANSFER_SHARED;
		slot->srq = srq;
		slot->next = last;
		last = slot;
	}
	spin_lock(&srq->lock);
	block->next = srq->blocks;
	srq->blocks = block;
	block->slots[0].next = srq->spares;
	srq->spares = last;
	spin_unlock(&srq->lock);
	return 0;
}

static void recvs_destroy(struct tp_srq *srq)
{
	struct recv_block *block;

	while ((block = srq->blocks)) {
		srq->blocks = block->next;
		free(block);
	}
}

static ALWAYS_INLINE struct transfer *recv_claim(struct tp_srq *srq)
{
	struct transfer *slot;

	spin_lock(&srq->lock);
	slot = srq->spares;
	if (likely(slot)) {
		srq->spares = slot->next;
		srq->left++;
	}
	spin_unlock(&srq->lock);
	return slot;
}

void srq_recv_reported(struct transfer *slot)
{
	struct tp_srq *srq = slot->srq;

	spin_lock(&srq->lock);
	slot->next = srq->spares;
	srq->spares = slot;
	spin_unlock(&srq->lock);
}

static COLD int recv_refused(struct transfer *slot, ssize_t ret)
{
	struct tp_srq *srq = slot->srq;

	spin_lock(&srq->lock);
	srq->left--;
	spin_unlock(&srq->lock);
	srq_recv_reported(slot);
	return ret == -FI_EAGAIN ? -ENOMEM : ofi_errno(ret);
}

/* Has the service thread read the members, of which some may wait for a receive. */
static COLD void srq_poke(struct tp_srq *srq)
{
	bool wake = false;

	spin_lock(&srq->lock);
	for (struct srq_feed *feed = srq->feeds; feed; feed = feed->next_of_srq)
		if (atomic_load(&feed->cq->asleep) && !atomic_exchange(&feed->cq->poked, true)) {
			progress_due(feed->cq);
			wake = true;
		}
	spin_unlock(&srq->lock);
	if (wake)
		up_wake(srq->dev->ia);
}

/*
 * If the buffer is not what a receive takes, the message that gets it fails, as with devices: so
 * libfabric is given a receive there that is too short for any.
 */
HOT int tp_srq_post(struct tp_srq *srq, void *tag, const struct tp_sge *sge, unsigned nsge)
{
	CANCEL_FORBIDDEN;
	struct transfer *slot = recv_claim(srq);
	struct iovec iov[TP_MAX_SGE];
	void *desc[TP_MAX_SGE];
	bool guarded;
	ssize_t ret;

	if (unlikely(!slot))
		return -ENOMEM;
	slot->done.tag = tag;
	slot->invalid = !mem_map(srq->dev, srq->pd, true, sge, nsge, iov, desc);
	guarded = srx_guard(srq->dev);
	ret = fi_recvv(srq->fi, iov, desc, slot->invalid ? 0 : nsge, FI_ADDR_UNSPEC, slot);
	srx_unguard(srq->dev, guarded);
	if (unlikely(ret))
		return recv_refused(slot, ret);
	atomic_store_explicit(&srq->posts,
			      atomic_load_explicit(&srq->posts, memory_order_relaxed) + 1,
			      memory_order_release);
	if (unlikely(atomic_load_explicit(&srq->asleep, memory_order_relaxed)))
		srq_poke(srq);
	return 0;
}

/* ---- completions ---- */

static void recv_complete_locked(struct tp_qp *qp, struct transfer *slot,
				 DAT_DTO_COMPLETION_STATUS status, uint32_t length)
{
	struct tp_srq *srq = slot->srq;
	bool reached;

	assert_locked(&qp->recvs.cq->lock);
	if (status != DAT_DTO_ERR_FLUSHED && slot->invalid)
		status = DAT_DTO_ERR_LOCAL_PROTECTION;
	spin_lock(&srq->lock);
	reached = --srq->left < srq->limit;
	if (reached) {
		srq->limit = 0;
		srq->limit_reached = true;
	}
	spin_unlock(&srq->lock);
	if (reached)
		up_wake(srq->dev->ia);
	slot->done.status = status;
	slot->done.length = length;
	memcpy(slot->done.ep, &qp->ep, sizeof(slot->done.ep));
	cq_push_locked(qp->recvs.cq, slot);
}

struct ep *tp_wc_ep(const struct tp_cq *cq, const struct tp_wc *wc)
{
	struct ep *ep;

	(void)cq;
	memcpy(&ep, wc->transport_0, sizeof(ep));
	return ep;
}

/* Nothing is left of the queue pair: its completions have no more of it than its endpoint. */
void tp_qp_forget(struct tp_qp *qp)
{
	(void)qp;
}

/* Takes in a receive that has succeeded. */
static void entry_complete_locked(struct tp_qp *qp, const CQ_ENTRY *entry)
{
	struct transfer *slot = entry->op_context;
	DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS;
	uint32_t length = (uint32_t)entry->len;

	if (unlikely(!slot))
		return; /* of no receive: see entry_take_expected_rare */
	if (entry_has_immed(entry))
		status = immed_read(qp->dev, entry, &length, &slot->immed);
	recv_complete_locked(qp, slot, status, length);
}

static unsigned member_read_locked(struct tp_qp *qp)
{
	CQ_ENTRY entries[HARVEST];
	DAT_DTO_COMPLETION_STATUS status;
	struct transfer *failed;
	ssize_t got = fi_cq_read_guarded(qp->dev, qp->own, entries, HARVEST);

	assert_locked(&qp->recvs.cq->lock);
	for (ssize_t i = 0; i < got; i++)
		entry_complete_locked(qp, &entries[i]);
	if (likely(got > 0))
		return (unsigned)got;
	failed = got == -FI_EAVAIL ? cq_read_failure(qp->own, &status) : NULL;
	if (failed)
		recv_complete_locked(qp, failed, status, 0);
	return failed != NULL;
}

/*
 * Notes whether a message of the member waits for a receive. While one does the set is silent about
 * the member, because its descriptor may be readable for long.
 */
static void member_set_starved_locked(struct tp_qp *qp, bool starved)
{
	struct tp_cq *cq = qp->recvs.cq;
	struct epoll_event event = { .events = starved ? 0 : EPOLLIN, .data.ptr = qp };

	assert_locked(&cq->lock);
	if (starved == qp->starved)
		return;
	qp->starved = starved;
	cq->starved_members += starved ? 1u : -1u;
	(void)epoll_ctl(cq->members_epoll, EPOLL_CTL_MOD, qp->own_fd, &event);
}

/*
 * Reads the member until libfabric's descriptor reports what is next, or something waits for a
 * receive. Returns how many completions there were.
 */
static unsigned member_harvest_locked(struct tp_qp *qp)
{
	unsigned taken = 0, fruitless = 0;

	assert_locked(&qp->recvs.cq->lock);
	qp->seen = atomic_load_explicit(&qp->srq->posts, memory_order_acquire);
	while (fruitless < 2) {
		unsigned got = member_read_locked(qp);

		taken += got;
		fruitless = got ? 0 : fruitless + 1;
		if (got < HARVEST && fi_cq_is_quiet(qp->dev, qp->own))
			break;
	}
	member_set_starved_locked(qp, fruitless == 2);
	return taken;
}

/* Was a receive posted since the member was read last? */
static bool member_is_due_locked(const struct tp_qp *qp)
{
	assert_locked(&qp->recvs.cq->lock);
	return qp->seen != atomic_load_explicit(&qp->srq->posts, memory_order_relaxed);
}

unsigned members_harvest_locked(struct tp_cq *cq)
{
	struct epoll_event events[HARVEST];
	unsigned taken = 0;
	int n;

	assert_locked(&cq->lock);
	n = epoll_wait(cq->members_epoll, events, HARVEST, 0);
	for (int i = 0; i < n; i++)
		taken += member_harvest_locked(events[i].data.ptr);
	if (likely(!cq->starved_members))
		return taken;
	for (struct tp_qp *qp = cq->members; qp; qp = qp->next_member)
		if (qp->starved && member_is_due_locked(qp))
			taken += member_harvest_locked(qp);
	return taken;
}

/* ---- the service thread ---- */

/*
 * Reads the members to which a post may matter. Those whose requests complete in the same queue
 * were read with it.
 */
static void members_sweep_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	for (struct tp_qp *qp = cq->members; qp; qp = qp->next_member)
		if (qp->sends.cq != cq && member_is_due_locked(qp))
			(void)member_harvest_locked(qp);
}

/* Notes whether posts of receives have to wake the service thread. */
static void members_set_asleep_locked(struct tp_cq *cq, bool asleep)
{
	assert_locked(&cq->lock);
	if (atomic_load(&cq->asleep) == asleep)
		return;
	atomic_store(&cq->asleep, asleep);
	for (struct srq_feed *feed = cq->feeds; feed; feed = feed->next_of_cq)
		atomic_fetch_add(&feed->srq->asleep, asleep ? 1u : -1u);
}

void members_visit(struct tp_cq *cq)
{
	if (!spin_trylock(&cq->lock))
		return;
	members_set_asleep_locked(cq, false);
	members_sweep_locked(cq);
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
}

/*
 * After libfabric has got the receive, a post looks whether the service thread sleeps. The thread
 * notes that it does before it asks libfabric. Locks of libfabric order the two, so one of them
 * finds the other one.
 */
bool members_leave_locked(struct tp_cq *cq)
{
	bool any = false;

	atomic_store(&cq->poked, false);
	members_set_asleep_locked(cq, true);
	while (cq_harvest_locked(cq))
		any = true;
	members_sweep_locked(cq);
	return any;
}

void srq_report_limits(struct tp_dev *dev)
{
	for (struct tp_srq *srq = dev->srqs; srq; srq = srq->next) {
		bool reached;

		spin_lock(&srq->lock);
		reached = srq->limit_reached;
		srq->limit_reached = false;
		spin_unlock(&srq->lock);
		if (reached)
			up_srq_limit(srq->srq);
	}
}

/* ---- members ---- */

/* Opens the set of the members' descriptors, which a completion queue has from its first one on. */
static int members_open(struct tp_cq *cq)
{
	struct tp_dev *dev = cq->dev;
	int fd, err = 0;

	mutex_lock(&dev->cqs_lock);
	if (cq->members_epoll >= 0)
		goto unlock;
	fd = epoll_create1(EPOLL_CLOEXEC);
	err = fd < 0 ? -errno : epoll_once(cq->epoll, EPOLL_CTL_ADD, fd, NULL, false);
	if (!err)
		err = epoll_once(dev->epoll, EPOLL_CTL_ADD, fd, cq, true);
	if (!err)
		cq->members_epoll = fd;
	else if (fd >= 0)
		close(fd);
unlock:
	mutex_unlock(&dev->cqs_lock);
	return err;
}

/* Returns the feed of the two; or NULL. */
static struct srq_feed *feed_find_locked(struct tp_cq *cq, const struct tp_srq *srq)
{
	struct srq_feed *feed = cq->feeds;

	assert_locked(&cq->lock);
	while (feed && feed->srq != srq)
		feed = feed->next_of_cq;
	return feed;
}

/* Links @feed, of a shared receive queue that has none for this completion queue. */
static void feed_link_locked(struct tp_cq *cq, struct tp_srq *srq, struct srq_feed *feed)
{
	assert_locked(&cq->lock);
	*feed = (struct srq_feed){ .srq = srq, .cq = cq, .next_of_cq = cq->feeds };
	cq->feeds = feed;
	if (atomic_load(&cq->asleep))
		atomic_fetch_add(&srq->asleep, 1);
	spin_lock(&srq->lock);
	feed->next_of_srq = srq->feeds;
	srq->feeds = feed;
	spin_unlock(&srq->lock);
}

static void feed_unlink_locked(struct srq_feed *feed)
{
	struct tp_cq *cq = feed->cq;
	struct tp_srq *srq = feed->srq;
	struct srq_feed **link = &cq->feeds;

	assert_locked(&cq->lock);
	while (*link != feed)
		link = &(*link)->next_of_cq;
	*link = feed->next_of_cq;
	if (atomic_load(&cq->asleep))
		atomic_fetch_sub(&srq->asleep, 1);
	spin_lock(&srq->lock);
	for (link = &srq->feeds; *link != feed;)
		link = &(*link)->next_of_srq;
	*link = feed->next_of_srq;
	spin_unlock(&srq->lock);
}

static void member_link(struct tp_qp *qp, struct srq_feed *spare)
{
	struct tp_cq *cq = qp->recvs.cq;
	struct srq_feed *feed;

	spin_lock(&cq->lock);
	feed = feed_find_locked(cq, qp->srq);
	if (!feed) {
		feed = spare;
		spare = NULL;
		feed_link_locked(cq, qp->srq, feed);
	}
	feed->members++;
	qp->next_member = cq->members;
	cq->members = qp;
	cq->backlog |= CQ_MEMBERS;
	spin_unlock(&cq->lock);
	free(spare);
}

int member_create(struct tp_qp *qp)
{
	struct tp_cq *cq = qp->recvs.cq;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = qp };
	struct srq_feed *feed = malloc(sizeof(*feed));
	int err;

	if (!feed)
		return -ENOMEM;
	err = members_open(cq);
	if (!err)
		err = fi_cq_create(qp->dev, qp->pd->domain, qp->srq->max_recv, &qp->own,
				   &qp->own_fd);
	if (err)
		goto free_feed;
	member_link(qp, feed);
	spin_lock(&qp->sends.cq->lock);
	qp->sends.cq->backlog |= CQ_GUARDED;
	spin_unlock(&qp->sends.cq->lock);
	if (!epoll_ctl(cq->members_epoll, EPOLL_CTL_ADD, qp->own_fd, &event))
		return 0;
	err = -errno;
	member_destroy(qp);
	return err;
free_feed:
	free(feed);
	return err;
}

void member_destroy(struct tp_qp *qp)
{
	struct tp_cq *cq = qp->recvs.cq;
	struct tp_qp **link = &cq->members;
	struct srq_feed *feed;

	spin_lock(&cq->lock);
	(void)member_harvest_locked(qp);
	member_set_starved_locked(qp, false);
	(void)epoll_ctl(cq->members_epoll, EPOLL_CTL_DEL, qp->own_fd, NULL);
	while (*link != qp)
		link = &(*link)->next_member;
	*link = qp->next_member;
	feed = feed_find_locked(cq, qp->srq);
	if (--feed->members)
		feed = NULL;
	else
		feed_unlink_locked(feed);
	if (!cq->members)
		cq->backlog &= ~(unsigned)CQ_MEMBERS;
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
	free(feed);
	fi_cq_destroy(qp->dev, qp->own);
}

void member_flush(struct tp_qp *qp)
{
	struct tp_cq *cq = qp->recvs.cq;

	spin_lock(&cq->lock);
	(void)member_harvest_locked(qp);
	if (cq_has_completions_locked(cq))
		cq_signal_locked(cq);
	spin_unlock(&cq->lock);
}

/* ---- the queues ---- */

int tp_srq_create(struct tp_dev *dev, const struct tp_srq_attr *attr, struct srq *srq,
		  struct tp_srq **out)
{
	struct tp_srq *tp = calloc(1, sizeof(*tp));
	struct fi_rx_attr rx = *dev->info->rx_attr;
	int err;

	up_assert_locked(dev->ia);
	if (!tp)
		return -ENOMEM;
	tp->dev = dev;
	tp->pd = attr->pd;
	tp->srq = srq;
	tp->max_recv = attr->max_recv;
	spin_init(&tp->lock, RANK_SRQ);
	err = recvs_add(tp, attr->max_recv);
	if (err)
		goto free_tp;
	rx.size = attr->max_recv;
	rx.iov_limit = attr->max_sge;
	err = ofi_errno(fi_srx_context(tp->pd->domain, &rx, &tp->fi, tp));
	if (err)
		goto destroy_slots;
	tp->next = dev->srqs;
	dev->srqs = tp;
	if (dev->soft_queues && FI_MAJOR(dev->info->fabric_attr->prov_version) < TCP_1_18)
		atomic_store(&dev->guards_srx, true);
	*out = tp;
	return 0;
destroy_slots:
	recvs_destroy(tp);
free_tp:
	free(tp);
	return err;
}

/* libfabric drops the receives that are left. */
void tp_srq_destroy(struct tp_srq *tp)
{
	struct tp_dev *dev = tp->dev;
	struct tp_srq **link = &dev->srqs;
	int ret;

	up_assert_locked(dev->ia);
	while (*link != tp)
		link = &(*link)->next;
	*link = tp->next;
	ret = fi_close(&tp->fi->fid);
	if (ret)
		log_error("%s: fi_close of a shared receive context: %s", dev->attr.device,
			  libfabric.strerror(-ret));
	recvs_destroy(tp);
	free(tp);
}

/* libfabric's tcp takes more receives than it was asked for, and a device does not. */
int tp_srq_resize(struct tp_srq *tp, unsigned max_recv)
{
	int err = -EOPNOTSUPP;

	if (tp->dev->attr.caps & TP_CAP_CQ_RESIZE)
		err = recvs_add(tp, max_recv - tp->max_recv);
	if (!err)
		tp->max_recv = max_recv;
	return err;
}

int tp_srq_arm(struct tp_srq *tp, unsigned limit)
{
	spin_lock(&tp->lock);
	tp->limit = limit;
	tp->limit_reached = false;
	spin_unlock(&tp->lock);
	return 0;
}

/* ---- what libfabric has ---- */

/* Can an endpoint have the shared receive context? */
static bool can_bind(struct tp_dev *dev, struct fid_ep *srx)
{
	struct fi_info *info = info_to(dev, &dev->attr.addr);
	struct fid_ep *ep;
	bool bound;

	if (!info)
		return false;
	info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	bound = !fi_endpoint(dev->domain, info, &ep, NULL);
	libfabric.freeinfo(info);
	if (!bound)
		return false;
	bound = !fi_ep_bind(ep, &srx->fid, 0);
	fi_close(&ep->fid);
	return bound;
}

/*
 * Can the descriptors of members be in a set? There are four epoll sets above one: those of the
 * members, of their completion queue, of its CNO and of the service thread. With the descriptor
 * itself that is all that Linux nests, and those of libfabric 1.18 and later have a set below: no
 * completion would wake who waits for a CNO.
 */
static bool can_watch_members(const struct tp_dev *dev)
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_FD };
	int below, sets[4], n = 0;
	struct fid_cq *cq;
	bool can;

	if (fi_cq_open(dev->domain, &attr, &cq, NULL))
		return false;
	can = !fi_control(&cq->fid, FI_GETWAIT, &below);
	while (can && n < (int)ARRAY_SIZE(sets)) {
		sets[n] = epoll_create1(EPOLL_CLOEXEC);
		can = sets[n] >= 0;
		if (!can)
			break;
		can = !epoll_watch(sets[n], below);
		below = sets[n++];
	}
	while (n)
		close(sets[--n]);
	fi_close(&cq->fid);
	return can;
}

/* The number of contexts in the attributes is 0 with libfabric's tcp, which has any number. */
void srx_probe(struct tp_dev *dev)
{
	const struct fi_info *info = dev->info;
	struct fi_rx_attr rx = *info->rx_attr;
	struct fid_ep *srx;

	if (!FI_CHECK_OP(dev->domain->ops, struct fi_ops_domain, srx_ctx) ||
	    fi_srx_context(dev->domain, &rx, &srx, NULL))
		return;
	if (can_bind(dev, srx) && can_watch_members(dev)) {
		unsigned most = (unsigned)min_u64(info->domain_attr->max_ep_srx_ctx, INT_MAX);

		dev->attr.max_srq = most ? most : dev->attr.max_qp;
		dev->attr.max_srq_wr = (unsigned)min_u64(info->rx_attr->size, INT_MAX);
		dev->attr.max_srq_sge = dev->attr.max_sge;
	}
	fi_close(&srx->fid);
}
