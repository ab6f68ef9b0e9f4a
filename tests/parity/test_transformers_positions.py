"""Comparisons with parts of `transformers`: ALiBi with BLOOM's attention, T5's relative bias with
the stack of T5's decoder. `transformers` has no T5 decoder with a head and without an encoder.

Each test imports `transformers` itself: the import takes seconds, and only one process of the tests
needs it."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity.variants import VOCAB, build, random_tokens

from calcgpt.config import ModelConfig
from calcgpt_lab.model.attention import AttentionScheme, CausalSelfAttention, Context
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.positions import POSITIONS, t5_buckets
from calcgpt_lab.recipe import load_preset

LENGTH = 40
Compare = Callable[..., None]


def alibi_of_bloom(n_head: int) -> torch.Tensor:
    """Returns BLOOM's bias, (H, 1, S) float64."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    return build_alibi_tensor(torch.ones(1, LENGTH), n_head, torch.float64)


@pytest.mark.parametrize("n_head", range(1, 18))
def test_alibi_is_blooms(compare: Compare, n_head: int) -> None:
    """Up to a shift of all scores of a query, which a softmax ignores."""
    config = ModelConfig(position="alibi", n_head=n_head, n_embd=n_head, block_size=LENGTH)
    bias_HTS = POSITIONS["alibi"](config, LENGTH).bias(LENGTH, 0)
    bloom_HS = alibi_of_bloom(n_head).squeeze(1)
    bloom_HTS = bloom_HS[:, None, :] - bloom_HS[:, :, None]  # 0 at the query's own position
    compare(bias_HTS.tril(), bloom_HTS.tril(), "ALiBi, 1 to 17 heads vs BLOOM's alibi")


@pytest.mark.parametrize("n_head", range(1, 18))
def test_attention_with_alibi_is_blooms(compare: Compare, n_head: int) -> None:
    from transformers import BloomConfig
    from transformers.models.bloom.modeling_bloom import BloomAttention

    C, D = 8 * n_head, 8
    config = ModelConfig(
        position="alibi", n_head=n_head, n_embd=C, block_size=LENGTH, qkv_bias=True
    )
    torch.manual_seed(0)
    attention = CausalSelfAttention(config, layer=0).double()
    bloom = BloomAttention(
        BloomConfig(hidden_size=C, n_head=n_head, hidden_dropout=0.0, attention_dropout=0.0), 0
    ).double()
    # Our matrix has all queries, all keys, all values; BLOOM's has query, key, value by head.
    by_head = {
        kind: getattr(attention.qkv, kind).view(3, n_head, D, -1).transpose(0, 1)
        for kind in ("weight", "bias")
    }
    bloom.load_state_dict(
        {
            "query_key_value.weight": by_head["weight"].reshape(3 * C, C),
            "query_key_value.bias": by_head["bias"].reshape(3 * C),
            "dense.weight": attention.out.weight,
            "dense.bias": attention.out.bias,
        }
    )
    x_BTC = torch.randn(2, LENGTH, C, dtype=torch.float64)
    future = torch.full((LENGTH, LENGTH), -1e9, dtype=torch.float64).triu(1)
    positions, scheme = POSITIONS["alibi"](config, LENGTH), AttentionScheme(config, VOCAB)
    context = Context(positions, scheme, LENGTH, None, torch.device("cpu"))
    with torch.no_grad():
        expected, _ = bloom.eval()(
            x_BTC, torch.zeros_like(x_BTC), alibi_of_bloom(n_head).repeat(2, 1, 1), future
        )
        label = "attention, ALiBi, 1 to 17 heads vs BloomAttention"
        compare(attention(x_BTC, context), expected, label)


BUCKETS = [(32, 128), (32, 17), (2, 3), (3, 50), (8, 20), (33, 100), (64, 1_000), (128, 4_000)]


