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
#include "porter/folder.h"
#include "porter/unpack.h"

static const char magic[] = {'C', 'E', 'N', 'V', '1', '\n'};

#define _cleanup_digest_ _cleanup_(fileio_digest_freep)

void archive_done(struct archive *a)
{
    json_decref(a->manifest);
    free(a->wheels);
    *a = (struct archive){0};
}

// ---- out ----------------------------------------------------------------------------------------

struct export
{
    struct file_writer out;
    struct bundle_size size; // of the wheel that is written
    uint8_t *buffer;
};

static int write_file(void *argument, int fd, const struct bundle_entry *entry, struct err *e)
{
    struct export *x = argument;
    int r = bundle_add(&x->out, entry, e);
    for (uint64_t left = entry->size; r == 0 && left;) {
        ssize_t n = read(fd, x->buffer, left < FILEIO_BUFFER ? (size_t)left : FILEIO_BUFFER);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(e, ERR_SYSTEM, n < 0 ? errno : EIO, NULL, "read '%s' of a wheel",
                           entry->path);
        r = file_writer_write(&x->out, x->buffer, (size_t)n, e);
        left -= (uint64_t)n;
    }
    x->size.files++;
    x->size.bytes += entry->size;
    return r;
}

static int write_wheel(struct export *x, const struct wheels *wheels,
                       const struct archive_wheel *wheel, struct err *e)
{
    uint8_t length[4];
    struct folder_visit visit = {.file = write_file, .argument = x};
    if (!wheels_is_id(wheel->id) || !wheels_is_sha256(wheel->sha256))
        return err_set(e, ERR_PROTOCOL, EINVAL, NULL, "not the ID of a wheel");
    _cleanup_close_ int folder =
        openat(wheels->folder, wheel->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return err_set(e, errno == ENOENT ? ERR_FILE_UNKNOWN : ERR_SYSTEM, errno, NULL,
                       "open the wheel '%s'", wheel->id);
    x->size = (struct bundle_size){0};
    fileio_put_u32(length, WHEEL_SHA256);
    int r = file_writer_write(&x->out, length, sizeof length, e);
    if (r == 0)
        r = file_writer_write(&x->out, wheel->sha256, WHEEL_SHA256, e);
    if (r == 0)
        r = bundle_begin(&x->out, e);
    if (r == 0)
        r = folder_walk(folder, &visit, e);
    return r < 0 ? r : bundle_end(&x->out, &x->size, e);
}

static int write_head(struct export *x, const json_t *manifest, struct err *e)
{
    enum { FORM = JSON_COMPACT | JSON_SORT_KEYS };
    uint8_t length[4];
    size_t n = json_is_object(manifest) ? json_dumpb(manifest, NULL, 0, FORM) : 0;
    if (!n || n > ARCHIVE_MANIFEST_MAX)
        return err_set(e, ERR_PROTOCOL, 0, NULL,
                       "the manifest is not an object of at most %d bytes", ARCHIVE_MANIFEST_MAX);
    _cleanup_free_ char *text = malloc(n);
    if (!text || json_dumpb(manifest, text, n, FORM) != n)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "write the manifest");
    fileio_put_u32(length, (uint32_t)n);
    int r = file_writer_write(&x->out, magic, sizeof magic, e);
    if (r == 0)
        r = file_writer_write(&x->out, length, sizeof length, e);
    return r < 0 ? r : file_writer_write(&x->out, text, n, e);
}

static int write_all(struct export *x, const struct wheels *wheels, const struct archive *a,
                     struct err *e)
{
    uint8_t sum[FILEIO_DIGEST];
    int r = write_head(x, a->manifest, e);
    for (size_t i = 0; r == 0 && i < a->count; i++)
        r = write_wheel(x, wheels, &a->wheels[i], e);
    if (r == 0)
        r = fileio_digest_end(x->out.digest, sum, e);
    x->out.digest = NULL;
    if (r == 0)
        r = file_writer_write(&x->out, sum, sizeof sum, e);
    return r < 0 ? r : file_writer_flush(&x->out, e);
}

int archive_write(const struct wheels *wheels, int fd, const struct archive *a,
                  const struct fileio_watch *watch, uint64_t *ret_bytes, struct err *e)
{
    struct export x = {0};
    _cleanup_digest_ EVP_MD_CTX *digest = fileio_digest_new(e);
    if (!digest)
        return -ENOMEM;
    x.buffer = malloc(FILEIO_BUFFER);
    int r = x.buffer ? file_writer_open(&x.out, fd, watch, e)
                     : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "write the file");
    x.out.digest = digest;
    if (r == 0)
        r = write_all(&x, wheels, a, e);
    // EINVAL, EROFS: a pipe or the like, which has nothing to sync.
    if (r == 0 && fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
        r = fileio_write_failed(e, errno, "write the file to the disk");
    if (r == 0)
        *ret_bytes = x.out.written;
    file_writer_close(&x.out);
    free(x.buffer);
    return r;
}

// ---- in -----------------------------------------------------------------------------------------

struct import {
    const struct wheels *wheels;
    struct file_reader in;
    struct bundle_size left; // of the limit
    struct archive *archive;
    struct wheel_move *moves; // as many as wheels
};

