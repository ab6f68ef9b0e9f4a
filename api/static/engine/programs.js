// Runs the programs of functions (calcgpt/inference/functions.py) with a planner (calcgpt/inference/programs.py).
// Comparisons, constants and the number of turns are decided here. All operations between them are the planner's, and
// so the model's.

import { divideHalfEven } from "./arithmetic.js";
import { ArithmeticError, spend } from "./effort.js";
import { valueOfNode } from "./exact.js";
import { parse } from "./expression.js";
import { ExpressionError } from "./errors.js";
import { Expression, fold } from "./expression_tree.js";
import { bitLength, compare, inverse, timesTen, whole } from "./fractions.js";
import { fraction, power } from "./real.js";
import { LARGEST } from "./sensitivity.js";
import tables from "./tables.js";
import { Text } from "./text.js";

const MAX_TURNS = 400; // of a series or an iteration
const EFFORT_OF_ROW = 40; // microseconds
const NAME = "="; // the sign of a node that stands for a name, before the name
const { MAX_OPERATIONS, PROGRAMS } = tables;

/** @import { Expression } from "./expression_tree.js" */
/** @import { Fraction } from "./fractions.js" */
/** @import { Real } from "./real.js" */
/** @import { Planner, Term } from "./planners.js" */
/** @typedef {any[]} Rows texts, and lists of "if", "each", "repeat" or "scaled" with their parts */

/** A number of a plan, or one that the planner has worked out and that no operation has used yet.
 * @template T
 * @typedef {{number?: T, value: Real}} Named */

/** Plans a function of some numbers and returns the result.
 * @template T
 * @param {Planner<T>} planner
 * @param {string} name
 * @param {Term<T>[]} numbers
 * @throws {ArithmeticError} */
export function run(planner, name, numbers) {
  const order = (/** @type {Term<T>} */ a, /** @type {Term<T>} */ b) =>
    compare(a.value.approximate(), b.value.approximate());
  const sorted = tables.SORTED.includes(name) ? [...numbers].sort(order) : numbers;
  const running = new Run(planner, sorted, PROGRAMS[name].isExact ? MAX_OPERATIONS : MAX_TURNS);
  running.rows(PROGRAMS[name].rows);
  return running.number("result");
}

/** The names of a program and their values so far. @template T */
class Run {
  #planner;
  #numbers;
  #maxTurns;
  #morePlaces;
  /** @type {Map<string, Named<T>>} */ #names = new Map();

  /** @param {Planner<T>} planner @param {Term<T>[]} numbers @param {number} maxTurns */
  constructor(planner, numbers, maxTurns) {
    this.#planner = planner;
    this.#numbers = numbers;
    this.#maxTurns = maxTurns;
    for (const [index, name] of ["x", "y"].entries()) {
      if (index < numbers.length) this.#names.set(name, numbers[index]);
    }
    this.#set("n", BigInt(numbers.length));
    // A constant is multiplied by numbers that are as long as the arguments.
    const longest = Math.max(0, ...numbers.map(({ value }) => Math.min(value.size(), LARGEST)));
    this.#morePlaces = 4 + Math.ceil(longest);
  }

