"""How exact the parts of an expression must be, so that its value is right.

The value changes by the derivative times the error of a part (reverse accumulation; Griewank and
Walther 2008, Evaluating Derivatives, section 3.2). So (1-cos(x))*exp(200) needs 87 places more of
the cosine, and hardly any of the exponential. Derivatives are estimated: a plan is checked by its
result.
"""

import math
from collections.abc import Callable, Sequence

from calcgpt.inference.expression_tree import Expression
from calcgpt.inference.real import Real, fraction

LARGEST = 4_000.0  # places
Sizes = Sequence[float]  # decimal logarithms of magnitudes


def more_places(nodes: Sequence[Expression], values: Sequence[Real]) -> list[int]:
    """Returns how many more places each node needs than the last, which may be negative. `nodes`
    are in postorder, and `values` theirs."""
    sizes = [_bounded(value.size()) for value in values]
    operands_of: list[list[int]] = []  # indices
    waiting: list[int] = []
    for index, node in enumerate(nodes):
        first = len(waiting) - len(node.operands)
        operands_of.append(waiting[first:])
        waiting[first:] = [index]
    places = [0.0] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        sign, operands = nodes[index].sign, operands_of[index]
        if sign in _DECIDED:
            distances = [_to_whole(values[operand]) for operand in operands]
            changes = [-places[index] - distance for distance in distances]
        else:
            change = _CHANGES.get(sign, _no_change)
            changes = [*change(*(sizes[operand] for operand in operands), sizes[index])]
        for n, operand in enumerate(operands):
            places[operand] = _bounded(places[index] + changes[min(n, len(changes) - 1)])
    return [math.ceil(more) for more in places]


def _bounded(places: float) -> float:
    return min(max(places, -LARGEST), LARGEST)


def _to_whole(value: Real) -> float:
    """Returns the size of the distance to the nearest half, at most 0."""
    near = 2 * value.approximate()
    return min(0.0, fraction(near - round(near)).size()) if near != round(near) else 0.0


def _no_change(*_: float) -> Sizes:
    return 0.0, 0.0


def _of_power(a: float, b: float, r: float) -> Sizes:
    return b + r - a, r + 0.5 + math.log10(abs(a) + 0.5)


# Sign -> the sizes of the derivatives, one for each operand, given the sizes of the operands and of
# the result. Those that are not here are at most about 1.
_CHANGES: dict[str, Callable[..., Sizes]] = {
    "*": lambda a, b, r: (b, a),
    "/": lambda a, b, r: (-b, r - b),
    "//": lambda a, b, r: (-b, r - b),
    "mod": lambda a, b, r: (0.0, max(0.0, a - b)),
    "%": lambda a, r: (-2.0,),
    "+%": lambda a, b, r: (max(b, 0.0), a),
    "-%": lambda a, b, r: (max(b, 0.0), a),
    "^": _of_power,
    "exp": lambda a, r: (r,),
    **dict.fromkeys(("sinh", "cosh"), lambda a, r: (max(r, 0.0),)),
    **dict.fromkeys(("ln", "log", "log2"), lambda a, *others: (-a, -min(0.0, others[0]))),
    **dict.fromkeys(("sqrt", "cbrt"), lambda a, r: (r - a,)),
    "root": lambda a, n, r: (r - a, r),
    "tan": lambda a, r: (max(0.0, 2 * r),),
    "tan°": lambda a, r: (max(0.0, 2 * r) - 1.7,),
    **dict.fromkeys(("sin°", "cos°", "°"), lambda a, r: (-1.7,)),
    "degrees": lambda a, r: (1.8,),
}
_DECIDED = {"floor", "ceil", "trunc", "round", "sign"}  # whose results are whole
