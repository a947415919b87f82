// SPDX-License-Identifier: Apache-2.0
// report: the notebook as one HTML file without any script, for people who have no server.

import { cells, sessionName, type Output } from "./notebook";
import { saveAs } from "./notebook_file";
import { tableOf, visible } from "./safe_text";

const STYLE = "body{font:16px/1.6 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1d2320;background:#fff}" +
  "pre{font:13px/1.5 ui-monospace,monospace;background:#f4f6f4;border-radius:6px;padding:.7rem;overflow:auto;white-space:pre-wrap}" +
  ".code{border-left:3px solid #1c6b48}.error{background:#fdf0ee}img{max-width:100%}table{border-collapse:collapse;font-size:14px}" +
  "td,th{border:1px solid #d8ddd9;padding:.2rem .6rem;text-align:right}";
const LINES_MAX = 5000, ROWS_MAX = 2000;

const escape = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

function picture(type: string, data: string): string {
  return /^[A-Za-z0-9+/=\s]*$/.test(data) ? `<img alt="Output" src="data:${type};base64,${data.replace(/\s/g, "")}">` : "";
}

function outputHtml(output: Output): string {
  if (output.kind === "note") return `<p>${escape(output.text)}</p>`;
  if (output.kind === "error") return `<pre class="error">${escape(output.error.traceback.join("\n") || output.error.text)}</pre>`;
  if (output.kind === "text") {
    const lines = output.log.lines;
    return `<pre>${escape(lines.slice(0, LINES_MAX).join("\n"))}${lines.length > LINES_MAX ? "\n…" : ""}</pre>`;
  }
  const text = (type: string): string | null => typeof output.bundle[type] === "string" ? output.bundle[type] as string : null;
  for (const type of ["image/png", "image/jpeg"]) if (text(type)) return picture(type, text(type)!);
  if (text("image/svg+xml")?.trimStart().startsWith("<"))
    return `<img alt="Output" src="data:image/svg+xml;charset=utf-8,${encodeURIComponent(text("image/svg+xml")!)}">`;
  const table = text("text/html") ? tableOf(text("text/html")!) : null;
  if (table)
    return `<table><tr>${table.head.map((name) => `<th>${escape(visible(name))}</th>`).join("")}</tr>${table.rows.slice(0, ROWS_MAX).map((row) =>
      `<tr>${row.map((cell) => `<td>${escape(visible(cell))}</td>`).join("")}</tr>`).join("")}</table>`;
  return `<pre>${escape(text("text/markdown") ?? text("text/latex") ?? text("text/plain") ?? "")}</pre>`;
}

// SECURITY: the file is opened from a disk, where it has more rights than a page: no script, and nothing from the network.
export function reportHtml(): string {
  const title = escape(visible(sessionName.value));
  const parts = cells.value.map((cell) => cell.kind.value === "markdown" ? `<pre>${escape(cell.source.value)}</pre>` :
    `<pre class="code">${escape(cell.source.value)}</pre>${cell.outputs.value.map(outputHtml).join("\n")}`);
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">` +
    `<title>${title}</title><style>${STYLE}</style><h1>${title}</h1><p>Saved ${escape(new Date().toLocaleString("en"))} by Constrictor.</p>\n${parts.join("\n")}</html>\n`;
}

export function saveReport(): void {
  saveAs(reportHtml(), `${sessionName.value}.html`, "text/html");
}
