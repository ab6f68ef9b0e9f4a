"""The tokenizers that a recipe can name: one token per character, or byte-pair encoding (Sennrich
et al. 2016) of bytes (Radford et al. 2019, section 2.2).

Byte-pair encoding uses the package tokenizers, of the extra `text`, which is imported on first use.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from calcgpt.base.errors import DataError
from calcgpt.base.extras import require
from calcgpt.config import VOCAB_SIZE
from calcgpt.tokenizer import MAX_VOCABULARY, CharTokenizer, Ids, IncrementalDecoder, Tokenizer
from datagen.notation import ALPHABET, WORK_ALPHABET

if TYPE_CHECKING:
    import tokenizers


def arithmetic_tokenizer(text: str = "", vocab_size: int = 0) -> CharTokenizer:
    """Returns a tokenizer of the characters of the notation."""
    return CharTokenizer(ALPHABET)


def scratchpad_tokenizer(text: str = "", vocab_size: int = 0) -> CharTokenizer:
    """The same, with the characters of worked steps."""
    return CharTokenizer(WORK_ALPHABET)


def text_tokenizer(text: str, vocab_size: int = 0) -> CharTokenizer:
    """Returns a tokenizer of the characters of the text."""
    return CharTokenizer("".join(sorted(set(text))))


N_BYTES = 256
# A position where GPT-2's pattern always splits: the start of a line, unless white space is near.
# ASCII only: libraries differ in what else is white space.
_LINE_START = re.compile(r"(?<=[!-~]\n)(?=[!-~])")


def _byte_of_character() -> dict[int, int]:
    """Returns code point -> byte for the bytes that are not visible as Latin-1 characters. GPT-2
    writes them as U+0100, U+0101 and so on, in order, and all other bytes in Latin-1."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    invisible = [byte for byte in range(N_BYTES) if byte not in visible]
    return {N_BYTES + index: byte for index, byte in enumerate(invisible)}


_BYTES = _byte_of_character()


class BytePairTokenizer(Tokenizer):
    """Byte-pair encoding. GPT-2's pattern splits the text into words, numbers, signs and white
    space. In each of them the merges join bytes, the earliest merge first. Every text can be
    encoded, and decodes to itself.

    Tokens are written as by GPT-2, each byte as one visible character (`Ġ` is a space). By id, they
    are the bytes, sorted by that character, then the result of each merge. `merges` are pairs of
    tokens with lower ids than their result.
    """

    is_char_level = False

    def __init__(self, merges: Sequence[tuple[str, str]]) -> None:
        vocabulary = [*_byte_characters(), *map("".join, merges)]
        ids = {token: number for number, token in enumerate(vocabulary)}
        if len(vocabulary) > MAX_VOCABULARY or len(ids) < len(vocabulary):
            raise ValueError(f"there are at most {MAX_VOCABULARY:,} tokens, and none twice")
        for number, (left, right) in enumerate(merges, start=N_BYTES):
            if ids.get(left, number) >= number or ids.get(right, number) >= number:
                raise ValueError(f"token {number} is not made of two earlier tokens")
        self.vocabulary = tuple(vocabulary)
        self.merges = tuple(merges)
        self.pipeline = _pipeline(ids, list(merges))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Ids:
        """Returns the ids of `text`, at most one per byte of its UTF-8. Raises DataError with the
        first lone surrogate, which UTF-8 cannot encode, and its position."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            character, position = text[error.start], error.start
            raise DataError(
                f"character {character!r} at position {position} is a lone surrogate"
            ) from None
        # In parts: the library takes about 200 bytes of memory per character.
        ids = (self.pipeline.encode(part).ids for part in _LINE_START.split(text))
        return np.fromiter(chain.from_iterable(ids), self.id_type)

    def decode(self, ids: npt.ArrayLike) -> str:
        """Returns the text of `ids`. Bytes that are not UTF-8, such as a part of a character, give
        `�`."""
        tokens = [self.vocabulary[i] for i in np.asarray(ids).tolist()]
        return str(self.pipeline.decoder.decode(tokens))

    def incremental_decoder(self) -> IncrementalDecoder:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        def decode(ids: Sequence[int], final: bool) -> str:
            text = "".join(self.vocabulary[i] for i in ids)
            return decoder.decode(text.translate(_BYTES).encode("latin-1"), final)

        return decode

    def to_json(self) -> str:
        """Returns the content of `tokenizer.json`. A merge is two tokens with a space between."""
        content = {"type": "bpe", "merges": [" ".join(merge) for merge in self.merges]}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        merges = content["merges"]
        if not isinstance(merges, list) or not all(isinstance(merge, str) for merge in merges):
            raise ValueError("merges are a list of strings")
        return cls([merge.partition(" ")[::2] for merge in merges])


def byte_pair_tokenizer(text: str, vocab_size: int = VOCAB_SIZE) -> BytePairTokenizer:
    """Returns a tokenizer learned from `text`: the most frequent pair of neighbours is joined until
    there are `vocab_size` tokens (256 to 65,536) or no pair occurs twice.

    The same text gives the same tokenizer: of equally frequent pairs, the one with lower ids is
    joined first. Time grows with the square of the longest word: seconds for a word of 100 kB.
    Raises ValueError if the text is empty.
    """
    if not text:
        raise ValueError("there is no text to learn from")
    library = _library()
    pipeline = _pipeline({}, [])
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,  # a merge that occurs once would memorise a word
        initial_alphabet=_byte_characters(),
        show_progress=False,
    )
    pipeline.train_from_iterator(_LINE_START.split(text), trainer)
    merges = [(left, right) for left, right in json.loads(pipeline.to_str())["model"]["merges"]]
    return BytePairTokenizer(merges)


def _byte_characters() -> list[str]:
    """Returns the characters that stand for bytes, sorted, as in the trainer's vocabulary."""
    return sorted(_library().pre_tokenizers.ByteLevel.alphabet())


def _pipeline(ids: dict[str, int], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """Returns the library's tokenizer. It has no normalisation and no special tokens, so that every
    text decodes to itself."""
    library = _library()
    pipeline: tokenizers.Tokenizer = library.Tokenizer(library.models.BPE(ids, merges))
    pipeline.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = library.decoders.ByteLevel()
    return pipeline


def _library() -> Any:
    """Returns the package tokenizers. Raises UserError if it is not installed."""
    require("a byte-pair tokenizer", "tokenizers")
    import tokenizers

    return tokenizers


# Name in a recipe -> (text to learn from, most tokens if it can be chosen) -> its tokenizer.
# Raises ValueError if no tokenizer can be made from the text.
TOKENIZERS: dict[str, Callable[..., Tokenizer]] = {
    "arithmetic": arithmetic_tokenizer,
    "scratchpad": scratchpad_tokenizer,
    "chars": text_tokenizer,
    "bpe": byte_pair_tokenizer,
}
