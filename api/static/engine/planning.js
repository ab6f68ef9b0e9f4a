// Plans: which operations the model is asked, so that the whole expression is rounded once
// (calcgpt/inference/planning.py).
//
// Operations before the last keep guard places: the fewest with which the result is the value of the expression,
// rounded to the places asked for. That value is known (exact.js), and the plan calculates what the model should answer,
// so it knows whether it ends there. If no number of guard places is enough, as for 1/3*3+0.5 to 0 places, a plan works
// out the numerator and the denominator of the value, and divides once.

import { MAX_PLACES } from "./arithmetic.js";
import { ArithmeticError } from "./effort.js";
import { areEqual, errorOf, evaluate, plainText, roundTo } from "./exact.js";
import { ExpressionError } from "./errors.js";
import { postorder } from "./expression_tree.js";
import { refuseWork } from "./limits.js";
import { OPERATIONS } from "./operations.js";
import { Planner, fractions, problemOf, rounding } from "./planners.js";
import { UndecidedError, isWhole } from "./real.js";
import { morePlaces } from "./sensitivity.js";
import { simplify } from "./simplify.js";
import tables from "./tables.js";
import { shorten } from "./text.js";

// Guard places to try, of arithmetic and of functions. Between two of them, the fewest are found by bisection.
const GUARDS = [0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48];
const GUARDS_OF_FUNCTIONS = [3, 7, 15, 30, 60, 120, 240, 480];
const { MAX_DIGITS, MESSAGES, PROGRAMS } = tables;
const CONSTANTS = new Set(Object.values(tables.CONSTANTS));
const isConstant = (/** @type {Expression} */ { sign }) => CONSTANTS.has(sign);


/** @import { Reading } from "./expression_stack.js" */
/** @import { Expression } from "./expression_tree.js" */
/** @import { Fraction } from "./fractions.js" */
/** @import { Limits, Refusal } from "./limits.js" */
/** @import { Operand, Step, Way } from "./planners.js" */
/** @import { Real } from "./real.js" */
/** @typedef {{refusal: Refusal, start: number, end: number}} Refused a refusal and the position of its part */

/** The operations of an expression, operands first, and its value by them. value: without rounding; isRounded: whether
 * it differs from the rounded one, null if that is undecided; guardPlaces: the
 * places that operations before the last keep beyond those of the result, or beyond what a function of it needs; null
 * if numerator and denominator are worked out instead.
 * @typedef {{steps: Step[], result: Operand, value: Real, rounded: Fraction, isRounded: boolean | null,
 * guardPlaces: number | null, readings: Reading[]}} Plan */

/** Returns why a model is not asked all operations of a plan, or null.
 * @type {(plan: Plan, root: Expression, limits: Limits) => Refused | null} */
function refusalOf({ steps, guardPlaces }, root, limits) {
  // As a fraction, a number may have any number of places. A model whose places are fixed would be asked products and
  // quotients where a person has typed a sum.
  const areFractions = guardPlaces === null && limits.mostPlaces === MAX_PLACES;
  for (const { sign, number, start, end } of steps.length && !areFractions ? postorder(root) : []) {
    const refusal = sign ? null : limits.refuseOperand(number);
    if (refusal) return { refusal, start, end };
  }
  let nCharacters = 0;
  for (const step of steps) {
    for (const { number, step: index } of [step.a, step.b]) {
      const refusal = limits.refuseOperand(number);
      if (!refusal) continue;
      const { text, start, end } = index === null ? step : steps[index];
      const reason = `${text} needs ${shorten(plainText(number))}: ${refusal.reason}`;
      return { refusal: { ...refusal, reason }, start, end };
    }
    const { text, start, end } = step;
    const refusal = limits.refuseProblem(problemOf(step));
    if (refusal) return { refusal: { ...refusal, reason: `${text}: ${refusal.reason}` }, start, end };
    nCharacters += limits.nCharacters(problemOf(step));
  }
  const refusal = refuseWork(nCharacters);
  return refusal && { refusal, start: root.start, end: root.end };
}

/** Returns the plan of an expression whose result is rounded to `places`. The result of a model whose places are fixed
 * may be off.
 * @throws {ExpressionError} if the expression has no value, if its value is not decided, or if it is outside the limits
 * @type {(root: Expression, places: number, limits: Limits) => Plan} */
export function makePlan(root, places, limits) {
  try {
    const plans = new Plans(root, places, limits);
    let first = null;
    for (const plan of plans.inOrder()) {
      const refused = refusalOf(plan, root, limits);
      if (!refused) return plan;
      first ??= refused;
    }
    if (first) throw new ExpressionError(first.refusal.kind, first.refusal.reason, first.start, first.end);
    throw plans.error ?? new ExpressionError("out-of-range", MESSAGES["no-plan"], root.start, root.end);
  } catch (error) {
    throw error instanceof ArithmeticError ? errorOf(error, root) : error;
  }
}

