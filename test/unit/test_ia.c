/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interface adapters: registration of their names, open, query, close in any state, contexts of
 * objects, and asynchronous errors.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc.h"
#include "harness.h"

/* Replaces the registry of libdat: one provider. */
static struct {
	const DAT_PROVIDER *provider; /* NULL if nothing is registered */
	DAT_PROVIDER_INFO info;
	DAT_RETURN answer; /* to the next registration */
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

static DAT_PROVIDER_INFO provider_info(const char *name, bool thread_safe)
{
	DAT_PROVIDER_INFO info = { .dapl_version_major = DAT_VERSION_MAJOR,
				   .dapl_version_minor = DAT_VERSION_MINOR,
				   .is_thread_safe = thread_safe };

	snprintf(info.ia_name, sizeof(info.ia_name), "%s", name);
	return info;
}

static void register_name(const char *name, const char *params, bool thread_safe)
{
	const DAT_PROVIDER_INFO info = provider_info(name, thread_safe);

	dat_provider_init(&info, params);
	ck_assert_ptr_nonnull(registry.provider);
	ck_assert_str_eq(registry.info.ia_name, name);
}

static struct ia *ia_open_fake(unsigned n)
{
	DAT_EVD_HANDLE async;
	char name[16];

	snprintf(name, sizeof(name), "fake%u", n);
	return ia_open_on(name, false, &async);
}

static void ia_close_abrupt(struct ia *ia)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
}

static DAT_EVD_HANDLE ia_create_evd(struct ia *ia, unsigned flags)
{
	DAT_EVD_HANDLE evd;

	ck_dat(evd_create(ia, 8, DAT_HANDLE_NULL, (DAT_EVD_FLAGS)flags, &evd));
	return evd;
}

