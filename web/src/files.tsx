// SPDX-License-Identifier: Apache-2.0
// files: what is in the session's folder: drop, look, download, remove.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, ask, at, describe, get, keyHeaders, problemOf } from "./api";
import { ask as confirmDialog } from "./dialog";
import { Icon } from "./icons";
import { ensureSession, notice, runs, session, sessionName } from "./notebook";
import { saveAs } from "./notebook_file";
import { Markdown, TableView } from "./outputs";
import { bytes, parseCsv, visible, type Table } from "./safe_text";

interface FileRow { path: string; size: number; mime_type: string; modified_at: string; url: string | null }
interface Upload { name: string; part: number; error: string }

const list = signal<FileRow[]>([]);
const uploads = signal<Upload[]>([]);
const shown = signal<{ path: string; table?: Table; text?: string; picture?: string; other?: string; markdown?: string } | null>(null);
const problem = signal("");

const fileUrl = (path: string): string => `/api/v1/sessions/${at(sessionName.value)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;

async function look(): Promise<void> {
  if (!session.peek()) {
    list.value = [];
    return;
  }
  try {
    list.value = (await get<{ files: FileRow[] }>(`sessions/${at(sessionName.peek())}/files`)).files;
    problem.value = "";
  } catch (error) {
    problem.value = error instanceof ApiError && error.problem.status === 404 ? "" : describe(error);
  }
}

// fetch() cannot tell how much of a body was sent, XMLHttpRequest can.
function send(file: File, upload: Upload): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", fileUrl(file.name));
    for (const [name, value] of Object.entries(keyHeaders())) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => {
      upload.part = event.total ? event.loaded / event.total : 0;
      uploads.value = [...uploads.value];
    });
    request.addEventListener("load", () => {
      if (request.status < 300) resolve();
      else void problemOf(new Response(request.responseText, { status: request.status })).then(reject);
    });
    request.addEventListener("error", () => reject(new Error("the connection broke; try again")));
    request.send(file);
  });
}

export async function upload(files: File[]): Promise<void> {
  for (const file of files) {
    const row: Upload = { name: file.name, part: 0, error: "" };
    uploads.value = [...uploads.value, row];
    try {
      await ensureSession();
      await send(file, row);
      uploads.value = uploads.value.filter((one) => one !== row);
      notice.value = `${visible(file.name)} is in the session's folder.`;
    } catch (error) {
      row.error = describe(error);
      uploads.value = [...uploads.value];
    }
  }
  await look();
}

const PREVIEW_MAX = 2_000_000;

async function preview(file: FileRow): Promise<void> {
  const range = { Range: `bytes=0-${PREVIEW_MAX - 1}`, ...keyHeaders() };
  try {
    const answer = await fetch(fileUrl(file.path), { headers: file.size > PREVIEW_MAX ? range : keyHeaders() });
    if (!answer.ok) throw await problemOf(answer);
    const blob = await answer.blob();
    if (/^image\/(png|jpeg|gif|webp|svg\+xml)/.test(file.mime_type)) {
      const picture = URL.createObjectURL(new Blob([blob], { type: file.mime_type }));
      shown.value = { path: file.path, picture };
      return;
    }
    const head = new Uint8Array(await blob.slice(0, 4096).arrayBuffer());
    if (head.includes(0) || file.mime_type === "application/pdf") {
      shown.value = { path: file.path, other: file.mime_type };
      return;
    }
    const text = await blob.text();
    shown.value = /csv|tab-separated/.test(file.mime_type) ? { path: file.path, table: parseCsv(text, 20_000) } :
      /\.md$/.test(file.path) ? { path: file.path, markdown: text } : { path: file.path, text: text.slice(0, 300_000) };
  } catch (error) {
    problem.value = describe(error);
  }
}

async function download(file: FileRow): Promise<void> {
  try {
    saveAs(await (await ask("GET", fileUrl(file.path))).blob(), file.path.split("/").pop() ?? "file", file.mime_type);
  } catch (error) {
    problem.value = describe(error);
  }
}

async function remove(file: FileRow): Promise<void> {
  if (!await confirmDialog("Delete this file?", visible(file.path), "Delete")) return;
  await ask("DELETE", fileUrl(file.path)).catch((error: unknown) => void (problem.value = describe(error)));
  await look();
}

function Preview(): VNode | null {
  const file = shown.value;
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (file) element.current?.showModal();
    return () => void (file?.picture && URL.revokeObjectURL(file.picture));
  }, [file]);
  if (!file) return null;
  const row = list.value.find((one) => one.path === file.path);
  return <dialog ref={element} class="dialog preview-dialog" aria-label={`Preview of ${visible(file.path)}`} onClose={() => void (shown.value = null)}>
    <h2><bdi>{visible(file.path)}</bdi></h2>
    {file.table ? <TableView table={file.table} label="Table" /> : file.picture ? <img src={file.picture} alt={visible(file.path)} /> :
      file.markdown !== undefined ? <Markdown text={file.markdown} /> :
      file.text !== undefined ? <pre class="text" tabIndex={0}>{file.text}</pre> :
      <p>{file.other === "application/pdf" && row?.url ? <a href={new URL(row.url).pathname} target="_blank" rel="noopener">Open the PDF in a new tab</a> :
        `There is no preview of ${file.other}; download it.`}</p>}
    <form method="dialog" class="dialog-row"><button type="submit">Close</button></form>
  </dialog>;
}

export function FilesPanel(): VNode {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => void look(), [runs.value, session.value?.session]);
  return <div>
    <button type="button" class="drop" onClick={() => input.current?.click()}><Icon name="upload" /> Drop files here, or choose some</button>
    <input type="file" multiple hidden ref={input} aria-label="Files to upload" onChange={(event) => {
      const files = [...event.currentTarget.files ?? []];
      event.currentTarget.value = "";
      void upload(files);
    }} />
    {problem.value && <p class="hint bad" role="alert">{problem.value}</p>}
    {uploads.value.map((one) => <div class="upload"><bdi>{visible(one.name)}</bdi>
      {one.error ? <span class="bad">{one.error} <button type="button" class="quiet" onClick={() => void (uploads.value = uploads.value.filter((row) => row !== one))}>Close</button></span> :
        <progress max={1} value={one.part} aria-label={`Upload of ${visible(one.name)}`} />}</div>)}
    {list.value.length ? <ul class="file-list">{list.value.slice(0, 1000).map((file) => <li>
      <button type="button" class="file-name" onClick={() => void preview(file)}><span class="hidden-label">Preview </span><bdi>{visible(file.path)}</bdi><small>{bytes(file.size)}</small></button>
      <button type="button" class="quiet" onClick={() => void download(file)} aria-label={`Download ${visible(file.path)}`} title="Download"><Icon name="down" /></button>
      <button type="button" class="quiet" onClick={() => void remove(file)} aria-label={`Delete ${visible(file.path)}`} title="Delete"><Icon name="bin" /></button>
    </li>)}</ul> : <div class="empty"><p>No files yet.</p><p>What you drop here, your code opens by its name: <code>open("data.csv")</code>. What your code writes comes back here.</p></div>}
    <Preview />
  </div>;
}
