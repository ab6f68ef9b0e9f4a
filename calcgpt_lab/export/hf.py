"""Export to `transformers`: a folder for `from_pretrained`, without code of its own. The preset
`llama` is a `LlamaForCausalLM`: rotary positions, RMSNorm, SwiGLU (Touvron et al. 2023), no biases.

config.json, model.safetensors           the model, in float32
generation_config.json                   greedy, up to `$` or the end of the context
tokenizer.json, tokenizer_config.json    the vocabulary
metrics.json, README.md                  the scores of the checkpoint, and the model card

Shapes: B sequences, T tokens, V vocabulary.
"""

from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors import SafetensorError
from tokenizers import Regex, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from calcgpt.base.errors import ConfigError
from calcgpt.base.files import new_folder, write_json, write_text
from calcgpt.checkpoint import CARD, METRICS, Checkpoint, check_replaceable
from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError
from calcgpt.tokenizer import CharTokenizer, Tokenizer
from calcgpt_lab.data.tokenizers import BytePairTokenizer
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.decoding import NO_TOKEN, stop_token
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.saving import model_card
from datagen.arithmetic import Number, Problem
from datagen.notation import render_prompt
from datagen.operations import MULTIPLICATION

STOP = "$"  # ends a problem
MARKER = "generation_config.json"  # a file that no checkpoint of ours has
TOLERANCE = 1e-4  # of the logits, relative to the largest
CHECKED_ROWS, CHECKED_TOKENS = 4, 512  # the size of the batch whose logits are compared
EXAMPLE_PROMPT = render_prompt(Problem(Number(125, 1), MULTIPLICATION, Number(3)))

USE = Path(__file__).with_name("hf_readme.md")  # of an export, below the card of the model
HEADER = """\
---
license: mit
library_name: transformers
pipeline_tag: text-generation
---

"""
UNKNOWN_CHARACTERS = """\
A character that is not in the vocabulary is an error ("Missing [UNK] token"): the model has no
token for it.
"""

Weights = dict[str, torch.Tensor]
RMS_NORM_EPS = 1e-6
# Fields and properties of a config that a Llama has. Any other field may have any value.
LLAMA: dict[str, Any] = {
    "architecture": "gpt",
    "position": "rope",
    "attention": "full",
    "norm_position": "pre",
    "qk_norm": False,
    "norm": "rmsnorm",
    "feedforward": "swiglu",
    "qkv_bias": False,
    "attn_out_bias": False,
    "ff_bias": False,
    "head_bias": False,
}


def export_hf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """Writes a model of `transformers`; see `calcgpt_lab.export`."""
    check_llama(checkpoint.recipe.model, "hf")
    check_replaceable(out, force, MARKER, METRICS)
    logging.disable_progress_bar()  # a small model loads at once
    with new_folder(out) as staging:
        try:
            _write(checkpoint, staging)
        except SafetensorError as error:  # for example a full disk, which is not an OSError here
            raise CheckpointError(f"cannot write {out}: {error}") from None
        write_text(staging / CARD, hf_card(checkpoint, out.name))
        if difference := _difference(checkpoint, staging):
            raise CheckpointError(f"{out} is not written: as a Llama, {difference}")
    return "a LlamaForCausalLM of transformers"


def _write(checkpoint: Checkpoint, folder: Path) -> None:
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    block_size, stop = model.config.block_size, stop_id(checkpoint)
    special = {"bos_token_id": None, "eos_token_id": stop, "pad_token_id": stop}
    hf_model = build_llama(model, **special)
    # The last token is never read, so a text may be one token longer than the context.
    hf_model.generation_config = GenerationConfig(
        **special, do_sample=False, max_length=block_size + 1
    )
    hf_model.save_pretrained(folder)
    write_text(folder / "tokenizer.json", hf_tokenizer(tokenizer).to_str(pretty=True))
    write_json(folder / "tokenizer_config.json", tokenizer_config(block_size, stop is not None))
    write_json(folder / METRICS, checkpoint.metrics)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors makes files that only their owner can read


