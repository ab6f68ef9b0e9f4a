// Sums and differences on paper.

import {
  derivedCells, digitValue, equation, formatDecimal, integerOf, isComplete, readAnswerRow, readCopies, readRounding,
  signedIntegerOf,
} from "./sheet.js";

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("./sheet.js").Reader} Reader */
/** @typedef {import("./sheet.js").Row} Row */
/** @typedef {import("./sheet.js").Question} Question */

/** Reads the work of a sum or a difference. Yields its rows as it reads them.
 * @type {(reader: Reader, question: Question) => Generator<Row>} */
export function* readSum(reader, { operation, a, b, places }) {
  const decimals = Math.max(a.places, b.places);
  const drop = Math.max(0, decimals - places);
  const length = (/** @type {import("./sheet.js").Operand} */ operand) => operand.digits.length + decimals - operand.places;
  const count = Math.max(length(a), length(b), drop) + 1; // the highest digit is a zero
  const isDifference = operation === "-";

  const aSign = reader.take(a.isNegative ? "-" : "+", "the sign of the first number");
  const first = readCopies(reader, a, count, decimals - a.places, "first number");
  /** @type {Cell[]} */ const carries = [];
  /** @type {[number, number]} */ const extent = [0, Math.max(count - 1, decimals)];
  const top = { names: ["a"], label: "first number", sign: aSign, cells: first, carries, unit: decimals, extent };
  yield top;

  const isAdded = b.isNegative === isDifference;
  const reason = isDifference
    ? "the sign of the second number, reversed because it is subtracted"
    : "the sign of the second number";
  const bSign = reader.take(isAdded ? "+" : "-", reason);
  const second = readCopies(reader, b, count, decimals - b.places, "second number");
  yield { names: ["b"], label: "second number", sign: bSign, showsPlus: true, cells: second, unit: decimals };

  const hasSameSigns = aSign.text === bSign.text;
  const operator = reader.take(
    hasSameSigns ? "+" : "-",
    hasSameSigns
      ? "the signs are the same: the digits are added"
      : "the signs differ: the second number's digits are subtracted",
  );
  if (operator.text === bSign.text) bSign.copies.push(operator.at);
  const direction = operator.text === "-" ? -1 : 1;
  /** @type {Cell[]} */ const total = [];
  for (let j = 0; j < count; j++) {
    /** @type {number} */ const carry = j ? carryFrom(direction, first[j - 1], second[j - 1], total[j - 1]) : 0;
    const sum = digitValue(first[j]) + direction * digitValue(second[j]) + carry;
    if (carry && total.at(-1)?.text) carries.push(...derivedCells(carry < 0 ? 1 : carry, j));
    const why = explainColumn(digitValue(first[j]), digitValue(second[j]), carry, sum, direction);
    total.push(reader.take(String((sum + 10) % 10), why, j));
  }
  const isNegative = total.at(-1)?.text === "9";
  yield {
    names: ["sum"],
    label: labelOfSum(first, second, total, operator, decimals),
    cells: total,
    side: operator.text && operator.text !== bSign.text ? [operator] : [],
    unit: decimals,
    hasLine: true,
    acceptsMerge: true,
  };
  yield* readResult(reader, { total, isNegative, aSign, decimals, drop, places });
}

/** Reads the result and the answer. Yields their rows.
 * @param {Reader} reader
 * @param {{total: Cell[], isNegative: boolean, aSign: Cell, decimals: number, drop: number,
 * places: number}} sum
 * @returns {Generator<Row>} */
function* readResult(reader, { total, isNegative, aSign, decimals, drop, places }) {
  reader.expect(drop ? "|" : ":", drop ? "the exact result begins" : "the result begins");
  /** @type {Cell[]} */ const magnitude = [];
  for (const [j, cell] of total.entries()) {
    /** @type {boolean} */ const isFirst = !j || (total[j - 1].text === "0" && magnitude[j - 1].text === "0");
    const digit = digitValue(cell);
    const expected = isNegative ? (9 + Number(isFirst) - digit) % 10 : digit;
    const minuend = isFirst ? 10 : 9;
    const why = isNegative
      ? `the sum is negative, so the digit is ${minuend} − ${digit} = ${minuend - digit}`
      : `${digit}, a copy of the sum's digit`;
    magnitude.push(reader.takeMarked(String(expected), why, j, j < drop - 1 ? magnitude[j - 1] : undefined));
  }
  /** @type {Row} */ const exact = {
    names: [drop ? "exact" : "result"],
    label: isComplete(magnitude)
      ? `the size of the sum: ${formatDecimal(integerOf(magnitude), decimals)}`
      : "the size of the sum",
    cells: magnitude,
    unit: decimals,
    mergesIntoPrevious: true,
    acceptsMerge: true,
  };
  let resultRow = exact;
  if (drop) {
    yield exact;
    resultRow = readRounding(reader, exact, drop, 0, places);
  }
  const digits = resultRow.cells;
  const negative = (aSign.text === "-") !== isNegative && digits.some((cell) => digitValue(cell));
  const sign = reader.take(negative ? "-" : "+", "the sign of the result");
  yield { ...resultRow, sign };
  yield readAnswerRow(reader, { digits, places: Math.min(decimals, places), sign, unit: decimals });
}

/** Returns the carry out of a column: 1, 0 or −1. It follows from the digit that the model wrote there. direction: 1 to
 * add, −1 to subtract.
 * @type {(direction: number, a: Cell, b: Cell, total: Cell) => number} */
function carryFrom(direction, a, b, total) {
  const sum = digitValue(a) + direction * digitValue(b);
  const carryIn = (((direction * (digitValue(total) - sum)) % 10) + 10) % 10;
  return Math.floor((sum + direction * carryIn) / 10);
}

/** Returns the explanation of a digit of the sum.
 * @type {(a: number, b: number, carry: number, sum: number, direction: number) => string} */
function explainColumn(a, b, carry, sum, direction) {
  const digit = (sum + 10) % 10;
  if (direction > 0) {
    const next = sum > 9 ? ", carries 1" : "";
    return `${a} + ${b}${carry ? " + carry 1" : ""} = ${sum}: writes ${digit}${next}`;
  }
  const shown = sum < 0 ? `−${-sum}` : sum;
  return `${a} − ${b}${carry ? " − 1 borrowed" : ""} = ${shown}: writes ${digit}${sum < 0 ? ", borrows 1" : ""}`;
}

/** Returns the label of the row of the sum.
 * @type {(first: Cell[], second: Cell[], total: Cell[], operator: Cell, decimals: number) => string} */
function labelOfSum(first, second, total, operator, decimals) {
  if (!isComplete(total)) return "column by column, from the right";
  const [a, b] = [first, second].map(integerOf);
  const subtracts = operator.text === "-";
  const result = equation(subtracts ? a - b : a + b, signedIntegerOf(total), decimals);
  const text = `${formatDecimal(a, decimals)} ${subtracts ? "−" : "+"} ${formatDecimal(b, decimals)} ${result}`;
  if (total.at(-1)?.text !== "9") return text;
  return `${text}, written as its ten's complement: the 9 in front says that it is negative`;
}
