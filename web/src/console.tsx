// SPDX-License-Identifier: Apache-2.0
// console: the cells and what stands around them.

import { signal } from "@preact/signals";
import type { EditorView } from "@codemirror/view";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { describe } from "./api";
import { markLine, openEditor } from "./editor";
import { ask as confirmDialog } from "./dialog";
import { exportIpynb, exportPy, readNotebook, saveAs } from "./notebook_file";
import { answerQuestion, cells, editing, insertCell, interrupt, loadDraft, moveCell, newCell, notice, openNotebook, removeCell, restart,
  runAll, runCell, running, selected, session, sessionName, sessions, stopAll, typed, type Cell } from "./notebook";
import { Markdown, Outputs } from "./outputs";
import { FilesPanel } from "./files";
import { Icon } from "./icons";
import { PackagesPanel } from "./packages";
import { saveReport } from "./report";
import { bytes, duration, visible } from "./safe_text";
import { ShareButton } from "./share";
import { VariablesPanel } from "./variables";

const views = new Map<string, EditorView>();

// ---- one editor: far from the window it is only its text --------------------------------------------------------

function CellEditor({ cell, index }: { cell: Cell; index: number }): VNode {
  const box = useRef<HTMLDivElement>(null), view = useRef<EditorView | null>(null);
  const [near, setNear] = useState(index < 12);
  const wants = editing.value === cell.id;
  const position = useRef(index);
  position.current = index;
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      const last = entries[entries.length - 1]!;
      if (last.isIntersecting) setNear(true);
      else if (!view.current?.hasFocus) setNear(false);
    }, { rootMargin: "800px" });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (!near && !wants) return;
    const editor = openEditor(box.current!, cell.source.peek(), cell.kind.peek() === "code", {
      onChange: (text) => {
        cell.source.value = text;
        cell.errorLine.value = null;
        typed();
      },
      onRun: (then) => runFrom(position.current, then),
      onLeave: () => {
        editing.value = null;
        select(position.current);
      },
      onEdge: (direction) => {
        const to = cells.peek()[position.current + direction];
        if (to) edit(position.current + direction);
        return Boolean(to);
      },
    });
    if (cell.state) editor.setState(cell.state);
    editor.contentDOM.addEventListener("focus", () => {
      editing.value = cell.id;
      selected.value = position.current;
    });
    view.current = editor;
    views.set(cell.id, editor);
    return () => {
      cell.state = editor.state;
      editor.destroy();
      views.delete(cell.id);
      view.current = null;
    };
  }, [near || wants, cell, cell.kind.value]);
  const line = cell.errorLine.value;
  useEffect(() => void (view.current && markLine(view.current, line)), [line, near]);
  useEffect(() => void (editing.peek() === cell.id && !view.current?.hasFocus && view.current?.focus()), [wants]);
  return <div class="editor" ref={box} data-lines={cell.source.value.split("\n").length}>
    {!near && !wants && <pre class="far">{cell.source.value || " "}</pre>}
  </div>;
}

function select(index: number): void {
  const to = Math.max(0, Math.min(cells.value.length - 1, index));
  selected.value = to;
  requestAnimationFrame(() => {
    const element = document.getElementById(cells.value[to]?.id ?? ""); // the cell may be gone by now
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest" });
  });
}

function edit(index: number): void {
  selected.value = index;
  editing.value = cells.value[index]!.id;
  document.getElementById(cells.value[index]!.id)?.scrollIntoView({ block: "nearest" });
}

function runFrom(index: number, then: "next" | "stay" | "insert"): void {
  const cell = cells.value[index]!;
  runCell(cell);
  if (cell.kind.value === "markdown") editing.value = null;
  if (then === "stay") return;
  if (then === "insert" || index === cells.value.length - 1) insertCell(index + 1);
  edit(index + 1);
}

// ---- the state of a run, in words ------------------------------------------------------------------------------

const WORDS: Record<string, string> = { ok: "ok", error: "error", timeout_wall: "time limit", timeout_cpu: "processor limit",
  out_of_memory: "out of memory", too_many_processes: "too many processes", disk_full: "disk full", output_limit: "too much output",
  denied: "denied", cancelled: "stopped", lost: "lost" };

