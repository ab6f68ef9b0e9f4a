"""Tests of the certificate: cases occur where they are constructed, and others never occur."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.inference.drafts import Reading
from datagen.slots import Kind
from datagen.work import render
from tests.work_strategies import prompts
from tools.cases import other_contexts
from tools.cases.contexts import CONTEXTS, MANY_ROWS, TOP, Context, row_group, wanted_positions
from tools.cases.lines import line_cases, quotient_choices
from tools.cases.other_contexts import SUMS
from tools.cases.questions import Question, split_question
from tools.cases.quotient_questions import chain_question, leading_questions
from tools.cases.quotients import leading_digits, results, roundings
from tools.cases.rows import Row, all_rows, product_rows, remainder_rows, sum_rows
from tools.cases.rules import LOCAL_STEPS, N_CASES, STEP_OF, Flags, Ints, LocalStep
from tools.certify import Certificate, check_reading

QUOTIENTS = (Kind.QUOTIENT_DIGIT, Kind.QUOTIENT_RESULT, Kind.QUOTIENT_ROUNDING)


@cache
def reachable() -> Flags:
    return np.concatenate([step.reachable for step in LOCAL_STEPS])


def described(case: int) -> str:
    step = next(step for step in LOCAL_STEPS if step.first <= case < step.first + step.size)
    return f"{step.name}: {step.describe(case - step.first)}"


def cases_of(question: Question, kinds: frozenset[Kind]) -> Ints:
    choices = np.array([question.choices], np.uint64)
    [line] = render([question.prompt], choices)
    [cases] = line_cases([line])
    return cases[wanted_positions(line, kinds, question.row)]


@given(st.lists(prompts(), min_size=1, max_size=20), st.booleans(), st.integers(0, 2**64 - 1))
def test_unreachable_cases_never_occur(texts: list[str], second: bool, word: int) -> None:
    words = np.full(len(texts), word, np.uint64)
    lines = render([text.encode() for text in texts], words if second else None)
    cases = np.unique(np.concatenate(line_cases(lines)))
    wrong = cases[~reachable()[cases]].tolist()
    if second:  # longer divisors reach more: see `tools.cases.quotients`
        steps = [STEP_OF[kind] for kind in QUOTIENTS]
        wrong = [c for c in wrong if not any(s.first <= c < s.first + s.size for s in steps)]
    assert not list(map(described, wrong))


def test_rows_have_all_reachable_cases_and_no_others() -> None:
    found = np.zeros(N_CASES, bool)
    steps: dict[str, LocalStep] = {}
    for row in all_rows():
        for kind, cases in row.cases.items():
            found[cases] = True
            steps[STEP_OF[kind].name] = STEP_OF[kind]
    for step in steps.values():
        part = slice(step.first, step.first + step.size)
        np.testing.assert_array_equal(found[part], step.reachable, step.name)


def rows_of(index: int) -> Row:
    rows = [*sum_rows(), *product_rows(False), *remainder_rows(False), *remainder_rows(True)]
    return rows[index % len(rows)]


@settings(max_examples=30)
@given(st.data(), st.sampled_from([*CONTEXTS[:3], TOP, MANY_ROWS]))
def test_a_constructed_line_has_its_case(data: st.DataObject, context: Context) -> None:
    from tools.cases import contexts

    row = rows_of(data.draw(st.integers(0, 100)))
    make = {
        Kind.SUM_DIGIT: contexts._sum,
        Kind.PRODUCT_DIGIT: contexts._product,
        Kind.REMAINDER_DIGIT: contexts._quotient,
        Kind.LAST_DIGIT: contexts._quotient,
    }[row.kinds[0]]
    state = data.draw(st.integers(0, len(row.states) - 1))
    x = data.draw(st.integers(0, len(row.inputs) - 1))
    if context == TOP:
        if Kind.SUM_DIGIT not in row.kinds:  # a 0 above all digits is not written
            x = len(row.inputs) - 1  # 9 and 9
        if Kind.REMAINDER_DIGIT in row.kinds or Kind.LAST_DIGIT in row.kinds:
            context = MANY_ROWS
    needed: list[list[int]] = [[] for _ in row.states]
    needed[state].append(x)
    [(begin, word)] = contexts.words(row, needed, context, 24, data.draw(st.randoms()))
    question = make(row, begin, word, context, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert question
    wanted = int(row.cases[row.kinds[0]][state, x])
    found = cases_of(question, frozenset(row.kinds) | {Kind.SUM_LOWEST})
    assert wanted in found, (question, described(wanted), word)
    if context == TOP and Kind.SUM_DIGIT in row.kinds:  # the top column is above it
        [top] = cases_of(question, frozenset({Kind.SUM_TOP}))
        assert top == row.cases[Kind.SUM_TOP][row.next[state][x] - 1]
    if context.repeat > 1:  # and equal columns above it
        assert word[-context.repeat :] == [x] * context.repeat


@pytest.mark.parametrize("context", CONTEXTS[:3])
def test_sums_have_all_columns_below_their_top(context: Context) -> None:
    counts = np.zeros(N_CASES, int)
    for question in other_contexts._tops(context, np.random.default_rng(3)):
        counts[cases_of(question, frozenset({Kind.SUM_TOP}))] += 1
    tops = np.concatenate([row.cases[Kind.SUM_TOP] for row in sum_rows()])
    assert (len(tops), counts.sum()) == (400, 400)
    assert (counts[tops] == 1).all()


def test_a_group_has_each_case_as_often_as_wanted() -> None:
    rows = product_rows(True)
    from tools.cases.contexts import _product

    group = row_group(rows, CONTEXTS[0], _product, 24, 1)
    counts = np.zeros(N_CASES, int)
    for index, cases in enumerate(line_cases(group.lines)):
        np.add.at(counts, cases[group.wanted(index)], 1)
    assert min(counts[row.cases[kind]].min() for row in rows for kind in row.kinds) >= 3


@pytest.mark.parametrize(("table", "kind"), [(results, QUOTIENTS[1]), (roundings, QUOTIENTS[2])])
def test_quotients_have_their_cases(table: Callable[[], Flags], kind: Kind) -> None:
    rng, step = np.random.default_rng(5), STEP_OF[kind]
    chosen = np.argwhere(table())
    for indices in map(tuple, rng.permutation(chosen)[:60].tolist()):
        question = chain_question(indices, int(rng.choice((0, 4, 20))), rng)
        wanted = step.first + int(np.ravel_multi_index((0, *indices), step.shape))
        assert wanted in cases_of(question, frozenset({kind})), described(wanted)


@pytest.mark.parametrize("divisor", [100, 107, 640, 999])
def test_quotients_have_all_leading_digits(divisor: int) -> None:
    step = STEP_OF[Kind.QUOTIENT_DIGIT]
    found = np.zeros(step.size, bool)
    for question in leading_questions(divisor, np.random.default_rng(0)):
        found[cases_of(question, frozenset({Kind.QUOTIENT_DIGIT})) - step.first] = True
    column = found.reshape(step.shape)[0, :, divisor - 100]
    np.testing.assert_array_equal(column, leading_digits()[:, divisor - 100])


@given(
    st.sampled_from((0, 1, 9)),
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(0, 30),
    st.integers(0, 99),
)
def test_split_questions_have_their_sum(top: int, digits: list[int], drop: int, seed: int) -> None:
    question = split_question(top, digits, min(drop, len(digits)), np.random.default_rng(seed))
    if question is None:
        assert top or drop  # an impossible sum, or operands that would end in 0
        return
    step, cases = STEP_OF[Kind.SUM_RESULT], cases_of(question, frozenset(SUMS))
    assert len(cases) > len(digits), question  # more if an operand is 0.0
    kept = cases[(cases >= step.first) & (cases < step.first + step.size)] - step.first
    assert {step.describe(case)["top"] for case in kept.tolist()} == {str(top)}


def test_readings_are_checked() -> None:
    [line] = render([b"$(0000000007/0000000003)="])
    text = line.decode().partition("=")[2]
    alphabet = "".join(sorted({*text, *"0123456789"}))
    targets = np.array([alphabet.index(character) for character in text])
    digits = np.array([alphabet.index(character) for character in "0123456789"])
    logits = np.zeros((len(text), len(alphabet)), np.float32)
    logits[np.arange(len(text)), targets] = 5
    reading = Reading(np.array([0]), [len(text)], targets, logits)
    checked = check_reading(reading, [line], digits)
    assert checked.right.all()
    assert checked.own.all()
    [(position, valid), *_] = quotient_choices(line)
    logits[position] = 0
    logits[position, digits[np.flatnonzero(valid)[-1]]] = 2  # another right digit
    checked = check_reading(reading, [line], digits)
    assert checked.right.all()
    assert np.flatnonzero(checked.own).tolist() == list(range(position + 1))
    logits[0, :] = 0
    logits[0, targets[0] - 1] = 1
    checked = check_reading(reading, [line], digits)
    assert np.flatnonzero(~checked.right).tolist() == [0]
    assert np.flatnonzero(checked.own).tolist() == [0]  # the model departs from the line at once
    assert checked.margin[0] == -1
    assert checked.margin[position] == 2


def test_a_certificate_counts_cases() -> None:
    certificate = Certificate("model", "native", False, 0)
    step = STEP_OF[Kind.SIGN]
    part = slice(step.first, step.first + step.size)
    certificate.random[part] = certificate.adversarial[part] = 3
    certificate.read[part], certificate.right[part] = 6, [6, 6, 6, 5]
    certificate.own[part], certificate.own_right[part] = [0, 2, 2, 2], [0, 1, 2, 2]
    summary = next(s for s in certificate.summaries() if s["rule"] == step.name)
    assert (summary["cases"], summary["tried"], summary["wrong"]) == (4, 4, 1)
    assert (summary["own"], summary["own_wrong"]) == (3, 1)
    assert summary["contexts"] - 1 == 23
    assert certificate.table().splitlines()[-1].startswith("all")
