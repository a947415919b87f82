// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/result: the verdict for every way in which a run can end, and the object that
// is made of reports that no runner wrote.

#include "unit.h"

#include <errno.h>
#include <event2/buffer.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fake_run.h"

#define EXITED(code) ((code) << 8)
#define KILLED(sig) (sig)
#define ERROR_OF(type, more) "{\"exit_code\": 1, \"error\": {\"type\": \"" type "\"" more "}}"

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

// ---- the verdict --------------------------------------------------------------------------------

enum happened {
    NOTHING,
    OOM_KILL = 1 << 0,
    FORK_REFUSED = 1 << 1,
    SCRATCH_FULL = 1 << 2,
    INODES_OUT = 1 << 3,
    UNMEASURED = 1 << 4, // the keeper knows nothing
    WATCHED = 1 << 5,    // no cgroups here
    MACHINE_OOM = 1 << 6,
};

static const struct verdict_case {
    const char *name;
    enum wire_end end;
    unsigned happened;
    bool has_exit;
    int exit_status;
    const char *result; // NULL: none came
    enum verdict verdict;
    enum limit limit;
    int status; // of the command line
    int signal;
} cases[] = {
    // the code said how it went
    {"value", END_DONE, 0, false, 0, "{\"exit_code\": 0}", VERDICT_OK, LIMIT_NONE, 0, 0},
    {"no exit code", END_DONE, 0, false, 0, "{}", VERDICT_OK, LIMIT_NONE, 0, 0},
    {"exit 7", END_DONE, 0, false, 0, "{\"exit_code\": 7}", VERDICT_ERROR, LIMIT_NONE, 7, 0},
    {"exit 255", END_DONE, 0, false, 0, "{\"exit_code\": -1}", VERDICT_ERROR, LIMIT_NONE, 255, 0},
    {"exit 256", END_DONE, 0, false, 0, "{\"exit_code\": 256}", VERDICT_OK, LIMIT_NONE, 0, 0},
    {"large exit", END_DONE, 0, false, 0, "{\"exit_code\": 9223372036854775807}", VERDICT_ERROR,
     LIMIT_NONE, 255, 0},
    {"exception", END_DONE, 0, false, 0, ERROR_OF("ValueError", ""), VERDICT_ERROR, LIMIT_NONE, 1,
     0},
    {"MemoryError without cgroups", END_DONE, WATCHED, false, 0, ERROR_OF("MemoryError", ""),
     VERDICT_OUT_OF_MEMORY, LIMIT_MEMORY, 137, 0},
    {"MemoryError", END_DONE, 0, false, 0, ERROR_OF("MemoryError", ""), VERDICT_OUT_OF_MEMORY,
     LIMIT_MEMORY, 137, 0},
    {"ENOSPC", END_DONE, SCRATCH_FULL, false, 0, ERROR_OF("OSError", ", \"errno\": 28"),
     VERDICT_DISK_FULL, LIMIT_SCRATCH, 122, 0},
    {"ENOSPC with room left", END_DONE, 0, false, 0, ERROR_OF("OSError", ", \"errno\": 28"),
     VERDICT_ERROR, LIMIT_SCRATCH, 1, 0},
    {"an error with status 0", END_DONE, 0, false, 0, "{\"exit_code\": 0, \"error\": {}}",
     VERDICT_ERROR, LIMIT_NONE, 1, 0},
    {"ENOSPC by inodes", END_DONE, INODES_OUT, false, 0, ERROR_OF("OSError", ", \"errno\": 28"),
     VERDICT_DISK_FULL, LIMIT_INODES, 122, 0},
    {"full without errno", END_DONE, SCRATCH_FULL, false, 0, ERROR_OF("DatabaseError", ""),
     VERDICT_DISK_FULL, LIMIT_SCRATCH, 122, 0},
    {"EFBIG", END_DONE, 0, false, 0, ERROR_OF("OSError", ", \"errno\": 27"), VERDICT_DISK_FULL,
     LIMIT_FILE_SIZE, 122, 0},
    {"EMFILE", END_DONE, 0, false, 0, ERROR_OF("OSError", ", \"errno\": 24"), VERDICT_ERROR,
     LIMIT_FILES, 1, 0},
    {"fork refused", END_DONE, FORK_REFUSED, false, 0, ERROR_OF("BlockingIOError", ""),
     VERDICT_TOO_MANY_PROCESSES, LIMIT_PROCESSES, 121, 0},
    {"EAGAIN without cgroups", END_DONE, WATCHED, false, 0,
     ERROR_OF("BlockingIOError", ", \"errno\": 11, \"message\": \"x\""), VERDICT_TOO_MANY_PROCESSES,
     LIMIT_PROCESSES, 121, 0},
    {"EAGAIN that the kernel would have counted", END_DONE, 0, false, 0,
     ERROR_OF("BlockingIOError", ", \"errno\": 11, \"message\": \"x\""), VERDICT_ERROR, LIMIT_NONE,
     1, 0},
    {"nothing measured", END_DONE, UNMEASURED, false, 0, ERROR_OF("ValueError", ""), VERDICT_ERROR,
     LIMIT_NONE, 1, 0},
    // a full disk or a refused fork that the code coped with is no failure
    {"coped with", END_DONE, SCRATCH_FULL | FORK_REFUSED, false, 0, "{\"exit_code\": 0}",
     VERDICT_OK, LIMIT_NONE, 0, 0},
    // it answered and was gone before it was told to go
    {"answer and own end", END_OWN, 0, true, EXITED(0), "{\"exit_code\": 5}", VERDICT_ERROR,
     LIMIT_NONE, 5, 0},
    // its process ended without a word
    {"os._exit(0)", END_OWN, 0, true, EXITED(0), NULL, VERDICT_OK, LIMIT_NONE, 0, 0},
    {"os._exit(3)", END_OWN, 0, true, EXITED(3), NULL, VERDICT_ERROR, LIMIT_NONE, 3, 0},
    {"SIGSEGV", END_OWN, 0, true, KILLED(SIGSEGV), NULL, VERDICT_ERROR, LIMIT_NONE, 139, SIGSEGV},
    {"SIGKILL", END_OWN, 0, true, KILLED(SIGKILL), NULL, VERDICT_ERROR, LIMIT_NONE, 137, SIGKILL},
    {"core dump", END_OWN, 0, true, KILLED(SIGABRT) | 0x80, NULL, VERDICT_ERROR, LIMIT_NONE, 134,
     SIGABRT},
    {"foreign ABI", END_OWN, 0, true, KILLED(SIGSYS), NULL, VERDICT_DENIED, LIMIT_NONE, 126,
     SIGSYS},
    {"SIGKILL by OOM", END_OWN, OOM_KILL, true, KILLED(SIGKILL), NULL, VERDICT_OUT_OF_MEMORY,
     LIMIT_MEMORY, 137, 0},
    {"SIGBUS on a full scratch", END_OWN, SCRATCH_FULL, true, KILLED(SIGBUS), NULL,
     VERDICT_DISK_FULL, LIMIT_SCRATCH, 122, SIGBUS},
    {"no status at all", END_OWN, 0, false, 0, NULL, VERDICT_LOST, LIMIT_NONE, 125, 0},
    // it was ended from outside
    {"wall", END_WALL, 0, false, 0, NULL, VERDICT_TIMEOUT_WALL, LIMIT_WALL, 124, 0},
    {"wall, with a result too late", END_WALL, 0, true, EXITED(0), "{}", VERDICT_TIMEOUT_WALL,
     LIMIT_WALL, 124, 0},
    {"wall, held up by forks", END_WALL, FORK_REFUSED, false, 0, NULL, VERDICT_TOO_MANY_PROCESSES,
     LIMIT_PROCESSES, 121, 0},
    {"wall, held up by the disk", END_WALL, SCRATCH_FULL, false, 0, NULL, VERDICT_DISK_FULL,
     LIMIT_SCRATCH, 122, 0},
    {"wall, nothing measured", END_WALL, UNMEASURED, false, 0, NULL, VERDICT_TIMEOUT_WALL,
     LIMIT_WALL, 124, 0},
    {"cpu", END_CPU, 0, false, 0, NULL, VERDICT_TIMEOUT_CPU, LIMIT_CPU, 124, 0},
    {"cpu and inodes", END_CPU, INODES_OUT, false, 0, NULL, VERDICT_DISK_FULL, LIMIT_INODES, 122,
     0},
    {"output", END_OUTPUT, 0, false, 0, NULL, VERDICT_OUTPUT_LIMIT, LIMIT_OUTPUT, 123, 0},
    {"cancelled", END_CANCELLED, 0, false, 0, NULL, VERDICT_CANCELLED, LIMIT_NONE, 130, 0},
    {"memory", END_MEMORY, 0, false, 0, NULL, VERDICT_OUT_OF_MEMORY, LIMIT_MEMORY, 137, 0},
    {"processes", END_PROCESSES, 0, false, 0, NULL, VERDICT_TOO_MANY_PROCESSES, LIMIT_PROCESSES,
     121, 0},
    {"broken box", END_PROTOCOL, 0, false, 0, NULL, VERDICT_LOST, LIMIT_NONE, 125, 0},
    {"broken report", END_PROTOCOL, 0, false, 0, "[]", VERDICT_LOST, LIMIT_NONE, 125, 0},
    // an OOM kill counts whatever else was noticed
    {"the machine is out of memory", END_OWN, MACHINE_OOM, true, KILLED(SIGKILL), NULL,
     VERDICT_OUT_OF_MEMORY, LIMIT_NONE, 137, SIGKILL},
    {"the same, and init was killed", END_OWN, MACHINE_OOM, false, 0, NULL, VERDICT_OUT_OF_MEMORY,
     LIMIT_NONE, 137, SIGKILL},
    {"the same, and the code failed by itself", END_OWN, MACHINE_OOM, true, KILLED(SIGSEGV), NULL,
     VERDICT_ERROR, LIMIT_NONE, 139, SIGSEGV},
    {"OOM and wall", END_WALL, OOM_KILL, false, 0, NULL, VERDICT_OUT_OF_MEMORY, LIMIT_MEMORY, 137,
     0},
    {"OOM and a result", END_DONE, OOM_KILL, false, 0, "{\"exit_code\": 0}", VERDICT_OUT_OF_MEMORY,
     LIMIT_MEMORY, 137, 0},
    {"OOM and output", END_OUTPUT, OOM_KILL, false, 0, NULL, VERDICT_OUT_OF_MEMORY, LIMIT_MEMORY,
     137, 0},
};

