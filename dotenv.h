/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dotenv - the text of a .env file as "NAME=value" strings, without I/O.
 *
 * The syntax is python-dotenv's, as the original server reads it: a name, or
 * export and a name; a value bare (to the end of the line or a blank and #),
 * in single quotes (\' and \\ are escapes) or in double quotes (C's escapes),
 * both over several lines; ${NAME} and ${NAME:-default} stand for an earlier
 * value of the file, else the environment's.
 */
#ifndef DOTENV_H
#define DOTENV_H

#include <stddef.h>

struct error;

enum { DOTENV_MAX = 4096 };	/* names in a file */

/*
 * NULL at the end; of equal names the last counts and is the first found.
 * *bad: the number of the first line that is none of it and was left out, or
 * 0. NULL: no memory, or the file is too long. environ as main() has it.
 */
char **dotenv_parse(const char *text, size_t len, char *const environ[],
    unsigned *bad, struct error *err);
void dotenv_free(char **list);		/* NULL is fine */

#endif
