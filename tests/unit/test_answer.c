// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/tools/answer: the order of what is said, the budget, what stays of a text that
// is too long, and objects that a hostile box made.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "mcp/tools/answer.h"

#define ID "11111111-2222-4333-8444-555555555555"

static struct {
    int calls;
    bool refuse;
    size_t length[OUTPUT_PART_MAX];
} kept;

static bool keep(void *argument, enum output_part part, const char *mime_type, const char *text,
                 size_t length, char ret_uri[OUTPUT_URI_MAX])
{
    (void)argument;
    (void)mime_type;
    (void)text;
    kept.calls++;
    kept.length[part] = length;
    mcp_outputs_uri(ID, part, ret_uri);
    return !kept.refuse;
}

static int begin(void **state)
{
    (void)state;
    memset(&kept, 0, sizeof kept);
    return 0;
}

static json_t *object_of(const char *verdict, json_t *out, json_t *err, json_t *result,
                         json_t *error)
{
    json_t *o =
        json_pack("{s:s, s:s, s:b, s:o, s:n, s:s, s:o, s:o, s:o, s:o, s:{s:f, s:f, s:f, s:i, s:i}, "
                  "s:{}, s:n}",
                  "execution_id", ID, "verdict", verdict, "success", strcmp(verdict, "ok") == 0,
                  "exit_code", json_integer(strcmp(verdict, "ok") != 0), "signal", "phase",
                  "execution", "stdout", out, "stderr", err, "result", result, "error", error,
                  "usage", "wall_ms", 1.25, "cpu_user_ms", 1.0, "cpu_system_ms", 0.5,
                  "peak_memory_bytes", 3 << 20, "processes", 1, "truncated", "hint");
    assert_non_null(o);
    return o;
}

static json_t *repeat(const char *piece, size_t count)
{
    size_t length = strlen(piece);
    char *text = malloc(length * count + 1);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * length, piece, length);
    json_t *s = json_stringn(text, length * count);
    free(text);
    assert_non_null(s);
    return s;
}

// Lines that are numbered, so that one sees which are left.
static json_t *lines(unsigned count)
{
    char *text = malloc(count * 16 + 1);
    size_t at = 0;
    assert_non_null(text);
    for (unsigned i = 1; i <= count; i++)
        at += (size_t)snprintf(text + at, 16, "line %u\n", i);
    json_t *s = json_stringn(text, at);
    free(text);
    return s;
}

static const char *text_of(json_t *content)
{
    json_t *block = json_array_get(content, 0);
    assert_string_equal(json_string_value(json_object_get(block, "type")), "text");
    json_t *text = json_object_get(block, "text");
    assert_int_equal(strlen(json_string_value(text)), json_string_length(text)); // no NUL
    assert_int_equal(utf8_valid_length(json_string_value(text), json_string_length(text)),
                     json_string_length(text));
    return json_string_value(text);
}

