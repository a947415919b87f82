// SPDX-License-Identifier: Apache-2.0
//
// resolve: see resolve.h.
//
// Both families are asked at once.  A name server that drops the questions of one family must not
// delay the other: after the first addresses the second family has 50 ms (RFC 8305).

#include "broker/resolve.h"

#include <ares.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/timer.h"
#include "net/rules.h"

enum {
    KEEP_MS = 60 * 1000,
    KEEP_LEAST_MS = 1000, // one look-up is enough for the look-up of the code and its connection
    KEEP_FAILURE_MS = 5000,
    OTHER_FAMILY_MS = 50,
    TRY_MS = 1000, // one server; doubled with every round
    TRIES = 3,
    SOCKETS_MAX = 64,
    BUCKETS = 1024,
};

enum family { V4, V6, FAMILIES };

struct resolve_wait {
    LIST_ENTRY(resolve_wait) link;
    void (*done)(const struct resolve_answer *a, void *argument);
    void *argument;
};

struct name {
    LIST_ENTRY(name) chain;
    TAILQ_ENTRY(name) age; // the oldest first
    struct resolver *resolver;
    char text[NET_HOST_MAX + 1];
    struct question *questions[FAMILIES]; // NULL: answered
    struct {
        int status; // ARES_...
        size_t count;
        struct net_address addresses[RESOLVE_ADDRESSES_MAX];
    } found[FAMILIES];
    bool known;
    int64_t until_ms;
    int64_t ttl_ms;
    struct resolve_answer answer;
    LIST_HEAD(, resolve_wait) waits;
    struct timer timer;
};

// The argument of a c-ares query; it outlives a name that was dropped.
struct question {
    struct resolver *resolver;
    struct name *name; // NULL: the name was dropped
    enum family family;
};

struct resolver {
    struct event_base *base;
    ares_channel channel;
    struct timer timer;
    struct {
        ares_socket_t fd;
        short what;
        struct event *event;
    } sockets[SOCKETS_MAX];
    size_t questions;
    LIST_HEAD(, name) buckets[BUCKETS];
    TAILQ_HEAD(, name) names;
    size_t count;
};

// ---- c-ares and the event loop ------------------------------------------------------------------

static void on_timer(void *argument);

static void set_timer(struct resolver *r)
{
    struct timeval tv;
    if (ares_timeout(r->channel, NULL, &tv))
        (void)timer_set(&r->timer, r->base,
                        (uint64_t)tv.tv_sec * 1000 + (uint64_t)(tv.tv_usec + 999) / 1000, on_timer,
                        r);
    else
        timer_stop(&r->timer);
}

static void on_socket(evutil_socket_t fd, short what, void *argument)
{
    struct resolver *r = argument;
    ares_process_fd(r->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
                    what & EV_WRITE ? fd : ARES_SOCKET_BAD);
    set_timer(r);
}

static void on_timer(void *argument)
{
    struct resolver *r = argument;
    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer(r);
}

// c-ares opened, closes, or wants something else of a socket.
static void on_state(void *argument, ares_socket_t fd, int readable, int writable)
{
    struct resolver *r = argument;
    size_t at = SOCKETS_MAX;
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (r->sockets[i].event && r->sockets[i].fd == fd) {
            at = i;
            break;
        }
        if (!r->sockets[i].event)
            at = i;
    }
    if (at == SOCKETS_MAX)
        return; // its question times out
    if (r->sockets[at].event)
        event_free(r->sockets[at].event);
    r->sockets[at].event = NULL;
    short what = (short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
    if (what == EV_PERSIST)
        return;
    struct event *event = event_new(r->base, fd, what, on_socket, r);
    if (event && event_add(event, NULL) < 0) {
        event_free(event);
        event = NULL;
    }
    r->sockets[at].fd = fd;
    r->sockets[at].event = event;
}

// ---- what is known ------------------------------------------------------------------------------

static size_t bucket_of(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h % BUCKETS;
}

static void name_free(struct name *n)
{
    for (enum family f = V4; f < FAMILIES; f++)
        if (n->questions[f])
            n->questions[f]->name = NULL;
    LIST_REMOVE(n, chain);
    TAILQ_REMOVE(&n->resolver->names, n, age);
    n->resolver->count--;
    timer_stop(&n->timer);
    free(n);
}

static struct name *name_find(struct resolver *r, const char *text)
{
    struct name *n;
    LIST_FOREACH (n, &r->buckets[bucket_of(text)], chain) {
        if (strcmp(n->text, text) == 0)
            break;
    }
    if (n && n->known && clock_ms() >= n->until_ms) {
        name_free(n);
        return NULL;
    }
    return n;
}

// SECURITY: below an allowed wildcard a box can look up any number of names.  The oldest makes
// room.
static bool make_room(struct resolver *r)
{
    if (r->count < RESOLVE_NAMES_MAX)
        return true;
    struct name *n;
    TAILQ_FOREACH (n, &r->names, age) {
        if (n->known) {
            name_free(n);
            return true;
        }
    }
    return false;
}

