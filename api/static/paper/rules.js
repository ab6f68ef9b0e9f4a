// The rules of worked steps in words: what each character should be, and why. A rule reads the characters that the
// layout names as its sources (datagen/rules.py).

import { KIND } from "../engine/operations.js";
import { digitValue, formatDecimal, inNaturalOrder, integerOf, signedIntegerOf, signedValue } from "./cells.js";

/** @import { Cell, Work } from "./sheet.js" */

/** What a rule says about a character. expected: null if several are correct; before: the digit before it in a row
 * whose digits are marked: a 0 after another digit is written as 1, so that the highest tells whether all are 0.
 * @typedef {{expected: string | null, why: string, before?: Cell, isMark?: boolean} & Partial<Cell>} Step
 * @typedef {(Cell | undefined)[]} Sources a source that does not exist is undefined
 * @typedef {(sources: Sources, work: Work, row: number, text: string) => Step} Rule */

/** @type {(isNegative: boolean) => string} */ const signOf = (isNegative) => (isNegative ? "-" : "+");
/** @type {(cell: Cell | undefined) => boolean} */ const isMinus = (cell) => cell?.text === "-";
/** @type {(a: number, b: number) => number} */ const mod = (a, b) => ((a % b) + b) % b;

/** @type {(character: string, why: string) => Rule} */
const constant = (character, why) => () => ({ expected: character, why });

/** @type {(words: string) => Rule} */
const copy = (words) => ([source, before]) => ({ expected: source?.text ?? "", why: `${source?.text}${words}`, before });

/** @type {(name: string) => Rule} */
const signRule = (name) => ([minus]) => ({ expected: signOf(isMinus(minus)), why: `the sign of the ${name}` });

/** @type {Rule} */
function signOfSecondTerm([minus, operator]) {
  const isDifference = isMinus(operator);
  const why = `the sign of the second number${isDifference ? ", reversed because it is subtracted" : ""}`;
  return { expected: signOf(isMinus(minus) !== isDifference), why };
}

/** @type {Rule} */
function addOrSubtract([aSign, bSign]) {
  if (aSign?.text === bSign?.text) return { expected: "+", why: "the signs are the same: the digits are added" };
  return { expected: "-", why: "the signs differ: the second number's digits are subtracted" };
}

/** Returns the carry out of a column of a sum: 1, 0 or −1. It follows from the digit that the model wrote there.
 * @type {(direction: number, a: Cell | undefined, b: Cell | undefined, total: Cell | undefined) => number} */
export function carryOfSum(direction, a, b, total) {
  const sum = digitValue(a) + direction * digitValue(b);
  return Math.floor((sum + direction * mod(direction * (digitValue(total) - sum), 10)) / 10);
}

/** @type {Rule} */
function sumDigit([operator, aCell, bCell, ...before]) {
  const direction = isMinus(operator) ? -1 : 1;
  const carry = before.length ? carryOfSum(direction, before[0], before[1], before[2]) : 0;
  const [a, b] = [digitValue(aCell), digitValue(bCell)];
  const sum = a + direction * b + carry;
  const expected = String((sum + 10) % 10);
  if (direction > 0) {
    const why = `${a} + ${b}${carry ? " + carry 1" : ""} = ${sum}: writes ${expected}${sum > 9 ? ", carries 1" : ""}`;
    return { expected, why };
  }
  const terms = `${a} − ${b}${carry ? " − 1 borrowed" : ""} = ${formatDecimal(sum)}`;
  return { expected, why: `${terms}: writes ${expected}${sum < 0 ? ", borrows 1" : ""}` };
}

/** @type {Rule} */
function magnitude([top, total, ...before]) {
  const digit = digitValue(total);
  if (top?.text !== "9") return { expected: String(digit), why: `${digit}, a copy of the sum's digit` };
  const minuend = before.every((cell) => cell?.text === "0") ? 10 : 9; // while all digits so far are 0
  const why = `the sum is negative, so the digit is ${minuend} − ${digit} = ${minuend - digit}`;
  return { expected: String((minuend - digit) % 10), why };
}

