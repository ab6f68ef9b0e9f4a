// The exact value of an expression, and how people write it (calcgpt/inference/exact.py).

import { divideHalfEven, numberText } from "./arithmetic.js";
import { ExpressionError } from "./expression_errors.js";
import { fold, isConstant, isFunction } from "./expression_tree.js";
import { add, bitLength, floor, fraction, inverse, magnitude, multiply, subtract, whole } from "./fractions.js";
import { DomainError, call, constant, near } from "./real.js";
import tables from "./tables.js";
import { format } from "./text.js";

const FRACTION_DIGITS = 40; // of a fraction that is shown, numerator and denominator together
const { MAX_DIGITS, MAX_EXPONENT, MAX_FACTORIAL, MESSAGES } = tables;
const MAX_BITS = Math.floor(MAX_DIGITS * Math.log2(10));

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Expression } from "./expression_tree.js" */
/** @import { Fraction } from "./fractions.js" */
/** @import { Real } from "./real.js" */

/** Returns the values of the nodes of a tree in the order of `postorder`.
 * @param {Expression} root
 * @throws {ExpressionError} for a division by zero, for a factorial that is not of a whole number in its range, for a
 * function where it has no value, and for a value of more than MAX_DIGITS */
export function evaluate(root) {
  /** @type {Real[]} */ const values = [];
  fold(root, (node, /** @type {Real[]} */ operands) => {
    const value = valueOfNode(node, operands);
    values.push(value);
    return value;
  });
  return values;
}

/** Returns the value of a node, given those of its operands.
 * @throws {ExpressionError}
 * @type {(node: Expression, operands: Real[]) => Real} */
export function valueOfNode(node, operands) {
  try {
    let real = realOf(node, operands);
    if (!real.isExact || operands.some(({ isExact }) => !isExact)) real = near(real.value);
    if (bits(real.value) > MAX_BITS) throw tooLong(node);
    return real;
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    const { start, end } = error.index < 0 ? node : node.operands[error.index];
    const kind = error.key === "division" ? "division-by-zero" : "out-of-range";
    throw new ExpressionError(kind, format(MESSAGES[error.key], { n: MAX_DIGITS }), start, end);
  }
}

/** @type {(node: Expression, operands: Real[]) => Real} */
function realOf(node, operands) {
  const numbers = operands.map(({ value }) => value);
  if (isConstant(node)) return constant(node.sign);
  // A power of sqrt(2) is worked out like sqrt(2): the exact one would have thousands of digits.
  if (isFunction(node, numbers) || (node.sign === "^" && !operands[0].isExact)) return call(node.sign, numbers);
  return { value: valueOf(node, numbers), isExact: true };
}

/** @type {(node: Expression, operands: Fraction[]) => Fraction} */
function valueOf(node, [a, b]) {
  const { sign, number } = node;
  if (!sign) return fraction(number.units, 10n ** BigInt(number.places));
  if (sign === "%") return multiply(a, { n: 1n, d: 100n });
  if (sign === "||") return { n: magnitude(a.n), d: a.d };
  if (sign === "!") return factorial(node, a);
  if (sign === "^") return power(node, a, b);
  if (sign === "+") return add(a, b);
  if (sign === "-") return subtract(a, b);
  if (sign === "*") return multiply(a, b);
  if (sign === "+%") return multiply(a, add(whole(1n), b));
  if (sign === "-%") return multiply(a, subtract(whole(1n), b));
  if (!b.n) {
    const { start, end } = node.operands[1];
    throw new ExpressionError("division-by-zero", MESSAGES.division, start, end);
  }
  if (sign === "/") return multiply(a, inverse(b));
  const quotient = whole(floor(a, b));
  return sign === "//" ? quotient : subtract(a, multiply(b, quotient));
}

/** @type {(node: Expression, base: Fraction, exponent: Fraction) => Fraction} */
function power(node, base, exponent) {
  const part = node.operands[1];
  const n = magnitude(exponent.n);
  if (n > MAX_EXPONENT) {
    throw new ExpressionError("out-of-range", MESSAGES["large-exponent"], part.start, part.end);
  }
  if (!base.n && exponent.n < 0n) {
    throw new ExpressionError("division-by-zero", MESSAGES.division, node.start, node.end);
  }
  if (bits(base) > 1 && (bits(base) - 1) * Number(n) > MAX_BITS) throw tooLong(node);
  const value = { n: base.n ** n, d: base.d ** n };
  return exponent.n < 0n ? inverse(value) : value;
}

/** @type {(node: Expression, value: Fraction) => Fraction} */
function factorial(node, { n, d }) {
  if (d !== 1n || n < 0n || n > MAX_FACTORIAL) {
    throw new ExpressionError("out-of-range", MESSAGES.factorial, node.start, node.end);
  }
  let product = 1n;
  for (let factor = 2n; factor <= n; factor += 1n) product *= factor;
  return whole(product);
}

/** @param {Expression} node */
function tooLong({ start, end }) {
  return new ExpressionError("out-of-range", MESSAGES.value, start, end);
}

/** Returns the number of binary digits of the longer one of numerator and denominator. @param {Fraction} value */
function bits({ n, d }) {
  return Math.max(bitLength(n), bitLength(d));
}

/** Returns a value rounded to decimal places, ties to even, as a number without superfluous zeros.
 * @type {(value: Fraction, places: number) => Decimal} */
export function roundTo({ n, d }, places) {
  let units = divideHalfEven(n * 10n ** BigInt(places), d);
  while (places && units % 10n === 0n) [units, places] = [units / 10n, places - 1];
  return { units, places };
}

/** Returns a number as people write it: `4`, not `4.0`. @param {Decimal} number */
export function plainText(number) {
  return numberText(number).replace(/\.0$/, "");
}

/** Returns a value as `5/6`, a whole one as `3`; null if it has more than FRACTION_DIGITS. @param {Fraction} value */
export function fractionText({ n, d }) {
  const digits = String(magnitude(n)).length + (d === 1n ? 0 : String(d).length);
  if (digits > FRACTION_DIGITS) return null;
  return d === 1n ? String(n) : `${n}/${d}`;
}
