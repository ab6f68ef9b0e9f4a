"""Exact values of problems, by fractions."""

from fractions import Fraction

from datagen.arithmetic import Number, Problem


def value(number: Number) -> Fraction:
    """Returns a number as a fraction."""
    return Fraction(number.units, 10**number.places)


def exact(problem: Problem) -> Fraction:
    """Returns the value of a problem before it is rounded."""
    a, b = value(problem.a), value(problem.b)
    match problem.op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    return a / b
