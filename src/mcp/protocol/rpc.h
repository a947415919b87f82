// SPDX-License-Identifier: Apache-2.0
//
// rpc: one JSON-RPC message from a client, read with bounds and sorted: request, notification,
// response or batch, of the old protocol or the new one.  Pure functions of their arguments.

#ifndef CONSTRICTOR_MCP_PROTOCOL_RPC_H
#define CONSTRICTOR_MCP_PROTOCOL_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// Revisions of the protocol, oldest first.  All but the last have a handshake ("legacy"); the last
// has none ("modern").
#define MCP_VERSION_MAP(X)                                                                         \
    X(MCP_2024_11_05, "2024-11-05")                                                                \
    X(MCP_2025_03_26, "2025-03-26")                                                                \
    X(MCP_2025_06_18, "2025-06-18")                                                                \
    X(MCP_2025_11_25, "2025-11-25")                                                                \
    X(MCP_2026_07_28, "2026-07-28")

enum mcp_version {
#define X(name, text) name,
    MCP_VERSION_MAP(X)
#undef X
        MCP_VERSION_MAX
};

#define MCP_NEWEST_LEGACY MCP_2025_11_25

const char *mcp_version_name(enum mcp_version version);
int mcp_version_find(const char *text); // an enum mcp_version, or -1

// Error codes of JSON-RPC and of MCP.
enum {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL_ERROR = -32603,
    MCP_RESOURCE_NOT_FOUND = -32002, // legacy; modern: MCP_INVALID_PARAMS
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

// Keys below params._meta and result._meta.
#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_CLIENT "io.modelcontextprotocol/clientInfo"
#define MCP_META_SERVER "io.modelcontextprotocol/serverInfo"
#define MCP_META_LOG_LEVEL "io.modelcontextprotocol/logLevel"
#define MCP_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"
#define MCP_EXTENSION_TASKS "io.modelcontextprotocol/tasks"

enum {
    RPC_PREFIX_MAX = 64 * 1024,
    RPC_BATCH_MAX = 64,
    RPC_ID_MAX = 256,                     // bytes of a string id
    RPC_ID_TEXT_MAX = RPC_ID_MAX * 6 + 2, // the same in JSON: \u00XX for each byte, and quotes
    RPC_METHOD_MAX = 128,
    RPC_PARAMS_MAX = 64 * 1024,        // bytes of parameters; see rpc_check_params()
    RPC_BATCH_BYTES = 8 * 1024 * 1024, // of all the answers to one batch
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE, RPC_BATCH };

// A message that was read.  All but `message` are borrowed from it.
struct rpc_message {
    json_t *message; // owned: rpc_message_clear()
    size_t length;   // of the text it was read from; 0: unknown
    enum rpc_kind kind;
    bool modern;        // params._meta names a protocol version
    json_t *id;         // request, response
    const char *method; // request, notification
    json_t *params;     // object or NULL
    json_t *meta;       // params._meta when it is an object, or NULL
};

// Why a message is refused before any handler sees it.
struct rpc_refusal {
    int code;     // MCP_PARSE_ERROR ...
    int status;   // HTTP
    json_t *id;   // owned; NULL when unknown
    json_t *data; // owned or NULL
    char message[512];
};

// The id of a request of which only the beginning was read: a string or whole number at the top
// level, once and complete, beside a method.  New; NULL: there is none, or it is in doubt.
// SECURITY: looks at RPC_PREFIX_MAX bytes at most.
json_t *rpc_peek_id(const char *text, size_t length);

int rpc_read(const char *text, size_t length, struct rpc_message *ret, struct rpc_refusal *no);

// Sorts a parsed value.  Takes `message` on success and on failure.
int rpc_sort(json_t *message, struct rpc_message *ret, struct rpc_refusal *no);

// SECURITY: calls may stay open for long, so what they hold of a request is bounded: only tool
// arguments and the answers of a second round may be long.  `length` is that of the whole text; a
// short one is not measured.  rpc_read() does this, but not for elements of a batch.  0, or -1 and
// the refusal.
int rpc_check_params(const struct rpc_message *m, size_t length, struct rpc_refusal *no);

// The next answer of a batch, after `*used` bytes of text; new.  If it does not fit, it is replaced
// by an error, and the batch is full.  NULL: memory is out.
json_t *rpc_batch_answer(size_t *used, json_t *answer);
static inline bool rpc_batch_is_full(size_t used)
{
    return used >= RPC_BATCH_BYTES;
}
// Refuses a request of a full batch; -1.
int rpc_refuse_full(struct rpc_refusal *no, json_t *id);

// Checks that a modern message has version and capabilities, and that the version is served.
int rpc_check_modern(const struct rpc_message *m, enum mcp_version *ret, struct rpc_refusal *no);

void rpc_message_clear(struct rpc_message *m);
void rpc_refusal_clear(struct rpc_refusal *no);

// Fills a refusal; returns -1.  `id` is borrowed, `data` is taken; both may be NULL.
int rpc_refuse(struct rpc_refusal *no, int code, int status, json_t *id, json_t *data,
               const char *fmt, ...) __attribute__((format(printf, 6, 7)));

// The error response of a refusal; NULL when memory is out.
json_t *rpc_refusal_json(const struct rpc_refusal *no);

// {"jsonrpc": "2.0", "id": ..., "error": {...}}; `id` borrowed (NULL: null), `data` taken.
json_t *rpc_error_json(json_t *id, int code, const char *message, json_t *data);

#endif
