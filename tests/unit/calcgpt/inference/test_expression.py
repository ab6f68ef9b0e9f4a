"""Expressions are read as people mean them, each node with its position, or refused with one."""

import ast
import pickle
import random
import re
import sys
from contextlib import suppress
from decimal import Decimal
from types import FrameType
from typing import Any

import pytest
from datagen_strategies import numbers
from hypothesis import example, given
from hypothesis import strategies as st

from calcgpt.base.errors import ConfigError
from calcgpt.errors import ExpressionError
from calcgpt.errors import ExpressionErrorKind as Kind
from calcgpt.inference import spelling
from calcgpt.inference.exact import plain_text
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_stack import DEFAULT_STYLE, Style
from calcgpt.inference.expression_tree import Expression, postorder, show
from calcgpt.inference.spelling import MAX_OPERATIONS
from datagen.arithmetic import Number
from tools.slowest import recipe

BINARY = ("+", "-", "*", "/", "//", "mod")


def literal(number: Number) -> Expression:
    text = plain_text(number)
    return Expression("", (), 0, 0, number if "." in text else Number(int(text)))


def node(sign: str, *operands: Expression) -> Expression:
    return Expression(sign, operands, 0, 0)


literals = (numbers | st.just(Number(0))).map(literal)
exponents = st.integers(-3, 4).map(lambda n: literal(Number(n)))


