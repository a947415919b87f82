// SPDX-License-Identifier: Apache-2.0
//
// batch: see batch.h.  A handler of rest/route.c; runs in the gate.

#include "rest/batch_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/timer.h"
#include "config/code_policy.h"
#include "exec/execute.h"
#include "rest/call.h"
#include "rest/compare.h"
#include "rest/lines.h"
#include "run/admission.h"
#include "json/dump.h"
#include "json/quick_json.h"
#include "json/whole.h"

enum {
    AGAIN_MS = 10,       // between tries when the server is full
    FULL_MS = 60 * 1000, // longest wait of a run for a full server
    PER_CORE = 4,        // short runs under way
    WINDOW_MIN = 8,
    SHORT_MS = 50,
    OCTAVE_BITS = 5,
    OCTAVE = 1 << OCTAVE_BITS, // counters for each doubling of a time: 2 % apart
    TIMES = 40 * OCTAVE,
};

struct batches {
    size_t pending_bytes;     // results that wait for an earlier one, of all batches
    TAILQ_HEAD(, batch) list; // the first one gets the next free run
};

static void pump(struct batch *b);

// ---- results ------------------------------------------------------------------------------------

// Counters 0 to OCTAVE - 1 are microseconds; then each doubling has OCTAVE of them.
static size_t counter_of(uint64_t us)
{
    unsigned bits = us < OCTAVE ? 0 : 63U - (unsigned)__builtin_clzll(us) - OCTAVE_BITS;
    size_t at = ((size_t)bits << OCTAVE_BITS) + (size_t)(us >> bits);
    return at < TIMES ? at : TIMES - 1;
}

static double time_of(size_t counter)
{
    size_t bits = counter < 2 * OCTAVE ? 0 : (counter >> OCTAVE_BITS) - 1;
    return (double)((counter - (bits << OCTAVE_BITS)) << bits) / 1000;
}

static void note_time(struct batch *b, json_t *object)
{
    json_t *wall = json_object_get(json_object_get(object, "usage"), "wall_ms");
    if (!json_is_number(wall))
        return;
    b->times[counter_of((uint64_t)(json_number_value(wall) * 1000))]++;
    b->timed++;
    b->mean_ms += (json_number_value(wall) - b->mean_ms) / (b->timed < 8 ? (double)b->timed : 8);
}

// The time that so many percent of the runs did not exceed, in milliseconds; new.
static json_t *percentile(const struct batch *b, size_t percent)
{
    size_t wanted = (b->timed * percent + 99) / 100, seen = 0;
    for (size_t i = 0; b->timed && i < TIMES; i++)
        if ((seen += b->times[i]) >= wanted)
            return json_real(time_of(i));
    return json_null();
}

static json_t *last_message(struct batch *b)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:O, s:o, s:o, s:f}", "done", 1, "total",
                     (json_int_t)b->begun, "succeeded", (json_int_t)b->succeeded, "passed",
                     (json_int_t)b->passed, "failed", (json_int_t)(b->begun - b->passed),
                     "verdicts", b->verdicts, "p50_ms", percentile(b, 50), "p99_ms",
                     percentile(b, 99), "wall_ms", (double)(clock_us() - b->begin_us) / 1000);
}

static void write_result(struct batch *b, char *text)
{
    lines_write_text(&b->lines, b->call, "item", text, strlen(text));
    b->written++;
}

static void add_pending(struct batch *b, ssize_t bytes)
{
    b->pending_bytes += (size_t)bytes;
    b->all->pending_bytes += (size_t)bytes;
}

// Sends the pending results whose turn has come.
static void send_pending(struct batch *b)
{
    while (b->written < b->begun && b->pending[b->written % BATCH_RING]) {
        char *text = TAKE_PTR(b->pending[b->written % BATCH_RING]);
        add_pending(b, -(ssize_t)strlen(text));
        write_result(b, text);
    }
}

