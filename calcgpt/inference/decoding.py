"""What writes texts with a model: the interface of all engines."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WHOLE = 10**9  # more characters than any text has
Floats = NDArray[np.float32]


class Written(NamedTuple):
    """A text that a model wrote, and the probability of each of its characters."""

    text: str
    probabilities: Floats


class Writing(ABC):
    """A text that is being written greedily, in parts."""

    is_done = False

    @abstractmethod
    def write(self, n: int) -> int:
        """Writes at most `n` more characters. Returns how many."""

    @abstractmethod
    def written(self, start: int = 0) -> Written:
        """Returns what is written so far, from a character on."""

    def whole(self) -> Written:
        """Returns the whole text."""
        while not self.is_done:
            self.write(WHOLE)
        return self.written()


class Decoder(ABC):
    """Writes texts with a model, one token per character, greedily. Several threads may use it."""

    block_size: int  # of the model's context
    is_fast = False  # so that nobody has to wait while it writes a few characters
    is_proved = False  # whether all that it writes was tried on this machine

    @abstractmethod
    def begin(self, prompt: str) -> Writing:
        """Returns what follows a prompt, of which nothing is written yet."""

    def warm_up(self) -> Iterator[None]:
        """Computes what most answers need, if the engine remembers it. Yields after each part,
        which takes about a millisecond."""
        yield from ()

    def complete(self, prompts: Sequence[str]) -> list[Written]:
        """Returns what follows each prompt."""
        return [self.begin(prompt).whole() for prompt in prompts]
