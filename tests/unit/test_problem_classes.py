"""Classes of problems: by texture and run, to count what is drawn and to choose a model by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datagen.arithmetic import Number
from datagen.operations import ADDITION, DIVISION, MULTIPLICATION, SUBTRACTION
from datagen.splits import Split, is_in_split, problem_hashes
from tools.exactness import GROUPS, problems_of, worst_class
from tools.problem_classes import TABLES, TEXTURES, count_classes, run_length, texture

SUMS = {ADDITION, SUBTRACTION}
OPERATIONS_OF = {
    "sums": SUMS,
    "textured sums": SUMS,
    "nearly equal": SUMS,
    "short sums": SUMS,
    "products": {MULTIPLICATION},
    "product ties": {MULTIPLICATION},
}


@pytest.mark.parametrize(
    ("units", "name", "run"),
    [
        (777, "short", 3),
        (0, "short", 0),
        (7777, "one digit", 4),
        (777177, "one other digit", 3),
        (12121, "period", 1),
        (123123, "period", 1),
        (1234512345123, "period", 1),
        (123456123456, "none", 1),  # a longer period
        (122221, "palindrome", 4),
        (12345321, "none", 1),
        (1234321, "palindrome", 1),
        (2888835, "run", 4),
        (2888345, "none", 3),
        (1200000, "run", 1),  # zeros at the end are no run inside
        (1002000, "none", 2),
    ],
)
def test_a_number_has_one_texture(units: int, name: str, run: int) -> None:
    for number in (Number(units), Number(-units)):
        assert TEXTURES[texture(number)] == name
        assert run_length(number) == run


@given(st.sampled_from(GROUPS["texture-classes"]), st.integers(0, 99))
def test_every_number_of_a_problem_is_in_one_class(name: str, seed: int) -> None:
    problems = problems_of(name, 3, seed).to_problems()
    counts = count_classes(problems)
    for table in ("runs", "textures"):
        assert counts[table].shape == TABLES[table].shape
        a, b, answers = counts[table].sum(axis=(0, 1))
        assert (a, b, answers) == (3, 3, 3)  # no divisor is 0


@pytest.mark.parametrize("name", GROUPS["texture-classes"])
def test_a_class_of_texture_has_its_kind_and_its_split(name: str) -> None:
    problems = problems_of(name, 60, 1, Split.VAL)
    assert is_in_split(problem_hashes(problems), Split.VAL).all()
    made = problems.to_problems()
    assert len(set(made)) == 60
    operations = {problem.op for problem in made}
    assert operations == OPERATIONS_OF.get(name.removeprefix("texture: "), {DIVISION})


def test_the_worst_class_has_the_lowest_share() -> None:
    shares = {"sums": 0.99, "multiples": 0.5, "products": 1.0}
    results = {name: {"exact_match": share} for name, share in shares.items()}
    assert worst_class(results) == ("multiples", 0.5)