// The line of a run: the object of its execution, or NULL and the error in place of it.
static char *line_of(struct batch *b, const struct batch_run *s, json_t *object, bool passed,
                     const struct err *e)
{
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    bool success = json_is_true(json_object_get(object, "success"));
    json_t *error = object ? NULL
                           : json_pack("{s:s, s:s, s:s}", "code", err_code_name(e->code), "message",
                                       e->message, "hint", e->hint);
    if (!verdict)
        verdict = "lost";
    json_t *message = json_pack("{s:I, s:O?, s:o*, s:b, s:s, s:b, s:s*, s:O*, s:o*, s:O*}", "index",
                                (json_int_t)s->index, "id", field_get(s->item, "id", NULL), "test",
                                s->test ? json_integer((json_int_t)s->test_index) : NULL, "passed",
                                passed, "verdict", verdict, "success", success, "execution_id",
                                object ? s->id : NULL, "execution", object, "error", error,
                                "checker", json_object_get(s->checking, "outcome"));
    json_t *count = json_object_get(b->verdicts, verdict);
    (void)json_object_set_new(b->verdicts, verdict, json_integer(json_integer_value(count) + 1));
    char *text = message ? dump_text(message) : NULL;
    json_decref(message);
    b->succeeded += success;
    if (!text && (text = malloc(128))) // every run has a result, whatever happens
        snprintf(text, 128,
                 "{\"index\":%zu,\"id\":null,\"passed\":false,\"verdict\":\"lost\","
                 "\"success\":false}",
                 s->index);
    return text;
}

// Takes the object.
static void take_result(struct batch *b, const struct batch_run *s, json_t *object, bool passed,
                        const struct err *e)
{
    size_t number = s->number;
    note_time(b, object);
    char *text = line_of(b, s, object, passed, e);
    json_decref(object);
    b->ended++;
    b->passed += passed;
    if (!text && b->call->x)
        http_stream_chunk(b->call->x, NULL);
    if (!text || !rest_is_wanted(b->call)) {
        free(text);
        b->written++;
        return;
    }
    if (!b->in_order) {
        write_result(b, text);
        return;
    }
    b->pending[number % BATCH_RING] = text;
    add_pending(b, (ssize_t)strlen(text));
    send_pending(b);
}

// ---- items --------------------------------------------------------------------------------------

static void free_run(struct batch_run *s)
{
    struct batch *b = s->batch;
    json_decref(s->item);
    json_decref(s->object);
    json_decref(s->checking);
    *s = (struct batch_run){0};
    b->running--;
}

static void on_again(void *argument);

static void look_again(struct batch *b)
{
    if (!timer_is_set(&b->again))
        (void)timer_set(&b->again, b->call->rest->gate->base, AGAIN_MS, on_again, b);
}

// Other calls have all runs of the server: the item waits.
static bool shall_wait(const struct batch_run *s, const struct exec *x)
{
    return x->error.code == ERR_BUSY && x->error.errnum == 0 && !s->batch->cancelled &&
           clock_ms() - s->since_ms < FULL_MS;
}

// ---- tests --------------------------------------------------------------------------------------

static bool prints_expected(struct batch *b, const struct batch_run *s, json_t *object)
{
    json_t *out = json_object_get(object, "stdout"),
           *expected = field_get(s->test, "expected", NULL),
           *tolerance = batch_inherit(b, s, "tolerance");
    return !expected ||
           compare_texts(compare_mode_of(json_string_value(batch_inherit(b, s, "compare"))),
                         tolerance ? json_number_value(tolerance) : BATCH_TOLERANCE,
                         json_string_value(out), json_string_length(out),
                         json_string_value(expected), json_string_length(expected));
}

// The fields of the run that checks an output, in a box of its own, which the program never saw;
// new.
static json_t *checker_fields(struct batch *b, const struct batch_run *s, json_t *code,
                              json_t *object)
{
    json_t *fields = batch_view(b->call->body, s->item, NULL);
    json_t *given = field_get(s->test, "stdin", NULL),
           *expected = field_get(s->test, "expected", NULL);
    static const char *const not_its[] = {"stdin", "stdin_base64", "files", "args", "env", "seed"};
    for (size_t i = 0; fields && i < ARRAY_LEN(not_its); i++)
        (void)json_object_del(fields, not_its[i]);
    int failed = !fields || json_object_set(fields, "code", code) ||
                 json_object_set_new(fields, "variables",
                                     json_pack("{s:O, s:O?, s:O?}", "output",
                                               json_object_get(object, "stdout"), "stdin", given,
                                               "expected", expected));
    return json_whole(fields, failed);
}

