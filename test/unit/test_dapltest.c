/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dapltest without a device: its command line, its messages, and its modes on the fake provider,
 * where server and client are two threads of one process.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "dapltest/dapltest.h"
#include "registry_test.h"

/* What is typed, or told, in words of an edition of DAT. */
#if DAT_EDITION == 2
#define PORT		 62000
#define PORT_TEXT	 "62000"
#define DEFAULT_IA	 "ofa-v2-ib0"
#define PROGRAM		 "dapltest2"
#define FAKE_PROVIDER	 FAKE_FOLDER "/libfakedat2.so"
#define LONGEST		 "1073741824 3" /* segments of 1 GiB each */
#define LONGEST_SEGMENTS 3
#define NEEDED		 "322122" /* bytes of 10000 such transfers; the first digits */
#define OF_VA		 DAT_VA_TYPE va,
#define VA		 va,
#else
#define PORT	      45278
#define PORT_TEXT     "45278"
#define DEFAULT_IA    "OpenIB-cma"
#define PROGRAM	      "dapltest"
#define FAKE_PROVIDER FAKE_FOLDER "/libfakedat.so"
#define OF_VA
#define VA
#endif

#if DAT_EDITION == 1 && SIZE_MAX > UINT32_MAX
#define LONGEST		 "1073741824 256"
#define LONGEST_SEGMENTS 256
#define NEEDED		 "274877"
#elif DAT_EDITION == 1 /* a transfer is shorter than 2 GiB */
#define LONGEST		 "1073741824 1"
#define LONGEST_SEGMENTS 1
#define NEEDED		 "10737"
#endif

static const char conf[] = LINE("fake", API_VERSION, FAKE_PROVIDER, "fake0 0");

#define FAKE_ADDRESS "10.66.0.1"

/* ---- calls that fail ---- */

/* The n-th of the calls below fails from now on, once; 0: none. */
static atomic_int fail_nth;
static atomic_bool failed_call;

/* Its calls do not count: if it can't serve a client, the client's next attempt succeeds. */
static _Atomic pthread_t first_thread_of_server;

static bool call_fails(void)
{
	if (pthread_equal(pthread_self(), atomic_load(&first_thread_of_server)))
		return false;
	if (atomic_load(&fail_nth) == 0 || atomic_fetch_sub(&fail_nth, 1) != 1)
		return false;
	atomic_store(&failed_call, true);
	return true;
}

#define FAILURE ((DAT_RETURN)(DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_MEMORY))

/* clang-format off */
#define WRAP(call, parameters, arguments)				\
	DAT_RETURN __real_##call parameters;				\
	DAT_RETURN __wrap_##call parameters;				\
	DAT_RETURN __wrap_##call parameters				\
	{								\
		return call_fails() ? FAILURE : __real_##call arguments;\
	}
/* clang-format on */

WRAP(dat_ia_query,
     (DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask, DAT_IA_ATTR *attr,
      DAT_PROVIDER_ATTR_MASK mask, DAT_PROVIDER_ATTR *provider),
     (ia, async_evd, ia_mask, attr, mask, provider))
WRAP(dat_pz_create, (DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz), (ia, pz))
WRAP(dat_cno_create, (DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *cno),
     (ia, agent, cno))
WRAP(dat_evd_create,
     (DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,
      DAT_EVD_HANDLE *evd),
     (ia, qlen, cno, flags, evd))
WRAP(dat_ep_create,
     (DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,
      DAT_EVD_HANDLE connect_evd, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep),
     (ia, pz, recv_evd, request_evd, connect_evd, attr, ep))
WRAP(dat_lmr_create,
     (DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
      DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv, OF_VA DAT_LMR_HANDLE *lmr,
      DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *size,
      DAT_VADDR *address),
     (ia, type, region, length, pz, priv, VA lmr, lmr_context, rmr_context, size, address))
WRAP(dat_psp_create,
     (DAT_IA_HANDLE ia, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags,
      DAT_PSP_HANDLE *psp),
     (ia, qualifier, evd, flags, psp))
WRAP(dat_rsp_create,
     (DAT_IA_HANDLE ia, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd,
      DAT_RSP_HANDLE *rsp),
     (ia, qualifier, ep, evd, rsp))
WRAP(dat_ep_connect,
     (DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qualifier, DAT_TIMEOUT timeout,
      DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos, DAT_CONNECT_FLAGS flags),
     (ep, address, qualifier, timeout, size, data, qos, flags))
WRAP(dat_cr_query, (DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param),
     (cr, mask, param))
WRAP(dat_cr_accept, (DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT size, const DAT_PVOID data),
     (cr, ep, size, data))
WRAP(dat_ep_post_send,
     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
      DAT_COMPLETION_FLAGS flags),
     (ep, count, iov, cookie, flags))
WRAP(dat_ep_post_recv,
     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
      DAT_COMPLETION_FLAGS flags),
     (ep, count, iov, cookie, flags))
WRAP(dat_ep_post_rdma_read,
     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
      const DAT_RMR_TRIPLET *from, DAT_COMPLETION_FLAGS flags),
     (ep, count, iov, cookie, from, flags))
WRAP(dat_ep_post_rdma_write,
     (DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
      const DAT_RMR_TRIPLET *to, DAT_COMPLETION_FLAGS flags),
     (ep, count, iov, cookie, to, flags))

/* ---- what a server keeps of its clients ---- */

static atomic_uint controls;	   /* control connections of both sides */
static atomic_uint threads_joined; /* by the server's first thread */
static atomic_bool without_pause;  /* it does not find that no client comes for a moment */

int __real_control_create(struct control *control, const struct adapter *adapter,
			  const struct patience *patience, const char *name, DAT_QOS qos);
int __wrap_control_create(struct control *control, const struct adapter *adapter,
			  const struct patience *patience, const char *name, DAT_QOS qos);
int __wrap_control_create(struct control *control, const struct adapter *adapter,
			  const struct patience *patience, const char *name, DAT_QOS qos)
{
	int result = __real_control_create(control, adapter, patience, name, qos);

	if (result == 0)
		atomic_fetch_add(&controls, 1);
	return result;
}

int __real_control_free(struct control *control);
int __wrap_control_free(struct control *control);
int __wrap_control_free(struct control *control)
{
	int result = __real_control_free(control);

	atomic_fetch_sub(&controls, 1);
	return result;
}

int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
	if (pthread_equal(pthread_self(), atomic_load(&first_thread_of_server)))
		atomic_fetch_add(&threads_joined, 1);
	return __real_pthread_join(thread, result);
}

enum wait_result __real_event_wait(const struct patience *patience, DAT_EVD_HANDLE evd,
				   DAT_TIMEOUT limit, DAT_EVENT *event, DAT_RETURN *ret);
enum wait_result __wrap_event_wait(const struct patience *patience, DAT_EVD_HANDLE evd,
				   DAT_TIMEOUT limit, DAT_EVENT *event, DAT_RETURN *ret);
enum wait_result __wrap_event_wait(const struct patience *patience, DAT_EVD_HANDLE evd,
				   DAT_TIMEOUT limit, DAT_EVENT *event, DAT_RETURN *ret)
{
	enum wait_result result;

	do
		result = __real_event_wait(patience, evd, limit, event, ret);
	while (result == WAIT_LATE && atomic_load(&without_pause) &&
	       pthread_equal(pthread_self(), atomic_load(&first_thread_of_server)));
	return result;
}

/* ---- what is wrong on purpose ---- */

static atomic_int corrupt_nth; /* of the patterns that are filled from now on */

void __real_pattern_fill(unsigned char *at, size_t size, unsigned seed);
void __wrap_pattern_fill(unsigned char *at, size_t size, unsigned seed);
void __wrap_pattern_fill(unsigned char *at, size_t size, unsigned seed)
{
	__real_pattern_fill(at, size, seed);
	if (atomic_load(&corrupt_nth) && atomic_fetch_sub(&corrupt_nth, 1) == 1)
		at[size - 1] ^= 1;
}

static atomic_bool wrong_invitations; /* the client sends */
static atomic_uint invited_to;	      /* the first port of the latest test */

void __real_invitation_encode(const struct invitation *invitation,
			      unsigned char bytes[INVITATION_BYTES]);
