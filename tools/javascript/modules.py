"""Translates modules of Python into JavaScript, for the page.

What Python has from libraries, and `HAND`, are written by hand.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator

from tools.javascript.expressions import BY_HAND, Expressions
from tools.javascript.names import (
    as_load,
    assigned,
    camel,
    exported,
    is_generator,
    is_type,
    local,
    names_of,
)


class Module(Expressions):
    """Translates a module. `javascript` is the result."""

    def javascript(self) -> str:
        body = [line for node in self.tree.body for line in self.top(node)]
        lines = [
            "// @ts-nocheck",
            f"// Written by `make tables` from {self.name.replace('.', '/')}.py. Do not edit.",
            'import * as py from "./python.js";',
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
            case ast.FunctionDef(name):
                if name not in BY_HAND:
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
        own = set(names_of(node.args))
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

    def class_(self, node: ast.ClassDef) -> str:
        cls = getattr(self.module, node.name)
        bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
        bases = [base for base in bases if base not in ("ABC", "Generic")]
        is_data = "dataclass" in "".join(map(ast.unparse, node.decorator_list))
        is_data |= bases == ["NamedTuple"]
        base = self.name_of(bases[0]) if bases else ("py.DataClass" if is_data else "")
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
        before = "const self = this;"
        if node.name == "__init__":
            parameters, body = self.parts(node, 1, "" if has_base else before)
            yield f"constructor({parameters}) {{ {body} }}"
            return
        parameters, body = self.parts(node, 1, before)
        name = camel(node.name)
        if "cached_property" in decorators:
            body = f"return py.kept(this, {json.dumps(name)}, () => {{ {body} }});"
        kind = "get " if {"property", "cached_property"} & decorators else ""
        yield f"{kind}{'*' if is_generator(node) else ''}{name}({parameters}) {{ {body} }}"

    # Statements

    def statement(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.Expr(ast.Constant()) | ast.Assert() | ast.Pass():
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
            case ast.Expr(value):
                yield f"{self.value(value)};"
            case ast.Return(value):
                yield f"return {self.value(value)};" if value else "return null;"
            case ast.Assign(targets, value):
                *others, last = targets
                yield self.assign(last, self.value(value))
                yield from (self.assign(other, self.value(last)) for other in reversed(others))
            case ast.AnnAssign(target, _, value):
                if value:
                    yield self.assign(target, self.value(value))
            case ast.AugAssign(target, ast.Add(), value):
                yield self.assign(
                    target, f"py.iadd({self.value(as_load(target))}, {self.value(value)})"
                )
            case ast.AugAssign(target, operator, value):
                yield self.assign(target, self.value(ast.BinOp(as_load(target), operator, value)))
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
            case _:
                yield from self.compound(node)

    def compound(self, node: ast.stmt) -> Iterator[str]:
        """Yields the lines of a statement that has others in it."""
        match node:
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
