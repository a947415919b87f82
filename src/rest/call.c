// SPDX-License-Identifier: Apache-2.0
// call: see call.h.  The HTTP server calls rest_handle() for every request below /api/v1, on the
// gate's event loop.

#include "rest/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "exec/exec_sandbox.h"
#include "http/problem.h"
#include "rest/batch.h"
#include "rest/environments.h"
#include "rest/keys.h"
#include "rest/metrics.h"
#include "rest/ndjson.h"
#include "run/rate.h"
#include "json/dump.h"
#include "json/quick_json.h"

enum {
    BODY_BYTES_MAX = 256 << 20, // bytes of bodies in memory, of all calls
    ALONE_MAX = 16,             // calls of one caller that go on without their client
    ALONE_BYTES = 32 << 20,     // of their bodies
    LOOK_MS = 5,                // between looks at a session that another call opens
    WATCH_MS = 200,             // the same for our own, which may be closed before it is open
    OPENING_MS = 30 * 1000,     // longest wait for a session to open
    RETRY_AFTER_S = 1,
};

// ---- answers ------------------------------------------------------------------------------------

void rest_free(struct rest_call *c)
{
    if (!c)
        return;
    TAILQ_REMOVE(&c->rest->calls, c, list);
    if (c->x) {
        c->x->work = NULL;
        c->x->on_close = NULL;
    }
    if (c->op)
        scratch_cancel(c->op);
    check_free(c->check);
    if (c->visit)
        session_visit_cancel(c->visit);
    timer_stop(&c->timer);
    ndjson_free(c->stream);
    rest_job_free(c->job);
    batch_free(c->batch);
    rest_watch_free(c->watch);
    keys_leave(c);
    if (c->key)
        keys_drop(TAKE_PTR(c->key));
    rest_moving_free(c->moving);
    rest_download_free(c->download);
    rest_upload_free(c->upload);
    json_decref(c->body);
    json_decref(c->network);
    json_decref(c->look_asked);
    json_decref(c->compared);
    if (c->asks_boxes)
        metrics_forget(c);
    c->rest->body_bytes -= c->body_bytes;
    free(c);
}

void rest_drop_body(struct rest_call *c)
{
    json_decref(TAKE_PTR(c->body));
    c->rest->body_bytes -= c->body_bytes;
    c->body_bytes = 0;
    http_body_done(c->x);
}

struct http_exchange *rest_let_go(struct rest_call *c)
{
    struct http_exchange *x = TAKE_PTR(c->x);
    if (x) {
        x->work = NULL;
        x->on_close = NULL;
        x->on_drained = NULL;
        x->on_body = NULL;
    }
    return x;
}

bool rest_is_wanted(const struct rest_call *c)
{
    return c->x || c->key;
}

// Stores the answer for a call that repeats this one.
static void note_answer(struct rest_call *c, int status, const char *type, json_t *body)
{
    struct rest_key *key = TAKE_PTR(c->key);
    _cleanup_free_ char *text = key && body ? dump_text(body) : NULL;
    if (!key)
        return;
    if (!text) {
        keys_drop(key);
        return;
    }
    keys_begin(key, status, type);
    keys_note(key, text, strlen(text));
    keys_end(key);
}

void rest_answer(struct rest_call *c, int status, json_t *body)
{
    const char *path = c->x ? c->x->path : REST_BASE "/";
    bool problem = status >= 400 && problem_is_for(path) && problem_dress(body, status, path);
    note_answer(c, status, problem ? PROBLEM_TYPE : "application/json", body);
    struct http_exchange *x = rest_let_go(c);
    if (x && body) {
        http_add_header(x, "Cache-Control", "no-store");
        if (problem)
            http_add_header(x, "Content-Type", PROBLEM_TYPE);
        http_reply_json(x, status, body);
    } else if (x) {
        http_reply_error(x, 503, err_code_name(ERR_SYSTEM), "try again later",
                         "the server is out of memory");
    }
    json_decref(body);
    rest_free(c);
}

static void fail(struct rest_call *c, int status, json_t *error)
{
    char seconds[16];
    if (c->x && (status == 503 || status == 429)) {
        snprintf(seconds, sizeof seconds, "%u",
                 status == 503 ? RETRY_AFTER_S
                               : rates_wait_s(c->rest->gate->rates, c->owner, clock_us()));
        http_add_header(c->x, "Retry-After", seconds);
    }
    rest_answer(c, status, error ? json_pack("{s:o}", "error", error) : NULL);
}

