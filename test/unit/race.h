/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test decides races with this: what happens while a thread is at one of the points of
 * udapl/base/race.h. Nothing is left to luck there, because the thread goes on only when the other
 * one has acted.
 */
#ifndef TEST_RACE_H
#define TEST_RACE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "../../udapl/base/race.h"

/*
 * The next thread that reaches @point with @object (NULL: with any), and only that one, calls @act
 * there. The point's comment says which locks it holds.
 */
void race_call(enum race_point point, const void *object, void (*act)(void *), void *arg);
/* Tells whether a thread has reached @point since the latest race_call or race_hold of it. */
bool race_happened(enum race_point point);

/* The next thread that reaches @point stays there until race_release. One is held at a time. */
void race_hold(enum race_point point, const void *object);
/* Returns when a thread is held. */
void race_wait_held(void);
/* May be called before the thread is there. @unused makes it an act of race_call. */
void race_release(void *unused);

/*
 * Calls @run, and @act, as a thread that preempts it, after @n instructions. Returns false if @run
 * ended before that, and @act was not called. Neither may need what the other holds.
 */
bool race_step(void (*run)(void *), void *run_arg, unsigned n, void (*act)(void *), void *act_arg);
/* The thread sanitizer delays signals. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define RACE_CAN_STEP true
#else
#define RACE_CAN_STEP false
#endif

/* Tells whether that thread of this process sleeps in the kernel, for a lock or a descriptor. */
bool race_is_asleep(pid_t thread);

#endif
