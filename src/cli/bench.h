// SPDX-License-Identifier: Apache-2.0
//
// bench: what the parts of `constrictor bench` share.
//
//   bench.c       the plan, the table, the verdicts; the first process
//   bench_cold.c  what it is measured against: cold interpreters; the first process
//   bench_gate.c  boxes under load; a gate, without privileges
//   bench_mcp.c   the MCP server under load; bench_client.c its clients; the first process
//   bench_session.c  sessions and files of a server, beside an ipykernel; the first process
//   bench_check.c    validate_code, beside a cold py_compile; the first process
//   bench_env.c      environments of packages, beside uv; the first process
//   bench_rest.c     batches and streams of the REST API, beside cold interpreters; the first
//   process bench_network.c  boxes with network, beside the same code without a broker; the first
//   process
//
// Each measurement of boxes is a child of the first process that becomes a keeper with a gate of
// its own; figures come back through shared memory.  An observer, forked before, reads what needs
// rights (the memory of other processes).

#ifndef CONSTRICTOR_CLI_BENCH_H
#define CONSTRICTOR_CLI_BENCH_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"
#include "keeper/keeper.h"

enum { BENCH_SAMPLES_MAX = 20000 };

struct bench_samples { // microseconds
    int count;
    double us[BENCH_SAMPLES_MAX];
};

double bench_percentile(struct bench_samples *s, double percent); // sorts; -1 when empty

// What the observer can be asked for.
enum bench_question { ASK_NOTHING, ASK_ZYGOTE_PSS, ASK_KEEPER };

struct bench_memory {
    double pss_kb; // zygote and boxes together
    int boxes;
    double keeper_rss_kb, gate_rss_kb;
    int keeper_fds;
};

struct bench_shared {
    _Atomic int question; // enum bench_question; back to ASK_NOTHING when answered
    pid_t zygote, keeper, gate;
    struct bench_memory answer;
    // results of a load
    struct bench_samples latency;
    double seconds;
    int failed;
    char failure[256];
    struct bench_memory before, after;
};

// One way of putting load on boxes.
struct bench_load {
    const char *code;
    int runs;
    int at_once;
    int pause_us;       // between the end of one run and the next
    double seconds_max; // 0: no bound but `runs`
    bool live;          // all runs in one session
    bool memory;        // ask for memory when the stock is full, and at the end
    struct bench_shared *shared;
};

// The gate's function; `argument` is a struct bench_load.
int bench_gate(int sock, const struct keeper_facts *facts, void *argument);

// Cold starts: argv runs `count` times one after the other, or with `workers` at once for
// `seconds`.
bool bench_cold(char *const *argv, int count, struct bench_samples *ret);
double bench_cold_rate(char *const *argv, int workers, double seconds);
// The same for bare forks of one warm interpreter; -1: it failed.
double bench_fork_rate(const char *python, int workers, double seconds);

// Has an interpreter run code that prints one JSON object: new, NULL when it failed.  At most 4
// arguments.
json_t *bench_helper(const char *python, const char *code, const char *const *arguments);

// The observer: answers until its parent is gone.
pid_t bench_observe(struct bench_shared *shared);

double bench_now_us(void);

#endif
