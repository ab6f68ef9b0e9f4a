"""What an expression is calculated by where numbers in between would be needlessly long.

170!/168!               170*169, the factors that are left
10^400/10^398           10^2
ln(50!), log2(3^500)    Stirling's series; 500*log2(3)
7^(10^9) mod 13         square and reduce
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import chain

from calcgpt.inference.expression_stack import literal
from calcgpt.inference.expression_tree import Expression, fold
from calcgpt.inference.real import Real, fraction, is_whole
from datagen.arithmetic import Number

_LONG = 40  # digits of a number that is better not written
_LEAST = 64  # for which the terms of Stirling's series are enough for 35 places
Known = dict[Expression, Real]  # the values of nodes


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
        return replace(
            above, operands=(bases[0], _literal(first - second, node, known)), end=node.end
        )
    factorials = _factorials(below)
    if above.sign != "!" or not factorials:
        return None
    argument = above.operands[0]
    largest = max(factorials, key=lambda factorial: _whole(factorial.operands[0], known) or 0)
    n, m = (_whole(of, known) or 0 for of in (argument, largest.operands[0]))
    if n < m:
        return None
    result = replace(node, sign="perm", operands=(argument, _literal(n - m, node, known)))
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
    divisor = base[0] if base else _literal(2 if node.sign == "log2" else 10, node, known)
    natural = replace(node, sign="ln", operands=(divisor,))
    return replace(node, sign="/", operands=(result, natural))


def _remainder(node: Expression, known: Known) -> Expression | None:
    """Reduces the parts of a long whole number."""
    whole, modulus = node.operands
    m = _whole(modulus, known)
    if m is None or m < 1 or known[whole].size() < _LONG:
        return None

    def combine(part: Expression, operands: list[Expression | None]) -> Expression | None:
        """Returns what has the remainder of a part, None if that is not whole."""
        if part.sign == "^" and operands[0]:
            n = _whole(part.operands[1], known)
            if n is not None and n >= 0:
                return replace(part, sign="^mod", operands=(operands[0], part.operands[1], modulus))
        parts = tuple(operand for operand in operands if operand)
        if part.sign in ("+", "-", "*") and len(parts) == 2:
            same = replace(part, operands=parts)
            return replace(part, sign="mod", operands=(same, modulus)) if part.sign == "*" else same
        return part if part in known and is_whole(known[part]) else None

    reduced = fold(whole, combine)
    return reduced and replace(node, operands=(reduced, modulus))


def _whole(node: Expression, known: Known) -> int | None:
    """Returns the value of a node if it is a whole number, else None."""
    return known[node].floor() if is_whole(known[node]) else None


def _literal(value: int, node: Expression, known: Known) -> Expression:
    number = literal(Number(value), node.start, node.end)
    known[number] = fraction(Fraction(value))
    return number


_RULES: dict[str, Callable[[Expression, Known], Expression | None]] = {
    "/": _quotient,
    "mod": _remainder,
    **dict.fromkeys(("ln", "log", "log2"), _logarithm),
}
