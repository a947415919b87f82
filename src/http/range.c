// SPDX-License-Identifier: Apache-2.0
//
// range: parts (RFC 9110, 14) and conditions (13) of files; see http.h.  Called by handlers in the
// gate.  An invalid header is ignored: the answer is then the whole file.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/http.h"

// A number at *p, which moves behind it; too large ones are the largest.  False: there is none.
static bool read_number(const char **p, uint64_t *ret)
{
    uint64_t n = 0;
    const char *s = *p;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
            n = UINT64_MAX / 10; // stays above every size
    bool some = s != *p;
    *p = s;
    *ret = n;
    return some;
}

int http_range(const struct http_exchange *x, uint64_t size, uint64_t *ret_offset,
               uint64_t *ret_length)
{
    const char *s = http_header(x, "Range");
    uint64_t first = 0, last = UINT64_MAX;
    *ret_offset = 0;
    *ret_length = size;
    if (!s || x->method != HTTP_GET || strncasecmp(s, "bytes=", 6) != 0)
        return 200;
    s += 6;
    bool from = read_number(&s, &first);
    if (*s++ != '-')
        return 200;
    bool to = read_number(&s, &last);
    if (s[strspn(s, " \t")] != '\0' || (!from && !to) || (from && to && first > last))
        return 200; // several ranges, or an invalid one
    if (!from) {    // the last so many
        if (last == 0 || size == 0)
            return 416;
        first = last < size ? size - last : 0;
        last = size - 1;
    } else if (!to || last >= size) {
        last = size - 1; // where size is 0 the next line leaves
    }
    if (first >= size)
        return 416;
    *ret_offset = first;
    *ret_length = last - first + 1;
    return 206;
}

// Is `etag` in the list of If-None-Match?  Weak and strong are the same here.
static bool is_known(const char *list, const char *etag)
{
    size_t n = strlen(etag);
    if (strcmp(list, "*") == 0)
        return true;
    for (const char *p = list; *p;) {
        p += strspn(p, " \t,");
        if (strncmp(p, "W/", 2) == 0)
            p += 2;
        if (strncmp(p, etag, n) == 0 && strchr(" \t,", p[n]))
            return true;
        p += strcspn(p, ",");
    }
    return false;
}

int http_wanted(const struct http_exchange *x, uint64_t size, const char *etag,
                uint64_t *ret_offset, uint64_t *ret_length)
{
    const char *known = http_header(x, "If-None-Match"), *same = http_header(x, "If-Range");
    *ret_offset = 0;
    *ret_length = size;
    if (known && etag && is_known(known, etag))
        return 304;
    // The client would join a part of this version with parts of another.
    bool part = !same || (etag && strcmp(same, etag) == 0);
    return part ? http_range(x, size, ret_offset, ret_length) : 200;
}

// Sends the headers.  True: bytes must follow; false: the request was answered.
static bool begin_file(struct http_exchange *x, int status, uint64_t size, const char *etag,
                       uint64_t offset, uint64_t length)
{
    char text[96];
    http_add_header(x, "Accept-Ranges", "bytes");
    if (etag)
        http_add_header(x, "ETag", etag);
    if (status == 304) {
        http_reply(x, 304, NULL, NULL, 0);
    } else if (status == 416) {
        snprintf(text, sizeof text, "bytes */%" PRIu64, size);
        http_add_header(x, "Content-Range", text);
        http_reply_error(x, 416, "bad_range", "the header Content-Range has the size",
                         "the file has %" PRIu64 " bytes, none of them in the range", size);
    } else if (status == 206) {
        snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, offset,
                 offset + length - 1, size);
        http_add_header(x, "Content-Range", text);
    }
    return status == 200 || status == 206;
}

void http_serve_file(struct http_exchange *x, const char *type, int fd, uint64_t size,
                     const char *etag)
{
    uint64_t offset, length;
    int status = http_wanted(x, size, etag, &offset, &length);
    if (begin_file(x, status, size, etag, offset, length))
        http_reply_file(x, status, type, fd, offset, length);
    else
        (void)close(fd);
}

void http_serve_bytes(struct http_exchange *x, const char *type, const char *data, uint64_t size,
                      const char *etag)
{
    uint64_t offset, length;
    int status = http_wanted(x, size, etag, &offset, &length);
    if (begin_file(x, status, size, etag, offset, length))
        http_reply(x, status, type, data + offset, (size_t)length);
}
