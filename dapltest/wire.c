/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of the control connection as bytes. Version and byte order come first, so that
 * programs that continue in different ways notice it.
 */
#include "dapltest.h"

#include <stdarg.h>
#include <string.h>

#define BYTE_ORDER_MARK 0x01020304u
#define INVITATION_MARK 0x64617431u

/* The place to write or read next. good becomes false at the end, and at the first problem. */
struct cursor {
	unsigned char *to;
	const unsigned char *from;
	size_t left;
	bool good;
	char *problem; /* PROBLEM_TEXT bytes, if it reads */
};

static void cursor_fail(struct cursor *cursor, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void cursor_fail(struct cursor *cursor, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (cursor->good)
		(void)vsnprintf(cursor->problem, PROBLEM_TEXT, format, args);
	va_end(args);
	cursor->good = false;
}

static void cursor_put(struct cursor *cursor, uint64_t value, size_t bytes)
{
	if (cursor->left < bytes) {
		cursor->good = false;
		return;
	}
	for (size_t i = 0; i < bytes; i++)
		*cursor->to++ = (unsigned char)(value >> (8 * i));
	cursor->left -= bytes;
}

static uint64_t cursor_get(struct cursor *cursor, size_t bytes)
{
	uint64_t value = 0;

	if (cursor->left < bytes) {
		cursor->good = false;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)*cursor->from++ << (8 * i);
	cursor->left -= bytes;
	return value;
}

static void put_word(struct cursor *cursor, uint32_t value)
{
	cursor_put(cursor, value, sizeof(value));
}

static uint32_t get_word(struct cursor *cursor)
{
	return (uint32_t)cursor_get(cursor, sizeof(uint32_t));
}

/* Reads a word from @min to @max. */
static uint32_t get_within(struct cursor *cursor, const char *name, uint32_t min, uint32_t max)
{
	uint32_t value = get_word(cursor);

	if (value < min || value > max)
		cursor_fail(cursor, "%s is %u, not from %u to %u", name, value, min, max);
	return value;
}

static uint32_t get_number(struct cursor *cursor, enum plan_number number)
{
	const struct plan_range *range = &plan_ranges[number];

	return get_within(cursor, range->name, range->min, range->max);
}

static void plan_put(struct cursor *cursor, const struct plan *plan)
{
	put_word(cursor, plan->mode);
	put_word(cursor, plan->iterations);
	put_word(cursor, plan->threads);
	put_word(cursor, plan->lanes);
	put_word(cursor, plan->validate);
	put_word(cursor, plan->poll);
	put_word(cursor, plan->cno);
	put_word(cursor, plan->rsp);
	put_word(cursor, plan->pipeline);
	put_word(cursor, plan->qos);
	put_word(cursor, plan->op_count);
	for (unsigned i = 0; i < plan->op_count; i++) {
		put_word(cursor, plan->ops[i].by_server);
		put_word(cursor, plan->ops[i].transfer);
		put_word(cursor, plan->ops[i].segment_size);
		put_word(cursor, plan->ops[i].segments);
		put_word(cursor, plan->ops[i].reap_late);
	}
}

static struct operation operation_get(struct cursor *cursor)
{
	struct operation op = { .by_server = get_number(cursor, PLAN_BY_SERVER) };

	op.transfer = get_number(cursor, PLAN_TRANSFER);
	op.segment_size = get_number(cursor, PLAN_SEGMENT_SIZE);
	op.segments = get_number(cursor, PLAN_SEGMENTS);
	op.reap_late = get_number(cursor, PLAN_REAP_LATE);
	return op;
}

/* All that is used later is checked here, because the peer may be any program. */
static void plan_get(struct cursor *cursor, struct plan *plan)
{
	const char *problem;

	*plan = (struct plan){ .mode = get_number(cursor, PLAN_MODE) };
	plan->iterations = get_number(cursor, PLAN_ITERATIONS);
	plan->threads = get_number(cursor, PLAN_THREADS);
	plan->lanes = get_number(cursor, PLAN_LANES);
	plan->validate = get_number(cursor, PLAN_VALIDATE);
	plan->poll = get_number(cursor, PLAN_POLL);
	plan->cno = get_number(cursor, PLAN_CNO);
	plan->rsp = get_number(cursor, PLAN_RSP);
	plan->pipeline = get_number(cursor, PLAN_PIPELINE);
	plan->qos = (DAT_QOS)get_number(cursor, PLAN_QOS);
	plan->op_count = get_number(cursor, PLAN_OP_COUNT);
	for (unsigned i = 0; cursor->good && i < plan->op_count; i++)
		plan->ops[i] = operation_get(cursor);
	problem = cursor->good ? plan_problem(plan) : NULL;
	if (problem)
		cursor_fail(cursor, "the plan: %s", problem);
}

static void tally_put(struct cursor *cursor, const struct tally *tally)
{
	cursor_put(cursor, tally->requests, sizeof(tally->requests));
	cursor_put(cursor, tally->sent, sizeof(tally->sent));
	cursor_put(cursor, tally->received, sizeof(tally->received));
	cursor_put(cursor, tally->written, sizeof(tally->written));
	cursor_put(cursor, tally->read, sizeof(tally->read));
}

static void tally_get(struct cursor *cursor, struct tally *tally)
{
	tally->requests = cursor_get(cursor, sizeof(tally->requests));
	tally->sent = cursor_get(cursor, sizeof(tally->sent));
	tally->received = cursor_get(cursor, sizeof(tally->received));
	tally->written = cursor_get(cursor, sizeof(tally->written));
	tally->read = cursor_get(cursor, sizeof(tally->read));
}

size_t message_encode(const struct message *message, unsigned char bytes[MESSAGE_MAX])
{
	struct cursor cursor = { .to = bytes, .left = MESSAGE_MAX, .good = true };

	put_word(&cursor, WIRE_VERSION);
	put_word(&cursor, BYTE_ORDER_MARK);
	put_word(&cursor, message->kind);
	put_word(&cursor, message->code);
	put_word(&cursor, message->port);
	if (message->kind == MESSAGE_RESULT)
		tally_put(&cursor, &message->tally);
	if (message->kind == MESSAGE_PLAN)
		plan_put(&cursor, &message->plan);
	return MESSAGE_MAX - cursor.left;
}

enum message_code message_decode(struct message *message, const unsigned char *bytes, size_t size,
				 char problem[PROBLEM_TEXT])
{
	struct cursor cursor = { .from = bytes, .left = size, .good = true, .problem = problem };

	(void)snprintf(problem, PROBLEM_TEXT, "not a message of dapltest");
	if (get_word(&cursor) != WIRE_VERSION || get_word(&cursor) != BYTE_ORDER_MARK)
		return cursor.good ? CODE_VERSION : CODE_BAD;
	message->kind = get_within(&cursor, "the kind of a message", MESSAGE_PLAN, MESSAGE_RESULT);
	message->code = get_within(&cursor, "the code of a message", CODE_GOOD, CODE_VERSION);
	message->port = get_within(&cursor, "the port of a message", 0, PORT_LAST);
	if (message->kind == MESSAGE_RESULT)
		tally_get(&cursor, &message->tally);
	if (message->kind == MESSAGE_PLAN)
		plan_get(&cursor, &message->plan);
	return cursor.good && cursor.left == 0 ? CODE_GOOD : CODE_BAD;
}

void setup_encode(const struct offer *memory, unsigned char bytes[SETUP_BYTES])
{
	struct cursor cursor = { .to = bytes, .left = SETUP_BYTES, .good = true };

	cursor_put(&cursor, memory->rmr_context, 8);
	cursor_put(&cursor, memory->address, 8);
	cursor_put(&cursor, memory->size, 8);
}

void setup_decode(struct offer *memory, const unsigned char bytes[SETUP_BYTES])
{
	struct cursor cursor = { .from = bytes, .left = SETUP_BYTES, .good = true };

	*memory = (struct offer){ .rmr_context = (DAT_RMR_CONTEXT)cursor_get(&cursor, 8) };
	memory->address = cursor_get(&cursor, 8);
	memory->size = cursor_get(&cursor, 8);
}

void invitation_encode(const struct invitation *invitation, unsigned char bytes[INVITATION_BYTES])
{
	struct cursor cursor = { .to = bytes, .left = INVITATION_BYTES, .good = true };

	put_word(&cursor, INVITATION_MARK);
	put_word(&cursor, invitation->port);
	put_word(&cursor, invitation->thread);
	put_word(&cursor, invitation->lane);
}

/* A transport may pad private data. */
bool invitation_equals(const struct invitation *invitation, const void *bytes, size_t size)
{
	unsigned char wanted[INVITATION_BYTES];

	invitation_encode(invitation, wanted);
	return size >= sizeof(wanted) && memcmp(bytes, wanted, sizeof(wanted)) == 0;
}
