// SPDX-License-Identifier: Apache-2.0
//
// file_access: see file_access.h.  Runs in the gate, on its event loop.  session_find() and the
// store check the owner first, so another owner's holder gets the same answer as an unknown one.

#include "mcp/tools/file_access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/share.h"
#include "run/gate.h"

// One operation in a live box that a call waits for: for the box to have this session's files, then
// for the operation itself.
struct work {
    struct mcp_call *call;
    struct session_visit *visit;
    struct scratch_op *op;
    struct scratch_op *(*start)(struct work *w, struct live_box *b, struct err *e);
    char holder[STORE_HOLDER_MAX + 1];
    char path[SCRATCH_PATH_MAX + 1];
    char *data; // WRITE
    size_t length;
    struct found_file *file; // READ
    struct share_part room;  // of its data
    file_access_want want;
    file_access_opened opened; // one of the three is set
    file_access_changed changed;
    file_access_listed listed;
};

static struct store *store_of(const struct mcp_call *c)
{
    return c->mcp->gate ? c->mcp->gate->store : NULL;
}

static void file_free(struct found_file *f)
{
    if (f)
        free(f->data);
    free(f);
}

static void work_free(struct work *w)
{
    if (!w)
        return;
    share_give(&w->room);
    file_free(w->file);
    free(w->data);
    free(w);
}

static void cancel_work(struct mcp_call *c)
{
    struct work *w = c->work;
    if (w->visit)
        session_visit_cancel(w->visit);
    if (w->op)
        scratch_cancel(w->op);
    work_free(w);
}

// The call is free again; what it waited for is the caller's.
static struct work *take_work(struct mcp_call *c)
{
    struct work *w = c->work;
    c->work = NULL;
    c->cancel = NULL;
    return w;
}

static int no_memory(struct err *e)
{
    return err_memory(e);
}

// A session that can be asked for files.  NULL and `e`.
static struct session *find_session(const struct mcp_call *c, const char *holder, struct err *e)
{
    if (!c->mcp->gate) {
        err_set(e, ERR_INTERNAL, 0, NULL, "this server has no sessions");
        return NULL;
    }
    struct session *s = session_find(c->mcp->gate, c->owner, holder, e);
    if (s && !s->box) {
        err_set(e, ERR_BUSY, 0, "try again in a moment", "the session is not ready yet");
        return NULL;
    }
    return s;
}

static bool read_stored(const struct work *w, const char *holder, const char *path);

static void tell_failure(const struct work *w, const struct err *e)
{
    struct mcp_call *c = w->call;
    if (w->listed)
        w->listed(c, w->holder, NULL, NULL, 0, 0, e);
    else if (w->changed)
        w->changed(c, NULL, e);
    else if (!read_stored(w, w->holder, w->path)) // the artifact, if there is one
        w->opened(c, NULL, e);
}

static void fail(struct work *w, const struct err *e)
{
    (void)take_work(w->call);
    tell_failure(w, e);
    work_free(w);
}

static void on_visited(struct session *s, const struct err *error, void *argument)
{
    struct work *w = argument;
    struct err e;
    w->visit = NULL;
    if (!error)
        w->op = w->start(w, s->box, &e);
    if (!w->op)
        fail(w, error ? error : &e);
}

// Takes the data and the file of `plan`.
static void begin(struct mcp_call *c, struct session *s, const char *path, struct work *plan)
{
    struct err e;
    plan->call = c;
    snprintf(plan->holder, sizeof plan->holder, "%s", s->id);
    snprintf(plan->path, sizeof plan->path, "%s", path);
    struct work *w = malloc(sizeof *w);
    if (!w) {
        (void)no_memory(&e);
        tell_failure(plan, &e);
        free(plan->data);
        file_free(plan->file);
        return;
    }
    *w = *plan;
    c->work = w;
    c->cancel = cancel_work;
    struct session_visit *visit = session_visit(s, on_visited, w);
    if (visit) // NULL: the operation began, or failed and freed `w`
        w->visit = visit;
}

// Is the artifact the same as the live file?
static bool is_same(const struct artifact *a, uint64_t size, int64_t modified_ms)
{
    return a->size == size && a->modified_ms == modified_ms;
}

// ---- read ---------------------------------------------------------------------------------------

// SECURITY: a slow box holds the memory for the bytes that were asked of it, so the sum is bounded.
static struct share in_memory = TAILQ_HEAD_INITIALIZER(in_memory);
enum { MEMORY_MAX = 128 << 20 };

// Sets the wanted part, within the file, and allocates its data.
static int make_room(const struct mcp_call *c, file_access_want want, struct found_file *f,
                     struct err *e)
{
    size_t length = 0;
    want(c, f, &f->offset, &length);
    uint64_t left = f->offset < f->size ? f->size - f->offset : 0;
    f->length = left < length ? (size_t)left : length;
    f->data = malloc(f->length + 1);
    return f->data ? 0 : no_memory(e);
}

