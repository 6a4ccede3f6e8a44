/* SPDX-License-Identifier: BSD-2-Clause */
/* Columns for people, JSON for programs. */
#include "datinfo.h"

#include <inttypes.h>
#include <string.h>

/* ---- interface and device ---- */

/* Where an IA is. What is NULL is not known. */
struct location {
	const struct host_interface *interface;
	const struct host_port *port;
};

static struct location location_of(const struct host *host, const struct probe *probe)
{
	struct location at = { host_interface_of_address(host, probe->address), NULL };

	for (size_t i = 0; at.interface && i < host->port_count && !at.port; i++)
		if (!strcmp(at.interface->name, host->ports[i].interface))
			at.port = &host->ports[i];
	return at;
}

/* ---- JSON ---- */

/* Returns the bytes of a character in UTF-8, or 0 if it is none. */
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

static void json_addresses(const struct host_interface *interface)
{
	const char *text = interface->addresses;

	printf("\"addresses\": [");
	while (*text) {
		size_t length = strcspn(text, " ");

		printf("%s\"%.*s\"", text == interface->addresses ? "" : ", ", (int)length, text);
		text += length + (text[length] != '\0');
	}
	printf("]");
}

static void json_location(const struct location *at)
{
	if (at->interface) {
		printf(", \"interface\": {");
		json_string("name", at->interface->name, true);
		json_string("state", at->interface->up ? "up" : "down", true);
		json_string("speed", at->interface->speed, true);
		json_addresses(at->interface);
		printf("}");
	}
	if (at->port) {
		printf(", \"device\": {");
		json_string("name", at->port->device, true);
		printf("\"port\": %u, ", at->port->port);
		json_string("link", at->port->layer, true);
		json_string("state", at->port->state, true);
		json_string("speed", at->port->rate, true);
		json_string("firmware", at->port->firmware, false);
		printf("}");
	}
}

static void json_version(const char *name, const struct version *version, bool more)
{
	printf("\"%s\": \"%u.%u\"%s", name, version->major, version->minor, more ? ", " : "");
}

static void json_attributes(const struct probe *probe)
{
	printf(", \"attributes\": {");
	for (size_t i = 0; i < probe->attribute_count; i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", probe->attributes[i].name,
		       probe->attributes[i].value);
	printf("}, \"named_attributes\": {");
	for (size_t i = 0; i < probe->named_count; i++)
		json_string(probe->named[i].name, probe->named[i].value,
			    i + 1 < probe->named_count);
	printf("}");
}

static void json_opened(const struct host *host, const struct probe *probe)
{
	const struct location at = location_of(host, probe);

	json_string("address", probe->address, true);
	json_string("vendor", probe->vendor, true);
	json_string("provider", probe->provider, true);
	printf("\"versions\": {");
	json_version("api", &probe->versions.api, true);
	json_version("provider", &probe->versions.provider, true);
	json_version("hardware", &probe->versions.hardware, true);
	json_version("firmware", &probe->versions.firmware, false);
	printf("}");
	json_location(&at);
	json_attributes(probe);
}

static void json_name(const struct report *report, const struct conf_name *name,
		      const struct probe *probe, const char *state, const struct cause *cause)
{
	printf("    {\"line\": %u, ", name->line);
	if (name->refused) {
		json_string("state", state, true);
		json_string("reason", cause->reason, false);
		printf("}");
		return;
	}
	json_string("name", name->name, true);
	printf("\"api\": \"u%u.%u\", ", name->major, name->minor);
	if (name->edition)
		printf("\"edition\": \"%u.%u\", ", name->edition->major, name->edition->minor);
	printf("\"thread_safe\": %s, ", name->thread_safe ? "true" : "false");
	if (probe && *probe->registry)
		json_string("registry", probe->registry, true);
	json_string("library", probe && *probe->library ? probe->library : name->library, true);
	json_string("params", name->params, true);
	json_string("state", state, true);
	if (*cause->reason)
		json_string("reason", cause->reason, *cause->remedy);
	if (*cause->remedy)
		json_string("remedy", cause->remedy, false);
	if (probe && probe->stage == PROBE_OPENED)
		json_opened(report->host, probe);
	printf("}");
}