static bool start(struct batch_run *s);

// True: a checker decides, and the run waits for it.
static bool begin_check(struct batch_run *s, json_t *object)
{
    struct batch *b = s->batch;
    json_t *code = s->test ? batch_inherit(b, s, "checker") : NULL;
    bool good = json_is_true(json_object_get(object, "success"));
    if (!code || !good || b->cancelled)
        return false;
    s->checking = checker_fields(b, s, code, object);
    s->object = object;
    (void)start(s);
    return true;
}

static void note_checker(struct batch_run *s, json_t *object, const struct err *e)
{
    json_t *error = json_object_get(object, "error");
    json_t *outcome =
        json_pack("{s:s, s:O?, s:O?}", "verdict",
                  object ? json_string_value(json_object_get(object, "verdict")) : "lost", "result",
                  json_object_get(object, "result"), "message", json_object_get(error, "message"));
    if (!object && outcome)
        (void)json_object_set_new(outcome, "message", json_string(e->message));
    (void)json_object_set_new(s->checking, "outcome", outcome);
}

// The next batch in the list gets the run that became free.
static void go_on(struct batch *b)
{
    struct batches *all = b->all;
    struct batch *other = TAILQ_FIRST(&all->list);
    TAILQ_REMOVE(&all->list, other, list);
    TAILQ_INSERT_TAIL(&all->list, other, list);
    if (other != b)
        pump(other);
    pump(b);
}

// Takes the object of a run.
static void finish(struct batch_run *s, json_t *object, bool passed, const struct err *e)
{
    struct batch *b = s->batch;
    struct batch_run ended = *s;
    (void)json_incref(s->item);
    (void)json_incref(s->checking);
    s->object = NULL;
    free_run(s);
    take_result(b, &ended, object, passed, e);
    json_decref(ended.item);
    json_decref(ended.checking);
}

static void on_done(struct exec *x)
{
    struct batch_run *s = x->request.argument;
    if (!s)
        return; // the server ends
    struct batch *b = s->batch;
    s->exec = NULL;
    if (x->error.message[0] && shall_wait(s, x)) {
        look_again(b);
        exec_free(x);
        return;
    }
    json_t *object = x->error.message[0] ? NULL : exec_json(x);
    struct err e = x->error;
    if (!object && !e.message[0])
        (void)err_set(&e, ERR_SYSTEM, ENOMEM, NULL, "show the result");
    if (s->checking) {
        bool passed = json_is_true(json_object_get(object, "success")) &&
                      !json_is_false(json_object_get(object, "result_json"));
        note_checker(s, object, &e);
        json_decref(object);
        exec_free(x);
        finish(s, s->object, passed, &e);
        go_on(b);
        return;
    }
    memcpy(s->id, x->id, sizeof s->id);
    exec_free(x);
    bool fits = object && prints_expected(b, s, object);
    if (fits && begin_check(s, object))
        return;
    finish(s, object, fits && json_is_true(json_object_get(object, "success")), &e);
    go_on(b);
}

// False: memory is out, or the item no longer passes its checks.  The item has its result then.
static bool start(struct batch_run *s)
{
    struct batch *b = s->batch;
    struct rest_call *c = b->call;
    _cleanup_(exec_request_clear) struct exec_request request = {0};
    struct err e;
    json_t *fields = s->checking ? json_incref(s->checking) : batch_view(c->body, s->item, s->test);
    (void)err_set(&e, ERR_SYSTEM, ENOMEM, "try again later", "start the item");
    if (fields && batch_read_request(c, fields, &request, &e) == 0) {
        if (s->checking) {
            json_decref(request.network);
            request.network = json_false();
        }
        request.on_done = on_done;
        request.argument = s;
        s->exec = exec_start(c->rest->gate, &request);
    }
    json_decref(fields); // the request borrows from the item and the body, which stay
    if (s->exec)
        return true;
    finish(s, s->object, false, &e);
    return false;
}

