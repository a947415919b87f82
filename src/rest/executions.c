// SPDX-License-Identifier: Apache-2.0
//
// executions: see executions.h.  Handlers of rest/route.c; runs in the gate.
//
//   1. An execution is in the gate's list of background runs from its beginning until drop().
//   2. execution->exec is set until on_done(), which comes exactly once.
//   3. The log is the output in the order in which it came, in whole characters as far as the code
//      wrote whole ones; a position in it is what clients know as offset.

#include "rest/executions.h"

#include <event2/buffer.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "exec/execute.h"
#include "rest/execute.h"
#include "rest/ndjson.h"
#include "run/admission.h"
#include "json/dump.h"
#include "json/whole.h"

enum {
    SEGMENTS_MAX = 4096, // switches between stdout and stderr that are remembered
    BACKLOG = 256 * 1024,
    PIECE = 64 * 1024,
};

static const char *const stream_names[RUN_STREAMS] = {"stdout", "stderr"};

struct segment {
    enum run_stream stream;
    size_t end; // where it ends in the log
};

struct execution {
    struct background back;
    struct rest *rest;
    struct exec *exec;
    json_t *body; // of the request, until it is done
    size_t body_bytes;
    struct session_plan plan;
    int64_t begin_us, took_us;
    char created_at[TEXT_TIME_MAX];
    json_t *object; // when it is done; NULL: it could not run
    struct err error;
    char *log;
    size_t length, size, logged[RUN_STREAMS]; // logged: bytes of a stream that are in the log
    struct segment segments[SEGMENTS_MAX];
    size_t count;
    struct webhook hook;
    unsigned watching;
    TAILQ_HEAD(, execution_watch) watches;
};

// A call that waits for the end, or reads the output.
struct execution_watch {
    struct execution *of;
    struct rest_call *call;
    struct timer timer;
    bool reads;
    struct lines lines;
    size_t at;        // position in the log
    json_t *messages; // of the end
    size_t next;
    TAILQ_ENTRY(execution_watch) list;
};

// ---- the end of one -----------------------------------------------------------------------------

void rest_watch_free(struct execution_watch *w)
{
    if (!w)
        return;
    TAILQ_REMOVE(&w->of->watches, w, list);
    w->of->watching--;
    timer_stop(&w->timer);
    json_decref(w->messages);
    w->call->watch = NULL;
    free(w);
}

static void release_body(struct execution *x)
{
    json_decref(TAKE_PTR(x->body));
    x->rest->body_bytes -= x->body_bytes;
    x->body_bytes = 0;
}

static void drop(struct background *b)
{
    struct execution *x = (struct execution *)b;
    struct execution_watch *w;
    while ((w = TAILQ_FIRST(&x->watches))) {
        struct rest_call *c = w->call;
        rest_watch_free(w);
        struct http_exchange *http = rest_let_go(c);
        if (http && http->streaming)
            http_stream_end(http);
        else if (http)
            http_reply_error(http, 404, "execution_not_found", "run it again",
                             "the execution was removed");
        rest_free(c);
    }
    if (x->exec) {
        x->exec->request.argument = NULL; // on_done() finds nothing to do
        exec_cancel(x->exec);
        exec_free(x->exec);
    }
    webhook_done(&x->hook);
    background_remove(b);
    release_body(x);
    json_decref(x->object);
    free(x->log);
    free(x);
}

void rest_drop_executions(struct rest *rest)
{
    struct background *b;
    for (b = background_any(rest->gate, drop); b; b = background_any(rest->gate, drop))
        drop(b);
}

// ---- its state ----------------------------------------------------------------------------------

static json_t *error_of(const struct err *e)
{
    return json_pack("{s:s, s:s, s:s*}", "code", err_code_name(e->code), "message", e->message,
                     "hint", e->hint[0] ? e->hint : NULL);
}

