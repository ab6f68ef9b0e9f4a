"""What the network writes in each case, remembered: one character and its probability.

Everything here comes from the weights. Which cases there are is told from outside, what is right in
them is not: neither this file nor what it imports knows the rules (a test holds it).

Shapes: N cases, R sources, V tokens, K kinds of slots, M entries, S slots.
"""

import io
import logging
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calcgpt.inference.cache import cache_folder, changeable
from calcgpt.inference.cases.network import Floats, Ints, Network
from datagen.slots import MAX_SOURCES, N_KINDS, Kind

N_CODES = 128  # ASCII
OUTSIDE, UNKNOWN = 255, 254  # entries that are no character: of no case, and not asked yet
NONE = 0  # code of a source that does not exist
NOT_A_CASE = 2**40  # added to an index by a character that a source never is
AT_ONCE = 64  # cases: twice the time of one. So few take one thread, which waits for no other
SMALL_KIND = 50_000  # cases: all but the digits of quotients and of last remainders
WINDOW = 4_096  # entries among which others are looked for

log = logging.getLogger(__name__)


class Entries(NamedTuple):
    """A perfect index: for each kind of slot, a stride for each source by the characters that it
    can be. The entry of a case is at `bases[kind]` plus `steps[kind, source, code]` of each source.
    """

    bases: NDArray[np.int64]  # (K,)
    steps: NDArray[np.int64]  # (K, R, N_CODES)
    characters: NDArray[np.uint8]  # (M,)
    probabilities: Floats  # (M,)

    @classmethod
    def of(cls, kinds_N: NDArray[np.uint8], sources_NR: NDArray[np.uint8]) -> Self:
        """Returns unknown entries for all cases, which are sorted by kind."""
        bases = np.full(N_KINDS, NOT_A_CASE)
        steps = np.full((N_KINDS, MAX_SOURCES, N_CODES), NOT_A_CASE)
        total, (kinds, starts) = 0, np.unique(kinds_N, return_index=True)
        for kind, part in zip(kinds, np.split(sources_NR, starts[1:]), strict=True):
            bases[kind], size = total, 1
            for row, column in zip(steps[kind], part.T, strict=True):
                seen = np.flatnonzero(np.bincount(column))
                row[seen] = np.arange(len(seen)) * size
                size *= len(seen)
            total += size
        entries = cls(bases, steps, np.full(total, OUTSIDE, np.uint8), np.zeros(total, np.float32))
        entries.characters[entries.indices(kinds_N, sources_NR)] = UNKNOWN
        return entries

    def indices(
        self, kinds_N: NDArray[np.uint8], sources_NR: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """Returns where the entries of cases are, (N,)."""
        index_N: NDArray[np.int64] = self.bases[kinds_N]
        for source, codes_N in enumerate(sources_NR.T):
            index_N = index_N + self.steps[kinds_N, source, codes_N]
        return index_N

    def sources(self, kind: int, index_N: Ints) -> NDArray[np.uint8]:
        """Returns the sources of the entries of a kind, (N, R)."""
        sources_NR = np.zeros((len(index_N), MAX_SOURCES), np.uint8)
        left_N = index_N - self.bases[kind]
        for source, steps in enumerate(self.steps[kind]):
            seen = np.flatnonzero(steps < NOT_A_CASE)
            sources_NR[:, source] = seen[left_N % len(seen)]
            left_N = left_N // len(seen)
        return sources_NR

    def to_bytes(self) -> bytes:
        """Returns the entries as the content of a file. Those of no case have no probability."""
        file, cases = io.BytesIO(), self.characters != OUTSIDE
        stored = self._replace(probabilities=self.probabilities[cases])
        np.savez(file, **stored._asdict(), allow_pickle=False)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Inverts `to_bytes`."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            stored = cls(*(arrays[name] for name in cls._fields))
        probabilities = np.zeros(len(stored.characters), np.float32)
        probabilities[stored.characters != OUTSIDE] = stored.probabilities
        return stored._replace(probabilities=probabilities)


class Memory:
    """Entries, which the network fills: it is asked once about each case."""

    def __init__(self, network: Network, vocabulary: str, entries: Entries) -> None:
        self.network, self.entries = network, entries
        codes = np.frombuffer(vocabulary.encode("ascii"), np.uint8)
        self._code_of_token, self._token_of_code = codes, np.full(N_CODES, -1)
        self._token_of_code[codes] = np.arange(len(codes))
        # A source that is never read adds 0 to the index of its only character, NONE.
        is_read_KR = (entries.steps[:, :, NONE + 1 :] < NOT_A_CASE).any(axis=2)
        n_read_K = np.where(is_read_KR, np.arange(1, MAX_SOURCES + 1), 0).max(axis=1)
        n_seen_KR = (entries.steps < NOT_A_CASE).sum(axis=2)
        self._ends = entries.bases + n_seen_KR.prod(axis=1)
        #: What the loop takes, as arrays.
        self.arrays = tuple(entries)
        #: The same for plain Python, which reads lists and memory faster.
        self.plain = (
            entries.bases.tolist(),
            [steps_RX[:n].tolist() for steps_RX, n in zip(entries.steps, n_read_K, strict=True)],
            entries.characters.data,
            entries.probabilities.data,
        )

    def find(
        self, kinds_N: Ints, sources_NR: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Returns where the entries are and what they hold, OUTSIDE if there is none, both (N,)."""
        index_N, n_entry = self.entries.indices(kinds_N, sources_NR), len(self.entries.characters)
        found_N = self.entries.characters[np.minimum(index_N, n_entry - 1)]
        return index_N, np.where(index_N < n_entry, found_N, OUTSIDE).astype(np.uint8)

    def ask(
        self, kinds_N: Ints, sources_NR: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], Floats, Floats]:
        """Asks the network. Returns the codes of the characters that it writes and their
        probabilities, both (N,), and its logits, (N, V)."""
        logits_NV = self.network(kinds_N, self._token_of_code[sources_NR])
        order_NV = logits_NV.argsort(axis=1)
        best_N, other_N = self._code_of_token[order_NV[:, :-3:-1]].T
        weights_NV = np.exp(logits_NV - logits_NV.max(axis=1, keepdims=True))
        # Either of two neighbouring quotient digits may be right: both are what the model knows.
        both_N = (kinds_N == Kind.QUOTIENT_DIGIT) & (abs(best_N.astype(int) - other_N) == 1)
        chosen_N = 1 + np.where(both_N, np.partition(weights_NV, -2, axis=1)[:, -2], 0)
        return best_N, chosen_N / weights_NV.sum(axis=1), logits_NV

    def fill_around(self, kinds_N: Ints, sources_NR: NDArray[np.uint8]) -> None:
        """Fills at most AT_ONCE cases: those given, of which the first is unknown, and others near
        that, which are likely to be asked about soon."""
        kind, (first,) = kinds_N[0], self.entries.indices(kinds_N[:1], sources_NR[:1])
        near = self.entries.characters[first + 1 : first + 1 + WINDOW] == UNKNOWN
        index_M = first + 1 + np.flatnonzero(near)[: AT_ONCE - len(kinds_N)]
        index_M = index_M[index_M < self._ends[kind]]
        kinds_M = np.full(len(index_M), kind, np.uint8)
        others_MR = self.entries.sources(kind, index_M)
        self.fill(np.append(kinds_N, kinds_M), np.concatenate((sources_NR, others_MR)))

    def fill_small_kinds(self) -> Iterator[None]:
        """Fills all kinds of at most SMALL_KIND cases, which most answers need. Yields after each
        AT_ONCE of them."""
        for kind, (first, end) in enumerate(zip(self.entries.bases, self._ends, strict=True)):
            index_N = first + np.flatnonzero(self.entries.characters[first:end] == UNKNOWN)
            for start in range(0, len(index_N) if len(index_N) <= SMALL_KIND else 0, AT_ONCE):
                index_M = index_N[start : start + AT_ONCE]
                kinds_M = np.full(len(index_M), kind, np.uint8)
                self.fill(kinds_M, self.entries.sources(kind, index_M))
                yield

    def fill(self, kinds_N: Ints, sources_NR: NDArray[np.uint8]) -> Floats:
        """Asks the network about cases, and remembers its answers. Returns its logits, (N, V)."""
        index_N = self.entries.indices(kinds_N, sources_NR)
        best_N, probabilities_N, logits_NV = self.ask(kinds_N, sources_NR)
        self.entries.probabilities[index_N] = probabilities_N
        # Last: another thread that finds a character finds its probability, too.
        self.entries.characters[index_N] = best_N
        return logits_NV


Loop = Callable[..., int]


def look_up(
    text: Any,  # the characters so far; the last is 0, which a source that does not exist reads
    written: Any,  # the probability of each character of the text
    first: int,  # slot
    stop: int,  # slot
    offset: int,  # position of slot 0 in the text
    kinds: Any,  # (S,)
    sources: Any,  # (S * R,) positions, -1 for none
    bases: Any,  # (K,)
    steps: Any,  # (K, R, N_CODES), but for the last sources that are never read: they add 0
    characters: Any,  # (M,)
    probabilities: Any,  # (M,)
) -> int:
    """Writes the characters of slots, in place, up to one whose entry is not a character. Returns
    that slot, or `stop`."""
    n_entry = len(characters)
    for slot in range(first, stop):
        kind = kinds[slot]
        index, source = bases[kind], slot * MAX_SOURCES
        for of_code in steps[kind]:
            index += of_code[text[sources[source]]]
            source += 1
        if index >= n_entry:
            return slot
        character = characters[index]
        if character >= UNKNOWN:
            return slot
        text[offset + slot] = character
        written[offset + slot] = probabilities[index]
    return stop


@cache
def compiled() -> Loop | None:
    """Returns `look_up` as machine code for arrays; None without Numba. The first time takes about
    a second, or less where the machine code is kept."""
    try:
        import numba
    except ImportError:
        return None
    folder = cache_folder() / "numba"
    if changeable(folder) is None:
        numba.config.CACHE_DIR = str(folder)
        try:
            kept: Loop = numba.njit(look_up, nogil=True, cache=True)
        except RuntimeError as error:  # no folder can be written to
            log.info("the compiled loop is not kept: %s", error)
        else:
            return kept
    loop: Loop = numba.njit(look_up, nogil=True)
    return loop
