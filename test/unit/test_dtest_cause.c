/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What dtest prints when a transfer fails: one cause, and nothing that follows from it; and when a
 * device is too small. The calls that transfer, and the device, are played here.
 */
#include "dtest/dtest.h"
#include "registry_test.h"

/* The handles are compared only. */
#define EP	     ((DAT_EP_HANDLE)1)
#define REQUESTS     ((DAT_EVD_HANDLE)2)
#define RECEIVES     ((DAT_EVD_HANDLE)3)
#define CONNECTIONS  ((DAT_EVD_HANDLE)4)
#define STATUSES_MAX 3
#define NO_EVENT     ((DAT_EVENT_NUMBER)0)

/* What happens to a ping. */
static const struct played {
	DAT_RETURN post; /* of its send */
	DAT_DTO_COMPLETION_STATUS receive;
	unsigned count;
	DAT_DTO_COMPLETION_STATUS requests[STATUSES_MAX];
	DAT_EVENT_NUMBER end; /* of the connection */
	const char *lines;    /* all that is printed, without process ids */
} cases[] = {
	{ .receive = DAT_DTO_ERR_FLUSHED,
	  .count = 3,
	  .requests = { DAT_DTO_SUCCESS, DAT_DTO_ERR_TRANSPORT, DAT_DTO_ERR_FLUSHED },
	  .end = DAT_CONNECTION_EVENT_BROKEN,
	  .lines = "Error request: cookie 0x1111 completed with DAT_DTO_ERR_TRANSPORT\n"
		   "Error: the peer did not acknowledge: it is gone, or a large network needs a "
		   "longer DAPL_ACK_TIMER\n" },
	{ .receive = DAT_DTO_ERR_FLUSHED,
	  .count = 1,
	  .requests = { DAT_DTO_ERR_FLUSHED },
	  .end = DAT_CONNECTION_EVENT_DISCONNECTED,
	  .lines = "Error: the peer ended the connection\n" },
	{ .post = ERROR_OF(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCONNECTED),
	  .count = 1,
	  .requests = { DAT_DTO_ERR_REMOTE_ACCESS },
	  .end = DAT_CONNECTION_EVENT_BROKEN,
	  .lines = "Error request: cookie 0x1111 completed with DAT_DTO_ERR_REMOTE_ACCESS\n"
		   "Error: the peer does not allow access to this memory\n" },
	{ .receive = DAT_DTO_ERR_LOCAL_LENGTH,
	  .count = 1,
	  .requests = { DAT_DTO_ERR_FLUSHED },
	  .end = DAT_CONNECTION_EVENT_BROKEN,
	  .lines = "Error ping: completed with DAT_DTO_ERR_LOCAL_LENGTH\n"
		   "Error: the message is longer than the buffer posted for it\n" },
	/* the cause is unknown, so all is told that may lead there */
	{ .receive = DAT_DTO_ERR_FLUSHED,
	  .count = 1,
	  .requests = { DAT_DTO_ERR_FLUSHED },
	  .end = NO_EVENT,
	  .lines = "Error ping: completed with DAT_DTO_ERR_FLUSHED\n"
		   "Error: the connection ended before this transfer\n"
		   "Error ping: expected cookie 0, length 64\n"
		   "Error in step: ping\n" },
};

static const struct played *played;
static unsigned requests_taken;

static void completion_make(DAT_EVENT *event, DAT_UINT64 cookie, DAT_DTO_COMPLETION_STATUS status)
{
	*event = (DAT_EVENT){ .event_number = DAT_DTO_COMPLETION_EVENT };
	event->event_data.dto_completion_event_data = (DAT_DTO_COMPLETION_EVENT_DATA){
		.ep_handle = EP, .user_cookie = { .as_64 = cookie }, .status = status
	};
}

DAT_RETURN __wrap_dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
				   DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);
DAT_RETURN __wrap_dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
				   DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	(void)ep, (void)segments, (void)iov, (void)cookie, (void)flags;
	return DAT_SUCCESS;
}

DAT_RETURN __wrap_dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
				   DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);
DAT_RETURN __wrap_dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
				   DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
	(void)ep, (void)segments, (void)iov, (void)cookie, (void)flags;
	return played->post;
}

DAT_RETURN __wrap_dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event);
DAT_RETURN __wrap_dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
	ck_assert_ptr_eq(evd, REQUESTS);
	if (requests_taken == played->count)
		return ERROR_OF(DAT_QUEUE_EMPTY, DAT_NO_SUBTYPE);
	completion_make(event, 0x1111, played->requests[requests_taken++]);
	return DAT_SUCCESS;
}

