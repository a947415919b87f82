// SPDX-License-Identifier: Apache-2.0
// look: what a page shows of a live session without changing it: variables, completions,
// signatures.

#ifndef CONSTRICTOR_REST_LOOK_H
#define CONSTRICTOR_REST_LOOK_H

#include "rest/call.h"

enum { LOOK_CODE_MAX = 1 << 20 }; // characters

// Looks at the session c->id, and calls `then` with what its box said: an object, borrowed.  Takes
// `look`; NULL: memory is out.  Answers the call if there is no session, if it is busy, or if the
// look fails.
void look_start(struct rest_call *c, json_t *look,
                void (*then)(struct rest_call *c, json_t *said, bool whole));

// A member of what a box says.  SECURITY: the box is hostile, and a page trusts the schema.
struct look_member {
    const char *name;
    char type; // s: string, i: integer, n: array of integers; in upper case it may also be null
};
// A member that is a number above 0; else 0.
json_int_t look_count(json_t *said, const char *name);
// A new array of objects with exactly these members; what does not fit is left out.
json_t *look_pick_all(json_t *list, const struct look_member *members, size_t most);
// The same for one object.  NULL: it does not fit, or memory is out.
json_t *look_pick(json_t *from, const struct look_member *members);

#endif
