"""The engine that runs in the page, against Python: what it writes, its logits, its confidence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from browser import answered, calculate, new_context, violations

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionError
from calcgpt.export import web
from calcgpt.inference.browser import cast_weights
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import generate
from calcgpt.model.gpt import GPT
from calcgpt.registry import resolve, shipped_names
from datagen.arithmetic import Problem
from datagen.distributions import distribution
from datagen.files import sha256
from datagen.notation import number_text, render_prompt
from datagen.work import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
MODELS = sorted(shipped_names(), key=lambda name: name != "calculator")  # the default first

# The engine in the page itself, without its worker: what it writes, and its logits.
LOAD = """async ([name, windows]) => {
    const { readWeights } = await import("./static/engine/weights.js");
    const { Decoder } = await import("./static/engine/decoder.js");
    window.engine = await import("./static/engine/generate.js");
    const response = await fetch(`models/${name}.safetensors`);
    const weights = readWeights(await response.arrayBuffer());
    Object.assign(weights.manifest.model, windows);
    window.vocabulary = weights.manifest.vocabulary;
    window.decoder = new Decoder(weights);
    window.unassembled = () => new Decoder(weights, false);
}"""
WRITE = """prompts => prompts.map(prompt =>
    [...engine.generate(decoder, vocabulary, prompt)].map(({ text }) => text).join(""))"""
LOGITS = """([text, isAssembled]) => {
    const read = isAssembled ? decoder : unassembled();
    return Array.from(text, (_, index) => {
        const tokens = engine.encode(vocabulary, text.slice(0, index + 1));
        return Array.from(read.read(tokens).logits.at(-1));
    });
}"""
LOOK = """([text, position]) => {
    const seen = engine.look(decoder, vocabulary, text, position);
    return { ...seen, attention: Array.from(seen.attention) };
}"""


def problems(checkpoint: Checkpoint, name: str, n: int) -> list[Problem]:
    """Problems of a distribution that the model can be given, those with short numbers first."""
    limits = Calculator(checkpoint).limits
    [drawn] = distribution(name)(np.random.PCG64(7), 40 * n)
    allowed = [
        problem
        for problem in drawn.to_problems()
        if not limits.refuse_places(problem.places)
        and not any(limits.refuse_operand(number) for number in (problem.a, problem.b))
        and not limits.refuse_problem(problem)
    ]
    by_length = sorted(allowed, key=lambda p: len(number_text(p.a)) + len(number_text(p.b)))
    return by_length[: 20 * n : 20]


def of_halves(checkpoint: Checkpoint, **changes: Any) -> GPT:
    """The model with weights of 16 bits, and with changes of its config."""
    config = checkpoint.model.config.model_copy(update=changes)
    model = GPT(config, len(checkpoint.tokenizer)).eval()
    halves = cast_weights(checkpoint, half=True).items()
    model.load_state_dict({n: torch.from_numpy(array.astype(np.float32)) for n, array in halves})
    return model


@pytest.fixture(scope="module")
def engine_page(browser: Browser, host_address: str) -> Iterator[Page]:
    """The page for tests of its modules alone, loaded once."""
    errors: list[str] = []
    with new_context(browser, reduced_motion="reduce") as context:
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(host_address)
        yield page
    assert errors == []


@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (0, None), (None, 3)])
def test_windows_over_rows_and_columns(
    engine_page: Page, checkpoints: dict[str, Checkpoint], rows: int | None, columns: int | None
) -> None:
    """The engine hides the same keys as torch."""
    checkpoint = checkpoints["calculator"]
    [line] = render([b"$(0000009876*0000000543)="])
    text = line.decode()
    tokens = torch.tensor([checkpoint.tokenizer.encode(text).tolist()])
    windows = {"row_window": rows, "column_window": columns}
    engine_page.evaluate(LOAD, ["calculator", windows])
    with torch.inference_mode():
        logits = of_halves(checkpoint, **windows)(tokens)[0].numpy()
    np.testing.assert_allclose(
        engine_page.evaluate(LOGITS, [text, True]), logits, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", MODELS)
def test_it_writes_what_python_writes(
    engine_page: Page, checkpoints: dict[str, Checkpoint], name: str
) -> None:
    """Token for token as the checkpoint; logits as torch with weights of 16 bits; with and
    without WebAssembly."""
    checkpoint = checkpoints[name]
    engine_page.evaluate(LOAD, [name, None])
    tokenizer = checkpoint.tokenizer
    _, decoder = load_decoder(checkpoint)
    stop = int(tokenizer.encode("$")[0])
    prompts, expected = [], []
    for data in ("blog", "everyday", "tricky-5"):
        for problem in problems(checkpoint, data, 3):
            prompts.append(render_prompt(problem))
            tokens = np.array([tokenizer.encode(prompts[-1]).tolist()])
            expected.append(tokenizer.decode(generate(decoder, tokens, stop)[0].ids))
    assert engine_page.evaluate(WRITE, prompts) == expected

    text = prompts[0] + expected[0][:-1]
    model = of_halves(checkpoint)
    with torch.inference_mode():
        logits = model(torch.tensor([tokenizer.encode(text).tolist()]))[0].numpy()
    for is_assembled in (True, False):
        page_logits = engine_page.evaluate(LOGITS, [text, is_assembled])
        np.testing.assert_allclose(page_logits, logits, rtol=1e-5, atol=1e-4)

    position = len(text) - 3
    plain, attention = model.with_plain_attention(), []
    weigh = plain.scheme.weights

    def record(scores_BHTS: torch.Tensor) -> torch.Tensor:
        attention.append(weigh(scores_BHTS))
        return attention[-1]

    plain.scheme.weights = record
    with torch.inference_mode():
        logits = plain(torch.tensor([tokenizer.encode(text[:position]).tolist()]))[0, -1]
    seen = engine_page.evaluate(LOOK, [text, position])
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


def test_a_look_inside(exported: Page) -> None:
    """Where it looked, what it considered, and what follows from another character."""
    calculate(exported, "471/299", "calculator")
    answered(exported, "1.57525084")
    exported.get_by_role("button", name="Look inside the model").press("Enter")
    words = exported.locator(".looked-at")
    slider = exported.get_by_role("group", name="Time line of").get_by_role("slider")
    expect(words).to_have_text("It wrote + as character 1.")
    slider.press("ArrowLeft")
    expect(words).to_have_text("It wrote 1 as character 149.")
    expect(exported.locator(".heads li")).to_have_count(2)
    expect(exported.locator(".inside .candidate")).to_have_count(5)
    expect(exported.locator(".lens li")).to_have_count(5)

    exported.get_by_role("radio", name="Both").check()
    exported.locator(".rows .characters span", has_text=";").click()  # of the model's rows
    expect(words).to_contain_text("It wrote ; as character 10.")
    expect(exported.locator(".arcs path")).not_to_have_count(0)
    before = exported.locator(".arcs path").evaluate_all("all => all.map(e => e.outerHTML)")
    assert before
    exported.get_by_label("Layer").select_option("2")
    exported.get_by_label("Head").select_option("1")
    assert before != exported.locator(".arcs path").evaluate_all("all => all.map(e => e.outerHTML)")
    quotient_digit = (
        exported.locator(".rows .line", has_text="row by row")
        .locator("span")
        .filter(has_text=re.compile("^2$"))
        .first
    )
    # Until its candidates are there, those of the semicolon cannot be chosen.
    assert quotient_digit.evaluate(
        "digit => { digit.click(); return document.querySelector('.inside .candidates').inert; }"
    )
    exported.locator(".candidate:enabled").first.click()  # another digit of the quotient will do
    expect(exported.locator(".what-if")).to_contain_text("It recovers: that is exact.")

    for width, scheme in ((320, "light"), (1280, "dark")):
        exported.set_viewport_size({"width": width, "height": 900})
        assert exported.evaluate("() => document.documentElement.scrollWidth") <= width
        exported.emulate_media(color_scheme=scheme)
        assert violations(exported) == []
    slider.press("ArrowLeft")
    expect(exported.locator(".what-if")).to_be_empty()  # it was about another character
    exported.get_by_role("button", name="Look inside the model").click()
    expect(words).to_have_count(0)


EXAMPLE = """async model => {
    const { Engine } = await import("./static/engine/engine.js");
    const { loadExample, recordedLook } = await import("./static/example.js");
    const { weights } = await import("./static/client.js");
    const engine = new Engine(name => weights(`models/${name}.safetensors`));
    const all = async task => {
        const found = [];
        for await (const event of task) found.push(event);
        return found;
    };
    const example = await loadExample();
    const [{ data: { expression, places } }] = example.events;
    const events = await all(engine.run("calculate", { model, expression, places }));
    const { prompt, output } = events.at(-2).data;
    const text = prompt + output;
    const plain = look => ({ ...look, attention: Array.from(look.attention) });
    const looks = [];
    for (let position = prompt.length; position < text.length; position += 1) {
        const [{ data }] = await all(engine.run("look", { model, text, position }));
        looks.push([plain(recordedLook(model, text, position)), plain(data)]);
    }
    return { recorded: example.events, events, looks };
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


def test_the_example_is_what_the_engine_computes(engine_page: Page) -> None:
    """`calcgpt export calculator api/static/example --to example --force` makes it anew."""
    recorded = json.loads((web.PAGE / "example/example.json").read_text("utf-8"))
    assert recorded["weights"] == sha256(resolve("calculator") / "model.safetensors")
    result = engine_page.evaluate(EXAMPLE, "calculator")
    assert texts(result["recorded"]) == texts(result["events"])
    np.testing.assert_allclose(numbers(result["recorded"]), numbers(result["events"]), atol=1e-3)
    assert len(result["looks"]) > 40
    for recorded, computed in result["looks"]:
        weights = [recorded.pop("attention"), computed.pop("attention")]
        np.testing.assert_allclose(*weights, atol=0.011)  # small ones are left out
        shares = {c["text"]: c["probability"] for c in computed["candidates"]}
        for c in recorded["candidates"]:
            assert abs(c["probability"] - shares.get(c["text"], 0)) < 0.01
        for one, other in zip(recorded["lens"], computed["lens"], strict=True):
            assert abs(one["probability"] - other["probability"]) < 0.03


EXPRESSIONS = [
    *("(1+2)*3-4/5", "-(2.5+3)*20%", "1.05^3", "7", "1,000 × 3 ÷ 7=", "313.46*217+1", "80+-15%"),
    *("1 x 2", "1\ufeff+2", "= [2+3]*minus 4 ?", "1" + "+1" * 200, "(" * 45 + "1" + "+1)" * 45),
    *("1/(2-2)", "1+", "6/2(3)", "2 of 3", "(1+2", "12,5+1", "1=ab", "123456789012+1", "2^41", ""),
]
CALCULATE = """async expressions => {
    const { calculate } = await import("./static/backend.js");
    const results = [];
    for (const expression of expressions) {
        try {
            for await (const { name, data } of calculate(expression, { model: "direct" })) {
                if (name === "result") results.push(data);
            }
        } catch ({ message, type, position, end }) {
            results.push({ message, type, position, end });
        }
    }
    return results;
}"""


def test_expressions_are_understood_and_refused_as_in_python(
    engine_page: Page, checkpoints: dict[str, Checkpoint]
) -> None:
    calculator = Calculator(checkpoints["direct"])
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
    actual = engine_page.evaluate(CALCULATE, EXPRESSIONS)
    for result in (*actual, *expected):
        for part in (result, *result.get("nodes", ())):
            part.pop("confidence", None)
    assert actual == expected


def test_a_served_page_loads_the_weights_from_the_service(page: Page) -> None:
    page.evaluate("() => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))")
    calculate(page, "12.5*3")
    with page.expect_response("**/v1/models/calculator/weights") as weights:
        page.get_by_role("button", name="Look inside the model").click()
    assert weights.value.ok
    expect(page.locator(".looked-at")).to_contain_text("It wrote + as character 1.")
