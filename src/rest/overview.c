// SPDX-License-Identifier: Apache-2.0
//
// overview: GET /overview: what runs, what it costs, what was denied.  SECURITY: a key sees what is
// its own; totals of the others only as far as the door allows (http_shows_all).  Everything is
// read when it is asked for, and each list is cut to a page.  Runs in the gate.

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "env/envs.h"
#include "rest/call.h"
#include "rest/metrics.h"
#include "rest/rest.h"
#include "run/activity.h"

enum { LIMIT = 50, KEYS_SHOWN = 64, ENVIRONMENTS_OF = 16, JOBS_MOST = 50 };

// What is asked for.
struct view {
    struct rest_call *call;
    struct gate *gate;
    const char *owner; // NULL: all
    size_t from, most;
};

// A list and how many entries it has seen.
struct list {
    size_t total;
    json_t *items;
};

static bool takes(struct list *l, const struct view *v)
{
    size_t at = l->total++;
    return at >= v->from && at - v->from < v->most;
}

static void add(struct list *l, const struct view *v, json_t *item) // taken
{
    if (takes(l, v) && item)
        (void)json_array_append(l->items, item);
    json_decref(item);
}

static json_t *ended(struct list *l)
{
    return json_pack("{s:I, s:o}", "total", (json_int_t)l->total, "items", l->items);
}

// ---- runs ---------------------------------------------------------------------------------------

static const char *state_of(const struct exec *x)
{
    static const char *const words[] = {
        [RUN_WAITING] = "waiting", [RUN_PREPARING] = "preparing", [RUN_SENDING] = "running",
        [RUN_RUNNING] = "running", [RUN_HOLDING] = "collecting",  [RUN_MEASURING] = "ending",
        [RUN_ENDING] = "ending",   [RUN_SETTLING] = "ending",     [RUN_DONE] = "ending"};
    return x->run ? words[x->run->state] : "waiting";
}

static json_t *run_json(const struct exec *x)
{
    const struct run *r = x->run;
    struct wire_usage u;
    int64_t age_us = r ? clock_us() - (int64_t)r->t_begin_us : 0;
    bool metered = r && r->box && r->request.session && meter_peek(&r->box->meter, &u);
    return json_pack(
        "{s:s, s:s, s:s?, s:s, s:I, s:o, s:o}", "execution_id", x->id, "key", x->owner, "session",
        x->session_id[0] ? x->session_id : NULL, "state", state_of(x), "age_ms",
        (json_int_t)(age_us / 1000), "cpu_ms",
        metered ? json_real((double)(u.cpu_user_us + u.cpu_system_us) / 1000) : json_null(),
        "peak_memory_bytes", metered ? json_integer((json_int_t)u.peak_memory_bytes) : json_null());
}

static json_t *runs(const struct view *v)
{
    struct list l = {.items = json_array()};
    const struct exec *x;
    TAILQ_FOREACH (x, &v->gate->execs, list)
        if (!x->request.look && !x->request.install &&
            (!v->owner || strcmp(x->owner, v->owner) == 0) && takes(&l, v))
            (void)json_array_append_new(l.items, run_json(x));
    return ended(&l);
}

// ---- keys, and what belongs to each -------------------------------------------------------------

static json_t *figures(const struct view *v, const char *owner)
{
    struct store_figures f = {0};
    if (v->gate->store)
        f = store_figures(v->gate->store, owner);
    return json_pack("{s:I, s:I}", "files", (json_int_t)f.files, "bytes", (json_int_t)f.bytes);
}

// The names that this key may see.  A server without keys has one owner, without a name.
static json_t *names(const struct view *v)
{
    json_t *list = v->owner ? NULL : http_names(v->call->rest->http);
    if (list && json_array_size(list))
        return list;
    json_decref(list);
    return json_pack("[s]", v->call->owner);
}

static json_t *keys(const struct view *v, json_t *all)
{
    struct list l = {.items = json_array()};
    json_t *name;
    size_t i;
    json_array_foreach (all, i, name) {
        const char *text = json_string_value(name);
        if (takes(&l, v))
            (void)json_array_append_new(
                l.items,
                json_pack("{s:s, s:I, s:o}", "name", text, "sessions",
                          (json_int_t)(v->gate->sessions ? sessions_count(v->gate, text) : 0),
                          "artifacts", figures(v, text)));
    }
    return ended(&l);
}

static void add_of(struct list *l, const struct view *v, const char *owner, json_t *items)
{
    json_t *item;
    size_t i;
    json_array_foreach (items, i, item) {
        json_t *o = json_copy(item);
        (void)json_object_set_new(o, "key", json_string(owner));
        add(l, v, o);
    }
    json_decref(items);
}

