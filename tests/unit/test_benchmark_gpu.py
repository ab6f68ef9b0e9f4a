"""The programme for a GPU, dry: on the CPU, in its smallest sizes."""

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

    monkeypatch.setattr(gpu, "STEPS", 2)
    parts = ["ceilings", "agreement", "training", "decoding"]
    gpu.main(["--out", str(tmp_path), "--device", "cpu", "--tiny", "--parts", *parts])
    rows = {part: json.loads((tmp_path / f"{part}.json").read_text())["rows"] for part in parts}
    assert [*rows["ceilings"]] == ["product, bf16", "product, float32", "copy"]
    assert {row["agrees"] for row in rows["agreement"].values()} == {True}
    [tiny] = rows["training"].values()
    assert set(tiny["ratio"]) == {"nanoGPT-like, eager", "gpt2, eager", "llama, eager"}
    assert all(0 < share < 10 for share in tiny["utilisation"].values())
    assert rows["decoding"]["same as the CPU"] == {"n": 2, "same": 2}

    # Rows that are there stay as they are. Only the others are measured.
    kept = rows["ceilings"].pop("copy")
    content = {"environment": {}, "rows": rows["ceilings"]}
    (tmp_path / "ceilings.json").write_text(json.dumps(content))
    gpu.main(["--out", str(tmp_path), "--device", "cpu", "--tiny", "--parts", "ceilings"])
    again = json.loads((tmp_path / "ceilings.json").read_text())["rows"]
    assert again.keys() == {*rows["ceilings"], "copy"}
    assert again.items() >= rows["ceilings"].items()
    assert again["copy"] != kept
