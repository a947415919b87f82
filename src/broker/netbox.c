// SPDX-License-Identifier: Apache-2.0
//
// netbox: see netbox.h.

#include "broker/netbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "box/net.h"
#include "broker/audit.h"
#include "broker/conn.h"
#include "net/rule.h"

enum {
    NAMES_BASE = 0xc6120000, // 198.18.0.0/15, reserved for benchmarks (RFC 2544)
    NAMES_MASK = 0x1ffff,
    BACKLOG = 128,
    ACCEPTS = 16,      // in one turn
    ADDRESS_PORTS = 6, // for rules about addresses; the others are for names
    GRANT_MS = 2000,   // how much later than its box a grant may come
};

static void listen_for_addresses(struct netbox *b);
static void hear(struct netbox *b);

// ---- rules --------------------------------------------------------------------------------------

size_t netbox_rule_sets(const struct netbox *b, const struct net_rules *ret[NET_RULE_SETS_MAX])
{
    size_t n = 0;
    if (!b->is_granted)
        return 0;
    ret[n++] = &b->quota.grant->rules;
    for (size_t i = 0; i < b->set_count; i++)
        ret[n++] = &b->sets[i];
    return n;
}

void netbox_judge(const struct netbox *b, const char *host, const struct net_address *address,
                  uint16_t port, struct net_decision *ret)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    net_judge(rules, netbox_rule_sets(b, rules), host, address, port, ret);
}

// With the ports that rules name for the host, or for addresses when the host may use every port.
bool netbox_may_use(const struct netbox *b, const char *host, const struct net_address *address,
                    struct net_decision *ret)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    size_t set_count = netbox_rule_sets(b, rules);
    uint16_t ports[BROKER_TCP_FDS + 2] = {443, 80};
    bool any;
    net_judge(rules, set_count, host, address, ports[0], ret);
    if (ret->reason == NET_ALLOWED)
        return true;
    size_t n = net_ports(rules, set_count, host, ports, BROKER_TCP_FDS, &any);
    if (any) {
        n = net_ports(rules, set_count, NULL, ports, BROKER_TCP_FDS, &any);
        ports[n++] = 443;
        ports[n++] = 80;
    }
    for (size_t i = 0; i < n; i++) {
        net_judge(rules, set_count, host, address, ports[i], ret);
        if (ret->reason == NET_ALLOWED)
            return true;
    }
    return false;
}

static void rejudge(struct netbox *b)
{
    struct conn *c, *next;
    b->epoch++;
    for (c = TAILQ_FIRST(&b->conns); c; c = next) {
        next = TAILQ_NEXT(c, link);
        conn_rejudge(c);
    }
}

void netbox_revoke(struct netbox *b)
{
    struct conn *c;
    while ((c = TAILQ_FIRST(&b->conns)))
        conn_reset(c);
    b->is_granted = false;
    b->quota.grant = NULL; // it belongs to a policy that may be freed
}

void netbox_rules_changed(struct netbox *b)
{
    if (!b->is_granted)
        return;
    b->quota.grant = net_policy_of(b->broker->policy, b->key);
    rejudge(b);
}

static void drop_sets(struct netbox *b)
{
    for (size_t i = 0; i < b->set_count; i++)
        net_rules_done(&b->sets[i]);
    b->set_count = 0;
}

bool netbox_is_proxied(const struct netbox *b)
{
    return b->broker->proxy.host[0] && strcmp(b->key, NET_INSTALLER) == 0;
}

int netbox_grant(struct netbox *b, const char *key, const char *run, struct net_rules *given,
                 size_t count)
{
    if (!b->is_granted || strcmp(b->key, key) != 0) {
        // A box never changes its key; if it did, no connection of the old key would stay open.
        struct conn *c;
        while ((c = TAILQ_FIRST(&b->conns)))
            conn_reset(c);
        struct quota_key *use = quota_key_take(&b->broker->keys, &b->broker->key_count, key);
        if (!use)
            return -ENOMEM;
        quota_key_give(b->quota.key);
        b->quota.key = use;
    }
    drop_sets(b);
    memcpy(b->sets, given, count * sizeof *given);
    b->set_count = count;
    snprintf(b->key, sizeof b->key, "%s", key);
    snprintf(b->run, sizeof b->run, "%s", run);
    b->is_granted = true;
    b->quota.grant = net_policy_of(b->broker->policy, key);
    rejudge(b);
    listen_for_addresses(b);
    hear(b);
    return 0;
}

