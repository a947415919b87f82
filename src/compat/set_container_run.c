// SPDX-License-Identifier: Apache-2.0
// set_container_run: the tools of the set 'containers' that run something in a container
// (container.h), and links to the files that it writes.  Called by tools.c in the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "compat/container.h"
#include "compat/set_answer.h"
#include "mcp/tools/tool_env.h"
#include "run/source.h"

enum { CID_LENGTH = 8, URL_MAX = 4096 };

// ---- links --------------------------------------------------------------------------------------

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// "BASE/files/TOKEN/plot.png" as "BASE/static/TOKEN/plot_1f0c2a3b_20260131_120000.png": the
// name has the form that clients of that server know, and the token stays unguessable. rest/files.c
// takes both forms.
static json_t *static_url(const char *url, const char *id, const char *time_text)
{
    const char *files = strstr(url, "/files/"), *name = file_name(url);
    const char *dot = strrchr(name, '.');
    if (!files || files > name)
        return json_string(url);
    if (!dot || dot == name)
        dot = name + strlen(name);
    const char *cid = id;
    if (strncmp(cid, CONTAINER_PREFIX, sizeof CONTAINER_PREFIX - 1) == 0)
        cid += sizeof CONTAINER_PREFIX - 1;
    return json_sprintf("%.*s/static/%.*s%.*s_%.*s_%s%s", (int)(files - url), url,
                        (int)(name - files - 7), files + 7, (int)(dot - name), name, CID_LENGTH,
                        cid, time_text, dot);
}

