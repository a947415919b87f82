// SPDX-License-Identifier: Apache-2.0
//
// env_remote: see env.h.  Asks a server over REST (docs/rest.md).  Runs in the first process, with
// the rights of the user.  An install goes on in the server when this process is interrupted.
//
// SECURITY: the server is not trusted: answers are bounded, and env_words.c cleans what is printed.

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/env.h"
#include "env/env_words.h"
#include "env/envs.h"

enum {
    PATH_MAX_ = 4096,
    LINE_MAX_ = 4 << 20,
    ANSWER_MAX = 64 << 20,
    PATIENCE_S = 3600,
};

#define API "/api/v1/environments"

struct talk {
    const struct env_command *ask;
    struct event_base *base;
    const char *url;
    char host[256], prefix[256];
    int port;
    struct evbuffer *body; // unused bytes of the answer
    json_t *last;          // the last line of a stream, or the answer
    int status;
    bool over, too_long;
    bool to_file;     // the answer is the file of VERB_EXPORT
    bool not_written; // writing the file failed
    uint64_t written;
};

// ---- where --------------------------------------------------------------------------------------

// "http://127.0.0.1:8000/mcp" and "http://127.0.0.1:8000/" mean the same server.
static int read_url(struct talk *t, struct err *e)
{
    struct evhttp_uri *uri = evhttp_uri_parse(t->url);
    const char *scheme = uri ? evhttp_uri_get_scheme(uri) : NULL;
    const char *host = uri ? evhttp_uri_get_host(uri) : NULL;
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    int r = 0;
    if (!scheme || !host || !host[0] || strcmp(scheme, "http") != 0) {
        r = err_set(e, ERR_BAD_VALUE, 0,
                    scheme && strcmp(scheme, "https") == 0
                        ? "use the server's own http address, behind its proxy"
                        : "write it as http://127.0.0.1:8000",
                    "'%.200s' is not the address of a server", t->url);
    } else {
        size_t n = strlen(host);
        bool bracketed = n > 2 && host[0] == '[' && host[n - 1] == ']';
        snprintf(t->host, sizeof t->host, "%.*s", (int)(bracketed ? n - 2 : n),
                 bracketed ? host + 1 : host);
        t->port = evhttp_uri_get_port(uri) > 0 ? evhttp_uri_get_port(uri) : 80;
        snprintf(t->prefix, sizeof t->prefix, "%s", path ? path : "");
        static const char *const ends[] = {"/", "/mcp", "/api/v1", "/"};
        for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
            size_t have = strlen(t->prefix), cut = strlen(ends[i]);
            if (have >= cut && strcmp(t->prefix + have - cut, ends[i]) == 0)
                t->prefix[have - cut] = '\0';
        }
    }
    if (uri)
        evhttp_uri_free(uri);
    return r;
}

// ---- one request --------------------------------------------------------------------------------

// Takes the lines of a stream that are complete.
static void read_lines(struct talk *t)
{
    size_t length;
    char *line;
    while ((line = evbuffer_readln(t->body, &length, EVBUFFER_EOL_LF))) {
        json_t *state = length ? json_loadb(line, length, 0, NULL) : NULL;
        free(line);
        if (!json_is_object(state)) {
            json_decref(state);
            continue;
        }
        json_decref(t->last);
        t->last = state;
        env_show_progress(state);
    }
    t->too_long |= evbuffer_get_length(t->body) > LINE_MAX_;
}

static bool is_stream(struct evhttp_request *req)
{
    const char *type = evhttp_find_header(evhttp_request_get_input_headers(req), "Content-Type");
    return type && strncmp(type, "application/x-ndjson", 20) == 0;
}

static bool is_file(const struct talk *t, struct evhttp_request *req)
{
    return t->to_file && evhttp_request_get_response_code(req) == 200;
}

static void write_file(struct talk *t, struct evbuffer *in)
{
    while (evbuffer_get_length(in) && !t->not_written) {
        int n = evbuffer_write(in, t->ask->fd);
        if (n <= 0) {
            t->not_written = true;
            event_base_loopbreak(t->base);
        } else {
            t->written += (uint64_t)n;
        }
    }
}

