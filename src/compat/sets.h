// SPDX-License-Identifier: Apache-2.0
//
// sets: the tools of other servers, by their names, arguments and answers: one table for each, in
// set_NAME.c. They are thin: arguments become a request to the same core that the default tools
// use, its result gets the shape that the clients of that server know.  tools.c reads the tables;
// --tools switches them on.

#ifndef CONSTRICTOR_COMPAT_SETS_H
#define CONSTRICTOR_COMPAT_SETS_H

#include "mcp/tools/tools.h"

// Each ends with a row without a name.
extern const struct mcp_tool executor_tools[], kernel_tools[], restricted_tools[], checker_tools[],
    container_tools[];

// The resource session://{session_id} of the set 'kernels'.  False: there is none of this URI for
// this caller.
#define KERNELS_TEMPLATE "session://{session_id}"
bool kernels_resource_read(struct mcp_call *c, const char *uri); // true: answered
bool kernels_resource_exists(struct mcp *m, const char *uri, const char *owner);
json_t *kernels_resource_complete(struct mcp *m, const char *owner, const char *prefix);

#endif
