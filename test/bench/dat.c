/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of DAT: two connected endpoints of one IA make the same transfers as raw.c.
 *
 *	dat NAME [threadsafe]
 *	dat NAME nothing|polled|asleep|unattended
 *		messages, for what the provider's thread does
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "../harness/editions.h"
#if DAT_EDITION == 2
#include <netinet/in.h>
#include <dat2/dat_ib_extensions.h>
#endif
#include "rows.h"

#define QUALIFIER 45777
#define FOREVER	  DAT_TIMEOUT_INFINITE

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_CNO_HANDLE cno;
static DAT_EVD_HANDLE async_evd, cr_evd, conn_evd, send_evd, recv_evd, idle_evd;
static DAT_EVD_HANDLE software_evd; /* of the CNO */
static DAT_EP_HANDLE client, server;
static DAT_SRQ_HANDLE srq;
static DAT_RMR_HANDLE rmr;
static DAT_LMR_TRIPLET local, pieces[4]; /* the same bytes in one segment and in several */
static DAT_LMR_TRIPLET small;		 /* so few that they are sent inline */
static DAT_LMR_TRIPLET read_only;	 /* memory on which the device takes no window */
static DAT_LMR_TRIPLET elsewhere;	 /* the bytes of local, in another region */
static DAT_LMR_HANDLE local_lmr, read_only_lmr, elsewhere_lmr;
static DAT_RMR_TRIPLET remote;
static char buffer[2 * SIZE];

/* The endpoint's receives come from @from, unless that is null. */
static DAT_EP_HANDLE bench_ep(DAT_EVD_HANDLE recv, DAT_COMPLETION_FLAGS flags, DAT_SRQ_HANDLE from)
{
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = 65536,
		.max_rdma_size = 65536,
		.max_recv_dtos = TURNS * CALLS,
		.max_request_dtos = TURNS * (CALLS + 1),
		.max_recv_iov = 4,
		.max_request_iov = 4,
		.max_rdma_read_in = 4,
		.max_rdma_read_out = 4,
		.max_rdma_read_iov = 4,
		.max_rdma_write_iov = 4,
		.recv_completion_flags = flags,
		.request_completion_flags = flags,
	};
	DAT_EP_HANDLE ep;

	if (from)
		MUST(dat_ep_create_with_srq(ia, pz, recv, send_evd, conn_evd, from, &attr, &ep) ==
		     DAT_SUCCESS);
	else
		MUST(dat_ep_create(ia, pz, recv, send_evd, conn_evd, &attr, &ep) == DAT_SUCCESS);
	return ep;
}

static DAT_EVENT bench_wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(dat_evd_wait(evd, FOREVER, 1, &event, &more) == DAT_SUCCESS);
	MUST(event.event_number == number);
	return event;
}

