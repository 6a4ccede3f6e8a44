/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the test programs share about their own process: its descriptors, its threads, and what it
 * prints. A case fails if something of this is not possible.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Counts the entries of a folder: "/proc/self/fd", "/proc/self/task". */
unsigned count_entries(const char *path);

/*
 * Waits until "/proc/self/task" has at most @n entries, for the kernel lists a thread for a moment
 * after it was joined. Returns whether that came to be, within 10 s.
 */
bool threads_end(unsigned n);

/*
 * Returns how many bytes this process has allocated and not freed; with a sanitizer always 0. A
 * thread that allocates for the first time takes 3.5 KiB for the C library. So whether something is
 * lost each time shows after some thousand times only: that would be LEAST_BLOCK for each, or more.
 */
#define LEAST_BLOCK 16 /* bytes; in fact 32 */
size_t memory_in_use(void);
/*
 * Returns how many bytes of this process are resident and no file's: pages of libraries come when
 * they are used, and go again.
 */
size_t resident_size(void);

/* Does an epoll set of this process report that @fd can be read? The kernel knows. */
bool epoll_reports(int epoll, int fd);

/* From here on the process can open @n more descriptors. Sanitizers need some at its end. */
void descriptors_allow(unsigned n);
/* From here on the process can open as many descriptors as the system lets it. */
void descriptors_allow_all(void);

/*
 * Makes a file in memory for what the threads of a test print, and returns its descriptor. Each
 * write appends, so that none is lost: of a file that memfd_create() opened, two threads that write
 * at once may take the same offset.
 */
int output_file_create(void);
/* Makes such a file, which takes what is written to standard error from here on. */
int stderr_capture(void);
/* Returns what such a file has, in a buffer of this function; the first 64 KiB of it. */
const char *output_text(int fd);

/* Waits for the end of a thread, and returns its result. */
void *consumer_thread_join(pthread_t thread);

#endif
