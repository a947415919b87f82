// SPDX-License-Identifier: Apache-2.0
// notebook: cells, their session and their runs. No markup here; console.tsx shows it.

import { batch, effect, signal, type Signal } from "@preact/signals";
import type { EditorState } from "@codemirror/state";
import { ApiError, ask, at, describe, get, isMissing, offline, post, stream } from "./api";
import { TextLog } from "./text_log";

export type Bundle = Record<string, unknown>;
export interface RunError { text: string; traceback: string[]; line: number | null; verdict: string; hint: string }
export type Output =
  | { kind: "text"; stream: "stdout" | "stderr" | "result"; log: TextLog }
  | { kind: "display"; bundle: Bundle }
  | { kind: "error"; error: RunError }
  | { kind: "note"; text: string };

export interface OutputFile { path: string; size: number; mime_type: string; url: string | null; error?: string }
export type CellStatus = "idle" | "queued" | "running" | "done";

export interface Cell {
  id: string;
  kind: Signal<"code" | "markdown">;
  source: Signal<string>;
  outputs: Signal<Output[]>;
  files: Signal<OutputFile[]>;
  status: Signal<CellStatus>;
  count: Signal<number | null>;
  verdict: Signal<string>;
  wallMs: Signal<number | null>;
  errorLine: Signal<number | null>;
  question: Signal<string | null>;
  execution: Signal<Record<string, unknown> | null>;
  state: EditorState | null; // of an editor that was scrolled away
  stop: AbortController | null;
}

export interface SessionInfo {
  session: string; name: string; state: string; is_busy: boolean; execution_count: number; waiting: number;
  created_at: string; last_activity: string; expires_in_seconds: number; limits?: Record<string, number>;
}

let nextId = 1;

export function newCell(kind: "code" | "markdown" = "code", source = ""): Cell {
  return {
    id: `cell-${nextId++}`, kind: signal(kind), source: signal(source), outputs: signal([]), files: signal([]),
    status: signal("idle"), count: signal(null), verdict: signal(""), wallMs: signal(null), errorLine: signal(null),
    question: signal(null), execution: signal(null), state: null, stop: null,
  };
}

export const cells = signal<Cell[]>([]);
export const selected = signal(0);
export const editing = signal<string | null>(null); // the cell that wants the keyboard
export const sessionName = signal("");
export const session = signal<SessionInfo | null>(null);
export const sessions = signal<Record<string, SessionInfo>>({});
export const notice = signal("");   // for the status line, which screen readers read
export const runs = signal(0);      // runs that ended: panels look again
export const running = signal<Cell | null>(null);
export const checkpoints = signal(true);
export const environment = signal("base");

// ---- drafts: nothing typed is lost when a tab or a server goes away --------------------------------------------

const DRAFT_MAX = 2_000_000;

function draftName(name: string): string {
  return `constrictor-cells:${name}`;
}

export function loadDraft(name: string): Cell[] {
  try {
    const rows = JSON.parse(sessionStorage.getItem(draftName(name)) ?? "[]") as { kind: "code" | "markdown"; source: string }[];
    return rows.map((row) => newCell(row.kind === "markdown" ? "markdown" : "code", String(row.source)));
  } catch {
    return [];
  }
}

function saveDraft(): void {
  const rows = cells.peek().map((cell) => ({ kind: cell.kind.peek(), source: cell.source.peek() }));
  const text = JSON.stringify(rows);
  try {
    if (text.length <= DRAFT_MAX && sessionName.peek()) sessionStorage.setItem(draftName(sessionName.peek()), text);
  } catch {
    // The browser keeps nothing: then a draft lives as long as the tab.
  }
}

let saver = 0;

export function typed(): void {
  clearTimeout(saver);
  saver = window.setTimeout(saveDraft, 300);
}

addEventListener("pagehide", saveDraft);

// ---- sessions --------------------------------------------------------------------------------------------------

function freshName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(4));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function openNotebook(name = freshName(), content?: Cell[]): void {
  batch(() => {
    sessionName.value = name;
    session.value = null;
    const draft = content ?? loadDraft(name);
    cells.value = draft.length ? draft : [newCell()];
    selected.value = 0;
  });
  location.hash = `#/console/${encodeURIComponent(name)}`;
  void look();
}

