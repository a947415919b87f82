// SPDX-License-Identifier: Apache-2.0
//
// epitaph: which sessions there were and why they ended, so that whoever asks for one is told what
// became of it.  In memory, the last few thousand; called by session.c.

#ifndef CONSTRICTOR_SESSION_ENDED_H
#define CONSTRICTOR_SESSION_ENDED_H

#include <jansson.h>
#include <stdint.h>

#include "session/session.h"

// Several rings, by owner: one key that opens and closes sessions all day cannot push out all
// others'.
enum { EPITAPH_RINGS = 16, EPITAPHS_MAX = 256, EPITAPHS_SHOWN = 20 };

struct epitaphs;

struct epitaphs *epitaphs_new(void);
void epitaphs_free(struct epitaphs *all);

// Times are since 1970.
void epitaph_add(struct epitaphs *all, const char *owner, const char *id, const char *name,
                 enum session_end why, int64_t now_ms);
// By handle or by name, of this owner, the newest; SESSION_OPEN: never heard of it.
enum session_end epitaph_find(const struct epitaphs *all, const char *owner, const char *text,
                              int64_t *ret_ms);
// The newest of an owner: [{"session", "name", "end", "reason", "seconds_ago"}]: new.
json_t *epitaphs_json(const struct epitaphs *all, const char *owner, int64_t now_ms);

#endif
