"""The stacks of a reader of expressions: they join parts of the text to operations."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, get_args

from calcgpt.errors import ConfigError, ExpressionError, ExpressionErrorKind, unknown_name
from calcgpt.inference import spelling
from calcgpt.inference.expression_tree import RANKS, Expression, shorten, show
from calcgpt.inference.functions import ANGLED, ARCS, FUNCTIONS
from calcgpt.inference.spelling import MAX_READINGS, MESSAGES, READINGS, SPACES
from datagen.arithmetic import Number

Percent = Literal["relative", "plain"]
Angle = Literal["radians", "degrees"]
PERCENT, ANGLE = get_args(Percent), get_args(Angle)


@dataclass(frozen=True)
class Style:
    """How a text is read where people write in two ways. `percent`: whether `100-10%` takes a
    percentage of 100 (`relative`) or 0.1 (`plain`). `decimal_comma`: whether `12,500` is 12.5.
    `angle`: whether sin(30) is of 30 radians or degrees. Raises ConfigError for another value."""

    percent: Percent = "relative"
    decimal_comma: bool = False
    angle: Angle = "radians"

    def __post_init__(self) -> None:
        for name, value, values in (
            ("percent", self.percent, PERCENT),
            ("angle", self.angle, ANGLE),
        ):
            if value not in values:
                raise ConfigError(unknown_name(name, str(value), values))


DEFAULT_STYLE = Style()


class Reading(NamedTuple):
    """How a part of the text was read: `typed` as `read`. `alternative` is the whole text, written
    for another reading, or None."""

    text: str
    alternative: str | None


class Part(NamedTuple):
    """A node, and the position of its text including parentheses around it."""

    node: Expression
    start: int
    end: int
    is_percentage: bool = False  # without parentheses, or a sum of such percentages


class Rank(IntEnum):
    """The precedence of a sign that waits for its right side, the weakest first."""

    OPENING = 0
    SUM = 1
    PRODUCT = 2
    PREFIX = 3  # -2^2 is -(2^2)
    POWER = 4
    FUNCTION = 5


_RANKS = {
    sign: (Rank.SUM, Rank.PRODUCT, Rank.POWER)[rank - 1] for sign, rank in spelling.RANKS.items()
}


class Sign(NamedTuple):
    """An operation, a sign before an operand, or a parenthesis, at a position of the text."""

    character: str  # the operation, a function, a parenthesis, a bar, the first words of a pair
    rank: Rank
    start: int
    is_said: bool = False  # whether the reading repeats the operation
    is_reversed: bool = False  # subtract 3 from 10
    function: str = ""  # before a parenthesis
    base: Expression | None = None  # of this function: log 2(8)
    n_before: int = 0  # arguments of the function that are complete


class Stack:
    """The parts of an expression that were read, and the signs that wait for their right side
    (operator precedence; Dijkstra 1961). So nesting needs no recursion."""

    def __init__(self, text: str, style: Style) -> None:
        self.text, self._style = text, style
        self.parts: list[Part] = []
        self.signs: list[Sign] = []
        self.readings: list[Reading] = []

    def in_list(self) -> bool:
        """Returns whether the numbers here are separated by commas."""
        opening = self.last_opening()
        return bool(opening and opening.function and _arity(opening.function)[1] != 1)

    def separate(self) -> bool:
        """Ends an argument of a function. Returns whether there can be another."""
        if not self.in_list():
            return False
        self.complete(Rank.OPENING)
        opening = self.signs.pop()
        self.signs.append(opening._replace(n_before=opening.n_before + 1))
        return True

    def last_opening(self) -> Sign | None:
        """Returns the last parenthesis, bar or pair of words that is open."""
        openings = (sign for sign in reversed(self.signs) if sign.rank is Rank.OPENING)
        return next((sign for sign in openings if sign.character not in _APPLIED), None)

    def close(self, end: int) -> None:
        """Completes the part since the last parenthesis or bar, which is closed at `end`."""
        self.complete(Rank.OPENING)
        opening, part = self.signs.pop(), self.parts.pop()
        node = part.node
        if opening.function:
            first = len(self.parts) - opening.n_before
            nodes = [*(before.node for before in self.parts[first:]), node]
            del self.parts[first:]
            self._apply(opening.function, nodes, opening.start, end, opening.base)
            return
        if opening.character == "|":
            node = Expression("||", (node,), opening.start, end)
        self.parts.append(Part(node, opening.start, end))

    def closes(self, character: str) -> bool:
        """Returns whether a ) or | has its opening."""
        opening = self.last_opening()
        return opening is not None and opening.character == {")": "(", "|": "|"}[character]

    def wait_for_second(self, words: str, start: int, end: int) -> int:
        """Adds the operation between two operands to the signs that wait. Returns `end`."""
        self.complete(Rank.OPENING)
        opening = self.signs.pop()
        sign, _, is_reversed = spelling.PAIRS[words]
        first = self.parts.pop()
        self.parts.append(first._replace(start=opening.start))
        self.signs.append(Sign(sign, Rank.OPENING, start, True, is_reversed))
        return end

    def wait(self, sign: str, start: int, end: int) -> int:
        """Adds an operation at text[start:end] to the signs that wait. Returns `end`."""
        rank = _RANKS.get(sign, Rank.PRODUCT)
        # 2^3^2 is 2^(3^2), 2-3-2 is (2-3)-2
        self.complete(rank + 1 if rank is Rank.POWER else rank)
        typed = spelling.normalize(self.text[start:end])
        is_said = typed in spelling.SAID or (sign == "mod" and typed == "%")
        self.signs.append(Sign(sign, rank, start, is_said))
        return end

    def last_sign(self) -> str:
        """Returns the sign before the last operand, other than its own: "" if there is none."""
        signs = (sign.character for sign in reversed(self.signs) if sign.rank is not Rank.PREFIX)
        return next(signs, "")

    def complete(self, rank: int) -> None:
        """Applies the waiting signs, back to the first that binds less tightly than `rank`."""
        while self.signs and self.signs[-1].rank >= rank:
            if self.signs[-1].rank is Rank.FUNCTION:
                sign, right = self.signs.pop(), self.parts.pop()
                self._apply(sign.character, [right.node], sign.start, right.end)
                continue
            if self.signs[-1].character not in _APPLIED:
                break
            sign, right = self.signs.pop(), self.parts.pop()
            if sign.rank is Rank.PREFIX:
                part = _negative(sign, right) if sign.character == "-" else right
                self.parts.append(part._replace(start=sign.start))
                continue
            left = self.parts.pop()
            if sign.is_reversed:
                left, right = right._replace(start=left.start), left._replace(end=right.end)
            if sign.character == "off" or (sign.rank is Rank.SUM and right.is_percentage):
                self.parts.append(self._percentage(left, sign, right))
                continue
            part = operation(sign.character, left, right)
            self.parts.append(part)
            if len(self.readings) >= MAX_READINGS:
                continue
            if sign.is_said:
                self.say(self.text[part.start : part.end], shorten(show(part.node)))
            elif (
                sign.character == "^" and right.node.sign == "^" and right.start == right.node.start
            ):
                inner, last = right.node.operands
                first = operation("^", left, Part(inner, right.start, inner.end))
                other = operation("^", first, Part(last, last.start, right.end))
                typed = self.text[left.start : right.end]
                self.say(typed, show(part.node), left.start, right.end, show(other.node))

    def _apply(
        self,
        name: str,
        nodes: list[Expression],
        start: int,
        end: int,
        base: Expression | None = None,
    ) -> None:
        """Adds a function of some arguments. Raises ExpressionError for the wrong number of them.

        The sine of 30° has a name of its own, so that it is not calculated by way of radians.
        """
        if base and base.is_number(2):
            name = "log2"
        elif base and not base.is_number(10):
            nodes.append(base)
        least, most = _arity(name)
        if not least <= len(nodes) <= (most or len(nodes)):
            expected = f"{least} numbers" if least == most > 1 else "1 number"
            expected = expected if least == most else f"{least} to {most} numbers"
            expected = expected if most else f"at least {least} numbers"
            reason = MESSAGES["arguments"].format(name=name, n=expected, m=len(nodes))
            raise ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, end)
        node = nodes[0]
        if name in ANGLED and (self._style.angle == "degrees" or node.sign == "°"):
            inner = node.operands[0] if node.sign == "°" else node
            node = Expression(f"{name}°", (inner,), start, end)
        else:
            node = Expression(name, tuple(nodes), start, end)
        if name in ARCS and self._style.angle == "degrees":
            node = Expression("degrees", (node,), start, end)
        self.parts.append(Part(node, start, end))
        typed = self.text[start:end]
        if len(nodes) > 1 and _THOUSANDS.search(typed):
            self.say(typed, show(node))
        number = nodes[0].number
        is_number = not nodes[0].sign and node.sign in ANGLED
        if is_number and abs(number.units) >= _DEGREES * 10**number.places:
            read = READINGS["radians"].format(x=show(nodes[0]))
            self.say(typed, read, start, end, f"{name}({show(nodes[0])}°)")

    def _percentage(self, left: Part, sign: Sign, right: Part) -> Part:
        """Returns a part to which a percentage is added or subtracted: 100-10%, 10% off 100. After
        1 or a percentage, that is the same as without the percentage's base."""
        if sign.character == "off":
            left, right, character = right, left, "-"
        else:
            character = sign.character
        start, end = min(left.start, right.start), max(left.end, right.end)
        is_plain = left.is_percentage or left.node.is_number(1) or self._style.percent == "plain"
        if is_plain and sign.character != "off":
            node = Expression(character, (left.node, right.node), start, end)
            return Part(node, start, end, is_percentage=left.is_percentage)
        node = Expression(f"{character}%", (left.node, right.node), start, end)
        if len(self.readings) >= MAX_READINGS:
            return Part(node, start, end)
        base, percent = (shorten(show(part.node)) for part in (left, right))
        of = f"({base})" if RANKS[left.node.sign] == 1 else base
        read = READINGS["of"].format(left=base, sign=character, percent=percent, of=of)
        other = None
        if sign.character != "off":
            typed = self.text[right.start : right.end]
            other = f"{self.text[left.start : right.start]}({typed})"
        self.say(self.text[start:end], read, start, end, other)
        return Part(node, start, end)

    def say(
        self, typed: str, read: str, start: int = 0, end: int = 0, other: str | None = None
    ) -> None:
        """Adds that a part was read in this way; `other` is text[start:end] in another reading."""
        if len(self.readings) >= MAX_READINGS:
            return
        text = READINGS["all"].format(typed=shorten(typed.strip(SPACES)), read=read)
        alternative = f"{self.text[:start]}{other}{self.text[end:]}" if other else None
        if text not in [reading.text for reading in self.readings]:
            self.readings.append(Reading(text, alternative))