void __wrap_invitation_encode(const struct invitation *invitation,
			      unsigned char bytes[INVITATION_BYTES]);
void __wrap_invitation_encode(const struct invitation *invitation,
			      unsigned char bytes[INVITATION_BYTES])
{
	atomic_store(&invited_to, invitation->port);
	__real_invitation_encode(invitation, bytes);
	bytes[INVITATION_BYTES - 1] ^= wrong_invitations;
}

/*
 * The word of messages of this kind that is wrong, and its value; kind 0: none. A session of the
 * server may send a message while the next test of a client begins.
 */
static struct {
	atomic_uint kind, word;
	_Atomic uint32_t value;
} wrong_word;

static void word_put(unsigned char *bytes, unsigned word, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		bytes[4 * word + i] = (unsigned char)(value >> 8 * i);
}

static atomic_uint messages_sent[MESSAGE_RESULT + 1];

/*
 * The clock is ahead by so many microseconds, and by 10 more at each look, so that tests which take
 * no time last long enough for rates. Or it only counts the looks of a thread, so that they do not.
 */
static atomic_ulong clock_ahead;
static bool clock_counts;

/*
 * The clock still leaps so many times: with each answer to a ping, once the server waits for the
 * end of a performance test. Meanwhile the client posts nothing.
 */
static atomic_uint leaps;
static atomic_bool end_awaited;
enum { LEAPS = 4, LEAP = PEER_TIMEOUT / 3 }; /* microseconds, less than a peer is waited for */

static void clock_leap(void)
{
	if (atomic_load(&leaps) > 0 && atomic_load(&end_awaited)) {
		atomic_fetch_add(&clock_ahead, LEAP);
		atomic_fetch_sub(&leaps, 1);
	}
}

size_t __real_message_encode(const struct message *message, unsigned char bytes[MESSAGE_MAX]);
size_t __wrap_message_encode(const struct message *message, unsigned char bytes[MESSAGE_MAX]);
size_t __wrap_message_encode(const struct message *message, unsigned char bytes[MESSAGE_MAX])
{
	size_t size = __real_message_encode(message, bytes);

	atomic_fetch_add(&messages_sent[message->kind], 1);
	if (message->kind == MESSAGE_PONG)
		clock_leap();
	if (message->kind == wrong_word.kind)
		word_put(bytes, wrong_word.word, wrong_word.value);
	return size;
}

/* Each lane of a transaction test has done so many requests before, and leaves some. */
static uint64_t requests_before;
static atomic_bool requests_left;

int __real_transaction_prepare(struct lane *lane);
int __wrap_transaction_prepare(struct lane *lane);
int __wrap_transaction_prepare(struct lane *lane)
{
	lane->posted += requests_before;
	lane->reaped += requests_before;
	return __real_transaction_prepare(lane);
}

int __real_lane_receive_setup(struct lane *lane, DAT_TIMEOUT limit);
int __wrap_lane_receive_setup(struct lane *lane, DAT_TIMEOUT limit);
int __wrap_lane_receive_setup(struct lane *lane, DAT_TIMEOUT limit)
{
	if (lane->crew->test->server && lane->received > 0)
		atomic_store(&end_awaited, true);
	return __real_lane_receive_setup(lane, limit);
}

int __real_lane_post_operation(struct lane *lane, unsigned i);
int __wrap_lane_post_operation(struct lane *lane, unsigned i);
int __wrap_lane_post_operation(struct lane *lane, unsigned i)
{
	while (atomic_load(&leaps) > 0)
		sched_yield();
	return __real_lane_post_operation(lane, i);
}

int __real_lane_close(struct lane *lane);
int __wrap_lane_close(struct lane *lane);
int __wrap_lane_close(struct lane *lane)
{
	if (lane->reaped != lane->posted)
		atomic_store(&requests_left, true);
	return __real_lane_close(lane);
}

double __real_tool_usec_now(void);
double __wrap_tool_usec_now(void);
double __wrap_tool_usec_now(void)
{
	static _Thread_local unsigned looks;

	if (clock_counts)
		return looks++;
	return __real_tool_usec_now() + (double)atomic_fetch_add(&clock_ahead, 10);
}

/* ---- running it ---- */

enum { WORDS_MAX = 32 };

static char *argument_vector[WORDS_MAX];

/* The words of @text, which is changed, as the arguments of main. */
static int arguments_of(char *text)
{
	int count = 1;

	argument_vector[0] = (char *)"dapltest";
	for (char *word; (word = strtok_r(text, " ", &text)); count++) {
		ck_assert_int_lt(count, WORDS_MAX - 1);
		argument_vector[count] = word;
	}
	argument_vector[count] = NULL;
	return count;
}

/* The options point into the words: all commands stay. */
static struct kept_command {
	struct kept_command *next;
	char text[256];
} * commands;

static int parse(struct options *options, const char *command)
{
	struct kept_command *kept = calloc(1, sizeof(*kept));

	ck_assert_ptr_nonnull(kept);
	ck_assert_uint_lt(strlen(command), sizeof(kept->text));
	strcpy(kept->text, command);
	kept->next = commands;
	commands = kept;
	return options_parse(options, arguments_of(kept->text), argument_vector);
}

static int run(const char *command)
{
	struct options options;

	ck_assert_int_eq(parse(&options, command), 0);
	return mode_run(&options);
}

static char output[32]; /* the file of standard output and standard error */

