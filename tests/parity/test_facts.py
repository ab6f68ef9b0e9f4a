"""Facts about single variants, each from its paper or its definition."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from parity.variants import VOCAB, build, like, random_tokens, small
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from calcgpt.config import ModelConfig
from calcgpt.model.attention import ATTENTIONS, CausalSelfAttention, Context
from calcgpt.model.gpt import GPT, MODELS, LanguageModel, build_model
from calcgpt.model.layers import NORMS
from calcgpt.model.positions import POSITIONS

Compare = Callable[..., None]
EXACT = 1e-9
RELATIVE = ["alibi", "none", "rope", "shaw", "t5", "t5-buckets"]  # depend only on distances
ABSOLUTE = ["integrated", "integrated-per-head", "learned", "learned+rope", "sinusoidal"]


def of_shape(**changes: object) -> LanguageModel:
    """Returns a model on the meta device: nothing is allocated."""
    with torch.device("meta"):
        return build_model(ModelConfig(**changes), VOCAB)


# --------------------------------------------------------------------------------- positions


def last_logits_change_with_the_order(position: str) -> bool:
    model = build(small(position=position, n_layer=1, max_distance=20))
    tokens = torch.tensor([[3, 2, 8, 11, 1, 5, 9, 4, 7, 0]])
    swapped = tokens[:, [8, *range(1, 8), 0, 9]]
    with torch.no_grad():
        change = (model(tokens)[0, -1] - model(swapped)[0, -1]).abs().max()
    assert change < 1e-12 or change > 1e-4  # nothing, or clearly something
    return bool(change > 1e-4)


def test_attention_without_positions_does_not_see_the_order_of_the_past() -> None:
    assert not last_logits_change_with_the_order("none")


# Coordinates know problems only: see test_coordinates.
@pytest.mark.parametrize("position", sorted(set(POSITIONS) - {"none", "coordinates"}))
def test_every_other_scheme_sees_the_order_of_the_past(position: str) -> None:
    assert last_logits_change_with_the_order(position)


@pytest.mark.parametrize("position", RELATIVE + ABSOLUTE)
@torch.no_grad()
def test_only_relative_schemes_ignore_the_position_of_a_text(position: str) -> None:
    # Through two layers with a window of 5, a token sees 8 tokens back. Earlier tokens can only
    # matter because they shift its position.
    model = build(small(position=position, attention="window", row_marks=[], n_place=20))
    tokens = random_tokens(1, 20)
    change = model(tokens)[0, 14:] - model(tokens[:, 6:])[0, 8:]
    if position in RELATIVE:
        assert change.abs().max() < 1e-6  # the rotation is tabulated in float32
    else:
        assert change.abs().max() > 1e-3


def test_rotary_scores_depend_only_on_the_distance() -> None:
    scheme = POSITIONS["rope"](small(n_embd=64, n_head=4, block_size=64), 64)
    q, k = torch.randn(2, 1, 1, 1, 16)
    near = (scheme.rotate(q, None, 9) * scheme.rotate(k, None, 4)).sum()
    far = (scheme.rotate(q, None, 50) * scheme.rotate(k, None, 45)).sum()
    other = (scheme.rotate(q, None, 50) * scheme.rotate(k, None, 44)).sum()
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-5)
    assert not torch.isclose(near, other, rtol=1e-2)


def test_the_slopes_of_alibi_for_8_heads_halve_from_one_half() -> None:
    scheme = POSITIONS["alibi"](small(n_embd=24, n_head=8), 20)
    bias_HTS = scheme.bias(3, 7)
    assert bias_HTS.shape == (8, 3, 10)
    for head in range(8):
        slope = 2.0 ** -(head + 1)  # Press et al. 2022, section 3
        assert bias_HTS[head, 0, :8].tolist() == [-slope * (7 - s) for s in range(8)]


@torch.no_grad()
def test_the_bias_of_t5_reaches_every_layer() -> None:
    for position in ("t5", "t5-buckets"):
        model = build(small(position=position, n_layer=3))
        assert isinstance(model, GPT)
        x_BTC = torch.randn(1, 9, 24, dtype=torch.float64)
        outputs = []
        for _ in range(2):
            context = Context(model.positions, None, model.scheme, 9, None, x_BTC.device)
            outputs.append([block.attn(x_BTC, context) for block in model.blocks])
            model.positions.table += torch.randn_like(model.positions.table)
        for before, after in zip(*outputs, strict=True):
            assert (before - after).abs().max() > 1e-3


def test_sinusoids_have_the_numbers_of_the_paper() -> None:
    table = POSITIONS["sinusoidal"](small(n_embd=512, n_head=4), 50).table_NC
    assert table[0, :4].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert table[49, 2].item() == pytest.approx(math.sin(49 / 10_000 ** (2 / 512)), abs=1e-6)
    assert table[49, 511].item() == pytest.approx(math.cos(49 / 10_000 ** (510 / 512)), abs=1e-6)


# -------------------------------------------------------------------------- coupled positions


def test_places_and_rows_are_those_of_the_text() -> None:
    scheme = POSITIONS["coupled"](small(row_marks=[7, 3], n_place=4), 20)
    tokens = [0, 9, 3, 1, 1, 7, 7, 0, 0, 0, 0, 0, 3, 20]
    places, rows = scheme.coordinates(torch.tensor([tokens]))
    assert places.tolist() == [[0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 3, 3, 0, 1]]
    assert rows.tolist() == [[0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 2, 2]]


class TestPlaceOffset:
    """McLeish et al. 2024, section 3.1."""

    config = small(position="coupled", place_offset=5, n_place=12)

    def offsets(self, embedded: torch.Tensor, scheme: nn.Module, tokens: torch.Tensor) -> list[int]:
        """Returns the offset of the places of each sequence."""
        places, rows = scheme.coordinates(tokens)
        moved = [
            scheme.places((places + offset).clamp(max=11)) + scheme.rows(rows)
            for offset in range(12)
        ]
        matches = [
            [offset for offset in range(12) if torch.equal(embedded[row], moved[offset][row])]
            for row in range(len(tokens))
        ]
        assert all(len(offsets) == 1 for offsets in matches)  # one for the whole sequence
        return [offset for [offset] in matches]

    def embed(self, training: bool) -> list[int]:
        torch.manual_seed(1)
        scheme = POSITIONS["coupled"](self.config, 20).train(training)
        tokens = random_tokens(200, 20)
        torch.manual_seed(2)
        embedded = scheme.embed(torch.zeros(200, 20, self.config.n_embd), tokens, 0)
        return self.offsets(embedded, scheme, tokens)

    def test_each_sequence_has_its_own_in_training(self) -> None:
        assert set(self.embed(training=True)) == {0, 1, 2, 3, 4, 5}

    def test_it_depends_on_the_seed_of_torch(self) -> None:
        assert self.embed(training=True) == self.embed(training=True)

    def test_there_is_none_in_evaluation(self) -> None:
        assert set(self.embed(training=False)) == {0}

    @torch.no_grad()
    def test_logits_are_random_only_in_training(self) -> None:
        model = build(self.config)
        tokens = random_tokens(4, 20)
        assert torch.equal(model(tokens), model(tokens))
        model.train()
        torch.manual_seed(3)
        first = model(tokens)
        assert not torch.allclose(model(tokens), first)
        torch.manual_seed(3)
        assert torch.equal(model(tokens), first)

    @torch.no_grad()
    def test_an_offset_equals_shifted_vectors(self, compare: Compare) -> None:
        model = build(self.config)
        tokens = random_tokens(1, 20)
        model.train()
        torch.manual_seed(4)
        offset = int(torch.randint(6, (1, 1)))
        assert offset > 0
        torch.manual_seed(4)
        trained = model(tokens)
        last = self.config.n_place - 1
        moved = (torch.arange(self.config.n_place) + offset).clamp(max=last)
        model.positions.places.weight.copy_(model.positions.places.weight[moved])
        compare(model.eval()(tokens), trained, "an offset of places", EXACT)


# --------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("position", list(POSITIONS))
@torch.no_grad()
def test_a_window_as_wide_as_the_context_is_full_attention(position: str, compare: Compare) -> None:
    full = build(small(position=position))
    wide = like(full, small(position=position, attention="window", window=20))
    tokens = random_tokens(2, 20)
    compare(wide(tokens), full(tokens), "a window as wide as the context", EXACT)


@pytest.mark.parametrize("kernel", ["sdpa", "plain"])
@torch.no_grad()
def test_a_window_sees_exactly_its_tokens_per_layer(kernel: str) -> None:
    model = build(small(attention="window", attention_kernel=kernel))
    tokens = random_tokens(1, 20)
    changed = tokens.clone()
    changed[0, 6] = (changed[0, 6] + 1) % VOCAB
    change = (model(tokens) - model(changed))[0].abs().amax(dim=1)
    seen = [t for t in range(20) if change[t] > 1e-9]
    assert seen == list(range(6, 6 + 2 * (5 - 1) + 1))


@torch.no_grad()
def test_with_landmarks_the_last_token_sees_the_whole_past() -> None:
    model = build(small(attention="landmark", n_layer=1))
    tokens = random_tokens(1, 20)
    for j in range(20):
        changed = tokens.clone()
        changed[0, j] = (changed[0, j] + 1) % VOCAB
        assert (model(tokens) - model(changed))[0, -1].abs().max() > 1e-6


@pytest.mark.parametrize(("n_query", "n_key"), [(20, 20), (6, 20), (1, 20), (1, 1), (3, 4)])
def test_landmarks_get_no_weight_and_the_rest_sums_to_one(n_query: int, n_key: int) -> None:
    scheme = ATTENTIONS["landmark"](small(landmark_block=4), VOCAB)
    hidden = torch.ones(n_query, n_key).triu(n_key - n_query + 1).bool()
    scores = torch.randn(2, 3, n_query, n_key).masked_fill(hidden, float("-inf"))
    weights = scheme.weights(scores)
    assert (weights >= 0).all()
    assert weights.sum(dim=-1).allclose(torch.ones(()))
    assert not weights[..., 4::5].any()
    assert not weights[..., hidden].any()
    text = ~hidden
    text[:, 4::5] = False
    assert (weights[..., text] > 0).all()


def test_in_the_first_block_landmark_attention_is_full_attention() -> None:
    # Before the first landmark there is one block, whose weights are a plain softmax.
    scheme = ATTENTIONS["landmark"](small(landmark_block=4), VOCAB)
    full = ATTENTIONS["full"](small(), VOCAB)
    scores = torch.randn(1, 1, 4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf"))
    assert scheme.weights(scores).allclose(full.weights(scores))


@torch.no_grad()
def test_grouped_queries_are_many_heads_with_repeated_keys_and_values(compare: Compare) -> None:
    many = build(small(n_kv_head=4))
    tokens = random_tokens(2, 20)
    compare(like(many, small(n_kv_head=None))(tokens), many(tokens), "as many groups as heads", 0)
    for n_group in (1, 2):
        grouped = build(small(n_kv_head=n_group))
        weights = grouped.state_dict()
        for name in [name for name in weights if name.endswith("qkv.weight")]:
            q, k, v = weights[name].view(-1, 6, 24).split([4, n_group, n_group])
            k, v = (x.repeat_interleave(4 // n_group, dim=0) for x in (k, v))
            weights[name] = torch.cat((q, k, v)).view(-1, 24)
        many.load_state_dict(weights)
        compare(grouped(tokens), many(tokens), "grouped queries", EXACT)


@pytest.mark.parametrize("change", [{}, {"attention": "window"}, {"position": "alibi"}], ids=str)
@torch.no_grad()
def test_grouped_queries_have_the_fast_kernel(change: dict[str, object]) -> None:
    model = build(small(n_kv_head=2, **change))
    tokens, cache = random_tokens(2, 20), model.new_cache(2, 20)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # an error where it cannot be used
        model(tokens)
        model(tokens[:, :9], cache)
        model(tokens[:, 9:], cache)


@pytest.mark.parametrize("kernel", ["sdpa", "plain"])
@pytest.mark.parametrize("site", ["embed_dropout", "weights_dropout", "out_dropout", "ff.dropout"])
@torch.no_grad()
def test_dropout_acts_at_each_site(site: str, kernel: str) -> None:
    model = build(small(dropout=0.5, attention_kernel=kernel)).train()
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout) and not name.endswith(site):
            module.p = 0.0
        if isinstance(module, CausalSelfAttention) and site != "weights_dropout":
            module.dropout = 0.0  # of the fused kernel
    tokens = random_tokens(2, 13)
    assert not torch.allclose(model(tokens), model(tokens))


@pytest.mark.parametrize("architecture", list(MODELS))
def test_more_tokens_than_the_block_size_are_refused(architecture: str) -> None:
    model = build(small(architecture=architecture, block_size=5))
    with pytest.raises(ValueError, match="6 tokens do not fit in 5"):
        model(torch.zeros(1, 6, dtype=torch.long))
    cache = model.new_cache(1, 6)
    model(torch.zeros(1, 4, dtype=torch.long), cache)
    with pytest.raises(ValueError, match="6 tokens do not fit in 5"):
        model(torch.zeros(1, 2, dtype=torch.long), cache)


@pytest.mark.parametrize("block_size", [7, 8, 9, 12])
@torch.no_grad()
def test_the_block_size_counts_tokens_of_text_not_landmarks(block_size: int) -> None:
    model = build(small(attention="landmark", block_size=block_size))
    assert model(random_tokens(1, block_size)).shape == (1, block_size, VOCAB)
    with pytest.raises(ValueError, match="do not fit"):
        model(random_tokens(1, block_size + 1))


# ------------------------------------------------------------------------------- the whole


@pytest.mark.parametrize("n_embd", [96, 128, 768, 1000])
def test_gated_networks_have_as_many_parameters_as_plain_ones(n_embd: int) -> None:
    shape = {"n_embd": n_embd, "n_head": 8, "n_layer": 2}
    plain = of_shape(**shape, feedforward="relu").n_parameters()
    for name in ("glu", "geglu", "swiglu"):
        gated = of_shape(**shape, feedforward=name).n_parameters()
        assert gated == pytest.approx(plain, rel=0.01)
        assert n_embd % 3 or gated == plain


def test_the_blogs_baseline_has_the_blogs_shape() -> None:
    C, layers = 96, 8
    block = 3 * C * C + (C * C + C) + 8 * C * C + 4 * C  # qkv, out, feed-forward, two norms
    expected = 21 * C + 128 * C + layers * block + 2 * C + (C + 1) * 21
    assert of_shape().n_parameters() == expected


@pytest.mark.parametrize("norm", list(NORMS))
def test_norms_without_bias_have_none(norm: str) -> None:
    for norm_bias in (False, True):
        model = of_shape(norm=norm, norm_bias=norm_bias, qk_norm=True)
        norms = [name for name, _ in model.named_parameters() if "norm.bias" in name]
        # Two per block, two in its attention, and the final norm.
        assert len(norms) == (8 * 4 + 1 if norm_bias and norm == "layernorm" else 0)


@torch.no_grad()
def test_a_post_norm_model_has_no_final_norm() -> None:
    model = build(small(norm_position="post"))
    assert isinstance(model, GPT)
    assert not list(model.norm.parameters())
    before_head: list[torch.Tensor] = []
    model.head.register_forward_pre_hook(lambda _, inputs: before_head.append(inputs[0]))
    model.blocks[-1].ff_norm = nn.LayerNorm(24, elementwise_affine=False).double()
    model(random_tokens(2, 9))
    [x] = before_head  # the output of the last block's norm
    assert x.mean(-1).abs().max() < 1e-9
    assert (x.var(-1, correction=0) - 1).abs().max() < 1e-3


@torch.no_grad()
@pytest.mark.parametrize("norm", list(NORMS))
def test_float64_stays_float64_in_a_norm(norm: str) -> None:
    layer = NORMS[norm](24, False).double()
    x = torch.randn(50, 24, dtype=torch.float64)
    centred = x - x.mean(-1, keepdim=True) if norm == "layernorm" else x
    expected = centred / (centred.square().mean(-1, keepdim=True) + layer.eps).sqrt()
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("position", ["shaw", "integrated", "integrated-per-head"])
def test_position_vectors_of_the_scores_start_small(position: str) -> None:
    """They are drawn like GPT-2's weights, with every `init`."""
    torch.manual_seed(0)
    model = build_model(small(position=position, n_embd=96, max_distance=100), VOCAB)
    assert isinstance(model, GPT)
    [table] = model.positions.parameters()
    assert table.std().item() == pytest.approx(0.02, rel=0.1)
    assert abs(table.mean().item()) < 0.002


