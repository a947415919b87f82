// SPDX-License-Identifier: Apache-2.0
// dialog: asks a person before something that cannot be undone.

export function ask(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog"), form = document.createElement("form");
    const head = document.createElement("h2"), body = document.createElement("p"), row = document.createElement("div");
    const yes = document.createElement("button"), no = document.createElement("button");
    dialog.className = "dialog";
    dialog.setAttribute("aria-label", title);
    form.method = "dialog";
    head.textContent = title;
    body.textContent = text;
    row.className = "dialog-row";
    yes.textContent = action;
    yes.value = "yes";
    no.textContent = "Cancel";
    no.value = "no";
    no.className = "quiet";
    row.append(yes, no);
    form.append(head, body, row);
    dialog.append(form);
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    dialog.showModal();
  });
}
