// SPDX-License-Identifier: Apache-2.0
//
// conn: see conn.h.

#include "broker/conn.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "broker/audit.h"
#include "broker/dial.h"
#include "broker/explain.h"
#include "broker/inspect.h"
#include "broker/login.h"
#include "broker/netbox.h"
#include "broker/relay.h"
#include "broker/tunnel.h"

enum { FDS_EACH = 1 + 3, FDS_SPARE = 64 }; // attempts of dial.c; keeper, gate, resolver, epoll

// ---- ends ---------------------------------------------------------------------------------------

// How a close ends it.  A reset until both sides have ended normally: when the broker is killed,
// code sees an error, not a download that looks complete.
static void set_reset(int fd, bool reset)
{
    struct linger now = {.l_onoff = reset};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void end_close(struct end *e, bool reset)
{
    if (e->event)
        event_free(e->event);
    e->event = NULL;
    if (e->fd >= 0)
        set_reset(e->fd, reset);
    fd_close(&e->fd);
}

static void reset_fd(int fd)
{
    struct end e = {.fd = fd};
    end_close(&e, true);
}

static const char *target_name(const struct conn *c, char text[NET_ADDRESS_TEXT])
{
    if (!c->host)
        net_address_text(&c->wanted, text);
    return c->host ? c->host : text;
}

void conn_report(struct conn *c)
{
    char text[NET_ADDRESS_TEXT];
    uint64_t up = c->bytes[WAY_UP] - c->reported[WAY_UP];
    uint64_t down = c->bytes[WAY_DOWN] - c->reported[WAY_DOWN];
    report_traffic(&c->box->report, target_name(c, text), c->port, 0, up, down);
    memcpy(c->reported, c->bytes, sizeof c->reported);
}

static void conn_close(struct conn *c, bool reset)
{
    struct netbox *b = c->box;
    if (c->is_closed)
        return;
    c->is_closed = true;
    conn_report(c);
    resolver_forget(c->lookup);
    c->lookup = NULL;
    dial_free(c->dial);
    c->dial = NULL;
    tunnel_free(c->tunnel);
    c->tunnel = NULL;
    for (enum side s = SIDE_BOX; s < SIDES; s++)
        end_close(&c->ends[s], reset);
    login_free(c->login);
    c->login = NULL;
    relay_drop(c);
    if (c->is_counted) {
        quota_give_socket(&b->quota);
        b->broker->fds_used -= FDS_EACH;
    }
    b->kept -= c->is_announced;
    TAILQ_REMOVE(&b->conns, c, link);
    if (c->is_ready)
        TAILQ_REMOVE(&b->ready_conns, c, ready);
    TAILQ_INSERT_TAIL(&b->broker->dead_conns, c, ready);
}

void conn_free(struct conn *c)
{
    free(c);
}

static void tell_asker(struct conn *c, int errnum, const char *text)
{
    if (c->has_asker)
        box_question_answer(c->box, &c->asker, c->asker_length, errnum, text);
    c->has_asker = false;
}

// Code that meets the reset may ask why.
static void remember_end(const struct conn *c, const struct refusal *f)
{
    struct sockaddr_storage sa;
    socklen_t length = sizeof sa;
    struct net_address address;
    uint16_t port;
    if (getpeername(c->ends[SIDE_BOX].fd, (struct sockaddr *)&sa, &length) == 0 &&
        net_address_from_sockaddr((struct sockaddr *)&sa, &address, &port) == 0)
        box_question_remember(c->box, port, f);
}

void conn_refuse(struct conn *c, const struct refusal *f)
{
    if (c->is_closed)
        return;
    if (c->has_asker)
        box_question_refuse(c->box, &c->asker, c->asker_length, EACCES, f);
    c->has_asker = false;
    if (c->state == CONN_OPEN) {
        remember_end(c, f);
        report_refusal(&c->box->report, f);
        audit_connection(c, "refused", f->reason);
    } else {
        netbox_refuse(c->box, f);
    }
    conn_close(c, true);
}

void conn_reset(struct conn *c)
{
    if (c->state == CONN_OPEN && !c->is_closed)
        audit_connection(c, "allowed", "reset");
    conn_close(c, true);
}

void conn_finish(struct conn *c, int errnum)
{
    if (c->is_closed)
        return;
    audit_connection(c, "allowed",
                     errnum == 0            ? NULL
                     : errnum == ECONNRESET ? "reset"
                     : errnum == ETIMEDOUT  ? "idle"
                                            : strerrorname_np(errnum));
    conn_close(c, errnum != 0);
}

// The host cannot be reached.
static void conn_fail(struct conn *c, int errnum, const char *why)
{
    char text[NET_ADDRESS_TEXT], sentence[REPORT_SENTENCE_MAX];
    const char *name = target_name(c, text);
    snprintf(sentence, sizeof sentence, "connection to '%s' port %u failed: %s", name, c->port,
             why);
    tell_asker(c, errnum, sentence);
    audit_connection(c, "failed", strerrorname_np(errnum));
    conn_close(c, true);
}

// ---- towards the far side -----------------------------------------------------------------------

static void judge(const struct conn *c, const struct net_address *address, struct net_decision *v)
{
    if (c->is_proxied)
        address = NULL; // it is the proxy's, which the operator named
    netbox_judge(c->box, c->host, c->host ? address : &c->wanted, c->port, v);
}

static void refuse_verdict(struct conn *c, const struct net_address *address,
                           const struct net_decision *v)
{
    struct refusal f;
    explain_verdict(c->box, "connect", c->host, c->host ? address : &c->wanted, c->port, v, &f);
    conn_refuse(c, &f);
}

// SECURITY: an address of this machine may be public, but services that listen there, such as this
// server, are not meant for boxes.  The kernel tells: the source address of such a connection is
// the destination.
static bool is_own(const struct net_address *a, uint16_t port)
{
    struct sockaddr_storage sa, me;
    socklen_t length = net_address_to_sockaddr(a, port, &sa), me_length = sizeof me;
    struct net_address mine;
    uint16_t ignored;
    _cleanup_close_ int fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&sa, length) == 0 &&
           getsockname(fd, (struct sockaddr *)&me, &me_length) == 0 &&
           net_address_from_sockaddr((struct sockaddr *)&me, &mine, &ignored) == 0 &&
           memcmp(&mine, a, sizeof mine) == 0;
}

