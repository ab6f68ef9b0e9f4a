"""The page without a service: an exported folder on a static host, the model run by Chromium."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from browser import answered, calculate, static_host, violations

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ConfigError, ExpressionError
from calcgpt.export import web
from calcgpt.export.web import MAX_BYTES, export_snapshots
from calcgpt.inference.browser import rounded
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

MODELS = sorted(shipped_names(), key=lambda name: name != "scratchpad-long")  # the default first
OpenPage = Callable[..., "Page"]

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


@pytest.fixture(scope="module")
def checkpoints() -> dict[str, Checkpoint]:
    return {name: Checkpoint.load(resolve(name)) for name in MODELS}


@pytest.fixture(scope="module")
def folder(checkpoints: dict[str, Checkpoint], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported page with all shipped models."""
    out = tmp_path_factory.mktemp("web") / "page"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web, "CHECKED", 2)
        web.export_page(list(checkpoints.values()), out, force=False)
    return out


@pytest.fixture(scope="module")
def host_address(folder: Path) -> Iterator[str]:
    """The address of a static host."""
    with static_host(folder) as address:
        yield address


@pytest.fixture
def exported(reuse: Callable[[str], Page], host_address: str) -> Page:
    return reuse(host_address)


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


def test_it_calculates_without_a_service_and_then_without_a_host(
    open_page: OpenPage, host_address: str, folder: Path
) -> None:
    """Tests the size, too."""
    exported = open_page(host_address)
    files = {file for file in folder.rglob("*") if file.is_file()}
    snapshots = set((folder / "static/learning").iterdir())  # they have a limit of their own
    assert sum(file.stat().st_size for file in files - snapshots) <= 9_000_000
    calculate(exported, "(12.5+3)*2", "scratchpad-long")
    answered(exported, "31")
    imported = exported.locator("link[rel=modulepreload]").evaluate_all(
        "all => all.map(e => e.href)"
    )
    assert len(imported) == len(set(imported)) > 20  # if one did not exist, it would be an error
    exported.evaluate("async () => { await navigator.serviceWorker.ready; }")
    exported.context.set_offline(True)
    exported.reload()
    calculate(exported, "471/299", "scratchpad-long")
    answered(exported, "1.57525084")
    exported.context.set_offline(False)


def of_halves(checkpoint: Checkpoint, **changes: Any) -> GPT:
    """The model with weights of 16 bits, and with changes of its config."""
    config = checkpoint.model.config.model_copy(update=changes)
    model = GPT(config, len(checkpoint.tokenizer)).eval()
    halves = rounded(checkpoint, half=True).items()
    model.load_state_dict({n: torch.from_numpy(array.astype(np.float32)) for n, array in halves})
    return model


