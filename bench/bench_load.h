// SPDX-License-Identifier: Apache-2.0
//
// bench_load: runs in boxes under load, without a server, for load.c.
//
// Each load is a child of the calling process that becomes a keeper with a gate of its own.  The
// figures come back through shared memory.  Meanwhile the caller, which has its rights, looks at
// the other processes when the gate asks.

#ifndef CONSTRICTOR_BENCH_LOAD_H
#define CONSTRICTOR_BENCH_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

enum { BENCH_SAMPLES_MAX = 20000, BENCH_AT_ONCE_MAX = 1024 };

struct bench_samples { // microseconds
    int count;
    double us[BENCH_SAMPLES_MAX];
};

double bench_percentile(struct bench_samples *s, double percent); // sorts; -1 when empty
double bench_now_us(void);

struct bench_result {
    struct bench_samples latency;
    int runs, failed;
    double seconds;
    char failure[256]; // of the newest failure
    pid_t zygote, keeper, gate;
    _Atomic int question; // between gate and caller
};

struct bench_load {
    const char *code;
    const char *preload; // modules, or NULL
    int stock;           // boxes made ahead
    int runs;
    int at_once;
    int pause_us;   // between the end of one run and the next
    double seconds; // 0: no bound but `runs`
    bool live;      // all runs in one session
    // Called in the caller's process when the stock is full, and at the end.  NULL: not called.
    void (*look)(const struct bench_result *r, bool end);
};

struct bench_boxes {
    double pss_kb; // zygote and boxes together
    int boxes;
};

struct bench_boxes bench_weigh(pid_t zygote);

// The result, valid until the next call; NULL when there is no memory.  `failed` counts runs, or is
// 1 when boxes cannot be had at all.
struct bench_result *bench_load(const struct config *c, const struct bench_load *load);

#endif
