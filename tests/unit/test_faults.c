// SPDX-License-Identifier: Apache-2.0
//
// Fault injection: the n-th allocation fails, for every n, alone and with all that follow it.
// Nothing may crash or leak, and what comes out is whole or an error.  The linker sends the
// program's own malloc, calloc and realloc here (--wrap, see meson.build); jansson and libevent are
// told by their hooks, so their allocations count and fail too.

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/utf8.h"
#include "fake_run.h"
#include "wire/frame.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static struct {
    bool armed;
    bool forever; // all that follow fail as well
    long at;      // which one fails, from 1
    long made;    // since it was armed
    long live;    // blocks that are not freed
} fault;

static bool fails(void)
{
    if (!fault.armed)
        return false;
    fault.made++;
    return fault.forever ? fault.made >= fault.at : fault.made == fault.at;
}

void *__wrap_malloc(size_t n)
{
    void *p = fails() ? NULL : __real_malloc(n);
    fault.live += p != NULL;
    if (!p)
        errno = ENOMEM;
    return p;
}

void *__wrap_calloc(size_t count, size_t n)
{
    void *p = fails() ? NULL : __real_calloc(count, n);
    fault.live += p != NULL;
    if (!p)
        errno = ENOMEM;
    return p;
}

void *__wrap_realloc(void *p, size_t n)
{
    void *q = fails() ? NULL : __real_realloc(p, n);
    fault.live += q && !p;
    if (!q)
        errno = ENOMEM;
    return q;
}

void __wrap_free(void *p)
{
    fault.live -= p != NULL;
    __real_free(p);
}

// Calls `f` with the first, second, ... allocation failing, until it needs fewer than that.
static void each_fault(void (*f)(void))
{
    for (int forever = 0; forever < 2; forever++)
        for (long n = 1;; n++) {
            long live = fault.live;
            fault.forever = forever;
            fault.at = n;
            fault.made = 0;
            f(); // arms and disarms
            fault.armed = false;
            if (fault.live != live)
                fail_msg("allocation %ld%s failed: %ld blocks were left", n,
                         forever ? " and on" : "", fault.live - live);
            if (fault.made < n)
                break; // nothing failed
            assert_true(n < 5000);
        }
}

// ---- frames -------------------------------------------------------------------------------------

static void feed_frames(void)
{
    struct {
        struct frame_header h;
        char payload[8];
    } d = {.h = {.magic = FRAME_MAGIC, .kind = FRAME_RESULT}};
    struct frame_reader r = {.max = 1 << 20};
    fault.armed = true;
    for (uint32_t total = 8; total < 100000; total *= 5) { // begun and never finished
        d.h.total = total;
        int n = frame_reader_feed(&r, &d, sizeof d);
        assert_true(n == -ENOMEM || n == (total == 8));
        if (n < 0)
            break;
        assert_non_null(r.data);
    }
    fault.armed = false;
    frame_reader_done(&r);
    assert_null(r.data);
}

static void frames(void **state)
{
    (void)state;
    each_fault(feed_frames);
}

// ---- text ---------------------------------------------------------------------------------------

static void clean_text(void)
{
    size_t n = 99;
    fault.armed = true;
    char *p = utf8_clean("a\xff", 2, &n);
    fault.armed = false;
    assert_int_equal(n, p ? 4 : 99);
    free(p);
}

static void texts(void **state)
{
    (void)state;
    each_fault(clean_text);
}

// ---- results ------------------------------------------------------------------------------------

static struct fake_run fake;
static enum wire_end ended;
static const char *report;
static unsigned incomplete;

static void make_result(void)
{
    static const char *const keys[] = {
        "execution_id", "verdict", "success",     "exit_code", "signal",  "phase",
        "stdout",       "stderr",  "result",      "error",     "usage",   "isolation",
        "truncated",    "limit",   "environment", "hint",      "display", "variables"};
    struct result res;
    fake_run_init(&fake);
    fake_run_result(&fake, report, strlen(report));
    if (ended != END_OWN)
        fake.run.ended.end = ended;
    // Several chunks, so that they have to be joined; one stream is no text.
    for (int i = 0; i < 3; i++) {
        assert_int_equal(evbuffer_add_reference(fake.run.output[0], "out", 3, NULL, NULL), 0);
        assert_int_equal(evbuffer_add_reference(fake.run.output[1], "\xff", 1, NULL, NULL), 0);
    }
    fault.armed = true;
    result_judge(&fake.run, &res);
    json_t *o = result_json(&fake.run, &res, "an id");
    fault.armed = false;
    for (size_t i = 0; o && i < ARRAY_LEN(keys); i++)
        if (!json_object_get(o, keys[i])) {
            if (!incomplete)
                print_message("# allocation %ld failed: the object has no '%s'\n", fault.at,
                              keys[i]);
            incomplete++;
            break;
        }
    json_decref(o);
    fake_run_free(&fake);
}

