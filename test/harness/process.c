/* SPDX-License-Identifier: BSD-2-Clause */
/* The process of a test: its descriptors, its threads, and what it prints. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "process.h"
#include "run.h"

unsigned count_entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	ck_assert_ptr_nonnull(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

bool epoll_reports(int epoll, int fd)
{
	unsigned events, reported = 0;
	char path[64], line[128];
	FILE *members;
	int member;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	members = fopen(path, "re");
	while (members && fgets(line, sizeof(line), members))
		if (sscanf(line, "tfd: %d events: %x", &member, &events) == 2 && member == fd)
			reported = events & EPOLLIN;
	if (members)
		fclose(members);
	return reported;
}

bool threads_end(unsigned n)
{
	for (unsigned ms = 0; ms < 10000; ms++) {
		if (count_entries("/proc/self/task") <= n)
			return true;
		usleep(1000);
	}
	return false;
}

size_t resident_size(void)
{
	size_t pages, of_files;
	FILE *statm = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(statm);
	ck_assert_int_eq(fscanf(statm, "%*u %zu %zu", &pages, &of_files), 2);
	fclose(statm);
	return (pages - of_files) * (size_t)sysconf(_SC_PAGESIZE);
}

size_t memory_in_use(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0;
#else
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
#endif
}

void descriptors_allow_all(void)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

void descriptors_allow(unsigned n)
{
	struct rlimit limit;
	int lowest;

	descriptors_allow_all();
	lowest = dup(STDERR_FILENO);
	ck_assert_int_ge(lowest, 0);
	close(lowest);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)lowest + n;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int output_file_create(void)
{
	int fd = memfd_create("output", 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
	return fd;
}

int stderr_capture(void)
{
	int fd = output_file_create();

	fflush(stderr);
	ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	return fd;
}

const char *output_text(int fd)
{
	static char text[65536];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(length, 0);
	text[length] = '\0';
	return text;
}

void *consumer_thread_join(pthread_t thread)
{
	void *result;

	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return result;
}
