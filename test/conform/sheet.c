/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the rows of the sheet on the stage that they share; checks after each that it is usable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"
#include "sheet.h"

/* ---- the rows ---- */

static struct row *rows, **rows_end = &rows;

void row_add(struct row *row)
{
	*rows_end = row;
	rows_end = &row->next;
}

const struct row *rows_first(void)
{
	return rows;
}

static const struct row *row_at(int i)
{
	const struct row *row = rows;

	while (i--)
		row = row->next;
	return row;
}

uint32_t row_want(const struct row *row)
{
	for (size_t i = 0; i < COUNT(row->on); i++)
		if (row->on[i].device && !strcmp(row->on[i].device, device()->kind))
			return row->on[i].want;
	return row->want;
}

/* ---- what rows return, in words ---- */

static const char *const completion_names[] = {
	[DAT_DTO_SUCCESS] = "DTO_SUCCESS",
	[DAT_DTO_ERR_FLUSHED] = "ERR_FLUSHED",
	[DAT_DTO_ERR_LOCAL_LENGTH] = "ERR_LOCAL_LENGTH",
	[DAT_DTO_ERR_LOCAL_EP] = "ERR_LOCAL_EP",
	[DAT_DTO_ERR_LOCAL_PROTECTION] = "ERR_LOCAL_PROTECTION",
	[DAT_DTO_ERR_BAD_RESPONSE] = "ERR_BAD_RESPONSE",
	[DAT_DTO_ERR_REMOTE_ACCESS] = "ERR_REMOTE_ACCESS",
	[DAT_DTO_ERR_REMOTE_RESPONDER] = "ERR_REMOTE_RESPONDER",
	[DAT_DTO_ERR_TRANSPORT] = "ERR_TRANSPORT",
	[DAT_DTO_ERR_RECEIVER_NOT_READY] = "ERR_RECEIVER_NOT_READY",
	[DAT_DTO_ERR_PARTIAL_PACKET] = "ERR_PARTIAL_PACKET",
	[DAT_RMR_OPERATION_FAILED] = "RMR_OPERATION_FAILED",
};

static const char *const state_names[] = {
	[DAT_EP_STATE_UNCONNECTED] = "UNCONNECTED",
	[DAT_EP_STATE_RESERVED] = "RESERVED",
	[DAT_EP_STATE_PASSIVE_CONNECTION_PENDING] = "PASSIVE_CONNECTION_PENDING",
	[DAT_EP_STATE_ACTIVE_CONNECTION_PENDING] = "ACTIVE_CONNECTION_PENDING",
	[DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING] = "TENTATIVE_CONNECTION_PENDING",
	[DAT_EP_STATE_CONNECTED] = "CONNECTED",
	[DAT_EP_STATE_DISCONNECT_PENDING] = "DISCONNECT_PENDING",
	[DAT_EP_STATE_DISCONNECTED] = "DISCONNECTED",
	[DAT_EP_STATE_COMPLETION_PENDING] = "COMPLETION_PENDING",
};

static const char *name_in(const char *const names[], size_t n, uint32_t value)
{
	return value < n && names[value] ? names[value] : "unknown";
}

static const char *value_text(enum row_kind kind, uint32_t value)
{
	switch (kind) {
	case ROW_RETURN:
		return status_text(value);
	case ROW_EVENT:
		return event_name(value);
	case ROW_COMPLETION:
		return name_in(completion_names, COUNT(completion_names), value);
	case ROW_STATE:
		return name_in(state_names, COUNT(state_names), value);
	}
	return "unknown";
}

/* Writes "DAT_INVALID_STATE EP_CONNECTED", for the name of a row's case. */
static void want_text(const struct row *row, char text[100])
{
	const char *type = "?", *subtype = "?";

	if (row->kind != ROW_RETURN) {
		snprintf(text, 100, "%s", value_text(row->kind, row_want(row)));
		return;
	}
	(void)dat_strerror(row_want(row), &type, &subtype);
	snprintf(text, 100, "%s%s%s", type, *subtype ? " " : "", subtype);
}

