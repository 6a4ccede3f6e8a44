/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ep_memory NAME...
 * The memory of the heap that an endpoint takes, over each name of dat.conf, before it is
 * connected: this library's and what is below it, in bytes. A row for a number of segments, a
 * column for a number of requests in each direction. It passes no judgement: "over" marks what is
 * more than wanted.
 */
#include <dat/udat.h>
#include <malloc.h>
#include <sys/wait.h>

#include "bench.h"

/* Objects are allocated some at a time: first so many, then twice as many. */
#define FIRST	  16
#define ENDPOINTS (2 * FIRST)

/* wanted of an endpoint whose transfers have one segment */
#define WANTED_FIXED   4000
#define WANTED_REQUEST 100

enum { COLUMNS = 4 };
static const DAT_COUNT depths[COLUMNS] = { 1, 16, 128, 1024 };

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE async_evd, dto_evd, conn_evd;

static DAT_EVD_HANDLE evd_make(DAT_COUNT length, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	MUST(!dat_evd_create(ia, length, DAT_HANDLE_NULL, flags, &evd));
	return evd;
}

static void ia_open_all(const char *name, DAT_COUNT depth)
{
	char copy[DAT_NAME_MAX_LENGTH];

	snprintf(copy, sizeof(copy), "%s", name);
	async_evd = DAT_HANDLE_NULL;
	MUST(!dat_ia_open(copy, 8, &async_evd, &ia));
	MUST(!dat_pz_create(ia, &pz));
	dto_evd = evd_make(8 * ENDPOINTS * depth, DAT_EVD_DTO_FLAG);
	conn_evd = evd_make(2 * ENDPOINTS, DAT_EVD_CONNECTION_FLAG);
}

static void eps_make(int n, DAT_COUNT depth, DAT_COUNT iov, DAT_EP_HANDLE *eps)
{
	const DAT_EP_ATTR attr = {
		.service_type = DAT_SERVICE_TYPE_RC,
		.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG,
		.max_recv_dtos = depth,
		.max_request_dtos = depth,
		.max_recv_iov = iov,
		.max_request_iov = iov,
	};

	for (int i = 0; i < n; i++)
		MUST(!dat_ep_create(ia, pz, dto_evd, dto_evd, conn_evd, &attr, &eps[i]));
}

static size_t heap_used(void)
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/*
 * Returns the bytes of one endpoint, without those of the queues in which it completes. A process
 * of its own makes it, because what is freed is kept for later ones.
 */
static unsigned ep_bytes(const char *name, DAT_COUNT depth, DAT_COUNT iov)
{
	int ends[2], status;
	unsigned bytes;
	pid_t child;
	DAT_EP_HANDLE eps[ENDPOINTS];

	fflush(stdout); /* not twice, by the child, too */
	MUST(!pipe(ends));
	child = fork();
	MUST(child >= 0);
	if (!child) {
		size_t before;

		ia_open_all(name, depth);
		eps_make(FIRST, 4 * depth + 8, iov, eps); /* queues of completions grow */
		for (int i = 0; i < FIRST; i++)
			MUST(!dat_ep_free(eps[i]));
		eps_make(FIRST, 1, iov, eps);
		before = heap_used();
		eps_make(ENDPOINTS, depth, iov, eps);
		bytes = (unsigned)((heap_used() - before) / ENDPOINTS);
		MUST(write(ends[1], &bytes, sizeof(bytes)) == sizeof(bytes));
		MUST(!dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && !status);
	MUST(read(ends[0], &bytes, sizeof(bytes)) == sizeof(bytes));
	close(ends[0]);
	close(ends[1]);
	return bytes;
}

static void row_measure(const char *name, DAT_COUNT iov)
{
	printf("%-24s %8d", name, (int)iov);
	results_print("row\t%s, %d", name, (int)iov);
	for (int i = 0; i < COLUMNS; i++) {
		const unsigned bytes = ep_bytes(name, depths[i], iov);
		const unsigned wanted = WANTED_FIXED + 2 * (unsigned)depths[i] * WANTED_REQUEST;

		printf(" %8u%s", bytes, iov == 1 && bytes > wanted ? " over" : "");
		results_print("\t%u", bytes);
	}
	printf("\n");
	results_print("\n");
}

int main(int argc, char **argv)
{
	printf("\nbytes of an endpoint with so many requests in each direction\n");
	printf("%-24s %8s", "over", "segments");
	for (int i = 0; i < COLUMNS; i++)
		printf(" %8d", (int)depths[i]);
	printf("\n");
	results_print("table\tep_memory\tover, segments\t1\t16\t128\t1024\n");
	for (int i = 1; i < argc; i++) {
		row_measure(argv[i], 1);
		row_measure(argv[i], 4);
	}
	return 0;
}
