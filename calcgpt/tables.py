"""Tables and figures for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

DASH = "-"  # where there is nothing to say


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Rows as a table, the first column to the left, the others to the right. Columns of which all
    but the first row are DASH are left out. A table that is wider than `width` characters goes on
    below, with its first column again."""
    first, *others = zip(*rows, strict=True)
    begin = _padded(first, left=True)
    blocks = [begin]
    for column in others:
        if not set(column[1:]) - {DASH}:
            continue
        cells = _padded(column)
        longer = _joined(blocks[-1], cells)
        if width is not None and len(longer[0]) > width and blocks[-1] is not begin:
            blocks.append(_joined(begin, cells))
        else:
            blocks[-1] = longer
    return "\n\n".join("\n".join(row.rstrip() for row in block) for block in blocks)


def significant(number: float) -> str:
    """Four digits: 0.008236, 2.412, 273.2."""
    return f"{number:#.4g}".removesuffix(".")


def duration(seconds: float) -> str:
    """As hours, minutes and seconds: 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def printable(text: str) -> str:
    """On one line of any terminal, with `?` for what has no place there."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _padded(column: Sequence[str], left: bool = False) -> list[str]:
    width = max(map(len, column))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in column]


def _joined(left: Sequence[str], right: Sequence[str]) -> list[str]:
    return [f"{a}  {b}" for a, b in zip(left, right, strict=True)]