static void assert_begins(const char *text, const char *wanted)
{
    if (strncmp(text, wanted, strlen(wanted)) != 0)
        print_message("%s\n", text);
    assert_int_equal(strncmp(text, wanted, strlen(wanted)), 0);
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static json_t *answer(json_t *object, size_t budget, bool links)
{
    struct answer_options s = {.budget = budget, .links = links, .keep = keep, .details = true};
    json_t *content = answer_make(&s, object);
    assert_non_null(content);
    return content;
}

// ---- what is said, and in which order -----------------------------------------------------------

static void test_everything_is_there(void **state)
{
    (void)state;
    json_t *o =
        object_of("ok", json_string("out\n"), json_string("err"), json_string("42"), json_null());
    json_t *content = answer(o, 20000, true);
    assert_string_equal(
        text_of(content),
        "stdout:\nout\nstderr:\nerr\nresult: 42\n[ok, exit code 0, wall 1.2 ms, cpu "
        "1.5 ms, peak memory 3.0 MiB, processes 1, run " ID "]");
    assert_int_equal(json_array_size(content), 1);
    assert_int_equal(json_object_size(json_object_get(o, "truncated")), 0);
    assert_int_equal(kept.calls, 0);
    json_decref(content);
    json_decref(o);
}

static void test_nothing_is_said_too(void **state)
{
    (void)state;
    json_t *o = object_of("ok", json_string(""), json_string(""), json_null(), json_null());
    json_t *content = answer(o, 20000, true);
    assert_non_null(strstr(text_of(content), "no output\n[ok"));
    json_decref(content);
    json_decref(o);
}

static json_t *error_object(json_t *message, json_t *text)
{
    return json_pack("{s:s, s:o, s:i, s:i, s:s, s:[], s:o, s:n}", "type", "ValueError", "message",
                     message, "line", 3, "column", 1, "code_line", "    int('x')", "traceback",
                     "text", text, "errno");
}

static void test_an_error_comes_first(void **state)
{
    (void)state;
    json_t *o =
        object_of("error", json_string("out\n"), json_string(""), json_null(),
                  error_object(json_string("bad\nsecond line"), json_string("Traceback\n")));
    (void)json_object_set_new(o, "hint", json_string("do less"));
    json_t *content = answer(o, 20000, true);
    const char *text = text_of(content);
    assert_begins(text, "line 3: int('x')\nValueError: bad\xe2\x80\xa6\nhint: do less\n");
    assert_true(strstr(text, "traceback:\nTraceback\n") < strstr(text, "stdout:\nout\n"));
    assert_non_null(strstr(text, "\n[error, exit code 1"));
    json_decref(content);
    json_decref(o);
}

static void test_a_stopped_run_says_why(void **state)
{
    (void)state;
    json_t *o = object_of("timeout_wall", json_string("partial"), json_string(""), json_null(),
                          json_null());
    (void)json_object_set_new(o, "exit_code", json_null());
    (void)json_object_set_new(o, "hint", json_string("stopped after 2s of wall time"));
    json_t *content = answer(o, 20000, true);
    assert_begins(text_of(content),
                  "timeout_wall\nhint: stopped after 2s of wall time\nstdout:\npartial\n");
    json_decref(content);
    (void)json_object_set_new(o, "signal", json_integer(11));
    content = answer(o, 20000, true);
    assert_begins(text_of(content), "timeout_wall: signal 11\n");
    json_decref(content);
    json_decref(o);
}

// ---- long texts ---------------------------------------------------------------------------------

static void test_a_long_text_keeps_head_and_tail(void **state)
{
    (void)state;
    json_t *out = lines(10000);
    size_t total = json_string_length(out);
    json_t *o = object_of("ok", out, json_string(""), json_string("1"), json_null());
    json_t *content = answer(o, 2000, true);
    const char *text = text_of(content), *note = strstr(text, "[\xe2\x80\xa6 ");
    assert_non_null(note);
    assert_in_range(characters(text), 1500, 2000);
    assert_begins(text, "stdout:\nline 1\nline 2\n");
    assert_non_null(strstr(text, "line 10000\nresult: 1\n[ok"));
    assert_non_null(strstr(note, "characters left out; full text: run://" ID "/stdout]\nline "));
    assert_int_equal(note[-1], '\n');
    // the first 40 %, the last 60 %
    size_t head = (size_t)(note - text), tail = strlen(strchr(note, '\n'));
    assert_in_range(head * 100 / (head + tail), 30, 45);
    // the object says the same, and where the rest is
    json_t *cut = json_object_get(json_object_get(o, "truncated"), "stdout");
    assert_int_equal(json_integer_value(json_object_get(cut, "total")), total);
    assert_string_equal(json_string_value(json_object_get(cut, "full_output_uri")),
                        "run://" ID "/stdout");
    size_t left = strtoul(note + 5, NULL, 10);
    assert_int_equal(json_integer_value(json_object_get(cut, "kept")), total - left);
    assert_true(json_string_length(json_object_get(o, "stdout")) < 2000);
    assert_int_equal(kept.length[OUTPUT_STDOUT], total);
    // and a link
    assert_int_equal(json_array_size(content), 2);
    json_t *link = json_array_get(content, 1);
    assert_string_equal(json_string_value(json_object_get(link, "type")), "resource_link");
    assert_int_equal(json_integer_value(json_object_get(link, "size")), total);
    json_decref(content);
    json_decref(o);
}

static void test_without_links(void **state)
{
    (void)state;
    json_t *o = object_of("ok", lines(1000), json_string(""), json_null(), json_null());
    json_t *content = answer(o, 2000, false);
    assert_int_equal(json_array_size(content), 1);
    assert_non_null(strstr(text_of(content), "run://" ID "/stdout"));
    json_decref(content);
    json_decref(o);
}

static void test_what_could_not_be_kept_is_said(void **state)
{
    (void)state;
    kept.refuse = true;
    json_t *o = object_of("ok", lines(1000), json_string(""), json_null(), json_null());
    json_t *content = answer(o, 2000, true);
    assert_int_equal(json_array_size(content), 1);
    assert_non_null(strstr(text_of(content), "left out; they could not be kept]"));
    assert_null(strstr(text_of(content), "run://"));
    json_t *cut = json_object_get(json_object_get(o, "truncated"), "stdout");
    assert_true(json_is_null(json_object_get(cut, "full_output_uri")));
    json_decref(content);
    json_decref(o);
}

// One line without an end, and then the one that matters.
static void test_the_last_line_stays(void **state)
{
    (void)state;
    for (size_t last = 1; last < 1500; last += 50) {
        json_t *head = repeat("x", 50000), *tail = repeat("y", last);
        json_t *out = json_sprintf("%s\n%s\n", json_string_value(head), json_string_value(tail));
        json_t *o = object_of("ok", out, json_string(""), json_null(), json_null());
        json_t *content = answer(o, 2000, true);
        assert_non_null(strstr(text_of(content), json_string_value(tail)));
        assert_true(characters(text_of(content)) <= 2000);
        json_decref(content);
        json_decref(o);
        json_decref(head);
        json_decref(tail);
    }
}

static void test_characters_are_not_cut(void **state)
{
    static const char *const pieces[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                         "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        for (size_t budget = 1500; budget < 1520; budget++) {
            json_t *o = object_of("ok", repeat(pieces[i], 5000), repeat(pieces[i], 5000),
                                  json_null(), json_null());
            json_t *content = answer(o, budget, true);
            assert_true(characters(text_of(content)) <= budget);
            assert_in_range(characters(text_of(content)), budget - 200, budget);
            json_decref(content);
            json_decref(o);
        }
}

// A short section leaves its part to the long ones.
static void test_sections_share_the_budget(void **state)
{
    (void)state;
    json_t *o = object_of("ok", repeat("o", 100000), json_string("short"), repeat("r", 100000),
                          json_null());
    json_t *content = answer(o, 10000, true);
    const char *text = text_of(content);
    assert_non_null(strstr(text, "stderr:\nshort\n"));
    size_t out = 0, result = 0;
    for (const char *p = text; *p; p++) {
        out += *p == 'o';
        result += *p == 'r';
    }
    assert_in_range(out, 4500, 5100);
    assert_in_range(result, 4500, 5100);
    assert_int_equal(json_array_size(content), 3);
    json_decref(content);
    json_decref(o);
}

static void test_every_budget_is_kept(void **state)
{
    (void)state;
    for (size_t budget = 500; budget < 5000; budget += budget < 1100 ? 7 : 211) {
        json_t *o =
            object_of("too_many_processes", lines(3000), repeat("e", 30000), repeat("r", 30000),
                      error_object(repeat("m", 8000), repeat("Traceback\n", 3000)));
        (void)json_object_set_new(o, "hint", repeat("h", 400));
        json_t *content = answer(o, budget, true);
        if (characters(text_of(content)) > budget)
            print_message("%zu: %s\n", budget, text_of(content));
        assert_true(characters(text_of(content)) <= budget);
        assert_non_null(strstr(text_of(content), "run " ID));
        char *all = json_dumps(o, JSON_COMPACT);
        assert_true(strlen(all) < 4 * budget + 2000);
        free(all);
        json_decref(content);
        json_decref(o);
    }
}

// The run's own limit had cut it before; that total counts more.
static void test_totals_of_the_run_stay(void **state)
{
    (void)state;
    json_t *o = object_of("output_limit", lines(1000), json_string(""), json_null(), json_null());
    (void)json_object_set_new(
        o, "truncated", json_pack("{s:{s:i, s:i}}", "stdout", "kept", 8893, "total", 1234567));
    json_t *content = answer(o, 2000, true);
    json_t *cut = json_object_get(json_object_get(o, "truncated"), "stdout");
    assert_int_equal(json_integer_value(json_object_get(cut, "total")), 1234567);
    assert_true(json_integer_value(json_object_get(cut, "kept")) < 2000);
    json_decref(content);
    json_decref(o);
}

static void test_a_run_that_goes_on(void **state)
{
    (void)state;
    json_t *o = json_pack("{s:s, s:s, s:f, s:s, s:s, s:{}}", "execution_id", ID, "state", "running",
                          "elapsed_ms", 3200.0, "stdout", "so far\n", "stderr", "", "truncated");
    json_t *content = answer(o, 2000, true);
    assert_string_equal(text_of(content),
                        "running for 3.2 s\nstdout:\nso far\n[still running, run " ID "]");
    json_decref(content);
    json_decref(o);
}

// ---- hostile ------------------------------------------------------------------------------------

static void test_control_characters_are_shown(void **state)
{
    (void)state;
    json_t *o = object_of("ok", json_stringn("a\0b\x1b[31m\tc\r\n\x7f\xc2\x9b", 15),
                          json_string(""), json_null(), json_null());
    json_t *content = answer(o, 2000, true);
    assert_begins(text_of(content), "stdout:\na\xe2\x90\x80"
                                    "b\xe2\x90\x9b[31m\tc\r\n\xe2\x90\xa1\xef\xbf\xbd\n");
    // For programs only what cannot be carried is changed.
    assert_string_equal(json_string_value(json_object_get(o, "stdout")),
                        "a\xe2\x90\x80"
                        "b\x1b[31m\tc\r\n\x7f\xc2\x9b");
    json_decref(content);
    json_decref(o);
}

static void test_a_hostile_report_is_bounded(void **state)
{
    (void)state;
    json_t *frames = json_array();
    for (int i = 0; i < 1000; i++)
        (void)json_array_append_new(frames,
                                    json_pack("{s:o, s:i}", "file", repeat("f", 500), "line", i));
    json_t *error =
        json_pack("{s:o, s:o, s:n, s:n, s:o, s:o, s:o, s:n}", "type", repeat("T", 500000),
                  "message", repeat("m", 500000), "line", "column", "code_line",
                  repeat("c", 500000), "traceback", frames, "text", repeat("t", 500000), "errno");
    json_t *o = object_of("error", json_string(""), json_string(""), json_null(), error);
    (void)json_object_set_new(o, "result_json", repeat("j", 500000));
    json_t *content = answer(o, 5000, true);
    assert_true(characters(text_of(content)) <= 5000);
    char *all = json_dumps(o, JSON_COMPACT);
    assert_true(strlen(all) < 20000);
    free(all);
    json_t *truncated = json_object_get(o, "truncated");
    assert_non_null(json_object_get(truncated, "result_json"));
    assert_null(json_object_get(o, "result_json"));
    json_t *left = json_object_get(error, "traceback");
    assert_in_range(json_array_size(left), 1, 10);
    // the innermost ones
    assert_int_equal(json_integer_value(
                         json_object_get(json_array_get(left, json_array_size(left) - 1), "line")),
                     999);
    assert_non_null(
        strstr(json_string_value(json_object_get(error, "message")), "characters left out]"));
    json_decref(content);
    json_decref(o);
}

// ---- what was shown -----------------------------------------------------------------------------

#define PNG_4X3                                                                                    \
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAAAAACRn/EaAAAAC0lEQVR4nGNgQAEAAA8AAbVWKT4AAAAASUVORK5CYII="

static json_t *showing(json_t *display, json_t *originals)
{
    json_t *o = object_of("ok", json_string(""), json_string(""), json_null(), json_null());
    (void)json_object_set_new(o, "display", display);
    if (originals)
        (void)json_object_set_new(o, "display_originals", originals);
    return o;
}

static const char *type_at(json_t *content, size_t i)
{
    return json_string_value(json_object_get(json_array_get(content, i), "type"));
}

static void test_a_picture_is_a_block_and_a_line(void **state)
{
    (void)state;
    json_t *o = showing(json_pack("[{s:s}]", "image/png", PNG_4X3), NULL);
    json_t *content = answer(o, 20000, true);
    assert_begins(text_of(content), "[image 1: image/png, 4x3, 68 bytes]\n[ok");
    assert_int_equal(json_array_size(content), 2); // nothing to link to that is not here
    assert_string_equal(type_at(content, 1), "image");
    json_t *item = json_array_get(json_object_get(o, "display"), 0);
    assert_int_equal(json_integer_value(json_object_get(item, "width")), 4);
    assert_string_equal(json_string_value(json_object_get(item, "uri")), "run://" ID "/display-1");
    assert_null(json_object_get(item, "image/png"));
    assert_int_equal(kept.length[OUTPUT_DISPLAY], strlen(PNG_4X3));
    json_decref(content);
    json_decref(o);
}

static void test_an_original_is_linked(void **state)
{
    (void)state;
    json_t *o = showing(json_pack("[{s:s}, {s:s}]", "text/plain", "x", "image/png", PNG_4X3),
                        json_pack("[{s:i, s:s}]", "item", 1, "image/png", PNG_4X3));
    json_t *content = answer(o, 20000, true);
    assert_non_null(
        strstr(text_of(content), "68 bytes; in full size, 4x3: run://" ID "/display-2]"));
    assert_int_equal(json_array_size(content), 3);
    assert_string_equal(type_at(content, 2), "resource_link");
    assert_null(json_object_get(o, "display_originals"));
    assert_int_equal(kept.calls, 1); // a text that is there as a whole is not kept
    json_decref(content);
    json_decref(o);
}

static void test_documents_are_said_in_words(void **state)
{
    (void)state;
    json_t *o =
        showing(json_pack("[{s:s, s:s}, {s:s, s:s}, {s:o}, {s:s}]", "text/html", "<b>1</b>",
                          "text/plain", "one\x1b", "text/html", "<i>2</i>", "text/plain",
                          "<a.B object>", "text/html", repeat("x", 5000), "text/latex", "$x$"),
                NULL);
    json_t *content = answer(o, 20000, false);
    const char *text = text_of(content);
    assert_non_null(strstr(text, "[display 1: text/html, 8 bytes: run://" ID "/display-1]\none"));
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "[display 2: text/html, 8 bytes]\n<i>2</i>\n"));
    assert_non_null(
        strstr(text, "[display 3: text/html, 5.0 kB: run://" ID "/display-3]\n[display"));
    assert_non_null(strstr(text, "[display 4: text/latex, 3 bytes]\n$x$\n"));
    assert_int_equal(json_array_size(content), 1);
    json_decref(content);
    json_decref(o);
}

