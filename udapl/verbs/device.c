/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening a device by one of its many names, its limits, its events, and time. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "verbs.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- time ---- */

#define NSEC_PER_SEC 1000000000ull

uint64_t tp_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

int tp_poll(struct pollfd *fds, unsigned nfds, uint64_t deadline)
{
	struct timespec left = { 0 };
	uint64_t now;
	int n;

	for (;;) {
		now = deadline == TP_NEVER ? 0 : tp_now();
		if (deadline > now) {
			left.tv_sec = (time_t)((deadline - now) / NSEC_PER_SEC);
			left.tv_nsec = (long)((deadline - now) % NSEC_PER_SEC);
		} else {
			left = (struct timespec){ 0 };
		}
		n = ppoll(fds, nfds, deadline == TP_NEVER ? NULL : &left, NULL);
		if (n < 0)
			return -errno;
		if (n > 0 || tp_now() >= deadline)
			return n;
	}
}

/* ---- which device: the IA params to an address, the address to a device and port ---- */

/* Where an address leads. */
struct place {
	char device[64];
	uint8_t port;
};

struct search {
	char name[256]; /* the first word of the params */
	unsigned port;	/* the second */
	bool seen;	/* an interface has that name */
	struct ibv_device **devices;
	int ndevices;
	struct rdma_event_channel *cm;
};

static socklen_t addr_size(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6);
}

static const char *addr_text(const struct sockaddr *addr, char *text, size_t size)
{
	return getnameinfo(addr, addr_size(addr), text, (socklen_t)size, NULL, 0, NI_NUMERICHOST)
		       ? "?"
		       : text;
}

/* Asks the connection manager; -ENODEV: no RDMA device has that address. */
static int place_of(struct rdma_event_channel *cm, struct sockaddr *addr, struct place *place)
{
	struct rdma_cm_id *id;
	int err = 0;

	if (rdma_create_id(cm, &id, NULL, RDMA_PS_TCP))
		return -errno;
	if (rdma_bind_addr(id, addr)) {
		err = -errno;
	} else if (!id->verbs) {
		err = -ENODEV;
	} else {
		snprintf(place->device, sizeof(place->device), "%s",
			 ibv_get_device_name(id->verbs->device));
		place->port = id->port_num;
	}
	rdma_destroy_id(id);
	return err;
}

static struct ibv_device *device_named(const struct search *search, const char *name)
{
	for (int i = 0; i < search->ndevices; i++)
		if (!strcmp(ibv_get_device_name(search->devices[i]), name))
			return search->devices[i];
	return NULL;
}

/* How much one address of an interface is to be preferred; 0 = of no use. */
static unsigned addr_rank(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	if (!addr)
		return 0;
	if (addr->sa_family == AF_INET)
		return 3;
	if (addr->sa_family == AF_INET6)
		return IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 1 : 2;
	return 0;
}

/* The most preferred address of this host that @fits. False: none does. */
static bool addr_best(struct search *search, bool (*fits)(struct search *, const struct ifaddrs *),
		      struct sockaddr_storage *addr)
{
	struct ifaddrs *all;
	unsigned best = 0;

	if (getifaddrs(&all)) {
		log_error("open %s: getifaddrs: %s", search->name, strerror(errno));
		return false;
	}
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (!fits(search, one) || addr_rank(one->ifa_addr) <= best)
			continue;
		best = addr_rank(one->ifa_addr);
		memset(addr, 0, sizeof(*addr));
		memcpy(addr, one->ifa_addr, addr_size(one->ifa_addr));
	}
	freeifaddrs(all);
	return best > 0;
}

static bool leads_to_device(struct search *search, const struct ifaddrs *one)
{
	struct place place;

	return addr_rank(one->ifa_addr) && !place_of(search->cm, one->ifa_addr, &place) &&
	       !strcmp(place.device, search->name) && place.port == search->port;
}

/* Every interface is listed, if only with its link address. */
static bool has_name(struct search *search, const struct ifaddrs *one)
{
	bool has = !strcmp(one->ifa_name, search->name);

	search->seen |= has;
	return has;
}

/* "mlx5_0 1" */
static int addr_of_device(struct search *search, struct sockaddr_storage *addr)
{
	if (!device_named(search, search->name))
		return -ENOENT;
	if (!search->port)
		search->port = 1;
	if (addr_best(search, leads_to_device, addr))
		return 0;
	log_error("open %s: no network interface with an IP address belongs to port %u of this "
		  "device",
		  search->name, search->port);
	return -ENODEV;
}

