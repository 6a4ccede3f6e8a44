/* SPDX-License-Identifier: BSD-2-Clause */
/* The internals of the stand-in. One lock, ff.lock, guards everything. */
#ifndef FAKE_FABRIC_IMPL_H
#define FAKE_FABRIC_IMPL_H

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_fabric.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FF_MAX_DATA	256

/* ---- script.c ---- */

/* Every call that is counted. */
#define FF_CALLS(X)                                                                                \
	X(dlopen)                                                                                  \
	X(dlsym)                                                                                   \
	X(epoll_create1)                                                                           \
	X(epoll_ctl)                                                                               \
	X(eventfd)                                                                                 \
	X(getaddrinfo)                                                                             \
	X(getrandom)                                                                               \
	X(madvise)                                                                                 \
	X(fi_getinfo)                                                                              \
	X(fi_dupinfo)                                                                              \
	X(fi_fabric)                                                                               \
	X(fi_domain)                                                                               \
	X(fi_domain_bind)                                                                          \
	X(fi_mr_regattr)                                                                           \
	X(fi_mr_complete)                                                                          \
	X(fi_mr_bind)                                                                              \
	X(fi_mr_enable)                                                                            \
	X(fi_close_mr)                                                                             \
	X(fi_eq_open)                                                                              \
	X(fi_eq_read)                                                                              \
	X(fi_eq_readerr)                                                                           \
	X(fi_cq_open)                                                                              \
	X(fi_cq_read)                                                                              \
	X(fi_cq_readerr)                                                                           \
	X(fi_getwait)                                                                              \
	X(fi_trywait)                                                                              \
	X(fi_passive_ep)                                                                           \
	X(fi_pep_bind)                                                                             \
	X(fi_listen)                                                                               \
	X(fi_getname)                                                                              \
	X(fi_getpeer)                                                                              \
	X(fi_getopt)                                                                               \
	X(fi_endpoint)                                                                             \
	X(fi_srx_context)                                                                          \
	X(fi_ep_bind)                                                                              \
	X(fi_enable)                                                                               \
	X(fi_connect)                                                                              \
	X(fi_connected)                                                                            \
	X(completion)                                                                              \
	X(fi_accept)                                                                               \
	X(fi_reject)                                                                               \
	X(fi_shutdown)                                                                             \
	X(fi_send)                                                                                 \
	X(fi_recv)                                                                                 \
	X(fi_write)                                                                                \
	X(fi_read)

#define FF_CALL_ENUM(name) CALL_##name,
enum ff_call { FF_CALLS(FF_CALL_ENUM) };

/* Data that a peer sends instead of those that it was given. */
struct ff_answer {
	bool is_set;
	size_t size;
	char data[FF_MAX_DATA];
};

struct ff_state {
	pthread_mutex_t lock;
	unsigned alive[FF_KINDS];
	struct ff_seen seen;
	struct ff_provider provider;
	struct ff_pep *peps;
	struct ff_ep *eps;
	uint16_t next_port;
	struct ff_answer answer;
};
extern struct ff_state ff;

void ff_lock(void);
void ff_unlock(void);
/*
 * Counts the call. Returns 0 with the lock taken, or the error with which it is scripted to fail,
 * positive, without the lock.
 */
int ff_enter(enum ff_call call);
/* Does what ff_enter does for a step of a call: the lock is taken already, and stays so. */
int ff_step_locked(enum ff_call call);
void ff_alive_add(enum ff_kind kind, int n);
bool fake_is_inside(void);
/* Ends the test if the code under test has broken a rule of libfabric. */
void ff_require(bool kept, const char *rule);

/* ---- host.c ---- */

/* A read of a completion queue passes the time that ff_clock_stop said. */
void ff_clock_read(void);
/* Makes @fd readable, or no longer. */
void ff_fd_set(int fd, bool readable);
int ff_fd_open(void);
/* Returns an epoll set of those descriptors that are not -1. */
int ff_set_open(const int *fds, unsigned n);
void ff_set_add(int set, int fd, uint64_t data);
/*
 * Sockets of TCP at the loopback address: one that listens at *port, or if that is 0 at a free one,
 * which it becomes (network byte order); the two ends of a connection to it. *from becomes the
 * address of the first one.
 */
int ff_socket_listen(in_port_t *port);
int ff_socket_connect(in_port_t port, struct sockaddr_storage *from);
int ff_socket_accept(int listener);
/* Does the set report a descriptor? */
bool ff_set_reports(int set);

/* ---- info.c ---- */

struct fi_info *ff_info_copy(const struct fi_info *info);
void ff_info_free(struct fi_info *info);
int ff_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info);
void ff_freeinfo(struct fi_info *info);
struct fi_info *ff_dupinfo(const struct fi_info *info);
const char *ff_strerror(int number);
bool ff_memory_is_monitored(void);
int ff_open(uint32_t version, const char *name, void *attr, size_t size, uint64_t flags,
	    struct fid **fid, void *context);

/* ---- domain.c ---- */

struct ff_fabric {
	struct fid_fabric fid;
	unsigned users;
};

struct ff_mr {
	struct fid_mr fid;
	struct ff_domain *domain;
	struct ff_mr *next;
	char *base;
	size_t length;
	uint64_t bias; /* libfabric's tcp adds it to the addresses of a peer */
	uint64_t access;
	unsigned users; /* beside the first one */
	bool enabled;
};

