"""Exports for the page: one that calculates by itself, and the snapshots of a training run.

`export_page` writes a folder for any static host:

index.html, static/       the page of the service, with its modules and styles in four files
static/backend.json       says that there is no service, and lists the models with their manifests
models/NAME.safetensors   the weights, the checkpoint's own file
sw.js                     keeps all this in the browser, so that the page works without a connection

The page has no links to the service.

`export_snapshots` writes what the page shows of a training:

NAME-of-a-snapshot.safetensors   its weights
learning.json                    the manifest of the model, the steps and losses of these files and
                                 in how many cases they are wrong, and the loss curve
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from safetensors.numpy import save

from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.errors import ConfigError
from calcgpt.export.bundle import bundle
from calcgpt.inference.browser import (
    OFF,
    OFF_PREVIEW,
    PREVIEW,
    manifest_of,
    with_address,
    with_policy,
)
from calcgpt.inference.cases.memory import AT_ONCE
from calcgpt.inference.cases.network import Network
from calcgpt.metrics import read_rows
from datagen.cases import all_cases
from datagen.files import new_folder, read_json, sha256, write_bytes, write_json, write_text

PAGE = Path(__file__).resolve().parents[2] / "api" / "static"
BACKEND = Path("static") / "backend.json"
EXAMPLE = Path("static") / "example" / "example.json"
MARKER = "sw.js"
SERVICE_ONLY = ("docs.html", "docs.js")
LEARNING = "learning.json"
MAX_BYTES = 2_000_000  # of all snapshots


def export_page(
    checkpoints: Sequence[Checkpoint], out: Path, force: bool, address: str | None = None
) -> str:
    """Writes a page with some models, the first of which is the default; see
    `calcgpt.export.Exporter`. `address` is where the page will be, if that is known
    (`calcgpt.inference.browser.page_address`)."""
    if not (PAGE / "index.html").is_file():
        raise ConfigError(f"the files of the page are missing: {PAGE}")
    check_replaceable(out, force, MARKER, str(BACKEND))
    names = {checkpoint.name for checkpoint in checkpoints}
    if len(names) < len(checkpoints):
        raise ConfigError("two of the checkpoints have the same name")
    manifests = [manifest_of(checkpoint) for checkpoint in checkpoints]  # before any work
    models: list[dict[str, Any]] = []
    with new_folder(out) as staging:
        shutil.copytree(PAGE, staging / "static", ignore=shutil.ignore_patterns(*SERVICE_ONLY))
        for name in ("index.html", MARKER):
            (staging / "static" / name).replace(staging / name)
        if read_json(staging / EXAMPLE, ConfigError)["model"] not in names:
            write_json(staging / EXAMPLE, None)  # it shows a model that this page does not have
        (staging / "models").mkdir()
        for checkpoint, manifest in zip(checkpoints, manifests, strict=True):
            file = f"models/{checkpoint.name}.safetensors"
            write_bytes(staging / file, save(checkpoint.stored_arrays))
            models.append({**manifest, "default": not models, "file": quote(file)})
        write_json(staging / BACKEND, {"service": False, "models": models})
        _remove_service(staging)
        page = staging / "index.html"
        html = bundle(page.read_text("utf-8"), staging / "static", models[0]["file"])
        for path, text in ((page, html), (staging / OFF, (staging / OFF).read_text("utf-8"))):
            write_text(path, with_policy(with_address(text, address) if address else text))
        _fill_service_worker(staging, models[0]["file"])
    return "a page that calculates by itself"


def _remove_service(folder: Path) -> None:
    """Removes the parts of the page that lead to a service."""
    page = folder / "index.html"
    part = re.compile(r' ?<(\w+) class="of-service".*?</\1>', re.S)
    write_text(page, part.sub("", page.read_text("utf-8")))


def _fill_service_worker(folder: Path, default: str) -> None:
    """Lists in the service worker the files to keep after the first answer: all but the previews
    and the weights of models other than the default, whose address is `default`. The version is a
    hash of all files."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MARKER)
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()} {sha256(file)}\n".encode())
    names = [quote(file.relative_to(folder).as_posix()) for file in files]
    left_out = ("models/", PREVIEW, f"static/{OFF_PREVIEW}")  # other programs show the pictures
    kept = [name for name in names if not name.startswith(left_out) or name == default]
    text = (folder / MARKER).read_text("utf-8")
    values = {"VERSION": digest.hexdigest()[:16], "FILES": ["./", *kept]}
    for name, value in values.items():
        text = text.replace(f"scope.{name}", json.dumps(value))
    write_text(folder / MARKER, text)


