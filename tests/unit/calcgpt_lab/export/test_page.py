"""What the page has recorded."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from calcgpt.base.errors import ConfigError
from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import resolve
from calcgpt_lab.export import page
from calcgpt_lab.saving import save
from datagen.cases import Cases, all_cases


def test_snapshots_come_in_the_order_of_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calculator = Checkpoint.load(resolve("calculator"))
    few = Cases(*(column[::5_000] for column in all_cases()))
    right = few.right.copy()
    right[:7] = 0
    monkeypatch.setattr(page, "all_cases", lambda: few._replace(right=right))
    run = tmp_path / "run"
    for name, step in (("b-first", 10), ("a-last", 200), ("c-middle", 95)):
        save(replace(calculator, metrics={"step": step}), run / name)
    page.export_snapshots(run, tmp_path / "out", force=False)
    content = json.loads((tmp_path / "out" / page.LEARNING).read_text())
    assert [(one["file"], one["step"]) for one in content["snapshots"]] == [
        ("b-first.safetensors", 10),
        ("c-middle.safetensors", 95),
        ("a-last.safetensors", 200),
    ]
    assert {one["wrong"] for one in content["snapshots"]} == {7}
    assert content["cases"] == len(few.kinds)
    save(replace(calculator, metrics={}), run / "d-unknown")
    with pytest.raises(ConfigError, match=r"metrics\.json: 'step' is missing"):
        page.export_snapshots(run, tmp_path / "unknown", force=False)
    shutil.rmtree(run / "d-unknown")
    monkeypatch.setattr(page, "MAX_BYTES", 5_000)
    with pytest.raises(ConfigError, match="at most 5,000 are allowed"):
        page.export_snapshots(run, tmp_path / "large", force=False)
