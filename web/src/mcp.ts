// SPDX-License-Identifier: Apache-2.0
// mcp: a small client of the Model Context Protocol, so that the page can show what a model is told.

import { keyHeaders, problemOf } from "./api";

export interface Tool { name: string; title?: string; description?: string; inputSchema: Schema }
export interface Schema { type?: string | string[]; description?: string; properties?: Record<string, Schema>; required?: string[];
  enum?: unknown[]; default?: unknown; anyOf?: Schema[]; items?: Schema; minimum?: number; maximum?: number }
export interface ToolAnswer { content?: { type: string; text?: string; mimeType?: string; data?: string; uri?: string }[];
  structuredContent?: unknown; isError?: boolean }

const VERSION = "2025-11-25";
let connection = "";
let id = 0;

async function call<T>(method: string, params: object): Promise<T> {
  const answer = await fetch("/mcp", { method: "POST", headers: { ...keyHeaders(), "Content-Type": "application/json",
    Accept: "application/json, text/event-stream", "MCP-Protocol-Version": VERSION, ...(connection ? { "Mcp-Session-Id": connection } : {}) },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params }) });
  if (!answer.ok) throw await problemOf(answer);
  connection ||= answer.headers.get("Mcp-Session-Id") ?? "";
  const text = await answer.text();
  // Plain JSON, or a stream of events whose last message is the answer.
  const messages = text.startsWith("{") ? [text] : text.split("\n").filter((line) => line.startsWith("data:") && line.length > 6).map((line) => line.slice(5));
  for (const one of messages) {
    const message = JSON.parse(one) as { id?: number; result?: T; error?: { message: string } };
    if (message.error) throw new Error(message.error.message);
    if (message.id === id && message.result) return message.result;
  }
  throw new Error("the server sent no answer");
}

async function connect(): Promise<void> {
  if (connection) return;
  await call("initialize", { protocolVersion: VERSION, capabilities: {}, clientInfo: { name: "constrictor-page", version: "1" } });
  await fetch("/mcp", { method: "POST", headers: { ...keyHeaders(), "Content-Type": "application/json", "MCP-Protocol-Version": VERSION,
    Accept: "application/json, text/event-stream", "Mcp-Session-Id": connection }, body: JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) });
}

// A connection that the server has forgotten is opened again, once.
async function connected<T>(method: string, params: object): Promise<T> {
  await connect();
  try {
    return await call<T>(method, params);
  } catch (error) {
    if ((error as { problem?: { status: number } }).problem?.status !== 404) throw error;
    connection = "";
    await connect();
    return call<T>(method, params);
  }
}

export async function listTools(): Promise<Tool[]> {
  const found: Tool[] = [];
  let cursor: string | undefined;
  do {
    const part = await connected<{ tools: Tool[]; nextCursor?: string }>("tools/list", cursor ? { cursor } : {});
    found.push(...part.tools);
    cursor = part.nextCursor;
  } while (cursor && found.length < 1000);
  return found;
}

export const callTool = (name: string, args: object): Promise<ToolAnswer> => connected("tools/call", { name, arguments: args });

// About as many tokens as the usual tokenizers make: words in pieces, digits and signs by three.
export function countTokens(text: string): number {
  let count = 0;
  for (const [word] of text.matchAll(/[A-Za-z]+|\d{1,3}|[^\sA-Za-z\d]{1,3}|\n+|[ \t]{2,}/g))
    count += /^[A-Za-z]/.test(word) ? Math.ceil(word.length / 9) : 1;
  return count;
}


