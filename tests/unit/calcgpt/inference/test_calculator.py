"""Expressions become questions to a model; its answers are reported as they are."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from expressions import expressions, rounded, value_of
from fake_decoder import (
    completing_decoder,
    notation_checkpoint,
    right,
    right_with_work,
    worked_checkpoint,
    wrong_at,
)
from hypothesis import given

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_tree import show
from calcgpt.inference.results import NOT_CONFIDENT
from calcgpt.registry import resolve
from datagen.operations import ADDITION


def calculator(completion: Callable[[str], str] = right) -> Calculator:
    """Returns a calculator whose model completes prompts by `completion`, by default correctly."""
    checkpoint = notation_checkpoint()
    return Calculator(checkpoint, completing_decoder(checkpoint.tokenizer, completion))


@pytest.fixture(scope="module")
def exact() -> Calculator:
    return calculator()


@given(expressions())
def test_a_model_that_is_right_at_every_operation_is_held_to_the_exact_value(
    exact: Calculator, typed: str
) -> None:
    """With two places, the steps can be too coarse for the whole."""
    value, division = outcome(value_of, typed)
    calculation, refusal = outcome(exact.calculate, typed)
    if refusal:
        is_division = refusal.kind is ExpressionErrorKind.DIVISION_BY_ZERO
        assert is_division == bool(division)
        assert is_division or refusal.kind is ExpressionErrorKind.OUT_OF_RANGE
        assert 0 <= refusal.position < refusal.end <= len(typed)
        return
    assert all(node.agrees for node in calculation.nodes)
    assert calculation.exact == rounded(value, 2)
    assert calculation.verified == (calculation.result == calculation.exact)
    assert bool(calculation.errors) != calculation.verified
    assert calculation.rounded == (Fraction(calculation.exact) != value)
    assert Fraction(calculation.fraction or value) == value
    assert calculation.expression == show(parse(typed).expression)


def outcome(function: Any, *arguments: Any) -> tuple[Any, Any]:
    """Returns the result of a function and its error; one of them is None."""
    try:
        return function(*arguments), None
    except (ExpressionError, ZeroDivisionError) as error:
        return None, error


def test_every_node_has_its_problem_prompt_work_and_position() -> None:
    checkpoint = worked_checkpoint()
    decoder = completing_decoder(checkpoint.tokenizer, right_with_work)
    calculation = Calculator(checkpoint, decoder).calculate("2 × (12.5 + 3)")
    assert (calculation.expression, calculation.result, calculation.exact) == (
        "2*(12.5+3)",
        "31",
        "31",
    )
    assert calculation.verified
    assert calculation.model == "worked"
    first, second = calculation.nodes
    assert (first.expression, first.problem, first.result) == ("12.5+3", "12.5+3", "15.5")
    assert (second.expression, second.problem, second.result) == ("2*(12.5+3)", "2*15.5", "31")
    assert first.prompt == "$8(00000012.5+0000000003)="
    assert second.prompt == "$8(0000000002*00000015.5)="
    assert first.work == "+5210+0300+5510:5510+"
    assert first.output == f"{first.work}=5.51000000$"
    assert "2 × (12.5 + 3)"[first.position : first.end] == "12.5 + 3"
    assert "2 × (12.5 + 3)"[second.position : second.end] == "2 × (12.5 + 3)"
    assert first.agrees
    assert first.confidence
    assert 0.99 < first.confidence.whole < 1
    assert calculation.confidence.weakest_step == min(
        node.confidence.weakest_step for node in calculation.nodes if node.confidence
    )


@pytest.mark.parametrize(
    ("typed", "result", "problems"),
    [
        ("2^4", "16", ["2*2", "4*4"]),
        ("2^10", "1024", ["2*2", "4*4", "16*2", "32*32"]),
        ("(1+2)^3-2^2", "23", ["1+2", "3*3", "9*3", "2*2", "27-4"]),
        ("1.05^3", "1.16", ["1.05*1.05", "1.1*1.05"]),
        ("(1+2)^1", "3", ["1+2"]),
        ("2.5^0*3", "3", ["1*3"]),
        ("2^-1", "0.5", ["1/2"]),
        ("4!", "24", ["2*3", "6*4"]),
        ("|3-5|", "2", ["3-5", "0--2"]),
        ("200*20%", "40", ["20/100", "200*0.2"]),
        ("50-10%", "45", ["10/100", "0.1*50", "50-5"]),
        ("+5", "5", []),
        ("12345678901", "12345678901", []),  # the model is not asked, so it has no limit
        ("0^0", "1", []),
        ("1/3*3", "1", ["1*3", "3/3"]),  # 0.33 would be too coarse
    ],
)
def test_an_expression_is_a_few_operations_and_a_number_answers_itself(
    exact: Calculator, typed: str, result: str, problems: list[str]
) -> None:
    calculation = exact.calculate(typed)
    assert (calculation.result, calculation.exact) == (result, result)
    assert calculation.verified
    assert [node.problem for node in calculation.nodes] == problems


def test_the_products_of_a_power_are_nodes_of_its_text(exact: Calculator) -> None:
    outline = exact.begin(typed := "4 * (1+2)^3").outline
    spans = [(span.expression, typed[span.position : span.end]) for span in outline]
    assert spans == [("1+2", "1+2"), *[("(1+2)^3", "(1+2)^3")] * 2, ("4*(1+2)^3", typed)]
    with pytest.raises(ExpressionError, match=r"^99\^6 needs 941480149401: .* 10 char") as caught:
        exact.begin("1+99^6")
    assert (caught.value.position, caught.value.end) == (2, 6)


def test_nodes_of_one_level_are_one_batch() -> None:
    checkpoint = notation_checkpoint()
    decoder = completing_decoder(checkpoint.tokenizer, right)
    Calculator(checkpoint, decoder).calculate("(1+2)*(3+4)-5/6")
    # First three write, then one for the product, and one for the difference.
    assert decoder.batches == [*[3] * 11, *[1] * 22]


def test_a_wrong_answer_is_reported_and_used_in_the_next_question() -> None:
    canceled = calculator(wrong_at(ADDITION)).calculate("(1+2)-(2+1)")
    assert (canceled.result, canceled.exact, canceled.verified) == ("0", "0", False)
    calculation = calculator(wrong_at(ADDITION)).calculate("(1+2)*3")
    first, second = calculation.nodes
    assert (first.result, first.exact, first.agrees) == ("42", "3", False)
    assert (second.problem, second.result, second.exact, second.agrees) == (
        "42*3",
        "126",
        "126",
        True,
    )
    assert (calculation.result, calculation.exact, calculation.verified) == ("126", "9", False)
    assert calculation.errors == ["wrong: the exact answer of 1+2 is 3"]


@pytest.mark.parametrize("output", ["", "$", "((((", "5.73000000", "5.73$", "==="])
def test_after_a_malformed_answer_the_operations_that_use_it_are_not_asked(output: str) -> None:
    def completion(prompt: str) -> str:
        return output if "*" in prompt else right(prompt)

    calculation = calculator(completion).calculate("1-12.5*3")
    product, difference = calculation.nodes
    assert product.output
    assert product.output.startswith(output.split("$")[0])
    assert (product.result, product.exact, product.agrees) == (None, "37.5", False)
    assert (difference.problem, difference.prompt, difference.output) == (None, None, None)
    assert (difference.result, difference.exact, difference.confidence) == (None, None, None)
    assert (difference.agrees, difference.rounded) == (False, False)
    assert (calculation.result, calculation.exact, calculation.verified) == (None, "-36.5", False)
    assert calculation.confidence == NOT_CONFIDENT
    assert calculation.errors == [
        "wrong: the exact answer of 12.5*3 is 37.5",
        "not computed, because an operand is missing: 1-12.5*3",
    ]


def test_the_default_calculator_uses_the_best_checkpoint() -> None:
    loaded = Calculator.load()
    assert loaded.checkpoint.name == Checkpoint.load(resolve("best")).name
    assert loaded.calculate("0.1+0.2").result == "0.3"


@pytest.mark.parametrize("output", ["nan0000000$", "99999999999$"], ids=["nan", "too-long"])
def test_an_intermediate_result_outside_the_domain_is_not_asked_about(output: str) -> None:
    """Exact arithmetic stays inside the domain: the model is wrong, not the expression."""

    def completion(prompt: str) -> str:
        return output if "*" in prompt else right(prompt)

    calculation = calculator(completion).calculate("2*3+1")
    assert [node.problem for node in calculation.nodes] == ["2*3", None]
    assert (calculation.result, calculation.exact, calculation.verified) == (None, "7", False)


def test_an_answer_of_the_right_value_in_another_form_is_not_verified() -> None:
    calculation = calculator(lambda prompt: "0.50000000$").calculate("2+3")  # right in value only
    assert (calculation.result, calculation.exact, calculation.verified) == ("5", "5", False)
    assert calculation.errors == ["wrong: the exact answer of 2+3 is 5"]


@pytest.mark.parametrize(
    ("typed", "kind", "part"),
    [
        ("1/0", ExpressionErrorKind.DIVISION_BY_ZERO, "0"),
        ("1/0.00", ExpressionErrorKind.DIVISION_BY_ZERO, "0.00"),
        ("5 + 1/( 2-2 )", ExpressionErrorKind.DIVISION_BY_ZERO, "2-2"),
        ("7 // 2", ExpressionErrorKind.TOO_MANY_PLACES, "7 // 2"),  # to 0 places
        ("12345678901+1", ExpressionErrorKind.OUT_OF_RANGE, "12345678901"),
        ("1 + -1234567890", ExpressionErrorKind.OUT_OF_RANGE, "-1234567890"),
        ("1+99999999.99", ExpressionErrorKind.OUT_OF_RANGE, "99999999.99"),
        ("1+ 100000*100000", ExpressionErrorKind.OUT_OF_RANGE, "100000*100000"),
    ],
)
def test_operands_outside_the_domain_and_divisions_by_zero_are_refused(
    exact: Calculator, typed: str, kind: ExpressionErrorKind, part: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        exact.begin(typed)
    assert caught.value.kind == kind
    assert part in typed[caught.value.position : caught.value.end]
    assert caught.value.position == typed.index(part)


def test_a_batch_has_an_answer_or_an_error_for_each_expression() -> None:
    checkpoint = worked_checkpoint()
    calculator = Calculator(checkpoint, completing_decoder(checkpoint.tokenizer, right_with_work))
    first, error, second, number, other = calculator.calculate_batch(
        ["1+2*3", "1/0", "2+2", "7", "x"]
    )
    assert [first, second, number] == [calculator(text) for text in ("1+2*3", "2+2", "7")]
    for found, text in ((error, "1/0"), (other, "x")):
        with pytest.raises(ExpressionError, match=re.escape(str(found))):
            calculator(text)
