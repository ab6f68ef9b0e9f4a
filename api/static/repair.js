// What was probably meant by an expression that is refused. Each repair is one that the parser understands.

const NUMBER = String.raw`[\d.,]+`;
const FACTOR = String.raw`(?:\([^()]*\)|π|[a-z√]+\([^()]*\))`;
const UNIT = "km|cm|mm|m|kg|mg|g|km/h|l|ml|s|min|h|usd|eur";
const MAX_LENGTH = 200; // characters of an expression that is repaired
const MAX_REPAIRS = 2;

/** What is replaced, by each of its replacements. Where there are two, the reader has to choose.
 * @type {[RegExp, string[]][]} */
const RULES = [
  [/(?:[-+*/×÷−^.,;=]|\bmod|[a-z√]*\()\s*$/i, [""]], // 12.5×3+
  [/=.*$/, [""]], // 1+2=3
  [new RegExp(`(${NUMBER})\\s*([/÷^])\\s*(${NUMBER})\\s*(${FACTOR})`), ["($1$2$3)×$4", "$1$2($3×$4)"]], // 6/2(3+4)
  [/\)\s*(?=[\d.])/g, [")×"]], // (3+4)2
  [/(\d+!)!/, ["($1)!"]], // 5!!
  [/^(.*\).*)$/, ["($1"]], // 1+2)*3
  [/(\d)\s*%\s*\(/, ["$1% of (", "$1 mod ("]],
  [/(\d+) (\d{3})\/(\d+)/, ["$1$2/$3", "($1+$2/$3)"]],
  [/^([^,;]+)[,;]\s*(.+)$/, ["$1", "$2"]], // 12+5, 3*4
  [new RegExp(`(?<=\\d)\\s*(?:${UNIT})(?![a-z])`, "gi"), [""]], // 5 km + 3 km
  [/(\d)\s*·\s*(\d)/g, ["$1.$2", "$1×$2"]], // a British 0·5
];

/** Returns at most two expressions that may be meant by a text with an error.
 * @param {string} typed
 * @returns {Promise<string[]>} */
export async function repairsOf(typed) {
  if (typed.length > MAX_LENGTH) return [];
  const { parse } = await import("./engine/expression.js"); // only an error needs it
  const { show } = await import("./engine/expression_tree.js");
  const isRead = (/** @type {string} */ text) => {
    try {
      return parse(text).expression.sign !== "";
    } catch {
      return false;
    }
  };
  if (isRead(typed)) return []; // it has no value
  for (const [pattern, replacements] of RULES) {
    const texts = replacements.map((replacement) => repeat(typed, pattern, replacement));
    const read = texts.filter((text) => text !== typed && isRead(text));
    const different = new Map(read.map((text) => [show(parse(text).expression), text]));
    if (different.size) return [...different.values()].slice(0, MAX_REPAIRS);
  }
  return [];
}

/** Replaces a pattern until it is not there any more, as in `12.5×3+(`. A group that stays is replaced once.
 * @type {(text: string, pattern: RegExp, replacement: string) => string} */
function repeat(text, pattern, replacement) {
  let replaced = text.replace(pattern, replacement);
  while (!replacement && replaced.length < text.length) [text, replaced] = [replaced, replaced.replace(pattern, "")];
  return replaced.trim();
}
