/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for events. No wait is longer than a moment at a time, so that Ctrl-C and the failure of
 * another part end it with every provider: one may go on after a signal, another return.
 */
#include "dapltest.h"

#include <sched.h>
#include <signal.h>

enum {
	POLLS_IN_A_ROW = 1000, /* then other threads may have the processor */
};

DAT_TIMEOUT event_moment = 200 * 1000;

atomic_bool interrupted;

static void interrupt_note(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

/* What the program was started to ignore, as a shell does for its background, stays ignored. */
static void interrupt_catch_one(int number)
{
	const struct sigaction action = { .sa_handler = interrupt_note, .sa_flags = SA_RESETHAND };
	struct sigaction before;

	if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		(void)sigaction(number, &action, NULL);
}

/* The second signal ends the program at once. */
void interrupt_catch(void)
{
	interrupt_catch_one(SIGINT);
	interrupt_catch_one(SIGTERM);
}

bool patience_ended(const struct patience *patience)
{
	return atomic_load(&interrupted) || atomic_load(patience->stop);
}

static DAT_RETURN event_poll(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	DAT_RETURN ret = DAT_QUEUE_EMPTY;

	for (unsigned i = 0; i < POLLS_IN_A_ROW && DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY; i++)
		ret = dat_evd_dequeue(evd, event);
	if (DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY)
		(void)sched_yield();
	return ret;
}

/*
 * The EVD that dat_cno_wait returns is a hint, and may be one of another lane, whose turn comes
 * later: only dat_evd_dequeue tells whether evd has an event.
 */
static DAT_RETURN event_by_cno(DAT_CNO_HANDLE cno, DAT_EVD_HANDLE evd, DAT_TIMEOUT moment,
			       DAT_EVENT *event)
{
	DAT_RETURN ret = dat_evd_dequeue(evd, event);
	DAT_EVD_HANDLE hint;

	if (DAT_GET_TYPE(ret) != DAT_QUEUE_EMPTY)
		return ret;
	ret = dat_cno_wait(cno, moment, &hint);
	return ret == DAT_SUCCESS ? DAT_QUEUE_EMPTY : ret;
}

static DAT_RETURN event_take(const struct patience *patience, DAT_EVD_HANDLE evd,
			     DAT_TIMEOUT moment, DAT_EVENT *event)
{
	DAT_COUNT more;

	switch (patience->way) {
	case WAIT_POLL:
		return event_poll(evd, event);
	case WAIT_CNO:
		return event_by_cno(patience->cno, evd, moment, event);
	default:
		return dat_evd_wait(evd, moment, 1, event, &more);
	}
}

enum wait_result event_wait(const struct patience *patience, DAT_EVD_HANDLE evd, DAT_TIMEOUT limit,
			    DAT_EVENT *event, DAT_RETURN *ret)
{
	double deadline = limit == DAT_TIMEOUT_INFINITE ? 0 : tool_usec_now() + limit, left;
	DAT_TIMEOUT moment = limit < event_moment ? limit : event_moment;

	for (;;) {
		*ret = event_take(patience, evd, moment, event);
		switch (DAT_GET_TYPE(*ret)) {
		case DAT_SUCCESS:
			return WAIT_EVENT;
		case DAT_TIMEOUT_EXPIRED:
		case DAT_QUEUE_EMPTY:
		case DAT_INTERRUPTED_CALL:
			break;
		default:
			return WAIT_FAILED;
		}
		if (patience_ended(patience))
			return WAIT_STOPPED;
		if (limit == DAT_TIMEOUT_INFINITE)
			continue;
		left = deadline - tool_usec_now();
		if (left <= 0)
			return WAIT_LATE;
		if (left < moment)
			moment = (DAT_TIMEOUT)left + 1;
	}
}
