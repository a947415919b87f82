// SPDX-License-Identifier: Apache-2.0
//
// archive: see archive.h.

#include "porter/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "porter/unpack.h"
#include "porter/folder.h"

static const char magic[] = {'C', 'E', 'N', 'V', '1', '\n'};

#define _cleanup_digest_ _cleanup_(flow_digest_freep)

void archive_done(struct archive *a)
{
    json_decref(a->manifest);
    free(a->layers);
    *a = (struct archive){0};
}

// ---- out ----------------------------------------------------------------------------------------

struct export
{
    struct outlet out;
    struct bundle_size size; // of the layer that is written
    uint8_t *buffer;
};

static int write_file(void *argument, int fd, const struct bundle_entry *entry, struct err *e)
{
    struct export *x = argument;
    int r = bundle_add(&x->out, entry, e);
    for (uint64_t left = entry->size; r == 0 && left;) {
        ssize_t n = read(fd, x->buffer, left < FLOW_BUFFER ? (size_t)left : FLOW_BUFFER);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(e, ERR_SYSTEM, n < 0 ? errno : EIO, NULL, "read '%s' of a layer",
                           entry->path);
        r = outlet_write(&x->out, x->buffer, (size_t)n, e);
        left -= (uint64_t)n;
    }
    x->size.files++;
    x->size.bytes += entry->size;
    return r;
}

static int write_layer(struct export *x, const struct shelf *shelf,
                       const struct archive_layer *layer, struct err *e)
{
    uint8_t length[4];
    struct tree_visit visit = {.file = write_file, .argument = x};
    if (!shelf_is_id(layer->id) || !shelf_is_wheel(layer->wheel))
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "that is no layer");
    _cleanup_close_ int folder =
        openat(shelf->layers, layer->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return err_set(e, errno == ENOENT ? ERR_FILE_UNKNOWN : ERR_SYSTEM, errno, NULL,
                       "open the layer '%s'", layer->id);
    x->size = (struct bundle_size){0};
    flow_put_u32(length, SHELF_WHEEL);
    int r = outlet_write(&x->out, length, sizeof length, e);
    if (r == 0)
        r = outlet_write(&x->out, layer->wheel, SHELF_WHEEL, e);
    if (r == 0)
        r = bundle_begin(&x->out, e);
    if (r == 0)
        r = tree_walk(folder, &visit, e);
    return r < 0 ? r : bundle_end(&x->out, &x->size, e);
}

static int write_head(struct export *x, const json_t *manifest, struct err *e)
{
    enum { FORM = JSON_COMPACT | JSON_SORT_KEYS };
    uint8_t length[4];
    size_t n = json_is_object(manifest) ? json_dumpb(manifest, NULL, 0, FORM) : 0;
    if (!n || n > ARCHIVE_MANIFEST_MAX)
        return err_set(e, ERR_PROTOCOL, 0, NULL, "the manifest is no object of at most %d bytes",
                       ARCHIVE_MANIFEST_MAX);
    _cleanup_free_ char *text = malloc(n);
    if (!text || json_dumpb(manifest, text, n, FORM) != n)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "write the manifest");
    flow_put_u32(length, (uint32_t)n);
    int r = outlet_write(&x->out, magic, sizeof magic, e);
    if (r == 0)
        r = outlet_write(&x->out, length, sizeof length, e);
    return r < 0 ? r : outlet_write(&x->out, text, n, e);
}

static int write_all(struct export *x, const struct shelf *shelf, const struct archive *a,
                     struct err *e)
{
    uint8_t sum[FLOW_DIGEST];
    int r = write_head(x, a->manifest, e);
    for (size_t i = 0; r == 0 && i < a->count; i++)
        r = write_layer(x, shelf, &a->layers[i], e);
    if (r == 0)
        r = flow_digest_end(x->out.digest, sum, e);
    x->out.digest = NULL;
    if (r == 0)
        r = outlet_write(&x->out, sum, sizeof sum, e);
    return r < 0 ? r : outlet_flush(&x->out, e);
}

int archive_write(const struct shelf *shelf, int fd, const struct archive *a,
                  const struct flow_pause *pause, uint64_t *ret_bytes, struct err *e)
{
    struct export x = {0};
    _cleanup_digest_ EVP_MD_CTX *digest = flow_digest_new(e);
    if (!digest)
        return -ENOMEM;
    x.buffer = malloc(FLOW_BUFFER);
    int r = x.buffer ? outlet_open(&x.out, fd, pause, e)
                     : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "write the file");
    x.out.digest = digest;
    if (r == 0)
        r = write_all(&x, shelf, a, e);
    // What is no file on a disk says that it has nothing to sync.
    if (r == 0 && fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
        r = flow_no_room(e, errno, "write the file to the disk");
    if (r == 0)
        *ret_bytes = x.out.written;
    outlet_close(&x.out);
    free(x.buffer);
    return r;
}

// ---- in -----------------------------------------------------------------------------------------

struct import {
    const struct shelf *shelf;
    struct intake in;
    struct bundle_size left; // of the limit
    struct archive *archive;
    struct shelf_move *moves; // as many as layers
};

static int read_manifest(struct import *m, struct err *e)
{
    uint8_t head[sizeof magic + 4];
    json_error_t why;
    int r = intake_read(&m->in, head, sizeof head, e);
    if (r < 0)
        return r;
    uint32_t length = flow_u32(head + sizeof magic);
    if (memcmp(head, magic, sizeof magic) != 0)
        return flow_bad(e, "it does not begin as an exported environment does");
    if (length > ARCHIVE_MANIFEST_MAX || length > intake_left(&m->in))
        return flow_bad(e, "it has a manifest of %u bytes", length);
    _cleanup_free_ char *text = malloc((size_t)length + 1);
    if (!text)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the manifest");
    r = intake_read(&m->in, text, length, e);
    if (r < 0)
        return r;
    m->archive->manifest = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    return json_is_object(m->archive->manifest) ? 0 : flow_bad(e, "its manifest is no JSON object");
}

