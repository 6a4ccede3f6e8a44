/* SPDX-License-Identifier: BSD-2-Clause */
/* Small helpers that every file of a provider may use: compiler hints, macros, assertions. */
#ifndef UDAPL_BASE_H
#define UDAPL_BASE_H

#include <stddef.h>
#include <stdint.h>

#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE      __attribute__((noinline))
#define COLD	      __attribute__((cold, noinline))

/*
 * An entry point of the data path: everything it calls is inlined, the transport included when the
 * linker joins both. Array indices are checked at the entry, so it does without the stack guard
 * that other functions with arrays get.
 */
#if defined(__has_attribute) && __has_attribute(no_stack_protector)
#define HOT __attribute__((hot, flatten, no_stack_protector))
#else
#define HOT __attribute__((hot, flatten))
#endif

/*
 * Goes to @label, a cold path, if the result of a call is not 0. Where the compiler does not see
 * the comparison, a function returns that 0 in the register where it is.
 */
#if defined(__x86_64__)
#define GOTO_IF_FAILED(result, label)                                                              \
	__asm__ goto("test %0, %0\n\tjnz %l1" : : "r"(result) : "cc" : label)
#else
#define GOTO_IF_FAILED(result, label)                                                              \
	do {                                                                                       \
		if (unlikely(result))                                                              \
			goto label;                                                                \
	} while (0)
#endif

/*
 * In a cold path, of a value that it passes on: the hot path does without the instruction that
 * moves it to the register of the argument. Behind a lock that was taken, of the object that has
 * it: the address of the lock is kept in no register until the unlock.
 */
#define LEAVE_IN_PLACE(value) __asm__ volatile("" : "+r"(value))

/*
 * Of a parameter that a function uses after a call: it is copied to a register that calls leave
 * alone here, and not at the entry. So what returns before does without the saving of registers.
 * "&": otherwise the compiler may give both one register, and copy at the entry after all.
 */
#if defined(__x86_64__)
#define LATE_COPY(parameter)                                                                       \
	({                                                                                         \
		__typeof__(parameter) copy_;                                                       \
		__asm__("mov %1, %0" : "=&r"(copy_) : "r"(parameter));                             \
		copy_;                                                                             \
	})
#else
#define LATE_COPY(parameter) (parameter)
#endif

/* @value is computed here, so what follows may use the registers that this takes. */
#define COMPUTE_HERE(value) __asm__("" : "+r"(value))

/*
 * At the end of a function that stands inline several times in another one, each time with another
 * constant @number: the compiler would merge these ends, and have all but one jump there.
 */
#define KEEP_APART(number) __asm__ volatile("" : : "X"(__builtin_constant_p(number) ? (number) : 0))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
/* clang-format on */

/* These take and return 64 bits, so that no sum or product before them is cut off. */
static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* An invariant. Debug builds check it and abort; release builds only compile it. */
#ifdef UDAPL_DEBUG
#define debug_assert(condition)                                                                    \
	((condition) ? (void)0 : debug_fail(__FILE__, __LINE__, __func__, #condition))
#else
#define debug_assert(condition) ((void)sizeof(!(condition)))
#endif

/* lock.c: prints the place and @what, which does not hold there, on stderr, and aborts. */
__attribute__((noreturn)) COLD void debug_fail(const char *file, int line, const char *function,
					       const char *what);

#endif
