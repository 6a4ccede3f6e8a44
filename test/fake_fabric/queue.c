/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues and completion queues. Their descriptors are readable while something is queued. */
#include "impl.h"

/* ---- event queues ---- */

static bool eq_has_set(const struct ff_eq *eq)
{
	return eq->fd != eq->signal;
}

static bool is_end(const struct ff_event *event)
{
	return event->type == FI_SHUTDOWN;
}

/* After an event has left the queue. */
static void arrivals_update(struct ff_eq *eq)
{
	const struct ff_event *event = eq->first;

	while (event && eq_has_set(eq) && is_end(event))
		event = event->next;
	ff_fd_set(eq->arrivals, event);
}

void ff_eq_use(struct ff_eq *eq)
{
	if (eq_has_set(eq) && !eq->users)
		ff_set_add(eq->fd, eq->arrivals, 0);
	eq->users++;
}

void ff_event_add(struct ff_eq *eq, const struct ff_event *event)
{
	struct ff_event *copy = malloc(sizeof(*copy));

	ff_require(copy, "no memory for an event");
	*copy = *event;
	copy->next = NULL;
	*eq->end = copy;
	eq->end = &copy->next;
	ff_fd_set(eq_has_set(eq) && is_end(event) ? eq->signal : eq->arrivals, true);
}

/* The first one. */
static void event_remove(struct ff_eq *eq)
{
	struct ff_event *event = eq->first;

	eq->first = event->next;
	if (!eq->first)
		eq->end = &eq->first;
	free(event);
	arrivals_update(eq);
}

void ff_events_drop(struct ff_eq *eq, fid_t fid)
{
	struct ff_event **link = &eq->first, *event;

	while ((event = *link)) {
		if (event->fid != fid) {
			link = &event->next;
			continue;
		}
		*link = event->next;
		if (event->info)
			ff_info_free(event->info);
		free(event);
	}
	eq->end = link;
	arrivals_update(eq);
}

static int eq_close(struct fid *fid)
{
	struct ff_eq *eq = (struct ff_eq *)fid;

	ff_lock();
	if (eq->users) {
		ff_unlock();
		return -FI_EBUSY;
	}
	while (eq->first)
		ff_events_drop(eq, eq->first->fid);
	if (eq_has_set(eq)) {
		close(eq->signal);
		close(eq->arrivals);
	}
	close(eq->fd);
	eq->fabric->users--;
	free(eq);
	ff_alive_add(FF_EQ, -1);
	ff_unlock();
	return 0;
}

static int wait_fd_get(int fd, int command, void *arg)
{
	int err = ff_enter(CALL_fi_getwait);

	if (err)
		return -err;
	ff_require(command == FI_GETWAIT && fd >= 0, "a queue without a descriptor");
	*(int *)arg = fd;
	ff_unlock();
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	return wait_fd_get(((struct ff_eq *)fid)->fd, command, arg);
}

static ssize_t event_store(const struct ff_event *event, void *buffer, size_t length)
{
	struct fi_eq_entry *plain = buffer;
	struct fi_eq_cm_entry *entry = buffer;
	size_t size = event->size;

	if (event->type == FI_MR_COMPLETE) {
		*plain = (struct fi_eq_entry){ event->fid, event->fid->context, 0 };
		return sizeof(*plain);
	}
	ff_require(length >= sizeof(*entry), "a buffer too small for an event");
	if (size > length - sizeof(*entry))
		size = length - sizeof(*entry);
	entry->fid = event->fid;
	entry->info = event->info;
	memcpy(entry->data, event->data, size);
	return (ssize_t)(sizeof(*entry) + size);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *type, void *buffer, size_t length,
		       uint64_t flags)
{
	struct ff_eq *eq = (struct ff_eq *)fid;
	ssize_t ret = -ff_enter(CALL_fi_eq_read);

	(void)flags;
	if (ret)
		return ret;
	if (!eq->first) {
		ret = -FI_EAGAIN;
	} else if (eq->first->err) {
		ret = -FI_EAVAIL;
	} else {
		ret = event_store(eq->first, buffer, length);
		*type = eq->first->type;
		event_remove(eq);
	}
	ff_unlock();
	return ret;
}

