/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What dtest prints: progress and times on stdout, failures on stderr, and a trace of the DAT calls
 * with -v.
 */
#include "dtest.h"

#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static bool tracing;

static const struct {
	DAT_EVENT_NUMBER number;
	const char *name;
} events[] = {
/* clang-format off */
#define EVENT(number)	{ number, #number }
	/* clang-format on */
	EVENT(DAT_DTO_COMPLETION_EVENT),
	EVENT(DAT_RMR_BIND_COMPLETION_EVENT),
	EVENT(DAT_CONNECTION_REQUEST_EVENT),
	EVENT(DAT_CONNECTION_EVENT_ESTABLISHED),
	EVENT(DAT_CONNECTION_EVENT_PEER_REJECTED),
	EVENT(DAT_CONNECTION_EVENT_NON_PEER_REJECTED),
	EVENT(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR),
	EVENT(DAT_CONNECTION_EVENT_DISCONNECTED),
	EVENT(DAT_CONNECTION_EVENT_BROKEN),
	EVENT(DAT_CONNECTION_EVENT_TIMED_OUT),
	EVENT(DAT_CONNECTION_EVENT_UNREACHABLE),
#undef EVENT
};

static const char *const statuses[] = {
#define STATUS(status) [status] = #status
	STATUS(DAT_DTO_SUCCESS),
	STATUS(DAT_DTO_ERR_FLUSHED),
	STATUS(DAT_DTO_ERR_LOCAL_LENGTH),
	STATUS(DAT_DTO_ERR_LOCAL_EP),
	STATUS(DAT_DTO_ERR_LOCAL_PROTECTION),
	STATUS(DAT_DTO_ERR_BAD_RESPONSE),
	STATUS(DAT_DTO_ERR_REMOTE_ACCESS),
	STATUS(DAT_DTO_ERR_REMOTE_RESPONDER),
	STATUS(DAT_DTO_ERR_TRANSPORT),
	STATUS(DAT_DTO_ERR_RECEIVER_NOT_READY),
	STATUS(DAT_DTO_ERR_PARTIAL_PACKET),
#undef STATUS
};

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
	const char *major = "unknown error", *minor = "";

	if (ret == DAT_SUCCESS) {
		if (tracing)
			dtest_print("%s done", call);
		return 0;
	}
	/* writes a text also for a code that it does not know */
	(void)dat_strerror(ret, &major, &minor);
	dtest_error(call, "%s %s", major, minor);
	return -1;
}

void dtest_print(const char *format, ...)
{
	va_list args;

	printf("%d ", getpid());
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void dtest_error(const char *what, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%d Error %s: ", getpid(), what);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	putc('\n', stderr);
}

const char *dtest_event_name(DAT_EVENT_NUMBER number)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i].number == number)
			return events[i].name;
	return "an unknown event";
}

const char *dtest_status_name(DAT_DTO_COMPLETION_STATUS status)
{
	if (status >= sizeof(statuses) / sizeof(statuses[0]))
		return "an unknown status";
	return statuses[status];
}

int dtest_address_text(const struct sockaddr *address, char *text, size_t size)
{
	socklen_t length = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);

	return getnameinfo(address, length, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST) ? -1
											    : 0;
}

double dtest_usec_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void dtest_print_measure(const char *name, double total, unsigned count, double each,
				unsigned long polls)
{
	printf("%d: %-12s Total=%10.2f usec, %u bursts, itime=%10.2f usec, pc=%lu\n", getpid(),
	       name, total, count, each, polls);
}

static void dtest_print_times(const struct dtest *t)
{
	double sum = 0;

	dtest_print_measure("Message RTT:", t->pings.usec, t->opt.burst,
			    t->pings.usec / t->opt.burst, t->pings.polls);
	dtest_print_measure("RDMA write:", t->writes.usec, t->opt.burst,
			    t->writes.usec / t->opt.burst, t->writes.polls);
	for (unsigned i = 0; i < READS; i++)
		sum += t->reads[i].usec;
	for (unsigned i = 0; i < READS; i++)
		dtest_print_measure("RDMA read:", sum, READS, t->reads[i].usec, t->reads[i].polls);
	sum = 0;
	for (unsigned i = 0; i < TIMERS; i++) {
		sum += t->timers[i];
		if (t->opt.cno || (i != TIME_CNO_CREATE && i != TIME_CNO_FREE))
			printf("%d: %-12s %10.2f usec\n", getpid(), timer_names[i], t->timers[i]);
	}
	printf("%d: %-12s %10.2f usec\n", getpid(), "TOTAL:", sum);
}

/* Prints no times after a failure, because they could be taken for those of a complete run. */
void dtest_print_result(const struct dtest *t)
{
	printf("%d: DAPL Test Complete. %s\n", getpid(), t->failed ? "FAILED" : "PASSED");
	if (!t->failed)
		dtest_print_times(t);
}