void netbox_refuse(struct netbox *b, const struct refusal *f)
{
    report_refusal(&b->report, f);
    if (!f->again)
        audit_refusal(b, f);
}

// ---- names --------------------------------------------------------------------------------------

static uint32_t hash_of(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static struct netbox_name *name_find(const struct netbox *b, const char *name)
{
    uint32_t hash = hash_of(name);
    for (size_t i = 0; i < b->name_count; i++)
        if (b->names[i].hash == hash && strcmp(b->names[i].text, name) == 0)
            return &b->names[i];
    return NULL;
}

static struct netbox_name *name_add(struct netbox *b, const char *name)
{
    if (b->name_count == NETBOX_NAMES_MAX)
        return NULL;
    if (b->name_count == b->name_cap) {
        size_t cap = b->name_cap ? 2 * b->name_cap : 16;
        struct netbox_name *names = realloc(b->names, cap * sizeof *names);
        if (!names)
            return NULL;
        b->names = names;
        b->name_cap = cap;
    }
    char *text = strdup(name);
    if (!text)
        return NULL;
    b->names[b->name_count] =
        (struct netbox_name){.hash = hash_of(name), .epoch = b->epoch - 1, .text = text};
    return &b->names[b->name_count++];
}

int netbox_name_address(struct netbox *b, const char *name, uint8_t ret[4])
{
    struct netbox_name *n = name_find(b, name);
    if (!n)
        n = name_add(b, name);
    if (!n)
        return -1;
    uint32_t offset = (b->name_first + (uint32_t)(n - b->names)) & NAMES_MASK;
    uint32_t address = htonl(NAMES_BASE | offset);
    memcpy(ret, &address, sizeof address);
    return 0;
}

static uint32_t v4_of(const struct net_address *a)
{
    uint32_t v4 = 0;
    if (net_address_is_v4(a))
        memcpy(&v4, a->bytes + 12, sizeof v4);
    return ntohl(v4);
}

bool netbox_is_name_address(const struct net_address *a)
{
    return (v4_of(a) & ~(uint32_t)NAMES_MASK) == NAMES_BASE;
}

const char *netbox_name_at(const struct netbox *b, const struct net_address *a)
{
    uint32_t offset = ((v4_of(a) & NAMES_MASK) - b->name_first) & NAMES_MASK;
    return netbox_is_name_address(a) && offset < b->name_count ? b->names[offset].text : NULL;
}

bool netbox_may_look_up(const struct netbox *b, const char *name)
{
    struct resolver *r = b->broker->resolver;
    const struct conn *c;
    size_t n = b->lookups;
    if (resolver_known(r, name) || !resolver_is_busy(r))
        return n < NETBOX_LOOKUPS_MAX;
    TAILQ_FOREACH (c, &b->conns, link) {
        n += c->lookup != NULL;
    }
    return n < NETBOX_LOOKUPS_FAIR;
}

// ---- ports --------------------------------------------------------------------------------------

static void on_accept(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    struct netbox_port *p = argument;
    broker_drain(p->box->broker);
    if (!p->box->is_gone)
        conn_accept(p->box, p->fd, ACCEPTS);
}

static int watch_port(struct netbox *b, struct netbox_port *p, uint16_t port)
{
    p->event = event_new(b->broker->base, p->fd, EV_READ | EV_PERSIST, on_accept, p);
    if (!p->event || (b->is_heard && event_add(p->event, NULL) < 0))
        return -ENOMEM;
    p->port = port;
    return 0;
}

static int bind_port(int fd, uint16_t port)
{
    int family = AF_INET6;
    socklen_t length = sizeof family;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) < 0)
        return -errno;
    bool old = family == AF_INET; // a kernel without IPv6
    if (bind(fd, old ? (struct sockaddr *)&four : (struct sockaddr *)&six,
             old ? sizeof four : sizeof six) < 0)
        return -errno;
    return listen(fd, BACKLOG) < 0 ? -errno : 0;
}

