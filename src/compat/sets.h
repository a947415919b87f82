// SPDX-License-Identifier: Apache-2.0
//
// sets: the tools of other servers, with their names, arguments and answers: one tool set for each,
// in set_NAME.c. They are thin: arguments become a request to the same core that the default tools
// use, and its result gets the form that the clients of that server know.  --tools switches them
// on.

#ifndef CONSTRICTOR_COMPAT_SETS_H
#define CONSTRICTOR_COMPAT_SETS_H

#include "mcp/tools/tools.h"

extern struct tool_set executor_set, kernel_set, restricted_set, checker_set, container_set;

// Registers all of them.  Call it once, before mcp_open().
void compat_register_sets(void);

#endif
