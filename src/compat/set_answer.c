// SPDX-License-Identifier: Apache-2.0
// set_answer: see set_answer.h.  Called by the tool sets in the gate.

#include "compat/set_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/outputs.h"
#include "mcp/tools/tools.h"
#include "run/display.h"

// ---- the text -----------------------------------------------------------------------------------
// Writes JSON as Python's json.dumps(value, indent=2) does: jansson would write 0.1 as
// 0.10000000000000001.

enum { DEPTH_MAX = 80 }; // values of runs have 64 levels at most

static void put_real(FILE *f, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) { // as few digits as give the same number
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, f);
    if (!strpbrk(text, ".en"))
        fputs(".0", f);
}

static bool put_value(FILE *f, json_t *value, int depth);

static bool put_plain(FILE *f, json_t *value)
{
    if (json_is_real(value)) {
        put_real(f, json_real_value(value));
        return true;
    }
    _cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY);
    return text && fputs(text, f) >= 0;
}

static void new_line(FILE *f, int depth)
{
    fprintf(f, "\n%*s", 2 * depth, "");
}

static bool put_items(FILE *f, json_t *value, int depth)
{
    bool good = true, first = true;
    size_t i;
    const char *key;
    json_t *item;
    json_array_foreach (value, i, item) {
        fputs(first ? "" : ",", f);
        new_line(f, depth + 1);
        good = good && put_value(f, item, depth + 1);
        first = false;
    }
    json_object_foreach (value, key, item) {
        json_t *name = json_string(key);
        fputs(first ? "" : ",", f);
        new_line(f, depth + 1);
        good = good && name && put_plain(f, name) && fputs(": ", f) >= 0 &&
               put_value(f, item, depth + 1);
        json_decref(name);
        first = false;
    }
    return good;
}

static bool put_value(FILE *f, json_t *value, int depth)
{
    bool list = json_is_array(value);
    if (!list && !json_is_object(value))
        return put_plain(f, value);
    if (depth >= DEPTH_MAX)
        return false;
    if (list ? !json_array_size(value) : !json_object_size(value))
        return fputs(list ? "[]" : "{}", f) >= 0;
    fputc(list ? '[' : '{', f);
    bool good = put_items(f, value, depth);
    new_line(f, depth);
    fputc(list ? ']' : '}', f);
    return good;
}

static char *pretty(json_t *value)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    bool good = f && put_value(f, value, 0);
    if (f && fclose(f) == 0 && good)
        return text;
    free(text);
    return NULL;
}

// ---- the answer ---------------------------------------------------------------------------------

json_t *set_pictures(json_t *object)
{
    json_t *blocks = json_array(), *item;
    struct picture p;
    size_t i;
    json_array_foreach (json_object_get(object, "display"), i, item) {
        if (blocks && display_picture(item, &p) &&
            json_array_append_new(blocks, tool_image(p.base64, p.mime_type)) < 0) {
            json_decref(blocks);
            return NULL;
        }
    }
    return blocks;
}

void set_answer(struct mcp_call *c, json_t *told, json_t *more, int failed, bool is_error)
{
    set_answer_with(c, told, more, NULL, failed, is_error);
}

void set_answer_with(struct mcp_call *c, json_t *told, json_t *more, json_t *blocks, int failed,
                     bool is_error)
{
    char *text = told && !failed ? pretty(told) : NULL;
    json_t *block = text ? tool_text(text) : NULL;
    free(text);
    failed |= !block || (more && json_object_update_missing(told, more) < 0);
    json_decref(more);
    json_t *content = failed ? NULL : json_pack("[O]", block);
    failed |= !content || (blocks && json_array_extend(content, blocks) < 0);
    json_decref(block);
    json_decref(blocks);
    if (!failed) {
        tool_answer(c, content, told, is_error);
        return;
    }
    json_decref(content);
    json_decref(told);
    tool_error(c, err_code_name(ERR_SYSTEM), "try again later, or let it print less",
               "the server has no memory for the answer");
}

json_t *set_lines(json_t *violations)
{
    json_t *lines = json_array(), *item;
    size_t i;
    json_array_foreach (violations, i, item) {
        const char *reason = json_string_value(json_object_get(item, "reason"));
        json_t *line = json_object_get(item, "line");
        if (!reason)
            continue;
        json_t *text =
            json_is_integer(line)
                ? json_sprintf("Line %lld: %s", (long long)json_integer_value(line), reason)
                : json_string(reason);
        if (json_array_append_new(lines, text) < 0) {
            json_decref(lines);
            return NULL;
        }
    }
    return lines;
}

int set_copy(json_t *to, json_t *from, const char *const names[], size_t count)
{
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(from, names[i]);
        if (value)
            failed |= json_object_set(to, names[i], value);
    }
    return failed;
}

static const char *word(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

void set_log_run(const char *tool, json_t *object)
{
    json_t *usage = json_object_get(object, "usage");
    log_line(LOG_INFO, "run %s: tool=%s verdict=%s phase=%s wall_ms=%.1f security_events=%zu",
             word(object, "execution_id"), tool, word(object, "verdict"), word(object, "phase"),
             json_number_value(json_object_get(usage, "wall_ms")),
             json_array_size(json_object_get(object, "security_events")));
}

json_t *set_run_extras(json_t *object)
{
    static const char *const names[] = {"execution_id",    "verdict",    "phase",  "exit_code",
                                        "signal",          "usage",      "limit",  "truncated",
                                        "security_events", "violations", "hint",   "isolation",
                                        "network",         "files",      "display"};
    json_t *o = json_object();
    if (o && set_copy(o, object, names, ARRAY_LEN(names)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

// ---- the result of a run in parts ---------------------------------------------------------------

struct keeping {
    struct mcp_call *call;
    const char *id; // of the run
};

static bool keep_part(void *argument, enum output_part part, const char *mime_type,
                      const char *text, size_t length, char ret_uri[OUTPUT_URI_MAX])
{
    const struct keeping *k = argument;
    mcp_outputs_uri(k->id, part, ret_uri);
    return mcp_outputs_add(k->call->mcp, k->call->owner, k->id, part, mime_type, text, length) == 0;
}

json_t *set_blocks(struct mcp_call *c, json_t *object)
{
    struct keeping keeping = {.call = c,
                              .id = json_string_value(json_object_get(object, "execution_id"))};
    struct answer_options options = {.budget = c->mcp->config->text_budget,
                                     .links = !c->mcp->config->no_links,
                                     .keep = keep_part,
                                     .argument = &keeping};
    json_t *blocks = answer_make(&options, object);
    if (blocks)
        (void)json_array_remove(blocks, 0); // the text of the default set
    return blocks;
}

json_t *set_stderr(json_t *object)
{
    json_t *printed = json_object_get(object, "stderr"),
           *text = json_object_get(json_object_get(object, "error"), "text");
    size_t length = json_string_length(printed);
    const char *bytes = json_string_value(printed);
    bool joined = length && bytes[length - 1] != '\n' && text;
    return json_sprintf("%.*s%s%s", (int)length, bytes ? bytes : "", joined ? "\n" : "",
                        text ? json_string_value(text) : "");
}

void set_say(struct mcp_call *c, json_t *text, json_t *blocks, json_t *structured, bool is_error)
{
    json_t *content = text ? json_pack("[{s:s, s:o}]", "type", "text", "text", text) : NULL;
    if (content && blocks)
        (void)json_array_extend(content, blocks);
    json_decref(blocks);
    tool_answer(c, content, structured, is_error);
}
