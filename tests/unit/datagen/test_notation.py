"""Problems as text: render and parse are inverses, and nothing else is read."""

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import product

import pytest
from datagen_strategies import any_numbers, any_problems, fits, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import NotationError, UserError
from datagen import notation
from datagen.arithmetic import Number, Problem, answer
from datagen.notation import (
    ALPHABET,
    WIDTH,
    answer_text,
    number_text,
    parse,
    parse_answer,
    parse_prompt,
    render,
    render_answer,
    render_prompt,
)
from datagen.operations import (
    ADDITION,
    DIVISION,
    OPERATIONS,
)

edits = st.tuples(
    st.integers(0, 300),
    st.sampled_from(["change", "insert", "remove"]),
    st.sampled_from([*ALPHABET, "\n"]),
)


def edited(text: str, edit: tuple[int, str, str]) -> tuple[str, int]:
    """Returns the text with one character changed, inserted or removed, and its position."""
    position, kind, character = edit
    position %= len(text) + (kind == "insert")
    rest = text[position:] if kind == "insert" else text[position + 1 :]
    return text[:position] + ("" if kind == "remove" else character) + rest, position


def refused_at(read: Callable[..., object], *arguments: object) -> int:
    """Returns the position at which `read` refuses a text."""
    with pytest.raises(NotationError) as caught:
        read(*arguments)
    assert isinstance(caught.value, UserError)
    assert f"position {caught.value.position}" in str(caught.value)
    return caught.value.position


@settings(max_examples=300)
@given(problems | any_problems)
def test_parse_is_the_inverse_of_render(problem: Problem) -> None:
    line = render(problem)
    assert parse(line) == problem
    prompt, equals, field = line.partition("=")
    assert parse_prompt(prompt + equals) == problem
    assert refused_at(parse_prompt, f"{prompt}=0") == len(prompt) + 1
    assert parse_answer(field[:-1], problem.places) == answer(problem)


@given(problems | any_problems)
def test_a_line_has_its_characters_where_they_belong(problem: Problem) -> None:
    line = render(problem)
    assert set(line) <= set(ALPHABET)
    places = "" if problem.places == 2 else str(problem.places)
    texts = [number_text(number) for number in (problem.a, problem.b)]
    a, b = ("0" * (WIDTH - len(text)) + text for text in texts)
    prompt = f"${places}({a}{problem.op}{b})="
    assert line[: len(prompt)] == prompt == render_prompt(problem)
    field, text = line[len(prompt) : -1], answer_text(answer(problem))
    assert len(field) == max(WIDTH, len(text))
    assert field[::-1].endswith(text)
    assert set(field[len(text) :]) <= {"0"}
    assert render_prompt(problem) + render_answer(answer(problem)) + "$" == line


def test_the_alphabet_is_sorted_and_complete() -> None:
    assert sorted(ALPHABET) == list("$()*+-./0123456789=an")


@given(any_numbers)
def test_a_number_is_written_as_python_writes_it(number: Number) -> None:
    text = number_text(number)
    assert Fraction(text) == Fraction(number.units, 10**number.places)
    assert len(text.partition(".")[2]) == number.places
    if fits(number):
        assert text == str(float(text) if number.point else int(text))


@pytest.mark.parametrize(
    ("field", "position"),
    [
        ("0000001.50", 9),  # a trailing zero
        (f"0.{1:010000}", 10_000),  # more than 9,999 places
        (f"1.{12:010000}", 10_001),
        ("01234567891", 10),  # longer than ten characters, and padded
    ],
)
def test_operands_that_are_not_canonical(field: str, position: int) -> None:
    assert refused_at(parse_prompt, f"$({field}+0000000001)=") == 2 + position
    assert refused_at(parse_prompt, f"$(0000000001+{field})=") == 13 + position


def error_of(parse_text: Callable[[str], object], text: str) -> NotationError | None:
    """Returns the error that a text raises, if any."""
    try:
        parse_text(text)
    except NotationError as error:
        return error
    return None


@settings(max_examples=300)
@given(problems | any_problems, edits)
def test_edited_lines_are_refused_or_mean_something_else(
    problem: Problem, edit: tuple[int, str, str]
) -> None:
    line = render(problem)
    text, position = edited(line, edit)
    if error := error_of(parse, text):
        # The text before the edit begins a valid line, so the error cannot be there.
        assert position <= error.position <= len(text)
        assert f"position {error.position}" in str(error)
    else:
        assert render(parse(text)) == text
        assert (parse(text) == problem) == (text == line)


@given(st.text(alphabet=ALPHABET, max_size=40) | st.text(max_size=40))
def test_other_text_is_refused(text: str) -> None:
    assert 0 <= refused_at(parse, text) <= len(text)
    with pytest.raises(NotationError):
        parse_prompt(text)


