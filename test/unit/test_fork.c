/* SPDX-License-Identifier: BSD-2-Clause */
/* A child that is forked while another thread holds a lock of the provider. */
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../udapl/base/race.h"
#include "harness.h"

static struct pair pair;
static DAT_CNO_HANDLE cno;
static DAT_RMR_HANDLE rmr;
static DAT_PSP_HANDLE psp;
static char *shared;

static void setup(void)
{
	DAT_CONN_QUAL qual;

	pair_connect(&pair);
	ck_dat(cno_create(pair.client.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	ck_dat(rmr_create(pair.client.pz, &rmr));
	ck_dat(psp_create_any(pair.client.ia, &qual, pair.client.cr_evd, DAT_PSP_CONSUMER_FLAG,
			      &psp));
	shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

/* Always with the same cookie. */
static DAT_LMR_HANDLE register_shared(const struct side *side, char *address)
{
	static char cookie[DAT_LMR_COOKIE_SIZE];
	DAT_REGION_DESCRIPTION region = { .for_shared_memory = { address, &cookie } };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create_va(side->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, 4096, side->pz,
			     DAT_MEM_PRIV_LOCAL_READ_FLAG, &lmr, NULL, NULL, NULL, NULL));
	return lmr;
}

/* ---- another thread, which takes every lock, and holds one of them for good ---- */

static const char *const locks[] = {
	NULL, /* none */
	"provider_lock",
	"loan_lock",
	"cookie_lock",
	"pool->lock",
	"&ia->lock",
	"&ia->lmr_lock",
	"&service->lock",
	"&evd->lock",
	"&cno->lock",
	"&rmr->lock",
};

static const char *to_hold;
static _Thread_local bool is_actor;
static sem_t held;

static void hold_at_release(enum race_point point, const void *name)
{
	if (point != RACE_UNLOCK || !is_actor || !to_hold || strcmp(name, to_hold) != 0)
		return;
	sem_post(&held);
	while (true)
		pause();
}

static void *take_every_lock(void *unused)
{
	DAT_EVD_HANDLE borrowed = pair.client.async_evd;
	DAT_CNO_PARAM cno_param;
	DAT_EVENT event;
	DAT_LMR_HANDLE lmr;
	DAT_RMR_PARAM rmr_param;
	DAT_IA_HANDLE ia;

	is_actor = true;
	ck_dat(evd_free(side_create_evd(&pair.client, 8, DAT_EVD_SOFTWARE_FLAG)));
	ck_dat(ia_open((DAT_NAME_PTR) "fake0", 8, &borrowed, &ia));
	lmr = register_shared(&pair.client, shared);
	ck_dat_is(evd_dequeue(pair.client.recv_evd, &event), DAT_QUEUE_EMPTY);
	ck_dat(cno_query(cno, DAT_CNO_FIELD_ALL, &cno_param));
	ck_dat(rmr_query(rmr, DAT_RMR_FIELD_PZ_HANDLE, &rmr_param));
	ck_dat(lmr_free(lmr));
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG)); /* stops the service thread */
	to_hold = NULL;				     /* it took no lock of that name */
	sem_post(&held);
	return unused;
}

static void hold(const char *lock)
{
	pthread_t thread;

	if (!lock)
		return;
	to_hold = lock;
	sem_init(&held, 0, 0);
	atomic_store(&race_hook, hold_at_release);
	ck_assert_int_eq(pthread_create(&thread, NULL, take_every_lock, NULL), 0);
	while (sem_wait(&held))
		;
	ck_assert_msg(to_hold != NULL, "no thread takes %s", lock);
}

/* ---- what the child does ---- */

/* Each handle is refused, as one that was freed. No call waits. */
static bool inherited_handles_are_refused(void)
{
	const struct side *side = &pair.client;
	DAT_LMR_TRIPLET iov = segment(side, 0, 8);
	DAT_RMR_TRIPLET remote = target(&pair.server, 0, 8);
	DAT_EVD_HANDLE evd;
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_CONTEXT context;
	DAT_HANDLE_TYPE type;
	DAT_EP_STATE state;
	const DAT_RETURN refused[] = {
		ia_query(side->ia, &evd, 0, NULL, 0, NULL),
		ep_post_send(side->ep, 1, &iov, cookie_of(1), 0),
		ep_post_recv(side->ep, 1, &iov, cookie_of(1), 0),
		ep_post_rdma_write(side->ep, 1, &iov, cookie_of(1), &remote, 0),
		ep_post_rdma_read(side->ep, 1, &iov, cookie_of(1), &remote, 0),
		ep_get_status(side->ep, &state, NULL, NULL),
		ep_disconnect(side->ep, DAT_CLOSE_ABRUPT_FLAG),
		ep_reset(side->ep),
		ep_free(side->ep),
		evd_dequeue(side->recv_evd, &event),
		evd_wait(side->recv_evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore),
		try_post_se(side->recv_evd, 1),
		evd_resize(side->recv_evd, 100),
		evd_free(side->recv_evd),
		cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd),
		cno_free(cno),
		rmr_free(rmr),
		psp_free(psp),
		lmr_free(side->lmr),
		pz_free(side->pz),
		context_get(side->ep, &context),
		handle_type(side->ia, &type),
		ia_close(side->ia, DAT_CLOSE_GRACEFUL_FLAG),
		ia_close(side->ia, DAT_CLOSE_ABRUPT_FLAG),
	};

	for (unsigned i = 0; i < ARRAY_SIZE(refused); i++)
		if (DAT_GET_TYPE(refused[i]) != DAT_INVALID_HANDLE)
			return false;
	return true;
}