// `points` numbers make it small or large.
static json_t *figure(size_t points, const char *with, const char *text)
{
    json_t *numbers = json_array();
    for (size_t i = 0; i < points; i++)
        (void)json_array_append_new(numbers, json_integer((json_int_t)i));
    json_t *chart = json_pack("{s:s, s:o}", "summary", "line chart\x1b\naxes: x", "y", numbers);
    char *json = json_dumps(chart, JSON_COMPACT);
    json_t *o = showing(json_pack("[{s:s, s:s}]", with, text, DISPLAY_CHART, json), NULL);
    free(json);
    json_decref(chart);
    return o;
}

static void test_a_figure_is_said_in_words(void **state)
{
    (void)state;
    json_t *o = figure(3, "image/png", PNG_4X3), *content = answer(o, 20000, true);
    assert_begins(text_of(content), "[image 1: image/png, 4x3, 68 bytes]\nline chart");
    assert_null(strchr(text_of(content), '\x1b'));
    json_t *item = json_array_get(json_object_get(o, "display"), 0);
    json_t *chart = json_object_get(item, "chart");
    assert_int_equal(json_array_size(json_object_get(chart, "y")), 3);
    assert_int_equal(json_array_size(content), 2);
    json_decref(content);
    json_decref(o);
}

static void test_a_figure_that_is_the_result_is_said_once(void **state)
{
    (void)state;
    json_t *o = figure(3, "image/png", PNG_4X3);
    json_t *item = json_array_get(json_object_get(o, "display"), 0);
    (void)json_object_set_new(item, "text/plain", json_string("line chart\naxes: x"));
    (void)json_object_set_new(o, "result", json_string("Figure(...)"));
    (void)json_object_set_new(o, "display_value", json_integer(0));
    json_t *content = answer(o, 20000, true);
    const char *said = strstr(text_of(content), "line chart");
    assert_non_null(said);
    assert_null(strstr(said + 1, "line chart"));
    json_decref(content);
    json_decref(o);
}