function RunState({ cell }: { cell: Cell }): VNode | null {
  if (cell.status.value === "running") return <span class="state busy"><span class="spinner" aria-hidden="true" />running</span>;
  if (cell.status.value === "queued") return <span class="state">waiting</span>;
  if (!cell.verdict.value) return null;
  const usage = (cell.execution.value?.["usage"] ?? {}) as Record<string, number>;
  const memory = usage["memory_peak_bytes"] ?? usage["memory_peak"] ?? 0;
  return <span class={`state ${cell.verdict.value === "ok" ? "good" : "bad"}`}>
    {WORDS[cell.verdict.value] ?? cell.verdict.value}{cell.wallMs.value !== null && ` · ${duration(cell.wallMs.value)}`}
    {memory > 0 && <span class="wide"> · {bytes(memory)}</span>}
  </span>;
}

// A blocked call, a blocked connection: what was denied, and what to do.
function Denials({ cell }: { cell: Cell }): VNode | null {
  const events = (cell.execution.value?.["security_events"] ?? []) as Record<string, unknown>[];
  if (!events.length) return null;
  return <ul class="denials">{events.slice(0, 20).map((event) => <li>
    <strong>Denied:</strong> {visible(String(event["action"] ?? event["kind"] ?? ""))} {visible(String(event["target"] ?? event["host"] ?? ""))}
    {event["hint"] ? <span class="hint"> {String(event["hint"])}</span> : null}</li>)}</ul>;
}

function Question({ cell, prompt }: { cell: Cell; prompt: string }): VNode {
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const send = (event: Event): void => {
    event.preventDefault();
    answerQuestion(cell, text).catch((error: unknown) => void (notice.value = describe(error)));
  };
  return <form class="question" onSubmit={send}>
    <label>{visible(prompt) || "The code asks for a line"}
      <input ref={field} value={text} onInput={(event) => setText(event.currentTarget.value)} autocomplete="off" /></label>
    <button type="submit">Answer</button>
    <button type="button" class="quiet" onClick={() => void answerQuestion(cell, null)}>No more input</button>
  </form>;
}

function CellFiles({ cell }: { cell: Cell }): VNode | null {
  if (!cell.files.value.length) return null;
  return <ul class="cell-files" aria-label="Files that this run wrote">{cell.files.value.slice(0, 50).map((file) => <li>
    {file.url ? <a href={new URL(file.url).pathname} download={visible(file.path.split("/").pop() ?? "file")}>
      <Icon name="file" /><bdi>{visible(file.path)}</bdi> <span>{bytes(file.size)}</span></a> :
      <span><bdi>{visible(file.path)}</bdi> {file.error ?? ""}</span>}</li>)}</ul>;
}

// ---- one cell --------------------------------------------------------------------------------------------------

function CellView({ cell, index }: { cell: Cell; index: number }): VNode {
  const isSelected = selected.value === index;
  const isMarkdown = cell.kind.value === "markdown";
  const showsText = isMarkdown && editing.value !== cell.id && cell.source.value.trim() !== "";
  const isBusy = cell.status.value === "running" || cell.status.value === "queued";
  return (
    <section id={cell.id} class={`cell ${isSelected ? "selected" : ""} ${cell.status.value === "running" ? "running" : ""}`} tabIndex={-1}
      aria-label={`${isMarkdown ? "Text" : "Code"} cell ${index + 1}`} onMouseDown={() => void (selected.value = index)}>
      <div class="cell-box">
        <div class="cell-bar">
          {!isMarkdown && (isBusy ?
            <button type="button" class="run stop" aria-label={`Stop cell ${index + 1}`} title="Stop" onClick={() => void stopAll()}><Icon name="stop" /></button> :
            <button type="button" class="run" aria-label={`Run cell ${index + 1}`} title="Run (Shift+Enter)" onClick={() => runCell(cell)}><Icon name="play" /></button>)}
          {isMarkdown && <span class="run text-mark" aria-hidden="true">T</span>}
        </div>
        {showsText ? <div class="rendered" onDblClick={() => edit(index)}><Markdown text={cell.source.value} /></div> :
          <CellEditor cell={cell} index={index} />}
        <div class="cell-tools">
          <button type="button" class="quiet" aria-label={`Move cell ${index + 1} up`} title="Move up" onClick={() => moveCell(index, -1)}><Icon name="up" /></button>
          <button type="button" class="quiet" aria-label={`Move cell ${index + 1} down`} title="Move down" onClick={() => moveCell(index, 1)}><Icon name="down" /></button>
          <button type="button" class="quiet" aria-label={`Make cell ${index + 1} ${isMarkdown ? "code" : "text"}`} title={isMarkdown ? "Make it code" : "Make it text"}
            onClick={() => { cell.state = null; cell.kind.value = isMarkdown ? "code" : "markdown"; typed(); }}><Icon name={isMarkdown ? "code" : "text"} /></button>
          <button type="button" class="quiet" aria-label={`Delete cell ${index + 1}`} title="Delete" onClick={() => removeCell(index)}><Icon name="bin" /></button>
        </div>
      </div>
      {!isMarkdown && (isBusy || cell.verdict.value || cell.outputs.value.length > 0) && <div class="cell-out">
        <div class="cell-state"><span class="count">{cell.count.value !== null ? `[${cell.count.value}]` : ""}</span><RunState cell={cell} /></div>
        <Outputs outputs={cell.outputs.value} onLine={(line) => goToLine(cell, index, line)} />
        {cell.question.value !== null && <Question cell={cell} prompt={cell.question.value} />}
        <Denials cell={cell} />
        <CellFiles cell={cell} />
      </div>}
    </section>
  );
}