static DAT_CNO_HANDLE ia_create_cno(struct ia *ia)
{
	DAT_CNO_HANDLE cno;

	ck_dat(cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	return cno;
}

static DAT_PZ_HANDLE ia_create_pz(struct ia *ia)
{
	DAT_PZ_HANDLE pz;

	ck_dat(pz_create(ia, &pz));
	return pz;
}

static DAT_LMR_HANDLE ia_create_lmr(struct ia *ia, DAT_PZ_HANDLE pz)
{
	static char memory[64];
	DAT_REGION_DESCRIPTION region = { .for_va = memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(lmr_create_va(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(memory), pz,
			     DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	return lmr;
}

static DAT_EP_HANDLE ia_create_ep(struct ia *ia)
{
	DAT_EVD_HANDLE dto = ia_create_evd(ia, DAT_EVD_DTO_FLAG),
		       conn = ia_create_evd(ia, DAT_EVD_CONNECTION_FLAG);
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(ia, ia_create_pz(ia), dto, dto, conn, NULL, &ep));
	return ep;
}

static DAT_PSP_HANDLE ia_create_psp(struct ia *ia)
{
	DAT_PSP_HANDLE psp;

	ck_dat(psp_create(ia, 1024, ia_create_evd(ia, DAT_EVD_CR_FLAG), DAT_PSP_CONSUMER_FLAG,
			  &psp));
	return psp;
}

/* ---- registration ---- */

START_TEST(a_provider_is_registered_by_name)
{
	const DAT_PROVIDER_INFO info = provider_info("roe0", false);

	dat_provider_init(&info, "fake0 0");
	ck_assert_ptr_nonnull(registry.provider);
	ck_assert_mem_eq(&registry.info, &info, sizeof(info));
	ck_assert_str_eq(registry.provider->device_name, "roe0");
	dat_provider_fini(&info);
	ck_assert_ptr_null(registry.provider);
}
END_TEST

/* Handles that the consumer still has point to the table, so it must be the same one. */
START_TEST(a_name_registered_again_keeps_its_table)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	const DAT_PROVIDER_INFO info = provider_info("roe0", false);
	const DAT_PROVIDER *first;
	DAT_IA_HANDLE ia;

	register_name("roe0", "nonsense", false);
	first = registry.provider;
	dat_provider_fini(&info);
	ck_dat_is(ia_open("roe0", 8, &async, &ia),
		  DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
	register_name("roe0", "fake0 0", false);
	ck_assert_ptr_eq(registry.provider, first);
	ck_dat(ia_open("roe0", 8, &async, &ia));
	ia_close_abrupt(ia);
}
END_TEST

START_TEST(a_refused_registration_keeps_nothing)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	const DAT_PROVIDER_INFO info = provider_info("roe0", false);
	DAT_IA_HANDLE ia;

	ck_assert_int_ge(dup2(open("/dev/null", 1), STDERR_FILENO), 0);
	registry.answer = DAT_ERROR(DAT_INVALID_STATE, 0);
	dat_provider_init(&info, "fake0 0");
	ck_assert_ptr_null(registry.provider);
	ck_dat_is(ia_open("roe0", 8, &async, &ia),
		  DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
}
END_TEST

START_TEST(the_device_parameters_may_be_absent)
{
	const DAT_PROVIDER_INFO info = provider_info("roe0", false);

	dat_provider_init(&info, NULL);
	ck_assert_ptr_nonnull(registry.provider);
}
END_TEST

/* The open function in each table opens an IA of that thread model. */
START_TEST(a_name_has_one_provider_per_thread_model)
{
	DAT_EVD_HANDLE async[2] = { DAT_HANDLE_NULL, DAT_HANDLE_NULL };
	const DAT_PROVIDER *provider[2];
	DAT_PROVIDER_ATTR attr;
	DAT_IA_HANDLE ia[2];

	for (int safe = 0; safe < 2; safe++) {
		register_name("roe0", safe ? "fake1 0" : "fake0 0", safe);
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
	ia_close_abrupt(ia[0]);
	ia_close_abrupt(ia[1]);
}
END_TEST

START_TEST(the_provider_table_has_no_empty_entry)
{
	register_name("roe0", "fake0 0", false);
	for (size_t at = offsetof(DAT_PROVIDER, ia_open_func); at < sizeof(DAT_PROVIDER);
	     at += sizeof(void (*)(void)))
		ck_assert_ptr_nonnull(*(void *const *)((const char *)registry.provider + at));
}
END_TEST

/* dat_provider_init returns no status: the name is not registered, and can be registered later. */
START_TEST(a_registration_without_memory_can_be_repeated)
{
	const DAT_PROVIDER_INFO info = provider_info("roe0", false);
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
	ia_close_abrupt(ia);
}
END_TEST

/* ---- open ---- */

static struct {
	unsigned fds, threads, alive;
} before;

static void count_resources(void)
{
	fake_wait_idle(0); /* a service thread opens a descriptor of the fake when it starts */
	before.fds = count_entries("/proc/self/fd");
	before.threads = count_entries("/proc/self/task");
	before.alive = fake_alive(FAKE_ANY);
}

/* The first IA allocates what a process has once, so the count begins after it. */
static void count_resources_after_first_ia(void)
{
	ia_close_abrupt(ia_open_fake(8));
	count_resources();
}

static void expect_same_resources(void)
{
	ck_assert(threads_end(before.threads));
	ck_assert_uint_eq(count_entries("/proc/self/fd"), before.fds);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), before.alive);
}

START_TEST(ia_open_checks_its_arguments)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;

	register_name("fake0", "fake0 0", false);
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

START_TEST(ia_open_without_a_device_logs_nothing)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;
	int log;

	register_name("mlx5_7", "mlx5_7 1", false);
	log = stderr_capture();
	count_resources_after_first_ia();
	ck_dat_is(ia_open("mlx5_7", 8, &async, &ia), NO_RESOURCE(DEVICE));
	ck_assert_ptr_null(ia);
	ck_assert_ptr_null(async);
	expect_same_resources();
	ck_assert_int_eq(lseek(log, 0, SEEK_END), 0);
}
END_TEST

static const struct {
	int err;
	DAT_RETURN want;
} open_errors[] = {
	{ ENOENT, DAT_ERROR(DAT_INVALID_ADDRESS, 0) },
	{ ENODEV, NO_RESOURCE(DEVICE) },
	{ ENOMEM, NO_RESOURCE(DEVICE) },
	{ EINVAL, NO_RESOURCE(DEVICE) },
	{ EADDRNOTAVAIL, NO_RESOURCE(DEVICE) },
};

/* Programs try one entry of dat.conf after the other, as long as an address is invalid. */
START_TEST(a_name_that_the_host_does_not_have_is_an_invalid_address)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = POISON;

	register_name("fake0", "fake0 0", false);
	count_resources_after_first_ia();
	fake_fail("dev_open", open_errors[_i].err, 1);
	ck_dat_is(ia_open("fake0", 8, &async, &ia), open_errors[_i].want);
	ck_assert_ptr_null(ia);
	ck_assert_ptr_null(async);
	expect_same_resources();
}
END_TEST

