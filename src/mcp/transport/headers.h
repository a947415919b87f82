// SPDX-License-Identifier: Apache-2.0
//
// headers: the headers that mirror parts of a modern request (SEP-2243), so that a proxy can route
// without reading the body.  Called by mcp/transport/http.c; pure functions of their arguments.
//
// SECURITY: a proxy that routes by the header and a server that acts by the body must see the same
// request, so a header that is missing, duplicate, badly encoded or different is refused.

#ifndef CONSTRICTOR_MCP_TRANSPORT_HEADERS_H
#define CONSTRICTOR_MCP_TRANSPORT_HEADERS_H

#include <jansson.h>
#include <stddef.h>

#include "mcp/protocol/mcp.h"
#include "mcp/protocol/rpc.h"

#define HEADER_VERSION "MCP-Protocol-Version"
#define HEADER_METHOD "Mcp-Method"
#define HEADER_NAME "Mcp-Name"
#define HEADER_PARAM "Mcp-Param-"

// The headers of one request.
struct headers {
    // How many have this name, ignoring case; `ret` is the value of one.
    unsigned (*get)(const void *of, const char *name, const char **ret);
    const void *of;
};

// Trims a value, and decodes the form =?base64?...?=.  0 and a text that the caller frees (it may
// hold NUL bytes), or -EINVAL: invalid bytes, not canonical base64, or not UTF-8; -ENOMEM.
int header_decode(const char *value, char **ret, size_t *ret_length);

// Each returns 0, or -1 and the refusal (MCP_HEADER_MISMATCH).

// A version header must name the version of the body.
int headers_check_version(const struct headers *h, const struct rpc_message *m,
                          struct rpc_refusal *no);
// The headers that every request, and every request of this method, must have.
int headers_check_standard(const struct headers *h, const struct rpc_message *m,
                           const struct mcp_method *method, struct rpc_refusal *no);
// The headers that mirror arguments of a tool: properties with "x-mcp-header" in its schema.
int headers_check_params(const struct headers *h, json_t *schema, json_t *arguments,
                         struct rpc_refusal *no);

#endif
