/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datinfo: what dat.conf names, and what this host has.
 *
 *	datinfo.c	options, and what they run
 *	lines.c		the lines of dat.conf
 *	probe.c		opening a name in a process of its own
 *	host.c		RDMA devices and network interfaces of this host, from sysfs
 *	cause.c		why a name does not open, and what to do
 *	print.c		columns for people, JSON for programs
 *	generate.c	a dat.conf for this host
 */
#ifndef DATINFO_H
#define DATINFO_H

#include <dat/udat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TEXT 512

/* ---- lines.c ---- */

struct conf_name {
	unsigned line;
	char *name, *library, *params;
	unsigned major, minor; /* of the API */
	bool thread_safe;
	const char *refused; /* why the line is no entry; the other fields are not set */
};

struct conf_file {
	const char *path;
	char *text;
	struct conf_name *names; /* in the order of the file */
	size_t count;
};

/* Where libdat reads dat.conf: the first of these that can be opened. */
const char *conf_file_find(void);
/* 0 or -errno. @path must live as long. */
int conf_file_read(const char *path, struct conf_file *file);
void conf_file_free(struct conf_file *file);

/* ---- probe.c ---- */

enum probe_stage {
	PROBE_CRASHED, /* the process ended before it had told how far it came */
	PROBE_TIMED_OUT,
	PROBE_NO_LIBRARY,  /* it can't be loaded */
	PROBE_NO_PROVIDER, /* it is loaded, and is no provider */
	PROBE_REFUSED,	   /* dat_ia_open has failed */
	PROBE_OPENED,
};

struct probe {
	enum probe_stage stage;
	DAT_RETURN ret;	    /* of dat_ia_open */
	char message[TEXT]; /* the last line that the provider or the dynamic linker printed */
	char library[TEXT]; /* the file that was loaded */
	char address[128];
	DAT_IA_ATTR ia; /* PROBE_OPENED; its pointers are not valid */
	DAT_PROVIDER_ATTR provider;
};

/* Takes up to 30 s, as a provider may wait for a name server. */
void probe_run(const struct conf_name *name, struct probe *probe);

/* ---- host.c ---- */

struct host_interface {
	char name[32];
	char address[64]; /* IPv4, in numbers; empty: it has none */
	char mac[64];
	bool up, loopback;
	unsigned type; /* ARPHRD_* */
};

struct host_port {
	char device[64];
	unsigned port;
	char layer[32]; /* "InfiniBand", "Ethernet" */
	char state[32]; /* "ACTIVE" */
	char rate[64];
	char firmware[64];
	bool iwarp;
	char interface[32]; /* empty: none is known */
};

struct host {
	struct host_interface *interfaces;
	struct host_port *ports;
	size_t interface_count, port_count;
};

void host_read(struct host *host);
void host_free(struct host *host);
const struct host_interface *host_interface_find(const struct host *host, const char *name);

/* ---- cause.c ---- */

/* Why the name does not open, as one sentence, and what to do, as another one, in @text. */
void cause_write(const struct host *host, const struct conf_name *name, const struct probe *probe,
		 char text[TEXT]);

/* ---- print.c ---- */

struct report {
	const struct conf_file *file;
	const struct host *host;
	bool json, details;
	size_t printed;
};

void report_begin(struct report *report);
void report_name(struct report *report, const struct conf_name *name, const struct probe *probe);
void report_end(struct report *report);

/* ---- generate.c ---- */

void generate(const struct host *host, FILE *to);

#endif
