/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a job as they are sent: short ones are in the pack, long ones
 * come from the stash in between. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "job.h"
#include "jobwire.h"

int
job_pack_long(struct job *j, const struct spill_span *span,
    const char *path, struct error *err)
{
	struct job_long *more = realloc(j->longs,
	    (j->nlong + 1) * sizeof(*more));

	if (more == NULL)
		return error_sys(err, "files");
	j->longs = more;
	more += j->nlong++;
	*more = (struct job_long){ .at = j->pack.len, .path = strdup(path) };
	if (more->path == NULL)
		return error_sys(err, "files");
	return content_open(&more->content, j->spilled, span, CONTENT_LOOSE,
	    false, err);
}

int
job_pack_measure(struct job *j, struct error *err)
{
	struct job_long *l = j->longs + j->measured;
	int r;

	if (j->measured == j->nlong)
		return 0;
	if ((r = content_measure(&l->content)) == 0)
		j->measured++;
	if (r != -1)
		return 1;
	if (l->content.err.code == ERR_INPUT)
		return error_set(err, ERR_INPUT, "invalid arguments: files: "
		    "content_b64 of %.200s is not base64", l->path);
	*err = l->content.err;
	return -1;
}

size_t
job_pack_len(const struct job *j)
{
	size_t len = j->pack.len, size;

	for (size_t i = 0; i < j->nlong; i++) {
		size = j->longs[i].content.size;
		len += size + (size + JOB_CAP - 1) / JOB_CAP * JOBWIRE_HEAD;
	}
	return len;
}

void
job_pack_rewind(struct job *j)
{
	j->given = 0;
	j->giving = 0;
	j->inside = false;
}

/* Of a long file: a record's head, or bytes of it. 0: it is over. */
static long
give_long(struct job *j, char *dst, size_t size)
{
	struct job_long *l = &j->longs[j->giving];
	long n;

	if (!j->inside) {
		content_rewind(&l->content);
		j->left = l->content.size;
		j->record = 0;
		j->inside = true;
	}
	if (j->left == 0) {
		content_rewind(&l->content);	/* its memory goes */
		j->inside = false;
		j->giving++;
		return 0;
	}
	if (j->record == 0) {
		j->record = j->left < JOB_CAP ? (size_t)j->left : JOB_CAP;
		jobwire_head(dst, 'D', j->record);
		return JOBWIRE_HEAD;
	}
	n = content_give(&l->content, dst, j->record < size ? j->record :
	    size);
	if (n <= 0)
		return -1;
	j->record -= (size_t)n;
	j->left -= (uint64_t)n;
	return n;
}

long
job_pack_give(struct job *j, char *dst, size_t size)
{
	size_t stop, n;
	long got;

	for (;;) {
		stop = j->giving < j->nlong ? j->longs[j->giving].at :
		    j->pack.len;
		n = stop - j->given;
		if (n > 0) {
			n = n < size ? n : size;
			memcpy(dst, j->pack.data + j->given, n);
			j->given += n;
			return (long)n;
		}
		if (j->giving == j->nlong)
			return 0;
		if ((got = give_long(j, dst, size)) != 0)
			return got;
	}
}

void
job_free(struct job *j)
{
	for (size_t i = 0; i < j->nlong; i++) {
		content_close(&j->longs[i].content);
		free(j->longs[i].path);
	}
	free(j->longs);
	j->longs = NULL;
	j->nlong = 0;
	buf_free(&j->pack);
}
