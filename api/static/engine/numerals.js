// How people write numbers: digits with their separators, fractions, mixed numbers, and words
// (calcgpt/inference/numerals.py).

import { MAX_PLACES, numberText } from "./arithmetic.js";
import { ExpressionError } from "./expression_errors.js";
import tables from "./tables.js";
import { format, formatCount, isDigit, match, search, skip, sticky, stripEnd } from "./text.js";

const { MAX_DIGITS, MAX_EXPONENT, MESSAGES, NUMBER_WORDS, SCALES, VULGAR } = tables;
export const [POINT, COMMA, LIST] = [0, 1, 2]; // how numbers are written
const NUMBERS = tables.NUMBERS.map((forms) => forms.map(([form, mark]) => ({ form: sticky(form), mark })));

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Match } from "./text.js" */

/** A number as it was typed up to `end`: `whole`, plus `fraction` (numerator and denominator) if it is mixed. reading:
 * the usual spelling, if a reader could think of another number; alternative: another reading.
 * @typedef {{end: number, whole: Decimal | null, fraction: Decimal[] | null, reading: string | null,
 * alternative: string | null}} Numeral */

/** Returns the numeral at `start` of a normal text, or null. forms: POINT, COMMA or LIST.
 * @throws {ExpressionError}
 * @type {(normal: string, start: number, forms: number) => Numeral | null} */
export function readNumeral(normal, start, forms) {
  const fraction = match("fraction", normal, start);
  if (fraction) return numeral(fraction.end, null, integers(fraction[1], fraction[2]));
  const vulgar = VULGAR[normal.charAt(start)];
  if (vulgar) return numeral(start + 1, null, integers(...vulgar));
  const typed = digits(normal, start, forms);
  if (!typed?.whole) return words(normal, start);
  if (forms === COMMA) {
    const other = digits(normal, start, POINT); // only what others read in another way needs to be said
    const [text, usual] = [typed, other].map((numeral) => numeral?.whole && numberText(numeral.whole));
    const isSaid = other?.end !== typed.end || text !== usual;
    typed.reading = isSaid ? (text ?? null) : null;
    if (isSaid && usual && other?.end === typed.end) typed.alternative = usual.replace(".", ","); // 12500, not 12,500
  }
  return mixed(normal, start, typed);
}

/** Returns the numeral of digits with an exponent or scale, or null: 1,000.5, 1e3, 5 million.
 * @type {(normal: string, start: number, forms: number) => Numeral | null} */
function digits(normal, start, forms) {
  for (const { form, mark } of NUMBERS[forms]) {
    const typed = match(form, normal, start);
    if (typed) return digitsOf(normal, typed, mark);
  }
  return null;
}

/** @type {(normal: string, typed: Match, mark: string) => Numeral} */
function digitsOf(normal, typed, mark) {
  const [whole, places = ""] = typed[0].split(mark);
  const exponent = match("exponent", normal, typed.end);
  const scale = match("scale", normal, skip(normal, typed.end));
  let [end, shift] = [typed.end, 0];
  if (exponent) {
    if (exponent[1].length > 6 || Math.abs(Number(exponent[1])) > MAX_EXPONENT) {
      throw new ExpressionError("out-of-range", MESSAGES["large-exponent"], exponent.index, exponent.end);
    }
    [end, shift] = [exponent.end, Number(exponent[1])];
  } else if (scale) [end, shift] = [scale.end, String(SCALES[scale[0]]).length - 1];
  const number = numberOf(whole.replace(/[^0-9]/g, ""), places, shift, typed.index, end);
  return numeral(end, number, null, mark === "," && typed[0].includes(",") ? numberText(number) : null);
}

/** Returns a number times 10**shift.
 * @throws {ExpressionError} if it has more than MAX_PLACES places
 * @type {(whole: string, places: string, shift: number, start: number,
 *   end: number) => { units: bigint; places: number; }} */
