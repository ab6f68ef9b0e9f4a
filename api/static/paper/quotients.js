// Quotients on paper: long division, with digits that may be negative.

import { formatPlaces } from "../format.js";
import {
  derivedCells, digitValue, equation, formatDecimal, inNaturalOrder, integerOf, isComplete, readAnswerRow, readAnyAnswer,
  readCopies, signedIntegerOf,
} from "./sheet.js";

const MIN_DIVISOR = 3; // digits of a divisor

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("./sheet.js").Reader} Reader */
/** @typedef {import("./sheet.js").Row} Row */
/** @typedef {import("./sheet.js").Question} Question */

/** @typedef {{sign: Cell, digit: Cell, column: number}} Digit a digit of a quotient */

/** The part of a division that determines its result and its answer. unit: the column of the quotient's units.
 * @typedef {{signsDiffer: boolean, places: number, unit: number}} Ending */

/** Reads the work of a quotient. Yields its rows as it reads them.
 * @type {(reader: Reader, question: Question) => Generator<Row>} */
export function* readQuotient(reader, { a, b, places }) {
  const width = Math.max(b.digits.length, MIN_DIVISOR);
  const zeros = width - b.digits.length; // below the divisor
  const leadColumn = a.digits.length - width + 1; // the column of the first digit brought down
  const unit = a.places - b.places - zeros; // the column of the quotient's units
  const n = a.digits.length - a.places - (b.digits.length - b.places) + places + 3; // digits of the quotient
  const nBelow = n > 1 ? a.digits.length - (width - 2) - n : 0; // lowest digits of A, which no row brings down
  const aSign = reader.take(a.isNegative ? "-" : "+", "the sign of the first number");
  const first = readCopies(reader, a, a.digits.length, 0, "first number", { nMarked: nBelow });
  /** @type {[number, number] | undefined} */
  const extent = b.isZero || n <= 1 ? undefined : [Math.min(0, leadColumn - n), Math.max(leadColumn + 1 + width, unit)];
  yield { names: ["a"], label: "first number, which is divided", sign: aSign, cells: first, unit: a.places, extent };
  const bSign = reader.take(b.isNegative ? "-" : "+", "the sign of the second number");
  const divisor = readCopies(reader, b, width + 1, zeros, "second number", { lowest: leadColumn });
  yield {
    names: ["b"],
    label: "second number, the divisor",
    operator: "÷",
    sign: bSign,
    cells: divisor,
    unit: leadColumn + zeros + b.places,
  };

  const ending = { signsDiffer: aSign.text !== bSign.text, places, unit };
  if (b.isZero) {
    reader.expect(":", "the result begins");
    reader.expect("n", "nothing can be divided by 0");
    reader.expect("=", "the answer begins");
    yield { ...readAnyAnswer(reader, [..."nan0000000$"], unit), label: "not a number: nothing can be divided by 0" };
    return;
  }
  if (n <= 1) {
    reader.expect(":", "the result, less than half of the last place");
    yield* readEnd(reader, { ...ending, digits: [], row: { names: ["result"], label: "", cells: [], unit } });
    return;
  }
  const division = { divisor, first, width, leadColumn, n };
  /** @type {Digit[]} */ const digits = [];
  const remainder = yield* readRemainders(reader, division, digits);
  if (digits.length < n || !isComplete(remainder)) return;
  yield* quotientRow(digits, places, unit);
  yield* readQuotientRounding(reader, digits, remainder[width], ending);
}

/** Reads the remainders and the quotient's signs and digits, which it appends to `digits`. Yields the rows and returns
 * the last remainder.
 * @param {Reader} reader
 * @param {{divisor: Cell[], first: Cell[], width: number, leadColumn: number, n: number}} division
 * @param {Digit[]} digits
 * @returns {Generator<Row, Cell[]>} */
