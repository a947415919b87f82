// SPDX-License-Identifier: Apache-2.0
//
// scratch: see scratch.h.  Paths and lists are in scratch_path.c; here are the operations.
//
// Invariants:
//   (1) an operation is in `ops` of its box from its beginning until just before `done`.
//   (2) it waits for one answer at a time, of one tag and one kind; any other answer is one that came too
//       late, or was for the gate before this one, and is thrown away with its descriptor.
//   (3) what CREATE made is removed by ABORT unless COMMIT was sent; a box serves in order, so ABORT can be
//       sent without having heard of CREATE.

#include "gate/scratch.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gate/gate.h"
#include "gate/live.h"
#include "gate/scratch_path.h"

enum { WRITE_PIECE = 1 << 20 }; // in one turn of the event loop

struct scratch_op {
    TAILQ_ENTRY(scratch_op) list;
    struct live_box *box;
    enum frame_file_op first, awaited; // awaited: 0 while writing
    uint32_t tag;
    char *path; // NULL: LIST
    struct event *timer;
    const char *data; // borrowed
    size_t length, written;
    int fd; // WRITE: being written to
    struct scratch_list found;
    size_t room; // of found.files
    scratch_done done;
    void *argument;
};

// ---- the end of an operation ---------------------------------------------------------------------------

static void op_free(struct scratch_op *op)
{
    if (!op)
        return;
    if (op->timer)
        event_free(op->timer);
    fd_close(&op->fd);
    scratch_list_clear(&op->found);
    free(op->path);
    free(op);
}

static void tell_quiet(struct live_box *b)
{
    if (TAILQ_EMPTY(&b->ops) && b->user && b->user->on_quiet)
        b->user->on_quiet(b);
}

// The box may be gone afterwards.
static void finish(struct scratch_op *op, struct scratch_reply *reply)
{
    struct live_guard g;
    live_guard_begin(&g, op->box);
    TAILQ_REMOVE(&op->box->ops, op, list);
    if (reply->error.message[0] == '\0' && (op->first == FILE_CREATE || op->first == FILE_DELETE))
        op->box->writes++;
    reply->file.path = op->path;
    op->done(op->box, reply, op->argument);
    scratch_list_clear(&reply->list);
    fd_close(&reply->fd);
    op_free(op);
    if (live_guard_end(&g))
        tell_quiet(g.box);
}

static void fail(struct scratch_op *op, int errnum)
{
    struct scratch_reply reply = {.fd = -1};
    scratch_error(&reply.error, errnum, op->first, op->path, &op->box->limits);
    finish(op, &reply);
}

static int ask(struct scratch_op *op, enum frame_file_op what)
{
    static const struct timeval limit = {.tv_sec = SCRATCH_TIMEOUT_MS / 1000};
    struct frame_file f = {.op = what,
                           .tag = op->tag,
                           .ticket = op->tag,
                           .path_length = op->path ? (uint32_t)strlen(op->path) : 0};
    struct frame_piece pieces[] = {{&f, sizeof f}, {op->path, f.path_length}};
    op->awaited = what;
    // A removal in several goes has one time limit for all of them.
    bool timed = what == FILE_DELETE && event_pending(op->timer, EV_TIMEOUT, NULL);
    if (!timed && event_add(op->timer, &limit) < 0)
        return -ENOMEM;
    return live_send(op->box, FRAME_FILE, pieces, 2, true);
}

// Invariant 3.  What was made stays behind only when memory is out as well.
static void ask_abort(struct scratch_op *op)
{
    if (op->awaited != FILE_COMMIT && op->first == FILE_CREATE && !op->box->silent)
        (void)ask(op, FILE_ABORT);
}

void scratch_cancel(struct scratch_op *op)
{
    if (!op)
        return;
    struct live_box *b = op->box;
    ask_abort(op);
    TAILQ_REMOVE(&b->ops, op, list);
    op_free(op);
    tell_quiet(b);
}

void scratch_fail_all(struct live_box *b)
{
    // Whoever is told may free the box, which comes back here and tells the others.
    struct live_guard g;
    live_guard_begin(&g, b);
    for (struct scratch_op *op; !g.freed && (op = TAILQ_FIRST(&b->ops));)
        fail(op, EPIPE);
    (void)live_guard_end(&g);
}

// ---- writing -------------------------------------------------------------------------------------------

