"""Inspection of a model: where its attention heads look, and plots of it.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.

Shapes: B sequences, L layers, H heads, T tokens of text, S positions (the tokens and those that the
attention scheme inserts), R sources of a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from calcgpt.base.errors import ConfigError, DataError, UserError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.results import Calculation
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab.model.base import Block
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.model.sources import SourceTransformer, next_slots
from calcgpt_lab.plots import HEAT_MAP, PALETTE, new_figure, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSERTED = "◆"  # the label of a token that the attention scheme inserted: a landmark
MIN_LABELLED_CELL = 0.065  # side of a cell whose label can be read
MAX_COLUMNS = 4  # maps beside each other
MAX_GRID = 36.0  # width of a grid of maps
BORDER = "#999999"  # between question, steps and answer: visible on white and on dark cells

Hook = Callable[[int, torch.Tensor, torch.Tensor], None]  # see `hooked`
Transformer = GPT | SourceTransformer  # what has blocks


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every head at every position that the model read."""

    labels: list[str]  # of the S positions: a character, or INSERTED
    #: A row looks at the columns and sums to 1 or, if there is a sink, to less.
    weights_LHSS: torch.Tensor


@dataclass(frozen=True)
class Inspection:
    """The answer of a model to one problem, and its attention as it writes it."""

    answer: Calculation
    maps: AttentionMaps


def inspect(checkpoint: Checkpoint, expression: str) -> Inspection:
    """Returns the attention of the model on `expression`.

    Raises ConfigError if the model has no layers. Raises DataError if it does not read problems by
    characters, or if its weights are damaged. Raises ExpressionError for a bad expression and
    UserError unless it has one operation.
    """
    model, name = checkpoint.model, checkpoint.name
    if not isinstance(model, Transformer):
        architecture = checkpoint.recipe.model.architecture
        raise ConfigError(f"{name} has no layers to inspect: its architecture is {architecture!r}")
    tokenizer = checkpoint.tokenizer
    if not (isinstance(tokenizer, CharTokenizer) and tokenizer.is_notation()):
        raise DataError(f"{name} cannot be inspected: it does not read problems by characters")
    answer = Calculator(checkpoint).calculate(expression)
    if len(answer.nodes) != 1:
        raise UserError("give exactly one operation, such as 12.5*3")
    node = answer.nodes[0]
    # The model writes the last character but never reads it.
    return Inspection(answer, attention_maps(model, tokenizer, f"{node.prompt}{node.output}"[:-1]))


def attention_maps(model: Transformer, tokenizer: CharTokenizer, text: str) -> AttentionMaps:
    """Returns where each head looks when the model reads `text`, one token per character."""
    tokens_T = tokens_S = torch.from_numpy(tokenizer.encode(text).astype("int64"))
    if isinstance(model, GPT):
        tokens_S = model.scheme.insert(tokens_T[None], 0)[0]
    labels = [
        tokenizer.decode([i]) if i < model.vocab_size else INSERTED for i in tokens_S.tolist()
    ]
    weights_LHSS = attention_weights(model, tokens_T)
    if not weights_LHSS.isfinite().all():
        raise DataError("the model's attention is not finite: its weights are damaged")
    return AttentionMaps(labels, weights_LHSS)


@torch.inference_mode()
def attention_weights(model: Transformer, tokens_T: torch.Tensor) -> torch.Tensor:
    """Returns the attention weights of every head in one forward pass, (L,H,S,S)."""
    if isinstance(model, SourceTransformer):
        weights_LTRH = source_weights(model, tokens_T)
        line = "".join(model.config.characters[token] for token in tokens_T.tolist())
        sources_TR = torch.from_numpy(next_slots(line.encode()).sources).long()
        L, T, _, H = weights_LTRH.shape
        # One more column is for sources that do not exist: their weight is 0.
        weights_LHTS = torch.zeros(L, H, T, T + 1)
        columns_LHTR = (sources_TR % (T + 1)).expand(L, H, -1, -1)
        return weights_LHTS.scatter_add(3, columns_LHTR, weights_LTRH.permute(0, 3, 1, 2))[..., :T]
    return torch.stack([weights_BHSS[0] for weights_BHSS in _weights(model, tokens_T)])


@torch.inference_mode()
def source_weights(model: SourceTransformer, tokens_T: torch.Tensor) -> torch.Tensor:
    """Returns the attention of every head to each source, (L,T,R,H). The rest is the sink's."""
    return torch.stack([weights_BTRH[0] for weights_BTRH in _weights(model, tokens_T)])


def _weights(model: Transformer, tokens_T: torch.Tensor) -> list[torch.Tensor]:
    """Returns the attention weights of each layer, as its module has them."""
    plain = model.with_plain_attention() if isinstance(model, GPT) else model
    weights: list[torch.Tensor] = []
    modules = [block.attn.weights_dropout for block in blocks_of(plain)]
    with hooked(modules, lambda _, before, __: weights.append(before)):
        plain(tokens_T[None])
    return weights


@contextmanager
def hooked(modules: Sequence[nn.Module], hook: Hook) -> Iterator[None]:
    """Calls `hook` after each run of one of the modules, with its index, input and output."""

    def call(
        index: int, module: nn.Module, args: tuple[torch.Tensor], output: torch.Tensor
    ) -> None:
        hook(index, args[0], output)

    handles = [m.register_forward_hook(partial(call, i)) for i, m in enumerate(modules)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def blocks_of(model: Transformer) -> list[Block]:
    """Returns the blocks of a model, in order."""
    return [block for block in model.blocks if isinstance(block, Block)]


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
