/* SPDX-License-Identifier: BSD-2-Clause */
/* Support of the tests over a device: see peer.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

/* The macros of these names only say who is to blame. */
#undef event_wait
#undef connection_event_wait
#undef ended_wait
#undef dto_wait
#undef no_event
#undef pattern_check
#undef bytes_check
#undef recv_post
#undef send_post
#undef write_post
#undef read_post
#undef say_hello

_Thread_local int blamed;

/* ---- what a device has ---- */

static const struct device devices[] = {
	{
		/*
		 * Local memory is checked as late as a request is executed; most faults are
		 * operation errors then.
		 */
		.kind = "rxe",
		.bad_segment = DAT_DTO_ERR_LOCAL_EP,
		.bad_range = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_read_into = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_receive = DAT_DTO_ERR_LOCAL_EP,
		.short_receive = DAT_DTO_ERR_LOCAL_EP,
		.sent_too_long = DAT_DTO_ERR_REMOTE_RESPONDER,
		.request_padded = 56,
		.reply_padded = 196,
		.loose_windows = true,
		.crowd = 64,
	},
	{
		/*
		 * Whether a sender's request succeeds or fails, when the receive is no good, is a
		 * race with the end of the connection. The kernel runs out of places to map queues
		 * at some fifty endpoints.
		 */
		.kind = "siw",
		.bad_segment = DAT_DTO_ERR_LOCAL_EP,
		.bad_range = DAT_DTO_ERR_LOCAL_EP,
		.bad_read_into = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_receive = DAT_DTO_ERR_TRANSPORT,
		.short_receive = DAT_DTO_ERR_LOCAL_LENGTH,
		.crowd = 20,
		.hears_late = true,
	},
	{
		.kind = "hw",
		.bad_segment = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_range = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_read_into = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_receive = DAT_DTO_ERR_LOCAL_PROTECTION,
		.short_receive = DAT_DTO_ERR_LOCAL_LENGTH,
		.sent_too_long = DAT_DTO_ERR_REMOTE_RESPONDER,
		.request_padded = 56,
		.reply_padded = 196,
		.crowd = 64,
	},
};

static const struct lack {
	const char *kind;
	enum need need;
	const char *why;
} lacks[] = {
	{ "siw", NEEDS_PLACED, "iWARP completes a write or a send as soon as TCP has it" },
	{ "siw", NEEDS_REMOTE_STATUS, "iWARP completes a write or a send as soon as TCP has it" },
	{ "siw", NEEDS_READ_RIGHTS, "siw lets peers read memory registered without remote read" },
	{ "siw", NEEDS_RNR,
	  "iWARP breaks the connection over a message that no receive waits for" },
	{ "siw", NEEDS_SOLICITED, "siw forgets that a message was solicited" },
	{ "rxe", NEEDS_WINDOW_RANGE,
	  "soft-RoCE looks at the range of the region below, not at the window's" },
	{ "rxe", NEEDS_TCP, "only an iWARP device connects to a TCP listener" },
	{ "hw", NEEDS_TCP, "only an iWARP device connects to a TCP listener" },
	{ "hw", NEEDS_OWN_NET, "somebody may have any address of a real network" },
};

const struct device *device(void)
{
	const char *kind = getenv("DAT_TEST_DEV");

	for (size_t i = 0; kind && i < COUNT(devices); i++)
		if (!strcmp(kind, devices[i].kind))
			return &devices[i];
	return NULL;
}

static bool huge_pages_are_kept(void)
{
	FILE *info = fopen("/proc/meminfo", "r");
	unsigned free_pages = 0;
	char line[128];

	while (info && fgets(line, sizeof(line), info))
		if (sscanf(line, "HugePages_Free: %u", &free_pages) == 1)
			break;
	if (info)
		fclose(info);
	return free_pages > 0;
}

/* NULL: nothing is missing. */
static const char *lacking(unsigned needs)
{
	if (needs & NEEDS_HUGE_PAGES && !huge_pages_are_kept())
		return "the system keeps no huge pages, see /proc/sys/vm/nr_hugepages";
	for (size_t i = 0; i < COUNT(lacks); i++)
		if (lacks[i].need & needs && !strcmp(lacks[i].kind, device()->kind))
			return lacks[i].why;
	return NULL;
}

bool device_has(unsigned needs)
{
	return !lacking(needs);
}

/* ---- the dat.conf of a run ---- */

