"""Expressions: text that people type to a tree of operations on numbers.

    12.5*3 - 1,000          a product minus a number
    7 × 6 ÷ 2               other signs for the operations
    what is 7 x 6 plus 2?   and words
    -(2+3)                  is 0-(2+3); directly before a number, a minus is its sign
    1.05^3, 1.05³, 2^-1     powers bind more tightly than a minus before them, the last one first
    20% of 50               is 10, 100-10% is 90, and 10 % 3 is the remainder
    2(3+4), 3(3/4)          a product, and a mixed number
    17//5, 5!, |3-5|        a quotient rounded down, a factorial, a magnitude
    sqrt(16), √16, max(1,2) functions; without parentheses, of the next number
    2π, e^2, sin(30°)       constants and degrees

What real calculators read in different ways is refused: 6/2(3+4). Where a reader could think of
something else, the reading says how a part was read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference import spelling
from calcgpt.inference.expression_errors import (
    NAMES,
    end_of_token,
    error_at,
    missing_operation,
    unknown_word,
)
from calcgpt.inference.expression_stack import (
    DEFAULT_STYLE,
    Part,
    Rank,
    Reading,
    Sign,
    Stack,
    Style,
    arity,
    literal,
    operation,
)
from calcgpt.inference.expression_tree import Expression, shorten
from calcgpt.inference.numerals import Numeral, read_numeral, without_phrases
from calcgpt.inference.spelling import (
    DIGITS,
    MAX_LENGTH,
    MAX_SHOWN,
    MESSAGES,
    SPACES,
    single_spaced,
)
from datagen.arithmetic import Number

_PATTERNS = {name: re.compile(source) for name, source in spelling.PATTERNS.items()} | {
    "operation": spelling.longest_first(spelling.OPERATIONS),
    "postfix": spelling.longest_first(spelling.POSTFIXES),
    "function": spelling.longest_first(spelling.FUNCTIONS),
    "factor": spelling.longest_first(spelling.FACTORS),
    "pair": spelling.longest_first(words.rpartition(" ")[0] for words in spelling.PAIRS),
}
_TIGHT = ("/", "^", "//", "mod", "binomial", "perm")  # signs after which 2(3) is not a product
ANSWER = "ans"  # the name of the last answer
_SYNTAX = ExpressionErrorKind.SYNTAX


@dataclass(frozen=True)
class Parsed:
    """An expression as it was read. `places` are the decimal places that the text asks for."""

    expression: Expression
    readings: tuple[Reading, ...]
    places: int | None


def parse(
    text: str, style: Style = DEFAULT_STYLE, names: Mapping[str, Expression] | None = None
) -> Parsed:
    """Returns the expression that a text stands for. `names` are values that it may use.

    Raises ExpressionError for any other text. Does not check the range of numbers or division by
    zero.
    """
    if len(text) > MAX_LENGTH:
        reason = MESSAGES["too-long"]
        raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, MAX_LENGTH, len(text))
    return _Reader(text, style, names or {}).read()


class _Reader:
    """Reads an expression from left to right: operands and operations in turn."""

    def __init__(self, text: str, style: Style, names: Mapping[str, Expression]) -> None:
        self._text, self._style, self._names = text, style, names
        self._normal, self._places = without_phrases(spelling.normalize(text))
        self._stack = Stack(text, self._normal, style)
        self._has_currency = False

    def read(self) -> Parsed:
        """Returns the whole expression. Raises ExpressionError."""
        if self._match("date", 0):
            typed = self._normal.strip(" ")
            raise ExpressionError(_SYNTAX, MESSAGES["date"].format(typed=typed), 0, len(self._text))
        start, character = self._next(0)
        position: int | None = start + 1 if character == "=" else 0  # as spreadsheets begin
        is_prefix = self._match("prefix", start) is not None
        continues = ANSWER in self._names and character == "+"
        is_operation = self._match("operation", start) and not self._name(start)
        is_function = self._match("function", start) is not None
        if continues or (is_operation and not is_prefix and not is_function):
            position = self._continue(start)
        while position is not None:
            position = self._read_operation(self._read_operand(position))
        whole = self._stack.parts.pop()
        readings = self._stack.readings
        if self._has_currency:
            readings[:] = [reading for reading in readings if reading.alternative]
            self._stack.say(self._text, whole.node.text)
        return Parsed(whole.node, tuple(readings), self._places)

    def _continue(self, start: int) -> int:
        """Reads an operation on the last answer. Returns where the operation ends."""
        if ANSWER not in self._names:
            raise self._error(start, is_operand=True)
        answer = self._names[ANSWER]
        self._stack.parts.append(Part(answer, start, start))
        typed = self._text.strip(SPACES)
        self._stack.say(typed, f"{ANSWER}{shorten(typed)}")
        position = self._read_operation(start)
        assert position is not None
        return position

    def _read_operand(self, position: int) -> int:
        """Reads a number and all signs and parentheses before it. Returns where it ends."""
        while True:
            start, character = self._next(position)
            position = start + 1
            if character in ("(", "|"):
                self._stack.push(Sign(character, Rank.OPENING, start))
            elif factor := self._match("factor", start):
                self._read_factor(factor)
                position = factor.end()
            elif numeral := read_numeral(self._normal, start, self._forms()):
                self._add_numeral(start, numeral)
                return self._skip_currency(numeral.end)
            elif the := self._match("the", start):
                position = the.end()
            elif pair := self._match("pair", start):
                self._stack.push(Sign(pair[0], Rank.OPENING, start))
                position = pair.end()
            elif name := self._name(start):
                self._stack.parts.append(Part(self._names[name], start, start + len(name)))
                return start + len(name)
            elif typed := self._match("log", start) or self._match("function", start):
                position = self._read_function(typed)
            elif constant := self._match("constant", start):
                node = Expression(spelling.CONSTANTS[constant[0]], (), *constant.span())
                self._stack.parts.append(Part(node, *constant.span()))
                return constant.end()
            elif prefix := self._match("prefix", start):
                sign = "+" if prefix[0] in ("+", "plus") else "-"
                self._stack.push(Sign(sign, Rank.PREFIX, start))
                position = prefix.end()
            elif not (character and character in spelling.CURRENCIES):
                raise self._error(start, is_operand=True)
            else:
                self._has_currency = True

    def _read_operation(self, position: int) -> int | None:
        """Reads what follows an operand, up to an operation. Returns where that ends, or None at
        the end of the expression."""
        while True:
            start, character = self._next(position)
            position = start + 1
            if character in ("", "="):
                self._end(start, position)
                return None
            if typed := self._typed_operation(start):
                return self._stack.wait(*typed)
            if percent := self._match("percent", start):
                position = percent.end()
                self._read_percent(start, position)
            elif superscript := self._match("superscript", start):
                position = superscript.end()
                exponent = "".join(spelling.SUPERSCRIPTS[digit] for digit in superscript[0])
                self._raise(exponent, start, position)
            elif postfix := self._match("postfix", start):
                position = postfix.end()
                self._read_postfix(spelling.POSTFIXES[single_spaced(postfix[0])], start, position)
            elif self._begins_factor(start, character):
                return self._stack.wait("*", start, start)
            elif character in (")", "|") and self._stack.closes(character):
                self._stack.close(position)
            elif (comma := self._match("separator", start)) and self._stack.separate(start):
                return comma.end()
            elif between := self._pair(start):
                return self._stack.wait_for_second(*between)
            else:
                raise self._error(start)

    # Operands

    def _add_numeral(self, start: int, numeral: Numeral) -> None:
        end = numeral.end
        typed = zip(self._text[start:end], self._normal[start:end], strict=True)
        if len({ord(digit) - ord(usual) for digit, usual in typed if usual in DIGITS}) > 1:
            reason = MESSAGES["scripts"].format(typed=repr(shorten(self._text[start:end])))
            raise ExpressionError(_SYNTAX, reason, start, end)
        node = None if numeral.whole is None else literal(numeral.whole, start, end)
        if numeral.fraction:
            a, b = (literal(number, start, end) for number in numeral.fraction)
            fraction = Expression("/", (a, b), start, end)
            node = Expression("+", (node, fraction), start, end) if node else fraction
        assert node
        self._stack.parts.append(Part(node, start, end))
        if numeral.reading is not None:
            self._stack.say(self._text[start:end], numeral.reading, start, end, numeral.alternative)

    def _read_factor(self, factor: re.Match[str]) -> None:
        """Adds the factor of words such as `half of`, and the product that waits."""
        start, end = factor.span()
        numerator, _, denominator = spelling.FACTORS[single_spaced(factor[0])].partition("/")
        numbers = [literal(Number(int(n)), start, end) for n in (numerator, denominator or "1")]
        node = Expression("/", (numbers[0], numbers[1]), start, end) if denominator else numbers[0]
        self._stack.parts.append(Part(node, start, end))
        self._stack.wait("*", start, end)

    def _forms(self) -> int:
        """Returns how numbers are written here, as an index of NUMBERS."""
        if self._style.decimal_comma:
            return spelling.COMMA
        return spelling.LIST if self._stack.last.in_list else spelling.POINT

    def _read_function(self, typed: re.Match[str]) -> int:
        """Adds a function to the signs that wait. Returns where its name ends, or the parenthesis
        after it."""
        start, end = typed.span()
        called = self._match("called", end)
        if called and self._normal[end - 1].isascii():
            raise unknown_word(self._text, start, called.end() - 1)
        name = "log" if typed.lastindex else spelling.FUNCTIONS[single_spaced(typed[0])]
        base = literal(Number(int(typed[1])), *typed.span(1)) if typed.lastindex else None
        of = self._match("function_of", end)
        end = of.end() if of else end
        if self._normal[end : end + 1] != "(":
            if of and of[0].strip() and arity(name)[1] == 0:  # average of 1, 2 and 3
                self._stack.push(Sign("of", Rank.OPENING, start, is_said=True, function=name))
                return end
            is_joined = end == typed.end() and self._normal[end : end + 1] in DIGITS  # sin2
            is_said = is_joined and self._normal[end - 1].isascii()
            self._stack.push(Sign(name, Rank.FUNCTION, start, is_said))
            return end
        self._stack.push(Sign("(", Rank.OPENING, start, function=name, base=base))
        return end + 1

    def _name(self, start: int) -> str:
        name = self._match("name", start)
        return name[0] if name and name[0] in self._names else ""

    def _skip_currency(self, end: int) -> int:
        after, character = self._next(end)
        if not character or character not in spelling.CURRENCIES:
            return end
        self._has_currency = True
        return after + 1

    # What follows an operand

    def _typed_operation(self, start: int) -> tuple[str, int, int] | None:
        """Returns the operation at `start` and its position, or None. `of` is one only after a
        percentage or a fraction, `%` only before a number. The x of 0x10 is not one."""
        if self._match("remainder", start):
            return "mod", start, start + 1
        for word, sign in (("of", "*"), ("off", "off")):
            if (typed := self._match(word, start)) and self._may_follow(word, start):
                return sign, start, typed.end()
        typed = self._match("operation", start)
        if not typed or self._match("no_product", start - 1):
            return None
        if typed[0] == ":" and (time := self._time(start)):
            reason = MESSAGES["time"].format(typed=time[0])
            raise ExpressionError(_SYNTAX, reason, *time.span())
        return spelling.OPERATIONS[single_spaced(typed[0])], start, typed.end()

    def _may_follow(self, word: str, start: int) -> bool:
        """Returns whether `of` or `off` may stand at `start`."""
        before = self._normal[max(0, start - 100) : start].rstrip(" ")
        if _PATTERNS["ends_in_percent"].search(before):
            return self._stack.last.last != "/"
        return word == "of" and _PATTERNS["ends_in_fraction"].search(before) is not None

    def _time(self, colon: int) -> re.Match[str] | None:
        """Returns the time of day whose first `:` is at `colon`, such as 17:00."""
        first = colon
        while first > 0 and self._normal[first - 1] in DIGITS:
            first -= 1
        return self._match("time", first)

    def _read_percent(self, start: int, end: int) -> None:
        """Makes a percentage of the last part."""
        if self._match("product_of_percent", start):
            raise missing_operation(self._normal, self._next(end)[0], MESSAGES["percent-of"])
        if spaced := self._match("spaced_percent", start - 1):
            first = self._stack.parts[-1].start
            before, after = self._text[first:start], self._text[end : spaced.end()]
            read = f"{before.rstrip(SPACES)}%{after.strip(SPACES)}"
            self._stack.say(self._text[first : spaced.end()], read)
        part = self._stack.parts.pop()
        node = Expression("%", (part.node,), part.start, end)
        self._stack.parts.append(Part(node, part.start, end, is_percentage=True))

    def _read_postfix(self, postfix: str, start: int, end: int) -> None:
        if postfix[0] == "^":
            self._raise(postfix[1:], start, end)
            return
        part = self._stack.parts.pop()
        if postfix == "!" == part.node.sign and part.end == part.node.end:
            once = shorten(self._text[part.start : start])
            other = "the product of every second number"
            reason = MESSAGES["grouped"].format(typed=f"{once}!", grouped=f"({once})!", mixed=other)
            raise ExpressionError(_SYNTAX, reason, start, end)
        node = Expression(postfix, (part.node,), part.start, end)
        self._stack.parts.append(Part(node, part.start, end))

    def _raise(self, exponent: str, start: int, end: int) -> None:
        """Makes a power of the last part. That of sin 2² is said."""
        self._stack.say_last()
        power = Part(literal(Number(int(exponent)), start, end), start, end)
        self._stack.parts.append(operation("^", self._stack.parts.pop(), power))

    def _begins_factor(self, start: int, character: str) -> bool:
        """Returns whether a factor begins at `start`: 2(3+4) is a product. 6/2(3) is refused, and
        2^3(4) and sin 2(3) as well, because people read them in two ways."""
        is_function = self._match("function", start) is not None
        is_opening = character == "(" or (character == "|" and not self._stack.closes("|"))
        is_opening |= character != "e" and self._match("constant", start) is not None
        before = self._normal[max(0, start - 100) : start].rstrip(" ")
        sign = self._stack.last.last
        if not (is_opening or is_function) or sign in _TIGHT:
            return False
        if sign in NAMES and not is_function:
            return False
        if not _PATTERNS["ends_in_factor"].search(before):
            return False
        if sign in NAMES:  # sin3cos4 is sin(3)*cos(4)
            self._stack.say_last()
        is_spaced = before[-1] in DIGITS and self._normal[start - 1] == " "
        fraction = self._match("in_parentheses", start) if is_spaced else None
        if fraction and 0 < int(fraction[1]) < int(fraction[2]):  # with a space, it is not mixed
            first = self._stack.parts[-1].start
            read = f"{self._text[first:start].rstrip(SPACES)}*{self._text[start : fraction.end()]}"
            self._stack.say(self._text[first : fraction.end()], read)
        return True

    def _pair(self, start: int) -> tuple[str, int, int] | None:
        """Returns the word between two operands of `sum of 3 and 4`, as an operation and its
        position, or None."""
        typed = self._match("between", start)
        opening = self._stack.last_opening()
        if not typed or not opening:
            return None
        words = f"{single_spaced(opening.character)} {typed[0]}"
        return (words, start, typed.end()) if words in spelling.PAIRS else None

    def _end(self, start: int, position: int) -> None:
        """Reads the end of the text, or a = at its end."""
        self._stack.complete(Rank.OPENING)
        closed = []
        while opening := self._stack.last_opening():
            if opening.character not in ("(", "of"):
                raise self._error(start)
            closed += [opening.start] if opening.character == "(" else []
            self._stack.close(start)
            self._stack.complete(Rank.OPENING)
        if closed:
            typed = self._text[closed[-1] : start].rstrip(SPACES)
            self._stack.say(typed, shorten(typed) + ")" * min(len(closed), MAX_SHOWN))
        end, more = self._next(position)
        if more:
            raise ExpressionError(_SYNTAX, MESSAGES["end"], end, end_of_token(self._normal, end))

    # The text

    def _match(self, pattern: str, position: int) -> re.Match[str] | None:
        return _PATTERNS[pattern].match(self._normal, position)

    def _next(self, position: int) -> tuple[int, str]:
        """Returns the position of the next character that is not a space, and it; "" at the end."""
        while self._normal[position : position + 1] == " ":
            position += 1
        return position, self._normal[position : position + 1]

    def _error(self, start: int, is_operand: bool = False) -> ExpressionError:
        """Returns the error for what is at `start`, where an operation or operand is expected."""
        opening = self._stack.last_opening()
        where = (opening.character, opening.start) if opening else ("", 0)
        last_sign = self._stack.last.last
        return error_at(start, self._text, self._normal, is_operand, last_sign, where)