/* ---- the stage ---- */

struct pair stage;
struct side *const here = &stage.client, *const there = &stage.server;
DAT_HANDLE unwritten;
DAT_COUNT unwritten_count;
DAT_CONTEXT no_cookie;

#define UNWRITTEN	((DAT_HANDLE)0x5a5a5a58)
#define UNWRITTEN_COUNT 0x5a5a

static bool is_open, is_clean;
static struct side foreign; /* another instance of the client's IA; not open: ia is NULL */
static DAT_HANDLE kept[512];
static unsigned n_kept;

DAT_HANDLE keep(DAT_HANDLE handle)
{
	ck_assert_uint_lt(n_kept, COUNT(kept));
	return kept[n_kept++] = handle;
}

DAT_HANDLE last_kept(void)
{
	return kept[n_kept - 1];
}

static void stage_close_abrupt(void)
{
	if (!is_open)
		return;
	is_open = false;
	n_kept = 0;
	if (foreign.ia)
		side_close_abrupt(&foreign);
	foreign.ia = DAT_HANDLE_NULL;
	pair_close_abrupt(&stage);
}

static void stage_open(void)
{
	if (is_open && is_clean)
		return;
	stage_close_abrupt();
	pair_open(&stage, NULL);
	is_open = true;
}

static DAT_RETURN object_free(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	switch (type) {
	case DAT_HANDLE_TYPE_CR:
		return CR_REJECT(handle);
	case DAT_HANDLE_TYPE_EP:
		return dat_ep_free(handle);
	case DAT_HANDLE_TYPE_EVD:
		return dat_evd_free(handle);
	case DAT_HANDLE_TYPE_IA:
		return dat_ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
	case DAT_HANDLE_TYPE_LMR:
		return dat_lmr_free(handle);
	case DAT_HANDLE_TYPE_PSP:
		return dat_psp_free(handle);
	case DAT_HANDLE_TYPE_PZ:
		return dat_pz_free(handle);
	case DAT_HANDLE_TYPE_RMR:
		return dat_rmr_free(handle);
	case DAT_HANDLE_TYPE_RSP:
		return dat_rsp_free(handle);
	case DAT_HANDLE_TYPE_CNO:
		return dat_cno_free(handle);
	case DAT_HANDLE_TYPE_SRQ:
		return dat_srq_free(handle);
#if DAT_EDITION == 2
	case DAT_HANDLE_TYPE_CSP:
		return dat_csp_free(handle);
#endif
	default:
		ck_abort_msg("handle type %d", type);
	}
}

static void free_kept(void)
{
	DAT_HANDLE_TYPE type;

	while (n_kept) {
		DAT_HANDLE handle = kept[--n_kept];

		if (dat_get_handle_type(handle, &type) == DAT_SUCCESS)
			ck_dat(object_free(handle, type));
	}
}

static void message_passes(const struct side *from, const struct side *to)
{
	post_recv(to->ep, 0xaaaa, segment(to, 0, 8));
	post_send(from->ep, 0xbbbb, segment(from, 8, 8), DAT_COMPLETION_DEFAULT_FLAG);
	expect_recv_done(to, 0xaaaa, 8);
	expect_request_done(from, 0xbbbb, 8);
}

/* A device may tell of an endpoint that a row has broken, beside the event of its connection. */
static void take_broken(DAT_EVD_HANDLE async_evd)
{
	DAT_EVENT event;
	DAT_RETURN ret;

	while ((ret = dat_evd_dequeue(async_evd, &event)) == DAT_SUCCESS)
		ck_assert_int_eq(event.event_number, DAT_ASYNC_ERROR_EP_BROKEN);
	ck_dat_is(ret, DAT_QUEUE_EMPTY);
}

