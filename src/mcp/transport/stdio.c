// SPDX-License-Identifier: Apache-2.0
//
// stdio: see stdio.h.  Runs in the gate.
//
// Invariants:
//   1. Nothing blocks: stdin is read when it is readable, stdout written as far as it accepts; the
//      rest is buffered, bounded.
//   2. While the client does not read answers, its requests are not read.
//   3. Memory is bounded by a line of config.body_bytes plus OUT_MAX of answers.

#include "mcp/transport/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/subscriptions.h"
#include "json/dump.h"

enum {
    READ_SIZE = 64 * 1024,      // the size of a pipe
    KEEP_SIZE = 1024 * 1024,    // empty buffers above this are freed
    OUT_PAUSE = 1024 * 1024,    // backlog that stops reading and drops notifications
    OUT_MAX = 16 * 1024 * 1024, // backlog that replaces answers by errors
    DRAIN_MS = 500,             // for runs to end after the end of stdin
    STALL_MS = 250,             // between checks of a client that does not read
    STALLS_MAX = 2,             // checks without progress before an ending client is gone
};

struct buffer {
    char *data;
    size_t start, end, cap; // the content is data[start..end)
};

enum stdio_state { STDIO_READING, STDIO_DRAINING, STDIO_FLUSHING, STDIO_ENDED };

struct mcp_stdio {
    struct mcp_outlet outlet; // of every call and of the client
    struct mcp *mcp;
    struct mcp_client *client;
    int in, out;
    bool in_polls, out_is_socket; // epoll refuses files, which are always ready
    bool skipping;                // the rest of a line that is too long
    bool corked;                  // answers are collected for one write
    bool eof;                     // of stdin
    bool hurry;                   // told to stop: one check is enough
    enum stdio_state state;
    struct buffer input, output;
    size_t seen;                    // bytes of input already searched for a line feed
    uint64_t written, written_then; // bytes now and at the last check
    int stalls;
    struct event *read_event, *write_event;
    struct timer timer;
    void (*on_end)(void *argument);
    void *argument;
};

// ---- buffers ------------------------------------------------------------------------------------

// Makes room for `more` bytes after the content.
static bool buffer_room(struct buffer *b, size_t more)
{
    if (b->cap - b->end >= more)
        return true;
    size_t used = b->end - b->start;
    if (b->start > b->cap / 2 && b->cap - used >= more) {
        memmove(b->data, b->data + b->start, used);
    } else {
        size_t cap = b->cap ? b->cap : READ_SIZE;
        while (cap - used < more)
            cap *= 2; // lines and answers are bounded, so this cannot overflow
        char *data = malloc(cap);
        if (!data)
            return false;
        if (used)
            memcpy(data, b->data + b->start, used);
        free(b->data);
        b->data = data;
        b->cap = cap;
    }
    b->start = 0;
    b->end = used;
    return true;
}

static void buffer_take(struct buffer *b, size_t length)
{
    b->start += length;
    if (b->start < b->end)
        return;
    b->start = b->end = 0;
    if (b->cap > KEEP_SIZE) {
        free(b->data);
        *b = (struct buffer){0};
    }
}

static size_t backlog(const struct mcp_stdio *io)
{
    return io->output.end - io->output.start;
}

// ---- the end ------------------------------------------------------------------------------------

static void on_timer(void *argument);

static void set_timer(struct mcp_stdio *io, uint64_t ms)
{
    (void)timer_set(&io->timer, io->mcp->base, ms, on_timer, io);
}

static void end(struct mcp_stdio *io)
{
    if (io->state == STDIO_ENDED)
        return;
    io->state = STDIO_ENDED;
    (void)event_del(io->read_event);
    (void)event_del(io->write_event);
    timer_stop(&io->timer);
    io->on_end(io->argument);
}

static void go_on(struct mcp_stdio *io)
{
    // No client is left for tasks and subscriptions.
    if (io->state == STDIO_DRAINING && io->mcp->calls == io->mcp->lasting) {
        io->state = STDIO_FLUSHING;
        set_timer(io, STALL_MS);
    }
    if (io->state == STDIO_FLUSHING && backlog(io) == 0)
        end(io);
}

