"""The statements of the README and of other pages are true."""

import itertools
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from calcgpt.cli import cli
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.evaluation.report import comparison_table
from calcgpt.export import EXPORTERS
from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.gpt import BLOCKS, MODELS
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS
from calcgpt.recipe import preset_names, recipe_names
from datagen.errors import UserError

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {
    page.name: page.read_text("utf-8")
    for page in (ROOT / "README.md", ROOT / "docs" / "COMMANDS.md", ROOT / "docs" / "VARIANTS.md")
}
RESULTS, ABLATIONS, SPEED, SCIENCE, LENGTH, SIZE = (
    (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("RESULTS", "ABLATIONS", "SPEED", "SCIENCE", "LENGTH", "SIZE")
)
COMMON = ("blog", "everyday", "edge", "wide-corner", "wide-16", "wide-40", "rounding")
EXACTNESS = [
    ROOT / "docs" / "results" / f"{model}-{name}.json"
    for model in ("scratchpad-long", "scratchpad-small", "scratchpad-tiny")
    for name in COMMON
] + [ROOT / "docs" / "results" / "scratchpad-long-seed44.json"]
CERTIFIED, *CONFIDENCE = (
    ROOT / "docs" / "results" / f"scratchpad-long-{name}.json"
    for name in ("certified", "confidence")
)
MILLIONS = [
    ROOT / "docs" / "results" / f"scratchpad-{name}.json"
    for name in (
        *("long-ten-million", "long-million", "long-everyday-million", "long-pairs"),
        *("small-million", "small-everyday-million", "small-classes", "small-pairs-8"),
    )
]
SHIPPED = sorted((ROOT / "checkpoints").glob("*/metrics.json"))
BLOG = "| the blog post | | 10,000 | | | 0.5928 | 0.0007 | | | | |"
RECORDED = sorted((ROOT / "docs" / "results").glob("*/metrics.json"))
REPORTS = sorted((ROOT / "docs" / "results" / "ablations").glob("*/report.md"))


def shell_blocks(text: str = README) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    return [block.replace("\\\n", " ").splitlines() for block in blocks]


def test_the_two_commands_come_first() -> None:
    assert [line.split("#")[0].strip() for line in shell_blocks()[0]] == ["make serve", "make test"]


@pytest.mark.parametrize("file", SHIPPED + RECORDED, ids=lambda file: file.parent.name)
def test_every_score_is_that_of_a_metrics_file(file: Path) -> None:
    *_, row = comparison_table([file.parent]).splitlines()
    assert row in RESULTS.splitlines()
    assert (row in README.splitlines()) == (file in SHIPPED)


def test_every_test_that_security_names_exists() -> None:
    page = (ROOT / "SECURITY.md").read_text("utf-8")
    named = re.findall(r"`((?:unit|e2e)/[\w/.]+)(?: -k (\"[^\"]*\"|\w+))?`", page)
    assert len(named) > 20
    for path, words in named:
        target = ROOT / "tests" / path
        files = sorted(target.rglob("test_*.py")) if target.is_dir() else [target]
        tests = [
            f"{file.name}::{test}"
            for file in files
            for test in re.findall(r"def (test_\w+)", file.read_text("utf-8"))
        ]
        assert tests, path
        for word in {*re.findall(r"\w+", words)} - {"or"}:
            assert any(word in test for test in tests), f"{path} -k {word}"


def certified_rows() -> Iterator[str]:
    """The rows about the rules of worked steps. The number of cases of a sampled rule is an
    estimate."""
    for rule in json.loads(CERTIFIED.read_text("utf-8"))["rules"]:
        counts = [f"{rule[key]:,}" for key in ("cases", "tried", "certified", "wrong", "places")]
        lowest = f"{math.floor(rule['lowest'] * 10_000) / 10_000:.4f}"
        name = rule["rule"]
        if rule["sampled"]:
            name, counts[0] = f"{name} (sampled)", f"about {round(rule['cases'], -3):,}"
        yield f"| {' | '.join([name, *counts, lowest])} |"


def confidence_rows() -> Iterator[str]:
    """The rows about confidence thresholds. At most one answer in a given number is wrong and above
    the threshold."""
    results = [json.loads(file.read_text("utf-8")).items() for file in CONFIDENCE]
    for name, result in itertools.chain.from_iterable(results):
        for guarantee in result["guarantees"]:
            target = f"{round(1 / guarantee['target']):,}"
            cells = [name, f"{result['n']:,}", str(result["wrong"]), target]
            for kind in ("conformal", "high_probability"):
                threshold, kept = guarantee[kind]["threshold"], guarantee[kind]["kept"]
                if threshold is None:
                    cells += [f"needs {guarantee[kind]['needs']:,} problems", ""]
                else:
                    above = f"{math.ceil(threshold * 10_000) / 10_000:.4f}" if threshold else "0"
                    cells += [above, f"{100 * kept:.2f}%"]
            yield f"| {' | '.join(cells)} |"


def exactness_rows(record: dict[str, Any]) -> list[str]:
    """Returns the rows of docs/RESULTS.md for what `tools.exactness` wrote to a file."""
    rows = []
    for name, result in record["results"].items():
        low, high = result["interval"]
        shares = [operation["exact_match"] for operation in result["by_operation"].values()]
        cells = [name, f"{result['n']:,}", f"{result['wrong']:,}", f"{result['exact_match']:.5f}"]
        cells += [f"{low:.5f} to {high:.5f}", *(f"{share:.5f}" for share in shares)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


@pytest.mark.parametrize(
    "text", [README, RESULTS, ABLATIONS], ids=["README", "RESULTS", "ABLATIONS"]
)
def test_no_score_comes_from_elsewhere(text: str) -> None:
    table = comparison_table([file.parent for file in SHIPPED + RECORDED]).splitlines()
    for file in SHIPPED:  # the rows of its further test files
        table += (file.parent / "README.md").read_text("utf-8").splitlines()
    for file in REPORTS:
        table += file.read_text("utf-8").splitlines()
    for file in EXACTNESS:
        table += exactness_rows(json.loads(file.read_text("utf-8")))
    table += [*certified_rows(), *confidence_rows()]
    rows = [line for line in text.splitlines() if re.match(r"\|.*\| \d\.\d{4,5} \|", line)]
    trials = text.partition("## Everything at once\n")[2].partition("\n## ")[0].splitlines()
    assert len(rows) >= 4
    assert set(rows) - {BLOG} - set(trials) <= set(table)  # trials have a test of their own


def test_the_table_of_millions_is_whole() -> None:
    rows = []
    for file in MILLIONS:
        for name, result in json.loads(file.read_text("utf-8"))["results"].items():
            low, _ = result["interval"]
            bound = (
                "none: these are all" if name == "pairs-999" else f"{round(1 / (1 - low), -4):,.0f}"
            )
            model = file.stem.split("-")[1]
            counts = f"{result['n']:,} | {result['wrong']:,}"
            rows.append(f"| scratchpad-{model} | {name} | {counts} | {bound} |")
    assert len(rows) == 8
    assert set(rows) <= set(RESULTS.splitlines())


def test_the_tables_of_scratchpad_are_whole() -> None:
    rows = [row for file in EXACTNESS for row in exactness_rows(json.loads(file.read_text()))]
    reached = [row for row in confidence_rows() if row.split(" | ")[4][:5] != "needs"]
    assert {*rows, *certified_rows(), *reached} <= set(RESULTS.splitlines())


def test_the_wrong_cases_of_the_rules_are_those_of_the_certificate() -> None:
    rules = json.loads(CERTIFIED.read_text("utf-8"))["rules"]
    in_quotients = sum(rule["wrong"] for rule in rules)
    of_sums_and_products = [  # which alone have a rounding and rounded digits
        rule for rule in rules if re.search("sum|product|rounding$|rounded", rule["rule"])
    ]
    assert not any(rule["wrong"] for rule in of_sums_and_products)
    untried = {
        rule["rule"]: rule["cases"] - rule["tried"]
        for rule in of_sums_and_products
        if rule["cases"] > rule["tried"]
    }
    assert list(untried) == ["magnitude of a sum", "marked magnitude of a sum", "rounding"]
    text = " ".join(README.split())
    n = sum(untried.values())
    assert f"{n} rare ones did not occur. In quotients, {in_quotients} are wrong" in text
    sums, marked, rounding = untried.values()
    sentence = f"{sums} cases of the magnitude of a sum, {marked} of the marked magnitude"
    assert f"{sentence} and {rounding} of the rounding did not occur" in " ".join(RESULTS.split())


@pytest.mark.parametrize("model", ["scratchpad-long", "scratchpad-small"])
def test_the_wrong_places_without_a_head_are_those_measured(model: str) -> None:
    rows = [[cell.strip() for cell in line.split("|")] for line in SCIENCE.splitlines()]
    record = json.loads((ROOT / f"docs/results/{model}-circuits.json").read_text("utf-8"))
    wrong: Counter[str] = Counter()
    for rule in record["rules"]:
        assert rule["intact"]["wrong"] == 0
        wrong.update({part: result["wrong"] for part, result in rule["without"].items()})
    for layer in range(4):
        heads = [wrong[f"{layer}.{head}"] for head in range(4) if f"{layer}.{head}" in wrong]
        cells = [f"{n:,}" for n in heads] + [""] * (4 - len(heads))
        assert ["", f"{model}, layer {layer}", *cells, f"{wrong[f'{layer}.*']:,}", ""] in rows


@pytest.mark.parametrize(
    "file", sorted((ROOT / "docs/results/length-parts").glob("*.json")), ids=lambda file: file.stem
)
def test_the_shares_by_length_are_those_measured(file: Path) -> None:
    """The mean over all pairs of lengths, and the pair of the longest, of each operation."""
    by_operation = json.loads(file.read_text("utf-8"))["exact_match"].values()
    means = [f"{np.mean(shares):.3f}" for shares in by_operation]
    longest = [f"{shares[-1][-1]:.2f}" for shares in by_operation]
    assert f" | {' | '.join([*means, *longest])} |\n" in LENGTH


def test_the_weights_at_the_failing_character_are_those_measured() -> None:
    record = json.loads((ROOT / "docs/results/attention-none-windows.json").read_text("utf-8"))
    for operation, name in [
        ("-", "digit of a sum: A"),
        ("+", "digit of a sum: A"),
        ("*", "carry of a product: digit of B"),
        ("*", "carry of a product: old"),
        ("*", "carry of a product: A"),
    ]:
        source = record["results"][operation]["sources"][name]
        weights = [f"{source[kind]['weight']:.2f}" for kind in ("trained length", "right", "wrong")]
        cells = [str(source["wrong"]["n"]), source["head"], *weights]
        assert f" | {' | '.join(cells)} | " in LENGTH, name


def test_the_shares_without_steps_are_those_measured() -> None:
    record = json.loads((ROOT / "docs/results/internalize.json").read_text("utf-8"))
    for run in record["runs"].values():
        shares = run["exact_match"]["90"]
        low, high = shares["all"]["interval"]
        cells = [f"{shares['all']['exact_match']:.4f} ({low:.4f} to {high:.4f})"]
        cells += [f"{shares[operation]['exact_match']:.4f}" for operation in "+-*/"]
        assert f" | {' | '.join(cells)} |\n" in SCIENCE


def test_the_shares_of_small_models_are_those_measured() -> None:
    windows, *others = (
        json.loads((ROOT / f"docs/results/{name}.json").read_text("utf-8"))["models"]
        for name in ("sizes-windows", "sizes-shared", "sizes-low-rank")
    )
    for model in itertools.chain(windows, *others):
        kind = "no" if model["row_window"] is None else "yes"
        cells = [kind if model in windows else f"{model['parameters']:,}", str(model["seed"])]
        blog, everyday = (model["exact_match"][name] for name in ("blog", "everyday"))
        all_blog, all_everyday = (
            f"{share['exact_match']:.4f} ({share['interval'][0]:.4f} to {share['interval'][1]:.4f})"
            for share in (blog["all"], everyday["all"])
        )
        by_operation = [f"{blog[operation]['exact_match']:.3f}" for operation in "+-*/"]
        assert f"| {' | '.join([*cells, all_blog, *by_operation, all_everyday])} |\n" in SIZE


def test_every_benchmark_that_is_named_exists() -> None:
    files = [ROOT / "Makefile", *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    named = {
        name
        for file in files
        if file.name != "LOG.md"  # which may name old benchmarks
        for name in re.findall(r"\bbenchmarks\.(\w+)", file.read_text("utf-8"))
    }
    assert {"fuzz", "exactness"} <= named
    assert named - {"NAME"} <= {file.stem for file in (ROOT / "benchmarks").glob("*.py")}


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.parent.name)
def test_the_tables_of_the_ablations_are_those_of_their_reports(file: Path) -> None:
    tables = [part for part in file.read_text("utf-8").split("\n\n") if part.startswith("| ")]
    assert tables
    assert all(part.rstrip() in ABLATIONS for part in tables)


def test_the_trials_of_the_search_are_those_of_its_report() -> None:
    report = json.loads((ROOT / "docs/results/sweep/report.json").read_text("utf-8"))
    trials = {trial["trial"]: trial for trial in report["trials"]}
    section = ABLATIONS.partition("## Everything at once\n")[2].partition("\n## ")[0]
    header, *rows = [line for line in section.splitlines() if line.startswith("| ")]
    names = header.strip("| ").split(" | ")[3:]
    assert rows[0].startswith(f"| {report['trials'][0]['trial']} |")  # the best
    for row in rows:
        number, loss, steps, *values = row.strip("| ").split(" | ")
        trial = trials[number]
        assert (loss, steps) == (f"{trial['best']:.4f}", str(trial["steps"]))
        assert values == [_cell(trial["values"][name]) for name in names]
    best_of_kinds = {
        (name, trial["values"][name]): trial["trial"]
        for trial in reversed(report["trials"])
        for name in ("model.position", "model.feedforward")
    }
    assert {row[2:6] for row in rows} >= set(best_of_kinds.values())


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def test_the_names_that_can_be_chosen_are_all_there() -> None:
    variants = [*MODELS, *POSITIONS, *ATTENTIONS, *FEEDFORWARDS, *NORMS, *BLOCKS]
    for name in [*variants, *TOKENIZERS, *preset_names()]:
        assert f"`{name}`" in PAGES["VARIANTS.md"], name
    for target in (*EXPORTERS, "web"):
        assert f"--to {target}" in PAGES["COMMANDS.md"]


def test_the_table_of_variants_is_the_benchmarks() -> None:
    table = (ROOT / "docs" / "results" / "variants.md").read_text("utf-8")
    assert table in ABLATIONS


@pytest.mark.parametrize("threads", ["1-thread", "2-threads"])
def test_the_speeds_are_the_benchmarks(threads: str) -> None:
    rows = []
    for kind in ("decode", "train"):
        record = json.loads((ROOT / f"docs/results/{kind}-{threads}.json").read_text("utf-8"))
        for model, comparison in record.items():
            if model.startswith(("checkpoint ", "preset ", "llama", "nano")):
                rows += [
                    (model, part)
                    for part in (comparison.values() if kind == "decode" else [comparison])
                ]
    assert len(rows) == 6
    for model, compared in rows:
        for contestant, ratio in compared["ratio"].items():
            if contestant != "transformers":
                median = f"{compared['median_per_second'][contestant]:,.0f}"
                assert f"{median} ({ratio:.2f})" in SPEED, (threads, model, contestant)


def test_the_figures_of_the_service_are_the_benchmarks() -> None:
    record = json.loads((ROOT / "docs/results/serve-avx512.json").read_text("utf-8"))
    names = [name for name in record if name.startswith("checkpoint ")]
    rates = {}
    for key in names:
        checkpoint = key.removeprefix("checkpoint ")
        for name, row in record[key].items():
            together, alone = row["together"], row["alone"]
            cells = [f"{checkpoint}, {name}"]
            for key in ("requests_per_second", "p50_ms", "p99_ms"):
                cells.append(f"{together[key]:,.1f}")
            cells += [str(together.get("mean_batch", "")), f"{alone['p50_ms']:,.1f}"]
            assert f"| {' | '.join(cells)} | {row['ratio']:.2f} |" in SPEED.splitlines()
            if name == "batching on, with drafts, 2 workers":
                rates[checkpoint] = f"{together['requests_per_second']:,.0f}"
            if "transformers" not in name:  # a slow peer may let requests wait too long
                assert together["errors"] == alone["errors"] == 0
    sentence = f"two cores give {rates['scratchpad-small']} verified answers a second"
    assert f"With `--workers 2 --draft`, {sentence}" in " ".join(README.split())


def test_the_short_walk_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = [block for block in shell_blocks() if any("data/nano" in line for line in block)]
    assert len(block) == 3
    for line in block:
        program, *arguments = shlex.split(line)
        assert program == ".venv/bin/calcgpt"
        outcome = run_cli(*arguments)
        assert outcome.code == 0, outcome.err
    assert "exact match" in outcome.out


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in (line for block in shell_blocks(PAGES[page]) for line in block):
        if not line.startswith(".venv/bin/calcgpt"):
            continue
        name, *words = shlex.split(line, comments=True)[1:]
        if name[0].isdigit():  # an expression
            name, words = "calc", [name, *words]
        context = cli.make_context("calcgpt", [name])
        command = cli.get_command(context, name)
        assert command is not None, line
        if words[:1] == ["text"]:
            assert isinstance(command, click.Group)
            name, *words = words
            command = command.commands[name]
        with suppress(UserError):  # files of the example do not exist
            command.make_context(name, words, parent=context)
        if "--recipe" in words:
            assert words[words.index("--recipe") + 1] in recipe_names()


def test_the_figures_in_the_text_are_measured() -> None:
    def results(name: str) -> dict[str, Any]:
        record = json.loads((ROOT / f"docs/results/{name}.json").read_text("utf-8"))
        found: dict[str, Any] = record["results"]
        return found

    text = " ".join(README.split())
    rows = [(name, row) for file in MILLIONS for name, row in results(file.stem).items()]
    assert [(name, row["n"], row["wrong"]) for name, row in rows] == [
        ("blog", 10**7, 1),
        ("blog", 10**6, 0),
        ("everyday", 10**6, 0),
        ("pairs-999", 4 * 10**6, 0),
        ("blog", 10**6, 0),
        ("everyday", 10**6, 3),
        ("classes", 268_494, 1),
        ("pairs-999-8", 80_000, 0),
    ]
    assert "gets two wrong of 380,000 test problems of all kinds, none of a million like" in text
    assert "three of a million that imitate what people type" in text
    sums = [
        [
            sum(row[key] for name in COMMON for row in results(f"{model}-{name}").values())
            for key in ("n", "wrong")
        ]
        for model in ("scratchpad-small", "scratchpad-long", "scratchpad-tiny")
    ]
    assert sums == [[380_000, 2], [380_000, 0], [380_000, 32]]
    wrong = "`scratchpad-small` gets two wrong, `scratchpad-long` none and `scratchpad-tiny` 32."
    assert f"Of [380,000 other problems](docs/RESULTS.md#any-number), {wrong}" in text
    others = {
        name: (row["n"], row["wrong"]) for name, row in results("scratchpad-small-others").items()
    }
    assert others == {"GSM8K": (4282, 0), "MATH-401": (401, 97), "MathGLM": (9592, 1)}
    assert "all 4,282 calculations of GSM8K's test problems are right" in text
    assert "all but one of the 9,592 expressions of MathGLM's test file" in text


def test_every_link_leads_somewhere() -> None:
    pages = {**PAGES, "RESULTS.md": RESULTS, "ABLATIONS.md": ABLATIONS, "SPEED.md": SPEED}
    for name, text in pages.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            assert target.startswith("https://") or (folder / target).exists(), (name, target)
