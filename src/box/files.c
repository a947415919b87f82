// SPDX-License-Identifier: Apache-2.0
//
// files: see files.h.  Nothing here allocates, recurses or touches errno; what does not fit on a small
// stack is static, for one process at a time serves (box/init.c, invariant 3).
//
// SECURITY: names are resolved by openat2 below the root, without following any link, so that an answer is
// about the file that was asked for.  A fifo, socket or device is never opened for reading or writing.

#include "box/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/sys.h"
#include "base/utf8.h"
#include "wire/frame.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

enum {
    DENTS_SIZE = 16 * 1024,
    PENDING_SIZE = 64 * 1024, // paths of folders that a list has still to look into
    TEMPORARY_SIZE = 32,
    TEMPORARY_MAX_S = 60, // without a write for so long, nobody writes to it any more
    FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC,
    PLACE_FLAGS = O_PATH | O_DIRECTORY | O_CLOEXEC,
};

// As the kernel writes it; libc's has the same members, but promises nothing.
struct dent {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

struct request {
    int sock, root; // the folder, open for reading
    bool busy;
    struct frame_file f;
    char path[FRAME_PATH_MAX + 1];
};

static _Alignas(8) char reply[sizeof(struct frame_header) + FRAME_CHUNK];
static _Alignas(8) char dents[2][DENTS_SIZE];
static char pending[PENDING_SIZE];

// ---- the kernel ------------------------------------------------------------------------------------

static void close_fd(long fd)
{
    if (fd >= 0)
        (void)sys_raw(SYS_close, fd, 0, 0, 0, 0, 0);
}

static long open_beneath(long at, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    return sys_raw(SYS_openat2, at, (long)path, (long)&how, sizeof how, 0, 0);
}

static long look(long at, const char *name, int flags, struct statx *ret)
{
    return sys_raw(SYS_statx, at, (long)name, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
                   (long)ret, 0);
}

static long unlink_at(long at, const char *name, int flags)
{
    return sys_raw(SYS_unlinkat, at, (long)name, flags, 0, 0, 0);
}

static int64_t nanoseconds(const struct statx_timestamp *t)
{
    return (int64_t)((uint64_t)t->tv_sec * 1000000000U + t->tv_nsec);
}

static struct frame_stat stat_of(const struct statx *st)
{
    return (struct frame_stat){.size = S_ISREG(st->stx_mode) ? st->stx_size : 0,
                               .mtime_ns = nanoseconds(&st->stx_mtime),
                               .ctime_ns = nanoseconds(&st->stx_ctime),
                               .inode = st->stx_ino};
}

// The next entry of a folder, or NULL.  `*at` and `*have` begin with 0; `buffer` is one of dents[].
static struct dent *next_dent(long folder, char *buffer, size_t *at, size_t *have)
{
    enum { HEAD = offsetof(struct dent, name) };
    for (;;) {
        if (*at + HEAD >= *have) {
            long n = sys_raw(SYS_getdents64, folder, (long)buffer, DENTS_SIZE, 0, 0, 0);
            if (n <= HEAD)
                return NULL;
            *at = 0;
            *have = (size_t)n;
        }
        struct dent *d = (struct dent *)(void *)(buffer + *at);
        if (d->length <= HEAD || d->length > *have - *at)
            return NULL;
        *at += d->length;
        if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0)
            return d;
    }
}

// ---- answers ---------------------------------------------------------------------------------------

