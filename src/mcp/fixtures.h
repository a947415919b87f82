// SPDX-License-Identifier: Apache-2.0
//
// fixtures: the tools, resources and prompts that the official conformance suite looks for.  Off
// unless
// --conformance-fixtures is given; never for production.

#ifndef CONSTRICTOR_MCP_FIXTURES_H
#define CONSTRICTOR_MCP_FIXTURES_H

#include "mcp/protocol/mcp.h"
#include "mcp/tools/tools.h"

extern const struct mcp_tool fixture_tools[]; // ends with a row without a name

// Rows for the lists (arrays, new) and the handlers of what they name.  The get/read functions
// return false when the name is none of theirs, else they ended the call.
json_t *fixture_resources(void);
json_t *fixture_templates(void);
json_t *fixture_prompts(void);
bool fixture_resource_read(struct mcp_call *c, const char *uri);
bool fixture_resource_exists(const char *uri);
bool fixture_prompt_get(struct mcp_call *c, const char *name, json_t *arguments);
json_t *fixture_complete(const char *prompt, const char *argument, const char *prefix); // or NULL

#endif
