/* SPDX-License-Identifier: BSD-2-Clause */
/* Columns for people, JSON for programs. */
#include "datinfo.h"

#include <inttypes.h>
#include <string.h>

/* ---- attributes by name ---- */

struct attribute {
	const char *name;
	uint64_t value;
};

#define IA_ATTRIBUTES(probe, at)                                                                   \
	const struct attribute at[] = {                                                            \
		{ "max_eps", (uint64_t)(probe)->ia.max_eps },                                      \
		{ "max_dto_per_ep", (uint64_t)(probe)->ia.max_dto_per_ep },                        \
		{ "max_rdma_read_per_ep_in", (uint64_t)(probe)->ia.max_rdma_read_per_ep_in },      \
		{ "max_rdma_read_per_ep_out", (uint64_t)(probe)->ia.max_rdma_read_per_ep_out },    \
		{ "max_evds", (uint64_t)(probe)->ia.max_evds },                                    \
		{ "max_evd_qlen", (uint64_t)(probe)->ia.max_evd_qlen },                            \
		{ "max_iov_segments_per_dto", (uint64_t)(probe)->ia.max_iov_segments_per_dto },    \
		{ "max_lmrs", (uint64_t)(probe)->ia.max_lmrs },                                    \
		{ "max_lmr_block_size", (probe)->ia.max_lmr_block_size },                          \
		{ "max_pzs", (uint64_t)(probe)->ia.max_pzs },                                      \
		{ "max_message_size", (probe)->ia.max_message_size },                              \
		{ "max_rdma_size", (probe)->ia.max_rdma_size },                                    \
		{ "max_rmrs", (uint64_t)(probe)->ia.max_rmrs },                                    \
		{ "max_srqs", (uint64_t)(probe)->ia.max_srqs },                                    \
		{ "max_private_data_size", (uint64_t)(probe)->provider.max_private_data_size },    \
	}

/* ---- JSON ---- */

static void json_string(const char *name, const char *text, bool more)
{
	printf("\"%s\": \"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			printf("\\u%04x", *text);
		else
			putchar(*text);
	}
	printf(more ? "\", " : "\"");
}

static void json_attributes(const struct probe *probe)
{
	IA_ATTRIBUTES(probe, at);

	printf(", \"attributes\": {");
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", at[i].name, at[i].value);
	printf("}");
}

static void json_name(const struct conf_name *name, const struct probe *probe, const char *state,
		      const char *why)
{
	printf("    {\"line\": %u, ", name->line);
	if (name->refused) {
		json_string("state", state, true);
		json_string("reason", why, false);
		printf("}");
		return;
	}
	json_string("name", name->name, true);
	printf("\"api\": \"u%u.%u\", \"thread_safe\": %s, ", name->major, name->minor,
	       name->thread_safe ? "true" : "false");
	json_string("library", probe && *probe->library ? probe->library : name->library, true);
	json_string("params", name->params, true);
	json_string("state", state, *why || (probe && probe->stage == PROBE_OPENED));
	if (*why)
		json_string("reason", why, false);
	if (probe && probe->stage == PROBE_OPENED) {
		json_string("address", probe->address, true);
		json_string("vendor", probe->ia.vendor_name, true);
		json_string("provider", probe->provider.provider_name, false);
		json_attributes(probe);
	}
	printf("}");
}

/* ---- columns ---- */

static void details_print(const struct host *host, const struct conf_name *name,
			  const struct probe *probe)
{
	IA_ATTRIBUTES(probe, at);

	printf("      library   %s\n      provider  %s, %s\n", probe->library,
	       probe->provider.provider_name, probe->ia.vendor_name);
	for (size_t i = 0; i < host->port_count; i++) {
		const struct host_port *port = &host->ports[i];
		const struct host_interface *interface = host_interface_find(host, port->interface);

		if (interface && !strcmp(interface->address, probe->address))
			printf("      device    %s port %u, %s, %s, %s, %s, firmware %s\n",
			       port->device, port->port, port->interface, port->layer, port->state,
			       port->rate, port->firmware);
	}
	(void)name;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		printf("      %-28s %" PRIu64 "\n", at[i].name, at[i].value);
}

static void columns_name(const struct report *report, const struct conf_name *name,
			 const struct probe *probe, const char *state, const char *why)
{
	if (name->refused) {
		printf("%5u %-24s %-8s %s\n", name->line, "-", state, why);
		return;
	}
	printf("%5u %-24s %-8s ", name->line, name->name, state);
	if (probe && probe->stage == PROBE_OPENED)
		printf("%s, %s\n", probe->address, probe->ia.vendor_name);
	else
		printf("%s\n", why);
	if (report->details && probe && probe->stage == PROBE_OPENED)
		details_print(report->host, name, probe);
}

/* ---- both ---- */

void report_begin(struct report *report)
{
	if (report->json) {
		printf("{");
		json_string("file", report->file->path, true);
		printf("\"version\": \"" PACKAGE_VERSION "\", \"names\": [\n");
	} else {
		printf("%s\n%5s %-24s %-8s %s\n", report->file->path, "line", "name", "state", "");
	}
}

void report_name(struct report *report, const struct conf_name *name, const struct probe *probe)
{
	char why[TEXT] = "";
	const char *state = "unusable";

	if (name->refused) {
		state = "bad line";
		snprintf(why, sizeof(why), "%s", name->refused);
	} else if (!probe) {
		state = "other";
		snprintf(why, sizeof(why), "for DAT %u.%u (libdat%s)", name->major, name->minor,
			 name->major > 1 ? "2" : "");
	} else if (probe->stage == PROBE_OPENED) {
		state = "opens";
	} else {
		cause_write(report->host, name, probe, why);
	}
	if (report->json && report->printed)
		printf(",\n");
	report->printed++;
	if (report->json)
		json_name(name, probe, state, why);
	else
		columns_name(report, name, probe, state, why);
	fflush(stdout);
}

void report_end(struct report *report)
{
	if (report->json)
		printf("\n]}\n");
}
