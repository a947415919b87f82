// SPDX-License-Identifier: Apache-2.0
//
// env_porter: see env_porter.h.  Runs in the gate, on its event loop.
//
// Invariants:
//   (1) `asks` has every request that waits for an answer, first come first; those that were sent
//       over the current link come first.
//   (2) a request's callback is called once, and never from within env_porter_ask().

#include "env/env_porter.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/timer.h"
#include "run/gate.h"
#include "wire/porter.h"
#include "json/dump.h"

enum { READ_MAX = 64 };

struct env_ask {
    struct env_porter *all;
    uint64_t number;
    char *text;
    int fd;
    bool sent;
    env_answer done;
    void *argument;
    TAILQ_ENTRY(env_ask) list;
};

struct env_porter {
    struct gate *gate;
    int sock; // -1: no porter
    struct event *readable, *writable;
    struct timer patience; // set while there is no porter
    TAILQ_HEAD(, env_ask) asks;
    size_t count;
    uint64_t next;
    char buffer[PORTER_DATAGRAM];
};

static void ask_free(struct env_ask *a)
{
    TAILQ_REMOVE(&a->all->asks, a, list);
    a->all->count--;
    fd_close(&a->fd);
    free(a->text);
    free(a);
}

static void answer(struct env_ask *a, const json_t *said, const struct err *e)
{
    env_answer done = a->done;
    void *argument = a->argument;
    ask_free(a);
    if (done)
        done(said, e, argument);
}

static void on_impatient(void *argument)
{
    struct env_porter *p = argument;
    struct err e;
    if (p->sock >= 0)
        return;
    err_set(&e, ERR_STATE_FOLDER, 0, "see the server's log; try again later",
            "the porter, which writes packages, is not running");
    for (size_t n = p->count; n > 0 && !TAILQ_EMPTY(&p->asks); n--)
        answer(TAILQ_FIRST(&p->asks), NULL, &e);
}

static void set_patience(struct env_porter *p)
{
    (void)timer_set(&p->patience, p->gate->base, ENV_PORTER_WAIT_MS, on_impatient, p);
}

static void unlink_porter(struct env_porter *p)
{
    if (p->readable)
        event_free(p->readable);
    if (p->writable)
        event_free(p->writable);
    p->readable = p->writable = NULL;
    fd_close(&p->sock);
    struct env_ask *a, *next;
    for (a = TAILQ_FIRST(&p->asks); a; a = next) {
        next = TAILQ_NEXT(a, list);
        a->sent = false;
        if (!a->done)
            ask_free(a); // forgotten: the new porter need not cancel it
    }
    set_patience(p);
}

// ---- sending ------------------------------------------------------------------------------------

// 1: sent, 0: later, -1: the porter is gone.
static int send_one(int sock, const char *text, int fd)
{
    struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text)};
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = control.buf;
        m.msg_controllen = sizeof control.buf;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t r;
    do
        r = sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (r < 0 && errno == EINTR);
    if (r >= 0)
        return 1;
    return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS ? 0 : -1;
}

static void send_asks(struct env_porter *p)
{
    struct env_ask *a;
    TAILQ_FOREACH (a, &p->asks, list) {
        if (a->sent)
            continue;
        int r = p->sock < 0 ? 0 : send_one(p->sock, a->text, a->fd);
        if (r < 0) {
            unlink_porter(p);
            return;
        }
        if (r == 0) {
            if (p->writable)
                (void)event_add(p->writable, NULL);
            return;
        }
        a->sent = true;
    }
    if (p->writable)
        (void)event_del(p->writable);
}

static void on_writable(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    (void)what;
    send_asks(argument);
}

// ---- answers ------------------------------------------------------------------------------------

static void take_text(char *ret, size_t cap, const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    snprintf(ret, cap, "%s", text ? text : "");
    text_sanitize(ret);
}

static enum err_code code_of(const char *name)
{
    for (int i = 0; i < ERR_CODE_MAX; i++)
        if (strcmp(err_code_name((enum err_code)i), name) == 0)
            return (enum err_code)i;
    return ERR_STATE_FOLDER;
}

