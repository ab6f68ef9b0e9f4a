"""Translates modules of Python into JavaScript, for the page.

Nothing is known of types: operators, truth, indices and methods of text, lists and dictionaries are
looked up when they are used, by `api/static/engine/python.js`. Integers are numbers while they are
safe, and BigInts beyond. What Python has from libraries, and `HAND`, are written by hand.
"""

import ast
import builtins
import importlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from types import ModuleType
from typing import Any, TypeVar, get_args

from calcgpt.inference import functions, spelling
from datagen.operations import BY_SIGN, Operation

# Modules of Python, and the module of the page that has their names. Those that are translated have
# a file of their own.
TRANSLATED = (
    *("phrases", "numerals", "expression_tree", "expression_errors", "expression_stack"),
    *("expression", "closed_form", "separation", "sensitivity", "simplify", "real"),
    *("function_values", "exact", "programs", "planners", "number_planners", "planning"),
)
HAND = {
    "calcgpt.errors": "errors",
    "calcgpt.inference.balls": "balls",
    "calcgpt.inference.effort": "effort",
    "calcgpt.inference.limits": "limits",
    "calcgpt.inference.spelling": "text",
    "datagen.arithmetic": "arithmetic",
    "datagen.layout": "layout",
    "datagen.notation": "arithmetic",
    "datagen.operations": "operations",
    "fractions": "fractions",
    "math": "math",
}
FILES = {**HAND, **{f"calcgpt.inference.{name}": name for name in TRANSLATED}}
LIBRARY = "py"  # everything else
OPERATORS: dict[type[ast.AST], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Pow: "pow"},
    **{ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.BitOr: "or", ast.LShift: "lshift"},
    **{ast.RShift: "rshift", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"},
    **{ast.USub: "neg"},
}
# Methods of text, lists, dictionaries and integers.
METHODS = set(
    "append extend pop get items values keys startswith endswith strip rstrip partition rpartition "
    "replace split join format removesuffix isascii isdigit isalpha bit_length add".split()
)
RESERVED = set("arguments case default delete eval function in new switch this typeof var".split())
METHOD = {"any": "some", "all": "every"}
TRUE_OR_FALSE = {"any", "all", "bool", "isinstance", "callable"}
_TABLES = {**spelling.tables(), "PROGRAMS": functions.FUNCTIONS}


