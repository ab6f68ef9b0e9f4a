"""The first error of an output, and the counts of first errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from datagen_strategies import problems_of
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.config import Recipe
from calcgpt.data.problems import Line, split_line
from calcgpt.evaluation.evaluate import (
    ACCEPTED,
    BEYOND,
    KINDS,
    Checker,
    Evaluation,
    FirstError,
    checker_of,
    first_error,
    first_error_record,
    fixed_width_checker,
    score,
)
from calcgpt.inference.results import NOT_CONFIDENT
from calcgpt.recipe import build
from datagen.arithmetic import Problem
from datagen.notation import parse_prompt
from datagen.steps import STEPS_ALPHABET, StepKind, WrongCharacter, render

MUL = render(parse_prompt("$(0000000573*0000351.77)="), 7)
SUB = render(parse_prompt("$(0000002.08-0000136.22)="), 7)
CHECK = fixed_width_checker(7)
BIG = "$(0000100000+0000000001)=1000010000$"  # eight digits in hundredths: no steps with seven


def parts(text: str) -> tuple[Line, str]:
    line = split_line(text)
    return line, text[len(line.prompt) :]


def evaluation(rows: list[tuple[Line, str]]) -> Evaluation:
    lines, outputs = [line for line, _ in rows], [output for _, output in rows]
    return Evaluation(score(lines, outputs), lines, outputs, [NOT_CONFIDENT] * len(rows), 1.0)


def test_a_right_output_has_no_error() -> None:
    assert first_error(*parts(MUL), CHECK) is None
    assert first_error(*parts(SUB), CHECK) is None


def test_the_first_wrong_character_names_the_step() -> None:
    line, output = parts(MUL)
    row = output.index("a") + 3  # within the first row of the product
    damaged = output[:row] + "9" + output[row + 1 :]
    fault = WrongCharacter(StepKind.PRODUCT, row, output[row], "9")
    assert first_error(line, damaged, CHECK) == FirstError("product row", fault)
    assert first_error(line, "", CHECK) == FirstError(
        "layout", WrongCharacter(StepKind.LAYOUT, 0, "x", "")
    )


@pytest.mark.parametrize("output", ["", "1000010000$", "x=1000010000$"])
def test_operands_without_steps_are_beyond_the_notation(output: str) -> None:
    assert first_error(split_line(BIG), output, CHECK) == FirstError(BEYOND)


def test_a_wrong_answer_in_the_file_is_not_an_error_in_the_steps() -> None:
    line, output = parts(SUB)
    wrong_file = dataclasses.replace(line, completion="51.431-000$")
    assert first_error(wrong_file, output, CHECK) == FirstError(ACCEPTED)


def test_wrong_answers_and_right_answers_with_an_error_are_counted() -> None:
    (mul, product), (sub, difference) = parts(MUL), parts(SUB)
    digit = product.index("a") + 3
    spoilt = product[:digit] + "9" + product[digit + 1 :]
    rows = [
        (mul, product),
        (mul, spoilt),  # the answer is right all the same
        (mul, spoilt[:-2] + "9$"),
        (mul, product[:-2] + "9$"),
        (mul, product[:-3] + "90$"),
        (sub, difference),
        (sub, ""),
        (split_line(BIG), ""),
        (split_line(BIG), "1000010000$"),
    ]
    assert first_error_record(evaluation(rows), CHECK) == {
        "first_faults": {
            "+": {BEYOND: 1},
            "-": {"layout": 1},
            "*": {"answer": 2, "product row": 1},
        },
        "faults_of_right_answers": {"+": {BEYOND: 1}, "*": {"product row": 1}},
    }


def test_the_most_frequent_kind_comes_first() -> None:
    mul, product = parts(MUL)
    outputs = ["", product[:-2] + "9$", product[:-2] + "8$"]
    counts = first_error_record(evaluation([(mul, output) for output in outputs]), CHECK)[
        "first_faults"
    ]
    assert list(counts["*"].items()) == [("answer", 2), ("layout", 1)]


changes = st.tuples(problems_of(7), st.integers(0, 200), st.sampled_from(STEPS_ALPHABET))


@given(st.lists(changes, min_size=1, max_size=5))
def test_every_wrong_answer_is_counted_once(rows: list[tuple[Problem, int, str]]) -> None:
    written = []
    for problem, index, character in rows:
        line, output = parts(render(problem, 7))
        index %= len(output) + 1
        written.append((line, output[:index] + character + output[index + 1 :]))
    whole = evaluation(written)
    record = first_error_record(whole, CHECK)
    counts = [count for group in record["first_faults"].values() for count in group.values()]
    assert sum(counts) == whole.right.count(False)
    kinds = {kind for group in record["first_faults"].values() for kind in group}
    assert kinds <= set(KINDS) - {BEYOND, ACCEPTED}


def test_each_format_of_worked_steps_has_its_checker() -> None:
    def checker(**data: Any) -> Checker | None:
        table = {"tokenizer": "scratchpad", "data": {"mixture": {"blog": 1.0}, **data}}
        return checker_of(build(Recipe, table, "test"))

    assert checker(format="direct") is None
    assert checker_of(Recipe()) is None
    fixed, wide = checker(format="steps", digits=7), checker(format="loose-scratchpad")
    assert fixed
    assert wide
    line, output = parts(MUL)
    assert first_error(line, output, fixed) is None
    assert first_error(line, output, wide)
    line, output = parts("$8(0000000001/0000000003)=+1+0030;10000+9=33333333.0$")
    error = first_error(line, output, wide)
    assert error
    assert error.character
    assert (error.kind, error.character.position) == ("quotient digit", 14)
