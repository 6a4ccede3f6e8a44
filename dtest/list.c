/* SPDX-License-Identifier: BSD-2-Clause */
/* dtest --list: each name of dat.conf, and whether it can be opened on this host. */
#include "dtest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ASYNC_QUEUE = 8,
};

/* Tries to open a name, and writes what became of it. Returns whether it can be opened. */
static bool dtest_try_name(char *name, char *text)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_ATTR attr = { .ia_address_ptr = NULL };
	DAT_IA_HANDLE ia;
	DAT_RETURN ret = dat_ia_open(name, ASYNC_QUEUE, &async, &ia);

	if (ret != DAT_SUCCESS) {
		if (!tool_open_sentence(ret, name, text))
			(void)tool_return_text(ret, text, TOOL_SENTENCE);
		return false;
	}
	(void)snprintf(text, TOOL_SENTENCE, "opens");
	if (dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL) == DAT_SUCCESS) {
		char address[128] = "no address";

		if (attr.ia_address_ptr)
			(void)tool_address_text(attr.ia_address_ptr, address, sizeof(address));
		(void)snprintf(text, TOOL_SENTENCE, "opens: %.255s, %s", attr.adapter_name,
			       address);
	}
	(void)dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
	return true;
}

/*
 * Says why programs do not open this line, or returns NULL. Of several lines with one name they
 * open that of the smallest minor version.
 */
static const char *dtest_line_sentence(const DAT_PROVIDER_INFO *infos, DAT_COUNT count,
				       const DAT_PROVIDER_INFO *info, char *text)
{
	if (!tool_line_is_of_edition(info))
		return tool_sentence(text, "not for programs of DAT " TOOL_DAT);
	if (tool_line_sentence(info, text))
		return text;
	for (DAT_COUNT i = 0; i < count; i++)
		if (strcmp(infos[i].ia_name, info->ia_name) == 0 &&
		    infos[i].dapl_version_minor < info->dapl_version_minor &&
		    !tool_line_sentence(&infos[i], text))
			return tool_sentence(text, "programs of DAT " TOOL_DAT " open u%u.%u",
					     infos[i].dapl_version_major,
					     infos[i].dapl_version_minor);
	return NULL;
}

static bool dtest_list_name(DAT_PROVIDER_INFO *infos, DAT_COUNT count, DAT_PROVIDER_INFO *info)
{
	char text[TOOL_SENTENCE];
	bool opens = !dtest_line_sentence(infos, count, info, text) &&
		     dtest_try_name(info->ia_name, text);

	dtest_print("%s u%u.%u %s: %s", info->ia_name, info->dapl_version_major,
		    info->dapl_version_minor, info->is_thread_safe ? "threadsafe" : "nonthreadsafe",
		    text);
	return opens;
}

/* The number is asked for first, because dat.conf may have any number of names. */
static DAT_PROVIDER_INFO *dtest_read_names(DAT_COUNT *count)
{
	DAT_PROVIDER_INFO *infos, **slots;

	*count = 0;
	(void)dat_registry_list_providers(0, count, NULL);
	infos = calloc(*count > 0 ? (size_t)*count : 1, sizeof(*infos));
	slots = calloc(*count > 0 ? (size_t)*count : 1, sizeof(DAT_PROVIDER_INFO *));
	if (!infos || !slots)
		goto free_both;
	for (DAT_COUNT i = 0; i < *count; i++)
		slots[i] = &infos[i];
	if (*count && CALL(dat_registry_list_providers, *count, count, slots) < 0)
		goto free_both;
	free(slots);
	return infos;
free_both:
	free(slots);
	free(infos);
	return NULL;
}

/* Prints a line for each name. Returns 0 if at least one can be opened, else -1. */
int dtest_list_names(void)
{
	DAT_COUNT count;
	DAT_PROVIDER_INFO *infos = dtest_read_names(&count);
	int result = -1;

	if (!infos)
		return -1;
	for (DAT_COUNT i = 0; i < count; i++)
		if (dtest_list_name(infos, count, &infos[i]))
			result = 0;
	if (!count)
		dtest_explain("dat.conf has no line that can be used");
	else if (result < 0)
		dtest_explain("no name of dat.conf can be opened on this host");
	free(infos);
	return result;
}
