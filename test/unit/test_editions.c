/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both registries, libdat.so.1 and libdat2.so.2, in one process: loaded by dlopen, as MPI libraries
 * do, in either order and scope. This file is compiled with the headers of DAT 1.2; what it uses of
 * 2.0 is the same there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mock_provider.h"
#include "registry_test.h"

/* Numbers; the first three differ between the editions. */
#define NO_NAME_OF(edition)  ((edition) == 2 ? 0x800a0064U : 0x800a0062U)
#define NO_MAJOR_OF(edition) ((edition) == 2 ? 0x800a0065U : 0x800a0063U)
#define BAD_ARG_2_OF_2_0     0x80060026U
#define ALREADY_REGISTERED   0x80100000U

/* Of one edition. */
struct registry_library {
	int edition;
	const char *path;
	DAT_UINT32 minor;
	void *library;
	__typeof__(dat_ia_openv) *openv;
	__typeof__(dat_ia_close) *close;
	__typeof__(dat_registry_list_providers) *list;
	__typeof__(dat_registry_add_provider) *add;
	__typeof__(dat_registry_remove_provider) *remove;
	DAT_RETURN (*get_ia_handle)(unsigned long handle, DAT_IA_HANDLE *ia);
};

static struct registry_library one = { .edition = 1,
				       .path = LIBDAT_FOLDER "/libdat.so.1",
				       .minor = 2 };
static struct registry_library two = { .edition = 2,
				       .path = LIBDAT_FOLDER "/libdat2.so.2",
				       .minor = 0 };

static void (*function_of(const struct registry_library *registry, const char *name))(void)
{
	void (*function)(void) = (void (*)(void))dlsym(registry->library, name);

	ck_assert_msg(function != NULL, "%s", name);
	return function;
}

static void load(struct registry_library *registry, int scope)
{
	registry->library = dlopen(registry->path, RTLD_NOW | scope);
	ck_assert_msg(registry->library != NULL, "%s", dlerror());
#define FUNCTION(name) (__typeof__(name) *)function_of(registry, #name)
	registry->openv = FUNCTION(dat_ia_openv);
	registry->close = FUNCTION(dat_ia_close);
	registry->list = FUNCTION(dat_registry_list_providers);
	registry->add = FUNCTION(dat_registry_add_provider);
	registry->remove = FUNCTION(dat_registry_remove_provider);
	registry->get_ia_handle = (DAT_RETURN(*)(unsigned long, DAT_IA_HANDLE *))function_of(
		registry, "dats_get_ia_handle");
}

static DAT_RETURN open_as(const struct registry_library *registry, const char *name,
			  const struct registry_library *version, DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return registry->openv((char *)name, 8, &evd, ia, (DAT_UINT32)version->edition,
			       version->minor, DAT_FALSE);
}

static DAT_IA_HANDLE opened_by(const struct registry_library *registry, const char *name)
{
	DAT_IA_HANDLE ia = NULL;

	ck_assert_uint_eq(open_as(registry, name, registry, &ia), DAT_SUCCESS);
	return ia;
}

/* The provider's handle of an IA. */
static DAT_IA_HANDLE inner_handle(const struct registry_library *registry, DAT_IA_HANDLE ia)
{
	DAT_IA_HANDLE inner = NULL;

	ck_assert_uint_eq(registry->get_ia_handle((unsigned long)ia, &inner), DAT_SUCCESS);
	return inner;
}

/* ---- providers of both editions in one file, loaded by a program of two worlds ---- */

/* Linked with the registry of their edition, as ours are, or with none, as dapl's. */
static const struct mock_files {
	const char *one, *two;
} mock_files[] = {
	{ MOCK_FOLDER "/mock_provider.so", MOCK_FOLDER "/mock_provider20.so" },
	{ MOCK_FOLDER "/mock_unlinked.so", MOCK_FOLDER "/mock_unlinked20.so" },
};

