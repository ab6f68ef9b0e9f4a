"""Attention weights equal those of the formulas."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.errors import ExpressionError
from calcgpt.registry import resolve
from calcgpt.tokenizer import CharTokenizer, Tokenizer
from calcgpt_lab.data.tokenizers import (
    arithmetic_tokenizer,
    byte_pair_tokenizer,
)
from calcgpt_lab.export.page import FILE, export_example
from calcgpt_lab.model.gpt import GPT, build_model
from calcgpt_lab.model.sources import next_slots
from calcgpt_lab.model.stored import checkpoint_of
from calcgpt_lab.studies.inspection import (
    INSERTED,
    attention_maps,
    attention_weights,
    inspect,
)
from datagen.slots import NOWHERE
from datagen.work import render

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


def build(seed: int = 0, **changes: Any) -> GPT:
    torch.manual_seed(seed)
    model = build_model(ModelConfig(**{**SMALL, **changes}), 21).eval()
    assert isinstance(model, GPT)
    return model


def checkpoint(tokenizer: Tokenizer | None = None, **changes: Any) -> Checkpoint:
    """Returns a checkpoint with random weights, named `mine`."""
    tokenizer = tokenizer or arithmetic_tokenizer()
    recipe = Recipe(model=ModelConfig(**{**SMALL, **changes}))
    torch.manual_seed(0)
    model = build_model(recipe.model, len(tokenizer)).eval()
    return checkpoint_of("mine", recipe, tokenizer, model, {})


def ids(text: str) -> torch.Tensor:
    return torch.from_numpy(arithmetic_tokenizer().encode(text).astype("int64"))


@pytest.mark.parametrize("name", VARIANTS)
def test_weights_sum_to_1_and_ignore_the_future(name: str) -> None:
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
def test_the_inspected_model_gives_the_logits_of_the_model(name: str) -> None:
    model = build(**VARIANTS[name])
    plain = model.with_plain_attention()
    assert (model.config.attention_kernel, plain.config.attention_kernel) == ("sdpa", "plain")
    torch.testing.assert_close(plain(ids(TEXT)[None]), model(ids(TEXT)[None]))


def test_a_head_looks_at_the_sources_of_a_rule_and_nothing_else() -> None:
    loaded = Checkpoint.load(resolve("calculator"))
    text = render([b"$(00000012.5*0000000003)="])[0].decode()[:-1]
    maps = attention_maps(loaded.model, loaded.tokenizer, text)  # type: ignore[arg-type]
    assert "".join(maps.labels) == text
    sources = next_slots(text.encode()).sources
    for place in range(text.index("="), len(text)):
        seen = maps.weights_LHSS[:, :, place].amax(dim=(0, 1)).nonzero()[:, 0].tolist()
        assert set(seen) == set(sources[place].tolist()) - {NOWHERE}
    sums = maps.weights_LHSS.sum(dim=-1)
    assert sums.min() == 0  # in the question, where the sink has it all
    assert 0.9 < sums.max() < 1


@torch.inference_mode()
def test_weights_follow_from_queries_and_keys() -> None:
    """Computed by the formulas of the papers, one head at a time."""
    model = build()
    p, n = model.state_dict(), len(TEXT)
    x = p["token_embedding.weight"][ids(TEXT)] + model.positions.table.weight[:n]  # type: ignore
    for layer, weights_HSS in enumerate(attention_weights(model, ids(TEXT))):
        w = {k.removeprefix(f"blocks.{layer}."): v for k, v in p.items() if f".{layer}." in k}
        q, k, v = (normed(x, w, "attn_norm") @ w["attn.qkv.weight"].T).split(16, dim=-1)
        mixed = []
        for head in range(2):
            part = slice(8 * head, 8 * head + 8)
            scores = q[:, part] @ k[:, part].T / math.sqrt(8)
            scores[torch.ones(n, n).triu(1) > 0] = -math.inf
            weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
            torch.testing.assert_close(weights_HSS[head], weights)
            mixed.append(weights @ v[:, part])
        x = x + torch.cat(mixed, dim=-1) @ w["attn.out.weight"].T + w["attn.out.bias"]
        hidden = (normed(x, w, "ff_norm") @ w["ff.up.weight"].T).clamp(min=0)
        x = x + hidden @ w["ff.down.weight"].T


def normed(x: torch.Tensor, w: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    variance = x.var(dim=-1, correction=0, keepdim=True)
    standard = (x - x.mean(dim=-1, keepdim=True)) / (variance + 1e-5).sqrt()
    return standard * w[f"{name}.weight"] + w[f"{name}.bias"]


def test_inserted_tokens_have_their_own_label() -> None:
    maps = attention_maps(build(**VARIANTS["landmark"]), arithmetic_tokenizer(), "$(00000012")
    assert "".join(maps.labels) == f"$(00{INSERTED}0000{INSERTED}12"
    assert not maps.weights_LHSS[..., [4, 9]].any()  # no token looks at landmarks


def test_an_inspection_shows_the_answer_of_the_calculator() -> None:
    inspection = inspect(checkpoint(), "12.5 × 3")
    assert inspection.answer.expression == "12.5*3"
    (node,) = inspection.answer.nodes
    assert "".join(inspection.maps.labels) == f"{node.prompt}{node.output}"[:-1]


def test_models_without_layers_or_of_other_text_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"mine has no layers to inspect.*'bigram'"):
        inspect(checkpoint(architecture="bigram"), "1+1")
    for tokenizer in (CharTokenizer("abc"), byte_pair_tokenizer(TEXT, 260)):
        with pytest.raises(DataError, match="mine cannot be inspected"):
            inspect(checkpoint(tokenizer), "1+1")
    with pytest.raises(ExpressionError):
        inspect(checkpoint(), "1+")


def test_damaged_weights_are_refused() -> None:
    damaged = checkpoint()
    with torch.no_grad():
        damaged.model.blocks[0].attn.qkv.weight[0, 0] = math.nan  # type: ignore
    with pytest.raises(DataError, match="damaged"):
        inspect(damaged, "1+1")


def test_the_example_of_the_page_is_what_the_model_writes(tmp_path: Path) -> None:
    export_example(Checkpoint.load(resolve("calculator")), tmp_path / "out", force=False)
    events = json.loads((tmp_path / "out" / FILE).read_text())["events"]
    written = "".join(event["data"]["text"] for event in events if event["name"] == "token")
    assert events[-1]["data"]["nodes"][0]["output"] == written
    assert events[-1]["data"]["verified"]