START_TEST(ia_open_accepts_queues_up_to_the_maximum)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_EVD_PARAM param;
	DAT_IA_HANDLE ia;
	DAT_IA_ATTR attr;

	fake_attr()->max_cqe = 4096;
	register_name("fake0", "fake0 0", false);
	count_resources_after_first_ia();
	ck_dat_is(ia_open("fake0", 4097, &async, &ia), NO_RESOURCE(TEVD));
	ck_assert_ptr_null(async);
	expect_same_resources();
	ck_dat(ia_open("fake0", 8, &async, &ia));
	ck_dat(ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	ia_close_abrupt(ia);
	async = DAT_HANDLE_NULL;
	ck_dat(ia_open("fake0", attr.max_evd_qlen, &async, &ia));
	ck_dat(evd_query(async, DAT_EVD_FIELD_ALL, &param));
	ck_assert_int_ge(param.evd_qlen, attr.max_evd_qlen);
	ia_close_abrupt(ia);
}
END_TEST

START_TEST(ia_open_creates_the_async_evd)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL, queried;
	DAT_EVD_PARAM param;
	DAT_IA_HANDLE ia;

	register_name("fake0", "fake0 0", false);
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

/* Another IA of the host has the asynchronous EVD. */
START_TEST(ia_open_may_do_without_an_async_evd)
{
	DAT_EVD_HANDLE async = DAT_EVD_ASYNC_EXISTS, queried;
	DAT_IA_HANDLE ia;

	register_name("fake0", "fake0 0", false);
	ck_dat(ia_open("fake0", 0, &async, &ia));
	ck_assert_ptr_eq(async, DAT_EVD_OUT_OF_SCOPE);
	ck_dat(ia_query(ia, &queried, 0, NULL, 0, NULL));
	ck_assert_ptr_eq(queried, DAT_EVD_OUT_OF_SCOPE);
	fake_port_down(((struct ia *)ia)->dev);
	fake_wait_idle(0);
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}
END_TEST

START_TEST(a_failed_ia_open_changes_nothing)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	unsigned n = 1;

	register_name("fake0", "fake0 0", false);
	count_resources_after_first_ia();
	for (; fake_fail_call(n), ia_open("fake0", 8, &async, &ia) != DAT_SUCCESS; n++) {
		ck_assert_ptr_null(ia);
		ck_assert_ptr_null(async);
		expect_same_resources();
	}
	fake_fail_call(0);
	ck_assert_uint_gt(n, 1);
	ia_close_abrupt(ia);
	expect_same_resources();
}
END_TEST

/* The slab of the objects has to grow several times. */
START_TEST(ia_open_without_memory_changes_nothing)
{
	struct ia *owner = ia_open_fake(0);
	DAT_IA_HANDLE ias[40];
	DAT_RETURN ret;

	register_name("fake1", "fake1 0", false);
	count_resources_after_first_ia();
	for (int i = 0; i < COUNT(ias); i++) {
		/* In turn with the owner's asynchronous EVD and with a new one. */
		const DAT_EVD_HANDLE wanted = i % 2 ? (DAT_EVD_HANDLE)owner->async_evd
						    : DAT_HANDLE_NULL;
		DAT_EVD_HANDLE async = wanted;
		unsigned n = 1;

		for (;
		     alloc_fail_nth(n), ret = ia_open("fake1", 8, &async, &ias[i]), alloc_failed();
		     n++) {
			ck_dat_is(ret, NO_RESOURCE(MEMORY));
			ck_assert_ptr_null(ias[i]);
			ck_assert_ptr_eq(async, wanted);
			ck_assert_uint_eq(owner->async_evd->obj.uses, (unsigned)i / 2);
			expect_same_resources();
		}
		ck_dat(ret);
		ck_assert_uint_ge(n, 2); /* at least one for the parameters */
		count_resources();
	}
	for (int i = 0; i < COUNT(ias); i++)
		ia_close_abrupt(ias[i]);
	ia_close_abrupt(owner);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* Each step that opens a descriptor fails, in turn. */
START_TEST(ia_open_without_descriptors_changes_nothing)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	const int spare = dup(STDIN_FILENO);
	struct rlimit limit, none;
	DAT_IA_HANDLE ia;
	DAT_RETURN ret;
	unsigned n = 0;

	fake_clock_real(); /* the fake clock opens a descriptor for each thread */
	ck_assert_int_ge(dup2(open("/dev/null", 1), STDERR_FILENO), 0);
	register_name("fake0", "fake0 0", false);
	getrlimit(RLIMIT_NOFILE, &limit);
	close(spare);
	count_resources_after_first_ia();
	do {
		none = (struct rlimit){ (rlim_t)spare + n, limit.rlim_max };
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
		ret = ia_open("fake0", 8, &async, &ia);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		if (ret != DAT_SUCCESS) {
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
			ck_assert_ptr_null(ia);
			ck_assert_ptr_null(async);
			expect_same_resources();
		}
		n++;
	} while (ret != DAT_SUCCESS && n < 20);
	ck_dat(ret);
	ck_assert_uint_gt(n, 3);
	ia_close_abrupt(ia);
	expect_same_resources();
}
END_TEST

