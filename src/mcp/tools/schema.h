// SPDX-License-Identifier: Apache-2.0
//
// schema: checks a value against a JSON schema: the part of 2020-12 that tool schemas use (type,
// enum, const, properties, required, additionalProperties, items, minimum, maximum, exclusive ones,
// minLength, maxLength, minItems, maxItems).  Other keywords are ignored.  Depth and effort are
// bounded.

#ifndef CONSTRICTOR_MCP_TOOLS_SCHEMA_H
#define CONSTRICTOR_MCP_TOOLS_SCHEMA_H

#include <jansson.h>
#include <stddef.h>

// 0, or -1 and a sentence that names the argument, its value and what is allowed.
int schema_check(json_t *schema, json_t *value, char *ret_message, size_t cap);

#endif
