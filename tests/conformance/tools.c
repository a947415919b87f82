// SPDX-License-Identifier: Apache-2.0
//
// tools: the tools of the conformance fixtures (fixtures.h).  The scenarios of the official suite
// dictate their names, texts and behaviour.

#include "fixtures.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/protocol/subscriptions.h"
#include "mcp/protocol/tasks.h"
#include "mcp/transport/http.h"

// A red pixel, and a millisecond of silence.
const char fixture_png[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAA"
    "AElFTkSuQmCC";
static const char wav[] =
    "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

// ---- helpers ------------------------------------------------------------------------------------

__attribute__((format(printf, 2, 3))) static void say(struct mcp_call *c, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    tool_answer(c, json_pack("[o]", tool_text(text ? text : "no memory")), NULL, !text);
    free(text);
}

json_t *fixture_argument(const struct mcp_call *c, const char *name)
{
    return json_object_get(json_object_get(c->request.params, "arguments"), name);
}

const char *fixture_text(const struct mcp_call *c, const char *name)
{
    const char *text = json_string_value(fixture_argument(c, name));
    return text ? text : "";
}

json_t *fixture_embedded(const char *uri, const char *type, const char *text)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", uri,
                     "mimeType", type, "text", text);
}

// A pause between two steps of a handler.
struct pause {
    struct mcp_call *call;
    struct event *event;
    int step;
    void (*then)(struct mcp_call *c, int step);
};

static void pause_end(struct mcp_call *c)
{
    struct pause *p = c->work;
    c->work = NULL;
    c->cancel = NULL;
    event_free(p->event);
    free(p);
}

static void on_pause(evutil_socket_t fd, short what, void *argument)
{
    struct pause p = *(struct pause *)argument;
    (void)fd;
    (void)what;
    pause_end(p.call);
    p.then(p.call, p.step);
}

static void pause_for(struct mcp_call *c, int64_t ms, int step,
                      void (*then)(struct mcp_call *c, int step))
{
    struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    struct pause *p = calloc(1, sizeof *p);
    if (p)
        *p = (struct pause){.call = c, .step = step, .then = then};
    if (!p || !(p->event = evtimer_new(c->mcp->base, on_pause, p)) ||
        evtimer_add(p->event, &wait) < 0) {
        if (p && p->event)
            event_free(p->event);
        free(p);
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "no memory for a timer");
        return;
    }
    c->work = p;
    c->cancel = pause_end;
}

struct mcp_question fixture_elicit(const char *key, const char *message, const char *schema)
{
    json_t *wanted = json_loads(schema, 0, NULL);
    return (struct mcp_question){
        .key = key,
        .method = "elicitation/create",
        .params = json_pack("{s:s, s:o}", "message", message, "requestedSchema", wanted)};
}

static struct mcp_question sample(const char *key, const char *prompt, int tokens)
{
    return (struct mcp_question){.key = key,
                                 .method = "sampling/createMessage",
                                 .params = json_pack("{s:[{s:s, s:{s:s, s:s}}], s:i}", "messages",
                                                     "role", "user", "content", "type", "text",
                                                     "text", prompt, "maxTokens", tokens)};
}

static struct mcp_question roots(const char *key)
{
    return (struct mcp_question){.key = key, .method = "roots/list", .params = json_object()};
}

#define YES_FIELD(name)                                                                            \
    "{\"type\": \"object\", \"properties\": {\"" name "\": {\"type\": \"boolean\"}}, "             \
    "\"required\": [\"" name "\"]}"

// A field of an accepted form, or NULL.
const char *fixture_form_text(json_t *answers, const char *key, const char *field)
{
    json_t *content = json_object_get(json_object_get(answers, key), "content");
    return json_string_value(json_object_get(content, field));
}

static const char *sampled_text(json_t *answers, const char *key)
{
    json_t *content = json_object_get(json_object_get(answers, key), "content");
    const char *text = json_string_value(json_object_get(content, "text"));
    return text ? text : "";
}

