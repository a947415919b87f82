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
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"

enum {
    DEPTH_MAX = 48,
    FOLDER_MODE = 0711,
    WHEELS_MODE = 0311,
    ROWS_MODE = 0700,
    OPEN_MODE = 0711,
    LOCK_WAIT_MS = 5000, // while another server prepares the folder
    LOCK_LOOK_MS = 10,
};

static const char lock_name[] = "environments.lock", note_name[] = "environments.server",
                  name[] = "environments", format[] = "format 2";
static const char fix[] = "choose another folder with --state, or remove it";

// ---- the lock -----------------------------------------------------------------------------------

// The pid of the first line, or 0, and the second line.
static pid_t read_lock(int parent, char *ret_line, size_t cap)
{
    char text[ENVIRONMENTS_URL_MAX + 32];
    uint64_t pid;
    ssize_t n = file_read_at(parent, lock_name, text, sizeof text);
    char *line = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
    ret_line[0] = '\0';
    if (!line)
        return 0;
    *line++ = '\0';
    line[strcspn(line, "\n")] = '\0';
    snprintf(ret_line, cap, "%s", line);
    return text_parse_u64(text, 1, INT32_MAX, &pid) == 0 ? (pid_t)pid : 0;
}

static int write_lock(int fd)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%d\n%s\n", (int)getpid(), format);
    return ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n ? -errno : 0;
}

static int open_lock(int parent, const char *entry, struct err *e)
{
    struct stat st;
    // SECURITY: O_NONBLOCK, so that a pipe with this name cannot hold us.
    _cleanup_close_ int fd =
        openat(parent, entry, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "open '%s' in the state folder", entry);
    return TAKE_FD(fd);
}

