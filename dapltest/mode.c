/* SPDX-License-Identifier: BSD-2-Clause */
/* Which mode a command runs. */
#include "dapltest.h"

int mode_run(const struct options *options)
{
	switch (options->mode) {
	case MODE_SERVER:
		return server_run(options);
	case MODE_LIMIT:
		return limit_run(options);
	case MODE_FUNCTION:
		return function_run(options);
	default:
		return client_run(options);
	}
}