static void on_chunk(struct evhttp_request *req, void *argument)
{
    struct talk *t = argument;
    struct evbuffer *in = evhttp_request_get_input_buffer(req);
    if (is_file(t, req)) {
        write_file(t, in);
        return;
    }
    (void)evbuffer_add_buffer(t->body, in);
    if (is_stream(req))
        read_lines(t);
    if (t->too_long || evbuffer_get_length(t->body) > ANSWER_MAX)
        event_base_loopbreak(t->base);
}

// The file has been received; checks that it is complete.
static void take_file(struct talk *t, struct evhttp_request *req)
{
    const char *length =
        evhttp_find_header(evhttp_request_get_input_headers(req), "Content-Length");
    uint64_t said;
    bool whole = length && text_parse_u64(length, 0, INT64_MAX, &said) == 0 && said == t->written;
    if (whole && !t->not_written)
        t->last = env_file_answer(t->ask, t->written);
}

static void on_end(struct evhttp_request *req, void *argument)
{
    struct talk *t = argument;
    if (req) {
        t->status = evhttp_request_get_response_code(req);
        if (is_file(t, req)) {
            write_file(t, evhttp_request_get_input_buffer(req));
            take_file(t, req);
        }
        (void)evbuffer_add_buffer(t->body, evhttp_request_get_input_buffer(req));
        size_t length = evbuffer_get_length(t->body);
        if (is_stream(req)) {
            read_lines(t);
        } else if (length && length <= ANSWER_MAX) {
            const char *data = (const char *)evbuffer_pullup(t->body, -1);
            json_decref(t->last);
            t->last = data ? json_loadb(data, length, 0, NULL) : NULL;
        }
    }
    t->over = true;
    event_base_loopbreak(t->base);
}

static void add_headers(const struct talk *t, struct evhttp_request *req)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
    const struct text_list *keys = &t->ask->config->api_keys;
    char host[300], key[TEXT_ITEM_MAX + 16];
    bool v6 = strchr(t->host, ':');
    snprintf(host, sizeof host, "%s%s%s:%d", v6 ? "[" : "", t->host, v6 ? "]" : "", t->port);
    (void)evhttp_add_header(headers, "Host", host);
    (void)evhttp_add_header(headers, "Connection", "close");
    if (keys->count) {
        const char *colon = strchr(keys->items[0], ':'); // name:key
        snprintf(key, sizeof key, "Bearer %s", colon ? colon + 1 : keys->items[0]);
        (void)evhttp_add_header(headers, "Authorization", key);
    }
}

static int failed(const struct talk *t, struct err *e)
{
    if (t->not_written)
        return err_set(e, ERR_DISK_FULL, 0, "free some space, or choose another file",
                       "cannot write the file '%s'", t->ask->file);
    if (t->to_file && t->status == 200)
        return err_set(e, ERR_BUSY, 0, "try again", "the file was cut off");
    if (t->too_long)
        return err_set(e, ERR_PROTOCOL, 0, "check that a constrictor server runs at that address",
                       "the answer of the server at %s is too long", t->url);
    return err_set(e, ERR_BUSY, 0, "check that it runs and that the address is right",
                   "the server at %s does not answer", t->url);
}

// Makes the file of VERB_IMPORT the body; it is read while it is sent.
static void add_file(const struct talk *t, struct evhttp_request *req)
{
    struct stat st;
    int fd = fcntl(t->ask->fd, F_DUPFD_CLOEXEC, 3);
    (void)evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type",
                            "application/octet-stream");
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
        (void)evbuffer_add_file(evhttp_request_get_output_buffer(req), fd, 0, st.st_size);
    else if (fd >= 0)
        (void)close(fd);
}

