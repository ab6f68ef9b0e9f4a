"""The network on cases, its memory, and decoding as look-ups."""

import dataclasses
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from calcgpt.inference.continuous import ContinuousBatch
from datagen_strategies import any_problems
from hypothesis import given, settings
from parity import naive

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.data.cases import case_arrays
from calcgpt.errors import CheckpointError, ConfigError, DataError
from calcgpt.inference.cases import stored
from calcgpt.inference.cases.decoder import CaseDecoder
from calcgpt.inference.cases.memory import OUTSIDE, UNKNOWN, Entries, Memory
from calcgpt.inference.cases.network import Network, shapes
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Sampling, complete, generate, stop_token
from calcgpt.model.gpt import build_model
from calcgpt.registry import resolve
from datagen.arithmetic import Number, Problem
from datagen.cases import all_cases
from datagen.errors import NotationError
from datagen.notation import WORK_ALPHABET, render, render_prompt
from datagen.operations import OPERATIONS
from datagen.slots import Kind

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


def decoder(**changed: np.ndarray) -> CaseDecoder:
    checkpoint = proved()
    arrays = checkpoint.arrays | changed
    return CaseDecoder(checkpoint.recipe.model, WORK_ALPHABET, arrays)


def written(decoder: CaseDecoder, prompts: list[str]) -> list[str]:
    tokenizer = proved().tokenizer
    completions = complete(decoder, tokenizer, prompts, stop_token(proved()))
    return [tokenizer.decode(completion.ids) for completion in completions]


def test_logits_are_those_of_torch() -> None:
    checkpoint = proved()
    features, _ = case_arrays(all_cases(), checkpoint.tokenizer)
    rows = np.arange(0, len(features), 29)
    network = Network(checkpoint.recipe.model, len(WORK_ALPHABET), checkpoint.arrays)
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
    tokens = proved().tokenizer.encode(PROMPTS[0] + "++").tolist()
    expected = naive.logits(weights, config, len(WORK_ALPHABET), tokens)
    decoder = CaseDecoder(config, WORK_ALPHABET, weights)
    cache = decoder.new_array_cache(1, len(tokens))
    first = decoder(np.array([tokens[:20]]), cache)
    rest = decoder(np.array([tokens[20:]]), cache)
    actual = np.concatenate((first, rest), axis=1)[0]
    np.testing.assert_allclose(actual, expected, atol=1e-3, rtol=0)


@settings(deadline=None)
@given(any_problems)
def test_answers_are_right(problem: Problem) -> None:
    prompt, line = render_prompt(problem), render(problem)
    (text,) = written(shared_decoder(), [prompt])
    assert prompt + text.rpartition("=")[2] == line


def test_2000_random_problems_of_up_to_60_digits_are_right() -> None:
    random = Random(0)

    def number(most: int) -> Number:
        n = random.randint(1, most)
        digits = int(random.choice("123456789") * n), 10**n - random.randint(1, 99)
        units = random.choice((*digits, 10 ** (n - 1), random.randrange(10**n)))
        places = random.choice((0, 0, random.randint(0, min(n, 30))))
        return Number.from_units(random.choice((1, -1)) * units, places, places > 0)

    problems = []
    for _ in range(2_000):
        op = random.choice(OPERATIONS)
        most = 60 if op.rank == 1 else 20
        problems.append(Problem(number(most), op, number(most), random.choice((0, 2, 2, 8, 30))))
    prompts = [render_prompt(problem) for problem in problems]
    for problem, prompt, text in zip(
        problems, prompts, written(shared_decoder(), prompts), strict=True
    ):
        assert prompt + text.rpartition("=")[2] == render(problem)


@cache
def shared_decoder() -> CaseDecoder:
    return decoder()


def test_torch_writes_the_same_alone_and_in_parts() -> None:
    name, native = load_decoder(proved())
    assert name == "native"
    expected = written(native, PROMPTS)
    assert written(proved().model, PROMPTS) == expected
    for prompt, text in zip(PROMPTS, expected, strict=True):
        for cut in (1, 7, len(text) - 5, len(text) - 1):
            assert written(native, [prompt + text[:cut]]) == [text[cut:]]
        assert written(native, [prompt + text, prompt + text + "00"]) == ["", ""]


@pytest.mark.parametrize("length", [1, 10, 1_000])
def test_texts_that_begin_at_different_times_are_the_same(length: int) -> None:
    tokenizer, expected = proved().tokenizer, written(decoder(), PROMPTS)
    batch = ContinuousBatch(decoder(), stop_token(proved()))
    finished: dict[int, str] = {}
    waiting = [tokenizer.encode(prompt).tolist() for prompt in PROMPTS]
    while waiting or batch.rows:
        batch.add([waiting.pop(0)] if waiting else [])
        for row, completion in batch.run(length).finished.items():
            finished[row] = tokenizer.decode(completion.ids)
    assert [finished[row] for row in range(len(PROMPTS))] == expected


