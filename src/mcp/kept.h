// SPDX-License-Identifier: Apache-2.0
//
// kept: the full outputs of recent runs, so that a shortened answer can link to the rest, and the runs
// that go on in the background.  In memory, bounded in bytes, number and time; the oldest go first.

#ifndef CONSTRICTOR_MCP_KEPT_H
#define CONSTRICTOR_MCP_KEPT_H

#include "mcp/mcp.h"

enum kept_part { KEPT_STDOUT, KEPT_STDERR, KEPT_RESULT, KEPT_ERROR, KEPT_PART_MAX };
extern const char *const kept_part_names[KEPT_PART_MAX];

int mcp_kept_open(struct mcp *m, struct err *e);
void mcp_kept_close(struct mcp *m);

// Keeps a part of run `execution_id` (a uuid).  The text is copied.  0, or -1: it cannot be kept (too
// large, no memory); then no link may be given.
int mcp_kept_add(struct mcp *m, const char *owner, const char *execution_id, enum kept_part part,
                 const char *text, size_t length);

// Borrowed until the next call of this module; NULL: unknown, expired, or somebody else's.
const char *mcp_kept_find(struct mcp *m, const char *owner, const char *execution_id,
                          enum kept_part part, size_t *ret_length);

// Ids of the owner's runs that begin with `prefix`, newest first, at most `max`: array of strings, new.
json_t *mcp_kept_ids(struct mcp *m, const char *owner, const char *prefix, size_t max);

// run://{execution_id}/{part}
enum { KEPT_URI_MAX = 96 };
void mcp_kept_uri(const char *execution_id, enum kept_part part, char buf[KEPT_URI_MAX]);
int mcp_kept_parse_uri(const char *uri, char execution_id[37], enum kept_part *ret);

#endif
