"""A part that is switched off adds nothing: the weights without it against hooks of torch."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from parity.variants import small
from torch import nn

from calcgpt.base.errors import ConfigError
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.errors import CheckpointError
from calcgpt.registry import resolve
from calcgpt.switches import SWITCHES, SwitchMap, parts_of
from calcgpt_lab.data.tokenizers import arithmetic_tokenizer
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.stored import checkpoint_of
from calcgpt_lab.saving import save
from calcgpt_lab.studies import switches
from calcgpt_lab.studies.inspection import Transformer, blocks_of
from datagen.slots import MAX_SOURCES

CONFIGS = {
    "blog": small(),
    "gated": small(feedforward="swiglu", norm="rmsnorm", position="rope", n_kv_head=2),
    "biased": small(ff_bias=True, norm_position="post", position="alibi", n_kv_head=1),
    "landmark": small(attention="landmark", feedforward="relu2"),
    "sources": small(architecture="sources", feedforward="swiglu", n_kv_head=2),
}


def made_of(config: ModelConfig) -> Checkpoint:
    torch.manual_seed(0)
    tokenizer = arithmetic_tokenizer()
    model = build_model(config, len(tokenizer))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)  # a bias that is kept or lost is seen
    return checkpoint_of("small", Recipe(model=config), tokenizer, model.eval(), {})


@contextmanager
def silenced(model: Transformer, part: str) -> Iterator[None]:
    """Switches a part off by hooks, without a change of the weights."""
    layer, place = part.split(".")
    block, width = blocks_of(model)[int(layer) - 1], model.config.head_dim

    def without(columns: slice) -> Callable[[nn.Module, tuple[torch.Tensor]], torch.Tensor]:
        def hook(_: nn.Module, args: tuple[torch.Tensor]) -> torch.Tensor:
            changed = args[0].clone()
            changed[..., columns] = 0
            return changed

        return hook

    if place == "ff":
        handle = block.ff.register_forward_hook(lambda *args: torch.zeros_like(args[2]))
    elif place.startswith("n"):
        columns = slice(int(place[1:]) - 1, int(place[1:]))
        handle = block.ff.down.register_forward_pre_hook(without(columns))
    else:
        columns = slice((int(place) - 1) * width, int(place) * width)
        handle = block.attn.out.register_forward_pre_hook(without(columns))
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    "parts", [["1.1"], ["2.4"], ["1.ff"], ["1.n1", "2.n7", "2.n8", "2.n9"], ["1.2", "2.3", "2.ff"]]
)
def test_parts_without_weights_equal_parts_behind_hooks(name: str, parts: list[str]) -> None:
    checkpoint = made_of(CONFIGS[name])
    shape = (3, 12, 1 + MAX_SOURCES) if name == "sources" else (3, 12)  # cases, or text
    tokens = torch.randint(0, len(checkpoint.tokenizer), shape)
    model, without = checkpoint.model, checkpoint.without(parts).model
    assert isinstance(model, Transformer)
    with torch.inference_mode(), ExitStack() as stack:
        whole = model(tokens)
        for part in parts:
            stack.enter_context(silenced(model, part))
        torch.testing.assert_close(without(tokens), model(tokens), rtol=1e-4, atol=1e-5)
        assert not torch.equal(whole, without(tokens))


@pytest.mark.parametrize(
    "part", ["3.1", "1.5", "0.1", "1.0", "1.n97", "1.FF", "1.1,1.2", "", "1" * 999]
)
def test_a_part_that_the_model_does_not_have_is_refused(part: str) -> None:
    config = small(ff_hidden=96)
    with pytest.raises(ConfigError, match=r"this model has heads 1\.1 to 2\.4.* 2\.n96$"):
        made_of(config).without([part])


def test_an_architecture_without_parts_is_refused() -> None:
    checkpoint = made_of(small(architecture="bigram"))
    with pytest.raises(ConfigError, match="cannot be switched off"):
        checkpoint.without(["1.1"])


def test_the_map_belongs_to_its_weights(tmp_path: Path) -> None:
    content: dict[str, Any] = {"weights": "0" * 64, "n": 1, "seed": 0, "parts": {}}
    checkpoint = replace(made_of(small()), switches=SwitchMap(**content))
    save(checkpoint, tmp_path / "c")
    assert Checkpoint.load(tmp_path / "c").switches is None  # it was measured for other weights
    (tmp_path / "c" / SWITCHES).write_text(json.dumps({**content, "parts": {"1.x": {}}}))
    with pytest.raises(CheckpointError, match=r"switches\.json: parts"):
        Checkpoint.load(tmp_path / "c")


@pytest.mark.slow
def test_what_breaks_without_a_part_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped map has what a measurement of a few problems finds, and what torch answers
    without a head: all that is counted as right, and hardly more."""
    folder = resolve("calculator")
    checkpoint = Checkpoint.load(folder)
    shipped = checkpoint.switches
    assert shipped
    assert set(parts_of(checkpoint.recipe.model)) < set(shipped.parts)
    looks = [
        (look.share, look.writing, name) for name, p in shipped.parts.items() for look in p.looks
    ]
    share, writing, head = max(looks)
    heads = parts_of(checkpoint.recipe.model)
    hurts = {name: sum(shipped.parts[name].right.values()) for name in heads}
    hurt = min(hurts, key=lambda name: abs(hurts[name] - 2))  # about half of the answers
    monkeypatch.setattr(switches, "parts_of", lambda config: [head, hurt])
    monkeypatch.setattr(switches, "find_goals", lambda *args: [])
    measured = switches.measure(folder, 60, seed=5, progress=False)
    assert measured.weights == shipped.weights
    assert measured.n == 60
    assert {look.writing: look.share for look in measured.parts[head].looks}[writing] > share - 0.1
    assert hurt in switches.table(measured)
    lines = switches.drawn(60, 5)
    right = evaluate(checkpoint.without([hurt]).model, checkpoint.tokenizer, lines).right
    for operation, counted in measured.parts[hurt].right.items():
        flags = [r for r, line in zip(right, lines, strict=True) if line.operation == operation]
        assert counted - 1e-3 <= sum(flags) / len(flags) <= counted + 0.2
        assert abs(counted - shipped.parts[hurt].right[operation]) < 0.4


def test_a_model_of_another_form_has_no_map() -> None:
    with pytest.raises(ConfigError, match="direct has no map of switches"):
        switches.measure(resolve("direct"), 10, seed=0, progress=False)
