// Errors of Python, and that of an expression (calcgpt/errors.py).

export class Exception extends Error {
  /** @param {...any} args */
  constructor(...args) {
    super(args.join(", "));
    this.args = args;
  }
}
export class ArithmeticError extends Exception {}
export class OverflowError extends ArithmeticError {}
export class ZeroDivisionError extends ArithmeticError {}

/** An error in an expression: a message of one line, and the position in code points. */
export class ExpressionError extends Error {
  /** @param {string} kind
   * @param {string} reason
   * @param {number} position
   * @param {number | null} [end] */
  constructor(kind, reason, position, end = null) {
    super(reason);
    this.kind = kind;
    this.position = position;
    this.end = end ?? position + 1;
  }
}

/** A setting has an unknown value. */
export class ConfigError extends Error {}

/** @type {(what: string, name: string, valid: Iterable<string>) => string} */
export const unknownName = (what, name, valid) => `unknown ${what} ${name}; valid: ${[...valid].join(", ")}`;
