// SPDX-License-Identifier: Apache-2.0
//
// gate_link: see gate_link.h.
//
// SECURITY: the gate parses foreign input and may be hostile.  Here it can only store and remove
// wheels, whose code runs in boxes alone.

#include "porter/gate_link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "porter/requests.h"
#include "wire/wire.h"

enum { MESSAGES = 64 }; // in one turn

// ---- out ----------------------------------------------------------------------------------------

void gate_link_answer(struct porter *p, json_t *o, int fd)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    size_t length = text ? strlen(text) : 0;
    int r = -EMSGSIZE;
    json_decref(o);
    if (p->gate >= 0 && length && length <= PORTER_DATAGRAM)
        do
            r = fd_send(p->gate, text, length, &fd, fd >= 0);
        while (r == -EINTR);
    if (p->gate >= 0 && r < 0 && r != -EPIPE && r != -ECONNRESET)
        log_line(LOG_ERROR, "an answer to the gate is lost: %s", strerror(-r));
    free(text);
}

void gate_link_fail(struct porter *p, int64_t number, const struct err *e)
{
    gate_link_answer(p,
                     json_pack("{s:s, s:I, s:s, s:s, s:s}", "op", "failed", "request",
                               (json_int_t)number, "code", err_code_name(e->code), "message",
                               e->message, "hint", e->hint),
                     -1);
}

void gate_link_progress(struct porter *p, int64_t number, uint64_t bytes, uint64_t total)
{
    json_auto_t *o =
        json_pack("{s:s, s:I, s:I, s:I}", "op", "progress", "request", (json_int_t)number, "bytes",
                  (json_int_t)bytes, "total", (json_int_t)total);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (text && p->gate >= 0)
        (void)send(p->gate, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    free(text);
}

// ---- the queue ----------------------------------------------------------------------------------

void request_free(struct request *q)
{
    for (size_t i = 0; i < q->fd_count; i++)
        fd_close(&q->fds[i]);
    json_decref(q->words);
    free(q);
}

static void drop_request(struct porter *p, struct request *q)
{
    TAILQ_REMOVE(&p->queue, q, link);
    p->queued--;
    request_free(q);
}

// Drops the requests of the gate before: the new one does not expect answers to them.
static void link_gate(struct porter *p, int fd)
{
    struct request *q;
    fd_close(&p->gate);
    p->gate = fd;
    while ((q = TAILQ_FIRST(&p->queue)))
        drop_request(p, q);
    p->cancelled |= p->current != 0;
    p->current = 0; // so that the new gate gets no answer to it
    requests_forget(p);
}

static void cancel(struct porter *p, int64_t number)
{
    struct err e;
    struct request *q, *next;
    err_set(&e, ERR_CANCELLED, 0, NULL, "it was cancelled");
    if (p->current == number) {
        p->cancelled = true;
        return;
    }
    for (q = TAILQ_FIRST(&p->queue); q; q = next) {
        next = TAILQ_NEXT(q, link);
        if (q->number != number)
            continue;
        drop_request(p, q);
        gate_link_fail(p, number, &e);
    }
}

static void refuse(struct porter *p, int64_t number, const char *why)
{
    struct err e;
    err_set(&e, ERR_PROTOCOL, 0, NULL, "%s", why);
    gate_link_fail(p, number, &e);
}

// Takes the words and the descriptors; when it returns false they stay with the caller.
static bool enqueue(struct porter *p, int64_t number, json_t *words, const int *fds, size_t count)
{
    const char *op = json_string_value(json_object_get(words, "op"));
    const struct request_kind *kind = requests_kind(op);
    struct request *q = NULL;
    if (!kind)
        refuse(p, number, "unknown operation");
    else if (count < requests_fds_min(kind) || count > requests_fds_max(kind))
        refuse(p, number, "wrong number of descriptors");
    else if (!(q = calloc(1, sizeof *q)))
        refuse(p, number, "out of memory");
    if (!q)
        return false;
    *q = (struct request){.number = number, .kind = kind, .words = words, .fd_count = count};
    memcpy(q->fds, fds, count * sizeof *fds);
    TAILQ_INSERT_TAIL(&p->queue, q, link);
    p->queued++;
    return true;
}

static void on_datagram(struct porter *p, size_t length, int *fds, size_t count)
{
    json_t *o = json_loadb(p->buffer, length, JSON_REJECT_DUPLICATES, NULL);
    const char *op = json_string_value(json_object_get(o, "op"));
    int64_t number = json_integer_value(json_object_get(o, "request"));
    bool taken = false;
    if (!op || number <= 0)
        log_line(LOG_ERROR, "malformed message from the gate");
    else if (strcmp(op, "cancel") == 0)
        cancel(p, number);
    else
        taken = enqueue(p, number, o, fds, count);
    if (taken)
        return;
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    json_decref(o);
}

// ---- in -----------------------------------------------------------------------------------------

static bool is_nothing(const struct pollfd *p)
{
    return !(p->revents & (POLLIN | POLLHUP | POLLERR));
}

static bool has_news(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&poll_fd, 1, 0) == 1 && !is_nothing(&poll_fd);
}

static void receive_from_keeper(struct porter *p)
{
    static union wire_message m; // large
    for (int i = 0; i < MESSAGES && !p->stop && has_news(p->keeper); i++) {
        int fds[FD_PASS_MAX];
        size_t count = 0;
        int r = wire_recv(p->keeper, &m, fds, FD_PASS_MAX, &count);
        if (r == -EAGAIN || r == -EINTR)
            return;
        if (r == 0 || r == -ECONNRESET) {
            p->stop = true; // the keeper is gone, and with it the gate
            return;
        }
        if (r < 0 || m.h.type != WIRE_NET_LINK)
            log_line(LOG_ERROR, "malformed message from the keeper");
        if (r == 1 && m.h.type == WIRE_NET_LINK)
            link_gate(p, count == 1 ? TAKE_FD(fds[0]) : -1);
        for (size_t k = 0; r == 1 && k < count; k++)
            fd_close(&fds[k]);
    }
}

static void receive_from_gate(struct porter *p)
{
    for (int i = 0; i < MESSAGES && p->queued < PORTER_QUEUE_MAX && has_news(p->gate); i++) {
        int fds[REQUEST_FDS];
        size_t count = 0;
        ssize_t n = fd_recv(p->gate, p->buffer, sizeof p->buffer, fds, REQUEST_FDS, &count);
        if (n == -EAGAIN || n == -EINTR)
            return;
        if (n == -EMSGSIZE) {
            log_line(LOG_ERROR, "a message of the gate is too long");
            continue;
        }
        if (n <= 0) {
            link_gate(p, -1); // the keeper sends a new one
            return;
        }
        on_datagram(p, (size_t)n, fds, count);
    }
}

void gate_link_receive(struct porter *p)
{
    receive_from_keeper(p);
    receive_from_gate(p);
}

void gate_link_wait(struct porter *p)
{
    struct pollfd fds[] = {{.fd = p->keeper, .events = POLLIN}, {.fd = p->gate, .events = POLLIN}};
    (void)poll(fds, 2, -1);
}

void gate_link_close(struct porter *p)
{
    link_gate(p, -1);
    fd_close(&p->keeper);
}
