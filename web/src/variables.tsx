// SPDX-License-Identifier: Apache-2.0
// variables: what the session knows now.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { at, describe, get, isMissing } from "./api";
import { cells, runs, session, sessionName } from "./notebook";
import { oneLine, visible } from "./safe_text";

interface Variable { name: string; type: string; shape?: unknown; size?: number | null; preview?: string }

const list = signal<Variable[]>([]);
const problem = signal("");
let canAsk = true;

// Where the server cannot list them: what the runs of this page have told.
function fromRuns(): Variable[] {
  const found = new Map<string, Variable>();
  for (const cell of cells.peek())
    for (const one of (cell.execution.peek()?.["variables"] ?? []) as Variable[]) found.set(one.name, one);
  return [...found.values()];
}

async function look(): Promise<void> {
  if (!session.peek()) {
    list.value = [];
    return;
  }
  try {
    list.value = canAsk ? (await get<{ variables: Variable[] }>(`sessions/${at(sessionName.peek())}/variables`)).variables : fromRuns();
    problem.value = "";
  } catch (error) {
    if (isMissing(error)) {
      canAsk = false;
      list.value = fromRuns();
    } else problem.value = describe(error);
  }
}

const shapeOf = (shape: unknown): string => Array.isArray(shape) ? shape.join(" × ") : shape === null || shape === undefined ? "" : String(shape);

export function VariablesPanel(): VNode {
  useEffect(() => void look(), [runs.value, session.value?.session]);
  if (problem.value) return <p class="hint">{problem.value}</p>;
  if (!list.value.length) return <div class="empty"><p>No variables yet.</p><p>Assign one, as <code>x = 42</code>, and it shows up here with its type and shape.</p></div>;
  return <table class="plain-table"><thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
    <tbody>{list.value.slice(0, 500).map((one) => <tr><td><code><bdi>{visible(one.name)}</bdi></code>
      <small class="type">{visible(one.type)}{one.shape ? ` ${shapeOf(one.shape)}` : null}</small></td>
      <td class="preview"><bdi>{oneLine((one.preview ?? "").slice(0, 200))}</bdi></td></tr>)}</tbody></table>;
}
