// SPDX-License-Identifier: Apache-2.0
//
// head: see head.h.  Fuzzed by tests/fuzz/fuzz_door.c.

#include "http/head.h"

#include <string.h>
#include <strings.h>

enum { TARGET_MAX = 8 * 1024 };

static const struct head_fault
    bad_start = {400, "bad_request",
                 "this is not an HTTP/1 request (was https:// used by mistake?)"},
    bad_line_end = {400, "bad_request", "a line of the head ends without CR LF"},
    bad_request_line = {400, "bad_request",
                        "the first line is not 'METHOD TARGET HTTP/1.1' with single blanks"},
    bad_version = {505, "version_not_supported", "only HTTP/1.1 and HTTP/1.0 are supported"},
    bad_target = {400, "bad_request", "the target of the request is not a path"},
    long_target = {414, "target_too_long", "the target of the request has more than 8192 bytes"},
    long_head = {431, "head_too_large", "the head of the request has more than 32768 bytes"},
    many_fields = {431, "head_too_large", "the request has more than 100 headers"},
    folded = {400, "bad_header", "a header is folded into a second line, which HTTP/1.1 forbids"},
    bad_name = {400, "bad_header", "the name of a header has a character that is not allowed"},
    bad_value = {400, "bad_header", "the value of a header has a control character"},
    twice = {400, "duplicate_header", "a header that may come only once came twice"},
    no_host = {400, "host_required", "the request has no Host header"},
    two_lengths = {400, "bad_length", "the request has both Content-Length and Transfer-Encoding"},
    bad_length = {400, "bad_length", "Content-Length is not a number"},
    bad_encoding = {501, "encoding_not_supported",
                    "the only supported Transfer-Encoding is 'chunked'"},
    old_chunked = {400, "bad_length", "Transfer-Encoding does not exist in HTTP/1.0"},
    bodied_head = {400, "bad_length", "a HEAD request must not have a body"},
    bad_expect = {417, "expectation_failed", "the only supported expectation is '100-continue'"},
    bad_chunk = {400, "bad_chunk", "a chunk of the body is not framed correctly"},
    long_body = {413, "body_too_large", "the body is larger than this server reads"};

static int fail(struct head_fault *ret, struct head_fault fault)
{
    *ret = fault;
    return -1;
}

// ---- slices -------------------------------------------------------------------------------------

