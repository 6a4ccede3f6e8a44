/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connects N...		connections of N processes, all to all, each at once
 * connects raw|ours N	one turn of one side, for a profiler
 *
 * The processes meet before the first attempt, and when the last connection is up. The two sides
 * take turns, so that both meet the same moods of the machine.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "connects.h"

#define TURNS_OF_EACH 5	  /* odd, for a median */
#define WANTED	      1.1 /* ratio of ours to raw */

struct connects_listener *connects_listeners;

/* What a process has measured. */
struct measured {
	uint64_t began, up;    /* ns, by the clock */
	double processor;      /* us of it */
	long memory;	       /* kB that were added */
	unsigned repeated;     /* attempts */
	long faults, switches; /* of pages; of the processor to another thread */
};

static struct shared {
	pthread_barrier_t barrier;
	struct connects_listener listeners[MAX_PROCESSES];
	struct measured measured[MAX_PROCESSES];
} * shared;

/* A turn. */
struct turn {
	double ms;	  /* until the last connection is up */
	double processor; /* us of all processes for a connection */
	double memory;	  /* KiB of both ends of a connection */
	double repeated;
	double faults, switches; /* of all processes for a connection */
};

static void meet(void)
{
	int ret = pthread_barrier_wait(&shared->barrier);

	MUST(!ret || ret == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void process_main(const struct connects_side *side, unsigned rank, unsigned processes)
{
	struct measured *measured = &shared->measured[rank];
	struct rusage before, after;
	double processor;
	long memory;

	side->open(rank, processes);
	memory = memory_kb();
	meet();
	MUST(!getrusage(RUSAGE_SELF, &before));
	measured->began = clock_ns();
	processor = processor_us();
	measured->repeated = side->connect();
	measured->up = clock_ns();
	measured->processor = processor_us() - processor;
	MUST(!getrusage(RUSAGE_SELF, &after));
	measured->memory = memory_kb() - memory;
	measured->faults = after.ru_minflt - before.ru_minflt;
	measured->switches = after.ru_nvcsw - before.ru_nvcsw + after.ru_nivcsw - before.ru_nivcsw;
	meet(); /* a process that has ended would break connections of the others */
	_exit(0);
}

static void shared_prepare(unsigned processes)
{
	pthread_barrierattr_t attr;

	memset(shared, 0, sizeof(*shared));
	MUST(!pthread_barrierattr_init(&attr));
	MUST(!pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	MUST(!pthread_barrier_init(&shared->barrier, &attr, processes));
}

/* The others would wait for ever for one that has failed. */
static void processes_await(unsigned processes)
{
	int status;

	for (unsigned i = 0; i < processes; i++) {
		MUST(wait(&status) > 0);
		MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static struct turn turn_of(unsigned processes)
{
	const double connections = processes * (processes - 1) / 2.;
	uint64_t began = UINT64_MAX, up = 0;
	struct turn turn = { 0 };

	for (unsigned i = 0; i < processes; i++) {
		const struct measured *measured = &shared->measured[i];

		began = measured->began < began ? measured->began : began;
		up = measured->up > up ? measured->up : up;
		turn.processor += measured->processor / connections;
		turn.memory += (double)measured->memory / connections;
		turn.repeated += measured->repeated;
		turn.faults += (double)measured->faults / connections;
		turn.switches += (double)measured->switches / connections;
	}
	turn.ms = (double)(up - began) / 1e6;
	return turn;
}

static struct turn run(const struct connects_side *side, unsigned processes)
{
	shared_prepare(processes);
	for (unsigned rank = 0; rank < processes; rank++) {
		pid_t parent = getpid(), pid = fork();

		MUST(pid >= 0);
		if (pid == 0) {
			MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
			process_main(side, rank, processes);
		}
	}
	processes_await(processes);
	return turn_of(processes);
}

static int compare(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	return (x->ms > y->ms) - (x->ms < y->ms);
}

/* The turn of median time, with the repeated attempts of all. */
static struct turn middle(struct turn turns[TURNS_OF_EACH])
{
	double repeated = 0;

	for (int i = 0; i < TURNS_OF_EACH; i++)
		repeated += turns[i].repeated;
	qsort(turns, TURNS_OF_EACH, sizeof(*turns), compare);
	turns[TURNS_OF_EACH / 2].repeated = repeated;
	return turns[TURNS_OF_EACH / 2];
}

static void print_turn(const char *side, unsigned processes, const struct turn *turn, double ratio)
{
	const double connections = processes * (processes - 1) / 2.;

	printf("%-9u %-5s %11.0f %9.2f %12.0f %9.1f %9.1f %9.0f", processes, side, connections,
	       turn->ms, connections / turn->ms * 1000, turn->processor, turn->memory,
	       turn->repeated);
	if (ratio > 0)
		printf(" %7.2f%s", ratio, ratio > WANTED ? "  over" : "");
	printf("\n");
	fflush(stdout);
}

static void report(unsigned processes)
{
	const double connections = processes * (processes - 1) / 2.;
	struct turn raw[TURNS_OF_EACH], ours[TURNS_OF_EACH];
	double ratio;

	for (int i = 0; i < TURNS_OF_EACH; i++) {
		if (i % 2)
			raw[i] = run(&connects_raw, processes);
		ours[i] = run(&connects_dat, processes);
		if (i % 2 == 0)
			raw[i] = run(&connects_raw, processes);
	}
	raw[0] = middle(raw);
	ours[0] = middle(ours);
	ratio = ours[0].ms / raw[0].ms;
	print_turn("raw", processes, &raw[0], 0);
	print_turn("ours", processes, &ours[0], ratio);
	results_print("row\t%u\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.0f\t%.0f\n",
		      processes, raw[0].ms, ours[0].ms, ratio, connections / ours[0].ms * 1000,
		      raw[0].processor, ours[0].processor, raw[0].memory, ours[0].memory,
		      raw[0].repeated, ours[0].repeated);
}

static unsigned processes_in(const char *text)
{
	unsigned long processes = strtoul(text, NULL, 10);

	MUST(processes >= 2 && processes <= MAX_PROCESSES);
	return (unsigned)processes;
}

static int run_one(char **args)
{
	const struct connects_side *side = strcmp(args[0], "raw") ? &connects_dat : &connects_raw;
	struct turn turn = run(side, processes_in(args[1]));

	printf("%.2f ms; for a connection %.0f us of a processor, %.1f page faults, %.1f "
	       "switches\n",
	       turn.ms, turn.processor, turn.faults, turn.switches);
	return 0;
}

int main(int argc, char **argv)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	MUST(shared != MAP_FAILED);
	connects_listeners = shared->listeners;
	if (argc == 3 && (!strcmp(argv[1], "raw") || !strcmp(argv[1], "ours")))
		return run_one(argv + 1);
	printf("\nprocesses that connect, all to all, each at once; the median of %d turns\n",
	       TURNS_OF_EACH);
	printf("%-9s %-5s %11s %9s %12s %9s %9s %9s %7s\n", "processes", "", "connections", "ms",
	       "a second", "us of cpu", "KiB", "repeated", "ratio");
	results_print("table\tconnects\tprocesses\traw ms\tours ms\tratio\tours a second"
		      "\traw us of processor\tours us of processor\traw KiB\tours KiB\traw repeated"
		      "\tours repeated\n");
	for (int i = 1; i < argc; i++)
		report(processes_in(argv[i]));
}
