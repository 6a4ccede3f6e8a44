/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two endpoints of datagrams learn of each other: by the port space UDP of librdmacm, which is
 * SIDR of InfiniBand.
 *
 * librdmacm tells the way to a queue pair to the side that asks for it, and to no other. So both
 * sides ask: the active side for the way to the passive one, and when the passive side has answered
 * it asks back, at a port that the question named. An exchange is a struct tp_conn on either side.
 * The states are those of cm.c:
 *
 *	active side				passive side
 *
 *	tp_datagram_connect			CONNECT_REQUEST
 *	RESOLVING_ADDR, RESOLVING_ROUTE		  |  [up_request]
 *	  |  ROUTE_RESOLVED [rdma_connect]	REQUESTED
 *	CONNECTING				  |  tp_datagram_accept [rdma_accept]
 *	  |  ESTABLISHED			RESOLVING_ADDR, RESOLVING_ROUTE
 *	  |  [ibv_create_ah, up_peer_found]	  |  ROUTE_RESOLVED [rdma_connect]
 *	AWAITS_RELEASE				CONNECTING
 *						  |  ESTABLISHED
 *	CONNECT_REQUEST at dev->asked_back	  |  [ibv_create_ah, up_peer_found]
 *	[rdma_accept]				AWAITS_RELEASE
 *
 * Who answers an asker back needs to know nothing but the number of a queue pair, which the asker
 * says: it tells a way, and no more. Any other end of an exchange is up_peer_failed.
 *
 * An answer may be lost on the network; then the kernel of the active side asks once more. The
 * passive side has forgotten the question, so the latest answers are kept here, and given again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cm.h"
#include "base/sockaddr.h"

#define HEADER_VERSION 1
enum { ASKS = 1, ASKS_BACK = 2 };
static const char header_magic[] = { 'D', 'A', 'T', 'U' };

/* The status of SIDR by which a listener has rejected a request, in the event UNREACHABLE. */
#define SIDR_REJECT 2

/* An answer that was given. */
struct datagram_answer {
	struct sockaddr_storage peer;
	uint32_t qp_num; /* 0: the consumer has rejected the request */
	unsigned private_data_size;
	char private_data[];
};

/*
 * The latest answers, which are given again to a question that comes again: librdmacm asks each 4
 * seconds until it has one. They are looked for by the number of the exchange.
 */
#define ANSWERS 1024
struct datagram_answers {
	unsigned next; /* the oldest, which the next one replaces */
	uint64_t exchanges[ANSWERS];
	struct datagram_answer *answers[ANSWERS]; /* NULL: none yet */
};

_Static_assert(sizeof(struct datagram_header) == DATAGRAM_HEADER, "it is as it is on the wire");

/* ---- answers that are kept ---- */

/*
 * Keeps the answer to the request of @conn; @qp_num of 0 is a rejection. Without memory it is not
 * given again.
 */
static void answer_keep(const struct tp_conn *conn, uint32_t qp_num, const void *private_data,
			unsigned size)
{
	struct tp_dev *dev = conn->dev;
	struct datagram_answer *answer = calloc(1, sizeof(*answer) + size);
	struct datagram_answers *kept;

	if (!dev->answers)
		dev->answers = calloc(1, sizeof(*dev->answers));
	kept = dev->answers;
	if (!kept || !answer) {
		free(answer);
		return;
	}
	sockaddr_copy(&answer->peer, rdma_get_peer_addr(conn->id));
	answer->qp_num = qp_num;
	answer->private_data_size = size;
	if (size)
		memcpy(answer->private_data, private_data, size);
	free(kept->answers[kept->next]);
	kept->exchanges[kept->next] = conn->ask.exchange;
	kept->answers[kept->next] = answer;
	kept->next = (kept->next + 1) % ANSWERS;
}

static const struct datagram_answer *answer_find(struct tp_dev *dev, struct rdma_cm_id *id,
						 uint64_t exchange)
{
	const struct datagram_answers *kept = dev->answers;

	for (unsigned i = 0; kept && i < ANSWERS && kept->answers[i]; i++)
		if (kept->exchanges[i] == exchange &&
		    sockaddr_equal((const struct sockaddr *)&kept->answers[i]->peer,
				   rdma_get_peer_addr(id)))
			return kept->answers[i];
	return NULL;
}

static void answers_free(struct tp_dev *dev)
{
	for (unsigned i = 0; dev->answers && i < ANSWERS; i++)
		free(dev->answers->answers[i]);
	free(dev->answers);
	dev->answers = NULL;
}

static int accept_as(struct rdma_cm_id *id, uint32_t qp_num, const void *private_data,
		     unsigned size)
{
	struct rdma_conn_param reply = {
		.private_data = private_data,
		.private_data_len = (uint8_t)size,
		.qp_num = qp_num,
	};

	return rdma_accept(id, &reply) ? -errno : 0;
}

