// The rows of worked steps on paper, and their labels.

import { OPERATIONS } from "../engine/operations.js";
import { formatPlaces } from "../format.js";
import {
  derivedCells, digitValue, formatDecimal, inNaturalOrder, integerOf, isMinus, isWrong, signedValue,
} from "./cells.js";
import { carryOfSum } from "./rules.js";

/** @import { Cell } from "./cells.js" */
/** @import { Line, Work } from "./work.js" */

/** A row of a sheet, which shows worked steps as on paper. names: the lines of the work that it shows; label: a
 * description; unit: the column of the units, if it may have a point; carries: small cells above the row; operator and
 * sign: shown before the digits; side: cells beside the row; isDerived: whether the page computed the row; hasLine:
 * whether there is a line above it; showsPlus: whether the sign is shown if it is +; isDecimal: whether zeros at the
 * end of decimals are left out; mayMerge: whether the row before it may show it as well; isComplete: whether nothing
 * more is written in it.
 * @typedef {{names: string[], label: string, cells: Cell[], unit: number, carries: Cell[], operator?: string,
 *   sign?: Cell, side: Cell[], isDerived?: boolean, hasLine?: boolean, showsPlus?: boolean, isDecimal?: boolean,
 *   mayMerge?: boolean, isComplete: boolean}} Row */

/** @type {(number: bigint) => bigint} */
const sizeOf = (number) => (number < 0n ? -number : number);

/** Returns `= 312`, with a remark if the model wrote another number.
 * @type {(exact: bigint, actual: bigint, exponent?: number) => string} */
function equation(exact, actual, exponent = 0) {
  const difference = exact === actual ? "" : `, but the model wrote ${formatDecimal(actual, exponent)}`;
  return `= ${formatDecimal(exact, exponent)}${difference}`;
}

/** Returns `−2 + 3`. @type {(a: bigint, b: bigint, exponent: number, isLess?: boolean) => string} */
function sumText(a, b, exponent, isLess = b < 0n) {
  return `${formatDecimal(a, exponent)} ${isLess ? "−" : "+"} ${formatDecimal(sizeOf(b), exponent)}`;
}

/** Yields the rows of a work up to its answer. @type {(work: Work) => Generator<Row>} */
export function* rowsOf(work) {
  for (const line of work.lines.values()) {
    if (!line.nWritten) break;
    const { name, row, digits: cells, side, sign, isComplete } = line;
    const carries = [...line.carries, ...line.aside.filter(isWrong)];
    const shown = { names: [row ? `${name} ${row}` : name], cells, carries, side, sign, isComplete };
    yield* BEFORE[name]?.(work, line) ?? [];
    const shownRow = { ...shown, unit: work.units.a, label: "", ...FORMS[name](work, line) };
    yield isComplete || name === "row" ? shownRow : { ...shownRow, label: "" }; // it says what comes out
  }
  if (work.broken < 0) return;
  const label = "From here on, the work does not follow the notation.";
  yield { ...derivedRow("broken", [], label, 0), isDerived: false, side: [work.cells[work.broken], ...work.rest] };
}

/** What the rows of lines have besides their characters, by the names of the lines.
 * @type {Record<string, (work: Work, line: Line) => Partial<Row>>} */
