"""What a person sees of a sweep that runs: one line. And what is kept of how trials ended."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ray.tune import Callback
from tqdm import tqdm

from calcgpt.sweep.folder import Status, SweepFolder, Trial
from calcgpt.sweep.space import Space


class Progress(Callback):
    """Told by Ray Tune, on the machine of the command, what happens to trials."""

    def __init__(self, space: Space, folder: SweepFolder, show: bool) -> None:
        self._space, self._folder = space, folder
        self._best: tuple[float, str] | None = None
        self._bar = tqdm(total=space.search.trials, unit="trial", disable=not show)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._bar.close()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Show the best so far."""
        search = self._space.search
        value = float(result[search.metric])
        better = min if search.mode == "min" else max
        if self._best is None or better(value, self._best[0]) != self._best[0]:
            self._best = (value, _trial(trial).name)
        running = sum(other.status == "RUNNING" for other in trials)
        best, name = self._best
        self._bar.set_postfix_str(f"{running} running, best {search.metric} {best:.4f} ({name})")

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Ray is done with a trial: it ended by itself, or the scheduler ended it."""
        ours = _trial(trial)
        if ours.ending.status is Status.RUNNING:
            steps = max((row["step"] for row in ours.validations()), default=0)
            whole = steps >= self._space.max_steps
            ours.end(Status.COMPLETED if whole else Status.STOPPED)
        self._bar.update()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Ray has given up on a trial."""
        ours = _trial(trial)
        if not ours.ending.status.final:
            ours.end(Status.FAILED, _last_line(trial.error_file))
        self._bar.update()


def _trial(trial: Any) -> Trial:
    """Ours for Ray's."""
    return Trial.load(Path(trial.config["folder"]))


def _last_line(file: str | None) -> str:
    """Of what Ray wrote about an error."""
    try:
        lines = Path(file or "").read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return "unknown"
    return next((line for line in reversed(lines) if line.strip()), "unknown")
