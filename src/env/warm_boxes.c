// SPDX-License-Identifier: Apache-2.0
//
// warm_boxes: see warm_boxes.h: which environments have boxes, and how many.  warm_box.c has the
// life of one box.
//
// A tick does the work: it loads what is known about environments, drops surplus boxes, and makes
// the next one.  A request for a box sets it; it repeats only while there are boxes.

#include "env/warm_boxes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "config/code_policy.h"
#include "env/warm_boxes_internal.h"
#include "run/network.h"

enum {
    FAMILIES_MAX = 256,   // environments that are known at one time
    BUSY_MS = 50,         // before the next try while runs go on
    PATIENCE_MS = 1000,   // the longest delay because of a single run
    ROUND_MS = 2000,      // between two looks at waiting boxes
    IDLE_MS = 600 * 1000, // without a request, after which an environment has no boxes
    OFTEN_MS = 60 * 1000, // requests within this time of each other are counted together
};

static void on_tick(void *argument);

void warm_boxes_tick_in(struct warm_boxes *n, int64_t ms)
{
    int64_t due_ms = clock_ms() + ms;
    if (n->due_ms && n->due_ms <= due_ms)
        return;
    n->due_ms = timer_set(&n->tick, n->gate->base, (uint64_t)ms, on_tick, n) ? due_ms : 0;
}

// ---- environments -------------------------------------------------------------------------------

static struct family *find_family(struct warm_boxes *n, const char *owner, const char *name)
{
    struct family *f;
    TAILQ_FOREACH (f, &n->families, list)
        if (strcmp(f->name, name) == 0 && strcmp(f->owner, owner) == 0)
            return f;
    return NULL;
}

static struct env_db *db_of(const struct warm_boxes *n)
{
    return n->gate->envs ? n->gate->envs->db : NULL;
}

static void save(struct family *f)
{
    struct env_db *db = db_of(f->all);
    json_auto_t *said = f->unsaved && db ? preload_json(&f->preload) : NULL;
    struct err e;
    if (said && env_db_put_preload(db, f->owner, f->name, said, &e) < 0)
        log_line(LOG_WARN, "the modules to preload could not be stored: %s", e.message);
    f->unsaved = false;
}

static void load(struct family *f)
{
    struct env_db *db = db_of(f->all);
    struct preload before = f->preload; // learned from runs since the start
    if (f->loaded || !db)
        return;
    f->loaded = true;
    json_t *said = env_db_get_preload(db, f->owner, f->name), *report;
    if (!said && default_env_serves(f->all->gate->envs, f->name))
        said = env_db_get_preload(db, "", f->all->gate->envs->default_env);
    if (!said)
        return;
    f->preload = (struct preload){0};
    preload_read(&f->preload, said);
    json_decref(said);
    report = preload_learned(&before);
    preload_learn(&f->preload, report);
    json_decref(report);
    preload_clear(&before);
}

static void family_free(struct family *f)
{
    struct warm_boxes *n = f->all;
    save(f);
    TAILQ_REMOVE(&n->families, f, list);
    n->family_count--;
    json_decref(f->path);
    preload_clear(&f->preload);
    free(f);
}

// Frees the least recently wanted family that has no boxes.
static void forget_oldest(struct warm_boxes *n)
{
    struct family *f;
    TAILQ_FOREACH_REVERSE (f, &n->families, family_list, list)
        if (!f->count) {
            family_free(f);
            return;
        }
}

static struct family *family_of(struct warm_boxes *n, const char *owner, const char *name)
{
    struct family *f = find_family(n, owner, name);
    if (f)
        return f;
    if (n->family_count >= FAMILIES_MAX)
        forget_oldest(n);
    if (strlen(name) > ENV_NAME_MAX || strlen(owner) >= sizeof f->owner ||
        !(f = calloc(1, sizeof *f)))
        return NULL;
    f->all = n;
    snprintf(f->owner, sizeof f->owner, "%s", owner);
    snprintf(f->name, sizeof f->name, "%s", name);
    TAILQ_INIT(&f->boxes);
    TAILQ_INSERT_HEAD(&n->families, f, list);
    n->family_count++;
    return f;
}

// ---- how many there are -------------------------------------------------------------------------

