/* SPDX-License-Identifier: BSD-2-Clause */
/* Transfers: they are executed as they are posted, and complete in the order of the posts. */
#include "impl.h"

/* ---- bytes ---- */

static size_t iov_length(const struct iovec *iov, size_t count)
{
	size_t length = 0;

	for (size_t i = 0; i < count; i++)
		length += iov[i].iov_len;
	return length;
}

static void iov_gather(char *to, const struct iovec *iov, size_t count)
{
	for (size_t i = 0; i < count; to += iov[i++].iov_len)
		if (iov[i].iov_len)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
}

static void iov_scatter(const struct iovec *iov, size_t count, const char *from, size_t length)
{
	for (size_t i = 0; i < count && length; i++) {
		size_t n = length < iov[i].iov_len ? length : iov[i].iov_len;

		if (n)
			memcpy(iov[i].iov_base, from, n);
		from += n;
		length -= n;
	}
}

/* ---- messages and receives ---- */

static struct ff_receive *receive_take(struct ff_ep *ep)
{
	struct ff_receive *receive = ep->receives;

	ep->receives = receive->next;
	if (!ep->receives)
		ep->receives_end = &ep->receives;
	return receive;
}

void ff_receives_drop(struct ff_ep *ep)
{
	while (ep->receives)
		free(receive_take(ep));
}

void ff_receives_flush(struct ff_ep *ep)
{
	while (ep->receives) {
		struct ff_receive *receive = receive_take(ep);

		ff_entry_add(ep->rx, receive->context, FI_RECV | FI_MSG, 0, FI_ECANCELED);
		free(receive);
	}
}

static void message_remove(struct ff_ep *ep)
{
	struct ff_message *message = ep->messages;

	ep->messages = message->next;
	if (!ep->messages)
		ep->messages_end = &ep->messages;
	free(message);
}

void ff_messages_free(struct ff_ep *ep)
{
	while (ep->messages)
		message_remove(ep);
}

static void message_taken(struct ff_message *message, int err)
{
	if (message->from)
		ff_entry_add(message->from->tx, message->context, message->flags, 0, err);
	message->from = NULL;
}

void ff_sends_flush(struct ff_ep *ep)
{
	for (struct ff_message *message = ep->messages; message; message = message->next)
		message_taken(message, FI_ECANCELED);
}

/* Completes the receive that the message has taken, as a message or a write. */
static void receive_complete(struct ff_ep *ep, const struct ff_message *message, void *context,
			     int err)
{
	const bool write = message->flags & FI_WRITE;
	struct fi_cq_err_entry *entry = ff_entry_add(
		ep->rx, context, write ? FI_REMOTE_WRITE | FI_RMA : FI_RECV | FI_MSG,
		err ? 0 : message->length + message->written, err);

	if (!message->has_data)
		return;
	entry->flags |= FI_REMOTE_CQ_DATA;
	entry->data = message->data;
}

/* As long as there are both. */
static void messages_deliver(struct ff_ep *ep)
{
	struct ff_ep *from = ep->srx ? ep->srx : ep;

	while (ep->messages && from->receives) {
		struct ff_message *message = ep->messages;
		struct ff_receive *receive = receive_take(from);
		int err = message->length > iov_length(receive->iov, receive->count) ? FI_ETRUNC
										     : 0;

		if (!err)
			iov_scatter(receive->iov, receive->count, message->bytes, message->length);
		receive_complete(ep, message, receive->context, err);
		message_taken(message, err ? FI_ECANCELED : 0);
		free(receive);
		message_remove(ep);
	}
}

/* ---- posts: the lock is taken, and released ---- */

static void post_check(const struct ff_ep *ep, size_t count)
{
	ff_require(ep->enabled, "a post to an endpoint that is not enabled");
	ff_require(count <= ff.provider.iov_limit, "too many segments");
}

/* Queues a message for the peer, whose bytes and data are the caller's to fill in. */
static struct ff_message *message_new(const struct ff_ep *ep, uint64_t flags, size_t length)
{
	struct ff_message *message = calloc(1, sizeof(*message) + length);

	ff_require(message, "no memory for a message");
	message->flags = flags;
	message->length = length;
	*ep->peer->messages_end = message;
	ep->peer->messages_end = &message->next;
	return message;
}

static ssize_t send_post(struct ff_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 void *context, const uint64_t *data, bool delivers)
{
	struct ff_message *message;
	int err = ff_enter(CALL_fi_send);

	if (err)
		return -err;
	post_check(ep, count);
	ff_desc_check(ep->domain, iov, desc, count, FI_SEND);
	ff_require(ep->connected || ep->shut, "a send on an endpoint without a connection");
	if (!ep->connected) {
		ff_entry_add(ep->tx, context, FI_SEND | FI_MSG, 0, FI_ENOTCONN);
		ff_unlock();
		return 0;
	}
	message = message_new(ep, FI_SEND | FI_MSG, iov_length(iov, count));
	message->from = delivers ? ep : NULL;
	message->context = context;
	message->has_data = data;
	message->data = data ? *data : 0;
	iov_gather(message->bytes, iov, count);
	messages_deliver(ep->peer);
	if (!delivers)
		ff_entry_add(ep->tx, context, FI_SEND | FI_MSG, 0, 0);
	ff_unlock();
	return 0;
}

