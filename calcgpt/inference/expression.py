"""Expressions: text that people type to a tree of operations on numbers.

    12.5*3 - 1,000    a product minus a number
    7 × 6 ÷ 2         other signs for the operations
    7 x 6 plus 2      and words
    -(2+3)            is 0-(2+3); directly before a number, a minus is its sign
    1.05^3, 1.05³     are 1.05*1.05*1.05; it binds more tightly than a minus before it
    20%               is 20/100
    20% of 50         is 20/100*50
    2(3+4)            is 2*(3+4)

What people read in two ways is refused: 6/2(3+4), 100/20% of 50, and 80+15%, which is 80.15 to some
and 92 to others.
"""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import NamedTuple

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference import spelling
from calcgpt.inference.expression_tree import Binary, Expression, Literal, Power, show
from datagen.arithmetic import MAX_PLACES, Number, Operation

MAX_LENGTH = 400  # characters of an expression
MAX_DEPTH = 40  # of nested operations
MAX_OPERATIONS = 200  # of an expression, the products of its powers included
MAX_EXPONENT = 40
MAX_SHOWN = 30  # characters of an expression that a message repeats


def parse(text: str) -> Expression:
    """Returns the tree of an expression. It may begin with `=`, and end with `=`, `?` or both.

    Raises ExpressionError for any other text. Does not check the range of numbers or division by
    zero.
    """
    if len(text) > MAX_LENGTH:
        reason = f"longer than {MAX_LENGTH} characters"
        raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, MAX_LENGTH, len(text))
    whole = _Reader(text).read()
    if whole.node.n_operations > MAX_OPERATIONS:
        reason = f"more than {MAX_OPERATIONS} operations"
        raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, whole.start, whole.end)
    return whole.node


class _Part(NamedTuple):
    """A node, and the position of its text including parentheses around it."""

    node: Expression
    start: int
    end: int
    is_percentage: bool = False  # without parentheses, or a sum of such percentages


class _Rank(IntEnum):
    """The precedence of a sign that waits for its right side, the weakest first."""

    OPENING = 0
    SUM = 1
    PRODUCT = 2
    PREFIX = 3  # -2^2 is -(2^2)
    POWER = 4


class _Expected(Enum):
    """What may come next."""

    OPERAND = "a number, a sign before it, or a ("
    OPERATION = "an operation, a ), = or the end"
    END = "the end, because = was read"


_RANKS = {**dict.fromkeys("+-", _Rank.SUM), **dict.fromkeys("*/", _Rank.PRODUCT), "^": _Rank.POWER}


class _Sign(NamedTuple):
    """An operation, a sign before an operand, or a parenthesis, at a position of the text."""

    character: str
    rank: _Rank
    start: int


