"""Our tokenizers as those of `transformers`: files that its AutoTokenizer reads, without code."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from calcgpt.errors import ConfigError, DataError
from calcgpt.tokenizer import BytePairTokenizer, CharTokenizer, Tokenizer

if TYPE_CHECKING:
    import tokenizers

STOP = "$"  # ends a problem
MARKS = "$()="  # are in every problem


@singledispatch
def backend(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """The same tokenizer in the library `tokenizers`: the same ids for every text, and the same
    text for all ids. Raises ConfigError for a kind that has no entry here."""
    raise ConfigError(f"{type(tokenizer).__name__} has no counterpart in the library tokenizers")


@backend.register(CharTokenizer)
def _(tokenizer: CharTokenizer) -> tokenizers.Tokenizer:
    """A character that the vocabulary lacks is an error there as it is here: the model knows no
    token that could stand for it, and without it the text would be another problem."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {character: i for i, character in enumerate(tokenizer.vocabulary)}
    theirs = Tokenizer(models.WordLevel(vocabulary))
    theirs.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")  # newlines as well
    theirs.decoder = decoders.Fuse()  # without a space between tokens
    return theirs


@backend.register(BytePairTokenizer)
def _(tokenizer: BytePairTokenizer) -> tokenizers.Tokenizer:
    return tokenizer.pipeline


def tokenizer_config(tokenizer: Tokenizer, block_size: int) -> dict[str, Any]:
    """The content of `tokenizer_config.json`."""
    config = {
        # Not one of the library's own tokenizers, which change texts in ways of their own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": block_size,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",  # where the prompts of a batch have several lengths
    }
    if stop_id(tokenizer) is not None:
        # The model knows no token for padding; what pads is masked, so that any one does.
        config |= {"eos_token": STOP, "pad_token": STOP}
    return config


def stop_id(tokenizer: Tokenizer) -> int | None:
    """The id of the `$` that ends a problem; None for a vocabulary that is not one of problems,
    where it is a sign like others."""
    if not tokenizer.one_a_character:
        return None
    try:
        return int(tokenizer.encode(MARKS)[MARKS.index(STOP)])
    except DataError:
        return None


def probe(tokenizer: Tokenizer) -> str:
    """A text of every token."""
    return tokenizer.decode(range(len(tokenizer)))