/* "eth0 0" */
static int addr_of_interface(struct search *search, struct sockaddr_storage *addr)
{
	if (addr_best(search, has_name, addr))
		return 0;
	if (!search->seen)
		return -ENOENT;
	log_error("open %s: this interface has no IP address", search->name);
	return -ENODEV;
}

static int addr_resolve(const char *name, int flags, struct sockaddr_storage *addr)
{
	struct addrinfo *found, hints = { .ai_flags = flags, .ai_socktype = SOCK_STREAM };
	int err = getaddrinfo(name, NULL, &hints, &found);

	if (err)
		return err;
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

/* "10.0.0.1 0" */
static int addr_of_number(struct search *search, struct sockaddr_storage *addr)
{
	return addr_resolve(search->name, AI_NUMERICHOST, addr) ? -ENOENT : 0;
}

/*
 * Names that can only be an interface or a device which this host lacks, say because its dat.conf
 * was written for another: a resolver that doesn't answer would cost seconds for each.
 */
static bool is_device_like(const char *name)
{
	static const char *const stems[] = { "ib",     "eth",	 "roce",    "rxe",   "siw", "mlx4_",
					     "mlx5_",  "mthca",	 "ehca",    "ipath", "qib", "hfi1_",
					     "cxgb3_", "cxgb4_", "bnxt_re", "irdma" };

	for (size_t i = 0; i < LENGTH(stems); i++) {
		size_t stem = strlen(stems[i]);

		if (!strncmp(name, stems[i], stem) && name[stem] &&
		    name[stem + strspn(name + stem, "0123456789")] == '\0')
			return true;
	}
	return false;
}

/* "host-ib 0" */
static int addr_of_host(struct search *search, struct sockaddr_storage *addr)
{
	int err = is_device_like(search->name) ? EAI_NONAME : addr_resolve(search->name, 0, addr);

	if (!err)
		return 0;
	log_util("open %s: no such device, interface, address or host: %s", search->name,
		 err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
	return -ENODEV;
}

/* Each says -ENOENT if the name is nothing it knows. */
static int (*const readings[])(struct search *, struct sockaddr_storage *) = {
	addr_of_device,
	addr_of_interface,
	addr_of_number,
	addr_of_host,
};

static void search_parse(struct search *search, const char *params)
{
	size_t length = strcspn(params, " ");

	snprintf(search->name, sizeof(search->name), "%.*s",
		 (int)(length < INT_MAX ? length : INT_MAX), params);
	search->port = (unsigned)strtoul(params + length, NULL, 0);
}

/* Fills in address and port of @dev, too. */
static int search_run(struct search *search, struct tp_dev *dev, struct ibv_device **found)
{
	struct sockaddr *addr = (struct sockaddr *)&dev->attr.addr;
	struct place place;
	char text[NI_MAXHOST];
	int err = -ENOENT;

	for (size_t i = 0; i < LENGTH(readings) && err == -ENOENT; i++)
		err = readings[i](search, &dev->attr.addr);
	if (err)
		return err;
	err = place_of(search->cm, addr, &place);
	if (err) {
		log_error("open %s: rdma_bind_addr to %s: %s%s", search->name,
			  addr_text(addr, text, sizeof(text)), strerror(-err),
			  err == -ENODEV ? ": not an address of an RDMA device" : "");
		return err == -EADDRNOTAVAIL ? -ENODEV : err;
	}
	*found = device_named(search, place.device);
	if (!*found) {
		log_error("open %s: device %s has no user space driver here", search->name,
			  place.device);
		return -ENODEV;
	}
	dev->port = place.port;
	return 0;
}

/* ---- limits ---- */

/* Who a vendor_id means: the PCI vendor, or what a driver made up. */
static const struct vendor {
	uint32_t id;
	const char *name;
	enum tp_forgets forgets;
} vendors[] = {
	{ 0x000000, "soft RoCE", FORGETS_REQUESTS }, /* before Linux 5.11 */
	{ 0xffffff, "soft RoCE", FORGETS_REQUESTS }, { 0x626d74, "soft iWARP", FORGETS_ALL },
	{ 0x0002c9, "Mellanox", FORGETS_NOTHING },   { 0x001077, "QLogic", FORGETS_NOTHING },
	{ 0x001175, "QLogic", FORGETS_NOTHING },     { 0x001425, "Chelsio", FORGETS_NOTHING },
	{ 0x0014e4, "Broadcom", FORGETS_NOTHING },   { 0x0015b3, "Mellanox", FORGETS_NOTHING },
	{ 0x0019e5, "Huawei", FORGETS_NOTHING },     { 0x008086, "Intel", FORGETS_NOTHING },
};

static void vendor_read(struct tp_dev *dev, uint32_t id)
{
	for (size_t i = 0; i < LENGTH(vendors); i++) {
		if (vendors[i].id != id)
			continue;
		snprintf(dev->attr.vendor, sizeof(dev->attr.vendor), "%s", vendors[i].name);
		dev->forgets = vendors[i].forgets;
		return;
	}
	snprintf(dev->attr.vendor, sizeof(dev->attr.vendor), "vendor 0x%06x", id);
}

/* Devices say it in no attribute, so one small queue is tried. */
static bool can_resize(struct ibv_context *ibv)
{
	struct ibv_cq *cq = ibv_create_cq(ibv, 16, NULL, NULL, 0);
	bool can;

	if (!cq)
		return false;
	can = !ibv_resize_cq(cq, 64);
	ibv_destroy_cq(cq);
	return can;
}

static unsigned clamp(int value, unsigned most)
{
	return value < 0 || (unsigned)value > most ? most : (unsigned)value;
}

/*
 * Private data: InfiniBand's messages hold 92 and 196 bytes, and librdmacm puts 36 of its own into
 * a request. On iWARP the kernel's interface is the limit: an 8-bit length, which counts 4 bytes of
 * the enhanced handshake, too.
 */
static void pdata_read(struct tp_dev *dev)
{
	dev->attr.max_request_pdata = dev->iwarp ? UINT8_MAX - 4 : 92 - 36;
	dev->attr.max_reply_pdata = dev->iwarp ? UINT8_MAX - 4 : 196;
}

static void attr_read(struct tp_dev *dev, const struct ibv_device_attr *device,
		      const struct ibv_port_attr *port)
{
	struct tp_attr *attr = &dev->attr;
	unsigned max_sge = clamp(device->max_sge, TP_MAX_SGE);

	snprintf(attr->device, sizeof(attr->device), "%s", ibv_get_device_name(dev->ibv->device));
	vendor_read(dev, device->vendor_id);
	attr->hw_version = device->hw_ver;
	if (sscanf(device->fw_ver, "%u.%u", &attr->fw_major, &attr->fw_minor) < 1)
		log_util("device %s: firmware version \"%s\"", attr->device, device->fw_ver);
	attr->caps = (can_resize(dev->ibv) ? TP_CAP_CQ_RESIZE : 0) |
		     (dev->iwarp ? TP_CAP_READ_NEEDS_WRITE | TP_CAP_WRITE_IS_LOCAL : 0);
	attr->max_qp = clamp(device->max_qp, INT_MAX);
	attr->max_qp_wr = clamp(device->max_qp_wr, INT_MAX);
	attr->max_cq = clamp(device->max_cq, INT_MAX);
	attr->max_cqe = clamp(device->max_cqe, INT_MAX);
	attr->max_mr = clamp(device->max_mr, INT_MAX);
	attr->max_pd = clamp(device->max_pd, INT_MAX);
	attr->max_mw = device->device_cap_flags & IBV_DEVICE_MEM_WINDOW
			       ? clamp(device->max_mw, INT_MAX)
			       : 0;
	attr->max_sge = max_sge;
	attr->max_read_sge = device->max_sge_rd > 0 ? clamp(device->max_sge_rd, max_sge)
			     : dev->iwarp	    ? 1
						    : max_sge;
	attr->max_read_in = clamp(device->max_qp_rd_atom, UINT8_MAX);
	attr->max_read_out = clamp(device->max_qp_init_rd_atom, UINT8_MAX);
	attr->max_read_in_total = clamp(device->max_res_rd_atom, INT_MAX);
	attr->max_mr_size = device->max_mr_size;
	attr->max_message = port->max_msg_sz ? port->max_msg_sz : 1u << 31;
	pdata_read(dev);
}

/* Numbers of the environment: decimal, 0x hex or 0 octal. */
static void env_read(struct tp_dev *dev)
{
	struct tp_env *env = &dev->env;
	const struct variable {
		const char *name;
		unsigned *value, fallback, most;
	} variables[] = {
		{ "DAPL_MAX_INLINE", &env->max_inline, dev->iwarp ? 64 : 200, 1 << 16 },
		{ "DAPL_ACK_TIMER", &env->ack_timer, TP_ACK_TIMER_CM, 31 },
		{ "DAPL_ACK_RETRY", &env->ack_retry, 6, 7 },
		{ "DAPL_RNR_TIMER", &env->rnr_timer, 12, 31 },
		{ "DAPL_CM_ARP_TIMEOUT_MS", &env->arp_timeout, 4000, INT_MAX },
		{ "DAPL_CM_ARP_RETRY_COUNT", &env->arp_retry, 15, INT_MAX },
		{ "DAPL_CM_ROUTE_TIMEOUT_MS", &env->route_timeout, 4000, INT_MAX },
		{ "DAPL_CM_ROUTE_RETRY_COUNT", &env->route_retry, 15, INT_MAX },
	};

	for (size_t i = 0; i < LENGTH(variables); i++) {
		const struct variable *one = &variables[i];
		const char *text = getenv(one->name);
		unsigned long value;
		char *end;

		*one->value = one->fallback;
		if (!text || !*text)
			continue;
		value = strtoul(text, &end, 0);
		if (*end || value > one->most)
			log_warn("%s=%s: not a number from 0 to %u, ignored", one->name, text,
				 one->most);
		else
			*one->value = (unsigned)value;
	}
}

/* ---- open and close ---- */

static int ibv_open(struct tp_dev *dev, struct ibv_device *device, const char *name)
{
	struct ibv_device_attr device_attr;
	struct ibv_port_attr port_attr;
	const char *step = "ibv_open_device";
	int err;

	dev->ibv = ibv_open_device(device);
	if (!dev->ibv) {
		err = errno ? errno : EIO;
		goto report;
	}
	step = "ibv_query_device";
	err = ibv_query_device(dev->ibv, &device_attr);
	if (err)
		goto close_ibv;
	step = "ibv_query_port";
	err = ibv_query_port(dev->ibv, dev->port, &port_attr);
	if (err)
		goto close_ibv;
	dev->iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
	env_read(dev);
	attr_read(dev, &device_attr, &port_attr);
	return 0;
close_ibv:
	ibv_close_device(dev->ibv);
report:
	log_error("open %s: %s %s port %u: %s", name, step, ibv_get_device_name(device), dev->port,
		  strerror(err));
	return -err;
}

static void async_events(struct tp_dev *dev);

/* What may become readable, in the order of struct epoll_event's data. */
static const struct source {
	void (*run)(struct tp_dev *dev);
} sources[] = {
	{ cm_events },
	{ async_events },
	{ cm_outcomes },
	{ cm_reap },
};

static int sources_add(struct tp_dev *dev)
{
	const int fds[LENGTH(sources)] = { dev->cm->fd, dev->ibv->async_fd, dev->wake, dev->timer };

	for (unsigned i = 0; i < LENGTH(sources); i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };

		if (fcntl(fds[i], F_SETFL, O_NONBLOCK) || fcntl(fds[i], F_SETFD, FD_CLOEXEC) ||
		    epoll_ctl(dev->epoll, EPOLL_CTL_ADD, fds[i], &event))
			return -errno;
	}
	return 0;
}

static int sources_open(struct tp_dev *dev)
{
	int err;

	dev->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (dev->epoll < 0)
		return -errno;
	dev->wake = wakefd_open();
	if (dev->wake < 0) {
		err = dev->wake;
		goto close_epoll;
	}
	dev->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (dev->timer < 0) {
		err = -errno;
		goto close_wake;
	}
	err = sources_add(dev);
	if (err)
		goto close_timer;
	return 0;
close_timer:
	close(dev->timer);
close_wake:
	close(dev->wake);
close_epoll:
	close(dev->epoll);
	return err;
}

static void sources_close(struct tp_dev *dev)
{
	close(dev->timer);
	close(dev->wake);
	close(dev->epoll);
}

/* Once in a process, before anything is registered. */
static void process_init(void)
{
	/*
	 * Where the kernel copies pinned pages at fork, asking for more would cost a system call
	 * per registration.
	 */
	int err = ibv_is_fork_initialized() == IBV_FORK_UNNEEDED ? 0 : ibv_fork_init();

	if (err)
		log_util("ibv_fork_init: %s: a child must not touch registered memory",
			 strerror(err));
	memlock_check();
}

/* With the connection manager's channel open. */
static int dev_find(struct tp_dev *dev, struct search *search)
{
	struct ibv_device *device;
	int err;

	search->cm = dev->cm;
	err = search_run(search, dev, &device);
	if (err)
		return err;
	return ibv_open(dev, device, search->name);
}

static int dev_make(struct search *search, struct ia *ia, struct tp_dev **dev_out)
{
	struct tp_dev *dev = calloc(1, sizeof(*dev));
	int err;

	if (!dev)
		return -ENOMEM;
	dev->holders = 1;
	dev->ia = ia;
	err = cm_open(dev);
	if (err) {
		log_error("open %s: rdma_create_event_channel: %s", search->name, strerror(-err));
		goto free_dev;
	}
	err = dev_find(dev, search);
	if (err)
		goto close_cm;
	err = sources_open(dev);
	if (err) {
		log_error("open %s: descriptors: %s", search->name, strerror(-err));
		goto close_ibv;
	}
	*dev_out = dev;
	return 0;
close_ibv:
	ibv_close_device(dev->ibv);
close_cm:
	cm_close(dev);
free_dev:
	free(dev);
	return err;
}

int tp_dev_open(const char *params, struct ia *ia, struct tp_dev **dev)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct search search = { 0 };
	int err;

	search_parse(&search, params);
	/* Before any call to librdmacm, which would complain on stderr. */
	search.devices = ibv_get_device_list(&search.ndevices);
	if (!search.devices || !search.ndevices) {
		log_util("open %s: this host has no RDMA device", search.name);
		err = -ENODEV;
	} else {
		pthread_once(&once, process_init);
		err = dev_make(&search, ia, dev);
	}
	if (search.devices)
		ibv_free_device_list(search.devices);
	return err;
}