// The batches of a key leave a quarter of its runs to its other calls.
static bool may_take_run(const struct batch *b)
{
    unsigned runs = admission_most(b->call->rest->gate), others = runs / 4 ? runs / 4 : 1, own = 0;
    const struct batch *other;
    TAILQ_FOREACH (other, &b->all->list, list)
        own += strcmp(other->call->owner, b->call->owner) == 0 ? other->running : 0;
    return own < (!runs ? BATCH_WINDOW_MAX : runs > others ? runs - others : 1);
}

// One item of each batch may always run, so that the earlier one that the others wait for ends.
static bool has_room(const struct batch *b)
{
    return !b->running ||
           (b->pending_bytes < BATCH_PENDING && b->all->pending_bytes < BATCH_PENDING_ALL);
}

// As many as there are cores, unless the caller wants others.  Of a short run most is its beginning
// and its end, which leave a core idle: while runs are short, more are under way.
static unsigned window_of(const struct batch *b)
{
    unsigned cores = (unsigned)sys_cores(), most = cores * PER_CORE;
    most = most < WINDOW_MIN ? WINDOW_MIN : most;
    unsigned window = b->wanted ? b->wanted : b->timed && b->mean_ms < SHORT_MS ? most : cores;
    return window < BATCH_WINDOW_MAX ? window : BATCH_WINDOW_MAX;
}

static bool may_start(const struct batch *b)
{
    const struct rest_call *c = b->call;
    return !batch_is_over(b) && !b->cancelled && b->running < window_of(b) && may_take_run(b) &&
           has_room(b) && b->begun - b->written < BATCH_RING &&
           !(c->x && http_stream_backlog(c->x) > BATCH_BACKLOG);
}

// False: no item is there.
static bool start_next(struct batch *b)
{
    struct err e;
    int r = b->now ? 1 : batch_next_item(b, &e);
    if (r == 0)
        return false;
    if (r < 0) {
        const struct batch_run none = {.number = b->begun++, .index = b->now_index};
        take_result(b, &none, NULL, false, &e);
        return true;
    }
    struct batch_run *s = b->active;
    while (s->batch)
        s++;
    json_t *tests = field_get(b->now, "tests", NULL);
    *s = (struct batch_run){.batch = b,
                            .number = b->begun++,
                            .index = b->now_index,
                            .item = json_incref(b->now),
                            .test = json_array_get(tests, b->now_test),
                            .test_index = b->now_test,
                            .since_ms = clock_ms()};
    if (++b->now_test >= json_array_size(tests)) {
        json_decref(b->now);
        b->now = NULL;
    }
    b->running++;
    (void)start(s);
    return true;
}

static void pump(struct batch *b)
{
    struct rest_call *c = b->call;
    if (b->busy)
        return;
    b->busy = true;
    while (may_start(b) && start_next(b))
        ;
    b->busy = false;
    if (b->cancelled && !b->running) {
        rest_free(c);
    } else if (!b->cancelled && batch_is_over(b) && b->ended == b->begun) {
        json_t *last = last_message(b);
        lines_write_last(&b->lines, c, "done", last);
        json_decref(last);
        lines_end(&b->lines, c);
    }
}

static void on_again(void *argument)
{
    struct batch *b = argument;
    b->busy = true;
    for (size_t i = 0; i < BATCH_WINDOW_MAX; i++)
        if (b->active[i].batch && !b->active[i].exec)
            (void)start(&b->active[i]);
    b->busy = false;
    pump(b);
}

void batch_cancel(struct batch *b)
{
    b->cancelled = b->busy = true;
    for (size_t i = 0; i < BATCH_WINDOW_MAX; i++) {
        struct batch_run *s = &b->active[i];
        if (s->exec)
            exec_cancel(s->exec); // on_done() follows, perhaps at once
        else if (s->batch)
            free_run(s);
    }
    b->busy = false;
    pump(b);
}

// ---- the beginning and the end ------------------------------------------------------------------

static bool wait_for_line(struct batch *b);

static void on_alive(void *argument)
{
    struct batch *b = argument;
    (void)wait_for_line(b);
    lines_alive(&b->lines, b->call);
}

// Calls on_alive() after LINES_ALIVE_S.
static bool wait_for_line(struct batch *b)
{
    return timer_set(&b->alive, b->call->rest->gate->base, LINES_ALIVE_S * 1000, on_alive, b);
}

