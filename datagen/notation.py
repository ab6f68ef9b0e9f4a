"""Problems as lines of text, and back.

    $(0000002.08-0000136.22)=41.431-000$      2.08 - 136.22 = -134.14
    $4(0000000001/0000000003)=3333.00000$     1 / 3 = 0.3333, to 4 places

Operands are padded with zeros on their left to WIDTH characters; longer ones are not padded. The
answer is padded in the same way and then reversed. A number before the parenthesis says to how many
places the answer is rounded; without it, there are two. `render` and `parse` are inverses:
`parse` rejects every text that `render` does not write, including wrong answers.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from calcgpt.base.errors import NotationError
from datagen.arithmetic import (
    MAX_PLACES,
    USUAL_PLACES,
    Number,
    Problem,
    answer,
    integer_from_text,
    integer_text,
)
from datagen.operations import BY_SIGN, SIGNS
from datagen.slots import MAX_WIDTH as MAX_WIDTH
from datagen.slots import PLACES
from datagen.slots import WIDTH as WIDTH

ALPHABET = "".join(sorted({*"$()-.0123456789=an", *SIGNS}))
WORK_ALPHABET = "".join(sorted(ALPHABET + ";|:"))  # with worked steps
NAN = "nan"

_BEGINNING = re.compile(rf"\$({PLACES})\(")
_BEGINS_QUESTION = re.compile(rf"(\$(({PLACES})\(?|2)?)?")
# A number as Python writes it: no needless zeros, no -0. No answer has more digits before the point
# than both operands together.
_NUMBER = re.compile(
    rf"(?!-0(?:\.0)?$)-?(?:0|[1-9][0-9]{{0,{2 * MAX_WIDTH - 1}}})"
    rf"(?:\.(?:[0-9]|[0-9]{{1,{MAX_PLACES - 1}}}[1-9]))?"
)


def number_text(number: Number) -> str:
    """Returns a number as Python writes it, but never with an exponent: `-3`, `12.5`, `0.0`."""
    if not number.point:
        return integer_text(number.units)
    sign = "-" if number.units < 0 else ""
    digits = integer_text(abs(number.units)).zfill(number.places + 1)
    return f"{sign}{digits[: -number.places]}.{digits[-number.places :]}"


def answer_text(value: Number | None) -> str:
    """Returns an answer as people write it, neither padded nor reversed: `1663.78`, `nan`."""
    return NAN if value is None else number_text(value)


def is_operand(number: Number) -> bool:
    """Whether a number is short enough for an operand: at most MAX_WIDTH characters."""
    is_short = number.units.bit_length() + number.places + len("-0.") <= MAX_WIDTH
    return is_short or len(number_text(number)) <= MAX_WIDTH  # most need not be written for that


def operand_field(number: Number) -> str:
    """Returns a number padded to WIDTH characters; a longer one is not padded.

    Raises NotationError if it needs more than MAX_WIDTH characters.
    """
    text = number_text(number)
    if len(text) > MAX_WIDTH:
        reason = f"{text[:10]}... needs more than {MAX_WIDTH} characters: cannot be written"
        raise NotationError(reason, 0)
    return text.rjust(WIDTH, "0")


def render_prompt(problem: Problem) -> str:
    """Returns `$(A op B)=`, or `$P(A op B)=` for P places other than two. Raises NotationError
    if `operand_field` does."""
    places = "" if problem.places == USUAL_PLACES else problem.places
    return f"${places}({operand_field(problem.a)}{problem.op}{operand_field(problem.b)})="


def render_answer(value: Number | None) -> str:
    """Returns an answer padded to WIDTH characters, then reversed, without the closing `$`."""
    return answer_text(value).rjust(WIDTH, "0")[::-1]


def render(problem: Problem) -> str:
    """Returns the line of a problem, without a newline. Raises what `operand_field` raises."""
    return f"{render_prompt(problem)}{render_answer(answer(problem))}$"


def parse_prompt(text: str) -> Problem:
    """Inverts `render_prompt`. Raises NotationError for any other text."""
    beginning = _BEGINNING.match(text)
    if beginning is None:
        raise _unexpected(text, _first_wrong(text, _begins_question))
    a, end = _parse_operand(text, beginning.end())
    _expect(text, end, *SIGNS)
    op = BY_SIGN[text[end]]
    b, end = _parse_operand(text, end + 1)
    _expect(text, end, ")")
    _expect(text, end + 1, "=")
    if len(text) > end + 2:
        raise _unexpected(text, end + 2)
    return Problem(a, op, b, int(beginning[1] or USUAL_PLACES))


def parse_answer(field: str, places: int = USUAL_PLACES) -> Number | None:
    """Inverts `render_answer`, for answers of at most `places` places. Raises NotationError for any
    other text."""
    text = field[::-1]
    if text == NAN.rjust(WIDTH, "0"):
        return None
    number = _answer(text, places)
    if number is None:
        raise _unexpected(field, _first_wrong(field, partial(_begins_answer, places=places)))
    return number


def parse(text: str) -> Problem:
    """Inverts `render`. Raises NotationError for any other text."""
    problem = parse_prompt(text[: text.find("=") + 1] or text)
    line = render(problem)
    if text != line:
        raise _unexpected(text, _first_wrong(text, line.startswith))
    return problem


def _begins_question(text: str) -> bool:
    """Whether `text` is the beginning of a question up to its parenthesis, or a part of it."""
    return _BEGINS_QUESTION.fullmatch(text) is not None


def _number(text: str) -> Number | None:
    """Returns the number that is written as `text`, or None."""
    if not _NUMBER.fullmatch(text):
        return None
    whole, _, fraction = text.partition(".")
    return Number(integer_from_text(whole + fraction), len(fraction))


def _padded_number(text: str) -> Number | None:
    """Returns the number that is written as `text` when it is padded, or None."""
    number = _number(text.lstrip("0")) or _number("0" + text.lstrip("0"))
    return number if number and number_text(number).rjust(WIDTH, "0") == text else None


def _operand(field: str) -> Number | None:
    """Returns the operand that is written as `field`, or None."""
    return _padded_number(field) if WIDTH <= len(field) <= MAX_WIDTH else None


def _parse_operand(text: str, start: int) -> tuple[Number, int]:
    """Returns the operand that begins at `start`, and its end."""
    field = text[start : _end_of_operand(text[: start + MAX_WIDTH + 1], start)]
    number = _operand(field)
    if number is None:
        raise _unexpected(text, start + _first_wrong(field, _begins_operand))
    return number, start + len(field)


def _end_of_operand(text: str, start: int) -> int:
    """Returns the end of the operand that begins at `start`. After WIDTH characters, only digits
    and points belong to it: `-` is an operation."""
    end = min(start + WIDTH, len(text))
    while end < len(text) and text[end] in "0123456789.":
        end += 1
    return end


def _begins_operand(text: str) -> bool:
    """Whether an operand begins with `text`. If any operand does, one of those below does."""
    fields = [text + end for end in ("", "1", ".1")]
    fields += [(text + point).ljust(WIDTH, "1") for point in ("", ".")]
    return any(_operand(field) is not None for field in fields)


def _answer(text: str, places: int) -> Number | None:
    """Returns the answer of at most `places` places that is written as `text`, or None."""
    number = _padded_number(text)
    return number if number and number.places <= places else None


def _begins_answer(text: str, places: int) -> bool:
    """Whether an answer field begins with `text`. If any field does, one of those below does."""
    fields = [(start + text[::-1]).rjust(WIDTH, "0") for start in ("", "1", "n", "na")]
    return any(f == NAN.rjust(WIDTH, "0") or _answer(f, places) is not None for f in fields)


def _first_wrong(text: str, is_valid_start: Callable[[str], bool]) -> int:
    """Returns the index of the first character after which `text` is not a valid start."""
    lengths = range(1, len(text) + 1)
    return bisect_left(lengths, True, key=lambda length: not is_valid_start(text[:length]))


def _expect(text: str, position: int, *characters: str) -> None:
    if text[position : position + 1] not in characters:
        raise _unexpected(text, position)


def _unexpected(text: str, position: int) -> NotationError:
    if position < len(text):
        return NotationError(f"not in the notation: unexpected {text[position]!r}", position)
    return NotationError("not in the notation: the text ends too early", position)