static void cancel_all(struct mcp_stdio *io)
{
    struct mcp_client *client = TAKE_PTR(io->client);
    if (client)
        mcp_client_end(client);
}

static void stop(struct mcp_stdio *io)
{
    if (io->state >= STDIO_FLUSHING)
        return;
    io->state = STDIO_FLUSHING;
    (void)event_del(io->read_event);
    mcp_subscriptions_end_all(io->mcp);
    cancel_all(io);
    set_timer(io, STALL_MS);
    go_on(io);
}

void mcp_stdio_stop(struct mcp_stdio *io)
{
    io->hurry = true;
    stop(io);
}

// Is the other end of stdin closed, although we are not reading?
static bool has_hung_up(const struct mcp_stdio *io)
{
    struct pollfd p = {.fd = io->in};
    return io->eof || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)));
}

// The client does not read: is it still there?
static void on_timer(void *argument)
{
    struct mcp_stdio *io = argument;
    bool moves = io->written != io->written_then;
    io->written_then = io->written;
    if (io->state == STDIO_DRAINING) {
        stop(io);
        return;
    }
    io->stalls = moves || (io->state == STDIO_READING && !has_hung_up(io)) ? 0 : io->stalls + 1;
    if (io->stalls >= STALLS_MAX || (io->hurry && io->stalls))
        end(io);
    else if (io->state == STDIO_FLUSHING || backlog(io) > OUT_PAUSE)
        set_timer(io, STALL_MS);
}

// ---- writing ------------------------------------------------------------------------------------

static ssize_t write_some(struct mcp_stdio *io, const char *data, size_t length)
{
    ssize_t n;
    do
        n = io->out_is_socket ? send(io->out, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : write(io->out, data, length);
    while (n < 0 && errno == EINTR);
    return n;
}

static void pump(struct mcp_stdio *io);

static void flush(struct mcp_stdio *io)
{
    while (backlog(io) && io->state != STDIO_ENDED) {
        ssize_t n = write_some(io, io->output.data + io->output.start, backlog(io));
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            (void)event_add(io->write_event, NULL);
            return;
        }
        if (n < 0) { // the client is gone or the disk is full
            if (errno != EPIPE && errno != ECONNRESET)
                log_line(LOG_ERROR, "write to stdout: %s", strerror(errno));
            end(io);
            return;
        }
        io->written += (uint64_t)n;
        buffer_take(&io->output, (size_t)n);
    }
    (void)event_del(io->write_event);
}

static void on_writable(evutil_socket_t fd, short what, void *argument)
{
    struct mcp_stdio *io = argument;
    (void)fd;
    (void)what;
    flush(io);
    if (io->state == STDIO_READING && backlog(io) <= OUT_PAUSE / 2)
        pump(io);
    go_on(io);
}

// A message and its line feed; JSON has none inside.
static bool append(struct mcp_stdio *io, json_t *message)
{
    struct buffer *out = &io->output;
    if (!buffer_room(out, 4096))
        return false;
    size_t room = out->cap - out->end - 1;
    size_t n = dump_json(message, out->data + out->end, room);
    if (n == 0 || (backlog(io) && backlog(io) + n > OUT_MAX))
        return false;
    if (n > room) { // the text did not fit and was only measured
        if (!buffer_room(out, n + 1))
            return false;
        n = dump_json(message, out->data + out->end, n);
    }
    out->end += n;
    out->data[out->end++] = '\n';
    return true;
}

static bool append_text(struct mcp_stdio *io, json_t *id, const char *result, size_t length)
{
    static const char begin[] = "{\"jsonrpc\":\"2.0\",\"id\":", middle[] = ",\"result\":";
    struct buffer *out = &io->output;
    size_t room = sizeof begin + sizeof middle + RPC_ID_TEXT_MAX + length + 2;
    if ((backlog(io) && backlog(io) + room > OUT_MAX) || !buffer_room(out, room))
        return false;
    char *p = out->data + out->end;
    p = mempcpy(p, begin, sizeof begin - 1);
    p += dump_json(id, p, RPC_ID_TEXT_MAX);
    p = mempcpy(p, middle, sizeof middle - 1);
    p = mempcpy(p, result, length);
    p = mempcpy(p, "}\n", 2);
    out->end = (size_t)(p - out->data);
    return true;
}

