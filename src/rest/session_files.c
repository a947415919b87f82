// SPDX-License-Identifier: Apache-2.0
//
// session_files: the routes /sessions/{id}/files and below: files in the scratch folder of a session, and,
// when it has ended, the artifacts that it left behind.  Handlers of rest/route.c; run in the gate.
//
// SECURITY: what is asked of a live session is asked of its box (gate/scratch.h), and what comes back is
// served as a download that no browser shows within this server's origin (rest/show_file.c).

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "gate/store.h"
#include "rest/call.h"
#include "rest/show_file.h"

// The session, or NULL: it has ended or never was, and may have left artifacts.
static struct session *find_live(struct rest_call *c, struct err *e)
{
    return session_find(c->rest->gate, c->owner, c->id, e);
}

// ---- listing -------------------------------------------------------------------------------------

static int compare_paths(const void *path, const void *artifact)
{
    return strcmp(path, ((const struct artifact *)artifact)->path);
}

// The link of a file, if it is still what was kept.
static const struct artifact *kept_as(const struct scratch_file *f, const struct artifact *list,
                                      size_t count)
{
    const struct artifact *a =
        count ? bsearch(f->path, list, count, sizeof *list, compare_paths) : NULL;
    return a && a->size == f->size && a->modified_ms == f->mtime_ns / 1000000 ? a : NULL;
}

static void on_listed(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct rest_call *c = argument;
    struct store *store = c->rest->gate->store;
    _cleanup_free_ struct artifact *kept = NULL;
    uint64_t more = 0;
    (void)b;
    c->op = NULL;
    if (reply->error.message[0]) {
        rest_fail_err(c, &reply->error);
        return;
    }
    size_t count = store ? store_list(store, c->owner, c->session, &kept, &more) : 0;
    json_t *files = json_array(), *folders = json_array();
    int failed = !files || !folders;
    for (size_t i = 0; i < reply->list.count; i++) {
        const struct scratch_file *f = &reply->list.files[i];
        if (f->folder)
            failed |= json_array_append_new(folders, json_string(f->path));
        else
            failed |= json_array_append_new(
                files, show_scratch_file(c, c->session, f, kept_as(f, kept, count)));
    }
    json_t *answer =
        json_pack("{s:s, s:b, s:o, s:o, s:I, s:I}", "session", c->session, "live", 1, "files",
                  files, "folders", folders, "left_out", (json_int_t)reply->list.left_out,
                  "not_shown", (json_int_t)reply->list.odd);
    if (failed) {
        json_decref(answer);
        answer = NULL;
    }
    rest_answer(c, 200, answer);
}

// What an ended session left behind.
static void list_kept(struct rest_call *c, const struct err *e)
{
    struct store *store = c->rest->gate->store;
    _cleanup_free_ struct artifact *kept = NULL;
    uint64_t more = 0;
    size_t count = store ? store_list(store, c->owner, c->id, &kept, &more) : 0;
    if (count == 0) {
        rest_fail_session(c, c->id, e);
        return;
    }
    rest_answer(c, 200,
                json_pack("{s:s, s:b, s:o, s:[], s:I, s:i}", "session", c->id, "live", 0, "files",
                          show_artifacts(c, kept, count), "folders", "left_out", (json_int_t)more,
                          "not_shown", 0));
}

static void list_live(struct rest_call *c, struct session *s)
{
    struct err e;
    c->op = scratch_list(s->box, on_listed, c, &e);
    if (c->op)
        memcpy(c->session, s->id, sizeof c->session);
    else
        rest_fail_err(c, &e);
}

void rest_list_files(struct rest_call *c)
{
    struct err e;
    if (find_live(c, &e))
        rest_with_files(c, false, list_live);
    else
        list_kept(c, &e);
}

// ---- writing -------------------------------------------------------------------------------------

static void on_written(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct rest_call *c = argument;
    (void)b;
    c->op = NULL;
    if (reply->error.message[0]) {
        rest_fail_err(c, &reply->error);
        return;
    }
    struct scratch_file file = reply->file;
    file.path = c->path;
    rest_answer(c, c->route->status, show_scratch_file(c, c->session, &file, NULL));
}

