// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/transport/stream, against exchanges of our own: what is sent, kept, sent again,
// dropped.

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "http/http.h"
#include "mcp/transport/stream.h"

// ---- exchanges of our own: the stream's only way out --------------------------------------------

struct fake {
    struct http_exchange x; // first
    char *sent;
    size_t length, backlog;
    bool begun, ended;
    unsigned headers;
};

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    struct fake *f = (struct fake *)x;
    assert_false(f->begun);
    f->headers += (strcmp(name, "Cache-Control") == 0 && strcmp(value, "no-cache") == 0) ||
                  (strcmp(name, "X-Accel-Buffering") == 0 && strcmp(value, "no") == 0);
}

void http_stream_begin(struct http_exchange *x, int status, const char *type)
{
    struct fake *f = (struct fake *)x;
    assert_int_equal(status, 200);
    assert_string_equal(type, "text/event-stream");
    assert_int_equal(f->headers, 2);
    f->begun = true;
}

void http_stream_write(struct http_exchange *x, const void *data, size_t length)
{
    struct fake *f = (struct fake *)x;
    assert_true(f->begun && !f->ended);
    f->sent = realloc(f->sent, f->length + length + 1);
    assert_non_null(f->sent);
    memcpy(f->sent + f->length, data, length);
    f->length += length;
    f->sent[f->length] = '\0';
}

size_t http_stream_backlog(const struct http_exchange *x)
{
    return ((const struct fake *)x)->backlog;
}

void http_stream_end(struct http_exchange *x)
{
    struct fake *f = (struct fake *)x;
    assert_true(f->begun && !f->ended);
    assert_null(x->on_close); // the stream has let it go
    f->ended = true;
}

static const char *sent(struct fake *f)
{
    return f->sent ? f->sent : "";
}

static void fake_clear(struct fake *f)
{
    free(f->sent);
    *f = (struct fake){0};
}

// The client goes away.
static void fake_close(struct fake *f)
{
    assert_non_null(f->x.on_close);
    f->x.on_close(&f->x);
    f->ended = true;
}

// ---- the rest of the world ----------------------------------------------------------------------

static struct event_base *base;
static struct streams all;
static struct stream_shelf shelf;

static int setup(void **state)
{
    (void)state;
    base = event_base_new();
    assert_non_null(base);
    streams_open(&all, base);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stream_shelf_clear(&shelf);
    assert_int_equal(shelf.count, 0);
    assert_int_equal(all.bytes, 0);
    assert_null(all.oldest);
    assert_null(all.newest);
    streams_close(&all);
    event_base_free(base);
    return 0;
}

static void note(struct stream *s, const char *text)
{
    json_t *message =
        json_pack("{s:s, s:s, s:{s:s}}", "jsonrpc", "2.0", "method", "n", "params", "text", text);
    stream_send(s, message);
    json_decref(message);
}

static void answer(struct stream *s, size_t length)
{
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, 'x', length);
    text[length] = '\0';
    json_t *message =
        json_pack("{s:s, s:i, s:{s:s}}", "jsonrpc", "2.0", "id", 1, "result", "t", text);
    stream_send(s, message);
    json_decref(message);
    free(text);
}

