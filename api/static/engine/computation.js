// Turns an expression into questions to a model, and the answers into the result with its check and its
// confidence (calcgpt/inference/calculator.py and results.py).

import { MAX_PLACES, answer, answerText, decimal, numberText, readAnswer, renderPrompt } from "./arithmetic.js";
import { parse } from "./expression.js";
import { ExpressionError, show } from "./expression_tree.js";
import { KIND, Layout, shapeOf } from "./layout.js";
import { normalize } from "./spelling.js";

/** @typedef {import("./arithmetic.js").Decimal} Decimal */
/** @typedef {import("./arithmetic.js").Problem} Problem */
/** @typedef {import("./expression_tree.js").Expression} Expression */
/** @typedef {import("./limits.js").Refusal} Refusal */
/** @typedef {{expression: string, position: number, end: number}} Span */
/** @typedef {{answer: number, weakest_step: number, whole: number}} Confidence */

/**
 * A number that was typed or, if `node` is not null, the result of an operation.
 * @typedef {{exact: import("./arithmetic.js").Decimal, node: number | null}} Operand
 */

/**
 * An operation. places: the decimal places of its result.
 * @typedef {{a: Operand, op: string, b: Operand, places: number}} Operation
 */

/** Asks the questions of an expression and collects the answers. */
export class Computation {
  #text;
  #model;
  #limits;
  #allowsUnproven;
  #isProven = true;
  /** @type {Operation[]} */
  #operations = [];
  #result;
  /** @type {import("./arithmetic.js").Problem | null} */
  #problem = null;
  /** @type {any[]} the answers, by operation; see Node of client.js */
  #nodes = [];
  /** @type {(Decimal | null)[]} the values of the answers, by operation; null if it is not a number */
  #values = [];
  /** The operations as parts of the expression, operands first.
   * @type {{expression: string, position: number, end: number}[]} */
  outline = [];

  /**
   * @param {string} text
   * @param {{model: string, limits: any, places?: number, unproven?: boolean}} options
   *   places: those of the answer; operations before the last keep at least the default places
   * @throws {ExpressionError} if the text is not an expression, or outside the model's limits
   */
  constructor(text, { model, limits, places, unproven = false }) {
    const tree = parse(text);
    this.expression = show(tree);
    this.#text = text;
    this.#model = model;
    this.#limits = limits;
    this.#allowsUnproven = unproven;
    this.places = Math.min(MAX_PLACES, places || limits.defaultPlaces);
    this.#refuse(limits.refusePlaces(this.places), (reason) => [reason, 0, [...text].length]);
    this.#result = this.#plan(tree);
  }

  /** Throws the error of a refusal, unless there is none or the user allows it.
   * @param {import("./limits.js").Refusal | null} refusal
   * @param {(reason: string) => [string, number, number]} locate returns the message, position and end of
   *   the error */
  #refuse(refusal, locate) {
    if (!refusal || this.#isAllowed(refusal)) return;
    throw new ExpressionError(refusal.kind, ...locate(refusal.reason));
  }

  /** Returns whether the model may be asked. If it was not measured for that, the result is unproven.
   * @param {Refusal | null} refusal */
  #isAllowed(refusal) {
    if (refusal?.kind !== "unproven" || !this.#allowsUnproven) return !refusal;
    this.#isProven = false;
    return true;
  }

