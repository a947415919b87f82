// SPDX-License-Identifier: Apache-2.0
//
// unit: what the unit tests share: cmocka with the headers it wants first, and a count of open
// descriptors, because a descriptor that is left open is a leak that no sanitizer sees.

#ifndef CONSTRICTOR_UNIT_H
#define CONSTRICTOR_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "wire/frame.h"

static inline int unit_fd_count(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

static inline void unit_socketpair(int ret[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret), 0);
}

// One datagram with descriptors, in any number, as a sender that does not use base/fd would.
// False: the other end refuses descriptors.
static inline bool unit_try_send(int sock, const void *data, size_t len, const int *fds,
                                 size_t count)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * 64)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count) {
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * count);
        for (size_t i = 0; i < count; i++)
            ((int *)(void *)CMSG_DATA(c))[i] = fds[i];
    }
    ssize_t n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    assert_true(n == (ssize_t)len || (count && n < 0 && errno == EPERM));
    return n == (ssize_t)len;
}

static inline void unit_send_raw(int sock, const void *data, size_t len, const int *fds,
                                 size_t count)
{
    assert_true(unit_try_send(sock, data, len, fds, count));
}

// What fd_refuse_rights() did is undone, as if the kernel were older than Linux 6.16.
static inline void unit_take_rights(int sock)
{
    enum { PASSRIGHTS = 83 };
    int yes = 1;
    (void)setsockopt(sock, SOL_SOCKET, PASSRIGHTS, &yes, sizeof yes);
}

// The next line that the code in a box prints to stdout, from the OUTPUT frames on its control
// socket.  One box at a time.  -1: there is none in time, or another frame, whose text is in `ret`.
static inline int unit_read_line(int control, char *ret, size_t cap, int guard_ms)
{
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK], text[2 * FRAME_CHUNK];
    static size_t have;
    static int whose = -1;
    if (whose != control)
        have = 0;
    whose = control;
    while (!memchr(text, '\n', have)) {
        struct frame_header h;
        struct pollfd p = {.fd = control, .events = POLLIN};
        ssize_t n = poll(&p, 1, guard_ms) == 1 ? recv(control, datagram, sizeof datagram, 0) : -1;
        size_t length = n < (ssize_t)sizeof h ? 0 : (size_t)n - sizeof h;
        memcpy(&h, datagram, sizeof h);
        if (!length || h.kind != FRAME_OUTPUT || h.flags || have + length > sizeof text) {
            length = length < cap ? length : cap - 1;
            memcpy(ret, datagram + sizeof h, length);
            ret[length] = '\0';
            whose = -1;
            return -1;
        }
        memcpy(text + have, datagram + sizeof h, length);
        have += length;
    }
    size_t line = (size_t)((char *)memchr(text, '\n', have) - text);
    size_t n = line < cap ? line : cap - 1;
    memcpy(ret, text, n);
    ret[n] = '\0';
    have -= line + 1;
    memmove(text, text + line + 1, have);
    return 0;
}

#endif