int netbox_listen(struct netbox *b, uint16_t port)
{
    struct netbox_port *unused = NULL;
    for (size_t i = 0; i < BROKER_TCP_FDS; i++) {
        if (b->ports[i].port == port)
            return 0;
        if (!b->ports[i].port && !unused && b->ports[i].fd >= 0)
            unused = &b->ports[i];
    }
    if (!unused)
        return -EMFILE;
    int r = bind_port(unused->fd, port);
    return r < 0 ? r : watch_port(b, unused, port);
}

void netbox_listen_for(struct netbox *b, const char *name)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    struct netbox_name *n = name_find(b, name);
    uint16_t ports[BROKER_TCP_FDS + 2] = {443, 80};
    bool any;
    if (!n || n->epoch == b->epoch)
        return;
    n->epoch = b->epoch;
    size_t count =
        net_ports(rules, netbox_rule_sets(b, rules), name, ports + 2, BROKER_TCP_FDS, &any);
    for (size_t i = any ? 0 : 2; i < count + 2; i++) { // for "every port" the usual ones first
        int r = netbox_listen(b, ports[i]);
        if (r < 0)
            log_line(LOG_DEBUG, "box %llu: port %u: %s", (unsigned long long)b->id, ports[i],
                     strerror(-r));
    }
}

// C libraries connect without asking; for names the look-up opens the ports.
static void listen_for_addresses(struct netbox *b)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    size_t set_count = netbox_rule_sets(b, rules), i = 0;
    uint16_t ports[ADDRESS_PORTS];
    bool any;
    while (i < rules[0]->allow_count && net_rule_is_name(&rules[0]->allow[i]))
        i++;
    if (i == rules[0]->allow_count)
        return;
    size_t count = net_ports(rules, set_count, NULL, ports, ADDRESS_PORTS, &any);
    for (i = 0; i < count; i++)
        (void)netbox_listen(b, ports[i]);
}

void netbox_pause(struct netbox *b)
{
    for (size_t i = 0; i < BROKER_TCP_FDS; i++)
        if (b->ports[i].event)
            (void)event_del(b->ports[i].event);
}

void netbox_resume(struct netbox *b)
{
    for (size_t i = 0; i < BROKER_TCP_FDS; i++)
        if (b->ports[i].event && b->is_heard)
            (void)event_add(b->ports[i].event, NULL);
}

// A broker before this one may have used the socket.
static void adopt_port(struct netbox *b, struct netbox_port *p)
{
    struct sockaddr_storage sa;
    socklen_t length = sizeof sa;
    struct net_address a;
    uint16_t port = 0;
    int listening = 0;
    socklen_t size = sizeof listening;
    if (getsockname(p->fd, (struct sockaddr *)&sa, &length) < 0 ||
        net_address_from_sockaddr((struct sockaddr *)&sa, &a, &port) < 0 || !port)
        return;
    (void)getsockopt(p->fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size);
    if (!listening && listen(p->fd, BACKLOG) < 0)
        return;
    (void)watch_port(b, p, port);
}

bool netbox_is_own_port(const struct sockaddr_storage *from)
{
    struct net_address a;
    uint16_t port = 0;
    (void)net_address_from_sockaddr((const struct sockaddr *)from, &a, &port);
    return port == NET_DNS_PORT || port == NET_ASK_PORT;
}

// ---- life ---------------------------------------------------------------------------------------

static void on_dns(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    struct netbox *b = argument;
    broker_drain(b->broker);
    if (!b->is_gone)
        dns_read(b);
}

static void on_ask(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    struct netbox *b = argument;
    broker_drain(b->broker);
    if (!b->is_gone)
        box_questions_read(b);
}

struct netbox *netbox_find(struct broker *b, uint64_t id)
{
    struct netbox *x;
    LIST_FOREACH (x, &b->boxes[id % NETBOX_TABLE], chain) {
        if (x->id == id)
            return x;
    }
    return NULL;
}

