// SPDX-License-Identifier: Apache-2.0
//
// outputs: the full outputs of recent runs, so that a shortened answer can link to the rest.  In
// memory, bounded in bytes, number and time; the oldest go first.

#ifndef CONSTRICTOR_MCP_TOOLS_OUTPUTS_H
#define CONSTRICTOR_MCP_TOOLS_OUTPUTS_H

#include "mcp/protocol/mcp.h"
#include "run/display.h"

// The texts of a run, and what it displayed: OUTPUT_DISPLAY + i is item i, OUTPUT_CHART + i the
// chart data of item i.
enum output_part {
    OUTPUT_STDOUT,
    OUTPUT_STDERR,
    OUTPUT_RESULT,
    OUTPUT_ERROR,
    OUTPUT_DISPLAY,
    OUTPUT_CHART = OUTPUT_DISPLAY + DISPLAY_ITEMS_MAX,
    OUTPUT_PART_MAX = OUTPUT_CHART + DISPLAY_ITEMS_MAX
};
extern const char *const output_part_names[OUTPUT_PART_MAX];

int mcp_outputs_open(struct mcp *m, struct err *e);
void mcp_outputs_close(struct mcp *m);

// Stores a part of run `execution_id` (a uuid).  Text and type are copied; the text of what
// mime_is_binary() names is base64.  0, or -1: too large or no memory; then no link may be given.
int mcp_outputs_add(struct mcp *m, const char *owner, const char *execution_id,
                    enum output_part part, const char *mime_type, const char *text, size_t length);

// Borrowed until the next call of this module; NULL: unknown, expired, or of another owner.
const char *mcp_outputs_find(struct mcp *m, const char *owner, const char *execution_id,
                             enum output_part part, const char **ret_mime_type, size_t *ret_length);

// Ids of the owner's runs that begin with `prefix`, newest first, at most `max`: array of strings,
// new.
json_t *mcp_outputs_ids(struct mcp *m, const char *owner, const char *prefix, size_t max);

// run://{execution_id}/{part}
enum { OUTPUT_URI_MAX = 96 };
void mcp_outputs_uri(const char *execution_id, enum output_part part, char buf[OUTPUT_URI_MAX]);
int mcp_outputs_parse_uri(const char *uri, char execution_id[37], enum output_part *ret);

#endif
