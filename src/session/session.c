// SPDX-License-Identifier: Apache-2.0
//
// session: see session.h: the tables, opening, finding, ending.  shared_box.c has what happens in
// the box.  Runs in the gate, on its event loop.

#include "session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/code_policy.h"
#include "env/envs.h"
#include "env/warm_boxes.h"
#include "files/store.h"
#include "run/network.h"
#include "session/session_internal.h"
#include "json/encode.h"

#define ID_PREFIX "ses_"

const char *const session_end_codes[SESSION_END_MAX] = {
#define X(name, code, words) [name] = code,
    SESSION_END_MAP(X)
#undef X
};
const char *const session_end_words[SESSION_END_MAX] = {
#define X(name, code, words) [name] = words,
    SESSION_END_MAP(X)
#undef X
};

// ---- tables -------------------------------------------------------------------------------------

static unsigned hash(const char *a, const char *b)
{
    uint32_t h = 2166136261u;
    for (; *a; a++)
        h = (h ^ (unsigned char)*a) * 16777619u;
    for (h *= 31; *b; b++)
        h = (h ^ (unsigned char)*b) * 16777619u;
    return h;
}

static struct session_owner *find_owner(struct sessions *all, const char *owner, bool make)
{
    struct session_owner **at = &all->owners[hash(owner, "") % OWNER_BUCKETS];
    for (struct session_owner *t = *at; t; t = t->next)
        if (strcmp(t->owner, owner) == 0)
            return t;
    struct session_owner *t = make ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    snprintf(t->owner, sizeof t->owner, "%s", owner);
    TAILQ_INIT(&t->idle);
    t->next = *at;
    *at = t;
    return t;
}

static void free_unused_owner(struct sessions *all, struct session_owner *t)
{
    if (t->count)
        return;
    struct session_owner **at = &all->owners[hash(t->owner, "") % OWNER_BUCKETS];
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    free(t);
}

static struct session **name_bucket(const struct session *s)
{
    return &s->all->by_name[hash(s->owner, s->plan.name) % SESSION_BUCKETS];
}

void session_link_name(struct session *s)
{
    if (!s->plan.name[0])
        return;
    s->next_name = *name_bucket(s);
    *name_bucket(s) = s;
}

void session_unlink_name(struct session *s)
{
    struct session **at = name_bucket(s);
    if (!s->plan.name[0])
        return;
    while (*at != s)
        at = &(*at)->next_name;
    *at = s->next_name;
}

static void table_add(struct session *s)
{
    struct session **at = &s->all->by_id[hash(s->id, "") % SESSION_BUCKETS];
    s->next_id = *at;
    *at = s;
    session_link_name(s);
    TAILQ_INSERT_TAIL(&s->all->open, s, all_list);
    s->all->count++;
    s->of_owner->count++;
}

static void table_remove(struct session *s)
{
    struct session **at = &s->all->by_id[hash(s->id, "") % SESSION_BUCKETS];
    while (*at != s)
        at = &(*at)->next_id;
    *at = s->next_id;
    session_unlink_name(s);
    TAILQ_REMOVE(&s->all->open, s, all_list);
    s->all->count--;
    s->of_owner->count--;
    free_unused_owner(s->all, s->of_owner);
    s->of_owner = NULL;
}

struct session *session_lookup(struct sessions *all, const char *owner, const char *text)
{
    if (session_is_id(text)) {
        for (struct session *s = all->by_id[hash(text, "") % SESSION_BUCKETS]; s; s = s->next_id)
            if (strcmp(s->id, text) == 0 && strcmp(s->owner, owner) == 0)
                return s;
        return NULL;
    }
    for (struct session *s = all->by_name[hash(owner, text) % SESSION_BUCKETS]; s; s = s->next_name)
        if (strcmp(s->plan.name, text) == 0 && strcmp(s->owner, owner) == 0)
            return s;
    return NULL;
}

// ---- idle or not --------------------------------------------------------------------------------

uint64_t session_cpu_ms(const struct session *s)
{
    return config_cpu_ms(s->all->config, s->plan.cpu_ms, s->plan.wall_ms);
}

int64_t session_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static uint64_t idle_ms(const struct session *s);

