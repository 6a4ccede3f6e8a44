/* SPDX-License-Identifier: BSD-2-Clause */
/* Status and events: what a call returned, what an EVD delivers. */
#define CONSUMER_IMPLEMENTATION
#include <stdio.h>

#include "consumer.h"
#include "impl.h"

_Thread_local const char *test_file = "?";
_Thread_local int test_line;

/* ---- texts ---- */

static const struct {
	DAT_EVENT_NUMBER number;
	const char *name;
} event_names[] = {
	{ DAT_DTO_COMPLETION_EVENT, "DTO_COMPLETION" },
	{ DAT_RMR_BIND_COMPLETION_EVENT, "RMR_BIND_COMPLETION" },
	{ DAT_CONNECTION_REQUEST_EVENT, "CONNECTION_REQUEST" },
	{ DAT_CONNECTION_EVENT_ESTABLISHED, "ESTABLISHED" },
	{ DAT_CONNECTION_EVENT_PEER_REJECTED, "PEER_REJECTED" },
	{ DAT_CONNECTION_EVENT_NON_PEER_REJECTED, "NON_PEER_REJECTED" },
	{ DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, "ACCEPT_COMPLETION_ERROR" },
	{ DAT_CONNECTION_EVENT_DISCONNECTED, "DISCONNECTED" },
	{ DAT_CONNECTION_EVENT_BROKEN, "BROKEN" },
	{ DAT_CONNECTION_EVENT_TIMED_OUT, "TIMED_OUT" },
	{ DAT_CONNECTION_EVENT_UNREACHABLE, "UNREACHABLE" },
	{ DAT_SOFTWARE_EVENT, "SOFTWARE" },
};

const char *event_name(DAT_EVENT_NUMBER number)
{
	for (size_t i = 0; i < COUNT(event_names); i++)
		if (event_names[i].number == number)
			return event_names[i].name;
	return "unknown";
}

static const char *event_text(const DAT_EVENT *event, char text[160])
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	if (event->event_number == DAT_DTO_COMPLETION_EVENT)
		snprintf(text, 160, "completion of %p, cookie 0x%llx, status %d, length %llu",
			 dto->ep_handle, (unsigned long long)dto->user_cookie.as_64, dto->status,
			 (unsigned long long)dto->transfered_length);
	else
		snprintf(text, 160, "%s (0x%x)", event_name(event->event_number),
			 event->event_number);
	return text;
}

/* ---- events ---- */

/*
 * If none comes, the message says what was waited for, what has become of the latest endpoints, and
 * whether the event is in the queue although it woke no waiter.
 */
static DAT_EVENT next_event(DAT_EVD_HANDLE evd, const char *wanted)
{
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret;
	char eps[2][EP_TEXT];

	ret = dat_evd_wait(evd, TIME_LIMIT, 1, &event, &nmore);
	if (ret != DAT_SUCCESS) {
		const bool late = dat_evd_dequeue(evd, &event) == DAT_SUCCESS;

		last_eps_describe(eps);
		ck_abort_msg("%s:%d: waiting for %s, endpoints %s and %s: %s; the queue holds %s",
			     test_file, test_line, wanted, eps[0], eps[1], status_text(ret),
			     late ? "an event now" : "nothing");
	}
	ck_assert_ptr_eq(event.evd_handle, evd);
	return event;
}

DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = next_event(evd, event_name(number));
	char text[160];

	if (event.event_number != number)
		ck_abort_msg("%s:%d: %s, not %s", test_file, test_line, event_text(&event, text),
			     event_name(number));
	return event;
}

void expect_no_event(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;
	DAT_RETURN ret = dat_evd_dequeue(evd, &event);
	char text[160];

	if (ret == DAT_SUCCESS)
		ck_abort_msg("%s:%d: %s, not an empty queue", test_file, test_line,
			     event_text(&event, text));
	ck_dat_is(ret, DAT_QUEUE_EMPTY);
}

void expect_dto(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
		DAT_DTO_COMPLETION_STATUS status, size_t length)
{
	DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;
	char text[160];

	if (dto->ep_handle != ep || dto->user_cookie.as_64 != cookie || dto->status != status ||
	    (status == DAT_DTO_SUCCESS && dto->transfered_length != length))
		ck_abort_msg("%s:%d: %s; not of %p, cookie 0x%llx, status %d, length %zu",
			     test_file, test_line, event_text(&event, text), ep,
			     (unsigned long long)cookie, status, length);
}

void expect_request_done(const struct side *side, uint64_t cookie, size_t length)
{
	expect_dto(side->request_evd, side->ep, cookie, DAT_DTO_SUCCESS, length);
}

void expect_recv_done(const struct side *side, uint64_t cookie, size_t length)
{
	expect_dto(side->recv_evd, side->ep, cookie, DAT_DTO_SUCCESS, length);
}

void expect_bind(DAT_EVD_HANDLE evd, DAT_RMR_HANDLE rmr, uint64_t cookie,
		 DAT_RMR_BIND_COMPLETION_STATUS status)
{
	DAT_EVENT event = expect_event(evd, DAT_RMR_BIND_COMPLETION_EVENT);
	const DAT_RMR_BIND_COMPLETION_EVENT_DATA *bind =
		&event.event_data.rmr_completion_event_data;

	if (bind->rmr_handle != rmr || bind->user_cookie.as_64 != cookie || bind->status != status)
		ck_abort_msg("%s:%d: bind of %p, cookie 0x%llx, status %d; not of %p, cookie "
			     "0x%llx, status %d",
			     test_file, test_line, bind->rmr_handle,
			     (unsigned long long)bind->user_cookie.as_64, bind->status, rmr,
			     (unsigned long long)cookie, status);
}

DAT_EVENT expect_connection_of(const struct side *side, DAT_EP_HANDLE ep, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = expect_event(side->connect_evd, number);

	if (event.event_data.connect_event_data.ep_handle != ep)
		ck_abort_msg("%s:%d: %s of %p, not of %p", test_file, test_line, event_name(number),
			     event.event_data.connect_event_data.ep_handle, ep);
	return event;
}

DAT_EVENT expect_connection(const struct side *side, DAT_EVENT_NUMBER number)
{
	return expect_connection_of(side, side->ep, number);
}

void expect_end(const struct side *side)
{
	DAT_EVENT event = next_event(side->connect_evd, "DISCONNECTED or BROKEN");
	char text[160];

	if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED &&
	    event.event_number != DAT_CONNECTION_EVENT_BROKEN)
		ck_abort_msg("%s:%d: %s, not DISCONNECTED or BROKEN", test_file, test_line,
			     event_text(&event, text));
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
}
