// SPDX-License-Identifier: Apache-2.0
//
// warm_box: the life of one warm box, from the request to the keeper until a run or a session takes
// it: see warm_boxes_internal.h.  Called by warm_boxes.c, in the gate.
//
// SECURITY: from the first import on, everything that comes out of the box is hostile.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "env/warm_boxes_internal.h"
#include "run/network.h"
#include "run/run.h"
#include "json/dump.h"

enum {
    WARM_MS = 20000, // for the imports; --wall when that is less
    BACKOFF_MS = 30 * 1000,
    BACKOFF_DOUBLINGS = 7, // up to about an hour
    WAITING_CPU_MS = 1000, // while it waits
};

// ---- the end of a box ---------------------------------------------------------------------------

// Frees `b` and returns its live box, which the caller owns; NULL: there is none.
static struct live_box *let_go(struct warm_box *b)
{
    struct family *f = b->family;
    struct warm_boxes *n = f->all;
    struct live_box *live = b->box;
    TAILQ_REMOVE(&f->boxes, b, list);
    f->count--;
    n->count--;
    n->making -= b->stage != WARM_BOX_READY;
    link_cancel(&n->gate->link, &b->box_request);
    timer_stop(&b->timer);
    if (live)
        live_listen(live, NULL, NULL); // `b` is freed, and the meta lent to it
    json_decref(b->path);
    json_decref(b->names);
    free(b->meta);
    free(b);
    return live;
}

static void end_box(struct warm_boxes *n, struct live_box *live, bool is_gone)
{
    if (!live)
        return;
    network_forget(n->gate, live->id);
    if (is_gone)
        link_let_go(&n->gate->link, live->id);
    else
        link_give_back(&n->gate->link, live->id);
    live_free(live);
}

static void drop_box(struct warm_box *b, bool is_gone)
{
    struct warm_boxes *n = b->family->all;
    end_box(n, let_go(b), is_gone);
    warm_boxes_tick_in(n, WARM_BOXES_SOON_MS);
}

void warm_box_drop(struct warm_box *b)
{
    drop_box(b, false);
}

void warm_box_drop_all(struct family *f)
{
    for (struct warm_box *b; (b = TAILQ_FIRST(&f->boxes));)
        drop_box(b, false);
}

// Ends all boxes of this environment, and makes none for a while.
static void give_up(struct warm_box *b, bool is_gone, const char *why)
{
    struct family *f = b->family;
    unsigned doublings = f->failures < BACKOFF_DOUBLINGS ? f->failures : BACKOFF_DOUBLINGS;
    int64_t pause_ms = (int64_t)BACKOFF_MS << doublings;
    f->failures++;
    f->rest_until_ms = clock_ms() + pause_ms;
    snprintf(f->reason, sizeof f->reason, "%s", why);
    text_sanitize(f->reason);
    log_line(LOG_WARN, "environment '%s': no warm boxes for %lld seconds: %s", f->name,
             (long long)(pause_ms / 1000), f->reason);
    drop_box(b, is_gone);
    warm_box_drop_all(f);
}

// ---- the life of a box --------------------------------------------------------------------------

static const char *end_words(const struct wire_ended *m, bool waits)
{
    return waits && m->end == END_CPU ? "they go on using the processor"
           : waits && m->end == END_PROCESSES
               ? "they leave a process behind, whose usage cannot be counted without a cgroup"
           : m->usage.memory_hits && m->usage.memory_hits != UINT64_MAX
               ? "they need too much memory"
           : m->end == END_MEMORY    ? "they need too much memory"
           : m->end == END_CPU       ? "they take too much processor time"
           : m->end == END_PROCESSES ? "they start too many processes"
                                     : "the interpreter crashed or exited";
}

static void on_ended(struct live_box *live, const struct wire_ended *m)
{
    struct warm_box *b = live->owner;
    give_up(b, true, end_words(m, b->stage == WARM_BOX_READY));
}

static void on_garbage(struct live_box *live)
{
    give_up(live->owner, false, "protocol error from the box");
}

