// The kinds of characters in worked steps: where each stands on the sheet, what it should be, and why. A rule reads the
// characters that the layout names as its sources (datagen/rules.py).

import { KIND, OPERATIONS } from "../engine/operations.js";
import { digitValue, formatDecimal, inNaturalOrder, say, signedValue } from "./cells.js";

/** @import { Cell, Part } from "./cells.js" */
/** @import { Work } from "./work.js" */

/** What a rule says about a character. before: the digit before it in a row whose digits are marked: a 0 after another
 * digit is written as 1, so that the highest tells whether all are 0.
 * @typedef {{expected: string | null, why: Part[], before?: Cell} & Partial<Cell>} Step
 * @typedef {(Cell | undefined)[]} Sources a source that does not exist is undefined
 * @typedef {(sources: Sources, work: Work, row: number, text: string) => Step} Rule */

/** @type {(isNegative: boolean) => string} */ const signOf = (isNegative) => (isNegative ? "-" : "+");
/** @type {(cell: Cell | undefined) => boolean} */ const isMinus = (cell) => cell?.text === "-";
/** @type {(a: number, b: number) => number} */ const mod = (a, b) => ((a % b) + b) % b;

/** @type {(character: string, why: string) => Rule} */
const constant = (character, why) => () => ({ expected: character, why: [why] });

/** @type {Rule} */
const fill = () => ({ expected: "0", why: ["a zero that fills the row"], isFill: true });

/** @type {(words: string) => Rule} */
const copy = (words) => ([source, before]) => ({ expected: source?.text ?? "", why: say`${source}${words}`, before });

/** @type {(name: string) => Rule} */
const signRule = (name) => ([minus]) => ({ expected: signOf(isMinus(minus)), why: [`the sign of the ${name}`] });

/** @type {Rule} */
function signOfSecondTerm([minus, operator]) {
  const isDifference = isMinus(operator);
  const why = [`the sign of the second number${isDifference ? ", reversed because it is subtracted" : ""}`];
  return { expected: signOf(isMinus(minus) !== isDifference), why };
}

/** @type {Rule} */
function addOrSubtract([aSign, bSign]) {
  if (aSign?.text === bSign?.text) return { expected: "+", why: ["the signs are the same: the digits are added"] };
  return { expected: "-", why: ["the signs differ: the second number's digits are subtracted"] };
}

/** Returns the carry out of a column of a sum: 1, 0 or −1. It follows from the digit that the model wrote there.
 * @type {(direction: number, a: Cell | undefined, b: Cell | undefined, total: Cell | undefined) => number} */
export function carryOfSum(direction, a, b, total) {
  const sum = digitValue(a) + direction * digitValue(b);
  return Math.floor((sum + direction * mod(direction * (digitValue(total) - sum), 10)) / 10);
}

/** @type {Rule} */
function sumDigit([operator, a, b, ...before]) {
  const direction = isMinus(operator) ? -1 : 1;
  const carry = before.length ? carryOfSum(direction, before[0], before[1], before[2]) : 0;
  const sum = digitValue(a) + direction * digitValue(b) + carry;
  const expected = String((sum + 10) % 10);
  const [sign, carried, passes] = direction > 0 ? ["+", " + carry 1", "carries"] : ["−", " − 1 borrowed", "borrows"];
  const next = sum < 0 || sum > 9 ? `, ${passes} 1` : "";
  return { expected, why: say`${a} ${sign} ${b}${carry ? carried : ""} = ${formatDecimal(sum)}: writes ${expected}${next}` };
}

/** @type {Rule} */
function magnitude([top, total, ...before]) {
  const digit = digitValue(total);
  if (top?.text !== "9") return { expected: String(digit), why: say`${total}, a copy of the sum's digit` };
  const minuend = before.every((cell) => cell?.text === "0") ? 10 : 9; // while all digits so far are 0
  const why = say`the sum is negative, so the digit is ${minuend} − ${total} = ${minuend - digit}`;
  return { expected: String((minuend - digit) % 10), why };
}

