// SPDX-License-Identifier: Apache-2.0
// kernels: see kernels.h.  The handlers of /api/v1 and exec/fetch.c do the work; this file gives
// their answers the form of the kernels server.  There every session has one id: the name that its
// caller chose, or the handle.  Runs in the gate.

#include "compat/kernels.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/fetch.h"
#include "rest/call.h"
#include "rest/execute.h"
#include "rest/ndjson.h"

#define FOLDER "/mnt/data"

// ---- what all of them do ------------------------------------------------------------------------

static const char *id_of(const struct session *s)
{
    return s->plan.name[0] ? s->plan.name : s->id;
}

// {"resultCode": 0, "resultMsg": "success", "data": ...}.  Takes the data.  The hint, if it
// is a text, is our addition, such as that this is a new session of the name.
static void answer_data(struct rest_call *c, json_t *data, json_t *hint)
{
    rest_answer(c, 200,
                data ? json_pack("{s:i, s:s, s:o, s:O*}", "resultCode", 0, "resultMsg", "success",
                                 "data", data, "hint", json_is_string(hint) ? hint : NULL)
                     : NULL);
}

// Adds the reason it ended, unless its owner closed it: then the text is that server's alone.
static void fail_unknown(struct rest_call *c, const struct err *e)
{
    int64_t when_ms;
    bool ended = e->code == ERR_SESSION_ENDED &&
                 session_why_ended(c->rest->gate, c->owner, c->id, &when_ms) != SESSION_CLOSED;
    rest_fail(c, 404, err_code_name(ended ? ERR_SESSION_ENDED : ERR_SESSION_UNKNOWN),
              "GET " KERNELS_BASE "/sessions lists the open ones", "Session not found%s%s",
              ended ? ": " : "", ended ? e->message : "");
}

// The session of the path, or NULL when the call was answered.
static struct session *find(struct rest_call *c)
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (!s)
        fail_unknown(c, &e);
    return s;
}

static void fail_execution(struct rest_call *c, const struct exec *x)
{
    if (x->error.code == ERR_SESSION_UNKNOWN || x->error.code == ERR_SESSION_ENDED)
        fail_unknown(c, &x->error);
    else
        rest_fail_err(c, &x->error);
}

// ---- execute_sync -------------------------------------------------------------------------------

static int add_text(json_t *texts, json_t *text)
{
    return json_is_string(text) && json_string_length(text) ? json_array_append(texts, text) : 0;
}

// Takes from a message of the stream what this answer can show.
static int add_message(json_t *message, json_t *texts, json_t *images, json_t *errors)
{
    json_t *image = json_object_get(message, "image"), *error = json_object_get(message, "error");
    if (json_is_string(error))
        return json_array_append_new(errors, json_pack("{s:O, s:O}", "error", error, "traceback",
                                                       json_object_get(message, "traceback")));
    if (json_is_string(image))
        return json_array_append(images, image);
    return add_text(texts, json_object_get(message, "text"));
}

static void finish_sync(struct rest_call *c, struct exec *x)
{
    if (x->error.message[0]) {
        fail_execution(c, x);
        return;
    }
    json_t *object = exec_json(x), *messages = object ? ndjson_messages(object) : NULL, *message;
    json_t *texts = json_array(), *images = json_array(), *errors = json_array();
    size_t i;
    int failed = !messages || !texts || !images || !errors;
    failed |= add_text(texts, json_object_get(object, "stdout")) |
              add_text(texts, json_object_get(object, "stderr"));
    json_array_foreach (messages, i, message)
        failed |= add_message(message, texts, images, errors);
    json_t *data = json_pack("{s:o, s:o, s:o}", "texts", texts, "images", images, "errors", errors),
           *hint = json_incref(json_object_get(object, "hint"));
    // The hint about a limit is in the error already.
    bool met = json_is_object(json_object_get(object, "limit"));
    json_decref(messages);
    json_decref(object);
    if (failed) {
        json_decref(data);
        data = NULL;
    }
    answer_data(c, data, met ? NULL : hint);
    json_decref(hint);
}

static void execute_sync(struct rest_call *c)
{
    c->whole = finish_sync;
    rest_execute(c);
}

// ---- sessions -----------------------------------------------------------------------------------

static json_t *session_info(const struct session *s)
{
    return json_pack("{s:f, s:f, s:b, s:I}", "created_at", (double)s->created_ms / 1000,
                     "last_activity", (double)s->used_ms / 1000, "is_busy",
                     s->state == SESSION_BUSY, "execution_count", (json_int_t)s->executions);
}