static json_t *error_json(const char *code, const char *message, const char *hint)
{
    return json_pack("{s:s, s:s, s:s*}", "code", code, "message", message, "hint",
                     hint && hint[0] ? hint : NULL);
}

void rest_fail(struct rest_call *c, int status, const char *code, const char *hint, const char *fmt,
               ...)
{
    char message[ERR_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    text_sanitize(message); // a cut may have left half a character
    fail(c, status, error_json(code, message, hint));
}

int rest_status(const struct err *e)
{
    static const struct {
        enum err_code code;
        int status;
    } by_code[] = {
        {ERR_USAGE, 400},
        {ERR_BAD_VALUE, 400},
        {ERR_UNKNOWN_OPTION, 400},
        {ERR_NETWORK_NOT_ALLOWED, 403},
        {ERR_SOURCE_NUL, 400},
        {ERR_SOURCE_ENCODING, 400},
        {ERR_SOURCE_TOO_LARGE, 413},
        {ERR_SESSION_UNKNOWN, 404},
        {ERR_SESSION_ENDED, 409},
        {ERR_SESSION_BUSY, 409},
        {ERR_CONFLICT, 409},
        {ERR_ENV_UNKNOWN, 404},
        {ERR_ENV_BUSY, 409},
        {ERR_ENV_EXISTS, 409},
        {ERR_JOB_UNKNOWN, 404},
        {ERR_BAD_REQUIREMENT, 400},
        {ERR_PACKAGE_DENIED, 403},
        {ERR_INSTALL, 409},
        {ERR_RESTRICTED, 409}, // about installed packages: waiting does not help
        {ERR_QUOTA, 507},
        {ERR_DISK_FULL, 507},
        {ERR_INTERPRETER, 503},
        {ERR_ZYGOTE, 503},
        {ERR_LAYER_MISSING, 503},
        {ERR_BOX_SETUP, 503},
        {ERR_INTERPRETER_TOO_OLD, 503},
        {ERR_BUSY, 503},
        {ERR_RATE, 429},
        {ERR_STATE_FOLDER, 503},
        {ERR_NETWORK, 503},
        {ERR_FILE_PATH, 400},
        {ERR_FILE_UNKNOWN, 404},
        {ERR_FILE_KIND, 409},
        {ERR_FILE_REFUSED, 409},
        {ERR_FILE_TOO_LARGE, 413},
        {ERR_FILE_TIMEOUT, 503},
    };
    for (size_t i = 0; i < ARRAY_LEN(by_code); i++)
        if (by_code[i].code == e->code)
            return by_code[i].status;
    return 500;
}

void rest_fail_err(struct rest_call *c, const struct err *e)
{
    // The hint names tools of MCP: say it in requests of this API.
    const char *hint = e->code == ERR_SESSION_UNKNOWN
                           ? "open one with POST /api/v1/sessions, or look at GET /api/v1/sessions"
                           : e->hint;
    rest_fail(c, rest_status(e), err_code_name(e->code), hint, "%s", e->message);
}

void rest_fail_session(struct rest_call *c, const char *text, const struct err *e)
{
    int64_t when_ms = 0;
    char when[TEXT_TIME_MAX];
    enum session_end end = session_why_ended(c->rest->gate, c->owner, text, &when_ms);
    bool lost = end == SESSION_OPEN && e->code == ERR_SESSION_ENDED; // before this server started
    if (end == SESSION_OPEN && !lost) {
        rest_fail_err(c, e);
        return;
    }
    text_format_time(when_ms, when);
    json_t *error = error_json(err_code_name(ERR_SESSION_ENDED), e->message, e->hint);
    if (error)
        (void)json_object_update_new(error, json_pack("{s:s, s:s*}", "reason",
                                                      session_end_codes[lost ? SESSION_LOST : end],
                                                      "ended_at", lost ? NULL : when));
    fail(c, 409, error);
}

// ---- the request --------------------------------------------------------------------------------

static bool is_json(const struct http_exchange *x)
{
    const char *type = http_header(x, "Content-Type");
    size_t n = type ? strcspn(type, "; \t") : 0;
    return n == 16 && strncasecmp(type, "application/json", 16) == 0;
}

// Counts the calls of the same caller and the bytes of their bodies; with `alone` only the calls
// that go on without their client.
static size_t bytes_of_owner(const struct rest_call *c, bool alone, unsigned *ret_count)
{
    const struct rest_call *other;
    size_t bytes = 0;
    *ret_count = 0;
    TAILQ_FOREACH (other, &c->rest->calls, list)
        if ((!alone || !other->x) && strcmp(other->owner, c->owner) == 0) {
            bytes += other->body_bytes;
            ++*ret_count;
        }
    return bytes;
}

// SECURITY: one caller gets at most half of it, or it could shut out all others.
static bool has_room(const struct rest_call *c, size_t length)
{
    unsigned ignored;
    size_t all = c->rest->body_bytes + length;
    return all <= BODY_BYTES_MAX &&
           (all <= BODY_BYTES_MAX / 2 ||
            bytes_of_owner(c, false, &ignored) + length <= BODY_BYTES_MAX / 2);
}

static int check_bounds(struct rest_call *c, const char *data, size_t length)
{
    switch (quick_json_measure(data, length, QUICK_JSON_VALUES_MAX, QUICK_JSON_DEPTH_MAX)) {
    case QUICK_JSON_FITS: return 0;
    case QUICK_JSON_TOO_DEEP:
        rest_fail(c, 400, "bad_json", "send flat values, or text that the code reads as JSON",
                  "the JSON of the body is nested deeper than %d levels", QUICK_JSON_DEPTH_MAX);
        break;
    case QUICK_JSON_TOO_MANY:
        rest_fail(
            c, 413, "too_many_values",
            "send data as a file of the session, or as text that the code reads; or send less "
            "at once",
            "the body has more than %d JSON values", QUICK_JSON_VALUES_MAX);
        break;
    }
    return -1;
}

// Reads and checks a JSON body.  -1: answered.
static int read_json(struct rest_call *c)
{
    size_t length;
    const char *data = http_body(c->x, &length);
    struct rest *rest = c->rest;
    json_error_t fault;
    struct err e;
    if (length == 0 && c->route->body == BODY_JSON_OPTIONAL)
        return (c->body = json_object()) ? 0 : (rest_answer(c, 503, NULL), -1);
    if (!is_json(c->x)) {
        rest_fail(c, 415, "unsupported_media_type",
                  "send the header Content-Type: application/json",
                  "the body of this request must be JSON");
        return -1;
    }
    if (!has_room(c, length)) {
        rest_fail(c, 503, err_code_name(ERR_BUSY), "try again later",
                  "the server works on too many large requests");
        return -1;
    }
    if (check_bounds(c, data, length) < 0)
        return -1;
    c->body = quick_json_load(data, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    if (!c->body && json_error_code(&fault) == json_error_numeric_overflow) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE),
                  "send it as a string, and convert it in the code",
                  "a number is too large (line %d, column %d): whole numbers have at most 64 bits, "
                  "others are at most 1.8e308",
                  fault.line, fault.column);
        return -1;
    }
    if (!c->body) {
        rest_fail(c, 400, "bad_json", "send one JSON object in UTF-8",
                  "the body is not JSON: line %d, column %d: %s", fault.line, fault.column,
                  fault.text);
        return -1;
    }
    c->body_bytes = length;
    rest->body_bytes += length;
    if (fields_check(FIELDS(c->route->fields), rest->config, c->body, &e) == 0)
        return 0;
    rest_fail_err(c, &e);
    return -1;
}

