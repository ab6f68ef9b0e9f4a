"""Expressions are read as people mean them, each node with its position, or refused with one."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from datagen_strategies import numbers
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.errors import ExpressionError
from calcgpt.errors import ExpressionErrorKind as Kind
from calcgpt.inference.expression import MAX_DEPTH, MAX_EXPONENT, MAX_OPERATIONS, parse
from calcgpt.inference.expression_tree import Binary, Expression, Literal, Power, show
from datagen.arithmetic import Number, Operation
from datagen.notation import number_text

literals = st.builds(Literal, numbers | st.just(Number(0)), st.just(0), st.just(0))


def binaries(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Binary]:
    return st.builds(Binary, st.sampled_from(Operation), operands, operands, st.just(0), st.just(0))


def powers(bases: st.SearchStrategy[Expression]) -> st.SearchStrategy[Power]:
    return st.builds(Power, bases, st.integers(0, 4), st.just(0), st.just(0))


def trees(leaves: int) -> st.SearchStrategy[Binary]:
    """Trees of any shape, all nodes at 0:0; `2 * leaves` numbers at most."""
    inner = st.recursive(literals, lambda parts: binaries(parts) | powers(parts), max_leaves=leaves)
    return binaries(inner).filter(lambda tree: tree.depth <= MAX_DEPTH)


def bare(expression: Expression) -> Any:
    """Returns a tree without positions, as tuples."""
    if isinstance(expression, Literal):
        return expression.number
    if isinstance(expression, Power):
        return "^", bare(expression.base), expression.exponent
    return expression.op, bare(expression.left), bare(expression.right)


def nodes(expression: Expression) -> Iterator[Expression]:
    yield expression
    if isinstance(expression, Binary):
        yield from nodes(expression.left)
        yield from nodes(expression.right)
    if isinstance(expression, Power):
        yield from nodes(expression.base)


def read(text: str) -> Expression | ExpressionError:
    """Returns the expression of a text, or its error. No other error is ever raised."""
    try:
        return parse(text)
    except ExpressionError as error:
        return error


@given(trees(leaves=10))
def test_what_is_shown_is_read_back_and_each_node_stands_for_its_own_text(tree: Binary) -> None:
    text = show(tree)
    again = parse(text)
    assert bare(again) == bare(tree)
    assert show(again) == text
    for before, after in zip(nodes(tree), nodes(again), strict=True):
        assert text[after.start : after.end] == show(before)


@given(trees(leaves=10))
def test_nothing_superfluous_is_shown(tree: Binary) -> None:
    text = show(tree)
    assert not any(character.isspace() for character in text)
    opened: list[int] = []
    for end, character in enumerate(text):
        if character == "(":
            opened.append(end)
        elif character == ")":
            start = opened.pop()
            without = text[:start] + text[start + 1 : end] + text[end + 1 :]
            outcome = read(without)  # nor is (2^3)^4 an expression without them
            assert isinstance(outcome, ExpressionError) or bare(outcome) != bare(tree)


SIGNS = {"+": "+", "-": "-−–", "*": "*×✕∗·⋅", "/": "/÷∕"}


class Typist:
    """Writes a tree as some person might type it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def space(self) -> str:
        return self.draw(st.sampled_from(["", " ", "\t", "\n", "\u00a0", " \u2009"]))

    def sign(self, operation: str) -> str:
        return self.draw(st.sampled_from(SIGNS[operation]))

    def magnitude(self, number: Number) -> str:
        whole, point, places = number_text(number).removeprefix("-").partition(".")
        mark = self.draw(st.sampled_from(["", "0", "00", *",_'’\u00a0\u202f\u2009"]))
        whole = mark + whole if mark.startswith("0") else f"{int(whole):,}".replace(",", mark)
        if not point:
            return whole
        places = self.draw(st.sampled_from([places, places.rstrip("0"), places.ljust(5, "0")]))
        if places and not whole.strip("0") and self.chance():
            whole = ""
        return whole + point + places

    def operand(self, node: Expression) -> str:
        """A text that may stand beside any operation but a power."""
        if isinstance(node, Literal):
            text = self.magnitude(node.number)
            for _ in range((node.number.scaled(2) < 0) + 2 * self.chance()):
                text = self.sign("-") + self.space() + (f"({text})" if self.chance() else text)
            if self.chance():
                text = f"+{self.space()}{text}"
        elif isinstance(node, Power):
            base = self.base(node.base)
            text = f"{base}{self.space()}^{self.space()}{node.exponent}"
        elif self.is_percentage(node) and self.chance():
            text = f"{self.base(node.left)}{self.space()}%"
        elif self.is_negation(node) and self.chance():
            text = self.sign("-") + self.space() + self.operand(node.right)
        else:
            text = f"({self.space()}{self.whole(node)}{self.space()})"
        return f"({text}{self.space()})" if self.draw(st.integers(0, 4)) == 0 else text

    def base(self, node: Expression) -> str:
        """A text that may stand before ^ and %."""
        if isinstance(node, Literal) and node.number.units >= 0 and self.chance():
            return self.magnitude(node.number)
        return f"({self.space()}{self.whole(node)}{self.space()})"

    def is_negation(self, node: Binary) -> bool:
        zero = isinstance(node.left, Literal) and node.left.number == Number(0)
        return node.op == "-" and zero and not isinstance(node.right, Literal)

    def is_percentage(self, node: Binary) -> bool:
        hundred = isinstance(node.right, Literal) and node.right.number == Number(100)
        return node.op == "/" and hundred

    def whole(self, node: Expression) -> str:
        """A text that may stand alone: no more parentheses than needed, at times."""
        if not isinstance(node, Binary):
            return self.operand(node)
        left, right = node.left, node.right
        sums = node.op in "+-"
        bare_left = isinstance(left, Binary) and (sums or left.op in "*/") and self.chance()
        bare_right = isinstance(right, Binary) and sums and right.op in "*/" and self.chance()
        first = self.whole(left) if bare_left else self.operand(left)
        second = self.whole(right) if bare_right else self.operand(right)
        if sums and isinstance(right, Binary) and self.is_percentage(right):
            second = f"({second})"
        return f"{first}{self.space()}{self.sign(node.op)}{self.space()}{second}"