def test_gpt2_initialisation_has_the_numbers_of_the_paper() -> None:
    torch.manual_seed(0)
    shape = {"n_layer": 8, "n_embd": 192, "n_head": 4, "block_size": 64}
    model = build_model(ModelConfig(**shape, init="gpt2", qkv_bias=True, ff_bias=True), VOCAB)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:  # Radford et al. 2019, section 2.3: 1/sqrt(N), N residual layers
            into_residual = name.endswith(("attn.out.weight", "ff.down.weight"))
            std = 0.02 / math.sqrt(16) if into_residual else 0.02
            assert parameter.std().item() == pytest.approx(std, rel=0.05), name
            assert abs(parameter.mean().item()) < 0.05 * std, name


@torch.no_grad()
def test_a_tied_head_is_the_token_embedding() -> None:
    model = build(small(tie_embeddings=True, head_bias=False))
    assert isinstance(model, GPT)
    tokens = random_tokens(1, 9)
    before = model(tokens)
    model.token_embedding.weight[20] += 1.0
    assert model.head.weight.data_ptr() == model.token_embedding.weight.data_ptr()
    assert not torch.allclose(model(tokens)[..., 20], before[..., 20])


@torch.no_grad()
def test_a_bigram_uses_only_the_last_token() -> None:
    model = build(small(architecture="bigram"))
    tokens = random_tokens(1, 20)
    assert torch.equal(model(tokens)[0], model.table.weight[tokens[0]])
    assert torch.equal(model(tokens.flip(1)).flip(1), model(tokens))
