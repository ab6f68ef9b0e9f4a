// The button that copies the link to what the page shows.

import { byId } from "./format.js";
import { store } from "./state.js";

// On a phone, the share menu is more useful than the clipboard.
const canShare = "share" in navigator && matchMedia("(pointer: coarse)").matches;

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
    // The preview of a link cannot see the hash, so one with parts off leads through a page of its own.
    const page = store.state.off ? new URL("static/off.html", location.href).href : location.href.split("#")[0];
    const link = page + store.hash;
    field.hidden = true;
    if (canShare) {
      await navigator.share({ title: document.title, url: link }).catch(() => {}); // the user changed their mind
      return;
    }
    try {
      await navigator.clipboard.writeText(link);
      copied.textContent = "Copied.";
    } catch {
      field.value = link; // the browser forbids copying, so the user has to do it
      field.hidden = false;
      field.select();
      copied.textContent = "Copy this link:";
    }
  });
}
