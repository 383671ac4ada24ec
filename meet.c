/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meet.h"

enum { NAME = MEET_NAME_SIZE - 1 };

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

int
meet_pair(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0, fds);
}

bool
meet_name(char name[MEET_NAME_SIZE])
{
	unsigned char raw[NAME / 2];

	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return false;
	for (size_t i = 0; i < sizeof(raw); i++)
		(void)snprintf(name + 2 * i, 3, "%02x", raw[i]);
	return true;
}

bool
meet_is_name(const char *text)
{
	return strspn(text, "0123456789abcdef") == NAME && text[NAME] == '\0';
}

bool
meet_send(int to, const char name[MEET_NAME_SIZE], int fd)
{
	char text[NAME];
	struct iovec v = { .iov_base = text, .iov_len = NAME };
	union control c;
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	memcpy(text, name, NAME);
	if (fd != -1) {
		memset(&c, 0, sizeof(c));
		m.msg_control = &c;
		m.msg_controllen = sizeof(c);
		c.head.cmsg_level = SOL_SOCKET;
		c.head.cmsg_type = SCM_RIGHTS;
		c.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&c.head), &fd, sizeof(int));
	}
	return sendmsg(to, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == NAME;
}

int
meet_recv(int from, char name[MEET_NAME_SIZE], int *fd)
{
	char text[MEET_NAME_SIZE];
	struct iovec v = { .iov_base = text, .iov_len = sizeof(text) };
	union control c;
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
	    .msg_control = &c, .msg_controllen = sizeof(c) };
	ssize_t n = recvmsg(from, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *h;

	*fd = -1;
	if (n == -1)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	/* One has room, so no more can have come. */
	if ((h = CMSG_FIRSTHDR(&m)) != NULL && h->cmsg_level == SOL_SOCKET &&
	    h->cmsg_type == SCM_RIGHTS &&
	    h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(h), sizeof(int));
	text[n == NAME ? NAME : 0] = '\0';
	if (meet_is_name(text)) {
		memcpy(name, text, MEET_NAME_SIZE);
		return 1;
	}
	if (*fd != -1)
		(void)close(*fd);
	*fd = -1;
	return -1;
}