// Alone when no other server uses the folder, else together with them.  -EWOULDBLOCK: another one
// has it alone for too long, as servers of earlier versions did for all their life.
static int take_lock(struct environments *env, int parent, int fd, struct err *e)
{
    char line[ENVIRONMENTS_URL_MAX];
    for (int waited_ms = 0;; waited_ms += LOCK_LOOK_MS) {
        env->first = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (env->first || flock(fd, LOCK_SH | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return err_set(e, ERR_STATE_FOLDER, errno, fix, "lock '%s'", lock_name);
        if (waited_ms >= LOCK_WAIT_MS)
            break;
        (void)usleep(LOCK_LOOK_MS * 1000);
    }
    (void)err_set(e, ERR_BUSY, 0, "end it, or give this one another folder with --state",
                  "another server, process %d, does not share the environments of this state "
                  "folder: it has another version, or hangs",
                  (int)read_lock(parent, line, sizeof line));
    return -EWOULDBLOCK;
}

static int open_locks(struct environments *env, int parent, struct err *e)
{
    char line[ENVIRONMENTS_URL_MAX];
    _cleanup_close_ int fd = open_lock(parent, lock_name, e);
    int r = fd < 0 ? fd : take_lock(env, parent, fd, e);
    if (r < 0)
        return r;
    if (env->first && (r = write_lock(fd)) < 0)
        return err_set(e, ERR_STATE_FOLDER, -r, fix, "write '%s'", lock_name);
    (void)read_lock(parent, line, sizeof line);
    if (strcmp(line, format) != 0)
        return err_set(e, ERR_STATE_FOLDER, 0,
                       "end those servers, or choose another folder with --state",
                       "servers of another version use the environments of this state folder");
    env->note = open_lock(parent, note_name, e);
    if (env->note < 0)
        return env->note;
    env->lock = TAKE_FD(fd);
    return 0;
}

// The folder is ready, and others may use it.  The kernel may let another server in between, which
// then prepares it once more.
static int share_lock(const struct environments *env, struct err *e)
{
    for (int waited_ms = 0; flock(env->lock, LOCK_SH | LOCK_NB) < 0; waited_ms += LOCK_LOOK_MS) {
        if (errno != EWOULDBLOCK || waited_ms >= LOCK_WAIT_MS)
            return err_set(e, ERR_STATE_FOLDER, errno, fix, "share '%s'", lock_name);
        (void)usleep(LOCK_LOOK_MS * 1000);
    }
    return 0;
}

int environments_write_note(int note, pid_t keeper, const char *url)
{
    char text[ENVIRONMENTS_URL_MAX + 32];
    int n = snprintf(text, sizeof text, "%d\n%s\n", (int)keeper, url);
    if (n < 0 || (size_t)n >= sizeof text || strlen(url) >= ENVIRONMENTS_URL_MAX)
        return -ENAMETOOLONG;
    // The keeper has the same open file, so the lock outlives this gate.
    if (flock(note, LOCK_EX | LOCK_NB) < 0 || ftruncate(note, 0) < 0 ||
        pwrite(note, text, (size_t)n, 0) != n)
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

// An ordinary user can read it only while the mode says so.  There are no boxes yet, and no other
// server.
static int open_first(const struct environments *env, struct err *e)
{
    struct stat st;
    // Early versions called the folder "layers".  Anything else of that name, or beside a folder
    // that is in use, stays as it is.
    if (renameat(env->folder, "layers", env->folder, "wheels") < 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR && errno != EISDIR)
        return err_set(e, ERR_STATE_FOLDER, errno, fix,
                       "cannot rename the folder 'layers' to 'wheels'");
    if (fstatat(env->folder, "wheels", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
        st.st_uid == geteuid())
        (void)!fchmodat(env->folder, "wheels", OPEN_MODE, 0);
    return open_folder(env->folder, "wheels", OPEN_MODE, e);
}

// In a process of its own: opens the folder with the rights that its user namespace has over what
// this user owns, and sends the descriptor.
static int open_in_namespace(int folder, int sock)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(groups, sizeof groups, "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
    if (unshare(CLONE_NEWUSER) < 0 || file_write_at(AT_FDCWD, "/proc/self/uid_map", users) < 0 ||
        file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
        file_write_at(AT_FDCWD, "/proc/self/gid_map", groups) < 0)
        return 1;
    int fd = openat(folder, "wheels", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || fd_send(sock, "w", 1, &fd, 1) < 0;
}

// SECURITY: beside another server's boxes, which may have this user's uid, the mode must not
// change: for that moment their code could list the wheels of other keys.
static int open_beside_others(const struct environments *env, struct err *e)
{
    int fd = openat(env->folder, "wheels", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        pair[2], status;
    char word;
    size_t count = 0;
    if (fd >= 0)
        return fd; // as root
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "make a socket");
    pid_t pid = fork();
    if (pid == 0)
        _exit(open_in_namespace(env->folder, pair[1]));
    (void)close(pair[1]);
    if (pid > 0 && fd_recv(pair[0], &word, 1, &fd, 1, &count) == 1 && count == 0)
        fd = -1;
    (void)close(pair[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return fd < 0 ? err_set(e, ERR_STATE_FOLDER, EACCES, fix,
                            "cannot open the folder of packages, which another server uses too")
                  : fd;
}

static int open_wheels(struct environments *env, struct err *e)
{
    struct stat st;
    env->wheels = env->first ? open_first(env, e) : open_beside_others(env, e);
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

// Files that servers made before they shared the folder.
static void open_to_group(int folder, const char *entry, mode_t mode)
{
    struct stat st;
    _cleanup_close_ int fd = openat(folder, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
        (void)!fchmod(fd, mode);
}

// The bits of the owner for the group as well, and what is made there belongs to that group.
static mode_t shared(const struct slots *slots, mode_t mode)
{
    return slots_may_give(slots) ? mode | S_ISGID | (mode & S_IRWXU) >> 3 : mode;
}

// SECURITY: only porters write wheels and only gates write rows: neither has the other's uid, or
// group.
static int set_modes(const struct environments *env, const struct slots *slots, struct err *e)
{
    static const char *const files[] = {"environments.db", "environments.db-wal",
                                        "environments.db-shm"};
    int r = give_to(env->folder, slots, SLOT_PORTER);
    if (r == 0)
        r = give_to(env->rows, slots, SLOT_GATE);
    // SECURITY: code that could list them could read packages of other keys; see porter/wheels.h.
    if (r == 0 && (fchmod(env->folder, shared(slots, FOLDER_MODE)) < 0 ||
                   fchmod(env->rows, shared(slots, ROWS_MODE)) < 0 ||
                   fchmod(env->wheels, shared(slots, WHEELS_MODE)) < 0))
        r = -errno;
    for (size_t i = 0; r == 0 && slots_may_give(slots) && i < ARRAY_LEN(files); i++)
        open_to_group(env->rows, files[i], 0660);
    if (r == 0 && slots_may_give(slots))
        open_to_group(env->folder, "secret", 0640);
    return r < 0 ? err_set(e, ERR_STATE_FOLDER, -r, fix, "take over '%s' in the state folder", name)
                 : 0;
}

// Beside others nothing changes hands.
static int join(struct environments *env, const struct slots *slots, struct err *e)
{
    struct stat rows, wheels;
    if (fstat(env->rows, &rows) < 0 || fstat(env->wheels, &wheels) < 0)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "look at '%s' in the state folder", name);
    if (!slots_may_give(slots))
        return 0;
    // SECURITY: never root's group.  Owners cannot have given the folders any other than their own.
    if (rows.st_gid == 0 || wheels.st_gid == 0 || !(rows.st_mode & S_ISGID) ||
        !(wheels.st_mode & S_ISGID))
        return err_set(e, ERR_STATE_FOLDER, 0, fix,
                       "the server that uses '%s' in the state folder does not share it", name);
    env->rows_group = rows.st_gid;
    env->wheels_group = wheels.st_gid;
    return 0;
}

int environments_open(struct environments *env, int parent, const char *path,
                      const struct slots *slots, struct err *e)
{
    *env = (struct environments){.folder = -1, .rows = -1, .wheels = -1, .lock = -1, .note = -1};
    int n = snprintf(env->path, sizeof env->path, "%s/%s/wheels", path, name);
    int r = n < 0 || (size_t)n >= sizeof env->path
                ? err_set(&env->error, ERR_STATE_FOLDER, ENAMETOOLONG, fix, "'%s'", path)
                : open_locks(env, parent, &env->error);
    if (r == 0)
        r = env->folder = open_folder(parent, name, FOLDER_MODE, &env->error);
    if (r >= 0)
        r = open_wheels(env, &env->error);
    if (r >= 0)
        r = env->rows = open_folder(env->folder, "rows", ROWS_MODE, &env->error);
    if (r >= 0)
        r = env->first ? set_modes(env, slots, &env->error) : join(env, slots, &env->error);
    if (r >= 0)
        r = share_lock(env, &env->error);
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
