"""Plots of an inspection: attention maps and activations.

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
from calcgpt_lab.studies.inspection import (
    BINS,
    DEAD,
    INSERTED,
    AttentionMaps,
    Inspection,
    LayerActivations,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

MIN_LABELLED_CELL = 0.065  # side of a cell whose label can be read
MAX_COLUMNS = 4  # maps beside each other
MAX_GRID = 36.0  # width of a grid of maps
BEFORE, AFTER = PALETTE["blue"], PALETTE["orange"]
BORDER = "#999999"  # between question, steps and answer: visible on white and on dark cells


def draw_inspection(
    out: Path, inspection: Inspection, layers: Sequence[int], heads: Sequence[int]
) -> list[Path]:
    """Draws the inspection into the folder `out`; returns the paths.

    attention.png shows all maps. attention-layer-N.png shows `heads` of each of `layers`; its name
    ends in -head-N if these are not all heads. activations.png shows the feed-forward networks.
    Raises what `save_figures` raises.
    """
    n_head = inspection.maps.weights_LHSS.shape[1]
    suffix = f"-head-{heads[0]}" if len(heads) < n_head else ""
    return save_figures(
        out,
        {
            "attention": partial(draw_overview, inspection),
            **{
                f"attention-layer-{layer}{suffix}": partial(draw_layer, inspection, layer, heads)
                for layer in layers
            },
            "activations": partial(draw_activations, inspection),
        },
    )


def draw_overview(inspection: Inspection) -> Figure:
    """All maps: one row per layer, one column per head."""
    n_layer, n_head, *_ = inspection.maps.weights_LHSS.shape
    side = min(1.7, MAX_GRID / max(n_layer, n_head))
    figure = new_figure(n_head * side + 1.5, n_layer * side + 1)
    panels = figure.subplots(n_layer, n_head, squeeze=False, sharex=True, sharey=True)
    for (layer, head), axes in np.ndenumerate(panels):
        _draw_map(axes, inspection.maps, layer, head)
        axes.set(xticks=[], yticks=[])
        if head == 0:
            axes.set_ylabel(f"layer {layer}")
        if layer == 0:
            axes.set_title(f"head {head}", fontsize=11)
    _add_title_and_colours(figure, panels, inspection)
    return figure


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


def draw_activations(inspection: Inspection) -> Figure:
    """Dead units, means and variances of all layers, and a histogram of each layer."""
    n_layer = len(inspection.layers)
    columns = min(4, n_layer)
    rows = math.ceil(n_layer / columns)
    figure = new_figure(13, 5.2 + 2.3 * rows)
    heights = [4.7, 0.5 + 2.3 * rows]
    upper, lower = figure.subfigures(2, 1, height_ratios=heights, squeeze=False).flat
    upper.suptitle(
        f"{inspection.answer.model}: feed-forward activations on {inspection.problems:,} problems "
        f"({inspection.source}; {inspection.tokens:,} tokens)\n{DEAD}",
        parse_math=False,
        fontsize=11,
    )
    _draw_bars(upper, inspection.layers)
    lower.suptitle("all values of a layer, over tokens and units", fontsize=11)
    panels = lower.subplots(rows, columns, squeeze=False)
    for index, (axes, layer) in enumerate(zip(panels.flat, inspection.layers, strict=False)):
        _draw_histograms(axes, layer)
        axes.set_title(f"layer {index}", fontsize=11)
        if index % columns == 0:
            axes.set_ylabel("density")
    for axes in panels.flat[n_layer:]:
        axes.set_axis_off()
    return figure


def _draw_bars(figure: SubFigure, layers: Sequence[LayerActivations]) -> None:
    """Draws a bar per layer for the dead units, and two for the means and the variances."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    dead, mean, variance = figure.subplots(1, 3)
    positions = np.arange(len(layers))
    shares = [layer.dead_share for layer in layers]
    bars = dead.bar(positions, shares, color=PALETTE["black"])
    if len(layers) <= 12:  # more labels would overlap
        dead.bar_label(bars, [str(layer.dead) for layer in layers], fontsize=9, padding=2)
    if not any(shares):
        dead.text(0.5, 0.5, "none", transform=dead.transAxes, ha="center", color="#888888")
    dead.set(title="dead units (dying ReLU)", ylabel=f"share of the {layers[0].units} units")
    dead.set_ylim(0, max(0.05, 1.15 * max(shares)))
    dead.yaxis.set_major_formatter(PercentFormatter(1))
    for axes, name in ((mean, "mean"), (variance, "variance")):
        for offset, side, colour in ((-0.2, "before", BEFORE), (0.2, "after", AFTER)):
            values = [getattr(getattr(layer, side), name) for layer in layers]
            axes.bar(
                positions + offset, values, 0.4, label=f"{side} the nonlinearity", color=colour
            )
    mean.set_title("mean (bias shift if not 0 after)")
    mean.axhline(0, color="black", linewidth=0.8)
    variance.set_title("variance")
    figure.legend(*mean.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    for axes in (dead, mean, variance):
        axes.set_xlabel("layer")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")


def _draw_histograms(axes: Axes, layer: LayerActivations) -> None:
    """Draws densities on a log scale, because the tails hold few values."""
    for values, colour in ((layer.before, BEFORE), (layer.after, AFTER)):
        edges = np.histogram_bin_edges([], BINS, (values.min, values.max))
        density = np.array(values.counts) / sum(values.counts) / np.diff(edges)
        axes.stairs(density, edges, color=colour, fill=True, alpha=0.35)
        axes.stairs(density, edges, color=colour)
    axes.set_yscale("log")
    axes.axvline(0, color="black", linewidth=0.8, zorder=0)
    # Only a squared nonlinearity exceeds these limits: its tail would flatten the rest.
    axes.set_xlim(min(layer.before.min, -0.3), max(layer.before.max, 1.0))
