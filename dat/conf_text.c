/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the text of dat.conf, if it is a regular file of a size that such a file has, and makes
 * text of it fit for a terminal.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf.h"

/* For one byte more than there may be, and the one that the parser writes behind the text. */
#define TEXT_ROOM (CONF_SIZE_MAX + 2)

/*
 * A FIFO is opened without its writer, and is no regular file. What is one may have a lease, whose
 * end is waited for. Returns a descriptor or -errno.
 */
static int open_promptly(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == EWOULDBLOCK && !stat(path, &st) && S_ISREG(st.st_mode))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int text_open(const char *path)
{
	int fd = open_promptly(path), err = 0;
	struct stat stat;

	if (fd < 0)
		return fd;
	if (fstat(fd, &stat))
		err = -errno;
	else if (S_ISDIR(stat.st_mode))
		err = -EISDIR;
	else if (!S_ISREG(stat.st_mode))
		err = -CONF_NOT_REGULAR;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Reads to the end of the file, whose size may change meanwhile. Returns 0 or -errno. */
static int text_read(int fd, char **text, size_t *length)
{
	size_t room = 0;
	ssize_t n;

	do {
		if (*length + 1 >= room) {
			char *larger;

			room = room ? 2 * room : 4096;
			if (room > TEXT_ROOM)
				room = TEXT_ROOM;
			larger = realloc(*text, room);
			if (!larger)
				return -ENOMEM;
			*text = larger;
		}
		n = read(fd, *text + *length, room - *length - 1);
		*length += n > 0 ? (size_t)n : 0;
	} while (n > 0 && *length <= CONF_SIZE_MAX);
	if (n < 0)
		return -errno;
	return *length <= CONF_SIZE_MAX ? 0 : -EFBIG;
}

int conf_text_read(const char *path, char **text, size_t *length)
{
	int fd = text_open(path), err;

	*text = NULL;
	*length = 0;
	if (fd < 0)
		return fd;
	err = text_read(fd, text, length);
	close(fd);
	if (!err)
		return 0;
	free(*text);
	*text = NULL;
	return err;
}

const char *conf_text_error(int err)
{
	return err == -CONF_NOT_REGULAR ? "it is no regular file" : strerror(-err);
}

void conf_text_clean(char *text)
{
	for (char *at = text; *at; at++) {
		if (at[0] == '\xc2' && (at[1] & 0xe0) == 0x80) /* U+0080 to U+009F */
			at[0] = at[1] = '?';
		else if ((unsigned char)*at < ' ' || *at == '\x7f')
			*at = '?';
	}
}
