// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/display: what a run has shown, as a hostile box may report it.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "run/display.h"

static struct fake_run fake;

static int begin(void **state)
{
    (void)state;
    fake_run_init(&fake);
    return fake.run.output[0] && fake.run.output[1] ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    fake_run_free(&fake);
    return 0;
}

static void set_result(const char *json)
{
    fake_run_result(&fake, json, strlen(json));
}

// The caller frees.
static json_t *object(void)
{
    struct result res;
    result_judge(&fake.run, &res);
    json_t *o = result_json(&fake.run, &res, "an id");
    assert_non_null(o);
    return o;
}

#define PNG_4X3                                                                                    \
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAAAAACRn/EaAAAAC0lEQVR4nGNgQAEAAA8AAbVWKT4AAAAASUVORK5CYII="
#define PNG_0X3                                                                                    \
    "iVBORw0KGgoAAAANSUhEUgAAAAAAAAADCAAAAACRn/EaAAAAC0lEQVR4nGNgQAEAAA8AAbVWKT4AAAAASUVORK5CYII="
#define PNG_70000X3                                                                                \
    "iVBORw0KGgoAAAANSUhEUgABEXAAAAADCAAAAACRn/EaAAAAC0lEQVR4nGNgQAEAAA8AAbVWKT4AAAAASUVORK5CYII="
#define JPEG_6X5 "/9j/4AAEAAD/wAALCAAFAAYBAQEB"

static const struct display_case {
    const char *name, *report;
    const char *display; // what is left of it
    int omitted;
} shown[] = {
    {"nothing", "{}", "[]", 0},
    {"a picture and its text",
     "{\"display\": [{\"image/png\": \"" PNG_4X3 "\", \"text/plain\": \"x\"}]}",
     "[{\"image/png\": \"" PNG_4X3 "\", \"text/plain\": \"x\"}]", 0},
    {"JPEG", "{\"display\": [{\"image/jpeg\": \"" JPEG_6X5 "\"}]}",
     "[{\"image/jpeg\": \"" JPEG_6X5 "\"}]", 0},
    {"counted by the box", "{\"display_omitted\": 7}", "[]", 7},
    {"a count below zero", "{\"display_omitted\": -7}", "[]", 0},
    {"a count beyond belief", "{\"display_omitted\": 9223372036854775807}", "[]", 0},
    {"a count that is none", "{\"display_omitted\": \"7\"}", "[]", 0},
    {"no list", "{\"display\": {\"text/html\": \"x\"}}", "[]", 0},
    {"no objects", "{\"display\": [1, null, \"x\", [], [[]]]}", "[]", 5},
    {"empty", "{\"display\": [{}]}", "[]", 1},
    {"no text", "{\"display\": [{\"text/html\": 1, \"a/b\": [], \"c/d\": null, \"e/f\": {}}]}",
     "[]", 1},
    {"one of two", "{\"display\": [{\"text/html\": 1, \"a/b\": \"c\"}]}", "[{\"a/b\": \"c\"}]", 0},
    {"no MIME types",
     "{\"display\": [{\"\": \"x\", \"a\": \"x\", \"/\": \"x\", \"a/\": \"x\", \"/b\": \"x\", "
     "\"A/b\": \"x\", \"a/B\": \"x\", \"a/b c\": \"x\", \"a/b/c\": \"x\", \"a/b\\n\": \"x\", "
     "\"a/<b>\": \"x\", \"a1/b\": \"x\"}]}",
     "[]", 1},
    {"odd but right", "{\"display\": [{\"image/svg+xml\": \"x\", \"a/vnd.b-c.1+json\": \"\"}]}",
     "[{\"image/svg+xml\": \"x\", \"a/vnd.b-c.1+json\": \"\"}]", 0},
    {"no base64", "{\"display\": [{\"image/png\": \"<script>\"}]}", "[]", 1},
    {"base64 with a line feed", "{\"display\": [{\"image/png\": \"" PNG_4X3 "\\n\"}]}", "[]", 1},
    {"base64 with a NUL", "{\"display\": [{\"image/png\": \"" PNG_4X3 "\\u0000AAA\"}]}", "[]", 1},
    {"base64 of something else", "{\"display\": [{\"image/png\": \"AAAA\"}]}", "[]", 1},
    {"no bytes", "{\"display\": [{\"image/png\": \"\", \"image/jpeg\": \"\"}]}", "[]", 1},
    {"JPEG as PNG", "{\"display\": [{\"image/png\": \"" JPEG_6X5 "\"}]}", "[]", 1},
    {"PNG as JPEG", "{\"display\": [{\"image/jpeg\": \"" PNG_4X3 "\"}]}", "[]", 1},
    {"JPEG that only begins", "{\"display\": [{\"image/jpeg\": \"/9j/4AAEAAD/2P/Y\"}]}", "[]", 1},
    {"no width", "{\"display\": [{\"image/png\": \"" PNG_0X3 "\"}]}", "[]", 1},
    {"too wide", "{\"display\": [{\"image/png\": \"" PNG_70000X3 "\"}]}", "[]", 1},
    {"too many types",
     "{\"display\": "
     "[{\"a/a\":\"\",\"a/b\":\"\",\"a/c\":\"\",\"a/d\":\"\",\"a/e\":\"\",\"a/f\":\"\","
     "\"a/g\":\"\",\"a/h\":\"\",\"a/i\":\"\",\"a/j\":\"\",\"a/k\":\"\",\"a/l\":\"\",\"a/m\":\"\","
     "\"a/n\":\"\",\"a/o\":\"\",\"a/p\":\"\",\"a/q\":\"\"}]}",
     "[]", 1},
    {"a chart", "{\"display\": [{\"" DISPLAY_CHART "\": \"{\\\"type\\\": 1}\"}]}",
     "[{\"" DISPLAY_CHART "\": \"{\\\"type\\\": 1}\"}]", 0},
    {"a chart that is a list", "{\"display\": [{\"" DISPLAY_CHART "\": \"[]\"}]}", "[]", 1},
    {"a chart that is no JSON", "{\"display\": [{\"" DISPLAY_CHART "\": \"{\"}]}", "[]", 1},
    {"a chart of nothing", "{\"display\": [{\"" DISPLAY_CHART "\": \"\"}]}", "[]", 1},
};