static int read_wheel(struct import *m, struct archive_layer *layer, struct err *e)
{
    uint8_t head[4 + SHELF_WHEEL];
    int r = intake_read(&m->in, head, sizeof head, e);
    if (r < 0)
        return r;
    memcpy(layer->wheel, head + 4, SHELF_WHEEL);
    if (flow_u32(head) != SHELF_WHEEL || !shelf_is_wheel(layer->wheel))
        return flow_bad(e, "its layer %zu has no digest of a wheel", m->archive->count + 1);
    for (size_t i = 0; i < m->archive->count; i++) // bounded by ARCHIVE_LAYERS_MAX
        if (strcmp(m->archive->layers[i].wheel, layer->wheel) == 0)
            return flow_bad(e, "it has the wheel %s twice", layer->wheel);
    return 0;
}

// The digest of the content, in hex, is the scope of the ID.
static int choose_id(struct import *m, EVP_MD_CTX *digest, struct archive_layer *layer,
                     struct err *e)
{
    uint8_t sum[FLOW_DIGEST];
    char scope[2 * FLOW_DIGEST + 1];
    int r = flow_digest_end(digest, sum, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(scope + 2 * i, 3, "%02x", sum[i]);
    return shelf_id(m->shelf, layer->wheel, scope, layer->id) < 0
               ? err_set(e, ERR_SYSTEM, ENOMEM, NULL, "name a layer")
               : 0;
}

static int read_bundle(struct import *m, struct archive_layer *layer, struct piece *piece,
                       struct err *e)
{
    struct bundle_sink sink = piece_sink(piece);
    _cleanup_digest_ EVP_MD_CTX *digest = flow_digest_new(e);
    if (!digest)
        return -ENOMEM;
    m->in.digests[1] = digest;
    int r = bundle_read(&m->in, &m->left, &sink, &layer->size, e);
    m->in.digests[1] = NULL;
    return r < 0 ? r : choose_id(m, digest, layer, e);
}

static int read_layer(struct import *m, struct err *e)
{
    size_t i = m->archive->count;
    struct archive_layer *layer = &m->archive->layers[i];
    struct piece piece;
    if (i == ARCHIVE_LAYERS_MAX)
        return flow_bad(e, "it has more than %d layers", ARCHIVE_LAYERS_MAX);
    int r = read_wheel(m, layer, e);
    if (r == 0)
        r = piece_begin(&piece, m->shelf, e);
    if (r < 0)
        return r;
    r = read_bundle(m, layer, &piece, e);
    if (r < 0) {
        piece_discard(&piece);
        return r;
    }
    piece_end(&piece);
    m->left.bytes -= layer->size.bytes;
    m->left.files -= layer->size.files;
    memcpy(m->moves[i].from, piece.name, sizeof piece.name);
    memcpy(m->moves[i].to, layer->id, sizeof layer->id);
    m->archive->count++;
    return 0;
}

static int check_digest(struct import *m, EVP_MD_CTX *digest, struct err *e)
{
    uint8_t is[FLOW_DIGEST], said[FLOW_DIGEST];
    m->in.digests[0] = NULL;
    int r = flow_digest_end(digest, is, e);
    if (r == 0)
        r = intake_read(&m->in, said, sizeof said, e);
    if (r == 0 && memcmp(is, said, sizeof is) != 0)
        return flow_bad(e, "its digest does not fit: it was changed or damaged on the way");
    return r < 0 ? r : intake_at_end(&m->in, e);
}

static int read_all(struct import *m, struct err *e)
{
    _cleanup_digest_ EVP_MD_CTX *digest = flow_digest_new(e);
    if (!digest)
        return -ENOMEM;
    m->archive->layers = calloc(ARCHIVE_LAYERS_MAX, sizeof *m->archive->layers);
    m->moves = calloc(ARCHIVE_LAYERS_MAX, sizeof *m->moves);
    if (!m->archive->layers || !m->moves)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the file");
    m->in.digests[0] = digest;
    int r = shelf_check_room(m->shelf, m->in.end, e);
    if (r == 0)
        r = read_manifest(m, e);
    while (r == 0 && intake_left(&m->in) > FLOW_DIGEST)
        r = read_layer(m, e);
    if (r == 0)
        r = check_digest(m, digest, e);
    if (r == 0 && m->archive->count)
        r = shelf_put(m->shelf, m->moves, m->archive->count, e);
    for (size_t i = 0; r < 0 && i < m->archive->count; i++)
        shelf_remove(m->shelf, m->moves[i].from); // those that have no name yet
    return r;
}

int archive_read(const struct shelf *shelf, int fd, const struct bundle_size *limit,
                 const struct flow_pause *pause, struct archive *ret, struct err *e)
{
    struct archive archive = {0};
    struct import m = {.shelf = shelf, .left = *limit, .archive = &archive};
    int r = intake_open(&m.in, fd, pause, e);
    if (r == 0)
        r = read_all(&m, e);
    intake_close(&m.in);
    free(m.moves);
    if (r == 0) {
        *ret = archive;
        return 0;
    }
    archive_done(&archive);
    if (e && e->code == ERR_BAD_BUNDLE) {
        e->code = ERR_BAD_ARCHIVE;
        err_hint(e, "export the environment again, and compare the sizes of the two files");
    }
    return r;
}
