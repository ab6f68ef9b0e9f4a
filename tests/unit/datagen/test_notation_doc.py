"""What docs/NOTATION.md shows is what the code writes."""

import itertools
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest
from datagen_strategies import decimal, digits_and_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen import notation, steps, vectorised
from datagen.arithmetic import OPERATIONS, Operation, Problem, answer
from datagen.distributions import distribution
from datagen.drawing import bit_generator
from datagen.steps import (
    StepKind,
    first_error,
    loose_digits,
    n_digits,
    render_work,
    result,
    trailing_zeros,
)
from datagen.vectorised_steps import render_lines

DOC = (Path(__file__).parents[3] / "docs" / "NOTATION.md").read_text("utf-8")
W = 7  # of all lines there


@dataclass(frozen=True)
class Example:
    """An operation spelled out: the line, the work under its ruler, the pieces of the table."""

    problem: Problem
    tens: str
    units: str
    work: str
    pieces: list[tuple[int, str]]
    meanings: list[str]


def section(title: str) -> str:
    """The text under a heading, as far as the next one."""
    [text] = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", DOC, flags=re.M | re.S)
    return str(text)


def table(text: str) -> list[list[str]]:
    """The cells of the lines of a table, without its head."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def example(title: str) -> Example:
    text = section(title)
    [line] = re.findall(r"^\$\(\S+", text, flags=re.M)
    [(tens, units, work)] = re.findall(r"^([ 1-9]+)\n([0-9]+)\n([xy]\S+)$", text, flags=re.M)
    problem = notation.parse_prompt(line[: line.index("=") + 1])
    pieces = [(int(row[0]), row[1].strip("`")) for row in table(text)]
    return Example(problem, tens, units, work, pieces, [row[2] for row in table(text)])


EXAMPLES = ["Addition", "Subtraction", "Multiplication", "Division"]
LINES = re.findall(r"^(\$\d?\(\S+)(?: +(.*))?$", DOC, flags=re.M)


@pytest.mark.parametrize(("line", "equation"), LINES)
def test_every_line_is_what_the_code_writes(line: str, equation: str) -> None:
    problem = notation.parse_prompt(line[: line.index("=") + 1])
    direct = line.count("=") == 1
    assert line == (notation.render(problem) if direct else steps.render(problem, W))
    if equation:
        a, b = (notation.number_text(number) for number in (problem.a, problem.b))
        assert equation == f"{a} {problem.op} {b} = {notation.answer_text(answer(problem))}"


def test_no_line_is_missed() -> None:
    assert len(LINES) == len(re.findall(r"\n\$\d*\(", DOC)) > 17
    assert {line.count("=") for line, _ in LINES} == {1, 2}
    assert {line[1] for line, _ in LINES} == {"(", "8", "9"}
    assert "= nan" in DOC
    assert max(map(len, DOC.splitlines())) <= 110


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_pieces_of_an_example_are_its_work(title: str) -> None:
    sample = example(title)
    assert sample.work == render_work(sample.problem, W)
    assert "".join(step for _, step in sample.pieces) == sample.work
    places = [sum(len(step) for _, step in sample.pieces[:i]) for i in range(len(sample.pieces))]
    assert [at - 1 for at, _ in sample.pieces] == places
    numbers = range(1, len(sample.work) + 1)
    assert sample.units == "".join(str(number % 10) for number in numbers)
    tens = "".join(str(number // 10) if number % 10 == 0 else " " for number in numbers)
    assert sample.tens == tens.rstrip()


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_meaning_of_a_piece_has_its_number(title: str) -> None:
    sample = example(title)
    lengths = iter([n_digits(abs(n.scaled(2))) for n in (sample.problem.b, sample.problem.a)])
    in_row = False
    for (_, step), meaning in zip(sample.pieces, sample.meanings, strict=True):
        numbers = [int(number) for number in re.findall(r"-?\d+", meaning)]
        digits = step[::2] if in_row else re.sub(r"^[xy:](?=\d\d)", "", step)  # without carries
        in_row = bool(re.fullmatch(r"[a-l][-+]?\d", step))
        if digits.isdigit() and len(digits) >= W:
            value = int(digits[::-1])
            assert value in numbers
            if digits.endswith("9"):  # a ten's complement
                assert value - 10 ** len(digits) in numbers
        elif re.fullmatch(r"[xy]\d", step):
            assert numbers[0] == int(step[1]) == next(lengths)
        elif in_row:
            assert int(step[1:]) in numbers
    [answered] = re.findall(r"decimal places: (\S+)", sample.meanings[-1])
    assert answered == notation.answer_text(answer(sample.problem))
    if rounded := re.findall(r"rounded to (\S+):$", section(title), flags=re.M):
        assert rounded == [answered]


def test_the_columns_of_a_row_are_its_digits_and_carries() -> None:
    sample = example("Multiplication")
    columns = dict(
        re.findall(r"^(A|carry|digit|row)  +(\S.*)$", section("Multiplication"), flags=re.M)
    )
    pieces = [step for _, step in sample.pieces]
    row = pieces[pieces.index("a5") + 1]
    assert columns["row"].split() == [row[0], *re.findall("..", row[1:])]
    assert "".join(columns["digit"].split()) == row[::2]
    assert "".join(columns["carry"].split()) == row[1::2]
    assert "".join(columns["A"].split()) == sample.work[1 : 1 + W]


def test_what_is_said_to_be_equal_is() -> None:
    text = "\n".join(line for line in DOC.splitlines() if not line.startswith("$"))
    equations = re.findall(r"(-?\d[\d.]*(?: [-+*/] \d[\d.]*)+) = (-?\d+(?:\.\d+)?)(\.\.\.)?", text)
    assert len(equations) > 10
    for left, right, more in equations:
        total = Fraction(0)
        for sign, factor, others in re.findall(r"(^-?|[-+] )([\d.]+)((?: [*/] [\d.]+)*)", left):
            term = Fraction(factor)
            for operator, number in re.findall(r"([*/]) ([\d.]+)", others):
                term = term * Fraction(number) if operator == "*" else term / Fraction(number)
            total += -term if sign.startswith("-") else term
        if more:
            assert 0 < total - Fraction(right) < Fraction(1, 10 ** len(right.partition(".")[2]))
        else:
            assert total == Fraction(right)
    complements = re.findall(r"(-\d+),? as (\d+)", text)
    assert len(complements) == 3
    for negative, digits in complements:
        assert int(digits) == 10 ** len(digits) + int(negative)


def test_each_operation_has_its_example() -> None:
    assert [example(title).problem.op for title in EXAMPLES] == list(Operation)


def test_other_quotient_digits_come_to_the_same_end() -> None:
    problem = example("Division").problem
    works = re.findall(r"^(y\S+) +(.*): (.*) = (\d+)$", section("Division"), flags=re.M)
    assert len(works) == 3
    for work, digits, terms, total in works:
        chosen = [int(digit) for digit in digits.split(", ")]
        queue = iter(chosen)
        assert work == render_work(problem, W, lambda dividend, divisor, queue=queue: next(queue))
        assert first_error(problem, work, W) is None
        assert result(work) == answer(problem)
        values = [digit * 10**place for place, digit in enumerate(reversed(chosen))][::-1]
        assert terms == " + ".join(str(value) for value in values).replace("+ -", "- ")
        assert int(total) == sum(values)
    assert works[0][0] == render_work(problem, W)
    assert works[-1][0] == render_work(problem, W, loose_digits(problem))


def formula(problem: Problem, digits: int) -> int:
    """The length of a work, as the table in the document has it."""
    length_a, length_b = n_digits(abs(problem.a.scaled(2))), n_digits(abs(problem.b.scaled(2)))
    if problem.op == Operation.MUL:
        rows = length_b - trailing_zeros(abs(problem.b.scaled(2)))
        return 4 * digits + 4 + rows * (2 * digits + 3)
    if problem.op != Operation.DIV:
        return 4 * digits + 9
    if not length_b:
        return 2 * digits + 6
    rows = max(0, length_a - length_b + 4)
    return 3 * digits + 9 + rows * (2 * digits + 4) + (rows > 0)


def test_the_formulas_are_those_of_the_document() -> None:
    assert table(section("How long it is"))[:4] == [
        ["`+` `-`", "4W + 9"],
        ["`*`", "4W + 4 + (L_B - Z_B) (2W + 3)"],
        ["`/`", "3W + 9 + n (2W + 4), and 1 more if n > 0"],
        ["`/` by 0", "2W + 6"],
    ]


def longest(digits: int, op: Operation) -> Problem:
    """A problem of an operation with the longest work, a quotient also with the longest line."""
    most = 10**digits - 1
    a, b = (most - 2, -3) if op == Operation.DIV else (most, most)
    return Problem(decimal(a), op, decimal(b))


def lengths_by_digits() -> dict[int, list[int]]:
    """The table of the longest works and lines: the lengths for each W."""
    rows = re.findall(r"^\| ([3-9]) \| (.*) \|$", section("How long it is"), flags=re.M)
    return {int(w): [int(cell.replace(",", "")) for cell in row.split("|")] for w, row in rows}


@pytest.mark.parametrize("digits", range(steps.MIN_DIGITS, steps.MAX_DIGITS + 1))
def test_works_are_as_long_as_the_formulas_say(digits: int) -> None:
    """For every length of both operands, and all numbers of zeros at the end of B."""
    longest_line = lengths_by_digits()[digits][-1]
    magnitudes = [0, *(10**n - 1 for n in range(1, digits + 1))]
    ends = [10**zeros for zeros in range(1, digits)]  # 10 - 10, 100 - 10, 100 - 100 ...
    divisors = [*magnitudes, *{m + 1 - end for m in magnitudes for end in ends if m > end}]
    for a, b, op in itertools.product(magnitudes, divisors, Operation):
        problem = Problem(decimal(a), op, decimal(-b))
        assert len(render_work(problem, digits)) == formula(problem, digits)
        if len(notation.number_text(problem.b)) <= notation.WIDTH:
            assert len(steps.render(problem, digits)) <= longest_line


@pytest.mark.parametrize("digits", range(steps.MIN_DIGITS, steps.MAX_DIGITS + 1))
def test_the_longest_works_are_as_long_as_the_table_says(digits: int) -> None:
    works = [len(render_work(longest(digits, op), digits)) for op in Operation]
    line = len(steps.render(longest(digits, Operation.DIV), digits))
    below = 10**digits // 100
    plus, minus, times, divided = works
    assert plus == minus
    assert lengths_by_digits()[digits] == [below, plus, times, divided, line]
    assert len(lengths_by_digits()) == steps.MAX_DIGITS - steps.MIN_DIGITS + 1


def test_the_blog_has_lines_as_long_as_the_table_says() -> None:
    lengths: dict[str, list[int]] = {"all": []}
    without = set()
    for problems in distribution("blog")(bit_generator(0, 0, 0), 100_000):
        without |= set(map(len, vectorised.render_lines(problems).splitlines()))
        lines = render_lines(problems, W).splitlines()
        for op, line in zip(problems.op.tolist(), lines, strict=True):
            lengths["all"].append(len(line))
            lengths.setdefault(f"`{OPERATIONS[op]}`", []).append(len(line))
    *_, (_, *means), (_, *longest_lines) = table(section("How long it is"))
    order = ["all", *(f"`{op}`" for op in Operation)]
    assert f"| | {' | '.join(order)} |" in DOC
    assert means == [f"{sum(lengths[name]) / len(lengths[name]):.1f}" for name in order]
    assert longest_lines == [str(max(lengths[name])) for name in order]
    assert re.findall(r"Without steps all have (\d+)", DOC) == [str(n) for n in without]


def test_places_and_rows_are_read_off_the_text() -> None:
    rows = dict(re.findall(r"^(text|place|row) +(\S+)$", section("Place and row"), flags=re.M))
    assert rows["text"] == example("Multiplication").work
    places, marks, place, mark = "", "", 0, ""
    for character in rows["text"]:
        place, mark = (0, character) if character in steps.MARKS else (place + 1, mark)
        places, marks = places + str(place % 10), marks + mark
    assert (rows["place"], rows["row"]) == (places, marks)
    [(n_rows, marked)] = re.findall(r"(\d+)\ncharacters `(.*)`", section("Place and row"))
    assert n_rows == str(len(steps.MARKS))
    assert sorted(marked) == sorted(steps.MARKS)


def test_the_characters_are_those_of_the_alphabet() -> None:
    [(before, more, characters)] = re.findall(
        r"the (\d+) characters of the line.* adds (\d+): `(\S*)`", section("The characters")
    )
    assert set(characters) == set(steps.STEPS_ALPHABET) - set(notation.ALPHABET)
    assert (int(before), int(more)) == (len(notation.ALPHABET), len(characters))


def test_the_kinds_of_step_are_all_there() -> None:
    kinds = [kind for kind, _ in table(section("What the checker says"))]
    assert sorted(kinds) == sorted(StepKind)


def test_the_first_error_is_where_the_document_says() -> None:
    text = section("What the checker says")
    [(work, kind, at, expected, actual)] = re.findall(
        r"In `(\S+)`.*error is a (.*): at (\d+), where (.) was expected, (.) was found",
        text,
        flags=re.S,
    )
    sample = example("Addition")
    places = (int(at), int(at) + W + 2)  # in the sum and in the result
    assert [i for i in range(len(work)) if work[i] != sample.work[i]] == list(places)
    assert {sample.work[i] + work[i] for i in places} == {expected + actual}
    error = first_error(sample.problem, work, W)
    assert error is not None
    assert (error.kind, error.position, error.expected, error.actual) == (
        kind,
        int(at),
        expected,
        actual,
    )


def local_digits(columns: list[int], written: list[int], sign: int) -> list[int]:
    """The digits that follow, each from its own column, the one before it and what was written
    there; carries have the given sign."""
    digits = [columns[0] % 10]
    for before, digit, column in zip(columns, written, columns[1:], strict=False):
        carry = sign * (sign * (digit - before) % 10)  # that went into the column before
        digits.append((column + (before + carry) // 10) % 10)
    return digits


sums = st.sampled_from([Operation.ADD, Operation.SUB])


@settings(max_examples=500)
@given(digits_and_problem, sums)
def test_the_carry_in_a_sum_can_be_read_off_the_digit_before(
    case: tuple[int, Problem], op: Operation
) -> None:
    digits, problem = case
    work = render_work(replace(problem, op=op), digits)
    [(x, y, sign, row)] = re.findall(r"x(\d+)y(\d+)a([+-])(\d+)", work)
    step = 1 if sign == "+" else -1
    columns = [int(i) + step * int(j) for i, j in zip(f"{x}0", f"{y}0", strict=True)]
    written = [int(c) for c in row]
    assert written == local_digits(columns, written, step)
