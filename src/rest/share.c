// SPDX-License-Identifier: Apache-2.0
//
// share: see share.h.  A link is a random token; what it shows is the report as it was when the
// link was made, so nothing that is run later gets out.  Links end by time, with their key, and
// with the server.
//
// SECURITY: the token is the key.  Only its SHA-256 is stored, and looked up; the document allows
// no script and no request (report.h), and no one caches or indexes it.  Runs in the gate.

#include "rest/share.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/history.h"
#include "rest/call.h"
#include "rest/report.h"
#include "json/encode.h"

#define HTML "text/html; charset=utf-8"

enum {
    TOKEN_LENGTH = 43, // 258 bits
    SHARES_MAX = 256,
    SHARES_OF_OWNER = 32,
    SHARES_BYTES = 64 << 20,
    SHARES_OF_OWNER_BYTES = 24 << 20,
    DEFAULT_S = 24 * 3600,
};

struct share {
    unsigned char hash[SHA256_DIGEST_LENGTH];
    char owner[65], session[SESSION_ID_SIZE], name[SESSION_NAME_MAX + 1];
    int64_t expires_ms;
    char *html;
    size_t length;
    TAILQ_ENTRY(share) list;
};

struct rest_shares {
    TAILQ_HEAD(, share) all;
};

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void drop(struct rest_shares *all, struct share *s)
{
    TAILQ_REMOVE(&all->all, s, list);
    free(s->html);
    free(s);
}

void rest_shares_free(struct rest_shares *all)
{
    struct share *s;
    while (all && (s = TAILQ_FIRST(&all->all)))
        drop(all, s);
    free(all);
}

// Removes links whose time is over, and those of keys that are not let in any more.
static void sweep(struct rest *rest)
{
    int64_t now = now_ms();
    for (struct share *s = TAILQ_FIRST(&rest->shares->all), *next; s; s = next) {
        next = TAILQ_NEXT(s, list);
        if (s->expires_ms <= now || !http_knows(rest->http, s->owner))
            drop(rest->shares, s);
    }
}

// ---- the report ---------------------------------------------------------------------------------

// The history of a live or an ended session; NULL: answered.
static json_t *history_of(struct rest_call *c)
{
    struct gate *g = c->rest->gate;
    struct err e;
    const struct session *s = session_find(g, c->owner, c->id, &e);
    json_t *history = g->histories ? history_json(g->histories, c->owner, s ? s->id : c->id) : NULL;
    if (history)
        return history;
    if (s)
        rest_fail(c, 404, "nothing_to_report", "run something in the session first",
                  "nothing was run in the session since the server started");
    else
        rest_fail(c, 404, "nothing_to_report",
                  "reports cover the sessions that were used last, since the server started",
                  "there is no session '%s', and no report of one", c->id);
    return NULL;
}

void rest_add_page_headers(struct http_exchange *x, const char *policy)
{
    static const char *const fixed[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cache-Control", "private, no-store"},
        {"X-Robots-Tag", "noindex, nofollow"},
    };
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        http_add_header(x, fixed[i][0], fixed[i][1]);
    http_add_header(x, "Content-Security-Policy", policy);
}

void rest_history(struct rest_call *c)
{
    json_t *history = history_of(c);
    if (history)
        rest_answer(c, 200, history);
}

void rest_report(struct rest_call *c)
{
    json_auto_t *history = history_of(c);
    size_t length = 0;
    if (!history)
        return;
    _cleanup_free_ char *html = report_html(history, &length);
    if (!html) {
        rest_answer(c, 503, NULL);
        return;
    }
    struct http_exchange *x = rest_let_go(c);
    rest_add_page_headers(x, report_policy());
    http_add_header(x, "Content-Disposition", "attachment; filename=\"session-report.html\"");
    http_reply(x, 200, HTML, html, length);
    rest_free(c);
}

// ---- links --------------------------------------------------------------------------------------

// 0, or -1: answered.
static int check_room(struct rest_call *c, size_t length)
{
    const struct share *s;
    size_t count = 0, bytes = length, own = 0, own_bytes = length;
    TAILQ_FOREACH (s, &c->rest->shares->all, list) {
        bool mine = strcmp(s->owner, c->owner) == 0;
        count++;
        bytes += s->length;
        own += mine;
        own_bytes += mine ? s->length : 0;
    }
    if (own < SHARES_OF_OWNER && own_bytes <= SHARES_OF_OWNER_BYTES && count < SHARES_MAX &&
        bytes <= SHARES_BYTES)
        return 0;
    rest_fail(c, 409, "too_many_shares",
              "remove links with DELETE /api/v1/sessions/{id}/share, or save the report as a file",
              "there are as many links, or as large ones, as this server keeps");
    return -1;
}

