// SPDX-License-Identifier: Apache-2.0
//
// state: see state.h.  Runs in the keeper at its start, as root or as the user that starts it,
// before any client or box exists.
//
// SECURITY: as root this makes files belong to another uid, in a folder that earlier gates wrote
// to.  So everything below the state folder goes through descriptors, nothing follows a link, and
// each step says which trick it stops.

#include "keeper/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

static const char fix[] = "choose a folder that this user owns with --state";

// ---- where it is --------------------------------------------------------------------------------

int state_find(const struct config *c, bool root, const char *xdg, const char *home,
               char ret[PATH_MAX], struct err *e)
{
    const char *base = NULL, *below = "";
    if (c->state[0])
        base = c->state;
    else if (root)
        base = "/var/lib/constrictor";
    else if (xdg && xdg[0] == '/') // the standard says to ignore a relative one
        base = xdg, below = "/constrictor";
    else if (home && home[0] == '/')
        base = home, below = "/.local/state/constrictor";
    if (!base)
        return err_set(e, ERR_STATE_FOLDER, 0, "set HOME, or choose a folder with --state",
                       "no path for the state folder: HOME is not set");
    int n = snprintf(ret, PATH_MAX, "%s%s", base, below);
    if (n < 0 || n >= PATH_MAX)
        return err_set(e, ERR_STATE_FOLDER, ENAMETOOLONG, fix, "state folder '%s%s'", base, below);
    // A slash at the end would make the kernel follow a link that stands before it.
    while (n > 1 && ret[n - 1] == '/')
        ret[--n] = '\0';
    return 0;
}

// Makes what is missing of the path; what is there is looked at when it is opened.
static int make_path(const char *path, struct err *e)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        char had = *p;
        if (had != '/' && had != '\0')
            continue;
        *p = '\0';
        // A parent folder may belong to another user and be read-only; only the last one matters.
        int r = mkdir(part, 0700);
        if (r < 0 && errno != EEXIST && (had == '\0' || (errno != EACCES && errno != EROFS)))
            return err_set(e, ERR_STATE_FOLDER, errno, fix, "make state folder '%s'", part);
        if (had == '\0')
            return 0;
        *p = had;
    }
}

// ---- the state folder ---------------------------------------------------------------------------

static int open_parent(const char *path, int *ret, struct err *e)
{
    struct stat st;
    // SECURITY: not through a link: a user who may write beside it could redirect the server to
    // another folder of ours, which we would then give to the gate.
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        bool link =
            errno == ELOOP || (errno == ENOTDIR && lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
        return link ? err_set(e, ERR_STATE_FOLDER, 0,
                              "give the folder that it leads to with --state",
                              "state folder '%s' is a symbolic link", path)
                    : err_set(e, ERR_STATE_FOLDER, errno, fix, "open state folder '%s'", path);
    }
    if (fstat(fd, &st) < 0)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "look at state folder '%s'", path);
    // SECURITY: its owner could put in anything, at any time, between our looking and our using.
    if (st.st_uid != geteuid())
        return err_set(e, ERR_STATE_FOLDER, 0, fix,
                       "state folder '%s' belongs to uid %u and this program runs as uid %u", path,
                       (unsigned)st.st_uid, (unsigned)geteuid());
    // SECURITY: so could any other user who may write there.
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        int r = err_set(e, ERR_STATE_FOLDER, 0, NULL,
                        "state folder '%s' may be written by others (mode %03o)", path,
                        (unsigned)st.st_mode & 0777);
        err_hint(e, "chmod 700 '%.400s'", path);
        return r;
    }
    *ret = TAKE_FD(fd);
    return 0;
}

// The lock of a number, or -EWOULDBLOCK: another server has it.  It lies beside the numbered
// folder, not in it, so that a gate can neither let go of it nor put another file in its place.
static int take_lock(int parent, unsigned number, struct err *e)
{
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%u.lock", number);
    // SECURITY: O_NONBLOCK, so that a pipe with this name cannot hold us.
    _cleanup_close_ int fd =
        openat(parent, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "open lock '%s' in the state folder", name);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_STATE_FOLDER, 0, "remove it", "'%s' in the state folder is no file",
                       name);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EWOULDBLOCK
                                    : err_set(e, ERR_STATE_FOLDER, errno, fix, "lock '%s'", name);
    return TAKE_FD(fd);
}

// ---- a numbered folder --------------------------------------------------------------------------

// SECURITY: an earlier gate, when it was taken over, may have left in its folder a link to a file
// of ours, or a second name of one; a chown through it would give that file away.  So only ordinary
// files with one name change owner, through a descriptor that was looked at.  No gate that could
// put another file there between the look and the chown is alive: the keeper has the lock.
static void give_file(int folder, const char *name, uid_t uid)
{
    struct stat st;
    _cleanup_close_ int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        st.st_uid == uid)
        return; // what stays another's is nothing that the gate can use
    (void)!fchownat(fd, "", uid, uid, AT_EMPTY_PATH);
}

// A second descriptor for reading names, whose position is its own.
static DIR *open_names(int folder)
{
    _cleanup_close_ int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    if (names)
        (void)TAKE_FD(fd);
    return names;
}

static int give_folder(int folder, uid_t uid, struct err *e)
{
    DIR *names = open_names(folder);
    if (!names)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "read a folder in the state folder");
    for (const struct dirent *d; (d = readdir(names));)
        if (d->d_name[0] != '.')
            give_file(folder, d->d_name, uid);
    (void)closedir(names);
    // The folder last: when it is the gate's, so is all that is in it.
    if (fchown(folder, uid, uid) < 0)
        return err_set(
            e, ERR_STATE_FOLDER, errno, "start the server with CAP_CHOWN, or as an ordinary user",
            "cannot change the owner of a folder in the state folder to uid %u", (unsigned)uid);
    return 0;
}

