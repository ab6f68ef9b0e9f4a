"""Pictures of what `calcgpt.lab.inspection` measured.

Matplotlib, of the extra `lab`, is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcgpt.lab.inspection import BINS, DEAD, INSERTED, AttentionMaps, Inspection, LayerActivations
from calcgpt.plots import PALETTE, new_figure, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


READABLE = 0.065  # the least side of a cell with a label
LARGEST = 36.0  # the most that a grid of maps is wide
BEFORE, AFTER = PALETTE["blue"], PALETTE["orange"]
STANDS_OUT = "#D55E00"  # the labels of inserted tokens
BORDER = "#999999"  # between question, work and answer: to be seen on white as on dark


def draw_inspection(
    out: Path, found: Inspection, layers: Sequence[int], heads: Sequence[int]
) -> list[Path]:
    """Draw into the folder `out`; returns the pictures' paths. Errors as `save_figures`.

    attention.png, all maps small; attention-layer-N.png for each of `layers` with its `heads`,
    where these are not all with -head-N; activations.png.
    """

    def figures() -> Iterator[tuple[str, Figure]]:
        yield "attention", draw_overview(found)
        n_head = found.maps.weights_LHSS.shape[1]
        which = f"-head-{heads[0]}" if len(heads) < n_head else ""
        for layer in layers:
            yield f"attention-layer-{layer}{which}", draw_layer(found, layer, heads)
        yield "activations", draw_activations(found)

    return save_figures(out, figures())


def draw_overview(found: Inspection) -> Figure:
    """All maps: a row a layer, a column a head."""
    n_layer, n_head, *_ = found.maps.weights_LHSS.shape
    side = min(1.7, LARGEST / max(n_layer, n_head))
    figure = new_figure(n_head * side + 1.5, n_layer * side + 1)
    panels = figure.subplots(n_layer, n_head, squeeze=False, sharex=True, sharey=True)
    for (layer, head), axes in np.ndenumerate(panels):
        _map(axes, found.maps, layer, head)
        axes.set(xticks=[], yticks=[])
        if head == 0:
            axes.set_ylabel(f"layer {layer}")
        if layer == 0:
            axes.set_title(f"head {head}", fontsize=11)
    _scale(figure, panels)
    figure.suptitle(_title(found), parse_math=False, fontsize=11)
    return figure


def draw_layer(found: Inspection, layer: int, heads: Sequence[int]) -> Figure:
    """The maps of some heads of one layer, with the characters beside them."""
    columns = _columns(len(heads))
    rows = math.ceil(len(heads) / columns)
    n = len(found.maps.labels)
    cell = min(max(4.5 / n, READABLE), 0.3, LARGEST / columns / n)
    size = max(n * cell, 2.0) + 0.5  # of a map with its labels
    figure = new_figure(columns * size + 0.9, rows * (size + 0.25) + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, head in zip(panels.flat, heads, strict=False):
        _map(axes, found.maps, layer, head)
        _label(axes, found.maps.labels, cell)
        axes.set_title(f"head {head}", fontsize=11)
        axes.set(xlabel="looks at", ylabel="the character read")
    for axes in panels.flat[len(heads) :]:
        axes.set_axis_off()
    _scale(figure, panels)
    figure.suptitle(f"{_title(found)}, layer {layer}", parse_math=False, fontsize=11)
    return figure


def _columns(count: int) -> int:
    """Of a grid with `count` places: about as many as rows, up to twice, with few left over."""
    least = math.isqrt(count - 1) + 1
    return min(range(least, 2 * least), key=lambda columns: (-count % columns, columns))


def _map(axes: Axes, maps: AttentionMaps, layer: int, head: int) -> None:
    """One map: blank where a row stands before a column, a thin line after each `=`."""
    from matplotlib.colors import PowerNorm

    weights_SS = maps.weights_LHSS[layer, head].numpy()
    future = np.triu(np.ones_like(weights_SS, dtype=bool), k=1)
    # By their square roots: what is spread over many characters is small, but not nothing.
    axes.imshow(np.ma.masked_where(future, weights_SS), cmap="viridis", norm=PowerNorm(0.5, 0, 1))
    for place, label in enumerate(maps.labels):
        if label == "=":
            axes.axhline(place + 0.5, color=BORDER, linewidth=0.6)
            axes.axvline(place + 0.5, color=BORDER, linewidth=0.6)


def _label(axes: Axes, labels: Sequence[str], cell: float) -> None:
    """The characters along both sides; only every so many, if cells are too small for each."""
    every = math.ceil(0.99 * READABLE / cell)
    places = range(0, len(labels), every)
    shown = [labels[place] if labels[place].isprintable() else "?" for place in places]
    style: dict[str, Any] = {
        "family": "monospace",
        "fontsize": min(10, 72 * cell * every),
        "parse_math": False,
    }
    axes.set_xticks(places, shown, **style)
    axes.set_yticks(places, shown, **style)
    axes.tick_params(length=0, pad=2)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        if text.get_text() == INSERTED:
            text.set_color(STANDS_OUT)


def _scale(figure: Figure, panels: Any) -> None:
    """One colour bar for all maps, as wide whatever their number, and at most a hand high."""
    height = figure.get_figheight()
    shrink = min(1.0, 5 / height)
    figure.colorbar(panels.flat[0].images[0], ax=panels, pad=0.02, anchor=(0, 1), shrink=shrink,
                    aspect=shrink * height / 0.2, label="attention weight (square-root scale)",
                    ticks=[0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1])  # fmt: skip


def _title(found: Inspection) -> str:
    answer = found.answer
    written = "no number" if answer.result is None else answer.result
    note = f"   ({INSERTED}: a landmark)" if INSERTED in found.maps.labels else ""
    return f"{answer.model}: {answer.expression} = {written}{note}"


def draw_activations(found: Inspection) -> Figure:
    """Dead units, means and variances of each layer; below, a histogram a layer."""
    n_layer = len(found.layers)
    columns = min(4, n_layer)
    rows = math.ceil(n_layer / columns)
    figure = new_figure(13, 5.2 + 2.3 * rows)
    upper, lower = figure.subfigures(
        2, 1, height_ratios=[4.7, 0.5 + 2.3 * rows], squeeze=False
    ).flat
    upper.suptitle(
        f"{found.answer.model}: feed-forward activations over {found.problems:,} problems "
        f"({found.source}; {found.tokens:,} tokens)\n{DEAD}",
        parse_math=False, fontsize=11,
    )  # fmt: skip
    _draw_bars(upper, found.layers)
    lower.suptitle("all values of a layer, over tokens and units", fontsize=11)
    panels = lower.subplots(rows, columns, squeeze=False)
    for index, (axes, layer) in enumerate(zip(panels.flat, found.layers, strict=False)):
        _draw_histograms(axes, layer)
        axes.set_title(f"layer {index}", fontsize=11)
        if index % columns == 0:
            axes.set_ylabel("density")
    for axes in panels.flat[n_layer:]:
        axes.set_axis_off()
    return figure


def _draw_bars(figure: SubFigure, layers: Sequence[LayerActivations]) -> None:
    """A bar, or one before and one after, for each layer."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    dead, mean, variance = figure.subplots(1, 3)
    places = np.arange(len(layers))
    bars = dead.bar(places, [layer.dead_share for layer in layers], color=PALETTE["black"])
    if len(layers) <= 12:  # else there is no room
        dead.bar_label(bars, [str(layer.dead) for layer in layers], fontsize=9, padding=2)
    dead.set(title="dead units (dying ReLU)", ylabel=f"share of the {layers[0].units} units")
    dead.set_ylim(0, max(0.05, 1.15 * max(layer.dead_share for layer in layers)))
    dead.yaxis.set_major_formatter(PercentFormatter(1))
    for axes, name in ((mean, "mean"), (variance, "variance")):
        for offset, side, colour in ((-0.2, "before", BEFORE), (0.2, "after", AFTER)):
            values = [getattr(getattr(layer, side), name) for layer in layers]
            axes.bar(places + offset, values, 0.4, label=f"{side} the nonlinearity", color=colour)
    mean.set_title("mean (bias shift: not 0 after)")
    mean.axhline(0, color="black", linewidth=0.8)
    variance.set_title("variance")
    figure.legend(*mean.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    for axes in (dead, mean, variance):
        axes.set_xlabel("layer")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")


def _draw_histograms(axes: Axes, layer: LayerActivations) -> None:
    """Densities on a log scale, for the tails hold few values."""
    for values, colour in ((layer.before, BEFORE), (layer.after, AFTER)):
        edges = np.histogram_bin_edges([], BINS, (values.min, values.max))
        density = np.array(values.counts) / sum(values.counts) / np.diff(edges)
        axes.stairs(density, edges, color=colour, fill=True, alpha=0.35)
        axes.stairs(density, edges, color=colour)
    axes.set_yscale("log")
    axes.axvline(0, color="black", linewidth=0.8, zorder=0)
    # Of all nonlinearities only a squared one goes beyond: its tail would flatten all else.
    axes.set_xlim(min(layer.before.min, -0.3), max(layer.before.max, 1.0))
