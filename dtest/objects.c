/* SPDX-License-Identifier: BSD-2-Clause */
/* The DAT objects of a run: each create, followed by the free that undoes it. */
#include "dtest.h"

#include <stdlib.h>
#include <string.h>

enum {
	ASYNC_QLEN = 8,
	CR_QLEN = 10,
	CONNECT_QLEN = 10,
	RDMA_SIZE = 64 * 1024,
	REQUESTS = MESSAGES + READS, /* in flight beside those of a burst */
	REQUESTS_OF_BURST = 3,	     /* for each of its writes and pings */
};

/* The address is for the messages of failures: without one there is less to say. */
static int dtest_read_address(struct dtest *t)
{
	DAT_IA_ATTR attr = { .ia_address_ptr = NULL };

	if (CALL(dat_ia_query, t->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL) < 0)
		return -1;
	if (!attr.ia_address_ptr)
		return 0;
	memcpy(&t->local, attr.ia_address_ptr,
	       attr.ia_address_ptr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in));
	return 0;
}

int dtest_ia_open(struct dtest *t)
{
	char text[TOOL_SENTENCE];
	DAT_RETURN ret;

	t->async_evd = DAT_HANDLE_NULL;
	dtest_call_begin("dat_ia_open");
	ret = dat_ia_open(t->opt.ia_name, ASYNC_QLEN, &t->async_evd, &t->ia);
	if (dtest_call_end("dat_ia_open", ret) < 0) {
		dtest_explain(tool_open_sentence(ret, t->opt.ia_name, text));
		return -1;
	}
	if (dtest_read_address(t) < 0)
		goto close_ia;
	if (t->opt.mode == MODE_QUERY || !t->local.ss_family ||
	    !tool_interface_sentence((const struct sockaddr *)&t->local, false, text))
		return 0;
	dtest_explain(text); /* a client would not be found, nor find its server */
close_ia:
	(void)dtest_ia_close(t);
	return -1;
}

int dtest_ia_close(struct dtest *t)
{
	return CALL(dat_ia_close, t->ia, DAT_CLOSE_ABRUPT_FLAG);
}

int dtest_pz_create(struct dtest *t)
{
	return CALL(dat_pz_create, t->ia, &t->pz);
}

int dtest_pz_free(struct dtest *t)
{
	return CALL(dat_pz_free, t->pz);
}

static int dtest_buffer_create(struct dtest *t, struct dtest_buffer *buffer, size_t count,
			       size_t size, DAT_MEM_PRIV_FLAGS priv)
{
	/* zero-filled, so that old data cannot pass the check of the bytes received */
	buffer->mem = calloc(count, size);
	if (!buffer->mem) {
		dtest_error("calloc", "no memory for %zu buffers of %zu bytes", count, size);
		return -1;
	}
	if (CALL_TOOL("dat_lmr_create", tool_lmr_create, t->ia, buffer->mem, count * size, t->pz,
		      priv, &buffer->lmr, &buffer->lmr_context, &buffer->rmr_context) < 0)
		goto free_mem;
	return 0;
free_mem:
	free(buffer->mem);
	return -1;
}

static int dtest_buffer_free(struct dtest_buffer *buffer)
{
	if (CALL(dat_lmr_free, buffer->lmr) < 0)
		return -1; /* still registered: the device may access the memory until the exit */
	free(buffer->mem);
	return 0;
}

static int dtest_buffer_pair_create(struct dtest *t, struct dtest_buffer *out, size_t outs,
				    struct dtest_buffer *in, size_t ins, size_t size,
				    DAT_MEM_PRIV_FLAGS priv)
{
	if (dtest_buffer_create(t, out, outs, size, priv) < 0)
		return -1;
	if (dtest_buffer_create(t, in, ins, size, priv) < 0)
		goto free_out;
	return 0;
free_out:
	(void)dtest_buffer_free(out);
	return -1;
}

static int dtest_buffer_pair_free(struct dtest_buffer *out, struct dtest_buffer *in)
{
	int in_freed = dtest_buffer_free(in), out_freed = dtest_buffer_free(out);

	return in_freed < 0 || out_freed < 0 ? -1 : 0;
}

static size_t dtest_buffer_count(const struct dtest_options *opt)
{
	return opt->mode == MODE_SWEEP ? 1 : opt->burst;
}

uint64_t dtest_buffers_bytes(const struct dtest_options *opt)
{
	return 2 * (uint64_t)dtest_buffer_count(opt) * opt->size;
}

int dtest_buffers_create(struct dtest *t)
{
	const size_t count = dtest_buffer_count(&t->opt);

	return dtest_buffer_pair_create(t, &t->out, count, &t->in, count, t->opt.size,
					DAT_MEM_PRIV_ALL_FLAG);
}

int dtest_buffers_free(struct dtest *t)
{
	return dtest_buffer_pair_free(&t->out, &t->in);
}

/*
 * The privilege is local write alone, also for the buffer that is sent: programs rely on every
 * registration having local read.
 */