/** @type {Rule} */
function sumTop(...given) {
  const step = sumDigit(...given);
  if (step.expected === "9") step.why += ". The top digit is 9: the sum is negative";
  return step;
}

/** @type {Rule} */
function magnitudeTop([top]) {
  const why = "the top digit is 9: the sum is negative, and its size has a 0 here";
  if (top?.text === "9") return { expected: "0", why };
  return { expected: top?.text ?? "", why: `${top?.text}, a copy of the sum's top digit` };
}

/** @type {(isCarry: boolean) => Rule} */
const productRule = (isCarry) => ([multiplier, a, above, carry]) => {
  const total = digitValue(above) + digitValue(multiplier) * digitValue(a) + digitValue(carry);
  const [digit, next] = [total % 10, Math.floor(total / 10)];
  const terms = [`${a?.text} × ${multiplier?.text}`];
  if (digitValue(above)) terms.push(`${above?.text} above`);
  if (digitValue(carry)) terms.push(`carry ${carry?.text}`);
  const sum = `${terms.join(" + ")} = ${total}`;
  if (isCarry && !next) return { expected: "0", why: `${sum}: carries 0` };
  return { expected: String(isCarry ? next : digit), why: `${sum}: writes ${digit}${next ? `, carries ${next}` : ""}` };
};

/** @type {Rule} */
function broughtDown([source], work, row) {
  const isBelow = row === work.nRow + 1; // below the last remainder
  const noMore = "the first number has no more digits";
  if (isBelow) {
    const digit = source?.isMark ? "1, which stands for 0" : source?.text;
    const why = source
      ? `${digit}, the next digit of the first number. It is not brought down, but counts for the rounding`
      : `0: ${noMore} that count for the rounding`;
    return { expected: source?.text ?? "0", why, isBelow, isMark: source?.isMark };
  }
  const why = source ? `${source.text}, the next digit of the first number, brought down` : `0, brought down: ${noMore}`;
  return { expected: source?.text ?? "0", why, isBroughtDown: true };
}

/** @type {Rule} */
function signOfDigit([top]) {
  const isNegative = top?.text === "9";
  const why = isNegative
    ? "the remainder is negative, as its top digit 9 shows, so the next digit is negative too"
    : "the remainder is not negative, so the next digit is not negative either";
  return { expected: signOf(isNegative), why };
}

/** Every digit that leaves less than the divisor is correct. @type {Rule} */
function quotientDigit(_, work, row, text) {
  const dividend = signedIntegerOf([...work.all("brought", row - 1), ...work.all("remainder", row - 1)]);
  const divisor = integerOf(work.all("b"));
  const sign = isMinus(work.one("quotientSign", row)) ? -1n : 1n;
  const q = /^\d$/.test(text) ? BigInt(text) * sign : 0n;
  const rest = dividend - q * divisor;
  const fits = /^\d$/.test(text) && rest < divisor && -rest < divisor;
  // A divisor of 0 is wrong, but a model may write it.
  const estimate = divisor
    ? `about ${(Number((1000n * dividend) / divisor) / 1000).toFixed(2).replace("-", "−")}`
    : "not a number";
  const choice = `chooses ${formatDecimal(q)}, which leaves ${formatDecimal(rest)}`;
  const remark = fits ? "" : ". That is not less than the divisor, so the digit is wrong";
  const why = `${formatDecimal(dividend)} ÷ ${divisor} is ${estimate}: ${choice}${remark}`;
  return { expected: null, why, isWrong: !fits, isChoice: true };
}