static void prepare(const struct verdict_case *c)
{
    struct run *r = &fake.run;
    struct wire_usage *u = &r->ended.usage;
    fake_run_free(&fake);
    fake_run_init(&fake);
    if (c->result)
        set_result(c->result);
    r->ended.end = r->end = c->end;
    r->has_exit = c->has_exit;
    r->exit_status = c->exit_status;
    if (c->happened & UNMEASURED)
        *u = (struct wire_usage){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0,
                                 0,          0,          UINT64_MAX, UINT64_MAX};
    u->memory_hits = c->happened & OOM_KILL ? 2 : 0;
    u->machine_oom = (c->happened & MACHINE_OOM) != 0;
    u->process_hits = c->happened & FORK_REFUSED ? 9 : 0;
    if (c->happened & SCRATCH_FULL)
        u->scratch_free_bytes = 0;
    if (c->happened & INODES_OUT)
        u->scratch_free_inodes = 0;
    if (c->happened & WATCHED)
        fake.caps.cgroups.driver = &watch_driver;
}

static void verdicts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct verdict_case *c = &cases[i];
        struct result res;
        prepare(c);
        result_judge(&fake.run, &res);
        int status = result_exit_status(&res);
        if (res.verdict != c->verdict || res.limit != c->limit || status != c->status ||
            res.signal != c->signal)
            fail_msg("%s: %s, limit %d, status %d, signal %d", c->name,
                     result_verdict_name(res.verdict), res.limit, status, res.signal);
        assert_true(strnlen(res.hint, sizeof res.hint) < sizeof res.hint);
        // Everything but success and an error of the code itself says what to do.
        if (res.limit || (res.verdict != VERDICT_OK && res.verdict != VERDICT_ERROR &&
                          res.verdict != VERDICT_CANCELLED && c->end != END_PROTOCOL))
            assert_true(res.hint[0] != '\0');
    }
}

