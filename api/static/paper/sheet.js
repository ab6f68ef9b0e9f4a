// What the rows of a sheet are made of: reading the text, cells, and numbers.

/**
 * A character. at: its index in what the model wrote, -1 if the model did not write it; text: the
 * character, "" if it is not yet written; column: its place, higher to the left; expected: what should
 * stand there, null if there is a choice; why: the step in words; copies: indices of characters that are
 * copies of it.
 * @typedef {{at: number, text: string, column: number, expected: string | null, why: string,
 *   copies: number[], isWrong?: boolean, isChoice?: boolean, isNegative?: boolean,
 *   isBroughtDown?: boolean, isPadding?: boolean}} Cell
 */

/**
 * A row of a sheet, which shows worked steps as on paper. names: which rows of the text it shows;
 * label: what it is, in words; carries: cells that stand small above; operator and sign: what stands
 * before; side: cells beside it; unit: the column of the units; isDerived: the model did not write it;
 * hasLine: above it; folds: it is left out if the one before, if that is foldable, shows the same.
 * @typedef {{names: string[], label: string, cells: Cell[], unit: number, carries?: Cell[],
 *   operator?: string, sign?: Cell | null, side?: Cell[], isDerived?: boolean, hasLine?: boolean,
 *   showsPlus?: boolean, folds?: boolean, foldable?: boolean}} Row
 */

/**
 * A number of a question. digits: without point and padding, the lowest first.
 * @typedef {{digits: string[], places: number, isNegative: boolean, isZero: boolean}} Operand
 * @typedef {{operation: string, a: Operand, b: Operand, places: number}} Question
 */

const PROMPT = /^\$([13-9]?)\(([-0-9.]{10,100}?)([-+*/])([-0-9.]{10,100})\)=$/;
const USUAL_PLACES = 2;
const WIDTH = 10; // characters of an operand or answer, at least
const NUMBER = /^-?\d+(\.\d+)?$/;

/**
 * Returns what a prompt `$P(A op B)=` asks, or null for any other text.
 * @param {string} prompt
 * @returns {Question | null}
 */
export function question(prompt) {
  const match = PROMPT.exec(prompt);
  if (!match) return null;
  const [, places, a, operation, b] = match;
  return { operation, a: operand(a), b: operand(b), places: Number(places || USUAL_PLACES) };
}

/**
 * @param {string} field
 * @returns {Operand}
 */
function operand(field) {
  const [whole, fraction = ""] = field.replace("-", "0").split(".");
  const digits = [...((whole + fraction).replace(/^0+/, "") || "0")].reverse();
  return { digits, places: fraction.length, isNegative: field.includes("-"), isZero: digits.join("") === "0" };
}

/** An operand in words: `12.5`, `−3`.
 * @param {Operand} operand */
export function named({ digits, places, isNegative }) {
  return decimal(BigInt([...digits].reverse().join("")) * (isNegative ? -1n : 1n), places);
}

/** The text does not follow its layout from here on. */
export class Broken extends Error {
  /** @param {number} at */
  constructor(at) {
    super("the text does not follow its layout");
    this.at = at;
  }
}

/** Reads a text character by character. Every character becomes a cell. */
export class Reader {
  /** @type {Cell[]} */
  cells = [];
  #text;

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  get left() {
    return this.#text.slice(this.cells.length);
  }

