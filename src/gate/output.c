// SPDX-License-Identifier: Apache-2.0
//
// output: what a run prints, up to its limit.  Part of run.h; the pipes are the box's (live.h).

#include <errno.h>
#include <unistd.h>

#include "gate/run.h"

enum {
    READ_MAX = 65536,
    READS_PER_EVENT = 16,
    DISCARDS_PER_EVENT = 64,
};

static char piece[READ_MAX]; // one thread, used at once

// What comes after too much output, until the code stops.
static int discard(struct run *r, enum run_stream stream)
{
    ssize_t n = read(r->box->fd[stream], piece, sizeof piece);
    if (n > 0)
        r->output_total[stream] += (uint64_t)n;
    if (n == 0)
        live_end_stream(r->box, (enum live_stream)stream);
    return n > 0;
}

static void too_much(struct run *r, enum run_stream stream)
{
    // Drop the byte too many; nothing more is kept.
    size_t length = evbuffer_get_length(r->output[stream]);
    struct evbuffer *rest = evbuffer_new();
    if (rest) {
        (void)evbuffer_remove_buffer(r->output[stream], rest, length - 1);
        evbuffer_free(r->output[stream]);
        r->output[stream] = rest;
    }
    r->output_kept = r->request.output_bytes;
    run_stop(r, END_OUTPUT);
    if (!r->request.session) {
        live_end_stream(r->box, LIVE_STDOUT);
        live_end_stream(r->box, LIVE_STDERR);
    }
    // The result may have come before the output was read: then the box was released already, or lives
    // on, but what was cut must not look complete.
    if (r->end == END_DONE || r->end == END_OWN)
        r->end = END_OUTPUT;
}

// Returns 1 when there may be more, 0 at the end or when nothing is there.
static int read_stream(struct run *r, enum run_stream stream)
{
    if (r->end == END_OUTPUT)
        return discard(r, stream);
    uint64_t room = r->request.output_bytes - r->output_kept;
    // One byte more than fits tells "exactly full" from "too much".
    size_t want = room < READ_MAX ? (size_t)room + 1 : READ_MAX;
    // Not evbuffer_read(), which asks first how much there is, and takes memory also for nothing.
    ssize_t n = read(r->box->fd[stream], piece, want);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n > 0 && evbuffer_add(r->output[stream], piece, (size_t)n) < 0)
        n = -1;
    if (n <= 0) {
        live_end_stream(r->box, (enum live_stream)stream);
        return 0;
    }
    r->output_total[stream] += (uint64_t)n;
    r->output_kept += (uint64_t)n;
    if (r->output_kept > r->request.output_bytes) {
        too_much(r, stream);
        n = 0;
    }
    if (r->request.on_output && r->request.on_output(r, stream, r->output[stream]) < 0)
        run_stop(r, END_CANCELLED);
    return n > 0;
}

void run_on_output(struct live_box *b, enum live_stream stream)
{
    struct run *r = b->owner;
    // Bounded, so that one flood does not starve the others.
    for (int i = 0; i < READS_PER_EVENT && b->fd[stream] >= 0; i++)
        if (read_stream(r, (enum run_stream)stream) <= 0)
            return;
}

// What was written before the end is still in the pipes; the output limit bounds it.
void run_drain(struct run *r)
{
    for (int stream = 0; stream < RUN_STREAMS; stream++)
        for (int i = 0; r->box->fd[stream] >= 0; i++)
            if ((r->end == END_OUTPUT && (i >= DISCARDS_PER_EVENT || !r->request.session)) ||
                read_stream(r, (enum run_stream)stream) <= 0)
                break;
}
