// SPDX-License-Identifier: Apache-2.0
//
// background: see background.h.

#include "exec/background.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "run/gate.h"

enum { TTL_MS = 3600 * 1000, RUNS_MAX = 256 };

struct backgrounds {
    TAILQ_HEAD(, background) list; // oldest first
    unsigned count;
};

static struct background *first(const struct gate *g)
{
    return g && g->backgrounds ? TAILQ_FIRST(&g->backgrounds->list) : NULL;
}

// At most BACKGROUND_MAX entries, so there is no timer: every lookup expires old ones.
static void expire(struct gate *g)
{
    int64_t now_ms = clock_ms();
    for (struct background *b = first(g), *next; b; b = next) {
        next = TAILQ_NEXT(b, entry);
        if (b->done && b->end_ms <= now_ms)
            b->drop(b);
    }
}

static unsigned count_of(const struct gate *g, const char *owner, bool running)
{
    unsigned n = 0;
    for (const struct background *b = first(g); b; b = TAILQ_NEXT(b, entry))
        n += (!owner || strcmp(b->owner, owner) == 0) && !(running && b->done);
    return n;
}

unsigned background_going_on(const struct gate *g, const char *owner)
{
    return count_of(g, owner, true);
}

unsigned background_most(const struct gate *g)
{
    unsigned most = g && g->runs_max ? g->runs_max - g->runs_max / 4 : RUNS_MAX;
    return most < BACKGROUND_MAX ? most : BACKGROUND_MAX;
}

// With several owners, none gets more than half.
static unsigned share_of(const char *owner, unsigned all)
{
    return owner[0] ? (all + 1) / 2 : all;
}

// The oldest result of `owner`; with NULL, of the owner that has most.
static struct background *find_oldest(struct gate *g, const char *owner)
{
    struct background *best = NULL;
    unsigned most = 0;
    for (struct background *b = first(g); b; b = TAILQ_NEXT(b, entry)) {
        if (!b->done || (owner && strcmp(b->owner, owner) != 0))
            continue;
        if (owner)
            return b;
        unsigned count = count_of(g, b->owner, false);
        if (count > most) {
            best = b;
            most = count;
        }
    }
    return best;
}

static bool make_room(struct gate *g, const char *owner)
{
    struct background *oldest = NULL;
    expire(g);
    if (count_of(g, owner, false) >= share_of(owner, BACKGROUND_MAX))
        oldest = find_oldest(g, owner);
    else if (count_of(g, NULL, false) < BACKGROUND_MAX)
        return true;
    else
        oldest = find_oldest(g, NULL);
    if (oldest)
        oldest->drop(oldest);
    return oldest != NULL;
}

int background_admit(struct gate *g, const char *owner, struct err *e)
{
    unsigned own = count_of(g, owner, true);
    if (own < share_of(owner, background_most(g)) && make_room(g, owner))
        return 0;
    return err_set(e, ERR_BUSY, 0, "wait for one of them, or run it in the foreground",
                   "%u of your runs are going on in the background already", own);
}

int background_add(struct background *b)
{
    struct gate *g = b->gate;
    if (!g->backgrounds && (g->backgrounds = calloc(1, sizeof *g->backgrounds)))
        TAILQ_INIT(&g->backgrounds->list);
    if (!g->backgrounds)
        return -1;
    TAILQ_INSERT_TAIL(&g->backgrounds->list, b, entry);
    g->backgrounds->count++;
    return 0;
}

void background_end(struct background *b)
{
    b->done = true;
    b->end_ms = clock_ms() + TTL_MS;
}

void background_remove(struct background *b)
{
    struct gate *g = b->gate;
    TAILQ_REMOVE(&g->backgrounds->list, b, entry);
    if (--g->backgrounds->count == 0)
        free(TAKE_PTR(g->backgrounds));
}

struct background *background_next(struct gate *g, const char *owner, struct background *b,
                                   void (*drop)(struct background *b))
{
    if (!b)
        expire(g);
    for (b = b ? TAILQ_NEXT(b, entry) : first(g); b; b = TAILQ_NEXT(b, entry))
        if (b->drop == drop && strcmp(b->owner, owner) == 0)
            return b;
    return NULL;
}

struct background *background_find(struct gate *g, const char *owner, const char *id,
                                   void (*drop)(struct background *b))
{
    struct background *b = NULL;
    while ((b = background_next(g, owner, b, drop)) && strcmp(b->id, id) != 0)
        ;
    return b;
}

struct background *background_any(struct gate *g, void (*drop)(struct background *b))
{
    struct background *b = first(g);
    while (b && b->drop != drop)
        b = TAILQ_NEXT(b, entry);
    return b;
}
