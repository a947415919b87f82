// SPDX-License-Identifier: Apache-2.0
//
// environments: see environments.h.  Runs in the keeper at its start, as root or as the user that
// starts it, before any client or box exists.
//
// SECURITY: as root this makes files belong to another uid, in a folder that earlier porters wrote
// to.  So everything below the state folder goes through descriptors, and nothing follows a link.

#include "keeper/environments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"

enum { DEPTH_MAX = 48, FOLDER_MODE = 0711, WHEELS_MODE = 0311, ROWS_MODE = 0700, OPEN_MODE = 0711 };

static const char lock_name[] = "environments.lock", name[] = "environments";
static const char fix[] = "choose another folder with --state, or remove it";

// ---- the lock -----------------------------------------------------------------------------------

// SECURITY: a gate wrote the second line, perhaps one that was taken over.
static void read_holder(struct environments *env, int parent)
{
    char text[ENVIRONMENTS_URL_MAX + 32];
    uint64_t pid;
    ssize_t n = file_read_at(parent, lock_name, text, sizeof text);
    char *line = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
    if (!line)
        return;
    *line++ = '\0';
    if (text_parse_u64(text, 1, INT32_MAX, &pid) == 0)
        env->holder = (pid_t)pid;
    char *end = strchr(line, '\n');
    if (!end)
        return;
    *end = '\0';
    if (strncmp(line, "http", 4) == 0 && strlen(line) < sizeof env->holder_url) {
        snprintf(env->holder_url, sizeof env->holder_url, "%s", line);
        text_sanitize(env->holder_url);
    }
}

static int write_pid(int fd)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n ? -errno : 0;
}

static int take_lock(struct environments *env, int parent, struct err *e)
{
    struct stat st;
    // SECURITY: O_NONBLOCK, so that a pipe with this name cannot hold us.
    _cleanup_close_ int fd =
        openat(parent, lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "open '%s' in the state folder", lock_name);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return err_set(e, ERR_STATE_FOLDER, errno, fix, "lock '%s'", lock_name);
        read_holder(env, parent);
        err_set(e, ERR_BUSY, 0, NULL,
                "another server, process %d%s%s, has the environments of this state folder",
                (int)env->holder, env->holder_url[0] ? " at " : "", env->holder_url);
        err_hint(e,
                 env->holder_url[0] ? "ask the server at %s, or give this one another --state"
                                    : "give this server another folder with --state%s",
                 env->holder_url);
        return -EWOULDBLOCK;
    }
    // A separate open file description: the lock cannot be released through it.
    env->note = openat(parent, lock_name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    int r = env->note < 0 ? -errno : write_pid(fd);
    if (r < 0)
        return err_set(e, ERR_STATE_FOLDER, -r, fix, "write '%s'", lock_name);
    env->lock = TAKE_FD(fd);
    return 0;
}

int environments_write_note(int note, pid_t keeper, const char *url)
{
    char text[ENVIRONMENTS_URL_MAX + 32];
    int n = snprintf(text, sizeof text, "%d\n%s\n", (int)keeper, url);
    if (n < 0 || (size_t)n >= sizeof text || strlen(url) >= ENVIRONMENTS_URL_MAX)
        return -ENAMETOOLONG;
    if (ftruncate(note, 0) < 0 || pwrite(note, text, (size_t)n, 0) != n)
        return -errno;
    return 0;
}

// ---- whose it is --------------------------------------------------------------------------------

static int give_folder(int folder, uid_t uid, unsigned depth);

