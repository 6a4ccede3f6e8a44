/* SPDX-License-Identifier: BSD-2-Clause */
/* The device that the tests run on: what it does and lacks, and the names of its interfaces. */
#define CONSUMER_IMPLEMENTATION
#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "consumer.h"

/* ---- what devices do ---- */

/* What most devices do. Each profile begins with that; what comes after it differs. */
#define USUAL                                                                                      \
	.bad_segment = DAT_DTO_ERR_LOCAL_PROTECTION, .bad_range = DAT_DTO_ERR_LOCAL_PROTECTION,    \
	.bad_read_sink = DAT_DTO_ERR_LOCAL_PROTECTION,                                             \
	.bad_receive = DAT_DTO_ERR_LOCAL_PROTECTION, .short_receive = DAT_DTO_ERR_LOCAL_LENGTH,    \
	.refused_send = DAT_DTO_ERR_REMOTE_RESPONDER, .max_eps = 64

/* The private data of a connection manager of InfiniBand has these sizes. */
#define PADDED .request_padded = 56, .reply_padded = 196, .reject_padded = 144, .max_reject = 144

/* The provider over libfabric checks local memory itself. */
#define OVER_LIBFABRIC USUAL, .provider = "libdaplofi", .checks_buffers = true

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct device devices[] = {
	{
		/*
		 * It checks local memory when it executes a request, and most faults are operation
		 * errors. After a wait for a receive it sends out of sequence, and may stop there.
		 */
		.kind = "rxe",
		USUAL,
		PADDED,
		.stays_held_up = true,
		.repeats_binds = true,
		.bad_segment = DAT_DTO_ERR_LOCAL_EP,
		.bad_receive = DAT_DTO_ERR_LOCAL_EP,
		.short_receive = DAT_DTO_ERR_LOCAL_EP,
		.lacks = {
			{ NEEDS_RANDOM_CONTEXTS, "the device chooses them" },
			{ NEEDS_WINDOW_RANGE, "rxe checks the region's range, not the window's" },
			{ NEEDS_NO_WINDOWS, "rxe binds windows out of turn, and repeats that" },
			{ NEEDS_ANY_OFFSET, "the kernel translates whole pages" },
			{ NEEDS_TCP, "only an iWARP device connects over TCP" },
		},
	},
	{
		/*
		 * A send that the peer cannot receive completes with success or not: that is a
		 * race with the end of the connection. With some fifty endpoints the kernel runs
		 * out of offsets for mapping their queues.
		 */
		.kind = "siw",
		USUAL,
		.bad_segment = DAT_DTO_ERR_LOCAL_EP,
		.bad_range = DAT_DTO_ERR_LOCAL_EP,
		.wrapped_read_sink = DAT_DTO_ERR_TRANSPORT,
		.bad_receive = DAT_DTO_ERR_TRANSPORT,
		.max_eps = 20,
		.max_reject = 247, /* the header of a rejection has four bytes */
		.late_accept_error = true,
		.early_data_waits = true,
		.reply_lacks_reads = true,
		.fence_holds_answers = true,
		.lacks = {
			{ NEEDS_RANDOM_CONTEXTS, "the device chooses them" },
			{ NEEDS_PLACEMENT | NEEDS_REMOTE_STATUS,
			  "iWARP completes a write or a send as soon as TCP has it" },
			{ NEEDS_READ_RIGHTS, "siw ignores that a region lacks remote read" },
			{ NEEDS_RNR,
			  "iWARP ends the connection when a message finds no receive" },
			{ NEEDS_RESIZE, "siw cannot resize a completion queue" },
			{ NEEDS_SOLICITED, "siw drops the solicited bit of a message" },
			{ OF_EDITION(0, NEEDS_SIZE_LIMIT), "it moves what a length can say" },
			{ NEEDS_ZERO_BASED, "siw has any region addressed as its memory is" },
			{ NEEDS_EP_WINDOWS, "siw has no windows" },
			{ NEEDS_IMMED | NEEDS_ATOMICS, "iWARP has neither" },
			{ NEEDS_DATAGRAMS, "iWARP has no datagrams" },
		},
	},
	{
		/*
		 * libfabric's tcp. Whatever a peer refuses ends the connection, and nobody says
		 * why.
		 */
		.kind = "tcp",
		OVER_LIBFABRIC,
		.params = "tcp %s",
		.library = "libfabric.so.1",
		.max_requests = 1000,
		.late_accept_error = true,
		.ends_attempts = true,
		.holds_up = true,
		.lacks = {
			{ NEEDS_REMOTE_STATUS, "libfabric's tcp only ends the connection" },
			/* unless DAPL_OFI_DELIVERED_SENDS says so, which one case sets itself */
			{ NEEDS_SEND_PLACEMENT, "a send may complete as soon as TCP has it" },
			{ NEEDS_RDMA_DEVICE | NEEDS_ACCESS_FLAGS, "it is no RDMA device" },
			{ NEEDS_SOLICITED, "libfabric has no solicited messages" },
			{ NEEDS_QUIET_POLL, "libfabric's tcp looks at its sockets at each poll" },
			{ NEEDS_MEMLOCK, "libfabric's tcp pins no pages" },
			{ NEEDS_FREE_ADDRESSES, "all addresses of the loopback are in use" },
			{ NEEDS_OWN_DEVICES, "there is no device to remove" },
			{ NEEDS_EP_WINDOWS, "libfabric has no windows" },
			{ NEEDS_ATOMICS, "libfabric's tcp has none" },
			{ NEEDS_DATAGRAMS, "the provider over libfabric has no datagrams" },
			{ OF_EDITION(0, NEEDS_SIZE_LIMIT), "it moves what a length can say" },
		},
	},
	{
		/* libfabric's verbs over rxe. */
		.kind = "ofi-rxe",
		OVER_LIBFABRIC,
		.params = "verbs %s",
		.stays_held_up = true,
		.kept_per_reject = 1000,
		.short_receive = DAT_DTO_ERR_LOCAL_EP,
		.lacks = {
			{ NEEDS_RANDOM_CONTEXTS, "the device chooses them" },
			{ NEEDS_ACCESS_FLAGS, "libfabric adds atomic access to remote write" },
			{ NEEDS_RELEASE, "below libfabric a process keeps its devices open" },
			{ NEEDS_PORT_EVENTS, "libfabric does not report events of a port" },
			{ NEEDS_RESIZE, "libfabric cannot resize a completion queue" },
			{ NEEDS_SOLICITED, "libfabric has no solicited messages" },
			{ NEEDS_TCP, "only an iWARP device connects over TCP" },
			{ NEEDS_EP_WINDOWS, "libfabric has no windows" },
			{ NEEDS_ATOMICS, "libfabric's verbs sends the address of an operand" },
			{ NEEDS_DATAGRAMS, "the provider over libfabric has no datagrams" },
			{ NEEDS_ZERO_BASED, "libfabric's verbs registers regions in one way only" },
		},
	},
	{
		.kind = "hw",
		USUAL,
		PADDED,
		.lacks = {
			{ NEEDS_RANDOM_CONTEXTS, "the device chooses them" },
			{ NEEDS_NO_WINDOWS, "a device binds its windows when it likes" },
			{ NEEDS_TCP, "only an iWARP device connects over TCP" },
			{ NEEDS_FREE_ADDRESSES, "any address of a real network may be in use" },
			{ NEEDS_ANY_OFFSET, "the kernel translates whole pages" },
		},
	},
	{
		.kind = "fake",
		USUAL,
		.max_reject = 144,
		.lacks = {
			{ NEEDS_RANDOM_CONTEXTS, "the device chooses them" },
			{ NEEDS_PINNING | NEEDS_MEMLOCK, "the fake transport pins no pages" },
			{ NEEDS_TCP | NEEDS_FREE_ADDRESSES, "the fake transport has no network" },
		},
	},
};
#pragma GCC diagnostic pop

