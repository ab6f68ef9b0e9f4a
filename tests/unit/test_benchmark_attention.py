"""Where a head looks is measured at the source of a character, from the character before it."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from benchmarks.attention import attention_of_heads
from calcgpt.lab.circuits import sources_of
from datagen.work import render

LINE = render([b"$(0000000047*0000000035)="])[0]
RULE = "digit of a product: A"


def test_the_weight_on_the_source_and_the_offset_of_the_largest_weight() -> None:
    places = [(at, source) for name, at, source in sources_of(LINE) if name == RULE]
    (first, source), (second, other) = places[:2]
    weights = np.zeros((1, 2, len(LINE), len(LINE)))
    weights[0, 1, first - 1, source] = 0.75  # the character before `first` is read then
    weights[0, 1, second - 1, [other, source]] = 0.25, 0.5
    looks = list(attention_of_heads(LINE, weights, {RULE: (0, 1)}, end=second))
    assert looks == [
        (RULE, first, 0.75, "+0 rows, +0 columns"),
        (RULE, second, 0.25, "+0 rows, -1 columns"),
    ]


def test_nothing_behind_the_first_wrong_character_counts() -> None:
    weights = np.zeros((1, 1, len(LINE), len(LINE)))
    first = next(at for name, at, _ in sources_of(LINE) if name == RULE)
    looks = list(attention_of_heads(LINE, weights, {RULE: (0, 0)}, end=first))
    assert [position for _, position, _, _ in looks] == [first]
