// SPDX-License-Identifier: Apache-2.0
//
// serve: what the commands `serve`, `stdio` and `client-config` share.

#ifndef CONSTRICTOR_CLI_SERVE_H
#define CONSTRICTOR_CLI_SERVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "config/config.h"
#include "http/http.h"
#include "mcp/protocol/mcp.h"
#include "run/gate.h"

// ---- the programs that MCP servers are entered into (client_config.c) ---------------------------

struct client {
    const char *name, *title;
    const char *servers;          // the key above the servers
    const char *url;              // the key of a server's address
    bool typed;                   // a server says its type
    const char *type_http;        // what it then says
    bool http_typed;              // says the type of a server with an address only
    const char *key;              // how the file takes a value from the environment
    const char *file, *file_http; // where the snippet goes; NULL: into `file` as well
};

extern const struct client clients[]; // ends with a row without a name

// The snippet for a server at `url`, or with NULL for `program` that the client starts itself.
// `with_key`: clients have to show one.  NULL when memory is out.
json_t *client_snippet(const struct client *client, const char *program, const char *url,
                       bool with_key);

// The absolute path of this program.
int client_program(char *ret, size_t cap, struct err *e);

// ---- the page of a server (page.c) --------------------------------------------------------------

struct page {
    const struct config *config;
    const struct gate *gate;
    const struct mcp *mcp;
    const char *base_url; // "http://127.0.0.1:8000", without a slash at the end
    bool with_key;
    char policy[256]; // Content-Security-Policy
};

void page_init(struct page *p);

// Routes, with the page as their argument; ends with a row without a path.  Made for one page.
const struct http_route *page_routes(struct page *p);

#endif
