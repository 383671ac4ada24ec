/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-loop - timers and a clock that a test moves by hand.
 *
 * What is defined here takes the place of the library's loop.o and mono.o.
 */
#ifndef FAKE_LOOP_H
#define FAKE_LOOP_H

#include <stdlib.h>

#include "../loop.h"
#include "../mono.h"

struct loop_timer {
	struct loop_timer *next;
	long at;
	loop_due *due;
	void *arg;
};

static struct loop_timer *fake_timers;
static long fake_now = 1000;

long
mono_ms(void)
{
	return fake_now;
}

struct loop_timer *
loop_timer_add(struct loop *l, long ms, loop_due *due, void *arg)
{
	struct loop_timer *t = malloc(sizeof(*t));

	(void)l;
	if (t == NULL)
		return NULL;
	*t = (struct loop_timer){ fake_timers, fake_now + ms, due, arg };
	fake_timers = t;
	return t;
}

void
loop_timer_del(struct loop_timer *t)
{
	struct loop_timer **at = &fake_timers;

	if (t == NULL)
		return;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	free(t);
}

/* Let ms pass, and each timer fire at its own moment. */
static inline void
fake_pass(long ms)
{
	struct loop_timer *t, *first;
	long end = fake_now + ms;

	for (;;) {
		first = NULL;
		for (t = fake_timers; t != NULL; t = t->next)
			if (first == NULL || t->at < first->at)
				first = t;
		if (first == NULL || first->at > end)
			break;
		if (first->at > fake_now)
			fake_now = first->at;
		loop_due *due = first->due;
		void *arg = first->arg;
		loop_timer_del(first);
		due(arg);
	}
	fake_now = end;
}

#endif