static unsigned count_of(const char *text, const char *word)
{
    unsigned n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

// The id of the last event.
static void last_id(const char *text, char id[STREAM_ID_MAX])
{
    const char *at = NULL;
    for (const char *next = text; (next = strstr(next, "id: ")); next++)
        at = next;
    assert_non_null(at);
    assert_int_equal(sscanf(at, "id: %31[^\n]", id), 1);
}

// ---- sending ------------------------------------------------------------------------------------

static void test_without_ids(void **state)
{
    (void)state;
    struct fake f = {0};
    struct stream *s = stream_new(&all, NULL, false);
    stream_connect(s, &f.x);
    stream_send_text(s, "endpoint", "/messages?session_id=1");
    note(s, "a\nb");
    assert_string_equal(sent(&f), "event: endpoint\ndata: /messages?session_id=1\n\n"
                                  "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\","
                                  "\"params\":{\"text\":\"a\\nb\"}}\n\n");
    assert_int_equal(all.bytes, 0); // nothing is kept
    stream_finish(s);
    assert_true(f.ended);
    note(s, "late");
    assert_null(strstr(sent(&f), "late"));
    stream_free(s);
    fake_clear(&f);
}

static void test_ids_and_prime(void **state)
{
    (void)state;
    struct fake plain = {0}, primed = {0};
    char id[STREAM_ID_MAX];
    struct stream *s = stream_new(&all, &shelf, false), *p = stream_new(&all, &shelf, true);
    stream_connect(s, &plain.x);
    stream_connect(p, &primed.x);
    assert_string_equal(sent(&plain), "");
    assert_memory_equal(sent(&primed), "id: ", 4);
    assert_non_null(strstr(sent(&primed), "-0\nretry: 1000\ndata: \n\n"));
    note(s, "1");
    note(s, "2");
    assert_int_equal(count_of(sent(&plain), "id: "), 2);
    last_id(sent(&plain), id);
    assert_string_equal(strchr(id, '-'), "-2");
    uint32_t sequence;
    assert_ptr_equal(stream_find(&shelf, id, &sequence), s);
    assert_int_equal(sequence, 2);
    stream_shelf_clear(&shelf);
    assert_true(plain.ended && primed.ended);
    fake_clear(&plain);
    fake_clear(&primed);
}

// ---- coming back --------------------------------------------------------------------------------

static void test_resume_goes_on(void **state)
{
    (void)state;
    struct fake first = {0}, second = {0}, third = {0};
    char id[STREAM_ID_MAX];
    uint32_t sequence;
    struct stream *s = stream_new(&all, &shelf, true);
    stream_connect(s, &first.x);
    note(s, "one");
    last_id(sent(&first), id);
    note(s, "two");
    fake_close(&first);
    note(s, "three"); // no client is there
    assert_ptr_equal(stream_find(&shelf, id, &sequence), s);
    stream_resume(s, &second.x, sequence);
    assert_null(strstr(sent(&second), "one"));
    assert_int_equal(count_of(sent(&second), "two"), 1);
    assert_int_equal(count_of(sent(&second), "three"), 1);
    // It goes on; a newer connection takes over from one that only seems alive.
    stream_resume(s, &third.x, s->sequence);
    assert_true(second.ended);
    answer(s, 5);
    stream_finish(s);
    assert_true(third.ended);
    assert_int_equal(count_of(sent(&third), "data: "), 1);
    fake_clear(&first);
    fake_clear(&second);
    fake_clear(&third);
}

static void test_resume_after_the_end(void **state)
{
    (void)state;
    struct fake first = {0}, second = {0};
    char id[STREAM_ID_MAX];
    uint32_t sequence;
    struct stream *s = stream_new(&all, &shelf, true);
    stream_connect(s, &first.x);
    last_id(sent(&first), id); // the prime
    stream_hang_up(s);         // the server's own wish
    assert_true(first.ended);
    assert_null(all.oldest); // a call still needs it
    answer(s, 5);
    stream_finish(s);
    assert_ptr_equal(all.oldest, s);
    assert_ptr_equal(stream_find(&shelf, id, &sequence), s);
    stream_resume(s, &second.x, sequence);
    assert_int_equal(count_of(sent(&second), "xxxxx"), 1);
    assert_true(second.ended);       // nothing more can come
    assert_ptr_equal(all.oldest, s); // and once more, for a client that lost this one too
    fake_clear(&first);
    fake_clear(&second);
}

static void test_forged_ids(void **state)
{
    (void)state;
    struct fake f = {0};
    struct stream_shelf other = {0};
    char id[STREAM_ID_MAX], forged[80];
    uint32_t sequence;
    struct stream *s = stream_new(&all, &shelf, false);
    stream_connect(s, &f.x);
    note(s, "1");
    last_id(sent(&f), id);
    assert_non_null(stream_find(&shelf, id, &sequence));
    assert_null(stream_find(&other, id, &sequence)); // another client's session
    static const char *const around[][2] = {{"", "0"},  {" ", ""}, {"", " "}, {"0x", ""},
                                            {"", "-1"}, {"+", ""}, {"", "\n"}};
    for (size_t i = 0; i < ARRAY_LEN(around); i++) {
        snprintf(forged, sizeof forged, "%s%s%s", around[i][0], id, around[i][1]);
        assert_null(stream_find(&shelf, forged, &sequence));
    }
    snprintf(forged, sizeof forged, "%.17s2", id); // not sent yet
    assert_null(stream_find(&shelf, forged, &sequence));
    snprintf(forged, sizeof forged, "%.17s01", id);
    assert_null(stream_find(&shelf, forged, &sequence));
    snprintf(forged, sizeof forged, "%.17s4294967297", id); // 1, if it were cut to 32 bits
    assert_null(stream_find(&shelf, forged, &sequence));
    static const char *const others[] = {
        "", "-", "1", "1-1", "0-0", "0000000000000000-0", "ffffffffffffffff-4294967295"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_null(stream_find(&shelf, others[i], &sequence));
    stream_shelf_clear(&shelf);
    fake_clear(&f);
}

// ---- bounds -------------------------------------------------------------------------------------

static void test_kept_events_are_bounded(void **state)
{
    (void)state;
    struct stream *s = stream_new(&all, &shelf, false);
    for (int i = 0; i < 3 * STREAM_EVENTS_MAX; i++)
        note(s, "x");
    assert_int_equal(s->events, STREAM_EVENTS_MAX);
    for (int i = 0; i < 5; i++)
        answer(s, STREAM_BYTES_MAX / 3);
    assert_in_range(s->bytes, STREAM_BYTES_MAX / 3, STREAM_BYTES_MAX);
    assert_int_equal(s->bytes, all.bytes);
    answer(s, 3 * STREAM_BYTES_MAX); // an answer is kept whatever its size
    assert_int_equal(s->events, 1);
    struct fake f = {0};
    stream_resume(s, &f.x, 1);
    assert_true(f.length > 3 * STREAM_BYTES_MAX);
    stream_shelf_clear(&shelf);
    fake_clear(&f);
}

static void test_shelf_is_bounded(void **state)
{
    (void)state;
    struct stream *going = stream_new(&all, &shelf, false); // a call that goes on
    for (int i = 0; i < 4 * STREAM_SHELF_MAX; i++) {
        struct stream *s = stream_new(&all, &shelf, false);
        answer(s, 10);
        stream_finish(s);
    }
    assert_in_range(shelf.count, STREAM_SHELF_MAX - 1, STREAM_SHELF_MAX + 1);
    bool found = false;
    for (struct stream *s = shelf.first; s; s = s->next)
        found |= s == going;
    assert_true(found);
}

static void test_total_is_bounded(void **state)
{
    (void)state;
    struct stream_shelf shelves[8] = {0};
    for (int i = 0; i < 8; i++) {
        struct stream *s = stream_new(&all, &shelves[i], false);
        answer(s, STREAM_TOTAL_MAX / 4);
        stream_finish(s);
        assert_true(all.bytes <= STREAM_TOTAL_MAX);
    }
    assert_int_equal(shelves[0].count, 0); // the oldest went
    assert_int_equal(shelves[7].count, 1);
    // A detached stream that still takes messages must not make room by freeing itself.
    struct fake f = {0};
    struct stream *own = stream_new(&all, &shelf, false);
    own->own = true;
    stream_connect(own, &f.x);
    fake_close(&f);
    assert_ptr_equal(all.newest, own);
    answer(own, STREAM_TOTAL_MAX / 2);
    answer(own, STREAM_TOTAL_MAX / 2);
    assert_int_equal(own->events, 1);
    assert_true(all.bytes <= STREAM_TOTAL_MAX);
    for (int i = 0; i < 8; i++)
        stream_shelf_clear(&shelves[i]);
    fake_clear(&f);
}

static void test_slow_client(void **state)
{
    (void)state;
    struct fake f = {0};
    struct stream *s = stream_new(&all, NULL, false);
    stream_connect(s, &f.x);
    f.backlog = STREAM_SLOW + 1;
    note(s, "dropped");
    answer(s, 3);
    assert_null(strstr(sent(&f), "dropped"));
    assert_non_null(strstr(sent(&f), "xxx"));
    // A question is no notification.
    json_t *question = json_pack("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", 1, "method", "ask");
    stream_send(s, question);
    json_decref(question);
    assert_non_null(strstr(sent(&f), "ask"));
    stream_free(s);
    assert_true(f.ended);
    fake_clear(&f);
}

static unsigned gone;

static void count_gone(struct stream *s)
{
    gone++;
    stream_free(s);
}

static void test_stuck_client(void **state)
{
    (void)state;
    struct fake f = {0};
    struct stream *s = stream_new(&all, NULL, false);
    gone = 0;
    s->on_gone = count_gone;
    stream_connect(s, &f.x);
    f.backlog = STREAM_STUCK + 1u;
    answer(s, 3);
    answer(s, 3);
    assert_int_equal(gone, 0); // not from within: the sender goes on using the stream
    assert_false(f.ended);
    (void)event_base_loop(base, EVLOOP_NONBLOCK); // 1: nothing else is waited for
    assert_int_equal(gone, 1);
    assert_true(f.ended);
    assert_string_equal(sent(&f), "");
    fake_clear(&f);
}

static void test_client_that_leaves(void **state)
{
    (void)state;
    struct fake f = {0}, own = {0};
    struct stream *s = stream_new(&all, NULL, false);
    gone = 0;
    s->on_gone = count_gone;
    stream_connect(s, &f.x);
    fake_close(&f);
    assert_int_equal(gone, 1);
    // The session's own is detached, and takes what comes meanwhile.
    s = stream_new(&all, &shelf, false);
    s->own = true;
    stream_connect(s, &own.x);
    assert_null(all.oldest);
    fake_close(&own);
    assert_ptr_equal(all.oldest, s);
    note(s, "meanwhile");
    assert_int_equal(s->events, 1);
    fake_clear(&f);
    fake_clear(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ids_and_prime, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resume_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resume_after_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_events_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shelf_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_total_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_client, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stuck_client, setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_that_leaves, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
