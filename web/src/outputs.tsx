// SPDX-License-Identifier: Apache-2.0
// outputs: what runs show. All of it is hostile: text goes in as text, pictures as <img>, HTML and figures into a frame
// with an origin of its own (frame/frame.ts), markdown and tables as our own elements.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Token, Tokens } from "marked";
import type { Bundle, Output, RunError } from "./notebook";
import { tableOf, visible, visibleText, type Table } from "./safe_text";
import { LINE_SHOWN_MAX, type TextLog } from "./text_log";
import { isDark } from "./theme";

const meta = (name: string): string => document.querySelector<HTMLMetaElement>(`meta[name=${name}]`)?.content ?? "";

// ---- text: only the lines in sight are in the document ---------------------------------------------------------

const ROW = 20, WHOLE_MAX = 60, SPARE = 10;

const clip = (line: string): string => {
  const text = line.replace(/\r$/, "");
  return text.length > LINE_SHOWN_MAX ? `${text.slice(0, LINE_SHOWN_MAX)}… (${text.length - LINE_SHOWN_MAX} more characters)` : text;
};

export function TextOutput({ log, name }: { log: TextLog; name: string }): VNode {
  void log.changed.value;
  const box = useRef<HTMLDivElement>(null), follows = useRef(true);
  const [top, setTop] = useState(0);
  const count = log.count;
  const long = count > WHOLE_MAX;
  useLayoutEffect(() => {
    if (long && follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [count, long]);
  const onScroll = (): void => {
    const e = box.current!;
    follows.current = e.scrollHeight - e.scrollTop - e.clientHeight < 2 * ROW;
    setTop(e.scrollTop);
  };
  const label = { stdout: "Output", stderr: "Error output", result: "Result" }[name] ?? "Output";
  if (!long)
    return <pre class={`text ${name}`} role="group" tabIndex={0} aria-label={label}>{log.lines.slice(0, Math.max(1, count)).map(clip).join("\n")}</pre>;
  const from = Math.max(0, Math.floor(top / ROW) - SPARE), to = Math.min(count, from + 2 * SPARE + 24);
  return (
    <div class={`text virtual ${name}`} ref={box} onScroll={onScroll} tabIndex={0} role="group"
      aria-label={`${label}, ${count.toLocaleString("en")} lines`}>
      {log.dropped > 0 && <p class="dropped">The first {log.dropped.toLocaleString("en")} lines are not kept on this page.</p>}
      <Spacer height={from * ROW} />
      <pre>{log.lines.slice(from, to).map(clip).join("\n")}</pre>
      <Spacer height={(count - to) * ROW} />
    </div>
  );
}

// Heights go in by the object model: the policy of the page forbids style attributes.
function Spacer({ height }: { height: number }): VNode {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => void (element.current!.style.height = `${height}px`), [height]);
  return <div ref={element} />;
}

// ---- tables ----------------------------------------------------------------------------------------------------

const PAGE = 100;
const isNumber = (cell: string): boolean => /^(?:[-+]?[\d.,]+(e[-+]?\d+)?%?|NaN)$/i.test(cell);

function compare(a: string, b: string): number {
  const x = parseFloat(a.replace(/,/g, "")), y = parseFloat(b.replace(/,/g, ""));
  if (!Number.isNaN(x) && !Number.isNaN(y) && /^[-+\d.]/.test(a) && /^[-+\d.]/.test(b) && !/^\d+-\d/.test(a)) return x - y;
  return a.localeCompare(b, "en", { numeric: true });
}

export function TableView({ table, label }: { table: Table; label: string }): VNode {
  const [sort, setSort] = useState<{ column: number; down: boolean } | null>(null);
  const [page, setPage] = useState(0);
  const rows = useMemo(() => sort ? [...table.rows].sort((a, b) =>
    (sort.down ? -1 : 1) * compare(a[sort.column] ?? "", b[sort.column] ?? "")) : table.rows, [table, sort]);
  const numbers = table.head.map((_, i) => rows.length > 0 && rows.slice(0, 20).every((row) => isNumber(row[i] ?? "")));
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const shown = rows.slice(page * PAGE, (page + 1) * PAGE);
  return (
    <div class="table-view">
      <div class="table-scroll" tabIndex={0} role="group" aria-label={`${label}, ${rows.length} rows`}>
        <table>
          <thead><tr>{table.head.map((name, i) =>
            <th scope="col" class={numbers[i] ? "number" : ""} aria-sort={sort?.column === i ? sort.down ? "descending" : "ascending" : "none"}>
              <button type="button" onClick={() => setSort({ column: i, down: sort?.column === i && !sort.down })}>
                <bdi>{visible(name) || "#"}</bdi><span aria-hidden="true">{sort?.column === i ? sort.down ? " ↓" : " ↑" : ""}</span>
              </button>
            </th>)}</tr></thead>
          <tbody>{shown.map((row) => <tr>{row.map((cell, i) => <td class={numbers[i] ? "number" : ""}>
            <bdi>{visible(cell.length > 300 ? `${cell.slice(0, 300)}…` : cell)}</bdi></td>)}</tr>)}</tbody>
        </table>
      </div>
      <div class="table-foot">
        <span>{table.note || `${rows.length.toLocaleString("en")} rows`}</span>
        {pages > 1 && <span class="pager">
          <button type="button" class="quiet" disabled={page === 0} onClick={() => setPage(page - 1)} aria-label="Previous rows">‹</button>
          {page + 1} of {pages}
          <button type="button" class="quiet" disabled={page + 1 >= pages} onClick={() => setPage(page + 1)} aria-label="Next rows">›</button>
        </span>}
      </div>
    </div>
  );
}

// ---- the frame -------------------------------------------------------------------------------------------------

const FRAME_MIN = 24, FRAME_MAX = 900;

// Once for all figures; the browser keeps the file.
let plotly: Promise<string> | null = null;
const loadPlotly = (): Promise<string> => plotly ??= fetch(meta("plotly")).then((answer) => answer.text());

export function Frame({ html, figure, label }: { html?: string; figure?: unknown; label: string }): VNode {
  const element = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    const frame = element.current!;
    frame.style.height = figure ? "420px" : "48px";
    const onMessage = (event: MessageEvent<{ ready?: boolean; height?: unknown }>): void => {
      // SECURITY: the frame may say anything; only its height is read, within bounds.
      if (event.source !== frame.contentWindow || typeof event.data !== "object" || !event.data) return;
      if (event.data.ready === true)
        void (figure ? loadPlotly() : Promise.resolve("")).then((library) =>
          frame.contentWindow?.postMessage({ html, figure, dark: isDark.peek(), library }, "*"));
      else if (typeof event.data.height === "number" && event.data.height > 0)
        frame.style.height = `${Math.min(FRAME_MAX, Math.max(FRAME_MIN, event.data.height))}px`;
    };
    addEventListener("message", onMessage);
    frame.src = "/frame.html";
    return () => removeEventListener("message", onMessage);
  }, [html, figure]);
  return <iframe ref={element} sandbox="allow-scripts" title={label} class="frame" />;
}