function goToLine(cell: Cell, index: number, line: number): void {
  edit(index);
  requestAnimationFrame(() => {
    const view = views.get(cell.id);
    if (!view || line > view.state.doc.lines) return;
    view.dispatch({ selection: { anchor: view.state.doc.line(line).from }, scrollIntoView: true });
    view.focus();
  });
}

// ---- empty state -----------------------------------------------------------------------------------------------

const EXAMPLES: { title: string; text: string; code: string }[] = [
  { title: "Look at a table", text: "drop a CSV here, or use this one", code: "import csv, random, statistics\n\nrows = [{\"city\": c, \"sales\": random.randint(20, 90)} for c in (\"Lagos\", \"Lima\", \"Oslo\", \"Pune\")]\nwith open(\"sales.csv\", \"w\", newline=\"\") as f:\n    w = csv.DictWriter(f, [\"city\", \"sales\"])\n    w.writeheader()\n    w.writerows(rows)\n\nprint(open(\"sales.csv\").read())\nstatistics.mean(r[\"sales\"] for r in rows)" },
  { title: "Try the walls", text: "and read what was denied, and why", code: "import socket\n\nsocket.create_connection((\"example.org\", 80), timeout=3)" },
  { title: "Watch it stream", text: "and stop it whenever you like", code: "import time\n\nfor i in range(20):\n    print(f\"step {i + 1} of 20\", flush=True)\n    time.sleep(0.3)" },
];

function Welcome(): VNode {
  const start = (code: string): void => {
    const cell = newCell("code", code);
    cells.value = [cell, newCell()];
    selected.value = 0;
    runCell(cell);
  };
  return <div class="welcome">
    <h2>A place to run Python, behind walls</h2>
    <p>Type below and press <kbd>Shift</kbd>+<kbd>Enter</kbd>. Variables and files stay between cells; every run can be undone.</p>
    <ul class="examples">{EXAMPLES.map((one) => <li><button type="button" onClick={() => start(one.code)}><strong>{one.title}</strong><span>{one.text}</span></button></li>)}</ul>
  </div>;
}

// ---- toolbar ---------------------------------------------------------------------------------------------------

function openFile(): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".ipynb,.py";
  input.addEventListener("change", () => void (input.files?.[0] && importNotebook(input.files[0])));
  input.click();
}

export async function importNotebook(file: File): Promise<void> {
  try {
    cells.value = await readNotebook(file);
    selected.value = 0;
    notice.value = `${visible(file.name)}: ${cells.value.length} cells`;
    typed();
  } catch (error) {
    notice.value = `${visible(file.name)} cannot be opened: ${describe(error)}`;
  }
}