static uint64_t bytes_of_all(const struct warm_boxes *n)
{
    const struct family *f;
    const struct warm_box *b;
    uint64_t sum = 0;
    TAILQ_FOREACH (f, &n->families, list)
        TAILQ_FOREACH (b, &f->boxes, list)
            sum += b->stage == WARM_BOX_READY ? b->bytes : f->box_bytes;
    return sum;
}

static bool is_resting(const struct family *f, int64_t now_ms)
{
    return f->rest_until_ms > now_ms;
}

static bool wants_any(const struct family *f, int64_t now_ms)
{
    return json_array_size(f->path) && now_ms - f->wanted_ms < IDLE_MS && !is_resting(f, now_ms) &&
           f->wants;
}

// How many boxes `wanted` may have: one for each family, most recently wanted first, then another
// for each that is wanted more often, until --warm-boxes are given away.
static unsigned share_of(const struct warm_boxes *n, const struct family *wanted, int64_t now_ms)
{
    unsigned left = n->config->warm_boxes, share = 0;
    for (unsigned round = 1; left; round++) {
        const struct family *f;
        bool any = false;
        TAILQ_FOREACH (f, &n->families, list) {
            if (!left || !wants_any(f, now_ms) || f->wants < round)
                continue;
            any = true;
            left--;
            share += f == wanted;
        }
        if (!any)
            break;
    }
    return share;
}

static bool fits(const struct warm_box *b, const json_t *names)
{
    const struct family *f = b->family;
    return b->network == f->network && json_equal(b->path, f->path) && json_equal(b->names, names);
}

// Drops outdated boxes, and those beyond the family's share.
static void trim(struct family *f, const json_t *names, unsigned share)
{
    for (struct warm_box *b = TAILQ_FIRST(&f->boxes), *next; b; b = next) {
        next = TAILQ_NEXT(b, list);
        if (!fits(b, names) || f->count > share)
            warm_box_drop(b);
    }
}

// Makes room for `bytes` more: drops boxes of families wanted less recently than `f`; NULL: of any
// family.
static bool make_room(struct warm_boxes *n, const struct family *f, uint64_t bytes)
{
    struct family *last;
    while (bytes_of_all(n) + bytes > n->config->warm_bytes) {
        struct warm_box *victim = NULL;
        TAILQ_FOREACH_REVERSE (last, &n->families, family_list, list) {
            if (last == f || victim)
                break;
            victim = TAILQ_LAST(&last->boxes, warm_box_list);
        }
        if (!victim)
            return false;
        warm_box_drop(victim);
    }
    return true;
}

static void look_at_all(struct warm_boxes *n)
{
    struct family *f;
    struct warm_box *b, *next;
    TAILQ_FOREACH (f, &n->families, list)
        for (b = TAILQ_FIRST(&f->boxes); b; b = next) {
            next = TAILQ_NEXT(b, list);
            unsigned failures = f->failures;
            warm_box_look(b);
            if (f->failures != failures)
                break; // warm_box_look() has freed them all
        }
}

// Looks up the folders of all families again.
static void look_up_paths(struct warm_boxes *n)
{
    struct family *f;
    struct err e;
    n->changed = false;
    TAILQ_FOREACH (f, &n->families, list) {
        json_t *path = NULL;
        (void)envs_path(n->gate, f->owner, f->name, &path, &e);
        if (!json_equal(path, f->path)) {
            preload_forgive(&f->preload);
            f->rest_until_ms = 0;
            f->failures = 0;
            f->box_bytes = 0;
        }
        json_decref(f->path);
        f->path = path;
    }
}

// ---- the tick -----------------------------------------------------------------------------------

// SECURITY: preloading one client's packages never delays runs that wait now.
static bool may_make(struct warm_boxes *n)
{
    const struct gate *g = n->gate;
    int64_t now_ms = clock_ms();
    unsigned busy = g->running + g->checking;
    if (busy == 0)
        return true;
    if (!n->waiting_ms)
        n->waiting_ms = now_ms;
    return busy == 1 && !g->deferred_count && now_ms - n->waiting_ms > PATIENCE_MS;
}

