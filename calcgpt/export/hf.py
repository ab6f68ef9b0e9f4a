"""Our tokenizers as those of `transformers`: files that its AutoTokenizer reads, without code.

The README of an export: the checkpoint's card, and how to use it with `transformers`.

The folder that `from_pretrained` reads.

config.json, model.safetensors           the model, in float32
generation_config.json                   greedy, up to `$` or the end of the context
tokenizer.json, tokenizer_config.json    the vocabulary
metrics.json, README.md                  the scores of the checkpoint, and the model card
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError

from calcgpt.checkpoint import CARD, METRICS, Checkpoint, model_card
from calcgpt.data.tokenizer import BytePairTokenizer, CharTokenizer, Tokenizer
from calcgpt.errors import CheckpointError, ConfigError, DataError, missing_extra
from calcgpt.export.hf_classes import Counterpart, counterpart_of
from calcgpt.export.target import new_export
from datagen.arithmetic import Number, Operation, Problem
from datagen.files import write_json, write_text
from datagen.notation import render_prompt

if TYPE_CHECKING:
    import tokenizers

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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


PROBLEM = render_prompt(Problem(Number(1250, True), Operation("*"), Number(300, False)))

HEADER = """\
---
library_name: transformers
pipeline_tag: text-generation
---

"""
USE = """
## Use

This folder is the checkpoint `{checkpoint}` of CalcGPT as a `{name}`, written by
`calcgpt export --to hf`. It needs `transformers`, and no code but that:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
prompt = tokenizer({prompt!r}, return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt)[0]))
```

Decoding is greedy, up to the {end}.
"""
CHARACTERS = """\
A character that is not in the vocabulary is an error ("Missing [UNK] token"): the model knows no
token for it.
"""


def card(checkpoint: Checkpoint, folder: str, name: str) -> str:
    """Markdown with the header that model hubs read; `name` is that of the class."""
    tokenizer = checkpoint.tokenizer
    written = model_card(folder, checkpoint.recipe, checkpoint.metrics)
    written = written.replace("beside this file", "of the checkpoint")  # this config is another
    use = USE.format(
        checkpoint=checkpoint.name,
        name=name,
        folder=folder,
        prompt=_prompt(checkpoint),
        end="end of the context" if stop_id(tokenizer) is None else "closing `$`",
    )
    return HEADER + written + use + (CHARACTERS if tokenizer.one_a_character else "")


def _prompt(checkpoint: Checkpoint) -> str:
    """A text that the model can go on from."""
    tokenizer, room = checkpoint.tokenizer, checkpoint.model.config.block_size
    try:
        fits = len(tokenizer.encode(PROBLEM)) <= room
    except DataError:  # trained on other text than problems
        fits = False
    return PROBLEM if fits else tokenizer.decode([0])


SIGN = "generation_config.json"  # which none of our own folders has
TOLERANCE = 1e-4  # of the logits, relative to the largest
ROWS, LENGTH = 4, 512  # of the tokens whose logits are compared


def export_hf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """A model of `transformers`, in the folder that its `from_pretrained` reads; see `Exporter`."""
    name, counterpart = counterpart_of(checkpoint.model.config)
    with new_export(out, force, SIGN) as staging:
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise missing_extra("hf", "transformers") from None
        with _without_bars():
            try:
                _write(checkpoint, counterpart, staging)
            except SafetensorError as error:  # a full disk, say: not an OSError here
                raise CheckpointError(f"cannot write {out}: {error}") from None
            write_text(staging / CARD, card(checkpoint, out.name, name))
            if wrong := _wrong(checkpoint, staging):
                raise CheckpointError(f"{out} is not written: as a {name}, {wrong}")
    return f"a {name} of transformers"


def _write(checkpoint: Checkpoint, counterpart: type[Counterpart], folder: Path) -> None:
    from transformers import GenerationConfig

    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    room, stop = model.config.block_size, stop_id(tokenizer)
    special = {"bos_token_id": None, "eos_token_id": stop, "pad_token_id": stop}
    theirs = counterpart.build(model, **special)
    # The last token need not be read again: one more than the context.
    theirs.generation_config = GenerationConfig(**special, do_sample=False, max_length=room + 1)
    theirs.save_pretrained(folder)
    write_text(folder / "tokenizer.json", backend(tokenizer).to_str(pretty=True))
    write_json(folder / "tokenizer_config.json", tokenizer_config(tokenizer, room))
    write_json(folder / METRICS, checkpoint.metrics)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors leaves it to the owner alone


@torch.inference_mode()
def _wrong(checkpoint: Checkpoint, folder: Path) -> str | None:
    """What is other than in `checkpoint` in what `transformers` makes of the folder; None: nothing.

    Looked at are the ids and the text of the vocabulary, and the logits of random tokens.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = probe(checkpoint.tokenizer)
    ids = checkpoint.tokenizer.encode(text).tolist()
    if (len(tokenizer), tokenizer(text)["input_ids"]) != (len(checkpoint.tokenizer), ids):
        return "its tokenizer gives other ids"
    if tokenizer.decode(ids) != text:
        return "its tokenizer gives another text"
    ours = checkpoint.model
    theirs = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    shape = ROWS, min(ours.config.block_size, LENGTH)
    tokens_BT = torch.randint(ours.vocab_size, shape, generator=torch.Generator().manual_seed(0))
    expected = ours(tokens_BT)
    error = float((_logits(theirs, tokens_BT) - expected).abs().max())
    error /= max(1.0, float(expected.abs().max()))
    if error <= TOLERANCE:
        return None
    return f"its logits are off by {error:.1e} of the largest; {TOLERANCE:.0e} is allowed"


def _logits(model: PreTrainedModel, tokens_BT: torch.Tensor) -> torch.Tensor:
    """(B, T, V), those of the last token with the cache of the others, as in decoding."""
    # A mask of nothing: without one, `$` at an end of a row is taken for padding, with a warning.
    mask_BT = torch.ones_like(tokens_BT)
    whole: torch.Tensor = model(tokens_BT, attention_mask=mask_BT).logits
    if tokens_BT.size(1) == 1:
        return whole
    before = model(tokens_BT[:, :-1], attention_mask=mask_BT[:, :-1], use_cache=True)
    last = model(
        tokens_BT[:, -1:], attention_mask=mask_BT, past_key_values=before.past_key_values
    ).logits
    return torch.cat((whole[:, :-1], last), dim=1)


@contextmanager
def _without_bars() -> Iterator[None]:
    """No progress bars of `transformers`: a model as small as ours is there at once."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
