/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, their limits, asynchronous events. */
#include "impl.h"

/* The callers of these have seen the headers' macros, which redirect them. */
#undef ibv_query_port
#undef ibv_get_device_list

const struct ibv_context_ops fv_ops = {
	.alloc_mw = fv_alloc_mw,
	.bind_mw = fv_bind_mw,
	.dealloc_mw = fv_dealloc_mw,
	.poll_cq = fv_poll_cq,
	.req_notify_cq = fv_req_notify_cq,
	.post_send = fv_post_send,
	.post_recv = fv_post_recv,
	.post_srq_recv = fv_post_srq_recv,
};

/* Generous limits, vendor "Mellanox". */
static const struct ibv_device_attr default_attr = {
	.fw_ver = "16.35.2000",
	.max_mr_size = UINT64_MAX,
	.vendor_id = 0x02c9,
	.hw_ver = 1,
	.max_qp = 1 << 17,
	.max_qp_wr = 1 << 15,
	.device_cap_flags = IBV_DEVICE_MEM_WINDOW,
	.max_sge = 30,
	.max_sge_rd = 30,
	.max_cq = 1 << 20,
	.max_cqe = (1 << 22) - 1,
	.max_mr = 1 << 24,
	.max_pd = 1 << 24,
	.max_qp_rd_atom = 16,
	.max_res_rd_atom = 1 << 20,
	.max_qp_init_rd_atom = 16,
	.max_mw = 1 << 16,
	.phys_port_cnt = 2,
};

static void __attribute__((constructor)) devices_init(void)
{
	for (unsigned i = 0; i < FV_DEVICES; i++) {
		struct fv_device *device = &fv.devices[i];

		*device = (struct fv_device){
			.ibv = { .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB },
			.attr = default_attr,
			.port = { .state = IBV_PORT_ACTIVE,
				  .max_msg_sz = 1u << 30,
				  .pkey_tbl_len = 8 },
			.pkey_index = 3, /* not the default */
			.gid_index = 5,
			.max_inline = 512,
			.max_wr = 1 << 15,
			.max_sge = 30,
			.max_cqe = (1 << 22) - 1,
		};
		snprintf(device->ibv.name, sizeof(device->ibv.name), "fv%u", i);
	}
}

struct fv_device *fv_device(unsigned n)
{
	return &fv.devices[n];
}

void fv_make_iwarp(unsigned n)
{
	fv.devices[n].ibv.node_type = IBV_NODE_RNIC;
	fv.devices[n].ibv.transport_type = IBV_TRANSPORT_IWARP;
}

/* ---- the list, and contexts ---- */

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list;

	if (fv_enter_errno(CALL_ibv_get_device_list))
		return NULL;
	list = calloc(FV_DEVICES + 1, sizeof(struct ibv_device *));
	*count = 0;
	for (unsigned i = 0; list && i < FV_DEVICES; i++)
		if (!fv.devices[i].absent)
			list[(*count)++] = &fv.devices[i].ibv;
	if (list)
		fv_alive_add(FV_DEVICE_LIST, 1);
	fv_unlock();
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)fv_enter(CALL_ibv_free_device_list);
	free(list);
	fv_alive_add(FV_DEVICE_LIST, -1);
	fv_unlock();
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int query_device_ex(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	int err = fv_enter(CALL_ibv_query_device_ex);

	(void)input;
	if (err)
		return err;
	memset(attr, 0, size);
	attr->orig_attr = fv_device_of(ibv)->attr;
	attr->odp_caps = fv_device_of(ibv)->on_demand;
	fv_unlock();
	return 0;
}

static struct fv_context *context_new(struct fv_device *device, bool counted)
{
	struct fv_context *context = calloc(1, sizeof(*context));

	fv_require(context, "no memory for a context");
	context->ex.sz = sizeof(context->ex);
	context->ex.query_device_ex = query_device_ex;
	context->ex.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->ex.context.device = &device->ibv;
	context->ex.context.ops = fv_ops;
	context->ex.context.async_fd = fv_fd_open();
	context->device = device;
	context->counted = counted;
	context->events_end = &context->events;
	context->next = fv.contexts;
	fv.contexts = context;
	return context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fv_context *context;

	if (fv_enter_errno(CALL_ibv_open_device))
		return NULL;
	context = context_new((struct fv_device *)device, true);
	fv_alive_add(FV_CONTEXT, 1);
	fv_unlock();
	return &context->ex.context;
}

/* librdmacm opens each device once and never closes it. */
struct ibv_context *fv_cm_context(int device)
{
	struct fv_context *context = fv.contexts;

