// SPDX-License-Identifier: Apache-2.0
//
// counters: see counters.h.  Runs in the gate; touches nothing but its arguments.

#include "run/counters.h"

#include "run/result.h"

_Static_assert((int)VERDICT_MAX <= (int)COUNTERS_VERDICTS, "a counter for each verdict");

const double counters_bounds_s[COUNTERS_BUCKETS - 1] = {0.001, 0.0025, 0.005, 0.01, 0.05, 0.1,
                                                        0.5,   1,      5,     15,   60};

void counters_run(struct counters *t, const struct run *r, const struct result *result)
{
    uint64_t box_us = r->t_box_us ? r->t_box_us : r->t_end_us;
    uint64_t took_us = r->t_end_us - box_us;
    unsigned i = 0;
    while (i < COUNTERS_BUCKETS - 1 && (double)took_us / 1e6 > counters_bounds_s[i])
        i++;
    t->buckets[i]++;
    t->verdicts[result->verdict]++;
    t->run_us += took_us;
    t->queue_us += box_us - r->t_begin_us;
    // UINT64_MAX: unknown.
    if (r->ended.usage.cpu_user_us != UINT64_MAX && r->ended.usage.cpu_system_us != UINT64_MAX)
        t->cpu_us += r->ended.usage.cpu_user_us + r->ended.usage.cpu_system_us;
    t->output_bytes += r->output_total[RUN_STDOUT] + r->output_total[RUN_STDERR];
}
