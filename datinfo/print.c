/* SPDX-License-Identifier: BSD-2-Clause */
/* The list in columns, for people, or as JSON. */
#include "datinfo.h"

#include <inttypes.h>
#include <string.h>

/* ---- columns ---- */

/* Prints "192.0.2.1, eth0 up 10000 Mb/s, mlx5_0 port 1 ACTIVE, Mellanox". */
static void opened_print(const struct host *host, const struct probe *probe)
{
	const struct location at = host_locate(host, probe->address);

	printf("%s", probe->address);
	if (at.interface)
		printf(", %s %s%s%s%s", at.interface->name, at.interface->up ? "up" : "down",
		       *at.interface->speed ? " " : "", at.interface->speed,
		       *at.interface->speed ? " Mb/s" : "");
	if (at.port)
		printf(", %s port %u %s", at.port->device, at.port->port, at.port->state);
	printf(", %s\n", probe->vendor);
}

/* Prints ", WHAT VERSION" if the version is known. */
static void version_print(const char *what, const struct version *version)
{
	char text[32];

	if (version_text(version, text, sizeof(text)))
		printf(", %s %s", what, text);
}

/* Prints ", BEFORE TEXT AFTER" if the text is known. */
static void known_print(const char *before, const char *text, const char *after)
{
	if (*text)
		printf(", %s%s%s", before, text, after);
}

static void device_print(const struct host_port *port)
{
	printf("      device    %s port %u", port->device, port->port);
	known_print("", port->layer, "");
	known_print("", port->state, "");
	known_print("", port->rate, "");
	known_print("firmware ", port->firmware, "");
	printf("\n      port      GID %s", *port->gid ? port->gid : "not known");
	known_print("GUID of the device ", port->guid, "");
	if (port->lid)
		printf(", LID %lu", port->lid);
	putchar('\n');
}

static void details_print(const struct host *host, const struct probe *probe)
{
	const struct location at = host_locate(host, probe->address);
	const struct versions *versions = &probe->versions;
	char library[TEXT];

	printf("      registry  %s\n      library   %s\n      provider  %s, %s\n", probe->registry,
	       conf_printable(probe->library, library, sizeof(library)), probe->provider,
	       probe->vendor);
	printf("      versions  DAT %u.%u", versions->api.major, versions->api.minor);
	version_print("provider", &versions->provider);
	version_print("hardware", &versions->hardware);
	version_print("firmware", &versions->firmware);
	version_print("libfabric", &versions->libfabric);
	printf(", datinfo " PACKAGE_VERSION "\n");
	if (at.interface) {
		printf("      interface %s, %s", at.interface->name,
		       at.interface->up ? "up" : "down");
		known_print("", at.interface->speed, " Mb/s");
		known_print("MTU ", at.interface->mtu, "");
		printf("\n      addresses %s\n", at.interface->addresses);
	}
	if (at.port)
		device_print(at.port);
	for (size_t i = 0; i < probe->attribute_count; i++)
		printf("      %-35s %" PRIu64 "\n", probe->attributes[i].name,
		       probe->attributes[i].value);
	for (size_t i = 0; i < probe->named_count; i++)
		printf("      %-35s %s\n", probe->named[i].name, probe->named[i].value);
}

/* Prints "192.0.2.1 port 45248 answered in 0.31 ms, from 192.0.2.2, eth0". */
static void reached_print(const struct report *report, const struct probe *probe)
{
	const struct peer *peer = &probe->peer;
	const struct location at = host_locate(report->host, peer->source);

	printf("%s port %u answered in %.2f ms", peer->address, report->peer->port,
	       peer->usec / 1000);
	known_print("from ", peer->source, "");
	if (at.interface)
		printf(", %s", at.interface->name);
	if (strcmp(peer->source, probe->address) != 0)
		printf(" (the IA's address is %s)", probe->address);
	putchar('\n');
}