const FORMS = {
  a(work) {
    const label = `first number${work.shape.op === "/" ? ", which is divided" : ""}`;
    return { label, carries: carriesOfSum(work) };
  },

  b(work) {
    const { op } = work.shape;
    const label = `second number${op === "/" ? ", the divisor" : ""}`;
    const isTerm = work.has("sum"); // its sign is that of the operation
    return { label, unit: work.units.b, showsPlus: isTerm, operator: isTerm ? undefined : OPERATIONS[op].symbol };
  },

  sum(work, { side: [operator], digits, isNegative, sign }) {
    const [a, b] = [work.get("a"), work.get("b")];
    const isHidden = operator.text === b.sign?.text && !isWrong(operator);
    if (isHidden) b.sign?.copies.push(operator.at);
    const row = { side: isHidden ? [] : [operator], hasLine: true };
    const signed = (/** @type {Line} */ line) => (isMinus(line.sign) ? -1n : 1n) * work.valueOf(line.name);
    const [first, second, total] = [signed(a), signed(b), (isMinus(a.sign) ? -1n : 1n) * work.valueOf("sum")];
    const exponent = -work.units.a;
    const label = `${sumText(first, second, exponent)} ${equation(first + second, total, exponent)}`;
    const minus = isNegative ? sign : derivedCells("-", 0)[0];
    if (total < 0n || (sign && isWrong(sign))) return { ...row, label, sign: minus };
    // The digits are subtracted as if the first number were positive.
    if (sign) digits.at(-1)?.hides.push(sign.at);
    return { ...row, label, sign: undefined };
  },

  row(work, { row, digits, side: [multiplier], isComplete }) {
    const a = work.valueOf("a");
    const rest = integerOf(work.get("row", row - 1).digits.slice(1));
    const addend = row > 1 ? `${rest} (the row above without its last digit) + ` : "";
    const sum = isComplete ? ` ${equation(rest + a * BigInt(digitValue(multiplier)), integerOf(digits))}` : "";
    return { label: `${addend}${a} × ${multiplier.text}${sum}`, unit: -Infinity, hasLine: true };
  },

  multiple(work, { row, sign, side: [digit] }) {
    const form = { sign: undefined, isDerived: true, isDecimal: true };
    if (!digit) return { ...form, side: sign ? [sign] : [] };
    const [q, b] = [signedValue(sign, digit), work.valueOf("b")];
    const product = BigInt(Math.abs(q)) * b;
    const factors = `${work.quotientAt(row, Math.abs(q))} × ${formatDecimal(b, -work.divisorPlaces)}`;
    const terms = `${factors} = ${formatDecimal(product, work.offsets[row] - work.units.a)}`;
    const label = q < 0 ? `adds back ${terms}` : q ? `takes away ${terms}` : `${terms}: takes nothing`;
    const isHidden = sign && !isMinus(sign) && !isWrong(sign);
    if (isHidden) digit.hides.push(sign.at);
    const side = sign && !isHidden ? [sign, digit] : [digit];
    const cells = derivedCells(product, work.offsets[row]);
    return { ...form, cells, side, label, operator: q < 0 ? "+" : "−" };
  },

  remainder(work, { row, digits, aside, ...line }) {
    const shape = { hasLine: row > 1, isDecimal: true };
    const brought = digits.find(({ isBroughtDown }) => isBroughtDown);
    const isZero = brought?.text === "0" && brought.column < work.units.a; // a decimal that need not be written
    const bringDown = brought && !isZero ? `; brings down ${brought.text}` : "";
    if (row === 1) return { ...shape, label: `the leading digits${bringDown}` };
    for (const { column, at } of aside) (digits.find((cell) => cell.column === column) ?? line.sign)?.hides.push(at);
    const { sign, side: [digit] } = work.get("multiple", row);
    const dividend = work.valueOf("remainder", row - 1);
    const taken = BigInt(signedValue(sign, digit)) * work.valueOf("b");
    const written = work.valueOf("remainder", row);
    const left = brought ? (written - BigInt(digitValue(brought))) / 10n : written;
    const exponent = work.offsets[row] - work.units.a;
    const equality = `${sumText(dividend, taken, exponent, taken >= 0n)} ${equation(dividend - taken, left, exponent)}`;
    const terms = taken || left !== dividend ? equality : "nothing changes";
    const unused = brought ? [] : work.get("a").digits.filter(({ column }) => column < work.offsets[row]);
    const rest = unused.length ? `; not brought down: ${inNaturalOrder(unused)}` : "";
    return { ...shape, label: `${terms}${left < 0n ? ": it took too much" : ""}${bringDown}${rest}` };
  },

  exact: (work, line) => resultForm(work, line),

  result(work, line) {
    const { layout, shape: { op, places }, units: { result: unit } } = work;
    if (line.sign && !layout.result.length) return { side: [line.sign], label: "the sign of the result" };
    if (!work.has("exact") && op !== "/") return resultForm(work, line);
    return { label: `rounded to ${formatPlaces(places)}`, unit };
  },

  answer({ layout: { result }, shape: { byZero }, units }) {
    if (byZero) return { unit: -Infinity, label: "not a number: nothing can be divided by 0" };
    const label = result.length ? "the answer" : "the answer: less than half of its last place is rounded to 0";
    return { unit: units.result, label, mayMerge: true };
  },
};

