// SPDX-License-Identifier: Apache-2.0
//
// job_kit: what the files that make up job.h share: job.c (a job from its beginning to its answer),
// background.c (jobs that nobody waits for, and check_run), progress.c (what a job printed so far).
//
//   1. A job is in the list `all` from job_start() until job_free().
//   2. job->call is set as long as a call of the foreground waits; whoever ends that call or
//   cancels it
//      clears the field first.
//   3. job->exec is set from exec_start() until on_done(), which comes exactly once.
//   4. A job of the background is in the list `background` as well; its waiters are calls of
//   job_check().

#ifndef CONSTRICTOR_MCP_TOOLS_JOB_INTERNAL_H
#define CONSTRICTOR_MCP_TOOLS_JOB_INTERNAL_H

#include <sys/queue.h>

#include "exec/exec.h"
#include "mcp/tools/job.h"
#include "mcp/tools/shape.h"

struct waiter {
    struct job *job;
    struct mcp_call *call;
    struct event *timer;
    TAILQ_ENTRY(waiter) entry;
};

struct job {
    struct tool_runs *runs;
    struct mcp_call *call;
    struct exec *exec;
    char id[ID_SIZE];
    char owner[MCP_OWNER_MAX + 1];
    json_t *arguments;
    struct session_plan plan; // of a session that is opened for it
    struct event *tick;
    int64_t begin_us, end_ms;   // end_ms: when a job of the background is forgotten
    uint64_t seen[RUN_STREAMS]; // bytes of output that were told of
    uint64_t lines;
    enum run_stream latest;
    size_t code_length;
    // When a job of the background is done: its answer, or why it had none.
    bool background, in_background, done, is_error;
    job_present present;
    json_t *content, *object;
    struct err error;
    unsigned waiter_count;
    TAILQ_HEAD(, waiter) waiters;
    TAILQ_ENTRY(job) all, back;
};

TAILQ_HEAD(job_list, job);

struct tool_runs {
    struct mcp *mcp;
    int64_t begin_ms;
    struct job_list all, background; // oldest first
    unsigned background_count;
    size_t code_length; // of all that go on
};

// ---- job.c --------------------------------------------------------------------------------------

void job_free(struct job *j);
void job_answer(struct job *j, struct mcp_call *c); // of one that is done
struct shape job_shape(struct job *j, bool live);

// ---- background.c -------------------------------------------------------------------------------

bool background_admits(struct mcp_call *c); // else the call was answered
void background_begin(struct job *j, struct mcp_call *c);
void background_keep(struct job *j);   // its whole output, for whoever watches it
void background_finish(struct job *j); // its answer is there
void background_leave(struct job *j);  // for job_free()

// ---- progress.c ---------------------------------------------------------------------------------

// What it printed so far: a text, new.  NULL: memory is out.
json_t *progress_text(const struct job *j, enum run_stream stream);
void progress_start(struct job *j); // once a second: progress for the call, news for readers
void progress_tell_updated(struct job *j, enum kept_part part);

#endif