DAT_RETURN __wrap_dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			       DAT_EVENT *event, DAT_COUNT *nmore);
DAT_RETURN __wrap_dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold,
			       DAT_EVENT *event, DAT_COUNT *nmore)
{
	(void)timeout, (void)threshold;
	*nmore = 0;
	if (evd == RECEIVES) {
		completion_make(event, 0, played->receive);
		return DAT_SUCCESS;
	}
	ck_assert_ptr_eq(evd, CONNECTIONS);
	if (played->end == NO_EVENT)
		return ERROR_OF(DAT_TIMEOUT_EXPIRED, DAT_NO_SUBTYPE);
	*event = (DAT_EVENT){ .event_number = played->end };
	return DAT_SUCCESS;
}

START_TEST(a_transfer_that_fails_has_one_cause_and_no_echo)
{
	static char memory[64];
	struct dtest t = { .opt = { .size = sizeof(memory), .burst = 1, .mode = MODE_CHECK },
			   .ep = EP,
			   .request_evd = REQUESTS,
			   .recv_evd = RECEIVES,
			   .connect_evd = CONNECTIONS,
			   .in = { .mem = memory },
			   .out = { .mem = memory } };
	const char *at = cases[_i].lines;
	char wanted[1024] = "";
	int printed;

	played = &cases[_i];
	t.hello = dtest_hello_make(&t);
	printed = stderr_capture();
	ck_assert_int_eq(dtest_ping_pong(&t), -1);
	dtest_context(&t, "in step", "ping");
	for (size_t length; *at; at += length) {
		length = strcspn(at, "\n") + 1;
		snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), "%d %.*s",
			 getpid(), (int)length, at);
	}
	ck_assert_str_eq(output_text(printed), wanted);
}
END_TEST

static DAT_COUNT most_requests; /* of an endpoint; 0: the provider does not say */

DAT_RETURN __wrap_dat_ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async, DAT_IA_ATTR_MASK mask,
			       DAT_IA_ATTR *attr, DAT_PROVIDER_ATTR_MASK provider_mask,
			       DAT_PROVIDER_ATTR *provider_attr);
DAT_RETURN __wrap_dat_ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async, DAT_IA_ATTR_MASK mask,
			       DAT_IA_ATTR *attr, DAT_PROVIDER_ATTR_MASK provider_mask,
			       DAT_PROVIDER_ATTR *provider_attr)
{
	(void)ia, (void)async, (void)provider_mask, (void)provider_attr;
	ck_assert(mask & DAT_IA_FIELD_IA_MAX_DTO_PER_EP);
	attr->max_dto_per_ep = most_requests;
	return DAT_SUCCESS;
}

/* An endpoint has 7 requests, and 3 for each of a burst. */
static const struct {
	DAT_COUNT room;
	unsigned burst;
	enum dtest_mode mode;
	unsigned most; /* that is told; 0: the burst fits */
} bursts[] = {
	{ 37, 10, MODE_CHECK, 0 },
	{ 36, 10, MODE_CHECK, 9 },
	{ 32766, 65535, MODE_WRITES, 10919 },
	{ 7 + 3 * 65535, 65535, MODE_CHECK, 0 },
	{ 0, 65535, MODE_CHECK, 0 },
	{ 300, 65535, MODE_SWEEP, 0 }, /* which has a window */
};

START_TEST(a_burst_that_a_device_has_no_room_for_is_refused_with_one_that_fits)
{
	struct dtest t = { .opt = { .burst = bursts[_i].burst, .mode = bursts[_i].mode } };
	char wanted[TOOL_SENTENCE] = "";
	int printed = stderr_capture();

	most_requests = bursts[_i].room;
	ck_assert_int_eq(dtest_check_burst(&t), bursts[_i].most ? -1 : 0);
	if (bursts[_i].most)
		snprintf(wanted, sizeof(wanted), "%d Error: this device takes -B %u at most\n",
			 getpid(), bursts[_i].most);
	ck_assert_str_eq(output_text(printed), wanted);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("cause");

	tcase_add_loop_test(tcase, a_transfer_that_fails_has_one_cause_and_no_echo, 0,
			    COUNT(cases));
	tcase_add_loop_test(tcase,
			    a_burst_that_a_device_has_no_room_for_is_refused_with_one_that_fits, 0,
			    COUNT(bursts));
	return run_cases(argc, argv);
}
