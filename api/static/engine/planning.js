// Plans: which operations the model is asked, so that the whole expression is rounded once
// (calcgpt/inference/planning.py).
//
// Operations before the last keep guard places: the fewest with which the result is the exact value of the
// expression, rounded to the places asked for. If no number of guard places is enough, as for 1/3*3+0.5 to 0
// places, a plan works out the numerator and the denominator of the value, and divides once.

import { MAX_PLACES, answer } from "./arithmetic.js";
import { evaluate, floor, plainText, roundTo, whole } from "./exact.js";
import { ExpressionError } from "./expression_errors.js";
import { postorder, show, texts } from "./expression_tree.js";
import { OPERATIONS } from "./operations.js";
import tables from "./tables.js";
import { format, formatCount, shorten } from "./text.js";

const MAX_WORK = 400_000; // characters that a model writes for an expression
const { MAX_DIGITS, MAX_OPERATIONS, MAX_READINGS, MESSAGES, READINGS } = tables;
const TOO_LARGE = 10n ** BigInt(2 * MAX_DIGITS); // for a plan; rounded numbers may be larger than exact ones

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Fraction } from "./exact.js" */
/** @import { Reading } from "./expression_stack.js" */
/** @import { Expression } from "./expression_tree.js" */
/** @import { Refusal } from "./limits.js" */

/** A number that was typed, or the result of an operation. number: the right one; step: the index of the operation.
 * @typedef {{number: Decimal, step: number | null}} Operand */

/** An operation that the model is asked, and the part of the expression that it belongs to.
 * @typedef {{a: Operand, op: string, b: Operand, places: number, text: string, start: number, end: number}} Step */

/** @typedef {{refusal: Refusal, start: number, end: number}} Refused a refusal and the position of its part */

/** The nodes of an expression in the order of `postorder`, their texts and exact values.
 * @typedef {{nodes: Expression[], texts: string[], values: Fraction[], operations: Record<string, string>}} Parts */

/** The operations of an expression, operands first, and its value by them. exact: without rounding; guardPlaces: the
 * places that operations before the last keep beyond those of the result, or null if numerator and denominator are
 * worked out instead; isInTestedRange: whether the model was measured for all operations.
 * @typedef {{steps: Step[], result: Operand, exact: Fraction, guardPlaces: number | null, readings: Reading[],
 * isInTestedRange: boolean}} Plan */

/** Returns why a model is not asked all operations of a plan, or null. A reason that a user can allow is returned only
 * if there is no other.
 * @type {(plan: Plan, root: Expression, limits: import("./limits.js").Limits) => Refused | null} */
function refusalOf(plan, root, limits) {
  let first = null;
  for (const refused of refusals(plan, root, limits)) {
    if (!isBeyondTested(refused)) return refused;
    first ??= refused;
  }
  return first;
}

/** @type {(plan: Plan, root: Expression, limits: import("./limits.js").Limits) => Generator<Refused>} */
function* refusals({ steps, guardPlaces }, root, limits) {
  for (const { sign, number, start, end } of steps.length && guardPlaces !== null ? postorder(root) : []) {
    const refusal = sign ? null : limits.refuseOperand(number);
    if (refusal) yield { refusal, start, end };
  }
  let nCharacters = 0;
  for (const step of steps) {
    for (const { number, step: index } of [step.a, step.b]) {
      const refusal = limits.refuseOperand(number);
      if (!refusal) continue;
      const { text, start, end } = index === null ? step : steps[index];
      const reason = `${text} needs ${shorten(plainText(number))}: ${refusal.reason}`;
      yield { refusal: { ...refusal, reason }, start, end };
    }
    const { text, start, end } = step;
    const refusal = limits.refuseProblem(problemOf(step));
    if (refusal) yield { refusal: { ...refusal, reason: `${text}: ${refusal.reason}` }, start, end };
    nCharacters += limits.nCharacters(problemOf(step));
  }
  if (nCharacters <= MAX_WORK) return;
  const reason = `the model would write more than ${formatCount(MAX_WORK)} characters`;
  yield { refusal: { kind: "too-long", reason }, start: root.start, end: root.end };
}

/** Returns the plan of an expression whose result is rounded to `places`. The result of a model whose places are fixed
 * may be off.
 * @throws {ExpressionError} if the expression has no value, or if it is outside the limits
 * @type {(root: Expression, places: number, limits: import("./limits.js").Limits,
 * allowsBeyondTested: boolean) => Plan} */
export function makePlan(root, places, limits, allowsBeyondTested) {
  let allowed = null;
  let first = null;
  for (const plan of plans(root, places, limits)) {
    const refused = refusalOf(plan, root, limits);
    if (!refused) return plan;
    if (allowsBeyondTested && isBeyondTested(refused)) allowed ??= { ...plan, isInTestedRange: false };
    first ??= refused;
  }
  if (allowed) return allowed;
  if (!first) throw new ExpressionError("out-of-range", MESSAGES.digits, root.start, root.end);
  const { refusal, start, end } = first;
  throw new ExpressionError(refusal.kind, refusal.reason, start, end);
}

