// Quotients on paper: long division, with digits that may be negative.

import { anyAnswer, answer, copies, decimal, derived, equals, isComplete, natural, signed, value, whole } from "./sheet.js";

const MIN_DIVISOR = 3; // digits of a divisor

/** @typedef {import("./sheet.js").Cell} Cell */
/** @typedef {import("./sheet.js").Reader} Reader */
/** @typedef {import("./sheet.js").Row} Row */
/** @typedef {import("./sheet.js").Question} Question */

/** @typedef {{sign: Cell, digit: Cell, column: number}} Digit of a quotient */

/**
 * What the end of the work depends on.
 * @typedef {{aSign: Cell, bSign: Cell, differ: boolean, places: number, unit: number}} Ending
 */

/**
 * Reads the work of a quotient. Returns its rows as it reads them.
 * @param {Reader} reader
 * @param {Question} question
 * @returns {Generator<Row>}
 */
export function* quotient(reader, { a, b, places }) {
  const width = Math.max(b.digits.length, MIN_DIVISOR);
  const zeros = width - b.digits.length; // below the divisor
  const lead = a.digits.length - width + 1; // the column of the first digit brought down
  const unit = a.places - b.places - zeros; // of the quotient
  const aSign = reader.take(a.isNegative ? "-" : "+", "the sign of the first number");
  const first = copies(reader, a, a.digits.length, 0, "first number");
  yield { names: ["a"], label: "first number, which is divided", sign: aSign, cells: first, unit: a.places };
  const bSign = reader.take(b.isNegative ? "-" : "+", "the sign of the second number");
  const divisor = copies(reader, b, width + 1, zeros, "second number", lead);
  yield { names: ["b"], label: "second number, the divisor", operator: "÷", sign: bSign, cells: divisor, unit: lead + zeros + b.places };

  const differ = aSign.text !== bSign.text;
  const ending = { aSign, bSign, differ, places, unit };
  if (b.isZero) {
    reader.mark(":", "the result begins");
    reader.mark("n", "nothing can be divided by 0");
    reader.mark("=", "the answer begins");
    yield { ...anyAnswer(reader, "nan0000000$", unit), label: "no number: nothing can be divided by 0" };
    return;
  }
  const n = a.digits.length - a.places - (b.digits.length - b.places) + places + 3;
  if (n <= 1) {
    reader.mark(":", "the result, less than half of the last place");
    yield* end(reader, { ...ending, digits: [], row: { names: ["result"], label: "", cells: [], unit } });
    return;
  }
  const division = { divisor, first, width, lead, n };
  /** @type {Digit[]} */
  const digits = [];
  const remainder = yield* steps(reader, division, digits);
  if (digits.length < n || !isComplete(remainder)) return;
  yield* sumOfDigits(digits, places, unit);
  yield* rounding(reader, digits, remainder, ending);
}

/**
 * Reads the remainders. Fills `digits` with the quotient's signs and digits.
 * @param {Reader} reader
 * @param {{divisor: Cell[], first: Cell[], width: number, lead: number, n: number}} division
 * @param {Digit[]} digits
 * @returns {Generator<Row, Cell[]>}
 */