// SECURITY: output of a package before the first run is dropped: no client asked for it.  A flood
// of it must not keep the gate busy.
static void on_output(struct live_box *live, enum live_stream stream, const char *data,
                      size_t length)
{
    struct warm_box *b = live->owner;
    (void)stream;
    (void)data;
    if ((b->printed += length) > b->family->all->config->output_bytes)
        give_up(b, false, "they print too much");
}

static void on_overdue(void *argument)
{
    give_up(argument, false, "they take too long");
}

// Reads the runner's report about its imports; true: all succeeded.
static bool take_report(struct warm_box *b, const char *data, size_t length)
{
    struct family *f = b->family;
    json_t *report = run_parse_result(data, length), *failed = json_object_get(report, "failed");
    json_t *said = json_object_get(failed, "name");
    const char *name = json_string_value(said),
               *why = json_string_value(json_object_get(failed, "error"));
    bool good = json_is_true(json_object_get(report, "warm")), known = false;
    char text[WARM_BOXES_REASON_MAX];
    // SECURITY: the report can only exclude names that the box was sent.
    for (size_t i = 0; name && i < json_array_size(b->names); i++)
        known |= json_equal(json_array_get(b->names, i), said);
    if (good) {
        f->failures = 0;
        f->reason[0] = '\0';
    } else if (known) {
        snprintf(f->reason, sizeof f->reason, "'%s' does not import: %.120s", name, why ? why : "");
        text_sanitize(f->reason);
        log_line(LOG_INFO, "environment '%s': %s; it is not preloaded", f->name, f->reason);
        preload_give_up(&f->preload, name);
        drop_box(b, false); // the failed import may have left parts
    } else {
        snprintf(text, sizeof text, "%s", why ? why : "the box returned an invalid answer");
        give_up(b, false, text);
    }
    json_decref(report);
    return good;
}

static void on_result(struct live_box *live, const char *data, size_t length, unsigned flags)
{
    struct warm_box *b = live->owner;
    struct warm_boxes *n = b->family->all;
    if (b->stage != WARM_BOX_WARMING) {
        give_up(b, false, "the box sent a result without a request");
        return;
    }
    if (flags & FRAME_NO_OUTPUT) {
        give_up(b, false, "they close stdout or stderr");
        return;
    }
    if (!take_report(b, data, length))
        return;
    b->stage = WARM_BOX_MEASURING;
    free(TAKE_PTR(b->meta));
    (void)link_measure(&n->gate->link, live->id, WAITING_CPU_MS, MEASURE_WAIT); // idle from now on
}

static void note_memory(struct warm_box *b, uint64_t bytes)
{
    if (bytes != UINT64_MAX)
        b->bytes = bytes;
    if (b->bytes > b->family->all->config->warm_bytes)
        give_up(b, false, "they take more than --warm-memory");
}

static void on_measured(struct live_box *live, const struct wire_measured *m)
{
    struct warm_box *b = live->owner;
    struct family *f = b->family;
    struct warm_boxes *n = f->all;
    struct wire_usage now;
    b->asked = false;
    if (b->stage != WARM_BOX_MEASURING) {
        if (b->stage == WARM_BOX_READY)
            note_memory(b, m->usage.peak_memory_bytes); // may free `b`
        return;
    }
    timer_stop(&b->timer);
    (void)meter_read(&live->meter, &live->limits, &now); // usage from here on is the run's
    b->bytes = m->usage.peak_memory_bytes == UINT64_MAX ? 0 : m->usage.peak_memory_bytes;
    f->box_bytes = b->bytes;
    if (b->bytes > n->config->warm_bytes) {
        give_up(b, false, "they take more than --warm-memory");
        return;
    }
    b->stage = WARM_BOX_READY;
    n->making--;
    warm_boxes_tick_in(n, WARM_BOXES_SOON_MS);
}

static const struct live_user user = {
    .on_result = on_result,
    .on_output = on_output,
    .on_garbage = on_garbage,
    .on_measured = on_measured,
    .on_ended = on_ended,
};

