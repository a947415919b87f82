// SPDX-License-Identifier: Apache-2.0
//
// check: is a source fine?  Syntax, policy, analysis, advice.  CPython's own parser looks at it, in
// a box, because a parser can be crashed; nothing of the source is executed.
//
// Each owner has a box for that which is kept for a while and looks at one source after the other.
// It is replaced after CHECK_BOX_USES sources, when it has been busy for long, and whenever it
// crashes or meets a limit: then the source that did it is not valid, with an error of type
// "ParserCrash".  Answers are remembered for CHECK_KEEP_MS, for the same owner.
//
// Runs in the gate, on its event loop.  Called by mcp/tools/tool_check.c, rest/validate.c,
// cli/check.c.

#ifndef CONSTRICTOR_CHECK_CHECK_H
#define CONSTRICTOR_CHECK_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/timer.h"

struct gate;
struct checker; // check.c: a box and those who wait for it

enum {
    CHECK_WALL_MS = 10000,        // of one source
    CHECK_BOX_USES = 200,         // sources that one box looks at
    CHECK_BUSY_MS = 20000,        // after so much work it is replaced as well
    CHECK_IDLE_MS = 30000,        // without work it is given back
    CHECK_BOXES_MAX = 32,         // at one time
    CHECK_QUEUE_MAX = 64,         // sources that wait for one box
    CHECK_WAITING_MAX = 64 << 20, // bytes of all sources that wait
    CHECK_KEEP_MS = 60000,        // answers
    CHECK_CACHE_MAX = 8 << 20,    // bytes of them, as they came
};

struct check {
    struct gate *gate;
    json_t *answer;   // in on_done: the object, borrowed and not to be changed; NULL: see error
    struct err error; // message[0] != 0: the source could not be looked at, and why
    void *argument;
    // check.c
    void (*on_done)(struct check *c);
    struct checker *checker;   // waits there, or is looked at
    struct policy_wait *layer; // what its policy needs is made ready
    char owner[65];
    json_t *policy;
    bool lint, from_file;
    char *source, *meta; // meta: JSON
    size_t length, meta_length;
    unsigned char key[32];
    bool again; // it has been tried before, in a box that was not fresh
    struct timer soon;
    TAILQ_ENTRY(check) list;
};

struct check_request {
    const char *owner;
    const char *source; // any bytes; copied
    size_t length;
    json_t *policy; // of code_policy_make(), borrowed
    bool lint;
    bool from_file; // an encoding that it declares is true; in text it means nothing
    void (*on_done)(struct check *c); // may free it
    void *argument;
};

// on_done comes later, always, exactly once, unless it is freed before.  NULL: memory is out.
struct check *check_start(struct gate *g, const struct check_request *request);
void check_free(struct check *c); // nobody wants it any more, or it is done; fine with NULL

void checks_close(struct gate *g); // all boxes; whoever waits is forgotten

// ---- check_answer.c -----------------------------------------------------------------------------

// What a box said becomes the object: fields by name and type, everything else is dropped.  NULL:
// it is no answer.  SECURITY: a box whose parser was taken over lies about its owner's own source,
// in a known shape.
json_t *check_take(json_t *report);
// For a source that the parser did not survive; `why` in words.
json_t *check_crashed(const char *source, size_t length, const char *why, const char *python);

// ---- check_cache.c ------------------------------------------------------------------------------

struct check_cache;
struct check_cache *check_cache_new(void);
void check_cache_free(struct check_cache *m);
// 0, or -1: there is no hash.  Parts are told apart by their lengths.
int check_cache_key(const char *const parts[], const size_t lengths[], size_t count,
                    unsigned char ret[32]);
json_t *check_cache_get(struct check_cache *m, const unsigned char key[32],
                        int64_t now_ms); // borrowed
void check_cache_put(struct check_cache *m, const unsigned char key[32], json_t *answer,
                     size_t size, int64_t now_ms);
size_t check_cache_bytes(const struct check_cache *m);

#endif
