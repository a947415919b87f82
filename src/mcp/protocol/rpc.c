// SPDX-License-Identifier: Apache-2.0
//
// rpc: see rpc.h.  Called by the transports with hostile bytes.

#include "mcp/protocol/rpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json/quick_json.h"

static const char *const version_names[MCP_VERSION_MAX] = {
#define X(name, text) [name] = text,
    MCP_VERSION_MAP(X)
#undef X
};

const char *mcp_version_name(enum mcp_version version)
{
    return version_names[version];
}

int mcp_version_find(const char *text)
{
    for (int i = 0; text && i < MCP_VERSION_MAX; i++)
        if (strcmp(text, version_names[i]) == 0)
            return i;
    return -1;
}

// ---- refusals -----------------------------------------------------------------------------------

int rpc_refuse(struct rpc_refusal *no, int code, int status, json_t *id, json_t *data,
               const char *fmt, ...)
{
    *no = (struct rpc_refusal){.code = code, .status = status, .id = json_incref(id), .data = data};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(no->message, sizeof no->message, fmt, ap);
    va_end(ap);
    return -1;
}

void rpc_refusal_clear(struct rpc_refusal *no)
{
    json_decref(no->id);
    json_decref(no->data);
    no->id = no->data = NULL;
}

json_t *rpc_error_json(json_t *id, int code, const char *message, json_t *data)
{
    json_t *error = json_pack("{s:i, s:s}", "code", code, "message", message);
    if (!error) // `message` is not UTF-8: it holds a client's text, cut within a character
        error = json_pack("{s:i, s:s}", "code", code, "message", "the request cannot be served");
    if (data)
        (void)json_object_set_new(error, "data", data);
    return json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", id ? json_incref(id) : json_null(),
                     "error", error);
}

json_t *rpc_refusal_json(const struct rpc_refusal *no)
{
    return rpc_error_json(no->id, no->code, no->message, json_incref(no->data));
}

// ---- reading ------------------------------------------------------------------------------------

static int check_bounds(const char *text, size_t length, struct rpc_refusal *no)
{
    switch (quick_json_measure(text, length, QUICK_JSON_VALUES_MAX, QUICK_JSON_DEPTH_MAX)) {
    case QUICK_JSON_FITS: return 0;
    case QUICK_JSON_TOO_DEEP:
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, NULL, NULL,
                          "the message is nested deeper than %d levels", QUICK_JSON_DEPTH_MAX);
    case QUICK_JSON_TOO_MANY: break;
    }
    return rpc_refuse(no, MCP_INVALID_REQUEST, 400, NULL, NULL,
                      "the message has more than %d values", QUICK_JSON_VALUES_MAX);
}

// A valid JSON number that we cannot represent.  The refusal names the request, or its client would
// wait forever.
static int refuse_number(const char *text, size_t length, int position, struct rpc_refusal *no)
{
    json_t *message = json_loadb(text, length, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL),
           *given = json_object_get(message, "id");
    double number = json_number_value(given);
    json_auto_t *id = json_is_string(given) ? json_incref(given) : NULL;
    if (json_is_real(given) && number > -0x1p53 && number < 0x1p53 &&
        number == (double)(json_int_t)number)
        id = json_integer((json_int_t)number);
    int r = rpc_refuse(no, id ? MCP_INVALID_PARAMS : MCP_INVALID_REQUEST, 400, id, NULL,
                       "a number is too large (byte %d): whole numbers have at most 64 bits, "
                       "others are at most 1.8e308",
                       position);
    json_decref(message);
    return r;
}