// ---- mathematics -----------------------------------------------------------------------------------------------

const MATH_MAX = 20_000;
let katex: Promise<typeof import("katex")> | null = null;

function loadKatex(): Promise<typeof import("katex")> {
  if (!katex) {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = meta("katex-style");
    document.head.append(link);
    katex = import("katex");
  }
  return katex;
}

export function Latex({ text, inline }: { text: string; inline?: boolean }): VNode {
  const element = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const span = element.current!;
    const plain = text.trim().replace(/^\$\$?([\s\S]*?)\$\$?$/, "$1").replace(/^\\\[([\s\S]*)\\\]$/, "$1");
    span.textContent = text;
    if (plain.length > MATH_MAX) return;
    loadKatex().then((module) => {
      try {
        module.default.render(plain, span, { displayMode: !inline, throwOnError: true, trust: false, maxSize: 30,
          maxExpand: 300, strict: "ignore", output: "html" });
      } catch {
        span.textContent = text; // wrong, too deep or too long to draw: the text stays
      }
    }, () => undefined);
  }, [text, inline]);
  return <span ref={element} class={inline ? "math" : "math block"} role="img" aria-label={text.slice(0, 500)} />;
}

// ---- markdown: marked reads it, and we make the elements; HTML in it stays text -------------------------------------

const safeLink = (href: string): string | undefined => /^(?:https?:|mailto:)/i.test(href.trim()) ? href : undefined;
const plainText = (text: string): string => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) =>
  ({ amp: "&", lt: "<", gt: ">", quot: "\"", "#39": "'" })[name] ?? "");

// $...$ and $$...$$ in a text.
function withMath(text: string): ComponentChildren {
  const parts = text.split(/(\$\$[^$]+\$\$|\$[^$\s](?:[^$\n]*[^$\s])?\$)/);
  return parts.length < 2 ? text : parts.map((part, i) => i % 2 ? <Latex text={part} inline={!part.startsWith("$$")} /> : part);
}

