// SPDX-License-Identifier: Apache-2.0
//
// fixtures: the tools, resources and prompts that the official conformance suite looks for.  The
// program constrictor-conformance is the shipped program linked with these files; so are the unit
// tests and the fuzzer that need them.

#ifndef CONSTRICTOR_CONFORMANCE_FIXTURES_H
#define CONSTRICTOR_CONFORMANCE_FIXTURES_H

#include "mcp/protocol/mcp.h"
#include "mcp/tools/tools.h"

extern const struct mcp_tool fixture_tools[]; // ends with a row without a name
extern const char fixture_png[];              // base64

// An argument of the tool or prompt; the text is "" without one.
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
