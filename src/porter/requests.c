// SPDX-License-Identifier: Apache-2.0
//
// requests: see requests.h.

#include "porter/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "porter/archive.h"
#include "porter/gate_link.h"
#include "porter/unpack.h"

enum { LOOK_MS = 20, PROGRESS_MS = 250 };

// What one is good at: 0 and an answer (or none yet), or an error.
struct job_kind {
    const char *op;
    size_t fds_min, fds_max;
    int (*run)(struct porter *p, const struct job *j, struct err *e);
};

// ---- what all need ------------------------------------------------------------------------------

// Between two pieces of long work.
static int look(void *argument, uint64_t done, uint64_t total, struct err *e)
{
    struct porter *p = argument;
    int64_t now_ms = clock_ms();
    if (now_ms < p->look_ms)
        return 0;
    p->look_ms = now_ms + LOOK_MS;
    desk_hear(p);
    if (p->cancelled || p->stop)
        return err_set(e, ERR_CANCELLED, 0, NULL, "it was cancelled");
    if (now_ms >= p->deadline_ms)
        return err_set(e, ERR_FILE_TIMEOUT, 0, NULL, "it took too long to write the files");
    if (now_ms >= p->progress_ms) {
        p->progress_ms = now_ms + PROGRESS_MS;
        desk_progress(p, p->current, done, total);
    }
    return 0;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static int limit_of(const struct job *j, struct bundle_size *ret, struct err *e)
{
    json_int_t bytes = json_integer_value(json_object_get(j->words, "bytes_max"));
    json_int_t files = json_integer_value(json_object_get(j->words, "files_max"));
    // A bundle has 32 bits for their number; the names of all are in memory.
    if (bytes <= 0 || files <= 0 || files > UINT32_MAX)
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "bytes_max or files_max");
    *ret = (struct bundle_size){.bytes = (uint64_t)bytes, .files = (uint64_t)files};
    return 0;
}

// ---- store --------------------------------------------------------------------------------------

void jobs_forget(struct porter *p)
{
    while (p->stored_count)
        shelf_remove(&p->shelf, p->stored[--p->stored_count].move.from);
}

// One sync for all that are ready.
static void settle(struct porter *p)
{
    struct shelf_move moves[STORED_MAX];
    struct err e;
    size_t count = p->stored_count;
    if (!count)
        return;
    for (size_t i = 0; i < count; i++)
        moves[i] = p->stored[i].move;
    int r = shelf_put(&p->shelf, moves, count, &e);
    for (size_t i = 0; i < count; i++) {
        const struct stored *s = &p->stored[i];
        if (r == 0) {
            desk_answer(p,
                        json_pack("{s:s, s:I, s:s, s:I, s:I}", "op", "stored", "job",
                                  (json_int_t)s->job, "layer", s->move.to, "bytes",
                                  (json_int_t)s->size.bytes, "files", (json_int_t)s->size.files),
                        -1);
        } else {
            shelf_remove(&p->shelf, s->move.from);
            desk_fail(p, s->job, &e);
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

// Of what is there already only the size is asked for; but it has to be a bundle.
static int unpack(struct porter *p, const struct job *j, struct stored *s, struct err *e)
{
    struct flow_pause pause = {.look = look, .argument = p};
    struct piece piece = {.shelf = &p->shelf, .file = -1, .folders = {-1}};
    struct bundle_sink sink = piece_sink(&piece);
    struct bundle_size limit = {0};
    struct intake in = {0};
    bool known = shelf_has(&p->shelf, s->move.to) || is_about_to_be_stored(p, s->move.to);
    int r = limit_of(j, &limit, e);
    if (r == 0)
        r = intake_open(&in, j->fds[0], &pause, e);
    if (r == 0 && !known)
        r = shelf_check_room(&p->shelf, in.end, e);
    if (r == 0 && !known)
        r = piece_begin(&piece, &p->shelf, e);
    if (r == 0)
        r = bundle_read(&in, &limit, known ? NULL : &sink, &s->size, e);
    if (r == 0)
        r = intake_at_end(&in, e);
    intake_close(&in);
    if (r < 0) {
        piece_discard(&piece);
        return r;
    }
    piece_end(&piece);
    memcpy(s->move.from, piece.name, sizeof piece.name);
    return 0;
}

static int do_store(struct porter *p, const struct job *j, struct err *e)
{
    struct stored s = {.job = j->number};
    const char *scope = text_of(j->words, "scope");
    if (strlen(scope) > PORTER_SCOPE_MAX ||
        shelf_id(&p->shelf, text_of(j->words, "wheel"), scope, s.move.to) < 0)
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "wheel or scope");
    int r = unpack(p, j, &s, e);
    if (r < 0)
        return r;
    if (p->cancelled) { // by the last look; its gate may be gone
        shelf_remove(&p->shelf, s.move.from);
        return err_set(e, ERR_CANCELLED, 0, NULL, "it was cancelled");
    }
    p->stored[p->stored_count++] = s;
    return 0;
}

// ---- drop, list ---------------------------------------------------------------------------------

static int do_drop(struct porter *p, const struct job *j, struct err *e)
{
    int r = shelf_drop(&p->shelf, text_of(j->words, "layer"), e);
    if (r < 0 && r != -ENOENT)
        return r;
    desk_answer(p, json_pack("{s:s, s:I}", "op", "dropped", "job", (json_int_t)j->number), -1);
    return 0;
}

static int do_list(struct porter *p, const struct job *j, struct err *e)
{
    size_t count;
    bool more;
    const char *after = text_of(j->words, "after");
    if (after[0] && !shelf_is_id(after))
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "after");
    char(*ids)[SHELF_ID + 1] = malloc(PORTER_LIST_MAX * sizeof *ids);
    json_t *list = json_array();
    int r = ids && list ? shelf_list(&p->shelf, after, ids, PORTER_LIST_MAX, &count, &more, e)
                        : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "list the layers");
    for (size_t i = 0; r == 0 && i < count; i++)
        if (json_array_append_new(list, json_string(ids[i])) < 0)
            r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "list the layers");
    free(ids);
    if (r == 0)
        desk_answer(p,
                    json_pack("{s:s, s:I, s:O, s:b}", "op", "listed", "job", (json_int_t)j->number,
                              "layers", list, "more", more),
                    -1);
    json_decref(list);
    return r;
}

