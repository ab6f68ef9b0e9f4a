"""Export to `transformers`: a folder for `from_pretrained`, without code of its own.

config.json, model.safetensors           the model, in float32
generation_config.json                   greedy, up to `$` or the end of the context
tokenizer.json, tokenizer_config.json    the vocabulary
metrics.json, README.md                  the scores of the checkpoint, and the model card

Shapes: B sequences, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError

from calcgpt.checkpoint import CARD, METRICS, Checkpoint, check_replaceable, model_card
from calcgpt.data.tokenizer import BytePairTokenizer, CharTokenizer, Tokenizer
from calcgpt.errors import CheckpointError, ConfigError, DataError, missing_extra
from calcgpt.export.hf_classes import HFClass, hf_class_of
from datagen.arithmetic import Number, Operation, Problem
from datagen.files import new_folder, write_json, write_text
from datagen.notation import render_prompt

if TYPE_CHECKING:
    import tokenizers
    from transformers import PreTrainedModel


EXAMPLE_PROMPT = render_prompt(Problem(Number(125, 1), Operation("*"), Number(3)))
STOP = "$"  # ends a problem
NOTATION = "$()="  # characters of every problem
MARKER = "generation_config.json"  # a file that no checkpoint of ours has
TOLERANCE = 1e-4  # of the logits, relative to the largest
CHECKED_ROWS, CHECKED_TOKENS = 4, 512  # the size of the batch whose logits are compared

HEADER = """\
---
library_name: transformers
pipeline_tag: text-generation
---

"""
USE = """
## Use

