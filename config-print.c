/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "config.h"

static void
help_line(struct buf *out, const struct setting *row)
{
	char left[40], letter[5] = "   ";

	if (row->letter != 0)
		(void)snprintf(letter, sizeof(letter), "-%c,", row->letter);
	(void)snprintf(left, sizeof(left), "%s --%s%s%s", letter, row->flag,
	    row->arg != NULL ? " " : "", row->arg != NULL ? row->arg : "");
	buf_printf(out, "  %-24s %s\n", left, row->help);
}

void
config_help(struct buf *out)
{
	size_t n;
	const struct setting *rows = config_rows(&n);

	for (size_t i = 0; i < n; i++)
		if (rows[i].help != NULL)
			help_line(out, &rows[i]);
}

/* A value is one line of a file; what would end it, or the terminal's peace,
 * is not told. */
static void
line(struct buf *out, const char *before, const char *flag, const char *text)
{
	buf_printf(out, "%s%s =%s", before, flag, *text != '\0' ? " " : "");
	for (; *text != '\0'; text++)
		buf_put(out, (unsigned char)*text < ' ' || *text == 0x7f ?
		    "?" : text, 1);
	buf_puts(out, "\n");
}

static void
print_row(struct buf *out, const struct setting *row,
    const struct config_origin *from, const char *const *list)
{
	if (from->place == NULL) {
		line(out, "#", row->flag, row->def != NULL ? row->def :
		    row->type == SET_FLAG ? "false" : "");
		return;
	}
	buf_printf(out, "# %s", from->place);
	if (from->line > 0)
		buf_printf(out, ":%u", from->line);
	else
		buf_printf(out, ": %s%s", strchr(from->name, '_') == NULL ?
		    "--" : "", from->name);
	buf_puts(out, "\n");
	if (row->type == SET_SECRET)
		buf_printf(out, "#%s = (not told)\n", row->flag);
	else if (row->type == SET_LIST)
		for (; *list != NULL; list++)
			line(out, "", row->flag, *list);
	else
		line(out, "", row->flag, from->text);
}

void
config_print(const struct config *c, struct buf *out)
{
	size_t n;
	const struct setting *rows = config_rows(&n);

	for (size_t i = 0; i < n; i++)
		if (rows[i].env[0] != NULL)
			print_row(out, &rows[i], &c->origin[i],
			    (const void *)((const char *)c + rows[i].offset));
}
