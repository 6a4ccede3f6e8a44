/* SPDX-License-Identifier: BSD-2-Clause */
/* Support of the cases of conform: see conform.h. */
#include <sys/socket.h>

#include "conform.h"

const char *status_text(DAT_RETURN ret)
{
	static char text[128];
	const char *major = "?", *minor = "?";

	(void)dat_strerror(ret, &major, &minor);
	snprintf(text, sizeof(text), "%s, %s", major, minor);
	return text;
}

/* ---- the transport ---- */

static const struct transport transports[] = {
	{
		/*
		 * A provider that is called by no other name, on a device that does what the
		 * standard asks for.
		 */
		.kind = "hw",
		.bad_segment = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_receive = DAT_DTO_ERR_LOCAL_PROTECTION,
		.sees_pages = true,
		.tells_remote = true,
		.guards_reads = true,
		.bounds_windows = true,
	},
	{
		/* Registering is bookkeeping there. */
		.kind = "fake",
		.bad_segment = DAT_DTO_ERR_LOCAL_PROTECTION,
		.bad_receive = DAT_DTO_ERR_LOCAL_PROTECTION,
		.tells_remote = true,
		.guards_reads = true,
		.bounds_windows = true,
	},
	{
		/*
		 * It checks local memory as it executes the request, and the range of the region
		 * below a window.
		 */
		.kind = "rxe",
		.bad_segment = DAT_DTO_ERR_LOCAL_EP,
		.bad_receive = DAT_DTO_ERR_LOCAL_EP,
		.sees_pages = true,
		.tells_remote = true,
		.guards_reads = true,
	},
	{
		/*
		 * iWARP completes a write as soon as TCP has it, and breaks the connection over a
		 * bad one.
		 */
		.kind = "siw",
		.bad_segment = DAT_DTO_ERR_LOCAL_EP,
		.bad_receive = DAT_DTO_ERR_TRANSPORT,
		.sees_pages = true,
		.bounds_windows = true,
	},
};

const struct transport *transport(void)
{
	const char *kind = getenv("CONFORM_NAMES") ? getenv("DAT_TEST_DEV") : "fake";

	for (int n = 0; kind && n < COUNT(transports); n++)
		if (!strcmp(kind, transports[n].kind))
			return &transports[n];
	return &transports[0];
}

void add_case(TCase *cases, const TTest *test, bool can, const char *why_not)
{
	if (can)
		tcase_add_test(cases, test);
	else
		printf("# %s is left out on %s: %s\n", test->name, transport()->kind, why_not);
}

/* ---- one end ---- */

struct side a, b;

void choose_names(void)
{
	const char *names = getenv("CONFORM_NAMES");

	if (names) {
		ck_assert_int_eq(sscanf(names, "%255s %255s", a.name, b.name), 2);
		return;
	}
	strcpy(a.name, "fake0");
	strcpy(b.name, "fake1");
	use_conf("fake0 u1.2 nonthreadsafe default " FAKE_PROVIDER " dapl.1.2 \"fake0 0\" \"\"\n"
		 "fake1 u1.2 nonthreadsafe default " FAKE_PROVIDER " dapl.1.2 \"fake1 0\" \"\"\n");
}

void side_open_ia(struct side *side)
{
	side->async_evd = DAT_HANDLE_NULL;
	ck_dat(dat_ia_open(side->name, 8, &side->async_evd, &side->ia));
	ck_dat(dat_ia_query(side->ia, NULL, DAT_IA_FIELD_ALL, &side->attr, DAT_PROVIDER_FIELD_ALL,
			    &side->provider));
}

static DAT_EVD_HANDLE evd_make(const struct side *side, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	ck_dat(dat_evd_create(side->ia, QLEN, DAT_HANDLE_NULL, flags, &evd));
	return evd;
}

void side_open(struct side *side)
{
	DAT_REGION_DESCRIPTION region;

	side_open_ia(side);
	ck_dat(dat_pz_create(side->ia, &side->pz));
	side->recv_evd = evd_make(side, DAT_EVD_DTO_FLAG);
	side->request_evd = evd_make(side, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
	side->connect_evd = evd_make(side, DAT_EVD_CONNECTION_FLAG);
	side->cr_evd = evd_make(side, DAT_EVD_CR_FLAG);
	ck_dat(dat_ep_create(side->ia, side->pz, side->recv_evd, side->request_evd,
			     side->connect_evd, NULL, &side->ep));
	side->memory = calloc(1, MEMORY);
	ck_assert_ptr_nonnull(side->memory);
	region.for_va = side->memory;
	ck_dat(dat_lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, region, MEMORY, side->pz,
			      DAT_MEM_PRIV_ALL_FLAG, &side->lmr, &side->lmr_context,
			      &side->rmr_context, NULL, NULL));
}

void side_close(struct side *side)
{
	ck_dat(dat_ep_free(side->ep));
	ck_dat(dat_lmr_free(side->lmr));
	ck_dat(dat_pz_free(side->pz));
	ck_dat(dat_evd_free(side->recv_evd));
	ck_dat(dat_evd_free(side->request_evd));
	ck_dat(dat_evd_free(side->connect_evd));
	ck_dat(dat_evd_free(side->cr_evd));
	ck_dat(dat_ia_close(side->ia, DAT_CLOSE_GRACEFUL_FLAG));
	free(side->memory);
}

