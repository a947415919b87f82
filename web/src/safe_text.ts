// SPDX-License-Identifier: Apache-2.0
// safe_text: names that hostile code chose, as a person may see them; and HTML tables as plain cells.

// Characters that turn the direction of text, hide, or break lines are written out.
export function visible(name: string): string {
  return name.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// The same for text of several lines, and for text on one line.
export const visibleText = (text: string): string => text.split("\n").map((line) => visible(line.replace(/\t/g, "    "))).join("\n");
export const oneLine = (text: string): string => visible(text.replace(/\s+/g, " ").trim());

export const clock = (time: string): string => new Date(time).toLocaleTimeString("en-GB");

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: "\"", apos: "'", nbsp: "\u00a0" };

function decode(text: string): string {
  return text.replace(/<[^>]*>/g, "").replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w+));/gi, (all, hex, decimal, name) => {
    if (name) return ENTITIES[String(name).toLowerCase()] ?? all;
    const code = hex ? parseInt(hex, 16) : parseInt(decimal, 10);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
  }).trim();
}

export interface Table { head: string[]; rows: string[][]; note: string }

const CELLS_MAX = 2_000_000;

// The table of a data frame as pandas and polars write it; null when the HTML is anything else.
export function tableOf(html: string): Table | null {
  if (!/<table[^>]*class="dataframe"/.test(html) || /<style[^>]*>\s*#T_/.test(html) || /<(?:script|img|svg|iframe)\b/i.test(html)) return null;
  const heads: string[][] = [], rows: string[][] = [];
  let count = 0;
  const body = html.slice(html.indexOf("<table"));
  for (const row of body.matchAll(/<tr[^>]*>([\s\S]*?)<\/tr>/g)) {
    const cells: string[] = [];
    let isHead = true;
    for (const cell of row[1]!.matchAll(/<(th|td)([^>]*)>([\s\S]*?)<\/\1>/g)) {
      if (/(?:colspan|rowspan)="(?!1")/.test(cell[2]!)) return null; // a table of several levels: as HTML
      if (cell[1] === "td") isHead = false;
      cells.push(decode(cell[3]!));
      if (++count > CELLS_MAX) return null;
    }
    (isHead ? heads : rows).push(cells);
  }
  const head = heads[0];
  if (!head || heads.length > 2) return null;
  return { head, rows, note: decode(/<p>(\d+ rows × \d+ columns)<\/p>/.exec(body)?.[1] ?? "") };
}

// Text with values between separators, with quotes as spreadsheets write them.
export function parseCsv(text: string, rowsMax: number): Table {
  const first = text.slice(0, text.indexOf("\n") + 1 || text.length);
  const separator = [",", ";", "\t"].reduce((a, b) => first.split(b).length > first.split(a).length ? b : a);
  const rows: string[][] = [];
  let row: string[] = [], cell = "", quoted = false;
  for (let i = 0; i < text.length && rows.length <= rowsMax; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c !== "\"") cell += c;
      else if (text[i + 1] === "\"") cell += text[++i];
      else quoted = false;
    } else if (c === "\"" && cell === "") quoted = true;
    else if (c === separator) {
      row.push(cell);
      cell = "";
    } else if (c === "\n") {
      row.push(cell.replace(/\r$/, ""));
      rows.push(row);
      row = [];
      cell = "";
    } else cell += c;
  }
  if (cell || row.length) rows.push([...row, cell]);
  return { head: rows.shift() ?? [], rows, note: "" };
}

export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let unit = -1;
  do {
    size /= 1000;
    unit++;
  } while (size >= 1000 && unit < units.length - 1);
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `${minutes} min ${Math.round(ms % 60_000 / 1000)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
