"""What people type is understood or refused with the place; answers are never embellished."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calcgpt import calculator as module
from calcgpt.calculator import Calculator, parse_expression, read_answer
from calcgpt.checkpoint import Checkpoint
from calcgpt.confidence import Confidence
from calcgpt.config import DataConfig
from calcgpt.errors import ExpressionError
from calcgpt.generate import Completion
from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.notation import answer_text, number_text, parse_prompt, render_answer

# Every number that fits in ten characters: `9999999999`, `9999999.99`, `-999999.99` ...
whole = st.integers(-999_999_999, 9_999_999_999).map(lambda n: Number(100 * n, False))
decimal = st.integers(-99_999_999, 999_999_999).map(lambda n: Number(n, True))
numbers = whole | decimal
problems = st.builds(Problem, numbers, st.sampled_from(Operation), numbers)


def number(text: str) -> Number:
    """What a canonically written number means."""
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text)
    units, point, places = digits.partition(".")
    return Number(sign * (100 * int(units) + int(places.ljust(2, "0"))), bool(point))


@given(problems, st.sampled_from(["", " ", "  ", "\t"]))
def test_a_problem_typed_canonically_is_read_as_it_is(problem: Problem, space: str) -> None:
    parts = (number_text(problem.a), problem.op.value, number_text(problem.b))
    assert parse_expression(space.join(parts)) == problem


@pytest.mark.parametrize(
    ("typed", "a", "operation", "b"),
    [
        ("12.5*3", "12.5", "*", "3"),
        ("  12.5  *  3  ", "12.5", "*", "3"),
        ("7×6", "7", "*", "6"),
        ("7 ÷ 2", "7", "/", "2"),
        ("7−2", "7", "-", "2"),
        ("-7+2", "-7", "+", "2"),
        ("−7−−2", "-7", "-", "-2"),
        ("3*-4", "3", "*", "-4"),
        (".5+1", "0.5", "+", "1"),
        ("-.5+1", "-0.5", "+", "1"),
        ("5.+1", "5.0", "+", "1"),
        ("5.0+1", "5.0", "+", "1"),
        ("007+1", "7", "+", "1"),
        ("1.10+1", "1.1", "+", "1"),
        ("1.2500+1", "1.25", "+", "1"),
        ("-0+1", "0", "+", "1"),
        ("1/0", "1", "/", "0"),
    ],
)
def test_ways_to_type_are_understood(typed: str, a: str, operation: str, b: str) -> None:
    assert parse_expression(typed) == Problem(number(a), Operation(operation), number(b))


@pytest.mark.parametrize(
    ("typed", "position", "reason"),
    [
        ("", 0, "the end"),
        ("   ", 3, "the end"),
        ("5", 1, "operation is missing"),
        ("5+", 2, "a number is expected, not the end"),
        ("+5", 0, "a number is expected, not '+'"),
        ("5 5", 2, "'5' is not an operation"),
        ("5%2", 1, "'%' is not an operation"),
        ("1e3+1", 1, "'e' is not an operation"),
        ("1+x", 2, "a number is expected, not 'x'"),
        ("--1+2", 0, "a number is expected"),
        ("(1)+1", 0, "not '('"),
        ("1,5+2", 1, "a comma"),
        ("1+2,5", 3, "a comma"),
        ("1+2+3", 3, "one operation"),
        ("2**3", 2, "not '*'"),
        ("1+2=", 3, "one operation"),
        ("1.234+1", 4, "more than two decimal places"),
        ("1+.001", 5, "more than two decimal places"),
        ("12345678901+1", 0, "more than 10 characters"),
        ("1+-1234567890", 2, "more than 10 characters"),
        ("1+99999999.99", 2, "more than 10 characters"),
        (".+1", 0, "a number is expected"),
        ("nan+1", 0, "a number is expected"),
        ("٣+1", 0, "a number is expected"),
        ("1+²", 2, "a number is expected"),
        ("１+1", 0, "a number is expected"),
        ("\x001+1", 0, r"'\x00'"),
        ("1\x1b[2J+1", 1, r"'\x1b'"),
        ("1+\ud800", 2, r"'\ud800'"),
        ("__import__('os')", 0, "a number is expected"),
        ("1" * 1_000_000, 100, "longer than 100 characters"),
        (" " * 101 + "1+1", 100, "longer than 100 characters"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(
    typed: str, position: int, reason: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(typed)
    assert caught.value.position == position
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()


def read(text: str) -> Problem | ExpressionError:
    """What comes of a text: nothing else is ever raised."""
    try:
        return parse_expression(text)
    except ExpressionError as error:
        return error


@given(st.text() | st.text("0123456789+-*/., ×÷−e()") | st.from_regex(r"-?\d*\.?\d*[-+*/]-?\d*"))
def test_any_text_is_a_problem_or_refused_with_a_place_in_it(text: str) -> None:
    outcome = read(text)
    if isinstance(outcome, Problem):
        typed = f"{number_text(outcome.a)}{outcome.op}{number_text(outcome.b)}"
        assert parse_expression(typed) == outcome
    else:
        assert 0 <= outcome.position <= len(text)
        assert str(outcome).isprintable()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(0000000782+0000000021)=3080000000$", "803"),
        ("$(0000000782+0000000021)=1+2=3080000000$", "803"),
        ("$(0000000001/0000000000)=nan0000000$", "nan"),
        ("$(0000002.08-0000136.22)=41.431-000$", "-134.14"),
        ("$(0000000782+0000000021)=3080000000", None),
        ("$(0000000782+0000000021)=308$", None),
        ("$(0000000782+0000000021)=$", None),
        ("$(0000000782+0000000021)=", None),
        ("$(0000000782+0000000021)=30+0000000$", None),
        ("$(0000000782+0000000021)=000000000-$", None),
    ],
)
def test_an_answer_is_read_or_is_none(text: str, result: str | None) -> None:
    assert read_answer(text) == result


@given(problems)
def test_every_right_answer_is_read_back(problem: Problem) -> None:
    value = answer(problem)
    assert read_answer(f"={render_answer(value)}$") == answer_text(value)


@pytest.fixture
def calculator(tiny: Checkpoint) -> Calculator:
    return Calculator(tiny)


def let_it_write(
    monkeypatch: pytest.MonkeyPatch, calculator: Calculator, output: str | None
) -> None:
    """Make the model write `output`, or, where that is None, the right answer."""
    tokenizer = calculator.checkpoint.tokenizer

    def write(model: Any, prompts_BP: torch.Tensor, *_: Any, **__: Any) -> list[Completion]:
        (prompt,) = [tokenizer.decode(ids) for ids in prompts_BP]
        right = f"{render_answer(answer(parse_prompt(prompt)))}$"
        ids = tokenizer.encode(right if output is None else output).tolist()
        return [Completion(ids, [0.5] * len(ids))]

    monkeypatch.setattr(module, "generate", write)


@pytest.mark.parametrize(
    ("typed", "expression", "exact"),
    [
        ("12.5 * 3", "12.5*3", "37.5"),
        ("2−7", "2-7", "-5"),
        ("1÷0", "1/0", "nan"),
        ("9999999999*9999999999", "9999999999*9999999999", "99999999980000000001"),
    ],
)
def test_a_right_answer_is_verified(
    monkeypatch: pytest.MonkeyPatch, calculator: Calculator, typed: str, expression: str, exact: str
) -> None:
    let_it_write(monkeypatch, calculator, None)
    answered = calculator.calculate(typed)
    assert answered.expression == expression
    assert answered.result == answered.exact == exact
    assert answered.verified
    assert answered.model == "tiny"


def test_the_evidence_is_what_the_model_read_and_wrote(
    monkeypatch: pytest.MonkeyPatch, calculator: Calculator
) -> None:
    let_it_write(monkeypatch, calculator, "5.73000000$")
    answered = calculator.calculate("12.5*3")
    assert answered.prompt == "$(00000012.5*0000000003)="
    assert answered.output == "5.73000000$"
    assert answered.confidence == Confidence(answer=0.5**11, weakest_step=1.0, whole=0.5**11)


def test_a_wrong_answer_is_given_as_it_is_and_not_verified(
    monkeypatch: pytest.MonkeyPatch, calculator: Calculator
) -> None:
    let_it_write(monkeypatch, calculator, "6.73000000$")
    answered = calculator.calculate("12.5*3")
    assert (answered.result, answered.exact, answered.verified) == ("37.6", "37.5", False)


@pytest.mark.parametrize("output", ["", "$", "((((", "5.73000000", "5.73$", "5.73000000$$", "==="])
def test_garbage_is_no_answer_and_not_verified(
    monkeypatch: pytest.MonkeyPatch, calculator: Calculator, output: str
) -> None:
    let_it_write(monkeypatch, calculator, output)
    answered = calculator.calculate("12.5*3")
    assert (answered.result, answered.exact, answered.verified) == (None, "37.5", False)
    assert answered.output == output


def test_the_answer_has_the_form_of_the_exact_one_to_be_verified(
    monkeypatch: pytest.MonkeyPatch, calculator: Calculator
) -> None:
    let_it_write(monkeypatch, calculator, "0.50000000$")  # 5.0 for 2 + 3: right in value only
    answered = calculator.calculate("2+3")
    assert (answered.result, answered.exact, answered.verified) == ("5.0", "5", False)


def test_a_real_model_answers_the_same_each_time(calculator: Calculator) -> None:
    first, second = calculator.calculate("12.5*3"), calculator.calculate("12.5*3")
    assert first == second
    assert first.verified == (first.result == "37.5")
    assert first.output


def test_numbers_beyond_the_models_digits_are_refused_with_their_place() -> None:
    assert parse_expression("99999.99-1", 7)
    for typed, position in (("100000-1", 0), ("1 - 100000.0", 4), ("-100000*2", 0)):
        with pytest.raises(ExpressionError, match="below 100,000 ") as caught:
            parse_expression(typed, 7)
        assert caught.value.position == position
        assert parse_expression(typed)


def test_a_model_with_steps_knows_its_digits(tiny: Checkpoint) -> None:
    data = DataConfig(mixture={"blog": 1.0}, digits=5)
    recipe = tiny.recipe.model_copy(update={"data": data})
    with pytest.raises(ExpressionError, match="below 1,000 "):
        Calculator(dataclasses.replace(tiny, recipe=recipe)).calculate("1000+1")
