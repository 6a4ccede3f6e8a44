/* SPDX-License-Identifier: BSD-2-Clause */
/* A dat.conf for this host, with the names that programs and scripts know. */
#include "datinfo.h"

#include <stdarg.h>

#include <dlfcn.h>
#include <string.h>

/* The lines of one edition of DAT. */
struct generation {
	FILE *to;
	const struct host *host;
	const struct edition *edition;
};

static void line_add(const struct generation *gen, const char *library, const char *params,
		     const char *format, ...) __attribute__((format(printf, 4, 5)));

static void line_add(const struct generation *gen, const char *library, const char *params,
		     const char *format, ...)
{
	const unsigned major = gen->edition->major, minor = gen->edition->minor;
	va_list args;

	va_start(args, format);
	vfprintf(gen->to, format, args);
	va_end(args);
	fprintf(gen->to, " u%u.%u nonthreadsafe default %s dapl.%u.%u \"%s\" \"\"\n", major, minor,
		library, major, minor, params);
}

/* ---- of the provider over RDMA ---- */

static void interface_line(const struct generation *gen, const struct host_port *port,
			   const char *name)
{
	char params[64];

	snprintf(params, sizeof(params), "%s 0", port->interface);
	line_add(gen, gen->edition->cma, params, "%s", name);
}

static void port_line(const struct generation *gen, const struct host_port *port,
		      const char *prefix, const char *suffix)
{
	char params[96];

	snprintf(params, sizeof(params), "%s %u", port->device, port->port);
	line_add(gen, gen->edition->cma, params, "%s%s-%u%s", prefix, port->device, port->port,
		 suffix);
}

/* Writes what a line for an interface is called first: in DAT 2.0 the interface comes last. */
static void interface_name(const struct generation *gen, const struct host_port *port,
			   unsigned count, char *name, size_t size)
{
	if (gen->edition == &edition_dat2)
		snprintf(name, size, "ofa-v2-%s", port->interface);
	else if (count)
		snprintf(name, size, "OpenIB-cma-%u", count);
	else
		snprintf(name, size, "OpenIB-cma");
}

/* Writes a line for each interface, those of InfiniBand first. */
static void interface_lines(const struct generation *gen)
{
	unsigned count = 0;
	char name[64];

	for (int infiniband = 1; infiniband >= 0; infiniband--) {
		for (size_t i = 0; i < gen->host->port_count; i++) {
			const struct host_port *port = &gen->host->ports[i];

			if (!*port->interface || infiniband != !strcmp(port->layer, "InfiniBand"))
				continue;
			interface_name(gen, port, count++, name, sizeof(name));
			interface_line(gen, port, name);
		}
	}
}

/* Writes names by kind and interface, and by device and port. */
static void other_lines(const struct generation *gen)
{
	const bool dat2 = gen->edition == &edition_dat2;
	const char *prefix = dat2 ? "ofa-v2-" : "OpenIB-";
	bool iwarp_named = false;
	char name[128];

	for (size_t i = 0; i < gen->host->port_count; i++) {
		const struct host_port *port = &gen->host->ports[i];

		if (*port->interface && port->iwarp && !iwarp_named) {
			snprintf(name, sizeof(name), "%siwarp", prefix);
			interface_line(gen, port, name);
			iwarp_named = true;
		} else if (*port->interface && strcmp(port->layer, "InfiniBand") != 0) {
			snprintf(name, sizeof(name), "%scma-roe-%s", prefix, port->interface);
			interface_line(gen, port, name);
		}
		port_line(gen, port, prefix, "");
		if (!dat2)
			continue;
		port_line(gen, port, prefix, "s"); /* as the scm and ucm providers were named */
		port_line(gen, port, prefix, "u");
	}
}

/* ---- of the provider over libfabric ---- */

static bool has_libfabric(void)
{
	return dlopen("libfabric.so.1", RTLD_LAZY | RTLD_LOCAL);
}

static void tcp_lines(const struct generation *gen, const char *prefix, bool loopback)
{
	for (size_t i = 0; i < gen->host->interface_count; i++) {
		const struct host_interface *interface = &gen->host->interfaces[i];
		char params[64];

		if (!interface->up || !interface->address[0] || interface->loopback != loopback)
			continue;
		snprintf(params, sizeof(params), "tcp %s", interface->name);
		line_add(gen, gen->edition->ofi, params, "%stcp-%s", prefix, interface->name);
	}
}

static void verbs_lines(const struct generation *gen, const char *prefix)
{
	const struct host *host = gen->host;

	for (size_t i = 0, count = 0; i < host->port_count; i++) {
		char params[96];

		if (!*host->ports[i].interface || host->ports[i].iwarp) /* which it refuses */
			continue;
		snprintf(params, sizeof(params), "verbs %s", host->ports[i].interface);
		line_add(gen, gen->edition->ofi, params, "%sverbs%s%s", prefix, count ? "-" : "",
			 count ? host->ports[i].interface : "");
		count++;
	}
}

/* Programs that try all names do so in this order: what only reaches this host comes last. */
static void ofi_lines(const struct generation *gen)
{
	const char *prefix = gen->edition == &edition_dat2 ? "ofi-v2-" : "ofi-";

	line_add(gen, gen->edition->ofi, "tcp 0", "%stcp", prefix);
	tcp_lines(gen, prefix, false);
	verbs_lines(gen, prefix);
	tcp_lines(gen, prefix, true);
}

/* ---- all ---- */

static void edition_lines(const struct generation *gen, bool libfabric)
{
	interface_lines(gen);
	other_lines(gen);
	if (libfabric)
		ofi_lines(gen);
}

/*
 * The text is what an administrator appends to a file and may want to remove again, to the byte:
 * the empty line ends the last line of a file that does not, as that of libdapl2.
 */
void generate(const struct host *host, FILE *to)
{
	const bool libfabric = has_libfabric();

	fprintf(to, "\n# Written by datinfo --generate for this host; dat.conf(5) explains it.\n");
	if (!host->port_count)
		fprintf(to, "# No RDMA device was found in /sys/class/infiniband.\n");
	if (!libfabric)
		fprintf(to, "# libfabric is not installed: no lines for TCP.\n");
	edition_lines(&(struct generation){ to, host, &edition_dat1 }, libfabric);
	edition_lines(&(struct generation){ to, host, &edition_dat2 }, libfabric);
	fprintf(to, "# End of what datinfo --generate has written.\n");
}
