// SPDX-License-Identifier: Apache-2.0
//
// http: the server and its routes; see http.h.  Connections are in conn.c, answers in exchange.c.
// Runs in the gate.

#include "http/http.h"

#include <errno.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "http/conn.h"

enum {
    ACCEPT_PAUSE_MS = 100, // when descriptors are out
    OTHER_FDS = 320,       // that the gate needs for its runs
};

// ---- a request at the door ----------------------------------------------------------------------

void http_set_refusal(struct door_refusal *r, int status, const char *code, const char *message,
                      const char *hint)
{
    *r = (struct door_refusal){.status = status};
    snprintf(r->code, sizeof r->code, "%s", code);
    snprintf(r->message, sizeof r->message, "%s", message);
    snprintf(r->hint, sizeof r->hint, "%s", hint);
}

static const struct http_route *route_find(const struct http *h, const char *path)
{
    const struct http_route *prefix = NULL;
    for (unsigned t = 0; t < h->table_count; t++)
        for (const struct http_route *r = h->tables[t]; r->path; r++) {
            size_t n = strlen(r->path);
            if (strcmp(r->path, path) == 0)
                return r;
            if (!prefix && n && r->path[n - 1] == '*' && strncmp(r->path, path, n - 1) == 0)
                prefix = r;
        }
    return prefix;
}

static unsigned method_find(struct slice name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {
        {"POST", HTTP_POST}, {"GET", HTTP_GET},   {"DELETE", HTTP_DELETE},
        {"PUT", HTTP_PUT},   {"HEAD", HTTP_HEAD},
    };
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (slice_is(name, methods[i].name))
            return methods[i].method;
    return 0;
}

// Judges a request by its head.  0, or -1 and the refusal.
int http_judge(struct http *h, struct exchange *p, const struct head *head, struct door_refusal *r)
{
    const char *question = memchr(head->target.p, '?', head->target.n);
    size_t n = question ? (size_t)(question - head->target.p) : head->target.n;
    struct slice origin = head->field[HEAD_ORIGIN];
    p->options = slice_is(head->method, "OPTIONS");
    p->x.method = (enum http_method)method_find(head->method);
    p->old = head->old;
    bool known = http_decode_path(head->target.p, n, p->x.path, sizeof p->x.path);
    if (!known && n > 5 && memcmp(head->target.p, "/api/", 5) == 0)
        snprintf(p->x.path, sizeof p->x.path, "/api"); // so that the error is a problem of the API
    if (door_check_origin(h->door, head, r) < 0)
        return -1;
    if (origin.p)
        snprintf(p->origin, sizeof p->origin, "%.*s", (int)origin.n, origin.p);
    p->route = known ? route_find(h, p->x.path) : NULL;
    // SECURITY: before the key is looked at, because the other route may want one.
    if (p->route && head->events && h->events_of && strcmp(p->x.path, h->events_of) == 0)
        p->route = route_find(h, h->events);
    bool open = p->options || (p->route && p->route->open);
    if (!open && door_check_user(h->door, p->conn->peer, r) < 0)
        return -1;
    if (!open && door_check_key(h->door, head, time(NULL), p->x.owner, r) < 0)
        return -1;
    if (!p->route) {
        http_set_refusal(r, 404, "not_found",
                         known ? "there is nothing at this path"
                               : "the path is too long, has a control character in it, or is not "
                                 "well encoded",
                         known ? "MCP is served at /mcp"
                               : "encode it as UTF-8 with %XX, without control characters");
        return -1;
    }
    if (p->options || !(p->route->methods & p->x.method))
        p->allow = h->methods_of ? h->methods_of(head->target.p, n) : 0;
    if ((p->options || !(p->route->methods & p->x.method)) && !p->allow)
        p->allow = p->route->methods;
    if (p->options && head->field[HEAD_WANT_METHOD].p && (p->allow_headers = malloc(2048)))
        door_allow_headers(head->field[HEAD_WANT_HEADERS], p->allow_headers, 2048);
    if (p->options || !p->allow)
        return 0;
    http_set_refusal(r, 405, "method_not_allowed", "this path does not support this method",
                     "see the header Allow");
    return -1;
}

// ---- the server ---------------------------------------------------------------------------------

static void on_accept_again(void *argument)
{
    struct http *h = argument;
    if (h->bound)
        (void)evconnlistener_enable(evhttp_bound_socket_get_listener(h->bound));
}

void http_pause(struct http *h, unsigned ms)
{
    if (h->bound && timer_set(&h->accept_again, h->base, ms, on_accept_again, h))
        (void)evconnlistener_disable(evhttp_bound_socket_get_listener(h->bound));
}

