"""What is measured inside a model is what the formulas, and torch, say of the whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import DataConfig, ModelConfig, Recipe
from calcgpt.data.batches import ProblemLines
from calcgpt.data.tokenizer import (
    CharTokenizer,
    Tokenizer,
    arithmetic_tokenizer,
    byte_pair_tokenizer,
    steps_tokenizer,
)
from calcgpt.errors import ConfigError, DataError, ExpressionError, UserError
from calcgpt.lab import inspection as module
from calcgpt.lab.inspection import (
    BINS,
    INSERTED,
    activations,
    attention_maps,
    attention_weights,
    choose,
    drawn_problems,
    hooked,
    inspect,
)
from calcgpt.model.gpt import GPT, build_model
from datagen.notation import parse
from datagen.steps import STEPS_ALPHABET

SMALL: dict[str, Any] = {"n_layer": 2, "n_embd": 16, "n_head": 2, "block_size": 64}
VARIANTS: dict[str, dict[str, Any]] = {
    "blog": {},
    "gated": {"feedforward": "swiglu", "norm": "rmsnorm"},
    "grouped": {"n_kv_head": 1, "qk_norm": True, "position": "rope"},
    "biased": {"position": "alibi", "norm_position": "post"},
    "window": {"attention": "window", "window": 5},
    "landmark": {"attention": "landmark", "landmark_block": 4, "feedforward": "relu2"},
}
TEXT = "$(00000012.5*0000000003)=5.7300000"
# Of different lengths, so that there is padding, the longest in the middle.
LINES = [
    "$(0000000782+0000000021)=3080000000$",
    "$(0000000009*0000000009)=18$",
    "$(9999999999*9999999999)=10000000089999999999$",
    "$(0000000001/0000000000)=nan0000000$",
    "$(0000002.08-0000136.22)=41.431-000$",
]


def build(seed: int = 0, **changes: Any) -> GPT:
    torch.manual_seed(seed)
    model = build_model(ModelConfig(**{**SMALL, **changes}), 21).eval()
    assert isinstance(model, GPT)
    return model


def checkpoint(tokenizer: Tokenizer | None = None, **changes: Any) -> Checkpoint:
    """One of random weights, named `mine`."""
    tokenizer = tokenizer or arithmetic_tokenizer()
    recipe = Recipe(model=ModelConfig(**{**SMALL, **changes}))
    torch.manual_seed(0)
    model = build_model(recipe.model, len(tokenizer)).eval()
    return Checkpoint("mine", recipe, tokenizer, model, {})


def ids(text: str) -> torch.Tensor:
    return torch.from_numpy(arithmetic_tokenizer().encode(text).astype("int64"))


def lines(model: GPT) -> ProblemLines:
    return ProblemLines("\n".join(LINES), arithmetic_tokenizer(), model.config.block_size)


@pytest.mark.parametrize("name", VARIANTS)
def test_weights_sum_to_1_and_look_at_no_future(name: str) -> None:
    model = build(**VARIANTS[name])
    maps = attention_maps(model, arithmetic_tokenizer(), TEXT)
    n = len(maps.labels)
    assert n == model.n_positions(len(TEXT))
    assert maps.weights_LHSS.shape == (2, 2, n, n)
    torch.testing.assert_close(maps.weights_LHSS.sum(dim=-1), torch.ones(2, 2, n))
    assert (maps.weights_LHSS >= 0).all()
    assert not maps.weights_LHSS.triu(1).any()


@pytest.mark.parametrize("name", VARIANTS)
@torch.inference_mode()
def test_the_model_that_is_inspected_says_what_the_model_says(name: str) -> None:
    model = build(**VARIANTS[name])
    plain = model.with_plain_attention()
    assert (model.config.attention_kernel, plain.config.attention_kernel) == ("sdpa", "plain")
    torch.testing.assert_close(plain(ids(TEXT)[None]), model(ids(TEXT)[None]))


@torch.inference_mode()
def test_weights_are_those_of_the_queries_and_keys() -> None:
    """By the formulas of the papers, parameter by parameter, for one head at a time."""
    model = build()
    p, n = model.state_dict(), len(TEXT)
    x = p["token_embedding.weight"][ids(TEXT)] + model.positions.table.weight[:n]  # type: ignore
    for layer, found_HSS in enumerate(attention_weights(model, ids(TEXT))):
        w = {k.removeprefix(f"blocks.{layer}."): v for k, v in p.items() if f".{layer}." in k}
        q, k, v = (normed(x, w, "attn_norm") @ w["attn.qkv.weight"].T).split(16, dim=-1)
        mixed = []
        for head in range(2):
            part = slice(8 * head, 8 * head + 8)
            scores = q[:, part] @ k[:, part].T / math.sqrt(8)
            scores[torch.ones(n, n).triu(1) > 0] = -math.inf
            weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
            torch.testing.assert_close(found_HSS[head], weights)
            mixed.append(weights @ v[:, part])
        x = x + torch.cat(mixed, dim=-1) @ w["attn.out.weight"].T + w["attn.out.bias"]
        hidden = (normed(x, w, "ff_norm") @ w["ff.up.weight"].T).clamp(min=0)
        x = x + hidden @ w["ff.down.weight"].T


def normed(x: torch.Tensor, w: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    variance = x.var(dim=-1, correction=0, keepdim=True)
    standard = (x - x.mean(dim=-1, keepdim=True)) / (variance + 1e-5).sqrt()
    return standard * w[f"{name}.weight"] + w[f"{name}.bias"]


def test_a_window_shows_nothing_before_it() -> None:
    weights_LHSS = attention_weights(build(**VARIANTS["window"]), ids(TEXT))
    assert not weights_LHSS.tril(-5).any()
    assert (weights_LHSS.diagonal(-4, dim1=-2, dim2=-1) > 0).all()


def test_tokens_of_the_scheme_are_labelled_as_such() -> None:
    maps = attention_maps(build(**VARIANTS["landmark"]), arithmetic_tokenizer(), "$(00000012")
    assert "".join(maps.labels) == f"$(00{INSERTED}0000{INSERTED}12"
    assert not maps.weights_LHSS[..., [4, 9]].any()  # landmarks get nothing themselves


def constant_units(biases: list[float]) -> GPT:
    """A model whose units get these values, whatever it reads."""
    model = build(ff_hidden=len(biases), ff_bias=True)
    for block in model.blocks:
        torch.nn.init.zeros_(block.ff.up.weight)
        block.ff.up.bias.data = torch.tensor(biases)
    return model


def test_three_of_eight_units_are_dead() -> None:
    model = constant_units([-2.0, 1.0, 0.0, 2.0, 1e-6, 3.0, -1e-6, 4.0])
    for layer in activations(model, lines(model)):
        assert (layer.units, layer.dead, layer.dead_share) == (8, 3, 0.375)
        assert layer.before.mean == pytest.approx(8 / 8)
        assert layer.after.mean == pytest.approx((10 + 1e-6) / 8)


def test_a_unit_that_one_token_excites_is_alive() -> None:
    model = constant_units([-1.0] * 8)
    assert [layer.dead for layer in activations(model, lines(model))] == [8, 8]
    # In the first layer, what the feed-forward network reads of `n`, of one line, points elsewhere.
    seen: list[torch.Tensor] = []
    block = model.blocks[0]
    with torch.inference_mode(), hooked([block.ff], lambda _, x, __: seen.append(x[0])):
        for line in LINES:
            model(ids(line[:-1])[None])
    place = LINES[3].index("n")
    special, others = seen[3][place], torch.cat([*seen[:3], seen[3][:place], *seen[4:]])
    projections = others @ special
    threshold = special @ special
    assert projections.max() < threshold
    block.ff.up.weight.data[0] = special
    block.ff.up.bias.data[0] = -(threshold + projections.max()) / 2
    assert [layer.dead for layer in activations(model, lines(model))] == [7, 8]


@pytest.mark.parametrize("name", VARIANTS)
def test_moments_are_torchs_over_all_activations(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)  # several batches, in two of which there is padding
    model = build(**VARIANTS[name])
    # One line at a time, which needs no padding, everything kept.
    kept: dict[tuple[int, int], list[torch.Tensor]] = {}

    def keep(layer: int, before_BSF: torch.Tensor, after_BSF: torch.Tensor) -> None:
        kept.setdefault((layer, 0), []).append(before_BSF[0])
        kept.setdefault((layer, 1), []).append(after_BSF[0])

    parts = [block.ff.activation for block in model.blocks]
    with torch.inference_mode(), hooked(parts, keep):
        for line in LINES:
            model(ids(line[:-1])[None])

    for index, layer in enumerate(activations(model, lines(model))):
        for side, found in enumerate((layer.before, layer.after)):
            every = torch.cat(kept[index, side])
            exact = every.double()
            assert found.mean == pytest.approx(exact.mean().item(), abs=1e-6)
            assert found.variance == pytest.approx(exact.var().item(), rel=1e-5)
            assert found.min == pytest.approx(every.min().item(), abs=1e-6)
            assert found.max == pytest.approx(every.max().item(), abs=1e-6)
            counts, _ = np.histogram(every, BINS, (found.min, found.max))
            # Batching moves values by rounding: a few may fall on the other side of an edge.
            assert sum(found.counts) == pytest.approx(every.numel(), abs=0)
            assert np.abs(counts - found.counts).sum() <= 4
        every = torch.cat(kept[index, 0])
        assert layer.units == every.size(1)
        assert layer.dead == int((every <= 0).all(dim=0).sum())


def test_values_that_are_all_alike_have_a_histogram() -> None:
    model = constant_units([-1.0] * 8)
    layer, _ = activations(model, lines(model))
    assert (layer.after.min, layer.after.max, layer.after.variance) == (0.0, 0.0, 0.0)
    assert max(layer.after.counts) == sum(layer.after.counts)


def test_hooks_are_gone_afterwards() -> None:
    model = build()
    activations(model, lines(model))
    attention_weights(model, ids(TEXT))
    assert not any(part._forward_hooks for part in model.modules())


def test_only_one_operation_is_inspected() -> None:
    with pytest.raises(UserError, match="only one operation can be inspected; this has 2"):
        inspect(checkpoint(), "1+2+3", n=8)


def test_an_inspection_is_of_the_answer_that_the_calculator_gives() -> None:
    found = inspect(checkpoint(), "12.5 × 3", n=8)
    assert found.answer.expression == "12.5*3"
    (node,) = found.answer.nodes
    assert "".join(found.maps.labels) == f"{node.prompt}{node.output}"[:-1]
    assert found.problems == 8
    assert found.record()["read"] == "".join(found.maps.labels)
    first, *rows = found.table().splitlines()
    assert "dead" in first
    assert [row.split()[0] for row in rows] == ["0", "1"]


def test_positions_of_the_scheme_count_as_tokens() -> None:
    plain, landmark = (
        inspect(checkpoint(**VARIANTS[name]), "1+1", n=8).tokens for name in ("blog", "landmark")
    )
    assert plain == 8 * 35  # all 36 characters but the last
    assert landmark == 8 * (35 + 35 // 4)


def test_problems_are_drawn_as_the_recipe_draws_them() -> None:
    only = {"+": 0.0, "-": 0.0, "/": 0.0}
    data = DataConfig(format="steps", digits=5, mixture={"edge": 1.0}, operations=only)
    recipe = Recipe(tokenizer="steps", model=ModelConfig(block_size=256), data=data)
    texts = drawn_problems(recipe, steps_tokenizer(), 20, seed=1)
    assert len(texts) == 20
    assert all("*" in text and text.count("=") == 2 for text in texts)
    assert texts == drawn_problems(recipe, steps_tokenizer(), 20, seed=1)
    assert texts != drawn_problems(recipe, steps_tokenizer(), 20, seed=2)


def test_without_data_problems_are_the_blogs_with_exact_labels() -> None:
    texts = drawn_problems(Recipe(), arithmetic_tokenizer(), 50, seed=0)
    assert {parse(text).op.value for text in texts} == set("+-*/")
    in_steps = Recipe(model=ModelConfig(block_size=150))
    texts = drawn_problems(in_steps, CharTokenizer(STEPS_ALPHABET), 200, seed=0)
    assert all(text.count("=") == 2 for text in texts)
    assert max(map(len, texts)) <= 151
    assert 0 < len(texts) < 200  # those that do not fit are left out


def test_a_problem_fits_if_all_but_its_last_character_do() -> None:
    def lengths(block_size: int) -> set[int]:
        recipe = Recipe(model=ModelConfig(block_size=block_size))
        return set(map(len, drawn_problems(recipe, arithmetic_tokenizer(), 50, seed=0)))

    assert lengths(35) == {36}
    with pytest.raises(DataError, match="no problem fits in the model's context, 34 characters"):
        lengths(34)


def test_a_layer_or_head_that_is_not_there_is_refused() -> None:
    config = ModelConfig(**SMALL)
    assert choose(config, None, 1) == (range(2), range(1, 2))
    for layer, head, message in ((2, None, "no layer 2"), (None, -1, "no head -1"), (0, 2, "head")):
        with pytest.raises(ConfigError, match=f"{message}.*0 to 1"):
            choose(config, layer, head)


def test_models_without_layers_and_of_other_text_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"mine has no layers to inspect.*'bigram'"):
        inspect(checkpoint(architecture="bigram"), "1+1")
    for tokenizer in (CharTokenizer("abc"), byte_pair_tokenizer("\n".join(LINES), 300)):
        with pytest.raises(DataError, match="mine cannot be inspected"):
            inspect(checkpoint(tokenizer), "1+1")
    with pytest.raises(DataError, match="no problem fits in the model's context"):
        inspect(checkpoint(block_size=10), "1+1")
    with pytest.raises(ExpressionError):
        inspect(checkpoint(), "1+")


def test_damaged_weights_are_refused() -> None:
    damaged = checkpoint()
    with torch.no_grad():
        damaged.model.blocks[0].ff.up.weight[0, 0] = math.nan  # type: ignore
    with pytest.raises(DataError, match="damaged"):
        inspect(damaged, "1+1", n=2)
