/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack-relr FILE - what "ld -z pack-relative-relocs" does, for machines whose
 * linker has not learnt it: the relative relocations of a static PIE become
 * DT_RELR (generic ELF ABI), mostly a bit for 24 bytes. What that saves is cut
 * out of the file in whole pages: addresses stay, but those of the headers
 * before, which move up. A program without DT_RELA is left alone.
 */
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* C libraries of today have no name for some of these. */
enum { TAG_RELRSZ = 35, TAG_RELR = 36, TAG_RELRENT = 37, TYPE_RELR = 19 };

struct program {
	const char *name;
	unsigned char *data;
	size_t len;
	Elf64_Ehdr *head;
	Elf64_Phdr *segments;
	Elf64_Dyn *dynamic;
	Elf64_Addr rela;
	size_t rela_off, rela_len;
	unsigned char *relr;		/* grows; at most as long as rela */
	size_t relr_len, cut;
};

static void
fail(const struct program *p, const char *why)
{
	fprintf(stderr, "pack-relr: %s: %s\n", p->name, why);
	exit(1);
}

static void
load(struct program *p)
{
	FILE *f = fopen(p->name, "rb");
	size_t size = 64 << 20;

	if (f == NULL || (p->data = malloc(size)) == NULL)
		fail(p, "can't be read");
	p->len = fread(p->data, 1, size, f);
	if (ferror(f) || !feof(f) || fclose(f) != 0)
		fail(p, "can't be read");
	p->head = (void *)p->data;
	if (p->len < sizeof(*p->head) ||
	    memcmp(p->head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    p->head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    p->head->e_type != ET_DYN)
		fail(p, "is no position-independent program of 64 bits");
	p->segments = (void *)(p->data + p->head->e_phoff);
}

/* Where an address is in the file. */
static size_t
offset(const struct program *p, Elf64_Addr at)
{
	for (size_t i = 0; i < p->head->e_phnum; i++) {
		const Elf64_Phdr *s = &p->segments[i];

		if (s->p_type == PT_LOAD && at >= s->p_vaddr &&
		    at - s->p_vaddr + 8 <= s->p_filesz)
			return s->p_offset + (at - s->p_vaddr);
	}
	fail(p, "an address is not in the file");
	return 0;
}

static bool
find_rela(struct program *p)
{
	for (size_t i = 0; i < p->head->e_phnum; i++)
		if (p->segments[i].p_type == PT_DYNAMIC)
			p->dynamic = (void *)(p->data +
			    p->segments[i].p_offset);
	if (p->dynamic == NULL)
		fail(p, "has no dynamic section");
	for (const Elf64_Dyn *d = p->dynamic; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_RELA)
			p->rela = d->d_un.d_ptr;
		else if (d->d_tag == DT_RELASZ)
			p->rela_len = d->d_un.d_val;
	if (p->rela_len == 0)
		return false;
	p->rela_off = offset(p, p->rela);
	return true;
}

static void
put(struct program *p, Elf64_Xword word)
{
	memcpy(p->relr + p->relr_len, &word, sizeof(word));
	p->relr_len += sizeof(word);
}

/* An address, then words of 63 bits: which of the next 63 places, too. */
static void
pack(struct program *p)
{
	const Elf64_Rela *r = (const void *)(p->data + p->rela_off);
	const Elf64_Rela *end = r + p->rela_len / sizeof(*r);
	const Elf64_Xword relative = p->head->e_machine == EM_AARCH64 ?
	    R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	Elf64_Addr next = 0;
	Elf64_Xword word;

	if ((p->relr = calloc(1, p->rela_len)) == NULL)
		fail(p, "out of memory");
	for (const Elf64_Rela *q = r; q < end; q++) {
		if (q->r_info != relative || q->r_offset % 8 != 0 ||
		    (q > r && q->r_offset <= q[-1].r_offset))
			fail(p, "a relocation is not of the kind to pack");
		memcpy(p->data + offset(p, q->r_offset), &q->r_addend, 8);
	}
	while (r < end) {
		word = 0;
		while (next != 0 && r < end && r->r_offset < next + 63 * 8)
			word |= (Elf64_Xword)1 << ((r++->r_offset - next) / 8);
		if (word != 0) {
			put(p, word << 1 | 1);
			next += 63 * 8;
		} else {
			next = r++->r_offset;
			put(p, next);
			next += 8;
		}
	}
}

/* In place: the tags are fewer, and what lay before has moved up. */
static void
tag(struct program *p)
{
	Elf64_Dyn *to = p->dynamic;

	for (const Elf64_Dyn *d = p->dynamic; d->d_tag != DT_NULL; d++) {
		*to = *d;
		switch (d->d_tag) {
		case DT_RELA:
			*to = (Elf64_Dyn){ TAG_RELR, { p->rela + p->cut } };
			break;
		case DT_RELASZ:
			*to = (Elf64_Dyn){ TAG_RELRSZ, { p->relr_len } };
			break;
		case DT_RELAENT:
			*to = (Elf64_Dyn){ TAG_RELRENT, { 8 } };
			break;
		case DT_RELACOUNT:
			continue;
		case DT_HASH: case DT_GNU_HASH: case DT_STRTAB: case DT_SYMTAB:
			if (d->d_un.d_ptr < p->rela)
				to->d_un.d_ptr += p->cut;
			break;
		}
		to++;
	}
	memset(to, 0, sizeof(*to));
}

static void
move_segments(struct program *p)
{
	Elf64_Xword page = 1;

	for (size_t i = 0; i < p->head->e_phnum; i++)
		if (p->segments[i].p_type == PT_LOAD &&
		    p->segments[i].p_align > page)
			page = p->segments[i].p_align;
	p->cut = (p->rela_len - p->relr_len) / page * page;
	tag(p);
	for (size_t i = 0; i < p->head->e_phnum; i++) {
		Elf64_Phdr *s = &p->segments[i];

		if (s->p_offset > p->rela_off) {
			s->p_offset -= p->cut;
		} else if (s->p_type == PT_LOAD) {
			s->p_vaddr += p->cut;
			s->p_paddr += p->cut;
			s->p_filesz -= p->cut;
			s->p_memsz -= p->cut;
		} else if (s->p_filesz > 0) {
			fail(p, "a segment lies before the relocations");
		}
	}
}

static void
move_sections(struct program *p)
{
	Elf64_Shdr *s = (void *)(p->data + p->head->e_shoff);

	for (size_t i = 1; i < p->head->e_shnum; i++, s++)
		if (s[1].sh_offset > p->rela_off) {
			s[1].sh_offset -= p->cut;
		} else {
			s[1].sh_addr += p->cut;
			if (s[1].sh_type != SHT_RELA)
				continue;
			s[1].sh_type = TYPE_RELR;
			s[1].sh_size = p->relr_len;
			s[1].sh_entsize = 8;
			s[1].sh_link = 0;
		}
	p->head->e_shoff -= p->cut;
}

static void
save(const struct program *p)
{
	FILE *f = fopen(p->name, "wb");
	size_t rest = p->rela_off + p->rela_len;
	size_t kept = p->rela_len - p->cut;

	if (f == NULL || fwrite(p->data, 1, p->rela_off, f) != p->rela_off ||
	    fwrite(p->relr, 1, kept, f) != kept ||
	    fwrite(p->data + rest, 1, p->len - rest, f) != p->len - rest ||
	    fclose(f) != 0)
		fail(p, "can't be written");
}

int
main(int argc, char *argv[])
{
	struct program p = { .name = argc == 2 ? argv[1] : "" };

	load(&p);
	if (!find_rela(&p))
		return 0;
	pack(&p);
	move_segments(&p);
	move_sections(&p);
	save(&p);
	return 0;
}
