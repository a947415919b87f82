// SPDX-License-Identifier: Apache-2.0
//
// bench_client: MCP servers as child processes, and clients that put load on them, for bench_mcp.c.
// Runs in the first process, with its rights; speaks to its own children only, over loopback.
//
// The clients speak the protocol of 2025-11-25, which both servers know.  A request is made once
// and only its id changes; an answer is looked at for its end and for "result", no more.  So what
// is measured is the server and the kernel between, not this client.

#ifndef CONSTRICTOR_CLI_BENCH_CLIENT_H
#define CONSTRICTOR_CLI_BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/bench.h"

struct bench_server {
    pid_t pid;
    int fd;         // stdio: our end of its stdin and stdout; else -1
    int port;       // HTTP on 127.0.0.1; 0: stdio
    int errors;     // what it wrote to stderr
    char state[64]; // a folder of its own, removed at the end; "": none
};

// Starts argv as a server; `port` 0: over stdio.  `environment` may be NULL.  False, with the
// reason in `why`.  Both are ended with bench_server_end(), which also takes a server that is not
// there.
bool bench_server_start(struct bench_server *ret, char *const *argv, int port,
                        const char *environment, char *why, size_t why_cap);
void bench_server_end(struct bench_server *s);

// A server of ours.  What the caller gave to `bench` holds for it too.
struct bench_ours {
    const struct config *config;
    const char *program, *python; // this program, and the interpreter of the boxes
    int stock;
    const char *options[16]; // more of them, up to NULL
};
bool bench_server_start_ours(struct bench_server *ret, const struct bench_ours *ours, int port,
                             char *why, size_t why_cap);

// A port of 127.0.0.1 that is free at the moment, or 0.
int bench_free_port(void);

// Connects to one; sends and receives wait, but not for ever.  -1 with errno.
int bench_dial(int port);

struct bench_clients;

// Clients that have shaken hands, each with a session of its own.  Over stdio there is one.
struct bench_clients *bench_clients_open(struct bench_server *s, int count, char *why,
                                         size_t why_cap);
void bench_clients_free(struct bench_clients *c);

struct bench_calls {
    const char *method, *params; // params: JSON text
    bool anonymous;              // HTTP: without the session, as `initialize` is sent
    int in_flight;               // requests on their way at one time, for each client
    int requests;                // at most, all clients together; 0: no bound
    int pause_us;                // before the next request of a client
    double seconds;              // at most
    // Sees each answer, when in_flight is 1; or NULL.
    void (*on_answer)(const char *answer, size_t length, double us, void *argument);
    void *argument;
    // The results; they add up when the struct is used again.
    struct bench_samples *latency; // the newest ones, when in_flight is 1; or NULL
    long done;
    double took; // seconds
};

bool bench_clients_call(struct bench_clients *c, struct bench_calls *calls, char *why,
                        size_t why_cap);

// One call of a tool by the first client; `arguments` is JSON text.
bool bench_clients_tool(struct bench_clients *c, const char *tool, const char *arguments, char *why,
                        size_t why_cap);

#endif