static void on_said(struct env_porter *p, const json_t *said)
{
    const char *op = json_string_value(json_object_get(said, "op"));
    json_t *number = json_object_get(said, "request");
    struct env_ask *a;
    if (!op || !json_is_integer(number) || strcmp(op, "progress") == 0)
        return;
    TAILQ_FOREACH (a, &p->asks, list)
        if (a->number == (uint64_t)json_integer_value(number))
            break;
    if (!a || !a->sent)
        return;
    if (strcmp(op, "failed") != 0) {
        answer(a, said, NULL);
        return;
    }
    char code[64];
    struct err e = {0};
    take_text(code, sizeof code, said, "code");
    take_text(e.message, sizeof e.message, said, "message");
    take_text(e.hint, sizeof e.hint, said, "hint");
    e.code = code_of(code);
    if (!e.message[0])
        snprintf(e.message, sizeof e.message, "the porter could not store the package");
    answer(a, NULL, &e);
}

static void on_readable(evutil_socket_t fd, short what, void *argument)
{
    struct env_porter *p = argument;
    (void)what;
    for (int i = 0; i < READ_MAX && p->sock == fd; i++) {
        // SECURITY: no room for descriptors, so the kernel drops any that the porter sends.
        ssize_t length = recv(fd, p->buffer, sizeof p->buffer, MSG_DONTWAIT | MSG_TRUNC);
        if (length < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (length <= 0) {
            unlink_porter(p);
            return;
        }
        json_t *said = (size_t)length <= sizeof p->buffer
                           ? json_loadb(p->buffer, (size_t)length, 0, NULL)
                           : NULL;
        if (json_is_object(said))
            on_said(p, said);
        json_decref(said);
    }
}

// ---- the link -----------------------------------------------------------------------------------

static struct env_porter *porter_of(struct gate *g)
{
    if (g->porter)
        return g->porter;
    struct env_porter *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->gate = g;
    p->sock = -1;
    TAILQ_INIT(&p->asks);
    g->porter = p;
    return p;
}

void env_porter_link(struct gate *g, int sock)
{
    struct env_porter *p = sock >= 0 ? porter_of(g) : g->porter;
    if (!p) {
        fd_close(&sock);
        return;
    }
    unlink_porter(p);
    if (sock < 0)
        return;
    p->sock = sock;
    (void)fd_set_nonblock(sock, true);
    p->readable = event_new(g->base, sock, EV_READ | EV_PERSIST, on_readable, p);
    p->writable = event_new(g->base, sock, EV_WRITE | EV_PERSIST, on_writable, p);
    if (!p->readable || !p->writable || event_add(p->readable, NULL) < 0) {
        log_line(LOG_ERROR, "no memory for the link to the porter");
        unlink_porter(p);
        return;
    }
    timer_stop(&p->patience);
    send_asks(p);
}

void env_porter_close(struct gate *g)
{
    struct env_porter *p = TAKE_PTR(g->porter);
    if (!p)
        return;
    unlink_porter(p);
    while (!TAILQ_EMPTY(&p->asks))
        ask_free(TAILQ_FIRST(&p->asks));
    timer_stop(&p->patience);
    free(p);
}

// ---- asking -------------------------------------------------------------------------------------

struct env_ask *env_porter_ask(struct gate *g, json_t *question, int fd, env_answer done,
                               void *argument)
{
    struct env_porter *p = porter_of(g);
    struct env_ask *a = p && p->count < ENV_PORTER_ASKS_MAX ? calloc(1, sizeof *a) : NULL;
    if (a) {
        *a = (struct env_ask){
            .all = p, .number = ++p->next, .fd = fd, .done = done, .argument = argument};
        if (json_object_set_new(question, "request", json_integer((json_int_t)a->number)) == 0)
            a->text = dump_text(question);
    }
    json_decref(question);
    if (!a || !a->text || strlen(a->text) > PORTER_DATAGRAM) {
        fd_close(&fd);
        if (a)
            free(a->text);
        free(a);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&p->asks, a, list);
    p->count++;
    if (p->sock >= 0)
        send_asks(p);
    else if (!timer_is_set(&p->patience))
        set_patience(p);
    return a;
}

void env_porter_forget(struct env_ask *a)
{
    struct env_porter *p = a->all;
    if (!a->sent) {
        ask_free(a);
        return;
    }
    a->done = NULL; // its answer still comes
    char text[80];
    snprintf(text, sizeof text, "{\"op\":\"cancel\",\"request\":%llu}",
             (unsigned long long)a->number);
    if (p->sock >= 0 && send_one(p->sock, text, -1) < 0)
        unlink_porter(p);
}