static size_t skip_blanks(const char *text, size_t length, size_t at)
{
    while (at < length && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r'))
        at++;
    return at;
}

// The end of the string that begins at `at`, or `length`.
static size_t skip_string(const char *text, size_t length, size_t at)
{
    for (at++; at < length && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < length ? at + 1 : length;
}

// The end of the value at `at`: the comma or brace after it, or `length`.
static size_t skip_value(const char *text, size_t length, size_t at)
{
    for (size_t depth = 0; at < length; at++) {
        char c = text[at];
        if (c == '"') {
            at = skip_string(text, length, at) - 1;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']' || c == ',') {
            if (depth == 0)
                return at;
            depth -= c != ',';
        }
    }
    return length;
}

// A whole value that can be an id, or NULL.
static json_t *read_id(const char *text, size_t length)
{
    json_t *id = length <= RPC_ID_TEXT_MAX ? json_loadb(text, length, JSON_DECODE_ANY, NULL) : NULL;
    if (json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= RPC_ID_MAX))
        return id;
    json_decref(id);
    return NULL;
}

json_t *rpc_peek_id(const char *text, size_t length)
{
    json_t *id = NULL;
    length = length < RPC_PREFIX_MAX ? length : RPC_PREFIX_MAX;
    size_t at = skip_blanks(text, length, 0);
    bool doubt = at >= length || text[at] != '{', method = false;
    for (at++; !doubt && at < length; at++) {
        size_t key = skip_blanks(text, length, at), end;
        if (key >= length || text[key] != '"')
            break;
        end = skip_string(text, length, key);
        at = skip_blanks(text, length, end);
        // An escape in a key may spell "id" as well.
        doubt = memchr(text + key, '\\', end - key) != NULL || at >= length || text[at] != ':';
        size_t value = at + 1;
        at = skip_value(text, length, value);
        if (doubt || at >= length)
            break;
        method |= end - key == 8 && memcmp(text + key, "\"method\"", 8) == 0;
        if (end - key != 4 || memcmp(text + key, "\"id\"", 4) != 0)
            continue;
        doubt = id != NULL; // it occurs twice
        json_decref(id);
        id = doubt ? NULL : read_id(text + value, at - value);
        doubt = !id;
    }
    if (!doubt && method)
        return id;
    json_decref(id);
    return NULL;
}

int rpc_read(const char *text, size_t length, struct rpc_message *ret, struct rpc_refusal *no)
{
    json_error_t error;
    if (check_bounds(text, length, no) < 0)
        return -1;
    // SECURITY: parsers differ on duplicate keys, so they are an error.
    json_t *message =
        quick_json_load(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!message && json_error_code(&error) == json_error_numeric_overflow)
        return refuse_number(text, length, error.position, no);
    if (!message)
        return rpc_refuse(no, MCP_PARSE_ERROR, 400, NULL, NULL, "not JSON: %.120s (byte %d)",
                          error.text, error.position);
    if (rpc_sort(message, ret, no) < 0)
        return -1;
    ret->length = length;
    int r = rpc_check_params(ret, length, no);
    if (r < 0)
        rpc_message_clear(ret);
    return r;
}

// ---- bounds -------------------------------------------------------------------------------------

static size_t text_length(json_t *value)
{
    return value ? json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) : 0;
}

int rpc_check_params(const struct rpc_message *m, size_t length, struct rpc_refusal *no)
{
    static const char *const long_ones[] = {"arguments", "inputResponses", "requestState"};
    if (length <= RPC_PARAMS_MAX || (m->kind != RPC_REQUEST && m->kind != RPC_NOTIFICATION))
        return 0;
    // A prompt has its own bound and is answered at once.
    bool is_call = strcmp(m->method, "tools/call") == 0 || strcmp(m->method, "prompts/get") == 0;
    json_t *rest = is_call ? json_copy(m->params) : json_incref(m->params);
    for (size_t i = 0; is_call && i < sizeof long_ones / sizeof *long_ones; i++)
        (void)json_object_del(rest, long_ones[i]);
    size_t found = text_length(rest);
    json_decref(rest);
    // The rest of the message is stored with the parameters.
    size_t beside = text_length(m->message) - text_length(m->params);
    if (found <= RPC_PARAMS_MAX && beside <= RPC_PARAMS_MAX)
        return 0;
    return rpc_refuse(no, MCP_INVALID_PARAMS, 400, m->id, NULL,
                      "the parameters are too long: at most %d bytes%s", RPC_PARAMS_MAX,
                      is_call ? " beside the 'arguments'" : " for this method");
}

static const char full[] = "the answer of the batch is too large; send one request at a time";

int rpc_refuse_full(struct rpc_refusal *no, json_t *id)
{
    return rpc_refuse(no, MCP_INTERNAL_ERROR, 200, id, NULL, "%s", full);
}

json_t *rpc_batch_answer(size_t *used, json_t *answer)
{
    size_t length = text_length(answer);
    if (*used + length <= RPC_BATCH_BYTES) {
        *used += length;
        return json_incref(answer);
    }
    *used = RPC_BATCH_BYTES;
    return rpc_error_json(json_object_get(answer, "id"), MCP_INTERNAL_ERROR, full, NULL);
}

// ---- sorting ------------------------------------------------------------------------------------

// A request id is a text without NUL, which would end it early in comparisons, or a whole number;
// null is for answers to unreadable messages.
static bool is_id(json_t *id)
{
    size_t length = json_string_length(id);
    return json_is_integer(id) ||
           (json_is_string(id) && length <= RPC_ID_MAX && strlen(json_string_value(id)) == length);
}

