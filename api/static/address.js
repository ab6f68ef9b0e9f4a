// The state of the page in its address: `#q=471/299&model=scratchpad&step=2&at=17`.

const SIGNS = { "×": "*", "÷": "/", "−": "-" };
const READABLE = { "%2F": "/", "%2B": "+" };
const MAX_LENGTH = 2_000; // of an expression; the service says what is too long

/** Returns the state of an address, or null if it has no question.
 *
 * `step` and `at` count from 1: the operation, and the character that the model wrote for it. */
export function read(hash) {
  const values = new Map();
  for (const pair of hash.replace(/^#/, "").split("&")) {
    const [name, ...rest] = pair.split("=");
    values.set(name, decoded(rest.join("=")));
  }
  const question = values.get("q")?.slice(0, MAX_LENGTH);
  if (!question) return null;
  const number = (name) => (/^\d{1,6}$/.test(values.get(name) ?? "") ? Number(values.get(name)) : 0);
  return {
    question,
    model: values.get("model") ?? "",
    places: number("places"),
    view: values.get("view") ?? "",
    step: number("step"),
    at: number("at"),
  };
}

/** Returns the address of a state. What is empty or 0 is left out. */
export function write({ question, model, places, view, step, at }) {
  const plain = question.replace(/\s/g, "").replace(/[×÷−]/g, (sign) => SIGNS[sign]);
  const values = { q: plain, model, places, view, step, at };
  const pairs = Object.entries(values).filter(([, value]) => value);
  return `#${pairs.map(([name, value]) => `${name}=${encoded(String(value))}`).join("&")}`;
}

function encoded(text) {
  return encodeURIComponent(text).replace(/%2F|%2B/g, (code) => READABLE[code]);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that encodes nothing
  }
}
