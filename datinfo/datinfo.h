/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datinfo: what dat.conf names, and what this host has.
 *
 *	datinfo.c	options, and what they run
 *	lines.c		the lines of dat.conf
 *	providers.c	the libraries that lines name
 *	probe.c		the process of its own in which a name is opened
 *	open.c		what that does, with the registry of one edition of DAT
 *	peer.c		and with --peer, whether a server can be reached over the name
 *	registry.c	the calls of that registry
 *	host.c		RDMA devices and network interfaces of this host, from sysfs
 *	cause.c		why a name does not open, and what to do
 *	print.c		the list in columns, for people
 *	json.c		and as JSON, for programs
 *	check.c		what is wrong in a dat.conf
 *	generate.c	a dat.conf for this host
 */
#ifndef DATINFO_H
#define DATINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT 512

struct conf_name;
struct peer_target;
struct probe;

/* ---- open.c, which is compiled for each edition of DAT ---- */

struct edition {
	unsigned major, minor;
	const char *registry;  /* the library of programs that opens the names */
	const char *cma, *ofi; /* the providers of this project */
	/*
	 * Opens the name and closes it, or if not @opens only loads its library, and writes to
	 * @probe how far it came. While it is open, asks the peer, unless that is NULL. Reasons are
	 * printed. The process must have loaded no registry.
	 */
	void (*open)(const struct conf_name *name, bool opens, const struct peer_target *target,
		     struct probe *probe);
};

extern const struct edition edition_dat1, edition_dat2;

/* ---- lines.c ---- */

struct conf_name {
	unsigned line;
	char *name, *library, *params;
	unsigned major, minor;	       /* of the API */
	const struct edition *edition; /* which has this major version; NULL: none has */
	bool thread_safe;
	unsigned doubtful_field; /* it has more than the word by which it begins; 0: none */
	const char *refused;	 /* why the line is no entry; the other fields are not set */
	const char *ignored;	 /* why no program uses it; the other fields are not set */
};

struct conf_file {
	const char *path;
	char *text;		 /* of the whole file, up to a NUL byte */
	struct conf_name *names; /* in the order of the file */
	size_t count;
};

/* Returns where libdat reads dat.conf: the first of its places that can be opened. */
const char *conf_file_find(void);
/* Reads and parses a dat.conf. Returns 0 or -errno. @path must live as long as @file. */
int conf_file_read(const char *path, struct conf_file *file);
void conf_file_free(struct conf_file *file);
/* Returns the text from the beginning of this line on. The one at @text is line 1. */
const char *conf_line_find(const char *text, unsigned line);
/*
 * Writes @text, of a dat.conf, as a terminal may have it, see conf_text_clean, and returns @clean.
 * What does not fit is cut off.
 */
const char *conf_printable(const char *text, char *clean, size_t size);

/* ---- providers.c ---- */

enum provider_kind {
	PROVIDER_UNKNOWN,
	PROVIDER_CMA, /* of this project, over RDMA devices */
	PROVIDER_OFI, /* of this project, over libfabric */
	PROVIDER_OTHER_RDMA,
};

/* These know a library by the name of its file, whatever its folder and its version. */
enum provider_kind provider_kind_of(const char *library);
/*
 * If the library of a line is known to be of another edition of DAT than the line, returns that of
 * the library, and writes what is wrong. Else returns NULL.
 */
const struct edition *provider_misplaced(const struct conf_name *name, char *text, size_t size);
/* Tells whether it takes the parameters of libdaplcma, which can be written in its place. */
bool provider_is_replaced(const char *library);
/*
 * Returns why the provider can't use these params, if it is one of this project, or NULL if it can.
 */
const char *provider_params_refused(const char *library, const char *text);

/* ---- probe.c ---- */

enum probe_stage {
	PROBE_CRASHED, /* the process ended before it had told how far it came */
	PROBE_TIMED_OUT,
	PROBE_NO_REGISTRY, /* that of the edition can't be loaded */
	PROBE_NO_LIBRARY,  /* the provider can't be loaded */
	PROBE_NO_PROVIDER, /* it is loaded, and is no provider */
	PROBE_LOADED,	   /* it is one: all that probe_library looks for */
	PROBE_REFUSED,	   /* dat_ia_open has failed */
	PROBE_OPENED,
	PROBE_NOT_TRIED, /* this process had no means to; the message says which */
};

struct version {
	unsigned major, minor; /* both 0: it is not known */
};

struct versions {
	struct version api, provider, hardware, firmware, libfabric;
};

/* A member of what dat_ia_query returns. */
struct attribute {
	const char *name; /* a constant of this program */
	uint64_t value;
};

struct named_attribute {
	char name[64], value[64];
};

