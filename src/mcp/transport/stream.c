// SPDX-License-Identifier: Apache-2.0
//
// stream: see stream.h.

#include "mcp/transport/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "http/http.h"

// One event as it is sent: fields and an empty line.
struct stream_event {
    struct stream_event *next;
    uint32_t sequence;
    size_t length, cap;
    char text[];
};

enum { EVENT_FIRST = 480 }; // most notifications fit

// ---- events -------------------------------------------------------------------------------------

// jansson's callback: appends to an event that grows by doubling.
static int append(const char *data, size_t length, void *argument)
{
    struct stream_event **event = argument, *e = *event;
    if (e->cap - e->length < length) {
        size_t cap = e->cap * 2 > e->length + length ? e->cap * 2 : e->length + length;
        e = realloc(e, sizeof *e + cap);
        if (!e)
            return -1;
        e->cap = cap;
        *event = e;
    }
    memcpy(e->text + e->length, data, length);
    e->length += length;
    return 0;
}

static struct stream_event *event_make(const struct stream *s, json_t *message)
{
    char head[STREAM_ID_MAX + 64] = "event: message\ndata: ";
    _cleanup_free_ struct stream_event *e = malloc(sizeof *e + EVENT_FIRST);
    if (!e)
        return NULL;
    *e = (struct stream_event){.cap = EVENT_FIRST};
    if (s->shelf)
        snprintf(head, sizeof head,
                 "id: %016" PRIx64 "-%" PRIu32 "\nevent: message\ndata: ", s->number,
                 s->sequence + 1);
    // Compact JSON has no line break, so it is always one line of data.
    if (append(head, strlen(head), &e) < 0 ||
        json_dump_callback(message, append, &e, JSON_COMPACT | JSON_ENCODE_ANY) < 0 ||
        append("\n\n", 2, &e) < 0)
        return NULL;
    return TAKE_PTR(e);
}

static void forget_first(struct stream *s)
{
    struct stream_event *e = s->first;
    s->first = e->next;
    if (!s->first)
        s->last = NULL;
    s->events--;
    s->bytes -= e->length;
    s->all->bytes -= e->length;
    free(e);
}

static bool is_over(const struct stream *s)
{
    return s->events > STREAM_EVENTS_MAX || s->bytes > STREAM_BYTES_MAX ||
           s->all->bytes > STREAM_TOTAL_MAX;
}

// The newest event is stored whatever its size: it is usually the answer.
static void keep(struct stream *s, struct stream_event *e)
{
    struct stream_event *fitted = realloc(e, sizeof *e + e->length);
    e = fitted ? fitted : e;
    e->sequence = ++s->sequence;
    *(s->last ? &s->last->next : &s->first) = e;
    s->last = e;
    s->events++;
    s->bytes += e->length;
    s->all->bytes += e->length;
    for (struct stream *old = s->all->oldest, *next; old; old = next) {
        next = old->newer;
        if (s->all->bytes <= STREAM_TOTAL_MAX)
            break;
        if (old != s)
            stream_free(old);
    }
    while (is_over(s) && s->first != s->last)
        forget_first(s);
}

// ---- detached streams
// -----------------------------------------------------------------------------

static void on_timer(void *argument);

static void set_timer(struct streams *all)
{
    if (!all->oldest)
        return;
    int64_t left = all->oldest->detached_ms + STREAM_DETACHED_MS - clock_ms();
    if (left < 10)
        left = 10;
    (void)timer_set(&all->timer, all->base, (uint64_t)left, on_timer, all);
}

static void on_timer(void *argument)
{
    struct streams *all = argument;
    while (all->oldest && clock_ms() - all->oldest->detached_ms >= STREAM_DETACHED_MS)
        stream_free(all->oldest);
    set_timer(all);
}

static void detach(struct stream *s)
{
    struct streams *all = s->all;
    if (s->detached)
        return;
    s->detached = true;
    s->detached_ms = clock_ms();
    s->older = all->newest;
    s->newer = NULL;
    *(all->newest ? &all->newest->newer : &all->oldest) = s;
    all->newest = s;
    if (all->oldest == s)
        set_timer(all);
}

static void attach(struct stream *s)
{
    if (!s->detached)
        return;
    s->detached = false;
    *(s->older ? &s->older->newer : &s->all->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &s->all->newest) = s->older;
    s->older = s->newer = NULL;
}

void streams_open(struct streams *all, struct event_base *base)
{
    *all = (struct streams){.base = base};
}

void streams_close(struct streams *all)
{
    timer_stop(&all->timer);
}

// ---- life ---------------------------------------------------------------------------------------

// Makes room on a shelf.  Connected streams and those of open calls stay.
static void limit_shelf(struct stream_shelf *shelf)
{
    struct stream *oldest = NULL;
    unsigned waiting = 0;
    for (struct stream *s = shelf->first; s; s = s->next) {
        waiting += !s->x;
        if (s->detached)
            oldest = s;
    }
    if (waiting >= STREAM_SHELF_MAX && oldest)
        stream_free(oldest);
}

struct stream *stream_new(struct streams *all, struct stream_shelf *shelf, bool primed)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->all = all;
    if (!shelf)
        return s;
    if (getrandom(&s->number, sizeof s->number, 0) != (ssize_t)sizeof s->number) {
        free(s);
        return NULL;
    }
    limit_shelf(shelf);
    s->primed = primed;
    s->shelf = shelf;
    s->next = shelf->first;
    if (s->next)
        s->next->previous = s;
    shelf->first = s;
    shelf->count++;
    return s;
}

