/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What dtest prints: progress and times on stdout, failures on stderr, and a trace of the DAT calls
 * with -v.
 */
#include "dtest.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool tracing, tables_only;

static const char *const timer_names[TIMERS] = {
	[TIME_OPEN] = "open:",
	[TIME_CLOSE] = "close:",
	[TIME_PZ_CREATE] = "PZ create:",
	[TIME_PZ_FREE] = "PZ free:",
	[TIME_LMR_CREATE] = "LMR create:",
	[TIME_LMR_FREE] = "LMR free:",
	[TIME_EVD_CREATE] = "EVD create:",
	[TIME_EVD_FREE] = "EVD free:",
	[TIME_CNO_CREATE] = "CNO create:",
	[TIME_CNO_FREE] = "CNO free:",
	[TIME_EP_CREATE] = "EP create:",
	[TIME_EP_FREE] = "EP free:",
};

void dtest_tables_only(void)
{
	tables_only = true;
}

/* Where lines go that are neither errors nor rows of a table. */
static FILE *dtest_lines(void)
{
	return tables_only ? stderr : stdout;
}

void dtest_trace_on(void)
{
	tracing = true;
}

void dtest_call_begin(const char *call)
{
	if (tracing)
		dtest_print("%s", call);
}

int dtest_call_end(const char *call, DAT_RETURN ret)
{
	char text[TOOL_RETURN];

	if (ret == DAT_SUCCESS) {
		if (tracing)
			dtest_print("%s done", call);
		return 0;
	}
	dtest_error(call, "%s", tool_return_text(ret, text, sizeof(text)));
	return -1;
}

void dtest_print(const char *format, ...)
{
	va_list args;

	tool_progress_clear();
	fprintf(dtest_lines(), "%d ", getpid());
	va_start(args, format);
	vfprintf(dtest_lines(), format, args);
	va_end(args);
	putc('\n', dtest_lines());
}

static void dtest_error_print(const char *what, const char *format, va_list args)
{
	tool_progress_clear();
	fprintf(stderr, "%d Error %s: ", getpid(), what);
	vfprintf(stderr, format, args);
	putc('\n', stderr);
}

void dtest_error(const char *what, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	dtest_error_print(what, format, args);
	va_end(args);
}

void dtest_context(const struct dtest *t, const char *what, const char *format, ...)
{
	va_list args;

	if (t->told)
		return;
	va_start(args, format);
	dtest_error_print(what, format, args);
	va_end(args);
}

void dtest_explain(const char *sentence)
{
	if (!sentence)
		return;
	tool_progress_clear();
	fprintf(stderr, "%d Error: %s\n", getpid(), sentence);
}

static void dtest_print_measure(const char *name, double total, unsigned count, double each,
				unsigned long polls)
{
	fprintf(dtest_lines(),
		"%d: %-12s Total=%10.2f usec, %u bursts, itime=%10.2f usec, pc=%lu\n", getpid(),
		name, total, count, each, polls);
}

static void dtest_print_transfer_times(const struct dtest *t)
{
	unsigned long polls = 0;
	double sum = 0;

	if (t->opt.mode == MODE_CHECK)
		dtest_print_measure("Message RTT:", t->pings.usec, t->opt.burst,
				    t->pings.usec / t->opt.burst, t->pings.polls);
	if (t->opt.mode & (MODE_CHECK | MODE_WRITES))
		dtest_print_measure("RDMA write:", t->writes.usec, t->opt.burst,
				    t->writes.usec / t->opt.burst, t->writes.polls);
	for (unsigned i = 0; i < READS; i++) {
		sum += t->reads[i].usec;
		polls += t->reads[i].polls;
	}
	if (t->opt.mode == MODE_CHECK)
		dtest_print_measure("RDMA read:", sum, READS, sum / READS, polls);
}

static void dtest_print_times(const struct dtest *t)
{
	double sum = 0;

	dtest_print_transfer_times(t);
	for (unsigned i = 0; i < TIMERS; i++) {
		sum += t->timers[i];
		if (t->opt.cno || (i != TIME_CNO_CREATE && i != TIME_CNO_FREE))
			fprintf(dtest_lines(), "%d: %-12s %10.2f usec\n", getpid(), timer_names[i],
				t->timers[i]);
	}
	fprintf(dtest_lines(), "%d: %-12s %10.2f usec\n", getpid(), "TOTAL:", sum);
}

/* Prints no times after a failure, because they could be taken for those of a complete run. */
void dtest_print_result(const struct dtest *t)
{
	fprintf(dtest_lines(), "%d: DAPL Test Complete. %s\n", getpid(),
		t->failed ? "FAILED" : "PASSED");
	if (!t->failed)
		dtest_print_times(t);
}
