"""Decoding as look-ups: the layout says which case each character is, the memory what is written.

Shapes: B sequences, P prompt tokens, T tokens, S all tokens, L tokens to write, V vocabulary.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.inference.cases import stored
from calcgpt.inference.cases.memory import OUTSIDE, UNKNOWN, Entries, Memory
from calcgpt.inference.cases.network import Network
from datagen.answer_layout import answer_shape, answer_slots
from datagen.cases import all_cases
from datagen.layout import layout, require_shape
from datagen.notation import parse_prompt
from datagen.slots import Layout, Shape, Slot, shape_cache
from datagen.sources import next_cases

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Cache:
    """The tokens so far: keys and values are tables, so there is nothing else to keep."""

    def __init__(self, batch: int) -> None:
        self.tokens_BS = np.zeros((batch, 0), np.int64)

    def select(self, rows: Ints) -> None:
        """Keeps these rows of the batch."""
        self.tokens_BS = self.tokens_BS[rows]


class Step(NamedTuple):
    """A slot to write: how its entry is found, and the positions that it reads."""

    base: int
    steps: tuple[list[int], ...]
    sources: tuple[int, ...]
    kind: int


class CaseDecoder:
    """A `Decoder` and `BatchWriter` for models of `calcgpt.model.sources`. It writes from a memory,
    whose entries the network makes the first time. Several threads may call it."""

    def __init__(self, config: ModelConfig, vocabulary: str, tensors: Mapping[str, Floats]) -> None:
        """The memory is that of an earlier proof, if there was one, and else empty. Raises what
        `Network` raises."""
        self.config = config
        self.network = Network(config, len(vocabulary), tensors)
        #: Where the memory is kept once it is proved.
        self.file = stored.path_of(config, vocabulary, tensors)
        proved = stored.load(self.file)
        entries = Entries.of(*all_cases()[:2]) if proved is None else proved
        self.memory = Memory(self.network, vocabulary, entries)
        self._work = shape_cache(len)(self._work_steps)
        self._codes = np.frombuffer(vocabulary.encode("ascii"), np.uint8)
        self._token_of_code = np.full(2**8, -1)
        self._token_of_code[self._codes] = np.arange(len(self._codes))

    def new_array_cache(self, batch: int, n_token: int) -> Cache:
        """Returns an empty cache for `batch` sequences."""
        return Cache(batch)

    def __call__(self, tokens_BT: Ints, cache: Cache, last_only: bool = False) -> Floats:
        """Returns the logits of the tokens after those in the cache, and adds them to it: (B, T,
        V), or (B, 1, V) of the last token with `last_only`. Always asks the network."""
        start = cache.tokens_BS.shape[1]
        cache.tokens_BS = np.concatenate((cache.tokens_BS, tokens_BT), axis=1)
        if last_only:
            start = cache.tokens_BS.shape[1] - 1
        texts = [self._codes[tokens_S].tobytes() for tokens_S in cache.tokens_BS]
        cases_BTR = np.stack([next_cases(text, start) for text in texts])
        B, T, _ = cases_BTR.shape
        cases_NR = cases_BTR.reshape(B * T, -1)
        logits_NV = self.network(cases_NR[:, 0], self._token_of_code[cases_NR[:, 1:]])
        return logits_NV.reshape(B, T, -1)

    def write(self, prompts_BP: Ints, stop_token: int, length: int) -> tuple[Ints, Floats]:
        """Continues each prompt, by at most `length` tokens. Returns the tokens, -1 after the end
        of a row, and their probabilities, both (B, L).

        Raises DataError for what does not begin with a prompt of the notation, and where the model
        goes wrong so far that a rule would read what it never reads.
        """
        rows = [self._write(self._codes[p].tobytes(), length) for p in prompts_BP]
        longest = max(len(tokens) for tokens, _ in rows)
        tokens_BL = np.full((len(rows), longest), -1, np.int64)
        probabilities_BL = np.zeros((len(rows), longest), np.float32)
        for row, (tokens, probabilities) in enumerate(rows):
            tokens_BL[row, : len(tokens)] = tokens
            probabilities_BL[row, : len(tokens)] = probabilities
        return tokens_BL, probabilities_BL

    def _write(self, beginning: bytes, length: int) -> tuple[Ints, Floats]:
        """Returns the tokens that follow the beginning of a line, and their probabilities."""
        prompt = beginning[: beginning.find(b"=") + 1].decode("ascii")
        parse_prompt(prompt or beginning.decode("ascii"))  # raises NotationError
        shape = require_shape(prompt)
        work, plan = self._work(shape), layout(shape)
        n_work = len(plan.slots)
        text, entries = bytearray(n_work + 1), []  # a source that is NOWHERE, -1, reads the last
        text[: len(beginning)] = beginning[:n_work]
        stop = min(n_work, len(beginning) + length)
        first = max(0, len(beginning) - plan.prompt_length)
        entries += self._look_up(text, work[first : stop - plan.prompt_length], len(beginning))
        if stop == n_work:
            answer = self._steps(answer_slots(plan, answer_shape(plan, bytes(text))))
            written = beginning[n_work:]
            text[n_work:] = written + bytes(max(0, len(answer) - len(written)) + 1)
            answer = answer[: len(beginning) + length - n_work]
            entries += self._look_up(text, answer[len(written) :], n_work + len(written))
        index = np.array(entries, np.int64)
        tokens = self._token_of_code[self.memory.entries.characters[index]]
        return tokens, self.memory.entries.probabilities[index]

    def _look_up(self, text: bytearray, steps: Iterable[Step], position: int) -> list[int]:
        """Writes the characters of steps, in place. Returns the indices of their entries."""
        entries, characters = [], self.memory.entries.characters.data
        n_entry = len(characters)
        for base, numbers, sources, kind in steps:
            index = base
            for number, source in zip(numbers, sources, strict=True):
                index += number[text[source]]
            character = characters[index] if index < n_entry else OUTSIDE
            if character >= UNKNOWN:
                read = [text[source] for source in sources]
                character = self.memory.ask(index, kind, read)
            text[position] = character
            entries.append(index)
            position += 1
        return entries

    def _work_steps(self, shape: Shape) -> list[Step]:
        """Returns the steps of the work of a shape."""
        plan: Layout = layout(shape)
        return self._steps(plan.slots[plan.prompt_length :])

    def _steps(self, slots: Iterable[Slot]) -> list[Step]:
        reader = self.memory.reader
        return [Step(*reader(s.kind, len(s.sources)), s.sources, s.kind) for s in slots]