// Descriptors or memory are out: connections in the kernel's queue would wake the gate again at
// once.
static void on_accept_error(struct evconnlistener *listener, void *argument)
{
    (void)listener;
    log_line(LOG_WARN, "a connection could not be accepted: %s", strerror(errno));
    http_pause(argument, ACCEPT_PAUSE_MS);
}

static void serve_metadata(struct http_exchange *x, void *argument)
{
    (void)argument;
    json_auto_t *body = door_metadata(x->server->door, http_header(x, "Host"));
    if (body)
        http_reply_json(x, 200, body);
    else
        http_reply_error(x, 404, "not_found", "", "this server does not accept OAuth tokens");
}

// Clients look for many well-known files: a missing one is 404, also without a key.
static void serve_nothing(struct http_exchange *x, void *argument)
{
    (void)argument;
    http_reply_error(x, 404, "not_found", "", "there is nothing at this path");
}

static const struct http_route own_routes[] = {
    {"/.well-known/oauth-protected-resource", HTTP_GET | HTTP_HEAD, true, serve_metadata, NULL},
    {"/.well-known/oauth-protected-resource/mcp", HTTP_GET | HTTP_HEAD, true, serve_metadata, NULL},
    {"/.well-known/*", HTTP_GET | HTTP_HEAD, true, serve_nothing, NULL},
    {0},
};

// As many as the descriptors allow.
static unsigned count_max(const struct config *c)
{
    struct rlimit files;
    rlim_t want = (rlim_t)c->connections + OTHER_FDS;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= want)
        return c->connections;
    files.rlim_cur = want < files.rlim_max ? want : files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur >= want)
        return c->connections;
    rlim_t most = files.rlim_cur > 2 * OTHER_FDS ? files.rlim_cur - OTHER_FDS : files.rlim_cur / 2;
    if (most > c->connections)
        return c->connections;
    log_line(
        LOG_WARN,
        "only %u connections, not %u, at one time: this process may open %lu files (ulimit -n)",
        (unsigned)most, c->connections, (unsigned long)files.rlim_cur);
    return (unsigned)most;
}

