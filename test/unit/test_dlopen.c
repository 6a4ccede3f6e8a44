/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that loads libdat itself, as MPIs do: out of sight of every other library, and lets go
 * of it again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "mock_provider.h"
#include "registry_test.h"

static const char conf[] = "m u1.2 nonthreadsafe default " MOCK_PROVIDER " dapl.1.2 \"\" \"\"\n";

struct libdat {
	void *library;
	__typeof__(dat_ia_openv) *openv;
	__typeof__(dat_ia_close) *close;
};

static struct libdat load(void)
{
	struct libdat libdat = { .library = dlopen(LIBDAT, RTLD_NOW | RTLD_LOCAL) };

	ck_assert_msg(libdat.library != NULL, "%s", dlerror());
	libdat.openv = (__typeof__(dat_ia_openv) *)dlsym(libdat.library, "dat_ia_openv");
	libdat.close = (__typeof__(dat_ia_close) *)dlsym(libdat.library, "dat_ia_close");
	ck_assert(libdat.openv && libdat.close);
	return libdat;
}

static DAT_IA_HANDLE open_ia(const struct libdat *libdat, const char *name)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	ck_assert_uint_eq(libdat->openv((char *)name, 8, &evd, &ia, 1, 2, DAT_FALSE), DAT_SUCCESS);
	return ia;
}

START_TEST(test_local_scope)
{
	struct libdat libdat = load();
	struct mock *mock;
	DAT_IA_HANDLE ia;

	ck_assert_ptr_null(dlsym(RTLD_DEFAULT, "dat_ia_openv"));
	use_conf(conf);
	ia = open_ia(&libdat, "RO_AWARE_m");
	mock = dlsym(RTLD_DEFAULT, "mock");
	ck_assert_ptr_nonnull(mock);
	ck_assert_int_eq(mock->ro_aware, 1);
	ck_assert_uint_eq(libdat.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}
END_TEST

/* Nothing that is open minds: the same registry is there when the library is asked for again. */
START_TEST(test_dlclose_with_an_open_ia)
{
	struct libdat libdat = load();
	DAT_IA_HANDLE ia, second;

	use_conf(conf);
	ia = open_ia(&libdat, "m");
	ck_assert_int_eq(dlclose(libdat.library), 0);
	libdat = load();
	second = open_ia(&libdat, "m");
	ck_assert_ptr_ne(ia, second);
	ck_assert_uint_eq(libdat.close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
	ck_assert_uint_eq(libdat.close(second, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}
END_TEST

/* No provider was ever loaded that would keep it. */
START_TEST(test_stays_by_itself)
{
	struct libdat libdat = load();

	ck_assert_int_eq(dlclose(libdat.library), 0);
	ck_assert_ptr_nonnull(dlopen(LIBDAT, RTLD_NOW | RTLD_NOLOAD));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("dlopen");

	tcase_add_test(cases, test_local_scope);
	tcase_add_test(cases, test_dlclose_with_an_open_ia);
	tcase_add_test(cases, test_stays_by_itself);
	return run_cases(argc, argv);
}
