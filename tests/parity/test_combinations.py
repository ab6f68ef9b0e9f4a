"""Properties of every model, for all pairs of names."""

from itertools import combinations, product

import pytest
import torch
from parity.variants import (
    APART,
    FACTORS,
    VOCAB,
    assert_close,
    build,
    covering_array,
    every_variant,
    like,
    random_tokens,
)
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt_lab.model.base import LanguageModel

EXACT = 1e-9  # float64, the same numbers summed in another order


def decode(model: LanguageModel, tokens: torch.Tensor, chunks: list[int]) -> torch.Tensor:
    """Returns the logits of tokens that come in chunks, through a cache of exactly their number."""
    cache = model.new_cache(*tokens.shape)
    logits = torch.cat([model(chunk, cache) for chunk in tokens.split(chunks, dim=1)], dim=1)
    assert cache.length == model.n_positions(tokens.size(1))
    return logits


def gradients(model: LanguageModel, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    targets = tokens.roll(-1, dims=1)
    F.cross_entropy(model(tokens).transpose(1, 2), targets).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@every_variant
class TestEveryVariant:
    @torch.no_grad()
    def test_cached_decoding_equals_a_full_forward(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = random_tokens(3, 15)
        # The first token alone, several at once, one by one across a landmark, and a last chunk.
        logits = decode(model, tokens, chunks=[1, 5, 1, 1, 1, 1, 5])
        assert_close(logits, model(tokens), EXACT)

    @torch.no_grad()
    def test_rows_selected_from_the_cache_continue_as_if_alone(self, config: ModelConfig) -> None:
        model = build(config)
        tokens, rows = random_tokens(4, 15), torch.tensor([3, 1, 3])
        cache = model.new_cache(4, 15)
        model(tokens[:, :9], cache)
        cache.select(rows)
        rest = model(tokens[rows, 9:], cache)
        assert_close(rest, model(tokens[rows])[:, 9:], EXACT)

    @torch.no_grad()
    def test_last_only_returns_the_last_logits(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = random_tokens(3, 16)  # with landmarks of 4, a landmark comes after the last
        full = model(tokens)
        assert full.shape == (3, 16, VOCAB)
        assert_close(model(tokens, last_only=True), full[:, -1:], EXACT)
        cache = model.new_cache(3, 16)
        model(tokens[:, :7], cache)
        assert_close(model(tokens[:, 7:], cache, last_only=True), full[:, -1:], EXACT)

    def test_the_fused_kernel_equals_the_formula(self, config: ModelConfig) -> None:
        first = build(config)
        tokens = random_tokens(3, 17)
        results = []
        for kernel in ("sdpa", "plain"):
            model = like(first, config.model_copy(update={"attention_kernel": kernel}))
            results.append((model(tokens), gradients(model, tokens)))
        (fused, fused_gradients), (plain, plain_gradients) = results
        assert_close(fused, plain, EXACT)
        assert fused_gradients.keys() == plain_gradients.keys()
        for name, gradient in fused_gradients.items():
            expected = plain_gradients[name]
            assert_close(gradient, expected, EXACT)

    @torch.no_grad()
    def test_a_token_changes_nothing_before_it(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = random_tokens(1, 16)
        before = model(tokens)
        for j in (0, 1, 3, 4, 7, 8, 15):
            changed = tokens.clone()
            changed[0, j] = (changed[0, j] + 1) % VOCAB
            after = model(changed)
            if j:
                assert_close(after[:, :j], before[:, :j], EXACT)
            # Without a question there are no sources to see (`test_sources`).
            seen = config.architecture != "sources"
            assert ((after[0, j] - before[0, j]).abs().max() > 1e-3) == seen

    @torch.no_grad()
    def test_rows_of_a_batch_are_independent(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = random_tokens(4, 14)
        alone = torch.cat([model(row[None]) for row in tokens])
        assert_close(model(tokens), alone, EXACT)

    def test_gradients_reach_every_parameter(self, config: ModelConfig) -> None:
        if config.architecture == "sources":
            pytest.skip("it needs a question: test_sources")
        model = build(config).train()
        every_token = (torch.arange(2 * config.block_size) % VOCAB).view(2, -1)
        gradient = gradients(model, every_token)
        for name, _ in model.named_parameters():
            assert gradient[name].isfinite().all(), name
            # This bias adds the same to all scores of a query, which a softmax ignores, unless
            # keys are rotated.
            no_effect = name.endswith("k_norm.bias") and "rope" not in config.position
            assert (gradient[name].abs().max() > 1e-7) != no_effect, name

    @torch.no_grad()
    def test_bfloat16_is_close(self, config: ModelConfig) -> None:
        model = build(config)
        tokens = random_tokens(2, 17)
        expected = model(tokens)
        model = model.float()
        with torch.autocast("cpu", torch.bfloat16):  # as a training step does on a GPU
            results = [model(tokens)]
        model = model.bfloat16()
        cache = model.new_cache(2, 17)
        results += [model(tokens), torch.cat([model(t, cache) for t in tokens.split(6, 1)], 1)]
        for actual in results:  # a single rounding is up to 2^-8, or 0.004
            assert ((actual - expected).abs().max() / expected.abs().max()) < 0.03

    @torch.no_grad()
    def test_dropout_is_random_only_in_training(self, config: ModelConfig) -> None:
        model = build(config.model_copy(update={"dropout": 0.5}))
        tokens = random_tokens(2, 13)
        evaluated = model(tokens)
        assert torch.equal(model(tokens), evaluated)
        same = torch.allclose(model.train()(tokens), model(tokens))
        assert same == (config.architecture == "bigram")  # one table: nothing to drop
        assert torch.equal(model.eval()(tokens), evaluated)


@pytest.mark.parametrize("apart", [set(), APART], ids=["all", "apart"])
def test_the_covering_array_has_all_pairs(apart: set[tuple[str, str]]) -> None:
    rows = covering_array(FACTORS, apart)
    assert all(row.keys() == FACTORS.keys() for row in rows)
    for f, g in set(combinations(FACTORS, 2)) - apart:
        assert {(row[f], row[g]) for row in rows} == set(product(FACTORS[f], FACTORS[g]))
    assert len(rows) <= (44 if apart else 112)  # 14 positions by 8 feed-forward networks
    assert rows == covering_array(FACTORS, apart)
