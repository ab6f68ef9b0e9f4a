"""The summary over the seeds, and the files of the report."""

import io
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.base.files import write_text
from calcgpt.section import build
from calcgpt_lab.studies.ablation_report import (
    STUDENT_T,
    draw_curves,
    estimate,
    report_record,
    report_text,
    write_report,
)
from calcgpt_lab.studies.job import Score
from calcgpt_lab.studies.suite import Suite, load_suite

VAL = {  # of each seed
    "baseline": {42: 1.5, 43: 1.7, 44: 1.6},
    "swiglu": {42: 1.4, 43: 1.5, 44: 1.48},
    "rope": {42: 1.3},
}


def a_score(suite: Suite, task: str, variant: str, seed: int, val_loss: float) -> Score:
    def scores(match: float) -> dict[str, Any]:
        return {"n": 10, "char_accuracy": 0.6, "exact_match": match}

    operations = {"+": scores(0.5), "/": scores(0.25)}
    answers = [
        {"temperature": t, **scores(0.1 + t / 100), "by_operation": operations} for t in (0.0, 1.0)
    ]
    content = {
        "task": task,
        "variant": variant,
        "seed": seed,
        "steps": 5000,
        "tokens": 10_240_000,
        "seconds": 100.0,
        "tokens_per_s": 102_400.0,
        "parameters": 905_109,
        "train_loss": val_loss - 0.1,
        "val_loss": val_loss,
        "contexts": [
            {"block_size": 128, "val_loss": val_loss},
            {"block_size": 256, "val_loss": None if variant == "baseline" else 2.0},
        ],
        "answers": answers if task == "arithmetic" else [],
        "scoring": suite.score.model_dump(),
        "data_sha256": "0",
        "recipe": suite.recipe_of(task, variant, seed, ()).model_dump(),
    }
    return build(Score, content, "score")


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite("blog")


@pytest.fixture(scope="module")
def scores(suite: Suite) -> list[Score]:
    return [
        a_score(suite, task, variant, seed, loss)
        for task in suite.tasks
        for variant, seeds in VAL.items()
        for seed, loss in seeds.items()
    ]


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=30))
def test_an_estimate_has_the_mean_and_the_sample_standard_deviation(values: list[float]) -> None:
    result, n = estimate(values), len(values)
    assert result["mean"] == pytest.approx(sum(values) / n, abs=1e-9)
    variance = sum((value - result["mean"]) ** 2 for value in values) / (n - 1)
    assert result["sd"] == pytest.approx(math.sqrt(variance), abs=1e-7)
    single = {"mean": values[0], "sd": None, "margin_95": None, "values": values[:1]}
    assert estimate(values[:1]) == single


@pytest.mark.parametrize("degrees", range(1, len(STUDENT_T) + 1))
def test_the_quantiles_of_students_t(degrees: int) -> None:
    """The integral of the density from 0 to the quantile is 0.975 - 0.5."""
    t = np.linspace(0, STUDENT_T[degrees - 1], 200_001)
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    scale = math.exp(log_scale) / math.sqrt(degrees * math.pi)
    density = scale * (1 + t * t / degrees) ** (-(degrees + 1) / 2)
    assert 0.5 + np.trapezoid(density, t) == pytest.approx(0.975, abs=5e-5)


def test_differences_are_taken_seed_by_seed(suite: Suite, scores: list[Score]) -> None:
    variants = report_record(suite, scores)["tasks"]["arithmetic"]["variants"]
    baseline, swiglu, rope = (variants[name]["val_loss_difference"] for name in VAL)
    assert baseline is None
    assert swiglu["values"] == pytest.approx([-0.1, -0.2, -0.12])
    assert rope["values"] == pytest.approx([-0.2])
    sd = statistics.stdev([-0.1, -0.2, -0.12])
    assert swiglu["margin_95"] == pytest.approx(4.303 * sd / math.sqrt(3))
    assert rope["margin_95"] is None


def row(text: str, variant: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {variant} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_measured_and_published_numbers(suite: Suite, scores: list[Score]) -> None:
    record = report_record(suite, scores)
    parts = [{**record, "tasks": {name: task}} for name, task in record["tasks"].items()]
    report, other = map(report_text, parts)
    cells = row(report, "baseline")
    assert cells[:6] == ["baseline", "3", "905,109", "1.5000 ± 0.1000", "1.6000 ± 0.1000", ""]
    assert cells[7:11] == [
        "0.6000 ± 0.0000",
        "0.1000 ± 0.0000",
        "0.6000 ± 0.0000",
        "0.1100 ± 0.0000",
    ]
    assert cells[11:] == ["0.5000 ± 0.0000", "0.2500 ± 0.0000", "102,400"]
    assert row(report, "rope")[4:6] == ["1.3000", "-0.2000"]
    lines = report.splitlines()
    [index] = [i for i, line in enumerate(lines) if line.startswith("| baseline | 3")]
    assert lines[index + 1].startswith("| *the blog post* |")
    assert " | 0.5928 | 0.0007 | " in lines[index + 1]
    assert "–" in row(report.split("windows:")[1], "baseline")[2]
    assert "exact match" not in other
    assert "| 1.521 | 1.711 |" in other


def test_the_report_is_written_with_the_values_of_every_seed(
    suite: Suite, scores: list[Score], tmp_path: Path
) -> None:
    for score in scores:
        folder = tmp_path / "runs" / score.task / score.variant / f"seed-{score.seed}"
        folder.mkdir(parents=True)
        rows = [{"step": s, "tokens": 10 * s, "loss": 2 - s / 100} for s in range(0, 100, 10)]
        rows += [{"step": s, "val_loss": 2 - s / 100} for s in (50, 99)]
        write_text(folder / "metrics.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    files = write_report(suite, scores, tmp_path)
    record = json.loads((tmp_path / "report.json").read_text("utf-8"))
    result = record["tasks"]["tinyshakespeare"]["variants"]["swiglu"]
    assert result["seeds"] == [42, 43, 44]
    assert result["val_loss"]["values"] == list(VAL["swiglu"].values())
    assert result["val_loss_at_context"]["256"]["mean"] == 2.0
    assert (
        record["tasks"]["arithmetic"]["variants"]["baseline"]["val_loss_at_context"]["256"] is None
    )
    pictures = {file.name for file in files if file.suffix == ".png"}
    assert pictures == {f"{task}.png" for task in suite.tasks}
    text = (tmp_path / "report.md").read_text("utf-8")
    for file in files:
        assert file.stat().st_size > 0
        assert file.suffix != ".png" or f"(plots/{file.name})" in text


def test_a_title_is_no_formula(suite: Suite, scores: list[Score], tmp_path: Path) -> None:
    first, _ = report_record(suite, scores)["tasks"].values()
    first["title"] = r"$\wrong$"
    for variant in first["variants"]:
        for seed in first["variants"][variant]["seeds"]:
            folder = tmp_path / variant / f"seed-{seed}"
            folder.mkdir(parents=True)
            (folder / "metrics.jsonl").write_text('{"step": 1, "tokens": 1, "loss": 2.0}\n')
    draw_curves(first, tmp_path).savefig(io.BytesIO())
