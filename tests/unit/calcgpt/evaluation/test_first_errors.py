"""Which step is the first that is wrong, and how often."""

from __future__ import annotations

import pytest
from datagen_strategies import problems_of
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.data.problems import Line, split_line
from calcgpt.evaluation.evaluate import Evaluation, score
from calcgpt.evaluation.first_errors import (
    ACCEPTED,
    BEYOND,
    HEADINGS,
    Finding,
    fault_record,
    find_fault,
)
from datagen.arithmetic import Problem
from datagen.notation import parse_prompt
from datagen.steps import STEPS_ALPHABET, StepKind, WrongCharacter, render

MUL = render(parse_prompt("$(0000000573*0000351.77)="), 7)
SUB = render(parse_prompt("$(0000002.08-0000136.22)="), 7)
BIG = "$(0000100000+0000000001)=1000010000$"  # eight digits in hundredths: no steps with seven


def parts(text: str) -> tuple[Line, str]:
    line = split_line(text)
    return line, text[len(line.prompt) :]


def evaluation(rows: list[tuple[Line, str]]) -> Evaluation:
    lines, outputs = [line for line, _ in rows], [output for _, output in rows]
    return Evaluation(score(lines, outputs), lines, outputs, [[]] * len(rows), 1.0)


def test_a_right_output_has_no_finding() -> None:
    assert find_fault(*parts(MUL), 7) is None
    assert find_fault(*parts(SUB), 7) is None


def test_the_first_wrong_character_names_the_step() -> None:
    line, output = parts(MUL)
    row = output.index("a") + 3  # within the first row of the product
    damaged = output[:row] + "9" + output[row + 1 :]
    fault = WrongCharacter(StepKind.PRODUCT, row, output[row], "9")
    assert find_fault(line, damaged, 7) == Finding("product row", fault)
    assert find_fault(line, "", 7) == Finding("layout", WrongCharacter(StepKind.LAYOUT, 0, "x", ""))


@pytest.mark.parametrize("output", ["", "1000010000$", "x=1000010000$"])
def test_operands_without_steps_are_beyond_the_notation(output: str) -> None:
    assert find_fault(split_line(BIG), output, 7) == Finding(BEYOND)


def test_a_file_that_is_wrong_itself_is_not_taken_for_a_fault() -> None:
    line, output = parts(SUB)
    wrong_file = Line(line.prompt, "51.431-000$", "-")
    assert find_fault(wrong_file, output, 7) == Finding(ACCEPTED)


def test_wrong_answers_are_counted_and_right_ones_with_a_fault_apart() -> None:
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
    assert fault_record(evaluation(rows), 7) == {
        "first_faults": {"+": {BEYOND: 1}, "-": {"layout": 1},
                         "*": {"answer": 2, "product row": 1}},
        "faults_of_right_answers": {"+": {BEYOND: 1}, "*": {"product row": 1}},
    }  # fmt: skip


def test_the_most_frequent_heading_comes_first() -> None:
    mul, product = parts(MUL)
    outputs = ["", product[:-2] + "9$", product[:-2] + "8$"]
    counts = fault_record(evaluation([(mul, output) for output in outputs]), 7)["first_faults"]
    assert list(counts["*"].items()) == [("answer", 2), ("layout", 1)]


@given(st.lists(st.tuples(problems_of(7), st.integers(0, 200), st.sampled_from(STEPS_ALPHABET)),
                min_size=1, max_size=5))  # fmt: skip
def test_every_wrong_answer_is_counted_once(rows: list[tuple[Problem, int, str]]) -> None:
    written = []
    for problem, place, character in rows:
        line, output = parts(render(problem, 7))
        place %= len(output) + 1
        written.append((line, output[:place] + character + output[place + 1 :]))
    whole = evaluation(written)
    record = fault_record(whole, 7)
    counts = [count for group in record["first_faults"].values() for count in group.values()]
    assert sum(counts) == whole.right.count(False)
    headings = {heading for group in record["first_faults"].values() for heading in group}
    assert headings <= set(HEADINGS) - {BEYOND, ACCEPTED}