// Every FILED frame is one datagram, so that it cannot be mixed with another frame, whoever sends that.
static long send_reply(int sock, const struct frame_filed *filed, size_t tail, long fd)
{
    struct frame_header h = {
        .magic = FRAME_MAGIC, .kind = FRAME_FILED, .total = (uint32_t)(sizeof *filed + tail)};
    memcpy(reply, &h, sizeof h);
    memcpy(reply + sizeof h, filed, sizeof *filed);
    struct iovec iov = {reply, sizeof h + h.total};
    union {
        struct cmsghdr head;
        char buf[CMSG_SPACE(sizeof(int))];
    } rights = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                         .cmsg_level = SOL_SOCKET,
                         .cmsg_type = SCM_RIGHTS}};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        *(int *)(void *)CMSG_DATA(&rights.head) = (int)fd;
        msg.msg_control = rights.buf;
        msg.msg_controllen = sizeof rights.buf;
    }
    long n;
    do
        n = sys_raw(SYS_sendmsg, sock, (long)&msg, MSG_NOSIGNAL, 0, 0, 0);
    while (n == -EINTR);
    return n < 0 ? n : 0; // a gate that is gone needs no answer
}

static struct frame_filed answer(const struct request *r, long result)
{
    return (struct frame_filed){
        .op = r->f.op, .tag = r->f.tag, .errnum = result < 0 ? (int32_t)-result : 0};
}

// ---- names -----------------------------------------------------------------------------------------

static bool is_plain(const char *path, size_t length)
{
    size_t begin = 0, depth = 0;
    if (length == 0 || memchr(path, '\0', length))
        return false;
    for (size_t i = 0; i <= length; i++) {
        if (i < length && path[i] != '/')
            continue;
        const char *name = path + begin;
        size_t n = i - begin;
        bool dots = (n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.');
        if (n == 0 || n > FRAME_NAME_MAX || dots || ++depth > FRAME_DEPTH_MAX)
            return false;
        begin = i + 1;
    }
    return true;
}

// Can it be written in JSON, a URI, a terminal?
static bool is_showable(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        // U+0080 to U+009F are control characters too.
        if (c < 0x20 || c == 0x7f ||
            (c == 0xc2 && i + 1 < length && (unsigned char)name[i + 1] < 0xa0))
            return false;
    }
    return utf8_valid_length(name, length) == length;
}

static const char temporary_begin[] = ".constrictor-", temporary_end[] = ".part";
enum { BEGIN_LENGTH = sizeof temporary_begin - 1, DIGITS = 8 };

static void make_temporary(uint32_t ticket, char ret[TEMPORARY_SIZE])
{
    memcpy(ret, temporary_begin, BEGIN_LENGTH);
    for (int i = 0; i < DIGITS; i++)
        ret[BEGIN_LENGTH + i] = "0123456789abcdef"[ticket >> (28 - 4 * i) & 15];
    memcpy(ret + BEGIN_LENGTH + DIGITS, temporary_end, sizeof temporary_end);
}

static bool is_temporary(const char *name)
{
    return strncmp(name, temporary_begin, BEGIN_LENGTH) == 0 &&
           strlen(name) == BEGIN_LENGTH + DIGITS + sizeof temporary_end - 1 &&
           strcmp(name + BEGIN_LENGTH + DIGITS, temporary_end) == 0;
}

static time_t now_s(void)
{
    struct timespec now = {0};
    (void)sys_raw(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0, 0, 0, 0);
    return now.tv_sec;
}

// One that a gate left behind which was killed while it wrote would take up room for ever, unseen.
static void sweep_temporary(long folder, const char *name)
{
    struct statx st;
    if (look(folder, name, 0, &st) == 0 && S_ISREG(st.stx_mode) &&
        st.stx_mtime.tv_sec < now_s() - TEMPORARY_MAX_S)
        (void)unlink_at(folder, name, 0);
}

// Makes the folders of `path` that are not there, and opens the last.  Writes into `path`.
static long make_folders(long root, char *path)
{
    long at = root;
    for (char *name = path, *end; at >= 0 && name; name = end) {
        end = strchr(name, '/');
        if (end)
            *end++ = '\0';
        long next = open_beneath(at, name, PLACE_FLAGS);
        if (next == -ENOENT) {
            long n = sys_raw(SYS_mkdirat, at, (long)name, 0755, 0, 0, 0);
            next = n < 0 && n != -EEXIST ? n : open_beneath(at, name, PLACE_FLAGS);
        }
        if (at != root)
            close_fd(at);
        at = next;
    }
    return at;
}