@pytest.mark.parametrize(("n_bucket", "max_distance"), BUCKETS)
def test_buckets_are_t5s(compare: Compare, n_bucket: int, max_distance: int) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    expected = T5Attention._relative_position_bucket(
        -torch.arange(5_001), bidirectional=False, num_buckets=n_bucket, max_distance=max_distance
    )
    actual = t5_buckets(5_001, n_bucket, max_distance)
    assert actual.max() == n_bucket - 1
    compare(actual, expected, "T5's buckets of distances up to 5000", rtol=0)


@pytest.mark.parametrize(
    ("buckets", "feedforward", "kernel"),
    [
        (BUCKETS[0], "relu", "sdpa"),
        (BUCKETS[0], "geglu", "eager"),
        (BUCKETS[1], "geglu", "sdpa"),
        (BUCKETS[2], "relu", "eager"),
        (BUCKETS[3], "geglu", "sdpa"),
        (BUCKETS[4], "relu", "eager"),
    ],
)
def test_t5_decoder(
    compare: Compare, buckets: tuple[int, int], feedforward: str, kernel: str
) -> None:
    n_bucket, max_distance = buckets
    changes = {"n_layer": 2, "n_embd": 32, "n_head": 4, "block_size": LENGTH}
    changes |= {"feedforward": feedforward, "n_bucket": n_bucket, "max_distance": max_distance}
    model = build(ModelConfig(**load_preset("t5-decoder").model_dump() | changes))
    stack = t5_stack(model, kernel)
    tokens = random_tokens(3, LENGTH)
    with torch.no_grad():
        expected = model.head(stack(tokens).last_hidden_state)  # T5Stack has no head
        compare(model(tokens), expected, f"t5-decoder, {feedforward} vs T5Stack, {kernel}")


def t5_stack(model: LanguageModel, kernel: str) -> Any:
    """Returns T5's decoder with the weights of `model`."""
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Stack

    c = model.config
    config = T5Config(
        vocab_size=VOCAB,
        d_model=c.n_embd,
        d_kv=c.head_dim,
        num_heads=c.n_head,
        num_layers=c.n_layer,
        d_ff=c.ff_width,
        dropout_rate=0.0,
        relative_attention_num_buckets=c.n_bucket,
        relative_attention_max_distance=c.max_distance,
        layer_norm_epsilon=1e-6,
        is_decoder=True,
        is_encoder_decoder=False,
        use_cache=False,
        feed_forward_proj="relu" if c.feedforward == "relu" else "gated-gelu",
        attn_implementation=kernel,
    )
    if config.is_gated_act:
        config.dense_act_fn = "gelu"  # exact: T5's "gated-gelu" is the approximation
    stack = T5Stack(config).double().eval()
    weights = {
        "embed_tokens.weight": model.token_embedding.weight,
        "final_layer_norm.weight": model.norm.weight,
        "block.0.layer.0.SelfAttention.relative_attention_bias.weight": model.positions.table.T,
    }
    for index, block in enumerate(model.blocks):
        q, k, v = block.attn.qkv.weight.chunk(3)
        layer = {
            "0.layer_norm": block.attn_norm.weight,
            "0.SelfAttention.q": q / math.sqrt(c.head_dim),  # T5 does not divide the scores
            "0.SelfAttention.k": k,
            "0.SelfAttention.v": v,
            "0.SelfAttention.o": block.attn.out.weight,
            "2.layer_norm": block.ff_norm.weight,
            "2.DenseReluDense.wo": block.ff.down.weight,
        }
        if config.is_gated_act:
            gate, up = block.ff.gate_up.weight.chunk(2)
            layer |= {"2.DenseReluDense.wi_0": gate, "2.DenseReluDense.wi_1": up}
        else:
            layer["2.DenseReluDense.wi"] = block.ff.up.weight
        weights |= {f"block.{index}.layer.{name}.weight": w for name, w in layer.items()}
    missing, unexpected = stack.load_state_dict(weights, strict=False)
    assert not unexpected
    # Only the attention to an encoder is missing, which does not run without an encoder.
    assert all(".layer.1." in name for name in missing)
    return stack