/** @type {Rule} */
function sumTop(...given) {
  const step = sumDigit(...given);
  if (step.expected === "9") step.why.push(". The top digit is 9: the sum is negative");
  return step;
}

/** @type {Rule} */
function magnitudeTop([top]) {
  const why = ["the top digit is 9: the sum is negative, and its size has a 0 here"];
  if (top?.text === "9") return { expected: "0", why };
  return { expected: top?.text ?? "", why: say`${top}, a copy of the sum's top digit` };
}

/** @type {(isCarry: boolean) => Rule} */
const productRule = (isCarry) => ([multiplier, a, above, carry]) => {
  const total = digitValue(above) + digitValue(multiplier) * digitValue(a) + digitValue(carry);
  const [digit, next] = [total % 10, Math.floor(total / 10)];
  const more = [...(digitValue(above) ? say` + ${above} above` : []), ...(digitValue(carry) ? say` + carry ${carry}` : [])];
  const sum = say`${a} × ${multiplier}${more} = ${total}`;
  if (isCarry && !next) return { expected: "0", why: say`${sum}: carries 0` };
  return { expected: String(isCarry ? next : digit), why: say`${sum}: writes ${digit}${next ? `, carries ${next}` : ""}` };
};

/** @type {Rule} */
function broughtDown([source], work, row) {
  const expected = source?.text ?? "0";
  const noMore = "the first number has no more digits";
  if (work.has("multiple", row + 1)) { // else this is below the last remainder
    const why = source ? say`${source}, the next digit of the first number, brought down` : [`0, brought down: ${noMore}`];
    return { expected, why, isBroughtDown: true };
  }
  const digit = source?.isMark ? say`${source}, which stands for 0` : say`${source}`;
  const why = source
    ? say`${digit}, the next digit of the first number. It is not brought down, but counts for the rounding`
    : [`0: ${noMore} that count for the rounding`];
  return { expected, why, isBelow: true, isMark: source?.isMark, isFill: !source };
}

/** @type {Rule} */
function signOfDigit([top]) {
  const isNegative = top?.text === "9";
  const why = isNegative
    ? "the remainder is negative: the last digit took too much, so this one adds back"
    : "the remainder is not negative, so this digit does not add back";
  return { expected: signOf(isNegative), why: [why] };
}

/** Every digit that leaves less than the divisor is correct. @type {Rule} */
function quotientDigit(_, work, row, text) {
  const [dividend, divisor] = [work.valueOf("remainder", row - 1), work.valueOf("b")];
  const sign = isMinus(work.get("multiple", row).sign) ? -1n : 1n;
  const q = /^\d$/.test(text) ? BigInt(text) * sign : 0n;
  const rest = dividend - q * divisor;
  const fits = /^\d$/.test(text) && rest < divisor && -rest < divisor;
  const exponent = work.offsets[row] - work.units.a; // of the remainder's lowest place
  const size = work.offsets[row] - work.units.result; // of the digit's place
  // A divisor of 0 is wrong, but a model may write it.
  const estimate = divisor ? `about ${formatDecimal((100n * dividend) / divisor, size - 2)}` : "not a number";
  const choice = `${q < 0n ? "adds back" : "takes"} ${formatDecimal(q < 0n ? -q : q, size)} times`;
  const remark = fits ? "" : ". That is too much, so the digit is wrong";
  const question = `${formatDecimal(dividend, exponent)} ÷ ${formatDecimal(divisor, -work.divisorPlaces)}`;
  const why = `${question} is ${estimate}: ${choice}, which leaves ${formatDecimal(rest, exponent)}${remark}`;
  return { expected: null, why: [why], isWrong: !fits, isChoice: true };
}

