/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names, and interface adapters: open, query and close in any state; contexts; asynchronous errors.
 */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc.h"
#include "harness.h"

/* In place of libdat: a registry of one name. */
static struct {
	const DAT_PROVIDER *provider; /* NULL if nothing is registered */
	DAT_PROVIDER_INFO info;
	DAT_RETURN answer; /* to the next that wants to be */
} registry;

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	const DAT_RETURN answer = registry.answer;

	registry.answer = DAT_SUCCESS;
	if (answer != DAT_SUCCESS)
		return answer;
	registry.provider = provider;
	registry.info = *info;
	return DAT_SUCCESS;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	ck_assert_ptr_eq(provider, registry.provider);
	ck_assert_mem_eq(info, &registry.info, sizeof(*info));
	registry.provider = NULL;
	return DAT_SUCCESS;
}

static DAT_PROVIDER_INFO info_of(const char *name, bool thread_safe)
{
	DAT_PROVIDER_INFO info = { .dapl_version_major = 1,
				   .dapl_version_minor = 2,
				   .is_thread_safe = thread_safe };

	snprintf(info.ia_name, sizeof(info.ia_name), "%s", name);
	return info;
}

static void announce(const char *name, const char *params, bool thread_safe)
{
	const DAT_PROVIDER_INFO info = info_of(name, thread_safe);

	dat_provider_init(&info, params);
	ck_assert_ptr_nonnull(registry.provider);
	ck_assert_str_eq(registry.info.ia_name, name);
}

static struct ia *open_fake(unsigned n)
{
	DAT_EVD_HANDLE async;
	char name[16];

	snprintf(name, sizeof(name), "fake%u", n);
	return ia_open_on(name, false, &async);
}

static void close_abrupt(struct ia *ia)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
}

/* How many entries a directory has. */
static unsigned entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned count = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static struct evd *evd_of(DAT_EVD_HANDLE handle)
{
	return handle;
}

static DAT_EVD_HANDLE make_evd(struct ia *ia, unsigned flags)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(ia, 8, DAT_HANDLE_NULL, (DAT_EVD_FLAGS)flags, &evd));
	return evd;
}

static DAT_CNO_HANDLE make_cno(struct ia *ia)
{
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	return cno;
}

static DAT_PZ_HANDLE make_pz(struct ia *ia)
{
	DAT_PZ_HANDLE pz;

	ck_dat(pz_create(ia, &pz));
	return pz;
}

static DAT_LMR_HANDLE make_lmr(struct ia *ia, DAT_PZ_HANDLE pz)
{
	static char memory[64];
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
			  DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	return lmr;
}

static DAT_EP_HANDLE make_ep(struct ia *ia)
{
	DAT_EVD_HANDLE dto = make_evd(ia, DAT_EVD_DTO_FLAG),
		       conn = make_evd(ia, DAT_EVD_CONNECTION_FLAG);
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(ia, make_pz(ia), dto, dto, conn, NULL, &ep));
	return ep;
}

static DAT_PSP_HANDLE make_psp(struct ia *ia)
{
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(ia, 1024, make_evd(ia, DAT_EVD_CR_FLAG), DAT_PSP_CONSUMER_FLAG, &psp));
	return psp;
}

/* ---- names ---- */

START_TEST(a_name_is_announced)
{
	const DAT_PROVIDER_INFO info = info_of("roe0", false);

	dat_provider_init(&info, "fake0 0");
	ck_assert_ptr_nonnull(registry.provider);
	ck_assert_mem_eq(&registry.info, &info, sizeof(info));
	ck_assert_str_eq(registry.provider->device_name, "roe0");
	dat_provider_fini(&info);
	ck_assert_ptr_null(registry.provider);
}
END_TEST

/* Handles of before lead to the table, so it is the same one. */
START_TEST(a_name_comes_again)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	const DAT_PROVIDER_INFO info = info_of("roe0", false);
	const DAT_PROVIDER *first;
	DAT_IA_HANDLE ia;

	announce("roe0", "nonsense", false);
	first = registry.provider;
	dat_provider_fini(&info);
	ck_dat_is(ia_open("roe0", 8, &async, &ia),
		  DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	announce("roe0", "fake0 0", false);
	ck_assert_ptr_eq(registry.provider, first);
	ck_dat(ia_open("roe0", 8, &async, &ia));
	close_abrupt(ia);
}
END_TEST