static void on_expiry(void *argument)
{
    struct session *s = argument;
    // A file on its way in or out, which may take long, uses the session.
    if (TAILQ_EMPTY(&s->box->ops) ||
        !timer_set(&s->expiry, s->all->gate->base, idle_ms(s), on_expiry, s))
        session_close(s, SESSION_EXPIRED);
}

void session_leave_idle(struct session *s)
{
    if (!s->is_idle_listed)
        return;
    s->is_idle_listed = false;
    TAILQ_REMOVE(&s->all->idle, s, idle_list);
    TAILQ_REMOVE(&s->of_owner->idle, s, owner_idle);
    timer_stop(&s->expiry);
}

// How long it may stay idle from now on.  With --session-sweep it ends at the next sweep.
static uint64_t idle_ms(const struct session *s)
{
    uint64_t ms = s->plan.idle_ms, every_ms = s->all->config->session_sweep_ms;
    uint64_t over_ms = every_ms ? ((uint64_t)clock_ms() + ms) % every_ms : 0;
    if (over_ms)
        ms += every_ms - over_ms;
    return ms;
}

void session_become_idle(struct session *s)
{
    if (s->state == SESSION_ENDING)
        return;
    s->state = SESSION_IDLE;
    s->used_ms = session_now_ms();
    if (!s->is_idle_listed) {
        s->is_idle_listed = true;
        TAILQ_INSERT_TAIL(&s->all->idle, s, idle_list);
        TAILQ_INSERT_TAIL(&s->of_owner->idle, s, owner_idle);
    }
    (void)timer_set(&s->expiry, s->all->gate->base, idle_ms(s), on_expiry, s);
}

// ---- the end ------------------------------------------------------------------------------------

void session_free(struct session *s)
{
    ledger_free(s);
    if (s->of_owner) // else table_remove() did that
        free_unused_owner(s->all, s->of_owner);
    timer_stop(&s->expiry);
    timer_stop(&s->warm);
    json_decref(s->plan.network);
    scratch_list_clear(&s->files);
    json_decref(s->file_ids);
    free(s);
}

// No lookup finds the session from now on; its object stays as long as its session box.
void session_retire(struct session *s, enum session_end why)
{
    if (s->state == SESSION_ENDING)
        return;
    session_leave_idle(s);
    ended_session_add(s->all->ended_sessions, s->owner, s->id, s->plan.name, why, session_now_ms());
    ended_session_note_isolation(s->all->ended_sessions, s->owner, s->plan.limits.isolation);
    if (s->is_saved && s->all->gate->store) {
        store_prolong(s->all->gate->store, s->owner, s->id);
        if (why == SESSION_CLOSED && !s->all->stopping) // the name begins anew
            store_forget_name(s->all->gate->store, s->owner, s->id);
    }
    table_remove(s);
    ledger_free(s);
    s->state = SESSION_ENDING;
    s->end = why;
}

void session_explain(const struct session *s, struct err *e)
{
    err_set(e, ERR_SESSION_ENDED, 0, "open a new session, or use a name, which opens one",
            "the session '%s' %s; its variables are lost", s->plan.name[0] ? s->plan.name : s->id,
            session_end_words[s->end]);
}

// ---- opening ------------------------------------------------------------------------------------

void session_plan_init(const struct gate *g, struct session_plan *plan)
{
    const struct config *c = g->facts->config;
    *plan = (struct session_plan){.limits = keeper_limits(c),
                                  .idle_ms = c->session_idle_ms,
                                  .wall_ms = c->wall_ms,
                                  .output_bytes = c->output_bytes};
}

bool session_is_id(const char *text)
{
    return strncmp(text, ID_PREFIX, sizeof ID_PREFIX - 1) == 0;
}

bool session_is_handle(const char *text)
{
    return session_is_id(text) && strlen(text) == SESSION_ID_SIZE - 1;
}

