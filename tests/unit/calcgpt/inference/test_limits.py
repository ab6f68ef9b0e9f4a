"""The calculator with a model of worked steps: places, and the limits of work."""

from typing import Any

import pytest
from datagen_strategies import prompts
from fake_decoder import (
    completing_decoder,
    notation_checkpoint,
    right,
    right_with_work,
    worked_checkpoint,
)
from hypothesis import given

from calcgpt.base.errors import ConfigError
from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.limits import ScratchpadLimits, accepts
from datagen.arithmetic import Number
from datagen.notation import parse_prompt
from datagen.slots import StepKind
from datagen.work_errors import WrongCharacter


def wide(block_size: int = 4096, completion: Any = None) -> Calculator:
    """Returns a calculator whose model completes prompts by `completion`, by default correctly."""
    checkpoint = worked_checkpoint("wide", block_size=block_size)
    write = completion or right_with_work
    return Calculator(checkpoint, completing_decoder(checkpoint.tokenizer, write, block_size))


@pytest.fixture(scope="module")
def exact() -> Calculator:
    return wide(100_000)


@pytest.mark.parametrize(
    ("typed", "places", "result", "asked"),
    [
        ("1/3", None, "0.33333333", [8]),
        ("1/3", 2, "0.33", [2]),
        ("1/3", 0, "0", [0]),
        ("7/2", 0, "4", [0]),  # ties to even
        ("0.001+1", None, "1.001", [8]),
        ("0.001+1", 2, "1", [2]),
        ("2.345", 2, "2.34", [2]),  # + 0
        # operations before the last keep as many places as it takes
        ("7.5% of 200", 2, "15", [3, 2]),
        ("10/3*6", 2, "20", [3, 2]),
        ("1.05^3*1000", 1, "1157.6", [4, 4, 1]),
        ("1.05^3*1000", 8, "1157.625", [8, 8, 8]),
        ("17//5*3", 2, "9", [0, 2]),
        ("2/3*3", 30, "2", [31, 30]),
        ("1/3+1/3", 8, "0.66666667", [9, 9, 8]),
        ("1+0.000000001", 8, "1", [8]),
    ],
)
def test_the_whole_is_rounded_once_to_the_places_of_the_question(
    typed: str, places: int | None, result: str, asked: list[int]
) -> None:
    calculation = wide().calculate(typed, places)
    assert (calculation.result, calculation.exact) == (result, result)
    assert calculation.verified
    assert calculation.places == (8 if places is None else places)
    assert [parse_prompt(node.prompt or "").places for node in calculation.nodes] == asked


def test_the_last_result_may_be_longer_than_an_operand() -> None:
    calculation = wide().calculate("999999999999*999999999999")
    assert calculation.result == "999999999998000000000001"


@pytest.mark.parametrize("places", [-1, 31, 2.5, True, "3"])
def test_there_are_0_to_30_places(places: Any) -> None:
    with pytest.raises(
        ConfigError, match=f"places must be an integer from 0 to 30, not {places!r}"
    ):
        wide().begin("1/3", places)
    assert len(wide().calculate("1/3", 30).result or "") == 32


def test_numbers_have_any_number_of_digits() -> None:
    calculator = wide(block_size=100_000)
    assert calculator.calculate(f"{10**600}+1").verified
    assert calculator.calculate(f"{10**40}*{10**20}-0.{'1' * 200}").verified


@pytest.mark.parametrize("number", [Number(10**10_100), Number(-1, 9_999)])
def test_an_operand_fits_in_the_notation(number: Number) -> None:
    refusal = ScratchpadLimits(100_000).refuse_operand(number)
    reason = "a number of more than 10,100 characters"
    is_short = number.places > 0
    assert refusal == (None if is_short else (ExpressionErrorKind.OUT_OF_RANGE, reason))


@pytest.mark.parametrize(
    ("typed", "work", "reason"),
    [("12345*6789", 60, "about 82"), ("+".join(["9*9"] * 40), 1_000, "about 2,350")],
)
def test_the_work_of_an_expression_is_limited(typed: str, work: int, reason: str) -> None:
    n_characters = wide().begin(typed).n_characters
    assert wide().calculate(typed, work=n_characters).verified
    with pytest.raises(ExpressionError) as caught:
        wide().begin(typed, work=work)
    assert caught.value.kind is ExpressionErrorKind.TOO_LONG
    told = f"the model would write {reason} characters; the limit is {work:,}"
    assert caught.value.reason == told
    with pytest.raises(ExpressionError):
        wide().begin(typed, work=n_characters - 1)


def test_a_work_beyond_the_context_is_refused_before_any_step() -> None:
    small = wide(block_size=300)
    assert small.calculate("12345*6789").verified
    with pytest.raises(
        ExpressionError, match=r"its work has 3.. characters; .* holds 300"
    ) as caught:
        small.begin("1 + 12345678901*12345678901")
    assert caught.value.kind is ExpressionErrorKind.OUT_OF_RANGE
    assert (caught.value.position, caught.value.end) == (4, 27)


@given(prompts())
def test_a_work_fits_exactly_if_the_model_can_write_all_of_it(prompt: str) -> None:
    length = len(prompt + right_with_work(prompt))  # the last character is never read
    problem = parse_prompt(prompt)
    for room, is_accepted in ((length - 1, True), (length - 2, False)):
        assert accepts(ScratchpadLimits(room), problem) is is_accepted


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


def test_a_model_that_answers_at_once_has_two_places() -> None:
    checkpoint = notation_checkpoint()
    calculator = Calculator(checkpoint, completing_decoder(checkpoint.tokenizer, right))
    typed = "1 - 1.234"  # not asked as 1000/1000 - 1234/1000
    with pytest.raises(ExpressionError, match="more than two decimal places") as caught:
        calculator.begin(typed)
    assert caught.value.kind is ExpressionErrorKind.TOO_MANY_PLACES
    assert typed[caught.value.position : caught.value.end] == "1.234"
    with pytest.raises(ExpressionError, match="answers of this model have 2 places, not 4"):
        calculator.begin("1/3", 4)
    assert calculator.begin("1/3").places == 2