START_TEST(ia_close_frees_every_resource)
{
	DAT_EVD_HANDLE async;
	DAT_IA_HANDLE ia;

	register_name("fake0", "fake0 0", false);
	count_resources_after_first_ia();
	for (int i = 0; i < 400; i++) {
		async = DAT_HANDLE_NULL;
		ck_dat(ia_open("fake0", 8, &async, &ia));
		ia_create_pz(ia);
		ia_create_evd(ia, DAT_EVD_DTO_FLAG);
		ia_close_abrupt(ia);
	}
	expect_same_resources();
}
END_TEST

/* ---- an asynchronous EVD that several IAs share ---- */

static struct ia *ia_open_sharing(DAT_EVD_HANDLE async)
{
	DAT_EVD_HANDLE shared = async;
	DAT_IA_HANDLE ia;

	register_name("fake1", "fake1 0", false);
	ck_dat(ia_open("fake1", 0, &shared, &ia));
	ck_assert_ptr_eq(shared, async);
	return ia;
}

static DAT_EVD_HANDLE query_async_evd(struct ia *ia)
{
	DAT_EVD_HANDLE evd;

	ck_dat(ia_query(ia, &evd, 0, NULL, 0, NULL));
	return evd;
}

static void ia_expect_async_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
				  DAT_COUNT reason)
{
	DAT_EVENT event;

	fake_wait_idle(0);
	ck_dat(evd_dequeue(evd, &event));
	ck_assert_uint_eq(event.event_number, number);
	ck_assert_ptr_eq(event.evd_handle, evd);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, handle);
	ck_assert_int_eq(event.event_data.asynch_error_event_data.reason, reason);
}

