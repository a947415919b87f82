// SPDX-License-Identifier: Apache-2.0
//
// scratch: see scratch.h.  Paths and lists are in scratch_path.c; here are the operations.
//
// Invariants:
//   (1) an operation is in `ops` of its box from its beginning until just before `done`.
//   (2) it waits for answers of one tag and one kind, which come in the order of the questions; any
//       other answer came too late, or was for a gate before this one, and is dropped.
//   (3) what CREATE made is removed by ABORT unless COMMIT was sent; a box serves in order, so
//       ABORT can be sent before the answer to CREATE.
//   (4) READ and WRITE: bytes before `at` are answered for, bytes before `asked` are asked for, and
//       `end` is where the operation stops.  The questions in between are `pending`, at most
//       SCRATCH_WINDOW.
//   (5) WRITE from a source: `end` is UINT64_MAX until the source has given its last byte.  An
//       operation that waits for its source has no pending question and no timer.

#include "files/scratch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/timer.h"
#include "files/scratch_path.h"
#include "run/gate.h"
#include "run/live.h"

struct scratch_op {
    TAILQ_ENTRY(scratch_op) list;
    struct live_box *box;
    enum frame_file_op first, awaited;
    uint32_t tag;
    char *path; // NULL: LIST
    struct timer timer;
    uint64_t timed_at; // `at` when the timer was set
    const char *data;  // WRITE: borrowed; NULL: `source` gives the bytes
    const struct scratch_source *source;
    const struct scratch_sink *sink; // READ
    struct scratch_file file;        // READ: as it was found; its inode is WRITE's too
    uint64_t size;                   // WRITE: of the file; at least, if it is not known
    uint64_t at, asked, end;
    unsigned pending;
    uint32_t sent[FRAME_WINDOW]; // WRITE: bytes of the pending frames, a ring
    unsigned next_sent;          // where the next one goes
    struct scratch_list found;
    size_t capacity; // of found.files
    scratch_done done;
    void *argument;
};

// ---- the end of an operation --------------------------------------------------------------------

static void op_free(struct scratch_op *op)
{
    if (!op)
        return;
    timer_stop(&op->timer);
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
    op_free(op);
    if (live_guard_end(&g))
        tell_quiet(g.box);
}

static void fail(struct scratch_op *op, int errnum)
{
    struct scratch_reply reply = {0};
    scratch_error(&reply.error, errnum, op->first, op->path, &op->box->limits);
    finish(op, &reply);
}

// `room`: bytes that would have fitted; the box says so, and it is only shown to its own client.
static void fail_full(struct scratch_op *op, uint64_t room)
{
    struct scratch_reply reply = {0};
    scratch_no_room(&reply.error, op->path, op->size, room, &op->box->limits);
    finish(op, &reply);
}

// A removal in several steps has one time limit for all of them; bytes of a file must keep the
// pace.
static void on_timer(void *argument);

static int set_timer(struct scratch_op *op, enum frame_file_op what)
{
    if (what == op->awaited && timer_is_set(&op->timer) && op->at - op->timed_at < SCRATCH_PACE)
        return 0;
    op->timed_at = op->at;
    return timer_set(&op->timer, op->box->gate->base, SCRATCH_TIMEOUT_MS, on_timer, op) ? 0
                                                                                        : -ENOMEM;
}

// Asks for `length` bytes, or sends those at `bytes`.
static int ask_for(struct scratch_op *op, enum frame_file_op what, const void *bytes, size_t length)
{
    struct frame_file f = {.op = what,
                           .tag = op->tag,
                           .ticket = op->tag,
                           .path_length = op->path ? (uint32_t)strlen(op->path) : 0,
                           .length = (uint32_t)length};
    if (what == FILE_READ || what == FILE_WRITE) {
        f.offset = op->asked;
        f.inode = op->file.inode;
    }
    struct frame_piece pieces[] = {
        {&f, sizeof f}, {op->path, f.path_length}, {bytes, bytes ? length : 0}};
    int n = set_timer(op, what);
    op->awaited = what;
    op->asked += length;
    op->pending++;
    return n < 0 ? n : live_send(op->box, FRAME_FILE, pieces, ARRAY_LEN(pieces), true);
}

