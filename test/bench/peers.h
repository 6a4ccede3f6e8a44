/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the program "peers" share: what a user might choose in place of DAT, between
 * two processes. The same is measured over a socket of TCP (peers_socket.c) and over libfabric
 * (peers_ofi.c), and printed as dtest prints it, which does it over DAT.
 */
#ifndef PEERS_H
#define PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench.h"

#define LARGEST	    4194304 /* bytes of a transfer, at most */
#define AHEAD	    64	    /* writes in flight, as many as dtest has */
#define PAGE	    4096    /* where memory begins */
#define SERVER_ADDR "DAT_TEST_ADDR0"
#define CLIENT_ADDR "DAT_TEST_ADDR1"

/* One of the implementations, in each of the two processes. */
struct peers_side {
	/*
	 * Connects the two ends. @channel is a socket between them for what they must know of each
	 * other. The ends poll all the time, or else sleep when nothing is there.
	 */
	void (*open)(bool server, int channel, bool polls);
	void (*send)(size_t bytes);
	void (*receive)(size_t bytes); /* the peer's message */
	void (*settle)(void);	       /* what follows a message of each end; it is not measured */
	/* Of the client: returns when the server has all of @count writes. */
	void (*write)(size_t bytes, unsigned count);
	void (*take_writes)(size_t bytes, unsigned count); /* of the server, at the same time */
};
extern const struct peers_side peers_socket, peers_fabric;

void channel_send(int channel, const void *data, size_t size);
void channel_receive(int channel, void *data, size_t size);

#endif