int session_check_name(const char *text, size_t length, struct err *e)
{
    static const char hint[] =
        "use up to 128 characters of printable text that does not begin with '" ID_PREFIX
        "', such as \"analysis-1\"";
    size_t characters = utf8_count(text, length);
    if (length == 0 || characters > SESSION_NAME_CHARACTERS || length > SESSION_NAME_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, hint, "the name of a session has %zu characters",
                       characters);
    if (utf8_valid_length(text, length) != length)
        return err_set(e, ERR_BAD_VALUE, 0, hint, "the name of a session is not UTF-8");
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return err_set(e, ERR_BAD_VALUE, 0, hint,
                           "the name of a session has a control character");
    if (session_is_id(text))
        return err_set(e, ERR_BAD_VALUE, 0, hint, "the name of a session begins like a handle");
    return 0;
}

static int new_id(char ret[SESSION_ID_SIZE])
{
    memcpy(ret, ID_PREFIX, sizeof ID_PREFIX);
    return encode_random_id(ret + sizeof ID_PREFIX - 1, SESSION_ID_SIZE - sizeof ID_PREFIX);
}

struct session *session_new(struct sessions *all, const char *owner,
                            const struct session_plan *plan)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct session){
        .all = all, .plan = *plan, .created_ms = session_now_ms(), .used_ms = session_now_ms()};
    snprintf(s->owner, sizeof s->owner, "%s", owner);
    (void)json_incref(s->plan.network);
    s->of_owner = find_owner(all, owner, true);
    if (!s->of_owner) {
        session_free(s);
        return NULL;
    }
    return s;
}

void session_settle(struct shared_box *h, struct session *s)
{
    s->shared_box = h;
    s->box = h->box;
    TAILQ_INSERT_TAIL(&h->forks, s, fork_list);
    table_add(s);
    // A gate that takes over would not know that files are missing: see opened().
    if (!s->plan.id[0])
        ledger_open_entry(s);
    ledger_write(s);
}

// The box is there, and the files of a session that was opened again are in it.
static void opened(struct shared_box *h, struct session *s)
{
    if (s->plan.id[0])
        ledger_open_entry(s);
    s->box = h->box;
    ledger_write(s);
    if (!s->runs)
        session_become_idle(s);
    void (*on_open)(struct session *, const struct err *, void *) = s->on_open;
    s->on_open = NULL;
    void *argument = s->open_argument;
    shared_box_next(h);
    if (on_open)
        on_open(s, NULL, argument); // may close it, which frees `h`
}

static void on_box(struct link_request *o, const struct wire_box *m, const int *fds)
{
    struct shared_box *h =
        (struct shared_box *)((char *)o - offsetof(struct shared_box, box_request));
    struct session *s = TAILQ_FIRST(&h->forks);
    struct err e = {0};
    if (fds)
        h->box = live_new(h->all->gate, m->box, &s->plan.limits, true, fds[0]);
    if (h->box)
        meter_open(&h->box->meter, h->all->gate->facts->caps->cgroups.driver->kind, fds + 1,
                   m->meter_fds);
    for (unsigned i = 0; fds && !h->box && i < m->meter_fds; i++)
        (void)close(fds[1 + i]);
    if (!h->box) {
        (void)err_set(&e, (enum err_code)m->error_code, 0, m->hint, "%s", m->error);
        if (fds && err_memory(&e))
            link_give_back(&h->all->gate->link, m->box);
        h->ending = true;
        session_retire(s, SESSION_FAILED);
        shared_box_refuse(h, s, &e);
        if (s->on_open)
            s->on_open(NULL, &e, s->open_argument);
        shared_box_free(h);
        return;
    }
    link_hold(&h->all->gate->link, h->box);
    shared_box_rest(h);
    // Usage from before the first run belongs to no run.
    (void)link_measure(&h->all->gate->link, h->box->id, 0, MEASURE_KEPT);
    if (s->plan.id[0])
        session_restore(h, s, opened);
    else
        opened(h, s);
}

// At the cap, closes the longest idle session: of this owner if that has its share already, else of
// any owner.  `spared`: a session box whose sessions stay; may be NULL.
static int make_room(struct sessions *all, const char *owner, const struct shared_box *spared,
                     struct err *e)
{
    unsigned most = all->config->sessions;
    if (all->count < most)
        return 0;
    struct session_owner *t = find_owner(all, owner, false);
    bool has_share = t && t->count * 2 >= most;
    struct session *s = has_share ? TAILQ_FIRST(&t->idle) : TAILQ_FIRST(&all->idle);
    while (s && s->shared_box == spared)
        s = has_share ? TAILQ_NEXT(s, owner_idle) : TAILQ_NEXT(s, idle_list);
    if (!s)
        return err_set(e, ERR_BUSY, 0,
                       "close one, or wait until one is idle; the operator can raise --sessions",
                       "%u sessions are open, and none that may be closed is idle", most);
    session_close(s, SESSION_EVICTED);
    return 0;
}

