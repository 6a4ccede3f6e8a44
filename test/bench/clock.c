/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time of protocols over DAT beside the same over raw verbs, or libfabric. The two take turns, so
 * that both meet the same moods of the machine.
 *
 * clock time		on the processors that the program may use: one, by taskset
 * clock tcp		over libfabric's tcp, on all processors
 * clock threads	on more than one processor
 * clock sizes		messages and writes of 1 byte to 4 MiB
 * clock endpoints	cost of an endpoint as their number grows
 * clock calls		system calls per operation
 * clock raw|ours PROTOCOL N [BYTES]	N operations of one protocol of one side, for a profiler;
 *				of so many bytes if it has no size of its own
 */
#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"

#define MAX_ROUNDS    31
#define TURN_NS	      UINT64_C(40000000)
#define SHORT_TURN_NS UINT64_C(5000000)
#define SLOW_NS	      UINT64_C(1000000) /* an operation of that time takes a turn of SLOW_TURN_NS */
#define SLOW_TURN_NS  UINT64_C(100000000)
#define PROBE_NS      UINT64_C(2000000) /* of operations that tell how many make a turn */

bool peers_poll;
uint32_t sized_bytes = MESSAGE;

/* Turns of each side; odd, for a median. */
static int rounds = 9;
static uint64_t longest_turn_ns = SLOW_TURN_NS;

static const struct {
	const char *name;
	double limit;	  /* of ours to raw; 0: none is wanted */
	double tcp_limit; /* the same over libfabric's tcp */
} protocols[PROTOCOLS] = {
	[PING_PONG] = { "ping-pong, polled", 1.03, 1.05 },
	[WRITES] = { "writes of 4 KiB, ten ahead, polled", 1.03, 0 },
	[PING_PONG_ASLEEP] = { "ping-pong of two threads that sleep", 1.05, 1.05 },
	[CONNECT] = { "connect, disconnect, free", 1.05, 1.5 },
	[UNTIL_TOLD] = { "abrupt disconnect until both know", 1.05, 2 },
	[UNTIL_TOLD_FLUSHED] = { "  with 8 receives at each end", 0, 0 },
	[REGISTER] = { "register and release 4 KiB", 1.03, 0 },
	[BIND] = { "bind, and write through the window", 1.05, 0 },
	[PING_PONG_TWO] = { "ping-pong of two threads that poll", 0, 1.05 },
	[PING_PONG_APART] = { "ping-pong asleep, two processors", 0, 1.05 },
	[WRITTEN_DEQUEUED] = { "writes to and fro, polled", 0, 1.1 },
	[WRITTEN] = { "  memory, one dequeue each", 0, 1.5 },
	[WRITTEN_RARELY] = { "  memory, dequeues after eight", 0, 1.5 },
	[WRITTEN_LARGE] = { "  of 64 KiB, likewise one each", 0, 1.5 },
	[WRITTEN_ONE_DEQUEUED] = { "writes by one thread, polled", 0, 1.1 },
	[WRITTEN_ONE] = { "  memory, one dequeue each", 0, 1.5 },
	[LARGE_SENDS] = { "sends of 1 MiB, four ahead", 0, 1.02 },
	[LARGE_WRITES] = { "writes of 1 MiB, four ahead", 0, 1.02 },
	[SIZED_MESSAGES] = { "ping-pong of a size, polled", 0, 0 },
	[SIZED_WRITES] = { "writes of a size, some ahead", 0, 0 },
	[SIZED_WRITTEN] = { "written to and fro", 1.03, 1.2 },
	[SIZED_WRITTEN_ONE] = { "written by one thread", 1.03, 1.2 },
	[ONE_THREAD] = { "one thread, ping-pong, polled", 1.03, 0 },
	[FOUR_THREADS] = { "four threads with an endpoint each", 1.03, 0 },
};

/* What the other threads of this process have done. */
struct others {
	unsigned long switches; /* they went to sleep */
	unsigned long long ns;	/* of a processor */
};

static FILE *task_open(const char *tid, const char *what)
{
	char path[300];

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", tid, what);
	return fopen(path, "r"); /* NULL: it has just ended, or the kernel does not tell */
}

