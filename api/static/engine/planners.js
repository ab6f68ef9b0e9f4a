// @ts-nocheck
// Written by `make tables` from calcgpt/inference/planners.py. Do not edit.
import * as py from "./python.js";
import { Decimal, Problem, answer } from "./arithmetic.js";
import { EffortError, spend } from "./effort.js";
import { ExpressionError } from "./errors.js";
import { equal, roundTo, valueOfNumber } from "./exact.js";
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
export class Rounding extends Planner {
constructor(parts, places, guardPlaces) { super(parts, places, py.add(places, guardPlaces)); const self = this; }
number(value) { const self = this; return new Operand(new Decimal(py.int(value))); }
_typed(node) { const self = this; return new Operand(node.number); }
constant(value, morePlaces = 3) { const self = this; let number, places; places = py.min(9999, py.add(self.stepPlaces, morePlaces)); if ((value.exact != null)) { number = roundTo(value.exact, py.max(places, 30)); if (py.eq(valueOfNumber(number), value.exact)) { return new Operand(number); } } return new Operand(roundTo(value.rounded(places), places)); }
value(number) { const self = this; return valueOfNumber(number.number); }
isZero(value) { const self = this; return py.lt(py.mul(2, py.abs(value.approximate())), new Fraction(1, py.pow(10, self.stepPlaces))); }
rounded(a, places) { const self = this; if (py.truth(equal(a.number, roundTo(valueOfNumber(a.number), places)))) { return a; } return self.ask(a, OPERATIONS["+"], new Operand(new Decimal(0)), places); }
apply(op, a, b) { const self = this; return self.ask(a, op, b, self.stepPlaces); }
_nearest(a, b) { const self = this; let quotient; quotient = self.ask(a, OPERATIONS["/"], b, 0); return [quotient, quotient.number.units]; }
_finish(value) { const self = this; let index, isLast, last, number; [number, index] = value; isLast = py.eq(index, py.sub(py.len(self.steps), 1)); if ((py.truth(isLast) && py.eq(py.get(self.steps, -1).places, self.places))) { return value; } if ((py.truth(isLast) && py.eq(py.get(self.steps, -1).places, self.stepPlaces))) { py.setitem(self.steps, -1, py.replace(py.get(self.steps, -1), { places: self.places })); last = py.get(self.steps, -1); return new Operand(rightAnswer(last), index); } if ((!py.truth(equal(number, self.parts.right)) && ((index == null) || !py.truth(isLast)))) { return self.ask(value, OPERATIONS["+"], new Operand(new Decimal(0)), self.places); } return value; }
}
export class Fractions extends Planner {
constructor(parts, places) { super(parts, places, places); const self = this; }
constant(value, morePlaces = 3) { const self = this; if ((value.exact == null)) { throw new py.ArithmeticError(); } return self.number(value.exact); }
value(number) { const self = this; let d, n; [n, d] = number; return new Fraction(n.number.units, (py.truth(d) ? d.number.units : 1)); }
isZero(value) { const self = this; return !py.truth(value.sign()); }
rounded(a, places) { const self = this; throw new py.ArithmeticError(); }
number(value) { const self = this; let denominator, divisor, numerator; [numerator, denominator] = value.asIntegerRatio(); divisor = (py.gt(denominator, 1) ? new Operand(new Decimal(denominator)) : null); return [new Operand(new Decimal(numerator)), divisor]; }
apply(op, a, b) { const self = this; let d, e, left, m, n, right; [[n, d], [m, e]] = [a, b]; if ((op === OPERATIONS["*"])) { return [self._product(n, m), self._times(d, e)]; } if ((op === OPERATIONS["/"])) { return [py.orElse(self._times(n, e), () => n), self._times(m, d)]; } if (py.eq(d, e)) { return [self.ask(n, op, m, self.places), d]; } [left, right] = [py.orElse(self._times(n, e), () => n), py.orElse(self._times(m, d), () => m)]; return [self.ask(left, op, right, self.places), self._times(d, e)]; }
_nearest(a, b) { const self = this; let d, n, quotient; [n, d] = self.apply(OPERATIONS["/"], a, b); quotient = self.ask(n, OPERATIONS["/"], d, 0); return [[quotient, null], quotient.number.units]; }
_finish(value) { const self = this; let d, n; [n, d] = value; return (py.truth(d) ? self.ask(n, OPERATIONS["/"], d, self.places) : n); }
_product(a, b) { const self = this; return self.ask(a, OPERATIONS["*"], b, self.places); }
_times(a, b) { const self = this; return ((py.truth(a) && py.truth(b)) ? self._product(a, b) : py.orElse(a, () => b)); }
}