static void capture(void)
{
	int fd = scratch_file(output);

	fflush(stdout);
	ck_assert_int_eq(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
	ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
}

/* How many lines of the output have these words. */
static unsigned lines_with(const char *words)
{
	FILE *file = fopen(output, "r"); /* with an offset of its own: threads may write */
	char *line = NULL;
	size_t room = 0;
	unsigned count = 0;

	ck_assert_ptr_nonnull(file);
	while (getline(&line, &room, file) > 0)
		count += strstr(line, words) != NULL;
	free(line);
	fclose(file);
	return count;
}

static void expect_line(const char *words)
{
	ck_assert_msg(lines_with(words) > 0, "no line has: %s", words);
}

/* ---- the command line ---- */

static const char *const good_commands[] = {
	"",
	"-T S",
	"-T S -D fake -n 0 -d -R BE",
	"-TS -n 1",
	"-T Q -s host",
	"-T T -s host client SR server SR",
	"-T T -s host client SR 256 server rw 4096 2 server SR 256 1",
	"-T T -s host -i 1 -t 4 -w 8 -V -P -Q -r -R HT client SR -f server SR -f",
	"-T P -s host RW",
	("-T P -s host -m p -i 5 -p 16 RR " LONGEST),
	"-T L",
	"-T L -w 4 -m 7 limit_ia limit_size_lmr",
	"-T F -f mem",
	"-T F -f queryinfo -s host -i x -t y -v z case0 case17",
};

START_TEST(command_is_understood)
{
	struct options options;

	ck_assert_int_eq(parse(&options, good_commands[_i]), 0);
}
END_TEST

static const struct {
	const char *command, *message;
} bad_commands[] = {
	{ "-D fake", "the first option is -T" },
	{ "-T", "the modes are" },
	{ "-T X", "the modes are" },
	{ "-T SS", "the modes are" },
	{ "-T S -Z", "-Z: not an option of -T S" },
	{ "-T S -s host", "-s: not an option of -T S" },
	{ "-T S -n", "-n: lacks its value" },
	{ "-T S -n 4294967296", "not a number from 0" },
	{ "-T S word", "no operands" },
	{ "-T Q", "-s HOST" },
	{ "-T Q -s host -n 0", "not a number from 1" },
	{ "-T Q -s host word", "no operands" },
	{ "-T T client SR server SR", "-s HOST" },
	{ "-T T -s host", "a client SR and a server SR" },
	{ "-T T -s host client SR", "a client SR and a server SR" },
	{ "-T T -s host -i 0 client SR server SR", "-i 0: not a number" },
	{ "-T T -s host -t 1001 client SR server SR", "-t 1001: not a number" },
	{ "-T T -s host -t 1000 -w 11 client SR server SR", "more than 10000" },
	{ "-T T -s host both SR", "client or server" },
	{ "-T T -s host client", "SR, RW or RR" },
	{ "-T T -s host client XX", "SR, RW or RR" },
	{ "-T T -s host client SR 0", "not a segment size" },
	{ "-T T -s host client SR 1073741825", "not a segment size" },
	{ "-T T -s host client SR 1k", "not a segment size" },
	{ "-T T -s host client SR 1 257", "not a number of segments" },
	{ "-T T -s host client SR 1 1 1", "client or server" },
	{ "-T T -s host client RW -f", "only SR has it" },
	{ "-T T -s host client SR server SR -f", "must follow each other" },
	{ "-T T -s host client SR -f server SR", "must follow each other" },
	{ "-T T -s host client SR -f client SR -f server SR", "must follow each other" },
	{ "-T T -s host client SR server SR -P", "client or server" },
	{ "-T P -s host", "SR, RW or RR" },
	{ "-T P -s host SR", "SR is no operation" },
	{ "-T P -s host client RW", "SR, RW or RR" },
	{ "-T P -s host RW 1 1 RW", "one operation" },
	{ "-T P -s host -p 0 RW", "-p 0: not a number from 1 to 1000000" },
	{ "-T P -s host -p 1000001 RW", "-p 1000001: not a number from 1 to 1000000" },
	{ "-T P -s host -m x RW", "neither b nor p" },
	{ "-T L -m 0", "-m 0: not a number" },
	{ "-T L -m 2147483648", "not a number from 1 to 2147483647" },
	{ "-T L -w none", "-w none: not a number" },
	{ "-T L limit_all", "not a limit test" },
	{ "-T F", "-f FAMILY" },
	{ "-T F -f cqmgt", "the families are" },
	{ "-T F -f pz case3", "case0 to case2" },
	{ "-T F -f pz 0", "case0 to case2" },
};

START_TEST(wrong_command_is_refused_with_the_reason)
{
	struct options options;

	capture();
	ck_assert_int_eq(parse(&options, bad_commands[_i].command), -1);
	expect_line(bad_commands[_i].message);
	ck_assert_uint_eq(lines_with(""), 1);
}
END_TEST

/* An operation may be one quoted argument, or all of them may. */
START_TEST(more_operations_than_fit_are_refused)
{
	for (unsigned sends = OPS_MAX - 1; sends <= OPS_MAX; sends++) {
		char text[OPS_MAX * sizeof("client SR")] = "client SR";
		char *arguments[] = { (char *)"dapltest",  (char *)"-T", (char *)"T",
				      (char *)"-s",	   (char *)"h",	 text,
				      (char *)"server SR", NULL };
		struct options options;

		for (unsigned i = 1; i < sends; i++)
			strcat(text, " client SR");
		ck_assert_int_eq(options_parse(&options, 7, arguments), sends < OPS_MAX ? 0 : -1);
	}
}
END_TEST

START_TEST(defaults_are_those_that_people_know)
{
	struct options options;

	ck_assert_int_eq(parse(&options, ""), 0);
	ck_assert_int_eq(options.mode, MODE_SERVER);
	ck_assert_str_eq(options.ia_name, DEFAULT_IA);
	ck_assert_uint_eq(options.port, PORT);
	ck_assert_int_eq(parse(&options, "-T T -s h client SR server RR 10 3 server SR"), 0);
	ck_assert_uint_eq(options.plan.iterations, 1000);
	ck_assert_uint_eq(options.plan.threads, 1);
	ck_assert_uint_eq(options.plan.lanes, 1);
	ck_assert_uint_eq(options.plan.ops[0].segment_size, 4096);
	ck_assert_uint_eq(options.plan.ops[0].segments, 1);
	ck_assert_uint_eq(options.plan.ops[1].segment_size, 10);
	ck_assert_uint_eq(options.plan.ops[1].segments, 3);
	ck_assert(options.plan.ops[1].by_server);
	ck_assert_int_eq(options.plan.ops[1].transfer, TRANSFER_READ);
	ck_assert_int_eq(parse(&options, "-T L"), 0);
	ck_assert_uint_eq(options.max, 1000);
	ck_assert_uint_eq(options.width, 1);
}
END_TEST

START_TEST(validation_adds_three_sends)
{
	struct options options;

	capture();
	ck_assert_int_eq(parse(&options, "-T T -s h -V client SR server SR"), 0);
	ck_assert_uint_eq(options.plan.op_count, 5);
	ck_assert(options.plan.ops[2].by_server && !options.plan.ops[3].by_server &&
		  options.plan.ops[4].by_server);
	ck_assert_uint_eq(lines_with("NOTE: Adding OP"), 3);
}
END_TEST

START_TEST(arguments_come_from_a_file)
{
	static const char text[] = "# a comment\n-T T\t-s host # -Z\r\n\n client SR 5#x\nserver SR";
	static const char *const words[] = { "p",      "-T", "T",   "-s",     "host",
					     "client", "SR", "5#x", "server", "SR" };
	struct argument_file file;
	char path[32];
	int fd = scratch_file(path);

	ck_assert_int_eq(write(fd, text, sizeof(text) - 1), (int)sizeof(text) - 1);
	ck_assert_int_eq(argument_file_read(&file, path, (char *)"p"), 0);
	ck_assert_int_eq(file.argc, COUNT(words));
	for (int i = 0; i < file.argc; i++)
		ck_assert_str_eq(file.argv[i], words[i]);
	ck_assert_ptr_null(file.argv[file.argc]);
	argument_file_free(&file);
	capture();
	ck_assert_int_eq(argument_file_read(&file, "/nonexistent", (char *)"p"), -1);
	expect_line("/nonexistent: No such file");
}
END_TEST

/* It would start a server, or do half of what the file has. */
START_TEST(file_without_arguments_is_refused)
{
	static const struct {
		const char *text;
		size_t size;
		const char *why;
	} files[] = {
		{ "", 0, "has no arguments; a server is -T S" },
		{ " \n# -T L\n", 9, "has no arguments; a server is -T S" },
		{ "\0", 1, "has a NUL, so it is no file of arguments" },
		{ "-T L\0-m 1", 9, "has a NUL, so it is no file of arguments" },
	};

	capture();
	for (int i = 0; i < COUNT(files); i++) {
		struct argument_file file;
		char path[32], line[128];
		int fd = scratch_file(path);

		ck_assert_int_eq(write(fd, files[i].text, files[i].size), (int)files[i].size);
		ck_assert_int_eq(argument_file_read(&file, path, (char *)"p"), -1);
		snprintf(line, sizeof(line), PROGRAM ": %s: %s", path, files[i].why);
		expect_line(line);
	}
}
END_TEST

/* ---- messages ---- */

START_TEST(plan_survives_the_wire)
{
	struct message sent = { .kind = MESSAGE_PLAN }, got;
	unsigned char bytes[MESSAGE_MAX];
	char problem[PROBLEM_TEXT];
	struct options options;
	size_t size;

	ck_assert_int_eq(parse(&options, "-T T -s h -i 7 -t 3 -w 2 -P -r -R LL client SR 5 2 -f "
					 "server SR -f client RR"),
			 0);
	sent.plan = options.plan;
	size = message_encode(&sent, bytes);
	ck_assert_int_eq(message_decode(&got, bytes, size, problem), CODE_GOOD);
	ck_assert_mem_eq(&got.plan, &sent.plan, sizeof(sent.plan));
	for (size_t cut = 0; cut < size; cut++)
		ck_assert_int_ne(message_decode(&got, bytes, cut, problem), CODE_GOOD);
	ck_assert_int_eq(message_decode(&got, bytes, size + 1, problem), CODE_BAD);
	ck_assert_str_eq(problem, "not a message of dapltest");
}
END_TEST

/* Behind the message there is no memory. */
START_TEST(a_message_that_ends_early_is_read_up_to_its_end)
{
	struct message sent = { .kind = MESSAGE_RESULT }, got;
	unsigned char bytes[MESSAGE_MAX], *end;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char problem[PROBLEM_TEXT];
	size_t size = message_encode(&sent, bytes);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_uint_le(size, page);
	ck_assert_int_eq(mprotect(pages + page, page, PROT_NONE), 0);
	end = (unsigned char *)pages + page;
	for (size_t cut = 0; cut < size; cut++) {
		memcpy(end - cut, bytes, cut);
		ck_assert_int_ne(message_decode(&got, end - cut, cut, problem), CODE_GOOD);
	}
	munmap(pages, 2 * page);
}
END_TEST

START_TEST(a_result_survives_the_wire)
{
	const struct message sent = {
		.kind = MESSAGE_RESULT,
		.tally = { .requests = 1, .sent = 2, .received = 3, .written = 4, .read = 5 },
	};
	unsigned char bytes[MESSAGE_MAX];
	char problem[PROBLEM_TEXT];
	struct message got;
	size_t size = message_encode(&sent, bytes);

	ck_assert_int_eq(message_decode(&got, bytes, size, problem), CODE_GOOD);
	ck_assert_uint_eq(got.tally.requests, 1);
	ck_assert_uint_eq(got.tally.sent, 2);
	ck_assert_uint_eq(got.tally.received, 3);
	ck_assert_uint_eq(got.tally.written, 4);
	ck_assert_uint_eq(got.tally.read, 5);
}
END_TEST

START_TEST(largest_plan_fits_a_message)
{
	struct message sent = { .kind = MESSAGE_PLAN, .plan = { .op_count = OPS_MAX + BARRIERS } };
	unsigned char bytes[MESSAGE_MAX];

	ck_assert_uint_lt(message_encode(&sent, bytes), MESSAGE_MAX);
}
END_TEST

/* Version, byte order, kind, code and port come before the plan, one word each. */
enum { PLAN_WORD = 5 };

static size_t plan_of(const char *command, unsigned char bytes[MESSAGE_MAX])
{
	struct message message = { .kind = MESSAGE_PLAN };
	struct options options;

	ck_assert_int_eq(parse(&options, command), 0);
	message.plan = options.plan;
	return message_encode(&message, bytes);
}

static const struct {
	unsigned word;
	uint32_t value;
	enum message_code code;
	const char *problem;
} bad_words[] = {
	{ 0, 6, CODE_VERSION, "" },
	{ 0, 0, CODE_VERSION, "" },
	{ 1, 0x04030201, CODE_VERSION, "" },
	{ 2, 0, CODE_BAD, "the kind of a message is 0, not from 1 to 6" },
	{ 2, 7, CODE_BAD, "the kind of a message is 7, not from 1 to 6" },
	{ 3, 3, CODE_BAD, "the code of a message is 3, not from 0 to 2" },
	{ 4, 65536, CODE_BAD, "the port of a message is 65536, not from 0 to 65535" },
	/* operations that are there, or not */
	{ PLAN_WORD + PLAN_OP_COUNT, 1, CODE_BAD, "a client SR and a server SR" },
	{ PLAN_WORD + PLAN_OP_COUNT, 3, CODE_BAD, "the side of an operation is " },
};

START_TEST(message_with_a_wrong_word_is_refused)
{
	unsigned char bytes[MESSAGE_MAX] = { 0 };
	char problem[PROBLEM_TEXT];
	struct message got;
	size_t size = plan_of("-T T -s h client SR server SR", bytes);

	memset(bytes + size, 0xff, MESSAGE_MAX - size);
	word_put(bytes, bad_words[_i].word, bad_words[_i].value);
	ck_assert_int_eq(message_decode(&got, bytes, MESSAGE_MAX, problem), bad_words[_i].code);
	if (bad_words[_i].code == CODE_BAD)
		ck_assert_msg(strstr(problem, bad_words[_i].problem) != NULL, "%s", problem);
}
END_TEST

/* Of a plan with one operation; ranges that are not those of the code's table. */
static const struct {
	uint32_t min, max;
	const char *name;
} plan_words[] = {
	[PLAN_MODE] = { 1, 3, "the plan's mode" },
	[PLAN_ITERATIONS] = { 1, INT32_MAX, "the plan's number of iterations" },
	[PLAN_THREADS] = { 1, 1000, "the plan's number of threads" },
	[PLAN_LANES] = { 1, 10000, "the plan's number of endpoints" },
	[PLAN_VALIDATE] = { 0, 1, "the plan's word for -V" },
	[PLAN_POLL] = { 0, 1, "the plan's word for -P" },
	[PLAN_CNO] = { 0, 1, "the plan's word for -Q" },
	[PLAN_RSP] = { 0, 1, "the plan's word for -r" },
	[PLAN_PIPELINE] = { 0, 1000000, "the plan's pipeline" },
	[PLAN_QOS] = { 0, 8, "the plan's quality of service" },
	[PLAN_OP_COUNT] = { 0, 103, "the plan's number of operations" },
	[PLAN_BY_SERVER] = { 0, 1, "the side of an operation" },
	[PLAN_TRANSFER] = { 0, 2, "the kind of an operation" },
	[PLAN_SEGMENT_SIZE] = { 1, 1 << 30, "the segment size of an operation" },
	[PLAN_SEGMENTS] = { 1, 256, "the number of segments of an operation" },
	[PLAN_REAP_LATE] = { 0, 1, "the word for -f of an operation" },
};

/* Numbers without a sign that are 0, -1 and so on where a plan has a signed one. */
START_TEST(number_of_a_plan_beyond_its_range_is_named)
{
	const uint32_t min = plan_words[_i].min, max = plan_words[_i].max;
	const uint32_t values[] = { 0,	     (uint32_t)-1, INT32_MAX, (uint32_t)INT32_MIN,
				    min - 1, max + 1,	   min,	      max };
	unsigned char bytes[MESSAGE_MAX];
	char problem[PROBLEM_TEXT], wanted[PROBLEM_TEXT];
	struct message got;

	for (unsigned i = 0; i < COUNT(values); i++) {
		size_t size = plan_of("-T P -s h RW", bytes);
		enum message_code code;

		word_put(bytes, PLAN_WORD + (unsigned)_i, values[i]);
		code = message_decode(&got, bytes, size, problem);
		snprintf(wanted, sizeof(wanted), "%s is %u, not from %u to %u", plan_words[_i].name,
			 values[i], min, max);
		if (values[i] < min || values[i] > max) {
			ck_assert_int_eq(code, CODE_BAD);
			ck_assert_str_eq(problem, wanted);
		} else if (code == CODE_BAD) { /* it fits no other number of this plan */
			ck_assert_str_ne(problem, wanted);
		}
	}
}
END_TEST

/* Numbers of which each is in its range, but not all together. */
static const struct {
	const char *command;
	struct {
		unsigned number;
		uint32_t value;
	} words[2];
	const char *problem;
} bad_plans[] = {
	{ "-T T -s h client SR server SR",
	  { { PLAN_THREADS, 1000 }, { PLAN_LANES, 11 } },
	  "threads and endpoints make more endpoints" },
	{ "-T T -s h client SR server SR", { { PLAN_PIPELINE, 1 } }, "-T T has no pipeline" },
	{ "-T T -s h client SR server SR", { { PLAN_VALIDATE, 1 } }, "-V needs the three sends" },
	{ "-T T -s h client SR server SR client SR",
	  { { PLAN_VALIDATE, 1 } },
	  "-V needs the three sends" },
	{ "-T T -s h client SR server SR", { { PLAN_OP_COUNT, 0 } }, "a client SR and a server" },
	{ "-T T -s h client SR server SR", { { PLAN_BY_SERVER, 1 } }, "a client SR and a server" },
	{ "-T T -s h client SR server SR", { { PLAN_TRANSFER, 1 } }, "a client SR and a server" },
	{ "-T T -s h client SR server SR", { { PLAN_REAP_LATE, 1 } }, "must follow each other" },
	{ "-T T -s h server RW client SR server SR",
	  { { PLAN_REAP_LATE, 1 } },
	  "-f: only SR has it" },
	{ "-T T -s h client SR server SR", { { PLAN_MODE, MODE_QUIT } }, "-T Q has no operations" },
	{ "-T P -s h RW", { { PLAN_THREADS, 2 } }, "-T P has one endpoint" },
	{ "-T P -s h RW", { { PLAN_LANES, 2 } }, "-T P has one endpoint" },
	{ "-T T -s h client SR server SR",
	  { { PLAN_MODE, MODE_PERFORMANCE } },
	  "-T P has one operation" },
	{ "-T P -s h RW", { { PLAN_TRANSFER, 0 } }, "SR is no operation of -T P" },
	{ "-T P -s h RW", { { PLAN_BY_SERVER, 1 } }, "the client posts the operation of -T P" },
	{ "-T P -s h RW", { { PLAN_REAP_LATE, 1 } }, "the client posts the operation of -T P" },
	{ "-T P -s h RW", { { PLAN_MODE, MODE_TRANSACTION } }, "a client SR and a server SR" },
};

START_TEST(plan_that_no_command_makes_is_refused)
{
	unsigned char bytes[MESSAGE_MAX];
	char problem[PROBLEM_TEXT];
	struct message got;
	size_t size = plan_of(bad_plans[_i].command, bytes);

	ck_assert_int_eq(message_decode(&got, bytes, size, problem), CODE_GOOD);
	for (unsigned i = 0; i < 2; i++)
		if (bad_plans[_i].words[i].number || bad_plans[_i].words[i].value)
			word_put(bytes, PLAN_WORD + bad_plans[_i].words[i].number,
				 bad_plans[_i].words[i].value);
	ck_assert_int_eq(message_decode(&got, bytes, size, problem), CODE_BAD);
	ck_assert_msg(strstr(problem, bad_plans[_i].problem) != NULL, "%s", problem);
}
END_TEST

/*
 * A transfer of DAT 2.0 has at most 4294967295 bytes; those of DAT 1.2 have no such limit, but for
 * hosts of 32 bits, which address half of that at most.
 */
START_TEST(transfer_has_a_length_of_its_edition)
{
	static const char *const commands[] = {
		"-T T -s h client SR server SR server RW 1073741824 %d",
		"-T P -s h RW 1073741824 %d",
	};
	const bool limited = DAT_EDITION == 2 || SIZE_MAX == UINT32_MAX;
	struct options options;
	char command[128];

	snprintf(command, sizeof(command), commands[_i],
		 DAT_EDITION == 1 && SIZE_MAX == UINT32_MAX ? 1 : 3);
	ck_assert_int_eq(parse(&options, command), 0);
	ck_assert_ptr_null(plan_problem(&options.plan));
	options.plan.ops[options.plan.op_count - 1].segments = 4;
	snprintf(command, sizeof(command), commands[_i], 4);
	if (!limited) {
		ck_assert_ptr_null(plan_problem(&options.plan));
		ck_assert_int_eq(parse(&options, command), 0);
		return;
	}
	ck_assert_str_eq(plan_problem(&options.plan),
			 "an operation has more bytes than a transfer of DAT " TOOL_DAT
			 " can have");
	ck_assert_int_eq(parse(&options, command), -1);
}
END_TEST

START_TEST(invitation_to_another_lane_is_none)
{
	const struct invitation one = { .port = 1, .thread = 2, .lane = 3 };
	struct invitation other = one;
	unsigned char bytes[INVITATION_BYTES + 10] = { 0 };

	invitation_encode(&one, bytes);
	ck_assert(invitation_equals(&one, bytes, INVITATION_BYTES));
	ck_assert(invitation_equals(&one, bytes, sizeof(bytes))); /* padded */
	ck_assert(!invitation_equals(&one, bytes, INVITATION_BYTES - 1));
	ck_assert(!invitation_equals(&one, NULL, 0));
	other.lane = 4;
	ck_assert(!invitation_equals(&other, bytes, INVITATION_BYTES));
	bytes[0] ^= 1;
	ck_assert(!invitation_equals(&one, bytes, INVITATION_BYTES));
}
END_TEST

/* ---- the modes ---- */

static struct options server_options;

static void *server_thread(void *argument)
{
	(void)argument;
	return (void *)(intptr_t)server_run(&server_options);
}

static pthread_t server_start(const char *command)
{
	pthread_t thread;

	event_moment = event_moment < 2000 ? event_moment : 2000;
	retry_pause = 1000;
	use_conf(conf);
	capture();
	ck_assert_int_eq(parse(&server_options, command), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, server_thread, NULL), 0);
	while (lines_with("Service Point Ready - fake") == 0) {
		ck_assert_msg(pthread_tryjoin_np(thread, NULL) == EBUSY, "the server has ended");
		sched_yield();
	}
	return thread;
}

