// Turns an expression into questions to a model, and the answers into the result with its check and its
// confidence (calcgpt/inference/calculator.py and results.py).

import { Problem, answer, answerText, isRounded, readAnswer, renderPrompt } from "./arithmetic.js";
import { bounded } from "./effort.js";
import { fractionText, plainText, roundTo } from "./exact.js";
import { parse } from "./expression.js";
import { Style } from "./expression_stack.js";
import { show } from "./expression_tree.js";
import { Layout, MAX_LAYOUT, shapeOf } from "./layout.js";
import { MAX_SHOWN_WORK, ScratchpadLimits } from "./limits.js";
import { KIND, OPERATIONS } from "./operations.js";
import { makePlan } from "./planning.js";
import { forget } from "./python.js";
import { Text } from "./text.js";

/** @import { Decimal } from "./arithmetic.js" */
/** @import { Operand, Step } from "./planners.js" */
/** @import { Span } from "../client.js" */
/** @typedef {{answer: number, weakest_step: number, whole: number}} Confidence */

/** Options of a calculation, by their names in the service's API. places: of the answer, by default what the text asks
 * for or those of the limits; percent, decimal_comma and angle: see `Style`.
 * @typedef {{places?: number | null, percent?: "relative" | "plain", decimal_comma?: boolean,
 * angle?: "radians" | "degrees"}} Options */

/** Returns the limits of a model with these characters. room: of a question and its work.
 * @type {(vocabulary: string, room?: number) => ScratchpadLimits} */
export function limitsOf(vocabulary, room = MAX_LAYOUT) {
  /** @type {any} */ const operations = Object.keys(OPERATIONS).filter((sign) => vocabulary.includes(sign));
  return new ScratchpadLimits(room, operations);
}

/** An expression, its questions to the model, and the answers so far. */
export class Computation {
  #model;
  #limits;
  #plan;
  #readings;
  /** @type {Problem | null} */ #problem = null;
  /** @type {any[]} */ #nodes = []; // the answers, by step; see Node of client.js
  /** @type {(Decimal | null)[]} */ #values = []; // the values of the answers, by step; null if it is not a number

  /** @param {string} text
   * @param {{model: string, limits: import("./limits.js").ScratchpadLimits} & Options} options
   * @param {Map<string, import("./expression_tree.js").Expression>} [names] those of `parse`
   * @throws {ExpressionError} if the text is not an expression or has no value, or if an operation on the right
   * numbers is outside the limits */
  constructor(text, options, names) {
    const { model, limits, places } = options;
    const { percent = "relative", decimal_comma: decimalComma = false, angle = "radians" } = options;
    const parsed = parse(new Text(text), new Style(percent, decimalComma, angle), /** @type {any} */ (names));
    this.expression = show(parsed.expression);
    this.places = places ?? parsed.places ?? limits.defaultPlaces;
    this.#model = model;
    this.#limits = limits;
    forget();
    this.#plan = bounded(() => makePlan(parsed.expression, this.places, limits, MAX_SHOWN_WORK));
    this.#readings = [...parsed.readings, ...this.#plan.readings];
    const { steps } = this.#plan;
    /** The operations, operands first. Each becomes a node when it is answered. @type {Span[]} */
    this.outline = steps.map((/** @type {Step} */ { text, start, end, path }) => {
      return { expression: text, position: start, end, path };
    });
  }

  /** Yields each question whose operands have values, operands first. Call `answer` before you request the next
   * question.
   * @returns {Generator<{node: number, problem: string, prompt: string}>} */
  *questions() {
    for (const [node, step] of this.#plan.steps.entries()) {
      this.#problem = this.#problemOf(step);
      if (this.#problem) {
        const { a, op, b } = this.#problem;
        yield { node, problem: `${plainText(a)}${op}${plainText(b)}`, prompt: renderPrompt(this.#problem) };
      } else {
        this.#nodes[node] = { ...this.outline[node], ...NOT_ASKED };
        this.#values[node] = null;
      }
    }
  }

  /** Returns the problem of an operation, or null if an operand is missing or the model cannot be asked.
   * @type {(step: Step) => Problem | null} */
  #problemOf({ a: first, op, b: second, places }) {
    const valueOf = (/** @type {Operand} */ { number, step }) => (step === null ? number : this.#values[step]);
    const [a, b] = [valueOf(first), valueOf(second)];
    if (!a || !b) return null;
    if ([a, b].some((number) => this.#limits.refuseOperand(number))) return null;
    const problem = new Problem(a, op, b, places);
    return this.#limits.refuseProblem(problem, this.#limits.nCharacters(problem)) ? null : problem;
  }

  /** Adds the answer to a question. Returns its node.
   * @param {{node: number, problem: string, prompt: string}} question the last one that was yielded
   * @param {string} output
   * @param {number[]} probabilities the probability of each character */
  answer({ node, problem, prompt }, output, probabilities) {
    if (!this.#problem) throw new RangeError("nothing was asked");
    const { text, value } = readAnswer(prompt + output, this.#problem.places);
    const right = answer(this.#problem);
    this.#values[node] = value;
    this.#nodes[node] = {
      ...this.outline[node],
      problem,
      prompt,
      work: output.includes("=") ? output.slice(0, output.lastIndexOf("=")) : null,
      output,
      result: value ? plainText(value) : text,
      exact: right ? plainText(right) : answerText(null),
      agrees: text === answerText(right),
      proved: false, // this browser has not tried all cases
      rounded: isRounded(this.#problem),
      confidence: confidence(prompt, output, probabilities),
    };
    return this.#nodes[node];
  }

  /** Returns the result of a complete computation. */
  calculation() {
    const nodes = this.#nodes;
    const confidences = nodes.map((node) => node.confidence ?? NOT_CONFIDENT);
    const { value, rounded, isRounded, result: { number, step } } = this.#plan;
    const exact = plainText(roundTo(rounded, this.places));
    const result = step === null ? plainText(number) : nodes[step].result;
    return {
      expression: this.expression,
      reading: this.#readings.map(({ text }) => text).join("; ") || null,
      alternative: this.#readings.find(({ alternative }) => alternative)?.alternative ?? null,
      result,
      exact,
      fraction: value.exact && fractionText(value.exact),
      places: this.places,
      rounded: isRounded,
      verified: result === exact && nodes.every((node) => node.agrees),
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

/** What the node of an operation has about which the model was not asked. */
const NOT_ASKED = {
  ...{ problem: null, prompt: null, work: null, output: null, result: null, exact: null, confidence: null },
  ...{ agrees: false, proved: false, rounded: false },
};
/** @type {Confidence} */ const NOT_CONFIDENT = { answer: 0, weakest_step: 0, whole: 0 };

/** Returns the confidence in what the model wrote after a prompt. Digits of a quotient do not count, because several
 * digits may be correct.
 * @type {(prompt: string, output: string, probabilities: number[]) => Confidence} */
function confidence(prompt, output, probabilities) {
  if (!output.endsWith("$")) return NOT_CONFIDENT;
  const start = output.lastIndexOf("=") + 1;
  const shape = /^[-+]/.test(output) ? shapeOf(prompt) : null; // worked steps begin with a sign
  const slots = shape ? new Layout(shape).slots.slice(prompt.length) : [];
  const steps = probabilities.slice(0, start).filter((_, index) => slots[index]?.[0] !== KIND.QUOTIENT_DIGIT);
  const answer = product(probabilities.slice(start));
  return { answer, weakest_step: Math.min(1, ...steps), whole: product(steps) * answer };
}

/** @param {number[]} numbers */
function product(numbers) {
  return numbers.reduce((result, number) => result * number, 1);
}
