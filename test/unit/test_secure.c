/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program that runs with other privileges than its user's takes from its environment. The
 * program is a copy of this one with a set-group-ID bit, which another user starts. Its dat.conf is
 * in the working directory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "registry_test.h"

#define USER  65534 /* nobody */
#define GROUP 1	    /* any other one */

#define NOT_SECURE 78 /* exit status: the file system ignores the bit, or the like */

/* Names of dat.conf; which of them can be opened in a plain and in a privileged program. */
static const struct {
	const char *name, *library;
	bool in_override; /* in the file that DAT_OVERRIDE names */
	bool plain, privileged;
} names[] = {
	{ "absolute", MOCK_PROVIDER, false, true, true },
	{ "relative", "./mock.so", false, true, false },
	{ "below", "lib/../mock.so", false, true, false },
	{ "bare", "mock.so", false, true, false }, /* LD_LIBRARY_PATH */
	{ "override", MOCK_PROVIDER, true, true, false },
};

static char folder[] = "/tmp/test_secure.XXXXXX";

/* Also before there is a case, so it is none of Check's. */
static void require(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	_exit(99);
}

static void copy(const char *from, const char *to, mode_t mode)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct stat stat;

	require(in >= 0, "in");
	require(out >= 0, "out");
	require(fstat(in, &stat) == 0, "fstat");
	while (sendfile(out, in, NULL, (size_t)stat.st_size) > 0)
		;
	require(fchown(out, 0, GROUP) == 0, "fchown");
	require(fchmod(out, mode) == 0, "fchmod"); /* last: chown clears the bit */
	close(in);
	close(out);
}

static void write_conf(const char *path, bool in_override)
{
	FILE *file = fopen(path, "we");

	require(file != NULL, "file");
	for (int i = 0; i < COUNT(names); i++)
		if (in_override == names[i].in_override)
			fprintf(file, LINE("%s", API_VERSION, "%s", ""), names[i].name,
				names[i].library);
	require(fclose(file) == 0, "fclose");
	require(chmod(path, 0644) == 0, "chmod");
}

static void setup(void)
{
	require(mkdtemp(folder) != NULL, "mkdtemp(folder)");
	require(chmod(folder, 0755) == 0, "chmod");
	require(chdir(folder) == 0, "chdir");
	require(mkdir("lib", 0755) == 0, "mkdir");
	copy(MOCK_PROVIDER, "mock.so", 0755);
	copy("/proc/self/exe", "plain", 0755);
	copy("/proc/self/exe", "privileged", 02755);
	write_conf("dat.conf", false);
	write_conf("override.conf", true);
}

static void teardown(void)
{
	static const char *const files[] = { "mock.so",	 "plain",	  "privileged",
					     "dat.conf", "override.conf", "lib" };

	for (int i = 0; i < COUNT(files); i++)
		remove(files[i]);
	rmdir(folder);
}

/* In the copy: can the name be opened? The exit status says so. */
static int open_name(const char *name, bool privileged)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	if (privileged != !!getauxval(AT_SECURE))
		return NOT_SECURE;
	return dat_ia_open((char *)name, 8, &evd, &ia) == DAT_SUCCESS ? 0 : 1;
}

static void become_user(void)
{
	if (setgid(USER) || setuid(USER))
		_exit(126);
}

static int exit_status_of(pid_t pid)
{
	int status;

	require(waitpid(pid, &status, 0) == pid, "waitpid");
	require(WIFEXITED(status), "WIFEXITED(status)");
	return WEXITSTATUS(status);
}

static int status_of_copy(const char *program, const char *name, const char *conf)
{
	pid_t pid = fork();

	require(pid >= 0, "pid");
	if (!pid) {
		setenv("LD_LIBRARY_PATH", folder, 1);
		if (conf)
			setenv("DAT_OVERRIDE", conf, 1);
		else
			unsetenv("DAT_OVERRIDE");
		become_user();
		execl(program, program, "--open", name, (char *)NULL);
		_exit(127);
	}
	return exit_status_of(pid);
}

/* The iteration is a name and a program. */
START_TEST(privileges_limit_what_the_environment_decides)
{
	const int i = _i / 2;
	const bool privileged = _i % 2;
	const bool opens = privileged ? names[i].privileged : names[i].plain;

	ck_assert_int_eq(status_of_copy(privileged ? "./privileged" : "./plain", names[i].name,
					names[i].in_override ? "override.conf" : NULL),
			 opens ? 0 : 1);
}
END_TEST

/* The build may be in a folder that is closed to others, such as root's. */
static bool user_reads(const char *path)
{
	pid_t pid = fork();

	require(pid >= 0, "pid");
	if (!pid) {
		become_user();
		_exit(access(path, R_OK) != 0);
	}
	return exit_status_of(pid) == 0;
}

/* Can a program have such privileges here? */
static bool privileges_are_had(void)
{
	int status;

	setup();
	status = status_of_copy("./privileged", "absolute", NULL);
	teardown();
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	return status != NOT_SECURE && status < 126;
}

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("secure");

	if (argc == 3 && !strcmp(argv[1], "--open"))
		_exit(open_name(argv[2], strstr(argv[0], "privileged") != NULL));
	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, privileges_limit_what_the_environment_decides, 0,
			    2 * COUNT(names));
	if (geteuid() != 0)
		skip_all_cases("only root can make a program of another group");
	else if (!user_reads(MOCK_PROVIDER))
		skip_all_cases("only root can read the folder of the build");
	else if (!privileges_are_had())
		skip_all_cases("/tmp has no programs with a set-group-ID bit");
	return run_cases(argc, argv);
}
