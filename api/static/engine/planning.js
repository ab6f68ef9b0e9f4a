// Plans: which operations the model is asked, so that the whole expression is rounded once
// (calcgpt/inference/planning.py).
//
// Operations before the last keep guard places: the fewest with which the result is the exact value of the
// expression, rounded to the places asked for. If no number of guard places is enough, as for 1/3*3+0.5 to 0
// places, a plan works out the numerator and the denominator of the value, and divides once.

import { MAX_ASKED_PLACES, MAX_PLACES } from "./arithmetic.js";
import { evaluate, plainText, roundTo } from "./exact.js";
import { ExpressionError } from "./expression_errors.js";
import { isConstant, postorder } from "./expression_tree.js";
import { refuseWork } from "./limits.js";
import { OPERATIONS } from "./operations.js";
import { Planner, areEqual, fractions, problemOf, rounding, scaled } from "./planners.js";
import tables from "./tables.js";
import { format, formatCount, shorten } from "./text.js";

const SCALES = [4, 8, 12, 16, 20, 24]; // decimal places beyond those of a number, where a function needs them
const { MAX_DIGITS, MESSAGES, PROGRAMS } = tables;

/** @import { Reading } from "./expression_stack.js" */
/** @import { Expression } from "./expression_tree.js" */
/** @import { Fraction } from "./fractions.js" */
/** @import { Limits, Refusal } from "./limits.js" */
/** @import { Operand, Parts, Step, Way } from "./planners.js" */
/** @typedef {{refusal: Refusal, start: number, end: number}} Refused a refusal and the position of its part */

/** The operations of an expression, operands first, and its value by them. exact: without rounding; guardPlaces: the
 * places that operations before the last keep beyond those of the result, or null if numerator and denominator are
 * worked out instead.
 * @typedef {{steps: Step[], result: Operand, exact: Fraction, guardPlaces: number | null, readings: Reading[]}} Plan */

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
 * @throws {ExpressionError} if the expression has no value, or if it is outside the limits
 * @type {(root: Expression, places: number, limits: Limits) => Plan} */
export function makePlan(root, places, limits) {
  let first = null;
  for (const plan of plans(root, places, limits)) {
    const refused = refusalOf(plan, root, limits);
    if (!refused) return plan;
    first ??= refused;
  }
  if (first) throw new ExpressionError(first.refusal.kind, first.refusal.reason, first.start, first.end);
  const reason = format(MESSAGES.work, { digits: formatCount(MAX_DIGITS), places: MAX_PLACES });
  throw new ExpressionError("out-of-range", reason, root.start, root.end);
}

/** Yields plans in the order in which they are to be tried. All are right, except the last one of a model whose places
 * are fixed.
 * @type {(root: Expression, places: number, limits: Limits) => Generator<Plan>} */
function* plans(root, places, limits) {
  const { mostPlaces } = limits;
  const operations = Object.fromEntries(limits.operations.map((sign) => [OPERATIONS[sign].spellings[0], sign]));
  const parts = { nodes: postorder(root), texts: postorder(root).map(({ text }) => text), values: evaluate(root), operations };
  const isNear = approaches(parts);
  const right = roundTo(parts.values[parts.values.length - 1].value, places);
  if (isNear && mostPlaces < MAX_PLACES) {
    throw new ExpressionError("out-of-range", MESSAGES.direct, root.start, root.end);
  }
  let first = null;
  let isFound = false;
  for (const guardPlaces of guesses(Math.min(mostPlaces, MAX_ASKED_PLACES) - places, isNear)) {
    const plan = planOf(parts, rounding(places, guardPlaces), guardPlaces);
    if (!plan) continue;
    first ??= plan;
    if (!areEqual(plan.result.number, right)) continue;
    yield plan; // more guard places do not make numbers shorter
    isFound = true;
    break;
  }
  for (const scale of isNear && !isFound ? SCALES : []) {
    const plan = planOf(parts, scaled(places, scale), MAX_ASKED_PLACES + scale - places);
    if (!plan || !areEqual(plan.result.number, right)) continue;
    yield plan;
    break;
  }
  const byFractions = isNear ? null : planOf(parts, fractions(places), null);
  if (byFractions) yield byFractions;
  if (mostPlaces < MAX_PLACES && first) yield first;
}

/** Returns the guard places to try. There are fewer for functions, whose plans take longer to make.
 * @type {(most: number, isNear: boolean) => number[]} */
function guesses(most, isNear) {
  const all = Array.from({ length: Math.max(0, most + 1) }, (_, guardPlaces) => guardPlaces);
  if (!isNear) return all;
  return all.filter((guardPlaces) => guardPlaces % 3 === 2 || guardPlaces >= most - 1);
}

/** @type {(parts: Parts, way: (planner: Planner<any>) => Way<any>, guardPlaces: number | null) => Plan | null} */
function planOf(parts, way, guardPlaces) {
  const planner = new Planner(parts, way);
  const result = planner.plan();
  if (!result) return null;
  const { steps, readings } = planner;
  const exact = parts.values[parts.values.length - 1].value;
  return { steps, result, exact, guardPlaces, readings };
}

/** Returns whether a part has a program that only approaches its value. @param {Parts} parts */
function approaches({ nodes, values }) {
  const valueOf = new Map(nodes.map((node, index) => [node, values[index].value]));
  return nodes.some((node) => {
    if (node.sign === "^") return valueOf.get(node.operands[1])?.d !== 1n;
    return isConstant(node) || (Object.hasOwn(PROGRAMS, node.sign) && !PROGRAMS[node.sign].is_exact);
  });
}
