// SPDX-License-Identifier: Apache-2.0
//
// bench_session: sessions, files and figures, beside an ipykernel and matplotlib by themselves.
// Called by bench.c, in the first process; the servers are children of it and are reached over
// pipes and loopback.

#ifndef CONSTRICTOR_CLI_BENCH_SESSION_H
#define CONSTRICTOR_CLI_BENCH_SESSION_H

#include "cli/bench.h"

// -1: not measured.
struct bench_session {
    double run_us;                      // one run in a live session, over stdio, p50
    double rest_us;                     // of it, beyond the time that the code had the box, p50
    double open_us;                     // opening one, over stdio, p50
    double checkpoint_us;               // a run that makes a checkpoint of 120 MiB first, p50
    double plain_us;                    // the same run without
    int sessions;                       // how many idle ones were weighed, with the data stack
    double total_mib;                   // server, zygote and that many sessions, with page tables
    double session_mib;                 // what one more costs, PSS
    double bare_mib;                    // the same without the data stack
    double upload, download;            // MB/s
    double plot_us, matplotlib_us;      // a simple figure: in a session, and by itself
    double kernel_open_us;              // p50
    double kernel_mib, kernel_data_mib; // one of them, bare and with the data stack imported
    char kernel[64];                    // "ipykernel 7.1.0", "" when there is none
    char missing[128];                  // why there is none
    char failure[512];                  // the first thing that could not be measured
};

// `program` is this one, `python` the interpreter of the boxes; `data`: it has the data stack.
void bench_session(const struct config *c, const char *program, const char *python, int stock,
                   bool data, struct bench_session *ret);

#endif
