/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a program states the binary interface of the edition of DAT whose headers it has included:
 * each line is one or more static assertions. The message of the compiler names the one that fails.
 */
#ifndef ABI_H
#define ABI_H

#include <stdint.h>
#include <stdio.h>

#define SAME(a, b) __builtin_types_compatible_p(a, b)

/* TEXT(x) is a string with the expansion of x. */
#define TEXT_(...) #__VA_ARGS__
#define TEXT(...)  TEXT_(__VA_ARGS__)

/* A value of type T, and a list with a value of each type of a list; none is evaluated. */
#define ANY(T)	       (*(__typeof__(T) *)0)
#define ANYS1(T)       ANY(T)
#define ANYS2(T, ...)  ANY(T), ANYS1(__VA_ARGS__)
#define ANYS3(T, ...)  ANY(T), ANYS2(__VA_ARGS__)
#define ANYS4(T, ...)  ANY(T), ANYS3(__VA_ARGS__)
#define ANYS5(T, ...)  ANY(T), ANYS4(__VA_ARGS__)
#define ANYS6(T, ...)  ANY(T), ANYS5(__VA_ARGS__)
#define ANYS7(T, ...)  ANY(T), ANYS6(__VA_ARGS__)
#define ANYS8(T, ...)  ANY(T), ANYS7(__VA_ARGS__)
#define ANYS9(T, ...)  ANY(T), ANYS8(__VA_ARGS__)
#define ANYS10(T, ...) ANY(T), ANYS9(__VA_ARGS__)
#define ANYS11(T, ...) ANY(T), ANYS10(__VA_ARGS__)
#define ANYS12(T, ...) ANY(T), ANYS11(__VA_ARGS__)

#define THIRTEENTH(a, b, c, d, e, f, g, h, i, j, k, l, m, ...) m
#define ANYS(...)                                                                                  \
	THIRTEENTH(__VA_ARGS__, ANYS12, ANYS11, ANYS10, ANYS9, ANYS8, ANYS7, ANYS6, ANYS5, ANYS4,  \
		   ANYS3, ANYS2, ANYS1, )                                                          \
	(__VA_ARGS__)

/* The types of a list of expressions. */
#define TYPES1(x)	__typeof__(x)
#define TYPES2(x, ...)	__typeof__(x), TYPES1(__VA_ARGS__)
#define TYPES3(x, ...)	__typeof__(x), TYPES2(__VA_ARGS__)
#define TYPES4(x, ...)	__typeof__(x), TYPES3(__VA_ARGS__)
#define TYPES5(x, ...)	__typeof__(x), TYPES4(__VA_ARGS__)
#define TYPES6(x, ...)	__typeof__(x), TYPES5(__VA_ARGS__)
#define TYPES7(x, ...)	__typeof__(x), TYPES6(__VA_ARGS__)
#define TYPES8(x, ...)	__typeof__(x), TYPES7(__VA_ARGS__)
#define TYPES9(x, ...)	__typeof__(x), TYPES8(__VA_ARGS__)
#define TYPES10(x, ...) __typeof__(x), TYPES9(__VA_ARGS__)
#define TYPES11(x, ...) __typeof__(x), TYPES10(__VA_ARGS__)
#define TYPES12(x, ...) __typeof__(x), TYPES11(__VA_ARGS__)
#define TYPES(...)                                                                                 \
	THIRTEENTH(__VA_ARGS__, TYPES12, TYPES11, TYPES10, TYPES9, TYPES8, TYPES7, TYPES6, TYPES5, \
		   TYPES4, TYPES3, TYPES2, TYPES1, )                                               \
	(__VA_ARGS__)

/* The first of a list; a macro of parameters that are in parentheses: APPLY(macro, ANYS params). */
#define FIRST(a, ...)	  a
#define APPLY(macro, ...) macro(__VA_ARGS__)

/* The numbers are those of LP64. What holds for ILP32 is asserted at the end of each program. */
#if __SIZEOF_POINTER__ == 8
#define FACT(holds, what) _Static_assert(holds, what)
#else
#define FACT(holds, what) _Static_assert((holds) || 1, what)
#endif

/* Whether a string begins with one that is a literal. */
#define BEGINS(text, literal) (__builtin_strncmp(text, literal, sizeof(literal) - 1) == 0)

/* The expansion of a macro. */
#define TEXT_IS(macro, text) FACT(__builtin_strcmp(TEXT(macro), text) == 0, "text of " #macro)

