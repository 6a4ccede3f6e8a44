/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Network interfaces, the clock, the log, and calls of the C library that can fail: the linker's
 * --wrap redirects them to this module.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if.h>
#include <netdb.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>

#include "impl.h"

#define WRAPPED __attribute__((visibility("default")))

/* The names are the linker's; it wants default visibility where a shared library calls, too. */
#define PROTOTYPE(type, call, params)                                                              \
	type __real_##call params;                                                                 \
	type WRAPPED __wrap_##call params;

PROTOTYPE(int, clock_gettime, (clockid_t clock, struct timespec *now))
PROTOTYPE(int, fcntl, (int fd, int command, ...))
PROTOTYPE(void, freeifaddrs, (struct ifaddrs * all))
PROTOTYPE(int, getaddrinfo,
	  (const char *node, const char *service, const struct addrinfo *hints,
	   struct addrinfo **found))
PROTOTYPE(int, getifaddrs, (struct ifaddrs * *all))
PROTOTYPE(unsigned, if_nametoindex, (const char *name))
PROTOTYPE(int, pthread_create,
	  (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg))

/* ---- interfaces ---- */

struct fv_interface *fv_interface(unsigned n)
{
	return &fv.interfaces[n];
}

/* Reads a numeric address. Returns false if @text is NULL. */
static bool addr_parse(const char *text, struct sockaddr_storage *addr)
{
	struct sockaddr_in *in = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	if (!text || !*text)
		return false;
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		return true;
	}
	in6->sin6_family = AF_INET6;
	return inet_pton(AF_INET6, text, &in6->sin6_addr) == 1;
}

static bool addr_equal(const struct sockaddr *one, const struct sockaddr *other)
{
	if (one->sa_family != other->sa_family)
		return false;
	if (one->sa_family == AF_INET)
		return ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)other)->sin_addr.s_addr;
	return !memcmp(&((const struct sockaddr_in6 *)one)->sin6_addr,
		       &((const struct sockaddr_in6 *)other)->sin6_addr, sizeof(struct in6_addr));
}

static bool is_link_local(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/* A link-local address means nothing without its interface. */
const struct fv_interface *fv_interface_of(const struct sockaddr *addr)
{
	struct sockaddr_storage own;

	if (is_link_local(addr)) {
		const unsigned scope = ((const struct sockaddr_in6 *)addr)->sin6_scope_id;

		return scope ? &fv.interfaces[scope - 1] : NULL;
	}

	for (unsigned i = 0; i < FV_INTERFACES && fv.interfaces[i].name; i++)
		if (addr_parse(fv.interfaces[i].addr, &own) &&
		    addr_equal((struct sockaddr *)&own, addr))
			return &fv.interfaces[i];
	return NULL;
}

void fv_interface_set_down(unsigned n)
{
	fv_lock();
	fv.interface_down[n] = true;
	fv_unlock();
}

int __wrap_getifaddrs(struct ifaddrs **all)
{
	static struct sockaddr_storage addrs[FV_INTERFACES];
	static struct ifaddrs rows[FV_INTERFACES];

	if (fv_enter_errno(CALL_getifaddrs))
		return -1;
	*all = NULL;
	for (unsigned i = FV_INTERFACES; i-- > 0;) {
		if (!fv.interfaces[i].name)
			continue;
		rows[i] = (struct ifaddrs){
			.ifa_next = *all,
			.ifa_name = (char *)(uintptr_t)fv.interfaces[i].name,
			.ifa_flags = fv.interface_down[i] ? 0 : IFF_UP,
			.ifa_addr = (struct sockaddr *)&addrs[i],
		};
		if (!addr_parse(fv.interfaces[i].addr, &addrs[i]))
			addrs[i].ss_family = AF_PACKET;
		if (is_link_local((struct sockaddr *)&addrs[i]))
			((struct sockaddr_in6 *)&addrs[i])->sin6_scope_id = i + 1;
		if (fv.interfaces[i].addr && !*fv.interfaces[i].addr)
			rows[i].ifa_addr = NULL;
		*all = &rows[i];
	}
	fv_alive_add(FV_IFADDRS, 1);
	fv_unlock();
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
	(void)all;
	fv_lock();
	fv_alive_add(FV_IFADDRS, -1);
	fv_unlock();
}

/* Returns 0 if there is no interface of that name, or if the call is scripted to fail. */
unsigned __wrap_if_nametoindex(const char *name)
{
	unsigned index = 0;

	if (fv_enter_errno(CALL_if_nametoindex))
		return 0;
	for (unsigned i = 0; i < FV_INTERFACES && fv.interfaces[i].name; i++)
		if (!strcmp(fv.interfaces[i].name, name))
			index = i + 1;
	fv_unlock();
	return index;
}

/* Knows numbers, and the host "fvhost", which is the first interface. Scripted: -EAI_*. */
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found)
{
	struct addrinfo numeric = *hints;
	int err = fv_enter(CALL_getaddrinfo);

	if (err) {
		errno = err > 0 ? err : 0;
		return err > 0 ? EAI_SYSTEM : err;
	}
	fv_unlock();
	if (!(hints->ai_flags & AI_NUMERICHOST) && !strcmp(node, "fvhost"))
		node = fv.interfaces[0].addr;
	numeric.ai_flags |= AI_NUMERICHOST;
	return __real_getaddrinfo(node, service, &numeric, found);
}