// A warm box of the environment; NULL: there is none.
static struct live_box *take_warm(struct gate *g, const char *owner,
                                  const struct session_plan *plan, bool networked)
{
    struct warm_box_ask ask = {.owner = owner,
                               .environment = plan->environment[0] ? plan->environment : ENV_BASE,
                               .limits = &plan->limits,
                               .network = networked};
    json_t *path = NULL;
    struct err e;
    // A warm box has the configuration's CPU time, and its scratch can no longer be made read-only.
    // SECURITY: code of packages has run in it, unchecked, and could have changed what a policy
    // relies on.
    if (!g->warm_boxes || plan->limits.readonly || plan->policed ||
        code_policy_mode(g->facts->config) != CODE_OPEN ||
        (plan->cpu_ms && plan->cpu_ms != g->facts->config->cpu_ms) ||
        envs_path(g, owner, ask.environment, &path, &e) < 0)
        return NULL;
    ask.path = path;
    struct live_box *b = warm_boxes_take(g, &ask);
    if (b)
        (void)link_measure(&g->link, b->id, 0, MEASURE_TAKEN);
    json_decref(path);
    return b;
}

static void on_warm(void *argument)
{
    struct session *s = argument;
    void (*on_open)(struct session *, const struct err *, void *) = s->on_open;
    s->on_open = NULL;
    if (on_open)
        on_open(s, NULL, s->open_argument); // may close it
}

// on_open comes later: the caller does not have its session yet.
static int settle_warm(struct shared_box *h, struct session *s)
{
    s->had_path = true;
    shared_box_rest(h);
    session_become_idle(s);
    if (!s->on_open)
        return 0;
    return timer_set(&s->warm, h->all->gate->base, 0, on_warm, s) ? 0 : -1;
}

struct session *session_open(struct gate *g, const char *owner, const struct session_plan *plan,
                             void (*on_open)(struct session *s, const struct err *error,
                                             void *argument),
                             void *argument, struct err *e)
{
    struct sessions *all = g->sessions;
    if (plan->name[0] && session_lookup(all, owner, plan->name)) {
        err_set(e, ERR_BAD_VALUE, 0, "use that session, close it first, or take another name",
                "a session '%s' is open already", plan->name);
        return NULL;
    }
    struct session_plan settled = *plan;
    if (session_find_saved(g, owner, &settled, e) < 0 || make_room(all, owner, NULL, e) < 0 ||
        (settled.limits.isolation && network_of_sandbox(plan->network, e) < 0))
        return NULL;
    // Whether it has a network is fixed with its box.
    bool networked = !settled.limits.isolation && network_wants(g, owner, plan->network);
    if (!networked)
        settled.network = json_false();
    struct shared_box *h = shared_box_new(all);
    struct session *s = h ? session_new(all, owner, &settled) : NULL;
    struct wire_acquire m = {.cpu_ms = config_cpu_ms(all->config, plan->cpu_ms, plan->wall_ms),
                             .network = networked,
                             .keep = 1,
                             .grace_ms = (uint32_t)all->config->grace_ms,
                             .limits = settled.limits};
    if (!s || (!settled.id[0] && new_id(s->id) < 0)) {
        err_memory(e);
        goto fail;
    }
    if (settled.id[0])
        memcpy(s->id, settled.id, sizeof s->id);
    h->box_request.on_box = on_box;
    h->box = settled.id[0] ? NULL : take_warm(g, owner, &settled, networked);
    if (!h->box && link_acquire(&g->link, &h->box_request, &m, e) < 0)
        goto fail;
    s->on_open = on_open;
    s->open_argument = argument;
    s->networked = networked;
    session_settle(h, s);
    if (h->box && settle_warm(h, s) < 0) {
        s->on_open = NULL;
        session_close(s, SESSION_FAILED);
        (void)err_memory(e);
        return NULL;
    }
    return s;
fail:
    if (s)
        session_free(s);
    free(h);
    return NULL;
}

