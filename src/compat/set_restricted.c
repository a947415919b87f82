// SPDX-License-Identifier: Apache-2.0
//
// set_restricted: the tool set 'restricted': execute_code, validate_code, get_sandbox_info and
// list_capabilities, with
// the answers of reference server R.  See sets.h.  Called by tools.c in the gate.
// Code runs under the policy 'restricted' unless the operator chose another one.  That server can
// start containers; this one has no such backend, so a call that asks for one is refused.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "compat/set_answer.h"
#include "compat/sets.h"
#include "config/code_policy.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/tool_check.h"
#include "mcp/tools/tool_shared.h"
#include "run/network.h"
#include "run/source.h"
#include "json/whole.h"

enum {
    TIMEOUT_MAX_MS = 300000,      // the maximum of that server
    CODE_CHARACTERS_MAX = 100000, // as in the schema
    RESULT_ITEMS_MAX = 100,       // in each list and object of a result
    RESULT_CHARACTERS_MAX = 1000, // in each text of a result
};

static const char ours[] = "restricted";

// clang-format off

#define CODE(text) \
    "\"code\": {\"type\": \"string\", \"maxLength\": 100000, \"description\": \"" text "\"}"

static const char execute_input[] =
    "{\"type\": \"object\", \"properties\": {"
    CODE("Python code to execute. The result is the value of the last expression, else of the "
        "variable "
         "result, output or _.") ", "
    "\"timeout\": {\"type\": \"number\", \"minimum\": 0.1, \"maximum\": 300, \"default\": 30, "
        "\"description\": "
        "\"Execution timeout in seconds.\"}, "
    "\"capture_output\": {\"type\": \"boolean\", \"default\": true, \"description\": \"Return what "
        "the code "
        "prints.\"}, "
    "\"allowed_imports\": {\"type\": \"array\", \"maxItems\": 256, \"items\": {\"type\": "
        "\"string\", \"minLength\": 1, "
        "\"maxLength\": 256}, \"description\": \"The only modules that the code may import, within "
            "what this server "
        "allows.\"}, "
    "\"use_container\": {\"type\": \"boolean\", \"default\": false, \"description\": \"Not "
        "available: every run has "
        "an isolated box of its own already.\"}, "
    "\"memory_limit\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 32, "
        "\"description\": \"Memory of the run, "
        "such as 256m or 1g.\"}"
    "}, \"required\": [\"code\"], \"additionalProperties\": false}";

static const char validate_input[] =
    "{\"type\": \"object\", \"properties\": {"
    CODE("Python code to validate. It is not executed.")
    "}, \"required\": [\"code\"], \"additionalProperties\": false}";

static const char nothing_input[] =
    "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}";

// clang-format on

// ---- bounds -------------------------------------------------------------------------------------

static uint64_t timeout_max_ms(const struct config *c)
{
    uint64_t most = c->timeout_max_ms < TIMEOUT_MAX_MS ? c->timeout_max_ms : TIMEOUT_MAX_MS;
    return bounds_larger(most, c->wall_ms);
}

static int adapt_execute(const struct mcp *m, json_t *input_schema)
{
    json_t *timeout = json_object_get(json_object_get(input_schema, "properties"), "timeout");
    int failed = json_object_set_new(timeout, "default", bounds_seconds(m->config->wall_ms)) |
                 json_object_set_new(timeout, "maximum", bounds_seconds(timeout_max_ms(m->config)));
    return failed ? -1 : 0;
}

// The policy of a run or a check; NULL: the operator's.
static const char *policy_of(const struct config *c)
{
    return code_policy_is_auto(c) ? ours : NULL;
}

