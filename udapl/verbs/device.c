/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing a device, its limits, its descriptors and asynchronous events. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/memlock.h"
#include "host/nodes.h"
#include "verbs.h"

const char tp_library_name[] = "libdaplcma";

/* ---- limits ---- */

/*
 * What is known of devices by their vendor_id, which is the vendor's PCI number, or a number that a
 * software driver made up.
 */
static const struct vendor {
	uint32_t id;
	const char *name;
	enum solicited_quirk solicited;
	unsigned caps;	  /* beside those that are asked for */
	unsigned no_caps; /* that it does not have although it seems to */
} vendors[] = {
	/*
	 * It checks the receives of an SRQ against the protection domain of the queue pair. Since
	 * Linux 6.16 it grants pages on demand, but transfers the bytes at the beginning of a page
	 * in place of those that were asked for. The first number was used before Linux 5.11.
	 */
	{ 0x000000, "soft RoCE", SOLICITED_MISSES_SEND_ERRORS, 0,
	  TP_CAP_SRQ_ANY_PD | TP_CAP_ON_DEMAND },
	{ 0xffffff, "soft RoCE", SOLICITED_MISSES_SEND_ERRORS, 0,
	  TP_CAP_SRQ_ANY_PD | TP_CAP_ON_DEMAND },
	/*
	 * Its library makes a system call with its lock of the queue taken. It registers zero-based
	 * regions, but has them addressed as the memory is.
	 */
	{ 0x626d74, "soft iWARP", SOLICITED_MISSES_ALL,
	  TP_CAP_LOSES_READS | TP_CAP_UNCANCELLED_POSTS, TP_CAP_ZERO_BASED },
	{ 0x0002c9, "Mellanox", SOLICITED_WORKS, 0, 0 },
	{ 0x001077, "QLogic", SOLICITED_WORKS, 0, 0 },
	{ 0x001175, "QLogic", SOLICITED_WORKS, 0, 0 },
	{ 0x001425, "Chelsio", SOLICITED_WORKS, 0, 0 },
	{ 0x0014e4, "Broadcom", SOLICITED_WORKS, 0, 0 },
	{ 0x0015b3, "Mellanox", SOLICITED_WORKS, 0, 0 },
	{ 0x0019e5, "Huawei", SOLICITED_WORKS, 0, 0 },
	{ 0x008086, "Intel", SOLICITED_WORKS, 0, 0 },
};

/* Notes what is known of the vendor; no_caps holds whatever is found out about the device. */
static void vendor_read(struct tp_dev *dev, uint32_t id)
{
	for (size_t i = 0; i < ARRAY_SIZE(vendors); i++) {
		if (vendors[i].id != id)
			continue;
		snprintf(dev->attr.vendor, sizeof(dev->attr.vendor), "%s", vendors[i].name);
		dev->solicited = vendors[i].solicited;
		dev->attr.caps |= vendors[i].caps;
		dev->no_caps = vendors[i].no_caps;
		return;
	}
	snprintf(dev->attr.vendor, sizeof(dev->attr.vendor), "vendor 0x%06x", id);
	/*
	 * solicited events may not work: an interrupt too many costs less than a failure nobody
	 * sees
	 */
	dev->solicited = SOLICITED_MISSES_SEND_ERRORS;
	dev->no_caps = TP_CAP_SRQ_ANY_PD;
}

/*
 * Warns of a setting with which the provider library of mlx5 uses no locks, and aborts if it
 * notices two threads.
 */
static void single_threaded_check(const struct tp_dev *dev)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	const char *value = getenv("MLX5_SINGLE_THREADED");

	if (!value || strcmp(value, "1") != 0 || strcmp(dev->attr.vendor, "Mellanox") != 0)
		return;
	if (!atomic_flag_test_and_set(&warned))
		log_warn("MLX5_SINGLE_THREADED=1 is unsafe, because each IA has a thread that "
			 "uses the device, too; unset it");
}

/* Tries ibv_resize_cq on a small CQ, because no device attribute says whether it works. */
static bool can_resize_cq(struct ibv_context *ibv)
{
	struct ibv_cq *cq = ibv_create_cq(ibv, 16, NULL, NULL, 0);
	bool can;

	if (!cq)
		return false;
	can = !ibv_resize_cq(cq, 64);
	ibv_destroy_cq(cq);
	return can;
}

/* Tries a window, because some devices advertise them, but their driver or its set-up has none. */
static bool can_alloc_window(struct ibv_context *ibv, enum ibv_mw_type type)
{
	struct ibv_pd *pd = ibv_alloc_pd(ibv);
	struct ibv_mw *mw;

	if (!pd)
		return false;
	mw = ibv_alloc_mw(pd, type);
	if (mw)
		ibv_dealloc_mw(mw);
	ibv_dealloc_pd(pd);
	return mw != NULL;
}