uint32_t session_next_fork(struct session *s)
{
    return s->shared_box->next_fork++;
}

bool session_is_shared(const struct session *s)
{
    return s->shared_box->next_fork > 1;
}

int session_check_fork(struct session *s, const char *name, struct err *e)
{
    int r = name ? session_check_name(name, strlen(name), e) : 0;
    if (r < 0)
        return r;
    if (name && session_lookup(s->all, s->owner, name))
        return err_set(e, ERR_BAD_VALUE, 0, "close that one first, or take another name",
                       "a session '%s' is open already", name);
    return make_room(s->all, s->owner, s->shared_box, e);
}

struct session *session_fork(struct session *s, const char *name, uint32_t fork_number,
                             struct err *e)
{
    struct session_plan plan = s->plan;
    struct session *fork = NULL;
    plan.id[0] = '\0';
    snprintf(plan.name, sizeof plan.name, "%s", name ? name : "");
    // Check again: other sessions may have been opened meanwhile.
    if (session_check_fork(s, name, e) == 0) {
        fork = session_new(s->all, s->owner, &plan);
        if (!fork || new_id(fork->id) < 0) {
            err_memory(e);
            if (fork)
                session_free(fork);
            fork = NULL;
        }
    }
    if (!fork) {
        shared_box_forget_fork(s->shared_box, fork_number);
        return NULL;
    }
    fork->fork_number = fork_number;
    fork->networked = s->networked;
    fork->network_lost = s->network_lost;
    fork->had_path = s->had_path;
    fork->executions = s->executions;
    fork->files_writes = UINT32_MAX; // its files are not known yet
    snprintf(fork->forked_from, sizeof fork->forked_from, "%s", s->id);
    session_settle(s->shared_box, fork);
    session_become_idle(fork);
    return fork;
}

// ---- finding ------------------------------------------------------------------------------------

struct session *session_find(struct gate *g, const char *owner, const char *text, struct err *e)
{
    struct session *s = session_lookup(g->sessions, owner, text);
    if (s)
        return s;
    char shown[SESSION_NAME_MAX + 1];
    snprintf(shown, sizeof shown, "%s", text);
    text_sanitize(shown);
    int64_t when_ms = 0;
    enum session_end why = session_why_ended(g, owner, text, &when_ms);
    if (session_has_saved(g, owner, text))
        err_set(e, ERR_SESSION_ENDED, 0,
                "open it again with its files by open_session with this handle as \"name\" (REST: "
                "POST /api/v1/sessions); its variables are lost",
                "the session '%s' %s", shown,
                why == SESSION_OPEN ? "ended with an earlier start of the server"
                                    : session_end_words[why]);
    else if (why == SESSION_OPEN)
        err_set(e, ERR_SESSION_UNKNOWN, 0, "open one with open_session, or look at list_sessions",
                "there is no session '%s'", shown);
    else
        err_set(e, ERR_SESSION_ENDED, 0,
                "open a new one; variables and files of the old one are lost",
                "the session '%s' %s, %lld seconds ago", shown, session_end_words[why],
                (long long)((session_now_ms() - when_ms) / 1000));
    return NULL;
}

enum session_end session_why_ended(struct gate *g, const char *owner, const char *text,
                                   int64_t *ret_ms)
{
    return ended_session_find(g->sessions->ended_sessions, owner, text, ret_ms);
}

unsigned sessions_count(const struct gate *g, const char *owner)
{
    if (!owner)
        return g->sessions->count;
    struct session_owner *t = find_owner(g->sessions, owner, false);
    return t ? t->count : 0;
}

// ---- all of them --------------------------------------------------------------------------------