static int sort_call(struct rpc_message *m, json_t *id, struct rpc_refusal *no)
{
    json_t *known = is_id(id) ? id : NULL;
    json_t *method = json_object_get(m->message, "method");
    json_t *params = json_object_get(m->message, "params");
    if (id && !known)
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, NULL, NULL,
                          "'id' must be a whole number or a text of at most %d bytes", RPC_ID_MAX);
    if (!json_is_string(method) || !json_string_length(method) ||
        json_string_length(method) > RPC_METHOD_MAX ||
        strlen(json_string_value(method)) != json_string_length(method))
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, known, NULL,
                          "'method' must be a text of 1 to %d bytes", RPC_METHOD_MAX);
    if (params && !json_is_object(params))
        return rpc_refuse(no, MCP_INVALID_PARAMS, 400, known, NULL, "'params' must be an object");
    json_t *meta = json_object_get(params, "_meta");
    if (meta && !json_is_object(meta))
        return rpc_refuse(no, MCP_INVALID_PARAMS, 400, known, NULL,
                          "'params._meta' must be an object");
    m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    m->id = known;
    m->method = json_string_value(method);
    m->params = params;
    m->meta = meta;
    m->modern = json_object_get(meta, MCP_META_VERSION) != NULL;
    return 0;
}

static int sort(struct rpc_message *m, struct rpc_refusal *no)
{
    if (json_is_array(m->message)) {
        m->kind = RPC_BATCH;
        size_t count = json_array_size(m->message);
        if (!count || count > RPC_BATCH_MAX)
            return rpc_refuse(no, MCP_INVALID_REQUEST, 400, NULL, NULL,
                              "a batch holds 1 to %d messages, this one has %zu", RPC_BATCH_MAX,
                              count);
        return 0;
    }
    if (!json_is_object(m->message))
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, NULL, NULL, "a message is a JSON object");
    json_t *id = json_object_get(m->message, "id");
    const char *protocol = json_string_value(json_object_get(m->message, "jsonrpc"));
    if (!protocol || strcmp(protocol, "2.0") != 0)
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, is_id(id) ? id : NULL, NULL,
                          "'jsonrpc' must be \"2.0\"");
    bool has_result = json_object_get(m->message, "result") != NULL,
         has_error = json_is_object(json_object_get(m->message, "error"));
    if (json_object_get(m->message, "method") || has_result == has_error)
        return sort_call(m, id, no);
    if (!is_id(id) && !(has_error && (!id || json_is_null(id))))
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, NULL, NULL, "a response needs an 'id'");
    m->kind = RPC_RESPONSE;
    m->id = id;
    return 0;
}

int rpc_sort(json_t *message, struct rpc_message *ret, struct rpc_refusal *no)
{
    *ret = (struct rpc_message){.message = message};
    int r = sort(ret, no);
    if (r < 0)
        rpc_message_clear(ret);
    return r;
}

void rpc_message_clear(struct rpc_message *m)
{
    json_decref(m->message);
    *m = (struct rpc_message){0};
}

static json_t *versions_json(const char *requested)
{
    return json_pack("{s:[s], s:s}", "supported", version_names[MCP_2026_07_28], "requested",
                     requested);
}

int rpc_check_modern(const struct rpc_message *m, enum mcp_version *ret, struct rpc_refusal *no)
{
    json_t *version = json_object_get(m->meta, MCP_META_VERSION);
    if (!json_is_string(version))
        return rpc_refuse(no, MCP_INVALID_PARAMS, 400, m->id, NULL,
                          "params._meta must have a text '" MCP_META_VERSION "'");
    int known = mcp_version_find(json_string_value(version));
    if (known <= MCP_NEWEST_LEGACY) // also an unknown one; the old ones need a handshake
        return rpc_refuse(no, MCP_UNSUPPORTED_VERSION, 400, m->id,
                          versions_json(json_string_value(version)),
                          "protocol version '%.40s' is not served without a handshake",
                          json_string_value(version));
    if (!json_is_object(json_object_get(m->meta, MCP_META_CAPABILITIES)) && m->kind == RPC_REQUEST)
        return rpc_refuse(no, MCP_INVALID_PARAMS, 400, m->id, NULL,
                          "params._meta must have an object '" MCP_META_CAPABILITIES "'");
    *ret = (enum mcp_version)known;
    return 0;
}
