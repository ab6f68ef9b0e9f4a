"""What a person types -> a tree of operations on numbers, and back.

    12.5*3 - 1,000    a product less a number
    7 × 6 ÷ 2         with the signs that people type
    -(2+3)            is 0-(2+3); before a number, a minus is the sign of that number

Every node says for which part of the text it stands. Parentheses around an operand belong to the
operation: in `(1+2)*3` the sum stands for `1+2`, the product for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from datagen.arithmetic import Number, Operation
from datagen.notation import number_text

MAX_LENGTH = 400  # characters of an expression
MAX_DEPTH = 40  # operations, each on the result of another

_TYPED = str.maketrans("×✕∗·⋅÷∕−–", "*****//--")  # one character for one: positions stay
_SEPARATORS = ",_'’\u00a0\u202f\u2009"  # of thousands; the last three are spaces
_NO_SEPARATORS = str.maketrans("", "", _SEPARATORS)

# What is no well-formed group of thousands is not read as one: `12,5` is 12, then a comma.
_THOUSANDS = (
    rf"[1-9][0-9]{{0,2}}(?P<mark>[{_SEPARATORS}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*(?![0-9])"
)
_GRAMMAR = rf"""
    ?start: sum "="?
    !?sum: product | sum ("+" | "-") product -> binary
    !?product: operand | product ("*" | "/") operand -> binary
    !?operand: NUMBER -> literal | "-" operand -> negative | "(" sum ")" -> group
    NUMBER: /(?:{_THOUSANDS}|[0-9]+)(?:\.[0-9]*)?|(?<![0-9.])\.[0-9]+/
    %ignore /\s+/
