// SPDX-License-Identifier: Apache-2.0
// share: a link for people who may only read.

import type { VNode } from "preact";
import { at, describe, isMissing, post } from "./api";
import { notice, session, sessionName } from "./notebook";

async function share(): Promise<void> {
  try {
    const made = await post<{ url: string; expires_at: string }>(`sessions/${at(sessionName.value)}/share`);
    const url = new URL(made.url, location.href).href;
    await navigator.clipboard.writeText(url).catch(() => undefined);
    notice.value = `The link is copied, and works until ${new Date(made.expires_at).toLocaleString("en")}: ${url}`;
  } catch (error) {
    notice.value = isMissing(error) ? "This server makes no links to share; save an HTML report instead." : describe(error);
  }
}

export function ShareButton({ close }: { close: () => void }): VNode {
  return <button type="button" disabled={!session.value} onClick={() => { close(); void share(); }}>Copy a link to share</button>;
}
