/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - follow objects of one collection (Kubernetes API concepts, "watch").
 *
 * path is the collection with its selectors, without watch parameters. From
 * version on (NULL or "": synthetic ADDED for what exists, then changes).
 * Each event is EVENT_OBJECT. Bookmarks are used and not reported. When the
 * server ends the stream, or the connection breaks, it goes on from the last
 * version seen, after a pause with jitter; after 410 (as status or as ERROR
 * event) from scratch, with synthetic ADDED again. EVENT_END comes only for
 * what will not pass by itself: 400, 401, 403, 404, TLS, or LIMIT_RETRIES
 * failures in a row without one event.
 */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>

#include "event.h"

struct k8s;
struct watch;

struct watch *watch_open(struct k8s *k, const char *path, const char *version,
    event_fn *fn, void *arg);
/* It does not go on: whatever ends its stream is EVENT_END. */
void watch_once(struct watch *w);
/* Has something come that was not told yet? It is told in the next turn. */
bool watch_unread(const struct watch *w);
void watch_close(struct watch *w);	/* NULL is fine */

#endif
