// Long work in slices, so that the page answers in between.

const SLICE = 8; // milliseconds

/** @type {{pieces: Iterator<void>, resolve: () => void, reject: (error: unknown) => void}[]} */ const waiting = [];

/** Does some work piece by piece, a few milliseconds at a time. Resolves when all of it is done.
 * @type {(pieces: Iterator<void>) => Promise<void>} */
export function inSlices(pieces) {
  return new Promise((resolve, reject) => {
    waiting.push({ pieces, resolve, reject });
    if (waiting.length === 1) setTimeout(doSlice);
  });
}

function doSlice() {
  const end = performance.now() + SLICE;
  while (waiting.length && (document.hidden || performance.now() < end)) {
    const [{ pieces, resolve, reject }] = waiting;
    try {
      if (!pieces.next().done) continue;
      resolve();
    } catch (error) {
      reject(error);
    }
    waiting.shift();
  }
  if (waiting.length) setTimeout(doSlice);
}
