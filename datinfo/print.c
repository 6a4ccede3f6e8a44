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

/* Bytes of a character in UTF-8, 0: it is none. */
static unsigned utf8_length(const char *text)
{
	const unsigned char first = (unsigned char)*text;
	unsigned length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : 3;

	if (first >= 0xf0)
		length = first < 0xf5 ? 4 : 0;
	for (unsigned i = 1; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

static void json_string(const char *name, const char *text, bool more)
{
	printf("\"%s\": \"", name);
	while (*text) {
		const unsigned length = utf8_length(text);

		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if (!length || (unsigned char)*text < 0x20)
			printf("\\u%04x", (unsigned char)*text);
		else
			printf("%.*s", (int)length, text);
		text += length ? length : 1;
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
		      const struct cause *cause)
{
	printf("    {\"line\": %u, ", name->line);
	if (name->refused) {
		json_string("state", state, true);
		json_string("reason", cause->reason, false);
		printf("}");
		return;
	}
	json_string("name", name->name, true);
	printf("\"api\": \"u%u.%u\", \"thread_safe\": %s, ", name->major, name->minor,
	       name->thread_safe ? "true" : "false");
	json_string("library", probe && *probe->library ? probe->library : name->library, true);
	json_string("params", name->params, true);
	json_string("state", state, true);
	if (*cause->reason)
		json_string("reason", cause->reason, *cause->remedy);
	if (*cause->remedy)
		json_string("remedy", cause->remedy, false);
	if (probe && probe->stage == PROBE_OPENED) {
		json_string("address", probe->address, true);
		json_string("vendor", probe->ia.vendor_name, true);
		json_string("provider", probe->provider.provider_name, false);
		json_attributes(probe);
	}
	printf("}");
}

/* ---- columns ---- */

static void details_print(const struct host *host, const struct probe *probe)
{
	const struct host_interface *own = host_interface_of_address(host, probe->address);
	IA_ATTRIBUTES(probe, at);

	if (own)
		printf("      interface %s, %s%s%s\n", own->name, own->up ? "up" : "down",
		       *own->speed ? ", Mb/s: " : "", own->speed);
	printf("      library   %s\n      provider  %s, %s\n", probe->library,
	       probe->provider.provider_name, probe->ia.vendor_name);
	for (size_t i = 0; i < host->port_count; i++) {
		const struct host_port *port = &host->ports[i];

		if (own && !strcmp(own->name, port->interface))
			printf("      device    %s port %u, %s, %s, %s, %s, firmware %s\n",
			       port->device, port->port, port->interface, port->layer, port->state,
			       port->rate, port->firmware);
	}
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		printf("      %-28s %" PRIu64 "\n", at[i].name, at[i].value);
}

static void columns_name(const struct report *report, const struct conf_name *name,
			 const struct probe *probe, const char *state, const struct cause *cause)
{
	printf("%5u %-*s %-8s ", name->line, report->width, name->refused ? "-" : name->name,
	       state);
	if (probe && probe->stage == PROBE_OPENED)
		printf("%s, %s\n", probe->address, probe->ia.vendor_name);
	else
		printf("%s\n", cause->reason);
	if (*cause->remedy)
		printf("%*s%s\n", 5 + 1 + report->width + 1 + 8 + 1, "", cause->remedy);
	if (report->details && probe && probe->stage == PROBE_OPENED)
		details_print(report->host, probe);
}

/* ---- both ---- */

/* Of the longest name, but not of one that is absurdly long. */
static int name_width(const struct conf_file *file)
{
	size_t width = strlen("name");

	for (size_t i = 0; i < file->count; i++) {
		size_t length = file->names[i].name ? strlen(file->names[i].name) : 0;

		if (length > width && length <= 32)
			width = length;
	}
	return (int)width;
}

void report_begin(struct report *report)
{
	if (report->json) {
		printf("{");
		json_string("file", report->file->path, true);
		printf("\"version\": \"" PACKAGE_VERSION "\", \"names\": [\n");
	} else {
		report->width = name_width(report->file);
		printf("%s\n%5s %-*s %-8s %s\n", report->file->path, "line", report->width, "name",
		       "state", "address, or cause and remedy");
	}
}

void report_name(struct report *report, const struct conf_name *name, const struct probe *probe)
{
	struct cause cause = { "", "" };
	const char *state = "unusable";

	if (name->refused) {
		state = "bad line";
		snprintf(cause.reason, sizeof(cause.reason), "%s", name->refused);
	} else if (!probe) {
		state = "other";
		snprintf(cause.reason, sizeof(cause.reason), "for DAT %u.%u (libdat%s)",
			 name->major, name->minor, name->major > 1 ? "2" : "");
	} else if (probe->stage == PROBE_OPENED) {
		state = "opens";
	} else {
		cause_find(report->host, name, probe, &cause);
	}
	if (report->json && report->printed)
		printf(",\n");
	report->printed++;
	if (report->json)
		json_name(name, probe, state, &cause);
	else
		columns_name(report, name, probe, state, &cause);
	fflush(stdout);
}

void report_end(struct report *report)
{
	if (report->json)
		printf("\n]}\n");
}
