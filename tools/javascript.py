"""Translates the operations into JavaScript, for the page.

    python -m tools.javascript > api/static/engine/operations.js

The functions of `datagen.operations` that say where the characters of worked steps go, how many
there are and what is right are written once. They use integers, lists, conditions and loops, and
nothing that both languages have but mean differently, except `//`, `%`, negative indices and
slices, which are translated. Conditions are numbers or comparisons: an empty list is true in
JavaScript.
"""

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from datagen.operations import OPERATIONS, Operation
from datagen.slots import LOWEST, MIN_DIVISOR, NOWHERE, Kind, Layout

SHOWN = ("name", "symbol", "spellings", "rank", "colour", "marker", "divides", "has_point")
BUILT_IN = {"max": "Math.max", "min": "Math.min", "Kind": "KIND"}
OPERATORS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Eq: "===", ast.NotEq: "!=="},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||"},
    **{ast.Is: "===", ast.IsNot: "!==", ast.USub: "-", ast.Not: "!"},
}
DIVIDE = {ast.FloorDiv: "floorDivide", ast.Mod: "modulo"}
HELPERS = """\
const floorDivide = (a, b) => (b ? (a - modulo(a, b)) / b : b);
const modulo = (a, b) => (b ? ((a % b) + b) % b : b);
"""


