/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datinfo --peer: whether a server on another host can be reached over an IA. The request says by
 * its private data that it is only a question, which dtest and dapltest reject and then forget. So
 * a rejection by the program is as good an answer as a connection. This file is compiled for each
 * edition of DAT, like open.c.
 */
#include "registry.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../tools/tools.h"

static void advise(struct peer *peer, const char *remedy)
{
	snprintf(peer->remedy, sizeof(peer->remedy), "%s", remedy);
}

/* ---- address and route ---- */

static bool address_find(const struct sockaddr *local, const struct peer_target *target,
			 struct sockaddr_storage *server, struct peer *peer)
{
	const char *reason = tool_address_find(target->host, local->sa_family, server);

	peer->state = PEER_NO_HOST;
	if (reason) {
		snprintf(peer->reason, sizeof(peer->reason), "%s: %s", target->host, reason);
		advise(peer, "give an address, or a name that this host resolves (getent hosts)");
		return false;
	}
	(void)tool_address_text((const struct sockaddr *)server, peer->address,
				sizeof(peer->address));
	if (server->ss_family == local->sa_family)
		return true;
	snprintf(peer->reason, sizeof(peer->reason), "%s has no %s address, which the IA has",
		 target->host, local->sa_family == AF_INET6 ? "IPv6" : "IPv4");
	advise(peer, "give an address of that kind, or a name whose IA has one of the other");
	return false;
}

/* Has the kernel choose the address from which packets to the server leave. Sends nothing. */
static bool route_find(const struct sockaddr_storage *server, struct peer *peer)
{
	const bool v6 = server->ss_family == AF_INET6;
	struct sockaddr_storage to = *server, from;
	socklen_t size = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (v6)
		((struct sockaddr_in6 *)&to)->sin6_port = htons(1); /* any */
	else
		((struct sockaddr_in *)&to)->sin_port = htons(1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, size) ||
	    getsockname(fd, (struct sockaddr *)&from, &size))
		err = errno;
	else
		(void)tool_address_text((struct sockaddr *)&from, peer->source,
					sizeof(peer->source));
	if (fd >= 0)
		close(fd);
	if (!err)
		return true;
	peer->state = PEER_NO_ROUTE;
	snprintf(peer->reason, sizeof(peer->reason), "no route to %s: %s", peer->address,
		 strerror(err));
	advise(peer, "give this host an address in that network, or a route (ip route get)");
	return false;
}

/* ---- the question ---- */

/* What the events tell that an attempt to connect may end in. */
static const struct {
	DAT_EVENT_NUMBER event;
	enum peer_state state;
	const char *remedy;
} answers[] = {
	{ DAT_CONNECTION_EVENT_ESTABLISHED, PEER_REACHED, "" },
	{ DAT_CONNECTION_EVENT_PEER_REJECTED, PEER_REACHED, "" },
	{ DAT_CONNECTION_EVENT_NON_PEER_REJECTED, PEER_REFUSED,
	  "dtest there, over the same kind of device, prints the address and port to give" },
	{ DAT_CONNECTION_EVENT_UNREACHABLE, PEER_NO_ROUTE,
	  "see whether ping reaches it from this interface, and name one that does" },
	{ DAT_CONNECTION_EVENT_TIMED_OUT, PEER_SILENT,
	  "see whether ping reaches it, and whether a firewall drops this port" },
};

static void answer_tell(DAT_EVENT_NUMBER event, const struct tool_attempt *attempt,
			struct peer *peer)
{
	char text[TOOL_SENTENCE];
	const char *sentence;

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (answers[i].event == event) {
			peer->state = answers[i].state;
			advise(peer, answers[i].remedy);
		}
	if (peer->state == PEER_REACHED)
		return;
	sentence = tool_attempt_sentence(event, attempt, text);
	snprintf(peer->reason, sizeof(peer->reason), "%s",
		 sentence ? sentence : tool_event_name(event));
}

