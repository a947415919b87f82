// SPDX-License-Identifier: Apache-2.0
//
// exec_collect: the files that a run left behind.  Before the box is gone or the session goes on,
// what is new or changed in scratch is read, file by file, into the store or to the taker.

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "exec/exec_input.h"
#include "exec/exec_internal.h"

enum { HOLDER_MAX = STORE_HOLDER_MAX, URI_MAX = 3 * SCRATCH_PATH_MAX + 128, URL_MAX = 4096 };

static void collect_next(struct exec *x);

static void holder_of(const struct exec *x, char buf[HOLDER_MAX + 1])
{
    snprintf(buf, HOLDER_MAX + 1, "%s", x->session_id[0] ? x->session_id : x->id);
}

// `why`: the store did not take it; NULL: it did, or was not asked.
static void note_file(struct exec *x, const struct artifact *a, bool stored, const struct err *why)
{
    char uri[URI_MAX], url[URL_MAX] = "", holder[HOLDER_MAX + 1];
    holder_of(x, holder);
    exec_file_uri(holder, a->path, uri, sizeof uri);
    if (stored && x->gate->file_url)
        x->gate->file_url(x->gate, a, url, sizeof url);
    bool readable = stored || x->session_id[0]; // a file of a fresh box is lost with the box
    json_t *o =
        json_pack("{s:s, s:I, s:s, s:o, s:o}", "path", a->path, "size", (json_int_t)a->size,
                  "mime_type", a->mime_type, "uri", readable ? json_string(uri) : json_null(),
                  "url", url[0] ? json_string(url) : json_null());
    if (o && stored && x->gate->save_file)
        x->gate->save_file(x->gate, a, o);
    if (o && why)
        (void)json_object_set_new(o, "error",
                                  json_pack("{s:s, s:s, s:s}", "code", err_code_name(why->code),
                                            "message", why->message, "hint", why->hint));
    if (o)
        (void)json_array_append_new(x->work->files, o);
    else
        x->work->omitted++;
}

static void set_store_error(struct exec_work *w, const struct err *e)
{
    w->file_error = w->store_error = *e;
}

// False: neither the store nor a taker wants the file, and its bytes are not read.
static bool keep_file(struct exec *x, const struct scratch_file *file)
{
    struct exec_work *w = x->work;
    struct err e;
    w->store_error = (struct err){0};
    if (x->request.taker) {
        int n = x->request.taker->begin(x, file, &e);
        if (n < 0)
            w->file_error = e;
        w->taking = n == 0;
    } else if (x->gate->store) {
        w->copy = store_begin(x->gate->store, &w->artifact, &e);
        if (!w->copy)
            set_store_error(w, &e);
    } else {
        (void)err_set(&w->store_error, ERR_STATE_FOLDER, 0,
                      "the server's log says why; see --state", "this server keeps no files");
    }
    return w->taking || w->copy;
}

static int on_found(const struct scratch_file *file, const char *head, size_t length,
                    struct scratch_part *part, void *argument, struct err *e)
{
    struct exec *x = argument;
    struct artifact *a = &x->work->artifact;
    (void)e;
    *a = (struct artifact){.size = file->size, .modified_ms = file->mtime_ns / 1000000};
    snprintf(a->path, sizeof a->path, "%s", file->path);
    snprintf(a->mime_type, sizeof a->mime_type, "%s", mime_type(a->path, head, length));
    snprintf(a->owner, sizeof a->owner, "%s", x->owner);
    snprintf(a->execution_id, sizeof a->execution_id, "%s", x->id);
    holder_of(x, a->holder);
    if (!keep_file(x, file))
        part->length = 0;
    return 0;
}

static int on_data(const void *data, size_t length, uint64_t offset, void *argument, struct err *e)
{
    struct exec *x = argument;
    struct exec_work *w = x->work;
    if (w->taking)
        return x->request.taker->data(x, data, length, offset, e);
    if (store_write(w->copy, data, length, offset, e) == 0)
        return 0;
    set_store_error(w, e); // the file is listed without a link
    store_cancel(TAKE_PTR(w->copy));
    return 1;
}

void exec_end_taker(struct exec *x, uint64_t size, const struct err *error)
{
    bool taking = x->work->taking && x->request.taker;
    x->work->taking = false;
    if (taking)
        x->request.taker->end(x, size, error);
}

