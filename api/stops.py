"""The text of a completion while it is written: whole characters, up to the first stop string.

The time for a token does not depend on how much is written, nor on the length of the stop strings:
each is searched for by the automaton of Knuth, Morris and Pratt (1977).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from calcgpt.data.tokenizer import Tokenizer


class StoppedText:
    """The text of tokens, given as they come, up to the first of some strings."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self.stopped = False
        self._decode = tokenizer.incremental_decoder()
        self._stops = stops
        self._matched = [0] * len(stops)  # how much of each string the text ends with
        self._held = ""  # the end of the text, if it may be the beginning of a stop

    def feed(self, ids: Sequence[int], final: bool = False) -> str:
        """Takes further tokens, and returns what they add to the text.

        What later tokens could change is returned later: a part of a character, or the beginning of
        a stop string. After the `final` tokens there is nothing later.
        """
        if self.stopped:
            return ""
        text = self._decode(ids, final)
        for n_read, character in enumerate(text, start=1):
            if n_stop := self._advance(character):
                self.stopped = True
                whole = self._held + text[:n_read]
                return whole[: len(whole) - n_stop]
        whole = self._held + text
        n_held = 0 if final else max(self._matched, default=0)
        self._held = whole[len(whole) - n_held :]
        return whole[: len(whole) - n_held]

    def _advance(self, character: str) -> int:
        """Reads a character. Returns the length of the longest stop that is complete with it."""
        complete = 0
        for index, stop in enumerate(self._stops):
            n, borders = self._matched[index], _borders(stop)
            while n and stop[n] != character:
                n = borders[n - 1]
            n += stop[n] == character
            self._matched[index] = n
            if n == len(stop):
                complete = max(complete, n)
        return complete


@lru_cache(maxsize=64)
def _borders(stop: str) -> list[int]:
    """Returns for each beginning of a string the length of the longest shorter string with which it
    both begins and ends."""
    borders = [0]
    for character in stop[1:]:
        n = borders[-1]
        while n and stop[n] != character:
            n = borders[n - 1]
        borders.append(n + (stop[n] == character))
    return borders