/* Whom --peer asks. */
struct peer_target {
	const char *host;
	unsigned port;
	unsigned seconds; /* of the attempt to connect */
};

enum peer_state {
	PEER_NOT_ASKED, /* the name does not open, or no peer was given */
	PEER_REACHED,	/* a program of DAT has answered */
	PEER_REFUSED,	/* the host has answered, and no such program listens there */
	PEER_SILENT,	/* nobody has answered in time */
	PEER_NO_ROUTE,
	PEER_NO_HOST, /* the name of the host has no address that fits */
	PEER_FAILED,  /* a call has failed here */
};

struct peer {
	enum peer_state state;
	char address[128]; /* in numbers, as the next one; empty: not known */
	char source[128];  /* which the kernel gives to packets for it */
	double usec;	   /* from the request to the answer */
	char reason[2 * TEXT], remedy[TEXT];
};

/* The process that opens a name writes this to a pipe: it has no pointers to other memory. */
struct probe {
	enum probe_stage stage;
	int status;	     /* PROBE_CRASHED: of the process, as waitpid returns it */
	char ret[128];	     /* PROBE_REFUSED: the names of what dat_ia_open returned */
	char message[TEXT];  /* the last line that the provider or the dynamic linker printed */
	char registry[TEXT]; /* the files that were loaded */
	char library[TEXT];
	/* PROBE_OPENED: */
	char address[128]; /* in numbers; empty: not known */
	char vendor[256], provider[256];
	struct versions versions;
	struct attribute attributes[32];
	size_t attribute_count;
	struct named_attribute named[32]; /* which the provider has beside those */
	size_t named_count;
	struct peer peer;
};

/*
 * Opens the name as a program of its edition does, which it must have, and asks the peer unless it
 * is NULL. Takes up to probe_limit, as a provider may wait for a name server, and with a peer twice
 * as long as its own limit in addition.
 */
void probe_run(const struct conf_name *name, const struct peer_target *target, struct probe *probe);

/* Loads the registry and the provider, and opens nothing. */
void probe_library(const struct conf_name *name, struct probe *probe);

extern unsigned probe_limit; /* seconds */

/* Returns "reaches", or why it does not. */
const char *peer_state_text(enum peer_state state);

/* Returns "1.2", or NULL if it is not known. */
const char *version_text(const struct version *version, char *text, size_t size);

/* ---- host.c ---- */

struct host_interface {
	char name[32];
	char address[64];     /* in numbers: IPv4, else IPv6; empty: it has none */
	char addresses[TEXT]; /* as many as fit, with a blank between two */
	char mac[64];
	char speed[32]; /* Mb/s; empty: not known, as the others here */
	char mtu[32];	/* bytes */
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
	char guid[64];	   /* of the device */
	char gid[64];	   /* the first one */
	unsigned long lid; /* 0: it has none */
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
/* Returns the interface that has this address. It may have several. */
const struct host_interface *host_interface_of_address(const struct host *host, const char *text);
bool text_is_address(const char *text);

/* Where an IA is. What is NULL is not known. */
struct location {
	const struct host_interface *interface;
	const struct host_port *port;
};

struct location host_locate(const struct host *host, const char *address);

/* ---- cause.c ---- */

struct cause {
	char reason[2 * TEXT], remedy[TEXT];
};

/* Writes why the name does not open, and what to do. Both are empty if it does. */
void cause_find(const struct host *host, const struct conf_name *name, const struct probe *probe,
		struct cause *cause);

/* ---- print.c ---- */

/* Names of one edition that one remedy helps, such as the driver of an adapter. */
struct alike {
	const struct edition *edition; /* NULL: of none */
	char remedy[TEXT];
	unsigned count;
};

struct report {
	const struct conf_file *file;
	const struct host *host;
	const struct peer_target *peer; /* NULL: no peer is asked */
	const char *reason;		/* why there is no name to tell of; NULL: there may be */
	bool json, details;
	bool all;  /* names that do not open for like causes are printed, not counted */
	int width; /* of the column of names */
	struct alike alike[16];
	size_t alike_count;
};

void report_begin(struct report *report);
void report_name(struct report *report, const struct conf_name *name, const struct probe *probe);
void report_end(struct report *report);

/* ---- json.c ---- */

/* @peer is NULL if none is asked, @reason unless there is no name to tell of. */
void json_begin(const struct conf_file *file, const struct peer_target *peer, const char *reason);
/* @probe is NULL for a line that was not opened. */
void json_name(const struct host *host, const struct conf_name *name, const struct probe *probe,
	       const char *state, const struct cause *cause);
void json_end(void);

/* ---- check.c ---- */

/* Prints what is wrong in the file. Returns 1 if something is, else 0. */
int check(const char *path, const struct host *host);

/* ---- generate.c ---- */

void generate(const struct host *host, FILE *to);

#endif
