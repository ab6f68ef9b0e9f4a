// @ts-nocheck
// Written by `make tables` from calcgpt/inference/programs.py. Do not edit.
import * as py from "./python.js";
import { spend } from "./effort.js";
import { ExpressionError } from "./errors.js";
import { valueOfNode } from "./exact.js";
import { parse } from "./expression.js";
import { Expression, fold } from "./expression_tree.js";
import { Fraction } from "./fractions.js";
import * as math from "./math.js";
import { OPERATIONS } from "./operations.js";
import { fraction, power } from "./real.js";
import tables from "./tables.js";
export const MAX_TURNS = 400;
const _EFFORT_OF_ROW = 40;
const _SIGNS = py.dict([["+", OPERATIONS["+"]], ["-", OPERATIONS["-"]], ["*", OPERATIONS["*"]], ["/", OPERATIONS["/"]]]);
const _NAME = "=";
const _NAMES = ["result", ...py.each("abcdghjkmnpqrstuwxyz")];
export class Term extends py.NamedTuple {
static fields = ["number", "value"];
constructor(number, value) { super(); this.number = number; this.value = value; }
}
class _Constant extends py.NamedTuple {
static fields = ["value"];
constructor(value) { super(); this.value = value; }
}
export function run(planner, name, arguments_) { let run; if (py.contains(tables.SORTED, name)) { arguments_ = py.sorted(arguments_, { key: ((term) => term.value.approximate()) }); } run = new _Run(planner, arguments_, (py.truth(py.get(tables.PROGRAMS, name).isExact) ? 1000 : MAX_TURNS)); run.rows(py.get(tables.PROGRAMS, name).rows); return run.number(py.get(run.names, "result")); }
class _Run {
constructor(planner, arguments_, maxTurns) { const self = this; let longest; [self._planner, self._arguments, self._maxTurns] = [planner, arguments_, maxTurns]; self.names = py.dict(py.zip("xy", arguments_)); py.setitem(self.names, "n", new _Constant(fraction(new Fraction(py.len(arguments_))))); longest = py.max(0.0, ...py.seq(arguments_).map((term) => py.min(term.value.size(), 4000.0)), 0.0); self._morePlaces = py.add(4, math.ceil(longest)); }
rows(rows, turn = "") { const self = this; let argument, index, row; for (row of py.each(rows)) { spend(_EFFORT_OF_ROW); if ((typeof row === "string")) { self._assign(row, turn); } else { if ((py.get(row, 0) === "if")) { self.rows((py.gt(self._value(py.get(row, 1)).sign(), 0) ? py.get(row, 2) : py.get(row, 3)), turn); } else { if ((py.get(row, 0) === "scaled")) { self._scaled(py.get(row, 1), py.get(row, 2), turn); } else { if ((py.get(row, 0) === "repeat")) { self._repeat(py.get(row, 1), py.get(row, 2)); } else { for ([index, argument] of py.each(py.enumerate(self._arguments))) { py.setitem(self.names, py.get(row, 1), argument); self.rows(py.get(row, 2), `${py.add(index, 1)}. `); } } } } } } }
_repeat(until, rows) { const self = this; let turn; for (turn of py.each(py.range(1, py.add(self._maxTurns, 1)))) { py.setitem(self.names, "j", new _Constant(fraction(new Fraction(turn)))); self.rows(rows, `${turn}. `); if (py.truth(self._planner.isZero(self._value(until)))) { return null; } } throw new py.OverflowError(); }
_scaled(factor, rows, turn) { const self = this; let morePlaces, size; size = self._value(factor).size(); if (!py.truth(math.isfinite(size))) { throw new py.OverflowError(); } morePlaces = self._planner.morePlaces; self._planner.morePlaces = py.iadd(self._planner.morePlaces, math.ceil(size)); self.rows(rows, turn); self._planner.morePlaces = morePlaces; }
_assign(row, turn) { const self = this; let isTilde, k, name, path, result, sign, text; [name, sign, text] = py.call(row, "split", " ", 2); if ((sign === ":=")) { py.setitem(self.names, name, new _Constant(self._value(text))); } else { if ((sign === "@")) { py.setitem(self.names, name, py.get(self._arguments, self._value(text).floor())); } else { if ((sign === "guess")) { py.setitem(self.names, name, new _Constant(_guess(...py.each(py.map(py.bound(self, "_value"), py.call(text, "split")))))); } else { if ((sign === "binary")) { k = _binary(self._value(text).approximate()); py.setitem(self.names, name, new _Constant(fraction(new Fraction(k)))); } else { path = self._planner.path; self._planner.path = [...py.each(path), `${turn}${row}`]; isTilde = (sign === "~"); result = (py.truth(isTilde) ? self._rounded(text) : fold(_parsed(text), py.bound(self, "_operation"))); py.setitem(self.names, name, result); self._planner.path = path; } } } } }
_rounded(text) { const self = this; let name, number, places, rounded; [name, places] = py.call(text, "split"); number = self.number(py.get(self.names, name)); rounded = self._planner.rounded(number, self._value(places).floor()); return new Term(rounded, fraction(self._planner.value(rounded))); }
number(term) { const self = this; if (py.isinstance(term, _Constant)) { return self._planner.constant(term.value, self._morePlaces); } return term.number; }
_operation(node, operands) { const self = this; let kept, number, terms; if (py.truth(node.sign.startsWith(_NAME))) { return py.get(self.names, py.slice(node.sign, 1, undefined)); } if (!py.truth(node.operands)) { return new _Constant(_valueOf(node, [])); } kept = _unchanged(node.sign, operands); if (py.truth(kept)) { return kept; } terms = py.seq(operands).map((operand) => new Term(self.number(operand), operand.value)); number = self._planner.operation(node, terms, null); return new Term(number, fraction(self._planner.value(number))); }
_value(text) { const self = this; const value = (node, operands) => { if (py.truth(node.sign.startsWith(_NAME))) { return py.get(self.names, py.slice(node.sign, 1, undefined)).value; } return _valueOf(node, operands); }; return fold(_parsed(text), value); }
}
function _unchanged(sign, operands) { let a, b, neutral, values; if (!py.contains(_SIGNS, sign)) { return null; } [a, b] = operands; values = py.seq(operands).map((o) => (py.isinstance(o, _Constant) ? o.value.exact : null)); neutral = (py.contains("+-", sign) ? 0 : 1); if ((py.eq(py.get(values, 1), neutral) || (py.eq(py.get(values, 0), 0) && py.contains("*/", sign)))) { return a; } if (((py.eq(py.get(values, 0), neutral) && py.contains("+*", sign)) || (py.eq(py.get(values, 1), 0) && (sign === "*")))) { return b; } return null; }
const _parsed = py.cached(Infinity, (text) => { let names; names = py.dict(py.seq(_NAMES).map((name) => [name, new Expression(`${_NAME}${name}`, [], 0, 0)])); return parse(text, undefined, names).expression; });
function _valueOf(node, operands) { try { return valueOfNode(node, operands); } catch (caught) { if (caught instanceof ExpressionError) { throw new py.ArithmeticError(); } else throw caught; } }
function _guess(x, n) { let places, root; root = power(fraction(x.approximate(10)), py.truediv(1, n.approximate())).approximate(10); places = py.sub(2, math.floor(fraction(root).size())); return fraction(py.truediv(new Fraction(py.round(py.mul(root, py.pow(new Fraction(10), places)))), py.pow(new Fraction(10), places))); }
function _binary(x) { let k; k = py.sub(py.call(x.numerator, "bit_length"), py.call(x.denominator, "bit_length")); while (py.ge(x, py.mul(new Fraction(3, 2), py.pow(new Fraction(2), k)))) { k = py.iadd(k, 1); } while (py.lt(x, py.mul(new Fraction(3, 4), py.pow(new Fraction(2), k)))) { k = py.sub(k, 1); } return k; }
