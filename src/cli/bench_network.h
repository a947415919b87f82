// SPDX-License-Identifier: Apache-2.0
//
// bench_network: what the network of a box costs: against boxes without, and against the same
// Python code that dials by itself.  Called by bench.c, in the first process; a small HTTP server
// is a child of it, and all traffic stays on loopback.

#ifndef CONSTRICTOR_CLI_BENCH_NETWORK_H
#define CONSTRICTOR_CLI_BENCH_NETWORK_H

#include "cli/bench.h"

// One way of reaching the server; -1: not measured.
struct bench_route {
    double request_us; // one request on a connection that is there, p50
    double connect_us; // a new connection and one request, p50
    double down;       // MB/s of one large download
};

struct bench_network {
    double plain_us, network_us; // a fresh box, 1+1, over stdio, p50
    struct bench_route direct, through;
    char failure[512]; // the first thing that could not be measured
};

// `program` is this one, `python` the interpreter of the boxes.
void bench_network(const struct config *c, const char *program, const char *python, int stock,
                   struct bench_network *ret);

#endif