// "action=accept, content={...}"
static void say_form(struct mcp_call *c, const char *before, json_t *answer)
{
    const char *action = json_string_value(json_object_get(answer, "action"));
    json_t *content = json_object_get(answer, "content");
    _cleanup_free_ char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
    say(c, "%s: action=%s, content=%s", before, action ? action : "none", text ? text : "{}");
}

// ---- content ------------------------------------------------------------------------------------

static void simple_text(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    say(c, "This is a simple text response for testing.");
}

static void image(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    tool_answer(c, json_pack("[o]", tool_image(fixture_png, "image/png")), NULL, false);
}

static void audio(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    tool_answer(
        c, json_pack("[{s:s, s:s, s:s}]", "type", "audio", "data", wav, "mimeType", "audio/wav"),
        NULL, false);
}

static void embedded_resource(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    tool_answer(c,
                json_pack("[o]", fixture_embedded("test://embedded-resource", "text/plain",
                                                  "This is an embedded resource content.")),
                NULL, false);
}

static void multiple_content(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    tool_answer(c,
                json_pack("[o, o, o]", tool_text("Multiple content types test:"),
                          tool_image(fixture_png, "image/png"),
                          fixture_embedded("test://mixed-content-resource", "application/json",
                                           "{\"test\":\"data\",\"value\":123}")),
                NULL, false);
}

static void intended_error(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    tool_answer(c,
                json_pack("[o]", tool_text("This tool intentionally returns an error for testing")),
                NULL, true);
}

static void echo_arguments(struct mcp_call *c, json_t *arguments)
{
    _cleanup_free_ char *text = json_dumps(arguments, JSON_COMPACT);
    say(c, "Received: %s", text ? text : "{}");
}

// ---- notifications ------------------------------------------------------------------------------

static void logging_step(struct mcp_call *c, int step)
{
    static const char *const lines[] = {"Tool execution started", "Tool processing data",
                                        "Tool execution completed"};
    mcp_log(c, MCP_INFO, "conformance", json_string(lines[step]));
    if (step == 2)
        say(c, "Tool with logging executed successfully");
    else
        pause_for(c, 50, step + 1, logging_step);
}

static void with_logging(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    logging_step(c, 0);
}

static void progress_step(struct mcp_call *c, int step)
{
    mcp_progress(c, step * 50, 100, NULL);
    if (step == 2)
        say(c, "Tool with progress executed successfully");
    else
        pause_for(c, 50, step + 1, progress_step);
}

static void with_progress(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    progress_step(c, 0);
}

static void log_once(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    mcp_log(c, MCP_INFO, "conformance", json_string("test_logging_tool was called"));
    say(c, "Logged, if a level was set");
}

static void reconnected(struct mcp_call *c, int step)
{
    (void)step;
    say(c, "Reconnection test completed successfully");
}

// Closes the stream while the call goes on; the client fetches the answer on a new stream.
static void reconnection(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    if (!c->modern)
        mcp_http_close_stream(c);
    pause_for(c, 200, 0, reconnected);
}

static void trigger_tools(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    mcp_list_changed(c->mcp, MCP_LIST_TOOLS, NULL);
    say(c, "Announced a change of the list of tools");
}

static void trigger_prompts(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    mcp_list_changed(c->mcp, MCP_LIST_PROMPTS, NULL);
    say(c, "Announced a change of the list of prompts");
}

static void trigger_resource(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    mcp_resource_updated(c->mcp, "test://watched-resource", NULL);
    say(c, "Announced a change of the watched resource");
}

// ---- questions ----------------------------------------------------------------------------------

static void sampled(struct mcp_call *c, json_t *answers)
{
    say(c, "LLM response: %s", sampled_text(answers, "sample"));
}

static void sampling(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = sample("sample", fixture_text(c, "prompt"), 100);
    mcp_ask(c, &q, 1, NULL, sampled);
}

static void user_responded(struct mcp_call *c, json_t *answers)
{
    say_form(c, "User response", json_object_get(answers, "form"));
}

static void elicited(struct mcp_call *c, json_t *answers)
{
    say_form(c, "Elicitation completed", json_object_get(answers, "form"));
}

