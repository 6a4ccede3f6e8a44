/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scale		all rows, with 10 to 100,000 objects
 * scale N		each row once, with N objects, for callgrind
 *
 * Shows whether a cost grows with what is merely alive. Each row does one thing to every one of n
 * objects and prints the processor time of all threads per object. It runs over the fake transport,
 * whose own costs do not depend on n here: so objects are freed in the reverse order.
 */
#include <dat/udat.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "scale.h"

#define QUALIFIER 45780
#define FOREVER	  DAT_TIMEOUT_INFINITE
#define DEPTH	  2 /* requests, and receives, of an endpoint */
#define PAGE	  4096
#define MAX_PAIRS 10000

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE async_evd, cr_evd, conn_evd, recv_evd, request_evd;
static DAT_IA_ADDRESS_PTR address;
static DAT_LMR_TRIPLET segment;
static char memory[PAGE];

/* ---- objects ---- */

/* Makes an EVD. Returns NULL if there is no descriptor left for it. */
static DAT_EVD_HANDLE evd_try(DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;
	DAT_RETURN ret = dat_evd_create(ia, qlen, cno, flags, &evd);

	if (DAT_GET_TYPE(ret) == DAT_INSUFFICIENT_RESOURCES)
		return NULL;
	MUST(!ret);
	return evd;
}

static DAT_EVENT event_expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT more;

	MUST(!dat_evd_wait(evd, FOREVER, 1, &event, &more) && event.event_number == number);
	return event;
}

static DAT_EP_HANDLE scale_ep(void)
{
	DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = PAGE,
		.max_rdma_size = PAGE,
		.max_recv_dtos = DEPTH,
		.max_request_dtos = DEPTH,
		.max_recv_iov = 1,
		.max_request_iov = 1,
	};
	DAT_EP_HANDLE ep;

	MUST(!dat_ep_create(ia, pz, recv_evd, request_evd, conn_evd, &attr, &ep));
	return ep;
}