void ff_message_arrives(const void *bytes, size_t size, const uint64_t *immed)
{
	ff_lock();
	for (struct ff_ep *ep = ff.eps; ep; ep = ep->next) {
		struct ff_message *message;

		if (!ep->connected)
			continue;
		message = message_new(ep->peer, 0, size);
		message->has_data = immed;
		message->data = immed ? *immed : 0;
		if (size)
			memcpy(message->bytes, bytes, size);
		messages_deliver(ep);
	}
	ff_unlock();
}

static ssize_t recv_post(struct ff_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 void *context)
{
	struct ff_receive *receive;
	int err = ff_enter(CALL_fi_recv);

	if (err)
		return -err;
	post_check(ep, count);
	ff_require(!ep->srx, "a receive of an endpoint that has a shared receive context");
	ff_desc_check(ep->domain, iov, desc, count, FI_RECV);
	receive = calloc(1, sizeof(*receive));
	ff_require(receive && count <= COUNT_OF(receive->iov), "no memory for a receive");
	receive->context = context;
	receive->count = count;
	for (size_t i = 0; i < count; i++)
		receive->iov[i] = iov[i];
	*ep->receives_end = receive;
	ep->receives_end = &receive->next;
	messages_deliver(ep);
	for (struct ff_ep *taker = ep->takers; taker; taker = taker->next_taker)
		messages_deliver(taker);
	ff_unlock();
	return 0;
}

/* ---- a write that is placed late; one at a time ---- */

static struct {
	const struct ff_ep *from; /* NULL: there is none */
	unsigned reads;		  /* of completion queues, until it is placed */
	char *to;
	size_t length;
	char bytes[64];
} late;

static void write_later(const struct ff_ep *from, char *to, const struct fi_msg_rma *msg)
{
	late.length = iov_length(msg->msg_iov, msg->iov_count);
	ff_require(!late.from && late.length <= sizeof(late.bytes), "one late write, of few bytes");
	iov_gather(late.bytes, msg->msg_iov, msg->iov_count);
	late.from = from;
	late.to = to;
	late.reads = ff.provider.late_writes;
}

void ff_late_write_step(void)
{
	if (!late.from || --late.reads)
		return;
	memcpy(late.to, late.bytes, late.length);
	late.from = NULL;
}

void ff_late_write_drop(const struct ff_ep *ep)
{
	if (late.from == ep)
		late.from = NULL;
}

/* ---- RMA ---- */

/* A write that the peer has allowed takes one of its receives, and completes when it has. */
static void write_notify(struct ff_ep *ep, const struct fi_msg_rma *msg, size_t length)
{
	struct ff_message *message = message_new(ep, FI_RMA | FI_WRITE, 0);

	message->from = ep;
	message->context = msg->context;
	message->has_data = true;
	message->data = msg->data;
	message->written = length;
	messages_deliver(ep->peer);
}

/* The parts at the peer are those of one range, of one region. */
static void parts_check(const struct fi_msg_rma *msg, bool write, size_t length)
{
	const struct fi_rma_iov *first = msg->rma_iov, *last = first + msg->rma_iov_count - 1;

	ff_require(msg->rma_iov_count && msg->rma_iov_count <= ff.provider.rma_iov_limit,
		   "too many parts at the peer");
	for (const struct fi_rma_iov *part = first; part < last; part++)
		ff_require(part->len && part[1].key == part->key &&
				   part[1].addr == part->addr + part->len,
			   "a part at the peer begins where the one before ends");
	ff_require(!write || last->addr + last->len == first->addr + length,
		   "a write is as long at the peer as here");
	if (write)
		ff.seen.last_part = last->len;
}

/*
 * A write, which may bring data, or a read. What the peer does not allow ends the connection.
 * Nobody looks at the range of a write without bytes.
 */
