// SPDX-License-Identifier: Apache-2.0
//
// open_wheels: folders of wheels that are opened before each test, and all that a store does.  Used
// by test_porter_wheels.c and test_porter_archive.c.

#ifndef CONSTRICTOR_OPEN_WHEELS_H
#define CONSTRICTOR_OPEN_WHEELS_H

#include "bundles.h"

#include "porter/unpack.h"

static struct draft draft;
static struct wheels wheels;
static const struct bundle_size plenty = {.bytes = 1 << 20, .files = 1000};

static inline int begin(void **state)
{
    (void)state;
    make_wheel_folders(true);
    open_test_wheels(&wheels);
    return 0;
}

static inline int begin_fast(void **state)
{
    (void)state;
    make_wheel_folders(false);
    open_test_wheels(&wheels);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    wheels_close(&wheels);
    remove_wheel_folders();
    return 0;
}

// All that a store does.
static inline int store_fd(int fd, const char *wheel, const struct bundle_size *limit,
                           char ret_id[WHEEL_ID + 1], struct err *e)
{
    struct wheel_move move;
    struct unpack piece;
    struct file_reader in;
    struct bundle_size size;
    assert_int_equal(wheels_id(&wheels, wheel, "", move.to), 0);
    int r = file_reader_open(&in, fd, NULL, e);
    if (r == 0)
        r = unpack_begin(&piece, &wheels, e);
    if (r < 0) {
        file_reader_close(&in);
        return r;
    }
    struct bundle_sink sink = unpack_sink(&piece);
    r = bundle_read(&in, limit, &sink, &size, e);
    file_reader_close(&in);
    if (r < 0) {
        unpack_discard(&piece);
        return r;
    }
    unpack_end(&piece);
    memcpy(move.from, piece.name, sizeof piece.name);
    memcpy(ret_id, move.to, sizeof move.to);
    r = wheels_put(&wheels, &move, 1, e);
    if (r < 0)
        wheels_remove(&wheels, move.from);
    return r;
}

static inline void store_good(const char *wheel, char ret_id[WHEEL_ID + 1])
{
    struct err e = {0};
    draft_good(&draft);
    _cleanup_close_ int fd = draft_open(draft.data, draft.size);
    if (store_fd(fd, wheel, &plenty, ret_id, &e) < 0)
        fail_msg("%s", e.message);
}

static inline struct stat look(const char *below_wheels)
{
    struct stat st = {0};
    if (fstatat(wheels.folder, below_wheels, &st, AT_SYMLINK_NOFOLLOW) < 0)
        st.st_mode = 0;
    return st;
}

static inline mode_t mode_of(const char *id, const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", id, path);
    return look(full).st_mode;
}

static inline void is_whole(const char *id)
{
    char text[64];
    read_in_wheel(&wheels, id, "pkg/__init__.py", text, sizeof text);
    assert_string_equal(text, "from pkg.deep.er import x\n");
    read_in_wheel(&wheels, id, "pkg/deep/tool", text, sizeof text);
    assert_string_equal(text, "#!/bin/sh\n");
    read_in_wheel(&wheels, id, "pkg-1.0.dist-info/RECORD", text, sizeof text);
    read_in_wheel(&wheels, id, "\xc3\xbc.py", text, sizeof text);
    assert_string_equal(text, "# u\n");
}

#endif
