/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening a name with the registry of one edition of DAT, as its programs do. This file is compiled
 * for each edition, and runs in a process of its own, which has the registry of no other one:
 * providers find the functions of a registry by their names alone.
 */
#include "registry.h"

#include <dlfcn.h>
#include <string.h>

#include "../dat/load.h"
#include "../tools/tools.h"

/* Writes the path of the file that has @code. */
static void file_of(const void *code, char *path, size_t size)
{
	Dl_info where;

	if (code && dladdr(code, &where))
		snprintf(path, size, "%s", where.dli_fname);
}

/* ---- what an open IA tells ---- */

#define IA(name)                                                                                   \
	{                                                                                          \
#name, (uint64_t)ia->name                                                          \
	}
#define PROVIDER(name)                                                                             \
	{                                                                                          \
#name, (uint64_t)provider->name                                                    \
	}

static void attributes_keep(const DAT_IA_ATTR *ia, const DAT_PROVIDER_ATTR *provider,
			    struct probe *probe)
{
	const struct attribute all[] = {
		IA(max_eps),
		IA(max_dto_per_ep),
		IA(max_rdma_read_per_ep_in),
		IA(max_rdma_read_per_ep_out),
		IA(max_evds),
		IA(max_evd_qlen),
		IA(max_iov_segments_per_dto),
		IA(max_lmrs),
		IA(max_lmr_block_size),
		IA(max_lmr_virtual_address),
		IA(max_pzs),
		IA(max_message_size),
		IA(max_rdma_size),
		IA(max_rmrs),
		IA(max_rmr_target_address),
		IA(max_srqs),
		IA(max_ep_per_srq),
		IA(max_recv_per_srq),
		IA(max_iov_segments_per_rdma_read),
		IA(max_iov_segments_per_rdma_write),
		IA(max_rdma_read_in),
		IA(max_rdma_read_out),
		IA(max_rdma_read_per_ep_in_guaranteed),
		IA(max_rdma_read_per_ep_out_guaranteed),
#if DAT_EDITION == 2
		IA(zb_supported),
		IA(extension_supported),
		IA(extension_version),
#endif
		PROVIDER(max_private_data_size),
	};

	_Static_assert(sizeof(all) <= sizeof(probe->attributes), "there is no room for all");
	memcpy(probe->attributes, all, sizeof(all));
	probe->attribute_count = sizeof(all) / sizeof(all[0]);
}

static void named_keep(const DAT_PROVIDER_ATTR *provider, struct probe *probe)
{
	const DAT_NAMED_ATTR *attrs = provider->provider_specific_attr;

	for (DAT_COUNT i = 0; attrs && i < provider->num_provider_specific_attr; i++) {
		struct named_attribute *kept = &probe->named[probe->named_count];

		if (probe->named_count == sizeof(probe->named) / sizeof(probe->named[0]))
			return;
		if (!attrs[i].name || !attrs[i].value)
			continue;
		snprintf(kept->name, sizeof(kept->name), "%s", attrs[i].name);
		snprintf(kept->value, sizeof(kept->value), "%s", attrs[i].value);
		probe->named_count++;
	}
}

static void answers_keep(const DAT_IA_ATTR *ia, const DAT_PROVIDER_ATTR *provider,
			 struct probe *probe)
{
	if (ia->ia_address_ptr)
		(void)tool_address_text(ia->ia_address_ptr, probe->address, sizeof(probe->address));
	snprintf(probe->vendor, sizeof(probe->vendor), "%s", ia->vendor_name);
	snprintf(probe->provider, sizeof(probe->provider), "%s", provider->provider_name);
	probe->versions = (struct versions){
		.api = { provider->dapl_version_major, provider->dapl_version_minor },
		.provider = { provider->provider_version_major, provider->provider_version_minor },
		.hardware = { ia->hardware_version_major, ia->hardware_version_minor },
		.firmware = { ia->firmware_version_major, ia->firmware_version_minor },
	};
	attributes_keep(ia, provider, probe);
	named_keep(provider, probe);
}

/* ---- the open ---- */

/* Returns false, with the stage that was not passed, if registry or provider can't be loaded. */
static bool libraries_load(const struct conf_name *name, struct registry *registry,
			   struct probe *probe)
{
	const void *in_registry;
	void *library, *init;

	probe->stage = PROBE_NO_REGISTRY;
	if (!registry_load(name->edition->registry, registry))
		return false;
	in_registry = (const void *)(uintptr_t)registry->ia_openv;
	file_of(in_registry, probe->registry, sizeof(probe->registry));
	probe->stage = PROBE_NO_LIBRARY;
	snprintf(probe->library, sizeof(probe->library), "%s", name->library);
	library = provider_load(name->library, in_registry);
	if (!library) {
		registry_loader_tell();
		return false;
	}
	probe->stage = PROBE_NO_PROVIDER;
	init = dlsym(library, DAT_PROVIDER_INIT_FUNC_STR);
	file_of(init, probe->library, sizeof(probe->library));
	return init;
}

static void opened_tell(const struct registry *registry, DAT_IA_HANDLE ia_handle,
			const struct peer_target *target, struct probe *probe)
{
	DAT_PROVIDER_ATTR provider;
	DAT_IA_ATTR ia;

	if (registry->ia_query(ia_handle, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL,
			       &provider) != DAT_SUCCESS)
		return;
	answers_keep(&ia, &provider, probe);
	if (target && ia.ia_address_ptr)
		peer_ask(registry, ia_handle, ia.ia_address_ptr, target, &probe->peer);
}

static void name_open(const struct conf_name *name, bool opens, const struct peer_target *target,
		      struct probe *probe)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	struct registry registry;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;

	if (!libraries_load(name, &registry, probe))
		return;
	probe->stage = PROBE_LOADED;
	if (!opens)
		return;
	probe->stage = PROBE_REFUSED;
	ret = registry.ia_openv(name->name, 8, &async, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
				name->thread_safe);
	if (ret != DAT_SUCCESS) {
		registry_return_text(&registry, ret, probe->ret, sizeof(probe->ret));
		return;
	}
	probe->stage = PROBE_OPENED;
	opened_tell(&registry, ia, target, probe);
	(void)registry.ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

#if DAT_EDITION == 2
const struct edition edition_dat2 = {
	.major = DAT_VERSION_MAJOR,
	.minor = DAT_VERSION_MINOR,
	.registry = "libdat2.so.2",
	.cma = "libdaplcma2.so.2",
	.ofi = "libdaplofi2.so.2",
	.open = name_open,
};
#else
const struct edition edition_dat1 = {
	.major = DAT_VERSION_MAJOR,
	.minor = DAT_VERSION_MINOR,
	.registry = "libdat.so.1",
	.cma = "libdaplcma.so.1",
	.ofi = "libdaplofi.so.1",
	.open = name_open,
};
#endif