/* The name "same" has a line for each edition. */
static void use_mixed_conf(const struct mock_files *files)
{
	char *text;

	ck_assert_int_gt(asprintf(&text,
				  LINE("a", "u1.2", "%s", "") LINE("b", "u2.0", "%s", "")
					  LINE("same", "u2.0", "%s", "two")
						  LINE("same", "u1.2", "%s", "one"),
				  files->one, files->two, files->two, files->one),
			 0);
	use_conf(text);
	free(text);
}

static struct mock *mock_of(const char *path)
{
	void *library = dlopen(path, RTLD_NOLOAD | RTLD_NOW);

	ck_assert_ptr_nonnull(library);
	return dlsym(library, "mock");
}

static void list_has_both(const struct registry_library *registry)
{
	static const struct {
		const char *name;
		DAT_UINT32 major;
	} want[] = { { "a", 1 }, { "b", 2 }, { "same", 2 }, { "same", 1 } };
	DAT_PROVIDER_INFO infos[8], *list[8];
	DAT_COUNT count;

	for (int i = 0; i < 8; i++)
		list[i] = &infos[i];
	ck_assert_uint_eq(registry->list(8, &count, list), DAT_SUCCESS);
	ck_assert_int_eq(count, COUNT(want));
	for (int i = 0; i < count; i++) {
		ck_assert_str_eq(infos[i].ia_name, want[i].name);
		ck_assert_uint_eq(infos[i].dapl_version_major, want[i].major);
	}
}

/* Which registry is loaded first, and the scope of each. The iteration is one of these, twice. */
static const struct arrangement {
	struct registry_library *first, *second;
	int first_scope, second_scope;
} arrangements[] = {
	{ &one, &two, RTLD_LOCAL, RTLD_LOCAL },	  { &two, &one, RTLD_LOCAL, RTLD_LOCAL },
	{ &one, &two, RTLD_GLOBAL, RTLD_LOCAL },  { &two, &one, RTLD_GLOBAL, RTLD_LOCAL },
	{ &one, &two, RTLD_LOCAL, RTLD_GLOBAL },  { &two, &one, RTLD_LOCAL, RTLD_GLOBAL },
	{ &one, &two, RTLD_GLOBAL, RTLD_GLOBAL }, { &two, &one, RTLD_GLOBAL, RTLD_GLOBAL },
};

static const struct mock_files *arrange(int i)
{
	const struct arrangement *arrangement = &arrangements[i / 2];

	load(arrangement->first, arrangement->first_scope);
	load(arrangement->second, arrangement->second_scope);
	use_mixed_conf(&mock_files[i % 2]);
	return &mock_files[i % 2];
}

static void counts_are(const struct mock *mock, int inits, int finis, int opens, int closes)
{
	ck_assert_int_eq(mock->inits, inits);
	ck_assert_int_eq(mock->finis, finis);
	ck_assert_int_eq(mock->opens, opens);
	ck_assert_int_eq(mock->closes, closes);
	ck_assert_int_eq(mock->misuses, 0);
}