static void test_much_data_is_linked(void **state)
{
    (void)state;
    json_t *o = figure(2000, "image/png", PNG_4X3), *content = answer(o, 20000, true);
    json_t *item = json_array_get(json_object_get(o, "display"), 0);
    assert_non_null(strstr(text_of(content), "[data of figure 1: run://" ID "/chart-1]\n"));
    assert_null(json_object_get(item, "chart"));
    assert_string_equal(json_string_value(json_object_get(item, "chart_uri")),
                        "run://" ID "/chart-1");
    assert_int_equal(json_array_size(content), 3);
    assert_string_equal(type_at(content, 2), "resource_link");
    json_decref(content);
    json_decref(o);
    // What a document says about itself is enough.
    o = figure(3, "text/plain", "words");
    content = answer(o, 20000, true);
    assert_non_null(strstr(text_of(content), "words\n"));
    assert_null(strstr(text_of(content), "line chart"));
    json_decref(content);
    json_decref(o);
}

static void test_a_table_takes_the_place_of_its_repr(void **state)
{
    (void)state;
    for (size_t longer = 0; longer < 2; longer++) {
        json_t *o = showing(
            json_pack("[{s:s, s:s}]", "text/html", "<table>", DISPLAY_TABLE, "DataFrame: 2 rows"),
            NULL);
        (void)json_object_set_new(o, "display_value", json_integer(0));
        (void)json_object_set_new(o, "result",
                                  longer ? repeat("repr ", 20000) : json_string("repr"));
        json_t *content = answer(o, 2000, true);
        assert_begins(text_of(content), "result: DataFrame: 2 rows\n[display 1: text/html");
        assert_null(strstr(text_of(content), "repr"));
        assert_null(strstr(strstr(text_of(content), "[display"), "DataFrame"));
        size_t length = json_string_length(json_object_get(o, "result"));
        assert_in_range(length, 4, 1100);
        json_t *cut = json_object_get(json_object_get(o, "truncated"), "result");
        assert_int_equal(json_is_object(cut), longer);
        assert_null(json_object_get(o, "display_value"));
        json_decref(content);
        json_decref(o);
    }
}

