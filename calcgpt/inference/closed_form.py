"""Closed forms, by which equal numbers are recognized: sqrt(2)*sqrt(8) is 4, log2(8) is 3.

A form is a quotient of two polynomials with rational coefficients, in numbers such as roots of
primes, pi, exp(1/3), ln(2), sin(1). Forms are rewritten by identities alone. So two numbers with
one form are equal, which is all that a form is used for: that two numbers are different is seen
from their digits (`calcgpt.inference.real`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

# A number that a form treats as a variable: ("prime", p), which stands under a root; ("pi",);
# ("exp", monomial), whose value is that of exp; ("ln", p); ("sin", form), ("cos", form);
# ("sine", q) for sin(q*pi); ("asin", form), ("atan", form); ("sum", form), which stands under a
# root; or any other with the name of a function and a form.
Atom = tuple[Any, ...]
Monomial = frozenset[tuple[Atom, Fraction]]  # the atoms and their exponents
Polynomial = dict[Monomial, Fraction]  # the coefficients, none of which is 0

_ONE: Monomial = frozenset()
_MAX_TERMS = 24  # of a polynomial
_MAX_BITS = 4_000  # of a coefficient
_PRIMES = [n for n in range(2, 1_000) if all(n % d for d in range(2, math.isqrt(n) + 1))]
_POSITIVE = {"prime", "pi", "exp", "ln", "sine", "sum"}


class Form(NamedTuple):
    """A number as a quotient. Equal forms are equal numbers."""

    numerator: frozenset[tuple[Monomial, Fraction]]
    denominator: frozenset[tuple[Monomial, Fraction]]

    @property
    def rational(self) -> Fraction | None:
        """The number if it is rational by its form, else None."""
        if not self.numerator:
            return Fraction(0)
        single = self.single
        return single[1] if single and not single[0] else None

    @property
    def single(self) -> tuple[Monomial, Fraction] | None:
        """The monomial and the coefficient, if the form is that of one."""
        if self.denominator != _WHOLE or len(self.numerator) != 1:
            return None
        return next(iter(self.numerator))


class TooLargeError(Exception):
    """A form would have too many terms."""


_WHOLE = frozenset({(_ONE, Fraction(1))})  # the denominator 1


@lru_cache(4_096)
def _one(value: Any) -> Any:
    """Returns the first of equal forms, or monomials. So those that are made of them are compared
    without looking into them again and again, which would take exponential time."""
    return value


def rational(value: Fraction) -> Form:
    """Returns the form of a fraction. Raises TooLargeError."""
    return _quotient({_ONE: value}, {_ONE: Fraction(1)})


def atom(*parts: Any) -> Form:
    """Returns the form of an atom."""
    return _term(Fraction(1), [(parts, Fraction(1))])


PI = Form(frozenset({(frozenset({(("pi",), Fraction(1))}), Fraction(1))}), _WHOLE)


def add(a: Form, b: Form) -> Form:
    """Returns the form of a + b. Raises TooLargeError, as all that follow."""
    (n, d), (m, e) = map(_polynomials, (a, b))
    if d == e:
        return _quotient(_sum(n, m), d)
    return _quotient(_sum(_product(n, e), _product(m, d)), _product(d, e))


def multiply(a: Form, b: Form) -> Form:
    """Returns the form of a * b."""
    (n, d), (m, e) = map(_polynomials, (a, b))
    return _quotient(_product(n, m), _product(d, e))


def inverse(a: Form) -> Form:
    """Returns the form of 1 / a, for a other than 0."""
    n, d = _polynomials(a)
    return _quotient(d, n)


def power(a: Form, exponent: Fraction) -> Form:
    """Returns the form of a power. Unless the exponent is whole, a must be positive."""
    if single := a.single:
        monomial, coefficient = single
        is_whole = exponent.denominator == 1
        if is_whole and abs(exponent) * _bits(coefficient) <= _MAX_BITS:
            powers = [(atom, e * exponent) for atom, e in monomial]
            return _term(coefficient ** int(exponent), powers)
        if coefficient > 0 and all(atom[0] in _POSITIVE for atom, _ in monomial):
            powers = [*_factors(coefficient), *monomial]
            return _term(Fraction(1), [(atom, e * exponent) for atom, e in powers])
    if exponent.denominator == 1 and abs(exponent) <= _MAX_TERMS:
        result = rational(Fraction(1))
        for _ in range(abs(int(exponent))):
            result = multiply(result, a)
        return result if exponent >= 0 else inverse(result)
    if exponent.denominator == 1:
        raise TooLargeError
    whole = exponent.numerator // exponent.denominator
    root = _term(Fraction(1), [(("sum", a), exponent - whole)])
    return multiply(root, power(a, Fraction(whole))) if whole else root


def exp(a: Form) -> Form:
    """Returns the form of e to the power of a."""
    if a.denominator != _WHOLE:
        return _term(Fraction(1), [(("exp", a), Fraction(1))])
    result = rational(Fraction(1))
    for monomial, coefficient in a.numerator:
        (base, exponent), *others = [*monomial] or [(("one",), Fraction(1))]
        is_logarithm = base[0] in ("ln", "ln of") and exponent == 1 and not others
        if is_logarithm and isinstance(base[1], Form):  # exp(ln(x)) is x
            factor = power(base[1], coefficient)
        else:
            of = ("prime", base[1]) if is_logarithm and base[0] == "ln" else ("exp", monomial)
            factor = _term(Fraction(1), [(of, coefficient)])
        result = multiply(result, factor)
    return result


def ln(a: Form) -> Form:
    """Returns the form of the natural logarithm of a, which must be positive."""
    single = a.single
    if not single or single[1] < 0 or any(atom[0] not in _POSITIVE for atom, _ in single[0]):
        return atom("ln of", a)
    result: Polynomial = {}
    for base, exponent in [*_factors(single[1]), *single[0]]:
        if base[0] == "exp" and isinstance(base[1], frozenset):  # ln(exp(x)) is x
            result = _sum(result, {base[1]: exponent})
        elif base[0] == "exp":
            return atom("ln of", a)
        else:
            of = ("ln", base[1]) if base[0] == "prime" else ("ln of", base)
            result = _sum(result, {frozenset({(of, Fraction(1))}): exponent})
    return _quotient(result, {_ONE: Fraction(1)})


def sin(a: Form) -> Form:
    """Returns the form of the sine of an angle in radians."""
    if (turns := half_turns(a)) is not None:
        return _sine(turns)
    if arc := _arc(a):
        name, x = arc
        return x if name == "asin" else multiply(x, power(_square_sum(x, 1), Fraction(-1, 2)))
    return atom("sin", a)


def cos(a: Form) -> Form:
    """Returns the form of the cosine of an angle in radians."""
    if (turns := half_turns(a)) is not None:
        return _sine(Fraction(1, 2) - turns)
    if arc := _arc(a):
        name, x = arc
        exponent, sign = (Fraction(1, 2), -1) if name == "asin" else (Fraction(-1, 2), 1)
        return power(_square_sum(x, sign), exponent)
    return atom("cos", a)


def asin(a: Form) -> Form:
    """Returns the form of the angle from -pi/2 to pi/2 with this sine. a must be from 0 to 1."""
    for q in _ANGLES:
        if _sine(q) == a:
            return multiply(rational(q), PI)
    return atom("asin", a)


def atan(a: Form) -> Form:
    """Returns the form of the angle from -pi/2 to pi/2 with this tangent. a must not be below 0."""
    for q in _ANGLES[:-1]:
        tangent = multiply(_sine(q), inverse(_sine(Fraction(1, 2) - q)))
        if not add(a, multiply(rational(Fraction(-1)), tangent)).numerator:
            return multiply(rational(q), PI)
    return atom("atan", a)


def half_turns(a: Form) -> Fraction | None:
    """Returns q for the form of q*pi, else None."""
    if not a.numerator:
        return Fraction(0)
    single = a.single
    is_of_pi = single is not None and single[0] == frozenset({(("pi",), Fraction(1))})
    return single[1] if single and is_of_pi else None


_ANGLES = [Fraction(k, 12) for k in (0, 1, 2, 3, 4, 5, 6)]


@lru_cache(256)
def _sine(q: Fraction) -> Form:
    """Returns the form of sin(q*pi). Other rational multiples of pi have no rational sine (Niven,
    Irrational Numbers, corollary 3.12)."""
    q %= 2
    if q >= 1:
        return multiply(rational(Fraction(-1)), _sine(q - 1))
    if q > Fraction(1, 2):
        return _sine(1 - q)
    if q in (Fraction(1, 12), Fraction(5, 12)):
        roots = [power(rational(Fraction(n)), Fraction(1, 2)) for n in (6, 2)]
        sign = rational(Fraction(-1 if q == Fraction(1, 12) else 1))
        return multiply(rational(Fraction(1, 4)), add(roots[0], multiply(sign, roots[1])))
    squares = {2: 1, 3: 2, 4: 3, 6: 4}  # 4 sin(k pi/12)^2
    if not q:
        return rational(q)
    if (12 * q).denominator == 1:
        return power(rational(Fraction(squares[int(12 * q)], 4)), Fraction(1, 2))
    return atom("sine", q)


def _arc(a: Form) -> tuple[str, Form] | None:
    """Returns "asin" or "atan", and x, for the form of one of x."""
    single = a.single
    if not single or single[1] != 1 or len(single[0]) != 1:
        return None
    base, exponent = next(iter(single[0]))
    return base if base[0] in ("asin", "atan") and exponent == 1 else None


def _square_sum(x: Form, sign: int) -> Form:
    """Returns the form of 1 + sign * x^2."""
    return add(rational(Fraction(1)), multiply(rational(Fraction(sign)), multiply(x, x)))


def _factors(value: Fraction) -> list[tuple[Atom, Fraction]]:
    """Returns the prime factors of a positive number, and the exponent of each. What is left after
    division by small primes counts as prime, which an identity does not need."""
    factors = []
    for number, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime in _PRIMES:
            exponent = 0
            while number % prime == 0:
                number, exponent = number // prime, exponent + 1
            if exponent:
                factors.append((("prime", prime), Fraction(sign * exponent)))
        if number > 1:
            factors.append((("prime", number), Fraction(sign)))
    return factors


def _polynomials(a: Form) -> tuple[Polynomial, Polynomial]:
    return dict(a.numerator), dict(a.denominator)


def _quotient(n: Polynomial, d: Polynomial) -> Form:
    """Returns the form of a quotient. d is not 0."""
    if not all(n.values()):
        n = {monomial: c for monomial, c in n.items() if c}
    if not n:
        return Form(frozenset(), _WHOLE)
    if len(n) == len(d) > 1 and (ratio := _ratio(n, d)):
        n, d = ratio, {_ONE: Fraction(1)}
    if len(d) == 1 and d != {_ONE: 1}:
        (monomial, c), n_before, n = *d.items(), n, {}
        inverted = [(atom, -e) for atom, e in monomial]
        for other, value in n_before.items():
            n = _sum(n, dict(_term(value / c, [*other, *inverted]).numerator))
        d = {_ONE: Fraction(1)}
    if max(len(n), len(d)) > _MAX_TERMS or any(_bits(c) > _MAX_BITS for c in n.values()):
        raise TooLargeError
    form: Form = _one(Form(frozenset(n.items()), frozenset(d.items())))
    return form


def _ratio(n: Polynomial, d: Polynomial) -> Polynomial | None:
    """Returns n / d if that is one term."""
    monomial, c = next(iter(d.items()))
    inverted = [(atom, -e) for atom, e in monomial]
    for other, value in n.items():
        term = dict(_term(value / c, [*other, *inverted]).numerator)
        if _product(term, d) == n:
            return term
    return None


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    result = dict(a)
    for monomial, c in b.items():
        total = result.get(monomial, Fraction(0)) + c
        if total:
            result[monomial] = total
        else:
            del result[monomial]
    return result


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    if len(a) * len(b) > _MAX_TERMS**2:
        raise TooLargeError
    result: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            result = _sum(result, dict(_term(c * d, [*m, *n]).numerator))
    return result


def _term(coefficient: Fraction, powers: Iterable[tuple[Atom, Fraction]]) -> Form:
    """Returns the form of a product of powers of atoms, which is a polynomial."""
    exponents: dict[Atom, Fraction] = {}
    for base, exponent in powers:
        exponents[base] = exponents.get(base, Fraction(0)) + exponent
    factors, kept = [], {}
    for base, exponent in exponents.items():
        whole = exponent.numerator // exponent.denominator
        if base[0] == "prime" and abs(whole) * _bits(Fraction(base[1])) <= _MAX_BITS:
            coefficient *= Fraction(base[1]) ** whole
            exponent -= whole
        elif base[0] == "sum" and whole > 0 and base[1].denominator == _WHOLE:
            factors.append(power(base[1], Fraction(whole)))
            exponent -= whole
        elif base[0] == "sin" and exponent.denominator == 1 and whole > 1:
            cosine = atom("cos", base[1])
            factors += [_square_sum(cosine, -1)] * (whole // 2)
            exponent = Fraction(whole % 2)
        if exponent:
            kept[base] = exponent
    result = Form(frozenset({(_one(frozenset(kept.items())), coefficient)}), _WHOLE)
    for factor in factors:
        result = multiply(result, factor)
    return result


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