static void connect_client(void)
{
	DAT_PSP_HANDLE psp;
	DAT_IA_ATTR attr;
	DAT_EVENT event;

	MUST(dat_psp_create(ia, QUALIFIER, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp) == DAT_SUCCESS);
	MUST(dat_ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL) == DAT_SUCCESS);
	MUST(dat_ep_connect(client, attr.ia_address_ptr, QUALIFIER, FOREVER, 0, NULL,
			    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
	event = bench_wait(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server, 0, NULL) ==
	     DAT_SUCCESS);
	bench_wait(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	bench_wait(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	MUST(dat_psp_free(psp) == DAT_SUCCESS);
}

static DAT_EVD_HANDLE bench_evd(DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	MUST(dat_evd_create(ia, 4 * CALLS, DAT_HANDLE_NULL, flags, &evd) == DAT_SUCCESS);
	return evd;
}

/* Makes the endpoints of what is measured from here on, and their EVDs. */
static void open_connection(DAT_COMPLETION_FLAGS flags, DAT_SRQ_HANDLE from)
{
	send_evd = bench_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
	recv_evd = bench_evd(DAT_EVD_DTO_FLAG);
	idle_evd = bench_evd(DAT_EVD_DTO_FLAG);
	client = bench_ep(idle_evd, flags, DAT_HANDLE_NULL);
	server = bench_ep(recv_evd, flags, from);
	connect_client();
}

static DAT_LMR_TRIPLET bench_segment(DAT_LMR_CONTEXT context, char *address, size_t length)
{
	return (DAT_LMR_TRIPLET){ .lmr_context = context,
				  .virtual_address = (DAT_VADDR)(uintptr_t)address,
				  .segment_length = length };
}

static DAT_LMR_CONTEXT bench_region(DAT_LMR_HANDLE *lmr, DAT_RMR_CONTEXT *rmr_context)
{
	DAT_REGION_DESCRIPTION region = { .for_va = buffer };
	DAT_LMR_CONTEXT lmr_context;

	MUST(LMR_CREATE(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(buffer), pz, DAT_MEM_PRIV_ALL_FLAG,
			lmr, &lmr_context, rmr_context, NULL, NULL) == DAT_SUCCESS);
	return lmr_context;
}

/* A device that pins what a window may reach for writing takes none on this. */
static DAT_LMR_TRIPLET read_only_region(void)
{
	char *memory = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_CONTEXT context;

	MUST(memory != MAP_FAILED);
	MUST(LMR_CREATE(ia, DAT_MEM_TYPE_VIRTUAL, region, SIZE, pz, DAT_MEM_PRIV_READ_FLAG,
			&read_only_lmr, &context, NULL, NULL, NULL) == DAT_SUCCESS);
	return bench_segment(context, memory, SIZE);
}

/*
 * The service thread takes completions from the queues when it runs, and with them their cost. So
 * it stays in a proxy agent while calls are measured.
 */
static sem_t parked, resumed;

static void park(void *arg, DAT_EVD_HANDLE evd)
{
	(void)arg, (void)evd;
	MUST(!sem_post(&parked));
	while (sem_wait(&resumed))
		;
}

static void service_park(void)
{
	static const DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_OS_WAIT_PROXY_AGENT agent = { .proxy_agent_func = park };
	static DAT_EVD_HANDLE evd;
	static DAT_CNO_HANDLE own;
	DAT_EVENT taken;

	if (evd) {
		MUST(dat_cno_modify_agent(own, agent) == DAT_SUCCESS);
	} else {
		MUST(dat_cno_create(ia, agent, &own) == DAT_SUCCESS);
		MUST(dat_evd_create(ia, 1, own, DAT_EVD_SOFTWARE_FLAG, &evd) == DAT_SUCCESS);
	}
	MUST(dat_evd_post_se(evd, &event) == DAT_SUCCESS);
	while (sem_wait(&parked))
		;
	MUST(dat_evd_dequeue(evd, &taken) == DAT_SUCCESS);
}

static void service_resume(void)
{
	MUST(!sem_post(&resumed));
}

static void open_all(const char *name, DAT_BOOLEAN thread_safe)
{
	DAT_LMR_CONTEXT context;

	MUST(dat_ia_openv((DAT_NAME_PTR)name, 8, &async_evd, &ia, DAT_VERSION_MAJOR,
			  DAT_VERSION_MINOR, thread_safe) == DAT_SUCCESS);
	MUST(dat_pz_create(ia, &pz) == DAT_SUCCESS);
	MUST(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno) == DAT_SUCCESS);
	cr_evd = bench_evd(DAT_EVD_CR_FLAG);
	conn_evd = bench_evd(DAT_EVD_CONNECTION_FLAG);
	MUST(dat_evd_create(ia, 4 * CALLS, cno, DAT_EVD_SOFTWARE_FLAG, &software_evd) ==
	     DAT_SUCCESS);
	context = bench_region(&local_lmr, &remote.rmr_context);
	elsewhere = bench_segment(bench_region(&elsewhere_lmr, NULL), buffer, SIZE);
	local = bench_segment(context, buffer, SIZE);
	small = bench_segment(context, buffer, SMALL);
	for (size_t i = 0; i < 4; i++)
		pieces[i] = bench_segment(context, buffer + i * SIZE / 4, SIZE / 4);
	read_only = read_only_region();
	remote.REMOTE_ADDRESS = (DAT_VADDR)(uintptr_t)buffer + SIZE;
	remote.segment_length = SIZE;
	MUST(dat_rmr_create(pz, &rmr) == DAT_SUCCESS);
	open_connection(DAT_COMPLETION_DEFAULT_FLAG, DAT_HANDLE_NULL);
}

static void take_bind_completions(int calls)
{
	for (int i = 0; i < calls; i++) {
		DAT_EVENT event = bench_wait(send_evd, DAT_RMR_BIND_COMPLETION_EVENT);

		MUST(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
	}
}

static void dequeue_completions(DAT_EVD_HANDLE evd, int calls)
{
	DAT_EVENT event;

	while (calls)
		if (!dat_evd_dequeue(evd, &event)) {
			MUST(!event.event_data.dto_completion_event_data.status);
			calls--;
		}
}

static void take_completions(DAT_EVD_HANDLE evd, int calls)
{
	for (int i = 0; i < calls; i++) {
		DAT_EVENT event = bench_wait(evd, DAT_DTO_COMPLETION_EVENT);

		MUST(event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS);
	}
}

/* ---- posts ---- */

static inline DAT_LMR_TRIPLET *iov_of(enum segments segments)
{
	return segments == WHOLE ? &local : segments == SHORT ? &small : pieces;
}

static inline DAT_COMPLETION_FLAGS flags_of(enum flag flag)
{
	return flag == SUPPRESSED    ? DAT_COMPLETION_SUPPRESS_FLAG
	       : flag == FENCED	     ? DAT_COMPLETION_BARRIER_FENCE_FLAG
	       : flag == SOLICITED   ? DAT_COMPLETION_SOLICITED_WAIT_FLAG
	       : flag == UNSIGNALLED ? DAT_COMPLETION_UNSIGNALLED_FLAG
				     : DAT_COMPLETION_DEFAULT_FLAG;
}

static inline void recv_all(enum segments segments, enum flag flag)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_recv(server, SEGMENTS_COUNT(segments), iov_of(segments),
				       (DAT_DTO_COOKIE){ .as_64 = i }, flags_of(flag)));
}

