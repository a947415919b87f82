// SPDX-License-Identifier: Apache-2.0
//
// requests: see requests.h.

#include "porter/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "porter/archive.h"
#include "porter/gate_link.h"
#include "porter/unpack.h"

enum { LOOK_MS = 20, PROGRESS_MS = 250 };

// One kind of request.  run: 0 and an answer (or a deferred one), or an error.
struct request_kind {
    const char *op;
    size_t fds_min, fds_max;
    int (*run)(struct porter *p, const struct request *q, struct err *e);
};

// ---- what all need ------------------------------------------------------------------------------

// Called regularly during long work.
static int look(void *argument, uint64_t done, uint64_t total, struct err *e)
{
    struct porter *p = argument;
    int64_t now_ms = clock_ms();
    if (now_ms < p->look_ms)
        return 0;
    p->look_ms = now_ms + LOOK_MS;
    gate_link_receive(p);
    if (p->cancelled || p->stop)
        return err_set(e, ERR_CANCELLED, 0, NULL, "it was cancelled");
    if (now_ms >= p->deadline_ms)
        return err_set(e, ERR_FILE_TIMEOUT, 0, NULL, "writing the files took too long");
    if (now_ms >= p->progress_ms) {
        p->progress_ms = now_ms + PROGRESS_MS;
        gate_link_progress(p, p->current, done, total);
    }
    return 0;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static int limit_of(const struct request *q, struct bundle_size *ret, struct err *e)
{
    json_int_t bytes = json_integer_value(json_object_get(q->words, "bytes_max"));
    json_int_t files = json_integer_value(json_object_get(q->words, "files_max"));
    // A bundle has 32 bits for the number of files, and all paths are in memory.
    if (bytes <= 0 || files <= 0 || files > UINT32_MAX)
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "bytes_max or files_max");
    *ret = (struct bundle_size){.bytes = (uint64_t)bytes, .files = (uint64_t)files};
    return 0;
}

// ---- store --------------------------------------------------------------------------------------

void requests_forget(struct porter *p)
{
    while (p->stored_count)
        wheels_remove(&p->wheels, p->stored[--p->stored_count].move.from);
}

// One sync for all stores that are ready.
static void settle(struct porter *p)
{
    struct wheel_move moves[STORED_MAX];
    struct err e;
    size_t count = p->stored_count;
    if (!count)
        return;
    for (size_t i = 0; i < count; i++)
        moves[i] = p->stored[i].move;
    int r = wheels_put(&p->wheels, moves, count, &e);
    for (size_t i = 0; i < count; i++) {
        const struct stored *s = &p->stored[i];
        if (r == 0) {
            gate_link_answer(p,
                             json_pack("{s:s, s:I, s:s, s:I, s:I}", "op", "stored", "request",
                                       (json_int_t)s->number, "wheel", s->move.to, "bytes",
                                       (json_int_t)s->size.bytes, "files",
                                       (json_int_t)s->size.files),
                             -1);
        } else {
            wheels_remove(&p->wheels, s->move.from);
            gate_link_fail(p, s->number, &e);
        }
    }
    p->stored_count = 0;
}

static bool is_about_to_be_stored(const struct porter *p, const char *id)
{
    for (size_t i = 0; i < p->stored_count; i++)
        if (strcmp(p->stored[i].move.to, id) == 0)
            return true;
    return false;
}

// For a wheel that exists already the bundle is only checked, for its size.
static int unpack(struct porter *p, const struct request *q, struct stored *s, struct err *e)
{
    struct fileio_watch watch = {.look = look, .argument = p};
    struct unpack piece = {.wheels = &p->wheels, .file = -1, .folders = {-1}};
    struct bundle_sink sink = unpack_sink(&piece);
    struct bundle_size limit = {0};
    struct file_reader in = {0};
    bool known = wheels_has(&p->wheels, s->move.to) || is_about_to_be_stored(p, s->move.to);
    int r = limit_of(q, &limit, e);
    if (r == 0)
        r = file_reader_open(&in, q->fds[0], &watch, e);
    if (r == 0 && !known)
        r = wheels_check_room(&p->wheels, in.end, e);
    if (r == 0 && !known)
        r = unpack_begin(&piece, &p->wheels, e);
    if (r == 0)
        r = bundle_read(&in, &limit, known ? NULL : &sink, &s->size, e);
    if (r == 0)
        r = file_reader_at_end(&in, e);
    file_reader_close(&in);
    if (r < 0) {
        unpack_discard(&piece);
        return r;
    }
    unpack_end(&piece);
    memcpy(s->move.from, piece.name, sizeof piece.name);
    return 0;
}

