// SPDX-License-Identifier: Apache-2.0
//
// file_resources: files of sessions and runs as resources, sandbox://{session}/{path}.  {session}
// is the handle or the name of a session, or the execution_id of a run that had none.  Called by
// resources.c.

#ifndef CONSTRICTOR_MCP_TOOLS_FILE_RESOURCES_H
#define CONSTRICTOR_MCP_TOOLS_FILE_RESOURCES_H

#include "files/scratch.h"
#include "mcp/protocol/mcp.h"

#define FILE_URI_TEMPLATE "sandbox://{session}/{path}"

enum {
    FILE_URI_SESSION_MAX = 128, // bytes of {session}
    FILE_URI_MAX = 3 * (FILE_URI_SESSION_MAX + SCRATCH_PATH_MAX) + 16,
    FILE_RESOURCE_MAX = 12 << 20, // bytes of a file that a resources/read gives
};

// Parses what exec_file_uri() writes and what clients make of the template.  0, or -1: another URI.
int file_resources_parse_uri(const char *uri, char holder[FILE_URI_SESSION_MAX + 1],
                             char path[SCRATCH_PATH_MAX + 1]);

// The owner's artifacts, newest first, and other files that live sessions had after their last run:
// an array of resources, new.
json_t *file_resources_list(const struct mcp_call *c);

// Ends a resources/read, now or later.  False: the URI is of another kind.
bool file_resources_read(struct mcp_call *c, const char *uri);
bool file_resources_exist(struct mcp *m, const char *uri, const char *owner);

// Values for a variable of the template: an array, new; NULL: no such variable.  `session`: the
// client's value for it, or NULL.
json_t *file_resources_complete(struct mcp *m, const char *owner, const char *variable,
                                const char *prefix, const char *session);

// Tells subscribers that these files ([{"uri"}]) are new or have changed.
void file_resources_tell(struct mcp *m, const char *owner, json_t *files);
void file_resources_tell_one(struct mcp *m, const char *owner, const char *uri);

#endif
