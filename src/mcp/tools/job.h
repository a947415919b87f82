// SPDX-License-Identifier: Apache-2.0
//
// job: a run that a tool started: the call that waits for it or the place where it is found later,
// its progress, and its answer.  A job of the foreground belongs to its call and ends with it; one
// of the background goes on until it is done, and its result can be fetched for an hour, by its
// owner.

#ifndef CONSTRICTOR_MCP_TOOLS_JOB_H
#define CONSTRICTOR_MCP_TOOLS_JOB_H

#include "exec/exec.h"
#include "mcp/protocol/mcp.h"
#include "mcp/tools/kept.h"

struct tool_runs; // the jobs of a server

enum { JOBS_BACKGROUND_MAX = 64, JOBS_RUNNING_MAX = 256 };

// Answers the call in the form of another server (sets.h): with the whole object of the run, or,
// when there was none, with NULL and why.  All are borrowed; the arguments are those of the plan.
typedef void (*job_present)(struct mcp_call *c, json_t *arguments, json_t *object,
                            const struct err *error);

struct job_plan {
    // As exec_start() takes it, but owner, on_done and argument.  Its texts are borrowed from
    // `arguments`, but the names of a session's plan, which is copied.
    struct exec_request request;
    json_t *arguments; // held until the run is over
    bool background;
    job_present present; // NULL: the answer of execute_python; not with `background`
};

struct tool_runs *tool_runs_new(struct mcp *m);
void tool_runs_free(struct tool_runs *t);
int64_t tool_runs_uptime_ms(const struct tool_runs *t);
unsigned tool_runs_background(const struct tool_runs *t); // those that still run
unsigned tool_runs_background_max(const struct gate *g);  // at one time

// Starts the run and answers the call: when it is over, or in the background at once.  Takes what
// the request takes, in any case.
void job_start(struct mcp_call *c, const struct job_plan *plan);

// Answers with the result of a background run; when it still runs after `wait_ms`, with what it
// printed so far.
void job_check(struct mcp_call *c, const char *id, uint64_t wait_ms);

// What a background run printed so far: a text, new.  NULL: no such run of this owner goes on.
json_t *job_live(struct mcp *m, const char *owner, const char *id, enum kept_part part);
bool job_is_running(struct mcp *m, const char *owner, const char *id); // in the background

#endif
