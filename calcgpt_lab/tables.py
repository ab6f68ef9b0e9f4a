"""Tables as text, for a terminal and in Markdown, and the numbers in them."""

from collections.abc import Sequence

from tabulate import DataRow, TableFormat, tabulate

Cells = Sequence[str | None]  # of one row; None where there is no value

# As tabulate's "github", but no cell is padded: one long cell does not widen the other rows.
_MARKDOWN = TableFormat(
    lineabove=None,
    linebelowheader=lambda widths, alignments: "|" + "---|" * len(widths),
    linebetweenrows=None,
    linebelow=None,
    headerrow=DataRow("| ", " | ", " |"),
    datarow=DataRow("| ", " | ", " |"),
    padding=0,
    with_header_hide=None,
)


def text_table(header: Cells, rows: Sequence[Cells], *, left: int = 1) -> str:
    """Returns a table for a terminal, without a header if `header` is empty.

    The first `left` columns are aligned to the left, the others to the right. Columns without a
    value are left out, except the first.
    """
    first, *others = zip(*([header] if header else []), *rows, strict=True)
    n_header = 1 if header else 0
    columns = [column for column in others if any(cell is not None for cell in column[n_header:])]
    return tabulate(
        list(zip(first, *columns, strict=True)),
        tablefmt="plain",
        disable_numparse=True,
        missingval="-",
        colalign=["left" if index < left else "right" for index in range(1 + len(columns))],
    )


def markdown_table(header: Cells, rows: Sequence[Cells]) -> str:
    """Returns a Markdown table. Cells are written on one line each; None gives an empty cell."""
    escaped = [
        [" ".join((cell or "").replace("|", r"\|").split()) for cell in row]
        for row in [header, *rows]
    ]
    return tabulate(
        escaped[1:], escaped[0], tablefmt=_MARKDOWN, disable_numparse=True, stralign=None
    )


def significant(number: float) -> str:
    """Returns a number with four significant digits: 0.008236, 2.412, 273.2."""
    return f"{number:#.4g}".removesuffix(".")


def duration(seconds: float) -> str:
    """Returns a time as hours, minutes and seconds: 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def printable(text: str) -> str:
    """Returns the text on one line, with `?` for each character that a terminal cannot print."""
    return "".join(c if c.isprintable() else "?" for c in text)


def counted(n: float, noun: str) -> str:
    """Returns a number and its noun, such as `1 run` and `2 runs`."""
    return f"{n:g} {noun}{'' if n == 1 else 's'}"
