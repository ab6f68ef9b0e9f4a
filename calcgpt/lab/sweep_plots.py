"""Pictures of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.lab.space import Choice, Hyperparameter, Int, Space
from calcgpt.lab.trials import Ranked, Status
from calcgpt.plots import PALETTE, new_figure, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_TICKS = 6
STATUS_STYLE: dict[Status, dict[str, Any]] = {
    Status.COMPLETED: {"marker": "o", "color": PALETTE["blue"]},
    Status.STOPPED: {"marker": "v", "color": PALETTE["orange"]},
    Status.DIVERGED: {"marker": "x", "color": PALETTE["purple"]},
    Status.FAILED: {"marker": "X", "color": PALETTE["purple"]},
    Status.RUNNING: {"marker": "s", "color": PALETTE["green"]},
}


def draw_sweep(space: Space, trials: Sequence[Ranked], out: Path) -> list[Path]:
    """Draw the trials that have a result, which are in order, into the folder `out`; returns the
    pictures' paths, none where no trial has one."""
    shown = [trial for trial in trials if trial.best is not None]
    if not shown:
        return []

    def figures() -> Iterator[tuple[str, Figure]]:
        yield "parallel-coordinates", draw_parallel_coordinates(space, shown)
        yield "history", draw_history(space, shown)

    return save_figures(out, figures())


@dataclass(frozen=True)
class Coordinate:
    """One vertical axis."""

    label: str
    low: float
    high: float
    ticks: dict[float, str]
    log: bool = False

    def height(self, value: float) -> float:
        """Where a value stands, from 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low) if high > low else 0.5


def coordinate(name: str, axis: Hyperparameter) -> Coordinate:
    """The axis of a hyperparameter: its whole range, not only what was drawn."""
    examples = axis.examples()
    if isinstance(axis, Choice):
        ticks = {float(place): str(value) for place, value in enumerate(examples)}
        return Coordinate(name, -0.4, len(examples) - 0.6, ticks)
    low, high = float(examples[0]), float(examples[-1])
    return _numeric(name, low, high, log=axis.scale == "log", whole=isinstance(axis, Int))


def _numeric(
    label: str, low: float, high: float, log: bool = False, whole: bool = False
) -> Coordinate:
    values = _log_ticks(low, high) if log else _linear_ticks(low, high, whole)
    return Coordinate(label, low, high, {value: f"{value:.4g}" for value in values}, log)


def _linear_ticks(low: float, high: float, whole: bool) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(MAX_TICKS - 1, integer=whole).tick_values(low, high)
    return [float(tick) for tick in ticks if low <= tick <= high]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten; of many, the powers alone; of few, both ends."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1,)):
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick * (1 + 1e-9) and tick <= high * (1 + 1e-9)]
        if len(ticks) <= MAX_TICKS:
            break
    return ticks if len(ticks) > 1 else [low, high]


def draw_parallel_coordinates(space: Space, trials: Sequence[Ranked]) -> Figure:
    """One line a trial, one axis a hyperparameter and one for the metric, whose colour it has. The
    thicker a line, the more steps the trial made; the best is on top, with a dark edge."""
    from matplotlib import colormaps
    from matplotlib.patheffects import Normal, Stroke

    results = [trial.best for trial in trials if trial.best is not None]
    least, most = min(results), max(results)
    metric = _numeric(space.search.metric, least, most, log=0 < 10 * least < most)
    axes_of = [coordinate(name, axis) for name, axis in space.space.items()]
    width = max(7.0, 1.65 * (len(axes_of) + 1) + 1.2)
    figure = new_figure(width, 5.5)
    axes = figure.subplots()
    colours = colormaps["viridis"] if space.search.mode == "max" else colormaps["viridis_r"]
    for place, trial in reversed([*enumerate(trials)]):  # the best comes last, on top
        assert trial.best is not None
        # Lines of one choice lie side by side, the best where it is on the metric's axis.
        aside = (0.25 if space.search.mode == "max" else -0.25) * (1 - 2 * place / len(trials))
        heights = [
            each.height(_number(axis, trial.values[name], aside))
            for each, (name, axis) in zip(axes_of, space.space.items(), strict=True)
        ]
        heights.append(metric.height(trial.best))
        x, y = _curve(heights)
        thick = 0.8 + 1.7 * trial.steps / space.max_steps
        [line] = axes.plot(x, y, color=colours(heights[-1]), linewidth=thick, alpha=0.8)
        if place == 0:
            line.set(linewidth=3, alpha=1)
            line.set_path_effects([Stroke(linewidth=5.5, foreground="black"), Normal()])
    for place, each in enumerate([*axes_of, metric]):
        _draw_axis(axes, place, each, last=place == len(axes_of))
    gradient = np.linspace(0, 1, 256)[:, None]
    end = float(len(axes_of))
    axes.imshow(gradient, cmap=colours, origin="lower", aspect="auto", zorder=3,
                extent=(end, end + 0.06, 0, 1))  # fmt: skip
    axes.set(xlim=(-0.35, end + 0.45), ylim=(-0.04, 1.04))
    axes.set_axis_off()
    best = trials[0]
    axes.set_title(
        f"{len(trials)} trials; the best, {best.trial}, has {space.search.metric} {best.best:.4f}",
        pad=30, parse_math=False,
    )  # fmt: skip
    return figure


def _number(axis: Hyperparameter, value: Any, aside: float) -> float:
    """Where a value stands on its axis; a choice a little `aside`."""
    if isinstance(axis, Choice):
        return [repr(each) for each in axis.values].index(repr(value)) + aside
    return float(value)


def _curve(heights: Sequence[float]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A line through points one apart that is level in each: lines that cross there can be told
    apart."""
    t = np.linspace(0, 1, 33)[:-1]
    ease = (1 - np.cos(np.pi * t)) / 2
    x = [place + t for place in range(len(heights) - 1)]
    y = [a + (b - a) * ease for a, b in pairwise(heights)]
    return np.append(np.concatenate(x), len(heights) - 1), np.append(np.concatenate(y), heights[-1])