// 134217728 as "128m", the form of that server.
static json_t *memory_text(uint64_t bytes)
{
    static const struct {
        char unit;
        uint64_t bytes;
    } units[] = {{'g', TEXT_GIB}, {'m', TEXT_MIB}, {'k', TEXT_KIB}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (bytes % units[i].bytes == 0)
            return json_sprintf("%llu%c", (unsigned long long)(bytes / units[i].bytes),
                                units[i].unit);
    return json_sprintf("%llu", (unsigned long long)bytes);
}

// ---- execute_code: the answer -------------------------------------------------------------------

// SECURITY: the value comes from the box; its depth was bounded by result_json().  True: something
// was omitted.
static bool trim(json_t **value)
{
    bool cut = false;
    size_t i;
    json_t *item;
    void *next;
    const char *key;
    if (json_is_string(*value) && json_string_length(*value) > RESULT_CHARACTERS_MAX) {
        const char *text = json_string_value(*value);
        size_t at = 0, count = 0, length = json_string_length(*value);
        while (at < length &&
               count < RESULT_CHARACTERS_MAX) // each of these bytes begins a character
            for (count++, at++; at < length && ((unsigned char)text[at] & 0xc0) == 0x80;)
                at++;
        cut = at < length;
        if (cut)
            *value = json_stringn_nocheck(text, at);
        return cut;
    }
    while (json_array_size(*value) > RESULT_ITEMS_MAX) {
        (void)json_array_remove(*value, json_array_size(*value) - 1);
        cut = true;
    }
    json_array_foreach (*value, i, item) {
        json_t *trimmed = item;
        cut |= trim(&trimmed);
        if (trimmed != item)
            (void)json_array_set_new(*value, i, trimmed);
    }
    i = 0;
    json_object_foreach_safe (*value, next, key, item) {
        json_t *trimmed = item;
        if (i++ >= RESULT_ITEMS_MAX) {
            (void)json_object_del(*value, key);
            cut = true;
            continue;
        }
        cut |= trim(&trimmed);
        if (trimmed != item)
            (void)json_object_set_new_nocheck(*value, key, trimmed);
    }
    return cut;
}

// The value if it is JSON, else its text; both within bounds.
static int tell_result(json_t *told, json_t *object)
{
    json_t *plain = json_object_get(object, "result_json"),
           *text = json_object_get(object, "result");
    json_t *value = json_deep_copy(plain ? plain : text ? text : json_null());
    json_t *trimmed = value;
    bool cut = value && trim(&trimmed);
    if (trimmed != value)
        json_decref(value);
    int failed = json_object_set_new(told, "result", trimmed);
    if (cut)
        failed |= json_object_set_new(told, "result_truncated", json_true());
    return failed;
}

static json_t *names_of(json_t *variables)
{
    json_t *names = json_array(), *item;
    size_t i;
    json_array_foreach (variables, i, item) {
        const char *change = json_string_value(json_object_get(item, "change"));
        if (change && strcmp(change, "removed") != 0)
            (void)json_array_append(names, json_object_get(item, "name"));
    }
    return names;
}

// The output, with a note where it was cut.
static json_t *printed(json_t *arguments, json_t *object, const char *stream)
{
    json_t *text = json_object_get(object, stream);
    if (json_is_false(json_object_get(arguments, "capture_output")) || !json_is_string(text))
        return json_string("");
    json_t *cut = json_object_get(json_object_get(object, "truncated"), stream);
    json_int_t kept = json_integer_value(json_object_get(cut, "kept")),
               total = json_integer_value(json_object_get(cut, "total"));
    if (total <= kept)
        return json_incref(text);
    return json_sprintf("%s\n[Output truncated]", json_string_value(text));
}

static bool has_event(json_t *object, const char *kind)
{
    size_t i;
    json_t *event;
    json_array_foreach (json_object_get(object, "security_events"), i, event) {
        const char *found = json_string_value(json_object_get(event, "kind"));
        if (found && strcmp(found, kind) == 0)
            return true;
    }
    return false;
}

// Was the code ended by the exception of an operation that the policy blocked?
static bool was_blocked(json_t *object)
{
    json_t *line = json_object_get(json_object_get(object, "error"), "line"), *event;
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    size_t i;
    if (!json_is_integer(line) || !verdict || strcmp(verdict, "error") != 0)
        return false;
    json_array_foreach (json_object_get(object, "security_events"), i, event) {
        if (json_equal(json_object_get(event, "line"), line))
            return true;
    }
    return false;
}

// The kind of the failure, for statistics.
static const char *category_of(json_t *object)
{
    static const struct {
        const char *field, *value, *category;
    } table[] = {
        {"phase", "syntax_check", "syntax"},     {"phase", "security_check", "security"},
        {"verdict", "error", "runtime"},         {"verdict", "timeout_wall", "timeout"},
        {"verdict", "timeout_cpu", "timeout"},   {"verdict", "denied", "security"},
        {"verdict", "cancelled", "cancelled"},   {"verdict", "lost", "lost"},
        {"verdict", "disk_full", "resource"},    {"verdict", "out_of_memory", "resource"},
        {"verdict", "output_limit", "resource"}, {"verdict", "too_many_processes", "resource"},
    };
    if (was_blocked(object))
        return "security";
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *value = json_string_value(json_object_get(object, table[i].field));
        if (value && strcmp(value, table[i].value) == 0)
            return table[i].category;
    }
    return "runtime";
}

