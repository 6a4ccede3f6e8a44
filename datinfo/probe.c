/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening a name in a process of its own: a provider may crash, hang, or print. The child has a
 * dat.conf with this line alone, and tells through a pipe how far it came.
 */
#define _GNU_SOURCE
#include "datinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tools/tools.h"

unsigned probe_limit = 30;

/* ---- the child ---- */

static void quoted_print(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		fputc(*text, to);
	}
	fputs("\" ", to);
}

/*
 * The dat.conf has no name in the file system, so that none is left behind. Returns 0, or -1 with
 * errno.
 */
static int use_line(const struct conf_name *name)
{
	int fd = memfd_create("dat.conf", 0);
	char path[64];
	FILE *conf = fd < 0 ? NULL : fdopen(fd, "w");

	if (!conf)
		return -1;
	quoted_print(conf, name->name);
	fprintf(conf, " u%u.%u %s default ", name->major, name->minor,
		name->thread_safe ? "threadsafe" : "nonthreadsafe");
	quoted_print(conf, name->library);
	fprintf(conf, "dapl.%u.%u ", name->major, name->minor);
	quoted_print(conf, name->params);
	fputs("\"\"\n", conf);
	fflush(conf);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	setenv("DAT_OVERRIDE", path, 1);
	tool_causes_show();
	setenv("DAPL_DBG_DEST", "1", 1);
	setenv("DAT_DBG_DEST", "1", 1);
	return 0;
}

static void probe_not_tried(struct probe *probe)
{
	probe->stage = PROBE_NOT_TRIED;
	snprintf(probe->message, sizeof(probe->message), "%s", strerror(errno));
}

static _Noreturn void child_main(const struct conf_name *name, bool opens,
				 const struct peer_target *target, int result, int output)
{
	struct probe probe = { .stage = PROBE_CRASHED };

	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	if (use_line(name))
		probe_not_tried(&probe);
	else
		name->edition->open(name, opens, target, &probe);
	fflush(stderr);
	_exit(write(result, &probe, sizeof(probe)) == (ssize_t)sizeof(probe) ? 0 : 1);
}

/* ---- the parent ---- */

/* Returns the reason of a line like "libdaplcma[123]: reason". */
static const char *without_prefix(const char *line)
{
	const char *bracket = strchr(line, '[');
	const char *colon = bracket ? strstr(bracket, "]: ") : NULL;

	return colon && !memchr(line, ' ', (size_t)(bracket - line)) ? colon + 3 : line;
}

/* Keeps the last line that is not empty. */
static void keep_message(char *text, struct probe *probe)
{
	char *line, *rest = text;

	while ((line = strsep(&rest, "\n")))
		if (*line)
			snprintf(probe->message, sizeof(probe->message), "%s",
				 without_prefix(line));
}

/* Reads what the child has written in one piece, which may be more than one read returns. */
static void result_read(int result, struct probe *probe)
{
	ssize_t n = 1;

	for (size_t got = 0; got < sizeof(*probe) && n > 0; got += (size_t)n)
		n = read(result, (char *)probe + got, sizeof(*probe) - got);
	if (n <= 0)
		probe->stage = PROBE_CRASHED;
}

/* Reads until the child has closed both, or the time is up. Returns false if it is. */
static bool collect(int result, int output, unsigned seconds, struct probe *probe)
{
	const double end = tool_usec_now() + 1e6 * seconds;
	struct pollfd fds[] = { { .fd = result, .events = POLLIN },
				{ .fd = output, .events = POLLIN } };
	char text[4096];
	size_t got = 0;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		const double left = (end - tool_usec_now()) / 1000;

		if (left <= 0 || poll(fds, 2, (int)left + 1) <= 0)
			return false;
		if (fds[0].revents) {
			result_read(result, probe);
			fds[0].fd = -1;
		}
		if (fds[1].revents) {
			ssize_t n = read(output, text + got, sizeof(text) - 1 - got);

			if (n <= 0)
				fds[1].fd = -1;
			else
				got += (size_t)n;
			if (got > sizeof(text) / 2) { /* only the end matters */
				memmove(text, text + got / 2, got - got / 2);
				got -= got / 2;
			}
		}
	}
	text[got] = '\0';
	keep_message(text, probe);
	return true;
}

/*
 * libdaplofi has the version of libfabric's provider for that of the firmware: 117.0 if the
 * provider is part of libfabric 1.17.
 */
static void libfabric_separate(struct probe *probe)
{
	struct versions *versions = &probe->versions;

	if (provider_kind_of(probe->library) != PROVIDER_OFI)
		return;
	versions->libfabric = versions->firmware;
	if (versions->libfabric.major >= 100) {
		versions->libfabric.minor = versions->libfabric.major % 100;
		versions->libfabric.major /= 100;
	}
	versions->firmware = (struct version){ 0, 0 };
}

const char *version_text(const struct version *version, char *text, size_t size)
{
	if (!version->major && !version->minor)
		return NULL;
	snprintf(text, size, "%u.%u", version->major, version->minor);
	return text;
}

const char *peer_state_text(enum peer_state state)
{
	static const char *const texts[] = {
		[PEER_NOT_ASKED] = "not asked", [PEER_REACHED] = "reaches",
		[PEER_REFUSED] = "refused",	[PEER_SILENT] = "silent",
		[PEER_NO_ROUTE] = "no route",	[PEER_NO_HOST] = "no host",
		[PEER_FAILED] = "failed",
	};

	return texts[state];
}

static void process_run(const struct conf_name *name, bool opens, const struct peer_target *target,
			struct probe *probe)
{
	const unsigned seconds = probe_limit + (target ? 2 * target->seconds : 0);
	int result[2], output[2];
	pid_t child;

	memset(probe, 0, sizeof(*probe));
	if (pipe2(result, O_CLOEXEC)) {
		probe_not_tried(probe);
		return;
	}
	if (pipe2(output, O_CLOEXEC)) {
		probe_not_tried(probe);
		close(result[0]);
		close(result[1]);
		return;
	}
	fflush(stdout); /* or the provider, which may print, prints it once more */
	child = fork();
	if (!child)
		child_main(name, opens, target, result[1], output[1]);
	if (child < 0)
		probe_not_tried(probe);
	close(result[1]);
	close(output[1]);
	if (child > 0 && !collect(result[0], output[0], seconds, probe)) {
		probe->stage = PROBE_TIMED_OUT;
		kill(child, SIGKILL);
	}
	if (child > 0)
		waitpid(child, &probe->status, 0);
	libfabric_separate(probe);
	close(result[0]);
	close(output[0]);
}

void probe_run(const struct conf_name *name, const struct peer_target *target, struct probe *probe)
{
	process_run(name, true, target, probe);
}

void probe_library(const struct conf_name *name, struct probe *probe)
{
	process_run(name, false, NULL, probe);
}
