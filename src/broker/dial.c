// SPDX-License-Identifier: Apache-2.0
//
// dial: see dial.h.

#include "broker/dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/timer.h"

struct attempt {
    struct dial *dial;
    int fd;
    size_t which;
    struct event *event;
};

struct dial {
    struct event_base *base;
    size_t count, next;
    struct net_address addresses[DIAL_MAX];
    uint16_t port;
    int errnum;
    unsigned under_way;
    struct attempt attempts[DIAL_AT_ONCE];
    struct timer timer; // the next one, or the end of all
    int64_t until_ms;
    void (*done)(int fd, int errnum, const struct net_address *a, void *argument);
    void *argument;
};

static void attempt_end(struct attempt *a)
{
    if (a->event) {
        event_free(a->event);
        a->dial->under_way--;
    }
    a->event = NULL;
    fd_close(&a->fd);
}

void dial_free(struct dial *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < DIAL_AT_ONCE; i++)
        attempt_end(&d->attempts[i]);
    timer_stop(&d->timer);
    free(d);
}

// The error to report: a host that refuses says more than one without a route.
static void note(struct dial *d, int errnum)
{
    static const int telling[] = {ECONNREFUSED, ETIMEDOUT};
    for (size_t i = 0; i < ARRAY_LEN(telling); i++)
        if (d->errnum == telling[i])
            return;
    d->errnum = errnum;
}

static void finish(struct dial *d, int fd, size_t which)
{
    void (*done)(int, int, const struct net_address *, void *) = d->done;
    void *argument = d->argument;
    struct net_address address = d->addresses[which];
    int errnum = d->errnum;
    dial_free(d);
    done(fd, fd < 0 ? errnum : 0, &address, argument);
}

static void go_on(struct dial *d);

static void on_event(evutil_socket_t fd, short what, void *argument)
{
    struct attempt *a = argument;
    struct dial *d = a->dial;
    int errnum = 0;
    socklen_t length = sizeof errnum;
    if (what & EV_TIMEOUT)
        errnum = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &length) < 0)
        errnum = errno;
    if (!errnum) {
        int taken = TAKE_FD(a->fd);
        finish(d, taken, a->which);
        return;
    }
    note(d, errnum);
    attempt_end(a);
    go_on(d);
}

// 1: started; 0: this address cannot be used.
static int begin(struct dial *d, struct attempt *a, size_t which)
{
    struct sockaddr_storage sa;
    socklen_t length = net_address_to_sockaddr(&d->addresses[which], d->port, &sa);
    int on = 1, r = -1;
    a->dial = d;
    a->which = which;
    a->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (a->fd >= 0) {
        (void)setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        r = connect(a->fd, (struct sockaddr *)&sa, length);
    }
    if (a->fd < 0 || (r < 0 && errno != EINPROGRESS)) {
        note(d, errno);
        fd_close(&a->fd);
        return 0;
    }
    struct timeval each = {.tv_sec = (d->count > 1 ? DIAL_EACH_MS : DIAL_MS) / 1000};
    a->event = event_new(d->base, a->fd, EV_WRITE, on_event, a);
    if (!a->event || event_add(a->event, &each) < 0) {
        if (a->event)
            event_free(a->event);
        a->event = NULL;
        note(d, ENOMEM);
        fd_close(&a->fd);
        return 0;
    }
    d->under_way++;
    return 1;
}

static void on_timer(void *argument);

// Schedules the next attempt or the end; at once when no attempt is under way.
static bool set_timer(struct dial *d)
{
    int64_t left_ms = d->under_way ? d->until_ms - clock_ms() : 0;
    if (d->next < d->count && d->under_way < DIAL_AT_ONCE && left_ms > DIAL_NEXT_MS)
        left_ms = DIAL_NEXT_MS;
    return timer_set(&d->timer, d->base, left_ms < 0 ? 0 : (uint64_t)left_ms, on_timer, d);
}

// Starts the next attempt; ends when none is left and none is under way.
static void go_on(struct dial *d)
{
    struct attempt *attempt = NULL;
    for (size_t i = 0; i < DIAL_AT_ONCE; i++)
        if (!d->attempts[i].event)
            attempt = &d->attempts[i];
    while (attempt && d->next < d->count && !begin(d, attempt, d->next++))
        ;
    if (d->under_way)
        (void)set_timer(d);
    else
        finish(d, -1, 0);
}

static void on_timer(void *argument)
{
    struct dial *d = argument;
    if (clock_ms() >= d->until_ms) {
        note(d, ETIMEDOUT);
        finish(d, -1, 0);
    } else {
        go_on(d);
    }
}

struct dial *dial_new(struct event_base *base, const struct net_address *addresses, size_t count,
                      uint16_t port,
                      void (*done)(int fd, int errnum, const struct net_address *a, void *argument),
                      void *argument)
{
    struct dial *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    *d = (struct dial){.base = base,
                       .count = count < DIAL_MAX ? count : DIAL_MAX,
                       .port = port,
                       .errnum = EHOSTUNREACH,
                       .until_ms = clock_ms() + DIAL_MS,
                       .done = done,
                       .argument = argument};
    memcpy(d->addresses, addresses, d->count * sizeof *addresses);
    for (size_t i = 0; i < DIAL_AT_ONCE; i++)
        d->attempts[i].fd = -1;
    // The first attempt starts here, without waiting for a turn of the loop.  An immediate failure
    // is reported from the loop, because the caller does not have `d` yet.
    if (d->count)
        while (d->next < d->count && !begin(d, &d->attempts[0], d->next++))
            ;
    if (!set_timer(d)) {
        dial_free(d);
        return NULL;
    }
    return d;
}
