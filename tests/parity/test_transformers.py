"""The preset `llama` compared with the library `transformers`, with random
weights, in float64 where it supports that: its RMSNorm, its rotations and some of its softmaxes are
in float32."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity.variants import VOCAB, build, random_tokens

from calcgpt.config import ModelConfig
from calcgpt_lab.export.hf_llama import build_llama
from calcgpt_lab.model.decoding import generate
from calcgpt_lab.recipe import load_preset

LENGTH = 40
SMALL: dict[str, Any] = {"n_layer": 2, "n_embd": 32, "n_head": 4, "block_size": LENGTH}
SPECIAL = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
Compare = Callable[..., None]


def small_llama(**changes: Any) -> ModelConfig:
    return ModelConfig(**load_preset("llama").model_dump() | SMALL | changes)


def check(compare: Compare, kernel: str | None = None, **changes: Any) -> None:
    """Asserts that a small Llama with some changes has the logits and, with a cache, the greedy
    output of the same in `transformers`."""
    model = build(small_llama(**changes))
    reference = build_llama(model, **SPECIAL)
    label = ", ".join(["llama", *(f"{field}={value}" for field, value in changes.items())])
    label += " vs LlamaForCausalLM"
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
    check(compare, n_kv_head=n_kv_head, rope_base=rope_base)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_tied_embeddings_and_another_width(compare: Compare, kernel: str) -> None:
    check(compare, kernel, tie_embeddings=True, ff_hidden=50)