START_TEST(a_refused_name_leaves_nothing)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	const DAT_PROVIDER_INFO info = info_of("roe0", false);
	DAT_IA_HANDLE ia;

	ck_assert_int_ge(dup2(open("/dev/null", 1), STDERR_FILENO), 0);
	registry.answer = DAT_ERROR(DAT_INVALID_STATE, 0);
	dat_provider_init(&info, "fake0 0");
	ck_assert_ptr_null(registry.provider);
	ck_dat_is(ia_open("roe0", 8, &async, &ia),
		  DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
}
END_TEST

START_TEST(params_may_be_absent)
{
	const DAT_PROVIDER_INFO info = info_of("roe0", false);

	dat_provider_init(&info, NULL);
	ck_assert_ptr_nonnull(registry.provider);
}
END_TEST

/* One name with either thread model: each slot function opens its own. */
START_TEST(the_thread_model_tells_names_apart)
{
	DAT_EVD_HANDLE async[2] = { DAT_HANDLE_NULL, DAT_HANDLE_NULL };
	const DAT_PROVIDER *provider[2];
	DAT_PROVIDER_ATTR attr;
	DAT_IA_HANDLE ia[2];

	for (int safe = 0; safe < 2; safe++) {
		announce("roe0", safe ? "fake1 0" : "fake0 0", safe);
		provider[safe] = registry.provider;
	}
	ck_assert_ptr_ne(provider[0], provider[1]);
	for (int safe = 0; safe < 2; safe++) {
		ck_dat(provider[safe]->ia_open_func("roe0", 8, &async[safe], &ia[safe]));
		ck_assert_ptr_eq(DAT_HANDLE_TO_PROVIDER(ia[safe]), provider[safe]);
		ck_dat(ia_query(ia[safe], NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
		ck_assert_int_eq(attr.is_thread_safe, safe);
		ck_assert_int_eq(((struct ia *)ia[safe])->thread_safe, safe);
		ck_assert_str_eq(((struct ia *)ia[safe])->attr->device, safe ? "fake1" : "fake0");
	}
	close_abrupt(ia[0]);
	close_abrupt(ia[1]);
}
END_TEST

START_TEST(the_table_is_full)
{
	announce("roe0", "fake0 0", false);
	for (size_t at = offsetof(DAT_PROVIDER, ia_open_func); at < sizeof(DAT_PROVIDER);
	     at += sizeof(void (*)(void)))
		ck_assert_ptr_nonnull(*(void *const *)((const char *)registry.provider + at));
}
END_TEST

/* There is nobody to tell but the log: the name is not there, and may come again. */
START_TEST(a_name_finds_no_memory)
{
	const DAT_PROVIDER_INFO info = info_of("roe0", false);
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	unsigned n = 1;

	for (; alloc_fail_nth(n), dat_provider_init(&info, "fake0 0"), alloc_failed(); n++) {
		ck_assert_ptr_null(registry.provider);
		ck_dat_is(ia_open("roe0", 8, &async, &ia),
			  DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	}
	ck_assert_uint_eq(n, 3); /* the parameters, and the table */
	ck_assert_ptr_nonnull(registry.provider);
	ck_dat(ia_open("roe0", 8, &async, &ia));
	close_abrupt(ia);
}
END_TEST

/* ---- open ---- */

static struct {
	unsigned fds, threads, alive;
} before;

static void count_resources(void)
{
	fake_settle(0); /* a service thread takes a descriptor of the fake's as it begins */
	before.fds = entries("/proc/self/fd");
	before.threads = entries("/proc/self/task");
	before.alive = fake_alive(FAKE_ANY);
}

/* After a first instance: what a process gets once, it has by then. */
static void remember_resources(void)
{
	close_abrupt(open_fake(8));
	count_resources();
}

/* A joined thread stays listed for a moment. One left behind stays for ever, and so do we. */
static void expect_nothing_left(void)
{
	while (entries("/proc/self/task") > before.threads)
		sched_yield();
	ck_assert_uint_eq(entries("/proc/self/fd"), before.fds);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), before.alive);
}

START_TEST(open_refuses_arguments)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;

	announce("fake0", "fake0 0", false);
	ck_dat_is(ia_open(NULL, 8, &async, &ia), BAD_ARG(1));
	ck_assert_ptr_null(ia);
	ck_dat_is(ia_open("fake0", 0, &async, &ia), BAD_ARG(2));
	ck_dat_is(ia_open("fake0", -1, &async, &ia), BAD_ARG(2));
	ck_dat_is(ia_open("fake0", 8, NULL, &ia), BAD_ARG(3));
	ck_dat_is(ia_open("fake0", 8, &async, NULL), BAD_ARG(4));
	ck_assert_ptr_null(async);
	ck_assert_uint_eq(fake_calls("dev_open"), 0);
}
END_TEST

