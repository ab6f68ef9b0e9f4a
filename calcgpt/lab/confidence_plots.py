"""Plots of how far confidence can be trusted.

Matplotlib comes with the extra `lab` and is imported where it is used. Sizes are in inches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calcgpt.lab.confidence import DECADES, Trust
from calcgpt.plots import new_figure, save_figures, series_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_confidence(out: Path, trusts: Sequence[Trust]) -> list[Path]:
    """Draws confidence.png into the folder `out`; returns the path. Errors as `save_figures`.

    Left: the share of wrong answers against what the confidence says, with 95% intervals. Right:
    the share of wrong answers among those kept, as the threshold rises; pale: its upper bound.
    """

    def figures() -> Iterator[tuple[str, Figure]]:
        yield "confidence", _draw(trusts)

    return save_figures(out, figures())


def _draw(trusts: Sequence[Trust]) -> Figure:
    figure = new_figure(12, 5)
    calibration, risk = figure.subplots(1, 2)
    ends = [10.0 ** -(DECADES + 1), 1.0]
    calibration.plot(ends, ends, color="grey", linewidth=1)
    for index, trust in enumerate(trusts):
        style = series_style(index)
        rows = [row for row in trust.decades() if row.expected > 0]
        shares = [max(row.wrong / row.n, ends[0]) for row in rows]
        expected = [row.expected / row.n for row in rows]
        low = [share - min(row.interval[0], share) for share, row in zip(shares, rows, strict=True)]
        high = [max(row.interval[1] - s, 0) for s, row in zip(shares, rows, strict=True)]
        calibration.errorbar(
            expected,
            shares,
            [low, high],
            color=style["color"],
            marker=style["marker"],
            linestyle="",
            capsize=2,
            label=f"{trust.name}, {len(trust.sure):,} problems",
        )
        kept, wrong, bound = zip(*trust.curve(), strict=True)
        risk.plot(kept, [share or float("nan") for share in wrong], color=style["color"])
        risk.plot(kept, bound, color=style["color"], alpha=0.4, linestyle=":")
    calibration.set(
        xscale="log",
        yscale="log",
        xlim=ends,
        ylim=ends,
        xlabel="1 - confidence, mean of a decade",
        ylabel="share of wrong answers",
    )
    calibration.legend(fontsize=8)
    calibration.grid()
    risk.set(
        yscale="log",
        xlim=(0, 1),
        xlabel="share of problems kept, the most confident first",
        ylabel="share of wrong answers among them",
    )
    risk.grid()
    return figure