// Whether the session is open is found out by looking; it opens at its first use.
export async function look(): Promise<void> {
  try {
    const all = await get<{ sessions: Record<string, SessionInfo> }>("sessions");
    batch(() => {
      sessions.value = all.sessions;
      session.value = Object.values(all.sessions).find((one) =>
        one.name === sessionName.peek() || one.session === sessionName.peek()) ?? null;
    });
  } catch {
    // The banner of offline and the sign-in form say it.
  }
}

export async function ensureSession(): Promise<void> {
  if (session.value) return;
  try {
    await post("sessions", { name: sessionName.value, checkpoint: checkpoints.value, environment: environment.value });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.problem.code === "session_exists") return;
    // Without checkpoints where the server keeps none.
    if (error.problem.status !== 400 || !checkpoints.value) throw error;
    checkpoints.value = false;
    await post("sessions", { name: sessionName.value, environment: environment.value });
  }
  await look();
}

export async function restart(): Promise<void> {
  await stopAll();
  await ask("DELETE", `sessions/${at(sessionName.value)}`).catch((error: unknown) => {
    if (!(error instanceof ApiError) || ![404, 409].includes(error.problem.status)) throw error;
  });
  session.value = null;
  for (const cell of cells.value) cell.count.value = null;
  await ensureSession();
  runs.value++;
  notice.value = "The session is new: variables and files are gone, the cells are still here.";
}

// ---- runs ------------------------------------------------------------------------------------------------------

const queue: Cell[] = [];
let busy = false;

export function runCell(cell: Cell): void {
  if (cell.kind.value === "markdown" || cell.status.value === "queued" || cell.status.value === "running") return;
  cell.status.value = "queued";
  queue.push(cell);
  if (!busy) void work();
}

export function runAll(): void {
  batch(() => cells.value.forEach(runCell));
}

async function work(): Promise<void> {
  busy = true;
  for (let cell = queue.shift(); cell; cell = queue.shift()) {
    await runOne(cell);
    // A cell that fails stops those behind it, which may build on it.
    if (cell.verdict.value !== "ok") for (const next of queue.splice(0)) next.status.value = "idle";
  }
  busy = false;
}

function addText(cell: Cell, text: string, name: "stdout" | "stderr" | "result"): void {
  const last = cell.outputs.value[cell.outputs.value.length - 1];
  if (last?.kind === "text" && last.stream === name) {
    last.log.append(text);
    return;
  }
  const log = new TextLog();
  log.append(text);
  cell.outputs.value = [...cell.outputs.value, { kind: "text", stream: name, log }];
}

function take(cell: Cell, message: Record<string, unknown>): void {
  const add = (output: Output): void => void (cell.outputs.value = [...cell.outputs.value, output]);
  if (typeof message["text"] === "string" && !message["display"] && !message["image"]) {
    const name = message["stream"];
    addText(cell, message["text"], name === "stderr" || name === "result" ? name : "stdout");
  } else if (message["image"] || message["display"]) {
    const bundle: Bundle = { ...(message["display"] as Bundle | undefined) };
    if (message["image"]) bundle[String(message["mime_type"] ?? `image/${String(message["format"])}`)] = message["image"];
    add({ kind: "display", bundle });
  } else if (message["input_request"]) {
    cell.question.value = String((message["input_request"] as { prompt?: string }).prompt ?? "");
  } else if (message["file"]) {
    cell.files.value = [...cell.files.value, message["file"] as OutputFile];
  } else if (message["error"] && message["traceback"]) {
    const line = typeof message["line"] === "number" ? message["line"] : null;
    cell.errorLine.value = line;
    add({ kind: "error", error: { text: String(message["error"]), traceback: message["traceback"] as string[], line,
      verdict: String(message["verdict"] ?? ""), hint: String(message["hint"] ?? "") } });
  } else if (message["verdict"]) {
    const execution = (message["execution"] ?? {}) as Record<string, unknown>;
    const usage = (execution["usage"] ?? {}) as Record<string, number>;
    cell.execution.value = execution;
    cell.verdict.value = String(message["verdict"]);
    cell.count.value = typeof execution["execution_count"] === "number" ? execution["execution_count"] : null;
    cell.wallMs.value = usage["wall_ms"] ?? null;
    // The value of the last expression came as text as well as in its better form.
    if (typeof execution["display_value"] === "number")
      cell.outputs.value = cell.outputs.value.filter((output) => output.kind !== "text" || output.stream !== "result");
    const failed = cell.outputs.value.some((output) => output.kind === "error");
    const why = execution["error"] as { text?: string; message?: string } | null;
    if (cell.verdict.value !== "ok" && !failed)
      add({ kind: "error", error: { text: why?.message ?? `The run ended: ${cell.verdict.value}`, traceback: [], line: null,
        verdict: cell.verdict.value, hint: String(execution["hint"] ?? "") } });
    else if (execution["hint"] && !failed) add({ kind: "note", text: String(execution["hint"]) });
  } else if (message["error"]) {
    add({ kind: "error", error: { text: typeof message["error"] === "string" ? message["error"] :
      String((message["error"] as { message?: string }).message ?? ""), traceback: [], line: null,
      verdict: String(message["verdict"] ?? ""), hint: String(message["hint"] ?? "") } });
  }
}

