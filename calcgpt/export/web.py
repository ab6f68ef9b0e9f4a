"""The page that calculates by itself: a folder for any static host.

index.html, static/       the page of the service, with its modules and styles in four files, and a
                          page for the preview of a link to each goal (`calcgpt.export.dares`)
static/backend.json       says that there is no service, and lists the models with their manifests
models/NAME.safetensors   the weights, the checkpoint's own file
sw.js                     keeps all this in the browser, so that the page works without a connection

The page has no links to the service.
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

from safetensors.numpy import save

from calcgpt.base.errors import ConfigError
from calcgpt.base.files import new_folder, read_json, sha256, write_bytes, write_json, write_text
from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.export.bundle import bundle
from calcgpt.export.dares import DARE, write_dares
from calcgpt.inference.browser import (
    OFF,
    OFF_PREVIEW,
    PREVIEW,
    manifest_of,
    with_address,
    with_policy,
)
from calcgpt.inference.limits import limits_of
from datagen.slots import MAX_LAYOUT

PAGE = Path(__file__).resolve().parents[2] / "api" / "static"
BACKEND = Path("static") / "backend.json"
EXAMPLE = Path("static") / "example" / "example.json"
MARKER = "sw.js"
SERVICE_ONLY = ("docs.html", "docs.js")


def export_page(
    checkpoints: Sequence[Checkpoint], out: Path, force: bool, address: str | None = None
) -> str:
    """Writes a page with some models, the first of which is the default; see
    `calcgpt_lab.export`. `address` is where the page will be, if that is known
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
            domain = limits_of(checkpoint, MAX_LAYOUT).describe()
            models.append(
                {**manifest, "domain": domain, "default": not models, "file": quote(file)}
            )
        write_text(staging / BACKEND, json.dumps({"service": False, "models": models}))
        _remove_service(staging)
        page = staging / "index.html"
        html = bundle(page.read_text("utf-8"), staging / "static", models[0]["file"])
        write_text(page, html)
        off, switches = staging / OFF, checkpoints[0].switches
        goals = switches.goals if switches else []
        for path in (page, off, *write_dares(staging / "static", off.read_text("utf-8"), goals)):
            text = path.read_text("utf-8")
            write_text(path, with_policy(with_address(text, address) if address else text))
        _fill_service_worker(staging, models[0]["file"])
    return "a page that calculates by itself"


def _remove_service(folder: Path) -> None:
    """Removes the parts of the page that lead to a service."""
    page = folder / "index.html"
    part = re.compile(r' ?<(\w+) class="of-service".*?</\1>', re.S)
    write_text(page, part.sub("", page.read_text("utf-8")))


def _fill_service_worker(folder: Path, default: str) -> None:
    """Lists in the service worker the files to keep after the first answer: all but the previews,
    and the weights of models other than the default, whose address is `default`. The version is a
    hash of all files."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MARKER)
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()} {sha256(file)}\n".encode())
    names = [quote(file.relative_to(folder).as_posix()) for file in files]
    previews = (PREVIEW, f"static/{OFF_PREVIEW}", f"static/{DARE}")
    left_out = ("models/", *previews)  # other programs show the pictures
    kept = [name for name in names if not name.startswith(left_out) or name == default]
    text = (folder / MARKER).read_text("utf-8")
    values = {"VERSION": digest.hexdigest()[:16], "FILES": ["./", *kept]}
    for name, value in values.items():
        text = text.replace(f"scope.{name}", json.dumps(value))
    write_text(folder / MARKER, text)
