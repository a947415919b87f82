// SPDX-License-Identifier: Apache-2.0
//
// shares: see shares.h.
//
// SECURITY: what stands in a shared folder goes to hostile code and, through it, to a model.  So
// the folders that hold secrets of many programs are refused, and a check is about the folder that
// was opened, not about the name that the user wrote: a link may lead anywhere.

#include "keeper/shares.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "keeper/state.h"

static const char hint[] = "give the folder that has the data, and no more";

// Files of the kernel, and sockets and pipes of running programs.
static const char *const refused[] = {"/proc", "/sys", "/dev", "/run", "/var/run"};

// Is `path` the folder `of`, or below it?
static bool is_in(const char *path, const char *of)
{
    size_t n = strlen(of);
    return strcmp(of, "/") == 0 ||
           (strncmp(path, of, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

// Wherever they are mounted, they show what the kernel has: processes of others, devices.
static const char *const kernel_types[] = {
    "binfmt_misc", "bpf",      "cgroup",     "cgroup2",    "configfs", "debugfs",
    "devpts",      "devtmpfs", "efivarfs",   "fusectl",    "mqueue",   "nsfs",
    "proc",        "pstore",   "rpc_pipefs", "securityfs", "sysfs",    "tracefs",
};

static int refuse(const char *path, const char *why, struct err *e)
{
    return err_set(e, ERR_BAD_VALUE, 0, hint, "--share: '%s' cannot be shared: %s", path, why);
}

static bool is_of_kernel(const char *type)
{
    for (size_t i = 0; i < ARRAY_LEN(kernel_types); i++)
        if (strcmp(type, kernel_types[i]) == 0)
            return true;
    return false;
}

// SECURITY: what is mounted in the folder is shared with it: a folder for chroot() often has /proc.
static int check_mounts(const char *path, struct err *e)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    size_t longest = 0;
    bool bad = false, on_kernel = false;
    if (!mounts)
        return err_set(e, ERR_BAD_VALUE, errno, hint, "--share: look for mounts in '%s'", path);
    for (const struct mntent *m; (m = getmntent(mounts));) {
        size_t n = strlen(m->mnt_dir);
        bad |= is_in(m->mnt_dir, path) && is_of_kernel(m->mnt_type);
        if (is_in(path, m->mnt_dir) && n >= longest) {
            longest = n; // the last one is on top
            on_kernel = is_of_kernel(m->mnt_type);
        }
    }
    (void)endmntent(mounts);
    return bad || on_kernel ? refuse(path, "a file system of the kernel is mounted there", e) : 0;
}

// Each gives the reason to refuse the folder, or NULL.
static const char *of_state(const struct config *c, const char *path)
{
    char state[PATH_MAX], whole[PATH_MAX];
    struct err e;
    if (state_find(c, geteuid() == 0, getenv("XDG_STATE_HOME"), getenv("HOME"), state, &e) < 0)
        return NULL; // there is none
    const char *at = realpath(state, whole) ? whole : state;
    return is_in(path, at) || is_in(at, path)
               ? "it contains, or is in, the state folder, where the files of all runs are"
               : NULL;
}

static const char *of_person(const char *path)
{
    char home[PATH_MAX];
    const char *name = getenv("HOME");
    if (!name || name[0] != '/' || !realpath(name, home) || strcmp(home, "/") == 0)
        return NULL;
    if (is_in(home, path))
        return "it contains your whole home folder, with keys and passwords";
    return is_in(path, home) && path[strlen(home) + 1] == '.'
               ? "a hidden folder of your home may have keys and passwords"
               : NULL;
}

static const char *of_system(const char *path, const char *const *folders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_in(path, folders[i]))
            return "it belongs to the system and holds no data";
    return NULL;
}

static const char *why_refused(const struct config *c, const char *path)
{
    if (strcmp(path, "/") == 0)
        return "it contains everything on this machine";
    const char *why = of_system(path, refused, ARRAY_LEN(refused));
    if (!why)
        why = of_state(c, path);
    return why ? why : of_person(path);
}

// SECURITY: code chooses the names of the files for as long as the server runs, and in a folder
// that is there already a name can have a meaning: in /etc/cron.d, in the state folder.
int shares_check_out(const struct config *c, const char *path, struct err *e)
{
    static const char *const programs[] = {"/bin",   "/boot", "/etc", "/lib",
                                           "/lib64", "/sbin", "/usr"};
    const char *why = why_refused(c, path);
    if (!why)
        why = of_system(path, programs, ARRAY_LEN(programs));
    return why ? err_set(e, ERR_OUT_FOLDER, 0, "give a folder of its own for the files",
                         "--out: '%s' cannot be used: %s", path, why)
               : 0;
}

// The name that it has in boxes.
static int name_share(const struct shares *all, struct jail_share *s, struct err *e)
{
    const char *name = strrchr(s->path, '/') + 1;
    size_t n = strlen(name);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            n = 0;
    if (n == 0 || n > JAIL_SHARE_NAME_MAX || utf8_valid_length(name, n) < n)
        return refuse(s->path, "its name is too long, or not UTF-8 without control characters", e);
    snprintf(s->at, sizeof s->at, JAIL_SHARE "/%s", name);
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].at, s->at) == 0)
            return refuse(s->path, "another shared folder has the same name", e);
    return 0;
}

static int open_share(const struct config *c, const char *given, struct shares *all, struct err *e)
{
    struct jail_share *s = &all->items[all->count];
    char link[64], shown[PATH_MAX];
    struct stat st;
    if (all->count == JAIL_SHARES_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, hint, "--share: more than %d folders", JAIL_SHARES_MAX);
    _cleanup_close_ int fd = open(given, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ERR_BAD_VALUE, errno, "give a folder that you can read",
                       "--share: open '%s'", given);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, s->path, sizeof s->path - 1);
    if (n <= 0 || s->path[0] != '/')
        return err_set(e, ERR_BAD_VALUE, errno, hint, "--share: find the path of '%s'", given);
    s->path[n] = '\0';
    const char *why = why_refused(c, s->path);
    if (why)
        return refuse(s->path, why, e);
    if (check_mounts(s->path, e) < 0 || name_share(all, s, e) < 0)
        return -1;
    s->device = st.st_dev;
    s->inode = st.st_ino;
    if ((st.st_mode & (S_IROTH | S_IXOTH)) != (S_IROTH | S_IXOTH)) {
        snprintf(shown, sizeof shown, "%s", s->path);
        text_sanitize(shown);
        fprintf(stderr,
                "constrictor: warning: other users may not read '%s', and code in a box usually "
                "runs as another user: chmod o+rx it\n",
                shown);
    }
    all->fds[all->count++] = TAKE_FD(fd);
    return 0;
}

int shares_open(const struct config *c, struct shares *ret, struct err *e)
{
    int r = 0;
    *ret = (struct shares){0};
    for (size_t i = 0; r == 0 && i < c->shares.count; i++)
        r = open_share(c, c->shares.items[i], ret, e);
    return r;
}

void shares_describe(const struct shares *s, char *buf, size_t cap)
{
    size_t at = 0;
    buf[0] = '\0';
    for (size_t i = 0; s && i < s->count && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%s", i ? ", " : "", s->items[i].at);
}
