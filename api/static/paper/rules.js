// The kinds of characters in worked steps: where each stands on the sheet, what it should be, and why. A rule reads the
// characters that the layout names as its sources (datagen/rules.py).

import { KIND } from "../engine/operations.js";
import { digitValue, formatDecimal, inNaturalOrder, isMinus, say, signedValue } from "./cells.js";

/** @import { Cell, Part } from "./cells.js" */
/** @import { Work } from "./work.js" */

/** Returns the correct character, null if several are, its explanation, and what else its cell has. before: the digit
 * before it in a row whose digits are marked: a 0 after another digit is written as 1, so that the highest tells
 * whether all are 0. A source that does not exist is undefined.
 * @typedef {(sources: (Cell | undefined)[], work: Work, row: number, text: string) =>
 *   [expected: string | null, why: string | Part[], more?: Partial<Cell> & {before?: Cell}]} Rule */

/** @type {(isNegative: boolean) => string} */ const signOf = (isNegative) => (isNegative ? "-" : "+");
/** @type {(a: number, b: number) => number} */ const mod = (a, b) => ((a % b) + b) % b;

/** @type {(character: string, why: string, more?: Partial<Cell>) => Rule} */
const constant = (character, why, more) => () => [character, why, more];
/** @type {(words: string) => Rule} */
const copy = (words) => ([source, before]) => [source?.text ?? "", say`${source}${words}`, { before }];
/** @type {(name: string) => Rule} */
const signRule = (name) => ([minus]) => [signOf(isMinus(minus)), `the sign of the ${name}`];

/** Returns what a rule says that writes the last digit of a sum, or the carry out of it.
 * @type {(terms: Part[], sum: number, words: string, isCarry?: boolean) => [string, Part[]]} */
function column(terms, sum, words, isCarry = false) {
  const [digit, next] = [mod(sum, 10), Math.abs(Math.floor(sum / 10))];
  const [writes, carries] = words.split(" ");
  const carried = next || isCarry ? `${carries} ${next}` : "";
  const written = isCarry && !next ? carried : `${writes} ${digit}${carried && `, ${carried}`}`;
  return [String(isCarry ? next : digit), say`${terms} = ${formatDecimal(sum)}: ${written}`];
}

/** @type {Rule} */
function signOfSecondTerm([minus, operator]) {
  const reversed = isMinus(operator) ? ", reversed because it is subtracted" : "";
  return [signOf(isMinus(minus) !== isMinus(operator)), `the sign of the second number${reversed}`];
}

/** @type {Rule} */
function addOrSubtract([aSign, bSign]) {
  if (aSign?.text === bSign?.text) return ["+", "the signs are the same: the digits are added"];
  return ["-", "the signs differ: the second number's digits are subtracted"];
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
  const [sign, carried, passes] = direction > 0 ? ["+", " + carry 1", "carries"] : ["−", " − 1 borrowed", "borrows"];
  const sum = digitValue(a) + direction * digitValue(b) + carry;
  return column(say`${a} ${sign} ${b}${carry ? carried : ""}`, sum, `writes ${passes}`);
}

/** @type {(isMarked: boolean) => Rule} */
const magnitude = (isMarked) => ([top, total, ...before]) => {
  const digit = digitValue(total);
  const more = isMarked ? { before: before[1] } : {};
  if (top?.text !== "9") return [String(digit), say`${total}, a copy of the sum's digit`, more];
  const base = before.every((cell) => cell?.text === "0") ? 10 : 9; // while all digits so far are 0
  const why = say`the sum is negative, so the digit is ${base} − ${total} = ${base - digit}`;
  return [String((base - digit) % 10), why, more];
};

/** @type {Rule} */
const magnitudeTop = ([top]) => {
  return top?.text === "9" ? ["0", say`${top} says that the sum is negative`] : [top?.text ?? "", say`${top}, a copy`];
};

/** @type {(isCarry: boolean) => Rule} */
const productRule = (isCarry) => ([multiplier, a, above, carry]) => {
  const sum = digitValue(above) + digitValue(multiplier) * digitValue(a) + digitValue(carry);
  const added = digitValue(above) ? say` + ${above} above` : [];
  const carried = digitValue(carry) ? say` + carry ${carry}` : [];
  return column(say`${a} × ${multiplier}${added}${carried}`, sum, "writes carries", isCarry);
};

/** @type {Rule} */
function broughtDown([source], work, row) {
  const character = source?.text ?? "0";
  const origin = source ? "the next digit of the first number" : "as the first number has no more digits";
  const digit = say`${source ?? "0"}, ${origin}`;
  if (work.has("multiple", row + 1)) return [character, say`${digit}, brought down`, { isBroughtDown: true }];
  const more = { isBelow: true, isMark: source?.isMark, isFill: !source }; // below the last remainder
  return [character, say`${digit}. It is not brought down, but counts for the rounding`, more];
}

