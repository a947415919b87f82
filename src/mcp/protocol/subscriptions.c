// SPDX-License-Identifier: Apache-2.0
//
// subscriptions: see subscriptions.h.  Called by the dispatch, by client.c, and by what changes:
// resources, tasks, tool sets.
//
// A listener is a legacy client or a subscriptions/listen of a modern one.  A topic is a thing that
// can change: a list, a resource, a task.  A subscription ties one listener to one topic.
//
// Invariants:
//   1. A topic exists as long as it has subscriptions.
//   2. At most one subscription ties a listener to a topic; the tree `pairs` finds it.
//   3. Sending may end any listener, also the one that is sent to.  So every walk over the
//      subscriptions of a topic is in the list `walks`, and removing a subscription moves walks on.

#include "mcp/protocol/subscriptions.h"

#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/tasks.h"
#include "run/gate.h"
#include "json/whole.h"

enum {
    SUBSCRIPTIONS_PER_LISTENER = 1024, // resources and tasks; the lists come on top
    SUBSCRIPTIONS_MAX = 10000,
    LISTENERS_MAX = 1024,                // modern ones; client.c bounds legacy ones
    LISTENERS_SHARE = LISTENERS_MAX / 2, // of one owner
    TOPIC_NAME_MAX = 2048,               // bytes of a URI or a task id
};

enum topic_kind { TOPIC_LIST = 'l', TOPIC_RESOURCE = 'r', TOPIC_TASK = 't' };

static const struct {
    const char *filter, *method;
} lists[MCP_LIST_MAX] = {
    [MCP_LIST_TOOLS] = {"toolsListChanged", "notifications/tools/list_changed"},
    [MCP_LIST_PROMPTS] = {"promptsListChanged", "notifications/prompts/list_changed"},
    [MCP_LIST_RESOURCES] = {"resourcesListChanged", "notifications/resources/list_changed"},
};

struct topic {
    struct subscription *first;
    char name[]; // kind and text
};

struct subscription {
    struct topic *topic;
    struct mcp_listener *listener;
    struct subscription *before, *after;  // of the topic
    struct subscription *earlier, *later; // of the listener
};

struct mcp_listener {
    struct mcp *mcp;
    struct mcp_client *client; // legacy, or NULL
    struct mcp_call *call;     // modern, or NULL
    struct subscription *subscriptions;
    unsigned count;                       // of resources and tasks
    struct mcp_listener *previous, *next; // modern ones only
};

struct walk {
    struct subscription *next;
    struct walk *outer;
};

struct mcp_subscriptions {
    void *topics, *pairs; // tsearch trees
    unsigned count;       // of resources and tasks
    struct mcp_listener *modern;
    unsigned modern_count;
    struct walk *walks;
};

// ---- topics and subscriptions
// -------------------------------------------------------------------------

static int compare_topics(const void *a, const void *b)
{
    return strcmp(((const struct topic *)a)->name, ((const struct topic *)b)->name);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct subscription *x = a, *y = b;
    if (x->topic != y->topic)
        return (uintptr_t)x->topic < (uintptr_t)y->topic ? -1 : 1;
    if (x->listener != y->listener)
        return (uintptr_t)x->listener < (uintptr_t)y->listener ? -1 : 1;
    return 0;
}

static struct topic *topic_make(enum topic_kind kind, const char *name)
{
    size_t length = strlen(name);
    struct topic *t = malloc(sizeof *t + length + 2);
    if (!t)
        return NULL;
    t->first = NULL;
    t->name[0] = (char)kind;
    memcpy(t->name + 1, name, length + 1);
    return t;
}

// The topic, or NULL when it has no subscriptions.
static struct topic *topic_find(struct mcp *m, enum topic_kind kind, const char *name)
{
    struct topic *key = topic_make(kind, name);
    struct topic **found = key ? tfind(key, &m->subscriptions->topics, compare_topics) : NULL;
    free(key);
    return found ? *found : NULL;
}

