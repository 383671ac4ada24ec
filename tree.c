/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "error.h"
#include "tree.h"

/* The containers that are open, innermost last. */
struct path {
	unsigned open[TREE_DEPTH];
	unsigned n;
};

static int
line_error(const struct tree *t, size_t line, struct error *err,
    const char *what)
{
	return error_set(err, ERR_CONFIG, "%s:%zu: %s", t->file, line, what);
}

int
tree_error(const struct tree *t, unsigned node, struct error *err,
    const char *fmt, ...)
{
	char what[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(what, sizeof(what), fmt, ap) < 0)
		what[0] = '\0';
	va_end(ap);
	return line_error(t, t->nodes[node].line, err, what);
}

static int
no_memory(const struct tree *t, struct error *err)
{
	return error_set(err, ERR_SYSTEM, "%s: no memory", t->file);
}

/* Linked to what is open, with no room for children until they come. */
static int
node_add(struct tree *t, const struct path *p, enum tree_kind kind,
    size_t line, struct error *err)
{
	struct tree_node *grown, *in;
	unsigned cap;

	if (t->n == TREE_NODES)
		return line_error(t, line, err, "too many entries");
	if (t->n == t->cap) {
		cap = t->cap != 0 ? 2 * t->cap : 64;
		grown = realloc(t->nodes, cap * sizeof(*grown));
		if (grown == NULL)
			return no_memory(t, err);
		t->nodes = grown;
		t->cap = cap;
	}
	t->nodes[t->n] = (struct tree_node){ .kind = kind,
	    .line = (unsigned)line };
	if (p->n != 0) {
		in = &t->nodes[p->open[p->n - 1]];
		if (in->child == 0)
			in->child = t->n;
		else
			t->nodes[in->last].next = t->n;
		in->last = t->n;
	}
	t->n++;
	return 0;
}

static int
scalar_add(struct tree *t, const struct path *p, const yaml_event_t *ev,
    size_t line, struct error *err)
{
	const void *value = ev->data.scalar.value;
	size_t len = ev->data.scalar.length;
	struct tree_node *node;

	/* Everybody from here on reads C strings, and would see half of it. */
	if (memchr(value, '\0', len) != NULL)
		return line_error(t, line, err, "a NUL character");
	if (node_add(t, p, TREE_SCALAR, line, err) == -1)
		return -1;
	node = &t->nodes[t->n - 1];
	node->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	if ((node->text = malloc(len + 1)) == NULL)
		return no_memory(t, err);
	memcpy(node->text, value, len);
	node->text[len] = '\0';
	return 0;
}

static int
container_add(struct tree *t, struct path *p, enum tree_kind kind,
    size_t line, struct error *err)
{
	if (p->n == TREE_DEPTH)
		return line_error(t, line, err, "nested too deep");
	if (node_add(t, p, kind, line, err) == -1)
		return -1;
	p->open[p->n++] = t->n - 1;
	return 0;
}

static int
event_take(struct tree *t, struct path *p, const yaml_event_t *ev,
    struct error *err)
{
	size_t line = ev->start_mark.line + 1;

	switch (ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (t->n != 0)
			return line_error(t, line, err,
			    "a second document begins here; only one is read");
		return 0;
	case YAML_SCALAR_EVENT:
		return scalar_add(t, p, ev, line, err);
	case YAML_MAPPING_START_EVENT:
		return container_add(t, p, TREE_MAP, line, err);
	case YAML_SEQUENCE_START_EVENT:
		return container_add(t, p, TREE_LIST, line, err);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		p->n--;
		return 0;
	case YAML_ALIAS_EVENT:
		/* Nine lines of aliases to aliases are a billion nodes. */
		return line_error(t, line, err,
		    "an alias (*name) is not read here; write the value out");
	default:
		return 0;
	}
}

