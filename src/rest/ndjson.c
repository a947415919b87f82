// SPDX-License-Identifier: Apache-2.0
//
// ndjson: see ndjson.h.  Used by rest/execute.c in the gate.

#include "rest/ndjson.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/timer.h"
#include "base/utf8.h"
#include "rest/call.h"
#include "rest/lines.h"
#include "run/display.h"
#include "json/dump.h"
#include "json/encode.h"
#include "json/whole.h"

enum {
    SEGMENTS_MAX = 1024, // switches between stdout and stderr that are remembered for a slow client
    CHARACTER_MAX = 4,   // bytes
    TAKEN_FIRST = 1024,  // bytes allocated at first
    TRACEBACK_MAX = 1000,
};

static const char *const stream_names[RUN_STREAMS] = {"stdout", "stderr"};
static const char *const text_tails[RUN_STREAMS] = {"\",\"stream\":\"stdout\"}",
                                                    "\",\"stream\":\"stderr\"}"};

struct segment {
    enum run_stream stream;
    size_t length;
};

// All output of one stream, in one block, because the last line repeats it without a copy.
//   1. sent <= due <= length: bytes that were sent, and bytes whose turn has come.  All due bytes
//      are sent, except an incomplete character at their end.
//   2. The block is ours.  At the end the run gets a reference to it; nothing is added after that,
//      so it does not move.
struct taken {
    unsigned users;
    char *data;
    size_t length, size, sent, due;
};

// A part of the last line: JSON text, or a whole stream as a JSON string.
struct section {
    const char *data;
    size_t length;
    bool is_text;
};

// A last line with much output: it is written as the client takes it, without a second copy of the
// output.
struct last_line {
    char *json; // without the two streams; NULL: not begun
    struct section sections[2 * RUN_STREAMS + 1];
    size_t section, at; // the next section, and how much of it is written
};

struct ndjson {
    struct rest_call *call;
    struct timer alive;
    struct lines lines;
    bool done, given_back;
    struct taken *taken[RUN_STREAMS];
    json_t *question; // to send after the output; NULL: none
    bool lent;        // the last message has "" in place of the output
    json_t *messages; // to send after the output
    size_t next;
    struct last_line last;
    size_t first, count;
    struct segment segments[SEGMENTS_MAX]; // a ring of output that is not due yet; the last member
};

// ---- what came ----------------------------------------------------------------------------------

static void taken_unref(struct taken *t)
{
    if (!t || --t->users)
        return;
    free(t->data);
    free(t);
}

static void on_read(const void *data, size_t length, void *taken)
{
    (void)data;
    (void)length;
    taken_unref(taken);
}

// Appends all of `data`.  0, or -1: memory is out.
static int taken_add(struct taken *t, struct evbuffer *data, size_t length)
{
    if (length > t->size - t->length) {
        size_t size = t->length + length;
        size += size < TAKEN_FIRST ? TAKEN_FIRST : size; // bounded by the output limit of the run
        char *grown = realloc(t->data, size);
        if (!grown)
            return -1;
        t->data = grown;
        t->size = size;
    }
    int n = evbuffer_remove(data, t->data + t->length, length);
    t->length += n > 0 ? (size_t)n : 0;
    return n == (int)length ? 0 : -1;
}

static const char *taken_text(const struct taken *t)
{
    return t->data ? t->data : "";
}

// ---- lines --------------------------------------------------------------------------------------

static void write_line(struct ndjson *n, json_t *message)
{
    lines_write(&n->lines, n->call, lines_event(message), message);
}

static void write_text(struct ndjson *n, enum run_stream stream, const char *data, size_t length)
{
    size_t size = 0;
    char *text = dump_around("{\"text\":\"", data, length, text_tails[stream], &size);
    if (text)
        lines_write_text(&n->lines, n->call, "output", text, size);
    else
        lines_cut(n->call);
}

size_t ndjson_whole(const char *data, size_t length)
{
    // Looks for a lead byte near the end that needs more bytes than there are.
    for (size_t back = 1; back < CHARACTER_MAX && back <= length; back++) {
        unsigned char c = (unsigned char)data[length - back];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t wants = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        return c > 0xf4 || wants <= back ? length : length - back;
    }
    return length;
}

// ---- output -------------------------------------------------------------------------------------

// Remembers the order of the streams; in a full ring only the length.
static void add_segment(struct ndjson *n, enum run_stream stream, size_t length)
{
    for (size_t back = 1; back <= 2 && back <= n->count; back++) {
        struct segment *s = &n->segments[(n->first + n->count - back) % SEGMENTS_MAX];
        if (s->stream == stream && (back == 1 || n->count == SEGMENTS_MAX)) {
            s->length += length;
            return;
        }
    }
    n->segments[(n->first + n->count++) % SEGMENTS_MAX] = (struct segment){stream, length};
}