function numberOf(whole, places, shift, start, end) {
  const kept = stripEnd(places, "0");
  if (whole.length + kept.length + Math.max(shift, 0) > MAX_DIGITS) {
    throw new ExpressionError("out-of-range", MESSAGES.digits, start, end);
  }
  const [units, n] = [BigInt(whole + kept), kept.length - shift];
  if (!units) return { units, places: 0 };
  if (n > MAX_PLACES) {
    const first = shift ? start : end - places.length + MAX_PLACES;
    throw new ExpressionError("too-many-places", format(MESSAGES.places, { n: formatCount(MAX_PLACES) }), first, end);
  }
  if (n < 0) return { units: units * 10n ** BigInt(-n), places: 0 };
  const zeros = kept ? 0 : Math.min(n, whole.length - stripEnd(whole, "0").length);
  return { units: units / 10n ** BigInt(zeros), places: n - zeros }; // 50e-1 is 5
}

/** Returns the mixed number that begins with a numeral, or the numeral itself: 1 1/2, 1½, 3(3/4).
 * @throws {ExpressionError} for 1 100/200, which is read in two ways
 * @type {(normal: string, start: number, typed: Numeral) => Numeral} */
function mixed(normal, start, typed) {
  const { whole, end } = typed;
  if (!whole || whole.places || whole.units < 1n || !isDigit(normal[end - 1])) return typed;
  const grouped = search("grouped", normal.slice(start, end));
  const over = grouped && match("after_grouped", normal, end);
  if (over && isProper(grouped[1], over[1])) {
    const first = normal.slice(start, end - 4).replaceAll(" ", "");
    const reason = format(MESSAGES.grouped, {
      typed: normal.slice(start, over.end),
      grouped: `${whole.units}/${over[1]}`,
      mixed: `${first}+${grouped[1]}/${over[1]}`,
    });
    throw new ExpressionError("no-operation", reason, start, over.end);
  }
  const next = skip(normal, end);
  const vulgar = VULGAR[normal.charAt(next)];
  if (vulgar) return numeral(next + 1, whole, integers(...vulgar));
  const after = match("after_whole", normal, end) ?? match("in_parentheses", normal, end);
  if (!after || !isProper(after[1], after[2])) return typed;
  const [text, fraction] = [String(whole.units), `${after[1]}/${after[2]}`];
  const alternative = after[0].startsWith("(") ? `${text}*(${fraction})` : null;
  return numeral(after.end, whole, integers(after[1], after[2]), `${text}+${fraction}`, alternative);
}

/** Returns the numeral of words, or null: twelve, twenty-five, two hundred and six million.
 * @type {(normal: string, start: number) => Numeral | null} */
function words(normal, start) {
  let [total, current, end] = [0n, 0n, start];
  let [smallest, largest] = [10n ** 18n, 10n ** 18n]; // what may still be added, and a scale, are below these
  for (;;) {
    const position = end > start ? (match("joint", normal, end)?.end ?? end) : end;
    const word = match("number_word", normal, position);
    const scaled = !word && end > start ? match("scale", normal, position) : null;
    if (word) {
      const n = BigInt(NUMBER_WORDS[word[0]]);
      if (n >= smallest || (!n && end > start)) break;
      [current, end] = [current + n, word.end];
      smallest = n % 10n || n < 20n ? 1n : 10n;
    } else if (scaled) {
      const scale = BigInt(SCALES[scaled[0]]);
      if (!current || scale >= largest || (scale === 100n && current >= 100n)) break; // two thousand million
      if (scale === 100n) current *= scale;
      else [total, current, largest] = [total + current * scale, 0n, scale];
      [end, smallest] = [scaled.end, scale];
    } else break;
  }
  return end > start ? numeral(end, { units: total + current, places: 0 }) : null;
}

/** @type {(end: number, whole: Decimal | null, fraction?: Decimal[] | null, reading?: string | null,
 *   alternative?: string | null) => Numeral} */
function numeral(end, whole, fraction = null, reading = null, alternative = null) {
  return { end, whole, fraction, reading, alternative };
}

/** Returns whether a fraction is between 0 and 1. @type {(numerator: string, denominator: string) => boolean} */
export function isProper(numerator, denominator) {
  return 0n < BigInt(numerator) && BigInt(numerator) < BigInt(denominator);
}

/** Returns whole numbers. @type {(...values: (string | number)[]) => Decimal[]} */
function integers(...values) {
  return values.map((value) => ({ units: BigInt(value), places: 0 }));
}