/* ---- columns ---- */

/* Prints "192.0.2.1, eth0 up 10000 Mb/s, mlx5_0 port 1 ACTIVE, Mellanox". */
static void opened_print(const struct host *host, const struct probe *probe)
{
	const struct location at = location_of(host, probe);

	printf("%s", probe->address);
	if (at.interface)
		printf(", %s %s%s%s%s", at.interface->name, at.interface->up ? "up" : "down",
		       *at.interface->speed ? " " : "", at.interface->speed,
		       *at.interface->speed ? " Mb/s" : "");
	if (at.port)
		printf(", %s port %u %s", at.port->device, at.port->port, at.port->state);
	printf(", %s\n", probe->vendor);
}

static void details_print(const struct host *host, const struct probe *probe)
{
	const struct location at = location_of(host, probe);
	const struct versions *versions = &probe->versions;

	printf("      registry  %s\n      library   %s\n      provider  %s, %s\n", probe->registry,
	       probe->library, probe->provider, probe->vendor);
	printf("      versions  DAT %u.%u, provider %u.%u, hardware %u.%u, firmware %u.%u, "
	       "datinfo " PACKAGE_VERSION "\n",
	       versions->api.major, versions->api.minor, versions->provider.major,
	       versions->provider.minor, versions->hardware.major, versions->hardware.minor,
	       versions->firmware.major, versions->firmware.minor);
	if (at.interface)
		printf("      interface %s, %s%s%s%s\n      addresses %s\n", at.interface->name,
		       at.interface->up ? "up" : "down", *at.interface->speed ? ", " : "",
		       at.interface->speed, *at.interface->speed ? " Mb/s" : "",
		       at.interface->addresses);
	if (at.port)
		printf("      device    %s port %u, %s, %s, %s%s%s\n", at.port->device,
		       at.port->port, at.port->layer, at.port->state, at.port->rate,
		       *at.port->firmware ? ", firmware " : "", at.port->firmware);
	for (size_t i = 0; i < probe->attribute_count; i++)
		printf("      %-35s %" PRIu64 "\n", probe->attributes[i].name,
		       probe->attributes[i].value);
	for (size_t i = 0; i < probe->named_count; i++)
		printf("      %-35s %s\n", probe->named[i].name, probe->named[i].value);
}

static void columns_name(const struct report *report, const struct conf_name *name,
			 const struct probe *probe, const char *state, const struct cause *cause)
{
	printf("%5u %-*s ", name->line, report->width, name->refused ? "-" : name->name);
	if (name->refused)
		printf("-   ");
	else
		printf("%u.%u ", name->major, name->minor);
	printf("%-8s ", state);
	if (probe && probe->stage == PROBE_OPENED)
		opened_print(report->host, probe);
	else
		printf("%s\n", cause->reason);
	if (*cause->remedy)
		printf("%*s%s\n", 5 + 1 + report->width + 1 + 4 + 8 + 1, "", cause->remedy);
	if (report->details && probe && probe->stage == PROBE_OPENED)
		details_print(report->host, probe);
}

/* ---- both ---- */

/* Returns the width of the longest name, but for one that is absurdly long. */
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
		printf("%s\n%5s %-*s %-3s %-8s %s\n", report->file->path, "line", report->width,
		       "name", "DAT", "state", "address, or cause and remedy");
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
		snprintf(cause.reason, sizeof(cause.reason),
			 "for DAT %u.%u; the editions are 1.2 and 2.0", name->major, name->minor);
	} else if (probe->stage == PROBE_OPENED) {
		state = "opens";
	} else {
		cause_find(report->host, name, probe, &cause);
	}
	if (report->json && report->printed)
		printf(",\n");
	report->printed++;
	if (report->json)
		json_name(report, name, probe, state, &cause);
	else
		columns_name(report, name, probe, state, &cause);
	fflush(stdout);
}

void report_end(struct report *report)
{
	if (report->json)
		printf("\n]}\n");
}
