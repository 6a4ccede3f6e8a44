/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a fuzz target on every file of the corpus, and on every prefix of each; prints TAP. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

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

static int try_file(const char *name)
{
	uint8_t *data = NULL;
	char *path = NULL;
	size_t size;
	int err;

	if (asprintf(&path, "%s/%s", CORPUS, name) < 0)
		return -1;
	err = read_whole(path, &data, &size);
	/* a text that ends early reaches the parser's checks for the end in all states */
	for (size_t n = 0; !err && n <= size; n++)
		LLVMFuzzerTestOneInput(data, n);
	free(data);
	free(path);
	return err;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int main(void)
{
	struct dirent **files;
	int count = scandir(CORPUS, &files, is_visible, alphasort), failed = 0;

	if (count <= 0) {
		printf("Bail out! no corpus in %s\n", CORPUS);
		return 1;
	}
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		int err = try_file(files[i]->d_name);

		failed |= err;
		printf("%s %d - %s\n", err ? "not ok" : "ok", i + 1, files[i]->d_name);
		fflush(stdout);
		free(files[i]);
	}
	free(files);
	return failed != 0;
}
