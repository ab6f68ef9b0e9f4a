"""Tokenizers: text to token ids and back. The calculator's has one token per character. Packages
add others by entry points of the group `calcgpt.tokenizers`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calcgpt.base.errors import DataError
from calcgpt.base.files import strict_json
from calcgpt.base.plugins import extension, extensions
from calcgpt.errors import CheckpointError
from datagen.notation import ALPHABET, WORK_ALPHABET
from datagen.operations import OPERATIONS

ENTRY_POINTS = "calcgpt.tokenizers"
Ids = npt.NDArray[np.uint8 | np.uint16]
CodePoints = npt.NDArray[np.uint8 | np.uint32]
MAX_VOCABULARY = 2**16  # an id fits in 16 bits
# Characters of problems and their files. `calcgpt train` joins the lines of a file in a stream.
MARKS = "".join({*ALPHABET} - {*OPERATIONS} | {"-"})  # of problems, whatever their operations
NOTATION = frozenset((*WORK_ALPHABET, *OPERATIONS, " ", "\n"))


class UnknownCharacterError(DataError):
    """A text has a character that is not in the vocabulary."""

    def __init__(self, character: str, position: int) -> None:
        super().__init__(character, position)
        self.character, self.position = character, position

    def __str__(self) -> str:
        return f"character {self.character!r} at position {self.position} is not in the vocabulary"

    def in_file(self, path: object, text: str) -> str:
        """Returns the message with the line of a file that holds `text`."""
        line = text.count("\n", 0, text.index(self.character)) + 1
        return f"{path}, line {line}: character {self.character!r} is not in the vocabulary"


# Decodes a text whose ids come in parts: returns the text of these ids, preceded by what the last
# call kept. An incomplete character at the end is kept for the next call, unless told that these
# ids are the last ones.
IncrementalDecoder = Callable[[Sequence[int], bool], str]


class Tokenizer(ABC):
    """Text to token ids and back. The ids are 0 to `len(tokenizer)` - 1."""

    # Whether each token is one character, so that positions in ids and text are the same. Problems
    # need this: the notation counts characters.
    is_char_level: ClassVar[bool]

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of tokens."""

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Returns the ids of `text`, (n,), in the smallest type that holds all ids.

        Raises DataError, which names the first character that has no id, and its position.
        """

    @abstractmethod
    def decode(self, ids: npt.ArrayLike) -> str:
        """Returns the text of `ids`, (n,)."""

    def has_characters(self, characters: str) -> bool:
        """Whether each of these characters is a token."""
        return False

    def is_notation(self, characters: str = MARKS) -> bool:
        """Whether all tokens are characters of the notation of problems, and all of `characters`
        are tokens. A model of plain text may have these too, but it also has other characters."""
        return False

    def incremental_decoder(self) -> IncrementalDecoder:
        """Returns a function that decodes one text, given its ids in parts."""
        return lambda ids, final: self.decode(ids)

    @abstractmethod
    def to_json(self) -> str:
        """Returns the content of `tokenizer.json`: an object whose `type` is the name of this
        class, `chars` or that of an entry point."""

    @classmethod
    @abstractmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """Returns the tokenizer that `content`, the object in `tokenizer.json`, describes. Raises
        ValueError, KeyError or TypeError if the object is not valid: it may hold any JSON."""

    def require_characters(self) -> CharTokenizer:
        """Returns the tokenizer itself. Raises DataError unless each token is one character."""
        if not isinstance(self, CharTokenizer):
            raise DataError(
                "problems need one token per character: tokens of this model may be longer"
            )
        return self

    @property
    def id_type(self) -> type[np.uint8] | type[np.uint16]:
        """The smallest type that holds all ids."""
        return np.uint8 if len(self) <= 256 else np.uint16


def tokenizer_from_json(text: str) -> Tokenizer:
    """Returns the tokenizer that `to_json` described. Raises CheckpointError, one line, for any
    other text. Nothing in it is evaluated."""
    try:
        content = strict_json(text)
        name = content["type"]
        if name == "chars":
            return CharTokenizer.from_content(content)
        if name not in extensions(ENTRY_POINTS):
            raise CheckpointError(f"unknown tokenizer type {name!r:.40}")
        tokenizer: Tokenizer = extension(ENTRY_POINTS, name).from_content(content)
        return tokenizer
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"not a tokenizer: {error}") from None


def code_points(text: str | bytes) -> CodePoints:
    """Returns the characters of a string, or of ASCII bytes, as numbers; (n,)."""
    if isinstance(text, str) and not text.isascii():
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.frombuffer(text.encode("ascii") if isinstance(text, str) else text, np.uint8)


class CharTokenizer(Tokenizer):
    """One token per character. The ids are the positions in `vocabulary`, a sorted string."""

    is_char_level = True

    def __init__(self, vocabulary: str) -> None:
        if not vocabulary or "".join(sorted(set(vocabulary))) != vocabulary:
            raise ValueError("a vocabulary is a sorted string of distinct characters")
        if len(vocabulary) > MAX_VOCABULARY:
            raise ValueError(f"{len(vocabulary):,} characters; the limit is {MAX_VOCABULARY:,}")
        self.vocabulary = vocabulary
        # Code point -> id, or -1 for a character that is not in the vocabulary. The last entry,
        # -1, serves all larger code points.
        self._ids = np.full(max(map(ord, vocabulary)) + 2, -1, dtype=np.int32)
        self._ids[[ord(c) for c in vocabulary]] = np.arange(len(vocabulary))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Ids:
        return self.encode_points(code_points(text))

    def encode_points(self, points: CodePoints) -> Ids:
        """Returns the ids of characters. Raises what `encode` raises."""
        ids = self._ids.take(points, mode="clip")
        if (unknown := ids < 0).any():
            position = int(unknown.argmax())
            raise UnknownCharacterError(chr(points[position]), position)
        return ids.astype(self.id_type)

    def decode(self, ids: npt.ArrayLike) -> str:
        numbers = ids if isinstance(ids, list) else np.asarray(ids).tolist()
        return "".join([self.vocabulary[i] for i in numbers])

    def has_characters(self, characters: str) -> bool:
        return set(characters) <= set(self.vocabulary)

    def is_notation(self, characters: str = MARKS) -> bool:
        return self.has_characters(characters) and set(self.vocabulary) <= NOTATION

    def to_json(self) -> str:
        return json.dumps({"type": "chars", "vocabulary": self.vocabulary}, indent=2) + "\n"

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        return cls(content["vocabulary"])