/* It returns at once, as after its time-out. */
static ssize_t eq_sread(struct fid_eq *fid, uint32_t *type, void *buffer, size_t length,
			int timeout, uint64_t flags)
{
	ssize_t ret = eq_read(fid, type, buffer, length, flags);

	(void)timeout;
	return ret;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	struct ff_eq *eq = (struct ff_eq *)fid;
	struct ff_event *event;
	ssize_t ret = -ff_enter(CALL_fi_eq_readerr);

	(void)flags;
	if (ret)
		return ret;
	event = eq->first;
	if (!event || !event->err) {
		ff_unlock();
		return -FI_EAGAIN;
	}
	entry->fid = event->fid;
	entry->err = event->err;
	if (entry->err_data && entry->err_data_size > event->size)
		entry->err_data_size = event->size;
	else if (!entry->err_data)
		entry->err_data_size = 0;
	if (entry->err_data_size)
		memcpy(entry->err_data, event->data, entry->err_data_size);
	event_remove(eq);
	ff_unlock();
	return sizeof(*entry);
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(eq_fi_ops),
	.close = eq_close,
	.control = eq_control,
};
static struct fi_ops_eq eq_ops = {
	.size = sizeof(eq_ops),
	.read = eq_read,
	.sread = eq_sread,
	.readerr = eq_readerr,
};

int ff_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out,
	       void *context)
{
	struct ff_eq *eq;
	int err = ff_enter(CALL_fi_eq_open);

	(void)attr;
	if (err)
		return -err;
	eq = calloc(1, sizeof(*eq));
	ff_require(eq, "no memory for an event queue");
	eq->fid = (struct fid_eq){ .fid = { FI_CLASS_EQ, context, &eq_fi_ops }, .ops = &eq_ops };
	eq->fabric = (struct ff_fabric *)fabric;
	eq->fabric->users++;
	eq->signal = ff_fd_open();
	eq->arrivals = ff.provider.sockets ? ff_fd_open() : eq->signal;
	eq->fd = ff.provider.sockets ? ff_set_open(&eq->signal, 1) : eq->signal;
	eq->end = &eq->first;
	ff_alive_add(FF_EQ, 1);
	*out = &eq->fid;
	ff_unlock();
	return 0;
}

/* ---- completion queues ---- */

struct fi_cq_err_entry *ff_entry_add(struct ff_cq *cq, void *context, uint64_t flags, size_t length,
				     int err)
{
	struct ff_entry *entry = calloc(1, sizeof(*entry));

	ff_require(entry, "no memory for a completion");
	if (!err)
		err = ff_step_locked(CALL_completion);
	entry->entry = (struct fi_cq_err_entry){
		.op_context = context,
		.flags = flags,
		.len = length,
		.err = err,
		.prov_errno = err ? ff.provider.prov_errno : 0,
	};
	*cq->end = entry;
	cq->end = &entry->next;
	ff_fd_set(cq->signals[0], true);
	return &entry->entry;
}

static bool cq_has_set(const struct ff_cq *cq)
{
	return cq->fd != cq->signals[0];
}

static void entry_remove(struct ff_cq *cq)
{
	struct ff_entry *entry = cq->first;

	cq->first = entry->next;
	if (!cq->first)
		cq->end = &cq->first;
	free(entry);
	if (!cq_has_set(cq))
		ff_fd_set(cq->fd, cq->first);
}

static int cq_close(struct fid *fid)
{
	struct ff_cq *cq = (struct ff_cq *)fid;

	ff_lock();
	if (cq->users) {
		ff_unlock();
		return -FI_EBUSY;
	}
	while (cq->first)
		entry_remove(cq);
	for (unsigned i = 0; i < COUNT_OF(cq->signals); i++)
		if (cq->signals[i] >= 0)
			close(cq->signals[i]);
	if (cq_has_set(cq))
		close(cq->fd);
	cq->domain->users--;
	free(cq);
	ff_alive_add(FF_CQ, -1);
	ff_unlock();
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	return wait_fd_get(((struct ff_cq *)fid)->fd, command, arg);
}

