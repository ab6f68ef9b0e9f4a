// @ts-nocheck
// Written by `make tables` from calcgpt/inference/limits.py. Do not edit.
import * as py from "./python.js";
import { answer, answerText, isOperand, numberText, renderPrompt } from "./arithmetic.js";
import { anyShapeOf, workLength } from "./layout.js";
const SIGNS = py.frozenset(["*", "+", "-", "/"]);
export const DEFAULT_PLACES = 8;
export const MAX_WORK = 2500000;
export const MAX_SHOWN_WORK = 400000;
export const MOST_WORK = 100000000;
export class Refusal extends py.NamedTuple {
static fields = ["kind", "reason"];
constructor(kind, reason) { super(); this.kind = kind; this.reason = reason; }
}
export class DirectLimits extends py.DataClass {
defaultPlaces = 2;
mostPlaces = 2;
refusePlaces(places) { const self = this; let reason; if (py.eq(places, 2)) { return null; } reason = `answers of this model have ${2} places, not ${places}`; return new Refusal("too-many-places", reason); }
refuseOperand(number) { const self = this; let reason; if (py.gt(number.places, 2)) { return new Refusal("too-many-places", "more than two decimal places"); } if (py.gt(py.len(numberText(number)), 10)) { reason = `a number of more than ${10} characters`; return new Refusal("out-of-range", reason); } return null; }
refuseProblem(problem, nCharacters) { const self = this; return self.refusePlaces(problem.places); }
nCharacters(problem) { const self = this; return _answerLength(problem); }
describe() { const self = this; return py.dict([["operations", py.list(self.operations)], ["max_characters", 10], ["works_in_steps", false]]); }
static fields = ["operations"];
constructor(operations = SIGNS) { super(); this.operations = operations; }
}
export class ScratchpadLimits extends py.DataClass {
defaultPlaces = DEFAULT_PLACES;
mostPlaces = 9999;
refusePlaces(places) { const self = this; return null; }
refuseOperand(number) { const self = this; let reason; if (py.truth(isOperand(number))) { return null; } reason = `a number of more than ${py.format(10100, `,`)} characters`; return new Refusal("out-of-range", reason); }
refuseProblem(problem, nCharacters) { const self = this; let length, reason, room; length = py.add(py.len(renderPrompt(problem)), nCharacters); room = py.min(self.blockSize, 4194304); if (py.le(length, py.add(room, 1))) { return null; } reason = `its work has ${py.format(length, `,`)} characters; this model's context holds ${py.format(room, `,`)}`; return new Refusal("out-of-range", reason); }
nCharacters(problem) { const self = this; return _workAndAnswerLength(problem); }
describe() { const self = this; return py.dict([["operations", py.list(self.operations)], ["decimal_places", 30], ["default_places", self.defaultPlaces], ["max_characters", 10100], ["works_in_steps", true]]); }
static fields = ["blockSize", "operations"];
constructor(blockSize, operations = SIGNS) { super(); this.blockSize = blockSize; this.operations = operations; }
}
export function accepts(limits, problem) { if ((py.truth(limits.refusePlaces(problem.places)) || py.any(py.map(limits.refuseOperand, [problem.a, problem.b])))) { return false; } return !py.truth(limits.refuseProblem(problem, limits.nCharacters(problem))); }
export function refuseWork(nCharacters, most) { let about, reason, unit; if (py.le(nCharacters, most)) { return null; } unit = py.pow(10, py.max(0, py.sub(py.len(py.str(nCharacters)), 3))); about = `about ${py.format(py.mul(py.floordiv(py.add(nCharacters, py.floordiv(unit, 2)), unit), unit), `,`)}`; reason = `the model would write ${about} characters; the limit is ${py.format(most, `,`)}`; return new Refusal("too-long", reason); }
const _workAndAnswerLength = py.cached(64, (problem) => { let prompt, shape; prompt = renderPrompt(problem); shape = anyShapeOf(prompt); return py.add(py.sub(workLength(shape), py.len(prompt)), _answerLength(problem)); });
function _answerLength(problem) { return py.add(py.max(10, py.len(answerText(answer(problem)))), py.len("$")); }
export function limitsOf(checkpoint, blockSize) { let operations; if ((checkpoint.recipe.model.architecture === "sources")) { blockSize = 4194304; } operations = py.tuple(py.filter(checkpoint.tokenizer.hasCharacters, SIGNS)); if (py.truth(checkpoint.recipe.hasWork)) { return new ScratchpadLimits(blockSize, operations); } return new DirectLimits(operations); }