static void a_run_that_never_had_a_box_is_cancelled(void **state)
{
    (void)state;
    struct result res;
    fake.run.has_ended = false;
    fake.run.ended = (struct wire_ended){0};
    fake.run.end = END_CANCELLED;
    result_judge(&fake.run, &res);
    assert_int_equal(res.verdict, VERDICT_CANCELLED);
    assert_int_equal(result_exit_status(&res), 130);
}

static void syntax_errors_have_their_phase(void **state)
{
    (void)state;
    struct result res;
    set_result(
        "{\"exit_code\": 1, \"phase\": \"syntax_check\", \"error\": {\"type\": \"SyntaxError\"}}");
    result_judge(&fake.run, &res);
    assert_string_equal(res.phase, "syntax_check");
    assert_int_equal(res.verdict, VERDICT_ERROR);
    set_result("{\"exit_code\": 0, \"phase\": \"start\"}"); // no phase that the code may claim
    result_judge(&fake.run, &res);
    assert_string_equal(res.phase, "execution");
}

// The init shares its memory with the code, so the status it reports can be any number.
static void any_wait_status_gives_an_exit_status(void **state)
{
    (void)state;
    fake.run.ended.end = END_OWN;
    fake.run.has_exit = true;
    for (uint32_t i = 0; i < 70000; i++) {
        struct result res;
        fake.run.exit_status = (int)(i < 65536 ? i : i * 0x9e3779b1U);
        result_judge(&fake.run, &res);
        int status = result_exit_status(&res);
        assert_true(status >= 0 && status <= 255);
        assert_true((res.verdict == VERDICT_OK) == (status == 0));
        assert_true(res.signal >= 0 && res.signal < 128);
    }
}