def test_a_text_ends_with_its_length() -> None:
    tokens = np.array([proved().tokenizer.encode(PROMPTS[0])], np.int64)
    stop = stop_token(proved())
    (whole,) = generate(decoder(), tokens, stop)
    for length in (0, 1, 10, len(whole.ids) - 3, len(whole.ids) + 5):
        (part,) = generate(decoder(), tokens, stop, length)
        assert part.ids == whole.ids[:length]
        assert part.probabilities == whole.probabilities[:length]


def test_a_character_is_sampled_from_the_network() -> None:
    tokens = np.array([proved().tokenizer.encode(PROMPTS[0])], np.int64)
    (greedy,) = generate(decoder(), tokens, stop_token(proved()))
    sampling = Sampling(temperature=0.01)
    (sampled,) = generate(decoder(), tokens, stop_token(proved()), sampling=sampling)
    assert sampled.ids == greedy.ids


@pytest.mark.parametrize(
    "prompt",
    ["$(0000000012+00000-0012)", "$(0000000012+0000-00012)=", "$0(00001.2500/0000000001)="],
)
def test_what_is_no_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(NotationError):
        written(shared_decoder(), [prompt])


def test_work_that_no_rule_reads_is_an_error_and_not_an_answer() -> None:
    prompt = "$(0000000012+0000000034)="
    with pytest.raises(DataError, match="the model went wrong: a rule of kind 10 never reads"):
        written(shared_decoder(), [prompt + "12"])  # digits in place of the sign


def test_a_changed_weight_changes_the_answer() -> None:
    head = proved().arrays["head.weight"].copy()
    one, two = WORK_ALPHABET.index("1"), WORK_ALPHABET.index("2")
    head[[one, two]] = head[[two, one]]
    prompt = ["$(0000000012+0000000034)="]
    assert written(decoder(), prompt)[0].endswith("=6400000000$")
    assert written(decoder(**{"head.weight": head}), prompt)[0].startswith("+1")


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
    network = Network(proved().recipe.model, len(WORK_ALPHABET), proved().arrays)
    return Memory(network, WORK_ALPHABET, Entries.of(kinds, sources))


def entry(memory: Memory, kind: int, sources: str) -> int:
    base, steps = memory.reader(kind, len(sources))
    return base + sum(step[ord(code)] for step, code in zip(steps, sources, strict=True))


def test_an_entry_is_found_for_each_case_and_for_nothing_else() -> None:
    memory = small_memory()
    cases = [(1, "0+"), (1, "1-"), (1, "1"), (2, "")]
    found = [entry(memory, kind, sources) for kind, sources in cases]
    assert len(set(found)) == len(cases)
    assert [memory.entries.characters[index] for index in found] == [UNKNOWN] * 4
    assert (memory.entries.characters == OUTSIDE).sum() == len(memory.entries.characters) - 4
    for kind, sources in ((1, "0-"), (1, "2"), (1, "$+"), (1, "0")):
        with pytest.raises(DataError, match=f"a rule of kind {kind} never reads '"):
            memory.ask(entry(memory, kind, sources), kind, sources.encode())
    for kind, n_source in ((1, 0), (1, 3 + 5), (3, 0), (3, 1)):
        with pytest.raises(DataError, match="no rule of kind"):
            memory.reader(kind, n_source)


def test_the_network_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = shared_decoder()
    first = written(decoder, PROMPTS)

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(decoder.memory, "network", refuse)
    assert written(decoder, PROMPTS) == first


def test_either_of_two_right_digits_is_what_the_model_knows() -> None:
    decoder, cases = shared_decoder(), all_cases()
    rows = np.flatnonzero(cases.kinds == Kind.QUOTIENT_DIGIT)[::997]
    decoder.memory.fill(cases.kinds[rows], cases.sources[rows])
    index = decoder.memory.entries.indices(cases.kinds[rows], cases.sources[rows])
    assert decoder.memory.entries.probabilities[index].min() > 0.5 + 0.1


def test_a_proved_memory_is_kept_for_the_same_weights(empty_cache: Path) -> None:
    first = decoder()
    kinds, sources, _ = all_cases()
    first.memory.fill(kinds[:1_000], sources[:1_000])
    stored.save(first.memory.entries, first.file)
    again = decoder()
    for name, array in again.memory.entries._asdict().items():
        np.testing.assert_array_equal(array, getattr(first.memory.entries, name))
    other = decoder(**{"norm.weight": proved().arrays["norm.weight"] * 2})
    assert other.file != first.file
    index = other.memory.entries.indices(kinds, sources)
    assert (other.memory.entries.characters[index] == UNKNOWN).all()
    content = first.file.read_bytes()
    first.file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert (decoder().memory.entries.characters[index] == UNKNOWN).all()
    first.file.write_bytes(content)
    assert (decoder().memory.entries.characters[index] != UNKNOWN).sum() == 1_000
    stored.save(first.memory.entries, first.file / "no" / "folder")  # a warning alone
    empty_cache.chmod(0o777)
    assert (decoder().memory.entries.characters[index] == UNKNOWN).all()
