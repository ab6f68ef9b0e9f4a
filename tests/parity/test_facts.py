"""Facts about single variants, each from its paper or its definition."""

import math

import pytest
import torch
from parity.variants import VOCAB, build, random_tokens, small
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from calcgpt.config import ModelConfig
from calcgpt_lab.model.attention import ATTENTIONS, CausalSelfAttention
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.gpt import GPT, MODELS, build_model
from calcgpt_lab.model.layers import NORMS
from calcgpt_lab.model.positions import POSITIONS

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


@pytest.mark.parametrize("position", sorted(set(POSITIONS) - {"none"}))
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


# -------------------------------------------------------------------------- coupled positions


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

    def test_there_is_none_in_evaluation(self) -> None:
        assert set(self.embed(training=False)) == {0}


# --------------------------------------------------------------------------------- attention


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
