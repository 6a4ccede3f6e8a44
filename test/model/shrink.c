/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs lists of calls, each in a process of its own, and makes one that fails short. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

/* How often a list is run before it counts as right: of several threads each run differs. */
#define TRIES		   3
#define MAX_RUNS	   2000
#define TIME_LIMIT_SECONDS 280 /* of a process that hangs */

/* What the process of a list tells its parent. */
struct report {
	atomic_size_t failed; /* the index of the call, once there is one */
	const char *why;      /* an address, which all processes have in common */
	atomic_bool has_failed;
	bool quiet;
	atomic_size_t at; /* the last call that began, for a process that crashes */
};

static struct report *report;
static atomic_ulong *sights;

bool script_failed(size_t index, const char *why)
{
	bool first = !atomic_exchange(&report->has_failed, true);

	if (first) {
		report->failed = index;
		report->why = why;
	}
	return !first || report->quiet;
}

DAT_TIMEOUT script_patience(void)
{
	return report->quiet ? 50000 : TIME_LIMIT;
}

void script_at(size_t index)
{
	report->at = index;
}

void script_saw(enum sight sight)
{
	sights[sight]++;
}

void sights_print(FILE *to)
{
	static const char *const names[SIGHTS] = {
		[A_SUCCESS] = "calls that succeeded",
		[A_REFUSAL] = "calls that were refused",
		[SOFTWARE] = "software events",
		[COMPLETED] = "transfers completed",
		[FLUSHED] = "flushed",
		[FAILED] = "failed",
		[REQUEST] = "connection requests",
		[UP] = "ends connected",
		[DOWN] = "ends told of the end",
	};

	for (unsigned i = 0; i < SIGHTS; i++)
		fprintf(to, "%10lu %s\n", (unsigned long)sights[i], names[i]);
}

/* Memory of this process and of those that run the lists. */
static void *shared_map(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return at;
}

size_t script_run(const struct script *script, bool quiet)
{
	int status;
	pid_t pid;

	if (!report) {
		report = shared_map(sizeof(*report));
		sights = shared_map(SIGHTS * sizeof(*sights));
	}
	memset(report, 0, sizeof(*report));
	report->quiet = quiet;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (quiet && !freopen("/dev/null", "w", stderr))
			_exit(2);
		alarm(TIME_LIMIT_SECONDS);
		script_execute(script);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	if (status == 0)
		return script->n;
	if (report->has_failed)
		return report->failed;
	if (!quiet)
		fprintf(stderr, "# the process ended with status 0x%x\n", status);
	return report->at < script->n ? report->at : script->n - 1;
}

static bool has_threads(const struct script *script)
{
	for (size_t i = 0; i < script->n; i++)
		if (script->calls[i].thread)
			return true;
	return false;
}

/* Whether a call fails for that reason: another failure is not the one that was found. */
static bool still_fails(const struct script *script, const char *why)
{
	for (unsigned i = 0; i < (has_threads(script) ? TRIES : 1); i++) {
		if (script_run(script, true) < script->n)
			return report->why == why;
	}
	return false;
}

/* Tries to leave out each piece of that length. */
static bool leave_out(struct script *script, const char *why, size_t length, unsigned *runs)
{
	struct script shorter = { .calls = malloc(script->n * sizeof(*script->calls)) };
	bool any = false;

	if (!shorter.calls)
		abort();
	for (size_t at = 0; at < script->n && *runs < MAX_RUNS; ++*runs) {
		size_t left = script->n - at < length ? script->n - at : length;

		memcpy(shorter.calls, script->calls, at * sizeof(*script->calls));
		memcpy(shorter.calls + at, script->calls + at + left,
		       (script->n - at - left) * sizeof(*script->calls));
		shorter.n = script->n - left;
		if (shorter.n && still_fails(&shorter, why)) {
			memcpy(script->calls, shorter.calls, shorter.n * sizeof(*script->calls));
			script->n = shorter.n;
			any = true;
		} else {
			at += left;
		}
	}
	free(shorter.calls);
	return any;
}

void script_shrink(struct script *script)
{
	size_t failed = script_run(script, true), length;
	const char *why = report->why;
	unsigned runs = 0;

	if (failed == script->n)
		return; /* it does not fail each time: it stays as it is */
	script->n = failed + 1;
	for (length = script->n / 2; length; length /= 2)
		while (leave_out(script, why, length, &runs) && length == 1 && runs < MAX_RUNS)
			;
}
