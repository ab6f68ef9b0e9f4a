"""The folder that `from_pretrained` reads.

config.json, model.safetensors           the model, in float32
generation_config.json                   greedy, up to `$` or the end of the context
tokenizer.json, tokenizer_config.json    the vocabulary
metrics.json, README.md                  the scores of the checkpoint, and the model card
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError

from calcgpt.checkpoint import CARD, METRICS, Checkpoint
from calcgpt.errors import CheckpointError
from calcgpt.export.base import EXPORTERS, missing, new_export
from calcgpt.export.hf.card import card
from calcgpt.export.hf.counterpart import Counterpart, counterpart_of
from calcgpt.export.hf.tokenizer import backend, probe, stop_id, tokenizer_config
from datagen.files import write_json, write_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SIGN = "generation_config.json"  # which none of our own folders has
TOLERANCE = 1e-4  # of the logits, relative to the largest
ROWS, LENGTH = 4, 512  # of the tokens whose logits are compared


@EXPORTERS.register("hf")
def export(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """A model of `transformers`, in the folder that its `from_pretrained` reads; see `Exporter`."""
    name, counterpart = counterpart_of(checkpoint.model.config)
    with new_export(out, force, SIGN) as staging:
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise missing("hf", "transformers") from None
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
