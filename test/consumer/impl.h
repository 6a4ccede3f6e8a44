/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the consumer library share. */
#ifndef IMPL_H
#define IMPL_H

#include "consumer.h"

/* This is ck_dat, but its failure names the line of the test. */
#define ck_dat_at_test(call)                                                                       \
	do {                                                                                       \
		DAT_RETURN ret_ = (call);                                                          \
		if (ret_ != DAT_SUCCESS)                                                           \
			ck_abort_msg("%s:%d: %s: %s", test_file, test_line, #call,                 \
				     status_text(ret_));                                           \
	} while (0)

/*
 * For messages: tells the states of the latest two endpoints, and which event their EVDs for
 * connections hold, which it takes.
 */
#define EP_TEXT 64
void last_eps_describe(char text[2][EP_TEXT]);

#endif
