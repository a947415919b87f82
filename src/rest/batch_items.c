// SPDX-License-Identifier: Apache-2.0
//
// batch_items: the items of a batch: what each of them says, what it inherits, and how they come as
// lines; see batch.h.  Part of batch.c; runs in the gate.  SECURITY: a line is hostile, and may
// never end.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/code_policy.h"
#include "exec/execute.h"
#include "rest/batch_internal.h"
#include "rest/call.h"
#include "json/quick_json.h"
#include "json/whole.h"

enum {
    WALL_FACTOR = 10, // wall time for each second of processor time
    LINE_MAX_BYTES = 4 * 1024 * 1024,
    READ_PIECE = 64 * 1024,
};

// ---- what an item says ----------------------------------------------------------------------

// The fields of one run: its test's, its item's, then those of the batch; new.
json_t *batch_view(json_t *body, json_t *item, json_t *test)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(EXECUTE_FIELDS(EXECUTE_BATCH));
    json_t *o = json_object();
    bool own = field_get(item, "environment", NULL) || field_get(item, "packages", NULL);
    json_t *reads = field_get(test, "stdin", "stdin_base64")   ? test
                    : field_get(item, "stdin", "stdin_base64") ? item
                                                               : body;
    int failed = !o || json_object_set(o, "code", json_object_get(item, "code"));
    while (!failed && (f = field_next(&w))) {
        bool packages = f->into == INTO_ENVIRONMENT || f->into == INTO_PACKAGES;
        bool input = f->into == INTO_STDIN || f->into == INTO_STDIN_BASE64;
        json_t *value = field_get(input ? reads : item, f->name, NULL);
        if (!value && !input && !(packages && own)) // they exclude each other
            value = field_get(body, f->name, NULL);
        if (value)
            failed = json_object_set(o, f->name, value);
    }
    return json_whole(o, failed);
}

// A field of a test, of its item, or of the batch.
json_t *batch_inherit(struct batch *b, const struct batch_run *s, const char *name)
{
    json_t *value = field_get(s->test, name, NULL);
    if (!value)
        value = field_get(s->item, name, NULL);
    return value ? value : field_get(b->call->body, name, NULL);
}

// A batch keeps all cores busy, so wall time says little of a program: `timeout` bounds its
// processor time, and the wall time is a multiple.  A caller who gives both means both.
static void set_times(const struct config *c, struct exec_request *q)
{
    uint64_t most = c->timeout_max_ms > c->wall_ms ? c->timeout_max_ms : c->wall_ms;
    if (q->wall_ms && q->cpu_ms)
        return;
    uint64_t time_ms = q->cpu_ms ? q->cpu_ms : q->wall_ms ? q->wall_ms : c->wall_ms;
    if (!q->cpu_ms)
        q->cpu_ms = c->cpu_ms && c->cpu_ms < time_ms ? c->cpu_ms : time_ms;
    q->wall_ms = time_ms * WALL_FACTOR < most ? time_ms * WALL_FACTOR : most;
}

