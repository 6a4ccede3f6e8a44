/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that loads libdat by dlopen, as MPI libraries do: with local scope, so that no other
 * library finds its symbols, and with dlclose at the end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mock_provider.h"
#include "registry_test.h"

static const char conf[] = MOCK("m", "");

struct libdat {
	void *library;
	__typeof__(dat_ia_openv) *openv;
	__typeof__(dat_ia_close) *close;
};

static struct libdat libdat_load_from(const char *path)
{
	struct libdat libdat = { .library = dlopen(path, RTLD_NOW | RTLD_LOCAL) };

	ck_assert_msg(libdat.library != NULL, "%s", dlerror());
	libdat.openv = (__typeof__(dat_ia_openv) *)dlsym(libdat.library, "dat_ia_openv");
	libdat.close = (__typeof__(dat_ia_close) *)dlsym(libdat.library, "dat_ia_close");
	ck_assert(libdat.openv && libdat.close);
	return libdat;
}

static struct libdat libdat_load(void)
{
	return libdat_load_from(LIBDAT);
}

static DAT_IA_HANDLE libdat_open(const struct libdat *libdat, const char *name)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	ck_assert_uint_eq(libdat->openv((char *)name, 8, &evd, &ia, DAT_VERSION_MAJOR,
					DAT_VERSION_MINOR, DAT_FALSE),
			  DAT_SUCCESS);
	return ia;
}

START_TEST(ro_aware_reaches_a_provider_in_local_scope)
{
	struct libdat libdat = libdat_load();
	struct mock *mock;
	DAT_IA_HANDLE ia;

	ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "dat_ia_openv"));
	use_conf(conf);
	ia = libdat_open(&libdat, "RO_AWARE_m");
	mock = dlsym(RTLD_DEFAULT, "mock");
	ck_assert_ptr_nonnull(mock);
	ck_assert_int_eq(mock->ro_aware, 1);
	ck_assert_uint_eq(libdat.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}
END_TEST

/* dlclose does not unload the registry: dlopen returns the same one, with its open IAs. */
START_TEST(open_ias_survive_dlclose)
{
	struct libdat libdat = libdat_load();
	DAT_IA_HANDLE ia, second;

	use_conf(conf);
	ia = libdat_open(&libdat, "m");
	ck_assert_int_eq(dlclose(libdat.library), 0);
	libdat = libdat_load();
	second = libdat_open(&libdat, "m");
	ck_assert_ptr_ne(ia, second);
	ck_assert_uint_eq(libdat.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(libdat.close(second, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}
END_TEST

/* Not even when no provider is loaded that depends on it. */
START_TEST(libdat_is_never_unloaded)
{
	struct libdat libdat = libdat_load();

	ck_assert_int_eq(dlclose(libdat.library), 0);
	ck_assert_ptr_nonnull(dlopen(LIBDAT, RTLD_NOW | RTLD_NOLOAD));
}
END_TEST

/* The dynamic linker does not look there; a path in dat.conf is for other folders. */
START_TEST(bare_name_is_found_beside_libdat)
{
	static const char beside[] = LINE("m", API_VERSION, "beside.so", "")
		LINE("n", API_VERSION, "absent.so", "");
	char folder[] = "/tmp/dat-beside-XXXXXX", libdat_path[64], provider_path[64];
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	struct libdat libdat;
	DAT_IA_HANDLE ia;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(libdat_path, sizeof(libdat_path), "%s%s", folder, strrchr(LIBDAT, '/'));
	snprintf(provider_path, sizeof(provider_path), "%s/beside.so", folder);
	ck_assert_int_eq(symlink(LIBDAT, libdat_path) | symlink(MOCK_PROVIDER, provider_path), 0);
	libdat = libdat_load_from(libdat_path);
	use_conf(beside);
	ia = libdat_open(&libdat, "m");
	ck_assert_uint_eq(libdat.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(libdat.openv((char *)"n", 8, &evd, &ia, DAT_VERSION_MAJOR,
				       DAT_VERSION_MINOR, DAT_FALSE),
			  NO_NAME);
	ck_assert_int_eq(unlink(libdat_path) | unlink(provider_path) | rmdir(folder), 0);
}
END_TEST

START_TEST(exit_with_open_ias_is_silent)
{
	int err_fd = stderr_capture(), status;
	pid_t child;

	use_conf(conf);
	child = fork();
	if (!child) {
		struct libdat libdat = libdat_load();

		libdat_open(&libdat, "m");
		libdat_open(&libdat, "m");
		exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(output_text(err_fd), "");
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("dlopen");

	tcase_add_test(cases, ro_aware_reaches_a_provider_in_local_scope);
	tcase_add_test(cases, open_ias_survive_dlclose);
	tcase_add_test(cases, libdat_is_never_unloaded);
	tcase_add_test(cases, exit_with_open_ias_is_silent);
	tcase_add_test(cases, bare_name_is_found_beside_libdat);
	return run_cases(argc, argv);
}
