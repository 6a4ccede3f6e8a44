/* SPDX-License-Identifier: BSD-2-Clause */
/* What a call of DAT has returned: its text, and checks of it. */
#ifndef STATUS_H
#define STATUS_H

#include <edition.h>

#include "run.h"

/*
 * Returns "DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED (0x80210007)". The text is in one of
 * four buffers of the calling thread, which are used in turn.
 */
const char *status_text(DAT_RETURN ret);

/* The case fails unless @call returns exactly @want. */
#define ck_dat_is(call, want)                                                                      \
	do {                                                                                       \
		DAT_RETURN ret_ = (call), want_ = (want);                                          \
		if (ret_ != want_)                                                                 \
			ck_abort_msg("%s: %s, not %s", #call, status_text(ret_),                   \
				     status_text(want_));                                          \
	} while (0)

#define ck_dat(call) ck_dat_is(call, DAT_SUCCESS)

#endif
