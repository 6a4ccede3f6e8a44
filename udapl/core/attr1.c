/* SPDX-License-Identifier: BSD-2-Clause */
/* What dat_ia_query tells in DAT 1.2 alone, or differently from DAT 2.0. */
#include <stdio.h>

#include "core.h"

DAT_IA_HANDLE attr_ia_handle(struct ia *ia)
{
	return ia;
}

int attr_own_open(struct ia *ia)
{
	(void)ia; /* it has no named attributes */
	return 0;
}

void attr_own_close(struct ia *ia)
{
	(void)ia;
}

void attr_ia_own(const struct ia *ia, DAT_IA_ATTR *attr)
{
	snprintf(attr->adapter_name, sizeof(attr->adapter_name), "%s", ia->provider->info.ia_name);
	attr->max_lmr_block_size = ia->attr->max_mr_size;
}

void attr_provider_own(const struct ia *ia, DAT_PROVIDER_ATTR *attr)
{
	(void)ia;
	attr->provider_version_major = 1;
	attr->provider_version_minor = 2;
}