// The folder that a path is in, opened, and the name in it.  With `make` it is made.
static long open_parent(struct request *r, bool make, const char **ret_name)
{
    char parent[sizeof r->path];
    const char *slash = strrchr(r->path, '/');
    *ret_name = slash ? slash + 1 : r->path;
    if (!slash)
        return open_beneath(r->root, ".", PLACE_FLAGS);
    size_t length = (size_t)(slash - r->path);
    memcpy(parent, r->path, length);
    parent[length] = '\0';
    long at = open_beneath(r->root, parent, PLACE_FLAGS);
    return at == -ENOENT && make ? make_folders(r->root, parent) : at;
}

// ---- LIST ------------------------------------------------------------------------------------------

// Folder by folder, those nearest to the root first, so that a huge folder further down does not hide what
// lies at hand.
struct walk {
    struct request *r;
    struct frame_filed filed;
    size_t tail;      // bytes of entries in `reply`
    size_t head, end; // in `pending`: paths, each with its NUL
    unsigned entries; // reported
    unsigned seen;
    bool gone; // nobody takes the answer
};

static void flush_list(struct walk *w, bool more)
{
    w->filed.more = more;
    if (!w->gone && send_reply(w->r->sock, &w->filed, w->tail, -1) < 0)
        w->gone = true;
    w->filed.count = 0;
    w->tail = 0;
}

static void report(struct walk *w, const char *path, size_t length, const struct statx *st)
{
    struct frame_entry e = {
        .stat = stat_of(st), .folder = S_ISDIR(st->stx_mode), .path_length = (uint32_t)length};
    if (sizeof w->filed + w->tail + sizeof e + length > FRAME_CHUNK)
        flush_list(w, true);
    char *at = reply + sizeof(struct frame_header) + sizeof w->filed + w->tail;
    memcpy(at, &e, sizeof e);
    memcpy(at + sizeof e, path, length);
    w->tail += sizeof e + length;
    w->filed.count++;
    w->entries++;
}

static void push_folder(struct walk *w, const char *path, size_t length)
{
    if (w->end + length + 1 > sizeof pending && w->head) {
        memmove(pending, pending + w->head, w->end - w->head);
        w->end -= w->head;
        w->head = 0;
    }
    if (w->end + length + 1 > sizeof pending)
        return; // it is counted; what is in it is not
    memcpy(pending + w->end, path, length);
    pending[w->end + length] = '\0';
    w->end += length + 1;
}

// `path` has room for one more name behind `length`; `depth` is that of the folder.
static void see_entry(struct walk *w, long folder, const struct dent *d, char *path, size_t length,
                      unsigned depth)
{
    size_t n = strnlen(d->name, FRAME_NAME_MAX + 1);
    struct statx st = {.stx_mode = d->type == DT_DIR ? S_IFDIR : S_IFREG};
    if (is_temporary(d->name) && d->type == DT_REG) {
        sweep_temporary(folder, d->name); // else it is on its way here
        return;
    }
    bool usable = (d->type == DT_REG || d->type == DT_DIR || d->type == DT_UNKNOWN) &&
                  length + n <= FRAME_PATH_MAX && depth < FRAME_DEPTH_MAX &&
                  is_showable(d->name, n);
    if (usable && (w->entries < FRAME_LIST_MAX || d->type == DT_UNKNOWN)) {
        if (look(folder, d->name, 0, &st) < 0)
            return; // it is gone again
        usable = S_ISREG(st.stx_mode) || S_ISDIR(st.stx_mode);
    }
    if (!usable) {
        w->filed.odd++;
        return;
    }
    memcpy(path + length, d->name, n);
    if (w->entries < FRAME_LIST_MAX)
        report(w, path, length + n, &st);
    else
        w->filed.left_out++;
    if (S_ISDIR(st.stx_mode))
        push_folder(w, path, length + n);
}

