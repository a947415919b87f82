// SPDX-License-Identifier: Apache-2.0
//
// files: see files.h.  Runs in the gate, on files that hostile code made.
// SECURITY: a browser opens a link within this server's origin, which also has the page and the
// API. So no content of an artifact may run there: the browser takes our type and does not guess
// (nosniff); types that can hold a script are saved, not shown (attachment); and a document that is
// shown all the same has no origin, loads nothing and runs nothing (CSP).

#include "rest/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

// Encodes all but plain characters as %XX.  False: there is no room.
static bool encode(const char *s, char *buf, size_t cap)
{
    size_t at = 0;
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (at + 4 > cap)
            return false;
        if (is_plain(c))
            buf[at++] = (char)c;
        else
            at += (size_t)snprintf(buf + at, cap - at, "%%%02X", c);
    }
    if (at >= cap)
        return false;
    buf[at] = '\0';
    return true;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool rest_file_url(const char *base_url, const struct artifact *a, char *buf, size_t cap)
{
    char name[3 * 255 + 4];
    int n = -1;
    if (base_url[0] && encode(name_of(a->path), name, sizeof name))
        n = snprintf(buf, cap, "%s/files/%s/%s", base_url, a->token, name);
    if (n >= 0 && (size_t)n < cap)
        return true;
    if (cap)
        buf[0] = '\0';
    return false;
}

// ---- headers ------------------------------------------------------------------------------------

// Types that a browser may show: pictures that cannot hold a script, and text as text.  Not PDF:
// its viewers do not work in a sandbox.
static bool is_shown(const char *type)
{
    static const char *const types[] = {
        "image/png",  "image/jpeg", "image/gif",  "image/webp",
        "image/avif", "image/bmp",  "text/plain",
    };
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

// The name in plain characters for old clients, and in full for others (RFC 6266).
static void add_disposition(struct http_exchange *x, const char *path, bool shown)
{
    char value[64 + 256 + 3 * 255 + 4], full[3 * 255 + 4], plain[256];
    size_t n = 0;
    for (const char *s = name_of(path); *s && n + 1 < sizeof plain; s++)
        plain[n++] = (*s >= ' ' && *s < 127 && !strchr("\"\\%;", *s)) ? *s : '_';
    plain[n] = '\0';
    const char *how = shown ? "inline" : "attachment";
    if (encode(name_of(path), full, sizeof full))
        snprintf(value, sizeof value, "%s; filename=\"%s\"; filename*=UTF-8''%s", how, plain, full);
    else
        snprintf(value, sizeof value, "%s", how);
    http_add_header(x, "Content-Disposition", value);
}

void rest_file_headers(struct http_exchange *x, const char *path, const char *type)
{
    static const char *const fixed[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", "sandbox; default-src 'none'"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"}, // the link is the key
        {"Cache-Control", "private, no-cache"},
    };
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        http_add_header(x, fixed[i][0], fixed[i][1]);
    add_disposition(x, path, is_shown(type));
}

// ---- the route ----------------------------------------------------------------------------------

static void reply_unknown(struct http_exchange *x)
{
    http_reply_error(x, 404, "not_found", "links are made by runs that leave files behind",
                     "there is no artifact with this link");
}

static void serve(struct http_exchange *x, struct store *s, const struct artifact *a)
{
    char etag[80], type[MIME_TYPE_MAX + 32];
    int fd = store_read(s, a);
    if (fd < 0) {
        http_reply_error(x, 410, "artifact_gone", "run the code again", "its file is gone");
        return;
    }
    http_admit(x); // the link is the key
    rest_file_headers(x, a->path, a->mime_type);
    // A token always stands for the same bytes.
    snprintf(etag, sizeof etag, "\"%" PRIx64 "-%" PRIx64 "\"", (uint64_t)a->created_ms, a->size);
    bool text = strncmp(a->mime_type, "text/", 5) == 0;
    snprintf(type, sizeof type, "%s%s", a->mime_type, text ? "; charset=utf-8" : "");
    x->while_named = true;
    http_serve_file(x, type, fd, a->size, etag);
}

// Below /static "plot.png" is called "plot_1f0c2a3b_20260131_120000.png":
// compat/set_container_run.c makes such links. Removes the middle; "": there is none.
static void plain_name(const char *given, char buf[256])
{
    static const char middle[] = "_xxxxxxxx_00000000_000000"; // x: part of an id, 0: a digit
    const char *dot = strrchr(given, '.');
    size_t length = strlen(given), end = dot && dot != given ? (size_t)(dot - given) : length;
    buf[0] = '\0';
    if (end < sizeof middle - 1 || length > 255)
        return;
    size_t stem = end - (sizeof middle - 1);
    for (size_t i = 0; i < sizeof middle - 1; i++) {
        char c = given[stem + i];
        bool digit = c >= '0' && c <= '9';
        if (middle[i] == '0' ? !digit : middle[i] == 'x' ? !is_plain((unsigned char)c) : c != '_')
            return;
    }
    snprintf(buf, 256, "%.*s%s", (int)stem, given, given + end);
}

static void serve_link(struct http_exchange *x, void *argument)
{
    struct store *s = argument;
    bool is_static = strncmp(x->path, "/static/", strlen("/static/")) == 0;
    const char *token = x->path + strlen(is_static ? "/static/" : "/files/");
    const char *slash = strchr(token, '/');
    char copy[STORE_TOKEN_LENGTH + 1] = "";
    struct artifact a;
    if (!s) {
        http_reply_error(x, 404, "not_found", "the server's log says why; see --state",
                         "this server keeps no artifacts");
        return;
    }
    if (!slash || slash - token != STORE_TOKEN_LENGTH || strchr(slash + 1, '/')) {
        reply_unknown(x);
        return;
    }
    memcpy(copy, token, STORE_TOKEN_LENGTH);
    const char *name = slash + 1, *why;
    char plain[256];
    if (is_static) {
        plain_name(name, plain);
        name = plain;
    }
    // SECURITY: a wrong name looks like a wrong token, so no one learns that the token was right.
    if (store_by_token(s, copy, &a) && strcmp(name_of(a.path), name) == 0)
        serve(x, s, &a);
    else if ((why = store_why_gone(s, copy, name)))
        http_reply_error(x, 410, "artifact_gone", "run the code again",
                         "this artifact is gone: it %s", why);
    else
        reply_unknown(x);
}

void rest_files_open(struct http *h, struct store *s)
{
    static struct http_route routes[] = {
        {"/files/*", HTTP_GET | HTTP_HEAD, true, serve_link, NULL},
        {"/static/*", HTTP_GET | HTTP_HEAD, true, serve_link, NULL},
        {0},
    };
    routes[0].argument = routes[1].argument = s;
    http_add_routes(h, routes);
}