static void every_verdict_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < VERDICT_MAX; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(result_verdict_name((enum verdict)i),
                                    result_verdict_name((enum verdict)k));
}

// ---- the object ---------------------------------------------------------------------------------

static const char *const keys[] = {
    "execution_id", "verdict",         "success",          "exit_code", "signal",  "phase",
    "stdout",       "stderr",          "result",           "error",     "usage",   "isolation",
    "truncated",    "limit",           "environment",      "hint",      "display", "variables",
    "network",      "security_events", "security_observed"};

// Judges, makes the object, checks what holds for every one of them.  The caller frees.
static json_t *object(void)
{
    struct result res;
    result_judge(&fake.run, &res);
    json_t *o = result_json(&fake.run, &res, "01234567-89ab-4cde-8f01-23456789abcd");
    assert_non_null(o);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (!json_object_get(o, keys[i]))
            fail_msg("the object has no '%s'", keys[i]);
    assert_int_equal(json_object_size(o), ARRAY_LEN(keys) +
                                              (json_object_get(o, "result_json") != NULL) +
                                              (json_object_get(o, "display_originals") != NULL) +
                                              (json_object_get(o, "display_omitted") != NULL) +
                                              (json_object_get(o, "display_value") != NULL) +
                                              (json_object_get(o, "variables_omitted") != NULL) +
                                              (json_object_get(o, "execution_count") != NULL) +
                                              (json_object_get(o, "checkpoint") != NULL));
    assert_true(json_is_true(json_object_get(o, "success")) == (res.verdict == VERDICT_OK));
    json_t *error = json_object_get(o, "error"), *result = json_object_get(o, "result");
    assert_true(json_is_null(error) || json_is_object(error));
    assert_true(json_is_null(result) || json_is_string(result));
    assert_int_equal(json_string_length(json_object_get(o, "execution_id")), 36);
    char *text = json_dumps(o, JSON_COMPACT);
    assert_non_null(text);
    assert_int_equal(utf8_valid_length(text, strlen(text)), strlen(text));
    free(text);
    return o;
}

