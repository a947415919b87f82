// SPDX-License-Identifier: Apache-2.0
//
// ts1: the client of the TypeScript SDK, version 1: the one of most programs in use.  See steps.mjs.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { record, target, transport } from "./steps.mjs";
import { walk } from "./walk.mjs";

const transports = {
    stdio: () => new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env }),
    http: () => new StreamableHTTPClientTransport(new URL(target[0])),
    sse: () => new SSEClientTransport(new URL(target[0])),
};

const client = new Client({ name: "ts1", version: "1" });
const pipe = record(transports[transport]());

async function call(name, args, options) {
    return client.callTool({ name, arguments: args }, undefined, options);
}

await walk(client, () => client.connect(pipe), call, () => true);