static inline void send_all(enum segments segments, enum flag flag)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_send(client, SEGMENTS_COUNT(segments), iov_of(segments),
				       (DAT_DTO_COOKIE){ .as_64 = i }, flags_of(flag)));
}

static inline void write_all(enum segments segments, enum flag flag)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_rdma_write(client, SEGMENTS_COUNT(segments), iov_of(segments),
					     (DAT_DTO_COOKIE){ .as_64 = i }, &remote,
					     flags_of(flag)));
}

static inline void read_all(enum segments segments, enum flag flag)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_ep_post_rdma_read(client, SEGMENTS_COUNT(segments), iov_of(segments),
					    (DAT_DTO_COOKIE){ .as_64 = i }, &remote,
					    flags_of(flag)));
}

#define ROW(name, call)                                                                            \
	MEASURE measure_##name(void)                                                               \
	{                                                                                          \
		call;                                                                              \
	}
#define RECV_ROW(name, segments)		 ROW(name, recv_all(segments, NO_FLAG))
#define SEND_ROW(name, segments, flag, receives) ROW(name, send_all(segments, flag))
#define WRITE_ROW(name, segments, flag)		 ROW(name, write_all(segments, flag))
#define READ_ROW(name, segments, flag)		 ROW(name, read_all(segments, flag))

RECV_ROWS(RECV_ROW)
SEND_ROWS(SEND_ROW)
WRITE_ROWS(WRITE_ROW)
READ_ROWS(READ_ROW)

/* These have no equal in verbs and libfabric. */
ROW(post_recv_unsignalled, recv_all(WHOLE, UNSIGNALLED))
ROW(post_send_unsignalled, send_all(WHOLE, UNSIGNALLED))
ROW(post_rdma_write_unsignalled, write_all(WHOLE, UNSIGNALLED))
ROW(post_rdma_read_unsignalled, read_all(WHOLE, UNSIGNALLED))

static void recv_unmeasured(void)
{
	recv_all(WHOLE, NO_FLAG);
}

static void send_unmeasured(void)
{
	send_all(WHOLE, NO_FLAG);
}

static void post_write(void)
{
	MUST(!dat_ep_post_rdma_write(client, 1, &local, (DAT_DTO_COOKIE){ .as_64 = 0 }, &remote,
				     DAT_COMPLETION_DEFAULT_FLAG));
}

