// SPDX-License-Identifier: Apache-2.0
//
// quota: see quota.h.

#include "broker/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { HOUR_MS = 60 * 60 * 1000 };

struct quota_key *quota_key_take(struct quota_keys *keys, unsigned *count, const char *name)
{
    struct quota_key *k;
    TAILQ_FOREACH (k, keys, link) {
        if (strcmp(k->name, name) == 0)
            break;
    }
    if (k) {
        TAILQ_REMOVE(keys, k, link);
    } else {
        // The key unused for longest makes room.
        struct quota_key *old;
        TAILQ_FOREACH (old, keys, link) {
            if (!old->boxes)
                break;
        }
        if (old && *count >= QUOTA_KEYS_MAX) {
            TAILQ_REMOVE(keys, old, link);
            free(old);
            (*count)--;
        }
        k = calloc(1, sizeof *k);
        if (!k)
            return NULL;
        snprintf(k->name, sizeof k->name, "%s", name);
        k->hour_ms = clock_ms();
        (*count)++;
    }
    TAILQ_INSERT_TAIL(keys, k, link);
    k->boxes++;
    return k;
}

void quota_key_give(struct quota_key *k)
{
    if (k)
        k->boxes--;
}

void quota_keys_free(struct quota_keys *keys)
{
    struct quota_key *k;
    while ((k = TAILQ_FIRST(keys))) {
        TAILQ_REMOVE(keys, k, link);
        free(k);
    }
}

// Begins a new hour; open connections stay open.
static void tick(struct quota_key *k)
{
    int64_t now_ms = clock_ms();
    if (now_ms - k->hour_ms < HOUR_MS)
        return;
    struct quota_use *u = &k->use;
    u->connections = u->requests = u->bytes_up = u->bytes_down = 0;
    k->hour_ms = now_ms;
}

// A token bucket of one second's worth.
static bool has_token(struct quota_use *u, uint64_t rate, int64_t now_us)
{
    if (rate == UINT64_MAX)
        return true;
    double full = (double)rate;
    u->tokens += u->filled_us ? (double)(now_us - u->filled_us) * full / 1e6 : full;
    if (u->tokens > full)
        u->tokens = full;
    u->filled_us = now_us;
    return u->tokens >= 1;
}

const char *quota_take_turn(struct quota *q)
{
    int64_t now_us = clock_us();
    if (!q->grant)
        return NULL; // nothing is allowed, which is a better reason
    if (!has_token(&q->use, q->grant->box.rate, now_us))
        return "rate";
    if (q->key && !has_token(&q->key->use, q->grant->key.rate, now_us))
        return "key_rate";
    q->use.tokens -= 1;
    if (q->key)
        q->key->use.tokens -= 1;
    return NULL;
}

const char *quota_take_socket(struct quota *q)
{
    if (!q->grant || !q->key)
        return "connections";
    tick(q->key);
    const struct net_quota *box = &q->grant->box, *key = &q->grant->key;
    if (q->use.connections >= box->connections)
        return "connections";
    if (q->use.sockets >= box->sockets)
        return "sockets";
    if (q->key->use.connections >= key->connections)
        return "key_connections";
    if (q->key->use.sockets >= key->sockets)
        return "key_sockets";
    q->use.connections++;
    q->use.sockets++;
    q->key->use.connections++;
    q->key->use.sockets++;
    return NULL;
}

void quota_give_socket(struct quota *q)
{
    q->use.sockets--;
    if (q->key)
        q->key->use.sockets--;
}

const char *quota_take_request(struct quota *q)
{
    if (!q->grant || !q->key)
        return "requests";
    tick(q->key);
    if (q->use.requests >= q->grant->box.requests)
        return "requests";
    if (q->key->use.requests >= q->grant->key.requests)
        return "key_requests";
    q->use.requests++;
    q->key->use.requests++;
    return NULL;
}

// `limit` of UINT64_MAX is never reached.
static bool is_over(uint64_t used, uint64_t more, uint64_t limit)
{
    return used > limit || more > limit - used;
}

const char *quota_take_bytes(struct quota *q, uint64_t up, uint64_t down)
{
    if (!q->grant || !q->key)
        return up ? "bytes_up" : "bytes_down";
    const struct net_quota *box = &q->grant->box, *key = &q->grant->key;
    struct quota_use *mine = &q->use, *ours = &q->key->use;
    tick(q->key);
    if (is_over(mine->bytes_up, up, box->bytes_up))
        return "bytes_up";
    if (is_over(mine->bytes_down, down, box->bytes_down))
        return "bytes_down";
    if (is_over(ours->bytes_up, up, key->bytes_up))
        return "key_bytes_up";
    if (is_over(ours->bytes_down, down, key->bytes_down))
        return "key_bytes_down";
    mine->bytes_up += up;
    mine->bytes_down += down;
    ours->bytes_up += up;
    ours->bytes_down += down;
    return NULL;
}