static void failure_tell(const struct registry *registry, const char *call, DAT_RETURN ret,
			 struct peer *peer)
{
	char names[128];

	registry_return_text(registry, ret, names, sizeof(names));
	peer->state = PEER_FAILED;
	snprintf(peer->reason, sizeof(peer->reason), "%s returned %s", call, names);
	advise(peer, "dtest -v shows how far it comes");
}

/* What an endpoint needs. The dispatcher of transfers stays empty. */
struct ends {
	DAT_EVD_HANDLE connection, transfers;
	DAT_PZ_HANDLE pz;
	DAT_EP_HANDLE ep;
};

static bool ends_create(const struct registry *registry, DAT_IA_HANDLE ia, struct ends *ends,
			struct peer *peer)
{
	const char *call = "dat_pz_create";
	DAT_RETURN ret = registry->pz_create(ia, &ends->pz);

	if (ret == DAT_SUCCESS) {
		call = "dat_evd_create";
		ret = registry->evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
					   &ends->connection);
	}
	if (ret == DAT_SUCCESS)
		ret = registry->evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
					   &ends->transfers);
	if (ret == DAT_SUCCESS) {
		call = "dat_ep_create";
		ret = registry->ep_create(ia, ends->pz, ends->transfers, ends->transfers,
					  ends->connection, NULL, &ends->ep);
	}
	if (ret != DAT_SUCCESS)
		failure_tell(registry, call, ret, peer);
	return ret == DAT_SUCCESS;
}

/* The wait is longer than the attempt, whose end is an event, too. */
static void question_ask(const struct registry *registry, const struct ends *ends,
			 const struct tool_attempt *attempt, struct peer *peer)
{
	static const char question[] = TOOL_QUESTION;
	const double begun = tool_usec_now();
	char text[TOOL_SENTENCE];
	DAT_EVENT event;
	DAT_COUNT more;
	DAT_RETURN ret;

	ret = registry->ep_connect(ends->ep, (DAT_IA_ADDRESS_PTR)(uintptr_t)attempt->server,
				   attempt->port, attempt->timeout, sizeof(question),
				   (DAT_PVOID)(uintptr_t)question, DAT_QOS_BEST_EFFORT,
				   DAT_CONNECT_DEFAULT_FLAG);
	if (ret != DAT_SUCCESS) {
		failure_tell(registry, "dat_ep_connect", ret, peer);
		if (tool_connect_sentence(ret, attempt, text)) {
			peer->state = PEER_NO_ROUTE;
			snprintf(peer->reason, sizeof(peer->reason), "%s", text);
			advise(peer, "name an IA of the interface that the route has");
		}
		return;
	}
	ret = registry->evd_wait(ends->connection, attempt->timeout + 1000000, 1, &event, &more);
	peer->usec = tool_usec_now() - begun;
	if (ret == DAT_SUCCESS)
		answer_tell(event.event_number, attempt, peer);
	else
		failure_tell(registry, "dat_evd_wait", ret, peer);
}

void peer_ask(const struct registry *registry, DAT_IA_HANDLE ia, const struct sockaddr *local,
	      const struct peer_target *target, struct peer *peer)
{
	struct sockaddr_storage server;
	const struct tool_attempt attempt = {
		.local = local,
		.server = (const struct sockaddr *)&server,
		.port = target->port,
		.timeout = target->seconds * 1000000,
		.one_client = true,
	};
	struct ends ends;

	if (!address_find(local, target, &server, peer) || !route_find(&server, peer))
		return;
	peer->state = PEER_FAILED;
	if (!registry->pz_create || !registry->evd_create || !registry->evd_wait ||
	    !registry->ep_create || !registry->ep_connect)
		snprintf(peer->reason, sizeof(peer->reason), "the registry lacks a call");
	else if (ends_create(registry, ia, &ends, peer))
		question_ask(registry, &ends, &attempt, peer);
}
