/* SPDX-License-Identifier: BSD-2-Clause */
/* What a call of DAT has returned, in words. */
#include <stdio.h>

#include "status.h"

const char *status_text(DAT_RETURN ret)
{
	static _Thread_local char texts[4][128];
	static _Thread_local unsigned next;
	char *text = texts[next++ % 4];
	const char *type = "?", *subtype = "?";

	(void)dat_strerror(ret, &type, &subtype);
	snprintf(text, sizeof(texts[0]), "%s, %s (%#x)", type, subtype, ret);
	return text;
}
