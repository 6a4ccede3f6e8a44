/* SPDX-License-Identifier: BSD-2-Clause */
/* The basic types of DAT 1.2 on Linux: integers, pointers, socket addresses. */
#if defined(_DAT_PLATFORM_SPECIFIC_H_) && _DAT_PLATFORM_SPECIFIC_H_ + 0 == 2
#error "A program includes the headers of either dat/ or dat2/: their names are the same."
#endif
#ifndef _DAT_PLATFORM_SPECIFIC_H_
#define _DAT_PLATFORM_SPECIFIC_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <netinet/in.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t DAT_UINT32;
typedef uint64_t DAT_UINT64;
typedef unsigned long long DAT_UVERYLONG;
typedef void *DAT_PVOID;
typedef int DAT_COUNT; /* not negative, except for a few constants */
typedef DAT_UINT64 DAT_PADDR;

typedef struct sockaddr DAT_SOCK_ADDR; /* sockaddr_in or sockaddr_in6, by its family */
typedef struct sockaddr_in6 DAT_SOCK_ADDR6;

#define DAT_AF_INET  AF_INET
#define DAT_AF_INET6 AF_INET6

/*
 * In bytes. Every provider supports buffers with this alignment; optimal_buffer_alignment of a
 * provider divides it.
 */
#ifndef DAT_OPTIMAL_ALIGNMENT
#define DAT_OPTIMAL_ALIGNMENT 256
#endif

/* For the attribute masks; <stdint.h> does not define it for some old C++ programs. */
#ifndef UINT64_C
#define UINT64_C(c) c##UL
#endif

/* The direction of a parameter in the manual pages; consumers use them as well. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef INOUT
#define INOUT
#endif

#ifdef __cplusplus
}
#endif

#endif