static void elicitation(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = fixture_elicit(
        "form", fixture_text(c, "message"),
        "{\"type\": \"object\", \"properties\": {"
        "\"username\": {\"type\": \"string\", \"description\": \"User's response\"}, "
        "\"email\": {\"type\": \"string\", \"description\": \"User's email address\"}}, "
        "\"required\": [\"username\", \"email\"]}");
    mcp_ask(c, &q, 1, NULL, user_responded);
}

static void elicitation_defaults(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = fixture_elicit(
        "form", "Please review and update the form fields with defaults",
        "{\"type\": \"object\", \"properties\": {"
        "\"name\": {\"type\": \"string\", \"description\": \"User name\", \"default\": \"John "
        "Doe\"}, "
        "\"age\": {\"type\": \"integer\", \"description\": \"User age\", \"default\": 30}, "
        "\"score\": {\"type\": \"number\", \"description\": \"User score\", \"default\": 95.5}, "
        "\"status\": {\"type\": \"string\", \"description\": \"User status\", "
        "\"enum\": [\"active\", \"inactive\", \"pending\"], \"default\": \"active\"}, "
        "\"verified\": {\"type\": \"boolean\", \"description\": \"Verified\", \"default\": true}}, "
        "\"required\": []}");
    mcp_ask(c, &q, 1, NULL, elicited);
}

static void elicitation_enums(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = fixture_elicit(
        "form", "Please select options from the enum fields",
        "{\"type\": \"object\", \"properties\": {"
        "\"untitledSingle\": {\"type\": \"string\", \"enum\": [\"option1\", \"option2\", "
        "\"option3\"]}, "
        "\"titledSingle\": {\"type\": \"string\", \"oneOf\": ["
        "{\"const\": \"value1\", \"title\": \"First Option\"}, "
        "{\"const\": \"value2\", \"title\": \"Second Option\"}, "
        "{\"const\": \"value3\", \"title\": \"Third Option\"}]}, "
        "\"legacyEnum\": {\"type\": \"string\", \"enum\": [\"opt1\", \"opt2\", \"opt3\"], "
        "\"enumNames\": [\"Option One\", \"Option Two\", \"Option Three\"]}, "
        "\"untitledMulti\": {\"type\": \"array\", \"items\": {\"type\": \"string\", "
        "\"enum\": [\"option1\", \"option2\", \"option3\"]}}, "
        "\"titledMulti\": {\"type\": \"array\", \"items\": {\"anyOf\": ["
        "{\"const\": \"value1\", \"title\": \"First Choice\"}, "
        "{\"const\": \"value2\", \"title\": \"Second Choice\"}, "
        "{\"const\": \"value3\", \"title\": \"Third Choice\"}]}}}, "
        "\"required\": []}");
    mcp_ask(c, &q, 1, NULL, elicited);
}

static void needs_sampling(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    if (mcp_client_can(c, "sampling"))
        say(c, "The client declared sampling");
    else
        mcp_fail(c, MCP_MISSING_CAPABILITY,
                 json_pack("{s:{s:{}}}", "requiredCapabilities", "sampling"),
                 "this tool needs the client capability 'sampling'");
}

static void greeted(struct mcp_call *c, json_t *answers)
{
    const char *name = fixture_form_text(answers, "user_name", "name");
    say(c, "Hello, %s!", name ? name : "stranger");
}

static void ask_name(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = fixture_elicit("user_name", "What is your name?", TEXT_FIELD("name"));
    mcp_ask(c, &q, 1, NULL, greeted);
}

static void capital_known(struct mcp_call *c, json_t *answers)
{
    say(c, "%s", sampled_text(answers, "capital_question"));
}

static void ask_sampling(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = sample("capital_question", "What is the capital of France?", 100);
    mcp_ask(c, &q, 1, NULL, capital_known);
}

static void roots_known(struct mcp_call *c, json_t *answers)
{
    json_t *list = json_object_get(json_object_get(answers, "client_roots"), "roots");
    _cleanup_free_ char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    say(c, "Client roots: %s", text ? text : "[]");
}

static void ask_roots(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = roots("client_roots");
    mcp_ask(c, &q, 1, NULL, roots_known);
}

