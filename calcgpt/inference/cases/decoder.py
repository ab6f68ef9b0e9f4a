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
    """The texts so far: keys and values are tables, so there is nothing else to keep."""

    def __init__(self, batch: int) -> None:
        self.texts = [b""] * batch

    def select(self, rows: Ints) -> None:
        """Keeps these rows of the batch."""
        self.texts = [self.texts[row] for row in rows.tolist()]


class Step(NamedTuple):
    """A slot to write: how its entry is found, and the positions that it reads."""

    base: int
    steps: tuple[list[int], ...]
    sources: tuple[int, ...]
    kind: int


class CaseDecoder:
    """A `Decoder` and `GreedyWriter` for models of `calcgpt.model.sources`. It writes from a
    memory, whose entries the network makes the first time. Several threads may call it."""

    at_once = 1  # a row after the other, so that no number of rows is faster

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
        self._append(cache, tokens_BT)
        n_new = 1 if last_only else tokens_BT.shape[1]
        cases_BTR = np.stack([next_cases(text, len(text) - n_new) for text in cache.texts])
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
        return _padded([self._write(self._codes[p].tobytes(), length) for p in prompts_BP])

    def join(self, tokens_RP: Ints, cache: Cache, stop_token: int) -> tuple[Ints, Floats]:
        """Adds texts to the cache as its last rows, and drops those whose next token is
        `stop_token`. Returns the next token of each, which is not in the cache yet, and its
        probability, both (R,)."""
        texts = [self._codes[p].tobytes() for p in tokens_RP]
        tokens_R1, probabilities_R1 = _padded([self._write(text, 1) for text in texts])
        going_on = tokens_R1[:, 0] != stop_token
        cache.texts += [text for text, goes_on in zip(texts, going_on, strict=True) if goes_on]
        return tokens_R1[:, 0], probabilities_R1[:, 0]

    def extend(
        self, tokens_BT: Ints, cache: Cache, stop_token: int, length: int
    ) -> tuple[Ints, Floats]:
        """Continues the texts of a cache by `tokens_BT` and then as `write` does. The last token of
        each is not in the cache yet. Drops the rows that end with `stop_token`."""
        self._append(cache, tokens_BT)
        rows = [self._write(text, length) for text in cache.texts]
        cache.texts = [
            text + self._codes[tokens[:-1]].tobytes()
            for text, (tokens, _) in zip(cache.texts, rows, strict=True)
            if tokens[-1] != stop_token
        ]
        return _padded(rows)

    def _append(self, cache: Cache, tokens_BT: Ints) -> None:
        new = [self._codes[tokens_T].tobytes() for tokens_T in tokens_BT]
        cache.texts = [text + part for text, part in zip(cache.texts, new, strict=True)]

    def _write(self, beginning: bytes, length: int) -> tuple[Ints, Floats]:
        """Returns the tokens that follow the beginning of a line, and their probabilities."""
        prompt = beginning[: beginning.find(b"=") + 1].decode("ascii")
        parse_prompt(prompt or beginning.decode("ascii"))  # raises NotationError
        shape = require_shape(prompt)
        work, plan = self._work(shape), layout(shape)
        n_work = len(plan)
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
        return self._steps(plan[i] for i in range(plan.prompt_length, len(plan)))

    def _steps(self, slots: Iterable[Slot]) -> list[Step]:
        reader = self.memory.reader
        return [Step(*reader(s.kind, len(s.sources)), s.sources, s.kind) for s in slots]


def _padded(rows: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    """Returns the tokens of rows, -1 after their ends, and their probabilities, both (B, L)."""
    longest = max((len(tokens) for tokens, _ in rows), default=0)
    tokens_BL = np.full((len(rows), longest), -1, np.int64)
    probabilities_BL = np.zeros((len(rows), longest), np.float32)
    for row, (tokens, probabilities) in enumerate(rows):
        tokens_BL[row, : len(tokens)] = tokens
        probabilities_BL[row, : len(tokens)] = probabilities
    return tokens_BL, probabilities_BL