// The error in one line: the exception, or else what ended the run.
static json_t *error_text(json_t *object)
{
    json_t *error = json_object_get(object, "error");
    const char *type = json_string_value(json_object_get(error, "type")),
               *message = json_string_value(json_object_get(error, "message")),
               *hint = json_string_value(json_object_get(object, "hint")),
               *verdict = json_string_value(json_object_get(object, "verdict"));
    if (json_array_size(json_object_get(object, "violations")) > 0)
        return json_string("Code contains restricted operations");
    if (type && message && message[0])
        return json_sprintf("%s: %s", type, message);
    if (type)
        return json_string(type);
    return json_sprintf("%s%s%s", verdict ? verdict : "failed", hint ? ": " : "", hint ? hint : "");
}

static int tell_failure(json_t *told, json_t *object)
{
    json_t *violations = json_object_get(object, "violations"),
           *text = json_object_get(json_object_get(object, "error"), "text"),
           *hint = json_object_get(object, "hint");
    int failed = json_object_set_new(told, "error", error_text(object)) |
                 json_object_set_new(told, "error_category", json_string(category_of(object))) |
                 json_object_set_new(told, "traceback",
                                     json_is_string(text) ? json_incref(text) : json_null());
    if (json_array_size(violations) > 0)
        failed |= json_object_set_new(told, "validation_errors", set_lines(violations));
    if (json_is_string(hint))
        failed |= json_object_set(told, "hint", hint);
    return failed;
}

static void answer_execute(struct mcp_call *c, json_t *arguments, json_t *object,
                           const struct err *error)
{
    if (error) {
        tool_error(c, err_code_name(error->code), error->hint, "%s", error->message);
        return;
    }
    set_log_run("execute_code", object);
    bool success = json_is_true(json_object_get(object, "success"));
    json_t *events = json_object_get(object, "security_events"), *told = json_object();
    double ms = json_number_value(json_object_get(json_object_get(object, "usage"), "wall_ms"));
    int failed =
        json_object_set_new(told, "success", json_boolean(success)) |
        json_object_set(told, "execution_id", json_object_get(object, "execution_id")) |
        tell_result(told, object) |
        json_object_set_new(told, "stdout", printed(arguments, object, "stdout")) |
        json_object_set_new(told, "stderr", printed(arguments, object, "stderr")) |
        json_object_set_new(told, "execution_time", json_real(ms / 1000)) |
        json_object_set_new(told, "variables", names_of(json_object_get(object, "variables")));
    if (!success)
        failed |= tell_failure(told, object);
    if (has_event(object, "import"))
        failed |= json_object_set_new(told, "security_event", json_string("blocked_import"));
    if (json_array_size(events) > 0)
        failed |= json_object_set(told, "security_events", events);
    json_t *pictures = set_pictures(object);
    // In that server, code that fails is an answer and not an error of the tool.
    set_answer_with(c, told, set_run_extras(object), pictures, failed | !pictures, false);
}