static void list_sessions(struct rest_call *c)
{
    struct err e;
    json_t *all = sessions_json(c->rest->gate, c->owner), *o = json_object(), *item;
    size_t i;
    int failed = !all || !o;
    json_array_foreach (json_object_get(all, "sessions"), i, item) {
        const char *id = json_string_value(json_object_get(item, "session"));
        const struct session *s = id ? session_find(c->rest->gate, c->owner, id, &e) : NULL;
        if (s)
            failed |= json_object_set_new_nocheck(o, id_of(s), session_info(s));
    }
    json_decref(all);
    if (failed) {
        json_decref(o);
        o = NULL;
    }
    rest_answer(c, 200,
                o ? json_pack("{s:o, s:I}", "sessions", o, "total", (json_int_t)json_object_size(o))
                  : NULL);
}

static void say(struct rest_call *c, const char *id, const char *what)
{
    rest_answer(c, 200, json_pack("{s:o}", "message", json_sprintf("Session %s %s", id, what)));
}

static void terminate(struct rest_call *c)
{
    struct session *s = find(c);
    if (!s)
        return;
    session_close(s, SESSION_CLOSED);
    say(c, c->id, "terminated");
}

static void interrupt(struct rest_call *c)
{
    struct err e;
    struct session *s = find(c);
    if (!s)
        return;
    (void)session_interrupt(s, &e); // an error says that nothing runs, which is as good
    say(c, c->id, "interrupted");
}

// ---- one session, and its files -----------------------------------------------------------------

static json_t *file_json(const struct session *s, const struct scratch_file *f)
{
    json_t *id = json_object_get(s->file_ids, f->path);
    return json_pack("{s:o, s:s, s:b, s:I, s:o}", "id", id ? json_incref(id) : json_string(f->path),
                     "filename", f->path, "exists", 1, "size", (json_int_t)f->size, "path",
                     json_sprintf(FOLDER "/%s", f->path));
}

static void on_listed(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct rest_call *c = argument;
    struct err e;
    (void)b;
    c->op = NULL;
    const struct session *s = session_find(c->rest->gate, c->owner, c->session, &e);
    if (!s || reply->error.message[0]) {
        if (s)
            rest_fail_err(c, &reply->error);
        else
            fail_unknown(c, &e);
        return;
    }
    json_t *files = json_array(), *o = session_info(s);
    int failed = !files || !o;
    for (size_t i = 0; i < reply->list.count; i++)
        if (!reply->list.files[i].folder)
            failed |= json_array_append_new(files, file_json(s, &reply->list.files[i]));
    failed |=
        json_object_set_new(o, "session_id", json_string(id_of(s))) |
        json_object_set_new(o, "working_directory", json_string(FOLDER)) |
        json_object_set_new(o, "total_files", json_integer((json_int_t)json_array_size(files))) |
        json_object_set_new(o, "files", files);
    if (failed) {
        json_decref(o);
        o = NULL;
    }
    rest_answer(c, 200, o);
}

static void list_files(struct rest_call *c, struct session *s)
{
    struct err e;
    c->op = scratch_list(s->box, on_listed, c, &e);
    if (c->op)
        memcpy(c->session, s->id, sizeof c->session);
    else
        rest_fail_err(c, &e);
}

static void get_session(struct rest_call *c)
{
    if (find(c))
        rest_with_files(c, false, list_files);
}

// ---- a new session, with files that are fetched -------------------------------------------------

static void answer_created(struct rest_call *c, const char *id, json_t *outcome)
{
    json_auto_t *none = outcome ? NULL : json_array();
    json_t *names = outcome ? json_object_get(outcome, "downloaded_files") : none,
           *errors = outcome ? json_object_get(outcome, "errors") : none;
    answer_data(c,
                json_pack("{s:s, s:s, s:O, s:O}", "session_id", id, "working_directory", FOLDER,
                          "downloaded_files", names, "errors", errors),
                NULL);
}

static void created(struct rest_call *c, struct session *s)
{
    answer_created(c, id_of(s), NULL);
}

// Stores the caller's own ids of its files.
static void remember_ids(struct session *s, json_t *ids)
{
    if (!s->file_ids)
        s->file_ids = json_object();
    if (json_object_size(s->file_ids) + json_object_size(ids) <= SCRATCH_LIST_MAX)
        (void)json_object_update(s->file_ids, ids);
}

static void finish_fetching(struct rest_call *c, struct exec *x)
{
    if (x->error.message[0]) {
        fail_execution(c, x);
        return;
    }
    json_t *object = exec_json(x), *outcome = object ? fetch_outcome(object) : NULL;
    json_decref(object);
    if (!outcome) {
        rest_answer(c, 503, NULL);
        return;
    }
    if (x->session)
        remember_ids(x->session, json_object_get(outcome, "ids"));
    answer_created(c, c->id, outcome);
    json_decref(outcome);
}