static char names[2][NAMES][DAT_NAME_MAX_LENGTH]; /* empty: there is none */

/*
 * Which device has this interface. "rdma link" says so for all kinds: "link rxe0/1 state ACTIVE …
 * netdev v0".
 */
static bool device_name(const char *interface, char name[64])
{
	FILE *links = popen("rdma link show 2>/dev/null", "r");
	char line[512], netdev[64];
	bool found = false;

	if (!links)
		return false;
	while (!found && fgets(line, sizeof(line), links)) {
		const char *rest = strstr(line, " netdev ");

		found = rest && sscanf(rest, " netdev %63s", netdev) == 1 &&
			!strcmp(netdev, interface) && sscanf(line, "link %63[^/]", name) == 1;
	}
	pclose(links);
	return found;
}

/*
 * A name for the resolver alone: a host may be called like its interface, but only it may be so in
 * capitals.
 */
static bool host_name(const char *interface, const char *address, char name[64])
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char text[INET_ADDRSTRLEN];
	size_t i;

	for (i = 0; i < 63 && interface[i]; i++)
		name[i] = (char)toupper((unsigned char)interface[i]);
	name[i] = '\0';
	if (!strcmp(name, interface) || getaddrinfo(name, NULL, &hints, &found))
		return false;
	inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr, text,
		  sizeof(text));
	freeaddrinfo(found);
	return !strcmp(text, address);
}

static void conf_lines(FILE *conf, unsigned end, enum named by, const char *params)
{
	static const char *const kinds[] = { "interface", "address", "device", "host" };
	static const char *const safety[] = { "nonthreadsafe", "threadsafe" };

	snprintf(names[end][by], sizeof(names[end][by]), "func-%s-%u", kinds[by], end);
	for (size_t i = 0; i < COUNT(safety); i++)
		fprintf(conf,
			"%s u1.2 %s default %s/udapl/.libs/libdaplcma.so dapl.1.2 \"%s %s\" \"\"\n",
			names[end][by], safety[i], getenv("top_builddir"), params,
			by == BY_DEVICE ? "1" : "0");
}

/* In a file without a name, so that none is left behind; libdat reads it when it is first asked. */
static void conf_write(void)
{
	int fd = memfd_create("dat.conf", 0);
	FILE *conf = fdopen(dup(fd), "w");
	char text[64];

	if (!conf)
		abort(); /* Check asserts nothing outside its tests */
	for (unsigned end = 0; end < 2; end++) {
		const char *interface = getenv(end ? "DAT_TEST_IF1" : "DAT_TEST_IF0");
		const char *address = getenv(end ? "DAT_TEST_ADDR1" : "DAT_TEST_ADDR0");

		conf_lines(conf, end, BY_INTERFACE, interface);
		conf_lines(conf, end, BY_ADDRESS, address);
		if (device_name(interface, text))
			conf_lines(conf, end, BY_DEVICE, text);
		if (host_name(interface, address, text))
			conf_lines(conf, end, BY_HOST, text);
	}
	fclose(conf);
	snprintf(text, sizeof(text), "/proc/%d/fd/%d", getpid(), fd);
	setenv("DAT_OVERRIDE", text, 1);
}

const char *ia_name(unsigned end, enum named by)
{
	return names[end][by][0] ? names[end][by] : NULL;
}

/* ---- running ---- */

#define LIMIT 120 /* seconds, of one test */

static bool chosen(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

static bool run_one(const struct test *test, size_t number)
{
	Suite *suite = suite_create("");
	TCase *tcase = tcase_create(test->body->name);
	SRunner *runner;
	TestResult **results;
	bool passed;

	tcase_set_timeout(tcase, LIMIT);
	tcase_add_test(tcase, test->body);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_SILENT);
	passed = srunner_ntests_failed(runner) == 0;
	printf("%s %zu - %s\n", passed ? "ok" : "not ok", number, test->body->name);
	results = srunner_results(runner);
	if (!passed)
		printf("# %s:%d: %s\n", tr_lfile(results[0]), tr_lno(results[0]),
		       tr_msg(results[0]));
	free(results);
	srunner_free(runner);
	return passed;
}