// Sends the next piece of output as a line.
static void send_piece(struct ndjson *n)
{
    struct segment *s = &n->segments[n->first];
    enum run_stream stream = s->stream;
    struct taken *t = n->taken[stream];
    size_t length = s->length < NDJSON_PIECE ? s->length : NDJSON_PIECE;
    s->length -= length;
    if (s->length == 0) {
        n->first = (n->first + 1) % SEGMENTS_MAX;
        n->count--;
    }
    t->due += length;
    const char *data = t->data + t->sent;
    size_t whole = ndjson_whole(data, t->due - t->sent);
    t->sent += whole;
    if (whole)
        write_text(n, stream, data, whole);
}

// Sends a character that was never completed.
static void send_rest(struct ndjson *n)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        struct taken *t = n->taken[i];
        size_t length = t->due - t->sent;
        t->sent = t->due;
        if (length)
            write_text(n, (enum run_stream)i, t->data + t->due - length, length);
    }
}

// ---- the last line ------------------------------------------------------------------------------

// Memory is out for the long way: puts the output into the object.
static void fill(struct ndjson *n, json_t *object)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        size_t length;
        _cleanup_free_ char *text =
            utf8_clean(taken_text(n->taken[i]), n->taken[i]->length, &length);
        if (!text ||
            json_object_set_new(object, stream_names[i], json_stringn_nocheck(text, length)) < 0)
            lines_cut(n->call);
    }
    n->lent = false;
}

static void begin_last(struct ndjson *n, json_t *message)
{
    struct last_line *l = &n->last;
    json_t *object = json_object_get(message, "execution");
    struct dump_hole holes[RUN_STREAMS];
    size_t length, from = 0;
    for (int i = 0; i < RUN_STREAMS; i++)
        holes[i].value = json_object_get(object, stream_names[i]);
    l->json = dump_text_holes(message, holes, RUN_STREAMS, &length);
    bool good = l->json != NULL;
    for (int i = 0; i < RUN_STREAMS && good; i++) {
        good = holes[i].at >= from && holes[i].at <= length;
        l->sections[2 * i] = (struct section){l->json + from, holes[i].at - from, false};
        l->sections[2 * i + 1] =
            (struct section){taken_text(n->taken[i]), n->taken[i]->length, true};
        from = holes[i].at;
    }
    l->sections[2 * RUN_STREAMS] = (struct section){l->json + from, length - from, false};
    if (!good) {
        free(TAKE_PTR(l->json));
        fill(n, object);
    }
}

// Sends the next part of the last line; every section has at least one.
static void send_part(struct ndjson *n)
{
    struct last_line *l = &n->last;
    const struct section *s = &l->sections[l->section];
    bool is_first = l->at == 0, is_end = s->length - l->at <= NDJSON_PIECE;
    size_t length = is_end ? s->length - l->at : NDJSON_PIECE, size;
    if (s->is_text && !is_end)
        length = ndjson_whole(s->data + l->at, length);
    char *text = s->is_text ? dump_around(is_first ? "\"" : "", s->data + l->at, length,
                                          is_end ? "\"" : "", &size)
                            : malloc(length + 1);
    if (text && !s->is_text)
        memcpy(text, s->data + l->at, size = length);
    unsigned which = (is_first && l->section == 0 ? LINES_FIRST : 0) |
                     (is_end && l->section == ARRAY_LEN(l->sections) - 1 ? LINES_LAST : 0);
    l->at = is_end ? 0 : l->at + length;
    l->section += is_end;
    if (text)
        lines_write_part(&n->lines, n->call, "done", which, text, size);
    else
        lines_cut(n->call);
}

// Sends the next message, or a part of it.  False: there is none.
static bool send_message(struct ndjson *n)
{
    size_t count = json_array_size(n->messages);
    if (n->last.json && n->last.section < ARRAY_LEN(n->last.sections)) {
        send_part(n);
        return true;
    }
    if (n->next >= count)
        return false;
    json_t *message = json_array_get(n->messages, n->next++);
    if (n->lent && n->next == count)
        begin_last(n, message);
    if (!n->last.json)
        write_line(n, message);
    return true;
}

