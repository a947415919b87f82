// SPDX-License-Identifier: Apache-2.0
//
// route_find: finds the row of a request in a table of route.h.  Pure.  SECURITY: paths are
// hostile; a segment is decoded exactly once, after the path was cut at its slashes, into a buffer
// of a fixed size.

#include <string.h>

#include "base/utf8.h"
#include "rest/route.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum route_found decode(const char *s, size_t n, char *buf, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)s[i];
        if (c == '%') {
            int high = i + 2 < n ? hex_value(s[i + 1]) : -1,
                low = high < 0 ? -1 : hex_value(s[i + 2]);
            c = low < 0 ? -1 : high * 16 + low;
            i += 2;
        }
        if (c < ' ' || c == 127)
            return ROUTE_ENCODING;
        if (at + 1 >= cap)
            return ROUTE_TOO_LONG;
        buf[at++] = (char)c;
    }
    buf[at] = '\0';
    return ROUTE_FOUND;
}

static enum route_found decode_id(const char *s, size_t n, char *buf, size_t cap)
{
    enum route_found r = decode(s, n, buf, cap);
    bool fits = r != ROUTE_FOUND || utf8_count(buf, strlen(buf)) <= SESSION_NAME_CHARACTERS;
    return fits ? r : ROUTE_TOO_LONG;
}

// Compares segment by segment.  ROUTE_UNKNOWN: the path is another one.
static enum route_found match(const char *pattern, const char *path, size_t length,
                              struct route_match *ret)
{
    size_t at = 0;
    while (*pattern) {
        size_t want = 1 + strcspn(pattern + 1, "/"); // with its slash
        const char *slash = NULL;
        if (at >= length || path[at] != '/')
            return ROUTE_UNKNOWN;
        bool rest = strncmp(pattern + 1, "{path}", want - 1) == 0 && want == 7;
        if (!rest)
            slash = memchr(path + at + 1, '/', length - at - 1);
        size_t have = slash ? (size_t)(slash - path) - at : length - at;
        if (have == 1)
            return ROUTE_UNKNOWN; // an empty segment
        enum route_found r = ROUTE_FOUND;
        if (rest)
            r = decode(path + at + 1, have - 1, ret->path, sizeof ret->path);
        else if (want == 6 && strncmp(pattern + 1, "{job}", 5) == 0)
            r = decode(path + at + 1, have - 1, ret->job, sizeof ret->job);
        else if ((want == 5 && strncmp(pattern + 1, "{id}", 4) == 0) ||
                 (want == 12 && strncmp(pattern + 1, "{execution}", 11) == 0) ||
                 (want == 7 && strncmp(pattern + 1, "{name}", 6) == 0))
            r = decode_id(path + at + 1, have - 1, ret->id, sizeof ret->id);
        else if (have != want || memcmp(pattern, path + at, want) != 0)
            return ROUTE_UNKNOWN;
        if (r != ROUTE_FOUND)
            return r;
        at += have;
        pattern += want;
    }
    // One slash at the end is ignored.
    return at == length || (at + 1 == length && path[at] == '/') ? ROUTE_FOUND : ROUTE_UNKNOWN;
}

static unsigned methods_of(const struct rest_route *r)
{
    return r->method == HTTP_GET ? HTTP_GET | HTTP_HEAD : r->method;
}

enum route_found route_find(const struct rest_table *table, enum http_method method,
                            const char *path, size_t length, struct route_match *ret,
                            unsigned *ret_allow)
{
    const size_t base = strlen(table->base);
    enum route_found worst = ROUTE_UNKNOWN;
    *ret_allow = 0;
    if (length < base || memcmp(path, table->base, base) != 0)
        return ROUTE_UNKNOWN;
    for (const struct rest_route *r = table->routes; r->path; r++) {
        *ret = (struct route_match){.route = r};
        enum route_found found = match(r->path, path + base, length - base, ret);
        if (found == ROUTE_UNKNOWN)
            continue;
        if (found != ROUTE_FOUND)
            worst = found;
        else if (methods_of(r) & method)
            return ROUTE_FOUND;
        else
            *ret_allow |= methods_of(r);
    }
    return *ret_allow ? ROUTE_METHOD : worst;
}

unsigned route_methods(const char *path, size_t length)
{
    struct route_match ignored;
    unsigned allow = 0;
    // No row has method 0, so the search visits them all.
    (void)route_find(&rest_table, (enum http_method)0, path, length, &ignored, &allow);
    return allow;
}
