"""The text of a completion up to a stop string, however it comes in parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from api.completions import StoppedText
from api.schemas.completions import MAX_STOP_LENGTH
from calcgpt.data.tokenizer import CharTokenizer, text_tokenizer

LETTERS = "abc"
tokenizer = text_tokenizer(LETTERS)


def first_stop(text: str, stops: list[str]) -> int | None:
    """Returns the position of the first complete stop; of several, that of the longest."""
    for n in range(len(text) + 1):
        if complete := [stop for stop in stops if text[:n].endswith(stop)]:
            return n - max(map(len, complete))
    return None


@given(
    st.lists(st.text(LETTERS, max_size=6), max_size=12),
    st.lists(st.text(LETTERS, min_size=1, max_size=7), max_size=4),
)
def test_the_text_ends_before_the_first_stop_and_comes_as_soon_as_it_is_certain(
    parts: list[str], stops: list[str]
) -> None:
    written, read, returned = StoppedText(tokenizer, stops), "", ""
    for part in parts:
        returned += written.feed(tokenizer.encode(part).tolist())
        read += part
        end = first_stop(read, stops)
        assert written.stopped == (end is not None)
        if end is not None:
            assert returned == read[:end]
            return
        open_ends = [n for stop in stops for n in range(len(stop)) if read.endswith(stop[:n])]
        assert returned == read[: len(read) - max(open_ends, default=0)]
    assert returned + written.feed([], final=True) == read


def test_no_stop_costs_more_than_others() -> None:
    """The worst strings for a search by comparison: all their beginnings occur everywhere."""
    comparisons = 0

    class Counted(str):
        """One character, whose comparisons are counted."""

        def __iter__(self) -> Iterator[str]:
            return iter((self,))

        def __ne__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__ne__(self, other)

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    class CountingTokenizer(CharTokenizer):
        def decode(self, ids: npt.ArrayLike) -> str:
            return Counted(super().decode(ids))

    stop = "a" * (MAX_STOP_LENGTH - 1) + "b"
    written = StoppedText(CountingTokenizer("ab"), [stop] * 4)
    n = 50 * MAX_STOP_LENGTH
    for _ in range(n):
        written.feed([0])
    assert 0 < comparisons <= 3 * 4 * n
