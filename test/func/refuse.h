/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of the C library that are refused when a test says so, whichever library makes them. */
#ifndef REFUSE_H
#define REFUSE_H

#include <stdbool.h>

/* The calls that can be refused, each with the errno that a machine without that resource gives. */
#define REFUSED_CALLS(X)                                                                           \
	X(socket, EMFILE)                                                                          \
	X(socketpair, EMFILE)                                                                      \
	X(bind, EADDRINUSE)                                                                        \
	X(listen, EADDRINUSE)                                                                      \
	X(connect, ENOBUFS)                                                                        \
	X(accept, EMFILE)                                                                          \
	X(setsockopt, ENOBUFS)                                                                     \
	X(epoll_create1, EMFILE)                                                                   \
	X(epoll_ctl, ENOSPC)                                                                       \
	X(eventfd, EMFILE)                                                                         \
	X(fcntl, EMFILE)                                                                           \
	X(opendir, EMFILE)                                                                         \
	X(open, EMFILE)                                                                            \
	X(getifaddrs, ENOMEM)                                                                      \
	X(pthread_create, EAGAIN)                                                                  \
	X(mmap, ENOMEM)                                                                            \
	X(malloc, ENOMEM)                                                                          \
	X(calloc, ENOMEM)                                                                          \
	X(realloc, ENOMEM)                                                                         \
	X(posix_memalign, ENOMEM)

#define REFUSED_ENUM(call, err) REFUSED_##call,
enum refused_call { REFUSED_CALLS(REFUSED_ENUM) REFUSED_COUNT };
#undef REFUSED_ENUM

/*
 * Returns how many of them can be refused in this build, from the first one on: sanitizers have
 * allocators of their own, and map memory while they start.
 */
unsigned refusable_calls(void);
/* Returns its name. */
const char *refused_name(enum refused_call call);
/*
 * From here on the @n-th @call of this process is refused, once, whichever thread makes it; of
 * fcntl those that duplicate a descriptor count, of epoll_ctl those that add one.
 */
void refuse_nth(enum refused_call call, unsigned n);
/* Prints on standard output where that was; tells whether it was in libfabric's own code. */
void refused_print_place(void);
bool refused_in_libfabric(void);
/* Tells whether these return addresses, those of the C library aside, begin in libfabric. */
bool is_in_libfabric(void *const *addresses, int count);
/* Ends that. Returns whether the call was refused. */
bool refuse_end(void);

#endif