// SECURITY: connections do not bound the calls that have no client any more, and each has a box and
// a body in memory.
static bool may_go_on_alone(const struct rest_call *c)
{
    unsigned count; // this call included
    size_t bytes = bytes_of_owner(c, true, &count);
    return count <= ALONE_MAX && bytes <= ALONE_BYTES;
}

// The client is gone.
static void on_close(struct http_exchange *x)
{
    struct rest_call *c = x->work;
    c->x = NULL;
    if (c->key && may_go_on_alone(c))
        return; // see keys.h
    // A call that runs is cancelled and keeps its key: a repetition gets that answer, not a second
    // run.
    if (c->key && !c->exec)
        keys_drop(TAKE_PTR(c->key));
    if (c->batch)
        batch_cancel(c->batch);
    else if (c->exec && c->exec->request.look)
        return; // it ends soon; cancelling it would interrupt the session
    else if (c->exec)
        exec_cancel(c->exec); // on_done() follows, perhaps at once, and frees the call
    else if (!c->opening[0])  // else on_opened() does
        rest_free(c);
}

// Answers a request that has no route.
static void refuse(struct rest_call *c, enum route_found found, unsigned allow)
{
    char text[64];
    switch (found) {
    case ROUTE_METHOD:
        http_format_allow(allow, text, sizeof text);
        http_add_header(c->x, "Allow", text);
        rest_fail(c, 405, "method_not_allowed", "see the header Allow",
                  "this path does not support this method");
        return;
    case ROUTE_ENCODING:
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "encode the path as UTF-8 with %XX",
                  "the path is badly encoded or has a control character");
        return;
    case ROUTE_TOO_LONG:
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "use a shorter one",
                  "a name of a session may have %d characters, the path of a file %d bytes",
                  SESSION_NAME_CHARACTERS, SCRATCH_PATH_MAX);
        return;
    case ROUTE_FOUND:
    case ROUTE_UNKNOWN: break;
    }
    rest_fail(c, 404, "not_found", "see " REST_BASE "/openapi.json for all paths",
              "this path does not exist");
}