static void put_dropped(struct mcp_stdio *io, json_t *id)
{
    json_auto_t *no =
        rpc_error_json(id, MCP_INTERNAL_ERROR,
                       "the server dropped the answer: it is out of memory, or the client does "
                       "not read its answers",
                       NULL);
    if (no)
        (void)append(io, no);
}

static void put(struct mcp_stdio *io, json_t *message)
{
    json_t *id = json_object_get(message, "id");
    if (io->state == STDIO_ENDED)
        return;
    if (!id && json_is_object(message) && backlog(io) > OUT_PAUSE)
        return; // a notification can be dropped
    if (!append(io, message) && id)
        put_dropped(io, id);
    if (!io->corked)
        flush(io);
}

static void send_message(struct mcp_outlet *o, json_t *message, bool last)
{
    (void)last;
    put((struct mcp_stdio *)o, message);
}

static void send_text(struct mcp_outlet *o, json_t *id, const char *result, size_t length)
{
    struct mcp_stdio *io = (struct mcp_stdio *)o;
    if (io->state == STDIO_ENDED)
        return;
    if (!append_text(io, id, result, length))
        put_dropped(io, id);
    if (!io->corked)
        flush(io);
}

static void drop_call(struct mcp_outlet *o)
{
    (void)o; // shared by all calls
}

static void put_refusal(struct mcp_stdio *io, struct rpc_refusal *no)
{
    json_auto_t *message = rpc_refusal_json(no);
    if (message)
        put(io, message);
    rpc_refusal_clear(no);
}

// ---- batches (2025-03-26) -----------------------------------------------------------------------

// Collects the answers of one batch; gone when the last of its requests has ended.
struct batch {
    struct mcp_outlet outlet;
    struct mcp_stdio *io;
    json_t *answers;
    size_t length; // of their text
    unsigned open; // requests without an answer, plus one while receiving
};

static void batch_close_one(struct batch *b)
{
    if (--b->open)
        return;
    if (json_array_size(b->answers))
        put(b->io, b->answers);
    json_decref(b->answers);
    free(b);
}

static void batch_send(struct mcp_outlet *o, json_t *message, bool last)
{
    struct batch *b = (struct batch *)o;
    if (!last) {
        put(b->io, message);
        return;
    }
    json_t *fitting = rpc_batch_answer(&b->length, message);
    if (fitting)
        (void)json_array_append_new(b->answers, fitting);
    batch_close_one(b);
}

static void batch_drop(struct mcp_outlet *o)
{
    batch_close_one((struct batch *)o);
}

static void receive(struct mcp_stdio *io, struct mcp_outlet *outlet, struct rpc_message *m);

static void batch_refuse(struct batch *b, struct rpc_refusal *no)
{
    json_t *message = rpc_refusal_json(no);
    if (message)
        (void)json_array_append_new(b->answers, message);
    rpc_refusal_clear(no);
}

static void batch_element(struct batch *b, json_t *element, size_t length)
{
    struct rpc_message m;
    struct rpc_refusal no;
    if (rpc_sort(json_incref(element), &m, &no) < 0) {
        batch_refuse(b, &no);
        return;
    }
    bool bad = m.kind == RPC_BATCH || m.modern || (m.method && strcmp(m.method, "initialize") == 0);
    if (bad) {
        (void)rpc_refuse(&no, MCP_INVALID_REQUEST, 400, m.id, NULL,
                         "a batch holds no batch, no 'initialize' and no message of 2026-07-28");
        rpc_message_clear(&m);
        batch_refuse(b, &no);
        return;
    }
    int r = rpc_check_params(&m, length, &no);
    if (r == 0 && m.kind == RPC_REQUEST && rpc_batch_is_full(b->length))
        r = rpc_refuse_full(&no, m.id);
    if (r < 0) {
        rpc_message_clear(&m);
        batch_refuse(b, &no);
        return;
    }
    b->open += m.kind == RPC_REQUEST;
    receive(b->io, &b->outlet, &m);
}

