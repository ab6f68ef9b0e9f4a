// What planning takes, which is bounded: no text keeps a planner busy for long (calcgpt/inference/effort.py).

import { ArithmeticError } from "./errors.js";

const MAX_EFFORT = 500_000; // microseconds of a usual core, about
let left = Infinity;

/** Planning an expression takes more than MAX_EFFORT. */
export class EffortError extends ArithmeticError {}

/** Returns what a function returns in which `spend` is bounded. @template T @param {() => T} plan @returns {T} */
export function bounded(plan) {
  left = MAX_EFFORT;
  try {
    return plan();
  } finally {
    left = Infinity;
  }
}

/** Counts n microseconds of work.
 * @param {number} n
 * @throws {EffortError} if that makes too much of it */
export function spend(n) {
  left -= n;
  if (left < 0) throw new EffortError();
}
