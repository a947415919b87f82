// SPDX-License-Identifier: Apache-2.0
//
// batch: see batch.h.  A handler of rest/route.c; runs in the gate.

#include "rest/batch.h"

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
#include "rest/lines.h"
#include "run/admission.h"
#include "json/dump.h"
#include "json/whole.h"

enum {
    AGAIN_MS = 10,       // between tries when the server is full
    FULL_MS = 60 * 1000, // longest wait of an item for a full server
    PER_CORE = 4,        // items under way: they keep the keeper and the cores busy
    WINDOW_MIN = 8,
};

// An item that is under way.
struct batch_run {
    struct batch *batch; // NULL: free
    size_t index;
    struct exec *exec; // NULL: the server was full
    int64_t since_ms;
};

struct batch {
    struct rest_call *call;
    struct batches *all;
    json_t *items; // of the call's body
    size_t count, next, written, ended;
    unsigned running, window; // of `active` that are in use
    struct batch_run active[BATCH_WINDOW_MAX];
    bool in_order, cancelled, busy; // busy: in pump() or cancel(), which alone may end it
    struct lines lines;
    char **pending;       // results that wait for an earlier one, by index
    size_t pending_bytes; // of them
    size_t succeeded;
    json_t *verdicts;
    int64_t begin_us;
    struct timer alive, again;
    TAILQ_ENTRY(batch) list;
};

struct batches {
    size_t pending_bytes;     // results that wait for an earlier one, of all batches
    TAILQ_HEAD(, batch) list; // the first one gets the next free run
};

static void pump(struct batch *b);

// ---- the fields of an item ----------------------------------------------------------------------

// The fields of one item: its own, then those of the batch; new.
static json_t *view(json_t *body, json_t *item)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(EXECUTE_FIELDS(EXECUTE_BATCH));
    json_t *o = json_object();
    bool own = field_get(item, "environment", NULL) || field_get(item, "packages", NULL);
    bool reads = field_get(item, "stdin", "stdin_base64") != NULL;
    int failed = !o || json_object_set(o, "code", json_object_get(item, "code"));
    while (!failed && (f = field_next(&w))) {
        bool packages = f->into == INTO_ENVIRONMENT || f->into == INTO_PACKAGES;
        json_t *value = field_get(item, f->name, NULL);
        bool input = f->into == INTO_STDIN || f->into == INTO_STDIN_BASE64;
        if (!value && !(packages && own) && !(input && reads)) // they exclude each other
            value = field_get(body, f->name, NULL);
        if (value)
            failed = json_object_set(o, f->name, value);
    }
    return json_whole(o, failed);
}

// Fills in a request from the fields.  0, or a negative code and `e`; the caller clears it in any
// case.
static int read_request(struct rest_call *c, json_t *fields, struct exec_request *ret,
                        struct err *e)
{
    return execute_read(c->rest->gate, c->owner, fields, EXECUTE_ITEM | EXECUTE_BATCH, ret, e);
}

static int check_policy(const struct rest_call *c, json_t *item, const struct exec_request *q,
                        struct err *e)
{
    json_t *policy = NULL;
    int r =
        code_policy_make(c->rest->config, q->policy, q->allowed_imports, false, false, &policy, e);
    json_decref(policy);
    // The item and the batch contradict each other.
    if (r < 0 && q->policy && q->allowed_imports &&
        !field_get(item, "policy", NULL) != !field_get(item, "allowed_imports", NULL))
        e->code = ERR_CONFLICT;
    return r;
}

// Checks all items before the first one runs.  -1: answered.
static int check_items(struct rest_call *c, json_t *items)
{
    size_t i;
    json_t *item, *ids = json_object();
    struct err e = {.code = ERR_SYSTEM};
    int r = ids ? 0 : err_memory(&e);
    json_array_foreach (items, i, item) {
        _cleanup_(exec_request_clear) struct exec_request request = {0};
        json_t *id = field_get(item, "id", NULL), *fields = r == 0 ? view(c->body, item) : NULL;
        if (r < 0)
            break;
        if (id && strlen(json_string_value(id)) != json_string_length(id))
            r = err_set(&e, ERR_BAD_VALUE, 0, "remove it", "the id has a NUL character");
        else if (id && json_object_get(ids, json_string_value(id)))
            r = err_set(&e, ERR_CONFLICT, 0, "give every item an id of its own, or none",
                        "an earlier item has the same id");
        else if (!fields || (id && json_object_set_new(ids, json_string_value(id), json_true())))
            r = err_memory(&e);
        else if ((r = read_request(c, fields, &request, &e)) == 0)
            r = check_policy(c, item, &request, &e);
        json_decref(fields);
        if (r < 0)
            (void)err_wrap(&e, "field 'items[%zu]'", i);
    }
    json_decref(ids);
    if (r < 0)
        rest_fail_err(c, &e);
    return r < 0 ? -1 : 0;
}

// ---- results ------------------------------------------------------------------------------------

static json_t *last_message(struct batch *b)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:O, s:f}", "done", 1, "total", (json_int_t)b->count,
                     "succeeded", (json_int_t)b->succeeded, "failed",
                     (json_int_t)(b->count - b->succeeded), "verdicts", b->verdicts, "wall_ms",
                     (double)(clock_us() - b->begin_us) / 1000);
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
    while (b->written < b->count && b->pending[b->written]) {
        char *text = TAKE_PTR(b->pending[b->written]);
        add_pending(b, -(ssize_t)strlen(text));
        write_result(b, text);
    }
}

