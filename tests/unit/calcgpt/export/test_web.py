"""Export to a page that calculates by itself: its files. Tests in a browser are in tests/e2e."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from fake_decoder import completing_decoder, right, wrong_at

from calcgpt.checkpoint import Checkpoint
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.errors import ConfigError, DataError
from calcgpt.export import web
from calcgpt.inference.browser import cast_weights, widened
from datagen.operations import ADDITION


def test_files_of_a_model_with_any_name_and_the_preview_of_the_page(
    tiny: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "CHECKED", 1)
    out = tmp_path / "out"
    web.export_page([replace(tiny, name="50% #1?")], out, force=False, address="https://a.example/")
    [model] = json.loads((out / web.BACKEND).read_text())["models"]
    assert model["id"] == "50% #1?"
    assert (out / unquote(urlsplit(model["file"]).path)).is_file()
    [kept] = re.findall(r'"(models/[^"]*)"', (out / web.MARKER).read_text())
    assert kept == model["file"]
    for page, picture in (("index.html", "static/preview.png"), (web.OFF, "static/off.png")):
        assert f'content="https://a.example/{picture}"' in (out / page).read_text()
        assert (out / picture).is_file()
        assert picture not in (out / web.MARKER).read_text()  # other programs show it
    before, policy = (out / "index.html").read_text().split("http-equiv", 1)
    assert "<script" not in before  # all of them come under the policy
    assert policy.startswith('="Content-Security-Policy" content="default-src \'self\'; ')


def test_models_of_one_name_are_refused(tiny: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two of the checkpoints have the same name"):
        web.export_page([tiny, tiny], tmp_path / "out", force=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rounded", "dtype"),
    [([right], "I8"), ([wrong_at(ADDITION), right], "F16"), ([wrong_at(ADDITION)] * 2, "F32")],
)
def test_weights_have_the_fewest_bits_with_which_the_answers_are_the_same(
    tiny: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rounded: list[Callable[[str], str]],
    dtype: str,
) -> None:
    decoders = iter(completing_decoder(tiny.tokenizer, write) for write in (right, *rounded))
    monkeypatch.setattr(web, "load_decoder", lambda *args, **options: ("fake", next(decoders)))
    monkeypatch.setattr(web, "CHECKED", 5)
    remark = web.export_page([tiny], tmp_path / "out", force=False)
    assert ("rounded ones change what it solves" in remark) == (dtype == "F32")
    header = (tmp_path / "out" / "models" / "tiny.safetensors").read_bytes()[8:]
    matrices = sum(array.ndim == 2 for array in tiny.arrays.values())
    n = matrices if dtype == "I8" else len(tiny.arrays)
    assert header.count(f'"dtype":"{dtype}"'.encode()) == n


def test_weights_of_8_bits_are_near_those_of_the_checkpoint(tiny: Checkpoint) -> None:
    weights = cast_weights(tiny, 8)
    for name, array in widened(weights).items():
        step = np.abs(tiny.arrays[name]).max(axis=-1, keepdims=True) / 127
        assert np.all(np.abs(array - tiny.arrays[name]) <= step / 2 + 1e-6)


def test_snapshots_come_in_the_order_of_their_steps_with_the_nearest_loss(
    tiny: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    for name, step in (("b-first", 10), ("a-last", 200), ("c-middle", 95)):
        replace(tiny, metrics={**tiny.metrics, "step": step}).save(run / name)
    rows = [{"step": n, "tokens": n, "loss": 1 / n} for n in (1, 50, 100, 200)]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    web.export_snapshots(run, tmp_path / "out", force=False)
    shown = json.loads((tmp_path / "out" / web.LEARNING).read_text())["snapshots"]
    assert [(one["file"], one["step"], one["loss"]) for one in shown] == [
        ("b-first.safetensors", 10, 1.0),
        ("c-middle.safetensors", 95, 0.01),
        ("a-last.safetensors", 200, 0.005),
    ]
    replace(tiny, metrics={}).save(run / "d-unknown")
    with pytest.raises(ConfigError, match=r"metrics\.json: 'step' is missing"):
        web.export_snapshots(run, tmp_path / "unknown", force=False)
    shutil.rmtree(run / "d-unknown")
    monkeypatch.setattr(web, "MAX_BYTES", 5_000)
    with pytest.raises(ConfigError, match="at most 5,000 are allowed"):
        web.export_snapshots(run, tmp_path / "large", force=False)


def test_a_model_of_text_makes_no_page(tiny: Checkpoint, tmp_path: Path) -> None:
    of_text = replace(tiny, name="play", tokenizer=CharTokenizer("abcde"))
    with pytest.raises(DataError, match="play predicts text: the page needs a model of arithmetic"):
        web.export_page([of_text], tmp_path / "out", force=False)
    assert not (tmp_path / "out").exists()
