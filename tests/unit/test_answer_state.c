// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/tools/answer_state: what a model is told of files, variables, checkpoints and
// lost state, and objects that a hostile box made.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/answer_state.h"
#include "mcp/tools/file_access.h"

static const struct answer_options roomy = {.budget = 20000, .links = true};

// The lines for an object, which is taken.
static char *text_of(const struct answer_options *s, json_t *object)
{
    assert_non_null(object);
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    answer_state_body(f, s, object);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(strlen(text), length);
    assert_int_equal(utf8_valid_length(text, strlen(text)), strlen(text));
    json_decref(object);
    return text;
}

static void expect(json_t *object, const char *wanted)
{
    char *text = text_of(&roomy, object);
    assert_string_equal(text, wanted);
    free(text);
}

static void nothing_is_nothing(void **state)
{
    (void)state;
    expect(json_pack("{s:[], s:[]}", "files", "variables"), "");
    expect(json_object(), "");
    expect(json_pack("{s:s, s:i, s:n}", "files", "x", "variables", 5, "checkpoint"), "");
}

static void files_have_links(void **state)
{
    (void)state;
    json_t *object =
        json_pack("{s:[{s:s, s:i, s:s, s:s, s:n}, {s:s, s:i, s:s, s:s, s:s}, {s:s, s:i, s:s, s:n, "
                  "s:n}], s:i}",
                  "files", "path", "d/a.csv", "size", 999, "mime_type", "text/csv", "uri",
                  "sandbox://s/d/a.csv", "url", "path", "b", "size", 1500000, "mime_type", "x/y",
                  "uri", "sandbox://s/b", "url", "http://h/files/t/b", "path", "c", "size", 1,
                  "mime_type", "x/y", "uri", "url", "files_omitted", 3);
    json_t *links = answer_state_links(object);
    assert_int_equal(json_array_size(links), 2);
    json_t *first = json_array_get(links, 0);
    assert_string_equal(json_string_value(json_object_get(first, "type")), "resource_link");
    assert_string_equal(json_string_value(json_object_get(first, "name")), "a.csv");
    assert_string_equal(json_string_value(json_object_get(first, "title")), "d/a.csv");
    assert_int_equal(json_integer_value(json_object_get(first, "size")), 999);
    json_decref(links);
    expect(object, "files in /mnt/data, new or changed:\n"
                   "- d/a.csv (999 bytes): sandbox://s/d/a.csv\n"
                   "- b (1.5 MB): http://h/files/t/b\n"
                   "- c (1 bytes): not kept\n"
                   "- and 3 that were not kept\n");
}

static void a_file_that_was_not_kept_says_why(void **state)
{
    (void)state;
    json_t *object =
        json_pack("{s:[{s:s, s:i, s:n, s:n, s:{s:s, s:s}}, {s:s, s:i, s:s, s:n, s:{s:s, s:s}}]}",
                  "files", "path", "c", "size", 1, "uri", "url", "error", "code", "disk_full",
                  "message", "'c' was not kept: the disk is full", "path", "d", "size", 2, "uri",
                  "sandbox://s/d", "url", "error", "code", "quota", "message", "too large");
    expect(object, "files in /mnt/data, new or changed:\n"
                   "- c (1 bytes): not kept: 'c' was not kept: the disk is full\n"
                   "- d (2 bytes): sandbox://s/d, has no link: too large\n");
}

static void many_files_are_bounded(void **state)
{
    (void)state;
    json_t *object = json_pack("{s:[]}", "files"), *files = json_object_get(object, "files");
    for (int i = 0; i < 100; i++)
        json_array_append_new(files,
                              json_pack("{s:s, s:i, s:s}", "path", "some/where/name.txt", "size", i,
                                        "uri", "sandbox://s/some/where/name.txt"));
    json_t *links = answer_state_links(object);
    assert_int_equal(json_array_size(links), 20);
    json_decref(links);
    json_incref(object);
    char *text = text_of(&roomy, object);
    assert_non_null(strstr(text, "- and 80 more: see list_files\n"));
    assert_true(strlen(text) < 2200);
    free(text);
    const struct answer_options tight = {.budget = 800};
    text = text_of(&tight, object);
    assert_true(strlen(text) < 200);
    free(text);
}