void open_both(void)
{
	choose_names();
	side_open(&a);
	side_open(&b);
}

/* ---- events ---- */

static DAT_RETURN ask_state(DAT_EP_HANDLE ep, DAT_EP_STATE *state)
{
	DAT_BOOLEAN recv_idle, request_idle;

	return dat_ep_get_status(ep, state, &recv_idle, &request_idle);
}

DAT_EP_STATE state_of(DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	ck_dat(ask_state(ep, &state));
	return state;
}

/* For a message: -1 if there is no such endpoint. */
static int state_if_any(DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	return ask_state(ep, &state) == DAT_SUCCESS ? (int)state : -1;
}

/*
 * If none comes, says what for we waited, how far both ends were, and whether it came after all,
 * but woke nobody.
 */
static DAT_EVENT next_event(DAT_EVD_HANDLE evd, const char *wanted)
{
	DAT_EVENT event;
	DAT_COUNT nmore;
	DAT_RETURN ret = dat_evd_wait(evd, PATIENCE, 1, &event, &nmore);

	if (ret != DAT_SUCCESS)
		ck_abort_msg(
			"waiting for %s, endpoints in states %d and %d: %s; the queue holds %s",
			wanted, state_if_any(a.ep), state_if_any(b.ep), status_text(ret),
			dat_evd_dequeue(evd, &event) == DAT_SUCCESS ? "an event now" : "nothing");
	ck_assert_ptr_eq(event.evd_handle, evd);
	return event;
}

DAT_EVENT expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	char wanted[24];
	DAT_EVENT event;

	snprintf(wanted, sizeof(wanted), "event %#x", number);
	event = next_event(evd, wanted);
	ck_assert_msg(event.event_number == number, "event %#x, not %#x", event.event_number,
		      number);
	return event;
}

void expect_dto(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, uint64_t cookie,
		DAT_DTO_COMPLETION_STATUS status, DAT_VLEN length)
{
	DAT_EVENT event = expect(evd, DAT_DTO_COMPLETION_EVENT);
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	ck_assert_ptr_eq(dto->ep_handle, ep);
	ck_assert_uint_eq(dto->user_cookie.as_64, cookie);
	ck_assert_int_eq(dto->status, status);
	if (status == DAT_DTO_SUCCESS)
		ck_assert_uint_eq(dto->transfered_length, length);
}

void expect_empty(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	ck_dat_fails(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY, 0);
}

DAT_EVENT expect_connection(const struct side *side, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event = expect(side->connect_evd, number);

	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
	return event;
}

void expect_end(const struct side *side)
{
	DAT_EVENT event = next_event(side->connect_evd, "the end of a connection");

	ck_assert_msg(event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
			      event.event_number == DAT_CONNECTION_EVENT_BROKEN,
		      "event %#x", event.event_number);
	ck_assert_ptr_eq(event.event_data.connect_event_data.ep_handle, side->ep);
}

/* ---- connections ---- */

