"""docs/RUNS.md says what runs leave."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.training.train import train

PAGE = (Path(__file__).parents[4] / "docs" / "RUNS.md").read_text("utf-8")
TYPES: dict[str, Any] = {"integer": int, "number": int | float}


def table(heading: str) -> dict[str, list[str]]:
    """Returns the first table below a heading: first cell of a row -> its other cells."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [re.split(r" *\| *", line)[1:-1] for line in section.splitlines() if line[:2] == "| "]
    assert len(rows) > 2
    return {first.strip("`"): others for first, *others in rows[1:]}


@pytest.fixture(scope="module")
def run(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "nano"
    recipe = load_recipe("nano", ("train.steps=20", "train.eval_interval=10"))
    train(recipe, data_folder, out, progress=False)
    return out


def test_every_field_of_a_row_is_documented_and_none_else(run: Path) -> None:
    fields = table("`metrics.jsonl`")
    kinds = {"loss": {"both", "training"}, "val_loss": {"both", "validation"}}
    kinds["val_loss"].add("validation of problems")
    seen = set()
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        [kind] = kinds.keys() & row.keys()
        seen.add(kind)
        assert row.keys() == {name for name, cells in fields.items() if cells[2] in kinds[kind]}
        for name, value in row.items():
            assert isinstance(value, TYPES[fields[name][0]]), name
            assert fields[name][1] != "0 to 1" or 0 <= value <= 1
    assert seen == kinds.keys()


def test_every_field_of_a_start_is_documented_and_none_else(run: Path) -> None:
    [line] = (run / "environment.jsonl").read_text().splitlines()
    assert table("`environment.jsonl`").keys() == json.loads(line).keys()


def test_every_name_in_the_folder_is_documented(run: Path) -> None:
    documented = table("The folder").keys()
    names = {re.sub(r"^step-\d{8}$", "step-NNNNNNNN", path.name) for path in run.iterdir()}
    assert {"metrics.jsonl", "step-NNNNNNNN"} <= names
    assert names <= {name.rstrip("/") for name in documented}
