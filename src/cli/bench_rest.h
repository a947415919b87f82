// SPDX-License-Identifier: Apache-2.0
//
// bench_rest: the REST API of a server: batches of fresh boxes beside cold interpreters, what a
// stream costs beyond one object, how fast output comes through it, and whether the server's memory
// stays as it is under a thousand programs with asserts.  Called by bench.c, in the first process.

#ifndef CONSTRICTOR_CLI_BENCH_REST_H
#define CONSTRICTOR_CLI_BENCH_REST_H

#include "cli/bench.h"
#include "cli/bench_env.h"

enum { BENCH_REST_ROWS = 5 };

struct bench_rest {
    struct bench_env_row rows[BENCH_REST_ROWS];
    size_t count;
    char failure[512];
};

// `program` is this one, `python` the interpreter of the boxes; `cold_rate`: cold interpreters a
// second, on all cores.
void bench_rest(const struct config *c, const char *program, const char *python, double cold_rate,
                struct bench_rest *ret);

#endif
