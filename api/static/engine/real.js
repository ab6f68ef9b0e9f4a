// @ts-nocheck
// Written by `make tables` from calcgpt/inference/real.py. Do not edit.
import * as py from "./python.js";
import * as balls from "./balls.js";
import * as closedForm from "./closed_form.js";
import { TooLargeError } from "./closed_form.js";
import { spend } from "./effort.js";
import { Fraction } from "./fractions.js";
import * as math from "./math.js";
import { separation } from "./separation.js";
export const MAX_BITS = py.pow(2, 15);
export const DECIDED_DIGITS = py.int(py.mul(MAX_BITS, math.log10(2)));
export const MAX_EXACT_BITS = py.pow(2, 17);
const _FIRST_BITS = 128;
export const [_MAX_FORM_BITS, _MAX_DEPTH] = [4000, 50];
export const [_SIMPLE, _SIMPLE_DIGITS] = [py.pow(10, 15), 60];
export class UndecidedError extends py.ArithmeticError {
}
export class Real {
exact = null;
operation = "";
operands = [];
exponent = new Fraction(1);
depth = 0;
bits = 0;
get form() { return py.kept(this, "form", () => { const self = this; let forms, isShort; if (py.gt(self.depth, _MAX_DEPTH)) { return null; } try { if ((self.exact != null)) { isShort = py.le(_nBits(self.exact), _MAX_FORM_BITS); return (py.truth(isShort) ? closedForm.rational(self.exact) : null); } forms = py.seq(self.operands).map((operand) => operand.form); if (py.seq(forms).every((form) => (form != null))) { if ((self.operation === "^")) { return closedForm.power(...py.each(forms), self.exponent); } return py.get(_FORMS, self.operation)(...py.each(forms)); } } catch (caught) { if (!(caught instanceof TooLargeError)) throw caught; } return null; }); }
__add__(other) { const self = this; let both; if (py.truth((both = _fractions(self, other)))) { return fraction(py.add(py.get(both, 0), py.get(both, 1))); } return _operation("+", [self, other]); }
__sub__(other) { const self = this; return py.add(self, py.neg(other)); }
__neg__() { const self = this; return ((self.exact == null) ? py.mul(fraction(new Fraction(-1)), self) : fraction(py.neg(self.exact))); }
__mul__(other) { const self = this; let both; if (py.truth((both = _fractions(self, other)))) { return fraction(py.mul(py.get(both, 0), py.get(both, 1))); } return _operation("*", [self, other]); }
__truediv__(other) { const self = this; let both; if (!py.truth(other.sign())) { throw new py.ZeroDivisionError(); } if (py.truth((both = _fractions(self, other)))) { return fraction(py.truediv(py.get(both, 0), py.get(both, 1))); } return _operation("/", [self, other]); }
enclose(bits) { const self = this; let real; for (real of py.each(parts(self, ((real) => py.ge(real.bits, bits))))) { spend(balls.cost(((real.exact != null) ? "" : real.operation), bits)); [real.ball, real.bits] = [_ball(real, bits), bits]; } return self.ball; }
sign() { const self = this; let ball, bits, distance, sign; [bits, distance] = [_FIRST_BITS, null]; while ((self.exact == null)) { if (py.gt(bits, MAX_BITS)) { throw new UndecidedError(); } ball = self.enclose(bits); if (py.truth((sign = balls.sign(ball)))) { return sign; } if (py.eq(bits, _FIRST_BITS)) { distance = separation(parts(self)); } if (((distance != null) && py.truth(balls.isFinite(ball)) && py.truth(balls.isBelow(ball, py.neg(distance))))) { self.exact = new Fraction(0); } bits = py.mul(bits, 2); } return py.sub(py.gt(self.exact, 0), py.lt(self.exact, 0)); }
compare(value) { const self = this; let order; if ((self.exact != null)) { return py.sub(py.gt(self.exact, value), py.lt(self.exact, value)); } order = py.sub(self, fraction(new Fraction(value))).sign(); if (!py.truth(order)) { self.exact = new Fraction(value); } return order; }
floor() { const self = this; let nearest; if ((self.exact != null)) { return math.floor(self.exact); } nearest = self._nearest(); return py.sub(nearest, py.lt(self.compare(nearest), 0)); }
rounded(places) { const self = this; let halves, order, scale; scale = py.pow(new Fraction(10), places); if ((self.exact != null)) { return py.truediv(py.round(py.mul(self.exact, scale)), scale); } halves = py.mul(self, fraction(py.mul(2, scale)))._nearest(); if ((py.truth(py.mod(halves, 2)) && py.truth((order = self.compare(py.truediv(halves, py.mul(2, scale))))))) { halves = py.iadd(halves, order); } return py.truediv(py.round(new Fraction(halves, 2)), scale); }
_nearest() { const self = this; let near; if ((self.exact != null)) { return py.round(self.exact); } for (near of py.each(self._approximations())) { if (py.truth(balls.isNarrow(near, -2))) { return py.round(balls.middle(near)); } } throw new UndecidedError(); }
*_approximations(bits = _FIRST_BITS) { const self = this; let ball; while (py.le(bits, MAX_BITS)) { ball = self.enclose(bits); if (py.truth(balls.isFinite(ball))) { if (py.gt(balls.logarithm(ball), MAX_EXACT_BITS)) { throw new py.OverflowError(); } yield ball; } bits = py.mul(bits, 2); } }
approximate(digits = 40) { const self = this; let ball, near, wanted; if ((self.exact != null)) { return self.exact; } wanted = py.add(py.int(py.truediv(digits, math.log10(2))), 8); near = null; for (ball of py.each(self._approximations(py.add(wanted, 32)))) { near = balls.middle(ball); if ((py.ge(balls.accuracy(ball), wanted) || py.truth(balls.isNarrow(ball, -1000)))) { break; } } if ((near == null)) { throw new py.OverflowError(); } return near; }
size() { const self = this; let ball, bits, d, n; if ((self.exact != null)) { [n, d] = self.exact.asIntegerRatio(); return (py.truth(n) ? py.mul(py.sub(py.call(n, "bit_length"), py.call(d, "bit_length")), math.log10(2)) : py.neg(math.inf)); } bits = py.mul(2, _FIRST_BITS); while (!py.truth(balls.sign((ball = self.enclose(bits))))) { bits = py.mul(bits, 2); if (py.gt(bits, MAX_BITS)) { return (py.truth(balls.isFinite(ball)) ? py.neg(math.inf) : math.inf); } } return py.mul(balls.logarithm(ball), math.log10(2)); }
settle() { const self = this; let near, simple; if ((self.exact == null)) { try { near = self.approximate(py.mul(2, _SIMPLE_DIGITS)); simple = near.limitDenominator(_SIMPLE); if (py.lt(py.abs(py.sub(simple, near)), new Fraction(1, py.pow(10, _SIMPLE_DIGITS)))) { self.compare(simple); } } catch (caught) { if (!(caught instanceof UndecidedError || caught instanceof py.OverflowError)) throw caught; } } return self; }
}
export function fraction(value) { let real; spend(py.add(1, py.pow(py.floordiv(_nBits(value), 2000), 2))); real = new Real(); real.exact = value; return real; }
function _fractions(a, b) { let isShort; if (((a.exact == null) || (b.exact == null))) { return null; } isShort = py.le(py.add(_nBits(a.exact), _nBits(b.exact)), MAX_EXACT_BITS); return (py.truth(isShort) ? [a.exact, b.exact] : null); }
export function pi() { return _operation("pi", []); }
export function power(base, exponent) { let d, n, result, root; [n, d] = exponent.asIntegerRatio(); if ((py.gt(d, 1) && py.lt(base.sign(), 0))) { result = power(py.neg(base), exponent); return (py.truth(py.mod(n, 2)) ? py.neg(result) : result); } if (((base.exact != null) && ((root = _exactRoot(base.exact, d)) != null))) { if (py.le(_nBits(root), 1)) { return fraction(py.pow(root, py.add(py.mod(n, 2), 2))); } if (py.le(py.mul(_nBits(root), py.abs(n)), MAX_EXACT_BITS)) { return fraction(py.pow(root, n)); } } return _operation("^", [base], exponent); }
export function factorial(n) { if (py.le(n, 10000)) { return fraction(new Fraction(math.factorial(n))); } return _operation("!", [fraction(new Fraction(n))]); }
export function exp(x) { return _operation("exp", [x]); }
export function ln(x) { return _operation("ln", [x]); }
export function sin(x) { return _odd("sin", x); }
export function cos(x) { return _operation("cos", [(py.truth(_isBelow0(x)) ? py.neg(x) : x)]); }
export function asin(x) { return _odd("asin", x); }
export function atan(x) { return _odd("atan", x); }
export function isWhole(real) { return ((real.exact != null) && py.eq(real.exact.denominator, 1)); }
function _odd(name, x) { return (py.truth(_isBelow0(x)) ? py.neg(_operation(name, [py.neg(x)])) : _operation(name, [x])); }
function _isBelow0(x) { return ((x.exact != null) ? py.lt(x.exact, 0) : py.lt(balls.sign(x.enclose(_FIRST_BITS)), 0)); }
function _operation(name, operands, exponent = new Fraction(1)) { let real; spend(20); real = new Real(); [real.operation, real.operands, real.exponent] = [name, operands, exponent]; real.depth = py.add(py.max(py.seq(operands).map((x) => x.depth), { default: 0 }), !["+", "*"].includes(name)); real.exact = (py.truth(real.form) ? real.form.rational : null); return real; }
const _FORMS = py.dict([["pi", (() => closedForm.PI)], ["+", closedForm.add], ["*", closedForm.multiply], ["/", ((a, b) => closedForm.multiply(a, closedForm.inverse(b)))], ["exp", closedForm.exp], ["ln", closedForm.ln], ["sin", closedForm.sin], ["cos", closedForm.cos], ["asin", closedForm.asin], ["atan", closedForm.atan], ["!", ((n) => closedForm.atom("!", n))]]);
function _ball(real, bits) { let operands; if ((real.exact != null)) { return balls.ofFraction(real.exact, bits); } operands = py.seq(real.operands).map((operand) => operand.ball); return balls.apply(real.operation, operands, real.exponent, bits); }
export function parts(real, isKnown = ((_) => false)) { let isComplete, ordered, part, seen, waiting; [ordered, waiting, seen] = [[], [[real, false]], py.set()]; while (py.truth(waiting)) { [part, isComplete] = waiting.pop(); if (py.truth(isComplete)) { ordered.push(part); } else { if ((!py.contains(seen, py.id(part)) && !py.truth(isKnown(part)))) { py.call(seen, "add", py.id(part)); waiting.push([part, true]); if ((part.exact == null)) { py.call(waiting, "extend", py.seq(part.operands).map((operand) => [operand, false])); } } } } return ordered; }
function _exactRoot(value, degree) { let d, n, root; if ((py.eq(degree, 1) || py.contains([0, 1], value))) { return value; } if (py.gt(degree, _nBits(value))) { return null; } [n, d] = value.asIntegerRatio(); root = new Fraction(balls.integerRoot(n, degree), balls.integerRoot(d, degree)); return (py.eq(py.pow(root, degree), value) ? root : null); }
function _nBits(value) { return py.max(py.call(value.numerator, "bit_length"), py.call(value.denominator, "bit_length")); }
