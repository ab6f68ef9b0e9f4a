"""The decoder against a second, deliberately naive implementation written from the papers."""

import math

import pytest
import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model import FEEDFORWARDS, GPT, NORMS, POSITIONS

VOCAB = 21


def naive_norm(norm: nn.Module, x: torch.Tensor) -> torch.Tensor:
    if isinstance(norm, nn.LayerNorm):
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return centred / (variance + norm.eps).sqrt() * norm.weight + norm.bias
    return x / ((x**2).mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight


def naive_rotate(x: torch.Tensor, position: int, base: float) -> torch.Tensor:
    """RoFormer, eq. 34, for one head at one position; channel i is paired with i + D/2."""
    half = len(x) // 2
    out = x.clone()
    for i in range(half):
        angle = position * base ** (-2 * i / len(x))
        cos, sin = math.cos(angle), math.sin(angle)
        out[i] = x[i] * cos - x[i + half] * sin
        out[i + half] = x[i + half] * cos + x[i] * sin
    return out


def naive_attention(attn: nn.Module, x: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """One sequence (T, C), one head and one query at a time."""
    D, H, G = config.head_dim, config.n_head, config.kv_heads
    qkv = x @ attn.qkv.weight.T + (attn.qkv.bias if config.qkv_bias else 0)
    q, k, v = qkv.split([H * D, G * D, G * D], dim=1)
    out = torch.zeros(len(x), H * D, dtype=x.dtype)
    for head in range(H):
        group = head * G // H  # query heads share key/value heads in order
        columns = slice(group * D, (group + 1) * D)
        for t in range(len(x)):
            query, keys = q[t, head * D : (head + 1) * D], k[: t + 1, columns]
            if config.qk_norm:
                query = naive_norm(attn.q_norm, query)
                keys = naive_norm(attn.k_norm, keys)
            if "rope" in config.position:
                query = naive_rotate(query, t, config.rope_base)
                keys = torch.stack(
                    [naive_rotate(key, s, config.rope_base) for s, key in enumerate(keys)]
                )
            weights = (keys @ query / math.sqrt(D)).softmax(0)
            out[t, head * D : (head + 1) * D] = weights @ v[: t + 1, columns]
    return out @ attn.out.weight.T + (attn.out.bias if config.attn_out_bias else 0)


def naive_feedforward(ff: nn.Module, x: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    if config.feedforward == "relu":
        return (x @ ff.up.weight.T).clamp(min=0) @ ff.down.weight.T
    w, v = ff.gate_up.weight.chunk(2)
    gate = x @ w.T
    return (gate * torch.sigmoid(gate) * (x @ v.T)) @ ff.down.weight.T


def naive_coordinates(tokens: list[int], config: ModelConfig) -> list[tuple[int, int]]:
    """Place and row of each token: counted on from the last mark, and which mark that was."""
    place, row, coordinates = -1, 0, []
    for token in tokens:
        if token in config.row_marks:
            place, row = -1, 1 + config.row_marks.index(token)
        place = min(place + 1, config.n_place - 1)
        coordinates.append((place, row))
    return coordinates


def naive_logits(model: GPT, tokens: torch.Tensor) -> torch.Tensor:
    config = model.config
    x = model.token_embedding.weight[tokens]
    if "learned" in config.position:
        x = x + model.positions.table.weight[: len(tokens)]
    if "coupled" in config.position:
        x = x.clone()
        for t, (place, row) in enumerate(naive_coordinates(tokens.tolist(), config)):
            x[t] += model.positions.places.weight[place] + model.positions.rows.weight[row]
    for block in model.blocks:
        x = x + naive_attention(block.attn, naive_norm(block.attn_norm, x), config)
        x = x + naive_feedforward(block.ff, naive_norm(block.ff_norm, x), config)
    head = model.head
    return naive_norm(model.norm, x) @ head.weight.T + (head.bias if config.head_bias else 0)


def variants() -> list[ModelConfig]:
    """Every registered name, alone and with grouped queries; a few options besides."""
    small = {"n_layer": 2, "n_embd": 24, "n_head": 4, "block_size": 20}
    small |= {"row_marks": [2, 11, 5, VOCAB], "n_place": 4}
    changes = [{"position": name} for name in POSITIONS]
    changes += [{"feedforward": name} for name in FEEDFORWARDS]
    changes += [{"norm": name} for name in NORMS]
    changes += [change | {"n_kv_head": heads} for heads in (1, 2) for change in changes]
    changes += [
        {"qk_norm": True, "position": "rope", "norm": "rmsnorm"},
        {"rope_base": 100.0, "position": "rope"},
        {"tie_embeddings": True, "head_bias": False, "qkv_bias": True, "attn_out_bias": False},
        {"init": "gpt2"},
    ]
    return [ModelConfig(**small | change) for change in changes]


def label(config: ModelConfig) -> str:
    return " ".join(f"{k}={v}" for k, v in config.model_dump(exclude_defaults=True).items())


def build(config: ModelConfig, seed: int = 0) -> GPT:
    torch.manual_seed(seed)
    model = GPT(config, VOCAB).double().eval()
    for parameter in model.parameters():  # so that no bias or gain is at its neutral value
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("config", variants(), ids=label)
class TestEveryVariant:
    def test_equals_the_naive_implementation(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = torch.randint(VOCAB, (11,))
        with torch.no_grad():
            expected = naive_logits(model, tokens)
            actual = model(tokens[None])[0]
        # float64, but RoPE's tables and RMSNorm are float32.
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)

    def test_cached_decoding_equals_a_full_forward(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = torch.randint(VOCAB, (3, 15))
        with torch.no_grad():
            full = model(tokens)
            cache = model.new_cache(3, 15)
            parts = [tokens[:, :6], tokens[:, 6:7], tokens[:, 7:10], tokens[:, 10:]]
            cached = torch.cat([model(part, cache) for part in parts], dim=1)
        assert cache.length == 15
        torch.testing.assert_close(cached, full, rtol=1e-6, atol=1e-6)

    def test_a_token_changes_nothing_before_it(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = torch.randint(VOCAB, (1, 12))
        changed = tokens.clone()
        changed[0, 7] = (changed[0, 7] + 1) % VOCAB
        with torch.no_grad():
            before, after = model(tokens), model(changed)
        torch.testing.assert_close(before[:, :7], after[:, :7], rtol=1e-9, atol=1e-9)
        assert not torch.allclose(before[:, 7:], after[:, 7:])

    def test_rows_of_a_batch_are_independent(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = torch.randint(VOCAB, (4, 9))
        with torch.no_grad():
            together = model(tokens)
            alone = torch.cat([model(row[None]) for row in tokens])
        torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-9)

    def test_gradients_reach_every_parameter(self, config: ModelConfig) -> None:
        model = build(config).train()
        tokens = torch.stack((torch.arange(20), torch.arange(20).flip(0)))
        model(tokens).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


def test_attention_without_positions_does_not_see_the_order_of_the_past() -> None:
    model = build(ModelConfig(position="none", n_layer=1, n_embd=24, n_head=4, block_size=20))
    tokens = torch.randint(VOCAB, (1, 10))
    shuffled = torch.cat((tokens[:, torch.randperm(9)], tokens[:, 9:]), dim=1)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens)[:, -1], model(shuffled)[:, -1])


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    scheme = POSITIONS["rope"](ModelConfig(position="rope", n_embd=32, n_head=2, block_size=64))
    q, k = torch.randn(2, 1, 1, 1, 16)
    near = (scheme.rotate(q, 9) * scheme.rotate(k, 4)).sum()
    far = (scheme.rotate(q, 50) * scheme.rotate(k, 45)).sum()
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-5)


def test_places_and_rows_are_those_of_the_text() -> None:
    config = ModelConfig(position="coupled", row_marks=[7, 3], n_place=4)
    scheme = POSITIONS["coupled"](config)
    tokens = [0, 9, 3, 1, 1, 7, 7, 0, 0, 0, 0, 0, 3, 20]
    places, rows = scheme.coordinates(torch.tensor([tokens]))
    assert places.tolist() == [[0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 3, 3, 0, 1]]
    assert rows.tolist() == [[0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 2, 2]]


@pytest.mark.parametrize("marks", [[3, 3], [-1]])
def test_marks_that_make_no_sense_are_refused(marks: list[int]) -> None:
    with pytest.raises(ConfigError, match="row_marks"):
        GPT(ModelConfig(position="coupled", row_marks=marks), VOCAB)


def test_swiglu_has_as_many_parameters_as_relu() -> None:
    relu = GPT(ModelConfig(feedforward="relu"), VOCAB).n_parameters()
    swiglu = GPT(ModelConfig(feedforward="swiglu"), VOCAB).n_parameters()
    assert swiglu == relu


def test_the_blogs_baseline_has_the_blogs_shape() -> None:
    model = GPT(ModelConfig(), VOCAB)
    C, layers = 96, 8
    block = 3 * C * C + (C * C + C) + 8 * C * C + 4 * C  # qkv, out, feed-forward, two norms
    assert model.n_parameters() == 21 * C + 128 * C + layers * block + 2 * C + (C + 1) * 21


def test_more_tokens_than_the_context_are_refused() -> None:
    model = build(ModelConfig(n_layer=1, n_embd=8, n_head=2, block_size=5))
    with pytest.raises(ValueError, match="6 tokens do not fit in 5"):
        model(torch.zeros(1, 6, dtype=torch.long))
