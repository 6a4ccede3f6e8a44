/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls per operation. The operations run in a child process, which says in shared memory
 * what each of its threads does; this process traces it and counts. A thread that exists since the
 * devices were opened is the provider's.
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define OPS	   32	/* of each row */
#define TIDS	   4096 /* thread numbers, modulo */
#define NUMBERS	   1024 /* of system calls */
#define SETTLE_US  100000
#define SIDES	   2
#define TRACE_STOP (SIGTRAP | 0x80)

enum who { CONSUMER, PROVIDER, WHO };

/* Of the traced process; the tracer reads it. */
static struct shared {
	atomic_int row_of[TIDS]; /* enum counted, of the consumer's threads */
	atomic_int row, side;	 /* of the provider's threads */
	atomic_int marked;	 /* the thread of the latest mark */
	atomic_bool opening;	 /* the devices are being opened */
} * shared;

/* Of the tracer. */
static unsigned counts[SIDES][COUNTED][WHO][NUMBERS];
static unsigned channel_reads[SIDES][COUNTED];
static bool is_provider[TIDS];

/* ---- the traced process ---- */

void mark_calls(enum counted row)
{
	static _Thread_local int tid;

	if (!tid)
		tid = gettid();
	atomic_store(&shared->row_of[tid % TIDS], (int)row);
	if (row)
		atomic_store(&shared->marked, tid);
}

static bool sleeps(int tid)
{
	char path[64], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	stat = fopen(path, "r");
	if (!stat)
		return false;
	MUST(fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
	fclose(stat);
	return state == 'S';
}

/* Asleep in between: the tracer would handle the stops of a thread that spins, and no others. */
void mark_await_sleep(enum counted row)
{
	int tid;

	do {
		usleep(1000);
		tid = atomic_load(&shared->marked);
	} while (atomic_load(&shared->row_of[tid % TIDS]) != (int)row || !sleeps(tid));
}

static void run_traced(void)
{
	static const struct clock_side *const sides[SIDES] = { &clock_raw, &clock_dat };

	MUST(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	raise(SIGSTOP);
	atomic_store(&shared->opening, true);
	clock_raw.open();
	clock_dat.open();
	atomic_store(&shared->opening, false);
	for (int row = NOT_COUNTED + 1; row < COUNTED; row++)
		for (int s = 0; s < SIDES; s++) {
			sides[s]->count[row](); /* not counted: it may open something */
			usleep(SETTLE_US);
			atomic_store(&shared->side, s);
			atomic_store(&shared->row, row);
			for (int i = 0; i < OPS; i++)
				sides[s]->count[row]();
			usleep(SETTLE_US);
			atomic_store(&shared->row, NOT_COUNTED);
		}
	_exit(0);
}

/* ---- the tracer ---- */

/* A channel of completions: librdmacm's has another name. */
static bool is_channel(pid_t tid, uint64_t fd)
{
	static const char name[] = "anon_inode:[infinibandevent]";
	char path[64], link[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, (int)fd);
	return readlink(path, link, sizeof(link) - 1) > 0 && !strcmp(link, name);
}

/* Waiting for a lock whose holder is stopped by the tracer ends in sched_yield, many times over. */
static bool is_of_interest(const struct __ptrace_syscall_info *info)
{
	return info->op == PTRACE_SYSCALL_INFO_ENTRY && info->entry.nr < NUMBERS &&
	       info->entry.nr != SYS_sched_yield;
}

static void count_call(pid_t tid)
{
	struct __ptrace_syscall_info info;
	int side = atomic_load(&shared->side), row = atomic_load(&shared->row);
	enum who who = is_provider[tid % TIDS] ? PROVIDER : CONSUMER;

	MUST(ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0);
	if (!row || !is_of_interest(&info))
		return;
	if (who == CONSUMER && !atomic_load(&shared->row_of[tid % TIDS]))
		return;
	counts[side][row][who][info.entry.nr]++;
	if (info.entry.nr == SYS_read && is_channel(tid, info.entry.args[0]))
		channel_reads[side][row]++;
}

/* Returns the signal that the thread gets. */
static int handle_stop(pid_t tid, int status)
{
	unsigned long born;
	int signal = WSTOPSIG(status);

	if (signal == TRACE_STOP) {
		count_call(tid);
		return 0;
	}
	if (status >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8)) {
		MUST(!ptrace(PTRACE_GETEVENTMSG, tid, NULL, &born));
		is_provider[born % TIDS] = atomic_load(&shared->opening);
		return 0;
	}
	return signal == SIGSTOP || signal == SIGTRAP ? 0 : signal;
}

static void trace(pid_t child)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	int status;
	pid_t tid;

	MUST(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
	MUST(!ptrace(PTRACE_SETOPTIONS, child, NULL, options));
	MUST(!ptrace(PTRACE_SYSCALL, child, NULL, NULL));
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status))
			/* fails if the thread was killed meanwhile */
			(void)ptrace(PTRACE_SYSCALL, tid, NULL, (long)handle_stop(tid, status));
		else if (tid == child)
			break;
	}
	MUST(tid == child && WIFEXITED(status) && !WEXITSTATUS(status));
}