static int ask(struct scratch_op *op, enum frame_file_op what)
{
    return ask_for(op, what, NULL, 0);
}

// Bytes in the next frame from `at` on.
static size_t chunk(const struct scratch_op *op, uint64_t at)
{
    uint64_t left = op->end - at;
    return left < FRAME_DATA_MAX ? (size_t)left : FRAME_DATA_MAX;
}

// A box that does not read its socket costs one frame for each operation, not a window of them.
static bool is_window_open(const struct scratch_op *op)
{
    return op->asked < op->end && op->pending < SCRATCH_WINDOW &&
           (op->pending == 0 || TAILQ_EMPTY(&op->box->frames));
}

// Asks for as many chunks as the window allows.
static int ask_window(struct scratch_op *op)
{
    int n = 0;
    while (n == 0 && is_window_open(op))
        n = ask_for(op, FILE_READ, NULL, chunk(op, op->asked));
    return n;
}

// Takes the next bytes from the source.  As scratch_source.give(); a file that gets too large
// fails.
static ssize_t pull(struct scratch_op *op, void *to, struct err *e)
{
    ssize_t n = op->source->give(to, FRAME_DATA_MAX, op->argument, e);
    if (n <= 0 || op->asked + (uint64_t)n <= op->box->limits.file_bytes)
        return n;
    scratch_error(e, EFBIG, FILE_WRITE, op->path, &op->box->limits);
    return -EFBIG;
}

// Sends the next bytes; CREATE also without any.  0, -EAGAIN: there are none now, or another
// negative code and `e`.
static int send_next(struct scratch_op *op, enum frame_file_op what, struct err *e)
{
    static char pulled[FRAME_DATA_MAX]; // only until it is sent or copied
    ssize_t length = op->data ? (ssize_t)chunk(op, op->asked) : pull(op, pulled, e);
    if (length == 0 && !op->data)
        op->end = op->asked;
    if (length < 0 && length != -EAGAIN)
        return (int)length;
    if (length <= 0 && what != FILE_CREATE)
        return -EAGAIN;
    size_t bytes = length > 0 ? (size_t)length : 0;
    op->sent[op->next_sent++ % FRAME_WINDOW] = (uint32_t)bytes;
    if (op->asked + bytes > op->size)
        op->size = op->asked + bytes;
    int n = ask_for(op, what, op->data ? op->data + op->asked : pulled, bytes);
    if (n < 0)
        scratch_error(e, -n, op->first, op->path, &op->box->limits);
    return n;
}

// Sends as many bytes as there are and the window allows.  0, or a negative code and `e`.
static int send_window(struct scratch_op *op, struct err *e)
{
    int n = 0;
    while (n == 0 && is_window_open(op))
        n = send_next(op, FILE_WRITE, e);
    return n == -EAGAIN ? 0 : n;
}

// Invariant 3.  The file stays behind only if memory is out as well.
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
    // A callback may free the box; live_free() then fails the other operations.
    struct live_guard g;
    live_guard_begin(&g, b);
    for (struct scratch_op *op; !g.freed && (op = TAILQ_FIRST(&b->ops));)
        fail(op, EPIPE);
    (void)live_guard_end(&g);
}

static void on_timer(void *argument)
{
    struct scratch_op *op = argument;
    ask_abort(op);
    fail(op, ETIMEDOUT);
}

// ---- what the box says --------------------------------------------------------------------------

static struct scratch_file file_of(const struct frame_stat *stat)
{
    return (struct scratch_file){.size = stat->size,
                                 .mtime_ns = stat->mtime_ns,
                                 .ctime_ns = stat->ctime_ns,
                                 .inode = stat->inode};
}

