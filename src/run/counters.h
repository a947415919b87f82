// SPDX-License-Identifier: Apache-2.0
//
// counters: what a gate has done since it began, in numbers, for GET /metrics (rest/metrics.c).
// Counted where things end: runs by exec.c, requests by request_log.c.

#ifndef CONSTRICTOR_RUN_COUNTERS_H
#define CONSTRICTOR_RUN_COUNTERS_H

#include <stdint.h>

struct run;
struct result;

enum {
    COUNTERS_VERDICTS = 16, // at least VERDICT_MAX
    COUNTERS_BUCKETS = 12,  // of run times; the last has no bound
    COUNTERS_CLASSES = 6,   // of answers: 2 for 200 to 299; 0: the client left before
};

extern const double counters_bounds_s[COUNTERS_BUCKETS - 1];

struct counters {
    uint64_t verdicts[COUNTERS_VERDICTS]; // runs by how they ended
    uint64_t refused;                     // requests whose run never began
    uint64_t buckets[COUNTERS_BUCKETS];   // runs by the time from the box to the end
    uint64_t run_us, queue_us, cpu_us, output_bytes;
    uint64_t answers[COUNTERS_CLASSES]; // HTTP
};

// A run is over.
void counters_run(struct counters *t, const struct run *r, const struct result *result);

#endif