void rest_handle(struct http_exchange *x, void *argument)
{
    const struct rest_mount *mount = argument;
    struct rest *rest = mount->rest;
    struct rest_call *c = calloc(1, sizeof *c);
    struct route_match m;
    struct err e;
    unsigned allow;
    if (!c) {
        http_reply_error(x, 503, err_code_name(ERR_SYSTEM), "try again later",
                         "the server is out of memory");
        return;
    }
    *c = (struct rest_call){.rest = rest, .x = x};
    TAILQ_INSERT_TAIL(&rest->calls, c, list);
    x->work = c;
    x->on_close = on_close;
    snprintf(c->owner, sizeof c->owner, "%s", x->owner);
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(x->ev));
    enum route_found found =
        route_find(&mount->table, x->method, path ? path : "", path ? strlen(path) : 0, &m, &allow);
    if (found != ROUTE_FOUND) {
        refuse(c, found, allow);
        return;
    }
    c->route = x->sends_lines ? route_of_lines(m.route) : m.route;
    memcpy(c->id, m.id, sizeof c->id);
    memcpy(c->job_id, m.job, sizeof c->job_id);
    if (m.path[0] && scratch_path(m.path, strlen(m.path), c->path, &e) < 0) {
        rest_fail_err(c, &e);
        return;
    }
    if (c->route->fields && read_json(c) < 0)
        return;
    // After the checks: malformed requests get 4xx before the key is looked at.
    if (c->route->keyed && !keys_enter(rest->keys, c))
        return;
    if (c->route->fields)
        http_body_done(c->x);
    c->route->handle(c);
}

// ---- sessions -----------------------------------------------------------------------------------

// A session that is closed before it is open reports nothing, so look at it from time to time.
static void on_watch(void *argument)
{
    struct rest_call *c = argument;
    struct err e;
    if (session_find(c->rest->gate, c->owner, c->opening, &e)) {
        (void)timer_set(&c->timer, c->rest->gate->base, WATCH_MS, on_watch, c);
        return;
    }
    char id[SESSION_ID_SIZE];
    memcpy(id, c->opening, sizeof id);
    c->opening[0] = '\0';
    if (rest_is_wanted(c))
        rest_fail_session(c, id, &e);
    else
        rest_free(c);
}

static void on_opened(struct session *s, const struct err *error, void *argument)
{
    struct rest_call *c = argument;
    c->opening[0] = '\0';
    timer_stop(&c->timer);
    if (!rest_is_wanted(c)) {
        if (s && !s->plan.name[0])
            session_close(s, SESSION_CLOSED); // the client never got its handle
        rest_free(c);
    } else if (!s)
        rest_fail_err(c, error);
    else
        c->then(c, s);
}

void rest_open_session(struct rest_call *c, void (*then)(struct rest_call *, struct session *))
{
    struct err e;
    c->then = then;
    struct session *s = session_open(c->rest->gate, c->owner, &c->plan, on_opened, c, &e);
    if (!s && e.code == ERR_BAD_VALUE) { // the plan is valid, so the name is taken
        rest_fail(c, 409, "session_exists", e.hint, "%s", e.message);
        return;
    }
    if (!s) {
        rest_fail_err(c, &e);
        return;
    }
    memcpy(c->opening, s->id, sizeof c->opening);
    (void)timer_set(&c->timer, c->rest->gate->base, WATCH_MS, on_watch, c);
}

static void find_session(struct rest_call *c, bool create);

static void on_look(void *argument)
{
    find_session(argument, false);
}