static void check_side(const struct side *side)
{
	take_broken(side->async_evd);
	expect_no_event(side->connect_evd);
	expect_no_event(side->cr_evd);
	expect_no_event(side->recv_evd);
	expect_no_event(side->request_evd);
	ck_assert_int_eq(ep_get_state(side->ep), DAT_EP_STATE_CONNECTED);
}

/* The row has left nothing, and the connection still works. */
static void stage_check(void)
{
	test_file = "after the row";
	ck_assert_msg(unwritten == UNWRITTEN && unwritten_count == UNWRITTEN_COUNT,
		      "an output was written");
	free_kept();
	check_side(here);
	check_side(there);
	message_passes(here, there);
	message_passes(there, here);
}

static void run_row(int i)
{
	const struct row *row = row_at(i);
	uint32_t got;

	stage_open();
	is_clean = false;
	unwritten = UNWRITTEN;
	unwritten_count = UNWRITTEN_COUNT;
	got = row->run();
	if (got != row_want(row))
		_ck_assert_failed(row->file, row->line, "Failed", "%s, %s: %s, not %s", row->call,
				  row->when, value_text(row->kind, got),
				  value_text(row->kind, row_want(row)));
	stage_check();
	is_clean = true;
}

/* This runs after the rows. */
START_TEST(rows_leave_nothing_behind)
{
	stage_open();
	if (foreign.ia)
		side_close(&foreign);
	pair_close(&stage);
	is_open = false;
}
END_TEST

/* ---- the log ---- */

static bool is_refusal(const struct row *row)
{
	switch (DAT_GET_TYPE(row_want(row))) {
	case DAT_SUCCESS:
	case DAT_QUEUE_EMPTY:
	case DAT_TIMEOUT_EXPIRED:
		return false;
	default:
		/* it names results for those who write such lines */
		return row->kind == ROW_RETURN && strcmp(row->call, "dat_strerror") != 0;
	}
}

/* Returns what was written to @log since it was emptied last, and empties it. */
static char *taken_log(FILE *log)
{
	static char text[1 << 16];
	ssize_t length = pread(fileno(log), text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	ck_assert_int_eq(ftruncate(fileno(log), 0), 0);
	ck_assert_int_eq(lseek(fileno(log), 0, SEEK_SET), 0);
	return text;
}

/*
 * Tells whether a line of @text has the call and the result; an IA is opened by macros of another
 * name, and operations of extensions have the names of their macros.
 */
static bool has_line_of(char *text, const struct row *row)
{
	const char *type = "?", *subtype = "?";
	size_t length = strlen(row->call);

	(void)dat_strerror(row_want(row), &type, &subtype);
	if (!strcmp(row->call, "dat_ia_openv"))
		length--;
	if (!strcmp(row->call, "dat_extension_op"))
		length = strlen("dat_");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *call = memmem(line, strlen(line), row->call, length);

		if (!call && !strcmp(row->call, "dat_extension_op"))
			call = strstr(line, "dat_ib_"); /* that of the operation */
		if (call && strstr(call, type) && strstr(call, subtype))
			return true;
	}
	return false;
}

static void run_row_logged(int i, FILE *log)
{
	const struct row *row = row_at(i);
	const int errors = dup(STDERR_FILENO);

	ck_assert_int_ge(errors, 0);
	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	(void)taken_log(log);
	run_row(i);
	ck_assert_int_ge(dup2(errors, STDERR_FILENO), 0);
	close(errors);
	ck_assert_msg(has_line_of(taken_log(log), row), "%s:%d: %s, %s: no line of the log",
		      row->file, row->line, row->call, row->when);
}

/*
 * Each row whose call fails: what is asked for are all lines. The rows have run before, and a guest
 * takes minutes for them; there it is the first such row of each call.
 */
