// @ts-nocheck
// Written by `make tables` from calcgpt/inference/expression_tree.py. Do not edit.
import * as py from "./python.js";
import { Number, numberText } from "./arithmetic.js";
import { ExpressionError } from "./errors.js";
import * as math from "./math.js";
import tables from "./tables.js";
import { shorten } from "./text.js";
const CONSTANTS = py.frozenset(["e", "phi", "pi", "tau"]);
export const NO_NUMBER = new Number(0);
export class Expression extends py.DataClass {
__post_init__() { const self = this; let kind, nOperations, pieces, text; nOperations = py.add(py.bool(self.sign), py.sum(py.seq(self.operands).map((operand) => operand.nOperations))); if (py.gt(nOperations, 1000)) { kind = "too-long"; throw new ExpressionError(kind, py.get(tables.MESSAGES, "operations"), self.start, self.end); } if (py.truth(self.sign)) { pieces = (function* () { for (const piece of py.each(_pieces(self))) { yield (typeof piece === "string" ? piece : piece.text); } })(); text = shorten(py.call("", "join", pieces)); } else { text = _short(self.number.units, self.number.places); } self.text = text; self.nOperations = nOperations; }
isNumber(value) { const self = this; return (!py.truth(self.sign) && py.eq(self.number.units, py.mul(value, py.pow(10, self.number.places)))); }
static fields = ["sign", "operands", "start", "end", "number"];
constructor(sign, operands, start, end, number = NO_NUMBER) { super(); this.sign = sign; this.operands = operands; this.start = start; this.end = end; this.number = number; this.__post_init__(); }
}
const _NAMED = py.sub(py.set(tables.PROGRAMS), py.frozenset(["^", "\u00b0"]));
export const RANKS = py.dict([...py.items(tables.RANKS), ...py.items(py.dict.fromkeys(["+%", "-%"], 1)), ...py.items(py.dict.fromkeys(["!", "%", "\u00b0"], 4)), ...py.items(py.dict.fromkeys([...py.each(_NAMED), ...py.each(CONSTANTS), "||", ""], 5))]);
export function postorder(root) { let nodes, waiting; [nodes, waiting] = [[], [root]]; while (py.truth(waiting)) { nodes.push(waiting.pop()); py.call(waiting, "extend", py.get(nodes, -1).operands); } return py.slice(nodes, undefined, undefined, -1); }
export function fold(root, combine) { let first, made, node; made = []; for (node of py.each(postorder(root))) { first = py.sub(py.len(made), py.len(node.operands)); py.setslice(made, first, undefined, [combine(node, py.slice(made, first, undefined))]); } return py.get(made, 0); }
export function show(root) { let piece, pieces, waiting; pieces = []; waiting = [root]; while (py.truth(waiting)) { piece = waiting.pop(); if (typeof piece === "string") { pieces.push(piece); } else { py.call(waiting, "extend", py.reversed(_pieces(piece))); } } return py.call("", "join", pieces); }
function _pieces(node) { let operands, others, parts, sign; [sign, operands] = [node.sign, node.operands]; if (!py.truth(sign)) { return [numberText(node.number)]; } if (!py.truth(operands)) { return [sign]; } if (sign === "||") { return ["|", ...py.each(operands), "|"]; } if ((py.contains(_NAMED, sign) && !py.truth(py.call(sign, "endswith", "\u00b0")))) { others = (function* () { for (const operand of py.each(py.slice(operands, 1, undefined))) { for (const piece of [", ", operand]) { yield piece; } } })(); return [`${sign}(`, py.get(operands, 0), ...py.each(others), ")"]; } parts = py.seq(py.enumerate(operands)).map(([index, operand]) => (py.truth(_needsParentheses(node, index)) ? ["(", operand, ")"] : [operand])); if (py.contains(_NAMED, sign)) { return [`${py.slice(sign, undefined, -1)}(`, ...py.each(py.get(parts, 0)), "\u00b0)"]; } if (py.eq(py.len(parts), 1)) { return [...py.each(py.get(parts, 0)), sign]; } return [...py.each(py.get(parts, 0)), (sign === "mod" ? " mod " : py.call(sign, "rstrip", "%")), ...py.each(py.get(parts, 1))]; }
function _needsParentheses(node, index) { let isNegative, operand, operandRank, rank, sign; [sign, operand] = [node.sign, py.get(node.operands, index)]; [rank, operandRank] = [py.get(RANKS, sign), py.call(RANKS, "get", operand.sign, 5)]; isNegative = (!py.truth(operand.sign) && py.lt(operand.number.units, 0)); if (sign === "^") { return (py.truth(index) ? py.bool(operand.sign) : py.orElse(py.le(operandRank, rank), () => isNegative)); } if (sign === "!") { return py.orElse(py.le(operandRank, rank), () => isNegative); } if ((["+", "-"].includes(sign) && py.truth(index))) { return (py.le(operandRank, rank) || operand.sign === "%"); } return py.lt(operandRank, py.add(rank, index)); }
const _short = py.cached(64, (units, places) => { let first, half, nDropped; nDropped = py.sub(py.int(py.mul(py.call(units, "bit_length"), math.log10(2))), py.mul(2, 60)); if ((py.truth(places) || py.le(nDropped, 0))) { return shorten(numberText(new Number(units, places))); } half = py.floordiv(60, 2); first = `${py.mul("-", py.lt(units, 0))}${py.floordiv(py.abs(units), py.pow(10, nDropped))}`; return `${py.slice(first, undefined, half)}...${py.format(py.mod(py.abs(units), py.pow(10, half)), `0${half}`)}`; });
export { shorten };
