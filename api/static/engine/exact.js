// The value of an expression as a real number, and how people write it (calcgpt/inference/exact.py).

import { Decimal, decimal, divideHalfEven, numberText } from "./arithmetic.js";
import { ArithmeticError, EffortError, spend } from "./effort.js";
import { ExpressionError } from "./errors.js";
import { fold } from "./expression_tree.js";
import { magnitude, modulo, ofDecimal, powerModulo, whole } from "./fractions.js";
import { DomainError, call, constant, power } from "./function_values.js";
import { DECIDED_DIGITS, DivisionError, UndecidedError, factorial, fraction, isWhole, partsOf } from "./real.js";
import tables from "./tables.js";
import { format, formatCount } from "./text.js";

const FRACTION_DIGITS = 40; // of a fraction that is shown, numerator and denominator together
const { MAX_FACTORIAL, MESSAGES, PROGRAMS } = tables;
const CONSTANTS = new Set(Object.values(tables.CONSTANTS));

/** @import { Expression } from "./expression_tree.js" */
/** @import { Fraction } from "./fractions.js" */
/** @import { Real } from "./real.js" */

/** Returns the values of the nodes of a tree in the order of `postorder`.
 * @param {Expression} root
 * @throws {ExpressionError} for a division by zero, for a factorial that is not of a whole number in its range, for a
 * function where it has no value, where that is undecided, and for a value that takes too long to work out */
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
    return valueOf(node, operands);
  } catch (error) {
    if (!(error instanceof ArithmeticError)) throw error;
    let part = node;
    if (error instanceof DivisionError) part = node.operands[node.operands.length - 1];
    else if (error instanceof DomainError && error.index >= 0) part = node.operands[error.index];
    throw errorOf(error, part);
  }
}

/** Returns the error for a part that has no value.
 * @type {(error: ArithmeticError, part: Expression) => ExpressionError} */
export function errorOf(error, { start, end }) {
  let [key, kind] = ["value", "out-of-range"];
  if (error instanceof DomainError) key = error.key;
  else if (error instanceof DivisionError) key = "division";
  else if (error instanceof UndecidedError) [key, kind] = ["undecided", "undecided"];
  else if (error instanceof EffortError) [key, kind] = ["effort", "too-long"];
  if (key === "division") kind = "division-by-zero";
  return new ExpressionError(kind, format(MESSAGES[key], { n: formatCount(DECIDED_DIGITS) }), start, end);
}

/** @type {(node: Expression, operands: Real[]) => Real} */
function valueOf(node, operands) {
  const { sign } = node;
  const [a, b] = operands;
  if (!sign) return fraction(valueOfNumber(node.number));
  if (CONSTANTS.has(sign)) return constant(sign);
  if (sign === "^") return power(a, b);
  if (Object.hasOwn(PROGRAMS, sign)) return call(sign, operands);
  if (sign === "%") return a.times(fraction({ n: 1n, d: 100n }));
  if (sign === "||") return call("abs", operands);
  if (sign === "!") return factorialOf(a);
  if (sign === "+") return a.plus(b);
  if (sign === "-") return a.minus(b);
  if (sign === "*") return a.times(b);
  if (sign === "/") return a.over(b);
  if (sign === "+%") return a.plus(a.times(b));
  if (sign === "-%") return a.minus(a.times(b));
  const rest = sign === "mod" ? residue(a, b) : null;
  if (rest !== null) return fraction(whole(rest));
  const quotient = fraction(whole(a.over(b).floor()));
  return sign === "//" ? quotient : a.minus(b.times(quotient));
}

/** @param {Real} x */
function factorialOf(x) {
  if (!isWhole(x) || x.floor() < 0n || x.floor() > MAX_FACTORIAL) throw new DomainError("factorial", -1);
  return factorial(x.floor());
}

/** Returns the remainder of a whole number, even of one that is too long to write, by another; null if one of them is
 * not whole, or the divisor is 0.
 * @type {(number: Real, divisor: Real) => bigint | null} */
function residue(number, { exact: divisor }) {
  if (divisor?.d !== 1n || !divisor.n) return null;
  /** @type {Map<Real, bigint | null>} */ const found = new Map();
  for (const part of partsOf(number)) {
    spend(1);
    const [a, b = 0n] = part.operands.map((operand) => found.get(operand) ?? null);
    let result = null;
    if (isWhole(part)) result = part.floor();
    else if (part.exact || a === null || b === null || a === undefined) result = null;
    else if (part.operation === "+") result = a + b;
    else if (part.operation === "*") result = a * b;
    else if (part.operation === "^" && part.exponent.d === 1n && part.exponent.n >= 0n) {
      result = powerModulo(a, part.exponent.n, divisor.n);
    } else if (part.operation === "!" && part.operands[0].floor() >= magnitude(divisor.n)) result = 0n;
    found.set(part, result === null ? null : modulo(result, divisor.n));
  }
  return found.get(number) ?? null;
}

/** Returns the value of a decimal number. @param {Decimal} number */
export function valueOfNumber({ units, places }) {
  return ofDecimal(units, places);
}

/** Returns a value rounded to decimal places, ties to even, as a number without superfluous zeros.
 * @type {(value: Fraction, places: number) => Decimal} */
export function roundTo({ n, d }, places) {
  const number = decimal(divideHalfEven(n * 10n ** BigInt(places), d), places, places > 0);
  return number.places && number.units % 10n === 0n ? new Decimal(number.units / 10n) : number;
}

/** Returns whether two numbers have the same value. @type {(a: Decimal, b: Decimal) => boolean} */
export function areEqual(a, b) {
  return a.units * 10n ** BigInt(b.places) === b.units * 10n ** BigInt(a.places);
}

/** Returns a number as people write it: `4`, not `4.0`. @param {Decimal} number */
export function plainText(number) {
  return numberText(number).replace(/\.0$/, "");
}

/** Returns a value as `5/6`, a whole one as `3`; null if it has more than FRACTION_DIGITS. @param {Fraction} value */
export function fractionText({ n, d }) {
  const most = 10n ** BigInt(FRACTION_DIGITS);
  if (magnitude(n) >= most || d >= most) return null;
  if (d === 1n) return String(n);
  return String(magnitude(n)).length + String(d).length <= FRACTION_DIGITS ? `${n}/${d}` : null;
}