int run(int argc, char **argv, const struct test *tests, size_t count)
{
	bool passed = true;

	if (!device() || !getenv("top_builddir")) {
		puts("1..0 # SKIP no RDMA device here: make check-vm runs this where there is one");
		return 0;
	}
	/* Check's own TAP has no word for a test that is left out */
	unsetenv("CK_TAP_LOG_FILE_NAME");
	conf_write();
	printf("1..%zu\n", count);
	for (size_t i = 0; i < count; i++) {
		const char *why = lacking(tests[i].needs);

		if (!chosen(argc, argv, tests[i].body->name))
			why = "not chosen";
		if (why)
			printf("ok %zu - %s # SKIP %s\n", i + 1, tests[i].body->name, why);
		else
			passed = run_one(&tests[i], i + 1) && passed;
		fflush(stdout);
	}
	return !passed;
}

/* ---- what calls return ---- */

static const char *status_text(DAT_RETURN status, char text[128])
{
	const char *type, *subtype;

	if (dat_strerror(status, &type, &subtype) == DAT_SUCCESS)
		snprintf(text, 128, "%s %s (0x%08x)", type, subtype, status);
	else
		snprintf(text, 128, "0x%08x", status);
	return text;
}

void check_returned(const char *file, int line, const char *call, DAT_RETURN got, DAT_RETURN want)
{
	char got_text[128], want_text[128];

	if (got != want)
		ck_abort_msg("%s:%d: %s: %s, not %s", file, line, call, status_text(got, got_text),
			     status_text(want, want_text));
}

/* The same for calls made on behalf of a test. */
#define returns_there(want, call) check_returned("called from line", blamed, #call, (call), (want))

/* ---- one end ---- */

void side_open_as(struct side *side, const char *name, bool threadsafe)
{
	DAT_IA_ATTR attr;

	memset(side, 0, sizeof(*side));
	must(dat_ia_openv((DAT_NAME_PTR)name, 8, &side->async, &side->ia, 1, 2,
			  threadsafe ? DAT_TRUE : DAT_FALSE));
	must(dat_ia_query(side->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL));
	memcpy(&side->address, attr.ia_address_ptr, sizeof(side->address));
	must(dat_pz_create(side->ia, &side->pz));
	must(dat_evd_create(side->ia, QLEN, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &side->arrivals));
	must(dat_evd_create(side->ia, QLEN, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
			    &side->connects));
	must(dat_evd_create(side->ia, QLEN, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &side->recvs));
	must(dat_evd_create(side->ia, QLEN, DAT_HANDLE_NULL,
			    DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &side->requests));
}

void side_open(struct side *side, unsigned end)
{
	side_open_as(side, ia_name(end, BY_INTERFACE), false);
}

void side_close(struct side *side)
{
	must(dat_ia_close(side->ia, DAT_CLOSE_ABRUPT_FLAG));
}

DAT_EP_ATTR ep_attr(DAT_COUNT recvs, DAT_COUNT requests)
{
	return (DAT_EP_ATTR){
		.service_type = DAT_SERVICE_TYPE_RC,
		.qos = DAT_QOS_BEST_EFFORT,
		.max_recv_dtos = recvs,
		.max_request_dtos = requests,
		.max_recv_iov = 4,
		.max_request_iov = 4,
		.max_rdma_read_in = 4,
		.max_rdma_read_out = 4,
	};
}

DAT_EP_HANDLE ep_make(const struct side *side, const DAT_EP_ATTR *attr)
{
	DAT_EP_HANDLE ep;

	must(dat_ep_create(side->ia, side->pz, side->recvs, side->requests, side->connects, attr,
			   &ep));
	return ep;
}

DAT_EP_STATE ep_state(DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	must(dat_ep_get_status(ep, &state, NULL, NULL));
	return state;
}

/* ---- connections ---- */

DAT_PSP_HANDLE listen_any(const struct side *side, DAT_CONN_QUAL *qual)
{
	DAT_PSP_HANDLE psp;

	must(dat_psp_create_any(side->ia, qual, side->arrivals, DAT_PSP_CONSUMER_FLAG, &psp));
	return psp;
}

DAT_RETURN connect_to(DAT_EP_HANDLE ep, const struct side *listener, DAT_CONN_QUAL qual,
		      DAT_TIMEOUT timeout)
{
	struct sockaddr_in address = listener->address;

	return dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&address, qual, timeout, 0, NULL,
			      DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

DAT_CR_HANDLE request_take(const struct side *side)
{
	return event_wait(side->arrivals, DAT_CONNECTION_REQUEST_EVENT)
		.event_data.cr_arrival_event_data.cr_handle;
}

void request_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep)
{
	must(dat_cr_accept(cr, ep, 0, NULL));
}

