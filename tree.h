/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree - a YAML 1.1 or JSON document as nodes, bounded; read with libyaml.
 *
 * One document, at most TREE_DEPTH levels and TREE_NODES nodes. An alias is
 * refused, so a small text stays a small tree. A node is an index; 0 is the
 * root, and "none" wherever a child is asked for. Errors are ERR_CONFIG and
 * read "FILE:LINE: what"; they quote keys, never values.
 */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

enum { TREE_DEPTH = 24, TREE_NODES = 50000 };

enum tree_kind { TREE_SCALAR, TREE_MAP, TREE_LIST };

struct tree_node {
	enum tree_kind kind;
	bool plain;		/* a scalar without quotes */
	unsigned line;
	char *text;		/* a scalar's, NUL-terminated; else NULL */
	unsigned child;		/* the first; of a map: key, value, key, ... */
	unsigned last;
	unsigned next;
};

struct tree {
	const char *file;	/* borrowed */
	struct tree_node *nodes;
	unsigned n, cap;
};

int tree_parse(struct tree *t, const char *file, const char *text, size_t len,
    struct error *err);
void tree_free(struct tree *t);		/* scalars are wiped */

/* "FILE:LINE: ..." with the line of a node; returns -1. */
int tree_error(const struct tree *t, unsigned node, struct error *err,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * The value of a key in a map; 0 when it is absent or null. -1: not a map, or
 * the key is there twice, of which other readers take either.
 */
int tree_get(const struct tree *t, unsigned map, const char *key,
    unsigned *value, struct error *err);
/* As tree_get(), for a value that must be a scalar. */
int tree_str(const struct tree *t, unsigned map, const char *key,
    unsigned *value, struct error *err);
const char *tree_text(const struct tree *t, unsigned value);	/* 0: NULL */
/* true or false without quotes; false when absent. */
int tree_bool(const struct tree *t, unsigned map, const char *key, bool *b,
    struct error *err);

#endif