@st.composite
def typed_trees(draw: st.DrawFn) -> tuple[Binary, str]:
    tree, typist = draw(trees(leaves=3)), Typist(draw)
    equals = typist.space() + "=" if typist.chance() else ""
    return tree, typist.space() + typist.whole(tree) + equals + typist.space()


@given(typed_trees())
def test_however_it_is_typed_the_tree_is_the_same(typed: tuple[Binary, str]) -> None:
    tree, text = typed
    understood = parse(text)
    assert bare(understood) == bare(tree)
    for node in nodes(understood):
        part = text[node.start : node.end]
        if part in SIGNS["-"]:  # the 0 of -(2+3)
            assert bare(node) == Number(0)
        elif part == "%":
            assert bare(node) == Number(100)
        else:
            assert bare(parse(part)) == bare(node)


def of_python(node: ast.expr) -> Any:
    """Returns what `bare` returns for the same tree, from Python's tree; None if we have no such
    node."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return Number.from_units(int(100 * Decimal(repr(value))), 2, isinstance(value, float))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return of_python(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = of_python(operand)
            if isinstance(value, Number):
                return Number(-value.units, value.places)
            return value and (Operation.SUB, Number(0), value)
        case ast.BinOp(op=ast.Pow(), left=base, right=power):
            exponent, of_base = of_python(power), of_python(base)
            is_whole = isinstance(exponent, Number) and not exponent.point
            return ("^", of_base, exponent.units) if is_whole and of_base else None
        case ast.BinOp(op=op, left=left, right=right):
            operation = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(op)]
            of_left, of_right = of_python(left), of_python(right)
            return of_left and of_right and (Operation(operation), of_left, of_right)
    return None


tokens = st.sampled_from(["1", "25", "0.5", "12.25", "0", "(", ")", "+", "-", "*", "/", "^"])
sensible = st.recursive(
    st.sampled_from(["1", "25", "0.5", "12.25", "0"]),
    lambda inner: (
        inner.map("( {} )".format)
        | inner.map("- {}".format)
        | inner.map("+ {}".format)
        | inner.map("{} ^ 3".format)
        | st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join)
    ),
    max_leaves=10,
)


@given(sensible | st.lists(tokens, max_size=12).map(" ".join))
def test_precedence_is_that_of_python(text: str) -> None:
    try:
        expected = of_python(ast.parse(text.replace("^", "**"), mode="eval").body)
    except SyntaxError:
        expected = None
    understood = read(text)
    if isinstance(understood, ExpressionError):
        assert expected is None or understood.kind == Kind.OUT_OF_RANGE  # of an exponent
    else:
        assert bare(understood) == expected


@given(
    st.text()
    | st.text("0123456789+-*/^%.,=_' ×÷−e()\u00a0", max_size=30)
    | st.lists(tokens).map("".join)
)
def test_any_text_is_understood_or_refused_with_a_place_in_it(text: str) -> None:
    outcome = read(text)
    if not isinstance(outcome, ExpressionError):
        assert bare(parse(show(outcome))) == bare(outcome)
    else:
        assert 0 <= outcome.position <= outcome.end <= len(text)
        assert str(outcome).isprintable()


@pytest.mark.parametrize(
    ("typed", "normal"),
    [
        ("12.5*3=", "12.5*3"),
        ("  12.5 *\t3 = ", "12.5*3"),
        ("7×6✕5∗4·3⋅2", "7*6*5*4*3*2"),
        ("7÷2∕3", "7/2/3"),
        ("7−2–1", "7-2-1"),
        ("1+2*3", "1+2*3"),
        ("(1+2)*3", "(1+2)*3"),
        ("1-(2-3)", "1-(2-3)"),
        ("(1-2)-3", "1-2-3"),
        ("1*(2/3)", "1*(2/3)"),
        ("((1))+((2*(3)))", "1+2*3"),
        ("-7+2", "-7+2"),
        ("2*-3", "2*-3"),
        ("2--3", "2--3"),
        ("2---3", "2-3"),
        ("--5+1", "5+1"),
        ("- (5)+1", "-5+1"),
        ("-(-(5))+1", "5+1"),
        ("-2*3", "-2*3"),
        ("-(2*3)", "0-2*3"),
        ("-(2+3)", "0-(2+3)"),
        ("-(2+3)*4", "(0-(2+3))*4"),
        ("4*-(2+3)", "4*(0-(2+3))"),
        ("--(2+3)", "0-(0-(2+3))"),
        (".5+5.", "0.5+5.0"),
        ("007+0", "7+0"),
        ("-0+-0.0", "0+0.0"),
        ("1.50+1.500", "1.5+1.5"),
        ("1/0", "1/0"),
        ("1,234.50+1", "1234.5+1"),
        ("1_234_567+1", "1234567+1"),
        ("1'234+1’234", "1234+1234"),
        ("12\u00a0345+1\u202f234-1\u2009234", "12345+1234-1234"),
        ("1\u00a0+\u00a0200", "1+200"),
        ("9" * 300 + "+1", "9" * 300 + "+1"),
        ("5", "5"),
        ("(5 )=", "5"),
        ("-(5) =", "-5"),
        ("12,500.50", "12500.5"),
        ("-" * 399 + "1", "-1"),
        ("+5", "5"),
        ("2*+3 - +(4)", "2*3-4"),
        ("+(2+3)*+-1", "(2+3)*-1"),
        ("2^10", "2^10"),
        ("2 ^ (3)", "2^3"),
        ("-2^2", "0-2^2"),
        ("(-2)^2", "(-2)^2"),
        ("2*3^2", "2*3^2"),
        ("(2*3)^2", "(2*3)^2"),
        ("(2^3)^2", "(2^3)^2"),
        ("2^-(-3)", "2^3"),
        ("0^0", "0^0"),
        ("20%", "20/100"),
        ("200*20%", "200*(20/100)"),
        ("50+(20%)", "50+20/100"),
        ("-5%+10%", "0-5/100+10/100"),
        ("1+-20%", "1+(0-20/100)"),
        ("50+20%*2", "50+20/100*2"),
        ("(1+5%)*(1.0 - 2.5%)", "(1+5/100)*(1.0-2.5/100)"),
        ("10%+5%-3%", "10/100+5/100-3/100"),
        ("(1+2)%", "(1+2)/100"),
        ("20%^2", "(20/100)^2"),
        ("-20 %%", "0-20/100/100"),
        ("10% of 50", "10/100*50"),
        ("200 - 10 percent of (20+30)", "200-10/100*(20+30)"),
        ("100*20 Per Cent of 50", "100*(20/100)*50"),
        ("6/(20% of 50)", "6/(20/100*50)"),
        ("3 x 4", "3*4"),
        ("30X4", "30*4"),
        ("0 x 4", "0*4"),
        ("1.0x4", "1.0*4"),
        ("12 plus 3 minus 4 times 5 over 6", "12+3-4*5/6"),
        ("12 Divided By 3 multiplied \t by 2", "12/3*2"),
        ("2**10", "2^10"),
        ("-2²", "0-2^2"),
        ("(1+2)³ + 2¹⁰", "(1+2)^3+2^10"),
        ("5²³", "5^23"),
        ("5² ^2", "(5^2)^2"),
        ("5²%", "5^2/100"),
        ("2(3+4)", "2*(3+4)"),
        ("-2 (3)(4)", "-2*3*4"),
        ("(1+2)(3-4)²", "(1+2)*(3-4)^2"),
        ("(2^3)(4)", "2^3*4"),
        ("6/(2(3))", "6/(2*3)"),
        ("6/2+3(4)", "6/2+3*4"),
        ("１，２３４．５＋（２＊３）－（４％）？", "1234.5+2*3-4/100"),
        ("١٢٫٥ × ٣", "12.5*3"),
        ("۱٬۲۳۴*१२٪", "1234*(12/100)"),
        ("12,34,567.5*2 + 1,50,000", "1234567.5*2+150000"),
        ("7‐2‑1‒1﹣1", "7-2-1-1-1"),
        ("7✖\ufe0f2➗3➖4➕5", "7*2/3-4+5"),
        ("2 х 3 Х 4ｘ5Ｘ6∙7•8⨯9", "2*3*4*5*6*7*8*9"),
        ("[2+{3*(4-1)}]*2^{3}", "(2+3*(4-1))*2^3"),
        ("\u202d1,234\u202c+1\u200b\u200e\ufeff", "1234+1"),
        ("=2+2", "2+2"),
        ("= 2+2 =?", "2+2"),
        ("2+2 ? ", "2+2"),
        ("minus 5 Plus 3", "-5+3"),
        ("5 times minus (3)", "5*-3"),
    ],
)
def test_ways_to_type_are_understood(typed: str, normal: str) -> None:
    assert show(parse(typed)) == normal


def test_places_are_those_of_the_text_as_typed() -> None:
    text = " (1,000 − 2) × -( .5+(3))="
    parts = [text[node.start : node.end] for node in nodes(parse(text))]
    assert parts == [
        "(1,000 − 2) × -( .5+(3))",
        "1,000 − 2",
        "1,000",
        "2",
        "-( .5+(3))",
        "-",
        ".5+(3)",
        ".5",
        "3",
    ]


@pytest.mark.parametrize(("typed", "part"), [("1--(5)", "-(5)"), ("1-(- 5)", "- 5")])
def test_the_sign_of_a_number_belongs_to_it(typed: str, part: str) -> None:
    number = parse(typed).right  # type: ignore[union-attr]
    assert bare(number) == Number(-5)
    assert typed[number.start : number.end] == part


def test_up_to_its_limits_an_expression_is_read() -> None:
    assert parse("(" * 198 + "1+1" + ")" * 198 + "=").depth == 1  # 400 characters
    assert bare(parse("-" * 397 + "1+1").left) == Number(-1)  # type: ignore[union-attr]
    assert parse(f"1^{MAX_EXPONENT}+1").depth == MAX_EXPONENT == 40
    assert parse("+".join(["1^26"] * 7 + ["1^19"])).n_operations == MAX_OPERATIONS
    assert parse("+".join("1" * 41)).depth == MAX_DEPTH == 40
    assert parse("(1+2)*(3-4/5)").depth == 3


def test_a_tree_can_be_sent_to_another_process() -> None:
    tree = parse("(1+2)*-3")
    assert pickle.loads(pickle.dumps(tree)) == tree