function Menu({ label, icon, children }: { label: string; icon: string; children: (close: () => void) => VNode }): VNode {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const away = (event: Event): void => void (box.current?.contains(event.target as Node) || setOpen(false));
    addEventListener("mousedown", away);
    return () => removeEventListener("mousedown", away);
  }, [open]);
  return <div class="menu" ref={box} onKeyDown={(event) => event.key === "Escape" && setOpen(false)}>
    <button type="button" class="tool" aria-expanded={open} aria-haspopup="true" onClick={() => setOpen(!open)} aria-label={label} title={label}>
      <Icon name={icon} /><span class="wide">{label}</span></button>
    {open && <div class="menu-list">{children(() => setOpen(false))}</div>}
  </div>;
}

async function onRestart(): Promise<void> {
  if (await confirmDialog("Restart the session?", "Variables and files of the session are removed. The cells stay.", "Restart"))
    await restart().catch((error: unknown) => void (notice.value = describe(error)));
}

function Toolbar(): VNode {
  const isRunning = running.value !== null;
  return <div class="toolbar" role="toolbar" aria-label="Notebook">
    <SessionMenu />
    <button type="button" class="tool" onClick={() => insertCell(selected.value + 1)} title="Insert a cell (B)"><Icon name="plus" /><span class="wide">Cell</span><span class="hidden-label">insert</span></button>
    <button type="button" class="tool" onClick={runAll} title="Run all cells"><Icon name="all" /><span class="wide">Run all</span><span class="hidden-label">Run all cells</span></button>
    <button type="button" class="tool" disabled={!isRunning} onClick={() => void interrupt()} title="Interrupt (I, I): KeyboardInterrupt; variables stay"><Icon name="stop" /><span class="wide">Interrupt</span></button>
    <button type="button" class="tool" onClick={() => void onRestart()} title="Restart the session (0, 0)"><Icon name="again" /><span class="wide">Restart</span></button>
    <Menu label="Notebook" icon="book">{(close) => <>
      <button type="button" onClick={() => { close(); openNotebook(); }}>New notebook</button>
      <button type="button" onClick={() => { close(); openFile(); }}>Open .ipynb or .py…</button>
      <button type="button" onClick={() => { close(); saveAs(exportIpynb(cells.value), `${sessionName.value}.ipynb`, "application/x-ipynb+json"); }}>Save as .ipynb</button>
      <button type="button" onClick={() => { close(); saveAs(exportPy(cells.value), `${sessionName.value}.py`, "text/x-python"); }}>Save as .py</button>
      <button type="button" onClick={() => { close(); saveReport(); }}>Save as HTML report</button>
      <ShareButton close={close} />
      <button type="button" onClick={() => { close(); showKeys.value = true; }}>Keyboard…</button>
    </>}</Menu>
  </div>;
}

function SessionMenu(): VNode {
  const open = Object.values(sessions.value);
  const here = sessionName.value;
  return <label class="session-pick"><span class="hidden-label">Session</span>
    <span class={`dot ${session.value ? session.value.is_busy ? "busy" : "on" : ""}`} aria-hidden="true" />
    <select value={here} onChange={(event) => {
      const name = event.currentTarget.value;
      if (name !== here) openNotebook(name, loadDraft(name));
    }}>
      {!open.some((one) => (one.name || one.session) === here) && <option value={here}>{here} (opens at the first run)</option>}
      {open.map((one) => <option value={one.name || one.session}>{visible(one.name || one.session)}</option>)}
    </select>
  </label>;
}

// ---- keyboard --------------------------------------------------------------------------------------------------

export const showKeys = signal(false);
let lastKey = { key: "", at: 0 };

const COMMANDS: Record<string, () => void> = {
  Enter: () => edit(selected.value), ArrowUp: () => select(selected.value - 1), ArrowDown: () => select(selected.value + 1),
  k: () => select(selected.value - 1), j: () => select(selected.value + 1),
  a: () => { insertCell(selected.value); select(selected.value); }, b: () => { insertCell(selected.value + 1); select(selected.value); },
  m: () => setKind("markdown"), y: () => setKind("code"), "?": () => void (showKeys.value = true),
  "d d": () => { removeCell(selected.value); select(selected.value); }, "i i": () => void interrupt(), "0 0": () => void onRestart(),
};