// Only a rule of the operator for exactly this address opens it (0.0.0.0/0 means the world), or, in
// a box that installs, the operator's package index on its own port.
static bool is_own_and_shut(const struct conn *c, const struct net_address *a)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    if (netbox_rule_sets(c->box, rules) == 0)
        return true;
    return !net_names_address(rules[0], c->host, a, c->port) && is_own(a, c->port);
}

static void refuse_own(struct conn *c, const struct net_address *a)
{
    struct refusal f;
    explain_other("connect", "own_address", c->host, a, c->port,
                  "it leads to an address of the host that this server runs on",
                  "only a rule of the operator for exactly this address opens it", &f);
    conn_refuse(c, &f);
}

// SECURITY: only for boxes that install, and only for the host and port that the operator gave a
// login for.
static const struct net_login *login_of(const struct conn *c)
{
    const struct net_logins *l = &c->box->broker->logins;
    char text[NET_ADDRESS_TEXT];
    const char *name = l->count ? target_name(c, text) : "";
    for (size_t i = 0; i < l->count && strcmp(c->box->key, NET_INSTALLER) == 0; i++)
        if (l->items[i].port == c->port && strcmp(l->items[i].host, name) == 0)
            return &l->items[i];
    return NULL;
}

static void on_dialled(int fd, int errnum, const struct net_address *a, void *argument);

static void on_login(int fd, int errnum, const char *why, void *argument)
{
    struct conn *c = argument;
    if (fd < 0) {
        c->login = NULL;
        conn_fail(c, errnum, why);
    } else {
        on_dialled(fd, 0, &c->address, c);
    }
}

static void on_dialled(int fd, int errnum, const struct net_address *a, void *argument)
{
    struct conn *c = argument;
    struct broker *b = c->box->broker;
    struct net_decision v;
    c->dial = NULL;
    if (fd < 0) {
        conn_fail(c, errnum, strerror(errnum));
        return;
    }
    const struct net_login *who = c->login ? NULL : login_of(c);
    if (who) { // started again for TLS
        c->address = *a;
        if (!(c->login = login_new(b->base, fd, b->tls, who, on_login, c)))
            conn_fail(c, ENOMEM, strerror(ENOMEM));
        return;
    }
    c->ends[SIDE_FAR].fd = fd;
    set_reset(fd, true);
    c->address = *a;
    c->state = CONN_DIALLED;
    c->active_ms = clock_ms();
    judge(c, a, &v); // rules may have changed meanwhile
    if (v.reason != NET_ALLOWED) {
        refuse_verdict(c, a, &v);
        return;
    }
    tell_asker(c, 0, "");
    if (c->ends[SIDE_BOX].fd >= 0)
        relay_open(c);
}