// ---- export -------------------------------------------------------------------------------------

static json_t *read_manifest(int fd, struct err *e)
{
    struct intake in;
    char *text = NULL;
    json_t *o = NULL;
    int r = intake_open(&in, fd, NULL, e);
    if (r == 0 && in.end > ARCHIVE_MANIFEST_MAX)
        r = err_set(e, ERR_PROTOCOL, EFBIG, NULL, "read the manifest");
    if (r == 0 && !(text = malloc((size_t)in.end + 1)))
        r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the manifest");
    if (r == 0)
        r = intake_read(&in, text, (size_t)in.end, e);
    if (r == 0 && !(o = json_loadb(text, (size_t)in.end, JSON_REJECT_DUPLICATES, NULL)))
        err_set(e, ERR_PROTOCOL, 0, NULL, "the manifest is not JSON");
    free(text);
    intake_close(&in);
    return o;
}

static int read_layers(const json_t *list, struct archive *a, struct err *e)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > ARCHIVE_LAYERS_MAX)
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "layers: at most %d", ARCHIVE_LAYERS_MAX);
    a->layers = calloc(count + 1, sizeof *a->layers);
    if (!a->layers)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "export an environment");
    for (; a->count < count; a->count++) {
        const json_t *one = json_array_get(list, a->count);
        const char *wheel = text_of(one, "wheel"), *id = text_of(one, "layer");
        if (!shelf_is_wheel(wheel) || !shelf_is_id(id))
            return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "layers");
        memcpy(a->layers[a->count].wheel, wheel, SHELF_WHEEL + 1);
        memcpy(a->layers[a->count].id, id, SHELF_ID + 1);
    }
    return 0;
}

static int do_export(struct porter *p, const struct job *j, struct err *e)
{
    struct flow_pause pause = {.look = look, .argument = p};
    struct archive a = {0};
    uint64_t bytes;
    int r = read_layers(json_object_get(j->words, "layers"), &a, e);
    if (r == 0) {
        a.manifest = j->fd_count > 1 ? read_manifest(j->fds[1], e)
                                     : json_incref(json_object_get(j->words, "manifest"));
        if (!a.manifest)
            r = j->fd_count > 1 ? -1 : err_set(e, ERR_PROTOCOL, EINVAL, NULL, "manifest");
    }
    if (r == 0)
        r = archive_write(&p->shelf, j->fds[0], &a, &pause, &bytes, e);
    archive_done(&a);
    if (r == 0)
        desk_answer(p,
                    json_pack("{s:s, s:I, s:I}", "op", "exported", "job", (json_int_t)j->number,
                              "bytes", (json_int_t)bytes),
                    -1);
    return r;
}