// A modern answer counts only with the state that went out with the question.
static bool has_state(struct mcp_call *c)
{
    if (!c->modern || c->state)
        return true;
    mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'requestState' is missing");
    return false;
}

static void confirmed(struct mcp_call *c, json_t *answers)
{
    (void)answers;
    if (has_state(c))
        say(c, "state-ok");
}

static void ask_with_state(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = fixture_elicit("confirm", "Please confirm", YES_FIELD("ok"));
    mcp_ask(c, &q, 1, json_pack("{s:s}", "step", "confirm"), confirmed);
}

static void all_known(struct mcp_call *c, json_t *answers)
{
    const char *name = fixture_form_text(answers, "user_name", "name");
    json_t *list = json_object_get(json_object_get(answers, "client_roots"), "roots");
    say(c, "Name: %s, greeting: %s, roots: %zu", name ? name : "unknown",
        sampled_text(answers, "greeting"), json_array_size(list));
}

static void ask_all(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q[] = {
        fixture_elicit("user_name", "What is your name?", TEXT_FIELD("name")),
        sample("greeting", "Generate a greeting", 50), roots("client_roots")};
    mcp_ask(c, q, ARRAY_LEN(q), json_pack("{s:s}", "step", "all"), all_known);
}

static void step2_known(struct mcp_call *c, json_t *answers)
{
    const char *name = json_string_value(json_object_get(c->state, "name"));
    const char *color = fixture_form_text(answers, "step2", "color");
    say(c, "%s likes %s", name ? name : "Stranger", color ? color : "no color");
}

static void ask_step2(struct mcp_call *c, const char *name)
{
    struct mcp_question q =
        fixture_elicit("step2", "Step 2: What is your favorite color?", TEXT_FIELD("color"));
    mcp_ask(c, &q, 1, json_pack("{s:i, s:s}", "step", 2, "name", name), step2_known);
}

static void step1_known(struct mcp_call *c, json_t *answers)
{
    const char *name = fixture_form_text(answers, "step1", "name");
    if (has_state(c))
        ask_step2(c, name ? name : "Stranger");
}

static void ask_rounds(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    const char *name = json_string_value(json_object_get(c->state, "name"));
    if (json_integer_value(json_object_get(c->state, "step")) == 2) {
        ask_step2(c, name ? name : "Stranger");
        return;
    }
    struct mcp_question q =
        fixture_elicit("step1", "Step 1: What is your name?", TEXT_FIELD("name"));
    mcp_ask(c, &q, 1, json_pack("{s:i}", "step", 1), step1_known);
}

static void possible_known(struct mcp_call *c, json_t *answers)
{
    say(c, "Got %zu answers", json_object_size(answers));
}

static void ask_possible(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q[3];
    size_t count = 0;
    if (mcp_client_can(c, "elicitation"))
        q[count++] = fixture_elicit("user_name", "What is your name?", TEXT_FIELD("name"));
    if (mcp_client_can(c, "sampling"))
        q[count++] = sample("greeting", "Generate a greeting", 50);
    if (mcp_client_can(c, "roots"))
        q[count++] = roots("client_roots");
    if (count)
        mcp_ask(c, q, count, NULL, possible_known);
    else
        say(c, "The client can answer no questions");
}

// ---- tasks --------------------------------------------------------------------------------------

static void greet(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    say(c, "Hello, %s!", fixture_text(c, "name"));
}

static void computed(struct mcp_call *c, int step)
{
    (void)step;
    say(c, "Computed '%s' in %g s", fixture_text(c, "label"),
        json_number_value(fixture_argument(c, "seconds")));
}

static void slow_compute(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    pause_for(c, (int64_t)(json_number_value(fixture_argument(c, "seconds")) * 1000), 0, computed);
}

static void job_failed(struct mcp_call *c, int step)
{
    (void)step;
    tool_answer(c, json_pack("[o]", tool_text("The job failed, as it always does")), NULL, true);
}

static void failing_job(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    pause_for(c, 1000, 0, job_failed);
}

static void job_broke(struct mcp_call *c, int step)
{
    (void)step;
    mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the job broke, as it always does");
}