// ---- execute_code: the run ----------------------------------------------------------------------

// Reads sizes as container engines do: 256m, 256mb, 256 MB and 256MiB are the same.
static int parse_memory(const char *text, uint64_t most, uint64_t *ret)
{
    char plain[64];
    size_t digits = strspn(text, "0123456789."), blanks = text[digits] == ' ';
    const char *unit = text + digits + blanks;
    size_t length = strlen(unit);
    if (length > 0 && (unit[length - 1] | 0x20) == 'b')
        length--;
    if (length == 2 && (unit[1] | 0x20) == 'i')
        length--;
    if (digits == 0 || length > 1 || (blanks && length == 0))
        return -EINVAL;
    snprintf(plain, sizeof plain, "%.*s%.*s", (int)digits, text, (int)length, unit);
    return text_parse_size(plain, 16 * TEXT_MIB, most, ret);
}

// 0, or -1 when the call was answered.
static int memory_of(struct mcp_call *c, json_t *arguments, uint64_t *ret)
{
    const struct config *config = c->mcp->config;
    const char *text;
    char most[32];
    *ret = config->memory_bytes;
    if (!json_object_get(arguments, "memory_limit"))
        return 0;
    text = tool_string(c, arguments, "memory_limit");
    if (!text)
        return -1;
    if (parse_memory(text, bounds_memory_max(config), ret) == 0)
        return 0;
    char shown[33];
    snprintf(shown, sizeof shown, "%s", text);
    text_sanitize(shown);
    text_format_size(bounds_memory_max(config), most, sizeof most);
    tool_error(c, err_code_name(ERR_BAD_VALUE), "write a number and a unit, such as 256m or 1g",
               "argument 'memory_limit': '%s' is not a size from 16m to %s", shown, most);
    return -1;
}

static void execute(struct mcp_call *c)
{
    const struct config *config = c->mcp->config;
    json_t *arguments = tool_arguments(c), *code = json_object_get(arguments, "code");
    uint64_t wall_ms = bounds_milliseconds(arguments, "timeout", config->wall_ms);
    struct wire_limits limits = keeper_limits(config);
    if (memory_of(c, arguments, &limits.memory_bytes) < 0)
        return;
    struct tool_run_plan plan = {
        .arguments = arguments,
        .present = answer_execute,
        .request = {.code = json_string_value(code),
                    .code_length = json_string_length(code),
                    .policy = policy_of(config),
                    .allowed_imports = json_object_get(arguments, "allowed_imports"),
                    .named_result = true,
                    .limits = limits,
                    .wall_ms = wall_ms,
                    .output_bytes = config->output_bytes,
                    .cut_output = true, // as that server does
                    .collect = true}};
    tool_run_start(c, &plan);
}

static void consented(struct mcp_call *c, json_t *answers)
{
    if (tool_has_consent(c, answers))
        execute(c);
}

static void refuse_container(struct mcp_call *c)
{
    static const char *const message =
        "containers are not available on this server, and nothing was run";
    static const char *const hint = "call execute_code without use_container: every run has a box "
                                    "of its own, isolated by the kernel";
    json_t *told = json_pack("{s:b, s:n, s:n, s:s, s:s, s:s, s:n, s:s, s:s, s:s, s:[]}", "success",
                             0, "execution_id", "result", "stdout", "", "stderr", "", "error",
                             message, "traceback", "error_category", "container", "code",
                             "container_unavailable", "hint", hint, "variables");
    set_answer(c, told, NULL, !told, true);
}