function setKind(kind: "code" | "markdown"): void {
  const cell = cells.value[selected.value]!;
  cell.state = null;
  cell.kind.value = kind;
  typed();
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (!target.classList.contains("cell") || event.ctrlKey || event.metaKey) return;
  if (event.key === "Enter" && (event.shiftKey || event.altKey)) {
    event.preventDefault();
    runFrom(selected.value, event.altKey ? "insert" : "next");
    return;
  }
  const twice = `${lastKey.key} ${event.key}`;
  const command = event.timeStamp - lastKey.at < 800 && COMMANDS[twice] || COMMANDS[event.key];
  lastKey = command && COMMANDS[twice] === command ? { key: "", at: 0 } : { key: event.key, at: event.timeStamp };
  if (!command) return;
  event.preventDefault();
  command();
}

const KEYS: [string, string][] = [["Shift+Enter", "run the cell, go to the next"], ["Ctrl+Enter", "run the cell"],
  ["Alt+Enter", "run the cell, insert one below"], ["Tab", "complete or indent; after Escape: the next control"], ["Escape", "leave the editor: the keys below work"],
  ["Enter", "edit the cell"], ["↑ ↓ or K J", "choose a cell"], ["A, B", "insert a cell above, below"], ["D D", "delete the cell"],
  ["M, Y", "make the cell text, code"], ["I I", "interrupt"], ["0 0", "restart the session"], ["?", "this list"]];

function KeyList(): VNode | null {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => void (showKeys.value && element.current?.showModal()), [showKeys.value]);
  return showKeys.value ? <dialog ref={element} class="dialog" aria-label="Keyboard" onClose={() => void (showKeys.value = false)}>
    <h2>Keyboard</h2>
    <dl class="keys">{KEYS.map(([key, what]) => <><dt><kbd>{key}</kbd></dt><dd>{what}</dd></>)}</dl>
    <form method="dialog"><button type="submit">Close</button></form>
  </dialog> : null;
}

// ---- the whole -------------------------------------------------------------------------------------------------

type Side = "variables" | "files" | "packages";
const SIDES: [Side, string, string][] = [["variables", "Variables", "list"], ["files", "Files", "file"], ["packages", "Packages", "box"]];

export function Console(): VNode {
  const [side, setSide] = useState<Side | null>(innerWidth > 900 ? "variables" : null);
  const [dropping, setDropping] = useState(false);
  const list = cells.value;
  const isEmpty = list.length === 1 && list[0]!.source.value === "" && !list[0]!.outputs.value.length && list[0]!.status.value === "idle";
  return (
    <div class={`console ${side ? "with-side" : ""} ${dropping ? "dropping" : ""}`} onKeyDown={onKey}
      onDragOver={(event) => { event.preventDefault(); setDropping(true); }} onDragLeave={() => setDropping(false)}
      onDrop={(event) => {
        event.preventDefault();
        setDropping(false);
        const dropped = [...event.dataTransfer?.files ?? []];
        const notebook = dropped.length === 1 && /\.ipynb$/.test(dropped[0]!.name) ? dropped[0] : null;
        if (notebook) void importNotebook(notebook);
        else {
          setSide("files");
          void import("./files").then((module) => module.upload(dropped));
        }
      }}>
      <Toolbar />
      <div class="cells">
        {isEmpty && <Welcome />}
        {list.map((cell, index) => <CellView key={cell.id} cell={cell} index={index} />)}
        <div class="add"><button type="button" class="quiet" onClick={() => { insertCell(cells.value.length); edit(cells.value.length - 1); }}><Icon name="plus" /> Code</button>
          <button type="button" class="quiet" onClick={() => { insertCell(cells.value.length, newCell("markdown")); edit(cells.value.length - 1); }}><Icon name="plus" /> Text</button></div>
      </div>
      <aside class="side" aria-label="Session">
        <div class="side-tabs" role="tablist" aria-label="Panels">{SIDES.map(([name, title, icon]) =>
          <button type="button" role="tab" id={`tab-${name}`} aria-selected={side === name} aria-controls={side === name ? "side-body" : undefined}
            onClick={() => setSide(side === name ? null : name)}><Icon name={icon} />{title}</button>)}</div>
        {side && <div class="side-body" id="side-body" role="tabpanel" aria-labelledby={`tab-${side}`} tabIndex={0}>
          {side === "variables" ? <VariablesPanel /> : side === "files" ? <FilesPanel /> : <PackagesPanel />}</div>}
      </aside>
      <KeyList />
    </div>
  );
}