static void batch_receive(struct mcp_stdio *io, struct rpc_message *m)
{
    struct rpc_refusal no;
    struct batch *b = calloc(1, sizeof *b);
    json_t *answers = json_array();
    bool allowed = io->client->agreed && io->client->version == MCP_2025_03_26;
    if (!allowed || !b || !answers) {
        (void)rpc_refuse(&no, allowed ? MCP_INTERNAL_ERROR : MCP_INVALID_REQUEST, 400, NULL, NULL,
                         allowed
                             ? "the server is out of memory"
                             : "batches belong to protocol version 2025-03-26; send one message "
                               "a line");
        put_refusal(io, &no);
        json_decref(answers);
        free(b);
        return;
    }
    *b = (struct batch){.outlet = {.send = batch_send, .drop = batch_drop},
                        .io = io,
                        .answers = answers,
                        .open = 1};
    size_t count = json_array_size(m->message);
    for (size_t i = 0; i < count && io->client; i++)
        batch_element(b, json_array_get(m->message, i), m->length);
    batch_close_one(b);
}

// ---- reading ------------------------------------------------------------------------------------

// Takes the message.
static void receive(struct mcp_stdio *io, struct mcp_outlet *outlet, struct rpc_message *m)
{
    struct mcp_from from = {
        .client = io->client, .outlet = outlet, .owner = "", .version = io->client->version};
    struct rpc_refusal no;
    if (m->modern && rpc_check_modern(m, &from.version, &no) < 0) {
        if (m->kind == RPC_REQUEST)
            put_refusal(io, &no);
        else
            rpc_refusal_clear(&no);
        rpc_message_clear(m);
        return;
    }
    (void)mcp_receive(io->mcp, &from, m);
}

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static void take_line(struct mcp_stdio *io, const char *line, size_t length)
{
    struct rpc_message m;
    struct rpc_refusal no;
    if (is_blank(line, length))
        return;
    if (rpc_read(line, length, &m, &no) < 0) {
        put_refusal(io, &no);
        return;
    }
    if (m.kind != RPC_BATCH) {
        receive(io, &io->outlet, &m);
        return;
    }
    batch_receive(io, &m);
    rpc_message_clear(&m);
}

static void line_too_long(struct mcp_stdio *io, const char *line, size_t length)
{
    struct rpc_refusal no;
    (void)rpc_refuse(
        &no, MCP_INVALID_REQUEST, 413, NULL, NULL,
        "the line is longer than %llu bytes; the server's option --body sets this limit",
        (unsigned long long)io->mcp->config->body_bytes);
    no.id = rpc_peek_id(line, length); // without it the client would wait forever
    put_refusal(io, &no);
}

// Serves complete lines.  Stops when the client does not read, or at the end.
static void take_lines(struct mcp_stdio *io)
{
    struct buffer *in = &io->input;
    size_t max = io->mcp->config->body_bytes;
    while (io->client && in->end > in->start && backlog(io) <= OUT_PAUSE) {
        char *from = in->data + in->start + io->seen;
        size_t left = in->end - in->start - io->seen;
        char *feed = left ? memchr(from, '\n', left) : NULL;
        size_t length = feed ? (size_t)(feed - (in->data + in->start)) : io->seen + left;
        if (length > max && !io->skipping) {
            line_too_long(io, in->data + in->start, length);
            io->skipping = true;
        }
        if (!feed) {
            io->seen = io->skipping ? 0 : length;
            if (io->skipping && length)
                buffer_take(in, length);
            return;
        }
        if (!io->skipping)
            take_line(io, in->data + in->start, length);
        io->skipping = false;
        io->seen = 0;
        buffer_take(in, length + 1);
        if (backlog(io) > OUT_PAUSE)
            flush(io);
    }
}

// Stdin has ended: serves the last line, which may lack its line feed, after all others.
static void take_last(struct mcp_stdio *io)
{
    struct buffer *in = &io->input;
    size_t length = in->end - in->start;
    if (length && memchr(in->data + in->start, '\n', length))
        return; // the client does not read; lines are left
    if (length && !io->skipping && io->client)
        take_line(io, in->data + in->start, length);
    buffer_take(in, length);
    if (io->state != STDIO_READING)
        return;
    io->state = STDIO_DRAINING;
    set_timer(io, DRAIN_MS);
}

