/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire between two interfaces of this network namespace, t0 and t1, which are TUN devices: what
 * one sends the other gets, as the wire's condition has it. Tests set that over an abstract socket,
 * which no other network namespace sees: func/wire.h. on-wire starts this program, and ends it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

#define MAX_PACKET 65536u
#define HEADERS	   40u /* bytes of an IPv4 and a TCP header without options */

/* A packet under way. */
struct packet {
	struct packet *next;
	uint64_t due; /* ns */
	unsigned to;  /* interface */
	size_t size;
	unsigned char bytes[];
};

static int interfaces[2];
static struct wire wire;
static struct packet *under_way; /* the one that is due first is first */
static uint64_t dropped;	 /* packets, since the condition was set */
static uint64_t random_state = 88172645463325252u;
static int asked = -1; /* who wants to know when enough were dropped */

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static unsigned random_below(unsigned limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 32) % limit;
}

static bool happens(unsigned per_mille)
{
	return random_below(1000) < per_mille;
}

static void answer(int fd)
{
	check(send(fd, "ok", 2, MSG_NOSIGNAL) == 2, "answer");
	close(fd);
}

static void answer_if_dropped(void)
{
	if (asked < 0 || dropped < wire.until_dropped)
		return;
	answer(asked);
	asked = -1;
}

/* ---- packets ---- */

static void packet_send(unsigned to, const unsigned char *bytes, size_t size, uint64_t due)
{
	struct packet *packet = malloc(sizeof(*packet) + size), **at = &under_way;

	check(packet, "malloc");
	packet->due = due;
	packet->to = to;
	packet->size = size;
	memcpy(packet->bytes, bytes, size);
	while (*at && (*at)->due <= due)
		at = &(*at)->next;
	packet->next = *at;
	*at = packet;
}

static void packets_deliver(void)
{
	const uint64_t time = now();
	struct packet *packet;

	while ((packet = under_way) && packet->due <= time) {
		under_way = packet->next;
		/* a full queue of the interface loses it, as on any network */
		(void)!write(interfaces[packet->to], packet->bytes, packet->size);
		free(packet);
	}
}

/* ---- resets ---- */

static uint32_t sum_of(const void *bytes, size_t size, uint32_t sum)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i + 1 < size; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	return sum;
}

static uint16_t checksum(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* A segment that resets the connection, with these addresses, ports and numbers. */
static void reset_send(unsigned to, struct iphdr ip, struct tcphdr tcp)
{
	unsigned char bytes[HEADERS];

	ip.ihl = 5;
	ip.tot_len = htons(HEADERS);
	ip.frag_off = ip.check = 0;
	ip.check = checksum(sum_of(&ip, sizeof(ip), 0));
	tcp.th_off = 5;
	tcp.th_sum = 0;
	tcp.th_win = tcp.th_urp = 0;
	tcp.th_sum = checksum(
		sum_of(&tcp, sizeof(tcp), sum_of(&ip.saddr, 8, IPPROTO_TCP + sizeof(tcp))));
	memcpy(bytes, &ip, sizeof(ip));
	memcpy(bytes + sizeof(ip), &tcp, sizeof(tcp));
	packet_send(to, bytes, sizeof(bytes), now());
}

/* As a host between the two would that does not know the connection: it tells both. */
static void reset_connection_of(unsigned from, const unsigned char *bytes, size_t size)
{
	struct iphdr ip, back;
	struct tcphdr tcp, reset = { 0 };

	memcpy(&ip, bytes, sizeof(ip));
	if (ip.protocol != IPPROTO_TCP || size < ip.ihl * 4u + sizeof(tcp))
		return;
	memcpy(&tcp, bytes + ip.ihl * 4u, sizeof(tcp));
	if (tcp.th_flags & (TH_RST | TH_SYN))
		return;
	reset = tcp;
	reset.th_flags = TH_RST;
	reset_send(!from, ip, reset);
	back = ip;
	back.saddr = ip.daddr;
	back.daddr = ip.saddr;
	reset.th_sport = tcp.th_dport;
	reset.th_dport = tcp.th_sport;
	reset.th_seq = tcp.th_ack;
	reset_send(from, back, reset);
}

/* ---- what happens to a packet ---- */

static void packet_arrived(unsigned from)
{
	static unsigned char bytes[MAX_PACKET];
	ssize_t size = read(interfaces[from], bytes, sizeof(bytes));
	uint64_t due;

	if (size <= (ssize_t)sizeof(struct iphdr) || bytes[0] >> 4 != 4)
		return;
	if (wire.reset)
		reset_connection_of(from, bytes, (size_t)size);
	if (wire.reset || wire.cut & 1u << from || happens(wire.loss)) {
		dropped++;
		answer_if_dropped();
		return;
	}
	due = now() + (uint64_t)wire.delay_us * 1000;
	if (happens(wire.reorder))
		due += 1000000 + random_below(4000000);
	if (happens(wire.duplicate))
		packet_send(!from, bytes, (size_t)size, due);
	if (happens(wire.corrupt))
		bytes[random_below((unsigned)size)] ^= (unsigned char)(1u << random_below(8));
	packet_send(!from, bytes, (size_t)size, due);
}

/* ---- the program ---- */

static int interface_open(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
	check(fd >= 0 && !ioctl(fd, TUNSETIFF, &request), name);
	return fd;
}

static int control_open(void)
{
	const struct sockaddr_un address = WIRE_ADDRESS;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	check(fd >= 0 && !bind(fd, (const struct sockaddr *)&address, sizeof(address)) &&
		      !listen(fd, 64),
	      "control");
	return fd;
}

/* Packets under way arrive as the wire was when they were sent. */
static void condition_set(int control)
{
	int fd = accept4(control, NULL, NULL, SOCK_CLOEXEC);
	struct wire next;

	if (fd < 0)
		return;
	if (recv(fd, &next, sizeof(next), 0) != (ssize_t)sizeof(next)) {
		close(fd);
		return;
	}
	if (asked >= 0)
		answer(asked);
	wire = next;
	dropped = 0;
	asked = fd;
	answer_if_dropped();
}

int main(void)
{
	struct pollfd ready[3];

	interfaces[0] = interface_open("t0");
	interfaces[1] = interface_open("t1");
	ready[0] = (struct pollfd){ interfaces[0], POLLIN, 0 };
	ready[1] = (struct pollfd){ interfaces[1], POLLIN, 0 };
	ready[2] = (struct pollfd){ control_open(), POLLIN, 0 };
	puts("ready");
	fclose(stdout); /* on-wire waits for that */
	for (;;) {
		const uint64_t time = now();
		const uint64_t left = under_way && under_way->due > time ? under_way->due - time
									 : 0;
		const struct timespec timeout = { (time_t)(left / 1000000000u),
						  (long)(left % 1000000000u) };

		check(ppoll(ready, 3, under_way ? &timeout : NULL, NULL) >= 0 || errno == EINTR,
		      "ppoll");
		for (unsigned i = 0; i < 2; i++)
			if (ready[i].revents)
				packet_arrived(i);
		if (ready[2].revents)
			condition_set(ready[2].fd);
		packets_deliver();
	}
}
