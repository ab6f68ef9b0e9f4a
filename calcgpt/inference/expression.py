"""Expressions: text that people type to a tree of operations on numbers, and back.

    12.5*3 - 1,000    a product minus a number
    7 × 6 ÷ 2         other signs for the operations
    -(2+3)            is 0-(2+3); directly before a number, a minus is its sign
    1.05^3            is 1.05*1.05*1.05; it binds more tightly than a minus before it
    20%               is 20/100

A number alone is an expression too. Every node has the position of its text. Parentheses around an
operand belong to the operation that uses it: in `(1+2)*3` the text of the sum is `1+2`, that of the
product is all of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from datagen.arithmetic import MAX_PLACES, Number, Operation
from datagen.notation import number_text

MAX_LENGTH = 400  # characters of an expression
MAX_DEPTH = 40  # of nested operations
MAX_OPERATIONS = 200  # of an expression, the products of its powers included
MAX_EXPONENT = 40

_TYPED = str.maketrans("×✕∗·⋅÷∕−–", "*****//--")  # each by one character, so that positions stay
_SEPARATORS = ",_'’\u00a0\u202f\u2009"  # between thousands; the last three are spaces
_NO_SEPARATORS = str.maketrans("", "", _SEPARATORS)

# Only groups of three digits are thousands: `12,5` is read as 12, then a comma.
_THOUSANDS = (
    rf"[1-9][0-9]{{0,2}}(?P<mark>[{_SEPARATORS}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*(?![0-9])"
)
_DIGITS = re.compile("[0-9]*")
_WORD = re.compile("[A-Za-z]{2,}")
_GRAMMAR = rf"""
    ?start: sum "="?
    !?sum: product | sum ("+" | "-") product -> binary
    !?product: operand | product ("*" | "/") operand -> binary
    !?operand: power | "-" operand -> negative | "+" operand -> positive
    !?power: percentage | percentage "^" operand -> power
    !?percentage: atom | percentage "%" -> percent
    !?atom: NUMBER -> literal | "(" sum ")" -> group
    NUMBER: /(?:{_THOUSANDS}|[0-9]+)(?:\.[0-9]*)?|(?<![0-9.])\.[0-9]+/
    %ignore /\s+/