function* steps(reader, { divisor, first, width, lead, n }, digits) {
  reader.mark(";", "the first remainder begins");
  const shift = first.length - (width - 2);
  let remainder = Array.from({ length: width + 1 }, (_, j) => {
    const source = j < width - 2 ? first[shift + j] : undefined;
    return reader.take(source?.text ?? "0", source ? `${source.text}, a leading digit of the first number` : "a zero that fills the row", lead + 1 + j);
  });
  let label = "the leading digits";
  /** @type {Cell[]} */
  let carries = [];
  for (let k = 1; k <= n + 1; k++) {
    const column = lead + 1 - k;
    const row = { names: [`remainder ${k - 1}`], label, cells: remainder, carries, unit: -Infinity, hasLine: k > 1 };
    if (k > n || !isComplete(remainder)) {
      yield row;
      return remainder;
    }
    const source = first[first.length - (width - 2) - k];
    const down = reader.take(source?.text ?? "0", source ? `${source.text}, the next digit of the first number, brought down` : "0, brought down: the first number has no more digits", column);
    down.isBroughtDown = true;
    const dividend = [down, ...remainder];
    const amount = signed(dividend);
    yield { ...row, label: down.text ? `${label}; bring down ${down.text}: ${decimal(amount, 0)}` : label, cells: dividend };
    const isNegative = remainder.at(-1)?.text === "9";
    const sign = reader.take(isNegative ? "-" : "+", isNegative ? "the remainder is negative, as its top digit 9 says: so is the next digit" : "the remainder is not negative: nor is the next digit");
    const by = whole(divisor);
    const digit = chosen(reader, amount, by, sign);
    digits.push({ sign, digit, column });
    if (!digit.text) return remainder;
    const times = BigInt(value(digit)) * (sign.text === "-" ? -1n : 1n);
    const change = times * by;
    yield {
      names: [`multiple ${k}`],
      label: `${decimal(times, 0)} × ${by} = ${decimal(change, 0)}, ${change < 0n ? "added back" : "to subtract"}`,
      operator: change < 0n ? "+" : "−",
      cells: derived(change < 0n ? -change : change, column),
      side: [sign, digit],
      unit: -Infinity,
      isDerived: true,
    };
    ({ remainder, carries } = subtraction(reader, divisor, dividend, sign, digit, column));
    const left = equals(amount - change, signed(remainder)).slice(2);
    const complement = remainder.at(-1)?.text === "9" ? ` (${natural(remainder)})` : "";
    label = isComplete(remainder) ? `left: ${left}${complement}` : "what is left";
  }
  return remainder;
}

/**
 * Reads a quotient digit. Every digit is right that leaves less than the divisor.
 * @param {Reader} reader
 * @param {bigint} amount
 * @param {bigint} by
 * @param {Cell} sign
 */
function chosen(reader, amount, by, sign) {
  const digit = reader.take(null, "");
  const q = BigInt(value(digit)) * (sign.text === "-" ? -1n : 1n);
  const left = amount - q * by;
  const fits = /^\d$/.test(digit.text) && left < by && -left < by;
  const about = (Number((1000n * amount) / by) / 1000).toFixed(2).replace("-", "−");
  digit.why = `${decimal(amount, 0)} ÷ ${by} is about ${about}: chooses ${decimal(q, 0)}, which leaves ${decimal(left, 0)}`;
  if (digit.text && !fits) digit.why += ". That is not less than the divisor, so the digit is wrong";
  digit.isWrong = Boolean(digit.text) && !fits;
  digit.isChoice = true;
  return digit;
}

/**
 * Reads what is left when `digit` times the divisor is subtracted: digits, and borrows between.
 * @param {Reader} reader
 * @param {Cell[]} divisor
 * @param {Cell[]} dividend
 * @param {Cell} sign
 * @param {Cell} digit
 * @param {number} column
 */
function subtraction(reader, divisor, dividend, sign, digit, column) {
  /** @type {Cell[]} */
  const remainder = [];
  /** @type {Cell[]} */
  const carries = [];
  const direction = sign.text === "-" ? 1 : -1;
  let total = 0;
  let words = "";
  for (let j = 0; j < divisor.length; j++) {
    if (j) carries.push(reader.take(String(Math.abs(Math.floor(total / 10))), words, column + j));
    const carry = carries.at(-1);
    total = value(dividend[j]) + direction * (value(digit) * value(divisor[j]) + value(carry));
    const operator = direction > 0 ? "+" : "−";
    const more = carry && value(carry) ? ` ${operator} ${carry.text} ${direction > 0 ? "carried" : "borrowed"}` : "";
    const [written, next] = [((total % 10) + 10) % 10, Math.abs(Math.floor(total / 10))];
    const after = next ? `, ${direction > 0 ? "carries" : "borrows"} ${next}` : "";
    words = `${dividend[j].text} ${operator} ${digit.text} × ${divisor[j].text}${more} = ${decimal(BigInt(total), 0)}: writes ${written}${after}`;
    remainder.push(reader.take(String(written), words, column + j));
  }
  return { remainder, carries };
}

/**
 * How the digits of a quotient add up, on one row: a line over a digit says that it counts less.
 * @param {Digit[]} digits
 * @param {number} places
 * @param {number} unit
 * @returns {Generator<Row>}
 */