START_TEST(ias_of_both_editions_are_open_at_once)
{
	const struct mock_files *files = arrange(_i);
	const struct arrangement *order = &arrangements[_i / 2];
	const char *first_name = order->first == &one ? "a" : "b";
	const char *second_name = order->first == &one ? "b" : "a";
	DAT_IA_HANDLE first, second, same_first, same_second;
	const struct mock *mock_one, *mock_two;

	list_has_both(&one);
	list_has_both(&two);
	first = opened_by(order->first, first_name);
	second = opened_by(order->second, second_name);
	same_first = opened_by(order->first, "same");
	same_second = opened_by(order->second, "RO_AWARE_same");
	mock_one = mock_of(files->one);
	mock_two = mock_of(files->two);
	ck_assert_ptr_ne(mock_one, mock_two);
	ck_assert_str_eq(mock_one->params, "one");
	ck_assert_str_eq(mock_two->params, "two");
	ck_assert_int_eq(mock_one->ro_aware, order->second == &one);
	ck_assert_int_eq(mock_two->ro_aware, order->second == &two);
	ck_assert_ptr_nonnull(strstr(mock_one->line, ":4"));
	ck_assert_ptr_nonnull(strstr(mock_two->line, ":3"));
	counts_are(mock_one, 2, 0, 2, 0);
	counts_are(mock_two, 2, 0, 2, 0);
	/* the numbers of each registry's IAs are its own */
	ck_assert_uint_eq((uintptr_t)first, 1);
	ck_assert_uint_eq((uintptr_t)second, 1);
	ck_assert_uint_eq(order->first->close(first, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(order->first->close(same_first, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	counts_are(order->first == &one ? mock_one : mock_two, 2, 2, 2, 2);
	counts_are(order->first == &one ? mock_two : mock_one, 2, 0, 2, 0);
	ck_assert_uint_eq(order->second->close(second, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(order->second->close(same_second, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	counts_are(mock_one, 2, 2, 2, 2);
	counts_are(mock_two, 2, 2, 2, 2);
}
END_TEST

static void opens_nothing(const struct registry_library *registry, const char *name,
			  const struct registry_library *version, DAT_RETURN want)
{
	DAT_IA_HANDLE ia = &ia;

	ck_assert_uint_eq(open_as(registry, name, version, &ia), want);
	ck_assert_ptr_null(ia);
}

START_TEST(each_registry_opens_its_own_edition_only)
{
	const struct mock_files *files = arrange(_i);
	int err_fd = stderr_capture();

	opens_nothing(&one, "b", &two, NO_NAME_OF(1));
	opens_nothing(&two, "a", &one, NO_NAME_OF(2));
	opens_nothing(&one, "same", &two, NO_NAME_OF(1));
	opens_nothing(&two, "same", &one, NO_NAME_OF(2));
	opens_nothing(&one, "b", &one, NO_MAJOR_OF(1));
	opens_nothing(&two, "a", &two, NO_MAJOR_OF(2));
	/* one line from each */
	ck_assert_int_eq(captured_lines(err_fd), 2);
	ck_assert_ptr_nonnull(
		strstr(output_text(err_fd), "b u2.0: libdat.so.1 opens no IA of this version\n"));
	ck_assert_ptr_nonnull(
		strstr(output_text(err_fd), "a u1.2: libdat2.so.2 opens no IA of this version\n"));
	ck_assert_ptr_null(dlopen(files->one, RTLD_NOLOAD | RTLD_NOW));
	ck_assert_ptr_null(dlopen(files->two, RTLD_NOLOAD | RTLD_NOW));
}
END_TEST

/* A result has the number and the name of the registry that gives it. */
START_TEST(each_registry_logs_its_own_names)
{
	int err_fd = stderr_capture();

	setenv("DAT_DBG_TYPE", "0x20", 1);
	(void)arrange(_i);
	opens_nothing(&two, "a", &one, NO_NAME_OF(2));
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "libdat2["));
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), " DAT_NAME_NOT_REGISTERED\n"));
	ck_assert_int_eq(ftruncate(err_fd, 0), 0);
	opens_nothing(&one, "b", &two, NO_NAME_OF(1));
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "libdat["));
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), " DAT_NAME_NOT_REGISTERED\n"));
}
END_TEST

/* ---- a provider that found the functions of the other registry ---- */

static struct registry_object table_ia;

static DAT_RETURN table_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
			     DAT_IA_HANDLE *ia)
{
	(void)name;
	(void)qlen;
	(void)evd;
	*ia = &table_ia;
	return DAT_SUCCESS;
}

static DAT_RETURN table_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	(void)ia;
	(void)flags;
	return DAT_SUCCESS;
}

/* The table of DAT 1.2 is shorter: this one ends where no memory is mapped. */
static DAT_PROVIDER *table_at_end_of_page(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);
	DAT_PROVIDER *table;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(munmap(pages + page, page), 0);
	ck_assert_uint_eq(sizeof(*table), 70 * sizeof(void *));
	table = (DAT_PROVIDER *)(pages + page) - 1;
	table->ia_open_func = table_open;
	table->ia_close_func = table_close;
	table_ia.provider = table;
	return table;
}

