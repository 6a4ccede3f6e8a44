/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One plain sentence for each end of a connection, or of an attempt to make one. Nothing here calls
 * DAT.
 */
#include "tools.h"

#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <string.h>

static bool address_same(const struct sockaddr *left, const struct sockaddr *right)
{
	if (!right || left->sa_family != right->sa_family)
		return false;
	if (left->sa_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)left)->sin_addr,
			      &((const struct sockaddr_in *)right)->sin_addr,
			      sizeof(struct in_addr)) == 0;
	return left->sa_family == AF_INET6 &&
	       memcmp(&((const struct sockaddr_in6 *)left)->sin6_addr,
		      &((const struct sockaddr_in6 *)right)->sin6_addr,
		      sizeof(struct in6_addr)) == 0;
}

const char *tool_interface_sentence(const struct sockaddr *local, bool need_link, char *text)
{
	const char *found = NULL;
	struct ifaddrs *all;

	if (!local || getifaddrs(&all))
		return NULL;
	for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
		if (!address_same(local, one->ifa_addr))
			continue;
		if (!(one->ifa_flags & IFF_UP))
			found = tool_sentence(text, "the interface %s is down", one->ifa_name);
		else if (need_link && !(one->ifa_flags & IFF_RUNNING))
			found = tool_sentence(text, "the interface %s has no link", one->ifa_name);
		else
			break;
	}
	freeifaddrs(all);
	return found;
}

static const char *server_text(const struct tool_attempt *attempt, char *text, size_t size)
{
	return tool_address_text(attempt->server, text, size) == 0 ? text : "the server";
}

const char *tool_connect_sentence(DAT_RETURN ret, const struct tool_attempt *attempt, char *text)
{
	char server[NI_MAXHOST];

	switch (DAT_GET_TYPE(ret)) {
	case DAT_INVALID_ADDRESS:
		if (tool_interface_sentence(attempt->local, true, text))
			return text;
		return tool_sentence(text, "there is no way from this interface to %s",
				     server_text(attempt, server, sizeof(server)));
	case DAT_MODEL_NOT_SUPPORTED:
		return tool_sentence(text, "this provider does not have this quality of service");
	default:
		return NULL;
	}
}

static bool address_is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return address->sa_family == AF_INET &&
	       (ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24) == 127;
}

/* Who asks for localhost wants the server of this host, which listens at its IA's address alone. */
static const char *nobody_sentence(const struct tool_attempt *attempt, const char *server,
				   char *text)
{
	const struct sockaddr *local = attempt->local;
	char own[NI_MAXHOST];

	if (local && address_is_loopback(attempt->server) && !address_is_loopback(local) &&
	    tool_address_text(local, own, sizeof(own)) == 0)
		return tool_sentence(text,
				     "no program of DAT listens at %s port %" PRIu64
				     ": a server on this host, with this name, listens at %s",
				     server, attempt->port, own);
	return tool_sentence(text,
			     "no program of DAT listens at %s port %" PRIu64
			     ": start the server first, and take the address that it prints%s",
			     server, attempt->port,
			     attempt->one_client ? "; a server that has a client takes no other"
						 : "");
}

const char *tool_attempt_sentence(DAT_EVENT_NUMBER event, const struct tool_attempt *attempt,
				  char *text)
{
	char buffer[NI_MAXHOST];
	const char *server = server_text(attempt, buffer, sizeof(buffer));

	switch (event) {
	case DAT_CONNECTION_EVENT_PEER_REJECTED:
		return tool_sentence(
			text, "the server at %s port %" PRIu64 " refused the connection%s", server,
			attempt->port, attempt->one_client ? ": it may have a client already" : "");
	case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
		return nobody_sentence(attempt, server, text);
	case DAT_CONNECTION_EVENT_UNREACHABLE:
		if (tool_interface_sentence(attempt->local, true, text))
			return text;
		return tool_sentence(text, "%s can't be reached from this interface", server);
	case DAT_CONNECTION_EVENT_TIMED_OUT:
		if (tool_interface_sentence(attempt->local, true, text))
			return text;
		return tool_sentence(text, "no answer from %s port %" PRIu64 " within %u s", server,
				     attempt->port, attempt->timeout / 1000000);
	default:
		return NULL;
	}
}

const char *tool_end_sentence(DAT_EVENT_NUMBER event, char *text)
{
	switch (event) {
	case DAT_CONNECTION_EVENT_DISCONNECTED:
		return tool_sentence(text, "the peer ended the connection");
	case DAT_CONNECTION_EVENT_BROKEN:
		return tool_sentence(text,
				     "the connection broke: the peer's process or host is gone, "
				     "or a transfer was refused");
	case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
		return tool_sentence(text, "the client gave up before the connection was made");
	default:
		return NULL;
	}
}
