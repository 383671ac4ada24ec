/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "outlet.h"
#include "stash.h"

struct outlet_far {
	struct outlet_far *next;
	struct spilled *spilled;	/* held */
	uint64_t at, sent;		/* at: of all of out, ever */
};

void
outlet_init(struct outlet *o, size_t max)
{
	*o = (struct outlet){ .gone = 0 };
	buf_init(&o->out, max);
}

static void
drop_first(struct outlet *o)
{
	struct outlet_far *f = o->first;

	o->first = f->next;
	if (o->first == NULL)
		o->last = NULL;
	spilled_drop(f->spilled);
	free(f);
}

void
outlet_reset(struct outlet *o, size_t keep)
{
	while (o->first != NULL)
		drop_first(o);
	buf_reset(&o->out, keep);
	o->gone = 0;
}

void
outlet_free(struct outlet *o)
{
	outlet_reset(o, 0);
	buf_free(&o->out);
}

size_t
outlet_held(const struct outlet *o)
{
	return o->out.len - o->gone;
}

bool
outlet_empty(const struct outlet *o)
{
	return outlet_held(o) == 0 && o->first == NULL;
}

uint64_t
outlet_length(size_t len, const struct spilled_in *far)
{
	return len + (far == NULL ? 0 : far->n * far->spilled->len);
}

/* The string goes here. Without memory for that, all of it has failed. */
static void
put_far(struct outlet *o, struct spilled *p)
{
	struct outlet_far *f = malloc(sizeof(*f));

	if (f == NULL) {
		o->out.failed = true;
		return;
	}
	*f = (struct outlet_far){ .spilled = spilled_hold(p),
	    .at = o->went + outlet_held(o) };
	if (o->last == NULL)
		o->first = f;
	else
		o->last->next = f;
	o->last = f;
}

void
outlet_message(struct outlet *o, struct buf *json,
    const struct spilled_in *far)
{
	struct buf old = o->out;
	size_t at = 0;

	if (far == NULL && outlet_held(o) == 0) {
		/* A large answer is never there twice. */
		o->out = *json;
		o->out.max = old.max;
		*json = old;
		o->gone = 0;
		return;
	}
	for (unsigned i = 0; far != NULL && i < far->n; i++) {
		buf_put(&o->out, json->data + at, far->at[i] - at);
		put_far(o, far->spilled);
		at = far->at[i];
	}
	buf_put(&o->out, json->data + at, json->len - at);
}

int
outlet_next(struct outlet *o, char piece[OUTLET_PIECE], const char **p,
    size_t *n, struct error *err)
{
	struct outlet_far *f = o->first;
	uint64_t left;

	*n = 0;
	if (f == NULL || f->at > o->went) {
		*p = outlet_held(o) > 0 ? o->out.data + o->gone : "";
		*n = outlet_held(o);
		if (f != NULL && f->at - o->went < *n)
			*n = (size_t)(f->at - o->went);
		return 0;
	}
	left = f->spilled->len - f->sent;
	*p = piece;
	*n = left < OUTLET_PIECE ? (size_t)left : OUTLET_PIECE;
	return spilled_read(f->spilled, f->sent, piece, *n, err);
}

void
outlet_took(struct outlet *o, size_t n)
{
	struct outlet_far *f = o->first;

	if (f != NULL && f->at == o->went) {
		f->sent += n;
		if (f->sent == f->spilled->len)
			drop_first(o);
		return;
	}
	o->gone += n;
	o->went += n;
	/* Not each time: what is left has to be moved. */
	if (o->gone >= outlet_held(o)) {
		buf_drop(&o->out, o->gone);
		o->gone = 0;
	}
}