// One read; the descriptor stays readable if there is more.
static void read_some(struct mcp_stdio *io)
{
    struct buffer *in = &io->input;
    if (!buffer_room(in, READ_SIZE)) {
        log_line(LOG_ERROR, "no memory for a line of input");
        mcp_stdio_stop(io);
        return;
    }
    ssize_t n = read(io->in, in->data + in->end, in->cap - in->end);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0)
        in->end += (size_t)n;
    else
        io->eof = true;
}

// Reads, or waits until the client has read.
static void want_read(struct mcp_stdio *io)
{
    struct timeval now = {0};
    if (io->state != STDIO_READING)
        return;
    if (backlog(io) > OUT_PAUSE) {
        (void)event_del(io->read_event);
        set_timer(io, STALL_MS);
    } else if (!io->eof) {
        (void)event_add(io->read_event, io->in_polls ? NULL : &now);
    } else {
        (void)event_del(io->read_event);
    }
}

// Serves what was read, with one write for all answers.
static void pump(struct mcp_stdio *io)
{
    io->corked = true;
    take_lines(io);
    if (io->eof && io->state == STDIO_READING && backlog(io) <= OUT_PAUSE)
        take_last(io);
    io->corked = false;
    flush(io);
    want_read(io);
}

static void on_readable(evutil_socket_t fd, short what, void *argument)
{
    struct mcp_stdio *io = argument;
    (void)fd;
    (void)what;
    read_some(io);
    pump(io);
    go_on(io);
}

// ---- opening and closing ------------------------------------------------------------------------

static void on_idle(struct mcp *m)
{
    go_on(m->idle_argument);
}

// epoll refuses files and /dev/null.
static bool can_poll(int fd)
{
    struct epoll_event ev = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    // ENOSPC: boxes of the same user use all watches; this descriptor may be fine.
    bool can = epoll >= 0 && (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) == 0 || errno == ENOSPC);
    fd_close(&epoll);
    return can;
}

struct mcp_stdio *mcp_stdio_open(struct mcp *m, int in, int out, void (*on_end)(void *argument),
                                 void *argument, struct err *e)
{
    struct stat st;
    struct mcp_stdio *io = calloc(1, sizeof *io);
    if (!io) {
        fd_close(&in);
        fd_close(&out);
        err_set(e, ERR_SYSTEM, ENOMEM, NULL, "serve stdin and stdout");
        return NULL;
    }
    *io = (struct mcp_stdio){
        .outlet = {.send = send_message, .drop = drop_call, .send_text = send_text},
        .mcp = m,
        .in = in,
        .out = out,
        .in_polls = can_poll(in),
        .out_is_socket = fstat(out, &st) == 0 && S_ISSOCK(st.st_mode),
        .on_end = on_end,
        .argument = argument};
    io->client = mcp_client_new_private(m, "");
    io->read_event = event_new(m->base, io->in_polls ? in : -1,
                               io->in_polls ? EV_READ | EV_PERSIST : 0, on_readable, io);
    io->write_event = event_new(m->base, out, EV_WRITE | EV_PERSIST, on_writable, io);
    if (!io->client || !io->read_event || !io->write_event) {
        mcp_stdio_close(io);
        err_set(e, ERR_SYSTEM, ENOMEM, NULL, "serve stdin and stdout");
        return NULL;
    }
    io->client->outlet = &io->outlet;
    m->on_idle = on_idle;
    m->idle_argument = io;
    want_read(io);
    return io;
}

void mcp_stdio_close(struct mcp_stdio *io)
{
    if (!io)
        return;
    io->state = STDIO_ENDED;
    cancel_all(io);
    if (io->mcp->idle_argument == io)
        io->mcp->on_idle = NULL;
    if (io->read_event)
        event_free(io->read_event);
    if (io->write_event)
        event_free(io->write_event);
    timer_stop(&io->timer);
    free(io->input.data);
    free(io->output.data);
    fd_close(&io->in);
    fd_close(&io->out);
    free(io);
}
