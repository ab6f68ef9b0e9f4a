"""Translates expressions of Python into JavaScript.

Nothing is known of types: operators, truth, indices and methods of text, lists and dictionaries are
looked up when they are used, by `api/static/engine/python.js`. Integers are numbers while they are
safe, and BigInts beyond.
"""

import ast
import builtins
import importlib
import inspect
import json
import re
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, get_args

from calcgpt.inference import functions, spelling
from datagen.operations import BY_SIGN, Operation
from datagen.slots import Layout
from tools.javascript import tables
from tools.javascript.names import (
    assigned,
    camel,
    constant,
    is_boolean,
    is_ours,
    is_text,
    library,
    local,
    names_of,
)

# Modules of calcgpt.inference, each with a file of its own; and files by hand with names of others.
TRANSLATED = (
    *("numerals", "expression_tree", "expression_errors", "expression_stack"),
    *("expression", "closed_form", "separation", "sensitivity", "simplify", "real"),
    *("function_values", "exact", "limits", "programs", "planners", "planning"),
)
HAND = {
    "calcgpt.base.errors": "errors",
    "calcgpt.errors": "errors",
    "calcgpt.inference.balls": "balls",
    "calcgpt.inference.effort": "effort",
    "calcgpt.inference.spelling": "text",
    "datagen.arithmetic": "arithmetic",
    "datagen.layout": "layout",
    "datagen.notation": "arithmetic",
    "datagen.operations": "operations",
    "datagen.slots": "layout",
    "fractions": "fractions",
    "math": "math",
}
BY_HAND = {"shorten": "text"}  # functions of modules that are translated
RENAMED = {"Number": "Decimal"}
FILES = {**HAND, **{f"calcgpt.inference.{name}": name for name in TRANSLATED}}
OPERATORS: dict[type[ast.AST], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Pow: "pow"},
    **{ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.BitOr: "or"},
    **{ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"},
    **{ast.USub: "neg"},
}
_METHODS = "append extend pop get items values startswith endswith strip rstrip partition"
_METHODS += " rpartition replace split join format removesuffix isascii bit_length add"
METHODS = set(_METHODS.split())  # of text, lists, dictionaries, sets and integers
NATIVE = {"append": "push", "pop": "pop", "startswith": "startsWith"}  # of these, in JavaScript
_TABLES = {**tables.tables(), "PROGRAMS": functions.FUNCTIONS}


def _methods() -> dict[str, Any]:
    """Returns the methods of the translated modules, by their names."""
    modules = [importlib.import_module(f"calcgpt.inference.{name}") for name in TRANSLATED]
    classes = [Layout, *(thing for module in modules for thing in vars(module).values())]
    return {
        name: method
        for cls in classes
        if inspect.isclass(cls)
        for name, method in vars(cls).items()
        if inspect.isfunction(method)
    }


PARAMETERS = _methods()


