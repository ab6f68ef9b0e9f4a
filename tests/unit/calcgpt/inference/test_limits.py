"""The calculator with a model of worked steps: places, limits and unproven results."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from expressions import expressions, value_of
from fake_decoder import (
    completing_decoder,
    notation_checkpoint,
    right_with_work,
    worked_checkpoint,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from work_strategies import prompts

from calcgpt.config import Domain
from calcgpt.errors import ConfigError, ExpressionError, ExpressionErrorKind
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.limits import UNMEASURED_DOMAIN, ScratchpadLimits
from calcgpt.inference.results import confidence, read_answer
from datagen.notation import parse_prompt
from datagen.work_errors import StepKind, WrongCharacter, quotient_digits

WIDE = Domain(digits=12, places=8)


def wide(
    domain: Domain | None = WIDE, block_size: int = 4096, completion: Any = None
) -> Calculator:
    """Returns a calculator whose model completes prompts by `completion`, by default correctly."""
    checkpoint = worked_checkpoint("wide", domain, block_size)
    write = completion or right_with_work
    return Calculator(checkpoint, completing_decoder(checkpoint.tokenizer, write, block_size))


@pytest.fixture(scope="module")
def exact() -> Calculator:
    return wide(Domain(digits=100, places=9), 100_000)


@pytest.mark.parametrize(
    ("typed", "places", "result", "rounded"),
    [
        ("1/3", None, "0.33333333", True),
        ("(1/3)*3", None, "0.99999999", True),
        ("1/3", 2, "0.33", True),
        ("1/4", None, "0.25", False),
        ("100000+1", None, "100001", False),
        ("0.001+1", None, "1.001", False),
        ("0.001+1", 2, "1.0", True),
        ("99999*99999", None, "9999800001", False),
        ("-163.4*0.03", None, "-4.902", False),
        ("70000/-0.01", None, "-7000000.0", False),
        ("-80457.28-19551.06", None, "-100008.34", False),
        ("2/3", 1, "0.7", True),
    ],
)
def test_answers_have_the_places_of_the_question(
    typed: str, places: int | None, result: str, rounded: bool
) -> None:
    calculation = wide().calculate(typed, places)
    assert (calculation.result, calculation.exact, calculation.rounded) == (result, result, rounded)
    assert calculation.verified
    assert calculation.proven
    assert calculation.places == (places or 8)
    for node in calculation.nodes:
        assert parse_prompt(node.prompt or "").places == calculation.places
    assert [node.rounded for node in calculation.nodes].count(True) == (rounded and 1)


@pytest.mark.parametrize(
    ("typed", "places", "result", "asked"),
    [
        ("7.5% of 200", 2, "15.0", [8, 2]),
        ("10/3*6", 2, "20.0", [8, 2]),
        ("-(2/3)", 2, "-0.67", [8, 2]),
        ("1.05^3", 1, "1.2", [8, 1]),
        ("1.05^3*1000", 1, "1157.6", [8, 8, 1]),
        ("(2/3)^1", 2, "0.67", [2]),
        ("(2/3)^1*3", 2, "2.0", [8, 2]),
        ("(2/3)^0", 2, "1.0", [8]),
        ("2/3*3", 8, "2.00000001", [8, 8]),
        ("2/3*3", 9, "2.000000001", [9, 9]),
    ],
)
def test_only_the_last_operation_is_rounded_to_fewer_places_than_usual(
    typed: str, places: int, result: str, asked: list[int]
) -> None:
    calculation = wide().calculate(typed, places, unproven=places > 8)
    assert (calculation.result, calculation.exact, calculation.places) == (result, result, places)
    assert [parse_prompt(node.prompt or "").places for node in calculation.nodes] == asked
    assert calculation.verified


def test_earlier_operations_keep_the_places_for_which_the_model_was_measured() -> None:
    calculation = wide(Domain(digits=12, places=4)).calculate("2/3*3", 2)
    assert [node.result for node in calculation.nodes] == ["0.6667", "2.0"]


def value_to(typed: str, places: int) -> str:
    """Returns the value of an expression by fractions, its last operation rounded to `places`, and
    those before it to at least 8 places. Raises ZeroDivisionError."""
    typed = typed.strip().replace("^", "**")
    last = ast.parse(typed, mode="eval").body
    assert isinstance(last, ast.BinOp)
    parts = [ast.get_source_segment(typed, part) or "" for part in (last.left, last.right)]
    a, b = (value_of(part, 100, max(places, 8)) for part in parts)
    sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(last.op)]
    return str(value_of(f"({a}){sign}({b})", 100, places))


@settings(max_examples=50)
@given(expressions(), st.integers(1, 9))
def test_a_perfect_model_gives_the_value_by_fractions(
    exact: Calculator, typed: str, places: int
) -> None:
    try:
        expected = value_to(typed, places)
    except ZeroDivisionError:
        with pytest.raises(ExpressionError):
            exact.begin(typed, places)
        return
    calculation = exact.calculate(typed, places)
    assert calculation.verified
    assert calculation.proven
    assert calculation.result == calculation.exact == expected
    assert calculation.rounded == any(node.rounded for node in calculation.nodes)


def test_notes_say_what_was_rounded_and_what_is_unproven() -> None:
    assert wide().calculate("1/4").notes == []
    assert wide().calculate("1/3").notes == ["rounded to 8 places"]
    assert wide().calculate("1/3", 1).notes == ["rounded to 1 place"]
    notes = wide().calculate("1/3", 9, unproven=True).notes
    unmeasured = "the model was not measured for such numbers or so many places"
    assert notes == ["rounded to 9 places", unmeasured]


@pytest.mark.parametrize(
    ("typed", "part", "reason"),
    [
        ("1 + 1234567890123", "1234567890123", "a number of 13 digits"),
        ("1 + -12345.67890123", "-12345.67890123", "a number of 13 digits"),
        ("1+0.000000001", "0.000000001", "a number with 9 places"),
        ("1 - 999999*9999999", "999999*9999999", "999999*9999999 is 9999989000001: a number of 13"),
    ],
)
def test_what_was_not_measured_is_refused_unless_the_user_allows_it(
    typed: str, part: str, reason: str
) -> None:
    with pytest.raises(
        ExpressionError, match="measured for numbers of at most 12 digits, 8 p"
    ) as e:
        wide().begin(typed)
    assert e.value.kind is ExpressionErrorKind.UNPROVEN
    assert e.value.reason.startswith(reason)
    assert typed[e.value.position : e.value.end] == part
    calculation = wide().calculate(typed, unproven=True)
    assert calculation.verified
    assert not calculation.proven
    assert wide().calculate("1+1", unproven=True).proven


def test_the_last_result_may_be_longer_than_an_operand() -> None:
    calculation = wide().calculate("999999999999*999999999999")
    assert calculation.result == "999999999998000000000001"
    assert calculation.proven


def test_more_places_than_were_measured_are_refused() -> None:
    with pytest.raises(ExpressionError, match="an answer to 9 places; this model was") as caught:
        wide().begin("1/3", 9)
    assert caught.value.kind is ExpressionErrorKind.UNPROVEN
    assert not wide().calculate("1/3", 9, unproven=True).proven


@pytest.mark.parametrize("places", [-1, 0, 10, 2.5, True, "3"])
def test_there_are_1_to_9_places(places: Any) -> None:
    with pytest.raises(ConfigError, match=f"places must be from 1 to 9, not {places!r}"):
        wide().begin("1/3", places, unproven=True)


@pytest.mark.parametrize("expression", [5, None, b"1+1"])
def test_an_expression_is_a_string(expression: Any) -> None:
    with pytest.raises(ConfigError, match="an expression must be a string, not"):
        wide().begin(expression)


def test_the_added_place_of_a_whole_number_with_a_point_counts() -> None:
    calculator = wide(Domain(digits=12, places=8))
    assert calculator.calculate(f"{'9' * 12}+1").verified
    for text in ("9" * 12 + ".0+1", "9" * 12 + ".+1"):
        with pytest.raises(ExpressionError, match=r"a number of 13 digits, \.0 included"):
            calculator.begin(text)


def test_a_model_without_measurement_gets_a_small_domain() -> None:
    calculator = wide(None)
    assert calculator.limits == ScratchpadLimits(None, 4096)
    assert calculator.limits.default_places == UNMEASURED_DOMAIN.places == 2
    assert calculator.calculate("1/3").result == "0.33"
    with pytest.raises(ExpressionError, match=r"was never measured, .* 7 digits, 2 places"):
        calculator.begin("12345678+1")
    assert calculator.calculate("12345678+1", unproven=True).verified


@pytest.mark.parametrize("unproven", [False, True])
def test_a_number_of_more_than_100_characters_is_refused(unproven: bool) -> None:
    longest = "9" * 100
    assert wide(block_size=100_000).calculate(f"{longest}+1", unproven=True).verified
    with pytest.raises(ExpressionError, match="a number of more than 100 characters") as caught:
        wide().begin(f"1+{longest}0", unproven=unproven)
    assert caught.value.kind is ExpressionErrorKind.OUT_OF_RANGE
    with pytest.raises(ExpressionError, match=r"is 89{39}\.\.\.: a number of more than 100 char"):
        wide(block_size=100_000).begin(f"{longest}*9+1", unproven=True)


def test_a_work_beyond_the_context_is_refused_before_any_step() -> None:
    small = wide(block_size=300)
    assert small.calculate("12345*6789").verified
    with pytest.raises(
        ExpressionError, match=r"its work has 3.. characters; .* holds 300"
    ) as caught:
        small.begin("1 + 12345678901*12345678901", unproven=True)
    assert caught.value.kind is ExpressionErrorKind.OUT_OF_RANGE
    assert (caught.value.position, caught.value.end) == (4, 27)


@given(prompts())
def test_a_work_fits_exactly_if_the_model_can_write_all_of_it(prompt: str) -> None:
    length = len(prompt + right_with_work(prompt))  # the last character is never read
    problem = parse_prompt(prompt)
    assert ScratchpadLimits(WIDE, length - 1).refuse_problem(problem) is None
    assert ScratchpadLimits(WIDE, length - 2).refuse_problem(problem)


def test_an_intermediate_result_outside_the_domain_is_not_asked_about() -> None:
    """The model is wrong, not the expression."""

    def completion(prompt: str) -> str:
        return "9999999999999$" if "*" in prompt else right_with_work(prompt)

    calculation = wide(completion=completion).calculate("2*3+1")
    assert [node.problem for node in calculation.nodes] == ["2*3", None]
    assert calculation.proven
    unproven = wide(completion=completion).calculate("2*3+1", unproven=True)
    assert [node.problem for node in unproven.nodes] == ["2*3", "9999999999999+1"]
    assert not unproven.proven


def test_a_wrong_answer_names_its_first_wrong_step() -> None:
    def completion(prompt: str) -> str:
        written = right_with_work(prompt)
        return written.replace(";34140:4440+=4440000000$", ";34150:4450+=4450000000$")

    calculation = wide(completion=completion).calculate("12*37+1")
    product, total = calculation.nodes
    step = WrongCharacter(StepKind.PRODUCT, 16, "4", "5")
    assert (product.result, product.first_wrong_step) == ("544", step)
    assert (total.problem, total.first_wrong_step, total.error) == ("544+1", None, None)
    assert calculation.errors == [
        "wrong: the exact answer of 12*37 is 444 (first wrong step: product row at position 16)"
    ]


@given(prompts("/"))
def test_quotient_digits_are_left_out_of_the_confidence(prompt: str) -> None:
    output = right_with_work(prompt)
    choices = quotient_digits(prompt, output)
    probabilities = [0.1 if index in choices else 1.0 for index in range(len(output))]
    assert confidence(prompt, output, probabilities).whole == 1.0
    assert read_answer(prompt + output, parse_prompt(prompt).places)[0] is not None


def test_a_model_that_answers_at_once_has_two_places() -> None:
    calculator = Calculator(notation_checkpoint())
    for typed, part in (("1.2340+1", "40"), ("1-(-.001)", "1"), ("1+1,000.12034", "34")):
        with pytest.raises(ExpressionError, match="more than two decimal places") as caught:
            calculator.begin(typed, unproven=True)
        assert caught.value.kind is ExpressionErrorKind.TOO_MANY_PLACES
        assert typed[caught.value.position : caught.value.end].startswith(part)
    with pytest.raises(ExpressionError, match="answers of this model have 2 places, not 4"):
        calculator.begin("1/3", 4, unproven=True)
    assert calculator.begin("1/3").places == 2


def test_divisors_may_have_a_limit_of_their_own() -> None:
    calculator = wide(Domain(digits=16, places=8, divisor_digits=12))
    assert calculator.calculate("100000/3*3").written == "99999.99999999"
    assert calculator.calculate("3/100000000000").written == "0.0"
    with pytest.raises(
        ExpressionError, match=r"divisor of 13 digits; .* 16 digits \(divisors 12\)"
    ):
        calculator.calculate("3/1000000000000")
    assert not calculator.calculate("3/1000000000000", unproven=True).proven