function* sumOfDigits(digits, places, unit) {
  const terms = digits.map(({ sign, digit }, index) => {
    const exponent = digits.length - 1 - index - (places + 1);
    const size = exponent >= 0 ? BigInt(value(digit)) * 10n ** BigInt(exponent) : BigInt(value(digit));
    return { text: decimal(size, Math.max(0, -exponent)), isZero: !value(digit), isNegative: sign.text === "-" };
  });
  const shown = terms.filter(({ isZero }) => !isZero);
  const list = shown.map(({ text, isNegative }, index) => (index || isNegative ? `${index ? " " : ""}${isNegative ? "−" : "+"}${index ? " " : ""}${text}` : text));
  yield {
    names: ["quotient"],
    label: `${list.join("") || "0"} = ${decimal(total(digits), places + 1)}`,
    cells: digits.map(({ sign, digit, column }) => {
      return { ...digit, column, copies: [sign.at], isNegative: sign.text === "-" && value(digit) > 0 };
    }).reverse(),
    unit,
    hasLine: true,
  };
}

/** @param {Digit[]} digits */
function total(digits) {
  return digits.reduce((sum, { sign, digit }) => 10n * sum + BigInt(value(digit)) * (sign.text === "-" ? -1n : 1n), 0n);
}

/**
 * @param {Reader} reader
 * @param {Digit[]} digits two or more
 * @param {Cell[]} remainder
 * @param {Ending} ending
 * @returns {Generator<Row>}
 */
function* rounding(reader, digits, remainder, ending) {
  const [last, beforeLast] = [...digits].reverse();
  const { sign, digit } = last;
  const isPositive = sign.text === "+";
  const isExact = remainder.every((cell) => !value(cell));
  const beyond = !isExact && (remainder.at(-1)?.text !== "9") === isPositive;
  const odd = value(beforeLast.digit) % 2 === 1;
  const isAway = value(digit) > 5 || (value(digit) === 5 && (beyond || (isExact && odd)));
  const effect = isAway ? (isPositive ? "adds 1" : "takes 1 away") : "adds nothing";
  const change = reader.take(isAway ? (isPositive ? "+" : "-") : "0", `the last digit, ${isPositive ? "" : "−"}${digit.text}, is rounded away: it ${effect}`);
  reader.mark(":", "the result begins");
  /** @type {Cell[]} */
  const result = [];
  const rounds = change.text === "+" ? 1 : change.text === "-" ? -1 : 0;
  const n = digits.length;
  for (let m = 0; m < n - 1; m++) {
    const own = digits[n - 2 - m];
    const before = m ? digits[n - 1 - m] : null;
    /** @type {number} */
    const carry = before ? carried(before, result[m - 1]) : rounds;
    const q = value(own.digit) * (own.sign.text === "-" ? -1 : 1);
    const why = `${decimal(BigInt(q), 0)}${carry ? ` ${carry < 0 ? "− 1" : "+ 1"} from the digit before` : ""} = ${decimal(BigInt(q + carry), 0)}: writes ${(q + carry + 10) % 10}${q + carry < 0 ? ", borrows 1" : ""}`;
    result.push(reader.take(String((q + carry + 10) % 10), why, digits[n - 1].column + 1 + m));
  }
  const label = `rounded to ${ending.places} ${ending.places === 1 ? "place" : "places"}`;
  const row = { names: ["result"], label, cells: result, side: [change], unit: ending.unit, foldable: true };
  yield* end(reader, { ...ending, digits: result, row });
}

/**
 * What the digit before carries: 1, 0 or −1.
 * @param {Digit} before
 * @param {Cell} written
 */
function carried({ sign, digit }, written) {
  const before = value(digit) * (sign.text === "-" ? -1 : 1);
  const into = ((((value(written) - before + 1) % 10) + 10) % 10) - 1;
  return Math.floor((before + into) / 10);
}

/**
 * @param {Reader} reader
 * @param {Ending & {digits: Cell[], row: Row}} ending
 * @returns {Generator<Row>}
 */
function* end(reader, { differ, places, unit, digits, row }) {
  const negative = differ && (digits.some((cell) => value(cell)));
  const sign = reader.take(negative ? "-" : "+", differ ? "the signs differ: the quotient is negative unless it is 0" : "the signs are the same: the quotient is not negative");
  yield { ...row, sign };
  const found = answer(reader, { digits, places, sign, unit });
  yield { ...found, label: digits.length ? "the answer" : "the answer: less than half of its last place is rounded to 0", folds: true };
}
