// SPDX-License-Identifier: Apache-2.0
//
// resources: the resources and prompts of the conformance fixtures (fixtures.h), and the table that
// the server takes them from.

#include "fixtures.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/tools/resources.h"

// ---- resources ----------------------------------------------------------------------------------

#define STATIC_TEXT "test://static-text"
#define STATIC_BINARY "test://static-binary"
#define WATCHED "test://watched-resource"
#define TEMPLATE_BEFORE "test://template/"
#define TEMPLATE_AFTER "/data"

static json_t *resource_row(const char *uri_key, const char *uri, const char *name,
                            const char *description, const char *type)
{
    return json_pack("{s:s, s:s, s:s, s:s}", uri_key, uri, "name", name, "description", description,
                     "mimeType", type);
}

static json_t *list_resources(const struct mcp_call *c)
{
    (void)c;
    return json_pack(
        "[o, o, o]", resource_row("uri", STATIC_TEXT, "static-text", "A static text", "text/plain"),
        resource_row("uri", STATIC_BINARY, "static-binary", "A static image", "image/png"),
        resource_row("uri", WATCHED, "watched-resource", "A resource to watch", "text/plain"));
}

static json_t *list_templates(const struct mcp_call *c)
{
    (void)c;
    return json_pack("[o]", resource_row("uriTemplate", TEMPLATE_BEFORE "{id}" TEMPLATE_AFTER,
                                         "template", "Data by id", "application/json"));
}

// The {id} of the template, or an empty text.
static void template_id(const char *uri, char *buf, size_t cap)
{
    size_t before = strlen(TEMPLATE_BEFORE), after = strlen(TEMPLATE_AFTER), length = strlen(uri);
    buf[0] = '\0';
    if (length <= before + after || strncmp(uri, TEMPLATE_BEFORE, before) != 0 ||
        strcmp(uri + length - after, TEMPLATE_AFTER) != 0)
        return;
    size_t size = length - before - after;
    if (size >= cap || memchr(uri + before, '/', size))
        return;
    memcpy(buf, uri + before, size);
    buf[size] = '\0';
}

static json_t *contents_of(const char *uri)
{
    char id[128];
    if (strcmp(uri, STATIC_TEXT) == 0)
        return json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType", "text/plain", "text",
                         "This is the content of the static text resource.");
    if (strcmp(uri, STATIC_BINARY) == 0)
        return json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType", "image/png", "blob",
                         fixture_png);
    if (strcmp(uri, WATCHED) == 0)
        return json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType", "text/plain", "text",
                         "Watched resource content");
    template_id(uri, id, sizeof id);
    if (!id[0])
        return NULL;
    json_t *data = json_pack("{s:s, s:b, s:o}", "id", id, "templateTest", 1, "data",
                             json_sprintf("Data for ID: %s", id));
    _cleanup_free_ char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
    return json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType", "application/json", "text",
                     text ? text : "{}");
}

static bool resource_exists(struct mcp *m, const char *uri, const char *owner)
{
    (void)m;
    (void)owner;
    json_t *contents = contents_of(uri);
    json_decref(contents);
    return contents != NULL;
}

static bool read_resource(struct mcp_call *c, const char *uri)
{
    json_t *contents = contents_of(uri);
    if (!contents)
        return false;
    mcp_resource_answer(c, contents, 0, false);
    return true;
}

// ---- prompts ------------------------------------------------------------------------------------

static json_t *message(json_t *content)
{
    return json_pack("{s:s, s:o}", "role", "user", "content", content);
}

static void answer_prompt(struct mcp_call *c, json_t *first, json_t *second)
{
    json_t *messages = json_pack("[o]", message(first));
    if (second)
        (void)json_array_append_new(messages, message(second));
    mcp_answer(c, json_pack("{s:o}", "messages", messages));
}

// Takes the text.
static json_t *text_block(json_t *text)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", text);
}

static void simple_prompt(struct mcp_call *c)
{
    answer_prompt(c, tool_text("This is a simple prompt for testing."), NULL);
}

static void prompt_with_arguments(struct mcp_call *c)
{
    answer_prompt(c,
                  text_block(json_sprintf("Prompt with arguments: arg1='%s', arg2='%s'",
                                          fixture_text(c, "arg1"), fixture_text(c, "arg2"))),
                  NULL);
}

