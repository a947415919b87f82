// SPDX-License-Identifier: Apache-2.0
//
// client: see client.h.
//
// Invariants:
//   1. A client of the table is in the tree and in the list; the list is ordered by last use.
//   2. The timer runs for the oldest client only, so idle clients cost nothing.
//   3. A client with calls in flight is moved to the young end instead of being ended.

#include "mcp/protocol/client.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/protocol/subscriptions.h"
#include "json/encode.h"

enum { LOOKS_MAX = 1024 }; // clients that are looked at to make room for one

static int64_t now_ms(void)
{
    return clock_us() / 1000;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct mcp_client *)a)->id, ((const struct mcp_client *)b)->id);
}

// ---- the order of last use ---------------------------------------------------------------------

static void list_remove(struct mcp_client *client)
{
    struct mcp *m = client->mcp;
    *(client->older ? &client->older->newer : &m->oldest) = client->newer;
    *(client->newer ? &client->newer->older : &m->newest) = client->older;
    client->older = client->newer = NULL;
}

static void list_append(struct mcp_client *client)
{
    struct mcp *m = client->mcp;
    client->older = m->newest;
    *(m->newest ? &m->newest->newer : &m->oldest) = client;
    m->newest = client;
}

static void on_timer(void *argument);

static void set_timer(struct mcp *m)
{
    if (!m->oldest)
        return;
    int64_t left = m->oldest->used_ms + (int64_t)m->config->mcp_session_ms - now_ms();
    if (left < 10)
        left = 10;
    (void)timer_set(&m->client_timer, m->base, (uint64_t)left, on_timer, m);
}

static void on_timer(void *argument)
{
    struct mcp *m = argument;
    int64_t limit = now_ms() - (int64_t)m->config->mcp_session_ms;
    while (m->oldest && m->oldest->used_ms <= limit) {
        if (m->oldest->call_count)
            mcp_client_touch(m->oldest);
        else
            mcp_client_end(m->oldest);
    }
    set_timer(m);
}

void mcp_client_touch(struct mcp_client *client)
{
    client->used_ms = now_ms();
    if (!client->id[0] || client->mcp->newest == client)
        return;
    list_remove(client);
    list_append(client);
}

// ---- clients -----------------------------------------------------------------------------------

struct mcp_client *mcp_client_new_private(struct mcp *m, const char *owner)
{
    struct mcp_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    *client = (struct mcp_client){
        .mcp = m, .version = MCP_NEWEST_LEGACY, .log_level = MCP_INFO, .used_ms = now_ms()};
    snprintf(client->owner, sizeof client->owner, "%s", owner);
    return client;
}

// Ends the longest idle client of the owner, else the longest idle of all.  Clients with calls in
// flight stay and move to the young end, so that the next look does not meet them again.
static bool make_room(struct mcp *m, const char *owner)
{
    struct mcp_client *client = m->oldest, *next, *found = NULL, *last = m->newest;
    for (int looked = 0; client && looked < LOOKS_MAX; looked++, client = next) {
        next = client == last ? NULL : client->newer;
        bool own = strcmp(client->owner, owner) == 0;
        if (client->call_count)
            mcp_client_touch(client);
        else if (own || !found)
            found = client;
        if (found == client && own)
            break;
    }
    if (found)
        mcp_client_end(found);
    return found != NULL;
}

struct mcp_client *mcp_client_new(struct mcp *m, const char *owner)
{
    if (m->client_count >= m->config->mcp_sessions && !make_room(m, owner))
        return NULL;
    struct mcp_client *client = mcp_client_new_private(m, owner);
    if (!client || encode_random_id(client->id, MCP_SESSION_ID_LENGTH) < 0 ||
        !tsearch(client, &m->clients, compare_ids)) {
        free(client);
        return NULL;
    }
    list_append(client);
    if (++m->client_count == 1)
        set_timer(m);
    return client;
}

struct mcp_client *mcp_client_find(struct mcp *m, const char *id, const char *owner)
{
    struct mcp_client key;
    if (strlen(id) != MCP_SESSION_ID_LENGTH)
        return NULL;
    memcpy(key.id, id, sizeof key.id);
    struct mcp_client **found = tfind(&key, &m->clients, compare_ids);
    if (!found || strcmp((*found)->owner, owner) != 0)
        return NULL;
    mcp_client_touch(*found);
    return *found;
}

void mcp_clients_dismiss(struct mcp *m, bool (*knows)(const char *owner, void *argument),
                         void *argument)
{
    for (struct mcp_client *client = m->oldest, *next; client; client = next) {
        next = client->newer;
        if (!knows(client->owner, argument))
            mcp_client_end(client);
    }
}

void mcp_client_end(struct mcp_client *client)
{
    struct mcp *m = client->mcp;
    if (client->id[0]) {
        (void)tdelete(client, &m->clients, compare_ids);
        list_remove(client);
        m->client_count--;
        client->id[0] = '\0'; // ending its calls touches it and must not put it back
    }
    while (client->calls) // a node of the tree begins with the pointer to its call
        mcp_cancel(*(struct mcp_call **)client->calls);
    mcp_subscriptions_forget(client);
    if (client->on_end)
        client->on_end(client);
    json_decref(client->capabilities);
    free(client);
}

// ---- calls in flight ----------------------------------------------------------------------------

static int compare_calls(const void *a, const void *b)
{
    return strcmp(((const struct mcp_call *)a)->key, ((const struct mcp_call *)b)->key);
}

// 5 and "5" are two ids.
static void key_of(json_t *id, char buf[RPC_ID_MAX + 8])
{
    if (json_is_integer(id))
        snprintf(buf, RPC_ID_MAX + 8, "#%lld", (long long)json_integer_value(id));
    else
        snprintf(buf, RPC_ID_MAX + 8, "$%s", json_string_value(id));
}

int mcp_client_add_call(struct mcp_client *client, struct mcp_call *c)
{
    key_of(c->request.id, c->key);
    struct mcp_call **node = tsearch(c, &client->calls, compare_calls);
    if (!node || *node != c) {
        c->key[0] = '\0';
        return -1;
    }
    client->call_count++;
    return 0;
}

void mcp_client_remove_call(struct mcp_client *client, struct mcp_call *c)
{
    if (!c->key[0])
        return;
    (void)tdelete(c, &client->calls, compare_calls);
    c->key[0] = '\0';
    client->call_count--;
    mcp_client_touch(client);
}

struct mcp_call *mcp_client_find_call(struct mcp_client *client, json_t *id)
{
    static struct mcp_call key; // one thread; only its key is looked at
    if (!json_is_integer(id) && !(json_is_string(id) && json_string_length(id) <= RPC_ID_MAX))
        return NULL;
    key_of(id, key.key);
    struct mcp_call **found = tfind(&key, &client->calls, compare_calls);
    return found ? *found : NULL;
}

void mcp_client_notify(struct mcp_client *client, const char *method, json_t *params)
{
    json_auto_t *message = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);
    if (params)
        (void)json_object_set_new(message, "params", params);
    if (message && client->outlet)
        client->outlet->send(client->outlet, message, false);
}