// 0: no box is needed, 1: its making may have started, -1: it has to wait.
static int refill(struct family *f, int64_t now_ms)
{
    struct warm_boxes *n = f->all;
    unsigned share = wants_any(f, now_ms) ? share_of(n, f, now_ms) : 0;
    load(f);
    json_auto_t *names = preload_names(&f->preload);
    int r = 0;
    if (json_array_size(names) == 0)
        share = 0;
    trim(f, names, share);
    if (f->count < share && !n->making) {
        r = may_make(n) ? 1 : -1;
        if (r > 0 && n->count < n->config->warm_boxes && make_room(n, f, f->box_bytes))
            warm_box_make(f, json_incref(names));
    }
    return r;
}

static void on_tick(void *argument)
{
    struct warm_boxes *n = argument;
    int64_t now_ms = clock_ms();
    bool later = false, resting = false;
    n->due_ms = 0;
    if (n->changed)
        look_up_paths(n);
    look_at_all(n);
    (void)make_room(n, NULL, 0);
    for (struct family *f = TAILQ_FIRST(&n->families), *next; f; f = next) {
        next = TAILQ_NEXT(f, list);
        later |= refill(f, now_ms) < 0;
        resting |= is_resting(f, now_ms) && now_ms - f->wanted_ms < IDLE_MS;
        save(f);
        if (!f->count && now_ms - f->wanted_ms > IDLE_MS && f->rest_until_ms < now_ms)
            family_free(f);
    }
    if (!later)
        n->waiting_ms = 0;
    if (later)
        warm_boxes_tick_in(n, BUSY_MS);
    else if (n->count || resting)
        warm_boxes_tick_in(n, ROUND_MS);
}

// ---- for others ---------------------------------------------------------------------------------

static bool same_limits(const struct wire_limits *a, const struct wire_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->scratch_bytes == b->scratch_bytes &&
           a->file_bytes == b->file_bytes && a->processes == b->processes &&
           a->inodes == b->inodes && a->open_files == b->open_files && a->readonly == b->readonly &&
           a->isolation == b->isolation;
}

static struct live_box *take_ready(struct family *f, const struct warm_box_ask *ask)
{
    for (struct warm_box *b = TAILQ_FIRST(&f->boxes), *next; b; b = next) {
        next = TAILQ_NEXT(b, list);
        if (b->stage != WARM_BOX_READY || b->network != ask->network || b->box->silent ||
            !json_equal(b->path, ask->path))
            continue;
        struct live_box *live = warm_box_take(b);
        if (live)
            return live;
    }
    return NULL;
}

struct live_box *warm_boxes_take(struct gate *g, const struct warm_box_ask *ask)
{
    struct warm_boxes *n = g->warm_boxes;
    if (!n || !json_array_size(ask->path) || !same_limits(ask->limits, &n->limits))
        return NULL;
    struct family *f = family_of(n, ask->owner, ask->environment);
    if (!f)
        return NULL;
    TAILQ_REMOVE(&n->families, f, list);
    TAILQ_INSERT_HEAD(&n->families, f, list);
    int64_t now_ms = clock_ms();
    if (now_ms - f->wanted_ms > OFTEN_MS)
        f->wants = 0; // the last request was long ago
    f->wants += f->wants < n->config->warm_boxes;
    f->wanted_ms = now_ms;
    f->network = ask->network;
    if (f->path != ask->path) {
        json_decref(f->path);
        f->path = json_incref((json_t *)ask->path);
    }
    warm_boxes_tick_in(n, WARM_BOXES_SOON_MS);
    return take_ready(f, ask);
}

void warm_boxes_learn(struct gate *g, const char *owner, const char *environment,
                      const json_t *imports)
{
    struct warm_boxes *n = g->warm_boxes;
    struct family *f = n && json_array_size(imports) ? find_family(n, owner, environment) : NULL;
    if (!f)
        return;
    json_auto_t *before = preload_learned(&f->preload);
    preload_learn(&f->preload, imports);
    f->counted = true;
    json_auto_t *after = preload_learned(&f->preload);
    // Counts alone are not worth a write to the disk; they are stored with the next change, or at
    // the end.
    f->unsaved |= !json_equal(before, after);
    warm_boxes_tick_in(n, WARM_BOXES_SOON_MS);
}

void warm_boxes_changed(struct gate *g)
{
    struct warm_boxes *n = g->warm_boxes;
    if (!n || TAILQ_EMPTY(&n->families))
        return;
    n->changed = true;
    warm_boxes_tick_in(n, 0);
}

