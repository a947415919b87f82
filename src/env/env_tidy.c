// SPDX-License-Identifier: Apache-2.0
//
// env_tidy: removes unused wheels: those that no environment has had for a while, and those that a
// killed server left without a row.  Runs in the gate, every EVERY_MS and before an installation
// that needs space.
//
// Invariants:
//   (1) nothing is removed while an installation runs, here or on another server, because it may be
//       about to use it; and none begins until what is removed is gone (env_share_wheels()).
//   (2) a wheel that no environment names any more stays until every session and run that began
//       before that moment has ended: their interpreters may still import from its folder.  Each
//       server writes down a time before its oldest session and run.  An old value is too early,
//       never too late, so at worst a wheel stays longer.

#include <string.h>

#include "base/log.h"
#include "env/env_jobs.h"
#include "run/run.h"

enum {
    FIRST_MS = 3000,
    EVERY_MS = 10 * 60 * 1000,
    UNUSED_MS = 24 * 60 * 60 * 1000, // a wheel that no environment has
    ROUND_MAX = 64,
};
static const int64_t set_unused_ms = INT64_C(30) * 24 * 60 * 60 * 1000;

bool env_lock_wheels(struct envs *v)
{
    return env_share_wheels(&v->share, v->removing ? ENV_WHEELS_REMOVE
                                       : v->active ? ENV_WHEELS_USE
                                                   : ENV_WHEELS_FREE);
}

// Before anything is removed; false: another server installs, or removes.  done_removing() follows.
static bool begin_removing(struct envs *v)
{
    v->removing++;
    if (env_lock_wheels(v))
        return true;
    v->removing--;
    return false;
}

static void done_removing(struct envs *v)
{
    if (--v->removing)
        return;
    (void)env_lock_wheels(v);
    env_jobs_start_soon(v);
}

static void on_dropped(const json_t *said, const struct err *error, void *argument)
{
    (void)said, (void)error;
    done_removing(argument);
}

static void drop(struct envs *v, const char *id)
{
    json_t *o = json_pack("{s:s, s:s}", "op", "drop", "wheel", id);
    v->removing++;
    if (!o || !env_porter_ask(v->gate, o, -1, on_dropped, v))
        done_removing(v); // a wheel without a row is swept later
}

// Since when this server has runs and sessions.
static int64_t oldest_ms(const struct envs *v)
{
    int64_t runs_ms = env_now_ms() - 2 * (int64_t)v->gate->facts->config->timeout_max_ms,
            sessions_ms = v->gate->sessions ? v->gate->session_ops->oldest_ms(v->gate) : INT64_MAX;
    return runs_ms < sessions_ms ? runs_ms : sessions_ms;
}

// The same of all servers that live; forgets the others.
static int64_t oldest_of_all_ms(struct envs *v)
{
    int64_t oldest = oldest_ms(v);
    json_t *all = env_db_servers(v->db), *item;
    size_t i;
    json_array_foreach (all, i, item) {
        unsigned number = (unsigned)json_integer_value(json_array_get(item, 0));
        int64_t other = json_integer_value(json_array_get(item, 1));
        if (number == v->share.number)
            continue;
        if (!env_share_is_alive(&v->share, number))
            env_db_drop_server(v->db, number);
        else if (other < oldest)
            oldest = other;
    }
    json_decref(all);
    return oldest;
}

// Returns how many were removed.
static size_t remove_orphans(struct envs *v, int64_t before_ms)
{
    char ids[ROUND_MAX][ENV_WHEEL_ID + 1];
    int64_t oldest = oldest_of_all_ms(v);
    if (before_ms > oldest)
        before_ms = oldest;
    size_t n = env_db_orphans(v->db, before_ms, ids, ROUND_MAX), removed = 0;
    for (size_t i = 0; i < n; i++)
        if (env_db_remove_wheel(v->db, ids[i], NULL) == 0) {
            drop(v, ids[i]); // after its row: a wheel without a row only takes space
            removed++;
        }
    return removed;
}

int env_make_room(struct envs *v, uint64_t bytes, struct err *e)
{
    uint64_t most = v->gate->facts->config->env_quota_bytes;
    if (env_db_wheel_bytes(v->db) + bytes > most && v->active <= 1 && begin_removing(v)) {
        while (env_db_wheel_bytes(v->db) + bytes > most && remove_orphans(v, INT64_MAX) > 0)
            ;
        done_removing(v);
    }
    if (env_db_wheel_bytes(v->db) + bytes <= most)
        return 0;
    return err_set(e, ERR_QUOTA, 0,
                   "delete environments that are not used; the operator sets --env-quota",
                   "there is no space for %llu bytes of packages", (unsigned long long)bytes);
}

// ---- what a killed server left ------------------------------------------------------------------

static void sweep(struct envs *v, const char *after);

static void on_listed(const json_t *said, const struct err *error, void *argument)
{
    struct envs *v = argument;
    json_t *found = json_object_get(said, "wheels"), *item;
    const char *last = NULL;
    size_t i;
    v->sweeping = NULL;
    if (error) { // the next round tries again
        done_removing(v);
        return;
    }
    json_array_foreach (found, i, item) {
        const char *id = json_string_value(item);
        if (!id)
            continue;
        last = id;
        if (!env_db_has_wheel(v->db, id))
            drop(v, id);
    }
    if (json_is_true(json_object_get(said, "more")) && last)
        sweep(v, last);
    else
        v->swept = true;
    done_removing(v);
}

static void sweep(struct envs *v, const char *after)
{
    json_t *o = json_pack("{s:s, s:s}", "op", "list", "after", after);
    if (o && (v->sweeping = env_porter_ask(v->gate, o, -1, on_listed, v)))
        v->removing++;
}

static void on_tidy(void *argument)
{
    struct envs *v = argument;
    int64_t now_ms = env_now_ms();
    (void)env_db_put_server(v->db, v->share.number, oldest_ms(v));
    env_end_left_jobs(v, false);
    if (!v->active && begin_removing(v)) {
        if (env_db_forget_sets(v->db, now_ms - set_unused_ms, now_ms) > 0)
            env_forget_paths(v);
        (void)remove_orphans(v, now_ms - UNUSED_MS);
        if (!v->swept && !v->sweeping)
            sweep(v, "");
        done_removing(v);
    }
    (void)timer_set(&v->tidy, v->gate->base, EVERY_MS, on_tidy, v);
}

void env_tidy_open(struct envs *v)
{
    if (!timer_set(&v->tidy, v->gate->base, FIRST_MS, on_tidy, v))
        log_line(LOG_WARN, "out of memory: unused wheels are not removed");
}

void env_tidy_close(struct envs *v)
{
    if (v->sweeping)
        env_porter_forget(v->sweeping);
    v->sweeping = NULL;
    timer_stop(&v->tidy);
}