static void on_drained(struct http_exchange *x)
{
    struct rest_call *c = x->work;
    if (c && c->batch)
        pump(c->batch);
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < BATCH_WINDOW_MAX; i++) {
        struct exec *x = TAKE_PTR(b->active[i].exec);
        if (x) {
            x->request.argument = NULL; // on_done() finds nothing to do
            exec_cancel(x);
            exec_free(x);
        }
        if (b->active[i].batch)
            free_run(&b->active[i]);
    }
    add_pending(b, -(ssize_t)b->pending_bytes);
    TAILQ_REMOVE(&b->all->list, b, list);
    timer_stop(&b->alive);
    timer_stop(&b->again);
    for (size_t i = 0; b->pending && i < BATCH_RING; i++)
        free(b->pending[i]);
    free(b->pending);
    free(b->times);
    free(b->line);
    json_decref(b->now);
    json_decref(b->verdicts);
    free(b);
}

void batches_free(struct batches *all)
{
    free(all);
}

static struct batches *get_batches(struct rest *rest)
{
    if (!rest->batches && (rest->batches = calloc(1, sizeof *rest->batches)))
        TAILQ_INIT(&rest->batches->list);
    return rest->batches;
}

static bool batch_new(struct rest_call *c, json_t *items, const char *order, double window)
{
    struct batches *all = get_batches(c->rest);
    struct batch *b = all ? calloc(1, sizeof *b) : NULL;
    if (!b)
        return false;
    *b = (struct batch){.call = c,
                        .all = all,
                        .items = items,
                        .wanted = (unsigned)window,
                        .in_order = !order || strcmp(order, "input") == 0,
                        .begin_us = clock_us()};
    TAILQ_INSERT_TAIL(&all->list, b, list);
    c->batch = b;
    lines_init(&b->lines, c->x);
    c->x->on_drained = on_drained;
    b->pending = calloc(BATCH_RING, sizeof *b->pending);
    b->times = calloc(TIMES, sizeof *b->times);
    b->verdicts = json_object();
    return b->pending && b->times && b->verdicts && wait_for_line(b);
}

void rest_batch(struct rest_call *c)
{
    json_t *items = json_object_get(c->body, "items");
    if (batch_check_items(c, items) < 0)
        return;
    if (!batch_new(c, items, field_text(c->body, "order", NULL),
                   json_number_value(field_get(c->body, "concurrency", NULL)))) {
        rest_answer(c, 503, NULL);
        return;
    }
    if (json_is_false(field_get(c->body, "stream", NULL)))
        c->batch->lines.form = LINES_OBJECT;
    pump(c->batch);
}

static void on_body(struct http_exchange *x)
{
    struct rest_call *c = x->work;
    if (c && c->batch)
        pump(c->batch);
}

// The defaults of all lines, from the query.  -1: answered.
static int read_defaults(struct rest_call *c)
{
    static const struct {
        const char *name;
        bool number;
    } names[] = {{"timeout", true},    {"cpu_seconds", true},  {"memory_mb", true},
                 {"policy", false},    {"environment", false}, {"packages", false},
                 {"compare", false},   {"tolerance", true},    {"order", false},
                 {"concurrency", true}};
    char text[512];
    struct err e;
    if (!(c->body = json_object()))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        int given = rest_query(c, names[i].name, text, sizeof text);
        if (given < 0)
            return -1;
        json_t *value = !given            ? NULL
                        : names[i].number ? json_loads(text, JSON_DECODE_ANY, NULL)
                                          : json_string(text);
        if (given && !value)
            value = json_string(text); // which the check refuses
        if (value)
            (void)json_object_set_new(c->body, names[i].name, value);
    }
    if (fields_check(FIELDS(batch_lines_query), c->rest->config, c->body, &e) == 0)
        return 0;
    rest_fail_err(c, &e);
    return -1;
}

void rest_batch_lines(struct rest_call *c)
{
    if (read_defaults(c) < 0)
        return;
    if (!batch_new(c, NULL, field_text(c->body, "order", NULL),
                   json_number_value(field_get(c->body, "concurrency", NULL)))) {
        rest_answer(c, 503, NULL);
        return;
    }
    c->x->on_body = on_body;
    http_body_begin(c->x);
    pump(c->batch);
}