static void variables_are_one_line(void **state)
{
    (void)state;
    expect(json_pack("{s:s, s:[{s:s, s:s, s:s, s:[i, i]}, {s:s, s:s, s:s}, {s:s, s:s}, "
                     "{s:s, s:s, s:s, s:i}, {s:s, s:s, s:s, s:[i]}, {s:s, s:s, s:s, s:[]}], s:i}",
                     "session", "ses_x", "variables", "name", "df", "change", "added", "type",
                     "pandas.DataFrame", "shape", 1000, 12, "name", "x", "change", "changed",
                     "type", "int", "name", "y", "change", "removed", "name", "l", "change",
                     "added", "type", "list", "length", 3, "name", "v", "change", "added", "type",
                     "numpy.ndarray", "shape", 5, "name", "z", "change", "added", "type",
                     "numpy.ndarray", "shape", "variables_omitted", 4),
           "variables: df DataFrame (1000, 12) added; x int changed; y removed; l list of 3 added; "
           "v ndarray (5,) added; z ndarray () added; 4 more\n");
    // Those of a box that is gone are of no use.
    expect(json_pack("{s:[{s:s, s:s}]}", "variables", "name", "x", "change", "added"), "");
}

static void hostile_variables(void **state)
{
    (void)state;
    json_t *object = json_pack("{s:s, s:[]}", "session", "s", "variables");
    json_t *list = json_object_get(object, "variables");
    char longest[3000];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", "a\nb\x1b[31m", "type",
                                          "evil\r\n.t", "change", longest));
    json_array_append_new(list, json_pack("{s:s, s:s}", "name", longest, "type", longest));
    json_array_append_new(list, json_pack("{s:i, s:n, s:{}}", "name", 5, "type", "shape"));
    json_array_append_new(list, json_string("not even an object"));
    char *text = text_of(&roomy, object);
    assert_true(strlen(text) < 1500);
    assert_null(strchr(text, '\x1b'));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(text);
}

static void checkpoints(void **state)
{
    (void)state;
    expect(json_pack("{s:{s:s, s:s, s:i}}", "checkpoint", "state", "made", "name", "one",
                     "available", 2),
           "checkpoint 'one' made; 2 to go back to\n");
    expect(json_pack("{s:{s:s, s:s}}", "checkpoint", "state", "unavailable", "reason",
                     "2 threads\nrun"),
           "checkpoint unavailable: 2 threads?run\n");
    expect(json_pack("{s:{s:s, s:s}}", "checkpoint", "state", "unavailable", "reason",
                     "checkpoint unavailable: 2 threads run"),
           "checkpoint unavailable: 2 threads run\n");
    expect(json_pack("{s:{s:s, s:s, s:i}}", "checkpoint", "state", "made", "name", "one",
                     "available", 0),
           "checkpoint 'one' made\n");
    expect(json_pack("{s:{s:s}}", "checkpoint", "state", "restored"),
           "checkpoint restored: variables and files are as they were then\n");
    expect(json_pack("{s:{s:i}}", "checkpoint", "state", 5), "");
}

static char *written(void (*write)(FILE *f, json_t *object), json_t *object)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    write(f, object);
    assert_int_equal(fclose(f), 0);
    json_decref(object);
    return text;
}