/* Consumers test with #ifdef whether a name is a macro; if it is, the expansion differs. */
#define EXPANDS(...)                                                                               \
	FACT(__builtin_strcmp(TEXT(__VA_ARGS__), #__VA_ARGS__) != 0, #__VA_ARGS__ " is a macro")

/* A macro that is a number; its value, and its width in bytes. */
#define NUMBER(macro, value, width)                                                                \
	FACT(__builtin_strcmp(TEXT(macro), #macro) != 0, #macro " is a macro");                    \
	FACT((long long)(macro) == (value), "value of " #macro);                                   \
	FACT(sizeof(macro) == (width), "width of " #macro)

/* The value of an expression, which is 32 bits wide. */
#define RESULT(expression, value)                                                                  \
	FACT((long long)(expression) == (value), "value of " #expression);                         \
	FACT(sizeof(expression) == 4, "width of " #expression)

/* A typedef: its size and the type that it is. */
#define TYPE(T, size, ...)                                                                         \
	FACT(sizeof(T) == (size), "size of " #T);                                                  \
	FACT(SAME(T, __VA_ARGS__), "meaning of " #T)

/* An enumeration by both its names, and its constants. */
#define ENUM(T, tag)                                                                               \
	FACT(SAME(T, enum tag), "tag of " #T);                                                     \
	FACT(sizeof(T) == 4, "size of " #T);                                                       \
	FACT((T)-1 > (T)0, "signedness of " #T)
#define VALUE(constant, value) FACT((long long)(constant) == (value), "value of " #constant)

/* A structure or union by both its names; a member: its offset in bytes and its type. */
#define LAYOUT(T, tag, size, alignment)                                                            \
	FACT(SAME(T, tag), "tag of " #T);                                                          \
	FACT(sizeof(T) == (size), "size of " #T);                                                  \
	FACT(_Alignof(T) == (alignment), "alignment of " #T)
#define MEMBER(T, member, offset, ...)                                                             \
	FACT(offsetof(T, member) == (offset), "offset of " #member " in " #T);                     \
	FACT(SAME(__typeof__(&((T *)0)->member), __typeof__(__VA_ARGS__) *),                       \
	     "type of " #member " in " #T)

/* A function; a slot of the provider's table, in 64-bit words; a macro that calls through one. */
#define CALLABLE(function, params)                                                                 \
	FACT(SAME(__typeof__(&function), DAT_RETURN(*) params), "prototype of " #function)
#define SLOT(word, member, T, params)                                                              \
	TYPE(T, 8, DAT_RETURN(*) params);                                                          \
	MEMBER(DAT_PROVIDER, member, 8 * (word), T)
#define DISPATCH(macro, member, params)                                                            \
	FACT(BEGINS(TEXT(APPLY(macro, ANYS params)),                                               \
		    TEXT(DAT_HANDLE_TO_PROVIDER(APPLY(FIRST, ANYS params, ))) "->" #member "("),   \
	     #macro " calls " #member " of its first parameter");                                  \
	FACT(SAME(__typeof__(APPLY(macro, ANYS params)), DAT_RETURN),                              \
	     "parameters and result of " #macro)

/* A call that has all three; their names differ in case only. */
#define CALL(word, name, NAME, params)                                                             \
	CALLABLE(dat_##name, params);                                                              \
	SLOT(word, name##_func, DAT_##NAME##_FUNC, params);                                        \
	DISPATCH(DAT_##NAME, name##_func, params)

/*
 * Prints TAP: that it was compiled, and values that cannot be in a static assertion, because not
 * every compiler takes a cast to a pointer for a constant. The result is that of main.
 */
static inline int abi_report(void)
{
	const struct {
		const char *what;
		int holds;
	} values[] = {
		{ "every static assertion about the interface holds", 1 },
		{ "value of DAT_HANDLE_NULL", (uintptr_t)DAT_HANDLE_NULL == 0 },
		{ "value of DAT_EVD_ASYNC_EXISTS", (uintptr_t)DAT_EVD_ASYNC_EXISTS == 1 },
		{ "value of DAT_EVD_OUT_OF_SCOPE", (uintptr_t)DAT_EVD_OUT_OF_SCOPE == 2 },
	};
	int count = (int)(sizeof(values) / sizeof(values[0])), failures = 0;

	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		printf("%sok %d - %s\n", values[i].holds ? "" : "not ", i + 1, values[i].what);
		failures += !values[i].holds;
	}
	return failures != 0;
}

#endif
