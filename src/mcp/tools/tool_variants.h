// SPDX-License-Identifier: Apache-2.0
//
// tool_variants: a tool as clients see it, which may consist of several: tool sets share names and
// take other arguments.
//
//   1. The variants of an entry are in the order of the sets, the default set first.
//   2. The listed input schema takes what any variant takes: all their properties (the first
//   variant's
//      words, the widest bounds), and requires what all of them require.
//   3. A call goes to the first variant whose own schema its arguments fit.  If they fit none, the
//      error is that of the variant with the fewest problems, the first of several.
//   4. A variant with TOOL_UNLISTED, another spelling of arguments, does not change the listing.
//   5. An output schema is listed if all variants have the same one.

#ifndef CONSTRICTOR_MCP_TOOLS_TOOL_VARIANTS_H
#define CONSTRICTOR_MCP_TOOLS_TOOL_VARIANTS_H

#include "mcp/tools/tools.h"

enum { TOOL_VARIANTS_MAX = 8 };

struct tool_variant {
    const struct mcp_tool *tool;
    json_t *input;
};

struct tool_entry {
    const char *name;
    const struct mcp_tool *first;
    size_t count;
    struct tool_variant variants[TOOL_VARIANTS_MAX];
    unsigned hints;      // of all of them together
    json_t *input;       // of all of them together
    json_t *brief;       // as listed in few words (tools.h); NULL: `input` is listed
    json_t *output;      // as listed, or NULL
    json_t *description; // as listed, a text
};

// Adds a variant.  `set` is the name of its set, for the description of an entry with several;
// `brief` may be NULL.
int tool_variants_add(struct tool_entry *entry, const struct mcp *m, const struct mcp_tool *tool,
                      const struct tool_brief *brief, const char *set, struct err *e);
void tool_variants_clear(struct tool_entry *entry);

// The variant that a call goes to; NULL and a message if the arguments fit none.
const struct mcp_tool *tool_variants_choose(const struct tool_entry *entry, json_t *arguments,
                                            char *ret_message, size_t cap);

#endif
