"""The layout of worked steps: the purpose of each character, before any digit is known.

The question alone decides the layout: the operation, the lengths and places of the operands, and
the places of the answer. Only the layout of the answer also depends on the result row, whose zeros
at both ends are not copied. docs/NOTATION.md shows a layout for each operation.
"""

import re
from functools import lru_cache

from datagen.arithmetic import USUAL_PLACES
from datagen.operations import BY_SIGN, SIGNS
from datagen.operations.parts import Operand, Question
from datagen.slots import (
    LOWEST,
    MAX_LAYOUT,
    MAX_WIDTH,
    PLACES,
    WIDTH,
    Kind,
    Layout,
    Shape,
    position_of,
    shape_cache,
)

_SIGN = f"([{re.escape(''.join(SIGNS))}])"
# After WIDTH characters of A, `-` is an operation.
_A = rf"([-0-9.]{{{WIDTH}}}[0-9.]{{0,{MAX_WIDTH - WIDTH}}})"
_B = rf"([-0-9.]{{{WIDTH},{MAX_WIDTH}}})"
PROMPT = rf"\$({PLACES})\({_A}{_SIGN}{_B}\)="
_PROMPT = re.compile(PROMPT)
_CACHED_LENGTH = 200  # of the longest prompt that is kept
_TO_ONES = str.maketrans("23456789", "11111111")


def shape_of(prompt: str) -> Shape | None:
    """Returns the shape of a prompt `$P(A op B)=` whose layout can be made: its work has at most
    MAX_LAYOUT characters. Returns None for any other text."""
    shape = any_shape_of(prompt)
    return shape if shape and work_length(shape) <= MAX_LAYOUT else None


def any_shape_of(prompt: str) -> Shape | None:
    """Returns the shape of a prompt, even if its work is too long for a layout, or None."""
    # Other digits than 0 become 1: the shape is the same, and many prompts share a cache entry. The
    # places stay as they are.
    places, parenthesis, operands = prompt.partition("(")
    pattern = places + parenthesis + operands.translate(_TO_ONES)
    return (_cached_shape if len(pattern) <= _CACHED_LENGTH else _shape)(pattern)


def require_shape(prompt: str) -> Shape:
    """Returns the shape of a prompt. Raises ValueError if `shape_of` has none."""
    shape = shape_of(prompt)
    if shape is None:
        raise ValueError(f"not a prompt: {prompt!r:.80}")
    return shape


def _shape(prompt: str) -> Shape | None:
    match = _PROMPT.fullmatch(prompt)
    if match is None:
        return None
    places, a, op, b = match.groups()
    a_digits, a_places, _ = _digits_and_places(a)
    b_digits, b_places, b_is_zero = _digits_and_places(b)
    return Shape(
        op=op,
        a_digits=a_digits,
        a_places=a_places,
        b_digits=b_digits,
        b_places=b_places,
        places=int(places) if places else USUAL_PLACES,
        a_width=len(a),
        b_width=len(b),
        by_zero=b_is_zero and BY_SIGN[op].divides,
    )


_cached_shape = lru_cache(maxsize=2**16)(_shape)


def _digits_and_places(field: str) -> tuple[int, int, bool]:
    """Returns the digits and places of an operand, and whether it is 0."""
    whole, _, places = field.partition(".")
    digits = (whole + places).replace("-", "0").lstrip("0")
    return max(1, len(digits)), len(places), not digits


def new_layout(shape: Shape) -> Layout:
    """Returns the layout of all questions of this shape."""
    plan = Layout()
    BY_SIGN[shape.op].layout(plan, shape, _question(plan, shape))
    plan.put(Kind.EQUALS)
    return plan


layout = shape_cache(len)(new_layout)


def work_length(shape: Shape) -> int:
    """Returns the number of slots of a layout, including the question, without making the layout.

    A product of two operands of 10,000 digits would have some 200 million slots.
    """
    question = len(f"${_places_text(shape)}(+)=") + shape.a_width + shape.b_width
    return question + BY_SIGN[shape.op].length(shape) + len("=")


def _question(plan: Layout, shape: Shape) -> Question:
    """Puts the question. The lowest written digit of an operand has the column LOWEST, and so has
    the sign of the operation. The point has none."""
    for _ in f"${_places_text(shape)}(":
        plan.put(Kind.QUESTION)
    a = _operand(plan, Kind.A_FIELD, shape.a_width, shape.a_places, shape.a_digits)
    op = plan.put(Kind.QUESTION, 0, LOWEST)
    b = _operand(plan, Kind.B_FIELD, shape.b_width, shape.b_places, shape.b_digits)
    for _ in ")=":
        plan.put(Kind.QUESTION)
    plan.prompt_length = len(plan)
    return Question(a, op, b)


def _places_text(shape: Shape) -> str:
    return "" if shape.places == USUAL_PLACES else str(shape.places)


def _operand(plan: Layout, kind: Kind, width: int, places: int, n_digits: int) -> Operand:
    point = width - 1 - places if places else width  # its index; without one, behind the field
    characters: list[int] = []
    for i in range(width):
        column = width - 1 - i + LOWEST - (i < point < width)
        position = plan.put(kind, 0, 0 if i == point else column)
        if i != point:
            characters.append(position)
    characters.reverse()  # the last one first
    n_written = max(n_digits, places + 1)  # a number below 1 begins with a zero
    sign = position_of(characters, n_written)
    return Operand(characters[:n_digits], places, sign)