static const DAT_PROVIDER_INFO table_info = { "t", 1, 2, DAT_FALSE };

START_TEST(a_short_table_is_handed_on_to_its_registry)
{
	DAT_PROVIDER *table = table_at_end_of_page();
	DAT_IA_HANDLE ia;

	stderr_capture();
	(void)arrange(_i);
	ck_assert_uint_eq(two.add(table, &table_info), DAT_SUCCESS);
	ck_assert_uint_eq(two.add(table, &table_info), ALREADY_REGISTERED);
	opens_nothing(&two, "t", &one, NO_NAME_OF(2));
	opens_nothing(&two, "t", &two, NO_NAME_OF(2));
	ia = opened_by(&one, "t");
	ck_assert_uint_eq(two.remove(table, &table_info), PROVIDER_IN_USE);
	ck_assert_uint_eq(one.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(two.remove(table, &table_info), DAT_SUCCESS);
	opens_nothing(&one, "t", &one, NO_NAME_OF(1));
}
END_TEST

/* The same in the other direction; the words that libdat.so.1 does not know are there. */
START_TEST(a_provider_of_2_0_is_handed_on_to_its_registry)
{
	static void *words[81];
	DAT_PROVIDER *table = (DAT_PROVIDER *)words;
	const DAT_PROVIDER_INFO info = { "t", 2, 0, DAT_FALSE };
	DAT_IA_HANDLE ia;

	stderr_capture();
	(void)arrange(_i);
	table->ia_open_func = table_open;
	table->ia_close_func = table_close;
	table_ia.provider = table;
	ck_assert_uint_eq(one.add(table, &info), DAT_SUCCESS);
	opens_nothing(&one, "t", &two, NO_NAME_OF(1));
	ia = opened_by(&two, "t");
	ck_assert_uint_eq(one.remove(table, &info), PROVIDER_IN_USE);
	ck_assert_uint_eq(two.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(one.remove(table, &info), DAT_SUCCESS);
	opens_nothing(&two, "t", &two, NO_NAME_OF(2));
}
END_TEST

/* As soon as the other registry is there the call works. */
START_TEST(without_the_other_registry_its_providers_are_refused)
{
	DAT_PROVIDER *table = table_at_end_of_page();
	int err_fd = stderr_capture();

	use_conf("");
	load(&two, RTLD_LOCAL);
	ck_assert_uint_eq(two.add(table, &table_info), BAD_ARG_2_OF_2_0);
	ck_assert_uint_eq(two.remove(table, &table_info), BAD_ARG_2_OF_2_0);
	ck_assert_int_eq(captured_lines(err_fd), 2);
	ck_assert_ptr_nonnull(strstr(output_text(err_fd), "t u1.2: dat_registry_add_provider: "));
	load(&one, RTLD_LOCAL);
	ck_assert_uint_eq(two.add(table, &table_info), DAT_SUCCESS);
	ck_assert_uint_eq(two.remove(table, &table_info), DAT_SUCCESS);
	ck_assert_int_eq(captured_lines(err_fd), 2);
}
END_TEST

static void gets_no_handle(const struct registry_library *registry, const void *handle)
{
	DAT_IA_HANDLE ia = &ia;

	ck_assert_uint_eq(registry->get_ia_handle((unsigned long)handle, &ia), BAD_IA);
	ck_assert_ptr_eq(ia, &ia);
}

/* Of the provider's handle in either registry: providers of 2.0 ask for the consumer's. */
START_TEST(the_registry_of_1_2_knows_the_ias_of_2_0)
{
	DAT_IA_HANDLE ia, inner, shown = NULL;
	struct registry_object none = { NULL };

	(void)arrange(_i);
	(void)opened_by(&two, "b");
	ia = opened_by(&two, "b");
	inner = inner_handle(&two, ia);
	ck_assert_uint_eq(one.get_ia_handle((unsigned long)inner, &shown), DAT_SUCCESS);
	ck_assert_ptr_eq(shown, ia);
	gets_no_handle(&one, &none);
	gets_no_handle(&one, ia); /* a number is one of its own */
	ck_assert_uint_eq(two.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	gets_no_handle(&one, inner);
}
END_TEST

START_TEST(the_registry_of_1_2_alone_knows_its_own_ias)
{
	struct registry_object none = { NULL };

	use_conf("");
	load(&one, RTLD_LOCAL);
	gets_no_handle(&one, &none);
}
END_TEST

/* ---- objects of one edition, given to the calls of the other ---- */

/* Any call: what matters is the first argument. */
typedef DAT_RETURN any_call(const void *handle, ...);

static any_call *call_of(const struct registry_library *registry, const char *name)
{
	return (any_call *)function_of(registry, name);
}

static struct objects {
	DAT_IA_HANDLE ia;
	void *evd, *ep, *pz, *cno;
} of_one, of_two;

/* Of a provider that is ours, over the fake transport. */
static void make_objects(const struct registry_library *registry, const char *name,
			 struct objects *objects)
{
	const DAT_IA_HANDLE ia = objects->ia = opened_by(registry, name);
	void *null = NULL;

	ck_assert_uint_eq(call_of(registry, "dat_pz_create")(ia, &objects->pz), DAT_SUCCESS);
	ck_assert_uint_eq(
		call_of(registry, "dat_evd_create")(ia, 8, null, DAT_EVD_DTO_FLAG, &objects->evd),
		DAT_SUCCESS);
	ck_assert_uint_eq(call_of(registry, "dat_ep_create")(ia, objects->pz, objects->evd,
							     objects->evd, null, null,
							     &objects->ep),
			  DAT_SUCCESS);
	ck_assert_uint_eq(call_of(registry, "dat_cno_create")(ia, null, null, &objects->cno),
			  DAT_SUCCESS);
}

static void make_objects_of_both(void)
{
	load(&one, RTLD_LOCAL);
	load(&two, RTLD_LOCAL);
	use_conf(LINE("a", "u1.2", FAKE_FOLDER "/libfakedat.so", "fake0 0")
			 LINE("b", "u2.0", FAKE_FOLDER "/libfakedat2.so", "fake0 0"));
	make_objects(&one, "a", &of_one);
	make_objects(&two, "b", &of_two);
}

/* Each edition has lost nothing. */
static void close_both(void)
{
	ck_assert_uint_eq(call_of(&one, "dat_ep_free")(of_one.ep), DAT_SUCCESS);
	ck_assert_uint_eq(call_of(&two, "dat_ep_free")(of_two.ep), DAT_SUCCESS);
	ck_assert_uint_eq(one.close(of_one.ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(two.close(of_two.ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

static void refuses(const struct registry_library *registry, const char *call, void *const *handle)
{
	unsigned char untouched[256], out[256];
	DAT_RETURN ret;

	memset(untouched, 0x5a, sizeof(untouched));
	memset(out, 0x5a, sizeof(out));
	ret = call_of(registry, call)(*handle, out, out, out, out, out, out);
	ck_assert_msg(DAT_GET_TYPE(ret) == DAT_INVALID_HANDLE, "%s: %#x", call, (unsigned)ret);
	ck_assert_mem_eq(out, untouched, sizeof(out));
}

static const struct foreign_call {
	const char *name;
	void **handle;
} calls_of_one[] = {
	{ "dat_evd_dequeue", &of_two.evd },   { "dat_evd_wait", &of_two.evd },
	{ "dat_evd_query", &of_two.evd },     { "dat_evd_post_se", &of_two.evd },
	{ "dat_ep_post_send", &of_two.ep },   { "dat_ep_post_recv", &of_two.ep },
	{ "dat_ep_query", &of_two.ep },	      { "dat_ep_free", &of_two.ep },
	{ "dat_cno_query", &of_two.cno },     { "dat_cno_wait", &of_two.cno },
	{ "dat_cr_reject", &of_two.ep },      { "dat_rmr_bind", &of_two.ep },
	{ "dat_pz_free", &of_two.pz },	      { "dat_srq_post_recv", &of_two.ep },
	{ "dat_get_handle_type", &of_two.pz },
}, calls_of_two[] = {
	{ "dat_evd_query", &of_one.evd },     { "dat_ep_query", &of_one.ep },
	{ "dat_ep_free", &of_one.ep },	      { "dat_cno_query", &of_one.cno },
	{ "dat_cr_reject", &of_one.ep },      { "dat_pz_free", &of_one.pz },
	{ "dat_get_handle_type", &of_one.pz }, { "dat_ep_common_connect", &of_one.ep },
	{ "dat_rmr_create_for_ep", &of_one.pz },
	{ "dat_ep_post_send_with_invalidate", &of_one.ep },
	{ "dat_ep_post_rdma_read_to_rmr", &of_one.ep }, { "dat_cno_trigger", &of_one.cno },
	{ "dat_csp_query", &of_one.pz },      { "dat_csp_free", &of_one.pz },
};

/* An event of DAT 2.0 would be written into one of DAT 1.2, which is shorter. */
START_TEST(the_registry_of_1_2_refuses_objects_of_2_0)
{
	make_objects_of_both();
	for (int i = 0; i < COUNT(calls_of_one); i++)
		refuses(&one, calls_of_one[i].name, calls_of_one[i].handle);
	close_both();
}
END_TEST

/* The table of DAT 1.2 ends before the words of the latest calls. */
START_TEST(the_registry_of_2_0_refuses_objects_of_1_2)
{
	make_objects_of_both();
	for (int i = 0; i < COUNT(calls_of_two); i++)
		refuses(&two, calls_of_two[i].name, calls_of_two[i].handle);
	for (int op = 0; op < 40; op++)
		ck_assert_uint_eq(call_of(&two, "dat_extension_op")(of_one.ep, op), 0x8005001bU);
	close_both();
}
END_TEST

/* ---- fork ---- */

static struct registry_library *const of_edition[] = { &one, &two };

/* Names of each edition whose open blocks, or does not. */
static const char *const blocking[] = { "slow1", "slow2" }, *const quick[] = { "quick1", "quick2" };

static void *open_blocking(void *edition)
{
	const int i = *(int *)edition;
	DAT_IA_HANDLE ia = opened_by(of_edition[i], blocking[i]);

	ck_assert_uint_eq(of_edition[i]->close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	return NULL;
}

/* What an open returns in a child, which loads the registry unless its parent has. */
static DAT_RETURN status_in_child(struct registry_library *registry, const char *name)
{
	DAT_RETURN *status = mmap(NULL, sizeof(*status), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	DAT_IA_HANDLE ia;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		if (!registry->library)
			load(registry, RTLD_LOCAL);
		*status = open_as(registry, name, registry, &ia);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	return *status;
}

/* The linker, and the libraries below the providers, are those of both. */
START_TEST(a_fork_beside_an_open_of_one_edition_concerns_the_other)
{
	static const char *const files[] = { MOCK_FOLDER "/mock_provider.so",
					     MOCK_FOLDER "/mock_provider20.so" };
	int busy = _i, other = !_i;
	struct mock *mock;
	pthread_t thread;

	load(&one, RTLD_LOCAL);
	load(&two, RTLD_LOCAL);
	use_conf(LINE("slow1", "u1.2", MOCK_FOLDER "/mock_provider.so", "block-open")
			 LINE("slow2", "u2.0", MOCK_FOLDER "/mock_provider20.so", "block-open")
				 LINE("quick1", "u1.2", MOCK_FOLDER "/mock_provider.so", "") LINE(
					 "quick2", "u2.0", MOCK_FOLDER "/mock_provider20.so", ""));
	ck_assert_ptr_nonnull(dlopen(files[busy], RTLD_NOW));
	mock = mock_of(files[busy]);
	ck_assert_int_eq(pthread_create(&thread, NULL, open_blocking, &busy), 0);
	while (sem_wait(&mock->entered))
		;
	ck_assert_uint_eq(status_in_child(of_edition[other], quick[other]), 0x80070000U);
	sem_post(&mock->proceed);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(status_in_child(of_edition[other], quick[other]), DAT_SUCCESS);
}
END_TEST

/* The provider of one edition knows of a lock of a library that both may be over. */
START_TEST(a_fork_beside_a_call_of_one_provider_concerns_the_other)
{
	struct registry_library *busy = of_edition[_i], *other = of_edition[!_i];
	const char *const names[] = { "a", "b" };

	load(&one, RTLD_LOCAL);
	load(&two, RTLD_LOCAL);
	use_conf(LINE("a", "u1.2", FAKE_FOLDER "/libfakedat.so", "fake0 0")
			 LINE("b", "u2.0", FAKE_FOLDER "/libfakedat2.so", "fake0 0"));
	(void)opened_by(other, names[!_i]);
	ck_assert_uint_eq(status_in_child(other, names[!_i]), DAT_SUCCESS);
	setenv("FAKE_IN_CALL", "1", 1);
	(void)opened_by(busy, names[_i]);
	ck_assert_uint_eq(status_in_child(other, names[!_i]), 0x80070000U);
}
END_TEST

START_TEST(a_registry_that_is_loaded_in_such_a_child_opens_nothing)
{
	struct registry_library *busy = of_edition[_i], *other = of_edition[!_i];
	const char *const names[] = { "a", "b" };

	load(busy, RTLD_LOCAL);
	use_conf(LINE("a", "u1.2", FAKE_FOLDER "/libfakedat.so", "fake0 0")
			 LINE("b", "u2.0", FAKE_FOLDER "/libfakedat2.so", "fake0 0"));
	setenv("FAKE_IN_CALL", "1", 1);
	(void)opened_by(busy, names[_i]);
	ck_assert_uint_eq(status_in_child(other, names[!_i]), 0x80070000U);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("editions");
	const int arranged = 2 * COUNT(arrangements);

	tcase_add_loop_test(cases, ias_of_both_editions_are_open_at_once, 0, arranged);
	tcase_add_loop_test(cases, each_registry_opens_its_own_edition_only, 0, arranged);
	tcase_add_loop_test(cases, each_registry_logs_its_own_names, 0, arranged);
	tcase_add_loop_test(cases, a_short_table_is_handed_on_to_its_registry, 0, arranged);
	tcase_add_loop_test(cases, a_provider_of_2_0_is_handed_on_to_its_registry, 0, arranged);
	tcase_add_test(cases, without_the_other_registry_its_providers_are_refused);
	tcase_add_loop_test(cases, the_registry_of_1_2_knows_the_ias_of_2_0, 0, arranged);
	tcase_add_test(cases, the_registry_of_1_2_alone_knows_its_own_ias);
	if (sizeof(void *) == 8)
		tcase_add_test(cases, the_registry_of_1_2_refuses_objects_of_2_0);
	else
		case_skip(cases, the_registry_of_1_2_refuses_objects_of_2_0,
			  "addresses tell the editions apart on hosts of 64 bits only");
	tcase_add_test(cases, the_registry_of_2_0_refuses_objects_of_1_2);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	case_skip(cases, a_fork_beside_an_open_of_one_edition_concerns_the_other,
		  "a sanitizer's allocator does not work in a child of a process with threads");
	case_skip(cases, a_fork_beside_a_call_of_one_provider_concerns_the_other,
		  "a sanitizer's allocator does not work in a child of a process with threads");
	case_skip(cases, a_registry_that_is_loaded_in_such_a_child_opens_nothing,
		  "a sanitizer's allocator does not work in a child of a process with threads");
#else
	tcase_add_loop_test(cases, a_fork_beside_an_open_of_one_edition_concerns_the_other, 0, 2);
	tcase_add_loop_test(cases, a_fork_beside_a_call_of_one_provider_concerns_the_other, 0, 2);
	tcase_add_loop_test(cases, a_registry_that_is_loaded_in_such_a_child_opens_nothing, 0, 2);
#endif
	return run_cases(argc, argv);
}
