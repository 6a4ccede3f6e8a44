/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings from environment variables, of which most have the names that OFED's providers gave
 * them. libdaplcma(7) says what they mean. A program that runs with other privileges than its
 * user's ignores them all.
 */
#include <limits.h>
#include <stdlib.h>

#include "verbs.h"

/*
 * Names, once in a process, the variables that scripts set for OFED's providers and that nothing
 * can be done for, because librdmacm asks for none of them.
 */
static void env_name_unsupported(void)
{
	static const struct {
		const char *name, *why;
	} unsupported[] = {
		{ "DAPL_IB_MTU", "both sides use the path's MTU" },
		{ "DAPL_IB_PKEY", "the IP interface has the P_Key" },
		{ "DAPL_GLOBAL_ROUTING", "the path decides about the global header" },
		{ "DAPL_MAX_CM_RESPONSE_TIME", "the kernel's connection manager decides" },
		{ "DAPL_MAX_CM_RETRIES", "the kernel's connection manager decides" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(unsupported); i++) {
		const char *text = secure_getenv(unsupported[i].name);

		if (text && *text)
			log_warn("%s=%s has no effect: %s", unsupported[i].name, text,
				 unsupported[i].why);
	}
}

/* The values are numbers: decimal, 0x hexadecimal or 0 octal. */
void env_read(struct tp_dev *dev)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tp_env *env = &dev->env;
	const struct variable {
		const char *name;
		unsigned *value, fallback, min, max;
	} variables[] = {
		{ "DAPL_MAX_INLINE", &env->max_inline, dev->iwarp ? 64 : 200, 0, 1 << 16 },
		{ "DAPL_WR_MAX", &env->wr_max, INT_MAX, 1, INT_MAX },
		{ "DAPL_LMR_ODP", &env->on_demand, 0, 0, 1 },
		{ "DAPL_ACK_TIMER", &env->ack_timer, TP_ENV_UNSET, 0, 31 },
		{ "DAPL_ACK_RETRY", &env->ack_retry, 6, 0, 7 },
		{ "DAPL_RNR_TIMER", &env->rnr_timer, 12, 0, 31 },
		{ "DAPL_RNR_RETRY", &env->rnr_retry, TP_RNR_RETRY_NO_LIMIT, 0, 7 },
		{ "DAPL_IB_SL", &env->service_level, TP_ENV_UNSET, 0, 15 },
		{ "DAPL_TCLASS", &env->traffic_class, TP_ENV_UNSET, 0, 255 },
		{ "DAPL_HOP_LIMIT", &env->hop_limit, TP_ENV_UNSET, 1, 255 },
		{ "DAPL_CM_TOS", &env->tos, TP_ENV_UNSET, 0, 255 },
		{ "DAPL_CM_ARP_TIMEOUT_MS", &env->arp_timeout, 4000, 0, INT_MAX },
		{ "DAPL_CM_ARP_RETRY_COUNT", &env->arp_retry, 15, 0, INT_MAX },
		{ "DAPL_CM_ROUTE_TIMEOUT_MS", &env->route_timeout, 4000, 0, INT_MAX },
		{ "DAPL_CM_ROUTE_RETRY_COUNT", &env->route_retry, 15, 0, INT_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const struct variable *one = &variables[i];
		const char *text = secure_getenv(one->name);
		unsigned long value;
		char *end;

		*one->value = one->fallback;
		if (!text || !*text)
			continue;
		value = strtoul(text, &end, 0);
		if (*end || value < one->min || value > one->max)
			log_warn("%s=%s is ignored: not a number from %u to %u", one->name, text,
				 one->min, one->max);
		else
			*one->value = (unsigned)value;
	}
	pthread_once(&once, env_name_unsupported);
}

void env_apply_to_path(const struct tp_env *env, struct ibv_ah_attr *path)
{
	if (env->service_level != TP_ENV_UNSET)
		path->sl = (uint8_t)env->service_level;
	if (!path->is_global)
		return;
	if (env->traffic_class != TP_ENV_UNSET)
		path->grh.traffic_class = (uint8_t)env->traffic_class;
	if (env->hop_limit != TP_ENV_UNSET)
		path->grh.hop_limit = (uint8_t)env->hop_limit;
}

void env_apply_to_id(const struct tp_dev *dev, struct rdma_cm_id *id)
{
	uint8_t tos = (uint8_t)dev->env.tos;

	if (dev->env.tos != TP_ENV_UNSET &&
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		log_util("%s: DAPL_CM_TOS=%u: rdma_set_option: %s", dev->attr.device, dev->env.tos,
			 strerror(errno));
}
