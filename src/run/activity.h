// SPDX-License-Identifier: Apache-2.0
//
// activity: what runs did lately, for the operator's view (rest/overview.c): the last ones,
// verdicts by the minute, denials, hosts.  Noted when a run ends, in constant time; read and sorted
// only when it is shown.  Every table is bounded, and belongs to a server with REST
// (gate->activity).

#ifndef CONSTRICTOR_RUN_ACTIVITY_H
#define CONSTRICTOR_RUN_ACTIVITY_H

#include <jansson.h>
#include <stdint.h>

#include "base/id.h"
#include "run/result.h"
#include "run/run.h"

enum {
    ACTIVITY_RUNS = 1024,
    ACTIVITY_DENIALS = 200,
    ACTIVITY_HOSTS = 256,
    ACTIVITY_MINUTES = 60,
    ACTIVITY_OWNERS = 128, // with a table of minutes of their own; the rest share one
};

struct activity;

struct activity_run {
    char id[ID_SIZE];
    char owner[65], session[32];
    enum verdict verdict;
    int64_t ended_ms;                                 // since 1970
    uint64_t queue_us, wall_us, cpu_us, memory_bytes; // UINT64_MAX: unknown
};

struct activity *activity_new(void); // NULL: memory is out
void activity_free(struct activity *a);

// A run is over.
void activity_note(struct activity *a, const char *id, const char *owner, const char *session,
                   const struct run *r, enum verdict verdict);

// `owner`: whose, NULL: all.  New, {"total", "items": [...]}, the newest first, from `from` on and
// at most `most`.
json_t *activity_runs(const struct activity *a, const char *owner, size_t from, size_t most);
json_t *activity_denials(const struct activity *a, const char *owner, size_t from, size_t most);
json_t *activity_hosts(const struct activity *a, const char *owner, size_t from, size_t most);
// [{"at", "verdicts": {...}}] of the last minutes that had a run, the oldest first: new.
json_t *activity_verdicts(const struct activity *a, const char *owner, int64_t now_ms);
// {"runs", "p50_ms", "p99_ms", "queue_p50_ms", "queue_p99_ms"} of the last runs: new.
json_t *activity_latency(const struct activity *a, const char *owner);

#endif
