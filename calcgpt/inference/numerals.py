"""How people write numbers: digits with their separators, fractions, mixed numbers, and words; and
what they say around a calculation."""

import re
from typing import NamedTuple

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference import spelling
from calcgpt.inference.spelling import DIGITS, MESSAGES
from datagen.arithmetic import MAX_ASKED_PLACES, MAX_PLACES, Number, integer_from_text
from datagen.notation import number_text

_NUMBERS = [[(re.compile(form), mark) for form, mark in forms] for forms in spelling.NUMBERS]
_EXPONENT = re.compile(spelling.PATTERNS["exponent"])
_FRACTION = re.compile(spelling.PATTERNS["fraction"])
_AFTER_WHOLE = re.compile(spelling.PATTERNS["after_whole"])
_AFTER_GROUPED = re.compile(spelling.PATTERNS["after_grouped"])
_IN_PARENTHESES = re.compile(spelling.PATTERNS["in_parentheses"])
_GROUPED = re.compile(spelling.PATTERNS["grouped"])
_JOINT = re.compile(spelling.PATTERNS["joint"])
_NUMBER_WORD = spelling.longest_first(spelling.NUMBER_WORDS)
_SCALE = spelling.longest_first(spelling.SCALES)
_LEADING = spelling.longest_first(spelling.LEADING)
_PLACES = re.compile(spelling.PATTERNS["places"])
_NEAREST = re.compile(spelling.PATTERNS["nearest"])
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_TAIL = 60  # characters of the end of a text in which places are asked for


class Numeral(NamedTuple):
    """A number as it was typed up to `end`: `whole`, plus `fraction` if it is mixed."""

    end: int
    whole: Number | None
    fraction: tuple[Number, Number] | None = None  # numerator and denominator
    reading: str | None = None  # the usual spelling, if a reader could think of another number
    alternative: str | None = None  # another reading


def read_numeral(normal: str, start: int, forms: int) -> Numeral | None:
    """Returns the numeral at `start` of a normal text, or None. `forms` is an index of NUMBERS.
    Raises ExpressionError."""
    if fraction := _FRACTION.match(normal, start):
        return Numeral(fraction.end(), None, _fraction(*fraction.groups()))
    if vulgar := spelling.VULGAR.get(normal[start : start + 1]):
        return Numeral(start + 1, None, _fraction(*vulgar))
    numeral = _digits(normal, start, forms)
    if not numeral:
        return _words(normal, start)
    if forms == spelling.COMMA:  # only what others read in another way needs to be said
        other = _digits(normal, start, spelling.POINT)
        is_said = not other or (other.end, other.whole) != (numeral.end, numeral.whole)
        assert numeral.whole
        numeral = numeral._replace(reading=number_text(numeral.whole) if is_said else None)
        if is_said and other and other.whole and other.end == numeral.end:  # 12500, not 12,500
            numeral = numeral._replace(alternative=number_text(other.whole).replace(".", ","))
    return _mixed(normal, start, numeral)


def _digits(normal: str, start: int, forms: int) -> Numeral | None:
    """Returns the numeral of digits with an exponent or scale, or None: 1,000.5, 1e3, 5 million."""
    matches = ((form.match(normal, start), mark) for form, mark in _NUMBERS[forms])
    typed, mark = next((found for found in matches if found[0]), (None, ""))
    if not typed:
        return None
    whole, _, places = typed[0].partition(mark)
    digits, end = re.sub("[^0-9]", "", whole), typed.end()
    exponent, scale = _EXPONENT.match(normal, end), _SCALE.match(normal, _skip(normal, end))
    shift = 0
    if exponent:
        if len(exponent[1]) > 6 or abs(int(exponent[1])) > spelling.MAX_EXPONENT:
            reason = MESSAGES["large-exponent"]
            raise ExpressionError(
                ExpressionErrorKind.OUT_OF_RANGE, reason, exponent.start(), exponent.end()
            )
        end, shift = exponent.end(), int(exponent[1])
    elif scale:
        end, shift = scale.end(), len(str(spelling.SCALES[scale[0]])) - 1
    number = _number(digits, places, shift, typed.start(), end)
    said = number_text(number) if mark == "," and "," in typed[0] else None
    return Numeral(end, number, reading=said)


