/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a name does not open, and what to do: by looking, and else by what the provider says. */
#include "datinfo.h"

#include <stdarg.h>

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../udapl/host/nodes.h"
#include "../udapl/host/params.h"

/* Both return true, so that one can follow the other: what returns true has found the cause. */
static bool reason_say(struct cause *cause, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static bool remedy_say(struct cause *cause, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool reason_say(struct cause *cause, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(cause->reason, sizeof(cause->reason), format, args);
	va_end(args);
	return true;
}

static bool remedy_say(struct cause *cause, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(cause->remedy, sizeof(cause->remedy), format, args);
	va_end(args);
	return true;
}

/* ---- device nodes ---- */

static bool closed_tell(const struct nodes *nodes, struct cause *cause)
{
	const struct group *group = getgrgid(nodes->group);

	return remedy_say(cause, "run as a member of group %s, or have udev give it mode 0666",
			  group ? group->gr_name : "of the node");
}

static bool nodes_are_missing(struct cause *cause)
{
	struct nodes nodes;

	nodes_look(&nodes);
	if (nodes.state == NODES_COMPLETE)
		return false;
	reason_say(cause, "%s", nodes.text);
	switch (nodes.state) {
	case NODES_NO_DEVICE:
		return remedy_say(cause, "load the driver of the adapter, or make a software "
					 "device (rdma link add rxe0 type rxe netdev INTERFACE), "
					 "or use a name of libdaplofi, such as ofi-tcp "
					 "(ofi-v2-tcp for DAT 2.0)");
	case NODES_NO_FOLDER:
	case NODES_NO_UVERBS:
	case NODES_NO_RDMA_CM:
		if (nodes.has_module)
			return remedy_say(cause, "give the container the device nodes (docker: "
						 "--device /dev/infiniband), or have udev make "
						 "them");
		return remedy_say(cause, "modprobe %s",
				  nodes.state == NODES_NO_RDMA_CM ? "rdma_ucm" : "ib_uverbs");
	case NODES_CLOSED:
		return closed_tell(&nodes, cause);
	default:
		return remedy_say(cause, "see what the kernel's log says about the device");
	}
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

static bool interface_is_unfit(const struct host *host, const char *word, bool rdma,
			       struct cause *cause)
{
	const struct host_interface *interface = host_interface_find(host, word);

	if (!interface && text_is_address(word)) {
		interface = host_interface_of_address(host, word);
		if (!interface)
			return reason_say(cause, "no interface of this host has the address %s",
					  word) &&
			       remedy_say(cause, "correct the line, or give an interface this "
						 "address");
	}
	if (!interface)
		return !device_exists(host, word) &&
		       reason_say(cause, "this host has no interface and no device %s", word) &&
		       remedy_say(cause, "datinfo --generate prints lines for those that it has");
	if (!interface->up)
		return reason_say(cause, "interface %s is down", interface->name) &&
		       remedy_say(cause, "ip link set %s up", interface->name);
	if (!interface->address[0])
		return reason_say(cause, "interface %s has no IP address", interface->name) &&
		       remedy_say(cause, "ip address add ADDRESS dev %s", interface->name);
	if (rdma && !port_of_interface(host, interface->name))
		return reason_say(cause, "interface %s (%s) belongs to no RDMA device",
				  interface->name, interface->address) &&
		       remedy_say(cause, "name an interface of an RDMA device (rdma link shows "
					 "them), or use a name of libdaplofi, such as ofi-tcp "
					 "(ofi-v2-tcp for DAT 2.0)");
	return false;
}

/* ---- limits ---- */

static bool memlock_is_small(struct cause *cause)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur >= 4 << 20 || geteuid() == 0)
		return false;
	return reason_say(cause, "only %llu KiB may be locked (ulimit -l)",
			  (unsigned long long)limit.rlim_cur / 1024) &&
	       remedy_say(cause, "raise it in /etc/security/limits.conf, or as LimitMEMLOCK of the "
				 "service");
}

/*
 * Then files that are there can't be opened, so there is nothing to install. The registry and the
 * providers of this project name the limit, the dynamic linker says what errno means.
 */
static bool descriptors_ran_out(const struct cause *cause)
{
	return strstr(cause->reason, "ulimit -n") || (strstr(cause->reason, strerror(EMFILE)) &&
						      !strstr(cause->reason, strerror(ENFILE)));
}

/* ---- what the provider says ---- */

static void message_tell(enum provider_kind kind, const struct probe *probe, struct cause *cause)
{
	const char *text = probe->message;

	if (!strncmp(text, "open: ", 6))
		text += 6;
	if (*text)
		reason_say(cause, "%s", text);
	else
		reason_say(cause, "dat_ia_open returned %s", probe->ret);
	if (strstr(text, "FI_PROVIDER"))
		remedy_say(cause, "unset FI_PROVIDER, or have it name this provider, too");
	else if (strstr(text, "fi_info"))
		remedy_say(cause, "fi_info -t FI_EP_MSG lists what libfabric has on this host");
	else if (strstr(text, "over iWARP"))
		remedy_say(cause, "datinfo --generate prints lines of libdaplcma for it");
	else if (strstr(text, "libfabric can't be loaded"))
		remedy_say(cause, "install libfabric, 1.11 or later");
	else if (kind == PROVIDER_CMA || kind == PROVIDER_OFI)
		remedy_say(cause, "look for this message in %s(7)",
			   kind == PROVIDER_OFI ? "libdaplofi" : "libdaplcma");
	else
		remedy_say(cause, "ask the documentation of the provider");
}

/* Finds what this host lacks for the parameters of the line. */
static bool host_is_unfit(const struct host *host, const struct conf_name *name,
			  enum provider_kind kind, struct cause *cause)
{
	const bool ofi = kind == PROVIDER_OFI;
	struct params params;
	const char *word = ofi ? params.second : params.first;
	bool rdma;

	if (kind == PROVIDER_UNKNOWN)
		return false;
	if (params_parse(ofi ? PARAMS_OF_OFI : PARAMS_OF_VERBS, name->params, &params))
		*params.first = *params.second = '\0'; /* another provider may take them */
	rdma = !ofi || !strcmp(params.first, "verbs");
	if (rdma && nodes_are_missing(cause))
		return true;
	if (*word && strcmp(word, "0") != 0 && interface_is_unfit(host, word, rdma, cause))
		return true;
	return rdma && memlock_is_small(cause);
}

static void refused_tell(const struct host *host, const struct conf_name *name,
			 const struct probe *probe, struct cause *cause)
{
	const enum provider_kind kind = provider_kind_of(probe->library);
	const char *wrong = provider_params_refused(probe->library, name->params);

	if (name->minor < name->edition->minor) {
		reason_say(cause, "the line is for DAT %u.%u, and programs want %u.%u", name->major,
			   name->minor, name->edition->major, name->edition->minor);
		remedy_say(cause, "write u%u.%u in the second field", name->edition->major,
			   name->edition->minor);
	} else if (wrong) {
		reason_say(cause, "%s", wrong);
		remedy_say(cause, "dat.conf(5) says what the field has; datinfo --generate prints "
				  "lines for this host");
	} else if (!host_is_unfit(host, name, kind, cause)) {
		message_tell(kind, probe, cause);
	}
}

/* ---- all ---- */

static void crash_tell(const struct probe *probe, struct cause *cause)
{
	const char *colon = *probe->message ? ": " : "";

	if (WIFSIGNALED(probe->status))
		reason_say(cause, "the process that opened it crashed (%s)%s%s",
			   strsignal(WTERMSIG(probe->status)), colon, probe->message);
	else
		reason_say(cause, "the provider ended the process (status %d)%s%s",
			   WEXITSTATUS(probe->status), colon, probe->message);
	remedy_say(cause, "install another version of it; a debugger shows where it failed");
}

static void registry_tell(const struct conf_name *name, const struct probe *probe,
			  struct cause *cause)
{
	reason_say(cause, "the registry of DAT %u.%u can't be loaded: %s", name->edition->major,
		   name->edition->minor, probe->message);
	remedy_say(cause, "install %s; then run ldconfig", name->edition->registry);
}

static void library_tell(const struct conf_name *name, const struct probe *probe,
			 struct cause *cause)
{
	const bool itself = !strncmp(probe->message, name->library, strlen(name->library));

	reason_say(cause, "the library can't be loaded: %s", probe->message);
	if (itself && provider_is_replaced(name->library))
		remedy_say(cause,
			   "replace it by %s, which takes the same parameters, at both ends of a "
			   "connection",
			   name->edition->cma);
	else if (itself && strstr(probe->message, "No such file"))
		remedy_say(cause, "install it, or correct the fifth field; then run ldconfig");
	else if (itself)
		remedy_say(cause, "install a library that fits this host");
	else
		remedy_say(cause, "install what the library needs; then run ldconfig");
}

static bool library_is_misplaced(const struct conf_name *name, struct cause *cause)
{
	const struct edition *other = provider_misplaced(name, cause->reason,
							 sizeof(cause->reason));
	const bool ofi = provider_kind_of(name->library) == PROVIDER_OFI;

	return other && remedy_say(cause, "write %s in the fifth field, or u%u.%u in the second",
				   ofi ? name->edition->ofi : name->edition->cma, other->major,
				   other->minor);
}

void cause_find(const struct host *host, const struct conf_name *name, const struct probe *probe,
		struct cause *cause)
{
	memset(cause, 0, sizeof(*cause));
	if (probe->stage != PROBE_OPENED && library_is_misplaced(name, cause))
		return;
	switch (probe->stage) {
	case PROBE_CRASHED:
		crash_tell(probe, cause);
		break;
	case PROBE_TIMED_OUT:
		reason_say(cause, "dat_ia_open did not return within %u s", probe_limit);
		remedy_say(cause, "see whether a name server answers, and what the kernel's log "
				  "says about the device");
		break;
	case PROBE_NO_REGISTRY:
		registry_tell(name, probe, cause);
		break;
	case PROBE_NO_LIBRARY:
		library_tell(name, probe, cause);
		break;
	case PROBE_NO_PROVIDER:
		reason_say(cause, "%s is no DAT provider: it has no dat_provider_init",
			   name->library);
		remedy_say(cause, "correct the fifth field; %s and %s are providers",
			   name->edition->cma, name->edition->ofi);
		break;
	case PROBE_REFUSED:
		refused_tell(host, name, probe, cause);
		break;
	case PROBE_NOT_TRIED:
		reason_say(cause, "no process could be started: %s", probe->message);
		remedy_say(cause, "see the limits of processes and descriptors (ulimit -a)");
		break;
	case PROBE_LOADED:
	case PROBE_OPENED:
		break;
	}
	if (descriptors_ran_out(cause))
		remedy_say(cause, "raise the limit of descriptors (ulimit -n)");
}
