"""What an expression is calculated by where numbers in between would be needlessly long.

170!/168!               170*169, the factors that are left
10^400/10^398           10^2
ln(50!), log2(3^500)    Stirling's series; 500*log2(3)
7^(10^9) mod 13         square and reduce
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain

from calcgpt.inference.expression_stack import literal
from calcgpt.inference.expression_tree import Expression, fold
from calcgpt.inference.real import Real, is_whole
from datagen.arithmetic import Number

_LONG = 40  # digits of a number that is better not written
Known = dict[Expression, Real]  # the values of nodes
_LEAST = 64  # for which the terms of Stirling's series are enough for 35 places


def simplify(root: Expression, values: Sequence[Real]) -> Expression:
    """Returns an expression of the same value. `values` are those of `root`, in postorder."""
    known: Known = {}
    remaining = iter(values)

    def combine(node: Expression, operands: list[Expression]) -> Expression:
        value = next(remaining)
        if any(new is not old for new, old in zip(operands, node.operands, strict=True)):
            node = replace(node, operands=tuple(operands))
        if (rule := _RULES.get(node.sign)) and (simpler := rule(node, known)):
            node = simpler
        known[node] = value
        return node

    return fold(root, combine)


def _quotient(node: Expression, known: Known) -> Expression | None:
    """Cancels the factors of factorials, and powers of one base."""
    above, below = node.operands
    if known[above].size() < _LONG:
        return None
    if above.sign == below.sign == "^":
        bases, exponents = zip(above.operands, below.operands, strict=True)
        first, second = (_whole(exponent, known) for exponent in exponents)
        is_one_base = not bases[0].sign and not bases[1].sign and bases[0].number == bases[1].number
        if first is None or second is None or not is_one_base:
            return None
        return replace(above, operands=(bases[0], _literal(first - second, node)), end=node.end)
    factorials = _factorials(below)
    if above.sign != "!" or not factorials:
        return None
    argument = above.operands[0]
    largest = max(factorials, key=lambda factorial: _whole(factorial.operands[0], known) or 0)
    n, m = (_whole(of, known) or 0 for of in (argument, largest.operands[0]))
    if n < m:
        return None
    result = replace(node, sign="perm", operands=(argument, _literal(n - m, node)))
    others = [factorial for factorial in factorials if factorial is not largest]
    return reduce(lambda a, b: replace(node, operands=(a, b)), others, result)


def _factorials(node: Expression) -> list[Expression]:
    """Returns the factorials of a product of nothing else, else []."""

    def combine(part: Expression, operands: list[list[Expression]]) -> list[Expression]:
        if part.sign == "!":
            return [part]
        return [*chain.from_iterable(operands)] if part.sign == "*" and all(operands) else []

    return fold(node, combine)


def _logarithm(node: Expression, known: Known) -> Expression | None:
    """Works out the logarithm of a factorial or a power without writing it."""
    of, *base = node.operands
    if known[of].size() < _LONG:
        return None
    if of.sign == "^" and known[of.operands[0]].sign() > 0:
        logarithm = replace(node, operands=(of.operands[0], *base))
        return replace(node, sign="*", operands=(of.operands[1], logarithm))
    n = _whole(of.operands[0], known) if of.sign == "!" else None
    if n is None or n < _LEAST:
        return None
    result = replace(node, sign="ln!", operands=of.operands)
    if node.sign == "ln":
        return result
    divisor = base[0] if base else _literal(2 if node.sign == "log2" else 10, node)
    natural = replace(node, sign="ln", operands=(divisor,))
    return replace(node, sign="/", operands=(result, natural))


def _remainder(node: Expression, known: Known) -> Expression | None:
    """Reduces the parts of a long whole number."""
    whole, modulus = node.operands
    m = _whole(modulus, known)
    if m is None or m < 1 or known[whole].size() < _LONG:
        return None

    def combine(part: Expression, operands: list[Expression]) -> Expression:
        if part.sign == "^":
            return replace(part, sign="^mod", operands=(*operands, modulus))
        if part.sign == "*":
            return replace(part, sign="mod", operands=(_with(part, operands), modulus))
        return _with(part, operands)

    def is_reduced(part: Expression, operands: list[bool]) -> bool:
        if part.sign == "^":
            n = _whole(part.operands[1], known)
            return operands[0] and n is not None and n >= 0
        is_ring = part.sign in ("+", "-", "*") and all(operands)
        return is_ring or (part in known and is_whole(known[part]))

    if not fold(whole, is_reduced):
        return None
    return _with(node, [_fold_whole(whole, combine, known), modulus])


def _fold_whole(root: Expression, combine: Callable[..., Expression], known: Known) -> Expression:
    """Does what `fold` does, but leaves an exponent as it is."""

    def part(node: Expression, operands: list[Expression]) -> Expression:
        if node.sign == "^":
            operands = [operands[0], node.operands[1]]
        return combine(node, operands)

    return fold(root, part)


def _with(node: Expression, operands: list[Expression]) -> Expression:
    return replace(node, operands=tuple(operands))


def _whole(node: Expression, known: Known) -> int | None:
    """Returns the value of a node if it is a whole number, else None."""
    return known[node].floor() if is_whole(known[node]) else None


def _literal(value: int, node: Expression) -> Expression:
    return literal(Number(value), node.start, node.end)


_RULES: dict[str, Callable[[Expression, Known], Expression | None]] = {
    "/": _quotient,
    "mod": _remainder,
    **dict.fromkeys(("ln", "log", "log2"), _logarithm),
}
