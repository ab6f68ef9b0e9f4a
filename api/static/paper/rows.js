// The rows of worked steps on paper, and their labels.

import { OPERATIONS } from "../engine/operations.js";
import { formatPlaces } from "../format.js";
import { derivedCells, digitValue, formatDecimal, inNaturalOrder, integerOf, isWrong, signedValue } from "./cells.js";
import { carryOfSum } from "./rules.js";

/** @import { Cell } from "./cells.js" */
/** @import { Line, Work } from "./work.js" */

/** A row of a sheet, which shows worked steps as on paper. names: the lines of the work that it shows; label: a
 * description; unit: the column of the units, if it may have a point; carries: small cells above the row; operator and
 * sign: shown before the digits; side: cells beside the row; isDerived: whether the page computed the row; hasLine:
 * whether there is a line above it; showsPlus: whether the sign is shown if it is +; isDecimal: whether zeros at the end of its decimals are left out; mergesIntoPrevious: whether the row
 * is merged into the row before it, if that has acceptsMerge and both show the same number; isComplete: whether nothing
 * more is written in it.
 * @typedef {{names: string[], label: string, cells: Cell[], unit: number, carries: Cell[], operator?: string,
 *   sign?: Cell, side: Cell[], isDerived?: boolean, hasLine?: boolean, showsPlus?: boolean, isDecimal?: boolean,
 *   mergesIntoPrevious?: boolean, acceptsMerge?: boolean, isComplete: boolean}} Row */

/** @param {Cell | undefined} cell */
const isMinus = (cell) => cell?.text === "-";

/** Returns `= 312`, with a remark if the model wrote another number.
 * @type {(exact: bigint, actual: bigint, exponent?: number) => string} */
function equation(exact, actual, exponent = 0) {
  const difference = exact === actual ? "" : `, but the model wrote ${formatDecimal(actual, exponent)}`;
  return `= ${formatDecimal(exact, exponent)}${difference}`;
}

/** Yields the rows of a work up to its answer. @type {(work: Work) => Generator<Row>} */
export function* rowsOf(work) {
  for (const line of work.lines.values()) {
    if (!line.nWritten) return;
    const { name, row, digits: cells, carries, side, sign, isComplete } = line;
    const shown = { names: [row ? `${name} ${row}` : name], cells, carries, side, sign, isComplete };
    const own = { ...shown, carries: [...carries, ...line.aside.filter(isWrong)], label: "", unit: work.units.a };
    yield* BEFORE[name]?.(work, line) ?? [];
    yield { ...own, ...FORMS[name](work, line) };
  }
}

/** Returns a row that the model did not write. @type {(row: Pick<Row, "names" | "label" | "cells" | "unit">) => Row} */
const derivedRow = (row) => ({ carries: [], side: [], isComplete: true, isDerived: true, ...row });

/** What the rows of lines have besides their characters, by the names of the lines.
 * @type {Record<string, (work: Work, line: Line) => Partial<Row>>} */
const FORMS = {
  a: (work) => ({ label: `first number${work.shape.op === "/" ? ", which is divided" : ""}`, carries: carriesOfSum(work) }),

  b(work) {
    const { units, shape: { op } } = work;
    const isSum = work.has("sum");
    const label = `second number${op === "/" ? ", the divisor" : ""}`;
    return { label, unit: units.b, ...(isSum ? { showsPlus: true } : { operator: OPERATIONS[op].symbol }) };
  },

  sum(work, { side: [operator], digits, isComplete, isNegative, sign }) {
    const [a, b] = [work.get("a"), work.get("b")];
    const isHidden = operator.text === b.sign?.text && !isWrong(operator);
    if (isHidden) b.sign?.copies.push(operator.at);
    const row = { side: isHidden ? [] : [operator], hasLine: true, acceptsMerge: true };
    if (!isComplete) return { ...row, label: "column by column, from the right" };
    const [first, second] = [a, b].map(({ sign, name }) => (isMinus(sign) ? -1n : 1n) * work.valueOf(name));
    const total = (isMinus(a.sign) ? -1n : 1n) * work.valueOf("sum");
    const size = second < 0n ? -second : second;
    const exponent = -work.units.a;
    const terms = `${formatDecimal(first, exponent)} ${second < 0n ? "−" : "+"} ${formatDecimal(size, exponent)}`;
    const label = `${terms} ${equation(first + second, total, exponent)}`;
    // The digits are subtracted as if the first number were positive.
    if (isNegative && isMinus(a.sign) && sign) digits.at(-1)?.copies.push(sign.at);
    return { ...row, label, sign: total < 0n ? (isNegative ? sign : derivedCells("-", 0)[0]) : undefined };
  },

  row(work, { row, digits, side: [multiplier], isComplete }) {
    const a = work.valueOf("a");
    const rest = integerOf(work.get("row", row - 1).digits.slice(1));
    const addend = row > 1 ? `${rest} (the row above without its last digit) + ` : "";
    const sum = isComplete ? ` ${equation(rest + a * BigInt(digitValue(multiplier)), integerOf(digits))}` : "";
    return { label: `${addend}${a} × ${multiplier.text}${sum}`, unit: -Infinity, hasLine: true };
  },

  multiple(work, { row, sign, side: [digit] }) {
    const q = signedValue(sign, digit);
    const product = BigInt(Math.abs(q)) * work.valueOf("b");
    const cells = derivedCells(product, work.offsets[row]);
    const factors = `${digitAt(work, row, Math.abs(q))} × ${formatDecimal(work.valueOf("b"), -work.divisorPlaces)}`;
    const terms = `${factors} = ${formatDecimal(product, work.offsets[row] - work.units.a)}`;
    const label = q < 0 ? `adds back ${terms}` : q ? `takes away ${terms}` : `${terms}: takes nothing`;
    const isHidden = sign && !isMinus(sign) && !isWrong(sign);
    if (isHidden) digit?.copies.push(sign.at);
    const side = [...(sign && !isHidden ? [sign] : []), ...(digit ? [digit] : [])];
    const shape = { operator: q < 0 ? "+" : "−", isDerived: true, isDecimal: true };
    return { ...shape, cells: digit ? cells : [], side, sign: undefined, label };
  },

  remainder(work, { row, digits, isComplete }) {
    const brought = digits.find(({ isBroughtDown }) => isBroughtDown);
    const isZero = brought?.text === "0" && brought.column < work.units.a; // a decimal that need not be written
    const bringDown = brought && !isZero ? `; brings down ${brought.text}` : "";
    const shape = { hasLine: row > 1, isDecimal: true };
    if (row === 1) return { ...shape, label: `the leading digits${bringDown}` };
    for (const cell of work.get("remainder", row).aside) {
      digits.find(({ column }) => column === cell.column)?.copies.push(cell.at);
    }
    if (!isComplete) return { ...shape, label: "what is left" };
    const { sign, side: [digit] } = work.get("multiple", row);
    const dividend = work.valueOf("remainder", row - 1);
    const product = BigInt(signedValue(sign, digit)) * work.valueOf("b");
    const written = work.valueOf("remainder", row);
    const left = brought ? (written - BigInt(digitValue(brought))) / 10n : written;
    const exponent = work.offsets[row] - work.units.a;
    const [from, size] = [dividend, product < 0n ? -product : product].map((number) => formatDecimal(number, exponent));
    const terms = `${from} ${product < 0n ? "+" : "−"} ${size} ${equation(dividend - product, left, exponent)}`;
    const unused = brought ? "" : inNaturalOrder(work.get("a").digits.filter(({ column }) => column < work.offsets[row]));
    const rest = unused && `; not brought down: ${unused}`;
    return { ...shape, label: `${terms}${left < 0n ? ": it took too much" : ""}${bringDown}${rest}` };
  },

  exact: (work) => resultForm(work, "exact"),

  result(work, { sign }) {
    if (!work.layout.result.length) return { side: sign && isWrong(sign) ? [sign] : [] };
    if (!work.has("exact") && work.shape.op !== "/") return resultForm(work, "result");
    const label = `rounded to ${formatPlaces(work.shape.places)}`;
    return { label, unit: work.units.result, acceptsMerge: true };
  },
};

