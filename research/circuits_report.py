"""What was found of circuits, as a table, JSON and plots: what breaks without each head, where each
looks, and the neurons of carries.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calcgpt.plots import HEAT_MAP, PALETTE, new_figure, save_figures
from calcgpt.statistics import wilson_interval
from calcgpt.tables import text_table
from research.carry_neurons import CARRIES, Floats, Neuron
from tools.cases.rules import LOCAL_STEPS, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ablation = Literal["mean", "zero"]

RULES = [step.name for step in LOCAL_STEPS]
BINS = 60


@dataclass(frozen=True)
class Circuits:
    """What the heads of a model do."""

    checkpoint: str
    ablation: Ablation
    seed: int
    n_lines: int  # read to count wrong positions; as many others gave the means
    n_position: Ints  # of each rule, (R,)
    intact: Ints  # wrong positions of the whole model, (R,)
    ablated: dict[str, Ints]  # wrong positions without a head, or a layer's heads, each (R,)
    attention: dict[str, Floats]  # "rule: source" -> mean weight of each head there, (L, H)
    neurons: dict[str, Neuron]  # that of a carry in sums, "+", and of a borrow, "-"
    n_clear: int  # neurons that tell a carry or a borrow clearly
    without_neurons: dict[str, Ints]  # wrong positions without "+", "-" or "clear", each (R,)

    def table(self) -> str:
        """Returns the percentage of wrong positions by rule, of the model and without each head."""
        header = ["% wrong", "positions", "whole", *self.ablated]
        rows = []
        for rule, name in enumerate(RULES):
            counts = [self.intact[rule], *(wrong[rule] for wrong in self.ablated.values())]
            cells = [_percent(int(count), int(self.n_position[rule])) for count in counts]
            rows.append([name, f"{self.n_position[rule]:,}", *cells])
        notes = [
            f"{neuron} is {neuron.direction} with a {CARRIES[op]}: AUC {neuron.auc['+']:.4f} for "
            f"carries in sums, {neuron.auc['-']:.4f} for borrows in differences"
            for op, neuron in self.neurons.items()
        ]
        digits = RULES.index("digit of a sum")
        wrong = {name: int(counts[digits]) for name, counts in self.without_neurons.items()}
        notes.append(
            f"of {self.n_position[digits]:,} digits of sums, {wrong['+']} are wrong without the "
            f"first, {wrong['-']} without the second, and {wrong['clear']} without all "
            f"{self.n_clear} that tell a carry or a borrow clearly"
        )
        return "\n".join([text_table(header, rows), "", *notes])

    def record(self) -> dict[str, Any]:
        """Returns what `--json` writes."""
        return {
            "checkpoint": self.checkpoint,
            "ablation": self.ablation,
            "seed": self.seed,
            "lines": self.n_lines,
            "rules": [
                {
                    "rule": name,
                    "places": n,
                    "intact": _share(int(self.intact[rule]), n),
                    "without": {
                        part: _share(int(wrong[rule]), n) for part, wrong in self.ablated.items()
                    },
                }
                for rule, (name, n) in enumerate(zip(RULES, self.n_position.tolist(), strict=True))
            ],
            "attention": {name: mean.round(4).tolist() for name, mean in self.attention.items()},
            "neurons": {
                CARRIES[op]: {
                    "layer": neuron.layer,
                    "index": neuron.index,
                    "direction": neuron.direction,
                    "auc": neuron.auc,
                    "places": {name: [len(p) for p in v] for name, v in neuron.values.items()},
                    "without": self._sums_without(op),
                }
                for op, neuron in self.neurons.items()
            },
            "clear_neurons": {"n": self.n_clear, "without": self._sums_without("clear")},
        }

    def _sums_without(self, name: str) -> dict[str, Any]:
        """Returns the wrong digits of sums and differences without some neurons."""
        rule = RULES.index("digit of a sum")
        return _share(int(self.without_neurons[name][rule]), int(self.n_position[rule]))


def _percent(count: int, n: int) -> str:
    if not n:
        return "-"
    return f"{100 * count / n:.1f}" if count else "0"


def _share(wrong: int, n: int) -> dict[str, Any]:
    """Returns the wrong positions and their share with its 95% interval (Wilson 1927)."""
    if not n:
        return {"wrong": 0, "share": None, "interval": None}
    return {"wrong": wrong, "share": wrong / n, "interval": wilson_interval(wrong / n, n)}


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