static struct name *name_new(struct resolver *r, const char *text)
{
    bool fits = strlen(text) <= NET_HOST_MAX;
    struct name *n = fits && make_room(r) ? calloc(1, sizeof *n) : NULL;
    if (!n)
        return NULL;
    n->resolver = r;
    n->ttl_ms = KEEP_MS;
    snprintf(n->text, sizeof n->text, "%s", text);
    LIST_INIT(&n->waits);
    LIST_INSERT_HEAD(&r->buckets[bucket_of(text)], n, chain);
    TAILQ_INSERT_TAIL(&r->names, n, age);
    r->count++;
    return n;
}

// ---- asking -------------------------------------------------------------------------------------

static enum resolve_status status_of(int ares)
{
    switch (ares) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
    case ARES_ENONAME: return RESOLVE_NO_NAME;
    case ARES_ETIMEOUT: return RESOLVE_TIMEOUT;
    default: return RESOLVE_FAILED;
    }
}

// Addresses of the families in turn, IPv4 first: costs nothing on machines without IPv6.
static void merge(struct name *n, struct resolve_answer *a)
{
    for (size_t i = 0; i < RESOLVE_ADDRESSES_MAX; i++)
        for (enum family f = V4; f < FAMILIES; f++)
            if (i < n->found[f].count && a->count < RESOLVE_ADDRESSES_MAX)
                a->addresses[a->count++] = n->found[f].addresses[i];
    if (a->count)
        return;
    // A server without IPv6 may answer such questions with any error, so its IPv4 answer counts.
    bool waiting = n->questions[V4] || n->questions[V6];
    a->status = waiting ? RESOLVE_TIMEOUT : status_of(n->found[V4].status);
    a->why = waiting ? ares_strerror(ARES_ETIMEOUT) : ares_strerror(n->found[V4].status);
}

static void finish(struct name *n)
{
    n->known = true;
    n->answer = (struct resolve_answer){.status = RESOLVE_OK};
    merge(n, &n->answer);
    int64_t keep = n->answer.status == RESOLVE_OK ? n->ttl_ms : KEEP_FAILURE_MS;
    n->until_ms = clock_ms() + keep;
    for (enum family f = V4; f < FAMILIES; f++) {
        if (n->questions[f])
            n->questions[f]->name = NULL;
        n->questions[f] = NULL;
    }
    timer_stop(&n->timer);
    // A callback may start new waits, but can end only its own.
    struct resolve_answer answer = n->answer;
    struct resolve_wait *w;
    LIST_HEAD(, resolve_wait) waits = LIST_HEAD_INITIALIZER(waits);
    while ((w = LIST_FIRST(&n->waits))) {
        LIST_REMOVE(w, link);
        LIST_INSERT_HEAD(&waits, w, link);
    }
    while ((w = LIST_FIRST(&waits))) {
        void (*done)(const struct resolve_answer *, void *) = w->done;
        void *argument = w->argument;
        LIST_REMOVE(w, link);
        free(w);
        done(&answer, argument);
    }
}

static void on_late(void *argument)
{
    finish(argument);
}

static void take_addresses(struct name *n, enum family f, const struct ares_addrinfo *res)
{
    for (const struct ares_addrinfo_node *a = res->nodes; a; a = a->ai_next) {
        if (n->found[f].count == RESOLVE_ADDRESSES_MAX)
            break;
        uint16_t port;
        if (net_address_from_sockaddr(a->ai_addr, &n->found[f].addresses[n->found[f].count],
                                      &port) < 0)
            continue;
        n->found[f].count++;
        int64_t ttl_ms = (int64_t)a->ai_ttl * 1000;
        if (ttl_ms < n->ttl_ms)
            n->ttl_ms = ttl_ms < KEEP_LEAST_MS ? KEEP_LEAST_MS : ttl_ms;
    }
}

static void on_answer(void *argument, int status, int timeouts, struct ares_addrinfo *res)
{
    (void)timeouts;
    struct question *q = argument;
    struct name *n = q->name;
    enum family f = q->family;
    q->resolver->questions--;
    free(q);
    if (n) {
        n->questions[f] = NULL;
        n->found[f].status = status;
        if (status == ARES_SUCCESS && res)
            take_addresses(n, f, res);
        if (!n->found[f].count && status == ARES_SUCCESS)
            n->found[f].status = ARES_ENODATA;
        enum family other = f == V4 ? V6 : V4;
        if (!n->questions[other])
            finish(n);
        else if (n->found[f].count)
            (void)timer_set(&n->timer, n->resolver->base, OTHER_FAMILY_MS, on_late, n);
    }
    ares_freeaddrinfo(res);
}

static bool question_new(struct name *n, enum family f)
{
    struct question *q = calloc(1, sizeof *q);
    if (!q)
        return false;
    *q = (struct question){.resolver = n->resolver, .name = n, .family = f};
    n->questions[f] = q;
    n->resolver->questions++;
    return true;
}