class Expressions:
    """Translates the expressions of a module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = importlib.import_module(name)
        self.tree = ast.parse(inspect.getsource(self.module))
        self.imports: dict[str, set[str]] = {}  # file -> names
        self.constants: list[str] = []
        self.scopes: list[set[str]] = []  # the names of the functions and comprehensions around
        self.imported: dict[str, tuple[str, str]] = {}  # name -> module, and its name there
        for node in self.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (str(module), alias.name)
        self.own = assigned(self.tree.body) - set(self.imported)

    def test(self, node: ast.expr) -> str:
        """Returns a condition."""
        match node:
            case ast.BoolOp(operator, values):
                sign = " && " if isinstance(operator, ast.And) else " || "
                return f"({sign.join(map(self.test, values))})"
            case ast.UnaryOp(ast.Not(), operand):
                return f"!{self.test(operand)}"
        return self.value(node) if is_boolean(node) else f"py.truth({self.value(node)})"

    def value(self, node: ast.expr | None) -> str:
        """Returns an expression in JavaScript."""
        match node:
            case ast.Constant(value):
                return constant(value)
            case ast.Name(name):
                return self.name_of(name)
            case ast.Attribute(owner, name):
                return self.attribute(owner, name)
            case ast.JoinedStr(parts):
                return "`" + "".join(map(self.piece, parts)) + "`"
            case ast.NamedExpr(target, value):
                return f"({self.value(target)} = {self.value(value)})"
            case ast.UnaryOp(ast.Not(), operand):
                return f"!{self.test(operand)}"
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return f"-{value}"
            case ast.UnaryOp(operator, operand):
                return f"py.{OPERATORS[type(operator)]}({self.value(operand)})"
            case ast.BinOp(left, ast.Add(), right) if is_text(left) or is_text(right):
                return f"({self.value(left)} + {self.value(right)})"
            case ast.BinOp(left, operator, right):
                return f"py.{OPERATORS[type(operator)]}({self.value(left)}, {self.value(right)})"
            case ast.BoolOp(_, values) if all(map(is_boolean, values)):
                return self.test(node)
            case ast.BoolOp(operator, [*values, last]):
                result = self.value(last)
                name = "and" if isinstance(operator, ast.And) else "or"
                for operand in reversed(values):
                    result = f"py.{name}Else({self.value(operand)}, () => {result})"
                return result
            case ast.Compare(left, operators, others):
                operands = [left, *others]
                tests = [*map(self.compare, operands[:-1], operators, others)]
                return f"({' && '.join(tests)})" if len(tests) > 1 else tests[0]
            case ast.IfExp(test, body, otherwise):
                return f"({self.test(test)} ? {self.value(body)} : {self.value(otherwise)})"
            case ast.Subscript(items, ast.Slice(None, None, ast.UnaryOp(_, ast.Constant(1)))):
                return f"py.reversed({self.value(items)})"
            case ast.Subscript(items, ast.Slice(_, _, None) as index):
                return f"py.slice({self.value(items)}, {self.limits(index)})"
            case ast.Subscript(items, index):
                return f"py.get({self.value(items)}, {self.value(index)})"
            case ast.Lambda(arguments, body):
                self.scopes.append(set(names_of(arguments)))
                text = f"(({self.parameters(arguments)}) => {self.value(body)})"
                self.scopes.pop()
                return text
            case ast.Call(function, given, keywords):
                return self.call(function, given, keywords)
        return self.collection(node)

    def collection(self, node: ast.expr | None) -> str:
        """Returns a list, a set, a dictionary, or what goes into one."""
        match node:
            case ast.List(items) | ast.Tuple(items):
                return f"[{', '.join(map(self.value, items))}]"
            case ast.Set(items):
                return f"py.frozenset([{', '.join(map(self.value, items))}])"
            case ast.Dict(keys, values):
                entries = (
                    self.value(ast.List([key, item])) if key else f"...py.items({self.value(item)})"
                    for key, item in zip(keys, values, strict=True)
                )
                return f"py.dict([{', '.join(entries)}])"
            case ast.Starred(ast.GeneratorExp(item, generators)):
                return f"...{self.listed(item, generators)}"
            case ast.Starred(items, ast.Store()):
                return f"...{self.value(items)}"
            case ast.Starred(items):
                return f"...{self.iterated(items)}"
            case ast.GeneratorExp(item, generators):
                return self.generator(item, generators)
            case ast.ListComp(item, generators):
                return self.listed(item, generators)
            case ast.SetComp(item, generators):
                return f"py.frozenset({self.listed(item, generators)})"
            case ast.DictComp(key, item, generators):
                return f"py.dict({self.listed(ast.List([key, item]), generators)})"
        raise ValueError(f"cannot translate: {ast.unparse(node) if node else None}")

    def listed(
        self,
        item: ast.expr,
        generators: list[ast.comprehension],
        method: str = "map",
        translate: Callable[[ast.expr], str] | None = None,
    ) -> str:
        """Returns the list of what a comprehension yields."""
        if len(generators) > 1:
            return f"[...{self.generator(item, generators)}]"
        [part] = generators
        items = f"py.seq({self.value(part.iter)})"
        self.scopes.append({n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)})
        target = self.value(part.target)
        tests = "".join(f".filter(({target}) => {self.test(test)})" for test in part.ifs)
        made = f"{items}{tests}.{method}(({target}) => {(translate or self.value)(item)})"
        self.scopes.pop()
        return made

    def generator(self, item: ast.expr, generators: list[ast.comprehension]) -> str:
        text, ends = "", ""
        self.scopes.append(set())
        for part in generators:
            items = self.iterated(part.iter)
            self.scopes[-1] |= {n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)}
            text += f"for (const {self.value(part.target)} of {items}) {{ "
            ends += " }"
            for test in part.ifs:
                text += f"if ({self.test(test)}) "
        text += f"yield {self.value(item)};"
        self.scopes.pop()
        return f"(function* () {{ {text}{ends} }})()"

    def piece(self, node: ast.expr) -> str:
        """Returns a part of a text with values."""
        match node:
            case ast.Constant(str(text)):
                return re.sub(r"[`\\]|\$(?=\{)", r"\\\g<0>", text)
            case ast.FormattedValue(value, 114, None):
                return f"${{py.repr({self.value(value)})}}"
            case ast.FormattedValue(value, _, None):
                return f"${{{self.value(value)}}}"
            case ast.FormattedValue(value, _, form):
                return f"${{py.format({self.value(value)}, {self.value(form)})}}"
        raise ValueError(f"cannot translate: {ast.unparse(node)}")

    def compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        a, b = self.value(left), self.value(right)
        sign = "!" if isinstance(operator, ast.IsNot | ast.NotIn | ast.NotEq) else ""
        match operator:
            case ast.Is() | ast.IsNot():
                is_none = b == "null"  # what is missing is undefined
                return f"({a} {sign or '='}={'' if is_none else '='} {b})"
            case ast.Eq() | ast.NotEq():
                is_native = is_text(left) or is_text(right)
                return f"({a} {sign or '='}== {b})" if is_native else f"{sign}py.eq({a}, {b})"
            case ast.In() | ast.NotIn():
                are_texts = isinstance(right, ast.Tuple) and all(map(is_text, right.elts))
                return f"{sign}{b}.includes({a})" if are_texts else f"{sign}py.contains({b}, {a})"
        return f"py.{OPERATORS[type(operator)]}({a}, {b})"

    def call(self, function: ast.expr, given: list[ast.expr], keywords: list[ast.keyword]) -> str:
        match function:
            case ast.Attribute(owner, "_replace"):
                return self.replaced(owner, keywords)
            case ast.Name("replace"):
                return self.replaced(given[0], keywords)
            case ast.Name("any" | "all" as name) if isinstance(given[0], ast.GeneratorExp):
                method = "some" if name == "any" else "every"
                return self.listed(given[0].elt, given[0].generators, method, self.test)
            case ast.Name("isinstance") if ast.unparse(given[1]) == "str":
                return f'(typeof {self.value(given[0])} === "string")'
            case ast.Name("get_args"):
                return json.dumps(get_args(self.known(given[0])))
        target = self.known(function)
        texts = [*map(self.argument, given)]
        named = {str(word.arg): self.value(word.value) for word in keywords}
        named.pop("strict", None)
        if isinstance(function, ast.Attribute) and target is None:
            target = PARAMETERS.get(function.attr) if function.attr not in METHODS else None
        if named and is_ours(target):
            rest = [n for n in inspect.signature(target).parameters if n != "self"][len(given) :]
            values = [named.pop(name, "undefined") for name in rest]
            while values and values[-1] == "undefined":
                values.pop()
            texts += values
        elif named:
            texts.append(f"{{ {', '.join(f'{k}: {v}' for k, v in named.items())} }}")
        is_method = isinstance(function, ast.Attribute) and not isinstance(
            self.known(function.value), ModuleType
        )
        if is_method and isinstance(function, ast.Attribute) and function.attr in METHODS:
            whose = self.value(function.value)
            if native := NATIVE.get(function.attr):
                return f"{whose}.{native}({', '.join(texts)})"
            return f"py.call({', '.join([whose, json.dumps(function.attr), *texts])})"
        is_class = inspect.isclass(target) and not hasattr(builtins, target.__name__)
        is_class |= inspect.isclass(target) and issubclass(target, BaseException)
        return f"{'new ' if is_class else ''}{self.value(function)}({', '.join(texts)})"

    def argument(self, node: ast.expr) -> str:
        """Returns a value. A method remembers what it is one of."""
        match node:
            case ast.GeneratorExp(item, generators):
                return self.listed(item, generators)
            case ast.Attribute(owner, name) if name.startswith("_") and name in PARAMETERS:
                return f"py.bound({self.value(owner)}, {json.dumps(camel(name))})"
        return self.value(node)

    def replaced(self, owner: ast.expr, keywords: list[ast.keyword]) -> str:
        changes = ", ".join(f"{camel(str(w.arg))}: {self.value(w.value)}" for w in keywords)
        return f"py.replace({self.value(owner)}, {{ {changes} }})"

    # Names

    def known(self, node: ast.expr) -> Any:
        """Returns what a name of the module stands for, None for another value."""
        match node:
            case ast.Name(name) if not any(name in scope for scope in self.scopes):
                return vars(self.module).get(name, getattr(builtins, name, None))
            case ast.Attribute(owner, name) if isinstance(owner, ast.Name):
                thing = self.known(owner)
                return getattr(thing, name, None)
        return None

    def attribute(self, owner: ast.expr, name: str) -> str:
        thing = self.known(owner)
        if inspect.isclass(thing) and issubclass(thing, Enum):
            return json.dumps(thing[name].value)
        if isinstance(thing, ModuleType) and thing is spelling:
            return self.from_module(thing.__name__, name, getattr(thing, name))
        return f"{self.value(owner)}.{camel(name)}"

    def name_of(self, name: str) -> str:
        """Returns a name in JavaScript, and imports it if need be."""
        if any(name in scope for scope in self.scopes):
            return local(name)
        if name in self.own and name not in BY_HAND:
            return camel(name)
        if name in self.imported or name in BY_HAND:
            module, original = self.imported.get(name, (self.name, name))
            return self.from_module(module, original, vars(self.module).get(name))
        return library(name)

    def from_module(self, module: str, name: str, thing: Any) -> str:
        """Returns a name that the module imports."""
        if isinstance(thing, ModuleType):
            file = FILES.get(thing.__name__)
            if file:
                self.needs(file, f"* as {camel(file)}")
            return camel(file) if file else library(name)
        if isinstance(thing, Operation):
            self.needs("operations", "OPERATIONS")
            return f"OPERATIONS[{json.dumps(thing)}]"
        if thing is BY_SIGN:
            self.needs("operations", "OPERATIONS")
            return "OPERATIONS"
        if isinstance(thing, int | float):
            return constant(thing)
        for table, value in _TABLES.items():
            if value is thing:
                self.needs("tables", "tables")
                return f"tables.{table}"
        if isinstance(thing, frozenset | set | tuple):
            line = f"const {name} = py.frozenset({json.dumps(sorted(thing))});"
            self.constants += [] if line in self.constants else [line]
            return name
        file = BY_HAND.get(name, FILES.get(module))
        if not file:
            return library(name)
        name = RENAMED.get(name, camel(name))
        self.needs(file, name)
        return name

    def needs(self, file: str, name: str) -> None:
        self.imports.setdefault(file, set()).add(name)

    def limits(self, index: ast.Slice) -> str:
        bounds = (index.lower, index.upper)
        return ", ".join(self.value(bound) if bound else "undefined" for bound in bounds)

    def iterated(self, items: ast.expr) -> str:
        """Returns what a loop runs over. A dictionary yields its keys."""
        is_list = isinstance(items, ast.Tuple | ast.List)
        return self.value(items) if is_list else f"py.each({self.value(items)})"

    def parameters(self, arguments: ast.arguments, skip: int = 0) -> str:
        """Returns the parameters of a function without the first `skip`."""
        names = [*map(local, names_of(arguments))]
        if arguments.vararg:
            names[-1] = f"...{names[-1]}"
        first = len(arguments.args) - len(arguments.defaults)
        for index, default in enumerate(arguments.defaults, first):
            names[index] += f" = {self.value(default)}"
        return ", ".join(names[skip:])