/* Tries a zero-based region, as no device attribute says whether one can be had. */
static bool can_be_zero_based(struct ibv_context *ibv)
{
	static char page[1] __attribute__((aligned(65536))); /* of any size */
	struct ibv_pd *pd = ibv_alloc_pd(ibv);
	struct ibv_mr *mr;

	if (!pd)
		return false;
	mr = ibv_reg_mr_iova(pd, page, sizeof(page), 0, 0);
	if (mr)
		ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	return mr != NULL;
}

/* Of what DAT 2.0 can tell a consumer, and DAT 1.2 can't, returns what the device has. */
static unsigned caps_of_edition(struct ibv_context *ibv, unsigned flags)
{
	unsigned caps;

	if (DAT_EDITION == 1)
		return 0;
	caps = can_be_zero_based(ibv) ? TP_CAP_ZERO_BASED : 0;
	if (!(flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) ||
	    !can_alloc_window(ibv, IBV_MW_TYPE_2))
		return caps;
	return caps | TP_CAP_QP_WINDOWS |
	       (flags & IBV_DEVICE_MEM_MGT_EXTENSIONS ? TP_CAP_INVALIDATE : 0);
}

static unsigned clamp(int value, unsigned max)
{
	return value < 0 || (unsigned)value > max ? max : (unsigned)value;
}

/*
 * InfiniBand's request, reply and rejection hold 92, 196 and 148 bytes of private data; librdmacm
 * uses 36 of the request, and dapl 4 of the rejection. On iWARP the kernel's interface is the
 * limit: an 8-bit length, which includes 4 bytes of the enhanced MPA handshake. Of a rejection,
 * which would arrive as an error if it were longer, dapl's 4 are in it, too.
 */
static void private_data_limits(struct tp_dev *dev)
{
	dev->attr.max_request_pdata = dev->iwarp ? UINT8_MAX - 4 : 92 - 36;
	dev->attr.max_reply_pdata = dev->iwarp ? UINT8_MAX - 4 : 196;
	dev->attr.max_reject_pdata = dev->iwarp ? UINT8_MAX - 4 - 4 : 148 - 4;
}

/* Soft-RoCE gives the flag of the kernel, which has another number here. */
static void invalidated_flags_set(struct tp_dev *dev)
{
#if DAT_EDITION == 2
	dev->invalidated_flags = IBV_WC_WITH_INV;
	if (strcmp(dev->attr.vendor, "soft RoCE") == 0)
		dev->invalidated_flags |= IBV_WC_IP_CSUM_OK;
#else
	(void)dev;
#endif
}

/* Returns what a device that is not iWARP has for the extensions of DAT 2.0. */
static unsigned extensions_of(const struct ibv_device_attr *device)
{
	if (DAT_EDITION != 2)
		return 0;
	return TP_CAP_IMMED | (device->atomic_cap != IBV_ATOMIC_NONE ? TP_CAP_ATOMIC : 0);
}

/*
 * Says how large datagrams are, if the device has them: it is tried. The messages of SIDR hold 216
 * and 136 bytes. Of the former librdmacm uses 36, and the transport its header, so that there is
 * room for max_request_pdata; of a rejection the transport's header is 4.
 */