/* A session may outlive its client. Each ends with a line about "this client". */
static void server_wait_idle(void)
{
	while (lines_with(" this client") < lines_with("DT_cs_Client: Starting Test"))
		sched_yield();
}

static int server_join(pthread_t thread)
{
	void *result;

	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return (int)(intptr_t)result;
}

static char client_command[256];

/* @rest is what follows the common options. */
static int run_client(const char *mode, const char *rest)
{
	snprintf(client_command, sizeof(client_command), "-T %s -s " FAKE_ADDRESS " -D fake %s",
		 mode, rest);
	return run(client_command);
}

/* Ends the server, with these options. @want: 0, or -1 if a test of it has failed. */
static void server_quit(pthread_t server, const char *options, int want)
{
	ck_assert_int_eq(run_client("Q", options), 0);
	ck_assert_int_eq(server_join(server), want);
}

static const struct {
	const char *mode, *rest, *line;
} transfers[] = {
	{ "T", "-i 200 client SR 256 server RW 4096 server SR 256", "Total WQE" },
	{ "T", "-i 200 client SR 256 server RR 4096 server SR 256", "Total RDMA Read" },
	{ "T", "-i 200 -V client SR 100 2 server SR client RW 70000 server RR client RR server RW",
	  "Total RDMA Write" },
	{ "T", "-i 200 -V -P -t 3 -w 2 client SR server SR client RW", "3 threads, 2 EPs" },
	{ "T", "-i 200 -V -Q -t 2 -w 3 client SR server SR server RW", "2 threads, 3 EPs" },
	{ "T", "-i 200 -r -t 2 -w 2 client SR server SR", "2 threads, 2 EPs" },
	{ "T", "-i 200 client SR -f server SR -f client SR server SR", "Total Send" },
	{ "T", "-d -d -i 300 -V client SR server SR", "Total Recv" },
	{ "P", "-i 100 RW 4096 2", "raw: RW, 100, 4096, 2, " },
	{ "P", "-i 100 -m p -p 7 RR 10", "raw: RR, 100, 10, 1, 7, " },
	{ "P", "-i 100 -p 1000000 RR 10", "NOTE: the pipeline has " },
};

