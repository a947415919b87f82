// SPDX-License-Identifier: Apache-2.0
// editor: CodeMirror for one cell. The session answers completion and hover; without one the editor is quiet.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, startCompletion, completionStatus,
  type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, StateEffect, StateField, type Extension } from "@codemirror/state";
import { Decoration, EditorView, hoverTooltip, keymap, lineNumbers, placeholder, type DecorationSet } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { at, isMissing, post } from "./api";
import { session, sessionName } from "./notebook";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))], color: "var(--code-function)" },
  { tag: [tags.className, tags.definition(tags.className)], color: "var(--code-class)" },
  { tag: [tags.meta, tags.self], color: "var(--code-meta)" },
]);

const look = EditorView.theme({
  "&": { fontSize: "var(--code-size)", backgroundColor: "transparent", color: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mono)", padding: "10px 0", caretColor: "var(--accent)", lineHeight: "1.55" },
  ".cm-line": { padding: "0 12px 0 4px" },
  ".cm-gutters": { backgroundColor: "var(--panel)", border: "none", color: "var(--faint)", fontFamily: "var(--mono)", minWidth: "38px" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 8px 0 10px" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  "& .cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-failing": { backgroundColor: "var(--bad-soft)", boxShadow: "inset 3px 0 var(--bad)" },
  "& .cm-matchingBracket": { backgroundColor: "transparent", outline: "none" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "8px",
    boxShadow: "var(--shadow)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxHeight: "16em" },
  ".cm-tooltip-autocomplete ul li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.75", fontStyle: "normal", marginLeft: "1em" },
});

// ---- the failing line ------------------------------------------------------------------------------------------

const setFailing = StateEffect.define<number | null>();
const failingLine = Decoration.line({ class: "cm-failing", attributes: { "aria-label": "this line failed" } });

const failing = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, change) {
    if (change.docChanged) marks = Decoration.none;
    for (const effect of change.effects)
      if (effect.is(setFailing))
        marks = effect.value && effect.value <= change.state.doc.lines ?
          Decoration.set([failingLine.range(change.state.doc.line(effect.value).from)]) : Decoration.none;
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

export function markLine(view: EditorView, line: number | null): void {
  view.dispatch({ effects: setFailing.of(line) });
}

// ---- what the session knows ------------------------------------------------------------------------------------

interface Completions { matches: { text: string; type: string }[]; cursor_start: number; cursor_end: number }
interface Inspection { found: boolean; name: string; signature: string | null; docstring: string | null; type: string | null }

let knowsCompletion = true, knowsInspection = true;
const KINDS: Record<string, string> = { module: "namespace", instance: "variable", statement: "variable", param: "variable",
  magic: "keyword", path: "text", method: "method", function: "function", class: "class", property: "property" };

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const before = context.matchBefore(/[\w.]+$/);
  if (!knowsCompletion || !session.peek() || !before && !context.explicit) return null;
  if (before && !context.explicit && /^\d/.test(before.text)) return null;
  try {
    const gone = new AbortController();
    context.addEventListener("abort", () => gone.abort());
    const answer = await post<Completions>(`sessions/${at(sessionName.peek())}/complete`,
      { code: context.state.doc.toString(), cursor: context.pos }, gone.signal);
    return answer.matches.length ? {
      from: Math.min(answer.cursor_start, context.pos), to: context.pos, validFor: /^\w*$/,
      options: answer.matches.slice(0, 500).map((match) => ({ label: match.text, type: KINDS[match.type] ?? match.type,
        detail: match.type })),
    } : null;
  } catch (error) {
    if (isMissing(error)) knowsCompletion = false;
    return null;
  }
}

const hover = hoverTooltip(async (view, position) => {
  const word = view.state.wordAt(position);
  if (!knowsInspection || !session.peek() || !word) return null;
  try {
    const found = await post<Inspection>(`sessions/${at(sessionName.peek())}/inspect`,
      { code: view.state.doc.toString(), cursor: word.to });
    if (!found.found) return null;
    return { pos: word.from, end: word.to, above: true, create: () => {
      const dom = document.createElement("div"), head = document.createElement("code"), text = document.createElement("pre");
      dom.className = "hover-card";
      head.textContent = found.signature ? `${found.signature.startsWith("(") ? found.name : ""}${found.signature}` :
        `${found.name}: ${found.type ?? ""}`;
      text.textContent = (found.docstring ?? "").slice(0, 4000);
      text.tabIndex = 0;
      dom.append(head, ...(found.docstring ? [text] : []));
      return { dom };
    } };
  } catch (error) {
    if (isMissing(error)) knowsInspection = false;
    return null;
  }
}, { hoverTime: 450 });

// ---- one editor ------------------------------------------------------------------------------------------------

export interface EditorEvents {
  onChange(text: string): void;
  onRun(then: "next" | "stay" | "insert"): void;
  onLeave(): void;
  onEdge(direction: -1 | 1): boolean;
}

const nonce = document.querySelector<HTMLMetaElement>("meta[name=style-nonce]")?.content ?? "";

function keys(events: EditorEvents): Extension {
  const run = (then: "next" | "stay" | "insert") => () => {
    events.onRun(then);
    return true;
  };
  const edge = (direction: -1 | 1) => (view: EditorView) => {
    const { head, empty } = view.state.selection.main, line = view.state.doc.lineAt(head);
    return empty && line.number === (direction < 0 ? 1 : view.state.doc.lines) && completionStatus(view.state) === null &&
      events.onEdge(direction);
  };
  return Prec.high(keymap.of([
    { key: "Shift-Enter", run: run("next") }, { key: "Mod-Enter", run: run("stay") }, { key: "Alt-Enter", run: run("insert") },
    { key: "Escape", run: (view) => completionStatus(view.state) !== "active" && (events.onLeave(), true) },
    { key: "ArrowUp", run: edge(-1) }, { key: "ArrowDown", run: edge(1) },
    // Completes after a letter, indents elsewhere. Escape first, and Tab goes to the next control.
    { key: "Tab", shift: indentLess, run: (view) => {
      const { head, empty } = view.state.selection.main;
      const before = view.state.doc.lineAt(head).text.slice(0, head - view.state.doc.lineAt(head).from);
      return empty && /[\w.]$/.test(before) ? startCompletion(view) : indentMore(view);
    } },
  ]));
}

function extensions(events: EditorEvents, isCode: boolean): Extension[] {
  return [
    EditorView.cspNonce.of(nonce), keys(events), history(), closeBrackets(), bracketMatching(), indentOnInput(),
    indentUnit.of("    "), EditorState.tabSize.of(4), look, failing, syntaxHighlighting(colours),
    isCode ? [python(), lineNumbers(), autocompletion({ override: [complete], icons: false, defaultKeymap: false }), hover,
      placeholder("Python: Shift+Enter runs it")] : [EditorView.lineWrapping, placeholder("Markdown: Shift+Enter shows it")],
    keymap.of([...completionKeymap, ...closeBracketsKeymap, ...historyKeymap, ...defaultKeymap]),
    EditorView.contentAttributes.of({ "aria-label": isCode ? "Python code" : "Markdown text", tabindex: "0", spellcheck: "false",
      autocapitalize: "off", autocorrect: "off" }),
    EditorView.updateListener.of((update) => update.docChanged && events.onChange(update.state.doc.toString())),
  ];
}

export function openEditor(parent: HTMLElement, source: string, isCode: boolean, events: EditorEvents): EditorView {
  return new EditorView({ parent, state: EditorState.create({ doc: source, extensions: extensions(events, isCode) }) });
}
