"""The equations of the rules hold for what is right, and for nothing else."""

import numpy as np
import pytest

from datagen.cases import NONE, all_cases
from datagen.invariants import CARRIES, DIGITS, EQUATIONS, OTHERS, check
from datagen.slots import Kind

VALUES = {character: value for value, character in enumerate(b"0123456789")} | {43: 1, 45: -1}


def values(codes: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda code: VALUES.get(code, 0), otypes=[np.int64])(codes)


@pytest.mark.parametrize("kind", EQUATIONS, ids=lambda kind: kind.name)
def test_only_what_is_right_keeps_the_invariant(kind: Kind) -> None:
    cases = all_cases()
    rows = np.flatnonzero(cases.kinds == kind)
    sources, right = cases.sources[rows].T, values(cases.right[rows, 0])
    assert EQUATIONS[kind](values(sources), right, sources == NONE).all()
    for other in {VALUES[character] for character in OTHERS.get(kind, DIGITS)}:
        differs = right != other
        holds = EQUATIONS[kind](values(sources), np.full_like(right, other), sources == NONE)
        assert not (holds & differs).any()


def test_a_sign_is_no_digit() -> None:
    cases = all_cases()
    right = np.where(cases.right == ord("1"), ord("+"), cases.right).astype(np.uint8)
    failing = {result.kind for result in check(cases._replace(right=right)) if result.failing}
    writes_1 = {Kind(kind) for kind in cases.kinds[cases.right[:, 0] == ord("1")].tolist()}
    digits = {CARRIES[kind][0] if kind in CARRIES else kind for kind in writes_1}
    assert failing == digits - {Kind.QUOTIENT_DIGIT}


@pytest.mark.parametrize("low", CARRIES, ids=lambda kind: kind.name)
def test_only_the_right_carry_belongs_to_a_digit(low: Kind) -> None:
    cases, (high, equation) = all_cases(), CARRIES[low]
    sources = values(cases.sources[cases.kinds == low].T)
    digits, carries = (values(cases.right[cases.kinds == kind, 0]) for kind in (low, high))
    assert equation(sources, digits, carries).all()
    assert not equation(sources, digits, carries + 1).any()
    assert not equation(sources, (digits + 1) % 10, carries).any()


def test_every_kind_is_checked_but_for_quotient_digits_and_fixed_characters() -> None:
    cases = all_cases()
    results = list(check(cases))
    assert all(result.failing is None for result in results)
    checked = {result.kind for result in results} | CARRIES.keys()
    rest = {Kind(kind) for kind in np.unique(cases.kinds).tolist()} - checked
    fixed = {kind for kind in rest if not cases.sources[cases.kinds == kind].any()}
    assert rest - fixed == {Kind.QUOTIENT_DIGIT}


@pytest.mark.parametrize("kind", [Kind.SUM_DIGIT, Kind.PRODUCT_CARRY, Kind.LAST_DIGIT])
def test_a_wrong_character_is_found(kind: Kind) -> None:
    cases = all_cases()
    number = int(np.flatnonzero(cases.kinds == kind)[123])
    right = cases.right.copy()
    right[number] = ord("0") + (right[number] - ord("0") + 1) % 10
    failing = [result for result in check(cases._replace(right=right)) if result.failing]
    assert [result.kind for result in failing] == [kind]
    found = cases.sources[failing[0].failing]
    assert (found == cases.sources[number]).all()