// ---- import -------------------------------------------------------------------------------------

// A file without a name, for a manifest that is too long for a datagram.
static int manifest_file(const struct porter *p, const json_t *manifest, struct err *e)
{
    static const char name[] = "tmp-manifest";
    _cleanup_free_ char *text = json_dumps(manifest, JSON_COMPACT);
    if (!text)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "pass on the manifest");
    (void)unlinkat(p->shelf.layers, name, 0);
    _cleanup_close_ int fd =
        openat(p->shelf.layers, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return flow_no_room(e, errno, "pass on the manifest");
    (void)unlinkat(p->shelf.layers, name, 0);
    int r = fd_write_all(fd, text, strlen(text));
    if (r < 0)
        return flow_no_room(e, -r, "pass on the manifest");
    (void)lseek(fd, 0, SEEK_SET);
    return TAKE_FD(fd);
}

static json_t *show_layers(const struct archive *a)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < a->count; i++) {
        const struct archive_layer *l = &a->layers[i];
        if (json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:I, s:I}", "wheel", l->wheel, "layer",
                                            l->id, "bytes", (json_int_t)l->size.bytes, "files",
                                            (json_int_t)l->size.files)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int tell_import(struct porter *p, const struct job *j, const struct archive *a,
                       struct err *e)
{
    enum { LAYER_TEXT = 192, REST = 256 };
    _cleanup_close_ int fd = -1;
    size_t length = json_dumpb(a->manifest, NULL, 0, JSON_COMPACT);
    bool inside = length + a->count * LAYER_TEXT + REST <= PORTER_DATAGRAM;
    json_t *list = show_layers(a);
    json_t *o =
        list ? json_pack("{s:s, s:I, s:o, s:O?}", "op", "imported", "job", (json_int_t)j->number,
                         "layers", list, "manifest", inside ? a->manifest : NULL)
             : NULL;
    if (!o)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "tell what was imported");
    if (!inside && (fd = manifest_file(p, a->manifest, e)) < 0) {
        json_decref(o);
        return fd;
    }
    desk_answer(p, o, fd);
    return 0;
}

static int do_import(struct porter *p, const struct job *j, struct err *e)
{
    struct flow_pause pause = {.look = look, .argument = p};
    struct archive a = {0};
    struct bundle_size limit = {0};
    int r = limit_of(j, &limit, e);
    if (r == 0)
        r = archive_read(&p->shelf, j->fds[0], &limit, &pause, &a, e);
    if (r == 0)
        r = tell_import(p, j, &a, e);
    archive_done(&a);
    return r;
}

// ---- all of them --------------------------------------------------------------------------------

static const struct job_kind kinds[] = {
    {"store", 1, 1, do_store},   {"drop", 0, 0, do_drop},     {"list", 0, 0, do_list},
    {"export", 1, 2, do_export}, {"import", 1, 1, do_import},
};

const struct job_kind *jobs_kind(const char *op)
{
    for (size_t i = 0; op && i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].op, op) == 0)
            return &kinds[i];
    return NULL;
}

size_t jobs_fds_min(const struct job_kind *kind)
{
    return kind->fds_min;
}

size_t jobs_fds_max(const struct job_kind *kind)
{
    return kind->fds_max;
}

static bool next_is_store(const struct porter *p)
{
    const struct job *j = TAILQ_FIRST(&p->queue);
    return j && j->kind->run == do_store;
}

void jobs_do_next(struct porter *p)
{
    struct err e;
    struct job *j = TAILQ_FIRST(&p->queue);
    int64_t now_ms = clock_ms();
    json_int_t time_ms = json_integer_value(json_object_get(j->words, "time_max_ms"));
    // Out of the queue: a gate that goes while it is worked on takes the others with it.
    TAILQ_REMOVE(&p->queue, j, link);
    p->queued--;
    p->current = j->number;
    p->cancelled = false;
    p->look_ms = now_ms + LOOK_MS;
    p->progress_ms = now_ms + PROGRESS_MS;
    p->deadline_ms = now_ms + (time_ms > 0 && time_ms < PORTER_TIME_MS ? time_ms : PORTER_TIME_MS);
    if (j->kind->run(p, j, &e) < 0 && p->current)
        desk_fail(p, j->number, &e);
    p->current = 0;
    desk_job_done(j);
    desk_hear(p); // one more store may have come
    if (!next_is_store(p) || p->stored_count == STORED_MAX)
        settle(p);
}
