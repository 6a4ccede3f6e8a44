/* SPDX-License-Identifier: BSD-2-Clause */
/* Provider libraries that lines of dat.conf name: ours, and those of others that are known. */
#include "datinfo.h"

#include <string.h>

#include "../udapl/host/params.h"

static const struct known_provider {
	const char *stem; /* of the file's name */
	enum provider_kind kind;
	const struct edition *edition;
	bool replaced; /* libdaplcma takes its parameters */
} known_providers[] = {
	{ "libdaplcma", PROVIDER_CMA, &edition_dat1, false },
	{ "libdaplofi", PROVIDER_OFI, &edition_dat1, false },
	{ "libdaplscm", PROVIDER_OTHER_RDMA, &edition_dat1, true },
	{ "libdaplucm", PROVIDER_OTHER_RDMA, &edition_dat1, true },
	{ "libdaplcma2", PROVIDER_CMA, &edition_dat2, false },
	{ "libdaplofi2", PROVIDER_OFI, &edition_dat2, false },
	{ "libdaplofa", PROVIDER_OTHER_RDMA, &edition_dat2, true },
	{ "libdaploscm", PROVIDER_OTHER_RDMA, &edition_dat2, true },
	{ "libdaploucm", PROVIDER_OTHER_RDMA, &edition_dat2, true },
	{ "libdaplomcm", PROVIDER_OTHER_RDMA, &edition_dat2, false },
};

static const struct known_provider *known_provider_find(const char *library)
{
	const char *slash = strrchr(library, '/'), *file = slash ? slash + 1 : library;
	const char *end = strstr(file, ".so");

	for (size_t i = 0; end && i < sizeof(known_providers) / sizeof(known_providers[0]); i++)
		if (strlen(known_providers[i].stem) == (size_t)(end - file) &&
		    !strncmp(file, known_providers[i].stem, (size_t)(end - file)))
			return &known_providers[i];
	return NULL;
}

enum provider_kind provider_kind_of(const char *library)
{
	const struct known_provider *known = known_provider_find(library);

	return known ? known->kind : PROVIDER_UNKNOWN;
}

const struct edition *provider_misplaced(const struct conf_name *name, char *text, size_t size)
{
	const struct known_provider *known = known_provider_find(name->library);
	const struct edition *own = known ? known->edition : NULL;

	if (!own || own == name->edition)
		return NULL;
	snprintf(text, size, "%s is a provider of DAT %u.%u, and the line is for %u.%u",
		 name->library, own->major, own->minor, name->major, name->minor);
	return own;
}

bool provider_is_replaced(const char *library)
{
	const struct known_provider *known = known_provider_find(library);

	return known && known->replaced;
}

const char *provider_params_refused(const char *library, const char *text)
{
	struct params params;

	switch (provider_kind_of(library)) {
	case PROVIDER_CMA:
		return params_parse(PARAMS_OF_VERBS, text, &params);
	case PROVIDER_OFI:
		return params_parse(PARAMS_OF_OFI, text, &params);
	default:
		return NULL;
	}
}
