// SPDX-License-Identifier: Apache-2.0
//
// input: see input.h.  What is below the bar "init" runs as pid 1 and uses sys_raw() only, as in
// init.c.

#include "box/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "box/files.h"
#include "box/init.h"
#include "wire/frame.h"

#define NAME ".constrictor-stdin"
#define PATH FILES_ROOT "/" NAME

// ---- user process -------------------------------------------------------------------------------

static int early = -1;

static int make(int folder, const char *path)
{
    (void)unlinkat(folder, path, 0); // of a run that was cut off
    if (mknodat(folder, path, S_IFIFO | 0600, 0) < 0)
        return -errno;
    // O_NONBLOCK: do not wait for a writer here.
    int fd = openat(folder, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 || fcntl(fd, F_SETFL, 0) < 0 ? -errno : init_send(FRAME_WANT, NULL, 0);
    if (r == 0)
        init_send_wait(); // until init has opened it
    (void)unlinkat(folder, path, 0);
    if (r < 0 && fd >= 0)
        (void)close(fd);
    return r < 0 ? r : fd;
}

int input_make(void)
{
    int fd = early;
    early = -1;
    return fd >= 0 ? fd : make(AT_FDCWD, PATH);
}

void input_make_early(int writer)
{
    early = make(writer, NAME);
}

// ---- init ---------------------------------------------------------------------------------------

static int pipe_fd = -1;
static char frame[FRAME_DATA_MAX];
static size_t left, at; // bytes of the frame that are not in the pipe yet, and where they begin

int input_fd(void)
{
    return left ? pipe_fd : -1;
}

void input_close(void)
{
    if (pipe_fd >= 0)
        (void)sys_raw(SYS_close, pipe_fd, 0, 0, 0, 0, 0);
    pipe_fd = -1;
    left = 0;
}

// SECURITY: code of an earlier run may have put something else there.  Init has no more rights than
// that code has, and does not wait for what it opens.
bool input_open(void)
{
    input_close();
    long fd = sys_raw(SYS_openat, AT_FDCWD, (long)PATH,
                      O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
    pipe_fd = fd < 0 ? -1 : (int)fd;
    return fd >= 0 && init_send_frame(FRAME_WANT, 0, NULL, 0) == 0;
}

void input_write(void)
{
    long n = sys_raw(SYS_write, pipe_fd, (long)(frame + at), (long)left, 0, 0, 0);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) {
        input_close(); // EPIPE: nothing reads it any more
        return;
    }
    at += (size_t)n;
    left -= (size_t)n;
    if (!left)
        (void)init_send_frame(FRAME_WANT, 0, NULL, 0);
}

bool input_take(const char *data, size_t length)
{
    if (pipe_fd < 0)
        return true; // too late
    if (left || length > sizeof frame)
        return false;
    if (!length) {
        input_close();
        return true;
    }
    memcpy(frame, data, length);
    at = 0;
    left = length;
    input_write();
    return true;
}
