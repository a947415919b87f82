// SPDX-License-Identifier: Apache-2.0
//
// fetch: see fetch.h.  Runs in the gate.

#include "exec/fetch.h"

#include <stdio.h>
#include <string.h>

#include "run/network.h"
#include "json/dump.h"
#include "json/whole.h"

enum {
    WAIT_MS = 5000, // besides the downloads themselves
    TEXT_MAX = FETCH_URL_MAX + 512,
};

// Leaves no name in the session; prints its report instead of returning it, so that `_` stays.
static const char code[] = "__import__('runpy').run_path('/opt/constrictor/"
                           "fetch.py')['main'](float(__import__('sys').argv[1]), "
                           "__import__('json').loads(__import__('sys').argv[2]))";

// ---- what is asked for --------------------------------------------------------------------------

static int check_text(json_t *value, size_t max, const char *name, size_t i, struct err *e)
{
    const char *text = json_string_value(value);
    if (text && text[0] && strlen(text) == json_string_length(value) &&
        json_string_length(value) <= max)
        return 0;
    return err_set(e, ERR_BAD_VALUE, 0, "write it like https://data.example.org/sales.csv",
                   "%s[%zu] must be a text of 1 to %zu bytes without NUL", name, i, max);
}

static int add(json_t *list, json_t *url, json_t *id, struct err *e)
{
    if (json_array_size(list) >= FETCH_FILES_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "fetch the others with a second call",
                       "more than %d files at once", FETCH_FILES_MAX);
    return json_array_append_new(list, json_pack("{s:O, s:O*}", "url", url, "id", id)) < 0
               ? err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory")
               : 0;
}

json_t *fetch_items(json_t *urls, json_t *files, struct err *e)
{
    json_t *list = json_array(), *item;
    size_t i;
    int r = list ? 0 : err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    json_array_foreach (urls, i, item) {
        if (r == 0)
            r = check_text(item, FETCH_URL_MAX, "file_urls", i, e);
        if (r == 0)
            r = add(list, item, NULL, e);
    }
    json_array_foreach (files, i, item) {
        json_t *url = json_object_get(item, "url"), *id = json_object_get(item, "id");
        if (r == 0)
            r = check_text(url, FETCH_URL_MAX, "files.url", i, e);
        if (r == 0 && id && !json_is_null(id))
            r = check_text(id, FETCH_ID_MAX, "files.id", i, e);
        if (r == 0)
            r = add(list, url, json_is_null(id) ? NULL : id, e);
    }
    return json_whole(list, r);
}

int fetch_check(struct gate *g, const char *owner, const char *session, struct err *e)
{
    struct err unknown;
    const struct session *s =
        session && session[0] ? session_find(g, owner, session, &unknown) : NULL;
    if (!network_is_allowed(g, owner))
        return err_set(e, ERR_NETWORK_NOT_ALLOWED, 0,
                       "send the files themselves, or ask the operator to start the server with "
                       "their hosts: --allow-host files.example.org:443, or '*' for all public "
                       "ones",
                       "files cannot be fetched: code has no network here; nothing was run");
    if (s && !s->networked)
        return err_set(e, ERR_NETWORK_NOT_ALLOWED, 0, "fetch them into another session",
                       "files cannot be fetched: this session was opened without network; nothing "
                       "was run");
    return 0;
}

int fetch_new_name(char ret[FETCH_NAME_SIZE])
{
    return id_new(ret);
}

// ---- the run ------------------------------------------------------------------------------------

int fetch_prepare(const struct config *c, json_t *items, double timeout_s,
                  struct exec_request *request, struct err *e)
{
    uint64_t most = c->timeout_max_ms > c->wall_ms ? c->timeout_max_ms : c->wall_ms;
    size_t count = json_array_size(items);
    if (count == 0) {
        request->code = "";
        request->code_length = 0;
        return 0;
    }
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%.3f", timeout_s);
    char *text = dump_text(items);
    request->argv = text ? json_pack("[s, s, s]", "<fetch>", seconds, text) : NULL;
    free(text);
    if (!request->argv)
        return err_set(e, ERR_SYSTEM, 0, "fetch fewer files at once",
                       "the server is out of memory");
    uint64_t wall_ms = (uint64_t)(timeout_s * 1000) * count + WAIT_MS;
    request->code = code;
    request->code_length = sizeof code - 1;
    request->filename = "<fetch>";
    request->plain = true; // the server's own code: no policy applies
    request->wall_ms = wall_ms < most ? wall_ms : most;
    return 0;
}

// The line of JSON that the code printed, new; NULL: there is none.
static json_t *read_report(json_t *object)
{
    json_t *out = json_object_get(object, "stdout");
    return json_is_string(out) ? json_loadb(json_string_value(out), json_string_length(out),
                                            JSON_DISABLE_EOF_CHECK, NULL)
                               : NULL;
}

static bool is_short(json_t *text)
{
    return json_is_string(text) && json_string_length(text) <= TEXT_MAX;
}

json_t *fetch_outcome(json_t *object)
{
    json_t *report = read_report(object), *names = json_array(), *errors = json_array(),
           *ids = json_object(), *item;
    size_t i;
    json_array_foreach (json_object_get(report, "files"), i, item) {
        json_t *name = json_object_get(item, "name"), *id = json_object_get(item, "id");
        if (i >= FETCH_FILES_MAX || !is_short(name))
            break;
        (void)json_array_append(names, name);
        if (is_short(id))
            (void)json_object_set_nocheck(ids, json_string_value(name), id);
    }
    json_array_foreach (json_object_get(report, "errors"), i, item)
        if (i < FETCH_FILES_MAX && is_short(item))
            (void)json_array_append(errors, item);
    json_t *error = json_object_get(object, "error");
    const char *verdict = json_string_value(json_object_get(object, "verdict")),
               *message = json_string_value(json_object_get(error, "message"));
    // A limit stopped the run.
    if (!json_is_true(json_object_get(object, "success")))
        (void)json_array_append_new(
            errors, json_sprintf("Downloads were stopped: %s%s%s", verdict ? verdict : "lost",
                                 message ? ": " : "", message ? message : ""));
    json_decref(report);
    return json_pack("{s:o, s:o, s:o}", "downloaded_files", names, "errors", errors, "ids", ids);
}
