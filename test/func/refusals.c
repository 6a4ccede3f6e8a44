/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A full machine, over libfabric's tcp: each call by which libfabric and the provider ask the
 * system for something is refused once, from the open of two IAs to their close, with a connection
 * and messages between them. Whatever is refused, each call of DAT succeeds or returns an error of
 * its own, nothing hangs, the close leaves no descriptor and no thread, and the same again
 * succeeds.
 *
 * The same holds under each limit of descriptors, memory or threads that is too low for it.
 *
 * Each refusal has a process of its own. A crash in libfabric's own code is told, and is no
 * failure, nor is what libfabric leaves behind when its own allocation is refused. By default a few
 * refusals of each call are tried, with REFUSALS=all in the environment all of them.
 */
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../consumer/consumer.h"
#include "refuse.h"

enum {
	FEW = 5,	 /* refusals of a call that are tried by default */
	LIMIT = 5000000, /* microseconds of a wait: nothing that is refused takes so long */
	MOST_LIMITS = 5000
};

/* How a process ends that has tried a refusal. */
enum outcome { GOOD, NOT_REACHED, LIBFABRIC_FAULT, BAD };

/* The first result that was no success. */
static DAT_RETURN first_error;

/* ---- two ends, each step of which may fail ---- */

struct station {
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async_evd, dto_evd, conn_evd, cr_evd;
	DAT_PZ_HANDLE pz;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_TRIPLET segment;
	DAT_EP_HANDLE ep;
	char memory[4096];
};

/* What is not like that ends the process, after one line. */
static void must(bool condition, const char *what)
{
	if (condition)
		return;
	printf("# %s; the call that was refused:\n", what);
	fflush(stdout);
	refused_print_place();
	_exit(BAD);
}

/* Returns true after a success; a failure must be an error that has a name. */
static bool succeeded(DAT_RETURN ret)
{
	const char *major, *minor;

	must(ret == DAT_SUCCESS || ret & DAT_CLASS_ERROR, "a result is neither success nor error");
	must(dat_strerror(ret, &major, &minor) == DAT_SUCCESS, "a result has no name");
	if (first_error == DAT_SUCCESS)
		first_error = ret;
	return ret == DAT_SUCCESS;
}

static bool station_open(struct station *station, enum end end)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = station->memory };
	DAT_EP_ATTR attr = ep_attr_for(4, 4);
	DAT_RMR_CONTEXT context;
	DAT_VADDR address;
	DAT_VLEN length;

	station->segment = (DAT_LMR_TRIPLET){ .virtual_address = (uintptr_t)station->memory,
					      .segment_length = 64 };
	return succeeded(dat_ia_open((DAT_NAME_PTR)ia_name(end, BY_INTERFACE), 8,
				     &station->async_evd, &station->ia)) &&
	       succeeded(dat_pz_create(station->ia, &station->pz)) &&
	       succeeded(dat_evd_create(station->ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
					&station->dto_evd)) &&
	       succeeded(dat_evd_create(station->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
					&station->conn_evd)) &&
	       succeeded(dat_evd_create(station->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG,
					&station->cr_evd)) &&
	       succeeded(LMR_CREATE(station->ia, DAT_MEM_TYPE_VIRTUAL, region,
				    sizeof(station->memory), station->pz, DAT_MEM_PRIV_ALL_FLAG,
				    &station->lmr, &station->segment.lmr_context, &context, &length,
				    &address)) &&
	       succeeded(dat_ep_create(station->ia, station->pz, station->dto_evd, station->dto_evd,
				       station->conn_evd, &attr, &station->ep));
}

/* Returns true if the next event comes in time, and is that one. */
static bool event_comes(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_EVENT *event)
{
	DAT_COUNT more;

	return succeeded(dat_evd_wait(evd, LIMIT, 1, event, &more)) &&
	       event->event_number == number;
}