/** Returns what the row of the exact result has. @type {(work: Work, line: Line) => Partial<Row>} */
function resultForm(work, { digits }) {
  const { a: aPlaces, b: bPlaces, result: unit } = work.units;
  if (work.shape.op !== "*") return { unit, label: "the size of the sum", mayMerge: true };
  const [a, b] = [work.valueOf("a"), work.valueOf("b")];
  const product = `${formatDecimal(a, -aPlaces)} × ${formatDecimal(b, -bPlaces)}`;
  return { unit, label: `${product} ${equation(a * b, integerOf(digits), -unit)}`, hasLine: true };
}

/** The rows that the page adds before a line, by its name.
 * @type {Record<string, (work: Work, line: Line) => Row[]>} */
const BEFORE = {
  row(work, { row, side: [multiplier] }) {
    const partial = work.valueOf("a") * BigInt(digitValue(multiplier));
    if (row === 1 || !partial) return [];
    const label = `${work.valueOf("a")} × ${multiplier.text} = ${partial}, the row to add`;
    const cells = derivedCells(partial, work.offsets[row]);
    return [{ ...derivedRow(`partial ${row}`, cells, label, -Infinity), operator: "+" }];
  },

  result(work) {
    const multiples = [...work.lines.values()].filter(({ name }) => name === "multiple");
    if (!multiples.length) return [];
    let [total, sum] = [0n, ""];
    for (const { row, sign, side: [digit] } of multiples) {
      const q = signedValue(sign, digit);
      total = 10n * total + BigInt(q);
      if (q) sum += `${q < 0 ? (sum ? " − " : "−") : sum && " + "}${work.quotientAt(row, Math.abs(q))}`;
    }
    const lowest = work.units.a - work.shape.places - 1;
    const label = `what it took: ${sum || "0"} = ${formatDecimal(total, lowest - work.units.a)}`;
    const row = derivedRow("quotient", derivedCells(sizeOf(total), lowest), label, work.units.a);
    return [{ ...row, hasLine: true, isDecimal: true, sign: total < 0n ? derivedCells("-", 0)[0] : undefined }];
  },
};

/** Returns a row that the model did not write.
 * @type {(name: string, cells: Cell[], label: string, unit: number) => Row} */
export function derivedRow(name, cells, label, unit) {
  return { names: [name], cells, label, unit, carries: [], side: [], isComplete: true, isDerived: true };
}

/** Returns the carries of a sum, which the model does not write. @type {(work: Work) => Cell[]} */
function carriesOfSum(work) {
  const { digits, side: [operator] } = work.get("sum");
  const [first, second] = [work.get("a").digits, work.get("b").digits];
  const direction = isMinus(operator) ? -1 : 1;
  if (!operator) return [];
  if (direction < 0 && integerOf(first) < integerOf(second)) return []; // people subtract the other way round
  return digits.slice(0, first.length - 1).flatMap((total, j) => {
    const carry = carryOfSum(direction, first[j], second[j], total);
    return carry ? derivedCells(Math.abs(carry), j + 1) : [];
  });
}
