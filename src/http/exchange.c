// SPDX-License-Identifier: Apache-2.0
//
// exchange: what handlers ask of a request and how they answer it; see http.h.  Called by handlers
// and by http.c; runs in the gate.

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/text.h"
#include "http/body_stream.h"
#include "http/conn.h"
#include "http/problem.h"
#include "http/request_log.h"
#include "json/dump.h"

static struct exchange *private_of(const struct http_exchange *x)
{
    return (struct exchange *)(uintptr_t)x; // x is the first member
}

struct exchange *exchange_new(struct conn *c)
{
    struct exchange *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->conn = c;
    p->x.server = c->server;
    p->x.query = "";
    p->file = -1;
    return p;
}

void exchange_free(struct exchange *p)
{
    if (!p)
        return;
    request_log_end(p);
    free(p->refusal);
    free(p->allow_headers);
    fd_close(&p->file);
    if (p->x.on_end)
        p->x.on_end(p->x.end_argument);
    free(p);
}

// ---- the request --------------------------------------------------------------------------------

const char *http_header(const struct http_exchange *x, const char *name)
{
    const char *value = evhttp_find_header(evhttp_request_get_input_headers(x->ev), name);
    return value ? value + strspn(value, " \t") : NULL; // libevent does not strip tabs
}

// "text/*;q=0.5": does it allow `type`?
static bool range_allows(struct slice range, const char *type)
{
    const char *parameters = memchr(range.p, ';', range.n);
    size_t n = parameters ? (size_t)(parameters - range.p) : range.n;
    while (n && (range.p[n - 1] == ' ' || range.p[n - 1] == '\t'))
        n--;
    struct slice name = {range.p, n};
    size_t major = strcspn(type, "/") + 1;
    bool fits = slice_is_nc(name, type) || slice_is(name, "*/*") ||
                (n == major + 1 && strncasecmp(range.p, type, major) == 0 && range.p[major] == '*');
    if (!fits || !parameters)
        return fits;
    // q=0, q=0.0 ... mean "not this one".
    struct slice rest = {parameters, range.n - (size_t)(parameters - range.p)};
    for (size_t i = 0; i + 3 < rest.n; i++)
        if ((rest.p[i] == ';' || rest.p[i] == ' ') && (rest.p[i + 1] | 0x20) == 'q' &&
            rest.p[i + 2] == '=') {
            for (i += 3; i < rest.n && (rest.p[i] == '0' || rest.p[i] == '.'); i++)
                ;
            return i < rest.n && rest.p[i] >= '1' && rest.p[i] <= '9';
        }
    return true;
}

bool http_accepts(const struct http_exchange *x, const char *type)
{
    struct evkeyval *header;
    bool any = false;
    TAILQ_FOREACH (header, evhttp_request_get_input_headers(x->ev), next) {
        if (strcasecmp(header->key, "Accept") != 0)
            continue;
        struct slice list = {header->value, strlen(header->value)}, range;
        while (slice_next(&list, &range)) {
            any = true;
            if (range_allows(range, type))
                return true;
        }
    }
    return !any;
}

const char *http_body(struct http_exchange *x, size_t *ret_length)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(x->ev);
    *ret_length = evbuffer_get_length(body);
    const char *data = *ret_length ? (const char *)evbuffer_pullup(body, -1) : "";
    if (!data)
        *ret_length = 0; // memory is out
    return data ? data : "";
}

void http_body_done(struct http_exchange *x)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(x->ev);
    (void)evbuffer_drain(body, evbuffer_get_length(body));
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The character at s[*i], where *i is left at its last byte; -1: not well encoded.
static int decode_one(const char *s, size_t n, size_t *i, bool plus)
{
    if (s[*i] == '+' && plus)
        return ' ';
    if (s[*i] != '%')
        return (unsigned char)s[*i];
    int high = *i + 2 < n ? hex_value(s[*i + 1]) : -1, low = high >= 0 ? hex_value(s[*i + 2]) : -1;
    *i += 2;
    return low < 0 ? -1 : high * 16 + low;
}

