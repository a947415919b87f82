// SPDX-License-Identifier: Apache-2.0
//
// session: see session.h.
//
// Invariants:
//   1. A session of the table stands in the tree and in the list; the list is ordered by last use.
//   2. The timer runs for the oldest session only, so idle sessions cost nothing.
//   3. A session with calls in flight is moved to the young end instead of being ended.

#include "mcp/protocol/client.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/protocol/listen.h"
#include "json/encode.h"

enum { LOOKS_MAX = 1024 }; // sessions that are looked at to make room for one

static int64_t now_ms(void)
{
    return clock_us() / 1000;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct mcp_session *)a)->id, ((const struct mcp_session *)b)->id);
}

// ---- the order of last use ---------------------------------------------------------------------

static void list_remove(struct mcp_session *s)
{
    struct mcp *m = s->mcp;
    *(s->older ? &s->older->newer : &m->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &m->newest) = s->older;
    s->older = s->newer = NULL;
}

static void list_append(struct mcp_session *s)
{
    struct mcp *m = s->mcp;
    s->older = m->newest;
    *(m->newest ? &m->newest->newer : &m->oldest) = s;
    m->newest = s;
}

static void set_timer(struct mcp *m)
{
    if (!m->oldest || !m->session_timer)
        return;
    int64_t left = m->oldest->used_ms + (int64_t)m->config->mcp_session_ms - now_ms();
    if (left < 10)
        left = 10;
    struct timeval wait = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
    (void)event_add(m->session_timer, &wait);
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
    struct mcp *m = argument;
    (void)fd;
    (void)what;
    int64_t limit = now_ms() - (int64_t)m->config->mcp_session_ms;
    while (m->oldest && m->oldest->used_ms <= limit) {
        if (m->oldest->call_count)
            mcp_session_touch(m->oldest);
        else
            mcp_session_end(m->oldest);
    }
    set_timer(m);
}

void mcp_session_touch(struct mcp_session *s)
{
    s->used_ms = now_ms();
    if (!s->id[0] || s->mcp->newest == s)
        return;
    list_remove(s);
    list_append(s);
}

// ---- sessions -----------------------------------------------------------------------------------

struct mcp_session *mcp_session_new_private(struct mcp *m, const char *owner)
{
    struct mcp_session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct mcp_session){
        .mcp = m, .version = MCP_NEWEST_LEGACY, .log_level = MCP_INFO, .used_ms = now_ms()};
    snprintf(s->owner, sizeof s->owner, "%s", owner);
    return s;
}

// The longest idle one of the owner goes, else the longest idle of all.  Those with calls in flight
// stay: they move to the young end, so that the next one who looks does not meet them again.
static bool make_room(struct mcp *m, const char *owner)
{
    struct mcp_session *s = m->oldest, *next, *found = NULL, *last = m->newest;
    for (int looked = 0; s && looked < LOOKS_MAX; looked++, s = next) {
        next = s == last ? NULL : s->newer;
        bool own = strcmp(s->owner, owner) == 0;
        if (s->call_count)
            mcp_session_touch(s);
        else if (own || !found)
            found = s;
        if (found == s && own)
            break;
    }
    if (found)
        mcp_session_end(found);
    return found != NULL;
}

struct mcp_session *mcp_session_new(struct mcp *m, const char *owner)
{
    if (m->session_count >= m->config->mcp_sessions && !make_room(m, owner))
        return NULL;
    if (!m->session_timer && !(m->session_timer = evtimer_new(m->base, on_timer, m)))
        return NULL;
    struct mcp_session *s = mcp_session_new_private(m, owner);
    if (!s || encode_random_id(s->id, MCP_SESSION_ID_LENGTH) < 0 ||
        !tsearch(s, &m->sessions, compare_ids)) {
        free(s);
        return NULL;
    }
    list_append(s);
    if (++m->session_count == 1)
        set_timer(m);
    return s;
}

struct mcp_session *mcp_session_find(struct mcp *m, const char *id, const char *owner)
{
    struct mcp_session key;
    if (strlen(id) != MCP_SESSION_ID_LENGTH)
        return NULL;
    memcpy(key.id, id, sizeof key.id);
    struct mcp_session **found = tfind(&key, &m->sessions, compare_ids);
    if (!found || strcmp((*found)->owner, owner) != 0)
        return NULL;
    mcp_session_touch(*found);
    return *found;
}

void mcp_sessions_dismiss(struct mcp *m, bool (*knows)(const char *owner, void *argument),
                          void *argument)
{
    for (struct mcp_session *s = m->oldest, *next; s; s = next) {
        next = s->newer;
        if (!knows(s->owner, argument))
            mcp_session_end(s);
    }
}

void mcp_session_end(struct mcp_session *s)
{
    struct mcp *m = s->mcp;
    if (s->id[0]) {
        (void)tdelete(s, &m->sessions, compare_ids);
        list_remove(s);
        m->session_count--;
        s->id[0] = '\0'; // the end of its calls touches it, and must not put it back
    }
    while (s->calls) // a node of the tree begins with the pointer to its call
        mcp_cancel(*(struct mcp_call **)s->calls);
    mcp_listen_forget(s);
    if (s->on_end)
        s->on_end(s);
    json_decref(s->capabilities);
    free(s);
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

int mcp_session_add_call(struct mcp_session *s, struct mcp_call *c)
{
    key_of(c->request.id, c->key);
    struct mcp_call **node = tsearch(c, &s->calls, compare_calls);
    if (!node || *node != c) {
        c->key[0] = '\0';
        return -1;
    }
    s->call_count++;
    return 0;
}

void mcp_session_remove_call(struct mcp_session *s, struct mcp_call *c)
{
    if (!c->key[0])
        return;
    (void)tdelete(c, &s->calls, compare_calls);
    c->key[0] = '\0';
    s->call_count--;
    mcp_session_touch(s);
}

struct mcp_call *mcp_session_find_call(struct mcp_session *s, json_t *id)
{
    static struct mcp_call key; // one thread; only its key is looked at
    if (!json_is_integer(id) && !(json_is_string(id) && json_string_length(id) <= RPC_ID_MAX))
        return NULL;
    key_of(id, key.key);
    struct mcp_call **found = tfind(&key, &s->calls, compare_calls);
    return found ? *found : NULL;
}

void mcp_session_notify(struct mcp_session *s, const char *method, json_t *params)
{
    json_t *message = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);
    if (params)
        (void)json_object_set_new(message, "params", params);
    if (message && s->outlet)
        s->outlet->send(s->outlet, message, false);
    json_decref(message);
}