  /** Plans the operations of an expression. Returns its exact value, with each operation rounded.
   * @param {Expression} expression
   * @param {boolean} isOperand
   * @returns {Operand} */
  #plan(expression, isOperand = false) {
    if ("number" in expression) {
      const refusal = isOperand ? this.#limits.refuseOperand(expression.number) : null;
      this.#refuse(refusal, (reason) => [reason, ...this.#rangeOf(expression, refusal)]);
      return { exact: expression.number, node: null };
    }
    if ("op" in expression) {
      const a = this.#plan(expression.left, true);
      const b = this.#plan(expression.right, true);
      return this.#add({ a, op: expression.op, b, places: this.#placesOf(isOperand) }, expression, isOperand);
    }
    const { exponent } = expression;
    if (exponent === 1) return this.#plan(expression.base, isOperand);
    const base = this.#plan(expression.base, true);
    if (exponent === 0) return { exact: decimal(1n, 0, base.exact.places > 0), node: null };
    let power = base;
    for (let n = 2; n <= exponent; n += 1) {
      const isFactor = isOperand || n < exponent;
      const operation = { a: power, op: "*", b: base, places: this.#placesOf(isFactor) };
      power = this.#add(operation, { ...expression, exponent: n }, isFactor);
    }
    return power;
  }

  /** Returns the decimal places of a result. 7.5% of 200 would be 16 if 0.075 were rounded to two.
   * @param {boolean} isOperand */
  #placesOf(isOperand) {
    return isOperand ? Math.max(this.places, this.#limits.defaultPlaces) : this.places;
  }

