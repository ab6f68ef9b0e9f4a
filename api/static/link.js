// Links to what the page shows: the button that copies one, and the menu of a phone.

import { hasService, manifestOf } from "./backend.js";
import { byId, formatNumbers } from "./format.js";
import { store } from "./state.js";

// On a phone, the share menu is more useful than the clipboard.
export const canShare = "share" in navigator && matchMedia("(pointer: coarse)").matches;

/** Returns the link to what the page shows. The preview of a link cannot see its hash, so one with parts off leads
 * through a page of its own: that of its goal, if the page was exported (calcgpt/export/dares.py), or else one for
 * all. */
export async function linkToState() {
  const { off, question, model } = store.state;
  if (!off) return location.href.split("#")[0] + store.hash;
  const { switches } = await manifestOf(model);
  const number = (switches?.goals ?? []).findIndex(({ problem, parts }) => {
    return formatNumbers(problem) === formatNumbers(question) && parts.includes(off);
  });
  const isThere = number >= 0 && !(await hasService());
  return new URL(isThere ? `static/dare-${number}.html` : "static/off.html", location.href).href + store.hash;
}

/** Shares a link by the menu of a phone, or else copies it. Returns whether the browser allows it.
 * @type {(data: {title?: string, text?: string, url: string}) => Promise<boolean>} */
export async function share(data) {
  try {
    if (canShare) await navigator.share(data).catch(() => {}); // the user changed their mind
    else await navigator.clipboard.writeText([data.text, data.url].filter(Boolean).join(" "));
    return true;
  } catch {
    return false;
  }
}

export function setUpLink() {
  const field = byId("link", HTMLInputElement);
  const copied = byId("copied");
  const button = byId("copy");
  if (canShare) button.textContent = "Share link";
  store.on(["question"], () => {
    field.hidden = true;
    copied.textContent = "";
  });
  button.addEventListener("click", async () => {
    const url = await linkToState();
    field.hidden = true;
    if (await share({ title: document.title, url })) {
      copied.textContent = canShare ? "" : "Copied.";
      return;
    }
    field.value = url; // the browser forbids copying, so the user has to do it
    field.hidden = false;
    field.select();
    copied.textContent = "Copy this link:";
  });
}
