// @ts-nocheck
// Written by `make tables` from calcgpt/inference/planners.py. Do not edit.
import * as py from "./python.js";
import { Problem, answer } from "./arithmetic.js";
import { EffortError, spend } from "./effort.js";
import { ExpressionError } from "./errors.js";
import { valueOfNumber } from "./exact.js";
import { Reading } from "./expression_stack.js";
import { Fraction } from "./fractions.js";
import * as math from "./math.js";
import { OPERATIONS } from "./operations.js";
import { Term, run } from "./programs.js";
import { fraction, isWhole } from "./real.js";
import tables from "./tables.js";
const CONSTANTS = py.frozenset(["e", "phi", "pi", "tau"]);
const _TOO_LARGE = py.pow(10, py.mul(2, 10000));
export const LONG = 40;
export class Operand extends py.NamedTuple {
static fields = ["number", "step"];
constructor(number, step = null) { super(); this.number = number; this.step = step; }
}
export class Step extends py.NamedTuple {
get problem() { const self = this; return new Problem(self.a.number, self.op, self.b.number, self.places); }
static fields = ["a", "op", "b", "places", "text", "start", "end", "path"];
constructor(a, op, b, places, text, start, end, path = []) { super(); this.a = a; this.op = op; this.b = b; this.places = places; this.text = text; this.start = start; this.end = end; this.path = path; }
}
export class Parts extends py.NamedTuple {
static fields = ["nodes", "values", "morePlaces", "operations", "right"];
constructor(nodes, values, morePlaces, operations, right) { super(); this.nodes = nodes; this.values = values; this.morePlaces = morePlaces; this.operations = operations; this.right = right; }
}
export class Planner {
constructor(parts, places, stepPlaces) { const self = this; [self.parts, self.places, self._stepPlaces] = [parts, places, stepPlaces]; self.morePlaces = 0; self.steps = []; self.readings = []; self.path = []; self._index = 0; }
get _node() { const self = this; return py.get(self.parts.nodes, self._index); }
get stepPlaces() { const self = this; return py.max(0, py.add(self._stepPlaces, self.morePlaces)); }
plan() { const self = this; let first, index, operands, real, waiting; waiting = []; try { for ([index, real] of py.each(py.enumerate(self.parts.values))) { [self._index, self.morePlaces] = [index, py.get(self.parts.morePlaces, index)]; first = py.sub(py.len(waiting), py.len(self._node.operands)); operands = py.slice(waiting, first, undefined); if (["//", "mod"].includes(self._node.sign)) { self._sayFloor(...py.seq(operands).map((operand) => operand.value)); } py.setslice(waiting, first, undefined, [new Term(self.operation(self._node, operands, real), real)]); } return self._finish(py.get(waiting, 0).number); } catch (caught) { if (caught instanceof EffortError) { throw caught; } else if (caught instanceof py.ArithmeticError) { return null; } else throw caught; } }
operation(node, operands, real) { const self = this; let a, b, exact, exactB, isBelow0, quotient, sign; sign = node.sign; if (!py.truth(sign)) { return self._typed(node); } if (py.contains(CONSTANTS, sign)) { return self.constant(real); } if ((py.contains(tables.PROGRAMS, sign) && ((sign !== "^") || !py.truth(isWhole(py.get(operands, 1).value))))) { return run(self, sign, operands); } [a, exact] = py.get(operands, 0); if ((sign === "%")) { return self.apply(OPERATIONS["/"], a, self.number(new Fraction(100))); } if ((sign === "||")) { isBelow0 = py.lt(exact.sign(), 0); return (py.truth(isBelow0) ? self.apply(OPERATIONS["-"], self.number(new Fraction(0)), a) : a); } if ((sign === "!")) { return self._factorial(exact.floor()); } [b, exactB] = py.get(operands, 1); if ((sign === "^")) { return self._power(a, exactB.floor()); } if (["+%", "-%"].includes(sign)) { return self.apply(py.get(OPERATIONS, py.get(sign, 0)), a, self.apply(OPERATIONS["*"], b, a)); } if (["//", "mod"].includes(sign)) { quotient = self._floor(a, b, py.truediv(exact, exactB).floor()); if ((sign === "//")) { return quotient; } return self.apply(OPERATIONS["-"], a, self.apply(OPERATIONS["*"], quotient, b)); } return self.apply(py.get(self.parts.operations, sign), a, b); }
_typed(node) { const self = this; return self.number(valueOfNumber(node.number)); }
_power(base, exponent) { const self = this; let _, factor, nFactors, power, rest, size, unit; if (!py.truth(exponent)) { return self.number(new Fraction(1)); } size = py.mul(fraction(self.value(base)).size(), py.abs(exponent)); nFactors = ((py.lt(py.mul(4, LONG), size) && py.lt(size, 10000)) ? math.ceil(py.truediv(size, LONG)) : 1); nFactors = py.min(nFactors, py.abs(exponent)); [factor, rest] = py.divmod(py.abs(exponent), nFactors); unit = self._squared(base, factor); power = unit; for (_ of py.each(py.range(py.sub(nFactors, 1)))) { power = self.apply(OPERATIONS["*"], power, unit); } if (py.truth(rest)) { power = self.apply(OPERATIONS["*"], power, self._squared(base, rest)); } if (py.lt(exponent, 0)) { return self.apply(OPERATIONS["/"], self.number(new Fraction(1)), power); } return power; }
_squared(base, exponent) { const self = this; let digit, power; power = base; for (digit of py.each(py.slice(`${py.format(exponent, `b`)}`, 1, undefined))) { power = self.apply(OPERATIONS["*"], power, power); if ((digit === "1")) { power = self.apply(OPERATIONS["*"], power, base); } } return power; }
_factorial(n) { const self = this; let factor, product; product = self.number(new Fraction(py.max(1, py.min(n, 2)))); for (factor of py.each(py.range(3, py.add(n, 1)))) { product = self.apply(OPERATIONS["*"], product, self.number(new Fraction(factor))); } return product; }
_floor(a, b, floor) { const self = this; let nearest, quotient; [quotient, nearest] = self._nearest(a, b); if (py.eq(nearest, py.add(floor, 1))) { return self.apply(OPERATIONS["-"], quotient, self.number(new Fraction(1))); } return quotient; }
_sayFloor(a, b) { const self = this; let left, read, right, text; if ((py.ge(py.mul(a.sign(), b.sign()), 0) || py.ge(py.len(self.readings), 8))) { return null; } if (py.truth(isWhole(py.truediv(a, b)))) { return null; } [left, right] = (function* () { for (const operand of py.each(self._node.operands)) { yield operand.text; } })(); read = py.call(py.get(tables.READINGS, self._node.sign), "format", { a: left, b: right }); text = py.call(py.get(tables.READINGS, "all"), "format", { typed: self._node.text, read: read }); self.readings.push(new Reading(text, null)); }
ask(a, op, b, places) { const self = this; let node, reason, right, step; node = self._node; spend(py.add(20, py.floordiv(py.add(py.call(a.number.units, "bit_length"), py.call(b.number.units, "bit_length")), 20))); if (py.eq(py.len(self.steps), 1000)) { reason = py.get(tables.MESSAGES, "operations"); throw new ExpressionError("too-long", reason, node.start, node.end); } step = new Step(a, op, b, places, self._node.text, node.start, node.end, self.path); self.steps.push(step); right = rightAnswer(step); return new Operand(right, py.sub(py.len(self.steps), 1)); }
}
export function rightAnswer(step) { let value; if (py.gt(step.places, 9999)) { throw new py.OverflowError(); } value = answer(step.problem); if ((value == null)) { throw new py.ZeroDivisionError(); } if (py.ge(py.abs(value.units), _TOO_LARGE)) { throw new py.OverflowError(); } return value; }