static void the_object_of_a_good_run(void **state)
{
    (void)state;
    set_result(
        "{\"exit_code\": 0, \"phase\": \"execution\", \"result\": \"2\", \"result_json\": 2}");
    (void)evbuffer_add(fake.run.output[RUN_STDOUT], "hi\n", 3);
    fake.run.output_total[RUN_STDOUT] = 3;
    json_t *o = object(), *usage = json_object_get(o, "usage");
    assert_string_equal(json_string_value(json_object_get(o, "verdict")), "ok");
    assert_string_equal(json_string_value(json_object_get(o, "stdout")), "hi\n");
    assert_string_equal(json_string_value(json_object_get(o, "result")), "2");
    assert_int_equal(json_integer_value(json_object_get(o, "result_json")), 2);
    assert_int_equal(json_integer_value(json_object_get(o, "exit_code")), 0);
    assert_true(json_is_null(json_object_get(o, "limit")));
    assert_true(json_is_null(json_object_get(o, "hint")));
    assert_true(json_real_value(json_object_get(usage, "wall_ms")) == 3.0);
    assert_int_equal(json_integer_value(json_object_get(usage, "output_bytes")), 3);
    assert_int_equal(json_object_size(json_object_get(o, "isolation")), LAYER_MAX);
    json_t *environment = json_object_get(o, "environment");
    assert_int_equal(json_array_size(json_object_get(environment, "preloaded")), 1);
    json_decref(o);
}

static void the_object_of_every_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        prepare(&cases[i]);
        json_t *o = object();
        assert_string_equal(json_string_value(json_object_get(o, "verdict")),
                            result_verdict_name(cases[i].verdict));
        json_t *limit = json_object_get(o, "limit");
        assert_true(json_is_null(limit) == (cases[i].limit == LIMIT_NONE));
        if (cases[i].limit) {
            assert_true(json_string_length(json_object_get(limit, "name")) > 0);
            assert_true(json_string_length(json_object_get(limit, "unit")) > 0);
            assert_true(json_integer_value(json_object_get(limit, "value")) > 0);
        }
        json_t *usage = json_object_get(o, "usage");
        assert_true(json_is_null(json_object_get(usage, "peak_memory_bytes")) ==
                    ((cases[i].happened & UNMEASURED) != 0));
        json_decref(o);
    }
}

static void reports_with_wrong_types(void **state)
{
    (void)state;
    static const char *const values[] = {"null",
                                         "true",
                                         "0",
                                         "-1",
                                         "1.5",
                                         "\"\"",
                                         "\"x\"",
                                         "\"\\u0000\"",
                                         "[]",
                                         "{}",
                                         "[[]]",
                                         "{\"a\": []}",
                                         "\"\\ud83d\\udc0d\"",
                                         "9223372036854775807"};
    static const char *const names[] = {"exit_code",       "phase",
                                        "result",          "error",
                                        "result_json",     "verdict",
                                        "usage",           "limit",
                                        "stdout",          "hint",
                                        "execution_id",    "",
                                        "display",         "display_originals",
                                        "display_omitted", "display_value"};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            char text[256];
            snprintf(text, sizeof text, "{\"%s\": %s}", names[k], values[i]);
            set_result(text);
            json_decref(object());
            snprintf(text, sizeof text, "{\"exit_code\": 1, \"error\": {\"%s\": %s}}", names[k],
                     values[i]);
            set_result(text);
            json_decref(object());
        }
    // The code speaks about itself only.
    set_result("{\"verdict\": \"denied\", \"success\": false, \"usage\": {}, \"isolation\": {}, "
               "\"stdout\": \"forged\", \"limit\": {}, \"extra\": 1}");
    json_t *o = object();
    assert_string_equal(json_string_value(json_object_get(o, "verdict")), "ok");
    assert_string_equal(json_string_value(json_object_get(o, "stdout")), "");
    assert_int_equal(json_object_size(json_object_get(o, "isolation")), LAYER_MAX);
    assert_null(json_object_get(o, "extra"));
    json_decref(o);
}

