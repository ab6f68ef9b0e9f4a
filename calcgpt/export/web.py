"""Exports for the page: one that calculates by itself, and the snapshots of a training run.

`export_page` writes a folder for any static host:

index.html, static/       the page of the service, with its modules and styles in four files
static/backend.json       says that there is no service, and lists the models
models/NAME.safetensors   the weights
sw.js                     keeps all this in the browser, so that the page works without a connection

The page has no links to the service.
The weights have 8 bits, or else 16, if the model then solves the same problems as with 32.

`export_snapshots` writes what the page shows as *Watch it learn*:

NAME-of-a-snapshot.safetensors   its weights, with numbers of 8 bits
learning.json                    the steps, losses and hashes of these files, and the loss curve
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.errors import ConfigError
from calcgpt.export.bundle import bundle
from calcgpt.inference.browser import (
    OFF,
    OFF_PREVIEW,
    PREVIEW,
    cast_weights,
    fits_half,
    manifest_of,
    weights_file,
    widened,
    with_address,
    with_policy,
)
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import complete
from calcgpt.inference.limits import accepts, limits_of
from calcgpt.inference.questions import is_of_task
from calcgpt.metrics import read_rows
from datagen.arithmetic import Problem, answer
from datagen.distributions import distribution
from datagen.files import new_folder, read_json, sha256, write_bytes, write_json, write_text
from datagen.notation import render_answer, render_prompt

PAGE = Path(__file__).resolve().parents[2] / "api" / "static"
BACKEND = Path("static") / "backend.json"
EXAMPLE = Path("static") / "example" / "example.json"
MARKER = "sw.js"
SERVICE_ONLY = ("docs.html", "docs.js")
CHECKED, SEED = 50, 0  # problems per distribution, and their seed
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
    remarks = []
    with new_folder(out) as staging:
        shutil.copytree(PAGE, staging / "static", ignore=shutil.ignore_patterns(*SERVICE_ONLY))
        for name in ("index.html", MARKER):
            (staging / "static" / name).replace(staging / name)
        if read_json(staging / EXAMPLE, ConfigError)["model"] not in names:
            write_json(staging / EXAMPLE, None)  # it shows a model that this page does not have
        (staging / "models").mkdir()
        for checkpoint, manifest in zip(checkpoints, manifests, strict=True):
            bits, remark = _choose_precision(checkpoint)
            file = f"models/{checkpoint.name}.safetensors"
            write_bytes(staging / file, weights_file(checkpoint, bits))
            entry = {"id": checkpoint.name, "default": not models, "file": quote(file)}
            models.append({**manifest, **entry})
            remarks.append(f"{checkpoint.name}: {remark}")
        write_json(staging / BACKEND, {"service": False, "models": models})
        _remove_service(staging)
        page = staging / "index.html"
        html = bundle(page.read_text("utf-8"), staging / "static", models[0]["file"])
        for path, text in ((page, html), (staging / OFF, (staging / OFF).read_text("utf-8"))):
            write_text(path, with_policy(with_address(text, address) if address else text))
        _fill_service_worker(staging, models[0]["file"])
    return f"a page that calculates by itself ({'; '.join(remarks)})"


def _choose_precision(checkpoint: Checkpoint) -> tuple[int, str]:
    """Returns the fewest bits of weights with which the model solves the same problems as with 32,
    and a remark."""
    if is_of_task(checkpoint):  # nobody knows what is right
        bits = 16 if fits_half(checkpoint) else 32
        return bits, f"{bits}-bit weights"
    problems = list(_problems(checkpoint))
    answers = [f"{render_answer(answer(problem))}$" for problem in problems]

    def solved(outputs: list[str]) -> list[bool]:
        return [
            output.rpartition("=")[2] == field
            for output, field in zip(outputs, answers, strict=True)
        ]

    before = _outputs(checkpoint, problems)
    for bits in (8, 16) if fits_half(checkpoint) else (8,):
        rounded = replace(checkpoint, arrays=widened(cast_weights(checkpoint, bits)))
        after = _outputs(rounded, problems)
        if solved(before) == solved(after):
            same = sum(a == b for a, b in zip(before, after, strict=True))
            told = f"{same} of {len(problems)} test problems written exactly as by 32-bit ones"
            return bits, f"{bits}-bit weights, {told}"
    return 32, "32-bit weights, because rounded ones change what it solves"


def _problems(checkpoint: Checkpoint) -> Iterator[Problem]:
    """Yields problems that are within the limits of the model."""
    limits = limits_of(checkpoint, checkpoint.recipe.model.block_size)
    for name in ("blog", "everyday", "hard"):
        [drawn] = distribution(name)(np.random.PCG64(SEED), 4 * CHECKED)
        allowed = [problem for problem in drawn.to_problems() if accepts(limits, problem)]
        yield from allowed[:CHECKED]


def _outputs(checkpoint: Checkpoint, problems: Sequence[Problem]) -> list[str]:
    """Returns what the model writes for each problem."""
    tokenizer = checkpoint.tokenizer
    _, decoder = load_decoder(checkpoint)
    stop = int(tokenizer.encode("$")[0])
    prompts = [render_prompt(problem) for problem in problems]
    return [written.text for written in complete(decoder, tokenizer, prompts, stop)]


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
    files = {f"{checkpoint.name}.safetensors": weights_file(checkpoint, 8) for checkpoint in loaded}
    if (size := sum(map(len, files.values()))) > MAX_BYTES:
        raise ConfigError(f"the snapshots have {size:,} bytes; at most {MAX_BYTES:,} are allowed")
    snapshots = []
    for checkpoint, (file, content) in zip(loaded, files.items(), strict=True):
        step = int(checkpoint.metrics["step"])
        loss = min(curve, key=lambda point: abs(point[0] - step))[1]
        digest = hashlib.sha256(content).hexdigest()
        snapshots.append({"step": step, "loss": loss, "file": file, "sha256": digest})
    last = loaded[-1]
    with new_folder(out) as staging:
        for file, content in files.items():
            write_bytes(staging / file, content)
        manifest = {
            "description": last.recipe.description,
            "parameters": last.n_parameters,
            "snapshots": snapshots,
            "curve": curve,
        }
        write_json(staging / LEARNING, manifest)
    return f"{len(loaded)} snapshots of a training run"
