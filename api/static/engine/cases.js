// The cases: all that a rule of the worked steps may read, in work of any length, and what is right there. Python finds
// them by its rules (datagen/cases.py), this module by what the digits mean.
//
// A column of a row leaves a state: what the next column reads of it, and what is carried, which the next one may not
// see. From the states of a first column follow all others, whatever digits come, until there are no new ones. If two
// characters were right in one case, no network on cases could write both: that is an error.

import { KIND, MIN_DIVISOR } from "./operations.js";

/** The cases, by kind, kinds with fewer cases first. sources: MAX_SOURCES characters for each, as ASCII codes, 0 for
 * none; right: two characters that are right, which are the same but for some quotient digits.
 * @typedef {{kinds: Uint8Array, sources: Uint8Array, right: Uint8Array}} Cases */

export const MAX_SOURCES = 2 * MIN_DIVISOR + 1;
const LIMIT = 10 ** MIN_DIVISOR; // of leading digits
const MAX_SECOND = 8; // the largest digit that is right as the second nearest
const [DIGITS, SIGNS, NONE] = [[..."0123456789"], ["+", "-"], " "]; // what does not exist counts as 0
const CONSTANTS = {
  A_ZERO: "0", B_ZERO: "0", ROW_MARK: ";", REMAINDER_MARK: ";", REMAINDER_ZERO: "0", BROUGHT_ZERO: "0", EXACT_MARK: "|",
  RESULT_MARK: ":", EQUALS: "=", NAN: "n", ANSWER_N: "n", ANSWER_A: "a", ANSWER_POINT: ".", ANSWER_MINUS: "-",
  ANSWER_ZERO: "0", END: "$",
};
const COPIES = [
  "A_DIGIT", "B_DIGIT", "MULTIPLIER", "REMAINDER_COPY", "BROUGHT_DOWN", "PRODUCT_HALF", "PRODUCT_KEPT",
  "PRODUCT_RESULT", "ANSWER_DIGIT",
];

/** @type {(a: number, b: number) => number} */ const mod = (a, b) => ((a % b) + b) % b;
/** @param {boolean} isNegative */ const signOf = (isNegative) => (isNegative ? "-" : "+");
/** @param {string} sign */ const valueOf = (sign) => (sign === "-" ? -1 : Number(sign === "+"));
/** Returns all texts of a character of each list. @param {string[][]} lists */
const each = (...lists) => lists.reduce((all, list) => all.flatMap((text) => list.map((next) => text + next)));
const PAIRS = each(DIGITS, DIGITS);
/** Returns a mark: 1 instead of a 0 after a digit that is not 0. @type {(digit: number, before: string) => number} */
const mark = (digit, before) => digit || Number(Number(before) > 0);

/** Returns states and all that follow from them. @type {<S>(first: S[], next: (state: S) => S[]) => S[]} */
function closure(first, next) {
  const states = new Map(first.map((state) => [String(state), state]));
  for (const state of states.values()) { // those that are added are visited, too
    for (const after of next(state)) if (!states.has(String(after))) states.set(String(after), after);
  }
  return [...states.values()];
}

/** The cases that were found: by kind, what is right after what is read. */
class Found {
  /** @type {Map<number, Map<string, string>>} */ kinds = new Map();

  /** Adds a case and returns what is right.
   * @throws {RangeError} if something else is right in the same case
   * @type {(kind: number, read: string, right: string | number) => string} */
  add(kind, read, right) {
    const cases = this.kinds.get(kind) ?? new Map();
    this.kinds.set(kind, cases);
    const character = String(right);
    if ((cases.get(read) ?? character) !== character) throw new RangeError(`After ${read}, two characters are right.`);
    cases.set(read, character);
    return character;
  }
}

