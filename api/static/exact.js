// The exact value of a whole expression, without rounding between its steps.

import { parse } from "./engine/expression.js";

const SHOWN_PLACES = 12; // decimal places of the value that is shown

/**
 * Compares the result of an expression that the service accepted with its exact value.
 *
 * `isExact`: whether they are equal; `isRounded`: whether they are equal after the value is rounded to
 * `places`; `value`: the exact value in decimal notation, to 12 places.
 * @param {string} expression
 * @param {string} result
 * @param {number} places
 */
export function checkResult(expression, result, places) {
  const value = evaluate(parse(expression));
  const answer = evaluate(parse(result));
  return {
    isExact: value.a * answer.b === answer.a * value.b,
    isRounded: round(value, places) * answer.b === answer.a * 10n ** BigInt(places),
    value: formatDecimal(round(value, SHOWN_PLACES)),
  };
}

/** @typedef {{a: bigint, b: bigint}} Fraction a / b */

/**
 * Returns the value of an expression.
 * @param {import("./engine/expression.js").Expression} tree
 * @returns {Fraction}
 */
function evaluate(tree) {
  if ("number" in tree) return { a: tree.number.units, b: 10n ** BigInt(tree.number.places) };
  if ("base" in tree) {
    const { a, b } = evaluate(tree.base);
    return { a: a ** BigInt(tree.exponent), b: b ** BigInt(tree.exponent) };
  }
  const { op, left, right } = tree;
  const [{ a, b }, { a: c, b: d }] = [evaluate(left), evaluate(right)];
  if (op === "*") return { a: a * c, b: b * d };
  if (op === "/") return { a: a * d, b: b * c };
  return { a: op === "+" ? a * d + c * b : a * d - c * b, b: b * d };
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