// The exchange is gone, or is about to be.
static struct http_exchange *disconnect(struct stream *s)
{
    struct http_exchange *x = TAKE_PTR(s->x);
    timer_stop(&s->alive);
    s->cut = false;
    if (x) {
        x->work = NULL;
        x->on_close = NULL;
    }
    return x;
}

void stream_hang_up(struct stream *s)
{
    struct http_exchange *x = disconnect(s);
    if (x)
        http_stream_end(x);
    if (s->shelf && (s->finished || s->own))
        detach(s);
}

void stream_finish(struct stream *s)
{
    s->finished = true;
    s->on_gone = NULL;
    stream_hang_up(s);
}

void stream_free(struct stream *s)
{
    if (!s)
        return;
    struct http_exchange *x = disconnect(s);
    if (x)
        http_stream_end(x);
    attach(s);
    while (s->first)
        forget_first(s);
    if (s->shelf) {
        *(s->previous ? &s->previous->next : &s->shelf->first) = s->next;
        if (s->next)
            s->next->previous = s->previous;
        s->shelf->count--;
    }
    free(s);
}

void stream_shelf_clear(struct stream_shelf *shelf)
{
    while (shelf->first)
        stream_free(shelf->first);
}

// ---- the connection -----------------------------------------------------------------------------

static void gone(struct stream *s)
{
    if (s->shelf && (s->finished || s->own))
        detach(s);
    if (s->on_gone)
        s->on_gone(s);
}

static void on_close(struct http_exchange *x)
{
    struct stream *s = x->work;
    (void)disconnect(s);
    gone(s);
}

static void on_alive(void *argument)
{
    static const char comment[] = ": keep-alive\n\n";
    struct stream *s = argument;
    (void)timer_set(&s->alive, s->all->base, STREAM_ALIVE_S * 1000, on_alive, s);
    if (s->cut) { // see stream_send()
        struct http_exchange *x = disconnect(s);
        http_stream_end(x);
        gone(s);
        return;
    }
    if (http_stream_backlog(s->x) < STREAM_SLOW)
        http_stream_write(s->x, comment, sizeof comment - 1);
    if (s->on_alive)
        s->on_alive(s);
}

static void connect_to(struct stream *s, struct http_exchange *x)
{
    struct http_exchange *before = disconnect(s);
    if (before) // the client reconnected before we noticed that the old connection is dead
        http_stream_end(before);
    attach(s);
    s->x = x;
    x->work = s;
    x->on_close = on_close;
    (void)timer_set(&s->alive, s->all->base, STREAM_ALIVE_S * 1000, on_alive, s);
    http_add_header(x, "Cache-Control", "no-cache");
    http_add_header(x, "X-Accel-Buffering", "no");
    http_stream_begin(x, 200, "text/event-stream");
}

void stream_connect(struct stream *s, struct http_exchange *x)
{
    char text[STREAM_ID_MAX + 64];
    connect_to(s, x);
    if (!s->primed)
        return;
    int n = snprintf(text, sizeof text, "id: %016" PRIx64 "-%" PRIu32 "\nretry: %d\ndata: \n\n",
                     s->number, s->sequence, STREAM_RETRY_MS);
    http_stream_write(x, text, (size_t)n);
}

// May this message be left out?  Answers and questions may not.
static bool is_droppable(json_t *message)
{
    return json_object_get(message, "method") && !json_object_get(message, "id");
}

void stream_send(struct stream *s, json_t *message)
{
    size_t backlog = s->x && !s->cut ? http_stream_backlog(s->x) : 0;
    if (s->finished || (backlog > STREAM_SLOW && is_droppable(message)) || (s->cut && !s->shelf))
        return;
    struct stream_event *e = event_make(s, message);
    if (!e)
        return;
    if (backlog > STREAM_STUCK) {
        // Not now: on_gone() may cancel the call that is sending.
        s->cut = true;
        (void)timer_set(&s->alive, s->all->base, 0, on_alive, s);
    } else if (s->x && !s->cut) {
        http_stream_write(s->x, e->text, e->length);
    }
    if (s->shelf)
        keep(s, e);
    else
        free(e);
}

void stream_send_text(struct stream *s, const char *event, const char *text)
{
    char buf[512];
    int n = snprintf(buf, sizeof buf, "event: %s\ndata: %s\n\n", event, text);
    if (s->x && n > 0 && (size_t)n < sizeof buf)
        http_stream_write(s->x, buf, (size_t)n);
}

// ---- coming back --------------------------------------------------------------------------------

// Exactly the form that we write: 16 digits, a dash, a number without leading zeros.
static bool parse_id(const char *id, uint64_t *ret_number, uint32_t *ret_sequence)
{
    char again[STREAM_ID_MAX];
    if (sscanf(id, "%16" SCNx64 "-%10" SCNu32, ret_number, ret_sequence) != 2)
        return false;
    snprintf(again, sizeof again, "%016" PRIx64 "-%" PRIu32, *ret_number, *ret_sequence);
    return strcmp(id, again) == 0;
}

struct stream *stream_find(struct stream_shelf *shelf, const char *id, uint32_t *ret_sequence)
{
    uint64_t number;
    uint32_t sequence;
    if (strlen(id) >= STREAM_ID_MAX || !parse_id(id, &number, &sequence))
        return NULL;
    for (struct stream *s = shelf->first; s; s = s->next)
        if (s->number == number) {
            *ret_sequence = sequence;
            return sequence <= s->sequence ? s : NULL;
        }
    return NULL;
}

void stream_resume(struct stream *s, struct http_exchange *x, uint32_t sequence)
{
    connect_to(s, x);
    for (struct stream_event *e = s->first; e; e = e->next)
        if (e->sequence > sequence)
            http_stream_write(x, e->text, e->length);
    if (s->finished)
        stream_hang_up(s);
}
