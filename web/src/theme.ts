// SPDX-License-Identifier: Apache-2.0
// theme: light, dark, or as the system has it. The choice is all that this page keeps in the browser for good.

import { computed, effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const NAME = "constrictor-theme";

function stored(): Theme {
  try {
    const text = localStorage.getItem(NAME);
    return text === "light" || text === "dark" ? text : "system";
  } catch {
    return "system";
  }
}

const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
system.addEventListener("change", () => void (systemDark.value = system.matches));

export const theme = signal<Theme>(stored());
export const isDark = computed(() => theme.value === "dark" || theme.value === "system" && systemDark.value);

effect(() => {
  document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
  try {
    if (theme.value === "system") localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, theme.value);
  } catch {
    // The browser keeps nothing.
  }
});
