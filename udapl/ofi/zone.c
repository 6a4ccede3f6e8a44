/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains. A region of libfabric serves every endpoint of its domain, so each protection
 * domain has a domain of libfabric to itself. The first one has that of the device.
 *
 * An endpoint completes in queues of its own domain only. So a tp_cq has a queue of libfabric in
 * each domain whose endpoints complete there: tp_cq->fi in the domain of the device, and a struct
 * domain_cq in each other one, as long as there are such endpoints. Whoever reads, watches or arms
 * a tp_cq does so with all of them.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "ofi.h"

/* ---- protection domains ---- */

/*
 * Opens another domain, which reports registrations where that of the device does. Returns 0 or
 * -ENOSPC, and the cause was logged: whatever it is, no more zones can be had.
 */
static int domain_open_another(struct tp_dev *dev, struct fid_domain **domain)
{
	const char *call = "fi_domain";
	int ret = fi_domain(dev->fabric, dev->info, domain, dev);

	if (!ret && dev->mr_eq) {
		call = "fi_domain_bind";
		ret = fi_domain_bind(*domain, &dev->mr_eq->fid, FI_REG_MR);
		if (ret)
			fi_close(&(*domain)->fid);
	}
	if (ret)
		log_error("%s: %s for a protection zone: %s", dev->attr.device, call,
			  libfabric.strerror(-ret));
	return ret ? -ENOSPC : 0;
}

int tp_pd_create(struct tp_dev *dev, struct tp_pd **out)
{
	struct tp_pd *pd = calloc(1, sizeof(*pd));
	int err = 0;

	if (!pd)
		return -ENOMEM;
	pd->dev = dev;
	if (!atomic_exchange(&dev->domain_taken, true))
		pd->domain = dev->domain;
	else
		err = domain_open_another(dev, &pd->domain);
	if (err)
		free(pd);
	else
		*out = pd;
	return err;
}

void tp_pd_destroy(struct tp_pd *pd)
{
	struct tp_dev *dev = pd->dev;
	int ret = 0;

	if (pd->domain == dev->domain)
		atomic_store(&dev->domain_taken, false);
	else
		ret = fi_close(&pd->domain->fid);
	if (ret)
		log_error("%s: fi_close of the domain of a protection zone: %s", dev->attr.device,
			  libfabric.strerror(-ret));
	free(pd);
}

/* ---- completion queues of other domains ---- */

struct domain_cq {
	struct fid_cq *fi;
	struct fid_domain *domain;
	int fd;			/* libfabric's */
	bool emptied;		/* cq->lock; it was empty when it was read last */
	bool in_dev_set;	/* dev->cqs_lock; as that of the tp_cq */
	unsigned queues;	/* dev->cqs_lock; of queue pairs, that complete here */
	struct domain_cq *next; /* as tp_cq->domains */
};

/* dev->cqs_lock or cq->lock is held. */
static struct domain_cq *domain_cq_find(const struct tp_cq *cq, const struct tp_pd *pd)
{
	struct domain_cq *other = cq->domains;

	while (other && other->domain != pd->domain)
		other = other->next;
	return other;
}

struct fid_cq *cq_in_domain(struct tp_cq *cq, const struct tp_pd *pd)
{
	struct fid_cq *fi = cq->fi;

	if (pd->domain == pd->dev->domain)
		return fi;
	spin_lock(&cq->lock);
	fi = domain_cq_find(cq, pd)->fi;
	spin_unlock(&cq->lock);
	return fi;
}

/*
 * Makes the queue one of the tp_cq. Who sleeps there does not sleep on its descriptor, and the set
 * of the device doesn't have that yet, so the service thread is told.
 */
static void domain_cq_link_locked(struct tp_cq *cq, struct domain_cq *other)
{
	assert_locked(&cq->dev->cqs_lock);
	spin_lock(&cq->lock);
	other->next = cq->domains;
	cq->domains = other;
	cq->backlog |= CQ_DOMAINS;
	cq_entrust_locked(cq);
	spin_unlock(&cq->lock);
	progress_resume_others_locked(cq);
	progress_wake(cq);
}

static int domain_cq_create_locked(struct tp_cq *cq, const struct tp_pd *pd)
{
	struct domain_cq *other = calloc(1, sizeof(*other));
	int err;

	assert_locked(&cq->dev->cqs_lock);
	if (!other)
		return -ENOMEM;
	other->domain = pd->domain;
	other->queues = 1;
	err = fi_cq_create(pd->dev, pd->domain, cq->depth, &other->fi, &other->fd);
	if (err)
		free(other);
	else
		domain_cq_link_locked(cq, other);
	return err;
}

