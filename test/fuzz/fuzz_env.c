/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives the environment variables of the provider over verbs any values. The first byte of an input
 * chooses the device, lines follow: a byte for the variable, and its value.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <unistd.h>

#include "verbs/verbs.h"
#include "fuzz.h"

/* What libdaplcma(7) says of each: where the value is, what it is if unset, and its range. */
static const struct variable {
	const char *name;
	size_t offset;
	unsigned fallback, min, max;
} variables[] = {
	{ "DAPL_MAX_INLINE", offsetof(struct tp_env, max_inline), 200, 0, 1 << 16 },
	{ "DAPL_WR_MAX", offsetof(struct tp_env, wr_max), INT_MAX, 1, INT_MAX },
	{ "DAPL_LMR_ODP", offsetof(struct tp_env, on_demand), 0, 0, 1 },
	{ "DAPL_ACK_TIMER", offsetof(struct tp_env, ack_timer), TP_ENV_UNSET, 0, 31 },
	{ "DAPL_ACK_RETRY", offsetof(struct tp_env, ack_retry), 6, 0, 7 },
	{ "DAPL_RNR_TIMER", offsetof(struct tp_env, rnr_timer), 12, 0, 31 },
	{ "DAPL_RNR_RETRY", offsetof(struct tp_env, rnr_retry), 7, 0, 7 },
	{ "DAPL_IB_SL", offsetof(struct tp_env, service_level), TP_ENV_UNSET, 0, 15 },
	{ "DAPL_TCLASS", offsetof(struct tp_env, traffic_class), TP_ENV_UNSET, 0, 255 },
	{ "DAPL_HOP_LIMIT", offsetof(struct tp_env, hop_limit), TP_ENV_UNSET, 1, 255 },
	{ "DAPL_CM_TOS", offsetof(struct tp_env, tos), TP_ENV_UNSET, 0, 255 },
	{ "DAPL_CM_ARP_TIMEOUT_MS", offsetof(struct tp_env, arp_timeout), 4000, 0, INT_MAX },
	{ "DAPL_CM_ARP_RETRY_COUNT", offsetof(struct tp_env, arp_retry), 15, 0, INT_MAX },
	{ "DAPL_CM_ROUTE_TIMEOUT_MS", offsetof(struct tp_env, route_timeout), 4000, 0, INT_MAX },
	{ "DAPL_CM_ROUTE_RETRY_COUNT", offsetof(struct tp_env, route_retry), 15, 0, INT_MAX },
};

/* The log of a provider begins with it. */
const char tp_library_name[] = "fuzz_env";

static void variables_unset(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		unsetenv(variables[i].name);
}

/* Takes a line of the input, without its end. */
static void variable_set(struct fuzz_input *input)
{
	const struct variable *one = &variables[fuzz_byte(input) % ARRAY_SIZE(variables)];
	const uint8_t *end = input->left ? memchr(input->at, '\n', input->left) : NULL;
	size_t length = end ? (size_t)(end - input->at) : input->left;
	char *text = fuzz_copy(input->at, length, true);

	require(!setenv(one->name, text, 1));
	free(text);
	input->at += length + (end != NULL);
	input->left -= length + (end != NULL);
}

/* A value is what the text says, if it is a number of the range, and else the default. */
static void require_value(const struct tp_dev *dev, const struct variable *one)
{
	const unsigned value = *(const unsigned *)((const char *)&dev->env + one->offset);
	const bool iwarp_inline = dev->iwarp && !one->offset;
	const unsigned fallback = iwarp_inline ? 64 : one->fallback;
	const char *text = getenv(one->name);

	if (value == fallback)
		return;
	require(value >= one->min && value <= one->max);
	require(text && strtoull(text, NULL, 0) == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	struct tp_dev dev = { .iwarp = fuzz_byte(&input) & 1 };

	_Static_assert(offsetof(struct tp_env, max_inline) == 0, "require_value relies on it");
	setenv("DAPL_DBG_TYPE", "0", 0);
	variables_unset();
	while (input.left)
		variable_set(&input);
	env_read(&dev);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		require_value(&dev, &variables[i]);
	variables_unset();
	return 0;
}