static void others_add(struct others *others, const char *tid)
{
	FILE *status = task_open(tid, "status"), *time = task_open(tid, "schedstat");
	unsigned long long ns;
	unsigned long n;
	char line[128];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
			others->switches += n;
	if (time && fscanf(time, "%llu", &ns) == 1)
		others->ns += ns;
	if (status)
		fclose(status);
	if (time)
		fclose(time);
}

static struct others others_now(void)
{
	struct others others = { 0, 0 };
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;

	MUST(dir);
	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) && atoi(entry->d_name) != getpid())
			others_add(&others, entry->d_name);
	closedir(dir);
	return others;
}

/*
 * Adds to @sum what they have done since @before. A thread of the turn before, which had just
 * ended, may have been counted there.
 */
static void others_add_since(struct others *sum, const struct others *before)
{
	const struct others now = others_now();

	if (now.switches > before->switches)
		sum->switches += now.switches - before->switches;
	if (now.ns > before->ns)
		sum->ns += now.ns - before->ns;
}

/* ---- one protocol ---- */

struct result {
	double raw, ours;	  /* us, medians */
	double low, middle, high; /* of the turns' ratios */
	double switches;	  /* of the provider's threads, per operation ... */
	double others;		  /* ... and us of a processor that they need for one */
	double processor;	  /* ratio of the times of all threads of the process */
};

/* @processor: us that all threads need for one operation. */
static double turn(const struct clock_side *side, enum protocol protocol, unsigned n,
		   double *processor)
{
	double began = processor_us(), us = (double)side->run[protocol](n) / n / 1000;

	*processor = (processor_us() - began) / n;
	return us;
}

/* The first operations take longer than those of a turn. */
static uint64_t probe(const struct clock_side *side, enum protocol protocol)
{
	unsigned n = THREADS;
	uint64_t ns;

	while ((ns = side->run[protocol](n)) < PROBE_NS)
		n *= 2;
	return ns / n;
}

/* A multiple of the number of threads. */
static unsigned turn_length(enum protocol protocol)
{
	uint64_t ns = probe(&clock_raw, protocol);
	uint64_t turn_ns = ns > SLOW_NS ? SLOW_TURN_NS : TURN_NS;

	(void)probe(&clock_dat, protocol);
	if (turn_ns > longest_turn_ns)
		turn_ns = longest_turn_ns;
	return (unsigned)(turn_ns / (ns + 1)) / THREADS * THREADS + THREADS;
}

static struct result measure(enum protocol protocol)
{
	unsigned n = turn_length(protocol);
	double raw[MAX_ROUNDS], ours[MAX_ROUNDS], ratio[MAX_ROUNDS];
	double raw_cpu[MAX_ROUNDS], ours_cpu[MAX_ROUNDS];
	struct others before, sum = { 0, 0 };
	struct result result;

	for (int i = 0; i < rounds; i++) {
		if (i % 2)
			raw[i] = turn(&clock_raw, protocol, n, &raw_cpu[i]);
		before = others_now();
		ours[i] = turn(&clock_dat, protocol, n, &ours_cpu[i]);
		others_add_since(&sum, &before);
		if (i % 2 == 0)
			raw[i] = turn(&clock_raw, protocol, n, &raw_cpu[i]);
		ratio[i] = ours[i] / raw[i];
	}
	result.raw = median(raw, rounds);
	result.ours = median(ours, rounds);
	result.middle = median(ratio, rounds);
	result.low = ratio[0];
	result.high = ratio[rounds - 1];
	result.switches = (double)sum.switches / rounds / n;
	result.others = (double)sum.ns / 1000 / rounds / n;
	result.processor = median(ours_cpu, rounds) / median(raw_cpu, rounds);
	return result;
}

/* @name: in place of the protocol's, or NULL. */
static struct result report_as(const char *name, enum protocol protocol)
{
	double limit = peers_poll ? protocols[protocol].tcp_limit : protocols[protocol].limit;
	struct result result = measure(protocol);
	double ratio = result.ours / result.raw;

