// SPDX-License-Identifier: Apache-2.0
//
// env_share: see env_share.h.  Runs in the gate.
//
// Invariant: this is the only descriptor of the file in this process: the kernel drops all locks
// that a process has on a file when it closes any of them.

#include "env/env_share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "keeper/state.h"

enum { BYTE_OPEN = 0, BYTE_WHEELS = 1, BYTE_SERVERS = 16, WAIT_MS = 10000, LOOK_MS = 10 };

static bool lock(const struct env_share *s, off_t first, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = 1};
    return fcntl(s->fd, F_SETLK, &l) == 0;
}

// By another process.
static bool is_locked(const struct env_share *s, off_t first, off_t count)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    return fcntl(s->fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

// FNV-1a, above the bytes with a fixed meaning.  Two environments with one hash wait for each
// other.
static off_t byte_of(const char *owner, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *parts[] = {owner, "/", name, NULL}, **part = parts; *part; part++)
        for (const char *c = *part; *c; c++)
            hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return (off_t)((hash >> 2) | UINT64_C(1) << 32);
}

int env_share_open(struct env_share *s, int folder, unsigned number, struct err *e)
{
    static const char hint[] = "see the server's log, or choose another folder with --state";
    struct stat st;
    int waited_ms = 0;
    *s = (struct env_share){.number = number};
    s->fd = openat(folder, "locks", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0660);
    if (s->fd < 0 || fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        int r = err_set(e, ERR_STATE_FOLDER, errno, hint, "open the locks of the environments");
        env_share_close(s);
        return r;
    }
    while (!lock(s, BYTE_OPEN, F_WRLCK) || !lock(s, BYTE_SERVERS + (off_t)number, F_WRLCK)) {
        if ((errno != EAGAIN && errno != EACCES) || waited_ms >= WAIT_MS) {
            int r =
                err_set(e, ERR_BUSY, errno, hint, "another server holds the list of environments");
            env_share_close(s);
            return r;
        }
        (void)usleep(LOOK_MS * 1000);
        waited_ms += LOOK_MS;
    }
    return 0;
}

void env_share_opened(const struct env_share *s)
{
    (void)lock(s, BYTE_OPEN, F_UNLCK);
}

void env_share_close(struct env_share *s)
{
    fd_close(&s->fd);
}

bool env_share_is_alone(const struct env_share *s)
{
    return !is_locked(s, BYTE_SERVERS, STATE_FOLDERS_MAX + 1);
}

bool env_share_is_alive(const struct env_share *s, unsigned number)
{
    return number <= STATE_FOLDERS_MAX && is_locked(s, BYTE_SERVERS + (off_t)number, 1);
}

bool env_share_wheels(const struct env_share *s, enum env_share_wheels how)
{
    static const short types[] = {
        [ENV_WHEELS_FREE] = F_UNLCK, [ENV_WHEELS_USE] = F_RDLCK, [ENV_WHEELS_REMOVE] = F_WRLCK};
    return lock(s, BYTE_WHEELS, types[how]);
}

bool env_share_take(const struct env_share *s, const char *owner, const char *name)
{
    return lock(s, byte_of(owner, name), F_WRLCK);
}

void env_share_give(const struct env_share *s, const char *owner, const char *name)
{
    (void)lock(s, byte_of(owner, name), F_UNLCK);
}

bool env_share_is_taken(const struct env_share *s, const char *owner, const char *name)
{
    return is_locked(s, byte_of(owner, name), 1);
}
