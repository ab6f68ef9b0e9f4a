// Products on paper: a row for each digit of the second number.

import { answer, copies, decimal, derived, equals, isComplete, rounded, value, whole } from "./sheet.js";

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("./sheet.js").Reader} Reader */
/** @typedef {import("./sheet.js").Row} Row */
/** @typedef {import("./sheet.js").Question} Question */

/**
 * Reads the work of a product. Returns its rows as it reads them.
 * @param {Reader} reader
 * @param {Question} question
 * @returns {Generator<Row>}
 */
export function* product(reader, { a, b, places }) {
  const aSign = reader.take(a.isNegative ? "-" : "+", "the sign of the first number");
  const first = copies(reader, a, a.digits.length, 0, "first number");
  yield { names: ["a"], label: "first number", sign: aSign, cells: first, unit: a.places };
  const bSign = reader.take(b.isNegative ? "-" : "+", "the sign of the second number");
  const second = copies(reader, b, b.digits.length, 0, "second number");
  yield { names: ["b"], label: "second number", operator: "×", sign: bSign, cells: second, unit: b.places };

  /** @type {Cell[]} */
  let old = [];
  const lowest = [];
  for (let k = 1; k <= second.length; k++) {
    const row = readRow(reader, first, second[k - 1], old, k);
    if (!row.multiplier.text) return;
    const added = whole(first) * BigInt(value(row.multiplier));
    if (k > 1 && added) {
      const label = `${whole(first)} × ${row.multiplier.text} = ${added}, the row to add`;
      yield { names: [`partial ${k}`], label, operator: "+", cells: derived(added, k - 1), isDerived: true, unit: -Infinity };
    }
    yield {
      names: [`row ${k}`],
      label: labelOfRow(row, first, old),
      cells: row.digits,
      carries: row.carries,
      side: [row.multiplier],
      unit: -Infinity,
      hasLine: true,
    };
    lowest.push(row.digits[0]);
    old = row.digits;
  }
  yield* result(reader, { first, second, aSign, bSign, a, b, places, digits: [...lowest, ...old.slice(1)] });
}

/**
 * Reads a row. Its last carry is its top digit.
 * @param {Reader} reader
 * @param {Cell[]} first
 * @param {Cell} source the digit of the second number
 * @param {Cell[]} old the row before
 * @param {number} k the number of the row, from 1
 */
function readRow(reader, first, source, old, k) {
  reader.mark(";", `row ${k} begins`);
  const multiplier = reader.take(source.text, `${source.text}, the digit of the second number for row ${k}`);
  /** @type {Cell[]} */
  const digits = [];
  /** @type {Cell[]} */
  const carries = [];
  for (const [j, cell] of first.entries()) {
    const above = old[j + 1];
    const carry = carries.at(-1);
    const total = value(above) + value(multiplier) * value(cell) + value(carry);
    const [digit, next] = [total % 10, Math.floor(total / 10)];
    const terms = [`${cell.text} × ${multiplier.text}`];
    if (value(above)) terms.push(`${above.text} above`);
    if (carry && value(carry)) terms.push(`carry ${carry.text}`);
    const words = `${terms.join(" + ")} = ${total}: writes ${digit}${next ? `, carries ${next}` : ""}`;
    digits.push(reader.take(String(digit), words, k - 1 + j));
    carries.push(reader.take(String(next), words, k + j));
  }
  digits.push(...carries.splice(-1));
  return { multiplier, digits, carries };
}

/**
 * @param {{multiplier: Cell, digits: Cell[]}} row
 * @param {Cell[]} first
 * @param {Cell[]} old the row before
 */
function labelOfRow({ multiplier, digits }, first, old) {
  const left = whole(old.slice(1));
  const before = old.length ? `${left} left from the row before + ` : "";
  const text = `${before}${whole(first)} × ${multiplier.text}`;
  if (!isComplete(digits)) return text;
  return `${text} ${equals(left + whole(first) * BigInt(value(multiplier)), whole(digits))}`;
}

/**
 * @param {Reader} reader
 * @param {Omit<Question, "operation"> & {first: Cell[], second: Cell[], aSign: Cell, bSign: Cell,
 *   digits: Cell[]}} product
 * @returns {Generator<Row>}
 */
function* result(reader, { first, second, aSign, bSign, a, b, places, digits: sources }) {
  const all = a.places + b.places;
  const drop = Math.max(0, all - places);
  const differ = aSign.text !== bSign.text;
  /** @type {Cell[]} */
  let digits = [];
  /** @type {Row} */
  let last = { names: ["result"], label: "", cells: [], unit: all };
  if (drop > sources.length) reader.mark(":", "the result, less than half of the last place");
  else {
    reader.mark(drop ? "|" : ":", drop ? "the exact product begins" : "the product begins");
    digits = sources.map((source, m) => reader.take(source.text, `${source.text}, from the rows above`, m));
    const product = `${decimal(whole(first), a.places)} × ${decimal(whole(second), b.places)}`;
    const label = isComplete(digits)
      ? `${product} ${equals(whole(first) * whole(second), whole(digits), all)}`
      : "the last digit of each row, and the rest of the last one";
    last = { names: [drop ? "exact" : "result"], label, cells: digits, unit: all, hasLine: true, foldable: true };
    if (drop) {
      yield last;
      const { rounding, digits: kept } = rounded(reader, digits, drop, 1);
      digits = kept;
      last = { names: ["result"], label: `rounded to ${places} ${places === 1 ? "place" : "places"}`, cells: kept, side: [rounding], unit: all, foldable: true };
    }
  }
  const negative = differ && digits.some((cell) => value(cell));
  const sign = reader.take(negative ? "-" : "+", differ ? "the signs differ: the product is negative unless it is 0" : "the signs are the same: the product is not negative");
  yield { ...last, sign };
  const found = answer(reader, { digits, places: Math.min(all, places), sign, unit: all });
  yield { ...found, label: drop > sources.length ? "the answer: less than half of its last place is rounded to 0" : "the answer", folds: true };
}
