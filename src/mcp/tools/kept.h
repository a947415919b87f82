// SPDX-License-Identifier: Apache-2.0
//
// kept: the full outputs of recent runs, so that a shortened answer can link to the rest, and the
// runs that go on in the background.  In memory, bounded in bytes, number and time; the oldest go
// first.

#ifndef CONSTRICTOR_MCP_TOOLS_KEPT_H
#define CONSTRICTOR_MCP_TOOLS_KEPT_H

#include "mcp/protocol/mcp.h"
#include "run/display.h"

// The texts of a run, and what it has shown: KEPT_DISPLAY for the first item, and so on, KEPT_CHART
// for the data of a figure among them.
enum kept_part {
    KEPT_STDOUT,
    KEPT_STDERR,
    KEPT_RESULT,
    KEPT_ERROR,
    KEPT_DISPLAY,
    KEPT_CHART = KEPT_DISPLAY + DISPLAY_ITEMS_MAX,
    KEPT_PART_MAX = KEPT_CHART + DISPLAY_ITEMS_MAX
};
extern const char *const kept_part_names[KEPT_PART_MAX];

int mcp_kept_open(struct mcp *m, struct err *e);
void mcp_kept_close(struct mcp *m);

// Keeps a part of run `execution_id` (a uuid).  Text and type are copied; of a picture the text is
// base64.  0, or -1: it cannot be kept (too large, no memory); then no link may be given.
int mcp_kept_add(struct mcp *m, const char *owner, const char *execution_id, enum kept_part part,
                 const char *mime_type, const char *text, size_t length);

// Borrowed until the next call of this module; NULL: unknown, expired, or somebody else's.
const char *mcp_kept_find(struct mcp *m, const char *owner, const char *execution_id,
                          enum kept_part part, const char **ret_mime_type, size_t *ret_length);
bool mcp_kept_is_blob(const char *mime_type); // is what is kept base64?

// Ids of the owner's runs that begin with `prefix`, newest first, at most `max`: array of strings,
// new.
json_t *mcp_kept_ids(struct mcp *m, const char *owner, const char *prefix, size_t max);

// run://{execution_id}/{part}
enum { KEPT_URI_MAX = 96 };
void mcp_kept_uri(const char *execution_id, enum kept_part part, char buf[KEPT_URI_MAX]);
int mcp_kept_parse_uri(const char *uri, char execution_id[37], enum kept_part *ret);

#endif