static int do_store(struct porter *p, const struct request *q, struct err *e)
{
    struct stored s = {.number = q->number};
    const char *scope = text_of(q->words, "scope");
    if (strlen(scope) > PORTER_SCOPE_MAX ||
        wheels_id(&p->wheels, text_of(q->words, "sha256"), scope, s.move.to) < 0)
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "sha256 or scope");
    int r = unpack(p, q, &s, e);
    if (r < 0)
        return r;
    if (p->cancelled) { // cancelled at the last check; its gate may be gone
        wheels_remove(&p->wheels, s.move.from);
        return err_set(e, ERR_CANCELLED, 0, NULL, "it was cancelled");
    }
    p->stored[p->stored_count++] = s;
    return 0;
}

// ---- drop, list ---------------------------------------------------------------------------------

static int do_drop(struct porter *p, const struct request *q, struct err *e)
{
    int r = wheels_drop(&p->wheels, text_of(q->words, "wheel"), e);
    if (r < 0 && r != -ENOENT)
        return r;
    gate_link_answer(p, json_pack("{s:s, s:I}", "op", "dropped", "request", (json_int_t)q->number),
                     -1);
    return 0;
}

static int do_list(struct porter *p, const struct request *q, struct err *e)
{
    size_t count;
    bool more;
    const char *after = text_of(q->words, "after");
    if (!after[0])
        (void)wheels_sweep(&p->wheels, NULL); // of other servers, which were killed
    if (after[0] && !wheels_is_id(after))
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "after");
    char(*ids)[WHEEL_ID + 1] = malloc(PORTER_LIST_MAX * sizeof *ids);
    json_auto_t *list = json_array();
    int r = ids && list ? wheels_list(&p->wheels, after, ids, PORTER_LIST_MAX, &count, &more, e)
                        : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "list the wheels");
    for (size_t i = 0; r == 0 && i < count; i++)
        if (json_array_append_new(list, json_string(ids[i])) < 0)
            r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "list the wheels");
    free(ids);
    if (r == 0)
        gate_link_answer(p,
                         json_pack("{s:s, s:I, s:O, s:b}", "op", "listed", "request",
                                   (json_int_t)q->number, "wheels", list, "more", more),
                         -1);
    return r;
}

// ---- export -------------------------------------------------------------------------------------

static json_t *read_manifest(int fd, struct err *e)
{
    struct file_reader in;
    char *text = NULL;
    json_t *o = NULL;
    int r = file_reader_open(&in, fd, NULL, e);
    if (r == 0 && in.end > ARCHIVE_MANIFEST_MAX)
        r = err_set(e, ERR_PROTOCOL, EFBIG, NULL, "read the manifest");
    if (r == 0 && !(text = malloc((size_t)in.end + 1)))
        r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the manifest");
    if (r == 0)
        r = file_reader_read(&in, text, (size_t)in.end, e);
    if (r == 0 && !(o = json_loadb(text, (size_t)in.end, JSON_REJECT_DUPLICATES, NULL)))
        err_set(e, ERR_PROTOCOL, 0, NULL, "the manifest is not JSON");
    free(text);
    file_reader_close(&in);
    return o;
}

static int take_wheels(const json_t *list, struct archive *a, struct err *e)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > ARCHIVE_WHEELS_MAX)
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "wheels: at most %d", ARCHIVE_WHEELS_MAX);
    a->wheels = calloc(count + 1, sizeof *a->wheels);
    if (!a->wheels)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "export an environment");
    for (; a->count < count; a->count++) {
        const json_t *one = json_array_get(list, a->count);
        const char *sha256 = text_of(one, "sha256"), *id = text_of(one, "wheel");
        if (!wheels_is_sha256(sha256) || !wheels_is_id(id))
            return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "wheels");
        memcpy(a->wheels[a->count].sha256, sha256, WHEEL_SHA256 + 1);
        memcpy(a->wheels[a->count].id, id, WHEEL_ID + 1);
    }
    return 0;
}

static int do_export(struct porter *p, const struct request *q, struct err *e)
{
    struct fileio_watch watch = {.look = look, .argument = p};
    struct archive a = {0};
    uint64_t bytes;
    int r = take_wheels(json_object_get(q->words, "wheels"), &a, e);
    if (r == 0) {
        a.manifest = q->fd_count > 1 ? read_manifest(q->fds[1], e)
                                     : json_incref(json_object_get(q->words, "manifest"));
        if (!a.manifest)
            r = q->fd_count > 1 ? -1 : err_set(e, ERR_PROTOCOL, EINVAL, NULL, "manifest");
    }
    if (r == 0)
        r = archive_write(&p->wheels, q->fds[0], &a, &watch, &bytes, e);
    archive_done(&a);
    if (r == 0)
        gate_link_answer(p,
                         json_pack("{s:s, s:I, s:I}", "op", "exported", "request",
                                   (json_int_t)q->number, "bytes", (json_int_t)bytes),
                         -1);
    return r;
}

