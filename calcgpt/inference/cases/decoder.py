"""Decoding as look-ups: the layout says which case each character is, the memory what is written.

Shapes: B sequences, T tokens, S slots, R sources, N cases, V vocabulary.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcgpt.base.errors import DataError
from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError
from calcgpt.inference.cases import stored
from calcgpt.inference.cases.memory import (
    AT_ONCE,
    OUTSIDE,
    UNKNOWN,
    Loop,
    Memory,
    compiled,
    look_up,
)
from calcgpt.inference.cases.network import Network
from calcgpt.inference.decoding import Decoder, Writing, Written
from datagen.answer_layout import AnswerShape, Slots, answer_shape, answer_slots, as_arrays
from datagen.layout import require_shape
from datagen.layout_check import checked_layout
from datagen.notation import parse_prompt
from datagen.slots import WIDTH, Layout, Shape, shape_cache

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

AHEAD = 512  # slots among which the network is asked about all that are ready
COMPILED_FROM = 500_000  # slots: machine code that has to be made, or loaded, saves time from here


def network_of(checkpoint: Checkpoint) -> Network:
    """Returns the network of a checkpoint. Raises DataError if a token may be longer than one
    character, and what `Network` raises, with the checkpoint's name."""
    vocabulary = checkpoint.tokenizer.require_characters().vocabulary
    try:
        return Network(checkpoint.recipe.model, len(vocabulary), checkpoint.arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.name}: {error}") from error


class CaseDecoder(Decoder):
    """Writes with a model of `calcgpt_lab.model.sources`, from a memory whose entries the network
    makes the first time."""

    is_fast = True

    def __init__(self, checkpoint: Checkpoint, live: bool = False) -> None:
        """The memory is that of an earlier proof, if there was one, and else empty. With `live`,
        nothing is remembered: the network is asked about each character. Of a model that is wrong
        in some cases, it is also asked about what is no case, to which such a model may come.

        Raises what `network_of` raises.
        """
        self.block_size, self.live = checkpoint.recipe.model.block_size, live
        self.strict = checkpoint.is_certain
        network = network_of(checkpoint)
        proved = None if live else stored.load(stored.path_of(checkpoint))
        #: Whether all that it writes was tried on this machine.
        self.is_proved = proved is not None
        entries = stored.unknown() if proved is None else proved
        vocabulary = checkpoint.tokenizer.require_characters().vocabulary
        self.memory = Memory(network, vocabulary, entries)
        #: The slots of an answer.
        self.answer = shape_cache(lambda slots: len(slots.kinds))(_answer)

    def begin(self, prompt: str) -> Writing:
        """Returns what follows a prompt.

        Raises NotationError for what is no prompt, and LayoutError if a slot reads what its rule
        does not. Writing raises DataError where the model goes wrong so far that a rule would read
        what it never reads.
        """
        parse_prompt(prompt)
        return CaseWriting(self, prompt)

    def warm_up(self) -> Iterator[None]:
        if not self.live:
            yield from self.memory.fill_small_kinds()


def _answer(key: tuple[Shape, AnswerShape], work: Layout) -> Slots:
    return as_arrays(answer_slots(work, key[1]))


class CaseWriting(Writing):
    """A text that is written from a memory."""

    def __init__(self, decoder: CaseDecoder, prompt: str) -> None:
        self._decoder, self._shape = decoder, require_shape(prompt)
        self._work = checked_layout(self._shape)
        self._answer: Slots | None = None
        self._start, self._n_work = len(prompt), len(self._work)
        digits = max(WIDTH, len(self._work.result), self._work.result_places + 1)
        room = digits + len("-.$\0")  # of the answer, at most
        self._text = bytearray(self._n_work + room)
        self._text[: self._start] = prompt.encode("ascii")
        self._codes = np.frombuffer(self._text, np.uint8)
        self._probabilities = np.zeros(len(self._text), np.float32)
        self._stop = self._start  # of what is written
        self._loop = compiled() if self._n_work >= COMPILED_FROM else None

    def write(self, n: int) -> int:
        before, stop = self._stop, self._stop + n
        if self._stop < self._n_work:
            self._fill_in(self._work, 0, min(stop, self._n_work))
        if self._stop < self._n_work:
            return n
        if self._answer is None:
            answer = answer_shape(self._work, bytes(self._text))
            self._answer = self._decoder.answer((self._shape, answer), self._work)
        end = self._n_work + len(self._answer.kinds)
        self._fill_in(self._answer, self._n_work, min(stop, end))
        self.is_done = self._stop == end
        return self._stop - before

    def written(self, start: int = 0) -> Written:
        part = slice(self._start + start, self._stop)
        return Written(self._text[part].decode("ascii"), self._probabilities[part])

    def _fill_in(self, slots: Layout | Slots, offset: int, stop: int) -> None:
        """Writes up to a position of the text, from slots of which the first is at `offset`."""
        kinds, sources = slots.kinds, slots.sources.reshape(-1)
        memory = self._decoder.memory
        loop: Loop = look_up
        places: tuple[Any, ...] = (self._text, self._probabilities.data)
        arrays: tuple[Any, ...] = (offset, kinds.data, sources.data, *memory.plain)
        if self._loop and not offset:  # an answer is short
            places, loop = (self._codes, self._probabilities), self._loop
            arrays = (offset, kinds, sources, *memory.arrays)
        while self._stop < stop:
            if not self._decoder.live:
                slot = loop(*places, self._stop - offset, stop - offset, *arrays)
                self._stop = offset + slot
            if self._stop < stop:
                self._ask(slots, offset)

    def _ask(self, slots: Layout | Slots, offset: int) -> None:
        """Asks the network about the slot at the end of what is written, and about others that are
        ready. Writes its character if that is not remembered."""
        decoder, memory = self._decoder, self._decoder.memory
        slot = self._stop - offset
        last = slot + (1 if decoder.live else AHEAD)
        sources_SR, kinds_S = slots.sources[slot:last], slots.kinds[slot:last]
        ready_S = (sources_SR < self._stop).all(axis=1)
        kinds_N, codes_NR = kinds_S[ready_S], self._codes[sources_SR[ready_S]]
        index_N, found_N = memory.find(kinds_N, codes_NR)
        if found_N[0] == OUTSIDE and decoder.strict:
            read = "".join(chr(code) if code else "_" for code in codes_NR[0].tolist()).rstrip("_")
            raise DataError(
                f"the model went wrong: a rule of kind {kinds_N[0]} never reads {read!r}"
            )
        if found_N[0] == OUTSIDE or decoder.live:
            (code,), (probability,), _ = memory.ask(kinds_N[:1], codes_NR[:1])
            self._codes[self._stop], self._probabilities[self._stop] = code, probability
            self._stop += 1
            return
        rows = np.flatnonzero(found_N == UNKNOWN)
        _, first = np.unique(index_N[rows], return_index=True)
        rows = rows[np.sort(first)[:AT_ONCE]]
        memory.fill_around(kinds_N[rows], codes_NR[rows])
