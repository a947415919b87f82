// SPDX-License-Identifier: Apache-2.0
// operations: what runs, what it costs, what was denied. Everything comes from the server's view for operators, GET
// /overview; what an older server does not tell is left out.

import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect } from "preact/hooks";
import { ApiError, ask, at, describe, get, isMissing, post } from "./api";
import { ask as confirmDialog } from "./dialog";

import { notice, type SessionInfo } from "./notebook";
import { bytes, clock, duration, visible } from "./safe_text";

type Row = Record<string, unknown>;
type Overview = Record<string, unknown>;

const overview = signal<Overview | null>(null);
const health = signal<Row | null>(null);
const sessions = signal<Row[]>([]);
const environments = signal<Row[]>([]);
const artifacts = signal<Row[]>([]);
const layers = signal<Row[] | null>(null);
const probes = signal<Row[] | null>(null);
const testing = signal(false);
const problem = signal("");
const told = signal(""); // why there is no overview
let canAsk = true;

async function look(): Promise<void> {
  try {
    health.value = await get<Row>("health");
    sessions.value = Object.values((await get<{ sessions: Record<string, SessionInfo> }>("sessions")).sessions) as unknown as Row[];
    environments.value = (await get<{ environments: Row[] }>("environments")).environments;
    artifacts.value = (await get<{ artifacts: Row[] }>("artifacts")).artifacts ?? [];
  } catch (error) {
    problem.value = describe(error);
    return;
  }
  problem.value = "";
  if (!canAsk) return;
  try {
    overview.value = await get<Overview>("overview");
    told.value = "";
  } catch (error) {
    if (isMissing(error)) canAsk = false;
    told.value = isMissing(error) ? "This server has no view for operators; here is what your key may see." :
      error instanceof ApiError && error.problem.status === 403 ? describe(error) : "";
  }
}

async function lookAtLayers(): Promise<void> {
  try {
    const said = await get<Row>("doctor");
    layers.value = listOf(said["layers"] ?? said["isolation"] ?? said);
  } catch {
    layers.value = null;
  }
}

