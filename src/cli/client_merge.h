// SPDX-License-Identifier: Apache-2.0
//
// client_merge: puts our entry into the text of a client's settings.  All other bytes stay as they
// are: the text is changed at one place, not written anew.

#ifndef CONSTRICTOR_CLI_CLIENT_MERGE_H
#define CONSTRICTOR_CLI_CLIENT_MERGE_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

// The text with `snippet` ({servers: {"constrictor": {...}}}) merged into it.  The caller frees it.
int client_merge_json(const char *text, size_t length, const json_t *snippet, char **ret,
                      struct err *e);

// The same for TOML: `section` begins with the line "[mcp_servers.constrictor]".
int client_merge_toml(const char *text, const char *section, char **ret, struct err *e);

#endif