void request_accept_in_vain(const struct side *side, DAT_CR_HANDLE cr)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	must(dat_cr_accept(cr, side->ep, 0, NULL));
	must(dat_evd_wait(side->connects, LONG, 1, &event, &nmore));
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
	if (device()->hears_late && event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
		ended_wait(side->connects, side->ep);
	else
		ck_assert_int_eq(event.event_number, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
}

void eps_connect(const struct side *near, DAT_EP_HANDLE near_ep, const struct side *far,
		 DAT_EP_HANDLE far_ep)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = listen_any(far, &qual);

	must(connect_to(near_ep, far, qual, LONG));
	request_accept(request_take(far), far_ep);
	connection_event_wait(near->connects, DAT_CONNECTION_EVENT_ESTABLISHED, near_ep);
	connection_event_wait(far->connects, DAT_CONNECTION_EVENT_ESTABLISHED, far_ep);
	must(dat_psp_free(psp));
}

void pair_open_unconnected(struct pair *pair, const DAT_EP_ATTR *attr)
{
	side_open(&pair->far, 0);
	side_open(&pair->near, 1);
	pair->far.ep = ep_make(&pair->far, attr);
	pair->near.ep = ep_make(&pair->near, attr);
}

void pair_connect(struct pair *pair)
{
	eps_connect(&pair->near, pair->near.ep, &pair->far, pair->far.ep);
}

void pair_open(struct pair *pair, const DAT_EP_ATTR *attr)
{
	pair_open_unconnected(pair, attr);
	pair_connect(pair);
}

void pair_close(struct pair *pair)
{
	side_close(&pair->near);
	side_close(&pair->far);
}

/* ---- events ---- */

static const struct {
	DAT_EVENT_NUMBER number;
	const char *name;
} event_names[] = {
	{ DAT_DTO_COMPLETION_EVENT, "DTO_COMPLETION" },
	{ DAT_RMR_BIND_COMPLETION_EVENT, "RMR_BIND_COMPLETION" },
	{ DAT_CONNECTION_REQUEST_EVENT, "CONNECTION_REQUEST" },
	{ DAT_CONNECTION_EVENT_ESTABLISHED, "ESTABLISHED" },
	{ DAT_CONNECTION_EVENT_PEER_REJECTED, "PEER_REJECTED" },
	{ DAT_CONNECTION_EVENT_NON_PEER_REJECTED, "NON_PEER_REJECTED" },
	{ DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, "ACCEPT_COMPLETION_ERROR" },
	{ DAT_CONNECTION_EVENT_DISCONNECTED, "DISCONNECTED" },
	{ DAT_CONNECTION_EVENT_BROKEN, "BROKEN" },
	{ DAT_CONNECTION_EVENT_TIMED_OUT, "TIMED_OUT" },
	{ DAT_CONNECTION_EVENT_UNREACHABLE, "UNREACHABLE" },
	{ DAT_SOFTWARE_EVENT, "SOFTWARE" },
};

static const char *event_name(DAT_EVENT_NUMBER number)
{
	for (size_t i = 0; i < COUNT(event_names); i++)
		if (event_names[i].number == number)
			return event_names[i].name;
	return "unknown";
}

/* What is known of an event that was not the one expected. */
static const char *event_text(const DAT_EVENT *event, char text[160])
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	if (event->event_number == DAT_DTO_COMPLETION_EVENT)
		snprintf(text, 160, "completion of %p, cookie 0x%llx, status %d, length %llu",
			 dto->ep_handle, (unsigned long long)dto->user_cookie.as_64, dto->status,
			 (unsigned long long)dto->transfered_length);
	else
		snprintf(text, 160, "%s (0x%x)", event_name(event->event_number),
			 event->event_number);
	return text;
}

static DAT_EVENT next_event(DAT_EVD_HANDLE evd, const char *wanted)
{
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret;
	char text[128];

	ret = dat_evd_wait(evd, LONG, 1, &event, &nmore);
	if (ret != DAT_SUCCESS)
		ck_abort_msg("line %d: waiting for %s: %s; the queue holds %s", blamed, wanted,
			     status_text(ret, text),
			     dat_evd_dequeue(evd, &event) == DAT_SUCCESS ? "an event now"
									 : "nothing");
	ck_assert_ptr_eq(event.evd_handle, evd);
	return event;
}

