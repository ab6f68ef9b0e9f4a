"""The rows of `metrics.jsonl`, one JSON object per line, of training or of validation.

docs/RUNS.md lists the fields.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from calcgpt.base.errors import DataError, UserError
from calcgpt.base.files import MAX_TEXT_BYTES, check_file, parse_json, read_text, write_text
from calcgpt.metrics import Count, PartialModel, Scores, Share
from calcgpt.section import build
from datagen.operations import SIGNS


class TrainingError(UserError):
    """A run cannot continue with its configuration."""


Loss = Annotated[float, Field(ge=0)]
Point = tuple[int, float]  # tokens seen, value


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Returns the 95% confidence interval of a share observed in n trials (Wilson 1927)."""
    z = 1.96
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(centre - half, 0.0), min(centre + half, 1.0)  # exact ends despite rounding


def perplexity(loss: float) -> float:
    """Returns exp(loss) for a loss in nats per token: the number of equally likely tokens that
    would be as hard to predict. It is at most e^100, which only a diverged model can reach."""
    return math.exp(min(loss, 100.0))


# Keys of a row's exact match: over all problems, and by operation.
EXACT_MATCH = {"all": "val_exact_match"} | {str(op): f"val_exact_match{op}" for op in SIGNS}


class Row(PartialModel):
    """A line of `metrics.jsonl`: training rows have `loss`, validation rows have `val_loss`."""

    step: Count
    tokens: Count | None = None
    seconds: Annotated[float, Field(ge=0)] | None = None
    loss: Loss | None = None
    val_loss: Loss | None = None
    val_char_accuracy: Share | None = None
    exact_match: dict[str, Share] = Field(default_factory=dict)  # by the keys of EXACT_MATCH

    @model_validator(mode="before")
    @classmethod
    def _gather_exact_match(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        scores = {key: content[name] for key, name in EXACT_MATCH.items() if name in content}
        return {**content, "exact_match": scores}

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.loss is None) == (self.val_loss is None):
            raise ValueError("a row has either loss or val_loss")
        if self.loss is not None and self.tokens is None:
            raise ValueError("tokens is missing")
        return self


def validation_row(step: int, val_loss: float, scores: Scores | None) -> dict[str, Any]:
    """Returns a validation row of `metrics.jsonl`, as JSON."""
    row = {"step": step, "val_loss": val_loss}
    if scores is not None:
        row["val_char_accuracy"] = scores.char_accuracy
        row[EXACT_MATCH["all"]] = scores.exact_match
        for operation, accuracy in scores.by_operation.items():
            row[EXACT_MATCH[operation]] = accuracy.exact_match
    return row


def read_rows(path: Path) -> list[Row]:
    """Returns the rows of a `metrics.jsonl` by step. Raises DataError or ConfigError, one line, for
    a line that is not a row, and for a file without a training row.

    A killed run can leave a last line without its newline. It is left out.
    """
    lines = read_text(path).split("\n")[:-1]
    rows = []
    for number, line in enumerate(lines, start=1):
        source = f"{path}, line {number}"
        rows.append(build(Row, parse_json(line, source), source))
    if all(row.loss is None for row in rows):
        raise DataError(f"{path} has no training row")
    return sorted(rows, key=lambda row: row.step)


def step_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Returns (line, object) for each line that is a JSON object with an integer `step`; [] if
    there is no such file.

    Reads `metrics.jsonl` and `environment.jsonl` of a run that may have been killed while it wrote.
    """
    try:
        check_file(path, MAX_TEXT_BYTES)
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return []
    lines = []
    for line in text.split("\n"):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict) and isinstance(content.get("step"), int):
            lines.append((line, content))
    return lines


def cut_rows(path: Path, step: int) -> None:
    """Removes the rows after `step`: a resumed run writes them again."""
    if path.exists():
        rows = [line for line, content in step_lines(path) if content["step"] <= step]
        write_text(path, "".join(f"{row}\n" for row in rows))


@dataclass(frozen=True)
class Curves:
    """Losses and scores of a run against the tokens it had seen, each list in order of steps."""

    loss: list[Point]
    val_loss: list[Point]
    exact_match: dict[str, list[Point]]  # by the keys of EXACT_MATCH; only what was measured


def read_curves(path: Path) -> Curves:
    """Returns the curves of a run's `metrics.jsonl`. Raises what `read_rows` raises."""
    return curves(read_rows(path))


def curves(rows: Sequence[Row]) -> Curves:
    """Returns the curves of rows that are in order of steps.

    A validation row has no count of tokens. It gets the count of the last training row at or before
    its step. Validation rows before the first training row are left out.
    """
    training = [row for row in rows if row.loss is not None]
    steps = [row.step for row in training]
    counted = [(bisect_right(steps, row.step), row) for row in rows]  # training rows so far
    points = [(training[n - 1].tokens or 0, row) for n, row in counted if n]
    scores = {
        key: [(tokens, row.exact_match[key]) for tokens, row in points if key in row.exact_match]
        for key in EXACT_MATCH
    }
    return Curves(
        loss=[(tokens, row.loss) for tokens, row in points if row.loss is not None],
        val_loss=[(tokens, row.val_loss) for tokens, row in points if row.val_loss is not None],
        exact_match={key: curve for key, curve in scores.items() if curve},
    )
