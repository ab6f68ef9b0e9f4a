"""Tables and numbers as text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from calcgpt_lab.tables import counted, duration, markdown_table, printable, significant, text_table

ROWS = [["first", "1,000", None, "0.5"], ["b", None, None, "12.25"]]


def test_a_text_table_aligns_its_columns_and_leaves_empty_ones_out() -> None:
    assert text_table(["", "n", "lost", "score"], ROWS).splitlines() == [
        "           n  score",
        "first  1,000    0.5",
        "b          -  12.25",
    ]
    assert text_table([], [["a", "x", "1"], ["bb", "yyy", "20"]], left=2).splitlines() == [
        "a   x     1",
        "bb  yyy  20",
    ]
    assert text_table([], [["a", "1"]]) == "a  1"


def test_a_markdown_table() -> None:
    assert markdown_table(["name", "score"], [["a much longer name", "1.0"], ["b|c\n", None]]) == (
        "| name | score |\n|---|---|\n| a much longer name | 1.0 |\n| b\\|c |  |"
    )


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=4))
def test_a_markdown_table_has_one_line_for_each_row(rows: list[list[str]]) -> None:
    lines = markdown_table(["a", "b", "c"], rows).split("\n")
    assert len(lines) == 2 + len(rows)
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in lines)


def test_numbers_and_names() -> None:
    assert [significant(x) for x in (0.0082364, 2.41234, 273.24, 1.0)] == [
        "0.008236",
        "2.412",
        "273.2",
        "1.000",
    ]
    assert duration(3723.4) == "1:02:03"
    assert printable("a\nb\x1b[") == "a?b?["


def test_one_thing_is_not_plural() -> None:
    assert [counted(n, "GPU") for n in (0, 0.5, 1, 2)] == ["0 GPUs", "0.5 GPUs", "1 GPU", "2 GPUs"]