static int open_folder(int parent, unsigned number, const struct slots *slots, bool make,
                       struct err *e)
{
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%u", number);
    if (make && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "make folder '%s' in the state folder",
                       name);
    _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ERR_STATE_FOLDER, errno, "remove what has its name",
                       "open folder '%s' in the state folder", name);
    // SECURITY: with uids to hand out, the owner is the uid of an earlier gate: no other process
    // could make anything in a state folder that is ours.  Without them it can only be us.
    if (!slots_may_give(slots) && st.st_uid != geteuid())
        return err_set(e, ERR_STATE_FOLDER, 0, fix,
                       "folder '%s' in the state folder belongs to uid %u", name,
                       (unsigned)st.st_uid);
    return TAKE_FD(fd);
}

static int prepare_folder(int folder, const struct slots *slots, struct err *e)
{
    struct stat st;
    if (fstat(folder, &st) < 0)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "look at a folder in the state folder");
    // SECURITY: artifacts are for callers with their link, not for every user of the machine.
    if ((st.st_mode & 0777) != 0700 && fchmod(folder, 0700) < 0)
        return err_set(e, ERR_STATE_FOLDER, errno, fix, "chmod a folder in the state folder");
    uid_t uid = slots_may_give(slots) ? (uid_t)slots->uid_first + SLOT_GATE : geteuid();
    return st.st_uid == uid ? 0 : give_folder(folder, uid, e);
}

// ---- what servers of other times left -----------------------------------------------------------

struct tidy {
    unsigned files; // how many more may be looked at
    unsigned left;  // what must stay
    time_t now;
};

static bool starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

// Removes by name: that follows nothing and opens nothing.
static void tidy_file(struct tidy *t, int folder, const char *name, bool catalogue_too)
{
    struct stat st;
    bool gone = starts_with(name, STATE_PIECE_PREFIX);
    if (starts_with(name, STATE_CATALOGUE_PREFIX)) {
        gone = catalogue_too;
        if (!gone)
            return;
    } else if (starts_with(name, STATE_FILE_PREFIX) &&
               fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        gone = st.st_mtime < t->now;
    }
    if (!gone || unlinkat(folder, name, 0) < 0)
        t->left++;
}

static void tidy_names(struct tidy *t, int folder, bool catalogue_too)
{
    DIR *names = open_names(folder);
    if (!names) {
        t->left++;
        return;
    }
    for (const struct dirent *d; (d = readdir(names));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (t->files == 0) {
            t->left++;
            break;
        }
        t->files--;
        tidy_file(t, folder, d->d_name, catalogue_too);
    }
    (void)closedir(names);
}

static void tidy_folder(struct tidy *t, int parent, unsigned number, const struct slots *slots)
{
    char name[32];
    _cleanup_close_ int lock = take_lock(parent, number, NULL);
    if (lock < 0)
        return; // a server uses it
    _cleanup_close_ int folder = open_folder(parent, number, slots, false, NULL);
    if (folder < 0)
        return;
    t->left = 0;
    tidy_names(t, folder, false);
    if (t->left)
        return;
    tidy_names(t, folder, true); // a catalogue of nothing
    snprintf(name, sizeof name, "%u", number);
    if (!t->left)
        (void)unlinkat(parent, name, AT_REMOVEDIR);
}

// When ten servers ran yesterday and one runs today, nine folders have no server.  So each start
// removes expired files there, of a few folders only, to be quick.
static void tidy_others(int parent, unsigned own, const struct slots *slots)
{
    struct tidy t = {.files = STATE_TIDY_FILES, .now = time(NULL)};
    unsigned seen = 0;
    DIR *names = open_names(parent);
    for (const struct dirent *d; names && seen < STATE_TIDY_FOLDERS && (d = readdir(names));) {
        uint64_t number;
        if (text_parse_u64(d->d_name, 1, STATE_FOLDERS_MAX, &number) < 0 || number == own)
            continue;
        tidy_folder(&t, parent, (unsigned)number, slots);
        seen++;
    }
    if (names)
        (void)closedir(names);
}

// ---- all of it ----------------------------------------------------------------------------------

static int take_number(struct state *s, int parent, struct err *e)
{
    for (unsigned i = 1; i <= STATE_FOLDERS_MAX; i++) {
        int lock = take_lock(parent, i, e);
        if (lock == -EWOULDBLOCK)
            continue;
        s->number = i;
        s->lock = lock < 0 ? -1 : lock;
        return lock < 0 ? lock : 0;
    }
    return err_set(e, ERR_STATE_FOLDER, 0, "choose another folder with --state",
                   "%d servers use state folder '%s' already", STATE_FOLDERS_MAX, s->path);
}

int state_open(struct state *s, const struct config *c, const struct slots *slots, struct err *e)
{
    *s = (struct state){.folder = -1, .lock = -1, .parent = -1};
    int r = state_find(c, geteuid() == 0, getenv("XDG_STATE_HOME"), getenv("HOME"), s->path, e);
    if (r == 0)
        r = make_path(s->path, e);
    if (r == 0)
        r = open_parent(s->path, &s->parent, e);
    if (r == 0)
        r = take_number(s, s->parent, e);
    if (r == 0)
        r = s->folder = open_folder(s->parent, s->number, slots, true, e);
    if (r >= 0)
        r = prepare_folder(s->folder, slots, e);
    if (r < 0)
        state_close(s);
    else
        tidy_others(s->parent, s->number, slots);
    return r;
}

void state_close(struct state *s)
{
    fd_close(&s->folder);
    fd_close(&s->lock);
    fd_close(&s->parent);
}
