/* SPDX-License-Identifier: BSD-2-Clause */
/* A program of sockets, as anybody writes it. A write is a message that nobody answers. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "peers.h"

#define TAKEN 65536 /* bytes of small writes that the server takes at once */

static int peer;
static int flags; /* of its calls */
static _Alignas(PAGE) char memory[LARGEST];

static struct sockaddr_in address_of(const char *variable)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const char *text = getenv(variable);

	MUST(text && inet_pton(AF_INET, text, &address.sin_addr) == 1);
	return address;
}

/* The system chooses the ports. */
static int socket_open(const char *variable)
{
	struct sockaddr_in address = address_of(variable);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	MUST(fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)));
	return fd;
}

static int socket_accept(int channel)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int fd = socket_open(SERVER_ADDR);

	MUST(!listen(fd, 1) && !getsockname(fd, (struct sockaddr *)&address, &size));
	channel_send(channel, &address, sizeof(address));
	return accept(fd, NULL, NULL);
}

static int socket_connect(int channel)
{
	struct sockaddr_in address;
	int fd = socket_open(CLIENT_ADDR);

	channel_receive(channel, &address, sizeof(address));
	MUST(!connect(fd, (struct sockaddr *)&address, sizeof(address)));
	return fd;
}

static void ends_open(bool server, int channel, bool polls)
{
	const int yes = 1;

	memset(memory, 1, sizeof(memory));
	flags = MSG_NOSIGNAL | (polls ? MSG_DONTWAIT : 0);
	peer = server ? socket_accept(channel) : socket_connect(channel);
	MUST(peer >= 0 && !setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)));
}

/* Returns the bytes that a call has moved, which may be none if it does not wait. */
static size_t moved(ssize_t got)
{
	MUST(got > 0 || (got < 0 && errno == EAGAIN));
	return got > 0 ? (size_t)got : 0;
}

static void message_send(size_t bytes)
{
	for (size_t at = 0; at < bytes;)
		at += moved(send(peer, memory + at, bytes - at, flags));
}

static void message_receive(size_t bytes)
{
	for (size_t at = 0; at < bytes;)
		at += moved(recv(peer, memory + at, bytes - at, flags));
}

static void message_settle(void)
{
}

static void writes_send(size_t bytes, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		message_send(bytes);
	message_receive(1);
}

static void writes_take(size_t bytes, unsigned count)
{
	const size_t most = bytes > TAKEN ? bytes : TAKEN;

	for (size_t left = bytes * count; left;)
		left -= moved(recv(peer, memory, left < most ? left : most, flags));
	message_send(1);
}

const struct peers_side peers_socket = {
	.open = ends_open,
	.send = message_send,
	.receive = message_receive,
	.settle = message_settle,
	.write = writes_send,
	.take_writes = writes_take,
};
