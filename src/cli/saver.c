// SPDX-License-Identifier: Apache-2.0
//
// saver: see saver.h.

#include "cli/saver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "base/text.h"
#include "box/landlock.h"
#include "run/display.h"

enum {
    SOCK_FD = 3, // where the process has its two descriptors
    FOLDER_FD,
    FIRST_OTHER_FD,
    PIECE_MAX = 56 * 1024, // bytes of a file in one datagram
    NAMES_MAX = 1000,      // plot.png, plot-1.png ... plot-999.png
};

// A file is one struct ask, any number of PIECE_DATA, and PIECE_END or PIECE_DROP.
enum kind { ASK_FILE = 1, PIECE_DATA, PIECE_END, PIECE_DROP };

struct ask {
    uint32_t kind;
    uint32_t reserved;
    uint64_t size; // at most
    char path[SCRATCH_PATH_MAX + 1];
};

struct piece {
    uint32_t kind;
    uint32_t reserved;
    uint64_t at; // offset of the bytes; PIECE_END: the size of the file
    char bytes[PIECE_MAX];
};
enum { PIECE_HEAD = offsetof(struct piece, bytes) };

void saver_path(const char *folder, const char *saved, char ret[SAVER_PATH_MAX])
{
    size_t length = strlen(folder);
    while (length > 0 && folder[length - 1] == '/')
        length--;
    snprintf(ret, SAVER_PATH_MAX, "%.*s/%s", (int)length, folder, saved);
}

// ---- in the saver ---------------------------------------------------------------------------

struct work {
    const char *folder; // as the caller wrote it
    bool quiet;
    const char *room_option; // sets `room` at the start
    uint64_t room;           // bytes that may still be written
    unsigned files_max;
    unsigned files;
    struct piece piece;
};

// A file being saved.
struct target {
    char path[SAVER_SAVED_MAX]; // as it will be
    int folder, fd;
    char name[SAVER_SAVED_MAX]; // in `folder`
    bool taken, hidden;         // why it does not have the name that the code gave it
};

__attribute__((format(printf, 2, 3))) static int refuse(struct saver_answer *a, const char *fmt,
                                                        ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(a->error, sizeof a->error, fmt, args);
    va_end(args);
    text_sanitize(a->error);
    return -1;
}