// ---- reading ------------------------------------------------------------------------------------

// All wanted bytes are here.
static void finish_read(struct scratch_op *op)
{
    struct scratch_reply reply = {.file = op->file};
    finish(op, &reply);
}

static void fail_with(struct scratch_op *op, const struct err *e)
{
    struct scratch_reply reply = {.error = *e};
    finish(op, &reply);
}

// Hands over the wanted part of the bytes at `at`.  True: the operation goes on.
static bool hand_over(struct scratch_op *op, uint64_t begin, uint64_t at, const char *data,
                      size_t length)
{
    uint64_t from = at > begin ? at : begin, to = at + length < op->end ? at + length : op->end;
    struct err e = {0};
    int n = from < to
                ? op->sink->take(data + (from - at), (size_t)(to - from), from, op->argument, &e)
                : 0;
    if (n < 0)
        fail_with(op, &e);
    else if (n > 0)
        finish_read(op);
    return n == 0;
}

// `short_by_now`: the file now ends at `at`, before its former size.
static int read_on(struct scratch_op *op, bool short_by_now)
{
    if (short_by_now)
        op->file.size = op->at;
    if (short_by_now || op->at == op->end)
        finish_read(op);
    else if (ask_window(op) < 0)
        fail(op, ENOMEM);
    return 0;
}

// Handles the first answer, which describes the file.
static int on_found(struct scratch_op *op, const struct frame_filed *f, const char *data,
                    size_t length)
{
    uint64_t size = f->stat.size, whole = size < FRAME_DATA_MAX ? size : FRAME_DATA_MAX;
    if (f->offset || f->stat.inode == 0 || length > whole)
        return -EBADMSG;
    if (size > op->box->limits.file_bytes) {
        fail(op, EFBIG);
        return 0;
    }
    op->file = file_of(&f->stat);
    bool is_short = length < whole;
    if (is_short)
        op->file.size = length;
    struct scratch_file file = op->file;
    struct scratch_part part = {.length = file.size};
    struct err e = {0};
    file.path = op->path;
    if (op->sink->begin(&file, data, length, &part, op->argument, &e) < 0) {
        fail_with(op, &e);
        return 0;
    }
    uint64_t begin = part.offset < file.size ? part.offset : file.size, left = file.size - begin;
    op->end = begin + (part.length < left ? part.length : left);
    op->at = op->asked = length < op->end ? (begin > length ? begin : length) : op->end;
    if (!hand_over(op, begin, 0, data, length))
        return 0;
    return read_on(op, false);
}

static int on_read(struct scratch_op *op, const struct frame_filed *f, const char *data,
                   size_t length)
{
    if (op->pending-- == 0) // an answer without a question
        return -EBADMSG;
    if (op->file.inode == 0)
        return on_found(op, f, data, length);
    size_t want = chunk(op, op->at);
    if (f->offset != op->at || length > want || f->stat.inode != op->file.inode)
        return -EBADMSG;
    uint64_t at = op->at;
    op->at += length;
    return hand_over(op, at, at, data, length) ? read_on(op, length < want) : 0;
}

// ---- writing ------------------------------------------------------------------------------------

static void write_on(struct scratch_op *op)
{
    struct err e = {0};
    int n = op->at == op->end ? 0 : send_window(op, &e);
    if (n == 0 && op->at == op->end && (n = ask(op, FILE_COMMIT)) < 0) {
        scratch_error(&e, -n, op->first, op->path, &op->box->limits);
        op->awaited = FILE_WRITE; // COMMIT was not sent
    }
    if (n < 0) {
        ask_abort(op);
        fail_with(op, &e);
    } else if (op->pending == 0) {
        timer_stop(&op->timer); // the box has nothing to do
    }
}

