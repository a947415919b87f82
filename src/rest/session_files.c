// SPDX-License-Identifier: Apache-2.0
//
// session_files: the routes /sessions/{id}/files and below: files in the scratch folder of a
// session or, once it has ended, its artifacts.  Handlers of rest/route.c;
// run in the gate.
// SECURITY: the box itself reads and writes the files of a live session (files/scratch.h), and all
// content is served as a download that no browser shows in this server's origin (rest/show_file.c).

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "files/share.h"
#include "files/store.h"
#include "files/tempfile.h"
#include "rest/call.h"
#include "rest/show_file.h"

// The session, or NULL: it has ended, and may have artifacts, or never existed.
static struct session *find_live(struct rest_call *c, struct err *e)
{
    return session_find(c->rest->gate, c->owner, c->id, e);
}

// ---- listing ------------------------------------------------------------------------------------

static int compare_paths(const void *path, const void *artifact)
{
    return strcmp(path, ((const struct artifact *)artifact)->path);
}

// The link of a file, if the stored artifact is still the same.
static const struct artifact *stored_as(const struct scratch_file *f, const struct artifact *list,
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
    _cleanup_free_ struct artifact *stored = NULL;
    uint64_t more = 0;
    (void)b;
    c->op = NULL;
    if (reply->error.message[0]) {
        rest_fail_err(c, &reply->error);
        return;
    }
    size_t count = store ? store_list(store, c->owner, c->session, &stored, &more) : 0;
    json_t *files = json_array(), *folders = json_array();
    int failed = !files || !folders;
    for (size_t i = 0; i < reply->list.count; i++) {
        const struct scratch_file *f = &reply->list.files[i];
        if (f->folder)
            failed |= json_array_append_new(folders, json_string(f->path));
        else
            failed |= json_array_append_new(
                files, show_scratch_file(c, c->session, f, stored_as(f, stored, count)));
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

// The artifacts of an ended session.
static void list_stored(struct rest_call *c, const struct err *e)
{
    struct store *store = c->rest->gate->store;
    char holder[STORE_HOLDER_MAX + 1];
    if (store && store_by_name(store, c->owner, c->id, holder))
        memcpy(c->id, holder, sizeof holder);
    _cleanup_free_ struct artifact *stored = NULL;
    uint64_t more = 0;
    size_t count = store ? store_list(store, c->owner, c->id, &stored, &more) : 0;
    if (count == 0) {
        rest_fail_session(c, c->id, e);
        return;
    }
    rest_answer(c, 200,
                json_pack("{s:s, s:b, s:o, s:[], s:I, s:i}", "session", c->id, "live", 0, "files",
                          show_artifacts(c, stored, count), "folders", "left_out", (json_int_t)more,
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
        list_stored(c, &e);
}

// ---- writing ------------------------------------------------------------------------------------

// A file on its way into a box goes into the store as well, so that it outlives the box.
struct rest_upload {
    struct artifact a;
    struct store_copy *copy; // NULL: it is not kept
    struct err error;        // why
    uint64_t at;
};

void rest_upload_free(struct rest_upload *u)
{
    if (u && u->copy)
        store_cancel(u->copy);
    free(u);
}

static void begin_copy(struct rest_call *c)
{
    struct rest_upload *u = c->upload;
    struct store *store = c->rest->gate->store;
    uint64_t size = c->x->body_length, most = c->rest->config->file_size_bytes;
    u->a.size = size < most ? size : most;
    snprintf(u->a.owner, sizeof u->a.owner, "%s", c->owner);
    snprintf(u->a.holder, sizeof u->a.holder, "%s", c->session);
    snprintf(u->a.path, sizeof u->a.path, "%s", c->path);
    u->copy = store ? store_begin(store, &u->a, &u->error) : NULL;
}

// The store may fail: the upload goes on.
static void add_copy(struct rest_upload *u, const void *data, size_t length)
{
    if (u->copy && store_write(u->copy, data, length, u->at, &u->error) < 0)
        store_cancel(TAKE_PTR(u->copy));
    u->at += length;
}

static const struct artifact *end_copy(struct rest_call *c, const struct scratch_file *file)
{
    struct rest_upload *u = c->upload;
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->session, &e);
    store_set_modified(u->copy, file->mtime_ns / 1000000);
    bool stored = u->copy && store_end(TAKE_PTR(u->copy), u->at, &u->a, &u->error) == 0;
    if (s && stored)
        session_note_saved(s);
    else if (s)
        session_drop_saved(s, c->path); // an older version must not come back in its place
    return stored ? &u->a : NULL;
}

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
    const struct artifact *stored = end_copy(c, &file);
    json_t *answer = show_scratch_file(c, c->session, &file, stored);
    const struct err *why = &c->upload->error;
    if (answer && !stored && why->message[0])
        (void)json_object_set_new(answer, "error",
                                  json_pack("{s:s, s:s, s:s}", "code", err_code_name(why->code),
                                            "message", why->message, "hint", why->hint));
    rest_answer(c, c->route->status, answer);
}

// The bytes go from the connection to the box: a slow box slows down the client, and the gate holds
// no more than http/body_stream.c reads ahead.
static ssize_t give_body(void *to, size_t most, void *argument, struct err *e)
{
    const struct rest_call *c = argument;
    size_t n = http_body_read(c->x, to, most);
    (void)e;
    add_copy(c->upload, to, n);
    return n > 0 ? (ssize_t)n : http_body_ended(c->x) ? 0 : -EAGAIN;
}

static void on_body(struct http_exchange *x)
{
    struct rest_call *c = x->work;
    scratch_wake(c->op);
}

static void write_live(struct rest_call *c, struct session *s)
{
    static const struct scratch_source source = {.give = give_body};
    struct err e;
    memcpy(c->session, s->id, sizeof c->session);
    if (!(c->upload = calloc(1, sizeof *c->upload))) {
        rest_answer(c, 503, NULL);
        return;
    }
    begin_copy(c);
    c->op = scratch_write_from(s->box, c->path, c->x->body_length, &source, on_written, c, &e);
    if (!c->op) {
        rest_fail_err(c, &e);
        return;
    }
    c->x->on_body = on_body;
    http_body_begin(c->x);
}

void rest_put_file(struct rest_call *c)
{
    rest_with_files(c, true, write_live);
}

// ---- reading ------------------------------------------------------------------------------------

// A small file comes in one answer of its box and is sent from memory; without a state folder,
// every file is.  Others go through an unnamed file, so that a slow client does not delay the box,
// nor a slow box the client. SECURITY: no quota counts the unnamed file, and it stays until the
// client has all of it.  So there are few.
static struct share on_disk = TAILQ_HEAD_INITIALIZER(on_disk),
                    in_memory = TAILQ_HEAD_INITIALIZER(in_memory);
enum { DISK_FILES = 8, MEMORY_MAX = 64 << 20 }; // of the largest size; bytes

struct rest_download {
    struct share_part share;
    char owner[65], mime_type[MIME_TYPE_MAX + 1], etag[80];
    char *data; // NULL: in `fd`
    int fd;
    uint64_t size; // of the file at the beginning
    bool partly;   // the client asked for a range
};

void rest_download_free(struct rest_download *d)
{
    if (!d)
        return;
    share_give(&d->share);
    fd_close(&d->fd);
    free(d->data);
    free(d);
}

static void write_etag(struct rest_download *d, const struct scratch_file *f)
{
    snprintf(d->etag, sizeof d->etag, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", f->inode, f->size,
             (uint64_t)f->mtime_ns);
}

static int take_share(struct rest_call *c, bool memory, uint64_t size, struct err *e)
{
    struct rest_download *d = c->download;
    uint64_t disk = DISK_FILES * c->rest->config->file_size_bytes;
    if (!share_take(memory ? &in_memory : &on_disk, &d->share, d->owner, size,
                    memory ? MEMORY_MAX : disk))
        return err_set(e, ERR_BUSY, 0, "try again later",
                       "too many bytes of files are being transferred");
    if (!memory)
        return d->fd = tempfile_open(c->rest->gate->facts->state_folder, e);
    d->data = malloc(size ? size : 1);
    return d->data ? 0 : err_memory(e);
}

static int on_found(const struct scratch_file *file, const char *head, size_t length,
                    struct scratch_part *part, void *argument, struct err *e)
{
    struct rest_call *c = argument;
    struct rest_download *d = c->download;
    write_etag(d, file);
    snprintf(d->mime_type, sizeof d->mime_type, "%s", mime_type(file->path, head, length));
    bool memory = file->size == length || c->rest->gate->facts->state_folder < 0;
    uint64_t offset = 0, wanted = file->size;
    int status = http_wanted(c->x, file->size, d->etag, &offset, &wanted);
    if (c->x->method == HTTP_HEAD || (status != 200 && status != 206))
        wanted = 0;
    // In memory, bytes have the offsets of the file.
    if (!memory)
        *part = (struct scratch_part){offset, wanted};
    d->size = file->size;
    d->partly = part->length < file->size;
    return take_share(c, memory, memory ? file->size : wanted, e);
}

static int on_bytes(const void *data, size_t length, uint64_t offset, void *argument, struct err *e)
{
    struct rest_download *d = ((struct rest_call *)argument)->download;
    if (d->data) {
        memcpy(d->data + offset, data, length);
        return 0;
    }
    int r = fd_write_sparse(d->fd, data, length, offset);
    return r < 0 ? tempfile_failed(-r, e) : 0;
}

static void on_sent(void *argument)
{
    rest_download_free(argument);
}

static void on_read(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct rest_call *c = argument;
    struct rest_download *d = c->download;
    (void)b;
    c->op = NULL;
    if (!reply->error.message[0] && d->partly && reply->file.size != d->size)
        (void)err_set(&reply->error, ERR_FILE_REFUSED, 0, "try again",
                      "'%.200s' became shorter while it was read", c->path);
    else if (!reply->error.message[0] && !d->data && ftruncate(d->fd, (off_t)reply->file.size) < 0)
        (void)tempfile_failed(errno, &reply->error);
    if (reply->error.message[0]) {
        rest_fail_err(c, &reply->error);
        return;
    }
    write_etag(d, &reply->file); // of the version that was read
    c->download = NULL;
    c->x->on_end = on_sent; // counts until all is sent
    c->x->end_argument = d;
    show_bytes(c, &(struct show_file){.path = c->path,
                                      .mime_type = d->mime_type,
                                      .etag = d->etag,
                                      .data = d->data,
                                      .fd = TAKE_FD(d->fd),
                                      .size = reply->file.size,
                                      .modified_ms = reply->file.mtime_ns / 1000000});
}

static void read_live(struct rest_call *c, struct session *s)
{
    static const struct scratch_sink sink = {.begin = on_found, .take = on_bytes};
    struct err e;
    struct rest_download *d = c->download = calloc(1, sizeof *d);
    if (!d) {
        rest_answer(c, 503, NULL);
        return;
    }
    d->fd = -1;
    snprintf(d->owner, sizeof d->owner, "%s", c->owner);
    c->op = scratch_read(s->box, c->path, &sink, on_read, c, &e);
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
    char holder[STORE_HOLDER_MAX + 1];
    if (store && store_by_name(store, c->owner, c->id, holder))
        memcpy(c->id, holder, sizeof holder);
    if (store && store_by_path(store, c->owner, c->id, c->path, &a))
        fd = store_read(store, &a);
    if (fd < 0) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    char etag[STORE_TOKEN_LENGTH + 8];
    snprintf(etag, sizeof etag, "\"%.16s\"", a.token + 8); // SECURITY: never the whole token
    c->x->while_named = true;
    show_bytes(c, &(struct show_file){.path = a.path,
                                      .mime_type = a.mime_type,
                                      .etag = etag,
                                      .fd = fd,
                                      .size = a.size,
                                      .modified_ms = a.modified_ms});
}

// ---- removing -----------------------------------------------------------------------------------

static void on_deleted(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct rest_call *c = argument;
    (void)b;
    c->op = NULL;
    if (reply->error.message[0]) {
        rest_fail_err(c, &reply->error);
        return;
    }
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->session, &e);
    if (s && s->is_saved)
        session_drop_saved(s, c->path);
    rest_answer(c, 200, json_pack("{s:s, s:i}", "path", c->path, "deleted", 1));
}

static void delete_live(struct rest_call *c, struct session *s)
{
    struct err e;
    memcpy(c->session, s->id, sizeof c->session);
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
