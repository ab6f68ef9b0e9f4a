"""Runs the programs of functions (`calcgpt.inference.functions`) with a planner.

Comparisons, constants and the number of turns are decided here. All operations between them are the
planner's, and so the model's.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from calcgpt.errors import ExpressionError
from calcgpt.inference.effort import spend
from calcgpt.inference.exact import value_of_node
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_tree import Expression, fold
from calcgpt.inference.functions import FUNCTIONS, SORTED, Rows
from calcgpt.inference.real import Real, fraction, power
from calcgpt.inference.sensitivity import LARGEST
from calcgpt.inference.spelling import MAX_OPERATIONS
from datagen.operations import ADDITION, DIVISION, MULTIPLICATION, SUBTRACTION

MAX_TURNS = 400  # of a series or an iteration
T = TypeVar("T")
_EFFORT_OF_ROW = 40  # microseconds
_SIGNS = {"+": ADDITION, "-": SUBTRACTION, "*": MULTIPLICATION, "/": DIVISION}
_NAME = "="  # the sign of a node that stands for a name, before the name
_NAMES = ("result", *"abcdghjkmnpqrstuwxyz")  # of a program; e is a constant


class Term(NamedTuple, Generic[T]):
    """A number of a plan and its value."""

    number: T
    value: Real


class Planner(Protocol[T]):
    """What a program needs of a planner (`calcgpt.inference.planners`)."""

    path: tuple[str, ...]
    more_places: int

    def constant(self, value: Real, more_places: int = 3) -> T: ...
    def value(self, number: T) -> Fraction: ...
    def is_zero(self, value: Real) -> bool: ...
    def rounded(self, a: T, places: int) -> T: ...
    def operation(self, node: Expression, operands: Sequence[Term[T]], real: Real | None) -> T: ...


class _Constant(NamedTuple):
    """A number that the planner has worked out, and that no operation has used yet."""

    value: Real


def run(planner: Planner[T], name: str, arguments: Sequence[Term[T]]) -> T:
    """Plans a function of some numbers and returns the result. Raises ArithmeticError, also if the
    program does not approach a value, because numbers have too few places."""
    if name in SORTED:
        arguments = sorted(arguments, key=lambda term: term.value.approximate())
    run = _Run(planner, arguments, MAX_OPERATIONS if FUNCTIONS[name].is_exact else MAX_TURNS)
    run.rows(FUNCTIONS[name].rows)
    return run.number(run.names["result"])


class _Run(Generic[T]):
    """The names of a program and their values so far."""

    def __init__(self, planner: Planner[T], arguments: Sequence[Term[T]], max_turns: int) -> None:
        self._planner, self._arguments, self._max_turns = planner, arguments, max_turns
        self.names: dict[str, Term[T] | _Constant] = dict(zip("xy", arguments, strict=False))
        self.names["n"] = _Constant(fraction(Fraction(len(arguments))))
        # A constant is multiplied by numbers that are as long as the arguments.
        longest = max(0.0, *(min(term.value.size(), LARGEST) for term in arguments), 0.0)
        self._more_places = 4 + math.ceil(longest)

    def rows(self, rows: Rows, turn: str = "") -> None:
        for row in rows:
            spend(_EFFORT_OF_ROW)
            if isinstance(row, str):
                self._assign(row, turn)
            elif row[0] == "if":
                self.rows(row[2] if self._value(row[1]).sign() > 0 else row[3], turn)
            elif row[0] == "scaled":
                self._scaled(row[1], row[2], turn)
            elif row[0] == "repeat":
                self._repeat(row[1], row[2])
            else:
                for index, argument in enumerate(self._arguments):
                    self.names[row[1]] = argument
                    self.rows(row[2], f"{index + 1}. ")

    def _repeat(self, until: str, rows: Rows) -> None:
        for turn in range(1, self._max_turns + 1):
            self.names["j"] = _Constant(fraction(Fraction(turn)))
            self.rows(rows, f"{turn}. ")
            if self._planner.is_zero(self._value(until)):
                return
        raise OverflowError

    def _scaled(self, factor: str, rows: Rows, turn: str) -> None:
        """Runs rows whose errors are multiplied by a factor afterwards."""
        size = self._value(factor).size()
        if not math.isfinite(size):
            raise OverflowError
        more_places = self._planner.more_places
        self._planner.more_places += math.ceil(size)
        self.rows(rows, turn)
        self._planner.more_places = more_places

    def _assign(self, row: str, turn: str) -> None:
        """Gives a name its value. Operations for the model belong to the row, and to its turn."""
        name, sign, text = row.split(" ", 2)
        if sign == ":=":
            self.names[name] = _Constant(self._value(text))
        elif sign == "@":
            self.names[name] = self._arguments[self._value(text).floor()]
        elif sign == "guess":
            self.names[name] = _Constant(_guess(*map(self._value, text.split())))
        elif sign == "binary":
            k = _binary(self._value(text).approximate())
            self.names[name] = _Constant(fraction(Fraction(k)))
        else:
            path = self._planner.path
            self._planner.path = (*path, f"{turn}{row}")
            is_tilde = sign == "~"
            result = self._rounded(text) if is_tilde else fold(_parsed(text), self._operation)
            self.names[name] = result
            self._planner.path = path

    def _rounded(self, text: str) -> Term[T]:
        name, places = text.split()
        number = self.number(self.names[name])
        rounded = self._planner.rounded(number, self._value(places).floor())
        return Term(rounded, fraction(self._planner.value(rounded)))

    def number(self, term: Term[T] | _Constant) -> T:
        """Returns the number of a term."""
        if isinstance(term, _Constant):
            return self._planner.constant(term.value, self._more_places)
        return term.number

    def _operation(
        self, node: Expression, operands: list[Term[T] | _Constant]
    ) -> Term[T] | _Constant:
        """Plans a node of a row. An operation that changes nothing is left out: x*1, x+0."""
        if node.sign.startswith(_NAME):
            return self.names[node.sign[1:]]
        if not node.operands:
            return _Constant(_value_of(node, []))
        kept: Term[T] | _Constant | None = _unchanged(node.sign, operands)
        if kept:
            return kept
        terms = [Term(self.number(operand), operand.value) for operand in operands]
        number = self._planner.operation(node, terms, None)
        return Term(number, fraction(self._planner.value(number)))

    def _value(self, text: str) -> Real:
        """Returns the value of an expression that the planner works out."""

        def value(node: Expression, operands: list[Real]) -> Real:
            if node.sign.startswith(_NAME):
                return self.names[node.sign[1:]].value
            return _value_of(node, operands)

        return fold(_parsed(text), value)


def _unchanged(sign: str, operands: Sequence[Any]) -> Any:
    """Returns the operand that is the result of an operation with a constant 0 or 1, or None."""
    if sign not in _SIGNS:
        return None
    a, b = operands
    values = [o.value.exact if isinstance(o, _Constant) else None for o in operands]
    neutral = 0 if sign in "+-" else 1
    if values[1] == neutral or (values[0] == 0 and sign in "*/"):
        return a
    if (values[0] == neutral and sign in "+*") or (values[1] == 0 and sign == "*"):
        return b
    return None


@cache  # the rows of all functions
def _parsed(text: str) -> Expression:
    """Returns the tree of a row's expression. Names are nodes whose signs begin with _NAME."""
    names = {name: Expression(f"{_NAME}{name}", (), 0, 0) for name in _NAMES}
    return parse(text, names=names).expression


def _value_of(node: Expression, operands: list[Real]) -> Real:
    """Raises ArithmeticError where there is no value, because numbers have too few places."""
    try:
        return value_of_node(node, operands)
    except ExpressionError:
        raise ArithmeticError from None


def _guess(x: Real, n: Real) -> Real:
    """Returns the nth root of x > 0, rounded to three digits."""
    root = power(fraction(x.approximate(10)), 1 / n.approximate()).approximate(10)
    places = 2 - math.floor(fraction(root).size())
    return fraction(Fraction(round(root * Fraction(10) ** places)) / Fraction(10) ** places)


def _binary(x: Fraction) -> int:
    """Returns the whole number k for which x / 2^k is from 3/4 to 3/2, for x > 0."""
    k = x.numerator.bit_length() - x.denominator.bit_length()
    while x >= Fraction(3, 2) * Fraction(2) ** k:
        k += 1
    while x < Fraction(3, 4) * Fraction(2) ** k:
        k -= 1
    return k
