/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the calls of a list, those of each thread in their order. */
#include <stdlib.h>

#include "model.h"

struct runner {
	const struct script *script;
	struct world world;
	pthread_t thread;
};

static void world_open(struct world *w, unsigned thread, unsigned threads)
{
	w->thread = thread;
	w->threads = threads;
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (unsigned i = 0; i < SLOTS; i++)
			w->slot[kind][i].kind = (DAT_HANDLE_TYPE)kind;
	queue_init(&w->orphans);
	arena_open(w);
	ia_open_all(w);
}

static void world_close(struct world *w)
{
	ia_close_all(w);
	transfers_drop(w, &w->orphans);
	for (struct conn *conn = w->conns, *next; conn; conn = next) {
		next = conn->next;
		free(conn);
	}
	arena_close(w);
}

static void *runner_run(void *arg)
{
	struct runner *runner = arg;
	struct world *w = &runner->world;

	for (size_t i = 0; i < runner->script->n; i++) {
		const struct call *call = &runner->script->calls[i];

		if (call->thread != w->thread)
			continue;
		w->call = call;
		w->call_index = i;
		script_at(i);
		op_of(call)->run(w, call);
	}
	return NULL;
}

void script_execute(const struct script *script)
{
	struct runner *runners = calloc(MAX_THREADS, sizeof(*runners));
	unsigned threads = 1;

	if (!runners)
		abort();
	for (size_t i = 0; i < script->n; i++)
		if (script->calls[i].thread >= threads)
			threads = script->calls[i].thread + 1u;
	for (unsigned i = 0; i < threads; i++) {
		runners[i].script = script;
		world_open(&runners[i].world, i, threads);
	}
	shared_open(&runners[0].world);
	for (unsigned i = 1; i < threads; i++)
		if (pthread_create(&runners[i].thread, NULL, runner_run, &runners[i]))
			abort();
	runner_run(&runners[0]);
	for (unsigned i = 1; i < threads; i++)
		pthread_join(runners[i].thread, NULL);
	shared_close(&runners[0].world);
	for (unsigned i = 0; i < threads; i++)
		world_close(&runners[i].world);
	free(runners);
}
