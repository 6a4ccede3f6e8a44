/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of many operations: minimum, mean, percentiles, maximum. */
#include "tools.h"

#include <stdlib.h>

int samples_create(struct samples *samples, size_t room)
{
	*samples = (struct samples){ .room = room ? room : 1 };
	samples->kept = calloc(samples->room, sizeof(*samples->kept));
	if (!samples->kept)
		return -1;
	samples_clear(samples);
	return 0;
}

void samples_destroy(struct samples *samples)
{
	free(samples->kept);
	samples->kept = NULL;
}

void samples_clear(struct samples *samples)
{
	samples->count = 0;
	samples->min = samples->max = samples->sum = 0;
	samples->sorted = false;
	samples->random = 0x9e3779b97f4a7c15;
}

/*
 * Returns a number from 0 to below @limit, by xorshift: the same ones in each run, so that runs can
 * be compared.
 */
static size_t samples_random(struct samples *samples, size_t limit)
{
	samples->random ^= samples->random << 13;
	samples->random ^= samples->random >> 7;
	samples->random ^= samples->random << 17;
	return (size_t)(samples->random % limit);
}

/* By algorithm R each of the samples is among those kept with the same probability. */
void samples_add(struct samples *samples, double value)
{
	size_t place = samples->count;

	if (samples->count == 0 || value < samples->min)
		samples->min = value;
	if (samples->count == 0 || value > samples->max)
		samples->max = value;
	samples->sum += value;
	samples->count++;
	if (place >= samples->room)
		place = samples_random(samples, samples->count);
	if (place >= samples->room)
		return;
	samples->kept[place] = value;
	samples->sorted = false;
}

double samples_mean(const struct samples *samples)
{
	return samples->count ? samples->sum / (double)samples->count : 0;
}

static int samples_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

double samples_percentile(struct samples *samples, double percent)
{
	size_t kept = samples->count < samples->room ? samples->count : samples->room;
	double exact;
	size_t rank;

	if (!kept)
		return 0;
	/*
	 * The order of those kept does not matter to samples_add: each place is as likely to be
	 * replaced as any other.
	 */
	if (!samples->sorted)
		qsort(samples->kept, kept, sizeof(*samples->kept), samples_compare);
	samples->sorted = true;
	exact = (double)kept * percent / 100;
	rank = (size_t)exact;
	if (exact - (double)rank > 1e-9) /* 99.9 has no exact double */
		rank++;
	if (rank < 1)
		rank = 1;
	return samples->kept[(rank < kept ? rank : kept) - 1];
}