/* The formats are prefixes of one another. */
static ssize_t cq_read(struct fid_cq *fid, void *buffer, size_t count)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	struct ff_cq *cq = (struct ff_cq *)fid;
	char *to = buffer;
	ssize_t got = 0;
	int err = ff_enter(CALL_fi_cq_read);

	if (err)
		return -err;
	ff_clock_read();
	ff_late_write_step();
	if (cq_has_set(cq) && ff_set_reports(cq->fd))
		ff_fd_set(cq->signals[0], false);
	while ((size_t)got < count && cq->first && !cq->first->entry.err) {
		memcpy(to, &cq->first->entry, sizes[cq->format]);
		to += sizes[cq->format];
		entry_remove(cq);
		got++;
	}
	if (!got && cq->first && cq->first->entry.err)
		got = -FI_EAVAIL;
	else if (!got && !(cq->first && !count))
		got = -FI_EAGAIN;
	ff_unlock();
	return got;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct ff_cq *cq = (struct ff_cq *)fid;
	ssize_t ret = -ff_enter(CALL_fi_cq_readerr);

	(void)flags;
	if (ret)
		return ret;
	if (cq->first && cq->first->entry.err) {
		*entry = cq->first->entry;
		entry_remove(cq);
		ret = 1;
	} else {
		ret = -FI_EAGAIN;
	}
	ff_unlock();
	return ret;
}

static struct fi_ops cq_fi_ops = {
	.size = sizeof(cq_fi_ops),
	.close = cq_close,
	.control = cq_control,
};
static struct fi_ops_cq cq_ops = {
	.size = sizeof(cq_ops),
	.read = cq_read,
	.readerr = cq_readerr,
};

static void cq_descriptor_open(struct ff_cq *cq, enum fi_wait_obj wait)
{
	const unsigned signals = wait == FI_WAIT_NONE ? 0 : ff.provider.signals;

	cq->signals[0] = wait == FI_WAIT_NONE ? -1 : ff_fd_open();
	cq->signals[1] = signals > 1 ? ff_fd_open() : -1;
	cq->fd = signals ? ff_set_open(cq->signals, COUNT_OF(cq->signals)) : cq->signals[0];
}

int ff_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out,
	       void *context)
{
	struct ff_cq *cq;
	int err = ff_enter(CALL_fi_cq_open);

	if (err)
		return -err;
	if (ff.provider.cq_size && attr->size > ff.provider.cq_size) {
		ff_unlock();
		return -FI_EINVAL;
	}
	cq = calloc(1, sizeof(*cq));
	ff_require(cq, "no memory for a completion queue");
	cq->fid = (struct fid_cq){ .fid = { FI_CLASS_CQ, context, &cq_fi_ops }, .ops = &cq_ops };
	cq->domain = (struct ff_domain *)domain;
	cq->domain->users++;
	cq->format = attr->format;
	cq_descriptor_open(cq, attr->wait_obj);
	cq->end = &cq->first;
	ff_alive_add(FF_CQ, 1);
	*out = &cq->fid;
	ff_unlock();
	return 0;
}

/* ---- both ---- */

int ff_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	bool quiet = true;
	int err = ff_enter(CALL_fi_trywait);

	(void)fabric;
	if (err)
		return -err;
	for (int i = 0; i < count; i++) {
		struct ff_cq *cq = (struct ff_cq *)fids[i];

		if (fids[i]->fclass == FI_CLASS_EQ) {
			struct ff_eq *eq = (struct ff_eq *)fids[i];

			quiet &= !eq->first;
			if (eq_has_set(eq))
				ff_fd_set(eq->signal, false);
			continue;
		}
		quiet &= !cq->first;
		if (cq_has_set(cq))
			ff_fd_set(cq->signals[0], false);
	}
	ff_unlock();
	return quiet || ff.provider.arms_blindly ? 0 : -FI_EAGAIN;
}
