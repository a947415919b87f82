// SPDX-License-Identifier: Apache-2.0
//
// ended_session: which sessions ended and why, so that using one later returns the reason.  In
// memory, the last few thousand; called by session.c.

#ifndef CONSTRICTOR_SESSION_ENDED_H
#define CONSTRICTOR_SESSION_ENDED_H

#include <jansson.h>
#include <stdint.h>

#include "session/session.h"

// Several rings, by owner: one key that opens and closes sessions all day cannot push out the
// entries of all others.
enum { ENDED_SESSIONS_RINGS = 16, ENDED_SESSIONS_MAX = 256, ENDED_SESSIONS_SHOWN = 20 };

struct ended_sessions;

struct ended_sessions *ended_sessions_new(void);
void ended_sessions_free(struct ended_sessions *all);

// Times are since 1970.
void ended_session_add(struct ended_sessions *all, const char *owner, const char *id,
                       const char *name, enum session_end why, int64_t now_ms);
// What the box of the one that was added last for this owner ran in: enum wire_isolation.
void ended_session_note_isolation(struct ended_sessions *all, const char *owner,
                                  uint32_t isolation);
// Of the newest of this owner with that handle or name, unless it was closed.
uint32_t ended_session_isolation(const struct ended_sessions *all, const char *owner,
                                 const char *text);
// The newest of this owner with that handle or name; SESSION_OPEN: there is none.
enum session_end ended_session_find(const struct ended_sessions *all, const char *owner,
                                    const char *text, int64_t *ret_ms);
// The newest of an owner: [{"session", "name", "end", "reason", "seconds_ago"}]: new.
json_t *ended_sessions_json(const struct ended_sessions *all, const char *owner, int64_t now_ms);

#endif