// Fills in a request from the fields.  0, or a negative code and `e`; the caller clears it in any
// case.
int batch_read_request(struct rest_call *c, json_t *fields, struct exec_request *ret, struct err *e)
{
    int r = execute_read(c->rest->gate, c->owner, fields, EXECUTE_ITEM | EXECUTE_BATCH, ret, e);
    if (r == 0)
        set_times(c->rest->config, ret);
    return r;
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

// Every test compares with something.
static int check_tests(struct rest_call *c, json_t *item, struct err *e)
{
    json_t *test, *tests = field_get(item, "tests", NULL);
    bool checked = field_get(item, "checker", NULL) || field_get(c->body, "checker", NULL);
    size_t i;
    json_array_foreach (tests, i, test)
        if (!checked && !field_get(test, "expected", NULL) && !field_get(test, "checker", NULL))
            return err_set(e, ERR_BAD_VALUE, 0, "say what the program has to print",
                           "field 'tests[%zu]' has neither 'expected' nor 'checker'", i);
    return 0;
}

static int check_item(struct rest_call *c, json_t *item, struct err *e)
{
    _cleanup_(exec_request_clear) struct exec_request request = {0};
    json_t *id = field_get(item, "id", NULL);
    json_auto_t *fields = batch_view(c->body, item, NULL);
    int r = 0;
    if (id && strlen(json_string_value(id)) != json_string_length(id))
        r = err_set(e, ERR_BAD_VALUE, 0, "remove it", "the id has a NUL character");
    else if (!fields)
        r = err_memory(e);
    else if ((r = batch_read_request(c, fields, &request, e)) == 0 &&
             (r = check_policy(c, item, &request, e)) == 0)
        r = check_tests(c, item, e);
    return r;
}

// Checks all items before the first one runs.  -1: answered.
int batch_check_items(struct rest_call *c, json_t *items)
{
    size_t i;
    json_t *item, *ids = json_object();
    struct err e = {.code = ERR_SYSTEM};
    int r = ids ? 0 : err_memory(&e);
    json_array_foreach (items, i, item) {
        const char *id = json_string_value(field_get(item, "id", NULL));
        if (r < 0)
            break;
        r = check_item(c, item, &e);
        if (r == 0 && id && json_object_get(ids, id))
            r = err_set(&e, ERR_CONFLICT, 0, "give every item an id of its own, or none",
                        "an earlier item has the same id");
        if (r == 0 && id)
            (void)json_object_set_new(ids, id, json_true());
        if (r < 0)
            (void)err_wrap(&e, "field 'items[%zu]'", i);
    }
    json_decref(ids);
    if (r < 0)
        rest_fail_err(c, &e);
    return r < 0 ? -1 : 0;
}

// ---- items that come as lines -------------------------------------------------------------------

// Reads more of the body.  False: nothing has arrived, or the body is over.
static bool read_more(struct batch *b)
{
    struct http_exchange *x = b->call->x;
    if (b->line_at) {
        b->line_length -= b->line_at;
        memmove(b->line, b->line + b->line_at, b->line_length);
        b->line_at = 0;
    }
    if (b->line_size - b->line_length < READ_PIECE) {
        char *grown = realloc(b->line, b->line_length + 2 * READ_PIECE);
        if (!grown) {
            b->over = true;
            return false;
        }
        b->line = grown;
        b->line_size = b->line_length + 2 * READ_PIECE;
    }
    size_t n = x ? http_body_read(x, b->line + b->line_length, READ_PIECE) : 0;
    b->line_length += n;
    if (n == 0 && (!x || http_body_ended(x)))
        b->over = true;
    return n > 0;
}

// The next line that is not empty: 1, or 0: none yet or no more; -1: it was too long, and dropped.
static int next_line(struct batch *b, const char **ret, size_t *ret_length)
{
    for (;;) {
        char *begin = b->line + b->line_at;
        size_t have = b->line_length - b->line_at;
        char *end = have ? memchr(begin, '\n', have) : NULL;
        if (!end && !b->over && have <= LINE_MAX_BYTES) {
            if (!read_more(b) && !b->over)
                return 0;
            continue;
        }
        if (!end && have > LINE_MAX_BYTES) { // SECURITY: drops what would not fit
            b->line_at = b->line_length;
            b->too_long = true;
            continue;
        }
        size_t length = end ? (size_t)(end - begin) : have;
        b->line_at += length + (end != NULL);
        if (b->too_long) {
            b->too_long = false;
            return -1;
        }
        while (length && strchr(" \t\r", begin[length - 1]))
            length--;
        *ret = begin;
        *ret_length = length;
        if (length)
            return 1;
        if (b->over && b->line_at >= b->line_length)
            return 0;
    }
}

static json_t *parse_line(struct batch *b, const char *text, size_t length, struct err *e)
{
    json_error_t fault;
    if (quick_json_measure(text, length, QUICK_JSON_VALUES_MAX, QUICK_JSON_DEPTH_MAX) !=
        QUICK_JSON_FITS) {
        (void)err_set(e, ERR_BAD_VALUE, 0, "send less in one line",
                      "the line has too many JSON values, or they are nested too deeply");
        return NULL;
    }
    json_t *item = quick_json_load(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    if (!item)
        (void)err_set(e, ERR_BAD_VALUE, 0, "send one JSON object in each line",
                      "the line is not JSON: column %d: %s", fault.column, fault.text);
    else if (fields_check(FIELDS(batch_item_fields), b->call->rest->config, item, e) == 0 &&
             check_item(b->call, item, e) == 0)
        return item;
    json_decref(item);
    return NULL;
}

// Takes the next item.  1; 0: none is there; -1: the line is none, and `e` says why.
int batch_next_item(struct batch *b, struct err *e)
{
    const char *text;
    size_t length;
    if (b->items) {
        b->now = json_incref(json_array_get(b->items, b->next));
        b->over = b->next + 1 >= json_array_size(b->items);
    } else {
        int r = next_line(b, &text, &length);
        if (r == 0)
            return 0;
        if (r < 0)
            (void)err_set(e, ERR_SOURCE_TOO_LARGE, 0, "send less in one line",
                          "the line is longer than %d bytes", LINE_MAX_BYTES);
        b->now = r > 0 ? parse_line(b, text, length, e) : NULL;
    }
    b->now_index = b->next++;
    b->now_test = 0;
    return b->now ? 1 : -1;
}

// Nothing more will begin.
bool batch_is_over(const struct batch *b)
{
    return b->over && !b->now && (b->items || b->line_at >= b->line_length);
}
