// The example that plays when the page opens, before a model is loaded. It was recorded
// (calcgpt/lab/example.py).

const FILE = "static/example/example.json";
const THOUSAND = 1000;
/** The character that the page points at: a carry. */
export const LOOKED_AT = 19;

/**
 * What can be seen of a character. Of each head: positions, each with its weight in thousandths.
 * @typedef {{attention: number[][], candidates: [string, number][], lens: [string, number][]}} RecordedLook
 * @typedef {{model: string, events: import("./client.js").CalculationEvent[], looks: RecordedLook[]}} Example
 */

/** @type {Example | null} */
let loaded = null;

/**
 * Loads the example; null if the host has none.
 * @returns {Promise<Example | null>}
 */
export async function loadExample() {
  try {
    const response = await fetch(FILE);
    if (response.ok) loaded = await response.json();
  } catch {} // the page works without it
  return loaded;
}

/**
 * Returns what the model looked at and considered when it wrote text[position], if that is recorded.
 * @param {string} model
 * @param {string} text
 * @param {number} position
 * @returns {import("./engine/generate.js").Look | null}
 */
export function recordedLook(model, text, position) {
  if (loaded?.model !== model) return null;
  const answer = loaded.events.find(({ name }) => name === "answer")?.data;
  if (!answer || !("output" in answer) || answer.prompt + answer.output !== text) return null;
  const look = loaded.looks[position - answer.prompt.length];
  if (!look) return null;
  const attention = new Float32Array(look.attention.length * position);
  look.attention.forEach((row, head) => {
    for (let i = 0; i < row.length; i += 2) attention[head * position + row[i]] = row[i + 1] / THOUSAND;
  });
  const layers = look.lens.length - 1;
  return {
    layers,
    heads: look.attention.length / layers,
    attention,
    candidates: look.candidates.map(named),
    lens: look.lens.map(named),
  };
}

/** @param {[string, number]} pair */
function named([text, probability]) {
  return { text, probability };
}
