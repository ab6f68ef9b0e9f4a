"""What people say around a calculation, and the decimal places that they ask for."""

import re

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference import spelling
from datagen.arithmetic import MAX_ASKED_PLACES

_LEADING = spelling.longest_first(spelling.LEADING)
_PLACES = re.compile(spelling.PATTERNS["places"])
_NEAREST = re.compile(spelling.PATTERNS["nearest"])
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_TAIL = 60  # characters of the end of a text in which places are asked for


def without_phrases(normal: str) -> tuple[str, int | None]:
    """Returns a normal text in which what people say around a calculation is replaced by spaces,
    and the decimal places that they ask for: what is 1/3 to 4 places?"""
    start, end, places = 0, len(normal), None
    while leading := _LEADING.match(normal, start):
        start = leading.end()
        while normal[start : start + 1] in (" ", ",", ":"):
            start += 1
    is_changed, between = True, " "
    while is_changed:
        while end > start and normal[end - 1] in between:
            end -= 1
        is_changed, between = False, " ,"
        for phrase in spelling.TRAILING:
            first = end - len(phrase)
            if normal.endswith(phrase, start, end) and not (
                phrase[0] in _LETTERS and first > start and normal[first - 1] in _LETTERS
            ):
                end, is_changed = first, True
                break
        tail = max(start, end - _TAIL)
        if places is None and (asked := _PLACES.search(normal[tail:end])):
            number = asked[1]
            places = (
                int(number) if number[0] in spelling.DIGITS else spelling.NUMBER_WORDS.get(number)
            )
        elif places is None and (asked := _NEAREST.search(normal[tail:end])):
            places = spelling.NEAREST.get(asked[1])
        else:
            continue
        if places is not None:
            end, is_changed = tail + asked.start(), True
    if places is not None and places > MAX_ASKED_PLACES:
        reason = spelling.MESSAGES["asked-places"].format(n=MAX_ASKED_PLACES)
        raise ExpressionError(ExpressionErrorKind.TOO_MANY_PLACES, reason, end, len(normal))
    return " " * start + normal[start:end] + " " * (len(normal) - end), places
