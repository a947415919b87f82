// SPDX-License-Identifier: Apache-2.0
//
// subids: see subids.h.  Runs in the keeper at its start, as an ordinary user.

#include "keeper/subids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "base/text.h"
#include "box/idmap.h"

// ---- which ids ----------------------------------------------------------------------------------

uint64_t subids_read(FILE *file, const char *user, uid_t uid, uint64_t *ret_first)
{
    char line[512], number[24];
    uint64_t best = 0, first, count;
    snprintf(number, sizeof number, "%u", (unsigned)uid);
    while (fgets(line, sizeof line, file)) {
        char *from = strchr(line, ':'), *many = from ? strchr(from + 1, ':') : NULL;
        if (!many)
            continue;
        *from++ = '\0';
        *many++ = '\0';
        many[strcspn(many, "\n")] = '\0';
        if (strcmp(line, number) != 0 && (!user[0] || strcmp(line, user) != 0))
            continue;
        // SECURITY: not the ids of the machine itself, and none that means "leave it as it is".
        if (text_parse_u64(from, 1000, UINT32_MAX, &first) < 0 ||
            text_parse_u64(many, best + 1, UINT32_MAX, &count) < 0 || first + count >= UINT32_MAX)
            continue;
        best = count;
        *ret_first = first;
    }
    return best;
}

// From the file alone: a name service might ask the network.
static void find_name(char *ret, size_t cap)
{
    _cleanup_fclose_ FILE *f = fopen("/etc/passwd", "re");
    ret[0] = '\0';
    for (const struct passwd *p; f && (p = fgetpwent(f));)
        if (p->pw_uid == geteuid()) {
            snprintf(ret, cap, "%s", p->pw_name);
            return;
        }
}

static uint64_t read_file(const char *path, const char *user, uint64_t *ret_first)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    return f ? subids_read(f, user, geteuid(), ret_first) : 0;
}

// ---- do they work -------------------------------------------------------------------------------

// A process in a namespace of its own, for the moment of a map.
static int try_map(const struct subids *s, uint64_t count, struct err *e)
{
    int hold[2];
    char c;
    if (pipe2(hold, O_CLOEXEC) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "pipe");
    struct sys_clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = sys_clone3(&args);
    if (pid == 0) {
        (void)close(hold[1]);
        (void)!read(hold[0], &c, 1);
        _exit(0);
    }
    int r = pid < 0 ? err_set(e, ERR_SYSTEM, errno, NULL, "clone") : 0;
    const struct idmap map = {.uid_first = s->uid_first - 1,
                              .gid_first = s->gid_first - 1,
                              .count = count,
                              .helped = true};
    if (r == 0)
        r = idmap_write(&map, (pid_t)pid, e);
    (void)close(hold[0]);
    (void)close(hold[1]);
    while (pid > 0 && waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

bool subids_find(struct subids *ret, uint64_t least, char *why, char *fix, size_t cap)
{
    char user[64];
    struct err e;
    *ret = (struct subids){0};
    find_name(user, sizeof user);
    const char *missing = idmap_missing_helper();
    if (missing) {
        snprintf(why, cap, "there is no '%s'", missing);
        snprintf(fix, cap,
                 "install the package uidmap (newuidmap and newgidmap), or start as root");
        return false;
    }
    uint64_t uids = read_file("/etc/subuid", user, &ret->uid_first);
    uint64_t gids = read_file("/etc/subgid", user, &ret->gid_first);
    ret->count = uids < gids ? uids : gids;
    if (ret->count < least) {
        snprintf(why, cap, "%s gives this user %llu ids, and it takes %llu",
                 uids < gids ? "/etc/subuid" : "/etc/subgid", (unsigned long long)ret->count,
                 (unsigned long long)least);
        snprintf(fix, cap,
                 "as root: usermod --add-subuids FIRST-LAST --add-subgids FIRST-LAST %s, with %llu "
                 "ids that are not in use; or start as root",
                 user[0] ? user : "USER", (unsigned long long)65536);
        return false;
    }
    if (try_map(ret, least, &e) == 0)
        return true;
    snprintf(why, cap, "%.300s",
             strncmp(e.message, "layer ", 6) == 0 ? strchr(e.message, ':') + 2 : e.message);
    snprintf(fix, cap, "%.300s", e.hint[0] ? e.hint : "start as root");
    return false;
}

// ---- can a box read it --------------------------------------------------------------------------

enum { DEPTH_MAX = 32, ENTRIES_MAX = 100000 };

static bool may_read(int parent, const char *name, unsigned depth, unsigned *left, char *ret,
                     size_t cap);

static bool may_read_folder(int fd, unsigned depth, unsigned *left, char *ret, size_t cap)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = copy < 0 ? NULL : fdopendir(copy);
    bool all = names != NULL;
    if (!names)
        fd_close(&copy);
    for (const struct dirent *d; all && *left && (d = readdir(names));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            all = may_read(fd, d->d_name, depth + 1, left, ret, cap);
    if (names)
        (void)closedir(names);
    return all;
}

static bool may_read(int parent, const char *name, unsigned depth, unsigned *left, char *ret,
                     size_t cap)
{
    struct stat st;
    *left -= 1;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT; // it went meanwhile
    if (S_ISLNK(st.st_mode))
        return true; // what it leads to is in the tree by itself, or not at all
    mode_t need = S_ISDIR(st.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
    bool all = (st.st_mode & need) == need;
    if (all && S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
        _cleanup_close_ int fd =
            openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        all = fd >= 0 && may_read_folder(fd, depth, left, ret, cap);
    }
    if (!all && !ret[0])
        snprintf(ret, cap, "%s", name);
    return all;
}

bool subids_may_read(const char *path, char *ret, size_t cap)
{
    struct stat st;
    char real[PATH_MAX];
    unsigned left = ENTRIES_MAX;
    ret[0] = '\0';
    if (lstat(path, &st) < 0 || !realpath(path, real))
        return true; // the jail says it better
    return may_read(AT_FDCWD, real, 0, &left, ret, cap);
}
