// What people say around a calculation, and the decimal places that they ask for
// (calcgpt/inference/phrases.py).

import { MAX_ASKED_PLACES } from "./arithmetic.js";
import { ExpressionError } from "./expression_errors.js";
import tables from "./tables.js";
import { format, isDigit, match, search } from "./text.js";

const TAIL = 60; // characters of the end of a text in which places are asked for
/** @type {Map<string, number>} */ const NEAREST = new Map(Object.entries(tables.NEAREST));
/** @type {Map<string, number>} */ const NUMBER_WORDS = new Map(Object.entries(tables.NUMBER_WORDS));

/** Returns a normal text in which what people say around a calculation is replaced by spaces, and the decimal places
 * that they ask for: what is 1/3 to 4 places?
 * @throws {ExpressionError}
 * @type {(normal: string) => [string, number | null]} */
export function withoutPhrases(normal) {
  let [start, end] = [0, normal.length];
  /** @type {number | null} */ let places = null;
  for (let leading; (leading = match("leading", normal, start)); ) {
    start = leading.end;
    while ([" ", ",", ":"].includes(normal[start])) start += 1;
  }
  for (let [isChanged, between] = [true, " "]; isChanged; between = " ,") {
    while (end > start && between.includes(normal[end - 1])) end -= 1;
    /** @param {number} index */
    const isLetter = (index) => index >= start && /[a-z]/.test(normal[index]);
    const phrase = tables.TRAILING.find((words) => {
      const first = end - words.length;
      return first >= start && normal.endsWith(words, end) && !(isLetter(first) && isLetter(first - 1));
    });
    isChanged = phrase !== undefined;
    end -= phrase?.length ?? 0;
    if (places !== null) continue;
    const tail = Math.max(start, end - TAIL);
    const digits = search("places", normal.slice(tail, end));
    const asked = digits ?? search("nearest", normal.slice(tail, end));
    if (!asked) continue;
    const word = asked[1];
    places = digits && isDigit(word[0]) ? Number(word) : ((digits ? NUMBER_WORDS : NEAREST).get(word) ?? null);
    if (places !== null) [end, isChanged] = [tail + asked.index, true];
  }
  if (places !== null && places > MAX_ASKED_PLACES) {
    const reason = format(tables.MESSAGES["asked-places"], { n: MAX_ASKED_PLACES });
    throw new ExpressionError("too-many-places", reason, end, normal.length);
  }
  return [" ".repeat(start) + normal.slice(start, end) + " ".repeat(normal.length - end), places];
}