void dev_put(struct tp_dev *dev)
{
	if (--dev->holders)
		return;
	ibv_close_device(dev->ibv);
	free(dev);
}

void tp_dev_close(struct tp_dev *dev)
{
	cm_close(dev); /* first: helpers write to dev->wake to the last */
	sources_close(dev);
	dev_put(dev);
}

const struct tp_attr *tp_dev_attr(const struct tp_dev *dev)
{
	return &dev->attr;
}

/* ---- events ---- */

int tp_dev_fd(const struct tp_dev *dev)
{
	return dev->epoll;
}

void tp_dev_progress(struct tp_dev *dev)
{
	struct epoll_event ready[LENGTH(sources)];
	int n = epoll_wait(dev->epoll, ready, LENGTH(sources), 0);

	for (int i = 0; i < n; i++)
		sources[ready[i].data.u32].run(dev);
}

void dev_is_fatal(struct tp_dev *dev)
{
	if (dev->fatal)
		return;
	dev->fatal = true;
	up_dev_fatal(dev->ia);
}

static void qp_event(struct ibv_qp *ibv, bool heard)
{
	struct tp_qp *qp = ibv->qp_context;

	if (!heard && qp->ep)
		up_qp_broken(qp->ep);
	else if (heard && qp->conn)
		cm_heard(qp->conn);
}

static void async_event(struct tp_dev *dev, const struct ibv_async_event *event)
{
	const struct tp_cq *cq;

	log_util("device %s: %s", dev->attr.device, ibv_event_type_str(event->event_type));
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
		qp_event(event->element.qp, event->event_type == IBV_EVENT_COMM_EST);
		break;
	case IBV_EVENT_CQ_ERR:
		cq = event->element.cq->cq_context;
		if (cq->evd)
			up_cq_overrun(cq->evd);
		break;
	case IBV_EVENT_PORT_ERR:
		if (event->element.port_num == dev->port)
			up_port_down(dev->ia);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		dev_is_fatal(dev);
		break;
	default:
		break;
	}
}

/* Acknowledged after the upcall: until then the object it is about can't go. */
static void async_events(struct tp_dev *dev)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(dev->ibv, &event)) {
		async_event(dev, &event);
		ibv_ack_async_event(&event);
	}
}
