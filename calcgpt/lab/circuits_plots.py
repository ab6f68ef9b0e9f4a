"""Plots of circuits: what breaks without each head, where each looks, and a neuron of the carry.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calcgpt.lab.circuits import RULES, Circuits, Floats
from calcgpt.plots import HEAT_MAP, PALETTE, new_figure, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 60


def draw_circuits(out: Path, circuits: Circuits) -> list[Path]:
    """Draws NAME-heads.png and NAME-carry.png into the folder `out`; returns the paths. Errors as
    `save_figures`."""

    def figures() -> Iterator[tuple[str, Figure]]:
        yield f"{circuits.checkpoint}-heads", _draw_heads(circuits)
        yield f"{circuits.checkpoint}-carry", _draw_neuron(circuits)

    return save_figures(out, figures())


def _draw_heads(circuits: Circuits) -> Figure:
    """Left: the share of wrong places without each head. Right: the mean weight of each source."""
    figure = new_figure(17, 9)
    broken, looking = figure.subplots(1, 2)
    seen = np.flatnonzero(circuits.places)
    shares = np.stack([wrong[seen] / circuits.places[seen] for wrong in circuits.ablated.values()])
    columns = list(circuits.ablated)
    _draw_table(broken, 100 * shares.T, [RULES[rule] for rule in seen], columns, "{:.0f}")
    broken.set_title(f"% of places wrong without a head (its output is its {circuits.ablation})")
    names = list(circuits.attention)
    weights = np.stack([circuits.attention[name].ravel() for name in names])
    _draw_table(looking, weights, names, columns[: weights.shape[1]], "{:.2f}")
    looking.set_title("mean attention to what a rule reads")
    figure.suptitle(
        f"{circuits.checkpoint}: the heads, layer.head; * is all heads of a layer", parse_math=False
    )
    return figure


def _draw_table(
    axes: Axes, table: Floats, rows: Sequence[str], columns: Sequence[str], form: str
) -> None:
    top = float(table.max(initial=1e-9))
    axes.imshow(table, vmin=0, vmax=top, cmap=HEAT_MAP, aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        if value >= 0.05 * top:
            colour = "black" if value > 0.6 * top else "white"
            text = form.format(value)
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns)


def _draw_neuron(circuits: Circuits) -> Figure:
    """Draws the values of the neuron with a carry and without."""
    neuron = circuits.neuron
    figure = new_figure(7, 4)
    axes = figure.subplots()
    every = np.concatenate(neuron.values)
    edges = np.linspace(every.min(initial=0), every.max(initial=1), BINS + 1).tolist()
    names = {"with a carry": "vermilion", "without": "blue"}
    for values, (name, colour) in zip(neuron.values, names.items(), strict=True):
        label = f"{name}, {len(values):,} places"
        axes.hist(values, edges, density=True, alpha=0.6, color=PALETTE[colour], label=label)
    axes.set(
        title=f"neuron {neuron.index} of layer {neuron.layer} before a digit of a sum: "
        f"AUC {neuron.auc:.4f}",
        xlabel="value",
        ylabel="density",
    )
    axes.legend()
    return figure
