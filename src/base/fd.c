// SPDX-License-Identifier: Apache-2.0
//
// fd: see fd.h.  Used in every process.

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

void fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

int fd_send(int sock, const void *data, size_t len, const int *fds, size_t fd_count)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd_count > FD_PASS_MAX)
        return -EINVAL;
    if (fd_count) {
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EMSGSIZE;
}

ssize_t fd_recv(int sock, void *data, size_t len, int *ret_fds, size_t fd_cap, size_t *ret_fd_count)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof control.buf};
    ssize_t n;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;

    int got[FD_PASS_MAX];
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (count < FD_PASS_MAX)
                got[count++] = fd;
            else
                (void)close(fd);
        }
    }
    // SECURITY: a sender that adds descriptors must not fill our table: what was not asked for is
    // closed here, never kept.
    bool bad = (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || count > fd_cap;
    if (bad) {
        for (size_t i = 0; i < count; i++)
            (void)close(got[i]);
        return -EMSGSIZE;
    }
    for (size_t i = 0; i < count; i++)
        ret_fds[i] = got[i];
    if (ret_fd_count)
        *ret_fd_count = count;
    return n;
}

bool fd_is_scarce(int fd, int spare)
{
    struct rlimit l;
    // The lowest free number is taken, so all below are in use.
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || (rlim_t)fd + (rlim_t)spare < l.rlim_cur)
        return false;
    errno = EMFILE;
    return true;
}

int fd_write_sparse(int fd, const void *data, size_t len, uint64_t offset)
{
    const char *p = data;
    // Ends at the first byte that is not 0.
    if (len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0))
        return 0;
    while (len) {
        ssize_t n = pwrite(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ENOSPC;
        p += n;
        len -= (size_t)n;
        offset += (size_t)n;
    }
    return 0;
}

void fd_refuse_rights(int sock)
{
    enum { PASSRIGHTS = 83 }; // SO_PASSRIGHTS; not in every libc
    int no = 0;
    (void)setsockopt(sock, SOL_SOCKET, PASSRIGHTS, &no, sizeof no);
}

int fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}