"""
_HINTS = {
    **dict.fromkeys("xX", "; to multiply, write * or ×"),
    **dict.fromkeys("eE", "; write a number with all its digits"),
    ":": "; to divide, write / or ÷",
    **dict.fromkeys("_'’", "; it may only separate thousands"),
}


@dataclass(frozen=True, slots=True)
class Literal:
    """A number with its sign, at `text[start:end]`."""

    number: Number
    start: int
    end: int
    depth: ClassVar[int] = 0
    n_operations: ClassVar[int] = 0

    def superfluous_places(self, text: str, places: int) -> tuple[int, int]:
        """Returns which part of the typed text goes beyond so many places, from its first digit
        that is not 0. There must be one."""
        point = text.index(".", self.start)
        typed = _DIGITS.match(text, point + 1 + places)
        assert typed
        return typed.end() - len(typed[0].lstrip("0")), typed.end()


@dataclass(frozen=True, slots=True)
class Binary:
    """An operation at `text[start:end]`: from the start of its left operand to the end of its right
    operand, including parentheses around these."""

    op: Operation
    left: Expression
    right: Expression
    start: int
    end: int
    depth: int = field(init=False)  # 1 for an operation on two numbers
    n_operations: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 1 + max(self.left.depth, self.right.depth))
        n_operations = self.left.n_operations + 1 + self.right.n_operations
        object.__setattr__(self, "n_operations", n_operations)


@dataclass(frozen=True, slots=True)
class Power:
    """A base times itself, `exponent` factors in all, at `text[start:end]`."""

    base: Expression
    exponent: int  # from 0 to MAX_EXPONENT
    start: int
    end: int

    @property
    def n_products(self) -> int:
        """The products on which its value depends, each but the first on the one before it."""
        return max(0, self.exponent - 1)

    @property
    def depth(self) -> int:
        return self.base.depth + self.n_products

    @property
    def n_operations(self) -> int:
        return self.base.n_operations + self.n_products


Expression: TypeAlias = Literal | Binary | Power


def parse(text: str) -> Expression:
    """Returns the tree of an expression. It may end with `=`.

    Raises ExpressionError for any other text. Does not check the range of numbers or division by
    zero.
    """
    if len(text) > MAX_LENGTH:
        reason = f"longer than {MAX_LENGTH} characters"
        raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, MAX_LENGTH, len(text))
    try:
        whole = cast(_Part, _PARSER.parse(text.translate(_TYPED)))
    except (UnexpectedCharacters, UnexpectedToken) as error:
        raise _syntax_error(text, error) from None
    if whole.node.n_operations > MAX_OPERATIONS:
        reason = f"more than {MAX_OPERATIONS} operations"
        raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, whole.start, whole.end)
    return whole.node


def show(expression: Expression) -> str:
    """Returns the canonical text of a tree, without spaces and superfluous parentheses.

    `parse` returns the same tree for it, except for positions, unless the text is too long.
    """
    if isinstance(expression, Literal):
        return number_text(expression.number)
    if isinstance(expression, Power):
        base = show(expression.base)
        is_plain = isinstance(expression.base, Literal) and not base.startswith("-")
        return f"{base}^{expression.exponent}" if is_plain else f"({base})^{expression.exponent}"
    left, right = show(expression.left), show(expression.right)
    rank = _rank(expression)
    if _rank(expression.left) < rank:
        left = f"({left})"
    if _rank(expression.right) <= rank:
        right = f"({right})"
    return f"{left}{expression.op}{right}"


def _rank(expression: Expression) -> int:
    """Returns the precedence of a node: 0 for + and -, 1 for * and /, 2 for others."""
    if not isinstance(expression, Binary):
        return 2
    return int(expression.op in (Operation.MUL, Operation.DIV))


class _Part(NamedTuple):
    """A node, and the position of its text including parentheses around it."""

    node: Expression
    start: int
    end: int


@v_args(inline=True)
class _Builder(Transformer[Token, _Part]):
    """Builds the nodes during parsing, operands first. Methods are named after rules of the
    grammar."""

    def literal(self, typed: Token) -> _Part:
        start, end = _span(typed)
        return _Part(Literal(_number(typed, end), start, end), start, end)

    def group(self, opening: Token, inner: _Part, closing: Token) -> _Part:
        return _Part(inner.node, _span(opening)[0], _span(closing)[1])

    def negative(self, minus: Token, operand: _Part) -> _Part:
        start, end = _span(minus)
        if not isinstance(operand.node, Literal):
            zero = _Part(Literal(Number(0), start, end), start, end)
            return _operation(zero, Operation.SUB, operand)
        number = operand.node.number
        negated = Number(-number.units, number.places)
        return _Part(Literal(negated, start, operand.end), start, operand.end)

    def positive(self, plus: Token, operand: _Part) -> _Part:
        return operand._replace(start=_span(plus)[0])

    def percent(self, operand: _Part, sign: Token) -> _Part:
        start, end = _span(sign)
        hundred = _Part(Literal(Number(100), start, end), start, end)
        return _operation(operand, Operation.DIV, hundred)

    def power(self, base: _Part, sign: Token, exponent: _Part) -> _Part:
        start, end = base.start, exponent.end
        number = exponent.node.number if isinstance(exponent.node, Literal) else None
        if number is None or number.point or not 0 <= number.units <= MAX_EXPONENT:
            kind = ExpressionErrorKind.OUT_OF_RANGE
            reason = f"an exponent must be a whole number from 0 to {MAX_EXPONENT}"
            raise ExpressionError(kind, reason, exponent.start, end)
        return _checked(Power(base.node, number.units, start, end))

    def binary(self, left: _Part, sign: Token, right: _Part) -> _Part:
        return _operation(left, Operation(sign), right)


def _operation(left: _Part, op: Operation, right: _Part) -> _Part:
    return _checked(Binary(op, left.node, right.node, left.start, right.end))


def _checked(node: Binary | Power) -> _Part:
    """Returns the node as a part. Raises ExpressionError if it is nested too deeply."""
    if node.depth > MAX_DEPTH:
        reason = f"more than {MAX_DEPTH} operations, each on the result of another"
        raise ExpressionError(ExpressionErrorKind.TOO_DEEP, reason, node.start, node.end)
    return _Part(node, node.start, node.end)


def _number(typed: str, end: int) -> Number:
    """Returns the number typed without a sign. It ends at `end` in the text."""
    whole, point, places = typed.translate(_NO_SEPARATORS).partition(".")
    superfluous = places[MAX_PLACES:].lstrip("0")
    if superfluous:
        reason = f"more than {MAX_PLACES} decimal places"
        raise ExpressionError(
            ExpressionErrorKind.TOO_MANY_PLACES, reason, end - len(superfluous), end
        )
    units = int(whole + places[:MAX_PLACES].ljust(MAX_PLACES, "0"))
    return Number.from_units(units, MAX_PLACES, bool(point))


def _span(token: Token) -> tuple[int, int]:
    start = cast(int, token.start_pos)  # a lexer always sets it
    return start, start + len(token)


def _syntax_error(text: str, error: UnexpectedCharacters | UnexpectedToken) -> ExpressionError:
    """Returns the error for a text that the grammar rejects, with a reason in plain words.

    If the parser expects a NUMBER, an operand is missing; if it expects only a PLUS, an operation
    may follow; with neither, the expression has ended with `=`.
    """
    if isinstance(error, UnexpectedCharacters):
        expected, actual, start = error.allowed, "", cast(int, error.pos_in_stream)
        end = start + 1
    else:
        expected, actual = error.expected, error.token.type
        start, end = (len(text), len(text)) if actual == "$END" else _span(error.token)
    character = text[start:end]

    if character == ",":
        reason = "a comma; write decimals with a point: a comma may only separate thousands"
        return ExpressionError(ExpressionErrorKind.DECIMAL_COMMA, reason, start)
    if word := _WORD.match(text, start):
        reason = f"{word[0]!r} is not known: an expression has numbers, + - * / ^ % and parentheses"
        return ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, word.end())
    if "NUMBER" in expected:
        reason = f"a number is expected, not {repr(character) if character else 'the end'}"
        if text[max(0, start - 1) : end] == "**":
            reason += "; for a power, write ^"
    elif "PLUS" not in expected:
        reason = "nothing may follow the ="
    elif actual in ("NUMBER", "LPAR"):
        reason = "an operation is missing: one of + - * / ^"
        if text[:start].rstrip().endswith("%"):
            reason += "; % divides by 100, and there is no remainder"
        return ExpressionError(ExpressionErrorKind.NO_OPERATION, reason, start, end)
    elif actual == "RPAR":
        reason = "a ) without its ("
    elif actual in ("EQUAL", "$END"):
        position = _last_open_parenthesis(text[:start])
        reason = f"a ) is missing: the ( at position {position} is not closed"
    else:
        hint = _HINTS.get(character, "")
        reason = f"{character!r} is not an operation; valid are + - * / ^{hint}"
    return ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, end)


def _last_open_parenthesis(text: str) -> int:
    """Returns the position of the last ( without its ). There must be one."""
    positions = []
    for position, character in enumerate(text):
        if character == "(":
            positions.append(position)
        elif character == ")":
            positions.pop()
    return positions[-1]


_PARSER = Lark(_GRAMMAR, parser="lalr", transformer=_Builder())
