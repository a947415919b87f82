// SPDX-License-Identifier: Apache-2.0
//
// sandbox: files of sessions and runs as resources, sandbox://{session}/{path}.  {session} is the
// handle or the name of a session, or the execution_id of a run that had none.  Called by
// resources.c.

#ifndef CONSTRICTOR_MCP_TOOLS_SANDBOX_H
#define CONSTRICTOR_MCP_TOOLS_SANDBOX_H

#include "files/scratch.h"
#include "mcp/protocol/mcp.h"

#define SANDBOX_TEMPLATE "sandbox://{session}/{path}"

enum {
    SANDBOX_PLACE_MAX = 128, // bytes of {session}
    SANDBOX_URI_MAX = 3 * (SANDBOX_PLACE_MAX + SCRATCH_PATH_MAX) + 16,
    SANDBOX_READ_MAX = 12 << 20, // bytes of a file that a resources/read gives
};

// Reads what exec_file_uri() writes, and what others make of the template.  0, or -1: it is none.
int sandbox_parse_uri(const char *uri, char place[SANDBOX_PLACE_MAX + 1],
                      char path[SCRATCH_PATH_MAX + 1]);

// The owner's artifacts, newest first, and what else the live sessions had after their last run: an
// array of resources, new.
json_t *sandbox_resources(const struct mcp_call *c);

// Ends a resources/read, now or later.  False: the URI is of another kind.
bool sandbox_read(struct mcp_call *c, const char *uri);
bool sandbox_exists(struct mcp *m, const char *uri, const char *owner);

// Values for a variable of the template: an array, new; NULL: no such variable.  `session`: what
// the client has filled in already, or NULL.
json_t *sandbox_complete(struct mcp *m, const char *owner, const char *variable, const char *prefix,
                         const char *session);

// News for those who listen: these files ([{"uri"}]) are new or other than before.
void sandbox_tell_files(struct mcp *m, const char *owner, json_t *files);
void sandbox_tell_file(struct mcp *m, const char *owner, const char *uri);

#endif