static void datagram_limits(struct tp_dev *dev, const struct ibv_port_attr *port)
{
	struct ibv_pd *pd = ibv_alloc_pd(dev->ibv);
	struct ibv_cq *cq = ibv_create_cq(dev->ibv, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;

	if (qp) {
		dev->attr.max_datagram = mtu_bytes(port->active_mtu);
		dev->attr.max_datagram_reply_pdata = 136;
		dev->attr.max_datagram_reject_pdata = 136 - 4;
		ibv_destroy_qp(qp);
	}
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
}

static void attr_read(struct tp_dev *dev, const struct ibv_device_attr *device,
		      const struct ibv_port_attr *port)
{
	struct tp_attr *attr = &dev->attr;
	unsigned max_sge = clamp(device->max_sge, TP_MAX_SGE);

	snprintf(attr->device, sizeof(attr->device), "%s", ibv_get_device_name(dev->ibv->device));
	vendor_read(dev, device->vendor_id);
	invalidated_flags_set(dev);
	attr->hw_version = device->hw_ver;
	if (sscanf(device->fw_ver, "%u.%u", &attr->fw_major, &attr->fw_minor) < 1)
		log_util("%s: firmware version \"%s\" is not of the form major.minor", attr->device,
			 device->fw_ver);
	attr->caps |= (can_resize_cq(dev->ibv) ? TP_CAP_CQ_RESIZE : 0) |
		      (dev->iwarp ? TP_CAP_READ_NEEDS_WRITE | TP_CAP_WRITE_IS_LOCAL |
					    TP_CAP_ORDERED_READS
				  : extensions_of(device)) |
		      caps_of_edition(dev->ibv, device->device_cap_flags);
	attr->max_qp = clamp(device->max_qp, INT_MAX);
	attr->max_qp_wr = clamp(device->max_qp_wr, dev->env.wr_max);
	attr->max_cq = clamp(device->max_cq, INT_MAX);
	attr->max_cqe = clamp(device->max_cqe, INT_MAX);
	attr->max_mr = clamp(device->max_mr, INT_MAX);
	attr->max_pd = clamp(device->max_pd, INT_MAX);
	if (device->device_cap_flags & IBV_DEVICE_MEM_WINDOW &&
	    can_alloc_window(dev->ibv, IBV_MW_TYPE_1))
		attr->max_mw = clamp(device->max_mw, INT_MAX);
	attr->max_srq_wr = clamp(device->max_srq_wr, dev->env.wr_max);
	attr->max_srq_sge = clamp(device->max_srq_sge, TP_MAX_SGE);
	if (attr->max_srq_wr && attr->max_srq_sge)
		attr->max_srq = clamp(device->max_srq, INT_MAX);
	if (attr->max_srq)
		srq_probe(dev);
	attr->caps &= ~dev->no_caps;
	attr->max_sge = max_sge;
	attr->max_read_wr_sge = device->max_sge_rd > 0 ? clamp(device->max_sge_rd, max_sge)
				: dev->iwarp	       ? 1
						       : max_sge;
	attr->max_read_sge = dev->iwarp ? max_sge : attr->max_read_wr_sge;
	attr->max_read_in = clamp(device->max_qp_rd_atom, UINT8_MAX);
	attr->max_read_out = clamp(device->max_qp_init_rd_atom, UINT8_MAX);
	attr->max_read_in_total = clamp(device->max_res_rd_atom, INT_MAX);
	attr->max_mr_size = device->max_mr_size;
	attr->max_message = port->max_msg_sz ? port->max_msg_sz : 1u << 31;
	private_data_limits(dev);
	if (DAT_EDITION == 2 && !dev->iwarp)
		datagram_limits(dev, port);
}

/* ---- descriptors ---- */

/* The order in which tp_dev_progress is told which of the descriptors are ready. */
enum { FD_CM, FD_ASYNC };

static void async_events(struct tp_dev *dev);

unsigned tp_dev_fds(const struct tp_dev *dev, int fds[TP_DEV_FDS])
{
	fds[FD_CM] = dev->cm->fd;
	fds[FD_ASYNC] = dev->ibv->async_fd;
	return TP_DEV_FDS;
}

static int fd_prepare(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC) ? -errno : 0;
}

bool tp_dev_progress(struct tp_dev *dev, unsigned ready)
{
	up_assert_locked(dev->ia);
	if (ready & 1u << FD_ASYNC)
		async_events(dev);
	return cm_progress(dev, ready & 1u << FD_CM);
}

/* ---- open and close ---- */

/*
 * Logs why the device can't be opened, if a look at its nodes tells that. Returns whether it does.
 */
static bool nodes_failed(const char *name)
{
	struct nodes nodes;

	nodes_look(&nodes);
	if (nodes.state == NODES_COMPLETE || nodes.state == NODES_NO_DEVICE)
		return false;
	log_error("open %s: %s", name, nodes.text);
	return true;
}

/* Opens the libibverbs device and reads its limits. */
static int context_open(struct tp_dev *dev, struct ibv_device *device, const char *name)
{
	struct ibv_device_attr device_attr;
	struct ibv_port_attr port_attr;
	const char *call = "ibv_open_device";
	int err;

	dev->ibv = ibv_open_device(device);
	if (!dev->ibv) {
		err = errno ? errno : EIO;
		if (nodes_failed(name))
			return -err;
		goto report;
	}
	call = "ibv_query_device";
	err = ibv_query_device(dev->ibv, &device_attr);
	if (err)
		goto close_context;
	call = "ibv_query_port";
	err = ibv_query_port(dev->ibv, dev->port, &port_attr);
	if (err)
		goto close_context;
	dev->iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
	dev->has_pkeys = port_attr.pkey_tbl_len > 1;
	env_read(dev);
	attr_read(dev, &device_attr, &port_attr);
	mem_init(dev);
	single_threaded_check(dev);
	return 0;
close_context:
	ibv_close_device(dev->ibv);
report:
	log_error("open %s: %s of device %s port %u: %s", name, call, ibv_get_device_name(device),
		  dev->port, strerror(err));
	return -err;
}