class Translator:
    """Translates functions and all that they call. `lines` is the JavaScript."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._functions: dict[str, Callable[..., Any]] = {}
        self._parameters = {
            camel(name): list(inspect.signature(getattr(Layout, name)).parameters)[1:]
            for name in ("put", "put_columns")
        }
        self._globals: dict[str, Any] = {}

    def function(self, function: Callable[..., Any]) -> str:
        """Translates a function, once, and returns its name."""
        assert isinstance(function, FunctionType)
        name = camel(function.__name__)
        if self._functions.setdefault(name, function) is not function:
            raise ValueError(f"two functions are named {name}")
        if name in self._parameters:
            return name
        tree = ast.parse(inspect.getsource(function)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        arguments = [argument.arg for argument in tree.args.args]
        self._parameters[name] = arguments
        defaults = [None] * (len(arguments) - len(tree.args.defaults)) + tree.args.defaults
        assigned = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        outer, self._globals = self._globals, dict(function.__globals__)
        for local in assigned.union(arguments):
            self._globals.pop(local, None)
        parameters = ", ".join(
            camel(argument) + (f" = {self.value(default)}" if default else "")
            for argument, default in zip(arguments, defaults, strict=True)
        )
        body = [line for statement in tree.body for line in self.statement(statement)]
        if names := sorted(map(camel, assigned)):
            body.insert(0, f"let {', '.join(names)};")
        self.lines.append(f"function {name}({parameters}) {{ {' '.join(body)} }}\n")
        self._globals = outer
        return name

    def statement(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.Expr(ast.Constant()):  # a docstring
                return
            case ast.Expr(value):
                yield f"{self.value(value)};"
            case ast.Return(value):
                yield f"return {self.value(value)};" if value else "return;"
            case ast.Assign([target], value) | ast.AnnAssign(target, _, value) if value:
                yield f"{self.value(target)} = {self.value(value)};"
            case ast.If(test, body, otherwise):
                yield f"if {parenthesized(self.value(test))} {{"
                yield from self.block(body)
                if otherwise:
                    yield "} else {"
                    yield from self.block(otherwise)
                yield "}"
            case ast.For(target, ast.Call(ast.Name("range"), limits), body):
                first, end = ["0", *map(self.value, limits)][-2:]
                index = self.value(target)
                yield f"for ({index} = {first}; {index} < {end}; {index} += 1) {{"
                yield from self.block(body)
                yield "}"
            case ast.For(target, ast.Call(ast.Name("enumerate"), [items]), body):
                yield f"for ({self.value(target)} of {self.value(items)}.entries()) {{"
                yield from self.block(body)
                yield "}"
            case _:
                raise ValueError(f"cannot translate: {ast.unparse(node)}")

    def block(self, body: list[ast.stmt]) -> Iterator[str]:
        yield from (line for statement in body for line in self.statement(statement))

    def value(self, node: ast.expr | None) -> str:
        match node:
            case ast.Constant(None):
                return "null"
            case ast.Constant(value):
                return json.dumps(value)
            case ast.Name(name):
                return self.name(name)
            case ast.Attribute(owner, name):
                return f"{self.value(owner)}.{name if name.isupper() else camel(name)}"
            case ast.List(items) | ast.Tuple(items):
                return f"[{', '.join(map(self.value, items))}]"
            case ast.Starred(items):
                return f"...{self.value(items)}"
            case ast.BinOp(left, operator, right) if type(operator) in DIVIDE:
                return f"{DIVIDE[type(operator)]}({self.value(left)}, {self.value(right)})"
            case ast.BinOp(left, operator, right):
                return f"({self.value(left)} {OPERATORS[type(operator)]} {self.value(right)})"
            case ast.UnaryOp(operator, operand):
                return f"{OPERATORS[type(operator)]}{self.value(operand)}"
            case ast.BoolOp(operator, values):
                return f"({f' {OPERATORS[type(operator)]} '.join(map(self.value, values))})"
            case ast.Compare(left, operators, others):
                values = [left, *others]
                pairs = zip(values, operators, others, strict=False)
                parts = (
                    f"{self.value(a)} {OPERATORS[type(operator)]} {self.value(b)}"
                    for a, operator, b in pairs
                )
                return f"({' && '.join(parts)})"
            case ast.IfExp(test, body, otherwise):
                return f"({self.value(test)} ? {self.value(body)} : {self.value(otherwise)})"
            case ast.Subscript(items, ast.Slice(lower, upper, None)):
                limits = [self.value(lower) if lower else "0"]
                limits += [self.value(upper)] if upper else []
                return f"{self.value(items)}.slice({', '.join(limits)})"
            case ast.Subscript(items, ast.UnaryOp() as index):
                return f"{self.value(items)}.at({self.value(index)})"
            case ast.Subscript(items, index):
                return f"{self.value(items)}[{self.value(index)}]"
            case ast.Call(ast.Name("len"), [items]):
                return f"{self.value(items)}.length"
            case ast.Call(ast.Attribute(items, "append"), [item]):
                return f"{self.value(items)}.push({self.value(item)})"
            case ast.Call(function, arguments, keywords):
                name = self.value(function)
                named = {word.arg: self.value(word.value) for word in keywords}
                given = [*map(self.value, arguments)]
                rest = iter(self._parameters.get(name.split(".")[-1], [])[len(given) :])
                while named:
                    given.append(named.pop(next(rest), "undefined"))
                return f"{name}({', '.join(given)})"
        raise ValueError(f"cannot translate: {ast.unparse(node) if node else None}")

    def name(self, name: str) -> str:
        """Returns a name; that of a global also makes sure that the global is defined."""
        thing = self._globals.get(name)
        if isinstance(thing, FunctionType):
            return self.function(thing)
        if isinstance(thing, int | tuple):
            return json.dumps(thing)
        return BUILT_IN.get(name, camel(name))


def camel(name: str) -> str:
    """Returns a name as JavaScript writes it: `_first_row` is `firstRow`."""
    return re.sub("_([a-z0-9])", lambda match: match[1].upper(), name.lstrip("_") or name)


def parenthesized(value: str) -> str:
    """Returns a value in parentheses, which an operation already has."""
    return value if value.startswith("(") else f"({value})"


def entry(operation: Operation, translator: Translator) -> str:
    """Returns an operation as an object."""
    values = {name: json.dumps(getattr(operation, name)) for name in SHOWN}
    functions = ("exact", "layout", "length")
    values |= {name: translator.function(getattr(operation, name)) for name in functions}
    return f"{{ {', '.join(f'{name}: {value}' for name, value in values.items())} }}"


def javascript() -> str:
    """Returns the module `api/static/engine/operations.js`."""
    translator = Translator()
    table = "".join(
        f'  "{operation}": {entry(operation, translator)},\n' for operation in OPERATIONS
    )
    kinds = {kind.name: kind.value for kind in Kind}
    return f"""// @ts-nocheck
// Written by `make tables` from datagen/operations: a line for each function. Do not edit.

export const LOWEST = {LOWEST};
export const NOWHERE = {NOWHERE};
export const MIN_DIVISOR = {MIN_DIVISOR};
/** The numbers of the kinds of slots, by name. @type {{Record<string, number>}} */
export const KIND = {json.dumps(kinds)};
{HELPERS}{"".join(translator.lines)}
/** The operations by their signs (`Operation` of datagen/operations/base.py).
 * @type {{Record<string, {{name: string, symbol: string, spellings: string[], rank: number,
 * colour: string, marker: string, divides: boolean, has_point: boolean,
 * exact: Function, layout: Function, length: Function}}>}} */
export const OPERATIONS = {{
{table}}};
"""


if __name__ == "__main__":
    print(javascript(), end="")
