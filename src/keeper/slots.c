// SPDX-License-Identifier: Apache-2.0
//
// slots: see slots.h.  Runs in the keeper.

#include "keeper/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "keeper/subids.h"

enum { RANGES = 1024 };

static bool has_capability(cap_value_t cap)
{
    cap_flag_value_t value = CAP_CLEAR;
    cap_t all = cap_get_proc();
    if (all) {
        (void)cap_get_flag(all, cap, CAP_EFFECTIVE, &value);
        (void)cap_free(all);
    }
    return value == CAP_SET;
}

// Inside a container only some host ids exist.
static bool is_mapped(const char *map, uint64_t first, uint64_t count)
{
    _cleanup_fclose_ FILE *f = fopen(map, "re");
    uint64_t inside, outside, length;
    while (f && fscanf(f, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &length) == 3)
        if (first >= inside && first + count <= inside + length)
            return true;
    return false;
}

// ---- the lock -----------------------------------------------------------------------------------

static int open_lock(struct err *e)
{
    static const char folder[] = "/run/constrictor", path[] = "/run/constrictor/uids";
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return err_set(e, ERR_SYSTEM, errno, NULL, "make '%s'", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_set(e, ERR_SYSTEM, errno, NULL, "open '%s'", path) : fd;
}

// The holder's pid is in the file, at an offset that two ranges without overlap never share.
static off_t note_at(uint64_t first)
{
    return (off_t)(first / SLOTS * sizeof(pid_t));
}

// The bytes of the file are uids.  Ended by the close of the descriptor, or with the process.
// 0: taken, else the first uid of the range that is in the way, or a negative errno.
static int64_t lock_bytes(int fd, uint64_t first)
{
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)first, .l_len = SLOTS};
    if (fcntl(fd, F_OFD_SETLK, &range) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            return -errno;
        if (fcntl(fd, F_OFD_GETLK, &range) < 0)
            return -errno;
        return range.l_type == F_UNLCK ? (int64_t)first : (int64_t)range.l_start;
    }
    pid_t pid = getpid();
    return pwrite(fd, &pid, sizeof pid, note_at(first)) == sizeof pid ? 0 : -EIO;
}

static int no_range(int fd, uint32_t uid_base, int64_t used, struct err *e)
{
    pid_t pid = 0;
    char user[96] = "";
    if (used > 0) {
        (void)!pread(fd, &pid, sizeof pid, note_at((uint64_t)used));
        snprintf(user, sizeof user, "; process %d uses those from %lld on", pid, (long long)used);
    }
    return err_set(
        e, ERR_LAYER_MISSING, 0,
        used > 0 ? "choose another --uid-base, or end that server"
                 : "start it as an ordinary user, whose boxes need one uid; or map more ids into "
                   "this container and name them with --uid-base",
        "layer 'uid': no free range of %d host uids from %u on%s", SLOTS, uid_base, user);
}

static int lock_range(struct slots *s, uint32_t uid_base, struct err *e)
{
    int64_t used = 0;
    _cleanup_close_ int fd = -1;
    for (uint64_t i = 0; i < RANGES; i++) {
        uint64_t first = uid_base + i * SLOTS;
        if (first + SLOTS > UINT32_MAX || !is_mapped("/proc/self/uid_map", first, SLOTS) ||
            !is_mapped("/proc/self/gid_map", first, SLOTS))
            break;
        // Not before: a process without ids may not be the root of this folder either.
        if (fd < 0 && (fd = open_lock(e)) < 0)
            return fd;
        used = lock_bytes(fd, first);
        if (used < 0)
            return err_set(e, ERR_SYSTEM, (int)-used, NULL, "lock a range of uids");
        if (used == 0) {
            s->lock_fd = TAKE_FD(fd);
            s->uid_first = s->gid_first = first;
            s->uid_count = SLOTS;
            return 0;
        }
    }
    return no_range(fd, uid_base, used, e);
}

// SECURITY: the machine's own ids below 65536 are those of its users and services.  A pod with a
// user namespace has 65536 ids, which no other pod has, and boxes get a part of those.
static int check_base(uint32_t uid_base, struct err *e)
{
    enum { USERS = 65536 };
    if (uid_base >= USERS || !is_mapped("/proc/self/uid_map", 0, UINT32_MAX))
        return 0;
    return err_set(e, ERR_BAD_VALUE, 0, "choose a number from 65536 on",
                   "uid-base: the ids from %u on belong to users of this machine", uid_base);
}

int slots_open(struct slots *s, uint32_t uid_base, struct err *e)
{
    *s = (struct slots){
        .lock_fd = -1, .uid_first = geteuid(), .gid_first = getegid(), .uid_count = 1};
    for (int slot = SLOT_BOXES; slot > 0; slot--)
        s->free[s->free_count++] = (uint16_t)slot;
    // Check for the capabilities that are needed, not for root.
    if (has_capability(CAP_SETUID) && has_capability(CAP_SETGID))
        return check_base(uid_base, e) < 0 ? -1 : lock_range(s, uid_base, e);
    if (geteuid() == 0)
        return err_set(e, ERR_LAYER_MISSING, 0,
                       "give it CAP_SETUID and CAP_SETGID, or start it as an ordinary user",
                       "layer 'uid': root without CAP_SETUID would run boxes as the host's root");
    return 0;
}

void slots_close(struct slots *s)
{
    fd_close(&s->lock_fd);
}

// ---- subordinate ids ----------------------------------------------------------------------------

// In a folder of this user; without one in /tmp, where the file has to be ours.
static int open_own_lock(void)
{
    char path[PATH_MAX];
    struct stat st;
    const char *folder = getenv("XDG_RUNTIME_DIR");
    if (folder && folder[0] == '/')
        snprintf(path, sizeof path, "%s/constrictor-uids", folder);
    else
        snprintf(path, sizeof path, "/tmp/constrictor-uids-%u", (unsigned)geteuid());
    _cleanup_close_ int fd =
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return -1;
    return TAKE_FD(fd);
}

bool slots_delegate(struct slots *s, char *why, char *fix, size_t cap)
{
    struct subids ids;
    if (!subids_find(&ids, SLOTS, why, fix, cap))
        return false;
    _cleanup_close_ int fd = open_own_lock();
    for (uint64_t at = 0; fd >= 0 && at + SLOTS <= ids.count; at += SLOTS) {
        if (lock_bytes(fd, ids.uid_first + at) != 0)
            continue; // another server of this user has it
        s->lock_fd = TAKE_FD(fd);
        s->uid_first = ids.uid_first + at - 1; // slot 1 has the first of them
        s->gid_first = ids.gid_first + at - 1;
        s->uid_count = SLOTS;
        s->delegated = true;
        return true;
    }
    snprintf(why, cap,
             fd < 0 ? "the lock of its subordinate ids cannot be opened"
                    : "other servers of this user have all of its subordinate ids");
    snprintf(fix, cap, fd < 0 ? "set XDG_RUNTIME_DIR" : "end one, or give this user more ids");
    return false;
}

void slots_forgo(struct slots *s)
{
    fd_close(&s->lock_fd);
    s->uid_first = geteuid();
    s->gid_first = getegid();
    s->uid_count = 1;
    s->delegated = false;
}

bool slots_have_uids(const struct slots *s)
{
    return s->uid_count > 1;
}

bool slots_may_give(const struct slots *s)
{
    return s->uid_count > 1 && !s->delegated;
}

int slots_take(struct slots *s)
{
    return s->free_count ? s->free[--s->free_count] : -1;
}

void slots_give(struct slots *s, int slot)
{
    s->free[s->free_count++] = (uint16_t)slot;
}
