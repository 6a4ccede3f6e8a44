/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's own calls of these names, which the dynamic linker prefers to those of the C
 * library: in libfabric, in the provider, and in the C library where it calls itself by them.
 */
#undef _FORTIFY_SOURCE /* its calls have other names */
#define _GNU_SOURCE

#include "refuse.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* How gcc and clang say that a sanitizer is there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#endif

#define PUBLIC __attribute__((visibility("default")))

static _Atomic int armed = REFUSED_COUNT;
static _Atomic unsigned left;
static _Atomic bool refused;
static void *place[24]; /* return addresses, of the call that was refused */
static int place_depth;

static const struct {
	const char *name;
	int err;
} calls[] = {
#define REFUSED_ROW(call, err) [REFUSED_##call] = { #call, err },
	REFUSED_CALLS(REFUSED_ROW)
#undef REFUSED_ROW
};

const char *refused_name(enum refused_call call)
{
	return calls[call].name;
}

void refuse_nth(enum refused_call call, unsigned n)
{
	refused = false;
	left = n;
	armed = (int)call;
}

void refused_print_place(void)
{
	backtrace_symbols_fd(place, place_depth, STDOUT_FILENO);
}

/* Those of the test program are none of a library, either. */
bool is_in_libfabric(void *const *addresses, int count)
{
	for (int i = 0; i < count; i++) {
		const char *name;
		Dl_info at;

		if (!dladdr(addresses[i], &at) || !at.dli_fname)
			continue;
		name = strrchr(at.dli_fname, '/');
		if (name && !strncmp(name, "/lib", 4) && strncmp(name, "/libc.", 6) != 0)
			return !strncmp(name, "/libfabric", 10);
	}
	return false;
}

bool refused_in_libfabric(void)
{
	return is_in_libfabric(place, place_depth);
}

bool refuse_end(void)
{
	armed = REFUSED_COUNT;
	return refused;
}

/* Sets errno if this call is the one. */
static bool refuse(enum refused_call call)
{
	if (armed != (int)call || atomic_fetch_sub(&left, 1) != 1)
		return false;
	armed = REFUSED_COUNT;
	refused = true;
	place_depth = backtrace(place, sizeof(place) / sizeof(*place));
	errno = calls[call].err;
	return true;
}

/* The next definition of the name, once it is looked for. */
#define REAL(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&name) _Atomic real;                                             \
		if (!real)                                                                         \
			real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                         \
		(__typeof__(&name))real;                                                           \
	})

/* ---- calls that return -1 or NULL ---- */

PUBLIC int socket(int domain, int type, int protocol)
{
	return refuse(REFUSED_socket) ? -1 : REAL(socket)(domain, type, protocol);
}

PUBLIC int socketpair(int domain, int type, int protocol, int fds[2])
{
	return refuse(REFUSED_socketpair) ? -1 : REAL(socketpair)(domain, type, protocol, fds);
}

PUBLIC int bind(int fd, const struct sockaddr *address, socklen_t size)
{
	return refuse(REFUSED_bind) ? -1 : REAL(bind)(fd, address, size);
}

PUBLIC int listen(int fd, int backlog)
{
	return refuse(REFUSED_listen) ? -1 : REAL(listen)(fd, backlog);
}

PUBLIC int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	return refuse(REFUSED_connect) ? -1 : REAL(connect)(fd, address, size);
}

PUBLIC int accept(int fd, struct sockaddr *address, socklen_t *size)
{
	return refuse(REFUSED_accept) ? -1 : REAL(accept)(fd, address, size);
}

PUBLIC int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	return refuse(REFUSED_setsockopt) ? -1 : REAL(setsockopt)(fd, level, name, value, size);
}

PUBLIC int epoll_create1(int flags)
{
	return refuse(REFUSED_epoll_create1) ? -1 : REAL(epoll_create1)(flags);
}

PUBLIC int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	return op == EPOLL_CTL_ADD && refuse(REFUSED_epoll_ctl)
		       ? -1
		       : REAL(epoll_ctl)(epoll, op, fd, event);
}

PUBLIC int eventfd(unsigned value, int flags)
{
	return refuse(REFUSED_eventfd) ? -1 : REAL(eventfd)(value, flags);
}

PUBLIC int fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && refuse(REFUSED_fcntl))
		return -1;
	return REAL(fcntl)(fd, command, arg);
}

PUBLIC DIR *opendir(const char *path)
{
	return refuse(REFUSED_opendir) ? NULL : REAL(opendir)(path);
}

PUBLIC int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return refuse(REFUSED_open) ? -1 : REAL(open)(path, flags, mode);
}

PUBLIC int getifaddrs(struct ifaddrs **list)
{
	return refuse(REFUSED_getifaddrs) ? -1 : REAL(getifaddrs)(list);
}

/* ---- a thread, and memory ---- */

PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return refuse(REFUSED_pthread_create) ? EAGAIN
					      : REAL(pthread_create)(thread, attr, run, arg);
}

#if SANITIZED
unsigned refusable_calls(void)
{
	return REFUSED_mmap;
}
#else
unsigned refusable_calls(void)
{
	return REFUSED_COUNT;
}

PUBLIC void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return refuse(REFUSED_mmap) ? MAP_FAILED
				    : REAL(mmap)(address, length, protection, flags, fd, offset);
}

/* dlsym allocates, so these are reached by the names that the C library has for them besides. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

PUBLIC void *malloc(size_t size)
{
	return refuse(REFUSED_malloc) ? NULL : __libc_malloc(size);
}

PUBLIC void *calloc(size_t count, size_t size)
{
	return refuse(REFUSED_calloc) ? NULL : __libc_calloc(count, size);
}

PUBLIC void *realloc(void *old, size_t size)
{
	return refuse(REFUSED_realloc) ? NULL : __libc_realloc(old, size);
}

PUBLIC int posix_memalign(void **memory, size_t alignment, size_t size)
{
	void *got = refuse(REFUSED_posix_memalign) ? NULL : __libc_memalign(alignment, size);

	if (!got)
		return ENOMEM;
	*memory = got;
	return 0;
}
#endif
