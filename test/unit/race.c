/* SPDX-License-Identifier: BSD-2-Clause */
/* What a test does with a thread that reaches a point of udapl/race.h. */
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "race.h"

static struct trap {
	void (*_Atomic act)(void *); /* NULL: none, or a thread has reached it */
	void *arg;
	const void *_Atomic object; /* NULL: any */
	atomic_bool sprung;	    /* the thread has arrived */
} traps[RACE_POINTS];

static sem_t held, go;

static void semaphore_wait(sem_t *semaphore)
{
	while (sem_wait(semaphore) < 0)
		; /* a signal handler ran */
}

static void trap_reached(enum race_point point, const void *object)
{
	struct trap *trap = &traps[point];
	void (*act)(void *) = atomic_load(&trap->act);
	const void *wanted = atomic_load(&trap->object);

	if (!act || (wanted && wanted != object) ||
	    !atomic_compare_exchange_strong(&trap->act, &act, NULL))
		return;
	atomic_store(&trap->sprung, true);
	act(trap->arg);
}

void race_call(enum race_point point, const void *object, void (*act)(void *), void *arg)
{
	struct trap *trap = &traps[point];

	atomic_store(&trap->sprung, false);
	trap->arg = arg;
	atomic_store(&trap->object, object);
	atomic_store(&trap->act, act);
	atomic_store(&race_hook, trap_reached);
}

bool race_happened(enum race_point point)
{
	return atomic_load(&traps[point].sprung);
}

static void stay(void *unused)
{
	(void)unused;
	sem_post(&held);
	semaphore_wait(&go);
}

void race_hold(enum race_point point, const void *object)
{
	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	race_call(point, object, stay, NULL);
}

void race_wait_held(void)
{
	semaphore_wait(&held);
}

void race_release(void *unused)
{
	(void)unused;
	sem_post(&go);
}

bool race_is_asleep(pid_t thread)
{
	char path[64], text[128];
	const char *state;
	FILE *file;
	size_t size;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	size = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[size] = '\0';
	state = strrchr(text, ')'); /* behind the name, which may have anything in it */
	return state && state[1] == ' ' && state[2] == 'S';
}