static json_t *of_each(const struct view *v, json_t *all, bool jobs)
{
    struct list l = {.items = json_array()};
    json_t *name;
    size_t i;
    json_array_foreach (all, i, name) {
        const char *owner = json_string_value(name);
        if (i == ENVIRONMENTS_OF)
            break;
        add_of(&l, v, owner,
               jobs ? envs_jobs(v->gate, owner, JOBS_MOST) : envs_list(v->gate, owner));
    }
    return ended(&l);
}

static json_t *artifacts(const struct view *v)
{
    struct artifact *list = NULL;
    struct list l = {.items = json_array()};
    uint64_t more = 0;
    json_t *o = figures(v, v->owner);
    size_t n = v->gate->store ? store_list(v->gate->store, v->call->owner, NULL, &list, &more) : 0;
    for (size_t i = 0; i < n; i++) {
        char when[TEXT_TIME_MAX];
        text_format_time(list[i].created_ms, when);
        add(&l, v,
            json_pack("{s:s, s:I, s:s, s:s, s:s}", "path", list[i].path, "size",
                      (json_int_t)list[i].size, "mime_type", list[i].mime_type, "session",
                      list[i].holder, "created_at", when));
    }
    free(list);
    l.total += more;
    (void)json_object_update_new(o, ended(&l));
    (void)json_object_set_new(o, "quota_bytes",
                              json_integer((json_int_t)v->gate->facts->config->artifact_bytes));
    return o;
}

// ---- the whole ----------------------------------------------------------------------------------

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static json_t *boxes(const struct view *v, const struct wire_status_reply *m)
{
    if (v->owner || !m)
        return json_null();
    return json_pack("{s:i, s:i, s:i}", "parked", (int)m->parked, "live", (int)m->live, "dying",
                     (int)m->dying);
}

static json_t *server(const struct view *v)
{
    return json_pack("{s:s, s:s, s:I, s:i}", "version", CONSTRICTOR_VERSION, "status",
                     rest_status_word(v->gate), "uptime",
                     (json_int_t)(clock_ms() - v->call->rest->since_ms) / 1000, "runs_max",
                     (int)v->gate->runs_max);
}

static json_t *queue(const struct view *v, json_t *under_way)
{
    return json_pack("{s:I, s:o}", "running",
                     v->owner ? json_integer_value(json_object_get(under_way, "total"))
                              : (json_int_t)v->gate->running,
                     "waiting",
                     v->owner ? json_null() : json_integer((json_int_t)v->gate->deferred_count));
}

static void show(const struct wire_status_reply *m, void *argument)
{
    struct rest_call *c = argument;
    struct view v = {.call = c, .gate = c->rest->gate};
    uint64_t from = 0, most = LIMIT;
    c->asks_boxes = false;
    if (rest_query_number(c, "from", 0, 100000, &from) < 0 ||
        rest_query_number(c, "limit", 1, OVERVIEW_MAX, &most) < 0)
        return;
    v.owner = http_shows_all(c->x) ? NULL : c->owner;
    v.from = (size_t)from;
    v.most = (size_t)most;
    json_t *o = json_object(), *under_way = runs(&v);
    const struct activity *a = v.gate->activity;
    json_auto_t *all = names(&v);
    const struct {
        const char *name;
        json_t *value;
    } parts[] = {
        {"operator", json_boolean(http_may_operate(c->x))},
        {"all", json_boolean(!v.owner)},
        {"server", server(&v)},
        {"boxes", boxes(&v, m)},
        {"queue", queue(&v, under_way)},
        {"runs", under_way},
        {"recent", a ? activity_runs(a, v.owner, v.from, v.most) : json_object()},
        {"sessions",
         v.gate->sessions ? sessions_page(v.gate, v.owner, v.from, v.most) : json_object()},
        {"environments", of_each(&v, all, false)},
        {"installs", of_each(&v, all, true)},
        {"keys", keys(&v, all)},
        {"verdicts", a ? activity_verdicts(a, v.owner, now_ms()) : json_array()},
        {"latency", a ? activity_latency(a, v.owner) : json_object()},
        {"denials", a ? activity_denials(a, v.owner, v.from, v.most) : json_object()},
        {"hosts", a ? activity_hosts(a, v.owner, v.from, v.most) : json_object()},
        {"artifacts", artifacts(&v)},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        (void)json_object_set_new(o, parts[i].name, parts[i].value);
    rest_answer(c, 200, o);
}

void rest_overview(struct rest_call *c)
{
    c->asks_boxes = true;
    if (!http_shows_all(c->x) || metrics_ask(show, c) < 0)
        show(NULL, c);
}