static void answer_again(struct tp_dev *dev, struct rdma_cm_id *id,
			 const struct datagram_answer *answer)
{
	if (answer->qp_num)
		(void)accept_as(id, answer->qp_num, answer->private_data,
				answer->private_data_size);
	else
		cm_id_reject(dev, id, true, answer->private_data, answer->private_data_size);
	cm_id_destroy(dev, id);
}

/* ---- questions ---- */

/* Begins to listen for peers that ask back, when the first exchange begins. */
static int asked_back_open(struct tp_dev *dev)
{
	return dev->asked_back ? 0 : cm_id_listen(dev, 0, RDMA_PS_UDP, &dev->asked_back);
}

/* Sets what the question of @conn is: the parameters of rdma_connect. */
static void question_prepare(struct tp_conn *conn, const struct datagram_header *header,
			     const struct tp_cm_param *param)
{
	const unsigned size = param ? param->private_data_size : 0;

	memcpy(conn->private_data, header, sizeof(*header));
	if (size)
		memcpy(conn->private_data + sizeof(*header), param->private_data, size);
	conn->param = (struct rdma_conn_param){
		.private_data = conn->private_data,
		.private_data_len = (uint8_t)(sizeof(*header) + size),
		.qp_num = ntohl(header->qp_num),
	};
}

static struct datagram_header header_of(uint8_t kind)
{
	struct datagram_header header = { .version = HEADER_VERSION, .kind = kind };

	memcpy(header.magic, header_magic, sizeof(header_magic));
	return header;
}

/* Has an exchange keep, to its release, what its address handle will need. */
static void exchange_begin(struct tp_conn *conn, struct tp_qp *qp, struct peer *peer)
{
	conn->datagrams = true;
	conn->peer = peer;
	conn->pd = qp->pd;
	conn->pd->holders++;
}

int tp_datagram_connect(struct tp_dev *dev, const struct sockaddr *remote, uint16_t port,
			struct tp_qp *qp, struct peer *peer, const struct tp_cm_param *param,
			struct tp_conn **conn_out)
{
	struct datagram_header header = header_of(ASKS);
	struct tp_conn *conn;
	int err;

	up_assert_locked(dev->ia);
	err = asked_back_open(dev);
	if (err)
		return err;
	if (getrandom(&header.exchange, sizeof(header.exchange), 0) != sizeof(header.exchange))
		return -EAGAIN;
	err = cm_conn_begin(dev, remote, port, RDMA_PS_UDP, &conn);
	if (err)
		return err;
	header.port = rdma_get_src_port(dev->asked_back);
	header.qp_num = htonl(qp->ibv->qp_num);
	question_prepare(conn, &header, param);
	exchange_begin(conn, qp, peer);
	*conn_out = conn;
	return 0;
}

/* ---- requests ---- */

/* Reads the header of a question. Returns false of what no provider of ours sends. */
static bool header_read(const struct cm_event *event, uint8_t kind, struct datagram_header *header)
{
	const uint32_t max_number = 0xffffff;
	uint32_t number;

	if (event->private_data_size < sizeof(*header))
		return false;
	memcpy(header, event->private_data, sizeof(*header));
	number = ntohl(header->qp_num);
	return !memcmp(header->magic, header_magic, sizeof(header_magic)) &&
	       header->version == HEADER_VERSION && header->kind == kind && number &&
	       number <= max_number && (header->port || kind == ASKS_BACK);
}

static void asked_back(struct tp_dev *dev, const struct cm_event *event)
{
	struct datagram_header header;

	if (!header_read(event, ASKS_BACK, &header)) {
		cm_id_refuse(dev, event->id);
		return;
	}
	(void)accept_as(event->id, ntohl(header.qp_num), NULL, 0);
	cm_id_destroy(dev, event->id);
}

static void asked(struct tp_dev *dev, struct sp *sp, const struct cm_event *event)
{
	struct sockaddr_storage local, remote;
	struct tp_request request = {
		.local = (struct sockaddr *)&local,
		.remote = (struct sockaddr *)&remote,
		.private_data = event->private_data + sizeof(struct datagram_header),
		.datagrams = true,
	};
	const struct datagram_answer *answer;
	struct datagram_header header;
	struct tp_conn *conn = NULL;

	if (header_read(event, ASKS, &header)) {
		answer = answer_find(dev, event->id, header.exchange);
		if (answer) {
			answer_again(dev, event->id, answer);
			return;
		}
		conn = cm_conn_new(dev, event->id, CM_REQUESTED);
	}
	if (!conn) {
		cm_id_refuse(dev, event->id);
		return;
	}
	conn->datagrams = true;
	conn->ask = header;
	request.private_data_size = event->private_data_size - (unsigned)sizeof(header);
	tp_conn_addr(conn, &local, &remote);
	up_request(sp, conn, &request);
}

