// SPDX-License-Identifier: Apache-2.0
//
// tool_check: validate_code: checks code without running it.  See tool_shared.h and check/check.h.
// Called by tools.c in the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "check/check_words.h"
#include "config/code_policy.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/schema_words.h"
#include "mcp/tools/tool_check.h"
#include "mcp/tools/tool_shared.h"
#include "run/network.h"
#include "run/source.h"

// clang-format off

static const char validate_input[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"code\": {\"type\": \"string\", \"description\": \"Python source to check.\"}, "
    POLICY_ARGUMENTS ", "
    "\"lint\": {\"type\": \"boolean\", \"default\": false, \"description\": \"Also ask ruff, "
        "where it is "
        "installed.\"}"
    "}, \"required\": [\"code\"], \"additionalProperties\": false}";

#define PLACED(...) FIELD("line", NULLABLE(INTEGER)) ", " FIELD("column", NULLABLE(INTEGER)) ", " \
    __VA_ARGS__

static const char validate_output[] =
    OBJECT("\"valid\", \"error\", \"violations\", \"analysis\", \"recommendations\", \"policy\", "
        "\"python\"",
        FIELD("valid", BOOLEAN) ", "
        FIELD("error", NULLABLE(OBJECT("\"type\", \"message\"",
            FIELD("type", STRING) ", " FIELD("message", STRING) ", "
            FIELD("line", NULLABLE(INTEGER)) ", " FIELD("offset", NULLABLE(INTEGER)) ", "
            FIELD("end_offset", NULLABLE(INTEGER)) ", " FIELD("text", NULLABLE(STRING)) ", "
            FIELD("caret", NULLABLE(STRING)) ", " FIELD("context", NULLABLE(STRING)) ", "
            FIELD("lines", LIST(OBJECT("\"line\", \"text\"", FIELD("line", INTEGER) ", "
                FIELD("text", STRING)))) ", "
            FIELD("hint", STRING)))) ", "
        FIELD("violations", LIST(VIOLATION)) ", "
        FIELD("analysis", OBJECT("\"complete\", \"line_count\", \"character_count\"",
            FIELD("complete", BOOLEAN) ", " FIELD("incomplete", STRING) ", "
            FIELD("line_count", INTEGER) ", " FIELD("blank_lines", INTEGER) ", "
            FIELD("comment_lines", INTEGER) ", " FIELD("code_lines", INTEGER) ", "
            FIELD("character_count", INTEGER) ", " FIELD("byte_count", INTEGER) ", "
            FIELD("estimated_complexity", STRING) ", "
            FIELD("complexity", OBJECT("\"total\", \"highest\"",
                FIELD("total", INTEGER) ", " FIELD("highest", INTEGER))) ", "
            FIELD("functions", LIST(TYPE("object"))) ", "
            FIELD("classes", LIST(TYPE("object"))) ", "
            FIELD("imports", LIST(TYPE("object"))) ", "
            FIELD("names", OBJECT("\"followed\", \"unbound\"",
                FIELD("followed", BOOLEAN) ", " FIELD("reason", NULLABLE(STRING)) ", "
                FIELD("unbound", LIST(TYPE("object"))))) ", "
            FIELD("omitted", TYPE("object")))) ", "
        FIELD("recommendations", LIST(OBJECT("\"rule\", \"message\"",
            PLACED(FIELD("rule", STRING) ", " FIELD("message", STRING))))) ", "
        FIELD("policy", OBJECT("\"mode\"",
            FIELD("mode", STRING) ", " FIELD("advice", STRING) ", " FIELD("tiers", LIST(STRING))
                ", "
            FIELD("allowed_imports", LIST(STRING)))) ", "
        FIELD("python", STRING) ", "
        FIELD("lint", "{\"anyOf\": [" LIST(OBJECT("\"code\", \"message\"",
            PLACED(FIELD("code", STRING) ", " FIELD("message", STRING)))) ", " TYPE("object")
                "]}"));

// clang-format on

static void cancel(struct mcp_call *c)
{
    check_free(TAKE_PTR(c->work));
}

void tool_check_start(struct mcp_call *c, json_t *code, json_t *policy, bool lint,
                      void (*on_done)(struct check *k))
{
    struct check_request request = {.owner = c->owner,
                                    .source = json_string_value(code),
                                    .length = json_string_length(code),
                                    .policy = policy,
                                    .lint = lint,
                                    .on_done = on_done,
                                    .argument = c};
    struct err e;
    // An error ends the call; do not touch it afterwards.
    if (!c->mcp->gate)
        tool_error(c, err_code_name(ERR_INTERNAL), NULL, "this server cannot check code");
    else if (request.length > c->mcp->config->source_bytes &&
             source_too_large("code", c->mcp->config->source_bytes, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else if (!policy || !(c->work = check_start(c->mcp->gate, &request)))
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
    else
        c->cancel = cancel;
    json_decref(policy);
}

struct mcp_call *tool_check_done(struct check *k)
{
    struct mcp_call *c = k->argument;
    c->work = NULL;
    c->cancel = NULL;
    if (k->answer)
        return c;
    tool_error(c, err_code_name(k->error.code), k->error.hint, "%s", k->error.message);
    check_free(k);
    return NULL;
}

static void on_done(struct check *k)
{
    struct mcp_call *c = tool_check_done(k);
    if (!c)
        return;
    _cleanup_free_ char *words = check_words(k->answer, NULL);
    json_t *text = words ? answer_clip(words, strlen(words), c->mcp->config->text_budget) : NULL;
    json_t *content = text ? json_pack("[{s:s, s:o}]", "type", "text", "text", text) : NULL;
    // Invalid code is an answer, not an error of the tool.
    tool_answer(c, content, json_incref(k->answer), false);
    check_free(k);
}

static void validate_code(struct mcp_call *c, json_t *arguments)
{
    json_t *policy = NULL;
    struct err e;
    // Other problems are part of the answer.
    if (code_policy_make(c->mcp->config, json_string_value(json_object_get(arguments, "policy")),
                         json_object_get(arguments, "allowed_imports"),
                         network_is_allowed(c->mcp->gate, c->owner), true, &policy, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else
        tool_check_start(c, json_object_get(arguments, "code"), policy,
                         json_is_true(json_object_get(arguments, "lint")), on_done);
}

const struct mcp_tool check_tools[] = {
    {
        .name = "validate_code",
        .title = "Check Python code",
        .description =
            "Check Python code for errors without running it. Returns syntax errors with line, "
            "column and context; policy violations with line and reason; counts of lines, "
            "complexity, imports, functions and classes; names used before assignment; "
            "recommendations. Use it before execute_python for long code or code from others. "
            "The policy guides code; the box isolates it with any policy.",
        .input_schema = validate_input,
        .output_schema = validate_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = validate_code,
    },
    {0},
};