class Module:
    """Translates a module. `javascript` is the result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = importlib.import_module(name)
        self.tree = ast.parse(inspect.getsource(self.module))
        self.imports: dict[str, set[str]] = {}  # file -> names
        self.constants: list[str] = []
        self.scopes: list[set[str]] = []
        self.imported: dict[str, tuple[str, str]] = {}  # name -> module, and its name there
        for node in self.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (str(module), alias.name)
        self.own = assigned(self.tree.body) - set(self.imported)

    def javascript(self) -> str:
        body = [line for node in self.tree.body for line in self.top(node)]
        lines = [
            "// @ts-nocheck",
            f"// Written by `make tables` from {self.name.replace('.', '/')}.py. Do not edit.",
            f'import * as {LIBRARY} from "./python.js";',
        ]
        for file, names in sorted(self.imports.items()):
            stars = [name for name in names if name == "tables" or name.startswith("*")]
            others = sorted(names - {*stars})
            for what in [*stars, *([f"{{ {', '.join(others)} }}"] if others else [])]:
                lines.append(f'import {what} from "./{file}.js";')
        return "\n".join([*lines, *self.constants, *body]) + "\n"

    # Statements of a module

    def top(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr():
                return
            case ast.If(ast.Name("TYPE_CHECKING")):
                return
            case ast.FunctionDef(name):
                if self.name + "." + name in BY_HAND:
                    self.needs(self.own_file_by_hand(), camel(name))
                    self.constants.append(f"export {{ {camel(name)} }};")
                    return
                yield f"{exported(name)}{self.function(node)}"
            case ast.ClassDef(name):
                if not is_type(getattr(self.module, name)):
                    yield f"{exported(name)}{self.class_(node)}"
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                if value and not is_type(getattr(self.module, name)):
                    yield f"{exported(name)}const {camel(name)} = {self.value(value)};"
            case ast.Assign([target], value):
                yield f"export const {self.value(target)} = {self.value(value)};"
            case _:
                raise ValueError(f"cannot translate: {ast.unparse(node)}")

    def own_file_by_hand(self) -> str:
        return "text"

    # Functions and classes

    def function(self, node: ast.FunctionDef, is_nested: bool = False) -> str:
        """Returns a function, or the definition of a name that is one."""
        name = camel(node.name)
        parameters, body = self.parts(node)
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if caching := [text for text in decorators if "cache" in text]:
            most = re.sub(r"[^0-9]", "", caching[0]) or "Infinity"
            return f"const {name} = py.cached({most}, ({parameters}) => {{ {body} }});"
        if is_nested:
            return f"const {name} = ({parameters}) => {{ {body} }};"
        star = "*" if is_generator(node) else ""
        return f"function{star} {name}({parameters}) {{ {body} }}"

    def parts(self, node: ast.FunctionDef, skip: int = 0, before: str = "") -> tuple[str, str]:
        """Returns the parameters and the body of a function without its first `skip` parameters."""
        names = assigned(node.body)
        every = [*node.args.args, *node.args.kwonlyargs]
        own = {argument.arg for argument in every}
        own |= {node.args.vararg.arg} if node.args.vararg else set()
        self.scopes.append(names | own)
        parameters = self.parameters(node.args, skip)
        nested = {
            n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and n is not node
        }
        body = [line for statement in node.body for line in self.statement(statement)]
        if variables := sorted(map(local, names - own - nested)):
            body.insert(0, f"let {', '.join(variables)};")
        self.scopes.pop()
        return parameters, " ".join([*([before] if before else []), *body])

    def parameters(self, args: ast.arguments, skip: int = 0) -> str:
        defaults: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
        pairs = [*zip(args.args, [*defaults, *args.defaults], strict=True)]
        pairs += zip(args.kwonlyargs, args.kw_defaults, strict=True)
        texts = [
            local(argument.arg) + (f" = {self.value(default)}" if default else "")
            for argument, default in pairs[skip:]
        ]
        if args.vararg and args.kwonlyargs:  # after those that are named
            texts[len(args.args) - skip :] = [f"...{local(args.vararg.arg)}"]
        elif args.vararg:
            texts.append(f"...{local(args.vararg.arg)}")
        return ", ".join(texts)

    def class_(self, node: ast.ClassDef) -> str:
        cls = getattr(self.module, node.name)
        bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
        bases = [base for base in bases if base not in ("ABC", "Generic")]
        is_data = "dataclass" in "".join(map(ast.unparse, node.decorator_list))
        is_data |= bases == ["NamedTuple"]
        base = self.name_of(bases[0]) if bases else ("py.Record" if is_data else "")
        lines = [f"class {camel(node.name)}{f' extends {base}' if base else ''} {{"]
        fields: list[tuple[str, ast.expr | None]] = []
        for item in node.body:
            match item:
                case ast.AnnAssign(ast.Name(name), _, value) if is_data:
                    if "init=False" not in (ast.unparse(value) if value else ""):
                        fields.append((name, value))
                case ast.AnnAssign(ast.Name(name), _, value) | ast.Assign([ast.Name(name)], value):
                    if value:
                        lines.append(f"{camel(name)} = {self.value(value)};")
                case ast.FunctionDef():
                    lines += self.method(item, bool(base))
        if is_data:
            parameters = ", ".join(
                local(name) + (f" = {self.value(value)}" if value else "") for name, value in fields
            )
            sets = " ".join(f"this.{camel(name)} = {local(name)};" for name, _ in fields)
            after = " this.__post_init__();" if hasattr(cls, "__post_init__") else ""
            names = json.dumps([camel(name) for name, _ in fields])
            lines.append(f"static fields = {names};")
            lines.append(f"constructor({parameters}) {{ super(); {sets}{after} }}")
        return "\n".join([*lines, "}"])

    def method(self, node: ast.FunctionDef, has_base: bool) -> Iterator[str]:
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if "abstractmethod" in decorators:
            return
        is_static = "staticmethod" in decorators
        before = "" if is_static else "const self = this;"
        if node.name == "__init__":
            parameters, body = self.parts(node, 1, "" if has_base else before)
            yield f"constructor({parameters}) {{ {body} }}"
            return
        parameters, body = self.parts(node, int(not is_static), before)
        name = camel(node.name)
        if "cached_property" in decorators:
            body = f"return py.kept(this, {json.dumps(name)}, () => {{ {body} }});"
        kind = "get " if {"property", "cached_property"} & decorators else ""
        kind = "static " if is_static or "classmethod" in decorators else kind
        yield f"{kind}{'*' if is_generator(node) else ''}{name}({parameters}) {{ {body} }}"

    # Statements

    def statement(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.Expr(ast.Constant()) | ast.Assert() | ast.Pass() | ast.ImportFrom():
                return
            case ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name("super")), "__init__"), given)):
                yield f"super({', '.join(map(self.value, given))}); const self = this;"
            case ast.Expr(
                ast.Call(
                    ast.Attribute(ast.Name("object"), "__setattr__"),
                    [owner, ast.Constant(str(name)), value],
                )
            ):
                yield f"{self.value(owner)}.{camel(name)} = {self.value(value)};"
            case ast.Expr(ast.Yield(value)):
                yield f"yield {self.value(value)};"
            case ast.Expr(ast.YieldFrom(value)):
                yield f"yield* {self.value(value)};"
            case ast.Expr(value):
                yield f"{self.value(value)};"
            case ast.Return(value):
                yield f"return {self.value(value)};" if value else "return null;"
            case ast.Assign(targets, value):
                *others, last = targets
                text = self.assign(last, self.value(value))
                yield text
                yield from (self.assign(other, self.value(last)) for other in reversed(others))
            case ast.AnnAssign(target, _, value):
                if value:
                    yield self.assign(target, self.value(value))
            case ast.AugAssign(target, ast.Add(), value):
                yield self.assign(target, f"py.iadd({self.value(as_load(target))}, {self.value(value)})")
            case ast.AugAssign(target, operator, value):
                yield self.assign(target, self.value(ast.BinOp(as_load(target), operator, value)))
            case ast.If(test, body, otherwise):
                yield f"if ({self.test(test)}) {{"
                yield from self.block(body)
                if otherwise:
                    yield "} else {"
                    yield from self.block(otherwise)
                yield "}"
            case ast.While(test, body, []):
                yield f"while ({self.test(test)}) {{"
                yield from self.block(body)
                yield "}"
            case ast.For(target, items, body, []):
                yield f"for ({self.value(target)} of {self.iterated(items)}) {{"
                yield from self.block(body)
                yield "}"
            case ast.Break():
                yield "break;"
            case ast.Continue():
                yield "continue;"
            case ast.Delete([ast.Subscript(items, ast.Slice() as index)]):
                yield f"py.setslice({self.value(items)}, {self.limits(index)}, []);"
            case ast.Delete([ast.Subscript(items, index)]):
                yield f"py.remove({self.value(items)}, {self.value(index)});"
            case ast.FunctionDef():
                yield self.function(node, is_nested=True)
            case ast.Raise(None):
                yield "throw caught;"
            case ast.Raise(error):
                is_class = isinstance(error, ast.Name) and inspect.isclass(self.known(error))
                yield f"throw {'new ' if is_class else ''}{self.value(error)}{'()' * is_class};"
            case ast.Try(body, handlers, [], []):
                yield "try {"
                yield from self.block(body)
                yield "} catch (caught) {"
                for handler in handlers:
                    yield f"if ({self.caught(handler.type)}) {{"
                    if handler.name:
                        yield f"{local(handler.name)} = caught;"
                    yield from self.block(handler.body)
                    yield "} else"
                yield "throw caught; }"
            case ast.With([ast.withitem(ast.Call(ast.Name("suppress"), errors))], body):
                yield "try {"
                yield from self.block(body)
                tests = " || ".join(map(self.caught, errors))
                yield f"}} catch (caught) {{ if (!({tests})) throw caught; }}"
            case _:
                raise ValueError(f"cannot translate: {ast.unparse(node)}")

    def block(self, body: list[ast.stmt]) -> Iterator[str]:
        yield from (line for statement in body for line in self.statement(statement))

    def caught(self, error: ast.expr | None) -> str:
        errors = error.elts if isinstance(error, ast.Tuple) else [error]
        return " || ".join(f"caught instanceof {self.value(error)}" for error in errors)

    def assign(self, target: ast.expr, value: str) -> str:
        match target:
            case ast.Subscript(items, ast.Slice() as index):
                return f"py.setslice({self.value(items)}, {self.limits(index)}, {value});"
            case ast.Subscript(items, index):
                return f"py.setitem({self.value(items)}, {self.value(index)}, {value});"
        return f"{self.value(target)} = {value};"

    def limits(self, index: ast.Slice) -> str:
        parts = [self.value(part) if part else "undefined" for part in (index.lower, index.upper)]
        return ", ".join([*parts, *([self.value(index.step)] if index.step else [])])

    def iterated(self, items: ast.expr) -> str:
        """Returns what a loop runs over. A dictionary yields its keys."""
        is_list = isinstance(items, ast.Tuple | ast.List)
        return self.value(items) if is_list else f"py.each({self.value(items)})"

    # Expressions

    def test(self, node: ast.expr) -> str:
        """Returns a condition."""
        match node:
            case ast.BoolOp(operator, values):
                sign = " && " if isinstance(operator, ast.And) else " || "
                return f"({sign.join(map(self.test, values))})"
            case ast.UnaryOp(ast.Not(), operand):
                return f"!{self.test(operand)}"
        return self.value(node) if is_boolean(node) else f"py.truth({self.value(node)})"

    def value(self, node: ast.expr | None) -> str:  # noqa: C901
        match node:
            case ast.Constant(value):
                return constant(value)
            case ast.Name(name):
                return self.name_of(name)
            case ast.Attribute(owner, name):
                return self.attribute(node, owner, name)
            case ast.List(items) | ast.Tuple(items):
                return f"[{', '.join(map(self.value, items))}]"
            case ast.Set(items):
                return f"py.frozenset([{', '.join(map(self.value, items))}])"
            case ast.Dict(keys, values):
                pairs = zip(keys, values, strict=True)
                entries = (
                    f"[{self.value(key)}, {self.value(item)}]"
                    if key
                    else f"...py.items({self.value(item)})"
                    for key, item in pairs
                )
                return f"py.dict([{', '.join(entries)}])"
            case ast.Starred(ast.GeneratorExp(item, generators)):
                return f"...{self.listed(item, generators)}"
            case ast.Starred(items, context):
                is_target = isinstance(context, ast.Store)
                return f"...{self.value(items) if is_target else self.iterated(items)}"
            case ast.JoinedStr(parts):
                return "`" + "".join(map(self.piece, parts)) + "`"
            case ast.NamedExpr(target, value):
                return f"({self.value(target)} = {self.value(value)})"
            case ast.BinOp(left, ast.Add(), right) if is_text(left) or is_text(right):
                return f"({self.value(left)} + {self.value(right)})"
            case ast.BinOp(left, operator, right):
                return f"py.{OPERATORS[type(operator)]}({self.value(left)}, {self.value(right)})"
            case ast.UnaryOp(ast.Not(), operand):
                return f"!{self.test(operand)}"
            case ast.UnaryOp(ast.USub(), ast.Constant(value)):
                return f"-{value}"
            case ast.UnaryOp(operator, operand):
                return f"py.{OPERATORS[type(operator)]}({self.value(operand)})"
            case ast.BoolOp(operator, values):
                if all(map(is_boolean, values)):
                    return self.test(node)
                result = self.value(values[-1])
                name = "and" if isinstance(operator, ast.And) else "or"
                for operand in reversed(values[:-1]):
                    result = f"py.{name}Else({self.value(operand)}, () => {result})"
                return result
            case ast.Compare(left, operators, others):
                operands = [left, *others]
                tests = [*map(self.compare, operands[:-1], operators, others)]
                return f"({' && '.join(tests)})" if len(tests) > 1 else tests[0]
            case ast.IfExp(test, body, otherwise):
                return f"({self.test(test)} ? {self.value(body)} : {self.value(otherwise)})"
            case ast.Subscript(items, ast.Slice() as index):
                return f"py.slice({self.value(items)}, {self.limits(index)})"
            case ast.Subscript(items, index):
                return f"py.get({self.value(items)}, {self.value(index)})"
            case ast.Lambda(args, body):
                names = {a.arg for a in [*args.args, *([args.vararg] if args.vararg else [])]}
                self.scopes.append(names)
                text = f"({self.parameters(args)}) => {self.value(body)}"
                self.scopes.pop()
                return f"({text})"
            case ast.GeneratorExp(item, generators):
                return self.generator(item, generators)
            case ast.ListComp(item, generators):
                return self.listed(item, generators)
            case ast.SetComp(item, generators):
                return f"py.frozenset({self.listed(item, generators)})"
            case ast.DictComp(key, item, generators):
                return f"py.dict({self.listed(ast.List([key, item]), generators)})"
            case ast.Call(function, arguments, keywords):
                return self.call(function, arguments, keywords)
        raise ValueError(f"cannot translate: {ast.unparse(node) if node else None}")

    def listed(self, item: ast.expr, generators: list[ast.comprehension]) -> str:
        """Returns the list of what a comprehension yields."""
        if len(generators) > 1:
            return f"[...{self.generator(item, generators)}]"
        [part] = generators
        items = self.iterated(part.iter)
        self.scopes.append({n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)})
        target = self.value(part.target)
        tests = "".join(f".filter(({target}) => {self.test(test)})" for test in part.ifs)
        made = self.value(item)
        self.scopes.pop()
        if tests:
            return f"[...{items}]{tests}" + (f".map(({target}) => {made})" if made != target else "")
        return f"Array.from({items}, ({target}) => {made})"

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
        a = self.value(left)
        match operator, right:
            case ((ast.Is() | ast.IsNot()), ast.Constant(None)):
                return f"{a} {'==' if isinstance(operator, ast.Is) else '!='} null"
            case ((ast.Is() | ast.IsNot()), _):
                return f"{a} {'===' if isinstance(operator, ast.Is) else '!=='} {self.value(right)}"
            case ((ast.In() | ast.NotIn()), _):
                items = self.value(right)
                texts = isinstance(right, ast.Tuple) and all(map(is_text, right.elts))
                found = f"{items}.includes({a})" if texts else f"py.contains({items}, {a})"
                return found if isinstance(operator, ast.In) else f"!{found}"
            case ((ast.Eq() | ast.NotEq()), _):
                is_native = is_text(left) or is_text(right)
                equal = f"{a} === {self.value(right)}"
                if not is_native:
                    equal = f"py.eq({a}, {self.value(right)})"
                elif isinstance(operator, ast.NotEq):
                    return equal.replace(" === ", " !== ", 1)
                return equal if isinstance(operator, ast.Eq) else f"!{equal}"
        return f"py.{OPERATORS[type(operator)]}({a}, {self.value(right)})"

    def call(self, function: ast.expr, given: list[ast.expr], keywords: list[ast.keyword]) -> str:
        match function:
            case ast.Attribute(ast.Call(ast.Name("super")), name):
                return f"super.{camel(name)}({', '.join(map(self.value, given))})"
            case ast.Attribute(owner, "_replace"):
                return self.replaced(owner, keywords)
            case ast.Name("replace"):
                return self.replaced(given[0], keywords)
            case ast.Subscript(ast.Name("dict" | "list" | "set" as name)):
                return f"py.{name}()"
            case ast.Name("any" | "all" as name) if isinstance(given[0], ast.GeneratorExp):
                [part] = given[0].generators
                items = self.iterated(part.iter)
                self.scopes.append({n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)})
                tests = [self.value(part.target), self.test(given[0].elt)]
                self.scopes.pop()
                return f"[...{items}].{METHOD[name]}(({tests[0]}) => {tests[1]})"
            case ast.Name("get_args"):
                return json.dumps(get_args(self.known(given[0])))
            case ast.Name("cast"):
                return self.value(given[1])
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
            owner = self.value(function.value)
            return f"py.call({', '.join([owner, json.dumps(function.attr), *texts])})"
        is_class = inspect.isclass(target) and not hasattr(builtins, target.__name__)
        is_class |= inspect.isclass(target) and issubclass(target, BaseException)
        return f"{'new ' if is_class else ''}{self.value(function)}({', '.join(texts)})"

    def argument(self, node: ast.expr) -> str:
        """Returns a value. A method remembers what it is one of."""
        match node:
            case ast.GeneratorExp(item, generators):
                return self.listed(item, generators)
            case ast.Attribute(owner, name) if name in PARAMETERS and self.known(node) is None:
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

    def attribute(self, node: ast.Attribute, owner: ast.expr, name: str) -> str:
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
        if name in self.own:
            return camel(name)
        if name in self.imported:
            module, original = self.imported[name]
            return self.from_module(module, original, vars(self.module).get(name))
        return f"py.{name}"

    def from_module(self, module: str, name: str, thing: Any) -> str:
        """Returns a name that the module imports."""
        if isinstance(thing, ModuleType):
            file = FILES.get(thing.__name__)
            if file:
                self.needs(file, f"* as {camel(file)}")
            return camel(file) if file else f"py.{name}"
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
        if module not in FILES:
            return f"py.{name}"
        self.needs(FILES[module], camel(name))
        return camel(name)

    def needs(self, file: str, name: str) -> None:
        self.imports.setdefault(file, set()).add(name)


BY_HAND = {"calcgpt.inference.expression_tree.shorten"}


def assigned(body: Iterable[ast.AST]) -> set[str]:
    """Returns the names that statements define, without those of functions and comprehensions in
    them."""
    names: set[str] = set()
    waiting = [*body]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name) | ast.ClassDef(name):
                names.add(name)
            case ast.Name(name, ast.Store()):
                names.add(name)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                found = (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
                names.update(ast.unparse(n.target) for n in found)
            case ast.ExceptHandler(_, name) if name:
                names.add(name)
                waiting += node.body
            case ast.Lambda():
                pass
            case _:
                waiting += ast.iter_child_nodes(node)
    return names


def exported(name: str) -> str:
    return "" if name.startswith("_") else "export "


def camel(name: str) -> str:
    """Returns a name as JavaScript writes it: `first_row` is `firstRow`."""
    if name.strip("_").isupper() or name.startswith("__"):
        return name
    return re.sub("(?<=.)_([a-z0-9])", lambda match: match[1].upper(), name)


def local(name: str) -> str:
    """Returns the name of a variable."""
    return f"{name}_" if name in RESERVED else camel(name)


def constant(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool() | str():
            return json.dumps(value)
        case int() if abs(value) >= 2**53:
            return f"{value}n"
        case float() | int():
            return repr(value).replace("inf", "Infinity")
    raise ValueError(f"cannot translate: {value!r}")


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def is_boolean(node: ast.expr) -> bool:
    """Returns whether an expression is true or false, and nothing else."""
    match node:
        case ast.Compare() | ast.UnaryOp(ast.Not()) | ast.Constant(True | False):
            return True
        case ast.BoolOp(_, values):
            return all(map(is_boolean, values))
        case ast.Call(ast.Name(name)):
            return name in TRUE_OR_FALSE
    return False


def is_generator(node: ast.FunctionDef) -> bool:
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node))


def is_type(value: object) -> bool:
    """Returns whether a value only says something about types, or is an enumeration."""
    if inspect.isclass(value):
        is_protocol = getattr(value, "_is_protocol", False)
        return is_protocol or issubclass(value, Enum) or hasattr(value, "__origin__")
    return isinstance(value, TypeVar) or type(value).__module__ in ("typing", "types")


def is_ours(value: Any) -> bool:
    """Returns whether this is a function or class of the project or a named tuple of it."""
    module = getattr(value, "__module__", "") or ""
    return module.partition(".")[0] in ("calcgpt", "datagen") and callable(value)


def as_load(node: ast.expr) -> ast.expr:
    """Returns a target as an expression."""
    return ast.parse(ast.unparse(node), mode="eval").body


def parameters() -> dict[str, Any]:
    """Returns the methods of the translated modules, by their names."""
    modules = [importlib.import_module(f"calcgpt.inference.{name}") for name in TRANSLATED]
    classes = [thing for module in modules for thing in vars(module).values()]
    return {
        name: method
        for cls in classes
        if inspect.isclass(cls)
        for name, method in vars(cls).items()
        if inspect.isfunction(method)
    }


PARAMETERS = parameters()
