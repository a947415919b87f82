// SPDX-License-Identifier: Apache-2.0
//
// files: see files.h.  Nothing here allocates, recurses or touches errno; what does not fit on a
// small stack is static, for one process at a time serves (box/init.c, invariant 3).
//
// SECURITY: names are resolved by openat2 below the root, without following any link, so that an
// answer is about the file that was asked for.  A fifo, socket or device is never opened for
// reading or writing.

#include "box/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/utf8.h"
#include "box/files_internal.h"
#include "box/removal.h"
#include "wire/frame.h"

enum {
    PENDING_SIZE = 64 * 1024, // paths of folders that a list has still to look into
    TEMPORARY_MAX_S = 60,     // without a write for so long, it is abandoned
    PLACE_FLAGS = O_PATH | O_DIRECTORY | O_CLOEXEC,
};

struct request {
    int sock, root; // the folder, open for reading
    bool busy;
    struct frame_file f;
    const char *data; // CREATE, WRITE: f.length bytes
    char path[FRAME_PATH_MAX + 1];
};

static _Alignas(8) char reply[sizeof(struct frame_header) + FRAME_CHUNK];
static _Alignas(8) char dents[DENTS_SIZE];
static char pending[PENDING_SIZE];

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

// ---- answers ------------------------------------------------------------------------------------

// Every FILED frame is one datagram, so that it cannot be mixed with another frame, whichever
// process sends it.
static long send_reply(int sock, const struct frame_filed *filed, size_t tail)
{
    struct frame_header h = {
        .magic = FRAME_MAGIC, .kind = FRAME_FILED, .total = (uint32_t)(sizeof *filed + tail)};
    memcpy(reply, &h, sizeof h);
    memcpy(reply + sizeof h, filed, sizeof *filed);
    long n;
    do
        n = sys_raw(SYS_sendto, sock, (long)reply, (long)(sizeof h + h.total), MSG_NOSIGNAL, 0, 0);
    while (n == -EINTR);
    return n < 0 ? n : 0; // a gate that is gone needs no answer
}

static struct frame_filed answer(const struct request *r, long result)
{
    return (struct frame_filed){.op = r->f.op,
                                .tag = r->f.tag,
                                .errnum = result < 0 ? (int32_t)-result : 0,
                                .offset = r->f.offset};
}

// ---- names --------------------------------------------------------------------------------------

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