static int write_piece(struct scratch_op *op)
{
    size_t left = op->length - op->written;
    ssize_t n = pwrite(op->fd, op->data + op->written, left < WRITE_PIECE ? left : WRITE_PIECE,
                       (off_t)op->written);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    op->written += (size_t)n;
    return n == 0 && left ? -ENOSPC : 0;
}

// True: the operation goes on.
static bool write_on(struct scratch_op *op)
{
    static const struct timeval soon = {0};
    int n = write_piece(op);
    if (n == 0 && op->written == op->length) {
        fd_close(&op->fd);
        n = ask(op, FILE_COMMIT);
    } else if (n == 0) {
        op->awaited = 0;
        n = event_add(op->timer, &soon) < 0 ? -ENOMEM : 0;
    }
    if (n == 0)
        return true;
    op->awaited = 0; // COMMIT was not sent
    ask_abort(op);
    fail(op, -n);
    return false;
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
    struct scratch_op *op = argument;
    (void)fd;
    (void)what;
    if (op->awaited == 0) {
        (void)write_on(op);
        return;
    }
    ask_abort(op);
    fail(op, ETIMEDOUT);
}

// ---- what the box says -----------------------------------------------------------------------------------

// SECURITY: the one question about a foreign descriptor: can reading from it, or writing to it, block or do
// something else than that?  A regular file on tmpfs cannot.  That it is one of the box's own is clear: a
// box has no others that it could open in this way.  And what is written to it must count for the box.
static bool is_usable(int fd, bool writing, struct stat *ret)
{
    struct statfs fs;
    int flags = fcntl(fd, F_GETFL), access = flags & O_ACCMODE;
    if (flags < 0 || flags & (O_PATH | O_DIRECT) || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode))
        return false;
    if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC || ret->st_size < 0)
        return false;
    // A memfd is on a tmpfs without a size: memory that no limit of the box counts, if the gate fills it.
    if (writing && fs.f_blocks == 0)
        return false;
    return access == O_RDWR || access == (writing ? O_WRONLY : O_RDONLY);
}

static int64_t nanoseconds(const struct timespec *t)
{
    return (int64_t)((uint64_t)t->tv_sec * 1000000000U + (uint64_t)t->tv_nsec);
}

static int on_open(struct scratch_op *op, int fd)
{
    struct stat st;
    struct scratch_reply reply = {.fd = fd};
    if (!is_usable(fd, false, &st)) {
        fd_close(&fd);
        return -EBADMSG;
    }
    reply.file = (struct scratch_file){.size = (uint64_t)st.st_size,
                                       .mtime_ns = nanoseconds(&st.st_mtim),
                                       .ctime_ns = nanoseconds(&st.st_ctim),
                                       .inode = st.st_ino};
    finish(op, &reply);
    return 0;
}

static int on_create(struct scratch_op *op, int fd)
{
    struct stat st;
    op->fd = fd;
    if (!is_usable(fd, true, &st))
        return -EBADMSG;
    (void)write_on(op);
    return 0;
}

static int on_done(struct scratch_op *op, const struct frame_filed *f)
{
    const struct frame_stat *stat = &f->stat;
    struct scratch_reply reply = {.fd = -1, .busy = op->first == FILE_BUSY && f->count};
    if (op->first == FILE_CREATE)
        reply.file = (struct scratch_file){.size = stat->size,
                                           .mtime_ns = stat->mtime_ns,
                                           .ctime_ns = stat->ctime_ns,
                                           .inode = stat->inode};
    finish(op, &reply);
    return 0;
}

static int on_entries(struct scratch_op *op, const struct frame_filed *f, const char *data,
                      size_t length)
{
    struct scratch_reply reply = {.fd = -1};
    int n = scratch_decode(&op->found, &op->room, f, data, length);
    if (n == -ENOMEM) {
        fail(op, ENOMEM);
        return 0;
    }
    if (n < 0 || f->more)
        return n;
    scratch_list_sort(&op->found);
    reply.list = op->found;
    op->found = (struct scratch_list){0};
    finish(op, &reply);
    return 0;
}

