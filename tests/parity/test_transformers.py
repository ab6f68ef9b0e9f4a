"""The preset `llama` and its relatives compared with the library `transformers`, with random
weights, in float64 where it supports that: its RMSNorm, its rotations and some of its softmaxes are
in float32."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity.variants import VOCAB, build, random_tokens

from calcgpt.base.errors import ConfigError
from calcgpt.config import ModelConfig
from calcgpt_lab.export.hf_llama import HF_CLASSES, hf_class_of
from calcgpt_lab.model.decoding import generate
from calcgpt_lab.recipe import load_preset

LENGTH = 40
SMALL: dict[str, Any] = {"n_layer": 2, "n_embd": 32, "n_head": 4, "block_size": LENGTH}
SPECIAL = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
Compare = Callable[..., None]


def small_llama(**changes: Any) -> ModelConfig:
    return ModelConfig(**load_preset("llama").model_dump() | SMALL | changes)


def check(compare: Compare, hf_name: str, kernel: str | None = None, **changes: Any) -> None:
    """Asserts that a small Llama with some changes has the logits and, with a cache, the greedy
    output of its class in `transformers`, and that this class is `hf_name`."""
    model = build(small_llama(**changes))
    name, hf_class = hf_class_of(model.config)
    assert name == hf_name
    reference = hf_class.build(model, **SPECIAL)
    label = ", ".join(["llama", *(f"{field}={value}" for field, value in changes.items())])
    label += f" vs {hf_name}"
    if kernel:
        reference.set_attn_implementation(kernel)
        label += f", {kernel}"
    tokens = random_tokens(3, LENGTH)
    with torch.no_grad():
        compare(model(tokens), reference(tokens).logits, label)
    prompts = tokens[:, :7]
    completions = generate(model, prompts, stop_token=VOCAB)  # no token: to the very end
    options = {"do_sample": False, "use_cache": True, "max_new_tokens": LENGTH - 6}
    expected = reference.generate(prompts, attention_mask=torch.ones_like(prompts), **options)
    assert [completion.ids for completion in completions] == expected[:, 7:].tolist()


@pytest.mark.parametrize(
    ("n_kv_head", "rope_base"), [(1, 1e4), (2, 1e4), (4, 1e4), (1, 100.0), (2, 500_000.0)]
)
def test_llama(compare: Compare, n_kv_head: int, rope_base: float) -> None:
    check(compare, "LlamaForCausalLM", n_kv_head=n_kv_head, rope_base=rope_base)


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
    check(compare, "LlamaForCausalLM", **changes)


@pytest.mark.parametrize("changes", [{}, {"n_kv_head": 1, "attn_out_bias": True}], ids=str)
def test_normalised_queries_and_keys(compare: Compare, changes: dict[str, Any]) -> None:
    check(compare, "Qwen3ForCausalLM", qk_norm=True, **changes)


@pytest.mark.parametrize(
    ("window", "kernel"), [(2, "sdpa"), (3, "eager"), (7, "sdpa"), (40, "eager")]
)
def test_sliding_window(compare: Compare, window: int, kernel: str) -> None:
    changes = {"attention": "window", "window": window, "n_kv_head": 2}
    check(compare, "MistralForCausalLM", kernel, **changes)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_window_of_one_token(compare: Compare, kernel: str) -> None:
    """The cache of `transformers` does not support it, so no class is named. Without a cache, the
    class computes the same."""
    model = build(small_llama(attention="window", window=1))
    with pytest.raises(ConfigError, match="window is 1, MistralForCausalLM has 2"):
        hf_class_of(model.config)
    reference = HF_CLASSES["MistralForCausalLM"].build(model, **SPECIAL)
    reference.set_attn_implementation(kernel)
    tokens = random_tokens(3, LENGTH)
    with torch.no_grad():
        expected = reference(tokens, use_cache=False).logits
        label = f"llama, attention=window, window=1 vs MistralForCausalLM, {kernel}"
        compare(model(tokens), expected, label)
