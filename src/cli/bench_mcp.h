// SPDX-License-Identifier: Apache-2.0
//
// bench_mcp: the MCP server under load, beside the protocol's own reference server.  Called by
// bench.c, in the first process; the servers are children of it and are reached over pipes and
// loopback.

#ifndef CONSTRICTOR_CLI_BENCH_MCP_H
#define CONSTRICTOR_CLI_BENCH_MCP_H

#include "cli/bench.h"

enum bench_mcp_row_key {
    BENCH_STDIO_PING, // one request after the other
    BENCH_STDIO_CALL,
    BENCH_STDIO_LIST,
    BENCH_STDIO_MANY, // calls, several on their way at one time
    BENCH_HTTP_PING,
    BENCH_HTTP_CALL,
    BENCH_HTTP_LIST,
    BENCH_HTTP_MANY, // calls of 64 clients
    BENCH_MCP_ROWS
};

struct bench_mcp_side {
    double p50_us, p99_us; // -1: not measured
    double rate;           // answers per second
};

struct bench_mcp_row {
    const char *key, *text;
    struct bench_mcp_side ours, theirs;
};

struct bench_mcp {
    struct bench_mcp_row rows[BENCH_MCP_ROWS];
    struct bench_mcp_side run_stdio, run_http; // execute_python("1+1")
    int sessions;
    double session_kib;  // memory of an idle session, -1: not measured
    double idle_percent; // of a core, with that many idle sessions
    char reference[128]; // which server ours is beside, "" when there is none
    char missing[256];   // why there is none
    char failure[512];   // what could not be measured, "" when nothing
};

// `program` is this one, `python` the interpreter of the boxes, `stock` as in the bare measurement.
void bench_mcp(const struct config *c, const char *program, const char *python, int stock,
               struct bench_mcp *ret);

// The rows for machines; new.
json_t *bench_mcp_json(const struct bench_mcp *m);

#endif