static void protocol_error_job(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    pause_for(c, 200, 0, job_broke);
}

static void deleted(struct mcp_call *c, json_t *answers)
{
    json_t *content = json_object_get(json_object_get(answers, "confirm"), "content");
    bool yes = json_is_true(json_object_get(content, "confirm"));
    say(c, "%s '%s'", yes ? "Deleted" : "Kept", fixture_text(c, "filename"));
}

static void confirm_delete(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q = fixture_elicit("confirm", "Delete the file?", YES_FIELD("confirm"));
    mcp_ask(c, &q, 1, NULL, deleted);
}

static void inputs_known(struct mcp_call *c, json_t *answers)
{
    say(c, "Got %zu inputs", json_object_size(answers));
}

static void multi_input(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    struct mcp_question q[] = {fixture_elicit("first", "First input?", TEXT_FIELD("name")),
                               fixture_elicit("second", "Second input?", TEXT_FIELD("name"))};
    mcp_ask(c, q, ARRAY_LEN(q), NULL, inputs_known);
}

static void task_greets(struct mcp_call *c, int step)
{
    (void)step;
    const char *name = fixture_form_text(c->answers, "user_name", "name");
    say(c, "Hello from a task, %s!", name ? name : "stranger");
}

// The task begins only when the name is known.
static void named(struct mcp_call *c, json_t *answers)
{
    (void)answers; // the task reads them from the request, which it shares
    struct mcp_call *task = mcp_task_begin(c);
    if (task)
        pause_for(task, 200, 0, task_greets);
}

static void ask_then_task(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    if (!c->modern || !mcp_client_can(c, "extensions/" MCP_EXTENSION_TASKS)) {
        mcp_task_missing(c);
        return;
    }
    struct mcp_question q = fixture_elicit("user_name", "What is your name?", TEXT_FIELD("name"));
    mcp_ask(c, &q, 1, NULL, named);
}

// ---- the table of tools -------------------------------------------------------------------------

#define NOTHING "{\"type\": \"object\", \"properties\": {}}"
#define ONE(name)                                                                                  \
    "{\"type\": \"object\", \"properties\": {\"" name "\": {\"type\": \"string\", "                \
    "\"maxLength\": 4096}}, \"required\": [\"" name "\"]}"

