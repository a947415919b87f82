// SPDX-License-Identifier: Apache-2.0
//
// denials: see denials.h.  Runs in the gate.

#include "run/denials.h"

#include <stdlib.h>

#include "box/denial.h"

static void add(uint64_t *to, uint64_t count)
{
    *to = count > (uint64_t)INT64_MAX - *to ? (uint64_t)INT64_MAX : *to + count;
}

void denials_note(struct denials **all, const struct wire_denied *m)
{
    struct denials *a = *all;
    if (!a)
        a = *all = calloc(1, sizeof *a);
    if (!a)
        return;
    if (m->nr == WIRE_DENIED_OMITTED) {
        add(&a->omitted, m->count);
        return;
    }
    for (unsigned i = 0; i < a->count; i++)
        if (a->rows[i].nr == m->nr && a->rows[i].detail == m->detail) {
            add(&a->rows[i].count, m->count);
            return;
        }
    if (a->count == DENIALS_MAX) {
        add(&a->omitted, m->count);
        return;
    }
    a->rows[a->count].nr = m->nr;
    a->rows[a->count].detail = m->detail;
    a->rows[a->count].count = 0;
    add(&a->rows[a->count++].count, m->count);
}

json_t *denials_events(const struct denials *all)
{
    json_t *events = json_array();
    for (unsigned i = 0; all && i < all->count; i++) {
        char target[DENIAL_TEXT];
        denial_text(all->rows[i].nr, all->rows[i].detail, target);
        (void)json_array_append_new(events,
                                    json_pack("{s:s, s:s, s:s, s:s, s:I}", "kind", "syscall",
                                              "target", target, "layer", "seccomp", "hint",
                                              denial_hint(all->rows[i].nr, all->rows[i].detail),
                                              "count", (json_int_t)all->rows[i].count));
    }
    return events;
}