// ---- import -------------------------------------------------------------------------------------

// An unnamed file for a manifest that is too long for a datagram.
static int manifest_file(const struct porter *p, const json_t *manifest, struct err *e)
{
    char name[32];
    snprintf(name, sizeof name, "tmp-%04u-manifest", p->wheels.number % 10000);
    _cleanup_free_ char *text = json_dumps(manifest, JSON_COMPACT);
    if (!text)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "pass on the manifest");
    (void)unlinkat(p->wheels.folder, name, 0);
    _cleanup_close_ int fd =
        openat(p->wheels.folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fileio_write_failed(e, errno, "pass on the manifest");
    (void)unlinkat(p->wheels.folder, name, 0);
    int r = fd_write_all(fd, text, strlen(text));
    if (r < 0)
        return fileio_write_failed(e, -r, "pass on the manifest");
    (void)lseek(fd, 0, SEEK_SET);
    return TAKE_FD(fd);
}

static json_t *wheels_json(const struct archive *a)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < a->count; i++) {
        const struct archive_wheel *w = &a->wheels[i];
        if (json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:I, s:I}", "sha256", w->sha256, "wheel",
                                            w->id, "bytes", (json_int_t)w->size.bytes, "files",
                                            (json_int_t)w->size.files)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int tell_import(struct porter *p, const struct request *q, const struct archive *a,
                       struct err *e)
{
    enum { WHEEL_TEXT = 192, REST = 256 };
    _cleanup_close_ int fd = -1;
    size_t length = json_dumpb(a->manifest, NULL, 0, JSON_COMPACT);
    bool inside = length + a->count * WHEEL_TEXT + REST <= PORTER_DATAGRAM;
    json_t *list = wheels_json(a);
    json_t *o = list ? json_pack("{s:s, s:I, s:o, s:O?}", "op", "imported", "request",
                                 (json_int_t)q->number, "wheels", list, "manifest",
                                 inside ? a->manifest : NULL)
                     : NULL;
    if (!o)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "report what was imported");
    if (!inside && (fd = manifest_file(p, a->manifest, e)) < 0) {
        json_decref(o);
        return fd;
    }
    gate_link_answer(p, o, fd);
    return 0;
}

static int do_import(struct porter *p, const struct request *q, struct err *e)
{
    struct fileio_watch watch = {.look = look, .argument = p};
    struct archive a = {0};
    struct bundle_size limit = {0};
    int r = limit_of(q, &limit, e);
    if (r == 0)
        r = archive_read(&p->wheels, q->fds[0], &limit, &watch, &a, e);
    if (r == 0)
        r = tell_import(p, q, &a, e);
    archive_done(&a);
    return r;
}

// ---- all of them --------------------------------------------------------------------------------

static const struct request_kind kinds[] = {
    {"store", 1, 1, do_store},   {"drop", 0, 0, do_drop},     {"list", 0, 0, do_list},
    {"export", 1, 2, do_export}, {"import", 1, 1, do_import},
};

const struct request_kind *requests_kind(const char *op)
{
    for (size_t i = 0; op && i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].op, op) == 0)
            return &kinds[i];
    return NULL;
}

size_t requests_fds_min(const struct request_kind *kind)
{
    return kind->fds_min;
}

size_t requests_fds_max(const struct request_kind *kind)
{
    return kind->fds_max;
}

static bool next_is_store(const struct porter *p)
{
    const struct request *q = TAILQ_FIRST(&p->queue);
    return q && q->kind->run == do_store;
}

void requests_do_next(struct porter *p)
{
    struct err e;
    struct request *q = TAILQ_FIRST(&p->queue);
    int64_t now_ms = clock_ms();
    json_int_t time_ms = json_integer_value(json_object_get(q->words, "time_max_ms"));
    // Out of the queue first: when the gate goes meanwhile, the rest of the queue is dropped.
    TAILQ_REMOVE(&p->queue, q, link);
    p->queued--;
    p->current = q->number;
    p->cancelled = false;
    p->look_ms = now_ms + LOOK_MS;
    p->progress_ms = now_ms + PROGRESS_MS;
    p->deadline_ms = now_ms + (time_ms > 0 && time_ms < PORTER_TIME_MS ? time_ms : PORTER_TIME_MS);
    if (q->kind->run(p, q, &e) < 0 && p->current)
        gate_link_fail(p, q->number, &e);
    p->current = 0;
    request_free(q);
    gate_link_receive(p); // one more store may have come
    if (!next_is_store(p) || p->stored_count == STORED_MAX)
        settle(p);
}
