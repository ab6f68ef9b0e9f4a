"""The network on cases, its memory, and decoding as look-ups."""

import dataclasses
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datagen_strategies import any_problems
from hypothesis import given, settings
from parity import naive

from calcgpt.base.errors import ConfigError, DataError, NotationError
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.cases import decoder as module
from calcgpt.inference.cases import memory, stored
from calcgpt.inference.cases.decoder import CaseDecoder, network_of
from calcgpt.inference.cases.memory import OUTSIDE, UNKNOWN, Entries, Memory
from calcgpt.inference.cases.network import Network, shapes
from calcgpt.inference.decoding import Decoder
from calcgpt.inference.engines import load_decoder
from calcgpt.registry import resolve
from calcgpt_lab.data.cases import case_arrays
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.sources import next_cases
from datagen import layout_check
from datagen.arithmetic import Problem
from datagen.cases import all_cases
from datagen.layout import new_layout
from datagen.notation import WORK_ALPHABET, render, render_prompt
from datagen.slots import MAX_SOURCES, Kind, Layout, Shape

PROMPTS = [
    "$(0000012.25*0000000.75)=",
    "$5(00000-3.75/0000000700)=",
    "$(0000002.08-0000136.22)=",
    "$(0000000001/0000000000)=",
]


@cache
def proved() -> Checkpoint:
    return Checkpoint.load(resolve("calculator"))


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which nothing was proved."""
    monkeypatch.setenv("CALCGPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def with_arrays(**changed: np.ndarray) -> Checkpoint:
    return dataclasses.replace(proved(), arrays=proved().arrays | changed)


def decoder(live: bool = False, strict: bool = True, **changed: np.ndarray) -> CaseDecoder:
    checkpoint = with_arrays(**changed)
    return CaseDecoder(checkpoint if strict else checkpoint.without([]), live)


def file_of(**changed: np.ndarray) -> Path:
    """Where the entries of a decoder are kept if they are proved."""
    return stored.path_of(with_arrays(**changed))


def written(decoder: Decoder, prompts: list[str]) -> list[str]:
    return [text for text, _ in decoder.complete(prompts)]


def test_logits_are_those_of_torch() -> None:
    checkpoint = proved()
    features, _ = case_arrays(all_cases(), checkpoint.tokenizer)
    rows = np.arange(0, len(features), 29)
    network = network_of(checkpoint)
    actual = network(features[rows, 0], features[rows, 1:])
    with torch.no_grad():
        expected = checkpoint.model(torch.from_numpy(features[rows, None].astype(np.int64)))
    np.testing.assert_allclose(actual, expected[:, 0].numpy(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("n_kv_head", [4, 2, 1])
def test_logits_are_those_of_the_formulas_with_shared_keys(n_kv_head: int) -> None:
    config = proved().recipe.model.model_copy(update={"n_kv_head": n_kv_head, "n_layer": 2})
    torch.manual_seed(0)
    model = build_model(config, len(WORK_ALPHABET))
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    line = PROMPTS[0] + "++"
    tokens = proved().tokenizer.encode(line).tolist()
    expected = naive.logits(weights, config, len(WORK_ALPHABET), tokens)
    of_code = np.full(2**8, -1)
    of_code[list(WORK_ALPHABET.encode())] = np.arange(len(WORK_ALPHABET))
    cases = next_cases(line.encode())
    actual = Network(config, len(WORK_ALPHABET), weights)(cases[:, 0], of_code[cases[:, 1:]])
    np.testing.assert_allclose(actual, expected, atol=1e-3, rtol=0)


@settings(deadline=None)
@given(any_problems)
def test_answers_are_right(problem: Problem) -> None:
    prompt, line = render_prompt(problem), render(problem)
    (text,) = written(shared_decoder(), [prompt])
    assert prompt + text.rpartition("=")[2] == line


@cache
def shared_decoder() -> CaseDecoder:
    return decoder()


def test_torch_writes_the_same() -> None:
    (name, by_cases), (_, by_torch) = load_decoder(proved()), load_decoder(proved(), "torch")
    assert name == "cases"
    assert written(by_cases, PROMPTS) == written(by_torch, PROMPTS)
    writing, (whole,) = by_torch.begin(PROMPTS[2]), by_torch.complete(PROMPTS[2:3])
    while not writing.is_done:
        writing.write(10)
    assert writing.written().text == whole.text
    np.testing.assert_allclose(writing.written().probabilities, whole.probabilities, atol=1e-5)


@pytest.mark.parametrize("n", [1, 10, 1_000])
def test_a_text_in_parts_is_the_whole(n: int) -> None:
    for prompt in PROMPTS:
        whole = shared_decoder().begin(prompt).whole()
        writing, text = decoder().begin(prompt), ""
        while not writing.is_done:
            writing.write(n)
            part = writing.written(len(text))
            assert 1 <= len(part.text) <= n
            text += part.text
        assert text == whole.text
        np.testing.assert_allclose(writing.written().probabilities, whole.probabilities, atol=1e-5)


def test_the_compiled_loop_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = written(shared_decoder(), PROMPTS)
    monkeypatch.setattr(module, "COMPILED_FROM", 0)
    memory.compiled.cache_clear()
    assert memory.compiled() is not None
    assert written(decoder(), PROMPTS) == expected  # the network is asked on the way
    assert written(shared_decoder(), PROMPTS) == expected
    monkeypatch.setitem(sys.modules, "numba", None)  # importing it raises
    memory.compiled.cache_clear()
    assert memory.compiled() is None
    assert written(shared_decoder(), PROMPTS) == expected
    memory.compiled.cache_clear()


def test_a_live_model_computes_each_character(monkeypatch: pytest.MonkeyPatch) -> None:
    live, n_asked = decoder(live=True), 0
    network = live.memory.network

    def ask(kinds: Any, tokens: Any) -> Any:
        nonlocal n_asked
        n_asked += len(kinds)
        return network(kinds, tokens)

    monkeypatch.setattr(live.memory, "network", ask)
    expected = written(shared_decoder(), PROMPTS)
    for _ in range(2):
        n_asked = 0
        assert written(live, PROMPTS) == expected
        assert n_asked == len("".join(expected))
    assert (live.memory.entries.characters >= UNKNOWN).all()


@pytest.mark.parametrize(
    "prompt",
    ["$(0000000012+00000-0012)", "$(0000000012+0000-00012)=", "$0(00001.2500/0000000001)="],
)
def test_what_is_no_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(NotationError):
        written(shared_decoder(), [prompt])


@pytest.mark.parametrize("live", [False, True])
def test_work_that_no_rule_reads_is_an_error_and_not_an_answer(live: bool) -> None:
    """Unless parts of the model are off."""
    head, prompt = proved().arrays["head.weight"].copy(), "$(0000000012+0000000034)="
    one, other = WORK_ALPHABET.index("1"), WORK_ALPHABET.index("n")
    head[[one, other]] = head[[other, one]]  # it writes n for 1
    broken = {"live": live, "head.weight": head}
    with pytest.raises(DataError, match="the model went wrong: a rule of kind"):
        written(decoder(**broken), [prompt])
    (text,) = written(decoder(strict=False, **broken), [prompt])
    assert text.startswith("+2n")
    assert text.endswith("$")


@pytest.mark.parametrize("name", shapes(ModelConfig(n_layer=3), 24))
def test_a_tensor_that_does_not_fit_is_refused(name: str) -> None:
    arrays = dict(proved().arrays)
    with pytest.raises(CheckpointError, match=name):
        decoder(**{name: arrays[name][:-1]})
    del arrays[name]
    damaged = dataclasses.replace(proved(), arrays=arrays)
    with pytest.raises(CheckpointError, match=rf"calculator: tensor '{name}' is missing"):
        load_decoder(damaged)


@pytest.mark.parametrize(
    "changes", [{"norm": "layernorm"}, {"feedforward": "relu"}, {"architecture": "gpt"}]
)
def test_a_model_of_another_form_is_refused(changes: dict[str, str]) -> None:
    config = proved().recipe.model.model_copy(update=changes)
    field, value = next(iter(changes.items()))
    with pytest.raises(ConfigError, match=f"does not support {field} '{value}': use 'torch'"):
        Network(config, len(WORK_ALPHABET), proved().arrays)


def small_memory() -> Memory:
    """A memory of two kinds: one reads a digit, or a digit and a sign; one reads nothing."""
    kinds = np.array([1, 1, 1, 2], np.uint8)
    sources = np.zeros((4, 7), np.uint8)
    sources[:3, :2] = [[ord("0"), ord("+")], [ord("1"), ord("-")], [ord("1"), 0]]
    return Memory(network_of(proved()), WORK_ALPHABET, Entries.of(kinds, sources))


def test_an_entry_is_found_for_each_case_and_for_nothing_else() -> None:
    memory = small_memory()

    def find(kind: int, sources: str) -> tuple[int, int]:
        codes = np.zeros((1, MAX_SOURCES), np.uint8)
        codes[0, : len(sources)] = list(sources.encode())
        (index,), (found,) = memory.find(np.array([kind]), codes)
        return index, found

    found = [find(kind, sources) for kind, sources in ((1, "0+"), (1, "1-"), (1, "1"), (2, ""))]
    assert len(set(found)) == 4
    assert {character for _, character in found} == {UNKNOWN}
    characters = memory.entries.characters
    assert (characters == OUTSIDE).sum() == len(characters) - 4
    for kind, sources in (
        *((1, "0-"), (1, "2"), (1, "$+"), (1, "0"), (1, "")),
        *((1, "0++"), (2, "0"), (3, ""), (3, "0")),
    ):
        assert find(kind, sources)[1] == OUTSIDE
    assert [len(memory.plain[1][kind]) for kind in (1, 2, 3)] == [2, 0, 0]


def test_a_layout_that_reads_what_its_rules_do_not_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swapped(shape: Shape) -> Layout:
        plan = new_layout(shape)
        plan._sources[-2 * MAX_SOURCES] += 1  # of the sign before the =
        return plan

    monkeypatch.setattr(layout_check, "new_layout", swapped)
    with pytest.raises(DataError, match="a layout is not what its rules read: source 0 of SUM_SIG"):
        decoder().begin("$9(0000000001+0000000002)=")


def test_the_network_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = shared_decoder()
    first = written(decoder, PROMPTS)

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(decoder.memory, "network", refuse)
    assert written(decoder, PROMPTS) == first


def test_the_kinds_that_most_answers_need_are_filled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALL_KIND", 400)
    warm, (kinds, sources, right) = decoder(), all_cases()
    assert sum(1 for _ in warm.warm_up()) > 1
    _, found = warm.memory.find(kinds, sources)
    is_small = np.bincount(kinds)[kinds] <= 400
    np.testing.assert_array_equal(found != UNKNOWN, is_small)
    assert (found[is_small, None] == right[is_small]).any(axis=1).all()


def test_either_of_two_right_digits_is_what_the_model_knows() -> None:
    decoder, cases = shared_decoder(), all_cases()
    rows = np.flatnonzero(cases.kinds == Kind.QUOTIENT_DIGIT)[::997]
    decoder.memory.fill(cases.kinds[rows], cases.sources[rows])
    index = decoder.memory.entries.indices(cases.kinds[rows], cases.sources[rows])
    assert decoder.memory.entries.probabilities[index].min() > 0.5 + 0.1


@pytest.mark.filterwarnings("error")
def test_weights_that_overflow_are_refused_without_a_warning() -> None:
    huge = {name: array * np.float32(1e30) for name, array in proved().arrays.items()}
    with pytest.raises(DataError, match="logits are not finite"):
        decoder(**huge).complete(PROMPTS)


def test_a_proved_memory_is_kept_for_the_same_weights(empty_cache: Path) -> None:
    first, file = decoder(), file_of()
    kinds, sources, _ = all_cases()
    first.memory.fill(kinds[:1_000], sources[:1_000])
    stored.save(first.memory.entries, file)
    again = decoder()
    for name, array in again.memory.entries._asdict().items():
        np.testing.assert_array_equal(array, getattr(first.memory.entries, name))
    for made, is_proved in ((first, False), (again, True), (decoder(live=True), False)):
        [node] = Calculator(proved(), made)("12.5+3").nodes
        assert (node.result, node.proved) == ("15.5", is_proved)
    changed = {"norm.weight": proved().arrays["norm.weight"] * 2}
    assert file_of(**changed) != file
    index = first.memory.entries.indices(kinds, sources)

    def n_known(**arrays: np.ndarray) -> int:
        made = decoder(**arrays)
        n = int((made.memory.entries.characters[index] != UNKNOWN).sum())
        assert made.is_proved == bool(n)
        return n

    assert n_known(**changed) == 0
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert n_known() == 0
    file.write_bytes(content)
    assert n_known() == 1_000
    stored.save(first.memory.entries, file / "no" / "folder")  # a warning alone
    empty_cache.chmod(0o777)
    assert n_known() == 0
