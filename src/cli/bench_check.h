// SPDX-License-Identifier: Apache-2.0
//
// bench_check: how long it takes to look at code: validate_code over stdio beside a cold `python3
// -m py_compile`. Called by bench.c, in the first process.

#ifndef CONSTRICTOR_CLI_BENCH_CHECK_H
#define CONSTRICTOR_CLI_BENCH_CHECK_H

#include "cli/bench.h"

struct bench_check {
    double new_us;   // 200 lines that were never seen before, p50; -1: not measured
    double same_us;  // the same 200 lines again, p50
    double cold_us;  // python3 -m py_compile of them, p50
    double parse_us; // CPython's parser alone, in a warm interpreter, p50
    char failure[512];
};

// `program` is this one, `python` the interpreter of the boxes.
void bench_check(const struct config *c, const char *program, const char *python, int stock,
                 struct bench_check *ret);

#endif
