"""`environment.jsonl`: the machine, versions, data and recipe of each start of a run."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt import __version__
from calcgpt.base.files import write_text
from calcgpt.base.processes import usable_cores
from calcgpt.config import Recipe
from calcgpt.registry import ENVIRONMENT_FILE
from calcgpt_lab.records import step_lines
from calcgpt_lab.training.run_folder import RunFolder

if TYPE_CHECKING:  # tables of runs need no torch
    import torch

PACKAGE = Path(__file__).resolve().parents[1]


def record_start(
    run: RunFolder, recipe: Recipe, data_sha256: str, device: torch.device, step: int
) -> None:
    """Adds a line for a start after `step` steps; docs/RUNS.md lists its fields. Removes the lines
    of later steps, which the run does again, and incomplete lines."""
    import torch

    cuda = device.type == "cuda"
    precision = recipe.train.precision
    if precision == "auto":
        precision = "bf16" if cuda else "fp32"
    versions = {
        "calcgpt": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    start = {
        "step": step,
        "time": datetime.now(UTC).isoformat(),
        "versions": versions | ({"cuda": str(torch.version.cuda)} if cuda else {}),
        "git": _first_state(PACKAGE.parent),
        "platform": platform.platform(),
        "processor": processor(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "device_name": device_name(device),
        "precision": precision,
        "seed": recipe.train.seed,
        "deterministic": {
            "algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn": torch.backends.cudnn.deterministic,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "float32_matmul": torch.get_float32_matmul_precision(),
        },
        "data_sha256": data_sha256,
        "recipe": recipe.model_dump(),
    }
    path = run.path / ENVIRONMENT_FILE
    earlier = [line for line, content in step_lines(path) if content["step"] < step]
    write_text(path, "".join(f"{line}\n" for line in [*earlier, json.dumps(start)]))


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """Returns the starts of the run in `folder`, in order. Ignores other lines."""
    return [content for _, content in step_lines(folder / ENVIRONMENT_FILE)]


def provenance(seed: int, device: torch.device) -> dict[str, Any]:
    """Returns where a checkpoint comes from: the commit, if the package is in a checkout, the seed
    and the name of the device."""
    git = _first_state(PACKAGE.parent)
    return {
        **(git or {}),
        "seed": seed,
        "device": device_name(device),
    }


def device_name(device: torch.device) -> str:
    """Returns the name of a GPU, or of the processor."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor()


def git_state(folder: Path) -> dict[str, Any] | None:
    """Returns the commit that is checked out in `folder` itself, not in a parent folder, and if
    a tracked file differs from it. None if there is no commit, or git fails."""
    if not (folder / ".git").exists():
        return None
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}  # GIT_DIR ...
    describe = ("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    try:
        result = subprocess.run(  # nosec B603, B607  # the user's git, without a shell
            ["git", "--no-optional-locks", "-C", str(folder), *describe],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commit, dash, _ = result.stdout.strip().partition("-")
    return {"commit": commit, "dirty": bool(dash)} if result.returncode == 0 else None


_first_state = cache(git_state)  # as it was when this process first asked


def processor() -> str:
    """Returns the model name of the processor, or its architecture if the name is not known."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        cpuinfo = ""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return model[1].strip() if model else platform.processor() or platform.machine()
