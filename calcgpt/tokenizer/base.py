"""What every tokenizer can do, and the tables that name them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from calcgpt.errors import CheckpointError, DataError
from calcgpt.registry import Registry

VOCAB_SIZE = 1_024  # tokens, where nothing else is asked for
Ids = npt.NDArray[np.uint8 | np.uint16]
Make = TypeVar("Make", bound="Callable[[str, int], Tokenizer]")


class Tokenizer(ABC):
    """Text to token ids and back. The ids are 0 to `len(tokenizer)` - 1."""

    # Whether each token is one character, so that a place in the ids is one in the text. Problems
    # need it: the notation counts characters.
    one_a_character: ClassVar[bool]

    @abstractmethod
    def __len__(self) -> int:
        """How many tokens there are."""

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Ids of `text`, (n,), in the smallest type that holds them all. Raises DataError, naming
        the first character that has none, and its place."""

    @abstractmethod
    def decode(self, ids: npt.ArrayLike) -> str:
        """The text of `ids`, (n,)."""

    @abstractmethod
    def to_json(self) -> str:
        """The content of `tokenizer.json`: an object whose `type` is a name in TYPES."""

    @classmethod
    @abstractmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """The tokenizer of that object, which may hold anything; raises ValueError, KeyError or
        TypeError where it is none."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The tokenizer, of this class, that `to_json` described; raises CheckpointError, one line,
        on anything else. Nothing is evaluated."""
        try:
            content = json.loads(text)
            name = content["type"]
            if name not in TYPES or not issubclass(kind := TYPES[name], cls):
                raise CheckpointError(f"tokenizer type {name!r:.40} is not known")
            return kind.from_content(content)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"not a tokenizer: {error}") from None

    def require_characters(self) -> None:
        """Raise DataError unless each token is one character."""
        if not self.one_a_character:
            raise DataError("problems need one token a character: this model's may be longer")

    @property
    def id_type(self) -> type[np.uint8] | type[np.uint16]:
        """The smallest type that holds every id."""
        return np.uint8 if len(self) <= 256 else np.uint16


# `type` in a `tokenizer.json` -> the class that reads it.
TYPES: Registry[type[Tokenizer]] = Registry("tokenizer type")

# The tokenizer, of whatever type, that its `to_json` described; CheckpointError on anything else.
tokenizer_from_json = Tokenizer.from_json


@dataclass(frozen=True)
class Maker:
    """What the name of a tokenizer in a recipe stands for."""

    kind: type[Tokenizer]  # what it makes
    make: Callable[[str, int], Tokenizer]

    def __call__(self, text: str, vocab_size: int = VOCAB_SIZE) -> Tokenizer:
        """A tokenizer for a training text, of at most `vocab_size` tokens where that is a choice.
        Raises ValueError where the text does not do."""
        return self.make(text, vocab_size)


# A name in a recipe -> the tokenizer for a training text.
TOKENIZERS: Registry[Maker] = Registry("tokenizer")


def makes(kind: type[Tokenizer], name: str) -> Callable[[Make], Make]:
    """Decorator that files a function, which makes a tokenizer of this kind, under `name`."""

    def add(make: Make) -> Make:
        TOKENIZERS.register(name)(Maker(kind, make))
        return make

    return add
