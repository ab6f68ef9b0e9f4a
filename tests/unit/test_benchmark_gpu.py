"""A dry run of the benchmarks for a GPU: on the CPU, in their smallest sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_programme_writes_its_rows_and_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import gpu

    parts = ["ceilings", "agreement", "training", "decoding", "recipes", "profiles"]
    tiny = ["--out", str(tmp_path), "--device", "cpu", "--tiny"]
    gpu.main([*tiny, "--checkpoint", "direct", "--here", "--parts", *parts])
    rows = {part: json.loads((tmp_path / f"{part}.json").read_text())["rows"] for part in parts}
    assert [*rows["ceilings"]] == ["product, bf16", "product, float32", "copy"]
    assert {row["agrees"] for row in rows["agreement"].values()} == {True}
    [training] = rows["training"].values()
    assert set(training["ratio"]) == {"calcgpt", "nanoGPT", "calcgpt, llama"}
    assert training["same_work"]["agrees"]
    assert all(0 < share < 10 for share in training["utilisation"].values())
    same = rows["decoding"]["same as the CPU"]
    assert same == {"n": 2, "same": 2, "same, captured": 2, "same, replayed": 2}
    assert rows["decoding"]["batch 2"]["answers_per_s"] > 0
    [recipe] = rows["recipes"].values()
    assert recipe["steps_per_s"][0] > 0
    [profile] = rows["profiles"].values()
    assert 0 < sum(profile["share_by_kind"].values()) < 10

    # Existing rows are kept. Only missing rows and failed rows are measured.
    kept = rows["ceilings"].pop("copy")
    failed = {"product, bf16": {"error": "out of memory"}}
    content = {"environment": {}, "rows": {**rows["ceilings"], **failed}}
    (tmp_path / "ceilings.json").write_text(json.dumps(content))
    # Without --here, each part has its own process. One that fails does not affect the others.
    ends = ["--checkpoint", str(tmp_path / "nowhere"), "--parts", "decoding", "ceilings"]
    gpu.main([*tiny, *ends])
    assert json.loads((tmp_path / "decoding.json").read_text())["rows"] == rows["decoding"]
    again = json.loads((tmp_path / "ceilings.json").read_text())["rows"]
    assert again.keys() == {*rows["ceilings"], "copy"}
    assert again["product, float32"] == rows["ceilings"]["product, float32"]
    assert "error" not in again["product, bf16"]
    assert again["copy"] != kept