DAT_EVENT event_wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = next_event(evd, event_name(number));
	char text[160];

	if (event.event_number != number)
		ck_abort_msg("line %d: %s, not %s", blamed, event_text(&event, text),
			     event_name(number));
	return event;
}

DAT_EVENT connection_event_wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_EP_HANDLE ep)
{
	DAT_EVENT event = event_wait(evd, number);

	if (event.event_data.connect_event_data.ep_handle != ep)
		ck_abort_msg("line %d: %s of %p, not of %p", blamed, event_name(number),
			     event.event_data.connect_event_data.ep_handle, ep);
	return event;
}

void ended_wait(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep)
{
	DAT_EVENT event = next_event(evd, "DISCONNECTED or BROKEN");
	char text[160];

	if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED &&
	    event.event_number != DAT_CONNECTION_EVENT_BROKEN)
		ck_abort_msg("line %d: %s, not DISCONNECTED or BROKEN", blamed,
			     event_text(&event, text));
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, ep);
}

void dto_wait(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
	      DAT_DTO_COMPLETION_STATUS status, size_t length)
{
	DAT_EVENT event = event_wait(evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
	char text[160];

	if (dto->ep_handle != ep || dto->user_cookie.as_64 != cookie || dto->status != status ||
	    (status == DAT_DTO_SUCCESS && dto->transfered_length != length))
		ck_abort_msg("line %d: %s; not of %p, cookie 0x%llx, status %d, length %zu", blamed,
			     event_text(&event, text), ep, (unsigned long long)cookie, status,
			     length);
}

void no_event(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;
	DAT_RETURN ret = dat_evd_dequeue(evd, &event);
	char text[160];

	if (ret == DAT_SUCCESS)
		ck_abort_msg("line %d: %s, not an empty queue", blamed, event_text(&event, text));
	returns_there(DAT_QUEUE_EMPTY, ret);
}

/* ---- memory ---- */

struct memory memory_make(const struct side *side, size_t size, DAT_MEM_PRIV_FLAGS priv)
{
	struct memory memory = { .size = size };
	DAT_REGION_DESCRIPTION region;

	memory.at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory.at, MAP_FAILED);
	memset(memory.at, UNTOUCHED, size);
	region.for_va = memory.at;
	must(dat_lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, region, size, side->pz, priv,
			    &memory.lmr, &memory.local, &memory.remote, NULL, NULL));
	return memory;
}

DAT_LMR_TRIPLET seg(const struct memory *memory, size_t offset, size_t length)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = memory->local,
		.virtual_address = (uintptr_t)memory->at + offset,
		.segment_length = length,
	};
}

DAT_RMR_TRIPLET target(const struct memory *memory, size_t offset, size_t length)
{
	return (DAT_RMR_TRIPLET){
		.rmr_context = memory->remote,
		.target_address = (uintptr_t)memory->at + offset,
		.segment_length = length,
	};
}

/* Neighbouring bytes, pages and seeds differ, so that what went astray shows. */
static unsigned char pattern(size_t i, unsigned seed)
{
	return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + seed * 101 + 1);
}

void pattern_fill(void *at, size_t size, unsigned seed)
{
	unsigned char *bytes = at;

	for (size_t i = 0; i < size; i++)
		bytes[i] = pattern(i, seed);
}

void pattern_check(const void *at, size_t size, unsigned seed)
{
	const unsigned char *bytes = at;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] != pattern(i, seed))
			ck_abort_msg("line %d: byte %zu of %zu is 0x%02x, not 0x%02x", blamed, i,
				     size, bytes[i], pattern(i, seed));
}

void bytes_check(const void *at, size_t size, unsigned char byte)
{
	const unsigned char *bytes = at;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] != byte)
			ck_abort_msg("line %d: byte %zu of %zu is 0x%02x, not 0x%02x", blamed, i,
				     size, bytes[i], byte);
}

/* ---- transfers ---- */

DAT_DTO_COOKIE cookie(uint64_t value)
{
	return (DAT_DTO_COOKIE){ .as_64 = value };
}

void recv_post(DAT_EP_HANDLE ep, uint64_t value, DAT_LMR_TRIPLET into)
{
	returns_there(DAT_SUCCESS,
		      dat_ep_post_recv(ep, 1, &into, cookie(value), DAT_COMPLETION_DEFAULT_FLAG));
}