static const struct device *chosen;

const struct device *device(void)
{
	return chosen;
}

static const struct device *device_of(const char *kind)
{
	for (size_t i = 0; kind && i < COUNT(devices); i++)
		if (!strcmp(kind, devices[i].kind))
			return &devices[i];
	return NULL;
}

static bool has_huge_pages(void)
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

bool in_guest(void)
{
	return getenv("DAT_TEST_GUEST");
}

const char *device_lack(unsigned needs)
{
	if (needs & NEEDS_HUGE_PAGES && !has_huge_pages())
		return "the system has no free huge pages, see /proc/sys/vm/nr_hugepages";
	if (needs & NEEDS_OWN_DEVICES && !in_guest())
		return "it removes devices, and these are not the test's own";
	if (needs & NEEDS_OWN_CLOCK && !in_guest())
		return "it sets the clock of the host, which is not the test's own";
#ifdef __SANITIZE_ADDRESS__
	if (needs & NEEDS_UNWINDING)
		return "the address sanitizer fails in a thread that is cancelled";
#endif
	for (size_t i = 0; i < COUNT(chosen->lacks); i++)
		if (chosen->lacks[i].needs & needs)
			return chosen->lacks[i].why;
	return NULL;
}

bool device_has(unsigned needs)
{
	return !device_lack(needs);
}

