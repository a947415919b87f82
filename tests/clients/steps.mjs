// SPDX-License-Identifier: Apache-2.0
//
// steps: what the client scripts share.  A script is one client over one transport; it prints one JSON
// line for each step, and tests/api/test_mcp_clients.py reads them.
//
//   node --import hook.mjs ts2.mjs TRANSPORT MODE TARGET...
//     TRANSPORT  stdio, http or sse
//     MODE       legacy, auto or pin
//     TARGET     the command of the server, or its URL
import { readFileSync, readdirSync } from "node:fs";

const [transport, mode, ...target] = process.argv.slice(2);
export { transport, mode, target };

const LIMIT_MS = 20000;
let failed = 0;

function print(line) {
    process.stdout.write(`${JSON.stringify(line)}\n`);
}

function describe(error) {
    return { message: String(error?.message ?? error), code: error?.code, stack: error?.stack };
}

// Runs one step; what it returns becomes the line's detail.
export async function step(name, work) {
    let timer;
    const limit = new Promise((_, no) => {
        timer = setTimeout(() => no(new Error(`no end after ${LIMIT_MS} ms`)), LIMIT_MS);
    });
    try {
        print({ step: name, ok: true, detail: (await Promise.race([work(), limit])) ?? null });
    } catch (error) {
        failed++;
        print({ step: name, ok: false, error: describe(error) });
    } finally {
        clearTimeout(timer);
    }
}

export function finish() {
    print({ step: "end", ok: failed === 0 });
    process.exit(failed === 0 ? 0 : 1);
}

export function must(truth, text, value) {
    if (!truth) throw new Error(`${text}: ${JSON.stringify(value)?.slice(0, 2000)}`);
}

// The error that `work` must end with.
export async function refused(work, ...codes) {
    let result;
    try {
        result = await work();
    } catch (error) {
        must(codes.includes(error.code), `expected the code ${codes}`, describe(error));
        return error.code;
    }
    throw new Error(`expected an error, got ${JSON.stringify(result)?.slice(0, 2000)}`);
}

export function text(result) {
    return result.content.filter((c) => c.type === "text").map((c) => c.text).join("\n");
}

export function sleep(ms) {
    return new Promise((yes) => setTimeout(yes, ms));
}

// Everything that arrives over a transport becomes a line too, with the method that it answers, for the
// schema oracle of tests/mcp_client.py.  To be called before the transport is connected.  `take` may keep
// a message from the client.
export function record(pipe, take = () => false) {
    const methods = new Map();
    const send = pipe.send.bind(pipe);
    let inner;
    pipe.send = (message, options) => {
        if (message.method && message.id !== undefined) methods.set(message.id, message.method);
        return send(message, options);
    };
    Object.defineProperty(pipe, "onmessage", {
        get: () => inner && ((message, extra) => {
            print({ heard: message, method: message.method ? null : methods.get(message.id) ?? null });
            if (!take(message)) inner(message, extra);
        }),
        set: (handler) => { inner = handler; },
    });
    return pipe;
}

// Processes of this machine that carry the name which marked() code gave itself.
export function alive(mark) {
    return readdirSync("/proc").filter((pid) => {
        if (!/^\d+$/.test(pid)) return false;
        try {
            return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === mark;
        } catch {
            return false; // it ended while we looked
        }
    }).length;
}

// Code that calls itself `mark`, so that it is found from outside, and never ends.
export function endless(mark) {
    return `import ctypes, time\nctypes.CDLL(None).prctl(15, b"${mark}")\n` +
        `print("started", flush=True)\nwhile True:\n    time.sleep(0.05)\n`;
}

export async function until(question, ms = 5000) {
    const end = Date.now() + ms;
    for (;;) {
        const answer = question();
        if (answer || Date.now() > end) return answer;
        await sleep(20);
    }
}
