// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of files/scratch_path: the input is a row of FILED frames from a hostile box, each
// with its length (two bytes, low first) before it, and then a path from a client.  Built and run
// by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "files/scratch_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    char again[SCRATCH_PATH_MAX + 1];
    size_t length = strlen(path);
    assert(length > 0 && length <= SCRATCH_PATH_MAX && path[0] != '/');
    assert(!strstr(path, "//") && utf8_valid_length(path, length) == length);
    assert(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 && !strstr(path, "/../"));
    assert(scratch_path(path, length, again, NULL) == 0 && strcmp(path, again) == 0);
}

static void check_list(const struct scratch_list *l)
{
    size_t *changes;
    assert(l->count <= SCRATCH_LIST_MAX);
    for (size_t i = 0; i < l->count; i++) {
        check_path(l->files[i].path);
        assert(i == 0 || strcmp(l->files[i - 1].path, l->files[i].path) <= 0);
    }
    ptrdiff_t n = scratch_changes(l, l, &changes);
    assert(n >= 0 && (size_t)n <= l->count);
    free(changes);
}

// One frame, in a block of just its size.  Returns what the gate would: 0 to go on.
static int take(struct scratch_list *l, size_t *room, const char *frame, size_t length)
{
    struct frame_filed f;
    if (!scratch_check(frame, length, &f))
        return -EBADMSG;
    assert(f.op > 0 && f.op < FILE_OP_MAX && f.errnum >= 0);
    assert(f.op == FILE_LIST || length - sizeof f <= FRAME_DATA_MAX);
    assert(f.op == FILE_LIST || f.op == FILE_READ || length == sizeof f);
    if (f.errnum) {
        struct err e = {0};
        struct wire_limits limits = {0};
        scratch_error(&e, f.errnum, (enum frame_file_op)f.op, "path", &limits);
        assert(e.message[0] &&
               utf8_valid_length(e.message, strlen(e.message)) == strlen(e.message));
    }
    if (f.op != FILE_LIST || f.errnum)
        return 0;
    return scratch_decode(l, room, &f, frame + sizeof f, length - sizeof f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scratch_list l = {0};
    size_t room = 0, at = 0;
    int result = 0;
    while (result == 0 && size - at >= 2) {
        size_t n = (size_t)data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        if (n > size - at)
            n = size - at;
        char *frame = malloc(n ? n : 1);
        if (!frame)
            break;
        memcpy(frame, data + at, n);
        at += n;
        result = take(&l, &room, frame, n);
        assert(result == 0 || result == -EBADMSG || result == -ENOMEM);
        free(frame);
    }
    scratch_list_sort(&l);
    check_list(&l);
    scratch_list_clear(&l);

    char path[SCRATCH_PATH_MAX + 1];
    struct err e = {0};
    int n = scratch_path((const char *)data, size, path, &e);
    assert((n == 0) == (e.message[0] == '\0'));
    if (n == 0)
        check_path(path);
    return 0;
}
