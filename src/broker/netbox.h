// SPDX-License-Identifier: Apache-2.0
//
// netbox: one box with network: its sockets, the names it has looked up, its rules.  The keeper's
// messages make and end it, the gate's grants bound it.

#ifndef CONSTRICTOR_BROKER_NETBOX_H
#define CONSTRICTOR_BROKER_NETBOX_H

#include <jansson.h>

#include "broker/state.h"

// Takes WIRE_NET_FDS descriptors.  A box that is already known keeps its sockets, and these are
// closed.
void netbox_open(struct broker *b, uint64_t id, const int *fds);
void netbox_close(struct netbox *b); // unlinks, ends all connections; freed later
void netbox_free(struct netbox *b);
struct netbox *netbox_find(struct broker *b, uint64_t id);

// Does it connect through the proxy of --index-proxy?
bool netbox_is_proxied(const struct netbox *b);

// A grant of the gate: ends connections that it does not allow.  Takes the rules on success.
int netbox_grant(struct netbox *b, const char *key, const char *run, struct net_rules *given,
                 size_t count);
// Takes the grant away.
void netbox_revoke(struct netbox *b);
// Judges everything again after the operator's rules have changed.
void netbox_rules_changed(struct netbox *b);

// The rules in force, the operator's first; none before the first grant.
size_t netbox_rule_sets(const struct netbox *b, const struct net_rules *ret[NET_RULE_SETS_MAX]);
void netbox_judge(const struct netbox *b, const char *host, const struct net_address *address,
                  uint16_t port, struct net_decision *ret);

// The address of 198.18.0.0/15 that stands for a name, for the life of the box.  -1: there are too
// many.
int netbox_name_address(struct netbox *b, const char *name, uint8_t ret[4]);
bool netbox_is_name_address(const struct net_address *a);
const char *netbox_name_at(const struct netbox *b,
                           const struct net_address *a); // NULL: stands for none

// Connections to this port come to the broker from now on.  0 or a negative errno; -EMFILE: no
// socket is left.
int netbox_listen(struct netbox *b, uint16_t port);
// The same for the ports that the rules name for a host, or the usual ones.
void netbox_listen_for(struct netbox *b, const char *name);
// Do the rules allow this address of the name on at least one port?
bool netbox_may_use(const struct netbox *b, const char *host, const struct net_address *address,
                    struct net_decision *ret);
void netbox_pause(struct netbox *b); // accepts no connections
void netbox_resume(struct netbox *b);

// May this name be looked up outside?  SECURITY: name servers that never answer, below a wildcard,
// must not take the resolver away from other boxes.
bool netbox_may_look_up(const struct netbox *b, const char *name);

// Adds a refusal to the report and the audit.
void netbox_refuse(struct netbox *b, const struct refusal *f);

// Handles all pending events of the box, without waiting.
void netbox_catch_up(struct netbox *b);

// Starts to listen to a box at its first grant, or when the grant is late.
void netbox_tick(struct netbox *b, int64_t now_ms);

// SECURITY: code can forge the source of a datagram (IP_PKTINFO).  With a port of ours as source
// the broker would answer itself for ever.
bool netbox_is_own_port(const struct sockaddr_storage *from);

// dns.c and box_question.c: a datagram may have arrived.
void dns_read(struct netbox *b);
void box_questions_read(struct netbox *b);

#endif
