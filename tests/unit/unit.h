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
#include <sys/socket.h>

#include "base/cleanup.h"

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
static inline void unit_send_raw(int sock, const void *data, size_t len, const int *fds,
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
    assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), len);
}

#endif
