// SPDX-License-Identifier: Apache-2.0
//
// request: see request.h.

#include "broker/request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum { LOOK_LINE_MAX = 16 * 1024, LOOK_TOKEN_MAX = 64 };

struct slice {
    const char *at;
    size_t length;
};

static bool is_token(unsigned char c)
{
    return c > 0x20 && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

static bool is_blank(unsigned char c)
{
    return c && strchr(" \t\v\f", c);
}

static bool equals(struct slice s, const char *text)
{
    return s.length == strlen(text) && strncasecmp(s.at, text, s.length) == 0;
}

// ---- what a connection begins with --------------------------------------------------------------

// Blanks of any kind, as lenient servers read it.
bool request_line_names_http(struct request_line *l, const uint8_t *data, size_t length,
                             bool *ret_end)
{
    static const char name[] = "http/";
    size_t i = 0;
    for (; i < length && data[i] != '\n'; i++) {
        bool was_in_word = l->in_word;
        l->in_word = !isspace(data[i]);
        if (!l->in_word)
            continue;
        if (!was_in_word)
            l->matched = 0;
        if (l->matched < sizeof name - 1)
            l->matched = tolower(data[i]) == name[l->matched] ? l->matched + 1 : sizeof name;
    }
    *ret_end = i < length;
    return l->matched == sizeof name - 1;
}

// Is this, as far as it goes, one of the methods that servers know?
static bool is_method(const uint8_t *token, size_t length)
{
    static const char *const methods[] = {"GET",      "HEAD",      "POST",   "PUT",     "PATCH",
                                          "DELETE",   "OPTIONS",   "TRACE",  "CONNECT", "COPY",
                                          "PROPFIND", "PROPPATCH", "MKCOL",  "MOVE",    "LOCK",
                                          "UNLOCK",   "SEARCH",    "REPORT", "QUERY"};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (length <= strlen(methods[i]) && memcmp(token, methods[i], length) == 0)
            return true;
    return false;
}

// The end of a whole line decides, whatever it begins with.  Wait only for bytes that may still
// become a request of a known method: code that sends "hello" and expects an answer must not hang.
enum request_look request_look(const uint8_t *data, size_t length)
{
    struct request_line line = {0};
    size_t token = 0;
    bool ends, http = request_line_names_http(&line, data, length, &ends);
    if (ends)
        return http ? REQUEST_LOOK_YES : REQUEST_LOOK_NO;
    while (token < length && token <= LOOK_TOKEN_MAX && is_token(data[token]))
        token++;
    bool known = token && is_method(data, token) && (token == length || is_blank(data[token]));
    return known && length < LOOK_LINE_MAX ? REQUEST_LOOK_MORE : REQUEST_LOOK_NO;
}

// ---- a head -------------------------------------------------------------------------------------

// What the header lines say about the body.
struct facts {
    bool has_host, has_length, chunked, old; // old: HTTP/1.0
    uint64_t length;
};

static int hex(unsigned char c)
{
    if (isdigit(c))
        return c - '0';
    c = (unsigned char)tolower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// SECURITY: rules compare the path as written, so there must be only one way to write it: no dot
// segments, no empty segments, no parameters next to dots, no needless escapes.
static bool is_plain(const char *path)
{
    for (const char *p = path; *p; p++) {
        if (*p == '\\' || (p[0] == '/' && p[1] == '/'))
            return false;
        if (p[0] == '/' && p[1] == '.') {
            const char *q = p[2] == '.' ? p + 3 : p + 2;
            if (*q == '\0' || *q == '/' || *q == ';')
                return false;
        }
        if (*p != '%')
            continue;
        int high = hex((unsigned char)p[1]), low = high < 0 ? -1 : hex((unsigned char)p[2]);
        if (high < 0 || low < 0)
            return false;
        int c = high << 4 | low;
        if (c < 0x20 || c == 0x7f || isalnum(c) || strchr("-._~/\\%", c))
            return false;
    }
    return true;
}

static const char *read_target(struct slice target, struct request_head *head)
{
    if (target.length == 0 || target.length > REQUEST_TARGET_MAX)
        return "the request's target is empty or too long";
    bool ascii = true;
    for (size_t i = 0; i < target.length; i++) {
        unsigned char c = (unsigned char)target.at[i];
        if (c < 0x21 || c == 0x7f || c == '#')
            return "the request's target has invalid characters";
        ascii &= c < 0x80;
    }
    bool star = equals(target, "*") && strcmp(head->method, "OPTIONS") == 0;
    if (target.at[0] != '/' && !star)
        return "the request's target is not a path";
    const char *query = memchr(target.at, '?', target.length);
    size_t n = query ? (size_t)(query - target.at) : target.length;
    memcpy(head->path, target.at, n);
    head->path[n] = '\0';
    head->plain = ascii && is_plain(head->path);
    return NULL;
}

static const char *read_first_line(struct slice line, struct request_head *head, struct facts *f)
{
    static const char bad[] = "the first line is not 'METHOD TARGET HTTP/1.1'";
    const char *blank = memchr(line.at, ' ', line.length);
    size_t n = blank ? (size_t)(blank - line.at) : 0;
    if (n == 0 || n > REQUEST_METHOD_MAX)
        return bad;
    for (size_t i = 0; i < n; i++)
        if (!is_token((unsigned char)line.at[i]))
            return bad;
    memcpy(head->method, line.at, n);
    head->method[n] = '\0';
    if (strcmp(head->method, "CONNECT") == 0)
        return "CONNECT needs a proxy, and this is not one";
    struct slice rest = {blank + 1, line.length - n - 1};
    blank = memchr(rest.at, ' ', rest.length);
    if (!blank)
        return bad;
    struct slice target = {rest.at, (size_t)(blank - rest.at)};
    struct slice version = {blank + 1, rest.length - target.length - 1};
    if (version.length != 8 || memcmp(version.at, "HTTP/1.", 7) != 0 ||
        (version.at[7] != '0' && version.at[7] != '1'))
        return bad;
    f->old = version.at[7] == '0';
    return read_target(target, head);
}

static const char *on_host(struct slice v, struct request_head *head, struct facts *f)
{
    static const char bad[] = "the Host line has no valid host";
    if (f->has_host)
        return "there are two Host lines";
    f->has_host = true;
    snprintf(head->host_text, sizeof head->host_text, "%.*s",
             (int)(v.length < 300 ? v.length : 300), v.at);
    size_t n = v.length;
    while (n && isdigit((unsigned char)v.at[n - 1]))
        n--;
    if (n && v.at[n - 1] == ':')
        n--; // host:port, also with an empty port
    else
        n = v.length;
    if (n == 0)
        return NULL;
    if (v.at[0] == '[')
        return v.at[n - 1] == ']' ? NULL : bad; // an address, never the allowed name
    if (net_host_normalise(v.at, n, head->host, NULL) < 0)
        head->host[0] = '\0'; // nor is this
    return NULL;
}

static const char *on_length(struct slice v, struct request_head *head, struct facts *f)
{
    (void)head;
    if (f->has_length || v.length == 0 || v.length > 18)
        return "Content-Length appears twice or is invalid";
    for (size_t i = 0; i < v.length; i++) {
        if (!isdigit((unsigned char)v.at[i]))
            return "Content-Length is not a number";
        f->length = f->length * 10 + (uint64_t)(v.at[i] - '0');
    }
    f->has_length = true;
    return NULL;
}

static const char *on_encoding(struct slice v, struct request_head *head, struct facts *f)
{
    (void)head;
    if (f->chunked || !equals(v, "chunked"))
        return "Transfer-Encoding is not 'chunked'";
    f->chunked = true;
    return NULL;
}

static const char *on_upgrade(struct slice v, struct request_head *head, struct facts *f)
{
    (void)f;
    if (head->upgrade)
        return "there are two Upgrade lines";
    head->upgrade = true;
    head->websocket = equals(v, "websocket");
    return NULL;
}

static const struct {
    const char *name;
    const char *(*read)(struct slice value, struct request_head *head, struct facts *f);
} lines[] = {
    {"host", on_host},
    {"content-length", on_length},
    {"transfer-encoding", on_encoding},
    {"upgrade", on_upgrade},
};

static const char *read_line(struct slice line, struct request_head *head, struct facts *f)
{
    size_t n = 0;
    while (n < line.length && is_token((unsigned char)line.at[n]))
        n++;
    if (n == 0 || n == line.length || line.at[n] != ':')
        return "a header line has no name before its colon";
    struct slice name = {line.at, n}, value = {line.at + n + 1, line.length - n - 1};
    for (; value.length && (value.at[0] == ' ' || value.at[0] == '\t'); value.length--)
        value.at++;
    while (value.length && strchr(" \t", value.at[value.length - 1])) // no NUL: read_head looked
        value.length--;
    for (size_t i = 0; i < value.length; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return "a header line has control characters";
    }
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        if (equals(name, lines[i].name))
            return lines[i].read(value, head, f);
    return NULL;
}

// All lines of a head, each with its CRLF, the empty one at the end included.
static const char *read_head(const char *at, size_t length, struct request_head *head,
                             struct facts *f)
{
    const char *why = NULL, *end = at + length;
    for (bool first = true; at < end && !why; first = false) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        if (!lf || lf == at || lf[-1] != '\r')
            return "a line ends without CRLF";
        struct slice line = {at, (size_t)(lf - at) - 1};
        if (memchr(line.at, '\r', line.length) || memchr(line.at, '\0', line.length))
            return "a line has a carriage return or a NUL inside";
        at = lf + 1;
        if (line.length == 0)
            return first ? "there is an empty line before the request"
                         : (at == end ? NULL : "bytes follow the end of the head");
        why = first ? read_first_line(line, head, f) : read_line(line, head, f);
    }
    return why ? why : "the head has no end";
}

static enum request_step begin(struct request *r, const uint8_t *data, size_t length,
                               struct request_head *head, const char **ret_why)
{
    struct facts f = {0};
    *head = (struct request_head){0};
    *ret_why = read_head((const char *)data, length, head, &f);
    if (!*ret_why && f.chunked && (f.has_length || f.old))
        *ret_why = "the body has two lengths";
    if (*ret_why)
        return REQUEST_BAD;
    *r = (struct request){0};
    if (f.chunked)
        r->state = REQUEST_IN_SIZE;
    else if (f.length) {
        r->state = REQUEST_IN_BODY;
        r->left = f.length;
    }
    return REQUEST_HEAD;
}

// The end of a head is an empty line, with or without carriage returns; a head without them is
// refused later.
static size_t find_end(struct request *r, const uint8_t *data, size_t length)
{
    size_t from = r->scanned;
    while (from < length) {
        const uint8_t *lf = memchr(data + from, '\n', length - from);
        if (!lf)
            break;
        size_t at = (size_t)(lf - data);
        bool empty = at == 0 || data[at - 1] == '\n' ||
                     (data[at - 1] == '\r' && (at == 1 || data[at - 2] == '\n'));
        if (empty)
            return at + 1;
        from = at + 1;
    }
    r->scanned = length;
    return 0;
}

// ---- a body -------------------------------------------------------------------------------------

// One byte of a line: 1 when the line ends here, -1 when it is malformed.
static int line_byte(struct request *r, unsigned char c)
{
    if (++r->line > REQUEST_LINE_MAX)
        return -1;
    if (r->cr)
        return c == '\n' ? 1 : -1;
    if (c == '\r') {
        r->cr = true;
        return 0;
    }
    return (c < 0x20 && c != '\t') || c == 0x7f ? -1 : 0;
}

static void line_begin(struct request *r, enum request_state state)
{
    r->state = state;
    r->line = 0;
    r->cr = r->digits = r->extension = false;
}

static const char *size_byte(struct request *r, unsigned char c)
{
    static const char bad[] = "a chunk has no size";
    int end = line_byte(r, c);
    if (end < 0)
        return bad;
    if (end > 0) {
        if (!r->digits)
            return bad;
        uint64_t size = r->left;
        line_begin(r, size ? REQUEST_IN_CHUNK : REQUEST_IN_TRAILER);
        r->left = size;
        r->total = 0;
        return NULL;
    }
    if (r->cr || r->extension)
        return NULL;
    int digit = hex(c);
    if (digit < 0) {
        r->extension = c == ';' && r->digits;
        return r->extension ? NULL : bad;
    }
    if (!r->digits)
        r->left = 0;
    r->digits = true;
    if (r->left >> 56)
        return "a chunk is too large";
    r->left = r->left << 4 | (uint64_t)digit;
    return NULL;
}

static const char *trailer_byte(struct request *r, unsigned char c)
{
    int end = line_byte(r, c);
    if (end < 0 || ++r->total > REQUEST_TRAILERS_MAX)
        return "the trailer after the last chunk is too long or malformed";
    if (end == 0)
        return NULL;
    if (r->line == 2)
        *r = (struct request){0}; // the empty one
    else
        line_begin(r, REQUEST_IN_TRAILER);
    return NULL;
}

// The line's end behind a chunk: left is 0, `line` counts.
static const char *chunk_end(struct request *r, unsigned char c)
{
    if (c != (r->line ? '\n' : '\r'))
        return "a chunk is longer than its size";
    if (r->line++)
        line_begin(r, REQUEST_IN_SIZE);
    return NULL;
}

static enum request_step pass(struct request *r, const uint8_t *data, size_t length,
                              size_t *ret_used, const char **ret_why)
{
    size_t used = 0;
    *ret_why = NULL;
    while (used < length && r->state != REQUEST_IN_HEAD && !*ret_why) {
        bool counted = r->state == REQUEST_IN_BODY || r->state == REQUEST_IN_CHUNK;
        if (counted && r->left) {
            size_t n = length - used < r->left ? length - used : (size_t)r->left;
            used += n;
            r->left -= n;
            if (!r->left && r->state == REQUEST_IN_BODY)
                *r = (struct request){0};
            continue;
        }
        unsigned char c = data[used++];
        if (r->state == REQUEST_IN_CHUNK)
            *ret_why = chunk_end(r, c);
        else if (r->state == REQUEST_IN_SIZE)
            *ret_why = size_byte(r, c);
        else
            *ret_why = trailer_byte(r, c);
    }
    *ret_used = used;
    return *ret_why ? REQUEST_BAD : REQUEST_BODY;
}

enum request_step request_next(struct request *r, const uint8_t *data, size_t length,
                               struct request_head *head, size_t *ret_used, const char **ret_why)
{
    *ret_used = 0;
    *ret_why = NULL;
    if (r->state != REQUEST_IN_HEAD)
        return pass(r, data, length, ret_used, ret_why);
    size_t end = find_end(r, data, length);
    if (end > REQUEST_HEAD_MAX || (!end && length >= REQUEST_HEAD_MAX)) {
        *ret_why = "the head is too long";
        return REQUEST_BAD;
    }
    if (!end)
        return REQUEST_MORE;
    *ret_used = end;
    return begin(r, data, end, head, ret_why);
}