static void write_live(struct rest_call *c, struct session *s)
{
    struct err e;
    size_t length;
    const char *data = http_body(c->x, &length);
    memcpy(c->session, s->id, sizeof c->session);
    c->op = scratch_write(s->box, c->path, data, length, on_written, c, &e);
    if (!c->op)
        rest_fail_err(c, &e);
}

void rest_put_file(struct rest_call *c)
{
    rest_with_files(c, true, write_live);
}

// ---- reading -------------------------------------------------------------------------------------

// A file that is being sent, until that is over or its box is gone.
struct sending {
    struct live_reader reader; // first
    struct http_exchange *x;
};

static void on_box_gone(struct live_reader *r)
{
    http_stream_chunk(((struct sending *)r)->x, NULL); // cut off, where the client notices
}

static void on_sent(void *argument)
{
    struct sending *s = argument;
    live_reader_drop(&s->reader);
    free(s);
}

static bool watch_box(struct rest_call *c, struct live_box *b)
{
    struct sending *s = calloc(1, sizeof *s);
    if (!s)
        return false;
    *s = (struct sending){.reader = {.on_gone = on_box_gone}, .x = c->x};
    live_reader_add(b, &s->reader);
    c->x->on_end = on_sent;
    c->x->end_argument = s;
    return true;
}

static void on_read(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct rest_call *c = argument;
    char etag[80];
    c->op = NULL;
    if (reply->error.message[0]) {
        rest_fail_err(c, &reply->error);
        return;
    }
    if (!watch_box(c, (struct live_box *)(uintptr_t)b)) {
        rest_answer(c, 503, NULL);
        return;
    }
    snprintf(etag, sizeof etag, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", reply->file.inode,
             reply->file.size, (uint64_t)reply->file.mtime_ns);
    show_bytes(c, c->path, NULL, TAKE_FD(reply->fd), reply->file.size,
               reply->file.mtime_ns / 1000000, etag);
}

static void read_live(struct rest_call *c, struct session *s)
{
    struct err e;
    c->op = scratch_read(s->box, c->path, on_read, c, &e);
    if (!c->op)
        rest_fail_err(c, &e);
}

void rest_get_file(struct rest_call *c)
{
    struct store *store = c->rest->gate->store;
    struct artifact a;
    struct err e;
    if (find_live(c, &e)) {
        rest_with_files(c, false, read_live);
        return;
    }
    int fd = -1;
    if (store && store_by_path(store, c->owner, c->id, c->path, &a))
        fd = store_read(store, &a);
    if (fd < 0) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    char etag[STORE_TOKEN_LENGTH + 8];
    snprintf(etag, sizeof etag, "\"%.16s\"", a.token + 8); // not all of the link
    c->x->while_named = true;
    show_bytes(c, a.path, a.mime_type, fd, a.size, a.modified_ms, etag);
}

// ---- removing ------------------------------------------------------------------------------------

static void on_deleted(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct rest_call *c = argument;
    (void)b;
    c->op = NULL;
    if (reply->error.message[0])
        rest_fail_err(c, &reply->error);
    else
        rest_answer(c, 200, json_pack("{s:s, s:i}", "path", c->path, "deleted", 1));
}

static void delete_live(struct rest_call *c, struct session *s)
{
    struct err e;
    c->op = scratch_delete(s->box, c->path, on_deleted, c, &e);
    if (!c->op)
        rest_fail_err(c, &e);
}

void rest_delete_file(struct rest_call *c)
{
    struct store *store = c->rest->gate->store;
    struct err e;
    if (find_live(c, &e))
        rest_with_files(c, false, delete_live);
    else if (store && store_delete(store, c->owner, c->id, c->path))
        rest_answer(c, 200, json_pack("{s:s, s:i}", "path", c->path, "deleted", 1));
    else
        rest_fail_session(c, c->id, &e);
}
