// SPDX-License-Identifier: Apache-2.0
//
// check: checks a source without running it: syntax, policy, analysis, advice.  CPython's own
// parser reads it in a box, because hostile source can crash a parser.
//
// Each owner has one box, which checks one source after the other.  The box is replaced after
// CHECK_BOX_USES sources or CHECK_BUSY_MS of work, and when it crashes or meets a limit: then the
// source is not valid, with an error of type "ParserCrash".  Answers are cached for CHECK_KEEP_MS,
// for the same owner.
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
struct checker; // check.c: a box and the checks that wait for it

enum {
    CHECK_WALL_MS = 10000,        // of one source
    CHECK_BOX_USES = 200,         // sources that one box checks
    CHECK_BUSY_MS = 20000,        // of work, after which a box is replaced
    CHECK_IDLE_MS = 30000,        // after which an idle box is given back
    CHECK_BOXES_MAX = 32,         // at one time
    CHECK_QUEUE_MAX = 64,         // sources that wait for one box
    CHECK_WAITING_MAX = 64 << 20, // bytes of all sources that wait
    CHECK_KEEP_MS = 60000,        // for which an answer is cached
    CHECK_CACHE_MAX = 8 << 20,    // bytes of cached answers, as they came
};

struct check {
    struct gate *gate;
    json_t *answer;   // in on_done: the object, borrowed and not to be changed; NULL: see error
    struct err error; // message[0] != 0: why the source could not be checked
    void *argument;
    // check.c
    void (*on_done)(struct check *c);
    struct checker *checker;  // where it waits or is checked
    struct policy_wait *wait; // the restricted package is installed; NULL: not awaited
    char owner[65];
    json_t *policy;
    bool lint, from_file;
    char *source, *meta; // meta: JSON
    size_t length, meta_length;
    unsigned char key[32];
    bool again; // second try, after a used box crashed
    struct timer soon;
    TAILQ_ENTRY(check) list;
};

struct check_request {
    const char *owner;
    const char *source; // any bytes; copied
    size_t length;
    json_t *policy; // of code_policy_make(), borrowed
    bool lint;
    bool from_file; // bytes of a file, so its encoding declaration counts; else it is ignored
    void (*on_done)(struct check *c); // may free it
    void *argument;
};

// on_done is called later, exactly once, unless the check is freed before.  NULL: memory is out.
struct check *check_start(struct gate *g, const struct check_request *request);
void check_free(struct check *c); // done, or not wanted any more; fine with NULL

void checks_close(struct gate *g); // ends all boxes, and calls no on_done

// ---- check_answer.c -----------------------------------------------------------------------------

// Makes the object from a box's report: takes known fields of the right type, drops the rest.
// NULL: not an answer.  SECURITY: a hostile source that controls the parser can only lie about
// itself and later sources of the same owner, in a known shape.
json_t *check_take(json_t *report);
// The object for a source that crashed the parser; `why` in words.
json_t *check_crashed(const char *source, size_t length, const char *why, const char *python);

// ---- check_cache.c ------------------------------------------------------------------------------

struct check_cache;
struct check_cache *check_cache_new(void);
void check_cache_free(struct check_cache *m);
// The hash of all parts, each with its length before it.  0, or -1: the hash failed.
int check_cache_key(const char *const parts[], const size_t lengths[], size_t count,
                    unsigned char ret[32]);
json_t *check_cache_get(struct check_cache *m, const unsigned char key[32],
                        int64_t now_ms); // borrowed
void check_cache_put(struct check_cache *m, const unsigned char key[32], json_t *answer,
                     size_t size, int64_t now_ms);
size_t check_cache_bytes(const struct check_cache *m);

#endif