static bool stations_connect(struct station *client, struct station *server)
{
	DAT_EVENT event;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	struct side there;

	if (!succeeded(dat_ia_query(server->ia, NULL, DAT_IA_FIELD_ALL, &there.attr,
				    DAT_PROVIDER_FIELD_NONE, NULL)) ||
	    !succeeded(dat_psp_create_any(server->ia, &qual, server->cr_evd, DAT_PSP_CONSUMER_FLAG,
					  &psp)))
		return false;
	return succeeded(dat_ep_connect(client->ep, there.attr.ia_address_ptr, qual, LIMIT, 0, NULL,
					DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG)) &&
	       event_comes(server->cr_evd, DAT_CONNECTION_REQUEST_EVENT, &event) &&
	       succeeded(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server->ep,
				       0, NULL)) &&
	       event_comes(server->conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event) &&
	       event_comes(client->conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event);
}

static bool completes(const struct station *station)
{
	DAT_EVENT event;

	return event_comes(station->dto_evd, DAT_DTO_COMPLETION_EVENT, &event) &&
	       event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
}

static bool message_passes(struct station *from, struct station *to)
{
	const DAT_DTO_COOKIE cookie = { .as_64 = 1 };

	from->memory[0]++;
	if (!succeeded(dat_ep_post_recv(to->ep, 1, &to->segment, cookie,
					DAT_COMPLETION_DEFAULT_FLAG)) ||
	    !succeeded(dat_ep_post_send(from->ep, 1, &from->segment, cookie,
					DAT_COMPLETION_DEFAULT_FLAG)) ||
	    !completes(to) || !completes(from))
		return false;
	must(to->memory[0] == from->memory[0], "a message has other bytes than were sent");
	return true;
}

static bool connection_ends(const struct station *client, const struct station *server)
{
	DAT_EVENT event;

	return succeeded(dat_ep_disconnect(client->ep, DAT_CLOSE_GRACEFUL_FLAG)) &&
	       event_comes(client->conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event) &&
	       event_comes(server->conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event);
}

/* A close that is refused may be repeated. */
static void station_close(struct station *station)
{
	if (station->ia && !succeeded(dat_ia_close(station->ia, DAT_CLOSE_ABRUPT_FLAG))) {
		(void)refuse_end();
		must(dat_ia_close(station->ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS,
		     "an IA can't be closed");
	}
}

/* Returns true if all of it succeeds. */
static bool stations_work(void)
{
	struct station client = { .ia = DAT_HANDLE_NULL }, server = { .ia = DAT_HANDLE_NULL };
	const bool good = station_open(&server, SERVER) && station_open(&client, CLIENT) &&
			  stations_connect(&client, &server) && message_passes(&client, &server) &&
			  message_passes(&server, &client) && connection_ends(&client, &server);

	station_close(&client);
	station_close(&server);
	return good;
}

/* ---- whose fault it is ---- */

static void fault_is_told(int number)
{
	void *frames[32];
	int count = backtrace(frames, COUNT(frames));

	dprintf(STDOUT_FILENO, "# signal %d, where these are:\n", number);
	backtrace_symbols_fd(frames, count, STDOUT_FILENO);
	_exit(is_in_libfabric(frames, count) ? LIBFABRIC_FAULT : BAD);
}

static void faults_catch(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGALRM };
	void *frame;

	(void)backtrace(&frame, 1); /* it loads a library */
	for (size_t i = 0; i < COUNT(signals); i++)
		(void)signal(signals[i], fault_is_told);
	alarm(60);
}

/* ---- one refusal ---- */

/* In a process of its own. */
static void refusal_try(const void *what, size_t n, const unsigned left_alone[2])
{
	const enum refused_call call = *(const enum refused_call *)what;
	bool refused;

	faults_catch();
	refuse_nth(call, (unsigned)n);
	(void)stations_work();
	refused = refuse_end();
	if (!refused)
		_exit(NOT_REACHED);
	must(stations_work(), "what was refused once does not succeed afterwards");
	if (left_alone[0] == count_entries("/proc/self/fd") && threads_end(left_alone[1]))
		_exit(GOOD);
	/* without memory libfabric forgets some; descriptors show how we undo the same calls */
	if (call >= REFUSED_malloc && refused_in_libfabric())
		_exit(LIBFABRIC_FAULT);
	must(false, "a descriptor or a thread is left");
}

