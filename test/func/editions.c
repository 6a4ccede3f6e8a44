/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that has both editions of DAT: registries and providers of both, each with IAs that are
 * open and move data, loaded by dlopen in either order and scope.
 */
#define _GNU_SOURCE
#include <check.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/run.h"
#include "editions.h"

static const struct loaded {
	const char *registry, *module;
} libraries[] = {
	{ LIBDAT_FOLDER "/libdat.so.1", "edition1.so" },
	{ LIBDAT_FOLDER "/libdat2.so.2", "edition2.so" },
};

static const struct edition *editions[2]; /* DAT 1.2, DAT 2.0 */

/* ---- libraries and names ---- */

static void failed(const char *what, uint32_t result)
{
	ck_abort_msg("%s: %#x", what, result);
}

static void *load_library(const char *path, int scope)
{
	void *library = dlopen(path, RTLD_NOW | scope);

	ck_assert_msg(library != NULL, "%s", dlerror());
	return library;
}

/* The module's calls are bound to the registry that is loaded here. */
static void load_edition(unsigned i, int scope)
{
	char path[512];

	load_library(libraries[i].registry, scope);
	snprintf(path, sizeof(path), "%s/test/func/.libs/%s", getenv("top_builddir"),
		 libraries[i].module);
	editions[i] = dlsym(load_library(path, RTLD_LOCAL), "edition");
	ck_assert_ptr_nonnull(editions[i]);
	ck_assert_int_eq(editions[i]->number, (int)i + 1);
}

static void conf_line(FILE *conf, const char *name, const char *version, const char *library,
		      const char *params)
{
	fprintf(conf, "%s u%s nonthreadsafe default %s/udapl/.libs/%s.so dapl.%s \"%s\" \"\"\n",
		name, version, getenv("top_builddir"), library, version, params);
}

/* "end0" and "end1" have a line for each edition. */
static void use_conf(void)
{
	const char *kind = getenv("DAT_TEST_DEV");
	const bool tcp = !strcmp(kind, "tcp"), fabric = tcp || !strncmp(kind, "ofi-", 4);
	const char *library = fabric ? "libdaplofi" : "libdaplcma";
	const int fd = memfd_create("dat.conf", 0);
	FILE *conf = fdopen(dup(fd), "w");
	char path[64], name[16], library2[32], params[128];

	ck_assert_ptr_nonnull(conf);
	snprintf(library2, sizeof(library2), "%s2", library);
	for (int end = 0; end < 2; end++) {
		const char *interface = getenv(end ? "DAT_TEST_IF1" : "DAT_TEST_IF0");

		snprintf(name, sizeof(name), "end%d", end);
		snprintf(params, sizeof(params), "%s%s%s",
			 tcp	  ? "tcp "
			 : fabric ? "verbs "
				  : "",
			 interface, fabric ? "" : " 0");
		conf_line(conf, name, "1.2", library, params);
		conf_line(conf, name, "2.0", library2, params);
	}
	fclose(conf);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	setenv("DAT_OVERRIDE", path, 1);
}

/* Which registry is loaded first, and the scope of each. */
static const struct {
	unsigned first;
	int scope, second_scope;
} arrangements[] = {
	{ 0, RTLD_LOCAL, RTLD_LOCAL },	 { 1, RTLD_LOCAL, RTLD_LOCAL },
	{ 0, RTLD_GLOBAL, RTLD_LOCAL },	 { 1, RTLD_GLOBAL, RTLD_LOCAL },
	{ 0, RTLD_LOCAL, RTLD_GLOBAL },	 { 1, RTLD_LOCAL, RTLD_GLOBAL },
	{ 0, RTLD_GLOBAL, RTLD_GLOBAL }, { 1, RTLD_GLOBAL, RTLD_GLOBAL },
};

static void arrange(int i)
{
	use_conf();
	load_edition(arrangements[i].first, arrangements[i].scope);
	load_edition(!arrangements[i].first, arrangements[i].second_scope);
}

/* ---- connections ---- */

/* The ends are of any editions. */
struct link {
	const struct edition *from, *to;
	struct end *client, *server;
	uint64_t qual;
};

static struct link link_open(unsigned from, unsigned to)
{
	struct link link = { .from = editions[from], .to = editions[to] };

	link.client = link.from->open("end0", failed);
	link.server = link.to->open("end1", failed);
	link.qual = link.to->listen(link.server);
	return link;
}

static void link_ask(const struct link *link, const char *text)
{
	link->from->ask(link->client, link->to->address(link->server), link->qual, text);
}