START_TEST(each_refusal_is_logged)
{
	const bool all = !in_guest();
	const char *logged = "";
	FILE *log = tmpfile();
	int i = 0;

	ck_assert_ptr_nonnull(log);
	setenv("DAPL_DBG_TYPE", "0xff", 1);
	setenv("DAT_DBG_TYPE", "0xff", 1);
	for (const struct row *row = rows; row; row = row->next, i++)
		if (is_refusal(row) && !device_lack(row->needs | row->chapter_needs) &&
		    (all || strcmp(row->call, logged))) {
			run_row_logged(i, log);
			logged = row->call;
		}
	stage_close_abrupt();
	fclose(log);
}
END_TEST

void add_log_cases(TCase *cases)
{
	tcase_add_test(cases, each_refusal_is_logged);
}

void add_sheet_cases(TCase *cases)
{
	int i = 0;

	case_share_process(cases);
	for (const struct row *row = rows; row; row = row->next, i++) {
		TTest *test = malloc(sizeof(*test));
		char *name = NULL, want[100];

		want_text(row, want);
		if (!test || asprintf(&name, "%s -> %s", row->when, want) < 0)
			abort();
		*test = (TTest){ row->call, run_row, row->file, row->line };
		case_add_named(cases, test, name, i, device_lack(row->needs | row->chapter_needs));
		free(name);
	}
	tcase_add_test(cases, rows_leave_nothing_behind);
}

/* ---- handles that a call must refuse ---- */

static struct side *foreign_side(void)
{
	if (!foreign.ia)
		side_open(&foreign, CLIENT);
	return &foreign;
}

