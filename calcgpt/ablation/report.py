from collections.abc import Sequence
from pathlib import Path

from calcgpt.ablation.job import Score
from calcgpt.ablation.suite import Suite


def write_report(suite: Suite, scores: Sequence[Score], out: Path) -> list[Path]:
    return []
