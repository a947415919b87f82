// SPDX-License-Identifier: Apache-2.0
//
// rate: see rate.h.  Each owner has one time, `due_us`: when its runs would all have started, had
// they started at an even pace.  Once that time has passed, the owner's row can be used again.
//
// SECURITY: the memory is fixed, however many keys and tokens come.  When all rows of a bucket are
// in use, the row that is due first is taken.  Filling a bucket takes as many keys as it has rows.

#include "run/rate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MINUTE_US = 60000000, ROWS = 1024, BUCKET = 16 };

struct row {
    char owner[65];
    int64_t due_us;
};

struct rates {
    unsigned per_minute;
    int64_t pace_us; // between two runs
    struct row rows[ROWS];
};

struct rates *rates_new(unsigned per_minute)
{
    struct rates *r = per_minute ? calloc(1, sizeof *r) : NULL;
    if (r)
        *r = (struct rates){.per_minute = per_minute, .pace_us = MINUTE_US / per_minute};
    return r;
}

// The first row of the bucket: FNV-1a.
static size_t bucket_of(const char *owner)
{
    uint32_t hash = 2166136261U;
    for (const char *p = owner; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    return hash % (ROWS / BUCKET) * BUCKET;
}

// The owner's row, or the one to use for it.
static const struct row *find(const struct rates *r, const char *owner)
{
    const struct row *rows = &r->rows[bucket_of(owner)], *found = rows;
    for (size_t i = 0; i < BUCKET; i++) {
        if (strcmp(rows[i].owner, owner) == 0)
            return &rows[i];
        if (rows[i].due_us < found->due_us)
            found = &rows[i];
    }
    return found;
}

static int64_t wait_us(const struct rates *r, const char *owner, int64_t now_us)
{
    const struct row *row = find(r, owner);
    if (strcmp(row->owner, owner) != 0 || row->due_us <= now_us)
        return 0;
    int64_t wait = row->due_us + r->pace_us - MINUTE_US - now_us;
    return wait > 0 ? wait : 0;
}

unsigned rates_wait_s(const struct rates *r, const char *owner, int64_t now_us)
{
    return r ? (unsigned)((wait_us(r, owner, now_us) + 999999) / 1000000) : 0;
}

int rates_take(struct rates *r, const char *owner, int64_t now_us, struct err *e)
{
    if (!r)
        return 0;
    unsigned wait_s = rates_wait_s(r, owner, now_us);
    if (wait_s) {
        (void)err_set(e, ERR_RATE, 0, NULL, "more than %u runs were started within a minute",
                      r->per_minute);
        err_hint(e, "try again in %u s; the operator can raise --rate", wait_s);
        return -1;
    }
    struct row *row = &r->rows[find(r, owner) - r->rows];
    bool known = strcmp(row->owner, owner) == 0 && row->due_us > now_us;
    int64_t from_us = known ? row->due_us : now_us;
    snprintf(row->owner, sizeof row->owner, "%s", owner);
    row->due_us = from_us + r->pace_us;
    return 0;
}
