// Products on paper: a row for each digit of the second number.

import {
  derivedCells, digitValue, equation, formatDecimal, integerOf, isComplete, readAnswerRow, readCopies, readRounding,
} from "./sheet.js";

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("./sheet.js").Reader} Reader */
/** @typedef {import("./sheet.js").Row} Row */
/** @typedef {import("./sheet.js").Question} Question */

/** Reads the work of a product. Yields its rows as it reads them.
 * @type {(reader: Reader, question: Question) => Generator<Row>} */
export function* readProduct(reader, { a, b, places }) {
  const aSign = reader.take(a.isNegative ? "-" : "+", "the sign of the first number");
  const first = readCopies(reader, a, a.digits.length, 0, "first number");
  const isRounded = a.places + b.places > places; // which takes one more digit
  /** @type {[number, number]} */
  const extent = [0, Math.max(a.digits.length + b.digits.length - (isRounded ? 0 : 1), a.places + b.places)];
  yield { names: ["a"], label: "first number", sign: aSign, cells: first, unit: a.places, extent };
  const bSign = reader.take(b.isNegative ? "-" : "+", "the sign of the second number");
  const second = readCopies(reader, b, b.digits.length, 0, "second number");
  yield { names: ["b"], label: "second number", operator: "×", sign: bSign, cells: second, unit: b.places };

  /** @type {Cell[]} */ let previous = [];
  const lowest = [];
  for (let k = 1; k <= second.length; k++) {
    const row = readRow(reader, first, second[k - 1], previous, k);
    if (!row.multiplier.text) return;
    const partialProduct = integerOf(first) * BigInt(digitValue(row.multiplier));
    if (k > 1 && partialProduct) {
      yield {
        names: [`partial ${k}`],
        label: `${integerOf(first)} × ${row.multiplier.text} = ${partialProduct}, the row to add`,
        operator: "+",
        cells: derivedCells(partialProduct, k - 1),
        isDerived: true,
        unit: -Infinity,
      };
    }
    yield {
      names: [`row ${k}`],
      label: labelOfRow(row, first, previous),
      cells: row.digits,
      carries: row.carries,
      side: [row.multiplier],
      unit: -Infinity,
      hasLine: true,
    };
    lowest.push(row.digits[0]);
    previous = row.digits;
  }
  const sources = [...lowest, ...previous.slice(1)];
  yield* readResult(reader, { first, second, aSign, bSign, a, b, places, sources });
}

/** Reads a row. The last carry is the highest digit.
 * @param {Reader} reader
 * @param {Cell[]} first
 * @param {Cell} source the digit of the second number
 * @param {Cell[]} previous the row before
 * @param {number} k the number of the row, from 1 */
function readRow(reader, first, source, previous, k) {
  reader.expect(";", `row ${k} begins`);
  const multiplier = reader.take(source.text, `${source.text}, the digit of the second number for row ${k}`);
  /** @type {Cell[]} */ const digits = [];
  /** @type {Cell[]} */ const carries = [];
  for (const [j, cell] of first.entries()) {
    const above = previous[j + 1];
    const carry = carries.at(-1);
    const total = digitValue(above) + digitValue(multiplier) * digitValue(cell) + digitValue(carry);
    const [digit, next] = [total % 10, Math.floor(total / 10)];
    const terms = [`${cell.text} × ${multiplier.text}`];
    if (digitValue(above)) terms.push(`${above.text} above`);
    if (carry && digitValue(carry)) terms.push(`carry ${carry.text}`);
    const sum = `${terms.join(" + ")} = ${total}`;
    const why = `${sum}: writes ${digit}${next ? `, carries ${next}` : ""}`;
    digits.push(reader.take(String(digit), why, k - 1 + j));
    carries.push(reader.take(String(next), next ? why : `${sum}: carries 0`, k + j));
  }
  digits.push(...carries.splice(-1));
  return { multiplier, digits, carries };
}

/** Returns the label of a row. previous: the row before.
 * @type {(row: {multiplier: Cell, digits: Cell[]}, first: Cell[], previous: Cell[]) => string} */
function labelOfRow({ multiplier, digits }, first, previous) {
  const rest = integerOf(previous.slice(1));
  const addend = previous.length ? `${rest} (the row above without its last digit) + ` : "";
  const text = `${addend}${integerOf(first)} × ${multiplier.text}`;
  if (!isComplete(digits)) return text;
  return `${text} ${equation(rest + integerOf(first) * BigInt(digitValue(multiplier)), integerOf(digits))}`;
}

/** Reads the result and the answer. Yields their rows.
 * @param {Reader} reader
 * @param {Omit<Question, "operation"> & {first: Cell[], second: Cell[], aSign: Cell, bSign: Cell,
 * sources: Cell[]}} product sources: the cells of which the product's digits are copies, lowest first
 * @returns {Generator<Row>} */
function* readResult(reader, { first, second, aSign, bSign, a, b, places, sources }) {
  const productPlaces = a.places + b.places;
  const drop = Math.max(0, productPlaces - places);
  const signsDiffer = aSign.text !== bSign.text;
  /** @type {Row} */ let resultRow = { names: ["result"], label: "", cells: [], unit: productPlaces };
  if (drop > sources.length) reader.expect(":", "the result, less than half of the last place");
  else {
    reader.expect(drop ? "|" : ":", drop ? "the exact product begins" : "the product begins");
    /** @type {Cell[]} */ const digits = [];
    for (const [m, { text }] of sources.entries()) {
      const previous = m < drop - 1 ? digits[m - 1] : undefined;
      digits.push(reader.takeMarked(text, `${text}, from the rows above`, m, previous));
    }
    const product = `${formatDecimal(integerOf(first), a.places)} × ${formatDecimal(integerOf(second), b.places)}`;
    const label = isComplete(digits)
      ? `${product} ${equation(integerOf(first) * integerOf(second), integerOf(digits), productPlaces)}`
      : "the last digit of each row, and the rest of the last one";
    resultRow = {
      names: [drop ? "exact" : "result"],
      label,
      cells: digits,
      unit: productPlaces,
      hasLine: true,
      acceptsMerge: true,
    };
    if (drop) {
      yield resultRow;
      resultRow = readRounding(reader, resultRow, drop, 1, places);
    }
  }
  const digits = resultRow.cells;
  const isNegative = signsDiffer && digits.some((cell) => digitValue(cell));
  const why = signsDiffer
    ? "the signs differ: the product is negative unless it is 0"
    : "the signs are the same: the product is not negative";
  const sign = reader.take(isNegative ? "-" : "+", why);
  yield { ...resultRow, sign };
  yield readAnswerRow(reader, { digits, places: Math.min(productPlaces, places), sign, unit: productPlaces });
}