static void what_was_shown_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        set_result(shown[i].report);
        json_t *o = object(), *wanted = json_loads(shown[i].display, 0, NULL);
        assert_non_null(wanted);
        if (!json_equal(json_object_get(o, "display"), wanted) ||
            json_integer_value(json_object_get(o, "display_omitted")) != shown[i].omitted)
            fail_msg("%s: %s", shown[i].name, json_dumps(json_object_get(o, "display"), 0));
        json_decref(wanted);
        json_decref(o);
    }
}

static void originals_belong_to_items(void **state)
{
    (void)state;
    // The first item is dropped, so the second becomes the first; other originals have no item.
    set_result("{\"display\": [{}, {\"image/png\": \"" PNG_4X3 "\"}], \"display_originals\": ["
               "{\"item\": 0, \"image/png\": \"" PNG_4X3 "\"},"
               "{\"item\": 1, \"image/jpeg\": \"" JPEG_6X5 "\", \"text/html\": \"x\"},"
               "{\"item\": 2, \"image/png\": \"" PNG_4X3 "\"},"
               "{\"item\": -1, \"image/png\": \"" PNG_4X3 "\"},"
               "{\"item\": 4294967297, \"image/png\": \"" PNG_4X3 "\"},"
               "{\"item\": \"1\", \"image/png\": \"" PNG_4X3 "\"},"
               "{\"image/png\": \"" PNG_4X3 "\"}, {\"item\": 1, \"image/png\": \"AAAA\"}, 7]}");
    json_t *o = object();
    struct picture p;
    assert_int_equal(json_array_size(json_object_get(o, "display_originals")), 1);
    assert_true(display_picture(display_original(o, 0), &p));
    assert_string_equal(p.mime_type, "image/jpeg");
    assert_int_equal(p.width, 6);
    assert_int_equal(p.height, 5);
    assert_null(display_original(o, 1));
    json_decref(o);
}

// The number of an item that is not taken counts for nothing, and others move up.
static void the_value_is_one_of_the_items(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int wanted;
    } numbers[] = {{"1", 0},   {"2", 1},           {"0", -1},     {"3", -1},
                   {"-1", -1}, {"4294967297", -1}, {"\"1\"", -1}, {"1.5", -1}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        char report[256];
        snprintf(report, sizeof report,
                 "{\"display\": [{}, {\"a/b\": \"x\"}, {\"a/b\": \"y\"}], \"display_value\": %s}",
                 numbers[i].value);
        set_result(report);
        json_t *o = object(), *value = json_object_get(o, "display_value");
        assert_int_equal(value ? (int)json_integer_value(value) : -1, numbers[i].wanted);
        json_decref(o);
    }
}

static json_t *repeated(char c, size_t count)
{
    char *text = malloc(count);
    assert_non_null(text);
    memset(text, c, count);
    json_t *s = json_stringn(text, count);
    free(text);
    return s;
}

static void what_was_shown_is_bounded(void **state)
{
    (void)state;
    json_t *list = json_array(), *text = repeated('x', 100000);
    for (int i = 0; i < 1000; i++)
        (void)json_array_append_new(list, json_pack("{s:O}", "text/html", text));
    json_t *report = json_pack("{s:o}", "display", list);
    char *json = json_dumps(report, 0);
    set_result(json);
    json_t *o = object();
    assert_int_equal(json_array_size(json_object_get(o, "display")), 10); // 1 MiB
    assert_int_equal(json_integer_value(json_object_get(o, "display_omitted")), 990);
    json_decref(o);
    free(json);
    json_decref(report);
    json_decref(text);
    set_result(
        "{\"display\": [{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":"
        "\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/"
        "b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{"
        "\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":\"\"},{\"a/b\":"
        "\"\"}]}");
    o = object();
    assert_int_equal(json_array_size(json_object_get(o, "display")), DISPLAY_ITEMS_MAX);
    assert_int_equal(json_integer_value(json_object_get(o, "display_omitted")), 2);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_shown_is_checked, begin, end),
        cmocka_unit_test_setup_teardown(originals_belong_to_items, begin, end),
        cmocka_unit_test_setup_teardown(the_value_is_one_of_the_items, begin, end),
        cmocka_unit_test_setup_teardown(what_was_shown_is_bounded, begin, end),
    };
    return cmocka_run_group_tests_name("display", tests, NULL, NULL);
}