START_TEST(open_without_a_device_is_quiet)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;
	const int heard = memfd_create("stderr", 0);

	announce("mlx5_7", "mlx5_7 1", false);
	ck_assert_int_ge(dup2(heard, STDERR_FILENO), 0);
	remember_resources();
	ck_dat_is(ia_open("mlx5_7", 8, &async, &ia), NO_RESOURCE(DEVICE));
	ck_assert_ptr_null(ia);
	ck_assert_ptr_null(async);
	expect_nothing_left();
	ck_assert_int_eq(lseek(heard, 0, SEEK_END), 0);
}
END_TEST

START_TEST(open_takes_the_longest_queue_and_no_longer)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_EVD_PARAM param;
	DAT_IA_HANDLE ia;
	DAT_IA_ATTR attr;

	fake_attr()->max_cqe = 4096;
	announce("fake0", "fake0 0", false);
	remember_resources();
	ck_dat_is(ia_open("fake0", 4097, &async, &ia), NO_RESOURCE(TEVD));
	ck_assert_ptr_null(async);
	expect_nothing_left();
	ck_dat(ia_open("fake0", 8, &async, &ia));
	ck_dat(ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	close_abrupt(ia);
	async = DAT_HANDLE_NULL;
	ck_dat(ia_open("fake0", attr.max_evd_qlen, &async, &ia));
	ck_dat(evd_query(async, DAT_EVD_FIELD_ALL, &param));
	ck_assert_int_ge(param.evd_qlen, attr.max_evd_qlen);
	close_abrupt(ia);
}
END_TEST

START_TEST(open_makes_the_async_evd)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL, queried;
	DAT_EVD_PARAM param;
	DAT_IA_HANDLE ia;

	announce("fake0", "fake0 0", false);
	ck_dat(ia_open("fake0", 5, &async, &ia));
	ck_dat(evd_query(async, DAT_EVD_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, ia);
	ck_assert_int_ge(param.evd_qlen, 5);
	ck_assert_int_eq(param.evd_flags, DAT_EVD_ASYNC_FLAG);
	ck_assert_int_eq(param.evd_state & 0xf, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE);
	ck_assert_ptr_null(param.cno_handle);
	ck_dat(ia_query(ia, &queried, 0, NULL, 0, NULL));
	ck_assert_ptr_eq(queried, async);
	ck_dat_is(evd_free(async), BAD_STATE(EVD_IN_USE));
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat_is(evd_query(async, DAT_EVD_FIELD_ALL, &param),
		  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
}
END_TEST

/* Somebody else on this host watches. */
START_TEST(open_without_an_async_evd)
{
	DAT_EVD_HANDLE async = DAT_EVD_ASYNC_EXISTS, queried;
	DAT_IA_HANDLE ia;

	announce("fake0", "fake0 0", false);
	ck_dat(ia_open("fake0", 0, &async, &ia));
	ck_assert_ptr_eq(async, DAT_EVD_OUT_OF_SCOPE);
	ck_dat(ia_query(ia, &queried, 0, NULL, 0, NULL));
	ck_assert_ptr_eq(queried, DAT_EVD_OUT_OF_SCOPE);
	fake_port_down(((struct ia *)ia)->dev);
	fake_settle(0);
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

START_TEST(open_fails_without_a_trace)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	unsigned n = 1;

	announce("fake0", "fake0 0", false);
	remember_resources();
	for (; fake_fail_call(n), ia_open("fake0", 8, &async, &ia) != DAT_SUCCESS; n++) {
		ck_assert_ptr_null(ia);
		ck_assert_ptr_null(async);
		expect_nothing_left();
	}
	fake_fail_call(0);
	ck_assert_uint_gt(n, 1);
	close_abrupt(ia);
	expect_nothing_left();
}
END_TEST

/* So many that the memory of objects has to grow. */
START_TEST(open_runs_out_of_memory)
{
	struct ia *lender = open_fake(0);
	DAT_IA_HANDLE ias[40];
	DAT_RETURN ret;

	announce("fake1", "fake1 0", false);
	remember_resources();
	for (int i = 0; i < COUNT(ias); i++) {
		/* Borrowed and made, in turn. */
		const DAT_EVD_HANDLE given = i % 2 ? (DAT_EVD_HANDLE)lender->async_evd
						   : DAT_HANDLE_NULL;
		DAT_EVD_HANDLE async = given;
		unsigned n = 1;

		for (;
		     alloc_fail_nth(n), ret = ia_open("fake1", 8, &async, &ias[i]), alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_null(ias[i]);
			ck_assert_ptr_eq(async, given);
			ck_assert_uint_eq(lender->async_evd->obj.uses, (unsigned)i / 2);
			expect_nothing_left();
		}
		ck_dat(ret);
		ck_assert_uint_ge(n, 2); /* the parameters, at least */
		count_resources();
	}
	for (int i = 0; i < COUNT(ias); i++)
		close_abrupt(ias[i]);
	close_abrupt(lender);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* Each step that needs a descriptor finds none, in turn. */
START_TEST(open_runs_out_of_descriptors)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	const int spare = dup(STDIN_FILENO);
	struct rlimit limit, none;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;
	unsigned n = 0;

	fake_clock_real(); /* the fake clock has a descriptor for each thread */
	ck_assert_int_ge(dup2(open("/dev/null", 1), STDERR_FILENO), 0);
	announce("fake0", "fake0 0", false);
	getrlimit(RLIMIT_NOFILE, &limit);
	close(spare);
	remember_resources();
	do {
		none = (struct rlimit){ (rlim_t)spare + n, limit.rlim_max };
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
		ret = ia_open("fake0", 8, &async, &ia);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		if (ret != DAT_SUCCESS) {
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
			ck_assert_ptr_null(ia);
			ck_assert_ptr_null(async);
			expect_nothing_left();
		}
		n++;
	} while (ret != DAT_SUCCESS && n < 20);
	ck_dat(ret);
	ck_assert_uint_gt(n, 3);
	close_abrupt(ia);
	expect_nothing_left();
}
END_TEST

START_TEST(open_and_close_four_hundred_times)
{
	DAT_EVD_HANDLE async;
	DAT_IA_HANDLE ia;

	announce("fake0", "fake0 0", false);
	remember_resources();
	for (int i = 0; i < 400; i++) {
		async = DAT_HANDLE_NULL;
		ck_dat(ia_open("fake0", 8, &async, &ia));
		make_pz(ia);
		make_evd(ia, DAT_EVD_DTO_FLAG);
		close_abrupt(ia);
	}
	expect_nothing_left();
}
END_TEST

/* ---- an asynchronous EVD that several instances share ---- */

static struct ia *open_borrowing(DAT_EVD_HANDLE async)
{
	DAT_EVD_HANDLE given = async;
	DAT_IA_HANDLE ia;

	announce("fake1", "fake1 0", false);
	ck_dat(ia_open("fake1", 0, &given, &ia));
	ck_assert_ptr_eq(given, async);
	return ia;
}

static DAT_EVD_HANDLE async_of(struct ia *ia)
{
	DAT_EVD_HANDLE evd;

	ck_dat(ia_query(ia, &evd, 0, NULL, 0, NULL));
	return evd;
}

static void ia_expect_async_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
				  DAT_COUNT reason)
{
	DAT_EVENT event;

	fake_settle(0);
	ck_dat(evd_dequeue(evd, &event));
	ck_assert_uint_eq(event.event_number, number);
	ck_assert_ptr_eq(event.evd_handle, evd);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, handle);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, reason);
}