// Decodes %XX (and '+' in a query).  False and "": too long, not hexadecimal, or a control
// character.
static bool url_decode(const char *s, size_t n, bool plus, char *buf, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int c = decode_one(s, n, &i, plus);
        if (c < ' ' || c == 127 || at + 1 >= cap) {
            buf[0] = '\0';
            return false;
        }
        buf[at++] = (char)c;
    }
    buf[at] = '\0';
    return true;
}

bool http_query(const struct http_exchange *x, const char *name, char *buf, size_t cap)
{
    size_t n = strlen(name);
    for (const char *p = x->query; *p;) {
        size_t length = strcspn(p, "&");
        if (length > n && p[n] == '=' && memcmp(p, name, n) == 0)
            return url_decode(p + n + 1, length - n - 1, true, buf, cap);
        p += length;
        p += *p == '&';
    }
    return false;
}

bool http_decode_path(const char *s, size_t n, char *buf, size_t cap)
{
    return url_decode(s, n, false, buf, cap);
}

// ---- whole answers ------------------------------------------------------------------------------

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Answer";
}

void http_format_allow(unsigned methods, char *buf, size_t cap)
{
    static const struct {
        enum http_method method;
        const char *name;
    } names[] = {
        {HTTP_GET, "GET"},       {HTTP_HEAD, "HEAD"}, {HTTP_POST, "POST"},
        {HTTP_DELETE, "DELETE"}, {HTTP_PUT, "PUT"},
    };
    size_t at = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (methods & names[i].method && at < cap)
            at += (size_t)snprintf(buf + at, cap - at, "%s, ", names[i].name);
    if (at < cap)
        snprintf(buf + at, cap - at, "OPTIONS");
}

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    if (!private_of(x)->gone)
        (void)evhttp_add_header(evhttp_request_get_output_headers(x->ev), name, value);
}

static void set_default(struct http_exchange *x, const char *name, const char *value)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(x->ev);
    if (!evhttp_find_header(headers, name))
        (void)evhttp_add_header(headers, name, value);
}

// The headers of every answer: its type, those that let a web page read it, the end of the
// connection.
static void add_common_headers(struct exchange *p, const char *type)
{
    if (type)
        set_default(&p->x, "Content-Type", type);
    if (p->origin[0]) {
        http_add_header(&p->x, "Access-Control-Allow-Origin", p->origin);
        http_add_header(&p->x, "Vary", "Origin");
        http_add_header(&p->x, "Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate");
    }
    if (p->conn->close_after || p->x.server->stopping || body_stream_is_cut(p->conn))
        set_default(&p->x, "Connection", "close");
}

// Ends the exchange; libevent sends the rest of the answer without it.
static struct evhttp_request *detach(struct exchange *p)
{
    struct evhttp_request *ev = p->x.ev;
    p->conn->x = NULL;
    exchange_free(p);
    return ev;
}

// Sends what is in the output buffer of the request.
static void send_whole(struct exchange *p, int status, const char *type)
{
    struct evbuffer *body = evhttp_request_get_output_buffer(p->x.ev);
    add_common_headers(p, type);
    request_log_status(p, status);
    if (p->x.method == HTTP_HEAD) { // libevent would send a body
        char length[24];
        snprintf(length, sizeof length, "%zu", evbuffer_get_length(body));
        http_add_header(&p->x, "Content-Length", length);
        (void)evbuffer_drain(body, evbuffer_get_length(body));
    }
    evhttp_send_reply(detach(p), status, http_reason(status), NULL);
}

void http_reply(struct http_exchange *x, int status, const char *type, const void *data,
                size_t length)
{
    struct exchange *p = private_of(x);
    if (p->gone)
        return;
    if (length && evbuffer_add(evhttp_request_get_output_buffer(x->ev), data, length) < 0) {
        status = 503;
        type = NULL;
    }
    send_whole(p, status, type);
}

static void free_text(const void *data, size_t length, void *argument)
{
    (void)length;
    (void)argument;
    free((void *)(uintptr_t)data);
}

