"""Export to a page that calculates by itself: its files. Tests in a browser are in tests/e2e."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ConfigError
from calcgpt.export import web
from calcgpt.registry import resolve
from datagen.cases import Cases, all_cases

FOLDER = resolve("calculator")


@pytest.fixture
def calculator() -> Checkpoint:
    return Checkpoint.load(FOLDER)


def test_files_of_a_model_with_any_name_and_the_preview_of_the_page(
    calculator: Checkpoint, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    named = replace(calculator, name="50% #1?")
    web.export_page([named], out, force=False, address="https://a.example/")
    [model] = json.loads((out / web.BACKEND).read_text())["models"]
    assert model["id"] == "50% #1?"
    weights = out / unquote(urlsplit(model["file"]).path)
    assert weights.read_bytes() == (FOLDER / "model.safetensors").read_bytes()
    [kept] = re.findall(r'"(models/[^"]*)"', (out / web.MARKER).read_text())
    assert kept == model["file"]
    for page, picture in (("index.html", "static/preview.png"), (web.OFF, "static/off.png")):
        assert f'content="https://a.example/{picture}"' in (out / page).read_text()
        assert (out / picture).is_file()
        assert picture not in (out / web.MARKER).read_text()  # other programs show it
    before, policy = (out / "index.html").read_text().split("http-equiv", 1)
    assert "<script" not in before  # all of them come under the policy
    assert policy.startswith('="Content-Security-Policy" content="default-src \'self\'; ')


def test_models_of_one_name_are_refused(calculator: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two of the checkpoints have the same name"):
        web.export_page([calculator, calculator], tmp_path / "out", force=False)
    assert not list(tmp_path.iterdir())


def test_a_model_of_another_form_makes_no_page(tiny: Checkpoint, tmp_path: Path) -> None:
    message = "the engine of the page does not support architecture 'gpt'"
    with pytest.raises(ConfigError, match=message):
        web.export_page([tiny], tmp_path / "out", force=False)
    assert not (tmp_path / "out").exists()


def test_snapshots_come_in_the_order_of_their_steps_with_the_nearest_loss(
    calculator: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Cases(*(column[::5_000] for column in all_cases()))
    right = few.right.copy()
    right[:7] = 0
    monkeypatch.setattr(web, "all_cases", lambda: few._replace(right=right))
    run = tmp_path / "run"
    for name, step in (("b-first", 10), ("a-last", 200), ("c-middle", 95)):
        replace(calculator, metrics={"step": step}).save(run / name)
    rows = [{"step": n, "tokens": n, "loss": 1 / n} for n in (1, 50, 100, 200)]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    web.export_snapshots(run, tmp_path / "out", force=False)
    content = json.loads((tmp_path / "out" / web.LEARNING).read_text())
    assert [(one["file"], one["step"], one["loss"]) for one in content["snapshots"]] == [
        ("b-first.safetensors", 10, 1.0),
        ("c-middle.safetensors", 95, 0.01),
        ("a-last.safetensors", 200, 0.005),
    ]
    assert {one["wrong"] for one in content["snapshots"]} == {7}
    assert content["cases"] == len(few.kinds)
    replace(calculator, metrics={}).save(run / "d-unknown")
    with pytest.raises(ConfigError, match=r"metrics\.json: 'step' is missing"):
        web.export_snapshots(run, tmp_path / "unknown", force=False)
    shutil.rmtree(run / "d-unknown")
    monkeypatch.setattr(web, "MAX_BYTES", 5_000)
    with pytest.raises(ConfigError, match="at most 5,000 are allowed"):
        web.export_snapshots(run, tmp_path / "large", force=False)