/* What is below may get its memory at the first transfers, and keep it. */
static void warm_up(void)
{
	for (int i = 0; i < TURNS; i++) {
		recv_unmeasured();
		send_all(SHORT, NO_FLAG);
		take_completions(send_evd, CALLS);
		take_completions(recv_evd, CALLS);
		read_all(SHORT, NO_FLAG);
		take_completions(send_evd, CALLS);
	}
}

/* ---- extensions ---- */

#if DAT_EDITION == 2
static DAT_LMR_TRIPLET word; /* 8 bytes, for atomic operations, as the next one */
static DAT_RMR_TRIPLET remote_word;

#define COOKIE(i) ((DAT_DTO_COOKIE){ .as_64 = (i) })
#define NO_FLAGS  DAT_COMPLETION_DEFAULT_FLAG
#define EACH(call)                                                                                 \
	for (DAT_UINT64 i = 0; i < CALLS; i++)                                                     \
	MUST(!(call))

MEASURE measure_post_write_immed(void)
{
	EACH(dat_ib_post_rdma_write_immed(client, 1, &local, COOKIE(i), &remote, (DAT_UINT32)i,
					  NO_FLAGS));
}

MEASURE measure_post_fetch_add(void)
{
	EACH(dat_ib_post_fetch_and_add(client, 1, &word, COOKIE(i), &remote_word, NO_FLAGS));
}

MEASURE measure_post_cmp_swap(void)
{
	EACH(dat_ib_post_cmp_and_swap(client, i, i, &word, COOKIE(i), &remote_word, NO_FLAGS));
}

static DAT_EP_HANDLE datagram_eps[2];
static DAT_IB_ADDR_HANDLE way; /* from the first to the second */

/* Nobody receives them: they are lost. */
MEASURE measure_post_send_ud(void)
{
	EACH(dat_ib_post_send_ud(datagram_eps[0], 1, &local, &way, COOKIE(i), NO_FLAGS));
}