static void on_collected(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct exec *x = argument;
    struct exec_work *w = x->work;
    struct store_copy *copy = TAKE_PTR(w->copy);
    bool failed = reply->error.message[0];
    (void)b;
    w->op = NULL;
    if (failed) {
        w->file_error = reply->error; // deleted or replaced meanwhile
        w->omitted++;
        if (copy)
            store_cancel(copy);
    }
    exec_end_taker(x, reply->file.size, failed ? &reply->error : NULL);
    if (!failed) {
        w->artifact.size = reply->file.size;
        bool stored = copy && store_end(copy, reply->file.size, &w->artifact, &w->store_error) == 0;
        if (copy && !stored)
            w->file_error = w->store_error;
        struct session *s = x->run->request.session;
        if (s && stored)
            session_note_saved(s);
        else if (s && s->is_saved) // an older version must not come back in its place
            session_drop_saved(s, w->artifact.path);
        note_file(x, &w->artifact, stored, w->store_error.message[0] ? &w->store_error : NULL);
    }
    collect_next(x);
}

static void collect_next(struct exec *x)
{
    static const struct scratch_sink sink = {.begin = on_found, .take = on_data};
    struct exec_work *w = x->work;
    struct err e;
    while (x->run->state == RUN_HOLDING && w->change < w->change_count) {
        size_t i = w->changes[w->change++];
        w->op = scratch_read(x->run->box, w->now.files[i].path, &sink, on_collected, x, &e);
        if (w->op)
            return;
        w->file_error = e;
        w->omitted++;
    }
    run_let_go(x->run); // all are collected, or the box is gone
}

// Forks in one box move each other's files out of the way, which changes their ctime.
static void forget_ctime(struct scratch_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        l->files[i].ctime_ns = 0;
}

// What was removed, and what is not collected, does not come back when the session is opened again.
static void drop_saved(struct session *s, const struct scratch_list *before,
                       const struct exec_work *w)
{
    for (size_t i = w->change_count; i < w->all_changes; i++)
        session_drop_saved(s, w->now.files[w->changes[i]].path);
    for (size_t i = 0, j = 0; i < before->count && !w->now.left_out; i++) {
        const char *path = before->files[i].path;
        while (j < w->now.count && strcmp(w->now.files[j].path, path) < 0)
            j++;
        if (j == w->now.count || strcmp(w->now.files[j].path, path) != 0)
            session_drop_saved(s, path);
    }
}

static void on_after(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct exec *x = argument;
    struct exec_work *w = x->work;
    struct session *s = x->run->request.session;
    (void)b;
    w->op = NULL;
    if (reply->error.message[0]) {
        w->file_error = reply->error;
        run_let_go(x->run);
        return;
    }
    w->now = reply->list;
    reply->list = (struct scratch_list){0};
    w->listed = true;
    if (s && session_is_shared(s)) {
        forget_ctime(&w->before);
        forget_ctime(&s->files);
        forget_ctime(&w->now);
    }
    const struct scratch_list *before = s && !w->before.count ? &s->files : &w->before;
    ptrdiff_t n = scratch_changes(before, &w->now, &w->changes);
    w->change_count = n > 0 ? (size_t)n : 0;
    w->omitted += w->now.left_out;
    w->odd = w->now.odd;
    size_t most = x->request.files_max ? x->request.files_max : EXEC_FILES_MAX;
    w->all_changes = w->change_count;
    if (w->change_count > most) {
        w->omitted += w->change_count - most;
        w->change_count = most;
    }
    if (s && s->is_saved)
        drop_saved(s, before, w);
    collect_next(x);
}

bool exec_collect(struct run *r, unsigned flags)
{
    struct exec *x = r->request.argument;
    struct session *s = r->request.session;
    bool some = flags & FRAME_HAS_FILES || x->work->before.count || (s && s->files.count);
    if (!x->request.collect || !some)
        return false;
    x->work->op = scratch_list(r->box, on_after, x, &x->work->file_error);
    return x->work->asked = x->work->op != NULL;
}

void exec_remember_files(struct exec *x, struct session *s)
{
    struct exec_work *w = x->work;
    if (!x->request.collect || !s->box)
        return;
    if (w->listed) {
        scratch_list_clear(&s->files);
        s->files = w->now;
        w->now = (struct scratch_list){0};
    }
    s->files_writes = s->box->writes;
}

// The box ended while its files were collected: reports the files that are missing.
void exec_count_uncollected(const struct exec *x, const struct run *r)
{
    struct exec_work *w = x->work;
    bool reading = w->listed && w->op; // the last file is still being read
    // The box ended before its result was read, so the gate could not ask for its files.
    bool too_late = x->request.collect && !w->asked && (r->flags & FRAME_HAS_FILES) &&
                    (w->lost || r->ended.end == END_OWN);
    uint64_t left = w->change_count - w->change + reading;
    w->omitted += left;
    if (!w->file_error.message[0] && (left || too_late || (w->asked && !w->listed)))
        err_set(&w->file_error, ERR_SESSION_ENDED, 0, NULL,
                "the box ended before all its files were collected");
}
