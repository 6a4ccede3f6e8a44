/* SPDX-License-Identifier: BSD-2-Clause */
/* A dat.conf for this host, with the names that programs and scripts know. */
#include "datinfo.h"

#include <stdarg.h>

#include <dlfcn.h>
#include <string.h>

#define CMA "libdaplcma.so.1"
#define OFI "libdaplofi.so.1"

static void line_print(FILE *to, const char *library, const char *params, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void line_print(FILE *to, const char *library, const char *params, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(to, format, args);
	va_end(args);
	fprintf(to, " u1.2 nonthreadsafe default %s dapl.1.2 \"%s\" \"\"\n", library, params);
}

static void interface_line(FILE *to, const struct host_port *port, const char *name)
{
	char params[64];

	snprintf(params, sizeof(params), "%s 0", port->interface);
	line_print(to, CMA, params, "%s", name);
}

/* Writes OpenIB-cma, OpenIB-cma-1, and so on, by interface. */
static void cma_lines(const struct host *host, FILE *to)
{
	unsigned count = 0;
	char name[64];

	for (int infiniband = 1; infiniband >= 0; infiniband--) {
		for (size_t i = 0; i < host->port_count; i++) {
			const struct host_port *port = &host->ports[i];

			if (!*port->interface || infiniband != !strcmp(port->layer, "InfiniBand"))
				continue;
			if (count)
				snprintf(name, sizeof(name), "OpenIB-cma-%u", count);
			else
				snprintf(name, sizeof(name), "OpenIB-cma");
			count++;
			interface_line(to, port, name);
		}
	}
}

/* Writes names by kind and interface, and by device and port. */
static void other_lines(const struct host *host, FILE *to)
{
	bool iwarp_named = false;
	char name[128], params[96];

	for (size_t i = 0; i < host->port_count; i++) {
		const struct host_port *port = &host->ports[i];

		if (*port->interface && port->iwarp && !iwarp_named) {
			interface_line(to, port, "OpenIB-iwarp");
			iwarp_named = true;
		} else if (*port->interface && strcmp(port->layer, "InfiniBand") != 0) {
			snprintf(name, sizeof(name), "OpenIB-cma-roe-%s", port->interface);
			interface_line(to, port, name);
		}
		snprintf(params, sizeof(params), "%s %u", port->device, port->port);
		line_print(to, CMA, params, "OpenIB-%s-%u", port->device, port->port);
	}
}

static bool has_libfabric(void)
{
	return dlopen("libfabric.so.1", RTLD_LAZY | RTLD_LOCAL);
}

static void tcp_lines(const struct host *host, bool loopback, FILE *to)
{
	for (size_t i = 0; i < host->interface_count; i++) {
		const struct host_interface *interface = &host->interfaces[i];
		char params[64];

		if (!interface->up || !interface->address[0] || interface->loopback != loopback)
			continue;
		snprintf(params, sizeof(params), "tcp %s", interface->name);
		line_print(to, OFI, params, "ofi-tcp-%s", interface->name);
	}
}

static void verbs_lines(const struct host *host, FILE *to)
{
	for (size_t i = 0, count = 0; i < host->port_count; i++) {
		char params[96];

		if (!*host->ports[i].interface || host->ports[i].iwarp) /* which it refuses */
			continue;
		snprintf(params, sizeof(params), "verbs %s", host->ports[i].interface);
		line_print(to, OFI, params, "ofi-verbs%s%s", count ? "-" : "",
			   count ? host->ports[i].interface : "");
		count++;
	}
}

/* Programs that try all names do so in this order: what only reaches this host comes last. */
static void ofi_lines(const struct host *host, FILE *to)
{
	line_print(to, OFI, "tcp 0", "ofi-tcp");
	tcp_lines(host, false, to);
	verbs_lines(host, to);
	tcp_lines(host, true, to);
}

/*
 * The text is what an administrator appends to a file and may want to remove again, to the byte:
 * the empty line ends the last line of a file that does not, as that of libdapl2.
 */
void generate(const struct host *host, FILE *to)
{
	fprintf(to, "\n# Written by datinfo --generate for this host; dat.conf(5) explains it.\n");
	if (!host->port_count)
		fprintf(to, "# No RDMA device was found in /sys/class/infiniband.\n");
	cma_lines(host, to);
	other_lines(host, to);
	if (has_libfabric())
		ofi_lines(host, to);
	else
		fprintf(to, "# libfabric is not installed: no lines for TCP.\n");
	fprintf(to, "# End of what datinfo --generate has written.\n");
}