class _Reader:
    """Reads an expression from left to right, with a stack of parts and one of signs that wait for
    their right side (operator precedence; Dijkstra 1961). So nesting needs no recursion."""

    def __init__(self, text: str) -> None:
        self._text, self._normal = text, spelling.QUESTION.sub(" ", text.translate(spelling.NORMAL))
        self._parts: list[_Part] = []
        self._signs: list[_Sign] = []

    def read(self) -> _Part:
        """Returns the whole expression. Raises ExpressionError."""
        start, character = self._next(0)
        position: int | None = start + 1 if character == "=" else 0  # as spreadsheets begin
        while position is not None:
            position = self._read_operation(self._read_operand(position))
        return self._parts.pop()

    def _read_operand(self, position: int) -> int:
        """Reads a number and all signs and parentheses before it. Returns where it ends."""
        while True:
            start, character = self._next(position)
            if number := spelling.NUMBER.match(self._normal, start):
                literal = Literal(_number(number[0], number.end()), start, number.end())
                self._parts.append(_Part(literal, start, number.end()))
                return number.end()
            if prefix := spelling.PREFIX.match(self._normal, start):
                sign = spelling.OPERATIONS[prefix[0].lower()]
                self._signs.append(_Sign(sign, _Rank.PREFIX, start))
                position = prefix.end()
            elif character == "(":
                self._signs.append(_Sign(character, _Rank.OPENING, start))
                position = start + 1
            else:
                raise self._error(_Expected.OPERAND, start)

    def _read_operation(self, position: int) -> int | None:
        """Reads what follows an operand, up to an operation. Returns where that ends, or None at
        the end of the expression."""
        while True:
            start, character = self._next(position)
            position = start + 1
            if typed := self._typed_operation(start):
                operation = spelling.OPERATIONS[" ".join(typed.lower().split())]
                return self._wait(operation, start, start + len(typed))
            if percent := spelling.PERCENT.match(self._normal, start):
                position = percent.end()
                hundred = _Part(Literal(Number(100), start, position), start, position)
                part = _operation(self._parts.pop(), Operation.DIV, hundred)
                self._parts.append(part._replace(is_percentage=True))
            elif superscript := spelling.SUPERSCRIPT.match(self._normal, start):
                position = superscript.end()
                number = Number(int(superscript[0].translate(spelling.NO_SUPERSCRIPT)))
                exponent = _Part(Literal(number, start, position), start, position)
                self._parts.append(_power(self._parts.pop(), exponent))
            elif character == "(" and self._begins_factor(start):
                return self._wait("*", start, start)
            elif character == ")":
                self._complete(_Rank.SUM)
                if not self._signs:
                    raise self._error(_Expected.OPERATION, start)
                opening = self._signs.pop()
                self._parts.append(_Part(self._parts.pop().node, opening.start, position))
            elif character in ("", "="):
                self._complete(_Rank.SUM)
                if self._signs:
                    raise self._error(_Expected.OPERATION, start)
                end, more = self._next(position)
                if more:
                    raise self._error(_Expected.END, end)
                return None
            else:
                raise self._error(_Expected.OPERATION, start)

    def _typed_operation(self, start: int) -> str:
        """Returns the text of the operation at `start`, or "" if there is none. `of` is an
        operation only after a percentage that is not a divisor. The x of 0x10 is not one."""
        typed = spelling.OPERATION.match(self._normal, start)
        if not typed or spelling.NO_PRODUCT.match(self._normal, start - 1):
            return ""
        is_of = typed[0].lower() == "of"
        allowed = not is_of or (self._follows_percent(start) and self._last_sign() != "/")
        return typed[0] if allowed else ""

    def _follows_percent(self, start: int) -> bool:
        return spelling.AFTER_PERCENT.search(self._normal[:start].rstrip()) is not None

    def _last_sign(self) -> str:
        """Returns the sign before the last operand, other than its own: "" if there is none."""
        signs = (sign.character for sign in reversed(self._signs) if sign.rank is not _Rank.PREFIX)
        return next(signs, "")

    def _begins_factor(self, start: int) -> bool:
        """Returns whether the ( at `start` begins a factor: 2(3+4) is a product. 6/2(3) is refused,
        and 2^3(4) as well, because people read them in two ways."""
        before = self._normal[:start].rstrip()
        return self._last_sign() not in ("/", "^") and before.endswith((*"0123456789.)",))

    def _wait(self, operation: str, start: int, end: int) -> int:
        """Adds an operation at text[start:end] to the signs that wait. Returns `end`."""
        rank = _RANKS[operation]
        # 2^3^2 is 2^(3^2), 2-3-2 is (2-3)-2
        self._complete(rank + 1 if rank is _Rank.POWER else rank)
        self._signs.append(_Sign(operation, rank, start))
        return end

    def _next(self, position: int) -> tuple[int, str]:
        """Returns the position of the next character that is not a space, and it; "" at the end."""
        space = spelling.SPACE.match(self._normal, position)
        start = space.end() if space else len(self._normal)
        return start, self._normal[start : start + 1]

    def _complete(self, rank: int) -> None:
        """Applies the waiting signs, back to the first that binds less tightly than `rank`."""
        while self._signs and self._signs[-1].rank >= rank:
            sign, right = self._signs.pop(), self._parts.pop()
            if sign.rank is _Rank.PREFIX:
                part = _negative(sign, right) if sign.character == "-" else right
                is_percentage = right.is_percentage
                self._parts.append(part._replace(start=sign.start, is_percentage=is_percentage))
            elif sign.rank is _Rank.POWER:
                self._parts.append(_power(self._parts.pop(), right))
            else:
                left = self._parts.pop()
                part = _operation(left, Operation(sign.character), right)
                if sign.rank is _Rank.SUM and right.is_percentage:
                    _check_percentage(left, sign, right)
                    part = part._replace(is_percentage=left.is_percentage)
                self._parts.append(part)

    def _error(self, expected: _Expected, start: int) -> ExpressionError:
        """Returns the error for what is at `start`, with a reason in plain words."""
        text, number = self._text, spelling.NUMBER.match(self._normal, start)
        end = number.end() if number else min(start + 1, len(text))
        character, typed = self._normal[start:end], text[start:end]
        if character == ",":
            reason = "write decimals with a point, like 12.5; a comma may only separate thousands"
            return ExpressionError(ExpressionErrorKind.DECIMAL_COMMA, reason, start)
        if word := spelling.WORD.match(text, start):
            reason = f"{word[0]!r} is not known: {spelling.ONLY}"
            if word[0].lower() == "of":
                reason = "'of' may only follow a percentage that is not a divisor: 20% of 50"
            return ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, word.end())
        if expected is _Expected.OPERAND:
            hint = spelling.HINTS.get(character, "")
            reason = f"a number is expected, not {repr(typed) if typed else 'the end'}{hint}"
        elif expected is _Expected.END:
            reason = "nothing may follow the ="
        elif number or character == "(":
            reason = "an operation is missing: one of + - * / ^"
            if self._follows_percent(start):
                reason += "; % divides by 100, and there is no remainder"
            elif re.fullmatch("[0-9]{3}", self._normal[start:end]):
                reason += "; a comma may separate thousands, a space may not"
            elif spelling.FRACTION.match(self._normal, start):
                reason += "; write a number and a fraction as a sum, like (3+1/2)"
            elif character == "(" and (sign := self._last_sign()) in ("/", "^"):
                reason += f"; 6{sign}2(3) is (6{sign}2)*3 to some and 6{sign}(2*3) to others"
            return ExpressionError(ExpressionErrorKind.NO_OPERATION, reason, start, end)
        elif character == ")":
            reason = "a ) without its ("
        elif character in ("", "="):
            opening = self._signs[-1].start
            reason = f"a ) is missing: the ( at position {opening} is not closed"
        else:
            hint = spelling.HINTS_AFTER_NUMBER.get(character, "")
            reason = f"{typed!r} is not an operation; valid are + - * / ^{hint}"
        return ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, end)