static void see_folder(struct walk *w, long folder, char *path, size_t length)
{
    size_t at = 0, have = 0;
    unsigned depth = length > 0;
    for (size_t i = 0; i < length; i++)
        depth += path[i] == '/';
    if (length)
        path[length++] = '/';
    for (struct dent *d;
         w->seen < FRAME_COUNT_MAX && !w->gone && (d = next_dent(folder, dents[0], &at, &have));) {
        w->seen++;
        see_entry(w, folder, d, path, length, depth);
    }
}

static void serve_list(struct request *r)
{
    struct walk w = {.r = r, .filed = answer(r, 0)};
    char path[FRAME_PATH_MAX + 2]; // and the slash behind the longest
    see_folder(&w, r->root, path, 0);
    while (w.head < w.end && w.seen < FRAME_COUNT_MAX && !w.gone) {
        size_t length = strnlen(pending + w.head, FRAME_PATH_MAX);
        memcpy(path, pending + w.head, length);
        path[length] = '\0';
        w.head += length + 1;
        w.seen++; // a folder costs something even when nothing is in it
        long folder = open_beneath(r->root, path, FOLDER_FLAGS);
        if (folder >= 0)
            see_folder(&w, folder, path, length);
        close_fd(folder);
    }
    flush_list(&w, false);
}

// ---- OPEN, CREATE, COMMIT, ABORT ---------------------------------------------------------------------

static void serve_open(struct request *r)
{
    struct statx st;
    // First without opening it: a fifo that is opened lets a writer go on, a device may do anything.
    long place = open_beneath(r->root, r->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    long n = place < 0 ? place : look(place, "", AT_EMPTY_PATH, &st);
    close_fd(place);
    long fd = -1;
    if (n == 0 && S_ISDIR(st.stx_mode))
        n = -EISDIR;
    else if (n == 0 && S_ISLNK(st.stx_mode))
        n = -ELOOP;
    else if (n == 0 && !S_ISREG(st.stx_mode))
        n = -ENXIO;
    else if (n == 0)
        n = fd = open_beneath(r->root, r->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        n = look(fd, "", AT_EMPTY_PATH, &st);
    if (n == 0 && !S_ISREG(st.stx_mode))
        n = -ENXIO;
    struct frame_filed filed = answer(r, n);
    if (n == 0)
        filed.stat = stat_of(&st);
    (void)send_reply(r->sock, &filed, 0, n == 0 ? fd : -1);
    close_fd(fd);
}

static long create(long parent, const char *name, const char *temporary)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    struct statx st;
    if (look(parent, name, 0, &st) == 0 && S_ISDIR(st.stx_mode))
        return -EISDIR;
    long fd = sys_raw(SYS_openat, parent, (long)temporary, FLAGS, 0644, 0, 0);
    if (fd != -EEXIST)
        return fd;
    (void)unlink_at(parent, temporary, 0); // left behind by a gate that is no more
    return sys_raw(SYS_openat, parent, (long)temporary, FLAGS, 0644, 0, 0);
}

static void serve_create(struct request *r)
{
    char temporary[TEMPORARY_SIZE];
    const char *name;
    make_temporary(r->f.ticket, temporary);
    long parent = open_parent(r, true, &name);
    long fd = parent < 0 ? parent : create(parent, name, temporary);
    struct frame_filed filed = answer(r, fd);
    if (send_reply(r->sock, &filed, 0, fd) < 0 && fd >= 0)
        (void)unlink_at(parent, temporary, 0);
    close_fd(fd);
    close_fd(parent);
}

// The time of change is set to a whole second: when code writes to the file in the same tick of the clock
// it gets another one, and the change is seen.
static long commit(long parent, const char *name, const char *temporary, struct statx *ret)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = now_s()}};
    long n =
        sys_raw(SYS_utimensat, parent, (long)temporary, (long)times, AT_SYMLINK_NOFOLLOW, 0, 0);
    if (n == 0)
        n = sys_raw(SYS_renameat2, parent, (long)temporary, parent, (long)name, 0, 0);
    return n == 0 ? look(parent, name, 0, ret) : n;
}