/** @type {(isCarry: boolean) => Rule} */
const remainderRule = (isCarry) => ([sign, q, b, old, carry, before]) => {
  const [direction, operator] = isMinus(sign) ? [1, "+"] : [-1, "−"];
  const [passes, passed] = direction > 0 ? ["carries", "carried"] : ["borrows", "borrowed"];
  const total = digitValue(old) + direction * (digitValue(q) * digitValue(b) + digitValue(carry));
  const terms = [old?.text, operator, q?.text, "×", b?.text];
  if (digitValue(carry)) terms.push(operator, carry?.text, passed);
  const [digit, next] = [mod(total, 10), Math.abs(Math.floor(total / 10))];
  const sum = `${terms.join(" ")} = ${formatDecimal(total)}`;
  if (isCarry && !next) return { expected: "0", why: `${sum}: ${passes} 0` };
  const why = `${sum}: gives ${digit}${next ? `, ${passes} ${next}` : ""}`;
  return { expected: String(isCarry ? next : digit), why, before };
};

/** @type {Rule} */
function rounding([half, kept, below], work) {
  const isFive = digitValue(half) === 5;
  const isTie = isFive && !digitValue(below);
  const roundsUp = digitValue(half) > 5 || (isFive && (!isTie || digitValue(kept) % 2 === 1));
  const exact = work.all("exact");
  const dropped = inNaturalOrder(exact.slice(0, half ? exact.indexOf(half) + 1 : 0));
  const tie = isTie ? ", a tie, which goes to the even digit" : "";
  const [expected, effect] = roundsUp ? ["+", "rounds up"] : ["0", "adds nothing"];
  return { expected, why: `${dropped} is dropped${tie}: ${effect}` };
}

/** @type {Rule} */
function roundedDigit([exact, exactBefore, before]) {
  const carry = exactBefore ? exactBefore.text === "9" && before?.text === "0" : before?.text === "+";
  const digit = digitValue(exact);
  const why = carry ? `${digit} + 1 from the rounding = ${digit + 1}` : `${digit}, kept`;
  return { expected: String((digit + Number(carry)) % 10), why };
}

/** @type {Rule} */
function quotientRounding([sign, last, beforeLast, top]) {
  const isPositive = sign?.text === "+";
  const isExact = top?.text === "0"; // the top digit is marked
  // If the remainder has the sign of the last digit, the exact quotient is further from 0 than the digits.
  const isBeyond = !isExact && (top?.text !== "9") === isPositive;
  const isOdd = digitValue(beforeLast) % 2 === 1;
  const isAway = digitValue(last) > 5 || (digitValue(last) === 5 && (isBeyond || (isExact && isOdd)));
  const effect = isAway ? (isPositive ? "adds 1" : "takes 1 away") : "adds nothing";
  const why = `the last digit, ${isPositive ? "" : "−"}${last?.text}, is rounded away: it ${effect}`;
  return { expected: isAway ? signOf(!isPositive) : "0", why };
}

/** @type {Rule} */
function quotientResult([sign, digit, signBefore, digitBefore, before]) {
  let carry = before?.text === "+" ? 1 : before?.text === "-" ? -1 : 0;
  if (digitBefore) {
    const value = signedValue(signBefore, digitBefore);
    carry = Math.floor((value + mod(digitValue(before) - value + 1, 10) - 1) / 10);
  }
  const q = signedValue(sign, digit);
  const sum = q + carry;
  const expected = String((sum + 10) % 10);
  const terms = `${formatDecimal(q)}${carry ? ` ${carry < 0 ? "− 1" : "+ 1"} from the digit before` : ""}`;
  return { expected, why: `${terms} = ${formatDecimal(sum)}: writes ${expected}${sum < 0 ? ", borrows 1" : ""}` };
}

/** @type {Rule} */
function signOfSum([aSign, top]) {
  return { expected: signOf(isMinus(aSign) !== (top?.text === "9")), why: "the sign of the result" };
}

/** @type {Rule} */
function signOfResult([aSign, bSign], { shape }) {
  const signsDiffer = aSign?.text !== bSign?.text;
  const name = shape.op === "*" ? "product" : "quotient";
  const why = signsDiffer
    ? `the signs differ: the ${name} is negative unless it is 0`
    : `the signs are the same: the ${name} is not negative`;
  return { expected: signOf(signsDiffer), why };
}

