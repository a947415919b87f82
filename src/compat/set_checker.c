// SPDX-License-Identifier: Apache-2.0
//
// set_checker: the tool set 'checker': check_syntax and test_code, with the answers of reference
// server C.  See sets.h. Called by tools.c in the gate.
// test_code is one run: it checks the syntax, then the list of forbidden names (the scan 'checker'
// of python/check/policy.py), then runs the code in a box that never has network.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "compat/set_answer.h"
#include "compat/sets.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/tool_check.h"
#include "mcp/tools/tool_shared.h"
#include "run/source.h"

// The defaults of that server.
enum { WALL_MS = 15000, CPU_MS = 10000, MEMORY_MIB = 100, EXIT_FAILED = 1 };

// clang-format off

static const char check_input[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"code\": {\"type\": \"string\", \"description\": \"Python source to check. It is not "
        "executed.\"}"
    "}, \"required\": [\"code\"], \"additionalProperties\": false}";

static const char test_input[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"code\": {\"type\": \"string\", \"description\": \"Python source to run.\"}, "
    "\"timeout\": {\"type\": \"number\", \"minimum\": 0.1, \"default\": 15.0, \"description\": "
        "\"Longest wall time, "
        "in seconds.\"}, "
    "\"cpu_limit_sec\": {\"type\": \"number\", \"minimum\": 0.1, \"default\": 10.0, "
        "\"description\": \"Processor "
        "time, in seconds.\"}, "
    "\"memory_limit_mb\": {\"type\": \"integer\", \"minimum\": 16, \"default\": 100, "
        "\"description\": \"Memory, in "
        "MiB.\"}"
    "}, \"required\": [\"code\"], \"additionalProperties\": false}";

// clang-format on

static int adapt_test(const struct mcp *m, json_t *input_schema)
{
    const struct config *c = m->config;
    const struct {
        const char *name;
        json_t *maximum;
    } table[] = {
        {"timeout", bounds_seconds(bounds_larger(config_wall_max_ms(c), WALL_MS))},
        {"cpu_limit_sec", bounds_seconds(bounds_larger(config_cpu_max_ms(c), CPU_MS))},
        {"memory_limit_mb", json_integer((json_int_t)(bounds_memory_max(c) / TEXT_MIB))},
    };
    json_t *properties = json_object_get(input_schema, "properties");
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        failed |= json_object_set_new(json_object_get(properties, table[i].name), "maximum",
                                      table[i].maximum);
    return failed ? -1 : 0;
}

// ---- check_syntax -------------------------------------------------------------------------------

static void answer_syntax(struct check *k)
{
    static const char *const fields[] = {"line", "offset", "context"};
    struct mcp_call *c = tool_check_done(k);
    if (!c)
        return;
    json_t *error = json_object_get(k->answer, "error");
    bool valid = !json_is_object(error);
    json_t *told = json_pack("{s:b}", "valid", valid), *more = NULL;
    int failed = !told;
    if (!valid) {
        failed |= json_object_set(told, "error", json_object_get(error, "message")) |
                  set_copy(told, error, fields, ARRAY_LEN(fields));
        more = json_pack("{s:O, s:O*, s:O*}", "type", json_object_get(error, "type"), "text",
                         json_object_get(error, "text"), "end_offset",
                         json_object_get(error, "end_offset"));
        failed |= !more;
    }
    set_answer(c, told, more, failed, false);
    check_free(k);
}

static void check_syntax(struct mcp_call *c, json_t *arguments)
{
    // Only the syntax counts here, not the policy of this server.
    tool_check_start(c, json_object_get(arguments, "code"), json_pack("{s:s}", "mode", "open"),
                     false, answer_syntax);
}

// ---- test_code ----------------------------------------------------------------------------------

// The exit status of the code's process; for a signal, the one that a shell reports.
static json_int_t exit_code_of(json_t *object)
{
    static const struct {
        const char *verdict;
        int status;
    } table[] = {
#define X(name, text, status) {text, status},
        VERDICT_MAP(X)
#undef X
    };
    json_t *code = json_object_get(object, "exit_code"), *sign = json_object_get(object, "signal");
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    for (size_t i = 0; i < ARRAY_LEN(table) && verdict; i++)
        if (strcmp(verdict, table[i].verdict) == 0 && table[i].status >= 0 &&
            strcmp(verdict, "denied") != 0)
            return table[i].status;
    if (json_is_integer(code))
        return json_integer_value(code);
    return json_is_integer(sign) ? 128 + json_integer_value(sign) : EXIT_FAILED;
}

// The reason the code ended, in the form of the last line of a traceback.
static json_t *last_line(json_t *object)
{
    static const struct {
        const char *verdict, *type;
    } ends[] = {{"timeout_wall", "TimeoutError"}, {"timeout_cpu", "TimeoutError"},
                {"out_of_memory", "MemoryError"}, {"output_limit", "OutputLimitError"},
                {"disk_full", "OSError"},         {"too_many_processes", "OSError"}};
    json_t *error = json_object_get(object, "error");
    const char *type = json_string_value(json_object_get(error, "type")),
               *message = json_string_value(json_object_get(error, "message")),
               *verdict = json_string_value(json_object_get(object, "verdict")),
               *hint = json_string_value(json_object_get(object, "hint")), *limit = NULL;
    for (size_t i = 0; i < ARRAY_LEN(ends) && verdict; i++)
        if (strcmp(verdict, ends[i].verdict) == 0)
            limit = ends[i].type;
    // A limit interrupts code: then the limit is the reason, not the KeyboardInterrupt.
    if (type && !(limit && strcmp(type, "KeyboardInterrupt") == 0))
        return json_sprintf("%s%s%s\n", type, message && message[0] ? ": " : "",
                            message ? message : "");
    type = limit;
    if (!type && json_is_true(json_object_get(object, "success")))
        return json_string("");
    return json_sprintf("%s%s%s\n", type ? type : "SystemError", hint ? ": " : "",
                        hint ? hint : "");
}

static json_t *stderr_of(json_t *object)
{
    json_t *text = json_object_get(object, "stderr"), *line = last_line(object);
    const char *said = json_is_string(text) ? json_string_value(text) : "";
    size_t length = strlen(said);
    // Code that ends itself, with sys.exit() or by a signal, gets no further explanation.
    bool own = json_is_null(json_object_get(object, "error")) &&
               json_is_integer(json_object_get(object, "exit_code"));
    if (own || !line || !json_string_length(line)) {
        json_decref(line);
        return json_string(said);
    }
    json_t *all = json_sprintf("%s%s%s", said, length && said[length - 1] != '\n' ? "\n" : "",
                               json_string_value(line));
    json_decref(line);
    return all;
}

// The place of a syntax error in the form of check_syntax.
static int tell_position(json_t *told, json_t *error)
{
    static const struct {
        const char *name, *from;
    } table[] = {
        {"error", "message"}, {"line", "line"}, {"offset", "column"}, {"context", "code_line"}};
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        failed |= json_object_set(told, table[i].name, json_object_get(error, table[i].from));
    return failed;
}

static void answer_test(struct mcp_call *c, json_t *arguments, json_t *object,
                        const struct err *error)
{
    (void)arguments;
    if (error) {
        tool_error(c, err_code_name(error->code), error->hint, "%s", error->message);
        return;
    }
    set_log_run("test_code", object);
    json_t *told = json_object(), *more = set_run_extras(object),
           *violations = json_object_get(object, "violations");
    const char *phase = json_string_value(json_object_get(object, "phase"));
    int failed = (!more) | json_object_set(told, "stdout", json_object_get(object, "stdout")) |
                 json_object_set_new(told, "stderr", stderr_of(object)) |
                 json_object_set_new(told, "exit_code", json_integer(exit_code_of(object))) |
                 json_object_set(told, "phase", json_object_get(object, "phase"));
    if (json_array_size(violations) > 0)
        failed |= json_object_set_new(told, "violations", set_lines(violations));
    if (phase && strcmp(phase, "syntax_check") == 0)
        failed |= tell_position(told, json_object_get(object, "error"));
    if (more)
        failed |= json_object_set(more, "exception", json_object_get(object, "error"));
    set_answer(c, told, more, failed, false);
}

static void execute(struct mcp_call *c)
{
    json_t *arguments = tool_arguments(c), *code = json_object_get(arguments, "code"),
           *memory = json_object_get(arguments, "memory_limit_mb");
    struct wire_limits limits = keeper_limits(c->mcp->config);
    limits.memory_bytes =
        (memory ? (uint64_t)json_number_value(memory) : (uint64_t)MEMORY_MIB) * TEXT_MIB;
    limits.readonly = 1; // and no file system
    struct tool_run_plan plan = {
        .arguments = arguments,
        .present = answer_test,
        .request = {.code = json_string_value(code),
                    .code_length = json_string_length(code),
                    .scan = "checker",
                    .network = json_false(), // that server promises no network
                    .limits = limits,
                    .wall_ms = bounds_milliseconds(arguments, "timeout", WALL_MS),
                    .cpu_ms = bounds_milliseconds(arguments, "cpu_limit_sec", CPU_MS),
                    .output_bytes = c->mcp->config->output_bytes}};
    tool_run_start(c, &plan);
}

static void consented(struct mcp_call *c, json_t *answers)
{
    if (tool_has_consent(c, answers))
        execute(c);
}

static void test_code(struct mcp_call *c, json_t *arguments)
{
    json_t *code = json_object_get(arguments, "code");
    struct err e;
    if (source_check(json_string_value(code), json_string_length(code), "code",
                     c->mcp->config->source_bytes, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else
        tool_ask_consent(c, code, json_false(), consented);
}

// ---- the table ----------------------------------------------------------------------------------

static const struct mcp_tool tools[] = {
    {
        .name = "check_syntax",
        .title = "Check the syntax of code",
        .description =
            "Checks the syntax of Python code without running it. Returns valid and, for "
            "invalid code, error, line, offset and context.",
        .input_schema = check_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = check_syntax,
    },
    {
        .name = "test_code",
        .title = "Test code",
        .description =
            "Runs Python code in an isolated box without network and writable files and returns "
            "stdout, stderr, "
            "exit_code and phase. Code with a syntax error (phase syntax_check), or that calls "
            "eval, "
            "exec, open and others or imports os, sys, subprocess and others (phase "
            "security_check, "
            "with violations), is not run. exit_code is 124 when the time was up; what it printed "
            "until then is kept.",
        .input_schema = test_input,
        .handle = test_code,
        .adapt = adapt_test,
    },
    {0},
};

struct tool_set checker_set = {
    .name = "checker",
    .tables = {tools},
};
