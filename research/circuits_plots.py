"""Plots of circuits: what breaks without each head, where each looks, and the neurons of carries.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calcgpt.plots import HEAT_MAP, PALETTE, new_figure, save_figures
from research.carry_neurons import CARRIES, Floats
from research.circuits import RULES, Circuits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 60


def draw_circuits(out: Path, circuits: Circuits) -> list[Path]:
    """Draws NAME-heads.png and NAME-carry.png into the folder `out`; returns the paths. Raises what
    `save_figures` raises."""
    return save_figures(
        out,
        {
            f"{circuits.checkpoint}-heads": lambda: _draw_heads(circuits),
            f"{circuits.checkpoint}-carry": lambda: _draw_neurons(circuits),
        },
    )


def _draw_heads(circuits: Circuits) -> Figure:
    """Left: the share of wrong positions without each head. Right: the mean attention weights."""
    figure = new_figure(17, 9)
    left, right = figure.subplots(1, 2)
    seen = np.flatnonzero(circuits.n_position)
    shares = np.stack(
        [wrong[seen] / circuits.n_position[seen] for wrong in circuits.ablated.values()]
    )
    columns = list(circuits.ablated)
    _draw_table(left, 100 * shares.T, [RULES[rule] for rule in seen], columns, "{:.0f}")
    left.set_title(f"% of positions wrong without a head (its output is its {circuits.ablation})")
    names = list(circuits.attention)
    weights = np.stack([circuits.attention[name].ravel() for name in names])
    _draw_table(right, weights, names, columns[: weights.shape[1]], "{:.2f}")
    right.set_title("mean attention to what a rule reads")
    figure.suptitle(
        f"{circuits.checkpoint}: the heads, layer.head; * is all heads of a layer", parse_math=False
    )
    return figure


def _draw_table(
    axes: Axes, table: Floats, rows: Sequence[str], columns: Sequence[str], cell_format: str
) -> None:
    top = float(table.max(initial=1e-9))
    axes.imshow(table, vmin=0, vmax=top, cmap=HEAT_MAP, aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        if value >= 0.05 * top:
            colour = "black" if value > 0.6 * top else "white"
            text = cell_format.format(value)
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns)


def _draw_neurons(circuits: Circuits) -> Figure:
    """Draws the values of both neurons, a row each, with a carry or borrow and without."""
    figure = new_figure(11, 7)
    panels = figure.subplots(2, 2)
    for row, neuron in zip(panels, circuits.neurons.values(), strict=True):
        all_values = np.concatenate([part for parts in neuron.values.values() for part in parts])
        low, high = all_values.min(initial=0), all_values.max(initial=1)
        edges = np.linspace(low, high, BINS + 1).tolist()
        for axes, (op, parts) in zip(row, neuron.values.items(), strict=True):
            labels = {f"with a {CARRIES[op]}": "vermilion", f"without a {CARRIES[op]}": "blue"}
            for values, (label, colour) in zip(parts, labels.items(), strict=True):
                style = {"color": PALETTE[colour], "alpha": 0.6}
                axes.hist(values, edges, label=f"{label}, {len(values):,} positions", **style)
            axes.set(title=f"{neuron}, A {op} B: AUC {neuron.auc[op]:.4f}", xlabel="value")
            axes.legend()
    return figure