int cq_join_domain(struct tp_cq *cq, const struct tp_pd *pd)
{
	struct domain_cq *other;
	int err = 0;

	if (pd->domain == pd->dev->domain)
		return 0;
	mutex_lock(&pd->dev->cqs_lock);
	other = domain_cq_find(cq, pd);
	if (other)
		other->queues++;
	else
		err = domain_cq_create_locked(cq, pd);
	mutex_unlock(&pd->dev->cqs_lock);
	return err;
}

static void domain_cq_unlink_locked(struct tp_cq *cq, struct domain_cq *other)
{
	struct domain_cq **link = &cq->domains;

	assert_locked(&cq->dev->cqs_lock);
	spin_lock(&cq->lock);
	while (*link != other)
		link = &(*link)->next;
	*link = other->next;
	if (!cq->domains)
		cq->backlog &= ~(unsigned)CQ_DOMAINS;
	(void)epoll_ctl(cq->epoll, EPOLL_CTL_DEL, other->fd, NULL);
	spin_unlock(&cq->lock);
	(void)epoll_ctl(cq->dev->epoll, EPOLL_CTL_DEL, other->fd, NULL);
}

void cq_leave_domain(struct tp_cq *cq, const struct tp_pd *pd)
{
	struct domain_cq *other;

	if (pd->domain == pd->dev->domain)
		return;
	mutex_lock(&pd->dev->cqs_lock);
	other = domain_cq_find(cq, pd);
	if (!--other->queues) {
		domain_cq_unlink_locked(cq, other);
		fi_cq_destroy(pd->dev, other->fi);
		free(other);
	}
	mutex_unlock(&pd->dev->cqs_lock);
}

/* ---- reading and watching them ---- */

static bool is_readable(const struct domain_cq *other)
{
	struct pollfd fd = { .fd = other->fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static unsigned domain_cq_read_locked(struct tp_cq *cq, struct domain_cq *other)
{
	CQ_ENTRY entries[CQ_HARVEST];
	ssize_t got = fi_cq_read_guarded(cq->dev, other->fi, entries, CQ_HARVEST);

	assert_locked(&cq->lock);
	other->emptied = got == -FI_EAGAIN;
	for (ssize_t i = 0; i < got; i++)
		cq_take_entry_locked(&entries[i]);
	if (got == -FI_EAVAIL)
		return cq_take_failure_locked(other->fi);
	return got > 0 ? (unsigned)got : 0;
}

unsigned domains_harvest_locked(struct tp_cq *cq)
{
	unsigned taken = 0;

	assert_locked(&cq->lock);
	for (struct domain_cq *other = cq->domains; other; other = other->next)
		taken += domain_cq_read_locked(cq, other);
	return taken;
}

bool domains_are_empty_locked(const struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	for (const struct domain_cq *other = cq->domains; other; other = other->next)
		if (!other->emptied || is_readable(other))
			return false;
	return true;
}

bool domains_are_quiet_locked(const struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	for (const struct domain_cq *other = cq->domains; other; other = other->next)
		if (!fi_cq_is_quiet(cq->dev, other->fi))
			return false;
	return true;
}

bool domains_watch_locked(struct tp_cq *cq)
{
	int err = 0;

	assert_locked(&cq->lock);
	for (const struct domain_cq *other = cq->domains; other && !err; other = other->next) {
		err = epoll_watch(cq->epoll, other->fd);
		if (err == -EEXIST)
			err = 0;
	}
	return !err;
}

void domains_unwatch_locked(struct tp_cq *cq)
{
	assert_locked(&cq->lock);
	for (const struct domain_cq *other = cq->domains; other; other = other->next)
		(void)epoll_ctl(cq->epoll, EPOLL_CTL_DEL, other->fd, NULL);
}

int domains_report_locked(struct tp_cq *cq)
{
	int err = 0;

	assert_locked(&cq->dev->cqs_lock);
	for (struct domain_cq *other = cq->domains; other && !err; other = other->next)
		err = dev_set_report_locked(cq, other->fd, &other->in_dev_set);
	return err;
}

void domains_drop_locked(struct tp_cq *cq)
{
	assert_locked(&cq->dev->cqs_lock);
	for (struct domain_cq *other = cq->domains; other; other = other->next)
		dev_set_drop_locked(cq, other->fd, &other->in_dev_set);
}

bool domains_have_waiting_locked(const struct tp_cq *cq)
{
	assert_locked(&cq->dev->cqs_lock);
	for (const struct domain_cq *other = cq->domains; other; other = other->next)
		if (is_readable(other))
			return true;
	return false;
}