// Takes the text.
static void reply_text(struct http_exchange *x, int status, char *text, size_t length)
{
    struct exchange *p = private_of(x);
    if (p->gone || !text ||
        evbuffer_add_reference(evhttp_request_get_output_buffer(x->ev), text, length, free_text,
                               NULL) < 0) {
        free(text);
        http_reply(x, 503, NULL, NULL, 0);
        return;
    }
    send_whole(p, status, "application/json");
}

void http_reply_buffer(struct http_exchange *x, int status, const char *type, struct evbuffer *body)
{
    struct exchange *p = private_of(x);
    if (p->gone || evbuffer_add_buffer(evhttp_request_get_output_buffer(x->ev), body) < 0) {
        http_reply(x, 503, NULL, NULL, 0);
        return;
    }
    send_whole(p, status, type);
}

void http_reply_json(struct http_exchange *x, int status, json_t *body)
{
    char *text = dump_text(body);
    reply_text(x, status, text, text ? strlen(text) : 0);
}

char *http_error_text(int status, const char *code, const char *message, const char *hint,
                      const char *path, const char **ret_type)
{
    json_auto_t *body = problem_error(code, message, hint);
    bool problem = path && problem_is_for(path) && problem_dress(body, status, path);
    char *text = body ? dump_text(body) : NULL;
    *ret_type = problem ? PROBLEM_TYPE : "application/json";
    return text;
}

