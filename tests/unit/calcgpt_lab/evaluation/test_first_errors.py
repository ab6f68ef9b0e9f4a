"""The first error of an output, and the counts of first errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from work_strategies import prompts

from calcgpt.inference.results import NOT_CONFIDENT
from calcgpt_lab.data.problems import Line, split_line
from calcgpt_lab.evaluation.evaluate import (
    ACCEPTED,
    BEYOND,
    KINDS,
    Evaluation,
    FirstError,
    first_error,
    first_error_record,
    score,
)
from datagen import work
from datagen.notation import WORK_ALPHABET
from datagen.slots import StepKind
from datagen.work_errors import WrongCharacter

MUL, SUB = (
    line.decode()
    for line in work.render([b"$(0000000573*0000351.77)=", b"$(0000002.08-0000136.22)="])
)
OTHER = Line("a task's own=", "1000010000$", "+")  # not a question of the notation


def parts(text: str) -> tuple[Line, str]:
    line = split_line(text)
    return line, text[len(line.prompt) :]


def evaluation(rows: list[tuple[Line, str]]) -> Evaluation:
    lines, outputs = [line for line, _ in rows], [output for _, output in rows]
    return Evaluation(score(lines, outputs), lines, outputs, [NOT_CONFIDENT] * len(rows), 1.0)


def test_the_first_wrong_character_names_the_step() -> None:
    line, output = parts(MUL)
    row = output.index(";") + 3  # within the first row of the product
    damaged = output[:row] + "9" + output[row + 1 :]
    wrong = WrongCharacter(StepKind.PRODUCT, row, output[row], "9")
    assert first_error(line, damaged) == FirstError("product row", wrong)
    assert first_error(line, "") == FirstError("sign", WrongCharacter(StepKind.SIGN, 0, "+", ""))


@pytest.mark.parametrize("output", ["", "1000010000$", "x=1000010000$"])
def test_other_questions_are_beyond_the_notation(output: str) -> None:
    assert first_error(OTHER, output) == FirstError(BEYOND)


def test_wrong_answers_and_right_answers_with_an_error_are_counted() -> None:
    (mul, product), (sub, difference) = parts(MUL), parts(SUB)
    digit = product.index(";") + 3
    spoilt = product[:digit] + "9" + product[digit + 1 :]
    rows = [
        (mul, product),
        (mul, spoilt),  # the answer is right all the same
        (mul, spoilt[:-2] + "9$"),
        (mul, product[:-2] + "9$"),
        (mul, product[:-3] + "90$"),
        (sub, difference),
        (sub, ""),
        (OTHER, ""),
        (OTHER, "1000010000$"),
    ]
    assert first_error_record(evaluation(rows)) == {
        "first_errors": {"+": {BEYOND: 1}, "-": {"sign": 1}, "*": {"answer": 2, "product row": 1}},
        "errors_of_right_answers": {"+": {BEYOND: 1}, "*": {"product row": 1}},
    }


changes = st.tuples(prompts(), st.integers(0, 200), st.sampled_from(WORK_ALPHABET))


@given(st.lists(changes, min_size=1, max_size=5))
def test_every_wrong_answer_is_counted_once(rows: list[tuple[str, int, str]]) -> None:
    written = []
    for prompt, index, character in rows:
        [text] = work.render([prompt.encode()])
        line, output = parts(text.decode())
        index %= len(output) + 1
        written.append((line, output[:index] + character + output[index + 1 :]))
    whole = evaluation(written)
    record = first_error_record(whole)
    counts = [count for group in record["first_errors"].values() for count in group.values()]
    assert sum(counts) == whole.right.count(False)
    kinds = {kind for group in record["first_errors"].values() for kind in group}
    assert kinds <= set(KINDS) - {BEYOND, ACCEPTED}
