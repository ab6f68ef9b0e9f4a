"""Pictures of what commands wrote.

Matplotlib, of the extra `lab`, is imported where it is used. Colours are those of Okabe and Ito
(2008), which people tell apart however they see colours; maps are in viridis.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcgpt.errors import DataError, UserError
from calcgpt.metrics import Curves, Lengths, Operation, Point, Record, read_curves, read_record
from datagen.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OPERATIONS: dict[Operation, str] = {"+": "A + B", "-": "A − B", "*": "A × B", "/": "A ÷ B"}
COLOURS = {"all": "#000000", "+": "#0072B2", "-": "#E69F00", "*": "#009E73", "/": "#CC79A7"}
MARKERS = {"all": "o", "+": "s", "-": "D", "*": "^", "/": "v"}
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "savefig.dpi": 150,
}


def plot(out: Path, files: Sequence[Path]) -> list[Path]:
    """Draw each file into the folder `out`; returns the pictures' paths.

    `metrics.jsonl` of a run gives NAME-curves.png; a record of `eval --json`, NAME.json, gives
    NAME-reliability.png, NAME-lengths.png and, where there are steps, NAME-faults.png. Nothing is
    written unless all can be drawn; UserError, one line, says why one cannot.
    """

    def figures() -> Iterator[tuple[str, Figure]]:
        drawn = set()
        for file in files:
            for name, figure in draw(file).items():
                if name in drawn:
                    raise DataError(f"{file}: another file gives {name}.png as well")
                drawn.add(name)
                yield name, figure

    return write_pictures(out, figures())


def write_pictures(out: Path, figures: Iterable[tuple[str, Figure]]) -> list[Path]:
    """Draw NAME.png in the folder `out` for each (NAME, figure); returns the pictures' paths.

    The figures are made as they are asked for, in our style. Nothing is written unless all can be
    drawn; raises UserError where matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise UserError("plots need matplotlib: pip install 'calcgpt[lab]'") from None
    with matplotlib.rc_context(STYLE):
        pictures = {out / f"{name}.png": _png(figure) for name, figure in figures}
    out.mkdir(parents=True, exist_ok=True)
    for path, content in pictures.items():
        write_bytes(path, content)
    return list(pictures)


def draw(file: Path) -> dict[str, Figure]:
    """The figures of one file, by name. A run's `metrics.jsonl` is named by its folder."""
    if file.suffix == ".jsonl":
        name = file.resolve().parent.name if file.stem == "metrics" else file.stem
        return {f"{name}-curves": draw_curves(read_curves(file), name)}
    if file.suffix != ".json":
        raise DataError(f"{file}: neither a metrics.jsonl nor a .json that `eval` wrote")
    record, name = read_record(file), file.stem
    figures = {
        f"{name}-reliability": draw_reliability(record),
        f"{name}-lengths": draw_lengths(record),
    }
    if record.first_faults is not None:
        figures[f"{name}-faults"] = draw_faults(record)
    return figures


def draw_curves(curves: Curves, name: str) -> Figure:
    """Loss and, where it was measured, exact match on validation against tokens seen."""
    figure = new_figure(9, 7 if curves.exact_match else 4)
    panels = figure.subplots(2 if curves.exact_match else 1, sharex=True, squeeze=False)[:, 0]
    loss = panels[0]
    _line(loss, curves.loss, "training", color=COLOURS["+"], linewidth=1.5)
    _line(loss, curves.val_loss, "validation", color=COLOURS["-"], marker="D", markersize=4)
    values = [value for _, value in curves.loss + curves.val_loss]
    if min(values) > 0 and max(values) > 10 * min(values):
        loss.set_yscale("log")
    loss.set_ylabel("loss (nats per token)")
    loss.set_title(name, parse_math=False)
    if curves.exact_match:
        labels = {"all": "all"} | {str(op): label for op, label in OPERATIONS.items()}
        for operation, points in curves.exact_match.items():
            style: dict[str, Any] = {"linewidth": 2.5} if operation == "all" else {}
            _line(panels[1], points, labels[operation], color=COLOURS[operation],
                  marker=MARKERS[operation], markersize=5, **style)  # fmt: skip
        panels[1].set(ylim=(-0.03, 1.03), ylabel="exact match on validation")
    for axes in panels:
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))  # beside: curves are everywhere
    panels[-1].set_xlabel("training tokens seen (millions)")
    return figure