static struct netbox *netbox_new(struct broker *broker, uint64_t id, const int *fds)
{
    struct netbox *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->broker = broker;
    b->id = id;
    b->opened_ms = clock_ms();
    b->dns = fds[0];
    b->ask = fds[1];
    TAILQ_INIT(&b->conns);
    TAILQ_INIT(&b->ready_conns);
    // Each broker process uses other addresses: one that code still has from an earlier broker
    // stands for no host, instead of for a wrong one.
    if (getrandom(&b->name_first, sizeof b->name_first, 0) < 0)
        b->name_first = (uint32_t)(uintptr_t)b;
    b->name_first &= NAMES_MASK;
    for (size_t i = 0; i < BROKER_TCP_FDS; i++)
        b->ports[i] = (struct netbox_port){.box = b, .fd = fds[2 + i]};
    b->dns_event = event_new(broker->base, b->dns, EV_READ | EV_PERSIST, on_dns, b);
    b->ask_event = event_new(broker->base, b->ask, EV_READ | EV_PERSIST, on_ask, b);
    return b;
}

void netbox_open(struct broker *broker, uint64_t id, const int *fds)
{
    struct netbox *b = netbox_find(broker, id) ? NULL : netbox_new(broker, id, fds);
    if (!b) {
        for (size_t i = 0; i < WIRE_NET_FDS; i++)
            (void)close(fds[i]);
        return;
    }
    broker->fds_used += WIRE_NET_FDS;
    LIST_INSERT_HEAD(&broker->boxes[id % NETBOX_TABLE], b, chain);
    for (size_t i = 0; i < WIRE_NET_FDS; i++)
        (void)fd_set_nonblock(fds[i], true);
    for (size_t i = 0; i < BROKER_TCP_FDS; i++)
        adopt_port(b, &b->ports[i]);
}

// Not before its grant: a new broker hears of boxes at once, but of grants only after the gate has
// heard of the broker.  Until then connections wait in the sockets instead of being refused.
static void hear(struct netbox *b)
{
    if (b->is_heard)
        return;
    b->is_heard = true;
    if (!b->dns_event || !b->ask_event || event_add(b->dns_event, NULL) < 0 ||
        event_add(b->ask_event, NULL) < 0) {
        log_line(LOG_ERROR, "box %llu: out of memory, it has no network",
                 (unsigned long long)b->id);
        netbox_close(b);
        return;
    }
    if (!b->broker->is_paused)
        netbox_resume(b);
}

void netbox_tick(struct netbox *b, int64_t now_ms)
{
    if (now_ms - b->opened_ms > GRANT_MS)
        hear(b);
}

static void close_event(struct event **e)
{
    if (*e)
        event_free(*e);
    *e = NULL;
}

void netbox_close(struct netbox *b)
{
    struct broker *broker = b->broker;
    struct conn *c;
    if (b->is_gone)
        return;
    while ((c = TAILQ_FIRST(&b->conns)))
        conn_reset(c);
    b->is_gone = true;
    close_event(&b->dns_event);
    close_event(&b->ask_event);
    fd_close(&b->dns);
    fd_close(&b->ask);
    for (size_t i = 0; i < BROKER_TCP_FDS; i++) {
        close_event(&b->ports[i].event);
        fd_close(&b->ports[i].fd);
    }
    broker->fds_used -= WIRE_NET_FDS;
    LIST_REMOVE(b, chain);
    if (b->is_ready)
        TAILQ_REMOVE(&broker->ready, b, ready);
    b->is_ready = false;
    TAILQ_INSERT_TAIL(&broker->dead_boxes, b, ready);
}

void netbox_free(struct netbox *b)
{
    drop_sets(b);
    for (size_t i = 0; i < b->name_count; i++)
        free(b->names[i].text);
    free(b->names);
    quota_key_give(b->quota.key);
    report_done(&b->report);
    free(b);
}

void netbox_catch_up(struct netbox *b)
{
    dns_read(b);
    box_questions_read(b);
    for (size_t i = 0; i < BROKER_TCP_FDS; i++)
        if (b->ports[i].event)
            conn_accept(b, b->ports[i].fd, ACCEPTS);
    struct conn *c, *next;
    for (c = TAILQ_FIRST(&b->conns); c; c = next) {
        next = TAILQ_NEXT(c, link);
        conn_catch_up(c);
    }
}