  /**
   * Reads a character.
   * @param {string | null} expected
   * @param {string} why
   * @param {number} column
   */
  take(expected, why, column = 0) {
    const at = this.cells.length;
    /** @type {Cell} */
    const cell = { at, text: this.#text[at] ?? "", expected, why, column, copies: [] };
    this.cells.push(cell);
    return cell;
  }

  /** Reads a character that must stand here. Throws Broken if another one does.
   * @param {string} character
   * @param {string} why */
  mark(character, why) {
    const cell = this.take(character, why);
    if (cell.text && cell.text !== character) throw new Broken(cell.at);
    return cell;
  }
}

/**
 * Reads `count` digits of an operand, the lowest first; `zeros` zeros are below it.
 * @param {Reader} reader
 * @param {Operand} operand
 * @param {number} count
 * @param {number} zeros
 * @param {string} name
 * @param {number} lowest the column of the lowest
 */
export function copies(reader, { digits }, count, zeros, name, lowest = 0) {
  return Array.from({ length: count }, (_, j) => {
    const digit = digits[j - zeros];
    const why = digit === undefined ? "a zero that fills the row" : `${digit}, a digit of the ${name}`;
    return reader.take(digit ?? "0", why, lowest + j);
  });
}

/**
 * Reads the rounding of an exact row, of which `drop` digits are dropped, and the rounded digits.
 * @param {Reader} reader
 * @param {Cell[]} exact
 * @param {number} drop
 * @param {number} extra digits, beyond the exact row
 */
export function rounded(reader, exact, drop, extra) {
  const [half, kept] = [value(exact[drop - 1]), value(exact[drop])];
  const below = exact.slice(0, drop - 1).some((cell) => value(cell) > 0);
  const isUp = half > 5 || (half === 5 && (below || kept % 2 === 1));
  const isTie = half === 5 && !below;
  const dropped = natural(exact.slice(0, drop));
  const tie = isTie ? ", a tie, which goes to the even digit" : "";
  const rounding = reader.take(
    isUp ? "+" : "0",
    `${dropped} is dropped${tie}: ${isUp ? "rounds up" : "adds nothing"}`,
  );
  reader.mark(":", "the rounded result begins");
  /** @type {Cell[]} */
  const digits = [];
  for (let j = drop; j < exact.length + extra; j++) {
    const before = digits.at(-1);
    /** @type {boolean} */
    const carry = before
      ? exact[j - 1].text === "9" && before.text === "0"
      : rounding.text === "+";
    const digit = value(exact[j]);
    const why = carry ? `${digit} + 1 from the rounding = ${digit + 1}` : `${digit}, kept`;
    digits.push(reader.take(String((digit + Number(carry)) % 10), why, j));
  }
  return { rounding, digits };
}

/**
 * Reads the answer, whose result is known: its digits, the lowest first, and its sign.
 * @param {Reader} reader
 * @param {{digits: Cell[], places: number, sign: Cell | null, unit: number}} result
 * @returns {Row}
 */
export function answer(reader, { digits, places, sign, unit }) {
  reader.mark("=", "the answer begins, lowest digit first");
  const texts = digits.map((cell) => cell.text);
  const used = texts.flatMap((text, index) => (text === "0" ? [] : [index]));
  const last = Math.min(used[0] ?? places, Math.max(places - 1, 0));
  const field = [];
  for (let i = last; i <= Math.max(used.at(-1) ?? places, places); i++) field.push(texts[i] ?? "0");
  if (places) field.splice(places - last, 0, ".");
  if (sign?.text === "-") field.push("-");
  while (field.length < WIDTH) field.push("0");
  return answerRow(reader, [...field, "$"], unit);
}

/**
 * Reads an answer; unless characters are expected, they may be any.
 * @param {Reader} reader
 * @param {string | null} expected
 * @param {number} unit
 * @returns {Row}
 */
export function anyAnswer(reader, expected, unit) {
  return answerRow(reader, expected === null ? null : [...expected], unit);
}

/**
 * @param {Reader} reader
 * @param {string[] | null} expected
 * @param {number} unit
 */
function answerRow(reader, expected, unit) {
  /** @type {Cell[]} */
  const cells = [];
  while (reader.left || (expected && cells.length < expected.length)) {
    /** @type {string | null} */
    const should = expected ? (expected[cells.length] ?? "") : null;
    const cell = reader.take(should, "");
    if (cell.text === "$") {
      cell.why = "the end";
      break;
    }
    cells.push(cell);
  }
  const row = placed(cells, unit);
  for (const cell of cells) cell.why ||= whyOfAnswer(cell, row);
  return row;
}

/**
 * @param {Cell} cell
 * @param {Row} row
 */
function whyOfAnswer(cell, { cells, sign }) {
  if (cell === sign) return "the sign of the answer";
  if (cells.includes(cell)) return "a digit of the answer, copied from the result";
  return cell.text === "." ? "the decimal point" : "a zero that fills the answer up to ten characters";
}

/**
 * Returns the row of an answer, whose lowest character comes first.
 * @param {Cell[]} all
 * @param {number} unit
 * @returns {Row}
 */
function placed(all, unit) {
  const cells = [...all].filter((cell) => cell.text);
  const text = cells.map((cell) => cell.text).reverse().join("");
  const number = text.replace(/^0+(?=-|\d|n)/, "");
  if (!NUMBER.test(number)) {
    cells.forEach((cell, index) => (cell.column = unit + index));
    const shown = number === "nan" ? cells.slice(0, 3) : cells;
    return { names: ["answer"], label: "", cells: shown, sign: null, unit: -Infinity };
  }
  const point = cells.findIndex((cell) => cell.text === ".");
  const used = cells.slice(0, number.length);
  const sign = used.find((cell) => cell.text === "-") ?? null;
  const digits = used.filter((cell) => value(cell) || cell.text === "0");
  digits.forEach((cell, index) => (cell.column = unit + index - Math.max(point, 0)));
  return { names: ["answer"], label: "", cells: digits, sign, unit };
}

/**
 * Adds each row to the one before if both show the same number.
 * @param {Row[]} rows
 */
export function fold(rows) {
  return rows.reduce((/** @type {Row[]} */ kept, row) => {
    const before = kept.at(-1);
    if (!before || !row.folds || !before.foldable || !isSame(before, row)) return [...kept, row];
    const copies = new Map(row.cells.map((cell) => [cell.column, cell]));
    for (const cell of before.cells) {
      const copy = copies.get(cell.column);
      if (copy) cell.copies.push(copy.at, ...copy.copies);
    }
    before.names.push(...row.names);
    before.sign ??= row.sign;
    if (before.sign && row.sign && before.sign !== row.sign) before.sign.copies.push(row.sign.at);
    before.side = [...(before.side ?? []), ...(row.side ?? [])];
    if (row.names.includes("answer")) before.label += ", the answer";
    return kept;
  }, []);
}

/**
 * @param {Row} a
 * @param {Row} b
 */
function isSame(a, b) {
  if (![a, b].every(({ cells }) => cells.length && cells.every((cell) => cell.text))) return false;
  const texts = (/** @type {Row} */ row) => new Map(row.cells.map((cell) => [cell.column, cell.text]));
  const [left, right] = [texts(a), texts(b)];
  const columns = new Set([...left.keys(), ...right.keys()]);
  const isNegative = (/** @type {Row} */ row) => row.sign?.text === "-";
  if (a.sign && b.sign && isNegative(a) !== isNegative(b)) return false;
  return [...columns].every((column) => (left.get(column) ?? "0") === (right.get(column) ?? "0"));
}

/** The value of a digit; 0 for any other character, and for none.
 * @param {Cell | null | undefined} cell */
export function value(cell) {
  return cell && /^\d$/.test(cell.text) ? Number(cell.text) : 0;
}

/** Digits, given the lowest first, as people write them.
 * @param {Cell[]} cells */
export function natural(cells) {
  return cells.map((cell) => cell.text).reverse().join("");
}

/** The whole number that digits stand for.
 * @param {Cell[]} cells */
export function whole(cells) {
  return cells.reduceRight((sum, cell) => 10n * sum + BigInt(value(cell)), 0n);
}

/** The number that digits in ten's complement stand for.
 * @param {Cell[]} cells */
export function signed(cells) {
  return whole(cells) - (cells.at(-1)?.text === "9" ? 10n ** BigInt(cells.length) : 0n);
}

/** `= 312`, or that the model wrote something else.
 * @param {bigint} truth
 * @param {bigint} found
 * @param {number} places */
export function equals(truth, found, places = 0) {
  const wrote = truth === found ? "" : `, but the model wrote ${decimal(found, places)}`;
  return `= ${decimal(truth, places)}${wrote}`;
}

/** Whether all characters of cells are written.
 * @param {Cell[]} cells */
export function isComplete(cells) {
  return cells.every((cell) => cell.text);
}

/** `-1250n`, 2 places -> `−12.5`
 * @param {bigint} number
 * @param {number} places */
export function decimal(number, places) {
  const digits = String(number < 0n ? -number : number).padStart(places + 1, "0");
  const end = digits.length - places;
  const fraction = digits.slice(end).replace(/0+$/, "");
  return `${number < 0n ? "−" : ""}${digits.slice(0, end)}${fraction && `.${fraction}`}`;
}

/** Cells that the model did not write: the digits of a number, the lowest in column `lowest`.
 * @param {bigint | number} number
 * @param {number} lowest
 * @returns {Cell[]} */
export function derived(number, lowest) {
  return [...String(number)].reverse().map((text, j) => {
    return { at: -1, text, expected: null, why: "", column: lowest + j, copies: [] };
  });
}