def _draw_axis(axes: Axes, place: int, each: Coordinate, last: bool) -> None:
    """A vertical line with ticks on its left; those of the last one on its right."""
    axes.plot([place, place], [0, 1], color="#444444", linewidth=1.2, zorder=4)
    section, _, field = each.label.rpartition(".")
    axes.annotate(f"{section}\n{field}" if section else field, (place, 1), (0, 10),
                  textcoords="offset points", ha="center", va="bottom",
                  parse_math=False)  # fmt: skip
    for value, text in each.ticks.items():
        axes.annotate(
            text, (place + (0.06 if last else 0), each.height(value)), (6 if last else -6, 0),
            textcoords="offset points", ha="left" if last else "right", va="center", fontsize=9,
            zorder=5, bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8},
            parse_math=False,
        )  # fmt: skip
        if not last:
            axes.plot([place - 0.025, place], [each.height(value)] * 2, color="#444444", zorder=4)


def draw_history(space: Space, trials: Sequence[Ranked]) -> Figure:
    """The result of each trial in the order in which they were begun, and the best so far."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    points = sorted((int(each.trial), each.best, each.status) for each in trials
                    if each.best is not None)  # fmt: skip
    numbers, results = [number for number, _, _ in points], [best for _, best, _ in points]
    for status, style in STATUS_STYLE.items():
        those = [(number, best) for number, best, each in points if each == status]
        if those:
            x, y = zip(*those, strict=True)
            axes.plot(x, y, label=status, linestyle="none", markersize=6, zorder=3, **style)
    so_far = np.minimum.accumulate if space.search.mode == "min" else np.maximum.accumulate
    axes.step(numbers, so_far(results), where="post", color="black", label="best so far")
    if 0 < 10 * min(results) < max(results):
        axes.set_yscale("log")
    axes.set(xlabel="trial", ylabel=f"best {space.search.metric}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid()
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure
