/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet - how two connections of one server meet, for the transport of MCP
 * 2024-11-05: answers go out on one, requests come in on others, and each is
 * in a process of its own.
 *
 * The process that listens has a socket to each of them, and passes on
 * descriptors, never a client's bytes: a stream says what its name is, a
 * request sends one end of a pair to that name, and both talk over the pair.
 * A pair whose other end is closed without a word was for nobody.
 */
#ifndef MEET_H
#define MEET_H

#include <stdbool.h>
#include <stddef.h>

enum { MEET_NAME_SIZE = 33 };		/* 32 hexadecimal digits and a NUL */

/* A socket between the listening process and a new one. -1: errno. */
int meet_pair(int fds[2]);

/* A new name, that nobody can guess. False: no randomness. */
bool meet_name(char name[MEET_NAME_SIZE]);
bool meet_is_name(const char *text);

/* What is sent: "I am name", or, with a descriptor, "give it to name". The
 * descriptor stays open. False: it could not be sent. */
bool meet_send(int to, const char name[MEET_NAME_SIZE], int fd);

/*
 * What was sent, into name; *fd is -1 or a descriptor that is the caller's now.
 * 1; 0: nothing is there; -1: the other side has gone, or talks nonsense.
 */
int meet_recv(int from, char name[MEET_NAME_SIZE], int *fd);

#endif