_APPLIED = {*_RANKS, "off"}  # signs that have operands
_DEGREES = 10  # from here on, an angle may be meant in degrees
_THOUSANDS = re.compile(spelling.PATTERNS["in_thousands"])


def _arity(name: str) -> tuple[int, int]:
    """Returns the least and the largest number of arguments; 0 for no limit."""
    if name not in FUNCTIONS:  # written as signs, too
        return (2, 2) if name == "mod" else (1, 1)
    return FUNCTIONS[name].least, FUNCTIONS[name].most


def literal(number: Number, start: int, end: int) -> Expression:
    """Returns the node of a number at text[start:end]."""
    return Expression("", (), start, end, number)


def operation(sign: str, left: Part, right: Part) -> Part:
    """Returns the part of an operation on two parts."""
    start, end = min(left.start, right.start), max(left.end, right.end)
    return Part(Expression(sign, (left.node, right.node), start, end), start, end)


def _negative(minus: Sign, operand: Part) -> Part:
    """Returns a part with a minus before it. It is the sign of a number, also of one with signs
    such as % after it."""
    start, node, after = minus.start, operand.node, []
    while node.sign in ("%", "°"):
        after.append(node)
        node = node.operands[0]
    if node.sign:
        zero = literal(Number(0), start, start + 1)
        difference = Expression("-", (zero, operand.node), start, operand.end)
        return operand._replace(node=difference, start=start)
    end = node.end if after else operand.end
    negated = literal(Number(-node.number.units, node.number.places), start, end)
    for part in reversed(after):
        negated = Expression(part.sign, (negated,), start, part.end)
    return operand._replace(node=negated, start=start)