/** @type {(isCarry: boolean) => Rule} */
const remainderRule = (isCarry) => ([sign, q, b, old, carry, before]) => {
  const [direction, operator] = isMinus(sign) ? [1, "+"] : [-1, "−"];
  const [passes, passed] = direction > 0 ? ["carries", "carried"] : ["borrows", "borrowed"];
  const total = digitValue(old) + direction * (digitValue(q) * digitValue(b) + digitValue(carry));
  const more = digitValue(carry) ? say` ${operator} ${carry} ${passed}` : [];
  const meaning = old?.shown && old.shown !== old.text ? ` (in the place of ${old.shown})` : "";
  const [digit, next] = [mod(total, 10), Math.abs(Math.floor(total / 10))];
  const sum = say`${old}${meaning} ${operator} ${q} × ${b}${more} = ${formatDecimal(total)}`;
  if (isCarry && !next) return { expected: "0", why: say`${sum}: ${passes} 0` };
  const why = say`${sum}: gives ${digit}${next ? `, ${passes} ${next}` : ""}`;
  return { expected: String(isCarry ? next : digit), why, before };
};

/** @type {Rule} */
function rounding([half, kept, below], work) {
  const isFive = digitValue(half) === 5;
  const isTie = isFive && !digitValue(below);
  const roundsUp = digitValue(half) > 5 || (isFive && (!isTie || digitValue(kept) % 2 === 1));
  const { digits } = work.get("exact");
  const dropped = inNaturalOrder(digits.slice(0, half ? digits.indexOf(half) + 1 : 0));
  const tie = isTie ? ", a tie, which goes to the even digit" : "";
  const [expected, effect] = roundsUp ? ["+", "rounds up"] : ["0", "adds nothing"];
  return { expected, why: [`${dropped} is dropped${tie}: ${effect}`] };
}

/** @type {Rule} */
function roundedDigit([exact, exactBefore, before]) {
  const carry = exactBefore ? exactBefore.text === "9" && before?.text === "0" : before?.text === "+";
  const digit = digitValue(exact);
  const why = carry ? say`${exact ?? 0} + 1 from the rounding = ${digit + 1}` : say`${exact ?? 0}, kept`;
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
  const why = say`the last digit, ${isPositive ? "" : "−"}${last}, is rounded away: it ${effect}`;
  return { expected: isAway ? signOf(!isPositive) : "0", why };
}

/** @type {Rule} */
function quotientResult([sign, digit, signBefore, digitBefore, before]) {
  let carry = before?.text === "+" ? 1 : before?.text === "-" ? -1 : 0;
  if (digitBefore) {
    const value = signedValue(signBefore, digitBefore);
    carry = Math.floor((value + mod(digitValue(before) - value + 1, 10) - 1) / 10);
  }
  const sum = signedValue(sign, digit) + carry;
  const expected = String((sum + 10) % 10);
  const terms = say`${isMinus(sign) ? "−" : ""}${digit}${carry ? ` ${carry < 0 ? "− 1" : "+ 1"} from the digit before` : ""}`;
  return { expected, why: say`${terms} = ${formatDecimal(sum)}: writes ${expected}${sum < 0 ? ", borrows 1" : ""}` };
}

/** @type {Rule} */
function signOfSum([aSign, top]) {
  return { expected: signOf(isMinus(aSign) !== (top?.text === "9")), why: ["the sign of the result"] };
}

/** @type {Rule} */
function signOfResult([aSign, bSign], { shape }) {
  const signsDiffer = aSign?.text !== bSign?.text;
  const name = shape.op === "*" ? "product" : "quotient";
  const why = signsDiffer
    ? `the signs differ: the ${name} is negative unless it is 0`
    : `the signs are the same: the ${name} is not negative`;
  return { expected: signOf(signsDiffer), why: [why] };
}

/** @type {Rule} */
function beginResult(_, work) {
  const { shape, layout } = work;
  let why = shape.op === "*" ? "the product begins" : "the result begins";
  if (work.has("exact")) why = "the rounded result begins";
  else if (!layout.result.length && !shape.byZero) why = "the result, less than half of the last place";
  return { expected: ":", why: [why] };
}