START_TEST(transfers_pass_at_both_sides)
{
	pthread_t server = server_start("-T S -D fake");

	ck_assert_int_eq(run_client(transfers[_i].mode, transfers[_i].rest), 0);
	ck_assert_uint_eq(lines_with(transfers[_i].line), 1);
	server_quit(server, "", 0);
	ck_assert_uint_eq(lines_with("Test Finished for this client"), 1);
	ck_assert_uint_eq(lines_with("DT_cs_Server (fake):  Exiting."), 1);
	ck_assert_uint_eq(lines_with("rror"), 0);
}
END_TEST

/* Each call in turn, of either side; the server survives, and both sides free what they made. */
START_TEST(failed_call_fails_the_test_and_nothing_else)
{
	static const struct {
		const char *mode, *rest;
	} tests[] = {
		{ "T", "-i 2 -t 1 -w 2 -Q -V client SR server SR server RR client RW" },
		{ "T", "-i 2 -r -t 2 client SR -f server SR -f" },
		{ "P", "-i 3 RW 64" },
	};
	pthread_t server = server_start("-T S -D fake");
	unsigned n = 0;
	bool passed;

	atomic_store(&first_thread_of_server, server);

	do {
		atomic_store(&failed_call, false);
		atomic_store(&fail_nth, ++n);
		passed = run_client(tests[_i].mode, tests[_i].rest) == 0;
		server_wait_idle(); /* its calls are not those of the next client */
		ck_assert_msg(passed == !atomic_load(&failed_call), "call %u", n);
		ck_assert_uint_eq(lines_with("IN_USE"), 0);
	} while (atomic_load(&failed_call));
	atomic_store(&fail_nth, 0);
	ck_assert_int_eq(run_client("Q", ""), 0);
	ck_assert_int_eq(server_join(server), -1); /* a test of it has failed */
	ck_assert_uint_eq(lines_with("IN_USE"), 0);
	ck_assert_uint_gt(n, 10);
}
END_TEST