/** @type {Rule} */
const signOfDigit = ([top]) => {
  if (top?.text === "9") return ["-", "the last digit took too much, so this one adds back"];
  return ["+", "this digit takes away: what is left allows it"];
};

/** Every digit that leaves less than the divisor is correct. @type {Rule} */
function quotientDigit(_, work, row, text) {
  const [dividend, divisor] = [work.valueOf("remainder", row - 1), work.valueOf("b")];
  const isDigit = /^\d$/.test(text);
  const q = BigInt(isDigit ? text : 0) * (isMinus(work.get("multiple", row).sign) ? -1n : 1n);
  const rest = dividend - q * divisor;
  const isWrong = !isDigit || rest >= divisor || -rest >= divisor;
  const exponent = work.offsets[row] - work.units.a; // of the remainder's lowest place
  // A divisor of 0 is wrong, but a model may write it.
  const about = divisor ? `about ${work.quotientAt(row, (100n * dividend) / divisor, 2)}` : "not a number";
  const question = `${formatDecimal(dividend, exponent)} ÷ ${formatDecimal(divisor, -work.divisorPlaces)} is ${about}`;
  const choice = `${q < 0n ? "adds back" : "takes"} ${work.quotientAt(row, q < 0n ? -q : q)} times`;
  const remark = isWrong ? ". That is too much, so the digit is wrong" : "";
  const why = `${question}: ${choice}, which leaves ${formatDecimal(rest, exponent)}${remark}`;
  return [null, why, { isWrong, isChoice: true }];
}

/** @type {(isCarry: boolean) => Rule} */
const remainderRule = (isCarry) => ([sign, q, b, old, carry, before]) => {
  const [operator, passed, passes] = isMinus(sign) ? ["+", "carried", "carries"] : ["−", "borrowed", "borrows"];
  const change = digitValue(q) * digitValue(b) + digitValue(carry);
  const more = digitValue(carry) ? say` ${operator} ${carry} ${passed}` : [];
  const meaning = old?.shown && old.shown !== old.text ? ` (in the place of ${old.shown})` : "";
  const sum = digitValue(old) + (isMinus(sign) ? change : -change);
  return [...column(say`${old}${meaning} ${operator} ${q} × ${b}${more}`, sum, `gives ${passes}`, isCarry), { before }];
};

/** @type {Rule} */
function rounding([half, kept, below], work) {
  const isTie = digitValue(half) === 5 && !digitValue(below);
  const roundsUp = isTie ? digitValue(kept) % 2 === 1 : digitValue(half) >= 5;
  const dropped = inNaturalOrder(work.get("exact").digits.filter(({ at }) => half && at <= half.at));
  const tie = isTie ? ", a tie, which goes to the even digit" : "";
  return [roundsUp ? "+" : "0", `${dropped} is dropped${tie}: ${roundsUp ? "rounds up" : "adds nothing"}`];
}

/** @type {Rule} */
function roundedDigit([exact, exactBefore, before]) {
  const carry = exactBefore ? exactBefore.text === "9" && before?.text === "0" : before?.text === "+";
  const digit = digitValue(exact);
  const why = carry ? say`${exact ?? 0} + 1 from the rounding = ${digit + 1}` : say`${exact ?? 0}, kept`;
  return [String((digit + Number(carry)) % 10), why];
}

/** @type {Rule} */
function quotientRounding([sign, last, beforeLast, top]) {
  const isExact = top?.text === "0"; // the top digit is marked
  // If the remainder has the sign of the last digit, the exact quotient is further from 0 than the digits.
  const isBeyond = isExact ? digitValue(beforeLast) % 2 === 1 : (top?.text === "9") === isMinus(sign);
  const isAway = digitValue(last) > 5 || (digitValue(last) === 5 && isBeyond);
  const effect = isAway ? (isMinus(sign) ? "takes 1 away" : "adds 1") : "adds nothing";
  const why = say`the last digit, ${isMinus(sign) ? "−" : ""}${last}, is rounded away: it ${effect}`;
  return [isAway ? signOf(isMinus(sign)) : "0", why];
}

/** @type {Rule} */
function quotientResult([sign, digit, signBefore, digitBefore, before]) {
  let carry = before?.text === "+" ? 1 : before?.text === "-" ? -1 : 0;
  if (digitBefore) {
    const value = signedValue(signBefore, digitBefore);
    carry = Math.floor((value + mod(digitValue(before) - value + 1, 10) - 1) / 10);
  }
  const more = carry ? ` ${carry < 0 ? "− 1" : "+ 1"} from the digit before` : "";
  const sum = signedValue(sign, digit) + carry;
  return column(say`${isMinus(sign) ? "−" : ""}${digit}${more}`, sum, sum < 0 ? "writes borrows" : "writes carries");
}