function elementsOf(tokens: Token[] | undefined, depth = 0): ComponentChildren {
  return depth > 30 ? null : (tokens ?? []).map((token) => elementOf(token, depth + 1));
}

function elementOf(token: Token, depth: number): ComponentChildren {
  const inner = (): ComponentChildren => elementsOf((token as { tokens?: Token[] }).tokens, depth);
  switch (token.type) {
    case "heading": {
      const level = Math.min(6, (token as Tokens.Heading).depth + 2);
      return level === 3 ? <h3>{inner()}</h3> : level === 4 ? <h4>{inner()}</h4> : <h5>{inner()}</h5>;
    }
    case "paragraph": return <p>{inner()}</p>;
    case "strong": return <strong>{inner()}</strong>;
    case "em": return <em>{inner()}</em>;
    case "del": return <del>{inner()}</del>;
    case "codespan": return <code>{plainText((token as Tokens.Codespan).text)}</code>;
    case "code": return <pre class="text" tabIndex={0}>{(token as Tokens.Code).text}</pre>;
    case "blockquote": return <blockquote>{inner()}</blockquote>;
    case "br": return <br />;
    case "hr": return <hr />;
    case "list": {
      const list = token as Tokens.List;
      const items = list.items.map((item) => <li>{item.task ? item.checked ? "☑ " : "☐ " : ""}{elementsOf(item.tokens, depth)}</li>);
      return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "link": {
      const href = safeLink((token as Tokens.Link).href);
      return href ? <a href={href} target="_blank" rel="noopener noreferrer">{inner()}</a> : <span>{inner()}</span>;
    }
    case "image": {
      const image = token as Tokens.Image;
      return /^data:image\/(?:png|jpeg|gif|webp|svg\+xml)[;,]/.test(image.href) ? <img src={image.href} alt={image.text} /> :
        <span>[picture: {image.text || image.href}]</span>;
    }
    case "table": {
      const table = token as Tokens.Table;
      return <div class="table-scroll" tabIndex={0} role="group" aria-label="Table"><table>
        <thead><tr>{table.header.map((cell) => <th scope="col">{elementsOf(cell.tokens, depth)}</th>)}</tr></thead>
        <tbody>{table.rows.map((row) => <tr>{row.map((cell) => <td>{elementsOf(cell.tokens, depth)}</td>)}</tr>)}</tbody>
      </table></div>;
    }
    case "space": return null;
    case "text": {
      const text = token as Tokens.Text;
      return text.tokens ? elementsOf(text.tokens, depth) : withMath(plainText(text.text));
    }
    default: return (token as { raw?: string }).raw ?? "";
  }
}

const MARKDOWN_MAX = 500_000;

export function Markdown({ text }: { text: string }): VNode {
  const tokens = useSignal<Token[] | null>(null);
  useEffect(() => {
    let current = true;
    if (text.length <= MARKDOWN_MAX)
      void import("marked").then(({ lexer }) => {
        try {
          if (current) tokens.value = lexer(text);
        } catch {
          tokens.value = null; // nested too deeply: it stays text
        }
      });
    return () => void (current = false);
  }, [text]);
  return <div class="markdown">{tokens.value ? elementsOf(tokens.value) : <p class="plain">{text}</p>}</div>;
}

// ---- pictures --------------------------------------------------------------------------------------------------

function base64(text: string): string {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

function Picture({ type, data, alt }: { type: string; data: string; alt: string }): VNode {
  const [large, setLarge] = useState(false);
  const src = `data:${type};base64,${data}`;
  return <button type="button" class={large ? "picture large" : "picture"} onClick={() => setLarge(!large)}
    aria-label={`${alt}, ${large ? "show smaller" : "show in full size"}`}><img src={src} alt={alt} decoding="async" loading="lazy" /></button>;
}

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

function Json({ value }: { value: unknown }): VNode {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return <pre class="text" tabIndex={0} role="group" aria-label="JSON">{text.slice(0, 200_000)}</pre>;
}

interface Chart { type?: string; title?: string; summary?: string; axes?: { series?: { label?: string; x?: unknown[]; y?: unknown[] }[] }[] }

// The numbers behind a figure.
function ChartData({ value }: { value: unknown }): VNode | null {
  let chart: Chart;
  try {
    chart = (typeof value === "string" ? JSON.parse(value) : value) as Chart;
  } catch {
    return null;
  }
  const [open, setOpen] = useState(false);
  if (!chart || typeof chart !== "object" || !Array.isArray(chart.axes)) return null;
  const rows = chart.axes.flatMap((axes) => (Array.isArray(axes?.series) ? axes.series : []).flatMap((series) =>
    (Array.isArray(series?.y) ? series.y : []).map((y, i) => [String(series.label ?? ""),
      String(Array.isArray(series.x) ? series.x[i] ?? "" : ""), String(y ?? "")])));
  return <details class="chart-data" onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
    <summary>Data of the figure</summary>
    {open && <>
      <pre class="text" tabIndex={0} role="group" aria-label="The figure in words">{String(chart.summary ?? "").slice(0, 5000)}</pre>
      {rows.length > 0 && <TableView table={{ head: ["series", "x", "y"], rows, note: "" }} label="Data of the figure" />}
    </>}
  </details>;
}

function parsed(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return null;
  }
}

export function DisplayOutput({ bundle }: { bundle: Bundle }): VNode {
  const text = (type: string): string | null => typeof bundle[type] === "string" ? bundle[type] as string : null;
  const alt = (text("text/plain") ?? "Picture that the code has shown").slice(0, 200);
  const figure = useMemo(() => parsed(bundle["application/vnd.plotly.v1+json"]), [bundle]);
  const chart = bundle["application/vnd.constrictor.chart+json"] ?? bundle["chart"];
  const table = useMemo(() => text("text/html") === null ? null : tableOf(text("text/html")!), [bundle]);
  const picture = PICTURES.find((type) => text(type) !== null);
  let main: VNode;
  if (figure && typeof figure === "object") main = <Frame figure={figure} label={`Figure: ${alt}`} />;
  else if (table) main = <TableView table={table} label="Table" />;
  else if (picture) main = <Picture type={picture} data={text(picture)!.replace(/\s/g, "")} alt={alt} />;
  else if (text("image/svg+xml") !== null) {
    const svg = text("image/svg+xml")!;
    main = <Picture type="image/svg+xml" alt={alt} data={svg.trimStart().startsWith("<") ? base64(svg) : svg.replace(/\s/g, "")} />;
  } else if (text("text/html") !== null) main = <Frame html={text("text/html")!} label="HTML output" />;
  else if (text("text/markdown") !== null) main = <Markdown text={text("text/markdown")!} />;
  else if (text("text/latex") !== null) main = <Latex text={text("text/latex")!} />;
  else if (bundle["application/json"] !== undefined) main = <Json value={bundle["application/json"]} />;
  else main = <pre class="text" tabIndex={0} role="group" aria-label="Result">{(text("text/plain") ?? Object.keys(bundle).join(", ")).slice(0, 200_000)}</pre>;
  return <div class="display">{main}{chart !== undefined && <ChartData value={chart} />}</div>;
}

// ---- errors ----------------------------------------------------------------------------------------------------

export function ErrorOutput({ error, onLine }: { error: RunError; onLine: (line: number) => void }): VNode {
  const { line } = error;
  return (
    <div class="error" role="group" aria-label="Error">
      <p class="error-text"><strong>{visibleText(error.text.slice(0, 4000))}</strong>
        {line !== null && <button type="button" class="quiet" onClick={() => onLine(line)}>line {line}</button>}</p>
      {error.hint && <p class="hint">{error.hint}</p>}
      {error.traceback.length > 0 && <details><summary>Traceback</summary>
        <pre class="text" tabIndex={0} role="group" aria-label="Traceback">{error.traceback.join("\n").slice(0, 200_000)}</pre></details>}
    </div>
  );
}

// ---- all outputs of a cell -------------------------------------------------------------------------------------

const MANY = 40;

export function Outputs({ outputs, onLine }: { outputs: Output[]; onLine: (line: number) => void }): VNode {
  const [limit, setLimit] = useState(MANY);
  const shown = outputs.length > limit ? outputs.slice(0, limit) : outputs;
  return <>
    {shown.map((output) =>
      output.kind === "text" ? <TextOutput log={output.log} name={output.stream} /> :
      output.kind === "display" ? <DisplayOutput bundle={output.bundle} /> :
      output.kind === "error" ? <ErrorOutput error={output.error} onLine={onLine} /> :
      <p class="hint">{output.text}</p>)}
    {outputs.length > limit && <button type="button" class="quiet" onClick={() => setLimit(limit + 4 * MANY)}>
      Show more: {outputs.length - limit} outputs are not shown</button>}
  </>;
}