static void refusals_are_a_line_each(void **state)
{
    (void)state;
    expect(json_pack("{s:[{s:s, s:s, s:s, s:s, s:s, s:i}, {s:s, s:s}], s:i, s:s}",
                     "security_events", "kind", "network", "action", "connect", "target",
                     "a.test:443", "reason", "not_allowed", "hint", "ask for a.test", "count", 3,
                     "action", "resolve", "target", "b\033[2J.test", "security_events_omitted", 2,
                     "network_error", "no report"),
           "refused: connecting to a.test:443 was refused (not_allowed), 3 times; ask for a.test\n"
           "refused: looking up b?[2J.test was refused\n"
           "refused: 2 more: see security_events\n"
           "network: no report\n");
    json_t *object = json_pack("{s:[]}", "security_events");
    for (int i = 0; i < 32; i++)
        json_array_append_new(
            json_object_get(object, "security_events"),
            json_pack("{s:s, s:s}", "action", "connect", "target", "some.where.example.org:443"));
    char *text = text_of(&(struct answer_options){.budget = 1000}, object);
    assert_true(strlen(text) < 400);
    assert_non_null(strstr(text, " more: see security_events\n"));
    free(text);
}

static void foot(FILE *f, json_t *object)
{
    answer_state_foot(f, object, ", ");
}

static void lost_state_is_said_first(void **state)
{
    (void)state;
    char *text =
        written(answer_state_head, json_pack("{s:s, s:s, s:s}", "session", "ses_x", "session_name",
                                             "mine", "session_state", "lost"));
    assert_string_equal(
        text, "state lost: session 'mine' has ended with this run, and its variables are gone\n");
    free(text);
    text = written(answer_state_head,
                   json_pack("{s:s, s:s}", "session", "ses_x", "session_state", "open"));
    assert_string_equal(text, "");
    free(text);
    text = written(foot, json_pack("{s:s, s:n, s:s, s:i}", "session", "ses_x", "session_name",
                                   "session_state", "new", "execution_count", 3));
    assert_string_equal(text, ", session 'ses_x' (new) #3");
    free(text);
    text = written(foot, json_object());
    assert_string_equal(text, "");
    free(text);
}

// ---- small things -------------------------------------------------------------------------------

static void sizes_in_words(void **state)
{
    static const struct {
        uint64_t size;
        const char *text;
    } table[] = {{0, "0 bytes"},      {999, "999 bytes"},     {1000, "1.0 kB"},
                 {1536000, "1.5 MB"}, {1ULL << 50, "1.1 PB"}, {UINT64_MAX, "18446.7 PB"}};
    char buf[FILE_SIZE_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        file_describe_size(table[i].size, buf);
        assert_string_equal(buf, table[i].text);
    }
}

static void bounds_of_the_configuration(void **state)
{
    struct config c = {.wall_ms = 90000,
                       .timeout_max_ms = 60000,
                       .cpu_ms = 1500,
                       .origins[CONFIG_KEY_cpu_ms].source = CONFIG_FROM_FLAG,
                       .memory_bytes = 64 << 20,
                       .memory_max_bytes = 32 << 20};
    (void)state;
    assert_int_equal(config_wall_max_ms(&c), 90000);
    assert_int_equal(bounds_timeout_ms(&c, false), 50000);
    assert_int_equal(bounds_timeout_ms(&c, true), 90000);
    assert_int_equal(bounds_memory_max(&c), 64 << 20);
    json_t *schema =
        json_pack("{s:{s:{}, s:{}, s:{}}}", "properties", "timeout", "cpu_seconds", "memory_mb");
    assert_int_equal(bounds_adapt(&c, schema, true), 0);
    json_t *cpu = json_object_get(json_object_get(schema, "properties"), "cpu_seconds");
    assert_true(json_real_value(json_object_get(cpu, "default")) == 1.5);
    assert_int_equal(json_integer_value(json_object_get(cpu, "maximum")), 90);
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(files_have_links),
        cmocka_unit_test(a_file_that_was_not_kept_says_why),
        cmocka_unit_test(many_files_are_bounded),
        cmocka_unit_test(variables_are_one_line),
        cmocka_unit_test(hostile_variables),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(lost_state_is_said_first),
        cmocka_unit_test(sizes_in_words),
        cmocka_unit_test(bounds_of_the_configuration),
        cmocka_unit_test(refusals_are_a_line_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