/* ---- names in dat.conf ---- */

static char names[ENDS][NAMINGS][DAT_NAME_MAX_LENGTH]; /* empty: there is none */

const char *ia_name(enum end end, enum naming by)
{
	return names[end][by][0] ? names[end][by] : NULL;
}

/* Opens a dat.conf without a name in the file system, so that none is left behind. */
static FILE *conf_open(void)
{
	int fd = memfd_create("dat.conf", 0);
	FILE *conf = fdopen(dup(fd), "w");
	char path[64];

	if (!conf)
		abort(); /* Check asserts nothing outside its tests */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	setenv("DAT_OVERRIDE", path, 1);
	return conf;
}

static void conf_line(FILE *conf, const char *name, bool thread_safe, const char *library,
		      const char *params)
{
	fprintf(conf, "%s u" EDITION_TEXT " %s default %s dapl." EDITION_TEXT " \"%s\" \"\"\n",
		name, thread_safe ? "threadsafe" : "nonthreadsafe", library, params);
}

/*
 * Finds the device that has this interface. "rdma link" prints it for devices of any kind: "link
 * rxe0/1 state ACTIVE … netdev v0".
 */
static bool find_device(const char *interface, char name[64])
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
 * Finds a name that only the resolver knows. A host may have the name of its interface, so the name
 * is in capitals: interfaces are matched by case, hosts are not.
 */
static bool find_host(const char *interface, const char *address, char name[64])
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

static const char *provider_library(void)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/udapl/.libs/%s" OF_EDITION("", "2") ".so",
		 getenv("top_builddir"), chosen->provider ? chosen->provider : "libdaplcma");
	return path;
}

static void add_name(FILE *conf, enum end end, enum naming by, const char *params)
{
	static const char *const kinds[] = { "interface", "address", "device", "host" };
	const char *library = provider_library();
	char *name = names[end][by], all_params[80];

	snprintf(name, sizeof(names[end][by]), "%s-%s", end == SERVER ? "server" : "client",
		 kinds[by]);
	if (chosen->params)
		snprintf(all_params, sizeof(all_params), chosen->params, params);
	else
		snprintf(all_params, sizeof(all_params), "%s %d", params, by == BY_DEVICE);
	conf_line(conf, name, false, library, all_params);
	conf_line(conf, name, true, library, all_params);
}