/** @param {Found} found */
function addOperands(found) {
  for (const before of ["-", "0", NONE]) {
    for (const kind of [KIND.A_SIGN, KIND.B_SIGN]) found.add(kind, before, signOf(before === "-"));
    for (const op of SIGNS) found.add(KIND.B_SIGN_OF_SUM, before + op, signOf((before === "-") !== (op === "-")));
  }
  for (const [a, b] of each(SIGNS, SIGNS)) {
    for (const kind of [KIND.SIGN, KIND.ADD_OR_SUBTRACT]) found.add(kind, a + b, signOf(a !== b));
  }
  for (const [name, character] of Object.entries(CONSTANTS)) found.add(KIND[name], "", character);
  for (const name of COPIES) for (const digit of DIGITS) found.add(KIND[name], digit, digit);
  for (const kind of [KIND.A_BELOW, KIND.PRODUCT_BELOW]) {
    for (const read of [...DIGITS, ...PAIRS]) found.add(kind, read, mark(Number(read[0]), read[1]));
  }
}

/** What a column leaves: what all columns of the row read, what the next one reads, and what is carried or borrowed.
 * @typedef {[shared: string, before: string, carry: number]} State */

/** @param {Found} found */
function addSums(found) {
  /** @type {(kind: number, states: State[], pairs?: string[]) => State[]} */
  const columns = (kind, states, pairs = PAIRS) => states.flatMap(([op, before, carry]) => pairs.map(([a, b]) => {
    const sum = Number(a) + valueOf(op) * (Number(b) + carry);
    const digit = found.add(kind, op + a + b + before, mod(sum, 10));
    return /** @type {State} */ ([op, a + b + digit, Number(sum < 0 || sum > 9)]);
  }));
  const lowest = columns(KIND.SUM_LOWEST, SIGNS.map((op) => [op, "", 0]));
  const all = closure(lowest, (state) => columns(KIND.SUM_DIGIT, [state]));
  const tops = [...new Set(columns(KIND.SUM_TOP, all, ["00"]).map(([, before]) => before[2]))];
  for (const top of tops) {
    found.add(KIND.MAGNITUDE_TOP, top, top === "9" ? 0 : top);
    for (const sign of SIGNS) found.add(KIND.SUM_SIGN, sign + top, signOf((sign === "-") !== (top === "9")));
  }
  // A sum below 0, whose top digit is 9, is subtracted from 0.
  /** @type {(kind: number, states: State[]) => State[]} */
  const magnitudes = (kind, states) => states.flatMap(([top, before, borrow]) => DIGITS.map((total) => {
    const digit = top === "9" ? mod(-Number(total) - borrow, 10) : Number(total);
    const right = found.add(kind, top + total + before, kind === KIND.SUM_BELOW ? mark(digit, before[1]) : digit);
    return /** @type {State} */ ([top, total + right, Number(Number(total) + borrow > 0)]);
  }));
  const first = tops.map((top) => /** @type {State} */ ([top, "", 0]));
  closure(magnitudes(KIND.MAGNITUDE_LOWEST, first), (state) => magnitudes(KIND.SUM_RESULT, [state]));
  const below = closure(magnitudes(KIND.SUM_BELOW, first), (state) => magnitudes(KIND.SUM_BELOW, [state]));
  const half = magnitudes(KIND.SUM_HALF, [...first, ...below]);
  closure(magnitudes(KIND.SUM_KEPT, half), (state) => magnitudes(KIND.SUM_KEPT, [state]));
}

/** The rows of products. The first has no row above. @param {Found} found */
function addProducts(found) {
  const rows = [[KIND.FIRST_DIGIT, KIND.FIRST_CARRY, [NONE]], [KIND.PRODUCT_DIGIT, KIND.PRODUCT_CARRY, DIGITS]];
  for (const [digit, carry, above] of /** @type {[number, number, string[]][]} */ (rows)) {
    closure(each(DIGITS, [NONE]), ([multiplier, before]) => each(DIGITS, above).map(([a, old]) => {
      const total = Number(old) + Number(multiplier) * Number(a) + Number(before);
      const read = multiplier + a + old + before;
      found.add(digit, read, total % 10);
      return multiplier + found.add(carry, read, Math.floor(total / 10));
    }));
  }
}