// Sends while the client takes it.
static void pump(struct ndjson *n)
{
    struct rest_call *c = n->call;
    // Without a client it goes to the key of the call, which has its own bound.
    while (c->x ? http_stream_backlog(c->x) < NDJSON_BACKLOG : c->key != NULL) {
        if (n->count) {
            send_piece(n);
            continue;
        }
        if (n->question) {
            write_line(n, n->question);
            json_decref(n->question);
            n->question = NULL;
        }
        if (!n->done)
            return;
        send_rest(n);
        if (send_message(n))
            continue;
        lines_end(&n->lines, c); // and n
        return;
    }
}

static void on_drained(struct http_exchange *x)
{
    struct rest_call *c = x->work;
    if (c && c->stream)
        pump(c->stream);
}

static int take(struct ndjson *n, enum run_stream stream, struct evbuffer *data)
{
    size_t length = evbuffer_get_length(data);
    if (length == 0)
        return 0;
    if (n->given_back || taken_add(n->taken[stream], data, length) < 0)
        return -1;
    add_segment(n, stream, length);
    return 0;
}

int ndjson_output(struct ndjson *n, enum run_stream stream, struct evbuffer *data)
{
    if (take(n, stream, data) < 0)
        return -1;
    pump(n);
    return 0;
}

void ndjson_ask(struct ndjson *n, const char *prompt, size_t length)
{
    size_t size = 0;
    _cleanup_free_ char *clean = utf8_clean(prompt, length, &size);
    json_decref(n->question); // the code was interrupted in an earlier one
    n->question = json_pack("{s:{s:s%}}", "input_request", "prompt", clean ? clean : "", size);
    pump(n);
}

int ndjson_give_back(struct ndjson *n, struct run *r)
{
    for (int i = 0; i < RUN_STREAMS; i++)
        if (take(n, (enum run_stream)i, r->output[i]) < 0)
            return -1;
    n->given_back = true;
    r->output_lent = n->lent =
        n->taken[RUN_STDOUT]->length + n->taken[RUN_STDERR]->length > NDJSON_LENT;
    for (int i = 0; i < RUN_STREAMS; i++) {
        struct taken *t = n->taken[i];
        if (t->length == 0)
            continue;
        if (evbuffer_add_reference(r->output[i], t->data, t->length, on_read, t) < 0)
            return -1;
        t->users++;
    }
    return 0;
}

void ndjson_finish(struct ndjson *n, json_t *messages)
{
    n->done = true;
    n->messages = messages;
    timer_stop(&n->alive);
    pump(n);
}

// ---- the stream ---------------------------------------------------------------------------------

static void on_alive(void *argument)
{
    struct ndjson *n = argument;
    (void)timer_set(&n->alive, n->call->rest->gate->base, LINES_ALIVE_S * 1000, on_alive, n);
    lines_alive(&n->lines, n->call);
}

static bool make_taken(struct ndjson *n)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        if (!(n->taken[i] = calloc(1, sizeof *n->taken[i])))
            return false;
        n->taken[i]->users = 1;
    }
    return true;
}

struct ndjson *ndjson_new(struct rest_call *c)
{
    struct ndjson *n = malloc(sizeof *n);
    if (!n)
        return NULL;
    memset(n, 0,
           offsetof(struct ndjson,
                    segments)); // they are large, and always written before they are read
    n->call = c;
    lines_init(&n->lines, c->x);
    if (!make_taken(n) ||
        !timer_set(&n->alive, c->rest->gate->base, LINES_ALIVE_S * 1000, on_alive, n)) {
        ndjson_free(n);
        return NULL;
    }
    c->x->on_drained = on_drained;
    return n;
}

void ndjson_free(struct ndjson *n)
{
    if (!n)
        return;
    for (int i = 0; i < RUN_STREAMS; i++)
        taken_unref(n->taken[i]);
    timer_stop(&n->alive);
    json_decref(n->messages);
    json_decref(n->question);
    free(n->last.json);
    free(n);
}

bool ndjson_begun(const struct ndjson *n)
{
    return n->lines.begun;
}

// ---- messages -----------------------------------------------------------------------------------

// The message for an item of display[]: its picture, and all else.
static json_t *display_message(json_t *item)
{
    static const char svg[] = "image/svg+xml";
    struct picture p;
    json_t *rest = json_copy(item), *message = NULL, *drawing = json_object_get(item, svg);
    if (display_picture(item, &p)) {
        message =
            json_pack("{s:O, s:s, s:s, s:i, s:i}", "image", json_object_get(item, p.mime_type),
                      "format", strcmp(p.mime_type, "image/png") == 0 ? "png" : "jpeg", "mime_type",
                      p.mime_type, "width", (int)p.width, "height", (int)p.height);
        (void)json_object_del(rest, p.mime_type);
    } else if (json_is_string(drawing)) {
        _cleanup_free_ char *base64 =
            encode_base64(json_string_value(drawing), json_string_length(drawing));
        message = base64 ? json_pack("{s:s, s:s, s:s}", "image", base64, "format", "svg",
                                     "mime_type", svg)
                         : NULL;
        (void)json_object_del(rest, svg);
    } else {
        message = json_object();
    }
    if (message && json_object_size(rest))
        (void)json_object_set(message, "display", rest);
    json_decref(rest);
    return message;
}