function* readRemainders(reader, { divisor, first, width, leadColumn, n }, digits) {
  reader.expect(";", "the first remainder begins");
  const shift = first.length - (width - 2);
  let remainder = Array.from({ length: width + 1 }, (_, j) => {
    const source = j < width - 2 ? first[shift + j] : undefined;
    const why = source ? `${source.text}, a leading digit of the first number` : "a zero that fills the row";
    return reader.take(source?.text ?? "0", why, leadColumn + 1 + j);
  });
  let label = "the leading digits";
  /** @type {Cell[]} */ let carries = [];
  /** @type {Cell[]} */ let below = [];
  for (let k = 1; k <= n + 1; k++) {
    const column = leadColumn + 1 - k;
    const cells = [...below, ...remainder];
    const row = { names: [`remainder ${k - 1}`], label, cells, carries, unit: -Infinity, hasLine: k > 1 };
    if (k > n || !isComplete(remainder)) {
      yield row;
      return remainder;
    }
    const broughtDown = bringDown(reader, first[shift - k], column);
    const dividend = [broughtDown, ...remainder];
    const dividendValue = signedIntegerOf(dividend);
    const step = broughtDown.text ? `; bring down ${broughtDown.text}: ${formatDecimal(dividendValue, 0)}` : "";
    yield { ...row, label: `${label}${step}`, cells: dividend };
    const isNegative = remainder.at(-1)?.text === "9";
    const whySign = isNegative
      ? "the remainder is negative, as its top digit 9 shows, so the next digit is negative too"
      : "the remainder is not negative, so the next digit is not negative either";
    const sign = reader.take(isNegative ? "-" : "+", whySign);
    const divisorValue = integerOf(divisor);
    const digit = readQuotientDigit(reader, dividendValue, divisorValue, sign);
    digits.push({ sign, digit, column });
    if (!digit.text) return remainder;
    const quotientDigit = BigInt(digitValue(digit)) * (sign.text === "-" ? -1n : 1n);
    const multiple = quotientDigit * divisorValue;
    const use = multiple < 0n ? "added back" : "to subtract";
    yield {
      names: [`multiple ${k}`],
      label: `${formatDecimal(quotientDigit, 0)} × ${divisorValue} = ${formatDecimal(multiple, 0)}, ${use}`,
      operator: multiple < 0n ? "+" : "−",
      cells: derivedCells(multiple < 0n ? -multiple : multiple, column),
      side: [sign, digit],
      unit: -Infinity,
      isDerived: true,
    };
    if (k === n) below = [readDigitBelow(reader, first[shift - n - 1], column - 1)];
    ({ remainder, carries } = readSubtraction(reader, divisor, dividend, { sign, digit, column }, below[0]));
    const rest = equation(dividendValue - multiple, signedIntegerOf(remainder)).slice(2); // without "= "
    const complement = remainder.at(-1)?.text === "9" ? ` (${inNaturalOrder(remainder)})` : "";
    label = isComplete(remainder) ? `left: ${rest}${complement}` : "what is left";
    if (k === n && shift > n) label += `; not brought down: ${inNaturalOrder(first.slice(0, shift - n))}`;
  }
  return remainder;
}

/** Reads the next digit of the first number, which is brought down below a remainder. source: undefined if the first
 * number has no more digits.
 * @type {(reader: Reader, source: Cell | undefined, column: number) => Cell} */
function bringDown(reader, source, column) {
  const why = source
    ? `${source.text}, the next digit of the first number, brought down`
    : "0, brought down: the first number has no more digits";
  const cell = reader.take(source?.text ?? "0", why, column);
  cell.isBroughtDown = true;
  return cell;
}

/** Reads the digit of the first number that follows the last one brought down. The marks of the last remainder begin
 * with it. source: undefined if the first number has no more digits.
 * @type {(reader: Reader, source: Cell | undefined, column: number) => Cell} */
function readDigitBelow(reader, source, column) {
  const digit = source?.isMark ? "1, which stands for 0" : source?.text;
  const why = source
    ? `${digit}, the next digit of the first number. It is not brought down, but counts for the rounding`
    : "0: the first number has no more digits that count for the rounding";
  const cell = reader.take(source?.text ?? "0", why, column);
  cell.isBelow = true;
  cell.isMark = source?.isMark && cell.text === "1";
  return cell;
}

/** Reads a quotient digit. Every digit that leaves less than the divisor is correct.
 * @type {(reader: Reader, dividend: bigint, divisor: bigint, sign: Cell) => Cell} */