static void find_session(struct rest_call *c, bool create)
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (s && s->state == SESSION_OPENING && clock_ms() < c->until_ms) {
        (void)timer_set(&c->timer, c->rest->gate->base, LOOK_MS, on_look, c);
    } else if (s && s->state == SESSION_OPENING) {
        rest_fail(c, 503, err_code_name(ERR_BUSY), "try again later",
                  "the session is still being opened");
    } else if (s) {
        timer_stop(&c->timer);
        c->then(c, s);
    } else if (create && !session_is_id(c->id)) {
        if (rest_make_plan(c, c->id) == 0)
            rest_open_session(c, c->then);
    } else {
        rest_fail_session(c, c->id, &e);
    }
}

void rest_with_session(struct rest_call *c, bool create,
                       void (*then)(struct rest_call *, struct session *))
{
    c->then = then;
    c->until_ms = clock_ms() + OPENING_MS;
    find_session(c, create);
}

static void on_visit(struct session *s, const struct err *error, void *argument)
{
    struct rest_call *c = argument;
    c->visit = NULL;
    if (s)
        c->look(c, s);
    else
        rest_fail_err(c, error);
}

static void visit(struct rest_call *c, struct session *s)
{
    struct session_visit *v = session_visit(s, on_visit, c);
    if (v) // else the call may be freed
        c->visit = v;
}

void rest_with_files(struct rest_call *c, bool create,
                     void (*then)(struct rest_call *, struct session *))
{
    c->look = then;
    rest_with_session(c, create, visit);
}

int rest_make_plan(struct rest_call *c, const char *name)
{
    struct session_plan *plan = &c->plan;
    json_t *memory = field_get(c->body, "memory_mb", NULL);
    struct err e;
    session_plan_init(c->rest->gate, plan);
    plan->network = c->network;
    if (name && !session_is_handle(name) && session_check_name(name, strlen(name), &e) < 0) {
        rest_fail_err(c, &e);
        return -1;
    }
    snprintf(plan->name, sizeof plan->name, "%s", name ? name : "");
    if (memory)
        plan->limits.memory_bytes = (uint64_t)json_number_value(memory) * TEXT_MIB;
    if (exec_read_isolation(c->rest->gate->facts->config,
                            json_string_value(field_get(c->body, "isolation", NULL)),
                            &plan->limits.isolation, &e) < 0) {
        rest_fail_err(c, &e);
        return -1;
    }
    return 0;
}

int rest_query(struct rest_call *c, const char *name, char *buf, size_t cap)
{
    size_t n = strlen(name);
    for (const char *p = c->x->query; *p;) {
        size_t length = strcspn(p, "&");
        if (length >= n && strncmp(p, name, n) == 0 && (p[n] == '=' || length == n)) {
            if (http_query(c->x, name, buf, cap) && buf[0])
                return 1;
            rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "encode it as UTF-8 with %XX",
                      "the query parameter '%s' is empty, too long or badly encoded", name);
            return -1;
        }
        p += length + (p[length] == '&');
    }
    return 0;
}

int rest_query_number(struct rest_call *c, const char *name, uint64_t least, uint64_t most,
                      uint64_t *ret)
{
    char text[24];
    int given = rest_query(c, name, text, sizeof text);
    uint64_t value = 0;
    if (given <= 0)
        return given;
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits && i < 18; i++)
        value = 10 * value + (uint64_t)(text[i] - '0');
    if (digits && digits <= 18 && !text[digits] && value >= least && value <= most) {
        *ret = value;
        return 1;
    }
    rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "give a whole number",
              "the query parameter '%s' must be a whole number from %llu to %llu", name,
              (unsigned long long)least, (unsigned long long)most);
    return -1;
}

int rest_query_seconds(struct rest_call *c, const char *name, unsigned most, uint64_t *ret_ms)
{
    char text[64];
    int given = rest_query(c, name, text, sizeof text);
    if (given <= 0)
        return given;
    json_auto_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    double seconds = json_is_number(value) ? json_number_value(value) : -1;
    if (seconds >= 0 && seconds <= most) {
        *ret_ms = (uint64_t)(seconds * 1000 + 0.5);
        return 1;
    }
    rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "give a number of seconds",
              "the query parameter '%s' must be a number from 0 to %u", name, most);
    return -1;
}

// 1: "true" or "1"; 0: "false", "0" or nothing; -1: answered.
int rest_query_switch(struct rest_call *c, const char *name)
{
    char text[8];
    int given = rest_query(c, name, text, sizeof text);
    if (given <= 0)
        return given;
    if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
        return 1;
    if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
        return 0;
    rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "write true or false",
              "the query parameter '%s' is neither true nor false", name);
    return -1;
}
