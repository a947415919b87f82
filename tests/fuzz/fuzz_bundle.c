// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of porter/bundle: any bytes as a bundle.  What is taken has good paths that go
// together and the totals that it says, and written again it is the same bytes.  Built and run by
// `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "porter/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 64 * 1024, PATHS_MAX = 64 };
static const struct bundle_size limit = {.bytes = 16 * 1024, .files = 200};

static struct {
    struct file_writer out;
    uint64_t left, files, bytes;
    char paths[PATHS_MAX][BUNDLE_PATH_MAX + 1];
} again;

static int on_begin(void *argument, const struct bundle_entry *entry, struct err *e)
{
    (void)argument;
    assert(!bundle_flaw(entry->path, entry->length));
    assert(strlen(entry->path) == entry->length && again.left == 0);
    assert(entry->path[0] != '/' && !strstr(entry->path, "//"));
    for (uint64_t i = 0; i < again.files && i < PATHS_MAX; i++) {
        size_t n = strlen(again.paths[i]);
        assert(strcasecmp(again.paths[i], entry->path) != 0);
        assert(strncasecmp(again.paths[i], entry->path, n) != 0 || entry->path[n] != '/');
    }
    if (again.files < PATHS_MAX)
        memcpy(again.paths[again.files], entry->path, entry->length + 1);
    again.files++;
    again.left = entry->size;
    again.bytes += entry->size;
    assert(again.files <= limit.files && again.bytes <= limit.bytes);
    return bundle_add(&again.out, entry, e);
}

static int on_data(void *argument, const uint8_t *data, size_t n, struct err *e)
{
    (void)argument;
    assert(n > 0 && n <= again.left);
    again.left -= n;
    return file_writer_write(&again.out, data, n, e);
}

static int on_end(void *argument, struct err *e)
{
    (void)argument, (void)e;
    assert(again.left == 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int in_fd = -1, out_fd = -1;
    static uint8_t copy[INPUT_MAX];
    const struct bundle_sink sink = {.begin = on_begin, .data = on_data, .end = on_end};
    struct file_reader in;
    struct bundle_size got;
    struct err e = {0};
    if (size > INPUT_MAX)
        return 0;
    if (in_fd < 0) {
        in_fd = memfd_create("in", MFD_CLOEXEC);
        out_fd = memfd_create("out", MFD_CLOEXEC);
    }
    assert(ftruncate(in_fd, 0) == 0 && pwrite(in_fd, data, size, 0) == (ssize_t)size);
    assert(ftruncate(out_fd, 0) == 0 && lseek(out_fd, 0, SEEK_SET) == 0);
    memset(&again, 0, sizeof again);
    assert(file_writer_open(&again.out, out_fd, NULL, &e) == 0 &&
           file_reader_open(&in, in_fd, NULL, &e) == 0);
    assert(bundle_begin(&again.out, &e) == 0);
    int r = bundle_read(&in, &limit, &sink, &got, &e);
    assert(r == 0 || r == -EBADMSG || r == -EFBIG);
    assert(r == 0 || e.message[0]);
    if (r == 0) {
        assert(got.files == again.files && got.bytes == again.bytes);
        assert(bundle_end(&again.out, &got, &e) == 0 && file_writer_flush(&again.out, &e) == 0);
        assert(again.out.written == in.at);
        assert(pread(out_fd, copy, in.at, 0) == (ssize_t)in.at);
        assert(memcmp(copy, data, in.at) == 0);
    }
    file_reader_close(&in);
    file_writer_close(&again.out);
    return 0;
}
