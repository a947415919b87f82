// SPDX-License-Identifier: Apache-2.0
//
// resources: what a client can read: a guide, the state of the server, the full outputs of recent
// runs (outputs.h), and files (file_resources.h).

#ifndef CONSTRICTOR_MCP_TOOLS_RESOURCES_H
#define CONSTRICTOR_MCP_TOOLS_RESOURCES_H

#include "mcp/protocol/mcp.h"

void mcp_handle_resources_list(struct mcp_call *c);
void mcp_handle_templates_list(struct mcp_call *c);
void mcp_handle_resources_read(struct mcp_call *c);

// Is there such a resource for this owner (also by a template)?
bool mcp_resource_exists(struct mcp *m, const char *uri, const char *owner);

// Values for the variable of a template that begin with `prefix`: array of strings, new; NULL: no
// such template or variable.  `known`: the other variables, as far as the client has filled them
// in; or NULL.
json_t *mcp_resource_complete(struct mcp *m, const char *owner, const char *uri_template,
                              const char *variable, const char *prefix, json_t *known);

// A row of resources/templates/list, new, with the fields that the client's revision knows.
struct resource_template {
    const char *uri_template, *name, *title, *description;
    const char *mime_type; // or NULL
    double priority;
};
json_t *mcp_resource_template(const struct mcp_call *c, const struct resource_template *t);

// One {"uri", "mimeType", "text"} or {"uri", "mimeType", "blob"}: ends a resources/read.
void mcp_resource_answer(struct mcp_call *c, json_t *contents, int64_t ttl_ms, bool is_private);

// Can these bytes be a text in JSON without growing to many times their length?
bool mcp_is_text(const char *data, size_t length);

#endif