static struct topic *topic_get(struct mcp *m, enum topic_kind kind, const char *name)
{
    struct topic *t = topic_make(kind, name);
    struct topic **node = t ? tsearch(t, &m->subscriptions->topics, compare_topics) : NULL;
    if (!node || *node != t)
        free(t);
    return node ? *node : NULL;
}

static void topic_release(struct mcp *m, struct topic *t)
{
    if (t->first)
        return;
    (void)tdelete(t, &m->subscriptions->topics, compare_topics);
    free(t);
}

static bool is_counted(const struct topic *t)
{
    return t->name[0] != TOPIC_LIST;
}

static struct subscription *subscription_find(struct mcp_listener *l, struct topic *t)
{
    struct subscription key = {.topic = t, .listener = l};
    struct subscription **found =
        t ? tfind(&key, &l->mcp->subscriptions->pairs, compare_pairs) : NULL;
    return found ? *found : NULL;
}

static void subscription_free(struct subscription *s)
{
    struct mcp_listener *l = s->listener;
    struct mcp_subscriptions *all = l->mcp->subscriptions;
    struct topic *t = s->topic;
    for (struct walk *w = all->walks; w; w = w->outer)
        if (w->next == s)
            w->next = s->after;
    (void)tdelete(s, &all->pairs, compare_pairs);
    *(s->before ? &s->before->after : &t->first) = s->after;
    if (s->after)
        s->after->before = s->before;
    *(s->earlier ? &s->earlier->later : &l->subscriptions) = s->later;
    if (s->later)
        s->later->earlier = s->earlier;
    if (is_counted(t)) {
        l->count--;
        all->count--;
    }
    topic_release(l->mcp, t);
    free(s);
}

// 0, also when it exists already; -1: no memory.
static int subscription_add(struct mcp_listener *l, enum topic_kind kind, const char *name)
{
    struct mcp_subscriptions *all = l->mcp->subscriptions;
    struct topic *t = topic_get(l->mcp, kind, name);
    if (!t)
        return -1;
    if (subscription_find(l, t))
        return 0;
    struct subscription *s = calloc(1, sizeof *s);
    if (s)
        *s = (struct subscription){
            .topic = t, .listener = l, .after = t->first, .later = l->subscriptions};
    if (!s || !tsearch(s, &all->pairs, compare_pairs)) {
        free(s);
        topic_release(l->mcp, t);
        return -1;
    }
    if (s->after)
        s->after->before = s;
    t->first = s;
    if (s->later)
        s->later->earlier = s;
    l->subscriptions = s;
    if (is_counted(t)) {
        l->count++;
        all->count++;
    }
    return 0;
}

// ---- listeners ----------------------------------------------------------------------------------

static struct mcp_listener *listener_new(struct mcp *m, struct mcp_client *client,
                                         struct mcp_call *c)
{
    struct mcp_listener *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (struct mcp_listener){.mcp = m, .client = client, .call = c};
    if (c) {
        l->next = m->subscriptions->modern;
        if (l->next)
            l->next->previous = l;
        m->subscriptions->modern = l;
        m->subscriptions->modern_count++;
        m->lasting++;
    }
    return l;
}

static void listener_free(struct mcp_listener *l)
{
    while (l->subscriptions)
        subscription_free(l->subscriptions);
    if (l->call) {
        *(l->previous ? &l->previous->next : &l->mcp->subscriptions->modern) = l->next;
        if (l->next)
            l->next->previous = l->previous;
        l->mcp->subscriptions->modern_count--;
        l->mcp->lasting--;
    }
    free(l);
}

static const char *owner_of(const struct mcp_listener *l)
{
    return l->call ? l->call->owner : l->client->owner;
}

// Marks a message with its subscriptions/listen.  Takes params, which may be NULL.
static json_t *tag(const struct mcp_listener *l, json_t *params)
{
    if (!params)
        params = json_object();
    json_t *meta = json_pack("{s:O}", MCP_META_SUBSCRIPTION, l->call->request.id);
    if (!meta || json_object_set_new(params, "_meta", meta) < 0) {
        json_decref(params);
        return NULL;
    }
    return params;
}