/* ---- the table ---- */

static const char *call_name(unsigned number)
{
	static const struct {
		unsigned number;
		const char *name;
	} names[] = {
		{ SYS_read, "read" },
		{ SYS_write, "write" },
		{ SYS_ioctl, "ioctl" },
		{ SYS_ppoll, "ppoll" },
		{ SYS_futex, "futex" },
		{ SYS_epoll_ctl, "epoll_ctl" },
		{ SYS_epoll_pwait, "epoll_pwait" },
		{ SYS_rt_sigprocmask, "rt_sigprocmask" },
		{ SYS_close, "close" },
		{ SYS_eventfd2, "eventfd2" },
#ifdef SYS_poll
		{ SYS_poll, "poll" },
#endif
#ifdef SYS_epoll_wait
		{ SYS_epoll_wait, "epoll_wait" },
#endif
	};
	static char other[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].number == number)
			return names[i].name;
	snprintf(other, sizeof(other), "call %u", number);
	return other;
}

static double per_operation(unsigned count)
{
	return (double)count / OPS;
}

/* The name of the operation stands in the first of its lines. */
static void print_calls(const char *operation, const char *who, const unsigned calls[NUMBERS],
			const char *note)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < NUMBERS; i++)
		sum += calls[i];
	printf("%-36s %-9s %6.2f ", strcmp(who, "raw") ? "" : operation, who, per_operation(sum));
	results_print("row\t%s\t%s\t%.2f\n", operation, who, per_operation(sum));
	for (unsigned i = 0; i < NUMBERS; i++)
		if (calls[i])
			printf(" %s %.2f", call_name(i), per_operation(calls[i]));
	printf("%s\n", note);
}

static void print_table(void)
{
	static const char *const names[COUNTED] = {
		[POLLED_ROUND] = "a round of polled ping-pong",
		[WAIT_READY] = "a wait that finds an event",
		[WAIT_SLEEP] = "a wait that sleeps",
		[CNO_READY] = "dat_cno_wait, its one EVD ready",
		[CNO_SLEEP] = "dat_cno_wait that sleeps",
	};
	char note[64];

	printf("\nsystem calls per operation, of the consumer's thread and of the provider's\n");
	results_print("table\tsystem calls\toperation\tside\tcalls\n");
	for (int row = NOT_COUNTED + 1; row < COUNTED; row++) {
		print_calls(names[row], "raw", counts[0][row][CONSUMER], "");
		print_calls(names[row], "ours", counts[1][row][CONSUMER], "");
		snprintf(note, sizeof(note), "; reads of channels, by both: %.2f, raw %.2f",
			 per_operation(channel_reads[1][row]),
			 per_operation(channel_reads[0][row]));
		print_calls(names[row], "provider", counts[1][row][PROVIDER], note);
	}
}

void count_calls(void)
{
	pid_t child;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	MUST(shared != MAP_FAILED);
	child = fork();
	MUST(child >= 0);
	if (!child)
		run_traced();
	trace(child);
	print_table();
}