// A client that reads `error.type` as a string must get one, or nothing.
static void error_fields_of_the_wrong_type_are_dropped(void **state)
{
    (void)state;
    set_result(
        "{\"exit_code\": 1, \"error\": {\"type\": [1], \"message\": {}, \"line\": \"x\", "
        "\"column\": [], \"code_line\": 3, \"traceback\": \"no\", \"text\": 7, \"extra\": 1}}");
    json_t *o = object(), *error = json_object_get(o, "error");
    const struct {
        const char *name;
        json_type type;
    } fields[] = {{"type", JSON_STRING},    {"message", JSON_STRING},   {"line", JSON_INTEGER},
                  {"column", JSON_INTEGER}, {"code_line", JSON_STRING}, {"traceback", JSON_ARRAY},
                  {"text", JSON_STRING}};
    unsigned wrong = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        json_t *value = json_object_get(error, fields[i].name);
        if (value && !json_is_null(value) && json_typeof(value) != fields[i].type) {
            print_message("# error.%s has the wrong type\n", fields[i].name);
            wrong++;
        }
    }
    wrong += json_object_get(error, "extra") != NULL;
    json_decref(o);
    assert_int_equal(wrong, 0);
}

static char *nested(size_t depth, const char *before, const char *inside, const char *after)
{
    size_t n = strlen(before) + 2 * depth + strlen(inside) + strlen(after) + 1;
    char *text = malloc(n), *p = text;
    assert_non_null(text);
    p += snprintf(p, n, "%s", before);
    memset(p, '[', depth);
    p += depth;
    p += snprintf(p, n - (size_t)(p - text), "%s", inside);
    memset(p, ']', depth);
    p += depth;
    snprintf(p, n - (size_t)(p - text), "%s", after);
    return text;
}

static void reports_that_are_deep(void **state)
{
    (void)state;
    const size_t depths[] = {10, 1000, 2000, 2047, 2048, 2049, 100000};
    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        char *text = nested(depths[i], "{\"result_json\": ", "", "}");
        set_result(text);
        json_decref(object());
        free(text);
        text = nested(depths[i], "{\"exit_code\": 1, \"error\": {\"type\": ", "1", "}}");
        set_result(text);
        json_decref(object());
        free(text);
    }
}

// Printed with one line per item and indented, a small forged report would become gigabytes: one
// byte in, twice the depth out.  The runner itself never sends more than 32 levels.
static void a_value_deeper_than_any_runner_sends_is_dropped(void **state)
{
    (void)state;
    char *text = nested(1000, "{\"result_json\": ", "1,1,1", "}");
    set_result(text);
    free(text);
    json_t *o = object();
    size_t n = json_dumpb(o, NULL, 0, JSON_INDENT(2));
    json_decref(o);
    assert_true(n < 100000);
}

static void reports_that_are_huge(void **state)
{
    (void)state;
    enum { SIZE = FRAME_RESULT_MAX };
    char *text = malloc(SIZE);
    assert_non_null(text);
    static const char head[] = "{\"exit_code\": 1, \"result\": \"", tail[] = "\"}";
    memset(text, 'x', SIZE);
    memcpy(text, head, sizeof head - 1);
    memcpy(text + SIZE - 2, tail, 2);
    fake_run_result(&fake, text, SIZE);
    json_t *o = object();
    assert_int_equal(json_string_length(json_object_get(o, "result")),
                     SIZE - (sizeof head - 1) - 2);
    json_decref(o);
    free(text);
}

static void output_that_is_no_text(void **state)
{
    (void)state;
    set_result("{}");
    // In many small chunks, so that the buffer has to be joined.
    for (int i = 0; i < 3000; i++) {
        char chunk[3] = {(char)i, '\0', (char)(i >> 4)};
        (void)evbuffer_add_reference(fake.run.output[RUN_STDOUT], "\xe2\x82", 2, NULL, NULL);
        (void)evbuffer_add(fake.run.output[RUN_STDOUT], chunk, 3);
        (void)evbuffer_add_reference(fake.run.output[RUN_STDERR], "\xff", 1, NULL, NULL);
    }
    json_t *o = object(), *out = json_object_get(o, "stdout"), *err = json_object_get(o, "stderr");
    assert_int_equal(json_string_length(err), 3 * 3000);
    assert_true(json_string_length(out) > 5 * 3000);
    assert_int_equal(utf8_valid_length(json_string_value(out), json_string_length(out)),
                     json_string_length(out));
    json_decref(o);
}

