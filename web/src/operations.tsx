// SPDX-License-Identifier: Apache-2.0
// operations: what runs, what it costs, what was denied: GET /overview, which shows a key what it may see.

import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect } from "preact/hooks";
import { ask, at, describe, get, post } from "./api";
import { ask as confirmDialog } from "./dialog";
import { notice } from "./notebook";
import { bytes, clock, duration, visible } from "./safe_text";

type Row = Record<string, unknown>;
interface List { total: number; items: Row[] }
interface Minute { at: string; verdicts: Record<string, number> }
interface Overview {
  operator: boolean; all: boolean; server: { uptime: number; runs_max: number };
  boxes: { parked: number; live: number; dying: number } | null; queue: { running: number; waiting: number | null };
  runs: List; recent: List; sessions: List; environments: List; installs: List; keys: List; denials: List; hosts: List;
  verdicts: Minute[]; latency: { runs: number; p50_ms: number | null; p99_ms: number | null };
  artifacts: { files?: number; bytes?: number; quota_bytes?: number; items?: Row[] };
}
interface Layer { name: string; state?: string; held?: boolean | null; text?: string; fix?: string; stops?: string }
interface Probe { name: string; what: string; held: boolean; outcome: string }
interface SelfTest { held: number; total: number; probes: Probe[] }

const overview = signal<Overview | null>(null);
const layers = signal<Layer[] | null>(null);
const tested = signal<SelfTest | null>(null);
const testing = signal(false);
const problem = signal("");

async function look(): Promise<void> {
  try {
    overview.value = await get<Overview>("overview");
    problem.value = "";
  } catch (error) {
    problem.value = describe(error);
  }
}

async function lookAtLayers(): Promise<void> {
  layers.value = await get<{ layers: Layer[] }>("doctor").then((said) => said.layers, () => null);
}

// ---- cells of tables -------------------------------------------------------------------------------------------

function show(name: string, value: unknown): ComponentChildren {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") {
    if (/bytes|size|memory/.test(name)) return bytes(value);
    if (/_ms$|^p\d\d$/.test(name)) return duration(value);
    if (/seconds|^age/.test(name)) return duration(value * 1000);
    return value.toLocaleString("en", { maximumFractionDigits: 2 });
  }
  if (typeof value === "string") {
    if (/^\d{4}-\d\d-\d\dT/.test(value)) return clock(value);
    return <bdi>{visible(value.slice(0, 300))}</bdi>;
  }
  return visible(JSON.stringify(value).slice(0, 200));
}

const titleOf = (name: string): string => name.replace(/_(bytes|ms)$/, "").replace(/_/g, " ");

function Rows({ list, label, empty, columns, action }: { list: List | undefined; label: string; empty: string; columns: string[]; action?: (row: Row) => VNode | null }): VNode {
  const rows = list?.items ?? [];
  if (!rows.length) return <p class="hint">{empty}</p>;
  const names = columns.filter((name) => rows.some((row) => row[name] !== undefined && row[name] !== null && row[name] !== ""));
  return <div class="table-scroll" tabIndex={0} role="group" aria-label={label}><table>
    <thead><tr>{names.map((name) => <th scope="col"><span class="th">{titleOf(name)}</span></th>)}{action && <th scope="col"><span class="hidden-label">Actions</span></th>}</tr></thead>
    <tbody>{rows.slice(0, 200).map((row) => <tr>{names.map((name) => <td class={typeof row[name] === "number" ? "number" : ""}>{show(name, row[name])}</td>)}
      {action && <td>{action(row)}</td>}</tr>)}</tbody></table>
    {list!.total > rows.length && <p class="more hint">{rows.length} of {list!.total.toLocaleString("en")}</p>}</div>;
}

