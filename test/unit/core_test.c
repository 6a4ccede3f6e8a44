// SPDX-License-Identifier: BSD-2-Clause
/* What the tests of the core share. */
#include <dirent.h>
#include <stdio.h>

#include "core_test.h"

struct registry registry;

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

DAT_PROVIDER_INFO info_of(const char *name, bool thread_safe)
{
	DAT_PROVIDER_INFO info = { .dapl_version_major = 1, .dapl_version_minor = 2, .is_thread_safe = thread_safe };

	snprintf(info.ia_name, sizeof(info.ia_name), "%s", name);
	return info;
}

void announce(const char *name, const char *params, bool thread_safe)
{
	const DAT_PROVIDER_INFO info = info_of(name, thread_safe);

	dat_provider_init(&info, params);
	ck_assert_ptr_nonnull(registry.provider);
	ck_assert_str_eq(registry.info.ia_name, name);
}

struct ia *open_fake(unsigned n)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
	char name[16];

	snprintf(name, sizeof(name), "fake%u", n);
	announce(name, name, false);
	ck_assert_uint_eq(ia_open(name, 8, &async, &ia), DAT_SUCCESS);
	return ia;
}

void close_abrupt(struct ia *ia)
{
	ck_assert_uint_eq(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

unsigned proc_count(const char *what)
{
	unsigned count = 0;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/self/%s", what);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

int run(const char *name, TCase *cases)
{
	Suite *suite = suite_create(name);
	SRunner *runner;
	int failed;

	suite_add_tcase(suite, cases);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