// An array of objects, or an object of objects with their names.
function listOf(value: unknown): Row[] {
  if (Array.isArray(value)) return value.map((one) => typeof one === "object" && one ? one as Row : { name: one });
  if (!value || typeof value !== "object") return [];
  return Object.entries(value).map(([name, one]) => typeof one === "object" && one && !Array.isArray(one) ? { name, ...one as Row } : { name, value: one });
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
const PLAIN = new Set(["uri", "limits", "network", "isolation", "checkpoint"]);

function Rows({ rows, label, empty, columns, action }: { rows: Row[]; label: string; empty: string; columns?: string[]; action?: (row: Row) => VNode | null }): VNode {
  if (!rows.length) return <p class="hint">{empty}</p>;
  const names = columns?.filter((name) => rows.some((row) => row[name] !== undefined)) ??
    [...new Set(rows.slice(0, 50).flatMap((row) => Object.keys(row)))].filter((name) => !PLAIN.has(name)).slice(0, 8);
  return <div class="table-scroll" tabIndex={0} role="group" aria-label={label}><table>
    <thead><tr>{names.map((name) => <th scope="col"><span class="th">{titleOf(name)}</span></th>)}{action && <th scope="col"><span class="hidden-label">Actions</span></th>}</tr></thead>
    <tbody>{rows.slice(0, 200).map((row) => <tr>{names.map((name) => <td class={typeof row[name] === "number" ? "number" : ""}>{show(name, row[name])}</td>)}
      {action && <td>{action(row)}</td>}</tr>)}</tbody></table></div>;
}

function Card({ title, children, end }: { title: string; children: ComponentChildren; end?: VNode }): VNode {
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

const sessionActions = (row: Row): VNode => {
  const id = String(row["session"] ?? row["id"]);
  return <span class="acts">{row["is_busy"] ? <button type="button" class="quiet" onClick={() => void act(post(`sessions/${at(id)}/interrupt`), "The run was interrupted.")}>Interrupt</button> : null}
    <button type="button" class="quiet" aria-label={`Close session ${id}`} onClick={() => void confirmDialog("Close this session?", `${id}: its variables are lost; its files stay until they expire.`, "Close it")
      .then((yes) => yes ? act(ask("DELETE", `sessions/${at(id)}`), "The session is closed.") : undefined)}>Close</button></span>;
};

const runActions = (row: Row): VNode | null => {
  const id = String(row["execution_id"] ?? row["run"] ?? row["id"] ?? "");
  return id && !row["verdict"] ? <button type="button" class="quiet" aria-label={`Stop run ${id}`} onClick={() => void act(ask("DELETE", `runs/${at(id)}`), "The run was stopped.")}>Stop</button> : null;
};

async function selfTest(): Promise<void> {
  testing.value = true;
  try {
    const said = await post<Row>("self-test");
    probes.value = listOf(said["probes"] ?? said["results"] ?? said["checks"] ?? said);
    notice.value = "The self-test has ended.";
  } catch (error) {
    problem.value = isMissing(error) ? "This server does not run the self-test for a page; use 'constrictor doctor --self-test'." : describe(error);
  }
  testing.value = false;
}

// ---- parts -----------------------------------------------------------------------------------------------------

function Verdicts({ value }: { value: unknown }): VNode | null {
  const rows: [string, number][] = Array.isArray(value) ? [] : Object.entries((value ?? {}) as Record<string, unknown>).filter((one): one is [string, number] => typeof one[1] === "number");
  const most = Math.max(1, ...rows.map(([, count]) => count));
  return rows.length ? <dl class="bars">{rows.sort((a, b) => b[1] - a[1]).map(([name, count]) => <>
    <dt>{visible(name.replace(/_/g, " "))}</dt><dd><progress max={most} value={count} aria-label={name} /></dd><dd class="number">{count.toLocaleString("en")}</dd></>)}</dl> : null;
}

// Minutes beside each other: how many runs ended well, with an error, at a limit.
function OverTime({ rows }: { rows: Row[] }): VNode | null {
  const points = rows.slice(-60).map((row) => {
    const counts = (row["verdicts"] ?? row) as Record<string, unknown>;
    const of = (test: (name: string) => boolean): number => Object.entries(counts).reduce((sum, [name, count]) =>
      sum + (typeof count === "number" && test(name) ? count : 0), 0);
    const other = new Set(["ok", "error", "at", "time", "minute", "total", "runs"]);
    return { ok: of((name) => name === "ok"), error: of((name) => name === "error"), limit: of((name) => !other.has(name)) };
  });
  const most = Math.max(1, ...points.map((p) => p.ok + p.error + p.limit));
  const width = 600 / Math.max(1, points.length), height = (count: number): number => count / most * 100;
  return points.length ? <svg class="verdict-chart" viewBox="0 0 600 104" preserveAspectRatio="none" role="img"
    aria-label={`Runs in each minute, at most ${most}; ${points.reduce((sum, p) => sum + p.ok, 0)} ended well`}>
    <line x1="0" x2="600" y1="103" y2="103" />
    {points.map((p, i) => <>
      <rect class="ok" x={i * width + 1} width={Math.max(1, width - 2)} y={102 - height(p.ok)} height={height(p.ok)} />
      <rect class="error" x={i * width + 1} width={Math.max(1, width - 2)} y={102 - height(p.ok + p.error)} height={height(p.error)} />
      <rect class="limit" x={i * width + 1} width={Math.max(1, width - 2)} y={102 - height(p.ok + p.error + p.limit)} height={height(p.limit)} /></>)}
  </svg> : null;
}

function Figure({ value, name }: { value: ComponentChildren; name: string }): VNode {
  return <div class="figure"><strong>{value}</strong><span>{name}</span></div>;
}

const numberIn = (value: unknown, ...path: string[]): number | null => {
  for (const name of path) value = (value as Row | null | undefined)?.[name];
  return typeof value === "number" ? value : null;
};

function Figures(): VNode {
  const o = overview.value, latency = o?.["latency"] as Row | undefined, boxes = o?.["boxes"] as Row | undefined;
  const p50 = numberIn(latency, "p50_ms") ?? numberIn(latency, "p50"), p99 = numberIn(latency, "p99_ms") ?? numberIn(latency, "p99");
  const parked = numberIn(boxes, "parked") ?? numberIn(o, "boxes_parked");
  const queue = numberIn(o, "queue") ?? numberIn(o, "queued") ?? numberIn(o, "runs_waiting");
  return <div class="figures">
    <Figure value={String(health.value?.["active_runs"] ?? "–")} name="runs now" />
    <Figure value={String(health.value?.["active_sessions"] ?? sessions.value.length)} name="sessions" />
    {queue !== null && <Figure value={queue} name="waiting" />}
    {p50 !== null && <Figure value={duration(p50)} name="latency, half of the runs" />}
    {p99 !== null && <Figure value={duration(p99)} name="latency, 99 of 100 runs" />}
    {parked !== null && <Figure value={parked} name="boxes parked" />}
    <Figure value={typeof health.value?.["uptime"] === "number" ? duration(health.value["uptime"] * 1000) : "–"} name="since the start" />
  </div>;
}

function Isolation(): VNode {
  const good = (row: Row): boolean => row["ok"] === true || row["works"] === true || /^(ok|works|yes|live|on|present|passed|denied)/.test(String(row["state"] ?? row["status"] ?? row["result"] ?? row["value"] ?? ""));
  const list = (rows: Row[]): VNode => <ul class="layers">{rows.slice(0, 200).map((row) => <li><span class={`badge ${good(row) ? "good" : "bad"}`}>{good(row) ? "holds" : visible(String(row["state"] ?? row["status"] ?? row["value"] ?? "see"))}</span>
    <span>{visible(String(row["name"] ?? row["layer"] ?? row["probe"] ?? ""))}{row["hint"] ? <small> {visible(String(row["hint"]))}</small> : row["detail"] ? <small> {visible(String(row["detail"]))}</small> : null}</span></li>)}</ul>;
  return <Card title="Isolation" end={<button type="button" disabled={testing.value} onClick={() => void selfTest()}>{testing.value ? "Testing…" : "Run the self-test"}</button>}>
    {layers.value ? list(layers.value) : <p class="hint">The layers are in 'constrictor doctor' on the server's machine.</p>}
    {probes.value && <><h3 class="gap">Self-test: what code in a box tried</h3>{list(probes.value)}</>}
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
  const verdicts = o?.["verdicts"], history = o?.["history"] ?? o?.["verdicts_over_time"] ?? (Array.isArray(verdicts) ? verdicts : null);
  const totals = Array.isArray(verdicts) ? null : (verdicts as Row | null)?.["total"] ?? verdicts;
  const network = listOf((o?.["network"] as Row | undefined)?.["hosts"] ?? o?.["network"]);
  return <div class="page">
    <header><h2>Operations</h2><p>What runs, what it costs and what was denied, as it happens. {told.value}</p></header>
    {problem.value && <p class="bad" role="alert">{problem.value}</p>}
    <Figures />
    {(history || totals) && <Card title="Verdicts"><OverTime rows={listOf(history)} /><Verdicts value={totals} /></Card>}
    <Card title="Sessions"><Rows rows={o ? listOf(o["sessions"]) : sessions.value} label="Sessions" empty="No session is open. One opens when code names it." action={sessionActions}
      columns={o ? undefined : ["name", "session", "state", "is_busy", "execution_count", "waiting", "created_at", "last_activity", "expires_in_seconds"]} /></Card>
    {o?.["runs"] !== undefined && <Card title="Runs"><Rows rows={listOf(o["runs"])} label="Runs" empty="Nothing runs now." action={runActions} /></Card>}
    <div class="two">
      {o?.["denials"] !== undefined && <Card title="Denied"><Rows rows={listOf(o["denials"])} label="Denials" empty="Nothing was denied." /></Card>}
      {o?.["network"] !== undefined && <Card title="Network, by host"><Rows rows={network} label="Connections by host" empty="No code has connected to a host." /></Card>}
      <Card title="Environments"><Rows rows={environments.value} label="Environments" empty="There is only the base environment." columns={["name", "python", "packages", "bytes", "state", "last_used"]} /></Card>
      {o?.["installs"] !== undefined && <Card title="Installs"><Rows rows={listOf(o["installs"])} label="Installs" empty="No packages were installed since the start." /></Card>}
      {o?.["keys"] !== undefined && <Card title="Keys"><Rows rows={listOf(o["keys"])} label="Keys" empty="The server has no keys." /></Card>}
      <Card title="Artifacts"><Rows rows={artifacts.value} label="Artifacts" empty="No run has written a file." columns={["path", "size", "mime_type", "session", "expires_at"]} /></Card>
    </div>
    <Isolation />
  </div>;
}