	while (context && (context->counted || context->device != &fv.devices[device]))
		context = context->next;
	if (!context)
		context = context_new(&fv.devices[device], false);
	return &context->ex.context;
}

int ibv_close_device(struct ibv_context *ibv)
{
	struct fv_context *context = fv_context_of(ibv), **link = &fv.contexts;
	struct fv_async *event;
	int err = fv_enter_errno(CALL_ibv_close_device);

	if (err)
		return -1;
	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
	while ((event = context->events)) {
		context->events = event->next;
		free(event);
	}
	close(ibv->async_fd);
	free(context);
	fv_alive_add(FV_CONTEXT, -1);
	fv_unlock();
	return 0;
}

int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
	int err = fv_enter(CALL_ibv_query_device);

	if (err)
		return err;
	*attr = fv_device_of(ibv)->attr;
	fv_unlock();
	return 0;
}

/* libibverbs' inline function has cleared the whole of *@attr, which is a struct ibv_port_attr. */
int ibv_query_port(struct ibv_context *ibv, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	int err = fv_enter(CALL_ibv_query_port);

	if (err)
		return err;
	if (port >= 1 && port <= fv_device_of(ibv)->attr.phys_port_cnt)
		*(struct ibv_port_attr *)attr = fv_device_of(ibv)->port;
	else
		err = EINVAL;
	fv_unlock();
	return err;
}

int ibv_query_gid(struct ibv_context *ibv, uint8_t port, int index, union ibv_gid *gid)
{
	const struct fv_device *device = fv_device_of(ibv);
	int err = fv_enter(CALL_ibv_query_gid);

	if (err)
		return -1;
	fv_require(port >= 1 && port <= device->attr.phys_port_cnt, "no such port");
	fv_require(index >= 0 && index < (int)COUNT_OF(device->gids), "no such GID");
	*gid = device->gids[index];
	fv_unlock();
	return 0;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return ((struct fv_device *)device)->guid;
}

int ibv_fork_init(void)
{
	int err = fv_enter(CALL_ibv_fork_init);

	if (!err)
		fv_unlock();
	return err;
}

/* Scripted to fail with -n it returns n, an enum ibv_fork_status. */
enum ibv_fork_status ibv_is_fork_initialized(void)
{
	int err = fv_enter(CALL_ibv_is_fork_initialized);

	if (!err)
		fv_unlock();
	return err ? (enum ibv_fork_status) - err : IBV_FORK_DISABLED;
}

/* ---- asynchronous events ---- */

void fv_async_event(unsigned device, const struct ibv_async_event *event)
{
	fv_lock();
	for (struct fv_context *context = fv.contexts; context; context = context->next) {
		struct fv_async *async;

		if (!context->counted || context->device != &fv.devices[device])
			continue;
		async = calloc(1, sizeof(*async));
		fv_require(async, "no memory for an event");
		async->event = *event;
		*context->events_end = async;
		context->events_end = &async->next;
		fv_fd_add(context->ex.context.async_fd);
	}
	fv_unlock();
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct fv_context *context = fv_context_of(ibv);
	struct fv_async *async;

	if (fv_enter_errno(CALL_ibv_get_async_event))
		return -1;
	if (!fv_fd_take(ibv->async_fd)) {
		fv_unlock();
		return -1;
	}
	async = context->events;
	context->events = async->next;
	if (!context->events)
		context->events_end = &context->events;
	*event = async->event;
	free(async);
	fv_alive_add(FV_ASYNC_EVENT, 1);
	fv_unlock();
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	(void)fv_enter(CALL_ibv_ack_async_event);
	fv_alive_add(FV_ASYNC_EVENT, -1);
	fv_unlock();
}

/* The kernel removes them; libibverbs waits until those that were read are acknowledged. */
void fv_async_drop_relock(const void *object)
{
	while (fv.alive[FV_ASYNC_EVENT])
		fv_sleep_relock("an object is destroyed before its event is acknowledged");
	for (struct fv_context *context = fv.contexts; context; context = context->next) {
		struct fv_async **link = &context->events, *one;

		while ((one = *link)) {
			if (one->event.element.qp != object) {
				link = &one->next;
				continue;
			}
			*link = one->next;
			free(one);
			(void)fv_fd_take(context->ex.context.async_fd);
		}
		context->events_end = link;
	}
}

/* ---- texts ---- */

const char *ibv_event_type_str(enum ibv_event_type type)
{
	static _Thread_local char text[32];

	snprintf(text, sizeof(text), "event %d", (int)type);
	return text;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static _Thread_local char text[32];

	snprintf(text, sizeof(text), "status %d", (int)status);
	return text;
}