/* Does what has to be done once in a process, before memory is registered. */
static void process_init(void)
{
	/*
	 * ibv_fork_init costs a system call per registration. It is not needed where the kernel
	 * copies pinned pages at fork.
	 */
	int err = ibv_is_fork_initialized() == IBV_FORK_UNNEEDED ? 0 : ibv_fork_init();

	if (err)
		log_util("ibv_fork_init: %s: child processes must not touch registered memory",
			 strerror(err));
	memlock_check();
}

/* Does the part of dev_new that needs the channel of librdmacm. */
static int dev_find(struct tp_dev *dev, struct lookup *lookup)
{
	struct ibv_device *device;
	int err;

	lookup->cm = dev->cm;
	dev->wants_on_demand = lookup->on_demand;
	err = lookup_run(lookup, dev, &device);
	if (err)
		return err;
	return context_open(dev, device, lookup->name);
}

static int dev_new(struct lookup *lookup, struct ia *ia, struct tp_dev **dev_out)
{
	struct tp_dev *dev = calloc(1, sizeof(*dev));
	int err;

	if (!dev)
		return -ENOMEM;
	dev->holders = 1;
	dev->ia = ia;
	windows_init(dev);
	err = cm_open(dev);
	if (err) {
		if (!nodes_failed(lookup->name))
			log_error("open %s: rdma_create_event_channel: %s", lookup->name,
				  strerror(-err));
		goto free_dev;
	}
	err = dev_find(dev, lookup);
	if (err)
		goto close_cm;
	err = fd_prepare(dev->cm->fd);
	if (!err)
		err = fd_prepare(dev->ibv->async_fd);
	if (err) {
		log_error("open %s: fcntl of the descriptors of device %s: %s", lookup->name,
			  dev->attr.device, strerror(-err));
		goto close_context;
	}
	*dev_out = dev;
	return 0;
close_context:
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
	struct lookup lookup;
	int err;

	/*
	 * on a host without a device librdmacm would print a complaint, so it is not called there
	 */
	err = lookup_begin(&lookup, params);
	if (err)
		return err;
	pthread_once(&once, process_init);
	err = dev_new(&lookup, ia, dev);
	lookup_end(&lookup);
	return err;
}

void dev_put(struct tp_dev *dev)
{
	if (--dev->holders)
		return;
	ibv_close_device(dev->ibv);
	srq_table_destroy(dev);
	free(dev);
}

/*
 * Has librdmacm find that a device is gone: until then it has a context of its own on it, and as
 * long as there is one, the driver may not be able to remove the device.
 */
static void librdmacm_look_for_devices(void)
{
	struct ibv_context **devices = rdma_get_devices(NULL);

	if (devices)
		rdma_free_devices(devices);
}

void tp_dev_close(struct tp_dev *dev)
{
	bool removed = dev->removed;

	cm_close(dev);
	dev_put(dev);
	if (removed)
		librdmacm_look_for_devices();
}

/*
 * The kernel ends connections, and tells their peers, when the last process closes the event
 * channel. libibverbs and librdmacm may only be called by the parent: what they would destroy is
 * the parent's.
 */
void tp_dev_after_fork(struct tp_dev *dev)
{
	close(dev->cm->fd);
}

atomic_uint librdmacm_calls;

bool tp_was_in_call(void)
{
	return atomic_load(&librdmacm_calls) > 0;
}

const struct tp_attr *tp_dev_attr(const struct tp_dev *dev)
{
	return &dev->attr;
}

/* ---- asynchronous events ---- */

static void async_event(struct tp_dev *dev, const struct ibv_async_event *event)
{
	const struct tp_cq *cq;
	const struct tp_qp *qp;
	const struct tp_srq *srq;

	log_util("%s: asynchronous event: %s", dev->attr.device,
		 ibv_event_type_str(event->event_type));
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		qp = event->element.qp->qp_context;
		if (qp->ep)
			up_qp_broken(qp->ep, qp);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		qp = event->element.qp->qp_context;
		if (qp->ep)
			up_qp_last_receive(qp->ep, qp);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		srq = event->element.srq->srq_context;
		if (srq->srq)
			up_srq_limit(srq->srq);
		break;
	case IBV_EVENT_SRQ_ERR:
		srq = event->element.srq->srq_context;
		if (srq->srq)
			up_srq_broken(srq->srq);
		break;
	case IBV_EVENT_COMM_EST:
		qp = event->element.qp->qp_context;
		if (qp->conn)
			cm_conn_comm_established(qp->conn);
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
		up_dev_fatal(dev->ia);
		break;
	default:
		break;
	}
}

/*
 * Takes all asynchronous events. Each is acknowledged after the upcall, because the destruction of
 * the object that it is about waits for that.
 */
static void async_events(struct tp_dev *dev)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(dev->ibv, &event)) {
		async_event(dev, &event);
		ibv_ack_async_event(&event);
	}
}
