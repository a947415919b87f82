// SPDX-License-Identifier: Apache-2.0
//
// fixtures_kit: what the two files of the conformance fixtures share.  For nobody else.

#ifndef CONSTRICTOR_MCP_FIXTURES_KIT_H
#define CONSTRICTOR_MCP_FIXTURES_KIT_H

#include "mcp/protocol/mcp.h"

extern const char fixture_png[]; // base64

// An argument of the tool or prompt; the text is "" when there is none.
json_t *fixture_argument(const struct mcp_call *c, const char *name);
const char *fixture_text(const struct mcp_call *c, const char *name);

// A content block with a resource.
json_t *fixture_embedded(const char *uri, const char *type, const char *text);

// A question to the user, and a field of the form that came back, or NULL.
struct mcp_question fixture_elicit(const char *key, const char *message, const char *schema);
const char *fixture_form_text(json_t *answers, const char *key, const char *field);

// Schema of a form with one field for a text.
#define TEXT_FIELD(name)                                                                           \
    "{\"type\": \"object\", \"properties\": {\"" name "\": {\"type\": \"string\"}}, "              \
    "\"required\": [\"" name "\"]}"

#endif
