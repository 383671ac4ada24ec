/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agents.h"

/*
 * The build names the packed files (AGENT_AMD64, AGENT_ARM64); the assembler
 * takes them in as they are.
 */
#define CARRY(name, file)						\
	__asm__(".pushsection .rodata\n"				\
	    ".balign 16\n"						\
	    #name ": .incbin \"" file "\"\n"				\
	    #name "_end:\n"						\
	    ".popsection\n");						\
	extern const char name[] __attribute__((visibility("hidden")));	\
	extern const char name##_end[] __attribute__((visibility("hidden")))

#ifdef AGENT_AMD64
CARRY(agents_amd64, AGENT_AMD64);
#endif
#ifdef AGENT_ARM64
CARRY(agents_arm64, AGENT_ARM64);
#endif

static const struct {
	const char *machine;
	const char *start, *end;
} rows[] = {
#ifdef AGENT_AMD64
	{ "x86_64", agents_amd64, agents_amd64_end },
#endif
#ifdef AGENT_ARM64
	{ "aarch64", agents_arm64, agents_arm64_end },
#endif
	{ NULL, NULL, NULL },
};

const void *
agents_find(const char *machine, size_t *len)
{
	for (size_t i = 0; rows[i].machine != NULL; i++)
		if (strcmp(rows[i].machine, machine) == 0) {
			*len = (size_t)(rows[i].end - rows[i].start);
			return rows[i].start;
		}
	return NULL;
}