void send_post(DAT_EP_HANDLE ep, uint64_t value, DAT_LMR_TRIPLET from, DAT_COMPLETION_FLAGS flags)
{
	returns_there(DAT_SUCCESS, dat_ep_post_send(ep, 1, &from, cookie(value), flags));
}

void write_post(DAT_EP_HANDLE ep, uint64_t value, DAT_LMR_TRIPLET from, DAT_RMR_TRIPLET to,
		DAT_COMPLETION_FLAGS flags)
{
	returns_there(DAT_SUCCESS, dat_ep_post_rdma_write(ep, 1, &from, cookie(value), &to, flags));
}

void read_post(DAT_EP_HANDLE ep, uint64_t value, DAT_LMR_TRIPLET into, DAT_RMR_TRIPLET from,
	       DAT_COMPLETION_FLAGS flags)
{
	returns_there(DAT_SUCCESS,
		      dat_ep_post_rdma_read(ep, 1, &into, cookie(value), &from, flags));
}

static void say(const struct side *from, const struct side *to, unsigned seed)
{
	struct memory out = memory_make(from, 100, DAT_MEM_PRIV_ALL_FLAG);
	struct memory in = memory_make(to, 200, DAT_MEM_PRIV_ALL_FLAG);

	pattern_fill(out.at, 100, seed);
	recv_post(to->ep, 0x1e, seg(&in, 0, 200));
	send_post(from->ep, 0x5e, seg(&out, 0, 100), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(to->recvs, to->ep, 0x1e, DAT_DTO_SUCCESS, 100);
	dto_wait(from->requests, from->ep, 0x5e, DAT_DTO_SUCCESS, 100);
	pattern_check(in.at, 100, seed);
	bytes_check(in.at + 100, 100, UNTOUCHED);
	must(dat_lmr_free(out.lmr));
	must(dat_lmr_free(in.lmr));
	munmap(out.at, 100);
	munmap(in.at, 200);
}

void say_hello(const struct pair *pair)
{
	say(&pair->near, &pair->far, 1);
	say(&pair->far, &pair->near, 2);
}

/* ---- other processes and threads ---- */

unsigned entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	ck_assert_ptr_nonnull(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

pid_t process_start(void (*body)(int fd), int *fd)
{
	int ends[2];
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(ends[0]);
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*fd = ends[0];
	return pid;
}

void process_end(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		      "the peer ended with status 0x%x", status);
}

void tell(int fd, const void *what, size_t size)
{
	ck_assert_int_eq(send(fd, what, size, MSG_NOSIGNAL), (ssize_t)size);
}

void hear(int fd, void *what, size_t size)
{
	ssize_t got = recv(fd, what, size, MSG_WAITALL);

	ck_assert_msg(got == (ssize_t)size, "the peer said nothing and is gone");
}

static void *waiter_body(void *arg)
{
	struct waiter *waiter = arg;

	waiter->tid = gettid();
	if (waiter->evd)
		waiter->ret = dat_evd_wait(waiter->evd, DAT_TIMEOUT_INFINITE, waiter->threshold,
					   &waiter->event, &waiter->nmore);
	else
		waiter->ret = dat_cno_wait(waiter->cno, DAT_TIMEOUT_INFINITE, &waiter->fired);
	return NULL;
}

/* The kernel's word for it: nothing in DAT tells whether a thread is in dat_cno_wait. */
static bool asleep(pid_t tid)
{
	char path[64], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	stat = fopen(path, "r");
	ck_assert_ptr_nonnull(stat);
	ck_assert_int_eq(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
	fclose(stat);
	return state == 'S';
}

void waiter_start(struct waiter *waiter)
{
	DAT_EVENT event;

	waiter->tid = 0;
	if (!waiter->threshold)
		waiter->threshold = 1;
	ck_assert_int_eq(pthread_create(&waiter->thread, NULL, waiter_body, waiter), 0);
	while (!waiter->tid)
		sched_yield();
	/* An EVD with a waiter refuses others; that comes first, and the sleep after it. */
	while (waiter->evd && dat_evd_dequeue(waiter->evd, &event) != BAD_STATE(EVD_WAITER))
		sched_yield();
	while (!asleep(waiter->tid))
		sched_yield();
}

void waiter_join(struct waiter *waiter)
{
	ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
}
