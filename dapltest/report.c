/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All output is written here. Threads write whole lines, which are complete when the function
 * returns.
 */
#include "dapltest.h"

#include <stdarg.h>
#include <string.h>

enum {
	LINE_BYTES = 2048, /* what is longer is cut */
};

static unsigned debug_level;

void report_debug_set(unsigned level)
{
	debug_level = level;
}

unsigned report_debug(void)
{
	return debug_level;
}

/* One call writes the line, so that those of other threads stand before it or after it. */
static void line_print(FILE *to, const char *head, const char *format, va_list args)
{
	char line[LINE_BYTES];
	const size_t room = sizeof(line) - 1, begin = strlen(head);

	memcpy(line, head, begin);
	(void)vsnprintf(line + begin, room - begin, format, args);
	strcat(line, "\n");
	fputs(line, to);
	(void)fflush(to); /* scripts read the output during the run */
}

void report(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line_print(stdout, "", format, args);
	va_end(args);
}

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line_print(stderr, "", format, args);
	va_end(args);
}

void report_step(const struct origin *origin, const char *format, ...)
{
	char head[64];
	va_list args;

	if (debug_level == 0)
		return;
	if (origin->lane < 0)
		(void)snprintf(head, sizeof(head), "%s: ", origin->name);
	else
		(void)snprintf(head, sizeof(head), "%s: #%d ", origin->name, origin->lane);
	va_start(args, format);
	line_print(stdout, head, format, args);
	va_end(args);
}

void report_failure(const struct origin *origin, const char *what, const char *format, ...)
{
	char head[128];
	va_list args;

	if (origin->lane < 0)
		(void)snprintf(head, sizeof(head), "%s: %s error: ", origin->name, what);
	else
		(void)snprintf(head, sizeof(head), "%s: %s #%d error: ", origin->name, what,
			       origin->lane);
	va_start(args, format);
	line_print(stdout, head, format, args);
	va_end(args);
}

int report_call(const struct origin *origin, const char *call, DAT_RETURN ret)
{
	char text[TOOL_RETURN];

	if (ret == DAT_SUCCESS) {
		if (debug_level > 1)
			report_step(origin, "%s", call);
		return 0;
	}
	report_failure(origin, call, "%s", tool_return_text(ret, text, sizeof(text)));
	return -1;
}
