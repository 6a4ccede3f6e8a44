/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a name does not open, and what to do: by looking, and else by what the provider says. */
#include "datinfo.h"

#include <stdarg.h>

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODES "/dev/infiniband"

/* A sentence, or false: that is not the cause. */
static bool say(char text[TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool say(char text[TEXT], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, TEXT, format, args);
	va_end(args);
	return true;
}

/* ---- device nodes ---- */

static bool node_is_closed(const char *node, char text[TEXT])
{
	struct stat stat_of;
	const struct group *group;
	char path[300];

	snprintf(path, sizeof(path), NODES "/%s", node);
	if (access(path, F_OK))
		return false;
	if (!access(path, R_OK | W_OK) || errno != EACCES || stat(path, &stat_of))
		return false;
	group = getgrgid(stat_of.st_gid);
	return say(text,
		   "no permission to open %s (mode %03o, group %s); run as a member of that group, "
		   "or have udev give it mode 0666",
		   path, stat_of.st_mode & 0777, group ? group->gr_name : "unknown");
}

static bool any_node(const char *prefix, char name[64])
{
	DIR *dir = opendir(NODES);
	const struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir))) {
		found = !strncmp(entry->d_name, prefix, strlen(prefix));
		if (found)
			snprintf(name, 64, "%.63s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool nodes_are_missing(const struct host *host, char text[TEXT])
{
	char node[64];

	if (!host->port_count)
		return say(text,
			   "this host has no RDMA device: /sys/class/infiniband is empty; load the "
			   "driver of the adapter, or make a software device (rdma link add rxe0 "
			   "type rxe netdev INTERFACE), or use a name of libdaplofi (ofi-tcp)");
	if (access(NODES, F_OK))
		return say(text, "there is no " NODES "; load the module ib_uverbs, or give the "
				 "container the device nodes");
	if (!any_node("uverbs", node))
		return say(text, "there is no " NODES "/uverbs0; load the module ib_uverbs");
	if (node_is_closed(node, text))
		return true;
	if (access(NODES "/rdma_cm", F_OK))
		return say(text, "there is no " NODES "/rdma_cm; load the module rdma_ucm");
	return node_is_closed("rdma_cm", text);
}

/* ---- interfaces ---- */

static const struct host_port *port_of_interface(const struct host *host, const char *name)
{
	for (size_t i = 0; i < host->port_count; i++)
		if (!strcmp(host->ports[i].interface, name))
			return &host->ports[i];
	return NULL;
}

static bool device_exists(const struct host *host, const char *name)
{
	for (size_t i = 0; i < host->port_count; i++)
		if (!strcmp(host->ports[i].device, name))
			return true;
	return false;
}

static const struct host_interface *interface_by_address(const struct host *host, const char *text)
{
	for (size_t i = 0; i < host->interface_count; i++)
		if (host->interfaces[i].address[0] && !strcmp(host->interfaces[i].address, text))
			return &host->interfaces[i];
	return NULL;
}

static bool is_address(const char *word)
{
	return strspn(word, "0123456789.") == strlen(word) && strchr(word, '.');
}

static bool interface_is_unfit(const struct host *host, const char *word, bool rdma,
			       char text[TEXT])
{
	const struct host_interface *interface = host_interface_find(host, word);

	if (!interface && is_address(word))
		interface = interface_by_address(host, word);
	if (!interface && is_address(word))
		return say(text, "no interface of this host has the address %s", word);
	if (!interface)
		return !device_exists(host, word) &&
		       say(text,
			   "this host has no interface and no device %s; datinfo --generate prints "
			   "lines for those that it has",
			   word);
	if (!interface->up)
		return say(text, "interface %s is down; ip link set %s up", interface->name,
			   interface->name);
	if (!interface->address[0])
		return say(text, "interface %s has no IPv4 address; ip address add ADDRESS dev %s",
			   interface->name, interface->name);
	if (rdma && !port_of_interface(host, interface->name))
		return say(text, "interface %s (%s) belongs to no RDMA device", interface->name,
			   interface->address);
	return false;
}

/* ---- limits ---- */

static bool memlock_is_small(char text[TEXT])
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur >= 4 << 20 || geteuid() == 0)
		return false;
	return say(text,
		   "only %llu KiB may be locked (ulimit -l); raise it in limits.conf, or as "
		   "LimitMEMLOCK of the service",
		   (unsigned long long)limit.rlim_cur / 1024);
}

/* ---- all ---- */

static bool is_library(const struct conf_name *name, const char *part)
{
	return strstr(name->library, part) != NULL;
}

static void refused_write(const struct host *host, const struct conf_name *name,
			  const struct probe *probe, char text[TEXT])
{
	const bool rdma = is_library(name, "libdaplcma") || !strncmp(name->params, "verbs", 5);
	const char *major = "unknown", *minor = "";
	char first[128] = "", second[128] = "";
	const char *word;

	sscanf(name->params, "%127s %127s", first, second);
	word = is_library(name, "libdaplofi") ? second : first;
	if (rdma && nodes_are_missing(host, text))
		return;
	if (*word && strcmp(word, "0") != 0 && interface_is_unfit(host, word, rdma, text))
		return;
	if (rdma && memlock_is_small(text))
		return;
	(void)dat_strerror(probe->ret, &major, &minor);
	if (probe->message[0])
		say(text, "%s", probe->message);
	else
		say(text, "dat_ia_open returned %s %s", major, minor);
}

void cause_write(const struct host *host, const struct conf_name *name, const struct probe *probe,
		 char text[TEXT])
{
	text[0] = '\0';
	switch (probe->stage) {
	case PROBE_CRASHED:
		say(text, "the process that opened it crashed%s%s", *probe->message ? ": " : "",
		    probe->message);
		break;
	case PROBE_TIMED_OUT:
		say(text, "dat_ia_open did not return within 30 s; does a name server answer?");
		break;
	case PROBE_NO_LIBRARY:
		say(text, "the library can't be loaded: %s", probe->message);
		break;
	case PROBE_NO_PROVIDER:
		say(text, "%s is no DAT provider: it has no dat_provider_init", name->library);
		break;
	case PROBE_REFUSED:
		refused_write(host, name, probe, text);
		break;
	case PROBE_OPENED:
		break;
	}
}
