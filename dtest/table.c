/* SPDX-License-Identifier: BSD-2-Clause */
/* The sizes of a sweep, as the client prints them: text for people, CSV and JSON for programs. */
#include "dtest.h"

#include <netdb.h>
#include <stdio.h>

enum {
	COLUMNS = 9,
};

static const struct column {
	const char *title, *key; /* in text, and in CSV and JSON */
	int width, decimals;
	bool optional; /* not with -w */
} columns[COLUMNS] = {
	{ "bytes", "bytes", 7, 0, false },
	{ "count", "count", 5, 0, false },
	{ "min", "min_usec", 8, 2, true },
	{ "median", "median_usec", 8, 2, true },
	{ "99 %", "p99_usec", 8, 2, true },
	{ "99.9 %", "p99_9_usec", 8, 2, true },
	{ "max", "max_usec", 8, 2, true },
	{ "write MB/s", "write_mb_per_s", 10, 2, false },
	{ "read MB/s", "read_mb_per_s", 9, 2, true },
};

/* How one row begins, what stands between its columns, and how it ends. */
static const struct marks {
	const char *begin, *between, *end;
} marks[] = {
	[FORMAT_TEXT] = { "", " ", "\n" },
	[FORMAT_CSV] = { "", ",", "\n" },
	[FORMAT_JSON] = { "  {", ", ", "}" },
};

static bool begun;
static unsigned rows;

static void json_head_print(const struct dtest *t)
{
	char server[NI_MAXHOST] = "";

	(void)tool_address_text((const struct sockaddr *)&t->remote, server, sizeof(server));
	printf("{ \"program\": \"" TOOL_NAME("dtest") "\", \"version\": \"" PACKAGE_VERSION "\", "
						      "\"name\": ");
	tool_json_string(t->opt.ia_name);
	printf(", \"server\": \"%s\", \"port\": %u,\n\"pings\": %s, \"sizes\": [", server,
	       t->opt.port,
	       t->opt.write_only    ? "null"
	       : t->opt.write_pings ? "\"RDMA write\""
				    : "\"message\"");
}

/* Prints what @print prints of each column, between the marks of the format. */
static void row_print(const struct dtest *t,
		      void (*print)(enum dtest_format format, unsigned column,
				    const double *values),
		      const double *values)
{
	const struct marks *mark = &marks[t->opt.format];

	fputs(mark->begin, stdout);
	for (unsigned i = 0; i < COLUMNS; i++) {
		if (columns[i].optional && t->opt.write_only)
			continue;
		fputs(i ? mark->between : "", stdout);
		print(t->opt.format, i, values);
	}
	fputs(mark->end, stdout);
}

static void title_print(enum dtest_format format, unsigned column, const double *values)
{
	(void)values;
	if (format == FORMAT_TEXT)
		printf("%*s", columns[column].width, columns[column].title);
	else
		fputs(columns[column].key, stdout);
}

static void value_print(enum dtest_format format, unsigned column, const double *values)
{
	if (format == FORMAT_JSON)
		printf("\"%s\": ", columns[column].key);
	printf("%*.*f", format == FORMAT_TEXT ? columns[column].width : 0, columns[column].decimals,
	       values[column]);
}

void dtest_table_begin(const struct dtest *t)
{
	begun = true;
	if (t->opt.format == FORMAT_JSON) {
		json_head_print(t);
		return;
	}
	if (t->opt.format == FORMAT_TEXT && !t->opt.write_only)
		puts("half of a round trip in usec; MB are 10^6 bytes");
	row_print(t, title_print, NULL);
}

void dtest_table_add(const struct dtest *t, const struct dtest_row *row)
{
	const double values[COLUMNS] = {
		(double)row->bytes,
		(double)row->count,
		row->pings->min,
		samples_percentile(row->pings, 50),
		samples_percentile(row->pings, 99),
		samples_percentile(row->pings, 99.9),
		row->pings->max,
		row->writes,
		row->reads,
	};

	tool_progress_clear();
	if (t->opt.format == FORMAT_JSON)
		puts(rows++ ? "," : "");
	row_print(t, value_print, values);
}

void dtest_table_end(const struct dtest *t)
{
	if (t->opt.format != FORMAT_JSON)
		return;
	if (!begun)
		dtest_table_begin(t);
	printf("\n], \"passed\": %s }\n", t->failed ? "false" : "true");
}