static void cut_output_says_how_much(void **state)
{
    (void)state;
    fake.run.ended.end = END_OUTPUT;
    (void)evbuffer_add(fake.run.output[RUN_STDERR], "abc", 3);
    fake.run.output_total[RUN_STDERR] = 12345;
    json_t *o = object(), *cut = json_object_get(json_object_get(o, "truncated"), "stderr");
    assert_int_equal(json_integer_value(json_object_get(cut, "kept")), 3);
    assert_int_equal(json_integer_value(json_object_get(cut, "total")), 12345);
    json_decref(o);
}

// The result came first, and the box was released for it; then its output was read.
static void cut_output_is_never_ok(void **state)
{
    (void)state;
    struct result res;
    set_result("{}");
    fake.run.ended.end = END_DONE;
    fake.run.end = END_OUTPUT;
    result_judge(&fake.run, &res);
    assert_int_equal(res.verdict, VERDICT_OUTPUT_LIMIT);
}

static void reports_of_the_zygote(void **state)
{
    (void)state;
    const char *const reports[] = {"",
                                   "x",
                                   "[]",
                                   "{",
                                   "{\"preloaded\": 1, \"failed\": {}}",
                                   "null",
                                   "{\"preloaded\": [[[]]]}",
                                   "\xff\xff"};
    set_result("{}");
    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        fake.facts.zygote_report = reports[i];
        json_t *o = object(), *environment = json_object_get(o, "environment");
        assert_true(json_is_array(json_object_get(environment, "preloaded")));
        assert_true(json_is_array(json_object_get(environment, "preload_failed")));
        json_decref(o);
    }
}

// File names are bytes; the folder may be in Latin-1.
static void an_interpreter_whose_path_is_not_utf8_is_still_named(void **state)
{
    (void)state;
    set_result("{}");
    snprintf(fake.interp.executable, sizeof fake.interp.executable, "/opt/caf\xe9/bin/python");
    json_t *o = object(), *environment = json_object_get(o, "environment");
    assert_true(json_string_length(json_object_get(environment, "python")) > 0);
    json_decref(o);
}

// Everything in it may be a lie, and what is no variable is dropped.
static void variables_are_taken_by_name_and_type(void **state)
{
    (void)state;
    static const char report[] =
        "{\"exit_code\": 0, \"execution_count\": 7, \"variables_omitted\": 2, \"variables\": ["
        "{\"name\": \"df\", \"change\": \"added\", \"type\": \"DataFrame\", \"shape\": [3, 2], "
        "\"x\": 1},"
        "{\"name\": \"s\", \"change\": \"added\", \"shape\": [\"a\"], \"length\": \"b\"},"
        "{\"name\": 5, \"change\": \"added\"}, {\"change\": \"added\"}, 9, null],"
        "\"checkpoint\": {\"state\": \"made\", \"kept\": 1, \"reason\": [], \"x\": {}}}";
    fake_run_result(&fake, report, sizeof report - 1);
    json_t *o = object(), *list = json_object_get(o, "variables");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_object_size(json_array_get(list, 0)), 4);
    assert_int_equal(json_object_size(json_array_get(list, 1)), 2);
    assert_int_equal(json_integer_value(json_object_get(o, "execution_count")), 7);
    assert_int_equal(json_integer_value(json_object_get(o, "variables_omitted")), 2);
    assert_int_equal(json_object_size(json_object_get(o, "checkpoint")), 2);
    json_decref(o);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(verdicts),
        TEST(a_run_that_never_had_a_box_is_cancelled),
        TEST(syntax_errors_have_their_phase),
        TEST(any_wait_status_gives_an_exit_status),
        TEST(every_verdict_has_a_name_of_its_own),
        TEST(the_object_of_a_good_run),
        TEST(the_object_of_every_verdict),
        TEST(reports_with_wrong_types),
        TEST(error_fields_of_the_wrong_type_are_dropped),
        TEST(reports_that_are_deep),
        TEST(a_value_deeper_than_any_runner_sends_is_dropped),
        TEST(reports_that_are_huge),
        TEST(output_that_is_no_text),
        TEST(cut_output_says_how_much),
        TEST(cut_output_is_never_ok),
        TEST(reports_of_the_zygote),
        TEST(an_interpreter_whose_path_is_not_utf8_is_still_named),
        TEST(variables_are_taken_by_name_and_type),
    };
    return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
