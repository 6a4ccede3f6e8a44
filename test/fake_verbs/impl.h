/* SPDX-License-Identifier: BSD-2-Clause */
/* The internals of the stand-in. One lock, fv.lock, guards everything. */
#ifndef FAKE_VERBS_IMPL_H
#define FAKE_VERBS_IMPL_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_verbs.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- script.c ---- */

/* Every call that is counted: its name, and whether fv_trace lists it. */
#define FV_CALLS(X)                                                                                \
	X(ibv_get_device_list, 1)                                                                  \
	X(ibv_free_device_list, 1)                                                                 \
	X(ibv_open_device, 1)                                                                      \
	X(ibv_close_device, 1)                                                                     \
	X(ibv_query_device, 1)                                                                     \
	X(ibv_query_device_ex, 1)                                                                  \
	X(ibv_query_port, 1)                                                                       \
	X(ibv_query_gid, 0)                                                                        \
	X(ibv_fork_init, 1)                                                                        \
	X(ibv_is_fork_initialized, 1)                                                              \
	X(ibv_get_async_event, 0)                                                                  \
	X(ibv_ack_async_event, 0)                                                                  \
	X(ibv_alloc_pd, 1)                                                                         \
	X(ibv_dealloc_pd, 1)                                                                       \
	X(ibv_reg_mr, 1)                                                                           \
	X(ibv_dereg_mr, 1)                                                                         \
	X(ibv_alloc_mw, 1)                                                                         \
	X(ibv_dealloc_mw, 1)                                                                       \
	X(ibv_bind_mw, 0)                                                                          \
	X(ibv_create_comp_channel, 1)                                                              \
	X(ibv_destroy_comp_channel, 1)                                                             \
	X(ibv_create_cq, 1)                                                                        \
	X(ibv_destroy_cq, 1)                                                                       \
	X(ibv_resize_cq, 1)                                                                        \
	X(ibv_req_notify_cq, 0)                                                                    \
	X(ibv_poll_cq, 0)                                                                          \
	X(ibv_get_cq_event, 0)                                                                     \
	X(ibv_ack_cq_events, 0)                                                                    \
	X(ibv_create_srq, 1)                                                                       \
	X(ibv_modify_srq, 1)                                                                       \
	X(ibv_destroy_srq, 1)                                                                      \
	X(ibv_post_srq_recv, 0)                                                                    \
	X(ibv_create_qp, 1)                                                                        \
	X(ibv_modify_qp, 1)                                                                        \
	X(ibv_query_qp, 1)                                                                         \
	X(ibv_destroy_qp, 1)                                                                       \
	X(ibv_create_ah, 1)                                                                        \
	X(ibv_destroy_ah, 1)                                                                       \
	X(ibv_post_send, 0)                                                                        \
	X(ibv_post_recv, 0)                                                                        \
	X(rdma_create_event_channel, 1)                                                            \
	X(rdma_destroy_event_channel, 1)                                                           \
	X(rdma_get_devices, 1)                                                                     \
	X(rdma_free_devices, 1)                                                                    \
	X(rdma_create_id, 1)                                                                       \
	X(rdma_destroy_id, 1)                                                                      \
	X(rdma_migrate_id, 1)                                                                      \
	X(rdma_set_option, 1)                                                                      \
	X(rdma_bind_addr, 1)                                                                       \
	X(rdma_resolve_addr, 1)                                                                    \
	X(rdma_resolve_route, 1)                                                                   \
	X(rdma_connect, 1)                                                                         \
	X(rdma_establish, 1)                                                                       \
	X(rdma_listen, 1)                                                                          \
	X(rdma_accept, 1)                                                                          \
	X(rdma_reject, 1)                                                                          \
	X(rdma_disconnect, 1)                                                                      \
	X(rdma_notify, 1)                                                                          \
	X(rdma_init_qp_attr, 1)                                                                    \
	X(rdma_get_cm_event, 0)                                                                    \
	X(rdma_ack_cm_event, 0)                                                                    \
	X(bind, 0)                                                                                 \
	X(connect, 0)                                                                              \
	X(epoll_create1, 0)                                                                        \
	X(epoll_ctl, 0)                                                                            \
	X(eventfd, 0)                                                                              \
	X(fcntl, 0)                                                                                \
	X(getaddrinfo, 0)                                                                          \
	X(getifaddrs, 0)                                                                           \
	X(if_nametoindex, 0)                                                                       \
	X(pthread_create, 0)                                                                       \
	X(socket, 0)

#define FV_CALL_ENUM(name, traced) CALL_##name,
enum fv_call { FV_CALLS(FV_CALL_ENUM) FV_CALL_COUNT };
#undef FV_CALL_ENUM

