// SPDX-License-Identifier: Apache-2.0
//
// ts2: the client of the TypeScript SDK, version 2, which knows both eras.  See steps.mjs.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { mode, record, target, transport } from "./steps.mjs";
import { walk } from "./walk.mjs";

const transports = {
    stdio: () => new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env }),
    http: () => new StreamableHTTPClientTransport(new URL(target[0])),
    sse: () => new SSEClientTransport(new URL(target[0])),
};

const client = new Client(
    { name: "ts2", version: "1" },
    { versionNegotiation: { mode: mode === "pin" ? { pin: "2026-07-28" } : mode } },
);
const pipe = record(transports[transport]());

async function call(name, args, options) {
    return client.callTool({ name, arguments: args }, options);
}

await walk(client, () => client.connect(pipe), call, () => client.getProtocolEra() === "legacy");
