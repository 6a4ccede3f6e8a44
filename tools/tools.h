/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tools share: numbers of the command line, addresses, names of results, events and
 * statuses, percentiles, progress on a terminal, and one plain sentence for each common failure.
 *
 * No function prints anything, except those of progress and of lost output. All may be called by
 * any thread, but one set of samples only by one thread at a time.
 */
#ifndef TOOLS_H
#define TOOLS_H

#include <edition.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* ---- the edition of DAT that a tool is compiled for ---- */

/* TOOL_NAME is the name of a program for this edition; it has the digit of 2.0. */
#if DAT_EDITION == 2
#define TOOL_NAME(name) name "2"
#define TOOL_DAT	"2.0"
#define TOOL_IA		"ofa-v2-ib0" /* what dat.conf calls the first IA, as a rule */
#define REMOTE_ADDRESS	virtual_address
#else
#define TOOL_NAME(name) name
#define TOOL_DAT	"1.2"
#define TOOL_IA		"OpenIB-cma"
#define REMOTE_ADDRESS	target_address
#endif

enum {
	TOOL_PORT = 45248, /* at which dtest listens, and datinfo --peer asks */
};

/* The private data of a request by datinfo --peer, with its NUL. */
#define TOOL_QUESTION "datinfo"

/* ---- calls.c ---- */

/* dat_lmr_create of virtual memory that peers address by its virtual addresses. */
DAT_RETURN tool_lmr_create(DAT_IA_HANDLE ia, void *at, DAT_VLEN length, DAT_PZ_HANDLE pz,
			   DAT_MEM_PRIV_FLAGS privileges, DAT_LMR_HANDLE *lmr,
			   DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context);
/* dat_cr_reject without private data. */
DAT_RETURN tool_cr_reject(DAT_CR_HANDLE cr);
/*
 * If the request is only a question whether this server can be reached, see TOOL_QUESTION, rejects
 * it and returns true. Its client is then still to come.
 */
bool tool_question_answer(DAT_CR_HANDLE cr);

enum {
	TOOL_RETURN = 128, /* bytes that are enough for the names of every result */
};
/*
 * Writes "DAT_INSUFFICIENT_RESOURCES DAT_RESOURCE_MEMORY", or a text for a code that DAT does not
 * have, and returns @text.
 */
const char *tool_return_text(DAT_RETURN ret, char *text, size_t size);

/* ---- text.c ---- */

/*
 * Has our providers tell, too, that this host lacks what a line of dat.conf names, unless
 * DAPL_DBG_TYPE is set. To be called before the first call of DAT, by a process with one thread.
 */
void tool_causes_show(void);

/*
 * When the process exits, it says and has status 1 if output was lost, because a disk is full or
 * for another reason. @tool is its name, which stays. To be called once, before any output.
 */
void tool_output_watch(const char *tool);

/* Returns the microseconds of a clock that no one sets. */
double tool_usec_now(void);

/*
 * Returns the bytes that a tool may register: half of the host's memory, because the system would
 * end programs to pin more. A process of 32 bits has less: half of what a size_t counts.
 */
uint64_t tool_memory_most(void);

/*
 * Parses a decimal number from @min to @max and nothing else. Returns 0, or -1 with *value as it
 * was.
 */
int tool_number_parse(const char *text, unsigned long min, unsigned long max, unsigned long *value);

/* Returns "DAT_CONNECTION_EVENT_ESTABLISHED", or a text for an event without a name. */
const char *tool_event_name(DAT_EVENT_NUMBER number);
/* Returns "DAT_DTO_ERR_FLUSHED", or a text for a status without a name. */
const char *tool_status_name(DAT_DTO_COMPLETION_STATUS status);

/* Writes the address in numbers. Returns 0, or -1 for an address that is neither IPv4 nor IPv6. */
int tool_address_text(const struct sockaddr *address, char *text, size_t size);
/* Cuts off the interface of a link-local address, which is called otherwise on another host. */
void tool_address_cut(char *text);