static struct share *new_share(struct rest_call *c, json_t *history, char token[TOKEN_LENGTH + 1])
{
    struct share *s = calloc(1, sizeof *s);
    const char *name = json_string_value(json_object_get(history, "name"));
    if (!s || encode_random_id(token, TOKEN_LENGTH) < 0 ||
        !(s->html = report_html(history, &s->length))) {
        free(s);
        return NULL;
    }
    SHA256((const unsigned char *)token, TOKEN_LENGTH, s->hash);
    snprintf(s->owner, sizeof s->owner, "%s", c->owner);
    snprintf(s->session, sizeof s->session, "%s",
             json_string_value(json_object_get(history, "session")));
    snprintf(s->name, sizeof s->name, "%s", name ? name : "");
    return s;
}

void rest_share(struct rest_call *c)
{
    struct rest *rest = c->rest;
    json_t *seconds = field_get(c->body, "expires_in", NULL);
    const char *base = rest->gate->base_url ? rest->gate->base_url : "";
    char token[TOKEN_LENGTH + 1], when[TEXT_TIME_MAX];
    json_auto_t *history = history_of(c);
    if (!history)
        return;
    struct share *s = rest->shares ? new_share(c, history, token) : NULL;
    if (!s) {
        rest_answer(c, 503, NULL);
        return;
    }
    sweep(rest);
    if (check_room(c, s->length) < 0) {
        free(s->html);
        free(s);
        return;
    }
    s->expires_ms =
        now_ms() + 1000 * (seconds ? (int64_t)json_number_value(seconds) : (int64_t)DEFAULT_S);
    TAILQ_INSERT_TAIL(&rest->shares->all, s, list);
    text_format_time(s->expires_ms, when);
    rest_answer(c, c->route->status,
                json_pack("{s:o, s:s, s:s, s:I}", "url", json_sprintf("%s/share/%s", base, token),
                          "session", s->session, "expires_at", when, "runs",
                          (json_int_t)json_array_size(json_object_get(history, "runs"))));
}

void rest_unshare(struct rest_call *c)
{
    struct rest_shares *all = c->rest->shares;
    json_int_t removed = 0;
    for (struct share *s = all ? TAILQ_FIRST(&all->all) : NULL, *next; s; s = next) {
        next = TAILQ_NEXT(s, list);
        if (strcmp(s->owner, c->owner) != 0 ||
            (strcmp(s->session, c->id) != 0 && (!s->name[0] || strcmp(s->name, c->id) != 0)))
            continue;
        drop(all, s);
        removed++;
    }
    rest_answer(c, 200, json_pack("{s:s, s:I}", "session", c->id, "removed", removed));
}

// ---- GET /share/TOKEN ---------------------------------------------------------------------------

static const struct share *find(struct rest *rest, const char *token)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    const struct share *s;
    if (!rest->shares || strlen(token) != TOKEN_LENGTH)
        return NULL;
    sweep(rest);
    SHA256((const unsigned char *)token, TOKEN_LENGTH, hash);
    TAILQ_FOREACH (s, &rest->shares->all, list)
        if (memcmp(s->hash, hash, sizeof hash) == 0)
            return s;
    return NULL;
}

static void serve(struct http_exchange *x, void *argument)
{
    const struct share *s = find(argument, x->path + strlen("/share/"));
    if (!s) {
        http_reply_error(x, 404, "share_not_found", "ask its sender for a new link",
                         "there is no such link, or its time is over, or the server was restarted");
        return;
    }
    http_admit(x); // the link is the key
    rest_add_page_headers(x, report_policy());
    http_reply(x, 200, HTML, s->html, s->length);
}

void rest_shares_open(struct rest *rest)
{
    static struct http_route routes[] = {
        {"/share/*", HTTP_GET | HTTP_HEAD, true, serve, NULL},
        {0},
    };
    rest->shares = calloc(1, sizeof *rest->shares);
    if (rest->shares)
        TAILQ_INIT(&rest->shares->all);
    routes[0].argument = rest;
    http_add_routes(rest->http, routes);
}