/* Says whether the IA has what a named attribute tells of. */
static bool has_extension(const char *name)
{
	DAT_PROVIDER_ATTR attr;

	MUST(!dat_ia_query(ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	for (int i = 0; i < attr.num_provider_specific_attr; i++)
		if (!strcmp(attr.provider_specific_attr[i].name, name))
			return !strcmp(attr.provider_specific_attr[i].value, "TRUE");
	return false;
}

static void open_words(void)
{
	DAT_REGION_DESCRIPTION region = { .for_va = buffer };
	DAT_LMR_HANDLE lmr;

	MUST(LMR_CREATE(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(buffer), pz,
			(DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_ALL_FLAG |
					     (int)DAT_IB_MEM_PRIV_REMOTE_ATOMIC),
			&lmr, &word.lmr_context, &remote_word.rmr_context, NULL,
			NULL) == DAT_SUCCESS);
	word.virtual_address = (uintptr_t)buffer;
	remote_word.virtual_address = (uintptr_t)buffer + SIZE;
	word.segment_length = remote_word.segment_length = 8;
}

/* Makes two endpoints of datagrams, of which the first learns the way to the second. */
static void open_datagrams(void)
{
	const DAT_EP_ATTR attr = {
		.service_type = (DAT_SERVICE_TYPE)DAT_IB_SERVICE_TYPE_UD,
		.max_recv_dtos = 1,
		.max_request_dtos = TURNS * (CALLS + 1),
		.max_recv_iov = 1,
		.max_request_iov = 4,
	};
	DAT_IB_EXTENSION_EVENT_DATA found;
	DAT_PSP_HANDLE psp;
	DAT_IA_ATTR ia_attr;
	DAT_EVENT event;

	if (!has_extension("DAT_IB_UD"))
		return;
	for (int i = 0; i < 2; i++)
		MUST(!dat_ep_create(ia, pz, idle_evd, send_evd, conn_evd, &attr, &datagram_eps[i]));
	MUST(!dat_psp_create(ia, QUALIFIER, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	MUST(!dat_ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &ia_attr, 0, NULL));
	MUST(!dat_ep_connect(datagram_eps[0], ia_attr.ia_address_ptr, QUALIFIER, FOREVER, 0, NULL,
			     DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	event = bench_wait(cr_evd, (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_REQUEST_EVENT);
	MUST(!dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, datagram_eps[1], 0,
			    NULL));
	for (int i = 0; i < 2; i++) { /* of either endpoint, in any order */
		event = bench_wait(conn_evd,
				   (DAT_EVENT_NUMBER)DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
		memcpy(&found, event.event_extension_data, sizeof(found));
		if (found.type == DAT_IB_UD_REMOTE_AH)
			way = found.remote_ah;
	}
	MUST(way.ah);
	MUST(!dat_psp_free(psp));
}

static void measure_extensions(void)
{
	for (int i = 0; i < TURNS && way.ah; i++) {
		measure_post_send_ud();
		dequeue_completions(send_evd, CALLS);
	}
	for (int i = 0; i < TURNS && has_extension("DAT_IB_IMMED_DATA"); i++) {
		recv_unmeasured();
		measure_post_write_immed();
		dequeue_completions(send_evd, CALLS);
		dequeue_completions(recv_evd, CALLS);
	}
	if (!has_extension("DAT_IB_FETCH_AND_ADD"))
		return;
	open_words();
	for (int i = 0; i < TURNS; i++) {
		measure_post_fetch_add();
		dequeue_completions(send_evd, CALLS);
		measure_post_cmp_swap();
		dequeue_completions(send_evd, CALLS);
	}
}
#else
static void open_datagrams(void)
{
}

static void measure_extensions(void)
{
}
#endif

/* ---- binds and regions ---- */

static void bind_all(void)
{
	DAT_RMR_CONTEXT context;

	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!RMR_BIND(rmr, local_lmr, &local, DAT_MEM_PRIV_ALL_FLAG, client,
			       (DAT_RMR_COOKIE){ .as_64 = i }, DAT_COMPLETION_DEFAULT_FLAG,
			       &context));
}

MEASURE measure_bind(void)
{
	bind_all();
}

/* The window moves from one region to another and back again. */
MEASURE measure_bind_elsewhere(void)
{
	const DAT_LMR_TRIPLET to[2] = { elsewhere, local };
	const DAT_LMR_HANDLE lmr[2] = { elsewhere_lmr, local_lmr };
	DAT_RMR_CONTEXT context;

	(void)lmr; /* DAT 1.2 goes by the context */
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!RMR_BIND(rmr, lmr[i % 2], &to[i % 2], DAT_MEM_PRIV_ALL_FLAG, client,
			       (DAT_RMR_COOKIE){ .as_64 = i }, DAT_COMPLETION_DEFAULT_FLAG,
			       &context));
}

/* It registers the range, and posts a write of no bytes behind which that is in force. */
MEASURE measure_bind_emulated(void)
{
	DAT_RMR_CONTEXT context;

	MUST(!RMR_BIND(rmr, read_only_lmr, &read_only, DAT_MEM_PRIV_REMOTE_READ_FLAG, client,
		       (DAT_RMR_COOKIE){ .as_64 = 0 }, DAT_COMPLETION_DEFAULT_FLAG, &context));
}

static inline void register_all(void)
{
	DAT_REGION_DESCRIPTION region = { .for_va = buffer };

	for (int i = 0; i < CALLS; i++) {
		DAT_LMR_CONTEXT lmr_context;
		DAT_RMR_CONTEXT rmr_context;
		DAT_LMR_HANDLE lmr;
		DAT_VADDR address;
		DAT_VLEN size;

		MUST(!LMR_CREATE(ia, DAT_MEM_TYPE_VIRTUAL, region, SIZE, pz, DAT_MEM_PRIV_ALL_FLAG,
				 &lmr, &lmr_context, &rmr_context, &size, &address));
		MUST(!dat_lmr_free(lmr));
	}
}

/* These are done with few live regions, and with ten thousand. */
MEASURE measure_register(void)
{
	register_all();
}

MEASURE measure_register_crowded(void)
{
	register_all();
}

static void measure_regions(void)
{
	DAT_LMR_HANDLE lmr;
	int live = 3;

	for (; live < 10; live++)
		bench_region(&lmr, NULL);
	for (int i = 0; i < TURNS; i++)
		measure_register();
	for (; live < 10000; live++)
		bench_region(&lmr, NULL);
	for (int i = 0; i < TURNS; i++)
		measure_register_crowded();
}

/* ---- events ---- */

MEASURE measure_dequeue(void)
{
	DAT_EVENT event;

	for (int i = 0; i < CALLS; i++)
		MUST(dat_evd_dequeue(recv_evd, &event) == DAT_SUCCESS);
}

MEASURE measure_dequeue_nothing(void)
{
	DAT_EVENT event;

	for (int i = 0; i < CALLS; i++)
		MUST(dat_evd_dequeue(recv_evd, &event) == DAT_QUEUE_EMPTY);
}

MEASURE measure_wait(void)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(dat_evd_wait(recv_evd, FOREVER, 1, &event, &more) == DAT_SUCCESS);
}

MEASURE measure_dequeue_bind(void)
{
	DAT_EVENT event;

	for (int i = 0; i < CALLS; i++) {
		MUST(dat_evd_dequeue(send_evd, &event) == DAT_SUCCESS);
		MUST(event.event_number == DAT_RMR_BIND_COMPLETION_EVENT);
	}
}

MEASURE measure_dequeue_software(void)
{
	DAT_EVENT event;

	for (int i = 0; i < CALLS; i++)
		MUST(dat_evd_dequeue(software_evd, &event) == DAT_SUCCESS);
}

MEASURE measure_wait_cno(void)
{
	DAT_EVD_HANDLE evd;

	MUST(dat_cno_wait(cno, FOREVER, &evd) == DAT_SUCCESS);
}

static void post_software_event(void)
{
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };

	MUST(dat_evd_post_se(software_evd, &event) == DAT_SUCCESS);
}

static void post_one(DAT_EP_HANDLE from, DAT_EP_HANDLE to)
{
	MUST(!dat_ep_post_recv(to, 1, &local, (DAT_DTO_COOKIE){ .as_64 = 0 },
			       DAT_COMPLETION_DEFAULT_FLAG));
	MUST(!dat_ep_post_send(from, 1, &local, (DAT_DTO_COOKIE){ .as_64 = 0 },
			       DAT_COMPLETION_DEFAULT_FLAG));
}

/* Behind the messages there is a write, which completes when it is placed. */
static void messages_arrive(int calls)
{
	post_write();
	take_completions(send_evd, calls + 1);
}

static void message_unmeasured(void)
{
	post_one(client, server);
}

static void take_requests(int calls)
{
	take_completions(send_evd, calls);
}

static void take_receives(int calls)
{
	take_completions(recv_evd, calls);
}

#include "turns.h"

/* Their completions end no wait, so those of the requests that follow do. */
static void measure_unsignalled(void)
{
	open_connection(DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_HANDLE_NULL);
	service_park();
	warm_up();
	send_turns(measure_post_recv_unsignalled, measure_post_send_unsignalled, false);
	request_turns(measure_post_rdma_write_unsignalled, false);
	request_turns(measure_post_rdma_read_unsignalled, false);
	service_resume();
}

MEASURE measure_srq_post_recv(void)
{
	for (DAT_UINT64 i = 0; i < CALLS; i++)
		MUST(!dat_srq_post_recv(srq, 1, &local, (DAT_DTO_COOKIE){ .as_64 = i }));
}

MEASURE measure_dequeue_srq(void)
{
	DAT_EVENT event;

	for (int i = 0; i < CALLS; i++)
		MUST(dat_evd_dequeue(recv_evd, &event) == DAT_SUCCESS);
}

/* Tells whether the transport has shared receive queues. */
static bool has_shared_receives(void)
{
	DAT_IA_ATTR attr;

	MUST(!dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	return attr.max_srqs > 0;
}

static void measure_shared_receives(void)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = TURNS * CALLS,
			      .max_recv_iov = 4,
			      .low_watermark = DAT_SRQ_LW_DEFAULT };

	MUST(dat_srq_create(ia, pz, &attr, &srq) == DAT_SUCCESS);
	open_connection(DAT_COMPLETION_DEFAULT_FLAG, srq);
	service_park();
	for (int i = 0; i < TURNS; i++) {
		measure_srq_post_recv();
		send_unmeasured();
		messages_arrive(CALLS);
		measure_dequeue_srq();
	}
	service_resume();
}

static void measure_software_events(void)
{
	DAT_EVENT event;
	DAT_EVD_HANDLE evd;

	for (int i = 0; i < TURNS; i++) {
		for (int n = 0; n < CALLS; n++)
			post_software_event();
		measure_dequeue_software();
	}
	MUST(dat_cno_wait(cno, FOREVER, &evd) == DAT_SUCCESS);
	for (int i = 0; i < CALLS * TURNS; i++) {
		post_software_event();
		measure_wait_cno();
		MUST(dat_evd_dequeue(software_evd, &event) == DAT_SUCCESS);
	}
}

/*
 * When the peer has answered a message that was sent behind the binds, these have completed. The
 * completions of the messages are behind theirs.
 */
static void measure_bind_completions(void)
{
	for (int i = 0; i < TURNS; i++) {
		bind_all();
		post_one(client, server);
		take_completions(recv_evd, 1);
		post_one(server, client);
		take_completions(idle_evd, 1);
		measure_dequeue_bind();
		take_completions(send_evd, 2);
	}
}

static void bind_turns(void (*bind)(void))
{
	for (int i = 0; i < TURNS; i++) {
		bind();
		take_bind_completions(CALLS);
		post_write();
		take_completions(send_evd, 1);
	}
}

static void measure_binds(void)
{
	/* So many outstanding binds take memory, which is reused by those that are measured. */
	bind_turns(bind_all);
	bind_turns(measure_bind);
	bind_turns(measure_bind_elsewhere);
	measure_bind_completions();
	for (int i = 0; i < CALLS * TURNS; i++) {
		measure_bind_emulated();
		take_bind_completions(1);
	}
}

/* ---- messages, while the provider's thread is not parked ---- */

#define MESSAGES 500

static void messages_polled(void)
{
	for (int i = 0; i < MESSAGES; i++) {
		post_one(client, server);
		dequeue_completions(recv_evd, 1);
		dequeue_completions(send_evd, 1);
	}
}

static sem_t asked;

static void *send_when_asked(void *arg)
{
	for (int i = 0; i < MESSAGES; i++) {
		while (sem_wait(&asked))
			;
		post_one(client, server);
		dequeue_completions(send_evd, 1);
	}
	return arg;
}

static void messages_asleep(void)
{
	pthread_t thread;

	MUST(!sem_init(&asked, 0, 0) && !pthread_create(&thread, NULL, send_when_asked, NULL));
	for (int i = 0; i < MESSAGES; i++) {
		MUST(!sem_post(&asked));
		bench_wait(recv_evd, DAT_DTO_COMPLETION_EVENT);
	}
	MUST(!pthread_join(thread, NULL));
}

/* Until the last byte is there nobody makes a call. */
static void messages_unattended(void)
{
	volatile char *last = &buffer[SIZE - 1];

	local.virtual_address += SIZE;
	for (int i = 0; i < MESSAGES; i++) {
		DAT_LMR_TRIPLET into = local;

		into.virtual_address -= SIZE;
		buffer[2 * SIZE - 1] = (char)(i % 2 + 1);
		MUST(!dat_ep_post_recv(server, 1, &into, (DAT_DTO_COOKIE){ 0 }, 0));
		MUST(!dat_ep_post_send(client, 1, &local, (DAT_DTO_COOKIE){ 0 }, 0));
		while (*last != (char)(i % 2 + 1))
			usleep(100);
	}
	dequeue_completions(recv_evd, MESSAGES);
	dequeue_completions(send_evd, MESSAGES);
}

static void no_messages(void)
{
}

/* Returns false if there is no such thing to do. */
static bool run_messages(const char *name, const char *how)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} ways[] = { { "nothing", no_messages },
		     { "polled", messages_polled },
		     { "asleep", messages_asleep },
		     { "unattended", messages_unattended } };

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(ways[i].name, how)) {
			open_all(name, DAT_FALSE);
			ways[i].run();
			MUST(!dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
			return true;
		}
	return false;
}

int main(int argc, char **argv)
{
	if (argc == 3 && run_messages(argv[1], argv[2]))
		return 0;
	MUST(argc == 2 || (argc == 3 && !strcmp(argv[2], "threadsafe")));
	open_all(argv[1], argc == 3);
	open_datagrams();
	service_park();
	warm_up();
	measure_posts();
	measure_extensions();
	measure_completions();
	measure_software_events();
	measure_binds();
	measure_regions();
	service_resume();
	measure_unsignalled();
	if (has_shared_receives())
		measure_shared_receives();
	MUST(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
	return 0;
}