struct fv_state {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* lock; a call was made, let go or answered, an object is gone */
	unsigned alive[FV_KINDS];
	struct fv_seen seen;
	struct fv_device devices[FV_DEVICES];
	struct fv_interface interfaces[FV_INTERFACES];
	bool interface_down[FV_INTERFACES];
	struct fv_context *contexts;
	struct fv_cq *cqs;
	struct fv_qp *qps;
	struct fv_id_state *ids; /* newest first */
	uint32_t next_number;	 /* of QPs, keys, handles */
	uint32_t next_qp_num;	 /* 0: any */
	uint16_t next_port;
};
extern struct fv_state fv;

/*
 * Counts the call, and waits if it is held. Returns 0 with the lock taken, or the error that the
 * call is scripted to fail with, without the lock; fv_enter_errno sets errno to it, too.
 */
int fv_enter(enum fv_call call);
int fv_enter_errno(enum fv_call call);
void fv_lock(void);
void fv_unlock(void);
/* Waits for fv.changed; the calling thread sleeps as one in a system call of RDMA would. */
void fv_sleep_relock(const char *why);
void fv_alive_add(enum fv_kind kind, int n);
bool fake_is_inside(void);
/* Ends the test: the code under test has broken a rule of the libraries. */
void fv_require(bool kept, const char *rule);

/* Frees it so that a later use of its pointers crashes. */
void fv_free_poisoned(void *object, size_t size);
/* A number of its own for each object. The lock is held. */
uint32_t fv_number(void);
/* An eventfd that is readable as often as fv_fd_add was called more than fv_fd_take. */
int fv_fd_open(void);
void fv_fd_add(int fd);
/* Takes one. Returns false, with errno EAGAIN, if there is none. */
bool fv_fd_take(int fd);

/* ---- device.c ---- */

struct fv_context {
	struct verbs_context ex; /* its last member is the ibv_context */
	struct fv_context *next;
	struct fv_device *device;
	bool counted; /* of ibv_open_device, and not librdmacm's */
	struct fv_async *events, **events_end;
};

struct fv_async {
	struct fv_async *next;
	struct ibv_async_event event;
};

static inline struct fv_context *fv_context_of(const struct ibv_context *ibv)
{
	return (struct fv_context *)((uintptr_t)ibv - offsetof(struct fv_context, ex.context));
}

static inline struct fv_device *fv_device_of(const struct ibv_context *ibv)
{
	return fv_context_of(ibv)->device;
}

/* librdmacm's own context of a device. The lock is held. */
struct ibv_context *fv_cm_context(int device);
/* Removes the queued asynchronous events about @object, and waits for the one being handled. */
void fv_async_drop_relock(const void *object);
/* The operations behind libibverbs' inline functions; queue.c and object.c. */
extern const struct ibv_context_ops fv_ops;

/* ---- object.c, queue.c ---- */

struct fv_cq {
	struct ibv_cq ibv;
	struct fv_cq *next;
	enum fv_armed armed;
	unsigned count, room; /* of entries */
	struct ibv_wc *entries;
	unsigned unread; /* events on the channel */
	unsigned unacked;
	unsigned users; /* QPs */
};

struct fv_wr {
	struct fv_wr *next;
	uint64_t wr_id;
	bool signalled;
};

struct fv_wr_list {
	struct fv_wr *first, **end;
};

struct fv_srq {
	struct ibv_srq ibv;
	unsigned users; /* QPs */
	struct fv_wr_list recvs;
};

struct fv_qp {
	struct ibv_qp ibv;
	struct fv_qp *next;
	bool sq_sig_all;
	unsigned max_inline;
	struct fv_wr_list sends, recvs;
};

/* The requests of @qp are flushed or dropped. The lock is held. */
void fv_qp_flush(struct fv_qp *qp);
void fv_qp_forget(struct fv_qp *qp);
/* Waits while an iWARP attempt with this QP has no answer. The lock is held. */
void fv_qp_wait_answer_relock(uint32_t qp_num);

/* Makes the system call of FV_POSTS_BY_CALL, without the lock. */
void fv_tell_device(const struct ibv_qp *qp);

int fv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int fv_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void fv_srq_forget(struct fv_srq *srq);
int fv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_mw *fv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int fv_dealloc_mw(struct ibv_mw *mw);
int fv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* Counts a request as posted. The lock is held. */
void fv_wr_add(struct fv_wr_list *list, uint64_t wr_id, bool signalled);

/* ---- host.c ---- */

/* The interface with @addr, or NULL. The lock is held. */
const struct fv_interface *fv_interface_of(const struct sockaddr *addr);

#endif