// Takes params.
static void tell(struct mcp_listener *l, const char *method, json_t *params)
{
    if (!l->call) {
        mcp_client_notify(l->client, method, params);
        return;
    }
    params = tag(l, params);
    if (params) // the client cannot use an untagged message
        mcp_notify(l->call, method, params);
}

// To all subscribers of a topic, or to those of one owner.  `params` is borrowed, may be NULL.
static void publish(struct mcp *m, enum topic_kind kind, const char *name, const char *owner,
                    const char *method, json_t *params)
{
    struct topic *t = m->subscriptions ? topic_find(m, kind, name) : NULL;
    if (!t)
        return;
    struct walk walk = {.next = t->first, .outer = m->subscriptions->walks};
    m->subscriptions->walks = &walk;
    while (walk.next) {
        struct mcp_listener *l = walk.next->listener;
        walk.next = walk.next->after;
        if (!owner || strcmp(owner, owner_of(l)) == 0)
            tell(l, method, json_copy(params)); // a copy: each gets its own tag
    }
    m->subscriptions->walks = walk.outer;
}

// Tools and prompts come from tables that do not change, unless a tool set says so.  Files come and
// go.
bool mcp_list_changes(const struct mcp *m, enum mcp_list list)
{
    // Descriptions of tools say what a key may reach, and those rules can be reloaded.
    bool reloads = m->gate && m->gate->network && m->config->network_file[0];
    return m->lists_change || list == MCP_LIST_RESOURCES || (list == MCP_LIST_TOOLS && reloads);
}

void mcp_list_changed(struct mcp *m, enum mcp_list list, const char *owner)
{
    publish(m, TOPIC_LIST, lists[list].filter, owner, lists[list].method, NULL);
}

void mcp_resource_updated(struct mcp *m, const char *uri, const char *owner)
{
    json_auto_t *params = json_pack("{s:s}", "uri", uri);
    if (params)
        publish(m, TOPIC_RESOURCE, uri, owner, "notifications/resources/updated", params);
}

void mcp_task_updated(struct mcp *m, const char *owner, const char *task_id, json_t *task)
{
    publish(m, TOPIC_TASK, task_id, owner, "notifications/tasks", task);
}

bool mcp_task_is_watched(struct mcp *m, const char *task_id)
{
    return m->subscriptions && topic_find(m, TOPIC_TASK, task_id);
}

// ---- legacy -------------------------------------------------------------------------------------

void mcp_subscriptions_join(struct mcp_client *client)
{
    if (!client->listener)
        client->listener = listener_new(client->mcp, client, NULL);
    for (int i = 0; client->listener && i < MCP_LIST_MAX; i++)
        (void)subscription_add(client->listener, TOPIC_LIST,
                               lists[i].filter); // no memory: no updates
}

void mcp_subscriptions_forget(struct mcp_client *client)
{
    if (client->listener)
        listener_free(TAKE_PTR(client->listener));
}

// The resource that the request names; NULL: the call was failed.
static const char *read_uri(struct mcp_call *c)
{
    json_t *uri = json_object_get(c->request.params, "uri");
    size_t length = json_string_length(uri);
    if (json_is_string(uri) && length > 0 && length <= TOPIC_NAME_MAX)
        return json_string_value(uri);
    mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'uri' must be a text of 1 to %d bytes", TOPIC_NAME_MAX);
    return NULL;
}

// Is there room for `more` beside the `used` ones of this client?  False: the call was failed.
static bool has_room(struct mcp_call *c, unsigned used, size_t more)
{
    if (used + more > SUBSCRIPTIONS_PER_LISTENER)
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "too many subscriptions: a client can have %d; unsubscribe from some first",
                 SUBSCRIPTIONS_PER_LISTENER);
    else if (c->mcp->subscriptions->count + more > SUBSCRIPTIONS_MAX)
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL,
                 "too many subscriptions: the server can have %d; try again later",
                 SUBSCRIPTIONS_MAX);
    else
        return true;
    return false;
}

