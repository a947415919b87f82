// SPDX-License-Identifier: Apache-2.0
//
// What a program does with the types that openapi-typescript generated, and openapi-fetch: compiled and run by
// tests/api/test_generated_clients.py.  usage: generated.js ADDRESS KEY
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Execution = components["schemas"]["Execution"];
declare const process: { argv: string[] };
const [address, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${key}` } });

function check(fits: boolean, what: unknown): asserts fits {
    if (!fits) throw new Error(JSON.stringify(what));
}

async function run(fields: Partial<components["schemas"]["ExecuteRequest"]> & { code: string }): Promise<Execution> {
    const { data, error } = await client.POST("/api/v1/execute", { body: { stream: false, ...fields } });
    check(data !== undefined, error);
    return data;
}

// Code runs, and the answer has its types.
const done = await run({ code: "print('out')\nx = [1, 2]\n6 * 7" });
check(done.verdict === "ok" && done.stdout === "out\n" && done.result === "42", done);
const failed = await run({ code: "1 / 0" });
check(failed.error?.type === "ZeroDivisionError" && failed.error.traceback[0].line === 1, failed);
const given = await run({ code: "print(n + 1)", variables: { n: 1 }, network: { allow: [] }, timeout: 5 });
check(given.stdout === "2\n", given);
const refused = await client.POST("/api/v1/execute", { body: { code: "1", stream: false, timeout: -1 } });
check(refused.error?.code === "bad_value" && refused.response.status === 400, refused.error);

// A stream.
const { data: stream } = await client.POST("/api/v1/execute", {
    body: { code: "for i in range(3): print(i, flush=True)", stream: true },
    parseAs: "stream",
});
check(stream != null, "no stream");
let text = "";
for await (const piece of (stream as unknown as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream() as never) as unknown as AsyncIterable<string>)
    text += piece;
const lines = text.split("\n").filter(Boolean).map((line) => JSON.parse(line) as components["schemas"]["Message"]);
check(lines.map((line) => line.text ?? "").join("") === "0\n1\n2\n" && lines.at(-1)?.verdict === "ok", lines);

// Files go up and come down as they are.
const bytes = new Uint8Array(1_000_000).map((_, i) => i % 251);
const place = { params: { path: { id: "typescript", path: "data/raw bytes.bin" } } };
const put = await client.PUT("/api/v1/sessions/{id}/files/{path}", {
    ...place,
    body: new Blob([bytes]) as unknown as string,
    bodySerializer: (body: unknown) => body as Blob,
    headers: { "Content-Type": "application/octet-stream" },
});
check(put.data?.size === bytes.length, put.error);
const got = await client.GET("/api/v1/sessions/{id}/files/{path}", { ...place, parseAs: "arrayBuffer" });
const back = new Uint8Array(got.data as unknown as ArrayBuffer);
check(back.length === bytes.length && back.every((value, i) => value === bytes[i]), back.length);
check((await run({ code: "len(open('data/raw bytes.bin', 'rb').read())", session: "typescript" })).result === "1000000", 0);

// A batch.
const batch = await client.POST("/api/v1/batch", { body: { stream: false, items: [{ code: "1 + 1" }, { code: "1 / 0" }] } });
check(batch.data?.results[0].execution?.result === "2" && batch.data.failed === 1, batch);
console.log("all of it worked");
