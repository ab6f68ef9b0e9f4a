"""The engine of the page against Python: what it writes, its logits, its confidence."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionError
from calcgpt.export.web import PAGE
from calcgpt.inference.browser import cast_weights, weights_file, widened
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import generate
from calcgpt.inference.limits import accepts
from calcgpt.model.gpt import GPT
from calcgpt.registry import resolve, shipped_names
from datagen.arithmetic import Problem
from datagen.distributions import distribution
from datagen.files import sha256
from datagen.notation import number_text, render_prompt
from datagen.work import render
from tools.node import in_node

MODELS = sorted(shipped_names(), key=lambda name: name != "calculator")  # the default first
MODELS.remove("proved")  # the page has no engine for it

# The engine without its worker. Computes the logits after each character of a text and, if there
# are prompts, what it writes after them and what it sees at a position.
RUN = """async ({ file, windows, text, prompts, position }, read) => {
    const { readWeights } = await import("/static/engine/weights.js");
    const { Decoder } = await import("/static/engine/decoder.js");
    const { encode, generate, look } = await import("/static/engine/generate.js");
    const weights = readWeights(read(file));
    Object.assign(weights.manifest.model, windows);
    const { vocabulary } = weights.manifest;
    const decoders = [true, false].map((isAssembled) => new Decoder(weights, isAssembled));
    const logits = decoders.map((decoder) => Array.from(text, (_, index) =>
        Array.from(decoder.read(encode(vocabulary, text.slice(0, index + 1))).logits.at(-1))));
    if (!prompts) return { logits };
    const [decoder] = decoders;
    const written = prompts.map((prompt) =>
        [...generate(decoder, vocabulary, prompt)].map(({ text }) => text).join(""));
    const seen = look(decoder, vocabulary, text, position);
    return { logits, written, seen: { ...seen, attention: Array.from(seen.attention) } };
}"""


def problems(checkpoint: Checkpoint, name: str, n: int) -> list[Problem]:
    """Problems of a distribution that the model can be given, those with short numbers first."""
    limits = Calculator(checkpoint).limits
    [drawn] = distribution(name)(np.random.PCG64(7), 40 * n)
    allowed = [problem for problem in drawn.to_problems() if accepts(limits, problem)]
    by_length = sorted(allowed, key=lambda p: len(number_text(p.a)) + len(number_text(p.b)))
    return by_length[: 20 * n : 20]


def rounded(checkpoint: Checkpoint, bits: int, **changes: Any) -> GPT:
    """The model with weights of so many bits, and with changes of its config."""
    config = checkpoint.model.config.model_copy(update=changes)
    model = GPT(config, len(checkpoint.tokenizer)).eval()
    weights = widened(cast_weights(checkpoint, bits)).items()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights})
    return model


def in_engine(checkpoint: Checkpoint, folder: Path, bits: int, **asked: Any) -> dict[str, Any]:
    file = folder / "model.safetensors"
    file.write_bytes(weights_file(checkpoint, bits))
    result: dict[str, Any] = in_node(RUN, {"file": str(file), **asked})
    return result


@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (0, None), (None, 3)])
def test_windows_over_rows_and_columns(
    tmp_path: Path, rows: int | None, columns: int | None
) -> None:
    """The engine hides the same keys as torch."""
    checkpoint = Checkpoint.load(resolve("calculator"))
    [line] = render([b"$(0000009876*0000000543)="])
    text = line.decode()
    tokens = torch.tensor([checkpoint.tokenizer.encode(text).tolist()])
    windows = {"row_window": rows, "column_window": columns}
    with torch.inference_mode():
        logits = rounded(checkpoint, 8, **windows)(tokens)[0].numpy()
    for found in in_engine(checkpoint, tmp_path, 8, windows=windows, text=text)["logits"]:
        np.testing.assert_allclose(found, logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_it_writes_what_python_writes(tmp_path: Path, name: str) -> None:
    """Token for token as the checkpoint; logits as torch with weights of 16 bits; with and
    without WebAssembly."""
    checkpoint = Checkpoint.load(resolve(name))
    tokenizer = checkpoint.tokenizer
    _, decoder = load_decoder(checkpoint)
    stop = int(tokenizer.encode("$")[0])
    prompts, expected = [], []
    for data in ("blog", "everyday", "tricky-5"):
        for problem in problems(checkpoint, data, 3):
            prompts.append(render_prompt(problem))
            tokens = np.array([tokenizer.encode(prompts[-1]).tolist()])
            expected.append(tokenizer.decode(generate(decoder, tokens, stop)[0].ids))
    text = prompts[0] + expected[0][:-1]
    position = len(text) - 3
    result = in_engine(checkpoint, tmp_path, 16, text=text, prompts=prompts, position=position)
    assert result["written"] == expected

    model = rounded(checkpoint, 16)
    with torch.inference_mode():
        logits = model(torch.tensor([tokenizer.encode(text).tolist()]))[0].numpy()
    for found in result["logits"]:
        np.testing.assert_allclose(found, logits, rtol=1e-5, atol=1e-4)

    plain, attention = model.with_plain_attention(), []
    weigh = plain.scheme.weights

    def record(scores_BHTS: torch.Tensor) -> torch.Tensor:
        attention.append(weigh(scores_BHTS))
        return attention[-1]

    plain.scheme.weights = record
    with torch.inference_mode():
        logits = plain(torch.tensor([tokenizer.encode(text[:position]).tolist()]))[0, -1]
    seen = result["seen"]
    expected_attention = torch.stack([weights[0, :, -1] for weights in attention]).flatten()
    np.testing.assert_allclose(seen["attention"], expected_attention.numpy(), atol=1e-4)
    shares, tokens = logits.softmax(dim=0).topk(5)
    texts = [candidate["text"] for candidate in seen["candidates"]]
    # Probabilities that the engine shows as 0, such as 7e-12, have no order.
    n_ordered = sum(candidate["probability"] > 0 for candidate in seen["candidates"])
    assert texts[:n_ordered] == list(tokenizer.decode(tokens.tolist()))[:n_ordered]
    assert all(share < 1e-10 for share in shares[n_ordered:])
    probabilities = [c["probability"] for c in seen["candidates"]]
    np.testing.assert_allclose(probabilities, shares.numpy(), atol=1e-4)
    assert len(seen["lens"]) == model.config.n_layer + 1
    assert seen["lens"][-1] == seen["candidates"][0]


EXAMPLE = """async ({ file, example, prompt, output }, read, startWorker) => {
    const ask = await startWorker();
    await ask("load", { model: example.model, buffer: read(file) });
    const [{ data: { expression, places } }] = example.events;
    const { events } = await ask("calculate", { model: example.model, expression, places });
    const text = prompt + output;
    const looks = [];
    for (let position = prompt.length; position < text.length; position += 1) {
        const [{ data }] = (await ask("look", { model: example.model, text, position })).events;
        looks.push({ ...data, attention: Array.from(data.attention) });
    }
    return { events, looks };
}"""


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


def test_the_example_is_what_the_engine_computes(tmp_path: Path) -> None:
    """`calcgpt export calculator api/static/example --to example --force` makes it anew."""
    recorded = json.loads((PAGE / "example/example.json").read_text("utf-8"))
    assert recorded["weights"] == sha256(resolve("calculator") / "model.safetensors")
    file = tmp_path / "model.safetensors"
    file.write_bytes(weights_file(Checkpoint.load(resolve("calculator"))))
    [answer] = [event["data"] for event in recorded["events"] if event["name"] == "answer"]
    asked = {"file": str(file), "example": recorded}
    result = in_node(EXAMPLE, {**asked, "prompt": answer["prompt"], "output": answer["output"]})
    assert texts(recorded["events"]) == texts(result["events"])
    np.testing.assert_allclose(numbers(recorded["events"]), numbers(result["events"]), atol=1e-3)
    assert len(result["looks"]) == len(recorded["looks"]) > 40
    for position, (known, computed) in enumerate(
        zip(recorded["looks"], result["looks"], strict=True), len(answer["prompt"])
    ):
        weights = np.zeros((len(known["attention"]), position))
        for head, row in enumerate(known["attention"]):
            weights[head, row[::2]] = np.array(row[1::2]) / 1000
        attention = np.array(computed["attention"]).reshape(weights.shape)
        np.testing.assert_allclose(weights, attention, atol=0.011)  # small ones are left out
        shares = {c["text"]: c["probability"] for c in computed["candidates"]}
        for text, share in known["candidates"]:
            assert abs(share - shares.get(text, 0)) < 0.01
        for (_, share), computed_first in zip(known["lens"], computed["lens"], strict=True):
            assert abs(share - computed_first["probability"]) < 0.03


EXPRESSIONS = [
    *("(1+2)*3-4/5", "-(2.5+3)*20%", "1.05^3", "7", "1,000 × 3 ÷ 7=", "313.46*217+1", "80+-15%"),
    *("1 x 2", "1\ufeff+2", "= [2+3]*minus 4 ?", "1" + "+1" * 200, "(" * 45 + "1" + "+1)" * 45),
    *("1/(2-2)", "1+", "6/2(3)", "2 of 3", "(1+2", "12,5+1", "1=ab", "123456789012+1", "2^41", ""),
]
CALCULATE = """async ({ file, expressions }, read, startWorker) => {
    const ask = await startWorker();
    await ask("load", { model: "direct", buffer: read(file) });
    const results = [];
    for (const expression of expressions) {
        const { events, error } = await ask("calculate", { model: "direct", expression });
        results.push(error ?? events.at(-1).data);
    }
    return results;
}"""


def test_expressions_are_understood_and_refused_as_in_python(tmp_path: Path) -> None:
    checkpoint = Checkpoint.load(resolve("direct"))
    calculator = Calculator(checkpoint)
    expected = []
    for expression in EXPRESSIONS:
        try:
            expected.append(calculator.calculate(expression).model_dump(mode="json"))
        except ExpressionError as error:
            start, end = error.position, error.end
            reason = str(error).removesuffix(f" (position {start})")
            expected.append(
                {
                    "message": reason,
                    "type": f"urn:calcgpt:problem:{error.kind}",
                    "position": start,
                    "end": end,
                }
            )
    assert sum("message" in result for result in expected) >= 8
    file = tmp_path / "model.safetensors"
    file.write_bytes(weights_file(checkpoint))
    actual = in_node(CALCULATE, {"file": str(file), "expressions": EXPRESSIONS})
    for result in (*actual, *expected):
        for part in (result, *result.get("nodes", ())):
            part.pop("confidence", None)
    assert actual == expected


SUGGESTED = """async ({ file, expressions }, read, startWorker) => {
    const ask = await startWorker();
    await ask("load", { model: "last", buffer: read(file) });
    const right = {};
    for (const expression of expressions) {
        const asked = { model: "last", expression, places: 2 };
        right[expression] = (await ask("calculate", asked)).events.at(-1).data.verified;
    }
    return right;
}"""


def test_the_last_snapshot_solves_what_the_page_suggests() -> None:
    run = json.loads((PAGE / "learning/learning.json").read_text("utf-8"))
    file = PAGE / "learning" / run["snapshots"][-1]["file"]
    chips = re.findall(r'class="chip">([\d(][^<]*)<', (PAGE / "index.html").read_text("utf-8"))
    right = in_node(SUGGESTED, {"file": str(file), "expressions": chips})
    assert len(right) >= 5
    assert all(right.values()), right


# Writes texts with parts off, and then one with all parts on again.
WRITE = """async ({ file, prompts, parts, longest }, read) => {
    const { readWeights } = await import("/static/engine/weights.js");
    const { Decoder } = await import("/static/engine/decoder.js");
    const { generate } = await import("/static/engine/generate.js");
    const weights = readWeights(read(file));
    const decoder = new Decoder(weights);
    const write = prompt =>
        [...generate(decoder, weights.manifest.vocabulary, prompt, { maxLength: longest })]
            .map(({ text }) => text).join("");
    decoder.switchOff([]);
    const before = write(prompts[0]);
    const texts = parts.map(off => {
        decoder.switchOff(off);
        return prompts.map(write);
    });
    decoder.switchOff([]);
    return { texts, before, after: write(prompts[0]) };
}"""


def test_the_engine_and_python_write_the_same_without_a_part(
    tmp_path: Path,
) -> None:
    calculator = Checkpoint.load(resolve("calculator"))
    [drawn] = distribution("blog")(np.random.PCG64(3), 12)
    prompts = [render_prompt(problem) for problem in drawn.to_problems()]
    parts = [
        ["1.2"],
        ["2.1"],
        ["2.2", "3.ff"],
        ["4.ff"],
        ["2.n24", "1.n82", "1.2"],
        ["3.ff", "3.n5"],
    ]
    arrays = widened(cast_weights(calculator, 16))
    longest = 150
    asked = {"prompts": prompts, "parts": parts, "longest": longest}
    file = tmp_path / "model.safetensors"
    file.write_bytes(weights_file(calculator))
    result = in_node(WRITE, {"file": str(file), **asked})
    assert result["before"] == result["after"]
    for off, written in zip(parts, result["texts"], strict=True):
        checkpoint = replace(calculator, arrays=arrays).without(off)
        _, decoder = load_decoder(checkpoint)
        stop = int(checkpoint.tokenizer.encode("$")[0])
        tokens = np.array([checkpoint.tokenizer.encode(prompt) for prompt in prompts], np.int64)
        completions = generate(decoder, tokens, stop, max_new_tokens=longest)  # some never end
        expected = [checkpoint.tokenizer.decode(completion.ids) for completion in completions]
        limits = [longest - len(prompt) for prompt in prompts]
        assert written == [text[:n] for text, n in zip(expected, limits, strict=True)], off
