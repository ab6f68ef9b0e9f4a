"""The native engine computes what the torch model computes, for every model that it covers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError, ConfigError
from calcgpt.inference.continuous import ContinuousBatch, RunResult
from calcgpt.inference.generate import Completion, Sampling, generate
from calcgpt.inference.native.decoder import NativeDecoder
from calcgpt.inference.native.entries import ACTIVATIONS
from calcgpt.model.gpt import GPT
from calcgpt.recipe import load_preset

VOCAB = 35
SMALL = {"n_layer": 2, "n_embd": 32, "n_head": 4, "block_size": 80, "init": "torch"}
LINES = ["$(0000000782+0000000021)=", "$(-000000.99*99999999.9)=", "$3(000000001/0000000007)="]
CHARACTERS = "$()*+-./0123456789:;=an|"
VARIANTS: dict[str, dict[str, Any]] = {
    "minigpt": load_preset("minigpt").model_dump(),
    "llama": load_preset("llama").model_dump(),
    "gpt2": load_preset("gpt2").model_dump(),
    "coupled": {
        "position": "coupled+rope",
        "row_marks": [0, 1, 18],
        "n_place": 7,
        "qk_norm": True,
        "feedforward": "swiglu",
        "norm": "rmsnorm",
    },
    "scratchpad": {
        "position": "coordinates",
        "characters": CHARACTERS,
        "qk_norm": True,
        "feedforward": "swiglu",
        "norm": "rmsnorm",
        "place_offset": 5,
    },
    "scratchpad, a window over rows": {
        "position": "coordinates",
        "characters": CHARACTERS,
        "row_window": 1,
        "qk_norm": True,
    },
    "scratchpad, windows over rows and columns": {
        "position": "coordinates",
        "characters": CHARACTERS,
        "row_window": 2,
        "column_window": 3,
    },
    "scratchpad, nothing but characters": {
        "position": "coordinates",
        "characters": CHARACTERS + "ABCDEFGHIJK",
        "norm": "rmsnorm",
    },
    "grouped queries": {"position": "learned+rope", "n_kv_head": 2, "norm": "rmsnorm"},
    "one key head": {"position": "none", "n_kv_head": 1, "qk_norm": True},
    "narrow heads": {"n_embd": 36, "n_head": 3, "position": "sinusoidal", "norm_bias": False},
    "wide heads": {"n_embd": 120, "n_head": 5, "position": "rope", "qkv_bias": True},
    "many rows": {"position": "coupled", "row_marks": [*range(1, 30)], "n_place": 80},
    **{
        activation: {"feedforward": activation, "ff_bias": True, "ff_hidden": 21}
        for activation in ACTIVATIONS
    },
}


@pytest.fixture(autouse=True)
def _little_room_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache has to grow in texts as short as these."""
    monkeypatch.setattr("calcgpt.inference.native.decoder.FIRST_CAPACITY", 16)


def model_of(variant: str) -> GPT:
    torch.manual_seed(0)
    model = GPT(ModelConfig(**{**VARIANTS[variant], **SMALL, **sizes(variant)}), VOCAB)
    with torch.no_grad():  # gains and biases that are not those of a new model
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def sizes(variant: str) -> dict[str, Any]:
    return {name: VARIANTS[variant][name] for name in ("n_embd", "n_head") if "heads" in variant}


def native(model: GPT) -> NativeDecoder:
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return NativeDecoder(model.config, VOCAB, tensors)