// Takes the body; NULL: none.  0: the answer is in t->last, its HTTP status in t->status.
static int ask_server(struct talk *t, enum evhttp_cmd_type method, const char *path, json_t *body,
                      struct err *e)
{
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct evhttp_connection *conn =
        evhttp_connection_base_new(t->base, NULL, t->host, (unsigned short)t->port);
    struct evhttp_request *req = conn ? evhttp_request_new(on_end, t) : NULL;
    char whole[PATH_MAX_];
    json_decref(body);
    json_decref(TAKE_PTR(t->last));
    (void)evbuffer_drain(t->body, evbuffer_get_length(t->body));
    t->over = false;
    t->status = 0;
    snprintf(whole, sizeof whole, "%s%s", t->prefix, path);
    if (!req) {
        if (conn)
            evhttp_connection_free(conn);
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "ask the server");
    }
    evhttp_connection_set_timeout(conn, PATIENCE_S);
    evhttp_request_set_chunked_cb(req, on_chunk);
    add_headers(t, req);
    if (text) {
        (void)evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type",
                                "application/json");
        (void)evbuffer_add(evhttp_request_get_output_buffer(req), text, strlen(text));
    } else if (t->ask->verb == VERB_IMPORT && method == EVHTTP_REQ_POST) {
        add_file(t, req);
    }
    if (evhttp_make_request(conn, req, method, whole) == 0)
        (void)event_base_dispatch(t->base);
    evhttp_connection_free(conn);
    return t->over && t->status && t->last ? 0 : failed(t, e);
}

// ---- requests ------------------------------------------------------------------------------

// Encodes a text for a path or query.
static int encode(const char *text, char *buf, size_t cap, struct err *e)
{
    _cleanup_free_ char *coded = evhttp_uriencode(text, -1, 0);
    int n = coded ? snprintf(buf, cap, "%s", coded) : -1;
    return n >= 0 && (size_t)n < cap
               ? 0
               : err_set(e, ERR_BAD_VALUE, 0, "use a shorter one", "'%.80s...' is too long", text);
}

static json_t *install_body(const struct env_command *ask)
{
    return json_pack("{s:O, s:b, s:b, s:b}", "packages", ask->packages, "upgrade",
                     ask->config->upgrade, "source_builds", ask->config->source_builds, "stream",
                     1);
}

static json_t *create_body(const struct env_command *ask)
{
    json_t *o = json_pack("{s:s, s:O*}", "name", ask->name, "preload", ask->preload);
    if (o && json_array_size(ask->packages))
        (void)json_object_update_new(o, json_pack("{s:O, s:b, s:b}", "packages", ask->packages,
                                                  "source_builds", ask->config->source_builds,
                                                  "stream", 1));
    return o;
}

static int uninstall_path(const struct env_command *ask, const char *name, char *path,
                          struct err *e)
{
    char all[PATH_MAX_ / 8] = "", coded[PATH_MAX_ / 2];
    size_t at = 0, i;
    json_t *item;
    json_array_foreach (ask->packages, i, item) {
        int n = snprintf(all + at, sizeof all - at, "%s%s", i ? " " : "", json_string_value(item));
        if (n < 0 || (size_t)n >= sizeof all - at)
            return err_set(e, ERR_BAD_VALUE, 0, "remove fewer at a time", "too many packages");
        at += (size_t)n;
    }
    if (encode(all, coded, sizeof coded, e) < 0)
        return -1;
    snprintf(path, PATH_MAX_, API "/%s/packages?packages=%s", name, coded);
    return 0;
}

