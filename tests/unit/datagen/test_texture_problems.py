"""Each kind of problem with texture has it, at every length and number of places."""

from fractions import Fraction
from itertools import groupby

import numpy as np
import pytest
from datagen_strategies import words_of
from exact_values import exact
from hypothesis import given

from datagen.arithmetic import MAX_ASKED_PLACES, Problem
from datagen.operations import ADDITION, DIVISION, MULTIPLICATION, SUBTRACTION
from datagen.sampling import Sampler, Words, bit_generator
from datagen.texture_problems import KINDS, TIES, WORDS, texture, textured
from datagen.tricky_12_problems import of_kind

N, MAX_DIGITS = 2_000, 24


@pytest.fixture(scope="module")
def samples() -> dict[str, list[Problem]]:
    words = bit_generator(6, 0, 0).random_raw(WORDS * N).reshape(WORDS, N)
    return {name: of_kind(kind, words).to_problems() for name, kind in (KINDS | TIES).items()}


def longest_run(number: int) -> int:
    return max(len(list(run)) for _, run in groupby(str(number)))


def test_numbers_have_their_lengths_and_runs_of_every_digit() -> None:
    words = bit_generator(7, 0, 0).random_raw(WORDS * N).reshape(WORDS, N)
    lengths = np.arange(N) % MAX_DIGITS + 1
    numbers = textured(Sampler(words), lengths, MAX_DIGITS).tolist()
    # Next to a power of ten, a number may have one digit more or fewer.
    differences = [len(str(n)) - length for n, length in zip(numbers, lengths, strict=True)]
    assert set(differences) <= {-1, 0, 1}
    assert np.mean(np.array(differences) == 0) > 0.95
    long = [n for n, length in zip(numbers, lengths, strict=True) if length > 12]
    assert np.mean([longest_run(n) >= 5 for n in long]) > 0.4
    runs = {str(n)[0] for n in long if longest_run(n) == len(str(n))}
    assert runs == set("123456789")


@pytest.mark.parametrize("name", TIES)
def test_ties_and_their_neighbours(name: str, samples: dict[str, list[Problem]]) -> None:
    operations = {
        "sum": {ADDITION, SUBTRACTION},
        "product": {MULTIPLICATION},
        "quotient": {DIVISION},
    }
    assert {problem.op for problem in samples[name]} == operations[name.split()[0]]
    usual = [problem for problem in samples[name] if problem.places < 9]
    parts = [abs(exact(problem)) * 10**problem.places % 1 for problem in usual]
    assert 0.2 < np.mean([part == Fraction(1, 2) for part in parts]) < 0.8


def test_multiples(samples: dict[str, list[Problem]]) -> None:
    quotients = [abs(p.a.units) / abs(p.b.units) for p in samples["multiples"]]
    assert np.mean([abs(q - round(q)) < 0.01 * q for q in quotients]) > 0.5


def test_all_numbers_of_places_occur() -> None:
    words = bit_generator(8, 0, 0).random_raw(WORDS * N).reshape(WORDS, N)
    assert set(texture(words).places.tolist()) == set(range(MAX_ASKED_PLACES + 1))


@given(words_of(WORDS))
def test_any_words_are_a_problem(words: Words) -> None:
    (problem,) = texture(words).to_problems()
    assert 0 <= problem.places <= MAX_ASKED_PLACES
