"""What names and constants of Python are in JavaScript, and what can be seen of an expression."""

import ast
import inspect
import json
import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

_RESERVED = "arguments case default delete eval function in new switch this typeof var"
RESERVED = set(_RESERVED.split())
TRUE_OR_FALSE = {"any", "all", "bool", "isinstance"}
ENGINE = Path(__file__).parents[2] / "api" / "static" / "engine"
RUNTIME = {  # what python.js exports
    name
    for file in ("errors", "python_values", "python_sequences")
    for name in re.findall(r"^export \S+ (\w+)", (ENGINE / f"{file}.js").read_text("utf-8"), re.M)
}


def library(name: str) -> str:
    """Returns a name of Python's own, which the page has by hand."""
    if name not in RUNTIME:
        raise ValueError(f"python.js has no {name}")
    return f"py.{name}"


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


def names_of(arguments: ast.arguments) -> list[str]:
    """Returns the names of the parameters of a function."""
    every = [*arguments.args, *([arguments.vararg] if arguments.vararg else [])]
    return [argument.arg for argument in every]


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
    return any(isinstance(n, ast.Yield) for n in ast.walk(node))


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
