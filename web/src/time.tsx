// SPDX-License-Identifier: Apache-2.0
// time: a session as the tree of its checkpoints and forks: go back, fork, name, compare, race.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask as send, at, describe, get, isMissing, post } from "./api";
import { ask as confirmDialog } from "./dialog";
import { Icon } from "./icons";
import { ensureSession, environment, look as lookAtSession, loadDraft, newCell, notice, openNotebook, runs, session, sessionName } from "./notebook";
import { DisplayOutput } from "./outputs";
import { clock, duration, visible } from "./safe_text";

interface Node {
  id: string; parent: string | null; label: string | null; kind: "session" | "checkpoint"; session: string; created_at: string;
  runs: number; code: string | null; undo: object | null;
}
interface Difference { added: string[]; removed: string[]; changed: string[]; omitted?: number }
interface Comparison { variables: Difference; files: Difference; complete?: boolean }

const nodes = signal<Node[] | null>(null);
const current = signal("");
const problem = signal("");
const chosen = signal<string[]>([]);
const comparison = signal<{ between: [string, string]; found: Comparison } | null>(null);

async function look(): Promise<void> {
  problem.value = "";
  await lookAtSession();
  if (!session.peek()) {
    nodes.value = [];
    return;
  }
  try {
    const tree = await get<{ current: string; nodes: Node[] }>(`sessions/${at(session.peek()!.session)}/tree`);
    nodes.value = tree.nodes;
    current.value = tree.current;
  } catch (error) {
    nodes.value = [];
    problem.value = isMissing(error) ? "This server does not tell the tree of a session; undo and fork still work." : describe(error);
  }
}

// Whatever fails is said, and the tree is drawn as it is afterwards.
async function act(what: () => Promise<string>): Promise<void> {
  try {
    notice.value = await what();
    problem.value = "";
  } catch (error) {
    problem.value = describe(error);
  }
  const said = problem.value;
  runs.value++;
  await look();
  problem.value ||= said;
}

// ---- the tree as rows with lanes -------------------------------------------------------------------------------

interface Row { node: Node; lane: number; from: number | null; depth: number }

function layOut(list: Node[]): Row[] {
  const lanes = new Map<string, number>();
  // The present of a session is newer than its checkpoints, whatever the clock said when it was opened.
  const sorted = [...list].sort((a, b) => a.created_at.localeCompare(b.created_at) || a.runs - b.runs);
  const order: Node[] = [];
  const place = (node: Node): void => {
    if (order.includes(node)) return;
    order.push(node);
    for (const child of sorted) if (child.parent === node.id && child.kind === "checkpoint") place(child);
    for (const child of sorted) if (child.parent === node.id && child.kind === "session") place(child);
  };
  for (const node of sorted) if (!node.parent || !list.some((one) => one.id === node.parent)) place(node);
  for (const node of sorted) place(node);
  for (const node of order) if (!lanes.has(node.session)) lanes.set(node.session, lanes.size);
  return order.map((node) => {
    const parent = order.findIndex((one) => one.id === node.parent);
    return { node, lane: lanes.get(node.session)!, from: parent < 0 ? null : parent, depth: 0 };
  });
}

const ROW = 62, LANE = 24, LANES_MAX = 8;

function Graph({ rows }: { rows: Row[] }): VNode {
  const x = (lane: number): number => 16 + Math.min(lane, LANES_MAX) * LANE;
  const y = (index: number): number => index * ROW + ROW / 2;
  const width = 32 + Math.min(LANES_MAX, Math.max(0, ...rows.map((row) => row.lane))) * LANE;
  return <svg class="graph" width={width} height={rows.length * ROW} viewBox={`0 0 ${width} ${rows.length * ROW}`} aria-hidden="true">
    {rows.map((row, i) => row.from === null ? null : <path class={`lane-${row.lane % 6}`} d={rows[row.from]!.lane === row.lane ?
      `M${x(row.lane)} ${y(row.from)}V${y(i)}` :
      `M${x(rows[row.from]!.lane)} ${y(row.from)}C${x(rows[row.from]!.lane)} ${y(row.from) + ROW / 2} ${x(row.lane)} ${y(row.from) + ROW / 4} ${x(row.lane)} ${y(row.from) + ROW * 0.8}V${y(i)}`} />)}
    {rows.map((row, i) => <circle class={`lane-${row.lane % 6} ${row.node.kind}`} cx={x(row.lane)} cy={y(i)} r={row.node.kind === "session" ? 8 : 5.5} />)}
  </svg>;
}

async function goBack(node: Node): Promise<void> {
  if (!await confirmDialog("Go back to this state?", "Variables and files become what they were then. The runs after it are undone.", "Go back")) return;
  await act(async () => {
    await post(`sessions/${at(node.session)}/undo`, node.undo ?? {});
    return "The session is back at that state.";
  });
}

async function fork(): Promise<void> {
  await act(async () => {
    const made = await post<{ fork: string }>(`sessions/${at(session.value!.session)}/fork`);
    return `A fork is there: ${made.fork}`;
  });
}

