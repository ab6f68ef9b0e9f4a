"""What a run ran on, so that it can be understood, and done again: `environment.jsonl`."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from calcgpt import __version__
from calcgpt.config import Recipe
from calcgpt.metrics import PartialModel, step_lines
from calcgpt.training.run_folder import RunFolder
from datagen.files import write_text

NAME = "environment.jsonl"
PACKAGE = Path(__file__).resolve().parents[1]
# Arguments whose value nobody should read later, and passwords within addresses.
_SECRET = re.compile(r"--?(\w+-)*(key|token|secret|password)(-\w+)*", re.IGNORECASE)
_PASSWORD = re.compile(r"(?<=//)[^/@\s]*(?=@)")


class Git(PartialModel):
    """The state of the checkout that the package stands in."""

    commit: str
    dirty: bool  # a tracked file differs from the commit


class Deterministic(PartialModel):
    """What torch was told about repeating itself."""

    algorithms: bool  # torch.use_deterministic_algorithms
    cudnn: bool  # torch.backends.cudnn.deterministic
    cudnn_benchmark: bool
    float32_matmul: str  # `highest` is float32 throughout


class Start(PartialModel):
    """One start of a run: a line of `environment.jsonl`."""

    step: int  # steps that were done before; 0 but for a resumed run
    time: str  # UTC, ISO 8601
    command: list[str]
    versions: dict[str, str]  # of calcgpt, python, torch, numpy and, where it is used, cuda
    git: Git | None
    platform: str
    processor: str
    cores: int  # that the process may use
    threads: int  # that torch uses
    device: str
    device_name: str
    processes: int
    precision: str  # `fp32` or `bf16`, of matrix products
    seed: int
    deterministic: Deterministic
    data_sha256: str
    recipe: dict[str, Any]  # every field


def record_start(
    run: RunFolder,
    recipe: Recipe,
    *,
    data_sha256: str,
    device: torch.device,
    step: int,
    n_process: int = 1,
) -> None:
    """Add a line for a start after `step` steps. What stands there of later steps is dropped: they
    are done again. So is a line that is not whole."""
    path = run.path / NAME
    kept = [line for line, at in step_lines(path) if int(at["step"]) < step]
    start = start_now(
        recipe, data_sha256=data_sha256, device=device, step=step, n_process=n_process
    )
    write_text(path, "".join(f"{line}\n" for line in [*kept, start.model_dump_json()]))


def start_now(
    recipe: Recipe, *, data_sha256: str, device: torch.device, step: int, n_process: int
) -> Start:
    """What this process runs on."""
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
    return Start(
        step=step,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        command=without_secrets([Path(sys.argv[0]).name, *sys.argv[1:]]),
        versions=versions | ({"cuda": str(torch.version.cuda)} if cuda else {}),
        git=git_state(PACKAGE.parent),
        platform=platform.platform(),
        processor=processor(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if cuda else processor(),
        processes=n_process,
        precision=precision,
        seed=recipe.train.seed,
        deterministic=Deterministic(
            algorithms=torch.are_deterministic_algorithms_enabled(),
            cudnn=torch.backends.cudnn.deterministic,
            cudnn_benchmark=torch.backends.cudnn.benchmark,
            float32_matmul=torch.get_float32_matmul_precision(),
        ),
        data_sha256=data_sha256,
        recipe=recipe.model_dump(),
    )


def read_starts(folder: Path) -> list[Start]:
    """The starts of the run in `folder`, in order; what is not a whole start is passed over, and a
    run from before there was such a file has none."""
    found = []
    for line, _ in step_lines(folder / NAME):
        try:
            found.append(Start.model_validate_json(line))
        except ValidationError:
            continue
    return found


def git_state(folder: Path) -> Git | None:
    """The commit that is checked out in `folder` itself, not in a folder around it; None where
    there is none, or git cannot say."""
    if not (folder / ".git").exists():
        return None
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return Git(commit=commit, dirty=bool(changes))


def _git(folder: Path, *args: str) -> str | None:
    """What git says of `folder`, whatever repository the environment names; None if nothing."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        ended = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *args],
            env=environment, capture_output=True, text=True, errors="replace", timeout=10,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None


def processor() -> str:
    """The processor's model, as its maker calls it where the system says."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        cpuinfo = ""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return model[1].strip() if model else platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may use, which a container or a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def without_secrets(args: Sequence[str]) -> list[str]:
    """Command-line arguments with `***` for the values of keys, tokens and passwords."""
    shown: list[str] = []
    secret = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        if secret and not arg.startswith("-"):
            shown.append("***")
        elif equals and _SECRET.fullmatch(name):
            shown.append(f"{name}=***")
        else:
            shown.append(_PASSWORD.sub("***", arg))
        secret = not equals and bool(_SECRET.fullmatch(name))
    return shown
