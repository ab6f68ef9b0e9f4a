"""Export to a page that calculates by itself: its files. Tests in a browser are in tests/e2e."""

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from calcgpt.base.errors import ConfigError
from calcgpt.checkpoint import Checkpoint
from calcgpt.export import web
from calcgpt.registry import resolve

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
