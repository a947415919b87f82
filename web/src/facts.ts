// SPDX-License-Identifier: Apache-2.0
// facts: what the server tells about itself to a person who opens the page.

import { signal } from "@preact/signals";

export interface Client { name: string; title: string; file: string; settings: Record<string, unknown> }
export interface Facts { version: string; state: string; python: string; base_url: string; mcp: string; with_key: boolean; clients: Client[] }
export const facts = signal<Facts | null>(null);