// CREATE or WRITE was done.
static int on_written(struct scratch_op *op, const struct frame_filed *f)
{
    if (op->pending == 0 || (op->awaited == FILE_WRITE && f->offset != op->at))
        return -EBADMSG;
    if (op->awaited == FILE_CREATE && (op->file.inode = f->stat.inode) == 0)
        return -EBADMSG;
    op->at += op->sent[(op->next_sent - op->pending--) % FRAME_WINDOW];
    write_on(op);
    return 0;
}

void scratch_wake(struct scratch_op *op)
{
    if (op->source && op->awaited != FILE_COMMIT && op->file.inode)
        write_on(op);
}

// ---- the other answers --------------------------------------------------------------------------

static int on_done(struct scratch_op *op, const struct frame_filed *f)
{
    struct scratch_reply reply = {.busy = op->first == FILE_BUSY && f->count};
    if (op->first == FILE_CREATE)
        reply.file = file_of(&f->stat);
    finish(op, &reply);
    return 0;
}

static int on_entries(struct scratch_op *op, const struct frame_filed *f, const char *data,
                      size_t length)
{
    struct scratch_reply reply = {0};
    int n = scratch_decode(&op->found, &op->capacity, f, data, length);
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
                    size_t length)
{
    // Repeats the question while there is time: for the caller it is one operation.
    if (f->errnum == E2BIG && op->awaited == FILE_DELETE) {
        if (ask(op, FILE_DELETE) < 0)
            fail(op, ENOMEM);
        return 0;
    }
    if (f->errnum) {
        if (op->awaited == FILE_WRITE)
            ask_abort(op);
        if (f->errnum == ENOSPC && op->first == FILE_CREATE)
            fail_full(op, f->stat.size);
        else
            fail(op, f->errnum);
        return 0;
    }
    switch (op->awaited) {
    case FILE_LIST: return on_entries(op, f, data, length);
    case FILE_READ: return on_read(op, f, data, length);
    case FILE_CREATE:
    case FILE_WRITE: return on_written(op, f);
    case FILE_COMMIT:
    case FILE_DELETE:
    case FILE_BUSY: return on_done(op, f);
    case FILE_ABORT:
    case FILE_OP_MAX: break;
    }
    return -EBADMSG;
}

int scratch_filed(struct live_box *b, const char *data, size_t length)
{
    struct frame_filed f;
    if (!scratch_check(data, length, &f))
        return -EBADMSG;
    struct scratch_op *op;
    TAILQ_FOREACH (op, &b->ops, list)
        if (op->tag == f.tag && op->awaited == f.op)
            return on_filed(op, &f, data + sizeof f, length - sizeof f);
    return 0;
}

// ---- the beginning ------------------------------------------------------------------------------

static int admit(const struct live_box *b, struct err *e)
{
    unsigned count = 0;
    const struct scratch_op *op;
    if (b->silent || b->has_ended) {
        scratch_error(e, EPIPE, 0, NULL, &b->limits);
        return -1;
    }
    TAILQ_FOREACH (op, &b->ops, list)
        count++;
    // Operations that were cancelled before the box read them count as well.
    if (count < SCRATCH_OPS_MAX && b->frame_count < SCRATCH_OPS_MAX)
        return 0;
    return err_set(e, ERR_BUSY, 0, "wait for their answers, or send fewer at once",
                   "%d file operations are going on in this box already", SCRATCH_OPS_MAX);
}

static void op_init(struct scratch_op *op, struct live_box *b, const char *path)
{
    op->box = b;
    op->tag = b->next_tag++;
    op->path = path ? strdup(path) : NULL;
}

static int ask_first(struct scratch_op *op)
{
    struct err e; // a source that fails at once is asked again, and fails then
    if (op->first == FILE_CREATE)
        return send_next(op, FILE_CREATE, &e);
    return ask_for(op, op->first, NULL, op->first == FILE_READ ? FRAME_DATA_MAX : 0);
}

