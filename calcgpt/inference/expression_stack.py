"""The stacks of a reader of expressions: they join parts of the text to operations."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NamedTuple, get_args

from calcgpt.base.errors import ConfigError, unknown_name
from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference import spelling
from calcgpt.inference.expression_tree import RANKS, Expression, shorten, show
from calcgpt.inference.functions import ANGLED, ARCS, DEFINITIONS, FUNCTIONS
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
    # Of the signs up to this one: the index of the last opening, the last that is no prefix, and
    # whether a function of several numbers is open.
    opening: int = -1
    last: str = ""
    in_list: bool = False


_NO_SIGN = Sign("", Rank.OPENING, 0)


class Stack:
    """The parts of an expression that were read, and the signs that wait for their right side
    (operator precedence; Dijkstra 1961). So nesting needs no recursion."""

    def __init__(self, text: str, normal: str, style: Style) -> None:
        self.text, self._normal, self._style = text, normal, style
        self.parts: list[Part] = []
        self.signs: list[Sign] = []
        self.readings: list[Reading] = []

    @property
    def last(self) -> Sign:
        """The last sign that waits."""
        return self.signs[-1] if self.signs else _NO_SIGN

    def push(self, sign: Sign) -> None:
        """Adds a sign to those that wait."""
        last = self.last
        is_opening = sign.rank is Rank.OPENING and sign.character not in _APPLIED
        self.signs.append(
            sign._replace(
                opening=len(self.signs) if is_opening else last.opening,
                last=last.last if sign.rank is Rank.PREFIX else sign.character,
                in_list=last.in_list or _takes_several(sign.function),
            )
        )

    def say_last(self) -> None:
        """Makes a reading repeat the function that waits for the last operand, if there is one."""
        if self.last.rank is Rank.FUNCTION:
            self.signs[-1] = self.last._replace(is_said=True)

    def separate(self, position: int) -> bool:
        """Ends an argument of a function at a comma, or at the word `and` of a list in words.
        Returns whether there can be another."""
        opening = self.last_opening()
        if not opening or not _takes_several(opening.function):
            return False
        if self._normal[position] == "a" and opening.character != "of":
            return False
        self.complete(Rank.OPENING)
        is_said = self.signs.pop().is_said or bool(_THOUSANDS.match(self._normal, position))
        self.signs.append(opening._replace(n_before=opening.n_before + 1, is_said=is_said))
        return True

    def last_opening(self) -> Sign | None:
        """Returns the last parenthesis, bar or pair of words that is open."""
        return self.signs[self.last.opening] if self.last.opening >= 0 else None

    def close(self, end: int) -> None:
        """Completes the part since the last parenthesis or bar, which is closed at `end`."""
        self.complete(Rank.OPENING)
        opening, part = self.signs.pop(), self.parts.pop()
        node = part.node
        if opening.character == "of":
            end = part.end
        if opening.function:
            first = len(self.parts) - opening.n_before
            nodes = [*(before.node for before in self.parts[first:]), node]
            del self.parts[first:]
            self._apply(opening, nodes, end)
            return
        if opening.character == "|":
            node = Expression("||", (node,), opening.start, end)
        self.parts.append(Part(node, opening.start, end))

    def closes(self, character: str) -> bool:
        """Returns whether a ) or | has its opening. A list in words ends before a )."""
        while character == ")" and (opening := self.last_opening()) and opening.character == "of":
            self.close(0)
        opening = self.last_opening()
        return opening is not None and opening.character == {")": "(", "|": "|"}[character]

    def wait_for_second(self, words: str, start: int, end: int) -> int:
        """Adds the operation between two operands to the signs that wait. Returns `end`."""
        self.complete(Rank.OPENING)
        opening = self.signs.pop()
        sign, _, is_reversed = spelling.PAIRS[words]
        first = self.parts.pop()
        self.parts.append(first._replace(start=opening.start))
        self.push(Sign(sign, Rank.OPENING, start, True, is_reversed))
        return end

    def wait(self, sign: str, start: int, end: int) -> int:
        """Adds an operation at text[start:end] to the signs that wait. Returns `end`."""
        rank = _RANKS.get(sign, Rank.PRODUCT)
        is_said = sign == "^" and self.last.rank is Rank.FUNCTION  # sin 2^2 is sin(2)^2
        # 2^3^2 is 2^(3^2), 2-3-2 is (2-3)-2
        self.complete(rank + 1 if rank is Rank.POWER else rank)
        typed = self._normal[start:end]
        is_said |= typed in spelling.SAID or (sign == "mod" and typed == "%")
        self.push(Sign(sign, rank, start, is_said))
        return end

    def complete(self, rank: int) -> None:
        """Applies the waiting signs, back to the first that binds less tightly than `rank`."""
        while self.signs and self.signs[-1].rank >= rank:
            if self.signs[-1].rank is Rank.FUNCTION:
                right = self.parts.pop()
                self._apply(self.signs.pop(), [right.node], right.end)
                continue
            if self.signs[-1].character not in _APPLIED:
                break
            sign, right = self.signs.pop(), self.parts.pop()
            if sign.rank is Rank.PREFIX:
                self.parts.append(self._signed(sign, right))
                continue
            left = self.parts.pop()
            if sign.is_reversed:
                left, right = right._replace(start=left.start), left._replace(end=right.end)
            if sign.character == "off" or (sign.rank is Rank.SUM and right.is_percentage):
                self.parts.append(self._percentage(left, sign, right))
                continue
            part = operation(sign.character, left, right)
            read, other = part.node.text, None
            if root := _odd_root(sign.character, left, right):
                part, read = root, READINGS["root"].format(root=root.node.text)
            elif (
                sign.character == right.node.sign == "^"
                and right.start == right.node.start
                and len(self.readings) < MAX_READINGS
            ):
                inner, last = right.node.operands
                first = operation("^", left, Part(inner, right.start, inner.end))
                other = operation("^", first, Part(last, last.start, right.end)).node
            self.parts.append(part)
            if root or other or sign.is_said:
                typed = self.text[part.start : part.end]
                self.say(typed, read, part.start, part.end, other)

    def _signed(self, sign: Sign, operand: Part) -> Part:
        """Returns a part with a sign before it, and with those directly before that sign. A minus
        is the sign of a number, also of one with signs such as % after it."""
        minuses = [sign] if sign.character == "-" else []
        while self.last.rank is Rank.PREFIX:
            sign = self.signs.pop()
            minuses += [sign] if sign.character == "-" else []
        node, after = operand.node, []
        while node.sign in ("%", "°") and node.start == operand.start:
            after.append(node)
            node = node.operands[0]
        if minuses and not node.sign:
            start, end = minuses[-1].start, node.end if after else operand.end
            units = -node.number.units if len(minuses) % 2 else node.number.units
            node = literal(Number(units, node.number.places), start, end)
            for part in reversed(after):
                node = Expression(part.sign, (node,), start, part.end)
        else:
            node = operand.node
            for _, _, start, *_ in minuses:
                zero = literal(Number(0), start, start + 1)
                node = Expression("-", (zero, node), start, operand.end)
        return operand._replace(node=node, start=sign.start)

    def _apply(self, sign: Sign, nodes: list[Expression], end: int) -> None:
        """Adds a function of some arguments. Raises ExpressionError for the wrong number of them.

        The sine of 30° has a name of its own, so that it is not calculated by way of radians.
        """
        name, start, base = sign.function or sign.character, sign.start, sign.base
        if base and base.is_number(2):
            name = "log2"
        elif base and not base.is_number(10):
            nodes.append(base)
        least, most = arity(name)
        if not least <= len(nodes) <= (most or len(nodes)):
            expected = f"{least} numbers" if least == most > 1 else "1 number"
            expected = expected if least == most else f"{least} to {most} numbers"
            expected = expected if most else f"at least {least} numbers"
            reason = MESSAGES["arguments"].format(name=name, n=expected, m=len(nodes))
            raise ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, end)
        node = nodes[0]
        if name in DEFINITIONS:
            node = _defined(DEFINITIONS[name], node, start, end)
        elif name in ANGLED and (self._style.angle == "degrees" or node.sign == "°"):
            inner = node.operands[0] if node.sign == "°" else node
            node = Expression(f"{name}°", (inner,), start, end)
        else:
            node = Expression(name, tuple(nodes), start, end)
        if name in ARCS and self._style.angle == "degrees":
            node = Expression("degrees", (node,), start, end)
        self.parts.append(Part(node, start, end))
        typed = self.text[start:end]
        if sign.is_said:
            self.say(typed, node.text)
        number = nodes[0].number
        is_number = not nodes[0].sign and node.sign in ANGLED
        if is_number and abs(number.units) >= _DEGREES * 10**number.places:
            x = show(nodes[0])
            read = READINGS["radians"].format(x=nodes[0].text)
            self.say(typed, read, start, end, f"{name}({x}°)")

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
        base, percent = left.node.text, right.node.text
        of = f"({base})" if RANKS[left.node.sign] == 1 else base
        read = READINGS["of"].format(left=base, sign=character, percent=percent, of=of)
        other = None
        if sign.character != "off":
            typed = self.text[right.start : right.end]
            other = f"{self.text[left.start : right.start]}({typed})"
        self.say(self.text[start:end], read, start, end, other)
        return Part(node, start, end)

    def say(
        self,
        typed: str,
        read: str,
        start: int = 0,
        end: int = 0,
        other: str | Expression | None = None,
    ) -> None:
        """Adds that a part was read in this way; `other` is text[start:end] in another reading."""
        text = READINGS["all"].format(typed=shorten(typed.strip(SPACES)), read=read)
        if len(self.readings) >= MAX_READINGS or text in [known.text for known in self.readings]:
            return
        other = show(other) if isinstance(other, Expression) else other
        alternative = f"{self.text[:start]}{other}{self.text[end:]}" if other else None
        self.readings.append(Reading(text, alternative))


_APPLIED = {*_RANKS, "off"}  # signs that have operands
_DEGREES = 10  # from here on, an angle may be meant in degrees
_THOUSANDS = re.compile(spelling.PATTERNS["thousands"])


def _takes_several(name: str) -> bool:
    """Returns whether a function takes several numbers."""
    return bool(name) and arity(name)[1] != 1


def arity(name: str) -> tuple[int, int]:
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


def _odd_root(sign: str, left: Part, right: Part) -> Part | None:
    """Returns the real root that is meant by (-8)^(1/3), or None for another power."""
    fraction = right.node
    is_negative = sign == "^" and not left.node.sign and left.node.number.units < 0
    if not is_negative or fraction.sign != "/" or any(part.sign for part in fraction.operands):
        return None
    numbers = [part.number for part in fraction.operands]
    p, q = (number.units for number in numbers)
    if any(number.places for number in numbers) or q < 0 or q % 2 == 0 or p % q == 0:
        return None
    exponent, degree = (right._replace(node=node) for node in fraction.operands)
    root = operation("root", left, degree)
    return root if p == 1 else operation("^", root, exponent)


def _defined(form: Any, x: Expression, start: int, end: int) -> Expression:
    """Returns what a form of DEFINITIONS stands for."""
    if form == "x":
        return x
    if isinstance(form, int):
        return literal(Number(form), start, end)
    sign, *operands = form
    return Expression(sign, tuple(_defined(o, x, start, end) for o in operands), start, end)