static void dial(struct conn *c, const struct net_address *addresses, size_t count)
{
    struct net_address fine[DIAL_MAX];
    struct net_decision v = {0};
    size_t n = 0, refused = count, own = count;
    for (size_t i = 0; i < count && n < DIAL_MAX; i++) {
        struct net_decision this;
        judge(c, &addresses[i], &this);
        if (this.reason != NET_ALLOWED) {
            v = this;
            refused = i;
        } else if (is_own_and_shut(c, &addresses[i])) {
            own = i;
        } else {
            fine[n++] = addresses[i];
            memcpy(c->rule, this.rule, sizeof c->rule);
        }
    }
    if (!n && refused < count) {
        refuse_verdict(c, &addresses[refused], &v);
        return;
    }
    if (!n && own < count) {
        refuse_own(c, &addresses[own]);
        return;
    }
    c->state = CONN_DIALLING;
    c->dial = dial_new(c->box->broker->base, fine, n, c->port, on_dialled, c);
    if (!c->dial)
        conn_fail(c, ENOMEM, strerror(ENOMEM));
}

static void on_resolved(const struct resolve_answer *a, void *argument)
{
    static const struct {
        int errnum;
        const char *why;
    } failures[] = {
        [RESOLVE_NO_NAME] = {EHOSTUNREACH, "the name has no address"},
        [RESOLVE_TIMEOUT] = {ETIMEDOUT, "the resolver does not answer"},
        [RESOLVE_FAILED] = {EHOSTUNREACH, "the resolver could not look it up"},
    };
    struct conn *c = argument;
    c->lookup = NULL;
    if (a->status == RESOLVE_OK)
        dial(c, a->addresses, a->count);
    else
        conn_fail(c, failures[a->status].errnum, failures[a->status].why);
}

// ---- through a proxy ----------------------------------------------------------------------------

static void on_tunnel(int fd, int errnum, const char *why, void *argument)
{
    struct conn *c = argument;
    c->tunnel = NULL;
    if (fd < 0)
        conn_fail(c, errnum, why);
    else
        on_dialled(fd, 0, &c->address, c);
}

static void on_proxy(int fd, int errnum, const struct net_address *a, void *argument)
{
    struct conn *c = argument;
    struct broker *b = c->box->broker;
    c->dial = NULL;
    if (fd < 0) {
        conn_fail(c, errnum, "the proxy of --index-proxy cannot be reached");
        return;
    }
    c->address = *a;
    c->tunnel = tunnel_new(b->base, fd, &b->proxy, c->host, c->port, on_tunnel, c);
    if (!c->tunnel)
        conn_fail(c, ENOMEM, strerror(ENOMEM));
}

static void dial_proxy(struct conn *c, const struct net_address *addresses, size_t count)
{
    struct broker *b = c->box->broker;
    c->state = CONN_DIALLING;
    c->dial = dial_new(b->base, addresses, count, b->proxy.port, on_proxy, c);
    if (!c->dial)
        conn_fail(c, ENOMEM, strerror(ENOMEM));
}

static void on_proxy_resolved(const struct resolve_answer *a, void *argument)
{
    struct conn *c = argument;
    c->lookup = NULL;
    if (a->status == RESOLVE_OK)
        dial_proxy(c, a->addresses, a->count);
    else
        conn_fail(c, EHOSTUNREACH, "the proxy of --index-proxy has no address");
}

// SECURITY: names only; for an address a proxy would lead into its own network.
static void set_out_by_proxy(struct conn *c)
{
    struct broker *b = c->box->broker;
    struct net_address address;
    c->is_proxied = true;
    if (net_address_parse(b->proxy.host, &address) == 0)
        dial_proxy(c, &address, 1);
    else
        c->lookup = resolver_ask(b->resolver, b->proxy.host, on_proxy_resolved, c);
}

// Judges, counts and dials.  `c` may be closed when this returns.
static void set_out(struct conn *c)
{
    struct netbox *b = c->box;
    struct net_decision v;
    struct refusal f;
    bool named = netbox_is_name_address(&c->wanted);
    c->host = netbox_name_at(b, &c->wanted);
    if (named && !c->host) {
        explain_other("connect", "unknown_address", NULL, &c->wanted, c->port,
                      "the address stands for no name that this box has looked up",
                      "look the name up again: the broker has restarted since", &f);
        conn_refuse(c, &f);
        return;
    }
    judge(c, NULL, &v);
    if (v.reason != NET_ALLOWED) {
        refuse_verdict(c, NULL, &v);
        return;
    }
    memcpy(c->rule, v.rule, sizeof c->rule);
    bool room = b->broker->fds_used + FDS_EACH + FDS_SPARE <= b->broker->fds_max;
    const char *over = !room ? "descriptors" : NULL;
    if (!over && c->host && !netbox_may_look_up(b, c->host))
        over = "lookups";
    if (!over)
        over = quota_take_socket(&b->quota);
    if (over) {
        explain_quota(c->host, c->host ? NULL : &c->wanted, c->port, over, &f);
        conn_refuse(c, &f);
        return;
    }
    char text[NET_ADDRESS_TEXT];
    c->is_counted = true;
    b->broker->fds_used += FDS_EACH;
    report_traffic(&b->report, target_name(c, text), c->port, 1, 0, 0);
    if (c->host && netbox_is_proxied(b))
        set_out_by_proxy(c);
    else if (c->host)
        c->lookup = resolver_ask(b->broker->resolver, c->host, on_resolved, c);
    else
        dial(c, &c->wanted, 1);
}