static void serve_commit(struct request *r)
{
    char temporary[TEMPORARY_SIZE];
    const char *name;
    struct statx st;
    make_temporary(r->f.ticket, temporary);
    long parent = open_parent(r, false, &name);
    long n = parent < 0 ? parent : commit(parent, name, temporary, &st);
    if (n < 0 && parent >= 0)
        (void)unlink_at(parent, temporary, 0);
    close_fd(parent);
    struct frame_filed filed = answer(r, n);
    if (n == 0)
        filed.stat = stat_of(&st);
    (void)send_reply(r->sock, &filed, 0, -1);
}

static void serve_abort(struct request *r)
{
    char temporary[TEMPORARY_SIZE];
    const char *name;
    make_temporary(r->f.ticket, temporary);
    long parent = open_parent(r, false, &name);
    long n = parent < 0 ? parent : unlink_at(parent, temporary, 0);
    close_fd(parent);
    struct frame_filed filed = answer(r, n);
    (void)send_reply(r->sock, &filed, 0, -1);
}

// ---- DELETE ----------------------------------------------------------------------------------------

// A folder is emptied without going down into it: what is in its folders is removed, and folders in them
// that are not empty are moved up into it.  So two descriptors are enough for any depth, and no name gets
// longer.  Each entry is seen twice at most in one go over the folder.
struct removal {
    long top;
    unsigned budget; // entries that may still be looked at
    uint32_t moved;  // names given
    bool progress;   // in this go
    long error;      // why something stays
};

static void allow_all(long at, const char *name)
{
    (void)sys_raw(SYS_fchmodat, at, (long)name, 0700, 0, 0, 0);
}

static long open_folder(long at, const char *name)
{
    long fd = open_beneath(at, name, FOLDER_FLAGS);
    if (fd != -EACCES)
        return fd;
    allow_all(at, name);
    return open_beneath(at, name, FOLDER_FLAGS);
}

// Can a name be taken out of this folder?  Its owner may have made it read-only.
static void allow_removal(long folder)
{
    (void)sys_raw(SYS_fchmod, folder, 0700, 0, 0, 0, 0);
}

// -ENOTEMPTY: a folder with something in it.
static long remove_entry(long folder, const char *name)
{
    long n = unlink_at(folder, name, 0);
    return n == -EISDIR ? unlink_at(folder, name, AT_REMOVEDIR) : n;
}

static long move_up(struct removal *m, long folder, const char *name)
{
    enum { TRIES = 100 };
    long n = -EEXIST;
    for (int i = 0; i < TRIES && n == -EEXIST; i++) {
        char temporary[TEMPORARY_SIZE];
        make_temporary(m->moved++, temporary);
        n = sys_raw(SYS_renameat2, folder, (long)name, m->top, (long)temporary, RENAME_NOREPLACE,
                    0);
        if (n == -EACCES && i == 0) { // a folder that is moved is written to: its ".." changes
            allow_all(folder, name);
            n = -EEXIST;
        }
    }
    return n;
}

static void note(struct removal *m, long result)
{
    if (result == 0)
        m->progress = true;
    else if (result != -ENOENT)
        m->error = result;
}

static void empty_folder(struct removal *m, const char *name)
{
    size_t at = 0, have = 0;
    long folder = open_folder(m->top, name);
    if (folder < 0) {
        note(m, folder);
        return;
    }
    allow_removal(folder);
    for (struct dent *d; m->budget && (d = next_dent(folder, dents[1], &at, &have)); m->budget--) {
        long n = remove_entry(folder, d->name);
        note(m, n == -ENOTEMPTY ? move_up(m, folder, d->name) : n);
    }
    close_fd(folder);
    long n = unlink_at(m->top, name, AT_REMOVEDIR);
    if (n != -ENOTEMPTY) // else the next go finds it
        note(m, n);
}

