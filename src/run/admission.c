// SPDX-License-Identifier: Apache-2.0
//
// admission: see admission.h.  Called by run.c in the gate.

#include "run/admission.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/gate.h"

struct admitted {
    char owner[65];
    unsigned count;
    LIST_ENTRY(admitted) list;
};

// How many of --runs only owners below their share get.
static unsigned last_quarter(const struct gate *g)
{
    if (g->owners < 2 || g->runs_max < 2)
        return 0;
    return g->runs_max / 4 ? g->runs_max / 4 : 1;
}

static unsigned share_of(const struct gate *g)
{
    unsigned share = g->owners < 2 ? 0 : last_quarter(g) / (g->owners - 1);
    return share ? share : 1;
}

unsigned admission_most(const struct gate *g)
{
    return g->runs_max - last_quarter(g);
}

static struct admitted *find(const struct gate *g, const char *owner)
{
    struct admitted *p;
    LIST_FOREACH (p, &g->holders, list)
        if (strcmp(p->owner, owner) == 0)
            return p;
    return NULL;
}

int admission_check(const struct gate *g, const char *owner, struct err *e)
{
    const struct admitted *p = find(g, owner);
    unsigned used = g->admitted, count = p ? p->count : 0;
    if (!g->runs_max)
        return 0;
    if (used >= g->runs_max)
        return err_set(e, ERR_BUSY, 0,
                       "run it again when others have ended; the operator can raise --runs",
                       "%u runs are going on already", g->runs_max);
    if (!owner[0] || g->runs_max - used > last_quarter(g) || count < share_of(g))
        return 0;
    return err_set(e, ERR_BUSY, 0,
                   "wait for one of your runs, or cancel one; the operator can raise --runs",
                   "your key has used up its share: %u of its runs are going on, and the rest of "
                   "--runs is reserved for other keys",
                   count);
}

int admission_take(struct gate *g, const char *owner, struct admitted **ret, struct err *e)
{
    int r = admission_check(g, owner, e);
    if (r < 0)
        return r;
    struct admitted *p = find(g, owner);
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            return err_memory(e);
        snprintf(p->owner, sizeof p->owner, "%s", owner);
        LIST_INSERT_HEAD(&g->holders, p, list);
    }
    p->count++;
    g->admitted++;
    *ret = p;
    return 0;
}

void admission_return(struct gate *g, struct admitted **p)
{
    struct admitted *holder = *p;
    *p = NULL;
    if (!holder)
        return;
    g->admitted--;
    if (--holder->count)
        return;
    LIST_REMOVE(holder, list);
    free(holder);
}