static struct conn *conn_new(struct netbox *b, const struct net_address *wanted, uint16_t port)
{
    struct conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->box = b;
    c->wanted = *wanted;
    c->port = port;
    c->ends[SIDE_BOX].fd = c->ends[SIDE_FAR].fd = -1;
    c->began_ms = c->active_ms = clock_ms();
    TAILQ_INSERT_TAIL(&b->conns, c, link);
    return c;
}

// ---- from the box -------------------------------------------------------------------------------

static struct conn *find_announced(struct netbox *b, const struct net_address *wanted,
                                   uint16_t port)
{
    struct conn *c, *best = NULL;
    if (!b->kept)
        return NULL;
    TAILQ_FOREACH (c, &b->conns, link) {
        if (!c->is_announced || c->port != port || memcmp(&c->wanted, wanted, sizeof *wanted) != 0)
            continue;
        if (c->state == CONN_DIALLED)
            return c;
        best = best ? best : c;
    }
    return best;
}

static void take_in(struct netbox *b, int fd)
{
    struct sockaddr_storage sa;
    socklen_t length = sizeof sa;
    struct net_address wanted;
    uint16_t port;
    int on = 1;
    if (getsockname(fd, (struct sockaddr *)&sa, &length) < 0 ||
        net_address_from_sockaddr((struct sockaddr *)&sa, &wanted, &port) < 0) {
        reset_fd(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    set_reset(fd, true);
    struct conn *c = find_announced(b, &wanted, port);
    if (c) {
        c->is_announced = false;
        b->kept--;
        c->ends[SIDE_BOX].fd = fd;
        if (c->state == CONN_DIALLED)
            relay_open(c);
        return;
    }
    // A connection that the box asked for was counted then.
    const char *over = quota_take_turn(&b->quota);
    c = over ? NULL : conn_new(b, &wanted, port);
    if (over) {
        struct refusal f;
        const char *host = netbox_name_at(b, &wanted);
        explain_quota(host, host ? NULL : &wanted, port, over, &f);
        netbox_refuse(b, &f);
    }
    if (!c) {
        reset_fd(fd);
        return;
    }
    c->ends[SIDE_BOX].fd = fd;
    set_out(c);
}

void conn_accept(struct netbox *b, int listener, int most)
{
    for (int i = 0; i < most && !b->is_gone; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            broker_pause(b->broker);
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
            continue;
        if (fd < 0)
            return;
        take_in(b, fd);
    }
}

void conn_ask(struct netbox *b, const struct net_address *a, uint16_t port,
              const struct sockaddr_storage *from, socklen_t from_length, bool wait)
{
    struct refusal f;
    const char *over = quota_take_turn(&b->quota);
    struct conn *c = over ? NULL : conn_new(b, a, port);
    if (!c) {
        const char *host = netbox_name_at(b, a);
        explain_quota(host, host ? NULL : a, port, over ? over : "descriptors", &f);
        netbox_refuse(b, &f);
        box_question_refuse(b, from, from_length, EACCES, &f);
        return;
    }
    c->has_asker = true;
    c->asker = *from;
    c->asker_length = from_length;
    c->is_announced = true;
    b->kept++;
    set_out(c);
    if (!wait && !c->is_closed)
        tell_asker(c, 0, "");
}

// ---- later --------------------------------------------------------------------------------------

void conn_rejudge(struct conn *c)
{
    struct net_decision v;
    bool dialled = c->state == CONN_OPEN || c->state == CONN_DIALLED;
    const struct net_address *address = dialled ? &c->address : NULL;
    judge(c, address, &v);
    if (v.reason != NET_ALLOWED)
        refuse_verdict(c, address, &v);
    else if (c->state == CONN_OPEN)
        inspect_rules_changed(c);
}

void conn_tick(struct conn *c, int64_t now_ms)
{
    if (c->is_announced && c->state == CONN_DIALLED && now_ms - c->active_ms > CONN_KEPT_MS)
        conn_close(c, true);
    else if (c->inspect.waiting_ms && now_ms - c->inspect.waiting_ms > CONN_FIRST_MS)
        inspect_late(c);
    else if (c->state == CONN_OPEN && now_ms - c->active_ms > CONN_IDLE_MS)
        conn_finish(c, ETIMEDOUT);
}

void conn_catch_up(struct conn *c)
{
    if (c->state != CONN_OPEN || c->is_closed)
        return;
    for (enum side s = SIDE_BOX; s < SIDES; s++)
        c->ends[s].readable = c->ends[s].writable = true;
    relay_pump(c);
    if (!c->is_closed)
        conn_report(c);
}