void warm_boxes_forget(struct gate *g, const char *owner, const char *environment)
{
    struct warm_boxes *n = g->warm_boxes;
    struct family *f = n ? find_family(n, owner, environment) : NULL;
    if (!f)
        return;
    warm_box_drop_all(f);
    f->unsaved = false;
    family_free(f);
}

void warm_boxes_expect(struct gate *g, const char *owner, const char *environment)
{
    struct warm_boxes *n = g->warm_boxes;
    struct family *f = n ? family_of(n, owner, environment) : NULL;
    if (!f)
        return;
    f->wants += f->wants == 0;
    f->wanted_ms = clock_ms();
    f->network = network_wants(g, owner, NULL);
    warm_boxes_changed(g);
}

int warm_boxes_declare(struct gate *g, const char *owner, const char *environment, json_t *names,
                       struct err *e)
{
    struct warm_boxes *n = g->warm_boxes;
    struct env_db *db = g->envs ? g->envs->db : NULL;
    struct preload p = {0};
    struct family *f = n ? find_family(n, owner, environment) : NULL;
    if (!db)
        return err_set(e, ERR_STATE_FOLDER, 0, NULL,
                       "there are no environments, because there is no state folder");
    if (f)
        load(f);
    json_t *said = f ? preload_json(&f->preload) : env_db_get_preload(db, owner, environment);
    preload_read(&p, said);
    json_decref(said);
    json_decref(p.declared);
    p.declared = json_incref(names);
    said = preload_json(&p);
    int r = said ? env_db_put_preload(db, owner, environment, said, e)
                 : err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    if (r == 0 && n && (f || (f = family_of(n, owner, environment)))) {
        preload_read(&f->preload, said);
        f->loaded = true;
        warm_boxes_expect(g, owner, environment); // once the packages are installed
    }
    json_decref(said);
    preload_clear(&p);
    return r;
}

void warm_boxes_describe(struct gate *g, const char *owner, const char *environment, json_t *shown)
{
    struct warm_boxes *n = g->warm_boxes;
    struct env_db *db = g->envs ? g->envs->db : NULL;
    struct family *f = n ? find_family(n, owner, environment) : NULL;
    struct preload p = {0};
    struct warm_box *b;
    unsigned ready = 0;
    uint64_t bytes = 0;
    if (f)
        load(f);
    json_auto_t *said = f    ? preload_json(&f->preload)
                        : db ? env_db_get_preload(db, owner, environment)
                             : NULL;
    preload_read(&p, said);
    for (b = f ? TAILQ_FIRST(&f->boxes) : NULL; b; b = TAILQ_NEXT(b, list)) {
        ready += b->stage == WARM_BOX_READY;
        bytes += b->stage == WARM_BOX_READY ? b->bytes : 0;
    }
    (void)json_object_set_new(shown, "preload",
                              p.declared ? json_incref(p.declared) : json_array());
    (void)json_object_set_new(shown, "learned", preload_learned(&p));
    (void)json_object_set_new(shown, "warm",
                              json_pack("{s:i, s:I, s:s*}", "boxes", (int)ready, "memory_bytes",
                                        (json_int_t)bytes, "problem",
                                        f && f->reason[0] ? f->reason : NULL));
    preload_clear(&p);
}

// ---- the beginning and the end ------------------------------------------------------------------

void warm_boxes_open(struct gate *g)
{
    const struct config *c = g->facts->config;
    // Under a server-wide policy every import is checked first: nothing is preloaded.
    if (!c->warm_boxes || !g->sessions || code_policy_mode(c) != CODE_OPEN)
        return;
    struct warm_boxes *n = calloc(1, sizeof *n);
    if (!n) {
        log_line(LOG_WARN, "out of memory: there are no warm boxes");
        return;
    }
    n->gate = g;
    n->config = c;
    n->limits = keeper_limits(c);
    n->limits.isolation = ISOLATION_NATIVE;
    TAILQ_INIT(&n->families);
    g->warm_boxes = n;
    g->take_warm_box = warm_boxes_take;
}

void warm_boxes_close(struct gate *g)
{
    struct warm_boxes *n = TAKE_PTR(g->warm_boxes);
    if (!n)
        return;
    for (struct family *f; (f = TAILQ_FIRST(&n->families));) {
        warm_box_drop_all(f);
        f->unsaved |= f->counted && f->loaded;
        family_free(f);
    }
    timer_stop(&n->tick);
    free(n);
}
