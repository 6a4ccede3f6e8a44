/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turns in which raw.c, raw_ofi.c and dat.c measure the rows that they share. They include this
 * file after they have defined, each with its own calls:
 *
 *	measure_NAME		of each row of rows.h
 *	measure_dequeue		takes the completions of CALLS receives, one a call
 *	measure_dequeue_nothing	asks an empty queue, CALLS times
 *	measure_wait		takes the completion of one receive that is there
 *	recv_unmeasured		CALLS receives, WHOLE
 *	send_unmeasured		CALLS sends, WHOLE
 *	message_unmeasured	one receive and one send, WHOLE
 *	messages_arrive		waits until so many messages are there, and their sends complete
 *	post_write		one write
 *	take_requests		waits for so many completions of requests
 *	take_receives		and of receives
 */
#ifndef BENCH_TURNS_H
#define BENCH_TURNS_H

#include <stdbool.h>

#include "rows.h"

/*
 * One more request follows those that are measured. If they were suppressed, it is the only one
 * that has an event.
 */
static void request_turns(void (*measure)(void), bool suppressed)
{
	for (int i = 0; i < TURNS; i++) {
		measure();
		post_write();
		take_requests(suppressed ? 1 : CALLS + 1);
	}
}

static void send_turns(void (*measure_recv)(void), void (*measure_send)(void), bool suppressed)
{
	for (int i = 0; i < TURNS; i++) {
		measure_recv();
		measure_send();
		post_write();
		take_requests(suppressed ? 1 : CALLS + 1);
		take_receives(CALLS);
	}
}

#define SEND_TURNS(name, segments, flag, receives)                                                 \
	send_turns(receives, measure_##name, (flag) == SUPPRESSED);
#define REQUEST_TURNS(name, segments, flag) request_turns(measure_##name, (flag) == SUPPRESSED);

static void measure_posts(void)
{
	SEND_ROWS(SEND_TURNS)
	WRITE_ROWS(REQUEST_TURNS)
	READ_ROWS(REQUEST_TURNS)
}

static void measure_completions(void)
{
	for (int i = 0; i < TURNS; i++) {
		recv_unmeasured();
		send_unmeasured();
		messages_arrive(CALLS);
		measure_dequeue();
		measure_dequeue_nothing();
	}
	for (int i = 0; i < CALLS * TURNS; i++) {
		message_unmeasured();
		messages_arrive(1);
		measure_wait();
	}
}

#endif
