// SPDX-License-Identifier: Apache-2.0
//
// quota: how much of the network a box, and all boxes of a key, have used and may use.  Called by
// conn.c, relay.c, inspect.c and dns.c.  A box counts for its whole life, a key for an hour at a
// time.

#ifndef CONSTRICTOR_BROKER_QUOTA_H
#define CONSTRICTOR_BROKER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "net/policy.h"

enum { QUOTA_KEY_TEXT = 128, QUOTA_KEYS_MAX = 4096 };

struct quota_use {
    uint64_t connections, sockets, requests, bytes_up, bytes_down;
    double tokens; // of the rate; those of a new one are full
    int64_t filled_us;
};

struct quota_key {
    TAILQ_ENTRY(quota_key) link; // the one that was used last is at the end
    unsigned boxes;
    int64_t hour_ms; // when the hour began
    struct quota_use use;
    char name[QUOTA_KEY_TEXT];
};

TAILQ_HEAD(quota_keys, quota_key);

struct quota {                     // of one box
    const struct net_grant *grant; // the limits; NULL: nothing is granted
    struct quota_use use;
    struct quota_key *key;
};

// Finds the key's counters or begins them.  NULL: out of memory.  The box borrows them until it
// gives them back.
struct quota_key *quota_key_take(struct quota_keys *keys, unsigned *count, const char *name);
void quota_key_give(struct quota_key *k); // fine with NULL
void quota_keys_free(struct quota_keys *keys);

// Each takes from a quota and returns NULL; or takes nothing and returns the quota that is used up:
// "rate",
// "connections", "key_connections", ...
const char *quota_take_turn(struct quota *q); // one connection or look-up
const char *quota_take_socket(struct quota *q);
void quota_give_socket(struct quota *q);
const char *quota_take_request(struct quota *q);
const char *quota_take_bytes(struct quota *q, uint64_t up, uint64_t down);

#endif
