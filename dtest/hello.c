/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What both sides must have the same: each tells the other its own as private data, the client in
 * its request, the server in its answer. Older programs of this name send none and look at none, so
 * they are taken as they are.
 */
#include "dtest.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const char hello_magic[8] = "dtest 1";

enum {
	HELLO_SWEEP = 1,
	HELLO_WRITE_ONLY = 2,
	HELLO_WRITE_PINGS = 4,
	HELLO_TIME = 16, /* from this bit on: the seconds of --time */
};

struct dtest_hello dtest_hello_make(const struct dtest *t)
{
	const bool all_sizes = t->opt.mode == MODE_SWEEP && !t->opt.one_size;
	uint32_t flags = (all_sizes ? HELLO_SWEEP : 0) |
			 (t->opt.write_only ? HELLO_WRITE_ONLY : 0) |
			 (t->opt.write_pings ? HELLO_WRITE_PINGS : 0) | t->opt.time << HELLO_TIME;
	struct dtest_hello hello = { .flags = htonl(flags),
				     .size = htonl(t->opt.size),
				     .burst = htonl(t->opt.burst) };

	memcpy(hello.magic, hello_magic, sizeof(hello.magic));
	return hello;
}

/* Providers may report more bytes than were sent. */
void dtest_hello_read(struct dtest *t, const void *data, DAT_COUNT size)
{
	if (!t->opt.old && data && size >= (DAT_COUNT)sizeof(t->hello))
		memcpy(&t->hello, data, sizeof(t->hello));
}

bool dtest_hello_known(const struct dtest *t)
{
	return memcmp(t->hello.magic, hello_magic, sizeof(hello_magic)) == 0;
}

struct dtest_options_text dtest_hello_text(const struct dtest_hello *hello)
{
	uint32_t flags = ntohl(hello->flags);
	struct dtest_options_text options;
	char time[16] = "";

	if (flags >> HELLO_TIME)
		(void)snprintf(time, sizeof(time), "--time %u ", flags >> HELLO_TIME);
	(void)snprintf(options.text, sizeof(options.text), "%s%s%s%s-b %u -B %u",
		       flags & HELLO_SWEEP ? "-a " : "", flags & HELLO_WRITE_ONLY ? "-w " : "",
		       flags & HELLO_WRITE_PINGS ? "-W " : "", time, ntohl(hello->size),
		       ntohl(hello->burst));
	return options;
}

/*
 * Returns 0, or -1 after one sentence with what differs. The order of steps of a peer that says
 * nothing is known.
 */
int dtest_hello_check(const struct dtest *t)
{
	const struct dtest_hello ours = dtest_hello_make(t);
	char sentence[TOOL_SENTENCE];

	if (!dtest_hello_known(t)) {
		if (t->opt.mode == MODE_CHECK)
			return 0;
		(void)snprintf(sentence, sizeof(sentence), "the %s is an older dtest without %s",
			       t->server ? "client" : "server",
			       t->opt.one_size		   ? "--time"
			       : t->opt.mode == MODE_SWEEP ? "-a"
							   : "-w");
		dtest_explain(sentence);
		return -1;
	}
	if (memcmp(&ours, &t->hello, sizeof(ours)) == 0)
		return 0;
	(void)snprintf(sentence, sizeof(sentence), "the %s was started with %s, this %s with %s",
		       t->server ? "client" : "server", dtest_hello_text(&t->hello).text,
		       t->server ? "server" : "client", dtest_hello_text(&ours).text);
	dtest_explain(sentence);
	return -1;
}
