// SPDX-License-Identifier: Apache-2.0
//
// adopt: writes the ledger (wire/ledger.h) for session.c and shared_box.c.  A gate that replaces a
// crashed one reads it and takes over the boxes that the keeper kept; their sessions go on.

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "net/rules.h"
#include "run/network.h"
#include "session/session_internal.h"

enum { ADOPT_MS = 5000 };

// ---- the ledger ---------------------------------------------------------------------------------

void ledger_open_entry(struct session *s)
{
    struct sessions *all = s->all;
    if (!all->ledger || s->entry || !all->free_entry_count)
        return; // a session without an entry does not outlive the gate
    s->entry = &all->ledger->entries[all->free_entries[--all->free_entry_count]];
}

static void write_network(const struct session *s, struct ledger_entry *e)
{
    json_t *rules = s->plan.network;
    e->network_kind = !s->networked           ? LEDGER_NETWORK_OFF
                      : json_is_object(rules) ? LEDGER_NETWORK_SOME
                      : json_is_false(rules)  ? LEDGER_NETWORK_LOST
                                              : LEDGER_NETWORK_KEY;
    e->network[0] = '\0';
    if (e->network_kind != LEDGER_NETWORK_SOME)
        return;
    size_t n = json_dumpb(rules, e->network, sizeof e->network - 1, JSON_COMPACT);
    if (n == 0 || n > sizeof e->network - 1)
        e->network_kind = LEDGER_NETWORK_LOST; // SECURITY: cut rules would allow something else
    else
        e->network[n] = '\0';
}

void ledger_write(struct session *s)
{
    struct ledger_entry *e = s->entry;
    if (!e || !s->box)
        return;
    e->box = s->box->id;
    e->busy = s->shared_box->running || s->shared_box->draining;
    e->fork_number = s->fork_number;
    e->executions = s->executions;
    e->checkpoint = s->plan.checkpoint;
    write_network(s, e);
    e->idle_ms = s->plan.idle_ms;
    e->wall_ms = s->plan.wall_ms;
    e->cpu_ms = s->plan.cpu_ms;
    e->output_bytes = s->plan.output_bytes;
    e->created_ms = s->created_ms;
    e->used_ms = s->used_ms;
    snprintf(e->id, sizeof e->id, "%s", s->id);
    snprintf(e->name, sizeof e->name, "%s", s->plan.name);
    snprintf(e->owner, sizeof e->owner, "%s", s->owner);
    snprintf(e->environment, sizeof e->environment, "%s", s->plan.environment);
    atomic_store(&e->live, 1);
}

void ledger_free(struct session *s)
{
    struct ledger_entry *e = TAKE_PTR(s->entry);
    if (!e)
        return;
    atomic_store(&e->live, 0);
    s->all->free_entries[s->all->free_entry_count++] = (uint16_t)(e - s->all->ledger->entries);
}

// Only what changes with every run: it is called before and after each.
void ledger_touch(const struct session *s, bool busy)
{
    if (!s->entry)
        return;
    s->entry->busy = busy;
    s->entry->executions = s->executions;
    s->entry->used_ms = s->used_ms;
}

// ---- after a crash ------------------------------------------------------------------------------

static int by_box(const void *a, const void *b)
{
    const struct ledger_entry *const *x = a, *const *y = b;
    return (*x)->box < (*y)->box ? -1 : (*x)->box > (*y)->box;
}

// SECURITY: an attacker may have controlled the previous gate before it crashed.
static bool entry_is_sound(struct ledger_entry *e, uint64_t idle_max_ms)
{
    e->id[LEDGER_ID_SIZE - 1] = e->name[LEDGER_NAME_SIZE - 1] = e->owner[LEDGER_OWNER_SIZE - 1] =
        e->network[LEDGER_NETWORK_SIZE - 1] = '\0';
    return session_is_id(e->id) && strlen(e->id) < SESSION_ID_SIZE && strlen(e->owner) < 65 &&
           strlen(e->name) <= SESSION_NAME_MAX &&
           utf8_valid_length(e->name, strlen(e->name)) == strlen(e->name) && e->box &&
           e->network_kind < LEDGER_NETWORK_MAX && e->idle_ms <= idle_max_ms && e->wall_ms &&
           e->output_bytes;
}

// What the session may reach: a rule set, new.  An unreadable entry allows nothing.
static json_t *read_network(const struct ledger_entry *e, bool *ret_lost)
{
    struct net_rules rules = {0};
    json_t *said = NULL, *set = NULL;
    *ret_lost = e->network_kind == LEDGER_NETWORK_LOST;
    if (e->network_kind == LEDGER_NETWORK_KEY)
        return NULL;
    if (e->network_kind == LEDGER_NETWORK_SOME) {
        said = json_loads(e->network, 0, NULL);
        if (said && net_rules_from_json(said, &rules, NULL) == 0)
            set = net_rules_json(&rules);
        net_rules_done(&rules);
        json_decref(said);
        *ret_lost = !set;
    }
    return set ? set : json_false();
}

