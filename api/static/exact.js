// The exact value of a whole expression, without rounding between its steps (calcgpt/inference/exact.py).

import { parse } from "./engine/expression.js";

const SHOWN_PLACES = 12; // decimal places of the value that is shown
const MAX_DIGITS = 10_000; // hexadecimal digits of a numerator or a denominator; nested powers have billions

/** An expression has no exact value that could be shown. The message says why, as `unrounded` does. */
class NoValueError extends Error {}

/**
 * Compares the verified result of an expression with its exact value.
 *
 * `isExact`: whether they are equal; `isRounded`: whether they are equal after the value is rounded to
 * `places`; `unrounded`: what the expression is without rounding, such as `is 0.5` (to 12 places). If it
 * has no value without rounding, or a very long one, the first two say whether no step was rounded.
 * @param {string} expression
 * @param {string} result
 * @param {number} places
 * @param {boolean} rounded whether the service rounded a step
 */
export function checkResult(expression, result, places, rounded) {
  try {
    const value = evaluate(parse(expression, Infinity));
    const answer = evaluate(parse(result));
    return {
      isExact: value.a * answer.b === answer.a * value.b,
      isRounded: round(value, places) * answer.b === answer.a * 10n ** BigInt(places),
      unrounded: `is ${formatDecimal(round(value, SHOWN_PLACES))}`,
    };
  } catch (error) {
    if (!(error instanceof NoValueError)) throw error;
    return { isExact: !rounded, isRounded: !rounded, unrounded: error.message };
  }
}

/** @typedef {{a: bigint, b: bigint}} Fraction a / b */

/**
 * Returns the value of an expression.
 * @param {import("./engine/expression_tree.js").Expression} tree
 * @returns {Fraction}
 * @throws {NoValueError}
 */
function evaluate(tree) {
  if ("number" in tree) return { a: tree.number.units, b: 10n ** BigInt(tree.number.places) };
  if ("base" in tree) {
    const { a, b } = evaluate(tree.base);
    return { a: power(a, tree.exponent), b: power(b, tree.exponent) };
  }
  const { op, left, right } = tree;
  const [{ a, b }, { a: c, b: d }] = [evaluate(left), evaluate(right)];
  if (op === "*") return { a: product(a, c), b: product(b, d) };
  if (op === "/") {
    if (c === 0n) throw new NoValueError("divides by zero");
    return { a: product(a, d), b: product(b, c) };
  }
  const [first, second] = [product(a, d), product(c, b)];
  return { a: op === "+" ? first + second : first - second, b: product(b, d) };
}

/** Returns x * y.
 * @param {bigint} x
 * @param {bigint} y
 * @throws {NoValueError} if it has too many digits */
function product(x, y) {
  limitDigits(digitsOf(x) + digitsOf(y));
  return x * y;
}

/** Returns x ** exponent.
 * @param {bigint} x
 * @param {number} exponent
 * @throws {NoValueError} if it has too many digits */
function power(x, exponent) {
  limitDigits(digitsOf(x) * exponent);
  return x ** BigInt(exponent);
}

/** @param {number} n */
function limitDigits(n) {
  if (n > MAX_DIGITS) throw new NoValueError("has too many digits to compute here");
}

/** Returns the number of hexadecimal digits, which are fast to count.
 * @param {bigint} x */
function digitsOf(x) {
  return abs(x).toString(16).length;
}

/**
 * Returns value * 10^places, rounded, ties to even.
 * @param {Fraction} value
 * @param {number} places
 */
function round({ a, b }, places) {
  const sign = a < 0n === b < 0n ? 1n : -1n;
  const [numerator, denominator] = [abs(a) * 10n ** BigInt(places), abs(b)];
  const [quotient, doubledRemainder] = [numerator / denominator, 2n * (numerator % denominator)];
  const roundsUp = doubledRemainder > denominator || (doubledRemainder === denominator && quotient % 2n === 1n);
  return sign * (quotient + (roundsUp ? 1n : 0n));
}

/** Returns `scaled / 10 ** SHOWN_PLACES` in decimal notation, without trailing zeros.
 * @param {bigint} scaled */
function formatDecimal(scaled) {
  const digits = String(abs(scaled)).padStart(SHOWN_PLACES + 1, "0");
  const places = digits.slice(-SHOWN_PLACES).replace(/0+$/, "");
  return `${scaled < 0n ? "-" : ""}${digits.slice(0, -SHOWN_PLACES)}${places && `.${places}`}`;
}

const abs = (/** @type {bigint} */ value) => (value < 0n ? -value : value);