/** @type {Rule} */
const signOfSum = ([aSign, top]) => [signOf(isMinus(aSign) !== (top?.text === "9")), "the sign of the result"];
/** @type {Rule} */
const signOfResult = ([aSign, bSign]) => {
  if (aSign?.text === bSign?.text) return ["+", "the signs are the same: the result is not negative"];
  return ["-", "the signs differ: the result is negative unless it is 0"];
};

/** Each kind of character. place: the line of the sheet on which it stands, and as what; "mark": not on the sheet, and
 * without it the rest cannot be read; "last": the line that the last mark began; "aside": what people do not write,
 * shown only if it is wrong.
 * @type {[place: string, kinds: string, rule: Rule][]} */
const TABLE = [
  ["a sign", "A_SIGN", signRule("first number")],
  ["a digits", "A_DIGIT A_BELOW", copy(", a digit of the first number")],
  ["a digits", "A_ZERO", constant("0", "a zero that fills the row", { isFill: true })],
  ["b sign", "B_SIGN", signRule("second number")],
  ["b sign", "B_SIGN_OF_SUM", signOfSecondTerm],
  ["b digits", "B_DIGIT", copy(", a digit of the second number")],
  ["b digits", "B_ZERO", constant("0", "a zero that fills the row", { isFill: true })],
  ["sum side", "ADD_OR_SUBTRACT", addOrSubtract],
  ["sum digits", "SUM_LOWEST SUM_DIGIT SUM_TOP", sumDigit],
  ["last digits", "MAGNITUDE_LOWEST SUM_RESULT SUM_KEPT SUM_HALF", magnitude(false)],
  ["last digits", "SUM_BELOW", magnitude(true)],
  ["last digits", "MAGNITUDE_TOP", magnitudeTop],
  ["mark", "ROW_MARK", constant(";", "the next row begins")],
  ["row side", "MULTIPLIER", copy(", the digit of the second number for this row")],
  ["row digits", "FIRST_DIGIT PRODUCT_DIGIT", productRule(false)],
  ["row carries", "FIRST_CARRY PRODUCT_CARRY", productRule(true)],
  ["last digits", "PRODUCT_RESULT PRODUCT_KEPT PRODUCT_HALF PRODUCT_BELOW", copy(", from the rows above")],
  ["mark", "REMAINDER_MARK", constant(";", "the first remainder begins")],
  ["remainder digits", "REMAINDER_COPY", copy(", a leading digit of the first number")],
  ["remainder digits", "REMAINDER_ZERO", constant("0", "a zero that fills the row", { isFill: true })],
  ["remainder digits", "BROUGHT_DOWN BROUGHT_ZERO", broughtDown],
  ["multiple sign", "DIVIDEND_SIGN", signOfDigit],
  ["multiple side", "QUOTIENT_DIGIT", quotientDigit],
  ["remainder digits", "REMAINDER_DIGIT LAST_DIGIT", remainderRule(false)],
  ["remainder aside", "REMAINDER_CARRY", remainderRule(true)],
  ["result side", "QUOTIENT_ROUNDING", quotientRounding],
  ["last digits", "QUOTIENT_RESULT", quotientResult],
  ["mark exact", "EXACT_MARK", constant("|", "the exact result begins")],
  ["result side", "ROUNDING", rounding],
  ["mark result", "RESULT_MARK", constant(":", "the result begins")],
  ["last digits", "ROUNDED_RESULT ROUNDED_TOP", roundedDigit],
  ["result sign", "SUM_SIGN", signOfSum],
  ["result sign", "SIGN", signOfResult],
  ["mark", "NAN", constant("n", "nothing can be divided by 0")],
  ["mark", "EQUALS", constant("=", "the answer begins, lowest digit first")],
  ["answer digits", "ANSWER_DIGIT", copy(", a digit of the answer, copied from the result")],
  ["answer digits", "ANSWER_ZERO", constant("0", "a zero that fills the answer up to ten characters")],
  ["answer digits", "ANSWER_N", constant("n", "nothing can be divided by 0")],
  ["answer digits", "ANSWER_A", constant("a", "nothing can be divided by 0")],
  ["answer aside", "ANSWER_POINT", constant(".", "the decimal point")],
  ["answer sign", "ANSWER_MINUS", constant("-", "the sign of the answer")],
  ["answer aside", "END", constant("$", "the end")],
];
/** The table by kind. @type {Record<number, {line: string, part: string, rule: Rule}>} */
export const RULES = Object.fromEntries(
  TABLE.flatMap(([place, kinds, rule]) => {
    const [line, part = ""] = place.split(" ");
    return kinds.split(" ").map((kind) => [KIND[kind], { line, part, rule }]);
  }),
);