static long empty_top(struct removal *m)
{
    bool empty;
    do {
        size_t at = 0, have = 0;
        empty = true;
        m->progress = false;
        m->error = 0;
        (void)sys_raw(SYS_lseek, m->top, 0, SEEK_SET, 0, 0, 0);
        for (struct dent *d; m->budget && (d = next_dent(m->top, dents[0], &at, &have));
             m->budget--) {
            empty = false;
            long n = remove_entry(m->top, d->name);
            if (n == -ENOTEMPTY)
                empty_folder(m, d->name);
            else
                note(m, n);
        }
    } while (!empty && m->progress && m->budget);
    return m->budget == 0 ? -E2BIG : m->error;
}

// -E2BIG: it is not finished, and would go on when asked again.
static long remove_path(long parent, const char *name)
{
    long n = remove_entry(parent, name);
    if (n != -ENOTEMPTY)
        return n;
    struct removal m = {.top = open_folder(parent, name), .budget = FRAME_COUNT_MAX};
    if (m.top < 0)
        return m.top;
    allow_removal(m.top);
    n = empty_top(&m);
    close_fd(m.top);
    return n < 0 ? n : unlink_at(parent, name, AT_REMOVEDIR);
}

static void serve_delete(struct request *r)
{
    const char *name;
    long parent = open_parent(r, false, &name);
    long n = parent < 0 ? parent : remove_path(parent, name);
    close_fd(parent);
    struct frame_filed filed = answer(r, n);
    (void)send_reply(r->sock, &filed, 0, -1);
}

// ---- BUSY ------------------------------------------------------------------------------------------

static void serve_busy(struct request *r)
{
    struct frame_filed filed = answer(r, 0);
    filed.count = r->busy;
    (void)send_reply(r->sock, &filed, 0, -1);
}

// ---- all of them -----------------------------------------------------------------------------------

static void (*const serve[FILE_OP_MAX])(struct request *r) = {
    [FILE_LIST] = serve_list,     [FILE_OPEN] = serve_open,   [FILE_CREATE] = serve_create,
    [FILE_COMMIT] = serve_commit, [FILE_ABORT] = serve_abort, [FILE_DELETE] = serve_delete,
    [FILE_BUSY] = serve_busy,
};

bool files_serve(int sock, const char *root, bool busy, const void *frame, size_t length)
{
    return files_serve_at(sock, AT_FDCWD, root, busy, frame, length);
}

bool files_serve_at(int sock, int at, const char *root, bool busy, const void *frame, size_t length)
{
    struct request r = {.sock = sock, .root = -1, .busy = busy};
    if (length < sizeof r.f)
        return false;
    memcpy(&r.f, frame, sizeof r.f);
    const char *path = (const char *)frame + sizeof r.f;
    if (r.f.op == 0 || r.f.op >= FILE_OP_MAX || r.f.path_length > FRAME_PATH_MAX ||
        r.f.path_length != length - sizeof r.f)
        return false;
    bool pathless = r.f.op == FILE_LIST || r.f.op == FILE_BUSY;
    long n = pathless || is_plain(path, r.f.path_length) ? 0 : -EINVAL;
    memcpy(r.path, path, r.f.path_length);
    if (n == 0 && r.f.op != FILE_BUSY)
        n = r.root = (int)sys_raw(SYS_openat, at, (long)root, FOLDER_FLAGS | O_NOFOLLOW, 0, 0, 0);
    if (n >= 0) {
        serve[r.f.op](&r);
        close_fd(r.root);
        return true;
    }
    struct frame_filed filed = answer(&r, n);
    (void)send_reply(sock, &filed, 0, -1);
    return true;
}

struct files_usage files_usage(const char *root)
{
    struct statfs fs;
    if (sys_raw(SYS_statfs, (long)root, (long)&fs, 0, 0, 0, 0) < 0)
        return (struct files_usage){UINT64_MAX, UINT64_MAX};
    return (struct files_usage){.inodes = (uint64_t)(fs.f_files - fs.f_ffree),
                                .blocks = (uint64_t)(fs.f_blocks - fs.f_bfree)};
}