static json_t *state_of(const struct execution *x, bool whole)
{
    const char *state = !x->back.done ? "running" : x->object ? "finished" : "failed";
    int64_t took_us = x->back.done ? x->took_us : clock_us() - x->begin_us;
    json_t *o = json_pack("{s:s, s:s, s:s, s:f, s:I}", "execution_id", x->back.id, "state", state,
                          "created_at", x->created_at, "elapsed_ms", (double)took_us / 1000,
                          "output_offset", (json_int_t)x->length);
    int failed = !o;
    if (!failed && x->exec && x->exec->session_id[0])
        failed |= json_object_set_new(o, "session", json_string(x->exec->session_id));
    if (!failed && x->object)
        failed |= json_object_set(o, "verdict", json_object_get(x->object, "verdict"));
    if (!failed && x->object && whole)
        failed |= json_object_set(o, "execution", x->object);
    if (!failed && x->back.done && !x->object)
        failed |= json_object_set_new(o, "error", error_of(&x->error));
    if (!failed && x->hook.outcome)
        failed |= json_object_set(o, "webhook", x->hook.outcome);
    return json_whole(o, failed);
}

// ---- its output ---------------------------------------------------------------------------------

static int add_segment(struct execution *x, enum run_stream stream)
{
    struct segment *last = x->count ? &x->segments[x->count - 1] : NULL;
    if (last && (last->stream == stream || x->count == SEGMENTS_MAX))
        last->end = x->length;
    else
        x->segments[x->count++] = (struct segment){stream, x->length};
    return 0;
}

// What came since the last time; with `all` also the beginning of a character that was never ended.
static int take(struct execution *x, enum run_stream stream, struct evbuffer *data, bool all)
{
    size_t total = evbuffer_get_length(data);
    size_t fresh = total - x->logged[stream];
    struct evbuffer_ptr from;
    if (total <= x->logged[stream])
        return 0;
    if (fresh > x->size - x->length) {
        size_t size = (x->length + fresh) * 2; // bounded by the output limit
        char *grown = realloc(x->log, size);
        if (!grown)
            return -1;
        x->log = grown;
        x->size = size;
    }
    if (evbuffer_ptr_set(data, &from, x->logged[stream], EVBUFFER_PTR_SET) < 0 ||
        evbuffer_copyout_from(data, &from, x->log + x->length, fresh) != (ev_ssize_t)fresh)
        return -1;
    size_t whole = all ? fresh : ndjson_whole(x->log + x->length, fresh);
    x->logged[stream] += whole;
    x->length += whole;
    return whole ? add_segment(x, stream) : 0;
}

// Sends the next piece of the log.  False: there is none.
static bool send_piece(struct execution_watch *w)
{
    const struct execution *x = w->of;
    size_t i = 0, size = 0;
    if (w->at >= x->length)
        return false;
    while (x->segments[i].end <= w->at)
        i++;
    size_t length = x->segments[i].end - w->at;
    if (length > PIECE)
        length = ndjson_whole(x->log + w->at, PIECE);
    char tail[96];
    w->at += length;
    snprintf(tail, sizeof tail, "\",\"stream\":\"%s\",\"offset\":%zu}",
             stream_names[x->segments[i].stream], w->at);
    char *text = dump_around("{\"text\":\"", x->log + w->at - length, length, tail, &size);
    if (text)
        lines_write_text(&w->lines, w->call, "output", text, size);
    else
        lines_cut(w->call);
    return true;
}

static bool send_end(struct execution_watch *w)
{
    const struct execution *x = w->of;
    if (!w->messages)
        w->messages =
            x->object ? ndjson_messages(x->object) : ndjson_refusal(x->back.id, &x->error);
    if (w->next >= json_array_size(w->messages))
        return false;
    json_t *message = json_array_get(w->messages, w->next++);
    lines_write(&w->lines, w->call, lines_event(message), message);
    return true;
}

// SECURITY: nothing is written ahead of a client that does not read.
static void pump(struct execution_watch *w)
{
    struct rest_call *c = w->call;
    while (c->x && http_stream_backlog(c->x) < BACKLOG) {
        if (send_piece(w) || (w->of->back.done && send_end(w)))
            continue;
        if (w->of->back.done)
            lines_end(&w->lines, c); // and w
        return;
    }
}