/** @type {Rule} */
function beginResult(_, work) {
  const { shape, layout } = work;
  let why = shape.op === "*" ? "the product begins" : "the result begins";
  if (work.one("exact")) why = "the rounded result begins";
  else if (!layout.result.length && !shape.byZero) why = "the result, less than half of the last place";
  return { expected: ":", why };
}

/** @type {Rule} */
const sumBelow = (sources, ...rest) => ({ ...magnitude(sources, ...rest), before: sources[3] });
/** @type {Rule} */
const multiplier = (sources, work, row, text) =>
  copy(`, the digit of the second number for row ${row}`)(sources, work, row, text);
/** @type {Rule} */
const beginExact = (_, { shape: { op } }) => ({ expected: "|", why: `the exact ${op === "*" ? "product" : "result"} begins` });
/** @type {Rule} */
const beginAnswer = (_, { shape: { byZero } }) => {
  return { expected: "=", why: `the answer begins${byZero ? "" : ", lowest digit first"}` };
};

/** The rules, and the kinds of the characters that each explains. @type {[string, Rule][]} */
const RULES_OF_KINDS = [
  ["A_SIGN", signRule("first number")],
  ["A_DIGIT A_BELOW", copy(", a digit of the first number")],
  ["A_ZERO B_ZERO REMAINDER_ZERO", constant("0", "a zero that fills the row")],
  ["B_SIGN", signRule("second number")],
  ["B_SIGN_OF_SUM", signOfSecondTerm],
  ["B_DIGIT", copy(", a digit of the second number")],
  ["ADD_OR_SUBTRACT", addOrSubtract],
  ["SUM_LOWEST SUM_DIGIT", sumDigit],
  ["SUM_TOP", sumTop],
  ["MAGNITUDE_LOWEST SUM_RESULT SUM_KEPT SUM_HALF", magnitude],
  ["MAGNITUDE_TOP", magnitudeTop],
  ["SUM_BELOW", sumBelow],
  ["ROW_MARK", (_, __, row) => ({ expected: ";", why: `row ${row} begins` })],
  ["MULTIPLIER", multiplier],
  ["FIRST_DIGIT PRODUCT_DIGIT", productRule(false)],
  ["FIRST_CARRY PRODUCT_CARRY", productRule(true)],
  ["PRODUCT_RESULT PRODUCT_KEPT PRODUCT_HALF PRODUCT_BELOW", copy(", from the rows above")],
  ["REMAINDER_MARK", constant(";", "the first remainder begins")],
  ["REMAINDER_COPY", copy(", a leading digit of the first number")],
  ["BROUGHT_DOWN BROUGHT_ZERO", broughtDown],
  ["DIVIDEND_SIGN", signOfDigit],
  ["QUOTIENT_DIGIT", quotientDigit],
  ["REMAINDER_DIGIT LAST_DIGIT", remainderRule(false)],
  ["REMAINDER_CARRY", remainderRule(true)],
  ["QUOTIENT_ROUNDING", quotientRounding],
  ["QUOTIENT_RESULT", quotientResult],
  ["EXACT_MARK", beginExact],
  ["ROUNDING", rounding],
  ["RESULT_MARK", beginResult],
  ["ROUNDED_RESULT ROUNDED_TOP", roundedDigit],
  ["SUM_SIGN", signOfSum],
  ["SIGN", signOfResult],
  ["NAN", constant("n", "nothing can be divided by 0")],
  ["EQUALS", beginAnswer],
];
/** The rules by kind. @type {Record<number, Rule>} */
export const RULES = Object.fromEntries(
  RULES_OF_KINDS.flatMap(([kinds, rule]) => kinds.split(" ").map((kind) => [KIND[kind], rule])),
);