static void columns_name(const struct report *report, const struct conf_name *name,
			 const struct probe *probe, const char *state, const struct cause *cause)
{
	const bool opens = probe && probe->stage == PROBE_OPENED;
	char text[2 * TEXT];

	printf("%5u %-*s ", name->line, report->width,
	       name->refused ? "-" : conf_printable(name->name, text, sizeof(text)));
	if (name->refused)
		printf("-   ");
	else
		printf("%u.%u ", name->major, name->minor);
	printf("%-8s ", state);
	if (probe && probe->peer.state == PEER_REACHED)
		reached_print(report, probe);
	else if (opens && !*cause->reason)
		opened_print(report->host, probe);
	else
		printf("%s\n", conf_printable(cause->reason, text, sizeof(text)));
	if (*cause->remedy)
		printf("%*s%s\n", 5 + 1 + report->width + 1 + 4 + 8 + 1, "",
		       conf_printable(cause->remedy, text, sizeof(text)));
	if (report->details && opens && !report->peer)
		details_print(report->host, probe);
}

/* ---- names that do not open for like causes ---- */

enum {
	ALIKE_SHOWN = 2, /* the rest is counted */
};

/* Returns the names that are like this one, or NULL if there is no more room for its kind. */
static struct alike *alike_find(struct report *report, const struct edition *edition,
				const char *remedy)
{
	struct alike *alike = report->alike;

	for (size_t i = 0; i < report->alike_count; i++, alike++)
		if (alike->edition == edition && !strcmp(alike->remedy, remedy))
			return alike;
	if (report->alike_count == sizeof(report->alike) / sizeof(report->alike[0]))
		return NULL;
	report->alike_count++;
	alike->edition = edition;
	snprintf(alike->remedy, sizeof(alike->remedy), "%s", remedy);
	return alike;
}

/* Counts a name that does not open. Returns whether it is only counted, and not printed. */
static bool alike_counts(struct report *report, const struct conf_name *name,
			 const struct cause *cause)
{
	struct alike *alike = alike_find(report, name->edition, cause->remedy);

	return alike && ++alike->count > ALIKE_SHOWN;
}

static void alike_print(const struct report *report, const struct edition *edition)
{
	char version[32] = "other versions of DAT";
	unsigned more = 0;

	for (size_t i = 0; i < report->alike_count; i++)
		if (report->alike[i].edition == edition && report->alike[i].count > ALIKE_SHOWN)
			more += report->alike[i].count - ALIKE_SHOWN;
	if (!more)
		return;
	if (edition)
		snprintf(version, sizeof(version), "DAT %u.%u", edition->major, edition->minor);
	printf("      %u more %s for %s, which %s not open for causes like these; --all shows "
	       "%s\n",
	       more, more == 1 ? "name" : "names", version, more == 1 ? "does" : "do",
	       more == 1 ? "it" : "them");
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
		json_begin(report->file, report->peer, report->reason);
	} else {
		report->width = name_width(report->file);
		printf("%s\n%5s %-*s %-3s %-8s %s\n", report->file->path, "line", report->width,
		       "name", "DAT", "state", "address, or cause and remedy");
	}
}

void report_name(struct report *report, const struct conf_name *name, const struct probe *probe)
{
	const bool opens = probe && probe->stage == PROBE_OPENED;
	struct cause cause = { "", "" };
	const char *state = "unusable";

	if (name->refused) {
		state = "bad line";
		snprintf(cause.reason, sizeof(cause.reason), "%s", name->refused);
	} else if (!probe) {
		state = "other";
		snprintf(cause.reason, sizeof(cause.reason),
			 "for DAT %u.%u; the editions are 1.2 and 2.0", name->major, name->minor);
	} else if (opens) {
		state = "opens";
		snprintf(cause.reason, sizeof(cause.reason), "%s", probe->peer.reason);
		snprintf(cause.remedy, sizeof(cause.remedy), "%s", probe->peer.remedy);
	} else {
		cause_find(report->host, name, probe, &cause);
	}
	if (report->json)
		json_name(report->host, name, probe, state, &cause);
	else if (report->peer && !opens && !report->all)
		return; /* what opens is in question */
	else if (name->refused || opens || report->all || !alike_counts(report, name, &cause))
		columns_name(report, name, probe,
			     report->peer && opens ? peer_state_text(probe->peer.state) : state,
			     &cause);
	fflush(stdout);
}

void report_end(struct report *report)
{
	if (report->json) {
		json_end();
		return;
	}
	alike_print(report, &edition_dat1);
	alike_print(report, &edition_dat2);
	alike_print(report, NULL);
}