START_TEST(every_wrong_word_is_found)
{
	static const char *const rests[] = {
		"-i 2 -V client SR 9 server SR 9 client RW 9 server RW 9 client RR 9 server RR 9",
		"-i 2 -V -w 2 server RR 5000 client SR 1 1 -f server SR 3000 2 -f",
	};
	pthread_t server = server_start("-T S -D fake");
	unsigned n = 0;

	while (atomic_load(&corrupt_nth) == 0) {
		atomic_store(&corrupt_nth, (int)++n);
		ck_assert_int_eq(run_client("T", rests[_i]),
				 atomic_load(&corrupt_nth) == 0 ? -1 : 0);
		ck_assert_uint_eq(lines_with("Validation Error"),
				  n - (atomic_load(&corrupt_nth) != 0));
	}
	atomic_store(&corrupt_nth, 0);
	ck_assert_uint_gt(n, 2 * 8);
	server_quit(server, "", -1);
}
END_TEST

START_TEST(performance_test_checks_the_data)
{
	pthread_t server = server_start("-T S -D fake");

	atomic_store(&corrupt_nth, 1);
	ck_assert_int_eq(run_client("P", _i ? "-i 2 RW 100" : "-i 2 RR 100"), -1);
	ck_assert_uint_eq(lines_with("Validation Error"), 1);
	server_quit(server, "", -1);
}
END_TEST

START_TEST(long_test_tells_its_progress_and_that_it_lives)
{
	pthread_t server;

	event_moment = 100;
	server = server_start("-T S -D fake");
	ck_assert_int_eq(run_client("T", "-i 20000 -t 2 client SR server SR"), 0);
	ck_assert_uint_gt(lines_with(" of 40000 iterations, "), 1);
	ck_assert_uint_lt(lines_with(" of 40000 iterations, "), 20);
	ck_assert_uint_gt(atomic_load(&messages_sent[MESSAGE_PING]), 0);
	ck_assert_uint_eq(atomic_load(&messages_sent[MESSAGE_PING]),
			  atomic_load(&messages_sent[MESSAGE_PONG]));
	server_quit(server, "", 0);
}
END_TEST

/* The server hears nothing on the lane of a performance test until that is over. */
START_TEST(client_may_measure_for_longer_than_a_peer_is_waited_for)
{
	pthread_t server;

	event_moment = 100;
	server = server_start("-T S -D fake");
	atomic_store(&leaps, LEAPS);
	ck_assert_int_eq(run_client("P", "-i 2 RW 64"), 0);
	ck_assert_uint_eq(lines_with("none within"), 0);
	ck_assert_uint_gt(LEAPS * LEAP, PEER_TIMEOUT);
	server_quit(server, "", 0);
}
END_TEST

/* A session that has failed sends its result in place of the answer to a ping. */
START_TEST(client_asks_for_no_second_result)
{
	pthread_t server;

	event_moment = 100;
	server = server_start("-T S -D fake");
	wrong_word.kind = MESSAGE_PING;
	wrong_word.word = 2; /* the kind */
	wrong_word.value = MESSAGE_ANSWER;
	ck_assert_int_eq(run_client("T", "-i 20000 -t 2 client SR server SR"), -1);
	wrong_word.kind = 0;
	expect_line("message 2 during the test");
	ck_assert_uint_eq(atomic_load(&messages_sent[MESSAGE_DONE]), 0);
	server_quit(server, "", -1);
}
END_TEST

START_TEST(test_that_is_too_short_has_no_rates)
{
	pthread_t server;

	clock_counts = true;
	event_moment = 10;
	server = server_start("-T S -D fake");
	ck_assert_int_eq(run_client("T", "-i 1 client SR 1 server SR 1"), 0);
	ck_assert_uint_eq(lines_with("----- Test completed successfully, but cannot calculate "
				     "stats as not"),
			  1);
	ck_assert_uint_eq(lines_with("Total WQE"), 0);
	server_quit(server, "", 0);
}
END_TEST

static void *client_thread(void *options)
{
	return (void *)(intptr_t)client_run(options);
}

START_TEST(clients_are_served_at_once)
{
	pthread_t server = server_start("-T S -D fake"), client;
	struct options options;
	void *result;

	ck_assert_int_eq(parse(&options, "-T T -s " FAKE_ADDRESS " -D fake -i 2000 -V "
					 "client SR server SR"),
			 0);
	ck_assert_int_eq(pthread_create(&client, NULL, client_thread, &options), 0);
	ck_assert_int_eq(client_run(&options), 0);
	ck_assert_int_eq(pthread_join(client, &result), 0);
	ck_assert_int_eq((intptr_t)result, 0);
	server_quit(server, "", 0);
}
END_TEST

/* Each is over before the next one begins. */
START_TEST(clients_without_a_pause_leave_nothing)
{
	pthread_t server = server_start("-T S -D fake");

	atomic_store(&first_thread_of_server, server);
	atomic_store(&without_pause, true);
	for (unsigned n = 0; n < 8; n++) {
		ck_assert_int_eq(run_client("T", "-i 2 client SR server SR"), 0);
		server_wait_idle();
		ck_assert_uint_eq(atomic_load(&controls), 0);
		ck_assert_uint_eq(atomic_load(&threads_joined), n);
	}
	atomic_store(&without_pause, false);
	server_quit(server, "", 0);
}
END_TEST

START_TEST(other_private_data_are_rejected)
{
	pthread_t server = server_start("-T S -D fake");

	wrong_invitations = true;
	ck_assert_int_eq(run_client("T", "client SR server SR"), -1);
	wrong_invitations = false;
	ck_assert_uint_eq(lines_with("other private data than the client's"), CONNECT_TRIES);
	ck_assert_uint_eq(lines_with("DAT_CONNECTION_EVENT_PEER_REJECTED"), 1);
	ck_assert_int_eq(run_client("T", "client SR server SR"), 0);
	server_quit(server, "", -1);
}
END_TEST

/* Word 0 is the version, 1 the byte order, 2 the kind, 3 the code. */
static const struct {
	enum message_kind kind;
	unsigned word;
	uint32_t value;
	const char *line;
} wrong_words[] = {
	{ MESSAGE_PLAN, 0, 6, "DAPLTEST VERSION MISMATCH" },
	{ MESSAGE_PLAN, 1, 1, "DAPLTEST VERSION MISMATCH" },
	{ MESSAGE_ANSWER, 0, 6, "DAPLTEST VERSION MISMATCH" },
	{ MESSAGE_PLAN, 2, 77, "the kind of a message is 77, not from 1 to 6" },
	{ MESSAGE_PLAN, 3, 3, "the code of a message is 3, not from 0 to 2" },
	{ MESSAGE_PLAN, PLAN_WORD + PLAN_PIPELINE, INT32_MAX,
	  "Server: receive error: the plan's pipeline is 2147483647, not from 0 to 1000000" },
	{ MESSAGE_PLAN, PLAN_WORD + PLAN_PIPELINE, INT32_MAX,
	  PROGRAM ": the server can't do this test; its output tells why" },
	{ MESSAGE_ANSWER, 4, UINT32_MAX, "the port of a message is 4294967295, not from 0 to" },
	{ MESSAGE_ANSWER, 2, MESSAGE_PONG, "the server sent message 4, not 2" },
	{ MESSAGE_DONE, 2, MESSAGE_ANSWER, "message 2 during the test" },
	{ MESSAGE_DONE, 2, 0, "the kind of a message is 0, not from 1 to 6" },
	{ MESSAGE_RESULT, 3, CODE_BAD, "the test failed at the server" },
};

START_TEST(wrong_message_ends_the_test)
{
	pthread_t server = server_start("-T S -D fake");

	wrong_word.kind = wrong_words[_i].kind;
	wrong_word.word = wrong_words[_i].word;
	wrong_word.value = wrong_words[_i].value;
	ck_assert_int_eq(run_client("T", "-i 2 client SR server SR"), -1);
	expect_line(wrong_words[_i].line);
	wrong_word.kind = 0;
	ck_assert_int_eq(run_client("T", "-i 2 client SR server SR"), 0);
	ck_assert_int_eq(run_client("Q", ""), 0);
	(void)server_join(server);
}
END_TEST

