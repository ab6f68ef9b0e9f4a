"""Tokens that are characters."""

from __future__ import annotations

import json
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calcgpt.errors import DataError
from calcgpt.tokenizer.base import TYPES, Ids, Tokenizer, makes
from datagen.notation import ALPHABET
from datagen.steps import STEPS_ALPHABET


@TYPES.register("chars")
class CharTokenizer(Tokenizer):
    """One token a character. Ids are the positions in `vocabulary`, which is sorted."""

    one_a_character = True

    def __init__(self, vocabulary: str) -> None:
        if not vocabulary or "".join(sorted(set(vocabulary))) != vocabulary:
            raise ValueError("a vocabulary is a sorted string of distinct characters")
        self.vocabulary = vocabulary
        # Code point -> id; -1 is a character that the vocabulary lacks.
        self._ids = np.full(max(map(ord, vocabulary)) + 2, -1, dtype=np.int32)
        self._ids[[ord(c) for c in vocabulary]] = np.arange(len(vocabulary))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Ids:
        """Ids of `text`, one a character, in the smallest type that holds them.

        Raises DataError naming the first character that the vocabulary lacks, and its place.
        """
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        ids = self._ids[np.minimum(points, len(self._ids) - 1)]
        if (ids < 0).any():
            at = int((ids < 0).argmax())
            raise DataError(f"character {text[at]!r} at position {at} is not in the vocabulary")
        return ids.astype(self.id_type)

    def decode(self, ids: npt.ArrayLike) -> str:
        """The text of `ids`."""
        return "".join(self.vocabulary[i] for i in np.asarray(ids).tolist())

    def to_json(self) -> str:
        """The content of `tokenizer.json`."""
        return json.dumps({"type": "chars", "vocabulary": self.vocabulary}, indent=2) + "\n"

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        return cls(content["vocabulary"])


@makes(CharTokenizer, "arithmetic")
def arithmetic_tokenizer(text: str = "", vocab_size: int = 0) -> CharTokenizer:
    """The 21 characters of the notation, whatever the text holds."""
    return CharTokenizer(ALPHABET)


@makes(CharTokenizer, "steps")
def steps_tokenizer(text: str = "", vocab_size: int = 0) -> CharTokenizer:
    """The characters of the notation with worked steps, whatever the text holds."""
    return CharTokenizer(STEPS_ALPHABET)


@makes(CharTokenizer, "chars")
def text_tokenizer(text: str, vocab_size: int = 0) -> CharTokenizer:
    """The characters of the text itself, sorted."""
    return CharTokenizer("".join(sorted(set(text))))
