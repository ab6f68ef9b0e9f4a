// Planners: they make operations of an expression, each for the model, and the value by them
// (calcgpt/inference/planners.py and number_planners.py). A planner calculates with exact arithmetic what the model
// should answer.

import { Decimal, MAX_ASKED_PLACES, MAX_PLACES, answer } from "./arithmetic.js";
import { ArithmeticError, EffortError, spend } from "./effort.js";
import { areEqual, roundTo, valueOfNumber } from "./exact.js";
import { ExpressionError } from "./errors.js";
import { bitLength, compare, fraction, magnitude, whole } from "./fractions.js";
import { run } from "./programs.js";
import { fraction as realOf, isWhole } from "./real.js";
import tables from "./tables.js";
import { format } from "./text.js";

const { MAX_DIGITS, MAX_OPERATIONS, MAX_READINGS, MESSAGES, PROGRAMS, READINGS } = tables;
const TOO_LARGE = 10n ** BigInt(2 * MAX_DIGITS); // for a plan; rounded numbers may be larger than exact ones
const CONSTANTS = new Set(Object.values(tables.CONSTANTS));
const isConstant = (/** @type {Expression} */ { sign }) => CONSTANTS.has(sign);
const LONG = 40; // digits of a factor

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Reading } from "./expression_stack.js" */
/** @import { Expression } from "./expression_tree.js" */
/** @import { Fraction } from "./fractions.js" */
/** @import { Real } from "./real.js" */

/** A number that was typed, or the result of an operation. number: the right one; step: the index of the operation.
 * @typedef {{number: Decimal, step: number | null}} Operand */

/** An operation that the model is asked, and the part of the expression that it belongs to. path: the rows of the
 * programs of functions that it comes from, the outermost first.
 * @typedef {{a: Operand, op: string, b: Operand, places: number, text: string, start: number, end: number,
 * path: string[]}} Step */

/** The nodes of an expression in the order of `postorder`, their values, how many more places each needs than the
 * result, the operations that the model knows, by the signs of nodes, and the result.
 * @typedef {{nodes: Expression[], values: Real[], morePlaces: number[], operations: Record<string, string>,
 * right: Decimal}} Parts */

/** A number of a plan and its value. @template T @typedef {{number: T, value: Real}} Term */

/** How the values of parts are represented as T. typed: a number that was typed; number: a whole one; constant: one
 * that the planner has worked out, to the places of the operations and some more; value: of a T; isZero: whether a
 * value is 0 at the places of the operations; apply: the result of an operation; rounded: to some places; nearest: the
 * whole number nearest to a / b, also as an integer; finish: the result, rounded to the places of the answer.
 * @template T
 * @typedef {{typed: (number: Decimal) => T, number: (value: Fraction) => T,
 *   constant: (value: Real, morePlaces?: number) => T, value: (number: T) => Fraction,
 *   isZero: (value: Real) => boolean, apply: (op: string, a: T, b: T) => T,
 *   rounded: (a: T, places: number) => T, nearest: (a: T, b: T) => [T, bigint], finish: (value: T) => Operand}} Way */

/** Makes the operations of an expression. @template T */
export class Planner {
  /** @type {Step[]} */ steps = [];
  /** @type {Reading[]} */ readings = [];
  /** @type {string[]} */ path = [];
  morePlaces = 0; // than #stepPlaces, which the part that is planned needs
  #index = 0; // of the part that is planned
  #stepPlaces;

  /** stepPlaces: of operations before the last.
   * @param {Parts} parts @param {number} places @param {number} stepPlaces
   * @param {(planner: Planner<any>) => Way<T>} way */
  constructor(parts, places, stepPlaces, way) {
    this.parts = parts;
    this.places = places;
    this.#stepPlaces = stepPlaces;
    this.way = way(this);
  }