static bool is_temporary(const char *name)
{
    return strncmp(name, TEMPORARY_BEGIN, BEGIN_LENGTH) == 0 &&
           strlen(name) == BEGIN_LENGTH + DIGITS + sizeof TEMPORARY_END - 1 &&
           strcmp(name + BEGIN_LENGTH + DIGITS, TEMPORARY_END) == 0;
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

// ---- LIST ---------------------------------------------------------------------------------------

// Folder by folder, those nearest to the root first, so that a huge folder further down does not
// hide what lies at hand.
struct walk {
    struct request *r;
    struct frame_filed filed;
    size_t tail;      // bytes of entries in `reply`
    size_t head, end; // in `pending`: paths, each with its NUL
    unsigned entries; // reported
    unsigned seen;
    bool gone; // the gate does not take the answer
};

static void flush_list(struct walk *w, bool more)
{
    w->filed.more = more;
    if (!w->gone && send_reply(w->r->sock, &w->filed, w->tail) < 0)
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
         w->seen < FRAME_COUNT_MAX && !w->gone && (d = next_dent(folder, dents, &at, &have));) {
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

// ---- READ, CREATE, WRITE, COMMIT, ABORT ---------------------------------------------------------

static long is_regular(const struct statx *st)
{
    return S_ISREG(st->stx_mode)   ? 0
           : S_ISDIR(st->stx_mode) ? -EISDIR
           : S_ISLNK(st->stx_mode) ? -ELOOP
                                   : -ENXIO;
}

// Opens a regular file.  `inode`: the one that it must be; 0: any.
static long open_regular(long at, const char *path, uint64_t flags, uint64_t inode,
                         struct statx *ret)
{
    // First without opening it: a fifo that is opened lets a writer go on, a device may do
    // anything.
    long node = open_beneath(at, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    long n = node < 0 ? node : look(node, "", AT_EMPTY_PATH, ret);
    close_fd(node);
    if (n == 0)
        n = is_regular(ret);
    if (n < 0)
        return n;
    long fd = open_beneath(at, path, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    n = fd < 0 ? fd : look(fd, "", AT_EMPTY_PATH, ret);
    if (n == 0)
        n = is_regular(ret);
    if (n == 0 && inode && ret->stx_ino != inode)
        n = -ESTALE;
    if (n == 0)
        return fd;
    close_fd(fd);
    return n;
}

// At most `length` bytes of what the file had when it was looked at; fewer when it is shorter by
// now.
static long read_bytes(long fd, uint64_t offset, size_t length, uint64_t size, char *to)
{
    uint64_t left = offset < size ? size - offset : 0;
    size_t want = left < length ? (size_t)left : length, have = 0;
    while (have < want) {
        long n = sys_raw(SYS_pread64, fd, (long)(to + have), (long)(want - have),
                         (long)(offset + have), 0, 0);
        if (n < 0 && n != -EINTR)
            return n;
        if (n == 0)
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    return (long)have;
}

// So that all frames of a window fit: else each of them is two switches between processes.
static void grow_buffer(int sock)
{
    static bool grown;
    int size = FRAME_WINDOW * (FRAME_DATA_MAX + 8 * 1024);
    if (!grown)
        (void)sys_raw(SYS_setsockopt, sock, SOL_SOCKET, SO_SNDBUF, (long)&size, sizeof size, 0);
    grown = true;
}

static void serve_read(struct request *r)
{
    struct statx st;
    char *to = reply + sizeof(struct frame_header) + sizeof(struct frame_filed);
    long fd = open_regular(r->root, r->path, O_RDONLY, r->f.inode, &st);
    long n = fd < 0 ? fd : read_bytes(fd, r->f.offset, r->f.length, st.stx_size, to);
    close_fd(fd);
    if (r->f.inode) // more than one frame has: others follow
        grow_buffer(r->sock);
    struct frame_filed filed = answer(r, n);
    if (n >= 0)
        filed.stat = stat_of(&st);
    (void)send_reply(r->sock, &filed, n < 0 ? 0 : (size_t)n);
}

// The answer to bytes that did not fit says how much room a file of that name could have.
static struct frame_filed written(const struct request *r, long n)
{
    struct frame_filed filed = answer(r, n);
    struct statfs fs;
    if (n == -ENOSPC && sys_raw(SYS_fstatfs, r->root, (long)&fs, 0, 0, 0, 0) == 0)
        filed.stat.size = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize + r->f.offset;
    return filed;
}

static long write_bytes(const struct request *r, long fd)
{
    for (size_t done = 0; done < r->f.length;) {
        long n = sys_raw(SYS_pwrite64, fd, (long)(r->data + done), (long)(r->f.length - done),
                         (long)(r->f.offset + done), 0, 0);
        if (n == 0 || (n < 0 && n != -EINTR))
            return n < 0 ? n : -ENOSPC;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
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
    struct statx st;
    make_temporary(r->f.ticket, temporary);
    long parent = open_parent(r, true, &name);
    long fd = parent < 0 ? parent : create(parent, name, temporary);
    long n = fd < 0 ? fd : write_bytes(r, fd);
    if (n == 0)
        n = look(fd, "", AT_EMPTY_PATH, &st);
    struct frame_filed filed = written(r, n);
    if (n == 0)
        filed.stat = stat_of(&st);
    if (fd >= 0 && n < 0)
        (void)unlink_at(parent, temporary, 0);
    if (send_reply(r->sock, &filed, 0) < 0 && n == 0)
        (void)unlink_at(parent, temporary, 0);
    close_fd(fd);
    close_fd(parent);
}

static void serve_write(struct request *r)
{
    char temporary[TEMPORARY_SIZE];
    const char *name;
    struct statx st;
    make_temporary(r->f.ticket, temporary);
    long parent = open_parent(r, false, &name);
    long fd = parent < 0 ? parent : open_regular(parent, temporary, O_WRONLY, r->f.inode, &st);
    long n = fd < 0 ? fd : write_bytes(r, fd);
    close_fd(fd);
    close_fd(parent);
    struct frame_filed filed = written(r, n);
    (void)send_reply(r->sock, &filed, 0);
}

// The time of change is set to a whole second: when code writes to the file in the same tick of the
// clock it gets another one, and the change is seen.
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
    (void)send_reply(r->sock, &filed, 0);
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
    (void)send_reply(r->sock, &filed, 0);
}

// ---- DELETE -------------------------------------------------------------------------------------

static void serve_delete(struct request *r)
{
    const char *name;
    long parent = open_parent(r, false, &name);
    long n = parent < 0 ? parent : removal_do(parent, name);
    close_fd(parent);
    struct frame_filed filed = answer(r, n);
    (void)send_reply(r->sock, &filed, 0);
}

// ---- BUSY ---------------------------------------------------------------------------------------

static void serve_busy(struct request *r)
{
    struct frame_filed filed = answer(r, 0);
    filed.count = r->busy;
    (void)send_reply(r->sock, &filed, 0);
}

// ---- all of them --------------------------------------------------------------------------------

static void (*const serve[FILE_OP_MAX])(struct request *r) = {
    [FILE_LIST] = serve_list,     [FILE_READ] = serve_read,     [FILE_CREATE] = serve_create,
    [FILE_WRITE] = serve_write,   [FILE_COMMIT] = serve_commit, [FILE_ABORT] = serve_abort,
    [FILE_DELETE] = serve_delete, [FILE_BUSY] = serve_busy,
};

bool files_serve(int sock, const char *root, bool busy, const void *frame, size_t length)
{
    return files_serve_at(sock, AT_FDCWD, root, busy, frame, length);
}

// Is it a request that a gate makes?  Then it is in `r`, but for the folder.
static bool take_request(struct request *r, const char *frame, size_t length)
{
    if (length < sizeof r->f)
        return false;
    memcpy(&r->f, frame, sizeof r->f);
    const struct frame_file *f = &r->f;
    bool brings = f->op == FILE_CREATE || f->op == FILE_WRITE;
    size_t bytes = brings ? f->length : 0;
    if (f->op == 0 || f->op >= FILE_OP_MAX || f->path_length > FRAME_PATH_MAX ||
        f->length > FRAME_DATA_MAX || f->offset > INT64_MAX - FRAME_DATA_MAX || f->reserved ||
        (uint64_t)f->path_length + bytes != length - sizeof *f)
        return false;
    memcpy(r->path, frame + sizeof *f, f->path_length);
    r->data = frame + sizeof *f + f->path_length;
    return true;
}

bool files_serve_at(int sock, int at, const char *root, bool busy, const void *frame, size_t length)
{
    struct request r = {.sock = sock, .root = -1, .busy = busy};
    if (!take_request(&r, frame, length))
        return false;
    bool pathless = r.f.op == FILE_LIST || r.f.op == FILE_BUSY;
    long n = pathless || is_plain(r.path, r.f.path_length) ? 0 : -EINVAL;
    if (n == 0 && r.f.op != FILE_BUSY)
        n = r.root = (int)sys_raw(SYS_openat, at, (long)root, FOLDER_FLAGS | O_NOFOLLOW, 0, 0, 0);
    if (n >= 0) {
        serve[r.f.op](&r);
        close_fd(r.root);
        return true;
    }
    struct frame_filed filed = answer(&r, n);
    (void)send_reply(sock, &filed, 0);
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