"""
_HINTS = {
    **dict.fromkeys("xX", "; to multiply, write * or ×"),
    ":": "; to divide, write / or ÷",
    **dict.fromkeys("_'’", "; it may only separate thousands"),
}


@dataclass(frozen=True, slots=True)
class Literal:
    """A number as typed, its sign included, at `text[start:end]`."""

    number: Number
    start: int
    end: int
    depth: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Binary:
    """An operation at `text[start:end]`: from where its left operand starts to where its right one
    ends, parentheses around these included."""

    op: Operation
    left: Expression
    right: Expression
    start: int
    end: int
    depth: int = field(init=False)  # 1 for an operation on two numbers

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 1 + max(self.left.depth, self.right.depth))


Expression: TypeAlias = Literal | Binary


def parse(text: str) -> Binary:
    """The tree of an expression of one operation or more; it may end in `=`.

    Raises ExpressionError for any other text. Neither the range of the numbers nor a division by
    zero is looked at.
    """
    if len(text) > MAX_LENGTH:
        reason = f"longer than {MAX_LENGTH} characters"
        raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, MAX_LENGTH, len(text))
    try:
        whole = cast(_Part, _PARSER.parse(text.translate(_TYPED)))
    except (UnexpectedCharacters, UnexpectedToken) as error:
        raise _refusal(text, error) from None
    if isinstance(whole.node, Literal):
        raise _no_operation(whole.end, whole.end)
    return whole.node


def show(expression: Expression) -> str:
    """The canonical text: no spaces, no parentheses but those that the tree needs.

    `parse` makes the same tree of it, apart from where its nodes stand, unless it is too long.
    """
    if isinstance(expression, Literal):
        return number_text(expression.number)
    left, right = show(expression.left), show(expression.right)
    rank = _rank(expression)
    if _rank(expression.left) < rank:
        left = f"({left})"
    if _rank(expression.right) <= rank:
        right = f"({right})"
    return f"{left}{expression.op}{right}"


def _rank(expression: Expression) -> int:
    """How tightly the parts of the text of a node hold together."""
    if isinstance(expression, Literal):
        return 2
    return int(expression.op in (Operation.MUL, Operation.DIV))


class _Part(NamedTuple):
    """A node, and where it stands together with the parentheses around it."""

    node: Expression
    start: int
    end: int


@v_args(inline=True)
class _Builder(Transformer[Token, _Part]):
    """Makes the nodes while the text is parsed, operands first; named as in the grammar."""

    def literal(self, typed: Token) -> _Part:
        start, end = _span(typed)
        return _Part(Literal(_number(typed, end), start, end), start, end)

    def group(self, opening: Token, inner: _Part, closing: Token) -> _Part:
        return _Part(inner.node, _span(opening)[0], _span(closing)[1])

    def negative(self, minus: Token, operand: _Part) -> _Part:
        start, end = _span(minus)
        if isinstance(operand.node, Binary):
            zero = _Part(Literal(Number(0, False), start, end), start, end)
            return _operation(zero, Operation.SUB, operand)
        number = operand.node.number
        negated = Number(-number.hundredths, number.point)
        return _Part(Literal(negated, start, operand.end), start, operand.end)

    def binary(self, left: _Part, sign: Token, right: _Part) -> _Part:
        return _operation(left, Operation(sign), right)


def _operation(left: _Part, op: Operation, right: _Part) -> _Part:
    start, end = left.start, right.end
    node = Binary(op, left.node, right.node, start, end)
    if node.depth > MAX_DEPTH:
        reason = f"more than {MAX_DEPTH} operations, each on the result of another"
        raise ExpressionError(ExpressionErrorKind.TOO_DEEP, reason, start, end)
    return _Part(node, start, end)


def _number(typed: str, end: int) -> Number:
    """What a number means that was typed without a sign and ends at `end` in the text."""
    whole, point, places = typed.translate(_NO_SEPARATORS).partition(".")
    superfluous = places[2:].lstrip("0")
    if superfluous:
        reason = "more than two decimal places"
        raise ExpressionError(
            ExpressionErrorKind.TOO_MANY_PLACES, reason, end - len(superfluous), end
        )
    return Number(int(whole + places[:2].ljust(2, "0")), bool(point))


def _span(token: Token) -> tuple[int, int]:
    start = cast(int, token.start_pos)  # a lexer always sets it
    return start, start + len(token)


def _refusal(text: str, error: UnexpectedCharacters | UnexpectedToken) -> ExpressionError:
    """What is wrong with a text that the grammar does not derive, in the words of a person.

    Of what the parser would have taken, NUMBER tells whether an operand is due, and PLUS whether
    an operation may follow; with neither, the expression has ended in `=`.
    """
    if isinstance(error, UnexpectedCharacters):
        wanted, found, start = error.allowed, "", cast(int, error.pos_in_stream)
        end = start + 1
    else:
        wanted, found = error.expected, error.token.type
        start, end = (len(text), len(text)) if found == "$END" else _span(error.token)
    character = text[start:end]

    if character == ",":
        reason = "a comma; write decimals with a point: a comma may only separate thousands"
        return ExpressionError(ExpressionErrorKind.DECIMAL_COMMA, reason, start)
    if "NUMBER" in wanted:
        reason = f"a number is expected, not {repr(character) if character else 'the end'}"
    elif "PLUS" not in wanted:
        reason = "nothing may follow the ="
    elif found in ("NUMBER", "LPAR"):
        return _no_operation(start, end)
    elif found == "RPAR":
        reason = "a ) without its ("
    elif found in ("EQUAL", "$END"):
        reason = f"a ) is missing: the ( at position {_unclosed(text[:start])} is not closed"
    else:
        hint = _HINTS.get(character, "")
        reason = f"{character!r} is not an operation; valid are + - * /{hint}"
    return ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, end)


def _no_operation(start: int, end: int) -> ExpressionError:
    reason = "an operation is missing: one of + - * /"
    return ExpressionError(ExpressionErrorKind.NO_OPERATION, reason, start, end)


def _unclosed(text: str) -> int:
    """Where the last ( stands that no ) closes; there is one."""
    opened = []
    for position, character in enumerate(text):
        if character == "(":
            opened.append(position)
        elif character == ")":
            opened.pop()
    return opened[-1]


_PARSER = Lark(_GRAMMAR, parser="lalr", transformer=_Builder())