	name = name ? name : protocols[protocol].name;
	printf("%-36s %9.1f %9.1f %7.2f ", name, result.raw, result.ours, ratio);
	if (limit > 0)
		printf("%8.2f", limit);
	else
		printf("%8s", "-");
	printf("   %5.2f %5.2f %5.2f %8.2f %8.2f %9.2f%s\n", result.low, result.middle, result.high,
	       result.switches, result.others, result.processor,
	       limit > 0 && ratio > limit ? "  over" : "");
	results_print("row\t%s\t%.2f\t%.2f\t%.4f\t%.2f\t%.4f\t%.4f\t%.4f\t%.2f\t%.2f\t%.4f\n", name,
		      result.raw, result.ours, ratio, limit, result.low, result.middle, result.high,
		      result.switches, result.others, result.processor);
	fflush(stdout);
	return result;
}

static struct result report(enum protocol protocol)
{
	return report_as(NULL, protocol);
}

/* By size, to as many bytes as an eager message of MPI or a block of storage may have. */
static void report_written(enum protocol protocol)
{
	char name[64];

	for (sized_bytes = 1; sized_bytes <= LARGE; sized_bytes *= 4) {
		snprintf(name, sizeof(name), "%s, %u bytes", protocols[protocol].name, sized_bytes);
		report_as(name, protocol);
	}
}

static void print_head(const char *where)
{
	printf("\nby the clock, %s: us per operation, medians of %d turns of each\n", where,
	       rounds);
	printf("%-36s %9s %9s %7s %8s   %17s %8s %8s %9s\n", "", "raw", "ours", "ratio", "at most",
	       "ratios of turns", "switches", "us of it", "processor");
	results_print("table\t%s\tprotocol\traw us\tours us\tratio\tat most\t"
		      "lowest\tmedian\thighest\tswitches\tus of it\tprocessor\n",
		      where);
}

/* The device may have no windows. */
static void report_time(void)
{
	print_head("one processor");
	for (enum protocol protocol = PING_PONG; protocol <= BIND; protocol++)
		if (protocol != BIND || raw_has_windows())
			report(protocol);
	report_written(SIZED_WRITTEN_ONE);
}

static void report_tcp(void)
{
	static const enum protocol of_tcp[] = {
		PING_PONG,   PING_PONG_TWO,   PING_PONG_ASLEEP, WRITTEN_DEQUEUED,
		WRITTEN,     WRITTEN_RARELY,  WRITTEN_LARGE,	WRITTEN_ONE_DEQUEUED,
		WRITTEN_ONE, PING_PONG_APART, LARGE_SENDS,	LARGE_WRITES,
		WRITES,	     CONNECT,	      UNTIL_TOLD,	REGISTER
	};

	rounds = MAX_ROUNDS;
	print_head("libfabric's tcp");
	for (size_t i = 0; i < sizeof(of_tcp) / sizeof(*of_tcp); i++)
		report(of_tcp[i]);
	report_written(SIZED_WRITTEN);
	report_written(SIZED_WRITTEN_ONE);
	/* The service thread has to notice that the consumer polls, and that it does no more. */
	longest_turn_ns = SHORT_TURN_NS;
	print_head("libfabric's tcp, in turns of 5 ms");
	for (enum protocol protocol = PING_PONG; protocol < SIZED_MESSAGES; protocol++)
		if (protocols[protocol].tcp_limit > 0)
			report(protocol);
}

static void report_threads(void)
{
	struct result one, four;
	double raw, ours;

	print_head("all processors");
	one = report(ONE_THREAD);
	four = report(FOUR_THREADS);
	report_written(SIZED_WRITTEN);
	raw = one.raw / four.raw;
	ours = one.ours / four.ours;
	printf("four threads do, times as much as one: raw %.2f, ours %.2f\n", raw, ours);
	results_print("table\tfour threads to one\traw\tours\nrow\t%.2f\t%.2f\n", raw, ours);
}

/* ---- sizes ---- */

static double gigabytes_per_second(double us)
{
	return sized_bytes / us / 1000;
}

