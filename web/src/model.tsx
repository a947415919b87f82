// SPDX-License-Identifier: Apache-2.0
// model: the same run as a model sees it; every tool with a form; how clients are connected.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { describe } from "./api";
import { Icon } from "./icons";
import { callTool, countTokens, listTools, type Schema, type Tool, type ToolAnswer } from "./mcp";
import { cells, notice, sessionName } from "./notebook";
import { visible } from "./safe_text";
import { facts, type Client } from "./facts";

const tools = signal<Tool[] | null>(null);
const problem = signal("");

export function Answer({ answer }: { answer: ToolAnswer }): VNode {
  const text = (answer.content ?? []).map((block) => block.type === "text" ? block.text ?? "" :
    `[${block.type} ${block.mimeType ?? ""} ${block.data ? `${block.data.length} characters of base64` : block.uri ?? ""}]`).join("\n");
  return <div>
    <p class="token-line"><span class={`badge ${answer.isError ? "bad" : "good"}`}>{answer.isError ? "isError: true" : "answer"}</span>
      about <strong>{countTokens(text).toLocaleString("en")}</strong> tokens, {text.length.toLocaleString("en")} characters</p>
    <pre class="text" tabIndex={0} role="group" aria-label="Text that the model reads">{text.slice(0, 200_000)}</pre>
    {(answer.content ?? []).filter((block) => block.type === "image" && block.data && /^image\/(png|jpeg)$/.test(block.mimeType ?? "")).slice(0, 4)
      .map((block) => <img class="model-picture" alt="Picture that the model sees" src={`data:${block.mimeType};base64,${block.data}`} />)}
    {answer.structuredContent !== undefined && <details><summary>Structured content</summary>
      <pre class="text" tabIndex={0} role="group" aria-label="Structured content">{JSON.stringify(answer.structuredContent, null, 2).slice(0, 200_000)}</pre></details>}
  </div>;
}

// ---- a run as the tool answers it ------------------------------------------------------------------------------

function AsModel(): VNode {
  const first = cells.value.find((cell) => cell.kind.value === "code" && cell.source.value.trim())?.source.value ?? "print('hello')\n6 * 7";
  const [code, setCode] = useState(first);
  const [answer, setAnswer] = useState<ToolAnswer | null>(null);
  const [busy, setBusy] = useState(false);
  const tool = tools.value?.find((one) => one.name === "execute_python") ?? tools.value?.find((one) => one.inputSchema.properties?.["code"]);
  const run = async (): Promise<void> => {
    setBusy(true);
    problem.value = "";
    try {
      const takes = tool!.inputSchema.properties ?? {};
      setAnswer(await callTool(tool!.name, { code, ...(takes["session"] ? { session: sessionName.value } : {}) }));
    } catch (error) {
      problem.value = describe(error);
    }
    setBusy(false);
  };
  return <section class="card" aria-labelledby="as-model"><h2 id="as-model">A run, as a model reads it</h2>
    <label><span class="hidden-label">Code for the tool</span><textarea rows={6} spellcheck={false} value={code} onInput={(event) => setCode(event.currentTarget.value)} /></label>
    <div class="row"><button type="button" disabled={busy || !tool || !code.trim()} onClick={() => void run()}>{busy ? "Running…" : `Call ${tool?.name ?? "the tool"}`}</button>
      <span class="hint">in the session of your notebook: {visible(sessionName.value)}</span></div>
    {answer && <Answer answer={answer} />}
  </section>;
}

// ---- a form for each tool --------------------------------------------------------------------------------------

const typeOf = (schema: Schema): string => {
  const own = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  return own ?? (schema.anyOf ? typeOf(schema.anyOf.find((one) => one.type !== "null") ?? {}) : "string");
};

// Texts as they are, everything else as JSON; an empty field is left out.
function valueOf(schema: Schema, text: string): unknown {
  const type = typeOf(schema);
  if (type === "string" && !schema.enum?.some((one) => typeof one !== "string")) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text; // the server says what it wants
  }
}

function Field({ name, schema, required, value, onInput }: { name: string; schema: Schema; required: boolean; value: string; onInput: (text: string) => void }): VNode {
  const type = typeOf(schema), id = `field-${name}`;
  const about = schema.description ? `${id}-about` : undefined;
  const common = { id, "aria-describedby": about, "aria-required": required };
  return <div class="field"><label for={id}><code>{name}</code>{required ? " (required)" : ""}<small> {type}</small></label>
    {schema.enum || type === "boolean" ? <select {...common} value={value} onChange={(event) => onInput(event.currentTarget.value)}>
      <option value="">(left out)</option>{(schema.enum ?? [true, false]).map((one) => <option>{String(one)}</option>)}</select> :
      name === "code" || name === "content" || type === "object" || type === "array" ?
        <textarea {...common} rows={name === "code" ? 6 : 2} spellcheck={false} value={value} placeholder={type === "object" ? "{}" : type === "array" ? "[]" : ""} onInput={(event) => onInput(event.currentTarget.value)} /> :
        <input {...common} value={value} inputMode={type === "integer" || type === "number" ? "decimal" : "text"} onInput={(event) => onInput(event.currentTarget.value)} />}
    {about && <small id={about}>{visible(schema.description!.slice(0, 600))}</small>}</div>;
}

