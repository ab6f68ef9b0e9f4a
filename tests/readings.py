"""The rows of `data/readings.tsv`, the contract of how what people type is read."""

import csv
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A line of the table: what is typed, and how it is read or why it is refused."""

    typed: str
    options: str
    expression: str
    result: str
    reading: str
    error: str


def rows() -> list[Row]:
    lines = (
        (Path(__file__).parent / "data" / "readings.tsv").read_text(encoding="utf-8").splitlines()
    )
    table = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return [Row(*row[:6]) for row in list(table)[1:] if not row[0].startswith("#")]