void mcp_handle_subscribe(struct mcp_call *c)
{
    struct mcp_client *client = c->client;
    const char *uri = read_uri(c);
    if (!uri)
        return;
    if (!c->mcp->resource_exists(c->mcp, uri, c->owner)) {
        mcp_resource_missing(c, uri);
        return;
    }
    if (!client ||
        (!client->listener && !(client->listener = listener_new(c->mcp, client, NULL)))) {
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "no memory for a subscription");
        return;
    }
    if (!subscription_find(client->listener, topic_find(c->mcp, TOPIC_RESOURCE, uri))) {
        if (!has_room(c, client->listener->count, 1))
            return;
        if (subscription_add(client->listener, TOPIC_RESOURCE, uri) < 0) {
            mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "no memory for a subscription");
            return;
        }
    }
    mcp_answer(c, json_object());
}

// Unsubscribing from an unknown URI succeeds.
void mcp_handle_unsubscribe(struct mcp_call *c)
{
    const char *uri = read_uri(c);
    if (!uri)
        return;
    struct mcp_listener *l = c->client ? c->client->listener : NULL;
    struct subscription *s =
        l ? subscription_find(l, topic_find(c->mcp, TOPIC_RESOURCE, uri)) : NULL;
    if (s)
        subscription_free(s);
    mcp_answer(c, json_object());
}

// ---- modern -------------------------------------------------------------------------------------

static void on_cancel(struct mcp_call *c)
{
    listener_free(c->work);
}

// Names in the filter: a bounded array of bounded texts.  0, or -1: the call was failed.
static int check_names(struct mcp_call *c, const char *key, json_t *names)
{
    size_t i;
    json_t *name;
    if (!names)
        return 0;
    bool good = json_is_array(names) && json_array_size(names) <= SUBSCRIPTIONS_PER_LISTENER;
    json_array_foreach (names, i, name) {
        size_t length = json_string_length(name);
        good = good && json_is_string(name) && length > 0 && length <= TOPIC_NAME_MAX;
    }
    if (good)
        return 0;
    mcp_fail(c, MCP_INVALID_PARAMS, NULL,
             "'notifications.%s' must be an array of at most %d texts of 1 to %d bytes", key,
             SUBSCRIPTIONS_PER_LISTENER, TOPIC_NAME_MAX);
    return -1;
}

static int check_filter(struct mcp_call *c, json_t *filter)
{
    if (!json_is_object(filter)) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "'notifications' must be an object such as {\"toolsListChanged\": true}");
        return -1;
    }
    for (int i = 0; i < MCP_LIST_MAX; i++) {
        json_t *value = json_object_get(filter, lists[i].filter);
        if (value && !json_is_boolean(value)) {
            mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'notifications.%s' must be true or false",
                     lists[i].filter);
            return -1;
        }
    }
    json_t *tasks = json_object_get(filter, "taskIds");
    if (check_names(c, "resourceSubscriptions", json_object_get(filter, "resourceSubscriptions")) <
            0 ||
        check_names(c, "taskIds", tasks) < 0)
        return -1;
    if (tasks && !mcp_client_can(c, "extensions/" MCP_EXTENSION_TASKS)) {
        mcp_task_missing(c);
        return -1;
    }
    return 0;
}

// Adds subscriptions for the names that exist for this owner; `ret` gets them.
static int honour_names(struct mcp_listener *l, enum topic_kind kind, json_t *names, json_t *ret)
{
    size_t i;
    json_t *item;
    json_array_foreach (names, i, item) {
        const char *name = json_string_value(item), *owner = l->call->owner;
        bool exists = kind == TOPIC_TASK ? mcp_task_exists(l->mcp, owner, name)
                                         : l->mcp->resource_exists(l->mcp, name, owner);
        if (!exists)
            continue;
        unsigned before = l->count;
        if (subscription_add(l, kind, name) < 0 ||
            (l->count > before && json_array_append(ret, item) < 0))
            return -1;
    }
    return 0;
}

