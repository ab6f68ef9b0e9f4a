// The exact value of a whole expression, without rounding between its steps.

import { parse } from "./engine/expression.js";

const SHOWN = 12; // places

/**
 * Compares the result of an expression that the service accepted with its exact value.
 *
 * `isExact`: they are equal; `isRounded`: they are equal once the value is rounded to `places`;
 * `value`: the value as people write it, to 12 places.
 * @param {string} expression
 * @param {string} result
 * @param {number} places
 */
export function check(expression, result, places) {
  const value = evaluate(parse(expression));
  const answer = evaluate(parse(result));
  return {
    isExact: value.a * answer.b === answer.a * value.b,
    isRounded: round(value, places) * answer.b === answer.a * 10n ** BigInt(places),
    value: decimal(round(value, SHOWN)),
  };
}

/** @typedef {{a: bigint, b: bigint}} Fraction a / b */

/**
 * Returns the value of a tree.
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
  const [top, bottom] = [abs(a) * 10n ** BigInt(places), abs(b)];
  const [whole, twice] = [top / bottom, (2n * (top % bottom))];
  const up = twice > bottom || (twice === bottom && whole % 2n === 1n);
  return sign * (whole + (up ? 1n : 0n));
}

/** @param {bigint} scaled */
function decimal(scaled) {
  const digits = String(abs(scaled)).padStart(SHOWN + 1, "0");
  const places = digits.slice(-SHOWN).replace(/0+$/, "");
  return `${scaled < 0n ? "-" : ""}${digits.slice(0, -SHOWN)}${places && `.${places}`}`;
}

const abs = (/** @type {bigint} */ value) => (value < 0n ? -value : value);