static void question_send(const struct name *n, enum family f)
{
    struct ares_addrinfo_hints hints = {
        .ai_family = f == V4 ? AF_INET : AF_INET6,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = ARES_AI_NOSORT, // sorting would try every address
    };
    ares_getaddrinfo(n->resolver->channel, n->text, NULL, &hints, on_answer, n->questions[f]);
}

// Asks; names in the hosts file are answered before this returns.
static struct name *name_ask(struct resolver *r, const char *text)
{
    struct name *n = r->questions + FAMILIES <= RESOLVE_QUESTIONS_MAX ? name_new(r, text) : NULL;
    if (!n)
        return NULL;
    if (!question_new(n, V4) || !question_new(n, V6) ||
        !timer_set(&n->timer, r->base, RESOLVE_MS, on_late, n)) {
        for (enum family f = V4; f < FAMILIES; f++) {
            r->questions -= n->questions[f] != NULL;
            free(n->questions[f]);
            n->questions[f] = NULL;
        }
        name_free(n);
        return NULL;
    }
    question_send(n, V4); // cannot end it: there is the other question
    question_send(n, V6);
    set_timer(r);
    return n;
}

struct resolve_wait *resolver_ask(struct resolver *r, const char *name,
                                  void (*done)(const struct resolve_answer *a, void *argument),
                                  void *argument)
{
    static const struct resolve_answer busy = {.status = RESOLVE_FAILED,
                                               .why = "too many look-ups at one time"};
    struct name *n = name_find(r, name);
    if (!n)
        n = name_ask(r, name);
    struct resolve_wait *w = n && !n->known ? calloc(1, sizeof *w) : NULL;
    if (w) {
        w->done = done;
        w->argument = argument;
        LIST_INSERT_HEAD(&n->waits, w, link);
        return w;
    }
    struct resolve_answer answer = n && n->known ? n->answer : busy;
    done(&answer, argument);
    return NULL;
}

void resolver_forget(struct resolve_wait *w)
{
    if (!w)
        return;
    LIST_REMOVE(w, link);
    free(w);
}

bool resolver_is_busy(const struct resolver *r)
{
    return r->questions >= RESOLVE_QUESTIONS_MAX / 2;
}

const struct resolve_answer *resolver_known(struct resolver *r, const char *name)
{
    struct name *n = name_find(r, name);
    return n && n->known ? &n->answer : NULL;
}

// ---- life ---------------------------------------------------------------------------------------

static int set_servers(struct resolver *r, const struct text_list *servers, struct err *e)
{
    size_t cap = servers->count * (TEXT_ITEM_MAX + 2) + 1, n = 0;
    if (servers->count == 0)
        return 0;
    _cleanup_free_ char *csv = calloc(1, cap);
    if (!csv)
        return err_set(e, ERR_SYSTEM, 0, NULL, "out of memory");
    for (size_t i = 0; i < servers->count; i++)
        n += (size_t)snprintf(csv + n, cap - n, "%s%s", i ? "," : "", servers->items[i]);
    int status = ares_set_servers_ports_csv(r->channel, csv);
    if (status != ARES_SUCCESS)
        return err_set(e, ERR_BAD_VALUE, 0,
                       "write an address, such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53",
                       "--dns '%s': %s", csv, ares_strerror(status));
    return 0;
}

struct resolver *resolver_new(struct event_base *base, const struct text_list *servers,
                              struct err *e)
{
    struct resolver *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, ERR_SYSTEM, 0, NULL, "out of memory");
        return NULL;
    }
    r->base = base;
    TAILQ_INIT(&r->names);
    // SECURITY: no search domains: no rule allowed 'api.example.org.corp.example'.
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
        .timeout = TRY_MS,
        .tries = TRIES,
        .ndots = 1,
        .lookups = (char[]){"fb"},
        .sock_state_cb = on_state,
        .sock_state_cb_data = r,
    };
    int status = ares_library_init(ARES_LIB_INIT_ALL);
    if (status == ARES_SUCCESS)
        status = ares_init_options(&r->channel, &options,
                                   ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                       ARES_OPT_NDOTS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS |
                                       ARES_OPT_SOCK_STATE_CB);
    if (status != ARES_SUCCESS) {
        err_set(e, ERR_SYSTEM, 0, NULL, "c-ares: %s", ares_strerror(status));
        free(r);
        return NULL;
    }
    if (set_servers(r, servers, e) < 0) {
        resolver_free(r);
        return NULL;
    }
    return r;
}

void resolver_free(struct resolver *r)
{
    if (!r)
        return;
    struct name *n;
    while ((n = TAILQ_FIRST(&r->names))) {
        struct resolve_wait *w;
        while ((w = LIST_FIRST(&n->waits)))
            resolver_forget(w);
        name_free(n);
    }
    ares_destroy(r->channel);
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        if (r->sockets[i].event)
            event_free(r->sockets[i].event);
    timer_stop(&r->timer);
    ares_library_cleanup();
    free(r);
}
