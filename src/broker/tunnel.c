// SPDX-License-Identifier: Apache-2.0
//
// tunnel: see tunnel.h.  SECURITY: the proxy's answer is bounded in size and time, and read exactly
// to its end: what follows it belongs to the box.

#include "broker/tunnel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

struct tunnel {
    int fd;
    struct event *event;
    size_t sent, asked;
    char question[NET_HOST_MAX * 2 + NET_LOGIN_MAX + 128];
    int64_t until_ms; // SECURITY: one limit for the whole answer: a proxy that sends a byte now and
                      // then must not hold it for hours
    size_t count;
    char answer[TUNNEL_ANSWER_MAX + 1];
    void (*done)(int fd, int errnum, const char *why, void *argument);
    void *argument;
};

void tunnel_free(struct tunnel *t)
{
    if (!t)
        return;
    if (t->event)
        event_free(t->event);
    fd_close(&t->fd);
    explicit_bzero(t->question, sizeof t->question);
    free(t);
}

static void finish(struct tunnel *t, int errnum, const char *why)
{
    void (*done)(int, int, const char *, void *) = t->done;
    void *argument = t->argument;
    int fd = errnum ? -1 : TAKE_FD(t->fd);
    tunnel_free(t);
    done(fd, errnum, why, argument);
}

static bool wait_on(struct tunnel *t)
{
    int64_t left_ms = t->until_ms - clock_ms();
    if (left_ms < 1)
        left_ms = 1;
    struct timeval most = {.tv_sec = (time_t)(left_ms / 1000),
                           .tv_usec = (suseconds_t)(left_ms % 1000) * 1000};
    return event_add(t->event, &most) == 0;
}

static bool watch(struct tunnel *t, short what, event_callback_fn call, struct event_base *base)
{
    if (t->event)
        event_free(t->event);
    t->event = event_new(base, t->fd, what, call, t);
    return t->event && wait_on(t);
}

// "HTTP/1.1 200 Connection established"
static void take_answer(struct tunnel *t)
{
    char *code = t->answer + 9;
    bool http = strncmp(t->answer, "HTTP/1.", 7) == 0 && t->answer[8] == ' ';
    if (http && code[0] == '2')
        finish(t, 0, "");
    else if (http && strncmp(code, "407", 3) == 0)
        finish(t, EACCES, "the proxy refuses this user or password");
    else
        finish(t, ECONNREFUSED,
               http ? "the proxy refuses this host" : "the server at --index-proxy is not a proxy");
}

// Peeks first, and takes only the bytes of the answer.
static void on_answer(evutil_socket_t fd, short what, void *argument)
{
    struct tunnel *t = argument;
    size_t room = TUNNEL_ANSWER_MAX - t->count;
    if (what & EV_TIMEOUT) {
        finish(t, ETIMEDOUT, "the proxy does not answer");
        return;
    }
    ssize_t n = recv(fd, t->answer + t->count, room, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (!wait_on(t))
            finish(t, ENOMEM, "the server is out of memory");
        return;
    }
    if (n <= 0) {
        finish(t, ECONNRESET, "the proxy hung up");
        return;
    }
    t->answer[t->count + (size_t)n] = '\0';
    const char *end = strstr(t->answer, "\r\n\r\n");
    size_t mine = end ? (size_t)(end - t->answer) + 4 - t->count : (size_t)n;
    (void)recv(fd, t->answer + t->count, mine, MSG_DONTWAIT);
    t->count += mine;
    t->answer[t->count] = '\0';
    if (end)
        take_answer(t);
    else if (t->count == TUNNEL_ANSWER_MAX || !wait_on(t))
        finish(t, EPROTO, "the proxy's answer is too long");
}

static void on_room(evutil_socket_t fd, short what, void *argument)
{
    struct tunnel *t = argument;
    if (what & EV_TIMEOUT) {
        finish(t, ETIMEDOUT, "the proxy does not listen");
        return;
    }
    ssize_t n = send(fd, t->question + t->sent, t->asked - t->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        finish(t, errno, "the proxy hung up");
        return;
    }
    t->sent += n > 0 ? (size_t)n : 0;
    struct event_base *base = event_get_base(t->event);
    bool all = t->sent == t->asked;
    if (!watch(t, all ? EV_READ : EV_WRITE, all ? on_answer : on_room, base))
        finish(t, ENOMEM, "the server is out of memory");
}

struct tunnel *tunnel_new(struct event_base *base, int fd, const struct net_proxy *proxy,
                          const char *host, uint16_t port,
                          void (*done)(int fd, int errnum, const char *why, void *argument),
                          void *argument)
{
    struct tunnel *t = calloc(1, sizeof *t);
    if (!t) {
        fd_close(&fd);
        return NULL;
    }
    *t = (struct tunnel){
        .fd = fd, .done = done, .argument = argument, .until_ms = clock_ms() + TUNNEL_MS};
    t->asked = (size_t)snprintf(t->question, sizeof t->question,
                                "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n%s%s%s\r\n", host, port,
                                host, port, proxy->login[0] ? "Proxy-Authorization: " : "",
                                proxy->login, proxy->login[0] ? "\r\n" : "");
    if (watch(t, EV_WRITE, on_room, base))
        return t;
    tunnel_free(t);
    return NULL;
}
