"""Problems as text: render and parse are inverses, and nothing else is read."""

from collections.abc import Callable

import pytest
from datagen_strategies import numbers, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen import notation
from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.errors import NotationError, UserError
from datagen.notation import (
    ALPHABET,
    PROMPT_LENGTH,
    WIDTH,
    answer_text,
    number_from_text,
    number_text,
    parse,
    parse_answer,
    parse_prompt,
    render,
    render_answer,
    render_prompt,
)

LINES = [
    ("$(0000753.78+0000000910)=87.3661000$", "753.78", "+", "910", "1663.78"),
    ("$(0000000782+0000000021)=3080000000$", "782", "+", "21", "803"),
    ("$(0000002.08-0000136.22)=41.431-000$", "2.08", "-", "136.22", "-134.14"),
    ("$(0000313.46*0000000217)=28.0208600$", "313.46", "*", "217", "68020.82"),
    ("$(0000000573*0000351.77)=12.4651020$", "573", "*", "351.77", "201564.21"),
    ("$(0000000400/0000000344)=61.1000000$", "400", "/", "344", "1.16"),
    ("$(0000000471/0000000299)=85.1000000$", "471", "/", "299", "1.58"),
]

edits = st.tuples(
    st.integers(0, 60), st.sampled_from(["change", "insert", "remove"]), st.sampled_from(ALPHABET)
)


def edited(text: str, edit: tuple[int, str, str]) -> tuple[str, int]:
    """The text with one character changed, inserted or removed, and where."""
    where, how, character = edit
    where %= len(text) + (how == "insert")
    rest = text[where:] if how == "insert" else text[where + 1 :]
    return text[:where] + ("" if how == "remove" else character) + rest, where


@pytest.mark.parametrize(("line", "a", "op", "b", "result"), LINES)
def test_known_lines(line: str, a: str, op: str, b: str, result: str) -> None:
    problem = Problem(number_from_text(a), Operation(op), number_from_text(b))
    assert render(problem) == line
    assert parse(line) == problem
    assert answer_text(answer(problem)) == result


@settings(max_examples=1000)
@given(problems)
def test_parse_is_the_inverse_of_render(problem: Problem) -> None:
    line = render(problem)
    assert parse(line) == problem
    assert parse_prompt(line[:PROMPT_LENGTH]) == problem
    assert parse_answer(line[PROMPT_LENGTH:-1]) == answer(problem)


@given(problems)
def test_a_line_has_its_characters_where_they_belong(problem: Problem) -> None:
    line = render(problem)
    assert set(line) <= set(ALPHABET)
    assert (line[:2], line[12], line[23:25], line[-1]) == ("$(", problem.op, ")=", "$")
    field, text = line[25:-1], answer_text(answer(problem))
    assert len(field) == max(WIDTH, len(text))
    assert field[::-1].endswith(text)
    assert set(field[len(text) :]) <= {"0"}
    for operand, padded in ((problem.a, line[2:12]), (problem.b, line[13:23])):
        assert padded == "0" * (WIDTH - len(number_text(operand))) + number_text(operand)
    assert render_prompt(problem) + render_answer(answer(problem)) + "$" == line


def test_the_alphabet_is_sorted_and_complete() -> None:
    assert sorted(ALPHABET) == list("$()*+-./0123456789=an")