void datagram_request(struct tp_dev *dev, struct sp *sp, const struct cm_event *event)
{
	up_assert_locked(dev->ia);
	if (sp)
		asked(dev, sp, event);
	else
		asked_back(dev, event);
}

void datagram_rejected(const struct tp_conn *conn, const void *private_data, unsigned size)
{
	up_assert_locked(conn->dev->ia);
	answer_keep(conn, 0, private_data, size);
}

int tp_datagram_accept(struct tp_conn *conn, struct tp_qp *qp, struct peer *peer,
		       const struct tp_cm_param *param)
{
	struct datagram_header header = header_of(ASKS_BACK);
	struct tp_dev *dev = conn->dev;
	struct sockaddr_storage to;
	struct rdma_cm_id *id;
	int err;

	up_assert_locked(dev->ia);
	if (conn->state == CM_AWAITS_RELEASE)
		return -ENOTCONN;
	sockaddr_copy(&to, rdma_get_peer_addr(conn->id));
	sockaddr_set_port(&to, ntohs(conn->ask.port));
	err = cm_id_resolve(dev, (struct sockaddr *)&to, RDMA_PS_UDP, &id);
	if (err)
		return err;
	err = accept_as(conn->id, qp->ibv->qp_num, param->private_data, param->private_data_size);
	if (err) {
		cm_id_destroy(dev, id);
		return err == -ENOMEM ? err : -ENOTCONN;
	}
	answer_keep(conn, qp->ibv->qp_num, param->private_data, param->private_data_size);
	cm_id_destroy(dev, conn->id);
	conn->id = id;
	id->context = conn;
	conn->state = CM_RESOLVING_ADDR;
	conn->asks_back = true;
	header.qp_num = conn->ask.qp_num;
	header.exchange = conn->ask.exchange;
	question_prepare(conn, &header, NULL);
	exchange_begin(conn, qp, peer);
	return 0;
}

/* ---- answers ---- */

static struct tp_ah *ah_create(struct tp_conn *conn, const struct cm_event *event)
{
	struct ibv_ah_attr path = event->path;
	struct tp_ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return NULL;
	env_apply_to_path(&conn->dev->env, &path);
	ah->ibv = ibv_create_ah(conn->pd->ibv, &path);
	if (!ah->ibv) {
		log_error("%s: ibv_create_ah: %s", conn->dev->attr.device, strerror(errno));
		free(ah);
		return NULL;
	}
	ah->pd = conn->pd;
	ah->pd->holders++;
	ah->qp_num = event->qp_num;
	ah->qkey = event->qkey;
	return ah;
}

void datagram_answered(struct tp_conn *conn, const struct cm_event *event)
{
	struct tp_ah *ah;

	up_assert_locked(conn->dev->ia);
	if (conn->state != CM_CONNECTING)
		return;
	ah = ah_create(conn, event);
	if (!ah) {
		cm_conn_ended(conn, TP_LOCAL_ERROR);
		return;
	}
	conn->state = CM_AWAITS_RELEASE;
	up_peer_found(conn->peer, ah, event->private_data,
		      conn->asks_back ? 0 : event->private_data_size);
}

/* A negative status is that of no answer, another one that of a host which has no such listener. */
void datagram_refused(struct tp_conn *conn, const struct cm_event *event)
{
	enum tp_cause cause = event->status > 0 ? TP_NON_PEER_REJECTED : TP_UNREACHABLE;
	const char *data = NULL;
	unsigned size = 0;

	up_assert_locked(conn->dev->ia);
	if (event->status == SIDR_REJECT)
		cause = cm_rejection_read(event, true, &data, &size);
	conn->state = CM_AWAITS_RELEASE;
	up_peer_failed(conn->peer, cause, data, size);
}

void datagram_ended(struct tp_conn *conn, enum tp_cause cause)
{
	up_peer_failed(conn->peer, cause, NULL, 0);
}

/* ---- address handles ---- */

uint32_t tp_ah_number(const struct tp_ah *ah)
{
	return ah->qp_num;
}

void tp_ah_destroy(struct tp_ah *ah)
{
	int err = ibv_destroy_ah(ah->ibv);

	if (err)
		log_error("%s: ibv_destroy_ah: %s", ah->pd->dev->attr.device, strerror(err));
	pd_put(ah->pd);
	free(ah);
}

/* ---- close ---- */

void datagram_close(struct tp_dev *dev)
{
	answers_free(dev);
	if (dev->asked_back)
		cm_id_destroy(dev, dev->asked_back);
	dev->asked_back = NULL;
}