START_TEST(borrowed_evd_gets_the_events_of_both)
{
	struct ia *lender = open_fake(0), *ia = open_borrowing(lender->async_evd);
	DAT_EVD_HANDLE async = async_of(lender);

	ck_assert_ptr_eq(async_of(ia), async);
	fake_port_down(ia->dev);
	ia_expect_async_event(async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia, DAT_IA_OTHER_ERROR);
	fake_port_down(lender->dev);
	ia_expect_async_event(async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, lender, DAT_IA_OTHER_ERROR);
	ck_dat_is(ia_close(lender, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	fake_port_down(lender->dev);
	ia_expect_async_event(async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, lender, DAT_IA_OTHER_ERROR);
	ck_dat(ia_close(lender, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(borrowed_evd_can_not_be_freed)
{
	struct ia *lender = open_fake(0), *ia;
	DAT_EVD_HANDLE second = make_evd(lender, DAT_EVD_ASYNC_FLAG);

	ia = open_borrowing(second);
	ck_dat_is(evd_free(second), BAD_STATE(EVD_IN_USE));
	close_abrupt(ia);
	ck_dat(evd_free(second));
	close_abrupt(lender);
}
END_TEST

START_TEST(lender_may_go_abruptly)
{
	struct ia *lender = open_fake(0), *ia[3];
	const struct evd *lent = lender->async_evd;

	for (int i = 0; i < COUNT(ia); i++)
		ia[i] = open_borrowing(lender->async_evd);
	close_abrupt(ia[1]);
	close_abrupt(lender);
	/* so its slot begins the next life unheld */
	ck_assert_uint_eq(atomic_load(&lent->obj.uses), OBJ_RETIRED);
	ck_assert_ptr_eq(async_of(ia[0]), DAT_EVD_OUT_OF_SCOPE);
	ck_assert_ptr_eq(async_of(ia[2]), DAT_EVD_OUT_OF_SCOPE);
	fake_port_down(ia[2]->dev);
	fake_settle(0);
	close_abrupt(ia[0]);
	ck_dat(ia_close(ia[2], DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(only_an_async_evd_can_be_borrowed)
{
	struct ia *lender = open_fake(0);
	DAT_EVD_HANDLE evds[] = { make_evd(lender, DAT_EVD_DTO_FLAG), lender, POISON,
				  DAT_EVD_OUT_OF_SCOPE };
	DAT_IA_HANDLE ia;

	announce("fake1", "fake1 0", false);
	remember_resources();
	for (int i = 0; i < COUNT(evds); i++) {
		DAT_EVD_HANDLE given = evds[i];

		ck_dat_is(ia_open("fake1", 8, &given, &ia), BAD_HANDLE(EVD_ASYNC));
		ck_assert_ptr_null(ia);
		ck_assert_ptr_eq(given, evds[i]);
		expect_nothing_left();
	}
	ck_dat(evd_free(evds[0]));
	close_abrupt(lender);
}
END_TEST

START_TEST(a_failed_open_gives_back_what_it_borrowed)
{
	struct ia *lender = open_fake(0);
	DAT_EVD_HANDLE given = make_evd(lender, DAT_EVD_ASYNC_FLAG);
	DAT_EVD_HANDLE second = given;
	DAT_IA_HANDLE ia;

	announce("gone", "eth7 0", false);
	ck_dat_is(ia_open("gone", 8, &given, &ia), NO_RESOURCE(DEVICE));
	ck_assert_ptr_eq(given, second);
	ck_dat(evd_free(second));
	close_abrupt(lender);
}
END_TEST

/* ---- query ---- */

START_TEST(query_refuses)
{
	struct ia *ia = open_fake(0);
	DAT_PROVIDER_ATTR provider_attr;
	DAT_EVD_HANDLE evd = POISON;
	DAT_IA_ATTR ia_attr;

	ck_dat(ia_query(ia, NULL, 0, NULL, 0, NULL));
	ck_dat_is(ia_query(POISON, &evd, 0, NULL, 0, NULL), BAD_HANDLE(IA));
	ck_dat_is(ia_query(ia->async_evd, &evd, 0, NULL, 0, NULL), BAD_HANDLE(IA));
	ck_dat_is(ia_query(ia, &evd, DAT_IA_FIELD_ALL + 1, &ia_attr, 0, NULL), BAD_ARG(3));
	ck_dat_is(ia_query(ia, &evd, 1, NULL, 0, NULL), BAD_ARG(4));
	ck_dat_is(ia_query(ia, &evd, 0, NULL, DAT_PROVIDER_FIELD_ALL + 1, &provider_attr),
		  BAD_ARG(5));
	ck_dat_is(ia_query(ia, &evd, 0, NULL, 1, NULL), BAD_ARG(6));
	ck_assert_ptr_eq(evd, POISON);
	close_abrupt(ia);
}
END_TEST

/* Peers compare it as bytes, and write a port of their own into a copy. */
START_TEST(the_address_is_plain)
{
	struct ia *ia = open_fake(4);
	struct sockaddr_in want = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(FAKE_NETWORK + 5) };
	DAT_IA_ATTR attr[2];

	for (int i = 0; i < 2; i++) {
		ck_dat(ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr[i], 0, NULL));
		ck_assert_mem_eq(attr[i].ia_address_ptr, &want, sizeof(want));
		ck_assert_str_eq(attr[i].adapter_name, "fake4");
	}
	ck_assert_ptr_eq(attr[0].ia_address_ptr, attr[1].ia_address_ptr);
	close_abrupt(ia);
}
END_TEST

/* ---- contexts and kinds ---- */

START_TEST(any_object_has_a_context_and_a_kind)
{
	struct ia *ia = open_fake(0);
	DAT_PZ_HANDLE pz = make_pz(ia);
	const struct {
		DAT_HANDLE handle;
		DAT_HANDLE_TYPE type;
	} objects[] = {
		{ ia, DAT_HANDLE_TYPE_IA },
		{ ia->async_evd, DAT_HANDLE_TYPE_EVD },
		{ pz, DAT_HANDLE_TYPE_PZ },
		{ make_lmr(ia, pz), DAT_HANDLE_TYPE_LMR },
		{ make_cno(ia), DAT_HANDLE_TYPE_CNO },
		{ make_ep(ia), DAT_HANDLE_TYPE_EP },
		{ make_psp(ia), DAT_HANDLE_TYPE_PSP },
	};
	DAT_CONTEXT context;
	DAT_HANDLE_TYPE type;

	for (int i = 0; i < COUNT(objects); i++) {
		ck_dat(handle_type(objects[i].handle, &type));
		ck_assert_int_eq(type, objects[i].type);
		context.as_64 = UINT64_MAX;
		ck_dat(context_get(objects[i].handle, &context));
		ck_assert_uint_eq(context.as_64, 0);
		context.as_64 = UINT64_MAX - (unsigned)i;
		ck_dat(context_set(objects[i].handle, context));
	}
	for (int i = 0; i < COUNT(objects); i++) {
		ck_dat(context_get(objects[i].handle, &context));
		ck_assert_uint_eq(context.as_64, UINT64_MAX - (unsigned)i);
	}
	close_abrupt(ia);
	for (int i = 0; i < COUNT(objects); i++)
		ck_dat_is(handle_type(objects[i].handle, &type),
			  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
}
END_TEST

START_TEST(what_is_no_object_has_neither)
{
	struct ia *ia = open_fake(0);
	DAT_HANDLE handles[] = { NULL, POISON, &ia, (char *)ia + 8, (char *)ia + 1 };
	const DAT_RETURN bad = DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	DAT_CONTEXT context = { .as_64 = 7 };
	DAT_HANDLE_TYPE type;

	for (int i = 0; i < COUNT(handles); i++) {
		ck_dat_is(context_set(handles[i], context), bad);
		ck_dat_is(context_get(handles[i], &context), bad);
		ck_dat_is(handle_type(handles[i], &type), bad);
	}
	ck_assert_uint_eq(context.as_64, 7);
	ck_dat_is(context_get(ia, NULL), BAD_ARG(2));
	ck_dat_is(handle_type(ia, NULL), BAD_ARG(2));
	close_abrupt(ia);
}
END_TEST

/* ---- close ---- */

START_TEST(close_refuses)
{
	struct ia *ia = open_fake(0);

	ck_dat_is(ia_close(ia, (DAT_CLOSE_FLAGS)2), BAD_ARG(2));
	ck_dat_is(ia_close(POISON, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	ck_dat_is(ia_close(ia->async_evd, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat_is(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
}
END_TEST

static DAT_HANDLE child_pz(struct ia *ia)
{
	return make_pz(ia);
}

static DAT_HANDLE child_lmr(struct ia *ia)
{
	return make_lmr(ia, make_pz(ia));
}

static DAT_HANDLE child_evd(struct ia *ia)
{
	return make_evd(ia, DAT_EVD_DTO_FLAG);
}

static DAT_HANDLE child_async(struct ia *ia)
{
	return make_evd(ia, DAT_EVD_ASYNC_FLAG);
}

static DAT_HANDLE child_cno(struct ia *ia)
{
	DAT_CNO_HANDLE cno = make_cno(ia);

	ck_dat(evd_modify_cno(ia->async_evd, cno));
	return cno;
}

static DAT_HANDLE child_ep(struct ia *ia)
{
	return make_ep(ia);
}

static DAT_HANDLE child_bare_ep(struct ia *ia)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(ia, make_pz(ia), NULL, NULL, NULL, NULL, &ep));
	return ep;
}

static DAT_HANDLE child_psp(struct ia *ia)
{
	return make_psp(ia);
}

/* A request that nobody has answered yet. */
static DAT_HANDLE child_cr(struct ia *ia)
{
	struct ia *active = open_fake(9);
	struct sockaddr_storage here = ia->attr->addr;
	DAT_PSP_HANDLE psp = make_psp(ia);
	DAT_EVENT event;

	ck_dat(ep_connect(make_ep(active), (DAT_IA_ADDRESS_PTR)&here, 1024, DAT_TIMEOUT_INFINITE, 0,
			  NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
	fake_settle(0);
	ck_dat(evd_dequeue(((struct sp *)psp)->evd, &event));
	ck_dat(psp_free(psp));
	return event.event_data.cr_arrival_event_data.cr_handle;
}

static DAT_HANDLE (*const children[])(struct ia *) = {
	child_pz, child_lmr,	 child_evd, child_async, child_cno,
	child_ep, child_bare_ep, child_psp, child_cr,
};

START_TEST(close_with_children)
{
	struct ia *ia = open_fake(0);
	DAT_HANDLE child = children[_i](ia);
	DAT_HANDLE_TYPE type;

	ck_dat_is(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(handle_type(child, &type));
	fake_port_down(ia->dev);
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_OTHER_ERROR);
	close_abrupt(ia);
	ck_dat_is(handle_type(child, &type), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
}
END_TEST

START_TEST(close_takes_everything_down)
{
	struct ia *ia = open_fake(0);
	DAT_PZ_HANDLE pz = make_pz(ia);
	DAT_LMR_HANDLE lmr = make_lmr(ia, pz);
	DAT_CNO_HANDLE cno = make_cno(ia);
	DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);

	make_ep(ia);
	child_bare_ep(ia);
	make_psp(ia);
	ck_dat(evd_modify_cno(evd, cno));
	ck_dat(evd_modify_cno(ia->async_evd, cno));
	close_abrupt(ia);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
	ck_dat_is(lmr_free(lmr), BAD_HANDLE(LMR));
	ck_dat_is(pz_free(pz), BAD_HANDLE(PZ));
	ck_dat_is(evd_free(evd), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	ck_dat_is(cno_free(cno), BAD_HANDLE(CNO));
}
END_TEST

/* A thread in dat_cno_wait. */
struct sleeper {
	DAT_CNO_HANDLE cno;
	DAT_RETURN ret;
	DAT_EVD_HANDLE evd;
	pthread_t thread;
};

static void *sleep_on_cno(void *arg)
{
	struct sleeper *sleeper = arg;

	sleeper->evd = POISON;
	sleeper->ret = cno_wait(sleeper->cno, DAT_TIMEOUT_INFINITE, &sleeper->evd);
	return NULL;
}

static struct waiter waiter_on(DAT_EVD_HANDLE evd)
{
	return (struct waiter){ .evd = evd, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
}

START_TEST(close_sends_waiters_home)
{
	struct ia *ia = open_fake(0);
	struct waiter waiters[] = {
		waiter_on(make_evd(ia, DAT_EVD_DTO_FLAG)),
		waiter_on(make_evd(ia, DAT_EVD_SOFTWARE_FLAG)),
		waiter_on(ia->async_evd),
	};
	DAT_CNO_HANDLE cno = make_cno(ia);
	struct sleeper sleepers[] = { { .cno = cno }, { .cno = cno }, { .cno = make_cno(ia) } };

	ck_dat(evd_modify_cno(make_evd(ia, DAT_EVD_DTO_FLAG), cno));
	for (int i = 0; i < COUNT(waiters); i++)
		waiter_start(&waiters[i]);
	for (int i = 0; i < COUNT(sleepers); i++)
		sleepers[i].thread = consumer_thread_start(sleep_on_cno, &sleepers[i]);
	fake_settle(COUNT(waiters) + COUNT(sleepers));
	close_abrupt(ia);
	for (int i = 0; i < COUNT(waiters); i++)
		ck_dat_is(waiter_join(&waiters[i]), DAT_ERROR(DAT_ABORT, 0));
	for (int i = 0; i < COUNT(sleepers); i++) {
		consumer_thread_end(sleepers[i].thread);
		ck_dat(sleepers[i].ret);
		ck_assert_ptr_null(sleepers[i].evd);
	}
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* Only the asynchronous EVD is left, and somebody waits on it. */
START_TEST(graceful_close_sends_the_watcher_home)
{
	struct ia *ia = open_fake(0);
	struct waiter watcher = waiter_on(ia->async_evd);

	waiter_start(&watcher);
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat_is(waiter_join(&watcher), DAT_ERROR(DAT_ABORT, 0));
}
END_TEST

static struct {
	unsigned calls;
	DAT_EVD_HANDLE evd;
} agent_saw;

static void agent(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	ck_assert_ptr_eq(data, &agent_saw);
	agent_saw.calls++;
	agent_saw.evd = evd;
}

START_TEST(close_tells_the_agent)
{
	struct ia *ia = open_fake(0);
	DAT_CNO_HANDLE cno;

	agent_saw.evd = POISON;
	ck_dat(cno_create(ia, (DAT_OS_WAIT_PROXY_AGENT){ &agent_saw, agent }, &cno));
	close_abrupt(ia);
	ck_assert_uint_eq(agent_saw.calls, 1);
	ck_assert_ptr_null(agent_saw.evd);
}
END_TEST

/* ---- asynchronous errors ---- */

START_TEST(all_watchers_hear)
{
	struct ia *ia = open_fake(0), *other = open_fake(0);
	DAT_EVD_HANDLE second = make_evd(ia, DAT_EVD_ASYNC_FLAG | DAT_EVD_SOFTWARE_FLAG);
	DAT_EVD_HANDLE deaf = make_evd(ia, DAT_EVD_CONNECTION_FLAG);

	fake_port_down(ia->dev);
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_OTHER_ERROR);
	ia_expect_async_event(second, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia, DAT_IA_OTHER_ERROR);
	expect_no_event(deaf);
	fake_dev_fatal(ia->dev);
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_CATASTROPHIC_ERROR);
	ia_expect_async_event(second, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_CATASTROPHIC_ERROR);
	expect_no_event(other->async_evd);
	close_abrupt(other);
	close_abrupt(ia);
}
END_TEST

START_TEST(overrun_names_the_evd)
{
	struct ia *ia = open_fake(0);
	DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);

	fake_overrun(evd_of(evd)->cq);
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW, evd,
			      DAT_EVD_OVERFLOW_ERROR);
	expect_no_event(ia->async_evd);
	close_abrupt(ia);
}
END_TEST

/* Its completions are lost: nobody who counts on them goes on as if nothing had been. */
START_TEST(overrun_breaks_endpoints)
{
	struct pair pair = { 0 };
	DAT_EVENT event;

	pair_connect(&pair);
	fake_overrun(evd_of(pair.client.recv_evd)->cq);
	fake_settle(0);
	ck_dat(evd_dequeue(pair.client.async_evd, &event));
	ck_assert_uint_eq(event.event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, pair.client.recv_evd);
	ia_expect_async_event(pair.client.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, pair.client.ep,
			      DAT_EP_TRANSFER_TO_ERROR);
	expect_event(pair.client.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
	expect_event(pair.server.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
	side_close(&pair.client);
	side_close(&pair.server);
}
END_TEST

/* A job that never reads them: they stop, and nothing else does. */
START_TEST(nobody_need_read_them)
{
	struct ia *ia = open_fake(0);
	DAT_EVENT event;
	unsigned count = 0;

	for (int i = 0; i < 100; i++)
		fake_port_down(ia->dev);
	fake_settle(0);
	while (evd_dequeue(ia->async_evd, &event) == DAT_SUCCESS)
		count++;
	ck_assert_uint_ge(count, 8);
	ck_assert_uint_lt(count, 100);
	ck_assert_uint_eq(event.event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, ia->async_evd);
	close_abrupt(ia);
}
END_TEST

static void names_and_opens(TCase *cases)
{
	tcase_add_test(cases, a_name_is_announced);
	tcase_add_test(cases, a_name_comes_again);
	tcase_add_test(cases, a_refused_name_leaves_nothing);
	tcase_add_test(cases, params_may_be_absent);
	tcase_add_test(cases, the_thread_model_tells_names_apart);
	tcase_add_test(cases, the_table_is_full);
	tcase_add_test(cases, a_name_finds_no_memory);
	tcase_add_test(cases, open_refuses_arguments);
	tcase_add_test(cases, open_without_a_device_is_quiet);
	tcase_add_test(cases, open_takes_the_longest_queue_and_no_longer);
	tcase_add_test(cases, open_makes_the_async_evd);
	tcase_add_test(cases, open_without_an_async_evd);
	tcase_add_test(cases, open_fails_without_a_trace);
	tcase_add_test(cases, open_runs_out_of_memory);
	tcase_add_test(cases, open_runs_out_of_descriptors);
	tcase_add_test(cases, open_and_close_four_hundred_times);
	tcase_add_test(cases, borrowed_evd_gets_the_events_of_both);
	tcase_add_test(cases, borrowed_evd_can_not_be_freed);
	tcase_add_test(cases, lender_may_go_abruptly);
	tcase_add_test(cases, only_an_async_evd_can_be_borrowed);
	tcase_add_test(cases, a_failed_open_gives_back_what_it_borrowed);
}

static void the_rest(TCase *cases)
{
	tcase_add_test(cases, query_refuses);
	tcase_add_test(cases, the_address_is_plain);
	tcase_add_test(cases, any_object_has_a_context_and_a_kind);
	tcase_add_test(cases, what_is_no_object_has_neither);
	tcase_add_test(cases, close_refuses);
	tcase_add_loop_test(cases, close_with_children, 0, COUNT(children));
	tcase_add_test(cases, close_takes_everything_down);
	tcase_add_test(cases, close_sends_waiters_home);
	tcase_add_test(cases, graceful_close_sends_the_watcher_home);
	tcase_add_test(cases, close_tells_the_agent);
	tcase_add_test(cases, all_watchers_hear);
	tcase_add_test(cases, overrun_names_the_evd);
	tcase_add_test(cases, overrun_breaks_endpoints);
	tcase_add_test(cases, nobody_need_read_them);
}

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("adapters");

	names_and_opens(cases);
	the_rest(cases);
	return run_unit_cases(argc, argv);
}
