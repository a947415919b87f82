// SPDX-License-Identifier: Apache-2.0
//
// live_peer: a live box (run/live) for tests.  The test is the box at the other end of its socket,
// and notes what the listener is told.

#ifndef CONSTRICTOR_LIVE_PEER_H
#define CONSTRICTOR_LIVE_PEER_H

#include "unit.h"

#include <event2/event.h>
#include <string.h>

#include "base/fd.h"
#include "run/gate.h"
#include "run/live.h"

static struct gate gate;
static struct live_box *b;
static int box, fds_before; // box: the box's end

static struct {
    int results, exits, outputs[LIVE_STREAMS], sent, garbage, failed;
    char result[64], printed[64];
    unsigned flags;
    int status;
} saw;

// ---- listeners ----------------------------------------------------------------------------------

static inline void on_result(struct live_box *live, const char *data, size_t length, unsigned flags)
{
    assert_ptr_equal(live->owner, &saw);
    saw.results++;
    saw.flags = flags;
    memcpy(saw.result, data, length < sizeof saw.result ? length : sizeof saw.result - 1);
}

static inline void on_exit_frame(struct live_box *live, int status)
{
    (void)live;
    saw.exits++;
    saw.status = status;
}

static inline void on_output(struct live_box *live, enum live_stream stream, const char *data,
                             size_t length)
{
    assert_ptr_equal(live->owner, &saw);
    saw.outputs[stream]++;
    memcpy(saw.printed, data, length < sizeof saw.printed ? length : sizeof saw.printed - 1);
}

static inline void on_sent(struct live_box *live)
{
    (void)live;
    saw.sent++;
}

static inline void on_garbage(struct live_box *live)
{
    (void)live;
    saw.garbage++;
}

static const struct live_user listener = {.on_result = on_result,
                                          .on_exit = on_exit_frame,
                                          .on_output = on_output,
                                          .on_sent = on_sent,
                                          .on_garbage = on_garbage};

// ---- a box --------------------------------------------------------------------------------------

static inline int begin_with(bool kept)
{
    int pair[2];
    memset(&saw, 0, sizeof saw);
    fds_before = unit_fd_count();
    gate = (struct gate){.base = event_base_new()};
    unit_socketpair(pair);
    box = pair[1];
    struct wire_limits limits = {.file_bytes = 1 << 20, .scratch_bytes = 1 << 20};
    b = live_new(&gate, 5, &limits, kept, pair[0]);
    assert_non_null(b);
    live_listen(b, &listener, &saw);
    return 0;
}

static inline int begin(void **state)
{
    (void)state;
    return begin_with(false);
}

static inline int finish(void **state)
{
    (void)state;
    live_free(TAKE_PTR(b));
    event_base_free(gate.base);
    fd_close(&box);
    return unit_fd_count() == fds_before ? 0 : -1;
}

static inline void turn(void)
{
    assert_true(event_base_loop(gate.base, EVLOOP_NONBLOCK) >= 0);
}

static inline void say_flagged(unsigned kind, unsigned flags, uint32_t total, uint32_t offset,
                               const char *data, size_t length)
{
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK];
    struct frame_header h = {.magic = FRAME_MAGIC,
                             .kind = (uint16_t)kind,
                             .flags = (uint16_t)flags,
                             .total = total,
                             .offset = offset};
    memcpy(datagram, &h, sizeof h);
    memcpy(datagram + sizeof h, data, length);
    assert_int_equal(send(box, datagram, sizeof h + length, MSG_NOSIGNAL), sizeof h + length);
}

static inline void say_part(unsigned kind, uint32_t total, uint32_t offset, const char *data,
                            size_t length)
{
    say_flagged(kind, FRAME_HAS_FILES, total, offset, data, length);
}

static inline void print(unsigned stream, const char *text)
{
    say_flagged(FRAME_OUTPUT, stream, (uint32_t)strlen(text), 0, text, strlen(text));
}

static inline void say(unsigned kind, const char *data, size_t length)
{
    say_part(kind, (uint32_t)length, 0, data, length);
}

// Reads what was sent; true: a frame is complete.
static inline bool receive(struct frame_reader *r)
{
    static char datagram[sizeof(struct frame_header) + FRAME_CHUNK];
    for (ssize_t n; (n = recv(box, datagram, sizeof datagram, MSG_DONTWAIT)) > 0;) {
        int complete = frame_reader_feed(r, datagram, (size_t)n);
        assert_true(complete >= 0); // a datagram of another frame in between would be an error
        if (complete)
            return true;
    }
    return false;
}

#endif
