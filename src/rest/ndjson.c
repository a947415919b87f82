// SPDX-License-Identifier: Apache-2.0
//
// ndjson: see ndjson.h.  Used by rest/execute.c in the gate.

#include "rest/ndjson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "gate/display.h"
#include "gate/encode.h"
#include "rest/call.h"
#include "rest/lines.h"

enum {
    SEGMENTS_MAX = 1024, // changes between stdout and stderr that are remembered for a slow client
    CHARACTER_MAX = 4,   // bytes
    TRACEBACK_MAX = 1000,
};

static const char *const stream_names[RUN_STREAMS] = {"stdout", "stderr"};

struct segment {
    enum run_stream stream;
    size_t length;
};

struct ndjson {
    struct rest_call *call;
    struct event *alive;
    struct lines lines;
    bool done;
    struct evbuffer *unsent[RUN_STREAMS], *kept[RUN_STREAMS];
    struct segment segments[SEGMENTS_MAX]; // of unsent, a ring
    size_t first, count;
    char carry[RUN_STREAMS][CHARACTER_MAX]; // the beginning of a character
    size_t carried[RUN_STREAMS];
    json_t *messages; // behind the output
    size_t next;
    char piece[CHARACTER_MAX + NDJSON_PIECE];
};

// ---- lines ---------------------------------------------------------------------------------------

static void write_line(struct ndjson *n, json_t *message)
{
    lines_write(&n->lines, n->call, lines_event(message), message);
}

static void write_text(struct ndjson *n, enum run_stream stream, const char *data, size_t length)
{
    size_t clean;
    _cleanup_free_ char *copy = utf8_clean(data, length, &clean);
    json_t *text = copy ? json_stringn_nocheck(copy, clean) : NULL;
    json_t *message =
        text ? json_pack("{s:o, s:s}", "text", text, "stream", stream_names[stream]) : NULL;
    write_line(n, message);
    json_decref(message);
}

size_t ndjson_whole(const char *data, size_t length)
{
    // The last lead byte, if it is near the end and asks for more than there is.
    for (size_t back = 1; back < CHARACTER_MAX && back <= length; back++) {
        unsigned char c = (unsigned char)data[length - back];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t wants = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        return c > 0xf4 || wants <= back ? length : length - back;
    }
    return length;
}

// ---- output --------------------------------------------------------------------------------------

// Remembers in which order the streams came; when there is no room, only how much.
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

// The next piece of output as a line.
static void send_piece(struct ndjson *n)
{
    struct segment *s = &n->segments[n->first];
    enum run_stream stream = s->stream;
    size_t have = n->carried[stream], want = s->length < NDJSON_PIECE ? s->length : NDJSON_PIECE;
    memcpy(n->piece, n->carry[stream], have);
    int got = evbuffer_remove(n->unsent[stream], n->piece + have, want);
    if (got > 0)
        (void)evbuffer_add(n->kept[stream], n->piece + have, (size_t)got);
    s->length -= want;
    if (s->length == 0) {
        n->first = (n->first + 1) % SEGMENTS_MAX;
        n->count--;
    }
    have += got > 0 ? (size_t)got : 0;
    size_t whole = ndjson_whole(n->piece, have);
    n->carried[stream] = have - whole;
    memcpy(n->carry[stream], n->piece + whole, have - whole);
    if (whole)
        write_text(n, stream, n->piece, whole);
}

// Sends as much as the client takes.
static void pump(struct ndjson *n)
{
    struct rest_call *c = n->call;
    // Without a client it is for the key of the call, which has its own bound.
    while (c->x ? http_stream_backlog(c->x) < NDJSON_BACKLOG : c->key != NULL) {
        if (n->count) {
            send_piece(n);
            continue;
        }
        if (!n->done)
            return;
        for (int i = 0; i < RUN_STREAMS; i++) { // a character that never became whole
            if (n->carried[i])
                write_text(n, (enum run_stream)i, n->carry[i], n->carried[i]);
            n->carried[i] = 0;
        }
        if (n->next < json_array_size(n->messages)) {
            write_line(n, json_array_get(n->messages, n->next++));
            continue;
        }
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

int ndjson_output(struct ndjson *n, enum run_stream stream, struct evbuffer *data)
{
    size_t length = evbuffer_get_length(data);
    if (length == 0)
        return 0;
    if (evbuffer_add_buffer(n->unsent[stream], data) < 0)
        return -1;
    add_segment(n, stream, length);
    pump(n);
    return 0;
}

int ndjson_give_back(struct ndjson *n, struct run *r)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        size_t left = evbuffer_get_length(r->output[i]);
        if (left && evbuffer_add_buffer(n->unsent[i], r->output[i]) == 0)
            add_segment(n, (enum run_stream)i, left);
        size_t length = evbuffer_get_length(n->unsent[i]);
        _cleanup_free_ char *copy = length ? malloc(length) : NULL;
        if (length && (!copy || evbuffer_copyout(n->unsent[i], copy, length) < 0))
            return -1;
        if (evbuffer_add_buffer(r->output[i], n->kept[i]) < 0 ||
            (length && evbuffer_add(r->output[i], copy, length) < 0))
            return -1;
    }
    return 0;
}

