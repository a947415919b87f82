// SPDX-License-Identifier: Apache-2.0
//
// mime: the type of a file by its name and its first bytes.  Used by the artifact store, REST and
// MCP.
//
// SECURITY: hostile code chose the name and the bytes.  Every answer that serves a file also says
// "nosniff".

#ifndef CONSTRICTOR_HTTP_MIME_H
#define CONSTRICTOR_HTTP_MIME_H

#include <stdbool.h>
#include <stddef.h>

enum { MIME_TYPE_MAX = 100 };

// Never NULL; "application/octet-stream" when unknown.
const char *mime_type(const char *path, const void *head, size_t length);

// Are these bytes, which travel as base64 in JSON, and not text?  False for a type that is unknown.
bool mime_is_binary(const char *type);

#endif
