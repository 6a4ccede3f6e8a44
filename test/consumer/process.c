/* SPDX-License-Identifier: BSD-2-Clause */
/* Other processes, sockets and threads, and what this process has. */
#define CONSUMER_IMPLEMENTATION
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#include "consumer.h"

/* ---- this process ---- */

static int saved_stderr, redirected_stderr;

void stderr_redirect(void)
{
	saved_stderr = dup(STDERR_FILENO);
	redirected_stderr = stderr_capture();
}

const char *stderr_restore(void)
{
	const char *text;

	fflush(stderr);
	text = output_text(redirected_stderr);
	ck_assert_int_ge(dup2(saved_stderr, STDERR_FILENO), 0);
	close(saved_stderr);
	close(redirected_stderr);
	return text;
}

/* The kernel does not apply the limit to a process with CAP_IPC_LOCK. */
static void drop_ipc_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	ck_assert_int_eq(syscall(SYS_capget, &header, data), 0);
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
	ck_assert_int_eq(syscall(SYS_capset, &header, data), 0);
}

void memlock_limit(size_t bytes)
{
	const struct rlimit limit = { bytes, bytes };

	drop_ipc_lock();
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

/* ---- other processes ---- */

pid_t process_start(void (*body)(int fd), int *fd)
{
	int ends[2];
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(ends[0]);
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*fd = ends[0];
	return pid;
}

void process_end(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		      "the other process ended with status %#x", status);
}

void channel_send(int fd, const void *what, size_t size)
{
	ck_assert_int_eq(send(fd, what, size, MSG_NOSIGNAL), (ssize_t)size);
}

void channel_recv(int fd, void *what, size_t size)
{
	ssize_t got = recv(fd, what, size, MSG_WAITALL);

	ck_assert_msg(got == (ssize_t)size, "the other process ended without sending");
}

/* ---- sockets ---- */

int socket_open(void)
{
	const struct timeval patience = { .tv_sec = 100 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	ck_assert_int_ge(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

int socket_listen(const struct side *side, DAT_CONN_QUAL *qual)
{
	struct sockaddr_in address = side->address;
	socklen_t size = sizeof(address);
	int fd = socket_open();

	address.sin_port = 0;
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 16), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	*qual = ntohs(address.sin_port);
	return fd;
}

/* ---- threads ---- */

pthread_t consumer_thread_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
	return thread;
}

static void *waiter_main(void *arg)
{
	struct waiter *waiter = arg;

	if (waiter->cancel_async)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	waiter->tid = gettid();
	if (waiter->evd)
		waiter->ret = dat_evd_wait(waiter->evd, DAT_TIMEOUT_INFINITE, waiter->threshold,
					   &waiter->event, &waiter->nmore);
	else
		waiter->ret = dat_cno_wait(waiter->cno, DAT_TIMEOUT_INFINITE, &waiter->triggered);
	return NULL;
}

/* Asks the kernel, because no DAT call says whether a thread is in dat_cno_wait. */
static bool sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	stat = fopen(path, "r");
	ck_assert_ptr_nonnull(stat);
	ck_assert_int_eq(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
	fclose(stat);
	return state == 'S';
}

void waiter_start(struct waiter *waiter)
{
	DAT_EVENT event;

	waiter->tid = 0;
	if (!waiter->threshold)
		waiter->threshold = 1;
	waiter->thread = consumer_thread_start(waiter_main, waiter);
	while (!waiter->tid)
		sched_yield();
	/* An EVD with a waiter refuses other callers; the thread sleeps only after that. */
	while (waiter->evd && dat_evd_dequeue(waiter->evd, &event) != BAD_STATE(EVD_WAITER))
		sched_yield();
	while (!sleeps(waiter->tid))
		sched_yield();
}

DAT_RETURN waiter_join(struct waiter *waiter)
{
	consumer_thread_join(waiter->thread);
	return waiter->ret;
}
