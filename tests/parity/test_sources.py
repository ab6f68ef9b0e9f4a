"""Models that see only the sources of a rule: on real lines, whole, in parts and case by case."""

import pytest
import torch
from parity import naive
from parity.variants import assert_close, build, small

from calcgpt.config import ModelConfig
from calcgpt_lab.model.base import LanguageModel
from datagen.notation import WORK_ALPHABET as ALPHABET
from datagen.work import render

PROMPTS = ["$(0000012.50*0000000.25)=", "$5(00000-3.75/0000000700)=", "$(0000002.08-0000136.22)="]
LINES = [line.decode() for line in render([prompt.encode() for prompt in PROMPTS])]


def ids(line: str) -> torch.Tensor:
    return torch.tensor([[ALPHABET.index(character) for character in line]])


def source_config(**changes: object) -> ModelConfig:
    fixed = {"architecture": "sources", "block_size": 200, "characters": ALPHABET}
    return small(**fixed | changes)


def model_of(config: ModelConfig) -> LanguageModel:
    return build(config, len(ALPHABET))


@pytest.mark.parametrize(
    "changes",
    [
        {"qk_norm": True, "norm": "rmsnorm", "feedforward": "swiglu"},
        {"n_kv_head": 2, "norm_position": "post", "qkv_bias": True},
        {"n_kv_head": 1, "tie_embeddings": True, "head_bias": False},
    ],
)
@torch.no_grad()
def test_logits_are_those_of_the_formulas(changes: dict[str, object]) -> None:
    config = source_config(**changes)
    model = model_of(config)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    for line in LINES:
        expected = naive.logits(weights, config, len(ALPHABET), ids(line)[0].tolist())
        assert_close(model(ids(line))[0], torch.from_numpy(expected))


@torch.no_grad()
def test_a_line_in_parts_and_a_case_alone_have_the_same_logits() -> None:
    model, tokens = model_of(source_config()), ids(LINES[0])
    expected = model(tokens)
    cache = model.new_cache(1, tokens.size(1))
    parts = [model(part, cache) for part in tokens.split(7, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), expected)
    cases = model.text_features(tokens)
    assert cases is not None
    torch.testing.assert_close(model(cases.transpose(0, 1))[:, 0], expected[0])
    torch.testing.assert_close(model(tokens, last_only=True)[:, 0], expected[:, -1])


def test_gradients_reach_every_parameter() -> None:
    model = model_of(source_config(qk_norm=True, norm="rmsnorm")).train()
    tokens = torch.cat([ids(line)[:, : min(map(len, LINES))] for line in LINES])
    model(tokens).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 1e-7, name


@torch.no_grad()
def test_other_characters_than_the_sources_have_no_effect() -> None:
    model, line = model_of(source_config()), LINES[0]
    work = line.index("=") + 1
    other = ids(line).clone()
    other[0, work + 3] = ALPHABET.index("7")
    assert (other != ids(line)).any()
    cases, other_cases = model.text_features(ids(line)), model.text_features(other)
    same = (cases == other_cases).all(dim=2)[0]
    assert 0 < (~same).sum() <= 12  # those that read it
    changed = (model(ids(line)) - model(other)).abs().amax(dim=2)[0] > 0
    assert torch.equal(changed, ~same)
