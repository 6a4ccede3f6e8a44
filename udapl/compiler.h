/* SPDX-License-Identifier: BSD-2-Clause */
/* What we tell the compiler about the data path. */
#ifndef UDAPL_COMPILER_H
#define UDAPL_COMPILER_H

#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define COLD	      __attribute__((cold, noinline))

/*
 * One function for the whole way down, when the linker joins core and transport. Its arrays are
 * indexed by what was checked at the door, so it does without the guard value that other functions
 * with arrays get.
 */
#if defined(__has_attribute) && __has_attribute(no_stack_protector)
#define HOT __attribute__((hot, flatten, no_stack_protector))
#else
#define HOT __attribute__((hot, flatten))
#endif

#endif