def export_snapshots(run: Path, out: Path, force: bool) -> str:
    """Writes the checkpoints in the folder `run`, whose `metrics.jsonl` has the losses.

    Raises ConfigError if there are fewer than two, if they are not of one shape, if their files
    have more than MAX_BYTES, or if the engine in the browser cannot run them; CheckpointError if
    a checkpoint is damaged or `out` may not be replaced; DataError if the metrics cannot be read.
    """
    check_replaceable(out, force, LEARNING)
    folders = sorted(path.parent for path in run.glob("[!.]*/config.json"))
    loaded = [Checkpoint.load(folder) for folder in folders]
    for folder, checkpoint in zip(folders, loaded, strict=True):
        if "step" not in checkpoint.metrics:
            raise ConfigError(f"{folder / 'metrics.json'}: 'step' is missing")
    loaded.sort(key=lambda checkpoint: int(checkpoint.metrics["step"]))
    if len(loaded) < 2:
        raise ConfigError(f"fewer than two checkpoints in {run}")
    if len({checkpoint.recipe.model.model_dump_json() for checkpoint in loaded}) > 1:
        raise ConfigError(f"the checkpoints in {run} are of several shapes")
    rows = read_rows(run / "metrics.jsonl")
    curve = [(row.step, row.loss) for row in rows if row.loss is not None]
    manifest = manifest_of(loaded[-1])
    files = {f"{one.name}.safetensors": save(one.stored_arrays) for one in loaded}
    if (size := sum(map(len, files.values()))) > MAX_BYTES:
        raise ConfigError(f"the snapshots have {size:,} bytes; at most {MAX_BYTES:,} are allowed")
    snapshots = []
    for checkpoint, file in zip(loaded, files, strict=True):
        step = int(checkpoint.metrics["step"])
        loss = min(curve, key=lambda point: abs(point[0] - step))[1]
        snapshots.append({"step": step, "loss": loss, "wrong": _n_wrong(checkpoint), "file": file})
    with new_folder(out) as staging:
        for file, content in files.items():
            write_bytes(staging / file, content)
        record = {"manifest": manifest, "cases": len(all_cases().kinds)}
        write_json(staging / LEARNING, record | {"snapshots": snapshots, "curve": curve})
    return f"{len(loaded)} snapshots of a training run"


def _n_wrong(checkpoint: Checkpoint) -> int:
    """Returns in how many of all cases a model is wrong."""
    vocabulary = checkpoint.tokenizer.require_characters().vocabulary
    codes = np.frombuffer(vocabulary.encode("ascii"), np.uint8)
    tokens, cases, n_wrong = np.full(2**8, -1), all_cases(), 0
    tokens[codes] = np.arange(len(codes))
    network = Network(checkpoint.recipe.model, len(codes), checkpoint.arrays)
    for start in range(0, len(cases.kinds), AT_ONCE):
        kinds_N, sources_NR, right_N2 = (column[start : start + AT_ONCE] for column in cases)
        written_N = codes[network(kinds_N, tokens[sources_NR]).argmax(axis=1)]
        n_wrong += int((written_N[:, None] != right_N2).all(axis=1).sum())
    return n_wrong