def larger(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Operations on these parts, all nodes at 0:0. A percentage of 1 is read as a plain one."""
    binary = st.builds(node, st.sampled_from(BINARY), parts, parts)
    power = st.builds(lambda base, exponent: node("^", base, exponent), parts, exponents | parts)
    single = st.builds(node, st.sampled_from(["!", "%", "||"]), parts)
    percentage = st.builds(
        lambda sign, left, part: node(sign, left, node("%", part)),
        st.sampled_from(["+%", "-%"]),
        parts.filter(lambda left: left.sign == "*" or not (left.sign or left.is_number(1))),
        literals,
    )
    return binary | power | single | percentage


trees = larger(st.recursive(literals, larger, max_leaves=8))


def bare(expression: Expression) -> Any:
    """Returns a tree without positions, as tuples."""
    if not expression.sign:
        return expression.number
    return expression.sign, *map(bare, expression.operands)


def read(text: str, style: Style = DEFAULT_STYLE) -> Expression | ExpressionError:
    """Returns the expression of a text, or its error. No other error is ever raised."""
    try:
        return parse(text, style).expression
    except ExpressionError as error:
        return error


@given(trees)
def test_what_is_shown_is_read_back_and_each_node_stands_for_its_own_text(tree: Expression) -> None:
    text = show(tree)
    again = parse(text).expression
    assert bare(again) == bare(tree)
    assert show(again) == text
    for before, after in zip(postorder(tree), postorder(again), strict=True):
        part = text[after.start : after.end]
        assert part == show(before) or part == "-" or bare(parse(part).expression) == bare(before)


@given(trees)
def test_nothing_superfluous_is_shown(tree: Expression) -> None:
    text = show(tree)
    opened: list[int] = []
    for end, character in enumerate(text):
        if character == "(":
            opened.append(end)
        elif character == ")" and text[(start := opened.pop()) - 1 : start] != "^":
            without = text[:start] + text[start + 1 : end] + text[end + 1 :]
            outcome = read(without)
            is_percentage = text[end - 1] == "%"  # 1-10% needs none, but 100-10% does
            assert is_percentage or isinstance(outcome, ExpressionError) or text != show(outcome)


def of_python(part: ast.expr) -> Any:
    """Returns what `bare` returns for the same tree, from Python's tree. Raises SyntaxError if it
    has calls or tuples, such as `1 ( 1 )` and `( )`."""
    match part:
        case ast.Constant(value=int() | float() as value):
            return literal(Number.from_units(int(100 * Decimal(repr(value))), 2, True)).number
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return of_python(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = of_python(operand)
            if isinstance(value, Number):
                return Number(-value.units, value.places)
            return "-", Number(0), value
        case ast.BinOp(op=op, left=left, right=right):
            signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
            sign = {**signs, ast.FloorDiv: "//"}[type(op)]
            return sign, of_python(left), of_python(right)
    raise SyntaxError("no arithmetic")


tokens = st.sampled_from(["1", "25", "0.5", "12.25", "0", "(", ")", "+", "-", "*", "/", "//", "^"])
sensible = st.recursive(
    st.sampled_from(["1", "25", "0.5", "12.25", "0"]),
    lambda inner: (
        inner.map("( {} )".format)
        | inner.map("- {}".format)
        | inner.map("+ {}".format)
        | inner.map("{} ^ 3".format)
        | st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "^"]), inner).map(" ".join)
    ),
    max_leaves=10,
)


@given(sensible | st.lists(tokens, max_size=12).map(" ".join))
def test_precedence_is_that_of_python(text: str) -> None:
    try:
        expected = of_python(ast.parse(text.replace("^", "**"), mode="eval").body)
    except SyntaxError:
        return
    assert bare(parse(text).expression) == expected


pieces = st.sampled_from(
    [
        *(*spelling.OPERATIONS, *spelling.POSTFIXES, *spelling.FACTORS, *spelling.LEADING),
        *(*spelling.TRAILING, *spelling.NUMBER_WORDS, *spelling.SCALES, *spelling.VULGAR),
        *(*spelling.SUPERSCRIPTS, *spelling.CURRENCIES, "sum of", "subtract", "and", "from", "of"),
        *("off", "%", "(", ")", "|", "=", "?", ",", ".", ":", ";", " ", "1", "2", "10", "12,5"),
        *("1,000", "1 000", "1.000,5", "0.5", "1e3", "2e-5", "1 1/2", "(1/2)", "17:00"),
        *("to 4 places", "to the nearest integer", "٣", "😀", "\x00", "\x85", "\u200b"),
    ]
)
texts = st.text() | st.text("0123456789+-*/^%.,=_' ×÷−e()|!\u00a0", max_size=30)
styles = st.builds(Style, st.sampled_from(["relative", "plain"]), st.booleans())


@given(texts | st.lists(pieces, max_size=12).map("".join), styles)
def test_any_text_is_understood_or_refused_with_a_place_in_it(text: str, style: Style) -> None:
    outcome = read(text, style)
    if isinstance(outcome, ExpressionError):
        assert 0 <= outcome.position <= outcome.end <= len(text)
        assert str(outcome).isprintable()
        return
    again = parse(show(outcome)).expression
    assert bare(again) == bare(outcome)
    for reading in parse(text, style).readings:
        if reading.alternative:
            parse(reading.alternative, style)


def test_positions_are_those_of_the_text_as_typed() -> None:
    text = "what is (1,000 − 2) × -( .5+(3)) squared, please?"
    parts = [text[part.start : part.end] for part in postorder(parse(text).expression)]
    assert parts == [
        "1,000",
        "2",
        "1,000 − 2",
        "-",
        ".5",
        "3",
        ".5+(3)",
        "squared",
        "( .5+(3)) squared",
        "-( .5+(3)) squared",
        "(1,000 − 2) × -( .5+(3)) squared",
    ]


@pytest.mark.parametrize(("typed", "part"), [("1--(5)", "-(5)"), ("1-(- 5)", "- 5")])
def test_the_sign_of_a_number_belongs_to_it(typed: str, part: str) -> None:
    number = parse(typed).expression.operands[1]
    assert bare(number) == Number(-5)
    assert typed[number.start : number.end] == part


def test_names_stand_for_values_and_an_operation_continues_from_the_last_answer() -> None:
    names = {"ans": parse("1/3").expression, "x": parse("7").expression}
    assert show(parse("x x 2 + Ans", names=names).expression) == "7*2+1/3"
    assert show(parse("*3", names=names).expression) == "1/3*3"
    continued = parse("+5", names=names)
    assert show(continued.expression) == "1/3+5"
    assert continued.readings[0].text == "+5 as ans+5"
    assert show(parse("-5", names=names).expression) == "-5"
    assert isinstance(read("*3"), ExpressionError)


def test_a_thousand_operations_are_read_however_they_nest() -> None:
    for text in (
        "+".join(["1"] * (MAX_OPERATIONS + 1)),
        "1^" * MAX_OPERATIONS + "1",
        "1-(" * MAX_OPERATIONS + "1" + ")" * MAX_OPERATIONS,
        "(" * 4_000 + "1" + ")" * 4_000,
        "-" * 9_999 + "1",
    ):
        again = parse(show(parse(text).expression)).expression
        assert sum(part.sign != "" for part in postorder(again)) <= MAX_OPERATIONS
    with pytest.raises(ExpressionError, match="more than 1,000 operations") as refused:
        parse("+".join(["1"] * (MAX_OPERATIONS + 2)))
    assert refused.value.kind is Kind.TOO_LONG
    whole = parse("+".join(["1"] * (MAX_OPERATIONS + 1))).expression
    with pytest.raises(ExpressionError, match="more than 1,000 operations"):
        parse("x+1", names={"x": whole})


def work(text: str) -> int:
    """Returns how many lines run until a text is read or refused, those of loops every time."""
    n_lines, before = 0, sys.gettrace()

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal n_lines
        n_lines += 1
        return count

    sys.settrace(count)
    try:
        with suppress(ExpressionError):
            parse(text)
    finally:
        sys.settrace(before)
    return n_lines


long_texts = st.integers(0, 2**64).map(lambda seed: recipe(random.Random(seed)).text(2_000))


@given(long_texts)
@example("-" * 1_999 + "1")
@example("√" * 1_999 + "1")
@example("2^" * 999 + "1")
@example("0e-9999+" * 250 + "1")
def test_reading_is_linear_in_the_text(text: str) -> None:
    assert work(text) < 250 * len(text)


@pytest.mark.parametrize("digits", ["1", "2", "10", "25", "3x", "_2"])
def test_a_name_with_digits_is_another_name(digits: str) -> None:
    for name in filter(str.isascii, [*spelling.FUNCTIONS, *spelling.CONSTANTS]):
        called = f"{name}{digits}("
        if called[:-1] not in spelling.FUNCTIONS and not re.match(spelling.PATTERNS["log"], called):
            outcome = read(f"{called}1,2)")
            assert isinstance(outcome, ExpressionError)
            assert str(outcome).startswith(f"'{called[:-1]}' is not known")


def test_what_is_said_is_bounded() -> None:
    parsed = parse("2" + "+1%" * 400)
    assert len(parsed.readings) == spelling.MAX_READINGS
    assert all(len(reading.text) < 10 * spelling.MAX_SHOWN for reading in parsed.readings)


def test_a_style_has_known_values() -> None:
    with pytest.raises(ConfigError, match="relative"):
        Style("of-left")  # type: ignore[arg-type]


def test_an_error_can_be_sent_to_another_process() -> None:
    with pytest.raises(ExpressionError) as refused:
        parse("1+")
    error = pickle.loads(pickle.dumps(refused.value))  # as workers do
    assert (str(error), error.kind, error.end) == (str(refused.value), Kind.SYNTAX, 2)