def _number(digits: str, places: str, shift: int, start: int, end: int) -> Number:
    """Returns a number times 10**shift. Raises ExpressionError for more than MAX_PLACES places."""
    kept = places.rstrip("0")
    if len(digits) + len(kept) + max(shift, 0) > spelling.MAX_DIGITS:
        reason = MESSAGES["digits"]
        raise ExpressionError(ExpressionErrorKind.OUT_OF_RANGE, reason, start, end)
    units, n_places = integer_from_text(digits + kept or "0"), len(kept) - shift
    if not units:
        return Number(0)
    if n_places > MAX_PLACES:
        reason = MESSAGES["places"].format(n=f"{MAX_PLACES:,}")
        first = start if shift else end - len(places) + MAX_PLACES
        raise ExpressionError(ExpressionErrorKind.TOO_MANY_PLACES, reason, first, end)
    if n_places < 0:
        return Number(units * 10**-n_places)
    n_zeros = min(n_places, len(digits) - len(digits.rstrip("0")) if not kept else 0)
    return Number(units // 10**n_zeros, n_places - n_zeros)  # 50e-1 is 5


def _mixed(normal: str, start: int, numeral: Numeral) -> Numeral:
    """Returns the mixed number that begins with a numeral, or the numeral itself: 1 1/2, 1½,
    3(3/4). Raises ExpressionError for 1 100/200, which is read in two ways."""
    whole, end = numeral.whole, numeral.end
    if whole is None or whole.point or whole.units < 1 or normal[end - 1] not in DIGITS:
        return numeral
    grouped = _GROUPED.search(normal[start:end])
    if grouped and (over := _AFTER_GROUPED.match(normal, end)):
        first, numerator, denominator = normal[start : end - 4], grouped[1], over[1]
        if 0 < int(numerator) < int(denominator):
            typed = normal[start : over.end()]
            reason = MESSAGES["grouped"].format(
                typed=typed,
                grouped=f"{number_text(whole)}/{denominator}",
                mixed=f"{first.replace(' ', '')}+{numerator}/{denominator}",
            )
            raise ExpressionError(ExpressionErrorKind.NO_OPERATION, reason, start, over.end())
    if vulgar := spelling.VULGAR.get(normal[_skip(normal, end) : _skip(normal, end) + 1]):
        return Numeral(_skip(normal, end) + 1, whole, _fraction(*vulgar))
    after = _AFTER_WHOLE.match(normal, end) or _IN_PARENTHESES.match(normal, end)
    if not after or not 0 < int(after[1]) < int(after[2]):
        return numeral
    text = number_text(whole)
    reading = f"{text}+{after[1]}/{after[2]}"
    in_parentheses = after[0].startswith("(")
    alternative = f"{text}*({after[1]}/{after[2]})" if in_parentheses else None
    return Numeral(after.end(), whole, _fraction(*after.groups()), reading, alternative)


def _words(normal: str, start: int) -> Numeral | None:
    """Returns the numeral of words, or None: twelve, twenty-five, two hundred and six million."""
    total = current = 0
    smallest = largest = 10**18  # what may still be added, and a scale, are below these
    end = start
    while True:
        joint = _JOINT.match(normal, end) if end > start else None
        position = joint.end() if joint else end
        if word := _NUMBER_WORD.match(normal, position):
            n = spelling.NUMBER_WORDS[word[0]]
            if n >= smallest or (not n and end > start):
                break
            current, end = current + n, word.end()
            smallest = 1 if n % 10 or n < 20 else 10
        elif end > start and (word := _SCALE.match(normal, position)):
            scale = spelling.SCALES[word[0]]
            if not current or scale >= largest or (scale == 100 and current >= 100):
                break  # two thousand million
            if scale == 100:
                current *= scale
            else:
                total, current, largest = total + current * scale, 0, scale
            end, smallest = word.end(), 100 if scale == 100 else scale
        else:
            break
    return Numeral(end, Number(total + current)) if end > start else None


def _fraction(numerator: str | int, denominator: str | int) -> tuple[Number, Number]:
    return Number(int(numerator)), Number(int(denominator))


def _skip(normal: str, position: int) -> int:
    """Returns the position of the next character that is not a space."""
    while normal[position : position + 1] == " ":
        position += 1
    return position


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
            places = int(number) if number[0] in DIGITS else spelling.NUMBER_WORDS.get(number)
        elif places is None and (asked := _NEAREST.search(normal[tail:end])):
            places = spelling.NEAREST.get(asked[1])
        else:
            continue
        if places is not None:
            end, is_changed = tail + asked.start(), True
    if places is not None and places > MAX_ASKED_PLACES:
        reason = MESSAGES["asked-places"].format(n=MAX_ASKED_PLACES)
        raise ExpressionError(ExpressionErrorKind.TOO_MANY_PLACES, reason, end, len(normal))
    return " " * start + normal[start:end] + " " * (len(normal) - end), places
