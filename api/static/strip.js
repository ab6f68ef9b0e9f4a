// The last rows of the work, as the model writes them. A phone shows them above the keys, because the whole work is
// below them.

import { createElement } from "./format.js";

const ROWS = 3;

/** Shows the last rows of what `nodes` has, in `strip`. @type {(nodes: HTMLElement, strip: HTMLElement) => void} */
export function followWork(nodes, strip) {
  let frame = 0;
  const draw = () => {
    frame = 0;
    if (!strip.checkVisibility()) return;
    const sheets = [...nodes.querySelectorAll(".operation > .paper > .sheet")];
    const sheet = sheets.findLast((other) => other.closest(".writing")) ?? sheets.at(-1);
    strip.replaceChildren(...[...(sheet?.querySelectorAll(".row .digits") ?? [])].slice(-ROWS).map(copyOf));
    strip.style.cssText = sheet instanceof HTMLElement ? sheet.style.cssText : ""; // its columns
    const [newest] = strip.lastElementChild?.querySelectorAll("span") ?? []; // the highest digit, which is written last
    newest?.classList.toggle("newest", Boolean(sheet?.closest(".writing")));
    strip.scrollLeft = (newest?.offsetLeft ?? 0) - strip.offsetLeft;
  };
  const observer = new MutationObserver(() => (frame ||= requestAnimationFrame(draw)));
  observer.observe(nodes, { childList: true, subtree: true });
}

/** Returns a copy of the digits of a row, to look at only. @param {Element} digits */
function copyOf(digits) {
  const cells = [...digits.querySelectorAll(":scope > .cell")].map((cell) => {
    const copy = createElement("span", cell.className, cell.textContent ?? "");
    copy.style.cssText = cell instanceof HTMLElement ? cell.style.cssText : ""; // its column and its shade
    return copy;
  });
  return createElement("span", digits.closest(".row")?.className, ...cells);
}
