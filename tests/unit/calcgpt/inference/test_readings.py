"""The contract of `tests/data/readings.tsv`: how what people type is read, and what it is worth."""

from pathlib import Path

from readings import Row, rows

from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Computation
from calcgpt.inference.exact import plain_text, round_to
from calcgpt.inference.expression_stack import Style
from calcgpt.inference.limits import ScratchpadLimits

PAGE = Path(__file__).parents[4] / "api" / "static"
LIMITS = ScratchpadLimits(block_size=32_768)


def read(row: Row) -> Row:
    """Returns the row as the calculator reads its text."""
    options = dict(option.partition("=")[::2] for option in row.options.split())
    style = Style(
        options.get("percent", "relative"),  # type: ignore[arg-type]
        "decimal_comma" in options,
        options.get("angle", "radians"),  # type: ignore[arg-type]
    )
    places = int(options["places"]) if "places" in options else None
    try:
        asked = Computation(row.typed, "model", LIMITS, places, style=style)
    except ExpressionError as error:
        return row._replace(expression="", result="", reading="", error=error.kind.value)
    result = plain_text(round_to(asked.plan.rounded, asked.places))
    assert plain_text(asked.plan.result.number) == result
    reading = asked.reading or ""
    return row._replace(expression=asked.expression, result=result, reading=reading, error="")


def test_everything_in_the_table_is_read_as_it_says() -> None:
    table = rows()
    assert len(table) > 600
    wrong = [(row, found) for row in table if (found := read(row)) != row]
    assert not wrong


def test_no_input_is_in_the_table_twice() -> None:
    keys = [(row.typed, row.options) for row in rows()]
    assert len(keys) == len(set(keys))