static void execute_code(struct mcp_call *c, json_t *arguments)
{
    json_t *code = json_object_get(arguments, "code");
    struct err e;
    if (json_is_true(json_object_get(arguments, "use_container")))
        refuse_container(c);
    else if (source_check(json_string_value(code), json_string_length(code), "code",
                          c->mcp->config->source_bytes, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else
        tool_ask_consent(c, code, NULL, consented);
}

// ---- validate_code ------------------------------------------------------------------------------

static const char restricted_operations[] =
    "Some operations may be restricted in sandbox environment";

static json_t *errors_of(json_t *answer)
{
    json_t *error = json_object_get(answer, "error"), *line = json_object_get(error, "line");
    json_t *errors = set_lines(json_object_get(answer, "violations"));
    if (!errors || !json_is_object(error))
        return errors;
    const char *type = json_string_value(json_object_get(error, "type")),
               *message = json_string_value(json_object_get(error, "message"));
    json_t *text =
        json_is_integer(line)
            ? json_sprintf("Line %lld: %s: %s", (long long)json_integer_value(line), type, message)
            : json_sprintf("%s: %s", type, message);
    (void)json_array_insert_new(errors, 0, text);
    return errors;
}

static json_t *recommendations_of(json_t *answer)
{
    json_t *texts = json_array(), *item;
    size_t i;
    if (json_array_size(json_object_get(answer, "violations")) > 0)
        (void)json_array_append_new(texts, json_string(restricted_operations));
    json_array_foreach (json_object_get(answer, "recommendations"), i, item) {
        json_t *line = json_object_get(item, "line");
        const char *message = json_string_value(json_object_get(item, "message"));
        if (json_is_integer(line))
            (void)json_array_append_new(
                texts, json_sprintf("Line %lld: %s", (long long)json_integer_value(line), message));
        else
            (void)json_array_append_new(texts, json_string(message));
    }
    return texts;
}

static json_t *analysis_of(json_t *answer)
{
    static const char *const names[] = {"line_count", "character_count", "estimated_complexity"};
    json_t *analysis = json_object(), *from = json_object_get(answer, "analysis");
    int failed = set_copy(analysis, from, names, ARRAY_LEN(names));
    // Invalid Python has none.
    if (!json_object_get(analysis, "estimated_complexity"))
        failed |= json_object_set_new(analysis, "estimated_complexity", json_string("unknown"));
    return json_whole(analysis, failed);
}

static void answer_validate(struct check *k)
{
    static const char *const extras[] = {"valid", "error", "violations", "policy", "python"};
    struct mcp_call *c = tool_check_done(k);
    if (!c)
        return;
    bool valid = json_is_true(json_object_get(k->answer, "valid")),
         wrong = json_is_object(json_object_get(k->answer, "error"));
    json_t *told = json_object(), *more = json_object();
    json_t *validation =
        json_pack("{s:b, s:o, s:s}", "valid", valid, "errors", errors_of(k->answer), "message",
                  valid   ? "Code can run in the sandbox"
                  : wrong ? "Code has a syntax error"
                          : "Code contains restricted operations");
    int failed = json_object_set_new(told, "validation", validation) |
                 json_object_set_new(told, "analysis", analysis_of(k->answer)) |
                 json_object_set_new(told, "recommendations", recommendations_of(k->answer)) |
                 set_copy(more, k->answer, extras, ARRAY_LEN(extras)) |
                 json_object_set(more, "details", json_object_get(k->answer, "analysis"));
    set_answer(c, told, more, failed, false);
    check_free(k);
}

// The policy of runs of this set; NULL: the call was answered.
static json_t *own_policy(struct mcp_call *c)
{
    json_t *policy = NULL;
    struct err e;
    bool network = c->mcp->gate && network_is_allowed(c->mcp->gate, c->owner);
    if (code_policy_make(c->mcp->config, policy_of(c->mcp->config), NULL, network, true, &policy,
                         &e) == 0)
        return policy;
    tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    return NULL;
}

static void validate_code(struct mcp_call *c, json_t *arguments)
{
    json_t *policy = own_policy(c);
    if (policy)
        tool_check_start(c, json_object_get(arguments, "code"), policy, false, answer_validate);
}

// ---- get_sandbox_info ---------------------------------------------------------------------------

static json_t *profiles_json(const struct config *config, json_t *modules)
{
    json_t *profiles = json_object(), *list;
    const char *name;
    json_object_foreach (modules, name, list) {
        bool enabled = !config->allowed_imports.count && code_policy_has_tier(config, name);
        (void)json_object_set_new(profiles, name,
                                  json_pack("{s:b, s:O}", "enabled", enabled, "modules", list));
    }
    return profiles;
}

// Finds out whether RestrictedPython is installed, by a check of empty code.
static bool has_setup_problem(json_t *answer)
{
    const char *kind = json_string_value(
        json_object_get(json_array_get(json_object_get(answer, "violations"), 0), "kind"));
    return kind && strcmp(kind, "setup") == 0;
}

static void answer_info(struct check *k)
{
    struct mcp_call *c = tool_check_done(k);
    if (!c)
        return;
    const struct config *config = c->mcp->config;
    json_t *policy = json_object_get(k->answer, "policy"), *imports = json_array();
    for (size_t i = 0; i < config->allowed_imports.count; i++)
        (void)json_array_append_new(imports, json_string(config->allowed_imports.items[i]));
    json_t *told = json_pack(
        "{s:b, s:o, s:{s:o, s:I, s:o}, s:{s:b, s:b}}", "success", 1, "security_profiles",
        profiles_json(config, json_object_get(policy, "tier_modules")), "resource_limits",
        "timeout", bounds_seconds(config->wall_ms), "max_output_size",
        (json_int_t)config->output_bytes, "memory_limit", memory_text(config->memory_bytes),
        "container_mode", "available", 0, "enabled", 0);
    json_t *more =
        json_pack("{s:b, s:O, s:o, s:s, s:s, s:b}", "restricted_python",
                  !has_setup_problem(k->answer), "policy", json_object_get(policy, "mode"),
                  "allowed_imports", imports, "container_image", config->container_image, "version",
                  CONSTRICTOR_VERSION, "network", network_is_allowed(c->mcp->gate, c->owner));
    set_answer(c, told, more, !told || !more, false);
    check_free(k);
}

static void get_sandbox_info(struct mcp_call *c, json_t *arguments)
{
    json_t *policy = own_policy(c), *nothing = json_string("");
    (void)arguments;
    if (policy && json_object_set_new(policy, "tier_modules", json_true()) == 0)
        tool_check_start(c, nothing, policy, false, answer_info);
    else if (policy)
        tool_check_start(c, nothing, NULL, false, answer_info); // answers that memory is out
    json_decref(nothing);
}

// ---- the table ----------------------------------------------------------------------------------

static const struct mcp_tool tools[] = {
    {
        .name = "execute_code",
        .title = "Execute code in the restricted sandbox",
        .description =
            "Executes Python code in a secure sandbox, each time a fresh one, and returns success, "
            "result (the last expression, else the variable result, output or _), stdout, stderr, "
            "execution_time and the names of variables. Only modules of the enabled profiles can "
            "be "
            "imported; what was blocked is told in security_events.",
        .input_schema = execute_input,
        .hints = TOOL_NETWORK,
        .handle = execute_code,
        .adapt = adapt_execute,
    },
    {
        .name = "validate_code",
        .title = "Validate code",
        .description = "Validates Python code without executing it: syntax errors, imports and "
                       "operations that execute_code would refuse, and a short analysis.",
        .input_schema = validate_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = validate_code,
    },
    {
        .name = "get_sandbox_info",
        .title = "Capabilities of the sandbox",
        .description = "Tells which security profiles are enabled and the modules of each, the "
                       "resource limits, and whether there are containers.",
        .input_schema = nothing_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = get_sandbox_info,
    },
    {
        .name = "list_capabilities",
        .title = "Capabilities of the sandbox",
        .description = "The same as get_sandbox_info, by its older name.",
        .input_schema = nothing_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = get_sandbox_info,
    },
    {0},
};

struct tool_set restricted_set = {
    .name = "restricted",
    .tables = {tools},
};
