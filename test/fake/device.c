/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake devices, their descriptors, and the queue of events of each. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_impl.h"

const char tp_library_name[] = "libfakedat";

/* ---- descriptors ---- */

int channel_open(struct channel *channel)
{
	int fds[2];

	if (fake.quirks & FAKE_REMOVABLE) {
		if (pipe2(fds, O_NONBLOCK | O_CLOEXEC))
			return -errno;
		*channel = (struct channel){ .fd = fds[0], .writer = fds[1] };
		return 0;
	}
	fds[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	*channel = (struct channel){ .fd = fds[0], .writer = fds[0] };
	return fds[0] < 0 ? -errno : 0;
}

/* The other end of a pipe that is closed leaves this one with POLLHUP. */
void channel_fail(struct channel *channel)
{
	fake_require(channel->writer != channel->fd, "fake_remove needs FAKE_REMOVABLE");
	if (channel->writer >= 0)
		close(channel->writer);
	channel->writer = -1;
}

void channel_close(struct channel *channel)
{
	if (channel->writer != channel->fd)
		channel_fail(channel);
	close(channel->fd);
}

void channel_signal(const struct channel *channel)
{
	if (channel->writer >= 0)
		eventfd_write(channel->writer, 1);
}

/* All signals: there is one at a time, or an eventfd adds them up. */
bool channel_read(const struct channel *channel)
{
	eventfd_t count;
	bool any = false;

	while (eventfd_read(channel->fd, &count) == 0)
		any = true;
	return any;
}

/* ---- opening and closing ---- */

#define MAX_DEVICES 200

/* Sets the device name "fakeN" and its address. */
static int params_parse(const char *params, struct tp_attr *attr)
{
	struct sockaddr_in *addr = (struct sockaddr_in *)&attr->addr;
	unsigned n;

	if (!params || sscanf(params, "fake%u", &n) != 1 || n >= MAX_DEVICES)
		return -ENODEV;
	snprintf(attr->device, sizeof(attr->device), "fake%u", n);
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(FAKE_NETWORK + n + 1);
	return 0;
}

int tp_dev_open(const char *params, struct ia *ia, struct tp_dev **out)
{
	struct tp_dev *dev;
	int err = fake_enter(CALL_DEV_OPEN);

	if (err)
		return err;
	dev = calloc(1, sizeof(*dev));
	if (!dev) {
		err = -ENOMEM;
		goto unlock;
	}
	dev->attr = fake.attr;
	err = params_parse(params, &dev->attr);
	if (err)
		goto free_dev;
	err = channel_open(&dev->channel);
	if (err)
		goto free_dev;
	dev->has_second = fake.quirks & FAKE_REMOVABLE;
	if (dev->has_second)
		err = channel_open(&dev->second);
	if (err)
		goto close_channel;
	dev->deadline = TP_NEVER;
	dev->ia = ia;
	dev->events_end = &dev->events;
	dev->next = fake.devs;
	fake.devs = dev;
	fake.alive[FAKE_DEV]++;
	fake_unlock();
	*out = dev;
	return 0;
close_channel:
	channel_close(&dev->channel);
free_dev:
	free(dev);
unlock:
	fake_unlock();
	return err;
}

void tp_dev_close(struct tp_dev *dev)
{
	struct tp_dev **link = &fake.devs;

	fake_begin(CALL_DEV_CLOSE);
	for (enum fake_kind kind = 0; kind < FAKE_ANY; kind++)
		fake_require(dev->alive[kind] == 0, "a device is closed after all of its objects");
	while (*link != dev)
		link = &(*link)->next;
	*link = dev->next;
	while (dev->events)
		events_drop(dev, dev->events->about);
	fake.alive[FAKE_DEV]--;
	fake_unlock();
	if (dev->served)
		clock_expect(-1);
	channel_close(&dev->channel);
	if (dev->has_second)
		channel_close(&dev->second);
	free(dev);
}

static bool in_call;

void fake_be_in_call(void)
{
	in_call = true;
}

bool tp_was_in_call(void)
{
	return in_call;
}

/* Forgets all devices. */
void tp_dev_after_fork(struct tp_dev *dev)
{
	(void)dev;
	pthread_mutex_init(&fake.lock, NULL);
	pthread_cond_init(&fake.upcall_over, NULL);
	memset(fake.alive, 0, sizeof(fake.alive));
	fake.devs = NULL;
	fake.wire = NULL;
	fake.wire_end = &fake.wire;
	fake.qps = NULL;
	fake.cqs = NULL;
	fake.mrs = NULL;
	fake.mws = NULL;
	clock_after_fork();
}

const struct tp_attr *tp_dev_attr(const struct tp_dev *dev)
{
	return &dev->attr;
}

void tp_dev_port(const struct tp_dev *dev, struct tp_port *port)
{
	*port = (struct tp_port){
		.provider = "FAKE",
		/* tests of attributes alone have no device */
		.state = dev && atomic_load(&dev->port_down) ? "DOWN" : "ACTIVE",
		.node_guid = { 1, 2, 3, 4, 5, 6, 7, 8 },
		.gid = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
		.mtu = 4096,
		.number = 1,
	};
}

unsigned tp_dev_fds(const struct tp_dev *dev, int fds[TP_DEV_FDS])
{
	bool first;

	fake_lock();
	first = !dev->served;
	((struct tp_dev *)dev)->served = true; /* const for the core only */
	fake_unlock();
	if (first)
		clock_expect(1);
	fds[0] = dev->channel.fd;
	if (dev->has_second)
		fds[1] = dev->second.fd;
	return dev->has_second ? 2 : 1;
}

bool tp_dev_busy_polls(const struct tp_dev *dev)
{
	(void)dev;
	return false;
}

uint64_t tp_dev_deadline(const struct tp_dev *dev)
{
	uint64_t deadline;

	fake_lock();
	deadline = dev->deadline;
	fake_unlock();
	return deadline;
}

void alive_add(struct tp_dev *dev, enum fake_kind kind, int n)
{
	dev->alive[kind] += (unsigned)n;
	fake.alive[kind] += (unsigned)n;
}

void event_post(struct tp_dev *dev, enum event_kind kind, void *about, enum tp_cause cause)
{
	struct event *event = malloc(sizeof(*event));

	fake_require_host(event != NULL, "memory");
	*event = (struct event){ .kind = kind, .about = about, .cause = cause };
	*dev->events_end = event;
	dev->events_end = &event->next;
	channel_signal(&dev->channel);
}

static void event_unlink(struct tp_dev *dev, struct event **link)
{
	if (dev->events_end == &(*link)->next)
		dev->events_end = link;
	*link = (*link)->next;
	if (!dev->events)
		(void)channel_read(&dev->channel);
}

void events_drop(struct tp_dev *dev, const void *about)
{
	struct event **link = &dev->events;

	while (*link) {
		struct event *event = *link;

		if (event->about == about) {
			event_unlink(dev, link);
			free(event);
		} else {
			link = &event->next;
		}
	}
}

void upcall_begin(struct tp_dev *dev, const void *about)
{
	dev->upcall = about;
	fake_unlock();
}

void upcall_end(struct tp_dev *dev)
{
	fake_lock();
	dev->upcall = NULL;
	pthread_cond_broadcast(&fake.upcall_over);
}

static void event_dispatch(struct tp_dev *dev, struct event *event)
{
	struct tp_qp *qp = event->about;
	struct tp_cq *cq = event->about;
	struct tp_srq *srq = event->about;

	switch (event->kind) {
	case EV_QP_BROKEN:
		upcall_begin(dev, qp);
		up_qp_broken(qp->ep, qp);
		break;
	case EV_LAST_RECEIVE:
		upcall_begin(dev, qp);
		up_qp_last_receive(qp->ep, qp);
		break;
	case EV_SRQ_LIMIT:
		upcall_begin(dev, srq);
		up_srq_limit(srq->srq);
		break;
	case EV_SRQ_BROKEN:
		upcall_begin(dev, srq);
		up_srq_broken(srq->srq);
		break;
	case EV_CQ_OVERRUN:
		upcall_begin(dev, cq);
		up_cq_overrun(cq->evd);
		break;
	case EV_PORT_DOWN:
		upcall_begin(dev, NULL);
		up_port_down(dev->ia);
		break;
	case EV_DEV_FATAL:
		upcall_begin(dev, NULL);
		up_dev_fatal(dev->ia);
		break;
	default:
		conn_dispatch(event);
		return;
	}
	upcall_end(dev);
}

/* It has one descriptor, and looks at its events whatever is @ready. */
bool tp_dev_progress(struct tp_dev *dev, unsigned ready)
{
	(void)ready;
	fake_begin(CALL_DEV_PROGRESS);
	if (dev->deadline <= tp_now())
		dev->deadline = TP_NEVER;
	if (dev->next_deadline)
		dev->deadline = dev->next_deadline;
	dev->next_deadline = 0;
	while (dev->events) {
		struct event *event = dev->events;

		event_unlink(dev, &dev->events);
		event_dispatch(dev, event);
		free(event);
	}
	fake_unlock();
	return false;
}

void fake_port_down(struct tp_dev *dev)
{
	atomic_store(&dev->port_down, true);
	fake_lock();
	event_post(dev, EV_PORT_DOWN, NULL, 0);
	fake_unlock();
}

void fake_dev_fatal(struct tp_dev *dev)
{
	fake_lock();
	event_post(dev, EV_DEV_FATAL, NULL, 0);
	fake_unlock();
}

void fake_remove(struct tp_dev *dev, unsigned what)
{
	fake_lock();
	dev->removed = true;
	for (struct tp_qp *qp = fake.qps; qp; qp = qp->next)
		if (qp->dev == dev)
			qp->state = QP_GONE;
	if (what & FAKE_DEV_FD)
		channel_fail(&dev->channel);
	if (what & FAKE_SECOND_FD)
		channel_fail(&dev->second);
	for (struct tp_cq *cq = fake.cqs; cq && what & FAKE_CQ_FDS; cq = cq->next)
		if (cq->dev == dev)
			channel_fail(&cq->channel);
	fake_unlock();
}

void fake_alarm(struct tp_dev *dev, uint64_t deadline)
{
	fake_lock();
	dev->deadline = deadline;
	fake_unlock();
	up_wake(dev->ia);
}

void fake_alarm_next(struct tp_dev *dev, uint64_t deadline)
{
	fake_lock();
	dev->next_deadline = deadline;
	fake_unlock();
}
