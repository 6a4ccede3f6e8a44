/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of dat_extension_op that are about counters. */
#include <stdio.h>

#include <dat2/dat_ib_extensions.h>

#include "entry.h"

#define NOT_COUNTED DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1)

/* Returns the kind of the counters that @obj has, which are *counters; NULL if it has none. */
static const struct counter_kind *counters_of(struct obj *obj, struct counter **counters)
{
	switch (obj_kind(obj)) {
	case DAT_HANDLE_TYPE_IA:
		*counters = container_of(obj, struct ia, obj)->counters;
		return &ia_counters;
	case DAT_HANDLE_TYPE_EP:
		*counters = container_of(obj, struct ep, obj)->counters;
		return &ep_counters;
	case DAT_HANDLE_TYPE_EVD:
		*counters = container_of(obj, struct evd, obj)->counters;
		return &evd_counters;
	default:
		return NULL;
	}
}

/* What a call reads: the counters from @first on. */
struct reading {
	const struct counter_kind *kind;
	const char *ia_name;
	unsigned first, n;
	uint64_t values[IA_ALL_COUNTERS]; /* no other kind has more */
};

/*
 * Reads the counter @number of @handle, or all. ia->lock is held, so that the object is not freed
 * meanwhile, and that what has led to an event of a connection is counted when the consumer has it.
 */
static DAT_RETURN counters_read(DAT_HANDLE handle, int number, bool reset, struct reading *reading)
{
	struct obj *obj = obj_any(handle);
	struct counter *counters;

	if (!obj)
		return NOT_COUNTED;
	reading->kind = counters_of(obj, &counters);
	if (!reading->kind)
		return NOT_COUNTED;
	if (number < 0 || (unsigned)number > reading->kind->count)
		return BAD_ARG(2);
	reading->n = (unsigned)number == reading->kind->count ? reading->kind->count : 1;
	reading->first = reading->n == 1 ? (unsigned)number : 0;
	if (!obj_lock_ia(NULL, handle, (DAT_HANDLE_TYPE)obj_kind(obj)))
		return NOT_COUNTED;
	reading->ia_name = obj->ia->provider->info.ia_name;
	for (unsigned i = 0; i < reading->n; i++)
		reading->values[i] = counter_read(&counters[reading->first + i], reset);
	mutex_unlock(&obj->ia->lock);
	return DAT_SUCCESS;
}

DAT_RETURN counters_query(DAT_HANDLE handle, int number, DAT_UINT64 *values, bool reset)
{
	struct reading reading;
	DAT_RETURN ret = counters_read(handle, number, reset && values, &reading);

	if (ret != DAT_SUCCESS)
		return ret;
	if (!values)
		return BAD_ARG(3);
	for (unsigned i = 0; i < reading.n; i++)
		values[i] = reading.values[i];
	return DAT_SUCCESS;
}

/* An IA is known to people by its name, other objects by nothing but the handle. */
static void tell_whose(const struct reading *reading, const void *handle, char *text, size_t size)
{
	if (reading->kind == &ia_counters)
		snprintf(text, size, "%s", reading->ia_name);
	else
		snprintf(text, size, "%s %p", reading->kind == &ep_counters ? "EP" : "EVD", handle);
}

DAT_RETURN counters_log(DAT_HANDLE handle, int number, bool reset)
{
	char whose[DAT_NAME_MAX_LENGTH];
	struct reading reading;
	DAT_RETURN ret = counters_read(handle, number, reset, &reading);

	if (ret != DAT_SUCCESS)
		return ret;
	tell_whose(&reading, handle, whose, sizeof(whose));
	for (unsigned i = 0; i < reading.n; i++)
		if (reading.n == 1 || reading.kind->names[i])
			counter_print(reading.kind, reading.first + i, whose, reading.values[i]);
	return DAT_SUCCESS;
}

DAT_RETURN counters_sample(DAT_HANDLE handle, int group)
{
	if (!obj_valid(NULL, handle, DAT_HANDLE_TYPE_IA))
		return BAD_HANDLE(IA);
	if (group < DCNT_IA_CM || group > DCNT_IA_DIAG)
		return BAD_ARG(2);
	return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
}