int sessions_open(struct gate *g, const struct config *c, struct err *e)
{
    struct sessions *all = calloc(1, sizeof *all);
    if (all)
        all->ended_sessions = ended_sessions_new();
    if (!all || !all->ended_sessions) {
        free(all);
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make the table of sessions");
    }
    all->gate = g;
    all->config = c;
    all->ledger = g->facts->ledger;
    TAILQ_INIT(&all->open);
    TAILQ_INIT(&all->idle);
    if (all->ledger)
        ledger_read(all);
    g->sessions = all;
    g->session_ops = &session_ops;
    g->link.on_adopt = shared_box_adopt;
    g->link.adopt_argument = all;
    return 0;
}

void sessions_dismiss(struct gate *g, bool (*knows)(const char *owner, void *argument),
                      void *argument)
{
    for (struct session *s = TAILQ_FIRST(&g->sessions->open), *next; s; s = next) {
        next = TAILQ_NEXT(s, all_list);
        if (!knows(s->owner, argument))
            session_close(s, SESSION_REVOKED);
    }
}

void sessions_close(struct gate *g)
{
    struct sessions *all = g->sessions;
    if (!all)
        return;
    all->stopping = true;
    if (g->store)
        store_set_alive(g->store, NULL, NULL);
    for (struct session *s; (s = TAILQ_FIRST(&all->open));)
        session_close(s, SESSION_CLOSED);
    ended_sessions_free(all->ended_sessions);
    free(all); // session boxes with a run are freed with the process
    g->sessions = NULL;
}

// ---- for people ---------------------------------------------------------------------------------

static json_t *time_json(int64_t ms)
{
    char text[40];
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
        return json_null();
    return json_string(text);
}

json_t *session_json(const struct session *s)
{
    static const char *const states[] = {"opening", "idle", "busy", "ending"};
    const struct session_plan *p = &s->plan;
    int64_t left_ms = s->used_ms + (int64_t)p->idle_ms - session_now_ms();
    json_t *o = json_pack(
        "{s:s, s:o, s:s, s:i, s:i, s:o, s:o, s:o, s:b, s:{s:I, s:I, s:f, s:f, s:f}}", "session",
        s->id, "name", p->name[0] ? json_string(p->name) : json_null(), "state", states[s->state],
        "execution_count", (int)s->executions, "waiting", s->runs ? (int)s->runs - 1 : 0,
        "created_at", time_json(s->created_ms), "last_used_at", time_json(s->used_ms),
        "expires_in_seconds",
        s->state == SESSION_IDLE ? json_real((double)(left_ms > 0 ? left_ms : 0) / 1000)
                                 : json_null(),
        "checkpoint", p->checkpoint, "limits", "memory_bytes", (json_int_t)p->limits.memory_bytes,
        "scratch_bytes", (json_int_t)p->limits.scratch_bytes, "timeout", (double)p->wall_ms / 1000,
        "cpu_seconds", (double)session_cpu_ms(s) / 1000, "idle_timeout", (double)p->idle_ms / 1000);
    if (o)
        (void)json_object_set_new(o, "network", network_shown(s->all->gate, s->owner, p->network));
    if (o)
        (void)json_object_set_new(o, "environment",
                                  json_string(p->environment[0] ? p->environment : ENV_BASE));
    if (o && s->plan.id[0])
        (void)json_object_update_new(o, json_pack("{s:i, s:i}", "restored_files", (int)s->restored,
                                                  "lost_files", (int)s->not_restored));
    if (o && s->forked_from[0])
        (void)json_object_set_new(o, "forked_from", json_string(s->forked_from));
    return o;
}

int64_t sessions_oldest_ms(const struct gate *g)
{
    int64_t oldest_ms = INT64_MAX;
    const struct session *s;
    if (!g->sessions)
        return oldest_ms;
    TAILQ_FOREACH (s, &g->sessions->open, all_list)
        if (s->created_ms < oldest_ms)
            oldest_ms = s->created_ms;
    return oldest_ms;
}

json_t *sessions_json(struct gate *g, const char *owner)
{
    json_t *open = json_array(),
           *ended = ended_sessions_json(g->sessions->ended_sessions, owner, session_now_ms());
    struct session *s;
    TAILQ_FOREACH (s, &g->sessions->open, all_list)
        if (strcmp(s->owner, owner) == 0)
            (void)json_array_append_new(open, session_json(s));
    return json_pack("{s:o, s:o}", "sessions", open, "ended", ended);
}
