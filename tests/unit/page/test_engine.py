"""The engine of the page against Python: what it writes, its confidence, and how it came to it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionError
from calcgpt.export.web import PAGE
from calcgpt.inference.browser import manifest_of
from calcgpt.inference.calculator import Calculator
from calcgpt.registry import resolve
from calcgpt_lab.model.sources import next_cases
from datagen.cases import Cases, all_cases
from datagen.distributions import distribution
from datagen.notation import number_text
from datagen.slots import MAX_SOURCES, N_KINDS
from datagen.work import render
from tools.node import in_node

Codes = NDArray[np.uint8]
WEIGHTS = str(resolve("calculator") / "model.safetensors")
LOAD = """
    const { readWeights } = await import("/static/engine/weights.js");
    const { Network } = await import("/static/engine/network.js");
    const { Memory } = await import("/static/engine/write.js");
    const { dissect } = await import("/static/engine/dissect.js");
    const load = (file, off) => new Network(readWeights(read(file)), off);
"""


@pytest.fixture(scope="module")
def calculator() -> Checkpoint:
    return Checkpoint.load(resolve("calculator"))


LOGITS = f"""async ({{ file, cases, parts }}, read) => {{ {LOAD}
    return parts.map((off) => {{
        const network = load(file, off);
        return cases.map(([kind, ...tokens]) => Array.from(network.logits(kind, tokens)));
    }});
}}"""


def test_its_logits_are_those_of_torch_with_parts_off_too(calculator: Checkpoint) -> None:
    rng, n_token = np.random.default_rng(3), len(calculator.tokenizer)
    kinds, tokens = rng.integers(N_KINDS, size=200), rng.integers(-1, n_token, (200, MAX_SOURCES))
    cases = np.column_stack((kinds, tokens))
    parts = [[], ["1.2"], ["2.1", "3.ff"], ["2.n24", "1.n82", "1.4"], ["3.ff", "3.n5"]]
    found = in_node(LOGITS, {"file": WEIGHTS, "cases": cases.tolist(), "parts": parts})
    for off, logits in zip(parts, found, strict=True):
        with torch.inference_mode():
            expected = calculator.without(off).model(torch.from_numpy(cases)[:, None])[:, 0]
        np.testing.assert_allclose(logits, expected.numpy(), rtol=1e-4, atol=1e-3)


CASES = """async ({ folder }) => {
    const { allCases } = await import("/static/engine/cases.js");
    const { writeFileSync } = await import("node:fs");
    for (const [name, column] of Object.entries(allCases())) {
        writeFileSync(`${folder}/${name}`, column);
    }
    return null;
}"""


def in_order(kinds: Codes, sources: Codes, right: Codes) -> Codes:
    rows = np.hstack((kinds[:, None], sources, np.sort(right, axis=1)))
    return rows[np.lexsort(rows.T)]


def test_it_finds_the_cases_that_python_finds(tmp_path: Path) -> None:
    in_node(CASES, {"folder": str(tmp_path)})
    kinds, sources, right = (np.fromfile(tmp_path / name, np.uint8) for name in Cases._fields)
    found = in_order(kinds, sources.reshape(-1, MAX_SOURCES), right.reshape(-1, 2))
    np.testing.assert_array_equal(found, in_order(*all_cases()))


PROVE = """async ({ file, manifest, off }, read, startWorker) => {
    const model = "calculator", n = 100_000, tried = [];
    const ask = await startWorker();
    await ask("load", { model, manifest, buffer: read(file) });
    for (let start = 0; start < 1_000_000; start += n) {
        const { events: [{ data }] } = await ask("tryCases", { model, start, n, off });
        tried.push(data);
        if (!data.mistake) continue;
        const found = await ask("findProblem", { model, kind: data.mistake.kind, off });
        return { tried, ...found.events[0].data };
    }
    return { tried };
}"""


@pytest.mark.slow
def test_it_is_wrong_in_no_case_by_the_same_margin_as_python(calculator: Checkpoint) -> None:
    found = in_node(PROVE, {"file": WEIGHTS, "manifest": manifest_of(calculator)})
    n = len(all_cases().kinds)
    assert "mistake" not in found
    assert sum(part["tried"] for part in found["tried"]) == n
    assert {part["of"] for part in found["tried"]} == {n}
    least = min(part["margin"] for part in found["tried"])
    assert least == pytest.approx(calculator.metrics["cases"]["least_margin"], abs=1e-3)


@pytest.mark.parametrize("off", ["1.2", "1.n51", "3.1"])
def test_without_a_part_torch_is_wrong_in_the_same_cases(calculator: Checkpoint, off: str) -> None:
    found = in_node(PROVE, {"file": WEIGHTS, "manifest": manifest_of(calculator), "off": [off]})
    model, cases = calculator.without([off]).model, all_cases()
    vocabulary = calculator.tokenizer.require_characters().vocabulary
    for mistake in (found["tried"][-1]["mistake"], found["mistake"]):
        sources = [ord(character or "\0") for character in mistake["read"]]
        [at] = np.flatnonzero((cases.kinds == mistake["kind"]) & (cases.sources == sources).all(1))
        assert {*map(ord, mistake["right"])} == {*cases.right[at]}
        tokens = [vocabulary.find(character or "\0") for character in mistake["read"]]
        with torch.inference_mode():
            logits = model(torch.tensor([[[mistake["kind"], *tokens]]]))[0, 0]
        assert vocabulary[int(logits.argmax())] == mistake["wrote"]
        assert mistake["wrote"] not in mistake["right"]


DISSECT = f"""async ({{ file, vocabulary, line, position }}, read) => {{ {LOAD}
    const memory = new Memory(load(file), vocabulary);
    return dissect(memory, line, position);
}}"""


def traced(checkpoint: Checkpoint, line: str) -> tuple[list[NDArray[np.float32]], ...]:
    """The attention (T, R, H) of all layers in torch, and the streams (T, C) before and after."""
    model: Any = checkpoint.model
    attention, streams = [], []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda _, given: streams.append(given[0][0].numpy()))
        block.attn.weights_dropout.register_forward_pre_hook(
            lambda _, given: attention.append(given[0][0].numpy())
        )
    model.norm.register_forward_pre_hook(lambda _, given: streams.append(given[0][0].numpy()))
    with torch.inference_mode():
        model(torch.from_numpy(checkpoint.tokenizer.encode(line).astype(np.int64))[None])
    return attention, streams[:]  # a copy: the hooks stay


@pytest.mark.parametrize("prompt", [b"$8(0000000471*00000029.9)=", b"$(0000000058+0000000067)="])
def test_it_takes_a_character_apart_as_torch(prompt: bytes) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))  # of its own: the hooks stay
    [line] = render([prompt])
    position = len(prompt) + 20
    vocabulary = checkpoint.tokenizer.require_characters().vocabulary
    asked = {"file": WEIGHTS, "vocabulary": vocabulary, "line": line.decode()}
    found = in_node(DISSECT, {**asked, "position": position})

    attention, streams = traced(checkpoint, line.decode())
    at = position - 1
    kind, *codes = next_cases(line)[at]
    assert found["kind"] == kind
    assert [line[source] for source in found["sources"]] == [code for code in codes if code]
    exists = np.array(codes) > 0
    weights = np.array([weights_TRH[at].T[:, exists] for weights_TRH in attention])
    np.testing.assert_allclose(np.ravel(found["attention"]), weights.ravel(), atol=1e-5)

    model: Any = checkpoint.model
    with torch.inference_mode():
        chances = [model.head(model.norm(torch.from_numpy(x[at]))).softmax(0) for x in streams]
    for ranked, expected in zip(found["ranked"], chances, strict=True):
        order = np.argsort(-expected.numpy())
        assert [one["text"] for one in ranked] == [vocabulary[token] for token in order]
        shares = [one["probability"] for one in ranked]
        np.testing.assert_allclose(shares, expected.numpy()[order], rtol=1e-3)


EXPRESSIONS = [
    *("(1+2)*3-4/5", "-(2.5+3)*20%", "1.05^3", "7", "1,000 × 3 ÷ 7=", "313.46*217+1", "80+-15%"),
    *("1 x 2", "1\ufeff+2", "= [2+3]*minus 4 ?", "1" + "+1" * 200, "(" * 45 + "1" + "+1)" * 45),
    *("1/(2-2)", "1+", "6/2(3)", "2 of 3", "(1+2", "12,5+1", "1=ab", "123456789012+1", "2^41", ""),
]
CALCULATE = """async ({ file, manifest, expressions, places }, read, startWorker) => {
    const ask = await startWorker();
    await ask("load", { model: manifest.id, manifest, buffer: read(file) });
    const results = [];
    for (const expression of expressions) {
        const asked = { model: manifest.id, expression, places };
        const { events, error } = await ask("calculate", asked);
        results.push(error ?? { ...events.at(-1).data, events });
    }
    return results;
}"""


def drawn(n: int) -> list[str]:
    """Operations of all kinds, of several distributions."""
    expressions = []
    for name in ("blog", "everyday", "wide", "tricky-5"):
        [batch] = distribution(name)(np.random.PCG64(7), n)
        problems = batch.to_problems()
        expressions += [f"({number_text(p.a)}){p.op}({number_text(p.b)})" for p in problems]
    return expressions


def test_it_writes_what_python_writes_with_the_same_confidence(calculator: Checkpoint) -> None:
    expressions, python = [*EXPRESSIONS, *drawn(50)], Calculator(calculator)
    asked = {"file": WEIGHTS, "manifest": manifest_of(calculator), "expressions": expressions}
    n_refused = 0
    for expression, found in zip(expressions, in_node(CALCULATE, asked), strict=True):
        found.pop("events", None)
        try:
            expected = python.calculate(expression).model_dump(mode="json")
            for node in expected["nodes"]:
                node["proved"] = False  # the browser has not tried all cases
        except ExpressionError as error:
            n_refused += 1
            start, end = error.position, error.end
            reason = str(error).removesuffix(f" (position {start})")
            kind = f"urn:calcgpt:problem:{error.kind}"
            assert found == {"message": reason, "type": kind, "position": start, "end": end}
            continue
        np.testing.assert_allclose(numbers(found), numbers(expected), atol=1e-4)
        assert texts(found) == texts(expected)
    assert n_refused >= 6


def numbers(value: Any) -> list[float]:
    """All numbers within a JSON value, in order."""
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, float | int) else []


def texts(value: Any) -> Any:
    """The same JSON value without numbers."""
    if isinstance(value, dict):
        return {name: texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [texts(item) for item in value]
    return None if isinstance(value, float | int) else value


def test_the_example_is_what_the_engine_computes(calculator: Checkpoint) -> None:
    """`calcgpt export calculator api/static/example --to example --force` makes it anew."""
    recorded = json.loads((PAGE / "example/example.json").read_text("utf-8"))["events"]
    expression = recorded[0]["data"]["expression"]
    asked = {"file": WEIGHTS, "manifest": manifest_of(calculator), "expressions": [expression]}
    [result] = in_node(CALCULATE, asked)
    assert texts(recorded) == texts(result["events"])
    np.testing.assert_allclose(numbers(recorded), numbers(result["events"]), atol=1e-4)
