// SPDX-License-Identifier: Apache-2.0
//
// set_kit: see set_kit.h.  Called by set_executor.c and set_containers.c in the gate.

#include "compat/set_parts.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/outputs.h"

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