static ssize_t rma_post(struct ff_ep *ep, bool write, const struct fi_msg_rma *msg, bool has_data)
{
	const uint64_t flags = FI_RMA | (write ? FI_WRITE : FI_READ);
	size_t length = iov_length(msg->msg_iov, msg->iov_count);
	char *remote = NULL, nowhere[1];
	int err = ff_enter(write ? CALL_fi_write : CALL_fi_read);

	if (err)
		return -err;
	post_check(ep, msg->iov_count);
	ff_require(!has_data || ff.provider.mode & FI_RX_CQ_DATA,
		   "data of a write that no receive of the peer tells");
	parts_check(msg, write, length);
	ff_desc_check(ep->domain, msg->msg_iov, msg->desc, msg->iov_count,
		      write ? FI_WRITE : FI_READ);
	ff_require(ep->connected || ep->shut, "RMA on an endpoint without a connection");
	if (ep->connected)
		remote = ff_mr_find(ep->peer->domain, msg->rma_iov->key, msg->rma_iov->addr, length,
				    write ? FI_REMOTE_WRITE : FI_REMOTE_READ);
	if (ep->connected && has_data && !length)
		remote = nowhere;
	if (remote && write && ff.provider.late_writes)
		write_later(ep, remote, msg);
	else if (remote && write && !ff.provider.loses_writes)
		iov_gather(remote, msg->msg_iov, msg->iov_count);
	else if (remote && !write)
		iov_scatter(msg->msg_iov, msg->iov_count, remote, length);
	if (remote && has_data)
		write_notify(ep, msg, length);
	else
		ff_entry_add(ep->tx, msg->context, flags, 0,
			     remote	     ? 0
			     : ep->connected ? FI_ECANCELED
					     : FI_ENOTCONN);
	if (ep->connected && !remote)
		ff_ep_end(ep, true);
	ff_unlock();
	return 0;
}

/* ---- the tables ---- */

static ssize_t msg_send(struct fid_ep *ep, const void *buffer, size_t length, void *desc,
			fi_addr_t to, void *context)
{
	const struct iovec iov = { (void *)(uintptr_t)buffer, length };

	(void)to;
	return send_post((struct ff_ep *)ep, &iov, &desc, 1, context, NULL,
			 ((struct ff_ep *)ep)->delivers);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t to, void *context)
{
	(void)to;
	ff_require(count, "verbs looks into the first segment of a vector");
	return send_post((struct ff_ep *)ep, iov, desc, count, context, NULL,
			 ((struct ff_ep *)ep)->delivers);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	ff_lock();
	ff.seen.message_flags = flags;
	ff_unlock();
	return send_post((struct ff_ep *)ep, msg->msg_iov, msg->desc, msg->iov_count, msg->context,
			 flags & FI_REMOTE_CQ_DATA ? &msg->data : NULL,
			 flags & FI_DELIVERY_COMPLETE);
}

static ssize_t msg_recv(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from,
			void *context)
{
	const struct iovec iov = { buffer, length };

	(void)from;
	return recv_post((struct ff_ep *)ep, &iov, &desc, 1, context);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t from, void *context)
{
	(void)from;
	return recv_post((struct ff_ep *)ep, iov, desc, count, context);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	(void)flags;
	return recv_post((struct ff_ep *)ep, msg->msg_iov, msg->desc, msg->iov_count, msg->context);
}

struct fi_ops_msg ff_msg_ops = {
	.size = sizeof(ff_msg_ops),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
};

static ssize_t rma_vector(struct fid_ep *ep, bool write, const struct iovec *iov, void **desc,
			  size_t count, uint64_t address, uint64_t key, void *context)
{
	const struct fi_rma_iov remote = { address, iov_length(iov, count), key };
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = count,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
	};

	return rma_post((struct ff_ep *)ep, write, &msg, false);
}

static ssize_t rma_read(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from,
			uint64_t address, uint64_t key, void *context)
{
	const struct iovec iov = { buffer, length };

	(void)from;
	return rma_vector(ep, false, &iov, &desc, 1, address, key, context);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t from, uint64_t address, uint64_t key, void *context)
{
	(void)from;
	return rma_vector(ep, false, iov, desc, count, address, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	(void)flags;
	return rma_post((struct ff_ep *)ep, false, msg, false);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buffer, size_t length, void *desc,
			 fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
	const struct iovec iov = { (void *)(uintptr_t)buffer, length };

	(void)to;
	return rma_vector(ep, true, &iov, &desc, 1, address, key, context);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
	(void)to;
	return rma_vector(ep, true, iov, desc, count, address, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	ff_lock();
	ff.seen.write_flags = flags;
	ff_unlock();
	return rma_post((struct ff_ep *)ep, true, msg, flags & FI_REMOTE_CQ_DATA);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buffer, size_t length, void *desc,
			     uint64_t data, fi_addr_t to, uint64_t address, uint64_t key,
			     void *context)
{
	const struct iovec iov = { (void *)(uintptr_t)buffer, length };
	const struct fi_rma_iov remote = { address, length, key };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
		.data = data,
	};

	(void)to;
	return rma_post((struct ff_ep *)ep, true, &msg, true);
}

struct fi_ops_rma ff_rma_ops = {
	.size = sizeof(ff_rma_ops),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.writedata = rma_writedata,
};