static void test_many_are_bounded(void **state)
{
    (void)state;
    for (size_t budget = 200; budget <= 5000; budget += 300) {
        json_t *list = json_array();
        for (int i = 0; i < 20; i++)
            (void)json_array_append_new(
                list, i % 2 ? json_pack("{s:s}", "image/png", PNG_4X3)
                            : json_pack("{s:o}", "text/plain", repeat("word ", 1000)));
        json_t *o = showing(list, NULL);
        (void)json_object_set_new(o, "stdout", lines(2000));
        (void)json_object_set_new(o, "display_omitted", json_integer(5));
        json_t *content = answer(o, budget, true);
        if (budget >= 500)
            assert_in_range(characters(text_of(content)), 1, budget + 60);
        assert_non_null(strstr(text_of(content), "[5 more left out: too many or too large]"));
        json_decref(content);
        json_decref(o);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_everything_is_there),
        TEST(test_nothing_is_said_too),
        TEST(test_an_error_comes_first),
        TEST(test_a_stopped_run_says_why),
        TEST(test_a_long_text_keeps_head_and_tail),
        TEST(test_without_links),
        TEST(test_what_could_not_be_kept_is_said),
        TEST(test_the_last_line_stays),
        TEST(test_characters_are_not_cut),
        TEST(test_sections_share_the_budget),
        TEST(test_every_budget_is_kept),
        TEST(test_totals_of_the_run_stay),
        TEST(test_a_run_that_goes_on),
        TEST(test_control_characters_are_shown),
        TEST(test_a_hostile_report_is_bounded),
        TEST(test_a_picture_is_a_block_and_a_line),
        TEST(test_an_original_is_linked),
        TEST(test_a_figure_is_said_in_words),
        TEST(test_a_figure_that_is_the_result_is_said_once),
        TEST(test_much_data_is_linked),
        TEST(test_a_table_takes_the_place_of_its_repr),
        TEST(test_documents_are_said_in_words),
        TEST(test_many_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