/* A message takes half a round trip. */
static void report_sizes(void)
{
	printf("\nby size: us of a message; GB/s of writes; medians of %d turns of each\n", rounds);
	printf("%-8s %9s %9s %9s %9s\n", "bytes", "raw us", "ours us", "raw GB/s", "ours GB/s");
	results_print("table\tsizes\tbytes\traw us\tours us\traw GB/s\tours GB/s\n");
	for (sized_bytes = 1; sized_bytes <= MEMORY; sized_bytes *= 4) {
		struct result message = measure(SIZED_MESSAGES), write = measure(SIZED_WRITES);

		message.raw /= 2;
		message.ours /= 2;
		write.raw = gigabytes_per_second(write.raw);
		write.ours = gigabytes_per_second(write.ours);
		printf("%-8u %9.2f %9.2f %9.4f %9.4f\n", sized_bytes, message.raw, message.ours,
		       write.raw, write.ours);
		results_print("row\t%u\t%.2f\t%.2f\t%.6f\t%.6f\n", sized_bytes, message.raw,
			      message.ours, write.raw, write.ours);
		fflush(stdout);
	}
}

/* ---- many endpoints ---- */

static void report_endpoints(void)
{
	static const char *const steps[STEPS] = { "queues", "connect", "message", "disconnect",
						  "free" };
	static const struct {
		const char *name;
		const struct clock_side *side;
	} sides[] = { { "raw", &clock_raw }, { "ours", &clock_dat } };
	static const unsigned numbers[] = { 10, 100, 1000, MAX_ENDPOINTS };
	uint64_t ns[STEPS];
	double kib;

	printf("\npairs of endpoints: us%s per pair, KiB\n%-8s %-6s",
	       peers_poll ? " of processor time" : "", "pairs", "");
	for (int i = CONNECT_STEP; i < STEPS; i++)
		printf(" %10s", steps[i]);
	printf(" %10s\n", "memory");
	results_print("table\tendpoints\tpairs\tside\tconnect\tmessage\tdisconnect\tfree"
		      "\tKiB\n");
	for (size_t number = 0; number < sizeof(numbers) / sizeof(*numbers); number++) {
		unsigned n = numbers[number];

		if (n > 1000 && !peers_poll) /* more than the guest has memory for */
			break;
		for (int s = 0; s < 2; s++) {
			if (n == 10) /* the first time everything costs more */
				sides[s].side->scale(n, ns);
			kib = (double)sides[s].side->scale(n, ns) / n;
			printf("%-8u %-6s", n, sides[s].name);
			results_print("row\t%u\t%s", n, sides[s].name);
			for (int i = CONNECT_STEP; i < STEPS; i++) {
				printf(" %10.1f", (double)ns[i] / n / 1000);
				results_print("\t%.2f", (double)ns[i] / n / 1000);
			}
			printf(" %10.1f\n", kib);
			results_print("\t%.1f\n", kib);
			fflush(stdout);
		}
	}
}

/* @args end with NULL. */
static int run_one(char **args)
{
	unsigned long protocol = strtoul(args[1], NULL, 0), n = strtoul(args[2], NULL, 0);
	const struct clock_side *side = strcmp(args[0], "raw") ? &clock_dat : &clock_raw;
	double processor;

	MUST(protocol < PROTOCOLS && n);
	if (args[3])
		sized_bytes = (uint32_t)strtoul(args[3], NULL, 0);
	MUST(sized_bytes && sized_bytes <= MEMORY);
	clock_raw.open(); /* a process with several threads pays more for each system call */
	clock_dat.open();
	printf("%s: %.1f us\n", protocols[protocol].name,
	       turn(side, (enum protocol)protocol, (unsigned)n, &processor));
	return 0;
}

static void descriptors_allow_all(void)
{
	struct rlimit limit;

	MUST(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	MUST(!setrlimit(RLIMIT_NOFILE, &limit));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "time", report_time },
		      { "tcp", report_tcp },
		      { "threads", report_threads },
		      { "sizes", report_sizes },
		      { "endpoints", report_endpoints } };

	if (argc == 4 || argc == 5)
		return run_one(argv + 1);
	MUST(argc == 2);
	if (!strcmp(argv[1], "calls")) {
		count_calls();
		return 0;
	}
	descriptors_allow_all();
	clock_raw.open();
	clock_dat.open();
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			modes[i].run();
			return 0;
		}
	MUST(!"no such mode");
}