// `plan` has the members of this kind of operation.
static struct scratch_op *begin(struct live_box *b, const struct scratch_op *plan, const char *path,
                                struct err *e)
{
    static const struct live_files files = {.on_filed = scratch_filed,
                                            .fail_all = scratch_fail_all};
    if (admit(b, e) < 0)
        return NULL;
    b->files = &files;
    struct scratch_op *op = malloc(sizeof *op);
    if (op) {
        *op = *plan;
        op_init(op, b, path);
    }
    if (!op || (path && !op->path) || ask_first(op) < 0) {
        op_free(op);
        (void)err_memory(e);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&b->ops, op, list);
    return op;
}

struct scratch_op *scratch_list(struct live_box *b, scratch_done done, void *argument,
                                struct err *e)
{
    struct scratch_op plan = {.first = FILE_LIST, .done = done, .argument = argument};
    return begin(b, &plan, NULL, e);
}

struct scratch_op *scratch_read(struct live_box *b, const char *path,
                                const struct scratch_sink *sink, scratch_done done, void *argument,
                                struct err *e)
{
    struct scratch_op plan = {.first = FILE_READ, .sink = sink, .done = done, .argument = argument};
    return begin(b, &plan, path, e);
}

static struct scratch_op *begin_write(struct live_box *b, struct scratch_op *plan, const char *path,
                                      uint64_t size, struct err *e)
{
    // As box/files.c does: the frames of a window fit.
    int buffer = FRAME_WINDOW * (FRAME_DATA_MAX + 8 * 1024);
    if (size > FRAME_DATA_MAX)
        (void)setsockopt(b->control, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    // Before the first byte goes out.
    bool known = size != UINT64_MAX;
    if (known && (size > b->limits.file_bytes || size > b->limits.scratch_bytes)) {
        if (size > b->limits.file_bytes)
            scratch_error(e, EFBIG, FILE_CREATE, path, &b->limits);
        else
            scratch_no_room(e, path, size, b->limits.scratch_bytes, &b->limits);
        return NULL;
    }
    // Files are in the memory of the box: the kernel would end it.
    if (known && b->limits.memory_bytes && size >= b->limits.memory_bytes) {
        (void)err_set(
            e, ERR_FILE_TOO_LARGE, 0, "make it smaller, or open the session with more memory",
            "the file has %" PRIu64 " bytes, and the box %" PRIu64 " bytes of memory for code and "
            "files",
            size, b->limits.memory_bytes);
        return NULL;
    }
    plan->size = known ? size : 0;
    return begin(b, plan, path, e);
}

struct scratch_op *scratch_write(struct live_box *b, const char *path, const void *data,
                                 size_t length, scratch_done done, void *argument, struct err *e)
{
    struct scratch_op plan = {.first = FILE_CREATE,
                              .data = data ? data : "",
                              .end = length,
                              .done = done,
                              .argument = argument};
    return begin_write(b, &plan, path, length, e);
}

struct scratch_op *scratch_write_from(struct live_box *b, const char *path, uint64_t size,
                                      const struct scratch_source *source, scratch_done done,
                                      void *argument, struct err *e)
{
    struct scratch_op plan = {.first = FILE_CREATE,
                              .source = source,
                              .end = UINT64_MAX,
                              .done = done,
                              .argument = argument};
    return begin_write(b, &plan, path, size, e);
}

struct scratch_op *scratch_delete(struct live_box *b, const char *path, scratch_done done,
                                  void *argument, struct err *e)
{
    struct scratch_op plan = {.first = FILE_DELETE, .done = done, .argument = argument};
    return begin(b, &plan, path, e);
}

struct scratch_op *scratch_busy(struct live_box *b, scratch_done done, void *argument,
                                struct err *e)
{
    struct scratch_op plan = {.first = FILE_BUSY, .done = done, .argument = argument};
    return begin(b, &plan, NULL, e);
}
