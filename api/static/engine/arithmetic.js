// Exact decimal arithmetic with integers, and the notation of problems (datagen/arithmetic.py and
// datagen/notation.py).

import { OPERATIONS } from "./operations.js";

const MAX_PLACES = 9_999; // of a number or an answer
export const USUAL_PLACES = 2; // of an answer, if the prompt does not say how many
export const WIDTH = 10; // the least number of characters of an operand or an answer
export const MAX_WIDTH = 10_100; // the largest number of characters of an operand

// No answer has more digits before the point than both operands together.
const NUMBER = new RegExp(
  `^(?!-0(?:\\.0)?$)-?(?:0|[1-9][0-9]{0,${2 * MAX_WIDTH - 1}})(?:\\.(?:[0-9]|[0-9]{1,${MAX_PLACES - 1}}[1-9]))?$`,
);

/** The exact decimal `units / 10 ** places`. With 0 places, it is an integer without a point. Otherwise it has a point,
 * and no trailing zero after the first place. */
export class Decimal {
  /** @param {bigint | number} units @param {number | bigint} [places] */
  constructor(units, places = 0) {
    this.units = BigInt(units);
    this.places = Number(places);
  }

  /** @type {(units: bigint, places: number, point: boolean) => Decimal} */
  static fromUnits(units, places, point) {
    return decimal(BigInt(units), Number(places), point);
  }

  get point() {
    return this.places > 0;
  }

  /** @param {any} other */
  equals(other) {
    return other instanceof Decimal && this.units === other.units && this.places === other.places;
  }
}

/** @param {string} text */
export const integerFromText = (text) => BigInt(text);

/** An operation, by its sign. places: the decimal places to which the answer is rounded. */
export class Problem {
  /** @param {Decimal} a @param {string} op @param {Decimal} b @param {number} places */
  constructor(a, op, b, places) {
    this.a = a;
    this.op = op;
    this.b = b;
    this.places = Number(places);
  }
}

/** Returns a power of ten.
 * @param {number} exponent
 * @returns {bigint} */
const tenTo = (exponent) => 10n ** BigInt(exponent);

/** Returns the decimal `units / 10 ** places`, with or without a point.
 * @type {(units: bigint, places: number, point: boolean) => Decimal} */
export function decimal(units, places, point) {
  if (!point) return new Decimal(units / tenTo(places));
  if (places === 0) return new Decimal(10n * units, 1);
  if (places === 1 || units % 10n) return new Decimal(units, places);
  const zeros = Math.min(places - 1, units ? /0*$/.exec(String(units))?.[0].length ?? 0 : places);
  return new Decimal(units / tenTo(zeros), places - zeros);
}

/** Returns the exact answer rounded to the problem's places, ties to even; null for a division by zero.
 * @param {Problem} problem @returns {Decimal | null} */
export function answer(problem) {
  const { a, op, b, places } = problem;
  if (OPERATIONS[op].divides && !b.units) return null;
  const [numerator, denominator] = exactAnswer(problem);
  if (!a.places && !b.places && !OPERATIONS[op].has_point) return new Decimal(numerator);
  return decimal(divideHalfEven(numerator * tenTo(places), denominator), places, places > 0);
}

/** Returns whether rounding changed the answer. @param {Problem} problem */
export function isRounded(problem) {
  const value = answer(problem);
  const [numerator, denominator] = value ? exactAnswer(problem) : [0n, 1n];
  return value !== null && value.units * denominator !== numerator * tenTo(value.places);
}

/** Returns the numerator and the denominator of an answer. @param {Problem} problem @returns {[bigint, bigint]} */
function exactAnswer({ a, op, b }) {
  const common = Math.max(a.places, b.places);
  const [left, right] = [a, b].map(({ units, places }) => units * tenTo(common - places));
  return OPERATIONS[op].exact(left, right, tenTo(common));
}

/** Returns the quotient rounded to an integer, ties to even.
 * @type {(numerator: bigint, denominator: bigint) => bigint} */
export function divideHalfEven(numerator, denominator) {
  [numerator, denominator] = [BigInt(numerator), BigInt(denominator)];
  if (denominator < 0n) [numerator, denominator] = [-numerator, -denominator];
  let quotient = numerator / denominator;
  let remainder = numerator % denominator;
  if (remainder < 0n) [quotient, remainder] = [quotient - 1n, remainder + denominator];
  const excess = 2n * remainder - denominator;
  return quotient + (excess > 0n || (excess === 0n && (quotient & 1n) === 1n) ? 1n : 0n);
}

/** @type {WeakMap<Decimal, string>} */ const written = new WeakMap(); // a long number takes time to write

/** Returns a number as people write it: `-3`, `12.5`, `0.0`. @param {Decimal} number */
export function numberText(number) {
  const text = written.get(number) ?? textOf(number);
  written.set(number, text);
  return text;
}

/** @param {Decimal} number */
function textOf({ units, places }) {
  if (!places) return String(units);
  const digits = String(units < 0n ? -units : units).padStart(places + 1, "0");
  return `${units < 0n ? "-" : ""}${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/** Whether a number is short enough for an operand. @param {Decimal} number */
export const isOperand = (number) => numberText(number).length <= MAX_WIDTH;

/** Returns an answer as people write it, or `nan` for null. @param {Decimal | null} value */
export function answerText(value) {
  return value ? numberText(value) : "nan";
}

/** Returns the prompt for a problem: `$(A op B)=`, or `$P(A op B)=` for P places other than two.
 * @param {Problem} problem */
export function renderPrompt({ a, op, b, places }) {
  const [left, right] = [a, b].map((number) => numberText(number).padStart(WIDTH, "0"));
  return `$${places === USUAL_PLACES ? "" : places}(${left}${op}${right})=`;
}

/** Returns the answer of a completed problem. It is written backwards between the last `=` and a final `$`. places: the
 * most decimal places that an answer may have. Both are null if there is no valid answer; the value is also
 * null for `nan`.
 * @type {(text: string, places: number) => {text: string | null, value: Decimal | null}} */
export function readAnswer(text, places) {
  const noAnswer = { text: null, value: null };
  const field = text.slice(text.lastIndexOf("=") + 1);
  if (!field.endsWith("$")) return noAnswer;
  const padded = [...field.slice(0, -1)].reverse().join("");
  if (padded === "nan".padStart(WIDTH, "0")) return { text: "nan", value: null };
  const bare = padded.replace(/^0+/, "");
  const number = [bare, `0${bare}`].find((candidate) => NUMBER.test(candidate));
  if (number === undefined || number.padStart(WIDTH, "0") !== padded) return noAnswer;
  const [whole, fraction = ""] = number.split(".");
  if (fraction.length > places) return noAnswer;
  return { text: number, value: new Decimal(BigInt(whole + fraction), fraction.length) };
}
