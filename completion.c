/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "buf.h"
#include "completion.h"
#include "config.h"
#include "error.h"

static void
words(struct buf *out, const char *const *commands)
{
	size_t n;
	const struct setting *row = config_rows(&n);

	for (; *commands != NULL; commands++)
		buf_printf(out, "%s ", *commands);
	for (size_t i = 0; i < n; i++)
		if (row[i].flag != NULL)
			buf_printf(out, "%s--%s", i > 0 ? " " : "",
			    row[i].flag);
}

/* Help goes between single quotes. */
static void
quoted(struct buf *out, const char *help)
{
	for (; *help != '\0'; help++)
		if (*help == '\'')
			buf_puts(out, "'\\''");
		else
			buf_put(out, help, 1);
}

static void
bash(struct buf *out, const char *const *commands)
{
	buf_puts(out, "complete -o default -W '");
	words(out, commands);
	buf_puts(out, "' mcp-sandbox\n");
}

static void
zsh(struct buf *out, const char *const *commands)
{
	buf_puts(out, "#compdef mcp-sandbox\n"
	    "compadd -- ");
	words(out, commands);
	buf_puts(out, "\n_files\n");
}

static void
fish(struct buf *out, const char *const *commands)
{
	size_t n;
	const struct setting *row = config_rows(&n);

	buf_puts(out, "complete -c mcp-sandbox -n __fish_use_subcommand -a '");
	for (; *commands != NULL; commands++)
		buf_printf(out, "%s%s", *commands, commands[1] != NULL ? " " :
		    "'\n");
	for (size_t i = 0; i < n; i++) {
		if (row[i].flag == NULL)
			continue;
		buf_printf(out, "complete -c mcp-sandbox -l %s", row[i].flag);
		if (row[i].letter != 0)
			buf_printf(out, " -s %c", row[i].letter);
		if (row[i].type != SET_FLAG)
			buf_puts(out, " -r");
		if (row[i].help != NULL) {
			buf_puts(out, " -d '");
			quoted(out, row[i].help);
			buf_puts(out, "'");
		}
		buf_puts(out, "\n");
	}
}

int
completion_write(struct buf *out, const char *shell,
    const char *const *commands, struct error *err)
{
	static const struct {
		const char *name;
		void (*write)(struct buf *, const char *const *);
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (strcmp(shell, shells[i].name) == 0) {
			shells[i].write(out, commands);
			return 0;
		}
	return error_set(err, ERR_CONFIG, "completion: '%.40s' is no shell we "
	    "know; there are bash, zsh and fish", shell);
}
