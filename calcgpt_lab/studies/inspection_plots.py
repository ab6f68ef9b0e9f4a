"""Plots of an inspection: attention maps.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt_lab.plots import HEAT_MAP, PALETTE, new_figure, save_figures
from calcgpt_lab.studies.inspection import INSERTED, AttentionMaps, Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_LABELLED_CELL = 0.065  # side of a cell whose label can be read
MAX_COLUMNS = 4  # maps beside each other
MAX_GRID = 36.0  # width of a grid of maps
BORDER = "#999999"  # between question, steps and answer: visible on white and on dark cells


def draw_inspection(out: Path, inspection: Inspection) -> list[Path]:
    """Draws the heads of each layer as attention-layer-N.png into the folder `out`; returns the
    paths. Raises what `save_figures` raises."""
    n_layer, n_head, *_ = inspection.maps.weights_LHSS.shape
    return save_figures(
        out,
        {
            f"attention-layer-{layer}": partial(draw_layer, inspection, layer, range(n_head))
            for layer in range(n_layer)
        },
    )


def draw_layer(inspection: Inspection, layer: int, heads: Sequence[int]) -> Figure:
    """The maps of some heads of one layer, labelled with the characters."""
    columns = min(MAX_COLUMNS, len(heads))
    rows = math.ceil(len(heads) / columns)
    n = len(inspection.maps.labels)
    cell = min(max(4.5 / n, MIN_LABELLED_CELL), 0.3, MAX_GRID / columns / n)
    size = max(n * cell, 2.0) + 0.5  # of a map with its labels
    figure = new_figure(columns * size + 0.9, rows * (size + 0.25) + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, head in zip(panels.flat, heads, strict=False):
        _draw_map(axes, inspection.maps, layer, head)
        _label_characters(axes, inspection.maps.labels, cell)
        axes.set_title(f"head {head}", fontsize=11)
        axes.set(xlabel="attended character", ylabel="current character")
    for axes in panels.flat[len(heads) :]:
        axes.set_axis_off()
    _add_title_and_colours(figure, panels, inspection, f", layer {layer}")
    return figure


def _draw_map(axes: Axes, maps: AttentionMaps, layer: int, head: int) -> None:
    """Draws one map: empty above the diagonal, with a thin line after each `=`."""
    from matplotlib.colors import PowerNorm

    weights_SS = maps.weights_LHSS[layer, head].numpy()
    future = np.triu(np.ones_like(weights_SS, dtype=bool), k=1)
    # The square root makes small weights visible: attention over many characters has only these.
    axes.imshow(np.ma.masked_where(future, weights_SS), cmap=HEAT_MAP, norm=PowerNorm(0.5, 0, 1))
    for position in (i + 0.5 for i, label in enumerate(maps.labels) if label == "="):
        axes.axhline(position, color=BORDER, linewidth=0.6)
        axes.axvline(position, color=BORDER, linewidth=0.6)


def _label_characters(axes: Axes, labels: Sequence[str], cell: float) -> None:
    """Labels both sides with the characters, or with every n-th one if the cells are small."""
    step = math.ceil(0.99 * MIN_LABELLED_CELL / cell)
    positions = range(0, len(labels), step)
    texts = [labels[i] if labels[i].isprintable() else "?" for i in positions]
    style: dict[str, Any] = {
        "family": "monospace",
        "fontsize": min(10, 72 * cell * step),
        "parse_math": False,
    }
    axes.set_xticks(positions, texts, **style)
    axes.set_yticks(positions, texts, **style)
    axes.tick_params(length=0, pad=2)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        if text.get_text() == INSERTED:
            text.set_color(PALETTE["vermilion"])


def _add_title_and_colours(
    figure: Figure, panels: Any, inspection: Inspection, where: str = ""
) -> None:
    """Adds the title, and one colour bar for all maps, at most 5 inches high."""
    answer, scale = inspection.answer, "attention weight (square-root scale)"
    result = "no number" if answer.result is None else answer.result
    note = f"   ({INSERTED}: a landmark)" if INSERTED in inspection.maps.labels else ""
    title = f"{answer.model}: {answer.expression} = {result}{note}{where}"
    figure.suptitle(title, parse_math=False, fontsize=11)
    ticks = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1]
    shrink = min(1.0, 5 / figure.get_figheight())
    place: Any = {"pad": 0.02, "anchor": (0, 1), "shrink": shrink, "aspect": 25}
    figure.colorbar(panels.flat[0].images[0], ax=panels, label=scale, ticks=ticks, **place)
