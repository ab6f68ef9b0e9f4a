"""Text to token ids and back."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from calcgpt.errors import CheckpointError, DataError
from calcgpt.registry import Registry
from datagen.notation import ALPHABET
from datagen.steps import STEPS_ALPHABET


class CharTokenizer:
    """One token a character. Ids are the positions in `vocabulary`, which is sorted."""

    def __init__(self, vocabulary: str) -> None:
        if not vocabulary or "".join(sorted(set(vocabulary))) != vocabulary:
            raise ValueError("a vocabulary is a sorted string of distinct characters")
        self.vocabulary = vocabulary
        # Code point -> id; -1 is a character that the vocabulary lacks.
        self._ids = np.full(max(map(ord, vocabulary)) + 2, -1, dtype=np.int32)
        self._ids[[ord(c) for c in vocabulary]] = np.arange(len(vocabulary))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> npt.NDArray[np.uint8 | np.uint16]:
        """Ids of `text`, one a character, in the smallest type that holds them.

        Raises DataError naming the first character that the vocabulary lacks, and its place.
        """
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        ids = self._ids[np.minimum(points, len(self._ids) - 1)]
        if (ids < 0).any():
            at = int((ids < 0).argmax())
            raise DataError(f"character {text[at]!r} at position {at} is not in the vocabulary")
        return ids.astype(np.uint8 if len(self) <= 256 else np.uint16)

    def decode(self, ids: npt.ArrayLike) -> str:
        """The text of `ids`."""
        return "".join(self.vocabulary[i] for i in np.asarray(ids).tolist())

    def to_json(self) -> str:
        """The content of `tokenizer.json`."""
        return json.dumps({"type": "chars", "vocabulary": self.vocabulary}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CharTokenizer:
        """The tokenizer that `to_json` described; raises CheckpointError on anything else."""
        try:
            content = json.loads(text)
            if content["type"] != "chars":
                raise CheckpointError(f"tokenizer type {content['type']!r} is not known")
            return cls(content["vocabulary"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"not a tokenizer: {error}") from None


# A name in a recipe -> the tokenizer for a training text.
TOKENIZERS: Registry[Callable[[str], CharTokenizer]] = Registry("tokenizer")


@TOKENIZERS.register("arithmetic")
def arithmetic_tokenizer(text: str = "") -> CharTokenizer:
    """The 21 characters of the notation, whatever the text holds."""
    return CharTokenizer(ALPHABET)


@TOKENIZERS.register("steps")
def steps_tokenizer(text: str = "") -> CharTokenizer:
    """The characters of the notation with worked steps, whatever the text holds."""
    return CharTokenizer(STEPS_ALPHABET)


@TOKENIZERS.register("chars")
def text_tokenizer(text: str) -> CharTokenizer:
    """The characters of the text itself, sorted."""
    return CharTokenizer("".join(sorted(set(text))))