def draw_reliability(record: Record) -> Figure:
    """The accuracy of each bin of confidence, and below it how many problems are in the bin."""
    figure = new_figure(6.5, 7.5)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    full = [b for b in record.confidence.reliability.bins if b.n]
    x = [b.confidence or 0.0 for b in full]
    y = [b.accuracy or 0.0 for b in full]
    bounds = [wilson(share, b.n) for share, b in zip(y, full, strict=True)]
    errors = [
        [max(0.0, share - low) for share, (low, _) in zip(y, bounds, strict=True)],
        [max(0.0, high - share) for share, (_, high) in zip(y, bounds, strict=True)],
    ]
    upper.plot([0, 1], [0, 1], color="#888888", linestyle="--", label="perfectly calibrated")
    upper.errorbar(x, y, errors, color=COLOURS["+"], marker="o", linestyle="none", capsize=4,
                   label="a bin's mean, with its 95% interval")  # fmt: skip
    upper.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="exact match (share of the bin)")
    figure.legend(loc="outside lower center", ncols=2)
    upper.grid()
    bars = lower.bar([b.low for b in full], [b.n for b in full], [b.high - b.low for b in full],
                     align="edge", color=COLOURS["+"], edgecolor="white")  # fmt: skip
    lower.bar_label(bars, [f"{b.n:,}" for b in full], fontsize=9)
    lower.set_yscale("log")
    lower.set_ylim(0.5, 10 * max(b.n for b in full) if full else 1)
    lower.set(ylabel="problems", xlabel="confidence (probability of work and answer together)")
    error = record.confidence.reliability.expected_calibration_error
    upper.set_title(f"{_title(record)}\nexpected calibration error {error:.4f}", parse_math=False)
    return figure


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95% interval of a share that was found in n trials (Wilson 1927)."""
    z = 1.96
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return centre - half, centre + half


def draw_lengths(record: Record) -> Figure:
    """A map for each operation: exact match by the operands' lengths, with counts."""
    tables = {op: record.by_length[op] for op in OPERATIONS if op in record.by_length}
    columns = min(2, len(tables))
    rows = math.ceil(len(tables) / columns)
    size = 1.2 + 0.52 * max(len(table.n) for table in tables.values())
    figure = new_figure(max(6.5, columns * size + 1), rows * size + 1)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, (operation, table) in zip(panels, tables.items(), strict=False):
        _map(axes, table)
        axes.set_title(OPERATIONS[operation])
        axes.set(xlabel="digits of B", ylabel="digits of A")
    for axes in panels[len(tables) :]:
        axes.set_axis_off()
    figure.colorbar(panels[0].images[0], ax=panels, label="exact match (share of the problems)",
                    shrink=0.7)  # fmt: skip
    figure.suptitle(
        f"{_title(record)}\nin a cell: problems, and ✗ wrong answers; digits are those of the "
        "magnitude in hundredths",
        parse_math=False, fontsize=11,
    )  # fmt: skip
    return figure


def _map(axes: Axes, table: Lengths) -> None:
    """One heat map; cells without problems stay blank."""
    import numpy as np

    n, right = np.array(table.n), np.array(table.right)
    shares = np.ma.masked_where(n == 0, right / np.maximum(n, 1))
    axes.imshow(shares, vmin=0, vmax=1, cmap="viridis", origin="lower")
    for a, b in np.argwhere(n):
        wrong = n[a, b] - right[a, b]
        text = _short(n[a, b]) + (f"\n✗{_short(wrong)}" if wrong else "")
        colour = "black" if shares[a, b] > 0.55 else "white"
        axes.text(b, a, text, ha="center", va="center", color=colour, fontsize=9)
    axes.set(xticks=range(len(n)), yticks=range(len(n)))


def draw_faults(record: Record) -> Figure:
    """How many wrong answers first go wrong in each kind of step, the most frequent on top."""
    from matplotlib.ticker import MaxNLocator

    faults = record.first_faults or {}
    totals = +sum((Counter(counts) for counts in faults.values()), Counter[str]())
    headings = [heading for heading, _ in reversed(totals.most_common())]
    figure = new_figure(8, 2 + 0.45 * max(3, len(headings)))
    axes = figure.subplots()
    axes.set_title(f"{_title(record)}\n{sum(totals.values()):,} wrong answers, by the first wrong "
                   "step", parse_math=False)  # fmt: skip
    if not headings:
        axes.text(0.5, 0.5, "no wrong answers", ha="center", va="center")
        axes.set_axis_off()
        return figure
    places, left = range(len(headings)), [0] * len(headings)
    for operation, label in OPERATIONS.items():
        counts = [faults.get(operation, {}).get(heading, 0) for heading in headings]
        if any(counts):
            axes.barh(places, counts, left=left, label=label, color=COLOURS[operation])
            left = [start + count for start, count in zip(left, counts, strict=True)]
    for place, total in zip(places, left, strict=True):
        axes.annotate(f"{total:,}", (total, place), (4, 0), textcoords="offset points",
                      va="center")  # fmt: skip
    axes.set_yticks(places, headings, parse_math=False)
    axes.set(xlabel="wrong answers", xlim=(0, 1.1 * max(left)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="x")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; without pyplot, so that no window system is asked for."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _line(axes: Axes, points: list[Point], label: str, **style: Any) -> None:
    if points:
        axes.plot([tokens / 1e6 for tokens, _ in points], [v for _, v in points], label=label,
                  **style)  # fmt: skip


def _title(record: Record) -> str:
    how = f" at temperature {record.temperature:g}" if record.temperature else ""
    return (
        f"{record.checkpoint} on {record.file}{how}: {record.n:,} problems, "
        f"exact match {record.exact_match:.4f}"
    )


def _short(count: int) -> str:
    """A count in at most five characters, up to a million: 9,876 or 12k."""
    return f"{count:,}" if count < 10_000 else f"{count // 1000:,}k"


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")  # drawn by Agg, whatever the backend
    return buffer.getvalue()
