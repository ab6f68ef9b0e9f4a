"""Problems as lines of text, and back.

    $(0000002.08-0000136.22)=41.431-000$      2.08 - 136.22 = -134.14

Operands are padded with zeros on their left to WIDTH characters. The answer is padded in the same
way and then reversed; an answer longer than WIDTH is not padded. `render` and `parse` are inverses:
`parse` refuses all that `render` does not write, wrong answers included.
"""

import re
from collections.abc import Callable

from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.errors import NotationError

ALPHABET = "$()*+-./0123456789=an"
WIDTH = 10
PROMPT_LENGTH = 5 + 2 * WIDTH  # $( A op B )=
NAN = "nan"

# A number as Python writes it, with at most two places: no needless zeros, no -0. The limit of 100
# digits is above any answer (the digits of two operands), and below what int() refuses.
_NUMBER = re.compile(r"(?!-0(?:\.0)?$)-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9][1-9]?)?")


def number_text(number: Number) -> str:
    """Returns a number as Python writes it, but never with an exponent: `-3`, `12.5`, `0.0`."""
    sign = "-" if number.hundredths < 0 else ""
    whole, fraction = divmod(abs(number.hundredths), 100)
    if not number.point:
        return f"{sign}{whole}"
    places = f"{fraction:02d}" if fraction % 10 else str(fraction // 10)
    return f"{sign}{whole}.{places}"


def number_from_text(text: str) -> Number:
    """Inverts `number_text`. Raises NotationError for any other text."""
    number = _number(text)
    if number is None:
        raise _unexpected(text, _first_wrong(text, _begins_number))
    return number


def answer_text(value: Number | None) -> str:
    """Returns an answer as people write it, neither padded nor reversed: `1663.78`, `nan`."""
    return NAN if value is None else number_text(value)


def operand_field(number: Number) -> str:
    """Returns a number padded to WIDTH characters. Raises NotationError if it needs more."""
    text = number_text(number)
    if len(text) > WIDTH:
        raise NotationError(f"{text} needs more than {WIDTH} characters: cannot be written", 0)
    return text.rjust(WIDTH, "0")


def render_prompt(problem: Problem) -> str:
    """Returns `$(A op B)=`, PROMPT_LENGTH characters. Raises NotationError as `operand_field`."""
    return f"$({operand_field(problem.a)}{problem.op}{operand_field(problem.b)})="


def render_answer(value: Number | None) -> str:
    """Returns an answer padded to WIDTH characters, then reversed, without the closing `$`."""
    return answer_text(value).rjust(WIDTH, "0")[::-1]


def render(problem: Problem) -> str:
    """Returns the line of a problem, without a newline. Raises NotationError as `operand_field`."""
    return f"{render_prompt(problem)}{render_answer(answer(problem))}$"


def parse_prompt(text: str) -> Problem:
    """Returns the problem of a prompt `$(A op B)=`. Raises NotationError for any other text."""
    _expect(text, 0, "$")
    _expect(text, 1, "(")
    a = _parse_operand(text, 2)
    _expect(text, 2 + WIDTH, *Operation)
    b = _parse_operand(text, 3 + WIDTH)
    _expect(text, 3 + 2 * WIDTH, ")")
    _expect(text, 4 + 2 * WIDTH, "=")
    if len(text) > PROMPT_LENGTH:
        raise _unexpected(text, PROMPT_LENGTH)
    return Problem(a, Operation(text[2 + WIDTH]), b)


def parse_answer(field: str) -> Number | None:
    """Inverts `render_answer`. Raises NotationError for any other text."""
    text = field[::-1]
    if text == NAN.rjust(WIDTH, "0"):
        return None
    number = _padded_number(text)
    if number is None:
        raise _unexpected(field, _first_wrong(field, _begins_answer))
    return number


def parse(text: str) -> Problem:
    """Inverts `render`. Raises NotationError for any other text."""
    problem = parse_prompt(text[:PROMPT_LENGTH])
    line = render(problem)
    if text != line:
        raise _unexpected(text, _first_wrong(text, line.startswith))
    return problem


def _number(text: str) -> Number | None:
    """Returns the number that is written like this, if any."""
    if not _NUMBER.fullmatch(text):
        return None
    whole, point, fraction = text.partition(".")
    return Number(int(whole + fraction.ljust(2, "0")), bool(point))


def _begins_number(text: str) -> bool:
    """Whether a number begins with `text`. If any does, one of these does."""
    return any(_number(text + end) is not None for end in ("", "1", ".1"))


def _padded_number(text: str) -> Number | None:
    """Returns the number that is written like this when it is padded, if any."""
    number = _number(text.lstrip("0")) or _number("0" + text.lstrip("0"))
    return number if number and number_text(number).rjust(WIDTH, "0") == text else None


def _parse_operand(text: str, start: int) -> Number:
    field = text[start : start + WIDTH]
    number = _padded_number(field)
    if number is None:
        raise _unexpected(text, start + _first_wrong(field, _begins_operand))
    return number


def _begins_operand(text: str) -> bool:
    """Whether a padded operand begins with `text`. If any does, one of these two does."""
    ends = (text.ljust(WIDTH, "1"), (text + ".").ljust(WIDTH, "1"))
    return any(len(field) == WIDTH and _padded_number(field) is not None for field in ends)


def _begins_answer(text: str) -> bool:
    """Whether an answer field begins with `text`. If any does, one of these does."""
    fields = [(start + text[::-1]).rjust(WIDTH, "0") for start in ("", "1", "n", "na")]
    return any(f == NAN.rjust(WIDTH, "0") or _padded_number(f) is not None for f in fields)


def _first_wrong(text: str, is_valid_start: Callable[[str], bool]) -> int:
    """Returns the index of the first character after which `text` is no valid start."""
    return next((i for i in range(len(text)) if not is_valid_start(text[: i + 1])), len(text))


def _expect(text: str, position: int, *characters: str) -> None:
    if text[position : position + 1] not in characters:
        raise _unexpected(text, position)


def _unexpected(text: str, position: int) -> NotationError:
    if position < len(text):
        return NotationError(f"not in the notation: unexpected {text[position]!r}", position)
    return NotationError("not in the notation: the text ends too early", position)