static int send_ask(struct talk *t, struct err *e)
{
    const struct env_command *ask = t->ask;
    char name[PATH_MAX_ / 4] = "", job[256] = "", path[PATH_MAX_];
    if (ask->name && encode(ask->name, name, sizeof name, e) < 0)
        return -1;
    if (ask->job && encode(ask->job, job, sizeof job, e) < 0)
        return -1;
    snprintf(path, sizeof path, API "/%s/packages", name);
    switch (ask->verb) {
    case VERB_LIST: return ask_server(t, EVHTTP_REQ_GET, API, NULL, e);
    case VERB_CREATE: return ask_server(t, EVHTTP_REQ_POST, API, create_body(ask), e);
    case VERB_INSTALL: return ask_server(t, EVHTTP_REQ_POST, path, install_body(ask), e);
    case VERB_UNINSTALL:
        if (uninstall_path(ask, name, path, e) < 0)
            return -1;
        return ask_server(t, EVHTTP_REQ_DELETE, path, NULL, e);
    case VERB_RESET:
        snprintf(path, sizeof path, API "/%s/packages?all=true", name);
        return ask_server(t, EVHTTP_REQ_DELETE, path, NULL, e);
    case VERB_PACKAGES:
        snprintf(path, sizeof path, API "/%s/packages", ask->name ? name : ENV_BASE);
        return ask_server(t, EVHTTP_REQ_GET, path, NULL, e);
    case VERB_DESCRIBE:
        snprintf(path, sizeof path, API "/%s", name);
        return ask_server(t, EVHTTP_REQ_GET, path, NULL, e);
    case VERB_DELETE:
        snprintf(path, sizeof path, API "/%s", name);
        return ask_server(t, EVHTTP_REQ_DELETE, path, NULL, e);
    case VERB_EXPORT:
        t->to_file = true;
        snprintf(path, sizeof path, API "/%s/export", name);
        return ask_server(t, EVHTTP_REQ_GET, path, NULL, e);
    case VERB_IMPORT:
        snprintf(path, sizeof path, API "/%s/import?stream=true", name);
        return ask_server(t, EVHTTP_REQ_POST, path, NULL, e);
    case VERB_STATUS:
        snprintf(path, sizeof path, API "/%s/jobs/%s", name, job);
        return ask_server(t, EVHTTP_REQ_GET, path, NULL, e);
    case VERB_MAX: break;
    }
    return err_set(e, ERR_INTERNAL, 0, NULL, "'env' has no such action");
}

// An answer that is not a stream may come before the install ends; waits for the end.
static int await_job(struct talk *t, struct err *e)
{
    char name[PATH_MAX_ / 4], path[PATH_MAX_], job[ENV_JOB_ID_SIZE + 1];
    while (t->status == 202 && t->ask->name && !env_status_is_over(t->last)) {
        const char *id = json_string_value(json_object_get(t->last, "job"));
        env_show_progress(t->last);
        snprintf(job, sizeof job, "%s", id ? id : "");
        if (encode(t->ask->name, name, sizeof name, e) < 0)
            return -1;
        snprintf(path, sizeof path, API "/%s/jobs/%s?wait=10", name, job);
        if (ask_server(t, EVHTTP_REQ_GET, path, NULL, e) < 0)
            return -1;
        if (t->status == 200 && !env_status_is_over(t->last))
            t->status = 202;
    }
    return 0;
}

// Turns an error of the server into ours, with the same code.
static void take_error(const struct talk *t, struct err *e)
{
    json_t *error = json_object_get(t->last, "error");
    const char *code = json_string_value(json_object_get(error, "code")),
               *message = json_string_value(json_object_get(error, "message")),
               *hint = json_string_value(json_object_get(error, "hint"));
    enum err_code known = t->status == 401 || t->status == 403 ? ERR_BAD_VALUE : ERR_PROTOCOL;
    for (int i = 0; code && i < ERR_CODE_MAX; i++)
        if (strcmp(err_code_name((enum err_code)i), code) == 0)
            known = (enum err_code)i;
    (void)err_set(e, known, 0, hint, "%s", message ? message : "the server refused the request");
    if (t->status == 401)
        err_hint(e, "put the server's key into CONSTRICTOR_API_KEY");
}

int env_remote(const struct env_command *ask, const char *url)
{
    struct talk t = {.ask = ask, .url = url};
    struct err e;
    if (read_url(&t, &e) < 0)
        return env_show_error(ask, &e);
    t.base = event_base_new();
    t.body = evbuffer_new();
    if (!t.base || !t.body) {
        err_set(&e, ERR_SYSTEM, ENOMEM, NULL, "ask the server");
        return env_show_error(ask, &e);
    }
    int r = send_ask(&t, &e);
    if (r == 0)
        r = await_job(&t, &e);
    // A failed install also has an "error", but is an answer.
    bool job = json_is_string(json_object_get(t.last, "state"));
    if (r == 0 && t.status >= 400 && !job) {
        take_error(&t, &e);
        r = -1;
    }
    int status = r < 0 ? env_show_error(ask, &e) : env_show_answer(ask, TAKE_PTR(t.last));
    json_decref(t.last);
    evbuffer_free(t.body);
    event_base_free(t.base);
    return status;
}
