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

/* Writes the states of the latest two endpoints, for messages; -1 if one was freed. */
void last_ep_states(int states[2]);

#endif