def test_windows_over_rows_and_columns(exported: Page, checkpoints: dict[str, Checkpoint]) -> None:
    """The engine hides the same keys as torch."""
    checkpoint = checkpoints["scratchpad-long"]
    [line] = render([b"$(0000009876*0000000543)="])
    text = line.decode()
    tokens = torch.tensor([checkpoint.tokenizer.encode(text).tolist()])
    windows = {"row_window": 1, "column_window": 3}
    exported.evaluate(LOAD, ["scratchpad-long", windows])
    with torch.inference_mode():
        logits = of_halves(checkpoint, **windows)(tokens)[0].numpy()
    np.testing.assert_allclose(exported.evaluate(LOGITS, [text, True]), logits, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_it_writes_what_python_writes(
    exported: Page, checkpoints: dict[str, Checkpoint], name: str
) -> None:
    """Token for token as the checkpoint; logits as torch with weights of 16 bits, to 1e-4; with and
    without WebAssembly."""
    checkpoint = checkpoints[name]
    exported.evaluate(LOAD, [name, None])
    tokenizer = checkpoint.tokenizer
    _, decoder = load_decoder(checkpoint, among=("native", "torch"))
    stop = int(tokenizer.encode("$")[0])
    prompts, expected = [], []
    for data in ("blog", "everyday", "edge"):
        for problem in problems(checkpoint, data, 3):
            prompts.append(render_prompt(problem))
            tokens = np.array([tokenizer.encode(prompts[-1]).tolist()])
            expected.append(tokenizer.decode(generate(decoder, tokens, stop)[0].ids))
    assert exported.evaluate(WRITE, prompts) == expected

    text = prompts[0] + expected[0][:-1]
    model = of_halves(checkpoint)
    with torch.inference_mode():
        logits = model(torch.tensor([tokenizer.encode(text).tolist()]))[0].numpy()
    for is_assembled in (True, False):
        page_logits = exported.evaluate(LOGITS, [text, is_assembled])
        np.testing.assert_allclose(page_logits, logits, rtol=0, atol=1e-4)

    position = len(text) - 3
    plain, attention = model.with_plain_attention(), []
    weigh = plain.scheme.weights

    def record(scores_BHTS: torch.Tensor) -> torch.Tensor:
        attention.append(weigh(scores_BHTS))
        return attention[-1]

    plain.scheme.weights = record
    with torch.inference_mode():
        logits = plain(torch.tensor([tokenizer.encode(text[:position]).tolist()]))[0, -1]
    seen = exported.evaluate(LOOK, [text, position])
    expected_attention = torch.stack([weights[0, :, -1] for weights in attention]).flatten()
    np.testing.assert_allclose(seen["attention"], expected_attention.numpy(), atol=1e-4)
    shares, tokens = logits.softmax(dim=0).topk(5)
    assert [c["text"] for c in seen["candidates"]] == list(tokenizer.decode(tokens.tolist()))
    probabilities = [c["probability"] for c in seen["candidates"]]
    np.testing.assert_allclose(probabilities, shares.numpy(), atol=1e-4)
    assert len(seen["lens"]) == model.config.n_layer + 1
    assert seen["lens"][-1] == seen["candidates"][0]


def test_a_look_inside(exported: Page) -> None:
    """Where it looked, what it considered, and what follows from another character."""
    calculate(exported, "471/299", "scratchpad-long")
    answered(exported, "1.57525084")
    exported.get_by_role("button", name="Look inside the model").press("Enter")
    words, slider = exported.locator(".looked-at"), exported.get_by_role("slider", name="Character")
    expect(words).to_have_text(re.compile(r"^It wrote \+ as character 1\. It looked most at \S "))
    slider.press("End")
    expect(words).to_contain_text("It wrote $ as character 150.")
    slider.press("ArrowLeft")
    expect(words).to_contain_text("It wrote 1 as character 149.")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^It wrote 1 as character 149"))
    expect(exported.locator(".candidate")).to_have_count(5)
    expect(exported.locator(".lens li")).to_have_count(5)

    before = exported.locator(".arcs path").evaluate_all("all => all.map(e => e.outerHTML)")
    assert before
    exported.get_by_label("Layer").select_option("2")
    exported.get_by_label("Head").select_option("1")
    assert before != exported.locator(".arcs path").evaluate_all("all => all.map(e => e.outerHTML)")

    exported.get_by_role("radio", name="Both").check()
    exported.locator(".rows .characters span", has_text=";").click()  # of the model's rows
    expect(words).to_contain_text("It wrote ; as character 10.")
    quotient_digit = (
        exported.locator(".rows .line", has_text="row by row")
        .locator("span")
        .filter(has_text=re.compile("^2$"))
        .first
    )
    # Until its candidates are there, those of the semicolon cannot be chosen.
    assert quotient_digit.evaluate(
        "digit => { digit.click(); return document.querySelector('.candidates').inert; }"
    )
    exported.locator(".candidate:enabled").first.click()  # another digit of the quotient will do
    expect(exported.locator(".what-if")).to_contain_text("It recovers: that is exact.")

    for width, scheme in ((320, "light"), (1280, "dark")):
        exported.set_viewport_size({"width": width, "height": 900})
        assert exported.evaluate("() => document.documentElement.scrollWidth") <= width
        exported.emulate_media(color_scheme=scheme)
        assert violations(exported) == []
    exported.get_by_role("button", name="Look inside the model").click()
    expect(words).to_have_count(0)


@pytest.mark.parametrize("has_scripts", [True, False])
def test_no_link_leads_to_a_service(browser: Browser, host_address: str, has_scripts: bool) -> None:
    with browser.new_context(java_script_enabled=has_scripts) as context:
        page = context.new_page()
        page.goto(host_address)
        expect(page.get_by_text("This page needs JavaScript.", exact=True)).to_be_visible(
            visible=not has_scripts
        )
        expect(page.get_by_role("button", name="Take the tour").last).to_be_visible()
        links = page.locator("a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
        assert links == ["#work"]


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


def test_the_example_is_what_the_engine_computes(exported: Page) -> None:
    """`calcgpt export scratchpad-long api/static/example --to example --force` makes it anew."""
    recorded = json.loads((web.PAGE / "example/example.json").read_text("utf-8"))
    assert recorded["weights"] == sha256(resolve("scratchpad-long") / "model.safetensors")
    result = exported.evaluate(EXAMPLE, "scratchpad-long")
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


def test_an_example_plays_before_any_model_has_loaded(
    open_page: OpenPage, host_address: str
) -> None:
    page = open_page(host_address, service_workers="block")
    page.route("**/models/*", lambda route: route.abort())
    page.reload()
    answered(page, "14082.9")
    expect(page.locator("#example")).to_be_visible()
    page.locator(".sheet [data-at='19']").hover()
    expect(page.locator(".readout .candidate")).to_have_count(5)
    page.get_by_role("button", name="Look inside the model").click()
    expect(page.locator(".looked-at")).to_contain_text("It looked most at")
    expect(page.locator("#history button")).to_have_count(0)


def test_a_host_that_failed_is_asked_again(browser: Browser, host_address: str) -> None:
    with browser.new_context(service_workers="block", reduced_motion="reduce") as context:
        page = context.new_page()
        page.route("**/backend.json", lambda route: route.fulfill(status=503), times=1)
        page.goto(host_address)
        expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
        calculate(page, "12.5*3")
        answered(page, "37.5")


def test_samples_and_other_checkpoints_side_by_side(exported: Page) -> None:
    calculate(exported, "471/299", "scratchpad-long")
    answered(exported, "1.57525084")
    exported.get_by_role("button", name="Compare models").click()
    tally, samples = exported.locator(".beside [role=status]"), exported.locator(".sample")
    expect(tally).to_contain_text("of 6 samples end in the exact answer.")
    temperature = exported.get_by_label("Temperature")
    temperature.fill("0")  # greedy
    expect(tally).to_have_text("6 of 6 samples end in the exact answer.")
    expect(samples.get_by_text("The same text as above")).to_have_count(6)
    temperature.fill("2")
    expect(samples.get_by_text("Differs from character")).not_to_have_count(0)
    expect(tally).to_contain_text("of 6 samples")
    drawn = samples.all_inner_texts()
    exported.get_by_label("Drawn from").select_option("2")
    expect(samples).not_to_have_text(drawn)
    expect(tally).to_contain_text("of 6 samples")
    exported.get_by_label("Drawn from").select_option("")
    expect(samples).to_have_text(drawn, use_inner_text=True)  # a seed repeats them
    exported.get_by_role("button", name="Draw others").click()
    expect(samples.first).to_contain_text("Sample 7")
    expect(tally).to_contain_text("of 6 samples")

    exported.get_by_role("button", name="Ask all models").click()
    expect(samples.locator("strong")).to_have_count(6 + len(MODELS))
    others = samples.filter(has_not_text="Sample")
    expect(others.filter(has_text="(scratchpad-long)")).to_contain_text("✓ 1.57525084")
    expect(others.filter(has_text="(blog)")).to_contain_text("✗")
    exported.set_viewport_size({"width": 320, "height": 900})
    assert exported.evaluate("() => document.documentElement.scrollWidth") <= 320
    assert violations(exported) == []


SUGGESTED = """async () => {
    const { Engine } = await import("./static/engine/engine.js");
    const { weights } = await import("./static/client.js");
    const { snapshots } = await (await fetch("static/learning/learning.json")).json();
    const engine = new Engine(() => weights(`static/learning/${snapshots.at(-1).file}`));
    const right = {};
    for (const { textContent: expression } of document.querySelectorAll(".chip")) {
        const asked = { model: "last", expression, places: 2, unproven: true };
        for await (const { name, data } of engine.run("calculate", asked)) {
            if (name === "result") right[expression] = data.verified;
        }
    }
    return right;
}"""


WATCH = """() => {
    const panel = document.querySelector(".learning");
    const title = () => panel.querySelector(".title")?.textContent ?? "";
    const steps = () => title().match(/After [0-9,]+ steps/)?.[0];
    window.shown = [steps()];
    new MutationObserver(() => {
        if (steps() && steps() !== window.shown.at(-1)) window.shown.push(steps());
    }).observe(panel, { childList: true, subtree: true, characterData: true });
}"""


def test_a_training_can_be_watched(exported: Page) -> None:
    calculate(exported, "12*3", "direct")
    exported.get_by_role("button", name="Watch it learn").click()
    panel, steps = exported.locator(".learning"), exported.get_by_label("Steps of training")
    expect(panel.locator(".title")).to_contain_text("After 50 steps")
    expect(panel.locator(".sample .wrong")).to_contain_text("exact is 36")
    n = int(steps.get_attribute("max") or 0) + 1
    expect(panel.locator("circle")).to_have_count(n)
    steps.press("End")
    expect(panel.locator(".sample .right")).to_contain_text("36")
    expect(panel.locator(".plot .wrong, .plot .right")).to_have_text(["✗", "✓"])
    panel.locator("circle").nth(1).click()
    expect(panel.locator(".title")).to_contain_text("After 100 steps")
    exported.evaluate(WATCH)
    panel.get_by_role("button", name="Play").click()
    exported.wait_for_function("() => window.shown.length > 2")  # each is shown for a second
    panel.get_by_role("button", name="Pause").click()
    played = exported.evaluate("() => window.shown")[1:3]
    assert played == ["After 50 steps", "After 100 steps"]  # from the first on
    suggested = exported.evaluate(SUGGESTED)
    assert len(suggested) >= 5
    assert all(suggested.values()), suggested
    assert violations(exported) == []


def test_snapshots_are_small_and_whole(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(resolve("scratchpad-long"), tmp_path / "run" / name)
    rows = [{"step": step, "tokens": 100 * step, "loss": 1 / step} for step in (1, 2)]
    (tmp_path / "run/metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    made = tmp_path / "made"
    assert "2 snapshots" in export_snapshots(tmp_path / "run", made, force=False)
    for folder in (made, web.PAGE / "learning"):
        run = json.loads((folder / "learning.json").read_text("utf-8"))
        files = {snapshot["file"]: snapshot["sha256"] for snapshot in run["snapshots"]}
        assert {path.name: sha256(path) for path in folder.glob("*.safetensors")} == files
        assert sum((folder / file).stat().st_size for file in files) <= MAX_BYTES
    shutil.rmtree(tmp_path / "run/two")
    with pytest.raises(ConfigError, match="fewer than two checkpoints"):
        export_snapshots(tmp_path / "run", tmp_path / "other", force=False)


EXPRESSIONS = [
    "(1+2)*3-4/5",
    "-(2.5+3)*20%",
    "1.05^3",
    "7",
    "2^0",
    "1,000 × 3 ÷ 7=",
    "313.46*217+1",
    "99999.99*99999.99*2",
    "0.1234+1",
    "123456789012",
    "123456789012+1",
    "1/(2-2)",
    "1+",
    "3X4 plus 2³ minus (1+1)(2**2)",
    "１，０００ − 10 percent of 50",
    "6/2(3)",
    "0x5",
    "1++*2",
    "2××2",
    "2 of 3",
    "(1+2",
    "1+2)",
    "2(3)",
    "20%3",
    "12,5+1",
    "1+2=3",
    "1+2=34",
    "1\ufeff+2",
    "1+\u200b2",
    "1 x 2",
    "1e5",
    "sqrt(2)",
    "7 mod 3",
    "1=ab",
    "0.1234567891+1",
    "2^-1",
    "2^41",
    "",
    "1" + "+1" * 200,
    "(" * 45 + "1" + "+1)" * 45,
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
    exported: Page, checkpoints: dict[str, Checkpoint]
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
    assert sum("message" in result for result in expected) > 10
    actual = exported.evaluate(CALCULATE, EXPRESSIONS)
    for result in (*actual, *expected):
        for part in (result, *result.get("nodes", ())):
            part.pop("confidence", None)
    assert actual == expected


def test_a_served_page_loads_the_weights_from_the_service(page: Page) -> None:
    page.evaluate("() => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))")
    calculate(page, "12.5*3")
    with page.expect_response("**/v1/models/scratchpad-long/weights") as weights:
        page.get_by_role("button", name="Look inside the model").click()
    assert weights.value.ok
    expect(page.locator(".looked-at")).to_contain_text("It wrote + as character 1.")