static int send_imports(struct warm_box *b)
{
    json_auto_t *o =
        json_pack("{s:s, s:O, s:O}", "mode", "session", "warm", b->names, "path", b->path);
    b->meta = o ? dump_text(o) : NULL;
    if (!b->meta)
        return -1;
    struct frame_run head = {.meta_length = (uint32_t)strlen(b->meta)};
    struct frame_piece pieces[] = {{&head, sizeof head}, {b->meta, head.meta_length}};
    return live_send(b->box, FRAME_RUN, pieces, 2, false);
}

static void on_box(struct link_request *o, const struct wire_box *m, const int *fds)
{
    struct warm_box *b = (struct warm_box *)((char *)o - offsetof(struct warm_box, box_request));
    struct warm_boxes *n = b->family->all;
    struct gate *g = n->gate;
    if (!fds) {
        give_up(b, true, m->error);
        return;
    }
    b->box = live_new(g, m->box, &n->limits, true, fds[0]);
    if (!b->box) {
        for (unsigned i = 0; i < m->meter_fds; i++)
            (void)close(fds[1 + i]);
        link_give_back(&g->link, m->box);
        give_up(b, true, "the server is out of memory");
        return;
    }
    meter_open(&b->box->meter, g->facts->caps->cgroups.driver->kind, fds + 1, m->meter_fds);
    link_hold(&g->link, b->box);
    b->stage = WARM_BOX_WARMING;
    live_listen(b->box, &user, b);
    if (send_imports(b) < 0)
        give_up(b, false, "the server is out of memory");
}

static bool set_deadline(struct warm_box *b)
{
    struct warm_boxes *n = b->family->all;
    uint64_t ms = n->config->wall_ms < WARM_MS ? n->config->wall_ms : WARM_MS;
    return timer_set(&b->timer, n->gate->base, ms, on_overdue, b);
}

void warm_box_make(struct family *f, json_t *names)
{
    struct warm_boxes *n = f->all;
    struct warm_box *b = calloc(1, sizeof *b);
    struct err e;
    struct wire_acquire m = {.cpu_ms = n->config->cpu_ms,
                             .network = f->network,
                             .keep = 1,
                             .grace_ms = (uint32_t)n->config->grace_ms,
                             .limits = n->limits};
    if (!b) {
        json_decref(names);
        return;
    }
    *b = (struct warm_box){
        .family = f, .path = json_incref(f->path), .names = names, .network = f->network};
    b->box_request.on_box = on_box;
    TAILQ_INSERT_TAIL(&f->boxes, b, list);
    f->count++;
    n->count++;
    n->making++;
    if (!set_deadline(b) || link_acquire(&n->gate->link, &b->box_request, &m, &e) < 0)
        give_up(b, true, "there is no box for them now");
}

// ---- waiting, and handing it out ----------------------------------------------------------------

// The keeper ends a waiting box that uses the processor; --warm-memory is enforced here.
void warm_box_look(struct warm_box *b)
{
    struct wire_usage used = {.peak_memory_bytes = UINT64_MAX};
    struct live_box *live = b->box;
    if (b->stage != WARM_BOX_READY)
        return;
    if (live->meter.count) {
        (void)meter_read(&live->meter, &live->limits, &used);
        note_memory(b, used.peak_memory_bytes);
    } else if (!b->asked) {
        b->asked =
            link_measure(&b->family->all->gate->link, live->id, WAITING_CPU_MS, MEASURE_WAIT) >= 0;
    }
}

struct live_box *warm_box_take(struct warm_box *b)
{
    bool asked = b->asked;
    struct live_box *live = let_go(b);
    struct wire_usage used;
    live->discard = true; // output from while it waited is not the run's
    live->late = asked;   // the answer to warm_box_look() is not the run's
    (void)meter_read(&live->meter, &live->limits, &used); // usage from here on is the run's
    free(TAKE_PTR(live->denials));                        // earlier denials are not the run's
    return live;
}
