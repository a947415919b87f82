// SPDX-License-Identifier: Apache-2.0
// main: the frame of the page: where one is, the door, and what the server says at the bottom.

import { signal } from "@preact/signals";
import { render, type ComponentType, type VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, describe, get, hasKey, offline, signedOut, signIn, signOut } from "./api";
import { Console } from "./console";
import { facts, type Facts } from "./facts";
import { Icon } from "./icons";
import { look, notice, openNotebook, session, sessionName } from "./notebook";
import { saveAs } from "./notebook_file";
import { isDark, theme, type Theme } from "./theme";

// ---- the door --------------------------------------------------------------------------------------------------

function SignIn(): VNode {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (await signIn(key)) await look();
    else setProblem(offline.value ? "The server does not answer." : "The server does not know this key.");
  };
  return <main class="door"><form onSubmit={(event) => void enter(event)}>
    <Logo />
    <h1>Constrictor</h1>
    <p>This server wants a key. It stays in the memory of this tab: not in an address, not on the disk.</p>
    <label>Key<input type="password" value={key} autocomplete="off" onInput={(event) => setKey(event.currentTarget.value)} autofocus /></label>
    {problem && <p class="bad" role="alert">{problem}</p>}
    <button type="submit" disabled={!key}>Come in</button>
  </form></main>;
}

// ---- where one is ----------------------------------------------------------------------------------------------

interface Place { name: string; title: string; icon: string; load: () => Promise<ComponentType> }

const places: Place[] = [
  { name: "console", title: "Console", icon: "terminal", load: () => Promise.resolve(Console) },
  { name: "time", title: "Time travel", icon: "tree", load: async () => (await import("./time")).default },
  { name: "model", title: "Model's view", icon: "eye", load: async () => (await import("./model")).default },
  { name: "operations", title: "Operations", icon: "pulse", load: async () => (await import("./operations")).default },
];

const here = signal("console");

function readAddress(): void {
  const [place, name] = location.hash.replace(/^#\//, "").split("/");
  here.value = places.some((one) => one.name === place) ? place! : "console";
  if (place !== "console" || !name) return;
  let wanted = "";
  try {
    wanted = decodeURIComponent(name);
  } catch {
    return;
  }
  if (wanted && wanted !== sessionName.peek()) openNotebook(wanted);
}

// A link carries no key: then the description of the API comes as a file.
async function saveDocs(event: Event): Promise<void> {
  if (!hasKey.value) return;
  event.preventDefault();
  try {
    saveAs(await (await ask("GET", "/docs")).blob(), "constrictor-api.html", "text/html");
  } catch (error) {
    notice.value = describe(error);
  }
}

export function Logo(): VNode {
  return <svg class="logo" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><rect width="32" height="32" rx="8" />
    <path d="M22 10a7 7 0 1 0 0 12" /><circle cx="22" cy="10" r="2.4" /></svg>;
}

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

const COLOURS: Record<Theme, string> = { system: "System", light: "Light", dark: "Dark" };

function Page(): VNode {
  const [View, setView] = useState<ComponentType | null>(null);
  useEffect(() => {
    let current = true;
    setView(null);
    void places.find((one) => one.name === here.value)!.load().then((found) => current && setView(() => found));
    return () => void (current = false);
  }, [here.value]);
  if (signedOut.value) return <SignIn />;
  return <>
    <nav class="rail" aria-label="Pages">
      <span class="brand"><Logo /><span>Constrictor</span></span>
      {places.map((one) => <a href={`#/${one.name}${one.name === "console" ? `/${encodeURIComponent(sessionName.value)}` : ""}`}
        aria-label={one.title} aria-current={here.value === one.name ? "page" : undefined}><Icon name={one.icon} /><span>{one.title}</span></a>)}
      <span class="rail-end">
        <button type="button" class="rail-button" onClick={() => void (theme.value = NEXT[theme.value])} aria-label={`${COLOURS[theme.value]} colours`} title="Colours of the page">
          <Icon name={isDark.value ? "moon" : "sun"} /><span>{COLOURS[theme.value]}</span></button>
        {hasKey.value && <button type="button" class="rail-button" onClick={signOut} aria-label="Sign out"><Icon name="leave" /><span>Sign out</span></button>}
      </span>
    </nav>
    <main class="main" aria-label={places.find((one) => one.name === here.value)!.title}>
      <h1 class="hidden-label">Constrictor: {places.find((one) => one.name === here.value)!.title}</h1>
      {offline.value && <p class="banner" role="alert">The server does not answer. What you typed is safe here; this page asks again by itself.</p>}
      {View ? <View /> : <p class="boot">Loading…</p>}
    </main>
    <footer class="status" aria-label="Status">
      <span role="status" aria-live="polite">{notice.value || (session.value ? `Session ${session.value.name || session.value.session} is open.` : "The session opens at its first run.")}</span>
      {facts.value && <span class="wide">Python {facts.value.python} · Constrictor {facts.value.version} · <a href="/docs" onClick={(event) => void saveDocs(event)}>REST API</a></span>}
    </footer>
  </>;
}

async function begin(): Promise<void> {
  addEventListener("hashchange", readAddress);
  readAddress();
  if (!sessionName.peek()) openNotebook();
  render(<Page />, document.getElementById("app")!);
  document.documentElement.dataset["ready"] = "true";
  facts.value = await get<Facts>("/page.json").catch(() => null);
  addEventListener("focus", () => void look());
}

document.getElementById("app")!.replaceChildren();
void begin();
