/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random calls, each judged by a model of DAT (model.h), over the fake transport or on the device
 * of DAT_TEST_DEV:
 *
 *	model				short lists of fixed seeds
 *	model --seed N --calls K [--threads T]
 *					K calls, in lists of 10,000; T threads, or 1 to 4 in turn
 *	model --replay FILE		the calls of a file, as a failure prints them
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"

#define LIST_LENGTH  10000
#define SHORT_LENGTH 10000

static bool script_passes(struct script *script)
{
	size_t n = script->n;

	if (script_run(script, false) == n)
		return true;
	script_shrink(script);
	fprintf(stderr, "# %zu calls of %zu are enough to see it; --replay runs them:\n", script->n,
		n);
	for (size_t i = 0; i < script->n; i++)
		call_print(stderr, &script->calls[i]);
	script_run(script, false);
	return false;
}

static bool list_passes(uint64_t seed, size_t n, unsigned threads)
{
	struct script script = { .calls = calloc(n, sizeof(*script.calls)), .n = n };
	bool passes;

	if (!script.calls)
		abort();
	calls_generate(script.calls, n, seed, threads);
	passes = script_passes(&script);
	free(script.calls);
	return passes;
}

static int run_lists(uint64_t seed, unsigned long calls, unsigned threads)
{
	for (unsigned long done = 0; done < calls; seed++) {
		size_t n = calls - done < LIST_LENGTH ? calls - done : LIST_LENGTH;
		unsigned these = threads ? threads : 1 + (unsigned)(seed % MAX_THREADS);

		if (!list_passes(seed, n, these)) {
			printf("seed %llu fails, with %u threads; %lu calls before it passed\n",
			       (unsigned long long)seed, these, done);
			return 1;
		}
		done += n;
		if (done / 1000000 != (done - n) / 1000000)
			printf("%lu calls, up to seed %llu\n", done, (unsigned long long)seed);
	}
	sights_print(stdout);
	printf("%lu calls passed, the last of seed %llu\n", calls, (unsigned long long)seed - 1);
	return 0;
}

static int replay(const char *path)
{
	struct script script = { .calls = NULL };
	FILE *from = fopen(path, "r");
	char line[256];

	if (!from) {
		perror(path);
		return 2;
	}
	while (fgets(line, sizeof(line), from)) {
		script.calls = realloc(script.calls, (script.n + 1) * sizeof(*script.calls));
		if (!script.calls)
			abort();
		if (call_parse(line, &script.calls[script.n]))
			script.n++;
		else if (line[0] != '#' && line[0] != '\n')
			fprintf(stderr, "%s: not a call: %s", path, line);
	}
	fclose(from);
	printf("%zu calls\n", script.n);
	if (script_run(&script, false) == script.n) {
		printf("all passed\n");
		return 0;
	}
	return 1;
}

/* Prints TAP. */
static int run_short(void)
{
	static const unsigned threads[] = { 1, 2, 4, 3 };
	int failed = 0;

	printf("1..%zu\n", COUNT(threads));
	for (unsigned i = 0; i < COUNT(threads); i++) {
		bool passes = list_passes(i + 1, SHORT_LENGTH, threads[i]);

		printf("%s %u - the model judges %d calls of %u threads, seed %u\n",
		       passes ? "ok" : "not ok", i + 1, SHORT_LENGTH, threads[i], i + 1);
		failed |= !passes;
	}
	return failed;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "calls", required_argument, NULL, 'c' },
		{ "threads", required_argument, NULL, 't' },
		{ "replay", required_argument, NULL, 'r' },
		{ 0 },
	};
	unsigned long calls = 0;
	unsigned threads = 0;
	uint64_t seed = 1;

	calls_init();
	setenv("DAT_DBG_TYPE", "0", 0); /* mistakes are made on purpose */
	setenv("DAPL_DBG_TYPE", "0", 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!getenv("DAT_TEST_DEV"))
		device_choose_fake(FAKE_FOLDER "/libfakedat" OF_EDITION("", "2") ".so", true);
	else if (!device_choose())
		return 77;
	device_preload();
	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (option) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			calls = strtoul(optarg, NULL, 0);
			break;
		case 't':
			threads = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'r':
			return replay(optarg);
		default:
			return 2;
		}
	if (optind < argc || threads > MAX_THREADS)
		return 2;
	return calls ? run_lists(seed, calls, threads) : run_short();
}
