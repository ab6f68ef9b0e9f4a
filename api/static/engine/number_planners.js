// @ts-nocheck
// Written by `make tables` from calcgpt/inference/number_planners.py. Do not edit.
import * as py from "./python.js";
import { Decimal } from "./arithmetic.js";
import { equal, roundTo, valueOfNumber } from "./exact.js";
import { Fraction } from "./fractions.js";
import { OPERATIONS } from "./operations.js";
import { Operand, Planner, rightAnswer } from "./planners.js";
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
