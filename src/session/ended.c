// SPDX-License-Identifier: Apache-2.0
//
// ended_session: see ended.h.  Each ring overwrites its oldest entry.  Only a lookup of a session
// that is not open searches a ring, newest first.

#include "session/ended.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ended_session {
    char id[SESSION_ID_SIZE];
    char name[SESSION_NAME_MAX + 1];
    char owner[65];
    enum session_end why;
    uint32_t isolation;
    int64_t when_ms;
};

struct ring {
    uint64_t count; // ever written
    struct ended_session entries[ENDED_SESSIONS_MAX];
};

struct ended_sessions {
    struct ring rings[ENDED_SESSIONS_RINGS];
};

static unsigned ring_of(const char *owner)
{
    uint32_t h = 2166136261u;
    for (; *owner; owner++)
        h = (h ^ (unsigned char)*owner) * 16777619u;
    return h % ENDED_SESSIONS_RINGS;
}

struct ended_sessions *ended_sessions_new(void)
{
    return calloc(1, sizeof(struct ended_sessions));
}

void ended_sessions_free(struct ended_sessions *all)
{
    free(all);
}

void ended_session_add(struct ended_sessions *all, const char *owner, const char *id,
                       const char *name, enum session_end why, int64_t now_ms)
{
    struct ring *r = &all->rings[ring_of(owner)];
    struct ended_session *e = &r->entries[r->count++ % ENDED_SESSIONS_MAX];
    *e = (struct ended_session){.why = why, .when_ms = now_ms};
    snprintf(e->id, sizeof e->id, "%s", id);
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->owner, sizeof e->owner, "%s", owner);
}

// The n-th newest; NULL: there are no more.
static const struct ended_session *nth(const struct ended_sessions *all, const char *owner,
                                       uint64_t n)
{
    const struct ring *r = &all->rings[ring_of(owner)];
    return n < r->count && n < ENDED_SESSIONS_MAX
               ? &r->entries[(r->count - 1 - n) % ENDED_SESSIONS_MAX]
               : NULL;
}

static const struct ended_session *find(const struct ended_sessions *all, const char *owner,
                                        const char *text)
{
    bool is_id = session_is_id(text);
    const struct ended_session *e;
    for (uint64_t n = 0; (e = nth(all, owner, n)); n++)
        if (strcmp(is_id ? e->id : e->name, text) == 0 && strcmp(e->owner, owner) == 0)
            return e;
    return NULL;
}

enum session_end ended_session_find(const struct ended_sessions *all, const char *owner,
                                    const char *text, int64_t *ret_ms)
{
    const struct ended_session *e = find(all, owner, text);
    if (!e)
        return SESSION_OPEN;
    *ret_ms = e->when_ms;
    return e->why;
}

void ended_session_note_isolation(struct ended_sessions *all, const char *owner, uint32_t isolation)
{
    struct ring *r = &all->rings[ring_of(owner)];
    if (r->count)
        r->entries[(r->count - 1) % ENDED_SESSIONS_MAX].isolation = isolation;
}

uint32_t ended_session_isolation(const struct ended_sessions *all, const char *owner,
                                 const char *text)
{
    const struct ended_session *e = text[0] ? find(all, owner, text) : NULL;
    return e && e->why != SESSION_CLOSED ? e->isolation : 0;
}

json_t *ended_sessions_json(const struct ended_sessions *all, const char *owner, int64_t now_ms)
{
    json_t *list = json_array();
    const struct ended_session *e;
    for (uint64_t n = 0; json_array_size(list) < ENDED_SESSIONS_SHOWN && (e = nth(all, owner, n));
         n++)
        if (strcmp(e->owner, owner) == 0)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:o, s:s, s:s, s:f}", "session", e->id, "name",
                                e->name[0] ? json_string(e->name) : json_null(), "end",
                                session_end_codes[e->why], "reason", session_end_words[e->why],
                                "seconds_ago", (double)(now_ms - e->when_ms) / 1000));
    return list;
}
