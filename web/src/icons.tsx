// SPDX-License-Identifier: Apache-2.0
// icons: paths of one pen.

import type { VNode } from "preact";

const PATHS: Record<string, string> = {
  play: "M6 4l10 6-10 6z", stop: "M5 5h10v10H5z", plus: "M10 4v12M4 10h12", up: "M5 12l5-5 5 5", down: "M5 8l5 5 5-5",
  bin: "M4 6h12M8 6V4h4v2M6 6l1 10h6l1-10", text: "M4 5h12M10 5v11", code: "M7 6l-4 4 4 4M13 6l4 4-4 4", all: "M4 4l7 6-7 6zM12 4l5 6-5 6",
  again: "M15.5 7A6.5 6.5 0 1 0 16 12M16 3v4h-4", book: "M4 4h9a3 3 0 0 1 3 3v9H7a3 3 0 0 1-3-3z", file: "M5 3h7l4 4v10H5zM12 3v4h4",
  list: "M7 5h10M7 10h10M7 15h10M3 5h.5M3 10h.5M3 15h.5", box: "M10 3l7 4v7l-7 4-7-4V7zM3 7l7 4 7-4M10 11v7", tree: "M6 4v12M6 8h6a2 2 0 0 1 2 2v6M6 4h.1M14 16h.1",
  eye: "M2 10s3-5 8-5 8 5 8 5-3 5-8 5-8-5-8-5zM10 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4", pulse: "M2 10h4l2-5 4 10 2-5h4", sun: "M10 6a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 1v2M10 17v2M1 10h2M17 10h2M3.6 3.6L5 5M15 15l1.4 1.4M3.6 16.4L5 15M15 5l1.4-1.4",
  moon: "M16 12A7 7 0 0 1 8 4a6.5 6.5 0 1 0 8 8z", upload: "M10 14V4M6 8l4-4 4 4M4 16h12", copy: "M7 7h9v9H7zM4 13V4h9", link: "M8 12l4-4M9 5l2-2a4 4 0 0 1 6 6l-2 2M11 15l-2 2a4 4 0 0 1-6-6l2-2",
  terminal: "M3 4h14v12H3zM6 8l2 2-2 2M10 12h4", leave: "M8 4H4v12h4M12 7l4 3-4 3M16 10H8",
};

export function Icon({ name }: { name: string }): VNode {
  return <svg class="icon" viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" focusable="false"><path d={PATHS[name] ?? ""} /></svg>;
}
