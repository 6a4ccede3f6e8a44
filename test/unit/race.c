/* SPDX-License-Identifier: BSD-2-Clause */
/* What a test does with a thread that reaches a point of udapl/base/race.h. */
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

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

/* ---- single steps ---- */

static struct {
	volatile sig_atomic_t running, acted;
	unsigned left; /* instructions before the act */
	void (*act)(void *);
	void *arg;
} step;

#ifdef __x86_64__
#define TRAP_FLAG 0x100

static void continue_stepping(ucontext_t *context, bool on)
{
	if (on)
		context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
	else
		context->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}
#else
static void continue_stepping(ucontext_t *context, bool on)
{
	(void)context;
	(void)on;
}
#endif

/* The first one is raised, and the others follow instructions. */
static void step_taken(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	continue_stepping(context, step.running && !step.acted);
	if (!step.running || step.acted || step.left-- > 0)
		return;
	step.acted = true;
	continue_stepping(context, false);
	step.act(step.arg);
}

bool race_step(void (*run)(void *), void *run_arg, unsigned n, void (*act)(void *), void *act_arg)
{
	const struct sigaction action = { .sa_sigaction = step_taken, .sa_flags = SA_SIGINFO };

	step.left = n;
	step.act = act;
	step.arg = act_arg;
	step.acted = false;
	step.running = true;
	sigaction(SIGTRAP, &action, NULL);
	raise(SIGTRAP);
	run(run_arg);
	step.running = false;
	return step.acted;
}
