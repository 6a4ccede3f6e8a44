/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dynamic loader, the clock, the log, and calls of the C library that can fail: the linker's
 * --wrap redirects them to this module.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#include "impl.h"

/*
 * The names are the linker's; it wants default visibility where a shared library calls, too. The
 * thread sanitizer of clang is part of the program and calls some of these before it has begun, so
 * they call none of it.
 */
#if __has_attribute(disable_sanitizer_instrumentation)
#define EXPORTED __attribute__((visibility("default"), disable_sanitizer_instrumentation))
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

#define PROTOTYPE(type, call, params)                                                              \
	type __real_##call params;                                                                 \
	EXPORTED type __wrap_##call params;

PROTOTYPE(int, clock_gettime, (clockid_t clock, struct timespec *now))
PROTOTYPE(void *, dlopen, (const char *name, int flags))
PROTOTYPE(void *, dlsym, (void *library, const char *name))
PROTOTYPE(char *, dlerror, (void))
PROTOTYPE(ssize_t, getrandom, (void *buffer, size_t size, unsigned flags))

/* ---- the dynamic loader: libfabric.so.1 is this module ---- */

static char a_library;
static const char *loader_error; /* ff.lock */

static const struct {
	const char *name;
	void *symbol;
} symbols[] = {
	{ "fi_getinfo", (void *)ff_getinfo }, { "fi_freeinfo", (void *)ff_freeinfo },
	{ "fi_dupinfo", (void *)ff_dupinfo }, { "fi_fabric", (void *)ff_fabric_open },
	{ "fi_open", (void *)ff_open },	      { "fi_strerror", (void *)ff_strerror },
};

void *__wrap_dlopen(const char *name, int flags)
{
	if (!name || !strstr(name, "libfabric"))
		return __real_dlopen(name, flags);
	if (ff_enter(CALL_dlopen)) {
		loader_error = "libfabric.so.1: cannot open shared object file";
		return NULL;
	}
	snprintf(ff.seen.library, sizeof(ff.seen.library), "%s", name);
	ff_unlock();
	return &a_library;
}

void *__wrap_dlsym(void *library, const char *name)
{
	if (library != &a_library)
		return __real_dlsym(library, name);
	if (ff_enter(CALL_dlsym)) {
		loader_error = "libfabric.so.1: undefined symbol";
		return NULL;
	}
	ff_unlock();
	for (unsigned i = 0; i < COUNT_OF(symbols); i++)
		if (!strcmp(symbols[i].name, name))
			return symbols[i].symbol;
	ff_require(false, "only what every libfabric exports is looked up");
	return NULL;
}

char *__wrap_dlerror(void)
{
	static char text[128];

	if (!loader_error)
		return __real_dlerror();
	snprintf(text, sizeof(text), "%s", loader_error);
	loader_error = NULL;
	return text;
}

/* ---- the clock ---- */

#define NSEC 1000000000

static _Thread_local struct {
	bool stopped;
	struct timespec now;
	uint64_t ns_per_read;
} clock_here;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!clock_here.stopped || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, now);
	*now = clock_here.now;
	return 0;
}

void ff_clock_stop(uint64_t ns)
{
	__real_clock_gettime(CLOCK_MONOTONIC, &clock_here.now);
	clock_here.ns_per_read = ns;
	clock_here.stopped = true;
}

void ff_clock_start(void)
{
	clock_here.stopped = false;
}

void ff_clock_read(void)
{
	const uint64_t ns = (uint64_t)clock_here.now.tv_nsec + clock_here.ns_per_read;

	clock_here.now.tv_sec += (time_t)(ns / NSEC);
	clock_here.now.tv_nsec = (long)(ns % NSEC);
}

/* ---- random numbers ---- */

static uint32_t randoms[64]; /* ff.lock */
static unsigned n_randoms, next_random;

