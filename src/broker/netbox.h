// SPDX-License-Identifier: Apache-2.0
//
// netbox: one box with network: its sockets, the names that it was told, the rules that bound it.
// Made and ended by what the keeper says, bounded by what the gate says.

#ifndef CONSTRICTOR_BROKER_NETBOX_H
#define CONSTRICTOR_BROKER_NETBOX_H

#include <jansson.h>

#include "broker/state.h"

// Takes WIRE_NET_FDS descriptors.  A box that is known already keeps its sockets and these are
// closed.
void netbox_open(struct broker *b, uint64_t id, const int *fds);
void netbox_close(struct netbox *b); // unlinks, ends all connections; freed later
void netbox_free(struct netbox *b);
struct netbox *netbox_find(struct broker *b, uint64_t id);

// A grant of the gate; what is open and no longer allowed is ended.  Takes the rules on success.
// Does it reach what it may through the proxy of --index-proxy?
bool netbox_is_proxied(const struct netbox *b);

int netbox_grant(struct netbox *b, const char *key, const char *run, struct net_rules *given,
                 size_t count);
// Nothing is granted any more.
void netbox_revoke(struct netbox *b);
// The operator's rules have changed.
void netbox_rules_changed(struct netbox *b);

// The rules in force, the operator's first; none before the first grant.
size_t netbox_rule_sets(const struct netbox *b, const struct net_rules *ret[NET_RULE_SETS_MAX]);
void netbox_judge(const struct netbox *b, const char *host, const struct net_address *address,
                  uint16_t port, struct net_verdict *ret);

// The address of 198.18.0.0/15 that stands for a name, for the life of the box.  -1: there are too
// many.
int netbox_name_address(struct netbox *b, const char *name, uint8_t ret[4]);
bool netbox_is_name_address(const struct net_address *a);
const char *netbox_name_at(const struct netbox *b,
                           const struct net_address *a); // NULL: stands for none

// From now on connections to this port come to the broker.  0 or a negative errno; -EMFILE: no
// socket is left.
int netbox_listen(struct netbox *b, uint16_t port);
// To those that the rules name for a host, or the usual ones.
void netbox_listen_for(struct netbox *b, const char *name);
// Which port and address could be used with this name's address?  By the rules, for one at least.
bool netbox_may_use(const struct netbox *b, const char *host, const struct net_address *address,
                    struct net_verdict *ret);
void netbox_pause(struct netbox *b); // accepts nobody
void netbox_resume(struct netbox *b);

// May this name be asked for outside?  SECURITY: name servers that never answer, below a wildcard,
// must not take the resolver away from other boxes.
bool netbox_may_look_up(const struct netbox *b, const char *name);

// Something was refused: goes into the report and the audit.
void netbox_refuse(struct netbox *b, const struct refusal *f);

// Everything that the box has done until now is taken in, as far as that is quick.
void netbox_catch_up(struct netbox *b);

// A box is heard from its first grant on, or when that did not come in time.
void netbox_tick(struct netbox *b, int64_t now_ms);

// SECURITY: code chooses where a datagram seems to come from (IP_PKTINFO).  From a port of ours it
// would make us answer ourselves, without end.
bool netbox_is_own_port(const struct sockaddr_storage *from);

// dns.c and box_question.c: a datagram came, or may have.
void dns_read(struct netbox *b);
void box_questions_read(struct netbox *b);

#endif