def tokens_for(model: GPT, batch: int, length: int) -> Any:
    tokens = np.random.default_rng(0).integers(0, VOCAB, (batch, length))
    if model.config.position == "coordinates":  # lines of the notation, then anything
        for row in range(0, batch, 2):
            line = [CHARACTERS.index(c) for c in LINES[row // 2 % len(LINES)]]
            tokens[row, : len(line)] = line
    return tokens


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_are_those_of_torch(variant: str) -> None:
    model = model_of(variant)
    decoder = native(model)
    tokens_BT = tokens_for(model, 8, 75)
    with torch.inference_mode():
        # In double precision, so that its own rounding does not count.
        expected_BTV = model.double()(torch.from_numpy(tokens_BT)).numpy()
    cache = decoder.new_array_cache(8, 75)
    parts = [(0, 30), (30, 31), (31, 32), (32, 75)]
    in_parts = [decoder(tokens_BT[:, first:last], cache) for first, last in parts]
    last = decoder(tokens_BT[3:4], decoder.new_array_cache(1, 75), last_only=True)
    scale = np.abs(expected_BTV).max()
    assert np.abs(np.concatenate(in_parts, axis=1) - expected_BTV).max() < 1e-5 * scale
    assert np.abs(last - expected_BTV[3:4, -1:]).max() < 1e-5 * scale


@pytest.mark.parametrize(
    "variant", ["llama", "scratchpad", "scratchpad, nothing but characters", "coupled"]
)
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, seed=3)])
def test_rows_come_and_go_as_with_torch(variant: str, sampling: Sampling) -> None:
    model = model_of(variant)
    prompts_BP = tokens_for(model, 60, 25)
    prompts_BP[:, :3] = prompts_BP[0, :3]  # a shared prefix, which is read once
    tensors_BP = torch.from_numpy(prompts_BP)
    endless = [row.ids for row in generate(model, tensors_BP, -1, sampling=sampling)]
    # A token that some rows write early and others late or never: rows end at unlike times.
    stop = max(range(VOCAB), key=lambda t: len({ids.index(t) for ids in endless if t in ids}))
    expected = generate(model, tensors_BP, stop, sampling=sampling)
    actual = generate(native(model), prompts_BP, stop, sampling=sampling)
    assert len({len(completion.ids) for completion in expected}) > 2
    for by_torch, by_native in zip(expected, actual, strict=True):
        assert by_native.ids == by_torch.ids
        assert by_native.probabilities == pytest.approx(by_torch.probabilities, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "variant", ["llama", "coupled", "scratchpad", "scratchpad, windows over rows and columns"]
)
def test_sequences_that_begin_at_different_times_are_continued_as_alone(variant: str) -> None:
    model = model_of(variant)
    rng = np.random.default_rng(1)
    prompts = [row[: rng.integers(1, 60)].tolist() for row in tokens_for(model, 22, 60)]
    prompts += tokens_for(model, 2, 30).tolist()  # are read together
    prompts += [tokens_for(model, 1, n)[0].tolist() for n in (79, 80, 81, 200)]
    endless = [generate(model, torch.tensor([prompt]), -1)[0] for prompt in prompts]
    ends = [[[*row.ids, t].index(t) for row in endless] for t in range(VOCAB)]
    stop = int(np.std(ends, axis=1).argmax())  # some rows write it early and others late or never
    expected = [
        Completion(row.ids[: end + 1], row.probabilities[: end + 1])
        for row, end in zip(endless, ends[stop], strict=True)
    ]
    assert len({len(completion.ids) for completion in expected}) >= 5

    batch, row_of, ended = ContinuousBatch(native(model), stop), dict[int, int](), {}
    n_token = 0
    for index in range(0, len(prompts), 2):
        pair = range(index, index + 2)
        row_of |= zip(batch.add([prompts[i] for i in pair]), pair, strict=True)
        if index % 3 == 0:  # others join between two of these
            part = batch.run(int(rng.integers(1, 12)))
            ended |= part.finished
            n_token += sum(part.sizes)
        if index == 12:
            dropped = batch.rows[1::2]
            batch.drop([*dropped, 1_000])
    while batch.rows:
        part = batch.run(9)
        ended |= part.finished
        n_token += sum(part.sizes)
    assert batch.run(1) == RunResult([], {})
    assert dropped
    assert len(ended) == len(prompts) - len(dropped)
    assert n_token >= sum(len(completion.ids) for completion in ended.values())
    for row, actual in ended.items():
        by_torch = expected[row_of[row]]
        assert actual.ids == by_torch.ids
        assert actual.probabilities == pytest.approx(by_torch.probabilities, rel=1e-5, abs=1e-6)


