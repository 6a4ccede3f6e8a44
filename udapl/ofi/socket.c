/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of libfabric's tcp, which it keeps to itself. They are found by their addresses, for
 * what libfabric doesn't do: to notice the end of a connection behind unread bytes, and to get rid
 * of peers that connect to a listener and then send no request.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "ofi.h"

/* Bytes of the shortest request: the header of libfabric's tcp, and ours. */
#define REQUEST_SIZE (32 + WIRE_HEADER_SIZE)

/* ---- all descriptors ---- */

/* Returns the first descriptor of the process that @fits; or -1 if none does. */
static int socket_search(bool (*fits)(int fd, void *what), void *what)
{
	const struct dirent *entry;
	int found = -1;
	DIR *dir = opendir("/proc/self/fd");

	while (dir && found < 0 && (entry = readdir(dir))) {
		int fd = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : -1;

		if (fd >= 0 && fd != dirfd(dir) && fits(fd, what))
			found = fd;
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool socket_is_at(int fd, const struct sockaddr_storage *local)
{
	struct sockaddr_storage name = { 0 };
	socklen_t size = sizeof(name);

	return !getsockname(fd, (struct sockaddr *)&name, &size) &&
	       !memcmp(&name, local, sizeof(name));
}

static bool socket_listens(int fd)
{
	socklen_t size = sizeof(int);
	int listens = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && listens;
}

/* ---- connections ---- */

/* Is it at its end, and connected to the other one? @attempt: if it is connected at all. */
static bool socket_is_between(int fd, const struct socket_ends *ends, bool attempt)
{
	struct sockaddr_storage remote = { 0 };
	socklen_t size = sizeof(remote);

	if (!socket_is_at(fd, ends->local))
		return false;
	if (getpeername(fd, (struct sockaddr *)&remote, &size))
		return attempt;
	return !memcmp(&remote, ends->remote, sizeof(remote));
}

static bool socket_is_of(int fd, void *ends)
{
	return socket_is_between(fd, ends, false);
}

/* Sockets that are connected to different peers may have one local address. */
static bool socket_may_be_of(int fd, void *ends)
{
	return socket_is_between(fd, ends, true);
}

int descriptor_next(const struct tp_dev *dev)
{
	int fd = fcntl(dev->ready_fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	close(fd);
	return fd;
}

#define GUESSES 16

/* Of sockets that are open, the newest are mostly just below the next number that is free. */
static int socket_search_new(const struct tp_dev *dev, bool (*fits)(int fd, void *what), void *what)
{
	int fd = descriptor_next(dev);

	for (int n = 0; n < GUESSES; n++)
		if (fits(--fd, what))
			return fd;
	return socket_search(fits, what);
}

/* A program that this process executes is not to keep the connection up. */
static int socket_found(int fd)
{
	if (fd >= 0)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

int socket_find_near(struct socket_ends *ends, int guess)
{
	int fd = -1;

	for (int n = 0; n < GUESSES && guess >= 0 && fd < 0; n++)
		if (socket_is_of(guess + n, ends))
			fd = guess + n;
		else if (n && guess >= n && socket_is_of(guess - n, ends))
			fd = guess - n;
	return socket_found(fd);
}

int socket_find(const struct tp_dev *dev, struct socket_ends *ends)
{
	return socket_found(socket_search_new(dev, socket_is_of, ends));
}

/*
 * Once the peer's kernel has a request, nothing is sent any more that would fail. A host that has
 * vanished since would never be noticed, and the request never complete; so the kernel asks from
 * time to time. The settings of the host say when, because idle connections end by it, too.
 */
void socket_probe(int fd)
{
	const int on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* A program that ends a connection and makes another gets the same number again. */
int socket_probe_attempt(struct tp_dev *dev, struct socket_ends *ends)
{
	int fd = dev->last_attempt;

	if (!socket_may_be_of(fd, ends))
		fd = socket_search_new(dev, socket_may_be_of, ends);
	if (fd < 0)
		return fd;
	socket_probe(fd);
	dev->last_attempt = fd;
	return fd;
}

bool socket_is_read(int fd, uint64_t *read)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);
	int unread = 0;

	if (ioctl(fd, FIONREAD, &unread) || !unread ||
	    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		return true;
	*read = info.tcpi_bytes_received - (unsigned)unread;
	return false;
}

void socket_close_copy(int fd, struct socket_ends *ends)
{
	if (fd >= 0 && socket_is_of(fd, ends))
		close(fd);
}

/* ---- listeners ---- */

static bool socket_is_listener(int fd, void *local)
{
	return socket_listens(fd) && socket_is_at(fd, local);
}

/*
 * libfabric reads a request from a socket that blocks, so a peer that sends half of one would hold
 * up its reader. Accepted sockets inherit the time-out.
 */
int socket_find_listener(struct sockaddr_storage *local, int guess)
{
	const struct timeval soon = { .tv_usec = 1 };
	int fd = socket_is_listener(guess, local) ? guess
						  : socket_search(socket_is_listener, local);

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

void socket_close_listener_copy(int fd, struct sockaddr_storage *local)
{
	if (fd >= 0 && socket_is_listener(fd, local))
		close(fd);
}

struct strangers {
	const struct sockaddr_storage *local;
	int listener;
	unsigned count;
};

/*
 * Ends a connection that was accepted, and has sent less than a request: it was sent nothing,
 * either. It returns false, so that all descriptors are looked at.
 */
static bool socket_end_stranger(int fd, void *what)
{
	struct strangers *strangers = what;
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	if (fd == strangers->listener || !socket_is_at(fd, strangers->local) ||
	    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) ||
	    size < offsetof(struct tcp_info, tcpi_data_segs_out) + sizeof(uint32_t) ||
	    info.tcpi_data_segs_out || info.tcpi_bytes_received >= REQUEST_SIZE)
		return false;
	(void)shutdown(fd, SHUT_RDWR);
	strangers->count++;
	return false;
}

unsigned sockets_end_strangers(const struct sockaddr_storage *local, int listener)
{
	struct strangers strangers = { .local = local, .listener = listener };

	(void)socket_search(socket_end_stranger, &strangers);
	return strangers.count;
}

void socket_listen_no_more(int fd)
{
	(void)shutdown(fd, SHUT_RDWR);
}