@given(problems | any_problems)
def test_a_wrong_answer_is_refused_where_it_differs(problem: Problem) -> None:
    line = render(problem)
    start = len(render_prompt(problem))
    wrong = line[:start] + ("1" if line[start] != "1" else "2") + line[start + 1 :]
    assert refused_at(parse, wrong) == start


@pytest.mark.parametrize(
    "places",
    ["-1", "02", "030", "a", "99999"] + [str(n) for n in (*range(102), 999, 1000, 9999, 10000)],
)
def test_the_places_go_up_to_9999_and_two_are_not_written(places: str) -> None:
    beginning = f"${places}("
    prompt = beginning + "0000000001/0000000003)="
    valid = [f"${n}(" for n in ["", 0, 1, *range(3, 10_000)]]
    if beginning in valid:
        assert parse_prompt(prompt) == Problem(Number(1), DIVISION, Number(3), int(places))
        return
    begun = starts(valid)
    wrong = next(i for i in range(len(beginning)) if beginning[: i + 1] not in begun)
    assert refused_at(parse_prompt, prompt) == wrong
    assert refused_at(parse_prompt, beginning[:wrong]) == wrong


@pytest.mark.parametrize("text", ["$(" + "9" * 10**6, "$(" + "0" * 10**6, "$9(1234567890+" * 10**5])
def test_a_hostile_text_is_refused_at_once(text: str) -> None:
    for read in (parse, parse_prompt, parse_answer):
        assert refused_at(read, text) <= 2 * notation.MAX_WIDTH + 9


@pytest.mark.parametrize(
    "number",
    [
        Number(10**10_100),
        Number(-(10**10_099)),
        Number(10**10_099 + 1, 1),
        Number(-(10**10_098) - 1, 1),
    ],
)
def test_a_number_too_wide_for_an_operand(number: Number) -> None:
    assert not notation.is_operand(number)
    with pytest.raises(
        NotationError, match=r"^-?1000000\S*\.\.\. needs more than 10100 "
    ) as caught:
        render(Problem(number, ADDITION, Number(0)))
    assert caught.value.position == 0
    text = number_text(number)
    assert refused_at(parse_prompt, f"$({text}+0000000001)=") == 10_102 - ("." in text)


@pytest.mark.parametrize(
    "number",
    [
        Number(10**10_100 - 1),
        Number(-(10**10_099) + 1),
        Number(10**10_098 + 1, 1),
        Number(1 - 10**10_098, 9_999),
    ],
)
def test_the_longest_operands(number: Number) -> None:
    assert len(number_text(number)) == 10_100
    for op in OPERATIONS:
        problem = Problem(number, op, number, 9_999)
        assert parse(render(problem)) == problem
        assert parse_answer(render_answer(answer(problem)), 9_999) == answer(problem)


def starts(texts: Iterable[str]) -> set[str]:
    """All beginnings of these texts."""
    return {text[:end] for text in texts for end in range(len(text) + 1)}


def numbers_of(length: int, digits: str) -> list[Number]:
    """All numbers of at most so many characters and of these digits."""
    texts = ("".join(t) for n in range(1, length + 1) for t in product("-." + digits, repeat=n))
    canonical = re.compile(r"-?(0|[1-9]\d*)(\.(\d|\d*[1-9]))?")
    return [
        Number(int(text.replace(".", "")), len(text.partition(".")[2]))
        for text in texts
        if canonical.fullmatch(text) and text not in ("-0", "-0.0")
    ]


def test_the_first_wrong_character_of_an_operand_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all texts of up to six characters, in a notation with operands of three to five."""
    monkeypatch.setattr(notation, "WIDTH", 3)
    monkeypatch.setattr(notation, "MAX_WIDTH", 5)
    operands = [notation.operand_field(number) for number in numbers_of(5, "01")]
    assert {"000", "-11", "0.1", "10111", "-1.01"} <= set(operands)
    valid = starts(f"{a}+" for a in operands)
    for text in ("".join(t) for n in range(7) for t in product("-.01", repeat=n)):
        position = refused_at(parse_prompt, f"$({text}+")
        first_wrong = next((i for i in range(len(text)) if text[: i + 1] not in valid), len(text))
        if f"{text}+" in valid:
            first_wrong += 1  # the second operand is missing
        if text[first_wrong:].startswith("-") and text[:first_wrong] in operands:
            continue  # a difference
        assert position == 2 + first_wrong


def test_the_first_wrong_character_of_an_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all texts of up to five characters, in a notation with answers of three and more."""
    monkeypatch.setattr(notation, "WIDTH", 3)
    for places in (1, 2):
        answers = [number for number in numbers_of(7, "01") if number.places <= places]
        fields = {render_answer(value) for value in [*answers, None]}
        valid = starts(fields)
        for text in ("".join(t) for n in range(6) for t in product("-.01na", repeat=n)):
            error = error_of(partial(parse_answer, places=places), text)
            assert (error is None) == (text in fields)
            if error:
                starting = (i for i in range(len(text)) if text[: i + 1] not in valid)
                assert error.position == next(starting, len(text))