// For clients that know only "text": the text of what was shown, but not of the last expression's
// value, which follows anyway.
static json_t *shown_message(json_t *object, json_t *item, size_t i)
{
    json_t *message = display_message(item), *text = json_object_get(item, "text/plain"),
           *value = json_object_get(object, "display_value");
    bool is_value = json_is_integer(value) && json_integer_value(value) == (json_int_t)i;
    if (message && json_is_string(text) && !is_value && !json_object_get(message, "image")) {
        (void)json_object_set(message, "text", text);
        (void)json_object_set_new(message, "stream", json_string("display"));
    }
    return message;
}

// "Traceback ...\n  File ...\n": an array of its lines.
static json_t *lines_of(json_t *text)
{
    json_t *list = json_array();
    const char *p = json_is_string(text) ? json_string_value(text) : "";
    const char *end = p + (json_is_string(text) ? json_string_length(text) : 0);
    while (p < end && json_array_size(list) < TRACEBACK_MAX) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((line ? line : end) - p);
        if (json_array_append_new(list, json_stringn_nocheck(p, length)) < 0)
            break;
        p += length + 1;
    }
    return list;
}

// The error in one line, for clients that know only "error": the limit that the run met, or else
// the exception.
static json_t *error_line(json_t *object, json_t *error)
{
    const char *type = json_string_value(json_object_get(error, "type"));
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    const char *hint = json_string_value(json_object_get(object, "hint"));
    json_t *exit_code = json_object_get(object, "exit_code");
    bool met = json_is_object(json_object_get(object, "limit")) && hint;
    if (type && message && !met)
        return message[0] ? json_sprintf("%s: %s", type, message) : json_string(type);
    if (verdict && strcmp(verdict, "error") == 0 && !met && json_is_integer(exit_code))
        return json_sprintf("SystemExit: exit status %d", (int)json_integer_value(exit_code));
    return json_sprintf("%s: %s", verdict ? verdict : "lost",
                        hint ? hint : "the run did not succeed");
}

// NULL for null, to leave it out.
static json_t *some(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

json_t *ndjson_error(json_t *object)
{
    json_t *error = json_object_get(object, "error");
    return json_pack("{s:o, s:o, s:O*, s:O*, s:O*, s:O*}", "error", error_line(object, error),
                     "traceback", lines_of(json_object_get(error, "text")), "verdict",
                     json_object_get(object, "verdict"), "line", some(error, "line"), "code_line",
                     some(error, "code_line"), "hint", some(object, "hint"));
}

json_t *ndjson_messages(json_t *object)
{
    json_t *list = json_array(), *item, *value = json_object_get(object, "result");
    int failed = !list;
    size_t i;
    json_array_foreach (json_object_get(object, "display"), i, item)
        failed |= json_array_append_new(list, shown_message(object, item, i));
    if (json_is_string(value))
        failed |=
            json_array_append_new(list, json_pack("{s:O, s:s}", "text", value, "stream", "result"));
    if (!json_is_true(json_object_get(object, "success")))
        failed |= json_array_append_new(list, ndjson_error(object));
    json_array_foreach (json_object_get(object, "files"), i, item)
        failed |= json_array_append_new(list, json_pack("{s:O}", "file", item));
    failed |= json_array_append_new(
        list,
        json_pack("{s:O*, s:O*, s:O*, s:O*, s:O}", "verdict", json_object_get(object, "verdict"),
                  "success", json_object_get(object, "success"), "execution_id",
                  json_object_get(object, "execution_id"), "session",
                  json_object_get(object, "session"), "execution", object));
    return json_whole(list, failed);
}

json_t *ndjson_refusal(const char *execution_id, const struct err *e)
{
    return json_pack("[{s:o, s:[], s:s, s:s}, {s:s, s:b, s:s, s:{s:{s:s, s:s, s:s}}}]", "error",
                     json_sprintf("%s: %s", err_code_name(e->code), e->message), "traceback",
                     "code", err_code_name(e->code), "hint", e->hint, "verdict", "lost", "success",
                     0, "execution_id", execution_id, "execution", "error", "code",
                     err_code_name(e->code), "message", e->message, "hint", e->hint);
}