void ndjson_finish(struct ndjson *n, json_t *messages)
{
    n->done = true;
    n->messages = messages;
    if (n->alive)
        (void)event_del(n->alive);
    pump(n);
}

// ---- the stream ----------------------------------------------------------------------------------

static void on_alive(evutil_socket_t fd, short what, void *argument)
{
    struct ndjson *n = argument;
    (void)fd;
    (void)what;
    lines_alive(&n->lines, n->call);
}

struct ndjson *ndjson_new(struct rest_call *c)
{
    struct timeval every = {.tv_sec = LINES_ALIVE_S};
    struct ndjson *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->call = c;
    lines_init(&n->lines, c->x);
    bool ok = true;
    for (int i = 0; i < RUN_STREAMS; i++)
        ok = (n->unsent[i] = evbuffer_new()) && (n->kept[i] = evbuffer_new()) && ok;
    n->alive = event_new(c->rest->gate->base, -1, EV_PERSIST, on_alive, n);
    if (!ok || !n->alive || event_add(n->alive, &every) < 0) {
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
    for (int i = 0; i < RUN_STREAMS; i++) {
        if (n->unsent[i])
            evbuffer_free(n->unsent[i]);
        if (n->kept[i])
            evbuffer_free(n->kept[i]);
    }
    if (n->alive)
        event_free(n->alive);
    json_decref(n->messages);
    free(n);
}

bool ndjson_begun(const struct ndjson *n)
{
    return n->lines.begun;
}

// ---- messages ------------------------------------------------------------------------------------

// An item of display[]: its picture, and everything else of it.
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

// For clients that know nothing but "text": what was shown has one too, unless it is the last expression's value,
// whose text follows anyway.
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

// What went wrong, in one line, for a client that knows nothing but "error": the exception; or the limit that
// it met, whatever exception came of that.
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

// NULL for what is null: it is left out then.
static json_t *some(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static json_t *error_message(json_t *object)
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
    json_array_foreach(json_object_get(object, "display"), i, item) failed |=
        json_array_append_new(list, shown_message(object, item, i));
    if (json_is_string(value))
        failed |=
            json_array_append_new(list, json_pack("{s:O, s:s}", "text", value, "stream", "result"));
    if (!json_is_true(json_object_get(object, "success")))
        failed |= json_array_append_new(list, error_message(object));
    json_array_foreach(json_object_get(object, "files"), i, item) failed |=
        json_array_append_new(list, json_pack("{s:O}", "file", item));
    failed |= json_array_append_new(
        list,
        json_pack("{s:O*, s:O*, s:O*, s:O*, s:O}", "verdict", json_object_get(object, "verdict"),
                  "success", json_object_get(object, "success"), "execution_id",
                  json_object_get(object, "execution_id"), "session",
                  json_object_get(object, "session"), "execution", object));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

json_t *ndjson_refusal(const char *execution_id, const struct err *e)
{
    return json_pack("[{s:o, s:[], s:s, s:s}, {s:s, s:b, s:s, s:{s:{s:s, s:s, s:s}}}]", "error",
                     json_sprintf("%s: %s", err_code_name(e->code), e->message), "traceback",
                     "code", err_code_name(e->code), "hint", e->hint, "verdict", "lost", "success",
                     0, "execution_id", execution_id, "execution", "error", "code",
                     err_code_name(e->code), "message", e->message, "hint", e->hint);
}
