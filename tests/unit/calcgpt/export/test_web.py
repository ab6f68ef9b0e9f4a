"""Export to a page that calculates by itself: its files. Tests in a browser are in tests/e2e."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from calcgpt.checkpoint import Checkpoint
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.errors import DataError
from calcgpt.export import web


def test_files_of_a_model_with_any_name_and_the_preview_of_the_page(
    tiny: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "CHECKED", 1)
    out = tmp_path / "out"
    web.export_page([replace(tiny, name="50% #1?")], out, force=False, address="https://a.example/")
    [model] = json.loads((out / web.BACKEND).read_text())["models"]
    assert model["id"] == "50% #1?"
    assert (out / unquote(urlsplit(model["file"]).path)).is_file()
    [kept] = re.findall(r'"([^"]*\.safetensors)"', (out / web.MARKER).read_text())
    assert kept == model["file"]
    picture = "static/preview.png"
    assert f'content="https://a.example/{picture}"' in (out / "index.html").read_text()
    assert (out / picture).is_file()
    assert picture not in (out / web.MARKER).read_text()  # other programs show it


def test_a_model_of_text_makes_no_page(tiny: Checkpoint, tmp_path: Path) -> None:
    of_text = replace(tiny, name="play", tokenizer=CharTokenizer("abcde"))
    with pytest.raises(DataError, match="play predicts text: the page needs a model of arithmetic"):
        web.export_page([of_text], tmp_path / "out", force=False)
    assert not (tmp_path / "out").exists()
