// SPDX-License-Identifier: Apache-2.0
//
// history: what was run in a session and what came of it, for its report and its share link
// (rest/share.c).  It outlives the session, and ends with the server.
//
//   1. A history has at most HISTORY_BYTES; its oldest entries go first, and are counted.
//   2. All histories have at most HISTORIES_MAX sessions and HISTORIES_BYTES: a new one pushes out
//      the oldest of the same owner, or without one the oldest of all.
//   3. Texts and pictures are kept as the code made them: rest/report.c escapes them.

#ifndef CONSTRICTOR_EXEC_HISTORY_H
#define CONSTRICTOR_EXEC_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    HISTORY_BYTES = 4 << 20,
    HISTORY_ENTRIES = 500,
    HISTORIES_MAX = 512,
    HISTORIES_BYTES = 64 << 20,
    HISTORY_CODE_MAX = 64 << 10, // bytes of one entry's texts
    HISTORY_OUTPUT_MAX = 64 << 10,
    HISTORY_TEXT_MAX = 16 << 10,
    HISTORY_PICTURE_MAX = 1 << 20,
};

struct histories;
struct run;
struct session;

struct history_run {
    const char *owner, *session, *code;
    size_t code_length;
    bool undo; // the session went back
    const struct run *run;
    json_t *object; // its result
};

struct histories *histories_new(void); // NULL: memory is out
void histories_free(struct histories *h);

// A run in a session is over.
void history_note(struct histories *h, const struct history_run *r);
// A fork begins with the history of its session.
void history_fork(struct histories *h, const struct session *s, const struct session *fork);

// By handle or by the name that the session had last: {"session", "name", "omitted", "runs":
// [{"number", "at", "code", "stdout", "stderr", "result", "error", "verdict", "cut", "pictures":
// [{"type", "data"}]}]}, the oldest run first; new.  NULL: there is none, or memory is out.
json_t *history_json(const struct histories *h, const char *owner, const char *session);

#endif