static void link_connect(const struct link *link, const char *text)
{
	link_ask(link, text);
	link->to->accept(link->server, text);
	link->from->established(link->client);
	link->to->established(link->server);
}

static void link_close(const struct link *link)
{
	link->from->close(link->client);
	link->to->close(link->server);
}

#define MESSAGE 20000u /* bytes */

static void fill(unsigned char *bytes, unsigned seed)
{
	for (unsigned i = 0; i < END_MEMORY; i++)
		bytes[i] = (unsigned char)(i * 7 + (i >> 8) * 13 + seed);
}

/* One message each way is begun on all links before the first completion is waited for. */
static void exchange(const struct link *links, unsigned n, unsigned seed)
{
	for (unsigned i = 0; i < n; i++) {
		fill(links[i].from->memory(links[i].client), seed + i);
		fill(links[i].to->memory(links[i].server), seed + i + 100);
		links[i].from->post_recv(links[i].client, seed + i);
		links[i].to->post_recv(links[i].server, seed + i);
	}
	for (unsigned i = 0; i < n; i++) {
		links[i].from->post_send(links[i].client, seed + i, MESSAGE);
		links[i].to->post_send(links[i].server, seed + i, MESSAGE);
	}
	for (unsigned i = 0; i < n; i++) {
		const unsigned char *client = links[i].from->memory(links[i].client);
		const unsigned char *server = links[i].to->memory(links[i].server);

		links[i].to->received(links[i].server, seed + i, MESSAGE);
		links[i].from->received(links[i].client, seed + i, MESSAGE);
		links[i].from->sent(links[i].client, seed + i, MESSAGE);
		links[i].to->sent(links[i].server, seed + i, MESSAGE);
		ck_assert_mem_eq(server + END_MEMORY / 2, client, MESSAGE);
		ck_assert_mem_eq(client + END_MEMORY / 2, server, MESSAGE);
	}
}

/* ---- cases ---- */

START_TEST(both_editions_move_data_at_once)
{
	struct link links[2];

	arrange(_i);
	for (unsigned i = 0; i < 2; i++) {
		links[i] = link_open(i, i);
		link_connect(&links[i], i ? "DAT 2.0" : "DAT 1.2");
	}
	for (unsigned round = 0; round < 10; round++)
		exchange(links, 2, 3 * round);
	link_close(&links[_i % 2]);
	exchange(&links[!(_i % 2)], 1, 50); /* the end of the one is not that of the other */
	link_close(&links[!(_i % 2)]);
}
END_TEST

/* The iteration says of which edition the client is, and the server. */
START_TEST(ends_of_different_editions_connect)
{
	struct link link;

	arrange(0);
	link = link_open(_i & 1, !(_i & 1));
	link_connect(&link, "across the editions");
	exchange(&link, 1, 7);
	link.from->disconnect(link.client);
	link.from->disconnected(link.client);
	link.to->disconnected(link.server);
	link_close(&link);
}
END_TEST

/* DAT 1.2 neither sends data with a reject, nor hands them to its consumer. */
START_TEST(a_reject_of_either_edition_is_that_of_the_consumer)
{
	static const unsigned sizes[] = { 0, 1, 56 };
	unsigned char got[256];
	struct link link;
	unsigned size, n;

	arrange(0);
	link = link_open(_i & 1, _i >> 1);
	fill(link.to->memory(link.server), 9);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		link_ask(&link, "may I?");
		link.to->reject(link.server, sizes[i]);
		n = link.from->rejected(link.client, got);
		size = _i == 3 ? sizes[i] : 0;
		if (!(_i & 1))
			ck_assert_uint_eq(n, 0);
		ck_assert_uint_ge(n, size);
		ck_assert_mem_eq(got, link.to->memory(link.server), size);
		for (; size < n; size++) /* some networks fill up what they carry */
			ck_assert_uint_eq(got[size], 0);
	}
	link_connect(&link, "and now?");
	exchange(&link, 1, 11);
	link_close(&link);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("editions");

	if (!getenv("DAT_TEST_DEV") || !getenv("top_builddir"))
		skip_all_cases("no RDMA device here: make check-vm runs this where there is one");
	tcase_add_loop_test(cases, both_editions_move_data_at_once, 0, 8);
	tcase_add_loop_test(cases, ends_of_different_editions_connect, 0, 2);
	tcase_add_loop_test(cases, a_reject_of_either_edition_is_that_of_the_consumer, 0, 4);
	return run_cases(argc, argv);
}