static void adopt_entry(struct shared_box *h, struct ledger_entry *e)
{
    struct sessions *all = h->all;
    // SECURITY: only a gate under an attacker's control writes the same name or id twice.
    if (session_lookup(all, e->owner, e->id) ||
        (e->name[0] && session_lookup(all, e->owner, e->name)))
        return;
    struct session_plan plan = {.limits = h->box->limits,
                                .idle_ms = e->idle_ms,
                                .wall_ms = e->wall_ms,
                                .cpu_ms = e->cpu_ms,
                                .output_bytes = e->output_bytes,
                                .checkpoint = e->checkpoint != 0};
    bool lost;
    snprintf(plan.name, sizeof plan.name, "%s", e->name);
    e->environment[sizeof e->environment - 1] = '\0';
    snprintf(plan.environment, sizeof plan.environment, "%.64s", e->environment);
    plan.network = read_network(e, &lost);
    struct session *s = session_new(all, e->owner, &plan);
    json_decref(plan.network);
    if (!s)
        return;
    s->networked = e->network_kind != LEDGER_NETWORK_OFF && all->gate->network;
    s->network_lost = lost;
    s->had_path = true; // the ledger does not say
    snprintf(s->id, sizeof s->id, "%s", e->id);
    s->fork_number = e->fork_number;
    s->executions = e->executions;
    s->created_ms = e->created_ms;
    s->files_writes = UINT32_MAX; // this gate does not know the files in scratch
    if (e->fork_number >= h->next_fork)
        h->next_fork = e->fork_number + 1;
    s->entry = e;
    session_settle(h, s);
    if (session_has_saved(all->gate, s->owner, s->id))
        session_note_saved(s);
    session_become_idle(s);
}

void shared_box_adopt(const struct wire_adopt *m, const int *fds, void *argument)
{
    struct sessions *all = argument;
    bool busy = false;
    unsigned first = 0;
    if (!m->box) {
        all->adopted = true;
        return;
    }
    while (first < all->entry_count && all->entries[first]->box != m->box)
        first++;
    struct shared_box *h = first < all->entry_count ? shared_box_new(all) : NULL;
    if (h)
        h->box = live_new(all->gate, m->box, &m->limits, true, fds[0]);
    else
        (void)close(fds[0]);
    if (!h || !h->box) {
        free(h);
        link_give_back(&all->gate->link, m->box); // no session has it, or memory is out
        return;
    }
    link_hold(&all->gate->link, h->box);
    h->active = UINT32_MAX; // the ledger does not say
    h->box->reader.resync = true;
    for (unsigned i = first; i < all->entry_count && all->entries[i]->box == m->box; i++) {
        busy |= all->entries[i]->busy != 0;
        adopt_entry(h, all->entries[i]);
    }
    if (TAILQ_EMPTY(&h->forks)) {
        link_give_back(&all->gate->link, m->box);
        shared_box_free(h);
    } else if (busy) {
        shared_box_drain(h);
    } else {
        shared_box_rest(h);
    }
}

// An entry without a session lost its box: it becomes an ended_session.
static void end_lost(struct sessions *all)
{
    for (unsigned i = 0; i < all->entry_count; i++) {
        struct ledger_entry *e = all->entries[i];
        struct session *s = session_lookup(all, e->owner, e->id);
        if (s && s->entry == e)
            continue;
        ended_session_add(all->ended_sessions, e->owner, e->id, e->name, SESSION_LOST,
                          session_now_ms());
        atomic_store(&e->live, 0);
        all->free_entries[all->free_entry_count++] = (uint16_t)(e - all->ledger->entries);
    }
    all->entry_count = 0;
}

int sessions_adopt(struct gate *g, struct err *e)
{
    struct sessions *all = g->sessions;
    int64_t until_ms = clock_ms() + ADOPT_MS;
    if (!g->facts->restarts)
        return 0;
    while (!all->adopted && clock_ms() < until_ms && !g->link.lost) {
        struct pollfd p = {.fd = g->link.sock, .events = POLLIN};
        (void)poll(&p, 1, 50);
        link_read(&g->link);
    }
    if (!all->adopted)
        return err_set(e, ERR_INTERNAL, 0, NULL, "the keeper did not hand over its sessions");
    end_lost(all);
    log_line(LOG_WARN, "%u sessions go on", all->count);
    return 0;
}

void ledger_read(struct sessions *all)
{
    const uint64_t idle_max_ms = 7ULL * 24 * TEXT_HOUR_MS;
    for (unsigned i = LEDGER_ENTRIES; i-- > 0;) {
        struct ledger_entry *e = &all->ledger->entries[i];
        if (atomic_load(&e->live) && entry_is_sound(e, idle_max_ms)) {
            all->entries[all->entry_count++] = e;
        } else {
            atomic_store(&e->live, 0);
            all->free_entries[all->free_entry_count++] = (uint16_t)i;
        }
    }
    qsort(all->entries, all->entry_count, sizeof all->entries[0], by_box);
}
