/* SPDX-License-Identifier: BSD-2-Clause */
/* The list as JSON: each name has the same members, and what is not known is null. */
#include "datinfo.h"

#include <inttypes.h>
#include <string.h>

#include "../tools/tools.h"

/* ---- values ---- */

/* Nothing was printed yet in the object or array that was opened last. */
static bool is_first;

static void separate(void)
{
	if (!is_first)
		printf(", ");
	is_first = false;
}

static void member_begin(const char *name)
{
	separate();
	tool_json_string(name);
	printf(": ");
}

static void member_literal(const char *name, const char *literal)
{
	member_begin(name);
	printf("%s", literal);
}

static void member_string(const char *name, const char *text)
{
	member_begin(name);
	tool_json_string(text);
}

/* A text that is empty or NULL is not known. */
static void member_text(const char *name, const char *text)
{
	if (text && *text)
		member_string(name, text);
	else
		member_literal(name, "null");
}

static void member_number(const char *name, uint64_t value)
{
	member_begin(name);
	printf("%" PRIu64, value);
}

/* A number of sysfs. */
static void member_decimal(const char *name, const char *digits)
{
	member_literal(name, *digits ? digits : "null");
}

static void member_version(const char *name, const struct version *version)
{
	char text[32];

	member_text(name, version_text(version, text, sizeof(text)));
}

static void object_open(const char *name)
{
	member_begin(name);
	putchar('{');
	is_first = true;
}

static void object_close(void)
{
	putchar('}');
	is_first = false;
}

/* ---- an open IA ---- */

static void addresses_member(const char *addresses)
{
	char one[TEXT];

	member_begin("addresses");
	putchar('[');
	is_first = true;
	while (*addresses) {
		size_t length = strcspn(addresses, " ");

		snprintf(one, sizeof(one), "%.*s", (int)length, addresses);
		separate();
		tool_json_string(one);
		addresses += length + (addresses[length] != '\0');
	}
	putchar(']');
	is_first = false;
}

static void interface_member(const struct host_interface *interface)
{
	if (!interface) {
		member_literal("interface", "null");
		return;
	}
	object_open("interface");
	member_string("name", interface->name);
	member_string("state", interface->up ? "up" : "down");
	member_text("speed", interface->speed);
	member_decimal("mtu", interface->mtu);
	addresses_member(interface->addresses);
	object_close();
}

static void device_member(const struct host_port *port)
{
	if (!port) {
		member_literal("device", "null");
		return;
	}
	object_open("device");
	member_string("name", port->device);
	member_number("port", port->port);
	member_text("link", port->layer);
	member_text("state", port->state);
	member_text("speed", port->rate);
	member_text("firmware", port->firmware);
	member_text("guid", port->guid);
	member_text("gid", port->gid);
	if (port->lid)
		member_number("lid", port->lid);
	else
		member_literal("lid", "null");
	object_close();
}

static void peer_member(const struct peer *peer)
{
	if (peer->state == PEER_NOT_ASKED) {
		member_literal("peer", "null");
		return;
	}
	object_open("peer");
	member_string("state", peer_state_text(peer->state));
	member_text("address", peer->address);
	member_text("source", peer->source);
	if (peer->state == PEER_REACHED)
		member_number("usec", (uint64_t)peer->usec);
	else
		member_literal("usec", "null");
	object_close();
}

static void opened_members(const struct host *host, const struct probe *probe)
{
	const struct location at = host_locate(host, probe->address);
	const struct versions *versions = &probe->versions;

	member_text("address", probe->address);
	member_text("vendor", probe->vendor);
	member_text("provider", probe->provider);
	object_open("versions");
	member_version("api", &versions->api);
	member_version("provider", &versions->provider);
	member_version("hardware", &versions->hardware);
	member_version("firmware", &versions->firmware);
	member_version("libfabric", &versions->libfabric);
	object_close();
	interface_member(at.interface);
	device_member(at.port);
	object_open("attributes");
	for (size_t i = 0; i < probe->attribute_count; i++)
		member_number(probe->attributes[i].name, probe->attributes[i].value);
	object_close();
	object_open("named_attributes");
	for (size_t i = 0; i < probe->named_count; i++)
		member_string(probe->named[i].name, probe->named[i].value);
	object_close();
	peer_member(&probe->peer);
}

static void unopened_members(void)
{
	static const char *const members[] = { "address",    "vendor",		 "provider",
					       "versions",   "interface",	 "device",
					       "attributes", "named_attributes", "peer" };

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		member_literal(members[i], "null");
}

/* ---- the lines ---- */

/* A bad line has none of these. */
static void line_members(const struct conf_name *name, const struct probe *probe)
{
	const char *library = probe && *probe->library ? probe->library : name->library;
	const bool known = !name->refused;
	char api[32] = "", edition[32] = "";

	if (known)
		snprintf(api, sizeof(api), "u%u.%u", name->major, name->minor);
	if (name->edition)
		snprintf(edition, sizeof(edition), "%u.%u", name->edition->major,
			 name->edition->minor);
	member_text("name", name->name);
	member_text("api", api);
	member_text("edition", edition);
	member_literal("thread_safe", !known ? "null" : name->thread_safe ? "true" : "false");
	member_text("registry", probe ? probe->registry : NULL);
	member_text("library", library);
	if (known)
		member_string("params", name->params);
	else
		member_literal("params", "null");
}

void json_begin(const struct conf_file *file, const struct peer_target *peer, const char *reason)
{
	printf("{");
	is_first = true;
	member_string("file", file->path);
	member_string("version", PACKAGE_VERSION);
	if (peer) {
		member_string("peer", peer->host);
		member_number("port", peer->port);
	}
	member_text("reason", reason);
	member_begin("names");
	printf("[\n");
	is_first = true;
}

void json_name(const struct host *host, const struct conf_name *name, const struct probe *probe,
	       const char *state, const struct cause *cause)
{
	if (!is_first)
		printf(",\n");
	printf("    {");
	is_first = true;
	member_number("line", name->line);
	line_members(name, probe);
	member_string("state", state);
	member_text("reason", cause->reason);
	member_text("remedy", cause->remedy);
	if (probe && probe->stage == PROBE_OPENED)
		opened_members(host, probe);
	else
		unopened_members();
	object_close();
}

void json_end(void)
{
	printf("\n]}\n");
}