/** Returns whether a value was changed by rounding; null if that is undecided.
 * @type {(value: Real, rounded: Fraction) => boolean | null} */
function differ(value, rounded) {
  try {
    return value.compare(rounded) !== 0;
  } catch (error) {
    if (error instanceof UndecidedError) return null;
    throw error;
  }
}

/** The plans of an expression that are right, in the order in which they are to be tried. */
class Plans {
  /** @type {ExpressionError | null} */ error = null; // the first
  #value;
  #rounded;
  #isRounded;
  #places;
  #mostPlaces;
  #approaches;
  #parts;

  /** @param {Expression} root @param {number} places @param {Limits} limits */
  constructor(root, places, { mostPlaces, operations: known }) {
    let values = evaluate(root);
    this.#value = values[values.length - 1].settle();
    this.#places = places;
    this.#mostPlaces = mostPlaces;
    if (this.#value.size() > MAX_DIGITS) throw new ArithmeticError();
    this.#rounded = this.#value.rounded(places);
    this.#isRounded = differ(this.#value, this.#rounded);
    const simpler = simplify(root, values);
    if (simpler !== root) [root, values] = [simpler, evaluate(simpler)];
    const nodes = postorder(root);
    this.#approaches = approaches(nodes, values);
    if (this.#approaches && mostPlaces < MAX_PLACES) {
      throw new ExpressionError("out-of-range", MESSAGES.direct, root.start, root.end);
    }
    const more = this.#approaches ? morePlaces(nodes, values) : nodes.map(() => 0);
    const operations = Object.fromEntries(known.map((sign) => [OPERATIONS[sign].spellings[0], sign]));
    this.#parts = { nodes, values, morePlaces: more, operations, right: roundTo(this.#rounded, places) };
  }

  /** Yields plans. All are right, except the last one of a model whose places are fixed. @returns {Generator<Plan>} */
  *inOrder() {
    const most = this.#mostPlaces - this.#places;
    let tooFew = -1;
    for (const guardPlaces of this.#approaches ? GUARDS_OF_FUNCTIONS : GUARDS) {
      if (guardPlaces > most) break;
      const plan = this.#rightPlan(guardPlaces);
      if (plan) {
        yield this.#fewest(tooFew + 1, guardPlaces, plan);
        break;
      }
      tooFew = guardPlaces;
    }
    const byFractions = this.#approaches ? null : this.#plan(fractions, 0, null);
    if (byFractions) yield byFractions;
    const last = most < MAX_PLACES - this.#places ? this.#plan(rounding, 0) : null;
    if (last) yield last;
  }

  /** Returns the plan with the fewest guard places from `least` on, given one that is right.
   * @type {(least: number, guardPlaces: number, plan: Plan) => Plan} */
  #fewest(least, guardPlaces, plan) {
    while (least < guardPlaces) {
      const middle = (least + guardPlaces) >> 1;
      const better = this.#rightPlan(middle);
      if (better) [plan, guardPlaces] = [better, middle];
      else least = middle + 1;
    }
    return plan;
  }

  /** @param {number} guardPlaces */
  #rightPlan(guardPlaces) {
    const plan = this.#plan(rounding, guardPlaces);
    return plan && areEqual(plan.result.number, this.#parts.right) ? plan : null;
  }

  /** @type {(way: (planner: Planner<any>) => Way<any>, more: number, guardPlaces?: number | null) => Plan | null} */
  #plan(way, more, guardPlaces = more) {
    const planner = new Planner(this.#parts, this.#places, this.#places + more, way);
    let result;
    try {
      result = planner.plan();
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      this.error ??= error; // too many operations, perhaps because a series diverges
      return null;
    }
    if (!result) return null;
    const { steps, readings } = planner;
    const values = { value: this.#value, rounded: this.#rounded, isRounded: this.#isRounded };
    return { steps, result, ...values, guardPlaces, readings };
  }
}

/** Returns whether a part has a program that only approaches its value.
 * @type {(nodes: Expression[], values: Real[]) => boolean} */
function approaches(nodes, values) {
  const valueOf = new Map(nodes.map((node, index) => [node, values[index]]));
  return nodes.some((node) => {
    if (node.sign === "^") return !isWhole(/** @type {Real} */ (valueOf.get(node.operands[1])));
    return isConstant(node) || (Object.hasOwn(PROGRAMS, node.sign) && !PROGRAMS[node.sign].isExact);
  });
}
