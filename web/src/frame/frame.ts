// SPDX-License-Identifier: Apache-2.0
// frame: runs in /frame.html, a document with an origin of its own and no network. It shows one output of code: the page
// sends it, and learns nothing back but the height. Whatever the output does, it does here.

interface Show {
  html?: string;
  figure?: { data?: unknown; layout?: Record<string, unknown>; frames?: unknown };
  library?: string; // the source of plotly: the policy of this document lets it load nothing
  dark: boolean;
}

declare const Plotly: { newPlot(element: HTMLElement, figure: object): Promise<unknown> };

function tellHeight(): void {
  parent.postMessage({ height: Math.ceil(document.documentElement.getBoundingClientRect().height) }, "*");
}

function showFigure(show: Show): void {
  const script = document.createElement("script");
  const element = document.createElement("div");
  const figure = show.figure ?? {};
  document.body.style.margin = "0";
  document.body.append(element);
  script.textContent = show.library ?? "";
  document.head.append(script);
  const layout = { ...figure.layout, autosize: true, height: figure.layout?.["height"] ?? 420, width: undefined,
    ...(show.dark ? { paper_bgcolor: "#0000", font: { color: "#d9dedb" } } : {}) };
  void Plotly.newPlot(element, { data: figure.data, layout, frames: figure.frames,
    config: { responsive: true, displaylogo: false } }).then(tellHeight, (error: unknown) => {
    element.textContent = `The figure cannot be drawn: ${String(error)}`;
    tellHeight();
  });
}

function onMessage(event: MessageEvent<Show>): void {
  if (event.source !== parent) return;
  removeEventListener("message", onMessage);
  document.documentElement.style.colorScheme = event.data.dark ? "dark" : "light";
  new ResizeObserver(tellHeight).observe(document.documentElement);
  if (event.data.figure) showFigure(event.data);
  // Scripts of a fragment run when it is inserted; those of innerHTML would not.
  else document.body.append(document.createRange().createContextualFragment(event.data.html ?? ""));
  tellHeight();
}

addEventListener("message", onMessage);
parent.postMessage({ ready: true }, "*");