/** @type {Rule} */
const sumBelow = (sources, ...rest) => ({ ...magnitude(sources, ...rest), before: sources[3] });
/** @type {Rule} */
const multiplier = ([source], _, row) => ({
  expected: source?.text ?? "", why: say`${source}, the digit of the second number for row ${row}`,
});
/** @type {Rule} */
const beginExact = (_, { shape }) => ({ expected: "|", why: [`the exact ${shape.op === "*" ? "product" : "result"} begins`] });
/** @type {Rule} */
const beginAnswer = (_, { shape: { byZero } }) => {
  return { expected: "=", why: [`the answer begins${byZero ? "" : ", lowest digit first"}`] };
};

/** Each kind of character. place: the line of the sheet on which it stands, and as what; "mark": not on the sheet, and
 * without it the rest cannot be read; "last": the line that the last mark began; "aside": a carry that people do not
 * write, shown only if it is wrong.
 * @type {[place: string, kinds: string, rule: Rule][]} */
const TABLE = [
  ["a sign", "A_SIGN", signRule("first number")],
  ["a digits", "A_DIGIT A_BELOW", copy(", a digit of the first number")],
  ["a digits", "A_ZERO", fill],
  ["b sign", "B_SIGN", signRule("second number")],
  ["b sign", "B_SIGN_OF_SUM", signOfSecondTerm],
  ["b digits", "B_DIGIT", copy(", a digit of the second number")],
  ["b digits", "B_ZERO", fill],
  ["sum side", "ADD_OR_SUBTRACT", addOrSubtract],
  ["sum digits", "SUM_LOWEST SUM_DIGIT", sumDigit],
  ["sum digits", "SUM_TOP", sumTop],
  ["last digits", "MAGNITUDE_LOWEST SUM_RESULT SUM_KEPT SUM_HALF", magnitude],
  ["last digits", "MAGNITUDE_TOP", magnitudeTop],
  ["last digits", "SUM_BELOW", sumBelow],
  ["mark", "ROW_MARK", (_, __, row) => ({ expected: ";", why: [`row ${row} begins`] })],
  ["row side", "MULTIPLIER", multiplier],
  ["row digits", "FIRST_DIGIT PRODUCT_DIGIT", productRule(false)],
  ["row carries", "FIRST_CARRY PRODUCT_CARRY", productRule(true)],
  ["last digits", "PRODUCT_RESULT PRODUCT_KEPT PRODUCT_HALF PRODUCT_BELOW", copy(", from the rows above")],
  ["mark", "REMAINDER_MARK", constant(";", "the first remainder begins")],
  ["remainder digits", "REMAINDER_COPY", copy(", a leading digit of the first number")],
  ["remainder digits", "REMAINDER_ZERO", fill],
  ["remainder digits", "BROUGHT_DOWN BROUGHT_ZERO", broughtDown],
  ["multiple sign", "DIVIDEND_SIGN", signOfDigit],
  ["multiple side", "QUOTIENT_DIGIT", quotientDigit],
  ["remainder digits", "REMAINDER_DIGIT LAST_DIGIT", remainderRule(false)],
  ["remainder aside", "REMAINDER_CARRY", remainderRule(true)],
  ["result side", "QUOTIENT_ROUNDING", quotientRounding],
  ["last digits", "QUOTIENT_RESULT", quotientResult],
  ["mark exact", "EXACT_MARK", beginExact],
  ["result side", "ROUNDING", rounding],
  ["mark result", "RESULT_MARK", beginResult],
  ["last digits", "ROUNDED_RESULT ROUNDED_TOP", roundedDigit],
  ["result sign", "SUM_SIGN", signOfSum],
  ["result sign", "SIGN", signOfResult],
  ["mark", "NAN", constant("n", "nothing can be divided by 0")],
  ["mark", "EQUALS", beginAnswer],
];
/** The table by kind. @type {Record<number, {line: string, part: string, rule: Rule}>} */
export const RULES = Object.fromEntries(
  TABLE.flatMap(([place, kinds, rule]) => {
    const [line, part = ""] = place.split(" ");
    return kinds.split(" ").map((kind) => [KIND[kind], { line, part, rule }]);
  }),
);