let looker = 0;

async function runOne(cell: Cell): Promise<void> {
  const began = performance.now();
  batch(() => {
    running.value = cell;
    cell.status.value = "running";
    cell.outputs.value = [];
    cell.files.value = [];
    cell.errorLine.value = null;
    cell.verdict.value = "";
    cell.wallMs.value = null;
    cell.execution.value = null;
  });
  cell.stop = new AbortController();
  try {
    await ensureSession();
    await stream("execute", { code: cell.source.value, session: sessionName.value, interactive: true },
      (messages) => batch(() => messages.forEach((message) => take(cell, message))), cell.stop.signal);
    if (!cell.verdict.value) throw new Error("the connection ended before the run did; its output is not complete");
    notice.value = `Run ${cell.count.value ?? ""} ended: ${cell.verdict.value}`;
  } catch (error) {
    cell.verdict.value = cell.stop.signal.aborted ? "cancelled" : "lost";
    cell.outputs.value = [...cell.outputs.value, { kind: "error", error: { text: cell.stop.signal.aborted ?
      "The run was stopped." : describe(error), traceback: [], line: null, verdict: cell.verdict.value, hint: "" } }];
    notice.value = "The run did not end as it should.";
  }
  batch(() => {
    cell.question.value = null;
    running.value = null;
    cell.status.value = "done";
    cell.wallMs.value ??= performance.now() - began;
    cell.stop = null;
  });
  // The panels look again when no cell follows at once.
  clearTimeout(looker);
  looker = window.setTimeout(() => {
    runs.value++;
    void look();
  }, queue.length ? 1000 : 0);
}

export async function answerQuestion(cell: Cell, text: string | null): Promise<void> {
  cell.question.value = null;
  await post(`sessions/${at(sessionName.value)}/input`, text === null ? { end: true } : { text });
}

export async function interrupt(): Promise<void> {
  await post(`sessions/${at(sessionName.value)}/interrupt`).catch(() => undefined);
}

// Interrupts, and forgets the cells that wait.
export async function stopAll(): Promise<void> {
  for (const cell of queue.splice(0)) cell.status.value = "idle";
  const cell = running.value;
  if (cell) {
    await interrupt();
    setTimeout(() => cell.status.value === "running" && cell.stop?.abort(), 3000);
  }
}

// ---- cells -----------------------------------------------------------------------------------------------------

export function insertCell(index: number, cell: Cell = newCell()): void {
  cells.value = [...cells.value.slice(0, index), cell, ...cells.value.slice(index)];
  selected.value = index;
  typed();
}

export function removeCell(index: number): void {
  const left = cells.value.filter((_, i) => i !== index);
  cells.value = left.length ? left : [newCell()];
  selected.value = Math.min(index, cells.value.length - 1);
  typed();
}

export function moveCell(index: number, by: number): void {
  const list = [...cells.value];
  const [cell] = list.splice(index, 1);
  const to = Math.max(0, Math.min(list.length, index + by));
  list.splice(to, 0, cell!);
  batch(() => {
    cells.value = list;
    selected.value = to;
  });
  typed();
}

// ---- the server that goes away and comes back ------------------------------------------------------------------

let waitingForServer = 0;

effect(() => {
  if (!offline.value || waitingForServer) return;
  waitingForServer = window.setInterval(() => {
    void get("health").then(async () => {
      clearInterval(waitingForServer);
      waitingForServer = 0;
      await look();
      notice.value = session.peek() ? "The server is back, and your session with it." :
        "The server is back. Your session ended; your cells are still here.";
    }, () => undefined);
  }, 1500);
});

export { isMissing };
