// SPDX-License-Identifier: Apache-2.0
//
// lines: see lines.h.  Used by the handlers of src/rest that stream, in the gate.

#include "rest/lines.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "http/head.h"
#include "rest/call.h"
#include "rest/keys.h"
#include "json/dump.h"

static const char *const types[] = {[LINES_NDJSON] = "application/x-ndjson",
                                    [LINES_EVENTS] = "text/event-stream",
                                    [LINES_OBJECT] = "application/json"};

// ---- what the client wants ----------------------------------------------------------------------

// The weight of a media range, 0 to 1000.
static int weight(struct slice range)
{
    for (size_t i = 0; i + 3 < range.n; i++) {
        if (range.p[i] != ';')
            continue;
        size_t at = i + 1;
        while (at < range.n && (range.p[at] == ' ' || range.p[at] == '\t'))
            at++;
        if (at + 2 >= range.n || (range.p[at] | 0x20) != 'q' || range.p[at + 1] != '=')
            continue;
        const char *p = range.p + at + 2, *end = range.p + range.n;
        int value = *p == '1' ? 1000 : 0, scale = 100;
        if (value == 0 && p + 1 < end && p[1] == '.')
            for (p += 2; p < end && *p >= '0' && *p <= '9' && scale; p++, scale /= 10)
                value += (*p - '0') * scale;
        return value;
    }
    return 1000;
}

static bool is_type(struct slice range, const char *type)
{
    size_t n = strlen(type);
    return range.n >= n && strncasecmp(range.p, type, n) == 0 &&
           (range.n == n || range.p[n] == ';' || range.p[n] == ' ' || range.p[n] == '\t');
}

bool lines_wants_events(const char *accept)
{
    struct slice list = {accept, strlen(accept)}, range;
    int events = 0, lines = 0;
    while (slice_next(&list, &range)) {
        if (is_type(range, types[LINES_EVENTS]))
            events = weight(range);
        else if (is_type(range, types[LINES_NDJSON]))
            lines = weight(range);
    }
    return events > lines;
}

void lines_init(struct lines *l, const struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");
    *l = (struct lines){.form = accept && lines_wants_events(accept) ? LINES_EVENTS : LINES_NDJSON};
}

// ---- messages -----------------------------------------------------------------------------------

void lines_begin(struct lines *l, struct rest_call *c)
{
    const char *type = types[l->form];
    if (l->begun)
        return;
    l->begun = true;
    if (c->key)
        keys_begin(c->key, 200, type);
    if (c->x)
        http_stream_begin(c->x, 200, type);
}

static void free_text(const void *data, size_t length, void *argument)
{
    (void)length;
    (void)argument;
    free((void *)(uintptr_t)data);
}

// One chunk of the answer.  Takes the text, which may be NULL.
static void put(struct rest_call *c, const char *head, char *text, size_t length, const char *tail)
{
    if (c->key) {
        keys_note(c->key, head, strlen(head));
        keys_note(c->key, text, length);
        keys_note(c->key, tail, strlen(tail));
    }
    struct evbuffer *chunk = c->x ? evbuffer_new() : NULL;
    bool good = chunk && evbuffer_add(chunk, head, strlen(head)) == 0;
    if (good && length && evbuffer_add_reference(chunk, text, length, free_text, NULL) == 0)
        text = NULL; // the chunk's
    good = good && !(text && length) && evbuffer_add(chunk, tail, strlen(tail)) == 0;
    free(text);
    if (c->x)
        http_stream_chunk(c->x, good ? chunk : NULL);
    if (chunk)
        evbuffer_free(chunk);
}

static void format_head(const struct lines *l, const char *event, char *head, size_t cap)
{
    switch (l->form) {
    case LINES_NDJSON: break;
    case LINES_EVENTS: snprintf(head, cap, "event: %s\nid: %u\ndata: ", event, l->count); break;
    case LINES_OBJECT: snprintf(head, cap, l->count == 1 ? "{\"results\":[" : ","); break;
    }
}

void lines_write_part(struct lines *l, struct rest_call *c, const char *event, unsigned which,
                      char *text, size_t length)
{
    char head[96] = "";
    lines_begin(l, c);
    l->wrote = true;
    l->count += which & LINES_FIRST;
    if (which & LINES_FIRST)
        format_head(l, event, head, sizeof head);
    put(c, head, text, length,
        !(which & LINES_LAST)     ? ""
        : l->form == LINES_EVENTS ? "\n\n"
                                  : "\n");
}

void lines_write_text(struct lines *l, struct rest_call *c, const char *event, char *text,
                      size_t length)
{
    lines_write_part(l, c, event, LINES_FIRST | LINES_LAST, text, length);
}

void lines_write(struct lines *l, struct rest_call *c, const char *event, json_t *message)
{
    size_t length;
    char *text = message ? dump_text_n(message, &length) : NULL;
    if (text)
        lines_write_text(l, c, event, text, length);
}

void lines_cut(struct rest_call *c)
{
    if (c->x)
        http_stream_chunk(c->x, NULL);
}

void lines_write_last(struct lines *l, struct rest_call *c, const char *event, json_t *message)
{
    if (l->form != LINES_OBJECT) {
        lines_write(l, c, event, message);
        return;
    }
    char *text = message ? dump_text(message) : NULL;
    if (text)
        text[0] = ','; // in place of its brace
    lines_begin(l, c);
    put(c, l->count ? "]" : "{\"results\":[]", text, text ? strlen(text) : 0, "\n");
}

void lines_alive(struct lines *l, struct rest_call *c)
{
    if (c->x && !l->wrote) {
        lines_begin(l, c);
        if (l->form == LINES_EVENTS)
            http_stream_write(c->x, ": alive\n\n", 9);
        else
            http_stream_write(c->x, "\n", 1);
    }
    l->wrote = false;
}

void lines_end(struct lines *l, struct rest_call *c)
{
    lines_begin(l, c); // a stream may have no line
    if (c->key)
        keys_end(TAKE_PTR(c->key));
    struct http_exchange *x = rest_let_go(c);
    if (x)
        http_stream_end(x);
    rest_free(c);
}

const char *lines_event(const json_t *message)
{
    static const char *const names[][2] = {{"execution", "done"},
                                           {"error", "error"},
                                           {"image", "display"},
                                           {"display", "display"},
                                           {"file", "file"},
                                           {"text", "output"},
                                           {"input_request", "input_request"}};
    const char *stream = json_string_value(json_object_get(message, "stream"));
    if (stream && strcmp(stream, "result") == 0)
        return "result";
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_object_get(message, names[i][0]))
            return names[i][1];
    return "message";
}