static int add_files(json_t *told, json_t *object, const char *id)
{
    json_t *names = json_array(), *links = json_array(), *item;
    char time_text[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    size_t i;
    int failed = 0;
    if (gmtime_r(&now, &tm))
        (void)strftime(time_text, sizeof time_text, "%Y%m%d_%H%M%S", &tm);
    json_array_foreach (json_object_get(object, "files"), i, item) {
        json_t *path = json_object_get(item, "path");
        const char *url = json_string_value(json_object_get(item, "url"));
        failed |= json_array_append(names, path);
        // On stdio there is no HTTP: the link is that of a resource.
        json_t *link =
            url ? static_url(url, id, time_text) : json_incref(json_object_get(item, "uri"));
        failed |= json_array_append_new(links, json_pack("{s:O, s:o}", "name", path, "url", link));
    }
    failed |= json_object_set_new(told, "files", names);
    failed |= json_object_set_new(told, "file_links", links);
    return failed;
}

// ---- the answer of a run ------------------------------------------------------------------------

// The limit or event that ended the run: new text.  NULL: the code ended by itself.
static json_t *what_ended_it(json_t *object)
{
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    const char *hint = json_string_value(json_object_get(object, "hint"));
    if (strcmp(verdict, "ok") == 0 || strcmp(verdict, "error") == 0)
        return NULL;
    return json_sprintf("%s%s%s", verdict, hint ? ": " : "", hint ? hint : "");
}

static void present_run(struct mcp_call *c, json_t *arguments, json_t *object,
                        const struct err *error)
{
    if (!object) {
        container_refuse(c, error);
        return;
    }
    const char *id = json_string_value(json_object_get(arguments, "container_id"));
    json_decref(set_blocks(c, object)); // shortens long texts
    json_t *told =
        json_pack("{s:O, s:o, s:O}", "stdout", json_object_get(object, "stdout"), "stderr",
                  set_stderr(object), "exit_code", json_object_get(object, "exit_code"));
    json_auto_t *ended = what_ended_it(object);
    int failed = !told || add_files(told, object, id);
    if (told && ended)
        failed |= json_object_set(told, "error", ended);
    set_answer(c, told, set_run_extras(object), failed, false);
}

// The arguments with the container's id, for present_run(): new.
static json_t *arguments_for(json_t *arguments, const char *id)
{
    json_t *o = json_copy(arguments);
    if (o)
        (void)json_object_set_new(o, "container_id", json_string(id));
    return o;
}

static void start(struct mcp_call *c, json_t *arguments, struct exec_request *request,
                  tool_run_present present)
{
    const char *id = json_string_value(json_object_get(arguments, "container_id"));
    struct session_plan session;
    struct exec_request full = container_request(c->mcp, id, &session);
    full.code = request->code;
    full.code_length = request->code_length;
    full.files = request->files;
    full.variables = request->variables;
    struct tool_run_plan plan = {.arguments = arguments, .present = present, .request = full};
    tool_run_start(c, &plan);
}

// ---- execute_python_code ------------------------------------------------------------------------

static void consented(struct mcp_call *c, json_t *answers)
{
    const char *id = tool_has_consent(c, answers) ? container_id(c, tool_arguments(c)) : NULL;
    json_auto_t *arguments = id ? arguments_for(tool_arguments(c), id) : NULL;
    json_t *code = json_object_get(arguments, "code");
    struct exec_request request = {.code = json_string_value(code),
                                   .code_length = json_string_length(code)};
    if (arguments)
        start(c, arguments, &request, present_run);
}

void container_execute(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    json_t *code = json_object_get(arguments, "code");
    if (!container_id(c, arguments))
        return;
    if (source_check(json_string_value(code), json_string_length(code), "code",
                     c->mcp->config->source_bytes, &e) < 0)
        container_refuse(c, &e);
    else
        tool_ask_consent(c, code, NULL, consented);
}

// ---- execute_terminal_command -------------------------------------------------------------------

// The command runs inside the box and ends with this run.
static const char terminal_code[] =
    "import subprocess, sys\n"
    "code = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL).returncode\n"
    "sys.exit(code if code >= 0 else 128 - code)\n";

static void terminal_consented(struct mcp_call *c, json_t *answers)
{
    const char *id = tool_has_consent(c, answers) ? container_id(c, tool_arguments(c)) : NULL;
    json_auto_t *arguments = id ? arguments_for(tool_arguments(c), id) : NULL;
    struct exec_request request = {.code = terminal_code, .code_length = sizeof terminal_code - 1};
    if (arguments) {
        request.variables = json_pack("{s:O}", "command", json_object_get(arguments, "command"));
        start(c, arguments, &request, present_run);
    }
}

void container_terminal(struct mcp_call *c, json_t *arguments)
{
    if (container_id(c, arguments) && tool_string(c, arguments, "command"))
        tool_ask_consent(c, json_object_get(arguments, "command"), NULL, terminal_consented);
}

// ---- upload_file_to_sandbox ---------------------------------------------------------------------

static void present_upload(struct mcp_call *c, json_t *arguments, json_t *object,
                           const struct err *error)
{
    if (!object) {
        container_refuse(c, error);
        return;
    }
    json_t *path = json_object_get(arguments, "uploaded");
    bool well = json_is_true(json_object_get(object, "success"));
    json_t *told = json_pack("{s:b, s:o, s:o}", "success", well, "message",
                             well ? json_sprintf("Uploaded to %s", json_string_value(path))
                                  : json_string("The file could not be written"),
                             "path", json_incref(path));
    set_answer(c, told, set_run_extras(object), 0, !well);
}

// The path below the working folder: new.  The working folders of other servers stand for ours.
static json_t *path_of(json_t *arguments)
{
    static const char *const roots[] = {"/mnt/data", "/app/results", "/app", "/"};
    const char *local = json_string_value(json_object_get(arguments, "local_file_path"));
    const char *folder = json_string_value(json_object_get(arguments, "dest_path"));
    for (size_t i = 0; folder && i < ARRAY_LEN(roots); i++) {
        size_t length = strlen(roots[i]);
        if (strncmp(folder, roots[i], length) == 0 &&
            (roots[i][1] == '\0' || folder[length] == '/' || folder[length] == '\0')) {
            folder += length;
            break;
        }
    }
    while (folder && *folder == '/')
        folder++;
    size_t length = folder ? strlen(folder) : 0;
    while (length > 0 && folder[length - 1] == '/')
        length--;
    return json_sprintf("%.*s%s%s", (int)length, folder ? folder : "", length ? "/" : "",
                        file_name(local));
}

// The file as exec_start() takes it: new; NULL: the call was answered.
static json_t *file_of(struct mcp_call *c, json_t *arguments, json_t *path)
{
    json_t *text = json_object_get(arguments, "content"),
           *base64 = json_object_get(arguments, "content_base64");
    struct err e;
    if (!text == !base64) {
        // SECURITY: a tool that read files of the server's machine would hand all of them to its
        // callers.
        err_set(
            &e, ERR_BAD_VALUE, 0,
            "read the file at the client and pass its content as content or content_base64",
            text
                ? "arguments 'content' and 'content_base64' are the same; one is enough"
                : "the server never reads files of its own machine: local_file_path only names the "
                  "file");
        container_refuse(c, &e);
        return NULL;
    }
    json_t *files =
        json_pack("[{s:O, s:O}]", "path", path, text ? "text" : "base64", text ? text : base64);
    if (files && exec_check_files(c->mcp->gate, files, &e) == 0)
        return files;
    if (files)
        container_refuse(c, &e);
    json_decref(files);
    return NULL;
}

void container_upload(struct mcp_call *c, json_t *given)
{
    const char *id = container_id(c, given);
    if (!id || !tool_string(c, given, "local_file_path") ||
        (json_object_get(given, "dest_path") && !tool_string(c, given, "dest_path")))
        return;
    json_t *arguments = arguments_for(given, id), *path = path_of(given);
    json_t *files = arguments && path ? file_of(c, given, path) : NULL;
    if (files) {
        struct exec_request request = {.code = "", .files = files};
        (void)json_object_set_new(arguments, "uploaded",
                                  json_sprintf("/mnt/data/%s", json_string_value(path)));
        start(c, arguments, &request, present_upload);
    }
    json_decref(path);
    json_decref(arguments);
}