/* ---- calls that only fail ---- */

#define WRAP_INT(call, params, ...)                                                                \
	PROTOTYPE(int, call, params)                                                               \
	int __wrap_##call params                                                                   \
	{                                                                                          \
		if (fv_enter_errno(CALL_##call))                                                   \
			return -1;                                                                 \
		fv_unlock();                                                                       \
		return __real_##call(__VA_ARGS__);                                                 \
	}

WRAP_INT(socket, (int family, int type, int protocol), family, type, protocol)
WRAP_INT(bind, (int fd, const struct sockaddr *addr, socklen_t size), fd, addr, size)
WRAP_INT(connect, (int fd, const struct sockaddr *addr, socklen_t size), fd, addr, size)
WRAP_INT(epoll_create1, (int flags), flags)
WRAP_INT(eventfd, (unsigned count, int flags), count, flags)

PROTOTYPE(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event))

/* Like the kernel's, it takes memory only to add a descriptor. */
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD) {
		if (fv_enter_errno(CALL_epoll_ctl))
			return -1;
		fv_unlock();
	}
	return __real_epoll_ctl(epoll, op, fd, event);
}

/* The callers pass an int, or nothing. */
int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	int arg;

	if (fv_enter_errno(CALL_fcntl))
		return -1;
	fv_unlock();
	va_start(args, command);
	arg = va_arg(args, int);
	va_end(args);
	return __real_fcntl(fd, command, arg);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	int err = fv_enter(CALL_pthread_create);

	if (err)
		return err;
	fv.seen.stack_size = 0;
	if (attr)
		pthread_attr_getstacksize(attr, &fv.seen.stack_size);
	fv_unlock();
	return __real_pthread_create(thread, attr, run, arg);
}

/* ---- the clock ---- */

#define NSEC 1000000000ll

/* fv.lock */
static long long ahead; /* ns that this clock is ahead of the system's */
static bool stopped;
static struct timespec stopped_at;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	long long ns;
	int err = __real_clock_gettime(clock, now);

	fv_lock();
	if (stopped && clock == CLOCK_MONOTONIC)
		*now = stopped_at;
	ns = now->tv_nsec + ahead;
	fv_unlock();
	now->tv_sec += (time_t)(ns / NSEC);
	now->tv_nsec = (long)(ns % NSEC);
	return err;
}

void fv_clock_stop(void)
{
	fv_lock();
	stopped = true;
	__real_clock_gettime(CLOCK_MONOTONIC, &stopped_at);
	fv_unlock();
}

void fv_clock_advance(uint64_t ns)
{
	fv_lock();
	ahead += (long long)ns;
	fv_unlock();
}

/* ---- the log ---- */

static int log_file = -1;

void fv_log_capture(void)
{
	log_file = memfd_create("log", MFD_CLOEXEC);
	fv_require(log_file >= 0 && dup2(log_file, STDERR_FILENO) >= 0, "no file for the log");
}

const char *fv_log(void)
{
	static char text[1 << 16];
	ssize_t length = pread(log_file, text, sizeof(text) - 1, 0);

	fv_require(length >= 0, "the log cannot be read");
	text[length] = '\0';
	return text;
}
