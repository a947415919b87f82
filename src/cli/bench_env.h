// SPDX-License-Identifier: Apache-2.0
//
// bench_env: environments of packages: the first import in a new session, cold and with a box that
// waits, what another environment costs, how long a list takes, and an installation beside uv's.
// Called by bench.c, in the first process. All packages come from a folder: a small one that is
// made here, and with --find-links those of the caller, of which numpy, pandas and matplotlib are
// measured when they are there.

#ifndef CONSTRICTOR_CLI_BENCH_ENV_H
#define CONSTRICTOR_CLI_BENCH_ENV_H

#include "cli/bench.h"

enum { BENCH_ENV_ROWS = 16 };

struct bench_env_row {
    const char *key, *text, *unit;
    double value, other; // -1: not measured
    double target;       // reached when other / value is not less
    char note[128];
    bool more; // then it is value / other: more is better
};

struct bench_env {
    struct bench_env_row rows[BENCH_ENV_ROWS];
    size_t count;
    char failure[512]; // the first thing that could not be measured
};

// `program` is this one, `python` the interpreter of the boxes.
void bench_env(const struct config *c, const char *program, const char *python, int stock,
               struct bench_env *ret);

#endif