/* libyaml knows the line of what it could parse, else only the offset. */
static int
syntax_error(const struct tree *t, const yaml_parser_t *parser,
    const char *text, size_t len, struct error *err)
{
	const char *problem = parser->problem;
	size_t i, line = parser->problem_mark.line + 1;

	if (parser->error == YAML_MEMORY_ERROR)
		return no_memory(t, err);
	if (parser->error == YAML_READER_ERROR) {
		line = 1;
		for (i = 0; i < len && i < parser->problem_offset; i++)
			line += text[i] == '\n';
	}
	if (problem == NULL)
		problem = "neither YAML nor JSON";
	return line_error(t, line, err, problem);
}

int
tree_parse(struct tree *t, const char *file, const char *text, size_t len,
    struct error *err)
{
	struct path path = { .n = 0 };
	yaml_parser_t parser;
	yaml_event_t ev;
	bool end = false;
	int r = 0;

	*t = (struct tree){ .file = file };
	if (!yaml_parser_initialize(&parser))
		return no_memory(t, err);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	while (r == 0 && !end) {
		if (!yaml_parser_parse(&parser, &ev)) {
			r = syntax_error(t, &parser, text, len, err);
			break;
		}
		r = event_take(t, &path, &ev, err);
		end = ev.type == YAML_STREAM_END_EVENT;
		/* It may be a key or a token, and goes back to the heap. */
		if (ev.type == YAML_SCALAR_EVENT)
			explicit_bzero(ev.data.scalar.value,
			    ev.data.scalar.length);
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&parser);
	if (r == 0 && t->n == 0)
		r = error_set(err, ERR_CONFIG, "%s: empty", file);
	if (r == -1)
		tree_free(t);
	return r;
}

void
tree_free(struct tree *t)
{
	unsigned i;

	for (i = 0; i < t->n; i++) {
		if (t->nodes[i].text == NULL)
			continue;
		explicit_bzero(t->nodes[i].text, strlen(t->nodes[i].text));
		free(t->nodes[i].text);
	}
	free(t->nodes);
	*t = (struct tree){ .file = NULL };
}

/* YAML 1.1's words for it; kubectl writes "users: null" for none. */
static bool
is_null(const struct tree_node *node)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };
	size_t i;

	if (node->kind != TREE_SCALAR || !node->plain)
		return false;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(node->text, words[i]) == 0)
			return true;
	return false;
}

int
tree_get(const struct tree *t, unsigned map, const char *key, unsigned *value,
    struct error *err)
{
	unsigned k, v;
	bool seen = false;

	*value = 0;
	if (t->nodes[map].kind != TREE_MAP)
		return tree_error(t, map, err, "%s is looked for here, but "
		    "this is not a mapping", key);
	for (k = t->nodes[map].child; k != 0; k = t->nodes[v].next) {
		v = t->nodes[k].next;
		if (t->nodes[k].kind != TREE_SCALAR ||
		    strcmp(t->nodes[k].text, key) != 0)
			continue;
		if (seen)
			return tree_error(t, k, err, "%s is here twice", key);
		seen = true;
		if (!is_null(&t->nodes[v]))
			*value = v;
	}
	return 0;
}

int
tree_str(const struct tree *t, unsigned map, const char *key, unsigned *value,
    struct error *err)
{
	if (tree_get(t, map, key, value, err) == -1)
		return -1;
	if (*value != 0 && t->nodes[*value].kind != TREE_SCALAR)
		return tree_error(t, *value, err, "%s must be a string", key);
	return 0;
}

const char *
tree_text(const struct tree *t, unsigned value)
{
	return value != 0 ? t->nodes[value].text : NULL;
}

/*
 * YAML 1.1 has yes and on as well, newer readers take them for strings, so
 * that a file with them means one thing here and another there.
 */
int
tree_bool(const struct tree *t, unsigned map, const char *key, bool *b,
    struct error *err)
{
	unsigned v;

	*b = false;
	if (tree_get(t, map, key, &v, err) == -1)
		return -1;
	if (v == 0)
		return 0;
	if (t->nodes[v].kind == TREE_SCALAR && t->nodes[v].plain) {
		*b = strcasecmp(t->nodes[v].text, "true") == 0;
		if (*b || strcasecmp(t->nodes[v].text, "false") == 0)
			return 0;
	}
	return tree_error(t, v, err, "%s must be true or false", key);
}