function NameForm({ node }: { node: Node }): VNode {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState(node.label ?? "");
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    setOpen(false);
    const isHere = session.value?.session === node.session;
    await act(async () => {
      await post(`sessions/${at(node.session)}/rename`, { name: text });
      if (isHere) {
        const draft = loadDraft(sessionName.value);
        openNotebook(text || node.session, draft.length ? draft : [newCell()]);
        location.hash = "#/time";
      }
      return `The session is called ${text || node.session}.`;
    });
  };
  return open ? <form class="name-form" onSubmit={(event) => void save(event)}><label><span class="hidden-label">Name</span>
    <input value={text} autofocus onInput={(event) => setText(event.currentTarget.value)} /></label><button type="submit">Name</button></form> :
    <button type="button" class="quiet" onClick={() => setOpen(true)}>Name…</button>;
}

function TreeRow({ row }: { row: Row }): VNode {
  const { node } = row;
  const isHere = node.id === current.value;
  const title = node.kind === "session" ? node.label ?? node.session : node.label ?? (node.code?.trim().split("\n")[0] || "Beginning");
  const picked = chosen.value.includes(node.id);
  return <li class={`tree-row ${isHere ? "here" : ""}`}>
    <div class="tree-what"><strong class={node.kind}><bdi>{visible(title)}</bdi></strong>
      <small>{node.kind === "session" ? isHere ? "now, this session" : "now, a fork" : "checkpoint"} · {node.runs} {node.runs === 1 ? "run" : "runs"} · {clock(node.created_at)}</small></div>
    <div class="tree-do">
      {node.kind === "checkpoint" && node.undo && <button type="button" class="quiet" onClick={() => void goBack(node)}>Go back here</button>}
      {node.kind === "session" && !isHere && <button type="button" class="quiet" onClick={() => openNotebook(node.label ?? node.session)}>Open</button>}
      {node.kind === "session" && <NameForm node={node} />}
      <label class="pick"><input type="checkbox" checked={picked} onChange={() => {
        chosen.value = picked ? chosen.value.filter((id) => id !== node.id) : [...chosen.value, node.id].slice(-2);
      }} />Compare</label>
    </div>
  </li>;
}

// ---- compare ---------------------------------------------------------------------------------------------------

async function compare(): Promise<void> {
  const all = nodes.value ?? [];
  const picked = chosen.value.map((id) => all.find((node) => node.id === id)!).filter(Boolean);
  // The first of the two is a session; a checkpoint is compared with its own session.
  const first = picked.find((node) => node.kind === "session") ?? all.find((node) => node.id === picked[0]?.session);
  const second = picked.find((node) => node !== first);
  if (!first || !second) return;
  try {
    comparison.value = { between: [first.label ?? first.session, second.label ?? second.code?.split("\n")[0] ?? second.id],
      found: await post<Comparison>(`sessions/${at(first.session)}/compare`, { with: second.kind === "session" ? second.session : second.id }) };
    problem.value = "";
  } catch (error) {
    problem.value = describe(error);
  }
}

const nameOf = (one: unknown): string => typeof one === "string" ? one : String((one as { name?: unknown; path?: unknown })?.name ?? (one as { path?: unknown })?.path ?? "");

function Names({ title, list, kind }: { title: string; list: string[]; kind: string }): VNode | null {
  return list.length ? <p><span class={`badge ${kind}`}>{title}</span> {list.map((one, i) => <>{i ? ", " : ""}<code>{visible(nameOf(one))}</code></>)}</p> : null;
}

function Differences({ title, found }: { title: string; found: Difference }): VNode {
  const none = !found.added.length && !found.removed.length && !found.changed.length;
  return <div><h3>{title}</h3>{none && <p class="hint">No difference.</p>}
    <Names title="only here" list={found.added} kind="good" /><Names title="only there" list={found.removed} kind="bad" />
    <Names title="different" list={found.changed} kind="warn" /></div>;
}

// ---- race ------------------------------------------------------------------------------------------------------

interface Lane { name: string; code: string; handle: string; state: "waiting" | "running" | "done"; verdict: string; ms: number;
  text: string; bundles: Record<string, unknown>[] }
const lanes = signal<Lane[]>([]);
const racing = signal(false);

async function runLane(lane: Lane): Promise<void> {
  lane.state = "running";
  lanes.value = [...lanes.value];
  try {
    const began = performance.now();
    const result = await post<Record<string, unknown>>("execute", { code: lane.code, session: lane.handle, stream: false });
    const error = result["error"] as { text?: string; type?: string; message?: string } | null;
    lane.verdict = String(result["verdict"]);
    lane.ms = (result["usage"] as Record<string, number> | null)?.["wall_ms"] ?? performance.now() - began;
    lane.text = [result["stdout"], result["result"], error && `${error.type ?? ""}: ${error.message ?? ""}`].filter(Boolean).join("\n").slice(0, 20_000);
    lane.bundles = ((result["display"] ?? []) as Record<string, unknown>[]).slice(0, 5);
  } catch (error) {
    lane.verdict = "lost";
    lane.text = describe(error);
  }
  lane.state = "done";
  lanes.value = [...lanes.value];
}