bool slice_is(struct slice s, const char *text)
{
    return s.p && s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

bool slice_is_nc(struct slice s, const char *text)
{
    return s.p && s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct slice trim(const char *p, size_t n)
{
    while (n && is_blank(p[0]))
        p++, n--;
    while (n && is_blank(p[n - 1]))
        n--;
    return (struct slice){p, n};
}

bool slice_next(struct slice *list, struct slice *ret_item)
{
    while (list->p && list->n) {
        const char *comma = memchr(list->p, ',', list->n);
        size_t n = comma ? (size_t)(comma - list->p) : list->n;
        *ret_item = trim(list->p, n);
        size_t used = comma ? n + 1 : n;
        list->p += used;
        list->n -= used;
        if (ret_item->n)
            return true;
    }
    return false;
}

// ---- the end of the head ------------------------------------------------------------------------

// tchar of RFC 9110.
static bool is_token_char(unsigned char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
        return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

ssize_t head_find_end(struct head_scan *s, const char *data, size_t n, struct head_fault *fault)
{
    size_t end = n < HEAD_MAX ? n : HEAD_MAX;
    if (n && !is_token_char((unsigned char)data[0]))
        return fail(fault, bad_start);
    while (s->seen < end) {
        const char *feed = memchr(data + s->seen, '\n', end - s->seen);
        if (!feed) {
            s->seen = end;
            break;
        }
        size_t at = (size_t)(feed - data);
        if (at == s->line || data[at - 1] != '\r')
            return fail(fault, bad_line_end);
        bool empty = at == s->line + 1;
        s->seen = s->line = at + 1;
        if (empty)
            return (ssize_t)s->seen;
    }
    return n >= HEAD_MAX ? fail(fault, long_head) : 0;
}

// ---- the head -----------------------------------------------------------------------------------

static const char *const field_names[HEAD_FIELD_MAX] = {
    [HEAD_HOST] = "host",
    [HEAD_CONTENT_LENGTH] = "content-length",
    [HEAD_TRANSFER_ENCODING] = "transfer-encoding",
    [HEAD_CONTENT_TYPE] = "content-type",
    [HEAD_AUTHORIZATION] = "authorization",
    [HEAD_API_KEY] = "x-api-key",
    [HEAD_ORIGIN] = "origin",
    [HEAD_EXPECT] = "expect",
    [HEAD_LAST_EVENT_ID] = "last-event-id",
    [HEAD_WANT_METHOD] = "access-control-request-method",
    [HEAD_WANT_HEADERS] = "access-control-request-headers",
};

struct reader {
    struct head *head;
    struct head_fault *fault;
    unsigned fields, mcp_count;
    struct slice mcp[HEAD_FIELDS_MAX]; // names that begin with "mcp-"
};

static bool all_graphic(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return true;
}

// "METHOD target HTTP/1.1"
static int read_request_line(struct reader *r, struct slice line)
{
    struct head *h = r->head;
    const char *first = memchr(line.p, ' ', line.n);
    if (!first || first == line.p)
        return fail(r->fault, bad_request_line);
    h->method = (struct slice){line.p, (size_t)(first - line.p)};
    for (size_t i = 0; i < h->method.n; i++)
        if (!is_token_char((unsigned char)line.p[i]))
            return fail(r->fault, bad_request_line);
    size_t rest = line.n - h->method.n - 1;
    const char *second = memchr(first + 1, ' ', rest);
    if (!second || second == first + 1)
        return fail(r->fault, bad_request_line);
    h->target = (struct slice){first + 1, (size_t)(second - first - 1)};
    struct slice version = {second + 1, rest - h->target.n - 1};
    h->old = slice_is(version, "HTTP/1.0");
    if (!h->old && !slice_is(version, "HTTP/1.1")) {
        bool http = version.n > 5 && memcmp(version.p, "HTTP/", 5) == 0;
        return fail(r->fault, http ? bad_version : bad_request_line);
    }
    if (h->target.n > TARGET_MAX)
        return fail(r->fault, long_target);
    // An absolute URL is for proxies; '*' and an authority are for methods that are not served
    // here.  libevent would take "//host/path" for an authority.
    if (h->target.p[0] != '/' || (h->target.n > 1 && h->target.p[1] == '/') ||
        !all_graphic(h->target))
        return fail(r->fault, bad_target);
    return 0;
}

// Notes a header that may come only once.
static int note_once(struct reader *r, struct slice name, struct slice value)
{
    for (unsigned i = 0; i < HEAD_FIELD_MAX; i++) {
        if (!slice_is_nc(name, field_names[i]))
            continue;
        if (r->head->field[i].p)
            return fail(r->fault, twice);
        r->head->field[i] = value;
        return 0;
    }
    if (name.n < 4 || strncasecmp(name.p, "mcp-", 4) != 0)
        return 0;
    for (unsigned i = 0; i < r->mcp_count; i++)
        if (r->mcp[i].n == name.n && strncasecmp(r->mcp[i].p, name.p, name.n) == 0)
            return fail(r->fault, twice);
    r->mcp[r->mcp_count++] = name;
    return 0;
}

static int read_field(struct reader *r, struct slice line)
{
    if (++r->fields > HEAD_FIELDS_MAX)
        return fail(r->fault, many_fields);
    if (is_blank(line.p[0]))
        return fail(r->fault, folded);
    size_t n = 0;
    while (n < line.n && is_token_char((unsigned char)line.p[n]))
        n++;
    if (n == 0 || n == line.n || line.p[n] != ':')
        return fail(r->fault, bad_name);
    struct slice name = {line.p, n}, value = trim(line.p + n + 1, line.n - n - 1);
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        if ((c < ' ' && c != '\t') || c == 127)
            return fail(r->fault, bad_value);
    }
    if (slice_is_nc(name, "connection")) {
        struct slice item;
        while (slice_next(&value, &item))
            r->head->close |= slice_is_nc(item, "close");
        return 0;
    }
    if (slice_is_nc(name, "accept")) {
        struct slice item;
        while (slice_next(&value, &item)) {
            const char *parameters = memchr(item.p, ';', item.n);
            item.n = parameters ? (size_t)(parameters - item.p) : item.n;
            r->head->events |= slice_is_nc(trim(item.p, item.n), "text/event-stream");
        }
        return 0;
    }
    return note_once(r, name, value);
}

static int read_length(struct reader *r, struct slice value)
{
    if (value.n == 0 || value.n > 18) // below 2^63
        return fail(r->fault, bad_length);
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9')
            return fail(r->fault, bad_length);
        r->head->length = r->head->length * 10 + (uint64_t)(value.p[i] - '0');
    }
    return 0;
}

// How the body is framed.
static int read_frame(struct reader *r)
{
    struct head *h = r->head;
    struct slice length = h->field[HEAD_CONTENT_LENGTH],
                 encoding = h->field[HEAD_TRANSFER_ENCODING];
    if (length.p && encoding.p)
        return fail(r->fault, two_lengths);
    if (encoding.p && h->old)
        return fail(r->fault, old_chunked);
    if (encoding.p && !slice_is_nc(encoding, "chunked"))
        return fail(r->fault, bad_encoding);
    h->chunked = encoding.p != NULL;
    if (length.p && read_length(r, length) < 0)
        return -1;
    // SECURITY: libevent reads no body of a HEAD request: the body would become the next request.
    if (slice_is(h->method, "HEAD") && (h->chunked || h->length))
        return fail(r->fault, bodied_head);
    return 0;
}

bool head_may_lack_host(const struct head *h)
{
    return h->old && slice_is(h->target, "/health") && !h->field[HEAD_ORIGIN].p;
}

int head_parse(const char *data, size_t n, struct head *ret, struct head_fault *fault)
{
    struct reader r = {.head = ret, .fault = fault};
    *ret = (struct head){0};
    // head_find_end() made sure that every line ends with CR LF and that the last one is empty.
    for (size_t at = 0; at + 2 < n;) {
        const char *feed = memchr(data + at, '\n', n - at);
        if (!feed || feed == data + at || feed[-1] != '\r')
            return fail(fault, bad_line_end);
        struct slice line = {data + at, (size_t)(feed - data) - at - 1};
        if (line.n == 0)
            return fail(fault, bad_line_end);
        if ((at == 0 ? read_request_line(&r, line) : read_field(&r, line)) < 0)
            return -1;
        at += line.n + 2;
    }
    if (!ret->method.p)
        return fail(fault, bad_request_line);
    if (!ret->field[HEAD_HOST].p && !head_may_lack_host(ret))
        return fail(fault, no_host);
    if (read_frame(&r) < 0)
        return -1;
    struct slice expect = ret->field[HEAD_EXPECT];
    if (expect.p && !slice_is_nc(expect, "100-continue"))
        return fail(fault, bad_expect);
    ret->wait = expect.p && !ret->old;
    return 0;
}

// ---- bodies in chunks ---------------------------------------------------------------------------

enum { SIZE, SIZE_END, DATA, DATA_CR, DATA_LF, LAST_CR, LAST_LF };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// A byte of the frame; 1: it was the last one.
static int frame_byte(struct chunks *c, char byte, struct head_fault *fault)
{
    int digit;
    switch (c->state) {
    case SIZE:
        digit = hex_digit(byte);
        if (digit >= 0 && c->digits < 8) {
            c->left = c->left * 16 + (unsigned)digit;
            c->digits++;
            return 0;
        }
        if (byte != '\r' || c->digits == 0)
            return fail(fault, bad_chunk);
        c->state = SIZE_END;
        return 0;
    case SIZE_END:
        c->digits = 0;
        c->body += c->left;
        if (c->body > c->max)
            return fail(fault, long_body);
        c->state = c->left ? DATA : LAST_CR;
        return byte == '\n' ? 0 : fail(fault, bad_chunk);
    case DATA_CR: c->state = DATA_LF; return byte == '\r' ? 0 : fail(fault, bad_chunk);
    case DATA_LF: c->state = SIZE; return byte == '\n' ? 0 : fail(fault, bad_chunk);
    case LAST_CR: c->state = LAST_LF; return byte == '\r' ? 0 : fail(fault, bad_chunk);
    default: return byte == '\n' ? 1 : fail(fault, bad_chunk); // LAST_LF
    }
}

uint64_t chunks_data(const struct chunks *c)
{
    return c->state == DATA ? c->left : 0;
}

int chunks_feed(struct chunks *c, const char *data, size_t n, size_t *ret_used,
                struct head_fault *fault)
{
    size_t at = 0;
    while (at < n) {
        if (c->state == DATA) {
            size_t skip = c->left < n - at ? (size_t)c->left : n - at;
            at += skip;
            c->left -= skip;
            if (c->left == 0)
                c->state = DATA_CR;
            continue;
        }
        // A body of one-byte chunks is an attack on the reader.
        if (++c->overhead > c->max)
            return fail(fault, long_body);
        int r = frame_byte(c, data[at++], fault);
        if (r != 0) {
            *ret_used = at;
            return r;
        }
    }
    return 0;
}