// The part of the filter that will be served, as an object; NULL: no memory.
static json_t *honour(struct mcp_listener *l, json_t *filter)
{
    static const struct {
        const char *key;
        enum topic_kind kind;
    } kinds[] = {{"resourceSubscriptions", TOPIC_RESOURCE}, {"taskIds", TOPIC_TASK}};
    json_t *agreed = json_object();
    int bad = agreed ? 0 : -1;
    for (int i = 0; i < MCP_LIST_MAX; i++)
        if (mcp_list_changes(l->mcp, (enum mcp_list)i) &&
            json_is_true(json_object_get(filter, lists[i].filter)))
            bad |= subscription_add(l, TOPIC_LIST, lists[i].filter) |
                   json_object_set_new(agreed, lists[i].filter, json_true());
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_t *names = json_object_get(filter, kinds[i].key), *got = json_array();
        if (names && !bad)
            bad |= honour_names(l, kinds[i].kind, names, got) |
                   json_object_set(agreed, kinds[i].key, got);
        json_decref(got);
    }
    return json_whole(agreed, bad);
}

// Is there room for one more of this owner?  False: the call was failed.
static bool has_room_for_one(struct mcp_call *c)
{
    const struct mcp_subscriptions *all = c->mcp->subscriptions;
    unsigned own = 0;
    bool shared = c->owner[0] && all->modern_count >= LISTENERS_SHARE;
    for (struct mcp_listener *l = shared ? all->modern : NULL; l; l = l->next)
        own += strcmp(l->call->owner, c->owner) == 0;
    if (all->modern_count < LISTENERS_MAX && own < LISTENERS_SHARE)
        return true;
    mcp_fail(c, MCP_INTERNAL_ERROR, NULL,
             "too many open subscriptions/listen: at most %d%s; cancel one or try again later",
             own < LISTENERS_SHARE ? LISTENERS_MAX : LISTENERS_SHARE,
             own < LISTENERS_SHARE ? "" : " for one client");
    return false;
}

void mcp_handle_listen(struct mcp_call *c)
{
    json_t *filter = json_object_get(c->request.params, "notifications");
    if (check_filter(c, filter) < 0)
        return;
    size_t more = json_array_size(json_object_get(filter, "resourceSubscriptions")) +
                  json_array_size(json_object_get(filter, "taskIds"));
    if (!has_room(c, 0, more) || !has_room_for_one(c))
        return;
    struct mcp_listener *l = listener_new(c->mcp, NULL, c);
    json_t *agreed = l ? honour(l, filter) : NULL;
    json_t *params = agreed ? json_pack("{s:o}", "notifications", agreed) : NULL;
    if (!params) {
        if (l)
            listener_free(l);
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "no memory for a subscription");
        return;
    }
    c->work = l;
    c->cancel = on_cancel;
    c->progress_token = NULL; // it makes no progress
    mcp_call_trim(c);
    tell(l, "notifications/subscriptions/acknowledged", params);
}

// The server ends it.  On stdio, where no stream is closed, a notification says so too.
static void end_gracefully(struct mcp_listener *l)
{
    struct mcp_call *c = l->call;
    if (c->client) {
        bool ended = false;
        c->ended = &ended;
        tell(l, "notifications/cancelled",
             json_pack("{s:O, s:s}", "requestId", c->request.id, "reason",
                       "the server is shutting down"));
        if (ended) // the client is gone
            return;
        c->ended = NULL;
    }
    json_t *result = tag(l, NULL);
    c->cancel = NULL;
    c->work = NULL;
    listener_free(l);
    mcp_answer(c, result);
}

void mcp_subscriptions_end_all(struct mcp *m)
{
    while (m->subscriptions && m->subscriptions->modern)
        end_gracefully(m->subscriptions->modern);
}

// ---- the module --------------------------------------------------------------------------------

int mcp_subscriptions_open(struct mcp *m, struct err *e)
{
    m->subscriptions = calloc(1, sizeof *m->subscriptions);
    return m->subscriptions ? 0 : err_set(e, ERR_SYSTEM, 0, NULL, "no memory for subscriptions");
}

// All legacy clients have ended before, so every topic is gone with the last modern listener.
void mcp_subscriptions_close(struct mcp *m)
{
    mcp_subscriptions_end_all(m);
    free(m->subscriptions);
    m->subscriptions = NULL;
}
