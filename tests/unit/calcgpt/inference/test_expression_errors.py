"""What is not an expression is refused with its position, and with what to write instead."""

from __future__ import annotations

import pytest

from calcgpt.errors import ExpressionError
from calcgpt.errors import ExpressionErrorKind as Kind
from calcgpt.inference.expression import MAX_LENGTH, parse


@pytest.mark.parametrize(
    ("typed", "kind", "position", "end", "reason"),
    [
        ("", Kind.SYNTAX, 0, 0, "a number is expected, not the end"),
        ("   ", Kind.SYNTAX, 3, 3, "a number is expected, not the end"),
        ("5+", Kind.SYNTAX, 2, 2, "a number is expected, not the end"),
        ("5+ ", Kind.SYNTAX, 3, 3, "a number is expected, not the end"),
        ("5+=", Kind.SYNTAX, 2, 3, "a number is expected, not '='"),
        ("2***3", Kind.SYNTAX, 3, 4, "a number is expected, not '*'"),
        ("2××3", Kind.SYNTAX, 2, 3, "a number is expected, not '×'"),
        ("2＋＊3", Kind.SYNTAX, 2, 3, "a number is expected, not '＊'"),
        ("2^", Kind.SYNTAX, 2, 2, "a number is expected, not the end"),
        ("%+1", Kind.SYNTAX, 0, 1, "a number is expected, not '%'"),
        (
            "2^1.5",
            Kind.OUT_OF_RANGE,
            2,
            5,
            "an exponent must be written as a whole number from 0 to 40",
        ),
        ("2^3.0", Kind.OUT_OF_RANGE, 2, 5, "an exponent must be written as a whole number"),
        ("2^-3", Kind.OUT_OF_RANGE, 2, 4, "an exponent must be written as a whole number"),
        ("1+2^41", Kind.OUT_OF_RANGE, 4, 6, "an exponent must be written as a whole number"),
        ("2^(1+1)", Kind.OUT_OF_RANGE, 2, 7, "an exponent must be written as a whole number"),
        ("2^3^2", Kind.OUT_OF_RANGE, 2, 5, "an exponent must be written as a whole number"),
        ("2^20%", Kind.OUT_OF_RANGE, 2, 5, "an exponent must be written as a whole number"),
        ("2×÷3", Kind.SYNTAX, 2, 3, "a number is expected, not '÷'"),
        ("1+x", Kind.SYNTAX, 2, 3, "a number is expected, not 'x'"),
        ("()+1", Kind.SYNTAX, 1, 2, "a number is expected, not ')'"),
        (".+1", Kind.SYNTAX, 0, 1, "a number is expected, not '.'"),
        ("nan+1", Kind.SYNTAX, 0, 3, "'nan' is not known: this calculator has only numbers"),
        ("7 mod 3", Kind.SYNTAX, 2, 5, "'mod' is not known"),
        ("7 xor 3", Kind.SYNTAX, 2, 5, "'xor' is not known"),
        ("7 plusses 3", Kind.SYNTAX, 2, 9, "'plusses' is not known"),
        ("7 divided 3", Kind.SYNTAX, 2, 9, "'divided' is not known"),
        ("7 dıvıded by 3", Kind.SYNTAX, 2, 3, "'d' is not an operation"),
        ("half of 3", Kind.SYNTAX, 0, 4, "'half' is not known"),
        ("7 of 3", Kind.SYNTAX, 2, 4, "'of' may only follow a percentage"),
        ("5% + 7 of 3", Kind.SYNTAX, 7, 9, "'of' may only follow a percentage"),
        ("100/20% of 50", Kind.SYNTAX, 8, 10, "not a divisor: 20% of 50"),
        ("7 minuss 3", Kind.SYNTAX, 2, 8, "'minuss' is not known"),
        ("80+15%", Kind.SYNTAX, 2, 6, "+15% has two meanings: for 15% more, write *(1+15%), "),
        ("2*3 - (1+1)%=", Kind.SYNTAX, 4, 12, "for (1+1)% less, write *(1-(1+1)%), else -((1+1)%)"),
        ("1-20%-10%+1", Kind.SYNTAX, 5, 9, "-10% has two meanings"),
        ("80+20+15%", Kind.SYNTAX, 5, 9, "for 15% more, write (80+20)*(1+15%), else +(15%)"),
        ("(80+20)+15%", Kind.SYNTAX, 7, 11, "for 15% more, write *(1+15%), else"),
        (f"1-{'9' * 29}-5%", Kind.SYNTAX, 31, 34, "for 5% less, write (...)*(1-5%), else -(5%)"),
        ("\x1c-121", Kind.SYNTAX, 0, 1, "a number is expected"),
        ("2\x851", Kind.SYNTAX, 1, 2, "is not an operation"),
        ("√2", Kind.SYNTAX, 0, 1, "a number is expected, not '√'; this calculator has only"),
        ("sqrt(2)", Kind.SYNTAX, 0, 4, "'sqrt' is not known"),
        ("5=ab", Kind.SYNTAX, 2, 4, "'ab' is not known"),
        ("٫+1", Kind.SYNTAX, 0, 1, "a number is expected, not '٫'"),
        ("٣٫١٫٤", Kind.SYNTAX, 3, 4, "'٫' is not an operation"),
        ("$5.99*3", Kind.SYNTAX, 0, 1, "a number is expected, not '$'; write numbers without"),
        ("½+1", Kind.SYNTAX, 0, 1, "a number is expected, not '½'; write 0.5 or (1/2)"),
        ("5.99€*2", Kind.SYNTAX, 4, 5, "; write numbers without units"),
        ("2.5M", Kind.SYNTAX, 3, 4, "; write numbers without units"),
        ("5—3", Kind.SYNTAX, 1, 2, "; to subtract, write -"),
        ("0·5", Kind.SYNTAX, 1, 2, "; a decimal point is written ."),
        ("?", Kind.SYNTAX, 1, 1, "a number is expected, not the end"),
        ("2+2??", Kind.SYNTAX, 3, 4, "'?' is not an operation"),
        ("==2", Kind.SYNTAX, 1, 2, "a number is expected, not '='"),
        ("1]", Kind.SYNTAX, 1, 2, "a ) without its ("),
        ("1+²", Kind.SYNTAX, 2, 3, "a number is expected"),
        ("\x001+1", Kind.SYNTAX, 0, 1, r"a number is expected, not '\x00'"),
        ("1+\ud800", Kind.SYNTAX, 2, 3, r"a number is expected, not '\ud800'"),
        ("__import__('os')", Kind.SYNTAX, 0, 1, "a number is expected, not '_'"),
        ("5&2", Kind.SYNTAX, 1, 2, "'&' is not an operation; valid are + - * / ^"),
        (
            "1e3",
            Kind.SYNTAX,
            1,
            2,
            "'e' is not an operation; valid are + - * / ^; write a number with all",
        ),
        ("0x3", Kind.SYNTAX, 1, 2, "'x' is not an operation; valid are + - * / ^; to multiply"),
        ("2¹·⁵", Kind.SYNTAX, 3, 4, "a number is expected, not '⁵'"),
        (
            "2⁴¹",
            Kind.OUT_OF_RANGE,
            1,
            3,
            "an exponent must be written as a whole number from 0 to 40",
        ),
        ("6:3", Kind.SYNTAX, 1, 2, "':' is not an operation; valid are + - * / ^; to divide"),
        ("1\x1b[2J+1", Kind.SYNTAX, 1, 2, r"'\x1b' is not an operation"),
        ("1.2.3", Kind.SYNTAX, 3, 4, "; a number has one decimal point, and a comma separates"),
        ("5..3", Kind.SYNTAX, 2, 3, "'.' is not an operation"),
        ("1_0+1", Kind.SYNTAX, 1, 2, "'_' is not an operation"),
        ("1''000+1", Kind.SYNTAX, 1, 2, "only separate thousands"),
        ("1'234_567+1", Kind.SYNTAX, 5, 6, "only separate thousands"),
        ("(1+2", Kind.SYNTAX, 4, 4, "a ) is missing: the ( at position 0"),
        ("(1+(2)*(3+4) ", Kind.SYNTAX, 13, 13, "a ) is missing: the ( at position 0"),
        ("(1+(2+3", Kind.SYNTAX, 7, 7, "a ) is missing: the ( at position 3"),
        ("(1+2=)", Kind.SYNTAX, 4, 5, "a ) is missing: the ( at position 0"),
        ("1+(2=", Kind.SYNTAX, 4, 5, "a ) is missing: the ( at position 2"),
        ("1+2)", Kind.SYNTAX, 3, 4, "a ) without its ("),
        ("1+2=3", Kind.SYNTAX, 4, 5, "nothing may follow the ="),
        ("1+2==", Kind.SYNTAX, 4, 5, "nothing may follow the ="),
        ("1+2=x", Kind.SYNTAX, 4, 5, "nothing may follow the ="),
        ("12,5", Kind.DECIMAL_COMMA, 2, 3, "write decimals with a point"),
        ("1,5+2", Kind.DECIMAL_COMMA, 1, 2, "write decimals with a point"),
        ("1+2,5", Kind.DECIMAL_COMMA, 3, 4, "write decimals with a point"),
        ("1+,5", Kind.DECIMAL_COMMA, 2, 3, "write decimals with a point"),
        ("1,23,45+1", Kind.DECIMAL_COMMA, 1, 2, "write decimals with a point"),
        ("12,34+1", Kind.DECIMAL_COMMA, 2, 3, "write decimals with a point"),
        ("0,500+1", Kind.DECIMAL_COMMA, 1, 2, "only separate thousands"),
        ("1234,567+1", Kind.DECIMAL_COMMA, 4, 5, "only separate thousands"),
        ("1,2345+1", Kind.DECIMAL_COMMA, 1, 2, "only separate thousands"),
        ("1,234,56+1", Kind.DECIMAL_COMMA, 5, 6, "only separate thousands"),
        ("1.234,5+1", Kind.DECIMAL_COMMA, 5, 6, "write decimals with a point"),
        ("1\u202f234,5+1", Kind.DECIMAL_COMMA, 5, 6, "write decimals with a point"),
        ("5 5", Kind.NO_OPERATION, 2, 3, "an operation is missing: one of + - * / ^"),
        ("5 % 2", Kind.NO_OPERATION, 4, 5, "% divides by 100, and there is no remainder"),
        ("1 000+1", Kind.NO_OPERATION, 2, 5, "; a comma may separate thousands, a space may not"),
        ("3 1/2 + 2/3", Kind.NO_OPERATION, 2, 3, "as a sum, like (3+1/2)"),
        ("1\u00a000+1", Kind.NO_OPERATION, 2, 4, "an operation is missing"),
        ("6/2(3+4)", Kind.NO_OPERATION, 3, 4, "; 6/2(3) is (6/2)*3 to some and 6/(2*3) to"),
        ("6÷ -2(3)", Kind.NO_OPERATION, 5, 6, "an operation is missing"),
        ("2^3(4)", Kind.NO_OPERATION, 3, 4, "; 6^2(3) is (6^2)*3 to some"),
        ("2³(4)", Kind.NO_OPERATION, 2, 3, "an operation is missing"),
        ("5%(2)", Kind.NO_OPERATION, 2, 3, "% divides by 100, and there is no remainder"),
        ("(3+4)2", Kind.NO_OPERATION, 5, 6, "an operation is missing"),
        ("1.2345678901+1", Kind.TOO_MANY_PLACES, 11, 12, "more than 9 decimal places"),
        ("1+.0000000001", Kind.TOO_MANY_PLACES, 12, 13, "more than 9 decimal places"),
        ("1,000.123456789034+1", Kind.TOO_MANY_PLACES, 16, 18, "more than 9 decimal places"),
        ("1" * 1_000_000, Kind.TOO_LONG, MAX_LENGTH, 1_000_000, "longer than 400 characters"),
        (" " * 401 + "1+1", Kind.TOO_LONG, MAX_LENGTH, 404, "longer than 400 characters"),
        ("(" * 400, Kind.SYNTAX, 400, 400, "not the end"),
        (")" * 400, Kind.SYNTAX, 0, 1, "not ')'"),
        ("-" * 400, Kind.SYNTAX, 400, 400, "not the end"),
        ("+".join("1" * 200), Kind.TOO_DEEP, 0, 83, "more than 40 operations"),
        ("-" * 395 + "(1+2)", Kind.TOO_DEEP, 355, 400, "more than 40 operations"),
        ("1+(" * 60 + "1+1" + ")" * 60, Kind.TOO_DEEP, 60, 223, "more than 40 operations"),
        ("(1+1)^40^1", Kind.OUT_OF_RANGE, 6, 10, "an exponent must be written as a whole number"),
        ("((1^2+1)^39)+1", Kind.TOO_DEEP, 0, 14, "more than 40 operations"),
        ("1" + "%" * 41, Kind.TOO_DEEP, 0, 42, "more than 40 operations"),
        ("+".join(["(1^8*1^8*1^8)"] * 9), Kind.TOO_LONG, 0, 125, "more than 200 operations"),
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
    ("typed", "message"),
    [
        ("5&2", "'&' is not an operation; valid are + - * / ^ (position 1)"),
        ("1+2=3", "nothing may follow the = (position 4)"),
    ],
)
def test_an_error_without_a_hint_has_only_the_reason(typed: str, message: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse(typed)
    assert str(refused.value) == message