// SECURITY: a second name of a file of ours, or a link to one, must not be given away.
static int give_one(int folder, const char *entry, uid_t uid, unsigned depth)
{
    struct stat st;
    _cleanup_close_ int fd = openat(folder, entry, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode)) {
        _cleanup_close_ int below =
            openat(folder, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return below < 0 ? -errno : give_folder(below, uid, depth + 1);
    }
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid == uid)
        return 0; // what stays another's is nothing that the porter made
    return fchownat(fd, "", uid, uid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

// The folder last: when it is the porter's, so is all that is in it.
static int give_folder(int folder, uid_t uid, unsigned depth)
{
    int r = 0;
    if (depth > DEPTH_MAX)
        return -ELOOP;
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = copy < 0 ? NULL : fdopendir(copy);
    if (!names) {
        r = -errno;
        fd_close(&copy);
        return r;
    }
    for (const struct dirent *d; r == 0 && (d = readdir(names));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            r = give_one(folder, d->d_name, uid, depth);
    (void)closedir(names);
    return r < 0 ? r : fchown(folder, uid, uid) < 0 ? -errno : 0;
}

// ---- the folders --------------------------------------------------------------------------------

static int open_folder(int parent, const char *entry, mode_t mode, struct err *e)
{
    if (mkdirat(parent, entry, mode) < 0 && errno != EEXIST)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "make '%s' in the state folder", entry);
    int fd = openat(parent, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_set(e, ERR_STATE_FOLDER, errno, fix, "open '%s' in the state folder", entry)
                  : fd;
}

// An ordinary user can read it only while the mode says so.  There are no boxes yet, and the lock
// is ours.
static int open_wheels(struct environments *env, struct err *e)
{
    struct stat st;
    // Early versions called the folder "layers".  Anything else of that name, or beside a folder
    // that is in use, stays as it is.
    if (renameat(env->folder, "layers", env->folder, "wheels") < 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR && errno != EISDIR)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "rename the folder 'layers' to 'wheels'");
    if (fstatat(env->folder, "wheels", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
        st.st_uid == geteuid())
        (void)!fchmodat(env->folder, "wheels", OPEN_MODE, 0);
    env->wheels = open_folder(env->folder, "wheels", OPEN_MODE, e);
    if (env->wheels < 0)
        return env->wheels;
    if (fstat(env->wheels, &st) < 0)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "look at the wheels of environments");
    env->device = st.st_dev;
    env->inode = st.st_ino;
    return 0;
}

// Nothing, when it is that slot's already.
static int give_to(int folder, const struct slots *slots, int slot)
{
    struct stat st;
    uid_t uid = slots_may_give(slots) ? (uid_t)slots->uid_first + (uid_t)slot : geteuid();
    if (fstat(folder, &st) < 0)
        return -errno;
    if (st.st_uid == uid)
        return 0;
    return slots_may_give(slots) ? give_folder(folder, uid, 0) : -EPERM;
}

// SECURITY: only the porter writes wheels and only the gate writes rows: neither has the other's
// uid.
static int set_modes(struct environments *env, const struct slots *slots, struct err *e)
{
    int r = give_to(env->folder, slots, SLOT_PORTER);
    if (r == 0)
        r = give_to(env->rows, slots, SLOT_GATE);
    // SECURITY: code that could list them could read packages of other keys; see porter/wheels.h.
    if (r == 0 && (fchmod(env->folder, FOLDER_MODE) < 0 || fchmod(env->wheels, WHEELS_MODE) < 0))
        r = -errno;
    return r < 0 ? err_set(e, ERR_STATE_FOLDER, -r, fix, "take over '%s' in the state folder", name)
                 : 0;
}

int environments_open(struct environments *env, int parent, const char *path,
                      const struct slots *slots, struct err *e)
{
    *env = (struct environments){.folder = -1, .rows = -1, .wheels = -1, .lock = -1, .note = -1};
    int n = snprintf(env->path, sizeof env->path, "%s/%s/wheels", path, name);
    int r = n < 0 || (size_t)n >= sizeof env->path
                ? err_set(&env->error, ERR_STATE_FOLDER, ENAMETOOLONG, fix, "'%s'", path)
                : take_lock(env, parent, &env->error);
    if (r == 0)
        r = env->folder = open_folder(parent, name, FOLDER_MODE, &env->error);
    if (r >= 0)
        r = open_wheels(env, &env->error);
    if (r >= 0)
        r = env->rows = open_folder(env->folder, "rows", ROWS_MODE, &env->error);
    if (r >= 0)
        r = set_modes(env, slots, &env->error);
    if (r >= 0)
        return 0;
    environments_close(env);
    if (e)
        *e = env->error;
    return r;
}

void environments_close(struct environments *env)
{
    fd_close(&env->folder);
    fd_close(&env->rows);
    fd_close(&env->wheels);
    fd_close(&env->note);
    fd_close(&env->lock);
}
