/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses of IPv4 and IPv6: size, copy, port, text. */
#ifndef UDAPL_SOCKADDR_H
#define UDAPL_SOCKADDR_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SOCKADDR_TEXT_SIZE 96 /* bytes; an IPv6 address with scope and port */

/* Returns the size of an address of IPv6, or else of IPv4. */
static inline socklen_t sockaddr_size(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

/* Copies an address, and clears what is behind it; all of @to if @from has no family. */
static inline void sockaddr_copy(struct sockaddr_storage *to, const struct sockaddr *from)
{
	memset(to, 0, sizeof(*to));
	if (from->sa_family)
		memcpy(to, from, sockaddr_size(from));
}

/* Sets the port of an address of IPv4 or IPv6. */
static inline void sockaddr_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons(port);
}

/* Returns the port of an address of IPv4 or IPv6; 0 for any other. */
static inline uint16_t sockaddr_port(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	case AF_INET6:
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	default:
		return 0;
	}
}

/* Returns whether both are there and are the same IP address; ports do not matter. */
static inline bool sockaddr_equal(const struct sockaddr *a, const struct sockaddr *b)
{
	if (!a || !b || a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

/*
 * For log lines: writes an address in numbers, with the port if it is set, to @text, which has
 * SOCKADDR_TEXT_SIZE bytes. Returns @text, or "?" of an address of another family.
 */
static inline const char *sockaddr_text(const struct sockaddr *addr, char *text)
{
	char host[80], port[8];

	if (getnameinfo(addr, sockaddr_size(addr), host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return "?";
	if (!strcmp(port, "0"))
		snprintf(text, SOCKADDR_TEXT_SIZE, "%s", host);
	else
		snprintf(text, SOCKADDR_TEXT_SIZE, "%s port %s", host, port);
	return text;
}

#endif