/** The rounding of sums and products, and their rounded digits. @param {Found} found */
function addRoundings(found) {
  for (const read of each(DIGITS, [...DIGITS, NONE], [...DIGITS, NONE])) {
    const [half, kept, below] = Array.from(read, Number);
    const isUp = half > 5 || (half === 5 && (below > 0 || kept % 2 === 1)); // a tie goes to the even digit
    found.add(KIND.ROUNDING, read, isUp ? "+" : "0");
  }
  const lowest = ["+", "0"].map((rounding) => /** @type {State} */ (["", NONE + rounding, valueOf(rounding)]));
  const states = closure(lowest, ([, before, carry]) => DIGITS.map((exact) => {
    const sum = Number(exact) + carry;
    return ["", exact + found.add(KIND.ROUNDED_RESULT, exact + before, sum % 10), Number(sum > 9)];
  }));
  for (const [, before, carry] of states) found.add(KIND.ROUNDED_TOP, NONE + before, carry); // above all digits
}

/** The rows of long divisions and their results. digits: all signed digits, such as `-3`.
 * @type {(found: Found, digits: string[]) => void} */
function addQuotients(found, digits) {
  for (const top of "09") found.add(KIND.DIVIDEND_SIGN, top, signOf(top === "9"));
  /** Returns what a column leaves of a remainder. @param {string} read */
  const rest = ([sign, q, b, old, carry]) => Number(old) - valueOf(sign) * (Number(q) * Number(b) + Number(carry));
  const carried = (/** @type {string} */ read) => {
    return found.add(KIND.REMAINDER_CARRY, read, Math.abs(Math.floor(rest(read) / 10)));
  };
  closure(each(digits, [NONE]), ([sign, q, carry]) => PAIRS.map((pair) => {
    const read = sign + q + pair + carry;
    found.add(KIND.REMAINDER_DIGIT, read, mod(rest(read), 10));
    return sign + q + carried(read);
  }));
  closure(each(digits, [NONE], DIGITS), ([sign, q, carry, before]) => PAIRS.map((pair) => {
    const read = sign + q + pair + carry;
    return sign + q + carried(read) + found.add(KIND.LAST_DIGIT, read + before, mark(mod(rest(read), 10), before));
  }));
  // The top digit of the last remainder is 9 below 0, and 0 only if the remainder is 0.
  const magnitudes = [...new Set(digits.map(([, q]) => q))];
  for (const [sign, last, before, top] of each(digits, magnitudes, ["0", "1", "9"])) {
    const dropped = 2 * valueOf(sign) * Number(last) + (top === "9" ? -1 : Number(top)); // in twentieths
    const isAway = Math.abs(dropped) > 10 || (Math.abs(dropped) === 10 && Number(before) % 2 === 1);
    found.add(KIND.QUOTIENT_ROUNDING, sign + last + before + top, isAway ? signOf(dropped < 0) : "0");
  }
  const lowest = [..."+-0"].map((rounding) => /** @type {State} */ (["", NONE + NONE + rounding, valueOf(rounding)]));
  closure(lowest, ([, before, carry]) => digits.map((digit) => {
    const sum = valueOf(digit[0]) * Number(digit[1]) + carry;
    return ["", digit + found.add(KIND.QUOTIENT_RESULT, digit + before, mod(sum, 10)), Math.floor(sum / 10)];
  }));
}

/** Returns the right digits of a quotient by leading digits: the whole number nearest to that of the middles, and the
 * second nearest if it is almost as near. No middle is exactly between: 20 (2 r + 1) is even, and 2 d + 1 odd.
 * @type {(r: number, d: number) => [number, number]} */
function quotientDigits(r, d) {
  const quotient = (10 * (2 * r + 1)) / (2 * d + 1);
  const nearest = Math.round(quotient);
  const other = nearest + Math.sign(quotient - nearest);
  const isAlmost = Math.abs(quotient - nearest) > 0.25 && (r < 0 ? other <= 0 : other >= 0);
  const isRight = isAlmost && Math.abs(other) <= MAX_SECOND;
  return [nearest, isRight ? other : nearest];
}