static void child_exit(void)
{
	exit(0);
}

static void child_exec(void)
{
	execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
}

static void child_uses_inherited(void)
{
	exit(inherited_handles_are_refused() ? 0 : 1);
}

/* IAs of its own work, and the same cookie names other memory. */
static void child_opens(void)
{
	struct pair own = { 0 };
	DAT_LMR_HANDLE lmr;

	pair_connect(&own);
	post_recv(&own.server, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	post_send(&own.client, 2, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(own.server.recv_evd, 1, DAT_DTO_SUCCESS);
	expect_dto(own.client.request_evd, 2, DAT_DTO_SUCCESS);
	lmr = register_shared(&own.client, shared + 4096);
	ck_dat(lmr_free(lmr));
	pair_close(&own);
	exit(0);
}

static void (*const actions[])(void) = {
	child_exit,
	child_exec,
	child_uses_inherited,
	child_opens,
};

static int status_of_child(void (*run)(void))
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		run();
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

/* The iteration is a pair of both tables. A child that hangs ends with the time limit. */
START_TEST(a_child_never_waits_for_a_missing_thread)
{
	hold(locks[_i / ARRAY_SIZE(actions)]);
	ck_assert_int_eq(status_of_child(actions[_i % ARRAY_SIZE(actions)]), 0);
}
END_TEST

/* ---- a lock of a library below, which the child can't release ---- */

static void child_open_is_refused(void)
{
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret = ia_open((DAT_NAME_PTR) "fake0", 8, &async_evd, &ia);

	exit(ret == DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE) ? 0 : 1);
}

/* Its own child is no better off. */
static void child_of_child_is_refused(void)
{
	exit(status_of_child(child_open_is_refused) ? 1 : 0);
}

START_TEST(a_child_that_might_wait_for_such_a_lock_opens_nothing)
{
	fake_be_in_call();
	ck_assert_int_eq(status_of_child(child_uses_inherited), 0);
	ck_assert_int_eq(status_of_child(child_open_is_refused), 0);
	ck_assert_int_eq(status_of_child(child_of_child_is_refused), 0);
	ck_dat(evd_free(side_create_evd(&pair.client, 8, DAT_EVD_DTO_FLAG))); /* the parent */
}
END_TEST

/* ---- the parent ---- */

static void child_does_all(void)
{
	if (!inherited_handles_are_refused())
		_exit(1);
	child_opens();
}

START_TEST(the_parent_goes_on)
{
	DAT_LMR_HANDLE lmr;

	lmr = register_shared(&pair.client, shared);
	for (unsigned i = 0; i < 3; i++) {
		post_recv(&pair.server, 1, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		ck_assert_int_eq(status_of_child(child_does_all), 0);
		post_send(&pair.client, 2, 0, 64, DAT_COMPLETION_DEFAULT_FLAG);
		expect_dto(pair.server.recv_evd, 1, DAT_DTO_SUCCESS);
		expect_dto(pair.client.request_evd, 2, DAT_DTO_SUCCESS);
	}
	ck_dat(lmr_free(lmr));
	ck_dat(rmr_free(rmr));
	ck_dat(psp_free(psp));
	ck_dat(cno_free(cno));
	pair_close(&pair);
}
END_TEST

/* ---- a fork on the service thread ---- */

static sem_t agent_returned;

/* The child returns from here, to the service thread's loop. */
static void fork_in_agent(DAT_PVOID status, DAT_EVD_HANDLE evd)
{
	pid_t pid;

	(void)evd;
	hold("&ia->lock");
	pid = fork();
	if (!pid)
		return;
	if (waitpid(pid, status, 0) != pid)
		*(int *)status = -1;
	sem_post(&agent_returned);
	while (true)
		pause(); /* ia->lock is held */
}

START_TEST(a_child_of_a_proxy_agent_ends_with_its_thread)
{
	int status = -1;
	DAT_OS_WAIT_PROXY_AGENT agent = { &status, fork_in_agent };
	DAT_CNO_HANDLE with_agent;
	DAT_EVD_HANDLE evd;

	sem_init(&agent_returned, 0, 0);
	ck_dat(cno_create(pair.client.ia, agent, &with_agent));
	ck_dat(evd_create(pair.client.ia, 8, with_agent, DAT_EVD_SOFTWARE_FLAG, &evd));
	post_se(evd, 1);
	while (sem_wait(&agent_returned))
		;
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("fork");

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_loop_test(cases, a_child_never_waits_for_a_missing_thread, 0,
			    (int)(ARRAY_SIZE(locks) * ARRAY_SIZE(actions)));
	tcase_add_test(cases, the_parent_goes_on);
	tcase_add_test(cases, a_child_of_a_proxy_agent_ends_with_its_thread);
	tcase_add_test(cases, a_child_that_might_wait_for_such_a_lock_opens_nothing);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip_all_cases(
		"a sanitizer's allocator does not work in a child of a process with threads");
#endif
	return run_unit_cases(argc, argv);
}
