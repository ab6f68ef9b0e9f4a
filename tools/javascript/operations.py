"""Translates the operations into JavaScript, for the page.

The functions of `datagen.operations` that say where the characters of worked steps go, how many
there are and what is right are written once. They use integers, lists, conditions and loops, and
nothing that both languages have but mean differently, except `//`, `%`, negative indices and
slices, which are translated. So operators are those of JavaScript, for millions of slots.
Conditions are numbers or comparisons: an empty list is true in JavaScript.
"""

import ast
import inspect
import json
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from datagen.operations import OPERATIONS, Operation
from datagen.slots import LOWEST, MIN_DIVISOR, NOWHERE, Kind
from tools.javascript.modules import Module
from tools.javascript.names import camel

SHOWN = ("name", "symbol", "spellings", "rank", "colour", "marker", "divides", "has_point")
SIGNS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Eq: "===", ast.NotEq: "!=="},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "===", ast.IsNot: "!=="},
}
DIVIDE = {ast.FloorDiv: "floorDivide", ast.Mod: "modulo"}
HELPERS = """\
const floorDivide = (a, b) => (b ? (a - modulo(a, b)) / b : b);
const modulo = (a, b) => (b ? ((a % b) + b) % b : b);
"""


class Functions(Module):
    """Translates functions of a module, and all that they call. `known` are those of all modules,
    by name, and `lines` their JavaScript."""

    def __init__(self, module: str, known: dict[str, Any], lines: list[str]) -> None:
        super().__init__(module)
        self.known_functions, self.lines = known, lines

    def add(self, function: Callable[..., Any]) -> str:
        """Translates a function, once, and returns its name."""
        name = camel(function.__name__)
        if name not in self.known_functions:
            self.known_functions[name] = function
            translator = Functions(function.__module__, self.known_functions, self.lines)
            [tree] = ast.parse(inspect.getsource(function)).body
            assert isinstance(tree, ast.FunctionDef)
            self.lines.append(f"{translator.function(tree)}\n")
        if self.known_functions[name] is not function:
            raise ValueError(f"two functions are named {name}")
        return name

    def compound(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.For(target, ast.Call(ast.Name("range"), limits), body):
                first, end = ["0", *map(self.value, limits)][-2:]
                index = self.value(target)
                yield f"for ({index} = {first}; {index} < {end}; {index} += 1) {{"
            case ast.For(target, ast.Call(ast.Name("enumerate"), [items]), body):
                yield f"for ({self.value(target)} of {self.value(items)}.entries()) {{"
            case _:
                yield from super().compound(node)
                return
        yield from self.block(body)
        yield "}"

    def test(self, node: ast.expr) -> str:
        return super().test(node) if isinstance(node, ast.BoolOp) else self.value(node)

    def compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        return f"({self.value(left)} {SIGNS[type(operator)]} {self.value(right)})"

    def value(self, node: ast.expr | None) -> str:
        match node:
            case ast.BinOp(left, operator, right) if type(operator) in DIVIDE:
                return f"{DIVIDE[type(operator)]}({self.value(left)}, {self.value(right)})"
            case ast.BinOp(left, operator, right):
                return f"({self.value(left)} {SIGNS[type(operator)]} {self.value(right)})"
            case ast.UnaryOp(ast.USub(), operand):
                return f"-{self.value(operand)}"
            case ast.BoolOp():
                return self.test(node)
            case ast.Starred(items):
                return f"...{self.value(items)}"
            case ast.Subscript(items, ast.Slice() as index):
                return f"{self.value(items)}.slice({self.limits(index)})"
            case ast.Subscript(items, ast.UnaryOp() as index):
                return f"{self.value(items)}.at({self.value(index)})"
            case ast.Subscript(items, index):
                return f"{self.value(items)}[{self.value(index)}]"
            case ast.Call(ast.Name("len"), [items]):
                return f"{self.value(items)}.length"
        return super().value(node)

    def name_of(self, name: str) -> str:
        """Returns a name; that of a global also makes sure that the global is defined."""
        thing = self.known(ast.Name(name))
        if isinstance(thing, FunctionType):
            return self.add(thing)
        if isinstance(thing, int | tuple):
            return json.dumps(thing)
        return {"max": "Math.max", "min": "Math.min"}.get(name, camel(name))


def entry(operation: Operation, functions: Functions) -> str:
    """Returns an operation as an object."""
    values = {name: json.dumps(getattr(operation, name)) for name in SHOWN}
    values["toString"] = f"() => {json.dumps(operation)}"
    translated = ("exact", "layout", "length")
    values |= {name: functions.add(getattr(operation, name)) for name in translated}
    return f"{{ {', '.join(f'{name}: {value}' for name, value in values.items())} }}"


def javascript() -> str:
    """Returns the module `api/static/engine/operations.js`."""
    lines: list[str] = []
    functions = Functions("datagen.operations", {}, lines)
    entries = {operation: entry(operation, functions) for operation in OPERATIONS}
    table = "".join(f'  "{sign}": {text},\n' for sign, text in entries.items())
    kinds = {kind.name: kind.value for kind in Kind}
    return f"""// @ts-nocheck
// Written by `make tables` from datagen/operations: a line for each function. Do not edit.

export const LOWEST = {LOWEST};
export const NOWHERE = {NOWHERE};
export const MIN_DIVISOR = {MIN_DIVISOR};
/** The numbers of the kinds of slots, by name. @type {{Record<string, number>}} */
export const KIND = {json.dumps(kinds)};
{HELPERS}{"".join(lines)}
/** The operations by their signs (`Operation` of datagen/operations/base.py).
 * @type {{Record<string, {{name: string, symbol: string, spellings: string[], rank: number,
 * colour: string, marker: string, divides: boolean, has_point: boolean,
 * exact: Function, layout: Function, length: Function}}>}} */
export const OPERATIONS = {{
{table}}};
/** Those of a user's own, which a page does not have. @type {{Record<string, never>}} */
export const OUTSIDE = {{}};
"""
