"""Tokens that are pieces of words, learned from a text: byte-pair encoding (Sennrich et al. 2016),
of bytes (Radford et al. 2019, section 2.2).

The package tokenizers, of the extra `text`, is imported where it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from calcgpt.errors import DataError, UserError
from calcgpt.tokenizer.base import TYPES, VOCAB_SIZE, Ids, Tokenizer, makes

if TYPE_CHECKING:
    import tokenizers

N_BYTES = 256
MAX_VOCABULARY = 2**16  # an id fits in 16 bits
# Where GPT-2's pattern ends a piece whatever stands around it: at the start of a line, unless white
# space is near. ASCII, for what is white space elsewhere differs from one library to the next.
_CUT = re.compile(r"(?<=[!-~]\n)(?=[!-~])")


@TYPES.register("bpe")
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


@makes(BytePairTokenizer, "bpe")
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
