// SPDX-License-Identifier: Apache-2.0
//
// stdio_take: reserves stdin and stdout for the protocol.  Runs in the first process.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "mcp/transport/stdio.h"

// SECURITY: O_NONBLOCK belongs to the open file, which the client or a shell may share.  So a pipe
// is opened again, and a socket uses MSG_DONTWAIT.
static int open_again(int fd)
{
    char path[32];
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int again = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (again >= 0)
            return again;
        (void)fd_set_nonblock(fd, true); // a pipe of another user
    }
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int mcp_stdio_take(int *ret_in, int *ret_out, struct err *e)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), in = fcntl(0, F_DUPFD_CLOEXEC, 3),
        out = open_again(1);
    if (null < 0 || in < 0 || out < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0) {
        int r = err_set(e, ERR_SYSTEM, errno, NULL, "take stdin and stdout for the protocol");
        fd_close(&in);
        fd_close(&out);
        fd_close(&null);
        return r;
    }
    fd_close(&null);
    *ret_in = in;
    *ret_out = out;
    return 0;
}