  /**
   * Adds the operation of a part of the expression to the plan. Returns its result.
   * @param {Operation} operation
   * @param {Expression} source
   * @param {boolean} isOperand
   * @returns {Operand}
   */
  #add(operation, source, isOperand) {
    const [span, { start, end }] = [show(source), source];
    const problem = { ...operation, a: operation.a.exact, b: operation.b.exact };
    const { value } = answer(problem);
    if (value === null) {
      const divisor = "right" in source ? source.right : source;
      throw new ExpressionError("division-by-zero", "division by zero", divisor.start, divisor.end);
    }
    this.#refuse(this.#limits.refuseProblem(problem), (reason) => [`${span}: ${reason}`, start, end]);
    if (isOperand) {
      const description = `${span} is ${shorten(value)}`;
      this.#refuse(this.#limits.refuseOperand(value), (reason) => [`${description}: ${reason}`, start, end]);
    }
    this.outline.push({ expression: span, position: start, end });
    this.#operations.push(operation);
    return { exact: value, node: this.outline.length - 1 };
  }

  /** Returns which part of a number is refused: all of it, or the excess decimal places.
   * @param {Expression} literal
   * @param {Refusal | null} refusal
   * @returns {[start: number, end: number]} */
  #rangeOf({ start, end }, refusal) {
    if (refusal?.kind !== "too-many-places") return [start, end];
    const characters = normalize([...this.#text]);
    const first = characters.indexOf(".", start) + 1 + this.#limits.defaultPlaces;
    const [typed] = /^[0-9]*/.exec(characters.slice(first).join("")) ?? [""];
    return [first + typed.length - typed.replace(/^0+/, "").length, first + typed.length];
  }

  /**
   * Yields each question whose operands have values, operands first. Call `answer` before you request the
   * next question.
   * @returns {Generator<{node: number, problem: string, prompt: string}>}
   */
  *questions() {
    const valueOf = (/** @type {Operand} */ { exact, node }) => (node === null ? exact : this.#values[node]);
    for (const [node, { a, op, b, places }] of this.#operations.entries()) {
      const [left, right] = [a, b].map(valueOf);
      const problem = left && right && { a: left, op, b: right, places };
      if (!problem || !this.#canBeAsked(problem)) {
        this.#nodes[node] = notAskedNode(this.outline[node]);
        this.#values[node] = null;
        continue;
      }
      this.#problem = problem;
      const text = `${numberText(problem.a)}${op}${numberText(problem.b)}`;
      yield { node, problem: text, prompt: renderPrompt(problem) };
    }
  }

  /** Returns whether the model may be asked a problem.
   * @param {Problem} problem */
  #canBeAsked(problem) {
    const { a, b } = problem;
    if (![a, b].every((number) => this.#isAllowed(this.#limits.refuseOperand(number)))) return false;
    return this.#isAllowed(this.#limits.refuseProblem(problem));
  }

  /**
   * Adds the answer to a question. Returns its node.
   * @param {{node: number, problem: string, prompt: string}} question the last one that was yielded
   * @param {string} output
   * @param {number[]} probabilities the probability of each character
   */
  answer({ node, problem, prompt }, output, probabilities) {
    if (!this.#problem) throw new RangeError("nothing was asked");
    const { text, value } = readAnswer(prompt + output, this.#problem.places);
    const exact = answer(this.#problem);
    this.#values[node] = value;
    this.#nodes[node] = {
      ...this.outline[node],
      problem,
      prompt,
      work: output.includes("=") ? output.slice(0, output.lastIndexOf("=")) : null,
      output,
      result: text,
      exact: answerText(exact.value),
      agrees: text === answerText(exact.value),
      rounded: exact.isRounded,
      confidence: confidence(prompt, output, probabilities),
    };
    return this.#nodes[node];
  }

  /** Returns the result of a complete computation. */
  calculation() {
    const nodes = this.#nodes;
    const confidences = nodes.map((node) => node.confidence ?? NOT_CONFIDENT);
    const { exact, node: last } = this.#result;
    return {
      expression: this.expression,
      result: last === null ? answerText(exact) : nodes[last].result,
      exact: answerText(exact),
      places: this.places,
      rounded: nodes.some((node) => node.rounded),
      verified: nodes.every((node) => node.agrees),
      proven: this.#isProven,
      confidence: {
        answer: product(confidences.map((c) => c.answer)),
        weakest_step: Math.min(1, ...confidences.map((c) => c.weakest_step)),
        whole: product(confidences.map((c) => c.whole)),
      },
      nodes,
      model: this.#model,
    };
  }
}

/** @type {Confidence} */
const NOT_CONFIDENT = { answer: 0, weakest_step: 0, whole: 0 };

/**
 * Returns the confidence in what the model wrote after a prompt. Digits of a quotient do not count,
 * because several digits may be correct.
 * @param {string} prompt
 * @param {string} output
 * @param {number[]} probabilities
 * @returns {Confidence}
 */
function confidence(prompt, output, probabilities) {
  if (!output.endsWith("$")) return NOT_CONFIDENT;
  const start = output.lastIndexOf("=") + 1;
  const choices = hasWork(output) ? quotientDigits(prompt) : new Set();
  const steps = probabilities.slice(0, start).filter((_, index) => !choices.has(index));
  const answer = product(probabilities.slice(start));
  return { answer, weakest_step: Math.min(1, ...steps), whole: product(steps) * answer };
}

/**
 * Returns whether an output has worked steps, which begin with a sign.
 * @param {string} output
 */
function hasWork(output) {
  return /^[-+]/.test(output);
}

/**
 * Returns the positions of the quotient digits in the work of a question.
 * @param {string} prompt
 * @returns {Set<number>}
 */
function quotientDigits(prompt) {
  const shape = shapeOf(prompt);
  if (shape?.op !== "/") return new Set();
  const { slots, promptLength } = new Layout(shape);
  const positions = slots.flatMap(([kind], at) => (kind === KIND.QUOTIENT_DIGIT ? [at] : []));
  return new Set(positions.map((position) => position - promptLength));
}

/** Returns the node of an operation about which the model was not asked.
 * @param {Span} span */
function notAskedNode(span) {
  const fields = ["problem", "prompt", "work", "output", "result", "exact", "confidence"];
  const empty = Object.fromEntries(fields.map((name) => [name, null]));
  return { ...span, ...empty, agrees: false, rounded: false };
}

/** @param {number[]} numbers */
function product(numbers) {
  return numbers.reduce((result, number) => result * number, 1);
}

/** Returns the text of a number, cut to 40 characters.
 * @param {Decimal} number */
function shorten(number) {
  const text = numberText(number);
  return text.length <= 40 ? text : `${text.slice(0, 40)}...`;
}
