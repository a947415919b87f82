// SPDX-License-Identifier: Apache-2.0
//
// tool_run_internal: what tool_run.c (a tool run from its beginning to its answer),
// tool_run_background.c (runs that no call waits for, and check_run) and tool_run_progress.c (what
// a run has printed so far) share.
//
//   1. A run is in the list `all` from tool_run_start() until tool_run_free().
//   2. run->call is set as long as a call of the foreground waits; it is cleared before that call
//      ends or is cancelled.
//   3. run->exec is set from exec_start() until on_done(), which comes exactly once.
//   4. A background run is in the gate's list of them as well (exec/background.h); its waiters are
//   calls of
//      tool_run_check().

#ifndef CONSTRICTOR_MCP_TOOLS_TOOL_RUN_INTERNAL_H
#define CONSTRICTOR_MCP_TOOLS_TOOL_RUN_INTERNAL_H

#include <sys/queue.h>

#include "base/timer.h"
#include "exec/background.h"
#include "exec/exec.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/tool_run.h"

struct waiter {
    struct tool_run *run;
    struct mcp_call *call;
    struct timer timer;
    TAILQ_ENTRY(waiter) entry;
};

struct tool_run {
    struct tool_runs *runs;
    struct mcp_call *call;
    struct exec *exec;
    char id[ID_SIZE];
    char owner[MCP_OWNER_MAX + 1];
    json_t *arguments;
    struct session_plan plan; // of a session that is opened for it
    struct timer tick;
    int64_t begin_us;
    uint64_t seen[RUN_STREAMS]; // bytes of output that were counted
    uint64_t lines;
    enum run_stream latest;
    size_t code_length;
    // Of a background run that is done: its answer, or the error.
    bool background, done, is_error;
    struct background back; // of a background run; drop is NULL before it is in the list
    bool brief, details;    // brief: the tool is listed in few words, and answers so
    uint64_t memory_bytes;
    tool_run_present present;
    json_t *content, *object;
    struct err error;
    unsigned waiter_count;
    TAILQ_HEAD(, waiter) waiters;
    TAILQ_ENTRY(tool_run) all;
};

TAILQ_HEAD(tool_run_list, tool_run);

struct tool_runs {
    struct mcp *mcp;
    int64_t begin_ms;
    struct tool_run_list all;
    size_t code_length; // bytes of code of all runs
};

// ---- tool_run.c
// --------------------------------------------------------------------------------------

void tool_run_free(struct tool_run *run);
void tool_run_answer(struct tool_run *run, struct mcp_call *c); // of a run that is done
struct answer_options tool_run_answer_options(struct tool_run *run, bool live);

// ---- background.c -------------------------------------------------------------------------------

bool background_admits(struct mcp_call *c); // else the call was answered
void background_begin(struct tool_run *run, struct mcp_call *c);
void background_keep(struct tool_run *run);   // makes its whole output readable
void background_finish(struct tool_run *run); // answers the calls that wait
void background_leave(struct tool_run *run);  // for tool_run_free()

// ---- progress.c ---------------------------------------------------------------------------------

// What it printed so far: a text, new.  NULL: memory is out.
json_t *progress_text(const struct tool_run *run, enum run_stream stream);
void progress_start(
    struct tool_run *run); // once a second: progress for the call, updates for subscribers
void progress_tell_updated(struct tool_run *run, enum output_part part);

#endif