static const char custom_header_schema[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"region\": {\"type\": \"string\", \"description\": \"Mirrored as Mcp-Param-Region\", "
    "\"x-mcp-header\": \"Region\"}, "
    "\"query\": {\"type\": \"string\"}}, \"required\": [\"region\"]}";

static const char slow_compute_schema[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"seconds\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 600}, "
    "\"label\": {\"type\": \"string\", \"maxLength\": 256}}, \"required\": [\"seconds\"]}";

// Copied from the suite, keyword by keyword.
static const char schema_2020_12[] =
    "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"type\": \"object\", "
    "\"$defs\": {\"address\": {\"$anchor\": \"addressDef\", \"type\": \"object\", \"properties\": "
    "{\"street\": {\"type\": \"string\"}, \"city\": {\"type\": \"string\"}}}}, "
    "\"properties\": {\"name\": {\"type\": \"string\"}, "
    "\"address\": {\"$ref\": \"#/$defs/address\"}, "
    "\"contactMethod\": {\"type\": \"string\", \"enum\": [\"phone\", \"email\"]}, "
    "\"phone\": {\"type\": \"string\"}, \"email\": {\"type\": \"string\"}}, "
    "\"allOf\": [{\"anyOf\": [{\"required\": [\"phone\"]}, {\"required\": [\"email\"]}]}], "
    "\"if\": {\"properties\": {\"contactMethod\": {\"const\": \"phone\"}}, "
    "\"required\": [\"contactMethod\"]}, "
    "\"then\": {\"required\": [\"phone\"]}, \"else\": {\"required\": [\"email\"]}, "
    "\"additionalProperties\": false}";

#define ROW(tool_name, text, schema, when, function)                                               \
    {                                                                                              \
        .name = tool_name, .title = "Conformance: " tool_name, .description = text,                \
        .input_schema = schema, .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT, .task = when,           \
        .handle = function                                                                         \
    }
#define PLAIN(tool_name, text, schema, function)                                                   \
    ROW(tool_name, text, schema, TOOL_TASK_NEVER, function)

const struct mcp_tool fixture_tools[] = {
    PLAIN("test_simple_text", "Returns a text", NOTHING, simple_text),
    PLAIN("test_image_content", "Returns an image", NOTHING, image),
    PLAIN("test_audio_content", "Returns audio", NOTHING, audio),
    PLAIN("test_embedded_resource", "Returns an embedded resource", NOTHING, embedded_resource),
    PLAIN("test_multiple_content_types", "Returns text, image and resource", NOTHING,
          multiple_content),
    PLAIN("test_tool_with_logging", "Logs three times", NOTHING, with_logging),
    PLAIN("test_error_handling", "Always returns an error", NOTHING, intended_error),
    PLAIN("test_tool_with_progress", "Reports progress three times", NOTHING, with_progress),
    PLAIN("test_sampling", "Asks the client's model", ONE("prompt"), sampling),
    PLAIN("test_elicitation", "Asks the user", ONE("message"), elicitation),
    PLAIN("test_elicitation_sep1034_defaults", "Asks the user, with defaults", NOTHING,
          elicitation_defaults),
    PLAIN("test_elicitation_sep1330_enums", "Asks the user, with choices", NOTHING,
          elicitation_enums),
    PLAIN("test_reconnection", "Closes its stream before it answers", NOTHING, reconnection),
    PLAIN("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", schema_2020_12,
          echo_arguments),
    PLAIN("test_missing_capability", "Needs sampling", NOTHING, needs_sampling),
    PLAIN("test_streaming_elicitation", "Asks the user", NOTHING, ask_name),
    PLAIN("test_logging_tool", "Logs once", NOTHING, log_once),
    PLAIN("test_trigger_tool_change", "Announces that the tools changed", NOTHING, trigger_tools),
    PLAIN("test_trigger_prompt_change", "Announces that the prompts changed", NOTHING,
          trigger_prompts),
    PLAIN("test_trigger_resource_update", "Announces that the watched resource changed", NOTHING,
          trigger_resource),
    PLAIN("test_custom_header", "Has a parameter that is mirrored as a header",
          custom_header_schema, echo_arguments),
    PLAIN("test_input_required_result_elicitation", "Asks the user's name", NOTHING, ask_name),
    PLAIN("test_input_required_result_sampling", "Asks the client's model", NOTHING, ask_sampling),
    PLAIN("test_input_required_result_list_roots", "Asks for the roots", NOTHING, ask_roots),
    PLAIN("test_input_required_result_multiple_inputs", "Asks three things at once", NOTHING,
          ask_all),
    PLAIN("test_input_required_result_request_state", "Asks, with a state", NOTHING,
          ask_with_state),
    PLAIN("test_input_required_result_multi_round", "Asks twice", NOTHING, ask_rounds),
    PLAIN("test_input_required_result_tampered_state", "Asks, with a state", NOTHING,
          ask_with_state),
    PLAIN("test_input_required_result_capabilities",
          "Asks only questions that the client can answer", NOTHING, ask_possible),
    PLAIN("greet", "Greets", ONE("name"), greet),
    ROW("slow_compute", "Sleeps", slow_compute_schema, TOOL_TASK_ALWAYS, slow_compute),
    ROW("failing_job", "Fails after a second", NOTHING, TOOL_TASK_ONLY, failing_job),
    ROW("protocol_error_job", "Ends with a protocol error", NOTHING, TOOL_TASK_ALWAYS,
        protocol_error_job),
    ROW("confirm_delete", "Asks before it deletes nothing", ONE("filename"), TOOL_TASK_ALWAYS,
        confirm_delete),
    ROW("multi_input", "Asks two things at once", NOTHING, TOOL_TASK_ALWAYS, multi_input),
    PLAIN("test_tool_with_task", "Asks a name, then goes on as a task", NOTHING, ask_then_task),
    {.name = NULL},
};
