// SPDX-License-Identifier: Apache-2.0
//
// page: what a server shows to people, at /: the page of web/ (page_files.h), or where the build
// had no packages for that, a plain sheet of addresses.  Runs in the gate; the HTTP server calls
// it.

#ifndef CONSTRICTOR_CLI_PAGE_H
#define CONSTRICTOR_CLI_PAGE_H

#include <stdbool.h>

#include "config/config.h"
#include "http/http.h"
#include "mcp/protocol/mcp.h"
#include "rest/html.h"
#include "run/gate.h"

struct page {
    const struct config *config;
    const struct gate *gate;
    const struct mcp *mcp;
    const char *base_url; // "http://127.0.0.1:8000", without a slash at the end
    bool with_key;
    char policy[HTML_POLICY_MAX]; // Content-Security-Policy
};

void page_init(struct page *p);

// Routes with the page as their argument; a row without a path ends them.  For one page only.
const struct http_route *page_routes(struct page *p);

#endif