static void set_socket_options(int listener)
{
    int on = 1, idle_s = 60, unsent = 128 * 1024;
    // Accepted sockets inherit them.  Small answers leave at once, and a peer that vanished is
    // noticed.
    (void)setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    // What a client does not take stays in the gate, where it is counted, and not in the kernel by
    // the megabyte.
    (void)setsockopt(listener, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

// Takes the socket.
static int start(struct http *h, int socket, struct err *e)
{
    struct evconnlistener *listener = NULL;
    h->evhttp = evhttp_new(h->base);
    if (evutil_make_socket_nonblocking(socket) == 0 && h->evhttp)
        listener = evconnlistener_new(h->base, NULL, NULL,
                                      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, socket);
    if (listener && !(h->bound = evhttp_bind_listener(h->evhttp, listener)))
        evconnlistener_free(listener);
    else if (!listener)
        (void)close(socket);
    if (!h->bound)
        return err_set(e, ERR_SYSTEM, errno, NULL, "start the HTTP server");
    set_socket_options(socket);
    evconnlistener_set_error_cb(listener, on_accept_error);
    // Slightly above the limit of head.c, so that libevent never refuses first.
    evhttp_set_max_headers_size(h->evhttp, HEAD_MAX + 1024);
    evhttp_set_max_body_size(h->evhttp, (ev_ssize_t)h->config->body_bytes);
    evhttp_set_allowed_methods(
        h->evhttp, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_DELETE | EVHTTP_REQ_PUT |
                       EVHTTP_REQ_HEAD | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH | EVHTTP_REQ_TRACE);
    evhttp_set_default_content_type(h->evhttp, NULL);
    evhttp_set_bevcb(h->evhttp, conn_on_accept, h);
    evhttp_set_gencb(h->evhttp, conn_on_request, h);
    return 0;
}

struct http *http_open(struct event_base *base, const struct config *c, int listener,
                       const struct http_route *routes, struct err *e)
{
    struct http *h = calloc(1, sizeof *h);
    if (!h) {
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "start the HTTP server");
        (void)close(listener);
        return NULL;
    }
    h->base = base;
    h->config = c;
    h->connections_max = count_max(c);
    TAILQ_INIT(&h->all);
    TAILQ_INIT(&h->strangers);
    TAILQ_INIT(&h->idle);
    http_add_routes(h, own_routes);
    if (routes)
        http_add_routes(h, routes);
    h->door = door_open(c, e);
    if (!h->door)
        (void)close(listener);
    if (h->door && start(h, listener, e) == 0)
        return h;
    http_close(h);
    return NULL;
}

void http_set_peers(struct http *h, const int *fds, unsigned count)
{
    h->peer_count = count;
    memcpy(h->peers, fds, count * sizeof fds[0]);
}

// SECURITY: asked once, when the connection is accepted: the client is there then and cannot
// change.
uid_t http_find_peer(struct http *h, int sock)
{
    struct err e;
    if (!door_asks_user(h->door))
        return (uid_t)PEER_UNKNOWN;
    if (h->peer_count == 0) { // not in a gate, which cannot open them
        int n = peer_open(h->peers, &e);
        h->peer_count = n > 0 ? (unsigned)n : 0;
        h->own_peers = true;
    }
    return peer_uid(h->peers, h->peer_count, sock);
}

void http_set_events(struct http *h, const char *path, const char *events)
{
    h->events_of = path;
    h->events = events;
}

void http_add_routes(struct http *h, const struct http_route *routes)
{
    if (h->table_count < ROUTE_TABLES_MAX)
        h->tables[h->table_count++] = routes;
    else
        log_line(LOG_ERROR, "too many tables of routes"); // a mistake of the program
}

void http_set_streams_body(struct http *h, http_streams_body streams, void *argument)
{
    h->streams = streams;
    h->streams_argument = argument;
}

void http_set_methods(struct http *h, http_methods_of methods_of)
{
    h->methods_of = methods_of;
}

bool http_knows(const struct http *h, const char *owner)
{
    return door_knows(h->door, owner);
}

bool http_may_operate(const struct http_exchange *x)
{
    return door_may_operate(x->server->door, x->owner);
}

json_t *http_names(const struct http *h)
{
    return door_names(h->door);
}

bool http_shows_all(const struct http_exchange *x)
{
    return door_shows_all(x->server->door, x->owner);
}

unsigned http_owners(const struct http *h)
{
    return door_owners(h->door);
}

// SECURITY: a stream can be open for hours; a revoked key must not work for that long.
static void dismiss(struct http *h)
{
    struct conn *c, *next;
    for (c = TAILQ_FIRST(&h->all); c; c = next) {
        next = TAILQ_NEXT(c, all);
        if (c->x && c->x->route && !c->x->route->open && !door_knows(h->door, c->x->x.owner))
            conn_kill(c);
    }
}

int http_reload(struct http *h, int key_file, int oauth_keys, struct err *e)
{
    int r = door_reload(h->door, key_file, oauth_keys, e);
    if (r == 0)
        dismiss(h);
    return r;
}

unsigned http_exchanges(const struct http *h)
{
    return h->exchanges;
}

void http_count_answers(struct http *h, uint64_t *answers)
{
    h->answers = answers;
}

void http_admit(const struct http_exchange *x)
{
    evict_admit(((const struct exchange *)x)->conn); // x is its first member
}

void http_lend(struct http *h)
{
    h->lent = true;
}

void http_stop(struct http *h)
{
    struct conn *c, *next;
    h->stopping = true;
    if (h->bound) {
        // The keeper has the socket too, for a gate that replaces this one: closing it here would
        // leave new clients in the kernel's queue until the server is gone.  shutdown() ends the
        // listening itself.  A socket of the service manager goes on listening: the next client
        // waits in its queue, and the manager starts the server anew for it.
        if (!h->lent)
            (void)shutdown(evhttp_bound_socket_get_fd(h->bound), SHUT_RDWR);
        evhttp_del_accept_socket(h->evhttp, h->bound);
    }
    h->bound = NULL;
    for (c = TAILQ_FIRST(&h->all); c; c = next) {
        next = TAILQ_NEXT(c, all);
        if (c->ev && c->state == CONN_IDLE && !c->ahead)
            conn_kill(c);
    }
}

void http_close(struct http *h)
{
    if (!h)
        return;
    struct conn *c;
    h->stopping = true;
    while ((c = TAILQ_FIRST(&h->all))) {
        if (c->ev)
            conn_kill(c);
        else
            conn_begin(c); // the next round ends it
    }
    if (h->evhttp)
        evhttp_free(h->evhttp);
    timer_stop(&h->accept_again);
    for (unsigned i = 0; h->own_peers && i < h->peer_count; i++)
        fd_close(&h->peers[i]);
    door_close(h->door);
    free(h);
}
