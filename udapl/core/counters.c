/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters: their names, and how they are read and printed. */
#include <inttypes.h>
#include <stdlib.h>

#include <edition.h>

#if DAT_EDITION == 2
#include <dat2/dat_ib_extensions.h>
#endif

#include "base/log.h"
#include "counters.h"

#define IA_COUNTER_NAME(number, name, counted)	[number] = (counted) ? "DCNT_IA_" #name : NULL,
#define EP_COUNTER_NAME(number, name, counted)	[number] = (counted) ? "DCNT_EP_" #name : NULL,
#define EVD_COUNTER_NAME(number, name, counted) [number] = (counted) ? "DCNT_EVD_" #name : NULL,
static const char *const ia_names[IA_ALL_COUNTERS] = { IA_COUNTERS(IA_COUNTER_NAME) };
static const char *const ep_names[EP_ALL_COUNTERS] = { EP_COUNTERS(EP_COUNTER_NAME) };
static const char *const evd_names[EVD_ALL_COUNTERS] = { EVD_COUNTERS(EVD_COUNTER_NAME) };

#if DAT_EDITION == 2
#define SAME_NUMBER(prefix, number, name)                                                          \
	_Static_assert(prefix##name == (number), "the number is DAT 2.0's");
#define IA_SAME_NUMBER(number, name, counted)  SAME_NUMBER(DCNT_IA_, number, name)
#define EP_SAME_NUMBER(number, name, counted)  SAME_NUMBER(DCNT_EP_, number, name)
#define EVD_SAME_NUMBER(number, name, counted) SAME_NUMBER(DCNT_EVD_, number, name)
IA_COUNTERS(IA_SAME_NUMBER)
EP_COUNTERS(EP_SAME_NUMBER)
EVD_COUNTERS(EVD_SAME_NUMBER)
_Static_assert((int)IA_ALL_COUNTERS == DCNT_IA_ALL_COUNTERS &&
		       (int)EP_ALL_COUNTERS == DCNT_EP_ALL_COUNTERS &&
		       (int)EVD_ALL_COUNTERS == DCNT_EVD_ALL_COUNTERS,
	       "there are as many as in DAT 2.0");
#endif

const struct counter_kind ia_counters = { IA_ALL_COUNTERS, ia_names };
const struct counter_kind ep_counters = { EP_ALL_COUNTERS, ep_names };
const struct counter_kind evd_counters = { EVD_ALL_COUNTERS, evd_names };

uint64_t counter_read(struct counter *counter, bool reset)
{
	return reset ? atomic_exchange_explicit(&counter->value, 0, memory_order_relaxed)
		     : atomic_load_explicit(&counter->value, memory_order_relaxed);
}

void counters_sum(const struct counter_kind *kind, struct counter *sums, struct counter *counters)
{
	for (unsigned i = 0; i < kind->count; i++)
		counter_add(&sums[i], counter_read(&counters[i], true));
}

void counter_print(const struct counter_kind *kind, unsigned number, const char *whose,
		   uint64_t value)
{
	const char *name = kind->names[number];

	if (name)
		log_to(LOG_ANSWER, "%s: %s %" PRIu64, whose, name, value);
	else
		log_to(LOG_ANSWER, "%s: counter %u is not counted", whose, number);
}

void counters_print(const struct counter_kind *kind, const char *whose, struct counter *counters)
{
	for (unsigned i = 0; i < kind->count; i++) {
		const uint64_t value = counter_read(&counters[i], false);

		if (value)
			counter_print(kind, i, whose, value);
	}
}

bool counters_wanted_at_close(void)
{
	const char *text = secure_getenv("DAPL_COUNTERS");

	return text && strtoul(text, NULL, 0);
}
