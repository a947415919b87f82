// SPDX-License-Identifier: Apache-2.0
// notebook_file: cells from and into .ipynb and .py files.

import { newCell, type Cell, type Output } from "./notebook";

const FILE_MAX = 50_000_000, CELLS_MAX = 10_000;

function joined(source: unknown): string {
  return Array.isArray(source) ? source.map(String).join("") : typeof source === "string" ? source : "";
}

function fromIpynb(text: string): Cell[] {
  const book = JSON.parse(text) as { cells?: unknown };
  if (!book || !Array.isArray(book.cells)) throw new Error("this is not a notebook: it has no cells");
  if (book.cells.length > CELLS_MAX) throw new Error(`a notebook may have ${CELLS_MAX} cells here`);
  return book.cells.map((cell: { cell_type?: unknown; source?: unknown }) =>
    newCell(cell?.cell_type === "code" ? "code" : "markdown", joined(cell?.source)));
}

// "# %%" begins a cell, "# %% [markdown]" one of text, as editors have it.
function fromPy(text: string): Cell[] {
  const found: Cell[] = [];
  for (const part of text.replace(/\r\n/g, "\n").split(/^(?=# ?%%)/m)) {
    const mark = /^# ?%%(.*)\n?/.exec(part);
    const body = (mark ? part.slice(mark[0].length) : part).replace(/^\n+|\s+$/g, "");
    if (!body) continue;
    const isText = mark !== null && mark[1]!.includes("[markdown]");
    found.push(newCell(isText ? "markdown" : "code", isText ? body.replace(/^# ?/gm, "") : body));
  }
  return found.length ? found.slice(0, CELLS_MAX) : [newCell()];
}

export async function readNotebook(file: File): Promise<Cell[]> {
  if (file.size > FILE_MAX) throw new Error(`the file has more than ${FILE_MAX} bytes`);
  const text = await file.text();
  return file.name.endsWith(".py") ? fromPy(text) : fromIpynb(text);
}

const lines = (text: string): string[] => text.split(/(?<=\n)/);

function outputJson(output: Output, count: number | null): object | null {
  switch (output.kind) {
    case "text": return output.stream === "result" ?
      { output_type: "execute_result", execution_count: count, metadata: {}, data: { "text/plain": lines(output.log.text()) } } :
      { output_type: "stream", name: output.stream, text: lines(output.log.text()) };
    case "display": return { output_type: "display_data", metadata: {},
      data: Object.fromEntries(Object.entries(output.bundle).filter(([type]) => type.includes("/"))) };
    case "error": return { output_type: "error", ename: output.error.text.split(":")[0], evalue: output.error.text,
      traceback: output.error.traceback };
    case "note": return null;
  }
}

export function exportIpynb(cells: Cell[]): string {
  return JSON.stringify({
    nbformat: 4, nbformat_minor: 5,
    metadata: { kernelspec: { name: "python3", display_name: "Python 3", language: "python" }, language_info: { name: "python" } },
    cells: cells.map((cell) => cell.kind.value === "markdown" ?
      { id: cell.id, cell_type: "markdown", metadata: {}, source: lines(cell.source.value) } :
      { id: cell.id, cell_type: "code", metadata: {}, source: lines(cell.source.value), execution_count: cell.count.value,
        outputs: cell.outputs.value.map((output) => outputJson(output, cell.count.value)).filter(Boolean) }),
  }, null, 1);
}

export function exportPy(cells: Cell[]): string {
  return cells.map((cell) => cell.kind.value === "markdown" ?
    `# %% [markdown]\n${cell.source.value.replace(/^/gm, "# ").replace(/ $/gm, "")}\n` : `# %%\n${cell.source.value}\n`).join("\n");
}

export function saveAs(content: string | Blob, name: string, type: string): void {
  const link = document.createElement("a");
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