  /** Gives a name a whole number. @type {(name: string, value: bigint) => void} */
  #set(name, value) {
    this.#names.set(name, { value: fraction(whole(value)) });
  }

  /** @type {(rows: Rows, turn?: string) => void} */
  rows(rows, turn = "") {
    for (const row of rows) {
      spend(EFFORT_OF_ROW);
      if (typeof row === "string") this.#assign(row, turn);
      else if (row[0] === "if") this.rows(this.#value(row[1]).sign() > 0 ? row[2] : row[3], turn);
      else if (row[0] === "scaled") this.#scaled(row[1], row[2], turn);
      else if (row[0] === "repeat") this.#repeat(row[1], row[2]);
      else {
        for (const [index, number] of this.#numbers.entries()) {
          this.#names.set(row[1], number);
          this.rows(row[2], `${index + 1}. `);
        }
      }
    }
  }

  /** @type {(until: string, rows: Rows) => void} */
  #repeat(until, rows) {
    for (let turn = 1; turn <= this.#maxTurns; turn += 1) {
      this.#set("j", BigInt(turn));
      this.rows(rows, `${turn}. `);
      if (this.#planner.way.isZero(this.#value(until))) return;
    }
    throw new ArithmeticError();
  }

  /** Runs rows whose errors are multiplied by a factor afterwards.
   * @type {(factor: string, rows: Rows, turn: string) => void} */
  #scaled(factor, rows, turn) {
    const size = this.#value(factor).size();
    if (!Number.isFinite(size)) throw new ArithmeticError();
    const { morePlaces } = this.#planner;
    this.#planner.morePlaces += Math.ceil(size);
    this.rows(rows, turn);
    this.#planner.morePlaces = morePlaces;
  }

  /** Gives a name its value. Operations for the model belong to the row, and to its turn.
   * @type {(row: string, turn: string) => void} */
  #assign(row, turn) {
    const [name, sign] = row.split(" ", 2);
    const text = row.slice(name.length + sign.length + 2);
    if (sign === ":=") this.#names.set(name, { value: this.#value(text) });
    else if (sign === "@") this.#names.set(name, this.#numbers[Number(this.#value(text).floor())]);
    else if (sign === "guess") {
      const [x, n] = text.split(" ").map((name) => this.#value(name));
      this.#names.set(name, { value: guess(x, n) });
    } else if (sign === "binary") this.#set(name, binary(this.#value(text).approximate()));
    else {
      const { path } = this.#planner;
      this.#planner.path = [...path, `${turn}${row}`];
      this.#names.set(name, sign === "~" ? this.#rounded(text) : fold(parsed(text), this.#operation));
      this.#planner.path = path;
    }
  }

  /** @type {(text: string) => Named<T>} */
  #rounded(text) {
    const [name, places] = text.split(" ");
    return this.#term(this.#planner.way.rounded(this.number(name), Number(this.#value(places).floor())));
  }

  /** Returns the term of a number. Few of their values are asked for. @type {(number: T) => Term<T>} */
  #term(number) {
    const { way } = this.#planner;
    return {
      number,
      get value() {
        return fraction(way.value(number));
      },
    };
  }

  /** Returns the number of a name. @type {(name: string) => T} */
  number(name) {
    return this.#numberOf(this.#named(name));
  }

  /** @type {(name: string) => Named<T>} */
  #named(name) {
    return /** @type {Named<T>} */ (this.#names.get(name));
  }

  /** @type {(named: Named<T>) => T} */
  #numberOf(named) {
    return named.number ?? this.#planner.way.constant(named.value, this.#morePlaces);
  }

  /** @type {(named: Named<T>) => Term<T>} */
  #termOf(named) {
    return "number" in named ? /** @type {Term<T>} */ (named) : { number: this.#numberOf(named), value: named.value };
  }

  /** Plans a node of a row. An operation that changes nothing is left out: x*1, x+0.
   * @type {(node: Expression, operands: Named<T>[]) => Named<T>} */
  #operation = (node, operands) => {
    if (node.sign.startsWith(NAME)) return this.#named(node.sign.slice(1));
    if (!node.operands.length) return { value: valueIn(node, []) };
    const kept = unchanged(node.sign, operands);
    if (kept) return kept;
    return this.#term(this.#planner.operation(node, operands.map((operand) => this.#termOf(operand)), null));
  };

  /** Returns the value of an expression that the planner works out. @type {(text: string) => Real} */
  #value(text) {
    return fold(parsed(text), (node, /** @type {Real[]} */ operands) => {
      return node.sign.startsWith(NAME) ? this.#named(node.sign.slice(1)).value : valueIn(node, operands);
    });
  }
}

/** @throws {ArithmeticError} where there is no value, because numbers have too few places
 * @type {(node: Expression, operands: Real[]) => Real} */
function valueIn(node, operands) {
  try {
    return valueOfNode(node, operands);
  } catch (error) {
    throw error instanceof ExpressionError ? new ArithmeticError() : error;
  }
}

/** Returns the operand that is the result of an operation with a constant 0 or 1, or null.
 * @type {(sign: string, operands: Named<any>[]) => Named<any> | null} */
function unchanged(sign, [a, b]) {
  if (!["+", "-", "*", "/"].includes(sign)) return null;
  /** @type {(named: Named<any>, n: bigint) => boolean} */
  const is = (named, n) => !("number" in named) && named.value.exact?.n === n && named.value.exact.d === 1n;
  const neutral = sign === "+" || sign === "-" ? 0n : 1n;
  const isProduct = sign === "*" || sign === "/";
  if (is(b, neutral) || (isProduct && is(a, 0n))) return a;
  return (sign !== "-" && sign !== "/" && is(a, neutral)) || (sign === "*" && is(b, 0n)) ? b : null;
}

const NAMES = new Map(
  ["result", ..."abcdghjkmnpqrstuwxyz"].map((name) => [name, new Expression(`${NAME}${name}`, [], 0, 0)]),
);
/** @type {Map<string, Expression>} */ const trees = new Map();

/** Returns the tree of a row's expression. Names are nodes whose signs begin with NAME. @param {string} text */
function parsed(text) {
  const tree = trees.get(text) ?? parse(new Text(text), undefined, NAMES).expression;
  trees.set(text, tree);
  return tree;
}

/** Returns the nth root of x > 0, rounded to three digits. @type {(x: Real, n: Real) => Real} */
function guess(x, n) {
  const root = power(fraction(x.approximate(10)), inverse(n.approximate())).approximate(10);
  const places = 2 - Math.floor(fraction(root).size());
  const scaled = timesTen(root, places);
  return fraction(timesTen(whole(divideHalfEven(scaled.n, scaled.d)), -places));
}

/** Returns the whole number k for which x / 2^k is from 3/4 to 3/2, for x > 0. @param {Fraction} x */
function binary({ n, d }) {
  const k = BigInt(bitLength(n) - bitLength(d)); // x / 2^k is from 1/2 to 2
  const [left, right] = k < 0n ? [n << -k, d] : [n, d << k];
  if (2n * left >= 3n * right) return k + 1n;
  return 4n * left < 3n * right ? k - 1n : k;
}
