// SPDX-License-Identifier: Apache-2.0
//
// epitaph: see epitaph.h.  In a ring the oldest is overwritten.  Only a question for a session that
// is not there looks through one, and that from the newest on.

#include "session/ended.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct epitaph {
    char id[SESSION_ID_SIZE];
    char name[SESSION_NAME_MAX + 1];
    char owner[65];
    enum session_end why;
    int64_t when_ms;
};

struct ring {
    uint64_t count; // that were ever written
    struct epitaph places[EPITAPHS_MAX];
};

struct epitaphs {
    struct ring rings[EPITAPH_RINGS];
};

static unsigned ring_of(const char *owner)
{
    uint32_t h = 2166136261u;
    for (; *owner; owner++)
        h = (h ^ (unsigned char)*owner) * 16777619u;
    return h % EPITAPH_RINGS;
}

struct epitaphs *epitaphs_new(void)
{
    return calloc(1, sizeof(struct epitaphs));
}

void epitaphs_free(struct epitaphs *all)
{
    free(all);
}

void epitaph_add(struct epitaphs *all, const char *owner, const char *id, const char *name,
                 enum session_end why, int64_t now_ms)
{
    struct ring *r = &all->rings[ring_of(owner)];
    struct epitaph *e = &r->places[r->count++ % EPITAPHS_MAX];
    *e = (struct epitaph){.why = why, .when_ms = now_ms};
    snprintf(e->id, sizeof e->id, "%s", id);
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->owner, sizeof e->owner, "%s", owner);
}

// The n-th, the newest first; NULL: there are no more.
static const struct epitaph *nth(const struct epitaphs *all, const char *owner, uint64_t n)
{
    const struct ring *r = &all->rings[ring_of(owner)];
    return n < r->count && n < EPITAPHS_MAX ? &r->places[(r->count - 1 - n) % EPITAPHS_MAX] : NULL;
}

enum session_end epitaph_find(const struct epitaphs *all, const char *owner, const char *text,
                              int64_t *ret_ms)
{
    bool is_id = session_is_id(text);
    const struct epitaph *e;
    for (uint64_t n = 0; (e = nth(all, owner, n)); n++)
        if (strcmp(is_id ? e->id : e->name, text) == 0 && strcmp(e->owner, owner) == 0) {
            *ret_ms = e->when_ms;
            return e->why;
        }
    return SESSION_OPEN;
}

json_t *epitaphs_json(const struct epitaphs *all, const char *owner, int64_t now_ms)
{
    json_t *list = json_array();
    const struct epitaph *e;
    for (uint64_t n = 0; json_array_size(list) < EPITAPHS_SHOWN && (e = nth(all, owner, n)); n++)
        if (strcmp(e->owner, owner) == 0)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:o, s:s, s:s, s:f}", "session", e->id, "name",
                                e->name[0] ? json_string(e->name) : json_null(), "end",
                                session_end_codes[e->why], "reason", session_end_words[e->why],
                                "seconds_ago", (double)(now_ms - e->when_ms) / 1000));
    return list;
}