static void on_drained(struct http_exchange *x)
{
    struct rest_call *c = x->work;
    if (c && c->watch)
        pump(c->watch);
}

static void on_alive(void *argument)
{
    struct execution_watch *w = argument;
    (void)timer_set(&w->timer, w->of->rest->gate->base, LINES_ALIVE_S * 1000, on_alive, w);
    lines_alive(&w->lines, w->call);
}

static int on_output(struct exec *e, enum run_stream stream, struct evbuffer *data)
{
    struct execution *x = e->request.argument;
    struct execution_watch *w, *next;
    if (!x)
        return 0;
    if (take(x, stream, data, false) < 0)
        return -1;
    for (w = TAILQ_FIRST(&x->watches); w; w = next) {
        next = TAILQ_NEXT(w, list);
        if (w->reads)
            pump(w);
    }
    return 0;
}

// ---- its life -----------------------------------------------------------------------------------

static void answer_state(struct rest_call *c, const struct execution *x)
{
    json_t *state = state_of(x, true);
    rest_watch_free(c->watch);
    rest_answer(c, 200, state);
}

static void on_done(struct exec *e)
{
    struct execution *x = e->request.argument;
    struct execution_watch *w, *next;
    if (!x)
        return;
    x->exec = NULL;
    x->took_us = clock_us() - x->begin_us;
    x->error = e->error;
    for (int i = 0; e->run && i < RUN_STREAMS; i++)
        (void)take(x, (enum run_stream)i, e->run->output[i], true);
    x->object = e->error.message[0] ? NULL : exec_json(e);
    if (!x->object && !x->error.message[0])
        (void)err_set(&x->error, ERR_SYSTEM, 0, "run it again later, or print less",
                      "the server is out of memory for the result");
    exec_free(e);
    release_body(x);
    background_end(&x->back);
    json_t *state = state_of(x, true);
    if (x->hook.url)
        webhook_call(&x->hook, x->back.id, state);
    json_decref(state);
    for (w = TAILQ_FIRST(&x->watches); w; w = next) {
        next = TAILQ_NEXT(w, list);
        if (w->reads)
            pump(w);
        else
            answer_state(w->call, x);
    }
}

static int prepare(struct rest_call *c, struct execution *x, struct exec_request *q, struct err *e)
{
    struct gate *g = c->rest->gate;
    if (execute_read(g, c->owner, c->body, EXECUTE_RUN, q, e) < 0 ||
        webhook_read(&x->hook, g, x->back.owner, c->body, e) < 0 ||
        admission_check(g, c->owner, e) < 0 || background_admit(g, c->owner, e) < 0)
        return -1;
    return 0;
}

void rest_post_execution(struct rest_call *c)
{
    _cleanup_(exec_request_clear) struct exec_request request = {0};
    struct execution *x = calloc(1, sizeof *x);
    struct err e = {.code = ERR_SYSTEM};
    if (!x) {
        rest_answer(c, 503, NULL);
        return;
    }
    x->rest = c->rest;
    x->back = (struct background){.gate = c->rest->gate, .drop = drop};
    TAILQ_INIT(&x->watches);
    memcpy(x->back.owner, c->owner, sizeof x->back.owner);
    bool fits = prepare(c, x, &request, &e) == 0;
    bool named = fits && request.session && request.session[0];
    if (!fits || (named && rest_check_session(c, request.session) < 0)) {
        webhook_done(&x->hook);
        free(x);
        if (!fits)
            rest_fail_err(c, &e);
        return;
    }
    x->plan = c->plan;
    x->begin_us = clock_us();
    text_format_time((int64_t)time(NULL) * 1000, x->created_at);
    request.plan = named && !session_is_id(request.session) ? &x->plan : NULL;
    request.owner = x->back.owner;
    request.on_output = on_output;
    request.on_done = on_done;
    request.argument = x;
    if (background_add(&x->back) < 0 || !(x->exec = exec_start(c->rest->gate, &request))) {
        webhook_done(&x->hook);
        if (c->rest->gate->backgrounds)
            background_remove(&x->back);
        free(x);
        rest_answer(c, 503, NULL);
        return;
    }
    memcpy(x->back.id, x->exec->id, sizeof x->back.id);
    x->body = TAKE_PTR(c->body); // the request borrows from it
    x->body_bytes = c->body_bytes;
    c->body_bytes = 0;
    char location[128];
    snprintf(location, sizeof location, REST_BASE "/executions/%s", x->back.id);
    if (c->x)
        http_add_header(c->x, "Location", location);
    rest_answer(c, 202, state_of(x, true));
}