void http_reply_error(struct http_exchange *x, int status, const char *code, const char *hint,
                      const char *fmt, ...)
{
    char message[ERR_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    text_sanitize(message); // it may be cut within a character
    const char *type;
    char *text = http_error_text(status, code, message, hint, x->path, &type);
    if (text && !private_of(x)->gone)
        set_default(x, "Content-Type", type);
    reply_text(x, status, text, text ? strlen(text) : 0);
}

// ---- what is answered without a handler ---------------------------------------------------------

void exchange_refuse(struct exchange *p)
{
    const struct door_refusal *r = p->refusal;
    char allow[64];
    if (p->allow) {
        http_format_allow(p->allow, allow, sizeof allow);
        http_add_header(&p->x, "Allow", allow);
    }
    if (r->challenge[0])
        http_add_header(&p->x, "WWW-Authenticate", r->challenge);
    http_reply_error(&p->x, r->status, r->code, r->hint, "%s", r->message);
}

void exchange_options(struct exchange *p)
{
    char allow[64];
    http_format_allow(p->allow, allow, sizeof allow);
    if (p->origin[0] && p->allow_headers) {
        http_add_header(&p->x, "Access-Control-Allow-Methods", allow);
        http_add_header(&p->x, "Access-Control-Allow-Headers", p->allow_headers);
        http_add_header(&p->x, "Access-Control-Max-Age", "600");
    }
    http_add_header(&p->x, "Allow", allow);
    http_reply(&p->x, 204, NULL, NULL, 0);
}

// ---- streams ------------------------------------------------------------------------------------

enum { STREAM_WRITE = 512 * 1024 }; // bytes at a time; libevent's own 16 KiB are a system call each

void http_stream_begin(struct http_exchange *x, int status, const char *type)
{
    struct exchange *p = private_of(x);
    x->streaming = true;
    if (p->gone)
        return;
    set_default(x, "Cache-Control", "no-store");
    set_default(x, "X-Accel-Buffering", "no");
    add_common_headers(p, type);
    request_log_status(p, status);
    // Without chunks the end of the connection ends the answer; libevent would send length 0 to an
    // HTTP/1.0 client that asked for keep-alive.
    if (p->old)
        (void)evhttp_remove_header(evhttp_request_get_input_headers(x->ev), "Connection");
    (void)bufferevent_set_max_single_write(p->conn->bev, STREAM_WRITE);
    evhttp_send_reply_start(x->ev, status, http_reason(status));
}

void http_stream_write(struct http_exchange *x, const void *data, size_t length)
{
    struct exchange *p = private_of(x);
    if (p->gone || length == 0)
        return;
    struct evbuffer *piece = evbuffer_new();
    http_stream_chunk(x, piece && evbuffer_add(piece, data, length) == 0 ? piece : NULL);
    if (piece)
        evbuffer_free(piece);
}

void http_stream_chunk(struct http_exchange *x, struct evbuffer *chunk)
{
    struct exchange *p = private_of(x);
    if (p->gone)
        return;
    // A lost chunk would corrupt the stream: end it so that the client notices.
    if (!chunk)
        event_active(&p->conn->wake, EV_WRITE, 0);
    else if (evbuffer_get_length(chunk))
        evhttp_send_reply_chunk(x->ev, chunk);
}

size_t http_stream_backlog(const struct http_exchange *x)
{
    const struct exchange *p = private_of(x);
    return p->gone ? 0 : evbuffer_get_length(bufferevent_get_output(p->conn->bev));
}

void http_stream_end(struct http_exchange *x)
{
    struct exchange *p = private_of(x);
    if (!p->gone)
        evhttp_send_reply_end(detach(p));
}

// ---- files --------------------------------------------------------------------------------------

// Not libevent's own file segments.  With sendfile they take a full socket for a closed one
// (2.1.12: evbuffer_write_sendfile makes 0 of EAGAIN, and bufferevent_writecb takes 0 for the end);
// without, they map the file, and truncating the file kills the process.  And the whole file would
// count as buffered bytes of the connection.  Reading ahead by pieces costs one copy.
//
// The end of a file is sent with the piece before it.  On its own it is less than a segment; the
// kernel holds it back until the client has acknowledged the rest, and a client that only reads
// delays that by 40 ms (seen on loopback, Linux 6.18, with TCP_NODELAY).
enum { FILE_PIECE = 256 * 1024, FILE_TAIL = 128 * 1024 };

static bool has_name(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

// Reads the next piece of the file into `piece`.  False: there is less than was promised, or the
// file was removed.
static bool read_piece(struct exchange *p, struct evbuffer *piece)
{
    struct evbuffer_iovec space;
    size_t want = p->file_left < FILE_PIECE + FILE_TAIL ? (size_t)p->file_left : FILE_PIECE;
    if ((p->x.while_named && !has_name(p->file)) || !piece ||
        evbuffer_reserve_space(piece, (ev_ssize_t)want, &space, 1) != 1)
        return false;
    ssize_t n = pread(p->file, space.iov_base, want, (off_t)p->file_at);
    if (n <= 0)
        return false;
    space.iov_len = (size_t)n;
    p->file_at += (uint64_t)n;
    p->file_left -= (uint64_t)n;
    return evbuffer_commit_space(piece, &space, 1) == 0;
}

// The client has taken all output: sends the next piece.
static void send_file(struct http_exchange *x)
{
    struct exchange *p = private_of(x);
    while (p->file_left && http_stream_backlog(x) < FILE_PIECE) {
        struct evbuffer *piece = evbuffer_new();
        bool good = read_piece(p, piece);
        if (good)
            evhttp_send_reply_chunk(x->ev, piece);
        if (piece)
            evbuffer_free(piece);
        if (!good) {
            event_active(&p->conn->wake, EV_WRITE, 0); // closes before Content-Length
            return;
        }
    }
    if (!p->file_left)
        evhttp_send_reply_end(detach(p));
}

void http_reply_file(struct http_exchange *x, int status, const char *type, int fd, uint64_t offset,
                     uint64_t length)
{
    struct exchange *p = private_of(x);
    char text[24];
    p->file = fd;
    if (p->gone)
        return;
    snprintf(text, sizeof text, "%" PRIu64, length);
    add_common_headers(p, type);
    request_log_status(p, status);
    http_add_header(x, "Content-Length", text); // so libevent does not send it in chunks
    if (x->method == HTTP_HEAD) {
        evhttp_send_reply(detach(p), status, http_reason(status), NULL);
        return;
    }
    p->file_at = offset;
    p->file_left = length;
    x->streaming = true;
    x->on_close = NULL;
    x->on_drained = send_file;
    // The default is 16 KiB at a time; two pieces leave room for the head and the rest of a piece.
    (void)bufferevent_set_max_single_write(p->conn->bev, 2 * FILE_PIECE);
    evhttp_send_reply_start(x->ev, status, http_reason(status));
    send_file(x);
}