/* What a process has open after the same without a refusal. */
static void count_undisturbed(unsigned counts[2])
{
	int fds[2], status;
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	fflush(stdout);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		must(stations_work(), "what is not refused does not succeed");
		counts[0] = count_entries("/proc/self/fd");
		counts[1] = count_entries("/proc/self/task");
		must(write(fds[1], counts, 2 * sizeof(*counts)) > 0, "write");
		_exit(GOOD);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(read(fds[0], counts, 2 * sizeof(*counts)), 2 * sizeof(*counts));
	close(fds[0]);
	close(fds[1]);
	counts[0] -= 2; /* that pipe */
}

/* What is tried in a process of its own: number @n of @what. It does not return. */
typedef void attempt_fn(const void *what, size_t n, const unsigned left_alone[2]);

static enum outcome outcome_of(attempt_fn *attempt, const void *what, size_t n,
			       const unsigned counts[2])
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		attempt(what, n, counts);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? (enum outcome)WEXITSTATUS(status) : BAD;
}

START_TEST(a_call_that_is_refused_leaves_nothing_and_can_be_repeated)
{
	const char *all = getenv("REFUSALS");
	const enum refused_call call = (enum refused_call)_i;
	unsigned counts[2], faults = 0, bad = 0, tried = 0, step = 1, n = 1;

	stderr_redirect();
	count_undisturbed(counts);
	for (;; n += step) {
		enum outcome outcome = outcome_of(refusal_try, &call, n, counts);

		if (outcome == NOT_REACHED)
			break;
		tried++;
		faults += outcome == LIBFABRIC_FAULT;
		bad += outcome == BAD;
		if (outcome >= LIBFABRIC_FAULT)
			printf("# %s of %s number %u\n",
			       outcome == BAD ? "not as it should be: the refusal"
					      : "libfabric crashes, or forgets something, after "
						"the refusal",
			       refused_name(call), n);
		/* the next ones are further and further away */
		if (!all && tried >= FEW)
			step *= 2;
	}
	(void)stderr_restore();
	printf("# %s: %u refusals tried, %u faults of libfabric\n", refused_name(call), tried,
	       faults);
	ck_assert_uint_gt(tried, 0);
	ck_assert_uint_eq(bad, 0);
}
END_TEST

/* ---- limits of the process ---- */

#define NO_NAME DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)

static size_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	must(file && fscanf(file, "%zu", &pages) == 1, "/proc/self/statm");
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t nothing(void)
{
	return 0;
}

/* Whether there are other users than ours in this user namespace. */
static bool has_users(void)
{
	FILE *map = fopen("/proc/self/uid_map", "r");
	unsigned users = 0;

	must(map && fscanf(map, "%*u %*u %u", &users) == 1, "/proc/self/uid_map");
	fclose(map);
	return geteuid() == 0 && users > 1000000;
}

/*
 * Threads are counted for each user, and those of root have no limit. The user who has none may not
 * read our dat.conf, so that was read before.
 */
static void become_idle_user(void)
{
	DAT_COUNT n;

	(void)dat_registry_list_providers(0, &n, NULL);
	must(!setuid(500000 + (uid_t)getpid() % 100000) && !prctl(PR_SET_DUMPABLE, 1), "setuid");
}

/* Says why a limit can't be tried here, or returns NULL. */
static const char *limit_lack(int resource)
{
	if (resource == RLIMIT_NPROC && !has_users())
		return "our user may have other threads";
	if (resource == RLIMIT_AS && refusable_calls() < REFUSED_COUNT)
		return "a sanitizer needs its address space";
	return NULL;
}

