// SPDX-License-Identifier: Apache-2.0
//
// tool_run_progress: see tool_run_internal.h.  Once a second, sends what a run has printed to the
// call that waits for it, and updates to subscribers of its output.  Runs in the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"
#include "mcp/protocol/subscriptions.h"
#include "mcp/tools/tool_run_internal.h"

enum {
    LAST_LINE_BYTES = 512, // looked at for the last line
    LAST_LINE_MAX = 80,    // characters of it that are shown
};

// NULL: the run has not begun.
static struct evbuffer *output_of(const struct tool_run *run, enum run_stream stream)
{
    const struct run *r = run->exec ? run->exec->run : NULL;
    return r ? r->output[stream] : NULL;
}

json_t *progress_text(const struct tool_run *run, enum run_stream stream)
{
    struct evbuffer *buffer = output_of(run, stream);
    size_t length = buffer ? evbuffer_get_length(buffer) : 0, clean = 0;
    const char *data = length ? (const char *)evbuffer_pullup(buffer, -1) : "";
    _cleanup_free_ char *copy = data ? utf8_clean(data, length, &clean) : NULL;
    return copy ? json_stringn_nocheck(copy, clean) : NULL;
}

// Counts the new lines.  Returns true when there is new output.
static bool count_lines(struct tool_run *run, enum run_stream stream)
{
    struct evbuffer *buffer = output_of(run, stream);
    struct evbuffer_ptr at;
    size_t length = buffer ? evbuffer_get_length(buffer) : 0, from = (size_t)run->seen[stream];
    char piece[4096];
    if (length <= from || evbuffer_ptr_set(buffer, &at, from, EVBUFFER_PTR_SET) < 0)
        return false;
    run->latest = stream;
    while (from < length) {
        ev_ssize_t n = evbuffer_copyout_from(buffer, &at, piece, sizeof piece);
        if (n <= 0)
            break;
        for (ev_ssize_t i = 0; i < n; i++)
            run->lines += piece[i] == '\n';
        from += (size_t)n;
        if (evbuffer_ptr_set(buffer, &at, (size_t)n, EVBUFFER_PTR_ADD) < 0)
            break;
    }
    run->seen[stream] = length;
    return true;
}

// The last line that is not empty, shortened and sanitized.
static void last_line(const struct tool_run *run, char *buf, size_t cap)
{
    char tail[LAST_LINE_BYTES + 1];
    struct evbuffer *buffer = output_of(run, run->latest);
    size_t length = buffer ? evbuffer_get_length(buffer) : 0,
           from = length > LAST_LINE_BYTES ? length - LAST_LINE_BYTES : 0;
    struct evbuffer_ptr at;
    ev_ssize_t n = !buffer || evbuffer_ptr_set(buffer, &at, from, EVBUFFER_PTR_SET) < 0
                       ? 0
                       : evbuffer_copyout_from(buffer, &at, tail, LAST_LINE_BYTES);
    buf[0] = '\0';
    while (n > 0 && strchr(" \t\r\n", tail[n - 1])) // a NUL counts as blank too
        n--;
    if (n <= 0)
        return;
    size_t begin = (size_t)n;
    while (begin > 0 && tail[begin - 1] != '\n' && tail[begin - 1] != '\r')
        begin--;
    while (begin > 0 && begin < (size_t)n && ((unsigned char)tail[begin] & 0xc0) == 0x80)
        begin++; // the first bytes of a character are further ahead
    size_t count = 0, at_byte = begin;
    for (; at_byte < (size_t)n && count < LAST_LINE_MAX; count++) {
        size_t step = utf8_sequence((unsigned char *)tail + at_byte, (size_t)n - at_byte);
        if (tail[at_byte] == '\0')
            tail[at_byte] = '?';
        at_byte += step ? step : 1;
    }
    snprintf(buf, cap, "%.*s", (int)(at_byte - begin), tail + begin);
    text_sanitize(buf);
    if (at_byte < (size_t)n && strlen(buf) + 4 < cap)
        strncat(buf, "...", cap - strlen(buf) - 1);
}

// ---- once a second ------------------------------------------------------------------------------

static void tell_progress(struct tool_run *run, double elapsed_s)
{
    char line[LAST_LINE_MAX * 4 + 8], text[sizeof line + 96];
    const struct run *r = run->exec->run;
    double waited_s = 0;
    if (!r || !r->t_box_us) {
        snprintf(text, sizeof text, "waiting for %s, %.0f s",
                 run->exec->session_id[0] ? "its turn in the session" : "a box", elapsed_s);
        waited_s = elapsed_s;
    } else {
        last_line(run, line, sizeof line);
        snprintf(text, sizeof text, "running %.0f s, %llu %s of output%s%s", elapsed_s,
                 (unsigned long long)run->lines, run->lines == 1 ? "line" : "lines",
                 line[0] ? ": " : "", line);
        waited_s = (double)((int64_t)r->t_box_us - run->begin_us) / 1e6;
    }
    uint64_t wall_ms = r ? r->request.wall_ms : run->exec->request.wall_ms;
    double total_s = (double)wall_ms / 1000 + (double)(int64_t)waited_s;
    mcp_progress(run->call, elapsed_s < total_s ? elapsed_s : total_s, total_s, text);
}

void progress_tell_updated(struct tool_run *run, enum output_part part)
{
    char uri[OUTPUT_URI_MAX];
    mcp_outputs_uri(run->id, part, uri);
    mcp_resource_updated(run->runs->mcp, uri, run->owner);
}

static void on_tick(void *argument)
{
    struct tool_run *run = argument;
    if (!run->exec)
        return;
    (void)timer_set(&run->tick, run->runs->mcp->base, 1000, on_tick, run);
    bool out = count_lines(run, RUN_STDOUT), err = count_lines(run, RUN_STDERR);
    if (run->background && out)
        progress_tell_updated(run, OUTPUT_STDOUT);
    if (run->background && err)
        progress_tell_updated(run, OUTPUT_STDERR);
    if (run->call)
        tell_progress(run, (double)(clock_us() - run->begin_us) / 1e6);
}

// On failure there is no progress; nothing else is lost.
void progress_start(struct tool_run *run)
{
    if (!run->background && !(run->call && run->call->progress_token))
        return;
    (void)timer_set(&run->tick, run->runs->mcp->base, 1000, on_tick, run);
}
