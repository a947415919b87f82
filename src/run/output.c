// SPDX-License-Identifier: Apache-2.0
//
// output: what a run prints, up to its limit, and the result that it reports.  Part of run.h.  The
// bytes come as OUTPUT frames from the box's init (live.h).

#include "run/run.h"
#include "json/quick_json.h"

enum {
    RESULT_VALUES_MAX = 200000,
    // SECURITY: reading output that is dropped costs time; code that prints more is ended.
    CUT_FACTOR = 64,
};

static void stop(struct run *r)
{
    run_stop(r, END_OUTPUT);
    // The result may have come before the output was read: then the box was released already, or
    // lives on, but cut output must not look complete.
    if (r->end == END_DONE || r->end == END_OWN)
        r->end = END_OUTPUT;
}

static void too_much(struct run *r)
{
    if (r->request.cut_output)
        r->output_cut = true;
    else
        stop(r);
}

// Drops output beyond the limit until the code stops.
static void discard(struct run *r)
{
    uint64_t total = r->output_total[RUN_STDOUT] + r->output_total[RUN_STDERR];
    if (r->output_cut && r->end != END_OUTPUT && total > CUT_FACTOR * r->request.output_bytes)
        stop(r);
}

void run_on_output(struct live_box *b, enum live_stream stream, const char *data, size_t length)
{
    struct run *r = b->owner;
    r->output_total[stream] += length;
    if (r->end == END_OUTPUT || r->output_cut) {
        discard(r);
        return;
    }
    uint64_t left = r->request.output_bytes - r->output_stored;
    size_t stored = length < left ? length : (size_t)left;
    // Without memory the output is cut, and must not look complete.
    bool whole = evbuffer_add(r->output[stream], data, stored) == 0 && stored == length;
    r->output_stored += stored;
    if (!whole)
        too_much(r);
    if (r->request.on_output &&
        r->request.on_output(r, (enum run_stream)stream, r->output[stream]) < 0)
        run_stop(r, END_CANCELLED);
}

// ---- the result ---------------------------------------------------------------------------------

// SECURITY: jansson spends some 70 bytes on each value, so a small frame of "{},{},..." could take
// hundreds of megabytes.  The runner's own bounds are far below this one.
json_t *run_parse_result(const char *data, size_t length)
{
    if (quick_json_measure(data, length, RESULT_VALUES_MAX, SIZE_MAX) != QUICK_JSON_FITS)
        return NULL;
    json_t *result = quick_json_load(data, length, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(result)) {
        json_decref(result);
        result = NULL;
    }
    return result;
}