int dtest_messages_create(struct dtest *t)
{
	return dtest_buffer_pair_create(t, &t->msg_out, 1, &t->msg_in, MESSAGES,
					sizeof(struct dtest_offer), DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

int dtest_messages_free(struct dtest *t)
{
	return dtest_buffer_pair_free(&t->msg_out, &t->msg_in);
}

int dtest_cno_create(struct dtest *t)
{
	return t->opt.cno ? CALL(dat_cno_create, t->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &t->cno) : 0;
}

int dtest_cno_free(struct dtest *t)
{
	return t->cno ? CALL(dat_cno_free, t->cno) : 0;
}

/* Returns how many transfers are in flight: a sweep has a window, whatever its burst is. */
static DAT_COUNT dtest_burst(const struct dtest *t)
{
	return t->opt.mode == MODE_SWEEP ? SWEEP_WINDOW : (DAT_COUNT)t->opt.burst;
}

/* Returns how many requests the endpoint has room for. */
static DAT_COUNT dtest_requests(const struct dtest *t)
{
	return REQUESTS + REQUESTS_OF_BURST * dtest_burst(t);
}

/*
 * The length of the receive EVD is less than a burst of pings: a provider makes an EVD long enough
 * for all receives that its endpoints may post.
 */
int dtest_evds_create(struct dtest *t)
{
	const DAT_COUNT requests = dtest_burst(t);
	const struct {
		DAT_EVD_HANDLE *evd;
		DAT_COUNT qlen;
		DAT_CNO_HANDLE cno;
		DAT_EVD_FLAGS flags;
	} wanted[] = {
		{ &t->cr_evd, CR_QLEN, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG },
		{ &t->connect_evd, CONNECT_QLEN, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG },
		{ &t->request_evd, REQUESTS + 2 * requests, t->cno, DAT_EVD_DTO_FLAG },
		{ &t->recv_evd, MESSAGES, t->cno, DAT_EVD_DTO_FLAG },
	};
	size_t made;

	for (made = 0; made < sizeof(wanted) / sizeof(wanted[0]); made++)
		if (CALL(dat_evd_create, t->ia, wanted[made].qlen, wanted[made].cno,
			 wanted[made].flags, wanted[made].evd) < 0)
			goto free_made;
	return 0;
free_made:
	while (made-- > 0)
		(void)CALL(dat_evd_free, *wanted[made].evd);
	return -1;
}

int dtest_evds_free(struct dtest *t)
{
	const DAT_EVD_HANDLE evds[] = { t->recv_evd, t->request_evd, t->connect_evd, t->cr_evd };
	int result = 0;

	for (size_t i = 0; i < sizeof(evds) / sizeof(evds[0]); i++)
		if (CALL(dat_evd_free, evds[i]) < 0)
			result = -1;
	return result;
}

int dtest_check_burst(struct dtest *t)
{
	DAT_IA_ATTR attr = { .max_dto_per_ep = 0 };
	char text[TOOL_SENTENCE];
	DAT_COUNT most;

	if (t->opt.mode == MODE_SWEEP)
		return 0;
	if (CALL(dat_ia_query, t->ia, NULL, DAT_IA_FIELD_IA_MAX_DTO_PER_EP, &attr, 0, NULL) < 0)
		return -1;
	if (attr.max_dto_per_ep <= 0 || dtest_requests(t) <= attr.max_dto_per_ep)
		return 0;
	most = (attr.max_dto_per_ep - REQUESTS) / REQUESTS_OF_BURST;
	if (most >= 1)
		dtest_explain(tool_sentence(text, "this device takes -B %d at most", most));
	else
		dtest_explain(tool_sentence(text,
					    "this device takes %d requests of an endpoint: too few",
					    attr.max_dto_per_ep));
	return -1;
}

int dtest_ep_create(struct dtest *t)
{
	const DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_rdma_size = t->opt.size > RDMA_SIZE ? t->opt.size : RDMA_SIZE,
		.qos = DAT_QOS_BEST_EFFORT,
		.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.max_recv_dtos = MESSAGES + 3 * dtest_burst(t),
		.max_request_dtos = dtest_requests(t),
		.max_recv_iov = SEGMENTS,
		.max_request_iov = SEGMENTS,
		.max_rdma_read_in = READS,
		.max_rdma_read_out = READS,
	};

	return CALL(dat_ep_create, t->ia, t->pz, t->recv_evd, t->request_evd, t->connect_evd, &attr,
		    &t->ep);
}

int dtest_ep_free(struct dtest *t)
{
	return CALL(dat_ep_free, t->ep);
}

int dtest_psp_create(struct dtest *t)
{
	char text[TOOL_SENTENCE];
	DAT_RETURN ret;

	if (!t->server)
		return 0;
	dtest_call_begin("dat_psp_create");
	ret = dat_psp_create(t->ia, t->opt.port, t->cr_evd, DAT_PSP_CONSUMER_FLAG, &t->psp);
	if (dtest_call_end("dat_psp_create", ret) == 0)
		return 0;
	dtest_explain(tool_listen_sentence(ret, t->opt.port, text));
	return -1;
}

int dtest_psp_free(struct dtest *t)
{
	if (t->psp && CALL(dat_psp_free, t->psp) < 0)
		return -1;
	t->psp = DAT_HANDLE_NULL;
	return 0;
}
