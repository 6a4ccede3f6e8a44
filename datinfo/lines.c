/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of dat.conf, as libdat parses them. */
#include "datinfo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../dat/conf.h"

#define SYSTEM_CONF "/etc/dat.conf"

const char *conf_file_find(void)
{
	static const char *const places[] = { DAT_CONF_DIR "/dat.conf", SYSTEM_CONF };
	const char *override = getenv("DAT_OVERRIDE");

	if (override)
		return override;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (access(places[i], R_OK) == 0)
			return places[i];
	return places[0];
}

static struct conf_name *conf_file_add(struct conf_file *file, unsigned line)
{
	struct conf_name *more = realloc(file->names, (file->count + 1) * sizeof(*more));

	if (!more) {
		perror("datinfo");
		exit(1);
	}
	file->names = more;
	more += file->count++;
	memset(more, 0, sizeof(*more));
	more->line = line;
	return more;
}

static char *copy(const char *text)
{
	char *copied = strdup(text);

	if (!copied) {
		perror("datinfo");
		exit(1);
	}
	return copied;
}

static const struct edition *edition_find(unsigned major)
{
	static const struct edition *const editions[] = { &edition_dat1, &edition_dat2 };

	for (size_t i = 0; i < sizeof(editions) / sizeof(editions[0]); i++)
		if (editions[i]->major == major)
			return editions[i];
	return NULL;
}

static void add_entry(void *arg, unsigned line, const struct conf_entry *entry)
{
	struct conf_name *name = conf_file_add(arg, line);

	name->name = copy(entry->info.ia_name);
	name->library = copy(entry->library);
	name->params = copy(entry->ia_params);
	name->major = entry->info.dapl_version_major;
	name->minor = entry->info.dapl_version_minor;
	name->edition = edition_find(name->major);
	name->doubtful_field = entry->doubtful_field;
	name->thread_safe = entry->info.is_thread_safe;
}

static void add_refused(void *arg, unsigned line, const char *reason)
{
	conf_file_add(arg, line)->refused = reason;
}

static void add_kernel(void *arg, unsigned line)
{
	conf_file_add(arg, line)->ignored =
		"k is for consumers of the kernel, and no program opens it: write u";
}

int conf_file_read(const char *path, struct conf_file *file)
{
	const struct conf_sink sink = { add_entry, add_refused, file, add_kernel };
	char *text;
	size_t length;
	int err = conf_text_read(path, &text, &length);

	*file = (struct conf_file){ .path = path };
	if (err)
		return err;
	text[length] = '\0';
	file->text = copy(text);
	conf_parse(text, length, &sink);
	free(text);
	return 0;
}

const char *conf_line_find(const char *text, unsigned line)
{
	while (--line && strchr(text, '\n'))
		text = strchr(text, '\n') + 1;
	return text;
}

const char *conf_printable(const char *text, char *clean, size_t size)
{
	snprintf(clean, size, "%s", text);
	conf_text_clean(clean);
	return clean;
}

void conf_file_free(struct conf_file *file)
{
	for (size_t i = 0; i < file->count; i++) {
		free(file->names[i].name);
		free(file->names[i].library);
		free(file->names[i].params);
	}
	free(file->names);
	free(file->text);
}
