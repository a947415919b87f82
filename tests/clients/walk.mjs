// SPDX-License-Identifier: Apache-2.0
//
// walk: everything that a client does with the server, for both versions of the TypeScript SDK: their
// clients have the same methods, but for how a tool is called with options.
//
//   client   connected, or not yet: `connect` is the first step
//   call     (name, arguments, options) => the result of a tool
//   legacy   () => whether the handshake of before 2026-07-28 was used; asked after connect
import {
    alive, endless, finish, mode, must, refused, sleep, step, text, transport, until,
} from "./steps.mjs";

const TICKS = "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.3)\n'done'";

async function lists(client) {
    const names = {};
    await step("tools/list", async () => {
        const { tools } = await client.listTools();
        names.tools = tools.map((t) => t.name);
        for (const tool of tools) {
            must(tool.description && tool.inputSchema.type === "object", "an incomplete tool", tool);
        }
        return names.tools;
    });
    await step("resources/list", async () => {
        names.resources = (await client.listResources()).resources;
        must(names.resources.length > 0, "no resources", names.resources);
        return names.resources.map((r) => r.uri);
    });
    await step("resources/templates/list", async () => {
        names.templates = (await client.listResourceTemplates()).resourceTemplates;
        must(names.templates.length > 0, "no templates", names.templates);
        return names.templates.map((t) => t.uriTemplate);
    });
    await step("prompts/list", async () => {
        names.prompts = (await client.listPrompts()).prompts;
        must(names.prompts.length > 0, "no prompts", names.prompts);
        return names.prompts.map((p) => p.name);
    });
    return names;
}

async function calls(call) {
    await step("call: a value", async () => {
        const result = await call("execute_python", { code: "print('printed')\n6 * 7" });
        must(!result.isError, "a tool error", result);
        must(/42/.test(text(result)) && /printed/.test(text(result)), "not what the code gave", result);
        return result.structuredContent ?? null;
    });
    await step("call: an error", async () => {
        const result = await call("execute_python", { code: "def f():\n    1 / 0\nf()" });
        must(/ZeroDivisionError/.test(text(result)), "the error is not named", result);
        return text(result);
    });
    await step("call: get_sandbox_info", async () => {
        const result = await call("get_sandbox_info", {});
        must(!result.isError && /python/i.test(text(result)), "no information", result);
    });
    await step("call: an unknown tool", () => refused(() => call("no_such_tool", {}), -32602));
    await step("call: a bad argument", async () => {
        const result = await call("execute_python", { code: 5 });
        must(result.isError && /code/.test(text(result)), "not a tool error that names it", result);
        return text(result);
    });
}

async function suggestions(client, prompt, name) {
    const ref = { type: "ref/prompt", name: prompt.name };
    return (await client.complete({ ref, argument: { name, value: "" } })).completion.values;
}

async function reads(client, names, legacy) {
    await step("resources/read", async () => {
        for (const { uri } of names.resources) {
            const { contents } = await client.readResource({ uri });
            must(contents.length === 1 && (contents[0].text ?? contents[0].blob), "nothing in it", contents);
        }
    });
    // Version 2 of the SDK shows the old code as the new one.
    await step("resources/read: unknown", () => refused(() =>
        client.readResource({ uri: "run://none/stdout" }), -32602, legacy ? -32002 : -32602));
    await step("prompts/get", async () => {
        for (const prompt of names.prompts) {
            const filled = {};
            for (const { name } of prompt.arguments ?? []) {
                filled[name] = (await suggestions(client, prompt, name))[0] ?? "x = 1";
            }
            const { messages } = await client.getPrompt({ name: prompt.name, arguments: filled });
            must(messages.length > 0 && messages[0].content, "no messages", messages);
        }
    });
    await step("prompts/get: unknown", () => refused(() => client.getPrompt({ name: "none" }), -32602));
    await step("completion/complete", async () => {
        const found = {};
        for (const prompt of names.prompts) {
            for (const { name } of prompt.arguments ?? []) {
                found[`${prompt.name}.${name}`] = await suggestions(client, prompt, name);
            }
        }
        must(Object.values(found).some((values) => values.length > 0), "no values", found);
        return found;
    });
}

async function running(call) {
    await step("progress", async () => {
        const seen = [];
        const result = await call("execute_python", { code: TICKS }, { onprogress: (p) => seen.push(p) });
        must(/done/.test(text(result)), "not the result", result);
        must(seen.length > 0, "no progress", seen);
        must(seen.every((p, i) => i === 0 || p.progress > seen[i - 1].progress), "it goes back", seen);
        return seen;
    });
    await step("cancel", async () => {
        const mark = `mark-${process.pid}`;
        const abort = new AbortController();
        const end = call("execute_python", { code: endless(mark) }, { signal: abort.signal })
            .then((result) => ({ result }), (error) => ({ error }));
        must(await until(() => alive(mark) === 1), "the code never ran", alive(mark));
        abort.abort("enough");
        const { result, error } = await end;
        must(error, "it was not cancelled", result);
        must(await until(() => alive(mark) === 0, 3000), "the code goes on", alive(mark));
        return String(error.message);
    });
    await step("call: after a cancel", async () => {
        must(/42/.test(text(await call("execute_python", { code: "6 * 7" }))), "no value", null);
    });
    await step("call: four at once", async () => {
        const results = await Promise.all([1, 2, 3, 4].map((n) => call("execute_python", { code: `${n} * 1111` })));
        results.forEach((r, i) => must(text(r).includes(String((i + 1) * 1111)), "mixed up", r));
    });
}

async function connection(client) {
    await step("ping", () => client.ping());
    await step("logging/setLevel", () => client.setLoggingLevel("warning"));
}

async function subscriptions(client, names, legacy) {
    const uri = names.resources?.[0]?.uri;
    if (legacy) {
        await step("resources/subscribe", () => client.subscribeResource({ uri }));
        await step("resources/unsubscribe", () => client.unsubscribeResource({ uri }));
        return;
    }
    await step("subscriptions/listen", async () => {
        const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
        await sleep(50);
        await subscription.close();
    });
}

export async function walk(client, connect, call, legacy) {
    await step("connect", async () => {
        await connect();
        const info = client.getServerVersion();
        must(info?.name === "constrictor", "not our server", info);
        must(legacy() === (mode === "legacy" || transport === "sse"), "the wrong era", mode);
        return { ...client.getServerCapabilities(), legacy: legacy() };
    });
    const names = await lists(client);
    await calls(call);
    await reads(client, names, legacy());
    await running(call);
    if (legacy()) await connection(client);
    await subscriptions(client, names, legacy());
    await step("close", () => client.close());
    finish();
}
