// The recorded example that plays when the page opens, before a model is loaded
// (calcgpt/lab/example.py).

const FILE = "static/example/example.json";
const WEIGHT_SCALE = 1000; // attention weights are recorded in thousandths
export const HIGHLIGHTED_INDEX = 20; // of the character that the page highlights, a digit: two heads look at all that it is made of

/** A recorded `Look`. attention: a list for each head, in which a weight in thousandths follows each position.
 * @typedef {{attention: number[][], candidates: [string, number][], lens: [string, number][]}} RecordedLook
 * @typedef {{model: string, events: import("./client.js").CalculationEvent[], looks: RecordedLook[]}} Example */

/** @type {Example | null} */ let loaded = null;

/** Loads the example. Returns null if the host has none. @returns {Promise<Example | null>} */
export async function loadExample() {
  try {
    const response = await fetch(FILE);
    if (response.ok) loaded = await response.json();
  } catch {} // the page works without the example
  return loaded;
}

/** Returns the recorded attention and predictions for text[position], or null if there are none.
 * @type {(model: string, text: string, position: number) => import("./engine/generate.js").Look | null} */
export function recordedLook(model, text, position) {
  if (loaded?.model !== model) return null;
  const answer = loaded.events.find(({ name }) => name === "answer")?.data;
  if (!answer || !("output" in answer) || answer.prompt + answer.output !== text) return null;
  const look = loaded.looks[position - answer.prompt.length];
  if (!look) return null;
  const attention = new Float32Array(look.attention.length * position);
  look.attention.forEach((row, head) => {
    for (let i = 0; i < row.length; i += 2) attention[head * position + row[i]] = row[i + 1] / WEIGHT_SCALE;
  });
  const layers = look.lens.length - 1;
  return {
    layers,
    heads: look.attention.length / layers,
    attention,
    candidates: look.candidates.map(toCandidate),
    lens: look.lens.map(toCandidate),
  };
}

/** @param {[string, number]} pair */
function toCandidate([text, probability]) {
  return { text, probability };
}