This folder is the checkpoint `{checkpoint}` of CalcGPT as a `{name}`, written by
`calcgpt export --to hf`. It needs `transformers` and no other code:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
prompt = tokenizer({prompt!r}, return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt)[0]))
```

Decoding is greedy, up to the {end}.
"""
UNKNOWN_CHARACTERS = """\
A character that is not in the vocabulary is an error ("Missing [UNK] token"): the model has no
token for it.
"""


def export_hf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """Writes a model of `transformers`; see `calcgpt.export.Exporter`."""
    name, hf_class = hf_class_of(checkpoint.model.config)
    check_replaceable(out, MARKER, force)
    with new_folder(out) as staging:
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise missing_extra("hf", "transformers") from None
        with _no_progress_bars():
            try:
                _write(checkpoint, hf_class, staging)
            except SafetensorError as error:  # for example a full disk, which is no OSError here
                raise CheckpointError(f"cannot write {out}: {error}") from None
            write_text(staging / CARD, hf_card(checkpoint, out.name, name))
            if difference := _difference(checkpoint, staging):
                raise CheckpointError(f"{out} is not written: as a {name}, {difference}")
    return f"a {name} of transformers"


def _write(checkpoint: Checkpoint, hf_class: type[HFClass], folder: Path) -> None:
    from transformers import GenerationConfig

    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    block_size, stop = model.config.block_size, stop_id(tokenizer)
    special = {"bos_token_id": None, "eos_token_id": stop, "pad_token_id": stop}
    hf_model = hf_class.build(model, **special)
    # The last token is never read, so a text may be one token longer than the context.
    hf_model.generation_config = GenerationConfig(
        **special, do_sample=False, max_length=block_size + 1
    )
    hf_model.save_pretrained(folder)
    write_text(folder / "tokenizer.json", hf_tokenizer(tokenizer).to_str(pretty=True))
    write_json(folder / "tokenizer_config.json", tokenizer_config(tokenizer, block_size))
    write_json(folder / METRICS, checkpoint.metrics)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors makes files that only their owner can read


def hf_tokenizer(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Returns the tokenizer of the library `tokenizers` that gives the same ids and the same text.

    A character that is not in the vocabulary is an error, as in `CharTokenizer`: the model has no
    token for it, and without it the text would be another problem.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    if isinstance(tokenizer, BytePairTokenizer):
        return tokenizer.pipeline
    if not isinstance(tokenizer, CharTokenizer):
        name = type(tokenizer).__name__
        raise ConfigError(f"the library tokenizers has no equivalent of {name}")
    vocabulary = {character: i for i, character in enumerate(tokenizer.vocabulary)}
    result = Tokenizer(models.WordLevel(vocabulary))
    # `[\s\S]` includes newlines, unlike `.`.
    result.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    result.decoder = decoders.Fuse()  # no spaces between tokens
    return result


def tokenizer_config(tokenizer: Tokenizer, block_size: int) -> dict[str, Any]:
    """Returns the content of `tokenizer_config.json`."""
    config = {
        # The generic class: the tokenizers of specific models change texts in their own ways.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": block_size,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",  # for batches of prompts of several lengths
    }
    if stop_id(tokenizer) is not None:
        # The model has no token for padding. Padding is masked, so any token serves.
        config |= {"eos_token": STOP, "pad_token": STOP}
    return config


def stop_id(tokenizer: Tokenizer) -> int | None:
    """Returns the id of the `$` that ends a problem, or None if the vocabulary is that of another
    text, in which `$` has no special meaning."""
    if not tokenizer.one_a_character:
        return None
    try:
        return int(tokenizer.encode(NOTATION)[NOTATION.index(STOP)])
    except DataError:
        return None


def hf_card(checkpoint: Checkpoint, folder: str, name: str) -> str:
    """Returns the README in Markdown, with the header that model hubs read. `name` is that of the
    class."""
    tokenizer = checkpoint.tokenizer
    use = USE.format(
        checkpoint=checkpoint.name,
        name=name,
        folder=folder,
        prompt=_prompt(checkpoint),
        end="end of the context" if stop_id(tokenizer) is None else "closing `$`",
    )
    unknown = UNKNOWN_CHARACTERS if tokenizer.one_a_character else ""
    card = model_card(folder, checkpoint.recipe, checkpoint.metrics, "of the checkpoint")
    return HEADER + card + use + unknown


def _prompt(checkpoint: Checkpoint) -> str:
    """Returns a text that the model can continue."""
    tokenizer, block_size = checkpoint.tokenizer, checkpoint.model.config.block_size
    try:
        fits = len(tokenizer.encode(EXAMPLE_PROMPT)) <= block_size
    except DataError:  # a vocabulary of another text than problems
        fits = False
    return EXAMPLE_PROMPT if fits else tokenizer.decode([0])


@torch.inference_mode()
def _difference(checkpoint: Checkpoint, folder: Path) -> str | None:
    """Returns how what `transformers` loads from the folder differs from `checkpoint`, if it does.

    Compares the ids and the text of the whole vocabulary, and the logits of random tokens.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = checkpoint.tokenizer.decode(range(len(checkpoint.tokenizer)))
    ids = checkpoint.tokenizer.encode(text).tolist()
    if (len(tokenizer), tokenizer(text)["input_ids"]) != (len(checkpoint.tokenizer), ids):
        return "its tokenizer gives other ids"
    if tokenizer.decode(ids) != text:
        return "its tokenizer gives another text"
    model = checkpoint.model
    hf_model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    shape = CHECKED_ROWS, min(model.config.block_size, CHECKED_TOKENS)
    tokens_BT = torch.randint(model.vocab_size, shape, generator=torch.Generator().manual_seed(0))
    expected_BTV = model(tokens_BT)
    error = float((_logits(hf_model, tokens_BT) - expected_BTV).abs().max())
    error /= max(1.0, float(expected_BTV.abs().max()))
    if error <= TOLERANCE:
        return None
    return f"its logits are off by {error:.1e} of the largest; {TOLERANCE:.0e} is allowed"


def _logits(model: PreTrainedModel, tokens_BT: torch.Tensor) -> torch.Tensor:
    """Returns logits (B, T, V). Those of the last token are computed with a cache, as in
    decoding."""
    # Without a mask, `transformers` takes a `$` at an end of a row for padding, and warns.
    mask_BT = torch.ones_like(tokens_BT)
    logits_BTV: torch.Tensor = model(tokens_BT, attention_mask=mask_BT).logits
    if tokens_BT.size(1) == 1:
        return logits_BTV
    cache = model(tokens_BT[:, :-1], attention_mask=mask_BT[:, :-1], use_cache=True).past_key_values
    last_B1V = model(tokens_BT[:, -1:], attention_mask=mask_BT, past_key_values=cache).logits
    return torch.cat((logits_BTV[:, :-1], last_B1V), dim=1)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Disables the progress bars of `transformers`: a small model loads at once."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
