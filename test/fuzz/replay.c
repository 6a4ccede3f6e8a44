/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a fuzz target without libFuzzer, on every file of its corpus, and on every prefix of each;
 * prints TAP. The corpus of fuzz_x is the folder corpus/x; files that are named as arguments are
 * taken instead.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

/* Returns 0, or -1 with a message on stderr. */
static int read_whole(const char *path, uint8_t **data, size_t *size)
{
	FILE *file = fopen(path, "re"), *memory = open_memstream((char **)data, size);
	int c;

	if (!file || !memory) {
		perror(path);
		return -1;
	}
	while ((c = getc(file)) != EOF)
		putc(c, memory);
	fclose(file);
	return fclose(memory);
}

/* Returns 0, or -1 if the file can't be read. */
static int try_file(const char *path)
{
	uint8_t *data = NULL;
	size_t size;
	int err = read_whole(path, &data, &size);

	/* what ends early reaches the checks for the end in all states */
	for (size_t n = 0; !err && n <= size; n++)
		LLVMFuzzerTestOneInput(data, n);
	free(data);
	return err;
}

/* Returns true if the target holds on the file. */
static bool report_file(int number, const char *path)
{
	int err = try_file(path);

	printf("%s %d - %s\n", err ? "not ok" : "ok", number, basename(path));
	fflush(stdout);
	return !err;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int run_corpus(const char *folder)
{
	struct dirent **files;
	int count = scandir(folder, &files, is_visible, alphasort);
	bool good = true;

	if (count <= 0) {
		printf("Bail out! no corpus in %s\n", folder);
		return 1;
	}
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		char *path;

		if (asprintf(&path, "%s/%s", folder, files[i]->d_name) < 0)
			return 1;
		good &= report_file(i + 1, path);
		free(path);
		free(files[i]);
	}
	free(files);
	return !good;
}

int main(int argc, char **argv)
{
	const char *name = strchr(program_invocation_short_name, '_');
	char folder[sizeof(CORPUS) + 64];
	bool good = true;

	alarm(300); /* what hangs has failed */
	if (argc == 1 && name) {
		snprintf(folder, sizeof(folder), "%s/%s", CORPUS, name + 1);
		return run_corpus(folder);
	}
	printf("1..%d\n", argc - 1);
	for (int i = 1; i < argc; i++)
		good &= report_file(i, argv[i]);
	return !good;
}