#define PNG_4X3                                                                                    \
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAAAAACRn/EaAAAAC0lEQVR4nGNgQAEAAA8AAbVWKT4AAAAASUVORK5CYII="

static void all_results(void)
{
    static const char *const reports[] = {
        "{\"exit_code\": 0, \"result\": \"2\", \"result_json\": [1, {\"a\": null}]}",
        "{\"exit_code\": 1, \"error\": {\"type\": \"ValueError\", \"message\": \"x\", \"line\": "
        "1}}",
        "{\"display\": [{\"image/png\": \"" PNG_4X3 "\"}, {\"text/html\": \"x\"}, 1], "
        "\"display_originals\": [{\"item\": 0, \"image/png\": \"" PNG_4X3 "\"}], "
        "\"display_omitted\": 1}",
        "{\"variables\": [{\"name\": \"a\", \"change\": \"added\", \"shape\": [1]}], "
        "\"execution_count\": 1, \"checkpoint\": {\"state\": \"made\"}}",
    };
    const enum wire_end ends[] = {END_OWN, END_OUTPUT, END_WALL};
    for (size_t i = 0; i < ARRAY_LEN(reports); i++)
        for (size_t k = 0; k < ARRAY_LEN(ends); k++) {
            report = reports[i];
            ended = ends[k];
            each_fault(make_result);
        }
}

static void results_neither_crash_nor_leak(void **state)
{
    (void)state;
    all_results();
}

// result.h: the whole object, or NULL when memory is out.
static void a_result_without_memory_is_not_half_a_result(void **state)
{
    (void)state;
    incomplete = 0;
    all_results();
    assert_int_equal(incomplete, 0);
}

// ---- runs ---------------------------------------------------------------------------------------

static struct gate gate;
static int keeper, done_calls;

static void on_done(struct run *r)
{
    (void)r;
    done_calls++;
}

// What the keeper and the box send, before the gate looks.
static void say_everything(uint64_t ticket)
{
    int control[2];
    union wire_message m = {.box = {.ticket = ticket, .box = 4097, .parked = 1}};
    static const char json[] = "{\"exit_code\": 0, \"result\": \"2\"}";
    struct frame_piece piece = {json, sizeof json - 1}, printed = {"hello", 5};
    size_t offset = 0;
    unit_socketpair(control);
    assert_int_equal(frame_send(control[0], FRAME_OUTPUT, &printed, 1, &offset), 0);
    offset = 0;
    assert_int_equal(frame_send(control[0], FRAME_RESULT, &piece, 1, &offset), 0);
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, &control[1], 1), 0);
    m = (union wire_message){.ended = {.box = 4097, .end = END_DONE}};
    assert_int_equal(wire_send(keeper, WIRE_ENDED, &m, NULL, 0), 0);
    fd_close(&control[0]);
    fd_close(&control[1]);
}

static void do_run(void)
{
    const struct run_request request = {.code = "1+1",
                                        .code_length = 3,
                                        .meta = "",
                                        .wall_ms = 1000,
                                        .output_bytes = 1000,
                                        .on_done = on_done};
    int before = unit_fd_count(), pair[2];
    struct err e;
    unit_socketpair(pair);
    keeper = pair[0];
    gate.facts = &fake.facts;
    gate.base = event_base_new();
    assert_non_null(gate.base);
    assert_int_equal(link_open(&gate.link, gate.base, pair[1], &e), 0);
    done_calls = 0;
    fault.armed = true;
    struct run *r = run_start(&gate, &request);
    fault.armed = false;
    if (r && r->box_request.ticket)
        say_everything(r->box_request.ticket);
    fault.armed = true;
    for (int i = 0; r && i < 5 && !done_calls; i++)
        (void)event_base_loop(gate.base, EVLOOP_NONBLOCK);
    fault.armed = false;
    if (r)
        assert_int_equal(done_calls, 1); // always, and once
    run_free(r);
    gate_leave(&gate);
    fd_close(&keeper);
    assert_int_equal(unit_fd_count(), before);
}

static void runs_neither_crash_nor_leak_nor_hang(void **state)
{
    (void)state;
    each_fault(do_run);
}

// After a test that failed in the middle.
static int disarm(void **state)
{
    (void)state;
    fault.armed = false;
    return 0;
}

static void be_quiet(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

static int hook(void **state)
{
    (void)state;
    event_set_log_callback(be_quiet); // that memory is out is no news here
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    event_set_mem_functions(__wrap_malloc, __wrap_realloc, __wrap_free);
    json_object_seed(1); // jansson's own, once and for all
    return 0;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, disarm)
    const struct CMUnitTest tests[] = {
        TEST(frames),
        TEST(texts),
        TEST(results_neither_crash_nor_leak),
        TEST(a_result_without_memory_is_not_half_a_result),
        TEST(runs_neither_crash_nor_leak_nor_hang),
    };
    return cmocka_run_group_tests_name("faults", tests, hook, NULL);
}
