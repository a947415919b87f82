// SPDX-License-Identifier: Apache-2.0
// text_log: output as lines. Bounded: the beginning goes when there is too much, and the log says how much went.

import { signal } from "@preact/signals";

const CHARACTERS_MAX = 16_000_000;
const LINES_MAX = 250_000;
export const LINE_SHOWN_MAX = 4000;

// Escape sequences of terminals: colours and cursor moves mean nothing here.
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

let waiting: TextLog[] = [];

function draw(): void {
  const logs = waiting;
  waiting = [];
  for (const log of logs) log.changed.value++;
}

export class TextLog {
  lines: string[] = [""];
  characters = 0;
  dropped = 0; // lines
  readonly changed = signal(0); // at most once for each frame that the browser draws

  append(text: string): void {
    const parts = text.replace(ESCAPES, "").split("\n");
    this.extend(parts[0]!);
    for (let i = 1; i < parts.length; i++) {
      this.lines.push("");
      this.extend(parts[i]!);
    }
    this.characters += text.length;
    while (this.lines.length > LINES_MAX || this.characters > CHARACTERS_MAX && this.lines.length > 1) {
      const gone = this.lines.splice(0, Math.max(1, this.lines.length >> 3));
      this.dropped += gone.length;
      this.characters -= gone.reduce((sum, line) => sum + line.length + 1, 0);
    }
    if (!waiting.length) requestAnimationFrame(draw);
    waiting.push(this);
  }

  // A carriage return begins the line anew, as progress bars want.
  private extend(part: string): void {
    const last = this.lines.length - 1;
    let line = this.lines[last]! + part;
    const back = line.replace(/\r+$/, "").lastIndexOf("\r");
    if (back >= 0) line = line.slice(back + 1);
    if (line.length > CHARACTERS_MAX) line = line.slice(-CHARACTERS_MAX);
    this.lines[last] = line;
  }

  // The last line is empty when the text ends with a newline.
  get count(): number {
    return this.lines.length - (this.lines[this.lines.length - 1] === "" ? 1 : 0);
  }

  text(): string {
    return this.lines.map((line) => line.replace(/\r$/, "")).join("\n");
  }
}