static int on_filed(struct scratch_op *op, const struct frame_filed *f, const char *data,
                    size_t length, int *fd)
{
    // Asked for again, for as long as there is time: it is one thing for whoever asked.
    if (f->errnum == E2BIG && op->awaited == FILE_DELETE) {
        if (ask(op, FILE_DELETE) < 0)
            fail(op, ENOMEM);
        return 0;
    }
    if (f->errnum) {
        fail(op, f->errnum);
        return 0;
    }
    switch (op->awaited) {
    case FILE_LIST: return on_entries(op, f, data, length);
    case FILE_OPEN: return on_open(op, TAKE_FD(*fd));
    case FILE_CREATE: return on_create(op, TAKE_FD(*fd));
    case FILE_COMMIT:
    case FILE_DELETE:
    case FILE_BUSY: return on_done(op, f);
    case FILE_ABORT:
    case FILE_OP_MAX: break;
    }
    return -EBADMSG;
}

int scratch_filed(struct live_box *b, const char *data, size_t length, int taken)
{
    _cleanup_close_ int fd = taken;
    struct frame_filed f;
    if (!scratch_check(data, length, fd >= 0, &f))
        return -EBADMSG;
    struct scratch_op *op;
    TAILQ_FOREACH(op, &b->ops, list)
    if (op->tag == f.tag && op->awaited == f.op)
        return on_filed(op, &f, data + sizeof f, length - sizeof f, &fd);
    return 0;
}

// ---- the beginning ---------------------------------------------------------------------------------------

static int admit(const struct live_box *b, struct err *e)
{
    unsigned count = 0;
    const struct scratch_op *op;
    if (b->silent || b->has_ended) {
        scratch_error(e, EPIPE, 0, NULL, &b->limits);
        return -1;
    }
    TAILQ_FOREACH(op, &b->ops, list)
    count++;
    // Those that were cancelled before the box read of them count as well.
    if (count < SCRATCH_OPS_MAX && b->frame_count < SCRATCH_OPS_MAX)
        return 0;
    return err_set(e, ERR_BUSY, 0, "wait for their answers, or send fewer at once",
                   "%d file operations are going on in this box already", SCRATCH_OPS_MAX);
}

static struct scratch_op *begin(struct live_box *b, enum frame_file_op first, const char *path,
                                const void *data, size_t length, scratch_done done, void *argument,
                                struct err *e)
{
    if (admit(b, e) < 0)
        return NULL;
    struct scratch_op *op = calloc(1, sizeof *op);
    if (op) {
        *op = (struct scratch_op){.box = b,
                                  .first = first,
                                  .tag = b->next_tag++,
                                  .path = path ? strdup(path) : NULL,
                                  .data = data,
                                  .length = length,
                                  .fd = -1,
                                  .done = done,
                                  .argument = argument};
        op->timer = evtimer_new(b->gate->base, on_timer, op);
    }
    if (!op || !op->timer || (path && !op->path) || ask(op, first) < 0) {
        op_free(op);
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "begin a file operation");
        return NULL;
    }
    TAILQ_INSERT_TAIL(&b->ops, op, list);
    return op;
}

struct scratch_op *scratch_list(struct live_box *b, scratch_done done, void *argument,
                                struct err *e)
{
    return begin(b, FILE_LIST, NULL, NULL, 0, done, argument, e);
}

struct scratch_op *scratch_read(struct live_box *b, const char *path, scratch_done done,
                                void *argument, struct err *e)
{
    return begin(b, FILE_OPEN, path, NULL, 0, done, argument, e);
}

struct scratch_op *scratch_write(struct live_box *b, const char *path, const void *data,
                                 size_t length, scratch_done done, void *argument, struct err *e)
{
    static bool ignored;
    // A limit of file sizes on this process is an error of a write, not the end of the server.
    if (!ignored)
        (void)signal(SIGXFSZ, SIG_IGN);
    ignored = true;
    // The limit of the box is one of its own processes; we are none of them.
    if (length > b->limits.file_bytes) {
        scratch_error(e, EFBIG, FILE_CREATE, path, &b->limits);
        return NULL;
    }
    return begin(b, FILE_CREATE, path, data, length, done, argument, e);
}

struct scratch_op *scratch_delete(struct live_box *b, const char *path, scratch_done done,
                                  void *argument, struct err *e)
{
    return begin(b, FILE_DELETE, path, NULL, 0, done, argument, e);
}

struct scratch_op *scratch_busy(struct live_box *b, scratch_done done, void *argument,
                                struct err *e)
{
    return begin(b, FILE_BUSY, NULL, NULL, 0, done, argument, e);
}
