// SPDX-License-Identifier: Apache-2.0
//
// container: see container.h.  Called by set_containers.c and set_container_run.c in the gate.

#include "compat/container.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "compat/set_answer.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/tool_env.h"
#include "run/gate.h"
#include "session/session.h"

enum {
    WALL_MS = 300 * 1000, // without a configured limit; the reference server has none
    ID_LENGTH = sizeof CONTAINER_PREFIX - 1 + 2 * CONTAINER_RANDOM,
};

static bool has_prefix(const char *id)
{
    return strncmp(id, CONTAINER_PREFIX, sizeof CONTAINER_PREFIX - 1) == 0;
}

// Replaces by '-' what a name of an environment cannot have.
static void make_plain(const char *name, char *buf, size_t cap)
{
    size_t n = 0;
    for (; *name && n + 1 < cap; name++)
        buf[n++] = isalnum((unsigned char)*name) || strchr("-_.", *name) ? *name : '-';
    buf[n] = '\0';
}

int container_make_id(const char *name, char ret[ENV_NAME_MAX + 1])
{
    // SECURITY: with the same key, an id is all it takes to use the container, so it cannot be
    // guessed.
    unsigned char random[CONTAINER_RANDOM];
    char plain[CONTAINER_NAME_MAX + 1] = "";
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -1;
    int n = snprintf(ret, ENV_NAME_MAX + 1, "%s", CONTAINER_PREFIX);
    for (size_t i = 0; i < sizeof random; i++)
        n += snprintf(ret + n, ENV_NAME_MAX + 1 - (size_t)n, "%02x", random[i]);
    make_plain(name, plain, sizeof plain);
    if (plain[0])
        (void)snprintf(ret + n, ENV_NAME_MAX + 1 - (size_t)n, "-%s", plain);
    return 0;
}

const char *container_name(const char *id)
{
    return has_prefix(id) && strlen(id) > ID_LENGTH ? id + ID_LENGTH + 1 : "";
}

void container_refuse(struct mcp_call *c, const struct err *e)
{
    set_answer(c,
               json_pack("{s:s, s:s, s:b, s:b}", "error", e->message, "status", "error", "success",
                         0, "complete", 1),
               json_pack("{s:s, s:s}", "code", err_code_name(e->code), "hint", e->hint), 0, true);
}

// False: `e` gives the reason it ended, if it existed.
static bool exists(struct mcp_call *c, const char *id, struct err *e)
{
    struct gate *g = c->mcp->gate;
    int64_t when_ms;
    if (g->sessions && session_find(g, c->owner, id, e))
        return true;
    enum session_end end =
        g->sessions ? session_why_ended(g, c->owner, id, &when_ms) : SESSION_OPEN;
    json_auto_t *environment = has_prefix(id) ? NULL : envs_describe(g, c->owner, id, e);
    if (environment)
        return true;
    err_set(e, end == SESSION_OPEN ? ERR_SESSION_UNKNOWN : ERR_SESSION_ENDED, 0,
            "create_python_env makes a new one", "container '%.64s' %s", id,
            end == SESSION_OPEN ? "was not found" : session_end_words[end]);
    text_sanitize(e->message);
    return false;
}

const char *container_id(struct mcp_call *c, json_t *arguments)
{
    const char *key = json_object_get(arguments, "container_id") ? "container_id" : "sandbox_id";
    struct err e;
    if (!tool_env_has_gate(c))
        return NULL;
    const char *id = tool_string(c, arguments, key);
    if (!id || exists(c, id, &e))
        return id;
    container_refuse(c, &e);
    return NULL;
}

struct exec_request container_request(const struct mcp *m, const char *id,
                                      struct session_plan *plan)
{
    const struct config *c = m->config;
    bool given = c->origins[CONFIG_KEY_wall_ms].source != CONFIG_FROM_DEFAULT;
    session_plan_init(m->gate, plan);
    plan->wall_ms = given ? c->wall_ms : WALL_MS;
    return (struct exec_request){
        .session = id,
        .session_must_exist = has_prefix(id),
        .environment = has_prefix(id) ? NULL : id,
        .plan = plan,
        .fresh = true,
        .limits = plan->limits,
        .wall_ms = plan->wall_ms,
        .output_bytes = plan->output_bytes,
        .collect = true,
    };
}

json_t *containers_list(struct mcp_call *c)
{
    struct gate *g = c->mcp->gate;
    json_t *all = g->sessions ? sessions_json(g, c->owner) : NULL, *ids = json_array(), *item;
    size_t i;
    json_array_foreach (json_object_get(all, "sessions"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && has_prefix(name))
            (void)json_array_append(ids, json_object_get(item, "name"));
    }
    json_decref(all);
    return ids;
}

void containers_tidy(struct mcp_call *c)
{
    struct gate *g = c->mcp->gate;
    json_t *all = envs_list(g, c->owner), *item;
    struct err e;
    size_t i;
    json_array_foreach (all, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && has_prefix(name) && !(g->sessions && session_find(g, c->owner, name, &e)))
            (void)envs_delete(g, c->owner, name,
                              &e); // fails while a job runs in it: then the next call does it
    }
    json_decref(all);
}
