// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of run/result: four bytes say how the run ended, the rest is the RESULT of a hostile
// box and, once more, its output.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/fake_run.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "run/display.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_display(const json_t *o)
{
    json_t *list = json_object_get(o, "display"), *item, *value;
    const char *mime_type;
    size_t i, total = 0;
    assert(json_is_array(list) && json_array_size(list) <= DISPLAY_ITEMS_MAX);
    json_array_foreach (list, i, item) {
        assert(json_object_size(item) > 0 && json_object_size(item) <= DISPLAY_TYPES_MAX);
        json_object_foreach (item, mime_type, value) {
            struct picture p;
            assert(json_is_string(value) && strchr(mime_type, '/'));
            total += json_string_length(value);
            if (strcmp(mime_type, "image/png") == 0 || strcmp(mime_type, "image/jpeg") == 0)
                assert(display_picture(item, &p) && p.width && p.height);
        }
    }
    json_array_foreach (json_object_get(o, "display_originals"), i, item) {
        struct picture p;
        assert(display_picture(item, &p));
        total += strlen(p.base64);
    }
    assert(total <= DISPLAY_BYTES_MAX);
}

static void check_object(const json_t *o, const struct result *res)
{
    static const char *const always[] = {
        "execution_id", "verdict",   "success",   "exit_code",       "signal",
        "phase",        "stdout",    "stderr",    "result",          "error",
        "usage",        "isolation", "truncated", "limit",           "environment",
        "hint",         "display",   "variables", "security_events", "security_observed",
        "network"};
    static const char *const maybe[] = {
        "result_json",     "display_originals", "display_omitted", "variables_omitted",
        "execution_count", "checkpoint",        "violations",      "security_events_omitted"};
    size_t known = ARRAY_LEN(always);
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        assert(json_object_get(o, always[i]));
    for (size_t i = 0; i < ARRAY_LEN(maybe); i++)
        known += json_object_get(o, maybe[i]) != NULL;
    assert(json_object_size(o) == known); // nothing that the box made up
    check_display(o);
    assert(json_is_true(json_object_get(o, "success")) == (res->verdict == VERDICT_OK));
    json_t *error = json_object_get(o, "error"), *value = json_object_get(o, "result");
    assert(json_is_null(error) || json_is_object(error));
    assert(json_is_null(value) || json_is_string(value));
    assert(strcmp(json_string_value(json_object_get(o, "verdict")),
                  result_verdict_name(res->verdict)) == 0);
    char *text = json_dumps(o, JSON_COMPACT);
    assert(text && utf8_valid_length(text, strlen(text)) == strlen(text));
    json_t *again = json_loads(text, JSON_ALLOW_NUL, NULL); // a client can read it
    assert(again);
    json_decref(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fake_run fake;
    struct result res;
    if (size < 4)
        return 0;
    fake_run_init(&fake);
    struct run *r = &fake.run;
    fake_run_result(&fake, (const char *)data + 4, size - 4);
    // 0: as run.c would end it
    if (data[0])
        r->ended.end = data[0] % END_MAX;
    r->has_exit = data[1] & 1;
    r->exit_status = data[2] | data[3] << 8;
    r->ended.usage.memory_hits = data[1] >> 1 & 1;
    r->ended.usage.process_hits = data[1] >> 2 & 1;
    if (data[1] & 8)
        r->ended.usage.scratch_free_bytes = 0;
    if (data[1] & 16)
        r->ended.usage.scratch_free_inodes = 0;
    if (data[1] & 32)
        fake.caps.cgroups.driver = &watch_driver;
    (void)evbuffer_add(r->output[RUN_STDOUT], data, size);
    (void)evbuffer_add_reference(r->output[RUN_STDERR], data, size / 2, NULL, NULL);
    (void)evbuffer_add_reference(r->output[RUN_STDERR], data + size / 2, size - size / 2, NULL,
                                 NULL);

    result_judge(r, &res);
    assert(res.verdict < VERDICT_MAX && res.limit < LIMIT_MAX);
    assert(res.signal >= 0 && res.signal < 128);
    assert(memchr(res.hint, '\0', sizeof res.hint));
    int status = result_exit_status(&res);
    assert(status >= 0 && status <= 255);
    json_t *o = result_json(r, &res, "an id");
    assert(o);
    check_object(o, &res);
    json_decref(o);
    fake_run_free(&fake);
    return 0;
}
