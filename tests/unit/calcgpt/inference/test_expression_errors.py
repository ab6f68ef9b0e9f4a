"""What is not an expression is refused with its position, and with what to write instead."""

import pytest

from calcgpt.errors import ExpressionError
from calcgpt.errors import ExpressionErrorKind as Kind
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse
from calcgpt.inference.spelling import MESSAGES

MAX_LENGTH = 10_000


@pytest.mark.parametrize(
    ("typed", "kind", "position", "end", "reason"),
    [
        ("", Kind.SYNTAX, 0, 0, "a number is expected, not the end"),
        ("what is ?", Kind.SYNTAX, 9, 9, "a number is expected, not the end"),
        ("5+ ", Kind.SYNTAX, 3, 3, "a number is expected, not the end"),
        ("5+=", Kind.SYNTAX, 2, 3, "a number is expected, not '='"),
        ("2***3", Kind.SYNTAX, 3, 4, "a number is expected, not '*'"),
        ("2＋＊3", Kind.SYNTAX, 2, 3, "a number is expected, not '＊'"),
        ("%+1", Kind.SYNTAX, 0, 1, "a number is expected, not '%'"),
        ("1+x", Kind.SYNTAX, 2, 3, "a number is expected, not 'x'"),
        ("()+1", Kind.SYNTAX, 1, 2, "a number is expected, not ')'"),
        (".+1", Kind.SYNTAX, 0, 1, "a number is expected, not '.'"),
        ("∜2", Kind.SYNTAX, 0, 1, "a number is expected, not '∜'; this calculator has numbers"),
        ("erf(2)", Kind.SYNTAX, 0, 3, "'erf' is not known: this calculator has numbers"),
        ("e^(iπ)", Kind.SYNTAX, 3, 4, "a number is expected, not 'i'; complex numbers"),
        ("sqrt", Kind.SYNTAX, 4, 4, "a number is expected, not the end"),
        ("1/2π", Kind.NO_OPERATION, 3, 4, "an operation is missing"),
        ("1/2sin(1)", Kind.NO_OPERATION, 3, 6, "an operation is missing"),
        ("2e", Kind.SYNTAX, 1, 2, "'e' is not an operation"),
        ("root(8)", Kind.SYNTAX, 0, 7, "root takes 2 numbers, not 1"),
        ("log(1,2,3)", Kind.SYNTAX, 0, 10, "log takes 1 to 2 numbers, not 3"),
        ("stdev(1)", Kind.SYNTAX, 0, 8, "stdev takes at least 2 numbers, not 1"),
        ("z" * 999, Kind.SYNTAX, 0, 999, f"'{'z' * 30}...{'z' * 30}' is not known"),
        ("7 xor 3", Kind.SYNTAX, 2, 5, "'xor' is not known: write numbers without units"),
        ("5 km", Kind.SYNTAX, 2, 4, "'km' is not known: write numbers without units"),
        ("7 plusses 3", Kind.SYNTAX, 2, 9, "'plusses' is not known"),
        ("7 dıvıded by 3", Kind.SYNTAX, 2, 3, "'d' is not an operation"),
        ("7 of 3", Kind.SYNTAX, 2, 4, "'of' may only follow a percentage"),
        ("5% + 7 off 3", Kind.SYNTAX, 7, 10, "'off' may only follow a percentage"),
        ("100/20% of 50", Kind.SYNTAX, 8, 10, "not a divisor: 20% of 50"),
        ("sum of 3", Kind.SYNTAX, 8, 8, "the word 'and' is missing"),
        ("sum  of 3", Kind.SYNTAX, 9, 9, "the word 'and' is missing"),
        ("\x1c-121", Kind.SYNTAX, 0, 1, "a number is expected"),
        ("2\x851", Kind.SYNTAX, 1, 2, "is not an operation"),
        ("2.5M", Kind.SYNTAX, 3, 4, "; write numbers without units"),
        ("0·5", Kind.SYNTAX, 1, 2, "; a decimal point is written ."),
        ("0x3", Kind.SYNTAX, 1, 2, "'x' is not an operation; valid are + - * / ^; to multiply"),
        ("5!!", Kind.SYNTAX, 2, 3, "5!! is (5!)! to some and the product of every second number"),
        ("1]", Kind.SYNTAX, 1, 2, "a ) without its ("),
        ("|1+2", Kind.SYNTAX, 4, 4, "a | is missing: the | at position 0"),
        ("1+²", Kind.SYNTAX, 2, 3, "a number is expected"),
        ("2⁰⁰⁰⁰⁰⁰⁰", Kind.SYNTAX, 1, 2, "'⁰' is not an operation"),
        ("\x001+1", Kind.SYNTAX, 0, 1, r"a number is expected, not '\x00'"),
        ("1+\ud800", Kind.SYNTAX, 2, 3, r"a number is expected, not '\ud800'"),
        ("__import__('os')", Kind.SYNTAX, 0, 1, "a number is expected, not '_'"),
        ("1\x1b[2J+1", Kind.SYNTAX, 1, 2, r"'\x1b' is not an operation"),
        ("1.2.3", Kind.SYNTAX, 3, 4, "; a number has one decimal point, and a comma separates"),
        ("1_0+1", Kind.SYNTAX, 1, 2, "'_' is not an operation"),
        ("1'234_567+1", Kind.SYNTAX, 5, 6, "only separate thousands"),
        ("1+2)", Kind.SYNTAX, 3, 4, "a ) without its ("),
        ("1+2=3", Kind.SYNTAX, 4, 5, "nothing may follow the ="),
        ("1+2==", Kind.SYNTAX, 4, 5, "nothing may follow the ="),
        ("12+5, 3*4", Kind.SYNTAX, 4, 5, "one expression at a time"),
        ("12+5; 3*4", Kind.SYNTAX, 4, 5, "one expression at a time"),
        ("9 + 17:00", Kind.SYNTAX, 4, 9, "17:00 looks like a time; to divide, write /"),
        ("2024-01-15", Kind.SYNTAX, 0, 10, "2024-01-15 looks like a date"),
        ("1+,5", Kind.DECIMAL_COMMA, 2, 3, "write decimals with a point"),
        ("1,23,45+1", Kind.DECIMAL_COMMA, 1, 2, "write decimals with a point"),
        ("1,234,56+1", Kind.DECIMAL_COMMA, 5, 6, "only separate thousands"),
        ("5 5", Kind.NO_OPERATION, 2, 3, "an operation is missing: one of + - * / ^"),
        ("1\u00a000+1", Kind.NO_OPERATION, 2, 4, "an operation is missing"),
        ("1 100/200", Kind.NO_OPERATION, 0, 9, "is 1100/200 to some and 1+100/200 to others"),
        ("6/2(3+4)", Kind.NO_OPERATION, 3, 4, "; 6/2(3) is (6/2)*3 to some and 6/(2*3) to"),
        ("2^3(4)", Kind.NO_OPERATION, 3, 4, "; 6^2(3) is (6^2)*3 to some"),
        ("20%(50)", Kind.NO_OPERATION, 3, 4, "; write 20% of (50), or 20 mod (50)"),
        ("(3+4)2", Kind.NO_OPERATION, 5, 6, "an operation is missing"),
        ("1e-10000", Kind.TOO_MANY_PLACES, 0, 8, "more than 9,999 decimal places"),
        ("0.1e-9999+1", Kind.TOO_MANY_PLACES, 0, 9, "more than 9,999 decimal places"),
        ("1/3 to 31 places", Kind.TOO_MANY_PLACES, 3, 16, "at most 30 decimal places"),
        ("1e10001", Kind.OUT_OF_RANGE, 1, 7, "an exponent must be from -10,000 to 10,000"),
        ("9" * 5_000 + "e5001", Kind.OUT_OF_RANGE, 0, 5_005, "a number of more than 10,000 digits"),
        ("1" * 1_000_000, Kind.TOO_LONG, MAX_LENGTH, 1_000_000, "longer than 10,000 characters"),
        ("(" * MAX_LENGTH, Kind.SYNTAX, MAX_LENGTH, MAX_LENGTH, "not the end"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(
    typed: str, kind: Kind, position: int, end: int, reason: str
) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse(typed)
    error = refused.value
    assert (error.kind, error.position, error.end) == (kind, position, end)
    assert reason in str(error)
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("typed", "kind", "position", "end", "reason"),
    [
        ("1/(2-2)", Kind.DIVISION_BY_ZERO, 3, 6, "division by zero"),
        ("5 mod 0", Kind.DIVISION_BY_ZERO, 6, 7, "division by zero"),
        ("1+0^-1", Kind.DIVISION_BY_ZERO, 2, 6, "division by zero"),
        ("(0-8)^1.5", Kind.OUT_OF_RANGE, 1, 4, "a number below 0 has no power that is not whole"),
        ("0^-0.5", Kind.DIVISION_BY_ZERO, 0, 6, "division by zero"),
        ("1+sqrt(1-3)", Kind.OUT_OF_RANGE, 7, 10, "a number below 0 has no such root"),
        ("root(-2,4)", Kind.OUT_OF_RANGE, 5, 7, "a number below 0 has no such root"),
        ("root(2,1.5)", Kind.OUT_OF_RANGE, 7, 10, MESSAGES["root"]),
        ("ln(0)", Kind.OUT_OF_RANGE, 3, 4, "only numbers above 0 have a logarithm"),
        ("log(2,1)", Kind.OUT_OF_RANGE, 6, 7, "1 is not the base of a logarithm"),
        ("acos(1.5)", Kind.OUT_OF_RANGE, 5, 8, "only for numbers from -1 to 1"),
        ("tan(90°)", Kind.OUT_OF_RANGE, 0, 8, "the tangent is not defined there"),
        ("tan(pi/2)", Kind.OUT_OF_RANGE, 0, 9, "the tangent is not defined there"),
        ("gcd(4,0.5)", Kind.OUT_OF_RANGE, 6, 9, "only for whole numbers"),
        ("round(1,0.5)", Kind.OUT_OF_RANGE, 8, 11, "a number of places is whole, from -30 to 30"),
        ("sqrt(2)!", Kind.OUT_OF_RANGE, 0, 8, MESSAGES["factorial"]),
        ("1.5!", Kind.OUT_OF_RANGE, 0, 4, MESSAGES["factorial"]),
        ("(0-1)!", Kind.OUT_OF_RANGE, 0, 6, MESSAGES["factorial"]),
        ("5 choose 7", Kind.OUT_OF_RANGE, 0, 10, MESSAGES["binomial"]),
        ("gamma(1/3)", Kind.OUT_OF_RANGE, 6, 9, MESSAGES["gamma"]),
        ("atan2(0,0)", Kind.OUT_OF_RANGE, 0, 10, MESSAGES["origin"]),
    ],
)
def test_what_has_no_value_is_refused_with_its_place(
    typed: str, kind: Kind, position: int, end: int, reason: str
) -> None:
    expression = parse(typed).expression
    with pytest.raises(ExpressionError) as refused:
        evaluate(expression)
    error = refused.value
    assert (error.kind, error.position, error.end) == (kind, position, end)
    assert str(error) == f"{reason} (position {position})"
