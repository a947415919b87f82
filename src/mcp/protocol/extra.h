// SPDX-License-Identifier: Apache-2.0
//
// extra: tools, resources and prompts that come from outside of src/mcp.  A room above, or a test
// program, registers a table before the server starts; tools.c, resources.c, prompts.c and listen.c
// walk through the list.

#ifndef CONSTRICTOR_MCP_PROTOCOL_EXTRA_H
#define CONSTRICTOR_MCP_PROTOCOL_EXTRA_H

#include <stdbool.h>

#include "mcp/protocol/mcp.h"

struct mcp_tool; // mcp/tools/tools.h

// Any of these may be NULL.  Arrays are new.
struct mcp_extra {
    const struct mcp_tool *tools;                      // ends with a row without a name
    json_t *(*resources)(const struct mcp_call *c);    // rows of resources/list
    json_t *(*templates)(const struct mcp_call *c);    // rows of resources/templates/list
    json_t *(*prompts)(const struct mcp_call *c);      // rows of prompts/list
    bool (*read)(struct mcp_call *c, const char *uri); // false: not its URI, else ends the call
    bool (*exists)(struct mcp *m, const char *uri, const char *owner);
    // Values for the variable of a resource template, or NULL: not its template.
    json_t *(*complete_template)(struct mcp *m, const char *owner, const char *uri_template,
                                 const char *variable, const char *prefix);
    // False: not its prompt, else ends the call.
    bool (*get_prompt)(struct mcp_call *c, const char *name, json_t *arguments);
    // Values for the argument of a prompt, or NULL: not its prompt.
    json_t *(*complete_prompt)(const char *name, const char *argument, const char *prefix);
    bool lists_change;      // it announces changes of tools, resources and prompts
    struct mcp_extra *next; // set by mcp_extra_register()
};

extern struct mcp_extra *mcp_extras; // in the order of registration

// Call it before mcp_open(), once for each table.
void mcp_extra_register(struct mcp_extra *extra);

// Appends `rows` (array or NULL, taken) to `list`.
void mcp_extra_append(json_t *list, json_t *rows);

#endif
