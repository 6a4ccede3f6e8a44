/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Environment variables: those of this provider, and those of libdaplcma that have no effect here.
 * Job scripts set these for whatever provider the job will use. libdaplofi(7) has them all. A
 * program that runs with other privileges than its user's ignores them.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi.h"

static const char *const without_effect[] = {
	"DAPL_ACK_RETRY",
	"DAPL_ACK_TIMER",
	"DAPL_CM_ARP_RETRY_COUNT",
	"DAPL_CM_ARP_TIMEOUT_MS",
	"DAPL_CM_ROUTE_RETRY_COUNT",
	"DAPL_CM_ROUTE_TIMEOUT_MS",
	"DAPL_CM_TOS",
	"DAPL_GLOBAL_ROUTING",
	"DAPL_HOP_LIMIT",
	"DAPL_IB_MTU",
	"DAPL_IB_PKEY",
	"DAPL_IB_SL",
	"DAPL_LMR_ODP",
	"DAPL_MAX_CM_RESPONSE_TIME",
	"DAPL_MAX_CM_RETRIES",
	"DAPL_MAX_INLINE",
	"DAPL_RNR_RETRY",
	"DAPL_RNR_TIMER",
	"DAPL_TCLASS",
	"DAPL_WR_MAX",
};

/* Names all of them in one line, because each process of a job writes it. */
static void env_name_ineffective(void)
{
	char names[ARRAY_SIZE(without_effect) * sizeof(" DAPL_CM_ROUTE_RETRY_COUNT")];
	size_t length = 0;

	for (size_t i = 0; i < ARRAY_SIZE(without_effect); i++) {
		const char *text = secure_getenv(without_effect[i]);

		if (text && *text)
			length += (size_t)snprintf(names + length, sizeof(names) - length, " %s",
						   without_effect[i]);
	}
	if (length)
		log_warn("these settings have no effect over libfabric:%s", names);
}

/* Returns the value of a variable that is 0 or 1, or @fallback. */
static bool env_read_bool(const char *name, bool fallback)
{
	const char *text = secure_getenv(name);

	if (!text || !*text)
		return fallback;
	if (!strcmp(text, "0") || !strcmp(text, "1"))
		return *text == '1';
	log_warn("%s=%s is ignored: not 0 or 1", name, text);
	return fallback;
}

bool env_delivered_sends(void)
{
	return env_read_bool("DAPL_OFI_DELIVERED_SENDS", false);
}

bool env_populates(void)
{
	return env_read_bool("DAPL_OFI_POPULATE", true);
}

void env_check(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, env_name_ineffective);
}