bool device_choose(void)
{
	FILE *conf;

	chosen = device_of(getenv("DAT_TEST_DEV"));
	if (!chosen || !getenv("top_builddir"))
		return false;
	conf = conf_open();
	for (unsigned end = 0; end < ENDS; end++) {
		const char *interface = getenv(end ? "DAT_TEST_IF1" : "DAT_TEST_IF0");
		const char *address = getenv(end ? "DAT_TEST_ADDR1" : "DAT_TEST_ADDR0");
		char text[64];

		add_name(conf, end, BY_INTERFACE, interface);
		add_name(conf, end, BY_ADDRESS, address);
		if (find_device(interface, text))
			add_name(conf, end, BY_DEVICE, text);
		if (find_host(interface, address, text))
			add_name(conf, end, BY_HOST, text);
	}
	fclose(conf);
	return true;
}

static void conf_line_of(FILE *conf, const char *name, const char *params)
{
	char first[80], all_params[80];

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(params, " "), params);
	if (chosen->params)
		snprintf(all_params, sizeof(all_params), chosen->params, first);
	else
		snprintf(all_params, sizeof(all_params), "%s", params);
	conf_line(conf, name, false, provider_library(), all_params);
}

void choose_conf(const char *const params[], size_t n)
{
	FILE *conf = conf_open();
	char name[32];

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "ia%zu", i);
		conf_line_of(conf, name, params[i]);
	}
	fclose(conf);
}

void choose_name(const char *name, const char *params)
{
	FILE *conf = conf_open();

	conf_line_of(conf, name, params);
	fclose(conf);
}

void device_choose_fake(const char *library, bool thread_safe)
{
	char *client = names[CLIENT][BY_INTERFACE], *server = names[SERVER][BY_INTERFACE];
	FILE *conf = conf_open();

	chosen = device_of("fake");
	strcpy(client, "fake0");
	strcpy(server, "fake1");
	conf_line(conf, client, thread_safe, library, "fake0 0");
	conf_line(conf, server, thread_safe, library, "fake1 0");
	fclose(conf);
}

void device_choose_names(const char *library)
{
	const char *given = getenv("CONFORM_NAMES");
	char *client = names[CLIENT][BY_INTERFACE], *server = names[SERVER][BY_INTERFACE];

	if (given) {
		chosen = device_of(getenv("DAT_TEST_DEV"));
		if (!chosen)
			chosen = device_of("hw"); /* a device as the standard wants it */
		if (sscanf(given, "%255s %255s", client, server) != 2)
			abort();
		return;
	}
	device_choose_fake(library, false);
}

/* ---- libfabric ---- */

/*
 * The dependencies of libfabric measure the speed of the processor, twice for 100 ms, and its first
 * getinfo reads a table of the kernel's. These variables keep the handlers of signals as they are.
 */
void device_preload(void)
{
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const void *hints, void **info);
	void (*freeinfo)(void *info);
	void *library, *info;

	if (!chosen || !chosen->library)
		return;
	setenv("IPATH_NO_BACKTRACE", "1", 1);
	setenv("HFI_NO_BACKTRACE", "1", 1);
	library = dlopen(chosen->library, RTLD_NOW | RTLD_LOCAL);
	unsetenv("IPATH_NO_BACKTRACE");
	unsetenv("HFI_NO_BACKTRACE");
	if (!library)
		return; /* the cases say why */
	*(void **)&getinfo = dlsym(library, "fi_getinfo");
	*(void **)&freeinfo = dlsym(library, "fi_freeinfo");
	if (getinfo && freeinfo && !getinfo(1 << 16 | 11, NULL, NULL, 0, NULL, &info))
		freeinfo(info);
}

/* ---- cases ---- */

void add_device_cases(TCase *tcase, const struct device_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *why = chosen ? device_lack(cases[i].needs) : NULL;

		if (why)
			case_skip(tcase, cases[i].test, why);
		else
			tcase_add_test(tcase, cases[i].test);
	}
}

int run_on_device(int argc, char **argv, const struct device_case *cases, size_t n)
{
	if (!device_choose())
		skip_all_cases("no RDMA device here: make check-vm runs this where there is one");
	device_preload();
	add_device_cases(tcase_create("device"), cases, n);
	return run_cases(argc, argv);
}
