"""What every tokenizer can do, and the tables that name them.

Tokens that are characters.

Tokens that are pieces of words, learned from a text: byte-pair encoding (Sennrich et al. 2016),
of bytes (Radford et al. 2019, section 2.2).

The package tokenizers, of the extra `text`, is imported where it is used.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from calcgpt.config import VOCAB_SIZE
from calcgpt.errors import CheckpointError, DataError, UserError
from datagen.notation import ALPHABET
from datagen.steps import STEPS_ALPHABET

if TYPE_CHECKING:
    import tokenizers


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


def arithmetic_tokenizer(text: str = "", vocab_size: int = 0) -> CharTokenizer:
    """The 21 characters of the notation, whatever the text holds."""
    return CharTokenizer(ALPHABET)


def steps_tokenizer(text: str = "", vocab_size: int = 0) -> CharTokenizer:
    """The characters of the notation with worked steps, whatever the text holds."""
    return CharTokenizer(STEPS_ALPHABET)


def text_tokenizer(text: str, vocab_size: int = 0) -> CharTokenizer:
    """The characters of the text itself, sorted."""
    return CharTokenizer("".join(sorted(set(text))))


N_BYTES = 256
MAX_VOCABULARY = 2**16  # an id fits in 16 bits
# Where GPT-2's pattern ends a piece whatever stands around it: at the start of a line, unless white
# space is near. ASCII, for what is white space elsewhere differs from one library to the next.
_CUT = re.compile(r"(?<=[!-~]\n)(?=[!-~])")


class BytePairTokenizer(Tokenizer):
    """Text is cut into words, numbers, signs and white space by GPT-2's pattern; within each, the
    bytes are joined by the merges, the earliest first. Every text has an encoding, and is what it
    decodes to.

    A token is written as GPT-2 writes it, each byte as one visible character (`Ġ` is a space).
    `vocabulary` are the tokens by id: the bytes, sorted by that character, and what each merge
    makes. `merges` are pairs of tokens that exist before theirs.
    """

    one_a_character = False

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
        ids = {token: place for place, token in enumerate(vocabulary)}
        if (
            len(vocabulary) > MAX_VOCABULARY
            or len(vocabulary) != N_BYTES + len(merges)
            or len(vocabulary) != len(ids)
            or list(vocabulary[:N_BYTES]) != _byte_characters()
        ):
            raise ValueError(
                f"a vocabulary is the {N_BYTES} bytes and one token a merge, "
                f"{MAX_VOCABULARY:,} at most and none twice"
            )
        for place, (left, right) in enumerate(merges, start=N_BYTES):
            parts_exist = ids.get(left, place) < place and ids.get(right, place) < place
            if not parts_exist or left + right != vocabulary[place]:
                raise ValueError(f"token {place} is not made of the two tokens that its merge says")
        self.vocabulary = tuple(vocabulary)
        self.merges = tuple(merges)
        self.pipeline = _pipeline(ids, list(merges))  # the same, in the library

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Ids:
        """Ids of `text`, at most one a byte of its UTF-8, uint16 where there are more than 256.

        Raises DataError naming the first lone surrogate, which UTF-8 has no bytes for.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            at = error.start
            raise DataError(
                f"character {text[at]!r} at position {at} is a lone surrogate"
            ) from None
        # Piece by piece, for the library keeps some 200 bytes a character.
        ids = (self.pipeline.encode(piece).ids for piece in _CUT.split(text))
        return np.fromiter(chain.from_iterable(ids), self.id_type)

    def decode(self, ids: npt.ArrayLike) -> str:
        """The text of `ids`; bytes that are not UTF-8, as where a character was cut, give `�`."""
        tokens = [self.vocabulary[i] for i in np.asarray(ids).tolist()]
        return str(self.pipeline.decoder.decode(tokens))

    def to_json(self) -> str:
        """The content of `tokenizer.json`; a merge is its two tokens with a space between."""
        content = {
            "type": "bpe",
            "vocabulary": self.vocabulary,
            "merges": [" ".join(merge) for merge in self.merges],
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        vocabulary, merges = content["vocabulary"], content["merges"]
        for strings in (vocabulary, merges):
            if not isinstance(strings, list) or not all(isinstance(s, str) for s in strings):
                raise ValueError("a vocabulary and merges are lists of strings")
        return cls(vocabulary, [merge.partition(" ")[::2] for merge in merges])


def byte_pair_tokenizer(text: str, vocab_size: int = VOCAB_SIZE) -> BytePairTokenizer:
    """The merges that join the most frequent pair of neighbours, again and again, until there are
    `vocab_size` tokens (256 to 65,536) or no pair is left that occurs twice.

    The same text gives the same tokenizer: of pairs that are equally frequent, the one with the
    lower ids is joined. Time grows with the square of the longest word: seconds for one of 100 kB.
    Raises ValueError where there is no text.
    """
    if not text:
        raise ValueError("there is no text to learn from")
    library = _library()
    pipeline = _pipeline({}, [])
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,  # joining what occurs once would learn a word by heart
        initial_alphabet=_byte_characters(),
        show_progress=False,
    )
    pipeline.train_from_iterator(_CUT.split(text), trainer)
    merges = [(left, right) for left, right in json.loads(pipeline.to_str())["model"]["merges"]]
    return BytePairTokenizer([*_byte_characters(), *map("".join, merges)], merges)


def _byte_characters() -> list[str]:
    """The characters that stand for bytes, sorted: where the trainer puts them as well."""
    return sorted(_library().pre_tokenizers.ByteLevel.alphabet())


def _pipeline(ids: dict[str, int], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """Bytes, cut by GPT-2's pattern and joined by the merges; nothing is normalised or special, so
    that every text comes back as it was."""
    library = _library()
    pipeline: tokenizers.Tokenizer = library.Tokenizer(library.models.BPE(ids, merges))
    pipeline.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = library.decoders.ByteLevel()
    return pipeline


def _library() -> Any:
    """The package tokenizers; raises UserError where it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise UserError(
            "byte-pair tokenizers need the tokenizers package: pip install 'calcgpt[text]'"
        ) from None
    return tokenizers


# `type` in a `tokenizer.json` -> the class that reads it.
TYPES: dict[str, type[Tokenizer]] = {"chars": CharTokenizer, "bpe": BytePairTokenizer}

# Name in a recipe -> what makes the tokenizer for a training text.
TOKENIZERS: dict[str, Maker] = {
    "arithmetic": Maker(CharTokenizer, arithmetic_tokenizer),
    "steps": Maker(CharTokenizer, steps_tokenizer),
    "chars": Maker(CharTokenizer, text_tokenizer),
    "bpe": Maker(BytePairTokenizer, byte_pair_tokenizer),
}
