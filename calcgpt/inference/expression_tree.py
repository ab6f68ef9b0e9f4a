"""The tree of an expression: operations on numbers, each with the position of its text.

A number alone is an expression too. Every node has the position of its text. Parentheses around an
operand belong to the operation that uses it: in `(1+2)*3` the text of the sum is `1+2`, that of the
product is all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from calcgpt.inference import spelling
from datagen.arithmetic import Number, Operation
from datagen.notation import number_text


@dataclass(frozen=True, slots=True)
class Literal:
    """A number with its sign, at `text[start:end]`."""

    number: Number
    start: int
    end: int
    depth: ClassVar[int] = 0
    n_operations: ClassVar[int] = 0

    def superfluous_places(self, text: str, places: int) -> tuple[int, int]:
        """Returns where the typed digits beyond `places` begin, with the first that is not 0, and
        where they end. There must be such a digit."""
        text = text.translate(spelling.NORMAL)
        typed = spelling.DIGITS.match(text, text.index(".", self.start) + 1 + places)
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
        """The number of products that compute it, one after the other."""
        return max(0, self.exponent - 1)

    @property
    def depth(self) -> int:
        return self.base.depth + self.n_products

    @property
    def n_operations(self) -> int:
        return self.base.n_operations + self.n_products


Expression: TypeAlias = Literal | Binary | Power


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
