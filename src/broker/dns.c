// SPDX-License-Identifier: Apache-2.0
//
// dns: the resolver of a box.  Called by netbox.c when a datagram came to its port 53.
//
// SECURITY: a name that is not allowed is answered here and never sent outside: a look-up is a
// message to the name's server (DNS tunnel).  Of allowed names only addresses are looked up.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/explain.h"
#include "broker/netbox.h"
#include "broker/query.h"

enum {
    DATAGRAMS = 32, // in one turn
    TTL_S = 30,     // each connection looks the name up again anyway
};

// A question of the box that waits for its answer.
struct lookup {
    struct broker *broker;
    uint64_t box; // by number: the box may be gone when the answer comes
    struct sockaddr_storage from;
    socklen_t from_length;
    struct query query;
    char name[NET_HOST_MAX + 1];
};

static void answer(const struct netbox *b, const struct lookup *l, enum query_code code,
                   const uint8_t *address)
{
    uint8_t message[QUERY_ANSWER_MAX];
    size_t n = query_answer(&l->query, code, address, TTL_S, message);
    // A box that does not read its answers has none.
    (void)sendto(b->dns, message, n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&l->from,
                 l->from_length);
}

static void refuse(struct netbox *b, const struct lookup *l, struct refusal *f,
                   enum query_code code)
{
    f->again = l->query.type != QUERY_A; // a library asks for both families
    netbox_refuse(b, f);
    answer(b, l, code, NULL);
}

// The name has addresses: may any of them be used?
static void on_addresses(struct netbox *b, const struct lookup *l, const struct resolve_answer *a)
{
    struct net_decision v = {0};
    struct refusal f;
    uint8_t address[4];
    bool fine = false;
    size_t last = 0;
    for (size_t i = 0; i < a->count && !fine; i++) {
        fine = netbox_may_use(b, l->name, &a->addresses[i], &v);
        last = i;
    }
    if (!fine) {
        explain_verdict(b, "resolve", l->name, &a->addresses[last], 0, &v, &f);
        refuse(b, l, &f, QUERY_NO_NAME);
    } else if (netbox_name_address(b, l->name, address) < 0) {
        explain_quota(l->name, NULL, 0, "names", &f);
        refuse(b, l, &f, QUERY_REFUSED);
    } else {
        netbox_listen_for(b, l->name);
        answer(b, l, QUERY_OK, address);
    }
}

static void on_resolved(const struct resolve_answer *a, void *argument)
{
    struct lookup *l = argument;
    struct netbox *b = netbox_find(l->broker, l->box);
    if (b) {
        struct net_decision v;
        b->lookups--;
        netbox_judge(b, l->name, NULL, 0, &v); // the rules may have changed meanwhile
        if (v.reason != NET_ALLOWED)
            answer(b, l, QUERY_NO_NAME, NULL);
        else if (a->status == RESOLVE_OK)
            on_addresses(b, l, a);
        else
            answer(b, l, a->status == RESOLVE_NO_NAME ? QUERY_NO_NAME : QUERY_FAILED, NULL);
    }
    free(l);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

// Names that libraries look up by themselves and that no rule can name.
static bool answer_special(const struct netbox *b, const struct lookup *l)
{
    static const uint8_t loopback[4] = {127, 0, 0, 1};
    if (strcmp(l->name, "localhost") == 0 || ends_with(l->name, ".localhost")) {
        answer(b, l, QUERY_OK, l->query.type == QUERY_A ? loopback : NULL);
        return true;
    }
    if (ends_with(l->name, ".in-addr.arpa") || ends_with(l->name, ".ip6.arpa")) {
        answer(b, l, QUERY_NO_NAME, NULL); // addresses here have no names
        return true;
    }
    return false;
}

static void look_up(struct netbox *b, const struct lookup *l)
{
    struct net_decision v;
    struct refusal f;
    netbox_judge(b, l->name, NULL, 0, &v);
    if (v.reason != NET_ALLOWED) {
        if (answer_special(b, l))
            return;
        explain_verdict(b, "resolve", l->name, NULL, 0, &v, &f);
        refuse(b, l, &f, QUERY_NO_NAME);
        return;
    }
    if (l->query.type != QUERY_A) {
        answer(b, l, QUERY_OK, NULL); // boxes get IPv4 addresses only, and no other records
        return;
    }
    if (netbox_is_proxied(b)) { // the proxy looks it up
        uint8_t address[4];
        if (netbox_name_address(b, l->name, address) < 0) {
            explain_quota(l->name, NULL, 0, "names", &f);
            refuse(b, l, &f, QUERY_REFUSED);
        } else {
            netbox_listen_for(b, l->name);
            answer(b, l, QUERY_OK, address);
        }
        return;
    }
    struct lookup *copy = netbox_may_look_up(b, l->name) ? malloc(sizeof *copy) : NULL;
    if (!copy) {
        explain_quota(l->name, NULL, 0, "lookups", &f);
        refuse(b, l, &f, QUERY_REFUSED);
        return;
    }
    *copy = *l;
    b->lookups++;
    (void)resolver_ask(b->broker->resolver, copy->name, on_resolved, copy);
}

static void on_query(struct netbox *b, struct lookup *l, const uint8_t *data, size_t length)
{
    struct refusal f;
    int code = query_read(data, length, &l->query);
    if (code < 0)
        return;
    if (code > 0) {
        answer(b, l, (enum query_code)code, NULL);
        return;
    }
    // Only a look-up that may be sent outside counts for the rate.
    const char *over = l->query.type == QUERY_A ? quota_take_turn(&b->quota) : NULL;
    if (over) {
        explain_quota(NULL, NULL, 0, over, &f); // one event for all names: they may be millions
        b->hurried_ms = clock_ms();
        snprintf(f.sentence, sizeof f.sentence,
                 "look-up refused: too many new connections and "
                 "look-ups in a second [%s]",
                 over);
        refuse(b, l, &f, QUERY_REFUSED);
        return;
    }
    struct err e;
    if (net_host_normalise(l->query.name, strlen(l->query.name), l->name, &e) < 0) {
        // Names that are not host names are never looked up: _service, \000, numbers.
        explain_other("resolve", "not_a_host", NULL, NULL, 0, e.message, NULL, &f);
        refuse(b, l, &f, QUERY_NO_NAME);
        return;
    }
    look_up(b, l);
}

void dns_read(struct netbox *b)
{
    uint8_t data[QUERY_MAX];
    for (int i = 0; i < DATAGRAMS && !b->is_gone; i++) {
        struct lookup l = {.broker = b->broker, .box = b->id, .from_length = sizeof l.from};
        ssize_t n = recvfrom(b->dns, data, sizeof data, MSG_DONTWAIT | MSG_TRUNC,
                             (struct sockaddr *)&l.from, &l.from_length);
        if (n < 0)
            return;
        if ((size_t)n <= sizeof data && !netbox_is_own_port(&l.from))
            on_query(b, &l, data, (size_t)n);
    }
}
