/* SPDX-License-Identifier: BSD-2-Clause */
/* One plain sentence for each failure that is common where programs of DAT are run. */
#include "tools.h"

#include <inttypes.h>
#include <string.h>

enum {
	NAMES_MAX = 64, /* of dat.conf, that are looked at */
};

/* ---- dat_ia_open ---- */

struct name_list {
	DAT_PROVIDER_INFO infos[NAMES_MAX];
	DAT_COUNT count;
};

static void name_list_read(struct name_list *list)
{
	DAT_PROVIDER_INFO *slots[NAMES_MAX];

	for (unsigned i = 0; i < NAMES_MAX; i++)
		slots[i] = &list->infos[i];
	if (dat_registry_list_providers(NAMES_MAX, &list->count, slots) != DAT_SUCCESS)
		list->count = 0;
	if (list->count > NAMES_MAX)
		list->count = NAMES_MAX;
}

bool tool_line_is_of_edition(const DAT_PROVIDER_INFO *info)
{
	const DAT_UINT32 minor = DAT_VERSION_MINOR; /* gcc warns of a comparison with 0 itself */

	return info->dapl_version_major == DAT_VERSION_MAJOR && info->dapl_version_minor >= minor;
}

const char *tool_line_sentence(const DAT_PROVIDER_INFO *info, char *text)
{
	if (!tool_line_is_of_edition(info))
		return tool_sentence(
			text, "the line of %s in dat.conf is for DAT %u.%u, not for " TOOL_DAT,
			info->ia_name, info->dapl_version_major, info->dapl_version_minor);
	if (info->is_thread_safe)
		return tool_sentence(text,
				     "the line of %s in dat.conf says threadsafe, but programs "
				     "of DAT " TOOL_DAT " ask for nonthreadsafe",
				     info->ia_name);
	return NULL;
}

/* Returns the line with this name, preferably of this edition. */
static const DAT_PROVIDER_INFO *name_list_find(const struct name_list *list, const char *name)
{
	const DAT_PROVIDER_INFO *found = NULL;

	for (DAT_COUNT i = 0; i < list->count; i++)
		if (strcmp(list->infos[i].ia_name, name) == 0 &&
		    (!found || tool_line_is_of_edition(&list->infos[i])))
			found = &list->infos[i];
	return found;
}

static const char *name_sentence(const char *name, char *text)
{
	const DAT_PROVIDER_INFO *info;
	struct name_list list;

	name_list_read(&list);
	info = name_list_find(&list, name);
	if (!list.count)
		return tool_sentence(text, "dat.conf is not there, or has no line that can be "
					   "used; datinfo --generate prints one for this host");
	if (!info)
		return tool_sentence(text, "dat.conf has no line for %s", name);
	if (tool_line_sentence(info, text))
		return text;
	return tool_sentence(text,
			     "the library that dat.conf has for %s can't be loaded, or is no "
			     "provider",
			     name);
}

const char *tool_open_sentence(DAT_RETURN ret, const char *name, char *text)
{
	switch (DAT_GET_TYPE(ret)) {
	case DAT_PROVIDER_NOT_FOUND:
		return name_sentence(name, text);
	case DAT_INVALID_ADDRESS:
		return tool_sentence(text,
				     "this host lacks what dat.conf has for %s; datinfo "
				     "tells what to do",
				     name);
	case DAT_INSUFFICIENT_RESOURCES:
		return tool_sentence(text,
				     "what dat.conf has for %s can't be used now; datinfo "
				     "tells what to do",
				     name);
	default:
		return NULL;
	}
}

const char *tool_listen_sentence(DAT_RETURN ret, DAT_CONN_QUAL port, char *text)
{
	switch (DAT_GET_TYPE(ret)) {
	case DAT_CONN_QUAL_IN_USE:
		return tool_sentence(text, "port %" PRIu64 " is taken by another server", port);
	case DAT_PRIVILEGES_VIOLATION:
		return tool_sentence(text, "an ordinary user may not listen at port %" PRIu64,
				     port);
	default:
		return NULL;
	}
}

const char *tool_status_sentence(DAT_DTO_COMPLETION_STATUS status, char *text)
{
	switch (status) {
	case DAT_DTO_ERR_FLUSHED:
		return tool_sentence(text, "the connection ended before this transfer");
	case DAT_DTO_ERR_TRANSPORT:
		return tool_sentence(text, "the peer did not acknowledge: it is gone, or a large "
					   "network needs a longer DAPL_ACK_TIMER");
	case DAT_DTO_ERR_RECEIVER_NOT_READY:
		return tool_sentence(text, "the peer had no receive posted in time");
	case DAT_DTO_ERR_REMOTE_ACCESS:
		return tool_sentence(text, "the peer does not allow access to this memory");
	case DAT_DTO_ERR_LOCAL_LENGTH:
		return tool_sentence(text, "the message is longer than the buffer posted for it");
	default:
		return NULL;
	}
}
