// @ts-nocheck
// Written by `make tables` from calcgpt/inference/function_values.py. Do not edit.
import * as py from "./python.js";
import { Fraction } from "./fractions.js";
import * as math from "./math.js";
import * as real from "./real.js";
import { fraction, isWhole } from "./real.js";
export const MAX_HALF = 5000;
export const MAX_ROOT = 1000;
export const MAX_ROUND = 30;
const _HALF = new Fraction(1, 2);
export class DomainError extends py.ArithmeticError {
}
export function constant(name) { return py.get(_CONSTANTS, name)(); }
export function call(name, arguments_) { return py.get(_VALUES, name)(...py.each(arguments_)); }
function _whole(value) { return fraction(new Fraction(value)); }
function _sqrt(x) { return _root(x, _whole(2)); }
function _root(x, degree) { let n; if ((!py.truth(isWhole(degree)) || !(py.lt(0, (n = degree.floor())) && py.le((n = degree.floor()), MAX_ROOT)))) { throw new DomainError("root", 1); } if ((py.eq(py.mod(n, 2), 0) && py.lt(x.sign(), 0))) { throw new DomainError("even-root", 0); } return real.power(x, new Fraction(1, n)); }
function _ln(x) { if (py.le(x.sign(), 0)) { throw new DomainError("logarithm", 0); } return real.ln(x); }
function _log(x, base = null) { let result; base = py.orElse(base, () => _whole(10)); result = _ln(x); if (py.le(base.sign(), 0)) { throw new DomainError("logarithm", 1); } if (!py.truth(base.compare(1))) { throw new DomainError("base", 1); } return py.truediv(result, real.ln(base)); }
export function power(x, y) { if (!py.truth(x.sign())) { if (py.lt(y.sign(), 0)) { throw new DomainError("division", -1); } return _whole((py.truth(y.sign()) ? 0 : 1)); } if (((y.exact != null) && (py.eq(y.exact.denominator, 1) || py.gt(x.sign(), 0)))) { return real.power(x, y.exact); } if (py.lt(x.sign(), 0)) { throw new DomainError("power", 0); } return real.exp(py.mul(y, real.ln(x))); }
function _tan(x) { try { return py.truediv(real.sin(x), real.cos(x)); } catch (caught) { if (caught instanceof py.ZeroDivisionError) { throw new DomainError("tangent", -1); } else throw caught; } }
function _inDegrees(function_) { return ((x) => function_(_radians(x))); }
function _radians(x) { return py.mul(py.mul(x, fraction(new Fraction(1, 180))), real.pi()); }
function _asin(x) { if ((py.gt(x.compare(1), 0) || py.lt(x.compare(-1), 0))) { throw new DomainError("arc", 0); } return real.asin(x); }
function _hyperbolic(sign) { return ((x) => py.mul(py.add(real.exp(x), py.mul(_whole(sign), real.exp(py.neg(x)))), fraction(_HALF))); }
function _sum(...numbers) { return py.reduce(((a, b) => py.add(a, b)), numbers); }
function _mean(...numbers) { return py.mul(_sum(...py.each(numbers)), fraction(new Fraction(1, py.len(numbers)))); }
function _hypot(...numbers) { return _sqrt(_sum(...py.seq(numbers).map((x) => py.mul(x, x)))); }
function _stdev(...numbers) { let mean, n, squares; [mean, n] = [_mean(...py.each(numbers)), py.len(numbers)]; squares = py.seq(numbers).map((x) => py.mul(py.sub(x, mean), py.sub(x, mean))); return _sqrt(py.mul(_sum(...py.each(squares)), fraction(new Fraction(1, py.sub(n, 1))))); }
function _order(a, b) { return py.sub(a, b).sign(); }
function _median(...numbers) { let ordered; ordered = py.sorted(numbers, { key: py.cmp_to_key(_order) }); return _mean(py.get(ordered, py.floordiv(py.sub(py.len(ordered), 1), 2)), py.get(ordered, py.floordiv(py.len(ordered), 2))); }
function _round(x, places = null) { places = py.orElse(places, () => _whole(0)); if ((!py.truth(isWhole(places)) || py.gt(py.abs(places.floor()), MAX_ROUND))) { throw new DomainError("round-places", 1); } return fraction(x.rounded(places.floor())); }
function _atan2(y, x) { let angle; if (!py.truth(x.sign())) { if (!py.truth(y.sign())) { throw new DomainError("origin", -1); } return py.mul(real.pi(), fraction(py.mul(_HALF, y.sign()))); } angle = real.atan(py.truediv(y, x)); if (py.gt(x.sign(), 0)) { return angle; } return (py.lt(y.sign(), 0) ? py.sub(angle, real.pi()) : py.add(angle, real.pi())); }
function _gamma(x) { let factor, k, n; if ((py.truth(isWhole(x)) && (py.lt(0, x.floor()) && py.le(x.floor(), 1000000000)))) { return real.factorial(py.sub(x.floor(), 1)); } if (((x.exact == null) || !py.eq(x.exact.denominator, 2) || py.gt(py.abs(x.exact), MAX_HALF))) { throw new DomainError("gamma", 0); } [n, factor] = [py.abs(math.floor(x.exact)), new Fraction(1)]; for (k of py.each(py.range(1, py.mul(2, n), 2))) { factor = py.mul(factor, new Fraction(k, 2)); } if (py.lt(x.exact, 0)) { factor = py.truediv(new Fraction(py.pow(-1, n)), factor); } return py.mul(fraction(factor), real.power(real.pi(), _HALF)); }
function _choice(function_) { const value = (n, k) => { let nFactors; nFactors = ((function_ === math.comb) ? py.min(k, py.sub(n, k)) : k); if ((!(py.le(0, k) && py.le(k, n)) || py.gt(py.mul(nFactors, py.call(n, "bit_length")), 131072))) { throw new DomainError("binomial", -1); } return function_(n, k); }; return value; }
function _ofWhole(function_) { const value = (...numbers) => { let index, x; for ([index, x] of py.each(py.enumerate(numbers))) { if (!py.truth(isWhole(x))) { throw new DomainError("whole", index); } } return _whole(function_(...py.seq(numbers).map((x) => x.floor()))); }; return value; }
const _CONSTANTS = py.dict([["pi", real.pi], ["e", (() => real.exp(_whole(1)))], ["tau", (() => py.mul(_whole(2), real.pi()))], ["phi", (() => py.mul(py.add(_whole(1), _sqrt(_whole(5))), fraction(_HALF)))]]);
const _VALUES = py.dict([["sqrt", _sqrt], ["cbrt", ((x) => _root(x, _whole(3)))], ["root", _root], ["exp", real.exp], ["ln", _ln], ["log", _log], ["log2", ((x) => _log(x, _whole(2)))], ["sin", real.sin], ["cos", real.cos], ["tan", _tan], ["sin\u00b0", _inDegrees(real.sin)], ["cos\u00b0", _inDegrees(real.cos)], ["tan\u00b0", _inDegrees(_tan)], ["asin", _asin], ["acos", ((x) => py.sub(py.mul(fraction(_HALF), real.pi()), _asin(x)))], ["atan", real.atan], ["sinh", _hyperbolic(-1)], ["cosh", _hyperbolic(1)], ["tanh", ((x) => py.truediv(_hyperbolic(-1)(x), _hyperbolic(1)(x)))], ["^", power], ["^mod", _ofWhole(py.pow)], ["ln!", ((x) => real.ln(real.factorial(x.floor())))], ["degrees", ((x) => py.truediv(py.mul(x, _whole(180)), real.pi()))], ["\u00b0", _radians], ["stdev", _stdev], ["hypot", _hypot], ["abs", ((x) => (py.lt(x.sign(), 0) ? py.neg(x) : x))], ["floor", ((x) => _whole(x.floor()))], ["ceil", ((x) => _whole(py.neg(py.neg(x).floor())))], ["trunc", ((x) => _whole((py.ge(x.sign(), 0) ? x.floor() : py.neg(py.neg(x).floor()))))], ["round", _round], ["sign", ((x) => _whole(x.sign()))], ["atan2", _atan2], ["gamma", _gamma], ["binomial", _ofWhole(_choice(math.comb))], ["perm", _ofWhole(_choice(math.perm))], ["gcd", _ofWhole(math.gcd)], ["lcm", _ofWhole(math.lcm)], ["min", ((...numbers) => py.reduce(((a, b) => (py.lt(_order(b, a), 0) ? b : a)), numbers))], ["max", ((...numbers) => py.reduce(((a, b) => (py.gt(_order(b, a), 0) ? b : a)), numbers))], ["sum", _sum], ["mean", _mean], ["median", _median]]);