// NULL: answered.  SECURITY: an id of another key is answered like one that never was.
static struct execution *find(struct rest_call *c)
{
    struct background *b = background_find(c->rest->gate, c->owner, c->id, drop);
    if (!b)
        rest_fail(c, 404, "execution_not_found",
                  "use the execution_id that POST /api/v1/executions returned; a result is kept "
                  "for an hour, and for fewer when many follow",
                  "there is no background execution with this id");
    return (struct execution *)b;
}

void rest_list_executions(struct rest_call *c)
{
    json_t *list = json_array();
    struct background *b = NULL;
    while ((b = background_next(c->rest->gate, c->owner, b, drop)))
        (void)json_array_append_new(list, state_of((struct execution *)b, false));
    rest_answer(
        c, 200,
        json_pack("{s:o, s:I}", "executions", list, "total", (json_int_t)json_array_size(list)));
}

static struct execution_watch *watch(struct rest_call *c, struct execution *x)
{
    struct execution_watch *w = x->watching < EXECUTION_WATCHERS_MAX ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        rest_fail(c, 503, err_code_name(ERR_BUSY), "try again when one of them has ended",
                  "%d calls wait for this execution already", EXECUTION_WATCHERS_MAX);
        return NULL;
    }
    w->of = x;
    w->call = c;
    c->watch = w;
    x->watching++;
    TAILQ_INSERT_TAIL(&x->watches, w, list);
    return w;
}

static void on_waited(void *argument)
{
    struct execution_watch *w = argument;
    answer_state(w->call, w->of);
}

void rest_get_execution(struct rest_call *c)
{
    uint64_t wait_ms = 0;
    struct execution *x = find(c);
    if (!x || rest_query_seconds(c, "wait", REST_EXECUTION_WAIT_S, &wait_ms) < 0)
        return;
    if (x->back.done || wait_ms == 0) {
        rest_answer(c, 200, state_of(x, true));
        return;
    }
    struct execution_watch *w = watch(c, x);
    if (w && !timer_set(&w->timer, c->rest->gate->base, wait_ms, on_waited, w))
        answer_state(c, x);
}

void rest_read_execution(struct rest_call *c)
{
    char text[24], *end = text;
    struct execution *x = find(c);
    int given = x ? rest_query(c, "offset", text, sizeof text) : -1;
    if (given < 0)
        return;
    unsigned long long offset = given ? strtoull(text, &end, 10) : 0;
    if (given && (text[0] < '0' || text[0] > '9' || *end || offset > x->length)) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "use the 'offset' of the last line",
                  "the query parameter 'offset' must be a number from 0 to %zu: so many bytes of "
                  "output there are",
                  x->length);
        return;
    }
    struct execution_watch *w = watch(c, x);
    if (!w)
        return;
    w->reads = true;
    w->at = (size_t)offset;
    lines_init(&w->lines, c->x);
    c->x->on_drained = on_drained;
    lines_begin(&w->lines, c);
    (void)timer_set(&w->timer, c->rest->gate->base, LINES_ALIVE_S * 1000, on_alive, w);
    pump(w);
}

void rest_delete_execution(struct rest_call *c)
{
    struct execution *x = find(c);
    if (!x)
        return;
    bool running = !x->back.done;
    json_t *answer = json_pack("{s:s, s:b, s:b}", "execution_id", x->back.id, "cancelled", running,
                               "deleted", !running);
    if (running)
        exec_cancel(x->exec); // on_done() follows, perhaps at once
    else
        drop(&x->back);
    rest_answer(c, 200, answer);
}