// Takes the items.
static void fetch(struct rest_call *c, json_t *items)
{
    struct err e;
    json_t *seconds = field_get(c->body, "timeout", NULL);
    _cleanup_(exec_request_clear) struct exec_request request = {
        .action = EXEC_RUN, .session = c->id, .collect = true};
    bool named = !session_is_id(c->id);
    int r = fetch_check(c->rest->gate, c->owner, c->id, &e);
    if (r == 0)
        r = fetch_prepare(c->rest->config, items,
                          seconds ? json_number_value(seconds) : FETCH_TIMEOUT_S, &request, &e);
    json_decref(items);
    if (r < 0) {
        rest_fail_err(c, &e);
        return;
    }
    if (named && rest_make_plan(c, c->id) < 0)
        return;
    request.plan = named ? &c->plan : NULL;
    rest_start(c, &request, finish_fetching);
}

static void post_session(struct rest_call *c)
{
    json_t *given = field_get(c->body, "session_id", NULL);
    struct err e;
    if (given && strlen(json_string_value(given)) != json_string_length(given)) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "remove it",
                  "field 'session_id' has a NUL character");
        return;
    }
    if (given && json_string_length(given))
        snprintf(c->id, sizeof c->id, "%s", json_string_value(given));
    else if (fetch_new_name(c->id) < 0) {
        rest_answer(c, 503, NULL);
        return;
    }
    json_t *items =
        fetch_items(field_get(c->body, "file_urls", NULL), field_get(c->body, "files", NULL), &e);
    if (!items) {
        rest_fail_err(c, &e);
    } else if (json_array_size(items)) {
        fetch(c, items);
    } else {
        json_decref(items);
        rest_with_session(c, true, created);
    }
}

// ---- the table ----------------------------------------------------------------------------------

static const struct field execute_fields[] = {
    {.name = "code",
     .type = FIELD_STRING,
     .required = true,
     .bound = BOUND_SOURCE,
     .help = "Python source to run"},
    {.name = "session_id",
     .type = FIELD_STRING,
     .max = SESSION_NAME_CHARACTERS,
     .help = "session to run in, any name; its first use opens it, and its variables stay"},
    {.name = "timeout",
     .type = FIELD_NUMBER,
     .bound = BOUND_WALL,
     .help = "longest wall time of the run in seconds"},
    {.name = "variables",
     .type = FIELD_OBJECT,
     .max = EXEC_VARIABLES_MAX,
     .help = "global variables to set first: names and JSON values"},
    {0},
};

static const struct field item_fields[] = {
    {.name = "url",
     .type = FIELD_STRING,
     .required = true,
     .min = 1,
     .max = FETCH_URL_MAX,
     .help = "URL of the file, http or https"},
    {.name = "id", .type = FIELD_STRING, .max = FETCH_ID_MAX, .help = "your own id for the file"},
    {0},
};

static const struct field session_fields[] = {
    {.name = "session_id",
     .type = FIELD_STRING,
     .max = SESSION_NAME_CHARACTERS,
     .help = "name of the session; without it, the server makes one"},
    {.name = "file_urls",
     .type = FIELD_STRINGS,
     .max = FETCH_FILES_MAX,
     .help = "URLs of files to fetch into the working folder, http or https"},
    {.name = "files",
     .type = FIELD_OBJECTS,
     .max = FETCH_FILES_MAX,
     .items = item_fields,
     .help = "the same, as objects with url and id"},
    {.name = "timeout",
     .type = FIELD_NUMBER,
     .min = 0.1,
     .max = FETCH_TIMEOUT_MAX_S,
     .help = "longest time for each file in seconds (30)"},
    {0},
};

// clang-format off
static const struct rest_route kernel_routes[] = {
    {HTTP_POST, "/execute", .body = BODY_JSON, .fields = execute_fields, .status = 200,
     .answer = "Execution", .handle = rest_execute},
    {HTTP_POST, "/execute_sync", .body = BODY_JSON, .fields = execute_fields, .status = 200,
     .answer = "Execution", .handle = execute_sync},
    {HTTP_GET, "/sessions", .status = 200, .answer = "Sessions", .handle = list_sessions},
    {HTTP_POST, "/sessions", .body = BODY_JSON_OPTIONAL, .fields = session_fields, .status = 200,
     .answer = "Session", .handle = post_session},
    {HTTP_GET, "/sessions/{id}", .status = 200, .answer = "Session", .handle = get_session},
    {HTTP_DELETE, "/sessions/{id}", .status = 200, .answer = "Closed", .handle = terminate},
    {HTTP_POST, "/sessions/{id}/interrupt", .status = 200, .answer = "Interrupted",
     .handle = interrupt},
    {HTTP_GET, "/health", .open = true, .status = 200, .answer = "Health", .handle = rest_health},
    {0},
};
// clang-format on

const struct rest_table *kernels_tables(const struct config *c)
{
    static const struct rest_table tables[] = {{KERNELS_BASE, kernel_routes}, {0}};
    bool wanted = text_list_has(&c->tools, "kernels") || text_list_has(&c->tools, "all");
    return wanted ? tables : NULL;
}
