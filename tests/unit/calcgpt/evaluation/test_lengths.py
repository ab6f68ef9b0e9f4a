"""Tables of exact match by operand lengths."""

from __future__ import annotations

from datagen_strategies import problems
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.data.problems import Line, split_line
from calcgpt.evaluation.evaluate import Evaluation, by_length, score
from datagen.arithmetic import Problem
from datagen.notation import render


def evaluated(lines: list[Line], right: list[bool]) -> Evaluation:
    outputs = [line.field if ok else "" for line, ok in zip(lines, right, strict=True)]
    return Evaluation(score(lines, outputs), lines, outputs, [[]] * len(lines), 1.0)


def test_rows_are_digits_of_a_and_columns_of_b() -> None:
    texts = [
        "$(0000000782+0000000021)=3080000000$",  # 78200 and 2100: five and four
        "$(0000-782.0+0000000021)=0.167-0000$",  # the sign has no digit
        "$(0000000000+0000000.05)=50.0000000$",  # none and one
        "$(0000000471/0000000299)=85.1000000$",
    ]
    tables = by_length(evaluated([split_line(t) for t in texts], [True, False, True, False]))
    empty = [[0] * 6 for _ in range(6)]
    n, right = [list(row) for row in empty], [list(row) for row in empty]
    n[5][4], n[0][1], right[5][4], right[0][1] = 2, 1, 1, 1
    assert tables["+"] == {"n": n, "right": right}
    assert tables["/"]["n"][5][5] == 1
    assert tables["/"]["right"] == empty
    assert list(tables) == ["+", "/"]


@given(st.lists(st.tuples(problems, st.booleans()), min_size=1))
def test_every_problem_stands_where_its_lengths_say(rows: list[tuple[Problem, bool]]) -> None:
    lines = [split_line(render(problem)) for problem, _ in rows]
    tables = by_length(evaluated(lines, [ok for _, ok in rows]))
    size = {len(row) for t in tables.values() for name in t for row in (t[name], *t[name])}
    assert len(size) == 1
    for name, wanted in (("n", (True, False)), ("right", (True,))):
        for op, table in tables.items():
            for a, row in enumerate(table[name]):
                for b, count in enumerate(row):
                    assert count == sum(
                        (p.op.value, digits(p.a.hundredths), digits(p.b.hundredths)) == (op, a, b)
                        and ok in wanted
                        for p, ok in rows
                    )


def digits(hundredths: int) -> int:
    """The least count of digits that the magnitude is below the power of."""
    return next(d for d in range(20) if abs(hundredths) < 10**d)