DAT_PSP_HANDLE listen_at(const struct side *side, DAT_CONN_QUAL *qual)
{
	DAT_PSP_HANDLE psp;

	ck_dat(dat_psp_create_any(side->ia, qual, side->cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
	ck_assert_uint_ne(*qual, 0);
	return psp;
}

void call(const struct side *from, const struct side *to, DAT_CONN_QUAL qual, DAT_COUNT size,
	  const char *data)
{
	ck_dat(dat_ep_connect(from->ep, to->attr.ia_address_ptr, qual, PATIENCE, size,
			      (DAT_PVOID)data, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

DAT_CR_HANDLE expect_request(const struct side *side, DAT_PSP_HANDLE psp, DAT_CONN_QUAL qual)
{
	DAT_EVENT event = expect(side->cr_evd, DAT_CONNECTION_REQUEST_EVENT);
	const DAT_CR_ARRIVAL_EVENT_DATA *cr = &event.event_data.cr_arrival_event_data;

	ck_assert_ptr_eq(cr->sp_handle.psp_handle, psp);
	ck_assert_uint_eq(cr->conn_qual, qual);
	return cr->cr_handle;
}

void connect_both(void)
{
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp = listen_at(&b, &qual);

	call(&a, &b, qual, 0, NULL);
	ck_dat(dat_cr_accept(expect_request(&b, psp, qual), b.ep, 0, NULL));
	expect_connection(&a, DAT_CONNECTION_EVENT_ESTABLISHED);
	expect_connection(&b, DAT_CONNECTION_EVENT_ESTABLISHED);
	ck_dat(dat_psp_free(psp));
}

void disconnect_both(DAT_CLOSE_FLAGS flags)
{
	ck_dat(dat_ep_disconnect(a.ep, flags));
	expect_connection(&a, DAT_CONNECTION_EVENT_DISCONNECTED);
	expect_connection(&b, DAT_CONNECTION_EVENT_DISCONNECTED);
	ck_assert_int_eq(state_of(a.ep), DAT_EP_STATE_DISCONNECTED);
	ck_assert_int_eq(state_of(b.ep), DAT_EP_STATE_DISCONNECTED);
}

void connect_again(void)
{
	ck_dat(dat_ep_reset(a.ep));
	ck_dat(dat_ep_reset(b.ep));
	connect_both();
}

void open_connected(void)
{
	open_both();
	connect_both();
}

void close_both(void)
{
	side_close(&a);
	side_close(&b);
}

/* ---- transfers ---- */

DAT_LMR_TRIPLET segment(const struct side *side, size_t offset, size_t length)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = side->lmr_context,
		.virtual_address = (uintptr_t)side->memory + offset,
		.segment_length = length,
	};
}

DAT_RMR_TRIPLET target(const struct side *side, size_t offset, size_t length)
{
	return (DAT_RMR_TRIPLET){
		.rmr_context = side->rmr_context,
		.target_address = (uintptr_t)side->memory + offset,
		.segment_length = length,
	};
}

DAT_DTO_COOKIE cookie_of(uint64_t n)
{
	return (DAT_DTO_COOKIE){ .as_64 = n };
}

void post_send(const struct side *side, uint64_t n, size_t offset, size_t length,
	       DAT_COMPLETION_FLAGS flags)
{
	DAT_LMR_TRIPLET iov = segment(side, offset, length);

	ck_dat(dat_ep_post_send(side->ep, 1, &iov, cookie_of(n), flags));
}

void post_recv(const struct side *side, uint64_t n, size_t offset, size_t length)
{
	DAT_LMR_TRIPLET iov = segment(side, offset, length);

	ck_dat(dat_ep_post_recv(side->ep, 1, &iov, cookie_of(n), DAT_COMPLETION_DEFAULT_FLAG));
}

void fill(const struct side *side, unsigned seed)
{
	for (unsigned n = 0; n < MEMORY; n++)
		side->memory[n] = (char)(seed + n * 13);
}

void check_filled(const struct side *side, unsigned seed)
{
	for (unsigned n = 0; n < MEMORY; n++)
		if (side->memory[n] != (char)(seed + n * 13))
			ck_abort_msg("byte %u of %s has changed", n, side == &a ? "a" : "b");
}

void post_write(uint64_t n, size_t offset, DAT_RMR_TRIPLET to)
{
	DAT_LMR_TRIPLET iov = segment(&a, offset, to.segment_length);

	ck_dat(dat_ep_post_rdma_write(a.ep, 1, &iov, cookie_of(n), &to,
				      DAT_COMPLETION_DEFAULT_FLAG));
}

void post_read(uint64_t n, size_t offset, DAT_RMR_TRIPLET from)
{
	DAT_LMR_TRIPLET iov = segment(&a, offset, from.segment_length);

	ck_dat(dat_ep_post_rdma_read(a.ep, 1, &iov, cookie_of(n), &from,
				     DAT_COMPLETION_DEFAULT_FLAG));
}

void expect_read(DAT_RMR_TRIPLET from)
{
	fill(&a, 1);
	fill(&b, 2);
	post_read(1, 0, from);
	expect_dto(a.request_evd, a.ep, 1, DAT_DTO_SUCCESS, from.segment_length);
	ck_assert_mem_eq(a.memory, (char *)(uintptr_t)from.target_address, from.segment_length);
}

/* A read behind a write tells, on any transport, that it is there. */
void expect_write(DAT_RMR_TRIPLET to)
{
	const DAT_RMR_TRIPLET behind = target(&b, 0, 1);

	fill(&a, 3);
	fill(&b, 4);
	post_write(1, 0, to);
	post_read(2, MEMORY - 1, behind);
	expect_dto(a.request_evd, a.ep, 1, DAT_DTO_SUCCESS, to.segment_length);
	expect_dto(a.request_evd, a.ep, 2, DAT_DTO_SUCCESS, behind.segment_length);
	ck_assert_mem_eq((char *)(uintptr_t)to.target_address, a.memory, to.segment_length);
}

static void expect_refused(bool read, DAT_RMR_TRIPLET remote)
{
	DAT_DTO_COMPLETION_STATUS status;
	DAT_EVENT event;

	fill(&a, 5);
	fill(&b, 6);
	if (read)
		post_read(1, 0, remote);
	else
		post_write(1, 0, remote);
	expect_end(&a);
	expect_end(&b);
	event = expect(a.request_evd, DAT_DTO_COMPLETION_EVENT);
	status = event.event_data.dto_completion_event_data.status;
	if (transport()->tells_remote)
		ck_assert_int_eq(status, DAT_DTO_ERR_REMOTE_ACCESS);
	else if (read)
		ck_assert_int_ne(status, DAT_DTO_SUCCESS);
	check_filled(&a, 5);
	check_filled(&b, 6);
	connect_again();
}

void expect_read_refused(DAT_RMR_TRIPLET from)
{
	expect_refused(true, from);
}

void expect_write_refused(DAT_RMR_TRIPLET to)
{
	expect_refused(false, to);
}