function ToolForm({ tool }: { tool: Tool }): VNode {
  const [values, setValues] = useState<Record<string, string>>({});
  const [answer, setAnswer] = useState<ToolAnswer | null>(null);
  const [failed, setFailed] = useState("");
  const [busy, setBusy] = useState(false);
  const properties = Object.entries(tool.inputSchema.properties ?? {});
  const required = new Set(tool.inputSchema.required ?? []);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailed("");
    try {
      setAnswer(await callTool(tool.name, Object.fromEntries(properties.filter(([name]) => values[name])
        .map(([name, schema]) => [name, valueOf(schema, values[name]!)]))));
    } catch (error) {
      setFailed(describe(error));
    }
    setBusy(false);
  };
  return <form class="tool-form" onSubmit={(event) => void send(event)}>
    <p class="tool-about">{visible(tool.description ?? "")}</p>
    {properties.sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a))).map(([name, schema]) => <Field key={name} name={name} schema={schema} required={required.has(name)}
      value={values[name] ?? ""} onInput={(text) => setValues({ ...values, [name]: text })} />)}
    <button type="submit" disabled={busy || [...required].some((name) => !values[name])}>{busy ? "Calling…" : `Call ${tool.name}`}</button>
    {failed && <p class="bad" role="alert">{failed}</p>}
    {answer && <Answer answer={answer} />}
  </form>;
}

function Tools(): VNode {
  const [open, setOpen] = useState("");
  const tool = tools.value?.find((one) => one.name === open);
  const total = tools.value ? countTokens(JSON.stringify(tools.value.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })))) : 0;
  return <section class="card" aria-labelledby="tools-title"><h2 id="tools-title">Tools</h2>
    {tools.value && <p class="hint">{tools.value.length} tools; their descriptions cost a model about {total.toLocaleString("en")} tokens.</p>}
    <div class="field"><select aria-label="Tool" value={open} onChange={(event) => setOpen(event.currentTarget.value)}>
      <option value="">Choose a tool to call it</option>{tools.value?.map((one) => <option value={one.name}>{one.name}</option>)}</select></div>
    {tool && <ToolForm key={tool.name} tool={tool} />}
  </section>;
}

// ---- clients ---------------------------------------------------------------------------------------------------

function deepLink(client: Client): { href: string; text: string } | null {
  const servers = Object.values(client.settings)[0] as Record<string, object> | undefined;
  const server = servers?.["constrictor"];
  if (!server) return null;
  if (client.name === "cursor")
    return { text: "Add to Cursor", href: `cursor://anysphere.cursor-deeplink/mcp/install?name=constrictor&config=${encodeURIComponent(btoa(JSON.stringify(server)))}` };
  if (client.name === "vscode")
    return { text: "Add to VS Code", href: `vscode:mcp/install?${encodeURIComponent(JSON.stringify({ name: "constrictor", ...server }))}` };
  return null;
}

function Clients(): VNode {
  return <section class="card" aria-labelledby="clients-title"><h2 id="clients-title">Connect a client</h2>
    {facts.value?.clients.map((client) => {
      const text = JSON.stringify(client.settings, null, 2), link = deepLink(client);
      return <details class="client"><summary>{client.title}</summary>
        <pre class="text" tabIndex={0} role="group" aria-label={`Settings for ${client.title}`}>{text}</pre>
        <div class="row"><button type="button" onClick={() => void navigator.clipboard.writeText(text).then(() => { notice.value = `The settings for ${client.title} are copied.`; },
          () => { notice.value = "The browser did not allow copying; select the text instead."; })}><Icon name="copy" /> Copy</button>
          {link && <a class="button" href={link.href}>{link.text}</a>}<span class="hint">into {client.file}</span></div></details>;
    })}
  </section>;
}

export default function Model(): VNode {
  useEffect(() => {
    listTools().then((found) => { tools.value = found; }, (error: unknown) => { problem.value = describe(error); });
  }, []);
  return <div class="page">
    <header><h2>The model's view</h2><p>What you see in the console as cells and pictures, a model reads as text. Here is that text, and every tool that it may call.</p></header>
    {problem.value && <p class="bad" role="alert">{problem.value}</p>}
    <AsModel /><Tools /><Clients />
  </div>;
}
