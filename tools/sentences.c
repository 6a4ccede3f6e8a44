/* SPDX-License-Identifier: BSD-2-Clause */
/* One plain sentence for each failure that is common where programs of DAT are run. */
#include "tools.h"

#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	NAMES_MAX = 64, /* of dat.conf, that are looked at */
};

static const char *sentence_print(char *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static const char *sentence_print(char *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, TOOL_SENTENCE, format, args);
	va_end(args);
	return text;
}

/* ---- dat_ia_open ---- */

struct name_list {
	DAT_PROVIDER_INFO infos[NAMES_MAX];
	DAT_COUNT count;
};

static void name_list_read(struct name_list *list)
{
	DAT_PROVIDER_INFO *slots[NAMES_MAX];

	for (unsigned i = 0; i < NAMES_MAX; i++)
		slots[i] = &list->infos[i];
	if (dat_registry_list_providers(NAMES_MAX, &list->count, slots) != DAT_SUCCESS)
		list->count = 0;
	if (list->count > NAMES_MAX)
		list->count = NAMES_MAX;
}

static bool name_is_of_edition(const DAT_PROVIDER_INFO *info)
{
	return info->dapl_version_major == DAT_VERSION_MAJOR &&
	       info->dapl_version_minor == DAT_VERSION_MINOR;
}

/* Returns the line with this name, preferably of this version. */
static const DAT_PROVIDER_INFO *name_list_find(const struct name_list *list, const char *name)
{
	const DAT_PROVIDER_INFO *found = NULL;

	for (DAT_COUNT i = 0; i < list->count; i++)
		if (strcmp(list->infos[i].ia_name, name) == 0 &&
		    (!found || name_is_of_edition(&list->infos[i])))
			found = &list->infos[i];
	return found;
}

static const char *name_sentence(const char *name, char *text)
{
	const DAT_PROVIDER_INFO *info;
	struct name_list list;

	name_list_read(&list);
	info = name_list_find(&list, name);
	if (!list.count)
		return sentence_print(text, "dat.conf is not there, or has no line that can be "
					    "used; datinfo --generate prints one for this host");
	if (!info)
		return sentence_print(text, "dat.conf has no line for %s", name);
	if (!name_is_of_edition(info))
		return sentence_print(
			text, "the line of %s in dat.conf is for DAT %u.%u, not for " TOOL_DAT,
			name, info->dapl_version_major, info->dapl_version_minor);
	if (info->is_thread_safe)
		return sentence_print(text,
				      "the line of %s in dat.conf says threadsafe, but programs "
				      "of DAT " TOOL_DAT " ask for nonthreadsafe",
				      name);
	return sentence_print(text,
			      "the library that dat.conf has for %s can't be loaded, or is no "
			      "provider",
			      name);
}

const char *tool_open_sentence(DAT_RETURN ret, const char *name, char *text)
{
	switch (DAT_GET_TYPE(ret)) {
	case DAT_PROVIDER_NOT_FOUND:
		return name_sentence(name, text);
	case DAT_INVALID_ADDRESS:
		return sentence_print(text,
				      "this host lacks what dat.conf has for %s; datinfo "
				      "tells what to do",
				      name);
	case DAT_INSUFFICIENT_RESOURCES:
		return sentence_print(text,
				      "what dat.conf has for %s can't be used now; datinfo "
				      "tells what to do",
				      name);
	default:
		return NULL;
	}
}

/* ---- connections ---- */

const char *tool_listen_sentence(DAT_RETURN ret, DAT_CONN_QUAL port, char *text)
{
	switch (DAT_GET_TYPE(ret)) {
	case DAT_CONN_QUAL_IN_USE:
		return sentence_print(text, "port %" PRIu64 " is taken by another server", port);
	case DAT_PRIVILEGES_VIOLATION:
		return sentence_print(text, "an ordinary user may not listen at port %" PRIu64,
				      port);
	default:
		return NULL;
	}
}

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
			found = sentence_print(text, "the interface %s is down", one->ifa_name);
		else if (need_link && !(one->ifa_flags & IFF_RUNNING))
			found = sentence_print(text, "the interface %s has no link", one->ifa_name);
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

	if (DAT_GET_TYPE(ret) != DAT_INVALID_ADDRESS)
		return NULL;
	if (tool_interface_sentence(attempt->local, true, text))
		return text;
	return sentence_print(text, "there is no way from this interface to %s",
			      server_text(attempt, server, sizeof(server)));
}

const char *tool_attempt_sentence(DAT_EVENT_NUMBER event, const struct tool_attempt *attempt,
				  char *text)
{
	char buffer[NI_MAXHOST];
	const char *server = server_text(attempt, buffer, sizeof(buffer));

	switch (event) {
	case DAT_CONNECTION_EVENT_PEER_REJECTED:
		return sentence_print(text,
				      "the server at %s port %" PRIu64 " refused the connection",
				      server, attempt->port);
	case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
		return sentence_print(text,
				      "no program of DAT listens at %s port %" PRIu64
				      ": start the server "
				      "first, and take the address that it prints",
				      server, attempt->port);
	case DAT_CONNECTION_EVENT_UNREACHABLE:
		if (tool_interface_sentence(attempt->local, true, text))
			return text;
		return sentence_print(text, "%s can't be reached from this interface", server);
	case DAT_CONNECTION_EVENT_TIMED_OUT:
		if (tool_interface_sentence(attempt->local, true, text))
			return text;
		return sentence_print(text, "no answer from %s port %" PRIu64 " within %u s",
				      server, attempt->port, attempt->timeout / 1000000);
	default:
		return NULL;
	}
}

const char *tool_end_sentence(DAT_EVENT_NUMBER event, char *text)
{
	switch (event) {
	case DAT_CONNECTION_EVENT_DISCONNECTED:
		return sentence_print(text, "the peer ended the connection");
	case DAT_CONNECTION_EVENT_BROKEN:
		return sentence_print(text,
				      "the connection broke: the peer's process or host is gone, "
				      "or a transfer was refused");
	case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
		return sentence_print(text, "the client gave up before the connection was made");
	default:
		return NULL;
	}
}

const char *tool_status_sentence(DAT_DTO_COMPLETION_STATUS status, char *text)
{
	switch (status) {
	case DAT_DTO_ERR_FLUSHED:
		return sentence_print(text, "the connection ended before this transfer");
	case DAT_DTO_ERR_TRANSPORT:
		return sentence_print(text, "the peer did not acknowledge: it is gone, or a large "
					    "network needs a longer DAPL_ACK_TIMER");
	case DAT_DTO_ERR_RECEIVER_NOT_READY:
		return sentence_print(text, "the peer had no receive posted in time");
	case DAT_DTO_ERR_REMOTE_ACCESS:
		return sentence_print(text, "the peer does not allow access to this memory");
	case DAT_DTO_ERR_LOCAL_LENGTH:
		return sentence_print(text, "the message is longer than the buffer posted for it");
	default:
		return NULL;
	}
}