struct ff_domain {
	struct fid_domain fid;
	struct ff_fabric *fabric;
	struct ff_eq *mr_eq; /* registrations are asynchronous */
	struct ff_mr *mrs;
	int mr_mode;
	bool virtual_addresses;
	uint64_t next_key;
	unsigned users;
};

int ff_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
/*
 * Returns @length bytes at @address of the region with @key, or NULL if no peer may access it like
 * that.
 */
char *ff_mr_find(struct ff_domain *domain, uint64_t key, uint64_t address, size_t length,
		 uint64_t access);
/* Ends the test unless a segment's descriptor is that of a region that has it. */
void ff_desc_check(struct ff_domain *domain, const struct iovec *iov, void **desc, size_t count,
		   uint64_t access);

/* ---- queue.c ---- */

struct ff_event {
	struct ff_event *next;
	uint32_t type; /* 0: a failure */
	fid_t fid;
	void *context;
	struct fi_info *info;
	int err;
	size_t size;
	char data[FF_MAX_DATA];
};

struct ff_eq {
	struct fid_eq fid;
	struct ff_fabric *fabric;
	int fd;
	/*
	 * What tells of the ends of connections, until fi_trywait, and of other events, as long as
	 * there are some; both are fd if that is no set.
	 */
	int signal, arrivals;
	unsigned users;
	struct ff_event *first, **end;
	char err_data[FF_MAX_DATA];
};

struct ff_entry {
	struct ff_entry *next;
	struct fi_cq_err_entry entry;
};

struct ff_cq {
	struct fid_cq fid;
	struct ff_domain *domain;
	enum fi_cq_format format;
	int fd; /* -1: it has none */
	/*
	 * The first one is readable while something is queued. If it is in a set, that is readable
	 * with a completion, until a read of the queue finds that the set reports it, and until
	 * fi_trywait. -1: there is none.
	 */
	int signals[2];
	unsigned users;
	struct ff_entry *first, **end;
};

int ff_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
	       void *context);
int ff_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
	       void *context);
int ff_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
/* An endpoint is bound to it. */
void ff_eq_use(struct ff_eq *eq);
/* Queues a copy of @event. */
void ff_event_add(struct ff_eq *eq, const struct ff_event *event);
/* Removes the events about @fid. */
void ff_events_drop(struct ff_eq *eq, fid_t fid);
/* Returns the entry, in which data may be stored. */
struct fi_cq_err_entry *ff_entry_add(struct ff_cq *cq, void *context, uint64_t flags, size_t length,
				     int err);

/* ---- connect.c, transfer.c ---- */

struct ff_pep {
	struct fid_pep fid;
	struct ff_pep *next;
	struct ff_fabric *fabric;
	struct ff_eq *eq;
	struct fi_info *info;
	const struct fi_info *given; /* libfabric's sockets refers to it as long as it lives */
	bool listening;
	int socket; /* -1: there are none */
};

struct ff_request {
	struct fid fid;
	struct ff_ep *from; /* NULL: it has given up */
	int socket;	    /* that was accepted; -1: there are none */
};

/* Or a write that completes a receive, whose bytes are in place already. */
struct ff_message {
	struct ff_message *next;
	struct ff_ep *from; /* its send completes when a receive takes it; NULL: it has */
	void *context;
	uint64_t flags; /* of the completion that it is for the sender */
	bool has_data;
	uint64_t data;
	size_t written;
	size_t length;
	char bytes[];
};

struct ff_receive {
	struct ff_receive *next;
	void *context;
	struct iovec iov[8];
	size_t count;
};

/* An endpoint; or a shared receive context, which has receives, and endpoints that take them. */
struct ff_ep {
	struct fid_ep fid;
	struct ff_ep *next;
	struct ff_domain *domain;
	struct ff_ep *srx;    /* whose receives it takes */
	struct ff_ep *takers; /* of a shared receive context */
	struct ff_ep *next_taker;
	struct ff_eq *eq;
	struct ff_cq *tx, *rx;
	struct ff_ep *peer;
	struct ff_request *request; /* that it asks or answers */
	struct sockaddr_storage local, remote;
	int socket; /* -1: it has none yet, or there are none */
	bool socket_is_shut;
	bool enabled, used, connected, shut;
	bool delivers; /* sends complete when a receive has taken them */
	struct ff_receive *receives, **receives_end;
	struct ff_message *messages, **messages_end; /* without a receive */
};

int ff_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
		void *context);
int ff_srx_context(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep,
		   void *context);
int ff_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
extern struct fi_ops_msg ff_msg_ops;
extern struct fi_ops_rma ff_rma_ops;
/* A completion queue is read: a write may be placed. The lock is held. */
void ff_late_write_step(void);
/* The endpoint, from which a write may come that is not placed yet, is closed. The lock is held. */
void ff_late_write_drop(const struct ff_ep *ep);
/* Ends the connection of @ep. Both sides get an event if @told, else only the peer. */
void ff_ep_end(struct ff_ep *ep, bool told);
/* Flushes the endpoint's own receives. */
void ff_receives_flush(struct ff_ep *ep);
void ff_receives_drop(struct ff_ep *ep);
void ff_messages_free(struct ff_ep *ep);
/* Flushes sends that have not completed, of messages that @ep has not taken. */
void ff_sends_flush(struct ff_ep *ep);

#endif
