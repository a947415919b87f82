// SPDX-License-Identifier: Apache-2.0
//
// scratch_box: a box for the tests of files/scratch, as the gate holds it, and what was answered.

#ifndef CONSTRICTOR_SCRATCH_BOX_H
#define CONSTRICTOR_SCRATCH_BOX_H

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/utf8.h"
#include "files/scratch.h"
#include "run/gate.h"
#include "run/live.h"

// ---- a box --------------------------------------------------------------------------------------

static struct gate gate;
static struct live_box *b;
static struct err e;
static int box, fds_before; // the box's end

static struct {
    int calls;
    struct scratch_reply reply; // with a path of its own
    char path[SCRATCH_PATH_MAX + 1];
    bool garbage;
} saw;

static void forget(void)
{
    scratch_list_clear(&saw.reply.list);
    memset(&saw, 0, sizeof saw);
}

static void on_done(const struct live_box *live, struct scratch_reply *reply, void *argument)
{
    assert_ptr_equal(live, b);
    assert_ptr_equal(argument, &saw);
    saw.calls++;
    saw.reply = *reply;
    if (reply->file.path)
        strncpy(saw.path, reply->file.path, sizeof saw.path - 1);
    reply->list = (struct scratch_list){0};
}

// What was read, and what is wanted of it.
static struct {
    struct scratch_part want; // length 0: all
    int begins, refuse;       // refuse: what take() returns
    uint64_t size;            // as begin() was told
    char head[16];
    char *data;  // as large as the file
    uint64_t at; // where the next bytes stand
    size_t length;
} sunk;

static void forget_sunk(void)
{
    free(sunk.data);
    memset(&sunk, 0, sizeof sunk);
}

static int on_begin(const struct scratch_file *file, const char *head, size_t length,
                    struct scratch_part *part, void *argument, struct err *error)
{
    (void)error;
    assert_ptr_equal(argument, &saw);
    assert_true(part->offset == 0 && part->length == file->size && length <= file->size);
    memcpy(sunk.head, head, length < sizeof sunk.head ? length : sizeof sunk.head);
    sunk.begins++;
    sunk.size = file->size;
    if (sunk.want.length)
        *part = sunk.want;
    sunk.at = part->offset;
    free(sunk.data);
    sunk.data = calloc(1, file->size + 1);
    return 0;
}

static int on_take(const void *data, size_t length, uint64_t offset, void *argument,
                   struct err *error)
{
    assert_ptr_equal(argument, &saw);
    assert_true(sunk.begins == 1 && length > 0 && offset == sunk.at);
    assert_true(offset + length <= sunk.size);
    memcpy(sunk.data + offset, data, length);
    sunk.at += length;
    sunk.length += length;
    if (sunk.refuse < 0)
        (void)err_set(error, ERR_DISK_FULL, 0, NULL, "no room here");
    return sunk.refuse;
}

static const struct scratch_sink sink = {.begin = on_begin, .take = on_take};

static void on_garbage(struct live_box *live)
{
    (void)live;
    saw.garbage = true;
}

static const struct live_user listener = {.on_garbage = on_garbage};

static int begin(void **state)
{
    (void)state;
    int pair[2];
    forget();
    fds_before = unit_fd_count();
    gate = (struct gate){.base = event_base_new()};
    unit_socketpair(pair);
    box = pair[1];
    struct wire_limits limits = {.file_bytes = 64 << 20, .scratch_bytes = 64 << 20, .inodes = 100};
    b = live_new(&gate, 5, &limits, true, pair[0]);
    assert_non_null(b);
    live_listen(b, &listener, NULL);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    live_free(b); // on_done() may be called, and looks at it
    b = NULL;
    forget();
    forget_sunk();
    event_base_free(gate.base);
    fd_close(&box);
    return unit_fd_count() == fds_before ? 0 : -1;
}

static inline void turn(void)
{
    assert_true(event_base_loop(gate.base, EVLOOP_NONBLOCK) >= 0);
}

static void until_called(int calls)
{
    for (int i = 0; i < 20000 && saw.calls < calls; i++)
        assert_true(event_base_loop(gate.base, EVLOOP_ONCE) >= 0);
    assert_int_equal(saw.calls, calls);
}

static bool worked(void)
{
    if (saw.reply.error.message[0])
        print_message("%s\n", saw.reply.error.message);
    return saw.reply.error.message[0] == '\0';
}

#endif