def _negative(minus: _Sign, operand: _Part) -> _Part:
    start, end = minus.start, minus.start + 1
    if not isinstance(operand.node, Literal):
        zero = _Part(Literal(Number(0), start, end), start, end)
        return _operation(zero, Operation.SUB, operand)
    number = operand.node.number
    negated = Number(-number.units, number.places)
    return _Part(Literal(negated, start, operand.end), start, operand.end)


def _check_percentage(left: _Part, sign: _Sign, right: _Part) -> None:
    """Raises ExpressionError for a percentage that is added or subtracted: to some people, 80+15%
    is 80.15, to others 92. After 1 both agree, and a sum of percentages is a percentage."""
    number = left.node.number if isinstance(left.node, Literal) else None
    if left.is_percentage or (number and number.units == 10**number.places):
        return
    typed, more = _show_percentage(right.node), {"+": "more", "-": "less"}[sign.character]
    reason = (
        f"{sign.character}{typed} has two meanings: for {typed} {more}, write "
        f"{_factor(left)}*(1{sign.character}{typed}), else {sign.character}({typed})"
    )
    raise ExpressionError(ExpressionErrorKind.SYNTAX, reason, sign.start, right.end)


def _factor(part: _Part) -> str:
    """Returns a sum without parentheses as a factor, with parentheses; "" for any other part."""
    node = part.node
    is_sum = isinstance(node, Binary) and node.op in (Operation.ADD, Operation.SUB)
    if not is_sum or part.start < node.start:
        return ""
    text = show(node)
    return f"({text})" if len(text) <= MAX_SHOWN else "(...)"


def _show_percentage(node: Expression) -> str:
    assert isinstance(node, Binary)
    if node.op is Operation.SUB:  # -15% is 0-15/100
        return f"-{_show_percentage(node.right)}"
    return f"{show(node.left)}%" if isinstance(node.left, Literal) else f"({show(node.left)})%"


def _power(base: _Part, exponent: _Part) -> _Part:
    start, end = base.start, exponent.end
    number = exponent.node.number if isinstance(exponent.node, Literal) else None
    if number is None or number.point or not 0 <= number.units <= MAX_EXPONENT:
        kind = ExpressionErrorKind.OUT_OF_RANGE
        reason = f"an exponent must be written as a whole number from 0 to {MAX_EXPONENT}"
        raise ExpressionError(kind, reason, exponent.start, end)
    return _checked(Power(base.node, number.units, start, end))


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
    whole, point, places = typed.translate(spelling.NO_SEPARATORS).partition(".")
    superfluous = places[MAX_PLACES:].lstrip("0")
    if superfluous:
        reason = f"more than {MAX_PLACES} decimal places"
        raise ExpressionError(
            ExpressionErrorKind.TOO_MANY_PLACES, reason, end - len(superfluous), end
        )
    units = int(whole + places[:MAX_PLACES].ljust(MAX_PLACES, "0"))
    return Number.from_units(units, MAX_PLACES, bool(point))
