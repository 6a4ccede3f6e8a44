/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of all calls, lists of random ones, and their text. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

static const struct op *const families[] = {
	ia_ops,	    evd_ops,	 cno_ops, memory_ops, ep_ops,
	listen_ops, connect_ops, srq_ops, post_ops,   shared_ops,
};

static const struct op *ops[128];
static unsigned n_ops, total_weight;

void calls_init(void)
{
	for (unsigned i = 0; i < COUNT(families); i++)
		for (const struct op *op = families[i]; op->name; op++) {
			if (n_ops == COUNT(ops))
				abort();
			ops[n_ops++] = op;
			total_weight += op->weight;
		}
}

const struct op *op_of(const struct call *call)
{
	return ops[call->op];
}

/* splitmix64, which has 2^64 different numbers whatever it begins with. */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void calls_generate(struct call *calls, size_t n, uint64_t seed, unsigned threads)
{
	uint64_t state = seed;

	for (size_t i = 0; i < n; i++) {
		unsigned weight = (unsigned)(random_next(&state) % total_weight), op = 0;
		uint64_t bits = 0;

		for (; weight >= ops[op]->weight; op++)
			weight -= ops[op]->weight;
		calls[i].op = (uint8_t)op;
		calls[i].thread = (uint8_t)(random_next(&state) % threads);
		for (unsigned arg = 0; arg < CALL_ARGS; arg++, bits >>= 16) {
			if (arg % 4 == 0)
				bits = random_next(&state);
			calls[i].arg[arg] = (uint16_t)bits;
		}
	}
}

void call_print(FILE *to, const struct call *call)
{
	fprintf(to, "%u %s", call->thread, op_of(call)->name);
	for (unsigned arg = 0; arg < CALL_ARGS; arg++)
		fprintf(to, " %u", call->arg[arg]);
	fprintf(to, "\n");
}

bool call_parse(const char *line, struct call *call)
{
	char name[64];
	unsigned thread, arg[CALL_ARGS];

	if (sscanf(line, "%u %63s %u %u %u %u %u %u %u %u", &thread, name, &arg[0], &arg[1],
		   &arg[2], &arg[3], &arg[4], &arg[5], &arg[6], &arg[7]) != 2 + CALL_ARGS ||
	    thread >= MAX_THREADS)
		return false;
	call->thread = (uint8_t)thread;
	for (unsigned i = 0; i < CALL_ARGS; i++)
		call->arg[i] = (uint16_t)arg[i];
	for (unsigned op = 0; op < n_ops; op++)
		if (!strcmp(ops[op]->name, name)) {
			call->op = (uint8_t)op;
			return true;
		}
	return false;
}
