"""The rows of a run as a run of Weights & Biases, in the extra `wandb`.

What it keeps lies in the run's folder under `wandb/`, with the id by which a resumed run goes on as
the same. WANDB_MODE=offline needs neither network nor account: `wandb sync` uploads it later.
"""

from __future__ import annotations

import os
import re
import secrets
from functools import partial
from typing import Any

from calcgpt.errors import ConfigError, TrainingError
from calcgpt.recipe import Recipe
from calcgpt.run_folder import RunFolder
from calcgpt.trackers import Row, TrackerFactory, last_step
from datagen.files import write_text

# Nothing on the terminal, nothing taken from it, and no code.
QUIET: dict[str, Any] = {
    "silent": True, "console": "off", "save_code": False, "disable_code": True, "disable_git": True,
}  # fmt: skip


def wandb_tracker(project: str) -> TrackerFactory:
    """Trackers that write to `project` of the account that W&B's own settings name.

    Whether this can work is found out here, before a run begins. Raises ConfigError, one line,
    where the package or a login is missing, the server refuses it, or a setting is wrong.
    """
    # Errors of its own are not its makers' business, unless one has said so.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    try:
        import wandb
    except ImportError:
        raise ConfigError("--wandb needs the package: pip install 'calcgpt[wandb]'") from None
    try:
        wandb.Settings(project=project)
        mode = wandb.setup(wandb.Settings(silent=True)).settings.mode
        ready = mode != "online" or wandb.login(prompt=False)
    except (wandb.Error, ValueError) as error:  # pydantic's is a ValueError
        raise ConfigError(f"--wandb: {' '.join(str(error).split())}") from None
    if not ready:
        raise ConfigError(
            "--wandb: not logged in to Weights & Biases: run `wandb login`, or set WANDB_API_KEY; "
            "WANDB_MODE=offline needs no login"
        )
    return partial(WandbRun, project)  # which can be sent to the process that trains


class WandbRun:
    """Each number of each row, against its step; the recipe is the run's config.

    W&B takes no step twice: of what a resumed run writes again it keeps what came first.
    """

    def __init__(self, project: str, run: RunFolder, recipe: Recipe) -> None:
        import wandb

        continues = last_step(run) > 0
        try:
            self._run: Any = wandb.init(
                project=project,
                name=None if continues else run.path.resolve().name,
                id=_run_id(run, continues),
                resume="allow",
                dir=str(run.path),
                config=recipe.model_dump(),
                settings=wandb.Settings(**QUIET),
            )
        except wandb.Error as error:
            reason = str(error).splitlines()[0]
            raise TrainingError(f"Weights & Biases does not take the run: {reason}") from None

    def write(self, row: Row) -> None:
        self._run.log({key: value for key, value in row.items() if key != "step"}, row["step"])

    def close(self) -> None:
        self._run.finish()  # waits until all is uploaded


def _run_id(run: RunFolder, continues: bool) -> str:
    """The id in the run's folder; a new one for a run that begins, or has been untracked so far."""
    path = run.path / "wandb" / "run-id"
    if continues and path.exists():
        found = path.read_text("utf-8", errors="replace").strip()
        if not re.fullmatch("[a-z0-9]{1,64}", found):
            raise ConfigError(f"{path} holds no run id; without the file a new run is begun")
        return found
    path.parent.mkdir(exist_ok=True)
    new = secrets.token_hex(4)
    write_text(path, new + "\n")
    return new
