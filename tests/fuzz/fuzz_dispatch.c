// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of the MCP dispatch: the input is what a client writes, line by line, in both eras.
// Each request is answered exactly once or still in flight, and every answer is a JSON-RPC message.
// There is no keeper, so nothing is run.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/protocol/client.h"
#include "mcp/protocol/mcp.h"
#include "mcp/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned finished;

static void on_send(struct mcp_outlet *o, json_t *message, bool last)
{
    (void)o;
    assert(json_is_object(message));
    assert(strcmp(json_string_value(json_object_get(message, "jsonrpc")), "2.0") == 0);
    char *text = json_dumps(message, JSON_COMPACT);
    assert(text);
    free(text);
    finished += last;
}

static void on_drop(struct mcp_outlet *o)
{
    (void)o;
    finished++;
}

static void one_line(struct mcp *m, struct mcp_client *client, struct mcp_outlet *outlet,
                     const char *line, size_t length)
{
    struct rpc_message message;
    struct rpc_refusal no;
    struct mcp_from from = {
        .client = client, .outlet = outlet, .owner = "", .version = client->version};
    if (rpc_read(line, length, &message, &no) < 0) {
        json_decref(rpc_refusal_json(&no));
        rpc_refusal_clear(&no);
        return;
    }
    if (message.modern && message.kind != RPC_BATCH &&
        rpc_check_modern(&message, &from.version, &no) < 0) {
        rpc_refusal_clear(&no);
        rpc_message_clear(&message);
        return;
    }
    unsigned before = finished, calls = m->calls;
    bool request = message.kind == RPC_REQUEST;
    struct mcp_call *c = mcp_receive(m, &from, &message);
    if (request) {
        assert((c != NULL) == (finished == before) || finished > before + 1);
        assert(c || m->calls <= calls + 1); // a task may go on behind an answer
    }
}

// Making a server takes half a second under the sanitizers: it is used for many inputs, each in a
// session of its own.
enum { INPUTS_EACH = 500 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config config;
    static struct event_base *base;
    static struct mcp m;
    static unsigned inputs;
    static struct mcp_outlet outlet = {.send = on_send,
                                       .drop = on_drop}; // calls may outlast an input
    struct err e;
    if (!base) {
        base = event_base_new();
        config_init(&config);
    }
    if (inputs == 0)
        assert(mcp_open(&m, base, NULL, &config, &e) == 0);
    struct mcp_client *client = mcp_client_new_private(&m, "");
    assert(client);
    client->outlet = &outlet;
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (data + at)) : size - at;
        one_line(&m, client, &outlet, (const char *)data + at, length);
        at += length + 1;
    }
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    mcp_client_end(client);
    inputs = (inputs + 1) % INPUTS_EACH;
    if (inputs == 0)
        mcp_close(&m);
    return 0;
}
