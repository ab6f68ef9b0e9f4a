"""How near to 0 an algebraic number can be without being 0.

A number that is made of fractions by + - * /, roots and sines of rational parts of pi is a quotient
of two algebraic integers of a degree of at most D. If all conjugates of these are at most 2^a and
2^b, the number is 0 or at least 1 / 2^((D - 1) a + b) (Burnikel, Funke, Mehlhorn, Schirra and
Schmitt 2001, A separation bound for real algebraic expressions, theorem 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from calcgpt.inference import closed_form
from calcgpt.inference.closed_form import Form
from calcgpt.inference.effort import spend


class Part(Protocol):
    """What is asked of a number (`calcgpt.inference.real.Real`)."""

    exact: Fraction | None
    operation: str
    exponent: Fraction

    @property
    def operands(self) -> Sequence[Part]: ...

    @property
    def form(self) -> Form | None: ...


_MAX_DEGREE = 2**12  # beyond which no enclosure is as small as the bound
Bounds = tuple[int, int]  # a and b


def separation(parts: Sequence[Part]) -> int | None:
    """Returns n for which the last of some numbers is 0 or at least 2**-n; None if it is not
    algebraic or the bound too small. `parts` are what it is made of, in order."""
    bounds: dict[int, Bounds | None] = {}
    degree = 1
    for part in parts:
        spend(1)
        known = [bounds[id(operand)] for operand in part.operands if part.exact is None]
        turns = _half_turns(part)
        bound = None
        if part.exact is not None:
            n, d = part.exact.as_integer_ratio()
            bound = (n.bit_length(), d.bit_length())
        elif turns is not None:  # twice this number is a sum of two roots of unity
            bound = (1, 1)
            degree *= 2 * turns.denominator
        elif all(known) and part.operation in ("+", "*", "/", "^"):
            bound = _combined(part, *known)  # type: ignore[arg-type]
            degree *= part.exponent.denominator
        bounds[id(part)] = bound
    last = bounds[id(parts[-1])]
    if last is None or degree > _MAX_DEGREE:
        return None
    return (degree - 1) * last[0] + last[1]


def _combined(part: Part, x: Bounds, y: Bounds = (0, 0)) -> Bounds:
    """Returns the bounds of an operation (table 1 of the paper), rounded up."""
    (a, b), (c, d) = x, y
    if part.operation == "+":
        return max(a + d, c + b) + 1, b + d
    if part.operation == "*":
        return a + c, b + d
    if part.operation == "/":
        return a + d, b + c
    n, root = part.exponent.as_integer_ratio()
    a, b = (a * n, b * n) if n > 0 else (-b * n, -a * n)
    if a >= b:
        return -(-(a + (root - 1) * b) // root), b
    return a, -(-((root - 1) * a + b) // root)


def _half_turns(part: Part) -> Fraction | None:
    """Returns q for the sine or cosine of q*pi, else None."""
    form = part.operands[0].form if part.operation in ("sin", "cos") else None
    return closed_form.half_turns(form) if form else None
