"""Whether a model's confidence predicts its errors, measured on scored problems.

    python -m research.confidence FILE ... [--target SHARE] [--by whole|weakest_step|answer] \
        [--out FOLDER]

- Calibration: whether as many answers are wrong as the confidence says, by class of problems and by
  decades of the doubt, 1 - confidence.
- Selective risk: how many of the answers above a threshold are wrong (Geifman & El-Yaniv 2017).
- Thresholds with a guarantee. What is bounded is the risk: the share of problems that are answered
  above the threshold, and wrong. It cannot grow as the threshold rises. `conformal` bounds its mean
  over all draws of the scored problems and of a new one (conformal risk control; Angelopoulos et
  al. 2024, theorem 1). `high_probability` bounds it for all but 5% of the draws of the scored
  problems (risk-controlling prediction sets; Bates et al. 2021, theorem 1; bound of Clopper &
  Pearson 1934). Both assume that new problems are drawn as the scored ones were, independently.

Matplotlib comes with the extra `lab` and is imported where it is used.

Ran at commit 6ccd8f9 and before, as a command of `calcgpt`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import parser, run, write
from calcgpt.errors import DataError
from calcgpt.plots import new_figure, save_figures, series_style
from calcgpt.statistics import LEVEL, binomial_cdf, clopper_pearson, upper_bound
from calcgpt.tables import text_table
from datagen.operations import SIGNS
from research.coverage import scored_problems
from tools.problem_classes import most_digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECADES = 6  # of the doubt: the last is all below 10**-DECADES
LENGTHS = ((1, 3), (4, 7), (8, 12), (13, 100))  # digits of the longer operand
POINTS = 200  # of a curve

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Guarantee(NamedTuple):
    """A threshold for a target risk, and the share of problems that it keeps. The threshold is None
    if too few problems were scored."""

    threshold: float | None  # answers with a confidence above it are kept
    kept: float  # share of the problems
    wrong: int  # answers among the kept ones
    needs: int  # minimum number of scored problems for a threshold, if none is answered wrong


def conformal(confidence: Floats, right: Flags, target: float) -> Guarantee:
    """Returns the lowest threshold whose risk is on average at most `target`.

    With k wrong answers above it among n, (k + 1) / (n + 1) is at most the target.
    """
    needs = math.ceil(1 / target - 1 - 1e-9)
    allowed = math.floor(target * (len(confidence) + 1) + 1e-9) - 1
    return _threshold(confidence, right, allowed, needs)


def high_probability(confidence: Floats, right: Flags, target: float) -> Guarantee:
    """Returns the lowest threshold whose risk is at most `target`, which fails for at most 5% of
    the sets of scored problems."""
    needs = math.ceil(math.log(1 - LEVEL) / math.log1p(-target))
    n = len(confidence)
    too_many = bisect_left(
        range(n), True, key=lambda wrong: binomial_cdf(wrong, n, target) > 1 - LEVEL
    )
    return _threshold(confidence, right, too_many - 1, needs)


def _threshold(confidence: Floats, right: Flags, allowed: int, needs: int) -> Guarantee:
    """Returns the lowest threshold with at most `allowed` wrong answers above it."""
    if allowed < 0:
        return Guarantee(None, 0.0, 0, needs)
    wrong = np.sort(confidence[~right])[::-1]
    threshold = float(wrong[allowed]) if allowed < len(wrong) else 0.0
    kept = confidence > threshold
    return Guarantee(threshold, float(kept.mean()), int((~right & kept).sum()), needs)


class ProblemClass(NamedTuple):
    """A class of problems: how many are wrong, and how many would be if confidences were right."""

    name: str
    n: int
    wrong: int
    expected: float
    interval: tuple[float, float]  # of the share of wrong ones


@dataclass(frozen=True)
class ConfidenceReport:
    """What one file of scored problems says about a model's confidence."""

    name: str
    confidence: Floats  # (n,)
    right: Flags
    classes: list[ProblemClass]

    def guarantees(self, targets: Sequence[float]) -> list[dict[str, Any]]:
        """Returns the thresholds for each target, and a test of them: with a threshold chosen on
        every other problem, how many of the rest are wrong above it."""
        rows = []
        for target in targets:
            row: dict[str, Any] = {"target": target}
            for method in (conformal, high_probability):
                guarantee = method(self.confidence, self.right, target)
                row[method.__name__] = guarantee._asdict()
            row["held_out"] = self._held_out(target)
            rows.append(row)
        return rows

    def _held_out(self, target: float) -> dict[str, Any] | None:
        chosen = conformal(self.confidence[::2], self.right[::2], target)
        if chosen.threshold is None:
            return None
        confidence, right = self.confidence[1::2], self.right[1::2]
        kept = confidence > chosen.threshold
        wrong = int((~right & kept).sum())
        return {"n": len(confidence), "wrong": wrong, "bound": upper_bound(wrong, len(confidence))}

    def decades(self) -> list[ProblemClass]:
        """Returns the problems by the decade of their doubt, the largest first."""
        doubt = np.maximum(1 - self.confidence, 10.0 ** -(DECADES + 1))
        decade = np.clip(np.ceil(-np.log10(doubt)).astype(int) - 1, 0, DECADES)
        names = [f"{10.0**-i:g} to {10.0 ** -(i + 1):g}" for i in range(DECADES)]
        names.append(f"below {10.0**-DECADES:g}")
        return [
            _class(name, self.confidence[rows], self.right[rows])
            for index, name in enumerate(names)
            if (rows := decade == index).any()
        ]

    def curve(self) -> list[tuple[float, float, float]]:
        """Returns points of the selective risk: the share of problems kept, the share of them that
        is wrong, and its upper bound."""
        order = np.argsort(-self.confidence, kind="stable")
        wrong = np.cumsum(~self.right[order])
        n = len(wrong)
        sizes = np.unique(np.linspace(max(1, n // POINTS), n, min(POINTS, n)).astype(int))
        return [
            (size / n, count / size, upper_bound(count, size))
            for size, count in zip(sizes.tolist(), wrong[sizes - 1].tolist(), strict=True)
        ]

    def record(self, targets: Sequence[float]) -> dict[str, Any]:
        """Returns this file's part of what `--json` writes."""
        return {
            "n": len(self.confidence),
            "wrong": int((~self.right).sum()),
            "guarantees": self.guarantees(targets),
            "classes": [row._asdict() for row in self.classes],
            "decades": [row._asdict() for row in self.decades()],
            "curve": self.curve(),
        }


def _class(name: str, confidence: Floats, right: Flags) -> ProblemClass:
    n, wrong = len(right), int((~right).sum())
    return ProblemClass(name, n, wrong, float((1 - confidence).sum()), clopper_pearson(wrong, n))


def read_report(path: Path, measure: str) -> ConfidenceReport:
    """Returns what a file of scored problems says, by one of the three numbers of a confidence.

    Raises DataError or ConfigError, which names the first bad line.
    """
    confidence, right, keys = [], [], []
    for problem, row in scored_problems(path):
        confidence.append(getattr(row.confidence, measure))
        right.append(row.right)
        length = most_digits(problem)
        keys.append((str(problem.op), next(i for i, (_, b) in enumerate(LENGTHS) if length <= b)))
    if not confidence:
        raise DataError(f"{path} has no scored problems")
    columns = np.array(confidence), np.array(right, bool)
    names = {
        (str(operation), i): f"{operation} {low}{f' to {high}' if high < 100 else '+'} digits"
        for operation in SIGNS
        for i, (low, high) in enumerate(LENGTHS)
    }
    class_index = np.array([list(names).index(key) for key in keys])
    classes = [
        _class(name, *(column[class_index == i] for column in columns))
        for i, name in enumerate(names.values())
        if (class_index == i).any()
    ]
    return ConfidenceReport(path.stem, *columns, classes)


def guarantee_table(reports: Sequence[ConfidenceReport], targets: Sequence[float]) -> str:
    """Returns the thresholds of all files for a terminal."""
    header = ["file", "n", "wrong", "at most", "on average, above", "kept", "at 95%, above", "kept"]
    rows = []
    for report in reports:
        for row in report.guarantees(targets):
            cells = [report.name, f"{len(report.confidence):,}", f"{int((~report.right).sum()):,}"]
            cells.append(f"1 in {1 / row['target']:,.0f}")
            for name in ("conformal", "high_probability"):
                threshold = row[name]["threshold"]
                if threshold is None:
                    cells += [f"needs {row[name]['needs']:,}", ""]
                else:
                    cells += [f"{threshold:.7f}", f"{row[name]['kept']:.2%}"]
            rows.append(cells)
    return text_table(header, rows)


def class_table(report: ConfidenceReport) -> str:
    """Returns the calibration by class and by decade of the doubt for a terminal."""
    header = [report.name, "n", "wrong", "expected", "95% interval of the share"]
    rows = [
        [
            row.name,
            f"{row.n:,}",
            f"{row.wrong:,}",
            f"{row.expected:.2f}",
            "{:.1e} to {:.1e}".format(*row.interval),
        ]
        for row in (*report.classes, *report.decades())
    ]
    return text_table(header, rows)


def draw_confidence(out: Path, reports: Sequence[ConfidenceReport]) -> list[Path]:
    """Draws confidence.png into the folder `out`; returns the path.

    Left: the share of wrong answers against what the confidence says, with 95% intervals. Right:
    the share of wrong answers among those kept, as the threshold rises; pale: its upper bound.
    Raises what `save_figures` raises.
    """
    return save_figures(out, {"confidence": lambda: _draw(reports)})


def _draw(reports: Sequence[ConfidenceReport]) -> Figure:
    figure = new_figure(12, 5)
    calibration, risk = figure.subplots(1, 2)
    ends = [10.0 ** -(DECADES + 1), 1.0]
    calibration.plot(ends, ends, color="grey", linewidth=1)
    for index, report in enumerate(reports):
        style = series_style(index)
        rows = [row for row in report.decades() if row.expected > 0]
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
            label=f"{report.name}, {len(report.confidence):,} problems",
        )
        kept, wrong, bound = zip(*report.curve(), strict=True)
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


def main() -> None:
    """Measures how far a model's confidence can be trusted, from files of `eval --scored`."""
    options = parser("Measure how far a model's confidence can be trusted, from scored problems.")
    options.add_argument("files", nargs="+", type=Path)
    options.add_argument("--target", type=float, nargs="+", default=[1e-3, 1e-4, 1e-5])
    options.add_argument("--by", choices=("whole", "weakest_step", "answer"), default="whole")
    options.add_argument("--out", type=Path, help="draw the curves in this folder")
    given = options.parse_args()
    reports = [read_report(file, given.by) for file in given.files]
    if given.out:
        print(*draw_confidence(given.out, reports), sep="\n")
    write(given.json, {report.name: report.record(given.target) for report in reports})
    print(*(f"{class_table(report)}\n" for report in reports), sep="\n")
    print(guarantee_table(reports, given.target))


if __name__ == "__main__":
    run(main)
