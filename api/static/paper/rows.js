// The rows of worked steps on paper, and their labels.

import { formatPlaces } from "../format.js";
import { carryOfSum } from "./rules.js";
import {
  derivedCells, digitValue, formatDecimal, inNaturalOrder, integerOf, signedIntegerOf, signedValue,
} from "./cells.js";

/** @import { Cell, Work } from "./sheet.js" */

/** A row of a sheet, which shows worked steps as on paper. names: the rows of the text that it shows; label: a
 * description; unit: the column of the units; carries: small cells above the row; operator and sign: shown before the
 * digits; side: cells beside the row; isDerived: whether the page computed the row; hasLine: whether there is a line
 * above it; showsPlus: whether the sign is shown if it is +; mergesIntoPrevious: whether the row is merged into the row
 * before it if that row has acceptsMerge, and both are complete and show the same number; extent: the lowest and the
 * highest column that the whole sheet will have, which the first row tells, so that nothing moves while the others are
 * written.
 * @typedef {{names: string[], label: string, cells: Cell[], unit: number, carries?: Cell[], operator?: string,
 *   sign?: Cell | null, side?: Cell[], isDerived?: boolean, hasLine?: boolean, showsPlus?: boolean,
 *   mergesIntoPrevious?: boolean, acceptsMerge?: boolean, isComplete?: boolean, extent?: [number, number]}} Row */

/** Returns `= 312`, with a remark if the model wrote another number.
 * @type {(exact: bigint, actual: bigint, places?: number) => string} */
function equation(exact, actual, places = 0) {
  const difference = exact === actual ? "" : `, but the model wrote ${formatDecimal(actual, places)}`;
  return `= ${formatDecimal(exact, places)}${difference}`;
}

/** Yields the rows of a work up to its answer. @type {(work: Work) => Generator<Row>} */
export function* rowsOf(work) {
  const { op } = work.shape;
  yield* op === "*" ? productRows(work) : op === "/" ? quotientRows(work) : sumRows(work);
  if (work.one("rounding")) yield roundedRow(work);
}

/** Returns the row of the rounded result. @type {(work: Work) => Row} */
function roundedRow(work) {
  return {
    names: ["result"],
    label: `rounded to ${formatPlaces(work.shape.places)}`,
    sign: work.one("sign"),
    cells: work.all("result"),
    side: work.all("rounding"),
    unit: work.unit,
    acceptsMerge: true,
    isComplete: work.has("result"),
  };
}

/** Returns the row of the exact result. @type {(work: Work, label: string) => Row} */
function exactRow(work, label) {
  const name = work.count("exact") ? "exact" : "result";
  const row = { names: [name], label, cells: work.all(name), unit: work.unit, isComplete: work.has(name) };
  return { ...row, sign: name === "exact" ? undefined : work.one("sign"), acceptsMerge: true };
}

/** @type {(work: Work) => Generator<Row>} */
function* sumRows(work) {
  const { unit } = work;
  const [first, second, total] = [work.all("a"), work.all("b"), work.all("sum")];
  const [operator, bSign] = [work.one("operator"), work.one("bSign")];
  const direction = operator?.text === "-" ? -1 : 1;
  const carries = first.slice(1).flatMap((_, j) => {
    const carry = total[j] ? carryOfSum(direction, first[j], second[j], total[j]) : 0;
    return carry ? derivedCells(carry < 0 ? 1 : carry, j + 1) : [];
  });
  const aRow = { names: ["a"], label: "first number", sign: work.one("aSign"), cells: first, carries, unit };
  yield { ...aRow, extent: [0, Math.max(work.count("a") - 1, unit)] };
  if (operator && bSign && operator.text === bSign.text) bSign.copies.push(operator.at);
  yield { names: ["b"], label: "second number", sign: bSign, showsPlus: true, cells: second, unit };
  const side = operator && operator.text !== bSign?.text ? [operator] : [];
  const isComplete = work.has("sum");
  const label = isComplete ? labelOfSum(first, second, total, direction, unit) : "column by column, from the right";
  yield { names: ["sum"], label, cells: total, side, unit, hasLine: true, acceptsMerge: true, isComplete };
  const row = exactRow(work, "the size of the sum");
  if (row.isComplete) row.label += `: ${formatDecimal(integerOf(row.cells), unit)}`;
  yield { ...row, mergesIntoPrevious: true };
}

/** @type {(first: Cell[], second: Cell[], total: Cell[], direction: number, places: number) => string} */
function labelOfSum(first, second, total, direction, places) {
  const [a, b] = [integerOf(first), integerOf(second)];
  const sum = `${formatDecimal(a, places)} ${direction < 0 ? "−" : "+"} ${formatDecimal(b, places)}`;
  const text = `${sum} ${equation(a + BigInt(direction) * b, signedIntegerOf(total), places)}`;
  if (total.at(-1)?.text !== "9") return text;
  return `${text}, written as its ten's complement: the 9 in front says that it is negative`;
}

