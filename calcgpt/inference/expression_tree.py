"""The tree of an expression: numbers and operations, each with the position of its text.

A tree may be a thousand operations deep, so nothing here is recursive.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from calcgpt.inference import spelling
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.spelling import MAX_SHOWN
from datagen.arithmetic import Number
from datagen.notation import number_text

T = TypeVar("T")
NO_NUMBER = Number(0)  # of an operation


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A number, or an operation on other expressions, at `text[start:end]`.

    In `(1+2)*3`, the text of the sum is `1+2`, that of the product is all of it: parentheses around
    an operand belong to the operation that uses it.
    """

    sign: str  # "" for a number, else one of RANKS; the name of a function or a constant
    operands: "tuple[Expression, ...]"
    start: int
    end: int
    number: Number = NO_NUMBER

    def is_number(self, value: int) -> bool:
        """Returns whether this is a number of this value."""
        return not self.sign and self.number.units == value * 10**self.number.places


# Sign -> precedence. `+%` and `-%` add and subtract a percentage of their left operand, `%` is a
# hundredth, and `||` a magnitude.
RANKS = {
    **dict.fromkeys((*FUNCTIONS, *CONSTANTS), 5),
    **spelling.RANKS,
    **dict.fromkeys(("+%", "-%"), 1),
    **dict.fromkeys(("!", "%", "°"), 4),
    **dict.fromkeys(("||", ""), 5),
}


_SIGNS = ("^", "°")  # functions that are written as signs


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


def texts(root: Expression) -> list[str]:
    """Returns the canonical texts of all nodes in the order of `postorder`, long ones shortened."""
    found = []

    def text(node: Expression, operands: list[str]) -> str:
        whole = show_node(node, operands)
        found.append(shorten(whole))
        return whole

    fold(root, text)
    return found


def show(root: Expression) -> str:
    """Returns the canonical text of a tree, without spaces and superfluous parentheses. `parse`
    returns the same tree for it, except for positions."""
    return fold(root, show_node)


def show_node(node: Expression, operands: list[str]) -> str:
    """Returns the canonical text of a node, given those of its operands."""
    sign = node.sign
    if not sign:
        return number_text(node.number)
    parts = [
        f"({text})" if _needs_parentheses(node, index) else text
        for index, text in enumerate(operands)
    ]
    if sign == "||":
        return f"|{parts[0]}|"
    if sign in CONSTANTS:
        return sign
    if sign.endswith("°") and sign != "°":  # sin°
        operand = parts[0] if RANKS[node.operands[0].sign] == 5 else f"({parts[0]})"
        return f"{sign[:-1]}({operand}°)"
    if sign in FUNCTIONS and sign not in _SIGNS:
        return f"{sign}({', '.join(parts)})"
    if sign in ("!", "%", "°"):
        return f"{parts[0]}{sign}"
    between = " mod " if sign == "mod" else sign.rstrip("%")
    return between.join(parts)


def _needs_parentheses(node: Expression, index: int) -> bool:
    """Returns whether an operand of a node is written in parentheses."""
    sign, operand = node.sign, node.operands[index]
    rank, operand_rank = RANKS[sign], RANKS[operand.sign]
    is_negative = not operand.sign and operand.number.units < 0
    if sign == "||" or (sign in FUNCTIONS and sign not in _SIGNS):
        return False
    if sign == "^":
        return bool(operand.sign) if index else operand_rank <= rank or is_negative
    if sign == "!":
        return operand_rank <= rank or is_negative
    if sign in ("+", "-") and index:
        return operand_rank <= rank or operand.sign == "%"  # 100-10% is 100-10% of 100
    return operand_rank < rank + index


def shorten(text: str) -> str:
    """Returns a text of at most about MAX_SHOWN characters: a longer one without its middle."""
    half = MAX_SHOWN // 2
    return text if len(text) <= MAX_SHOWN else f"{text[:half]}...{text[-half:]}"