/*
 * A host name may stand for addresses of both families, but an IA has one address: takes the first
 * of this family, else the last. Asks the resolver, so it may block for seconds. Returns NULL, or
 * why there is none.
 */
const char *tool_address_find(const char *host, sa_family_t family,
			      struct sockaddr_storage *address);

/*
 * Prints @text on the standard output as a string of JSON. A byte that is not UTF-8 becomes the
 * character of its number.
 */
void tool_json_string(const char *text);

/*
 * Prints a line on the terminal that the next one replaces. Prints nothing if standard error is no
 * terminal, or one that cannot erase (TERM=dumb), and no more than five lines a second.
 */
void tool_progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Removes that line: to be called before any other output, and at the end. */
void tool_progress_clear(void);

/* ---- samples.c: times of many operations ---- */

struct samples {
	double *kept;
	size_t room;  /* elements of kept */
	size_t count; /* of all that were added */
	double min, max, sum;
	bool sorted;
	unsigned long long random;
};

/*
 * Makes room for so many, at least one. Of more that are added a random choice is kept, so that the
 * percentiles are estimates then; count, minimum, maximum and mean are exact. Returns 0, or -1 if
 * there is no memory.
 */
int samples_create(struct samples *samples, size_t room);
void samples_destroy(struct samples *samples);
/* Forgets all samples and keeps the room. */
void samples_clear(struct samples *samples);
void samples_add(struct samples *samples, double value);
/* Returns 0 without samples, as the next function does. */
double samples_mean(const struct samples *samples);
/*
 * Returns the smallest kept value that @percent of the kept values do not exceed: 50 is the median,
 * 99 what one in a hundred exceeds.
 */
double samples_percentile(struct samples *samples, double percent);

/* ---- sentences.c, connections.c: what to tell a person who did not write the program ---- */

enum {
	TOOL_SENTENCE = 1024, /* bytes that are enough for every sentence and its NUL */
};

/* text.c: writes a sentence of this length at most, and returns @text. */
const char *tool_sentence(char *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Each writes one sentence, without a full stop, or returns NULL if it knows none for this result;
 * else it returns text. No sentence has one of the words ERR, FAIL, PASSED or waiting, for which
 * scripts look.
 */

/*
 * dat_ia_open of this name returned ret. Registry and provider have told the cause, if it is known:
 * see tool_causes_show.
 */
const char *tool_open_sentence(DAT_RETURN ret, const char *name, char *text);

/* dat.conf(5): a program opens lines of its own minor version, and of larger ones. */
bool tool_line_is_of_edition(const DAT_PROVIDER_INFO *info);
/* Why programs of this edition do not open this line, whatever is on this host. */
const char *tool_line_sentence(const DAT_PROVIDER_INFO *info, char *text);

/* dat_psp_create for this port returned ret. */
const char *tool_listen_sentence(DAT_RETURN ret, DAT_CONN_QUAL port, char *text);

/* A connection attempt to this server. */
struct tool_attempt {
	const struct sockaddr *local; /* the IA's address; may be NULL */
	const struct sockaddr *server;
	DAT_CONN_QUAL port;
	DAT_TIMEOUT timeout; /* of dat_ep_connect, in microseconds */
	bool one_client;     /* the server is a dtest, which takes one client */
};

/* dat_ep_connect returned ret. */
const char *tool_connect_sentence(DAT_RETURN ret, const struct tool_attempt *attempt, char *text);
/* The attempt ended with this event. */
const char *tool_attempt_sentence(DAT_EVENT_NUMBER event, const struct tool_attempt *attempt,
				  char *text);
/* A connection that was established has ended with this event. */
const char *tool_end_sentence(DAT_EVENT_NUMBER event, char *text);
/* A transfer completed with this status. */
const char *tool_status_sentence(DAT_DTO_COMPLETION_STATUS status, char *text);
/*
 * The interface of this address of an IA is down, or, if need_link, has no link. NULL: it is up, or
 * not of this host.
 */
const char *tool_interface_sentence(const struct sockaddr *local, bool need_link, char *text);

#endif