function Card({ title, children, end }: { title: string; children: ComponentChildren; end?: VNode | undefined }): VNode {
  const id = `card-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return <section class="card" aria-labelledby={id}><div class="cards-head"><h2 id={id}>{title}</h2>{end}</div>{children}</section>;
}

// ---- actions ---------------------------------------------------------------------------------------------------

async function act(what: Promise<unknown>, done: string): Promise<void> {
  try {
    await what;
    notice.value = done;
  } catch (error) {
    problem.value = describe(error);
  }
  const said = problem.value;
  await look();
  problem.value ||= said;
}

const mayAct = (): boolean => overview.value?.operator ?? false;

const sessionActions = (row: Row): VNode | null => {
  const id = String(row["session"]);
  return !mayAct() ? null : <span class="acts">
    {row["state"] === "busy" || row["state"] === "running" ? <button type="button" class="quiet" onClick={() => void act(post(`sessions/${at(id)}/interrupt`), "The run was interrupted.")}>Interrupt</button> : null}
    <button type="button" class="quiet" aria-label={`Close session ${id}`} onClick={() => void confirmDialog("Close this session?", `${id}: its variables are lost; its files stay until they expire.`, "Close it")
      .then((yes) => yes ? act(ask("DELETE", `sessions/${at(id)}`), "The session is closed.") : undefined)}>Close</button></span>;
};

const runActions = (row: Row): VNode | null => {
  const id = String(row["execution_id"] ?? "");
  return mayAct() ? <button type="button" class="quiet" aria-label={`Stop run ${id}`} onClick={() => void act(ask("DELETE", `runs/${at(id)}`), "The run was stopped.")}>Stop</button> : null;
};

async function selfTest(): Promise<void> {
  testing.value = true;
  try {
    tested.value = await post<SelfTest>("self-test");
    notice.value = `The self-test has ended: ${tested.value.held} of ${tested.value.total} probes were held.`;
  } catch (error) {
    problem.value = describe(error);
  }
  testing.value = false;
}

// ---- parts -----------------------------------------------------------------------------------------------------

function Verdicts({ minutes }: { minutes: Minute[] }): VNode | null {
  const counts = new Map<string, number>();
  for (const minute of minutes) for (const [name, count] of Object.entries(minute.verdicts)) counts.set(name, (counts.get(name) ?? 0) + count);
  const rows = [...counts].sort((a, b) => b[1] - a[1]);
  return rows.length ? <dl class="bars">{rows.map(([name, count]) => <>
    <dt>{visible(name.replace(/_/g, " "))}</dt><dd><progress max={rows[0]![1]} value={count} aria-label={name} /></dd><dd class="number">{count.toLocaleString("en")}</dd></>)}</dl> : null;
}

const MINUTES = 60;

// The minutes of the last hour beside each other: how many runs ended well, with an error, at a limit.
function OverTime({ minutes }: { minutes: Minute[] }): VNode {
  const last = Math.floor(Date.now() / 60_000);
  const points = Array.from({ length: MINUTES }, () => ({ ok: 0, error: 0, limit: 0 }));
  for (const minute of minutes) {
    const point = points[MINUTES - 1 - (last - Math.floor(Date.parse(minute.at) / 60_000))];
    if (point) for (const [name, count] of Object.entries(minute.verdicts)) point[name === "ok" || name === "error" ? name : "limit"] += count;
  }
  const most = Math.max(1, ...points.map((p) => p.ok + p.error + p.limit)), width = 600 / MINUTES;
  const height = (count: number): number => count / most * 100;
  return <svg class="verdict-chart" viewBox="0 0 600 104" preserveAspectRatio="none" role="img"
    aria-label={`Runs in each minute of the last hour, at most ${most}`}>
    <line x1="0" x2="600" y1="103" y2="103" />
    {points.map((p, i) => <>
      <rect class="ok" x={i * width + 1} width={width - 2} y={102 - height(p.ok)} height={height(p.ok)} />
      <rect class="error" x={i * width + 1} width={width - 2} y={102 - height(p.ok + p.error)} height={height(p.error)} />
      <rect class="limit" x={i * width + 1} width={width - 2} y={102 - height(p.ok + p.error + p.limit)} height={height(p.limit)} /></>)}
  </svg>;
}

function Figure({ value, name }: { value: ComponentChildren; name: string }): VNode {
  return <div class="figure"><strong>{value}</strong><span>{name}</span></div>;
}

function Figures({ o }: { o: Overview }): VNode {
  return <div class="figures">
    <Figure value={o.queue.running} name={`runs now, of ${o.server.runs_max}`} />
    {o.queue.waiting !== null && <Figure value={o.queue.waiting} name="waiting" />}
    <Figure value={o.sessions.total} name="sessions" />
    {o.boxes && <Figure value={o.boxes.parked} name="boxes parked" />}
    {o.latency.p50_ms !== null && <Figure value={duration(o.latency.p50_ms)} name="half of the runs" />}
    {o.latency.p99_ms !== null && <Figure value={duration(o.latency.p99_ms)} name="99 of 100 runs" />}
    <Figure value={duration(o.server.uptime * 1000)} name="since the start" />
  </div>;
}

function Isolation(): VNode {
  const word = (state: string): VNode => <span class={`badge ${state === "live" || state === "held" ? "good" : state === "partial" ? "warn" : "bad"}`}>{state}</span>;
  return <Card title="Isolation" end={mayAct() ? <button type="button" disabled={testing.value} onClick={() => void selfTest()}>{testing.value ? "Testing…" : "Run the self-test"}</button> : undefined}>
    {layers.value && <ul class="layers">{layers.value.map((layer) => <li>{word(layer.state ?? "missing")}
      <span><strong>{layer.name}</strong><small> {layer.state === "live" ? layer.stops : `${layer.text ?? ""} ${layer.fix ?? ""}`}</small></span></li>)}</ul>}
    {tested.value && <><h3 class="gap">Self-test: {tested.value.held} of {tested.value.total} attempts to break out were held</h3>
      <ul class="layers">{[...tested.value.probes].sort((a, b) => Number(a.held) - Number(b.held)).map((probe) => <li>{word(probe.held ? "held" : "not held")}<span>{visible(probe.what)}<small> {visible(probe.outcome)}</small></span></li>)}</ul></>}
  </Card>;
}

export default function Operations(): VNode {
  useEffect(() => {
    void look();
    void lookAtLayers();
    const timer = setInterval(() => document.visibilityState === "visible" && void look(), 2000);
    return () => clearInterval(timer);
  }, []);
  const o = overview.value;
  const artifacts = o?.artifacts.items ?? [];
  return <div class="page">
    <header><h2>Operations</h2><p>What runs, what it costs and what was denied, as it happens. {o && !o.all && "This key sees what belongs to it."}</p></header>
    {problem.value && <p class="bad" role="alert">{problem.value}</p>}
    {o && <>
      <Figures o={o} />
      <Card title="Verdicts of the last hour"><OverTime minutes={o.verdicts} /><Verdicts minutes={o.verdicts} /></Card>
      {o.runs.total > 0 && <Card title="Running now"><Rows list={o.runs} label="Runs" empty="" action={runActions} columns={["execution_id", "key", "session", "state", "age_ms", "cpu_ms", "peak_memory_bytes"]} /></Card>}
      <Card title="Sessions"><Rows list={o.sessions} label="Sessions" empty="No session is open. One opens when code names it." action={sessionActions}
        columns={["name", "session", "key", "state", "execution_count", "waiting", "peak_memory_bytes", "created_at", "last_used_at", "environment"]} /></Card>
      <div class="two">
        <Card title="Denied"><Rows list={o.denials} label="Denials" empty="Nothing was denied." columns={["at", "action", "target", "count", "hint", "key"]} /></Card>
        <Card title="Ended lately"><Rows list={o.recent} label="Runs that ended" empty="No run has ended yet." columns={["ended_at", "verdict", "wall_ms", "queue_ms", "cpu_ms", "peak_memory_bytes", "key"]} /></Card>
        <Card title="Network, by host"><Rows list={o.hosts} label="Connections by host" empty="No code has connected to a host." columns={["host", "port", "connections", "bytes_up", "bytes_down", "key", "last_used_at"]} /></Card>
        <Card title="Environments"><Rows list={o.environments} label="Environments" empty="There is only the base environment." columns={["name", "python", "packages", "bytes", "state", "last_used", "key"]} /></Card>
        <Card title="Installs"><Rows list={o.installs} label="Installs" empty="No packages were installed since the start." columns={["environment", "kind", "packages", "state", "key", "job"]} /></Card>
        <Card title="Artifacts"><p class="hint">{(o.artifacts.files ?? 0).toLocaleString("en")} files, {bytes(o.artifacts.bytes ?? 0)}{o.artifacts.quota_bytes ? ` of ${bytes(o.artifacts.quota_bytes)}` : ""}</p>
          <Rows list={{ total: artifacts.length, items: artifacts }} label="Artifacts" empty="No run has written a file." columns={["path", "size", "session", "expires_at"]} /></Card>
        {o.keys.items.some((key) => key["name"]) && <Card title="Keys"><Rows list={o.keys} label="Keys" empty="" columns={["name", "sessions", "artifacts"]} /></Card>}
      </div>
    </>}
    <Isolation />
  </div>;
}