START_TEST(a_shared_async_evd_gets_the_events_of_both_ias)
{
	struct ia *owner = ia_open_fake(0), *ia = ia_open_sharing(owner->async_evd);
	DAT_EVD_HANDLE async = query_async_evd(owner);

	ck_assert_ptr_eq(query_async_evd(ia), async);
	fake_port_down(ia->dev);
	ia_expect_async_event(async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia, DAT_IA_OTHER_ERROR);
	fake_port_down(owner->dev);
	ia_expect_async_event(async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, owner, DAT_IA_OTHER_ERROR);
	ck_dat_is(ia_close(owner, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	fake_port_down(owner->dev);
	ia_expect_async_event(async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, owner, DAT_IA_OTHER_ERROR);
	ck_dat(ia_close(owner, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(a_shared_async_evd_can_not_be_freed)
{
	struct ia *owner = ia_open_fake(0), *ia;
	DAT_EVD_HANDLE second = ia_create_evd(owner, DAT_EVD_ASYNC_FLAG);

	ia = ia_open_sharing(second);
	ck_dat_is(evd_free(second), BAD_STATE(EVD_IN_USE));
	ia_close_abrupt(ia);
	ck_dat(evd_free(second));
	ia_close_abrupt(owner);
}
END_TEST

START_TEST(an_abrupt_close_detaches_a_shared_async_evd)
{
	struct ia *owner = ia_open_fake(0), *ia[3];
	const struct evd *shared = owner->async_evd;

	for (int i = 0; i < COUNT(ia); i++)
		ia[i] = ia_open_sharing(owner->async_evd);
	ia_close_abrupt(ia[1]);
	ia_close_abrupt(owner);
	/* the slot must have no holders when it is used again */
	ck_assert_uint_eq(atomic_load(&shared->obj.uses), OBJ_RETIRED);
	ck_assert_ptr_eq(query_async_evd(ia[0]), DAT_EVD_OUT_OF_SCOPE);
	ck_assert_ptr_eq(query_async_evd(ia[2]), DAT_EVD_OUT_OF_SCOPE);
	fake_port_down(ia[2]->dev);
	fake_wait_idle(0);
	ia_close_abrupt(ia[0]);
	ck_dat(ia_close(ia[2], DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

START_TEST(only_an_async_evd_can_be_shared)
{
	struct ia *owner = ia_open_fake(0);
	DAT_EVD_HANDLE evds[] = { ia_create_evd(owner, DAT_EVD_DTO_FLAG), owner, POISON,
				  DAT_EVD_OUT_OF_SCOPE };
	DAT_IA_HANDLE ia;

	register_name("fake1", "fake1 0", false);
	count_resources_after_first_ia();
	for (int i = 0; i < COUNT(evds); i++) {
		DAT_EVD_HANDLE async = evds[i];

		ck_dat_is(ia_open("fake1", 8, &async, &ia), BAD_HANDLE(EVD_ASYNC));
		ck_assert_ptr_null(ia);
		ck_assert_ptr_eq(async, evds[i]);
		expect_same_resources();
	}
	ck_dat(evd_free(evds[0]));
	ia_close_abrupt(owner);
}
END_TEST

START_TEST(a_failed_ia_open_releases_the_shared_async_evd)
{
	struct ia *owner = ia_open_fake(0);
	DAT_EVD_HANDLE async = ia_create_evd(owner, DAT_EVD_ASYNC_FLAG);
	DAT_EVD_HANDLE second = async;
	DAT_IA_HANDLE ia;

	register_name("absent", "eth7 0", false);
	ck_dat_is(ia_open("absent", 8, &async, &ia), NO_RESOURCE(DEVICE));
	ck_assert_ptr_eq(async, second);
	ck_dat(evd_free(second));
	ia_close_abrupt(owner);
}
END_TEST

/* ---- query ---- */

START_TEST(ia_query_checks_its_arguments)
{
	struct ia *ia = ia_open_fake(0);
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
	ia_close_abrupt(ia);
}
END_TEST

/* Consumers compare it as bytes, and set the port in a copy. */
START_TEST(the_ia_address_is_comparable_by_bytes)
{
	struct ia *ia = ia_open_fake(4);
	struct sockaddr_in want = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(FAKE_NETWORK + 5) };
	DAT_IA_ATTR attr[2];

	for (int i = 0; i < 2; i++) {
		ck_dat(ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr[i], 0, NULL));
		ck_assert_mem_eq(attr[i].ia_address_ptr, &want, sizeof(want));
		ck_assert_str_eq(attr[i].adapter_name, "fake4");
	}
	ck_assert_ptr_eq(attr[0].ia_address_ptr, attr[1].ia_address_ptr);
	ia_close_abrupt(ia);
}
END_TEST

/* ---- contexts and handle types ---- */

START_TEST(every_object_has_a_context_and_a_type)
{
	struct ia *ia = ia_open_fake(0);
	DAT_PZ_HANDLE pz = ia_create_pz(ia);
	const struct {
		DAT_HANDLE handle;
		DAT_HANDLE_TYPE type;
	} objects[] = {
		{ ia, DAT_HANDLE_TYPE_IA },
		{ ia->async_evd, DAT_HANDLE_TYPE_EVD },
		{ pz, DAT_HANDLE_TYPE_PZ },
		{ ia_create_lmr(ia, pz), DAT_HANDLE_TYPE_LMR },
		{ ia_create_cno(ia), DAT_HANDLE_TYPE_CNO },
		{ ia_create_ep(ia), DAT_HANDLE_TYPE_EP },
		{ ia_create_psp(ia), DAT_HANDLE_TYPE_PSP },
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
	ia_close_abrupt(ia);
	for (int i = 0; i < COUNT(objects); i++)
		ck_dat_is(handle_type(objects[i].handle, &type),
			  DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
}
END_TEST

START_TEST(an_invalid_handle_has_no_context_and_no_type)
{
	struct ia *ia = ia_open_fake(0);
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
	ia_close_abrupt(ia);
}
END_TEST

/* ---- close ---- */

START_TEST(ia_close_checks_its_arguments)
{
	struct ia *ia = ia_open_fake(0);

	ck_dat_is(ia_close(ia, (DAT_CLOSE_FLAGS)2), BAD_ARG(2));
	ck_dat_is(ia_close(POISON, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	ck_dat_is(ia_close(ia->async_evd, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat_is(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
}
END_TEST

static DAT_HANDLE child_pz(struct ia *ia)
{
	return ia_create_pz(ia);
}

static DAT_HANDLE child_lmr(struct ia *ia)
{
	return ia_create_lmr(ia, ia_create_pz(ia));
}

static DAT_HANDLE child_evd(struct ia *ia)
{
	return ia_create_evd(ia, DAT_EVD_DTO_FLAG);
}

static DAT_HANDLE child_async(struct ia *ia)
{
	return ia_create_evd(ia, DAT_EVD_ASYNC_FLAG);
}

static DAT_HANDLE child_cno(struct ia *ia)
{
	DAT_CNO_HANDLE cno = ia_create_cno(ia);

	ck_dat(evd_modify_cno(ia->async_evd, cno));
	return cno;
}

static DAT_HANDLE child_ep(struct ia *ia)
{
	return ia_create_ep(ia);
}

static DAT_HANDLE child_bare_ep(struct ia *ia)
{
	DAT_EP_HANDLE ep;

	ck_dat(ep_create(ia, ia_create_pz(ia), NULL, NULL, NULL, NULL, &ep));
	return ep;
}

static DAT_HANDLE child_psp(struct ia *ia)
{
	return ia_create_psp(ia);
}

/* A request without an answer. */
static DAT_HANDLE child_cr(struct ia *ia)
{
	struct ia *active = ia_open_fake(9);
	struct sockaddr_storage here = ia->attr->addr;
	DAT_PSP_HANDLE psp = ia_create_psp(ia);
	DAT_EVENT event;

	ck_dat(ep_connect(ia_create_ep(active), (DAT_IA_ADDRESS_PTR)&here, 1024,
			  DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
			  DAT_CONNECT_DEFAULT_FLAG));
	fake_wait_idle(0);
	ck_dat(evd_dequeue(((struct sp *)psp)->evd, &event));
	ck_dat(psp_free(psp));
	return event.event_data.cr_arrival_event_data.cr_handle;
}

static DAT_HANDLE (*const children[])(struct ia *) = {
	child_pz, child_lmr,	 child_evd, child_async, child_cno,
	child_ep, child_bare_ep, child_psp, child_cr,
};

START_TEST(only_a_graceful_close_is_refused_with_objects)
{
	struct ia *ia = ia_open_fake(0);
	DAT_HANDLE child = children[_i](ia);
	DAT_HANDLE_TYPE type;

	ck_dat_is(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	ck_dat(handle_type(child, &type));
	fake_port_down(ia->dev);
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_OTHER_ERROR);
	ia_close_abrupt(ia);
	ck_dat_is(handle_type(child, &type), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
}
END_TEST

START_TEST(an_abrupt_close_frees_every_object)
{
	struct ia *ia = ia_open_fake(0);
	DAT_PZ_HANDLE pz = ia_create_pz(ia);
	DAT_LMR_HANDLE lmr = ia_create_lmr(ia, pz);
	DAT_CNO_HANDLE cno = ia_create_cno(ia);
	DAT_EVD_HANDLE evd = ia_create_evd(ia, DAT_EVD_DTO_FLAG);

	ia_create_ep(ia);
	child_bare_ep(ia);
	ia_create_psp(ia);
	ck_dat(evd_modify_cno(evd, cno));
	ck_dat(evd_modify_cno(ia->async_evd, cno));
	ia_close_abrupt(ia);
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
	ck_dat_is(lmr_free(lmr), BAD_HANDLE(LMR));
	ck_dat_is(pz_free(pz), BAD_HANDLE(PZ));
	ck_dat_is(evd_free(evd), DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	ck_dat_is(cno_free(cno), BAD_HANDLE(CNO));
}
END_TEST

/* A thread in dat_cno_wait. */
struct ia_cno_waiter {
	DAT_CNO_HANDLE cno;
	DAT_RETURN ret;
	DAT_EVD_HANDLE evd;
	pthread_t thread;
};

static void *ia_cno_waiter_main(void *arg)
{
	struct ia_cno_waiter *waiter = arg;

	waiter->evd = POISON;
	waiter->ret = cno_wait(waiter->cno, DAT_TIMEOUT_INFINITE, &waiter->evd);
	return NULL;
}

static struct waiter ia_waiter_on(DAT_EVD_HANDLE evd)
{
	return (struct waiter){ .evd = evd, .timeout = DAT_TIMEOUT_INFINITE, .threshold = 1 };
}

START_TEST(an_abrupt_close_expels_waiters)
{
	struct ia *ia = ia_open_fake(0);
	struct waiter waiters[] = {
		ia_waiter_on(ia_create_evd(ia, DAT_EVD_DTO_FLAG)),
		ia_waiter_on(ia_create_evd(ia, DAT_EVD_SOFTWARE_FLAG)),
		ia_waiter_on(ia->async_evd),
	};
	DAT_CNO_HANDLE cno = ia_create_cno(ia);
	struct ia_cno_waiter cno_waiters[] = { { .cno = cno },
					       { .cno = cno },
					       { .cno = ia_create_cno(ia) } };

	ck_dat(evd_modify_cno(ia_create_evd(ia, DAT_EVD_DTO_FLAG), cno));
	for (int i = 0; i < COUNT(waiters); i++)
		waiter_start(&waiters[i]);
	for (int i = 0; i < COUNT(cno_waiters); i++)
		cno_waiters[i].thread = consumer_thread_start(ia_cno_waiter_main, &cno_waiters[i]);
	fake_wait_idle(COUNT(waiters) + COUNT(cno_waiters));
	ia_close_abrupt(ia);
	for (int i = 0; i < COUNT(waiters); i++)
		ck_dat_is(waiter_join(&waiters[i]), DAT_ERROR(DAT_ABORT, 0));
	for (int i = 0; i < COUNT(cno_waiters); i++) {
		consumer_thread_join(cno_waiters[i].thread);
		ck_dat(cno_waiters[i].ret);
		ck_assert_ptr_null(cno_waiters[i].evd);
	}
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}
END_TEST

/* The asynchronous EVD is the only object, and a thread waits on it. */
START_TEST(a_graceful_close_expels_the_async_waiter)
{
	struct ia *ia = ia_open_fake(0);
	struct waiter waiter = ia_waiter_on(ia->async_evd);

	waiter_start(&waiter);
	ck_dat(ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_dat_is(waiter_join(&waiter), DAT_ERROR(DAT_ABORT, 0));
}
END_TEST

static struct {
	unsigned calls;
	DAT_EVD_HANDLE evd;
} agent_call;

static void ia_record_agent_call(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	ck_assert_ptr_eq(data, &agent_call);
	agent_call.calls++;
	agent_call.evd = evd;
}

START_TEST(an_abrupt_close_calls_the_agent)
{
	struct ia *ia = ia_open_fake(0);
	DAT_CNO_HANDLE cno;

	agent_call.evd = POISON;
	ck_dat(cno_create(ia, (DAT_OS_WAIT_PROXY_AGENT){ &agent_call, ia_record_agent_call },
			  &cno));
	ia_close_abrupt(ia);
	ck_assert_uint_eq(agent_call.calls, 1);
	ck_assert_ptr_null(agent_call.evd);
}
END_TEST

/* ---- asynchronous errors ---- */

START_TEST(every_async_evd_gets_a_device_error)
{
	struct ia *ia = ia_open_fake(0), *other = ia_open_fake(0);
	DAT_EVD_HANDLE second = ia_create_evd(ia, DAT_EVD_ASYNC_FLAG | DAT_EVD_SOFTWARE_FLAG);
	DAT_EVD_HANDLE connection_evd = ia_create_evd(ia, DAT_EVD_CONNECTION_FLAG);

	fake_port_down(ia->dev);
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_OTHER_ERROR);
	ia_expect_async_event(second, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia, DAT_IA_OTHER_ERROR);
	expect_no_event(connection_evd);
	fake_dev_fatal(ia->dev);
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_CATASTROPHIC_ERROR);
	ia_expect_async_event(second, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia,
			      DAT_IA_CATASTROPHIC_ERROR);
	expect_no_event(other->async_evd);
	ia_close_abrupt(other);
	ia_close_abrupt(ia);
}
END_TEST

START_TEST(an_overrun_is_reported_for_its_evd)
{
	struct ia *ia = ia_open_fake(0);
	DAT_EVD_HANDLE evd = ia_create_evd(ia, DAT_EVD_DTO_FLAG);

	fake_overrun(cq_of_evd(evd));
	ia_expect_async_event(ia->async_evd, DAT_ASYNC_ERROR_EVD_OVERFLOW, evd,
			      DAT_EVD_OVERFLOW_ERROR);
	expect_no_event(ia->async_evd);
	ia_close_abrupt(ia);
}
END_TEST

/* Completions are lost, so the endpoints that feed the EVD must not continue. */
START_TEST(an_overrun_breaks_the_endpoints)
{
	struct pair pair = { 0 };
	DAT_EVENT event;

	pair_connect(&pair);
	fake_overrun(cq_of_evd(pair.client.recv_evd));
	fake_wait_idle(0);
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

/* A consumer that never dequeues them loses events, and nothing else fails. */
START_TEST(unread_async_errors_end_with_an_overflow_event)
{
	struct ia *ia = ia_open_fake(0);
	DAT_EVENT event;
	unsigned count = 0;

	for (int i = 0; i < 100; i++)
		fake_port_down(ia->dev);
	fake_wait_idle(0);
	while (evd_dequeue(ia->async_evd, &event) == DAT_SUCCESS)
		count++;
	ck_assert_uint_ge(count, 8);
	ck_assert_uint_lt(count, 100);
	ck_assert_uint_eq(event.event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
	ck_assert_ptr_eq(event.event_data.asynch_error_event_data.dat_handle, ia->async_evd);
	ia_close_abrupt(ia);
}
END_TEST

static void add_ia_open_cases(TCase *cases)
{
	tcase_add_test(cases, a_provider_is_registered_by_name);
	tcase_add_test(cases, a_name_registered_again_keeps_its_table);
	tcase_add_test(cases, a_refused_registration_keeps_nothing);
	tcase_add_test(cases, the_device_parameters_may_be_absent);
	tcase_add_test(cases, a_name_has_one_provider_per_thread_model);
	tcase_add_test(cases, the_provider_table_has_no_empty_entry);
	tcase_add_test(cases, a_registration_without_memory_can_be_repeated);
	tcase_add_test(cases, ia_open_checks_its_arguments);
	tcase_add_test(cases, ia_open_without_a_device_logs_nothing);
	tcase_add_loop_test(cases, a_name_that_the_host_does_not_have_is_an_invalid_address, 0,
			    COUNT(open_errors));
	tcase_add_test(cases, ia_open_accepts_queues_up_to_the_maximum);
	tcase_add_test(cases, ia_open_creates_the_async_evd);
	tcase_add_test(cases, ia_open_may_do_without_an_async_evd);
	tcase_add_test(cases, a_failed_ia_open_changes_nothing);
	tcase_add_test(cases, ia_open_without_memory_changes_nothing);
	tcase_add_test(cases, ia_open_without_descriptors_changes_nothing);
	tcase_add_test(cases, ia_close_frees_every_resource);
	tcase_add_test(cases, a_shared_async_evd_gets_the_events_of_both_ias);
	tcase_add_test(cases, a_shared_async_evd_can_not_be_freed);
	tcase_add_test(cases, an_abrupt_close_detaches_a_shared_async_evd);
	tcase_add_test(cases, only_an_async_evd_can_be_shared);
	tcase_add_test(cases, a_failed_ia_open_releases_the_shared_async_evd);
}

static void add_ia_close_cases(TCase *cases)
{
	tcase_add_test(cases, ia_query_checks_its_arguments);
	tcase_add_test(cases, the_ia_address_is_comparable_by_bytes);
	tcase_add_test(cases, every_object_has_a_context_and_a_type);
	tcase_add_test(cases, an_invalid_handle_has_no_context_and_no_type);
	tcase_add_test(cases, ia_close_checks_its_arguments);
	tcase_add_loop_test(cases, only_a_graceful_close_is_refused_with_objects, 0,
			    COUNT(children));
	tcase_add_test(cases, an_abrupt_close_frees_every_object);
	tcase_add_test(cases, an_abrupt_close_expels_waiters);
	tcase_add_test(cases, a_graceful_close_expels_the_async_waiter);
	tcase_add_test(cases, an_abrupt_close_calls_the_agent);
	tcase_add_test(cases, every_async_evd_gets_a_device_error);
	tcase_add_test(cases, an_overrun_is_reported_for_its_evd);
	tcase_add_test(cases, an_overrun_breaks_the_endpoints);
	tcase_add_test(cases, unread_async_errors_end_with_an_overflow_event);
}

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("adapters");

	add_ia_open_cases(cases);
	add_ia_close_cases(cases);
	return run_unit_cases(argc, argv);
}
