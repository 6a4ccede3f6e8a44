/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The write within the process that shows at an open whether virtual addresses are taken: how long
 * it is waited for. A round is a read of the completion queue, by which data move.
 */
#include <stdlib.h>

#include "ofi_test.h"

#define PARAMS "scripted 127.0.0.1"

/* At least so many rounds, and at least so long; the connection takes a few of the rounds. */
#define ROUNDS	       2000
#define NS	       UINT64_C(200000000)
#define FOR_CONNECTION 20

#define SECOND UINT64_C(1000000000)
#define NEVER  0

static const struct {
	uint64_t ns;	 /* of a round */
	unsigned placed; /* the round after the write in which it is */
	unsigned least;	 /* rounds of an open that gives up; 0: it does not */
} trials[] = {
	/* the time is over in the first round */
	{ SECOND, NEVER, ROUNDS },
	{ SECOND, ROUNDS - 2 * FOR_CONNECTION, 0 },
	{ SECOND, ROUNDS + FOR_CONNECTION, ROUNDS },
	/* the rounds take half of the time */
	{ NS / ROUNDS / 2, NEVER, ROUNDS * 2 },
	{ NS / ROUNDS / 2, ROUNDS, 0 },
	{ NS / ROUNDS / 2, ROUNDS * 2 - 2 * FOR_CONNECTION, 0 },
	{ NS / ROUNDS / 2, ROUNDS * 2 + FOR_CONNECTION, ROUNDS * 2 },
	/* no time passes */
	{ 0, ROUNDS * 4, 0 },
	{ 0, 1, 0 },
};

START_TEST(a_write_is_waited_for_by_rounds_and_by_the_clock)
{
	const unsigned least = trials[_i].least;
	struct ofi_rig rig;
	unsigned rounds;
	DAT_RETURN ret;

	setenv("DAPL_DBG_TYPE", "0", 1);
	ff_provider()->basic = false; /* there is no other mode with virtual addresses */
	ff_provider()->loses_writes = trials[_i].placed == NEVER;
	ff_provider()->late_writes = trials[_i].placed;
	ofi_prepare(&rig, PARAMS);
	ff_clock_stop(trials[_i].ns);
	ret = ia_open((DAT_NAME_PTR) "ofi", 8, &rig.async_evd, &rig.ia);
	rounds = ff_calls_here("fi_cq_read");
	ff_clock_start();
	if (least) {
		ck_dat_is(ret, DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
		ck_assert_uint_ge(rounds, least);
		ck_assert_uint_le(rounds, least + FOR_CONNECTION);
	} else {
		ck_dat(ret);
		ck_assert_int_eq(ff_seen().mr_mode, FI_MR_VIRT_ADDR);
		ck_assert_uint_ge(rounds, trials[_i].placed);
	}
	ofi_rig_close(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("verify");

	tcase_add_loop_test(tcase, a_write_is_waited_for_by_rounds_and_by_the_clock, 0,
			    COUNT(trials));
	return run_cases(argc, argv);
}
