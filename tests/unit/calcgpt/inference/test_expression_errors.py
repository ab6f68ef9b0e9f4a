"""What is not an expression, or has no value, is refused with its position, and with what to write
instead: `tests/data/refusals.tsv` has a line for each."""

import json
from pathlib import Path

import pytest

from calcgpt.errors import ExpressionError
from calcgpt.errors import ExpressionErrorKind as Kind
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse

MAX_LENGTH = 10_000
TABLE = (Path(__file__).parents[3] / "data" / "refusals.tsv").read_text("utf-8").splitlines()
ROWS = [line.split("\t") for line in TABLE[1:] if not line.startswith("#")]
LONG = [
    ("z" * 999, Kind.SYNTAX, 0, 999, f"'{'z' * 30}...{'z' * 30}' is not known"),
    ("9" * 5_000 + "e5001", Kind.OUT_OF_RANGE, 0, 5_005, "a number of more than 10,000 digits"),
    ("1" * 1_000_000, Kind.TOO_LONG, MAX_LENGTH, 1_000_000, "longer than 10,000 characters"),
    ("(" * MAX_LENGTH, Kind.SYNTAX, MAX_LENGTH, MAX_LENGTH, "not the end"),
]


@pytest.mark.parametrize(
    ("typed", "kind", "position", "end", "reason"),
    [
        *(
            (json.loads(typed), Kind(kind), int(at), int(end), why)
            for typed, kind, at, end, why in ROWS
        ),
        *LONG,
    ],
)
def test_what_is_not_understood_or_has_no_value_is_refused_with_its_place(
    typed: str, kind: Kind, position: int, end: int, reason: str
) -> None:
    with pytest.raises(ExpressionError) as refused:
        evaluate(parse(typed).expression)
    error = refused.value
    assert (error.kind, error.position, error.end) == (kind, position, end)
    assert reason in str(error)
    assert str(error).isprintable()
