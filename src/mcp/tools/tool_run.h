// SPDX-License-Identifier: Apache-2.0
//
// tool_run: a run that a tool started, its progress and its answer.  A foreground run belongs to
// the call that waits for it and ends with it.  A background run goes on until it is done; its
// owner can fetch its result for an hour.

#ifndef CONSTRICTOR_MCP_TOOLS_TOOL_RUN_H
#define CONSTRICTOR_MCP_TOOLS_TOOL_RUN_H

#include "exec/exec.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/outputs.h"

struct tool_runs; // of a server

// Answers the call in the form of another server (compat/sets.h), from the object of the run, or
// from NULL and the error.  All are borrowed; the arguments are those of the plan.
typedef void (*tool_run_present)(struct mcp_call *c, json_t *arguments, json_t *object,
                                 const struct err *error);

struct tool_run_plan {
    // As exec_start() takes it; owner, on_done and argument are filled in.  Its texts are borrowed
    // from `arguments`; the plan of a session is copied.
    struct exec_request request;
    json_t *arguments; // a reference is kept until the run is over
    bool background;
    tool_run_present present; // NULL: the answer of execute_python; not with `background`
};

struct tool_runs *tool_runs_new(struct mcp *m);
void tool_runs_free(struct tool_runs *t);
int64_t tool_runs_uptime_ms(const struct tool_runs *t);
unsigned tool_runs_background(const struct tool_runs *t); // how many still run

// Starts the run.  The call is answered when the run is over, or at once with `background`.  Takes
// what the request owns, also on failure.
void tool_run_start(struct mcp_call *c, const struct tool_run_plan *plan);

// `on_ask` of a request: asks the person at the client of the run's call, which can be asked.
void tool_run_ask(struct exec *x, const char *prompt, size_t length);

// Answers with the result of a background run, or with its output so far when it still runs after
// `wait_ms`.
void tool_run_check(struct mcp_call *c, const char *id, uint64_t wait_ms);

// What a background run has printed so far: a text, new.  NULL: no such run of this owner goes on.
json_t *tool_run_live(struct mcp *m, const char *owner, const char *id, enum output_part part);
bool tool_run_is_going_on(struct mcp *m, const char *owner, const char *id); // in the background

#endif