/** Returns all leading digits of remainders of divisors with the leading digits d, of any length. The remainder is in
 * [r, r + 1), ten times as much with the next digit in [10 r, 10 r + 10), the divisor in [d, d + 1). What a digit
 * leaves is linear in both, so it is between what it leaves at the corners.
 * @throws {RangeError} if a digit may leave as much as the divisor
 * @param {number} d */
function leadingDigits(d) {
  const all = Array.from({ length: 10 }, (_, r) => r); // the first remainder is less than ten times the unit
  const isFound = new Uint8Array(2 * LIMIT).fill(1, LIMIT, LIMIT + 10);
  for (const r of all) {
    for (const q of new Set(quotientDigits(r, d))) {
      const isTooSmall = 10 * r + 10 > Math.min((q + 1) * d, (q + 1) * (d + 1));
      const isTooLarge = 10 * r <= (q - 1) * d || 10 * r < (q - 1) * (d + 1);
      if (isTooSmall || isTooLarge || Math.abs(q) > 9) throw new RangeError(`${q} is not a digit of ${r} / ${d}.`);
      const [least, most] = [10 * r - Math.max(q * d, q * (d + 1)), 10 * r + 9 - Math.min(q * d, q * (d + 1))];
      for (let rest = Math.max(least, -d - 1); rest <= Math.min(most, d); rest += 1) {
        if (!isFound[rest + LIMIT]) all.push(rest);
        isFound[rest + LIMIT] = 1;
      }
    }
  }
  return all;
}

/** Returns all cases. Takes about a second.
 * @throws {RangeError} if what a rule reads does not decide what is right
 * @returns {Cases} */
export function allCases() {
  const found = new Found();
  const digits = new Set();
  /** @type {[number, number[]][]} */ const leading = [];
  for (let d = LIMIT / 10; d < LIMIT; d += 1) {
    const all = leadingDigits(d);
    leading.push([d, all]);
    for (const r of all) for (const q of quotientDigits(r, d)) digits.add(signOf(r < 0) + Math.abs(q));
  }
  addOperands(found);
  addSums(found);
  addProducts(found);
  addRoundings(found);
  addQuotients(found, [...digits]);
  return packed(found, leading);
}

/** @type {(found: Found, leading: [number, number[]][]) => Cases} */
function packed({ kinds: found }, leading) {
  const sizes = [...Array.from(found.values(), ({ size }) => size), ...leading.map(([, all]) => all.length)];
  const n = sizes.reduce((sum, size) => sum + size);
  const [kinds, sources, right] = [1, MAX_SOURCES, 2].map((size) => new Uint8Array(n * size));
  let at = 0;
  const add = (/** @type {number} */ kind, /** @type {string} */ read, /** @type {string} */ characters) => {
    kinds[at] = kind;
    for (let i = 0; i < read.length; i += 1) sources[at * MAX_SOURCES + i] = read[i] === NONE ? 0 : read.charCodeAt(i);
    for (let i = 0; i < 2; i += 1) right[2 * at + i] = characters.charCodeAt(i % characters.length);
    at += 1;
  };
  for (const [kind, cases] of [...found].sort(([, a], [, b]) => a.size - b.size)) {
    for (const [read, character] of cases) add(kind, read, character);
  }
  const lowestFirst = (/** @type {number} */ n) => [...String(mod(n, LIMIT) + LIMIT)].slice(1).reverse().join("");
  for (const [d, all] of leading) {
    for (const r of all) {
      const read = lowestFirst(r) + (r < 0 ? "9" : "0") + lowestFirst(d);
      add(KIND.QUOTIENT_DIGIT, read, quotientDigits(r, d).map(Math.abs).join(""));
    }
  }
  return { kinds, sources, right };
}
