/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peers socket|fabric poll|sleep BYTES COUNT
 *
 * Half of a round trip, and the rate of writes, of sizes from 1 byte to BYTES, each four times the
 * one before: COUNT pings of each size, and as many writes; of large sizes as few as dtest -a
 * makes. A second process is the server.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "peers.h"

#define WARM_UP	  10	   /* pings before those that are measured */
#define ENOUGH	  67108864 /* bytes of all pings of a size, or writes ... */
#define COUNT_MIN 10	   /* ... but so many at least */
#define COUNT_MAX 100000

static const struct peers_side *side;
static double samples[COUNT_MAX]; /* us */

void channel_send(int channel, const void *data, size_t size)
{
	MUST(send(channel, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

void channel_receive(int channel, void *data, size_t size)
{
	MUST(recv(channel, data, size, MSG_WAITALL) == (ssize_t)size);
}

static unsigned count_of(size_t bytes, unsigned count)
{
	size_t enough = ENOUGH / bytes;

	if (enough < COUNT_MIN)
		enough = COUNT_MIN;
	return count < enough ? count : (unsigned)enough;
}

/* Returns the us of half a round trip. */
static double ping(size_t bytes)
{
	uint64_t began = clock_ns();
	double us;

	side->send(bytes);
	side->receive(bytes);
	us = (double)(clock_ns() - began) / 2e3;
	side->settle();
	return us;
}

static void pong(size_t bytes)
{
	side->receive(bytes);
	side->send(bytes);
	side->settle();
}

static void client_measure(size_t bytes, unsigned count)
{
	uint64_t began;
	double us;

	for (int i = 0; i < WARM_UP; i++)
		ping(bytes);
	for (unsigned i = 0; i < count; i++)
		samples[i] = ping(bytes);
	began = clock_ns();
	side->write(bytes, count);
	us = (double)(clock_ns() - began) / 1e3;
	ping(1);
	printf("%zu,%u,%.2f,%.2f\n", bytes, count, median(samples, count),
	       (double)bytes * count / us);
}

static void server_measure(size_t bytes, unsigned count)
{
	for (unsigned i = 0; i < WARM_UP + count; i++)
		pong(bytes);
	side->take_writes(bytes, count);
	pong(1);
}

static unsigned long number_in(const char *text, unsigned long most)
{
	unsigned long number = strtoul(text, NULL, 10);

	MUST(number && number <= most);
	return number;
}

int main(int argc, char **argv)
{
	size_t largest;
	unsigned count;
	int status, ends[2];
	bool server, polls;
	pid_t parent = getpid();

	MUST(argc == 5);
	side = strcmp(argv[1], "socket") ? &peers_fabric : &peers_socket;
	polls = !strcmp(argv[2], "poll");
	largest = number_in(argv[3], LARGEST);
	count = (unsigned)number_in(argv[4], COUNT_MAX);
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	server = fork() == 0;
	if (server)
		MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
	MUST(!close(ends[!server]));
	side->open(server, ends[server], polls);
	if (!server)
		puts("bytes,count,median_usec,write_mb_per_s");
	for (size_t bytes = 1; bytes <= largest; bytes *= 4)
		(server ? server_measure : client_measure)(bytes, count_of(bytes, count));
	if (!server)
		MUST(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
