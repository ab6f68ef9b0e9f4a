// Planners: they make operations of an expression, each for the model, and the value by them
// (calcgpt/inference/planners.py). A planner calculates with exact arithmetic what the model should answer.

import { MAX_ASKED_PLACES as MAX_PLACES, answer } from "./arithmetic.js";
import { plainText, roundTo } from "./exact.js";
import { ExpressionError } from "./expression_errors.js";
import { isConstant, isFunction, show } from "./expression_tree.js";
import { compare, floor, fraction, magnitude, timesTen, whole } from "./fractions.js";
import { run } from "./programs.js";
import { ArithmeticError } from "./real.js";
import tables from "./tables.js";
import { format, shorten } from "./text.js";

const { MAX_DIGITS, MAX_OPERATIONS, MAX_READINGS, MESSAGES, READINGS } = tables;
const TOO_LARGE = 10n ** BigInt(2 * MAX_DIGITS); // for a plan; rounded numbers may be larger than exact ones
const TOO_LARGE_OF_PROGRAM = 10n ** 100n; // no operand has so many digits

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

/** The nodes of an expression in the order of `postorder`, their texts and values, and the operations that the model
 * knows, by the signs of nodes.
 * @typedef {{nodes: Expression[], texts: string[], values: Real[], operations: Record<string, string>}} Parts */

/** A number of a plan and its exact value. @template T @typedef {{number: T, value: Fraction}} Term */

/** How the values of parts are represented as T. typed: a number that was typed; number: a whole one; constant: one
 * that the planner has worked out, to the places of the operations and some more; value: of a T; isZero: whether a
 * value is 0 at the places of the operations; apply: the result of an operation; rounded: to some places; nearest: the
 * whole number nearest to a / b, also as an integer; finish: the result, rounded to the places of the answer.
 * @template T
 * @typedef {{typed: (number: Decimal) => T, number: (value: Fraction) => T,
 *   constant: (value: Fraction, morePlaces?: number) => T, value: (number: T) => Fraction,
 *   isZero: (value: Fraction) => boolean, apply: (op: string, a: T, b: T) => T,
 *   rounded: (a: T, places: number) => T, nearest: (a: T, b: T) => [T, bigint], finish: (value: T) => Operand}} Way */

/** Makes the operations of an expression. @template T */
export class Planner {
  /** @type {Step[]} */ steps = [];
  /** @type {Reading[]} */ readings = [];
  /** @type {string[]} */ path = [];
  #index = 0; // of the part that is planned

  /** @param {Parts} parts @param {(planner: Planner<any>) => Way<T>} way */
  constructor(parts, way) {
    this.parts = parts;
    this.way = way(this);
  }

  /** Plans all operations and returns the result, or null after an ArithmeticError.
   * @returns {Operand | null}
   * @throws {ExpressionError} for more than MAX_OPERATIONS */
  plan() {
    const { nodes, values } = this.parts;
    /** @type {Term<T>[]} */ const waiting = [];
    try {
      for (const [index, real] of values.entries()) {
        this.#index = index;
        const node = nodes[index];
        const operands = waiting.splice(waiting.length - node.operands.length);
        if (node.sign === "//" || node.sign === "mod") this.#sayFloor(node, operands[0].value, operands[1].value);
        waiting.push({ number: this.operation(node, operands, real), value: real.value });
      }
      return this.way.finish(waiting[0].number);
    } catch (error) {
      if (error instanceof ArithmeticError) return null;
      throw error;
    }
  }

