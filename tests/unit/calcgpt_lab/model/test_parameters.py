"""Parameters counted without building: by part, as numbers and as formulas."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from calcgpt.checkpoint import KIND_TABLE
from calcgpt.config import ModelConfig
from calcgpt_lab.model.attention import ATTENTIONS
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.parameters import count, flop_formulas, flops, formulas, sizes
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.recipe import load_preset
from datagen.slots import Kind

VOCAB = 21
CONFIGS = [
    ModelConfig(),
    ModelConfig(position="shaw", attention="landmark", n_kv_head=2, qk_norm=True),
    ModelConfig(position="coupled", row_marks=[3, 4], feedforward="swiglu", norm="rmsnorm"),
    ModelConfig(norm_position="post", norm_bias=False, qkv_bias=True, ff_bias=True),
    ModelConfig(tie_embeddings=True, head_bias=False, position="t5-buckets"),
    ModelConfig(architecture="bigram"),
    ModelConfig(architecture="sources", qk_norm=True, n_kv_head=2),
]
LLAMA = ModelConfig(n_kv_head=2, position="rope", feedforward="swiglu", attention="window")
# Which parameters belong to a part, by a piece of their names.
PARTS = {
    "token embedding": ("token_embedding.",),
    "positions": ("positions.", "roles.", "kinds."),
    "attention": (".attn.",),
    "feed-forward": (".ff.",),
    "norms": (".attn_norm.", ".ff_norm.", "norm."),
    "head": ("head.",),
    "table of logits": ("table.",),
}


def part_of(name: str) -> str:
    return next(part for part, words in PARTS.items() if any(word in name for word in words))


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_every_part_is_counted_as_it_is_built(config: ModelConfig) -> None:
    counted = count(config, VOCAB)
    built = dict.fromkeys(counted, 0)
    for name, parameter in build_model(config, VOCAB).named_parameters():
        n_row = len(Kind) if name == KIND_TABLE else len(parameter)  # others are reserved
        built[part_of(name)] += parameter[:n_row].numel()
    assert counted == built


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_the_formulas_are_the_counts(config: ModelConfig) -> None:
    assert_counted(config)


@pytest.mark.parametrize("position", POSITIONS)
def test_the_formulas_of_positions_are_the_counts(position: str) -> None:
    assert_counted(ModelConfig(position=position))


def assert_counted(config: ModelConfig) -> None:
    numbers = sizes(config, VOCAB)
    for part, formula in formulas(config).items():
        assert {symbol.name for symbol in formula.free_symbols} <= set(numbers)
        assert formula.subs(numbers) == count(config, VOCAB)[part], part


# Keys and values of architecture 'sources' are tables, which are made once and not for each token.
COUNTED = [config for config in (*CONFIGS, LLAMA) if config.architecture != "sources"]


@pytest.mark.parametrize("config", COUNTED, ids=range(len(COUNTED)))
def test_operations_are_those_that_torch_counts(config: ModelConfig) -> None:
    small = {"block_size": 32, "n_layer": 2, "n_embd": 24, "n_head": 4, "attention_kernel": "plain"}
    config = config.model_copy(update=small)
    model = build_model(config, VOCAB)
    numbers = sizes(config, VOCAB)
    tokens = torch.zeros(1, 32, dtype=torch.int64)
    with FlopCounterMode(display=False) as forward:
        loss = model(tokens).sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    expected = flops(config, VOCAB)
    n_token = {part: 32 if part == "head" else numbers["N"] for part in expected}
    total = sum(n_token[part] * number for part, number in expected.items())
    assert forward.get_total_flops() == total
    assert backward.get_total_flops() == 2 * total
    for part, formula in formulas(config, flop_formulas).items():
        assert formula.subs(numbers) == expected[part]


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("position", POSITIONS)
def test_only_parameters_are_stored(position: str, attention: str) -> None:
    # Tables that follow from the config, such as angles, could only contradict it.
    model = build_model(ModelConfig(n_layer=1, position=position, attention=attention), VOCAB)
    assert model.state_dict().keys() == dict(model.named_parameters()).keys()


def test_the_formulas_of_the_blogs_baseline() -> None:
    C, D, F, G, H, L, N, V = (
        next(s for s in sum(formulas(ModelConfig()).values()).free_symbols if s.name == name)
        for name in "CDFGHLNV"
    )
    expected = {
        "token embedding": V * C,
        "positions": N * C,
        "attention": L * (C * (H + 2 * G) * D + C * C + C),
        "feed-forward": L * 2 * C * F,
        "norms": L * 4 * C + 2 * C,
        "head": C * V + V,
    }
    for part, formula in formulas(ModelConfig()).items():
        assert (formula - expected[part]).expand() == 0, part


@pytest.mark.parametrize(
    ("preset", "shape", "vocab_size", "published"),
    [
        (
            "gpt2",
            {"n_layer": 12, "n_embd": 768, "n_head": 12, "block_size": 1024},
            50_257,
            124_439_808,
        ),
        (
            "gpt2",  # GPT-2 XL
            {"n_layer": 48, "n_embd": 1600, "n_head": 25, "block_size": 1024},
            50_257,
            1_557_611_200,
        ),
        (
            "llama",  # Llama 2 7B
            {"n_layer": 32, "n_embd": 4096, "n_head": 32, "ff_hidden": 11_008},
            32_000,
            6_738_415_616,
        ),
        (
            "llama",  # Mistral 7B
            {"n_layer": 32, "n_embd": 4096, "n_head": 32, "n_kv_head": 8, "ff_hidden": 14_336},
            32_000,
            7_241_732_096,
        ),
        ("mpt", {"n_layer": 32, "n_embd": 4096, "n_head": 32}, 50_432, 6_649_286_656),
    ],
    ids=["GPT-2", "GPT-2 XL", "Llama 2 7B", "Mistral 7B", "MPT 7B"],
)
def test_presets_in_their_published_sizes_have_the_published_parameters(
    preset: str, shape: dict[str, int], vocab_size: int, published: int
) -> None:
    config = ModelConfig(**load_preset(preset).model_dump(exclude_unset=True) | shape)
    assert sum(count(config, vocab_size).values()) == published
    with torch.device("meta"):  # nothing is allocated
        assert build_model(config, vocab_size).n_parameters() == published