void ff_random(const uint32_t *numbers, unsigned n)
{
	ff_lock();
	ff_require(n <= COUNT_OF(randoms), "too many random numbers");
	memcpy(randoms, numbers, n * sizeof(*numbers));
	n_randoms = n;
	next_random = 0;
	ff_unlock();
}

ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags)
{
	int err = ff_enter(CALL_getrandom);
	size_t scripted;
	ssize_t got;

	if (err) {
		errno = err;
		return -1;
	}
	scripted = (n_randoms - next_random) * sizeof(randoms[0]);
	if (scripted > size)
		scripted = size;
	memcpy(buffer, &randoms[next_random], scripted);
	next_random += scripted / sizeof(randoms[0]);
	ff_unlock();
	got = __real_getrandom((char *)buffer + scripted, size - scripted, flags);
	return got < 0 ? got : got + (ssize_t)scripted;
}

/* ---- calls that only fail ---- */

#define WRAP_INT(call, params, ...)                                                                \
	PROTOTYPE(int, call, params)                                                               \
	int __wrap_##call params                                                                   \
	{                                                                                          \
		int err = ff_enter(CALL_##call);                                                   \
                                                                                                   \
		if (err) {                                                                         \
			errno = err;                                                               \
			return -1;                                                                 \
		}                                                                                  \
		ff_unlock();                                                                       \
		return __real_##call(__VA_ARGS__);                                                 \
	}

WRAP_INT(epoll_create1, (int flags), flags)
WRAP_INT(getaddrinfo,
	 (const char *host, const char *service, const struct addrinfo *hints,
	  struct addrinfo **found),
	 host, service, hints, found)
WRAP_INT(eventfd, (unsigned count, int flags), count, flags)
WRAP_INT(madvise, (void *address, size_t size, int advice), address, size, advice)

PROTOTYPE(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event))

/* As the kernel's, it takes memory to add a descriptor only. */
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	int err = 0;

	if (op == EPOLL_CTL_ADD) {
		err = ff_enter(CALL_epoll_ctl);
		if (!err)
			ff_unlock();
	}
	if (err) {
		errno = err;
		return -1;
	}
	return __real_epoll_ctl(epoll, op, fd, event);
}

/* ---- descriptors ---- */

int ff_fd_open(void)
{
	int fd = __real_eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	ff_require(fd >= 0, "no descriptor is left");
	return fd;
}

void ff_fd_set(int fd, bool readable)
{
	eventfd_t count;

	if (fd < 0)
		return;
	(void)!eventfd_read(fd, &count);
	if (readable)
		ff_require(eventfd_write(fd, 1) == 0, "no event can be announced");
}

void ff_set_add(int set, int fd, uint64_t data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = data };

	ff_require(!__real_epoll_ctl(set, EPOLL_CTL_ADD, fd, &event),
		   "a descriptor can't be in a set");
}

int ff_set_open(const int *fds, unsigned n)
{
	int set = __real_epoll_create1(EPOLL_CLOEXEC);

	ff_require(set >= 0, "no descriptor is left");
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0)
			ff_set_add(set, fds[i], UINT64_MAX - i);
	return set;
}

bool ff_set_reports(int set)
{
	struct epoll_event event;

	return epoll_wait(set, &event, 1, 0) > 0;
}

/* ---- sockets ---- */

static int socket_open(struct sockaddr_in *address, in_port_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ff_require(fd >= 0, "no descriptor is left");
	*address = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = port,
	};
	return fd;
}

int ff_socket_listen(in_port_t *port)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int fd = socket_open(&address, *port);

	ff_require(!bind(fd, (struct sockaddr *)&address, size) && !listen(fd, 8) &&
			   !getsockname(fd, (struct sockaddr *)&address, &size),
		   "no port is left");
	*port = address.sin_port;
	return fd;
}

int ff_socket_connect(in_port_t port, struct sockaddr_storage *from)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int fd = socket_open(&address, port);

	ff_require(!connect(fd, (struct sockaddr *)&address, size) &&
			   !getsockname(fd, (struct sockaddr *)from, &size),
		   "no connection to a socket that listens");
	return fd;
}

int ff_socket_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	ff_require(fd >= 0, "no connection is accepted");
	return fd;
}

/* ---- the log ---- */

void ff_log_capture(void)
{
	int file = memfd_create("log", MFD_CLOEXEC);

	ff_require(file >= 0 && dup2(file, STDERR_FILENO) >= 0, "no file for the log");
	close(file);
}

const char *ff_log(void)
{
	static char text[1 << 14];
	ssize_t length = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);

	ff_require(length >= 0, "the log can't be read");
	text[length] = '\0';
	return text;
}