@given(numbers)
def test_number_text_is_how_python_writes_it(number: Number) -> None:
    text = number_text(number)
    assert number_from_text(text) == number
    assert text == str(float(text) if number.point else int(text))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("-", 1),
        ("007", 1),
        ("-07", 2),
        ("1.", 2),
        (".5", 0),
        ("1.50", 3),
        ("1.00", 3),
        ("1.234", 4),
        ("-0", 2),  # it could have become -0.5
        ("-0.0", 4),
        ("-0.00", 4),
        ("1e5", 1),
        ("+5", 0),
        ("5 ", 1),
        ("٣", 0),  # a digit, but not one of ours
        ("1,5", 1),
        ("nan", 0),
        ("9" * 5000, 100),
    ],
)
def test_what_is_not_a_number(text: str, position: int) -> None:
    with pytest.raises(NotationError) as caught:
        number_from_text(text)
    assert caught.value.position == position
    assert f"position {position}" in str(caught.value)
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize(
    ("field", "position"),
    [
        ("00000-0012", 7),  # zeros after the minus sign
        ("000001.500", 6),  # the point leaves room for three places
        ("0000001.50", 9),  # a trailing zero
        ("00000000-0", 9),
        ("000000-0.0", 9),
        ("000000012.", 9),
        ("000000000-", 9),
        (".000000001", 0),
        ("0.00000001", 1),
    ],
)
def test_operands_that_are_not_canonical(field: str, position: int) -> None:
    with pytest.raises(NotationError) as caught:
        parse_prompt(f"$({field}+0000000001)=")
    assert caught.value.position == 2 + position
    with pytest.raises(NotationError) as caught:
        parse_prompt(f"$(0000000001+{field})=")
    assert caught.value.position == 13 + position


def offence(parse_text: Callable[[str], object], text: str) -> NotationError | None:
    """The error that a text raises, if any."""
    try:
        parse_text(text)
    except NotationError as error:
        return error
    return None


@settings(max_examples=1000)
@given(problems, edits)
def test_edited_lines_are_refused_or_mean_something_else(
    problem: Problem, edit: tuple[int, str, str]
) -> None:
    line = render(problem)
    text, where = edited(line, edit)
    if error := offence(parse, text):
        # What stands before the edit began a valid line, so the offence cannot lie there.
        assert where <= error.position <= len(text)
        assert f"position {error.position}" in str(error)
    else:
        assert render(parse(text)) == text
        assert (parse(text) == problem) == (text == line)


@settings(max_examples=1000)
@given(problems, edits)
def test_edited_answers_are_refused_or_mean_something_else(
    problem: Problem, edit: tuple[int, str, str]
) -> None:
    text, where = edited(render_answer(answer(problem)), edit)
    if error := offence(parse_answer, text):
        assert where <= error.position <= len(text)
    else:
        assert render_answer(parse_answer(text)) == text


@given(st.text(alphabet=ALPHABET, max_size=40) | st.text(max_size=40))
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert 0 <= caught.value.position <= len(text)
    with pytest.raises(NotationError):
        parse_prompt(text)


@given(problems)
def test_a_wrong_answer_is_refused_where_it_differs(problem: Problem) -> None:
    line = render(problem)
    wrong = line[:PROMPT_LENGTH] + ("1" if line[PROMPT_LENGTH] != "1" else "2")
    with pytest.raises(NotationError) as caught:
        parse(wrong + line[PROMPT_LENGTH + 1 :])
    assert caught.value.position == PROMPT_LENGTH


@pytest.mark.parametrize("end", ["", "\n", "$", "0"])
def test_a_line_ends_where_it_should(end: str) -> None:
    line = LINES[0][0]
    text = line + end if end else line[:-1]
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert caught.value.position == (len(line) if end else len(line) - 1)


@pytest.mark.parametrize(
    "number",
    [Number(100 * 10**10, False), Number(-100 * 10**9, False), Number(10**10, True)],
)
def test_a_number_too_wide_for_an_operand(number: Number) -> None:
    with pytest.raises(NotationError) as caught:
        render(Problem(number, Operation.ADD, Number(0, False)))
    assert caught.value.position == 0
    assert notation.number_text(number) in str(caught.value)


def test_answers_longer_than_the_field_are_not_padded() -> None:
    large = Number(100 * 9_999_999_999, False)
    line = render(Problem(large, Operation.MUL, large))
    assert line == "$(9999999999*9999999999)=10000000008999999999$"
    assert parse(line) == Problem(large, Operation.MUL, large)
    assert parse_answer("10000000008999999999") == Number(9999999998000000000100, False)
    for padded in ("100000000089999999990", "00000000000", "3210000000000"):
        with pytest.raises(NotationError):
            parse_answer(padded)
    with pytest.raises(NotationError):
        parse_answer("9" * 5000)
