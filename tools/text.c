/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From text to numbers and addresses, and from results, events and addresses to text; JSON. Nothing
 * here calls DAT.
 */
#include "tools.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
	DAT_EVENT_NUMBER number;
	const char *name;
} event_names[] = {
/* clang-format off */
#define EVENT(number)	{ number, #number }
	/* clang-format on */
	EVENT(DAT_DTO_COMPLETION_EVENT),
	EVENT(DAT_RMR_BIND_COMPLETION_EVENT),
	EVENT(DAT_CONNECTION_REQUEST_EVENT),
	EVENT(DAT_CONNECTION_EVENT_ESTABLISHED),
	EVENT(DAT_CONNECTION_EVENT_PEER_REJECTED),
	EVENT(DAT_CONNECTION_EVENT_NON_PEER_REJECTED),
	EVENT(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR),
	EVENT(DAT_CONNECTION_EVENT_DISCONNECTED),
	EVENT(DAT_CONNECTION_EVENT_BROKEN),
	EVENT(DAT_CONNECTION_EVENT_TIMED_OUT),
	EVENT(DAT_CONNECTION_EVENT_UNREACHABLE),
	EVENT(DAT_ASYNC_ERROR_EVD_OVERFLOW),
	EVENT(DAT_ASYNC_ERROR_IA_CATASTROPHIC),
	EVENT(DAT_ASYNC_ERROR_EP_BROKEN),
	EVENT(DAT_ASYNC_ERROR_TIMED_OUT),
	EVENT(DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR),
	EVENT(DAT_SOFTWARE_EVENT),
#undef EVENT
};

static const char *const status_names[] = {
#define STATUS(status) [status] = #status
	STATUS(DAT_DTO_SUCCESS),
	STATUS(DAT_DTO_ERR_FLUSHED),
	STATUS(DAT_DTO_ERR_LOCAL_LENGTH),
	STATUS(DAT_DTO_ERR_LOCAL_EP),
	STATUS(DAT_DTO_ERR_LOCAL_PROTECTION),
	STATUS(DAT_DTO_ERR_BAD_RESPONSE),
	STATUS(DAT_DTO_ERR_REMOTE_ACCESS),
	STATUS(DAT_DTO_ERR_REMOTE_RESPONDER),
	STATUS(DAT_DTO_ERR_TRANSPORT),
	STATUS(DAT_DTO_ERR_RECEIVER_NOT_READY),
	STATUS(DAT_DTO_ERR_PARTIAL_PACKET),
#undef STATUS
};

void tool_causes_show(void)
{
	setenv("DAPL_DBG_TYPE", "0x2003", 0); /* errors, warnings, what this host lacks */
}

static const char *output_of;

static void output_check(void)
{
	bool lost = ferror(stdout); /* earlier; its cause is not known any more */
	int err = fflush(stdout) == 0 ? 0 : errno;

	if (!lost && !err)
		return;
	fprintf(stderr, "%s: output was lost%s%s\n", output_of, err ? ": " : "",
		err ? strerror(err) : "");
	_exit(1);
}

void tool_output_watch(const char *tool)
{
	output_of = tool;
	(void)atexit(output_check); /* 32 functions are always possible */
}

double tool_usec_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

uint64_t tool_memory_most(void)
{
	const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	const uint64_t half = (uint64_t)pages / 2 * (uint64_t)size;

	return pages > 0 && size > 0 && half < SIZE_MAX / 2 ? half : SIZE_MAX / 2;
}

int tool_number_parse(const char *text, unsigned long min, unsigned long max, unsigned long *value)
{
	unsigned long number;
	char *end;

	if (!*text || text[strspn(text, "0123456789")])
		return -1; /* also a sign, which strtoul would take */
	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno || number < min || number > max)
		return -1;
	*value = number;
	return 0;
}

const char *tool_event_name(DAT_EVENT_NUMBER number)
{
	for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++)
		if (event_names[i].number == number)
			return event_names[i].name;
	return "an unknown event";
}

const char *tool_status_name(DAT_DTO_COMPLETION_STATUS status)
{
	if (status >= sizeof(status_names) / sizeof(status_names[0]))
		return "an unknown status";
	return status_names[status];
}

int tool_address_text(const struct sockaddr *address, char *text, size_t size)
{
	const bool v6 = address->sa_family == AF_INET6;
	const socklen_t length = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (!v6 && address->sa_family != AF_INET)
		return -1;
	return getnameinfo(address, length, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST) ? -1
											    : 0;
}

void tool_address_cut(char *text)
{
	text[strcspn(text, "%")] = '\0';
}

const char *tool_address_find(const char *host, sa_family_t family,
			      struct sockaddr_storage *address)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct addrinfo *chosen;
	struct addrinfo *list;
	int code = getaddrinfo(host, NULL, &hints, &list);

	if (code)
		return code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code);
	chosen = list;
	while (chosen->ai_next && chosen->ai_family != family)
		chosen = chosen->ai_next;
	memset(address, 0, sizeof(*address));
	memcpy(address, chosen->ai_addr, chosen->ai_addrlen);
	freeaddrinfo(list);
	return NULL;
}

const char *tool_sentence(char *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, TOOL_SENTENCE, format, args);
	va_end(args);
	return text;
}

#define PROGRESS_INTERVAL 200e3 /* microseconds */

static double progress_next;
static bool progress_shown;

static bool terminal_can_erase(void)
{
	const char *kind = getenv("TERM");

	return isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
}

void tool_progress_show(const char *format, ...)
{
	double now = tool_usec_now();
	va_list args;

	if (now < progress_next)
		return;
	progress_next = now + PROGRESS_INTERVAL;
	if (!terminal_can_erase())
		return;
	progress_shown = true;
	putc('\r', stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\033[K", stderr); /* erases what is left of a longer line */
	(void)fflush(stderr);
}

void tool_progress_clear(void)
{
	if (!progress_shown)
		return;
	progress_shown = false;
	fputs("\r\033[K", stderr);
	(void)fflush(stderr);
}

/* Returns the bytes of a character in UTF-8, or 0 if it is none. */
static unsigned utf8_length(const char *text)
{
	const unsigned char first = (unsigned char)*text;
	unsigned length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : 3;

	if (first >= 0xf0)
		length = first < 0xf5 ? 4 : 0;
	for (unsigned i = 1; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

void tool_json_string(const char *text)
{
	putchar('"');
	while (*text) {
		const unsigned length = utf8_length(text);

		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if (!length || (unsigned char)*text < 0x20)
			printf("\\u%04x", (unsigned char)*text);
		else
			printf("%.*s", (int)length, text);
		text += length ? length : 1;
	}
	putchar('"');
}
