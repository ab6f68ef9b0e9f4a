"""The tree of an expression: numbers and operations, each with the position of its text.

A tree may be a thousand operations deep, so nothing here is recursive.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference import spelling
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.spelling import MAX_OPERATIONS, MAX_SHOWN, MESSAGES
from datagen.arithmetic import Number
from datagen.notation import number_text

T = TypeVar("T")
NO_NUMBER = Number(0)  # of an operation


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A number, or an operation on other expressions, at `text[start:end]`.

    In `(1+2)*3`, the text of the sum is `1+2`, that of the product is all of it: parentheses around
    an operand belong to the operation that uses it. Raises ExpressionError for more than
    MAX_OPERATIONS.
    """

    sign: str  # "" for a number, else one of RANKS; the name of a function or a constant
    operands: "tuple[Expression, ...]"
    start: int
    end: int
    number: Number = NO_NUMBER
    text: str = field(init=False)  # as `show` returns it, but without its middle if it is long
    n_operations: int = field(init=False)

    def __post_init__(self) -> None:
        n_operations = bool(self.sign) + sum(operand.n_operations for operand in self.operands)
        if n_operations > MAX_OPERATIONS:
            kind = ExpressionErrorKind.TOO_LONG
            raise ExpressionError(kind, MESSAGES["operations"], self.start, self.end)
        if self.sign:
            pieces = (piece if isinstance(piece, str) else piece.text for piece in _pieces(self))
            text = shorten("".join(pieces))
        else:
            text = _short(self.number.units, self.number.places)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "n_operations", n_operations)

    def is_number(self, value: int) -> bool:
        """Returns whether this is a number of this value."""
        return not self.sign and self.number.units == value * 10**self.number.places


# Sign -> precedence. `+%` and `-%` add and subtract a percentage of their left operand, `%` is a
# hundredth, and `||` a magnitude.
_NAMED = set(FUNCTIONS) - {"^", "°"}  # the others are written as signs
RANKS = {
    **spelling.RANKS,
    **dict.fromkeys(("+%", "-%"), 1),
    **dict.fromkeys(("!", "%", "°"), 4),
    **dict.fromkeys((*_NAMED, *CONSTANTS, "||", ""), 5),
}


def postorder(root: Expression) -> list[Expression]:
    """Returns all nodes of a tree, operands before the operation that uses them."""
    nodes, waiting = [], [root]
    while waiting:
        nodes.append(waiting.pop())
        waiting.extend(nodes[-1].operands)
    return nodes[::-1]


def fold(root: Expression, combine: Callable[[Expression, list[T]], T]) -> T:
    """Returns what `combine` makes of a tree. It is called with each node, operands first, and with
    what it has made of the operands."""
    made: list[T] = []
    for node in postorder(root):
        first = len(made) - len(node.operands)
        made[first:] = [combine(node, made[first:])]
    return made[0]


def show(root: Expression) -> str:
    """Returns the canonical text of a tree, without spaces and superfluous parentheses. `parse`
    returns the same tree for it, except for positions."""
    pieces: list[str] = []
    waiting: list[str | Expression] = [root]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str):
            pieces.append(piece)
        else:
            waiting.extend(reversed(_pieces(piece)))
    return "".join(pieces)


def _pieces(node: Expression) -> list[str | Expression]:
    """Returns the canonical text of a node, in which operands stand for their texts."""
    sign, operands = node.sign, node.operands
    if not sign:
        return [number_text(node.number)]
    if not operands:
        return [sign]
    if sign == "||":
        return ["|", *operands, "|"]
    if sign in _NAMED and not sign.endswith("°"):
        others = (piece for operand in operands[1:] for piece in (", ", operand))
        return [f"{sign}(", operands[0], *others, ")"]
    parts: list[list[str | Expression]] = [
        ["(", operand, ")"] if _needs_parentheses(node, index) else [operand]
        for index, operand in enumerate(operands)
    ]
    if sign in _NAMED:  # sin°
        return [f"{sign[:-1]}(", *parts[0], "°)"]
    if len(parts) == 1:
        return [*parts[0], sign]
    return [*parts[0], " mod " if sign == "mod" else sign.rstrip("%"), *parts[1]]


def _needs_parentheses(node: Expression, index: int) -> bool:
    """Returns whether an operand of a node is written in parentheses."""
    sign, operand = node.sign, node.operands[index]
    rank, operand_rank = RANKS[sign], RANKS.get(operand.sign, 5)  # a program has names, too
    is_negative = not operand.sign and operand.number.units < 0
    if sign == "^":
        return bool(operand.sign) if index else operand_rank <= rank or is_negative
    if sign == "!":
        return operand_rank <= rank or is_negative
    if sign in ("+", "-") and index:
        return operand_rank <= rank or operand.sign == "%"  # 100-10% is 100-10% of 100
    return operand_rank < rank + index


@lru_cache(64)  # -(-(-(9...9))) has two numbers
def _short(units: int, places: int) -> str:
    """Returns the text of a number as `shorten` does. One of the many digits of 1e9990 is not
    written out for that, which takes long."""
    n_dropped = int(units.bit_length() * math.log10(2)) - 2 * MAX_SHOWN
    if places or n_dropped <= 0:
        return shorten(number_text(Number(units, places)))
    half = MAX_SHOWN // 2
    first = f"{'-' * (units < 0)}{abs(units) // 10**n_dropped}"
    return f"{first[:half]}...{abs(units) % 10**half:0{half}}"


def shorten(text: str) -> str:
    """Returns a text of at most about MAX_SHOWN characters: a longer one without its middle."""
    half = MAX_SHOWN // 2
    return text if len(text) <= MAX_SHOWN else f"{text[:half]}...{text[-half:]}"