/* 1 GiB or more for each of 10000 endpoints: more than can be had, whatever a test may take. */
START_TEST(more_memory_than_the_host_has_is_refused)
{
	pthread_t server = server_start("-T S -D fake");

	wrong_word.kind = MESSAGE_PLAN;
	wrong_word.word = PLAN_WORD + PLAN_SEGMENTS;
	wrong_word.value = LONGEST_SEGMENTS;
	ck_assert_int_eq(run_client("T", "-w 10000 client SR 1073741824 server SR"), -1);
	wrong_word.kind = 0;
	ck_assert_uint_eq(lines_with(PROGRAM ": the test needs " NEEDED), 1);
	expect_line(PROGRAM ": the server can't do this test; its output tells why");
	ck_assert_int_eq(run_client("T", "-i 2 client SR server SR"), 0);
	server_quit(server, "", -1);
}
END_TEST

#define GIBIBYTE "client SR 1073741824 "

/* 5 GiB would be 1 GiB in a size_t of 32 bits. A host with a kernel of 64 bits may have them. */
START_TEST(more_memory_than_a_process_of_32_bits_has_is_refused)
{
	pthread_t server = server_start("-T S -D fake");

	ck_assert_int_eq(run_client("T", GIBIBYTE GIBIBYTE GIBIBYTE GIBIBYTE GIBIBYTE "server SR"),
			 -1);
	ck_assert_uint_ge(lines_with(PROGRAM ": the test needs 53687"), 1);
	ck_assert_int_eq(run_client("T", "-i 2 client SR server SR"), 0);
	server_quit(server, "", -1);
}
END_TEST

/* Both sides know; a program of that version may understand the answer. */
START_TEST(version_mismatch_is_told_by_both_sides)
{
	pthread_t server = server_start("-T S -D fake");

	wrong_word.kind = MESSAGE_PLAN;
	wrong_word.value = 6;
	ck_assert_int_eq(run_client("T", "client SR server SR"), -1);
	ck_assert_uint_eq(lines_with("DAPLTEST VERSION MISMATCH"), 2);
	wrong_word.kind = 0;
	server_quit(server, "", -1);
}
END_TEST

START_TEST(server_that_is_not_there_has_a_sentence)
{
	use_conf(conf);
	capture();
	ck_assert_int_eq(run_client("T", "client SR server SR"), -1);
	expect_line(PROGRAM ": no program of DAT listens at " FAKE_ADDRESS " port " PORT_TEXT);
	ck_assert_int_eq(run_client("Q", "-n 9"), -1);
	expect_line(PROGRAM ": no program of DAT listens at " FAKE_ADDRESS " port 9");
	ck_assert_int_eq(run("-T S -D other"), -1);
	expect_line(PROGRAM ": dat_ia_open other: dat.conf has no line for other");
}
END_TEST

START_TEST(port_that_is_taken_has_a_sentence)
{
	pthread_t server = server_start("-T S -D fake -n 777");

	expect_line("Dapltest: Service Point Port - 777");
	ck_assert_int_eq(run("-T S -D fake -n 777"), -1);
	expect_line(PROGRAM ": port 777 is taken by another server");
	server_quit(server, "-n 777", 0);
}
END_TEST