// SECURITY: the gate is not trusted, so the path is checked here again.  `..`, an absolute path,
// and a name with a terminal escape sequence or a line end are refused.
static int check_path(const struct ask *ask, struct target *t, struct saver_answer *a)
{
    char path[SCRATCH_PATH_MAX + 1];
    struct err e = {0};
    size_t length = strnlen(ask->path, sizeof ask->path);
    if (length == sizeof ask->path || scratch_path(ask->path, length, path, &e) < 0 ||
        strcmp(path, ask->path) != 0)
        return refuse(a, "%s", e.message[0] ? e.message : "not a valid path");
    // SECURITY: in a home folder or a project, code could plant .bashrc, .ssh/authorized_keys or
    // .git/hooks/..., which other programs obey.  So a leading dot becomes '_'.
    for (char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (*p == '.') {
            *p = '_';
            t->hidden = true;
        }
    snprintf(t->path, sizeof t->path, "%s", path);
    return 0;
}

// SECURITY: goes one step down and follows no link: a symbolic link in the folder (sub -> /etc)
// would lead files of hostile code out of the folder.
static int open_step(int folder, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    // A seccomp filter around us may refuse openat2(); `name` has no slash, so openat() is as safe.
    return fd >= 0 || (errno != ENOSYS && errno != EPERM) ? fd
                                                          : openat(folder, name, (int)how.flags);
}

// Opens the folder of the file, and makes missing folders on the way.
static int open_folder(struct target *t, struct saver_answer *a)
{
    char path[SAVER_SAVED_MAX];
    snprintf(path, sizeof path, "%s", t->path);
    t->folder = fcntl(FOLDER_FD, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
    char *name = path;
    for (char *slash; t->folder >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        *slash = '\0';
        (void)mkdirat(t->folder, name, 0755); // it may exist
        int next = open_step(t->folder, name), errnum = errno;
        if (next < 0)
            return refuse(a,
                          errnum == ELOOP || errnum == ENOTDIR
                              ? "'%s' exists and is not a folder; links are not followed"
                              : "open the folder '%s': %s",
                          path, strerror(errnum));
        fd_close(&t->folder);
        t->folder = next;
        *slash = '/';
    }
    if (t->folder < 0)
        return refuse(a, "open the folder: %s", strerror(errno));
    snprintf(t->name, sizeof t->name, "%s", name);
    return 0;
}

// "plot.png" and 2 give "plot-2.png".
static void number_name(const char *name, unsigned number, char *ret, size_t cap)
{
    const char *dot = strrchr(name, '.');
    size_t stem = dot && dot != name ? (size_t)(dot - name) : strlen(name);
    snprintf(ret, cap, "%.*s-%u%s", (int)stem, name, number, name + stem);
}

// SECURITY: O_EXCL: nothing that exists is ever written to, neither a file nor a planted link.  The
// mode makes no file executable.
static int create(struct target *t, struct saver_answer *a)
{
    char name[SAVER_SAVED_MAX];
    snprintf(name, sizeof name, "%s", t->name);
    for (unsigned i = 1; i <= NAMES_MAX; i++) {
        t->fd = openat(t->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (t->fd >= 0) {
            size_t folders = strlen(t->path) - strlen(t->name);
            snprintf(t->path + folders, sizeof t->path - folders, "%s", name);
            snprintf(t->name, sizeof t->name, "%s", name);
            return 0;
        }
        if (errno != EEXIST)
            return refuse(a, "%s", strerror(errno));
        t->taken = true;
        number_name(t->name, i, name, sizeof name);
    }
    return refuse(a, "%d files of that name exist already", NAMES_MAX);
}

static int check_room(const struct work *w, uint64_t size, struct saver_answer *a)
{
    char text[32];
    text_format_size(w->room, text, sizeof text);
    // SECURITY: with links and holes a box can present far more bytes than it stores.
    if (size > w->room)
        return refuse(a, "it has %llu bytes, but %s leaves only %s for all files",
                      (unsigned long long)size, w->room_option, text);
    return 0;
}

// Reads all pieces behind an ask, so that the next message is an ask again.  Returns the size of
// the file, -EPIPE when the gate is gone or breaks the protocol, or another negative errno.
static int64_t take_pieces(struct work *w, int to, uint64_t size)
{
    struct piece *p = &w->piece;
    int r = 0;
    for (;;) {
        ssize_t n = fd_recv(SOCK_FD, p, sizeof *p, NULL, 0, NULL);
        uint64_t length = n < PIECE_HEAD ? 0 : (uint64_t)n - PIECE_HEAD;
        if (n < PIECE_HEAD || p->at > size || length > size - p->at)
            return -EPIPE;
        if (p->kind == PIECE_DROP)
            return -ECANCELED;
        if (p->kind == PIECE_END)
            break;
        if (p->kind != PIECE_DATA)
            return -EPIPE;
        // Holes stay holes: a sparse file must not fill the disk.
        if (r == 0 && to >= 0)
            r = fd_write_sparse(to, p->bytes, (size_t)length, p->at);
    }
    if (r == 0 && to >= 0 && ftruncate(to, (off_t)p->at) < 0)
        r = -errno;
    return r < 0 ? r : (int64_t)p->at;
}

static int save(struct work *w, const struct ask *ask, struct target *t, struct saver_answer *a)
{
    int r = w->files >= w->files_max ? refuse(a, "too many files") : 0;
    if (r == 0)
        r = check_room(w, ask->size, a);
    if (r == 0)
        r = check_path(ask, t, a);
    if (r == 0)
        r = open_folder(t, a);
    if (r == 0)
        r = create(t, a);
    int64_t n = take_pieces(w, t->fd, ask->size);
    if (r == 0 && n < 0) {
        r = refuse(a, "%s", strerror((int)-n));
        (void)unlinkat(t->folder, t->name, 0); // keep no partial file
    }
    if (r == 0) {
        w->room -= (uint64_t)n;
        w->files++;
        a->size = (uint64_t)n;
        a->ok = 1;
        snprintf(a->saved, sizeof a->saved, "%s", t->path);
    }
    return n == -EPIPE || n == -ECANCELED ? (int)n : 0;
}

static void format_size(uint64_t size, char *buf, size_t cap)
{
    if (size < 1000)
        snprintf(buf, cap, "%llu byte%s", (unsigned long long)size, size == 1 ? "" : "s");
    else if (size < 1000000)
        snprintf(buf, cap, "%.*f kB", size < 10000, (double)size / 1e3);
    else
        snprintf(buf, cap, "%.1f MB", (double)size / 1e6);
}

static void tell(const struct work *w, const struct ask *ask, const struct target *t,
                 const struct saver_answer *a)
{
    char size[32], name[SCRATCH_PATH_MAX + 1], path[SAVER_PATH_MAX];
    char line[sizeof path + sizeof name + 128];
    if (w->quiet)
        return;
    snprintf(name, sizeof name, "%.*s", (int)strnlen(ask->path, sizeof name - 1), ask->path);
    format_size(a->size, size, sizeof size);
    saver_path(w->folder, a->saved, path);
    if (!a->ok)
        snprintf(line, sizeof line, "cannot save '%s': %s", name, a->error);
    else
        snprintf(line, sizeof line, "saved %s (%s)%s%s%s", path, size,
                 t->taken || t->hidden ? "; the code named it " : "",
                 t->taken || t->hidden ? name : "",
                 t->taken    ? ", which exists already"
                 : t->hidden ? ", which would be hidden"
                             : "");
    text_sanitize(line);
    fprintf(stderr, "constrictor: %s\n", line);
}

// Handles one ask.  False: the gate is gone or broke the protocol.
static bool serve(struct work *w)
{
    struct ask ask = {0};
    struct target t = {.folder = -1, .fd = -1};
    struct saver_answer a = {0};
    ssize_t n = fd_recv(SOCK_FD, &ask, sizeof ask, NULL, 0, NULL);
    if (n != (ssize_t)sizeof ask || ask.kind != ASK_FILE)
        return false;
    ask.path[SCRATCH_PATH_MAX] = '\0';
    int r = save(w, &ask, &t, &a);
    fd_close(&t.fd);
    fd_close(&t.folder);
    if (r == -ECANCELED)
        return true; // the gate does not wait for an answer
    if (r < 0)
        return false;
    tell(w, &ask, &t, &a);
    return fd_send(SOCK_FD, &a, sizeof a, NULL, 0) == 0;
}

// Keeps its two descriptors and nothing else.  It ignores Ctrl-C, which is for the run, so that
// each file is saved whole.
static void become_saver(int sock, int folder, const struct config *c, bool server)
{
    static struct work w; // large
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGXFSZ};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    sock = fcntl(sock, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
    folder = fcntl(folder, F_DUPFD_CLOEXEC, FIRST_OTHER_FD);
    if (dup3(sock, SOCK_FD, O_CLOEXEC) < 0 || dup3(folder, FOLDER_FD, O_CLOEXEC) < 0 ||
        sys_close_range(FIRST_OTHER_FD, ~0U) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        _exit(70);
    // SECURITY: second line of defence, should one of the checks above be wrong: Landlock lets this
    // process write below the folder only.  A kernel without Landlock leaves the checks.
    (void)landlock_seal_writer(landlock_abi(), FOLDER_FD);
    w = (struct work){.folder = c->out,
                      .quiet = c->json || server,
                      .room_option = server ? "--artifact-quota" : "--scratch",
                      .room = server ? c->artifact_bytes : c->scratch_bytes + DISPLAY_BYTES_MAX,
                      .files_max = server ? SAVER_SERVER_FILES_MAX : SAVER_FILES_MAX};
    while (serve(&w))
        ;
    _exit(0);
}

// ---- in the first process -----------------------------------------------------------------------

static int open_out(const char *path, struct err *e)
{
    static const char hint[] = "give a folder that you can write to; its parent must exist";
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    int fd = open(path, flags);
    if (fd < 0 && errno == ENOENT && mkdir(path, 0777) == 0)
        fd = open(path, flags);
    if (fd < 0)
        return err_set(e, ERR_OUT_FOLDER, errno, hint, "open the folder '%s' of --out", path);
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        int r = err_set(e, ERR_OUT_FOLDER, errno, hint, "write to the folder '%s' of --out", path);
        (void)close(fd);
        return r;
    }
    return fd;
}

static int start(struct saver *k, const struct config *c, bool server, struct err *e)
{
    int pair[2];
    *k = (struct saver){.sock = -1};
    _cleanup_close_ int folder = open_out(c->out, e);
    if (folder < 0)
        return folder;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "socketpair");
    _cleanup_close_ int theirs = pair[1];
    (void)fflush(NULL);
    k->pid = fork();
    if (k->pid == 0)
        become_saver(theirs, folder, c, server);
    if (k->pid < 0) {
        int r = err_set(e, ERR_SYSTEM, errno, NULL, "fork the saver");
        k->pid = 0;
        (void)close(pair[0]);
        return r;
    }
    k->sock = pair[0];
    return 0;
}

int saver_start(struct saver *k, const struct config *c, struct err *e)
{
    return start(k, c, false, e);
}

int saver_start_server(struct saver *k, const struct config *c, struct err *e)
{
    return start(k, c, true, e);
}

void saver_end(struct saver *k, bool now)
{
    if (k->pid <= 0)
        return;
    if (now)
        (void)kill(k->pid, SIGKILL);
    while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    k->pid = 0;
}

// ---- in the gate --------------------------------------------------------------------------------

static int send_piece(int sock, enum kind kind, const void *data, size_t length, uint64_t at)
{
    static struct piece p; // large; there is one thread
    p.kind = kind;
    p.at = at;
    if (length)
        memcpy(p.bytes, data, length);
    return fd_send(sock, &p, PIECE_HEAD + length, NULL, 0);
}

// saver_finish() notices when the saver is gone.
void saver_begin(int sock, const char *path, uint64_t size)
{
    struct ask ask = {.kind = ASK_FILE, .size = size};
    snprintf(ask.path, sizeof ask.path, "%s", path);
    (void)fd_send(sock, &ask, sizeof ask, NULL, 0);
}

void saver_data(int sock, const void *data, size_t length, uint64_t offset)
{
    const char *bytes = data;
    int r = 0;
    for (size_t at = 0, n; r == 0 && at < length; at += n) {
        n = length - at < PIECE_MAX ? length - at : PIECE_MAX;
        r = send_piece(sock, PIECE_DATA, bytes + at, n, offset + at);
    }
}

void saver_finish(int sock, uint64_t size, struct saver_answer *ret)
{
    int r = send_piece(sock, PIECE_END, NULL, 0, size);
    ssize_t n = r < 0 ? -1 : fd_recv(sock, ret, sizeof *ret, NULL, 0, NULL);
    if (n != (ssize_t)sizeof *ret) {
        *ret = (struct saver_answer){0};
        snprintf(ret->error, sizeof ret->error, "the process that saves files has ended");
    }
    ret->saved[sizeof ret->saved - 1] = ret->error[sizeof ret->error - 1] = '\0';
}

void saver_drop(int sock)
{
    (void)send_piece(sock, PIECE_DROP, NULL, 0, 0);
}

void saver_save_bytes(int sock, const char *path, const void *data, size_t length,
                      struct saver_answer *ret)
{
    saver_begin(sock, path, length);
    saver_data(sock, data, length, 0);
    saver_finish(sock, length, ret);
}
