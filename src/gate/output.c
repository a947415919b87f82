// SPDX-License-Identifier: Apache-2.0
//
// output: what a run prints, up to its limit, and what it says of itself.  Part of run.h; the pipes are the
// box's (live.h).

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "gate/quick_json.h"
#include "gate/run.h"

enum {
    READ_MAX = 65536,
    READS_PER_EVENT = 16,
    PIPE_BYTES = 512 * 1024,
    RESULT_VALUES_MAX = 200000,
    DISCARDS_PER_EVENT = 64,
    CUT_FACTOR =
        64, // SECURITY: reading what nobody gets costs time; code that prints more is ended after all
};

static char piece[READ_MAX]; // one thread, used at once

static void stop(struct run *r)
{
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

// What comes after too much output, until the code stops.
static int discard(struct run *r, enum run_stream stream)
{
    ssize_t n = read(r->box->fd[stream], piece, sizeof piece);
    if (n > 0)
        r->output_total[stream] += (uint64_t)n;
    if (n == 0)
        live_end_stream(r->box, (enum live_stream)stream);
    if (r->output_cut && r->end != END_OUTPUT &&
        r->output_total[RUN_STDOUT] + r->output_total[RUN_STDERR] >
            CUT_FACTOR * r->request.output_bytes)
        stop(r);
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
    if (r->request.cut_output)
        r->output_cut = true;
    else
        stop(r);
}

// The pipe was full: who writes waits for us, and we for them, 64 KiB at a time.  A larger one lets both work at
// once.  Only for floods: a user may have 64 MiB in pipes (pipe-user-pages-soft), and what is refused stays
// as it is.  SECURITY: what is in a pipe counts as the box's memory.
static void widen(struct run *r, enum run_stream stream)
{
    if (r->widened[stream])
        return;
    r->widened[stream] = true;
    (void)fcntl(r->box->fd[stream], F_SETPIPE_SZ, PIPE_BYTES);
}

// Returns 1 when there may be more, 0 at the end or when nothing is there.
static int read_stream(struct run *r, enum run_stream stream)
{
    if (r->end == END_OUTPUT || r->output_cut)
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
    if (n == READ_MAX)
        widen(r, stream);
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
                (r->output_cut && i >= DISCARDS_PER_EVENT) ||
                read_stream(r, (enum run_stream)stream) <= 0)
                break;
}

// ---- the result ------------------------------------------------------------------------------------

// How many values a text has if it is JSON.  What stands in a string counts for nothing.
static size_t count_values(const char *data, size_t length)
{
    size_t values = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        if (data[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += data[i] == '\\';
        else
            values += data[i] == ',' || data[i] == '[' || data[i] == '{';
    }
    return values;
}

// SECURITY: jansson spends some 70 bytes on each value, so a small frame of "{},{},..." could take
// hundreds of megabytes.  The runner's own bounds are far below this one.
json_t *run_parse_result(const char *data, size_t length)
{
    if (count_values(data, length) > RESULT_VALUES_MAX)
        return NULL;
    json_t *result = quick_json_load(data, length, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(result)) {
        json_decref(result);
        result = NULL;
    }
    return result;
}