/* The ports behind the server's are another's: those of the test begin behind them. */
START_TEST(ports_that_are_taken_are_skipped)
{
	struct foundation base;
	const struct origin origin = { .name = "test", .lane = -1 };
	DAT_PSP_HANDLE psps[2];
	pthread_t server = server_start("-T S -D fake -n 777");

	ck_assert_int_eq(foundation_create(&base, &origin, (char *)"fake"), 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(dat_psp_create(base.adapter.ia, 779 + 3 * i, base.cr_evd,
						 DAT_PSP_CONSUMER_FLAG, &psps[i]),
				  DAT_SUCCESS);
	ck_assert_int_eq(run_client("T", _i ? "-r -d -n 777 -i 2 -w 3 client SR server SR"
					    : "-d -n 777 -i 2 -w 3 client SR server SR"),
			 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(dat_psp_free(psps[i]), DAT_SUCCESS);
	ck_assert_int_eq(foundation_free(&base, &origin), 0);
	server_quit(server, "-n 777", 0);
}
END_TEST

START_TEST(ports_begin_anew_behind_the_last)
{
	pthread_t server = server_start("-T S -D fake -n 65530");

	ck_assert_int_eq(run_client("T", "-n 65530 -i 2 -w 5 client SR server SR"), 0);
	ck_assert_uint_eq(atomic_load(&invited_to), 65531);
	ck_assert_int_eq(run_client("T", "-n 65530 -i 2 -w 2 client SR server SR"), 0);
	ck_assert_uint_eq(atomic_load(&invited_to), 45279);
	ck_assert_int_eq(run_client("T", "-n 65530 -i 2 client SR server SR"), 0);
	ck_assert_uint_eq(atomic_load(&invited_to), 45281);
	server_quit(server, "-n 65530", 0);
}
END_TEST

/* The last port of all is another's. */
START_TEST(ports_that_are_skipped_begin_anew_behind_the_last)
{
	const struct origin origin = { .name = "test", .lane = -1 };
	struct foundation base;
	DAT_PSP_HANDLE psp;
	pthread_t server = server_start("-T S -D fake -n 65530");

	ck_assert_int_eq(foundation_create(&base, &origin, (char *)"fake"), 0);
	ck_assert_uint_eq(dat_psp_create(base.adapter.ia, PORT_LAST, base.cr_evd,
					 DAT_PSP_CONSUMER_FLAG, &psp),
			  DAT_SUCCESS);
	ck_assert_int_eq(run_client("T", "-n 65530 -i 2 -w 5 client SR server SR"), 0);
	ck_assert_uint_eq(atomic_load(&invited_to), 45279);
	ck_assert_int_eq(run_client("T", "-n 65530 -i 2 client SR server SR"), 0);
	ck_assert_uint_eq(atomic_load(&invited_to), 45284);
	ck_assert_uint_eq(dat_psp_free(psp), DAT_SUCCESS);
	ck_assert_int_eq(foundation_free(&base, &origin), 0);
	server_quit(server, "-n 65530", 0);
}
END_TEST

START_TEST(more_requests_than_32_bits_count_are_reaped)
{
	pthread_t server = server_start("-T S -D fake");

	requests_before = UINT32_MAX - 2;
	ck_assert_int_eq(run_client("T", "-i 9 client SR -f server SR -f client SR server SR"), 0);
	server_quit(server, "", 0);
	ck_assert(!atomic_load(&requests_left));
}
END_TEST

START_TEST(other_quality_of_service_is_refused)
{
	pthread_t server = server_start("-T S -D fake -R BE");

	ck_assert_int_eq(run_client("T", "-R LL client SR server SR"), -1);
	expect_line(PROGRAM ": this provider does not have this quality of service");
	ck_assert_int_eq(run_client("T", "-R BE -i 2 client SR server SR"), 0);
	server_quit(server, "-R BE", 0);
}
END_TEST

/* It accepts, and says nothing. */
static void *silent_server(void *argument)
{
	struct foundation *base = argument;
	atomic_bool stop = false;
	const struct patience patience = { .way = WAIT_EVD, .stop = &stop };
	struct control control;
	DAT_EVENT event;
	DAT_RETURN ret;

	ck_assert_int_eq(control_create(&control, &base->adapter, &patience, "silent", 0), 0);
	ck_assert_int_eq(event_wait(&patience, base->cr_evd, DAT_TIMEOUT_INFINITE, &event, &ret),
			 WAIT_EVENT);
	ck_assert_int_eq(control_accept(&control, event.event_data.cr_arrival_event_data.cr_handle),
			 0);
	ck_assert_int_eq(channel_expect_established(&control.channel), 0);
	while (lines_with("Starting Test") == 0)
		sched_yield();
	atomic_fetch_add(&clock_ahead, PEER_TIMEOUT);
	ck_assert_int_eq(event_wait(&patience, control.channel.connect_evd, DAT_TIMEOUT_INFINITE,
				    &event, &ret),
			 WAIT_EVENT);
	ck_assert_int_eq(control_free(&control), 0);
	return NULL;
}

START_TEST(silent_server_is_not_waited_for_without_end)
{
	const struct origin origin = { .name = "test", .lane = -1 };
	struct foundation base;
	DAT_PSP_HANDLE psp;
	pthread_t server;

	event_moment = 2000;
	use_conf(conf);
	capture();
	ck_assert_int_eq(foundation_create(&base, &origin, (char *)"fake"), 0);
	ck_assert_uint_eq(
		dat_psp_create(base.adapter.ia, 777, base.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
		DAT_SUCCESS);
	ck_assert_int_eq(pthread_create(&server, NULL, silent_server, &base), 0);
	ck_assert_int_eq(run_client("Q", "-n 777"), -1);
	expect_line("completion error: none within 60 seconds");
	ck_assert_int_eq(pthread_join(server, NULL), 0);
	ck_assert_uint_eq(dat_psp_free(psp), DAT_SUCCESS);
	ck_assert_int_eq(foundation_free(&base, &origin), 0);
}
END_TEST

/* A second signal would end the program, so that a program that hangs can be ended. */
START_TEST(interrupt_ends_a_server_and_its_clients)
{
	pthread_t server = server_start("-T S -D fake"), client;
	struct options endless;
	void *result;

	ck_assert_int_eq(parse(&endless, "-T T -s " FAKE_ADDRESS " -D fake -i 2147483647 -V "
					 "client SR server SR"),
			 0);
	interrupt_catch();
	ck_assert_int_eq(pthread_create(&client, NULL, client_thread, &endless), 0);
	while (lines_with("Starting Test") == 0)
		sched_yield();
	ck_assert_int_eq(raise(_i ? SIGINT : SIGTERM), 0);
	ck_assert_int_eq(pthread_join(client, &result), 0);
	ck_assert_int_eq((intptr_t)result, -1);
	ck_assert_int_eq(server_join(server), -1);
	ck_assert_uint_eq(lines_with(PROGRAM ": interrupted"), 2);
	ck_assert_uint_eq(lines_with("IN_USE"), 0);
}
END_TEST

START_TEST(ignored_signal_stays_ignored)
{
	ck_assert(signal(SIGINT, SIG_IGN) != SIG_ERR);
	interrupt_catch();
	ck_assert_int_eq(raise(SIGINT), 0);
	ck_assert(!interrupted);
}
END_TEST

static const char *const alone[] = {
	"-T L -D fake -m 3 -w 2",    "-T F -D fake -f hwconn", "-T F -D fake -f endpoint",
	"-T F -D fake -f pz",	     "-T F -D fake -f mem",    "-T F -D fake -f connmgt",
	"-T F -D fake -f queryinfo",
};

START_TEST(modes_of_one_process_pass)
{
	use_conf(conf);
	capture();
	ck_assert_int_eq(run(alone[_i]), 0);
	ck_assert_uint_eq(lines_with("FAIL"), 0);
	ck_assert_uint_eq(lines_with("error"), 0);
}
END_TEST

/* The first object, or what it needs: a limit of none is a failure. */
START_TEST(limit_of_none_fails)
{
	static const char command[] = "-T L -D fake -m 1 limit_pz limit_cno limit_evd limit_ep "
				      "limit_rsp limit_psp limit_lmr limit_rpost";
	unsigned n = 0;

	use_conf(conf);
	capture();
	do {
		atomic_store(&failed_call, false);
		atomic_store(&fail_nth, ++n);
		ck_assert_int_eq(run(command), atomic_load(&failed_call) ? -1 : 0);
		ck_assert_uint_eq(lines_with("FAIL: limit_"), n - !atomic_load(&failed_call));
		ck_assert_uint_eq(lines_with("IN_USE"), 0);
	} while (atomic_load(&failed_call));
	expect_line("error occurs, can not continue with limit test");
	expect_line("refused: DAT_INSUFFICIENT_RESOURCES DAT_RESOURCE_MEMORY");
}
END_TEST

/* For the limit tests the refusal of a second object is a success. */
START_TEST(failed_call_fails_a_case_and_nothing_else)
{
	unsigned n = 0;

	use_conf(conf);
	capture();
	do {
		atomic_store(&failed_call, false);
		atomic_store(&fail_nth, ++n);
		if (run(alone[_i]) == 0 && _i > 0)
			ck_assert(!atomic_load(&failed_call) || lines_with("UNSUPP"));
		ck_assert_uint_eq(lines_with("IN_USE"), 0);
	} while (atomic_load(&failed_call));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *command = tcase_create("command"), *wire = tcase_create("wire");
	TCase *modes = tcase_create("modes");

	tcase_add_loop_test(command, command_is_understood, 0, COUNT(good_commands));
	tcase_add_loop_test(command, wrong_command_is_refused_with_the_reason, 0,
			    COUNT(bad_commands));
	tcase_add_test(command, more_operations_than_fit_are_refused);
	tcase_add_test(command, defaults_are_those_that_people_know);
	tcase_add_test(command, validation_adds_three_sends);
	tcase_add_test(command, arguments_come_from_a_file);
	tcase_add_test(command, file_without_arguments_is_refused);
	tcase_add_test(wire, plan_survives_the_wire);
	tcase_add_test(wire, a_message_that_ends_early_is_read_up_to_its_end);
	tcase_add_test(wire, a_result_survives_the_wire);
	tcase_add_test(wire, largest_plan_fits_a_message);
	tcase_add_loop_test(wire, message_with_a_wrong_word_is_refused, 0, COUNT(bad_words));
	tcase_add_loop_test(wire, number_of_a_plan_beyond_its_range_is_named, 0, COUNT(plan_words));
	tcase_add_loop_test(wire, plan_that_no_command_makes_is_refused, 0, COUNT(bad_plans));
	tcase_add_loop_test(wire, transfer_has_a_length_of_its_edition, 0, 2);
	tcase_add_test(wire, invitation_to_another_lane_is_none);
	tcase_add_loop_test(modes, transfers_pass_at_both_sides, 0, COUNT(transfers));
	tcase_add_loop_test(modes, failed_call_fails_the_test_and_nothing_else, 0, 3);
	tcase_add_loop_test(modes, every_wrong_word_is_found, 0, 2);
	tcase_add_loop_test(modes, performance_test_checks_the_data, 0, 2);
	tcase_add_test(modes, long_test_tells_its_progress_and_that_it_lives);
	tcase_add_test(modes, client_may_measure_for_longer_than_a_peer_is_waited_for);
	tcase_add_test(modes, client_asks_for_no_second_result);
	tcase_add_test(modes, test_that_is_too_short_has_no_rates);
	tcase_add_test(modes, clients_are_served_at_once);
	tcase_add_test(modes, clients_without_a_pause_leave_nothing);
	tcase_add_test(modes, other_private_data_are_rejected);
	tcase_add_loop_test(modes, wrong_message_ends_the_test, 0, COUNT(wrong_words));
	tcase_add_test(modes, more_memory_than_the_host_has_is_refused);
	if (SIZE_MAX > UINT32_MAX)
		case_skip(modes, more_memory_than_a_process_of_32_bits_has_is_refused,
			  "a process of 64 bits addresses more than any host has");
	else
		tcase_add_test(modes, more_memory_than_a_process_of_32_bits_has_is_refused);
	tcase_add_test(modes, version_mismatch_is_told_by_both_sides);
	tcase_add_test(modes, server_that_is_not_there_has_a_sentence);
	tcase_add_test(modes, port_that_is_taken_has_a_sentence);
	tcase_add_loop_test(modes, ports_that_are_taken_are_skipped, 0, 2);
	tcase_add_test(modes, ports_begin_anew_behind_the_last);
	tcase_add_test(modes, ports_that_are_skipped_begin_anew_behind_the_last);
	tcase_add_test(modes, more_requests_than_32_bits_count_are_reaped);
	tcase_add_test(modes, other_quality_of_service_is_refused);
	tcase_add_test(modes, silent_server_is_not_waited_for_without_end);
	tcase_add_loop_test(modes, interrupt_ends_a_server_and_its_clients, 0, 2);
	tcase_add_test(modes, ignored_signal_stays_ignored);
	tcase_add_loop_test(modes, modes_of_one_process_pass, 0, COUNT(alone));
	tcase_add_test(modes, limit_of_none_fails);
	tcase_add_loop_test(modes, failed_call_fails_a_case_and_nothing_else, 0, COUNT(alone));
	return run_cases(argc, argv);
}
