// SPDX-License-Identifier: Apache-2.0
//
// variants: a tool as clients see it, which may be made of several: sets of tools (sets.h) share
// names and take other arguments.
//
//   1. The variants of an entry are in the order of the sets, the default set first.
//   2. The listed input schema takes what any variant takes: all their properties (the first
//   variant's words, the
//      widest bounds), and what all of them require.
//   3. A call goes to the first variant whose own schema its arguments fit.  When they fit none,
//   the error is that of
//      the variant with the fewest problems, the first of several.
//   4. A variant with TOOL_UNLISTED, another spelling of arguments, is taken and changes nothing of
//   what is listed.
//   5. An output schema is listed when all variants have the same one: what a call answers depends
//   on its variant.

#ifndef CONSTRICTOR_MCP_TOOLS_VARIANTS_H
#define CONSTRICTOR_MCP_TOOLS_VARIANTS_H

#include "mcp/tools/tools.h"

enum { VARIANTS_MAX = 8 };

struct tool_variant {
    const struct mcp_tool *tool;
    json_t *input;
};

struct tool_entry {
    const char *name;
    const struct mcp_tool *first;
    size_t count;
    struct tool_variant variants[VARIANTS_MAX];
    unsigned hints;      // of all of them together
    json_t *input;       // as listed
    json_t *output;      // as listed, or NULL
    json_t *description; // as listed, a text
};

// Adds a variant.  `set` is the name of its set, for the description of an entry that has others.
int variants_add(struct tool_entry *entry, const struct mcp *m, const struct mcp_tool *tool,
                 const char *set, struct err *e);
void variants_clear(struct tool_entry *entry);

// The variant that a call goes to; NULL and the message of what is wrong with the arguments.
const struct mcp_tool *variants_choose(const struct tool_entry *entry, json_t *arguments,
                                       char *ret_message, size_t cap);

#endif