/** Yields plans in the order in which they are to be tried. All are right, except those that no user can allow, and the
 * last one of a model whose places are fixed.
 * @type {(root: Expression, places: number, limits: import("./limits.js").Limits) => Generator<Plan>} */
function* plans(root, places, limits) {
  const { mostPlaces } = limits;
  const operations = Object.fromEntries(limits.operations.map((sign) => [OPERATIONS[sign].spellings[0], sign]));
  const parts = { nodes: postorder(root), texts: texts(root), values: evaluate(root), operations };
  const right = roundTo(parts.values[parts.values.length - 1], places);
  let first = null;
  for (let guardPlaces = 0; guardPlaces <= mostPlaces - places; guardPlaces += 1) {
    const plan = new Planner(parts, rounding(places, guardPlaces)).plan(guardPlaces);
    if (!plan) continue;
    const refused = first ? null : refusalOf(plan, root, limits);
    first ??= plan;
    const isOutside = refused && !isBeyondTested(refused);
    if (!isOutside && !areEqual(plan.result.number, right)) continue;
    yield plan; // more guard places do not make numbers shorter
    break;
  }
  const byFractions = new Planner(parts, fractions(places)).plan(null);
  if (byFractions) yield byFractions;
  if (mostPlaces < MAX_PLACES && first) yield first;
}

/** @param {Refused} refused */
function isBeyondTested({ refusal }) {
  return refusal.kind === "beyond-tested";
}

/** @type {(a: Decimal, b: Decimal) => boolean} */
function areEqual(a, b) {
  return plainText(a) === plainText(b);
}

/** An operation divides by a number that is rounded to 0, or has a result that is too large. */
class ArithmeticError extends Error {}

/** How the values of parts are represented as T. number: of one that was typed; apply: the result of an operation;
 * nearest: the whole number nearest to a / b, also as an integer; finish: the result, rounded to the places of the
 * answer.
 * @template T
 * @typedef {{number: (value: Fraction) => T, apply: (op: string, a: T, b: T) => T, nearest: (a: T, b: T) => [T, bigint],
 *   finish: (value: T) => Operand}} Way */

/** Makes the plan of an expression. @template T */
class Planner {
  /** @type {Step[]} */ steps = [];
  /** @type {Reading[]} */ #readings = [];
  #index = 0; // of the part that is planned
  #way;

  /** @param {Parts} parts @param {(planner: Planner<any>) => Way<T>} way */
  constructor(parts, way) {
    this.parts = parts;
    this.#way = way(this);
  }

  get node() {
    return this.parts.nodes[this.#index];
  }

  /** Returns the plan, or null after an ArithmeticError. Throws an ExpressionError for more than MAX_OPERATIONS.
   * @type {(guardPlaces: number | null) => Plan | null} */
  plan(guardPlaces) {
    const { nodes, values } = this.parts;
    /** @type {{made: T, value: Fraction}[]} */ const waiting = [];
    try {
      for (const [index, value] of values.entries()) {
        this.#index = index;
        const operands = waiting.splice(waiting.length - nodes[index].operands.length);
        waiting.push({ made: this.#plan(operands, value), value });
      }
      const [result, exact] = [this.#way.finish(waiting[0].made), waiting[0].value];
      return { steps: this.steps, result, exact, guardPlaces, readings: this.#readings, isInTestedRange: true };
    } catch (error) {
      if (error instanceof ArithmeticError) return null;
      throw error;
    }
  }

  /** Plans a node, given its operands with their exact values, and its exact value.
   * @type {(operands: {made: T, value: Fraction}[], value: Fraction) => T} */
  #plan([left, right], value) {
    const { sign } = this.node;
    if (!sign) return this.#way.number(value);
    const a = left.made;
    if (sign === "%") return this.#way.apply("/", a, this.#integer(100n));
    if (sign === "||") return left.value.n >= 0n ? a : this.#way.apply("-", this.#integer(0n), a);
    if (sign === "!") return this.#factorial(left.value.n);
    const b = right.made;
    if (sign === "^") return this.#power(a, right.value.n);
    if (sign === "+%" || sign === "-%") return this.#way.apply(sign[0], a, this.#way.apply("*", b, a));
    const isFloor = sign === "//" || sign === "mod";
    if (isFloor) this.#sayFloor(left.value, right.value);
    const operation = this.parts.operations[sign];
    if (operation || !isFloor) return this.#way.apply(operation, a, b);
    const quotient = this.#floor(a, b, floor(left.value, right.value));
    return sign === "//" ? quotient : this.#way.apply("-", a, this.#way.apply("*", quotient, b));
  }

  /** @param {bigint} n */
  #integer(n) {
    return this.#way.number(whole(n));
  }

  /** Plans a power by repeated squaring, from the highest binary digit of the exponent on.
   * @type {(base: T, exponent: bigint) => T} */
  #power(base, exponent) {
    if (!exponent) return this.#integer(1n);
    let power = base;
    for (const digit of (exponent < 0n ? -exponent : exponent).toString(2).slice(1)) {
      power = this.#way.apply("*", power, power);
      if (digit === "1") power = this.#way.apply("*", power, base);
    }
    return exponent < 0n ? this.#way.apply("/", this.#integer(1n), power) : power;
  }

  /** @param {bigint} n */
  #factorial(n) {
    let product = this.#integer(n < 2n ? 1n : 2n);
    for (let factor = 3n; factor <= n; factor += 1n) product = this.#way.apply("*", product, this.#integer(factor));
    return product;
  }

  /** Plans a quotient rounded down: the nearest whole number, or one less. @type {(a: T, b: T, floor: bigint) => T} */
  #floor(a, b, floor) {
    const [quotient, nearest] = this.#way.nearest(a, b);
    return nearest === floor + 1n ? this.#way.apply("-", quotient, this.#integer(1n)) : quotient;
  }