def hf_tokenizer(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Returns the tokenizer of the library `tokenizers` that gives the same ids and the same text.

    A character that is not in the vocabulary is an error, as in `CharTokenizer`: the model has no
    token for it, and without it the text would be another problem.
    """
    if isinstance(tokenizer, BytePairTokenizer):
        return tokenizer.pipeline
    if not isinstance(tokenizer, CharTokenizer):
        name = type(tokenizer).__name__
        raise ConfigError(f"the library tokenizers has no equivalent of {name}")
    vocabulary = {character: i for i, character in enumerate(tokenizer.vocabulary)}
    result = tokenizers.Tokenizer(models.WordLevel(vocabulary))
    # `[\s\S]` includes newlines, unlike `.`.
    result.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    result.decoder = decoders.Fuse()  # no spaces between tokens
    return result


def tokenizer_config(block_size: int, has_end: bool) -> dict[str, Any]:
    """Returns the content of `tokenizer_config.json`. With `has_end`, `$` ends a text."""
    config = {
        # The generic class: the tokenizers of specific models change texts in their own ways.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": block_size,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",  # for batches of prompts of several lengths
    }
    if has_end:
        # The model has no token for padding. Padding is masked, so any token serves.
        config |= {"eos_token": STOP, "pad_token": STOP}
    return config


def stop_id(checkpoint: Checkpoint) -> int | None:
    """Returns the id of the `$` that ends a problem, or None if the model continues plain text, in
    which `$` has no special meaning."""
    stop = stop_token(checkpoint)
    if stop != NO_TOKEN:
        return stop
    # A model of problems in a stream, such as the blog's.
    is_known = checkpoint.tokenizer.is_notation(EXAMPLE_PROMPT)
    return int(checkpoint.tokenizer.encode(STOP)[0]) if is_known else None


def _difference(checkpoint: Checkpoint, folder: Path) -> str | None:
    """Returns how the model that `transformers` loads from the folder differs from `checkpoint`;
    None if it does not.

    Compares the ids and the text of the whole vocabulary, and the logits of random tokens.
    """
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)  # nosec B615  # a folder
    text = checkpoint.tokenizer.decode(range(len(checkpoint.tokenizer)))
    ids = checkpoint.tokenizer.encode(text).tolist()
    if (len(tokenizer), tokenizer(text)["input_ids"]) != (len(checkpoint.tokenizer), ids):
        return "its tokenizer gives other ids"
    if tokenizer.decode(ids) != text:
        return "its tokenizer gives another text"
    hf_model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)  # nosec B615  # a folder
    return logit_difference(checkpoint.model, hf_model, random_tokens(checkpoint.model))


def random_tokens(model: LanguageModel) -> torch.Tensor:
    """Returns ids (B, T), always the same, on which two models can be compared."""
    shape = CHECKED_ROWS, min(model.config.block_size, CHECKED_TOKENS)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(model.vocab_size, shape, generator=generator)


@torch.inference_mode()
def logit_difference(
    model: LanguageModel, hf_model: PreTrainedModel, tokens_BT: torch.Tensor
) -> str | None:
    """Returns how far the logits of `hf_model` are from those of `model`; None if they are not."""
    expected_BTV = model(tokens_BT)
    error = float((_logits(hf_model, tokens_BT) - expected_BTV).abs().max())
    error /= max(1.0, float(expected_BTV.abs().max()))
    if error <= TOLERANCE:
        return None
    return f"its logits are off by {error:.1e} of the largest; {TOLERANCE:.0e} is allowed"


def _logits(model: PreTrainedModel, tokens_BT: torch.Tensor) -> torch.Tensor:
    """Returns logits (B, T, V). The logits of the last token are computed with a cache, as in
    decoding."""
    # Without a mask, `transformers` takes a `$` at an end of a row for padding, and warns.
    mask_BT = torch.ones_like(tokens_BT)
    logits_BTV: torch.Tensor = model(tokens_BT, attention_mask=mask_BT).logits
    if tokens_BT.size(1) == 1:
        return logits_BTV
    cache = model(tokens_BT[:, :-1], attention_mask=mask_BT[:, :-1], use_cache=True).past_key_values
    last = model(tokens_BT[:, -1:], attention_mask=mask_BT, past_key_values=cache)
    return torch.cat((logits_BTV[:, :-1], last.logits), dim=1)


def hf_card(checkpoint: Checkpoint, folder: str) -> str:
    """Returns the README in Markdown, with the metadata that a hub reads."""
    tokenizer = checkpoint.tokenizer
    use = USE.read_text("utf-8").format(
        checkpoint=checkpoint.name,
        folder=folder,
        prompt=prompt_of(checkpoint),
        end="end of the context" if stop_id(checkpoint) is None else "closing `$`",
    )
    unknown = UNKNOWN_CHARACTERS if tokenizer.is_char_level else ""
    card = model_card(checkpoint.name, checkpoint.recipe, checkpoint.metrics, "of the checkpoint")
    return f"{HEADER}{card}\n{use}{unknown}"


def prompt_of(checkpoint: Checkpoint) -> str:
    """Returns a text that the model can continue."""
    tokenizer, block_size = checkpoint.tokenizer, checkpoint.model.config.block_size
    fits = tokenizer.is_notation(EXAMPLE_PROMPT) and len(EXAMPLE_PROMPT) <= block_size
    return EXAMPLE_PROMPT if fits else tokenizer.decode([0])


def check_llama(config: ModelConfig, target: str) -> None:
    """Raises ConfigError, which names the first field that differs, unless `config` describes a
    Llama. `target` is the format of the export."""
    for field, expected in LLAMA.items():
        if (value := getattr(config, field)) != expected:
            raise ConfigError(
                f"export to {target}: {field} is {value!r}, and a Llama has {expected!r}"
            )


def llama_weights(model: GPT) -> Weights:
    """Returns the weights under their names in `transformers`."""
    config, state = model.config, model.state_dict()
    widths = [n * config.head_dim for n in (config.n_head, config.kv_heads, config.kv_heads)]
    weights = {
        "model.embed_tokens.weight": state["token_embedding.weight"],
        "model.norm.weight": state["norm.weight"],
        "lm_head.weight": state["head.weight"],
    }
    for index, block in enumerate(model.blocks):
        own = block.state_dict()
        q, k, v = torch.split(own["attn.qkv.weight"], widths)
        gate, up = own["ff.gate_up.weight"].chunk(2)
        layer = {
            "input_layernorm": own["attn_norm.weight"],
            "self_attn.q_proj": q,
            "self_attn.k_proj": k,
            "self_attn.v_proj": v,
            "self_attn.o_proj": own["attn.out.weight"],
            "post_attention_layernorm": own["ff_norm.weight"],
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": own["ff.down.weight"],
        }
        weights |= {f"model.layers.{index}.{name}.weight": each for name, each in layer.items()}
    return weights


def build_llama(model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
    """Returns the same model as one of `transformers`, with the same dtype.

    `tokens` are the ids of special tokens, such as `eos_token_id`. Tokens that are not passed have
    the defaults of `transformers`.
    """
    assert isinstance(model, GPT)
    config = model.config
    settings = LlamaConfig(
        vocab_size=model.vocab_size,
        hidden_size=config.n_embd,
        intermediate_size=config.ff_width,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.block_size,
        rms_norm_eps=RMS_NORM_EPS,
        rope_theta=config.rope_base,
        tie_word_embeddings=config.tie_embeddings,
        attention_dropout=config.dropout,
        **tokens,
    )
    hf_model = LlamaForCausalLM(settings).to(model.head.weight.dtype)
    hf_model.load_state_dict(llama_weights(model))
    # Version 5 renamed the field. With both names, versions 4 and 5 can read the config.
    hf_model.config.rope_theta = config.rope_base
    return hf_model.eval()