// Takes the object of an execution, or NULL and the error in place of it.
static void take_result(struct batch *b, size_t index, json_t *object, const char *id,
                        const struct err *e)
{
    json_t *of = field_get(json_array_get(b->items, index), "id", NULL), *message;
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    bool success = json_is_true(json_object_get(object, "success"));
    json_t *error = object ? NULL
                           : json_pack("{s:s, s:s, s:s}", "code", err_code_name(e->code), "message",
                                       e->message, "hint", e->hint);
    if (!verdict)
        verdict = "lost";
    message = json_pack("{s:I, s:O?, s:s, s:b, s:s*, s:O*, s:o*}", "index", (json_int_t)index, "id",
                        of, "verdict", verdict, "success", success, "execution_id",
                        object ? id : NULL, "execution", object, "error", error);
    json_t *count = json_object_get(b->verdicts, verdict);
    (void)json_object_set_new(b->verdicts, verdict, json_integer(json_integer_value(count) + 1));
    char *text = message ? dump_text(message) : NULL;
    json_decref(message);
    json_decref(object);
    b->ended++;
    b->succeeded += success;
    if (!text && (text = malloc(96))) // every item has a result, whatever happens
        snprintf(text, 96, "{\"index\":%zu,\"id\":null,\"verdict\":\"lost\",\"success\":false}",
                 index);
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
    b->pending[index] = text;
    add_pending(b, (ssize_t)strlen(text));
    send_pending(b);
}

// ---- items --------------------------------------------------------------------------------------

static void free_run(struct batch_run *s)
{
    struct batch *b = s->batch;
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

static void on_done(struct exec *x)
{
    struct batch_run *s = x->request.argument;
    if (!s)
        return; // the server ends
    struct batch *b = s->batch;
    struct batches *all = b->all;
    s->exec = NULL;
    if (x->error.message[0] && shall_wait(s, x)) {
        look_again(b);
        exec_free(x);
        return;
    }
    json_t *object = x->error.message[0] ? NULL : exec_json(x);
    struct err e = x->error;
    if (!object && !e.message[0])
        (void)err_memory(&e);
    size_t index = s->index;
    char id[ID_SIZE];
    memcpy(id, x->id, sizeof id);
    free_run(s);
    exec_free(x);
    take_result(b, index, object, id, &e);
    // The next batch in the list gets the run that became free.
    struct batch *other = TAILQ_FIRST(&all->list);
    TAILQ_REMOVE(&all->list, other, list);
    TAILQ_INSERT_TAIL(&all->list, other, list);
    if (other != b)
        pump(other);
    pump(b);
}

// False: memory is out, or the item no longer passes its checks.  The item has its result then.
static bool start(struct batch_run *s)
{
    struct batch *b = s->batch;
    struct rest_call *c = b->call;
    _cleanup_(exec_request_clear) struct exec_request request = {0};
    struct err e;
    size_t index = s->index;
    json_t *fields = view(c->body, json_array_get(b->items, index));
    (void)err_memory(&e);
    if (fields && read_request(c, fields, &request, &e) == 0) {
        request.on_done = on_done;
        request.argument = s;
        s->exec = exec_start(c->rest->gate, &request);
    }
    json_decref(fields); // the request borrows from the body, which stays
    if (s->exec)
        return true;
    free_run(s);
    take_result(b, index, NULL, "", &e);
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

static bool may_start(const struct batch *b)
{
    const struct rest_call *c = b->call;
    return b->next < b->count && !b->cancelled && b->running < b->window && may_take_run(b) &&
           has_room(b) && !(c->x && http_stream_backlog(c->x) > BATCH_BACKLOG);
}

static void start_next(struct batch *b)
{
    struct batch_run *s = b->active;
    while (s->batch)
        s++;
    *s = (struct batch_run){.batch = b, .index = b->next++, .since_ms = clock_ms()};
    b->running++;
    (void)start(s);
}

static void pump(struct batch *b)
{
    struct rest_call *c = b->call;
    if (b->busy)
        return;
    b->busy = true;
    while (may_start(b))
        start_next(b);
    b->busy = false;
    if (b->cancelled && !b->running) {
        rest_free(c);
    } else if (!b->cancelled && b->ended == b->count) {
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
    for (size_t i = 0; b->pending && i < b->count; i++)
        free(b->pending[i]);
    free(b->pending);
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

static unsigned window_of(json_t *body)
{
    json_t *wanted = field_get(body, "concurrency", NULL);
    long window = (long)sys_cores() * PER_CORE;
    window = window < WINDOW_MIN ? WINDOW_MIN : window;
    window = window > BATCH_WINDOW_MAX ? BATCH_WINDOW_MAX : window;
    if (wanted && json_number_value(wanted) < (double)window)
        window = (long)json_number_value(wanted);
    return (unsigned)window;
}

static bool batch_new(struct rest_call *c, json_t *items)
{
    struct batches *all = get_batches(c->rest);
    struct batch *b = all ? calloc(1, sizeof *b) : NULL;
    const char *order = field_text(c->body, "order", NULL);
    if (!b)
        return false;
    *b = (struct batch){.call = c,
                        .all = all,
                        .items = items,
                        .count = json_array_size(items),
                        .window = window_of(c->body),
                        .in_order = !order || strcmp(order, "input") == 0,
                        .begin_us = clock_us()};
    TAILQ_INSERT_TAIL(&all->list, b, list);
    c->batch = b;
    lines_init(&b->lines, c->x);
    if (json_is_false(field_get(c->body, "stream", NULL)))
        b->lines.form = LINES_OBJECT;
    c->x->on_drained = on_drained;
    b->pending = calloc(b->count, sizeof *b->pending);
    b->verdicts = json_object();
    return b->pending && b->verdicts && wait_for_line(b);
}

void rest_batch(struct rest_call *c)
{
    json_t *items = json_object_get(c->body, "items");
    if (check_items(c, items) < 0)
        return;
    if (!batch_new(c, items))
        rest_answer(c, 503, NULL);
    else
        pump(c->batch);
}