  /** Adds a reading where calculators differ: remainders with negative numbers.
   * @type {(a: Fraction, b: Fraction) => void} */
  #sayFloor(a, b) {
    const isWhole = (a.n * b.d) % (a.d * b.n) === 0n;
    if (a.n < 0n === b.n < 0n || isWhole || this.#readings.length >= MAX_READINGS) return;
    const { sign, operands } = this.node;
    const [left, right] = operands.map((operand) => shorten(show(operand)));
    const read = format(READINGS[sign], { a: left, b: right });
    const text = format(READINGS.all, { typed: this.parts.texts[this.#index], read });
    this.#readings.push({ text, alternative: null });
  }

  /** Adds an operation.
   * @throws {ArithmeticError | ExpressionError}
   * @type {(a: Operand, op: string, b: Operand, places: number) => Operand} */
  ask(a, op, b, places) {
    const { start, end } = this.node;
    if (this.steps.length === MAX_OPERATIONS) throw new ExpressionError("too-long", MESSAGES.operations, start, end);
    const step = { a, op, b, places, text: this.parts.texts[this.#index], start, end };
    this.steps.push(step);
    return { number: rightAnswer(step), step: this.steps.length - 1 };
  }
}

/** Rounds each operation to the places of the answer and some guard places.
 * @type {(places: number, guardPlaces: number) => (planner: Planner<Operand>) => Way<Operand>} */
const rounding = (places, guardPlaces) => (planner) => ({
  number: (value) => typed(planner.node.sign ? value.n : planner.node.number),
  apply: (op, a, b) => planner.ask(a, op, b, places + guardPlaces),
  nearest(a, b) {
    const quotient = planner.ask(a, "/", b, 0);
    return [quotient, quotient.number.units];
  },
  finish(value) {
    const { steps, parts } = planner;
    const { number, step: index } = value;
    if (index !== null && steps[index].places === places + guardPlaces) {
      steps[index] = { ...steps[index], places };
      return { number: rightAnswer(steps[index]), step: index };
    }
    const isRounded = index === null && !areEqual(number, roundTo(parts.values[parts.values.length - 1], places));
    return isRounded ? planner.ask(value, "+", typed(0n), places) : value;
  },
});

/** Works out numerator `n` and denominator `d` as whole numbers, and divides once. A denominator of null is 1.
 * @typedef {{n: Operand, d: Operand | null}} Ratio
 * @type {(places: number) => (planner: Planner<Ratio>) => Way<Ratio>} */
const fractions = (places) => (planner) => {
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
  return {
    number: ({ n, d }) => ({ n: typed(n), d: d > 1n ? typed(d) : null }),
    apply,
    nearest(a, b) {
      const { n, d } = apply("/", a, b);
      const quotient = planner.ask(n, "/", /** @type {Operand} */ (d), 0);
      return [{ n: quotient, d: null }, quotient.number.units];
    },
    finish: ({ n, d }) => (d ? ask(n, "/", d) : n),
  };
};

/** Returns an operand that is no result. @type {(value: Decimal | bigint) => Operand} */
function typed(value) {
  return { number: typeof value === "bigint" ? { units: value, places: 0 } : value, step: null };
}

/** Returns the problem of an operation, with the right operands. @param {Step} step */
function problemOf({ a, op, b, places }) {
  return { a: a.number, op, b: b.number, places };
}

/** Returns the right answer to an operation.
 * @param {Step} step
 * @throws {ArithmeticError} */
function rightAnswer(step) {
  const { value } = answer(problemOf(step));
  if (!value || value.units >= TOO_LARGE || -value.units >= TOO_LARGE) throw new ArithmeticError();
  return value;
}