static void prompt_with_resource(struct mcp_call *c)
{
    answer_prompt(c,
                  fixture_embedded(fixture_text(c, "resourceUri"), "text/plain",
                                   "Embedded resource content for testing."),
                  tool_text("Please process the embedded resource above."));
}

static void prompt_with_image(struct mcp_call *c)
{
    answer_prompt(c, tool_image(fixture_png, "image/png"),
                  tool_text("Please analyze the image above."));
}

static void context_known(struct mcp_call *c, json_t *answers)
{
    const char *context = fixture_form_text(answers, "user_context", "context");
    answer_prompt(c, text_block(json_sprintf("Use this context: %s", context ? context : "none")),
                  NULL);
}

static void prompt_that_asks(struct mcp_call *c)
{
    struct mcp_question q = fixture_elicit("user_context", "What context should the prompt use?",
                                           TEXT_FIELD("context"));
    mcp_ask(c, &q, 1, NULL, context_known);
}

static const struct fixture_prompt {
    const char *name, *description, *arguments[3];
    void (*handle)(struct mcp_call *c);
} prompt_table[] = {
    {"test_simple_prompt", "A prompt without arguments", {NULL}, simple_prompt},
    {"test_prompt_with_arguments",
     "A prompt with two arguments",
     {"arg1", "arg2"},
     prompt_with_arguments},
    {"test_prompt_with_embedded_resource",
     "A prompt with a resource",
     {"resourceUri"},
     prompt_with_resource},
    {"test_prompt_with_image", "A prompt with an image", {NULL}, prompt_with_image},
    {"test_input_required_result_prompt", "A prompt that asks", {NULL}, prompt_that_asks},
};

static const struct fixture_prompt *find_prompt(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(prompt_table); i++)
        if (strcmp(prompt_table[i].name, name) == 0)
            return &prompt_table[i];
    return NULL;
}

static json_t *list_prompts(const struct mcp_call *c)
{
    (void)c;
    json_t *rows = json_array();
    for (size_t i = 0; i < ARRAY_LEN(prompt_table); i++) {
        const struct fixture_prompt *p = &prompt_table[i];
        json_t *arguments = json_array();
        for (const char *const *a = p->arguments; *a; a++)
            (void)json_array_append_new(arguments,
                                        json_pack("{s:s, s:s, s:b}", "name", *a, "description",
                                                  "Argument for testing", "required", 1));
        (void)json_array_append_new(rows,
                                    json_pack("{s:s, s:s, s:o}", "name", p->name, "description",
                                              p->description, "arguments", arguments));
    }
    return rows;
}

static bool get_prompt(struct mcp_call *c, const char *name, json_t *arguments)
{
    const struct fixture_prompt *p = find_prompt(name);
    if (!p)
        return false;
    for (const char *const *a = p->arguments; *a; a++)
        if (!json_is_string(json_object_get(arguments, *a))) {
            mcp_fail(c, MCP_INVALID_PARAMS, NULL, "prompt '%s' needs the argument '%s'", name, *a);
            return true;
        }
    p->handle(c);
    return true;
}

static json_t *complete_prompt(const char *prompt, const char *argument, const char *prefix)
{
    static const char *const words[] = {"paris", "park", "party", "test"};
    const struct fixture_prompt *p = find_prompt(prompt);
    bool known = false;
    for (const char *const *a = p ? p->arguments : (const char *const[]){NULL}; *a; a++)
        known = known || strcmp(*a, argument) == 0;
    if (!known)
        return NULL;
    json_t *found = json_array();
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strncmp(words[i], prefix, strlen(prefix)) == 0)
            (void)json_array_append_new(found, json_string(words[i]));
    return found;
}

// ---- the table ----------------------------------------------------------------------------------

// Runs before main(), so a program has the fixtures when it is linked with this file.
__attribute__((constructor)) static void register_fixtures(void)
{
    static struct tool_set fixtures = {
        .tables = {fixture_tools},
        .resources = list_resources,
        .templates = list_templates,
        .prompts = list_prompts,
        .resource_read = read_resource,
        .resource_exists = resource_exists,
        .prompt_get = get_prompt,
        .prompt_complete = complete_prompt,
        .lists_change = true,
    };
    tool_set_register(&fixtures);
}
