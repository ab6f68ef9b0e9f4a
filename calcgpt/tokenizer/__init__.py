"""Text to token ids and back. A tokenizer is a module in this folder that registers a subclass of
`Tokenizer` and what makes one; every module here is imported, so adding a file adds it."""

from importlib import import_module
from pkgutil import iter_modules

from calcgpt.tokenizer.base import TOKENIZERS, TYPES, VOCAB_SIZE, Tokenizer, tokenizer_from_json
from calcgpt.tokenizer.byte_pair import BytePairTokenizer, byte_pair_tokenizer
from calcgpt.tokenizer.chars import (
    CharTokenizer,
    arithmetic_tokenizer,
    steps_tokenizer,
    text_tokenizer,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "TOKENIZERS",
    "TYPES",
    "VOCAB_SIZE",
    "BytePairTokenizer",
    "CharTokenizer",
    "Tokenizer",
    "arithmetic_tokenizer",
    "byte_pair_tokenizer",
    "steps_tokenizer",
    "text_tokenizer",
    "tokenizer_from_json",
]
