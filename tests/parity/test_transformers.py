"""The presets against the library `transformers`, with random weights, in float64 where it has that
(its RMSNorm, its rotations and some of its softmaxes are in float32)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity.variants import VOCAB, build, random_tokens

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.export.hf_classes import HF_CLASSES, hf_class_of
from calcgpt.inference.generate import generate
from calcgpt.model.gpt import LanguageModel
from calcgpt.recipe import load_preset

SMALL: dict[str, Any] = {"n_layer": 2, "n_embd": 32, "n_head": 4, "block_size": 40}
SPECIAL = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
Compare = Callable[..., None]


def small_preset(name: str, **changes: Any) -> ModelConfig:
    return ModelConfig(**load_preset(name).model_dump() | SMALL | changes)


def both(preset: str, **changes: Any) -> tuple[LanguageModel, Any, str]:
    """A preset, changed, with random weights; the same as a class of `transformers`; its name."""
    model = build(small_preset(preset, **changes))
    name, hf_class = hf_class_of(model.config)
    return model, hf_class.build(model, **SPECIAL), name


def same(compare: Compare, ours: LanguageModel, theirs: Any, what: str) -> None:
    """Their logits on random tokens are ours, and so is what they write, greedily, with a cache."""
    tokens = random_tokens(3, SMALL["block_size"])
    with torch.no_grad():
        compare(ours(tokens), theirs(tokens).logits, what)
    prompts = tokens[:, :7]
    written = generate(ours, prompts, stop_token=VOCAB)  # which no model writes: to the very end
    expected = theirs.generate(
        prompts, attention_mask=torch.ones_like(prompts), do_sample=False, use_cache=True,
        max_new_tokens=SMALL["block_size"] - 6,
    )  # fmt: skip
    assert [completion.ids for completion in written] == expected[:, 7:].tolist()


@pytest.mark.parametrize(
    ("n_kv_head", "rope_base"), [(1, 1e4), (2, 1e4), (4, 1e4), (1, 100.0), (2, 500_000.0)]
)
def test_llama(compare: Compare, n_kv_head: int, rope_base: float) -> None:
    ours, theirs, name = both("llama", n_kv_head=n_kv_head, rope_base=rope_base)
    assert name == "LlamaForCausalLM"
    same(compare, ours, theirs, f"llama, n_kv_head={n_kv_head}, rope_base={rope_base:g} vs {name}")


@pytest.mark.parametrize(
    "changes",
    [
        {"qkv_bias": True},
        {"attn_out_bias": True, "ff_bias": True},
        {"tie_embeddings": True, "ff_hidden": 50},
        {"feedforward": "geglu"},
        {"feedforward": "glu"},
    ],
    ids=str,
)
def test_variants_of_llama(compare: Compare, changes: dict[str, Any]) -> None:
    ours, theirs, name = both("llama", **changes)
    assert name == "LlamaForCausalLM"
    same(compare, ours, theirs, f"llama, {written(changes)} vs {name}")


@pytest.mark.parametrize("changes", [{}, {"n_kv_head": 1, "attn_out_bias": True}], ids=str)
def test_normalised_queries_and_keys(compare: Compare, changes: dict[str, Any]) -> None:
    ours, theirs, name = both("llama", qk_norm=True, **changes)
    assert name == "Qwen3ForCausalLM"
    same(compare, ours, theirs, f"llama, {written({'qk_norm': True, **changes})} vs {name}")


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("window", [2, 3, 7, 40])
def test_sliding_window(compare: Compare, window: int, kernel: str) -> None:
    ours, theirs, name = both("llama", attention="window", window=window, n_kv_head=2)
    assert name == "MistralForCausalLM"
    theirs.set_attn_implementation(kernel)
    same(compare, ours, theirs, f"llama, window={window} vs {name}, {kernel}")


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_window_of_one_token(compare: Compare, kernel: str) -> None:
    """The cache of `transformers` does not know it, so that no class is named; but the class
    computes the same without its cache."""
    ours = build(small_preset("llama", attention="window", window=1))
    with pytest.raises(ConfigError, match="window is 1, MistralForCausalLM has 2"):
        hf_class_of(ours.config)
    theirs = HF_CLASSES["MistralForCausalLM"].build(ours, **SPECIAL)
    theirs.set_attn_implementation(kernel)
    tokens = random_tokens(3, SMALL["block_size"])
    with torch.no_grad():
        expected = theirs(tokens, use_cache=False).logits
        compare(ours(tokens), expected, f"llama, window=1 vs MistralForCausalLM, {kernel}")


def test_gpt2(compare: Compare) -> None:
    ours, theirs, name = both("gpt2")
    assert name == "GPT2LMHeadModel"
    same(compare, ours, theirs, f"gpt2 vs {name}")


def test_minigpt(compare: Compare) -> None:
    """It has a bias on its head, which has to be found a place elsewhere."""
    ours, theirs, name = both("minigpt")
    assert name == "GPT2LMHeadModel"
    assert ours.head.bias is not None
    assert theirs.lm_head.bias is None
    same(compare, ours, theirs, f"minigpt vs {name}, relu, the head's bias in the last norm's")


@pytest.mark.parametrize(
    "changes",
    [
        {"feedforward": "relu2"},
        {"feedforward": "gelu", "norm_bias": False},
        {"feedforward": "silu", "tie_embeddings": False, "ff_hidden": 50},
        {"attn_out_bias": False, "ff_bias": False},
        {"norm_bias": False, "tie_embeddings": False, "head_bias": True},
    ],
    ids=str,
)
def test_variants_of_gpt2(compare: Compare, changes: dict[str, Any]) -> None:
    ours, theirs, name = both("gpt2", **changes)
    assert name == "GPT2LMHeadModel"
    same(compare, ours, theirs, f"gpt2, {written(changes)} vs {name}")


# The slopes of other numbers of heads are compared with BLOOM's and with the authors' code.
@pytest.mark.parametrize("n_head", [1, 3, 8, 12, 17])
def test_mpt(compare: Compare, n_head: int) -> None:
    ours, theirs, name = both("mpt", n_head=n_head, n_embd=8 * n_head, n_layer=1)
    assert name == "MptForCausalLM"
    same(compare, ours, theirs, f"mpt, 1 to 17 heads vs {name}")


def test_mpt_untied(compare: Compare) -> None:
    ours, theirs, name = both("mpt", tie_embeddings=False)
    same(compare, ours, theirs, f"mpt, tie_embeddings=False vs {name}")


def written(changes: dict[str, Any]) -> str:
    return ", ".join(f"{field}={value}" for field, value in changes.items())