  /** The places of the operations of the part that is planned. */
  get stepPlaces() {
    return Math.max(0, this.#stepPlaces + this.morePlaces);
  }

  /** Plans all operations and returns the result, or null if an operation divides by a number that is rounded to 0, or
   * has a result that is too large.
   * @returns {Operand | null}
   * @throws {ExpressionError} for more than MAX_OPERATIONS */
  plan() {
    const { nodes, values } = this.parts;
    /** @type {Term<T>[]} */ const waiting = [];
    try {
      for (const [index, real] of values.entries()) {
        this.#index = index;
        this.morePlaces = this.parts.morePlaces[index];
        const node = nodes[index];
        const operands = waiting.splice(waiting.length - node.operands.length);
        if (node.sign === "//" || node.sign === "mod") this.#sayFloor(node, operands[0].value, operands[1].value);
        waiting.push({ number: this.operation(node, operands, real), value: real });
      }
      return this.way.finish(waiting[0].number);
    } catch (error) {
      if (!(error instanceof ArithmeticError) || error instanceof EffortError) throw error;
      return null;
    }
  }

  /** Plans a node, given its operands, and its exact value if it is known.
   * @type {(node: Expression, operands: Term<T>[], real: Real | null) => T} */
  operation(node, operands, real) {
    const { sign } = node;
    const { apply } = this.way;
    if (!sign) return this.way.typed(node.number);
    if (isConstant(node)) return this.way.constant(/** @type {Real} */ (real));
    const isFunction = sign === "^" ? !isWhole(operands[1].value) : Object.hasOwn(PROGRAMS, sign);
    if (isFunction) return run(this, sign, operands);
    const [{ number: a }] = operands;
    if (sign === "%") return apply("/", a, this.#integer(100n));
    if (sign === "||") return operands[0].value.sign() < 0 ? apply("-", this.#integer(0n), a) : a;
    if (sign === "!") return this.#factorial(operands[0].value.floor());
    const { number: b } = operands[1];
    if (sign === "^") return this.#power(a, operands[1].value.floor());
    if (sign === "+%" || sign === "-%") return apply(sign[0], a, apply("*", b, a));
    const operation = this.parts.operations[sign];
    if (operation) return apply(operation, a, b);
    const quotient = this.#floor(a, b, operands[0].value.over(operands[1].value).floor());
    return sign === "//" ? quotient : apply("-", a, apply("*", quotient, b));
  }

  /** @param {bigint} n */
  #integer(n) {
    return this.way.number(whole(n));
  }

  /** Plans a power by repeated squaring. A long one is a product of factors of LONG digits, because the square of a long
   * number needs more of the model's context.
   * @type {(base: T, exponent: bigint) => T} */
  #power(base, exponent) {
    if (!exponent) return this.#integer(1n);
    const { apply } = this.way;
    const n = magnitude(exponent);
    if (!Number.isFinite(Number(n))) throw new ArithmeticError();
    const size = realOf(this.way.value(base)).size() * Number(n);
    const most = 4 * LONG < size && size < MAX_DIGITS ? BigInt(Math.ceil(size / LONG)) : 1n;
    const nFactors = most < n ? most : n;
    const unit = this.#squared(base, n / nFactors);
    let power = unit;
    for (let factor = 1n; factor < nFactors; factor += 1n) power = apply("*", power, unit);
    if (n % nFactors) power = apply("*", power, this.#squared(base, n % nFactors));
    return exponent < 0n ? apply("/", this.#integer(1n), power) : power;
  }

  /** Plans a power by repeated squaring, from the highest binary digit of the exponent on.
   * @type {(base: T, exponent: bigint) => T} */
  #squared(base, exponent) {
    let power = base;
    for (const digit of exponent.toString(2).slice(1)) {
      power = this.way.apply("*", power, power);
      if (digit === "1") power = this.way.apply("*", power, base);
    }
    return power;
  }

  /** @param {bigint} n */
  #factorial(n) {
    let product = this.#integer(n < 2n ? 1n : 2n);
    for (let factor = 3n; factor <= n; factor += 1n) product = this.way.apply("*", product, this.#integer(factor));
    return product;
  }

  /** Plans a quotient rounded down: the nearest whole number, or one less. @type {(a: T, b: T, floor: bigint) => T} */
  #floor(a, b, floor) {
    const [quotient, nearest] = this.way.nearest(a, b);
    return nearest === floor + 1n ? this.way.apply("-", quotient, this.#integer(1n)) : quotient;
  }

  /** Adds a reading where calculators differ: remainders with negative numbers.
   * @type {(node: Expression, a: Real, b: Real) => void} */
  #sayFloor({ sign, operands, text: typed }, a, b) {
    if (a.sign() * b.sign() >= 0 || this.readings.length >= MAX_READINGS || isWhole(a.over(b))) return;
    const read = format(READINGS[sign], { a: operands[0].text, b: operands[1].text });
    this.readings.push({ text: format(READINGS.all, { typed, read }), alternative: null });
  }

  /** Adds an operation.
   * @throws {ArithmeticError | ExpressionError}
   * @type {(a: Operand, op: string, b: Operand, places: number) => Operand} */
  ask = (a, op, b, places) => {
    const { text, start, end } = this.parts.nodes[this.#index];
    spend(20 + (bitLength(a.number.units) + bitLength(b.number.units)) / 50);
    if (this.steps.length === MAX_OPERATIONS) throw new ExpressionError("too-long", MESSAGES.operations, start, end);
    const step = { a, op, b, places, text, start, end, path: this.path };
    this.steps.push(step);
    return { number: rightAnswer(step), step: this.steps.length - 1 };
  };
}

/** Rounds each operation to the places of the answer and some guard places.
 * @type {(planner: Planner<Operand>) => Way<Operand>} */
export const rounding = (planner) => ({
  typed: given,
  number: ({ n }) => given(n),
  constant(value, morePlaces = 3) {
    const places = Math.min(MAX_PLACES, planner.stepPlaces + morePlaces);
    if (value.exact) {
      const number = roundTo(value.exact, Math.max(places, MAX_ASKED_PLACES));
      if (compare(valueOfNumber(number), value.exact) === 0) return given(number);
    }
    return given(roundTo(value.rounded(places), places));
  },
  value: ({ number }) => valueOfNumber(number),
  isZero(value) {
    const { n, d } = value.approximate();
    return 2n * magnitude(n) * 10n ** BigInt(planner.stepPlaces) < d;
  },
  apply: (op, a, b) => planner.ask(a, op, b, planner.stepPlaces),
  rounded(a, places) {
    const isShort = areEqual(a.number, roundTo(valueOfNumber(a.number), places));
    return isShort ? a : planner.ask(a, "+", given(0n), places);
  },
  nearest(a, b) {
    const quotient = planner.ask(a, "/", b, 0);
    return [quotient, quotient.number.units];
  },
  finish(value) {
    const { steps, places, stepPlaces } = planner;
    const last = steps.length - 1;
    const isLast = value.step !== null && value.step === last;
    if (isLast && steps[last].places === places) return value;
    if (isLast && steps[last].places === stepPlaces) {
      steps[last] = { ...steps[last], places };
      return { number: rightAnswer(steps[last]), step: last };
    }
    const isFinished = isLast || areEqual(value.number, planner.parts.right);
    return isFinished ? value : planner.ask(value, "+", given(0n), places);
  },
});

/** Works out numerator `n` and denominator `d` as whole numbers, and divides once. A denominator of null is 1.
 * @typedef {{n: Operand, d: Operand | null}} Ratio
 * @type {(planner: Planner<Ratio>) => Way<Ratio>} */
export const fractions = (planner) => {
  /** @type {(a: Operand, op: string, b: Operand) => Operand} */
  const ask = (a, op, b) => planner.ask(a, op, b, planner.places);
  /** @type {(a: Operand | null, b: Operand | null) => Operand | null} */
  const times = (a, b) => (a && b ? ask(a, "*", b) : (a ?? b));
  /** @type {Way<Ratio>["apply"]} */
  const apply = (op, { n, d }, { n: m, d: e }) => {
    if (op === "*") return { n: ask(n, "*", m), d: times(d, e) };
    if (op === "/") return { n: times(n, e) ?? n, d: times(m, d) };
    if (d?.number.units === e?.number.units && d?.step === e?.step) return { n: ask(n, op, m), d };
    return { n: ask(times(n, e) ?? n, op, times(m, d) ?? m), d: times(d, e) };
  };
  /** @type {Way<Ratio>["number"]} */
  const number = ({ n, d }) => ({ n: given(n), d: d > 1n ? given(d) : null });
  return {
    typed: (decimal) => number(valueOfNumber(decimal)),
    number,
    constant({ exact }) {
      if (!exact) throw new ArithmeticError();
      return number(exact);
    },
    value({ n, d }) {
      if (d?.number.units === 0n) throw new ArithmeticError();
      return fraction(n.number.units, d?.number.units ?? 1n);
    },
    isZero: (value) => !value.sign(),
    apply,
    rounded() {
      throw new ArithmeticError();
    },
    nearest(a, b) {
      const { n, d } = apply("/", a, b);
      const quotient = planner.ask(n, "/", /** @type {Operand} */ (d), 0);
      return [{ n: quotient, d: null }, quotient.number.units];
    },
    finish: ({ n, d }) => (d ? ask(n, "/", d) : n),
  };
};

/** Returns an operand that is no result. @type {(value: Decimal | bigint) => Operand} */
function given(value) {
  return { number: typeof value === "bigint" ? new Decimal(value) : value, step: null };
}

/** Returns the problem of an operation, with the right operands. @param {Step} step */
export function problemOf({ a, op, b, places }) {
  return { a: a.number, op, b: b.number, places };
}

/** Returns the right answer to an operation.
 * @param {Step} step
 * @throws {ArithmeticError} */
function rightAnswer(step) {
  if (step.places > MAX_PLACES) throw new ArithmeticError();
  const { value } = answer(problemOf(step));
  if (!value || magnitude(value.units) >= TOO_LARGE) throw new ArithmeticError();
  return value;
}