def test_threads_take_turns() -> None:
    decoder = native(model_of("scratchpad"))
    tokens_BT = tokens_for(model_of("scratchpad"), 8, 75)
    alone = [decoder(tokens_BT[row : row + 1], decoder.new_array_cache(1, 75)) for row in range(8)]

    def read(row: int) -> bool:
        logits = decoder(tokens_BT[row : row + 1], decoder.new_array_cache(1, 75))
        return np.array_equal(logits, alone[row])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, [*range(8)] * 20))


def test_a_batch_may_be_larger_than_what_a_layer_takes_at_once() -> None:
    model = model_of("coupled")
    assert_same_logits(model, tokens_for(model, 101, 3))


@pytest.mark.parametrize(("block_size", "head_dim"), [(5, 16), (16, 32), (20, 96)])
def test_a_head_may_be_wider_than_the_context(block_size: int, head_dim: int) -> None:
    config = SMALL | {"n_embd": 2 * head_dim, "n_head": 2, "block_size": block_size}
    model = GPT(ModelConfig(**config), VOCAB).eval()
    assert_same_logits(model, tokens_for(model, 7, block_size))


def assert_same_logits(model: GPT, tokens_BT: Any) -> None:
    decoder = native(model)
    with torch.inference_mode():
        expected_BTV = model(torch.from_numpy(tokens_BT)).numpy()
    actual_BTV = decoder(tokens_BT, decoder.new_array_cache(*tokens_BT.shape))
    np.testing.assert_allclose(actual_BTV, expected_BTV, atol=1e-5 * np.abs(expected_BTV).max())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"architecture": "bigram"}, "architecture 'bigram'"),
        ({"attention": "window"}, "attention 'window'"),
        ({"position": "alibi"}, "position 'alibi'"),
        ({"feedforward": "gelu"}, "feedforward 'gelu'"),
        ({"norm_position": "post"}, "norm_position 'post'"),
    ],
)
def test_other_models_are_refused_with_an_engine_to_take(change: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=f"does not support {what}: use 'torch'"):
        NativeDecoder(ModelConfig(**change), VOCAB, {})


def test_tensors_that_do_not_fit_are_refused() -> None:
    model = model_of("llama")
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    name = "blocks.1.attn.out.weight"
    for damaged in (
        {k: v for k, v in tensors.items() if k != name},
        {**tensors, name: tensors[name][1:]},
    ):
        with pytest.raises(CheckpointError, match=name):
            NativeDecoder(model.config, VOCAB, damaged)


def test_every_tensor_of_the_config_is_needed() -> None:
    biases = dict.fromkeys(("qkv_bias", "attn_out_bias", "ff_bias", "norm_bias", "head_bias"), True)
    config = ModelConfig(**SMALL, norm="layernorm", **biases)
    model = GPT(config, VOCAB)
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    NativeDecoder(config, VOCAB, tensors)
    assert sum(name.endswith(".bias") for name in tensors) > 5
    for missing in tensors:
        rest = {name: tensor for name, tensor in tensors.items() if name != missing}
        with pytest.raises(CheckpointError, match=missing):
            NativeDecoder(config, VOCAB, rest)


@pytest.mark.parametrize("token", [-1, VOCAB])
def test_ids_that_no_token_has_are_refused(token: int) -> None:
    decoder = native(model_of("llama"))
    with pytest.raises(ValueError, match="token ids must be from 0 to 34"):
        decoder(np.array([[1, token]]), decoder.new_array_cache(1, 2))


def test_more_tokens_than_the_context_holds_are_refused() -> None:
    decoder = native(model_of("llama"))
    with pytest.raises(ValueError, match="81 tokens do not fit in 80"):
        decoder(np.zeros((1, 81), np.int64), decoder.new_array_cache(1, 81))
    prompts_BP = np.zeros((2, 70), np.int64)
    assert decoder.write(prompts_BP, -1, 11)[0].shape == (2, 11)  # the last token is not read
    with pytest.raises(ValueError, match="81 tokens do not fit in 80"):
        decoder.write(prompts_BP, -1, 12)