DAT_HANDLE foreign_handle(enum handle_kind kind)
{
	const struct side *side = foreign_side();
	DAT_CNO_HANDLE cno;

	switch (kind) {
	case HANDLE_IA:
		return side->ia;
	case HANDLE_EP:
		return side->ep;
	case HANDLE_LMR:
		return side->lmr;
	case HANDLE_PZ:
		return side->pz;
	case HANDLE_CNO:
		ck_dat(dat_cno_create(side->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
		return keep(cno);
	default:
		ck_abort_msg("no foreign handle of kind %d", kind);
	}
}

DAT_EVD_HANDLE foreign_evd(DAT_EVD_FLAGS flags)
{
	return keep(side_create_evd(foreign_side(), 8, flags));
}

static DAT_HANDLE new_handle(enum handle_kind kind)
{
	DAT_LMR_CONTEXT context;
	DAT_CONN_QUAL qual;
	struct side side;

	switch (kind) {
	case HANDLE_IA:
		side_open_ia(&side, here->name, false);
		return keep(side.ia);
	case HANDLE_EP:
		return new_ep(NULL);
	case HANDLE_LMR:
		return new_lmr(LOCAL, &context);
	case HANDLE_RMR:
		return new_rmr();
	case HANDLE_PZ:
		return new_pz();
	case HANDLE_PSP:
		return new_psp(&qual);
	case HANDLE_RSP:
		return new_rsp(&qual, NULL);
	case HANDLE_CR:
		return new_cr();
	case HANDLE_CNO:
		return new_cno();
	case HANDLE_EVD:
		return new_evd(8, DAT_EVD_DTO_FLAG);
	case HANDLE_SRQ:
		return new_srq(8);
#if DAT_EDITION == 2
	case HANDLE_CSP:
		return new_csp(&(struct sockaddr_in){ 0 });
#endif
	}
	ck_abort_msg("no handle of kind %d", kind);
}

DAT_HANDLE freed_handle(enum handle_kind kind)
{
	DAT_HANDLE handle = new_handle(kind);
	DAT_HANDLE_TYPE type;

	ck_dat(dat_get_handle_type(handle, &type));
	ck_dat(object_free(handle, type));
	return handle;
}

/* The names of enum handle_kind. */
static const char *const handle_kinds[] = {
	[HANDLE_IA] = "an IA",
	[HANDLE_EP] = "an endpoint",
	[HANDLE_LMR] = "a region",
	[HANDLE_RMR] = "a window",
	[HANDLE_PZ] = "a zone",
	[HANDLE_PSP] = "a service point",
	[HANDLE_RSP] = "a reserved service point",
	[HANDLE_CR] = "a request",
	[HANDLE_CNO] = "a CNO",
	[HANDLE_EVD] = "an EVD",
#if DAT_EDITION == 2
	[HANDLE_CSP] = "a common service point",
#endif
	[HANDLE_SRQ] = "a shared receive queue",
};

static DAT_RETURN of_handle(DAT_RETURN (*call)(DAT_HANDLE), DAT_HANDLE handle, const char *kind,
			    DAT_RETURN want)
{
	DAT_RETURN ret = call(handle);

	if (ret != want)
		printf("# with %s, %p: %s\n", kind, handle, status_text(ret));
	return ret;
}

/* A call of an IA is not given those that are open. */
DAT_RETURN each_small_handle(DAT_RETURN (*call)(DAT_HANDLE), enum handle_kind kind, DAT_RETURN want)
{
	static const uintptr_t small[] = { 1, 2, 3, 8, 64, 1000, 2048, 4088, 4095 };
	const uintptr_t ia = (uintptr_t)here->ia;
	DAT_RETURN ret = want;

	if (kind != HANDLE_IA)
		ret = of_handle(call, here->ia, "the number of an IA", want);
	for (size_t i = 0; ret == want && i < COUNT(small); i++)
		if (kind != HANDLE_IA || small[i] > ia + 8)
			ret = of_handle(call, (DAT_HANDLE)small[i], "a small number", want);
	return ret;
}

DAT_RETURN each_other_handle(DAT_RETURN (*call)(DAT_HANDLE), enum handle_kind kind, DAT_RETURN want)
{
	const unsigned last = HANDLE_SRQ - (device_lack(NEEDS_SRQ) ? 1 : 0);
	DAT_RETURN ret = want;

	for (unsigned other = 0; ret == want && other <= last; other++)
		if (other != (unsigned)kind)
			ret = of_handle(call, new_handle((enum handle_kind)other),
					handle_kinds[other], want);
	return ret;
}

/* ---- objects of a row ---- */

DAT_EVD_HANDLE new_evd(DAT_COUNT qlen, DAT_EVD_FLAGS flags)
{
	return keep(side_create_evd(here, qlen, flags));
}

DAT_CNO_HANDLE new_cno(void)
{
	DAT_CNO_HANDLE cno;

	ck_dat(dat_cno_create(here->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	return keep(cno);
}

DAT_PZ_HANDLE new_pz(void)
{
	DAT_PZ_HANDLE pz;

	ck_dat(dat_pz_create(here->ia, &pz));
	return keep(pz);
}

DAT_LMR_HANDLE new_lmr_in(DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv, DAT_LMR_CONTEXT *context)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = here->memory };
	DAT_LMR_HANDLE lmr;

	ck_dat(LMR_CREATE(here->ia, DAT_MEM_TYPE_VIRTUAL, what, here->size, pz, priv, &lmr, context,
			  NULL, NULL, NULL));
	return keep(lmr);
}

DAT_LMR_HANDLE new_lmr(DAT_MEM_PRIV_FLAGS priv, DAT_LMR_CONTEXT *context)
{
	return new_lmr_in(here->pz, priv, context);
}

DAT_RMR_HANDLE new_rmr(void)
{
	DAT_RMR_HANDLE rmr;

	ck_dat(dat_rmr_create(here->pz, &rmr));
	return keep(rmr);
}

DAT_PSP_HANDLE new_psp(DAT_CONN_QUAL *qual)
{
	return keep(listen_any(there, qual));
}

DAT_RSP_HANDLE new_rsp(DAT_CONN_QUAL *qual, struct pair **pair)
{
	struct pair *new = new_pair(NULL);
	DAT_RSP_HANDLE rsp;

	*qual = free_qual(there); /* there is no dat_rsp_create_any */
	ck_dat(dat_rsp_create(there->ia, *qual, new->server.ep, new->server.cr_evd, &rsp));
	if (pair)
		*pair = new;
	return keep(rsp);
}

#if DAT_EDITION == 2
DAT_CSP_HANDLE new_csp(struct sockaddr_in *address)
{
	DAT_COMM comm = { .domain = AF_INET, .type = SOCK_STREAM };
	DAT_CSP_HANDLE csp;

	*address = there->address;
	address->sin_port = htons((uint16_t)free_qual(there));
	ck_dat(dat_csp_create(there->ia, &comm, (DAT_IA_ADDRESS_PTR)address, there->cr_evd, &csp));
	return keep(csp);
}
#endif

DAT_SRQ_HANDLE new_srq(DAT_COUNT dtos)
{
	DAT_SRQ_ATTR attr = { .max_recv_dtos = dtos, .max_recv_iov = 2 };
	DAT_SRQ_HANDLE srq;

	ck_dat(dat_srq_create(here->ia, here->pz, &attr, &srq));
	return keep(srq);
}

/* ---- pairs of a row ---- */

static void new_side(struct side *side, const struct side *of, const DAT_EP_ATTR *attr)
{
	memcpy(side, of, sizeof(*side)); /* provider has constant members */
	side->recv_evd = keep(side_create_evd(side, 64, DAT_EVD_DTO_FLAG));
	side->request_evd = keep(
		side_create_evd(side, 64, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG));
	side->connect_evd = keep(side_create_evd(side, 8, DAT_EVD_CONNECTION_FLAG));
	side->cr_evd = keep(side_create_evd(side, 8, DAT_EVD_CR_FLAG));
	side->ep = keep(side_create_ep(side, attr));
}

DAT_EP_HANDLE new_ep(const DAT_EP_ATTR *attr)
{
	struct side side;

	new_side(&side, here, attr);
	return side.ep;
}

struct pair *new_pair(const DAT_EP_ATTR *attr)
{
	static struct pair pairs[8];
	static unsigned next;
	struct pair *pair = &pairs[next++ % COUNT(pairs)];

	new_side(&pair->client, here, attr);
	new_side(&pair->server, there, attr);
	return pair;
}

struct pair *new_connection(const DAT_EP_ATTR *attr)
{
	struct pair *pair = new_pair(attr);

	pair_connect(pair);
	return pair;
}

struct pair *new_disconnected_with(const DAT_EP_ATTR *attr)
{
	struct pair *pair = new_connection(attr);

	pair_disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
	return pair;
}

struct pair *new_disconnected(void)
{
	return new_disconnected_with(NULL);
}

struct pair *new_request(DAT_CR_HANDLE *cr)
{
	struct pair *pair = new_pair(NULL);
	DAT_CONN_QUAL qual;
	DAT_CR_HANDLE request;

	keep(listen_any(&pair->server, &qual));
	ck_dat(try_connect(pair->client.ep, there, qual, TIME_LIMIT));
	request = keep(expect_cr(&pair->server));
	if (cr)
		*cr = request;
	return pair;
}

DAT_CR_HANDLE new_cr(void)
{
	DAT_CR_HANDLE cr;

	new_request(&cr);
	return cr;
}

/* ---- events ---- */

void post_software_events(DAT_EVD_HANDLE evd, unsigned n)
{
	const DAT_EVENT event = { .event_number = DAT_SOFTWARE_EVENT };

	while (n--)
		ck_dat(dat_evd_post_se(evd, &event));
}

DAT_DTO_COMPLETION_STATUS completion_of(DAT_EVD_HANDLE evd, uint64_t cookie)
{
	const DAT_DTO_COMPLETION_EVENT_DATA dto =
		expect_event(evd, DAT_DTO_COMPLETION_EVENT).event_data.dto_completion_event_data;

	ck_assert_uint_eq(dto.user_cookie.as_64, cookie);
	return dto.status;
}

DAT_EVENT_NUMBER event_of(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	ck_dat(dat_evd_wait(evd, TIME_LIMIT, 1, &event, &nmore));
	return event.event_number;
}
