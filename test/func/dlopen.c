/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HP-MPI's habit: a program that is not linked with libdat loads it by dlopen, with local or global
 * scope, and tries the first ten names of dat.conf, most of which this host lacks.
 */
#define _GNU_SOURCE
#include <check.h>
#include <dat/udat.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/run.h"

#define NAMES 10

static void ten_names_in_conf(void)
{
	static const char *const absent[] = { "ib0 0",	 "ib1 0",    "mlx5_0 1",    "ehca0 1",
					      "eth77 0", "hfi1_0 1", "192.0.2.1 0", "lo 0" };
	const char *kind = getenv("DAT_TEST_DEV");
	const bool tcp = !strcmp(kind, "tcp"), ofi = tcp || !strncmp(kind, "ofi-", 4);
	int fd = memfd_create("dat.conf", 0);
	FILE *conf = fdopen(fd, "w");
	char path[32];

	ck_assert_ptr_nonnull(conf);
	for (int i = 0; i < NAMES; i++) {
		char params[64];

		if (i < NAMES - 2)
			snprintf(params, sizeof(params), "%s", absent[i]);
		else
			snprintf(params, sizeof(params),
				 tcp   ? "tcp %s"
				 : ofi ? "verbs %s"
				       : "%s 0",
				 getenv(i % 2 ? "DAT_TEST_IF1" : "DAT_TEST_IF0"));
		fprintf(conf,
			"ia%d u1.2 nonthreadsafe default %s/udapl/.libs/libdapl%s.so dapl.1.2 "
			"\"%s\" \"\"\n",
			i, getenv("top_builddir"), ofi ? "ofi" : "cma", params);
	}
	fflush(conf);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	setenv("DAT_OVERRIDE", path, 1);
}

/* The functions of libdat, as dlsym finds them. */
struct loaded_libdat {
	__typeof__(dat_ia_openv) *openv;
	__typeof__(dat_ia_query) *query;
	__typeof__(dat_pz_create) *pz_create;
	__typeof__(dat_pz_free) *pz_free;
	__typeof__(dat_ia_close) *close;
};

static struct loaded_libdat load_libdat(int flags)
{
	struct loaded_libdat libdat;
	char path[512];
	void *library;

	snprintf(path, sizeof(path), "%s/dat/.libs/libdat.so.1", getenv("top_builddir"));
	library = dlopen(path, flags);
	ck_assert_msg(library != NULL, "%s", dlerror());
	libdat.openv = (__typeof__(dat_ia_openv) *)dlsym(library, "dat_ia_openv");
	libdat.query = (__typeof__(dat_ia_query) *)dlsym(library, "dat_ia_query");
	libdat.pz_create = (__typeof__(dat_pz_create) *)dlsym(library, "dat_pz_create");
	libdat.pz_free = (__typeof__(dat_pz_free) *)dlsym(library, "dat_pz_free");
	libdat.close = (__typeof__(dat_ia_close) *)dlsym(library, "dat_ia_close");
	ck_assert(libdat.openv && libdat.query && libdat.pz_create && libdat.pz_free &&
		  libdat.close);
	return libdat;
}

static void use_ia(const struct loaded_libdat *libdat, DAT_IA_HANDLE ia)
{
	DAT_PZ_HANDLE pz;
	DAT_IA_ATTR attr;

	ck_assert_uint_eq(libdat->query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL), DAT_SUCCESS);
	ck_assert_int_gt(attr.max_eps, 0);
	ck_assert_uint_eq(libdat->pz_create(ia, &pz), DAT_SUCCESS);
	ck_assert_uint_eq(libdat->pz_free(pz), DAT_SUCCESS);
	ck_assert_uint_eq(libdat->close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

static const int scopes[] = { RTLD_LOCAL, RTLD_GLOBAL };

START_TEST(ten_names_are_tried)
{
	struct loaded_libdat libdat = load_libdat(RTLD_NOW | scopes[_i]);
	int opened = 0;

	ck_assert_int_eq(dlsym(RTLD_DEFAULT, "dat_ia_openv") != NULL, scopes[_i] == RTLD_GLOBAL);
	ten_names_in_conf();
	for (int i = 0; i < NAMES; i++) {
		DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
		DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
		char name[16];

		snprintf(name, sizeof(name), "ia%d", i);
		if (libdat.openv(name, 8, &async, &ia, 1, 2, DAT_FALSE) == DAT_SUCCESS) {
			use_ia(&libdat, ia);
			opened++;
		} else {
			ck_assert_ptr_eq(async, DAT_HANDLE_NULL);
			ck_assert_ptr_eq(ia, DAT_HANDLE_NULL);
		}
	}
	ck_assert_int_eq(opened, 2);
}
END_TEST

/* ---- what the libraries below a provider do as they are loaded */

static const int signals[] = { SIGINT, SIGTERM, SIGSEGV, SIGABRT, SIGBUS,  SIGILL,
			       SIGFPE, SIGHUP,	SIGPIPE, SIGCHLD, SIGUSR1, SIGQUIT };

static void on_caught(int sig)
{
	(void)sig;
}

/* Some are caught, some ignored, some left. */
static struct sigaction action_for(size_t i)
{
	struct sigaction action = { .sa_flags = SA_RESTART };

	action.sa_handler = i % 3 == 0 ? on_caught : i % 3 == 1 ? SIG_IGN : SIG_DFL;
	return action;
}

START_TEST(signal_handlers_survive_an_open)
{
	struct loaded_libdat libdat = load_libdat(RTLD_NOW);
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	ten_names_in_conf();
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		const struct sigaction action = action_for(i + (size_t)_i);

		ck_assert_int_eq(sigaction(signals[i], &action, NULL), 0);
	}
	ck_assert_uint_eq(libdat.openv("ia9", 8, &async, &ia, 1, 2, DAT_FALSE), DAT_SUCCESS);
	use_ia(&libdat, ia);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		const struct sigaction want = action_for(i + (size_t)_i);
		struct sigaction now;

		ck_assert_int_eq(sigaction(signals[i], NULL, &now), 0);
		ck_assert_msg(now.sa_handler == want.sa_handler, "signal %d", signals[i]);
		ck_assert_int_eq(now.sa_flags & SA_RESTART, SA_RESTART);
	}
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("dlopen");

	if (!getenv("DAT_TEST_DEV") || !getenv("top_builddir"))
		skip_all_cases("no RDMA device here: make check-vm runs this where there is one");
	tcase_add_loop_test(cases, ten_names_are_tried, 0, sizeof(scopes) / sizeof(scopes[0]));
	tcase_add_loop_test(cases, signal_handlers_survive_an_open, 0, 3);
	return run_cases(argc, argv);
}