static const struct limit {
	int resource;
	size_t (*least)(void); /* the first one that is tried */
	size_t step, fine;     /* by default, and with REFUSALS=all */
} limits[] = {
	{ RLIMIT_NOFILE, nothing, 4, 1 },
	{ RLIMIT_NPROC, nothing, 1, 1 },
	{ RLIMIT_AS, mapped_bytes, 4 << 20, 64 << 10 },
};

/*
 * Whether that is what a limit leads to. The provider's library may have no room, too; and if a
 * client has taken the last descriptor, its server has none to accept it with.
 */
static bool is_shortage(const struct limit *limit, DAT_RETURN error)
{
	return DAT_GET_TYPE(error) == DAT_INSUFFICIENT_RESOURCES ||
	       (limit->resource == RLIMIT_AS && error == NO_NAME) ||
	       (limit->resource == RLIMIT_NOFILE && DAT_GET_TYPE(error) == DAT_TIMEOUT_EXPIRED);
}

static void limit_set(int resource, rlim_t value)
{
	struct rlimit limit;

	must(!getrlimit(resource, &limit), "getrlimit");
	limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
	must(!setrlimit(resource, &limit), "setrlimit");
}

/* In a process of its own. */
static void limit_try(const void *what, size_t value, const unsigned left_alone[2])
{
	const struct limit *limit = what;
	bool good;

	faults_catch();
	if (limit->resource == RLIMIT_NPROC)
		become_idle_user();
	limit_set(limit->resource, value);
	good = stations_work();
	limit_set(limit->resource, RLIM_INFINITY);
	/* without memory libfabric puts a message off, and tells nobody */
	if (limit->resource == RLIMIT_AS && DAT_GET_TYPE(first_error) == DAT_TIMEOUT_EXPIRED)
		_exit(LIBFABRIC_FAULT);
	must(good || is_shortage(limit, first_error), status_text(first_error));
	must(stations_work(), "what a limit has refused does not succeed without it");
	must(left_alone[0] == count_entries("/proc/self/fd") && threads_end(left_alone[1]),
	     "a descriptor or a thread is left");
	_exit(good ? NOT_REACHED : GOOD);
}

START_TEST(a_limit_that_is_too_low_leaves_nothing)
{
	const struct limit *limit = &limits[_i];
	const size_t step = getenv("REFUSALS") ? limit->fine : limit->step;
	unsigned counts[2], faults = 0, bad = 0, tried = 0;
	const char *lack = limit_lack(limit->resource);
	enum outcome outcome;

	if (lack) {
		printf("# not tried: %s\n", lack);
		return;
	}
	stderr_redirect();
	count_undisturbed(counts);
	for (size_t value = limit->least(); tried < MOST_LIMITS; value += step) {
		outcome = outcome_of(limit_try, limit, value, counts);
		if (outcome == NOT_REACHED)
			break;
		tried++;
		faults += outcome == LIBFABRIC_FAULT;
		bad += outcome == BAD;
		if (outcome == BAD)
			printf("# not as it should be with a limit of %zu\n", value);
	}
	(void)stderr_restore();
	printf("# %u limits tried, %u faults of libfabric\n", tried, faults);
	ck_assert_uint_gt(tried, 0);
	ck_assert_uint_eq(bad, 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase;

	if (!device_choose() || strcmp(device()->kind, "tcp") != 0)
		skip_all_cases("the calls of libfabric's tcp are refused");
	device_preload();
	tcase = tcase_create("refusals");
	tcase_set_timeout(tcase, 3600);
	tcase_add_loop_test(tcase, a_call_that_is_refused_leaves_nothing_and_can_be_repeated, 0,
			    (int)refusable_calls());
	tcase_add_loop_test(tcase, a_limit_that_is_too_low_leaves_nothing, 0, COUNT(limits));
	return run_cases(argc, argv);
}