static void set_head(struct found_file *f, const char *head, size_t length)
{
    f->head_length = length < FILE_HEAD_MAX ? length : FILE_HEAD_MAX;
    memcpy(f->head, head, f->head_length);
}

// Of an artifact, which does not change.
static int read_fd(int fd, struct found_file *f, struct err *e)
{
    size_t have = 0;
    while (have < f->length) {
        ssize_t n = pread(fd, f->data + have, f->length - have, (off_t)(f->offset + have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, ERR_SYSTEM, errno, NULL, "read the file '%s'", f->path);
        if (n == 0)
            break;
        have += (size_t)n;
    }
    f->length = have;
    f->data[have] = '\0';
    return 0;
}

// The artifact of that path.  False: there is none.
static bool read_stored(const struct work *w, const char *holder, const char *path)
{
    struct mcp_call *c = w->call;
    struct store *store = store_of(c);
    struct found_file f = {0};
    struct err e;
    char head[FILE_HEAD_MAX];
    if (!store || strlen(holder) > STORE_HOLDER_MAX ||
        !store_by_path(store, c->owner, holder, path, &f.artifact))
        return false;
    _cleanup_close_ int fd = store_read(store, &f.artifact);
    if (fd < 0)
        return false;
    f.size = f.artifact.size;
    f.modified_ms = f.artifact.modified_ms;
    f.has_link = true;
    snprintf(f.holder, sizeof f.holder, "%s", holder);
    snprintf(f.path, sizeof f.path, "%s", path);
    ssize_t n = pread(fd, head, sizeof head, 0);
    set_head(&f, head, n > 0 ? (size_t)n : 0);
    bool good = make_room(c, w->want, &f, &e) == 0 && read_fd(fd, &f, &e) == 0;
    w->opened(c, good ? &f : NULL, good ? NULL : &e);
    free(f.data);
    return true;
}

static int on_found(const struct scratch_file *file, const char *head, size_t length,
                    struct scratch_part *part, void *argument, struct err *e)
{
    struct mcp_call *c = argument;
    struct work *w = c->work;
    struct found_file *f = w->file;
    f->size = file->size;
    f->modified_ms = file->mtime_ns / 1000000;
    snprintf(f->holder, sizeof f->holder, "%s", w->holder);
    snprintf(f->path, sizeof f->path, "%s", w->path);
    f->has_link = store_of(c) &&
                  store_by_path(store_of(c), c->owner, w->holder, w->path, &f->artifact) &&
                  is_same(&f->artifact, f->size, f->modified_ms);
    set_head(f, head, length);
    if (make_room(c, w->want, f, e) < 0)
        return -1;
    *part = (struct scratch_part){f->offset, f->length};
    f->length = 0;
    if (share_take(&in_memory, &w->room, c->owner, part->length, MEMORY_MAX))
        return 0;
    return err_set(e, ERR_BUSY, 0, "try again later, or read less at once",
                   "too many bytes of files are being read at once");
}

static int on_bytes(const void *data, size_t length, uint64_t offset, void *argument, struct err *e)
{
    struct found_file *f = ((struct work *)((struct mcp_call *)argument)->work)->file;
    (void)offset;
    (void)e;
    memcpy(f->data + f->length, data, length);
    f->length += length;
    return 0;
}

static void on_read(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct mcp_call *c = argument;
    struct work *w = take_work(c);
    (void)b;
    share_give(&w->room); // its owner is the call's, which may be gone soon
    if (reply->error.message[0]) {
        // User code removed it; its artifact may still be there.
        if (!read_stored(w, w->holder, w->path))
            w->opened(c, NULL, &reply->error);
    } else {
        w->file->size = reply->file.size;
        w->file->data[w->file->length] = '\0';
        w->opened(c, w->file, NULL);
    }
    work_free(w);
}

static struct scratch_op *start_read(struct work *w, struct live_box *b, struct err *e)
{
    static const struct scratch_sink sink = {.begin = on_found, .take = on_bytes};
    return scratch_read(b, w->path, &sink, on_read, w->call, e);
}

void file_access_read(struct mcp_call *c, const char *holder, const char *path,
                      file_access_want want, file_access_opened then)
{
    struct err e = {0};
    char clean[SCRATCH_PATH_MAX + 1];
    struct work plan = {.call = c, .start = start_read, .want = want, .opened = then};
    if (scratch_path(path, strlen(path), clean, &e) < 0) {
        then(c, NULL, &e);
        return;
    }
    struct session *s = find_session(c, holder, &e);
    if (!s) {
        if (!read_stored(&plan, holder, clean))
            then(c, NULL, &e);
        return;
    }
    plan.file = calloc(1, sizeof *plan.file);
    if (!plan.file) {
        (void)no_memory(&e);
        then(c, NULL, &e);
        return;
    }
    begin(c, s, clean, &plan);
}

// ---- list ---------------------------------------------------------------------------------------

static void answer_list(struct mcp_call *c, const char *holder, const struct scratch_list *live,
                        file_access_listed then)
{
    struct artifact *artifacts = NULL;
    uint64_t more = 0;
    size_t count = store_of(c) ? store_list(store_of(c), c->owner, holder, &artifacts, &more) : 0;
    then(c, holder, live, artifacts, count, more, NULL);
    free(artifacts);
}

static void on_listed(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct mcp_call *c = argument;
    struct work *w = take_work(c);
    (void)b;
    if (reply->error.message[0])
        w->listed(c, w->holder, NULL, NULL, 0, 0, &reply->error);
    else
        answer_list(c, w->holder, &reply->list, w->listed);
    work_free(w);
}

// Of a holder that is not live.
static void list_stored(struct mcp_call *c, const char *holder, file_access_listed then,
                        const struct err *missing)
{
    struct artifact *artifacts = NULL;
    uint64_t more = 0;
    size_t count = store_of(c) && strlen(holder) <= STORE_HOLDER_MAX
                       ? store_list(store_of(c), c->owner, holder, &artifacts, &more)
                       : 0;
    then(c, holder, NULL, artifacts, count, more, count ? NULL : missing);
    free(artifacts);
}

static struct scratch_op *start_list(struct work *w, struct live_box *b, struct err *e)
{
    return scratch_list(b, on_listed, w->call, e);
}

void file_access_list(struct mcp_call *c, const char *holder, file_access_listed then)
{
    struct err e = {0};
    struct session *s = find_session(c, holder, &e);
    if (!s) {
        list_stored(c, holder, then, &e);
        return;
    }
    begin(c, s, "", &(struct work){.start = start_list, .listed = then});
}

// ---- change -------------------------------------------------------------------------------------

static void on_written(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct mcp_call *c = argument;
    struct work *w = take_work(c);
    (void)b;
    struct scratch_file file = reply->file;
    struct err ignored;
    struct session *s = find_session(c, w->holder, &ignored);
    file.path = w->path;
    if (s && !reply->error.message[0])
        session_save_bytes(s, &file, w->data, w->length);
    w->changed(c, &file, reply->error.message[0] ? &reply->error : NULL);
    work_free(w);
}

static struct scratch_op *start_write(struct work *w, struct live_box *b, struct err *e)
{
    return scratch_write(b, w->path, w->data, w->length, on_written, w->call, e);
}

void file_access_write(struct mcp_call *c, struct session *s, const char *path, char *data,
                       size_t length, file_access_changed then)
{
    struct err e = {0};
    char clean[SCRATCH_PATH_MAX + 1];
    _cleanup_free_ char *taken = data;
    if (scratch_path(path, strlen(path), clean, &e) < 0) {
        then(c, NULL, &e);
        return;
    }
    if (!s->box) {
        err_set(&e, ERR_BUSY, 0, "try again in a moment", "the session is not ready yet");
        then(c, NULL, &e);
        return;
    }
    begin(c, s, clean,
          &(struct work){
              .start = start_write, .changed = then, .data = TAKE_PTR(taken), .length = length});
}

// The artifact of a path and, if it was a folder, those below it.  Returns how many went.
static unsigned forget(struct mcp_call *c, const char *holder, const char *path)
{
    struct store *store = store_of(c);
    if (!store || strlen(holder) > STORE_HOLDER_MAX)
        return 0;
    unsigned gone = store_delete(store, c->owner, holder, path);
    if (gone)
        return gone;
    struct artifact *list = NULL;
    uint64_t more = 0;
    size_t length = strlen(path), count = store_list(store, c->owner, holder, &list, &more);
    for (size_t i = 0; i < count; i++)
        if (strncmp(list[i].path, path, length) == 0 && list[i].path[length] == '/')
            gone += store_delete(store, c->owner, holder, list[i].path);
    free(list);
    return gone;
}

static void on_deleted(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct mcp_call *c = argument;
    struct work *w = take_work(c);
    (void)b;
    unsigned gone = forget(c, w->holder, w->path);
    w->changed(c, NULL, reply->error.message[0] && !gone ? &reply->error : NULL);
    work_free(w);
}

static struct scratch_op *start_delete(struct work *w, struct live_box *b, struct err *e)
{
    return scratch_delete(b, w->path, on_deleted, w->call, e);
}

void file_access_delete(struct mcp_call *c, const char *holder, const char *path,
                        file_access_changed then)
{
    struct err e = {0};
    char clean[SCRATCH_PATH_MAX + 1];
    if (scratch_path(path, strlen(path), clean, &e) < 0) {
        then(c, NULL, &e);
        return;
    }
    struct session *s = find_session(c, holder, &e);
    if (!s) {
        then(c, NULL, forget(c, holder, clean) ? NULL : &e);
        return;
    }
    begin(c, s, clean, &(struct work){.start = start_delete, .changed = then});
}

void file_describe_size(uint64_t size, char buf[FILE_SIZE_TEXT_MAX])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    double value = (double)size;
    size_t unit = 0;
    for (; value >= 1000 && unit + 1 < ARRAY_LEN(units); unit++)
        value /= 1000;
    snprintf(buf, FILE_SIZE_TEXT_MAX, "%.*f %s", unit ? 1 : 0, value, units[unit]);
}