async function race(codes: string[]): Promise<void> {
  racing.value = true;
  problem.value = "";
  lanes.value = [];
  try {
    await ensureSession();
    for (const [i, code] of codes.entries()) {
      const made = await post<{ fork: string }>(`sessions/${at(session.value!.session)}/fork`);
      lanes.value = [...lanes.value, { name: `Try ${i + 1}`, code, handle: made.fork, state: "waiting", verdict: "", ms: 0, text: "", bundles: [] }];
    }
    await Promise.all(lanes.value.map(runLane));
    notice.value = "All tries have ended. Keep one; the others are closed then.";
  } catch (error) {
    problem.value = describe(error);
    await closeLanes(null);
  }
  racing.value = false;
  await look();
}

async function closeLanes(kept: Lane | null): Promise<void> {
  for (const lane of lanes.value)
    if (lane !== kept) await send("DELETE", `sessions/${at(lane.handle)}`).catch(() => undefined);
  lanes.value = [];
}

async function keep(lane: Lane): Promise<void> {
  await closeLanes(lane);
  const cells = [...loadDraft(sessionName.value), newCell("code", lane.code)].filter((cell) => cell.source.value.trim());
  openNotebook(lane.handle, [...cells, newCell()]);
  notice.value = "This try is the notebook's session now. The session before it is still open.";
}

function Race(): VNode {
  const [codes, setCodes] = useState(["", ""]);
  const ready = codes.filter((code) => code.trim()).length > 1;
  return <section class="card" aria-labelledby="race-title"><h2 id="race-title">Race</h2>
    <p class="hint">Each try runs in a fork of the session, with the same variables and files. Keep the one you like.</p>
    <div class="lanes">{codes.map((code, i) => <label>Try {i + 1}<textarea rows={5} spellcheck={false} value={code}
      onInput={(event) => setCodes(codes.map((old, j) => i === j ? event.currentTarget.value : old))} /></label>)}</div>
    <div class="row"><button type="button" disabled={!ready || racing.value} onClick={() => void race(codes.filter((code) => code.trim()))}>{racing.value ? "Running…" : "Run them side by side"}</button>
      {codes.length < 4 && <button type="button" class="quiet" onClick={() => setCodes([...codes, codes[codes.length - 1] ?? ""])}>Add a try</button>}</div>
    {lanes.value.length > 0 && <div class="lanes">{lanes.value.map((lane) => <div class="lane-card"><h3>{lane.name}
      <span class={`state ${lane.state !== "done" ? "busy" : lane.verdict === "ok" ? "good" : "bad"}`}> {lane.state === "done" ? `${lane.verdict} · ${duration(lane.ms)}` : lane.state}</span></h3>
      {lane.text && <pre class="text" tabIndex={0} role="group" aria-label={`Output of ${lane.name}`}>{lane.text}</pre>}
      {lane.bundles.map((bundle) => <DisplayOutput bundle={bundle} />)}
      {lane.state === "done" && <button type="button" onClick={() => void keep(lane)}>Keep this one</button>}</div>)}</div>}
  </section>;
}

// ---- the whole -------------------------------------------------------------------------------------------------

export function Time(): VNode {
  useEffect(() => void look(), [sessionName.value, environment.value]);
  const list = nodes.value;
  const rows = list ? layOut(list) : [];
  return <div class="page">
    <header><h2>Time travel</h2><p>Every run leaves a checkpoint. Go back to one, or fork the session and try something: the other branches stay as they are.</p></header>
    {problem.value && <p class="bad" role="alert">{problem.value}</p>}
    <section class="card" aria-labelledby="tree-title"><h2 id="tree-title">Session {visible(sessionName.value)}</h2>
      <div class="row"><button type="button" disabled={!session.value} onClick={() => void fork()}><Icon name="tree" /> Fork now</button>
        <button type="button" class="quiet" disabled={!session.value} onClick={() => void act(async () => {
          await post(`sessions/${at(session.value!.session)}/undo`);
          return "The last run is undone.";
        })}>Undo the last run</button>
        <button type="button" class="quiet" disabled={chosen.value.length < 2} onClick={() => void compare()}>Compare the two</button></div>
      {list && !rows.length && !problem.value && <div class="empty"><p>Nothing to go back to yet.</p><p>Run a cell in the console: each run adds a state to this tree.</p></div>}
      {rows.length > 0 && <div class="tree"><Graph rows={rows} /><ol>{rows.map((row) => <TreeRow key={row.node.id} row={row} />)}</ol></div>}
    </section>
    {comparison.value && <section class="card" aria-labelledby="compare-title"><h2 id="compare-title">{visible(comparison.value.between[0])} beside {visible(comparison.value.between[1])}</h2>
      <div class="lanes"><Differences title="Variables" found={comparison.value.found.variables} /><Differences title="Files" found={comparison.value.found.files} /></div></section>}
    <Race />
  </div>;
}

export default Time;