static int read_manifest(struct import *m, struct err *e)
{
    uint8_t head[sizeof magic + 4];
    json_error_t why;
    int r = file_reader_read(&m->in, head, sizeof head, e);
    if (r < 0)
        return r;
    uint32_t length = fileio_u32(head + sizeof magic);
    if (memcmp(head, magic, sizeof magic) != 0)
        return fileio_bad(e, "it does not begin like an exported environment");
    if (length > ARCHIVE_MANIFEST_MAX || length > file_reader_left(&m->in))
        return fileio_bad(e, "it has a manifest of %u bytes", length);
    _cleanup_free_ char *text = malloc((size_t)length + 1);
    if (!text)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the manifest");
    r = file_reader_read(&m->in, text, length, e);
    if (r < 0)
        return r;
    m->archive->manifest = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    return json_is_object(m->archive->manifest)
               ? 0
               : fileio_bad(e, "its manifest is not a JSON object");
}

static int read_sha256(struct import *m, struct archive_wheel *wheel, struct err *e)
{
    uint8_t head[4 + WHEEL_SHA256];
    int r = file_reader_read(&m->in, head, sizeof head, e);
    if (r < 0)
        return r;
    memcpy(wheel->sha256, head + 4, WHEEL_SHA256);
    if (fileio_u32(head) != WHEEL_SHA256 || !wheels_is_sha256(wheel->sha256))
        return fileio_bad(e, "its wheel %zu has no valid SHA-256", m->archive->count + 1);
    for (size_t i = 0; i < m->archive->count; i++) // bounded by ARCHIVE_WHEELS_MAX
        if (strcmp(m->archive->wheels[i].sha256, wheel->sha256) == 0)
            return fileio_bad(e, "it has the wheel %s twice", wheel->sha256);
    return 0;
}

// The digest of the content, in hex, is the scope of the ID.
static int choose_id(struct import *m, EVP_MD_CTX *digest, struct archive_wheel *wheel,
                     struct err *e)
{
    uint8_t sum[FILEIO_DIGEST];
    char scope[2 * FILEIO_DIGEST + 1];
    int r = fileio_digest_end(digest, sum, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(scope + 2 * i, 3, "%02x", sum[i]);
    return wheels_id(m->wheels, wheel->sha256, scope, wheel->id) < 0
               ? err_set(e, ERR_SYSTEM, ENOMEM, NULL, "name a wheel")
               : 0;
}

static int read_bundle(struct import *m, struct archive_wheel *wheel, struct unpack *piece,
                       struct err *e)
{
    struct bundle_sink sink = unpack_sink(piece);
    _cleanup_digest_ EVP_MD_CTX *digest = fileio_digest_new(e);
    if (!digest)
        return -ENOMEM;
    m->in.digests[1] = digest;
    int r = bundle_read(&m->in, &m->left, &sink, &wheel->size, e);
    m->in.digests[1] = NULL;
    return r < 0 ? r : choose_id(m, digest, wheel, e);
}

static int read_wheel(struct import *m, struct err *e)
{
    size_t i = m->archive->count;
    struct archive_wheel *wheel = &m->archive->wheels[i];
    struct unpack piece;
    if (i == ARCHIVE_WHEELS_MAX)
        return fileio_bad(e, "it has more than %d wheels", ARCHIVE_WHEELS_MAX);
    int r = read_sha256(m, wheel, e);
    if (r == 0)
        r = unpack_begin(&piece, m->wheels, e);
    if (r < 0)
        return r;
    r = read_bundle(m, wheel, &piece, e);
    if (r < 0) {
        unpack_discard(&piece);
        return r;
    }
    unpack_end(&piece);
    m->left.bytes -= wheel->size.bytes;
    m->left.files -= wheel->size.files;
    memcpy(m->moves[i].from, piece.name, sizeof piece.name);
    memcpy(m->moves[i].to, wheel->id, sizeof wheel->id);
    m->archive->count++;
    return 0;
}

static int check_digest(struct import *m, EVP_MD_CTX *digest, struct err *e)
{
    uint8_t is[FILEIO_DIGEST], said[FILEIO_DIGEST];
    m->in.digests[0] = NULL;
    int r = fileio_digest_end(digest, is, e);
    if (r == 0)
        r = file_reader_read(&m->in, said, sizeof said, e);
    if (r == 0 && memcmp(is, said, sizeof is) != 0)
        return fileio_bad(e, "its digest does not match: it was changed or damaged");
    return r < 0 ? r : file_reader_at_end(&m->in, e);
}

static int read_all(struct import *m, struct err *e)
{
    _cleanup_digest_ EVP_MD_CTX *digest = fileio_digest_new(e);
    if (!digest)
        return -ENOMEM;
    m->archive->wheels = calloc(ARCHIVE_WHEELS_MAX, sizeof *m->archive->wheels);
    m->moves = calloc(ARCHIVE_WHEELS_MAX, sizeof *m->moves);
    if (!m->archive->wheels || !m->moves)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the file");
    m->in.digests[0] = digest;
    int r = wheels_check_room(m->wheels, m->in.end, e);
    if (r == 0)
        r = read_manifest(m, e);
    while (r == 0 && file_reader_left(&m->in) > FILEIO_DIGEST)
        r = read_wheel(m, e);
    if (r == 0)
        r = check_digest(m, digest, e);
    if (r == 0 && m->archive->count)
        r = wheels_put(m->wheels, m->moves, m->archive->count, e);
    for (size_t i = 0; r < 0 && i < m->archive->count; i++)
        wheels_remove(m->wheels, m->moves[i].from); // those without a name yet
    return r;
}

int archive_read(const struct wheels *wheels, int fd, const struct bundle_size *limit,
                 const struct fileio_watch *watch, struct archive *ret, struct err *e)
{
    struct archive archive = {0};
    struct import m = {.wheels = wheels, .left = *limit, .archive = &archive};
    int r = file_reader_open(&m.in, fd, watch, e);
    if (r == 0)
        r = read_all(&m, e);
    file_reader_close(&m.in);
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