function readQuotientDigit(reader, dividend, divisor, sign) {
  const digit = reader.take(null, "");
  const q = BigInt(digitValue(digit)) * (sign.text === "-" ? -1n : 1n);
  const rest = dividend - q * divisor;
  const fits = /^\d$/.test(digit.text) && rest < divisor && -rest < divisor;
  // A divisor of 0 is wrong, but a model may write it.
  const estimate = divisor
    ? `about ${(Number((1000n * dividend) / divisor) / 1000).toFixed(2).replace("-", "−")}`
    : "not a number";
  const choice = `chooses ${formatDecimal(q, 0)}, which leaves ${formatDecimal(rest, 0)}`;
  digit.why = `${formatDecimal(dividend, 0)} ÷ ${divisor} is ${estimate}: ${choice}`;
  if (digit.text && !fits) digit.why += ". That is not less than the divisor, so the digit is wrong";
  digit.isWrong = Boolean(digit.text) && !fits;
  digit.isChoice = true;
  return digit;
}

/** Reads the next remainder, the dividend minus `digit` times the divisor: its digits, and the carries or borrows
 * between them.
 * @param {Reader} reader
 * @param {Cell[]} divisor
 * @param {Cell[]} dividend
 * @param {Digit} quotientDigit
 * @param {Cell | undefined} below the digit below the last remainder, whose digits are marked; undefined
 * for the others */
function readSubtraction(reader, divisor, dividend, { sign, digit, column }, below) {
  /** @type {Cell[]} */ const remainder = [];
  /** @type {Cell[]} */ const carries = [];
  const direction = sign.text === "-" ? 1 : -1;
  let total = 0;
  const carriesOrBorrows = direction > 0 ? "carries" : "borrows";
  let sum = "";
  let why = "";
  for (let j = 0; j < divisor.length; j++) {
    if (j) {
      const carried = Math.abs(Math.floor(total / 10));
      carries.push(reader.take(String(carried), carried ? why : `${sum}: ${carriesOrBorrows} 0`, column + j));
    }
    const carry = carries.at(-1);
    total = digitValue(dividend[j]) + direction * (digitValue(digit) * digitValue(divisor[j]) + digitValue(carry));
    const operator = direction > 0 ? "+" : "−";
    const terms = [dividend[j].text, operator, digit.text, "×", divisor[j].text];
    if (carry && digitValue(carry)) terms.push(operator, carry.text, direction > 0 ? "carried" : "borrowed");
    const [written, next] = [((total % 10) + 10) % 10, Math.abs(Math.floor(total / 10))];
    sum = `${terms.join(" ")} = ${formatDecimal(BigInt(total), 0)}`;
    why = `${sum}: gives ${written}${next ? `, ${carriesOrBorrows} ${next}` : ""}`;
    remainder.push(reader.takeMarked(String(written), why, column + j, below && (remainder.at(-1) ?? below)));
  }
  return { remainder, carries };
}

/** Yields a row with all digits of the quotient, as a sum. Negative digits are drawn with a line over them.
 * @type {(digits: Digit[], places: number, unit: number) => Generator<Row>} */
function* quotientRow(digits, places, unit) {
  const terms = digits.map(({ sign, digit }, index) => {
    const exponent = digits.length - 1 - index - (places + 1);
    const value = digitValue(digit);
    const scaled = BigInt(value) * 10n ** BigInt(Math.max(0, exponent));
    return { text: formatDecimal(scaled, Math.max(0, -exponent)), isZero: !value, isNegative: sign.text === "-" };
  });
  const sum = terms
    .filter(({ isZero }) => !isZero)
    .map(({ text, isNegative }, index) => {
      if (index) return ` ${isNegative ? "−" : "+"} ${text}`;
      return isNegative ? `−${text}` : text;
    })
    .join("");
  yield {
    names: ["quotient"],
    label: `${sum || "0"} = ${formatDecimal(quotientValue(digits), places + 1)}`,
    cells: digits.map(({ sign, digit, column }) => {
      return { ...digit, column, copies: [sign.at], isNegative: sign.text === "-" && digitValue(digit) > 0 };
    }).reverse(),
    unit,
    hasLine: true,
  };
}

