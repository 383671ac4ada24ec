/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream - a WebSocket to the API server: upgrade, frames, pings (RFC 6455).
 *
 * EVENT_OPEN, then EVENT_DATA for each message (channel is its first byte,
 * data the rest), then EVENT_END: err NULL only after a close frame with 1000
 * or without a code. A refused upgrade is EVENT_END with the server's words
 * and status. A ping goes out every LIMIT_PING_MS; two without an answer end
 * the stream with ERR_LOST.
 */
#ifndef STREAM_H
#define STREAM_H

#include <stddef.h>

#include "event.h"

struct k8s;
struct stream;

/* protocols: "v5.channel.k8s.io, v4.channel.k8s.io", preferred first. */
struct stream *stream_open(struct k8s *k, const char *path,
    const char *protocols, event_fn *fn, void *arg);
/*
 * NULL is fine. Returns at once and reports nothing more; says goodbye, and
 * goes on in the background, for 1.5 s at most, while there are bytes queued.
 */
void stream_close(struct stream *s);

/* Asking for it twice does no harm: an upgrade that was not answered is tried
 * again too. */
void stream_harmless(struct stream *s);

/* Queue one message. -1: no room (stream_room() says how many bytes fit) */
int stream_send(struct stream *s, unsigned channel, const void *data,
    size_t len);
size_t stream_room(const struct stream *s);
/* Stop or go on reading from the socket: backpressure. */
void stream_pause(struct stream *s, int paused);
/* Called when there is room again after stream_send() found none. */
void stream_on_room(struct stream *s, void (*room)(void *), void *arg);

#endif