/** Returns what the row of the exact result has. @type {(work: Work, name: string) => Partial<Row>} */
function resultForm(work, name) {
  const { isComplete, digits } = work.get(name);
  const exponent = -work.units.result;
  const row = { unit: work.units.result, acceptsMerge: true };
  if (work.shape.op !== "*") {
    const size = isComplete ? `: ${formatDecimal(integerOf(digits), exponent)}` : "";
    return { ...row, label: `the size of the sum${size}`, mergesIntoPrevious: true };
  }
  const [a, b] = [work.valueOf("a"), work.valueOf("b")];
  const product = `${formatDecimal(a, -work.units.a)} × ${formatDecimal(b, -work.units.b)}`;
  const label = isComplete
    ? `${product} ${equation(a * b, integerOf(digits), exponent)}`
    : "the last digit of each row, and the rest of the last one";
  return { ...row, label, hasLine: true };
}

/** The rows that the page adds before a line, by its name.
 * @type {Record<string, (work: Work, line: Line) => Row[]>} */
const BEFORE = {
  row(work, { row, side: [multiplier] }) {
    const partial = work.valueOf("a") * BigInt(digitValue(multiplier));
    if (row === 1 || !partial) return [];
    const label = `${work.valueOf("a")} × ${multiplier.text} = ${partial}, the row to add`;
    const cells = derivedCells(partial, work.offsets[row]);
    return [{ ...derivedRow({ names: [`partial ${row}`], label, cells, unit: -Infinity }), operator: "+" }];
  },

  result(work) {
    const multiples = [...work.lines.values()].filter(({ name }) => name === "multiple");
    let [total, sum] = [0n, ""];
    for (const { row, sign, side: [digit] } of multiples) {
      const q = signedValue(sign, digit);
      total = 10n * total + BigInt(q);
      if (q) sum += `${q < 0 ? (sum ? " − " : "−") : sum && " + "}${digitAt(work, row, Math.abs(q))}`;
    }
    const lowest = multiples.at(-1)?.row;
    if (!lowest) return [];
    const column = work.offsets[lowest];
    const label = `what it took: ${sum || "0"} = ${formatDecimal(total, column - work.units.result)}`;
    const cells = derivedCells(total < 0n ? -total : total, column);
    const row = derivedRow({ names: ["quotient"], label, cells, unit: work.units.result });
    return [{ ...row, hasLine: true, sign: total < 0n ? derivedCells("-", 0)[0] : undefined }];
  },
};

/** Returns what a digit of a quotient stands for: 3 for the tens is `30`. @type {(work: Work, row: number, q: number) => string} */
const digitAt = (work, row, q) => formatDecimal(q, work.offsets[row] - work.units.result);

/** Returns the carries of a sum, which the model does not write. @type {(work: Work) => Cell[]} */
function carriesOfSum(work) {
  const { digits, side: [operator] } = work.get("sum");
  const [first, second] = [work.get("a").digits, work.get("b").digits];
  const direction = isMinus(operator) ? -1 : 1;
  if (!operator || (direction < 0 && integerOf(first) < integerOf(second))) return []; // people subtract the other way round
  return digits.slice(0, first.length - 1).flatMap((total, j) => {
    const carry = carryOfSum(direction, first[j], second[j], total);
    return carry ? derivedCells(Math.abs(carry), j + 1) : [];
  });
}
