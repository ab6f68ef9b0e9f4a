// Sums and differences on paper.

import { answer, copies, decimal, derived, equals, isComplete, rounded, signed, value, whole } from "./sheet.js";

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("./sheet.js").Reader} Reader */
/** @typedef {import("./sheet.js").Row} Row */
/** @typedef {import("./sheet.js").Question} Question */

/**
 * Reads the work of a sum. Returns its rows as it reads them.
 * @param {Reader} reader
 * @param {Question} question
 * @returns {Generator<Row>}
 */
export function* sum(reader, { operation, a, b, places }) {
  const d = Math.max(a.places, b.places);
  const drop = Math.max(0, d - places);
  const length = (/** @type {import("./sheet.js").Operand} */ { digits, places: own }) => digits.length + d - own;
  const count = Math.max(length(a), length(b), drop) + 1; // with a zero on top
  const subtrahend = operation === "-";

  const aSign = reader.take(a.isNegative ? "-" : "+", "the sign of the first number");
  const first = copies(reader, a, count, d - a.places, "first number");
  /** @type {Cell[]} */
  const carries = [];
  const top = { names: ["a"], label: "first number", sign: aSign, cells: first, carries, unit: d };
  yield top;

  const isAdded = b.isNegative === subtrahend;
  const reason = subtrahend ? "the sign of the second number, turned, because it is subtracted" : "the sign of the second number";
  const bSign = reader.take(isAdded ? "+" : "-", reason);
  const second = copies(reader, b, count, d - b.places, "second number");
  yield { names: ["b"], label: "second number", sign: bSign, showsPlus: true, cells: second, unit: d };

  const operator = reader.take(
    aSign.text === bSign.text ? "+" : "-",
    aSign.text === bSign.text ? "the signs are the same: the digits are added" : "the signs differ: the second number's digits are subtracted",
  );
  if (operator.text === bSign.text) bSign.copies.push(operator.at);
  const direction = operator.text === "-" ? -1 : 1;
  /** @type {Cell[]} */
  const total = [];
  for (let j = 0; j < count; j++) {
    /** @type {number} */
    const carry = j ? carried(direction, first[j - 1], second[j - 1], total[j - 1]) : 0;
    const sum = value(first[j]) + direction * value(second[j]) + carry;
    if (carry && total.at(-1)?.text) carries.push(...derived(carry < 0 ? 1 : carry, j));
    const why = inColumn(value(first[j]), value(second[j]), carry, sum, direction);
    total.push(reader.take(String((sum + 10) % 10), why, j));
  }
  const isNegative = total.at(-1)?.text === "9";
  yield {
    names: ["sum"],
    label: labelOfSum(first, second, total, operator, d),
    cells: total,
    side: operator.text && operator.text !== bSign.text ? [operator] : [],
    unit: d,
    hasLine: true,
    foldable: true,
  };
  yield* result(reader, { total, isNegative, aSign, d, drop, places });
}

/**
 * @param {Reader} reader
 * @param {{total: Cell[], isNegative: boolean, aSign: Cell, d: number, drop: number, places: number}} sum
 * @returns {Generator<Row>}
 */
function* result(reader, { total, isNegative, aSign, d, drop, places }) {
  reader.mark(drop ? "|" : ":", drop ? "the exact result begins" : "the result begins");
  /** @type {Cell[]} */
  const size = [];
  for (const [j, cell] of total.entries()) {
    /** @type {boolean} */
    const isFirst = !j || (total[j - 1].text === "0" && size[j - 1].text === "0");
    const digit = value(cell);
    const should = isNegative ? (9 + Number(isFirst) - digit) % 10 : digit;
    const from = isFirst ? 10 : 9;
    const why = isNegative ? `the sum is negative, so the digit is ${from} − ${digit} = ${from - digit}` : `${digit}, a copy of the sum's digit`;
    size.push(reader.take(String(should), why, j));
  }
  /** @type {Row} */
  const exact = {
    names: [drop ? "exact" : "result"],
    label: isNegative && isComplete(size) ? `the size of the sum: ${decimal(whole(size), d)}` : "the size of the sum",
    cells: size,
    unit: d,
    folds: true,
    foldable: true,
  };
  let digits = size;
  let last = exact;
  if (drop) {
    yield exact;
    const { rounding, digits: kept } = rounded(reader, size, drop, 0);
    digits = kept;
    last = { names: ["result"], label: `rounded to ${places} ${places === 1 ? "place" : "places"}`, cells: kept, side: [rounding], unit: d, foldable: true };
  }
  const negative = (aSign.text === "-") !== isNegative && digits.some((cell) => value(cell));
  const sign = reader.take(negative ? "-" : "+", "the sign of the result");
  yield { ...last, sign };
  const found = answer(reader, { digits, places: Math.min(d, places), sign, unit: d });
  yield { ...found, label: "the answer", folds: true };
}

/**
 * What the column before carries into this one: 1, 0 or −1. It follows from the digit there.
 * @param {number} direction
 * @param {Cell} a
 * @param {Cell} b
 * @param {Cell} total
 */
function carried(direction, a, b, total) {
  const before = value(a) + direction * value(b);
  const into = (((direction * (value(total) - before)) % 10) + 10) % 10;
  return Math.floor((before + direction * into) / 10);
}

/**
 * @param {number} a
 * @param {number} b
 * @param {number} carry
 * @param {number} sum
 * @param {number} direction
 */
function inColumn(a, b, carry, sum, direction) {
  const digit = (sum + 10) % 10;
  if (direction > 0) {
    const next = sum > 9 ? ", carries 1" : "";
    return `${a} + ${b}${carry ? " + carry 1" : ""} = ${sum}: writes ${digit}${next}`;
  }
  const shown = sum < 0 ? `−${-sum}` : sum;
  return `${a} − ${b}${carry ? " − 1 borrowed" : ""} = ${shown}: writes ${digit}${sum < 0 ? ", borrows 1" : ""}`;
}

/**
 * @param {Cell[]} first
 * @param {Cell[]} second
 * @param {Cell[]} total
 * @param {Cell} operator
 * @param {number} d
 */
function labelOfSum(first, second, total, operator, d) {
  if (!isComplete(total)) return "column by column, from the right";
  const [a, b] = [first, second].map(whole);
  const subtracts = operator.text === "-";
  const truth = equals(subtracts ? a - b : a + b, signed(total), d);
  const text = `${decimal(a, d)} ${subtracts ? "−" : "+"} ${decimal(b, d)} ${truth}`;
  if (total.at(-1)?.text !== "9") return text;
  return `${text}, written as its ten's complement: the 9 in front says that it is negative`;
}
