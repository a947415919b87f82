// SPDX-License-Identifier: Apache-2.0
//
// bundle: see bundle.h.

#include "porter/bundle.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "porter/path_set.h"

static const char magic[] = {'C', 'B', 'U', 'N', '1', '\n'};

enum { HEAD = 16, EXECUTABLE = 1 };

// ---- paths --------------------------------------------------------------------------------------

static const char *flaw_of_part(const char *part, size_t length)
{
    if (length == 0)
        return "is absolute or has an empty part";
    if (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.')))
        return "leads out of its folder";
    return length > BUNDLE_NAME_MAX ? "has a part of more than 255 bytes" : NULL;
}

// U+0080 to U+009F are C2 80 to C2 9F.
static bool has_control(const char *path, size_t length)
{
    const unsigned char *p = (const unsigned char *)path;
    for (size_t i = 0; i < length; i++)
        if (p[i] < ' ' || p[i] == 0x7f || (p[i] == 0xc2 && i + 1 < length && p[i + 1] < 0xa0))
            return true;
    return false;
}

const char *bundle_flaw(const char *path, size_t length)
{
    size_t depth = 0;
    if (length > BUNDLE_PATH_MAX)
        return "is longer than 400 bytes";
    if (utf8_valid_length(path, length) != length)
        return "is not UTF-8";
    if (has_control(path, length))
        return "has a control character";
    for (size_t first = 0; first <= length; depth++) {
        const char *slash = memchr(path + first, '/', length - first);
        size_t part = slash ? (size_t)(slash - path) - first : length - first;
        const char *flaw = flaw_of_part(path + first, part);
        if (flaw)
            return flaw;
        first += part + 1;
    }
    return depth > BUNDLE_DEPTH_MAX ? "is deeper than 32 folders" : NULL;
}

// ---- in -----------------------------------------------------------------------------------------

struct reading {
    struct file_reader *in;
    const struct bundle_size *limit;
    const struct bundle_sink *sink;
    struct bundle_size have;
    struct path_set names;
};

static int read_path(struct reading *r, struct bundle_entry *entry, struct err *e)
{
    if (entry->length > BUNDLE_PATH_MAX)
        return fileio_bad(e, "entry %llu has a path of %zu bytes: %d are allowed",
                          (unsigned long long)r->have.files + 1, entry->length, BUNDLE_PATH_MAX);
    int status = file_reader_read(r->in, entry->path, entry->length, e);
    if (status < 0)
        return status;
    entry->path[entry->length] = '\0';
    const char *flaw = bundle_flaw(entry->path, entry->length);
    if (flaw) {
        text_sanitize(entry->path);
        return fileio_bad(e, "the path '%s' of entry %llu %s", entry->path,
                          (unsigned long long)r->have.files + 1, flaw);
    }
    return path_set_add(&r->names, entry->path, entry->length, e);
}

// Called before any byte of the file is used.
static int check_size(const struct reading *r, const struct bundle_entry *entry, struct err *e)
{
    if (r->have.files >= r->limit->files)
        return err_set(e, ERR_PACKAGE_TOO_LARGE, EFBIG, NULL, "more than %llu files",
                       (unsigned long long)r->limit->files);
    if (entry->size > r->limit->bytes - r->have.bytes)
        return err_set(e, ERR_PACKAGE_TOO_LARGE, EFBIG, NULL, "more than %llu bytes, with '%s'",
                       (unsigned long long)r->limit->bytes, entry->path);
    if (entry->size > file_reader_left(r->in))
        return fileio_bad(e, "it is cut off within '%s'", entry->path);
    return 0;
}

static int read_data(struct reading *r, uint64_t left, struct err *e)
{
    while (left) {
        const uint8_t *data;
        size_t n;
        int status = file_reader_take(r->in, left, &data, &n, e);
        if (status == 0 && r->sink)
            status = r->sink->data(r->sink->argument, data, n, e);
        if (status < 0)
            return status;
        left -= n;
    }
    return 0;
}

static int read_entry(struct reading *r, const uint8_t head[HEAD], struct err *e)
{
    struct bundle_entry entry = {.length = fileio_u32(head), .size = fileio_u64(head + 8)};
    uint32_t flags = fileio_u32(head + 4);
    if (flags & ~(uint32_t)EXECUTABLE)
        return fileio_bad(e, "entry %llu has the flags %#x", (unsigned long long)r->have.files + 1,
                          flags);
    entry.executable = flags & EXECUTABLE;
    int status = read_path(r, &entry, e);
    if (status == 0)
        status = check_size(r, &entry, e);
    if (status == 0 && r->sink)
        status = r->sink->begin(r->sink->argument, &entry, e);
    if (status == 0)
        status = read_data(r, entry.size, e);
    if (status == 0 && r->sink)
        status = r->sink->end(r->sink->argument, e);
    r->have.files++;
    r->have.bytes += entry.size;
    return status;
}

static int check_end(const struct reading *r, const uint8_t head[HEAD], struct err *e)
{
    uint64_t files = fileio_u32(head + 4), bytes = fileio_u64(head + 8);
    if (files == r->have.files && bytes == r->have.bytes)
        return 0;
    return fileio_bad(e, "it declares %llu files and %llu bytes, but has %llu and %llu",
                      (unsigned long long)files, (unsigned long long)bytes,
                      (unsigned long long)r->have.files, (unsigned long long)r->have.bytes);
}

static int read_all(struct reading *r, struct err *e)
{
    uint8_t head[HEAD];
    char begin[sizeof magic];
    int status = file_reader_read(r->in, begin, sizeof begin, e);
    if (status == 0 && memcmp(begin, magic, sizeof magic) != 0)
        return fileio_bad(e, "it does not begin like a bundle");
    while (status == 0) { // bounded: each entry uses bytes of a file whose end is fixed
        status = file_reader_read(r->in, head, sizeof head, e);
        if (status == 0 && fileio_u32(head) == 0)
            return check_end(r, head, e);
        if (status == 0)
            status = read_entry(r, head, e);
    }
    return status;
}

int bundle_read(struct file_reader *in, const struct bundle_size *limit,
                const struct bundle_sink *sink, struct bundle_size *ret, struct err *e)
{
    struct reading r = {.in = in, .limit = limit, .sink = sink};
    int status = path_set_open(&r.names, limit->files, e);
    if (status == 0)
        status = read_all(&r, e);
    path_set_close(&r.names);
    if (status == 0)
        *ret = r.have;
    return status;
}

// ---- out ----------------------------------------------------------------------------------------

static int put_head(struct file_writer *out, uint32_t a, uint32_t b, uint64_t c, struct err *e)
{
    uint8_t head[HEAD];
    fileio_put_u32(head, a);
    fileio_put_u32(head + 4, b);
    fileio_put_u64(head + 8, c);
    return file_writer_write(out, head, sizeof head, e);
}

int bundle_begin(struct file_writer *out, struct err *e)
{
    return file_writer_write(out, magic, sizeof magic, e);
}

int bundle_add(struct file_writer *out, const struct bundle_entry *entry, struct err *e)
{
    int r =
        put_head(out, (uint32_t)entry->length, entry->executable ? EXECUTABLE : 0, entry->size, e);
    return r < 0 ? r : file_writer_write(out, entry->path, entry->length, e);
}

int bundle_end(struct file_writer *out, const struct bundle_size *size, struct err *e)
{
    if (size->files > UINT32_MAX)
        return err_set(e, ERR_PACKAGE_TOO_LARGE, EFBIG, NULL, "more than %u files", UINT32_MAX);
    return put_head(out, 0, (uint32_t)size->files, size->bytes, e);
}