/** @type {(work: Work) => Generator<Row>} */
function* productRows(work) {
  const { aPlaces, bPlaces, places, aDigits, bDigits } = work.shape;
  const [first, second] = [work.all("a"), work.all("b")];
  const isRounded = aPlaces + bPlaces > places; // which takes one more digit
  const high = Math.max(aDigits + bDigits - (isRounded ? 0 : 1), work.unit);
  const aRow = { names: ["a"], label: "first number", sign: work.one("aSign"), cells: first, unit: aPlaces };
  yield { ...aRow, extent: [0, high] };
  const bRow = { names: ["b"], label: "second number", sign: work.one("bSign"), cells: second, unit: bPlaces };
  yield { ...bRow, operator: "×" };
  const [a, row] = [integerOf(first), { unit: -Infinity }];
  /** @type {Cell[]} */ let previous = [];
  for (let k = 1; k <= bDigits; k += 1) {
    const multiplier = work.one("multiplier", k);
    if (!multiplier) return;
    const partial = a * BigInt(digitValue(multiplier));
    const label = `${a} × ${multiplier.text} = ${partial}, the row to add`;
    const derived = { names: [`partial ${k}`], label, operator: "+", cells: derivedCells(partial, k - 1) };
    if (k > 1 && partial) yield { ...row, ...derived, isDerived: true };
    const { digits, carries, isComplete } = work.productRow(k);
    const rest = integerOf(previous.slice(1));
    const addend = previous.length ? `${rest} (the row above without its last digit) + ` : "";
    const sum = isComplete ? ` ${equation(rest + partial, integerOf(digits))}` : "";
    const text = `${addend}${a} × ${multiplier.text}${sum}`;
    yield { ...row, names: [`row ${k}`], label: text, cells: digits, carries, side: [multiplier], hasLine: true };
    previous = digits;
  }
  const result = exactRow(work, "the last digit of each row, and the rest of the last one");
  if (result.isComplete) {
    const product = `${formatDecimal(a, aPlaces)} × ${formatDecimal(integerOf(second), bPlaces)}`;
    result.label = `${product} ${equation(a * integerOf(second), integerOf(result.cells), work.unit)}`;
  }
  yield { ...result, hasLine: true };
}

/** @type {(work: Work) => Generator<Row>} */
function* quotientRows(work) {
  const { shape, lead, width, nRow, unit } = work;
  const [first, divisor] = [work.all("a"), integerOf(work.all("b"))];
  const aLabel = "first number, which is divided";
  const aRow = { names: ["a"], label: aLabel, sign: work.one("aSign"), cells: first, unit: shape.aPlaces };
  yield nRow ? { ...aRow, extent: [Math.min(0, lead - nRow), Math.max(lead + 1 + width, unit)] } : aRow;
  const bRow = { names: ["b"], label: "second number, the divisor", operator: "÷", sign: work.one("bSign") };
  yield { ...bRow, cells: work.all("b"), unit: lead + width - shape.bDigits + shape.bPlaces };
  let label = "the leading digits";
  for (let k = 1; k <= nRow + 1; k += 1) {
    const cells = [...work.all("brought", k), ...work.all("remainder", k)];
    const [dividend, carries] = [signedIntegerOf(cells), work.all("carries", k)];
    const brought = k <= nRow ? work.one("brought", k) : undefined;
    if (brought) label += `; bring down ${brought.text}: ${formatDecimal(dividend)}`;
    yield { names: [`remainder ${k - 1}`], label, cells, carries, unit: -Infinity, hasLine: k > 1 };
    const [sign, digit] = [work.one("quotientSign", k + 1), work.one("quotientDigit", k + 1)];
    if (!sign || !digit) break;
    const multiple = BigInt(signedValue(sign, digit)) * divisor;
    const [operator, use] = multiple < 0n ? ["+", "added back"] : ["−", "to subtract"];
    yield {
      names: [`multiple ${k}`],
      label: `${formatDecimal(signedValue(sign, digit))} × ${divisor} = ${formatDecimal(multiple)}, ${use}`,
      operator,
      cells: derivedCells(multiple < 0n ? -multiple : multiple, lead + 1 - k),
      side: [sign, digit],
      unit: -Infinity,
      isDerived: true,
    };
    label = labelOfRemainder(work, k + 1, dividend - multiple);
  }
  if (nRow && work.has("remainder", nRow + 1)) yield signedDigitsRow(work);
}

/** @type {(work: Work, row: number, exact: bigint) => string} */
function labelOfRemainder(work, row, exact) {
  const remainder = work.all("remainder", row);
  const nBelow = work.shape.aDigits - (work.width - 2) - work.nRow;
  const rest = equation(exact, signedIntegerOf(remainder)).slice(2); // without "= "
  const complement = remainder.at(-1)?.text === "9" ? ` (${inNaturalOrder(remainder)})` : "";
  const label = work.has("remainder", row) ? `left: ${rest}${complement}` : "what is left";
  if (row <= work.nRow || nBelow < 1) return label;
  return `${label}; not brought down: ${inNaturalOrder(work.all("a").slice(0, nBelow))}`;
}

/** Returns a row with all digits of the quotient, as a sum. Negative digits are drawn with a line over them.
 * @type {(work: Work) => Row} */
function signedDigitsRow(work) {
  const { nRow, lead, unit } = work;
  const places = work.shape.places + 1;
  let [total, sum] = [0n, ""];
  /** @type {Cell[]} */ const cells = [];
  for (let k = 1; k <= nRow; k += 1) {
    const [sign, digit] = [...work.all("quotientSign", k + 1), ...work.all("quotientDigit", k + 1)];
    const value = signedValue(sign, digit);
    total = 10n * total + BigInt(value);
    const exponent = nRow - k - places;
    const size = BigInt(Math.abs(value)) * 10n ** BigInt(Math.max(0, exponent));
    const operator = value < 0 ? (sum ? " − " : "−") : sum && " + ";
    if (value) sum += operator + formatDecimal(size, Math.max(0, -exponent));
    cells.unshift({ ...digit, column: lead + 1 - k, copies: [sign.at], isNegative: value < 0 });
  }
  const label = `${sum || "0"} = ${formatDecimal(total, places)}`;
  return { names: ["quotient"], label, cells, unit, hasLine: true };
}
