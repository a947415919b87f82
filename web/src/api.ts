// SPDX-License-Identifier: Apache-2.0
// api: the one way in which the page asks the server. The key is in this module's memory only.

import { signal } from "@preact/signals";

export interface Problem { status: number; code: string; message: string; hint: string }

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
  }
}

let key = "";
export const signedOut = signal(false); // the server wants a key, or another one
export const offline = signal(false);   // the last request got no answer
export const hasKey = signal(false);

// Whether the server takes this key. The page stays shut until it does.
export async function signIn(text: string): Promise<boolean> {
  key = text;
  try {
    await ask("GET", "sessions");
  } catch {
    key = "";
    return false;
  }
  hasKey.value = true;
  signedOut.value = false;
  return true;
}

export function signOut(): void {
  key = "";
  hasKey.value = false;
  signedOut.value = true;
}

export function keyHeaders(): Record<string, string> {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

export const at = (...parts: string[]): string => parts.map(encodeURIComponent).join("/");

export async function problemOf(answer: Response): Promise<ApiError> {
  const body = await answer.json().catch(() => null) as { error?: Partial<Problem> } | null;
  if (answer.status === 401) signedOut.value = true;
  return new ApiError({ status: answer.status, code: body?.error?.code ?? "", hint: body?.error?.hint ?? "",
    message: body?.error?.message ?? `the server answered ${answer.status} ${answer.statusText}` });
}

export async function ask(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const raw = body instanceof Blob;
  let answer: Response;
  try {
    answer = await fetch(path.startsWith("/") ? path : `/api/v1/${path}`, {
      method, signal: signal ?? null, cache: "no-store",
      headers: { ...keyHeaders(), ...(body !== undefined && !raw ? { "Content-Type": "application/json" } : {}) },
      body: body === undefined ? null : raw ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    offline.value = true;
    throw new ApiError({ status: 0, code: "offline", message: "the server does not answer",
      hint: "this page asks again by itself" });
  }
  offline.value = false;
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return await (await ask("GET", path, undefined, signal)).json() as T;
}

export async function post<T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> {
  return await (await ask("POST", path, body, signal)).json() as T;
}

// The messages of a stream of JSON lines; text of one packet is given at once, so a caller can draw once for many.
export async function stream(path: string, body: unknown, take: (messages: Record<string, unknown>[]) => void,
  signal?: AbortSignal): Promise<void> {
  const answer = await ask("POST", path, body, signal);
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest: string[] = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const end = value.lastIndexOf("\n");
    if (end < 0) {
      rest.push(value);
      continue;
    }
    const text = rest.join("") + value.slice(0, end);
    rest = [value.slice(end + 1)];
    take(text.split("\n").filter(Boolean).map((line) => JSON.parse(line) as Record<string, unknown>));
  }
}

// What went wrong, for a person: what happened and what to do.
export function describe(error: unknown): string {
  if (error instanceof ApiError) {
    const { message, hint } = error.problem;
    return hint ? `${message}: ${hint}` : message;
  }
  return error instanceof Error ? error.message : String(error);
}

export const isMissing = (error: unknown): boolean =>
  error instanceof ApiError && (error.problem.status === 405 ||
    error.problem.status === 404 && error.problem.code === "not_found");