/** Returns the integer that the digits of a quotient stand for, given highest first. @param {Digit[]} digits */
function quotientValue(digits) {
  return digits.reduce((sum, { sign, digit }) => {
    return 10n * sum + BigInt(digitValue(digit)) * (sign.text === "-" ? -1n : 1n);
  }, 0n);
}

/** Reads the rounding of the quotient, the result and the answer. Yields their rows. digits: two or more, highest
 * first; top: the top digit of the last remainder. It is marked, so it is 0 only if nothing is left.
 * @type {(reader: Reader, digits: Digit[], top: Cell, ending: Ending) => Generator<Row>} */
function* readQuotientRounding(reader, digits, top, ending) {
  const [last, beforeLast] = [...digits].reverse();
  const { sign, digit } = last;
  const isPositive = sign.text === "+";
  const isExact = top.text === "0";
  // If the remainder has the sign of the last digit, the exact quotient is further from 0 than the digits.
  const isBeyond = !isExact && (top.text !== "9") === isPositive;
  const isOdd = digitValue(beforeLast.digit) % 2 === 1;
  const roundsAway = digitValue(digit) > 5 || (digitValue(digit) === 5 && (isBeyond || (isExact && isOdd)));
  const effect = roundsAway ? (isPositive ? "adds 1" : "takes 1 away") : "adds nothing";
  const change = reader.take(
    roundsAway ? (isPositive ? "+" : "-") : "0",
    `the last digit, ${isPositive ? "" : "−"}${digit.text}, is rounded away: it ${effect}`,
  );
  reader.expect(":", "the result begins");
  /** @type {Cell[]} */ const result = [];
  const roundingCarry = change.text === "+" ? 1 : change.text === "-" ? -1 : 0;
  const n = digits.length;
  for (let m = 0; m < n - 1; m++) {
    const current = digits[n - 2 - m];
    const previous = m ? digits[n - 1 - m] : null;
    /** @type {number} */ const carry = previous ? carryFrom(previous, result[m - 1]) : roundingCarry;
    const q = digitValue(current.digit) * (current.sign.text === "-" ? -1 : 1);
    const sum = q + carry;
    const digit = (sum + 10) % 10;
    const carryTerm = carry ? ` ${carry < 0 ? "− 1" : "+ 1"} from the digit before` : "";
    const terms = `${formatDecimal(BigInt(q), 0)}${carryTerm}`;
    const why = `${terms} = ${formatDecimal(BigInt(sum), 0)}: writes ${digit}${sum < 0 ? ", borrows 1" : ""}`;
    result.push(reader.take(String(digit), why, last.column + 1 + m));
  }
  const label = `rounded to ${formatPlaces(ending.places)}`;
  const row = { names: ["result"], label, cells: result, side: [change], unit: ending.unit, acceptsMerge: true };
  yield* readEnd(reader, { ...ending, digits: result, row });
}

/** Returns the carry out of a digit: 1, 0 or −1. written: the digit of the result that the model wrote for it.
 * @type {(quotientDigit: Digit, written: Cell) => number} */
function carryFrom({ sign, digit }, written) {
  const value = digitValue(digit) * (sign.text === "-" ? -1 : 1);
  const carryIn = ((((digitValue(written) - value + 1) % 10) + 10) % 10) - 1;
  return Math.floor((value + carryIn) / 10);
}

/** Reads the sign of the result and the answer. Yields the row of the result and that of the answer.
 * @type {(reader: Reader, ending: Ending & {digits: Cell[], row: Row}) => Generator<Row>} */
function* readEnd(reader, { signsDiffer, places, unit, digits, row }) {
  const isNegative = signsDiffer && digits.some((cell) => digitValue(cell));
  const why = signsDiffer
    ? "the signs differ: the quotient is negative unless it is 0"
    : "the signs are the same: the quotient is not negative";
  const sign = reader.take(isNegative ? "-" : "+", why);
  yield { ...row, sign };
  yield readAnswerRow(reader, { digits, places, sign, unit });
}