static void ia_open_all(void)
{
	static DAT_IA_ATTR attr;
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_HANDLE lmr;
	DAT_PSP_HANDLE psp;

	MUST(!dat_ia_open("scale", 8, &async_evd, &ia));
	MUST(!dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	address = attr.ia_address_ptr;
	MUST(!dat_pz_create(ia, &pz));
	cr_evd = evd_try(MAX_PAIRS, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG);
	conn_evd = evd_try(4 * MAX_PAIRS, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG);
	recv_evd = evd_try(2 * MAX_PAIRS * DEPTH, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG);
	request_evd = evd_try(2 * MAX_PAIRS * DEPTH, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG);
	MUST(cr_evd && conn_evd && recv_evd && request_evd);
	MUST(!dat_psp_create(ia, QUALIFIER, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	segment.virtual_address = (DAT_VADDR)(uintptr_t)memory;
	segment.segment_length = sizeof(memory);
	MUST(!dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, &segment.lmr_context, NULL, NULL, NULL));
}

/* ---- endpoints ---- */

enum ep_step { CREATE, CONNECT, MESSAGE, DISCONNECT, FREE, EP_STEPS };

static void connect_start(DAT_EP_HANDLE ep, DAT_TIMEOUT timeout)
{
	MUST(!dat_ep_connect(ep, address, QUALIFIER, timeout, 0, NULL, DAT_QOS_BEST_EFFORT,
			     DAT_CONNECT_DEFAULT_FLAG));
}

static void connect_one(DAT_EP_HANDLE client, DAT_EP_HANDLE server)
{
	DAT_CR_HANDLE cr;

	connect_start(client, FOREVER);
	cr = event_expect(cr_evd, DAT_CONNECTION_REQUEST_EVENT)
		     .event_data.cr_arrival_event_data.cr_handle;
	MUST(!dat_cr_accept(cr, server, 0, NULL));
	event_expect(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
	event_expect(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static void message_one(DAT_EP_HANDLE client, DAT_EP_HANDLE server)
{
	DAT_DTO_COOKIE cookie = { 0 };

	MUST(!dat_ep_post_recv(server, 1, &segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	MUST(!dat_ep_post_send(client, 1, &segment, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	event_expect(recv_evd, DAT_DTO_COMPLETION_EVENT);
	event_expect(request_evd, DAT_DTO_COMPLETION_EVENT);
}

static void disconnect_one(DAT_EP_HANDLE client)
{
	MUST(!dat_ep_disconnect(client, DAT_CLOSE_ABRUPT_FLAG));
	event_expect(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	event_expect(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/* Measures @n pairs; @cells are of one column. */
static void endpoints_measure(unsigned n, struct cell *cells[EP_STEPS])
{
	DAT_EP_HANDLE *eps = calloc(2 * n, sizeof(*eps));

	MUST(eps);
	cell_begin(cells[CREATE]);
	for (unsigned i = 0; i < 2 * n; i++)
		eps[i] = scale_ep();
	cell_end(cells[CREATE], n);
	cell_begin(cells[CONNECT]);
	for (unsigned i = 0; i < n; i++)
		connect_one(eps[2 * i], eps[2 * i + 1]);
	cell_end(cells[CONNECT], n);
	cell_begin(cells[MESSAGE]);
	for (unsigned i = 0; i < n; i++)
		message_one(eps[2 * i], eps[2 * i + 1]);
	cell_end(cells[MESSAGE], n);
	cell_begin(cells[DISCONNECT]);
	for (unsigned i = 0; i < n; i++)
		disconnect_one(eps[2 * i]);
	cell_end(cells[DISCONNECT], n);
	cell_begin(cells[FREE]);
	for (unsigned i = 2 * n; i--;)
		MUST(!dat_ep_free(eps[i]));
	cell_end(cells[FREE], n);
	free(eps);
}

static void scale_endpoints(void)
{
	static const char *const names[EP_STEPS] = {
		"create a pair of endpoints",	  "connect it", "a message",
		"disconnect abruptly, both told", "free it",
	};
	struct cell cells[EP_STEPS][COLUMNS] = { 0 };

	for (int i = 0; i < COLUMNS && columns[i] <= MAX_PAIRS; i++) {
		struct cell *column[EP_STEPS];

		for (int step = 0; step < EP_STEPS; step++)
			column[step] = &cells[step][i];
		for (unsigned r = repetitions(columns[i]); r; r--)
			endpoints_measure(columns[i], column);
	}
	for (int step = 0; step < EP_STEPS; step++)
		row_print(names[step], cells[step]);
}

/* ---- timers: attempts that are not answered, each with an earlier end than those before ---- */

static void timers_measure(unsigned n, struct cell *start, struct cell *stop)
{
	DAT_EP_HANDLE *eps = calloc(n, sizeof(*eps));

	MUST(eps);
	for (unsigned i = 0; i < n; i++)
		eps[i] = scale_ep();
	cell_begin(start);
	for (unsigned i = 0; i < n; i++)
		connect_start(eps[i], 2000000000 - 100000 * i);
	cell_end(start, n);
	for (unsigned i = 0; i < n; i++)
		event_expect(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	cell_begin(stop);
	for (unsigned i = n; i--;) {
		MUST(!dat_ep_disconnect(eps[i], DAT_CLOSE_ABRUPT_FLAG));
		event_expect(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	}
	cell_end(stop, n);
	for (unsigned i = n; i--;)
		MUST(!dat_ep_free(eps[i]));
	free(eps);
}

static void scale_timers(void)
{
	struct cell start[COLUMNS] = { 0 }, stop[COLUMNS] = { 0 };

	for (int i = 0; i < COLUMNS && columns[i] <= MAX_PAIRS; i++)
		for (unsigned r = repetitions(columns[i]); r; r--)
			timers_measure(columns[i], &start[i], &stop[i]);
	row_print("start an attempt with a time-out", start);
	row_print("give it up", stop);
}

/* ---- a CNO ---- */

/* Measures a CNO with @n EVDs, of which one at a time has an event. */
static void cno_measure(unsigned n, DAT_EVD_FLAGS flags, struct cell *cell)
{
	DAT_EVD_HANDLE *evds = calloc(n, sizeof(*evds)), triggered;
	DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };
	DAT_CNO_HANDLE cno;
	unsigned made = 0, waits = 200;

	MUST(evds);
	MUST(!dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	while (made < n && (evds[made] = evd_try(4, cno, flags | DAT_EVD_SOFTWARE_FLAG)))
		made++;
	cell_begin(cell);
	for (unsigned i = 0; made == n && i < waits; i++) {
		DAT_EVD_HANDLE evd = evds[i * 7919 % n];

		MUST(!dat_evd_post_se(evd, &event));
		MUST(!dat_cno_wait(cno, FOREVER, &triggered) && triggered == evd);
		MUST(!dat_evd_dequeue(evd, &event));
	}
	if (made == n)
		cell_end(cell, waits);
	while (made)
		MUST(!dat_evd_free(evds[--made]));
	MUST(!dat_cno_free(cno));
	free(evds);
}

static void scale_cno(void)
{
	struct cell software[COLUMNS] = { 0 }, dto[COLUMNS] = { 0 };

	for (int i = 0; i < COLUMNS && columns[i] <= MAX_PAIRS; i++)
		if (repetitions(columns[i])) {
			cno_measure(columns[i], 0, &software[i]);
			cno_measure(columns[i], DAT_EVD_DTO_FLAG, &dto[i]);
		}
	row_print("dat_cno_wait, so many software EVDs", software);
	row_print("dat_cno_wait, so many DTO EVDs", dto);
}

/* ---- regions ---- */

enum lmr_step { REGISTER, LOOK_UP, RELEASE, LMR_STEPS };

static void regions_measure(unsigned n, struct cell *cells[LMR_STEPS])
{
	DAT_LMR_HANDLE *lmrs = calloc(n, sizeof(*lmrs));
	DAT_LMR_TRIPLET *segments = calloc(n, sizeof(*segments));
	DAT_REGION_DESCRIPTION region = { .for_va = memory };

	MUST(lmrs && segments);
	cell_begin(cells[REGISTER]);
	for (unsigned i = 0; i < n; i++) {
		segments[i] = segment;
		MUST(!dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
				     DAT_MEM_PRIV_ALL_FLAG, &lmrs[i], &segments[i].lmr_context,
				     NULL, NULL, NULL));
	}
	cell_end(cells[REGISTER], n);
	cell_begin(cells[LOOK_UP]);
	MUST(!dat_lmr_sync_rdma_read(ia, segments, n));
	cell_end(cells[LOOK_UP], n);
	cell_begin(cells[RELEASE]);
	for (unsigned i = n; i--;)
		MUST(!dat_lmr_free(lmrs[i]));
	cell_end(cells[RELEASE], n);
	free(segments);
	free(lmrs);
}

static void scale_regions(void)
{
	static const char *const names[LMR_STEPS] = { "register a region", "look one up",
						      "release it" };
	struct cell cells[LMR_STEPS][COLUMNS] = { 0 };

	for (int i = 0; i < COLUMNS; i++) {
		struct cell *column[LMR_STEPS];

		for (int step = 0; step < LMR_STEPS; step++)
			column[step] = &cells[step][i];
		for (unsigned r = repetitions(columns[i]); r; r--)
			regions_measure(columns[i], column);
	}
	for (int step = 0; step < LMR_STEPS; step++)
		row_print(names[step], cells[step]);
}

/* ---- shared memory: each region with a mapping and a cookie of its own ---- */

static DAT_LMR_HANDLE register_shared(void *at, unsigned number)
{
	char cookie[DAT_LMR_COOKIE_SIZE] = { 0 };
	DAT_REGION_DESCRIPTION region = {
		.for_shared_memory = { .virtual_address = at, .shared_memory_id = &cookie },
	};
	DAT_LMR_HANDLE lmr;

	memcpy(cookie, &number, sizeof(number));
	MUST(!dat_lmr_create(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, PAGE, pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	return lmr;
}

static void shared_measure(unsigned n, struct cell *make, struct cell *release)
{
	DAT_LMR_HANDLE *lmrs = calloc(n, sizeof(*lmrs));
	void **maps = calloc(n, sizeof(*maps));

	MUST(lmrs && maps);
	for (unsigned i = 0; i < n; i++) {
		maps[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			       0);
		MUST(maps[i] != MAP_FAILED);
	}
	cell_begin(make);
	for (unsigned i = 0; i < n; i++)
		lmrs[i] = register_shared(maps[i], i);
	cell_end(make, n);
	cell_begin(release);
	for (unsigned i = n; i--;)
		MUST(!dat_lmr_free(lmrs[i]));
	cell_end(release, n);
	for (unsigned i = 0; i < n; i++)
		MUST(!munmap(maps[i], PAGE));
	free(maps);
	free(lmrs);
}

static void scale_shared(void)
{
	struct cell make[COLUMNS] = { 0 }, release[COLUMNS] = { 0 };

	/* beyond that the kernel refuses more mappings */
	for (int i = 0; i < COLUMNS && columns[i] <= 1000; i++)
		if (repetitions(columns[i]))
			shared_measure(columns[i], &make[i], &release[i]);
	row_print("register shared memory", make);
	row_print("release it", release);
}

static void table_begin(void)
{
	if (only_number)
		return;
	printf("\nus of processor time per object, of so many; then the last to the first\n");
	printf("%-40s", "");
	for (int i = 0; i < COLUMNS; i++)
		printf(" %8u", columns[i]);
	results_print("table\tscale\tcall\t10\t100\t1000\t10000\t100000\n");
	printf(" %8s\n", "growth");
}

int main(int argc, char **argv)
{
	struct rlimit limit;

	only_number = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	MUST(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	MUST(!setrlimit(RLIMIT_NOFILE, &limit));
	ia_open_all();
	table_begin();
	scale_endpoints();
	scale_timers();
	scale_cno();
	scale_regions();
	scale_shared();
	MUST(!dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	return 0;
}
