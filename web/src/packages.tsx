// SPDX-License-Identifier: Apache-2.0
// packages: what code can import, and installs with their log.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { at, describe, get, stream } from "./api";
import { environment, notice } from "./notebook";
import { TextOutput } from "./outputs";
import { TextLog } from "./text_log";
import { visible } from "./safe_text";

interface Package { name: string; version: string; base?: boolean }

const list = signal<Package[]>([]);
const log = signal<TextLog | null>(null);
const busy = signal(false);
const problem = signal("");

async function look(): Promise<void> {
  try {
    list.value = (await get<{ packages: Package[] }>(`environments/${at(environment.value)}/packages`)).packages;
  } catch (error) {
    problem.value = describe(error);
  }
}

async function install(packages: string): Promise<void> {
  const lines = new TextLog();
  let failure = "";
  busy.value = true;
  problem.value = "";
  log.value = lines;
  try {
    await stream(`environments/${at(environment.value)}/packages`, { packages, stream: true, wait: 600 }, (messages) => {
      for (const message of messages) {
        const text = message["log"] ?? message["text"] ?? message["progress"];
        const error = message["error"] as { message?: string; hint?: string } | null | undefined;
        if (typeof text === "string") lines.append(`${text}\n`);
        if (error?.message) failure = error.hint ? `${error.message}: ${error.hint}` : error.message;
        if (Array.isArray(message["added"]) && message["added"].length)
          lines.append(`added: ${(message["added"] as unknown[]).map((one) => typeof one === "string" ? one :
            `${String((one as Package).name)} ${String((one as Package).version)}`).join(", ")}\n`);
      }
    });
    notice.value = failure || `${visible(packages)} is installed; code that runs from now on can import it.`;
    problem.value = failure;
  } catch (error) {
    problem.value = describe(error);
  }
  busy.value = false;
  await look();
}

export function PackagesPanel(): VNode {
  const [text, setText] = useState("");
  const [filter, setFilter] = useState("");
  useEffect(() => void look(), []);
  const found = list.value.filter((one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  return <div>
    <form class="row" onSubmit={(event) => { event.preventDefault(); if (text.trim()) void install(text.trim()); }}>
      <label class="grow"><span class="hidden-label">Packages to install</span>
        <input value={text} placeholder="pandas matplotlib>=3" onInput={(event) => setText(event.currentTarget.value)} /></label>
      <button type="submit" disabled={busy.value || !text.trim()}>{busy.value ? "Installing…" : "Install"}</button>
    </form>
    {problem.value && <p class="hint bad" role="alert">{problem.value}</p>}
    {log.value && <TextOutput log={log.value} name="stdout" />}
    {list.value.length > 0 ? <>
      {list.value.length > 12 && <label class="row"><span class="hidden-label">Find a package</span>
        <input value={filter} placeholder="find" onInput={(event) => setFilter(event.currentTarget.value)} /></label>}
      <ul class="package-list">{found.slice(0, 400).map((one) => <li><span>{visible(one.name)}</span><small>{visible(one.version)}</small></li>)}</ul>
    </> : <div class="empty"><p>Only the standard library is here.</p><p>Install <code>pandas matplotlib openpyxl</code> to look at tables, draw and write Excel files.</p></div>}
  </div>;
}
