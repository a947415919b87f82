// SPDX-License-Identifier: Apache-2.0
//
// artifacts: the route /artifacts: files that the caller's runs left behind.  Handlers of
// rest/route.c; run in the gate.

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "files/store.h"
#include "rest/call.h"
#include "rest/show_file.h"

// NULL: the call was answered.
static struct store *store_of(struct rest_call *c)
{
    struct store *s = c->rest->gate->store;
    if (!s)
        rest_fail(c, 503, err_code_name(ERR_STATE_FOLDER), "start the server with --state DIR",
                  "this server keeps no artifacts");
    return s;
}

// Puts the handle in session of a session's name.
static void resolve(struct rest_call *c, char session[SESSION_NAME_MAX + 1])
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, session, &e);
    if (s)
        snprintf(session, SESSION_NAME_MAX + 1, "%s", s->id);
}

void rest_list_artifacts(struct rest_call *c)
{
    struct store *s = store_of(c);
    char session[SESSION_NAME_MAX + 1], path[STORE_PATH_MAX + 1];
    _cleanup_free_ struct artifact *list = NULL;
    uint64_t more = 0;
    int has_session = s ? rest_query(c, "session", session, sizeof session) : -1;
    int has_path = has_session < 0 ? -1 : rest_query(c, "path", path, sizeof path);
    if (has_path < 0)
        return;
    if (has_session)
        resolve(c, session);
    size_t count = store_list(s, c->owner, has_session ? session : NULL, &list, &more);
    if (has_path) {
        size_t kept = 0;
        for (size_t i = 0; i < count; i++)
            if (strcmp(list[i].path, path) == 0)
                list[kept++] = list[i];
        count = kept;
    }
    struct store_figures figures = store_figures(s, c->owner);
    rest_answer(c, 200,
                json_pack("{s:o, s:I, s:I, s:I}", "artifacts", show_artifacts(c, list, count),
                          "left_out", (json_int_t)more, "total_bytes", (json_int_t)figures.bytes,
                          "quota_bytes", (json_int_t)c->rest->config->artifact_bytes));
}

void rest_delete_artifacts(struct rest_call *c)
{
    struct store *s = store_of(c);
    char session[SESSION_NAME_MAX + 1], path[STORE_PATH_MAX + 1];
    int has_session = s ? rest_query(c, "session", session, sizeof session) : -1;
    int has_path = has_session < 0 ? -1 : rest_query(c, "path", path, sizeof path);
    if (has_path < 0)
        return;
    if (!has_session) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE),
                  "add ?session= with the handle of a session or the execution_id of a run",
                  "the request does not say which artifacts to remove");
        return;
    }
    resolve(c, session);
    unsigned count = store_delete(s, c->owner, session, has_path ? path : NULL);
    if (count)
        rest_answer(c, 200, json_pack("{s:i}", "deleted", (int)count));
    else
        rest_fail(c, 404, err_code_name(ERR_FILE_UNKNOWN), "GET " REST_BASE "/artifacts lists them",
                  "there is no such artifact");
}
