// SPDX-License-Identifier: Apache-2.0
//
// tasks: the extension io.modelcontextprotocol/tasks with its own client, over the SDK's transports.
// See steps.mjs.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { alive, endless, finish, must, record, step, target, text, transport, until } from "./steps.mjs";

const VERSION = "2026-07-28";
const LONG_S = 120; // a run that may take so long becomes a task
const info = { name: "tasks", version: "1" };

const pipe = record(transport === "stdio"
    ? new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env })
    : new StreamableHTTPClientTransport(new URL(target[0])), take);
const client = new Client(info, { versionNegotiation: { mode: { pin: VERSION } } });
const waiting = new Map();
let session;

// The SDK's client does not know what tasks look like on the wire, so their requests go past it.
function dispatch(request, options = {}) {
    const id = `raw-${waiting.size}-${request.method}`;
    return new Promise((yes, no) => {
        waiting.set(id, yes);
        options.signal?.addEventListener("abort", () => no(options.signal.reason));
        pipe.send({ jsonrpc: "2.0", ...request, id }, {}).catch(no);
    });
}

function take({ id, error, result }) {
    waiting.get(id)?.(error ? { kind: "error", error } : { kind: "result", result });
    return waiting.has(id);
}

await step("connect", async () => {
    await client.connect(pipe);
    must("io.modelcontextprotocol/tasks" in (client.getServerCapabilities().extensions ?? {}),
        "the extension is not offered", client.getServerCapabilities());
    session = createTaskSessionFromClient(client, {
        endpointId: "constrictor",
        rawDispatch: dispatch,
        v2RequestFraming: { protocolVersion: VERSION, clientInfo: info, clientCapabilities: {} },
    });
});

await step("task: a short run needs none", async () => {
    const execution = await session.callTool("execute_python", { code: "6 * 7" });
    const { outcome } = await execution.settle();
    must(outcome.status === "completed" && /42/.test(text(outcome.result)), "no value", outcome);
    return execution.kind;
});

await step("task: result", async () => {
    const states = [];
    const execution = await session.callTool("execute_python",
        { code: "import time\ntime.sleep(0.4)\n'slow ' + str(6 * 7)", timeout: LONG_S });
    must(execution.kind === "task", "not a task", execution.kind);
    const { outcome } = await execution.settle({
        onEvent: (e) => void states.push(e.type === "task" ? e.task.status : e.outcome.status),
    });
    must(outcome.status === "completed" && /slow 42/.test(text(outcome.result)), "no value", outcome);
    return states;
});

await step("task: error", async () => {
    const execution = await session.callTool("execute_python", { code: "1 / 0", timeout: LONG_S });
    const { outcome } = await execution.settle();
    must(outcome.status === "completed" && /ZeroDivisionError/.test(text(outcome.result)), "no error", outcome);
});

await step("task: cancel", async () => {
    const mark = `task-${process.pid}`;
    const execution = await session.callTool("execute_python", { code: endless(mark), timeout: LONG_S });
    must(await until(() => alive(mark) === 1), "the code never ran", alive(mark));
    await execution.cancel();
    const { outcome } = await execution.settle();
    must(outcome.status === "cancelled", "not cancelled", outcome);
    must(await until(() => alive(mark) === 0, 3000), "the code goes on", alive(mark));
});

await step("close", async () => {
    await session.close();
    await client.close();
});
finish();
