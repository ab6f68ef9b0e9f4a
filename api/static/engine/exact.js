// The exact value of an expression, and how people write it (calcgpt/inference/exact.py).

import { answer, numberText } from "./arithmetic.js";
import { ExpressionError } from "./expression_errors.js";
import { postorder } from "./expression_tree.js";
import tables from "./tables.js";

const FRACTION_DIGITS = 40; // of a fraction that is shown, numerator and denominator together
const { MAX_DIGITS, MAX_EXPONENT, MAX_FACTORIAL, MESSAGES } = tables;
const MAX_BITS = Math.floor(MAX_DIGITS * Math.log2(10));

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Expression } from "./expression_tree.js" */
/** @typedef {{n: bigint, d: bigint}} Fraction n / d in lowest terms; d is positive */

/** Returns the exact values of the nodes of a tree in the order of `postorder`.
 * @param {Expression} root
 * @throws {ExpressionError} for a division by zero, for an exponent or a factorial that is not a whole number
 * in its range, and for a value of more than MAX_DIGITS */
export function evaluate(root) {
  /** @type {Fraction[]} */ const values = [];
  /** @type {Fraction[]} */ const waiting = [];
  for (const node of postorder(root)) {
    const value = valueOf(node, waiting.splice(waiting.length - node.operands.length));
    if (bits(value) > MAX_BITS) throw tooLong(node);
    waiting.push(value);
    values.push(value);
  }
  return values;
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
  if (sign === "-") return add(a, negative(b));
  if (sign === "*") return multiply(a, b);
  if (sign === "+%") return multiply(a, add(whole(1n), b));
  if (sign === "-%") return multiply(a, add(whole(1n), negative(b)));
  if (!b.n) {
    const { start, end } = node.operands[1];
    throw new ExpressionError("division-by-zero", MESSAGES.division, start, end);
  }
  if (sign === "/") return multiply(a, inverse(b));
  const quotient = whole(floor(a, b));
  return sign === "//" ? quotient : add(a, negative(multiply(b, quotient)));
}

/** @type {(node: Expression, base: Fraction, exponent: Fraction) => Fraction} */
function power(node, base, exponent) {
  const part = node.operands[1];
  if (exponent.d !== 1n) throw new ExpressionError("out-of-range", MESSAGES.exponent, part.start, part.end);
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

/** @type {(node: Expression, value: Fraction) => { n: bigint; d: bigint; }} */
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

/** Returns the number of binary digits of an integer without its sign. @param {bigint} n */
export function bitLength(n) {
  const digits = magnitude(n).toString(16);
  return 4 * digits.length - Math.clz32(parseInt(digits[0], 16)) + 28;
}

// Fractions. Their greatest common divisors are found from their parts, which are shorter (Knuth, The Art of
// Computer Programming, 4.5.1).

/** @param {bigint} n */
export function whole(n) {
  return { n, d: 1n };
}

/** d: positive. @type {(n: bigint, d: bigint) => { n: bigint; d: bigint; }} */
function fraction(n, d) {
  const divisor = gcd(n, d);
  return { n: n / divisor, d: d / divisor };
}

/** @type {(a: Fraction, b: Fraction) => Fraction} */
function add(a, b) {
  const divisor = gcd(a.d, b.d);
  const rest = a.d / divisor;
  const n = a.n * (b.d / divisor) + b.n * rest;
  const common = gcd(n, divisor);
  return { n: n / common, d: rest * (b.d / common) };
}

/** @type {(a: Fraction, b: Fraction) => Fraction} */
function multiply(a, b) {
  const [left, right] = [fraction(a.n, b.d), fraction(b.n, a.d)];
  return { n: left.n * right.n, d: left.d * right.d };
}

/** @param {Fraction} value */
export function negative({ n, d }) {
  return { n: -n, d };
}

/** @param {Fraction} value other than 0 */
function inverse({ n, d }) {
  return n < 0n ? { n: -d, d: -n } : { n: d, d: n };
}

/** Returns a / b rounded down. @type {(a: Fraction, b: Fraction) => bigint} */
export function floor(a, b) {
  const { n, d } = multiply(a, inverse(b));
  return n / d - (n < 0n && n % d ? 1n : 0n);
}

/** @type {(a: bigint, b: bigint) => bigint} */
function gcd(a, b) {
  a = magnitude(a);
  while (b) [a, b] = [b, a % b];
  return a;
}

/** @param {bigint} n */
export function magnitude(n) {
  return n < 0n ? -n : n;
}

/** Returns a value rounded to decimal places, ties to even, as a number without superfluous zeros.
 * @type {(value: Fraction, places: number) => Decimal} */
export function roundTo({ n, d }, places) {
  const [a, b] = [n, d].map((units) => ({ units, places: 0 }));
  const { value } = answer({ a, op: "/", b, places });
  const { units, places: kept } = /** @type {Decimal} */ (value);
  return kept === 1 && units % 10n === 0n ? { units: units / 10n, places: 0 } : { units, places: kept };
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