  /** Plans a node, given its operands, and its exact value if it is known.
   * @type {(node: Expression, operands: Term<T>[], real: Real | null) => T} */
  operation(node, operands, real) {
    const { sign } = node;
    const { apply } = this.way;
    if (!sign) return this.way.typed(node.number);
    if (isConstant(node)) return this.way.constant(/** @type {Real} */ (real).value);
    if (isFunction(node, operands.map(({ value }) => value))) return run(this, sign, operands);
    const { number: a, value: exact } = operands[0];
    if (sign === "%") return apply("/", a, this.#integer(100n));
    if (sign === "||") return exact.n >= 0n ? a : apply("-", this.#integer(0n), a);
    if (sign === "!") return this.#factorial(exact.n);
    const { number: b, value: second } = operands[1];
    if (sign === "^") return this.#power(a, second.n);
    if (sign === "+%" || sign === "-%") return apply(sign[0], a, apply("*", b, a));
    const operation = this.parts.operations[sign];
    if (operation) return apply(operation, a, b);
    const quotient = this.#floor(a, b, floor(exact, second));
    return sign === "//" ? quotient : apply("-", a, apply("*", quotient, b));
  }

  /** @param {bigint} n */
  #integer(n) {
    return this.way.number(whole(n));
  }

  /** Plans a power by repeated squaring, from the highest binary digit of the exponent on.
   * @type {(base: T, exponent: bigint) => T} */
  #power(base, exponent) {
    if (!exponent) return this.#integer(1n);
    let power = base;
    for (const digit of magnitude(exponent).toString(2).slice(1)) {
      power = this.way.apply("*", power, power);
      if (digit === "1") power = this.way.apply("*", power, base);
    }
    return exponent < 0n ? this.way.apply("/", this.#integer(1n), power) : power;
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
   * @type {(node: Expression, a: Fraction, b: Fraction) => void} */
  #sayFloor({ sign, operands }, a, b) {
    const isWhole = (a.n * b.d) % (a.d * b.n) === 0n;
    if (a.n < 0n === b.n < 0n || isWhole || this.readings.length >= MAX_READINGS) return;
    const [left, right] = operands.map((operand) => shorten(show(operand)));
    const read = format(READINGS[sign], { a: left, b: right });
    const text = format(READINGS.all, { typed: this.parts.texts[this.#index], read });
    this.readings.push({ text, alternative: null });
  }

  /** Adds an operation.
   * @throws {ArithmeticError | ExpressionError}
   * @type {(a: Operand, op: string, b: Operand, places: number) => Operand} */
  ask = (a, op, b, places) => {
    const { start, end } = this.parts.nodes[this.#index];
    if (this.steps.length === MAX_OPERATIONS) throw new ExpressionError("too-long", MESSAGES.operations, start, end);
    const step = { a, op, b, places, text: this.parts.texts[this.#index], start, end, path: this.path };
    this.steps.push(step);
    const number = rightAnswer(step);
    if (this.path.length && magnitude(number.units) >= TOO_LARGE_OF_PROGRAM * 10n ** BigInt(number.places)) {
      throw new ArithmeticError();
    }
    return { number, step: this.steps.length - 1 };
  };
}

/** Rounds each operation to the places of the answer and some guard places.
 * @type {(places: number, guardPlaces: number) => (planner: Planner<Operand>) => Way<Operand>} */
export const rounding = (places, guardPlaces) => (planner) => ({
  typed: given,
  number: ({ n }) => given(n),
  constant(value, morePlaces = 3) {
    const number = roundTo(value, MAX_PLACES);
    if (compare(valueOf(number), value) === 0) return given(number);
    return given(roundTo(value, Math.min(MAX_PLACES, places + guardPlaces + morePlaces)));
  },
  value: ({ number }) => valueOf(number),
  isZero: ({ n, d }) => 2n * magnitude(n) * 10n ** BigInt(places + guardPlaces) < d,
  apply: (op, a, b) => planner.ask(a, op, b, places + guardPlaces),
  rounded(a, places) {
    return areEqual(a.number, roundTo(valueOf(a.number), places)) ? a : planner.ask(a, "+", given(0n), places);
  },
  nearest(a, b) {
    const quotient = planner.ask(a, "/", b, 0);
    return [quotient, quotient.number.units];
  },
  finish(value) {
    const { steps, parts } = planner;
    const last = steps.length - 1;
    const isLast = value.step !== null && value.step === last;
    if (isLast && steps[last].places === places + guardPlaces) {
      steps[last] = { ...steps[last], places };
      return { number: rightAnswer(steps[last]), step: last };
    }
    const isFinished = isLast || areEqual(value.number, roundTo(parts.values[parts.values.length - 1].value, places));
    return isFinished ? value : planner.ask(value, "+", given(0n), places);
  },
});

/** Works with numbers times 10**scale, because no number has more than MAX_PLACES places. The `scale` of a number is 0
 * if it was typed or is known exactly.
 * @typedef {{n: Operand, scale: number}} Scaled
 * @type {(places: number, most: number) => (planner: Planner<Scaled>) => Way<Scaled>} */
export const scaled = (places, most) => (planner) => {
  const { ask } = planner;
  /** Returns a number times a power of ten. A constant is written so. @type {(n: Operand, zeros: number) => Operand} */
  const times = (n, zeros) => {
    if (!zeros) return n;
    if (n.step !== null) return ask(n, "*", given(10n ** BigInt(zeros)), MAX_PLACES);
    return given(roundTo(timesTen(valueOf(n.number), zeros), MAX_PLACES));
  };
  /** Returns a number divided by 10**most, rounded. @type {(a: Scaled, places?: number) => Operand} */
  const divided = ({ n, scale }, places = MAX_PLACES) => {
    if (scale) return ask(n, "/", given(10n ** BigInt(most)), places);
    return areEqual(n.number, roundTo(valueOf(n.number), places)) ? n : ask(n, "+", given(0n), places);
  };
  return {
    typed: (number) => ({ n: given(number), scale: 0 }),
    number: ({ n }) => ({ n: given(n), scale: 0 }),
    constant(value) {
      const number = roundTo(value, MAX_PLACES);
      if (compare(valueOf(number), value) === 0) return { n: given(number), scale: 0 };
      return { n: given(roundTo(timesTen(value, most), MAX_PLACES)), scale: most };
    },
    value: ({ n, scale }) => timesTen(valueOf(n.number), -scale),
    isZero: ({ n, d }) => 2n * magnitude(n) * 10n ** BigInt(MAX_PLACES + most) < d,
    rounded: (a, places) => ({ n: divided(a, places), scale: 0 }),
    apply(op, a, b) {
      if (op === "*") {
        const product = { n: ask(a.n, op, b.n, MAX_PLACES), scale: a.scale + b.scale };
        return product.scale <= most ? product : { n: divided(product), scale: most };
      }
      const isQuotient = op === "/";
      const left = times(a.n, most + (isQuotient ? b.scale : 0) - a.scale);
      const right = isQuotient ? b.n : times(b.n, most - b.scale);
      return { n: ask(left, op, right, MAX_PLACES), scale: most };
    },
    nearest(a, b) {
      const scale = Math.max(a.scale, b.scale);
      const quotient = ask(times(a.n, scale - a.scale), "/", times(b.n, scale - b.scale), 0);
      return [{ n: quotient, scale: 0 }, quotient.number.units];
    },
    finish: (value) => divided(value, places),
  };
};

/** Works out numerator `n` and denominator `d` as whole numbers, and divides once. A denominator of null is 1.
 * @typedef {{n: Operand, d: Operand | null}} Ratio
 * @type {(places: number) => (planner: Planner<Ratio>) => Way<Ratio>} */
export const fractions = (places) => (planner) => {
  /** @type {(a: Operand, op: string, b: Operand) => Operand} */
  const ask = (a, op, b) => planner.ask(a, op, b, places);
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
    typed: (decimal) => number(valueOf(decimal)),
    number,
    constant: number,
    value({ n, d }) {
      if (d?.number.units === 0n) throw new ArithmeticError();
      return fraction(n.number.units, d?.number.units ?? 1n);
    },
    isZero: ({ n }) => n === 0n,
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
  return { number: typeof value === "bigint" ? { units: value, places: 0 } : value, step: null };
}

/** @param {Decimal} number */
function valueOf({ units, places }) {
  return fraction(units, 10n ** BigInt(places));
}

/** @type {(a: Decimal, b: Decimal) => boolean} */
export function areEqual(a, b) {
  return plainText(a) === plainText(b);
}

/** Returns the problem of an operation, with the right operands. @param {Step} step */
export function problemOf({ a, op, b, places }) {
  return { a: a.number, op, b: b.number, places };
}

/** Returns the right answer to an operation.
 * @param {Step} step
 * @throws {ArithmeticError} */
function rightAnswer(step) {
  const { value } = answer(problemOf(step));
  if (!value || magnitude(value.units) >= TOO_LARGE) throw new ArithmeticError();
  return value;
}
