// SPDX-License-Identifier: Apache-2.0
//
// tasks: the extension io.modelcontextprotocol/tasks (modern).  A task is a call whose outlet is
// the task itself: the client knows its id and fetches state and result later.  Bounded in number
// and time; belongs to its owner.

#ifndef CONSTRICTOR_MCP_PROTOCOL_TASKS_H
#define CONSTRICTOR_MCP_PROTOCOL_TASKS_H

#include "mcp/protocol/mcp.h"

int mcp_tasks_open(struct mcp *m, struct err *e);
void mcp_tasks_close(struct mcp *m);

// Answers `c` with a new task and returns the call that goes on as this task (ret->task is set), or
// NULL when there are too many (then `c` was failed).
struct mcp_call *mcp_task_begin(struct mcp_call *c);

// Questions of a call that runs as a task: it is input_required until tasks/update brought all
// answers.  Called by client_request.c, which checked the capabilities.  The questions are
// borrowed.
void mcp_task_ask(struct mcp_call *c, const struct mcp_question *questions, size_t count,
                  void (*then)(struct mcp_call *c, json_t *answers));

// Fails a call of a client that did not declare the extension.
void mcp_task_missing(struct mcp_call *c);
bool mcp_task_exists(struct mcp *m, const char *owner, const char *id);

void mcp_handle_tasks_get(struct mcp_call *c);
void mcp_handle_tasks_update(struct mcp_call *c);
void mcp_handle_tasks_cancel(struct mcp_call *c);

#endif
